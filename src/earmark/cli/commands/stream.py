"""`earmark stream`: match files of events as they arrive, with the newest version of a snapshot."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from earmark.cli import options
from earmark.cli.spark.session import session
from earmark.errors import EarmarkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from earmark.spark.streaming import Report, Stream


@click.command(short_help="Match events as they arrive, while the snapshot changes.")
@click.argument("events")
@click.argument("snapshot")
@click.argument("sink")
@click.option("--checkpoint", metavar="FOLDER", help="Folder of Spark's checkpoint.  [default: SINK.checkpoint]")
@options.number("-k", None, "Results per event; --mode relaxed needs it.  [default: all]")
@options.mode
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME",
    help="Event column to keep. May be repeated.  [default: all]",
)
@options.scope
@options.weights
@click.option("--event-time", metavar="COLUMN", help="Column of the time of an event, to report the lag.")
@options.number("--files", None, "Most files per batch.  [default: all that have arrived]")
@click.option("--every", metavar="TIME", help="Time between batches, such as '10 seconds'.  [default: none]")
@options.flag("--once", "Match the files that are there now, then end.")
@options.flag("--json", "Print one JSON object per batch.", "as_json")
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

    with session(master, conf) as spark:
        from earmark.spark.streaming import stream as start

        arriving = _arriving(spark, events, files)
        chosen: dict[str, Any] = {name: value or None for name, value in given.items()}
        folder = checkpoint or f"{sink.rstrip('/')}.checkpoint"
        _wait(start(arriving, snapshot, sink, folder, trigger=trigger, on_progress=show, **chosen))


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
