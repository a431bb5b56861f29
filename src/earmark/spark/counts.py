"""Which shards are busy? Events and matches by shard: of a DataFrame, or of the batch that a stream is writing.

A worker counts while it searches. It returns the counts as a row at the end of its partition, so that the counts of a
task that failed and ran again do not count twice:

    carried columns   subscription   score   snapshot_version   __shards
    ...               ad-7           1.5     3                  NULL
    NULL              NULL           NULL    NULL               [events of shard 0, its matches, events of 1, ...]

The matches of a shard are those it found, of which the k best of all shards are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, IntegerType, LongType, StructField, StructType

from earmark.engine.searcher import Mode
from earmark.spark.frames import Columns, arrow_id_type, struct_of
from earmark.spark.matching import MatchPlan, Search, prepared, result_batches, searched, tables_of
from earmark.spark.snapshot import Snapshot

TALLY = "__shards"
MOST_TALLIED = 256
"""The most tables that a stream counts; Spark plans an expression for each."""
_TALLY_TYPE = pa.list_(pa.int64())
_COUNTS = pa.schema({"shard": pa.int32(), "events": pa.int64(), "matches": pa.int64()})


def shard_counts(
    events: DataFrame,
    snapshot: Snapshot,
    k: int | None = None,
    *,
    mode: Mode = "exact",
    scope: Mapping[str, str] | None = None,
    event: str | None = None,
) -> DataFrame:
    """Return (shard, events, matches): how many events are searched in each shard, and how many matches it finds.

    If the snapshot has changed since its last full version, the last shard is the table of those changes, in which all
    events are searched. Shards in which no event is searched are not listed.
    """
    ready = prepared(events, snapshot, k, mode=mode, columns=[], scope=scope, event=event)
    search, columns = ready.search, ready.columns
    schema = struct_of({"shard": IntegerType(), "events": LongType(), "matches": LongType()})
    counted = ready.frame.mapInArrow(lambda batches: count_batches(search, columns, batches), schema)
    sums = [f.sum(name).alias(name) for name in ("events", "matches")]
    return counted.groupBy("shard").agg(*sums).orderBy("shard")


def is_tallied(snapshot: Snapshot) -> bool:
    """Return whether a stream counts by shard."""
    return snapshot.record["router"] is not None and tables_of(snapshot) <= MOST_TALLIED


def tallied(ready: MatchPlan) -> DataFrame:
    """Return the matches, and among them rows that have only counts, in the column TALLY."""
    search, columns = ready.search, ready.columns
    fields = [*ready.schema.fields, StructField(TALLY, ArrayType(LongType(), True), True)]
    return ready.frame.mapInArrow(lambda batches: tally_batches(search, columns, batches), StructType(fields))


def sums(snapshot: Snapshot) -> list[Column]:
    """Return aggregates over the column TALLY, two for each table."""
    return [f.sum(f.get(TALLY, f.lit(i))).alias(f"n{i}") for i in range(2 * tables_of(snapshot))]


def counts_of(found: Mapping[str, Any]) -> list[list[int]]:
    """Return pairs of events and matches by table, from those aggregates."""
    values = [int(found[f"n{i}"] or 0) for i in range(len(found))]
    return [list(pair) for pair in zip(values[::2], values[1::2], strict=True)]


# --- on the workers ------------------------------------------------------------------------------------------


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
