"""Every workload as Arrow tables of any length, in blocks that can be made alone: what a data source reads.

    find("ads", "events", seed=1).rows(5_000, 12_000)      rows 5,000 to 11,999 as record batches

A table is cut into blocks of `size` rows. A block depends on the table, the seed and its number alone, so every reader
of a range of rows, in however many pieces, on however many machines, reads the same rows.

What the first rows are, the same for every seed, and what comes after them:

| workload              | subscriptions                                  | events                                    |
|-----------------------|------------------------------------------------|-------------------------------------------|
| ads                   | 10,000 of `ads.Campaigns`, then blocks of them | 10,000 of `ads.visitors`, then blocks     |
| w1, w1u, w1z, w2      | 1,000,000 of `standard`, then `endless`        | 1,000 of `standard`, then `endless`       |
| begen                 | 50,000 of `begen`, then `endless`              | 1,000 of `begen`, then `endless`          |
| skew-uniform, -90-10… | 50,000 of `skew`, then blocks of them          | 1,000 of `skew`, then blocks              |
| mics-uniform, -zipf   | 50,000 of `mics`, then blocks of them          | 1,000 of `mics`, then blocks              |

"Blocks of them": the same generator with a seed for each block.

To add a workload: one entry in `TABLES`, or, if it is rectangles of numbers, in `endless.SOURCES`.

**Invariant**: rows(a, c) = rows(a, b) + rows(b, c). **Complexity**: rows(a, b) makes every block it touches, each up to
the last row wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from earmark.flat.arrays import I32, I64, pointers_of
from earmark.workload import ads, endless, standard
from earmark.workload.endless import seed_of_block
from earmark.workload.standard import UNUSED, Workload, check

BATCH = 10_000
MAX_SEED = 2**63 - 1
SUBSCRIPTIONS, EVENTS = "subscriptions", "events"

Make = Callable[[int, int, int], Any]
"""(block, count, until): the first `count` rows of a block, as an Arrow table; rows up to `until` will be wanted."""


@dataclass(frozen=True, slots=True)
class BlockTable:
    """A table of some workload and seed, without an end."""

    schema: pa.Schema
    size: int
    make: Make = field(repr=False)

    def rows(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Return rows start … end - 1, in batches of at most 10,000."""
        for block in range(start // self.size, -(-end // self.size)):
            first = block * self.size
            count = min(end - first, self.size)
            table = self.make(block, count, end).slice(max(start - first, 0))
            yield from table.to_batches(max_chunksize=BATCH)


@dataclass(frozen=True, slots=True)
class TableForms:
    """One table of a workload: its default seed, and how to make it, by form."""

    seed: int
    forms: dict[str, Callable[[int], BlockTable]]


def find(workload: str, table: str, seed: int | None = None, form: str | None = None) -> BlockTable:
    """Return a table by name; without a form, in its usual one, the first."""
    _check_name("a workload", workload, TABLES)
    _check_name("a table", table, TABLES[workload])
    entry = TABLES[workload][table]
    chosen = next(iter(entry.forms)) if form is None else form
    _check_name(f"a form of the {table} of {workload}", chosen, entry.forms)
    check(seed is None or 0 <= seed <= MAX_SEED, f"expected a seed from 0 to 2^63 - 1, got {seed}")
    return entry.forms[chosen](entry.seed if seed is None else seed)


def _check_name(what: str, name: str, known: Mapping[str, Any]) -> None:
    check(name in known, f"expected {what}, one of {', '.join(sorted(known))}, got {name!r}")


# --- ads -----------------------------------------------------------------------------------------------------

ADS_BLOCK = 10_000
_TEXT, _WHOLE, _FLOAT = pa.string(), pa.int64(), pa.float64()
WEIGHTS = pa.map_(_TEXT, _FLOAT)
_ADS_SUBSCRIPTIONS = pa.schema(
    {"id": _TEXT, "condition": _TEXT, "weights": WEIGHTS, "score": _FLOAT, "tags": pa.map_(_TEXT, _TEXT)}
)
_ADS_EVENTS = pa.schema(
    {"event": _WHOLE, "age": _WHOLE, "credit_score": _WHOLE, "visits": _WHOLE}
    | {"city": _TEXT, "interest": _TEXT, "income": _FLOAT, "blocked": pa.bool_()}
)


def _ads_subscriptions(seed: int) -> BlockTable:
    def make(block: int, count: int, until: int) -> pa.Table:
        rows = list(ads.Campaigns(count, seed_of_block(seed, block)))
        for number, row in enumerate(rows, block * ADS_BLOCK):
            row |= {"id": f"ad-{number}", "weights": list(row["weights"].items()), "tags": list(row["tags"].items())}
        return pa.Table.from_pylist(rows, _ADS_SUBSCRIPTIONS)

    return BlockTable(_ADS_SUBSCRIPTIONS, ADS_BLOCK, make)


def _ads_events(seed: int) -> BlockTable:
    def make(block: int, count: int, until: int) -> pa.Table:
        crowd = ads.visitors(count, seed_of_block(seed, block))
        rows = [{"event": number, **visitor} for number, visitor in enumerate(crowd, block * ADS_BLOCK)]
        return pa.Table.from_pylist(rows, _ADS_EVENTS)

    return BlockTable(_ADS_EVENTS, ADS_BLOCK, make)


# --- rectangles of numbers -----------------------------------------------------------------------------------
#
# Attribute i is called `ai`. A row may have fewer attributes than others: places of attribute UNUSED are left out.
#
#     attr   -1 3 7     lo   _ 1 5     hi   _ 4 9        ranges      [{a3, 1, 4}, {a7, 5, 9}]
#                                                        conditions  a3 BETWEEN 1 AND 4 AND a7 BETWEEN 5 AND 9


def ranges(data: Workload, **more: Any) -> pa.Array:
    """Return the subscriptions as lists of (attribute, lo, hi); `more` are further fields, such as a weight."""
    used = data.sub_attr != UNUSED
    fields = {"lo": data.sub_lo, "hi": data.sub_hi, **more}
    columns = [_names(data.sub_attr, data.attributes), *(pa.array(column[used]) for column in fields.values())]
    return pa.ListArray.from_arrays(_starts(used), pa.StructArray.from_arrays(columns, ["attribute", *fields]))


def conditions(data: Workload) -> pa.Array:
    """Return the subscriptions as SQL conditions."""
    rows = zip(*(column.tolist() for column in data[:3]), strict=True)
    return pa.array([" AND ".join(_constraints(*row)) for row in rows], pa.string())


def _constraints(attr: list[int], lo: list[int], hi: list[int]) -> list[str]:
    bounds = zip(attr, lo, hi, strict=True)
    return [f"a{a} BETWEEN {least} AND {greatest}" for a, least, greatest in bounds if a != UNUSED]


def maps(attr: I32, column: Any, attributes: int) -> pa.Array:
    """Return one map per row, from the names of its attributes to their values in a column."""
    used = attr != UNUSED
    return pa.MapArray.from_arrays(_starts(used), _names(attr, attributes), pa.array(column[used]))


def columns(attr: I32, value: I64, attributes: int) -> dict[str, pa.Array]:
    """Return events as one column per attribute, NULL where an event does not have it."""
    absent = np.ones((attributes, len(attr)), bool)
    values = np.zeros((attributes, len(attr)), np.int64)
    row, place = np.nonzero(attr != UNUSED)
    absent[attr[row, place], row] = False
    values[attr[row, place], row] = value[row, place]
    return {f"a{i}": pa.array(values[i], mask=absent[i]) for i in range(attributes)}


def _names(attr: I32, attributes: int) -> pa.Array:
    return pa.array([f"a{i}" for i in range(attributes)]).take(pa.array(attr[attr != UNUSED]))


def _starts(used: Any) -> pa.Array:
    return pa.array(pointers_of(used.sum(axis=1)).astype(np.int32))


_RANGE = pa.struct([("attribute", pa.string()), ("lo", pa.int64()), ("hi", pa.int64())])
_FORMS = {"ranges": (pa.list_(_RANGE), ranges), "condition": (pa.string(), conditions)}

Columns = Callable[[Workload, int], dict[str, pa.Array]]
"""The columns of the first rows of a block, as many as the second argument says, without their numbers."""


def _numbered(schema: pa.Schema, size: int, make: endless.Make, columns: Columns, seed: int) -> BlockTable:
    """Return a table whose first column numbers the rows."""

    def rows(block: int, count: int, until: int) -> pa.Table:
        numbers = pa.array(np.arange(block * size, block * size + count))
        return pa.table({schema.names[0]: numbers, **columns(make(seed, block, until), count)}).cast(schema)

    return BlockTable(schema, size, rows)


def _subscriptions(source: endless.EndlessWorkload, form: str) -> Callable[[int], BlockTable]:
    """Return what makes subscriptions by seed: ranges or conditions, and weights if the workload has any."""
    type_, rows = _FORMS[form]
    weights = {"weights": WEIGHTS} if source.weighted else {}
    schema = pa.schema({"id": pa.int64(), form: type_, **weights})

    def of_block(data: Workload, count: int) -> dict[str, pa.Array]:
        data = data.head(count)
        weighed = {name: maps(data.sub_attr, data.sub_weight, data.attributes) for name in weights}
        return {form: rows(data), **weighed}

    return partial(_numbered, schema, standard.CHUNK, source.subscriptions, of_block)


def _events(source: endless.EndlessWorkload, form: str) -> Callable[[int], BlockTable]:
    """Return what makes events by seed: one column per attribute, or one map, small where few attributes are there."""
    types = {f"a{i}": pa.int64() for i in range(source.attributes)}
    if form == "map":
        types = {"attributes": pa.map_(pa.string(), pa.int64())}

    def of_block(data: Workload, count: int) -> dict[str, pa.Array]:
        made = (data.event_attr[:count], data.event_value[:count], data.attributes)
        return {"attributes": maps(*made)} if form == "map" else columns(*made)

    return partial(_numbered, pa.schema({"event": pa.int64(), **types}), standard.EVENTS, source.events, of_block)


def _entries(source: endless.EndlessWorkload) -> dict[str, TableForms]:
    return {
        SUBSCRIPTIONS: TableForms(source.seed, {form: _subscriptions(source, form) for form in _FORMS}),
        EVENTS: TableForms(source.seed, {form: _events(source, form) for form in ("columns", "map")}),
    }


TABLES: dict[str, dict[str, TableForms]] = {
    "ads": {
        SUBSCRIPTIONS: TableForms(1, {"condition": _ads_subscriptions}),
        EVENTS: TableForms(1, {"columns": _ads_events}),
    },
    **{name: _entries(source) for name, source in endless.SOURCES.items()},
}
"""Every table by workload and name. The first form of each is the default."""
