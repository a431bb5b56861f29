"""Batches: graphs and covering indexes take many at once, and keep every invariant."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from earmark.cover import CompleteGraph, CoverIndex, RelationGraph, StrictPoset
from earmark.errors import SubscriptionError

GRAPHS = {
    "G_1": lambda index: RelationGraph(index),
    "G_2, withdrawing": lambda index: RelationGraph(index, k=2, withdraw=True),
    "poset": lambda index: StrictPoset(index),
    "complete": lambda index: CompleteGraph(index, withdraw=True),
}
bounds = st.tuples(st.integers(0, 6), st.integers(0, 6))
batches = st.lists(st.tuples(st.lists(bounds, max_size=6), st.lists(st.integers(0, 100), max_size=5)), max_size=6)


@pytest.mark.parametrize("index", ["linear", "layers", "blocks"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_what_is_forwarded_covers_everything_after_each_batch(graph, index):
    @settings(max_examples=15)
    @given(batches)
    def run(changes: list[tuple[list[tuple[int, int]], list[int]]]) -> None:
        made, live, forwarded, last = GRAPHS[graph](index), [], set(), 0
        for added, removed in changes:
            rows = [(last + i, f"x BETWEEN {min(b)} AND {max(b)}") for i, b in enumerate(added)]
            last += len(rows)
            change = made.subscribe_many(rows)
            assert not forwarded & set(change.forward) and set(change.withdraw) <= forwarded
            forwarded = (forwarded | set(change.forward)) - set(change.withdraw)
            live += [id for id, _ in rows]
            gone = sorted({live[place % len(live)] for place in removed}) if live else []
            change = made.unsubscribe_many(gone)
            assert set(change.withdraw) <= forwarded and not set(change.forward) & set(gone)
            forwarded = (forwarded | set(change.forward)) - set(change.withdraw)
            live = [id for id in live if id not in gone]
            assert forwarded == made.forwarded
            made.check()

    run()


def test_an_id_that_is_withdrawn_twice_is_refused():
    graph = RelationGraph("linear")
    graph.subscribe_many([(1, "x > 1"), (2, "x > 2")])
    with pytest.raises(SubscriptionError, match="an id is given twice"):
        graph.unsubscribe_many([1, 1])
    graph.check()
    assert len(graph) == 2


@pytest.mark.parametrize("index", ["linear", "kd_tree", "layers"])
def test_many_questions_have_the_answers_of_single_ones(index):
    made = CoverIndex(index)
    made.add_many([(number, f"x BETWEEN {number % 7} AND {number % 7 + number % 11}") for number in range(300)])
    made.remove_many(range(0, 300, 3))
    made.check()
    ids = list(made)
    for one, many in zip(ids, made.covering_many(ids), strict=True):
        assert sorted(many) == sorted(made.covering(one))
    for one, few in zip(ids, made.covering_many(ids, 2), strict=True):
        assert len(few) == min(2, len(made.covering(one)))
    with pytest.raises(SubscriptionError, match="there is no subscription 0"):
        made.covering_many([0])
