"""A stream of events against subscriptions that change meanwhile: every micro-batch sees one version, and counts once.

    running = stream(events, "/shared/ads", sink="/shared/hits", checkpoint="/shared/hits.checkpoint", k=10)
    running.await_end()
    read_matches(spark, "/shared/hits")

A batch pins the newest version when it begins, in a file that is on disk before any work is done; run again after a
crash it takes the version that the file names, however many newer ones there are. Matches go to a folder of the batch,
which counts from the moment its report is written. `ledger.py` has the files and why nothing is lost or doubled.

    batch begins ─ done before? ──yes──> nothing to do
                       │no
                 pinned before? ──yes──> that version
                       │no
                 newest version, kept from `retain`, written down
                       │
                 match, overwrite the batch's folder, write its report, let the version go

On a Connect session the function of a micro-batch runs in a process of the server, so sink, checkpoint and snapshot are
folders that the server sees; reports (and `on_progress`) need the client to see them as well.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from earmark.book.folder import current_version, pinned_by, unpin
from earmark.errors import EarmarkError, TableError
from earmark.index.given import Mode
from earmark.spark import counts
from earmark.spark.ledger import (
    MARK,
    Batch,
    FolderSink,
    FunctionSink,
    Pins,
    Report,
    Sink,
    acquaint,
    address,
    folder_of,
    read_json,
)
from earmark.spark.matching import LOCAL, Prepared, check_route, match, prepared
from earmark.spark.problems import sentence_of
from earmark.spark.snapshot import Folder, Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

OnProgress = Callable[[Report], None]
POLL = 0.2
ATTEMPTS = 10
DEFAULT_WAIT = 60.0


def stream(
    events: DataFrame,
    snapshot_path: Folder,
    sink: Folder | Callable[[DataFrame, Batch], None],
    checkpoint: Folder,
    *,
    k: int | None = None,
    mode: Mode = "exact",
    columns: Sequence[str] | None = None,
    scope: Mapping[str, str] | None = None,
    weights: Mapping[str, float] | str | None = None,
    event: str | None = None,
    event_time: str | None = None,
    route: str = LOCAL,
    replicas: int | str = 1,
    trigger: Mapping[str, Any] | None = None,
    on_progress: OnProgress | None = None,
    name: str | None = None,
) -> Stream:
    """Start matching a streaming DataFrame with the newest version under a path, batch by batch.

    `sink` is a folder for Parquet files, or a function of (matches, batch) that writes what it is given and may be
    called again for a batch that was interrupted. `k`, `mode`, `columns`, `scope`, `weights`, `event`, `route` and
    `replicas` are those of `match`. `event_time` names a timestamp column, from which lag is reckoned. `trigger` is
    Spark's: {"processingTime": "5 seconds"}, {"availableNow": True}; without it a batch follows a batch. `on_progress`
    is called with a `Report` after every batch, from a thread of its own.

    A sink and a checkpoint belong together: given again they go on where they were.
    """
    check_route(route, replicas)
    if not events.isStreaming:
        raise EarmarkError("stream needs a streaming DataFrame, as spark.readStream gives; for others there is match")
    kept = None if columns is None else tuple(columns)
    tags = None if scope is None else dict(scope)
    options = Options(k, mode, kept, tags, weights, event, event_time, route, replicas)
    folder = folder_of(checkpoint, "the checkpoint")
    work = _work(events, folder_of(snapshot_path, "the snapshot"), sink, folder, options)
    writer = events.writeStream.foreachBatch(work).option("checkpointLocation", address(folder))
    if name is not None:
        writer = writer.queryName(name)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    try:
        query = writer.start()
    except Exception as problem:  # Spark's own have no common base on classic and Connect
        raise sentence_of(problem) from problem
    return Stream(query, work, on_progress)


def _work(
    events: DataFrame,
    snapshots: Path,
    sink: Folder | Callable[[DataFrame, Batch], None],
    checkpoint: Path,
    options: Options,
) -> Work:
    """What is to be done with every batch, checked; versions that a killed run kept are given back."""
    schema = replace(options, route=LOCAL).matched(events, Snapshot.open(snapshots)).schema.json()
    place: Sink
    if callable(sink):
        root, place = None, FunctionSink(sink, checkpoint / "earmark" / "done")
    else:
        root = folder_of(sink, "the sink")
        place = FolderSink(root)
    for used in (root, checkpoint):
        if used is not None:
            address(used)  # refuses what Spark would misread, before anything is written there
    owner = acquaint(checkpoint, root, schema)
    work = Work(snapshots, Pins(checkpoint), place, options, schema, f"stream-{owner}")
    work.let_go()
    return work


def read_matches(spark: SparkSession, sink: Folder) -> DataFrame:
    """What a stream has written to a folder, and the column `batch`: batches that are done, and no others."""
    from pyspark.sql.types import StructType

    root = folder_of(sink, "the sink")
    described = read_json(root / MARK)
    if described is None:
        raise EarmarkError(f"{str(root)!r} is not a sink that a stream of earmark writes to")
    schema = StructType.fromJson(json.loads(described["schema"])).add("batch", "long")
    folders = [address(root / f"batch={batch}") for batch in FolderSink(root).batches()]
    if not folders:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", address(root)).parquet(*folders)


@dataclass(frozen=True, slots=True)
class Options:
    """How to match, and what to carry along."""

    k: int | None
    mode: Mode
    columns: tuple[str, ...] | None
    scope: dict[str, str] | None
    weights: Mapping[str, float] | str | None
    event: str | None
    event_time: str | None
    route: str = LOCAL
    replicas: int | str = 1

    def prepared(self, events: DataFrame, snapshot: Snapshot) -> Prepared:
        """The same, before it is decided how."""
        return prepared(events, snapshot, self.k, self.mode, self.columns, self.scope, self.weights, self.event)

    def matched(self, events: DataFrame, snapshot: Snapshot) -> DataFrame:
        """The matches of a batch."""
        return match(
            events,
            snapshot,
            self.k,
            mode=self.mode,
            columns=self.columns,
            scope=self.scope,
            weights=self.weights,
            event=self.event,
            route=self.route,
            replicas=self.replicas,
        )


@dataclass(frozen=True)
class Work:
    """What is done with every micro-batch. On Connect it travels: it holds paths and options, no state."""

    snapshots: Path
    pins: Pins
    sink: Sink
    options: Options
    schema: str
    owner: str

    def __call__(self, events: DataFrame, batch: int) -> None:
        """Match a batch, once."""
        begun = time.time()
        if self.sink.done(batch) is not None:
            return
        snapshot = self._pinned(batch)
        rows, found, newest_event, shards = self._write(events, snapshot, batch)
        now = time.time()
        lag = None if newest_event is None else now - newest_event
        newest = current_version(self.snapshots)
        self.sink.commit(Report(batch, snapshot.version, newest, rows, found, now - begun, lag, now, shards))
        snapshot.unpin(self.owner)

    def _pinned(self, batch: int) -> Snapshot:
        """The version of a batch: the one written down when it began, or now the newest."""
        version = self.pins.get(batch)
        if version is not None:
            return Snapshot.open(self.snapshots, version)
        for attempt in range(ATTEMPTS):
            snapshot = Snapshot.open(self.snapshots)
            try:
                snapshot.pin(self.owner)
                break
            except TableError:  # removed between the look and the pin, so there is a newer one
                if attempt == ATTEMPTS - 1:
                    raise
        self.pins.put(batch, snapshot.version)
        return snapshot

    def let_go(self) -> None:
        """Give back versions that a killed run kept, except that of the batch that will run again."""
        begun = self.pins.batches()
        needed = self.pins.get(begun[-1]) if begun and self.sink.done(begun[-1]) is None else None
        for number in pinned_by(self.snapshots, self.owner) - {needed}:
            unpin(self.snapshots, number, self.owner)

    def _write(self, events: DataFrame, snapshot: Snapshot, batch: int) -> Written:
        """Write the matches; what there was to count on the way."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        seen, found, by_shard = Observation(), Observation(), Observation()
        looked = [f.count(f.lit(1)).alias("rows")]
        if self.options.event_time is not None:
            looked.append(f.max(f.unix_micros(f.col(self.options.event_time).cast("timestamp"))).alias("time"))
        if self.sink.counted:
            events = events.observe(seen, *looked)
        tallied = self.sink.counted and self.options.route == LOCAL and counts.is_tallied(snapshot)
        if tallied:
            matches = counts.tallied(self.options.prepared(events, snapshot))
            matches = matches.observe(by_shard, *counts.sums(snapshot))
            matches = matches.where(f.col(counts.TALLY).isNull()).drop(counts.TALLY)
        else:
            matches = self.options.matched(events, snapshot)
        if matches.schema.json() != self.schema:
            raise EarmarkError(
                f"version {snapshot.version} gives matches of other types than the sink holds: "
                "start a stream with a new sink and a new checkpoint"
            )
        if not self.sink.counted:  # nobody would ever answer if the function did not look at all matches
            self.sink.write(matches, Batch(batch, snapshot.version))
            return Written(None, None, None, None)
        self.sink.write(matches.observe(found, f.count(f.lit(1)).alias("rows")), Batch(batch, snapshot.version))
        micros = seen.get.get("time")
        newest = None if micros is None else micros / 1e6
        shards = counts.counts_of(by_shard.get) if tallied else None
        return Written(int(seen.get["rows"]), int(found.get["rows"]), newest, shards)


class Written(NamedTuple):
    """What was counted while a batch was written; None where nobody could."""

    rows: int | None
    matches: int | None
    newest_event: float | None
    shards: list[list[int]] | None


@dataclass
class Stream:
    """A stream at work."""

    query: StreamingQuery
    work: Work
    on_progress: OnProgress | None = None
    _watch: threading.Thread = field(init=False, repr=False)
    _told: int = field(init=False, repr=False)
    _problem: BaseException | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        self._told = max((n for n in self.work.pins.batches() if self.work.sink.done(n)), default=-1)
        self._watch = threading.Thread(target=self._watching, name="earmark stream", daemon=True)
        if self.on_progress is not None:
            self._watch.start()

    @property
    def active(self) -> bool:
        """Whether it still runs."""
        return bool(self.query.isActive)

    def reports(self) -> list[Report]:
        """The reports of the last batches that are done, oldest first."""
        found = (self.work.sink.done(batch) for batch in self.work.pins.batches())
        return [report for report in found if report is not None]

    def await_end(self, timeout: float | None = None) -> bool:
        """Wait until the stream ends, at most so many seconds; whether it has. Raises what made it fail, if it did."""
        try:
            ended = self.query.awaitTermination(timeout)  # type: ignore[arg-type]  # fractions of a second will do
        except Exception as problem:  # Spark's own have no common base on classic and Connect
            self._finish()
            raise sentence_of(problem) from problem
        if timeout is not None and not ended:
            return False
        self._finish()
        return True

    def stop(self, wait: float = DEFAULT_WAIT) -> None:
        """Let the batch at work finish, for at most so many seconds, and stop.

        What is interrupted all the same runs again, with the version it saw, when the stream is started again.
        """
        until = time.monotonic() + wait
        while self.active and time.monotonic() < until:
            begun = self.work.pins.batches()
            if not begun or self.work.sink.done(begun[-1]) is not None:
                break
            time.sleep(POLL / 4)
        self.query.stop()
        self._finish()

    def _finish(self) -> None:
        """The last reports, and what the callback raised."""
        if self._watch.is_alive() and threading.current_thread() is not self._watch:
            self._watch.join(DEFAULT_WAIT)
        if self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem

    def _watching(self) -> None:
        try:
            while self.active:
                self._tell()
                time.sleep(POLL)
            self._tell()
        except Exception as problem:  # the callback is the user's: await_end and stop raise what it raised
            self._problem = problem

    def _tell(self) -> None:
        for batch in self.work.pins.batches():
            if batch > self._told:
                report = self.work.sink.done(batch)
                if report is None:
                    return
                self._told = batch
                if self.on_progress is not None:
                    self.on_progress(report)
