"""Conditions as ranges: never a miss, what is forwarded, and tables that always equal one made afresh."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.cover.worlds import EVENTS, World

from earmark import Matcher
from earmark.cover.canonical import canonical
from earmark.cover.exact import Verdict
from earmark.cover.ranges.subsumption import Subsumption, ranges_of_slots
from earmark.cover.ranges.table import RangeSet, as_ranges
from earmark.curves import hilbert
from earmark.curves.space import Space, boxes_of_events, learned_space, space_of
from earmark.errors import EarmarkError
from earmark.events.arrays import EventArrays
from earmark.flat.arrays import frozen


def worlds_space(random: Random) -> Space:
    """Two or three axes with few cells, cut anywhere."""
    attributes = sorted(random.sample(range(3), random.choice((1, 2, 3))))
    cuts = [np.array(sorted(random.sample(range(-9, 10), random.choice((1, 3, 6)))), np.int64) for _ in attributes]
    return space_of(np.array(attributes, np.int32), cuts, 3)


def numbers_of_events(space: Space) -> np.ndarray:
    """The cell of every event of the small worlds."""
    counts = [sum(v is not None for v in e) for e in EVENTS]
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    attr = np.array([a for e in EVENTS for a, v in enumerate(e) if v is not None], np.int32)
    key = np.array([v for e in EVENTS for v in e if v is not None], np.int64)
    events = EventArrays(*(frozen(column) for column in (start, attr, key, key.copy(), np.empty(0))))
    low, _ = boxes_of_events(space, events)
    return hilbert.numbers(low, int(space.bits[0]))


def taken(made: World, slot: int) -> np.ndarray:
    """Which of all events a subscription takes."""
    together = 0
    for bits in made.bits[slot]:
        together |= bits
    text = np.frombuffer(f"{together:0{len(EVENTS)}b}".encode(), np.uint8)
    return text[::-1] == ord("1")


class Lifetimes(RuleBasedStateMachine):
    """A broker and a neighbour that hears only what it is told; every event that a member takes is in its set."""

    @initialize(seed=st.integers(0, 2**32), gap=st.sampled_from((0, 0, 2, 9)))
    def begin(self, seed: int, gap: int) -> None:
        self.made = World(Random(seed))
        self.space = worlds_space(Random(seed))
        self.numbers = numbers_of_events(self.space)
        self.broker, self.neighbour = Subsumption(self.space, gap), RangeSet()

    @rule()
    def subscribe(self) -> None:
        slot = self.made.add(self.made.subscription())
        table = self.made.table()
        before = self.broker.verdict(slot, table).verdict
        cells = ranges_of_slots(self.space, table, np.array([slot])).of(0)
        told = self.broker.subscribe(slot, table)
        assert (told.verdict is Verdict.SUBSUMED) == (before is Verdict.SUBSUMED)
        # a range may lie in a gap that an earlier one of the same subscription has just closed
        assert told.verdict is before or self.broker.claimed.gap
        assert told.inside + told.merged + told.apart == len(cells.first)
        assert bool(told.forward) == (told.verdict is not Verdict.SUBSUMED)
        assert not told.withdraw
        self.neighbour.add(told.forward)

    @precondition(lambda self: len(self.broker))
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        members = st.sampled_from(list(self.broker))
        slots = data.draw(st.lists(members, min_size=1, max_size=4, unique=True))
        told = self.broker.unsubscribe(slots[0]) if len(slots) == 1 else self.broker.unsubscribe_many(slots)
        assert not told.forward
        assert bool(told.withdraw) == (told.verdict is Verdict.NEEDED)
        self.neighbour.discard(told.withdraw)

    @invariant()
    def as_if_made_afresh(self) -> None:
        if not hasattr(self, "broker"):
            return
        self.broker.check()
        afresh = Subsumption(self.space, self.broker.claimed.gap)
        afresh.subscribe_many(self.made.table(), np.array(list(self.broker), np.int32))
        wanted = afresh.claimed.ranges().pairs()
        assert self.broker.claimed.ranges().pairs() == wanted == self.neighbour.ranges().pairs()
        known = self.neighbour.holds(self.numbers)
        for slot in self.broker:
            assert known[taken(self.made, slot)].all()


Lifetimes.TestCase.settings = settings(
    max_examples=max(1, settings.default.max_examples // 4), stateful_step_count=25, deadline=None
)
TestLifetimes = Lifetimes.TestCase


@given(seed=st.integers(0, 2**32))
def test_exactly_subsumed_is_subsumed_in_cells(seed: int) -> None:
    """Cells only ever add: what the boxes cover, the cells cover."""
    made = World(Random(seed))
    for _ in range(10):
        made.add(made.subscription())
    table = made.table()
    broker = Subsumption(worlds_space(Random(seed)))
    broker.subscribe_many(table, np.arange(9, dtype=np.int32))
    if broker.verdict(9, table, exact=True).verdict in (Verdict.COVERED, Verdict.SUBSUMED):
        assert broker.verdict(9, table).verdict is Verdict.SUBSUMED


def test_conditions_of_all_types() -> None:
    m = Matcher(attributes={"when": "timestamp", "city": "string", "price": "decimal(9,2)"})
    m.add("a", "city = 'Oslo' AND price < 10")
    m.add("b", "city IN ('Oslo', 'Rome') AND price BETWEEN 8 AND 20")
    m.add("c", "city = 'Oslo' AND price BETWEEN 1 AND 15")
    m.add("d", "when >= TIMESTAMP '2024-01-01 00:00:00' OR city = 'Lima'")
    table = canonical(m._version.whole)
    broker = Subsumption(learned_space(table))
    verdicts = [broker.subscribe(slot, table).verdict for slot in range(4)]
    assert verdicts[0] is Verdict.NEEDED and verdicts[2] is Verdict.SUBSUMED
    assert broker.verdict(2, table, exact=True).verdict is Verdict.SUBSUMED
    assert len(broker) == 4 and 3 in broker
    broker.check()


@given(seed=st.integers(0, 2**32), gap=st.sampled_from((0, 3)))
def test_many_at_once_are_as_one_after_the_other(seed: int, gap: int) -> None:
    made = World(Random(seed))
    for _ in range(20):
        made.add(made.subscription())
    table, space = made.table(), worlds_space(Random(seed))
    together, single = Subsumption(space, gap), Subsumption(space, gap)
    found = together.subscribe_many(table, np.arange(20, dtype=np.int32))
    assert found.tolist() == [bool(single.subscribe(slot, table).forward) for slot in range(20)]
    assert together.claimed.ranges().pairs() == single.claimed.ranges().pairs()
    together.check()
    for slot in range(0, 20, 2):
        assert together.unsubscribe(slot).withdraw.pairs() == single.unsubscribe(slot).withdraw.pairs()
    gone = RangeSet()
    for slot in range(1, 20, 4):
        gone.add(single.unsubscribe(slot).withdraw)
    assert together.unsubscribe_many(range(1, 20, 4)).withdraw.pairs() == gone.ranges().pairs()


def test_batches_agree_with_single_questions() -> None:
    rng = np.random.default_rng(3)
    m = Matcher()
    m.add_many(
        [
            (i, f"x BETWEEN {a} AND {a + 9} AND y BETWEEN {b} AND {b + 9}")
            for i, (a, b) in enumerate(rng.integers(0, 60, (80, 2)).tolist())
        ]
    )
    table = canonical(m._version.whole)
    space = learned_space(table, axes=2, bits=5)
    broker = Subsumption.build(table, np.arange(60, dtype=np.int32), space)
    batch = ranges_of_slots(space, table, np.arange(80))
    single = [broker.verdict(slot, table).verdict is Verdict.SUBSUMED for slot in range(80)]
    assert broker.claimed.covered_batch(*batch).tolist() == single
    assert all(single[:60])


@given(seed=st.integers(0, 2**32), most=st.sampled_from((1, 2, 5)))
def test_large_boxes_are_made_of_larger_cells(seed: int, most: int) -> None:
    """They ask for more, never for less, and have about as many ranges as permitted."""
    made = World(Random(seed))
    for _ in range(12):
        made.add(made.subscription())
    table, space = made.table(), worlds_space(Random(seed))
    exact, coarse = (ranges_of_slots(space, table, np.arange(12), m) for m in (1 << 10, most))
    for slot in range(12):
        wide = RangeSet(coarse.of(slot))
        wide.check()
        assert all(wide.holds(np.arange(a, b + 1)).all() for a, b in exact.of(slot).pairs())
    assert len(coarse.first) <= len(exact.first)


def test_mistakes_get_a_sentence() -> None:
    m = Matcher()
    m.add("a", "x = 1")
    table = canonical(m._version.whole)
    broker = Subsumption.build(table)
    with pytest.raises(EarmarkError, match="already a member"):
        broker.subscribe(0, table)
    with pytest.raises(EarmarkError, match="already a member"):
        broker.subscribe_many(table, np.array([0], np.int32))
    with pytest.raises(EarmarkError, match="given twice"):
        Subsumption(broker.space).subscribe_many(table, np.array([0, 0], np.int32))
    broker.unsubscribe(0)
    with pytest.raises(EarmarkError, match="not subscribed"):
        broker.unsubscribe(0)
    broker.subscribe(0, table)
    with pytest.raises(EarmarkError, match="given twice"):
        broker.unsubscribe_many([0, 0])
    assert 0 in broker


def test_a_client_computes_the_ranges() -> None:
    m = Matcher()
    m.add("a", "x BETWEEN 0 AND 9 AND y = 3")
    table = canonical(m._version.whole)
    here, there = Subsumption.build(table), Subsumption(learned_space(table))
    told = there.subscribe_ranges(0, as_ranges(ranges_of_slots(there.space, table, np.array([0])).of(0)))
    assert told.forward.pairs() == here.claimed.ranges().pairs()
