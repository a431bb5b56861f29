"""What is forwarded, by every graph over every index, against the definition."""

from __future__ import annotations

import numpy as np
import pytest

from earmark.cover import INDEXES, builder
from earmark.cover.indexes.members import Linear
from earmark.cover.relation_graph import Change, CompleteGraph, RelationGraph, StrictPoset
from earmark.errors import EarmarkError
from earmark.workload.rectangles import commands

from .worlds import World, world

NONE = np.empty(0, np.int32)
GRAPHS = {
    "G1": lambda index, withdraw: RelationGraph(index, 1, withdraw),
    "G2": lambda index, withdraw: RelationGraph(index, 2, withdraw),
    "G6": lambda index, withdraw: RelationGraph(index, 6, withdraw),
    "G*": CompleteGraph,
    "poset": StrictPoset,
}


class Downstream:
    """A neighbour: what it has been told, and whether that covers every live subscription at each moment."""

    def __init__(self, made: World) -> None:
        self.made = made
        self.told: set[int] = set()

    def hear(self, change: Change, live: set[int]) -> None:
        for slot in change.forward:
            assert slot not in self.told
            self.told.add(slot)
        for slot in change.withdraw:
            self.told.remove(slot)
            for one in live:
                assert one in self.told or self.made.covering(one, self.told), f"{one} is covered by nothing told"


@pytest.mark.parametrize("withdraw", [False, True])
@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("name", sorted(INDEXES))
def test_a_life(name: str, kind: str, withdraw: bool) -> None:
    made = world(7 if withdraw else 8, 50)
    table = made.table()
    graph = GRAPHS[kind](builder(name)(table, NONE), withdraw)
    neighbour, live = Downstream(made), set()
    for step in range(80):
        waiting = sorted(set(range(50)) - live)
        if waiting and (made.random.random() < 0.6 or not live):
            slot = made.random.choice(waiting)
            covered = bool(made.covering(slot, live))
            change = graph.subscribe(slot, table)
            live.add(slot)
            assert change.forward == (() if covered else (slot,))  # nothing covered when examined is forwarded
            assert withdraw or not change.withdraw
        else:
            slot = made.random.choice(sorted(live))
            told = slot in neighbour.told
            live.discard(slot)
            change = graph.unsubscribe(slot)
            assert change.withdraw == ((slot,) if told else ())
            assert not any(made.covering(one, live) for one in change.forward)
        neighbour.hear(change, live)
        assert neighbour.told == graph.forwarded
        for one in live:  # nothing that lost its last cover is forgotten
            assert one in graph.forwarded or made.covering(one, live)
            assert one in graph.forwarded or made.covering(one, live & graph.forwarded)
        if withdraw:  # Property 1, as printed
            assert graph.forwarded == {one for one in live if not made.covering(one, live)}
        if step % 40 == 0:
            graph.check()
    graph.check()
    assert len(graph) == len(live)


@pytest.mark.parametrize("k", [1, 3])
def test_queries_are_counted(k: int) -> None:
    stream = commands(600, 6, 0.3)
    table = stream.table()
    graph = RelationGraph(Linear.build(table, NONE), k)
    for subscribes, slot in zip(stream.subscribes.tolist(), stream.slot.tolist(), strict=True):
        orphans = 0 if subscribes else sum(graph.above(t) == {slot} for t in graph.below(slot))
        before = graph.calls
        _ = graph.subscribe(slot, table) if subscribes else graph.unsubscribe(slot)
        spent = (graph.calls.subscribe - before.subscribe, graph.calls.unsubscribe - before.unsubscribe)
        assert spent == ((1, 0) if subscribes else (0, orphans))
    assert graph.calls.subscribe == stream.subscribes.sum()


def test_bad_calls_get_a_sentence() -> None:
    table = commands(10, 4, 0.0).table()
    with pytest.raises(EarmarkError, match="without members"):
        RelationGraph(Linear.build(table))
    with pytest.raises(EarmarkError, match="at least 1 for k, got 0"):
        RelationGraph(Linear.build(table, NONE), 0)
    graph = RelationGraph(Linear.build(table, NONE))
    graph.subscribe(3, table)
    with pytest.raises(EarmarkError, match="already a member"):
        graph.subscribe(3, table)
    with pytest.raises(EarmarkError, match="not subscribed"):
        graph.unsubscribe(4)
    graph.check()


def test_check_sees_what_is_broken() -> None:
    table = commands(300, 4, 0.0).table()
    for harm, said in (
        (lambda g: g.forwarded.pop(), "neither forwarded nor covered"),
        (lambda g: g.forwarded.add(next(s for s in range(300) if g.above(s))), "when last examined"),
        (lambda g: g._above[5].add(6), "known to one end only"),
        (lambda g: g.index.remove(np.array([7], np.int32)), "disagree"),
    ):
        graph = RelationGraph(Linear.build(table, NONE))
        for slot in range(300):
            graph.subscribe(slot, table)
        graph.check()
        harm(graph)
        with pytest.raises(AssertionError, match=said):
            graph.check()
