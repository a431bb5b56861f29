"""Match a stream of events while the subscriptions change: every micro-batch sees one version, and counts once.

    running = stream(events, "/shared/ads", sink="/shared/hits", checkpoint="/shared/hits.checkpoint", k=10)
    running.await_end()
    read_matches(spark, "/shared/hits")

A batch pins the newest version when it begins, in a file that is on disk before any work is done; run again after a
crash it takes the version that the file names, however many newer ones there are. Matches go to a folder of the batch,
which counts from the moment its report is written.

    batch begins ─ done before? ──yes──> nothing to do
                       │no
                 pinned before? ──yes──> that version
                       │no
                 newest version, kept from `retain`, written down
                       │
                 match, overwrite the batch's folder, write its report, release the version

What is written down is in sinks.py.

**Invariant**: a batch with a report is never written again; a batch with a pin is only ever matched with the version it
names. So whatever is killed whenever, and however often Spark runs a batch again, its matches are in the sink once, and
are those of one version.

A stream that may not write to the book's folder cannot keep a version from `retain`; if the version of an interrupted
batch is gone when it runs again, the stream fails and says so.

On a Connect session the function of a micro-batch runs in a process of the server, so sink, checkpoint and snapshot are
folders that the server sees; reports (and `on_progress`) need the client to see them as well.
"""

from __future__ import annotations

import json
import re
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from earmark.book.folder import current_version, is_writable, pinned, read_manifest, root_of, unpin
from earmark.engine.batch import OnError
from earmark.engine.searcher import Mode
from earmark.errors import EarmarkError, TableError, checked_names
from earmark.events.moments import Moment
from earmark.spark.frames import address, quoted
from earmark.spark.matching import (
    LOCAL,
    MatchPlan,
    Scope,
    Shape,
    Weights,
    check_how,
    check_route,
    counts_of,
    prepared,
    rejected_of,
    tallied,
    tallied_tables,
)
from earmark.spark.search import REJECTED, match_batches
from earmark.spark.sentences import message_of, sentence_of
from earmark.spark.shuffle import shuffled
from earmark.spark.sinks import (
    MARK,
    REJECTED_FOLDER,
    MicroBatch,
    OnProgress,
    Pins,
    Report,
    Sink,
    claim_sink,
    read_object,
)
from earmark.spark.snapshot import Folder, Snapshot

POLL = 0.2
ATTEMPTS = 10
BATCH = "batch"
"""The column that `read_matches` adds."""
DEFAULT_WAIT = 60.0
INTERVAL = re.compile(
    r"\s*(interval\s+)?(\d+(\.\d+)?\s*(microsecond|millisecond|second|minute|hour|day|week)s?\s*)+", re.IGNORECASE
)
"""The time between batches."""

# --- streams -------------------------------------------------------------------------------------------------


def stream(
    events: DataFrame,
    snapshot: Snapshot | Folder,
    sink: Folder | Callable[[DataFrame, MicroBatch], None],
    checkpoint: Folder,
    *,
    k: int | None = None,
    mode: Mode = "exact",
    columns: Sequence[str] | None = None,
    scope: Scope = None,
    weights: Weights | str | None = None,
    combine: str = "sum",
    event: str | None = None,
    at: Moment | None = None,
    event_time: str | None = None,
    on_error: OnError = "raise",
    missing: str = "warn",
    rank: bool = False,
    how: str = "inner",
    with_columns: Sequence[str] = (),
    prefix: str = "",
    route: str = LOCAL,
    replicas: int | str = 1,
    trigger: Mapping[str, Any] | None = None,
    on_progress: OnProgress | None = None,
    name: str | None = None,
) -> Stream:
    """Start matching a streaming DataFrame with the newest version of a book, batch by batch.

    `snapshot` is the path of a book, or any Snapshot of it. `sink` is a folder for Parquet files, or a function of
    (matches, batch) that writes the matches and may be called again for a batch that was interrupted. `k`, `mode`,
    `columns`, `scope`, `weights`, `combine`, `event`, `at`, `on_error`, `missing`, `rank`, `how`, `with_columns`,
    `prefix`, `route` and `replicas` are those of `match`. `event_time` names a timestamp column, from which the lag is
    computed. `trigger` is Spark's: {"processingTime": "5 seconds"}, {"availableNow": True}; by default, batches follow
    each other without a pause. `on_progress` is called with a `Report` after every batch, from a thread of its own.

    With `on_error` "null" or "reject", events of which something cannot be read are kept in the folder of the sink
    (`read_rejected`); a function gets them as `batch.rejected`.

    A sink and a checkpoint belong together: given again, with the same book and the same question, they continue where
    they were.
    """
    check_route(route, replicas)
    check_how(route, how)
    if not events.isStreaming:
        raise EarmarkError("stream needs a streaming DataFrame, from spark.readStream; for others there is match")
    writer = _triggered(events, trigger)
    snapshots = snapshot.path if isinstance(snapshot, Snapshot) else root_of(snapshot)
    folder = root_of(checkpoint, "the checkpoint")
    options: dict[str, Any] = {"k": k, "mode": mode, "scope": scope and dict(scope), "weights": weights, "event": event}
    options |= {"columns": None if columns is None else checked_names(columns, "columns"), "at": at, "streams": True}
    options |= {"on_error": on_error, "shape": Shape.of(rank, how, with_columns, prefix), "combine": combine}
    ready = prepared(events, Snapshot.open(snapshots), **options, missing=missing)
    _check_names(ready, on_error != "raise", not callable(sink))
    _check_event_time(events, event_time)
    schema = ready.schema.json()
    root = None if callable(sink) else root_of(sink, "the sink")
    place = Sink(folder / "earmark" / "done", sink) if callable(sink) else Sink(root or folder)
    for used in (root or folder, folder):
        address(used)  # refuses what Spark would misread, before anything is written there
    asked = {"book": read_manifest(snapshots)["book"], "k": k, "mode": mode}
    asked["scope"] = scope and dict(scope)
    asked["weights"] = dict(weights) if isinstance(weights, Mapping) else weights
    asked |= {"combine": combine, "event": event, "at": None if at is None else str(at), "rank": rank, "how": how}
    asked |= {"with_columns": list(with_columns), "prefix": prefix}
    dead = None if on_error == "raise" else rejected_of(ready).schema.json()
    owner = f"stream-{claim_sink(folder, root, schema, asked, dead)}"
    if not is_writable(snapshots):
        warnings.warn(
            f"this process may not write to {str(snapshots)!r}, so a version that a batch needs is not kept from "
            "retain: keep old versions for longer than a batch may take",
            stacklevel=2,
        )
    routing = {"route": route, "replicas": replicas}
    work = BatchWork(snapshots, Pins(folder), place, options, routing, event_time, schema, owner)
    work.release()
    writer = writer.foreachBatch(work).option("checkpointLocation", address(folder))
    if name is not None:
        writer = writer.queryName(name)
    try:
        query = writer.start()
    except Exception as problem:  # Spark's own have no common base on classic and Connect
        raise sentence_of(problem) from problem
    started = Stream(query, work, on_progress)
    for ended in [id for id, one in _running.items() if not one.active]:
        del _running[ended]
    _running[str(query.id)] = started
    return started


_running: dict[str, Stream] = {}
"""The streams of this process, by the id of their query: nobody else may hold them. Ended ones go when another starts,
since the last figures of a stream come after its end."""


def running_stream(query: str) -> Stream | None:
    """Return the stream of this process whose query has this id."""
    return _running.get(query)


def _triggered(events: DataFrame, trigger: Mapping[str, Any] | None) -> Any:
    """Return a writer of the events with this trigger, which is checked before anything is claimed or written."""
    if trigger is None:
        return events.writeStream
    wanted = f'trigger: expected {{"processingTime": "5 seconds"}} or {{"availableNow": True}}, got {trigger!r}'
    if not isinstance(trigger, Mapping) or len(trigger) != 1:
        raise EarmarkError(wanted)
    ((kind, value),) = trigger.items()
    is_interval = isinstance(value, str) and INTERVAL.fullmatch(value)
    if not (is_interval if kind == "processingTime" else kind in ("availableNow", "once") and value is True):
        raise EarmarkError(wanted)
    try:
        return events.writeStream.trigger(**trigger)
    except Exception as problem:  # Spark's own have no common base on classic and Connect
        raise EarmarkError(f"{wanted}: {message_of(problem)}") from None


def _check_names(ready: MatchPlan, rejects: bool, is_folder: bool) -> None:
    """Raise for columns whose names something that a stream writes has already."""
    kept = [(field.name, "of rejected events", {*REJECTED}) for field in ready.carried] if rejects else []
    kept += [(name, "of what read_matches returns", {BATCH}) for name in ready.schema.names] if is_folder else []
    for name, whose, taken in kept:
        if name.lower() in taken:
            raise EarmarkError(f"the column {name!r} is also a column {whose}: rename it, or leave it out of columns")


def _check_event_time(events: DataFrame, name: str | None) -> None:
    """Raise unless this is a column with times."""
    if name is None:
        return
    try:
        type_ = events.select(f.col(name)).schema.fields[0].dataType.simpleString()
    except Exception:  # Spark's own have no common base on classic and Connect
        listed = ", ".join(events.columns)
        raise EarmarkError(f"event_time: the events have no column {name!r}; their columns are {listed}") from None
    if type_ not in ("timestamp", "timestamp_ntz", "date"):
        raise EarmarkError(f"event_time: expected a column of timestamps, got {name!r} of type {type_}")


def read_matches(spark: SparkSession, sink: Folder) -> DataFrame:
    """Return what a stream has written to a folder, and the column `batch`: only batches that are done."""
    return _read(spark, sink, "schema", "")


def read_rejected(spark: SparkSession, sink: Folder) -> DataFrame:
    """Return the events of which a stream could not read something: their columns, attribute, reason and batch."""
    return _read(spark, sink, "rejected", REJECTED_FOLDER)


def _read(spark: SparkSession, sink: Folder, which: str, below: str) -> DataFrame:
    root = root_of(sink, "the sink")
    described = read_object(root / MARK)
    if described is None:
        raise EarmarkError(f"{str(root)!r} is not a sink that a stream of earmark writes to")
    if which not in described:
        raise EarmarkError(f"the stream of {str(root)!r} keeps no rejected events: on_error was 'raise'")
    schema = StructType.fromJson(json.loads(described[which])).add(BATCH, "long")
    folders = [root / below / f"batch={batch}" for batch in Sink(root).batches()]
    there = [address(folder) for folder in folders if folder.is_dir()]
    if not there:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", address(root / below)).parquet(*there)


_writing: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
"""By stream, held while a batch is matched. A query that is stopped does not wait for the function of its batch."""


def _unpin(root: Path, number: int, owner: str) -> None:
    """Remove a pin; one that cannot be removed only keeps a version for longer."""
    try:
        unpin(root, number, owner)
    except TableError as problem:
        warnings.warn(f"{problem}; retain keeps this version until its pin is deleted", stacklevel=2)


@dataclass(frozen=True)
class BatchWork:
    """What is done with every micro-batch. On Connect it is sent to the server, so it has no state."""

    snapshots: Path
    pins: Pins
    sink: Sink
    options: dict[str, Any]
    """Arguments of `prepared`."""
    routing: dict[str, Any]
    """The route and the number of replicas."""
    event_time: str | None
    schema: str
    owner: str

    def __call__(self, events: DataFrame, batch: int) -> None:
        """Match a batch, once."""
        with _writing[self.owner]:
            self._match(events, batch)

    def _match(self, events: DataFrame, batch: int) -> None:
        begun = time.time()
        if self.sink.done(batch) is not None:
            return
        snapshot = self._pinned(batch)
        counts = self._write(events, snapshot, batch)
        newest_event = counts.pop("time", None)
        now = time.time()
        lag = None if newest_event is None else now - newest_event / 1e6
        newest = current_version(self.snapshots)
        known = {"rows": None, "matches": None, **counts}
        self.sink.commit(Report(batch, snapshot.version, newest, seconds=now - begun, lag=lag, committed=now, **known))
        _unpin(self.snapshots, snapshot.version, self.owner)

    def _pinned(self, batch: int) -> Snapshot:
        """Return the version of a batch: the one written down when it began, or else the newest now."""
        version = self.pins.get(batch)
        if version is not None:
            return Snapshot.open(self.snapshots, version)
        for attempt in range(ATTEMPTS):
            snapshot = Snapshot.open(self.snapshots)
            try:
                if is_writable(self.snapshots):
                    snapshot.pin(self.owner)
                break
            except TableError:  # removed between the look and the pin, so there is a newer one
                if attempt == ATTEMPTS - 1:
                    raise
        self.pins.put(batch, snapshot.version)
        return snapshot

    def release(self) -> None:
        """Unpin versions that a killed run pinned, except that of the batch that will run again."""
        begun = self.pins.batches()
        needed = self.pins.get(begun[-1]) if begun and self.sink.done(begun[-1]) is None else None
        for number in pinned(self.snapshots, self.owner) - {needed}:
            _unpin(self.snapshots, number, self.owner)

    def _write(self, events: DataFrame, snapshot: Snapshot, batch: int) -> dict[str, Any]:
        """Write the matches and the rejected events; return counts, and the newest event time in microseconds."""
        if self.sink.function is not None:  # counts would never arrive if it did not read all matches
            ready = self._prepared(events, snapshot)
            rejected = None if self.options["on_error"] == "raise" else rejected_of(ready)
            matches = ready.run(match_batches, ready.schema) if self._is_local else self._shuffled(ready, snapshot)
            self.sink.write(matches, MicroBatch(batch, snapshot.version, rejected))
            return {}
        seen, found = Observation(), Observation()
        looked = [f.count(f.lit(1)).alias("rows")]
        if self.event_time is not None:
            looked.append(f.max(f.unix_micros(f.col(self.event_time).cast("timestamp"))).alias("time"))
        ready = self._prepared(events.observe(seen, *looked), snapshot)
        known = MicroBatch(batch, snapshot.version)
        if not self._is_local:
            subscription = f.count(quoted(ready.columns.names[len(ready.columns.carried)]))
            matches = self._shuffled(ready, snapshot).observe(found, subscription.alias("matches"))
            self.sink.write(matches, known)
            counts = {"matches": int(found.get["matches"])}
        else:
            tables = tallied_tables(snapshot)
            self.sink.write(tallied(ready, found, tables), known)
            counts = {name: int(found.get[name]) for name in ("matches", "rejected", "searched", "candidates")}
            counts |= {"shards": counts_of(found.get)} if tables else {}  # type: ignore[dict-item]
        if self.options["on_error"] != "raise" and counts.get("rejected") != 0:
            self.sink.write_rejected(rejected_of(self._prepared(events, snapshot)), batch)
        return {**seen.get, **counts}

    @property
    def _is_local(self) -> bool:
        return bool(self.routing["route"] == LOCAL)

    def _shuffled(self, ready: MatchPlan, snapshot: Snapshot) -> DataFrame:
        return shuffled(ready, snapshot.record, self.routing["replicas"])

    def _prepared(self, events: DataFrame, snapshot: Snapshot) -> MatchPlan:
        """Return the plan of a batch, whose columns must be those of the sink."""
        ready = prepared(events, snapshot, **self.options)
        if ready.schema.json() != self.schema:
            raise EarmarkError(
                f"matches of version {snapshot.version} have other types than the sink: "
                "start a stream with a new sink and a new checkpoint"
            )
        return ready


@dataclass
class Stream:
    """A running stream."""

    query: StreamingQuery
    work: BatchWork
    on_progress: OnProgress | None = None
    _watch: threading.Thread = field(init=False, repr=False)
    _reported: int = field(init=False, repr=False)
    _problem: BaseException | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        self._reported = max((n for n in self.work.pins.batches() if self.work.sink.done(n)), default=-1)
        self._watch = threading.Thread(target=self._watching, name="earmark stream", daemon=True)
        if self.on_progress is not None:
            self._watch.start()

    @property
    def active(self) -> bool:
        """Whether it is still running."""
        return bool(self.query.isActive)

    def reports(self) -> list[Report]:
        """Return the reports of the last batches that are done, oldest first."""
        found = (self.work.sink.done(batch) for batch in self.work.pins.batches())
        return [report for report in found if report is not None]

    def await_end(self, timeout: float | None = None) -> bool:
        """Wait until the stream ends, at most `timeout` seconds; return whether it has, and raise what made it fail."""
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
        """Let the current batch finish, for at most `wait` seconds, and stop.

        A batch that is interrupted runs again, with the version it saw, when the stream is started again.
        """
        until = time.monotonic() + wait
        while self.active and time.monotonic() < until:
            begun = self.work.pins.batches()
            if not begun or self.work.sink.done(begun[-1]) is not None:
                break
            time.sleep(POLL / 4)
        self.query.stop()
        writing = _writing[self.work.owner]
        if writing.acquire(timeout=max(0.0, until - time.monotonic())):  # a batch that had just begun
            writing.release()
        self._finish()

    def _finish(self) -> None:
        """Wait for the last reports, and raise what the callback raised."""
        if self.on_progress is not None and threading.current_thread() is not self._watch:
            self._watch.join(DEFAULT_WAIT)
            self._tell()
        if self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem

    def _watching(self) -> None:
        while self.active and self._problem is None:
            self._tell()
            time.sleep(POLL)
        self._tell()

    def _tell(self) -> None:
        try:
            if self._problem is None:
                self._report()
        except Exception as problem:  # the callback is the user's: await_end and stop raise what it raised
            self._problem = problem

    def _report(self) -> None:
        for batch in self.work.pins.batches():
            if batch > self._reported:
                report = self.work.sink.done(batch)
                if report is None:
                    return
                self._reported = batch
                if self.on_progress is not None:
                    self.on_progress(report)
