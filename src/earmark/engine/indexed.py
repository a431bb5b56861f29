"""A segment in a version: with the index that searches it, and without the slots that were removed.

    segment   slots 0 1 2 3 4 5         never changes
    removed         . x . . x .         bitmap; a removal makes another `IndexedSegment` with another bitmap
    index     over all slots            None while the segment is *unsealed*: it takes new rows, and is scanned

Searching finds slots in the order of insertion. Where few slots are eligible (a narrow scope), those are scanned and
the index is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from earmark.errors import require
from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.flat.types import F64, I32, I64, U64, frozen
from earmark.index.driver import ArrayIndex
from earmark.index.scan import Scan
from earmark.segment.evaluate import score_matches
from earmark.segment.segment import NO_TAGS, Segment, Tags

FEW_SHARE = 1 / 256
"""A smaller share of eligible slots than this is scanned, without the index."""


def no_slots(slots: int) -> U64:
    """A bitmap of this many slots, none of which is set."""
    return frozen(np.zeros(bits.words_for(slots), np.uint64))


@dataclass(frozen=True, eq=False)
class IndexedSegment:
    """One of the segments of a version."""

    segment: Segment
    index: ArrayIndex[Any] | None
    removed: U64
    live: int
    """How many slots are not removed."""
    forgotten: U64
    """Those of the removed slots that the index does not know either."""
    line: object = field(default_factory=object)
    """The same for what a segment becomes as rows are removed and appended."""

    @classmethod
    def of(cls, segment: Segment, index: ArrayIndex[Any] | None = None, removed: U64 | None = None) -> IndexedSegment:
        """A segment whose index, if it has one, knows all slots but the removed."""
        removed = no_slots(len(segment)) if removed is None else removed
        return cls(segment, index, removed, len(segment) - bits.count(removed), removed)

    def __len__(self) -> int:
        """How many slots, the removed included."""
        return len(self.segment)

    @property
    def generation(self) -> int:
        """That of the segment's keys."""
        return self.segment.schema.generation

    @property
    def is_sealed(self) -> bool:
        """Whether it has an index; then it takes no more rows."""
        return self.index is not None

    @cached_property
    def alive(self) -> U64:
        """The bitmap of slots that are not removed."""
        return frozen(bits.all_set(len(self)) & ~self.removed)

    @cached_property
    def _scan(self) -> Scan:
        return Scan(self.segment.arrays)

    def is_live(self, slot: int) -> bool:
        """Whether a slot is not removed."""
        return not int(self.removed[slot >> 6]) >> (slot & 63) & 1

    def living(self) -> I64:
        """The slots that are not removed, ascending."""
        return bits.to_slots(self.alive).astype(np.int64)

    def find(self, one: object) -> int | None:
        """The living slot of an id."""
        slot = self.segment.find(one)
        return slot if slot is not None and self.is_live(slot) else None

    def eligible(self, scope: Tags = NO_TAGS) -> U64:
        """The bitmap of living slots that carry all these tags. O(slots / 64 + slots with these tags)."""
        return bits.both(self.alive, self.segment.tagged(scope)) if scope else self.alive

    # --- changes ---------------------------------------------------------------------------------------------

    def without(self, slots: I64) -> IndexedSegment:
        """The same without these slots, all of which are living."""
        removed, live = bits.set_slots(self.removed, slots), self.live - len(slots)
        return IndexedSegment(self.segment, self.index, removed, live, self.forgotten, self.line)

    def appended(self, other: Segment) -> IndexedSegment:
        """An unsealed segment with more rows behind it."""
        segment = self.segment.appended(other)
        removed, words = self.removed, bits.words_for(len(segment))
        if words > len(removed):
            removed = frozen(np.concatenate([removed, np.zeros(words - len(removed), np.uint64)]))
        return IndexedSegment(segment, None, removed, self.live + len(other), self.forgotten, self.line)

    # --- searching -------------------------------------------------------------------------------------------

    def searched_by(self, eligible: U64) -> ArrayIndex[Any]:
        """What searches among these slots: the index, or a scan where it is quicker or there is no index."""
        if self.index is None:
            return self._scan
        if eligible is not self.alive and bits.count(eligible) <= FEW_SHARE * len(self):
            return self._scan
        return self.index

    def match(self, events: EventArrays, eligible: U64, e: int = 0) -> I32:
        """The eligible slots that event e matches, in order of insertion."""
        slots = self.searched_by(eligible).match(events, eligible, e)
        if self.segment.is_ordered:
            return slots
        return slots[np.argsort(self.segment.arrays.sequence[slots], kind="stable")]

    def match_many(self, events: EventArrays, eligible: U64) -> tuple[I64, I32]:
        """Per event the eligible slots that match, in order of insertion: (event_ptr, slots)."""
        starts, slots = self.searched_by(eligible).match_many(events, eligible)
        if not self.segment.is_ordered:
            numbers = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
            slots = frozen(slots[np.lexsort((self.segment.arrays.sequence[slots], numbers))])
        return starts, slots

    def scores(self, events: EventArrays, starts: I64, slots: I32) -> F64:
        """The score of each match."""
        scores = np.empty(len(slots), np.float64)
        score_matches(self.segment.arrays, events, starts, slots, scores)
        return scores

    # --- checks ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise AssertionError, naming what is broken, unless the invariants of segment and index hold."""
        self.segment.check()
        require(len(self.removed) == bits.words_for(len(self)), "the bitmap of removed slots has the wrong size")
        require(bits.count(self.alive) == self.live, "the number of living slots is wrong")
        living = self.living()
        ids = self.segment.ids.objects
        require(len({ids[slot] for slot in living.tolist()}) == len(living), "two living slots have one id")
        require(self.segment.lookups.leads_to(self.segment, living.tolist()), "ids and living slots disagree")
        if self.index is not None:
            self.index.check()
