"""Subscription Indexing for covering and subsumption: the answers of a scan, through any life of the members."""

from __future__ import annotations

from functools import partial
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.cover.test_audit import sql
from tests.unit.cover.worlds import TYPES, World, world

from earmark import Matcher
from earmark.cover.canonical import canonical, continues
from earmark.cover.cover_index import CoverIndex, subsumed
from earmark.cover.exact import Verdict, decide
from earmark.cover.indexes import mics
from earmark.cover.indexes.members import Linear
from earmark.cover.indexes.mics import Auto, Mics
from earmark.cover.ranges.subsumption import Subsumption, learned_space
from earmark.errors import EarmarkError
from earmark.flat.arrays import I32
from earmark.index import mics as index_module
from earmark.index.mics import MicsIndex, build
from earmark.index.mics.plan import MicsOptions
from earmark.segment.arrays import SegmentArrays
from earmark.workload.mics import mics as drawn


@pytest.fixture(params=["usual", "all in lists", "all scanned"])
def lists(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """In a small space nearly every box is wide; whether such a one is in the lists or scanned must not matter."""
    monkeypatch.setattr(mics, "SHORTEST_TAIL", 3)
    if request.param != "usual":
        force_lists(monkeypatch, 1.0 if request.param == "all in lists" else 0.0)
    return str(request.param)


def force_lists(patch: pytest.MonkeyPatch, scanned: float) -> None:
    """Three axes whatever they are worth; boxes of which so much of the space is left are scanned."""
    patch.setattr(build, "SCANNED", scanned)
    patch.setattr(mics, "MicsOptions", partial(MicsOptions, (0, 1, 2), 4))


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No change waits for long, and everybody is worth an index at once."""
    monkeypatch.setattr(mics, "SHORTEST_TAIL", 3)
    monkeypatch.setattr(mics, "ENOUGH", 1)
    monkeypatch.setattr(mics, "QUESTIONS", 1)


def slots(*numbers: int) -> I32:
    return np.array(numbers, np.int32)


def sharing(made: World, slot: int, live: set[int]) -> set[int]:
    """Members that take an event which the slot takes."""
    return {other for other in live if any(a & b for a in made.bits[slot] for b in made.bits[other])}


@pytest.mark.parametrize("seed", range(4))
def test_nobody_who_matters_is_missed(seed: int, lists: str) -> None:
    made = world(seed, 90)
    table, live = made.table(), set(range(0, 90, 2)) | set(range(1, 90, 3))
    index = Mics.build(table, slots(*sorted(live)))
    index.check()
    linear = Linear.build(table, slots(*sorted(live)))
    if lists == "all in lists":
        assert len(index.arrays.entry) and not index.arrays.residual.any()
    if lists == "all scanned":
        assert not len(index.arrays.entry) and index.arrays.residual.any()
    for slot in range(90):
        met = index.meeting(slot).tolist()
        assert met == sorted(set(met)) and set(met) <= live
        assert set(met) >= sharing(made, slot, live)
        assert sorted(index.covering(slot).tolist()) == linear.covering(slot).tolist()
        assert index.covered(slot).tolist() == linear.covered(slot).tolist()
        assert index.covered(slot, 2).tolist() == linear.covered(slot, 2).tolist()
        assert index.mergeable(slot).tolist() == linear.mergeable(slot).tolist()


class Lives(RuleBasedStateMachine):
    """Members come, go and come back, in a table that grows; every question is answered as from scratch."""

    @initialize(seed=st.integers(0, 2**32), scanned=st.sampled_from((0.0, 1 / 8, 1.0)))
    def begin(self, seed: int, scanned: float) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(mics, "SHORTEST_TAIL", 2)
        force_lists(self.patch, scanned)
        self.made = World(Random(seed))
        self.live: set[int] = set()
        self.grow(6)
        self.index = Mics.build(self.table, slots())

    def grow(self, count: int) -> None:
        for _ in range(count):
            self.made.add(self.made.subscription())
        self.table = self.made.table()

    @rule(some=st.integers(1, 6), data=st.data())
    def insert(self, some: int, data: st.DataObject) -> None:
        self.grow(data.draw(st.integers(0, 4)))
        missing = sorted(set(range(len(self.made.clauses))) - self.live)
        chosen = data.draw(st.permutations(missing))[:some]
        self.index.insert(self.table, chosen)
        self.live |= set(chosen)

    @precondition(lambda self: self.live)
    @rule(some=st.integers(1, 6), data=st.data())
    def remove(self, some: int, data: st.DataObject) -> None:
        chosen = data.draw(st.permutations(sorted(self.live)))[:some]
        self.index.remove(chosen)
        self.live -= set(chosen)

    @invariant()
    def answers(self) -> None:
        if not hasattr(self, "index"):
            return
        self.index.check()
        assert self.index.members().tolist() == sorted(self.live)
        linear = Linear.build(self.table, slots(*sorted(self.live)))
        for slot in range(0, len(self.index.table.sequence), 3):
            assert set(self.index.meeting(slot).tolist()) >= sharing(self.made, slot, self.live)
            assert sorted(self.index.covering(slot).tolist()) == linear.covering(slot).tolist()
            assert self.index.covered(slot).tolist() == linear.covered(slot).tolist()
            assert self.index.mergeable(slot).tolist() == linear.mergeable(slot).tolist()

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()


Lives.TestCase.settings = settings(
    max_examples=max(1, settings.default.max_examples // 5), stateful_step_count=20, deadline=None
)
TestLives = Lives.TestCase


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("seed", range(40, 44))
def test_relations_are_those_of_a_scan(seed: int, lists: str) -> None:
    made = world(seed, 60)
    matcher = Matcher(attributes=TYPES)
    for slot in np.argsort(made.sequence).tolist():
        matcher.add(slot, sql(made.clauses[slot]))
    matcher.remove_many(list(range(0, 60, 7)))
    view = matcher._version.whole
    index = CoverIndex.of(matcher)
    everyone = np.arange(len(view))
    domain = view.schema.domains
    by_age = [slot for slot in np.argsort(made.sequence).tolist() if slot % 7]
    for id in by_age:
        slot = view.find(id)
        assert slot is not None
        wanted = decide(index.table, slot, everyone, domain)
        assert decide(index.table, slot, index.members.meeting(slot).astype(np.int64), domain) == wanted
        assert matcher.covered_by(id) == [other for other in by_age if made.covers(other, id)]
        assert matcher.covered(id) == [other for other in by_age if made.covers(id, other)]
        found = subsumed(matcher, id)
        assert (found.verdict, found.work) == (wanted.verdict, wanted.work)
        assert found.by == tuple(view.ids[int(one)] for one in wanted.by)
    assert index.members.indexed or lists != "all in lists"


@pytest.mark.parametrize("distribution", ["uniform", "zipf"])
@pytest.mark.parametrize("dimensions", [2, 3, 5])
def test_verdicts_on_the_paper_s_data(distribution: str, dimensions: int) -> None:
    count = 3_000
    table = drawn(distribution, count, 1, attributes=dimensions, sizes=8, grain=5).table()
    index, others = Mics.build(table), np.arange(count, dtype=np.int64)
    found = 0
    for slot in range(0, count, 60):
        candidates = index.meeting(slot).astype(np.int64)
        found += len(candidates)
        assert decide(table, slot, candidates) == decide(table, slot, others)
    assert found < 50 * count / 4


class Brokers(RuleBasedStateMachine):
    """Exact verdicts between subscribes and unsubscribes equal those of a scan of the members."""

    @initialize(seed=st.integers(0, 2**32), scanned=st.sampled_from((1 / 8, 1.0)))
    def begin(self, seed: int, scanned: float) -> None:
        self.patch = pytest.MonkeyPatch()
        force_lists(self.patch, scanned)
        for name, value in (("SHORTEST_TAIL", 2), ("ENOUGH", 3), ("QUESTIONS", 3)):
            self.patch.setattr(mics, name, value)
        self.made = World(Random(seed))
        for _ in range(4):
            self.made.add([self.made.clause()])
        self.table = self.made.table()
        self.broker = Subsumption.build(self.table)

    @rule(count=st.integers(1, 5))
    def subscribe(self, count: int) -> None:
        new = [self.made.add(self.made.subscription()) for _ in range(count)]
        self.table = self.made.table()
        if count == 1:
            self.broker.subscribe(new[0], self.table)
        else:
            self.broker.subscribe_many(self.table, slots(*new))

    @precondition(lambda self: len(self.broker))
    @rule(data=st.data(), back=st.booleans())
    def unsubscribe(self, data: st.DataObject, back: bool) -> None:
        slot = data.draw(st.sampled_from(sorted(self.broker)))
        self.broker.unsubscribe(slot)
        if back:
            self.broker.subscribe(slot, self.table)

    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        slot = data.draw(st.integers(0, len(self.table.sequence) - 1))
        found = self.broker.verdict(slot, self.table, exact=True)
        assert found == decide(self.table, slot, np.array(sorted(self.broker)))

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()


Brokers.TestCase.settings = settings(
    max_examples=max(1, settings.default.max_examples // 5), stateful_step_count=30, deadline=None
)
TestBrokers = Brokers.TestCase


def boxed(matcher: Matcher) -> SegmentArrays:
    return canonical(matcher._version.whole)


@pytest.mark.usefixtures("restless")
def test_another_table_is_not_taken_for_one_that_has_grown() -> None:
    """A new generation has other keys: the index of the old one is of no use."""
    first, second = Matcher(), Matcher()
    first.add_many([(i, f"x BETWEEN {10 * i} AND {10 * i + 12}") for i in range(20)])
    second.add_many([(i, f"x BETWEEN {10 * (19 - i)} AND {10 * (19 - i) + 5}") for i in range(20)])
    broker = Subsumption.build(boxed(first))
    for _ in range(3):
        assert broker.verdict(3, boxed(first), exact=True).verdict is Verdict.NEEDED
    for slot in range(20):
        with pytest.raises(EarmarkError, match="make it again"):
            broker.verdict(slot, boxed(second), exact=True)
        assert broker.verdict(slot, exact=True) == decide(boxed(first), slot, np.arange(20))
    assert continues(boxed(first), boxed(first)) and not continues(boxed(second), boxed(first))


def test_scanned_until_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mics, "ENOUGH", 300)
    monkeypatch.setattr(mics, "QUESTIONS", 5)
    table = drawn("uniform", 400, 1, attributes=3, sizes=4).table()
    few, many = (Auto.build(table, np.arange(count, dtype=np.int32)) for count in (299, 300))
    for question in range(1, 8):
        assert len(few.meeting(7)) == 299
        assert (len(many.meeting(7)) < 300) == many.indexed == (question > 5)
    assert not few.indexed
    few.insert(table, list(range(299, 310)))
    assert len(few.meeting(7)) < 300 and few.indexed


def test_an_index_that_is_of_no_use_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mics, "ENOUGH", 200)
    monkeypatch.setattr(mics, "QUESTIONS", 3)
    m = Matcher()
    m.add_many([(i, f"a{i % 100} = {i}") for i in range(300)])  # no few attributes are in most of them
    table = boxed(m)
    related = Auto.build(table, np.arange(300, dtype=np.int32))
    made = []
    build_it = Mics.build.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(Mics, "build", classmethod(lambda cls, *args: made.append(0) or build_it(cls, *args)))
    for _ in range(30):
        assert len(related.meeting(5)) == 300 and not related.indexed
    assert len(made) == 3  # after 3, 8 and 18 questions


@pytest.mark.usefixtures("restless")
def test_what_never_matches() -> None:
    m = Matcher()
    m.add_many([(i, f"x BETWEEN {i} AND {i + 1}") for i in range(12)])
    m.add_many([(100, "x > 3 AND x < 2"), (101, "x IN (1) AND x = 2")])
    for _ in range(3):
        assert subsumed(m, 100).verdict is Verdict.COVERED and subsumed(m, 100).by == (0,)
        assert m.covered(5) == [100, 101] and m.covered(100) == [101]
        assert m.covered_by(101) == [*range(12), 100]


def test_a_space_is_learned_from_the_slots_given() -> None:
    """What has been unsubscribed, or never was a member, neither chooses attributes nor moves cells."""
    m = Matcher(attributes=dict.fromkeys("xyz", "integer"))
    m.add_many([(i, f"x BETWEEN {i} AND {i + 1}") for i in range(200)])
    m.add_many([(1000 + i, f"x = {10**12 + i} AND y = {i} AND z = {i}") for i in range(400)])
    table = boxed(m)
    living = np.arange(200, dtype=np.int32)
    space = learned_space(table, slots=living)
    assert space.attr.tolist() == [0] and space.cuts.max() < 300
    assert Subsumption.build(table, living).space.attr.tolist() == [0]
    index = Mics.build(table, living)
    assert index.arrays.attr.tolist() == [0] and index.arrays.cuts.max() < 300


@given(seed=st.integers(0, 2**32), count=st.integers(33, 80))
def test_many_members_at_once_are_as_one_by_one(seed: int, count: int) -> None:
    """Members.insert takes many in another way than a few."""
    table = world(seed % 50, 90).table()
    chosen = Random(seed).sample(range(90), count)
    together, single = Linear.build(table, slots()), Linear.build(table, slots())
    together.insert(table, slots(*chosen))
    for slot in chosen:
        single.insert(table, [slot])
    assert together.members().tolist() == single.members().tolist() == sorted(chosen)
    together.remove(slots(*chosen[:-1]))
    assert together.members().tolist() == chosen[-1:] and len(together) == 1
    together.check()


@pytest.mark.parametrize("distribution", ["uniform", "zipf"])
def test_the_sieve_rules_out_only_what_does_not_meet(distribution: str) -> None:
    made = drawn(distribution, 2_000, 1, attributes=7, sizes=32, grain=3)
    table, asked = made.table(), np.arange(0, 2_000, 50, dtype=np.int32)
    index = MicsIndex.build(table, attributes=(0, 1, 2), bits=5)
    (start, found), (fewer_start, fewer) = index.meeting(table, asked), index.meeting(table, asked, sifted=True)
    assert 0 < len(fewer) < len(found)
    for i, slot in enumerate(asked.tolist()):
        overlap = (made.sub_lo <= made.sub_hi[slot]) & (made.sub_lo[slot] <= made.sub_hi)
        kept = set(fewer[fewer_start[i] : fewer_start[i + 1]].tolist())
        assert set(np.flatnonzero(overlap.all(axis=1)).tolist()) <= kept
        assert kept <= set(found[start[i] : start[i + 1]].tolist())


def test_more_than_a_first_answer_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "FIRST_ROOM", 8)
    table = drawn("zipf", 1_000, 1, attributes=2, sizes=16).table()
    index = Mics.build(table)
    met = [index.meeting(slot).tolist() for slot in range(0, 1_000, 40)]
    monkeypatch.undo()
    assert met == [index.meeting(slot).tolist() for slot in range(0, 1_000, 40)]
    assert max(map(len, met)) > 8
