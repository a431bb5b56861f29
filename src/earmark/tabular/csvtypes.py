"""CSV has no types: a column takes the type of the attribute it feeds, or the narrowest type that fits all its strings.

Whole columns are cast at once. Where a cast fails, the column is halved until the values that do not fit are found.

An empty field is NULL. A quoted empty field is the empty string; where the type is not string, it is NULL too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from earmark.errors import EarmarkError, shown
from earmark.events.mappings import Reject
from earmark.keys.schema import article
from earmark.language.literals import LiteralError, date_value, timestamp_value
from earmark.tabular.read import Row

if TYPE_CHECKING:
    import pyarrow as pa

_EXPECTED = {
    "date": "a date such as 2024-02-29",
    "timestamp": "a timestamp such as 2024-02-29 12:30:00 or 2024-02-29T12:30:00Z",
}
_EXACT_IN_DOUBLE = 2.0**53  # below it, a double keeps every whole number


def typed_table(
    table: pa.Table, kinds: Mapping[str, str | None], rejects: list[Reject] | None = None
) -> pa.Table | list[Row]:
    """The same rows, columns with the types of these attributes; other columns, and those without a type, stay strings.

    A value that does not fit raises an error with its row; or, with `rejects`, it is put there and is NULL. Where a
    column holds numbers that no type of Arrow has together, the rows come as mappings.
    """
    unequal: dict[str, list[Any]] = {}
    for i, name in enumerate(table.column_names):
        kind = kinds.get(name)
        if kind is None:
            continue
        column = typed_column(table.column(i), kind, name, rejects)
        if isinstance(column, list):
            unequal[name] = column
        else:
            table = table.set_column(i, name, column)
    if not unequal:
        return table
    rows: list[Row] = table.to_pylist()
    for name, values in unequal.items():
        for row, value in zip(rows, values, strict=True):
            row[name] = value
    return rows


def typed_column(column: pa.ChunkedArray, kind: str | None, name: str, rejects: list[Reject] | None = None) -> Any:
    """A column of strings as the values of an attribute of this kind; None finds a kind that fits.

    Numbers that no type of Arrow has together come as a list. Values that do not fit: see `typed_table`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind == "string":
        return column
    plain = pc.utf8_trim_whitespace(column)
    plain = pc.if_else(pc.equal(plain, ""), None, plain)
    if kind is None:
        return _guessed(plain, column)
    make = _MAKERS[kind.partition("(")[0]]
    made = make(plain, kind)
    if made is not None:
        return made
    fits = [True] * len(plain)
    for row in _unfit(plain, lambda part: make(part, kind) is not None):
        reason = f"expected {_EXPECTED.get(kind, article(kind))} for {name!r}, got {shown(plain[row].as_py())}"
        problem = EarmarkError(reason, row=row, attribute=name)
        if rejects is None:
            raise problem
        rejects.append(Reject.of(problem, row))
        fits[row] = False
    return make(pc.if_else(pa.array(fits), plain, None), kind)


def integers(column: Any) -> Any:
    """A column of whole numbers, written as str() writes them, as integers; others stay strings: 007 is not 7."""
    import pyarrow as pa
    import pyarrow.compute as pc

    made = _cast(column, pa.int64())
    same = made is not None and made.null_count < len(made) and pc.all(pc.equal(made.cast(pa.string()), column)).as_py()
    return made if same else column


def _unfit(column: Any, fits: Callable[[Any], bool], first: int = 0) -> Iterator[int]:
    """The rows of a column that make it unfit, in order. O(n log n) for the first, and O(n) more for each."""
    if fits(column):
        return
    if len(column) == 1:
        yield first
        return
    middle = len(column) // 2
    yield from _unfit(column.slice(0, middle), fits, first)
    yield from _unfit(column.slice(middle), fits, first + middle)


def _cast(column: Any, type_: pa.DataType) -> Any:
    import pyarrow as pa

    try:
        return column.cast(type_)
    except pa.ArrowException:
        return None


def _guessed(plain: Any, column: Any) -> Any:
    made = _numbers(plain, "number")
    for kind in ("boolean", "date", "timestamp"):
        made = _MAKERS[kind](plain, kind) if made is None else made
    return column if made is None else made


def _numbers(column: Any, kind: str) -> Any:
    """Integers where all are; else doubles; else, where a double would round a whole number, a list of exact values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pc.any(pc.match_substring(column, "x", ignore_case=True)).as_py():
        return None  # Arrow would take 0x10 for 16, but only where all are whole
    for type_ in (pa.int64(), pa.uint64()):
        made = _cast(column, type_)
        if made is not None:
            return made
    made = _cast(column, pa.float64())
    if made is None:
        return None
    large = pc.and_(pc.is_finite(made), pc.greater_equal(pc.abs(made), _EXACT_IN_DOUBLE))
    rounded = pc.and_(large, pc.invert(pc.match_substring(column, "e", ignore_case=True)))
    if not pc.any(rounded).as_py():
        return made
    return [None if text is None else _number(text) for text in column.to_pylist()]


def _number(text: str) -> float | Decimal:
    """A number as a condition has it: 1e3 is a double, 1000 and 0.5 are exact."""
    return Decimal(text) if text.lstrip("+-").replace(".", "", 1).isdigit() else float(text)


def _floats(column: Any, kind: str) -> Any:
    import pyarrow as pa

    return _cast(column, pa.float64())


def _booleans(column: Any, kind: str) -> Any:
    import pyarrow as pa

    return _cast(column, pa.bool_())


def _decimals(column: Any, kind: str) -> Any:
    import pyarrow as pa

    precision, scale = (int(part) for part in kind[len("decimal(") : -1].split(","))
    return _cast(column, pa.decimal128(precision, scale))


def _dates(column: Any, kind: str) -> Any:
    import pyarrow as pa

    made = _cast(column, pa.date32())
    return made if made is not None else _by_value(column, date_value, pa.date32())


def _timestamps(column: Any, kind: str) -> Any:
    """Timestamps, where all have a zone or none has; where some have, strings, which the matcher reads."""
    import pyarrow as pa

    for type_, read in ((pa.timestamp("us"), _naive), (pa.timestamp("us", "UTC"), _zoned)):
        made = _cast(column, type_)
        made = _by_value(column, read, type_) if made is None else made
        if made is not None:
            return made
    return _by_value(column, timestamp_value, None)


def _naive(text: str) -> datetime:
    value = timestamp_value(text)
    if value.tzinfo is not None:
        raise LiteralError("it has a zone")
    return value


def _zoned(text: str) -> datetime:
    value = timestamp_value(text)
    if value.tzinfo is None:
        raise LiteralError("it has no zone")
    return value


def _by_value(column: Any, read: Callable[[str], date], type_: pa.DataType | None) -> Any:
    """Each distinct string once, as a literal; None when one of them cannot be read. Without a type, the column."""
    import pyarrow as pa

    values: dict[str | None, date | None] = {None: None}
    try:
        for text in column.unique().to_pylist():
            if text is not None:
                values[text] = read(text)
    except LiteralError:
        return None
    return column if type_ is None else pa.array([values[text] for text in column.to_pylist()], type_)


_MAKERS: dict[str, Callable[[Any, str], Any]] = {
    "number": _numbers,
    "integer": _numbers,
    "float": _floats,
    "boolean": _booleans,
    "decimal": _decimals,
    "date": _dates,
    "timestamp": _timestamps,
}
