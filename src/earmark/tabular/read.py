"""Sources as chunks of rows, so that memory stays bounded whatever the size.

Rows of Parquet and CSV are Arrow tables, rows of JSON lines are dicts, so that each value keeps its own type, and no
integer is rounded because a neighbour has a fraction.
"""

from __future__ import annotations

import csv as python_csv
import json
from collections.abc import Container, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from earmark.errors import EarmarkError, shortened
from earmark.events.mappings import Reject
from earmark.tabular.csvfile import BLOCK, ROWS, Kinds, read_csv
from earmark.tabular.source import ByteStream, Chunk, Row, Source, reason

MAX_LINE = 64 << 20
_JSON_WORDS = {"list": "a list", "str": "a string", "bool": "a boolean", "NoneType": "null"}  # others are numbers


def read_batches(
    source: Source, kinds: Kinds | None = None, wanted: Container[str] | None = None, tolerant: bool = False
) -> Iterator[Chunk]:
    """Yield a source in chunks of some thousand rows; Parquet and CSV give at least one, with their columns.

    Columns of CSV take the types `kinds`, and the others are strings; columns not `wanted` are left out. If `tolerant`,
    values that do not fit are NULL, a line that is not a JSON object and a record of CSV with the wrong number of
    fields are empty rows, and the chunk's rejects say why; otherwise they are errors.
    """
    try:
        with source.opened() as stream:
            if source.format == "parquet":
                yield from _read_parquet(source, stream, wanted)
            elif source.format == "csv":
                yield from read_csv(source, stream, kinds, wanted, tolerant)
            else:
                yield from _read_jsonl(source, stream, tolerant)
    except pa.ArrowCancelled:
        raise KeyboardInterrupt from None
    except EarmarkError as problem:  # one with a line does not know of which file
        raise problem if problem.line is None else problem.at(source=str(source)) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError, python_csv.Error) as problem:
        raise EarmarkError(f"{source} cannot be read as {source.words}: {reason(problem)}") from None


def _read_parquet(source: Source, stream: ByteStream, wanted: Container[str] | None) -> Iterator[Chunk]:
    with pq.ParquetFile(stream.file) as file:
        schema = file.schema_arrow
        names = source.columns(schema.names, wanted)
        total, done = max(file.metadata.num_rows, 1), 0
        for batch in file.iter_batches(batch_size=ROWS, columns=names):
            table = pa.Table.from_batches([batch]).replace_schema_metadata(schema.metadata)
            yield Chunk(table, done, (done + batch.num_rows) / total, source=source)
            done += batch.num_rows
        if done == 0:
            yield Chunk(schema.empty_table().select(names), 0, 1.0, source=source)


def _read_jsonl(source: Source, stream: ByteStream, tolerant: bool) -> Iterator[Chunk]:
    pending, number, first = 0, 0, 0
    rows: list[Row] = []
    lines: list[int] = []
    rejects: list[Reject] = []
    while line := stream.file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise EarmarkError(f"longer than {MAX_LINE >> 20} MB", line=number)
        pending += len(line)
        if line.strip():
            try:
                row = _json_row(line, number)
            except EarmarkError as problem:
                if not tolerant:
                    raise problem.at(line=number) from None
                rejects.append(Reject.of(problem, len(rows)))
                row = {}
            rows.append(row)
            lines.append(number)
        if len(rows) == ROWS or (rows and pending > BLOCK):
            yield Chunk(rows, first, stream.share, lines, rejects, source)
            first, pending, rows, lines, rejects = first + len(rows), 0, [], [], []
    if rows:
        yield Chunk(rows, first, 1.0, lines, rejects, source)


def _json_row(line: bytes, number: int) -> Row:
    expected = "expected one JSON object per line"
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        advice = "; `jq -c` writes JSON like that" if number == 1 and line.strip() in (b"{", b"[") else ""
        text = shortened(line.strip().decode(errors="backslashreplace"), 60)
        raise EarmarkError(f"{expected}, got {text!r}, which is not JSON{advice}") from None
    if not isinstance(row, dict):
        advice = "; `jq -c '.[]'` turns a list into lines" if isinstance(row, list) and number == 1 else ""
        raise EarmarkError(f"{expected}, got {_JSON_WORDS.get(type(row).__name__, 'a number')}{advice}")
    return row
