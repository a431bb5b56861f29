"""Which subscriptions of a snapshot do the events of a DataFrame match?

    events ──select──► carried columns, attributes ──mapInArrow──► carried columns, subscription, score, version

Only the columns that are needed go to Python: those of the attributes that the snapshot has, and those that the caller
wants carried along. Each worker maps the version (book/saving.py), encodes a batch, searches, and returns Arrow
batches of a fixed schema (search.py). Nothing is kept between batches, so a stream stays stateless. With
`route="shuffle"`, each shard of a sharded snapshot has partitions of its own (shuffle.py).

**Counts.** A worker counts while it searches, and returns the counts as a row at the end of its partition, so that the
counts of a task that failed and ran again do not count twice:

    carried columns   subscription   score   snapshot_version   __counts
    ...               ad-7           1.5     3                  NULL
    NULL              NULL           NULL    NULL               [events, rejected, …, events of shard 0, its matches, …]

The matches of a shard are those it found, of which the k best of all shards are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from earmark.engine.batch import OnError, check_on_error
from earmark.engine.searcher import Mode, asked_k, asked_relaxed
from earmark.errors import EarmarkError, EventError, checked_names
from earmark.events.mappings import checked_weights
from earmark.events.moments import Moment
from earmark.segment.builder import checked_tags
from earmark.segment.combine import NAMES as COMBINATIONS
from earmark.segment.segment import NO_TAGS
from earmark.spark import frames
from earmark.spark.frames import RANK, RESULTS, Columns, EventProjection, as_nullable, struct_of
from earmark.spark.search import (
    FIRST_COUNTS,
    REJECTED,
    TALLY,
    Search,
    counted,
    match_batches,
    reject_batches,
    tally_batches,
)
from earmark.spark.shuffle import AUTO, MOST_REPLICAS, shuffled
from earmark.spark.snapshot import Folder, Snapshot

Scope = Mapping[str, str] | None
Weights = Mapping[str, float]
LOCAL, SHUFFLE = ROUTES = ("local", "shuffle")
HOW = ("inner", "left")
MOST_TALLIED = 256
"""The most tables that a stream counts one by one; Spark plans an expression for each."""
DETAIL_TYPES: dict[str, DataType] = {"condition": StringType(), "tags": MapType(StringType(), StringType())}
"""Columns of the subscriptions that may be brought along."""
_COUNTS = pa.schema({"shard": pa.int32(), "events": pa.int64(), "matches": pa.int64()})


def match(
    events: DataFrame,
    snapshot: Snapshot | Folder,
    k: int | None = None,
    *,
    mode: Mode = "exact",
    columns: Sequence[str] | None = None,
    scope: Scope = None,
    weights: Weights | str | None = None,
    combine: str = "sum",
    event: str | None = None,
    at: Moment | None = None,
    on_error: OnError = "raise",
    missing: str = "warn",
    rank: bool = False,
    how: str = "inner",
    with_columns: Sequence[str] = (),
    prefix: str = "",
    metrics: str | Observation | None = None,
    route: str = LOCAL,
    replicas: int | str = 1,
) -> DataFrame:
    """Return the subscriptions that events match: columns of the events, subscription, score, snapshot_version.

    `snapshot` is a Snapshot, or the path of a book, whose newest version is meant.

    Results are all matches in order of insertion, or the `k` best, best first; `mode` "relaxed" ranks subscriptions of
    which at least one constraint holds (it needs `k`). `columns` are the event columns to carry along (all by default;
    naming only the ids saves time). `scope` restricts the search to subscriptions with these tags; `weights` are the
    events', one mapping for all or the name of a map column; `combine` says how they make a score: "sum", "max", "min"
    or "product" (docs/ranking.md). The DataFrame may be a batch or a stream.

    An attribute is the column of its name, or by dotted name a field of a struct or a key of a map; a struct of
    exactly `lo` and `hi` is an interval. `event` names the column that holds the whole event, a map or a struct; by
    default, it is the only map with string keys if no column is an attribute.

    Subscriptions that start or end match by the time of an event: `at`, a moment for all of them; or the column that
    the book names (`time` of `publish`); or the moment of this call, which a stream does not take.

    A value that cannot be read makes the query fail (`on_error="raise"`), counts as NULL ("null"), or leaves its event
    out ("reject"); `rejected` lists such values and the reasons. Attributes that no column holds are NULL in every
    event: silently with `missing="null"`, with a warning ("warn"), or not at all ("error").

    `rank=True` adds the column `rank`, from 1. `how="left"` keeps events without a match, as a row with NULLs.
    `with_columns` brings columns of the subscriptions along: `condition`, `tags`, and those of `payload` that they were
    published with. `prefix` goes before the name of
    every column that is not the events'. `metrics` names an observation (or is one) of the counts in `COUNTS`.

    Events are searched only in the shards of the snapshot that may match them. With `route="local"` each worker
    searches its events in one shard after another; with "shuffle", for batches only, events travel to partitions that
    have a few shards each. The events of a busy shard may go to several places: `replicas` of them, or with "auto" as
    many as the load of a sample suggests.
    """
    check_route(route, replicas)
    check_how(route, how)
    snapshot = Snapshot.of(snapshot)
    shape = Shape.of(rank, how, with_columns, prefix)
    asked: Any = {"k": k, "mode": mode, "columns": columns, "scope": scope, "weights": weights, "event": event}
    asked |= {"combine": combine, "at": at, "on_error": on_error, "missing": missing, "shape": shape}
    ready = prepared(events, snapshot, **asked)
    if route == SHUFFLE:
        if metrics is not None:
            raise EarmarkError("metrics need the route 'local'")
        return shuffled(ready, snapshot.record, replicas)
    if metrics is not None:
        return tallied(ready, metrics, 0)
    return ready.run(match_batches, ready.schema)


def rejected(
    events: DataFrame,
    snapshot: Snapshot | Folder,
    *,
    columns: Sequence[str] | None = None,
    weights: Weights | str | None = None,
    event: str | None = None,
    at: Moment | None = None,
) -> DataFrame:
    """Return what `match` cannot read of the events: columns of the events, attribute, reason.

    There is a row for each value; `attribute` is NULL where it is the whole event. The arguments are those of `match`.
    """
    snapshot = Snapshot.of(snapshot)
    return rejected_of(
        prepared(
            events, snapshot, columns=columns, weights=weights, event=event, at=at, on_error="null", missing="null",
            results=REJECTED,
        )
    )  # fmt: skip


def count_matches(
    events: DataFrame,
    snapshot: Snapshot | Folder,
    *,
    scope: Scope = None,
    event: str | None = None,
    at: Moment | None = None,
    on_error: OnError = "raise",
    missing: str = "warn",
) -> DataFrame:
    """Return one row (events, rejected, matches): how large the result of `match` is, without making it."""
    snapshot = Snapshot.of(snapshot)
    asked: Any = {"scope": scope, "event": event, "at": at, "on_error": on_error, "missing": missing}
    ready = prepared(events, snapshot, columns=[], **asked)
    names = ("events", "rejected", "matches")
    counted = ready.run(size_batches, struct_of(dict.fromkeys(names, LongType())))
    return counted.agg(*(f.coalesce(f.sum(name), f.lit(0)).alias(name) for name in names))


def check_route(route: str, replicas: int | str) -> None:
    """Raise for a route that does not exist, and for a wrong number of replicas."""
    if route not in ROUTES:
        raise EarmarkError(f"route: expected {LOCAL!r} or {SHUFFLE!r}, got {route!r}")
    if replicas == AUTO:
        return
    if isinstance(replicas, bool) or not isinstance(replicas, int) or not 1 <= replicas <= MOST_REPLICAS:
        raise EarmarkError(f"replicas: expected a number from 1 to {MOST_REPLICAS:,}, or {AUTO!r}, got {replicas!r}")


def check_how(route: str, how: str) -> None:
    """Raise for rows that a route cannot give."""
    if route == SHUFFLE and how == "left":
        raise EarmarkError("how='left' needs the route 'local': with 'shuffle' only answers come back")


class Shape(NamedTuple):
    """Which columns a result has besides those of the events, and which rows."""

    rank: bool = False
    how: str = "inner"
    details: tuple[str, ...] = ()
    prefix: str = ""

    @classmethod
    def of(cls, rank: bool, how: str, with_columns: Sequence[str], prefix: str) -> Shape:
        """Return the shape that a user asks for."""
        return cls(rank, how, tuple(checked_names(with_columns, "with_columns")), prefix)

    def check(self, payload: Mapping[str, DataType]) -> None:
        """Raise for what is no shape of a result of a book with this payload."""
        if self.how not in HOW:
            raise EarmarkError(f"how: expected 'inner' or 'left', got {self.how!r}")
        if not isinstance(self.rank, bool):
            raise EarmarkError(f"rank: expected True or False, got {self.rank!r}")
        for name in self.details:
            if name not in {**DETAIL_TYPES, **payload} or self.details.count(name) > 1:
                *others, last = map(repr, [*DETAIL_TYPES, *payload])
                known = f"{', '.join(others)} and {last}"
                raise EarmarkError(f"with_columns: expected each of {known} at most once, got {list(self.details)!r}")
        results = (*RESULTS, *([RANK] if self.rank else []))
        if clashing := [name for name in self.details if name.lower() in results]:
            raise EarmarkError(
                f"with_columns: {clashing[0]!r} is also a column of the result; publish the payload under another name"
            )
        if not isinstance(self.prefix, str):
            raise EarmarkError(f"prefix: expected a string, got {self.prefix!r}")

    def types(self, integer_ids: bool, payload: Mapping[str, DataType]) -> dict[str, DataType]:
        """Return the columns of a result besides those that are carried along."""
        found = dict(zip(RESULTS, (frames.id_type(integer_ids), DoubleType(), LongType()), strict=True))
        found |= {RANK: LongType()} if self.rank else {}
        known = {**payload, **DETAIL_TYPES}
        found |= {name: known[name] for name in self.details}
        return {self.prefix + name: type_ for name, type_ in found.items()}


PLAIN = Shape()


class MatchPlan(NamedTuple):
    """A checked call of `match`: what goes to Python, and what comes back."""

    frame: DataFrame
    search: Search
    columns: Columns
    schema: StructType

    def run(self, function: Any, schema: StructType, *given: Any, frame: DataFrame | None = None) -> DataFrame:
        """Return what a function of search, columns, these arguments and the batches of a partition yields."""
        return (frame or self.frame).mapInArrow(partial(function, self.search, self.columns, *given), schema)

    @property
    def carried(self) -> list[StructField]:
        """The fields of the events that are carried along."""
        return list(self.schema.fields[: len(self.columns.carried)])


def prepared(
    events: DataFrame,
    snapshot: Snapshot,
    k: int | None = None,
    *,
    mode: Mode = "exact",
    columns: Sequence[str] | None = None,
    scope: Scope = None,
    weights: Weights | str | None = None,
    combine: str = "sum",
    event: str | None = None,
    at: Moment | None = None,
    on_error: OnError = "raise",
    missing: str = "null",
    shape: Shape = PLAIN,
    results: Sequence[str] | None = None,
    streams: bool = False,
) -> MatchPlan:
    """Check the arguments of `match`, and find the columns in the DataFrame.

    `results` are names that no carried column may have, those of the shape by default. The events are those of a
    stream, or, if it `streams`, of one of its batches.
    """
    check_on_error(on_error, None)
    shape.check(snapshot.payload)
    spark = events.sparkSession
    search = search_of(spark, snapshot, k, mode, scope, weights if not isinstance(weights, str) else None)
    projection = EventProjection(events, snapshot.schema, event, at=at, streams=streams)
    projection.reading.check_zone(frames.session_zone(spark), snapshot.schema)
    projection.reading.check_missing(snapshot.schema, missing, snapshot.used, events.columns)
    if isinstance(weights, str):
        projection.take_weights(weights)
    types = shape.types(snapshot.integer_ids, snapshot.payload)
    carried = projection.carry(columns, [name.lower() for name in results or types])
    schema = StructType([as_nullable(field) for field, _ in carried] + struct_of(types).fields)
    made = projection.columns(carried, list(types))
    made = made._replace(rank=shape.rank, details=shape.details, left=shape.how == "left")
    search = search._replace(on_error=on_error, combine=_checked_combine(combine))
    return MatchPlan(projection.selected(), search, made, schema)


def _checked_combine(combine: Any) -> str:
    """The name of a way to combine weights; a function is refused, since every task would compile it again."""
    if not isinstance(combine, str) or combine not in COMBINATIONS:
        known = ", ".join(map(repr, COMBINATIONS))
        raise EarmarkError(f"combine: expected one of {known} on Spark, got {combine!r}")
    return combine


def search_of(
    spark: SparkSession, snapshot: Snapshot, k: int | None, mode: Mode, scope: Scope, weights: Weights | None
) -> Search:
    """Check the arguments of a search, and whether the session can tell the attributes apart."""
    search = checked_search(snapshot, k, mode, scope, weights)
    frames.refuse_case_variants(spark, snapshot.schema.names)
    return search


def checked_search(snapshot: Snapshot, k: int | None, mode: Mode, scope: Scope, weights: Weights | None) -> Search:
    """Check the arguments of a search."""
    relaxed = asked_relaxed(mode)
    if k is not None:
        k = asked_k(k)
    elif relaxed:
        raise EarmarkError("mode 'relaxed' ranks, so it needs k, the number of results per event")
    tags = checked_tags(scope, "a scope") if scope is not None else NO_TAGS
    checked = checked_weights(weights, EventError) if weights is not None else None
    return Search(str(snapshot.path), snapshot.version, snapshot.record["checksum"], k, relaxed, tags, checked)


def rejected_of(ready: MatchPlan) -> DataFrame:
    """Return what cannot be read of the events: the columns that are carried along, attribute, reason."""
    schema = StructType([*ready.carried, *struct_of(dict.fromkeys(REJECTED, StringType())).fields])
    return ready.run(reject_batches, schema)


# --- counts --------------------------------------------------------------------------------------------------

COUNTS = (*FIRST_COUNTS, "matches")
"""What `metrics` counts: events read; `rejected`, those of which something could not be read; `searched`, events times
the shards that each was searched in; `candidates`, the answers of all shards, of which the k best are kept; and
matches, the rows of the result that name a subscription."""


def tables_of(snapshot: Snapshot) -> int:
    """Return how many segments are searched: the shards, and what changed since the last full version."""
    return max(snapshot.segments, 1)


def shard_counts(
    events: DataFrame,
    snapshot: Snapshot | Folder,
    k: int | None = None,
    *,
    mode: Mode = "exact",
    scope: Scope = None,
    event: str | None = None,
    at: Moment | None = None,
    on_error: OnError = "raise",
) -> DataFrame:
    """Return (shard, events, matches): how many events are searched in each shard, and how many matches it finds.

    If the snapshot has changed since its last full version, the last shard is the table of those changes, in which all
    events are searched. Shards in which no event is searched are not listed.
    """
    asked: Any = {"mode": mode, "scope": scope, "event": event, "at": at, "on_error": on_error}
    ready = prepared(events, Snapshot.of(snapshot), k, columns=[], **asked)
    counted = ready.run(count_batches, struct_of({"shard": IntegerType(), "events": LongType(), "matches": LongType()}))
    sums = [f.sum(name).alias(name) for name in ("events", "matches")]
    return counted.groupBy("shard").agg(*sums).orderBy("shard")


def tallied_tables(snapshot: Snapshot) -> int:
    """Return how many tables a stream counts one by one; 0 where there are no shards, or too many."""
    tables = tables_of(snapshot)
    return tables if snapshot.record["router"] is not None and tables <= MOST_TALLIED else 0


def tallied(ready: MatchPlan, noted: Observation | str, tables: int) -> DataFrame:
    """Return the matches; `noted` gets COUNTS, and two sums for each of the tables that are counted (`counts_of`)."""
    made = ready.run(tally_batches, StructType([*ready.schema.fields]).add(TALLY, ArrayType(LongType())), tables > 0)

    def total(at: int, name: str) -> Column:
        return f.coalesce(f.sum(f.get(TALLY, f.lit(at))), f.lit(0)).alias(name)

    first = len(FIRST_COUNTS)
    sums = [total(at, name) for at, name in enumerate(FIRST_COUNTS)]
    sums.append(f.count(frames.quoted(ready.columns.names[len(ready.columns.carried)])).alias("matches"))
    sums += [total(first + i, f"n{i}") for i in range(2 * tables)]
    return made.observe(noted, *sums).where(f.col(TALLY).isNull()).drop(TALLY)


def counts_of(found: Mapping[str, Any]) -> list[list[int]]:
    """Return pairs of events and matches by table, from the sums of `tallied`."""
    values = [int(found[f"n{i}"]) for i in range(len(found) - len(COUNTS))]
    return [list(pair) for pair in zip(values[::2], values[1::2], strict=True)]


# --- on the workers ------------------------------------------------------------------------------------------


def count_batches(search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the counts of a partition, one row per table."""
    tables = counted(search, columns, batches).tables
    met = np.flatnonzero(tables[:, 0])
    yield pa.RecordBatch.from_arrays([pa.array(met, pa.int32()), *map(pa.array, tables[met].T)], schema=_COUNTS)


def size_batches(search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield how many events, rejected events and matches a partition has."""
    events, unread, matches, _ = counted(search, columns, batches)
    yield pa.record_batch({"events": [events], "rejected": [unread], "matches": [matches]})
