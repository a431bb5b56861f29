"""What a stream writes down so that a batch that runs twice counts once: which version it saw, and that it is done.

    checkpoint/                           Spark's own: offsets/ commits/ metadata …
      earmark/stream.json                 {"stream": name}: checkpoint and sink of one name belong together
      earmark/batches/12.json             {"batch": 12, "version": 7}: written before any work of batch 12
    sink/
      _earmark.json                       {"stream": name, "schema": …}
      batch=12/part-….parquet             the matches of batch 12
      batch=12/_earmark.json              its report: written last, so a batch without one does not count

**Invariant**: a batch with a report is never written again; a batch with a pin is only ever matched with the version it
names. So whatever is killed whenever, and however often Spark runs a batch again, its matches are in the sink once, and
are those of one version. (Names with an underscore are invisible to Spark's readers.)

**Complexity**: a batch costs two small files and their directory entries, forced to disk.
"""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from earmark.book.files import read_json, replace_record
from earmark.errors import EarmarkError
from earmark.language.words import counted

MARK = "_earmark.json"
KEPT = 200  # batches whose pins stay, to be looked at; Spark itself keeps 100


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


def write_durably(path: Path, content: dict[str, Any]) -> None:
    """Write a small JSON file as a whole or not at all, even if the machine crashes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_record(path, content)


def read_object(path: Path) -> dict[str, Any] | None:
    """Return what `write_durably` wrote; None where there is no such file."""
    try:
        content = read_json(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as problem:
        raise EarmarkError(f"{str(path)!r} cannot be read: {problem}") from None
    if not isinstance(content, dict):
        raise EarmarkError(f"{str(path)!r}: expected a JSON object, got {type(content).__name__}")
    return content


def forget(path: Path) -> None:
    """Remove a file of a batch that was done long ago."""
    with contextlib.suppress(OSError):
        path.unlink()


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
        write_durably(self.folder / f"{batch}.json", {"batch": batch, "version": version})
        forget(self.folder / f"{batch - KEPT}.json")

    def batches(self) -> list[int]:
        """Return the batches that began, except old ones."""
        names = [path.stem for path in self.folder.glob("*.json")] if self.folder.is_dir() else []
        return sorted(int(name) for name in names if name.isdigit())


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
        write_durably(checkpoint / "earmark" / "stream.json", own)
    name = str(own["stream"])
    if sink is None:
        return name
    if claimed is None and not Pins(checkpoint).batches():
        claimed = {"stream": name, "schema": schema}
        write_durably(sink / MARK, claimed)
    if claimed is None or claimed["stream"] != name:
        where = f"with another sink than {str(sink)!r}"
        raise EarmarkError(f"the checkpoint {str(checkpoint)!r} belongs to a stream {where}: {both}")
    if claimed["schema"] != schema:
        raise EarmarkError(f"the sink {str(sink)!r} holds matches with other columns or types: use a new one")
    return name
