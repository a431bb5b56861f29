"""CSV has no types: a column takes the type of the attribute it feeds, or the narrowest type that fits all its strings.

Arrow casts whole columns. Where a cast fails, the column is halved until the values that do not fit are found.

An empty field is NULL. A quoted empty field is the empty string; where the type is not string, it is NULL too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from earmark.errors import EarmarkError, shown
from earmark.events.mappings import Reject
from earmark.keys.schema import article, attribute_type
from earmark.language.literals import LiteralError, date_value, timestamp_value
from earmark.tabular.read import Row

_EXPECTED = {
    "date": "a date such as 2024-02-29",
    "timestamp": "a timestamp such as 2024-02-29 12:30:00 or 2024-02-29T12:30:00Z",
}
_TYPES = {"float": pa.float64(), "boolean": pa.bool_(), "date": pa.date32()}
_GUESSES = ("number", "boolean", "date", "timestamp")
_EXACT_IN_DOUBLE = 2.0**53  # below it, a double represents every whole number


def typed_table(
    table: pa.Table, kinds: Mapping[str, str | None], rejects: list[Reject] | None = None
) -> pa.Table | list[Row]:
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
    rows: list[Row] = table.to_pylist()
    for name, values in columns.items():
        for row, value in zip(rows, values, strict=True):
            row[name] = value
    return rows


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
        guesses = (_typed(plain, guess) for guess in _GUESSES)
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
    if kind in _TYPES:
        typed = _cast(column, _TYPES[kind])
        return _by_value(column, date_value, pa.date32()) if typed is None and kind == "date" else typed
    decimal = attribute_type(kind)
    return _cast(column, pa.decimal128(decimal.precision, decimal.scale))


def _cast(column: Any, type_: pa.DataType) -> Any:
    try:
        return column.cast(type_)
    except pa.ArrowException:
        return None


def _numbers(column: Any) -> Any:
    """Return integers if all are; else doubles; else, if a double would round an integer, a list of exact values."""
    if pc.any(pc.match_substring(column, "x", ignore_case=True)).as_py():
        return None  # Arrow would take 0x10 for 16, but only where all are whole
    for type_ in (pa.int64(), pa.uint64(), pa.float64()):
        typed = _cast(column, type_)
        if typed is not None:
            break
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
    for zone in (None, "UTC"):
        type_ = pa.timestamp("us", zone)
        typed = _cast(column, type_)
        typed = _by_value(column, partial(_timestamp, zone is not None), type_) if typed is None else typed
        if typed is not None:
            return typed
    return _by_value(column, timestamp_value, None)


def _timestamp(zoned: bool, text: str) -> datetime:
    value = timestamp_value(text)
    if (value.tzinfo is not None) != zoned:
        raise LiteralError("it has a zone" if value.tzinfo else "it has no zone")
    return value


def _by_value(column: Any, read: Callable[[str], date], type_: pa.DataType | None) -> Any:
    """Read each distinct string once, as a literal; return None if one cannot be read; without a type, the column."""
    values: dict[str | None, date | None] = {None: None}
    try:
        for text in column.unique().drop_null().to_pylist():
            values[text] = read(text)
    except LiteralError:
        return None
    return column if type_ is None else pa.array([values[text] for text in column.to_pylist()], type_)
