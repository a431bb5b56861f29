"""Which column of a DataFrame, or which field of a struct, is which attribute, and which columns go to Python?

An attribute is the column of its name. A dotted name is also a field inside structs (`user.age`), or a value of a map
column by its key (`tags.colour`), as in Spark SQL. A struct of exactly `lo` and `hi` under an attribute's own name
holds intervals. An attribute that is not found is NULL in every event, as in a Matcher.

Names follow the session: unless it is case-sensitive, case does not count, and attributes that differ only by it are
refused, since their columns could not be distinguished.

`Nesting` hides whether a type is Spark's (on the driver) or Arrow's (inside a SQL function): one set of rules for both.

    events   event  age  city  payload          attributes of the snapshot: age, visits
    selected c0     c1                          carried: event;   Columns: carried [0], attributes [("age", 1)]
             event  age

Only the columns that are needed go to Python, each once: those of attributes, those that the caller wants carried
along, and a map of weights. On the way they are called by number, since a caller's names may be anything.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.functions import col, lit
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, LongType, MapType, StringType, StructField, StructType

from earmark.errors import EarmarkError, EventError, checked_names
from earmark.events.arrays import EventArrays
from earmark.events.frames import Weights, encode_columns, encode_map, is_text, weights_of
from earmark.events.mappings import MAX_NESTED, Reject
from earmark.events.moments import Moment, check_moment, moment_key, named_time
from earmark.keys.schema import LIFE, Kind, Schema
from earmark.language.literals import zone_of
from earmark.language.words import did_you_mean
from earmark.spark.types import check_type, is_numeric, refuse_collated, suits

MISSING = ("null", "warn", "error")
"""What to do about attributes that no column holds."""

_SHOWN = 5
_MOMENT = ("", LIFE)
"""Where the time of all events is among the columns that are taken: no column has such a path."""
_CAST = "\0cast"
"""Before the path of what is taken with another type than it has: it may be carried along as it is, too."""
_PATTERN = re.compile(r"[*?\[\]{}\\]")
_UTC = frozenset({"UTC", "Z", "Etc/UTC", "Etc/UCT", "Zulu", "UCT", "Universal", "GMT", "Etc/GMT", "+00:00", "GMT+0"})


class Nesting(NamedTuple):
    """The part of a type that names depend on."""

    fields: tuple[tuple[str, Any], ...] | None
    """Names and types of a struct's fields; None for anything else."""
    string_map: bool
    """Whether it is a map whose keys are strings."""
    values: Any = None
    """The type of the values of a map."""


def spark_nesting(type_: DataType) -> Nesting:
    """Return the nesting of a Spark type."""
    fields = tuple((f.name, f.dataType) for f in type_.fields) if isinstance(type_, StructType) else None
    if isinstance(type_, MapType):
        return Nesting(None, isinstance(type_.keyType, StringType), type_.valueType)
    return Nesting(fields, False)


def arrow_nesting(type_: pa.DataType) -> Nesting:
    """Return the nesting of an Arrow type."""
    fields = tuple((f.name, f.type) for f in type_) if pa.types.is_struct(type_) else None
    if pa.types.is_map(type_):
        return Nesting(None, is_text(type_.key_type), type_.item_type)
    return Nesting(fields, False)


class Location(NamedTuple):
    """Where an attribute's values are: fields from the outside in, then perhaps the key of a map."""

    attribute: str
    path: tuple[str, ...]
    key: str | None
    type: Any


def locations(
    columns: Iterable[tuple[str, Any]], attributes: Sequence[str], sensitive: bool, nesting: Any
) -> list[Location]:
    """Return where the attributes are, in their order; those that are not found are left out."""

    def norm(name: str) -> str:
        return name if sensitive else name.lower()

    wanted = {norm(name): name for name in attributes}
    heads = {name[:i] for name in wanted for i, letter in enumerate(name) if letter == "."}
    found: dict[str, Location] = {}

    def note(name: str, path: tuple[str, ...], key: str | None, type_: Any) -> None:
        attribute = wanted[norm(name)]
        if attribute in found:
            raise EventError(f"the events have two columns for attribute {attribute!r}")
        fields = nesting(type_).fields
        if fields is not None and {n for n, _ in fields} != {"lo", "hi"}:
            raise EventError(f"attribute {attribute!r}: expected a struct with the fields lo and hi")
        found[attribute] = Location(attribute, path, key, type_)

    def visit(prefix: str, path: tuple[str, ...], type_: Any) -> None:
        if norm(prefix) in wanted:
            note(prefix, path, None, type_)
        elif norm(prefix) in heads:
            inside = nesting(type_)
            if inside.fields is not None:
                if len(path) > MAX_NESTED:
                    raise EventError(f"{prefix!r} nests deeper than {MAX_NESTED} levels")
                for name, inner in inside.fields:
                    visit(f"{prefix}.{name}", (*path, name), inner)
            elif inside.string_map:
                below = norm(prefix) + "."
                for name in [name for name in wanted if name.startswith(below)]:
                    note(name, path, wanted[name][len(below) :], inside.values)

    for name, type_ in columns:
        visit(name, (name,), type_)
    return [found[name] for name in attributes if name in found]


# --- types of columns ----------------------------------------------------------------------------------------


def as_nullable(field: StructField) -> StructField:
    """Return a field that may be NULL, with the metadata that it had: a watermark is one."""
    return StructField(field.name, field.dataType, True, field.metadata)


def struct_of(types: Mapping[str, DataType]) -> StructType:
    """Return a schema of these columns, each of which may be NULL."""
    return StructType([StructField(name, type_, True) for name, type_ in types.items()])


def id_type(integers: bool) -> DataType:
    """Return the Spark type of ids, which are integers or strings."""
    return LongType() if integers else StringType()


def arrow_id_type(integers: bool) -> pa.DataType:
    """Return the Arrow type of ids."""
    return pa.int64() if integers else pa.string()


def arrow_schema(types: StructType) -> pa.Schema:
    """Return the Arrow types that Spark has for these columns."""
    if "timezone" in signature(to_arrow_schema).parameters:
        return to_arrow_schema(types, timezone="UTC")
    return to_arrow_schema(types)  # before Spark 4.2


def arrow_type(type_: DataType) -> pa.DataType:
    """Return the Arrow type that Spark has for a type."""
    return arrow_schema(StructType([StructField("value", type_)])).field("value").type


# --- paths and the session -----------------------------------------------------------------------------------


def address(path: Path) -> str:
    """Return a path as Spark takes it: without quoting, since Spark would look for a name like batch%3D1."""
    if found := _PATTERN.search(str(path)):
        raise EarmarkError(f"the path {str(path)!r} has {found[0]!r} in it, which Spark would take for a pattern")
    return f"file://{path}"


def quoted(name: str) -> str:
    """Return a column's name as Spark takes it literally."""
    return "`" + name.replace("`", "``") + "`"


def alike(names: Iterable[str], sensitive: bool) -> dict[str, tuple[str, str]]:
    """Return the names that Spark cannot tell apart, each with the first two that are the same to it."""
    seen: dict[str, list[str]] = {}
    for name in names:
        seen.setdefault(name if sensitive else name.lower(), []).append(name)
    return {name: (same[0], same[1]) for same in seen.values() if len(same) > 1 for name in same}


def is_case_sensitive(spark: SparkSession) -> bool:
    """Return whether names that differ by case are two names in this session."""
    return str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"


def refuse_case_variants(spark: SparkSession, names: Iterable[str]) -> None:
    """Raise for attributes that the session could not tell apart."""
    pairs = alike(names, is_case_sensitive(spark))
    if pairs:
        first, second = next(iter(pairs.values()))
        raise EarmarkError(
            f"the attributes {first!r} and {second!r} differ only by case, which this session ignores; rename one, or "
            "set spark.sql.caseSensitive to true"
        )


def session_zone(spark: SparkSession) -> str:
    """Return the session's time zone."""
    zone = spark.conf.get("spark.sql.session.timeZone", "UTC") or "UTC"
    return "UTC" if zone in _UTC else zone


def check_zone(zone: str, schema: Schema, used: Iterable[str]) -> None:
    """Raise if times mean something else in a session's zone than to the snapshot; `used` are the attributes read."""
    types = {name: schema.by_name[name].type for name in used}
    moments = [name for name, type_ in types.items() if type_ and type_.kind in (Kind.DATE, Kind.TIMESTAMP)]
    if moments and zone != schema.zone_name and zone_of(zone) != schema.zone:
        name = schema.time if moments[0] == LIFE else moments[0]
        raise EarmarkError(
            f"this session's time zone is {zone!r}, but the snapshot reads times such as {name!r} in "
            f"{schema.zone_name!r}; set spark.sql.session.timeZone to that, or publish with zone={zone!r}"
        )


# --- how an event is read ------------------------------------------------------------------------------------


class Reading(NamedTuple):
    """How events of one type are read: the same for DataFrames, SQL functions and table functions."""

    attributes: list[Location]
    """Where values are; LIFE, the time of an event, is one of them where the events tell it."""
    event_map: Location | None
    """The map that holds whole events; its key is None."""
    moment: int | None
    """When all events happened, in microseconds since 1970; None where the events tell, or nothing asks."""

    @property
    def values(self) -> list[Location]:
        """What is taken from each event."""
        return [*self.attributes, *([] if self.event_map is None else [self.event_map])]

    def check_missing(self, schema: Schema, missing: str, wanted: Iterable[str], columns: Iterable[str]) -> None:
        """Warn of attributes that nothing holds, or raise; `wanted` are those that conditions use."""
        check_missing_option(missing)
        if missing == "null":
            return
        there = {location.attribute for location in self.attributes} | ({LIFE} if self.moment is not None else set())
        wanted = [name for name in wanted if name == LIFE or self.event_map is None]
        absent = [str(schema.time) if name == LIFE else name for name in wanted if name not in there]
        if not absent:
            return
        listed = ", ".join(map(repr, absent[:_SHOWN]))
        listed += f" and {len(absent) - _SHOWN:,} more" if absent[_SHOWN:] else ""
        word = "attribute" if len(absent) == 1 else "attributes"
        reason = f"the events have no column for the {word} {listed}, so their conditions see NULL"
        reason += did_you_mean(absent[0], (name for name in columns if name not in there))
        if missing == "error":
            raise EventError(f"{reason} (missing='null' allows it)", attribute=absent[0])
        warnings.warn(f"{reason} (missing='null' turns this warning off)", stacklevel=4)

    def check_zone(self, zone: str, schema: Schema) -> None:
        """Raise if times do not mean the same to a session in this zone and to the snapshot, and there are any."""
        used = [location.attribute for location in self.attributes]
        if self.event_map is not None:
            values = self.event_map.type.valueType
            used += [name for name in schema.names if name != LIFE and suits(schema.by_name[name], values)]
        check_zone(zone, schema, used)


def check_missing_option(missing: str) -> None:
    """Raise for a wrong value of `missing`."""
    if missing not in MISSING:
        raise EarmarkError(f"missing: expected {', '.join(map(repr, MISSING[:-1]))} or 'error', got {missing!r}")


def reading_of(
    columns: Mapping[str, Any],
    schema: Schema,
    sensitive: bool,
    nesting: Any,
    *,
    event: str | None = None,
    at: Moment | None = None,
    is_timed: bool = True,
    called: str | None = None,
) -> Reading:
    """Return how events with columns of these types are read, which Spark's types are checked for.

    `event` names the column that holds the whole event; `called` is what errors call this, or the DataFrame. Without
    `at`, the time of the events is what the schema names, or else now.
    """
    top: tuple[str, ...] = ()
    inner = list(columns.items())
    if event is not None:
        inside = nesting(columns[event])
        if inside.fields is None and not inside.string_map:
            type_ = columns[event]
            type_ = type_.simpleString() if isinstance(type_, DataType) else type_
            raise EventError(f"expected a struct or a map of strings in the column {event!r}, got {type_}")
        top, inner, called = (event,), list(inside.fields or ()), called or repr(event)
    names = [name for name in schema.names if name != LIFE]
    is_asked = is_timed and LIFE in schema.by_name
    moment = None
    if at is not None:
        check_moment(schema, at)
    if is_asked and (at is not None or schema.time is None):
        moment = moment_key(datetime.now(UTC) if at is None else at, schema.zone, "`at`", EventError)
    time = schema.time if is_asked and moment is None else None
    found = locations(inner, names, sensitive, nesting)
    times = [] if time is None else locations(inner, [time], sensitive, nesting)
    whole = None
    others = [name for name in names if name != schema.time]
    untold = bool(others) and all(
        location.attribute == schema.time for location in found
    )  # the time may be beside a map
    if untold or (not found and (names or time is not None)):
        whole = _whole_map(columns, event, [] if found else names, nesting, called or "the DataFrame")
        if time is not None and whole is not None and not times:
            times = [Location(LIFE, whole.path, time, nesting(whole.type).values)]
            top = ()
    times = [location._replace(attribute=LIFE) for location in times]
    made = [location._replace(path=top + location.path) for location in [*found, *times]]
    _check_types(schema, made, whole)
    return Reading(made, whole, moment)


def _whole_map(
    columns: Mapping[str, Any], event: str | None, names: Sequence[str], nesting: Any, called: str
) -> Location | None:
    """Return the map that holds whole events, where no column is an attribute; None where none is needed."""
    maps = [name for name, type_ in columns.items() if nesting(type_).string_map]
    if event in maps or (event is None and len(maps) == 1):
        name = event or maps[0]
        return Location("", (name,), None, columns[name])
    if not names:
        return None
    such = f"of {called} is an attribute of the snapshot, such as {names[0]!r}"
    if event is not None:
        raise EventError(f"no field {such}")
    raise EventError(f"no column {such}; its columns are {', '.join(columns)}")


def _check_types(schema: Schema, found: Sequence[Location], whole: Location | None) -> None:
    """Raise for columns whose Spark types cannot hold their attribute; Arrow's are looked at when they are read."""
    for location in found:
        if isinstance(location.type, DataType):
            with named_time_of(schema):
                check_type(schema.by_name[location.attribute], location.type)
    if whole is not None and isinstance(whole.type, MapType):
        refuse_collated(whole.path[0], whole.type.valueType)
        typed = [attribute for attribute in schema if attribute.type is not None and attribute.name != LIFE]
        if typed and not any(suits(attribute, whole.type.valueType) for attribute in typed):
            check_type(typed[0], whole.type.valueType)


@contextmanager
def named_time_of(schema: Schema) -> Iterator[None]:
    """Inside, an error about the time of an event has the name that users know it by."""
    try:
        yield
    except EventError as problem:
        raise (named_time(problem, schema) if problem.attribute == LIFE else problem) from None


def refuse_timeless(schema: Schema) -> None:
    """Raise if a stream would have to say when its events happened, and does not."""
    if LIFE in schema.by_name:
        raise EarmarkError(
            "the book has subscriptions that start or end, so a stream must say when its events happened, or a "
            "replay would give other matches: publish the book with time= (`--time`), or give at="
        )


def batch_of(
    reading: Reading, columns: Mapping[str, pa.Array], rows: int, carried: Mapping[str, pa.Array]
) -> tuple[pa.RecordBatch, Columns]:
    """Return events as a batch of what is carried along and what is read of them; and which column is what."""
    arrays, first = [*carried.values()], len(carried)
    arrays += [value_of(columns, location) for location in reading.values]
    attributes = [(location.attribute, first + at) for at, location in enumerate(reading.attributes)]
    whole = None if reading.event_map is None else first + len(attributes)
    if reading.moment is not None:
        attributes.append((LIFE, len(arrays)))
        arrays.append(pa.repeat(pa.scalar(reading.moment, pa.timestamp("us", "UTC")), rows))
    batch = pa.RecordBatch.from_arrays(arrays, column_names(len(arrays)))
    return batch, Columns(list(range(first)), attributes, whole, None, [*carried, *RESULTS])


def value_of(columns: Mapping[str, pa.Array], location: Location) -> pa.Array:
    """Return the values at a location of events."""
    column = columns[location.path[0]]
    for name in location.path[1:]:
        column = pc.struct_field(column, [[field.name for field in column.type].index(name)])
    return column if location.key is None else pc.map_lookup(column, location.key, "first")


RESULTS = ("subscription", "score", "snapshot_version")
"""The columns of a result, besides those that are carried along."""
RANK = "rank"


class Columns(NamedTuple):
    """Which columns of a batch are what, by position; and which columns are returned."""

    carried: list[int]
    attributes: list[tuple[str, int]]
    event_map: int | None
    """The map that holds the whole event."""
    weights: int | None
    names: list[str]
    """Of the batches that are returned: carried columns, RESULTS, the rank, details of the subscriptions."""
    rank: bool = False
    details: tuple[str, ...] = ()
    left: bool = False
    """Whether events without an answer have a row."""
    is_numbered: bool = False
    """Whether what is carried is only the number of a row, which means nothing to users."""


def column_names(count: int) -> list[str]:
    """Return names for columns on their way."""
    return [f"c{number}" for number in range(count)]


class EventProjection:
    """The columns of a DataFrame of events that go to Python, each once."""

    def __init__(
        self,
        events: DataFrame,
        schema: Schema,
        event: str | None,
        *,
        at: Moment | None = None,
        is_timed: bool = True,
        streams: bool = False,
    ) -> None:
        self.events = events
        self.fields = {field.name: field.dataType for field in events.schema.fields}
        self.schema = schema
        self.taken: dict[tuple[str, ...], Column] = {}
        self.attributes: list[tuple[str, int]] = []
        self.weights: int | None = None
        sensitive = is_case_sensitive(events.sparkSession)
        self._alike = alike(events.columns, sensitive)
        if event is not None:
            self._known(event)
        if is_timed and at is None and schema.time is None and (streams or events.isStreaming):
            refuse_timeless(schema)
        self.reading = reading_of(self.fields, schema, sensitive, spark_nesting, event=event, at=at, is_timed=is_timed)
        for location in self.reading.attributes:
            self.attributes.append((location.attribute, self._position(location.path, location.key)))
        whole, moment = self.reading.event_map, self.reading.moment
        self.event_map = None if whole is None else self._position(whole.path)
        if moment is not None:
            self.taken[_MOMENT] = f.timestamp_micros(lit(moment))
            self.attributes.append((LIFE, list(self.taken).index(_MOMENT)))

    def _known(self, name: str) -> DataType:
        """Return the type of a column, of which there must be exactly one."""
        if name not in self.fields:
            raise EventError(f"the DataFrame has no column {name!r}; its columns are {', '.join(self.events.columns)}")
        if name in self._alike:
            same = self._alike[name]
            raise EventError(
                f"the events have the columns {same[0]!r} and {same[1]!r}, which Spark cannot tell apart; rename one, "
                "or leave both out"
            )
        return self.fields[name]

    def _position(self, path: Sequence[str], key: str | None = None, cast: str | None = None) -> int:
        """Return the position of a column, or of a field of it, or of the value of a map under a key."""
        self._known(path[0])
        full = (*path,) if key is None else (*path, "", key)
        full = full if cast is None else (_CAST, *full)
        if full not in self.taken:
            column = col(".".join(map(quoted, path)))
            column = column if key is None else column.getItem(key)
            self.taken[full] = column if cast is None else column.cast(cast)
        return list(self.taken).index(full)

    def take_weights(self, name: str) -> None:
        """Take the weights of each event from a map column."""
        inside = spark_nesting(self._known(name)) if name in self.fields else None
        if inside is None or not inside.string_map:
            raise EventError(f"expected weights as a mapping or the name of a map column, got {name!r}")
        if not is_numeric(inside.values):
            type_ = self.fields[name].simpleString()
            raise EventError(f"expected numbers in the column of weights {name!r}, got {type_}")
        self.weights = self._position((name,), cast="map<string,double>")

    def carry(self, names: Sequence[str] | None, results: Sequence[str] = RESULTS) -> list[tuple[StructField, int]]:
        """Return the fields to carry along, with their positions; `results` are the other columns of the result."""
        carried = []
        wanted = list(self.fields) if names is None else checked_names(names, "columns")
        for number, name in enumerate(wanted):
            self._known(name)
            if name.lower() in results:
                raise EventError(
                    f"the events have a column {name!r}, which is also a column of the result; rename it, leave it "
                    "out of columns, or give the others a prefix such as prefix='match_'"
                )
            if name in wanted[:number]:
                raise EventError(f"columns name {name!r} twice, but the result has each column once")
            carried.append((self.events.schema[name], self._position((name,))))
        return carried

    def columns(self, carried: Sequence[tuple[StructField, int]], results: Sequence[str] = RESULTS) -> Columns:
        """Return which columns are what."""
        names = [field.name for field, _ in carried] + list(results)
        at = [position for _, position in carried]
        return Columns(at, self.attributes, self.event_map, self.weights, names)

    def selected(self) -> DataFrame:
        """Return the DataFrame that goes to Python."""
        columns = list(self.taken.values()) or [lit(True)]
        names = column_names(len(columns))
        return self.events.select(*(column.alias(name) for column, name in zip(columns, names, strict=True)))


def with_keys(selected: DataFrame, shown: Sequence[int]) -> DataFrame:
    """Return the columns that go to Python and, last, the key of each row: a hash of those that are shown."""
    names = [selected.columns[at] for at in shown]
    if any("<" in selected.schema[name].dataType.simpleString() for name in names):
        key = f.xxhash64(f.to_json(f.struct(*names)))  # maps have no hash of their own
    else:
        # NULL leaves a hash as it was: without the flags, (1, NULL) and (NULL, 1) would have the same
        key = f.xxhash64(*(part for name in names for part in (f.col(name), f.col(name).isNull())))
    return selected.select("*", key.alias("key"))


def encoded(
    schema: Schema,
    columns: Columns,
    batch: pa.RecordBatch,
    weights: Weights | None,
    rejects: list[Reject] | None = None,
) -> EventArrays:
    """Return the events of a batch as keys; `weights` are for all of them, unless they have their own.

    With `rejects`, values that cannot be read go there and count as NULL.
    """
    weighted: Any = weights if columns.weights is None else weights_of(batch.column(columns.weights), rejects)
    attributes = [(name, batch.column(at)) for name, at in columns.attributes]
    with named_time_of(schema):
        if columns.event_map is not None:
            names = {name: name for name in schema.names if name != LIFE}
            events = encode_map(schema, batch.column(columns.event_map), names, weighted, rejects, attributes)
        else:
            events = encode_columns(schema, attributes, batch.num_rows, weighted, rejects)
    for number, reject in enumerate(rejects or ()):
        if rejects is not None and reject.attribute == LIFE:
            named = named_time(EventError(reject.reason), schema)
            rejects[number] = reject._replace(attribute=schema.time, reason=named.reason)
    return events
