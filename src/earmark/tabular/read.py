"""Sources as chunks of rows, so that memory stays bounded whatever the size.

Rows of Parquet and CSV are Arrow tables, rows of JSON lines are dicts, so that each value keeps its own type, and no
integer is rounded because a neighbour has a fraction.
"""

from __future__ import annotations

import csv as python_csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from earmark.errors import EarmarkError, shortened
from earmark.events.mappings import Reject
from earmark.tabular.records import TextBlock, blocks
from earmark.tabular.source import ByteStream, Source, reason

ROWS = 16_384
MAX_LINE = 64 << 20
_BLOCK = 2 << 20  # bytes of text read at a time, and the longest record of CSV
_JSON_WORDS = {"list": "a list", "str": "a string", "bool": "a boolean", "NoneType": "null"}  # others are numbers

Row = dict[str, Any]
Wanted = Callable[[str], bool]

Converter = Callable[[pa.Table], tuple[pa.Table | list[Row], Sequence[Reject]]]
"""Gives the columns of a CSV table, all strings, their types; returns what did not fit, or raises it with its row."""


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

    def part(self, start: int, end: int, before: float | None) -> Chunk:
        """Return some of the rows; `before` is the share of the source that had been read before this chunk."""
        rows = self.rows[start:end] if isinstance(self.rows, list) else self.rows.slice(start, end - start)
        share = self.share
        if share is not None and end < len(self.rows):
            before = before or 0.0
            share = before + (share - before) * end / len(self.rows)
        rejects = [r._replace(event=r.event - start) for r in self.rejects if start <= r.event < end]
        return Chunk(rows, self.first + start, share, self.lines[start:end], rejects)

    def parts(self, size: int, before: float | None) -> Iterator[Chunk]:
        """Yield the rows in parts of at most `size`; at least one part, perhaps without rows."""
        for start in range(0, max(len(self.rows), 1), size):
            yield self.part(start, min(start + size, len(self.rows)), before)

    def located(self, source: Source, problem: EarmarkError) -> EarmarkError:
        """Return the problem with its line in the source, or else its row."""
        row = problem.row if problem.event is None else problem.event
        if row is None:
            return problem.at(source=str(source))
        event = None if problem.event is None else self.first + row
        line = int(self.lines[row]) if len(self.lines) else None
        return problem.at(source=str(source), line=line, row=self.first + row, event=event)


def read_batches(
    source: Source, convert: Converter | None = None, wanted: Wanted | None = None, tolerant: bool = False
) -> Iterator[Chunk]:
    """Yield a source in chunks of some thousand rows; Parquet and CSV give at least one, with their columns.

    `convert` gives CSV columns their types (without it they are strings); columns not `wanted` are left out. If
    `tolerant`, a line that is not a JSON object and a record of CSV with the wrong number of fields are empty rows, and
    the chunk's rejects say why; otherwise they are errors.
    """
    try:
        with source.opened() as stream:
            if source.format == "parquet":
                yield from _read_parquet(source, stream, wanted)
            elif source.format == "csv":
                yield from _read_csv(source, stream, convert, wanted, tolerant)
            else:
                yield from _read_jsonl(source, stream, tolerant)
    except pa.ArrowCancelled:
        raise KeyboardInterrupt from None
    except (pa.ArrowException, OSError, UnicodeDecodeError, python_csv.Error) as problem:
        raise EarmarkError(f"{source} cannot be read as {source.words}: {reason(problem)}") from None


def _check_names(source: Source, names: Sequence[str]) -> None:
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > 1:
        raise EarmarkError(f"{source} has two columns {name!r}")


def _read_parquet(source: Source, stream: ByteStream, wanted: Wanted | None) -> Iterator[Chunk]:
    with pq.ParquetFile(stream.file) as file:
        schema = file.schema_arrow
        _check_names(source, schema.names)
        # A table without columns would not have a number of rows: keep one.
        names = [n for n in schema.names if wanted is None or wanted(n)] or schema.names[:1]
        total, done = max(file.metadata.num_rows, 1), 0
        for batch in file.iter_batches(batch_size=ROWS, columns=names):
            table = pa.Table.from_batches([batch]).replace_schema_metadata(schema.metadata)
            yield Chunk(table, done, (done + batch.num_rows) / total)
            done += batch.num_rows
        if done == 0:
            yield Chunk(schema.empty_table().select(names), 0, 1.0)


def _read_csv(
    source: Source, stream: ByteStream, convert: Converter | None, wanted: Wanted | None, tolerant: bool
) -> Iterator[Chunk]:
    names: list[str] = []
    chosen: list[str] = []
    done = 0
    before: float | None = 0.0
    for block in _blocks(source, stream):
        if not names and len(block.starts):
            names, block = _header(source, block)
            chosen = [name for name in names if wanted is None or wanted(name)] or names[:1]
        if len(block.starts):
            table, rejects = _parsed(source, block, names, chosen, tolerant)
            lines: Any = block.lines if len(block.lines) == len(table) else ()
            yield from _typed_parts(source, Chunk(table, done, stream.share, lines, rejects), before, convert)
            done += len(table)
        before = stream.share
    if not names:
        raise EarmarkError(f"{source} is empty; a CSV file begins with a line of column names")
    if done == 0:
        empty = pa.table({name: pa.array([], pa.string()) for name in chosen})
        yield from _typed_parts(source, Chunk(empty, 0, 1.0), before, convert)


def _blocks(source: Source, stream: ByteStream) -> Iterator[TextBlock]:
    try:
        yield from blocks(stream.file.read, source.delimiter, _BLOCK)
    except EarmarkError as problem:
        raise problem.at(source=str(source)) from None


def _header(source: Source, block: TextBlock) -> tuple[list[str], TextBlock]:
    """Return the names of the columns, and the block without them."""
    text, starts, lines = block
    end = int(starts[1]) if len(starts) > 1 else len(text)
    header = io.StringIO(text[int(starts[0]) : end].decode(), newline="")
    names = next(python_csv.reader(header, delimiter=source.delimiter))
    _check_names(source, names)
    return names, TextBlock(text[end:], starts[1:] - end, lines[1:])


def _parsed(
    source: Source, block: TextBlock, names: list[str], chosen: list[str], tolerant: bool
) -> tuple[pa.Table, list[Reject]]:
    """Return the records of a block as columns of strings; if `tolerant`, those of another length as empty rows."""
    rejects: list[Reject] = []

    def skip(row: Any) -> str:
        reason = f"expected {row.expected_columns} columns, got {row.actual_columns}: {row.text[:100]}"
        rejects.append(Reject(row.number - 1, None, reason))  # Arrow counts from 1
        return "skip" if tolerant else "error"

    try:
        table = csv.read_csv(
            pa.BufferReader(block.text),
            # One thread: only then are invalid rows numbered. The work is in the search.
            csv.ReadOptions(column_names=names, block_size=len(block.text), use_threads=False),
            csv.ParseOptions(delimiter=source.delimiter, newlines_in_values=True, invalid_row_handler=skip),
            # Only an empty field is NULL: "NA" is a country, "nan" a number.
            csv.ConvertOptions(
                include_columns=chosen,
                column_types={name: pa.string() for name in names},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        unread = rejects[-1] if rejects and not tolerant else _undecodable(block)
        if unread is None or unread.event >= len(block.lines):
            raise
        raise EarmarkError(unread.reason, source=str(source), line=int(block.lines[unread.event])) from None
    if rejects:
        skipped = {reject.event for reject in rejects}
        place = iter(range(len(table)))
        table = table.take(pa.array([None if i in skipped else next(place) for i in range(len(table) + len(skipped))]))
    return table, rejects


def _undecodable(block: TextBlock) -> Reject | None:
    """Return the first record that is not UTF-8."""
    try:
        block.text.decode()
    except UnicodeDecodeError as problem:
        row = int(np.searchsorted(block.starts, problem.start, "right")) - 1
        return Reject(max(row, 0), None, f"expected UTF-8 text, got byte {block.text[problem.start]:#x}")
    return None


def _typed_parts(source: Source, chunk: Chunk, before: float | None, convert: Converter | None) -> Iterator[Chunk]:
    """Yield a chunk in parts of at most `ROWS` rows, whose columns have their types."""
    for part in chunk.parts(ROWS, before):
        try:
            rows, rejects = (part.rows, ()) if convert is None else convert(part.rows)
        except EarmarkError as problem:
            raise part.located(source, problem) from None
        yield replace(part, rows=rows, rejects=[*part.rejects, *rejects])


def _read_jsonl(source: Source, stream: ByteStream, tolerant: bool) -> Iterator[Chunk]:
    pending, number, first = 0, 0, 0
    rows: list[Row] = []
    lines: list[int] = []
    rejects: list[Reject] = []
    while line := stream.file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise EarmarkError(f"longer than {MAX_LINE >> 20} MB", source=str(source), line=number)
        pending += len(line)
        if line.strip():
            try:
                row = _json_row(line, number)
            except EarmarkError as problem:
                if not tolerant:
                    raise problem.at(source=str(source), line=number) from None
                rejects.append(Reject.of(problem, len(rows)))
                row = {}
            rows.append(row)
            lines.append(number)
        if len(rows) == ROWS or (rows and pending > _BLOCK):
            yield Chunk(rows, first, stream.share, lines, rejects)
            first, pending, rows, lines, rejects = first + len(rows), 0, [], [], []
    if rows:
        yield Chunk(rows, first, 1.0, lines, rejects)


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
