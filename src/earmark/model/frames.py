"""From frames to keys: Arrow tables and record batches, pandas and polars, a column at a time.

pandas and polars become Arrow (a pandas NaN is NULL then, as pyarrow converts it). A column belongs to the
attribute of its name; struct columns are nested attributes by dotted name, except that a struct of exactly `lo`
and `hi` under an attribute's own name holds intervals (extended events). Columns that no subscription uses are not
looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.errors import EventError
from earmark.model.arrays import F64, I64, EventArrays, frozen
from earmark.model.attribute import (
    BOOLEAN,
    DATE,
    FLOAT,
    INT64_MAX,
    INT64_MIN,
    INTEGER,
    STRING,
    TIMESTAMP,
    Attribute,
    AttributeType,
    Schema,
    attribute_type,
)
from earmark.model.event import SchemaChange, checked_weights, clash, key_of
from earmark.model.keys import float_keys

if TYPE_CHECKING:
    import pyarrow as pa


class Keys(NamedTuple):
    """A column as keys; where `valid` is False the key means nothing."""

    valid: NDArray[np.bool_]
    lo: I64
    hi: I64


def is_frame(data: Any) -> bool:
    """Whether this is a frame or Arrow data, as far as its type's home tells."""
    return type(data).__module__.split(".")[0] in ("pyarrow", "pandas", "polars")


def as_arrow(data: Any) -> pa.Table:
    """A frame of any of the kinds we read, as an Arrow table."""
    import pyarrow as pa

    home = type(data).__module__.split(".")[0]
    try:
        if isinstance(data, pa.Table):
            return data
        if isinstance(data, pa.RecordBatch):
            return pa.Table.from_batches([data])
        if home == "pandas":
            return pa.Table.from_pandas(data, preserve_index=False)
        if home == "polars":
            return (data.collect() if hasattr(data, "collect") else data).to_arrow()
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as problem:
        raise EventError(f"the {home} frame cannot become an Arrow table: {problem}") from None
    raise EventError(f"a {type(data).__name__} is not a frame; give an Arrow table, a pandas or a polars DataFrame")


def encode_frame(
    schema: Schema, table: pa.Table, weights: Sequence[Mapping[str, float] | None] | None = None
) -> EventArrays:
    """The rows of an Arrow table as events. O(rows x columns that subscriptions use)."""
    columns = sorted(_columns(schema, table, ""), key=lambda pair: pair[0].number)
    for (one, _), (other, _) in zip(columns, columns[1:], strict=False):
        if one.number == other.number:
            raise EventError(f"the frame has two columns for attribute {one.name!r}")
    encoded = [column_keys(schema, attribute, column) for attribute, column in columns]
    rows = table.num_rows
    valid = np.array([k.valid for k in encoded]).reshape(len(encoded), rows).T
    starts = np.zeros(rows + 1, np.int64)
    np.cumsum(valid.sum(axis=1), out=starts[1:])

    def flat(parts: list[Any], dtype: type) -> NDArray[Any]:
        return frozen(np.array(parts, dtype).reshape(len(parts), rows).T[valid].astype(dtype, copy=False))

    numbers = np.array([a.number for a, _ in columns], np.int32)
    return EventArrays(
        frozen(starts),
        frozen(np.broadcast_to(numbers, (rows, len(columns)))[valid]),
        flat([k.lo for k in encoded], np.int64),
        flat([k.hi for k in encoded], np.int64),
        frozen(_weights([a.name for a, _ in columns], weights, rows)[valid] if weights else np.empty(0)),
    )


def _weights(names: list[str], weights: Sequence[Mapping[str, float] | None], rows: int) -> F64:
    made = np.ones((rows, len(names)))
    for i, given in enumerate(weights):
        for name, weight in checked_weights(given, f"event {i}", EventError).items():
            if name in names:
                made[i, names.index(name)] = weight
    return made


def _columns(schema: Schema, table: Any, prefix: str) -> list[tuple[Attribute, pa.Array]]:
    import pyarrow as pa

    found: list[tuple[Attribute, pa.Array]] = []
    for i, field in enumerate(table.schema):
        name = prefix + field.name
        attribute = schema.by_name.get(name)
        if attribute is not None:
            found.append((attribute, one_array(table.column(i))))
        elif pa.types.is_struct(field.type):
            array = one_array(table.column(i))
            inner = pa.Table.from_arrays(array.flatten(), names=[f.name for f in field.type])
            found.extend(_columns(schema, inner, name + "."))
    return found


def one_array(column: Any) -> pa.Array:
    """A chunked column in one piece, dictionaries and views decoded to plain types where that is simplest."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column


def column_keys(schema: Schema, attribute: Attribute, column: pa.Array) -> Keys:
    """The keys of a column of values or of intervals."""
    import pyarrow as pa

    if not pa.types.is_struct(column.type):
        valid = ~np.asarray(column.is_null())
        keys = value_keys(schema, attribute, column, valid)
        return Keys(valid, keys, keys)
    if {f.name for f in column.type} != {"lo", "hi"}:
        raise EventError(f"attribute {attribute.name!r}: a struct column holds intervals, with fields lo and hi")
    return _interval_keys(schema, attribute, column)


def _interval_keys(schema: Schema, attribute: Attribute, column: pa.Array) -> Keys:
    import pyarrow.compute as pc

    valid = ~np.asarray(column.is_null())
    ends = [pc.struct_field(column, name) for name in ("lo", "hi")]
    known = [~np.asarray(end.is_null()) for end in ends]
    keys = [value_keys(schema, attribute, end, k) for end, k in zip(ends, known, strict=True)]
    type_ = attribute.type
    low = np.where(known[0], keys[0], type_.low if type_ else INT64_MIN)
    high = np.where(known[1], keys[1], type_.high if type_ else INT64_MAX)
    wrong = valid & (low > high)
    if type_ is not None and type_.kind == STRING:
        above = pc.greater(ends[0].cast("binary"), ends[1].cast("binary")).fill_null(False)
        wrong |= valid & np.asarray(above)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise EventError(
            f"event {row}: the interval of {attribute.name!r} is empty: "
            f"{ends[0][row].as_py()!r} is above {ends[1][row].as_py()!r}"
        )
    return Keys(valid, low, high)


def value_keys(schema: Schema, attribute: Attribute, column: pa.Array, valid: NDArray[np.bool_]) -> I64:
    """The keys of a column of values."""
    import pyarrow as pa

    if pa.types.is_null(column.type) or not valid.any():
        return np.zeros(len(column), np.int64)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    type_ = attribute.type
    if type_ is None:
        raise SchemaChange(attribute, _learned(attribute, column), f"an event column of type {column.type}")
    quick = _QUICK.get((type_.kind, _family(column.type)))
    if quick is not None:
        return quick(attribute, column)
    return _by_distinct(schema, attribute, column)


def _family(type_: pa.DataType) -> str:
    import pyarrow as pa

    for name, test in (
        ("integer", pa.types.is_integer),
        ("float", pa.types.is_floating),
        ("boolean", pa.types.is_boolean),
        ("timestamp", pa.types.is_timestamp),
        ("date32", pa.types.is_date32),
    ):
        if test(type_):
            return name
    return "other"


def _learned(attribute: Attribute, column: pa.Array) -> AttributeType:
    import pyarrow as pa

    kinds: tuple[tuple[Callable[[Any], bool], str], ...] = (
        (pa.types.is_integer, INTEGER),
        (pa.types.is_floating, FLOAT),
        (pa.types.is_boolean, BOOLEAN),
        (_is_text, STRING),
        (pa.types.is_date, DATE),
        (pa.types.is_timestamp, TIMESTAMP),
    )
    for test, kind in kinds:
        if test(column.type):
            return attribute_type(kind)
    raise EventError(f"attribute {attribute.name!r}: earmark cannot match a column of type {column.type}")


def _is_text(type_: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


# --- whole columns -------------------------------------------------------------------------------------------


def _integers(attribute: Attribute, column: pa.Array) -> I64:
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    if values.dtype == np.uint64 and (over := values > INT64_MAX).any():
        row = int(np.flatnonzero(over)[0])
        raise EventError(f"event {row}: attribute {attribute.name!r}: {values[row]} does not fit a 64-bit integer")
    return values.astype(np.int64)


def _whole_floats(attribute: Attribute, column: pa.Array) -> I64:
    values = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    with np.errstate(invalid="ignore"):
        whole = (values == np.floor(values)) & (values >= -(2.0**63)) & (values < 2.0**63)
    if not whole.all():
        row = int(np.flatnonzero(~whole)[0])
        if not attribute.declared:
            raise SchemaChange(attribute, attribute_type(FLOAT), f"event {row}'s value {values[row]}")
        problem = clash(attribute, float(values[row]))
        raise type(problem)(f"event {row}: {problem}")
    return values.astype(np.int64)


def _floats(attribute: Attribute, column: pa.Array) -> I64:
    return float_keys(column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64))


def _booleans(attribute: Attribute, column: pa.Array) -> I64:
    return np.asarray(column.fill_null(False)).astype(np.int64)


def _timestamps(attribute: Attribute, column: pa.Array) -> I64:
    import pyarrow as pa

    try:
        micros = column.cast(pa.timestamp("us", column.type.tz))
    except pa.ArrowInvalid:
        raise EventError(
            f"attribute {attribute.name!r}: the column has nanoseconds (or years) that do not fit microseconds"
        ) from None
    return np.asarray(micros.cast("int64").fill_null(0), np.int64)


def _dates(attribute: Attribute, column: pa.Array) -> I64:
    return np.asarray(column.cast("int32").fill_null(0)).astype(np.int64)


_QUICK: dict[tuple[str, str], Callable[[Attribute, Any], I64]] = {
    (INTEGER, "integer"): _integers,
    (INTEGER, "float"): _whole_floats,
    (FLOAT, "integer"): _floats,
    (FLOAT, "float"): _floats,
    (BOOLEAN, "boolean"): _booleans,
    (DATE, "date32"): _dates,
}


def _by_distinct(schema: Schema, attribute: Attribute, column: pa.Array) -> I64:
    """Each distinct value once, by the rules for single values; an instant with a zone needs no rules."""
    import pyarrow as pa

    if attribute.type is not None and attribute.type.kind == TIMESTAMP and pa.types.is_timestamp(column.type):
        if column.type.tz is not None or schema.zone_name == "UTC":
            return _timestamps(attribute, column)
        if column.type.unit == "ns":
            _timestamps(attribute, column)  # raises where nanoseconds do not fit
            column = column.cast(pa.timestamp("us"))
    coded = column.dictionary_encode()
    keys = np.zeros(len(coded.dictionary), np.int64)
    for i, value in enumerate(coded.dictionary):
        try:
            keys[i] = key_of(schema, attribute, value.as_py())
        except EventError as problem:
            row = int(np.flatnonzero(np.asarray(coded.indices.fill_null(-1)) == i)[0])
            raise type(problem)(f"event {row}: {problem}") from None
    codes = np.asarray(coded.indices.fill_null(0))
    return keys[codes] if len(keys) else np.zeros(len(column), np.int64)
