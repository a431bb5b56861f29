"""How often would candidate subscriptions have matched past events? With a few of the events that each would match.

    candidates ──published into a working folder──┐
    past events ──select──► columns ──mapInArrow──┴─► a task's counts and samples ──groupBy──► one row per candidate

A task counts as it reads its events, and returns one row per candidate and a few events; pairs of event and candidate
never leave it. The answers are those of `match`.

**The sample** of a candidate is its matching events of least *key*, a hash of the columns that are shown. So it does
not depend on partitions, batches or order, and it is as good as drawn at random: the same events give the same sample,
and more events replace some of it.

    keys of the matching events     task 1   17 4 90 33     task 2   8 61 20        sample of 3   4 8 17
    least three of each                      4 17 33                 8 20 61

**Invariant.** After each batch, the rows kept for a candidate are its `size` least keys so far.
Complexity: one search per event; O(matches) to count; a task keeps and returns O(candidates x sample).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow.feather import read_table, write_feather
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, LongType, StringType, StructType

from earmark.errors import EarmarkError, EventError, SubscriptionError
from earmark.events.moments import Moment
from earmark.flat.arrays import I64
from earmark.spark.frames import Columns, arrow_id_type, id_type, session_zone, struct_of, with_keys
from earmark.spark.hygiene.auditing import working_folder
from earmark.spark.intake import ReadOptions
from earmark.spark.matching import prepared
from earmark.spark.search import Search, searched
from earmark.spark.snapshot import DEFAULT_INDEX, Folder, Snapshot, publish

SAMPLE = 3
ALONE = "condition"
"""The id of a candidate that is given as a condition alone."""
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
    time: str | None = None,
    at: Moment | None = None,
    working: Folder | None = None,
) -> DataFrame:
    """Count how often each candidate would have matched: (subscription, matches, share, sample).

    `candidates` is a DataFrame as for `Snapshot.publish`, or one condition (its id is then "condition"), a mapping of
    conditions by id, a list of pairs (id, condition), or a list of conditions, numbered from 0. `events` and `event`
    are as for `match`. `share` is the share of all events, NULL when there are none. `sample` is the number of matching
    events to show, as structs of `columns` (all by default); which ones depends on the events alone. With `sample=0`
    there is no such column, and only attributes are read. For candidates that start or end, `time` names the column
    that tells when an event happened, and `at` is a moment for all events; the default is now.

    The candidates are read at once; the events each time the result is used, unless it is cached or written. `working`
    is a folder that all workers see, needed on a cluster; its content may be removed afterwards.
    """
    if isinstance(sample, bool) or not isinstance(sample, int) or sample < 0:
        raise EarmarkError(f"sample: expected a number of events, 0 or more, got {sample!r}")
    if events.isStreaming:
        raise EventError("a backtest reads past events; for a streaming DataFrame use match or stream")
    spark = events.sparkSession
    frame = _frame(spark, candidates)
    with working_folder(working, "backtest") as folder:
        root, options = folder / "snapshot", ReadOptions(attributes, zone or session_zone(spark), bounds, time=time)
        record = publish(frame, root, options, DEFAULT_INDEX, done="backtested")
        snapshot = Snapshot(root, record)
        kind = arrow_id_type(snapshot.integer_ids)
        ids = pa.table({"id": pa.array([row[0] for row in frame.select("id").collect()], kind)})
        write_feather(ids, folder / "ids.arrow")
        ready = prepared(events, snapshot, columns=columns if sample else [], event=event, at=at)
        carried = ready.carried
        if sample and not carried:
            raise EarmarkError("a sample needs columns of the events to show; name them, or ask for sample=0")
    plan = Counting(ready.search, ready.columns, str(folder / "ids.arrow"), sample)
    types: dict[str, DataType] = {"subscription": id_type(snapshot.integer_ids)}
    types |= {"matches": LongType(), "seen": LongType()}
    if carried:
        types |= {"key": LongType(), "event": struct_of({field.name: field.dataType for field in carried})}
    partial = struct_of(types)
    selected = with_keys(ready.frame, plan.columns.carried) if sample else ready.frame
    rows = selected.mapInArrow(lambda batches: count_batches(plan, batches), partial)
    return _summed(rows.unionByName(_none_yet(frame, partial)), sample)


def _frame(spark: SparkSession, candidates: Candidates) -> DataFrame:
    """Return the candidates as a DataFrame."""
    if isinstance(candidates, str):
        candidates = [(ALONE, candidates)]
    elif isinstance(candidates, Mapping):
        candidates = list(candidates.items())
    elif isinstance(candidates, DataFrame):
        return candidates
    elif not isinstance(candidates, list | tuple):
        forms = "a DataFrame, a condition, a list of conditions, or conditions by id"
        raise SubscriptionError(f"candidates: expected {forms}, got {candidates!r}")
    conditions = all(isinstance(candidate, str) for candidate in candidates)
    pairs = list(enumerate(candidates)) if conditions else list(candidates)
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[1], str):
            raise SubscriptionError(f"candidates: expected conditions or pairs of id and condition, got {pair!r}")
    integers = all(isinstance(id, int) and not isinstance(id, bool) for id, _ in pairs)
    if not integers and not all(isinstance(id, str) for id, _ in pairs):
        raise SubscriptionError("candidates: expected ids that are all strings or all integers, got both or others")
    schema = struct_of({"id": id_type(integers), "condition": StringType()})
    return spark.createDataFrame([tuple(pair) for pair in pairs], schema)


def _none_yet(frame: DataFrame, partial: StructType) -> DataFrame:
    """Return one row per candidate that counts nothing, for those that no task has a row for."""
    zero, null = f.lit(0), f.lit(None)
    values = {"subscription": f.col("id"), "matches": zero, "seen": zero, "key": null, "event": null}
    return frame.select(*(values[field.name].cast(field.dataType).alias(field.name) for field in partial.fields))


def _summed(rows: DataFrame, sample: int) -> DataFrame:
    """Return the rows of all tasks, as one per candidate."""

    def by_key(a: Column, b: Column) -> Column:
        return f.when(a["key"] < b["key"], -1).when(a["key"] > b["key"], 1).otherwise(0)

    sums = [f.sum(name).alias(name) for name in ("matches", "seen")]
    share = f.when(f.col("seen") > 0, f.col("matches") / f.col("seen")).alias("share")
    if not sample:
        return rows.groupBy("subscription").agg(*sums).select("subscription", "matches", share)
    shown = f.collect_list(f.when(f.col("key").isNotNull(), f.struct("key", "event")))
    grouped = rows.groupBy("subscription").agg(*sums, shown.alias("shown"))
    least = f.slice(f.array_sort("shown", by_key), 1, sample)
    events = f.transform(least, lambda row: row["event"]).alias("sample")
    return grouped.select("subscription", "matches", share, events)


# --- on the workers ----------------------------------------------------------------------------------------------


class Counting(NamedTuple):
    """What a task needs to know."""

    search: Search
    columns: Columns
    ids: str
    sample: int


class LeastKeys:
    """The rows of least key of each candidate, as numbers (candidate, key) beside a table of the rows themselves."""

    def __init__(self, candidates: int, size: int) -> None:
        self.size = size
        self.candidate: I64 = np.empty(0, np.int64)
        self.key: I64 = np.empty(0, np.int64)
        self.rows: Any = None
        """A pyarrow Table, once a batch was offered."""
        self._worst: I64 = np.full(candidates, NO_SAMPLE_YET)

    def offer(self, batch: pa.Table, events: I64, candidates: I64, keys: I64) -> None:
        """Keep the pairs of an event of the batch and a candidate that are among the least. O(pairs)."""
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
        """Take the rows of the pairs that are kept: old ones by their place, new ones by their event."""
        before = len(self.candidate)
        new = kept >= before
        parts = [self.rows.take(pa.array(kept[~new])), batch.take(pa.array(events[kept[new] - before]))]
        place = np.empty(len(kept), np.int64)
        place[np.concatenate([np.flatnonzero(~new), np.flatnonzero(new)])] = np.arange(len(kept))
        self.rows = pa.concat_tables(parts).take(pa.array(place)).combine_chunks()


def count_batches(plan: Counting, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the counts of a partition, and a sample of each candidate's events."""
    ids = read_table(plan.ids)["id"].combine_chunks()
    place = {id: i for i, id in enumerate(ids.to_pylist())}
    counts, kept, seen = np.zeros(len(ids), np.int64), LeastKeys(len(ids), plan.sample), 0
    names = plan.columns.names[: len(plan.columns.carried)]
    for part, answers, _, _ in searched(plan.search, plan.columns, batches):
        coded = answers.subscriptions.dictionary_encode()
        places = np.array([place[id] for id in coded.dictionary.to_pylist()], np.int64)
        codes = np.asarray(coded.indices)
        counts[places] += np.bincount(codes, minlength=len(places))
        seen += part.num_rows
        if plan.sample:
            rows = pa.Table.from_arrays([part.column(at) for at in plan.columns.carried], names)
            kept.offer(rows, answers.events, places[codes], np.asarray(part.column(part.num_columns - 1)))
    if seen:
        yield from _batches(ids, counts, seen, kept)


def _batches(ids: pa.Array, counts: I64, seen: int, kept: LeastKeys) -> Iterator[pa.RecordBatch]:
    """Yield one row per candidate with its count, then one row per event of the samples."""
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
