"""An index over a table that changes: a structure over the slots it knows, and a scan of those that came since.

Readers hold an index while a writer goes on, so nothing that a reader may hold is changed. A change of the table gives
another `Live`, which shares what it can:

    slots      0 ........................ known ....... n
               main: an index of its own  tail: scanned       removed slots are not eligible, wherever they are

    few changes            the same main, a longer tail
    tail over its limit    a copy of main takes the tail in and forgets what was removed (`is_updatable`),
                           or main is built anew

Copying costs O(size of main) once in `limit` changes, and limit is a share of the size, so a change costs O(1) copying
on average; searching the tail costs at most that share of a scan.

Invariant (`check`): main's own, and 0 <= known <= slots of the table.
Complexity: `follow` amortised O(insert), without waiting by any reader; a search is main's and a scan of the tail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from earmark.errors import EarmarkError
from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.flat.growable import Growable
from earmark.flat.types import F64, I32, I64, U64
from earmark.index.contract import Floor, Work
from earmark.index.driver import ArrayIndex
from earmark.index.scan import Scan
from earmark.segment.arrays import SegmentArrays

SHORTEST_TAIL = 128
TAIL_SHARE = 1 / 256
"""The tail of an index that takes inserts may be so long, as a share of the slots that it knows."""
STATIC_TAIL_SHARE = 1 / 8
"""The same for an index that must be built anew."""
REBUILD_SHARE = 1 / 2
"""So many new slots, as a share of the known ones, are better off in an index that is built anew."""

FEW_SHARE = 1 / 256
"""When so few of the slots are eligible (a narrow scope), those are scanned, and the index is left alone."""

NO_SLOTS: I32 = np.empty(0, np.int32)
Build = Callable[[SegmentArrays], ArrayIndex[Any]]
R = TypeVar("R")


class Live:
    """A moment of an index; `follow` gives the next."""

    def __init__(self, build: Build, table: SegmentArrays, main: ArrayIndex[Any], known: int, gone: Growable) -> None:
        self._build = build
        self._table = table
        self.main = main
        self.known = known
        self._gone = gone
        self._tail = Scan(table, first=known) if known < len(table.sequence) else None
        self._usual: U64 | None = None
        self._work = Work()

    @classmethod
    def built(cls, build: Build, table: SegmentArrays, main: ArrayIndex[Any] | None = None) -> Live:
        """An index that knows all slots of a table: built now, or `main` if it is there already."""
        return cls(build, table, build(table) if main is None else main, len(table.sequence), Growable(np.int32))

    def follow(self, table: SegmentArrays, removed: I32 = NO_SLOTS) -> Live:
        """The index of the same table after it has grown and these slots were removed."""
        slots = len(table.sequence)
        new = slots - self.known
        if new > REBUILD_SHARE * self.known or self.main.nbytes == 0:  # without arrays of its own, building is free
            return Live.built(self._build, table)
        updatable = self.main.is_updatable
        gone = self._gone.extended(removed) if updatable and len(removed) else self._gone
        waiting = new + gone.size
        if waiting <= max(SHORTEST_TAIL, (TAIL_SHARE if updatable else STATIC_TAIL_SHARE) * self.known):
            return Live(self._build, table, self.main, self.known, gone)
        if not updatable:
            return Live.built(self._build, table)
        main = self.main.copy()
        forgotten = gone.view()
        main.remove(forgotten[forgotten < self.known])
        fresh = np.setdiff1d(np.arange(self.known, slots, dtype=np.int32), forgotten)
        main.insert(table, fresh)
        return Live.built(self._build, table, main)

    def adapted(self, events: EventArrays) -> tuple[Live, Any]:
        """The same after main has learned from events (`is_adaptive`), and what it says of that."""
        if not self.main.is_adaptive:
            raise EarmarkError("this index does not adapt to events; 'be_star_tree' and 'mics' do")
        main = self.main.copy()
        found = main.adapt(events)
        return Live(self._build, self._table, main, self.known, self._gone), found

    def about(self) -> dict[str, Any]:
        """What main has chosen, in its own words; empty when it has nothing to say."""
        return self.main.describe()

    # --- the contract ----------------------------------------------------------------------------------------

    @property
    def arrays(self) -> Any:
        """The arrays of main; an index that has a tail is not whole without its table."""
        return self.main.arrays

    @property
    def nbytes(self) -> int:
        """Bytes of main beyond the table; the tail has none."""
        return self.main.nbytes

    @property
    def work(self) -> Work:
        """What the last call did, in main and tail."""
        return self._work

    @property
    def tail(self) -> int:
        """How many slots are scanned."""
        return len(self._table.sequence) - self.known

    def check(self) -> None:
        """Raise AssertionError unless main is in order and the tail begins where main ends."""
        self.main.check()
        assert 0 <= self.known <= len(self._table.sequence), "the index knows more slots than there are"

    def match(self, events: EventArrays, eligible: U64, e: int = 0) -> I32:
        """Eligible slots that match event e, ascending."""
        if (few := self._few(eligible)) is not None:
            return self._noted(few, few.match(events, eligible, e))
        slots = self.main.match(events, eligible, e)
        if self._tail is not None:
            slots = np.concatenate([slots, self._tail.match(events, eligible, e)])
        self._note_work()
        return slots

    def match_many(self, events: EventArrays, eligible: U64) -> tuple[I64, I32]:
        """Per event the eligible slots that match, ascending: (event_ptr, slots)."""
        if (few := self._few(eligible)) is not None:
            return self._noted(few, few.match_many(events, eligible))
        pointers, slots = self.main.match_many(events, eligible)
        if self._tail is not None:
            more, tail = self._tail.match_many(events, eligible)
            slots, pointers = _interleaved(pointers, slots, more, tail), pointers + more
        self._note_work()
        return pointers, slots

    def top_k(self, events: EventArrays, k: int, eligible: U64, relaxed: bool = False, e: int = 0) -> tuple[I32, F64]:
        """The k best for event e, best first: (slots, scores)."""
        if (few := self._few(eligible)) is not None:
            return self._noted(few, few.top_k(events, k, eligible, relaxed, e))
        slots, scores = self.main.top_k(events, k, eligible, relaxed, e)
        if self._tail is not None:
            tail, tail_scores = self._tail.top_k(events, k, eligible, relaxed, e)
            slots, scores = np.concatenate([slots, tail]), np.concatenate([scores, tail_scores])
            order = np.lexsort((self._table.sequence[slots], -scores))[:k]
            slots, scores = slots[order], scores[order]
        self._note_work()
        return slots, scores

    def top_k_many(
        self, events: EventArrays, k: int, eligible: U64, relaxed: bool = False, floor: Floor | None = None
    ) -> tuple[I64, I32, F64]:
        """Per event the k best, best first: (event_ptr, slots, scores)."""
        if (few := self._few(eligible)) is not None:
            return self._noted(few, few.top_k_many(events, k, eligible, relaxed, floor))
        pointers, slots, scores = self.main.top_k_many(events, k, eligible, relaxed, floor)
        if self._tail is not None:
            more, tail, tail_scores = self._tail.top_k_many(events, k, eligible, relaxed, floor)
            if len(tail):
                pointers, slots, scores = self._best(k, pointers, slots, scores, more, tail, tail_scores)
        self._note_work()
        return pointers, slots, scores

    # --- inside ----------------------------------------------------------------------------------------------

    def _best(
        self, k: int, pointers: I64, slots: I32, scores: F64, more: I64, tail: I32, tail_scores: F64
    ) -> tuple[I64, I32, F64]:
        """The k best of two ranked answers, event by event."""
        slots, scores = np.concatenate([slots, tail]), np.concatenate([scores, tail_scores])
        numbers = np.arange(len(pointers) - 1)
        event = np.concatenate([np.repeat(numbers, np.diff(pointers)), np.repeat(numbers, np.diff(more))])
        order = np.lexsort((self._table.sequence[slots], -scores, event))
        both = pointers + more
        rank = np.arange(len(order)) - np.repeat(both[:-1], np.diff(both))
        order = order[rank < k]
        kept = np.zeros_like(both)
        np.cumsum(np.minimum(np.diff(both), k), out=kept[1:])
        return kept, slots[order], scores[order]

    def _few(self, eligible: U64) -> Scan | None:
        """A scan, where so little is eligible that it is quicker; a bitmap that is not so is counted once."""
        if eligible is self._usual:
            return None
        if bits.count(eligible) <= FEW_SHARE * len(self._table.sequence):
            return Scan(self._table)
        self._usual = eligible
        return None

    def _noted(self, scan: Scan, answer: R) -> R:
        self._work = scan.work
        return answer

    def _note_work(self) -> None:
        self._work = self.main.work if self._tail is None else Work.total([self.main.work, self._tail.work])


def _interleaved(pointers: I64, slots: I32, more: I64, tail: I32) -> I32:
    """Event by event, first its part of one answer, then its part of the other."""
    made = np.empty(len(slots) + len(tail), np.int32)
    made[np.arange(len(slots)) + np.repeat(more[:-1], np.diff(pointers))] = slots
    made[np.arange(len(tail)) + np.repeat(pointers[1:], np.diff(more))] = tail
    return made
