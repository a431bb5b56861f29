"""Results as files: written beside the target, which appears under its name only when it is complete."""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from earmark.errors import EarmarkError
from earmark.tabular.source import FORMATS, STDIN, Name, reason


def check_target(path: Name, sources: Sequence[Name] = ()) -> None:
    """Refuse a file that could not be written in the end, or that would replace one of the sources."""
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
    """Return the format in which a file of this name is written: parquet, csv or jsonl."""
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
    obstacles = (
        (path.is_dir(), "it is a folder"),
        (path.exists() and not path.is_file(), "it is not a plain file"),
        (path.exists() and not os.access(path, os.W_OK), "you may not write to it"),
        (not folder.is_dir(), f"there is no folder {str(path.parent)!r}"),
        (not os.access(folder, os.W_OK | os.X_OK), f"you may not write in the folder {str(folder)!r}"),
    )
    return next((why for is_there, why in obstacles if is_there), None)


@contextlib.contextmanager
def writing(path: Name, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
    """Open a file for tables of a schema, in the format of its name; the result appends a table.

    Invariant: nothing under the file's name changes until the block ends without an error; then the file appears there.
    No end of the block leaves a file beside it.
    """
    kind, target = written_format(path), Path(os.path.realpath(path))  # what a link points to is replaced, not the link
    # Named before it is made, so that a signal in between leaves nothing.
    aside = target.with_name(f".earmark-{secrets.token_hex(8)}.part")
    sink: Any = None

    def write(table: pa.Table) -> None:
        with _reported(path):
            if kind == "jsonl":
                sink.writelines(json_lines(table))
            else:
                sink.write_table(table.cast(schema))

    try:
        with _reported(path):
            os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            if target.exists():  # a file that others may not read stays one
                shutil.copymode(target, aside)
            if kind == "parquet":
                sink = pq.ParquetWriter(aside, schema)
            elif kind == "csv":
                tabs = Path(path).suffix.lower() == ".tsv"
                sink = csv.CSVWriter(aside, schema, write_options=csv.WriteOptions(delimiter="\t" if tabs else ","))
            else:
                sink = aside.open("w", encoding="utf-8")
        yield write
        with _reported(path):
            sink.close()
            os.replace(aside, target)
    finally:
        aside.unlink(missing_ok=True)
        with contextlib.suppress(Exception):
            sink.close()


@contextlib.contextmanager
def _reported(path: Name) -> Iterator[None]:
    """Turn what goes wrong while writing into an error that names the file."""
    try:
        yield
    except (OSError, pa.ArrowException) as problem:
        raise EarmarkError(f"{str(path)!r} cannot be written: {reason(problem)}") from None


def json_lines(table: pa.Table) -> Iterator[str]:
    """Yield the rows as JSON, one per line."""
    for row in table.to_pylist():
        yield json.dumps(plain_json(row), ensure_ascii=False, default=str) + "\n"


def csv_text(table: pa.Table, header: bool) -> str:
    """Return the rows as CSV, with or without a line of column names."""
    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink, csv.WriteOptions(include_header=header))
    return str(sink.getvalue().to_pybytes().decode())


def plain_json(value: Any) -> Any:
    """Return the value with NaN and infinities, which JSON lacks, as strings, and lists of pairs as objects."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: plain_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        if value and all(isinstance(part, dict) and part.keys() == {"key", "value"} for part in value):
            return {
                part["key"]: plain_json(part["value"]) for part in value
            }  # as Matcher.to_frame has weights and tags
        return [plain_json(part) for part in value]
    return value
