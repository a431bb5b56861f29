"""Which of many overlapping rectangles an event lies in: VCR indexing (vcr.txt), as a first stage for any table.

Subscriptions become rectangles on a grid over two attributes, rectangles are cut into *virtual construct rectangles*
(`rectangles.py`), and each VCR has a list of slots. An event looks into the lists of the VCRs that cover it, which it
finds by adding one precomputed table of distances to the ID of its pivot (`search.py`). `arrays.py` draws the arrays;
`plan.py` chooses pair, grid, longest sides and store from the data; `store.py` fills the lists.

**Invariant** (`check`): an event that a slot matches lies in one of the slot's VCRs, or the slot is residual. Every
list entry is a VCR of its slot's own decomposition, and every VCR of the decomposition has its entry, once for each
time it occurs. An entry that is not `maybe` needs no second look.

**Complexity**, Lx, Ly the longest sides, m matches: a search O(Ly log Lx + m) with the array store, O(Lx Ly + m)
hashed, and what the residual costs to scan. Space: 4 bytes for each entry (5 to 10 a rectangle on the paper's data) and
for each VCR of the grid (array) or 12 for each place of the hash table. An insert O(pieces + delta), a removal O(1)
and no list is walked: the slot is not eligible any more, and its entries leave when half of the entries are such.

**Where we differ from the paper.**
- Coordinates are *cells* between the bounds that occur, closed below and open above, so a rectangle of w by h cells is
  never empty: Fig. 2 cuts an equality (w = 0) into nothing. The paper's closed grid points are `mode="points"`.
- Values are ranks among those bounds, so any type of attribute and unbounded ranges fit, without a range R given. Where
  there are more bounds than cells, a rectangle grows to whole cells and is verified.
- The array store numbers VCRs by shape first, not by corner (Eq. 1), so that the covering VCRs of one row and shape
  are one run of one array. `numbering="corner"` is Eq. (1), and the default of the hashed store.
- Lists are arrays, built in bulk; later slots go to a small hashed delta of linked lists, which is merged in time.
- More than two attributes, several clauses, several intervals, NULL and interval events: see `store.py`.
- Ranked search scores what matches; *relaxed* search, in which any constraint may hold, is that of `scan`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from earmark.errors import require
from earmark.index.contract import Work
from earmark.index.given import check_event, checked_k, read_only_events, read_only_table
from earmark.index.ranking import new_heaps
from earmark.index.scan import Scan
from earmark.index.vcr.arrays import (
    GONE_BEFORE,
    LATE_SLOTS,
    PLACED,
    SLOTS,
    Options,
    VcrArrays,
    check_arrays,
    described,
)
from earmark.index.vcr.build import built, check_lists, checked_options, extended, gone_with
from earmark.index.vcr.search import (
    CANDIDATES,
    COMPARED,
    COUNTERS,
    MATCHED,
    NODES,
    match_events,
    rank_matches,
    scratch_words,
)
from earmark.model import bits
from earmark.model.arrays import F64, I32, I64, U64, EventArrays, TableArrays, frozen
from earmark.model.bits import read_only

GONE_SHARE = 1 / 2
"""Entries of removed slots leave when so many of the slots on the grid are gone."""
FEWEST_GONE = 64
RANKED_ENTRIES = 1 << 22
"""Ranked search takes fewer events at a time when k is so large that their heaps would exceed this."""
RANKED_EVENTS = 256
FIRST_ROOM = 1 << 12
SPARES = 4
"""Scratch arrays kept for the next searches."""
NO_SLOTS: I32 = frozen(np.empty(0, np.int32))
NO_START: I64 = frozen(np.zeros(1, np.int64))


class VcrIndex:
    """Slots by the virtual construct rectangles of two of their constraints."""

    def __init__(self, table: TableArrays, arrays: VcrArrays) -> None:
        self._become(table, arrays)

    def _become(self, table: TableArrays, arrays: VcrArrays) -> None:
        self._table = read_only_table(table)
        self._arrays = VcrArrays._make(read_only(column) for column in arrays)
        self._scan = Scan(self._table)
        self._has_residual = bool(self._arrays.residual.any())
        self._scratch: deque[U64] = deque(maxlen=SPARES)
        self._work = Work()

    # --- making ----------------------------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        table: TableArrays,
        attributes: tuple[int, ...] | None = None,
        longest: tuple[int, int] | None = None,
        cells: tuple[int, int] | None = None,
        mode: str = "cells",
        decomposition: str | None = None,
        store: str | None = None,
        numbering: str | None = None,
        hash_size: int | None = None,
    ) -> VcrIndex:
        """An index of all slots of a table; what is not given is chosen from the data.

        `attributes`: one or two attribute numbers. `longest`: Lx and Ly, powers of two. `cells`: at most so many
        cells on each axis. `mode`: "cells" or the paper's "points". `decomposition`: "simple" or "overlapped".
        `store`: "array" or "hashed", with `hash_size` places. `numbering`: "corner" is Eq. (1), "shape" has long runs.
        """
        options = checked_options(attributes, longest, cells, mode, decomposition, store, numbering, hash_size)
        slots = np.arange(len(table.clause_start) - 1, dtype=np.int32)
        return cls(table, built(table, slots, options))

    @classmethod
    def restore(cls, table: TableArrays, arrays: Mapping[str, NDArray[Any]]) -> VcrIndex:
        """The index whose arrays these are. AssertionError where kernels could not rely on them. O(size)."""
        missing = [name for name in VcrArrays._fields if name not in arrays]
        require(not missing, f"arrays are missing: {', '.join(missing)}")
        made = VcrArrays._make(np.asarray(arrays[name]) for name in VcrArrays._fields)
        check_arrays(made, len(table.clause_start) - 1)
        return cls(table, made)

    def copy(self) -> VcrIndex:
        """An index of its own. O(1): no array is ever changed in place."""
        return VcrIndex(self._table, self._arrays)

    # --- looking at it ---------------------------------------------------------------------------------------

    @property
    def arrays(self) -> VcrArrays:
        """The index."""
        return self._arrays

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(column.nbytes for column in self._arrays)

    @property
    def work(self) -> Work:
        """What the last call did. Nodes are VCRs looked up; a clause that is verified counts all its constraints."""
        return self._work

    def describe(self) -> dict[str, Any]:
        """What was chosen: attributes (by number), cells, longest sides, store, and the share on the grid."""
        return described(self._arrays)

    def check(self) -> None:
        """Raise AssertionError unless the lists are exactly those of the slots' decompositions. O(size)."""
        check_arrays(self._arrays, len(self._table.clause_start) - 1)
        check_lists(self._table, self._arrays)

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

    # --- changing --------------------------------------------------------------------------------------------

    def insert(self, table: TableArrays, slots: I32) -> None:
        """Take in new slots: their VCRs go to the heads of the delta's lists. O(pieces + delta), amortised."""
        arrays = extended(table, self._arrays, np.asarray(slots, np.int32))
        if arrays is None:
            self._rebuild(table, gone_with(self._arrays, table, slots))
        else:
            self._become(table, arrays)

    def remove(self, slots: I32) -> None:
        """Forget slots. No list is walked: entries stay until many are of slots that are gone. O(slots / 64)."""
        old = self._arrays
        gone = bits.set_slots(old.gone, np.asarray(slots, np.int32))
        entries_of = int(old.info[PLACED] + old.info[LATE_SLOTS])
        if bits.count(gone) - int(old.info[GONE_BEFORE]) > max(FEWEST_GONE, GONE_SHARE * entries_of):
            self._rebuild(self._table, gone)
        else:
            self._become(self._table, old._replace(gone=gone, residual=frozen(old.residual & ~gone)))

    def _rebuild(self, table: TableArrays, gone: U64) -> None:
        """Build anew without the slots that are gone, as the data now says."""
        here = np.ones(len(table.clause_start) - 1, bool)
        here[bits.to_slots(gone)] = False
        options = Options(*(int(value) for value in self._arrays.options))
        self._become(table, built(table, np.flatnonzero(here).astype(np.int32), options))

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
            more, e = match_events(
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
        known = int(self._arrays.info[SLOTS])
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
