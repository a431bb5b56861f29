"""The SOPT-R-tree: Algorithms 1 and 2 against their definitions."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from tests.unit.index.asked import PLAIN
from tests.unit.index.ranked.scored_cases import PAPER, scored_intervals
from tests.unit.made import GREATEST, LEAST

from earmark.index.ranked.sopt_r_tree import SoptRTree, arrangement, constraint_graph


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
    index._hold(index._table, arrays._replace(**swapped))
    with pytest.raises(AssertionError, match="breaks the constraint graph"):
        index.check()
