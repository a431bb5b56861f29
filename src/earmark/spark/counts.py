"""Which shards are busy? Events and matches by shard: of a DataFrame, or of the batch that a stream is writing.

A worker counts while it searches. What it counted leaves it as a row of its own, at the end of its partition, so that
the counts of a task that failed and ran again are not there twice:

    carried columns   subscription   score   snapshot_version   __shards
    ...               ad-7           1.5     3                  NULL
    NULL              NULL           NULL    NULL               [events of shard 0, its matches, events of 1, ...]

The matches of a shard are those it gave, of which the k best of all shards are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from earmark.index.given import Mode
from earmark.spark.frames import arrow_id_type, struct_of
from earmark.spark.matching import Prepared, Search, given_back, prepared, searched
from earmark.spark.picking import Columns
from earmark.spark.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TALLY = "__shards"
MOST_TALLIED = 256
"""A stream counts up to so many tables; Spark plans an expression for each."""
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
    """How many of the events each shard is searched for, and how many matches it gives: shard, events, matches.

    The last shard, if the snapshot has changed since it was last whole, is the table of those changes, which all events
    are searched in. Shards that no event meets are not listed.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import IntegerType, LongType

    ready = prepared(events, snapshot, k, mode, [], scope, None, event)
    search, columns = ready.search, ready.columns
    schema = struct_of({"shard": IntegerType(), "events": LongType(), "matches": LongType()})
    counted = ready.frame.mapInArrow(lambda batches: count_batches(search, columns, batches), schema)
    sums = [f.sum(name).alias(name) for name in ("events", "matches")]
    return counted.groupBy("shard").agg(*sums).orderBy("shard")


def tables_of(snapshot: Snapshot) -> int:
    """How many segments a version has: its shards, and what changed since."""
    return max(snapshot.segments, 1)


def is_tallied(snapshot: Snapshot) -> bool:
    """Whether a stream counts by shard."""
    return snapshot.record["router"] is not None and tables_of(snapshot) <= MOST_TALLIED


def tallied(ready: Prepared) -> DataFrame:
    """The matches, and among them rows that have nothing but counts, in the column TALLY."""
    from pyspark.sql.types import ArrayType, LongType, StructField, StructType

    search, columns = ready.search, ready.columns
    fields = [*ready.schema.fields, StructField(TALLY, ArrayType(LongType(), True), True)]
    return ready.frame.mapInArrow(lambda batches: tally_batches(search, columns, batches), StructType(fields))


def sums(snapshot: Snapshot) -> list[Column]:
    """Aggregates over the column TALLY, two for each table."""
    from pyspark.sql import functions as f

    return [f.sum(f.get(TALLY, f.lit(i))).alias(f"n{i}") for i in range(2 * tables_of(snapshot))]


def counts_of(found: Mapping[str, Any]) -> list[list[int]]:
    """Pairs of events and matches by table, from those aggregates."""
    values = [int(found[f"n{i}"] or 0) for i in range(len(found))]
    return [list(pair) for pair in zip(values[::2], values[1::2], strict=True)]


# --- on the workers ------------------------------------------------------------------------------------------


def _total(total: Any, counts: Any) -> Any:
    return counts if total is None else total + counts


def count_batches(search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The counts of a partition, a row a table."""
    total = None
    for _, answers in searched(search, columns, batches):
        total = _total(total, answers.counts)
    if total is not None:
        met = np.flatnonzero(total[:, 0])
        made: Sequence[pa.Array] = [pa.array(met.astype(np.int32)), pa.array(total[met, 0]), pa.array(total[met, 1])]
        yield pa.RecordBatch.from_arrays(list(made), schema=_COUNTS)


def tally_batches(search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The answers for the batches of a partition, and what was counted."""
    total, carried = None, None
    for part, answers in searched(search, columns, batches):
        total = _total(total, answers.counts)
        carried = [part.column(at).type for at in columns.carried]
        for made in given_back(search, columns, part, answers):
            yield pa.RecordBatch.from_arrays(
                [*made.columns, pa.nulls(made.num_rows, _TALLY_TYPE)], [*made.schema.names, TALLY]
            )
    if total is not None and carried is not None:
        types = [*carried, arrow_id_type(search.opened().id_type is int), pa.float64(), pa.int64()]
        nothing = [pa.nulls(1, type_) for type_ in types]
        yield pa.RecordBatch.from_arrays(
            [*nothing, pa.array([total.ravel().tolist()], _TALLY_TYPE)], [*columns.names, TALLY]
        )
