"""CSV has no types: a column takes the type of the attribute it feeds, or the narrowest type that fits all its strings.

Whole columns are cast at once; where a cast fails, values are looked at one by one, by the rules that literals follow
in conditions, and the first that does not fit is named.

An empty field is NULL. A quoted empty field is the empty string; where the type is not string, it is NULL too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from earmark.model.literals import LiteralError, date_value, timestamp_value
from earmark.tabular.read import NotOfType

if TYPE_CHECKING:
    import pyarrow as pa

_WITH_ARTICLE = {"integer": "an integer"}
_WHOLE_IN_DOUBLE = 15  # digits that a double always keeps


def typed_table(table: pa.Table, kinds: Mapping[str, str | None]) -> pa.Table:
    """The same rows, columns with the types of these attributes; None finds one; others stay strings."""
    for i, name in enumerate(table.column_names):
        if name in kinds:
            table = table.set_column(i, name, typed_column(table.column(i), kinds[name], name))
    return table


def typed_column(column: pa.ChunkedArray, kind: str | None, name: str) -> Any:
    """A column of strings as the values of an attribute of this kind."""
    import pyarrow.compute as pc

    if kind == "string":
        return column
    plain = pc.utf8_trim_whitespace(column)
    plain = pc.if_else(pc.equal(plain, ""), None, plain)
    if kind is None:
        return _guessed(plain, column)
    make = _MAKERS.get(kind.partition("(")[0])
    assert make is not None, f"every kind of attribute has a maker; {kind} has none"
    made = make(plain, kind)
    if made is None:
        row = _first_bad(plain, lambda part: make(part, kind) is not None)
        raise NotOfType(
            row, f"expected {_WITH_ARTICLE.get(kind, f'a {kind}')} for {name!r}, got {plain[row].as_py()[:100]!r}"
        )
    return made


def integers(column: Any) -> Any:
    """A column of whole numbers, written as str() writes them, as integers; others stay strings: 007 is not 7."""
    import pyarrow as pa
    import pyarrow.compute as pc

    made = _cast(column, pa.int64())
    same = made is not None and made.null_count < len(made) and pc.all(pc.equal(made.cast(pa.string()), column)).as_py()
    return made if same else column


def _first_bad(column: Any, fits: Callable[[Any], bool]) -> int:
    """The first row that makes a column unfit. O(n log n)."""
    low, high = 0, len(column)  # what lies before `low` fits, what lies before `high` does not
    while high - low > 1:
        middle = (low + high) // 2
        if fits(column.slice(low, middle - low)):
            low = middle
        else:
            high = middle
    return low


def _cast(column: Any, type_: pa.DataType) -> Any:
    import pyarrow as pa

    try:
        return column.cast(type_)
    except pa.ArrowException:
        return None


def _guessed(plain: Any, column: Any) -> Any:
    import pyarrow as pa

    made = _cast(plain, pa.int64())
    for kind in ("float", "boolean", "date", "timestamp"):
        made = _MAKERS[kind](plain, kind) if made is None else made
    return column if made is None else made


def _any_numbers(column: Any, kind: str) -> Any:
    """Integers where all are; else doubles, or exact decimals where some have too many digits for a double."""
    import pyarrow as pa
    import pyarrow.compute as pc

    made = _cast(column, pa.int64())
    if made is None and pc.max(pc.utf8_length(column)).as_py() > _WHOLE_IN_DOUBLE:
        made = _cast(column, pa.decimal128(38, 19))
    return made if made is not None else _cast(column, pa.float64())


def _whole_numbers(column: Any, kind: str) -> Any:
    """Integers where all are; else doubles, which must be whole.

    Whole numbers written as 1e3 among some with too many digits for a double become exact decimals.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    made = _cast(column, pa.int64())
    if made is None and pc.max(pc.utf8_length(column)).as_py() > _WHOLE_IN_DOUBLE:
        exact = _cast(column, pa.decimal128(38, 19))
        if exact is not None and pc.all(pc.equal(exact, pc.floor(exact))).as_py():
            made = exact
    return made if made is not None else _cast(column, pa.float64())


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
    import pyarrow as pa

    for type_, read in ((pa.timestamp("us"), _naive), (pa.timestamp("us", "UTC"), _zoned)):
        made = _cast(column, type_)
        made = _by_value(column, read, type_) if made is None else made
        if made is not None:
            return made
    return None


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


def _by_value(column: Any, read: Callable[[str], date], type_: pa.DataType) -> Any:
    """Each distinct text once, as a literal; None when one of them cannot be read."""
    import pyarrow as pa

    found: dict[str | None, date | None] = {None: None}
    try:
        for text in column.unique().to_pylist():
            if text is not None:
                found[text] = read(text)
    except LiteralError:
        return None
    return pa.array([found[text] for text in column.to_pylist()], type_)


_MAKERS: dict[str, Callable[[Any, str], Any]] = {
    "number": _any_numbers,
    "integer": _whole_numbers,
    "float": _floats,
    "boolean": _booleans,
    "decimal": _decimals,
    "date": _dates,
    "timestamp": _timestamps,
}
