"""The matches of a sharded snapshot, each shard in partitions of its own.

    events ──route──► (event, place) ──repartition by place──► search one shard ──repartition by event──► the k best

A place is a partition that has one shard. A shard that many events are sent to may have several places, its replicas,
among which its events are dealt out by their numbers; an event goes to one place of each shard that it must be searched
in, so replicas change nothing in the answers. Workers then hold the pages of few shards, at the price of two shuffles:
what pays when the shards outgrow the memory of a host, not just of a worker.

Events are numbered where they are read (`monotonically_increasing_id`), and their answers find together by these
numbers. So, as with anything that uses such numbers, the input must give the same rows in the same partitions and order
when a task runs again after a failure, as files and tables do. One that does not (`rand()`, a limit without an order,
what lies above a shuffle whose rows arrive in another order) is written or checkpointed first, or takes the local way,
which needs no numbers.

Invariant: (event, sequence) is unique among what is merged; the order is by score, then sequence, as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from earmark.errors import EarmarkError
from earmark.flat.types import I64
from earmark.spark.counts import tables_of
from earmark.spark.frames import struct_of
from earmark.spark.matching import AUTO, MOST_REPLICAS, Prepared, Search
from earmark.spark.picking import RESULTS, Columns, column_names
from earmark.spark.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENT, PLACE, SEQUENCE, RANK, EVENTS = "event", "place", "sequence", "rank", "events"
_COUNTS = pa.schema({PLACE: pa.int32(), EVENTS: pa.int64()})


def shuffled(ready: Prepared, snapshot: Snapshot, replicas: int | str) -> DataFrame:
    """What `match` gives, by way of partitions of one shard each."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f
    from pyspark.sql.types import IntegerType, LongType, StructField, StructType

    if ready.frame.isStreaming:
        raise EarmarkError("route 'shuffle' is for batches, such as those that stream works on; for a stream, 'local'")
    search, columns = ready.search, ready.columns
    numbered = ready.frame.withColumn(EVENT, f.monotonically_increasing_id())
    first = _places(ready, snapshot, replicas)
    travelling = StructType([*numbered.schema.fields, StructField(PLACE, IntegerType(), True)])
    routed = numbered.mapInArrow(lambda batches: route_batches(search, columns, first, batches), travelling)
    placed = routed.repartitionById(int(first[-1]), f.col(PLACE))
    inner = column_names(len(columns.names))
    types = {name: field.dataType for name, field in zip(inner, ready.schema.fields, strict=True)}
    schema = struct_of({**types, EVENT: LongType(), SEQUENCE: LongType()})
    found = placed.mapInArrow(lambda batches: search_batches(search, columns, first, batches), schema)
    given_back = [f.col(name).alias(own) for name, own in zip(inner, columns.names, strict=True)]
    if search.k is None:
        return found.repartition(EVENT).sortWithinPartitions(EVENT, SEQUENCE).select(*given_back)
    score = inner[len(columns.carried) + RESULTS.index("score")]
    best = Window.partitionBy(EVENT).orderBy(f.col(score).desc(), f.col(SEQUENCE))
    ranked = found.withColumn(RANK, f.row_number().over(best)).where(f.col(RANK) <= search.k)
    return ranked.select(*given_back)


def _places(ready: Prepared, snapshot: Snapshot, replicas: int | str) -> I64:
    """Where the places of each table begin; the last is how many there are."""
    tables = tables_of(snapshot)
    if replicas == AUTO:
        return np.cumsum([0, *_by_load(ready, tables)])
    return np.arange(0, tables * int(replicas) + 1, int(replicas))


def _by_load(ready: Prepared, tables: int) -> list[int]:
    """As many replicas of each table as it has times the average number of events. Runs the routing once."""
    from pyspark.sql.types import IntegerType, LongType

    search, columns = ready.search, ready.columns
    schema = struct_of({PLACE: IntegerType(), EVENTS: LongType()})
    counted = ready.frame.mapInArrow(lambda batches: count_routed(search, columns, batches), schema)
    events = np.zeros(tables, np.int64)
    for table, count in counted.collect():
        events[table] += count
    wanted = np.rint(events / max(float(events.mean()), 1.0))
    return np.clip(wanted, 1, MOST_REPLICAS).astype(np.int64).tolist()  # type: ignore[no-any-return]


# --- on the workers ------------------------------------------------------------------------------------------


def _routed(
    search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, int, Any]]:
    """(batch, table, the rows that are searched in it)."""
    version = search.opened()
    for batch in batches:
        events = search.encoded(version, columns, batch).events
        for table, chosen in version.routed(events, search.relaxed):
            yield batch, table, np.arange(batch.num_rows) if chosen is None else chosen


def count_routed(search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many events go to each table."""
    for _, table, chosen in _routed(search, columns, batches):
        yield pa.RecordBatch.from_pydict({PLACE: [table], EVENTS: [len(chosen)]}, _COUNTS)


def route_batches(
    search: Search, columns: Columns, first: I64, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Every event once for each table that it is searched in, with the place."""
    for batch, table, chosen in _routed(search, columns, batches):
        rows = batch.take(pa.array(chosen))
        number = rows.column(rows.num_columns - 1).to_numpy()
        place = first[table] + number % (first[table + 1] - first[table])
        yield rows.append_column(PLACE, pa.array(place.astype(np.int32)))


def search_batches(
    search: Search, columns: Columns, first: I64, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The answers of the tables at whose places the events are."""
    opened = search.opened()
    searcher = search.searcher(opened)
    for batch in batches:
        tables = np.searchsorted(first, batch.column(batch.num_columns - 1).to_numpy(), "right") - 1
        for table in np.unique(tables).tolist():
            part = batch.take(pa.array(np.flatnonzero(tables == table)))
            found = searcher.found(table, search.encoded(opened, columns, part))
            if not len(found.scores):
                continue
            rows = pa.array(found.events)
            made = [part.column(at).take(rows) for at in columns.carried]
            version = pa.array(np.full(len(rows), search.version, np.int64))
            made += [searcher.named(found), pa.array(found.scores), version]
            made += [part.column(part.num_columns - 2).take(rows), pa.array(found.sequence)]
            yield pa.RecordBatch.from_arrays(made, [*column_names(len(columns.names)), EVENT, SEQUENCE])
