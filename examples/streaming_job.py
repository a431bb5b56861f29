"""A stream of visitors while the campaigns change: every micro-batch sees one version and is written once.

    python examples/streaming_job.py

Run it twice with the same --folder, and the second run continues where the first one ended.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from session import make_session

from earmark.spark import Snapshot, read_matches, stream, workload


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=2_000)
    parser.add_argument("--rows", type=int, default=2_400)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    spark = make_session("earmark streaming job")

    with tempfile.TemporaryDirectory() as spare:
        folder = arguments.folder or Path(spare)
        if not (folder / "ads").exists():
            Snapshot.publish(workload(spark, "ads", "subscriptions", arguments.subscriptions), folder / "ads")
        visitors = workload(spark, "ads", "events", arguments.rows, stream=True, rowsPerBatch=400)

        def progress(report: object) -> None:
            """Print a report after every batch; after the first one, change the campaigns under the running stream."""
            print(report, flush=True)
            if Snapshot.open(folder / "ads").version == 1:
                print(f"published version {change(spark, folder / 'ads').version} meanwhile", flush=True)

        running = stream(
            visitors,
            folder / "ads",
            sink=folder / "matches",
            checkpoint=folder / "checkpoint",
            k=3,
            columns=["event"],
            trigger={"availableNow": True},  # or {"processingTime": "5 seconds"}, which goes on until stop()
            on_progress=progress,
        )
        running.await_end()

        matches = read_matches(spark, folder / "matches")
        print("batch, version, matches:")
        for row in matches.groupBy("batch", "snapshot_version").count().orderBy("batch").collect():
            print(" ", *row, sep=" ")
    spark.stop()


def change(spark: SparkSession, path: Path) -> Snapshot:
    """Publish a small delta version: one new campaign, for everybody, and one removed."""
    rows = [("everybody", "age IS NOT NULL", 5.0, "upsert"), ("ad-0", None, None, "remove")]
    changes = spark.createDataFrame(rows, "id string, condition string, score double, op string")
    return Snapshot.open(path).apply(changes)


if __name__ == "__main__":
    main()
