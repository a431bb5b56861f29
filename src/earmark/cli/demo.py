"""`earmark demo`: ad campaigns against a stream of visitors, in this process or on Spark."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import earmark
import earmark.spark
from earmark.cli import options
from earmark.progress import track

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from earmark.spark import Snapshot
    from earmark.spark.streaming import Report

Figures = dict[str, Any]

BATCHES = 10  # of the stream on Spark, a tenth of the visitors in each
CHANGE_AFTER = 2  # batches
SEEN_AFTER = 3  # batches with the change, then the stream ends
CHANGES = [("everybody", "age IS NOT NULL", 9.0, "add"), ("ad-0", None, None, "remove")]
SHOWN = 3
NEXT = """\
  with files     earmark generate w2 data
                 earmark match data/subscriptions.parquet data/events.parquet -o hits.parquet
                 earmark match --help
  on Spark       earmark demo --spark
  in Python      import earmark; m = earmark.Matcher(); m.add("ad-1", "age > 30"); m.match({"age": 31})
  to read        README.md, docs/cli.md, docs/language.md (the whole language of conditions)"""
NEXT_ON_SPARK = """\
  with files     earmark publish ads.csv ads.snapshot
                 earmark match ads.snapshot visitors.parquet --engine spark -o hits
                 earmark stream arriving ads.snapshot hits --once
  in Python      examples/batch_job.py, streaming_job.py, sql_job.py
  to read        docs/spark.md"""


@click.command(short_help="See earmark at work: ad campaigns against visitors (a minute).")
@options.number("--campaigns", 200_000, "Number of campaigns.", most=5_000_000)
@options.number("--visitors", 5_000, "Number of visitors.", most=1_000_000)
@click.option("--seed", default=1, show_default=True, metavar="N", help="Seed of the market.")
@options.flag("--json as_json", "Print the figures as one JSON object; the story goes to stderr.")
@options.flag("--spark on_spark", "Run on Spark: publish, a batch, a stream (three minutes).")
def demo(campaigns: int, visitors: int, seed: int, as_json: bool, on_spark: bool) -> None:
    """Match ad campaigns with a stream of visitors: load, match, rank, explain.

    Takes about a minute the first time, when kernels are compiled for this machine. The same seed shows the same
    market; only the timings differ.

    \b
    Example
      earmark demo --campaigns 20000
    """
    figures: Figures = {"campaigns": campaigns, "visitors": visitors}
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        begun = time.perf_counter()
        if on_spark:
            _run_on_spark(campaigns, visitors, seed, figures)
        else:
            with _kernels_compiling():
                matcher = _load(campaigns, seed, figures)
            _stream(matcher, visitors, seed, figures)
            _show_visitor(matcher, seed)
        _title("What to try next")
        click.echo(NEXT_ON_SPARK if on_spark else NEXT)
        figures["seconds"] = round(time.perf_counter() - begun, 3)
        click.echo(f"\n{figures['seconds']:.0f} s in all.", err=True)
    if as_json:
        click.echo(json.dumps(figures))


def _title(text: str) -> None:
    """Print the title of a chapter."""
    click.secho(f"\n{text}", bold=True)


def _load(count: int, seed: int, figures: Figures) -> earmark.Matcher:
    from earmark.workload.ads import Campaigns

    click.secho(f"{count:,} ad campaigns, each a SQL condition with weights and a bid", bold=True)
    for campaign in Campaigns(min(count, 3), seed):
        click.echo(f"  {campaign['id']}  {campaign['condition']}")
    market = list(track(Campaigns(count, seed), count, "  inventing"))
    matcher = earmark.Matcher()
    begun = time.perf_counter()
    matcher.add_many(market)
    took = time.perf_counter() - begun
    stats = matcher.stats()
    size = (stats["table_bytes"] + stats["asked_bytes"]) / 2**20
    click.echo(f"  loaded in {took:.1f} s ({count / took:,.0f} per second), {size:,.1f} MB")
    figures |= {"load_seconds": round(took, 3), "megabytes": round(size, 1)}
    return matcher


def _stream(matcher: earmark.Matcher, count: int, seed: int, figures: Figures) -> None:
    from earmark.workload.ads import visitors

    crowd = list(visitors(count, seed))
    matcher.match_many(crowd[:1])  # whatever is still to be compiled, so that the figures show the search
    matcher.top_k_many(crowd[:1], 5)
    _title(f"{count:,} visitors come by")
    searches: list[tuple[str, str, Callable[[Any], Any]]] = [
        ("match", "all matches", matcher.match_many),
        ("top_k", "the five best", lambda group: matcher.top_k_many(group, 5)),
    ]
    for name, what, search in searches:
        begun = time.perf_counter()
        groups = [crowd[start : start + 512] for start in range(0, count, 512)]
        results = sum(search(group).num_rows for group in track(groups, len(groups), what))
        took = time.perf_counter() - begun
        rates = f"{results / took:>11,.0f} matches per second {count / took:>7,.0f} visitors per second"
        click.echo(f"  {what + ':':<15}{results:>12,} found in {took:4.1f} s {rates}")
        figures[name] = {"found": results, "seconds": round(took, 3)}


def _show_visitor(matcher: earmark.Matcher, seed: int) -> None:
    """Show the first visitor for whom there is a match, or else the first."""
    from earmark.workload.ads import visitors

    crowd = list(visitors(100, seed))
    visitor = next((visitor for visitor in crowd if matcher.top_k(visitor, 1)), crowd[0])
    best = matcher.top_k(visitor, 5)
    _title("One of them")
    words = {True: "yes", False: "no"}
    values = {name: words[value] if isinstance(value, bool) else value for name, value in visitor.items()}
    click.echo("  " + ", ".join(f"{name} {value}" for name, value in values.items()))
    _title("The five best campaigns for this visitor")
    for place, ranked in enumerate(best, 1):
        click.echo(f"  {place}. {ranked.id:<10} {ranked.score:5.2f}   {matcher[ranked.id].condition}")
    if best:
        explanation = matcher.explain(best[0].id, visitor)
        _title(f"Why {best[0].id}?")
        click.echo("\n".join([f"  it {explanation.verdict}", *explanation.lines()]))
    for miss in matcher.near_misses(visitor, limit=1):
        _title("A near miss")
        click.echo("\n".join([f"  {miss.id} wants {matcher[miss.id].condition}", *map("  {}".format, miss.failing)]))


@contextlib.contextmanager
def _kernels_compiling() -> Iterator[None]:
    """Compile the kernels on another core meanwhile, if there is a cache without any; they are ready at the end."""
    from earmark.jit import JIT
    from earmark.matcher import DEFAULT_INDEX
    from earmark.segment.evaluate import score_matches

    folder = score_matches._cache.cache_path if JIT else None  # type: ignore[attr-defined]
    if folder is None or any(Path(folder).glob("*score_matches*")):
        yield
        return
    click.echo("(first run: kernels are being compiled for this machine meanwhile; this happens once)\n", err=True)
    command = [sys.executable, "-c", f"from earmark.warming import warm_search; warm_search({DEFAULT_INDEX!r})"]
    helper = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
        helper.wait()
    finally:
        helper.kill()
        helper.wait()


# --- on Spark


def _run_on_spark(campaigns: int, visitors: int, seed: int, figures: Figures) -> None:
    """Publish campaigns, match a batch of visitors, and a stream while the campaigns change."""
    from earmark.cli.spark import session

    begun = time.perf_counter()
    with session(options.MASTER, {}) as spark, tempfile.TemporaryDirectory(prefix="earmark-demo-") as name:
        click.echo(f"Spark {spark.version} with {options.MASTER}, started in {time.perf_counter() - begun:.1f} s")
        folder = Path(name)
        snapshot = _publish(spark, folder / "ads", campaigns, seed, figures)
        _batch(spark, snapshot, visitors, seed, figures)
        _changes(spark, snapshot, folder, visitors, seed, figures)
        _sql(spark, snapshot, seed)


def _publish(spark: SparkSession, path: Path, campaigns: int, seed: int, figures: Figures) -> Snapshot:
    from earmark.cli.spark import ticking

    _title(f"Publish {campaigns:,} ad campaigns")
    market = earmark.spark.workload(spark, "ads", "subscriptions", campaigns, seed=seed)
    with ticking(spark, "  publishing") as elapsed:
        snapshot = earmark.spark.Snapshot.publish(market, path)
        took = elapsed()
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 2**20
    click.echo(f"  version {snapshot.version}: conditions parsed by the workers, index built, in {took:.1f} s")
    click.echo(f"  {size:,.1f} MB in immutable files, which workers map into memory and share")
    figures["publish_seconds"] = round(took, 3)
    return snapshot


def _batch(spark: SparkSession, snapshot: Snapshot, visitors: int, seed: int, figures: Figures) -> None:
    from pyspark.sql import functions as f

    from earmark.cli.spark import ticking

    _title(f"A batch: the five best campaigns for each of {visitors:,} visitors")
    crowd = earmark.spark.workload(spark, "ads", "events", visitors, seed=seed)
    with ticking(spark, "  waking workers"):
        earmark.spark.match(crowd.limit(100), snapshot, k=5, columns=["event"]).count()
    with ticking(spark, "  matching") as elapsed:
        best = earmark.spark.match(crowd, snapshot, k=5, columns=["event", "city", "age"])
        row = best.agg(f.count("*").alias("found"), f.max("score").alias("most")).first()
        took = elapsed()
    assert row is not None
    rate = f"{visitors / took:,.0f} visitors per second"
    click.echo(f"  {row.found:,} found in {took:.1f} s ({rate}), best score {row.most:.2f}")
    for hit in best.filter("event = 0").orderBy(f.desc("score")).limit(SHOWN).collect():
        click.echo(f"  visitor {hit.event} ({hit.age} years, {hit.city}): {hit.subscription:<10} {hit.score:.2f}")
    figures |= {"batch_seconds": round(took, 3), "batch_matches": row.found}


def _changes(spark: SparkSession, snapshot: Snapshot, folder: Path, visitors: int, seed: int, figures: Figures) -> None:
    size = max(visitors // BATCHES, 1)
    _title(f"A stream of visitors, {size:,} every second, campaigns changing meanwhile")
    changed: list[int] = []
    after: list[Report] = []

    def show(report: Report) -> None:
        click.echo(f"  {report}")
        if changed and report.version == changed[0]:
            after.append(report)
        if report.batch + 1 == CHANGE_AFTER:
            begun = time.perf_counter()
            rows = spark.createDataFrame(CHANGES, "id string, condition string, score double, op string")
            changed.append(snapshot.apply(rows).version)
            took = f"{time.perf_counter() - begun:.1f} s"
            click.echo(f"  -> version {changed[0]} published in {took}: 'everybody' added, 'ad-0' removed")

    crowd = earmark.spark.workload(spark, "ads", "events", seed=seed, stream=True, rowsPerBatch=size)
    places = (snapshot.path, folder / "matches", folder / "checkpoint")
    trigger = {"processingTime": "1 second"}
    running = earmark.spark.stream(crowd, *places, k=5, columns=["event"], trigger=trigger, on_progress=show)
    while len(after) < SEEN_AFTER and not running.await_end(0.2):
        pass
    running.stop()
    reports = running.reports()
    versions = sorted({report.version for report in reports})
    click.echo(f"  {len(reports)} batches saw the versions {', '.join(map(str, versions))}, each of them one version")
    matches = earmark.spark.read_matches(spark, folder / "matches").filter("subscription = 'everybody'")
    for row in matches.groupBy("snapshot_version").count().collect():
        times, version = row["count"], row.snapshot_version
        click.echo(f"  'everybody' is among the five best {times:,} times, always in version {version}")
    figures |= {"stream_batches": len(reports), "versions": versions}


def _sql(spark: SparkSession, snapshot: Snapshot, seed: int) -> None:
    _title("The same in SQL, of the newest version")
    earmark.spark.register(spark, snapshot.latest(), "top_matches")
    earmark.spark.workload(spark, "ads", "events", 1_000, seed=seed).createOrReplaceTempView("visitors")
    query = "SELECT e.event, e.city, m.* FROM visitors e, LATERAL (SELECT inline(top_matches(struct(e.*), 2))) m"
    click.echo(f"  {query}")
    for row in spark.sql(f"{query} ORDER BY event, score DESC LIMIT 4").collect():
        click.echo(f"    {row.event:>3}  {row.city or '':<8} {row.subscription:<12} {row.score:.2f}")
