"""A segment as an Arrow table, without loss, and back.

    id  sequence  score  condition (NULL for ready-made)  check  tags  clauses: list<constraints: list<
        {attribute, accepts_null, weight, intervals: list<{lo, hi}>}>>

Bounds are keys; what they mean (attribute names, types, zone) travels in the schema's metadata as JSON, the keys of
string constants as an Arrow stream beside it. `prepare_native` prepares it for any schema, also one that numbers its
attributes or keys its strings differently.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from earmark.errors import AttributeTypeError, EarmarkError, SubscriptionError, require
from earmark.events.frames import is_text, one_array
from earmark.flat.arrays import I64
from earmark.keys.schema import Draft, Kind, Schema, attribute_type, schema_of, schema_record
from earmark.keys.strings import restored_strings
from earmark.segment.arrays import SegmentArrays, check_arrays
from earmark.segment.builder import Prepared, checked_tags
from earmark.segment.ids import Id, checked_id
from earmark.segment.join import constants_in, translated
from earmark.segment.segment import DAMAGE, Segment, check_content, uses_of

_RECORD, _STRINGS = b"earmark.table", b"earmark.strings"
_VERSION = 1
_TAGS = pa.map_(pa.string(), pa.string())
_COLUMNS = ("id", "sequence", "score", "condition", "check", "tags", "clauses")
_MOMENTS = ("first_moment", "last_moment")


def is_native(frame: pa.Table) -> bool:
    """Whether a table came from `to_arrow`."""
    return _RECORD in (frame.schema.metadata or {})


# --- out -----------------------------------------------------------------------------------------------------


def to_arrow(segment: Segment) -> pa.Table:
    """All subscriptions of a segment, by slot."""

    arrays = segment.arrays
    made = pa.table(
        {
            "id": segment.ids.taken(np.arange(len(segment), dtype=np.int32)),
            "sequence": arrays.sequence,
            "score": arrays.score if len(arrays.score) else np.zeros(len(segment)),
            "condition": _conditions(segment),
            "check": _checks(segment),
            "tags": _tags(segment),
            "clauses": _clauses(arrays),
            **_lives(arrays),
        }
    )
    record = {"version": _VERSION, **schema_record(segment.schema)}
    strings = b64encode(_strings(segment.schema))  # not every reader of Arrow takes metadata that is no text
    return made.replace_schema_metadata({_RECORD: json.dumps(record).encode(), _STRINGS: strings})


def to_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_bytes(stream: bytes) -> pa.Table:
    """The inverse of `to_bytes`."""

    with pa.ipc.open_stream(stream) as reader:
        return reader.read_all()


def _conditions(segment: Segment) -> pa.Array:

    start = segment.asked.start
    made = pc.if_else(pa.array(start[1:] > start[:-1]), segment.asked.to_arrow(), None)
    return made.cast(pa.string()) if start[-1] < 2**31 else made


def _checks(segment: Segment) -> pa.Array:
    """A checksum of each condition: the clauses beside it are what counts, so a changed text must not pass."""

    texts, ends = segment.asked.joined.tobytes(), segment.asked.start.tolist()
    return pa.array([zlib.crc32(texts[a:b]) for a, b in pairwise(ends)], pa.uint32())


def _tags(segment: Segment) -> pa.Array:

    if not len(segment.tagset):
        return pa.nulls(len(segment), _TAGS)
    sets = segment.tagsets.items[: segment.tagsets.size]
    return pa.array(sets, _TAGS).take(pa.array(segment.tagset))


def _clauses(arrays: SegmentArrays) -> pa.Array:

    intervals = pa.StructArray.from_arrays([pa.array(arrays.lo), pa.array(arrays.hi)], ["lo", "hi"])
    weight = arrays.weight if len(arrays.weight) else np.ones(len(arrays.attr))
    lists = pa.ListArray.from_arrays(pa.array(arrays.interval_start), intervals)
    columns = [*map(pa.array, (arrays.attr, arrays.accepts_null.astype(bool), weight)), lists]
    constraints = pa.StructArray.from_arrays(columns, ["attribute", "accepts_null", "weight", "intervals"])
    clauses = pa.ListArray.from_arrays(pa.array(arrays.constraint_start), constraints)
    return pa.ListArray.from_arrays(pa.array(arrays.clause_start), clauses)


def _lives(arrays: SegmentArrays) -> dict[str, I64]:
    """The columns of life spans, where there are any."""
    return {name: getattr(arrays, name) for name in _MOMENTS if len(arrays.first_moment)}


def _strings(schema: Schema) -> bytes:

    rows = [
        (number, constant, key)
        for number, strings in schema.strings.items()
        for constant, key in zip(*strings.items(), strict=True)
    ]
    kinds = {"attribute": pa.int32(), "constant": pa.binary(), "key": pa.int64()}
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    return to_bytes(
        pa.table([pa.array(own, kind) for own, kind in zip(columns, kinds.values(), strict=True)], [*kinds])
    )


# --- in ------------------------------------------------------------------------------------------------------


def prepare_native(schema: Schema, frame: pa.Table) -> Prepared:
    """Check a table that `to_arrow` made; anything wrong is one sentence."""

    try:
        return _prepare(schema, frame)
    except EarmarkError:
        raise
    except (*DAMAGE, pa.ArrowException) as problem:
        reason = str(problem) or type(problem).__name__
        raise SubscriptionError(f"the Arrow table is not one that earmark wrote: {reason}") from None


def _prepare(schema: Schema, frame: pa.Table) -> Prepared:

    missing = [name for name in _COLUMNS if name not in frame.column_names]
    if missing:
        raise SubscriptionError(f"the Arrow table lacks the columns {', '.join(missing)}")
    source = _source_schema(frame)
    _check_zones(source, schema)
    arrays = _arrays(frame)
    check_arrays(arrays, len(source))
    check_content(arrays, source)
    ids = _ids(frame)
    draft = Draft(schema)
    _learn(draft, source, arrays)
    conditions = _column(frame, "condition", pa.large_string(), nulls=True)
    asked = [text or "" for text in conditions.to_pylist()] if conditions.null_count < len(ids) else []
    _refuse_changed(asked, _column(frame, "check", pa.uint32()).to_pylist())
    pairs = _column(frame, "tags", _TAGS, nulls=True)
    tags = [checked_tags(dict(t)) if t else () for t in pairs.to_pylist()] if pairs.null_count < len(ids) else None
    if len(np.unique(arrays.sequence)) < len(arrays.sequence):
        arrays = arrays._replace(sequence=np.empty(0, np.int64))
    return Prepared(draft, ids, lambda keyed: translated(arrays, source, keyed), asked, tags)


def _check_zones(source: Schema, own: Schema) -> None:
    """What was asked of a date or timestamp was read in the source's zone, and may have to be read again."""
    moments = [a.name for a in source if a.type is not None and a.type.kind in (Kind.DATE, Kind.TIMESTAMP)]
    if moments and source.zone != own.zone:
        raise SubscriptionError(
            f"the Arrow table reads times such as {moments[0]!r} in the zone {source.zone_name!r}, this matcher in "
            f"{own.zone_name!r}; add it to a Matcher(zone={source.zone_name!r})"
        )


def _refuse_changed(asked: list[str], checks: list[int]) -> None:
    for row, (text, check) in enumerate(zip(asked, checks, strict=False)):
        if zlib.crc32(text.encode()) != check:
            raise SubscriptionError(
                f"row {row}: the condition was changed, but the table counts its clauses; "
                "add changed conditions as a frame of id and condition"
            )


def _source_schema(frame: pa.Table) -> Schema:

    record = json.loads(frame.schema.metadata[_RECORD])
    if record.get("version") != _VERSION:
        raise SubscriptionError(
            f"the Arrow table has version {str(record.get('version'))[:50]}; this earmark reads version {_VERSION}"
        )
    read = from_bytes(b64decode(frame.schema.metadata[_STRINGS], validate=True))
    read.validate(full=True)
    listed = read.to_pydict()
    groups: dict[int, tuple[list[bytes], list[int]]] = {}
    for number, constant, key in zip(listed["attribute"], listed["constant"], listed["key"], strict=True):
        require(isinstance(constant, bytes), "a string constant is not one")
        texts, keys = groups.setdefault(number, ([], []))
        texts.append(constant)
        keys.append(key)
    return schema_of(record, lambda number: restored_strings(*groups[number]))


def _column(frame: pa.Table, name: str, type_: pa.DataType, nulls: bool = False) -> pa.Array:
    column = one_array(frame.column(name))
    require(nulls or column.null_count == 0, f"a row has no {name}")
    return column if column.type == type_ else column.cast(type_)


def _ids(frame: pa.Table) -> list[Id]:

    column = _column(frame, "id", frame.schema.field("id").type)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    integers = pa.types.is_integer(column.type)
    require(integers or is_text(column.type), f"expected strings or integers as ids, got {column.type}")
    ids: list[Id] = column.cast(pa.int64() if integers else pa.large_string()).to_pylist()
    for one in ids[:1] if integers else ids:
        checked_id(one)
    return ids


def _arrays(frame: pa.Table) -> SegmentArrays:

    pairs = pa.list_(pa.struct({"lo": pa.int64(), "hi": pa.int64()}))
    fields = {"attribute": pa.int32(), "accepts_null": pa.bool_(), "weight": pa.float64(), "intervals": pairs}
    clauses = _column(frame, "clauses", pa.list_(pa.list_(pa.struct(fields))))
    constraints = clauses.flatten()
    flat = constraints.flatten()
    parts = dict(zip(fields, flat.flatten(), strict=True))
    intervals = parts["intervals"].flatten()
    ends = dict(zip(("lo", "hi"), intervals.flatten(), strict=True))
    for part in (constraints, flat, *parts.values(), intervals, *ends.values()):
        require(part.null_count == 0, "a part of a clause is missing")
    weight = _numpy(parts["weight"])
    score = _numpy(_column(frame, "score", pa.float64()))
    return SegmentArrays(
        clause_start=_starts(clauses),
        constraint_start=_starts(constraints),
        attr=_numpy(parts["attribute"]),
        accepts_null=_numpy(parts["accepts_null"]).astype(np.uint8),
        interval_start=_starts(parts["intervals"]),
        lo=_numpy(ends["lo"]),
        hi=_numpy(ends["hi"]),
        weight=weight if (weight != 1.0).any() else np.empty(0),
        score=score if score.any() else np.empty(0),
        sequence=_numpy(_column(frame, "sequence", pa.int64())),
        **{name: _numpy(_column(frame, name, pa.int64())) for name in _MOMENTS if name in frame.column_names},
    )


def _numpy(column: pa.Array) -> Any:
    return column.to_numpy(zero_copy_only=False)


def _starts(lists: pa.Array) -> Any:
    offsets = _numpy(lists.offsets) if len(lists) else np.zeros(1, np.int32)
    return (offsets - offsets[0]).astype(np.int32)


def _learn(draft: Draft, source: Schema, arrays: SegmentArrays) -> None:
    """Take over the attributes and the constants in use of the source; types must agree."""
    used = {number for number, count in uses_of(arrays, source).items() if count}
    for theirs in source:
        ours = draft.get(theirs.name)
        type_ = theirs.type if theirs.declared or theirs.number in used else None
        if type_ is None:
            continue
        if ours.type is None:
            ours = draft.set_type(ours, attribute_type(str(type_)), theirs.origin, theirs.declared)
        elif ours.type.kind != type_.kind or str(ours.type) != str(type_):
            raise AttributeTypeError(
                f"attribute {ours.name!r} is {ours.described()} here, but {theirs.described()} in the Arrow table"
            )
        if type_.keyed or ours.known_type.keyed:
            for constant in constants_in(arrays, source, theirs):
                draft.constant(ours, constant)
