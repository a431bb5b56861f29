"""Files as chunks of rows, so that memory stays bounded whatever the size.

Rows of Parquet and CSV come as Arrow tables, rows of JSON lines as dicts: so each value keeps its own type, and no
integer is rounded because a neighbour has a fraction.
"""

from __future__ import annotations

import contextlib
import csv as python_csv
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from earmark.errors import EarmarkError

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
ROWS = 16_384
MAX_LINE = 64 << 20
_BLOCK = 2 << 20  # bytes of text read at a time; of CSV, Arrow reads up to 32 blocks ahead
_LONGEST_FIELD = 1 << 30
_ROW_NUMBER = re.compile(r"(?:In CSV column #\d+: |CSV parse error: )Row #(\d+): (?:CSV conversion error to \w+: )?")
_WORDS = {"parquet": "Parquet", "csv": "CSV", "jsonl": "JSON lines"}
_JSON_WORDS = {list: "list", str: "text", int: "number", float: "number", bool: "truth value", type(None): "null"}

Row = dict[str, Any]
Name = str | os.PathLike[str]
Wanted = Callable[[str], bool]


class NotOfType(Exception):
    """A value of a CSV file that is not of its column's type: the row in the table at hand, and a sentence."""

    def __init__(self, row: int, sentence: str) -> None:
        super().__init__(sentence)
        self.row = row


Converter = Callable[["pa.Table"], "pa.Table"]
"""Gives the columns of a CSV table, all texts, their types; raises NotOfType."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows: the number of the first in the file, the share of the file (0 to 1) read after them, their lines."""

    rows: pa.Table | list[Row]
    first: int
    share: float
    lines: Sequence[int] = ()


def format_of(path: Name) -> str:
    """The format of a file, by its name."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        had = f"{suffix!r} is none of these" if suffix else "this name has no suffix"
        raise EarmarkError(f"{str(path)!r}: files are .parquet, .csv or .jsonl; {had}")
    return FORMATS[suffix]


def check_source(path: Name) -> None:
    """Refuse early what could not be read."""
    try:
        if os.path.isdir(path):  # of an empty name, pathlib makes the working folder
            raise EarmarkError(f"{str(path)!r} is a folder, not a file")
        format_of(path)
        if not Path(path).exists():
            raise EarmarkError(f"there is no file {str(path)!r}")
        if not Path(path).is_file():
            raise EarmarkError(f"{str(path)!r} cannot be read: it is not a plain file")
    except OSError as problem:  # such as a name that is too long
        raise EarmarkError(f"{str(path)!r} cannot be read: {reason(problem)}") from None


def read_batches(path: Name, convert: Converter | None = None, wanted: Wanted | None = None) -> Iterator[Chunk]:
    """A file in chunks of some thousand rows; Parquet and CSV give at least one, with their columns.

    `convert` gives CSV columns their types (without it they are texts); columns not `wanted` are left out.
    """
    import pyarrow as pa

    check_source(path)
    kind = format_of(path)
    try:
        if kind == "parquet":
            yield from _read_parquet(Path(path), wanted)
        elif kind == "csv":
            yield from _read_csv(Path(path), convert, wanted)
        else:
            yield from _read_jsonl(Path(path))
    except pa.ArrowCancelled:
        raise KeyboardInterrupt from None
    except (pa.ArrowException, OSError, UnicodeDecodeError, python_csv.Error) as problem:
        raise EarmarkError(f"{str(path)!r} cannot be read as {_WORDS[kind]}: {reason(problem)}") from None


def reason(problem: BaseException) -> str:
    """What an exception of another library says, on one line."""
    if isinstance(problem, OSError) and problem.errno:
        return os.strerror(problem.errno)
    if isinstance(problem, UnicodeDecodeError):
        return f"it is not UTF-8 text (byte {problem.object[problem.start]:#x})"
    return " ".join(str(problem).split())[:300] or type(problem).__name__


def place(path: Name, row: int, line: int | None = None) -> str:
    """Where a row of a file stands: its line in texts, counted from 1; its number in Parquet, counted from 0.

    CSV is looked through again, O(size): only errors need it.
    """
    if line is None and format_of(path) == "csv":
        line = _csv_line(path, row)
    return f"{str(path)!r}, row {row}" if line is None else f"{str(path)!r}, line {line}"


def _csv_line(path: Name, row: int) -> int | None:
    """The line on which a row begins: quoted fields may hold line breaks, and blank lines are no rows."""
    before, seen = 0, -2  # the header is row -1
    python_csv.field_size_limit(_LONGEST_FIELD)
    with contextlib.suppress(python_csv.Error, OSError), _opened_csv(path, errors="replace") as file:
        reader = python_csv.reader(file)
        for fields in reader:
            seen += bool(fields)
            if fields and seen == row:
                return before + 1
            before = reader.line_num
    return None


def _opened_csv(path: Name, errors: str = "strict") -> Any:
    return open(path, encoding="utf-8-sig", errors=errors, newline="")


def check_names(path: Name, names: Sequence[str]) -> None:
    """Columns are told apart by their names."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise EarmarkError(f"{str(path)!r} has two columns {twice[0]!r}")


def _read_parquet(path: Path, wanted: Wanted | None) -> Iterator[Chunk]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        check_names(path, schema.names)
        # Of a table without columns nobody would know how many rows it has: one stays.
        names = [n for n in schema.names if wanted is None or wanted(n)] or schema.names[:1]
        total, done = max(file.metadata.num_rows, 1), 0
        for batch in file.iter_batches(batch_size=ROWS, columns=names):
            table = pa.Table.from_batches([batch]).replace_schema_metadata(schema.metadata)
            yield Chunk(table, done, (done + batch.num_rows) / total)
            done += batch.num_rows
        if done == 0:
            yield Chunk(schema.empty_table().select(names), 0, 1.0)


def _read_csv(path: Path, convert: Converter | None, wanted: Wanted | None) -> Iterator[Chunk]:
    import pyarrow as pa
    from pyarrow import csv

    from earmark.tabular.quotes import open_quote_line

    # At once where it is cheap; of a field longer than a block Arrow complains as well, below.
    _refuse_open_quote(path, open_quote_line(path, 128 * _BLOCK))
    names = _csv_header(path)
    chosen = [name for name in names if wanted is None or wanted(name)] or names[:1]
    done = 0
    with pa.OSFile(str(path)) as file:
        try:
            reader = csv.open_csv(
                file,
                # One thread: only then do messages number the rows. The work is in the search.
                csv.ReadOptions(block_size=_BLOCK, use_threads=False),
                csv.ParseOptions(newlines_in_values=True),
                # Only an empty field is NULL: "NA" is a country, "nan" a number.
                csv.ConvertOptions(
                    include_columns=chosen,
                    column_types={name: pa.string() for name in names},
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
            size = max(file.size(), 1)
            for block, batch in enumerate(reader):  # a batch a block; Arrow reads ahead, so file.tell() does not tell
                before, after = (min(i * _BLOCK, size) for i in (block, block + 1))
                for start in range(0, batch.num_rows, ROWS):
                    table = _typed(path, pa.Table.from_batches([batch.slice(start, ROWS)]), done, convert)
                    part = (start + table.num_rows) / batch.num_rows
                    yield Chunk(table, done, (before + (after - before) * part) / size)
                    done += table.num_rows
            if done == 0:
                yield Chunk(_typed(path, reader.schema.empty_table(), 0, convert), 0, 1.0)
        except pa.ArrowInvalid as problem:
            _refuse_open_quote(path, open_quote_line(path))
            if "straddling object" in str(problem):
                raise EarmarkError(f"{place(path, done)}: longer than {_BLOCK >> 20} MB") from None
            if not (found := _ROW_NUMBER.match(str(problem))):
                raise
            where = place(path, int(found[1]) - 2)  # Arrow counts from 1, and the header
            raise EarmarkError(f"{where}: {reason(problem)[found.end() :]}") from None


def _refuse_open_quote(path: Path, line: int | None) -> None:
    if line is not None:
        raise EarmarkError(f"{str(path)!r}, line {line}: a quote opens here and is closed nowhere")


def _csv_header(path: Path) -> list[str]:
    """The names of the columns."""
    with _opened_csv(path) as file:
        names: list[str] | None = next((fields for fields in python_csv.reader(file) if fields), None)
    if names is None:
        raise EarmarkError(f"{str(path)!r} is empty; a CSV file begins with a line of column names")
    check_names(path, names)
    return names


def _typed(path: Path, table: pa.Table, first: int, convert: Converter | None) -> pa.Table:
    if convert is None:
        return table
    try:
        return convert(table)
    except NotOfType as problem:
        raise EarmarkError(f"{place(path, first + problem.row)}: {problem}") from None


def _read_jsonl(path: Path) -> Iterator[Chunk]:
    size, read, pending, number, first = max(path.stat().st_size, 1), 0, 0, 0, 0
    rows: list[Row] = []
    lines: list[int] = []
    with path.open("rb") as file:
        while line := file.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                raise EarmarkError(f"{str(path)!r}, line {number}: longer than {MAX_LINE >> 20} MB")
            read += len(line)
            pending += len(line)
            if line.strip():
                rows.append(_json_row(line, path, number))
                lines.append(number)
            if len(rows) == ROWS or (rows and pending > _BLOCK):
                yield Chunk(rows, first, read / size, lines)
                first, pending, rows, lines = first + len(rows), 0, [], []
    if rows:
        yield Chunk(rows, first, 1.0, lines)


def _json_row(line: bytes, path: Path, number: int) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise EarmarkError(
            f"{str(path)!r}, line {number}: not JSON; a file of JSON lines has one object a line"
        ) from None
    if not isinstance(row, dict):
        raise EarmarkError(f"{str(path)!r}, line {number}: a {_JSON_WORDS[type(row)]} instead of an object")
    return row
