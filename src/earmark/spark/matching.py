"""Which subscriptions of a snapshot do the events of a DataFrame match?

    events ──select──► carried columns, attributes ──mapInArrow──► carried columns, subscription, score, version

Only the columns that are needed go to Python: those of the attributes that the snapshot has, and those that the caller
wants carried along. Each worker maps the version (book/saving.py), encodes a batch, searches, and returns Arrow
batches of a fixed schema. Nothing is kept between batches, so a stream stays stateless.

With `route="shuffle"`, each shard of a sharded snapshot has partitions of its own:

    events ──route──► (event, place) ──repartition by place──► search one shard ──repartition by event──► the k best

A place is a partition that has one shard. A busy shard may have several places, its replicas, which share its events
by number; an event goes to one place of each shard that it must be searched in, so replicas do not change the answers.
Workers then hold the pages of few shards, at the price of two shuffles: this pays when the shards outgrow the memory of
a host, not just that of a worker.

Events are numbered where they are read (`monotonically_increasing_id`), and answers are joined by these numbers. So the
input must have the same rows in the same partitions and order when a task runs again after a failure, as files and
tables do. An input that does not (`rand()`, a limit without an order, rows from a shuffle that arrive in another order)
must be written or checkpointed first, or take the local route, which needs no numbers.

Which shards are busy? A worker counts while it searches, and returns the counts as a row at the end of its partition,
so that the counts of a task that failed and ran again do not count twice:

    carried columns   subscription   score   snapshot_version   __shards
    ...               ad-7           1.5     3                  NULL
    NULL              NULL           NULL    NULL               [events of shard 0, its matches, events of 1, ...]

The matches of a shard are those it found, of which the k best of all shards are kept.

Invariant: (event, sequence) is unique among what is merged; the order is by score, then sequence, as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DoubleType, IntegerType, LongType, StructType

from earmark.book.saving import opened
from earmark.engine.batch import Batch
from earmark.engine.searcher import Answers, Ask, Mode, Searcher, asked_k, asked_relaxed
from earmark.engine.version import Version
from earmark.errors import EarmarkError, EventError, TooManyAnswers
from earmark.events.mappings import checked_weights
from earmark.flat.arrays import I64
from earmark.segment.builder import checked_tags
from earmark.segment.segment import NO_TAGS, Tags
from earmark.spark import frames
from earmark.spark.frames import RESULTS, Columns, EventProjection, arrow_id_type, column_names, encoded, struct_of
from earmark.spark.snapshot import Snapshot

FIRST_STEP, LAST_STEP = 2_048, 65_536  # events per search
WANTED_ANSWERS = 1 << 20  # per search
OUTPUT_ROWS = 1 << 16  # per batch returned
Scope = Mapping[str, str] | None
Weights = Mapping[str, float]
LOCAL, SHUFFLE = ROUTES = ("local", "shuffle")
AUTO = "auto"
MOST_REPLICAS = 1_000
EVENT, PLACE, SEQUENCE, RANK, EVENTS = "event", "place", "sequence", "rank", "events"
TALLY = "__shards"
MOST_TALLIED = 256
"""The most tables that a stream counts; Spark plans an expression for each."""
_TALLY_TYPE = pa.list_(pa.int64())
_COUNTS = pa.schema({"shard": pa.int32(), "events": pa.int64(), "matches": pa.int64()})


class Search(NamedTuple):
    """What to search and how: sent to the workers, and the same for DataFrames and SQL."""

    root: str
    version: int
    checksum: str
    """Of the version's record, since a folder may have been deleted and published again."""
    k: int | None
    relaxed: bool
    scope: Tags
    weights: dict[str, float] | None

    def opened(self) -> Version:
        """Open the version in this process, once."""
        return opened(self.root, self.version, self.checksum)

    def encoded(self, version: Version, columns: Columns, batch: pa.RecordBatch) -> Batch:
        """Return the events of a batch as keys."""
        return Batch(encoded(version.schema, columns, batch, self.weights), {}, None)

    def searcher(self, version: Version) -> Searcher:
        """Return a searcher of the version."""
        return Searcher(version, Ask(self.k, self.relaxed, self.scope))


def match(
    events: DataFrame,
    snapshot: Snapshot,
    k: int | None = None,
    *,
    mode: Mode = "exact",
    columns: Sequence[str] | None = None,
    scope: Scope = None,
    weights: Weights | str | None = None,
    event: str | None = None,
    route: str = LOCAL,
    replicas: int | str = 1,
) -> DataFrame:
    """Return the subscriptions that events match: columns of the events, subscription, score, snapshot_version.

    Results are all matches in order of insertion, or the `k` best, best first; `mode` "relaxed" ranks subscriptions of
    which at least one constraint holds (it needs `k`). `columns` are the event columns to carry along (all by default;
    naming only the ids saves time). `scope` restricts the search to subscriptions with these tags; `weights` are the
    events', one mapping for all or the name of a map column. The DataFrame may be a batch or a stream.

    An attribute is the column of its name, or by dotted name a field of a struct or a key of a map; a struct of
    exactly `lo` and `hi` is an interval. `event` names the column that holds the whole event, a map or a struct; by
    default, it is the only map with string keys if no column is an attribute.

    Events are searched only in the shards of the snapshot that may match them. With `route="local"` each worker
    searches its events in one shard after another; with "shuffle", for batches only, events travel to partitions that
    have one shard each. A busy shard may have several partitions: `replicas` of them, or with "auto" as many as a count
    of the events suggests.
    """
    check_route(route, replicas)
    ready = prepared(events, snapshot, k, mode=mode, columns=columns, scope=scope, weights=weights, event=event)
    if route == SHUFFLE:
        return shuffled(ready, snapshot, replicas)
    return ready.run(match_batches, ready.schema)


def check_route(route: str, replicas: int | str) -> None:
    """Raise for a route that does not exist, and for a wrong number of replicas."""
    if route not in ROUTES:
        raise EarmarkError(f"route: expected {LOCAL!r} or {SHUFFLE!r}, got {route!r}")
    if replicas == AUTO:
        return
    if isinstance(replicas, bool) or not isinstance(replicas, int) or not 1 <= replicas <= MOST_REPLICAS:
        raise EarmarkError(f"replicas: expected a number from 1 to {MOST_REPLICAS:,}, or {AUTO!r}, got {replicas!r}")


class MatchPlan(NamedTuple):
    """A checked call of `match`: what goes to Python, and what comes back."""

    frame: DataFrame
    search: Search
    columns: Columns
    schema: StructType

    def run(self, function: Any, schema: StructType, *given: Any, frame: DataFrame | None = None) -> DataFrame:
        """Return what a function of search, columns, these arguments and the batches of a partition yields."""
        return (frame or self.frame).mapInArrow(partial(function, self.search, self.columns, *given), schema)


def prepared(
    events: DataFrame,
    snapshot: Snapshot,
    k: int | None = None,
    *,
    mode: Mode = "exact",
    columns: Sequence[str] | None = None,
    scope: Scope = None,
    weights: Weights | str | None = None,
    event: str | None = None,
) -> MatchPlan:
    """Check the arguments of `match`, and find the columns in the DataFrame."""
    spark = events.sparkSession
    search = search_of(spark, snapshot, k, mode, scope, weights if not isinstance(weights, str) else None)
    projection = EventProjection(events, snapshot.schema, event)
    if isinstance(weights, str):
        projection.take_weights(weights)
    carried = projection.carry(columns)
    results = zip(RESULTS, (frames.id_type(snapshot.integer_ids), DoubleType(), LongType()), strict=True)
    schema = struct_of({**{field.name: field.dataType for field, _ in carried}, **dict(results)})
    return MatchPlan(projection.selected(), search, projection.columns(carried), schema)


def search_of(
    spark: SparkSession, snapshot: Snapshot, k: int | None, mode: Mode, scope: Scope, weights: Weights | None
) -> Search:
    """Check the arguments of a search, and whether the session reads events as the snapshot does."""
    relaxed = asked_relaxed(mode)
    if k is not None:
        k = asked_k(k)
    elif relaxed:
        raise EarmarkError("mode 'relaxed' ranks, so it needs k, the number of results per event")
    frames.refuse_case_variants(spark, snapshot.schema.names)
    frames.check_zone(spark, snapshot.schema, snapshot.attributes)
    tags = checked_tags(scope, "a scope") if scope is not None else NO_TAGS
    checked = checked_weights(weights, EventError) if weights is not None else None
    return Search(str(snapshot.path), snapshot.version, snapshot.record["checksum"], k, relaxed, tags, checked)


# --- on the workers ------------------------------------------------------------------------------------------


def match_batches(search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the answers for the batches of a partition."""
    for part, answers in searched(search, columns, batches):
        yield from result_batches(search, columns, part, answers)


def searched(
    search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, Answers]]:
    """Yield the events of a partition, some at a time, and their answers."""
    version = search.opened()
    searcher, step = search.searcher(version), FIRST_STEP
    for batch in batches:
        first = 0
        while first < batch.num_rows:
            part = batch.slice(first, step)
            try:
                answers = searcher.answers(search.encoded(version, columns, part))
            except TooManyAnswers:
                if part.num_rows == 1:
                    raise
                step = part.num_rows // 2
                continue
            first += part.num_rows
            yield part, answers
            per_event = max(len(answers.scores) / part.num_rows, 1 / LAST_STEP)
            step = int(min(max(WANTED_ANSWERS / per_event, 64), LAST_STEP))


def result_batches(
    search: Search, columns: Columns, batch: pa.RecordBatch, answers: Answers
) -> Iterator[pa.RecordBatch]:
    """Yield answers as batches of the result."""
    if not len(answers.scores):
        return
    made = _result_columns(search, columns, batch, answers.events, answers.subscriptions, answers.scores)
    whole = pa.RecordBatch.from_arrays(made, columns.names)
    for first in range(0, whole.num_rows, OUTPUT_ROWS):
        yield whole.slice(first, OUTPUT_ROWS)


def _result_columns(
    search: Search, columns: Columns, batch: pa.RecordBatch, events: I64, subscriptions: pa.Array, scores: Any
) -> list[pa.Array]:
    """Return the carried columns of these events, and the columns RESULTS."""
    carried = [batch.column(at).take(pa.array(events)) for at in columns.carried]
    version = pa.array(np.full(len(events), search.version, np.int64))
    return [*carried, subscriptions, pa.array(scores), version]


# --- the route through partitions of one shard ----------------------------------------------------------------


def shuffled(ready: MatchPlan, snapshot: Snapshot, replicas: int | str) -> DataFrame:
    """Return the results of `match`, searched in partitions of one shard each."""
    if ready.frame.isStreaming:
        raise EarmarkError("route 'shuffle' is for batches; use 'local' for a streaming DataFrame")
    search, columns = ready.search, ready.columns
    numbered = ready.frame.withColumn(EVENT, f.monotonically_increasing_id())
    first = _places(ready, snapshot, replicas)
    travelling = StructType([*numbered.schema.fields]).add(PLACE, IntegerType())
    routed = ready.run(route_batches, travelling, first, frame=numbered)
    inner = column_names(len(columns.names))
    types = {name: field.dataType for name, field in zip(inner, ready.schema.fields, strict=True)}
    schema = struct_of({**types, EVENT: LongType(), SEQUENCE: LongType()})
    placed = routed.repartitionById(int(first[-1]), f.col(PLACE))
    found = ready.run(search_batches, schema, first, frame=placed)
    named = [f.col(name).alias(result) for name, result in zip(inner, columns.names, strict=True)]
    if search.k is None:
        return found.repartition(EVENT).sortWithinPartitions(EVENT, SEQUENCE).select(*named)
    score = inner[len(columns.carried) + RESULTS.index("score")]
    best = Window.partitionBy(EVENT).orderBy(f.col(score).desc(), f.col(SEQUENCE))
    ranked = found.withColumn(RANK, f.row_number().over(best)).where(f.col(RANK) <= search.k)
    return ranked.select(*named)


def tables_of(snapshot: Snapshot) -> int:
    """Return how many segments are searched: the shards, and what changed since the last full version."""
    return max(snapshot.segments, 1)


def _places(ready: MatchPlan, snapshot: Snapshot, replicas: int | str) -> I64:
    """Return where the places of each table begin; the last is how many there are."""
    tables = tables_of(snapshot)
    if replicas != AUTO:
        return np.arange(0, tables * int(replicas) + 1, int(replicas))
    events = np.zeros(tables, np.int64)  # a table has as many places as its events are times the average
    for table, count in ready.run(count_routed, struct_of({PLACE: IntegerType(), EVENTS: LongType()})).collect():
        events[table] += count
    wanted = np.clip(np.rint(events / max(float(events.mean()), 1.0)), 1, MOST_REPLICAS)
    return np.cumsum([0, *wanted.astype(np.int64)])


# --- counts by shard -----------------------------------------------------------------------------------------


def shard_counts(
    events: DataFrame,
    snapshot: Snapshot,
    k: int | None = None,
    *,
    mode: Mode = "exact",
    scope: Scope = None,
    event: str | None = None,
) -> DataFrame:
    """Return (shard, events, matches): how many events are searched in each shard, and how many matches it finds.

    If the snapshot has changed since its last full version, the last shard is the table of those changes, in which all
    events are searched. Shards in which no event is searched are not listed.
    """
    ready = prepared(events, snapshot, k, mode=mode, columns=[], scope=scope, event=event)
    counted = ready.run(count_batches, struct_of({"shard": IntegerType(), "events": LongType(), "matches": LongType()}))
    sums = [f.sum(name).alias(name) for name in ("events", "matches")]
    return counted.groupBy("shard").agg(*sums).orderBy("shard")


def is_tallied(snapshot: Snapshot) -> bool:
    """Return whether a stream counts by shard."""
    return snapshot.record["router"] is not None and tables_of(snapshot) <= MOST_TALLIED


def tallied(ready: MatchPlan, snapshot: Snapshot, noted: Observation) -> DataFrame:
    """Return the matches; `noted` gets sums over what workers counted, two for each table (`counts_of`)."""
    made = ready.run(tally_batches, StructType([*ready.schema.fields]).add(TALLY, ArrayType(LongType())))
    sums = [f.sum(f.get(TALLY, f.lit(i))).alias(f"n{i}") for i in range(2 * tables_of(snapshot))]
    return made.observe(noted, *sums).where(f.col(TALLY).isNull()).drop(TALLY)


def counts_of(found: Mapping[str, Any]) -> list[list[int]]:
    """Return pairs of events and matches by table, from the sums of `tallied`."""
    values = [int(found[f"n{i}"] or 0) for i in range(len(found))]
    return [list(pair) for pair in zip(values[::2], values[1::2], strict=True)]


# --- on the workers ------------------------------------------------------------------------------------------


def _routed(
    search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, int, Any]]:
    """Yield (batch, table, the rows that are searched in it)."""
    version = search.opened()
    for batch in batches:
        events = search.encoded(version, columns, batch).events
        for table, chosen in version.routed(events, search.relaxed):
            yield batch, table, np.arange(batch.num_rows) if chosen is None else chosen


def count_routed(search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield how many events go to each table."""
    for _, table, chosen in _routed(search, columns, batches):
        yield pa.record_batch({PLACE: pa.array([table], pa.int32()), EVENTS: [len(chosen)]})


def route_batches(
    search: Search, columns: Columns, first: I64, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield every event once for each table that it is searched in, with the place."""
    for batch, table, chosen in _routed(search, columns, batches):
        rows = batch.take(pa.array(chosen))
        number = rows.column(rows.num_columns - 1).to_numpy()
        place = first[table] + number % (first[table + 1] - first[table])
        yield rows.append_column(PLACE, pa.array(place.astype(np.int32)))


def search_batches(
    search: Search, columns: Columns, first: I64, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the answers of the tables at whose places the events are."""
    opened = search.opened()
    searcher = search.searcher(opened)
    for batch in batches:
        tables = np.searchsorted(first, batch.column(batch.num_columns - 1).to_numpy(), "right") - 1
        for table in np.unique(tables).tolist():
            part = batch.take(pa.array(np.flatnonzero(tables == table)))
            found = searcher.found(table, search.encoded(opened, columns, part))
            if not len(found.scores):
                continue
            made = _result_columns(search, columns, part, found.events, searcher.named(found), found.scores)
            made += [part.column(part.num_columns - 2).take(pa.array(found.events)), pa.array(found.sequence)]
            yield pa.RecordBatch.from_arrays(made, [*column_names(len(columns.names)), EVENT, SEQUENCE])


def count_batches(search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the counts of a partition, one row per table."""
    total: Any = sum(answers.counts for _, answers in searched(search, columns, batches))
    if np.ndim(total):
        met = np.flatnonzero(total[:, 0])
        yield pa.RecordBatch.from_arrays([pa.array(met, pa.int32()), *map(pa.array, total[met].T)], schema=_COUNTS)


def tally_batches(search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the answers for the batches of a partition, and what was counted."""
    total: Any = 0
    carried: list[pa.DataType] = []
    for part, answers in searched(search, columns, batches):
        total = total + answers.counts
        carried = [part.column(at).type for at in columns.carried]
        for made in result_batches(search, columns, part, answers):
            yield made.append_column(TALLY, pa.nulls(made.num_rows, _TALLY_TYPE))
    if np.ndim(total):
        types = [*carried, arrow_id_type(search.opened().id_type is int), pa.float64(), pa.int64()]
        nothing = pa.RecordBatch.from_arrays([pa.nulls(1, type_) for type_ in types], columns.names)
        yield nothing.append_column(TALLY, pa.array([total.ravel().tolist()], _TALLY_TYPE))
