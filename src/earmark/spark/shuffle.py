"""Events travel to partitions that have a few shards each: the route "shuffle" of `match`.

    events ──route──► (event, place) ──repartition by place──► search its shards ──repartition by event──► the k best

A shard has one place. A busy one may have several, its replicas, which share its events by number; an event goes to one
place of each shard that it must be searched in, so replicas do not change the answers. A task costs tens of
milliseconds whatever it does, so neighbouring places share a partition: there are a few partitions for each core, and
more where the shards of one would exceed PARTITION_BYTES. Workers then hold the pages of few shards, at the price of
two shuffles: this pays when the shards outgrow the memory of a host, not just that of a worker.

**Load.** With `replicas="auto"`, a sample of the events is searched beforehand, and a shard gets places in proportion
to its events and answers. The answers of one event come together in one partition; where a shard gives an event more
than SALTED of them, they are spread over several.

Events are numbered where they are read (`monotonically_increasing_id`), and answers are joined by these numbers. So the
input must have the same rows in the same partitions and order when a task runs again after a failure, as files and
tables do. An input that does not (`rand()`, a limit without an order, rows from a shuffle that arrive in another order)
must be written or checkpointed first, or take the local route, which needs no numbers.

Events that cannot be read are rejected where they are routed. What counts as NULL does so again where it is searched.

Invariant: (event, sequence) is unique among what is merged; the order is by score, then sequence, as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from earmark.engine.searcher import Found, Searcher
from earmark.errors import EarmarkError
from earmark.flat.arrays import I32, I64
from earmark.spark.details import Details
from earmark.spark.frames import RESULTS, Columns, column_names, struct_of
from earmark.spark.search import Pace, Search, answer_cuts, counted, details_of, larger, row_bytes
from earmark.spark.sentences import collected

if TYPE_CHECKING:
    from earmark.spark.matching import MatchPlan

AUTO = "auto"
MOST_REPLICAS = 1_000
WAVES = 2
"""Partitions for each core, where there are that many places."""
PARTITION_BYTES = 256 << 20
"""Most bytes of shards per partition, unless one alone is larger."""
SAMPLED = 1 / 16
"""The share of the events by which the load is measured."""
SALTED = 1 << 16
"""Answers of one event from one shard that are brought to one partition."""
EVENT, PLACE, SEQUENCE, PLACE_IN_RANK, LOAD, SALT = "event", "place", "sequence", "place_in_rank", "load", "salt"


class Steps(NamedTuple):
    """The DataFrames on the way to a result, each made of the one before."""

    routed: DataFrame
    """Events with the places at which they are searched."""
    placed: DataFrame
    """The same rows, those of neighbouring places in one partition."""
    found: DataFrame
    """The answers of each place."""
    result: DataFrame
    """The answers of each event, of which the k best are kept."""


def shuffled(ready: MatchPlan, record: Mapping[str, Any], replicas: int | str) -> DataFrame:
    """Return the results of `match`, searched in partitions of a few shards each; `record` is that of the version."""
    if ready.frame.isStreaming:
        raise EarmarkError("route 'shuffle' is for batches; use 'local' for a streaming DataFrame")
    return steps(ready, record, replicas).result


def steps(ready: MatchPlan, record: Mapping[str, Any], replicas: int | str) -> Steps:
    """Return every step of the way through the shards."""
    columns = ready.columns
    numbered = ready.frame.withColumn(EVENT, f.monotonically_increasing_id())
    sizes = [int(entry["bytes"]) for entry in record["segments"]] or [0]
    first = _places(ready, len(sizes), replicas)
    travelling = StructType([*numbered.schema.fields]).add(PLACE, IntegerType())
    routed = ready.run(route_batches, travelling, first, frame=numbered)
    fields = [field for field in ready.schema.fields if field.name != _rank_name(columns)]
    inner = column_names(len(fields))
    types = {name: field.dataType for name, field in zip(inner, fields, strict=True)}
    schema = struct_of({**types, EVENT: LongType(), SEQUENCE: LongType(), SALT: IntegerType()})
    placed = repartitioned(routed, int(first[-1]), partitions_of(routed.sparkSession, int(first[-1]), sum(sizes)))
    found = ready.run(search_batches, schema, first, frame=placed)
    return Steps(routed, placed, found, _by_event(ready, found, inner, fields))


def _by_event(ready: MatchPlan, found: DataFrame, inner: list[str], fields: list[StructField]) -> DataFrame:
    """Return the answers of each event in order, of which the k best are kept."""
    search, columns = ready.search, ready.columns
    named = _named(ready, inner, fields)
    if search.k is None and not columns.rank:
        return found.repartition(EVENT, SALT).sortWithinPartitions(EVENT, SEQUENCE).select(*named)
    order = [f.col(SEQUENCE)]
    if search.k is not None:
        order.insert(0, f.col(inner[len(columns.carried) + RESULTS.index("score")]).desc())
    found = found.withColumn(PLACE_IN_RANK, f.row_number().over(Window.partitionBy(EVENT).orderBy(*order)))
    if search.k is not None:
        found = found.where(f.col(PLACE_IN_RANK) <= search.k)
    return found.select(*named)


def partitions_of(spark: SparkSession, places: int, size: int) -> int:
    """Return the number of partitions for this many places, whose shards are `size` bytes together."""
    try:
        cores = int(spark.sparkContext.defaultParallelism)
    except Exception:  # a Connect session has no context, and says so with errors of its own
        cores = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return min(places, max(WAVES * cores, -(-size // PARTITION_BYTES)))


def repartitioned(routed: DataFrame, places: int, partitions: int) -> DataFrame:
    """Return the rows, those of neighbouring places in one partition.

    On Spark before 4.1 a hash decides about partitions, some of which get more places than others.
    """
    number = f.floor(f.col(PLACE).cast("long") * partitions / places).cast("int")
    if hasattr(routed, "repartitionById"):
        return routed.repartitionById(partitions, number)
    return routed.repartition(partitions, number)


def _rank_name(columns: Columns) -> str | None:
    return columns.names[len(columns.carried) + len(RESULTS)] if columns.rank else None


def _named(ready: MatchPlan, inner: list[str], fields: list[Any]) -> list[Column]:
    """Return the columns of the result, by the names and with the metadata that they are to have."""
    by_name = {field.name: name for name, field in zip(inner, fields, strict=True)}
    rank = f.col(PLACE_IN_RANK).cast("long")
    return [
        (f.col(by_name[field.name]) if field.name in by_name else rank).alias(field.name, metadata=field.metadata)
        for field in ready.schema.fields
    ]


def _places(ready: MatchPlan, tables: int, replicas: int | str) -> I64:
    """Return where the places of each table begin; the last is how many there are."""
    if replicas != AUTO:
        return np.arange(0, tables * int(replicas) + 1, int(replicas))
    load = np.zeros(tables, np.int64)  # a table has as many places as its load is times the average
    some = ready.frame.sample(fraction=SAMPLED, seed=1)
    measured = ready.run(measure_load, struct_of({PLACE: IntegerType(), LOAD: LongType()}), frame=some)
    for table, own in collected(measured):
        load[table] += own
    wanted = np.clip(np.rint(load / max(float(load.mean()), 1.0)), 1, MOST_REPLICAS)
    return np.cumsum([0, *wanted.astype(np.int64)])


# --- on the workers ------------------------------------------------------------------------------------------


def _routed(
    search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, int, Any]]:
    """Yield (batch, table, the rows that are searched in it)."""
    version = search.opened()
    for batch in batches:
        events = search.read(version, columns, batch)
        for table, chosen in version.routed(events.keys.events, search.relaxed):
            yield events.rows, table, np.arange(events.rows.num_rows) if chosen is None else chosen


def measure_load(search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the load of each table: the events that are searched in it, and its answers, which cost about as much."""
    tables = counted(search, columns, batches).tables
    met = np.flatnonzero(tables[:, 0])
    yield pa.record_batch({PLACE: pa.array(met, pa.int32()), LOAD: tables[met].sum(axis=1)})


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
    details = details_of(search, columns)

    def found_in(table: int, part: pa.RecordBatch) -> tuple[Found, int]:
        found = searcher.found(table, search.read(opened, columns, part).keys)
        return found, len(found.slots)

    paces: dict[int, Pace] = {}
    for batch in larger(batches):
        tables = np.searchsorted(first, batch.column(batch.num_columns - 1).to_numpy(), "right") - 1
        for table in np.unique(tables).tolist():
            own = batch.take(pa.array(np.flatnonzero(tables == table)))
            pace = paces.setdefault(table, Pace(search.k))
            for part, found in pace.over(own, partial(found_in, table)):
                yield from _found_batches(search, columns, searcher, details, part, found)


def _found_batches(
    search: Search, columns: Columns, searcher: Searcher, details: Details | None, part: pa.RecordBatch, found: Found
) -> Iterator[pa.RecordBatch]:
    """Yield the answers of one table for some events, in batches of bounded size."""
    names = [*column_names(len(columns.names) - columns.rank), EVENT, SEQUENCE, SALT]
    salt = _salts(found.events)
    slots = found.slots.astype(np.int64)
    places, at = (np.full(len(slots), found.number), slots), np.arange(len(slots))
    for begin, end in answer_cuts(row_bytes(part, columns.carried)[found.events], details, places, at):
        some = found.between(begin, end)
        events = pa.array(some.events)
        made = [part.column(at).take(events) for at in columns.carried]
        made += [searcher.named(some), pa.array(some.scores)]
        made.append(pa.array(np.full(end - begin, search.version, np.int64)))
        made += details.columns(*(place[begin:end] for place in places)) if details is not None else []
        made += [part.column(part.num_columns - 2).take(events), pa.array(some.sequence)]
        made.append(pa.array(salt[begin:end]))
        yield pa.RecordBatch.from_arrays(made, names)


def _salts(events: I64) -> I32:
    """Return for answers, event by event, a number that grows by 1 after every SALTED of one event."""
    place = np.arange(len(events)) - np.searchsorted(events, events)
    return (place // SALTED).astype(np.int32)
