"""How subscriptions become a segment: rows in, segment out. The only way in, for a matcher, the CLI and Spark alike.

    builder = Builder(schema)
    builder.take(row)                             checks, parses and binds; an error leaves no trace of the row
    segment = builder.prepared().segment(0)       cannot fail on what the user gave

Whole columns (columns.py) and Arrow tables of our own (arrow.py) are prepared without a loop over rows; what they give
is a `Prepared` as well.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from earmark.errors import EarmarkError, refuse
from earmark.flat.types import I64, frozen
from earmark.keys.bind import Binder, BoundClauses
from earmark.keys.schema import Draft, Schema
from earmark.segment.arrays import SegmentArrays
from earmark.segment.ids import Id, Ids, checked_id
from earmark.segment.join import with_constants
from earmark.segment.rows import arrays_of
from earmark.segment.segment import Segment, Tags
from earmark.segment.subscription import (
    as_subscription,
    checked_score,
    checked_tags,
    clauses_and_text,
    used_weights,
)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Rows that have passed every check, and what they teach the schema."""

    draft: Draft
    ids: list[Id]
    arrays: Callable[[Schema], SegmentArrays]
    """Their arrays, under a schema that has keys for their constants. Without sequence numbers, unless they brought
    their own."""
    asked: Sequence[str] = ()
    tags: Sequence[Tags] | None = None

    def segment(self, sequence: int | I64) -> Segment:
        """The rows as a segment, with these places in the order of insertion, or from this one on."""
        schema = with_constants(self.draft.commit(), self.draft.constants)
        arrays = self.arrays(schema)
        if not isinstance(sequence, int):
            arrays = arrays._replace(sequence=sequence)
        elif not len(arrays.sequence):
            arrays = arrays._replace(sequence=np.arange(sequence, sequence + len(self.ids)))
        arrays = SegmentArrays._make(map(frozen, arrays))
        return Segment.of(schema, arrays, Ids.of(self.ids), self.asked, self.tags)


class Builder:
    """Takes subscriptions one by one."""

    def __init__(self, schema: Schema) -> None:
        self.draft = Draft(schema)
        self._binder = Binder(self.draft)
        self._ids: list[Id] = []
        self._asked: list[str] = []
        self._rows: list[BoundClauses] = []
        self._weights: list[dict[int, float] | None] = []
        self._scores: list[float] = []
        self._tags: list[Tags] = []

    def __len__(self) -> int:
        """How many were taken."""
        return len(self._ids)

    def take(self, item: Any) -> None:
        """Check, parse and bind one subscription; an error leaves no trace of it."""
        given = as_subscription(item)
        one = checked_id(given.id)
        clauses, text = clauses_and_text(given.condition)
        own = used_weights(given.weights, clauses)
        score, tags = checked_score(given.score), checked_tags(given.tags)
        bound = self._binder.bind(clauses, one)
        self._rows.append(bound)
        self._weights.append({self.draft.get(name).number: w for name, w in own.items()} if own else None)
        self._scores.append(score)
        self._tags.append(tags)
        self._ids.append(one)
        self._asked.append(text)

    def prepared(self) -> Prepared:
        """What was taken."""
        self._binder.note_wide(self._rows)
        rows, weights, scores = self._rows, self._weights, self._scores
        return Prepared(
            self.draft,
            self._ids,
            lambda schema: arrays_of(rows, weights, scores, schema),
            self._asked,
            self._tags if any(self._tags) else None,
        )


def prepare(schema: Schema, items: Iterable[Any], numbered: bool = True) -> Prepared:
    """Take subscriptions one by one; an error names all that cannot be taken, with their rows if they are numbered."""
    builder = Builder(schema)
    wrong: list[EarmarkError] = []
    with collector_held():
        for row, item in enumerate(items):
            try:
                builder.take(item)
            except EarmarkError as problem:
                wrong.append(named(problem, row if numbered else None, item))
    refuse(wrong)
    return builder.prepared()


_collector_is_off = False  # by us; an interruption may leave it off, and the next call turns it on again


@contextmanager
def collector_held() -> Iterator[None]:
    """Hold back the cyclic garbage collector: a batch makes many objects that stay, and no cycles among them.

    It would look through all of them again and again, a fifth of the time that a large batch takes.
    """
    global _collector_is_off
    if not gc.isenabled() and not _collector_is_off:  # the caller has turned it off
        yield
        return
    _collector_is_off = True
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        _collector_is_off = False


def named(problem: EarmarkError, row: int | None, item: Any) -> EarmarkError:
    """The same problem with its row and its id."""
    one = item.get("id") if isinstance(item, dict) else getattr(item, "id", None)
    if one is None and isinstance(item, tuple | list) and item:
        one = item[0]
    return problem.at(row=row, id=problem.id if one is None else one)


def rows_of_frame(table: Any) -> Iterator[dict[str, Any]]:
    """The rows of an Arrow table with a `condition` column, as mappings."""
    names = [n for n in ("id", "condition", "weights", "score", "tags") if n in table.column_names]
    for batch in table.select(names).to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            for name in ("weights", "tags"):
                if row.get(name) is not None:
                    row[name] = as_mapping(row[name])
            yield row


def as_mapping(value: Any) -> Any:
    """An Arrow map (pairs), a list of {key, value}, or a struct (absent fields are None) as a dict.

    Anything else is left for the checks.
    """
    if isinstance(value, dict):
        return {k: v for k, v in value.items() if v is not None}
    if not isinstance(value, list):
        return value
    if all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
        return dict(value)
    if all(isinstance(pair, dict) and set(pair) == {"key", "value"} for pair in value):
        return {pair["key"]: pair["value"] for pair in value}
    return value
