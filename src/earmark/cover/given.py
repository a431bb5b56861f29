"""Checks of what users give to the functions of this package; each error says what would be right."""

from __future__ import annotations

from numbers import Integral, Real

from earmark.errors import EarmarkError


def check_budget(budget: float) -> None:
    """Raise unless the budget is a share of extra traffic."""
    if isinstance(budget, bool) or not isinstance(budget, Real) or not 0 <= budget < float("inf"):
        raise EarmarkError(f"expected a share of extra traffic as budget, such as 0.02 for 2 %, got {budget!r}")


def check_whole(number: int, what: str, least: int, most: int | None = None) -> None:
    """Raise unless the number is an integer from `least` on, and at most `most`."""
    good = isinstance(number, Integral) and not isinstance(number, bool)
    if not good or number < least or (most is not None and number > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise EarmarkError(f"expected an integer {bounds} for {what}, got {number!r}")
