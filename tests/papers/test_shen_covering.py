"""Worked examples and measured shapes of "Indexing for Subscription Covering in Publish-Subscribe Systems"."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest

from earmark import Matcher
from earmark.cover import builder
from earmark.cover.canonical import canonical
from earmark.cover.indexes.members import Cost
from earmark.cover.indexes.z_curve import interleave
from earmark.cover.relation_graph import Calls, CompleteGraph, RelationGraph, StrictPoset
from earmark.workload.rectangles import commands

NONE = np.empty(0, np.int32)


def test_figure_7_keys_of_cells() -> None:
    """(3, 5) = (011, 101) on the 8 × 8 grid is 011011 = 27; the leading 1 tells resolutions apart."""
    assert interleave(np.array([3, 5], np.uint64), 2, 3) == 0b1011011 == 27 + 64
    assert interleave(np.array([0, 0], np.uint64), 2, 1) == 0b100
    assert interleave(np.array([0, 0], np.uint64), 2, 2) == 0b10000


def test_section_4_rectangles() -> None:
    """The subscription about region, temperature and humidity, and Fact 1 on either side of it."""
    matcher = Matcher()
    matcher.add("s", "region = 1 AND temperature BETWEEN 0 AND 30 AND humidity BETWEEN 90 AND 100")
    matcher.add("wider", "region IN (1, 2) AND temperature BETWEEN -5 AND 30 AND humidity >= 90")
    matcher.add("apart", "region = 1 AND temperature BETWEEN 1 AND 31 AND humidity BETWEEN 90 AND 100")
    assert matcher.match({"region": 1, "temperature": 59, "humidity": 87}) == []
    table = canonical(matcher._version.whole)
    for name in ("linear", "kd_tree", "z_curve", "blocks", "mics"):
        index = builder(name)(table)
        assert index.covering(0).tolist() == [1]
        assert index.covering(1).tolist() == index.covering(2).tolist() == []


def test_section_3_the_graphs() -> None:
    """Five subscriptions by arrival: G* has every edge, the poset the shortest, G_k at most k into each."""
    matcher = Matcher()
    conditions = ["a BETWEEN 0 AND 9", "a BETWEEN 2 AND 5", "a BETWEEN 1 AND 6", "a BETWEEN 3 AND 4", "b = 1"]
    matcher.add_many(list(enumerate(conditions)))
    table = canonical(matcher._version.whole)
    graphs = [CompleteGraph, StrictPoset, lambda index: RelationGraph(index, 1), lambda index: RelationGraph(index, 2)]
    made = []
    for kind in graphs:
        graph = kind(builder("linear")(table, NONE))
        for slot in range(5):
            graph.subscribe(slot, table)
        graph.check()
        made.append(graph)
    every, poset, g1, g2 = made
    assert {(a, b) for b in range(5) for a in every.above(b)} == {(0, 1), (0, 2), (0, 3), (1, 3), (2, 1), (2, 3)}
    assert {(a, b) for b in range(5) for a in poset.above(b)} == {(0, 2), (2, 1), (1, 3)}
    assert [len(g1.above(b)) for b in range(5)] == [0, 1, 1, 1, 0]
    # 2 arrived after 1, which was covered already and is not looked at again
    assert [len(g2.above(b)) for b in range(5)] == [0, 1, 1, 2, 0]
    assert g1.forwarded == g2.forwarded == poset.forwarded == every.forwarded == {0, 4}


class Run(NamedTuple):
    """One stream through one graph."""

    subscribe: Cost
    unsubscribe: Cost
    calls: Calls
    subscribes: int
    unsubscribes: int


def run(name: str, k: int, p: float, count: int = 3000) -> Run:
    stream = commands(count, 6, p)  # in six dimensions, few commands are enough for several coverings each
    table = stream.table()
    graph = RelationGraph(builder(name)(table, NONE), k)
    for subscribes, slot in zip(stream.subscribes.tolist(), stream.slot.tolist(), strict=True):
        if subscribes:
            graph.subscribe(slot, table)
        else:
            graph.unsubscribe(slot)
    arrived = int(stream.subscribes.sum())
    return Run(*graph.index.costs, graph.calls, arrived, count - arrived)


@pytest.mark.parametrize("p", [0.05, 0.4])
def test_tables_1_and_2_in_small(p: float) -> None:
    """Work of subscribes rises with k, queries of unsubscribes fall, G_1 is cheapest; at full size in benchmarks/."""
    runs = [run("kd_tree", k, p) for k in (1, 2, 3, 6)]
    for one, more in pairwise(runs):
        assert one.subscribe.nodes < more.subscribe.nodes
        assert one.subscribe.comparisons < more.subscribe.comparisons
        assert one.calls.subscribe == more.calls.subscribe == one.subscribes
        assert one.calls.unsubscribe >= more.calls.unsubscribe
    nodes = [one.subscribe.nodes + one.unsubscribe.nodes for one in runs]
    assert nodes == sorted(nodes)
    if p == 0.4:  # under heavy load so short a stream has only a handful of queries by unsubscribes
        assert runs[0].unsubscribe.nodes > runs[1].unsubscribe.nodes


@pytest.mark.parametrize("name", ["kd_tree", "z_curve", "blocks", "mics", "linear"])
def test_theorem_1(name: str) -> None:
    """cost_1 <= 2 · cost_k, and Lemma 1: at most one query an unsubscribe, on average. Any index asks the same."""
    cheapest, others = run(name, 1, 0.4, 1500), [run(name, k, 0.4, 1500) for k in (2, 6)]
    assert cheapest.calls.unsubscribe <= cheapest.unsubscribes
    for other in others:
        assert sum(cheapest.calls) <= 2 * sum(other.calls)
