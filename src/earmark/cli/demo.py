"""`earmark demo`: ads against visitors, in this process or on Spark."""

from __future__ import annotations

import contextlib
import json
import statistics
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
from earmark.errors import EarmarkError
from earmark.language.words import counted
from earmark.progress import is_shown, track

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from earmark.spark import Snapshot
    from earmark.spark.sinks import Report

Figures = dict[str, Any]
Visitor = dict[str, Any]

BATCHES = 10  # of the stream on Spark, a tenth of the visitors in each
CHANGE_AFTER = 2  # batches
SEEN_AFTER = 3  # batches with the change, then the stream ends
CHANGES_ON_SPARK = [("everybody", "age IS NOT NULL", 9.0, "add"), ("ad-0", None, None, "remove")]
SHOWN = 3
LEAST_TRAITS = 5  # so that a visitor matches tens of 200,000 ads
SAMPLE = 20  # visitors that a loop over all ads is given
AT_ONCE = 512  # visitors in a batch
CHANGES = 500
WIDTH = 100  # of a line with a condition
REHEARSED = 10_000  # ads: enough to compile what the whole demo needs
BESIDE = {"sqlite": "SQLite's speed", "loop": "the loop's"}
PER_VISITOR = " per visitor"
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


@click.command(short_help="See earmark at work: ads matched with visitors (half a minute).")
@options.number("--campaigns", 200_000, "Number of ads.", most=5_000_000)
@options.number("--visitors", 5_000, "Number of visitors.", most=1_000_000)
@click.option("--seed", default=1, show_default=True, metavar="N", help="Seed of the market.")
@options.flag("--json as_json", "Print the figures as one JSON object; the story goes to stderr.")
@options.flag("--spark on_spark", "Run on Spark: publish, a batch, a stream (three minutes).")
def demo(campaigns: int, visitors: int, seed: int, as_json: bool, on_spark: bool) -> None:
    """Match ads with visitors: how long it takes, with earmark and without, and why an ad matches.

    Takes about half a minute; the first time a little longer, while kernels are compiled for this machine. The same
    seed shows the same market; only the timings differ.

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
            _run_here(campaigns, visitors, seed, figures, _kernels_compiling())
        _title("What to try next")
        click.echo(NEXT_ON_SPARK if on_spark else NEXT)
        figures["seconds"] = round(time.perf_counter() - begun, 3)
        click.echo(f"\n{figures['seconds']:.0f} s in all.", err=True)
    if as_json:
        click.echo(json.dumps(figures))


def _title(text: str) -> None:
    """Print the title of a chapter."""
    click.secho(f"\n{text}", bold=True)


# --- in this process


def _run_here(
    campaigns: int, visitors: int, seed: int, figures: Figures, compiling: contextlib.AbstractContextManager[None]
) -> None:
    """Tell the whole story; at the end of `compiling`, kernels are compiled."""
    from earmark.workload import ads

    crowd = list(ads.visitors(visitors, seed))
    with compiling:
        market = _invent(campaigns, visitors, seed)
        alone = _ask_without(market, crowd[:SAMPLE], figures)
    matcher = _load(market, figures)
    _ask(matcher, crowd, alone, figures)
    _change(matcher, crowd, seed, figures)
    _show_visitor(matcher, crowd)


def rehearse() -> None:
    """Run a small demo, which compiles what a large one needs."""
    _run_here(REHEARSED, 2 * SAMPLE, 1, {}, contextlib.nullcontext())


def _invent(count: int, visitors: int, seed: int) -> list[dict[str, Any]]:
    """Draw the ads, and say what the demo is about."""
    from earmark.workload.ads import Campaigns

    click.secho(f"{count:,} ads, {visitors:,} visitors: which ads does each visitor match?", bold=True)
    click.echo("  An ad is a SQL condition, with weights and a bid:")
    for ad in Campaigns(min(count, SHOWN), seed, LEAST_TRAITS):
        click.echo(_cut(f"  {ad['id']}  {ad['condition']}"))
    return list(track(Campaigns(count, seed, LEAST_TRAITS), count, "  inventing ads"))


def _ask_without(market: list[dict[str, Any]], sample: list[Visitor], figures: Figures) -> list[list[str]]:
    """Time a loop and SQLite on a few visitors; their answers."""
    from earmark.cli import without

    _title(f"Without earmark, for {counted(len(sample), 'visitor')}")
    wanted = [without.traits(ad["condition"]) for ad in track(market, len(market), "  reading conditions")]
    contenders = [
        ("loop", "a loop in Python", without.loop(wanted)),
        ("sqlite", "SQLite, indexed by interest and city", without.sqlite(wanted)),
    ]
    answers = []
    for name, what, ask in contenders:
        begun = time.thread_time()  # the processor's: kernels may be compiling meanwhile, which is not their fault
        answers.append([[f"ad-{number}" for number in ask(visitor)] for visitor in sample])
        figures[name] = _say(what, (time.thread_time() - begun) / len(sample), PER_VISITOR)
    _check(answers[0] == answers[1])
    return answers[0]


def _load(market: list[dict[str, Any]], figures: Figures) -> earmark.Matcher:
    _title("With earmark")
    matcher = earmark.Matcher()
    begun = time.perf_counter()
    matcher.add_many(market)
    took = time.perf_counter() - begun
    stats = matcher.stats()
    size = (stats["table_bytes"] + stats["asked_bytes"]) / 2**20
    click.echo(f"  loaded in {took:.1f} s ({len(market) / took:,.0f} ads per second), {size:,.1f} MB")
    figures |= {"load_seconds": round(took, 3), "megabytes": round(size, 1)}
    return matcher


def _ask(matcher: earmark.Matcher, crowd: list[Visitor], alone: list[list[str]], figures: Figures) -> None:
    """Time every way to ask; the first answers must be those found without earmark."""
    groups = [crowd[start : start + AT_ONCE] for start in range(0, len(crowd), AT_ONCE)]
    searches: list[tuple[str, str, list[Any], Callable[[Any], Any]]] = [
        ("match", "match(visitor)", crowd, matcher.match),
        ("match_many", "match_many(visitors)", groups, matcher.match_many),
        ("top_k", "top_k(visitor, 5)", crowd, lambda visitor: matcher.top_k(visitor, 5)),
        ("top_k_many", "top_k_many(visitors, 5)", groups, lambda group: matcher.top_k_many(group, 5)),
    ]
    for name, what, asked, search in searches:
        search(asked[0])  # whatever is still to be compiled, so that the figures show the search
        begun = time.perf_counter()
        answers = [search(one) for one in track(asked, len(asked), f"  {what}")]
        took = (time.perf_counter() - begun) / len(crowd)
        aside = f", {AT_ONCE} in a call" if asked is groups else ""
        if name == "match":
            _check(answers[: len(alone)] == alone)
            figures["matches"] = sum(map(len, answers))
            aside = "".join(f", {figures[other] / 1e6 / took:,.0f} x {text}" for other, text in BESIDE.items())
        figures[name] = _say(what, took, PER_VISITOR + aside)
    mean = figures["matches"] / len(crowd)
    click.echo(f"  {mean:,.1f} matches per visitor, the same ads as without earmark")


def _change(matcher: earmark.Matcher, crowd: list[Visitor], seed: int, figures: Figures) -> None:
    """Time changes, and searches between them."""
    from earmark.workload.ads import Campaigns

    ads = len(matcher)
    count = max(1, min(CHANGES, ads // 2))
    _title(f"Meanwhile ads change: {count} added, {count} with a new bid, {count} removed, a visitor after each")
    took: dict[str, list[float]] = {"add": [], "update": [], "remove": [], "match": []}

    def timed(name: str, change: Callable[..., Any], *given: Any, **more: Any) -> None:
        begun = time.perf_counter()
        change(*given, **more)
        took[name].append(time.perf_counter() - begun)

    for number, ad in enumerate(track(Campaigns(count, seed + 1, LEAST_TRAITS), count, "  changing")):
        visitor = crowd[number % len(crowd)]
        timed("add", matcher.add, f"new-{number}", ad["condition"], weights=ad["weights"], score=ad["score"])
        timed("match", matcher.match, visitor)
        timed("update", matcher.update, f"ad-{number}", score=ad["score"])
        timed("match", matcher.match, visitor)
        timed("remove", matcher.remove, f"ad-{ads - 1 - number}")
        timed("match", matcher.match, visitor)
    for name, seconds in took.items():
        figures[f"{name}_meanwhile"] = _say(f"{name}(…)", statistics.median(seconds), ", the median")


def _say(what: str, seconds: float, aside: str) -> float:
    """Print a line with a figure; return it in microseconds."""
    microseconds = seconds * 1e6
    value = f"{microseconds:,.0f}" if microseconds >= 100 else f"{microseconds:.1f}"
    click.echo(f"  {what:<37}{value:>9} µs{aside}")
    return round(microseconds, 2)


def _cut(line: str) -> str:
    """Cut a line with a condition to what a terminal shows in one."""
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def _check(same: bool) -> None:
    if not same:
        raise EarmarkError("the answers with and without earmark differ; please report this, with the seed")


def _show_visitor(matcher: earmark.Matcher, crowd: list[Visitor]) -> None:
    """Show one of the first visitors: one with five matches, or else with the most."""
    ranked = [(len(matcher.top_k(visitor, 5)), -place) for place, visitor in enumerate(crowd[:100])]
    visitor = crowd[-max(ranked)[1]]
    best = matcher.top_k(visitor, 5)
    _title("One of the visitors")
    words = {True: "yes", False: "no"}
    values = {name: words[value] if isinstance(value, bool) else value for name, value in visitor.items()}
    click.echo("  " + ", ".join(f"{name} {value}" for name, value in values.items()))
    _title("The five best ads for this visitor")
    for place, (ad, score) in enumerate(best, 1):
        click.echo(_cut(f"  {place}. {ad:<10} {score:5.2f}   {matcher[ad].condition}"))
    if best:
        explanation = matcher.explain(best[0].id, visitor)
        _title(f"Why {best[0].id}?")
        click.echo("\n".join([f"  it {explanation.verdict}", *explanation.lines()]))
    for miss in matcher.near_misses(visitor, limit=1):
        _title("A near miss")
        click.echo(_cut(f"  {miss.id} wants {matcher[miss.id].condition}"))
        click.echo("\n".join(f"  {reason}" for reason in miss.failing))


@contextlib.contextmanager
def _kernels_compiling() -> Iterator[None]:
    """Compile the kernels on another core meanwhile, if there is a cache without any; they are ready at the end."""
    from earmark.index.auto.helper import ended, started
    from earmark.jit import JIT
    from earmark.segment.evaluate import score_matches

    folder = score_matches._cache.cache_path if JIT else None  # type: ignore[attr-defined]
    if folder is None or any(Path(folder).glob("*score_matches*")):
        yield
        return
    click.echo("(first run: kernels are being compiled for this machine meanwhile; this happens once)\n", err=True)
    begun = time.monotonic()
    helper = started("from earmark.cli.demo import rehearse; rehearse()")
    try:
        yield
        while helper.poll() is None:
            if is_shown():
                click.echo(f"\r  waiting for kernels: {time.monotonic() - begun:.0f} s", err=True, nl=False)
            time.sleep(0.2)
        if is_shown():
            click.echo("\r\x1b[K", err=True, nl=False)
    finally:
        ended(helper)


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
            rows = spark.createDataFrame(CHANGES_ON_SPARK, "id string, condition string, score double, op string")
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
