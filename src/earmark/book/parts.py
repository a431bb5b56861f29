"""What an executor makes of its share of the subscriptions: parts, each a small segment with a schema of its own.

    rows ──► sorted by (order, id) ──► parsed and bound, one by one ──► a part's folder
                                            └─ what cannot be taken ──► its rejects

A part has its own attribute numbers and string keys, and learns types from its own rows; `agree` settles what holds for
all, and `join` (segment/join.py) makes them one. A part is a folder; what a task gives back is only its name, so a task
that is run twice does no harm.

    part-1f…/segment          a whole segment (segments.py), slots in (order, id) order; and as facts, which slot was
                              the first to use, and to give a type to, each attribute
    part-1f…/rows.arrow       id, op, order, tie, slot (-1 for a removal)
    part-1f…/rejects.arrow    id, op, condition, reason
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from earmark.book.segments import read_whole, write_whole
from earmark.errors import EarmarkError, SubscriptionError
from earmark.keys.records import schema_of, schema_record
from earmark.keys.schema import Attribute, Schema, attribute_type
from earmark.segment.builder import Builder, collector_held, rows_of_frame
from earmark.segment.forms import reader_of
from earmark.segment.ids import Id
from earmark.segment.segment import Segment, no_segment

PART_ROWS = 100_000
GIVEN_TWICE = "the id {!r} is given twice; the first in the order counts"
ADD, UPDATE, UPSERT, REMOVE = OPS = ("add", "update", "upsert", "remove")
FIELDS = ("id", "condition", "weights", "score", "tags")
ORDER, OP, TIE = "__order", "op", "__tie"
"""Columns: the place in the order; what a change does; a hash of the row, which decides between equal places."""
REPORT = pa.schema([pa.field("part", pa.string(), nullable=False)])
REJECTS = pa.schema({"id": pa.string(), "op": pa.string(), "condition": pa.string(), "reason": pa.string()})


class RowPlan(NamedTuple):
    """What executors need to know. It travels with the task."""

    folder: str
    record: str
    """The attributes that are known already, as JSON."""
    bounds: dict[str, tuple[str, str]] | None
    ready: bool
    """Ready-made bounds instead of conditions."""
    changes: bool
    """Rows have an `op`."""


class RowReject(NamedTuple):
    """A row that cannot be taken, and why."""

    id: Any
    op: str | None
    condition: str | None
    reason: str


def plan_record(schema: Schema) -> str:
    """The attributes of a schema for `RowPlan.record`."""
    return json.dumps(schema_record(schema))


def planned_schema(record: str) -> Schema:
    """The inverse; string attributes start without constants."""
    return schema_of(json.loads(record))


def build_parts(plan: RowPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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


def build_part(plan: RowPlan, frame: pa.Table) -> str:
    """One part from its rows; returns its name."""
    keys = [(name, "ascending") for name in (ORDER, "id", OP, TIE) if name in frame.column_names]
    frame = frame.take(pc.sort_indices(frame, keys)).combine_chunks()
    frame, rejects = _usable(plan, frame)
    added = frame.filter(pc.not_equal(frame[OP], REMOVE)) if plan.changes else frame
    segment, taken, refused, facts = (_ready_made if plan.ready else _parsed)(plan, added)
    rejects += refused
    folder = Path(plan.folder) / f"part-{secrets.token_hex(8)}"
    folder.mkdir(parents=True)
    write_whole(folder / "segment", segment, facts)
    added = added.take(pa.array(taken, pa.int64()))
    rows = _rows(added, list(range(added.num_rows)))
    if plan.changes:
        removed = frame.filter(pc.equal(frame[OP], REMOVE))
        rows = pa.concat_tables([rows, _rows(removed, [-1] * removed.num_rows)])
    write_arrow(folder / "rows.arrow", rows)
    listed = [RowReject(None if one.id is None else str(one.id), *one[1:])._asdict() for one in rejects]
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


def _usable(plan: RowPlan, frame: pa.Table) -> tuple[pa.Table, list[RowReject]]:
    """Put aside rows without an id, a place in the order, or a known op."""
    problems: dict[int, str] = {}
    if plan.changes:
        for row, op in enumerate(frame[OP].to_pylist()):
            if op not in OPS:
                problems[row] = f"expected {', '.join(OPS[:-1])} or {OPS[-1]} for op, got {op!r}"
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


def _rejected(frame: pa.Table, row: int, reason: str) -> RowReject:
    values = {name: frame[name][row].as_py() for name in ("id", OP, "condition") if name in frame.column_names}
    return RowReject(values.get("id"), values.get(OP), values.get("condition"), reason)


# --- conditions ----------------------------------------------------------------------------------------------


Read = tuple[Segment, list[int], list[RowReject], dict[str, Any]]
"""The segment of a part; which rows of the frame are in it; what was refused; and the facts about its attributes:
`first`, the slot that first used each one that the plan does not know, `typed`, the slot that first gave it a type."""


def _parsed(plan: RowPlan, frame: pa.Table) -> Read:
    builder = Builder(planned_schema(plan.record))
    draft = builder.draft
    seen: set[Id] = set()
    taken: list[int] = []
    rejects: list[RowReject] = []
    first: dict[str, int] = {}
    typed: dict[str, int] = {}
    with collector_held():
        for row, item in enumerate(rows_of_frame(frame)):
            mark, slot = len(draft.log), len(builder)
            try:
                if item["id"] in seen:
                    raise SubscriptionError(GIVEN_TWICE.format(item["id"]))
                builder.take(item)
            except EarmarkError as problem:
                rejects.append(_rejected(frame, row, str(problem.at(id=None))))
                continue
            for name, before in draft.log[mark:]:
                if before is None and name not in draft.schema.by_name:
                    first[name] = slot
                if draft.new[name].type is not None:
                    typed.setdefault(name, slot)
            seen.add(item["id"])
            taken.append(row)
    return builder.prepared().segment(0), taken, rejects, {"first": first, "typed": typed}


# --- ready-made bounds ---------------------------------------------------------------------------------------


def _ready_made(plan: RowPlan, frame: pa.Table) -> Read:
    """Whole columns at once; an error has all the rows at fault, and the others are taken without them."""
    columns = frame.select([name for name in frame.column_names if name not in (OP, ORDER, TIE)])
    schema = planned_schema(plan.record)
    known = set(schema.names)
    segment = no_segment(schema)
    taken = list(range(columns.num_rows))
    wrong: dict[int, EarmarkError] = {}
    while taken:
        some = columns.take(pa.array(taken, pa.int64())) if wrong else columns
        try:
            prepared = reader_of(some, plan.bounds, progress=False)(schema)
        except EarmarkError as problem:
            for one in problem.problems or (problem,):
                wrong |= dict.fromkeys(taken if one.row is None else [taken[one.row]], one)  # of a column: all rows
            taken = [row for row in taken if row not in wrong]
        else:
            segment = prepared.segment(0)
            break
    rejects = [_rejected(frame, row, str(one.at(row=None, id=None))) for row, one in sorted(wrong.items())]
    used = first_slots(segment)
    new = {name: used.get(name, 0) for name in segment.schema.names if name not in known}
    typed = {a.name: used.get(a.name, 0) for a in segment.schema if a.type}
    return segment, taken, rejects, {"first": new, "typed": typed}


def first_slots(segment: Segment) -> dict[str, int]:
    """Attribute -> the first slot that has a constraint on it."""
    arrays = segment.arrays
    numbers, constraints = np.unique(arrays.attr, return_index=True)
    clauses = np.searchsorted(arrays.constraint_start, constraints, "right") - 1
    slots = np.searchsorted(arrays.clause_start, clauses, "right") - 1
    return {segment.schema.names[n]: slot for n, slot in zip(numbers.tolist(), slots.tolist(), strict=True)}


# --- all parts -----------------------------------------------------------------------------------------------


def read_part(folder: Path) -> tuple[Segment, pa.Table, pa.Table, dict[str, Any]]:
    """A part from its folder: the segment, its rows, its rejects, and the facts about its attributes."""
    segment, facts, _ = read_whole(folder / "segment")
    return segment, *(read_arrow(folder / name) for name in ("rows.arrow", "rejects.arrow")), facts


def agree(
    segments: Sequence[Segment], rows: Sequence[pa.Table], facts: Sequence[dict[str, Any]], seed: Schema
) -> tuple[Schema, bool]:
    """Numbers and types for the attributes of all parts, after those of `seed`, which stay; and whether all have these.

    Both follow from the order of insertion, whatever the partitioning: an attribute's number is its place in the order
    of first use, and its type is what its first typed use says, as if one Matcher had taken the rows one by one. A part
    that learned something else has to be made again under the agreed types.
    """
    first: dict[str, Any] = {}
    typed: dict[str, list[tuple[Any, Attribute]]] = {}
    for segment, own, said in zip(segments, rows, facts, strict=True):
        schema, place = segment.schema, _places(own, len(segment))
        for name, slot in said["first"].items():
            used = (place(slot), schema.by_name[name].number)
            first[name] = min(first.get(name, used), used)
        for name, slot in said["typed"].items():
            if len(segment) and schema.by_name[name].type is not None:
                typed.setdefault(name, []).append((place(slot), schema.by_name[name]))
    names = sorted(first, key=first.__getitem__)
    made = {name: Attribute(len(seed) + i, name, None, False, "") for i, name in enumerate(names)}
    for name, uses in typed.items():
        known = made.get(name) or seed.by_name[name]
        if known.type is None:
            chosen = min(uses, key=lambda use: use[0])[1]
            assert chosen.type is not None
            type_ = attribute_type(str(chosen.type))
            made[name] = Attribute(known.number, name, type_, False, chosen.origin)
    agreed = seed.replaced(made.values())
    own_types = [a for segment in segments for a in segment.schema if a.type is not None and a.name in agreed.by_name]
    return agreed, all(str(a.type) == str(agreed.by_name[a.name].type) for a in own_types)


def _places(rows: pa.Table, slots: int) -> Callable[[int], tuple[Any, ...]]:
    """What gives the place of a slot in the order of insertion."""
    return lambda slot: tuple(rows[name][slot].as_py() for name in ("order", "id", "op", "tie")) if slots else ()
