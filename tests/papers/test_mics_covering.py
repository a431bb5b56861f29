"""MICS, the side of subscriptions: figures 4 and 5 and the steps of Algorithm 1, with the readings that we chose."""

from __future__ import annotations

import numpy as np

from earmark import Matcher
from earmark.cover.canonical import canonical
from earmark.cover.exact import Verdict
from earmark.cover.merging.merge import merge
from earmark.cover.merging.unite import around
from earmark.cover.ranges.subsumption import Subsumption
from earmark.cover.ranges.table import APART, INSIDE, MERGED, RangeTable, as_ranges
from earmark.curves.space import space_of


def table_of(*ranges: tuple[int, int], gap: int = 0) -> RangeTable:
    made = RangeTable(gap)
    for one in ranges:
        made.subscribe([one])
    return made


def test_figure_4_total_and_partial_covering() -> None:
    """a: all ranges of s2 lie in ranges of s1. b: one of them does, and only the other is forwarded."""
    table = RangeTable()
    table.subscribe([(10, 19), (30, 49)])
    forward, fate = table.take_in(as_ranges([(12, 15), (33, 48)]))
    assert forward.pairs() == [] and fate.tolist() == [INSIDE, INSIDE]
    forward, fate = table.take_in(as_ranges([(11, 14), (60, 64)]))
    assert forward.pairs() == [(60, 64)] and fate.tolist() == [INSIDE, APART]


def test_algorithm_1_step_by_step() -> None:
    """The paper forwards a range that is not inside whole; we forward what of it is new, so that it is known once."""
    table = table_of((2, 9), (15, 17), (20, 20))
    for new, forward, fate, after in (
        ((4, 7), [], INSIDE, [(2, 9), (15, 17), (20, 20)]),  # step 1: inside L_min
        ((8, 11), [(10, 11)], MERGED, [(2, 11), (15, 17), (20, 20)]),  # step 3: with L_min
        ((15, 21), [(18, 19), (21, 21)], MERGED, [(2, 11), (15, 21)]),  # step 2: swallows two leaves
        ((13, 13), [(13, 13)], APART, [(2, 11), (13, 13), (15, 21)]),
        ((14, 14), [(14, 14)], MERGED, [(2, 11), (13, 21)]),  # step 3: touches L_min and L_max
        ((0, 0), [(0, 0)], APART, [(0, 0), (2, 11), (13, 21)]),  # there is no L_min
        ((3, 18), [(12, 12)], MERGED, [(0, 0), (2, 21)]),  # overlaps both, and covers neither
    ):
        found, fates = table.take_in(as_ranges([new]))
        assert (found.pairs(), fates.tolist(), table.ranges().pairs()) == (forward, [fate], after)


def test_imperfect_merging_forwards_the_gap() -> None:
    table = table_of((0, 9), (20, 29), gap=10)
    assert table.ranges().pairs() == [(0, 29)]
    assert table_of((0, 9), (21, 29), gap=10).ranges().pairs() == [(0, 9), (21, 29)]
    again = RangeTable(gap=10)
    again.subscribe([(0, 9)])
    assert again.subscribe([(20, 29)]).pairs() == [(10, 29)]


def test_subsumption_of_section_3_7() -> None:
    """No subscription covers the new one; all of its cells are taken by several."""
    m = Matcher(attributes={"x": "integer", "y": "integer"})
    m.add("left", "x BETWEEN 1 AND 3 AND y BETWEEN 1 AND 6")
    m.add("right", "x BETWEEN 4 AND 6 AND y BETWEEN 1 AND 6")
    m.add("middle", "x BETWEEN 2 AND 5 AND y BETWEEN 3 AND 4")
    m.add("beyond", "x BETWEEN 0 AND 5 AND y BETWEEN 1 AND 2")
    table = canonical(m._version.whole)
    cuts = np.arange(1, 7, dtype=np.int64)
    broker = Subsumption(space_of(np.array([0, 1], np.int32), [cuts, cuts], 3))
    told = [broker.subscribe(slot, table) for slot in range(4)]
    assert [one.verdict for one in told] == [Verdict.NEEDED, Verdict.NEEDED, Verdict.SUBSUMED, Verdict.PARTLY]
    assert broker.verdict(2, table, exact=True).verdict is Verdict.SUBSUMED
    assert broker.verdict(3, table, exact=True).verdict is Verdict.NEEDED


def test_figure_5_the_bounding_box_of_three() -> None:
    """5b: one rectangle around three. 5c, the polygon, is what ranges make; of conditions, where they allow it."""
    m = Matcher(attributes={"x": "integer", "y": "integer"})
    m.add("s1", "x BETWEEN 0 AND 3 AND y BETWEEN 0 AND 3")
    m.add("s2", "x BETWEEN 3 AND 6 AND y BETWEEN 2 AND 5")
    m.add("s3", "x BETWEEN 5 AND 9 AND y BETWEEN 4 AND 7")
    points = [{"x": x, "y": y} for x in range(10) for y in range(8)] * 12
    (row,) = merge(m, points, 5.0).rows()
    assert row == ("s1", "x BETWEEN 0 AND 9 AND y BETWEEN 0 AND 7", ["s1", "s2", "s3"])
    assert len(merge(m, points, 0.0)) == 3  # no two differ on one attribute alone
    table = canonical(m._version.whole)
    assert not around(table, np.array([0, 1]), np.array([1, 2]))[1].any()
