"""The SOPT-R-tree: Algorithms 1 and 2 against their definitions."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.unit.index.scored_cases import (
    PAPER,
    PLAIN,
    SEEDS,
    assert_answers,
    naive_stabbed,
    random_intervals,
    random_made,
    scored_intervals,
)
from tests.unit.made import GREATEST, LEAST, table_arrays

from earmark.index.sopt_r_tree import SoptRTree, arrangement, constraint_graph

OPTIONS: list[dict[str, Any]] = [{}, {"branching": 2}, {"branching": 64}]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_answers_on_random_tables(options: dict[str, Any], seed: int) -> None:
    made = random_made(300 + seed)
    assert_answers(made, SoptRTree.build(table_arrays(made), **options))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_getnext_gives_each_interval_once_and_best_first(options: dict[str, Any]) -> None:
    for seed, (domain, longest, levels) in enumerate(((1000, 60, 10**6), (40, 10, 3), (10**12, 10**11, 50), (5, 2, 1))):
        table = random_intervals(seed, 60 if PLAIN else 400, domain, longest, levels)
        index = SoptRTree.build(table, **options)
        index.check()
        random = Random(seed)
        for _ in range(10):
            lo = random.choice([random.randrange(domain + longest), int(table.lo[3]), int(table.hi[5])])
            for hi in (lo, min(lo + random.randrange(domain), GREATEST), GREATEST):
                relaxed = options.get("modes") == "relaxed"
                assert list(index.stabbed(0, lo, hi, relaxed)) == naive_stabbed(table, lo, hi)


def test_getnext_resumes() -> None:
    iterator = SoptRTree.build(scored_intervals(PAPER)).stabbed(0, 80)
    assert [iterator.getnext() for _ in range(7)] == [(1, 9.0), (3, 7.0), (6, 4.0), (7, 3.0), (9, 1.0), None, None]


def test_arrays_that_were_saved_are_taken_back() -> None:
    made = random_made(5)
    built = SoptRTree.build(table_arrays(made))
    saved = {name: array.copy() for name, array in built.arrays._asdict().items()}
    assert_answers(made, SoptRTree.restore(table_arrays(made), saved))


def naive_edges(intervals: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """The definition of the graph: some key that both have and nobody of a rank between."""
    keys = sorted({key for pair in intervals for key in pair} | {hi + 1 for _, hi in intervals})
    found = set()
    for key in keys:
        over = [rank for rank, (lo, hi) in enumerate(intervals) if lo <= key <= hi]
        found |= set(pairwise(over))
    return found


def naive_arrangement(intervals: list[tuple[int, int]]) -> list[int]:
    edges, left, order = naive_edges(intervals), set(range(len(intervals))), []
    while left:
        ready = [rank for rank in left if not any(a in left for a, b in edges if b == rank)]
        order.append(min(ready, key=lambda rank: (intervals[rank][0], rank)))
        left.remove(order[-1])
    return order


@pytest.mark.parametrize("seed", range(4 if PLAIN else 25))
def test_graph_and_arrangement_are_those_of_the_definitions(seed: int) -> None:
    random = Random(seed)
    domain = random.choice((4, 30, 500))
    intervals = []
    for _ in range(random.choice((1, 2, 12, 40))):
        lo = random.randrange(domain)
        intervals.append((lo, lo + random.randrange(random.choice((1, 5, domain)))))
    lo, hi = (np.array(column, np.int64) for column in zip(*intervals, strict=True))
    above, below = constraint_graph(lo, hi)
    assert set(zip(above.tolist(), below.tolist(), strict=True)) == naive_edges(intervals)
    assert len(above) <= 3 * len(intervals)
    assert arrangement(lo, hi).tolist() == naive_arrangement(intervals)


def test_keys_at_both_ends() -> None:
    intervals = [(LEAST, GREATEST), (GREATEST, GREATEST), (LEAST, LEAST), (0, GREATEST), (LEAST, -1)]
    lo, hi = (np.array(column, np.int64) for column in zip(*intervals, strict=True))
    above, below = constraint_graph(lo, hi)
    assert set(zip(above.tolist(), below.tolist(), strict=True)) == {(0, 1), (0, 2), (0, 3), (1, 3), (0, 4), (2, 4)}


def test_check_sees_a_broken_arrangement() -> None:
    index = SoptRTree.build(scored_intervals(PAPER), branching=16)
    arrays = index.arrays
    swapped = {}
    for name in ("lo", "hi", "score", "ref"):
        array = getattr(arrays, name).copy()
        array[[0, 9]] = array[[9, 0]]
        swapped[name] = array
    index._set(arrays._replace(**swapped))
    with pytest.raises(AssertionError, match="breaks the constraint graph"):
        index.check()
