"""All matches in SQL: a table function that takes a table of events and the path of a book.

    SELECT * FROM matches(TABLE(events), '/shared/ads')
    SELECT * FROM matches(TABLE(SELECT * FROM events WHERE day = '2024-01-01'), '/shared/ads', k => 10, rank => true)

The result has the columns of the events, then those of `match`. The book is opened when the query is analysed: the
newest version then, or `version`, is the one that all workers search.

Spark hands a table function its rows one by one, as Python objects; ROWS of them are searched at a time. That is many
times slower than `match`, whose rows come in Arrow batches: it is for SQL that has no DataFrame to call `match` on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from earmark.engine.batch import check_on_error
from earmark.errors import EarmarkError
from earmark.spark import frames
from earmark.spark.frames import Columns, as_nullable, struct_of
from earmark.spark.matching import Shape, checked_search
from earmark.spark.search import Search, result_batches, searched
from earmark.spark.snapshot import Snapshot
from earmark.spark.types import check_type

ROWS = 4_096
"""Rows that are searched at a time."""
OPTIONS = ("k", "mode", "version", "on_error", "rank", "prefix")


@dataclass
class Analyzed(AnalyzeResult):
    """What is known of a call once it is analysed: sent to the workers."""

    search: Search = field(default=None)  # type: ignore[assignment]
    events: StructType = field(default_factory=StructType)
    attributes: list[tuple[str, tuple[str, ...], str | None]] = field(default_factory=list)
    """Attribute, the path of its column, and the key where that is a map."""
    columns: Columns = field(default=None)  # type: ignore[assignment]


def register_matches(spark: SparkSession, name: str = "matches") -> None:
    """Make `name(TABLE(events), path, k => …)` a table function of this session.

    Options are `k`, `mode`, `on_error`, `rank` and `prefix` as in `match`, and `version`, the newest by default.
    """
    sensitive = frames.is_case_sensitive(spark)
    zone = frames.session_zone(spark)

    class Matches:
        """The table function, as Spark wants it."""

        @staticmethod
        def analyze(events: AnalyzeArgument, book: AnalyzeArgument, **options: AnalyzeArgument) -> AnalyzeResult:
            """Return the columns of the result."""
            return analyzed(sensitive, zone, events, book, options)

        def __init__(self, known: Any) -> None:
            self.waiting = Waiting(known)

        def eval(self, events: Any, book: Any, **options: Any) -> Iterator[tuple[Any, ...]]:
            """Take a row; yield the matches of some, once there are many."""
            yield from self.waiting.take(events)

        def terminate(self) -> Iterator[tuple[Any, ...]]:
            """Yield the matches of the last rows."""
            yield from self.waiting.matches()

    spark.udtf.register(name, udtf(Matches))  # type: ignore[arg-type]


def analyzed(
    sensitive: bool, zone: str, events: AnalyzeArgument, book: AnalyzeArgument, options: dict[str, AnalyzeArgument]
) -> Analyzed:
    """Check a call, and open the book."""
    if not events.isTable or not isinstance(events.dataType, StructType):
        raise EarmarkError("expected a table of events as the first argument, such as TABLE(events)")
    if not isinstance(book.value, str):
        raise EarmarkError("expected the path of a book as the second argument, as a string that is known beforehand")
    given = {}
    for name, argument in options.items():
        if name not in OPTIONS:
            raise EarmarkError(f"there is no option {name!r}: expected one of {', '.join(OPTIONS)}")
        given[name] = argument.value
    snapshot = Snapshot.open(book.value, given.get("version"))
    on_error: Any = given.get("on_error") or "raise"
    check_on_error(on_error, None)
    search = checked_search(snapshot, given.get("k"), given.get("mode") or "exact", None, None)
    shape = Shape(bool(given.get("rank")), prefix=given.get("prefix") or "")
    shape.check(snapshot.payload)
    schema = snapshot.schema
    columns = [(own.name, own.dataType) for own in events.dataType.fields]
    found = frames.locations(columns, schema.names, sensitive, frames.spark_nesting)
    if not found and schema.names:
        raise EarmarkError(f"no column of the table is an attribute of the book, such as {schema.names[0]!r}")
    for location in found:
        check_type(schema.by_name[location.attribute], location.type)
    frames.check_zone(zone, schema, [location.attribute for location in found])
    types = shape.types(snapshot.integer_ids, snapshot.payload)
    for name, _ in columns:
        if name.lower() in map(str.lower, types):
            raise EarmarkError(f"the events have a column {name!r}, which is also one of the result: give a prefix")
    attributes = [(location.attribute, at) for at, location in enumerate(found)]
    place = len(found)  # of the number of a row, which comes back with its matches
    made = Columns([place], attributes, None, None, ["row", *types], rank=shape.rank)
    return Analyzed(
        StructType([as_nullable(own) for own in events.dataType.fields] + struct_of(types).fields),
        search=search._replace(on_error=on_error),
        events=events.dataType,
        attributes=[(location.attribute, location.path, location.key) for location in found],
        columns=made,
    )


class Waiting:
    """The rows of a partition that were not searched yet."""

    def __init__(self, known: Analyzed) -> None:
        self.known = known
        self.rows: list[Any] = []
        types = {name: to_arrow_type(_type_at(known.events, path, key)) for name, path, key in known.attributes}
        self.types = list(types.values())

    def take(self, row: Any) -> Iterator[tuple[Any, ...]]:
        """Take a row; yield the matches of all, once there are many."""
        self.rows.append(row)
        if len(self.rows) >= ROWS:
            yield from self.matches()

    def matches(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows with their matches."""
        rows, self.rows = self.rows, []
        known = self.known
        arrays = [
            pa.array([_value_at(row, path, key) for row in rows], type_)
            for (_, path, key), type_ in zip(known.attributes, self.types, strict=True)
        ]
        arrays.append(pa.array(range(len(rows)), pa.int64()))
        batch = pa.RecordBatch.from_arrays(arrays, [f"c{i}" for i in range(len(arrays))])
        for part in searched(known.search, known.columns, iter([batch])):
            for made in result_batches(known.search, known.columns, part.rows, part.answers):
                for row, *answer in zip(*(column.to_pylist() for column in made.columns), strict=True):
                    yield (*rows[row], *answer)


def _type_at(schema: Any, path: Sequence[str], key: str | None) -> Any:
    for name in path:
        schema = schema[name].dataType
    return schema if key is None else schema.valueType


def _value_at(row: Any, path: Sequence[str], key: str | None) -> Any:
    for name in path:
        if row is None:
            return None
        row = row[name]
    if key is not None:
        return None if row is None else row.get(key)
    return row.asDict() if hasattr(row, "asDict") else row
