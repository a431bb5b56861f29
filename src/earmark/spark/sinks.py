"""What a stream writes down so that a batch that runs twice counts once, and where its matches go.

    checkpoint/                           Spark's own: offsets/ commits/ metadata …
      earmark/stream.json                 {"stream": name, "asked": …}: checkpoint and sink of one name belong together,
                                          and go with one book and one question
      earmark/batches/12.json             {"batch": 12, "version": 7}: written before any work of batch 12
    sink/
      _earmark.json                       {"stream": name, "schema": …, "rejected": …}
      batch=12/part-….parquet             the matches of batch 12
      batch=12/_earmark.json              its report: written last, so a batch without one does not count
      _rejected/batch=12/part-….parquet   the events of batch 12 of which something could not be read, and why

(Names with an underscore are invisible to Spark's readers.) A batch costs two small files and their directory entries,
forced to disk.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from earmark.book.folder import read_json, replace_record
from earmark.errors import EarmarkError
from earmark.language.words import counted
from earmark.spark.frames import address

MARK = "_earmark.json"
REJECTED_FOLDER = "_rejected"
KEPT = 200  # batches whose pins stay, to be looked at; Spark itself keeps 100


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What a sink function gets beside the matches: the number of the batch, and the version it was matched with."""

    id: int
    version: int
    rejected: DataFrame | None = None
    """Events of which something could not be read, and why; None with `on_error="raise"`."""


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
    rejected: int | None = None
    """Number of events of which something could not be read; None where nothing was counted."""
    searched: int | None = None
    """Events times the shards that each was searched in."""
    candidates: int | None = None
    """Answers of all shards, of which the k best are kept."""

    @classmethod
    def of(cls, record: Mapping[str, Any], file: Path) -> Report:
        """Return a report that was written, perhaps by an earmark whose reports have more fields."""
        known = {field.name: record[field.name] for field in fields(cls) if field.name in record}
        try:
            return cls(**known)
        except TypeError:
            lacking = [field.name for field in fields(cls) if field.name not in record and field.default is MISSING]
            raise EarmarkError(f"{str(file)!r} is not a report of a batch: it has no {lacking[0]!r}") from None

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
        if self.rejected:
            text += f", {self.rejected:,} rejected"
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


def claim_sink(checkpoint: Path, sink: Path | None, schema: str, asked: Mapping[str, Any], rejected: str | None) -> str:
    """Return the name of the stream that this checkpoint and this sink belong to; a new one if both are new.

    Another checkpoint would count batches from 0 again, and overwrite what is in the sink. `asked` is what must stay
    the same: the book and the question; `rejected` is the schema of rejected events, if they are to be kept.
    """
    own = read_object(checkpoint / "earmark" / "stream.json")
    claimed = None if sink is None else read_object(sink / MARK)
    both = "give both as they were, or both new"
    asked = json.loads(json.dumps(asked))
    if own is None:
        if claimed is not None:
            where = f"with another checkpoint than {str(checkpoint)!r}"
            raise EarmarkError(f"the sink {str(sink)!r} belongs to a stream {where}: {both}")
        own = {"stream": uuid.uuid4().hex, "asked": asked}
        replace_record(checkpoint / "earmark" / "stream.json", own)
    name = str(own["stream"])
    for word, value in asked.items():
        before = own.get("asked", {}).get(word, value)
        if before != value:
            said = "another book" if word == "book" else f"{word}={before!r}, not {value!r}"
            raise EarmarkError(
                f"the checkpoint {str(checkpoint)!r} belongs to a stream with {said}: give what it was started with, "
                "or a new checkpoint and a new sink"
            )
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
    if rejected is not None and claimed.get("rejected") != rejected:
        replace_record(sink / MARK, {**claimed, "rejected": rejected})
    return name


@dataclass(frozen=True, slots=True)
class Sink:
    """Where matches go: Parquet files, one folder per batch; or to a function, with reports beside the checkpoint.

    Rejected events are in a folder of their own, or the function gets them.
    """

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

    def write_rejected(self, rejected: DataFrame, batch: int) -> None:
        """Write the rejected events of a batch beside the matches."""
        rejected.write.mode("overwrite").parquet(address(self.folder / REJECTED_FOLDER / f"batch={batch}"))

    def done(self, batch: int) -> Report | None:
        """Return the report of a batch that counts."""
        file = self.report_file(batch)
        report = read_object(file)
        return None if report is None else Report.of(report, file)

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
