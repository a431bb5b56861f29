"""Where rows come from: a file or standard input, its format and its compression, and chunks of its rows.

The name of a file says its format (`events.csv`, `events.jsonl.zst`). For standard input, written `-`, and for names
that do not say it, the user does.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from earmark.errors import EarmarkError

if TYPE_CHECKING:
    import pyarrow as pa

    from earmark.events.mappings import Reject

STDIN = "-"
FORMATS = {".parquet": "parquet", ".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
READABLE = ".parquet, .csv, .tsv or .jsonl, and the last three also with .gz or .zst"
CHOICES = "csv, tsv, jsonl or parquet"
_WORDS = {"parquet": "Parquet", "csv": "CSV", "jsonl": "JSON lines"}
_HEAD = 32  # bytes that show the kind of a file
_BUFFER = 1 << 18

Name = str | os.PathLike[str]
Row = dict[str, Any]

# How files of other kinds begin: the pattern, what it is, and the suffix that would be right.
_KINDS = (
    (re.compile(rb"PAR1[\x00-\x1f]"), "a Parquet file", ".parquet"),
    (re.compile(rb"\x1f\x8b"), "gzip-compressed", "{}.gz"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "zstd-compressed", "{}.zst"),
    (re.compile(rb"PK\x03\x04"), "a zip archive or an Excel workbook", None),
    (re.compile(rb"BZh[1-9]"), "bzip2-compressed", None),
    (re.compile(rb"\xfd7zXZ\x00"), "xz-compressed", None),
    (re.compile(rb"ARROW1\x00"), "an Arrow (Feather) file", None),
    (re.compile(rb"SQLite format 3\x00"), "an SQLite database", None),
    (re.compile(rb"\xff\xfe|\xfe\xff"), "UTF-16 text; save it as UTF-8", None),
)


@dataclass(frozen=True, slots=True)
class Source:
    """A file or standard input to read rows from. As a string, its name in messages."""

    path: str
    format: str
    compression: str | None = None
    delimiter: str = ","

    def __str__(self) -> str:
        return "standard input" if self.path == STDIN else repr(self.path)

    @property
    def words(self) -> str:
        """The format and compression, for messages."""
        return f"{self.compression + '-compressed ' if self.compression else ''}{_WORDS[self.format]}"

    def columns(self, names: list[str], wanted: Container[str] | None) -> list[str]:
        """Return the columns to read: those wanted, or else one, so that rows can be counted. Refuse equal names."""
        name, count = (Counter(names).most_common(1) or [("", 0)])[0]
        if count > 1:
            raise EarmarkError(f"{self} has two columns {name!r}")
        return [name for name in names if wanted is None or name in wanted] or names[:1]

    @contextlib.contextmanager
    def opened(self) -> Iterator[ByteStream]:
        """Open the bytes of this source, decompressed; refuse a file that is plainly of another kind."""
        with contextlib.ExitStack() as stack:
            raw: Any = sys.stdin.buffer if self.path == STDIN else stack.enter_context(open(self.path, "rb"))
            stream = ByteStream(raw, self.compression)
            if self.format == "parquet":
                if stream.share is None:  # a Parquet file is read from its end, so a pipe is copied to disk
                    file = stack.enter_context(tempfile.TemporaryFile(prefix="earmark-"))
                    shutil.copyfileobj(raw, file, 1 << 20)
                    file.seek(0)
                    stream = ByteStream(file)
                head = stream.file.read(_HEAD)
                stream.file.seek(0)
            else:
                head = stream.file.peek(_HEAD)[:_HEAD]
            self._check(head)
            yield stream

    def _check(self, head: bytes) -> None:
        """Refuse a file that begins like one of another kind."""
        other = next((kind for kind in _KINDS if kind[0].match(head)), None)
        if self.format == "parquet":
            if head.startswith((b"PAR1", b"PARE")):
                return
            what = f"it is {other[1]}" if other else f"it begins with {head[:16]!r}" if head else "it is empty"
        elif other is None:
            return
        else:
            _, kind, suffix = other
            what = f"it is {kind}"
            if suffix is not None:
                right = suffix.format(".tsv" if self.delimiter == "\t" else f".{self.format}")
                what += f"; say --format {right[1:]}" if self.path == STDIN else f"; its name should end in {right}"
        raise EarmarkError(f"{self} cannot be read as {self.words}: {what}")


class ByteStream:
    """The bytes of a source, and how much of it has been read."""

    def __init__(self, raw: Any, compression: str | None = None) -> None:
        self._raw = raw
        status = os.fstat(raw.fileno())
        self._size = max(status.st_size, 1) if stat.S_ISREG(status.st_mode) else None
        self.file: Any = raw
        if compression is not None:
            import pyarrow as pa

            decompressed: Any = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), compression)
            self.file = io.BufferedReader(decompressed, _BUFFER)

    @property
    def share(self) -> float | None:
        """How much of the source has been read, from 0 to 1; None for a pipe, whose length is not known."""
        return None if self._size is None else min(self._raw.tell() / self._size, 1.0)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a source.

    `first` is the number of the first row in the source; `share` how much of the source has been read after them, from
    0 to 1, or None where that is not known; `lines` the line of each row of a text file; `rejects` what could not be
    read, with rows counted from the first of this chunk.
    """

    rows: pa.Table | list[Row]
    first: int
    share: float | None
    lines: Sequence[int] = ()
    rejects: Sequence[Reject] = ()
    source: Source | None = None

    def parts(self, size: int, before: float | None) -> Iterator[Chunk]:
        """Yield the rows in parts of at most `size`; at least one part, perhaps without rows.

        `before` is the share of the source that had been read before this chunk.
        """
        for start in range(0, max(len(self.rows), 1), size):
            end, share = min(start + size, len(self.rows)), self.share
            rows = self.rows[start:end] if isinstance(self.rows, list) else self.rows.slice(start, end - start)
            if share is not None and end < len(self.rows):
                share = (before or 0.0) + (share - (before or 0.0)) * end / len(self.rows)
            rejects = [r._replace(event=r.event - start) for r in self.rejects if start <= r.event < end]
            yield Chunk(rows, self.first + start, share, self.lines[start:end], rejects, self.source)

    def located(self, problem: EarmarkError) -> EarmarkError:
        """Return the problem, and those it lists, with the source, and the line there or else the row."""
        row = problem.row if problem.event is None else problem.event
        problem = problem.at(source=str(self.source), problems=tuple(map(self.located, problem.problems)))
        if row is None:
            return problem
        event = None if problem.event is None else self.first + row
        line = int(self.lines[row]) if len(self.lines) else None
        return problem.at(line=line, row=self.first + row, event=event)


def source_of(path: Name, format: str | None = None, delimiter: str | None = None) -> Source:
    """Return the source of this name, checked as far as that is possible without reading it.

    `format` is that of standard input and of names without a known suffix: csv, tsv, jsonl or parquet, with `.gz` or
    `.zst` if it is compressed. `delimiter` separates the fields of CSV; those of TSV are separated by tabs.
    """
    name = os.fspath(path)
    known = format_of(name)
    if known is None and format is not None:
        known = format_of(f"x.{format}")
        if known is None:
            raise EarmarkError(f"--format: expected {CHOICES}, or one of them with .gz or .zst, got {format!r}")
    if name != STDIN:
        _check_file(name)
    if known is None:
        raise EarmarkError(_unknown(name))
    kind, compression, tabs = known
    if kind == "parquet" and compression is not None:
        raise EarmarkError(f"{name!r}: Parquet has its own compression; decompress the file first")
    return Source(name, kind, compression, "\t" if tabs else delimiter or ",")


def format_of(name: Name) -> tuple[str, str | None, bool] | None:
    """Return what the suffixes of a name say: the format, the compression, whether tabs separate fields; or None."""
    path = Path(name)
    compression = COMPRESSIONS.get(path.suffix.lower())
    suffix = (path.with_suffix("") if compression else path).suffix.lower()
    return (FORMATS[suffix], compression, suffix == ".tsv") if suffix in FORMATS else None


def _unknown(name: str) -> str:
    if name == STDIN:
        return f"standard input has no name that says its format: add --format, with {CHOICES}"
    suffix = Path(name).suffix
    if not suffix or suffix.lower() in COMPRESSIONS:
        return f"{name!r} does not say its format: add --format, with {CHOICES}"
    is_sheet = suffix.lower() in (".xlsx", ".xls", ".ods")
    advice = "save the sheet as CSV" if is_sheet else f"or add --format, with {CHOICES}"
    return f"{name!r}: expected a file name that ends in {READABLE}, got {suffix!r}; {advice}"


def _check_file(name: str) -> None:
    """Refuse a file that could not be read."""
    try:
        if os.path.isdir(name):  # pathlib takes an empty name for the working folder
            raise EarmarkError(f"{name!r} is a folder, not a file")
        if not Path(name).exists() or not name:
            raise EarmarkError(f"there is no file {name!r}")
        if not Path(name).is_file():
            raise EarmarkError(f"{name!r} cannot be read: it is not a plain file; pipe it into '-' instead")
    except OSError as problem:  # such as a name that is too long
        raise EarmarkError(f"{name!r} cannot be read: {reason(problem)}") from None


def reason(problem: BaseException) -> str:
    """Return what an exception of another library says, on one line."""
    if isinstance(problem, OSError) and problem.errno:
        return os.strerror(problem.errno)
    if isinstance(problem, UnicodeDecodeError):
        return f"it is not UTF-8 text (byte {problem.object[problem.start]:#x})"
    return " ".join(str(problem).split())[:300] or type(problem).__name__
