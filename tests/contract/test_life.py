"""Life spans in every index: what matches is what would match with `t >= starts AND t < ends` added by hand.

Scores are those of the condition alone, and relaxed search asks for the life span too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract import book as books
from tests.contract.book import Book, Ranked, Row, Weights, as_event, assert_ranks, rows, triples
from tests.oracle import generate
from tests.oracle.syntax import to_sql

import earmark
from earmark import index as indexes
from earmark.engine import compaction
from earmark.segment import living

few = settings(max_examples=max(1, settings.default.max_examples // 30))
TICKS = [generate.NOON + timedelta(microseconds=n) for n in (-2, -1, 0, 1, 2)]
NONE: Weights = {}
Life = tuple[Any, Any]


@pytest.fixture(autouse=True)
def tails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a tail, so that indexes take all in; the living are known after one test, and again after the next."""
    monkeypatch.setattr(compaction, "SHORTEST_TAIL", 0)
    monkeypatch.setattr(compaction, "REBUILD_SHARE", 4.0)
    monkeypatch.setattr(living, "SLOTS_PER_TEST", 1 << 40)
    books.plan_small_books(monkeypatch)


@dataclass
class LivedBook(Book):
    """A book in which some subscriptions have a life span; an event's time is its `t0`."""

    lives: dict[Any, Life] = field(default_factory=dict)

    def scored(self, row: Row, weights: Weights = NONE, scope: Row | None = None, mode: str = "exact") -> Ranked:
        return [found for found in super().scored(row, weights, scope, mode) if self._lives(found[0], row)]

    def _lives(self, one: Any, row: Row) -> bool:
        starts, ends = self.lives.get(one, (None, None))
        if starts is None and ends is None:
            return True
        time = row.get("t0")
        if time is None:
            return False
        first, last = (time.lo, time.hi) if isinstance(time, generate.Interval) else (time, time)
        return (ends is None or first is None or first < ends) and (starts is None or last is None or last >= starts)


def life(rng: Random) -> Life:
    starts, ends = sorted(rng.sample(TICKS, 2))
    return rng.choice([(None, None), (starts, None), (None, ends), (starts, ends), (starts, ends)])


def filled(index: str, rng: Random, count: int) -> tuple[earmark.Matcher, LivedBook]:
    matcher, book = earmark.Matcher(index, attributes=generate.SCHEMA, time="t0"), LivedBook()
    batch: list[Mapping[str, Any]] = []
    for one in range(count):
        made, (starts, ends) = books.entry(rng), life(rng)
        given = {"id": one, **made.fields(), "starts": starts, "ends": ends}
        try:
            earmark.Matcher("scan", attributes=generate.SCHEMA).add(**given)
        except earmark.SubscriptionError:  # a literal that Spark would round first
            continue
        if one < count // 2:
            batch.append(given)
        else:
            matcher.add(**given)
        book.entries[one], book.lives[one] = made, (starts, ends)
        if len(batch) == count // 2:
            matcher.add_many(batch)
            batch = []
    if batch:  # some were refused
        matcher = earmark.Matcher(index, attributes=generate.SCHEMA, time="t0")
        matcher.add_many([given_back(book, one) for one in book.entries])
    return matcher, book


def given_back(book: LivedBook, one: Any) -> dict[str, Any]:
    starts, ends = book.lives[one]
    return {"id": one, **book.entries[one].fields(), "starts": starts, "ends": ends}


def assert_lives(matcher: earmark.Matcher, book: LivedBook, found: list[dict[str, Any]], rng: Random) -> None:
    book.order = list(matcher.stats()["attributes"])
    for row in found:
        assert matcher.match(as_event(row)) == [one for one, _ in book.scored(row)], row
    expected = [(e, one, score) for e, row in enumerate(found) for one, score in book.scored(row)]
    assert triples(matcher.match_many([as_event(row) for row in found])) == expected
    weights = [generate.weights(rng, book.order) if rng.random() < 0.5 else None for _ in found]
    for mode in ("exact", "relaxed"):
        assert_ranks(matcher, book, found, weights, rng.choice((1, 3, 10**6)), mode)
    assert matcher.verify([as_event(row) for row in found]).ok
    for row in found[:2]:
        matching = {one for one, _ in book.scored(row)}
        assert all(matcher.explain(one, as_event(row)).matched == (one in matching) for one in book.entries)


@pytest.mark.parametrize("index", indexes.names())
@few
@given(seed=st.integers(0, 2**32))
def test_matches_are_those_of_a_condition_by_hand(index: str, seed: int) -> None:
    rng = Random(seed)
    matcher, book = filled(index, rng, 24)
    assert_lives(matcher, book, rows(rng, book, 6), rng)
    for one in rng.sample(sorted(book.entries), len(book.entries) // 3):
        starts, ends = book.lives[one] = life(rng)
        matcher.update(one, starts=starts, ends=ends)
    for one in rng.sample(sorted(book.entries), len(book.entries) // 4):
        matcher.remove(one)
        del book.entries[one]
    matcher.check()
    assert_lives(matcher, book, rows(rng, book, 4), rng)
    matcher.compact()
    assert_lives(matcher, book, rows(rng, book, 3), rng)


@few
@given(seed=st.integers(0, 2**32))
def test_by_hand_in_sql(seed: int) -> None:
    rng = Random(seed)
    matcher, book = filled("scan", rng, 20)
    by_hand = earmark.Matcher("scan", attributes=generate.SCHEMA)
    for one, entry in book.entries.items():
        starts, ends = book.lives[one]
        bounds = {"t0 >=": starts, "t0 <": ends}.items()
        parts = [f"{side} TIMESTAMP '{moment.isoformat()}'" for side, moment in bounds if moment is not None]
        by_hand.add(one, " AND ".join([f"({to_sql(entry.node)})", *parts]))
    for _ in range(8):
        row = generate.row(rng, generate.SCHEMA, rng.choice([e.node for e in book.entries.values()]))
        assert matcher.match(as_event(row)) == by_hand.match(as_event(row))


@pytest.mark.parametrize("index", indexes.names())
def test_where_all_subscriptions_live_and_at_the_edges(index: str) -> None:
    """Searches skip the test of life spans where all of a segment are living, for every event of a batch."""
    matcher = earmark.Matcher(index, attributes={"x": "integer"}, time="t0")
    late, early = TICKS[1], TICKS[3]  # the latest start, the earliest end
    lives: list[Life] = [(TICKS[0], TICKS[4]), (late, None), (None, early), (late, early)]
    matcher.add_many([{"id": n, "condition": "x > 1", "starts": a, "ends": b} for n, (a, b) in enumerate(lives)])
    times: list[Any] = [*TICKS, None, earmark.Interval(late, TICKS[2]), earmark.Interval(TICKS[0], TICKS[4])]
    for chosen in ([1, 2], [2], [6], [0, 2], [2, 3], [2, 4], [2, 5], [1, 6, 7], list(range(8))):
        found = [{"x": 5, "t0": times[n]} for n in chosen]
        expected = [[n for n, life in enumerate(lives) if _meets(life, row["t0"])] for row in found]
        assert triples(matcher.match_many(found)) == [(e, n, 1.0) for e, own in enumerate(expected) for n in own]
        assert [matcher.match(row) for row in found] == expected
        assert [[one.id for one in matcher.top_k(row, 9)] for row in found] == expected
        best = matcher.top_k_many(found, 9, mode="relaxed")
        assert triples(best) == [(e, n, 1.0) for e, own in enumerate(expected) for n in own]
        assert matcher.verify(found).ok


def _meets(life: Life, time: Any) -> bool:
    if time is None:
        return False
    first, last = (time.lo, time.hi) if isinstance(time, earmark.Interval) else (time, time)
    return (life[1] is None or first < life[1]) and (life[0] is None or last >= life[0])
