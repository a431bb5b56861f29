"""What the tests of the scored indexes share: answers against a plain Python loop, and the paper's ten intervals."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numba import config
from tests.unit.made import (
    Constraint,
    Event,
    Made,
    Maker,
    Subscription,
    Value,
    best,
    event_arrays,
    matching,
    table_arrays,
)

from earmark.index.cell_table import CellTable
from earmark.index.interval_tree import IntervalTree
from earmark.index.ir_tree import IRTree
from earmark.index.r_tree import RTree
from earmark.index.scored.base import ScoredIndex
from earmark.index.segment_tree import SegmentTree
from earmark.index.sopt_r_tree import SoptRTree
from earmark.model import bits
from earmark.model.arrays import U64, TableArrays, frozen

PLAIN = bool(config.DISABLE_JIT)
"""Without the JIT a search is a thousand times slower: the same tests on less."""
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


def eligible(made: Made) -> U64:
    return bits.from_slots(np.flatnonzero(made.eligible), len(made.subscriptions))


def assert_matches(made: Made, index: ScoredIndex) -> None:
    pointers, slots = index.match_batch(event_arrays(made, made.events), eligible(made))
    assert pointers.dtype == np.int64
    assert slots.dtype == np.int32
    assert [slots[a:b].tolist() for a, b in pairwise(pointers)] == [matching(made, event) for event in made.events]
    assert index.work.matched == len(slots)


def assert_ranks(made: Made, index: ScoredIndex, k: int, relaxed: bool) -> None:
    pointers, slots, scores = index.top_k_batch(event_arrays(made, made.events), k, eligible(made), relaxed)
    answers = [list(zip(slots[a:b].tolist(), scores[a:b].tolist(), strict=True)) for a, b in pairwise(pointers)]
    assert answers == [best(made, event, k, relaxed) for event in made.events]


def assert_answers(made: Made, index: ScoredIndex) -> None:
    """Every question, every mode."""
    index.check()
    assert_matches(made, index)
    for k in (1, 3, 1000):
        for relaxed in (False, True):
            assert_ranks(made, index, k, relaxed)
    events = event_arrays(made, made.events)
    for e, event in enumerate(made.events[:2]):
        assert index.match(events, eligible(made), e).tolist() == matching(made, event)
        slots, scores = index.top_k(events, 2, eligible(made), True, e)
        assert list(zip(slots.tolist(), scores.tolist(), strict=True)) == best(made, event, 2, True)


def one_interval_each(made: Made) -> Made:
    """The same with at most one constraint a subscription: what lists alone can answer."""
    for subscription in made.subscriptions:
        subscription.clauses = [dict(list(clause.items())[:1]) for clause in subscription.clauses[:1]]
    return made


def random_made(seed: int) -> Made:
    made = Maker(seed).made(SLOTS, EVENTS)
    return one_interval_each(made) if seed % 3 == 2 else made


def scored_intervals(intervals: list[tuple[int, int]], scores: list[float] | None = None) -> TableArrays:
    """A table of one attribute; by default the first scores best."""
    n = len(intervals)
    given = scores if scores is not None else [float(n - i - 1) for i in range(n)]
    made = Made([Subscription([{0: Constraint([pair])}], given[i], i) for i, pair in enumerate(intervals)], [])
    made.scored = True
    return table_arrays(made)


def point(key: int) -> Event:
    return {0: Value(key, key)}


def naive_stabbed(table: TableArrays, lo: int, hi: int) -> list[tuple[int, float]]:
    """Of a table of `scored_intervals`: (slot, score) that [lo, hi] meets, best first."""
    found = np.flatnonzero((table.lo <= hi) & (lo <= table.hi))
    score = table.score + 1.0
    order = found[np.lexsort((table.sequence[found], -score[found]))]
    return [(int(slot), float(score[slot])) for slot in order]


def random_intervals(seed: int, n: int, domain: int, longest: int, levels: int) -> TableArrays:
    """Intervals of one attribute with `levels` different scores; a tenth reach to an end of the key space."""
    random = np.random.default_rng(seed)
    lo = random.integers(0, domain, n)
    hi = lo + random.integers(0, longest, n)
    lo[random.random(n) < 0.05] = np.iinfo(np.int64).min
    hi[random.random(n) < 0.05] = np.iinfo(np.int64).max
    table = scored_intervals([(0, 0)] * n)
    score = random.integers(0, levels, n).astype(np.float64)
    return table._replace(lo=frozen(lo), hi=frozen(hi), score=frozen(score))
