"""Which segments can an event match?

A router is made of the covers of segments (covers.py), each with the number of its segment, and an index over them. An
event is searched in the segments whose covers it meets.

    covers       a IN [3, 9]    b IN [1, 1]    a IN [0, 4] AND c IN [7, 8]       event  a = 4: meets the first cover,
    segment_of   0              0              2                                 not the third (no c): segment 0

Covers are keys of the generation of the segments, and stay right when slots are removed.

Invariant: an event that matches a subscription of a segment exactly is searched there.
Complexity: that of the index over the covers, and O(events x segments / 64).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from earmark import index as indexes
from earmark.errors import require
from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.flat.arrays import I32, frozen
from earmark.index.driver import ArrayIndex
from earmark.segment.arrays import SegmentArrays
from earmark.segment.join import concat_all

SCANNED = 2_048
"""So few covers are scanned."""
INDEX = "blocks"


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

    def route(self, events: EventArrays) -> NDArray[np.bool_]:
        """Which events (columns) must be searched in each segment (rows)."""
        count = len(events.start) - 1
        met = np.zeros((self.segments, count), np.bool_)
        pointers, covers = self.index.match_many(events, bits.all_set(len(self.segment_of)))
        met[self.segment_of[covers], np.repeat(np.arange(count), np.diff(pointers))] = True
        return met

    def check(self) -> None:
        """Raise AssertionError where a cover is of no segment, or the index cannot be relied on."""
        of = self.segment_of
        require(len(of) == len(self.covers.sequence), "the router has covers of no segment")
        known = not len(of) or 0 <= of.min() <= of.max() < self.segments
        require(known, "the router knows a segment that is not there")
        self.index.check()
