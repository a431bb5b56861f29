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
import json
import os
import re
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit
from urllib.request import url2pathname

from earmark.errors import EarmarkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MARK = "_earmark.json"
PATTERN = re.compile(r"[*?\[\]{}\\]")
KEPT = 200  # pins of so many batches stay, for whoever wants to look; Spark itself keeps 100


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a micro-batch."""

    batch: int
    version: int
    newest: int
    """The newest version by the time the batch was done."""
    rows: int | None
    """How many events; None where the sink is a function, which alone knows what it looked at."""
    matches: int | None
    seconds: float
    lag: float | None
    """Seconds from the newest event to the report; None without a column of event times."""
    committed: float
    """When, in seconds since 1970."""
    shards: list[list[int]] | None = None
    """For each shard how many events were searched in it and how many matches it gave; last, if there is one, the table
    of what changed since the version was last whole. None where it is not sharded, or nobody counted."""

    @property
    def behind(self) -> int:
        """How many versions were newer by the time the batch was done."""
        return self.newest - self.version

    def __str__(self) -> str:
        behind = f" ({self.behind} behind)" if self.behind else ""
        told = f"batch {self.batch}: version {self.version}{behind}, {self.seconds:.1f} s"
        if self.rows is not None:
            rate = self.rows / max(self.seconds, 1e-9)
            told += f", {self.rows:,} events ({rate:,.0f} a second), {self.matches:,} matches"
        if self.shards is not None and self.rows:
            told += (
                f", {sum(events for events, _ in self.shards) / self.rows:.1f} of {len(self.shards)} shards an event"
            )
        return told if self.lag is None else f"{told}, lag {self.lag:.1f} s"


def folder_of(path: str | os.PathLike[str], what: str) -> Path:
    """A path, or a file: address, as an absolute path; `what` is for the sentence."""
    text = os.fspath(path)
    address = urlsplit(text)
    if address.scheme == "file" and address.netloc in ("", "localhost"):
        return Path(url2pathname(address.path))
    if "://" in text or address.scheme == "file":
        raise EarmarkError(
            f"{what} {text!r} is not a path: earmark keeps files of its own there, so it is a folder that the driver "
            "sees, such as a shared mount"
        )
    return Path(text).absolute()


def address(path: Path) -> str:
    """A path as Spark takes it: not quoted as an address would be, since it looks for a name like batch%3D1 then."""
    if found := PATTERN.search(str(path)):
        raise EarmarkError(f"the path {str(path)!r} has {found[0]!r} in it, which Spark would take for a pattern")
    return f"file://{path}"


def write_durably(path: Path, content: dict[str, Any]) -> None:
    """All of a small JSON file or nothing of it, also after a crash of the machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix="_new-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_json(path: Path) -> dict[str, Any] | None:
    """What `write_durably` wrote; None where there is no such file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as problem:
        raise EarmarkError(f"{str(path)!r} cannot be read: {problem}") from None
    if not isinstance(found, dict):
        raise EarmarkError(f"{str(path)!r} holds no JSON object")
    return found


class Pins:
    """Which version each batch saw."""

    def __init__(self, checkpoint: Path) -> None:
        self.folder = checkpoint / "earmark" / "batches"

    def get(self, batch: int) -> int | None:
        """The version of a batch, if it ever began."""
        found = read_json(self.folder / f"{batch}.json")
        return None if found is None else int(found["version"])

    def put(self, batch: int, version: int) -> None:
        """Write down a version before any work is done with it; forget what is long over."""
        write_durably(self.folder / f"{batch}.json", {"batch": batch, "version": version})
        with contextlib.suppress(OSError):
            (self.folder / f"{batch - KEPT}.json").unlink()

    def batches(self) -> list[int]:
        """The batches that began, except those long over."""
        names = [path.stem for path in self.folder.glob("*.json")] if self.folder.is_dir() else []
        return sorted(int(name) for name in names if name.isdigit())


@dataclass(frozen=True, slots=True)
class Batch:
    """What a sink of your own is told: the number of the batch and the version that its matches are of."""

    id: int
    version: int


class Sink(Protocol):
    """Where matches go."""

    @property
    def counted(self) -> bool:
        """Whether writing runs through all matches, so that they can be counted on the way."""

    def write(self, matches: DataFrame, batch: Batch) -> None:
        """Write the matches of a batch, in place of whatever an interrupted attempt left."""

    def done(self, batch: int) -> Report | None:
        """The report of a batch that counts."""

    def commit(self, report: Report) -> None:
        """From now on the batch counts."""


@dataclass(frozen=True, slots=True)
class FolderSink:
    """Parquet files, a folder a batch."""

    root: Path
    counted: bool = True

    def _folder(self, batch: int) -> Path:
        return self.root / f"batch={batch}"

    def write(self, matches: DataFrame, batch: Batch) -> None:
        """Overwrite the folder of a batch."""
        matches.write.mode("overwrite").parquet(address(self._folder(batch.id)))

    def done(self, batch: int) -> Report | None:
        """The report in the folder of a batch."""
        found = read_json(self._folder(batch) / MARK)
        return None if found is None else Report(**found)

    def commit(self, report: Report) -> None:
        """Put the report into the folder."""
        write_durably(self._folder(report.batch) / MARK, asdict(report))

    def batches(self) -> list[int]:
        """The batches that count, ascending."""
        found = [path.parent.name.removeprefix("batch=") for path in self.root.glob(f"batch=*/{MARK}")]
        return sorted(int(number) for number in found if number.isdigit())


@dataclass(frozen=True, slots=True)
class FunctionSink:
    """Whatever the user's function does; reports stay with the checkpoint."""

    function: Callable[[DataFrame, Batch], None]
    folder: Path
    counted: bool = False

    def write(self, matches: DataFrame, batch: Batch) -> None:
        """Call the function."""
        self.function(matches, batch)

    def done(self, batch: int) -> Report | None:
        """The report of a batch that counts."""
        found = read_json(self.folder / f"{batch}.json")
        return None if found is None else Report(**found)

    def commit(self, report: Report) -> None:
        """Write the report; forget what is long over."""
        write_durably(self.folder / f"{report.batch}.json", asdict(report))
        with contextlib.suppress(OSError):
            (self.folder / f"{report.batch - KEPT}.json").unlink()


def acquaint(checkpoint: Path, sink: Path | None, schema: str) -> str:
    """The name of the stream that this checkpoint and this sink belong to, made up when both are new.

    Another checkpoint would count batches from 0 again, and overwrite what is in the sink.
    """
    mine = read_json(checkpoint / "earmark" / "stream.json")
    theirs = None if sink is None else read_json(sink / MARK)
    if mine is None:
        if theirs is not None:
            raise EarmarkError(
                f"the sink {str(sink)!r} belongs to a stream with another checkpoint than {str(checkpoint)!r}: "
                "give both as they were, or both new"
            )
        mine = {"stream": uuid.uuid4().hex}
        write_durably(checkpoint / "earmark" / "stream.json", mine)
    name = str(mine["stream"])
    if sink is None:
        return name
    if theirs is None and not Pins(checkpoint).batches():
        theirs = {"stream": name, "schema": schema}
        write_durably(sink / MARK, theirs)
    if theirs is None or theirs["stream"] != name:
        raise EarmarkError(
            f"the checkpoint {str(checkpoint)!r} belongs to a stream with another sink than {str(sink)!r}: "
            "give both as they were, or both new"
        )
    if theirs["schema"] != schema:
        raise EarmarkError(f"the sink {str(sink)!r} holds matches with other columns or types: take a new one")
    return name
