"""How do the rows of a DataFrame, of subscriptions or of changes, become parts in one order of insertion?

    DataFrame ──source_of──► the columns that count ──mapInArrow──► parts (book/parts.py, on the executors)
              ──agree──► numbers and types of attributes ──in_order──► each id once; the others are rejects

The executors parse, validate and encode, which is nearly all of the work; the driver handles whole columns.

**Invariant.** Whatever the partitioning, the same rows give the same result. The order of insertion is that of the
column `order_by`, then of `id`. Of the rows with one id the first in that order counts and the others are rejected;
where they have one place in it too, the first by `op`, then by a hash of the row.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from earmark.book.parts import (
    FIELDS,
    GIVEN_TWICE,
    OP,
    ORDER,
    REJECTS,
    TIE,
    RowPlan,
    agree,
    build_parts,
    plan_record,
    read_part,
)
from earmark.book.sharding import NOT_TAKEN
from earmark.errors import EarmarkError, SubscriptionError
from earmark.flat.types import I64
from earmark.keys.schema import Attribute, Schema
from earmark.segment.columns import named_bounds
from earmark.segment.join import join, with_all_constants
from earmark.segment.segment import Segment, no_segment
from earmark.spark import frames

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

FAIL, REJECT = "fail", "reject"
_SHOWN = 3


class Given(NamedTuple):
    """How a DataFrame of subscriptions is to be read: the options of `Snapshot.publish` that are about rows."""

    attributes: Mapping[str, str] | None = None
    zone: str | None = None
    bounds: Mapping[str, tuple[str, str]] | None = None
    order_by: str | None = None
    on_error: str = FAIL


class Source(NamedTuple):
    """A DataFrame of subscriptions or changes, checked, with only the columns that count."""

    spark: SparkSession
    frame: DataFrame
    bounds: dict[str, tuple[str, str]] | None
    ready: bool
    changes: bool
    integer_ids: bool


class Taken(NamedTuple):
    """What the executors made of a DataFrame, part by part."""

    schema: Schema
    segments: list[Segment]
    rows: list[pa.Table]
    """id, op, order, tie and slot of the rows of each part (book/parts.py)."""
    rejects: pa.Table
    files: list[Path]
    """Of the segments."""
    integer_ids: bool


# --- the columns that count ----------------------------------------------------------------------------------


def subscriptions_of(frame: DataFrame, given: Given) -> tuple[Source, Schema]:
    """Check what a caller gives to be read, and the attributes that are known before any row is."""
    check_on_error(given.on_error)
    seed = Schema(given.zone or frames.session_zone(frame.sparkSession))
    if given.attributes is not None and not isinstance(given.attributes, Mapping):
        raise EarmarkError(f"attributes map names to types, such as {{'age': 'integer'}}; got {given.attributes!r}")
    seed.declare(given.attributes or {})
    source = source_of(frame, given.bounds, given.order_by, changes=False)
    for name in source.bounds or ():
        if name not in seed.by_name:
            seed.put(Attribute(len(seed), name, None, False, ""))
    return source, seed


def source_of(
    frame: DataFrame, bounds: Mapping[str, tuple[str, str]] | None, order_by: str | None, changes: bool
) -> Source:
    """Check the columns of a DataFrame of subscriptions or changes, and leave out those that do not count."""
    from pyspark.sql.types import StringType

    schema = {field.name: field.dataType for field in frame.schema.fields}
    names = list(schema)
    for name in ("id", *((OP,) if changes else ())):
        if name not in schema:
            raise SubscriptionError(f"the DataFrame has no column {name!r}; its columns are {', '.join(names)}")
    ready = bounds is not None or "condition" not in schema
    own = _own_bounds(names, bounds) if ready else None
    integer_ids = schema["id"].typeName() in ("byte", "short", "integer", "long")
    if not integer_ids and schema["id"] != StringType():
        raise SubscriptionError(f"ids are texts or integers; the column 'id' is {schema['id'].simpleString()}")
    if not ready and schema["condition"] != StringType():
        raise SubscriptionError(f"conditions are texts; the column 'condition' is {schema['condition'].simpleString()}")
    if order_by is not None and order_by not in schema:
        raise SubscriptionError(f"the DataFrame has no column {order_by!r} to order by")
    used = {name for name in FIELDS if not (ready and name == "condition")}
    used |= {"ranges"} if ready and own is None else {c for pair in (own or {}).values() for c in pair}
    used |= {OP} if changes else set()
    selected = _selected(frame, [name for name in names if name in used], order_by, frames.id_type(integer_ids))
    return Source(frame.sparkSession, selected, own, ready, changes, integer_ids)


def _selected(frame: DataFrame, names: list[str], order_by: str | None, id_type: DataType) -> DataFrame:
    """These columns, with the types that they must have; and the columns ORDER and TIE."""
    from pyspark.sql.functions import col
    from pyspark.sql.types import DoubleType, StringType

    alike = frames.alike(frame.columns, frames.is_case_sensitive(frame.sparkSession))
    for name in (*names, *((order_by,) if order_by is not None else ())):
        if name in alike:
            raise SubscriptionError(
                f"the DataFrame has two columns of one name: {' and '.join(map(repr, alike[name]))}"
            )
    casts = {"id": id_type, "score": DoubleType(), OP: StringType()}
    columns = [col(frames.quoted(name)) for name in names]
    columns = [
        column.cast(casts[name]) if name in casts else column for name, column in zip(names, columns, strict=True)
    ]
    types = [casts.get(name, frame.schema[name].dataType) for name in names]
    made = [column.alias(name) for name, column in zip(names, columns, strict=True)]
    made.append(_tie(zip(columns, types, strict=True)).alias(TIE))
    if order_by is not None:
        made.append(col(frames.quoted(order_by)).alias(ORDER))
    return frame.select(*made)


def _own_bounds(names: list[str], bounds: Mapping[str, tuple[str, str]] | None) -> dict[str, tuple[str, str]] | None:
    """Pairs of columns by attribute; None where a column `ranges` has them."""
    if bounds is None and "ranges" in names:
        return None
    if bounds is None:
        return dict(named_bounds(names))
    if not isinstance(bounds, Mapping):
        raise SubscriptionError("bounds map attributes to pairs of columns: {'age': ('min_age', 'max_age')}")
    for name, pair in bounds.items():
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not set(pair) <= set(names):
            raise SubscriptionError(f"the bounds of {name!r} are a pair of the DataFrame's columns; got {pair!r}")
    return {name: (pair[0], pair[1]) for name, pair in bounds.items()}


def _tie(columns: Iterable[tuple[Column, DataType]]) -> Column:
    """A hash of a row. NULL leaves a hash as it was, so where there are NULLs is hashed as well."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType

    parts: list[Column] = []
    for column, type_ in columns:
        if "map<" in type_.simpleString().removeprefix("map<"):  # a map has no hash of its own
            column = f.to_json(column)
        elif isinstance(type_, MapType):
            column = f.map_entries(column)
        elif isinstance(type_, ArrayType) and isinstance(type_.elementType, StructType):
            parts.append(f.transform(column, partial(_nulls, type_.elementType.names)))
        elif isinstance(type_, StructType):
            parts.append(_nulls(type_.names, column))
        parts += [column, column.isNull()]
    return f.xxhash64(*parts)


def _nulls(names: list[str], one: Column) -> Column:
    """Which of these fields of a struct are NULL."""
    from pyspark.sql.functions import struct

    return struct(*(one[name].isNull() for name in names))


# --- parts ---------------------------------------------------------------------------------------------------


def take_rows(source: Source, folder: Path, seed: Schema) -> Taken:
    """Run the executors until all parts agree on the types of attributes: once, and rarely twice."""
    from pyspark.sql.types import StringType, StructField, StructType

    report = StructType([StructField("part", StringType(), False)])
    while True:
        folder.mkdir()
        plan = RowPlan(str(folder), plan_record(seed), source.bounds, source.ready, source.changes)
        made = source.frame.mapInArrow(_builder(plan), report)
        names = sorted(row[0] for row in made.collect())
        parts = [read_part(folder / name) for name in names]
        segments, rows, rejects, facts = (list(column) for column in zip(*parts, strict=True)) if parts else ([],) * 4
        schema, settled = agree(segments, rows, facts, seed)
        if settled:
            frames.refuse_case_variants(source.spark, schema.names)
            refused = pa.concat_tables([REJECTS.empty_table(), *rejects])
            files = [folder / name / "segment" for name in names]
            return Taken(schema, segments, rows, refused, files, source.integer_ids)
        seed = schema
        shutil.rmtree(folder)


def _builder(plan: RowPlan) -> Any:
    return lambda batches: build_parts(plan, batches)


# --- the order of insertion ----------------------------------------------------------------------------------


def in_order(rows: pa.Table) -> tuple[I64, I64]:
    """Of each id the first row, in the order of insertion; and the rows that repeat an id. O(n log n)."""
    keys = ["order", "id"] if rows["order"].null_count < rows.num_rows else ["id"]
    order = _sorted(rows, keys)
    first = _firsts(rows, order)
    if not first.all():
        order = _sorted(rows, [*keys, "op", "tie"])
        first = _firsts(rows, order)
    return order[first], order[~first]


def _sorted(rows: pa.Table, keys: list[str]) -> I64:
    order: I64 = pc.sort_indices(rows, [(key, "ascending") for key in keys]).to_numpy().astype(np.int64)
    return order


def _firsts(rows: pa.Table, order: I64) -> Any:
    """Which rows, in this order, are the first of their id."""
    codes = rows["id"].combine_chunks().dictionary_encode().indices.to_numpy()[order]
    first = np.zeros(len(codes), bool)
    first[np.unique(codes, return_index=True)[1]] = True
    return first


def sequences(taken: Taken) -> tuple[list[I64], pa.Table]:
    """For the slots of each part their places in the order of insertion, each id once; and all rejects."""
    if not taken.segments:
        return [], taken.rejects
    rows = pa.concat_tables(taken.rows)
    order, repeats = in_order(rows)
    sequence = np.full(rows.num_rows, NOT_TAKEN, np.int64)
    sequence[order] = np.arange(len(order))
    borders = np.cumsum([len(one) for one in taken.segments])[:-1]
    rejects = pa.concat_tables([taken.rejects, rejected(rows, repeats, GIVEN_TWICE.format)])
    return np.split(sequence, borders), rejects


def ordered(taken: Taken) -> tuple[Segment, pa.Table]:
    """One segment of all parts, in the order of insertion, each id once; and all rejects."""
    schema = with_all_constants(taken.schema, taken.segments)
    own, rejects = sequences(taken)
    sequence = np.concatenate([*own, np.empty(0, np.int64)])
    kept = np.flatnonzero(sequence != NOT_TAKEN)
    if not len(kept):
        return no_segment(schema, taken.integer_ids), rejects
    segment = join(taken.segments, schema)
    return segment.with_sequence(sequence).pick(kept[np.argsort(sequence[kept])]), rejects


# --- what cannot be taken ------------------------------------------------------------------------------------


def rejected(rows: pa.Table, which: I64, reason: Callable[[Any], str]) -> pa.Table:
    """Rejects for rows that were fine by themselves."""
    chosen = rows.take(pa.array(which, pa.int64()))
    ids = chosen["id"].to_pylist()
    columns = {
        "id": pa.array([str(one) for one in ids], pa.string()),
        "op": chosen["op"].cast(pa.string()),
        "condition": pa.nulls(len(ids), pa.string()),
        "reason": pa.array([reason(one) for one in ids], pa.string()),
    }
    return pa.table(columns, schema=REJECTS)


def check_on_error(on_error: str) -> None:
    """Refuse what is neither of the two."""
    if on_error not in (FAIL, REJECT):
        raise EarmarkError(f"on_error is {FAIL!r} or {REJECT!r}; got {on_error!r}")


def refuse(rejects: pa.Table, on_error: str, done: str) -> None:
    """With `fail`, a row that cannot be taken is an error that names the first few; `done` is what did not happen."""
    if on_error == REJECT or not rejects.num_rows:
        return
    first = rejects.sort_by("id").slice(0, _SHOWN).to_pylist()
    told = [f"subscription {row['id']!r}: {row['reason']}" for row in first]
    if rejects.num_rows > _SHOWN:
        told.append(f"and {rejects.num_rows - _SHOWN:,} more")
    raise SubscriptionError(f"nothing was {done}, since {rejects.num_rows:,} rows cannot be taken: " + "; ".join(told))
