"""CSV: text into records, records into columns of strings, and strings into the types of attributes.

**Records.** A line break inside a quoted field does not end a record. Whether a break is inside one is found from runs
of quotes, and from what is before each run:

    run    before the run             in a quoted field           outside
    odd    text                       ends the field              is text            A: outside, in any case
    even   text                       is text ("" is a quote)     is text            B: changes nothing
    odd    start, comma or break      ends the field              opens a field      C: changes sides
    even   start, comma or break      is text                     an empty field     D: changes nothing

Invariant: a block begins outside; after a run of kind A we are outside, and each run of kind C since then changes
sides. Example: in `a,b⏎1,"x⏎2,y⏎` the only run is of kind C, so only the first break ends a record, and the text ends
inside the field that the quote opens. Complexity: O(bytes), a few passes of numpy over each block; memory for two.

**Types.** CSV has none: a column takes the type of the attribute it feeds, or the narrowest type that fits all its
strings. Arrow casts whole columns. Where a cast fails, the column is halved until the values that do not fit are found.
An empty field is NULL. A quoted empty field is the empty string; where the type is not string, it is NULL too.
"""

from __future__ import annotations

import contextlib
import csv as python_csv
import io
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

from earmark.errors import EarmarkError, shown
from earmark.events.mappings import Reject
from earmark.keys.schema import article, attribute_type
from earmark.language.literals import LiteralError, date_value, timestamp_value
from earmark.tabular.source import ByteStream, Chunk, Row, Source

ROWS = 16_384  # in a chunk
BLOCK = 2 << 20  # bytes of text read at a time, and the longest record of CSV
_QUOTE, _LF, _CR = ord('"'), ord("\n"), ord("\r")
_MARK = b"\xef\xbb\xbf"
_EXPECTED = {
    "date": "a date such as 2024-02-29",
    "timestamp": "a timestamp such as 2024-02-29 12:30:00 or 2024-02-29T12:30:00Z",
}
_TYPES = {"float": pa.float64(), "boolean": pa.bool_()}
_EXACT_IN_DOUBLE = 2.0**53  # below it, a double represents every whole number

Places = NDArray[np.int64]
Kinds = Mapping[str, str | None]
"""Types of attributes by name; None for one that may be of any type."""


class TextBlock(NamedTuple):
    """Whole records: the text, where each record that is not blank begins, and on which line."""

    text: bytes
    starts: Places
    lines: Places


class Breaks(NamedTuple):
    """The line breaks of a text that begins outside quotes, which of them end records, and the quote still open."""

    at: Places
    outside: NDArray[np.bool_]
    open_quote: int | None


def read_csv(
    source: Source, stream: ByteStream, kinds: Kinds | None, wanted: Container[str] | None, tolerant: bool
) -> Iterator[Chunk]:
    """Yield a source in chunks, as `read_batches` does; errors in a record have its line."""
    names: list[str] = []
    chosen: list[str] = []
    done = 0
    before: float | None = 0.0
    for block in blocks(stream.file.read, source.delimiter, BLOCK):
        if not names and len(block.starts):
            names, block = _header(source, block)
            chosen = source.columns(names, wanted)
        if len(block.starts):
            table, rejects = _parsed(source, block, names, chosen, tolerant)
            lines: Any = block.lines if len(block.lines) == len(table) else ()
            chunk = Chunk(table, done, stream.share, lines, rejects, source)
            yield from _typed_parts(chunk, before, kinds, tolerant)
            done += len(table)
        before = stream.share
    if not names:
        raise EarmarkError(f"{source} is empty; a CSV file begins with a line of column names")
    if done == 0:
        empty = pa.table({name: pa.array([], pa.string()) for name in chosen})
        yield from _typed_parts(Chunk(empty, 0, 1.0, source=source), before, kinds, tolerant)


def _header(source: Source, block: TextBlock) -> tuple[list[str], TextBlock]:
    """Return the names of the columns, and the block without them."""
    text, starts, lines = block
    end = int(starts[1]) if len(starts) > 1 else len(text)
    header = io.StringIO(text[int(starts[0]) : end].decode(), newline="")
    names = next(python_csv.reader(header, delimiter=source.delimiter))
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
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        unread = rejects[-1] if rejects and not tolerant else _undecodable(block)
        if unread is None or unread.event >= len(block.lines):
            raise
        raise EarmarkError(unread.reason, line=int(block.lines[unread.event])) from None
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


def _typed_parts(chunk: Chunk, before: float | None, kinds: Kinds | None, tolerant: bool) -> Iterator[Chunk]:
    """Yield a chunk in parts of at most `ROWS` rows, whose columns have their types."""
    for part in chunk.parts(ROWS, before):
        rejects = [*part.rejects]
        try:
            rows = typed_table(part.rows, kinds or {}, rejects if tolerant else None)
        except EarmarkError as problem:
            raise part.located(problem) from None
        yield replace(part, rows=rows, rejects=rejects)


# --- records


def blocks(read: Callable[[int], bytes], delimiter: str, size: int) -> Iterator[TextBlock]:
    """Yield the records of a text that `read` returns piece by piece; none may be longer than `size` bytes.

    An error has the line on which the problem begins.
    """
    line, final = 1, False
    rest = read(len(_MARK)).removeprefix(_MARK)
    while not final:
        piece = read(size)
        final = not piece
        text = rest + piece
        breaks = line_breaks(text, delimiter, final)
        if final and breaks.open_quote is not None:
            raise _never_closed(line, breaks)
        ends = breaks.at[breaks.outside]
        end = len(text) if final else int(ends[-1]) + 1 if len(ends) else 0  # of the last whole record
        if end == 0 and len(text) > size:
            raise _too_long(read, delimiter, size, text, line, breaks)
        if end:
            yield _block(text[:end], breaks, line)
        rest = text[end:]
        line += int(np.count_nonzero(breaks.at < end))


def line_breaks(text: bytes, delimiter: str, final: bool) -> Breaks:
    """Find the line breaks of a text; `final` if nothing comes after it."""
    data = np.frombuffer(text, np.uint8)
    at = np.flatnonzero(data == _LF)
    if text.count(b"\r") > text.count(b"\r\n"):
        alone = np.flatnonzero(data == _CR)
        followed = np.append(data, _LF if not final else 0)[alone + 1]  # at the end of a piece, \n may follow
        at = np.sort(np.concatenate([at, alone[followed != _LF]]))
    quotes = np.flatnonzero(data == _QUOTE) if b'"' in text else at[:0]
    if not len(quotes):
        return Breaks(at, np.ones(len(at), bool), None)
    heads = np.flatnonzero(np.diff(quotes, prepend=-2) != 1)
    odd = quotes[heads][np.diff(heads, append=len(quotes)) % 2 == 1]
    before = np.where(odd > 0, data[odd - 1], _LF)
    turns = np.isin(before, (ord(delimiter), _LF, _CR))  # kind C; the others are of kind A
    sides = np.cumsum(turns)
    last = np.maximum.accumulate(np.where(turns, 0, np.arange(1, len(odd) + 1)))  # kind A, counted from 1
    inside = np.append(0, (sides - np.append(0, sides)[last]) % 2).astype(bool)
    outside = ~inside[np.searchsorted(odd, at)]
    return Breaks(at, outside, int(odd[-1]) if inside[-1] else None)


def _block(text: bytes, breaks: Breaks, line: int) -> TextBlock:
    data = np.frombuffer(text, np.uint8)
    numbers = np.flatnonzero(breaks.outside)
    starts = np.append(0, breaks.at[numbers] + 1)
    lines = line + np.append(0, numbers + 1)
    lengths = np.diff(starts, append=len(text) + 1) - 1
    blank = (lengths <= 0) | ((lengths == 1) & (np.append(data, 0)[np.minimum(starts, len(data))] == _CR))
    return TextBlock(text, starts[~blank], lines[~blank])


def _never_closed(line: int, breaks: Breaks) -> EarmarkError:
    before = int(np.searchsorted(breaks.at, breaks.open_quote or 0))
    return EarmarkError("a quote opens here and is never closed", line=line + before)


def _too_long(
    read: Callable[[int], bytes], delimiter: str, size: int, text: bytes, line: int, breaks: Breaks
) -> EarmarkError:
    """Return what is wrong with a record that does not end: read on to see whether a quote is never closed."""
    ahead = breaks
    while ahead.open_quote is not None:
        piece = read(size)
        text = _still_open(text, ahead.open_quote) + piece
        ahead = line_breaks(text, delimiter, not piece)
        if ahead.outside.any():
            break
        if not piece and ahead.open_quote is not None:
            return _never_closed(line, breaks)
    return EarmarkError(f"longer than {size >> 20} MB", line=line)


def _still_open(text: bytes, open_quote: int) -> bytes:
    """Return a short text that leaves a quote open as this one does, with its last quotes, which more may follow."""
    end = len(text.rstrip(b'"'))
    return (b"" if end == open_quote else b'"x') + text[end:]


# --- types


def typed_table(table: pa.Table, kinds: Kinds, rejects: list[Reject] | None = None) -> pa.Table | list[Row]:
    """Return the rows with the types of these attributes; other columns, and those without a type, stay strings.

    A value that does not fit raises an error with its row; with `rejects`, it is added there and becomes NULL. If a
    column holds numbers that have no common Arrow type, the rows are returned as mappings.
    """
    exact: dict[str, list[Any]] = {}
    for i, name in enumerate(table.column_names):
        kind = kinds.get(name)
        if kind is None:
            continue
        column = typed_column(table.column(i), kind, name, rejects)
        if isinstance(column, list):
            exact[name] = column
        else:
            table = table.set_column(i, name, column)
    return with_values(table, exact) if exact else table


def with_values(table: pa.Table, columns: Mapping[str, list[Any]]) -> list[Row]:
    """Return the rows of a table as mappings, with other values in some columns."""
    rows = zip(table.to_pylist(), *columns.values(), strict=True)
    return [row | dict(zip(columns, values, strict=True)) for row, *values in rows]


def typed_column(column: pa.ChunkedArray, kind: str | None, name: str, rejects: list[Reject] | None = None) -> Any:
    """Return a column of strings as values of this kind; without a kind, of the first kind that fits.

    Numbers that have no common Arrow type are returned as a list. For values that do not fit, see `typed_table`.
    """
    kind = None if kind is None else str(attribute_type(kind))
    if kind == "string":
        return column
    plain = pc.utf8_trim_whitespace(column)
    plain = pc.if_else(pc.equal(plain, ""), None, plain)
    if kind is None:
        guesses = (_typed(plain, guess) for guess in ("number", "boolean", "date", "timestamp"))
        return next((typed for typed in guesses if typed is not None), column)
    typed = _typed(plain, kind)
    if typed is not None:
        return typed
    fits = [True] * len(plain)
    for row in _unfit(plain, kind):
        reason = f"expected {_EXPECTED.get(kind, article(kind))} for {name!r}, got {shown(plain[row].as_py())}"
        problem = EarmarkError(reason, row=row, attribute=name)
        if rejects is None:
            raise problem
        rejects.append(Reject.of(problem, row))
        fits[row] = False
    return _typed(pc.if_else(pa.array(fits), plain, None), kind)


def integers(column: Any) -> Any:
    """Return a column of whole numbers as integers if str() writes them so, else the strings: 007 is not 7."""
    typed = _cast(column, pa.int64())
    if typed is None or typed.null_count == len(typed):
        return column
    return typed if pc.all(pc.equal(typed.cast(pa.string()), column)).as_py() else column


def _unfit(column: Any, kind: str, first: int = 0) -> Iterator[int]:
    """Yield the rows that do not fit, in order. O(n log n) for the first one, and O(n) for each of the others."""
    if _typed(column, kind) is not None:
        return
    if len(column) == 1:
        yield first
        return
    middle = len(column) // 2
    yield from _unfit(column.slice(0, middle), kind, first)
    yield from _unfit(column.slice(middle), kind, first + middle)


def _typed(column: Any, kind: str) -> Any:
    """Return the values of a column of strings, or None if one of them is not of this kind."""
    if kind in ("number", "integer"):
        return _numbers(column)
    if kind == "timestamp":
        return _timestamps(column)
    if kind == "date":
        typed = _cast(column, pa.date32())
        days = _literals(column, date_value) if typed is None else None
        return typed if days is None else pa.array(days, pa.date32())
    if kind in _TYPES:
        return _cast(column, _TYPES[kind])
    decimal = attribute_type(kind)
    return _cast(column, pa.decimal128(decimal.precision, decimal.scale))


def _cast(column: Any, *types: pa.DataType) -> Any:
    """Return the column as the first of these types that fits all its values, or None."""
    for type_ in types:
        with contextlib.suppress(pa.ArrowException):
            return column.cast(type_)
    return None


def _numbers(column: Any) -> Any:
    """Return integers if all are; else doubles; else, if a double would round an integer, a list of exact values."""
    if pc.any(pc.match_substring(column, "x", ignore_case=True)).as_py():
        return None  # Arrow would take 0x10 for 16, but only where all are whole
    typed = _cast(column, pa.int64(), pa.uint64(), pa.float64())
    if typed is None or typed.type != pa.float64():
        return typed
    large = pc.and_(pc.is_finite(typed), pc.greater_equal(pc.abs(typed), _EXACT_IN_DOUBLE))
    rounded = pc.and_(large, pc.invert(pc.match_substring(column, "e", ignore_case=True)))
    if not pc.any(rounded).as_py():
        return typed
    return [None if text is None else _number(text) for text in column.to_pylist()]


def _number(text: str) -> float | Decimal:
    """Return a number as a condition reads it: 1e3 is a double, 1000 and 0.5 are exact."""
    return Decimal(text) if text.lstrip("+-").replace(".", "", 1).isdigit() else float(text)


def _timestamps(column: Any) -> Any:
    """Return timestamps, if all have a zone or none has; if only some have one, strings, which the matcher reads."""
    typed = _cast(column, pa.timestamp("us"), pa.timestamp("us", "UTC"))
    times = _literals(column, timestamp_value) if typed is None else None
    if times is None:
        return typed
    zoned = {time.tzinfo is not None for time in times if time is not None}
    return column if len(zoned) > 1 else pa.array(times, pa.timestamp("us", "UTC" if True in zoned else None))


def _literals(column: Any, read: Callable[[str], Any]) -> list[Any] | None:
    """Return the values of a column of literals, each distinct one read once, or None if one cannot be read."""
    try:
        values = {text: read(text) for text in column.unique().drop_null().to_pylist()}
    except LiteralError:
        return None
    return [values.get(text) for text in column.to_pylist()]
