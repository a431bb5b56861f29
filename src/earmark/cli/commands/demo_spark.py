"""`earmark demo --spark`: publish campaigns, match a batch of visitors, and a stream while the campaigns change."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from earmark.cli.commands.demo import Figures, title
from earmark.cli.spark.session import MASTER, session, ticking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from earmark.spark import Snapshot
    from earmark.spark.streaming import Report

BATCHES = 10  # a tenth of the visitors in each
CHANGE_AFTER = 2  # batches
SEEN_AFTER = 3  # batches with the change, then the stream ends
SHOWN = 3


def demo_spark(campaigns: int, visitors: int, seed: int, figures: Figures) -> None:
    """Publish, match and stream, and add to the figures."""
    begun = time.perf_counter()
    with session(MASTER, {}) as spark, tempfile.TemporaryDirectory(prefix="earmark-demo-") as name:
        click.echo(f"Spark {spark.version} with {MASTER}, started in {time.perf_counter() - begun:.1f} s")
        folder = Path(name)
        snapshot = _publish(spark, folder / "ads", campaigns, seed, figures)
        _batch(spark, snapshot, visitors, seed, figures)
        _stream(spark, snapshot, folder, visitors, seed, figures)
        _sql(spark, snapshot, seed)
    title("What to try next")
    click.echo(NEXT)


def _publish(spark: SparkSession, path: Path, campaigns: int, seed: int, figures: Figures) -> Snapshot:
    from earmark.spark import Snapshot, workload

    title(f"Publish {campaigns:,} ad campaigns")
    with ticking(spark, "  publishing") as elapsed:
        snapshot = Snapshot.publish(workload(spark, "ads", "subscriptions", campaigns, seed=seed), path)
        took = elapsed()
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 2**20
    click.echo(f"  version {snapshot.version}: conditions parsed by the workers, index built, in {took:.1f} s")
    click.echo(f"  {size:,.1f} MB in immutable files, which workers map into memory and share")
    figures["publish_seconds"] = round(took, 3)
    return snapshot


def _batch(spark: SparkSession, snapshot: Snapshot, visitors: int, seed: int, figures: Figures) -> None:
    from pyspark.sql import functions as f

    from earmark.spark import match, workload

    title(f"A batch: the five best campaigns for each of {visitors:,} visitors")
    crowd = workload(spark, "ads", "events", visitors, seed=seed)
    with ticking(spark, "  waking workers"):
        match(crowd.limit(100), snapshot, k=5, columns=["event"]).count()
    with ticking(spark, "  matching") as elapsed:
        best = match(crowd, snapshot, k=5, columns=["event", "city", "age"])
        row = best.agg(f.count("*").alias("found"), f.max("score").alias("most")).first()
        took = elapsed()
    assert row is not None
    rate = f"{visitors / took:,.0f} visitors per second"
    click.echo(f"  {row.found:,} found in {took:.1f} s ({rate}), best score {row.most:.2f}")
    for hit in best.filter("event = 0").orderBy(f.desc("score")).limit(SHOWN).collect():
        click.echo(f"  visitor {hit.event} ({hit.age} years, {hit.city}): {hit.subscription:<10} {hit.score:.2f}")
    figures |= {"batch_seconds": round(took, 3), "batch_matches": row.found}


def _stream(spark: SparkSession, snapshot: Snapshot, folder: Path, visitors: int, seed: int, figures: Figures) -> None:
    from earmark.spark import read_matches, stream, workload

    size = max(visitors // BATCHES, 1)
    title(f"A stream of visitors, {size:,} every second, campaigns changing meanwhile")
    changed: list[int] = []
    after: list[Report] = []

    def show(report: Report) -> None:
        click.echo(f"  {report}")
        if changed and report.version == changed[0]:
            after.append(report)
        if report.batch + 1 == CHANGE_AFTER:
            begun = time.perf_counter()
            changed.append(_change(spark, snapshot).version)
            took = f"{time.perf_counter() - begun:.1f} s"
            click.echo(f"  -> version {changed[0]} published in {took}: 'everybody' added, 'ad-0' removed")

    running = stream(
        workload(spark, "ads", "events", seed=seed, stream=True, rowsPerBatch=size),
        snapshot.path,
        folder / "matches",
        folder / "checkpoint",
        k=5,
        columns=["event"],
        trigger={"processingTime": "1 second"},
        on_progress=show,
    )
    while len(after) < SEEN_AFTER and not running.await_end(0.2):
        pass
    running.stop()
    reports = running.reports()
    versions = sorted({report.version for report in reports})
    click.echo(f"  {len(reports)} batches saw the versions {', '.join(map(str, versions))}, each of them one version")
    matches = read_matches(spark, folder / "matches").filter("subscription = 'everybody'")
    for row in matches.groupBy("snapshot_version").count().collect():
        times, version = row["count"], row.snapshot_version
        click.echo(f"  'everybody' is among the five best {times:,} times, always in version {version}")
    figures |= {"stream_batches": len(reports), "versions": versions}


def _change(spark: SparkSession, snapshot: Snapshot) -> Snapshot:
    rows = [("everybody", "age IS NOT NULL", 9.0, "add"), ("ad-0", None, None, "remove")]
    return snapshot.apply(spark.createDataFrame(rows, "id string, condition string, score double, op string"))


def _sql(spark: SparkSession, snapshot: Snapshot, seed: int) -> None:
    from earmark.spark import register, workload

    title("The same in SQL, of the newest version")
    register(spark, snapshot.latest(), "top_matches")
    workload(spark, "ads", "events", 1_000, seed=seed).createOrReplaceTempView("visitors")
    query = "SELECT e.event, e.city, m.* FROM visitors e, LATERAL (SELECT inline(top_matches(struct(e.*), 2))) m"
    click.echo(f"  {query}")
    for row in spark.sql(f"{query} ORDER BY event, score DESC LIMIT 4").collect():
        click.echo(f"    {row.event:>3}  {row.city or '':<8} {row.subscription:<12} {row.score:.2f}")


NEXT = """\
  with files     earmark publish ads.csv ads.snapshot
                 earmark match ads.snapshot visitors.parquet --engine spark -o hits
                 earmark stream arriving ads.snapshot hits --once
  in Python      examples/batch_job.py, streaming_job.py, sql_job.py
  to read        docs/spark.md"""
