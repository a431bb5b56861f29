"""Which subscriptions of a snapshot do the events of a DataFrame match?

    events ──select──► carried columns, attributes ──mapInArrow──► carried columns, subscription, score, version

Only the columns that are needed go to Python: those of the attributes that the snapshot has, and those that the caller
wants carried along. Each worker maps the version (reader.py), encodes a batch, searches, and gives Arrow batches of a
fixed schema back. Nothing is kept between batches, so a stream stays stateless.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from earmark.errors import EarmarkError, EventError
from earmark.matcher import _checked_k, _relaxed
from earmark.model.arrays import EventArrays
from earmark.model.attribute import INTEGER, Schema
from earmark.model.event import checked_weights
from earmark.model.subscription import checked_tags
from earmark.model.table import NO_TAGS, Tags
from earmark.spark import frames
from earmark.spark.events import encode_columns, encode_map, weights_of
from earmark.spark.reader import Answers, Reader, reader_of
from earmark.spark.snapshot import Snapshot
from earmark.spark.widened import derive

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

RESULTS = ("subscription", "score", "snapshot_version")
FIRST_STEP, LAST_STEP = 2_048, 65_536  # events a search
WANTED_ANSWERS = 1 << 20  # a search
OUTPUT_ROWS = 1 << 16  # a batch given back
_FRACTIONAL = ("float", "double")
LOCAL, SHUFFLE = ROUTES = ("local", "shuffle")
AUTO = "auto"
MOST_REPLICAS = 1_000


class Search(NamedTuple):
    """What to search and how: travels to the workers, and is the same for DataFrames and SQL."""

    root: str
    version: int
    derived: str | None
    k: int | None
    relaxed: bool
    scope: Tags
    weights: dict[str, float] | None

    def reader(self) -> Reader:
        """The reader of this process."""
        return reader_of(self.root, self.version, self.derived)

    def answers(self, reader: Reader, events: EventArrays) -> Answers:
        """The answers for encoded events."""
        if self.k is None:
            return reader.match(events, self.scope)
        return reader.top_k(events, self.k, self.relaxed, self.scope)


class Columns(NamedTuple):
    """Which columns of a batch are what, by position."""

    carried: list[int]
    attributes: list[tuple[str, int]]
    event_map: int | None
    """The map that holds the whole event."""
    keys: dict[str, str]
    """Key of that map -> attribute."""
    weights: int | None
    names: list[str]
    """Of the batches that are given back."""


def match(
    events: DataFrame,
    snapshot: Snapshot,
    k: int | None = None,
    *,
    mode: str = "exact",
    columns: Sequence[str] | None = None,
    scope: Mapping[str, str] | None = None,
    weights: Mapping[str, float] | str | None = None,
    event: str | None = None,
    route: str = LOCAL,
    replicas: int | str = 1,
) -> DataFrame:
    """Which subscriptions the events match: the event columns asked for, subscription, score, snapshot_version.

    All matches in order of insertion, or the `k` best, best first; `mode` "relaxed" ranks those of which at least one
    constraint holds (it needs `k`). `columns` are the event columns to carry along (all unless given; naming only the
    ids saves time). `scope` restricts the search to subscriptions with these tags; `weights` are the events', one
    mapping for all or the name of a map column. A batch or a streaming DataFrame.

    An attribute is the column of its name, or by dotted name a field of a struct or a key of a map; a struct of
    exactly `lo` and `hi` is an interval. `event` names the column that holds the whole event, a map or a struct;
    without it, a DataFrame with no attribute's column but one map with texts as keys is read so.

    Of a sharded snapshot, events are searched only in the shards that may match them. With `route="local"` each worker
    takes its events through the shards, one shard after another; with "shuffle", for batches only, events travel to
    partitions that have one shard each, of which a busy shard may have several: `replicas`, or by a count of the events
    beforehand with "auto".
    """
    _check_route(route, replicas)
    ready = prepared(events, snapshot, k, mode, columns, scope, weights, event)
    if route == SHUFFLE:
        from earmark.spark.shuffled import shuffled

        return shuffled(ready, snapshot, replicas)
    search, plan = ready.search, ready.columns
    return ready.frame.mapInArrow(lambda batches: match_batches(search, plan, batches), ready.schema)


def _check_route(route: str, replicas: int | str) -> None:
    """Both are checked whichever way is taken: a stream asks before it starts, by the local one."""
    if route not in ROUTES:
        raise EarmarkError(f"route is {LOCAL!r} or {SHUFFLE!r}; got {route!r}")
    if replicas == AUTO:
        return
    if isinstance(replicas, bool) or not isinstance(replicas, int) or not 1 <= replicas <= MOST_REPLICAS:
        raise EarmarkError(f"replicas is a number from 1 to {MOST_REPLICAS:,}, or {AUTO!r}; got {replicas!r}")


class Prepared(NamedTuple):
    """A call of `match`, checked: what goes to Python, and what comes back."""

    frame: DataFrame
    search: Search
    columns: Columns
    schema: StructType


def prepared(
    events: DataFrame,
    snapshot: Snapshot,
    k: int | None,
    mode: str,
    columns: Sequence[str] | None,
    scope: Mapping[str, str] | None,
    weights: Mapping[str, float] | str | None,
    event: str | None,
) -> Prepared:
    """Check what a caller wants, and find it in the DataFrame."""
    spark = events.sparkSession
    search = search_of(spark, snapshot, k, mode, scope, weights if not isinstance(weights, str) else None)
    picked = _Picked(events, snapshot, event)
    if isinstance(weights, str):
        picked.take_weights(weights)
    carried = picked.carry(columns)
    search = search._replace(derived=derived_for(snapshot, picked.fractional))
    plan = picked.columns(carried)
    schema = _result_schema([field for field, _ in carried], snapshot)
    return Prepared(picked.selected(), search, plan, schema)


def search_of(
    spark: SparkSession,
    snapshot: Snapshot,
    k: int | None,
    mode: str,
    scope: Mapping[str, str] | None,
    weights: Mapping[str, float] | None,
) -> Search:
    """Check what a caller wants, and whether this session can ask for it."""
    relaxed = _relaxed(mode)
    if k is not None:
        k = _checked_k(k)
    elif relaxed:
        raise EarmarkError("mode 'relaxed' ranks, so it needs k: the number of results an event")
    frames.refuse_case_variants(spark, snapshot.schema.names)
    frames.check_zone(spark, snapshot.schema)
    tags = checked_tags(scope, "a scope maps") if scope is not None else NO_TAGS
    own = checked_weights(weights, "the events", EventError) if weights is not None else None
    return Search(str(snapshot.path), snapshot.version, None, k, relaxed, tags, own)


def derived_for(snapshot: Snapshot, fractional: Sequence[str]) -> str | None:
    """The form of the version for events that have fractions where these attributes were learned to be integers."""
    names = [name for name in fractional if _is_learned_integer(snapshot.schema, name)]
    return derive(snapshot.path, snapshot.record, names) if names else None


def _is_learned_integer(schema: Schema, name: str) -> bool:
    attribute = schema.by_name[name]
    return attribute.type is not None and attribute.type.kind == INTEGER and not attribute.declared


def has_fractions(type_: DataType) -> bool:
    """Whether values of a Spark type may be fractional: floats and doubles, also as the ends of intervals."""
    fields = frames.spark_kind(type_).fields
    inner = [t for _, t in fields] if fields is not None else [type_]
    return any(t.typeName() in _FRACTIONAL for t in inner)


class _Picked:
    """The columns of a DataFrame that go to Python, each once."""

    def __init__(self, events: DataFrame, snapshot: Snapshot, event: str | None) -> None:
        from pyspark.sql.functions import col

        self._col = col
        self.events = events
        self.fields = {field.name: field.dataType for field in events.schema.fields}
        self.sensitive = frames.is_case_sensitive(events.sparkSession)
        self.taken: dict[tuple[str, ...], Column] = {}
        self.attributes: list[tuple[str, int]] = []
        self.event_map: int | None = None
        self.keys: dict[str, str] = {}
        self.weights: int | None = None
        self.fractional: list[str] = []
        names = snapshot.schema.names
        top = (event,) if event is not None else ()
        inner: Any = self.fields.items() if event is None else self._inside(event)
        found = frames.places(inner, names, self.sensitive, frames.spark_kind) if inner is not None else []
        for place in found:
            self._take_place(top, place)
        if not found and names:
            self._take_map(event, names)

    def _inside(self, event: str) -> Any:
        if event not in self.fields:
            raise EventError(f"the DataFrame has no column {event!r}; its columns are {', '.join(self.fields)}")
        kind = frames.spark_kind(self.fields[event])
        if kind.fields is None and not kind.text_map:
            raise EventError(f"the column {event!r} holds no events: it is {self.fields[event].simpleString()}")
        return kind.fields

    def _at(self, key: tuple[str, ...], column: Column) -> int:
        self.taken.setdefault(key, column)
        return list(self.taken).index(key)

    def _take_place(self, top: tuple[str, ...], place: frames.Place) -> None:
        path = top + place.path
        column = self._col(".".join(map(frames.quoted, path)))
        if place.key is not None:
            column, path = column.getItem(place.key), (*path, "", place.key)
        self.attributes.append((place.attribute, self._at(path, column)))
        if has_fractions(place.type):
            self.fractional.append(place.attribute)

    def _take_map(self, event: str | None, names: Sequence[str]) -> None:
        maps = [n for n, t in self.fields.items() if frames.spark_kind(t).text_map]
        if event is None and len(maps) != 1:
            raise EventError(
                f"no column of the DataFrame is an attribute of the snapshot, such as {names[0]!r}; "
                f"its columns are {', '.join(self.fields)}"
            )
        if event is not None and event not in maps:
            raise EventError(f"no field of {event!r} is an attribute of the snapshot, such as {names[0]!r}")
        chosen = event or maps[0]
        self.event_map = self._at((chosen,), self._col(frames.quoted(chosen)))
        self.keys = {name: name for name in names}
        if has_fractions(self.fields[chosen].valueType):  # type: ignore[attr-defined]
            self.fractional = list(names)

    def take_weights(self, name: str) -> None:
        """Let each event have its own weights, from a map column."""
        if name not in self.fields or not frames.spark_kind(self.fields[name]).text_map:
            raise EventError(f"weights are a mapping, or the name of a map column; there is no map column {name!r}")
        self.weights = self._at((name,), self._col(frames.quoted(name)).cast("map<string,double>"))

    def carry(self, names: Sequence[str] | None) -> list[tuple[Any, int]]:
        """The fields to carry along, with their positions."""
        if isinstance(names, str):
            raise EarmarkError(f"columns are a list of names, such as [{names!r}]")
        carried = []
        wanted = list(self.fields if names is None else names)
        for number, name in enumerate(wanted):
            if name not in self.fields:
                raise EventError(f"the DataFrame has no column {name!r}; its columns are {', '.join(self.fields)}")
            if name.lower() in RESULTS:
                raise EventError(
                    f"the events have a column {name!r}, which is also a column of the result; rename it, or leave it "
                    "out of columns"
                )
            if name in wanted[:number]:
                raise EventError(f"columns names {name!r} twice; the result has each column once")
            carried.append((self.events.schema[name], self._at((name,), self._col(frames.quoted(name)))))
        return carried

    def columns(self, carried: Sequence[tuple[Any, int]]) -> Columns:
        """What is where."""
        names = [field.name for field, _ in carried] + list(RESULTS)
        at = [position for _, position in carried]
        return Columns(at, self.attributes, self.event_map, self.keys, self.weights, names)

    def selected(self) -> DataFrame:
        """The DataFrame that goes to Python."""
        from pyspark.sql.functions import lit

        chosen = [column.alias(f"c{i}") for i, column in enumerate(self.taken.values())]
        return self.events.select(*(chosen or [lit(True).alias("c0")]))


def _result_schema(carried: Sequence[Any], snapshot: Snapshot) -> StructType:
    from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

    fields = [StructField(field.name, field.dataType, True) for field in carried]
    fields += [
        StructField("subscription", LongType() if snapshot.record["integer_ids"] else StringType(), True),
        StructField("score", DoubleType(), True),
        StructField("snapshot_version", LongType(), True),
    ]
    return StructType(fields)


# --- on the workers ------------------------------------------------------------------------------------------


def match_batches(search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The answers for the batches of a partition."""
    for part, answers in searched(search, columns, batches):
        yield from given_back(search, columns, part, answers)


def searched(
    search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, Answers]]:
    """The events of a partition, some at a time, and their answers."""
    reader = search.reader()
    step = FIRST_STEP
    for batch in batches:
        first = 0
        while first < batch.num_rows:
            part = batch.slice(first, step)
            first += part.num_rows
            answers = search.answers(reader, encoded(reader, search, columns, part))
            yield part, answers
            per_event = max(len(answers.scores) / part.num_rows, 1 / LAST_STEP)
            step = int(min(max(WANTED_ANSWERS / per_event, 64), LAST_STEP))


def encoded(reader: Reader, search: Search, columns: Columns, batch: pa.RecordBatch) -> EventArrays:
    """The events of a batch as keys."""
    weights: Any = search.weights
    if columns.weights is not None:
        weights = weights_of(batch.column(columns.weights))
    if columns.event_map is not None:
        return encode_map(reader, batch.column(columns.event_map), columns.keys, weights)
    if not columns.attributes:
        return encode_columns(reader, [], [], None)._replace(start=np.zeros(batch.num_rows + 1, np.int64))
    names = [name for name, _ in columns.attributes]
    return encode_columns(reader, names, [batch.column(at) for _, at in columns.attributes], weights)


def given_back(search: Search, columns: Columns, batch: pa.RecordBatch, answers: Answers) -> Iterator[pa.RecordBatch]:
    """Answers as batches of the result."""
    if not len(answers.scores):
        return
    rows = pa.array(answers.events)
    made = [batch.column(at).take(rows) for at in columns.carried]
    version = pa.array(np.full(len(rows), search.version, np.int64))
    whole = pa.RecordBatch.from_arrays([*made, answers.subscriptions, pa.array(answers.scores), version], columns.names)
    for first in range(0, whole.num_rows, OUTPUT_ROWS):
        yield whole.slice(first, OUTPUT_ROWS)
