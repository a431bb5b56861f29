"""Numbers of a verdict as text, with enough digits that none looks like a limit that it is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from earmark.report.experiment import X

MOST_DIGITS = 15


def divided(value: float, other: float) -> float:
    """Return a ratio; infinite or NaN where the other is 0."""
    if other:
        return value / other
    return float("inf") if value else float("nan")


def times(ratio: float, limits: Sequence[float] = ()) -> str:
    """Return a ratio as text: "2.1×"; with more digits where it would look equal to a limit, or beyond it."""
    return _apart(ratio, limits, _short_ratio) + "×"


def number(value: float, limits: Sequence[float] = ()) -> str:
    """Return a number with three significant digits or all before the point, as text.

    It has more digits where it would look equal to one of `limits`, or beyond it, and is not.
    """
    return _apart(value, limits, _short_number)


def numbers(values: Sequence[float]) -> list[str]:
    """Return numbers as text, with more digits where neighbours would look equal and are not."""
    return _distinct(values, _short_number)


def all_times(ratios: Sequence[float]) -> list[str]:
    """Return ratios as text, with more digits where neighbours would look equal and are not."""
    return [f"{text}×" for text in _distinct(ratios, _short_ratio)]


def percent(factor: float, limits: Sequence[float] = ()) -> str:
    """Return how far a factor is from 1: 1.05 and 0.95 are "5 %"; `limits` are factors, too."""
    return f"{number(_share(factor), [_share(limit) for limit in limits])} %"


def _share(factor: float) -> float:
    return round(100 * abs(factor - 1), 9)


def text_of(x: X) -> str:
    """Return a place on the x axis as text."""
    return x if isinstance(x, str) else number(float(x))


def limit_of(limit: float) -> str:
    """Return a limit as text, with all its digits."""
    return f"{limit:,.10g}"


def _apart(value: float, limits: Sequence[float], short: Callable[[float], str]) -> str:
    text = short(value)
    digits = 0
    while digits < MOST_DIGITS and not _same_sides(text, value, limits):
        digits += 1
        text = f"{value:,.{digits}f}"
    return text


def _same_sides(text: str, value: float, limits: Sequence[float]) -> bool:
    """Return whether the number in a text is on the same side of every limit as the value."""
    if value != value:
        return True
    shown = float(text.replace(",", ""))
    return all((shown > limit) == (value > limit) and (shown < limit) == (value < limit) for limit in limits)


def _distinct(values: Sequence[float], short: Callable[[float], str]) -> list[str]:
    texts = [short(value) for value in values]
    digits = 0
    while digits < MOST_DIGITS and any(
        text == other and value != following
        for (text, other), (value, following) in zip(pairwise(texts), pairwise(values), strict=True)
    ):
        digits += 1
        texts = [max(short(value), f"{value:,.{digits}f}", key=len) for value in values]
    return texts


def _short_ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 1 else f"{ratio:.1f}" if ratio < 100 else f"{ratio:,.0f}"


def _short_number(value: float) -> str:
    if value != value:
        return "–"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.3g}"
