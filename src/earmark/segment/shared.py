"""Conditions that are bound once per process: the brokers of a simulated network are told the same ones, each in turn.

    "a < 3 AND b = 7"   ──►   names (a, b)   first keys (-∞, 7)   last keys (2, 7)      remembered, by text

A condition that only joins comparisons of numbers by AND has the same keys under every schema that has these attributes
as numbers; just the numbers of its attributes differ. So the rows of a batch are copied from memory into arrays, and
nothing is parsed but what teaches the schema something. A batch with any other condition goes through `prepare` as a
whole.

Invariant: what `prepare_shared` gives equals, array by array, what `prepare` gives for the same rows.
Complexity: O(constraints) per row, under a microsecond each; at most MOST_TEXTS conditions are remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from earmark.errors import EarmarkError
from earmark.flat.arrays import I32, I64
from earmark.keys.bind import keys_of
from earmark.keys.schema import Kind, Schema
from earmark.language.parse import compared, parse_clauses
from earmark.language.predicate import Leaf, Mode
from earmark.segment.arrays import EMPTY, SegmentArrays
from earmark.segment.builder import Builder, Prepared, prepare

Compared: TypeAlias = tuple[str, str, Sequence[Any]]
"""An attribute, an operator and literals."""
Reorder: TypeAlias = Callable[[tuple[int, ...]], tuple[int, ...]]
"""Puts values in the order of the numbers of their attributes."""
MOST_TEXTS, LONGEST_TEXT = 1 << 16, 1_000


class Bounds(NamedTuple):
    """One clause of comparisons: names of attributes, each once, with the first and the last key that they accept."""

    names: tuple[str, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]


_known: dict[str, Bounds] = {}


def bounds_of(text: str) -> Bounds | None:
    """The bounds of a condition that only joins comparisons of numbers by AND; None for any other.

    Raise a SubscriptionError where the condition is not well formed.
    """
    found = _known.get(text)
    if found is None and len(text) <= LONGEST_TEXT:
        found = _bounds(_comparisons(text))
        if found is not None:
            if len(_known) >= MOST_TEXTS:
                _known.clear()
            _known[text] = found
    return found


def _comparisons(text: str) -> Sequence[Compared]:
    """The comparisons that a condition joins by AND; none where it is anything else."""
    quick = compared(text)
    if quick is not None and quick[0].comparisons is not None:
        template, values = quick
        clauses = template.comparisons or []
        joined = clauses[0] if len(clauses) == 1 else []
        return [(name, operator, [values[place] for place in places]) for name, operator, places in joined]
    parsed = parse_clauses(text)
    leaves = [(name, atoms[0]) for name, atoms in parsed[0] if len(atoms) == 1] if len(parsed) == 1 else []
    found = [
        (name, leaf.predicate.operator, leaf.predicate.values)
        for name, leaf in leaves
        if type(leaf) is Leaf and leaf.mode is Mode.TRUE
    ]
    return found if len(parsed) == 1 and len(found) == len(parsed[0]) else []


def _bounds(comparisons: Sequence[Compared]) -> Bounds | None:
    keys = [keys_of(operator, values) for _, operator, values in comparisons]
    if not comparisons or any(pair is None or pair[0] > pair[1] for pair in keys):
        return None
    first, last = zip(*[pair for pair in keys if pair is not None], strict=True)
    return Bounds(tuple(name for name, _, _ in comparisons), first, last)


def prepare_shared(schema: Schema, rows: Sequence[tuple[int, str]], numbered: bool = True) -> Prepared:
    """`prepare` for (id, condition) pairs whose ids are 64-bit integers, quicker where other tables have had them."""
    teacher = Builder(schema)
    try:
        arrays = None if schema.strict else _arrays(teacher, rows)
    except EarmarkError:
        arrays = None  # `prepare` says which rows are wrong
    if arrays is None:
        return prepare(schema, list(rows), numbered)
    return Prepared(teacher.draft, [id for id, _ in rows], lambda _: arrays, [text for _, text in rows])


def _arrays(teacher: Builder, rows: Sequence[tuple[int, str]]) -> SegmentArrays | None:
    """The arrays of these rows; None unless all have bounds, on attributes of numbers."""
    numbers: dict[tuple[str, ...], tuple[tuple[int, ...], Reorder | None] | None] = {}
    attr: list[int] = []
    lo: list[int] = []
    hi: list[int] = []
    starts = [0]
    for row in rows:
        bounds = _known.get(row[1]) or bounds_of(row[1])
        if bounds is None:
            return None
        names, first, last = bounds
        if names not in numbers:
            numbers[names] = _numbered(teacher, names, row)
        placed = numbers[names]
        if placed is None:
            return None
        own, order = placed
        attr += own
        lo += first if order is None else order(first)
        hi += last if order is None else order(last)
        starts.append(len(attr))
    return _columns(len(rows), starts, attr, lo, hi)


def _numbered(
    teacher: Builder, names: tuple[str, ...], row: tuple[int, str]
) -> tuple[tuple[int, ...], Reorder | None] | None:
    """The numbers of attributes, ascending, and how to put values in their order; None where one is not of numbers.

    What is new to the schema is learned from the row, the first one with these names.
    """
    draft = teacher.draft
    known = [draft.new.get(name) or draft.schema.by_name.get(name) for name in names]
    if any(attribute is None or attribute.type is None for attribute in known):
        teacher.take(row)
        known = [draft.get(name) for name in names]
    types = [None if attribute is None else attribute.type for attribute in known]
    if any(type_ is None or type_.kind is not Kind.NUMBER or type_.keyed for type_ in types):
        return None
    numbers = [attribute.number for attribute in known if attribute is not None]
    order = sorted(range(len(names)), key=numbers.__getitem__)
    ascending = order == list(range(len(names)))
    return tuple(sorted(numbers)), None if ascending else itemgetter(*order)


def _columns(count: int, starts: list[int], attr: list[int], lo: list[int], hi: list[int]) -> SegmentArrays:
    clauses: I32 = np.arange(count + 1, dtype=np.int32)
    intervals: I32 = np.arange(len(attr) + 1, dtype=np.int32)
    keys: tuple[I64, I64] = np.array(lo, np.int64), np.array(hi, np.int64)
    numbers, null = np.array(attr, np.int32), np.zeros(len(attr), np.uint8)
    constraints = np.array(starts, np.int32)
    return SegmentArrays(clauses, constraints, numbers, null, intervals, *keys, EMPTY, EMPTY, np.empty(0, np.int64))
