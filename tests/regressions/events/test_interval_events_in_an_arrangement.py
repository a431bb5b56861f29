"""The SOPT arrangement puts disjoint intervals by their left ends, so an event that meets both needs another order."""

from __future__ import annotations

from tests.unit.index.ranked.scored_cases import naive_stabbed, scored_intervals

from earmark.index.ranked.sopt_r_tree import SoptRTree


def test_the_better_interval_comes_first_though_it_stands_later() -> None:
    table = scored_intervals([(50, 60), (0, 10)])
    index = SoptRTree.build(table)
    assert index.arrays.ref[:2].tolist() == [1, 0]
    assert list(index.stabbed(0, 5, 55)) == naive_stabbed(table, 5, 55) == [(0, 2.0), (1, 1.0)]
