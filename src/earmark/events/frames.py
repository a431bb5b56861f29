"""From frames to keys: Arrow tables and record batches, pandas and polars, a column at a time.

pandas and polars become Arrow (a pandas NaN is NULL then, as pyarrow converts it). A column belongs to the
attribute of its name; struct columns are nested attributes by dotted name, except that a struct of exactly `lo`
and `hi` under an attribute's own name holds intervals (extended events). Columns that no subscription uses are not
looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from earmark.errors import AttributeTypeError, EventError, shown
from earmark.events import mappings
from earmark.events.arrays import EventArrays
from earmark.events.mappings import Reject, clash, encode_events, event_weights, interval_of, key_of, unfit
from earmark.events.sparse import encode_sparse, is_sparse
from earmark.flat.arrays import F64, I64, frozen
from earmark.keys.cuts import timestamp_key
from earmark.keys.numbers import EDGE, float_keys, position_of, wide_keys
from earmark.keys.schema import INT64_MAX, PRESENT, Attribute, Kind, Schema

Weights = Mapping[str, float]


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

    home = type(data).__module__.split(".")[0]
    try:
        if isinstance(data, pa.Table):
            return data
        if isinstance(data, pa.RecordBatch):
            return pa.Table.from_batches([data])
        if isinstance(data, pa.RecordBatchReader):
            return data.read_all()
        if home == "pandas":
            return pa.Table.from_pandas(data, preserve_index=False)
        if home == "polars" and type(data).__name__ in ("DataFrame", "LazyFrame"):
            return (data.collect() if hasattr(data, "collect") else data).to_arrow()
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as problem:
        raise EventError(f"the {home} frame cannot become an Arrow table: {problem}") from None
    raise EventError(f"expected a frame (an Arrow table, a pandas or a polars DataFrame), got a {type(data).__name__}")


def encode_frame(
    schema: Schema,
    table: pa.Table,
    weights: Sequence[Mapping[str, float] | None] | None = None,
    rejects: list[Reject] | None = None,
) -> EventArrays:
    """The rows of an Arrow table as events. O(rows x columns that subscriptions use).

    A value that cannot be read is an error; or, with `rejects`, it is put there and counts as NULL.
    """
    columns = sorted(_columns(schema, table), key=lambda pair: pair[0].number)
    for (one, _), (other, _) in pairwise(columns):
        if one.number == other.number:
            raise EventError(f"the frame has two columns for attribute {one.name!r}", attribute=one.name)
    rows = table.num_rows
    if weights is None and is_sparse(schema, columns, rows):
        return encode_sparse(schema, columns, rows)
    encoded = [column_keys(schema, attribute, column, rejects) for attribute, column in columns]
    valid = None if all(k.valid.all() for k in encoded) else _interleaved([k.valid for k in encoded], rows, bool)

    def flat(matrix: NDArray[Any]) -> NDArray[Any]:
        return frozen(matrix.reshape(-1) if valid is None else matrix[valid])

    starts = np.arange(rows + 1, dtype=np.int64) * len(columns)
    if valid is not None:
        np.cumsum(np.count_nonzero(valid, axis=1), out=starts[1:])
    numbers = np.array([a.number for a, _ in columns], np.int32)
    points = all(k.lo is k.hi for k in encoded)
    lo = flat(_interleaved([k.lo for k in encoded], rows, np.int64))
    return EventArrays(
        frozen(starts),
        flat(np.tile(numbers, (rows, 1))),
        lo,
        lo if points else flat(_interleaved([k.hi for k in encoded], rows, np.int64)),
        flat(_weights([a.name for a, _ in columns], weights, rows)) if weights else frozen(np.empty(0)),
    )


def encode_many(schema: Schema, events: Any, weights: Any = None, rejects: list[Reject] | None = None) -> EventArrays:
    """Events as users give them, a sequence of mappings or a frame, as keys; `weights` are a mapping for each event."""
    if is_frame(events):
        return encode_frame(schema, as_arrow(events), weights, rejects)
    return encode_events(schema, listed_events(events), weights, rejects)


def listed_events(events: Any) -> Sequence[Any]:
    """A sequence of events; an error says what else was given."""
    if isinstance(events, Mapping):
        raise EventError("expected a sequence of events or a frame, got one mapping; for a single event use match")
    if isinstance(events, str | bytes) or not isinstance(events, Iterable):
        raise EventError(f"expected a sequence of events or a frame, got {type(events).__name__}")
    return events if isinstance(events, Sequence) else list(events)


def _interleaved(parts: list[NDArray[Any]], rows: int, dtype: Any) -> NDArray[Any]:
    """Columns as the rows of one matrix, in blocks of rows that stay in the cache (three times faster)."""
    matrix = np.empty((rows, len(parts)), dtype)
    for first in range(0, rows, _BLOCK):
        block = slice(first, first + _BLOCK)
        for j, part in enumerate(parts):
            matrix[block, j] = part[block]
    return matrix


def _weights(names: list[str], weights: Sequence[Mapping[str, float] | None], rows: int) -> F64:
    made = np.ones((rows, len(names)))
    for i, given in enumerate(weights):
        for name, weight in event_weights(given, i).items():
            if name in names:
                made[i, names.index(name)] = weight
    return made


def _columns(schema: Schema, table: pa.Table) -> list[tuple[Attribute, pa.Array]]:
    """The columns of attributes, those inside structs included."""

    nested = any(pa.types.is_struct(field.type) for field in table.schema)
    heads = {name[:i] for name in schema.names for i, c in enumerate(name) if c == "."} if nested else set()
    found: list[tuple[Attribute, pa.Array]] = []

    def visit(name: str, column: Any, depth: int) -> None:
        attribute = schema.by_name.get(name)
        if attribute is not None:
            found.append((attribute, one_array(column)))
        if name in heads and pa.types.is_struct(column.type) and (attribute is None or attribute.type is None):
            if depth == mappings.MAX_NESTED:
                raise EventError(f"{name!r} nests deeper than {mappings.MAX_NESTED} levels")
            for field, inner in zip(column.type, one_array(column).flatten(), strict=True):
                visit(f"{name}.{field.name}", inner, depth + 1)

    for field, column in zip(table.schema, table.columns, strict=True):
        visit(field.name, column, 0)
    return found


def one_array(column: Any) -> pa.Array:
    """A chunked column in one piece."""

    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if is_text(column.type) and column.nbytes > _INT32_MAX:  # more than 32-bit offsets reach
        column = column.cast(pa.large_string())
    made = column.combine_chunks()
    if isinstance(made, pa.ChunkedArray):
        made = pa.concat_arrays(made.chunks) if made.num_chunks else pa.array([], made.type)
    return made


def column_keys(schema: Schema, attribute: Attribute, column: pa.Array, rejects: list[Reject] | None = None) -> Keys:
    """The keys of a column of values or of intervals."""

    column = plain_array(column)
    if schema.nan_is_null and pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    valid = _valid(column)
    if attribute.type is None:
        keys = np.full(len(column), PRESENT, np.int64)
        return Keys(valid, keys, keys)
    try:
        if not pa.types.is_struct(column.type):
            keys = value_keys(schema, attribute, column, valid)
            return Keys(valid, keys, keys)
        if {f.name for f in column.type} != {"lo", "hi"}:
            names = ", ".join(field.name for field in column.type)
            raise EventError(
                f"expected fields lo and hi in the struct column {attribute.name!r}, got {names or 'none'}",
                attribute=attribute.name,
            )
        return _interval_keys(schema, attribute, column)
    except EventError:
        if rejects is None:
            raise
        return _one_by_one(schema, attribute, column, valid, rejects)


def _one_by_one(
    schema: Schema, attribute: Attribute, column: pa.Array, valid: NDArray[np.bool_], rejects: list[Reject]
) -> Keys:
    """The keys of a column in which some value cannot be read: such are NULL, and go to the rejects."""

    valid = valid.copy()
    keys = np.zeros((2, len(column)), np.int64)
    for row in np.flatnonzero(valid).tolist():
        try:
            value = column[row].as_py()
            if isinstance(value, dict) and set(value) == {"lo", "hi"}:
                value = mappings.Interval(value["lo"], value["hi"])
            keys[:, row] = interval_of(schema, attribute, value)
            continue
        except EventError as problem:
            unread = problem
        except (ValueError, OverflowError, pa.ArrowException) as problem:
            unread = _unreadable(attribute, problem)
        valid[row] = False
        rejects.append(Reject.of(unread, row))
    return Keys(valid, keys[0], keys[1])


def plain_array(column: pa.Array) -> pa.Array:
    """Without the encodings that say nothing about values, and with every NULL where `is_null` sees it."""

    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if pa.types.is_dictionary(column.type) and (column.dictionary.null_count or not is_text(column.type.value_type)):
        column = column.dictionary_decode()
    return column


def _valid(column: pa.Array) -> NDArray[np.bool_]:
    if column.null_count == 0:
        return np.ones(len(column), bool)
    bitmap = column.buffers()[0]
    if bitmap is None:  # of a type whose arrays have no bitmap
        return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), bool)
    first, last = column.offset, column.offset + len(column)
    return np.unpackbits(np.frombuffer(bitmap, np.uint8), count=last, bitorder="little")[first:].view(bool)


def _interval_keys(schema: Schema, attribute: Attribute, column: pa.Array) -> Keys:

    valid = _valid(column)
    ends = [plain_array(pc.struct_field(column, name)) for name in ("lo", "hi")]
    known = [_valid(end) for end in ends]
    keys = [value_keys(schema, attribute, end, k) for end, k in zip(ends, known, strict=True)]
    type_ = attribute.known_type
    low = np.where(known[0], keys[0], type_.low)
    high = np.where(known[1], keys[1], type_.high)
    wrong = valid & (low > high)
    if type_.kind == Kind.STRING and known[0].any() and known[1].any():
        # between two constants all strings share a key; Arrow, too, compares strings by their bytes
        above = pc.greater(*(end.cast(pa.large_string()) for end in ends)).fill_null(False)
        wrong |= valid & above.to_numpy(zero_copy_only=False)
    elif type_.kind == Kind.NUMBER:  # numbers beyond 2^53, and between two constants, may share a key
        shared = valid & known[0] & known[1] & (low == high)
        for row in np.flatnonzero(shared if type_.keyed else shared & (np.abs(low) >= EDGE)).tolist():
            first, last = (position_of(end[row].as_py()) for end in ends)
            wrong[row] |= first > last
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise EventError(
            f"the interval of {attribute.name!r} is empty: "
            f"{shown(ends[0][row].as_py())} is above {shown(ends[1][row].as_py())}",
            attribute=attribute.name,
            event=row,
        )
    return Keys(valid, low, high)


def value_keys(schema: Schema, attribute: Attribute, column: pa.Array, valid: NDArray[np.bool_]) -> I64:
    """The keys of a column of values; where it is not valid, anything."""
    if not valid.any():
        return np.zeros(len(column), np.int64)
    type_ = attribute.known_type
    quick = _QUICK.get((type_.kind, _family(column.type)))
    keys = quick(schema, attribute, column) if quick is not None else None
    return keys if keys is not None else _by_distinct(schema, attribute, column, valid)


def _family(type_: pa.DataType) -> str:

    for name, test in (
        ("integer", pa.types.is_integer),
        ("float", pa.types.is_floating),
        ("boolean", pa.types.is_boolean),
        ("timestamp", pa.types.is_timestamp),
        ("date32", pa.types.is_date32),
        ("decimal", pa.types.is_decimal),
    ):
        if test(type_):
            return name
    return "other"


def is_text(type_: pa.DataType) -> bool:
    """Whether a column of this type holds strings."""

    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


# --- whole columns -------------------------------------------------------------------------------------------
# Each gives the keys of a column, or None where the values must be looked at one by one.


def _numbers(column: pa.Array) -> NDArray[Any]:
    """The numbers of a column, 0 where NULL. Reads the buffers, since `fill_null` takes five times as long."""
    if column.null_count == 0:
        whole: NDArray[Any] = column.to_numpy()
        return whole
    dtype = np.dtype(column.type.to_pandas_dtype())
    values = np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)
    return np.where(_valid(column), values, dtype.type(0))


def _unreadable(attribute: Attribute, problem: Exception) -> EventError:
    """A value that Arrow cannot give as one of Python's, and why."""
    return EventError(f"a value for {attribute.name!r} cannot be read: {problem}", attribute=attribute.name)


def _integers(schema: Schema, attribute: Attribute, column: pa.Array) -> I64:
    values = _numbers(column)
    if values.dtype == np.uint64 and (over := values > INT64_MAX).any():
        row = int(np.flatnonzero(over)[0])
        raise unfit(attribute, "a 64-bit integer", values[row]).at(event=row)
    return values.astype(np.int64, copy=False)


def _whole_floats(schema: Schema, attribute: Attribute, column: pa.Array) -> I64:
    values = _numbers(column).astype(np.float64, copy=False)
    whole = (values == np.floor(values)) & (values >= -(2.0**63)) & (values < 2.0**63)
    if not whole.all():
        row = int(np.flatnonzero(~whole)[0])
        raise clash(attribute, float(values[row])).at(event=row)
    return values.astype(np.int64)


def _floats(schema: Schema, attribute: Attribute, column: pa.Array) -> I64:
    return float_keys(_numbers(column).astype(np.float64, copy=False))


def _wide_or_narrow(schema: Schema, attribute: Attribute, column: pa.Array) -> I64:
    if attribute.known_type.keyed:
        return wide_keys(schema.strings[attribute.number], _numbers(column))
    return _floats(schema, attribute, column)


def _booleans(schema: Schema, attribute: Attribute, column: pa.Array) -> I64:
    keys: I64 = column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.int64)
    return keys


def _dates(schema: Schema, attribute: Attribute, column: pa.Array) -> I64:
    return _numbers(column.cast("int32")).astype(np.int64)


def _decimals(schema: Schema, attribute: Attribute, column: pa.Array) -> I64 | None:

    type_ = attribute.known_type
    try:
        exact = column.cast(pa.decimal128(type_.precision, type_.scale))
    except pa.ArrowInvalid:
        return None  # some value does not fit; finding it names the row
    # 128-bit integers, of which 18 digits need the lower half only
    words = np.frombuffer(exact.buffers()[1], np.int64).reshape(-1, 2)
    keys: I64 = words[exact.offset : exact.offset + len(exact), 0].copy()
    return keys


def _scaled_integers(schema: Schema, attribute: Attribute, column: pa.Array) -> I64 | None:
    type_ = attribute.known_type
    values, unit = _numbers(column), 10**type_.scale
    room = type_.high // unit
    if len(values) and not -room <= int(values.min()) <= int(values.max()) <= room:
        return None
    keys: I64 = values.astype(np.int64) * unit
    return keys


def _timestamps(schema: Schema, attribute: Attribute, column: pa.Array) -> I64:

    try:
        micros = _numbers(column.cast(pa.timestamp("us", column.type.tz)).cast("int64"))
    except pa.ArrowInvalid:
        unit = column.type.unit
        values = _numbers(column.cast("int64"))
        room = INT64_MAX // {"s": 1_000_000, "ms": 1_000}.get(unit, 1)
        wrong = values % 1000 != 0 if unit == "ns" else (values > room) | (values < -room)
        row = int(np.flatnonzero(wrong)[0])
        moment = np.datetime64(int(values[row]), unit)
        raise unfit(attribute, "a moment that fits microseconds", moment).at(event=row) from None
    if column.type.tz is not None or schema.zone_name == "UTC":
        return micros.astype(np.int64, copy=False)
    return _from_local(schema, attribute, micros, _valid(column))


def _from_local(schema: Schema, attribute: Attribute, local: I64, valid: NDArray[np.bool_]) -> I64:
    """Naive times in the zone of the schema: an hour at a time where the zone keeps its offset for that hour."""
    outside = valid & ((local < _FIRST_LOCAL) | (local > _LAST_LOCAL))
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        moment = np.datetime64(int(local[row]), "us")
        raise unfit(attribute, "a moment of the years 1 to 9999", moment).at(event=row)
    hours, hour_of = np.unique(np.where(valid, local, 0) // _HOUR, return_inverse=True)
    shift = np.zeros(len(hours), np.int64)
    steady = np.zeros(len(hours), bool)
    for i, hour in enumerate(hours.tolist()):
        first = hour * _HOUR
        start, end = (timestamp_key(_naive(m), schema.zone) for m in (first, first + _HOUR - 1))
        shift[i], steady[i] = start - first, end - start == _HOUR - 1
    keys = local + shift[hour_of]
    for row in np.flatnonzero(valid & ~steady[hour_of]).tolist():
        keys[row] = timestamp_key(_naive(int(local[row])), schema.zone)
    return keys


def _naive(micros: int) -> datetime:
    return datetime(1970, 1, 1) + timedelta(microseconds=micros)


_BLOCK = 2048  # rows
_INT32_MAX = 2**31 - 1
_HOUR = 3_600_000_000
_FIRST_LOCAL = (datetime.min - datetime(1970, 1, 1)) // timedelta(microseconds=1)
_LAST_LOCAL = (datetime.max - datetime(1970, 1, 1)) // timedelta(microseconds=1)

_QUICK: dict[tuple[str, str], Callable[[Schema, Attribute, Any], I64 | None]] = {
    **dict.fromkeys([(Kind.NUMBER, "integer"), (Kind.NUMBER, "float")], _wide_or_narrow),
    (Kind.INTEGER, "integer"): _integers,
    (Kind.INTEGER, "float"): _whole_floats,
    **dict.fromkeys([(Kind.FLOAT, "integer"), (Kind.FLOAT, "float")], _floats),
    (Kind.BOOLEAN, "boolean"): _booleans,
    (Kind.DATE, "date32"): _dates,
    (Kind.DECIMAL, "decimal"): _decimals,
    (Kind.DECIMAL, "integer"): _scaled_integers,
    (Kind.TIMESTAMP, "timestamp"): _timestamps,
}


def _by_distinct(schema: Schema, attribute: Attribute, column: pa.Array, valid: NDArray[np.bool_]) -> I64:
    """Each distinct value once, by the rules for single values."""

    try:
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    except pa.ArrowException:  # lists and the like have no distinct values
        row = int(np.flatnonzero(valid)[0])
        raise AttributeTypeError(
            f"{attribute.expected()}, got a column of type {column.type}", attribute=attribute.name, event=row
        ) from None
    codes = _numbers(coded.indices).astype(np.int64, copy=False)
    used = np.zeros(len(coded.dictionary), bool)
    used[codes[valid]] = True
    keys = np.zeros(len(used), np.int64)
    try:
        values = coded.dictionary.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException):
        values = None  # one of them cannot become a Python value; it is found below
    for code in np.flatnonzero(used).tolist():
        try:
            value = coded.dictionary[code].as_py() if values is None else values[code]
            keys[code] = key_of(schema, attribute, value)
        except EventError as problem:
            raise problem.at(event=_first_row(codes, valid, code)) from None
        except (ValueError, OverflowError, pa.ArrowException) as problem:
            raise _unreadable(attribute, problem).at(event=_first_row(codes, valid, code)) from None
    return keys[codes] if len(keys) else np.zeros(len(column), np.int64)


def _first_row(codes: I64, valid: NDArray[np.bool_], code: int) -> int:
    return int(np.flatnonzero(valid & (codes == code))[0])


# --- columns of our choice: one for each attribute, or one map column for all -----------------------------------


def encode_columns(
    schema: Schema,
    columns: Sequence[tuple[str, pa.Array]],
    rows: int,
    weights: Weights | Sequence[Weights] | None = None,
    rejects: list[Reject] | None = None,
) -> EventArrays:
    """Return `rows` events from one column per attribute; with `rejects`, values that cannot be read go there."""
    if not columns:
        nothing = encode_frame(schema, pa.table({}), None)
        return nothing._replace(start=frozen(np.zeros(rows + 1, np.int64)))
    each = None if weights is None or isinstance(weights, Mapping) else weights
    events = encode_frame(schema, pa.table(dict(columns)), each, rejects)
    return weighted(schema, events, weights) if isinstance(weights, Mapping) else events


def encode_map(
    schema: Schema,
    column: pa.MapArray,
    names: Mapping[str, str],
    weights: Weights | Sequence[Weights] | None,
    rejects: list[Reject] | None = None,
    more: Sequence[tuple[str, pa.Array]] = (),
) -> EventArrays:
    """Return events from a map column; `names` gives the attribute of a key. O(entries log entries).

    With `rejects`, values that cannot be read go there and count as NULL. `more` are columns of further attributes.
    """
    starts = np.asarray(column.offsets).astype(np.int64)
    keys, items = column.keys, column.items
    if len(keys) != starts[-1] - starts[0]:  # a slice, of which these are the entries of the whole
        keys, items = (part.slice(starts[0], starts[-1] - starts[0]) for part in (keys, items))
    rows = np.repeat(np.arange(len(column)), np.diff(starts))
    coded = keys.dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    borders = np.searchsorted(codes[order], np.arange(len(coded.dictionary) + 1))
    parts: list[tuple[I64, I64, I64, I64]] = [(np.empty(0, np.int64),) * 4]
    for code, key in enumerate(coded.dictionary.cast(pa.large_binary()).to_pylist()):
        name = names.get(key.decode(errors="surrogateescape"))  # which no attribute has in its name
        if name is None:
            continue
        attribute = schema.by_name[name]
        mine = order[borders[code] : borders[code + 1]]
        try:
            wrong: list[Reject] | None = None if rejects is None else []
            found = column_keys(schema, attribute, items.take(pa.array(mine)), wrong)
        except EventError as problem:
            raise problem.at(event=None if problem.event is None else int(rows[mine[problem.event]])) from None
        if rejects is not None:
            rejects += [one._replace(event=int(rows[mine[one.event]])) for one in wrong or ()]
        at = np.flatnonzero(found.valid)
        parts.append((rows[mine[at]], np.full(len(at), attribute.number), found.lo[at], found.hi[at]))
    for name, values in more:
        found = column_keys(schema, schema.by_name[name], values, rejects)
        at = np.flatnonzero(found.valid)
        parts.append((at, np.full(len(at), schema.by_name[name].number), found.lo[at], found.hi[at]))
    row, number, lo, hi = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((number, row))
    row, number, lo, hi = row[order], number[order], lo[order], hi[order]
    twice = np.unique(row[1:][(row[1:] == row[:-1]) & (number[1:] == number[:-1])])
    if len(twice):
        repeated = EventError("the map of an event has a key twice", event=int(twice[0]))
        if rejects is None:
            raise repeated
        rejects += [Reject.of(repeated, event) for event in twice.tolist()]
        once = ~np.isin(row, twice)
        row, number, lo, hi = row[once], number[once], lo[once], hi[once]
    ends = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(column)))]).astype(np.int64)
    numbers = frozen(number.astype(np.int32))
    events = EventArrays(frozen(ends), numbers, frozen(lo), frozen(hi), frozen(np.empty(0)))
    return events if weights is None else weighted(schema, events, weights)


def weighted(schema: Schema, events: EventArrays, weights: Weights | Sequence[Weights]) -> EventArrays:
    """The same events with weights, one mapping for all or one for each."""
    if isinstance(weights, Mapping):
        of = np.ones(len(schema))
        for name, weight in mappings.checked_weights(weights, EventError).items():
            if name in schema.by_name:
                of[schema.by_name[name].number] = weight
        return events._replace(weight=frozen(of[events.attr]))
    made = np.ones(len(events.attr))
    names = schema.names
    for i, own in enumerate(weights):
        checked = event_weights(own, i)
        for at in range(events.start[i], events.start[i + 1]) if checked else ():
            made[at] = checked.get(names[events.attr[at]], 1.0)
    return events._replace(weight=frozen(made))


def weights_of(column: pa.Array, rejects: list[Reject] | None = None) -> list[dict[str, float]]:
    """A map column as one mapping of weights per event, empty for NULL.

    With `rejects`, an event whose weights are none is put there as a whole.
    """
    found = [{} if own is None else dict(own) for own in column.to_pylist()]
    for event, own in enumerate(found if rejects is not None else ()):
        try:
            mappings.checked_weights(own, EventError)
        except EventError as problem:
            assert rejects is not None
            rejects.append(Reject.of(problem.at(attribute=None), event))
            found[event] = {}
    return found
