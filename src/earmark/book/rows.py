"""What changed, as rows for a journal: subscriptions as users give them, before and after.

A change has parts, each of one form:

    rows       JSON: [[id, before, after], …], where a state is null or
                   {"place": 17, "condition": "age > 3", "weights": {…}, "score": 1.5, "tags": {…}, "starts": "2026-…",
                    "types": {…}}
               `place` is the sequence number, so that a row comes back to where it was; what has its default is left
               out. `types` are those of its attributes that the condition alone would not teach: with them, no row
               depends on another one that may be gone
    added      an Arrow table (segment/arrow.py), compressed, of many new subscriptions
    removed    the same for many that went
    types      JSON: {"declare": {"age": "integer"}} or {"retype": {…}}

Tables carry the keys of their own string constants and no others, so nothing in a journal depends on how a book keys
its values today.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from earmark.engine.edits import Edit
from earmark.engine.version import Place, Version
from earmark.errors import require
from earmark.flat.arrays import I64, PackedStrings
from earmark.keys.schema import Kind, Schema
from earmark.segment import arrow
from earmark.segment.builder import Subscription
from earmark.segment.forms import subscription_at
from earmark.segment.ids import Id, checked_id
from earmark.segment.join import on_its_own
from earmark.segment.segment import Segment

ROWS, ADDED, REMOVED, TYPES = "rows", "added", "removed", "types"
FEW = 1 << 10
"""Rows of one edit that are written as JSON; more are tables."""
TABLE_ROWS = 1 << 11
"""Rows of one table: looking up one of them reads all, and each table takes a fifth of a millisecond more to write."""
MAX_BODY = 1 << 30
State = dict[str, Any]
Row = tuple[Id, State | None, State | None]
_TAUGHT = (Kind.NUMBER, Kind.STRING, Kind.BOOLEAN)
"""Kinds that a literal of a condition teaches by itself."""
_FIELDS = {field.name: field.default for field in fields(Subscription) if field.name not in ("id", "params")}
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class Part(NamedTuple):
    """A part of a change, as it is stored."""

    form: str
    body: bytes
    hashes: Any
    """The hashes of the ids that it is about (`hash_of`)."""


# --- states --------------------------------------------------------------------------------------------------


def state_at(segment: Segment, schema: Schema, slot: int) -> State:
    """The subscription of a slot, under the schema of its version."""
    given = subscription_at(segment, slot)
    state: State = {"place": int(segment.arrays.sequence[slot])}
    for name, default in _FIELDS.items():
        value = getattr(given, name)
        if value != default:
            state[name] = value.isoformat() if isinstance(value, datetime) else value
    if types := _types_of(segment, schema, slot):
        state["types"] = types
    return state


def _types_of(segment: Segment, schema: Schema, slot: int) -> dict[str, str]:
    """The learned types of a slot's attributes that its text alone would not teach."""
    arrays, names = segment.arrays, segment.schema.names
    first, last = arrays.constraint_start[arrays.clause_start[slot : slot + 2]].tolist()
    found = {}
    for number in set(arrays.attr[first:last].tolist()):
        attribute = schema.by_name[names[number]]
        if attribute.type is not None and not attribute.declared and attribute.type.kind not in _TAUGHT:
            found[attribute.name] = str(attribute.type)
    return found


def subscription_of(id: Id, state: State | None) -> Subscription | None:
    """A state as a user gave it."""
    if state is None:
        return None
    given = {name: state[name] for name in _FIELDS if name in state}
    given |= {name: _moment(state[name]) for name in ("starts", "ends") if name in state}
    return Subscription(id, **given)


def _moment(text: str) -> datetime | str:
    """A moment as it was before it was written; one that Python's calendar does not have stays as it is."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text


def is_same(one: State | None, other: State | None) -> bool:
    """Whether two states are the same to a user, wherever they are in the order."""
    if one is None or other is None:
        return one is other
    return all(one.get(name, default) == other.get(name, default) for name, default in _FIELDS.items())


# --- ids -----------------------------------------------------------------------------------------------------


def hash_of(id: Id) -> int:
    """32 bits of an id, the same in every process."""
    if isinstance(id, str):
        return zlib.crc32(id.encode())
    return int(_integer_hashes(np.array([id], np.int64))[0])


def _integer_hashes(ids: I64) -> Any:
    return ((ids.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)).astype(np.int64)


def _hashes(column: Any) -> Any:
    """The hashes of a column of ids."""
    if not isinstance(column, PackedStrings):
        return _integer_hashes(np.ascontiguousarray(column, np.int64))
    joined, ends = column.joined.tobytes(), column.start.tolist()
    crc, begin = zlib.crc32, ends[0]
    found = []
    for end in ends[1:]:
        found.append(crc(joined[begin:end]))
        begin = end
    return np.array(found, np.int64)


def hashes_of(form: str, body: bytes) -> list[int]:
    """The hashes of the ids that a part is about."""
    if form == ROWS:
        return [hash_of(row[0]) for row in read_rows(body)]
    return [hash_of(one) for one in table_in(body).column("id").to_pylist()] if form in (ADDED, REMOVED) else []


# --- out -----------------------------------------------------------------------------------------------------


def parts_of(before: Version, edit: Edit) -> list[Part]:
    """What an edit did to a version, as parts of a change."""
    if edit.types is not None:
        return [part_of_types(*edit.types)]
    if max(len(edit.removed), edit.added) <= FEW:
        rows: dict[Id, list[State | None]] = {}
        for number, slot in edit.removed:
            segment = before.segments[number].segment
            rows[segment.ids[slot]] = [state_at(segment, before.schema, slot), None]
        if edit.added:
            segment = edit.version.segments[-1].segment
            for slot in range(len(segment) - edit.added, len(segment)):
                rows.setdefault(segment.ids[slot], [None, None])[1] = state_at(segment, edit.version.schema, slot)
        return [part_of_rows([(id, old, new) for id, (old, new) in rows.items()])] if rows else []
    parts = list(_tables(REMOVED, before, edit.removed))
    if edit.added:
        segment = edit.version.segments[-1].segment
        parts += tables_of(ADDED, segment, np.arange(len(segment) - edit.added, len(segment)))
    return parts


def part_of_types(kind: str, types: Mapping[str, str]) -> Part:
    """Types that were given: `declare` or `retype`."""
    return Part(TYPES, json.dumps({kind: dict(types)}).encode(), ())


def part_of_rows(rows: Iterable[Row]) -> Part:
    """Some rows as JSON."""
    listed = list(rows)
    body = json.dumps(listed, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return Part(ROWS, body, [hash_of(row[0]) for row in listed])


def in_fewer(parts: Iterable[Part]) -> list[Part]:
    """The same parts, where rows of single subscriptions that follow each other share parts of up to FEW rows."""
    made: list[Part] = []
    bodies: list[bytes] = []
    hashes: list[int] = []

    def finish() -> None:
        if bodies:
            made.append(Part(ROWS, b"[" + b",".join(bodies) + b"]", list(hashes)))
            bodies.clear()
            hashes.clear()

    for part in parts:
        if part.form != ROWS or len(hashes) + len(part.hashes) > FEW:
            finish()
        if part.form == ROWS:
            bodies.append(part.body[1:-1])
            hashes.extend(part.hashes)
        else:
            made.append(part)
    finish()
    return made


def _tables(form: str, version: Version, places: Sequence[Place]) -> Iterator[Part]:
    by_segment: dict[int, list[int]] = {}
    for number, slot in places:
        by_segment.setdefault(number, []).append(slot)
    for number, slots in by_segment.items():
        yield from tables_of(form, version.segments[number].segment, np.array(slots, np.int64))


def tables_of(form: str, segment: Segment, slots: I64) -> Iterator[Part]:
    """Some slots of a segment as tables."""
    for first in range(0, len(slots), TABLE_ROWS):
        part = on_its_own(segment.pick(slots[first : first + TABLE_ROWS]))
        yield Part(form, _to_bytes(arrow.to_arrow(part)), _hashes(part.ids.column))


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


# --- in ------------------------------------------------------------------------------------------------------


def read_rows(body: bytes) -> list[Row]:
    """The rows of a JSON part; AssertionError or ValueError where they cannot be."""
    rows = []
    listed = json.loads(body)
    require(isinstance(listed, list), "a part of a change is not a list of rows")
    for id, before, after in listed:
        for state in (before, after):
            require(state is None or isinstance(state, dict), "a row of a change has no state")
            require(state is None or type(state["place"]) is int, "a row of a change has no place")
        rows.append((checked_id(id), before, after))
    return rows


def read_types(body: bytes) -> tuple[str, Mapping[str, str]]:
    """What a part about types says: `declare` or `retype`, and the types."""
    ((kind, types),) = json.loads(body).items()
    require(kind in ("declare", "retype") and isinstance(types, dict), "a part of a change gives no types")
    return kind, types


def table_in(body: bytes) -> pa.Table:
    """The table of a part."""
    return arrow.from_bytes(body)


def rows_in(form: str, body: bytes, schema: Schema, only: Id | None = None) -> Iterator[Row]:
    """The rows of a part, or of one id alone, whatever the form."""
    if form == ROWS:
        yield from (row for row in read_rows(body) if only is None or row[0] == only)
    elif form in (ADDED, REMOVED):
        table = table_in(body)
        if only is not None:
            ids = table.column("id")
            slot = -1
            if pa.types.is_integer(ids.type) == isinstance(only, int):
                slot = pc.index(ids, pa.scalar(only, ids.type)).as_py()
            if slot < 0:
                return
            table = table.slice(slot, 1)
        own = Schema(schema.zone_name, nan_is_null=schema.nan_is_null, time=schema.time)
        segment = arrow.prepare_native(own, table).segment(0)
        for slot in range(len(segment)):
            state = state_at(segment, segment.schema, slot)
            yield (segment.ids[slot], None, state) if form == ADDED else (segment.ids[slot], state, None)
