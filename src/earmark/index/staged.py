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
from typing import Any

import numpy as np

from earmark.index.contract import Work
from earmark.index.given import check_event, checked_k, read_only_events, read_only_table
from earmark.index.marks import CANDIDATES, COMPARED, COUNTERS, MATCHED, NODES, rank_matches, scratch_words
from earmark.index.ranking import new_heaps
from earmark.index.scan import Scan
from earmark.model import bits
from earmark.model.arrays import F64, I32, I64, U64, EventArrays, TableArrays, frozen
from earmark.model.bits import read_only

RANKED_ENTRIES = 1 << 22
"""Ranked search takes fewer events at a time when k is so large that their heaps would exceed this."""
RANKED_EVENTS = 256
FIRST_ROOM = 1 << 12
SPARES = 4
"""Scratch arrays kept for the next searches."""
NO_SLOTS: I32 = frozen(np.empty(0, np.int32))
NO_START: I64 = frozen(np.zeros(1, np.int64))


class Staged:
    """An index whose arrays have a bitmap `residual`, and whose kernel is `_match_events`."""

    _match_events: Any
    _arrays: Any

    def _become(self, table: TableArrays, arrays: Any) -> None:
        self._table = read_only_table(table)
        self._arrays = type(arrays)._make(read_only(column) for column in arrays)
        self._scan = Scan(self._table)
        self._has_residual = bool(self._arrays.residual.any())
        self._scratch: deque[U64] = deque(maxlen=SPARES)
        self._work = Work()

    def _known(self) -> int:
        """How many slots the index knows, of those that its table has."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(column.nbytes for column in self._arrays)

    @property
    def work(self) -> Work:
        """What the last call did. Nodes are lists looked up; a clause that is verified counts all its constraints."""
        return self._work

    # --- searching -------------------------------------------------------------------------------------------

    def match(self, events: EventArrays, eligible: U64, e: int = 0) -> I32:
        """Eligible slots that match event e, ascending."""
        check_event(events, e)
        scanned = NO_SLOTS
        self._work = Work()
        if self._has_residual:
            scanned = self._scan.match(events, bits.both(eligible, self._arrays.residual), e)
            self._work = self._scan.work
        return self._matched(events, eligible, e, e + 1, np.array([0, len(scanned)]), scanned)[1]

    def match_batch(self, events: EventArrays, eligible: U64) -> tuple[I64, I32]:
        """Per event the eligible slots that match, ascending: (event_ptr, slots)."""
        start, scanned = NO_START, NO_SLOTS
        self._work = Work()
        if self._has_residual:
            start, scanned = self._scan.match_batch(events, bits.both(eligible, self._arrays.residual))
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

    def top_k_batch(self, events: EventArrays, k: int, eligible: U64, relaxed: bool = False) -> tuple[I64, I32, F64]:
        """Per event the k best, best first: (event_ptr, slots, scores)."""
        k = checked_k(k, self._table)
        if relaxed:
            whole = self._scan.top_k_batch(events, k, self._within(eligible), relaxed)
            self._work = self._scan.work
            return whole
        count = len(events.start) - 1
        start, scanned = NO_START, NO_SLOTS
        total = Work()
        if self._has_residual:
            start, scanned = self._scan.match_batch(events, bits.both(eligible, self._arrays.residual))
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
            total = _sum(total, self._work)
        self._work = total
        if not parts:
            return np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0)
        sizes, slots, scores = (np.concatenate(column) for column in zip(*parts, strict=True))
        return np.concatenate([[0], np.cumsum(sizes)]), slots, scores

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
            room = max(2 * len(out), int(1.1 * found / max(1, e - first) * (last - first)))
            grown = np.empty(room, np.int32)
            grown[:found] = out[:found]
            out = grown
        self._scratch.append(scratch)
        counters[MATCHED] = found
        self._work = _sum(self._work._replace(matched=0), _work(counters))
        pointers = np.zeros(last - first + 1, np.int64)
        np.cumsum(counts, out=pointers[1:])
        return pointers, out[:found]

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
        kept = (np.arange(k) < heaps.size[:, None]).ravel()
        self._work = self._work._replace(scored=len(slots))
        return heaps.size, heaps.slot[kept], heaps.score[kept]


def _work(counters: I64) -> Work:
    return Work(
        nodes=int(counters[NODES]),
        candidates=int(counters[CANDIDATES]),
        compared=int(counters[COMPARED]),
        matched=int(counters[MATCHED]),
    )


def _sum(left: Work, right: Work) -> Work:
    return Work(*(a + b for a, b in zip(left, right, strict=True)))
