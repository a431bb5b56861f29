"""The commands that search: `earmark match`, `top-k`, `explain`, `backtest` and `stream`."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

import earmark.spark
from earmark.cli import options
from earmark.cli.shown import printable
from earmark.errors import EarmarkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from earmark.spark.sinks import Report
    from earmark.spark.streaming import Stream

EXAMPLE = """'{"age": 27}'"""
_files = options.together(click.argument("subscriptions"), click.argument("events"))
_search = options.together(
    options.output,
    options.json_rows,
    options.event_id,
    options.scope,
    options.at,
    options.rejects,
    options.index(),
    options.reading,
    options.number("--threads", None, "Threads that search.  [default: as many as there are cores]"),
    options.choice("--engine", "local", ["local", "spark"], "Search in this process, or on Spark's workers."),
    options.on_spark,
)


def _run(asked: dict[str, Any], at: str | None, engine: str, given: dict[str, Any]) -> None:
    """Search with the chosen engine; `asked` and `at` are the arguments of the search itself.

    What is empty among `asked` was not given; an empty `at` is a wrong one.
    """
    asked = {name: value or None for name, value in asked.items()}
    threads = given.pop("threads")
    if engine == "spark":
        if given["reading"].as_of is not None:
            raise EarmarkError("--as-of is for --engine local; on Spark, match a version of the book")
        if threads is not None:
            raise EarmarkError("--threads is for --engine local; on Spark every task searches on one thread")
        if given.pop("rejects").is_given:
            why = "--engine spark does not have them yet"
            raise EarmarkError(f"--on-error and --reject are for the local engine; {why}")
        from earmark.cli.spark import run_on_spark

        run_on_spark(**asked, at=at, **given)
        return
    for name in ("master", "conf"):
        if click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise EarmarkError(f"--{name} is for --engine spark")
        del given[name]
    from earmark.cli.search import run
    from earmark.matcher import Matcher

    search = partial(Matcher.top_k_many if "k" in asked else Matcher.match_many, threads=threads, **asked)
    run(search, weights=asked.get("weights") or (), at=at, **given)


@click.command(short_help="Find all subscriptions that each event matches.")
@_files
@_search
def match(scope: dict[str, str], at: str | None, engine: str, **given: Any) -> None:
    """Find all subscriptions that each event matches, as rows of (event, subscription, score).

    SUBSCRIPTIONS is a file with columns id and condition (and optionally score, weights, tags, starts, ends), or with
    ready-made bounds (a column ranges, or pairs such as age_lo and age_hi), or a folder: a book, as it is or --as-of
    a change, or what `earmark save` wrote. EVENTS is a file of any size with one column per attribute. One of the two
    may be -, which is standard input.

    With --engine spark, SUBSCRIPTIONS may also be a snapshot that `earmark publish` wrote, EVENTS is a Parquet file
    or a folder of them, and -o may name a new folder (a name without a suffix), which the workers fill.

    \b
    Examples
      earmark match ads.csv visitors.parquet -o hits.parquet
      earmark match ads.snapshot visitors.parquet --engine spark --master 'local[4]' -o hits
      earmark match ads.csv visitors.jsonl --scope tenant=acme --event-id visitor
      earmark match ads.csv visitors.csv.gz --attribute 'price=decimal(9,2)' --json
      tail -1000 visitors.jsonl | earmark match ads.csv - --format jsonl
    """
    _run({"scope": scope}, at, engine, given)


@click.command("top-k", short_help="Find the k best subscriptions for each event.")
@_files
@options.number("-k", 10, "Results per event.")
@options.mode
@options.weights
@_search
def top_k(k: int, mode: str, weights: dict[str, float], scope: dict[str, str], at: str | None, **given: Any) -> None:
    """Find the k best subscriptions for each event, best first, as rows of (event, subscription, score).

    A score is the subscription's own score plus, for each attribute in its condition, its weight times the event's
    weight. Of equal scores, the subscription that was added first wins. SUBSCRIPTIONS and EVENTS are as for
    `earmark match`.

    \b
    Examples
      earmark top-k ads.csv visitors.parquet -k 5 -o best.csv
      earmark top-k ads.csv visitors.jsonl --mode relaxed --weight age=2 --json
    """
    _run({"k": k, "mode": mode, "weights": weights, "scope": scope}, at, given.pop("engine"), given)


@click.command(short_help="Explain why a subscription matches an event, or not.")
@click.argument("subscriptions")
@click.argument("id")
@click.argument("event")
@options.json_object("Print the explanation")
@options.at
@options.index(shown="none, since only one subscription is evaluated")
@options.reading
def explain(subscriptions: str, id: str, event: str, as_json: bool, at: str | None, reading: options.Reading) -> int:
    """Explain why subscription ID matches EVENT, or not: each constraint, what it expected, what it got.

    EVENT is a JSON object; the exit code is 0 when it matches, 1 when it does not. SUBSCRIPTIONS is as for
    `earmark match`.

    \b
    Examples
      earmark explain ads.csv ad-17 '{"age": 27, "city": "Oslo"}'
      earmark explain ads.csv ad-17 '{"age": {"lo": 20, "hi": 30}}' --json
    """
    from earmark.cli.files import load
    from earmark.tabular.write import plain_json

    try:
        row = json.loads(event)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise EarmarkError(f"EVENT: expected a JSON object such as {EXAMPLE}, got {event[:100]!r}")
    reading.check(subscriptions)
    # One subscription is evaluated, so no index is built unless asked for.
    matcher, _ = load(subscriptions, replace(reading, index=reading.index or options.NO_INDEX))
    number = int(id) if re.fullmatch(r"-?\d{1,19}", id) else None
    key: Any = number if id not in matcher and number in matcher else id
    explanation = matcher.explain(key, row, at=at)
    if as_json:
        click.echo(json.dumps(plain_json(asdict(explanation)), default=str))
    else:
        lines = [f"{explanation.id!r} {explanation.verdict}", *explanation.lines()]
        click.echo("\n".join(map(printable, lines)))
    return 0 if explanation.matched else 1


@click.command(short_help="Count how often each subscription would have matched past events.")
@click.argument("sources", nargs=-1, required=True, metavar="[SUBSCRIPTIONS] EVENTS")
@click.option("--condition", metavar="SQL", help="One condition, instead of a file of subscriptions.")
@options.number("--sample", 3, "Matching events to show per subscription.", least=0)
@options.output
@options.json_rows
@options.event_id
@options.at
@options.rejects
@options.index()
@options.reading
def backtest(sources: tuple[str, ...], condition: str | None, at: str | None, **given: Any) -> None:
    """Count how often each subscription would have matched: rows of (subscription, matches, share, sample).

    SUBSCRIPTIONS and EVENTS are as for `earmark match`; with --condition there is no file of subscriptions. The share
    is of all events, and the sample is the first events that match. Events are read in batches, so the file may be of
    any size; earmark.spark.backtest does the same on Spark.

    \b
    Examples
      earmark backtest ads.csv visitors.parquet
      earmark backtest --condition "age > 30 AND city = 'Oslo'" visitors.parquet --event-id who
      earmark backtest candidates.csv visitors.parquet --sample 0 -o shares.parquet
    """
    wanted = 1 if condition is not None else 2
    if len(sources) != wanted:
        named = "EVENTS alone, since --condition is given" if wanted == 1 else "SUBSCRIPTIONS and EVENTS"
        raise EarmarkError(f"backtest: expected {named}, got {len(sources)} file{'s' * (len(sources) > 1)}")
    from earmark.cli.search import run
    from earmark.matcher import Matcher

    subscriptions = sources[0] if condition is None else None
    condition = condition or ""
    run(Matcher.match_many, subscriptions=subscriptions, condition=condition, events=sources[-1], at=at, **given)


_COLUMNS = "Event column to keep. May be repeated.  [default: all]"


@click.command(short_help="Match events as they arrive, while the snapshot changes.")
@click.argument("events")
@click.argument("snapshot")
@click.argument("sink")
@click.option("--checkpoint", metavar="FOLDER", help="Folder of Spark's checkpoint.  [default: SINK.checkpoint]")
@options.number("-k", None, "Results per event; --mode relaxed needs it.  [default: all]")
@options.mode
@click.option("--column", "columns", multiple=True, metavar="NAME", help=_COLUMNS)
@options.scope
@options.weights
@click.option("--event-time", metavar="COLUMN", help="Column of the time of an event, to report the lag.")
@options.number("--files", None, "Most files per batch.  [default: all that have arrived]")
@click.option("--every", metavar="TIME", help="Time between batches, such as '10 seconds'.  [default: none]")
@options.flag("--once", "Match the files that are there now, then end.")
@options.flag("--json as_json", "Print one JSON object per batch.")
@options.on_spark
def stream(
    *,
    events: str,
    snapshot: str,
    sink: str,
    checkpoint: str | None,
    as_json: bool,
    once: bool,
    every: str | None,
    files: int | None,
    master: str,
    conf: dict[str, str],
    **given: Any,
) -> None:
    """Match the Parquet files that appear in the folder EVENTS with the newest version of SNAPSHOT, batch by batch.

    Matches go to the folder SINK, one folder batch=N per batch, whose file _earmark.json says that it is done. A run
    that was interrupted or killed continues when it is started again with the same folders: nothing is lost or
    duplicated. It runs until Ctrl-C, unless --once.

    \b
    Examples
      earmark stream arriving ads.snapshot hits -k 10 --every '5 seconds'
      earmark stream arriving ads.snapshot hits --once --json
    """
    if once and every:
        raise EarmarkError("--once and --every exclude each other")
    trigger: dict[str, Any] | None = {"availableNow": True} if once else {"processingTime": every} if every else None

    def show(report: Report) -> None:
        click.echo(json.dumps(asdict(report)) if as_json else str(report), err=not as_json)

    from earmark.cli.spark import session

    with session(master, conf) as spark:
        arriving = _arriving(spark, events, files)
        chosen: dict[str, Any] = {name: value or None for name, value in given.items()}
        folder = checkpoint or f"{sink.rstrip('/')}.checkpoint"
        _wait(earmark.spark.stream(arriving, snapshot, sink, folder, trigger=trigger, on_progress=show, **chosen))


def _wait(running: Stream) -> None:
    """Wait until the stream or a signal ends, in another thread, so that no call to Spark is interrupted."""
    problems: list[BaseException] = []

    def wait() -> None:
        try:
            running.await_end()
        except Exception as problem:  # raised again below, in the main thread
            problems.append(problem)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    try:
        while waiting.is_alive():
            waiting.join(0.2)
    except BaseException:
        running.stop(wait=5)
        raise
    if problems:
        raise problems[0]


def _arriving(spark: SparkSession, folder: str, files: int | None) -> DataFrame:
    """Return the files of a folder as a stream; the first ones say which columns there are."""
    from earmark.spark.frames import address

    path = Path(folder).absolute()
    if not path.is_dir():
        raise EarmarkError(f"expected a folder in which Parquet files of events arrive, got {folder!r}")
    if not any(path.glob("*.parquet")):
        raise EarmarkError(f"{folder!r} has no .parquet file yet, from which to read the columns of events")
    reader = spark.readStream.schema(spark.read.parquet(address(path)).schema)
    if files is not None:
        reader = reader.option("maxFilesPerTrigger", files)
    return reader.option("pathGlobFilter", "*.parquet").parquet(address(path))
