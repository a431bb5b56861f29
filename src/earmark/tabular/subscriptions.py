"""A whole source of subscriptions as what `Matcher.add_many` takes.

Three forms: a column `condition`; a column `ranges`; pairs of columns such as `age_lo` and `age_hi`. Beside them `id`,
and optionally `score`, `weights` and `tags`. What CSV cannot nest (`weights`, `tags`, `ranges`) is JSON in a string.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from earmark.errors import EarmarkError, shown
from earmark.progress import shares
from earmark.tabular.csvtypes import integers, typed_column
from earmark.tabular.read import Row, read_batches
from earmark.tabular.source import Source, reason

if TYPE_CHECKING:
    import pyarrow as pa

FIELDS = ("id", "condition", "weights", "score", "tags")
COLUMNS = (*FIELDS, "ranges")
_BLANKS = " \t\r\n\u00a0\ufeff"  # also the no-break space and the byte order mark
_DELIMITERS = ";\t|,"


@dataclass(frozen=True, slots=True)
class SubscriptionFile:
    """The subscriptions of a source, and the line of each in text."""

    source: Source
    rows: pa.Table | list[Row]
    lines: Sequence[int]

    def located(self, problem: EarmarkError) -> EarmarkError:
        """The same problem with the file, and the line of its row."""
        line = None if problem.row is None or not len(self.lines) else int(self.lines[problem.row])
        return problem.at(source=str(self.source), line=line, problems=tuple(map(self.located, problem.problems)))


def read_subscriptions(source: Source, declared: Mapping[str, str], extra: Sequence[str] = ()) -> SubscriptionFile:
    """The subscriptions of a source, with progress on a terminal.

    `declared` are the types of attributes, for bounds that come as strings; `extra` names columns to keep beside those
    of a subscription.
    """
    import pyarrow as pa

    chunks = list(shares(read_batches(source), "reading"))
    lines = [line for chunk in chunks for line in chunk.lines]
    if source.format != "jsonl":
        table = pa.concat_tables([chunk.rows for chunk in chunks])
        _check_columns(source, table.column_names, (*COLUMNS, *extra))
        file = SubscriptionFile(source, table, lines if len(lines) == len(table) else ())
        return _typed(file, declared, extra)
    rows: list[Row] = [row for chunk in chunks for row in chunk.rows]
    _check_columns(source, list(dict.fromkeys(name for row in rows for name in row)), (*COLUMNS, *extra))
    file = SubscriptionFile(source, rows, lines)
    if not rows or any("condition" in row for row in rows):
        known = [{name: row[name] for name in (*FIELDS, *extra) if name in row} for row in rows]
        return SubscriptionFile(source, known, lines)
    return _typed(SubscriptionFile(source, _as_table(file), lines), declared, extra)


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


def _as_table(file: SubscriptionFile) -> pa.Table:
    """JSON objects with bounds as columns."""
    import pyarrow as pa

    rows: list[Row] = file.rows
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        if name in _NESTED:
            columns[name] = _nested(file, name, values)
            continue
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowException, OverflowError) as problem:
            raise file.located(_no_column(name, problem)) from None
    return pa.table(columns)


def _no_column(name: str, problem: Exception) -> EarmarkError:
    return EarmarkError(f"the values of {name!r} make no column: {reason(problem)}")


def _typed(file: SubscriptionFile, declared: Mapping[str, str], extra: Sequence[str]) -> SubscriptionFile:
    """Columns of strings as what they are meant to hold."""
    import pyarrow as pa

    table: Any = file.rows
    untyped = file.source.format == "csv"
    decoded: dict[str, list[Any]] = {}
    for i, field in enumerate(table.schema):
        if not pa.types.is_string(field.type) and not pa.types.is_large_string(field.type):
            continue
        column, name = table.column(i), field.name
        stem = name[:-3] if name.endswith(("_lo", "_hi")) else None
        try:
            if name in _nested_names(table):
                decoded[name] = _decoded(name, column.to_pylist())
            elif name == "score":
                column = typed_column(column, "float", "score")
            elif stem is not None and (untyped or stem in declared):
                column = _bounds(name, typed_column(column, declared.get(stem), name))
            elif name == "id" and untyped:
                column = integers(column)
        except EarmarkError as problem:
            raise file.located(problem) from None
        table = table.set_column(i, name, column)
    return SubscriptionFile(file.source, _with_decoded(file, table, decoded, extra), file.lines)


def _bounds(name: str, column: Any) -> Any:
    """A column of bounds as Arrow has it: exact numbers of any size as decimals."""
    import pyarrow as pa

    if not isinstance(column, list):
        return column
    exact = [Decimal(repr(value)) if isinstance(value, float) else value for value in column]
    try:
        return pa.array(exact, pa.decimal256(76, 38))
    except pa.ArrowException as problem:
        raise _no_column(name, problem) from None


def _nested_names(table: pa.Table) -> set[str]:
    """The columns that hold maps or lists; where there is a condition, nobody asks for ranges."""
    names = set(table.column_names)
    return names & _NESTED.keys() - ({"ranges"} if "condition" in names else set())


def _with_decoded(
    file: SubscriptionFile, table: pa.Table, decoded: dict[str, list[Any]], extra: Sequence[str]
) -> pa.Table | list[Row]:
    """The table with the JSON of its strings: as rows where there are conditions, which are read row by row anyway."""
    names: list[str] = table.column_names
    if decoded and "condition" in names and decoded.keys() == _nested_names(table):
        rows: list[Row] = table.select([name for name in (*FIELDS, *extra) if name in names]).to_pylist()
        for name, values in decoded.items():
            for row, value in zip(rows, values, strict=True):
                row[name] = value
        return rows
    for name, values in decoded.items():
        table = table.set_column(names.index(name), name, _nested(file, name, values))
    return table


def _decoded(name: str, strings: list[str | None]) -> list[Any]:
    made = []
    for row, text in enumerate(strings):
        try:
            made.append(json.loads(text) if text else None)
        except (ValueError, RecursionError):
            raise EarmarkError(f"expected JSON for {name!r}, got {shown(text)}", row=row) from None
    return made


def _nested(file: SubscriptionFile, name: str, values: list[Any]) -> pa.Array:
    """JSON values as a column of maps or of lists of ranges."""
    import pyarrow as pa

    type_, wanted, plain = _NESTED[name]
    for row, value in enumerate(values):
        if value is not None and not isinstance(value, wanted):
            word = "object" if wanted is dict else "list"
            raise file.located(EarmarkError(f"expected a JSON {word} for {name!r}, got {shown(value)}", row=row))
    made = [None if value is None else plain(value) for value in values]
    try:
        return pa.array(made, None if type_ is None else pa.map_(pa.string(), type_))
    except (pa.ArrowException, OverflowError, TypeError) as problem:
        bad = next((row for row, one in enumerate(made) if not _fits(one, type_)), None)
        raise file.located(EarmarkError(f"{name!r} cannot be read: {reason(problem)}", row=bad)) from None


def _fits(value: Any, type_: str | None) -> bool:
    import pyarrow as pa

    try:
        pa.array([value], None if type_ is None else pa.map_(pa.string(), type_))
    except (pa.ArrowException, OverflowError, TypeError):
        return False
    return True


_NESTED: dict[str, tuple[str | None, type, Callable[[Any], Any]]] = {
    "weights": ("float64", dict, lambda value: list(value.items())),
    "tags": ("string", dict, lambda value: list(value.items())),
    "ranges": (None, list, lambda value: value),
}
