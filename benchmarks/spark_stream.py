"""How long does a micro-batch take while the subscriptions change?

    python benchmarks/spark_stream.py [--quick] [--json FILE]

A book of 200,000 conditions as text, whose literals are whole numbers; events whose columns are DOUBLE, 2,000 in each
micro-batch; and a change of ten subscriptions every two seconds, each of which makes a version. What a batch takes is
what its report says, from begin to commit. The first batches, which load the book and the kernels, do not count.
Bars: the median is at most 0.4 s; and a change makes the book's folder grow by less than a tenth of the first version,
since columns of another type than the literals must not make the book again. Takes about two minutes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from earmark.spark import Snapshot, stream
from results import Figure
from spark_runner import Report, measured, parser_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BAR, GROWTH, EVERY, EVENTS, CHANGED, WARM_UP = 0.4, 0.1, 2.0, 2_000, 10, 3


def write_events(folder: Path, files: int) -> None:
    """Files of events, one for each micro-batch."""
    rng = np.random.default_rng(11)
    folder.mkdir()
    for number in range(files):
        columns = {"event": np.arange(EVENTS) + number * EVENTS, "age": rng.uniform(0, 80, EVENTS)}
        columns["price"] = rng.integers(0, 100, EVENTS).astype(np.float64)
        pq.write_table(pa.table(columns), folder / f"{number:04d}.parquet")


def published(spark: SparkSession, folder: Path, size: int) -> Snapshot:
    """A book of conditions with whole literals."""
    rng = np.random.default_rng(12)
    age, price = rng.integers(0, 80, size).tolist(), rng.integers(0, 99, size).tolist()
    texts = [f"age BETWEEN {a} AND {a + 1} AND price = {p}" for a, p in zip(age, price, strict=True)]
    pq.write_table(pa.table({"id": np.arange(size), "condition": texts}), folder / "book.parquet")
    return Snapshot.publish(spark.read.parquet(str(folder / "book.parquet")), folder / "book")


def work(spark: SparkSession, folder: Path, options: argparse.Namespace, report: Report) -> None:
    size, files = (20_000, 12) if options.quick else (200_000, 30)
    write_events(folder / "events", files)
    snapshot = published(spark, folder, size)
    before = sum(file.stat().st_size for file in snapshot.path.rglob("*") if file.is_file())
    arriving = spark.readStream.schema("event long, age double, price double").option("maxFilesPerTrigger", 1)
    running = stream(
        arriving.parquet(str(folder / "events")),
        snapshot,
        folder / "hits",
        folder / "notes",
        k=10,
        columns=["event"],
        trigger={"processingTime": "1 second"},
    )
    until, next_change, changes = time.monotonic() + 20 * files, time.monotonic() + EVERY, 0
    while len(running.reports()) < files and running.active and time.monotonic() < until:
        if time.monotonic() >= next_change:
            rows = [(changes * CHANGED + i, f"age > {i} AND price = {i}", "upsert") for i in range(CHANGED)]
            snapshot = snapshot.apply(spark.createDataFrame(rows, "id long, condition string, op string").coalesce(1))
            changes, next_change = changes + 1, next_change + EVERY
        time.sleep(0.05)
    reports = running.reports()
    running.stop()
    seconds = [one.seconds for one in reports[WARM_UP:]]
    versions = len({one.version for one in reports})
    after = sum(file.stat().st_size for file in snapshot.path.rglob("*") if file.is_file())
    matches = sum(one.matches or 0 for one in reports)
    print(f"  {len(reports)} batches of {EVENTS:,} events on {size:,} subscriptions: {matches:,} matches")
    print(
        f"  {changes} changes, {versions} versions met; the book grew from {before / 1e6:.1f} to {after / 1e6:.1f} MB"
    )
    report.bar("all batches are done", len(reports) == files)
    grown = (after / before - 1) / max(changes, 1)
    report.bar(f"a change makes the book grow by {grown:.1%} (bar {GROWTH:.0%})", grown < GROWTH)
    middle = statistics.median(seconds)
    report.bar(f"a batch takes {middle:.2f} s, at most {max(seconds):.2f} (bar {BAR})", middle <= BAR)
    report.figures.append(Figure("rules", size, "auto", "a micro-batch with changes", "s", seconds, events=EVENTS))


def main() -> int:
    return measured("spark_stream", parser_of(__doc__, "20k subscriptions and 12 batches"), work, Report())


if __name__ == "__main__":
    sys.exit(main())
