"""How often would these subscriptions have matched, had they been there? With a few of the events each would have got.

    candidates ──published into a working folder──┐
    past events ──select──► columns ──mapInArrow──┴─► a task's counts and samples ──groupBy──► one row a candidate

A task counts as it goes through its events, and gives back a row a candidate and a few events; pairs of event and
candidate never leave it. The answers are those of `match`.

**The sample** of a candidate is its matching events of least *key*, a hash of the columns that are shown. So it does
not depend on partitions, batches or order, and it is as good as drawn at random: the same events again give the same
sample, more events replace some of it.

    keys of the matching events     task 1   17 4 90 33     task 2   8 61 20        sample of 3   4 8 17
    least three of each                      4 17 33                 8 20 61

**Invariant.** After each batch the rows kept of a candidate are its `size` least keys so far.
Complexity: a search an event; O(matches) to count; a task keeps and gives back O(candidates x sample).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from earmark.book.parts import read_arrow, write_arrow
from earmark.errors import EarmarkError, EventError, SubscriptionError
from earmark.flat.types import I64
from earmark.spark.frames import arrow_id_type, id_type, session_zone, struct_of
from earmark.spark.intake import Given
from earmark.spark.matching import Search, prepared, searched
from earmark.spark.picking import RESULTS, Columns, with_keys
from earmark.spark.publish import publish
from earmark.spark.snapshot import DEFAULT_INDEX, Snapshot
from earmark.spark.working import removed_on_error, working_folder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

    from earmark.spark.snapshot import Folder

SAMPLE = 3
ALONE = "condition"
"""The id of a candidate that is given as nothing but a text."""
NO_SAMPLE_YET = np.iinfo(np.int64).max
_OUTPUT_ROWS = 1 << 16

Candidates = Any
"""A DataFrame; one condition; conditions by id; or a list of conditions or of (id, condition)."""


def backtest(
    candidates: Candidates,
    events: DataFrame,
    *,
    sample: int = SAMPLE,
    columns: Sequence[str] | None = None,
    event: str | None = None,
    attributes: Mapping[str, str] | None = None,
    zone: str | None = None,
    bounds: Mapping[str, tuple[str, str]] | None = None,
    working: Folder | None = None,
) -> DataFrame:
    """How often each candidate would have matched: (subscription, matches, share, sample).

    `candidates` is a DataFrame as for `Snapshot.publish`, or one condition (its id is then "condition"), a mapping of
    conditions by id, a list of pairs (id, condition), or a list of conditions, numbered from 0. `events` and `event`
    are as for `match`. `share` is the share of all events, NULL when there are none. `sample` is up to so many matching
    events, as structs of `columns` (all unless given); which ones depends on the events alone. With `sample=0` there is
    no such column, and only attributes are read.

    The candidates are read at once; the events each time the result is used, unless it is cached or written. `working`
    is a folder that all workers see, needed on a cluster; what is left in it may be removed afterwards.
    """
    if isinstance(sample, bool) or not isinstance(sample, int) or sample < 0:
        raise EarmarkError(f"sample is a number of events, 0 or more; got {sample!r}")
    if events.isStreaming:
        raise EventError("a backtest reads past events, which end; for a streaming DataFrame use match or stream")
    spark = events.sparkSession
    frame = _frame(spark, candidates)
    folder = working_folder(working, "backtest")
    with removed_on_error(folder):
        root, given = folder / "snapshot", Given(attributes, zone or session_zone(spark), bounds)
        record = publish(frame, root, given, DEFAULT_INDEX, done="backtested")
        snapshot = Snapshot(root, record)
        kind = arrow_id_type(snapshot.integer_ids)
        ids = pa.table({"id": pa.array([row[0] for row in frame.select("id").collect()], kind)})
        write_arrow(folder / "ids.arrow", ids)
        ready = prepared(events, snapshot, None, "exact", columns if sample else [], None, None, event)
        carried = ready.schema.fields[: -len(RESULTS)]
        if sample and not carried:
            raise EarmarkError("a sample shows some columns of the events; name them, or ask for sample=0")
    plan = Counting(ready.search, ready.columns, str(folder / "ids.arrow"), sample)
    partial = _partial_schema(carried, snapshot)
    selected = with_keys(ready.frame, plan.columns.carried) if sample else ready.frame
    rows = selected.mapInArrow(lambda batches: count_batches(plan, batches), partial)
    return _summed(rows.unionByName(_none_yet(frame, partial)), sample)


def _frame(spark: SparkSession, candidates: Candidates) -> DataFrame:
    """The candidates as a DataFrame."""
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StringType

    if isinstance(candidates, str):
        candidates = [(ALONE, candidates)]
    elif isinstance(candidates, Mapping):
        candidates = list(candidates.items())
    elif isinstance(candidates, DataFrame):
        return candidates
    elif not isinstance(candidates, list | tuple):
        raise SubscriptionError(
            f"candidates are a DataFrame, a condition, a list of conditions, or conditions by id; got {candidates!r}"
        )
    pairs = list(enumerate(candidates)) if all(isinstance(one, str) for one in candidates) else list(candidates)
    for one in pairs:
        if not isinstance(one, list | tuple) or len(one) != 2 or not isinstance(one[1], str):
            raise SubscriptionError(f"candidates are conditions or pairs of id and condition; got {one!r}")
    integers = all(isinstance(one, int) and not isinstance(one, bool) for one, _ in pairs)
    if not integers and not all(isinstance(one, str) for one, _ in pairs):
        raise SubscriptionError("the ids of candidates are all texts or all integers")
    schema = struct_of({"id": id_type(integers), "condition": StringType()})
    return spark.createDataFrame([tuple(one) for one in pairs], schema)


def _partial_schema(carried: Sequence[StructField], snapshot: Snapshot) -> StructType:
    from pyspark.sql.types import LongType

    types: dict[str, DataType] = {"subscription": id_type(snapshot.integer_ids)}
    types |= {"matches": LongType(), "seen": LongType()}
    if carried:
        types |= {"key": LongType(), "event": struct_of({field.name: field.dataType for field in carried})}
    return struct_of(types)


def _none_yet(frame: DataFrame, partial: StructType) -> DataFrame:
    """A row a candidate that counts nothing, for those of which no task has anything to say."""
    from pyspark.sql import functions as f

    values = {
        "subscription": f.col("id"),
        "matches": f.lit(0),
        "seen": f.lit(0),
        "key": f.lit(None),
        "event": f.lit(None),
    }
    return frame.select(*(values[field.name].cast(field.dataType).alias(field.name) for field in partial.fields))


def _summed(rows: DataFrame, sample: int) -> DataFrame:
    """The rows of all tasks, as one a candidate."""
    from pyspark.sql import functions as f

    def by_key(a: Column, b: Column) -> Column:
        return f.when(a["key"] < b["key"], -1).when(a["key"] > b["key"], 1).otherwise(0)

    sums = [f.sum(name).alias(name) for name in ("matches", "seen")]
    share = f.when(f.col("seen") > 0, f.col("matches") / f.col("seen")).alias("share")
    if not sample:
        return rows.groupBy("subscription").agg(*sums).select("subscription", "matches", share)
    shown = f.collect_list(f.when(f.col("key").isNotNull(), f.struct("key", "event")))
    grouped = rows.groupBy("subscription").agg(*sums, shown.alias("shown"))
    least = f.slice(f.array_sort("shown", by_key), 1, sample)
    return grouped.select(
        "subscription", "matches", share, f.transform(least, lambda one: one["event"]).alias("sample")
    )


# --- on the workers ----------------------------------------------------------------------------------------------


class Counting(NamedTuple):
    """What a task needs to know."""

    search: Search
    columns: Columns
    ids: str
    sample: int


class Kept:
    """The rows of least key of each candidate, as numbers (candidate, key) beside a table of the rows themselves."""

    def __init__(self, candidates: int, size: int) -> None:
        self.size = size
        self.candidate: I64 = np.empty(0, np.int64)
        self.key: I64 = np.empty(0, np.int64)
        self.rows: Any = None
        """A pyarrow Table once a batch was offered."""
        self._worst: I64 = np.full(candidates, NO_SAMPLE_YET)

    def offer(self, batch: pa.Table, events: I64, candidates: I64, keys: I64) -> None:
        """Take from these pairs of an event of the batch and a candidate what is among the least. O(pairs)."""
        if self.rows is None:
            self.rows = batch.slice(0, 0)
        good = np.flatnonzero(keys[events] <= self._worst[candidates])
        if not len(good):
            return
        candidate = np.concatenate([self.candidate, candidates[good]])
        key = np.concatenate([self.key, keys[events[good]]])
        order = np.lexsort((key, candidate))
        starts = np.flatnonzero(np.diff(candidate[order], prepend=-1))
        rank = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
        kept = order[rank < self.size]
        self._take_rows(batch, events[good], kept)
        self.candidate, self.key = candidate[kept], key[kept]
        full = rank[rank < self.size] == self.size - 1
        self._worst[self.candidate[full]] = self.key[full]

    def _take_rows(self, batch: pa.Table, events: I64, kept: I64) -> None:
        """The rows of the pairs that stay: old ones by their place, new ones by their event."""
        before = len(self.candidate)
        new = kept >= before
        parts = [self.rows.take(pa.array(kept[~new])), batch.take(pa.array(events[kept[new] - before]))]
        place = np.empty(len(kept), np.int64)
        place[np.concatenate([np.flatnonzero(~new), np.flatnonzero(new)])] = np.arange(len(kept))
        self.rows = pa.concat_tables(parts).take(pa.array(place)).combine_chunks()


def count_batches(plan: Counting, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The counts of a partition, and a sample of each candidate's events."""
    ids = read_arrow(Path(plan.ids))["id"].combine_chunks()
    place = {one: i for i, one in enumerate(ids.to_pylist())}
    counts, kept, seen = np.zeros(len(ids), np.int64), Kept(len(ids), plan.sample), 0
    for part, answers in searched(plan.search, plan.columns, batches):
        coded = answers.subscriptions.dictionary_encode()
        own = np.array([place[one] for one in coded.dictionary.to_pylist()], np.int64)
        codes = np.asarray(coded.indices)
        counts[own] += np.bincount(codes, minlength=len(own))
        seen += part.num_rows
        if plan.sample:
            rows = pa.Table.from_arrays([part.column(at) for at in plan.columns.carried], _names(plan))
            kept.offer(rows, answers.events, own[codes], np.asarray(part.column(part.num_columns - 1)))
    if seen:
        yield from _given_back(ids, counts, seen, kept)


def _names(plan: Counting) -> list[str]:
    return plan.columns.names[: len(plan.columns.carried)]


def _given_back(ids: pa.Array, counts: I64, seen: int, kept: Kept) -> Iterator[pa.RecordBatch]:
    """A row a candidate with its count, then a row each event of the samples."""
    count = len(ids)
    columns = {"subscription": ids, "matches": pa.array(counts), "seen": pa.array(np.full(count, seen))}
    if kept.rows is None:
        yield from pa.table(columns).to_batches(_OUTPUT_ROWS)
        return
    fields = list(kept.rows.schema)
    none = {"key": pa.nulls(count, pa.int64()), "event": pa.nulls(count, pa.struct(fields))}
    yield from pa.table({**columns, **none}).to_batches(_OUTPUT_ROWS)
    zero = pa.array(np.zeros(len(kept.key), np.int64))
    rows = pa.StructArray.from_arrays([column.combine_chunks() for column in kept.rows.columns], fields=fields)
    columns = {"subscription": ids.take(pa.array(kept.candidate)), "matches": zero, "seen": zero}
    yield from pa.table({**columns, "key": pa.array(kept.key), "event": rows}).to_batches(_OUTPUT_ROWS)
