"""Whole lifetimes of a Matcher, with the naive book as the model.

Constants are so small here that everything rare happens all the time: keys of constants run out of gaps and are
relabelled, removals compact the table, types are learned, declared, changed and free again, bounds beyond 2^53 make a
number wide.

The model of types is naive: an attribute that is not declared has the type of the conditions that compare it with a
value, and such is every constraint that some value satisfies and some does not. Without a type, events may hold
anything.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import date
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.contract import book as books
from tests.contract.book import Book, Entry, as_arrow, as_event, as_pandas, as_polars, outcomes, triples
from tests.oracle import generate
from tests.oracle.ranking import (
    FLOAT_SPECIALS,
    Constraint,
    Interval,
    asked_in,
    clauses,
    neighbours,
    order_key,
    part_holds,
)
from tests.oracle.syntax import (
    TRUE,
    And,
    Between,
    Column,
    Compare,
    In,
    IsNull,
    IsTruth,
    Like,
    Literal,
    Node,
    Not,
    Or,
    column_of,
    decimal,
    double,
    integer,
    leaves,
    literals_of,
    string,
    to_sql,
)

import earmark
from earmark import index as indexes
from earmark.engine import compaction
from earmark.index import auto, driver
from earmark.keys import strings
from earmark.segment import builder, ids

seeds = st.integers(0, 2**32).map(Random)
KINDS = {"n0": "number", "n1": "number", "f0": "number", "s0": "string", "b0": "boolean"}
FREE = "x0"
"""An attribute that has one kind of value now and another then."""
FREE_KINDS = ("number", "string", "boolean")
OTHER_TYPES = {"n0": ("integer", "number"), "n1": ("float", "number"), "f0": ("float", "number")}
WIDE = (2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**62 + 1)
ANYTHING = ([1, 2], b"x", {"deep": {"er": 1}}, "text", True, 1.5, Decimal("1.5"), 10**400, date(2024, 1, 1), object())
SAMPLE = {"number": 0, "integer": 0, "float": 0.0, "string": "", "boolean": True}
"""A value of each type, for conditions that do not care which."""
LETTERS = "ab\U0010ffff"
BAD_ROWS: list[tuple[dict[str, Any], str]] = [
    ({"condition": "n0 >"}, "condition"),
    ({"condition": "s0 = 'x' AND s0 = 5"}, "s0"),
    ({"condition": "n0 > 1 OR n0 = 'x'"}, "n0"),
    ({"condition": "n0 > 1", "weights": {"n1": 1.0}}, "does not use"),
    ({"condition": "n0 > 1", "weights": {"n0": -1.0}}, "not negative"),
    ({"condition": "n0 > 1", "score": float("inf")}, "finite"),
    ({"condition": "n0 > 1", "tags": {"tenant": 3}}, "tags"),
    ({"condition": "n0 > 1", "id": "s0"}, "s0"),
    ({"condition": "n0 > 1", "id": 5}, "5"),
]


def text(rng: Random) -> str:
    return "".join(rng.choice(LETTERS) for _ in range(rng.randint(0, 6)))


def value(rng: Random, column: Column) -> Any:
    if column.type in ("integer", "number") and rng.random() < 0.05:
        return rng.choice(WIDE) + rng.choice((-1, 0, 1))
    if column.type == "integer" or (column.type == "number" and column.name != "f0" and rng.random() < 0.7):
        return rng.randint(-2, 6)
    if column.type in ("float", "number"):
        return rng.choice((-1.5, 0.0, 0.5, 1.0, 2.5, 3.0, float("inf"), float("nan"), float(2**53)))
    return text(rng) if column.type == "string" else rng.random() < 0.5


def literal(rng: Random, column: Column) -> Literal:
    if column.type == "string":
        return string(text(rng))
    if column.name != "f0":  # also when it has become a float
        if rng.random() < 0.03:
            return integer(rng.choice(WIDE))
        return integer(rng.randint(-2, 6)) if rng.random() < 0.7 else decimal(f"{rng.randint(-2, 6)}.5")
    return double(rng.choice((-1.5, 0.0, 0.5, 1.0, 2.5)))


def leaf(rng: Random, column: Column) -> Node:
    style = rng.random()
    if style < 0.08:
        return IsNull(column, rng.random() < 0.5)
    if column.type == "boolean":
        return column if style < 0.5 else IsTruth(column, rng.random() < 0.5, rng.random() < 0.5)
    if column.type == "string" and style < 0.3:
        return Like(column, text(rng), rng.random() < 0.3)
    if style < 0.5:
        return Between(column, literal(rng, column), literal(rng, column), rng.random() < 0.3)
    if style < 0.65:
        return In(column, tuple(literal(rng, column) for _ in range(rng.randint(1, 4))), rng.random() < 0.3)
    return Compare(column, rng.choice(("<", "<=", "=", "!=", ">=", ">", "<=>")), literal(rng, column))


def condition(rng: Random, columns: list[Column], depth: int = 2) -> Node:
    if depth == 0 or rng.random() < 0.2:
        return leaf(rng, rng.choice(columns))
    style = rng.random()
    if style < 0.15:
        return Not(condition(rng, columns, depth - 1))
    parts = tuple(condition(rng, columns, depth - 1) for _ in range(rng.choice((2, 2, 3))))
    return And(parts) if style < 0.65 else Or(parts)


def retyped(node: Any, name: str, kind: str) -> Any:
    """The same tree, in which one column has another type."""
    if isinstance(node, Column):
        return replace(node, type=kind) if node.name == name else node
    if isinstance(node, tuple):
        return tuple(retyped(part, name, kind) for part in node)
    if not is_dataclass(node) or isinstance(node, (type, Literal)):
        return node
    return replace(node, **{f.name: retyped(getattr(node, f.name), name, kind) for f in fields(node)})


@lru_cache(maxsize=4096)
def mentioned(node: Node) -> dict[str, str]:
    """The attributes of a condition, and their types in it."""
    return {column.name: column.type for part in leaves(node) if (column := column_of(part)) is not None}


def compares(constraints: Sequence[Constraint], column: Column) -> bool:
    """Whether some value satisfies one of the constraints and some satisfies none."""
    tried: list[Any] = [SAMPLE[column.type]]
    if column.type in ("number", "float"):
        tried += FLOAT_SPECIALS
    elif column.type == "integer":
        tried += [-(2**63), 2**63 - 1]
    for constraint in constraints:
        for part in constraint:
            for asked in asked_in(part):
                for given in literals_of(asked.leaf):
                    tried += neighbours(column, given)
    answers = {any(all(part_holds(p, {column.name: v}) for p in one) for one in constraints) for v in tried}
    return len(answers) == 2


@lru_cache(maxsize=4096)
def uses(node: Node, name: str) -> bool | None:
    """Whether a condition compares an attribute with a value; None where clauses on it alone do so one by one only.

    `n > 3 OR n <= 3 OR b` is one constraint on n, which is open to everything, or two.
    """
    column = Column(name, mentioned(node)[name])
    alone, among = [], []
    for clause in clauses(node):
        if name in clause:
            (alone if len(clause) == 1 else among).append(clause[name])
    if any(compares([one], column) for one in among) or (alone and compares(alone, column)):
        return True
    return None if any(compares([one], column) for one in alone) else False


class Lifetime(RuleBasedStateMachine):
    """Anything, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.undo: list[Callable[[], None]] = []
        self.patch(strings, "_STRIDE", 8)
        self.patch(compaction, "SMALLEST_SHRINK", 6)
        self.patch(compaction, "SHORTEST_TAIL", 2)
        self.patch(compaction, "REBUILD_SHARE", 4)
        self.patch(ids, "_FEW", 3)
        self.patch(builder, "_FEW", 2)
        for name, few in (("FEW", 2), ("SMALL", 8), ("LARGE", 20), ("EVENTS", 8), ("MOST_RUNS", 2)):
            self.patch(auto, name, few)
        self.patch(driver, "OBSERVED", 4)
        self.folder = Path(tempfile.mkdtemp())
        self.book = Book()
        self.declared: dict[str, str] = {}
        self.next = 0

    def patch(self, module: Any, name: str, small: int) -> None:
        before = getattr(module, name)
        setattr(module, name, small)
        self.undo.append(lambda: setattr(module, name, before))

    def teardown(self) -> None:
        for undo in self.undo:
            undo()
        shutil.rmtree(self.folder)

    @initialize(index=st.sampled_from(indexes.names()))
    def begin(self, index: str) -> None:
        self.matcher = earmark.Matcher(index)

    # --- types ----------------------------------------------------------------------------------------------

    def uses(self, name: str) -> bool:
        """Whether a living condition compares the attribute with a value."""
        found = {uses(e.node, name) for e in self.book.entries.values() if name in mentioned(e.node)}
        if True not in found and None in found:
            return bool(self.matcher.attributes[name].uses)
        return True in found

    def type_of(self, name: str) -> str | None:
        """What conditions and declarations say."""
        if name in self.declared:
            return self.declared[name]
        if not self.uses(name):
            return None
        nodes = [e.node for e in self.book.entries.values() if name in mentioned(e.node)]
        return next(mentioned(node)[name] for node in nodes if uses(node, name) is not False)

    @rule(rng=seeds)
    def declare(self, rng: Random) -> None:
        name = rng.choice((*KINDS, FREE))
        kind = self.type_of(name) or KINDS.get(name) or rng.choice(FREE_KINDS)
        self.matcher.declare({name: kind})
        self.declared[name] = kind

    @rule(rng=seeds)
    def declare_wrongly(self, rng: Random) -> None:
        name = rng.choice([one for one in KINDS if self.type_of(one)] or [None])
        before = self.matcher.attributes
        with pytest.raises(earmark.EarmarkError):
            self.matcher.declare({"new": "string", "n0": "text"} if name is None else {"new": "string", name: "date"})
        assert self.matcher.attributes == before

    @rule(rng=seeds)
    def retype(self, rng: Random) -> None:
        name = rng.choice(sorted(OTHER_TYPES))
        kind = rng.choice(OTHER_TYPES[name])
        if name not in self.matcher.attributes:
            with pytest.raises(earmark.EarmarkError, match=f"no attribute '{name}'"):
                self.matcher.retype(name, kind)
            return
        self.matcher.retype(name, kind)
        self.declared[name] = kind
        for one, entry in self.book.entries.items():
            self.book.update(one, node=retyped(entry.node, name, kind))

    @rule(rng=seeds)
    def retype_wrongly(self, rng: Random) -> None:
        used = [name for name in OTHER_TYPES if name in self.matcher.attributes and self.uses(name)]
        if used:
            name, before = rng.choice(used), self.matcher.stats()
            with pytest.raises(earmark.AttributeTypeError, match=f"'{name}' cannot become string: .*subscription"):
                self.matcher.retype(name, "string")
            assert self.matcher.stats() == before

    # --- subscriptions --------------------------------------------------------------------------------------

    def columns(self, rng: Random) -> list[Column]:
        """With the types that they have, or that the next condition gives them."""
        kinds = {**KINDS, **self.declared}
        if FREE not in kinds:
            kinds[FREE] = self.type_of(FREE) or rng.choice(FREE_KINDS)
        return [Column(name, kind) for name, kind in kinds.items()]

    def entry(self, rng: Random) -> Entry:
        return books.entry(rng, condition(rng, self.columns(rng)))

    def new(self, rng: Random, count: int) -> dict[str, Entry]:
        columns = self.columns(rng)
        made = {f"s{self.next + i}": books.entry(rng, condition(rng, columns)) for i in range(count)}
        self.next += count
        return made

    def some(self, rng: Random, most: int) -> list[str]:
        return rng.sample(list(self.book.entries), min(len(self.book.entries), rng.randint(1, most)))

    @rule(rng=seeds)
    def add(self, rng: Random) -> None:
        for one, made in self.new(rng, 1).items():
            self.matcher.add(one, to_sql(made.node), weights=made.weights, score=made.score, tags=made.tags)
            self.book.entries[one] = made

    @rule(rng=seeds, form=st.sampled_from(["pairs", "mappings", "objects", "arrow", "pandas", "polars"]))
    def add_many(self, rng: Random, form: str) -> None:
        made = self.new(rng, rng.randint(0, 8))
        listed: Any = [{"id": one, **entry.fields()} for one, entry in made.items()]
        if form == "pairs":
            made = {one: Entry(entry.node) for one, entry in made.items()}
            listed = [(one, to_sql(entry.node)) for one, entry in made.items()]
        elif form == "objects":
            listed = [
                earmark.Subscription(f["id"], earmark.parse(f["condition"]), f["weights"], f["score"], f["tags"])
                for f in listed
            ]
        elif form in ("arrow", "pandas", "polars"):
            listed = as_frame(listed, form)
        assert self.matcher.add_many(listed) == len(made)
        self.book.entries.update(made)

    @rule(rng=seeds, ranges=st.booleans(), fractions=st.booleans())
    def add_bounds(self, rng: Random, ranges: bool, fractions: bool) -> None:
        """Ready-made columns, of whole or of fractional numbers, whatever the attribute's type."""
        names = ["n0", "n1"] if ranges else ["n0", "n1", "s0"]
        columns = [c for c in self.columns(rng) if c.name in names]
        bounded = {}
        for _ in range(rng.randint(1, 5)):
            bounded[f"s{self.next}"] = {c: self.bounds(rng, c, fractions) for c in columns if rng.random() < 0.7}
            self.next += 1
        self.matcher.add_many(as_ranges(bounded, fractions) if ranges else as_bounds(bounded, columns, fractions))
        for one, by_column in bounded.items():
            parts = [part for column, ends in by_column.items() for part in as_parts(column, ends)]
            self.book.entries[one] = Entry(And(tuple(parts)) if parts else TRUE)

    def bounds(self, rng: Random, column: Column, fractions: bool) -> tuple[Any, Any]:
        if column.type == "string":
            ends = [text(rng) for _ in range(2)]
        elif fractions:
            ends = [rng.randint(-2, 6) + 0.5 for _ in range(2)]
        else:
            ends = [rng.choice(WIDE) if rng.random() < 0.05 else rng.randint(-2, 6) for _ in range(2)]
        lo, hi = (None if rng.random() < 0.2 else end for end in ends)
        return lo, hi

    @rule(rng=seeds, bad=st.sampled_from(BAD_ROWS))
    def add_many_with_one_bad_row(self, rng: Random, bad: tuple[dict[str, Any], str]) -> None:
        listed = [{"id": one, **entry.fields()} for one, entry in self.new(rng, rng.randint(1, 5)).items()]
        row = rng.randrange(len(listed) + 1)
        fields_, reason = bad
        if fields_.get("id") == "s0":
            fields_ = {**fields_, "id": rng.choice([*self.book.entries, *(f["id"] for f in listed[:row])] or ["s0"])}
            if fields_["id"] not in self.book.entries and row == 0:
                return
            reason = fields_["id"]
        elif "id" not in fields_:
            fields_ = {**fields_, "id": "bad"}
        elif not self.book.entries and row == 0:
            return  # a number would be the first id, and its successors the wrong ones
        listed.insert(row, fields_)
        before = self.matcher.stats()
        with pytest.raises(earmark.EarmarkError, match=f"row {row}") as problem:
            self.matcher.add_many(listed)
        assert reason in str(problem.value)
        assert self.matcher.stats() == before

    @precondition(lambda self: self.book.entries)
    @rule(rng=seeds)
    def remove(self, rng: Random) -> None:
        chosen = self.some(rng, 6)
        if len(chosen) == 1:
            self.matcher.remove(chosen[0])
        else:
            assert self.matcher.remove_many(iter(chosen)) == len(chosen)
        for one in chosen:
            del self.book.entries[one]

    @precondition(lambda self: self.book.entries)
    @rule(rng=seeds)
    def remove_with_one_unknown(self, rng: Random) -> None:
        chosen = [*self.some(rng, 3), "nobody"]
        with pytest.raises(earmark.SubscriptionError, match="nobody"):
            self.matcher.remove_many(chosen)

    @precondition(lambda self: self.book.entries)
    @rule(rng=seeds)
    def update(self, rng: Random) -> None:
        """Some of the fields; the others stay."""
        for one in self.some(rng, 4):
            new = self.entry(rng)
            kind = mentioned(self.book.entries[one].node).get(FREE)
            if kind != (self.type_of(FREE) or kind):
                continue  # it never compared the attribute with a value, and others do now, of another type
            given = {name: getattr(new, name) for name in ("node", "score", "tags") if rng.random() < 0.5}
            node = given.get("node", self.book.entries[one].node)
            used = {name for clause in clauses(node) for name in clause}
            kept = {name: w for name, w in self.book.entries[one].weights.items() if name in used}
            if rng.random() < 0.5:
                given["weights"] = generate.weights(rng, sorted(used))
            arguments = {"condition" if n == "node" else n: to_sql(v) if n == "node" else v for n, v in given.items()}
            self.matcher.update(one, **arguments)
            self.book.update(one, **{"weights": kept, **given})

    @precondition(lambda self: self.book.entries)
    @rule(rng=seeds, bad=st.sampled_from([b for b in BAD_ROWS if "id" not in b[0]]))
    def update_wrongly(self, rng: Random, bad: tuple[dict[str, Any], str]) -> None:
        before = self.matcher.stats()
        with pytest.raises(earmark.EarmarkError, match=bad[1]):
            self.matcher.update(self.some(rng, 1)[0], **bad[0])
        assert self.matcher.stats() == before

    # --- the table moves ------------------------------------------------------------------------------------

    @rule()
    def compact(self) -> None:
        self.matcher.compact()
        assert self.matcher.stats()["removed"] == 0

    @rule(mmap=st.booleans())
    def save_and_load(self, mmap: bool) -> None:
        self.matcher.save(self.folder / "table")
        self.matcher = earmark.Matcher.load(self.folder / "table", mmap=mmap)

    @rule(index=st.sampled_from(indexes.names()))
    def to_arrow_and_back(self, index: str) -> None:
        frame = self.matcher.to_arrow()
        self.matcher = earmark.Matcher(index)
        assert self.matcher.add_many(frame) == len(self.book.entries)
        self.declared = {name: kind for name, kind in self.declared.items() if name in self.matcher.attributes}

    @rule()
    def pickle_and_back(self) -> None:
        self.matcher = pickle.loads(pickle.dumps(self.matcher))

    # --- searches -------------------------------------------------------------------------------------------

    def row(self, rng: Random) -> dict[str, Any]:
        """An event; where an attribute has no type, anything that is not NULL."""
        made: dict[str, Any] = {}
        for name in (*KINDS, FREE):
            if rng.random() < 0.2:
                continue
            kind = self.type_of(name)
            if kind is None:
                made[name] = Anything(rng.choice(ANYTHING))
                continue
            column = Column(name, kind)
            ends = [value(rng, column) for _ in range(2)]
            ends.sort(key=lambda v, column=column: order_key(column, v))  # type: ignore[misc]
            made[name] = Interval(*ends) if rng.random() < 0.2 else ends[0]
        return made

    def seen_by(self, node: Node, row: dict[str, Any]) -> dict[str, Any]:
        """A row for the naive answer, in which values that a condition does not care for are of the type it mentions.

        That is so where an attribute has no type, and where it has another than the condition mentions: such a
        condition holds whatever the value is, or never, so it holds no type.
        """
        kinds = mentioned(node)

        def is_indifferent(name: str, value: Any) -> bool:
            kind, own = kinds.get(name), self.type_of(name)
            return isinstance(value, Anything) or (kind is not None and own is not None and family(kind) != family(own))

        return {n: SAMPLE[kinds.get(n, "number")] if is_indifferent(n, v) else v for n, v in row.items()}

    def scored(self, row: dict[str, Any], *arguments: Any, **more: Any) -> list[tuple[Any, float]]:
        order = list(self.matcher.stats()["attributes"])
        found = []
        for one, entry in self.book.entries.items():
            found += Book({one: entry}, order).scored(self.seen_by(entry.node, row), *arguments, **more)
        return found

    @rule(rng=seeds)
    def match(self, rng: Random) -> None:
        row = self.row(rng)
        scope = rng.choice((None, None, {"tenant": "acme"}))
        found = self.matcher.match(event_of(row), scope=scope)
        assert found == [one for one, _ in self.scored(row, scope=scope)]

    @rule(rng=seeds, form=st.sampled_from([as_arrow, as_pandas, as_polars, None]))
    def match_many(self, rng: Random, form: Any) -> None:
        rows = books.without_nan([self.row(rng) for _ in range(rng.randint(1, 4))])
        if form is None:
            events: Any = [event_of(row) for row in rows]
        else:
            kinds = {name: self.type_of(name) or rng.choice(FREE_KINDS) for name in (*KINDS, FREE)}
            plain = [{n: SAMPLE[kinds[n]] if isinstance(v, Anything) else v for n, v in row.items()} for row in rows]
            columns = books.in_columns(plain, kinds)
            events = form(columns, kinds)
            free = {name for name in kinds if self.type_of(name) is None}
            rows = [{n: Anything(v) if n in free and v is not None else v for n, v in row.items()} for row in columns]
        found = self.matcher.match_many(events)
        assert triples(found) == [(e, *pair) for e, row in enumerate(rows) for pair in self.scored(row)]

    @rule(rng=seeds, mode=st.sampled_from(["exact", "relaxed"]))
    def top_k(self, rng: Random, mode: str) -> None:
        row, weights, k = self.row(rng), generate.weights(rng, [*KINDS, FREE]), rng.choice((1, 3, 100))
        found = self.matcher.top_k(event_of(row), k, mode=mode, weights=weights)
        best = sorted(self.scored(row, weights, mode=mode), key=lambda pair: -pair[1])[:k]
        assert [tuple(match) for match in found] == best

    @rule(rng=seeds, missing=st.integers(1, 3))
    def near_misses(self, rng: Random, missing: int) -> None:
        row = self.row(rng)
        found = self.matcher.near_misses(event_of(row), missing)
        expected = []
        for one, entry in self.book.entries.items():
            failing = [
                set(clause) - set(held)
                for clause, (held, _) in zip(
                    clauses(entry.node), outcomes(entry.node, self.seen_by(entry.node, row)), strict=True
                )
            ]
            fewest = min(map(len, failing), default=0)
            if 0 < fewest <= missing:
                expected.append((fewest, one, [names for names in failing if len(names) == fewest]))
        expected.sort(key=lambda triple: triple[0])
        assert [near.id for near in found] == [one for _, one, _ in expected]
        for near, (_, _, nearest) in zip(found, expected, strict=True):
            assert {held.attribute for held in near.failing} in nearest

    @precondition(lambda self: self.book.entries)
    @rule(rng=seeds)
    def explain(self, rng: Random) -> None:
        row, one = self.row(rng), self.some(rng, 1)[0]
        found = self.matcher.explain(one, event_of(row))
        expected = dict(self.scored(row)).get(one)
        assert found.score == expected
        assert found.matched is (expected is not None)
        assert str(found)

    @invariant()
    def consistent(self) -> None:
        if not hasattr(self, "matcher"):
            return
        self.matcher._compactor.wait()  # so that a run can be repeated
        assert self.matcher.stats()["compaction_problem"] is None
        assert self.matcher.ids() == list(self.book.entries)
        self.matcher._version.check()
        for name in (*KINDS, FREE):
            known, kind, uses = self.matcher.attributes.get(name), self.type_of(name), self.uses(name)
            if known is None:
                assert (kind, uses) == (None, False), name
            elif kind == "string" or known.type == "string":  # its keys know no surrogates and no last character
                assert known.type in (kind, "string") and bool(known.uses) >= uses
            else:
                assert (known.type, bool(known.uses), known.declared) == (kind, uses, name in self.declared), name


@dataclass(frozen=True, eq=False)
class Anything:
    """A value of an attribute that has no type."""

    value: Any


def event_of(row: dict[str, Any]) -> dict[str, Any]:
    return as_event({name: v.value if isinstance(v, Anything) else v for name, v in row.items()})


def family(kind: str) -> str:
    """The types whose values compare with each other, under one name."""
    return "number" if kind in ("integer", "float", "number") else kind


def as_frame(listed: list[dict[str, Any]], form: str) -> Any:
    """Subscriptions as a frame, with an Arrow map for weights and tags."""
    kinds = {
        "id": pa.string(),
        "condition": pa.string(),
        "weights": pa.map_(pa.string(), pa.float64()),
        "score": pa.float64(),
        "tags": pa.map_(pa.string(), pa.string()),
    }
    if form == "pandas":
        return pd.DataFrame({name: pd.Series([f[name] for f in listed], dtype=object) for name in kinds})
    if form == "polars":
        names = {n: sorted({k for f in listed for k in f[n]}) for n in ("weights", "tags")}
        columns: dict[str, Any] = {n: [f[n] for f in listed] for n in kinds}
        for name, keys in names.items():
            columns[name] = [{k: f[name].get(k) for k in keys} or None for f in listed]
        return pl.DataFrame(columns, strict=False)
    return pa.table(
        {
            n: pa.array([list(f[n].items()) if n in ("weights", "tags") else f[n] for f in listed], kind)
            for n, kind in kinds.items()
        }
    )


def as_bounds(bounded: dict[str, dict[Column, tuple[Any, Any]]], columns: list[Column], fractions: bool) -> pa.Table:
    made: dict[str, Any] = {"id": list(bounded)}
    for column in columns:
        kind = pa.string() if column.type == "string" else pa.float64() if fractions else pa.int64()
        for side, name in enumerate(("lo", "hi")):
            ends = [by_column.get(column, (None, None))[side] for by_column in bounded.values()]
            made[f"{column.name}_{name}"] = pa.array(ends, kind)
    return pa.table(made)


def as_ranges(bounded: dict[str, dict[Column, tuple[Any, Any]]], fractions: bool) -> pa.Table:
    kind = pa.float64() if fractions else pa.int64()
    entries = [[{"attribute": c.name, "lo": lo, "hi": hi} for c, (lo, hi) in ends.items()] for ends in bounded.values()]
    listed = pa.list_(pa.struct({"attribute": pa.string(), "lo": kind, "hi": kind}))
    return pa.table({"id": list(bounded), "ranges": pa.array(entries, listed)})


def as_parts(column: Column, ends: tuple[Any, Any]) -> list[Node]:
    """What a pair of bounds asks: both NULL leave the attribute unconstrained."""

    def compared(op: str, end: Any) -> Compare:
        made = string(end) if isinstance(end, str) else double(end) if isinstance(end, float) else integer(end)
        return Compare(column, op, made)

    return [compared(op, end) for op, end in zip((">=", "<="), ends, strict=True) if end is not None]


Lifetime.TestCase.settings = settings(
    max_examples=max(1, settings.default.max_examples // 6),
    report_multiple_bugs=False,
)
TestLifetime = Lifetime.TestCase
