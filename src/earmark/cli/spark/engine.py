"""`earmark match --engine spark` and `top-k --engine spark`: the same results, found by Spark's workers."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from earmark.book.folder import is_book
from earmark.cli.output import sum_up, write_tables
from earmark.cli.reading import Reading
from earmark.cli.rejects import Rejects
from earmark.cli.spark.frame import subscriptions_frame
from earmark.cli.spark.session import session, ticking
from earmark.errors import EarmarkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from earmark.spark import Snapshot

EVENT = "__event"
GROUP = 50_000


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


def _snapshot(spark: SparkSession, path: str, spare: Path, reading: Reading) -> Snapshot:
    """Return a published or saved book, or a file of subscriptions published for this run alone."""
    from earmark.spark import Snapshot
    from earmark.spark.snapshot import DEFAULT_INDEX

    if is_book(path):
        if reading.attributes or reading.zone or reading.index:
            options = "--attribute, --zone and --index"
            raise EarmarkError(f"a book has its own types, zone and index: {options} are for files")
        return Snapshot.open(path)
    with ticking(spark, "publishing"):
        frame, how = subscriptions_frame(spark, path, reading, changes=False)
        return Snapshot.publish(frame, spare, index=reading.index or DEFAULT_INDEX, **how)


def _matches(
    spark: SparkSession, path: str, event_id: str | None, snapshot: Snapshot, search: dict[str, Any]
) -> tuple[DataFrame, DataFrame]:
    """Return the events, and the results as a DataFrame of (event, subscription, score)."""
    from pyspark.sql import functions as f

    from earmark.spark import match
    from earmark.spark.frames import address, quoted

    events = spark.read.parquet(address(Path(path).absolute()))
    if event_id is not None and event_id not in events.columns:
        raise EarmarkError(f"{path!r} has no column {event_id!r} to name events by")
    heads = {name.split(".")[0] for name in snapshot.attributes}
    named = f.col("_metadata.row_index") if event_id is None else f.col(quoted(event_id))
    wanted = [f.col(quoted(name)) for name in events.columns if name in snapshot.attributes or name in heads]
    found = match(events.select(named.alias(EVENT), *wanted), snapshot, columns=[EVENT], **search)
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
