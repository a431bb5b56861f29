"""A Spark session for a command: quiet, with progress on a terminal, and stopped when the command ends."""

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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from earmark.cli import is_debugging
from earmark.errors import EarmarkError
from earmark.progress import is_shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.app.name": "earmark",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.python.unix.domain.socket.enabled": "true",
}
MASTER = "local[*]"
TICK = 0.5


@contextlib.contextmanager
def session(master: str, conf: dict[str, str]) -> Iterator[SparkSession]:
    """Start a session, and stop it at the end. What Spark throws inside becomes a sentence."""
    from earmark.spark import require_pyspark

    require_pyspark()
    from earmark.spark.java import ensure_java
    from earmark.spark.streaming import message_of, sentence_of

    if not master.startswith("sc://"):
        ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with _quiet() as log:
        try:
            spark = _started(master, conf)
        except Exception as problem:  # Spark's own, Java's, py4j's
            why = _last_line(log) or message_of(problem)
            raise EarmarkError(f"Spark did not start with the master {master!r}: {why}") from None
        abrupt = True
        try:
            yield spark
            abrupt = False
        except Exception as problem:  # Spark's own have no common base on classic and Connect
            abrupt = False
            if isinstance(problem, EarmarkError | OSError):
                raise
            raise sentence_of(problem) from problem
        finally:
            _end(spark, abrupt)


def _end(spark: SparkSession, abrupt: bool) -> None:
    """Stop a session; after a signal by ending Java, since the last call may still be waiting for its answer."""
    process = None
    if abrupt:
        with contextlib.suppress(Exception):  # a Connect session has no process of ours
            process = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    with contextlib.suppress(Exception):
        if process is None:
            spark.stop()
        else:
            process.terminate()


def _started(master: str, conf: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    settings = {**SETTINGS, **conf}
    if "SPARK_LOCAL_IP" not in os.environ and master.startswith("local"):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder: Any = SparkSession.builder
    builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    spark: SparkSession = builder.getOrCreate()
    if threading.current_thread() is threading.main_thread():
        for number, handler in handlers.items():
            signal.signal(number, handler)  # Spark replaces ours
    return spark


@contextlib.contextmanager
def _quiet() -> Iterator[Path | None]:
    """Send what Spark's processes write to stderr to a file, and drop log lines and warnings of pyspark and py4j.

    With EARMARK_DEBUG=1 everything stays on stderr.
    """
    if is_debugging():
        yield None
        return
    descriptor, name = tempfile.mkstemp(prefix="earmark-spark-", suffix=".log")
    saved = os.dup(2)
    terminal = sys.stderr
    sys.stderr.flush()
    os.dup2(descriptor, 2)
    sys.stderr = os.fdopen(os.dup(saved), "w", buffering=1, encoding="utf-8", errors="backslashreplace")
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield Path(name)
    finally:
        logging.disable(logging.NOTSET)
        sys.stderr.flush()
        sys.stderr = terminal
        os.dup2(saved, 2)
        os.close(saved)
        os.close(descriptor)
        with contextlib.suppress(OSError):
            os.unlink(name)


def _last_line(log: Path | None) -> str | None:
    """Return the last error that Spark logged before it failed to start."""
    if log is None:
        return None
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    errors = [line for line in lines if "Exception" in line and not line.startswith("at ")]
    return errors[-1][:300] if errors else None


@contextlib.contextmanager
def ticking(spark: SparkSession, what: str) -> Iterator[Callable[[], float]]:
    """Show on a terminal what is going on, and how many tasks are done; the result returns the seconds so far."""
    begun = time.monotonic()
    if not is_shown():
        yield lambda: time.monotonic() - begun
        return
    done = threading.Event()

    def tick() -> None:
        while not done.wait(TICK):
            if (passed := time.monotonic() - begun) > 1:
                click.echo(f"\r{what}: {passed:.0f} s{_tasks(spark)}\033[K", err=True, nl=False)

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield lambda: time.monotonic() - begun
    finally:
        done.set()
        thread.join()
        if time.monotonic() - begun > 1:
            click.echo("\r\033[K", err=True, nl=False)


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
