"""A random part of a file of events, in the keys of a matcher: read once, and no more held than is kept.

Every event draws a number as it is read, and those with the least numbers stay: each set of `most` events is as likely
as any other, and a small file stays whole. What is kept stays in the form in which it was read; batches of a file need
not agree on types (whole numbers, then fractions).

Invariant: the kept events are those with the `most` least numbers so far, or more; after `cut`, exactly those.
Complexity: O(n) numbers for n events; memory for at most 2 `most` events and a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from earmark.engine.batch import encode_many
from earmark.events.arrays import EventArrays
from earmark.flat.types import F64, frozen

if TYPE_CHECKING:
    from earmark.matcher import Matcher
    from earmark.segment.segment import Segment
    from earmark.tabular.source import Source

MOST = 100_000
"""Events of a sample at the most."""


class Batch(NamedTuple):
    """Events of one type, and the number that each drew."""

    rows: Any
    drawn: F64


class Sample:
    """The events with the least numbers of all that were added, in the order of the file."""

    def __init__(self, seed: int, most: int = MOST) -> None:
        self._random = np.random.default_rng(seed)
        self._most = most
        self._limit = 1.0
        self._held = 0
        self._batches: list[Batch] = []

    def add(self, rows: Any) -> None:
        """Take in a table, or a list of events."""
        batch = _below(Batch(rows, self._random.random(len(rows))), self._limit)
        self._batches.append(batch)
        self._held += len(batch.drawn)
        if self._held > 2 * self._most:
            self.cut()

    def cut(self) -> None:
        """Drop all but the least, and join batches of one type."""
        if self._held > self._most:
            drawn = np.concatenate([batch.drawn for batch in self._batches])
            self._limit = float(np.partition(drawn, self._most)[self._most])
            self._batches = [_below(batch, self._limit) for batch in self._batches]
        self._batches = _joined([batch for batch in self._batches if len(batch.drawn)])
        self._held = sum(len(batch.drawn) for batch in self._batches)

    def encoded(self, matcher: Matcher) -> tuple[Segment, EventArrays]:
        """The sample in the keys of all subscriptions of a matcher, and those."""
        self.cut()
        segment = matcher._version.whole
        return segment, _together([encode_many(segment.schema, batch.rows) for batch in self._batches])


def sampled(matcher: Matcher, source: Source | None, seed: int) -> tuple[Segment, EventArrays]:
    """The events of a file, each checked as it is read; of a large file, a random part; without one, no events."""
    import pyarrow as pa

    from earmark.cli.search import EventSearch

    sample = Sample(seed)
    if source is None:
        return sample.encoded(matcher)
    nothing = pa.table({"event": pa.array([], pa.int64())})

    def keep(matcher: Matcher, rows: Any, **_: Any) -> pa.Table:
        encode_many(matcher._version.schema, rows)
        sample.add(rows)
        return nothing

    for _ in EventSearch(matcher, source, keep, None).results(shown=True):
        pass
    return sample.encoded(matcher)


def _below(batch: Batch, limit: float) -> Batch:
    """The events that drew less. A copy where any went, so that the rest of what was read can go."""
    good = batch.drawn < limit
    if good.all():
        return batch
    places = np.flatnonzero(good)
    rows = [batch.rows[i] for i in places.tolist()] if isinstance(batch.rows, list) else batch.rows.take(places)
    return Batch(rows, batch.drawn[places])


def _joined(batches: list[Batch]) -> list[Batch]:
    """Neighbours of one type as one."""
    runs: list[list[Batch]] = []
    for batch in batches:
        if runs and _kind(runs[-1][0]) == _kind(batch):
            runs[-1].append(batch)
        else:
            runs.append([batch])
    return [run[0] if len(run) == 1 else _one(run) for run in runs]


def _kind(batch: Batch) -> Any:
    return None if isinstance(batch.rows, list) else batch.rows.schema


def _one(run: list[Batch]) -> Batch:
    import pyarrow as pa

    drawn = np.concatenate([batch.drawn for batch in run])
    if isinstance(run[0].rows, list):
        return Batch([row for batch in run for row in batch.rows], drawn)
    return Batch(pa.concat_tables([batch.rows for batch in run]), drawn)


def _together(parts: list[EventArrays]) -> EventArrays:
    """Batches of events as one."""
    counts = np.concatenate([np.empty(0, np.int64), *(np.diff(part.start) for part in parts)])
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    attr = np.concatenate([np.empty(0, np.int32), *(part.attr for part in parts)]).astype(np.int32)
    lo, hi = (np.concatenate([np.empty(0, np.int64), *(part[i] for part in parts)]).astype(np.int64) for i in (2, 3))
    return EventArrays._make(frozen(column) for column in (start, attr, lo, hi, np.empty(0, np.float64)))
