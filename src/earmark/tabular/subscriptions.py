"""A whole file of subscriptions as what `Matcher.add_many` takes.

Three forms: a column `condition`; a column `ranges`; pairs of columns such as `age_lo` and `age_hi`. Beside them `id`,
and optionally `score`, `weights` and `tags`. What CSV cannot nest (`weights`, `tags`, `ranges`) is JSON in a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from earmark.errors import EarmarkError
from earmark.tabular.csvtypes import integers, typed_column
from earmark.tabular.read import Name, NotOfType, Row, format_of, place, read_batches, reason

if TYPE_CHECKING:
    import pyarrow as pa

FIELDS = ("id", "condition", "weights", "score", "tags")
_ROW = re.compile(r"row (\d+)(?=[,:] )")


@dataclass(frozen=True, slots=True)
class SubscriptionFile:
    """The subscriptions of a file, and where each stands."""

    path: str
    rows: pa.Table | list[Row]
    lines: Sequence[int]

    def located(self, problem: EarmarkError) -> EarmarkError:
        """The same problem, told of the file and the line or row instead of the row in a batch."""
        text = str(problem).replace("the frame has", "it has", 1)
        found = _ROW.match(text)
        if not found:
            return type(problem)(f"{self.path!r}: {text}")
        return type(problem)(self.place(int(found[1])) + text[found.end() :])

    def place(self, row: int) -> str:
        """Where a row stands."""
        return place(self.path, row, self.lines[row] if self.lines else None)


def read_subscriptions(path: Name, declared: Mapping[str, str]) -> SubscriptionFile:
    """The subscriptions of a file; `declared` are the types of attributes, for bounds that come as texts."""
    import pyarrow as pa

    chunks = list(read_batches(path))
    if format_of(path) != "jsonl":
        file = SubscriptionFile(str(path), pa.concat_tables([chunk.rows for chunk in chunks]), ())
        return _typed(file, declared)
    rows = [row for chunk in chunks for row in chunk.rows]
    file = SubscriptionFile(str(path), rows, [line for chunk in chunks for line in chunk.lines])
    if not rows or any("condition" in row for row in rows):
        known = [{name: row[name] for name in FIELDS if name in row} for row in rows]
        return SubscriptionFile(file.path, known, file.lines)
    return _typed(SubscriptionFile(file.path, _as_table(file), file.lines), declared)


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
            raise EarmarkError(f"{file.path!r}: the values of {name!r} make no column: {reason(problem)}") from None
    return pa.table(columns)


def _typed(file: SubscriptionFile, declared: Mapping[str, str]) -> SubscriptionFile:
    """Columns of texts as what they are meant to hold."""
    import pyarrow as pa

    table: Any = file.rows
    untyped = format_of(file.path) == "csv"
    decoded: dict[str, list[Any]] = {}
    for i, field in enumerate(table.schema):
        if not pa.types.is_string(field.type) and not pa.types.is_large_string(field.type):
            continue
        column, name = table.column(i), field.name
        stem = name[:-3] if name.endswith(("_lo", "_hi")) else None
        try:
            if name in _nested_names(table):
                decoded[name] = _decoded(file, name, column.to_pylist())
            elif name == "score":
                column = typed_column(column, "float", "score")
            elif stem is not None and (untyped or stem in declared):
                column = typed_column(column, declared.get(stem), name)
            elif name == "id" and untyped:
                column = integers(column)
        except NotOfType as problem:
            raise EarmarkError(f"{file.place(problem.row)}: {problem}") from None
        table = table.set_column(i, name, column)
    return SubscriptionFile(file.path, _with_decoded(file, table, decoded), file.lines)


def _nested_names(table: pa.Table) -> set[str]:
    """The columns that hold maps or lists; where there is a condition, nobody asks for ranges."""
    names = set(table.column_names)
    return names & _NESTED.keys() - ({"ranges"} if "condition" in names else set())


def _with_decoded(file: SubscriptionFile, table: pa.Table, decoded: dict[str, list[Any]]) -> pa.Table | list[Row]:
    """The table with what its texts held: as rows where there are conditions, which are read row by row anyway."""
    names: list[str] = table.column_names
    if decoded and "condition" in names and decoded.keys() == _nested_names(table):
        rows: list[Row] = table.select([name for name in FIELDS if name in names]).to_pylist()
        for name, values in decoded.items():
            for row, value in zip(rows, values, strict=True):
                row[name] = value
        return rows
    for name, values in decoded.items():
        table = table.set_column(names.index(name), name, _nested(file, name, values))
    return table


def _decoded(file: SubscriptionFile, name: str, texts: list[str | None]) -> list[Any]:
    made = []
    for row, text in enumerate(texts):
        try:
            made.append(json.loads(text) if text else None)
        except (ValueError, RecursionError):
            raise EarmarkError(f"{file.place(row)}: {name} is {str(text)[:100]!r}, which is not JSON") from None
    return made


def _nested(file: SubscriptionFile, name: str, values: list[Any]) -> pa.Array:
    """JSON values as a column of maps or of lists of ranges."""
    import pyarrow as pa

    type_, wanted, plain = _NESTED[name]
    for row, value in enumerate(values):
        if value is not None and not isinstance(value, wanted):
            word = "object" if wanted is dict else "list"
            raise EarmarkError(f"{file.place(row)}: {name} is {str(value)[:100]!r}, not a JSON {word}")
    made = [None if value is None else plain(value) for value in values]
    try:
        return pa.array(made, None if type_ is None else pa.map_(pa.string(), type_))
    except (pa.ArrowException, OverflowError, TypeError) as problem:
        bad = next((row for row, one in enumerate(made) if not _fits(one, type_)), None)
        where = repr(file.path) if bad is None else file.place(bad)
        raise EarmarkError(f"{where}: {name} cannot be read: {reason(problem)}") from None


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
