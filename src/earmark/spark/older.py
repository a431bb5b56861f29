"""The SQL function on Spark before 4.1, which has no functions over Arrow arrays: one row at a time.

A row comes as Python objects, exact but for one thing: a TIMESTAMP is a time without zone in the zone of the worker
process, which a TIMESTAMP_NTZ looks like, too. So a book that compares timestamps needs the types of the events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, Row, TimestampType

from earmark.engine.batch import read_one
from earmark.engine.searcher import Searcher
from earmark.errors import EarmarkError, EventError
from earmark.events.mappings import Interval
from earmark.events.moments import Moment
from earmark.keys.schema import LIFE, Kind, Schema
from earmark.spark import frames
from earmark.spark.search import Search

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Asked(NamedTuple):
    """What a SQL function was registered with, besides its search."""

    sensitive: bool
    at: Moment | None


def older_function(search: Search, asked: Asked, schema: Schema, events: DataFrame | None, result: DataType) -> Any:
    """Return the function that `register` registers."""
    if search.on_error != "raise":
        raise EarmarkError("on_error: before Spark 4.1 only 'raise' is possible for a SQL function")
    own = [(a.name, a.type) for a in schema if a.name != LIFE or (asked.at is None and schema.time is not None)]
    moments = [name for name, type_ in own if type_ is not None and type_.kind == Kind.TIMESTAMP]
    moments = [str(schema.time) if name == LIFE else name for name in moments]
    instants: set[str] = set()
    if moments and events is None:
        raise EarmarkError(
            f"the book compares the timestamp {moments[0]!r}: before Spark 4.1 give the events, as in register(…, "
            "events=df), so that TIMESTAMP and TIMESTAMP_NTZ can be told apart"
        )
    if events is not None:
        fields = [(field.name, field.dataType) for field in events.schema.fields]
        found = frames.locations(fields, _names(schema), asked.sensitive, frames.spark_nesting)
        instants = {location.attribute for location in found if "timestamp" in leaves_of(location.type)}
    return f.udf(lambda event, *k: best_of_row(search, asked, instants, event, *k), result)


def _names(schema: Schema) -> list[str]:
    """Return the names of what is read of an event: its attributes, and its time."""
    return list(dict.fromkeys([name for name in schema.names if name != LIFE] + [*filter(None, [schema.time])]))


def leaves_of(type_: DataType) -> set[str]:
    """Return the names of a type, or of those of its fields."""
    fields = frames.spark_nesting(type_).fields
    return {type_.typeName()} if fields is None else {inner.typeName() for _, inner in fields}


# --- on the workers ------------------------------------------------------------------------------------------


def best_of_row(search: Search, asked: Asked, instants: set[str], event: Any, k: Any = None) -> list[tuple[Any, float]]:
    """Return the k best for a row, which is a struct or a map."""
    if k is not None and (type(k) is not int or k < 1):
        raise EarmarkError("k: expected a number of results, 1 or more, and not NULL")
    if event is not None and not isinstance(event, Row | Mapping):
        raise EventError(f"expected an event as a struct or a map, such as struct(e.*), got {type(event).__name__}")
    version = search.opened()
    names = {name if asked.sensitive else name.lower(): name for name in _names(version.schema)}
    values = {} if event is None else dict(_values(event, "", names, asked.sensitive, instants))
    searcher: Searcher = (search if k is None else search._replace(k=k)).searcher(version)
    return searcher.best(read_one(version, values, search.weights, asked.at))


def _values(
    event: Any, prefix: str, names: Mapping[str, str], sensitive: bool, instants: set[str]
) -> Iterator[tuple[str, Any]]:
    """Yield the attributes inside a struct or a map, and their values."""
    for key, value in (event.asDict() if isinstance(event, Row) else event).items():
        dotted = f"{prefix}{key}"
        name = names.get(dotted if sensitive or isinstance(event, dict) else dotted.lower())
        if name is None:
            if isinstance(value, Row | dict):
                yield from _values(value, f"{dotted}.", names, sensitive, instants)
        elif isinstance(value, Row):
            if {*value.__fields__} != {"lo", "hi"}:
                raise EventError(f"attribute {name!r}: expected a struct with the fields lo and hi")
            yield name, Interval(*(instant(value[end], name in instants) for end in ("lo", "hi")))
        else:
            yield name, instant(value, name in instants)


def instant(value: Any, is_instant: bool) -> Any:
    """Return a TIMESTAMP as the moment that it is, as Spark itself would; other values as they are."""
    if not is_instant or not isinstance(value, datetime):
        return value
    try:
        return _EPOCH + timedelta(microseconds=TimestampType().toInternal(value))
    except (OverflowError, ValueError):
        raise EventError(f"the timestamp {value} cannot be read before Spark 4.1") from None
