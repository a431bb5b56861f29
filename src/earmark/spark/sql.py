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
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DoubleType

from earmark.engine.batch import OnError, check_on_error
from earmark.engine.searcher import Mode
from earmark.errors import EarmarkError, EventError
from earmark.events.moments import Moment, check_moment
from earmark.keys.schema import LIFE, Schema
from earmark.spark import frames
from earmark.spark.matching import search_of
from earmark.spark.older import Asked, older_function
from earmark.spark.search import Search, searched
from earmark.spark.snapshot import Folder, Snapshot

DEFAULT_K = 10
EVENT = "event"


def register(
    spark: SparkSession,
    snapshot: Snapshot | Folder,
    name: str = "top_matches",
    *,
    mode: Mode = "exact",
    scope: Mapping[str, str] | None = None,
    weights: Mapping[str, float] | None = None,
    events: DataFrame | None = None,
    at: Moment | None = None,
    on_error: OnError = "raise",
    missing: str = "warn",
) -> Any:
    """Make `name(event, k)` a SQL function of this session: the k best as array<struct<subscription, score>>.

        SELECT e.*, m.* FROM events e, LATERAL (SELECT inline(top_matches(struct(e.*), 5))) m

    `snapshot` is a Snapshot, or the path of a book, whose newest version is meant. The first argument is a struct or a
    map, read as `match` reads a row; `k` is 10 by default. All answers of an Arrow batch are returned at once, so keep
    `k` in the hundreds. `mode`, `scope`, `weights`, `at` and `on_error` are those of `match`; without `at`, events of a
    book that does not say where their time is happen when they are searched. With `events`, a DataFrame, its types and
    collations are checked now, and `missing` says what to do about attributes that it lacks. Returns the function, for
    the DataFrame API.
    """
    asked: Any = {"mode": mode, "scope": scope, "weights": weights, "at": at, "on_error": on_error, "missing": missing}
    function = matching_function(spark, snapshot, events=events, **asked)
    return spark.udf.register(name, function)


def matching_function(
    spark: SparkSession,
    snapshot: Snapshot | Folder,
    *,
    mode: Mode = "exact",
    scope: Mapping[str, str] | None = None,
    weights: Mapping[str, float] | None = None,
    events: DataFrame | None = None,
    at: Moment | None = None,
    on_error: OnError = "raise",
    missing: str = "warn",
) -> Any:
    """Return the function that `register` registers, for declarative pipelines, which may not register one."""
    snapshot = Snapshot.of(snapshot)
    check_on_error(on_error, None)
    search = search_of(spark, snapshot, DEFAULT_K, mode, scope, weights)._replace(on_error=on_error)
    schema, zone, asked = snapshot.schema, frames.session_zone(spark), Asked(frames.is_case_sensitive(spark), at)
    if at is not None:
        check_moment(schema, at)
    if events is not None:
        fields = {field.name: field.dataType for field in events.schema.fields}
        reading = frames.reading_of(fields, schema, asked.sensitive, frames.spark_nesting, at=at)
        reading.check_zone(zone, schema)
        reading.check_missing(schema, missing, snapshot.used, fields)
    else:
        is_told = at is None and schema.time is not None
        frames.check_zone(zone, schema, [name for name in schema.names if name != LIFE or is_told])
    result = frames.struct_of({"subscription": frames.id_type(snapshot.integer_ids), "score": DoubleType()})
    if not hasattr(f, "arrow_udf"):
        return older_function(search, asked, schema, events, ArrayType(result))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about type hints, which cannot say "one argument or two"
        kind = f.ArrowUDFType.SCALAR  # type: ignore[attr-defined]
        return f.arrow_udf(lambda event, *k: best(search, asked, event, *k), ArrayType(result), kind)


# --- on the workers ------------------------------------------------------------------------------------------


def best(search: Search, asked: Asked, event: pa.Array, k: pa.Array | None = None) -> pa.Array:
    """Return the k best for each row, as a list of structs."""
    wanted = _wanted(k, len(event))
    if len(wanted):
        search = search._replace(k=int(wanted.max()))
    version = search.opened()
    counts = np.zeros(len(event), np.int64)
    ids = [pa.array([], frames.arrow_id_type(version.id_type is int))]
    scores: list[Any] = [np.empty(0)]
    batch, columns = _batch_of(version.schema, asked, event)
    for part in searched(search, columns, iter([batch])):
        counts[part.rows.column(columns.carried[0]).to_numpy()] = np.diff(part.answers.starts)
        ids.append(part.answers.subscriptions.cast(ids[0].type))
        scores.append(part.answers.scores)
    made = [pa.concat_arrays(ids), pa.array(np.concatenate(scores))]
    if len(wanted) and (wanted != search.k).any():
        starts = np.cumsum(counts) - counts
        keep = np.flatnonzero(np.arange(counts.sum()) - np.repeat(starts, counts) < np.repeat(wanted, counts))
        counts = np.minimum(counts, wanted)
        made = [column.take(pa.array(keep)) for column in made]
    structs = pa.StructArray.from_arrays(made, ["subscription", "score"])
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)), structs)


def _wanted(k: pa.Array | None, rows: int) -> Any:
    """Return how many results each row wants; empty for the default."""
    if k is None or not rows:
        return np.empty(0, np.int64)
    if not pa.types.is_integer(k.type) or k.null_count or int(pc.min(k).as_py()) < 1:
        raise EarmarkError("k: expected a number of results, 1 or more, and not NULL")
    return k.cast(pa.int64()).to_numpy()


def _batch_of(schema: Schema, asked: Asked, event: pa.Array) -> tuple[pa.RecordBatch, frames.Columns]:
    """Return the events as a batch to search, with the numbers of their rows."""
    inside = frames.arrow_nesting(event.type)
    if inside.fields is None and not inside.string_map:
        raise EventError(f"expected an event as a struct or a map, such as struct(e.*), got {event.type}")
    reading = frames.reading_of(
        {EVENT: event.type}, schema, asked.sensitive, frames.arrow_nesting, event=EVENT, at=asked.at, called="the event"
    )
    rows = pa.array(np.arange(len(event)))
    batch, columns = frames.batch_of(reading, {EVENT: event}, len(event), {"row": rows})
    return batch, columns._replace(is_numbered=True)
