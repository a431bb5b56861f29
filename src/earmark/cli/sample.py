"""A random part of a file of events, in the keys of all subscriptions, read once in bounded memory.

Every event draws a number as it is read, and those with the least numbers stay: each set of `most` events is as likely
as any other, and a small file stays whole. Events are encoded as they are read, so batches of a file need not agree on
types (whole numbers, then fractions).

Invariant: the kept events are those with the `most` least numbers so far, or more; after `cut`, exactly those.
Complexity: O(n) numbers for n events; memory for at most 2 `most` events and a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from earmark.engine.batch import encode_many
from earmark.events.arrays import EventArrays
from earmark.events.choice import some_events
from earmark.flat.arrays import frozen
from earmark.keys.schema import Schema

if TYPE_CHECKING:
    from earmark.matcher import Matcher
    from earmark.segment.segment import Segment
    from earmark.tabular.source import Source

MOST = 100_000
"""Most events of a sample."""


class Sample:
    """The events with the least numbers of all that were added, in the order of the file."""

    def __init__(self, schema: Schema, seed: int, most: int = MOST) -> None:
        self._schema = schema
        self._random = np.random.default_rng(seed)
        self._most = most
        self._limit = 1.0
        self._parts = [encode_many(schema, [])]
        self._drawn = [np.empty(0)]

    def __len__(self) -> int:
        """Return how many events are held."""
        return sum(map(len, self._drawn))

    def add(self, rows: Any) -> None:
        """Add a table, or a list of events."""
        events, drawn = encode_many(self._schema, rows), self._random.random(len(rows))
        kept = np.flatnonzero(drawn < self._limit)
        self._parts.append(some_events(events, kept))
        self._drawn.append(drawn[kept])
        if len(self) > 2 * self._most:
            self.cut()

    def cut(self) -> EventArrays:
        """Drop all events but the least; return them."""
        events, drawn = _joined(self._parts), np.concatenate(self._drawn)
        if len(drawn) > self._most:
            self._limit = float(np.partition(drawn, self._most)[self._most])
            kept = np.flatnonzero(drawn < self._limit)
            events, drawn = some_events(events, kept), drawn[kept]
        self._parts, self._drawn = [events], [drawn]
        return events


def sampled(matcher: Matcher, source: Source | None, seed: int) -> tuple[Segment, EventArrays]:
    """Return all subscriptions of a matcher, and the events of a file, or a random part of them, in their keys."""
    import pyarrow as pa

    from earmark.cli.search import EventSearch

    segment = matcher._version.whole
    sample = Sample(segment.schema, seed)
    nothing = pa.table({"event": pa.array([], pa.int64())})

    def keep(matcher: Matcher, rows: Any, **_: Any) -> pa.Table:
        sample.add(rows)
        return nothing

    if source is not None:
        for _ in EventSearch(matcher, source, keep, None).results(shown=True):
            pass
    return segment, sample.cut()


def _joined(parts: list[EventArrays]) -> EventArrays:
    """Return batches of events as one, without weights."""
    attr, lo, hi = (np.concatenate([part[i] for part in parts]) for i in (1, 2, 3))
    start = np.append(0, np.cumsum(np.concatenate([np.diff(part.start) for part in parts])))
    return EventArrays._make(frozen(column) for column in (start, attr, lo, hi, np.empty(0)))
