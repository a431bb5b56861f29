"""What users give to the functions of this package, checked: a sentence says what would be right."""

from __future__ import annotations

from numbers import Integral, Real

from earmark.errors import EarmarkError


def check_budget(budget: float) -> None:
    """Raise unless it is a share."""
    if isinstance(budget, bool) or not isinstance(budget, Real) or not 0 <= budget < float("inf"):
        raise EarmarkError(f"a budget is a share of extra traffic, such as 0.02 for 2 %; got {budget!r}")


def check_whole(number: int, what: str, least: int, most: int | None = None) -> None:
    """Raise unless it is a whole number from `least` on, and not above `most`."""
    good = isinstance(number, Integral) and not isinstance(number, bool)
    if not good or number < least or (most is not None and number > most):
        upto = "on" if most is None else f"to {most}"
        raise EarmarkError(f"{what} is a whole number from {least} {upto}; got {number!r}")
