"""Covering by id: the answers of the small worlds' oracle, through changes of types, keys and most members."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from earmark import EarmarkError, Matcher, SubscriptionError
from earmark.cover import INDEXES, CoverIndex, Verdict, subsumed
from earmark.cover import cover_index as module
from earmark.cover.indexes.members import Members

from .test_audit import sql
from .worlds import TYPES, World


def expect(index: CoverIndex, made: World, live: list[int]) -> None:
    assert list(index) == live and len(index) == len(live)
    for slot in live[:: max(1, len(live) // 6)]:
        assert index.covering(slot) == [other for other in live if made.covers(other, slot)]
        assert index.covered(slot) == [other for other in live if made.covers(slot, other)]


@pytest.mark.parametrize("name", sorted(INDEXES))
def test_a_life(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Subscriptions come and go; the rows are made again several times."""
    monkeypatch.setattr(module, "FEW", 4)
    made = World(Random(11))
    made.sequence = []
    index, live = CoverIndex(name, TYPES), []
    for step in range(120):
        if not live or (made.random.random() < 0.6 and step < 90):
            slot = made.add(made.subscription())
            made.sequence[slot] = slot  # as old as it is in the index
            index.add(slot, sql(made.clauses[slot]))
            live.append(slot)
        else:
            slot = made.random.choice(live)
            index.remove(slot)
            live.remove(slot)
        assert (slot in index) == (slot in live)
        if step % 10 == 0:
            expect(index, made, live)
    expect(index, made, live)
    index.check()


def test_of_a_matcher_and_of_pairs() -> None:
    pairs = [("wide", "age >= 18"), ("narrow", "age BETWEEN 20 AND 30"), ("other", "city = 'Oslo'")]
    matcher = Matcher()
    matcher.add_many(pairs)
    for index in (CoverIndex.of(matcher), CoverIndex.of(pairs, "kd_tree"), CoverIndex.of(CoverIndex.of(pairs))):
        assert index.covering("narrow") == ["wide"] and index.covered("wide") == ["narrow"]
        assert index.covers("wide", "narrow") and not index.covers("narrow", "wide")
        index.add("third", "age = 25 AND city > 'Lima'")
        assert index.covering("third") == ["wide", "narrow"] and index.covering("third", 1) == ["wide"]
        index.check()
    assert len(matcher) == 3 and matcher.covered_by("narrow") == ["wide"]
    matcher.add("late", "city = 'Bergen'")
    assert matcher.covered_by("late") == []
    matcher.check()


def test_the_matcher_and_its_index_grow_apart() -> None:
    """Neither writes what the other reads: ids, string keys, arrays."""
    matcher = Matcher()
    matcher.add_many([("a", "s >= 'm'"), ("b", "s = 'x'")])
    index = CoverIndex.of(matcher)
    index.add("mine", "s = 'p'")
    matcher.add("yours", "s = 'q'")
    index.add("again", "s IN ('p', 'q')")
    assert list(index) == ["a", "b", "mine", "again"] and matcher.ids() == ["a", "b", "yours"]
    assert index.covering("mine") == ["a", "again"] and matcher.covered_by("yours") == ["a"]
    assert matcher.match({"s": "p"}) == ["a"]
    index.check()
    matcher.check()


def test_a_type_that_goes_and_comes_as_another() -> None:
    """`flag IS NOT NULL` is [0, 1] while flag is a boolean, and everything when it is a number."""
    index = CoverIndex("linear")
    index.add("any", "flag IS NOT NULL")
    index.add("true", "flag")
    assert index.covering("true") == ["any"]
    index.remove("true")
    index.add("number", "flag BETWEEN 0 AND 1")
    assert index.covering("number") == ["any"] and index.covering("any") == []
    index.check()


def test_numbers_that_become_wide() -> None:
    """Another generation of keys: everything is made again, and the answers stay."""
    index = CoverIndex("kd_tree")
    for i in range(20):
        index.add(i, f"x BETWEEN {-i} AND {i}")
    index.add(99, "x BETWEEN 0 AND 9007199254740993")
    index.add(100, "x BETWEEN 3 AND 9007199254740992")
    assert index.covering(100) == [99] and index.covering(3) == list(range(4, 20))
    index.check()


def test_rows_of_the_removed_go() -> None:
    index = CoverIndex("linear")
    for i in range(1_000):
        index.add(i, f"x = {i}")
        if i >= 10:
            index.remove(i - 10)
    assert len(index) == 10 and len(index.table.sequence) < 200
    assert list(index) == list(range(990, 1_000))


def test_verdicts() -> None:
    index = CoverIndex.of([("teens", "age BETWEEN 13 AND 19"), ("young", "age < 16"), ("older", "age >= 16")])
    assert index.verdict("teens").verdict is Verdict.SUBSUMED and index.verdict("teens").by == ("young", "older")
    needed = subsumed(index, "young")
    assert needed.verdict is Verdict.NEEDED and needed.witness is not None and needed.witness["age"] < 13
    assert subsumed([("a", "x > 1"), ("b", "x > 2")], "b").verdict is Verdict.COVERED


def test_mistakes_get_a_sentence() -> None:
    index = CoverIndex.of([("a", "x > 1")])
    for call, part in (
        (lambda: CoverIndex("b_tree"), "expected the name of a covering index"),
        (lambda: CoverIndex("kd_tree", axes=99), "axes"),
        (lambda: CoverIndex.of(7), "expected a sequence or a frame of subscriptions, got 7"),
        (lambda: CoverIndex.of([("a", "x >")]), "x >"),
        (lambda: index.add("a", "x > 2"), "'a'"),
        (lambda: index.add("b", "x >"), "x >"),
        (lambda: index.add(3, "x > 2"), "3"),
        (lambda: index.add("b", "x = 'text'"), "x"),
        (lambda: index.remove("b"), "there is no subscription 'b'"),
        (lambda: index.covering("b"), "there is no subscription 'b'"),
        (lambda: index.covering(["a"]), "expected a string or an integer as id"),  # type: ignore[arg-type]
        (lambda: index.covering("a", 0), "at least 1 for k, got 0"),
        (lambda: index.verdict("a", work=0), "for work, got 0"),
    ):
        with pytest.raises(EarmarkError) as problem:
            call()
        assert part in str(problem.value) and not str(problem.value).endswith(".")
    assert list(index) == ["a"]
    index.check()
    with pytest.raises(SubscriptionError):
        index.remove(2**70)


def test_check_sees_what_is_broken() -> None:
    index = CoverIndex.of([("a", "x > 1"), ("b", "x > 2")])
    assert isinstance(index.members, Members)
    index.members.remove(1)
    with pytest.raises(AssertionError, match="disagree"):
        index.check()


def test_costs_are_counted() -> None:
    index = CoverIndex.of([(i, f"x > {i}") for i in range(100)], "kd_tree")
    index.covering(50)
    assert index.costs[0].comparisons > 0 and index.costs[1] == (0, 0)
    assert np.all(np.array(index.costs[0]) > 0)
