"""From a batch of Spark's Arrow data to keys: columns, or one map column, under a reader's schema.

The rules are those of model/frames.py. A version cannot learn from events as a Matcher does: attributes without a type
were only asked about NULL, so all their values are alike (0), and a value that would widen an attribute is an error
here, because the driver has already widened what it could (widened.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from earmark.errors import AttributeTypeError, EventError
from earmark.model.arrays import I64, EventArrays, frozen
from earmark.model.event import SchemaChange, checked_weights
from earmark.model.frames import column_keys, encode_frame
from earmark.spark.reader import Reader

Weights = Mapping[str, float]


def encode_columns(
    reader: Reader, names: Sequence[str], columns: Sequence[pa.Array], weights: Weights | Sequence[Weights] | None
) -> EventArrays:
    """Events from one column an attribute."""
    given = [_any_value(c) if name in reader.untyped else c for name, c in zip(names, columns, strict=True)]
    table = pa.Table.from_arrays(given, list(names))
    each = None if weights is None or isinstance(weights, Mapping) else weights
    try:
        events = encode_frame(reader.schema, table, each)
    except SchemaChange as change:
        raise too_narrow(change) from None
    return weighted(reader, events, weights) if isinstance(weights, Mapping) else events


def encode_map(
    reader: Reader, column: pa.MapArray, names: Mapping[str, str], weights: Weights | Sequence[Weights] | None
) -> EventArrays:
    """Events from a map column; `names` gives the attribute of a key. O(entries log entries)."""
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
    for code, key in enumerate(coded.dictionary.to_pylist()):
        name = names.get(key)
        if name is None:
            continue
        attribute = reader.schema.by_name[name]
        mine = order[borders[code] : borders[code + 1]]
        values = items.take(pa.array(mine))
        try:
            found = column_keys(reader.schema, attribute, _any_value(values) if name in reader.untyped else values)
        except SchemaChange as change:
            raise too_narrow(change) from None
        at = np.flatnonzero(found.valid)
        parts.append((rows[mine[at]], np.full(len(at), attribute.number), found.lo[at], found.hi[at]))
    row, number, lo, hi = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((number, row))
    row, number, lo, hi = row[order], number[order], lo[order], hi[order]
    if ((row[1:] == row[:-1]) & (number[1:] == number[:-1])).any():
        raise EventError("an event's map has two keys for one attribute")
    ends = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(column)))]).astype(np.int64)
    numbers = frozen(number.astype(np.int32))
    events = EventArrays(frozen(ends), numbers, frozen(lo), frozen(hi), frozen(np.empty(0)))
    return events if weights is None else weighted(reader, events, weights)


def weighted(reader: Reader, events: EventArrays, weights: Weights | Sequence[Weights]) -> EventArrays:
    """The same events with weights, one mapping for all or one for each."""
    if isinstance(weights, Mapping):
        of = np.ones(len(reader.schema))
        for name, weight in checked_weights(weights, "the events", EventError).items():
            if name in reader.schema.by_name:
                of[reader.schema.by_name[name].number] = weight
        return events._replace(weight=frozen(of[events.attr]))
    made = np.ones(len(events.attr))
    names = reader.schema.names
    for i, own in enumerate(weights):
        checked = checked_weights(own, f"event {i}", EventError)
        for at in range(events.start[i], events.start[i + 1]) if checked else ():
            made[at] = checked.get(names[events.attr[at]], 1.0)
    return events._replace(weight=frozen(made))


def weights_of(column: pa.Array) -> list[dict[str, float]]:
    """A map column as one mapping of weights an event; NULL is none."""
    return [{} if own is None else dict(own) for own in column.to_pylist()]


def _any_value(column: pa.Array) -> pa.Array:
    return pc.if_else(column.is_valid(), pa.scalar(0, pa.int64()), pa.scalar(None, pa.int64()))


def too_narrow(change: SchemaChange) -> AttributeTypeError:
    """What to do about a value that a version would have to learn from."""
    attribute: Any = change.attribute
    return AttributeTypeError(
        f"attribute {attribute.name!r} is {attribute.described()}, which does not go with {change.origin}; "
        f"publish with attributes={{{attribute.name!r}: {str(change.type)!r}}}"
    )
