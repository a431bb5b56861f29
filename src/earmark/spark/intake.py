"""How do the rows of a DataFrame, of subscriptions or of changes, become parts in one order of insertion?

    DataFrame ──source_of──► the columns that count ──mapInArrow──► parts (book/parts.py, on the executors)
              ──agree──► numbers and types of attributes ──in_order──► each id once; the others are rejected

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
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.functions import col, struct
from pyspark.sql.types import ArrayType, DataType, DoubleType, MapType, StringType, StructField, StructType

from earmark.book import parts as rowparts
from earmark.book.parts import FIELDS, GIVEN_TWICE, OP, ORDER, REJECTS, TIE, RowPlan
from earmark.book.sharding import NOT_TAKEN
from earmark.errors import EarmarkError, SubscriptionError
from earmark.flat.arrays import I64
from earmark.keys.schema import Attribute, Schema
from earmark.language.words import counted
from earmark.segment.columns import named_bounds
from earmark.segment.join import join, with_all_constants
from earmark.segment.segment import Segment, no_segment
from earmark.spark import frames

FAIL, REJECT = "fail", "reject"
_SHOWN = 3


class ReadOptions(NamedTuple):
    """How to read a DataFrame of subscriptions: the options of `Snapshot.publish` that are about rows."""

    attributes: Mapping[str, str] | None = None
    zone: str | None = None
    bounds: Mapping[str, tuple[str, str]] | None = None
    order_by: str | None = None
    on_error: str = FAIL


class RowSource(NamedTuple):
    """A DataFrame of subscriptions or changes, checked, with only the columns that count."""

    spark: SparkSession
    frame: DataFrame
    bounds: dict[str, tuple[str, str]] | None
    ready: bool
    changes: bool
    integer_ids: bool


class Taken(NamedTuple):
    """The rows of a DataFrame as the executors parsed them, part by part."""

    schema: Schema
    segments: list[Segment]
    rows: list[pa.Table]
    """id, op, order, tie and slot of the rows of each part (book/parts.py)."""
    rejects: pa.Table
    files: list[Path]
    """Of the segments."""
    integer_ids: bool


# --- the columns that count ----------------------------------------------------------------------------------


def subscriptions_of(frame: DataFrame, options: ReadOptions) -> tuple[RowSource, Schema]:
    """Check a DataFrame of subscriptions; return it with the attributes that are known before any row is read."""
    check_on_error(options.on_error)
    seed = Schema(options.zone or frames.session_zone(frame.sparkSession))
    declared = options.attributes
    if declared is not None and not isinstance(declared, Mapping):
        raise EarmarkError(f"attributes: expected a mapping such as {{'age': 'integer'}}, got {declared!r}")
    seed.declare(declared or {})
    source = source_of(frame, options.bounds, options.order_by, changes=False)
    for name in source.bounds or ():
        if name not in seed.by_name:
            seed.put(Attribute(len(seed), name, None, False, ""))
    return source, seed


def source_of(
    frame: DataFrame, bounds: Mapping[str, tuple[str, str]] | None, order_by: str | None, changes: bool
) -> RowSource:
    """Check the columns of a DataFrame of subscriptions or changes, and leave out those that do not count."""
    schema = {field.name: field.dataType for field in frame.schema.fields}
    names = list(schema)
    for name in ("id", *((OP,) if changes else ())):
        if name not in schema:
            raise SubscriptionError(f"the DataFrame has no column {name!r}; its columns are {', '.join(names)}")
    ready = bounds is not None or "condition" not in schema
    pairs = _pairs(names, bounds) if ready else None
    integer_ids = schema["id"].typeName() in ("byte", "short", "integer", "long")
    if not integer_ids and schema["id"] != StringType():
        raise SubscriptionError(f"expected strings or integers in the column 'id', got {schema['id'].simpleString()}")
    if not ready and schema["condition"] != StringType():
        type_ = schema["condition"].simpleString()
        raise SubscriptionError(f"expected strings in the column 'condition', got {type_}")
    if order_by is not None and order_by not in schema:
        raise SubscriptionError(f"the DataFrame has no column {order_by!r} to order by")
    used = {name for name in FIELDS if not (ready and name == "condition")}
    used |= {"ranges"} if ready and pairs is None else {c for pair in (pairs or {}).values() for c in pair}
    used |= {OP} if changes else set()
    selected = _selected(frame, [name for name in names if name in used], order_by, frames.id_type(integer_ids))
    return RowSource(frame.sparkSession, selected, pairs, ready, changes, integer_ids)


def _selected(frame: DataFrame, names: list[str], order_by: str | None, id_type: DataType) -> DataFrame:
    """Return these columns with the types that they must have, and the columns ORDER and TIE."""
    alike = frames.alike(frame.columns, frames.is_case_sensitive(frame.sparkSession))
    for name in (*names, *((order_by,) if order_by is not None else ())):
        if name in alike:
            same = " and ".join(map(repr, alike[name]))
            raise SubscriptionError(f"the DataFrame has two columns of one name: {same}")
    casts = {"id": id_type, "score": DoubleType(), OP: StringType()}
    types = {name: casts.get(name, frame.schema[name].dataType) for name in names}
    columns = {name: col(frames.quoted(name)) for name in names}
    columns |= {name: columns[name].cast(casts[name]) for name in names if name in casts}
    selected = [column.alias(name) for name, column in columns.items()]
    selected.append(_tie([(columns[name], types[name]) for name in names]).alias(TIE))
    if order_by is not None:
        selected.append(col(frames.quoted(order_by)).alias(ORDER))
    return frame.select(*selected)


def _pairs(names: list[str], bounds: Mapping[str, tuple[str, str]] | None) -> dict[str, tuple[str, str]] | None:
    """Return pairs of columns by attribute; None where a column `ranges` has them."""
    if bounds is None and "ranges" in names:
        return None
    if bounds is None:
        return dict(named_bounds(names))
    if not isinstance(bounds, Mapping):
        raise SubscriptionError(f"bounds: expected a mapping such as {{'age': ('min_age', 'max_age')}}, got {bounds!r}")
    for name, pair in bounds.items():
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not set(pair) <= set(names):
            raise SubscriptionError(f"bounds of {name!r}: expected a pair of the DataFrame's columns, got {pair!r}")
    return {name: (pair[0], pair[1]) for name, pair in bounds.items()}


def _tie(columns: Iterable[tuple[Column, DataType]]) -> Column:
    """Return a hash of a row. NULL leaves a hash as it was, so where there are NULLs is hashed as well."""
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


def _nulls(names: list[str], value: Column) -> Column:
    """Return which of these fields of a struct are NULL."""
    return struct(*(value[name].isNull() for name in names))


# --- parts ---------------------------------------------------------------------------------------------------


def take_rows(source: RowSource, folder: Path, seed: Schema) -> Taken:
    """Run the executors until all parts agree on the types of attributes: once, and rarely twice."""
    report = StructType([StructField("part", StringType(), False)])
    while True:
        folder.mkdir()
        plan = RowPlan(str(folder), rowparts.plan_record(seed), source.bounds, source.ready, source.changes)
        reports = source.frame.mapInArrow(partial(rowparts.build_parts, plan), report)
        names = sorted(row[0] for row in reports.collect())
        parts = [rowparts.read_part(folder / name) for name in names]
        segments, rows, rejects, facts = (list(column) for column in zip(*parts, strict=True)) if parts else ([],) * 4
        schema, settled = rowparts.agree(segments, rows, facts, seed)
        if settled:
            frames.refuse_case_variants(source.spark, schema.names)
            refused = pa.concat_tables([REJECTS.empty_table(), *rejects])
            files = [folder / name / "segment" for name in names]
            return Taken(schema, segments, rows, refused, files, source.integer_ids)
        seed = schema
        shutil.rmtree(folder)


# --- the order of insertion ----------------------------------------------------------------------------------


def in_order(rows: pa.Table) -> tuple[I64, I64]:
    """Return the first row of each id, in the order of insertion, and the rows that repeat an id. O(n log n)."""
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
    """Return which rows, in this order, are the first of their id."""
    codes = rows["id"].combine_chunks().dictionary_encode().indices.to_numpy()[order]
    first = np.zeros(len(codes), bool)
    first[np.unique(codes, return_index=True)[1]] = True
    return first


def sequences(taken: Taken) -> tuple[list[I64], pa.Table]:
    """Return the places of each part's slots in the order of insertion, each id once, and all rejects."""
    if not taken.segments:
        return [], taken.rejects
    rows = pa.concat_tables(taken.rows)
    order, repeats = in_order(rows)
    sequence = np.full(rows.num_rows, NOT_TAKEN, np.int64)
    sequence[order] = np.arange(len(order))
    borders = np.cumsum([len(segment) for segment in taken.segments])[:-1]
    rejects = pa.concat_tables([taken.rejects, rejected(rows, repeats, GIVEN_TWICE.format)])
    return np.split(sequence, borders), rejects


def ordered(taken: Taken) -> tuple[Segment, pa.Table]:
    """Return one segment of all parts, in the order of insertion, each id once, and all rejects."""
    schema = with_all_constants(taken.schema, taken.segments)
    by_part, rejects = sequences(taken)
    sequence = np.concatenate([*by_part, np.empty(0, np.int64)])
    kept = np.flatnonzero(sequence != NOT_TAKEN)
    if not len(kept):
        return no_segment(schema, taken.integer_ids), rejects
    segment = join(taken.segments, schema)
    return segment.with_sequence(sequence).pick(kept[np.argsort(sequence[kept])]), rejects


# --- rejected rows ---------------------------------------------------------------------------------------------


def rejected(rows: pa.Table, which: I64, reason: Callable[[Any], str]) -> pa.Table:
    """Return rejects for rows that were fine by themselves."""
    chosen = rows.take(pa.array(which, pa.int64()))
    ids = chosen["id"].to_pylist()
    columns = {
        "id": pa.array(list(map(str, ids)), pa.string()),
        "op": chosen["op"].cast(pa.string()),
        "condition": pa.nulls(len(ids), pa.string()),
        "reason": pa.array(list(map(reason, ids)), pa.string()),
    }
    return pa.table(columns, schema=REJECTS)


def check_on_error(on_error: str) -> None:
    """Raise for a wrong value of `on_error`."""
    if on_error not in (FAIL, REJECT):
        raise EarmarkError(f"on_error: expected {FAIL!r} or {REJECT!r}, got {on_error!r}")


def refuse(rejects: pa.Table, on_error: str, done: str) -> None:
    """Raise for rejected rows, naming the first few, unless they may be rejected; `done` is what did not happen."""
    if on_error == REJECT or not rejects.num_rows:
        return
    first = rejects.sort_by("id").slice(0, _SHOWN).to_pylist()
    reasons = [f"subscription {row['id']!r}: {row['reason']}" for row in first]
    if rejects.num_rows > _SHOWN:
        reasons.append(f"and {rejects.num_rows - _SHOWN:,} more")
    rows = counted(rejects.num_rows, "row")
    raise SubscriptionError(f"nothing was {done}, since {rows} cannot be used: " + "; ".join(reasons))
