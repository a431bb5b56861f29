"""A Matcher's subscriptions as a plain dictionary, and every answer worked out naively from it.

`Book` shares nothing with the package: conditions are the oracle's trees, answers come from `tests.oracle.ranking`.
`assert_agrees` asks a Matcher everything it can be asked and compares, scores to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from random import Random
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.oracle import generate
from tests.oracle.ranking import Clause, Interval, clause_combined, clause_sum, clauses, holds
from tests.oracle.syntax import Node, to_sql

import earmark
from earmark.index import auto, driver

Row = Mapping[str, Any]
Weights = Mapping[str, float]
Ranked = list[tuple[Any, float]]
NONE: Weights = {}

SCORES = (0.0, 0.0, -1.5, 0.1, 0.3, 2.0, 1e9)
TENANTS = ({}, {"tenant": "acme"}, {"tenant": "acme", "tier": "gold"}, {"tenant": "ünï"})
ARROW_TYPES = {
    "integer": pa.int64(),
    "float": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "decimal(9,2)": pa.decimal128(9, 2),
    "number": pa.float64(),
}


def plan_small_books(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `auto` race, on two samples, for books of a few subscriptions, and take a few events for a drift."""
    monkeypatch.setattr(auto, "FEW", 2)
    monkeypatch.setattr(auto, "SMALL", 8)
    monkeypatch.setattr(auto, "LARGE", 20)
    monkeypatch.setattr(auto, "EVENTS", 8)
    monkeypatch.setattr(auto, "MOST_RUNS", 2)
    monkeypatch.setattr(driver, "OBSERVED", 4)


@dataclass(frozen=True)
class Entry:
    """One subscription."""

    node: Node
    weights: Weights = field(default_factory=dict)
    score: float = 0.0
    tags: Mapping[str, str] = field(default_factory=dict)

    def fields(self) -> dict[str, Any]:
        """As `add_many` takes it, without the id."""
        return {"condition": to_sql(self.node), "weights": self.weights, "score": self.score, "tags": self.tags}


@dataclass
class Book:
    """Subscriptions in order of insertion; `order` is the attributes in the order in which scores are summed."""

    entries: dict[Any, Entry] = field(default_factory=dict)
    order: Sequence[str] = ()
    combine: Callable[[float, float], float] | None = None
    """How terms are combined; None: they are added to the static score, one after another."""

    def update(self, one: Any, **changes: Any) -> None:
        """Replace fields; the place in the order stays, as it does in a dict."""
        self.entries[one] = replace(self.entries[one], **changes)

    def scored(self, row: Row, weights: Weights = NONE, scope: Row | None = None, mode: str = "exact") -> Ranked:
        """Everything that qualifies, in order of insertion, with its score."""
        found = []
        for one, entry in self.entries.items():
            if not (scope or {}).items() <= entry.tags.items():
                continue
            scores = [
                self.score(held, row, entry, weights)
                for held, whole in outcomes(entry.node, row)
                if whole or (mode == "relaxed" and held)
            ]
            if scores:
                found.append((one, max(scores)))
        return found

    def score(self, held: Clause, row: Row, entry: Entry, weights: Weights) -> float:
        """What the constraints that hold make of an entry."""
        given = (held, row, entry.weights, weights, entry.score, self.order)
        return clause_sum(*given) if self.combine is None else clause_combined(*given, self.combine)


_known: dict[tuple[int, int], tuple[Node, Row, list[tuple[Clause, bool]]]] = {}


def outcomes(node: Node, row: Row) -> list[tuple[Clause, bool]]:
    """For each clause: the constraints that hold, and whether those are all. Kept, because boxes are slow to try."""
    key = (id(node), id(row))
    if key not in _known:
        found = []
        for clause in clauses(node):
            held = {name: constraint for name, constraint in clause.items() if holds(constraint, row)}
            found.append((held, len(held) == len(clause)))
        if len(_known) > 10_000:
            _known.clear()
        _known[key] = (node, row, found)  # both are kept alive, so that no other takes their identity
    return _known[key][2]


def entry(rng: Random, node: Node | None = None, schema: Mapping[str, str] = generate.SCHEMA) -> Entry:
    """A random subscription, over the oracle's schema unless its condition is given."""
    node = node or generate.condition(rng, schema, depth=3, max_clauses=24)
    names = sorted({name for clause in clauses(node) for name in clause})
    weights = generate.weights(rng, names) if rng.random() < 0.5 else {}
    return Entry(node, weights, rng.choice(SCORES), rng.choice(TENANTS))


def accepted(matcher: earmark.Matcher, one: Any, made: Entry) -> bool:
    """Add it; False where earmark refuses on purpose, a literal that Spark would round first."""
    try:
        matcher.add(one, to_sql(made.node), weights=made.weights, score=made.score, tags=made.tags)
    except earmark.SubscriptionError as problem:
        if "where Spark rounds" not in str(problem):
            raise
        return False
    return True


def rows(rng: Random, book: Book, count: int, schema: Mapping[str, str] = generate.SCHEMA) -> list[dict[str, Any]]:
    """Rows and boxes that sit on the literals of the book's conditions, the empty row among them."""
    made: list[dict[str, Any]] = [{}]
    nodes = [e.node for e in book.entries.values()] or [None]
    for _ in range(count - 1):
        kind = generate.extended if rng.random() < 0.4 else generate.row
        made.append(kind(rng, schema, rng.choice(nodes), rng.choice((0.05, 0.3, 0.8))))
    return made


# --- the same events in every form -----------------------------------------------------------------------------


def as_event(row: Row) -> dict[str, Any]:
    return {n: earmark.Interval(v.lo, v.hi) if isinstance(v, Interval) else v for n, v in row.items()}


def as_columns(rows: Sequence[Row], schema: Mapping[str, str]) -> dict[str, tuple[bool, list[Any]]]:
    """By attribute: whether the column holds intervals, and its values; points become intervals where some are."""
    made = {}
    for name in schema:
        values = [row.get(name) for row in rows]
        if schema[name] == "number":
            values = [as_double(value) for value in values]
        boxed = any(isinstance(v, Interval) for v in values)
        if boxed:
            boxes = [v if v is None or isinstance(v, Interval) else Interval(v, v) for v in values]
            values = [None if v is None else {"lo": v.lo, "hi": v.hi} for v in boxes]
        made[name] = (boxed, values)
    return made


def as_arrow(rows: Sequence[Row], schema: Mapping[str, str]) -> pa.Table:
    columns = {}
    for name, (boxed, values) in as_columns(rows, schema).items():
        kind = ARROW_TYPES[schema[name]]
        columns[name] = pa.array(values, pa.struct({"lo": kind, "hi": kind}) if boxed else kind)
    return pa.table(columns)


def as_pandas(rows: Sequence[Row], schema: Mapping[str, str]) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(v, dtype=object) for name, (_, v) in as_columns(rows, schema).items()})


def as_polars(rows: Sequence[Row], schema: Mapping[str, str]) -> pl.DataFrame:
    made = pl.from_arrow(as_arrow(rows, schema))
    assert isinstance(made, pl.DataFrame)
    return made


def without_nan(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What pandas makes of rows: NaN is NULL, also as the end of an interval, which is then open; so none of those."""

    def is_nan(value: Any) -> bool:
        ends = (value.lo, value.hi) if isinstance(value, Interval) else (value,)
        return any(end != end for end in ends)

    return [{name: value for name, value in row.items() if not is_nan(value)} for row in rows]


def in_columns(rows: Sequence[Row], schema: Mapping[str, str]) -> list[dict[str, Any]]:
    """Rows that columns can hold: of numbers, those that are doubles; a learned number takes others one by one."""

    def fits(name: str, value: Any) -> bool:
        ends = (value.lo, value.hi) if isinstance(value, Interval) else (value,)
        return schema[name] != "number" or all(map(is_double, ends))

    return [{name: value for name, value in row.items() if fits(name, value)} for row in rows]


def as_double(value: Any) -> Any:
    if isinstance(value, Interval):
        return Interval(as_double(value.lo), as_double(value.hi))
    return None if value is None else float(value)


def is_double(value: Any) -> bool:
    try:
        return not isinstance(value, Decimal) and (value != value or float(value) == value)
    except OverflowError:
        return False


# --- everything a Matcher can be asked --------------------------------------------------------------------------


def assert_agrees(
    matcher: earmark.Matcher, book: Book, rows: Sequence[Row], rng: Random, schema: Mapping[str, str] = generate.SCHEMA
) -> None:
    """Every kind of search on these rows gives what the book gives."""
    book.order = list(matcher.stats()["attributes"])
    assert matcher.ids() == list(book.entries)
    assert len(matcher) == len(book.entries)
    for row in rows:
        assert matcher.match(as_event(row)) == [one for one, _ in book.scored(row)], row
    assert_batches(matcher, book, rows, schema)
    weights = [generate.weights(rng, book.order) if rng.random() < 0.7 else None for _ in rows]
    for mode in ("exact", "relaxed"):
        assert_ranks(matcher, book, rows, weights, rng.choice((1, 2, 5, 10**6)), mode)
    assert_scoped(matcher, book, rng.choice(rows), {"tenant": "acme"})
    assert_scoped(matcher, book, rng.choice(rows), {"tenant": "acme", "tier": "gold"})
    checked = matcher.verify([as_event(row) for row in rows])
    assert checked.ok, checked.differences
    assert checked.events == len(rows)


def assert_batches(matcher: earmark.Matcher, book: Book, rows: Sequence[Row], schema: Mapping[str, str]) -> None:
    expected = [(e, one, score) for e, row in enumerate(rows) for one, score in book.scored(row)]
    found = matcher.match_many([as_event(row) for row in rows])
    assert triples(found) == expected
    rows = in_columns(rows, schema)
    found = matcher.match_many([as_event(row) for row in rows])
    assert found.equals(matcher.match_many(as_arrow(rows, schema)))
    assert found.equals(matcher.match_many(as_arrow(rows, schema).to_batches()[0]))
    assert found.equals(matcher.match_many(as_polars(rows, schema)))
    plain = without_nan(rows)
    assert matcher.match_many(as_pandas(plain, schema)).equals(matcher.match_many([as_event(row) for row in plain]))


def assert_ranks(
    matcher: earmark.Matcher,
    book: Book,
    rows: Sequence[Row],
    weights: Sequence[Weights | None],
    k: int,
    mode: str,
    **how: Any,
) -> None:
    """The best of each row, alone and in a batch; `how` are further arguments, a scope among them or not."""
    scope = how.get("scope")
    expected = []
    for e, (row, own) in enumerate(zip(rows, weights, strict=True)):
        best = sorted(book.scored(row, own or {}, scope, mode), key=lambda pair: -pair[1])[:k]
        assert [tuple(m) for m in matcher.top_k(as_event(row), k, mode=mode, weights=own, **how)] == best, row
        expected += [(e, one, score) for one, score in best]
    events = [as_event(row) for row in rows]
    assert triples(matcher.top_k_many(events, k, mode=mode, weights=weights, **how)) == expected


def assert_scoped(matcher: earmark.Matcher, book: Book, row: Row, scope: Mapping[str, str]) -> None:
    event = as_event(row)
    expected = book.scored(row, scope=scope)
    assert matcher.match(event, scope=scope) == [one for one, _ in expected]
    assert triples(matcher.match_many([event], scope=scope)) == [(0, *pair) for pair in expected]
    for mode in ("exact", "relaxed"):
        best = sorted(book.scored(row, scope=scope, mode=mode), key=lambda pair: -pair[1])[:3]
        assert [tuple(m) for m in matcher.top_k(event, 3, mode=mode, scope=scope)] == best
        assert triples(matcher.top_k_many([event], 3, mode=mode, scope=scope)) == [(0, *pair) for pair in best]


def triples(table: pa.Table) -> list[tuple[int, Any, float]]:
    assert table.column_names == ["event", "subscription", "score"]
    return list(zip(*table.to_pydict().values(), strict=True))
