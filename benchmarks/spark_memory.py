"""How much memory of its own does a Spark Python worker need for a snapshot, and do two workers share the rest?

    python benchmarks/spark_memory.py [--quick] [--parts shared,carried] [--index NAME] [--json FILE]

carried    2,000 events that carry 2 KB each and match 1,000 subscriptions go through `match` in a worker of Spark's,
           which notes the greatest resident size that it had. Bar: 600 MB.

shared     Two workers of one session open the same version of w2 with strings as ids, and each searches the same
           events, all matches, so that table and index are touched. Each notes its memory when the kernels are loaded
           but the version is not (a tiny snapshot was searched), and again when both have searched and still hold it:

    private   pages that no other process has: what a further worker costs
    PSS       private, and of every shared page the share of this worker: half, where two share it

The size it is held against is that of the mapped files: table, index, ids and conditions. Bar: private memory grows by
less than 15 % of it. Exit code 1 when it is missed.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from earmark.spark import Snapshot, match
from earmark.spark.frames import Columns
from earmark.spark.matching import prepared, search_of
from earmark.spark.search import Search, match_batches
from earmark.workload.standard import w2
from results import Figure
from spark_runner import ATTRIBUTES, MIB, Report, bounds_of_w2, measured, parser_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BAR, CARRIED_BAR = 0.15, 600e6
WORKERS = 2
PATIENCE = 300.0  # seconds that a worker waits for the other
COLUMNS = Columns([], [(a, i) for i, a in enumerate(ATTRIBUTES)], None, None, ["subscription", "score", "v"])
NOTED = ["pid", "answers", "private_before", "private_after", "pss_before", "pss_after"]


def memory() -> tuple[int, int]:
    """Private bytes and PSS of this process."""
    fields: dict[str, int] = {}
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]:
        name, value, *_ = line.split()
        fields[name.rstrip(":")] = int(value) * 1024
    return fields["Private_Clean"] + fields["Private_Dirty"], fields["Pss"]


def watch(
    folder: str, tiny: Search, search: Search, events: pa.RecordBatch, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What a worker does: meet the other, look, search, meet again, look again."""
    for _ in batches:
        pass

    def meet(name: str) -> None:
        Path(folder, f"{name}-{os.getpid()}").touch()
        until = time.monotonic() + PATIENCE
        while len(list(Path(folder).glob(f"{name}-*"))) < WORKERS and time.monotonic() < until:
            time.sleep(0.05)

    def answers_of(how: Search) -> int:
        return sum(made.num_rows for made in match_batches(how, COLUMNS, iter([events])))

    answers_of(tiny)
    gc.collect()
    pa.default_memory_pool().release_unused()
    meet("before")
    before = memory()
    answers = answers_of(search)
    gc.collect()
    pa.default_memory_pool().release_unused()
    meet("searched")
    after = memory()
    meet("after")  # nobody leaves before everybody has looked
    values = [os.getpid(), answers, before[0], after[0], before[1], after[1]]
    yield pa.RecordBatch.from_pydict({name: [value] for name, value in zip(NOTED, values, strict=True)})


def mapped_bytes(snapshot: Snapshot) -> int:
    """The size of the files that workers map."""
    return sum(int(entry["bytes"]) for entry in (*snapshot.record["segments"], *snapshot.record["keys"]))


def watch_carried(search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a worker does with a partition of `match`; and last how large it was at most."""
    rows = 0
    for made in match_batches(search, columns, batches):
        rows += made.num_rows
        yield pa.record_batch({"rows": [0], "text": made.column(0).slice(0, 1), "most": [0]})
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    yield pa.record_batch({"rows": [rows], "text": pa.array([None], pa.string()), "most": [most]})


def carried(spark: SparkSession, folder: Path, report: Report, events: int) -> None:
    """What carried columns take in a worker; the session is new, so that the worker has done nothing else."""
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    rules = [(f"subscription {i}", f"a > {i % 50}") for i in range(1_000)]
    book = spark.createDataFrame(rules, "id string, condition string").coalesce(1)
    snapshot = Snapshot.publish(book, folder / "carried")
    frame = spark.range(0, events, 1, 1).selectExpr("repeat('x', 2048) AS text", "99 AS a")
    ready = prepared(frame, snapshot, columns=["text"])
    fields = [StructField("rows", LongType()), StructField("text", StringType()), StructField("most", LongType())]
    noted = ready.run(watch_carried, StructType(fields)).agg({"rows": "sum", "most": "max"}).first()
    rows, most = int(noted["sum(rows)"]), int(noted["max(most)"])
    matched = match(frame, snapshot, columns=["text"]).count()
    report.bar(f"{matched:,} rows come back, as the worker counted", rows == matched == 1_000 * events)
    said = f"{rows:,} rows of 2 KB: a worker takes at most {most / 1e6:,.0f} MB (bar {CARRIED_BAR / 1e6:,.0f})"
    report.bar(said, most <= CARRIED_BAR)
    report.figures.append(Figure("carried", 1_000, "auto", "greatest size of a worker", "MB", [most / 1e6]))


def searched(spark: SparkSession, folder: Path, size: int, index: str) -> tuple[int, list[Any]]:
    """Size of the mapped files, and what each worker noted."""
    from pyspark.sql.types import LongType, StructField, StructType

    texts = pa.array([f"subscription-{i:07d}" for i in range(size)])
    book = bounds_of_w2(size).set_column(0, "id", texts)
    pq.write_table(book, folder / "subscriptions.parquet", row_group_size=100_000)
    frame = spark.read.parquet(str(folder / "subscriptions.parquet"))
    snapshot = Snapshot.publish(frame, folder / "snapshot", index=index)
    tiny = Snapshot.publish(frame.where("id < 'subscription-0000100'"), folder / "tiny", index=index)
    ways = [search_of(spark, one, None, "exact", None, None) for one in (tiny, snapshot)]
    values = np.ascontiguousarray(w2(subscriptions=1).event_value.T)
    events = pa.RecordBatch.from_arrays([pa.array(column) for column in values], ATTRIBUTES)
    schema = StructType([StructField(name, LongType(), True) for name in NOTED])
    (folder / "meeting").mkdir()
    place = str(folder / "meeting")
    two = spark.range(0, WORKERS, 1, WORKERS)
    found = two.mapInArrow(lambda batches: watch(place, *ways, events, batches), schema).collect()
    return mapped_bytes(snapshot), found


def work(spark: SparkSession, folder: Path, options: argparse.Namespace, report: Report) -> None:
    parts = options.parts.split(",")
    if "carried" in parts:  # first: the greatest size is that of the process
        carried(spark, folder, report, 500 if options.quick else 2_000)
    if "shared" in parts:
        shared(spark, folder, options, report)


def shared(spark: SparkSession, folder: Path, options: argparse.Namespace, report: Report) -> None:
    """What two workers have of the same version."""
    size = 200_000 if options.quick else 1_000_000
    mapped, workers = searched(spark, folder, size, options.index)
    print(f"{size:,} subscriptions, index {options.index}: {mapped / MIB:,.1f} MiB of mapped files")
    shares = []
    for number, row in enumerate(workers):
        private, pss = row["private_after"] - row["private_before"], row["pss_after"] - row["pss_before"]
        shares.append(private / mapped)
        print(
            f"  worker {number}: {row['answers']:,} answers; private {row['private_before'] / MIB:,.1f} -> "
            f"{row['private_after'] / MIB:,.1f} MiB (+{private / MIB:,.1f}, {private / mapped:.1%} of the files); "
            f"PSS +{pss / MIB:,.1f} MiB ({pss / mapped:.1%})"
        )
        for what, value in (("private", private), ("PSS", pss)):
            note = f"worker {number}; mapped files {mapped / MIB:.1f} MiB"
            report.figures.append(
                Figure("w2", size, options.index, f"{what} of worker {number}", "MiB", [value / MIB], note=note)
            )
    report.bar(f"{WORKERS} workers took part", len({row["pid"] for row in workers}) == len(workers) == WORKERS)
    report.bar(f"private memory grows by at most {max(shares):.1%} (bar {BAR:.0%})", max(shares) < BAR)


def main() -> int:
    parser = parser_of(__doc__, "200k subscriptions instead of a million")
    parser.add_argument("--parts", default="carried,shared", help="which parts to run (%(default)s)")
    parser.add_argument("--index", default="blocks", help="the snapshot's index (%(default)s)")
    return measured("spark_memory", parser, work, Report())


if __name__ == "__main__":
    sys.exit(main())
