"""Every workload as Arrow tables of any length, in blocks that can be made alone: what a data source reads.

    find("ads", "events", seed=1).rows(5_000, 12_000)      rows 5,000 to 11,999 as record batches

A table is cut into blocks of `size` rows. A block depends on the table, the seed and its number alone, so whoever
reads any range of rows, in however many pieces, on however many machines, reads the same rows.

What the first rows are, the same for every seed, and what comes after them:

| workload              | subscriptions                                  | events                                    |
|-----------------------|------------------------------------------------|-------------------------------------------|
| ads                   | 10,000 of `ads.Campaigns`, then blocks of them | 10,000 of `ads.visitors`, then blocks     |
| w1, w1u, w1z, w2      | 1,000,000 of `standard`, then `endless`        | 1,000 of `standard`, then `endless`       |
| begen                 | 50,000 of `begen`, then `endless`              | 1,000 of `begen`, then `endless`          |
| skew-uniform, -90-10… | 50,000 of `skew`, then blocks of them          | 1,000 of `skew`, then blocks              |
| mics-uniform, -zipf   | 50,000 of `mics`, then blocks of them          | 1,000 of `mics`, then blocks              |

"Blocks of them": the same generator with a seed of the block's own.

To add a workload: one entry in `TABLES`, or, if it is rectangles of numbers, in `endless.SOURCES`.

**Invariant**: rows(a, c) = rows(a, b) + rows(b, c). **Complexity**: rows(a, b) makes every block it touches, each up to
the last row wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from earmark.errors import EarmarkError
from earmark.workload import ads, endless, standard
from earmark.workload.endless import seed_of_block

BATCH = 10_000
MAX_SEED = 2**63 - 1
SUBSCRIPTIONS, EVENTS = "subscriptions", "events"

Make = Callable[[int, int, int], Any]
"""(block, count, until): the first `count` rows of a block, as an Arrow table; rows up to `until` will be wanted."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """A table of some workload and seed, of no particular length."""

    schema: pa.Schema
    size: int
    make: Make = field(repr=False)

    def rows(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Rows start … end - 1, in batches of at most 10,000."""
        for block in range(start // self.size, -(-end // self.size)):
            first = block * self.size
            count = min(end - first, self.size)
            table = self.make(block, count, end).slice(max(start - first, 0))
            yield from table.to_batches(max_chunksize=BATCH)


@dataclass(frozen=True, slots=True)
class Entry:
    """One table of a workload: its seed unless another is asked for, and how to make it, by form."""

    seed: int
    forms: dict[str, Callable[[int], Blocks]]


def find(workload: str, table: str, seed: int | None = None, form: str | None = None) -> Blocks:
    """A table by name; `form` None is its usual one, the first."""
    if workload not in TABLES:
        raise EarmarkError(f"there is no workload {workload!r}: it is one of {', '.join(sorted(TABLES))}")
    if table not in TABLES[workload]:
        raise EarmarkError(f"there is no table {table!r}: it is one of {', '.join(sorted(TABLES[workload]))}")
    entry = TABLES[workload][table]
    chosen = next(iter(entry.forms)) if form is None else form
    if chosen not in entry.forms:
        listed = ", ".join(sorted(entry.forms))
        raise EarmarkError(f"the {table} of {workload} have no form {form!r}: it is one of {listed}")
    if seed is not None and not 0 <= seed <= MAX_SEED:
        raise EarmarkError(f"a seed is from 0 to 2^63 - 1; got {seed}")
    return entry.forms[chosen](entry.seed if seed is None else seed)


# --- ads -----------------------------------------------------------------------------------------------------

ADS_BLOCK = 10_000
_ADS_SUBSCRIPTIONS = pa.schema(
    [
        ("id", pa.string()),
        ("condition", pa.string()),
        ("weights", pa.map_(pa.string(), pa.float64())),
        ("score", pa.float64()),
        ("tags", pa.map_(pa.string(), pa.string())),
    ]
)
_ADS_EVENTS = pa.schema(
    [
        ("event", pa.int64()),
        ("age", pa.int64()),
        ("credit_score", pa.int64()),
        ("visits", pa.int64()),
        ("city", pa.string()),
        ("interest", pa.string()),
        ("income", pa.float64()),
        ("blocked", pa.bool_()),
    ]
)


def _ads_subscriptions(seed: int) -> Blocks:
    def make(block: int, count: int, until: int) -> pa.Table:
        rows = list(ads.Campaigns(count, seed_of_block(seed, block)))
        for number, row in enumerate(rows, block * ADS_BLOCK):
            row |= {"id": f"ad-{number}", "weights": list(row["weights"].items()), "tags": list(row["tags"].items())}
        return pa.Table.from_pylist(rows, _ADS_SUBSCRIPTIONS)

    return Blocks(_ADS_SUBSCRIPTIONS, ADS_BLOCK, make)


def _ads_events(seed: int) -> Blocks:
    def make(block: int, count: int, until: int) -> pa.Table:
        crowd = ads.visitors(count, seed_of_block(seed, block))
        rows = [{"event": number, **visitor} for number, visitor in enumerate(crowd, block * ADS_BLOCK)]
        return pa.Table.from_pylist(rows, _ADS_EVENTS)

    return Blocks(_ADS_EVENTS, ADS_BLOCK, make)


# --- rectangles of numbers -----------------------------------------------------------------------------------

RANGE = pa.struct([("attribute", pa.string()), ("lo", pa.int64()), ("hi", pa.int64())])
WEIGHTS = pa.map_(pa.string(), pa.float64())
VALUES = pa.map_(pa.string(), pa.int64())


def _numbers(block: int, size: int, count: int) -> pa.Array:
    return pa.array(np.arange(block * size, block * size + count, dtype=np.int64))


class _Rows:
    """Rows of attribute numbers of different lengths: names and offsets for Arrow; attribute -1 is no attribute."""

    def __init__(self, attr: Any, attributes: int) -> None:
        self.used = attr >= 0
        names = pa.array([f"a{i}" for i in range(attributes)])
        self.names = names.take(pa.array(attr[self.used]))
        ends = np.concatenate([[0], self.used.sum(axis=1).cumsum()])
        self.starts = pa.array(ends.astype(np.int32))

    def of(self, column: Any) -> pa.Array:
        """The values that belong to the names."""
        return pa.array(column[self.used])

    def map(self, column: Any, type_: pa.DataType) -> pa.Array:
        """A map from name to value a row."""
        return pa.MapArray.from_arrays(self.starts, self.names, self.of(column)).cast(type_)


def _ranges(source: endless.Source) -> Callable[[int], Blocks]:
    """Subscriptions as lists of (attribute, lo, hi), and their weights if the workload has any."""
    fields = [("id", pa.int64()), ("ranges", pa.list_(RANGE))]
    schema = pa.schema([*fields, ("weights", WEIGHTS)] if source.weighted else fields)

    def of_seed(seed: int) -> Blocks:
        def make(block: int, count: int, until: int) -> pa.Table:
            part = source.subscriptions(seed, block, count, until)
            rows = _Rows(part.attr, source.attributes)
            ranges = pa.StructArray.from_arrays([rows.names, rows.of(part.lo), rows.of(part.hi)], fields=list(RANGE))
            columns = [_numbers(block, source.chunk, count), pa.ListArray.from_arrays(rows.starts, ranges)]
            if part.weight is not None:
                columns.append(rows.map(part.weight, WEIGHTS))
            return pa.table(columns, schema)

        return Blocks(schema, source.chunk, make)

    return of_seed


def _conditions(source: endless.Source) -> Callable[[int], Blocks]:
    """The same as SQL conditions."""
    fields = [("id", pa.int64()), ("condition", pa.string())]
    schema = pa.schema([*fields, ("weights", WEIGHTS)] if source.weighted else fields)

    def of_seed(seed: int) -> Blocks:
        def make(block: int, count: int, until: int) -> pa.Table:
            part = source.subscriptions(seed, block, count, until)
            lists = (column.tolist() for column in (part.attr, part.lo, part.hi))
            texts = [
                " AND ".join(f"a{a} BETWEEN {lo} AND {hi}" for a, lo, hi in zip(*row, strict=True) if a >= 0)
                for row in zip(*lists, strict=True)
            ]
            columns = [_numbers(block, source.chunk, count), pa.array(texts, pa.string())]
            if part.weight is not None:
                columns.append(_Rows(part.attr, source.attributes).map(part.weight, WEIGHTS))
            return pa.table(columns, schema)

        return Blocks(schema, source.chunk, make)

    return of_seed


def _columns(source: endless.Source) -> Callable[[int], Blocks]:
    """Events with a column an attribute, NULL where an event has none."""
    schema = pa.schema([("event", pa.int64()), *((f"a{i}", pa.int64()) for i in range(source.attributes))])

    def of_seed(seed: int) -> Blocks:
        def make(block: int, count: int, until: int) -> pa.Table:
            attr, value = source.events(seed, block, count)
            absent = np.ones((source.attributes, count), bool)
            values = np.zeros((source.attributes, count), np.int64)
            row, place = np.nonzero(attr >= 0)
            absent[attr[row, place], row] = False
            values[attr[row, place], row] = value[row, place]
            columns = [pa.array(values[i], mask=absent[i]) for i in range(source.attributes)]
            return pa.table([_numbers(block, standard.EVENTS, count), *columns], schema)

        return Blocks(schema, standard.EVENTS, make)

    return of_seed


def _map(source: endless.Source) -> Callable[[int], Blocks]:
    """Events with one column `attributes`, a map from name to value: small where few of many attributes are there."""
    schema = pa.schema([("event", pa.int64()), ("attributes", VALUES)])

    def of_seed(seed: int) -> Blocks:
        def make(block: int, count: int, until: int) -> pa.Table:
            attr, value = source.events(seed, block, count)
            maps = _Rows(attr, source.attributes).map(value, VALUES)
            return pa.table([_numbers(block, standard.EVENTS, count), maps], schema)

        return Blocks(schema, standard.EVENTS, make)

    return of_seed


def _entries(source: endless.Source) -> dict[str, Entry]:
    return {
        SUBSCRIPTIONS: Entry(source.seed, {"ranges": _ranges(source), "condition": _conditions(source)}),
        EVENTS: Entry(source.seed, {"columns": _columns(source), "map": _map(source)}),
    }


TABLES: dict[str, dict[str, Entry]] = {
    "ads": {
        SUBSCRIPTIONS: Entry(1, {"condition": _ads_subscriptions}),
        EVENTS: Entry(1, {"columns": _ads_events}),
    },
    **{name: _entries(source) for name, source in endless.SOURCES.items()},
}
"""Every table by workload and name. The first form of each is its usual one."""
