"""Matching on Spark against Spark's own joins, and against the same search without Spark. Two cores, one session.

    python benchmarks/spark_match.py [--quick] [--index NAME] [--parts join,best,overhead] [--json FILE]

The snapshot is published beforehand and the session is warm (every query runs once before it is timed); events lie in
Spark's cache. What is timed is the query up to a sink that throws its rows away. The data are w2: five ranges a
subscription. Bars are about the clock; processor time, which other work on the machine disturbs less, is printed too.

join      10k events, 100k subscriptions, all matches. Rivals: a broadcast nested-loop join, and an equi-join on bins of
          one attribute with the rest as a filter, at the best of several widths. Bar: 3 x the better one.
best      100k events, 1M subscriptions, the 10 best. The rival is the binned join again, without the ranking. It does
          not finish in reasonable time, so it runs on two slices of the events, and the line through both is taken
          out to all of them. Bar: 50 x.
overhead  1M events, 20k subscriptions on two of the attributes, so that there are 10 best to give back: what Spark
          takes on top of the same batches encoded, searched and turned into Arrow in this process, in µs per event a
          core: seconds x cores by the clock, or processor time of the JVM and its Python workers. Bar: 3 µs, by the
          lesser of the two.

Answers are compared: numbers of pairs and checksums of (event, subscription). Exit code 1 when a bar is missed or an
answer is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from earmark.report.protocol import QUICK_REPEATS, clocked, summary
from earmark.spark import Snapshot, match, register
from earmark.spark.frames import Columns
from earmark.spark.matching import search_of
from earmark.spark.search import match_batches
from earmark.workload import blocks
from results import PER_EVENT, Figure
from spark_runner import (
    ATTRIBUTES,
    CORES,
    Report,
    Taken,
    both_clocks,
    bounds_of_w2,
    digest,
    measured,
    parser_of,
    taken_by,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEST, REPEATS, RIVAL_REPEATS = 10, 5, 3
BIN_WIDTHS = (10, 25, 50)
JOIN_BAR, BEST_BAR, OVERHEAD_BAR = 3.0, 50.0, 3.0


class Data:
    """Subscriptions and events of w2 as DataFrames, of any size."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.cached: list[DataFrame] = []

    def subscriptions(self, count: int) -> DataFrame:
        file = self.folder / f"subscriptions-{count}.parquet"
        if not file.exists():
            pq.write_table(bounds_of_w2(count), file, row_group_size=50_000)
        return self.spark.read.parquet(str(file))

    def events(self, count: int) -> DataFrame:
        """In Spark's memory, spread over the cores."""
        file = self.folder / f"events-{count}.parquet"
        if not file.exists():
            made = blocks.find("w2", "events", form="columns")
            pq.write_table(pa.Table.from_batches(made.rows(0, count)), file)
        frame = self.spark.read.parquet(str(file)).repartition(2 * CORES).cache()
        frame.count()
        self.cached.append(frame)
        return frame

    def snapshot(self, count: int, index: str, attributes: int = len(ATTRIBUTES)) -> tuple[Snapshot, float]:
        columns = [f"{name}_{end}" for name in ATTRIBUTES[:attributes] for end in ("lo", "hi")]
        frame = self.subscriptions(count).select("id", *columns)
        seconds, made = clocked(lambda: Snapshot.publish(frame, self.folder / f"snapshot-{count}", index=index))
        return made, seconds


# --- rivals ----------------------------------------------------------------------------------------------------------


def inside() -> str:
    return " AND ".join(f"e.{a} BETWEEN s.{a}_lo AND s.{a}_hi" for a in ATTRIBUTES)


def nested_loop(events: DataFrame, subscriptions: DataFrame) -> DataFrame:
    from pyspark.sql.functions import broadcast, expr

    joined = events.alias("e").join(broadcast(subscriptions.alias("s")), expr(inside()))
    return joined.selectExpr("e.event", "s.id AS subscription")


def binned(events: DataFrame, subscriptions: DataFrame, width: int) -> DataFrame:
    """Each subscription once a bin of a0 that it touches, each event in its own: an equi-join, then the rest."""
    many = subscriptions.selectExpr("*", f"explode(sequence(a0_lo div {width}, a0_hi div {width})) AS bin").alias("s")
    from pyspark.sql.functions import expr

    own = events.selectExpr("*", f"a0 div {width} AS bin").alias("e")
    return own.join(many, expr(f"e.bin = s.bin AND {inside()}")).selectExpr("e.event", "s.id AS subscription")


# --- parts -----------------------------------------------------------------------------------------------------------


class Comparison(Report):
    """Times of ours and of others."""

    def add(self, size: int, engine: str, what: str, taken: Taken, events: int, note: str = "") -> tuple[float, float]:
        """Note what a query took; gives the medians by the clock and of processor time."""
        values = [one * 1e6 / events for one in taken.clock]
        middle, low, high = summary(taken.clock)
        processor = summary(taken.processor).median
        told = f"{processor:.3f} s of processor time{'; ' + note if note else ''}"
        self.figures.append(Figure("w2", size, engine, what, PER_EVENT, values, events=events, note=told))
        print(f"  {engine:22} {middle:8.3f} s ({low:.3f} to {high:.3f}), {middle * 1e6 / events:8.2f} µs/event; {told}")
        sys.stdout.flush()
        return middle, processor

    def ratio(self, who: str, own: tuple[float, float], rivals: list[tuple[float, float]], bar: float) -> None:
        """How many times faster than the fastest rival."""
        clock, processor = (min(rival[i] for rival in rivals) / own[i] for i in (0, 1))
        told = f"{clock:.1f} x as fast as {who} by the clock, {processor:.1f} x by processor time"
        self.bar(f"{told} (bar {bar:.0f})", clock >= bar)

    def same(self, wanted: tuple[Any, ...], found: tuple[Any, ...], who: str) -> None:
        if wanted != found:
            print(f"  WRONG: {who} has {found}, not {wanted}", flush=True)
            self.held = False


def join_part(data: Data, report: Comparison, index: str, repeats: int, events: int, size: int) -> None:
    snapshot, published = data.snapshot(size, index)
    frame = data.events(events)
    subscriptions = data.subscriptions(size).cache()
    subscriptions.count()
    print(f"\n{events:,} events, {size:,} subscriptions, all matches; published in {published:.1f} s, index {index}")
    ours = match(frame, snapshot, columns=["event"])
    wanted = digest(nested_loop(frame, subscriptions))
    report.same(wanted, digest(ours), "earmark")
    print(f"  {wanted[0]:,} pairs")
    own = report.add(size, f"earmark, {index}", "all matches", taken_by(ours, repeats), events)
    quick = repeats == QUICK_REPEATS
    few = 1 if quick else RIVAL_REPEATS
    taken = taken_by(nested_loop(frame, subscriptions), few, warm_ups=0)  # warm: its answers were counted
    rivals = [report.add(size, "nested loop", "all matches", taken, events)]
    for width in BIN_WIDTHS[1:2] if quick else BIN_WIDTHS:
        rival = binned(frame, subscriptions, width)
        report.same(wanted, digest(rival), f"binned by {width}")
        rivals.append(report.add(size, f"binned by {width}", "all matches", taken_by(rival, few, 0), events))
    report.ratio("the better join", own, rivals, JOIN_BAR)
    subscriptions.unpersist()


def best_part(data: Data, report: Comparison, index: str, repeats: int, events: int, size: int) -> None:
    snapshot, published = data.snapshot(size, index)
    print(
        f"\n{events:,} events, {size:,} subscriptions, the {BEST} best; published in {published:.1f} s, index {index}"
    )
    frame = data.events(events)
    ours = match(frame, snapshot, BEST, columns=["event"])
    own = report.add(size, f"earmark, {index}", f"best {BEST}", taken_by(ours, repeats), events)
    subscriptions = data.subscriptions(size).cache()
    subscriptions.count()
    slices = (events // 400, events // 50)
    estimates = []
    for width in BIN_WIDTHS[1:]:
        took = []
        for count in slices:
            part = frame.where(f"event < {count}").repartition(2 * CORES).cache()
            part.count()
            rival = binned(part, subscriptions, width)
            took.append([min(column) for column in taken_by(rival, 2)])
            part.unpersist()
        whole = [_at(events, slices, ends) for ends in zip(*took, strict=True)]
        note = f"the line through {slices[0]:,} and {slices[1]:,} events: {took[0][0]:.2f} and {took[1][0]:.2f} s"
        taken = Taken([whole[0]], [whole[1]])
        estimates.append(report.add(size, f"binned by {width}", "join, extrapolated", taken, events, note))
    few = frame.where(f"event < {slices[0]}")
    best = _first_by_event(digest_rows(binned(few, subscriptions, BIN_WIDTHS[1])))
    report.same((len(best),), (len(best & digest_rows(match(few, snapshot, BEST, columns=["event"]))),), "earmark")
    report.ratio("the better join, extrapolated", own, estimates, BEST_BAR)
    subscriptions.unpersist()


def _at(events: int, slices: tuple[int, int], seconds: tuple[float, float]) -> float:
    """The line through two measurements, at all events."""
    slope = max(seconds[1] - seconds[0], 0.0) / (slices[1] - slices[0])
    return seconds[1] + slope * (events - slices[1])


def digest_rows(frame: DataFrame) -> set[tuple[int, int]]:
    return {(row[0], row[1]) for row in frame.select("event", "subscription").collect()}


def _first_by_event(pairs: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """With equal scores the best are the first in order of insertion, which is that of ids."""
    found: dict[int, list[int]] = {}
    for event, subscription in sorted(pairs):
        found.setdefault(event, []).append(subscription)
    return {(event, one) for event, own in found.items() for one in own[:BEST]}


def overhead_part(data: Data, report: Comparison, index: str, repeats: int, events: int, size: int) -> None:
    snapshot, _ = data.snapshot(size, index, attributes=2)
    frame = data.events(events)
    print(f"\n{events:,} events, {size:,} subscriptions, the {BEST} best: Spark's own share, µs per event a core")
    batches = pq.read_table(data.folder / f"events-{events}.parquet").to_batches(max_chunksize=10_000)
    search = search_of(data.spark, snapshot, BEST, "exact", None, None)
    attributes = [(name, i + 1) for i, name in enumerate(ATTRIBUTES[:2])]
    columns = Columns([0], attributes, None, None, ["event", "subscription", "score", "version"])

    def alone() -> int:
        return sum(made.num_rows for made in match_batches(search, columns, iter(batches)))

    answers = alone()
    found = [both_clocks(alone, os.getpid(), children=False) for _ in range(repeats)]
    inside = Taken([clock for clock, _ in found], [processor for _, processor in found])
    own = report.add(size, "in this process", f"best {BEST}", inside, events, f"{answers:,} answers")
    register(data.spark, snapshot)
    frame.createOrReplaceTempView("events")
    ways: dict[str, DataFrame] = {
        "match": match(frame, snapshot, BEST, columns=["event"]),
        "top_matches": data.spark.sql(f"SELECT event, top_matches(struct(a0, a1), {BEST}) AS best FROM events e"),
        "inline(top_matches)": data.spark.sql(
            f"SELECT event, inline(top_matches(struct(a0, a1), {BEST})) FROM events e"
        ),
    }
    least = []
    for name, query in ways.items():
        clock, processor = report.add(size, name, f"best {BEST}", taken_by(query, repeats, warm_ups=2), events)
        clock, processor = (clock * CORES - own[0]) * 1e6 / events, (processor - own[1]) * 1e6 / events
        print(f"    above it: {clock:.2f} by the clock, {processor:.2f} by processor time", flush=True)
        note = f"{clock:.2f} by the clock"
        values = [max(processor, 1e-9)]
        report.figures.append(
            Figure("w2", size, name, "overhead, µs/event/core", "µs", values, events=events, note=note)
        )
        least.append(min(clock, processor))
    told = f"match takes {least[0]:.2f} µs, top_matches {least[1]:.2f} µs above it (bar {OVERHEAD_BAR:.0f})"
    report.bar(told, least[0] <= OVERHEAD_BAR)


def work(spark: SparkSession, folder: Path, options: argparse.Namespace, report: Comparison) -> None:
    scale, repeats = (10, QUICK_REPEATS) if options.quick else (1, REPEATS)
    parts = {
        "join": (join_part, 10_000, 100_000),
        "best": (best_part, 100_000 // scale, 1_000_000 // scale),
        "overhead": (overhead_part, 1_000_000 // (scale // 5 or 1), 20_000),
    }
    for name in options.parts.split(","):
        part, events, size = parts[name]
        data = Data(spark, folder)
        part(data, report, options.index, options.repeats or repeats, events, size)
        for frame in data.cached:
            frame.unpersist()


def main() -> int:
    parser = parser_of(__doc__, "smaller sizes, fewer repeats; the bars stay")
    parser.add_argument("--index", default="blocks", help="the snapshot's index (%(default)s)")
    parser.add_argument("--parts", default="join,best,overhead", help="which parts (%(default)s)")
    parser.add_argument("--repeats", type=int, help=f"runs that count (default: {REPEATS})")
    return measured("spark_match", parser, work, Comparison())


if __name__ == "__main__":
    sys.exit(main())
