"""`earmark stream`: files of events as they arrive, against the newest version of a snapshot."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from earmark.cli import options
from earmark.cli.session import session
from earmark.errors import EarmarkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from earmark.spark.ledger import Report
    from earmark.spark.streaming import Stream


@click.command(short_help="Events as they arrive, against a snapshot that changes meanwhile.")
@click.argument("events")
@click.argument("snapshot")
@click.argument("sink")
@click.option("--checkpoint", metavar="FOLDER", help="Where Spark notes how far it is.  [default: SINK.checkpoint]")
@click.option(
    "-k", type=click.IntRange(1), metavar="N", help="Only the k best an event; --mode relaxed needs it.  [default: all]"
)
@options.mode
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME",
    help="An event column to keep. May be repeated.  [default: all]",
)
@options.scope
@options.weights
@click.option("--event-time", metavar="COLUMN", help="When an event happened; from it the lag is reckoned.")
@click.option(
    "--files",
    type=click.IntRange(1),
    metavar="N",
    help="At most so many files in a batch.  [default: all that are there]",
)
@click.option("--every", metavar="TIME", help="How often, such as '10 seconds'.  [default: as soon as possible]")
@click.option("--once", is_flag=True, help="What is there now, and then end.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object a batch, on stdout.")
@options.on_spark
def stream(
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

    Matches go to the folder SINK, a folder batch=N a batch, whose file _earmark.json says that it is done. A run
    that is interrupted, or killed, goes on where it was when it is started again with the same folders: nothing is
    lost, and nothing is there twice. It runs until Ctrl-C, unless --once.

    \b
    Examples
      earmark stream arriving ads.snapshot hits -k 10 --every '5 seconds'
      earmark stream arriving ads.snapshot hits --once --json
    """
    if once and every:
        raise EarmarkError("--once and --every exclude each other")
    trigger: dict[str, Any] | None = {"availableNow": True} if once else {"processingTime": every} if every else None

    def tell(report: Report) -> None:
        if as_json:
            click.echo(json.dumps(asdict(report)))
        else:
            click.echo(str(report), err=True)

    with session(master, conf) as spark:
        from earmark.spark.streaming import stream as start

        arriving = _arriving(spark, events, files)
        chosen: dict[str, Any] = {name: value or None for name, value in given.items()}
        running = start(
            arriving, snapshot, sink, checkpoint or f"{sink.rstrip('/')}.checkpoint",
            trigger=trigger, on_progress=tell, **chosen,
        )  # fmt: skip
        _wait(running)


def _wait(running: Stream) -> None:
    """Until the stream ends, or a signal ends it: waiting in another thread, so that no call is cut in two."""
    problems: list[BaseException] = []

    def wait() -> None:
        try:
            running.await_end()
        except Exception as problem:  # raised again below, in the thread that tells it
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
    """The files of a folder as a stream; the first ones there say which columns they have."""
    from earmark.spark.ledger import address

    path = Path(folder).absolute()
    if not path.is_dir():
        raise EarmarkError(f"{folder!r} is not a folder in which Parquet files of events arrive")
    if not any(path.glob("*.parquet")):
        raise EarmarkError(f"{folder!r} has no .parquet file yet, which would say what columns events have")
    reader = spark.readStream.schema(spark.read.parquet(address(path)).schema)
    if files is not None:
        reader = reader.option("maxFilesPerTrigger", files)
    return reader.option("pathGlobFilter", "*.parquet").parquet(address(path))
