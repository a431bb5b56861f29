"""Events travel to partitions that have one shard each: the route "shuffle" of `match`.

    events ──route──► (event, place) ──repartition by place──► search one shard ──repartition by event──► the k best

A place is a partition that has one shard. A busy shard may have several places, its replicas, which share its events
by number; an event goes to one place of each shard that it must be searched in, so replicas do not change the answers.
Workers then hold the pages of few shards, at the price of two shuffles: this pays when the shards outgrow the memory of
a host, not just that of a worker.

Events are numbered where they are read (`monotonically_increasing_id`), and answers are joined by these numbers. So the
input must have the same rows in the same partitions and order when a task runs again after a failure, as files and
tables do. An input that does not (`rand()`, a limit without an order, rows from a shuffle that arrive in another order)
must be written or checkpointed first, or take the local route, which needs no numbers.

Events that cannot be read are rejected where they are routed. What counts as NULL does so again where it is searched.

Invariant: (event, sequence) is unique among what is merged; the order is by score, then sequence, as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, LongType, StructType

from earmark.errors import EarmarkError
from earmark.flat.arrays import I64
from earmark.spark.frames import RESULTS, Columns, column_names, struct_of
from earmark.spark.search import Search, cuts, details, row_bytes

if TYPE_CHECKING:
    from earmark.spark.matching import MatchPlan

AUTO = "auto"
MOST_REPLICAS = 1_000
EVENT, PLACE, SEQUENCE, PLACE_IN_RANK, EVENTS = "event", "place", "sequence", "place_in_rank", "events"


def shuffled(ready: MatchPlan, tables: int, replicas: int | str) -> DataFrame:
    """Return the results of `match`, searched in partitions of one shard each; `tables` is how many are searched."""
    if ready.frame.isStreaming:
        raise EarmarkError("route 'shuffle' is for batches; use 'local' for a streaming DataFrame")
    search, columns = ready.search, ready.columns
    if columns.left:
        raise EarmarkError("how='left' needs the route 'local': with 'shuffle' only answers come back")
    numbered = ready.frame.withColumn(EVENT, f.monotonically_increasing_id())
    first = _places(ready, tables, replicas)
    travelling = StructType([*numbered.schema.fields]).add(PLACE, IntegerType())
    routed = ready.run(route_batches, travelling, first, frame=numbered)
    fields = [field for field in ready.schema.fields if field.name != _rank_name(columns)]
    inner = column_names(len(fields))
    types = {name: field.dataType for name, field in zip(inner, fields, strict=True)}
    schema = struct_of({**types, EVENT: LongType(), SEQUENCE: LongType()})
    placed = repartitioned(routed, int(first[-1]))
    found = ready.run(search_batches, schema, first, frame=placed)
    order = [f.col(SEQUENCE)]
    if search.k is not None:
        order.insert(0, f.col(inner[len(columns.carried) + RESULTS.index("score")]).desc())
    if search.k is None and not columns.rank:
        return found.repartition(EVENT).sortWithinPartitions(EVENT, SEQUENCE).select(*_named(ready, inner, fields))
    found = found.withColumn(PLACE_IN_RANK, f.row_number().over(Window.partitionBy(EVENT).orderBy(*order)))
    if search.k is not None:
        found = found.where(f.col(PLACE_IN_RANK) <= search.k)
    return found.select(*_named(ready, inner, fields))


def repartitioned(routed: DataFrame, places: int) -> DataFrame:
    """Return the rows, those of each place in the partition of its number.

    On Spark before 4.1, places may share a partition: that takes longer, and its task searches one after another.
    """
    if hasattr(routed, "repartitionById"):
        return routed.repartitionById(places, f.col(PLACE))
    return routed.repartition(places, f.col(PLACE))


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
    events = np.zeros(tables, np.int64)  # a table has as many places as its events are times the average
    for table, count in ready.run(count_routed, struct_of({PLACE: IntegerType(), EVENTS: LongType()})).collect():
        events[table] += count
    wanted = np.clip(np.rint(events / max(float(events.mean()), 1.0)), 1, MOST_REPLICAS)
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
    names = [*column_names(len(columns.names) - columns.rank), EVENT, SEQUENCE]
    for batch in batches:
        tables = np.searchsorted(first, batch.column(batch.num_columns - 1).to_numpy(), "right") - 1
        for table in np.unique(tables).tolist():
            part = batch.take(pa.array(np.flatnonzero(tables == table)))
            found = searcher.found(table, search.read(opened, columns, part).keys)
            for begin, end in cuts(row_bytes(part, columns.carried), found.events):
                some = found.between(begin, end)
                events = pa.array(some.events)
                made = [part.column(at).take(events) for at in columns.carried]
                made += [searcher.named(some), pa.array(some.scores)]
                made.append(pa.array(np.full(end - begin, search.version, np.int64)))
                made += details(opened, columns.details, np.full(end - begin, table), some.slots.astype(np.int64))
                made += [part.column(part.num_columns - 2).take(events), pa.array(some.sequence)]
                yield pa.RecordBatch.from_arrays(made, names)
