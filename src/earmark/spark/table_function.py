"""All matches in SQL: a table function that takes a table of events and the path of a book.

    SELECT * FROM matches(TABLE(events), '/shared/ads')
    SELECT * FROM matches(TABLE(SELECT * FROM events WHERE day = '2024-01-01'), '/shared/ads', k => 10, rank => true)

The result has the columns of the events, then those of `match`, which reads events the same way (frames.py, `Reading`).
The book is opened when the query is analysed: the newest version then, or `version`, is the one that all workers
search; the time of events that do not tell theirs is `at`, or the moment of the analysis.

From Spark 4.3 on, events come in Arrow batches, as those of `match` do. Spark says that functions over Arrow batches
cannot analyse their calls, but only its Python checks that: a function that is made as one over rows, and then marked,
does both. Before, rows come one by one, as Python objects; ROWS of them are searched at a time, which is many times
slower, and a string that is not UTF-8 fails before earmark sees it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf
from pyspark.sql.types import StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from earmark.engine.batch import OnError, check_on_error
from earmark.engine.searcher import Mode
from earmark.errors import EarmarkError
from earmark.events.moments import Moment
from earmark.spark import frames
from earmark.spark.frames import Reading, arrow_type, as_nullable, batch_of, reading_of, struct_of
from earmark.spark.matching import Scope, Shape, checked_search
from earmark.spark.older import instant, leaves_of
from earmark.spark.search import Search, match_batches
from earmark.spark.snapshot import Snapshot

ROWS = 4_096
"""Rows that are searched at a time, where they come one by one."""
FIRST_OVER_ARROW = (4, 3)
"""The first Spark on which functions over Arrow batches were tried."""
OVER_ARROW = 302
"""The number that Spark has for functions over Arrow batches (PythonEvalType.SQL_ARROW_UDTF)."""


class Options(NamedTuple):
    """The options of a call, as `match` has them, and their defaults."""

    k: int | None = None
    mode: Mode = "exact"
    scope: Scope = None
    at: Moment | None = None
    on_error: OnError = "raise"
    missing: str = "warn"
    rank: bool = False
    prefix: str = ""
    version: int | None = None

    @classmethod
    def of(cls, arguments: dict[str, AnalyzeArgument]) -> Options:
        """Return the options that were given; NULL is the default."""
        for name, argument in arguments.items():
            if name not in cls._fields:
                raise EarmarkError(f"there is no option {name!r}: expected one of {', '.join(cls._fields)}")
            if not argument.isConstantExpression:
                raise EarmarkError(f"option {name!r}: expected a value that is known beforehand, such as a literal")
        given = cls(**{name: one.value for name, one in arguments.items() if one.value is not None})
        if given.version is not None and type(given.version) is not int:
            raise EarmarkError(f"option 'version': expected the number of a version, got {given.version!r}")
        return given


@dataclass
class Analyzed(AnalyzeResult):
    """What is known of a call once it is analysed: sent to the workers."""

    search: Search = field(default=None)  # type: ignore[assignment]
    events: StructType = field(default_factory=StructType)
    reading: Reading = field(default=None)  # type: ignore[assignment]
    names: list[str] = field(default_factory=list)
    """The columns of the result."""
    rank: bool = False


def register_matches(spark: SparkSession, name: str = "matches") -> None:
    """Make `name(TABLE(events), path, k => …)` a table function of this session.

    Options are `k`, `mode`, `scope` (a MAP), `at`, `on_error`, `missing`, `rank` and `prefix` as in `match`, and
    `version`, the newest by default.
    """
    sensitive, zone = frames.is_case_sensitive(spark), frames.session_zone(spark)

    class Call:
        """The analysis of a call, as Spark wants it."""

        @staticmethod
        def analyze(events: AnalyzeArgument, book: AnalyzeArgument, **options: AnalyzeArgument) -> AnalyzeResult:
            """Return the columns of the result."""
            return analyzed(sensitive, zone, events, book, options)

    class OverRows(Call):
        """The table function for rows that come one by one."""

        def __init__(self, known: Any) -> None:
            self.waiting = Waiting(known)

        def eval(self, events: Any, book: Any, **options: Any) -> Iterator[tuple[Any, ...]]:
            """Take a row; yield the matches of some, once there are many."""
            yield from self.waiting.take(events)

        def terminate(self) -> Iterator[tuple[Any, ...]]:
            """Yield the matches of the last rows."""
            yield from self.waiting.matches()

    class OverBatches(Call):
        """The same for Arrow batches."""

        def __init__(self, known: Any) -> None:
            self.known = known

        def eval(self, events: pa.RecordBatch, book: Any, **options: Any) -> Iterator[pa.Table]:
            """Yield the matches of a batch."""
            yield from matches_of(self.known, events)

    if tuple(map(int, pyspark.__version__.split(".")[:2])) < FIRST_OVER_ARROW:
        spark.udtf.register(name, udtf(OverRows))  # type: ignore[arg-type]
        return
    function: Any = udtf(OverBatches)
    function.evalType = OVER_ARROW
    spark.udtf.register(name, function)


def analyzed(
    sensitive: bool, zone: str, events: AnalyzeArgument, book: AnalyzeArgument, arguments: dict[str, AnalyzeArgument]
) -> Analyzed:
    """Check a call, and open the book."""
    if not events.isTable or not isinstance(events.dataType, StructType):
        raise EarmarkError("expected a table of events as the first argument, such as TABLE(events)")
    if not isinstance(book.value, str):
        raise EarmarkError("expected the path of a book as the second argument, as a string that is known beforehand")
    options = Options.of(arguments)
    check_on_error(options.on_error, None)
    snapshot = Snapshot.open(book.value, options.version)
    search = checked_search(snapshot, options.k, options.mode, options.scope, None)
    shape = Shape(options.rank, prefix=options.prefix)
    shape.check(snapshot.payload)
    columns = {own.name: own.dataType for own in events.dataType.fields}
    if pairs := frames.alike(events.dataType.names, sensitive):
        first, second = next(iter(pairs.values()))
        raise EarmarkError(f"the table has the columns {first!r} and {second!r}, which Spark cannot tell apart")
    reading = reading_of(columns, snapshot.schema, sensitive, frames.spark_nesting, at=options.at, called="the table")
    reading.check_zone(zone, snapshot.schema)
    reading.check_missing(snapshot.schema, options.missing, snapshot.used, columns)
    types = shape.types(snapshot.integer_ids, snapshot.payload)
    for name in columns:
        if name.lower() in map(str.lower, types):
            raise EarmarkError(f"the events have a column {name!r}, which is also one of the result: give a prefix")
    return Analyzed(
        StructType([as_nullable(own) for own in events.dataType.fields] + struct_of(types).fields),
        search=search._replace(on_error=options.on_error),
        events=events.dataType,
        reading=reading,
        names=[*columns, *types],
        rank=shape.rank,
    )


# --- on the workers ------------------------------------------------------------------------------------------


def matches_of(known: Analyzed, events: pa.RecordBatch) -> Iterator[pa.Table]:
    """Yield the matches of a batch of events, which it carries along."""
    columns = dict(zip(known.events.names, events.columns, strict=True))
    batch, places = batch_of(known.reading, columns, events.num_rows, columns)
    places = places._replace(names=known.names, rank=known.rank)
    for made in match_batches(known.search, places, iter([batch])):
        yield pa.Table.from_batches([made])


class Waiting:
    """The rows of a partition that were not searched yet."""

    def __init__(self, known: Analyzed) -> None:
        self.known = known
        self.rows: list[Any] = []
        own = [(one, _type_at(known.events, one.path, one.key)) for one in known.reading.values]
        self.values = [(one, arrow_type(type_), "timestamp" in leaves_of(type_)) for one, type_ in own]

    def take(self, row: Any) -> Iterator[tuple[Any, ...]]:
        """Take a row; yield the matches of all, once there are many."""
        self.rows.append(row)
        if len(self.rows) >= ROWS:
            yield from self.matches()

    def matches(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows with their matches."""
        rows, self.rows = self.rows, []
        known, values = self.known, {}
        for at, (one, type_, is_instant) in enumerate(self.values):
            found = [_value_at(row, one.path, one.key, is_instant) for row in rows]
            values[f"v{at}"] = pa.array(found, type_)
        flat = [one._replace(path=(f"v{at}",), key=None) for at, one in enumerate(known.reading.values)]
        whole = None if known.reading.event_map is None else flat.pop()
        numbers = {"row": pa.array(range(len(rows)), pa.int64())}
        reading = known.reading._replace(attributes=flat, event_map=whole)
        batch, places = batch_of(reading, values, len(rows), numbers)
        results = known.names[len(known.events) :]
        places = places._replace(names=["row", *results], rank=known.rank, is_numbered=True)
        for made in match_batches(known.search, places, iter([batch])):
            for row, *answer in zip(*(column.to_pylist() for column in made.columns), strict=True):
                yield (*rows[row], *answer)


def _type_at(schema: Any, path: tuple[str, ...], key: str | None) -> Any:
    for name in path:
        schema = schema[name].dataType
    return schema if key is None else schema.valueType


def _value_at(row: Any, path: tuple[str, ...], key: str | None, is_instant: bool) -> Any:
    for name in path:
        if row is None:
            return None
        row = row[name]
    if key is not None:
        row = None if row is None else row.get(key)
    if hasattr(row, "asDict"):
        return {name: instant(value, is_instant) for name, value in row.asDict().items()}
    return instant(row, is_instant)
