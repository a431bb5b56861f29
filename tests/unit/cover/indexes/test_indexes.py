"""Every covering index against every event of small worlds, and against `linear` on larger data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.unit.cover.worlds import world

from earmark import Matcher
from earmark.cover import INDEXES, builder
from earmark.cover.canonical import canonical
from earmark.cover.exact import clauses_that_meet
from earmark.cover.indexes import blocks
from earmark.cover.indexes.kd_tree import depth_of
from earmark.cover.indexes.members import SUBSCRIBE, UNSUBSCRIBE, Linear, Members
from earmark.errors import EarmarkError
from earmark.flat.arrays import I32
from earmark.segment.arrays import SegmentArrays
from earmark.workload.rectangles import commands, table_of

NAMES = sorted(INDEXES)


def slots(*numbers: int) -> I32:
    return np.array(numbers, np.int32)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_against_every_event(name: str, seed: int) -> None:
    made = world(seed, 80)
    table, everyone = made.table(), set(range(80))
    index = builder(name)(table)
    index.check()
    for slot in range(80):
        wanted = made.covering(slot, everyone)
        found = index.covering(slot).tolist()
        assert len(found) == len(set(found))
        assert set(found) == wanted
        for k in (1, 2, 5):
            some = index.covering(slot, k).tolist()
            assert len(some) == len(set(some)) == min(k, len(wanted))
            assert set(some) <= wanted
        assert index.covered(slot).tolist() == [other for other in sorted(everyone) if made.covers(slot, other)]
        for other in range(0, 80, 7):
            assert index.covers(slot, other) == made.covers(slot, other)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_who_shares_an_event(name: str, seed: int) -> None:
    """All that do are found, some indexes find others as well; nobody is found twice, and members come and go."""
    made = world(seed, 300)
    table, everyone = made.table(), np.arange(300, dtype=np.int32)
    index = builder(name)(table, everyone[:200])
    index.insert(table, everyone[200:])
    index.remove(everyone[::7])
    live = set(range(300)) - set(everyone[::7].tolist())
    starts, found = index.meeting_batch(everyone)
    for slot in range(300):
        meets = {other for other in live if any(one & two for one in made.bits[slot] for two in made.bits[other])}
        others = found[starts[slot] : starts[slot + 1]].tolist()
        assert len(others) == len(set(others)) and set(others) <= live
        assert meets - {slot} <= set(others)
        if name in ("blocks", "layers"):
            assert set(others) - {slot} == meets - {slot}


@pytest.mark.parametrize("name", ["blocks", "layers", "mics"])
def test_who_shares_an_event_among_many(name: str) -> None:
    random = np.random.default_rng(3)
    table = large("uniform", random)
    index, scan = builder(name)(table), Linear.build(table)
    asked = random.integers(0, len(table.sequence), 40).astype(np.int32)
    starts, found = index.meeting_batch(asked)
    for place, slot in enumerate(asked.tolist()):
        others = set(found[starts[place] : starts[place + 1]].tolist()) - {slot}
        every = np.delete(scan.meeting(slot), slot).astype(np.int64)
        _, owners = clauses_that_meet(table, int(table.clause_start[slot]), every)
        meets = set(every[owners].tolist())
        assert meets == others if name != "mics" else meets <= others


@pytest.mark.parametrize("name", NAMES)
def test_a_life(name: str) -> None:
    """Members come and go, over a table that grows."""
    made = world(99, 40)
    table = made.table()
    index = builder(name)(table, slots())
    live: set[int] = set()
    for step in range(160):
        if step % 10 == 9:
            for _ in range(4):
                made.add(made.subscription())
            table = made.table()
        missing = sorted(set(range(len(made.clauses))) - live)
        if missing and made.random.random() < 0.6:
            slot = made.random.choice(missing)
            index.insert(table, slots(slot))
            live.add(slot)
        elif live:
            slot = made.random.choice(sorted(live))
            index.remove(slots(slot))
            live.discard(slot)
        assert index.members().tolist() == sorted(live)
        assert len(index) == len(live)
        asked = made.random.randrange(len(index.table.sequence))  # type: ignore[attr-defined]
        assert set(index.covering(asked).tolist()) == made.covering(asked, live)
        if step % 25 == 0:
            index.check()
    index.check()
    index.remove(index.members())
    index.check()
    assert len(index) == 0
    assert index.covering(0).tolist() == []


def large(kind: str, random: np.random.Generator) -> SegmentArrays:
    n, attributes = 3000, 4
    if kind == "uniform":
        ends = random.integers(0, 1000, (2, n, attributes))
    elif kind == "ascending":  # time windows that arrive in order: a tree must not become a list
        start = np.arange(n)[:, None] * 100 + random.integers(0, 50, (n, attributes))
        ends = np.stack([start, start + random.integers(0, 5000, (n, attributes))])
    elif kind == "equal":
        ends = np.repeat(random.integers(0, 1000, (2, 3, attributes)), 1000, axis=1)
    elif kind == "half equal":  # long chains of equal points that others come to divide
        ends = random.integers(0, 1000, (2, n, attributes))
        ends[:, ::2] = ends[:, :1]
    elif kind == "extreme":
        ends = random.choice(np.array([-(2**63), -(2**62), -1, 0, 1, 2**62, 2**63 - 1]), (2, n, attributes))
    else:  # skewed: most keys close together, a few far away
        ends = (random.exponential(1.0, (2, n, attributes)) ** 8).astype(np.int64)
    return table_of(ends.min(axis=0), ends.max(axis=0))


@pytest.mark.parametrize("kind", ["uniform", "ascending", "equal", "half equal", "extreme", "skewed"])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "linear"])
def test_against_linear(name: str, kind: str) -> None:
    random = np.random.default_rng(5)
    table = large(kind, random)
    members = random.permutation(2500).astype(np.int32)
    linear, index = Linear.build(table, members), builder(name)(table, members[:0])
    for part in np.array_split(members, 60):
        index.insert(table, part)
    index.check()
    asked = random.choice(3000, 60, replace=False).tolist()
    for round_ in range(2):
        for slot in asked:
            assert sorted(index.covering(slot).tolist()) == linear.covering(slot).tolist()
            assert len(index.covering(slot, 3)) == len(linear.covering(slot, 3))
        if round_ == 0:
            gone = members[: 1200 if kind != "equal" else 800]
            linear.remove(gone)
            for part in np.array_split(gone, 200):
                index.remove(part)
            index.check()


@pytest.mark.parametrize("name", NAMES)
def test_costs_are_charged_to_the_phase(name: str) -> None:
    stream = commands(400, 6, 0.0)
    index = builder(name)(stream.table())
    assert index.costs == ((0, 0), (0, 0))
    index.covering(3)
    first = index.costs[SUBSCRIBE]
    assert first.comparisons > 0
    assert (first.nodes > 0) == (name not in ("auto", "linear"))
    index.covering(3, phase=UNSUBSCRIBE)
    assert index.costs == (first, first)


@pytest.mark.parametrize("name", NAMES)
def test_bad_calls_get_a_sentence(name: str) -> None:
    table = commands(20, 4, 0.0).table()
    index = builder(name)(table, slots(1, 2, 3))
    assert isinstance(index, Members)
    for call, part in (
        (lambda: index.insert(table, slots(2)), "already a member"),
        (lambda: index.insert(table, slots(5, 5)), "twice"),
        (lambda: index.insert(table, slots(20)), "no slot 20"),
        (lambda: index.remove(slots(9)), "not a member"),
        (lambda: index.covering(20), "no slot 20"),
        (lambda: index.covering(-1), "no slot -1"),
        (lambda: index.covering(0, 0), "at least 1 for k, got 0"),
        (lambda: index.covering(0, 1.5), "at least 1 for k, got 1.5"),
    ):
        with pytest.raises(EarmarkError, match=part):
            call()
    assert index.members().tolist() == [1, 2, 3]
    index.check()
    assert index.nbytes > 0


def test_unknown_names() -> None:
    with pytest.raises(EarmarkError, match="kd_tree"):
        builder("b_tree")


@pytest.mark.parametrize("name", ["kd_tree", "z_curve"])
@pytest.mark.parametrize("axes", [1, 2])
def test_fewer_axes_than_attributes(name: str, axes: int) -> None:
    table = commands(600, 8, 0.0).table()
    linear, index = Linear.build(table), builder(name)(table, axes=axes)
    index.check()
    for slot in range(0, 600, 11):
        assert sorted(index.covering(slot).tolist()) == linear.covering(slot).tolist()
    with pytest.raises(EarmarkError, match="axes"):
        builder(name)(table, axes=17)


def test_a_batch_is_its_queries() -> None:
    stream = commands(3000, 6, 0.0)
    index = builder("blocks")(stream.table())
    asked = np.arange(0, 3000, 3, dtype=np.int32)
    for k in (None, 1, 4):
        pointers, found = index.covering_batch(asked, k)  # type: ignore[attr-defined]
        assert len(pointers) == len(asked) + 1
        for i, slot in enumerate(asked.tolist()):
            own = found[pointers[i] : pointers[i + 1]].tolist()
            assert sorted(own) == sorted(index.covering(slot, k).tolist())


def test_a_batch_on_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers of one thread; at its cost, unless a search runs out of room and is repeated."""
    monkeypatch.setattr(blocks, "APIECE", 10)
    table = commands(800, 6, 0.0).table()
    asked = np.arange(0, 800, 2, dtype=np.int32)

    def answers(threads: int, k: int | None) -> tuple[Any, ...]:
        index = blocks.CoverBlocks.build(table)
        pointers, found = index.covering_batch(asked, k, threads)
        return pointers.tolist(), found.tolist(), index._spent.tolist() if k else None

    for k in (None, 1, 4):
        assert answers(2, k) == answers(3, k) == answers(1, k)


def test_the_tree_stays_shallow() -> None:
    table = large("ascending", np.random.default_rng(1))
    index = builder("kd_tree")(table, slots())
    for slot in range(3000):
        index.insert(table, slots(slot))
    index.check()
    tree = index._structure  # type: ignore[attr-defined]
    live = np.flatnonzero(tree.size[: tree.used[0]])
    assert max(depth_of(tree, node) for node in live.tolist()) < 19


@pytest.mark.parametrize("name", NAMES)
def test_attributes_that_no_member_has(name: str) -> None:
    """Each covering member is found once, however many attributes of the query mean nothing to the others."""
    matcher = Matcher()
    letters = "abcdefgh"
    pairs = [f"{x} > 0 AND {y} > 0" for x in letters for y in letters if x < y]
    asked = ["a > 5 AND b > 5 AND y > 5 AND z > 5", "y > 5 AND z > 5", "TRUE"]
    matcher.add_many(list(enumerate([*(f"{x} > 0" for x in letters), *pairs, *asked])))
    table = canonical(matcher._version.whole)
    count = len(letters) + len(pairs)
    index = builder(name)(table, np.arange(count, dtype=np.int32))
    assert sorted(index.covering(count).tolist()) == [0, 1, len(letters)]
    assert index.covering(count + 1).tolist() == index.covering(count + 2).tolist() == []
    index.insert(table, slots(count + 2))
    assert sorted(index.covering(count).tolist()) == [0, 1, len(letters), count + 2]
    assert index.covering(count + 1).tolist() == [count + 2]


@pytest.mark.parametrize("name", NAMES)
def test_many_that_match_everything(name: str) -> None:
    """Points without coordinates, more than a block of them."""
    matcher = Matcher()
    matcher.add_many([(i, "TRUE" if i % 10 else f"a = {i}") for i in range(200)])
    index = builder(name)(canonical(matcher._version.whole))
    index.check()
    everything = [i for i in range(200) if i % 10]
    assert sorted(index.covering(50).tolist()) == everything
    assert sorted(index.covering(99).tolist()) == [i for i in everything if i < 99]
    assert len(index.covering(50, 7)) == 7
