"""Commands on Spark: a session that ends with the command, subscriptions as a DataFrame, and the search itself.

`run_on_spark` is `earmark match --engine spark` and `top-k --engine spark`: the same results as those of
`earmark.cli.search.run`, found by Spark's workers.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

import earmark.spark
from earmark.book.folder import is_book
from earmark.cli import is_debugging
from earmark.cli.files import load, write_tables
from earmark.cli.options import NO_INDEX, Reading
from earmark.cli.search import Rejects, sum_up
from earmark.errors import EarmarkError
from earmark.progress import is_shown
from earmark.tabular.subscriptions import NESTED, as_pairs, column_of, read_subscriptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    "spark.app.name": "earmark",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.python.unix.domain.socket.enabled": "true",
}
TICK = 0.5
EVENT, ROW = "__event", "__row"
GROUP = 50_000


@contextlib.contextmanager
def session(master: str, conf: dict[str, str]) -> Iterator[SparkSession]:
    """Start a session, and stop it at the end. What Spark throws inside becomes a sentence."""
    earmark.spark.require_pyspark()
    from earmark.spark.sentences import message_of, sentence_of

    if not master.startswith("sc://"):
        earmark.spark.ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with _quiet() as log:
        try:
            spark = _started(master, conf)
        except Exception as problem:  # Spark's own, Java's, py4j's
            why = _last_line(log) or message_of(problem)
            raise EarmarkError(f"Spark did not start with the master {master!r}: {why}") from None
        stop: Callable[[], None] = spark.stop
        try:
            yield spark
        except (EarmarkError, OSError):
            raise
        except Exception as problem:  # Spark's own have no common base on classic and Connect
            raise sentence_of(problem) from problem
        except BaseException:  # a signal: the last call may still be waiting for its answer, so Java is ended
            with contextlib.suppress(Exception):  # a Connect session has no process of ours
                stop = spark.sparkContext._gateway.proc.terminate  # type: ignore[union-attr]
            raise
        finally:
            with contextlib.suppress(Exception):
                stop()


def _started(master: str, conf: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    if "SPARK_LOCAL_IP" not in os.environ and master.startswith("local"):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder: Any = SparkSession.builder
    builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    for key, value in (SETTINGS | conf).items():
        builder = builder.config(key, value)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    spark: SparkSession = builder.getOrCreate()
    if threading.current_thread() is threading.main_thread():
        for number, handler in handlers.items():
            signal.signal(number, handler)  # Spark replaces ours
    return spark


@contextlib.contextmanager
def _quiet() -> Iterator[Path]:
    """Send what Spark's processes write to stderr to a file, and drop log lines and warnings of pyspark and py4j.

    With EARMARK_DEBUG=1 everything stays on stderr.
    """
    if is_debugging():
        yield Path(os.devnull)
        return
    with tempfile.NamedTemporaryFile(prefix="earmark-spark-", suffix=".log") as log, warnings.catch_warnings():
        saved, terminal = os.dup(2), sys.stderr
        sys.stderr.flush()
        os.dup2(log.fileno(), 2)
        sys.stderr = os.fdopen(os.dup(saved), "w", buffering=1, encoding="utf-8", errors="backslashreplace")
        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")
        try:
            yield Path(log.name)
        finally:
            logging.disable(logging.NOTSET)
            sys.stderr.flush()
            sys.stderr = terminal
            os.dup2(saved, 2)
            os.close(saved)


def _last_line(log: Path) -> str | None:
    """Return the last error that Spark logged before it failed to start."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    errors = [line for line in lines if "Exception" in line and not line.startswith("at ")]
    return errors[-1][:300] if errors else None


@contextlib.contextmanager
def ticking(spark: SparkSession, what: str) -> Iterator[Callable[[], float]]:
    """Show on a terminal what is going on, and how many tasks are done; the result returns the seconds so far."""
    begun, done = time.monotonic(), threading.Event()

    def tick() -> None:
        while not done.wait(TICK):
            if (passed := time.monotonic() - begun) > 1:
                click.echo(f"\r{what}: {passed:.0f} s{_tasks(spark)}\033[K", err=True, nl=False)
        if time.monotonic() - begun > 1:
            click.echo("\r\033[K", err=True, nl=False)

    thread = threading.Thread(target=tick, daemon=True)
    if is_shown():
        thread.start()
    try:
        yield lambda: time.monotonic() - begun
    finally:
        done.set()
        if thread.ident is not None:
            thread.join()


def _tasks(spark: SparkSession) -> str:
    """Return how many tasks of the active stages are done; nothing on Connect, which does not say."""
    with contextlib.suppress(Exception):
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        if known:
            finished, total = sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known)
            return f", {finished}/{total} tasks"
    return ""


def subscriptions_frame(
    spark: SparkSession, path: str, reading: Reading, changes: bool
) -> tuple[DataFrame, dict[str, Any]]:
    """Return the subscriptions under a path, and what `Snapshot.publish` must know of them: types, zone and order.

    The path is a file, a saved folder, or a folder of Parquet files. `changes` have a column op.
    """
    from earmark.spark.frames import address

    options: dict[str, Any] = {"attributes": reading.attributes or None, "zone": reading.zone or "UTC", "order_by": ROW}
    options["time"] = reading.time
    if is_book(path):
        if changes:
            raise EarmarkError(f"{path!r} is a saved folder, which has no column op: --changes takes a file")
        matcher, _ = load(path, replace(reading, index=NO_INDEX))
        schema = matcher._version.schema
        options["attributes"] = {a.name: str(a.type) for a in schema if a.declared} or None
        options |= {"zone": schema.zone_name, "time": schema.time}
        table = _from_rows(path, [asdict(matcher[id]) for id in matcher.ids()])
    elif Path(path).is_dir():
        return spark.read.parquet(address(Path(path).absolute())), {**options, "order_by": None}
    else:
        table = _from_file(path, reading, ("op",) if changes else ())
    if ROW in table.column_names:
        raise EarmarkError(f"{path!r} has a column {ROW!r}, a name that earmark uses for the order of rows")
    numbered = table.append_column(ROW, pa.array(range(len(table)), pa.int64()))
    return spark.createDataFrame(numbered), options


def _from_file(path: str, reading: Reading, extra: tuple[str, ...]) -> pa.Table:
    """Return a file as a table; a column op, if it is among the `extra` ones, must hold what it can hold."""
    file = read_subscriptions(reading.source(path), reading.attributes, extra)
    table = file.rows if isinstance(file.rows, pa.Table) else _from_rows(str(file.source), file.rows, extra)
    if extra:
        from earmark.spark.intake import OPS

        ops = table.column("op").to_pylist() if "op" in table.column_names else [None] * len(table)
        for row, op in enumerate(ops):
            if op not in OPS:
                raise file.located(EarmarkError(f"expected one of {', '.join(OPS)} for 'op', got {op!r}", row=row))
    return table


def _from_rows(shown: str, rows: list[dict[str, Any]], extra: tuple[str, ...] = ()) -> pa.Table:
    """Return rows with conditions as a table."""
    kinds = {"id": None, "condition": pa.string(), "score": pa.float64(), **NESTED, **dict.fromkeys(extra, pa.string())}
    del kinds["ranges"]
    kinds |= {name: None for name in ("starts", "ends") if any(row.get(name) is not None for row in rows)}
    try:
        return pa.table({n: column_of(n, as_pairs([row.get(n) for row in rows]), t) for n, t in kinds.items()})
    except EarmarkError as problem:
        raise problem.at(source=shown) from None


def run_on_spark(
    *,
    subscriptions: str,
    events: str,
    output: str | None,
    event_id: str | None,
    as_json: bool,
    reading: Reading,
    master: str,
    conf: dict[str, str],
    **search: Any,
) -> None:
    """Search all events, and write the results to a file, a folder or stdout."""
    into_folder = output is not None and not Path(output).suffix
    reading.check(subscriptions, events, output=None if into_folder else output)
    _check_events(reading, events, event_id)
    if into_folder and Path(str(output)).exists():
        raise EarmarkError(f"{output!r} exists: Spark writes a new folder of Parquet files")
    with session(master, conf) as spark, tempfile.TemporaryDirectory(prefix="earmark-snapshot-") as spare:
        started = time.perf_counter()
        snapshot = _snapshot(spark, subscriptions, Path(spare) / "snapshot", reading)
        begun = time.perf_counter()
        with ticking(spark, "matching"):
            rows, found = _matches(spark, events, event_id, snapshot, search)
            results = _to_folder(found, str(output)) if into_folder else write_tables(_tables(found), output, as_json)
        seconds = (begun - started, time.perf_counter() - begun)
        counts = {"events": rows.count(), "results": results, "subscriptions": len(snapshot)}
        sum_up(counts, seconds, output, as_json, Rejects())


def _check_events(reading: Reading, events: str, event_id: str | None) -> None:
    if Path(events).is_dir():
        if event_id is None:
            raise EarmarkError(f"{events!r} is a folder, whose rows have no order: name events with --event-id")
        return
    source = reading.source(events)
    if source.format != "parquet" or events == "-":
        raise EarmarkError(f"{source}: --engine spark reads events from a Parquet file, or a folder of such files")


def _snapshot(spark: SparkSession, path: str, spare: Path, reading: Reading) -> earmark.spark.Snapshot:
    """Return a published or saved book, or a file of subscriptions published for this run alone."""
    if is_book(path):
        if reading.attributes or reading.zone or reading.time or reading.index:
            options = "--attribute, --zone, --time and --index"
            raise EarmarkError(f"a book has its own types, zone, time and index: {options} are for files")
        return earmark.spark.Snapshot.open(path)
    with ticking(spark, "publishing"):
        frame, how = subscriptions_frame(spark, path, reading, changes=False)
        how |= {"index": reading.index} if reading.index else {}
        return earmark.spark.Snapshot.publish(frame, spare, **how)


def _matches(
    spark: SparkSession, path: str, event_id: str | None, snapshot: earmark.spark.Snapshot, search: dict[str, Any]
) -> tuple[DataFrame, DataFrame]:
    """Return the events, and the results as a DataFrame of (event, subscription, score)."""
    from pyspark.sql import functions as f

    from earmark.spark.frames import address, quoted

    events = spark.read.parquet(address(Path(path).absolute()))
    if event_id is not None and event_id not in events.columns:
        raise EarmarkError(f"{path!r} has no column {event_id!r} to name events by")
    used = {*snapshot.attributes, snapshot.schema.time or ""}
    heads = {name.split(".")[0] for name in used}
    named = f.col("_metadata.row_index") if event_id is None else f.col(quoted(event_id))
    wanted = [f.col(quoted(name)) for name in events.columns if name in used or name in heads]
    found = earmark.spark.match(
        events.select(named.alias(EVENT), *wanted), snapshot, columns=[EVENT], missing="null", **search
    )
    return events, found.select(f.col(EVENT).alias("event"), "subscription", "score")


def _to_folder(found: DataFrame, output: str) -> int:
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    from earmark.spark.frames import address

    results = Observation()
    observed = found.observe(results, f.count(f.lit(1)).alias("rows"))
    observed.write.mode("errorifexists").parquet(address(Path(output).absolute()))
    return int(results.get["rows"])


def _tables(found: DataFrame) -> Iterator[pa.Table]:
    """Yield results in groups, through the driver, one partition at a time, in the order of the events.

    There is at least one table, so that an output has its columns.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(found.schema, timezone="UTC")
    rows = iter(found.toLocalIterator(prefetchPartitions=True))
    groups = iter(lambda: [row.asDict() for row in islice(rows, GROUP)], [])
    for group in chain([next(groups, [])], groups):
        yield pa.Table.from_pylist(group, schema)
