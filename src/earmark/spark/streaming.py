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

What is written down so that a batch that runs twice counts once:

    checkpoint/                           Spark's own: offsets/ commits/ metadata …
      earmark/stream.json                 {"stream": name}: checkpoint and sink of one name belong together
      earmark/batches/12.json             {"batch": 12, "version": 7}: written before any work of batch 12
    sink/
      _earmark.json                       {"stream": name, "schema": …}
      batch=12/part-….parquet             the matches of batch 12
      batch=12/_earmark.json              its report: written last, so a batch without one does not count

**Invariant**: a batch with a report is never written again; a batch with a pin is only ever matched with the version it
names. So whatever is killed whenever, and however often Spark runs a batch again, its matches are in the sink once, and
are those of one version. (Names with an underscore are invisible to Spark's readers.) A batch costs two small files and
their directory entries, forced to disk.

On a Connect session the function of a micro-batch runs in a process of the server, so sink, checkpoint and snapshot are
folders that the server sees; reports (and `on_progress`) need the client to see them as well.

**Errors.** Where a worker, a data source or the function of a micro-batch raises one of our errors, Spark wraps it in
its own, with the tracebacks of two languages around it. The last line of the innermost traceback is ours
(`sentence_of`).
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from earmark import errors
from earmark.book.folder import current_version, pinned, read_json, replace_record, unpin
from earmark.engine.searcher import Mode
from earmark.errors import EarmarkError, TableError
from earmark.language.words import counted
from earmark.spark.frames import address, folder_of
from earmark.spark.matching import LOCAL, Scope, Weights, check_route, counts_of, is_tallied, match, prepared, tallied
from earmark.spark.snapshot import Folder, Snapshot

MARK = "_earmark.json"
KEPT = 200  # batches whose pins stay, to be looked at; Spark itself keeps 100
POLL = 0.2
ATTEMPTS = 10
DEFAULT_WAIT = 60.0

_OURS = re.compile(r"^(?:\S*\s+)?earmark\.(?:\w+\.)*(\w+): (.+)$", re.MULTILINE)
_THEIRS = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception): .+)$", re.MULTILINE)
_JAVA = re.compile(r"^Caused by:|^JVM stacktrace", re.MULTILINE)
_LONGEST = 600


def sentence_of(problem: BaseException) -> EarmarkError:
    """Return our error inside an exception of Spark's, or else one that says in a line what Spark said."""
    if isinstance(problem, EarmarkError):
        return problem
    ours = _OURS.findall(str(problem))
    if ours:
        name, sentence = ours[-1]
        kind = getattr(errors, name, EarmarkError)
        return kind(sentence.strip()) if issubclass(kind, EarmarkError) else EarmarkError(sentence.strip())
    return EarmarkError(f"Spark failed: {message_of(problem)}")


def message_of(problem: BaseException) -> str:
    """Return what an exception of Spark's says, in one line, without Spark's own bookkeeping behind it."""
    text = str(problem)
    python = _JAVA.split(text)[0]
    if "Traceback (most recent call last)" in python and (raised := _THEIRS.findall(python)):
        return str(raised[-1].strip()[:_LONGEST])
    line = next((line.strip() for line in text.splitlines() if line.strip()), type(problem).__name__)
    return re.sub(r" SQLSTATE: \w+$", "", line)[:_LONGEST]


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What a sink function gets beside the matches: the number of the batch, and the version it was matched with."""

    id: int
    version: int


# --- what is written down ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Report:
    """What was done with a micro-batch."""

    batch: int
    version: int
    newest: int
    """The newest version by the time the batch was done."""
    rows: int | None
    """Number of events; None where the sink is a function, which may not read all of them."""
    matches: int | None
    seconds: float
    lag: float | None
    """Seconds from the newest event to the report; None without a column of event times."""
    committed: float
    """When, in seconds since 1970."""
    shards: list[list[int]] | None = None
    """For each shard, how many events were searched in it and how many matches it found; last, if there is one, the
    table of what changed since the last full version. None where there are no shards, or nothing was counted."""

    @property
    def behind(self) -> int:
        """How many versions were newer by the time the batch was done."""
        return self.newest - self.version

    def __str__(self) -> str:
        behind = f" ({self.behind} behind)" if self.behind else ""
        text = f"batch {self.batch}: version {self.version}{behind}, {self.seconds:.1f} s"
        if self.rows is not None:
            rate = self.rows / max(self.seconds, 1e-9)
            matches = counted(self.matches or 0, "match", "matches")
            text += f", {counted(self.rows, 'event')} ({rate:,.0f} per second), {matches}"
        if self.shards is not None and self.rows:
            searched = sum(events for events, _ in self.shards) / self.rows
            text += f", {searched:.1f} of {len(self.shards)} shards per event"
        return text if self.lag is None else f"{text}, lag {self.lag:.1f} s"


OnProgress = Callable[[Report], None]


def read_object(path: Path) -> dict[str, Any] | None:
    """Return what `replace_record` wrote; None where there is no such file."""
    try:
        content = read_json(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as problem:
        raise EarmarkError(f"{str(path)!r} cannot be read: {problem}") from None
    if not isinstance(content, dict):
        raise EarmarkError(f"{str(path)!r}: expected a JSON object, got {type(content).__name__}")
    return content


class Pins:
    """Which version each batch saw."""

    def __init__(self, checkpoint: Path) -> None:
        self.folder = checkpoint / "earmark" / "batches"

    def get(self, batch: int) -> int | None:
        """Return the version of a batch, if it ever began."""
        pin = read_object(self.folder / f"{batch}.json")
        return None if pin is None else int(pin["version"])

    def put(self, batch: int, version: int) -> None:
        """Write down a version before any work is done with it; forget old batches."""
        replace_record(self.folder / f"{batch}.json", {"batch": batch, "version": version})
        with suppress(OSError):
            (self.folder / f"{batch - KEPT}.json").unlink()

    def batches(self) -> list[int]:
        """Return the batches that began, except old ones."""
        return sorted(int(path.stem) for path in self.folder.glob("*.json") if path.stem.isdigit())


def claim_sink(checkpoint: Path, sink: Path | None, schema: str) -> str:
    """Return the name of the stream that this checkpoint and this sink belong to; a new one if both are new.

    Another checkpoint would count batches from 0 again, and overwrite what is in the sink.
    """
    own = read_object(checkpoint / "earmark" / "stream.json")
    claimed = None if sink is None else read_object(sink / MARK)
    both = "give both as they were, or both new"
    if own is None:
        if claimed is not None:
            where = f"with another checkpoint than {str(checkpoint)!r}"
            raise EarmarkError(f"the sink {str(sink)!r} belongs to a stream {where}: {both}")
        own = {"stream": uuid.uuid4().hex}
        replace_record(checkpoint / "earmark" / "stream.json", own)
    name = str(own["stream"])
    if sink is None:
        return name
    if claimed is None and not Pins(checkpoint).batches():
        claimed = {"stream": name, "schema": schema}
        replace_record(sink / MARK, claimed)
    if claimed is None or claimed["stream"] != name:
        where = f"with another sink than {str(sink)!r}"
        raise EarmarkError(f"the checkpoint {str(checkpoint)!r} belongs to a stream {where}: {both}")
    if claimed["schema"] != schema:
        raise EarmarkError(f"the sink {str(sink)!r} holds matches with other columns or types: use a new one")
    return name


@dataclass(frozen=True, slots=True)
class Sink:
    """Where matches go: Parquet files, one folder per batch; or to a function, with reports beside the checkpoint."""

    folder: Path
    function: Callable[[DataFrame, MicroBatch], None] | None = None

    def report_file(self, batch: int) -> Path:
        """Return the file of a batch's report."""
        return self.folder / (f"batch={batch}/{MARK}" if self.function is None else f"{batch}.json")

    def write(self, matches: DataFrame, batch: MicroBatch) -> None:
        """Write the matches of a batch, in place of anything that an interrupted attempt left."""
        if self.function is not None:
            self.function(matches, batch)
        else:
            matches.write.mode("overwrite").parquet(address(self.report_file(batch.id).parent))

    def done(self, batch: int) -> Report | None:
        """Return the report of a batch that counts."""
        report = read_object(self.report_file(batch))
        return None if report is None else Report(**report)

    def commit(self, report: Report) -> None:
        """Write the report: from now on the batch counts. A function's old reports are forgotten."""
        replace_record(self.report_file(report.batch), asdict(report))
        if self.function is not None:
            with suppress(OSError):
                self.report_file(report.batch - KEPT).unlink()

    def batches(self) -> list[int]:
        """Return the batches in the folder that count, ascending."""
        names = [path.parent.name.removeprefix("batch=") for path in self.folder.glob(f"batch=*/{MARK}")]
        return sorted(int(name) for name in names if name.isdigit())


# --- streams -------------------------------------------------------------------------------------------------


def stream(
    events: DataFrame,
    snapshot_path: Folder,
    sink: Folder | Callable[[DataFrame, MicroBatch], None],
    checkpoint: Folder,
    *,
    k: int | None = None,
    mode: Mode = "exact",
    columns: Sequence[str] | None = None,
    scope: Scope = None,
    weights: Weights | str | None = None,
    event: str | None = None,
    event_time: str | None = None,
    route: str = LOCAL,
    replicas: int | str = 1,
    trigger: Mapping[str, Any] | None = None,
    on_progress: OnProgress | None = None,
    name: str | None = None,
) -> Stream:
    """Start matching a streaming DataFrame with the newest version under a path, batch by batch.

    `sink` is a folder for Parquet files, or a function of (matches, batch) that writes the matches and may be called
    again for a batch that was interrupted. `k`, `mode`, `columns`, `scope`, `weights`, `event`, `route` and `replicas`
    are those of `match`. `event_time` names a timestamp column, from which the lag is computed. `trigger` is Spark's:
    {"processingTime": "5 seconds"}, {"availableNow": True}; by default, batches follow each other without a pause.
    `on_progress` is called with a `Report` after every batch, from a thread of its own.

    A sink and a checkpoint belong together: given again, they continue where they were.
    """
    check_route(route, replicas)
    if not events.isStreaming:
        raise EarmarkError("stream needs a streaming DataFrame, from spark.readStream; for others there is match")
    snapshots, folder = folder_of(snapshot_path, "the snapshot"), folder_of(checkpoint, "the checkpoint")
    options: dict[str, Any] = {"k": k, "mode": mode, "scope": scope and dict(scope), "weights": weights, "event": event}
    options["columns"] = None if columns is None else tuple(columns)
    schema = match(events, Snapshot.open(snapshots), **options).schema.json()
    root = None if callable(sink) else folder_of(sink, "the sink")
    place = Sink(folder / "earmark" / "done", sink) if callable(sink) else Sink(root or folder)
    for used in (root or folder, folder):
        address(used)  # refuses what Spark would misread, before anything is written there
    owner = f"stream-{claim_sink(folder, root, schema)}"
    routing = {"route": route, "replicas": replicas}
    work = BatchWork(snapshots, Pins(folder), place, options, routing, event_time, schema, owner)
    work.release()
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


def read_matches(spark: SparkSession, sink: Folder) -> DataFrame:
    """Return what a stream has written to a folder, and the column `batch`: only batches that are done."""
    root = folder_of(sink, "the sink")
    described = read_object(root / MARK)
    if described is None:
        raise EarmarkError(f"{str(root)!r} is not a sink that a stream of earmark writes to")
    schema = StructType.fromJson(json.loads(described["schema"])).add("batch", "long")
    folders = [address(root / f"batch={batch}") for batch in Sink(root).batches()]
    if not folders:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", address(root)).parquet(*folders)


@dataclass(frozen=True)
class BatchWork:
    """What is done with every micro-batch. On Connect it is sent to the server, so it has no state."""

    snapshots: Path
    pins: Pins
    sink: Sink
    options: dict[str, Any]
    """Arguments of `match`."""
    routing: dict[str, Any]
    """Arguments of `match`, too: those that `prepared` does not take."""
    event_time: str | None
    schema: str
    owner: str

    def __call__(self, events: DataFrame, batch: int) -> None:
        """Match a batch, once."""
        begun = time.time()
        if self.sink.done(batch) is not None:
            return
        snapshot = self._pinned(batch)
        rows, matches, newest_event, shards = self._write(events, snapshot, batch)
        now = time.time()
        lag = None if newest_event is None else now - newest_event
        newest = current_version(self.snapshots)
        self.sink.commit(Report(batch, snapshot.version, newest, rows, matches, now - begun, lag, now, shards))
        snapshot.unpin(self.owner)

    def _pinned(self, batch: int) -> Snapshot:
        """Return the version of a batch: the one written down when it began, or else the newest now."""
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

    def release(self) -> None:
        """Unpin versions that a killed run pinned, except that of the batch that will run again."""
        begun = self.pins.batches()
        needed = self.pins.get(begun[-1]) if begun and self.sink.done(begun[-1]) is None else None
        for number in pinned(self.snapshots, self.owner) - {needed}:
            unpin(self.snapshots, number, self.owner)

    def _write(self, events: DataFrame, snapshot: Snapshot, batch: int) -> tuple[Any, Any, Any, Any]:
        """Write the matches; return the counts of events and matches, the newest event time, and counts by shard."""
        seen, found, by_shard = Observation(), Observation(), Observation()
        looked = [f.count(f.lit(1)).alias("rows")]
        if self.event_time is not None:
            looked.append(f.max(f.unix_micros(f.col(self.event_time).cast("timestamp"))).alias("time"))
        counting = self.sink.function is None  # else counts would never arrive if it did not read all matches
        if counting:
            events = events.observe(seen, *looked)
        tallying = counting and self.routing["route"] == LOCAL and is_tallied(snapshot)
        if tallying:
            matches = tallied(prepared(events, snapshot, **self.options), snapshot, by_shard)
        else:
            matches = match(events, snapshot, **self.options, **self.routing)
        if matches.schema.json() != self.schema:
            raise EarmarkError(
                f"matches of version {snapshot.version} have other types than the sink: "
                "start a stream with a new sink and a new checkpoint"
            )
        known = MicroBatch(batch, snapshot.version)
        if not counting:
            self.sink.write(matches, known)
            return None, None, None, None
        self.sink.write(matches.observe(found, f.count(f.lit(1)).alias("rows")), known)
        micros = seen.get.get("time")
        shards = counts_of(by_shard.get) if tallying else None
        return int(seen.get["rows"]), int(found.get["rows"]), None if micros is None else micros / 1e6, shards


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
        self._finish()

    def _finish(self) -> None:
        """Wait for the last reports, and raise what the callback raised."""
        if self._watch.is_alive() and threading.current_thread() is not self._watch:
            self._watch.join(DEFAULT_WAIT)
        if self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem

    def _watching(self) -> None:
        try:
            while self.active:
                self._report()
                time.sleep(POLL)
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
