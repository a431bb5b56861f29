"""Sharded snapshots: how many shards does an event meet, what does it cost, and does a worker stay within a gigabyte?

    python benchmarks/spark_shards.py [--quick] [--parts touched,routes,steps,memory] [--index NAME] [--json FILE]

touched   w2 and w1 at 1M subscriptions in 16 shards. Shards met an event, on the average, beside what an oracle would
          need: the shards that hold at least one match. Bar: a third of the shards, where the oracle needs fewer. The
          time of all matches of the same events, sharded and not, one session, each warm. Bar: 1.5 x.
routes    200,000 subscriptions of w2 in 64 shards: the 10 best of 40,000 events by both routes, the shuffle also with a
          partition for each shard. No bar: the local route has no shuffles to pay for.
steps     where the time of the shuffle goes, on the same data: reading the events; routing them, which brings each back
          once for every shard it meets; the exchange by shard; searching; the exchange by event with the ranking. Each
          query ends after one more step, and its rows are thrown away. Clock and processor time beside the local route.
memory    4M subscriptions of w2 in 64 shards. Workers match events with all shards, and note their resident size, pages
          of mapped files included, at its greatest. Bar: 1 GiB.

Answers of both forms are compared by checksum. Exit code 1 when a bar is missed or an answer is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from earmark.report.protocol import clocked
from earmark.spark import Snapshot, match, shard_counts, shuffle, workload
from earmark.spark.frames import Columns
from earmark.spark.matching import prepared
from earmark.spark.search import Search, match_batches
from results import Figure
from spark_runner import MIB, Report, Taken, digest, measured, parser_of, run, taken_by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHARDS, MEMORY_SHARDS = 16, 64
TOUCHED_BAR, TIME_BAR, MEMORY_BAR = 1 / 3, 1.5, 1 << 30
REPEATS = 3
NOTED = ("answers", "before", "most", "after")
WHEN = ("before", "at most", "after")


def published(spark: SparkSession, folder: Path, name: str, size: int, index: str, shards: int) -> Snapshot:
    """A snapshot of a workload, and a line about it."""
    frame = workload(spark, name, "subscriptions", size)
    seconds, made = clocked(lambda: Snapshot.publish(frame, folder / f"{name}-{shards}", index=index, shards=shards))
    print(f"  {shards} shard{'s' * (shards > 1)} of {size:,} published in {seconds:.1f} s", flush=True)
    return made


def oracle(hits: DataFrame, sharded: Snapshot, spark: SparkSession, events: int) -> float:
    """How many shards hold a match of an event, on the average."""
    from pyspark.sql.types import LongType, StructField, StructType

    from earmark.book.saving import open_for_search

    homes = []
    for number, one in enumerate(open_for_search(sharded.path, sharded.version).segments):
        ids = one.segment.ids.column
        homes.append(pa.table({"subscription": pa.array(ids), "shard": pa.array([number] * len(ids), pa.int64())}))
    schema = StructType([StructField(name, LongType()) for name in ("subscription", "shard")])
    home = spark.createDataFrame(pa.concat_tables(homes), schema)
    pairs = hits.join(home, "subscription").select("event", "shard").distinct().count()
    return pairs / events


def touched(spark: SparkSession, folder: Path, report: Report, name: str, size: int, count: int, index: str) -> None:
    """Shards met and time, sharded against not."""
    print(f"{name}, {size:,} subscriptions, {count:,} events, index {index}", flush=True)
    events = workload(spark, name, "events", count).repartition(4).cache()
    events.count()
    one, many = (published(spark, folder, name, size, index, shards) for shards in (1, SHARDS))
    mean = sum(row["events"] for row in shard_counts(events, many).collect()) / count
    times: dict[int, list[float]] = {1: [], SHARDS: []}
    sums = {snapshot.shards: digest(match(events, snapshot, columns=["event"])) for snapshot in (one, many)}
    for _ in range(REPEATS):
        for snapshot in (one, many):
            times[snapshot.shards].append(clocked(lambda s=snapshot: run(match(events, s, columns=["event"])))[0])
    bound = oracle(match(events, many, columns=["event"]), many, spark, count)
    ratio = min(times[SHARDS]) / min(times[1])
    equal = sums[1] == sums[SHARDS]
    allowed = SHARDS * TOUCHED_BAR
    met = mean <= allowed or bound > allowed
    report.bar(f"shards met an event: {mean:.2f} of {SHARDS} (oracle {bound:.2f}; bar {allowed:.2f})", met)
    took = f"{min(times[SHARDS]):.2f} s against {min(times[1]):.2f} s, {ratio:.2f} x (bar {TIME_BAR})"
    report.bar(f"all matches: {took}", ratio <= TIME_BAR)
    report.bar("the same answers", equal)
    events.unpersist()
    note = f"oracle {bound:.3f}"
    report.figures.append(
        Figure(name, size, index, f"shards met of {SHARDS}", "shards", [mean], events=count, note=note)
    )
    for shards, values in times.items():
        report.figures.append(Figure(name, size, index, f"all matches, {shards} shards", "s", values, events=count))


def routes(spark: SparkSession, folder: Path, report: Report, size: int, count: int, index: str) -> None:
    """Both ways through the shards."""
    print(f"w2, {size:,} subscriptions in {MEMORY_SHARDS} shards, the 10 best of {count:,} events", flush=True)
    events = workload(spark, "w2", "events", count).repartition(2).cache()
    events.count()
    snapshot = published(spark, folder, "w2", size, index, MEMORY_SHARDS)
    few, sums = shuffle.WAVES, set()
    for said, route, waves in (
        ("local", "local", few),
        ("shuffle", "shuffle", few),
        ("one task per shard", "shuffle", 999),
    ):
        shuffle.WAVES = waves
        query = match(events, snapshot, 10, columns=["event"], route=route)
        sums.add(digest(query))
        times = [clocked(lambda q=query: run(q))[0] for _ in range(REPEATS)]
        print(f"  {said}: {min(times):.2f} s", flush=True)
        report.figures.append(Figure("w2", size, index, f"10 best, {said}", "s", times, events=count))
    shuffle.WAVES = few
    report.bar("the same answers", len(sums) == 1)
    events.unpersist()


def steps(spark: SparkSession, folder: Path, report: Report, size: int, count: int, index: str) -> None:
    """What each step of the shuffle adds."""
    print(f"w2, {size:,} subscriptions in {MEMORY_SHARDS} shards, the 10 best of {count:,} events", flush=True)
    events = workload(spark, "w2", "events", count).repartition(2).cache()
    events.count()
    snapshot = published(spark, folder, "w2", size, index, MEMORY_SHARDS)
    ready = prepared(events, snapshot, 10, columns=["event"])
    frames = shuffle.steps(ready, snapshot.record, 1)._asdict()
    print(f"  an event travels {frames['routed'].count() / count:.2f} times; {frames['found'].count():,} answers are")
    print(f"  brought back to the events, in {frames['placed'].rdd.getNumPartitions()} partitions", flush=True)
    queries = {"local route": match(events, snapshot, 10, columns=["event"]), "events alone": ready.frame, **frames}
    before = Taken([0.0], [0.0])
    for name, frame in queries.items():
        taken = taken_by(frame, REPEATS, 2)
        clock, processor = min(taken.clock), min(taken.processor)
        more = f"; {clock - before.clock[0]:+.2f} and {processor - before.processor[0]:+.2f}" if name in frames else ""
        print(f"  {name:>12}: {clock:5.2f} s, {processor:5.2f} s of processor time{more}", flush=True)
        report.figures.append(Figure("w2", size, index, f"10 best, {name}", "s", taken.clock, events=count))
        before = Taken([clock], [processor])
    events.unpersist()


def watch(search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Match, and say what memory that took at most. What this worker did before does not count."""
    Path("/proc/self/clear_refs").write_text("5")  # the greatest resident size is from now on
    before = _status("VmRSS")
    answers = sum(made.num_rows for made in match_batches(search, columns, batches))
    values = [answers, before, _status("VmHWM"), _status("VmRSS")]
    yield pa.RecordBatch.from_pydict({name: [value] for name, value in zip(NOTED, values, strict=True)})


def _status(name: str) -> int:
    """A size of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(name)


def memory(spark: SparkSession, folder: Path, report: Report, size: int, count: int, index: str) -> None:
    """What a worker needs to match with more than it may hold."""
    from pyspark.sql.types import LongType, StructField, StructType

    print(f"w2, {size:,} subscriptions in {MEMORY_SHARDS} shards, {count:,} events", flush=True)
    snapshot = published(spark, folder, "w2", size, index, MEMORY_SHARDS)
    mapped = sum(int(entry["bytes"]) for entry in snapshot.record["segments"])
    events = workload(spark, "w2", "events", count).repartition(2)
    ready = prepared(events, snapshot, columns=[])
    search, columns = ready.search, ready.columns
    schema = StructType([StructField(name, LongType()) for name in NOTED])
    begun = time.perf_counter()
    rows = ready.frame.mapInArrow(lambda batches: watch(search, columns, batches), schema).collect()
    seconds = time.perf_counter() - begun
    most = max(row["most"] for row in rows)
    print(f"  {mapped / MIB:,.0f} MiB of files; {sum(r['answers'] for r in rows):,} matches in {seconds:.1f} s")
    for number, row in enumerate(rows):
        sizes = (f"{row[name] / MIB:,.0f} MiB {when}" for name, when in zip(NOTED[1:], WHEN, strict=True))
        print(f"  task {number}, resident: {', '.join(sizes)}")
    report.bar(f"most {most / MIB:,.0f} MiB (bar {MEMORY_BAR / MIB:,.0f})", most <= MEMORY_BAR)
    note = f"mapped files {mapped / MIB:.0f} MiB"
    report.figures.append(Figure("w2", size, index, "most memory of a worker", "MiB", [most / MIB], note=note))


def work(spark: SparkSession, folder: Path, options: argparse.Namespace, report: Report) -> None:
    parts = options.parts.split(",")
    size, large, count = (100_000, 200_000, 5_000) if options.quick else (1_000_000, 4_000_000, 20_000)
    for name in options.workloads.split(",") if "touched" in parts else ():
        touched(spark, folder, report, name, size, count, options.index)
    if "routes" in parts:
        (folder / "routes").mkdir()
        routes(
            spark, folder / "routes", report, *((20_000, 4_000) if options.quick else (200_000, 40_000)), options.index
        )
    if "steps" in parts:
        (folder / "steps").mkdir()
        steps(
            spark, folder / "steps", report, *((20_000, 4_000) if options.quick else (200_000, 40_000)), options.index
        )
    if "memory" in parts:
        (folder / "memory").mkdir()
        memory(spark, folder / "memory", report, large, count, options.index)


def main() -> int:
    parser = parser_of(__doc__, "100k subscriptions instead of 1M and 4M")
    parser.add_argument("--parts", default="touched,routes,steps,memory", help="which parts to run (%(default)s)")
    parser.add_argument("--workloads", default="w2,w1", help="of the first part (%(default)s)")
    parser.add_argument("--index", default="blocks", help="the snapshots' index (%(default)s)")
    return measured("spark_shards", parser, work, Report())


if __name__ == "__main__":
    sys.exit(main())
