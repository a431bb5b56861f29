"""A first stage that finds candidates, and a scan for the slots it does not hold: what such indexes have in common.

    eligible slots  =  those in the lists of the structure        +  `residual`, which are scanned
                       found, verified, marked (`marks.py`)           512 events at a time, or one

A subclass has a structure and one kernel that matches events with it, called like this:

    match_events(table, arrays, events, eligible, scanned_start, scanned, base, first, last, scratch, counts, out, work)

It answers the events first .. last, ascending, the matches of the residual (`scanned`, from scanned_start[e - base] on)
among them; counts[e - base] becomes how many there are for event e. It returns how many there are in all, and the event
to resume at where `out` might not hold an event's answer.

Ranked search scores what matches; *relaxed* search, in which any constraint may hold, is that of `scan`.

Invariant: an event that a slot matches finds it in the structure, or the slot is residual.
Complexity: that of the structure, and of a scan of the residual.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Generic, Self

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.flat.bits import read_only
from earmark.flat.types import F64, I32, I64, U64, frozen
from earmark.index.answers import pointers_of, ranked, roomier, together
from earmark.index.contract import Work
from earmark.index.counters import COUNTERS, MATCHED
from earmark.index.flat import check_types, from_stored
from earmark.index.given import check_event, checked_k, read_only_events
from earmark.index.held import A, Held
from earmark.index.marks import rank_matches, scratch_words
from earmark.index.ranking import new_heaps
from earmark.index.scan import Scan
from earmark.segment.arrays import SegmentArrays

RANKED_ENTRIES = 1 << 22
"""Ranked search takes fewer events at a time when k is so large that their heaps would exceed this."""
RANKED_EVENTS = 256
FIRST_ROOM = 1 << 12
SPARES = 4
"""Scratch arrays kept for the next searches."""
NO_SLOTS: I32 = frozen(np.empty(0, np.int32))
NO_START: I64 = frozen(np.zeros(1, np.int64))


class Staged(Held[A], Generic[A]):
    """An index whose arrays, a `_kind`, have a bitmap `residual`, and whose kernel is `_match_events`.

    Its work: nodes are lists looked up; a clause that is verified counts all its constraints.
    """

    _kind: type[A]
    _match_events: Any
    _check_arrays: Any
    """(arrays, slots): AssertionError unless kernels can rely on the arrays, in a table of so many slots."""
    _check_lists: Any
    """(table, arrays): AssertionError unless the lists are those of the table."""

    def __init__(self, table: SegmentArrays, arrays: A) -> None:
        self._become(table, arrays)

    def _become(self, table: SegmentArrays, arrays: A) -> None:
        self._hold(table, arrays)
        self._residual: U64 = self._arrays.residual  # type: ignore[attr-defined]
        self._scan = Scan(self._table)
        self._has_residual = bool(self._residual.any())
        self._scratch: deque[U64] = deque(maxlen=SPARES)

    @classmethod
    def restore(cls, table: SegmentArrays, arrays: Mapping[str, Any]) -> Self:
        """The index whose arrays these are. AssertionError where kernels could not rely on them. O(size)."""
        made = from_stored(cls._kind, arrays)
        cls._check_arrays(made, table)
        return cls(table, made)

    def copy(self) -> Self:
        """An index of its own. O(1): no array is ever changed in place."""
        return type(self)(self._table, self._arrays)

    def check(self) -> None:
        """Raise AssertionError unless the lists are exactly those of the slots' decompositions. O(size)."""
        check_types(self._arrays)
        self._check_arrays(self._arrays, self._table)
        self._check_lists(self._table, self._arrays)

    def _known(self) -> int:
        """How many slots the index knows, of those that its table has."""
        raise NotImplementedError

    # --- searching -------------------------------------------------------------------------------------------

    def match(self, events: EventArrays, eligible: U64, e: int = 0) -> I32:
        """Eligible slots that match event e, ascending."""
        check_event(events, e)
        scanned = NO_SLOTS
        self._work = Work()
        if self._has_residual:
            scanned = self._scan.match(events, bits.both(eligible, self._residual), e)
            self._work = self._scan.work
        return self._matched(events, eligible, e, e + 1, np.array([0, len(scanned)]), scanned)[1]

    def match_many(self, events: EventArrays, eligible: U64) -> tuple[I64, I32]:
        """Per event the eligible slots that match, ascending: (event_ptr, slots)."""
        start, scanned = NO_START, NO_SLOTS
        self._work = Work()
        if self._has_residual:
            start, scanned = self._scan.match_many(events, bits.both(eligible, self._residual))
            self._work = self._scan.work
        return self._matched(events, eligible, 0, len(events.start) - 1, start, scanned)

    def top_k(self, events: EventArrays, k: int, eligible: U64, relaxed: bool = False, e: int = 0) -> tuple[I32, F64]:
        """The k best for event e, best first: (slots, scores)."""
        k = checked_k(k, self._table)
        if relaxed:
            found = self._scan.top_k(events, k, self._within(eligible), relaxed, e)
            self._work = self._scan.work
            return found
        slots = self.match(events, eligible, e)
        _, slots, scores = self._ranked(events, np.array([0, len(slots)]), slots, e, k)
        return slots, scores

    def top_k_many(self, events: EventArrays, k: int, eligible: U64, relaxed: bool = False) -> tuple[I64, I32, F64]:
        """Per event the k best, best first: (event_ptr, slots, scores)."""
        k = checked_k(k, self._table)
        if relaxed:
            whole = self._scan.top_k_many(events, k, self._within(eligible), relaxed)
            self._work = self._scan.work
            return whole
        count = len(events.start) - 1
        start, scanned = NO_START, NO_SLOTS
        total = Work()
        if self._has_residual:
            start, scanned = self._scan.match_many(events, bits.both(eligible, self._residual))
            total = self._scan.work._replace(matched=0)
        parts = []
        size = max(1, min(RANKED_EVENTS, RANKED_ENTRIES // k))
        for first in range(0, count, size):
            last = min(first + size, count)
            self._work = Work()
            pointers, slots = self._matched(
                events, eligible, first, last, start[first:] if len(scanned) else start, scanned
            )
            parts.append(self._ranked(events, pointers, slots, first, k))
            total = Work.total([total, self._work])
        self._work = total
        return together(parts)

    # --- inside ----------------------------------------------------------------------------------------------

    def _matched(
        self, events: EventArrays, eligible: U64, first: int, last: int, start: I64, scanned: I32
    ) -> tuple[I64, I32]:
        """The answers of the events first … last, those of the residual given."""
        events = read_only_events(events)
        start, scanned, eligible = read_only(start), read_only(scanned), read_only(eligible)
        counters = np.zeros(COUNTERS, np.int64)
        counts = np.zeros(last - first, np.int64)
        scratch = self._borrowed()
        out = np.empty(FIRST_ROOM, np.int32)
        found, e = 0, first
        while True:
            more, e = self._match_events(
                self._table,
                self._arrays,
                events,
                eligible,
                start,
                scanned,
                first,
                e,
                last,
                scratch,
                counts,
                out[found:],
                counters,
            )
            found += more
            if e == last:
                break
            out = roomier(out, found, e - first, last - first)
        self._scratch.append(scratch)
        counters[MATCHED] = found
        self._work = Work.total([self._work._replace(matched=0), Work.counted(counters)])
        return pointers_of(counts), out[:found]

    def _within(self, eligible: U64) -> U64:
        """Without slots that the index does not know, though its table has them."""
        known = self._known()
        return eligible if known == len(self._table.clause_start) - 1 else bits.both(eligible, bits.all_set(known))

    def _borrowed(self) -> U64:
        """A scratch of zeros; searches in other threads have their own."""
        try:
            return self._scratch.pop()
        except IndexError:
            return np.zeros(scratch_words(len(self._table.clause_start) - 1), np.uint64)

    def _ranked(self, events: EventArrays, pointers: I64, slots: I32, first: int, k: int) -> tuple[I64, I32, F64]:
        """Of each event's matches the k best: (how many each, slots, scores)."""
        n = len(pointers) - 1
        k = min(k, max(1, int(np.diff(pointers).max(initial=0))))
        heaps = new_heaps(n, k)
        events = read_only_events(events)
        rank_matches(self._table, events, read_only(pointers), read_only(slots), first, k, heaps)
        self._work = self._work._replace(scored=len(slots))
        return ranked(heaps, k)
