"""Which columns of a DataFrame of events go to Python, and which of them is what there?

    events   event  age  city  payload          attributes of the snapshot: age, visits
    selected c0     c1                          carried: event;   Columns: carried [0], attributes [("age", 1)]
             event  age

Only what is needed goes: the columns of attributes, those that the caller wants carried along, and a map of weights,
each once. On their way they have numbers for names, never a caller's, which may be anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from earmark.errors import EarmarkError, EventError
from earmark.events.arrays import EventArrays
from earmark.events.columns import Weights, encode_columns, encode_map, weights_of
from earmark.keys.schema import Schema
from earmark.spark import frames

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField

RESULTS = ("subscription", "score", "snapshot_version")
"""The columns that an answer has besides those that are carried along."""
_FRACTIONAL = ("float", "double")


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


def column_names(count: int) -> list[str]:
    """The names of so many columns on their way."""
    return [f"c{number}" for number in range(count)]


def refuse_collated(name: str, type_: DataType) -> None:
    """Raise for strings that Spark would compare by other rules than their bytes, as earmark does."""
    fields = frames.spark_kind(type_).fields
    for inner in [type_] if fields is None else [t for _, t in fields]:
        collation = getattr(inner, "collation", frames.BINARY)
        if collation != frames.BINARY:
            raise EventError(
                f"the strings of {name!r} have the collation {collation}, but conditions compare strings by their "
                f"bytes; give the events this column with COLLATE {frames.BINARY}"
            )


class Picked:
    """The columns of a DataFrame of events that go to Python, each once."""

    def __init__(self, events: DataFrame, schema: Schema, event: str | None) -> None:
        self.events = events
        self.fields = {field.name: field.dataType for field in events.schema.fields}
        self.sensitive = frames.is_case_sensitive(events.sparkSession)
        self._alike = frames.alike(events.columns, self.sensitive)
        self.taken: dict[tuple[str, ...], Column] = {}
        self.attributes: list[tuple[str, int]] = []
        self.event_map: int | None = None
        self.keys: dict[str, str] = {}
        self.weights: int | None = None
        names = schema.names
        top = (event,) if event is not None else ()
        inner: Any = [(f.name, f.dataType) for f in events.schema.fields] if event is None else self._inside(event)
        found = frames.places(inner, names, self.sensitive, frames.spark_kind) if inner is not None else []
        for place in found:
            self._take_place(top, place)
        if not found and names:
            self._take_map(event, names)

    def _inside(self, event: str) -> Any:
        """The fields of the column that holds events; None where it is a map."""
        kind = frames.spark_kind(self._known(event))
        if kind.fields is None and not kind.text_map:
            raise EventError(f"the column {event!r} holds no events: it is {self.fields[event].simpleString()}")
        return kind.fields

    def _known(self, name: str) -> DataType:
        """The type of a column, of which there must be one."""
        if name not in self.fields:
            raise EventError(f"the DataFrame has no column {name!r}; its columns are {', '.join(self.events.columns)}")
        if name in self._alike:
            same = self._alike[name]
            raise EventError(
                f"the events have the columns {same[0]!r} and {same[1]!r}, which Spark cannot tell apart; rename one, "
                "or leave both out"
            )
        return self.fields[name]

    def _at(self, path: Sequence[str], key: str | None = None, cast: str | None = None) -> int:
        """The position of what lies at a path, and there under the key of a map."""
        from pyspark.sql.functions import col

        self._known(path[0])
        own = (*path,) if key is None else (*path, "", key)
        if own not in self.taken:
            column = col(".".join(map(frames.quoted, path)))
            column = column if key is None else column.getItem(key)
            self.taken[own] = column if cast is None else column.cast(cast)
        return list(self.taken).index(own)

    def _take_place(self, top: tuple[str, ...], place: frames.Place) -> None:
        self.attributes.append((place.attribute, self._at(top + place.path, place.key)))
        refuse_collated(place.attribute, place.type)

    def _take_map(self, event: str | None, names: Sequence[str]) -> None:
        maps = [n for n, t in self.fields.items() if frames.spark_kind(t).text_map]
        if event is None and len(maps) != 1:
            raise EventError(
                f"no column of the DataFrame is an attribute of the snapshot, such as {names[0]!r}; "
                f"its columns are {', '.join(self.events.columns)}"
            )
        if event is not None and event not in maps:
            raise EventError(f"no field of {event!r} is an attribute of the snapshot, such as {names[0]!r}")
        chosen = event or maps[0]
        values: Any = self._known(chosen)
        self.event_map = self._at((chosen,))
        self.keys = {name: name for name in names}
        refuse_collated(chosen, values.valueType)

    def take_weights(self, name: str) -> None:
        """Let each event have its own weights, from a map column."""
        if name not in self.fields or not frames.spark_kind(self._known(name)).text_map:
            raise EventError(f"weights are a mapping, or the name of a map column; there is no map column {name!r}")
        self.weights = self._at((name,), cast="map<string,double>")

    def carry(self, names: Sequence[str] | None) -> list[tuple[StructField, int]]:
        """The fields to carry along, with their positions."""
        if isinstance(names, str):
            raise EarmarkError(f"columns are a list of names, such as [{names!r}]")
        carried = []
        wanted = list(self.fields if names is None else names)
        for number, name in enumerate(wanted):
            self._known(name)
            if name.lower() in RESULTS:
                raise EventError(
                    f"the events have a column {name!r}, which is also a column of the result; rename it, or leave it "
                    "out of columns"
                )
            if name in wanted[:number]:
                raise EventError(f"columns names {name!r} twice; the result has each column once")
            carried.append((self.events.schema[name], self._at((name,))))
        return carried

    def columns(self, carried: Sequence[tuple[StructField, int]]) -> Columns:
        """What is where."""
        names = [field.name for field, _ in carried] + list(RESULTS)
        at = [position for _, position in carried]
        return Columns(at, self.attributes, self.event_map, self.keys, self.weights, names)

    def selected(self) -> DataFrame:
        """The DataFrame that goes to Python."""
        from pyspark.sql.functions import lit

        columns = list(self.taken.values()) or [lit(True)]
        names = column_names(len(columns))
        return self.events.select(*(column.alias(name) for column, name in zip(columns, names, strict=True)))


def with_keys(selected: DataFrame, shown: Sequence[int]) -> DataFrame:
    """The columns that go to Python and, last, the key of each row: a hash of those that are shown."""
    from pyspark.sql import functions as f

    names = [selected.columns[at] for at in shown]
    if any("<" in selected.schema[name].dataType.simpleString() for name in names):
        key = f.xxhash64(f.to_json(f.struct(*names)))  # maps have no hash of their own
    else:
        # NULL leaves a hash as it was: without the flags, (1, NULL) and (NULL, 1) would have the same
        key = f.xxhash64(*(part for name in names for part in (f.col(name), f.col(name).isNull())))
    return selected.select("*", key.alias("key"))


def encoded(schema: Schema, columns: Columns, batch: pa.RecordBatch, weights: Weights | None) -> EventArrays:
    """The events of a batch as keys; `weights` are for all of them, where they have none of their own."""
    own: Any = weights if columns.weights is None else weights_of(batch.column(columns.weights))
    if columns.event_map is not None:
        return encode_map(schema, batch.column(columns.event_map), columns.keys, own)
    found = [(name, batch.column(at)) for name, at in columns.attributes]
    return encode_columns(schema, found, batch.num_rows, own)
