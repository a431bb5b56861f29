"""Whole lives of covering indexes and relation graphs, with the sets of all events as the model.

Every step is checked: all indexes hold the same members and give the same coverings, which are those of the model, and
every relation graph tells its neighbours what the definition asks for.
"""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.cover.worlds import World

from earmark.cover import INDEXES, builder
from earmark.cover.indexes.members import Members
from earmark.cover.relation_graph import CompleteGraph, RelationGraph, StrictPoset
from earmark.segment.arrays import SegmentArrays

NONE = np.empty(0, np.int32)


class Indexes(RuleBasedStateMachine):
    """Inserts, removals and queries, interleaved, over a table that grows."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.made = World(Random(seed))
        self.made.add(self.made.subscription())
        self.table = self.made.table()
        self.live: set[int] = set()
        self.indexes: dict[str, Members] = {name: builder(name)(self.table, NONE) for name in INDEXES}

    def known(self) -> set[int]:
        return set(range(len(self.made.clauses)))

    @rule(count=st.integers(1, 40))
    def grow(self, count: int) -> None:
        for _ in range(count):
            self.made.add(self.made.subscription())
        self.table = self.made.table()

    @precondition(lambda self: self.known() - self.live)
    @rule(data=st.data(), count=st.integers(1, 90))
    def insert(self, data: st.DataObject, count: int) -> None:
        waiting = sorted(self.known() - self.live)
        first = data.draw(st.integers(0, len(waiting) - 1))
        slots = np.array((waiting[first:] + waiting[:first])[:count], np.int32)
        for index in self.indexes.values():
            index.insert(self.table, slots)
        self.live.update(slots.tolist())

    @precondition(lambda self: self.live)
    @rule(data=st.data(), count=st.integers(1, 60))
    def remove(self, data: st.DataObject, count: int) -> None:
        members = sorted(self.live)
        first = data.draw(st.integers(0, len(members) - 1))
        slots = np.array((members[first:] + members[:first])[:count], np.int32)
        for index in self.indexes.values():
            index.remove(slots)
        self.live.difference_update(slots.tolist())

    @precondition(lambda self: self.live)
    @rule(data=st.data(), k=st.sampled_from([1, 2, 3, None]))
    def ask(self, data: st.DataObject, k: int | None) -> None:
        slot = data.draw(st.sampled_from(sorted(self.live)))
        wanted = self.made.covering(slot, self.live)
        for name, index in self.indexes.items():
            found = index.covering(slot, k).tolist()
            assert len(set(found)) == len(found) == (len(wanted) if k is None else min(k, len(wanted))), name
            assert set(found) <= wanted, name
            below = {other for other in self.live if self.made.covers(slot, other)}
            assert set(index.covered(slot).tolist()) == below, name

    @invariant()
    def everything_holds(self) -> None:
        for name, index in getattr(self, "indexes", {}).items():
            index.check()
            assert set(index.members().tolist()) == self.live, name


class Graphs(RuleBasedStateMachine):
    """Subscribes and unsubscribes, with and without withdrawal, by every kind of graph at once."""

    @initialize(seed=st.integers(0, 2**32), names=st.permutations(sorted(INDEXES)))
    def begin(self, seed: int, names: list[str]) -> None:
        self.made = World(Random(seed))
        self.live: set[int] = set()
        self.table = self.made.table()
        empty = [builder(names[i % len(names)])(self.table, NONE) for i in range(6)]
        self.graphs = [
            RelationGraph(empty[0], 1),
            RelationGraph(empty[1], 3),
            RelationGraph(empty[2], 1, withdraw=True),
            CompleteGraph(empty[3]),
            StrictPoset(empty[4]),
            StrictPoset(empty[5], withdraw=True),
        ]
        self.told: list[set[int]] = [set() for _ in self.graphs]

    @rule(again=st.booleans())
    def subscribe(self, again: bool) -> None:
        waiting = sorted(set(range(len(self.made.clauses))) - self.live)
        if again and waiting:
            slot = self.made.random.choice(waiting)
        else:
            slot = self.made.add(self.made.subscription())
            self.table: SegmentArrays = self.made.table()
        covered = bool(self.made.covering(slot, self.live))
        self.live.add(slot)
        for told, graph in zip(self.told, self.graphs, strict=True):
            change = graph.subscribe(slot, self.table)
            assert change.forward == (() if covered else (slot,))
            self.hear(told, change)

    @precondition(lambda self: self.live)
    @rule()
    def unsubscribe(self) -> None:
        slot = self.made.random.choice(sorted(self.live))
        self.live.discard(slot)
        for told, graph in zip(self.told, self.graphs, strict=True):
            was = slot in told
            change = graph.unsubscribe(slot)
            assert change.withdraw == ((slot,) if was else ())
            self.hear(told, change)

    def hear(self, told: set[int], change: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
        assert not told.intersection(change[0])
        told.update(change[0])
        for slot in change[1]:
            told.remove(slot)

    @invariant()
    def neighbours_know_enough(self) -> None:
        if not hasattr(self, "graphs"):
            return
        uncovered = {one for one in self.live if not self.made.covering(one, self.live)}
        for told, graph in zip(self.told, self.graphs, strict=True):
            graph.check()
            assert told == graph.forwarded
            assert uncovered <= told
            assert not graph.withdraw or told == uncovered
            for one in self.live:
                assert one in told or self.made.covering(one, told)


for _machine in (Indexes, Graphs):
    _machine.TestCase.settings = settings(
        max_examples=max(1, settings.default.max_examples // 4),
        stateful_step_count=max(1, settings.default.stateful_step_count // 2),
        deadline=None,
    )
TestIndexes = Indexes.TestCase
TestGraphs = Graphs.TestCase
