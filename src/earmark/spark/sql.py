"""Matching as a SQL function: the k best for each row, as an array that `inline` turns into rows.

    SELECT e.*, m.* FROM events e, LATERAL (SELECT inline(top_matches(struct(e.*), 5))) m

(`LATERAL inline(top_matches(struct(e.*), 5))` without the SELECT would be shorter, but Spark 4.3 does not expand a star
there; with the columns named, or a struct column, it works.)

The function gets Arrow arrays, one batch at a time, and finds the attributes among the fields of the struct by their
names (frames.py). It also works where a DataFrame method does not, such as inside a declarative pipeline.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DoubleType

from earmark.engine.batch import Batch
from earmark.engine.searcher import Mode
from earmark.errors import EarmarkError, EventError
from earmark.events.arrays import EventArrays
from earmark.events.frames import Weights, encode_columns, encode_map
from earmark.keys.schema import LIFE, Schema
from earmark.spark import frames
from earmark.spark.matching import search_of
from earmark.spark.older import older_function
from earmark.spark.search import Search
from earmark.spark.snapshot import Snapshot
from earmark.spark.types import check_type

DEFAULT_K = 10


def register(
    spark: SparkSession,
    snapshot: Snapshot,
    name: str = "top_matches",
    *,
    mode: Mode = "exact",
    scope: Mapping[str, str] | None = None,
    weights: Mapping[str, float] | None = None,
    events: DataFrame | None = None,
) -> Any:
    """Make `name(event, k)` a SQL function of this session: the k best as array<struct<subscription, score>>.

        SELECT e.*, m.* FROM events e, LATERAL (SELECT inline(top_matches(struct(e.*), 5))) m

    The first argument is a struct or a map, read as `match` reads a row; `k` is 10 by default. With `events`, a
    DataFrame, strings that Spark would not compare by their bytes are refused now. Returns the function, for the
    DataFrame API.
    """
    function = matching_function(spark, snapshot, mode=mode, scope=scope, weights=weights, events=events)
    return spark.udf.register(name, function)


def matching_function(
    spark: SparkSession,
    snapshot: Snapshot,
    *,
    mode: Mode = "exact",
    scope: Mapping[str, str] | None = None,
    weights: Mapping[str, float] | None = None,
    events: DataFrame | None = None,
) -> Any:
    """Return the function that `register` registers, for declarative pipelines, which may not register one."""
    search = search_of(spark, snapshot, DEFAULT_K, mode, scope, weights)
    sensitive = frames.is_case_sensitive(spark)
    used = snapshot.schema.names
    if events is not None:
        fields = [(field.name, field.dataType) for field in events.schema.fields]
        names = [name for name in snapshot.schema.names if name != LIFE]
        found = frames.locations(fields, names, sensitive, frames.spark_nesting)
        for location in found:
            check_type(snapshot.schema.by_name[location.attribute], location.type)
        used = [location.attribute for location in found]
    frames.check_zone(frames.session_zone(spark), snapshot.schema, used)
    result = frames.struct_of({"subscription": frames.id_type(snapshot.integer_ids), "score": DoubleType()})
    if not hasattr(f, "arrow_udf"):
        return older_function(search, sensitive, snapshot.schema, events, ArrayType(result))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about type hints, which cannot say "one argument or two"
        kind = f.ArrowUDFType.SCALAR  # type: ignore[attr-defined]
        return f.arrow_udf(lambda event, *k: best(search, sensitive, event, *k), ArrayType(result), kind)


# --- on the workers ------------------------------------------------------------------------------------------


def best(search: Search, sensitive: bool, event: pa.Array, k: pa.Array | None = None) -> pa.Array:
    """Return the k best for each row, as a list of structs."""
    version = search.opened()
    wanted = _wanted(k, len(event))
    if len(wanted):
        search = search._replace(k=int(wanted.max()))
    batch = Batch(_encoded(version.schema, search.weights, sensitive, event), {}, None)
    answers = search.searcher(version).answers(batch)
    starts, counts = answers.starts, np.diff(answers.starts)
    columns = [answers.subscriptions, pa.array(answers.scores)]
    if len(wanted) and (wanted != search.k).any():
        rank = np.arange(len(answers.scores)) - np.repeat(starts[:-1], counts)
        keep = pa.array(np.flatnonzero(rank < np.repeat(wanted, counts)))
        starts = np.concatenate([[0], np.cumsum(np.minimum(counts, wanted))])
        columns = [column.take(keep) for column in columns]
    structs = pa.StructArray.from_arrays(columns, ["subscription", "score"])
    return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), structs)


def _wanted(k: pa.Array | None, rows: int) -> Any:
    """Return how many results each row wants; empty for the default."""
    if k is None or not rows:
        return np.empty(0, np.int64)
    if not pa.types.is_integer(k.type) or k.null_count or int(pc.min(k).as_py()) < 1:
        raise EarmarkError("k: expected a number of results, 1 or more, and not NULL")
    return k.cast(pa.int64()).to_numpy()


def _encoded(schema: Schema, weights: Weights | None, sensitive: bool, event: pa.Array) -> EventArrays:
    inside, names = frames.arrow_nesting(event.type), [name for name in schema.names if name != LIFE]
    moments = _moments(schema, sensitive, event, inside)
    if inside.string_map:
        return encode_map(schema, event, {name: name for name in names}, weights, more=moments)
    if inside.fields is None:
        raise EventError(f"expected an event as a struct or a map, such as struct(e.*), got {event.type}")
    found = frames.locations(inside.fields, names, sensitive, frames.arrow_nesting)
    if not found and names:
        raise EventError(f"no field of the event is an attribute of the snapshot, such as {names[0]!r}")
    columns = [(here.attribute, _field(event, here)) for here in found]
    return encode_columns(schema, [*columns, *moments], len(event), weights)


def _moments(schema: Schema, sensitive: bool, event: pa.Array, inside: frames.Nesting) -> list[tuple[str, pa.Array]]:
    """Return the times of the events, if there are life spans: those of the book's attribute, or now."""
    if LIFE not in schema.by_name:
        return []
    if schema.time is None:
        return [(LIFE, pa.repeat(pa.scalar(datetime.now(UTC)), len(event)))]
    if inside.string_map:
        return [(LIFE, pc.map_lookup(event, schema.time, "first"))]
    found = frames.locations(inside.fields or (), [schema.time], sensitive, frames.arrow_nesting)
    return [(LIFE, _field(event, here)) for here in found]


def _field(event: pa.StructArray, location: frames.Location) -> pa.Array:
    column: pa.Array = event
    for name in location.path:
        index = [field.name for field in column.type].index(name)
        column = pc.struct_field(column, [index])
    return column if location.key is None else pc.map_lookup(column, location.key, "first")
