"""From columns of Arrow data to keys: one column for each attribute, or one map column for all.

The rules are those of frames.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from earmark.errors import EventError
from earmark.events.arrays import EventArrays
from earmark.events.frames import column_keys, encode_frame
from earmark.events.mappings import checked_weights, event_weights
from earmark.flat.arrays import I64, frozen
from earmark.keys.schema import Schema

Weights = Mapping[str, float]


def encode_columns(
    schema: Schema,
    columns: Sequence[tuple[str, pa.Array]],
    rows: int,
    weights: Weights | Sequence[Weights] | None = None,
) -> EventArrays:
    """So many events from one column an attribute."""
    if not columns:
        nothing = encode_frame(schema, pa.table({}), None)
        return nothing._replace(start=frozen(np.zeros(rows + 1, np.int64)))
    each = None if weights is None or isinstance(weights, Mapping) else weights
    events = encode_frame(schema, pa.table(dict(columns)), each)
    return weighted(schema, events, weights) if isinstance(weights, Mapping) else events


def encode_map(
    schema: Schema, column: pa.MapArray, names: Mapping[str, str], weights: Weights | Sequence[Weights] | None
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
        attribute = schema.by_name[name]
        mine = order[borders[code] : borders[code + 1]]
        found = column_keys(schema, attribute, items.take(pa.array(mine)))
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
    return events if weights is None else weighted(schema, events, weights)


def weighted(schema: Schema, events: EventArrays, weights: Weights | Sequence[Weights]) -> EventArrays:
    """The same events with weights, one mapping for all or one for each."""
    if isinstance(weights, Mapping):
        of = np.ones(len(schema))
        for name, weight in checked_weights(weights, EventError).items():
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


def weights_of(column: pa.Array) -> list[dict[str, float]]:
    """A map column as one mapping of weights per event, empty for NULL."""
    return [{} if own is None else dict(own) for own in column.to_pylist()]
