"""Which segments can an event match?

A router is made of the covers of segments (covers.py), each with the number of its segment, and an index over them. An
event is searched in the segments whose covers it meets.

    covers       a IN [3, 9]    b IN [1, 1]    a IN [0, 4] AND c IN [7, 8]       event  a = 4: meets the first cover,
    segment_of   0              0              2                                 not the third (no c): segment 0

One level of covers is enough: the index over them (blocks under boxes) already passes by most at once, as covers of
covers would. Covers are keys of the generation of the segments, and stay right when slots are removed.

Invariant: an event that matches a subscription of a segment exactly is searched there.
Complexity: that of the index over the covers, and O(covers met + segments). Memory is bounded however many covers
events meet: a batch is routed in pieces that meet about MET_AT_ONCE together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from earmark import index as indexes
from earmark.errors import TooManyAnswers, require
from earmark.events.arrays import EventArrays
from earmark.events.choice import events_between
from earmark.flat import bits
from earmark.flat.arrays import I32, I64, frozen, pointers_of, read_only
from earmark.index.driver import ArrayIndex
from earmark.jit import kernel
from earmark.segment.arrays import SegmentArrays
from earmark.segment.join import concat_all

SCANNED = 2_048
"""Up to this many covers are scanned; more have an index."""
INDEX = "blocks"
FIRST_PIECE = 4_096
"""Events of the first piece of a batch, of whose covers nothing is known."""
MET_AT_ONCE = 1 << 22
"""About the most covers that the events of one piece meet together."""
NO_EVENT = -1


@dataclass(frozen=True, eq=False)
class Router:
    """The covers of the first segments of a version, ready to be searched."""

    segments: int
    covers: SegmentArrays
    segment_of: I32
    name: str
    """Of the index."""
    index: ArrayIndex[Any]

    @classmethod
    def of(cls, covers: Sequence[SegmentArrays]) -> Router:
        """A router over segments with these covers."""
        segment_of = np.repeat(np.arange(len(covers), dtype=np.int32), [len(own.sequence) for own in covers])
        table = concat_all(covers)._replace(sequence=np.arange(len(segment_of), dtype=np.int64))
        table = SegmentArrays._make(frozen(column) for column in table)
        name = "scan" if len(segment_of) <= SCANNED else INDEX
        return cls(len(covers), table, frozen(segment_of), name, indexes.builder(name)(table))

    def route(self, events: EventArrays) -> tuple[I64, I64]:
        """Return the events to search in each segment: where those of each segment begin, their ascending numbers."""
        count, step, first = len(events.start) - 1, FIRST_PIECE, 0
        pieces: list[tuple[I64, I64]] = []
        while first < count or not pieces:
            last = min(first + step, count)
            part = events if last - first == count else events_between(events, first, last)
            try:
                starts, numbers, met = self._route_piece(part)
            except TooManyAnswers:
                if last - first == 1:
                    raise
                step = (last - first) // 2
                continue
            pieces.append((starts, numbers + first))
            step = max(MET_AT_ONCE * max(last - first, 1) // max(met, 1), 1)
            first = last
        return pieces[0] if len(pieces) == 1 else _joined(pieces)

    def _route_piece(self, events: EventArrays) -> tuple[I64, I64, int]:
        """Route some events; return also how many covers they met."""
        pointers, covers = self.index.match_many(events, bits.all_set(len(self.segment_of)))
        starts, room = np.zeros(self.segments + 1, np.int64), np.empty(len(covers), np.int64)
        last = np.empty(self.segments, np.int64)
        visits = group_visits(read_only(pointers), read_only(covers), self.segment_of, last, starts, room)
        return starts, room[:visits], len(covers)

    def check(self) -> None:
        """Raise AssertionError where a cover is of no segment, or the index cannot be relied on."""
        of = self.segment_of
        require(len(of) == len(self.covers.sequence), "the router has covers of no segment")
        known = not len(of) or 0 <= of.min() <= of.max() < self.segments
        require(known, "the router knows a segment that is not there")
        self.index.check()


def _joined(pieces: Sequence[tuple[I64, I64]]) -> tuple[I64, I64]:
    """Return the events of consecutive pieces of a batch, segment after segment."""
    counts = np.array([np.diff(starts) for starts, _ in pieces])
    segment = np.concatenate([np.repeat(np.arange(counts.shape[1]), own) for own in counts])
    numbers = np.concatenate([numbers for _, numbers in pieces])
    return pointers_of(counts.sum(axis=0)), numbers[np.argsort(segment, kind="stable")]


@kernel
def group_visits(pointers: I64, covers: I32, segment_of: I32, last: I64, starts: I64, chosen: I64) -> int:
    """Write the events that meet a cover of each segment, segment after segment, and where each begins; how many.

    `last` has room for the event that met each segment last.
    """
    last[:] = NO_EVENT
    for e in range(len(pointers) - 1):
        for i in range(pointers[e], pointers[e + 1]):
            segment = segment_of[covers[i]]
            if last[segment] != e:
                last[segment] = e
                starts[segment + 1] += 1
    for segment in range(len(last)):
        last[segment] = NO_EVENT
        starts[segment + 1] += starts[segment]
    ends = starts.copy()
    for e in range(len(pointers) - 1):
        for i in range(pointers[e], pointers[e + 1]):
            segment = segment_of[covers[i]]
            if last[segment] != e:
                last[segment] = e
                chosen[ends[segment]] = e
                ends[segment] += 1
    return int(starts[-1])
