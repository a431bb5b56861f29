"""The table as an Arrow table, without loss, and back.

    id  sequence  score  condition (NULL for ready-made)  tags  clauses: list<constraints: list<
        {attribute, accepts_null, weight, intervals: list<{lo, hi}>}>>

Bounds are keys; what they mean (attribute names, types, zone) travels in the schema's metadata as JSON, the keys of
string constants as an Arrow stream beside it. `prepare_native` takes it into any table, also one that numbers its
attributes or keys its strings differently.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from earmark.errors import AttributeTypeError, EarmarkError, SubscriptionError
from earmark.model.arrays import I64, TableArrays
from earmark.model.attribute import STRING, Draft, Schema
from earmark.model.files import restored_strings, schema_of, schema_record
from earmark.model.frames import one_array
from earmark.model.intake import Prepared
from earmark.model.rows import check_arrays, spread
from earmark.model.strings import StringKeys
from earmark.model.subscription import check_new_ids, checked_id, checked_tags
from earmark.model.table import Block, Table

if TYPE_CHECKING:
    import pyarrow as pa

_RECORD, _STRINGS = b"earmark.table", b"earmark.strings"
_VERSION = 1
_COLUMNS = ("id", "sequence", "score", "condition", "tags", "clauses")


def is_native(frame: pa.Table) -> bool:
    """Whether a table came from `to_arrow`."""
    return _RECORD in (frame.schema.metadata or {})


# --- out -----------------------------------------------------------------------------------------------------


def to_arrow(table: Table) -> pa.Table:
    """The living subscriptions, in order of sequence."""
    import pyarrow as pa

    table = table.compacted()
    view = table.view()
    arrays = view.arrays
    kind = pa.int64() if table.ids and isinstance(table.ids[0], int) else pa.string()
    made = pa.table(
        {
            "id": pa.array(table.ids, kind),
            "sequence": arrays.sequence,
            "score": arrays.score if len(arrays.score) else np.zeros(view.slots),
            "condition": pa.array([view.asked(s) or None for s in range(view.slots)], pa.string()),
            "tags": pa.array([view.tags(s) for s in range(view.slots)], pa.map_(pa.string(), pa.string())),
            "clauses": _clauses(arrays),
        }
    )
    record = {"version": _VERSION, **schema_record(table.schema)}
    return made.replace_schema_metadata({_RECORD: json.dumps(record).encode(), _STRINGS: _strings(table.schema)})


def _clauses(arrays: TableArrays) -> pa.Array:
    import pyarrow as pa

    intervals = pa.StructArray.from_arrays([pa.array(arrays.lo), pa.array(arrays.hi)], ["lo", "hi"])
    weight = arrays.weight if len(arrays.weight) else np.ones(len(arrays.attr))
    constraints = pa.StructArray.from_arrays(
        [
            pa.array(arrays.attr),
            pa.array(arrays.accepts_null.astype(bool)),
            pa.array(weight),
            pa.ListArray.from_arrays(pa.array(arrays.interval_start), intervals),
        ],
        ["attribute", "accepts_null", "weight", "intervals"],
    )
    clauses = pa.ListArray.from_arrays(pa.array(arrays.constraint_start), constraints)
    return pa.ListArray.from_arrays(pa.array(arrays.clause_start), clauses)


def _strings(schema: Schema) -> bytes:
    import pyarrow as pa

    attributes: list[int] = []
    constants: list[bytes] = []
    keys: list[int] = []
    for number, strings in schema.strings.items():
        texts, own = strings.items()
        attributes += [number] * len(texts)
        constants += texts
        keys += own.tolist()
    batch = pa.record_batch(
        {"attribute": pa.array(attributes, pa.int32()), "constant": pa.array(constants, pa.binary()), "key": keys},
        schema=pa.schema({"attribute": pa.int32(), "constant": pa.binary(), "key": pa.int64()}),
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


# --- in ------------------------------------------------------------------------------------------------------


def prepare_native(table: Table, frame: pa.Table) -> Prepared:
    """Check a table that `to_arrow` made; anything wrong is one sentence."""
    import pyarrow as pa

    try:
        return _prepare(table, frame)
    except EarmarkError:
        raise
    except (AssertionError, ValueError, KeyError, TypeError, AttributeError, IndexError, pa.ArrowException) as problem:
        reason = str(problem) or type(problem).__name__
        raise SubscriptionError(f"the Arrow table is not one that earmark wrote: {reason}") from None


def _prepare(table: Table, frame: pa.Table) -> Prepared:
    missing = [name for name in _COLUMNS if name not in frame.column_names]
    if missing:
        raise SubscriptionError(f"the Arrow table lacks the columns {', '.join(missing)}")
    source = _source_schema(frame)
    arrays = _arrays(frame)
    check_arrays(arrays, len(source))
    ids = [checked_id(one) for one in frame.column("id").to_pylist()]
    check_new_ids(ids, table.slot_of, type(table.ids[0]) if table.ids else None)
    draft = Draft(table.schema)
    numbers = _numbers(draft, source, arrays)
    asked = [text or "" for text in frame.column("condition").to_pylist()]
    tags = [checked_tags(dict(t)) if t else () for t in frame.column("tags").to_pylist()]
    keep_sequence = table.slots == 0 and len(np.unique(arrays.sequence)) == len(ids)

    def build(schema: Schema) -> Block:
        made = _renumbered(_rekeyed(arrays, source, schema, numbers), numbers)
        if not keep_sequence:
            made = made._replace(sequence=np.empty(0, np.int64))
        return Block(made, ids, asked, tags if any(tags) else None)

    return Prepared(draft, ids, build)


def _source_schema(frame: pa.Table) -> Schema:
    import pyarrow as pa

    record = json.loads(frame.schema.metadata[_RECORD])
    if record.get("version") != _VERSION:
        raise SubscriptionError(
            f"the Arrow table has version {record.get('version')}; this earmark reads version {_VERSION}"
        )
    with pa.ipc.open_stream(frame.schema.metadata[_STRINGS]) as reader:
        listed = reader.read_all().to_pydict()
    groups: dict[int, tuple[list[bytes], list[int]]] = {}
    for number, constant, key in zip(listed["attribute"], listed["constant"], listed["key"], strict=True):
        texts, keys = groups.setdefault(number, ([], []))
        texts.append(constant)
        keys.append(key)
    return schema_of(record, lambda number: restored_strings(*groups[number]))


def _arrays(frame: pa.Table) -> TableArrays:
    clauses = one_array(frame.column("clauses"))
    assert clauses.null_count == 0, "a row has no clauses"
    constraints = clauses.flatten()
    flat = constraints.flatten()
    parts = dict(zip([f.name for f in flat.type], flat.flatten(), strict=True))
    ends = dict(zip(("lo", "hi"), parts["intervals"].flatten().flatten(), strict=True))
    weight = np.asarray(parts["weight"])
    score = np.asarray(one_array(frame.column("score")))
    return TableArrays(
        clause_start=_starts(clauses),
        constraint_start=_starts(constraints),
        attr=np.asarray(parts["attribute"]),
        accepts_null=np.asarray(parts["accepts_null"]).astype(np.uint8),
        interval_start=_starts(parts["intervals"]),
        lo=np.asarray(ends["lo"]),
        hi=np.asarray(ends["hi"]),
        weight=weight if (weight != 1.0).any() else np.empty(0),
        score=score if score.any() else np.empty(0),
        sequence=np.asarray(one_array(frame.column("sequence"))),
    )


def _starts(lists: pa.Array) -> Any:
    offsets = np.asarray(lists.offsets)
    return (offsets - offsets[0]).astype(np.int32)


def _numbers(draft: Draft, source: Schema, arrays: TableArrays) -> I64:
    """The attribute numbers of this table for those of the source; types must agree."""
    numbers = np.zeros(len(source), np.int64)
    for theirs in source:
        ours = draft.get(theirs.name)
        if ours.type is None and theirs.type is not None:
            ours = draft.set_type(ours, theirs.type, theirs.origin, theirs.declared)
        elif theirs.type is not None and ours.type != theirs.type:
            raise AttributeTypeError(
                f"attribute {ours.name!r} is {ours.described()} here, but {theirs.described()} in the Arrow table"
            )
        numbers[theirs.number] = ours.number
        if theirs.type is not None and theirs.type.kind == STRING:
            for constant in source.strings[theirs.number].used_by(_bounds(arrays, theirs.number)):
                draft.constant(ours, constant)
    return numbers


def _positions(arrays: TableArrays, attribute: int) -> I64:
    return spread(arrays.interval_start, np.flatnonzero(arrays.attr == attribute))[1]


def _bounds(arrays: TableArrays, attribute: int) -> I64:
    positions = _positions(arrays, attribute)
    return np.concatenate([arrays.lo[positions], arrays.hi[positions]])


def _rekeyed(arrays: TableArrays, source: Schema, schema: Schema, numbers: I64) -> TableArrays:
    lo, hi = arrays.lo.copy(), arrays.hi.copy()
    for number, theirs in source.strings.items():
        ours: StringKeys = schema.strings[int(numbers[number])]
        positions = _positions(arrays, number)
        lo[positions] = theirs.translated(lo[positions], ours, 1)
        hi[positions] = theirs.translated(hi[positions], ours, -1)
    return arrays._replace(lo=lo, hi=hi)


def _renumbered(arrays: TableArrays, numbers: I64) -> TableArrays:
    """New attribute numbers, and the constraints of each clause in their order again."""
    attr = numbers[arrays.attr].astype(np.int32)
    clause_of = np.repeat(np.arange(len(arrays.constraint_start) - 1), np.diff(arrays.constraint_start))
    order = np.lexsort((attr, clause_of))
    interval_start, intervals = spread(arrays.interval_start, order)
    return arrays._replace(
        attr=attr[order],
        accepts_null=arrays.accepts_null[order],
        interval_start=interval_start,
        lo=arrays.lo[intervals],
        hi=arrays.hi[intervals],
        weight=arrays.weight[order] if len(arrays.weight) else arrays.weight,
    )
