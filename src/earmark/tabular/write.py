"""Results as files: written beside the target, which appears under its name only when it is whole."""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from earmark.errors import EarmarkError
from earmark.tabular.source import FORMATS, STDIN, Name, reason

if TYPE_CHECKING:
    import pyarrow as pa


def check_target(path: Name, sources: Sequence[Name] = ()) -> None:
    """Refuse early what could not be written in the end, and what would replace one of the sources."""
    written_format(path)
    try:
        why = _obstacle(Path(path))
        if why is None and Path(path).exists() and any(_is_same(path, source) for source in sources):
            why = "it is read from"
    except OSError as problem:  # such as a name that is too long
        why = reason(problem)
    if why:
        raise EarmarkError(f"{str(path)!r} cannot be written: {why}")


def written_format(path: Name) -> str:
    """The format in which a file of this name is written: parquet, csv or jsonl."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        got = f"got {suffix!r}" if suffix else "this name has no suffix"
        raise EarmarkError(f"{str(path)!r} cannot be written: expected a .parquet, .csv, .tsv or .jsonl file, {got}")
    return FORMATS[suffix]


def _is_same(path: Name, source: Name) -> bool:
    if os.fspath(source) == STDIN:
        return os.path.samestat(os.stat(path), os.fstat(sys.stdin.fileno()))
    return os.path.samefile(path, source)


def _obstacle(path: Path) -> str | None:
    folder = path.absolute().parent
    if path.is_dir():
        return "it is a folder"
    if path.exists() and not path.is_file():
        return "it is not a plain file"
    if path.exists() and not os.access(path, os.W_OK):
        return "you may not write to it"
    if not folder.is_dir():
        return f"there is no folder {str(path.parent)!r}"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"you may not write in the folder {str(folder)!r}"
    return None


class Writer:
    """Writes tables to a file, in its format; `with` makes the file appear when all is written.

    Invariant: until then nothing under the file's name changes, and whatever ends the `with` leaves nothing beside it.
    """

    def __init__(self, path: Name, schema: pa.Schema) -> None:
        self._shown = str(path)
        self._path = Path(os.path.realpath(path))  # what a link points to is replaced, not the link
        self._kind = written_format(path)
        self._delimiter = "\t" if Path(path).suffix.lower() == ".tsv" else ","
        self._aside = self._path
        self._schema = schema
        self._sink: Any = None

    def __enter__(self) -> Writer:
        # Named before it is made, so that a signal in between leaves nothing.
        self._aside = self._path.with_name(f".earmark-{secrets.token_hex(8)}.part")
        with self._told():
            try:
                os.close(os.open(self._aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
                if self._path.exists():  # a file that others may not read stays one
                    shutil.copymode(self._path, self._aside)
                self._sink = self._opened()
            except BaseException:
                self._aside.unlink(missing_ok=True)
                raise
        return self

    def _opened(self) -> Any:
        if self._kind == "parquet":
            import pyarrow.parquet as pq

            return pq.ParquetWriter(self._aside, self._schema)
        if self._kind == "csv":
            from pyarrow import csv

            return csv.CSVWriter(
                str(self._aside), self._schema, write_options=csv.WriteOptions(delimiter=self._delimiter)
            )
        return self._aside.open("w", encoding="utf-8")

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        with self._told():
            if self._kind == "jsonl":
                self._sink.writelines(json_lines(table))
            else:
                self._sink.write_table(table.cast(self._schema))

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        try:
            if kind is None:
                with self._told():
                    self._sink.close()
                    os.replace(self._aside, self._path)
        finally:
            self._aside.unlink(missing_ok=True)
            with contextlib.suppress(Exception):
                self._sink.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except (OSError, pa.ArrowException) as problem:
            raise EarmarkError(f"{self._shown!r} cannot be written: {reason(problem)}") from None


def json_lines(table: pa.Table) -> Iterator[str]:
    """The rows as JSON, one per line."""
    for row in table.to_pylist():
        yield json.dumps(plain_json(row), ensure_ascii=False, default=str) + "\n"


def csv_text(table: pa.Table, header: bool) -> str:
    """The rows as CSV, after a line of column names or not."""
    import pyarrow as pa
    from pyarrow import csv

    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink, csv.WriteOptions(include_header=header))
    return str(sink.getvalue().to_pybytes().decode())


def plain_json(value: Any) -> Any:
    """The same value; NaN and infinities, which JSON lacks, as strings."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: plain_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(part) for part in value]
    return value
