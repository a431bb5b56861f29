"""One contract, every index, every way to combine weights into a score: answers against the oracle, to the last bit."""

from __future__ import annotations

import math
import operator
import pickle
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.contract import book as books
from tests.contract.book import Book, accepted, as_event, assert_ranks, rows, triples
from tests.oracle import generate

import earmark
from earmark import index as indexes
from earmark.engine import compaction
from earmark.errors import EarmarkError, TooManyAnswers
from earmark.events.frames import encode_many
from earmark.flat import bits
from earmark.index import answers, blocks
from earmark.index.contract import Floor
from earmark.jit import JIT
from earmark.segment.combine import combination


def either(a: float, b: float) -> float:
    """Grows towards 1: a score of one's own."""
    return max(a, b) + 0.25 * min(a, b)


COMBINATIONS: dict[Any, Callable[[float, float], float]] = {"max": max, "min": min, "product": operator.mul}
every_index = pytest.mark.parametrize("index", indexes.names())
every_score = pytest.mark.parametrize("combine", COMBINATIONS)
SCHEMA = generate.WITH_NUMBERS


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if tables were large, and indexes without a tail."""
    monkeypatch.setattr(blocks, "SMALL", 0)
    books.plan_small_books(monkeypatch)
    monkeypatch.setattr(compaction, "SHORTEST_TAIL", 0)


def filled(index: str, combine: Any, rng: Random, count: int) -> tuple[earmark.Matcher, Book]:
    matcher = earmark.Matcher(index, attributes=generate.SCHEMA, combine=combine)
    book = Book(combine=COMBINATIONS.get(combine, combine))
    for one in range(count):
        made = books.entry(rng, schema=SCHEMA)
        if accepted(matcher, one, made):
            book.entries[one] = made
    return matcher, book


def assert_scores(matcher: earmark.Matcher, book: Book, rng: Random) -> None:
    """All matches, the k best exact and relaxed, with and without event weights and a scope; and explanations."""
    book.order = list(matcher.stats()["attributes"])
    some = rows(rng, book, 5, SCHEMA)
    expected = [(e, one, score) for e, row in enumerate(some) for one, score in book.scored(row)]
    assert triples(matcher.match_many([as_event(row) for row in some])) == expected
    weights = [generate.weights(rng, book.order) if rng.random() < 0.7 else None for _ in some]
    for mode in ("exact", "relaxed"):
        assert_ranks(matcher, book, some, weights, rng.choice((1, 2, 5)), mode)
        assert_ranks(matcher, book, some, [None] * len(some), 10**6, mode, scope={"tenant": "acme"})
    for row in some[:2]:
        for one, score in book.scored(row)[:3]:
            assert matcher.explain(one, as_event(row)).score == score


@every_index
@every_score
def test_every_answer(index: str, combine: str) -> None:
    rng = Random(f"{index} {combine}")
    matcher, book = filled(index, combine, rng, 25)
    assert_scores(matcher, book, rng)  # of several segments
    matcher.compact()
    assert_scores(matcher, book, rng)  # of one


@pytest.mark.parametrize(
    ("index", "combine"),
    [
        ("scan", math.hypot),
        pytest.param("be_star_tree", either, marks=pytest.mark.slow),  # which compiles for long
        pytest.param("sopt_r_tree", either, marks=pytest.mark.slow),
    ],
)
def test_a_function_of_ones_own(index: str, combine: Any) -> None:
    """One kernel for all indexes without bounds, and one each for the tree and the Threshold Algorithm."""
    rng = Random(index)
    matcher, book = filled(index, combine, rng, 25)
    matcher.compact()
    assert_scores(matcher, book, rng)


@pytest.mark.parametrize("index", [name for name in indexes.names() if name != "auto"])
@every_score
def test_pruning_leaves_out_nothing(index: str, combine: str) -> None:
    """Weights and scores spread widely over more subscriptions than are answered: bounds decide, and ties do.

    Some subscriptions have ended, and the life spans of others give no term.
    """
    rng = Random(f"{combine} {index}")
    matcher = earmark.Matcher(index, combine=combine)
    conditions = [
        {
            "id": one,
            "condition": " AND ".join(f"{name} BETWEEN {(low := rng.randrange(60))} AND {low + 40}" for name in names),
            "weights": {name: rng.choice((0.0, 0.1, 0.5, 1.0, 1.0, 3.0, 700.0)) for name in names},
            "score": rng.choice((0.0, 0.0, 2.5)) if one % 2 else 0.0,
            "ends": rng.choice((None, None, "2020-01-01", "2030-01-01")),
        }
        for one in range(300)
        for names in [rng.sample("abcd", rng.randint(1, 3))]
    ]
    matcher.add_many(conditions)
    rival = earmark.Matcher("scan", combine=combine)
    rival.add_many(conditions)
    events = [{name: rng.randrange(100) for name in rng.sample("abcd", rng.randint(1, 4))} for _ in range(30)]
    weights = [{name: rng.choice((0.0, 0.5, 2.0)) for name in "abcd"} if rng.random() < 0.5 else None for _ in events]
    asked: dict[str, Any] = {"weights": weights, "at": "2025-01-01"}
    for mode in ("exact", "relaxed"):
        best = rival.top_k_many(events, 300, mode=mode, **asked).to_pylist()
        for k in (1, 4):
            kept = [row for e in range(len(events)) for row in [r for r in best if r["event"] == e][:k]]
            assert matcher.top_k_many(events, k, mode=mode, **asked).to_pylist() == kept


@pytest.mark.parametrize("index", ["be_star_tree", "sopt_r_tree"])
@every_score
def test_bounds_do_prune(index: str, combine: str) -> None:
    """Of many heavy and light subscriptions, only some are scored."""
    matcher = earmark.Matcher(index, combine=combine)
    rows = [
        {"id": i, "condition": f"a < 100 AND {own} > 3", "weights": dict.fromkeys(("a", own), 0.5 + i % 20)}
        for i in range(2_000)
        for own in [f"b{i % 20}"]
    ]
    matcher.add_many(rows)
    matcher.compact()
    work = matcher.profile([{"a": 1, "b0": 50, "b19": 50}], 3, mode="relaxed")
    assert work.pruned
    assert work.scored < 1_000


def test_more_matches_than_are_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer events at a time, and the same answers; one event with too many is refused."""
    matcher = earmark.Matcher("interval_tree", combine="max")
    matcher.add_many([{"id": i, "condition": "a > 0 AND b > 0", "weights": {"a": i % 7, "b": 1}} for i in range(40)])
    events = [{"a": 1, "b": 1}] * 20
    wanted = matcher.top_k_many(events, 3).to_pylist()
    monkeypatch.setattr(answers, "MOST_ANSWERS", 100)
    assert matcher.top_k_many(events, 3).to_pylist() == wanted
    assert [row["subscription"] for row in wanted[:3]] == [6, 13, 20]
    monkeypatch.setattr(answers, "MOST_ANSWERS", 30)
    with pytest.raises(TooManyAnswers):
        matcher.top_k_many(events, 3)


def test_life_spans_give_no_term() -> None:
    matcher = earmark.Matcher(combine="product")
    matcher.add("x", "a > 1 AND b > 1", weights={"a": 3.0, "b": 0.5}, score=1.0, ends="2030-01-01")
    assert matcher.top_k({"a": 2, "b": 2}, at="2029-01-01") == [("x", 2.5)]
    assert matcher.top_k({"a": 2, "b": 0}, at="2029-01-01", mode="relaxed") == [("x", 4.0)]
    assert matcher.top_k({"a": 2, "b": 2}, at="2031-01-01", mode="relaxed") == []


def test_a_floor_of_another_segment() -> None:
    rng = Random(5)
    matcher, book = filled("be_star_tree", "max", rng, 40)
    matcher.compact()
    (indexed,) = matcher._version.segments
    events = encode_many(indexed.segment.schema, [as_event(row) for row in rows(rng, book, 12, SCHEMA)])
    by_max, everyone = combination("max"), bits.all_set(len(indexed))
    pointers, slots, scores = indexed.index.top_k_many(events, 10**6, everyone, True, combination=by_max)
    floor = Floor(np.full(12, 1.0), np.full(12, 20))
    got = indexed.index.top_k_many(events, 3, everyone, True, floor, combination=by_max)
    found = list(zip(got[1].tolist(), got[2].tolist(), strict=True))
    for e, (first, last) in enumerate(pairwise(pointers)):
        wanted = [
            (int(slots[i]), float(scores[i]))
            for i in range(first, last)
            if (-scores[i], indexed.segment.arrays.sequence[slots[i]]) < (-1.0, 20)
        ]
        assert found[got[0][e] : got[0][e + 1]] == wanted[:3]


def test_what_is_kept_and_what_is_given_again(tmp_path: Path) -> None:
    matcher = earmark.Matcher(combine="max")
    matcher.add("x", "a > 1 AND b > 1", weights={"a": 3.0, "b": 0.5})
    event = {"a": 2, "b": 2}
    matcher.save(tmp_path / "saved")
    assert earmark.Matcher.load(tmp_path / "saved").top_k(event) == [("x", 3.5)]
    assert earmark.Matcher.load(tmp_path / "saved", combine="min").top_k(event) == [("x", 0.5)]
    assert pickle.loads(pickle.dumps(matcher)).top_k(event) == [("x", 3.0)]
    with earmark.open(tmp_path / "book", combine="product") as book:
        book.add("x", "a > 1 AND b > 1", weights={"a": 3.0, "b": 0.5})
        assert book.top_k(event) == [("x", 1.5)]
        assert book.as_of(1).top_k(event) == [("x", 1.5)]
    with earmark.open(tmp_path / "book", readonly=True, follow=False, combine="max") as book:
        assert book.top_k(event) == [("x", 3.0)]


def test_an_explanation_says_how() -> None:
    matcher = earmark.Matcher(combine="max")
    matcher.add("x", "a > 1 AND b > 1", weights={"a": 3.0, "b": 0.5}, score=1.0)
    assert str(matcher.explain("x", {"a": 2, "b": 2})).splitlines() == [
        "'x' matches, score 4 by max",
        "    1    static score",
        "    3    ✓ a > 1   (a = 2)",
        "    0.5  ✓ b > 1   (b = 2)",
    ]


def test_products_stay_numbers() -> None:
    matcher = earmark.Matcher(combine="product")
    matcher.add("x", "a > 0 AND b > 0 AND c > 0", weights={"a": 1e300, "b": 1e300, "c": 0.0})
    matcher.add("y", "a > 0 AND b > 0", weights={"a": 1e300, "b": 1e300})
    best = matcher.top_k({"a": 1, "b": 1, "c": 1})
    assert best == [("y", np.finfo(float).max), ("x", 0.0)]


@pytest.mark.parametrize(
    ("combine", "message"),
    [
        ("least", "expected one of 'sum', 'max', 'min', 'product' or a function .* for combine, got 'least'"),
        (3, "or a function of two numbers for combine, got 3"),
        (operator.sub, r"a function that never decreases, got sub\(0.0, 0.0\) = 0 and sub\(0.0, 1e-09\) = -1e-09"),
        (operator.truediv, r"truediv\(0.0, 0.0\) raised ZeroDivisionError"),
        (lambda a, b: math.inf, "expected a finite number for"),
    ],
)
def test_refusals(combine: Any, message: str) -> None:
    with pytest.raises(EarmarkError, match=message):
        earmark.Matcher(combine=combine)


@pytest.mark.skipif(not JIT, reason="nothing is compiled")
def test_a_function_that_cannot_be_compiled() -> None:
    with pytest.raises(EarmarkError, match="Numba cannot compile <lambda>"):
        earmark.Matcher(combine=lambda a, b: float(f"{a + b}"))
