"""What the tests of the scored indexes share: answers against a plain Python loop, and the paper's ten intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.unit.index.asked import PLAIN
from tests.unit.made import (
    Constraint,
    Event,
    Made,
    Maker,
    Subscription,
    Value,
    table_arrays,
)

from earmark.flat.arrays import frozen
from earmark.index.ranked.cell_table import CellTable
from earmark.index.ranked.ir_tree import IRTree
from earmark.index.ranked.sopt_r_tree import SoptRTree
from earmark.index.ranked.trees import IntervalTree, RTree, SegmentTree
from earmark.segment.arrays import SegmentArrays

SLOTS, EVENTS = (25, 6) if PLAIN else (150, 25)
SEEDS = range(2) if PLAIN else range(6)

STRUCTURES: dict[str, type[Any]] = {
    "interval_tree": IntervalTree,
    "segment_tree": SegmentTree,
    "r_tree": RTree,
    "ir_tree": IRTree,
    "sopt_r_tree": SoptRTree,
    "cell_table": CellTable,
}

PAPER = [(30, 55), (75, 90), (45, 55), (65, 90), (10, 30), (0, 30), (75, 100), (65, 100), (10, 45), (0, 100)]
"""The running example of Figures 2 to 5: interval i + 1, score 10 - i."""


def one_interval_each(made: Made) -> Made:
    """The same with at most one constraint a subscription: what lists alone can answer."""
    for subscription in made.subscriptions:
        subscription.clauses = [dict(list(clause.items())[:1]) for clause in subscription.clauses[:1]]
    return made


def random_made(seed: int) -> Made:
    made = Maker(seed).made(SLOTS, EVENTS)
    return one_interval_each(made) if seed % 3 == 2 else made


def scored_intervals(intervals: list[tuple[int, int]], scores: list[float] | None = None) -> SegmentArrays:
    """A table of one attribute; by default the first scores best."""
    n = len(intervals)
    given = scores if scores is not None else [float(n - i - 1) for i in range(n)]
    made = Made([Subscription([{0: Constraint([pair])}], given[i], i) for i, pair in enumerate(intervals)], [])
    made.scored = True
    return table_arrays(made)


def point(key: int) -> Event:
    return {0: Value(key, key)}


def naive_stabbed(table: SegmentArrays, lo: int, hi: int) -> list[tuple[int, float]]:
    """Of a table of `scored_intervals`: (slot, score) that [lo, hi] meets, best first."""
    found = np.flatnonzero((table.lo <= hi) & (lo <= table.hi))
    score = table.score + 1.0
    order = found[np.lexsort((table.sequence[found], -score[found]))]
    return [(int(slot), float(score[slot])) for slot in order]


def random_intervals(seed: int, n: int, domain: int, longest: int, levels: int) -> SegmentArrays:
    """Intervals of one attribute with `levels` different scores; a tenth reach to an end of the key space."""
    random = np.random.default_rng(seed)
    lo = random.integers(0, domain, n)
    hi = lo + random.integers(0, longest, n)
    lo[random.random(n) < 0.05] = np.iinfo(np.int64).min
    hi[random.random(n) < 0.05] = np.iinfo(np.int64).max
    table = scored_intervals([(0, 0)] * n)
    score = random.integers(0, levels, n).astype(np.float64)
    return table._replace(lo=frozen(lo), hi=frozen(hi), score=frozen(score))
