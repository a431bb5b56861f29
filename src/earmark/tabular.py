"""Subscriptions and events in files: Parquet, CSV and JSON lines, read and written in batches.

The format follows from the file's name. Reading is streamed, so memory stays bounded whatever the size; writing goes
to a file beside the target, which appears under its name only when it is whole.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from earmark.errors import EarmarkError

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
ROWS = 16_384
_CSV_BLOCK = 4 << 20
_MAX_LINE = 64 << 20


class Chunk(NamedTuple):
    """Some rows of a file, and how much of the file is read by now (0 to 1)."""

    table: pa.Table
    share: float


def format_of(path: str | os.PathLike[str]) -> str:
    """The format of a file, by its name."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise EarmarkError(
            f"{str(path)!r}: files are .parquet, .csv or .jsonl; {suffix or 'no suffix'!r} is none of these"
        )
    return FORMATS[suffix]


def read_batches(path: str | os.PathLike[str], types: Mapping[str, pa.DataType] | None = None) -> Iterator[Chunk]:
    """A file as tables of some thousand rows. `types` fixes the types of CSV columns that are known."""
    import pyarrow as pa

    kind = format_of(path)
    if not Path(path).is_file():
        raise EarmarkError(f"there is no file {str(path)!r}")
    read = {"parquet": _read_parquet, "csv": _read_csv, "jsonl": _read_jsonl}[kind]
    try:
        yield from read(Path(path), dict(types or {}))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise EarmarkError(f"{str(path)!r} cannot be read as {kind}: {reason}") from None


def read_table(path: str | os.PathLike[str]) -> pa.Table:
    """A whole file as one table."""
    import pyarrow as pa

    tables = [chunk.table for chunk in read_batches(path)]
    if not tables:
        return pa.table({})
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as problem:
        raise EarmarkError(f"{str(path)!r}: its rows do not agree on the columns' types: {problem}") from None


def _read_parquet(path: Path, types: dict[str, pa.DataType]) -> Iterator[Chunk]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        total, done = max(file.metadata.num_rows, 1), 0
        for batch in file.iter_batches(batch_size=ROWS):
            done += batch.num_rows
            yield Chunk(
                pa.Table.from_batches([batch]).replace_schema_metadata(file.schema_arrow.metadata), done / total
            )


def _read_csv(path: Path, types: dict[str, pa.DataType]) -> Iterator[Chunk]:
    import pyarrow as pa
    from pyarrow import csv

    if path.stat().st_size == 0:
        return
    with pa.OSFile(str(path)) as file:
        reader = csv.open_csv(
            file,
            read_options=csv.ReadOptions(block_size=_CSV_BLOCK),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            # Only an empty field is NULL: "NA" is a country, "nan" a number.
            convert_options=csv.ConvertOptions(
                column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
            ),
        )
        for batch in reader:
            table = pa.Table.from_batches([batch])
            share = file.tell() / max(file.size(), 1)
            for start in range(0, table.num_rows, ROWS):
                yield Chunk(table.slice(start, ROWS), share)


def _read_jsonl(path: Path, types: dict[str, pa.DataType]) -> Iterator[Chunk]:
    size, done, rows = max(path.stat().st_size, 1), 0, []
    with path.open("rb") as file:
        number = 0
        while line := file.readline(_MAX_LINE):
            number += 1
            done += len(line)
            if line.strip():
                rows.append(_json_row(line, path, number))
            if len(rows) == ROWS:
                yield Chunk(_as_table(rows, path, number), done / size)
                rows = []
        if rows:
            yield Chunk(_as_table(rows, path, number), 1.0)


def _json_row(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise EarmarkError(
            f"{str(path)!r}, line {number}: not JSON; a file of JSON lines has one object a line"
        ) from None
    if not isinstance(row, dict):
        raise EarmarkError(f"{str(path)!r}, line {number}: a {type(row).__name__} instead of an object")
    return row


def _as_table(rows: list[dict[str, Any]], path: Path, number: int) -> pa.Table:
    import pyarrow as pa

    try:
        return pa.Table.from_pylist(rows, _row_schema(rows))
    except (pa.ArrowException, OverflowError) as problem:
        first = number - len(rows) + 1
        raise EarmarkError(f"{str(path)!r}, lines {first} to {number}: {problem}") from None


def _row_schema(rows: list[dict[str, Any]]) -> pa.Schema:
    """The columns of all rows (Arrow alone looks at the first row's)."""
    import pyarrow as pa

    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.schema([(name, pa.infer_type([row.get(name) for row in rows])) for name in names])


# --- writing -------------------------------------------------------------------------------------------------


def check_target(path: str | os.PathLike[str]) -> None:
    """Refuse early what could not be written in the end."""
    format_of(path)
    if not Path(path).absolute().parent.is_dir():
        raise EarmarkError(f"{str(path)!r} cannot be written: there is no folder {str(Path(path).parent)!r}")
    if Path(path).is_dir():
        raise EarmarkError(f"{str(path)!r} cannot be written: it is a folder")


class Writer:
    """Writes tables to a file, in its format; `with` makes the file appear when all is written."""

    def __init__(self, path: str | os.PathLike[str], schema: pa.Schema) -> None:
        self._path = Path(path)
        self._kind = format_of(path)
        self._aside = self._path.with_name(f".{self._path.name}.{os.getpid()}.part")
        self._schema = schema
        self._sink: Any = None

    def __enter__(self) -> Writer:
        try:
            self._sink = self._opened()
        except OSError as problem:
            raise EarmarkError(f"{str(self._path)!r} cannot be written: {problem.strerror or problem}") from None
        return self

    def _opened(self) -> Any:
        if self._kind == "parquet":
            import pyarrow.parquet as pq

            return pq.ParquetWriter(self._aside, self._schema)
        if self._kind == "csv":
            from pyarrow import csv

            return csv.CSVWriter(str(self._aside), self._schema)
        return self._aside.open("w", encoding="utf-8")

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        if self._kind == "jsonl":
            self._sink.writelines(json_lines(table))
        else:
            self._sink.write_table(table.cast(self._schema))

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        with contextlib.suppress(Exception) if kind else contextlib.nullcontext():
            self._sink.close()
        if kind is None:
            os.replace(self._aside, self._path)
        else:
            self._aside.unlink(missing_ok=True)


def json_lines(table: pa.Table) -> Iterator[str]:
    """The rows as JSON, one a line; NaN and infinities, which JSON lacks, as texts."""
    for row in table.to_pylist():
        clean = {k: str(v) if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
        yield json.dumps(clean, ensure_ascii=False, default=str) + "\n"
