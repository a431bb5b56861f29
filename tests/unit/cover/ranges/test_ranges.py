"""The table of ranges against sets of numbers, through whole lifetimes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from earmark.cover.ranges import ordered
from earmark.cover.ranges.table import GREATEST, Ranges, RangeSet, RangeTable, as_ranges, balance
from earmark.errors import EarmarkError

TOP = 120
pairs = st.tuples(st.integers(0, TOP), st.integers(0, 12)).map(lambda p: (p[0], min(TOP, p[0] + p[1])))
subscriptions = st.lists(pairs, max_size=5)


def numbers(ranges: list[tuple[int, int]]) -> set[int]:
    return {n for first, last in ranges for n in range(first, last + 1)}


def claimed(asked: set[int], gap: int) -> set[int]:
    """The numbers asked for, and those between two of them that are at most `gap` apart."""
    inner = sorted(asked)
    return asked | {n for a, b in pairwise(inner) if b - a - 1 <= gap for n in range(a, b)}


@given(ranges=subscriptions)
def test_ranges_in_any_form(ranges: list[tuple[int, int]]) -> None:
    made = as_ranges(ranges).pairs()
    assert numbers(made) == numbers(ranges)
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(made))


@pytest.mark.parametrize("bad", [[(3, 2)], [(-1, 4)], [(0, GREATEST + 1)]])
def test_no_ranges(bad: list[tuple[int, int]]) -> None:
    with pytest.raises(EarmarkError, match="expected ranges as pairs of integers"):
        RangeSet(bad)


def test_algorithm_1_covers_subsumes_and_merges() -> None:
    table = RangeTable()
    assert table.subscribe([(10, 20), (40, 50)]).pairs() == [(10, 20), (40, 50)]
    assert table.subscribe([(12, 15)]).pairs() == []  # covered
    assert table.subscribe([(21, 30)]).pairs() == [(21, 30)]  # touches: merges perfectly
    assert table.ranges().pairs() == [(10, 30), (40, 50)]
    assert table.subscribe([(18, 25)]).pairs() == []  # subsumed: no single subscription covers it
    assert table.subscribe([(12, 13), (35, 45)]).pairs() == [(35, 39)]  # partly covered
    assert table.subscribe([(0, 60)]).pairs() == [(0, 9), (31, 34), (51, 60)]  # swallows all
    assert table.ranges().pairs() == [(0, 60)]
    assert table.unsubscribe([(0, 60)]).pairs() == [(0, 9), (31, 34), (51, 60)]
    assert table.holds(np.array([9, 10, 34, 35, 50, 51])).tolist() == [False, True, False, True, True, False]
    table.check()


def test_the_gap_is_forwarded() -> None:
    """Imperfect merging claims the gap, so a later subscription inside it is not forwarded: the gap must have been."""
    table = RangeTable(gap=5)
    neighbour = RangeSet()
    for one in ([(0, 10)], [(14, 20)], [(12, 12)]):
        neighbour.add(table.subscribe(one))
    assert table.ranges().pairs() == [(0, 20)]
    assert neighbour.holds(np.array([12])).tolist() == [True]
    assert neighbour.ranges().pairs() == [(0, 20)]


def test_both_ends_of_the_line() -> None:
    table = RangeTable(gap=2**62)
    assert table.subscribe([(GREATEST, GREATEST)]).pairs() == [(GREATEST, GREATEST)]
    assert table.subscribe([(0, 0)]).pairs() == [(0, 0)]
    assert len(table) == 2
    table.check()
    assert table.unsubscribe([(GREATEST, GREATEST)]).pairs() == [(GREATEST, GREATEST)]
    assert table.unsubscribe([(0, 0)]).pairs() == [(0, 0)]
    assert len(table) == 0
    table.check()


def test_unsubscribing_what_is_not_there() -> None:
    table = RangeTable()
    table.subscribe([(3, 9)])
    with pytest.raises(EarmarkError, match="not subscribed"):
        table.unsubscribe([(8, 12)])
    table.check()
    assert table.ranges().pairs() == [(3, 9)]


class Lifetimes(RuleBasedStateMachine):
    """A broker's table, and a neighbour that hears only what is forwarded and withdrawn."""

    @initialize(gap=st.sampled_from((0, 0, 1, 4)))
    def begin(self, gap: int) -> None:
        self.table, self.gap = RangeTable(gap), gap
        self.neighbour = RangeSet()
        self.live: list[list[tuple[int, int]]] = []

    @rule(ranges=subscriptions)
    def subscribe(self, ranges: list[tuple[int, int]]) -> None:
        before = claimed(self.asked(), self.gap)
        forward = self.table.subscribe(ranges)
        self.live.append(ranges)
        assert self.neighbour.add(forward).pairs() == forward.pairs()
        assert numbers(forward.pairs()) == claimed(self.asked(), self.gap) - before

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        ranges = self.live.pop(data.draw(st.integers(0, len(self.live) - 1)))
        before = claimed(self.asked() | numbers(ranges), self.gap)
        withdrawn = self.table.unsubscribe(ranges)
        assert self.neighbour.discard(withdrawn).pairs() == withdrawn.pairs()
        assert numbers(withdrawn.pairs()) == before - claimed(self.asked(), self.gap)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def let_several_go(self, data: st.DataObject) -> None:
        """In one call, though their ranges may overlap."""
        before = claimed(self.asked(), self.gap)
        count = data.draw(st.integers(1, len(self.live)))
        going = [self.live.pop(data.draw(st.integers(0, len(self.live) - 1))) for _ in range(count)]
        firsts, lasts = (np.concatenate([as_ranges(one)[end] for one in going]) for end in (0, 1))
        withdrawn = self.table.release(Ranges(firsts, lasts))
        self.neighbour.discard(withdrawn)
        assert numbers(withdrawn.pairs()) == before - claimed(self.asked(), self.gap)

    def asked(self) -> set[int]:
        return {n for ranges in self.live for n in numbers(ranges)}

    @invariant()
    def as_if_rebuilt(self) -> None:
        if not hasattr(self, "table"):
            return
        self.table.check()
        self.neighbour.check()
        wanted = claimed(self.asked(), self.gap)
        assert numbers(self.table.ranges().pairs()) == wanted == numbers(self.neighbour.ranges().pairs())
        assert numbers(self.table.asked().pairs()) == self.asked()
        assert self.table.holds(np.arange(TOP + 2)).tolist() == [n in wanted for n in range(TOP + 2)]
        assert all(self.table.covered(ranges) for ranges in self.live)


Lifetimes.TestCase.settings = settings(max_examples=max(1, settings.default.max_examples // 2))
TestLifetimes = Lifetimes.TestCase


def test_many_ranges_come_and_go() -> None:
    """Thousands of leaves' worth, and nothing is left at the end."""
    rng = np.random.default_rng(8)
    table = RangeTable()
    live: list[list[tuple[int, int]]] = []
    for step in range(6_000):
        if live and rng.random() < (0.3 if step < 3_000 else 0.7):
            table.unsubscribe(live.pop(rng.integers(len(live))))
        else:
            first = int(rng.integers(0, 10**6))
            live.append([(first, first + int(rng.integers(0, 60)))])
            table.subscribe(live[-1])
        if step % 1_000 == 0:
            table.check()
    while live:
        table.unsubscribe(live.pop())
    table.check()
    assert len(table) == 0
    for part in (table._merged, table._edges):
        assert (part.info[ordered.LEVELS], part.info[ordered.ENTRIES]) == (1, 0)  # an empty leaf


@pytest.mark.parametrize("gap", [0, 7])
def test_many_leave_in_one_call(gap: int) -> None:
    """The room of a call is worked out before: wide ranges full of holes, until nothing is left."""
    rng = np.random.default_rng(5)
    first = rng.integers(0, 30_000, 4_000)
    last = first + np.where(rng.random(4_000) < 0.01, rng.integers(0, 20_000, 4_000), rng.integers(0, 4, 4_000))
    table = RangeTable(gap)
    table.take_in(Ranges(first, last))
    left = np.ones(4_000, bool)
    for part in np.array_split(rng.permutation(4_000), 3):
        before = numbers(table.ranges().pairs())
        withdrawn = table.release(Ranges(first[part], last[part]))
        left[part] = False
        table.check()
        afresh = RangeTable(gap)
        afresh.take_in(Ranges(first[left], last[left]))
        assert table.ranges().pairs() == afresh.ranges().pairs()
        assert numbers(withdrawn.pairs()) == before - numbers(afresh.ranges().pairs())
    assert len(table) == 0


def test_a_table_counts_numbers_and_not_subscribers() -> None:
    """Whoever keeps the table keeps who asked for what: parts of what others asked for can be taken from them."""
    table = RangeTable()
    table.subscribe([(1, 9)])
    assert table.unsubscribe([(3, 4)]).pairs() == [(3, 4)]
    with pytest.raises(EarmarkError, match="were not subscribed"):
        table.unsubscribe([(3, 4)])
    with pytest.raises(EarmarkError, match="use subscribe"):
        table.add([(20, 30)])
    with pytest.raises(EarmarkError, match="use unsubscribe"):
        table.discard([(1, 2)])
    table.check()
    assert table.ranges().pairs() == [(1, 2), (5, 9)]


@given(
    gap=st.sampled_from((0, 1, 3, 9)),
    steps=st.lists(st.tuples(subscriptions, subscriptions), max_size=12),
)
def test_gaps_close_and_open_with_what_is_wanted(
    gap: int, steps: list[tuple[list[tuple[int, int]], list[tuple[int, int]]]]
) -> None:
    """What a set with gaps has depends on what is wanted alone, and it tells what comes and goes."""
    wanted, told, known = RangeSet(), RangeSet(), RangeSet()
    for added, removed in steps:
        before = wanted.ranges()
        wanted.add(added)
        wanted.discard(removed)
        new, old = balance(wanted.ranges(), before)
        came, went = told.put_in(new, gap), told.retreat(wanted, old, gap)
        told.check()
        assert numbers(told.ranges().pairs()) == claimed(numbers(wanted.ranges().pairs()), gap)
        assert known.add(came).pairs() == came.pairs() and known.discard(went).pairs() == went.pairs()
        assert known.ranges().pairs() == told.ranges().pairs()
