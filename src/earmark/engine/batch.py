"""Events as keys of a version: one, or many at once.

    events   a sequence of mappings, an Arrow table or record batch, a pandas or polars frame
             where they are read piece by piece, also an iterator of mappings or an Arrow RecordBatchReader

What cannot be read of an event is an error (`on_error="raise"`), counts as NULL ("null"), or leaves the event out
("reject"); in the last two cases it is reported in a list of `Reject`.

Keys belong to a generation. A version nearly always has one; where it has several, an event is encoded for each.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from earmark.engine.version import Version
from earmark.errors import EarmarkError, EventError
from earmark.events.arrays import Entry, EventArrays
from earmark.events.choice import events_between, some_events
from earmark.events.frames import as_arrow, encode_many, is_frame, listed_events
from earmark.events.mappings import Reject, checked_weights, encode_event, event_arrays, repeated
from earmark.events.moments import Moment, check_moment, moment_of_one, moments_of, with_moments
from earmark.flat.arrays import I64
from earmark.keys.schema import LIFE, Schema
from earmark.segment.segment import Segment

OnError: TypeAlias = Literal["raise", "null", "reject"]
GROUP = 8_192
"""Events read at a time where they come piece by piece."""


class Batch(NamedTuple):
    """Events as keys of the version's schema and, where there are older ones, of those; and the row of each event."""

    events: EventArrays
    older: Mapping[int, EventArrays]
    """By generation."""
    rows: I64 | None
    """None where rows are those from 0 on."""

    def __len__(self) -> int:
        return len(self.events.start) - 1

    def __bool__(self) -> bool:
        return True

    def for_segment(self, segment: Segment) -> EventArrays:
        """The events in the keys of a segment."""
        return self.older.get(segment.schema.generation, self.events) if self.older else self.events

    def changed(self, change: Callable[[EventArrays], EventArrays]) -> Batch:
        """The same with the events changed, in the keys of every generation."""
        older = {generation: change(events) for generation, events in self.older.items()}
        return Batch(change(self.events), older, self.rows)

    def choose(self, chosen: I64) -> Batch:
        """These events, in this order."""
        events, older, _ = self.changed(lambda events: some_events(events, chosen))
        return Batch(events, older, chosen if self.rows is None else self.rows[chosen])

    def between(self, begin: int, end: int) -> Batch:
        """The events from one to another, as views. O(events)."""
        if end - begin == len(self):
            return self
        events, older, _ = self.changed(lambda events: events_between(events, begin, end))
        return Batch(events, older, np.arange(begin, end) if self.rows is None else self.rows[begin:end])


class One(NamedTuple):
    """A single event as keys of the version's schema and, where there are older ones, of those."""

    entries: list[Entry]
    older: Mapping[int, list[Entry]]
    """By generation."""
    weights: Mapping[str, float]
    """Those that are given, by attribute."""
    moment: tuple[int, int] | None = None
    """The keys of both ends of its time, which is among the entries where life spans matter; None where it has none."""

    def entries_for(self, segment: Segment) -> list[Entry]:
        """The event in the keys of a segment."""
        return self.older.get(segment.schema.generation, self.entries) if self.older else self.entries

    def weights_of(self, entries: list[Entry]) -> list[float]:
        """The weight of each value; none where all are 1."""
        return [self.weights.get(entry[3], 1.0) for entry in entries] if self.weights else []

    def arrays(self, entries: list[Entry]) -> EventArrays:
        """The event in these keys, as a batch."""
        return event_arrays([0, len(entries)], entries, self.weights_of(entries))

    def for_segment(self, segment: Segment) -> EventArrays:
        """The event in the keys of a segment, as a batch."""
        return self.arrays(self.entries_for(segment))

    @property
    def batch(self) -> Batch:
        """The event as a batch."""
        older = {generation: self.arrays(entries) for generation, entries in self.older.items()}
        return Batch(self.arrays(self.entries), older, None)


def encoded(version: Version, encode: Callable[[Schema], EventArrays]) -> Batch:
    """Events as keys of a version, by what encodes them for a schema."""
    generations = {one.generation for one in version.segments} - {version.schema.generation}
    older = {generation: encode(version.older[generation]) for generation in generations}
    return Batch(encode(version.schema), older, None)


def read_one(
    version: Version, event: Mapping[str, Any], weights: Mapping[str, float] | None = None, at: Moment | None = None
) -> One:
    """A single event as keys; `at` is when it happened, where its attributes do not tell."""
    schema = version.schema
    older = {generation: encode_event(own, event) for generation, own in version.older.items()}
    entries, scales = encode_event(schema, event), checked_weights(weights, EventError)
    moment = None
    if LIFE in schema.by_name:
        moment = moment_of_one(schema, event, at)
    elif at is not None:
        check_moment(schema, at)
    if moment is None:
        return One(entries, older, scales)
    for own in (entries, *older.values()):
        insort(own, moment)
    return One(entries, older, scales, moment[1:3])


def read(
    version: Version,
    events: Any,
    weights: Any = None,
    on_error: OnError = "raise",
    rejects: list[Reject] | None = None,
    at: Moment | None = None,
) -> Batch:
    """Many events as keys; `at` is when they happened, where their attributes do not tell."""
    check_on_error(on_error, rejects)
    found: list[Reject] | None = None if on_error == "raise" else []
    events = as_arrow(events) if is_frame(events) else listed_events(events)
    weights = repeated(weights, len(events))
    batch = encoded(version, lambda schema: encode_many(schema, events, weights, _emptied(found)))
    if LIFE in version.schema.by_name:
        moments = moments_of(version.schema, events, at, found)
        batch = batch.changed(lambda encoded: with_moments(version.schema, encoded, moments))
    elif at is not None:
        check_moment(version.schema, at)
    if not found:
        return batch
    if rejects is not None:
        rejects += found
    wrong = {one.event for one in found if on_error == "reject" or one.attribute is None}
    if not wrong:
        return batch
    return batch.choose(np.setdiff1d(np.arange(len(batch)), np.fromiter(wrong, np.int64)))


def _emptied(found: list[Reject] | None) -> list[Reject] | None:
    """The same list, empty: encoding for another generation finds the same."""
    if found is not None:
        found.clear()
    return found


def check_on_error(on_error: Any, rejects: Any) -> None:
    """Raise unless `on_error` is one of its three words and `rejects` is a list or None."""
    if on_error not in ("raise", "null", "reject"):
        raise EarmarkError(f"expected 'raise', 'null' or 'reject' for on_error, got {on_error!r}")
    if rejects is not None and not isinstance(rejects, list):
        raise EarmarkError(
            f"rejects must be a list, to which rejected events are appended, got {type(rejects).__name__}"
        )


def groups(events: Any) -> Iterator[tuple[Any, int]]:
    """Events in groups, and how many each has."""
    if is_frame(events):
        for batch in events if isinstance(events, pa.RecordBatchReader) else [as_arrow(events)]:
            for begin in range(0, batch.num_rows, GROUP):
                part = batch.slice(begin, GROUP)
                yield part, part.num_rows
    else:
        if isinstance(events, Mapping | str | bytes) or not isinstance(events, Iterable):
            listed_events(events)  # says what is wrong
        following = iter(events)
        while group := list(islice(following, GROUP)):
            yield group, len(group)
