"""What an executor makes of its share of the subscriptions: parts, each a small table of its own.

    DataFrame rows ──► sorted by (order, id) ──► parsed and bound, one by one ──► a part's folder
                                                      └─ what cannot be taken ──► its rejects

A part has its own attribute numbers and string keys, and learns types from its own rows; `agree` and `join` (merge.py)
make them one. A part lies in a folder under the version in the making; what a task gives back is only its name, so a
task that is run twice does no harm.

    part-1f…/table/           segment/files.py; slots in (order, id) order
    part-1f…/rows.arrow       id, op, order, tie, slot (-1 for a removal)
    part-1f…/rejects.arrow    id, op, condition, reason
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from earmark.engine.updates import added
from earmark.engine.version import Version
from earmark.errors import EarmarkError, SubscriptionError
from earmark.keys.schema import Schema
from earmark.keys.strings import StringKeys
from earmark.segment.builder import Builder, rows_of_frame
from earmark.segment.files import save_stored, schema_of, schema_record
from earmark.segment.forms import reader_of
from earmark.segment.ids import Id
from earmark.segment.segment import Segment
from earmark.segment.stored import Stored, stored_of

PART_ROWS = 100_000
GIVEN_TWICE = "the id {!r} is given twice; the first in the order counts"
ADD, UPDATE, UPSERT, REMOVE = OPS = ("add", "update", "upsert", "remove")
FIELDS = ("id", "condition", "weights", "score", "tags")
ORDER, OP, TIE = "__order", "op", "__tie"
"""Columns: the place in the order; what a change does; a hash of the row, which decides between equal places."""
REPORT = pa.schema([pa.field("part", pa.string(), nullable=False)])
REJECTS = pa.schema({"id": pa.string(), "op": pa.string(), "condition": pa.string(), "reason": pa.string()})


class Plan(NamedTuple):
    """What executors need to know. It travels with the task."""

    folder: str
    record: str
    """The attributes that are known already, as JSON."""
    bounds: dict[str, tuple[str, str]] | None
    ready: bool
    """Ready-made bounds instead of conditions."""
    changes: bool
    """Rows have an `op`."""


class Reject(NamedTuple):
    """A row that cannot be taken, and why."""

    id: Any
    op: str | None
    condition: str | None
    reason: str


def plan_record(schema: Schema) -> str:
    """The attributes of a schema for `Plan.record`."""
    return json.dumps(schema_record(schema))


def planned_schema(record: str) -> Schema:
    """The inverse; string attributes start without constants."""
    return schema_of(json.loads(record), lambda number: StringKeys())


def build_parts(plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn a partition into parts; gives their names. Runs on executors."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= PART_ROWS:
            yield _reported(build_part(plan, pa.Table.from_batches(waiting)))
            waiting, rows = [], 0
    if rows:
        yield _reported(build_part(plan, pa.Table.from_batches(waiting)))


def _reported(name: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"part": [name]}, schema=REPORT)


def build_part(plan: Plan, frame: pa.Table) -> str:
    """One part from its rows; returns its name."""
    keys = [(name, "ascending") for name in (ORDER, "id", OP, TIE) if name in frame.column_names]
    frame = frame.take(pc.sort_indices(frame, keys)).combine_chunks()
    frame, rejects = _usable(plan, frame)
    added = frame.filter(pc.not_equal(frame[OP], REMOVE)) if plan.changes else frame
    made = _ready_made(plan, added) if plan.ready else _parsed(plan, added)
    rejects += made.rejects
    folder = Path(plan.folder) / f"part-{secrets.token_hex(8)}"
    options = {"first": made.first, "typed": made.typed}
    save_stored(made.stored._replace(options=options), folder / "table")
    added = added.take(pa.array(made.taken, pa.int64()))
    rows = _rows(added, list(range(added.num_rows)))
    if plan.changes:
        removed = frame.filter(pc.equal(frame[OP], REMOVE))
        rows = pa.concat_tables([rows, _rows(removed, [-1] * removed.num_rows)])
    write_arrow(folder / "rows.arrow", rows)
    listed = [Reject(None if one.id is None else str(one.id), *one[1:])._asdict() for one in rejects]
    write_arrow(folder / "rejects.arrow", pa.Table.from_pylist(listed, REJECTS))
    return folder.name


def write_arrow(file: Path, table: pa.Table) -> None:
    """A table as an Arrow file."""
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read_arrow(file: Path) -> pa.Table:
    """What `write_arrow` wrote, mapped."""
    with pa.memory_map(str(file)) as source:
        return pa.ipc.open_file(source).read_all()


def _rows(frame: pa.Table, slots: list[int]) -> pa.Table:
    def column(name: str, type_: pa.DataType) -> Any:
        return frame[name] if name in frame.column_names else pa.nulls(frame.num_rows, type_)

    return pa.table(
        {
            "id": frame["id"],
            "op": column(OP, pa.string()),
            "order": column(ORDER, pa.int64()),
            "tie": column(TIE, pa.int64()),
            "slot": pa.array(slots, pa.int32()),
        }
    )


def _usable(plan: Plan, frame: pa.Table) -> tuple[pa.Table, list[Reject]]:
    """Put aside rows without an id, a place in the order, or a known op."""
    problems: dict[int, str] = {}
    if plan.changes:
        for row, op in enumerate(frame[OP].to_pylist()):
            if op not in OPS:
                problems[row] = f"op is {', '.join(OPS[:-1])} or {OPS[-1]}; got {op!r}"
    if ORDER in frame.column_names:
        for row in _where_null(frame[ORDER]):
            problems[row] = "the column of the order is NULL"
    for row in _where_null(frame["id"]):
        problems[row] = "a subscription has an id; it is NULL"
    if not problems:
        return frame, []
    rejects = [_rejected(frame, row, reason) for row, reason in sorted(problems.items())]
    keep = [row for row in range(frame.num_rows) if row not in problems]
    return frame.take(pa.array(keep, pa.int64())), rejects


def _where_null(column: pa.ChunkedArray) -> list[int]:
    if not column.null_count:
        return []
    found: list[int] = pc.indices_nonzero(column.is_null()).to_pylist()
    return found


def _rejected(frame: pa.Table, row: int, reason: str) -> Reject:
    values = {name: frame[name][row].as_py() for name in ("id", OP, "condition") if name in frame.column_names}
    return Reject(values.get("id"), values.get(OP), values.get("condition"), reason)


# --- conditions ----------------------------------------------------------------------------------------------


class Made(NamedTuple):
    """The table of a part, which rows of the frame are in it, and who first used and typed its attributes."""

    stored: Stored
    taken: list[int]
    rejects: list[Reject]
    first: dict[str, int]
    """Attribute -> the slot that first used it (only attributes that the plan does not know)."""
    typed: dict[str, int]
    """Attribute -> the slot that first gave it a type."""


def _parsed(plan: Plan, frame: pa.Table) -> Made:
    builder = Builder(planned_schema(plan.record))
    draft = builder.draft
    seen: set[Id] = set()
    taken: list[int] = []
    rejects: list[Reject] = []
    first: dict[str, int] = {}
    typed: dict[str, int] = {}
    for row, item in enumerate(rows_of_frame(frame)):
        mark, slot = len(draft.log), len(builder)
        try:
            if item["id"] in seen:
                raise SubscriptionError(GIVEN_TWICE.format(item["id"]))
            builder.take(item)
        except EarmarkError as problem:
            reason = str(problem).removeprefix(f"subscription {item['id']!r}: ")
            rejects.append(_rejected(frame, row, reason))
            continue
        for name, before in draft.log[mark:]:
            if before is None and name not in draft.schema.by_name:
                first[name] = slot
            if draft.new[name].type is not None:
                typed.setdefault(name, slot)
        seen.add(item["id"])
        taken.append(row)
    return Made(_stored(builder.prepared().segment(0)), taken, rejects, first, typed)


def _stored(segment: Segment) -> Stored:
    return stored_of(segment, len(segment))


# --- ready-made bounds ---------------------------------------------------------------------------------------


def _ready_made(plan: Plan, frame: pa.Table) -> Made:
    """Whole columns at once; where that fails, halves, down to the rows that are at fault."""
    columns = frame.select([name for name in frame.column_names if name not in (OP, ORDER, TIE)])
    version = Version.empty(planned_schema(plan.record))
    known = set(version.schema.names)
    taken: list[int] = []
    rejects: list[Reject] = []
    waiting = [(0, columns.num_rows)] if columns.num_rows else []
    while waiting:
        first, last = waiting.pop()
        try:
            part = reader_of(columns.slice(first, last - first), plan.bounds, progress=False)
            version = added(version, part(version.schema))
            taken += range(first, last)
        except EarmarkError as problem:
            if last - first == 1:
                reason = str(problem).removeprefix("row 0: ").removeprefix("row 0, ")
                rejects.append(_rejected(frame, first, reason))
            else:
                middle = (first + last) // 2
                waiting += [(middle, last), (first, middle)]  # the first half first: rows stay in order
    stored = _stored(version.whole)
    used = first_slots(stored)
    new = {name: used.get(name, 0) for name in stored.schema.names if name not in known}
    return Made(stored, taken, rejects, new, {a.name: used.get(a.name, 0) for a in stored.schema if a.type})


def first_slots(stored: Stored) -> dict[str, int]:
    """Attribute -> the first slot that has a constraint on it."""
    arrays = stored.arrays
    numbers, constraints = np.unique(arrays.attr, return_index=True)
    clauses = np.searchsorted(arrays.constraint_start, constraints, "right") - 1
    slots = np.searchsorted(arrays.clause_start, clauses, "right") - 1
    return {stored.schema.names[n]: slot for n, slot in zip(numbers.tolist(), slots.tolist(), strict=True)}
