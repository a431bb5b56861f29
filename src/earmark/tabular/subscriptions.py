"""A whole source of subscriptions, in the form that `Matcher.add_many` takes.

Three forms: a column `condition`; a column `ranges`; pairs of columns such as `age_lo` and `age_hi`. Beside them are
`id`, and optionally `score`, `weights`, `tags`, `starts` and `ends`. In CSV, which cannot nest, `weights`, `tags` and
`ranges` are JSON strings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from earmark.errors import EarmarkError, shown
from earmark.progress import shares
from earmark.tabular.csvfile import integers, typed_column, with_values
from earmark.tabular.read import read_batches
from earmark.tabular.source import Chunk, Row, Source, reason

FIELDS = ("id", "condition", "weights", "score", "tags", "starts", "ends")
COLUMNS = (*FIELDS, "ranges")
_BLANKS = " \t\r\n\u00a0\ufeff"  # also the no-break space and the byte order mark
_DELIMITERS = ";\t|,"


def read_subscriptions(source: Source, declared: Mapping[str, str], extra: Sequence[str] = ()) -> Chunk:
    """Read all subscriptions of a source, with progress on a terminal.

    `declared` are the types of attributes, for bounds that are strings; `extra` names columns to keep beside those of a
    subscription.
    """
    chunks = list(shares(read_batches(source), "reading"))
    lines = [line for chunk in chunks for line in chunk.lines]
    if source.format == "jsonl":
        rows: Any = [row for chunk in chunks for row in chunk.rows]
        names = list(dict.fromkeys(name for row in rows for name in row))
    else:
        rows = pa.concat_tables([chunk.rows for chunk in chunks])
        names = rows.column_names
    _check_columns(source, names, (*COLUMNS, *extra))
    file = Chunk(rows, 0, 1.0, lines if len(lines) == len(rows) else (), source=source)
    if isinstance(rows, list) and (not rows or "condition" in names):
        known = [{name: row[name] for name in (*FIELDS, *extra) if name in row} for row in rows]
        return replace(file, rows=known)
    try:
        table = _as_table(rows, names) if isinstance(rows, list) else rows
        return replace(file, rows=_typed(table, source.format == "csv", declared, extra))
    except EarmarkError as problem:
        raise file.located(problem) from None


def _check_columns(source: Source, names: Sequence[str], known: Sequence[str]) -> None:
    """Refuse names that are nearly those of a subscription, and a header that another delimiter would split."""
    meant = {name: name.strip(_BLANKS).lower() for name in names}
    wrong = {name: right for name, right in meant.items() if right in known and right not in names}
    if wrong:
        plural = "s" * (len(wrong) > 1)
        expected, got = (" and ".join(map(repr, part)) for part in (wrong.values(), wrong))
        raise EarmarkError(f"expected the column name{plural} {expected}, got {got}", source=str(source))
    if source.format == "csv" and len(names) == 1:
        other = next((character for character in _DELIMITERS if character in names[0]), None)
        if other is not None:
            raise EarmarkError(
                f"expected several columns, got only {names[0]!r}; "
                f"if {other!r} separates the fields, add --delimiter {other!r}",
                source=str(source),
            )


def _as_table(rows: list[Row], names: list[str]) -> pa.Table:
    """Return JSON objects with bounds as columns."""
    values = {name: [row.get(name) for row in rows] for name in names}
    return pa.table({name: (_nested if name in NESTED else column_of)(name, values[name]) for name in names})


def column_of(name: str, values: list[Any], type_: pa.DataType | None = None) -> pa.Array:
    """Return values as a column, which must be of one type."""
    try:
        return pa.array(values, type_)
    except _NOT_A_COLUMN as problem:
        raise EarmarkError(f"the values of {name!r} are not of one type: {reason(problem)}") from None


def _typed(table: pa.Table, untyped: bool, declared: Mapping[str, str], extra: Sequence[str]) -> pa.Table | list[Row]:
    """Give columns of strings their types; `untyped` if all columns are strings."""
    decoded: dict[str, list[Any]] = {}
    for i, field in enumerate(table.schema):
        if not pa.types.is_string(field.type) and not pa.types.is_large_string(field.type):
            continue
        column, name = table.column(i), field.name
        stem = name[:-3] if name.endswith(("_lo", "_hi")) else None
        if name in _nested_names(table):
            decoded[name] = _decoded(name, column.to_pylist())
        elif name == "score":
            column = typed_column(column, "float", "score")
        elif stem is not None and (untyped or stem in declared):
            column = _bounds(name, typed_column(column, declared.get(stem), name))
        elif name == "id" and untyped:
            column = integers(column)
        table = table.set_column(i, name, column)
    names: list[str] = table.column_names
    if decoded and "condition" in names and decoded.keys() == _nested_names(table):
        # Conditions are read row by row anyway.
        return with_values(table.select([name for name in (*FIELDS, *extra) if name in names]), decoded)
    for name, values in decoded.items():
        table = table.set_column(names.index(name), name, _nested(name, values))
    return table


def _bounds(name: str, column: Any) -> Any:
    """Return a column of bounds as an Arrow column, with exact numbers of any size as decimals."""
    if not isinstance(column, list):
        return column
    exact = [Decimal(repr(value)) if isinstance(value, float) else value for value in column]
    return column_of(name, exact, pa.decimal256(76, 38))


def _nested_names(table: pa.Table) -> set[str]:
    """Return the columns that hold maps or lists; ranges do not count where there is a condition."""
    names = set(table.column_names)
    return names & NESTED.keys() - ({"ranges"} if "condition" in names else set())


def _decoded(name: str, strings: list[str | None]) -> list[Any]:
    values = []
    for row, text in enumerate(strings):
        try:
            values.append(json.loads(text) if text else None)
        except (ValueError, RecursionError):
            raise EarmarkError(f"expected JSON for {name!r}, got {shown(text)}", row=row) from None
    return values


def _nested(name: str, values: list[Any]) -> pa.Array:
    """Return JSON values as a column of maps or of lists of ranges."""
    type_ = NESTED[name]
    wanted, word = (list, "list") if type_ is None else (dict, "object")
    for row, value in enumerate(values):
        if value is not None and not isinstance(value, wanted):
            raise EarmarkError(f"expected a JSON {word} for {name!r}, got {shown(value)}", row=row)
    lists = as_pairs(values)
    try:
        return pa.array(lists, type_)
    except _NOT_A_COLUMN as problem:
        bad = next((row for row, value in enumerate(lists) if not _fits(value, type_)), None)
        raise EarmarkError(f"{name!r} cannot be read: {reason(problem)}", row=bad) from None


def as_pairs(values: list[Any]) -> list[Any]:
    """Return dicts as lists of pairs, as Arrow takes them for maps; other values as they are."""
    return [list(value.items()) if isinstance(value, dict) else value for value in values]


def _fits(value: Any, type_: pa.DataType | None) -> bool:
    try:
        pa.array([value], type_)
    except _NOT_A_COLUMN:
        return False
    return True


_NOT_A_COLUMN = (pa.ArrowException, OverflowError, TypeError)
NESTED = {"weights": pa.map_(pa.string(), pa.float64()), "tags": pa.map_(pa.string(), pa.string()), "ranges": None}
