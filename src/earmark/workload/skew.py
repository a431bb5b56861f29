"""Overlapping rectangles by the α–β rule: the workload of the VCR paper (vcr.txt, section 3.1).

A share α of the rectangles have their bottom-left corner uniformly in a *hot* rectangle around the middle of the
range, whose area is the share β of it; the others have it anywhere. Width and height are uniform in 1..W. Events
are points drawn by the same rule. The smaller β, the more rectangles contain an event:

    +--------------------------+        α = 0.9, β = 0.1: nine corners of ten inside the
    |        .     .           |        inner rectangle, whose sides are √0.1 of the outer
    |      +--------+     .    |
    |      |.:::.:::|          |        a predicate: a <= x <= a + w  AND  b <= y <= b + h,
    |   .  |::.:::.:|          |        w in 1..40, h in 1..20
    |      +--------+   .      |
    +--------------------------+

The paper prints two areas of the range, 60,000 and 3,000,000, but not their sides: here 300 × 200 and 2,000 × 1,500.
It does not say what happens to a rectangle that leaves the range either: here it is cut off at the border, so a few
have width 0 there.

Bit for bit: the same seed gives the same numbers, and fewer subscriptions are a prefix of more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from earmark.flat.arrays import F64, I64
from earmark.workload.standard import EVENTS, Workload, check, dense


class Grid(NamedTuple):
    """The range 0 <= x < width, 0 <= y < height."""

    width: int
    height: int


class Rule(NamedTuple):
    """The α–β rule; α = 0 is uniform."""

    alpha: float
    beta: float


MODERATE = Grid(300, 200)
"""R = 60,000, where the paper keeps one list header for every VCR."""

LARGE = Grid(2_000, 1_500)
"""R = 3,000,000, where it hashes."""

GRIDS = {"moderate": MODERATE, "large": LARGE}
RULES = {"uniform": Rule(0.0, 1.0), "90-10": Rule(0.9, 0.1), "90-1": Rule(0.9, 0.01)}
"""By the names the paper uses, from little overlap to much."""

WIDEST = (40, 20)
"""The paper's W for most of its experiments: the greatest width and height."""


def skew(
    rule: Rule | str = "90-10",
    subscriptions: int = 256_000,
    grid: Grid | str = "moderate",
    widest: tuple[int, int] = WIDEST,
    events: int = EVENTS,
    seed: int = 2003,
) -> Workload:
    """Draw rectangles over attributes 0 (x) and 1 (y), and points, by one α–β rule."""
    chosen: Rule = _named(RULES, rule, "rule")
    size: Grid = _named(GRIDS, grid, "grid")
    shares = 0 <= chosen.alpha <= 1 and 0 < chosen.beta <= 1
    check(shares, f"expected α from 0 to 1 and β above 0 and at most 1, got {chosen.alpha} and {chosen.beta}")
    least = min(*size, *widest, subscriptions, events)
    check(least >= 1, f"expected a grid, a greatest width and height, and counts of at least 1, got {least}")
    corner_stream, point_stream = (np.random.default_rng([seed, stream]) for stream in (0, 1))
    drawn = corner_stream.random((subscriptions, 5))
    lo = _points(drawn[:, :3], chosen, size)
    span = 1 + np.floor(drawn[:, 3:] * widest).astype(np.int64)
    hi = np.minimum(lo + span, np.array(size) - 1)
    value = _points(point_stream.random((events, 3)), chosen, size)
    return dense(lo, hi, value, max(size))


def _points(drawn: F64, rule: Rule, grid: Grid) -> I64:
    """Return integer points by the rule: column 0 decides whether a row is hot, 1 and 2 say where."""
    side = np.array(grid)
    hot = (drawn[:, 0] < rule.alpha)[:, None]
    size = np.where(hot, side * np.sqrt(rule.beta), side)
    return np.floor((side - size) / 2 + drawn[:, 1:] * size).astype(np.int64)


def _named(known: dict[str, Any], given: Any, what: str) -> Any:
    if not isinstance(given, str):
        return given
    check(given in known, f"expected the name of a {what}, one of {', '.join(known)}, got {given!r}")
    return known[given]
