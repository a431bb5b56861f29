"""How do DataFrames of subscriptions and of changes become versions?

    DataFrame ──mapInArrow──► parts (parts.py, on the executors) ──► agree, join (merge.py, on the driver)
              ──► the order of insertion ──► table and index (contents.py), or shards (shards.py)
              ──► commit (versions.py)

The executors parse, validate and encode, which is nearly all of the work; the driver handles whole columns. The order
of insertion is that of the column `order_by`, then of `id`: whatever the partitioning, the same rows give the same
version. Of two rows with one id the first in that order counts and the other is rejected.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from earmark import index as indexes
from earmark.errors import EarmarkError, SubscriptionError
from earmark.model.arrays import I64
from earmark.model.attribute import Attribute, Schema
from earmark.model.columns import _named_bounds
from earmark.model.stored import Stored
from earmark.spark import contents, frames
from earmark.spark.merge import Part, agree, join, pick, read_part, take_constants
from earmark.spark.parts import FIELDS, GIVEN_TWICE, OP, ORDER, REJECTS, Plan, build_parts, plan_record
from earmark.spark.shards import NOT_TAKEN, Table, checked_shards, write_sharded
from earmark.spark.versions import Building, building, newest_or_none

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FAIL, REJECT = "fail", "reject"
_SHOWN = 3


class Source(NamedTuple):
    """A DataFrame of subscriptions, checked, with only the columns that count."""

    frame: DataFrame
    bounds: dict[str, tuple[str, str]] | None
    ready: bool
    changes: bool
    integer_ids: bool


class Taken(NamedTuple):
    """What the executors made of a DataFrame."""

    schema: Schema
    parts: list[Part]
    rejects: pa.Table
    folders: list[Path]
    """Where the tables of the parts lie."""


def publish(
    subscriptions: DataFrame,
    root: Path,
    index: str,
    attributes: Mapping[str, str] | None,
    zone: str,
    bounds: Mapping[str, tuple[str, str]] | None,
    order_by: str | None,
    on_error: str,
    shards: int = 1,
    done: str = "published",
) -> dict[str, Any]:
    """A full version; returns its record. `done` is what did not happen on an error."""
    indexes.builder(index)
    checked_shards(shards)
    check_on_error(on_error)
    seed = Schema(zone)
    if attributes is not None and not isinstance(attributes, Mapping):
        raise EarmarkError(f"attributes map names to types, such as {{'age': 'integer'}}; got {attributes!r}")
    seed.declare(attributes or {})
    source = source_of(subscriptions, bounds, order_by, changes=False)
    for name in source.bounds or ():
        if name not in seed.by_name:
            seed.put(Attribute(len(seed), name, None, False, ""))
    with building(root, newest_or_none(root)) as site:
        taken = take_rows(source, site.folder / "parts", seed)
        frames.refuse_case_variants(subscriptions.sparkSession, taken.schema.names)
        if shards > 1:
            tables, rejects = _tables(taken)
            refuse(rejects, on_error, done)
            count = sum(table.taken for table in tables)
            session = subscriptions.sparkSession
            told = write_sharded(site.folder, tables, taken.schema, shards, index, count, source.integer_ids, session)
            return commit(site, told, rejects)
        stored, rejects = _ordered(taken)
        refuse(rejects, on_error, done)
        if not stored.slots and source.integer_ids:
            stored = stored._replace(ids=np.empty(0, np.int64))
        return commit(site, contents.write_full(site.folder, stored, index), rejects)


def source_of(
    frame: DataFrame, bounds: Mapping[str, tuple[str, str]] | None, order_by: str | None, changes: bool
) -> Source:
    """Check the columns of a DataFrame of subscriptions or changes, and leave out those that do not count."""
    from pyspark.sql.functions import col
    from pyspark.sql.types import DoubleType, LongType, StringType

    schema = {field.name: field.dataType for field in frame.schema.fields}
    names = list(schema)
    if len(names) < len(frame.schema.fields):
        raise SubscriptionError(f"the DataFrame has two columns of one name: {', '.join(frame.columns)}")
    for name in ("id", *((OP,) if changes else ())):
        if name not in schema:
            raise SubscriptionError(f"the DataFrame has no column {name!r}; its columns are {', '.join(names)}")
    ready = bounds is not None or "condition" not in schema
    own = _own_bounds(names, bounds) if ready else None
    used = {"ranges"} if ready and own is None else {c for pair in (own or {}).values() for c in pair}
    integer_ids = schema["id"].typeName() in ("byte", "short", "integer", "long")
    if not integer_ids and schema["id"] != StringType():
        raise SubscriptionError(f"ids are texts or integers; the column 'id' is {schema['id'].simpleString()}")
    casts = {"id": LongType() if integer_ids else StringType(), "score": DoubleType(), OP: StringType()}
    if not ready and schema["condition"] != StringType():
        raise SubscriptionError(f"conditions are texts; the column 'condition' is {schema['condition'].simpleString()}")
    columns = []
    for name in names:
        if name in used or (name in FIELDS and not (ready and name == "condition")) or (changes and name == OP):
            column = col(frames.quoted(name))
            columns.append(column.cast(casts[name]).alias(name) if name in casts else column)
    if order_by is not None:
        if order_by not in schema:
            raise SubscriptionError(f"the DataFrame has no column {order_by!r} to order by")
        columns.append(col(frames.quoted(order_by)).alias(ORDER))
    return Source(frame.select(*columns), own, ready, changes, integer_ids)


def _own_bounds(names: list[str], bounds: Mapping[str, tuple[str, str]] | None) -> dict[str, tuple[str, str]] | None:
    """Pairs of columns by attribute; None where a column `ranges` has them."""
    if bounds is None and "ranges" in names:
        return None
    if bounds is None:
        return dict(_named_bounds(pa.table({name: pa.nulls(0) for name in names})))
    if not isinstance(bounds, Mapping):
        raise SubscriptionError("bounds map attributes to pairs of columns: {'age': ('min_age', 'max_age')}")
    for name, pair in bounds.items():
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not set(pair) <= set(names):
            raise SubscriptionError(f"the bounds of {name!r} are a pair of the DataFrame's columns; got {pair!r}")
    return {name: (pair[0], pair[1]) for name, pair in bounds.items()}


def take_rows(source: Source, folder: Path, seed: Schema) -> Taken:
    """Run the executors until all parts agree on the types of attributes: once, and rarely twice."""
    from pyspark.sql.types import StringType, StructField, StructType

    report = StructType([StructField("part", StringType(), False)])
    while True:
        folder.mkdir()
        plan = Plan(str(folder), plan_record(seed), source.bounds, source.ready, source.changes)
        made = source.frame.mapInArrow(_builder(plan), report)
        names = sorted(row[0] for row in made.collect())
        parts = [read_part(folder / name) for name in names]
        agreed = agree(parts, seed, source.ready)
        if agreed.settled:
            rejects = pa.concat_tables([REJECTS.empty_table(), *(part.rejects for part in parts)])
            return Taken(agreed.schema, parts, rejects, [folder / name / "table" for name in names])
        seed = agreed.schema
        shutil.rmtree(folder)


def _builder(plan: Plan) -> Any:
    return lambda batches: build_parts(plan, batches)


def in_order(rows: pa.Table) -> I64:
    """The rows in the order of insertion."""
    keys = ["order", "id"] if rows["order"].null_count < rows.num_rows else ["id"]
    order: I64 = pc.sort_indices(rows, [(key, "ascending") for key in keys]).to_numpy().astype(np.int64)
    return order


def without_repeats(rows: pa.Table, order: I64) -> tuple[I64, I64]:
    """Of each id the first row, in the order given; and the others."""
    codes = rows["id"].combine_chunks().dictionary_encode().indices.to_numpy()[order]
    first = np.zeros(len(codes), bool)
    first[np.unique(codes, return_index=True)[1]] = True
    return order[first], order[~first]


def _sequences(taken: Taken) -> tuple[list[I64], pa.Table]:
    """For the slots of each part their places in the order of insertion, each id once; and all rejects."""
    if not taken.parts:
        return [], taken.rejects
    rows = pa.concat_tables([part.rows for part in taken.parts])
    order, repeats = without_repeats(rows, in_order(rows))
    sequence = np.full(rows.num_rows, NOT_TAKEN, np.int64)
    sequence[order] = np.arange(len(order))
    borders = np.cumsum([part.stored.slots for part in taken.parts])[:-1]
    return np.split(sequence, borders), pa.concat_tables([taken.rejects, _repeated(rows, repeats)])


def _tables(taken: Taken) -> tuple[list[Table], pa.Table]:
    """The parts as they are, with the order of insertion; and all rejects."""
    take_constants(taken.schema, (part.stored for part in taken.parts))
    sequences, rejects = _sequences(taken)
    parts = zip(taken.folders, taken.parts, sequences, strict=True)
    return [Table(folder, part.stored, sequence) for folder, part, sequence in parts], rejects


def _ordered(taken: Taken) -> tuple[Stored, pa.Table]:
    """One table of all parts, in the order of insertion, each id once; and all rejects."""
    take_constants(taken.schema, (part.stored for part in taken.parts))
    sequences, rejects = _sequences(taken)
    stored = join([part.stored for part in taken.parts], taken.schema)
    sequence = np.concatenate([*sequences, np.empty(0, np.int64)])
    kept = np.flatnonzero(sequence != NOT_TAKEN)
    order = kept[np.argsort(sequence[kept])]
    arrays = stored.arrays._replace(sequence=sequence)
    return pick(stored._replace(arrays=arrays), order)._replace(next_sequence=len(order)), rejects


def _repeated(rows: pa.Table, which: I64) -> pa.Table:
    return rejected(rows, which, GIVEN_TWICE.format)


def rejected(rows: pa.Table, which: I64, reason: Any) -> pa.Table:
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
    if on_error not in (FAIL, REJECT):
        raise EarmarkError(f"on_error is {FAIL!r} or {REJECT!r}; got {on_error!r}")


def refuse(rejects: pa.Table, on_error: str, done: str) -> None:
    """With `fail`, a row that cannot be taken is an error that names the first few."""
    if on_error == REJECT or not rejects.num_rows:
        return
    first = rejects.sort_by("id").slice(0, _SHOWN).to_pylist()
    told = [f"subscription {row['id']!r}: {row['reason']}" for row in first]
    if rejects.num_rows > _SHOWN:
        told.append(f"and {rejects.num_rows - _SHOWN:,} more")
    raise SubscriptionError(f"nothing was {done}, since {rejects.num_rows:,} rows cannot be taken: " + "; ".join(told))


def commit(site: Building, record: Mapping[str, Any], rejects: pa.Table) -> dict[str, Any]:
    shutil.rmtree(site.folder / "parts", ignore_errors=True)
    (site.folder / "rejects").mkdir()
    pq.write_table(rejects.sort_by("id"), site.folder / "rejects" / "part-00000.parquet")
    return site.commit({**record, "rejected": rejects.num_rows})
