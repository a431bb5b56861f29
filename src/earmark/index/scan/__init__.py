"""Which subscriptions match: look at every one of them. The oracle and the baseline, as an ordinary index.

It has no structure of its own: it reads the table's arrays, so building is free, memory is zero and a live update
costs nothing. What makes it quick is the other side. Up to 512 events are laid out as lanes of a mask
(`lanes.py`), and each subscription meets all of them at once (`search.py`): a constraint is two look-ups, a clause
a few 512-bit ANDs, and the table streams through the cache once a group instead of once an event.

Invariant: none beyond the table's own, which `check` verifies.

Complexity: for a group of g <= 512 events over n eligible slots of c constraints, O(n c log g) worst case and
mostly O(n), as few clauses survive their first constraints; plus the matches. Space: O(values in the group).

Extended (interval) events take the same path as points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from earmark.errors import EarmarkError
from earmark.events.arrays import EventArrays
from earmark.flat.bits import read_only
from earmark.flat.types import F64, I32, I64, U64
from earmark.index.answers import chained, check_room, pointers_of, ranked, together
from earmark.index.contract import Work
from earmark.index.counters import COUNTERS, MATCHED
from earmark.index.given import check_event, checked_k, read_only_events, read_only_table
from earmark.index.ranking import new_heaps
from earmark.index.scan.lanes import LANES, lay_out
from earmark.index.scan.search import match_group, rank_group
from earmark.segment.arrays import SegmentArrays
from earmark.segment.rows import check_arrays

R = TypeVar("R")

HEAP_ENTRIES = 1 << 22
"""Ranked search takes fewer lanes at a time when k is so large that their heaps would exceed this."""


class Scan:
    """Every eligible subscription against every event.

    `threads` > 1 spreads the groups of a batch over so many threads. `buffer` is the number of matches a group
    makes room for at first; it grows. Slots below `first` are left out.
    """

    def __init__(self, table: SegmentArrays, threads: int = 1, buffer: int = 1 << 14, first: int = 0) -> None:
        if threads < 1:
            raise EarmarkError(f"scan needs at least one thread, not {threads}.")
        self._table = read_only_table(table)
        self._threads = threads
        self._buffer = max(buffer, LANES)
        self._first = first
        self._work = Work()

    @classmethod
    def build(cls, table: SegmentArrays, threads: int = 1, buffer: int = 1 << 14) -> Scan:
        """A scan of this table. O(1)."""
        return cls(table, threads, buffer)

    @classmethod
    def restore(cls, table: SegmentArrays, arrays: Mapping[str, NDArray[Any]]) -> Scan:
        """A scan of this table: it has no arrays of its own to take back."""
        return cls(table)

    @property
    def arrays(self) -> tuple[()]:
        """None: a scan reads the table alone."""
        return ()

    @property
    def nbytes(self) -> int:
        """Zero: nothing is kept beyond the table."""
        return 0

    @property
    def work(self) -> Work:
        """What the last call did. A comparison serves all lanes of a group and counts once."""
        return self._work

    def copy(self) -> Scan:
        """Another scan of the same table. O(1)."""
        return Scan(self._table, self._threads, self._buffer, self._first)

    def insert(self, table: SegmentArrays, slots: I32) -> None:
        """Follow the table as it grows. O(1)."""
        self._table = read_only_table(table)

    def remove(self, slots: I32) -> None:
        """Nothing to do: removed slots are not eligible."""

    def check(self) -> None:
        """Raise AssertionError unless the table's arrays are well formed. O(table)."""
        attributes = int(self._table.attr.max(initial=-1)) + 1
        check_arrays(self._table, attributes)

    def match(self, events: EventArrays, eligible: U64, e: int = 0) -> I32:
        """Eligible slots that match event e, ascending. O(slots)."""
        events = read_only_events(events)
        check_event(events, e)
        (_, slots), self._work = self._match_group(self._table, events, read_only(eligible), e, e + 1)
        return slots

    def match_many(self, events: EventArrays, eligible: U64) -> tuple[I64, I32]:
        """Per event the eligible slots that match, ascending: (event_ptr, slots). O(slots * events / 512)."""
        table, events, eligible = self._table, read_only_events(events), read_only(eligible)
        total = 0

        def run(first: int, last: int) -> tuple[tuple[I64, I32], Work]:
            nonlocal total
            group = self._match_group(table, events, eligible, first, last)
            total += len(group[0][1])
            check_room(total)
            return group

        parts = self._each_group(len(events.start) - 1, LANES, run)
        return pointers_of(chained([p[0] for p in parts], np.int64)), chained([p[1] for p in parts], np.int32)

    def top_k(self, events: EventArrays, k: int, eligible: U64, relaxed: bool = False, e: int = 0) -> tuple[I32, F64]:
        """The k best for event e, best first: (slots, scores). O(slots)."""
        events = read_only_events(events)
        check_event(events, e)
        k = checked_k(k, self._table)
        group = self._rank_group(self._table, events, k, read_only(eligible), relaxed, _heaviest(events), e, e + 1)
        (_, slots, scores), self._work = group
        return slots, scores

    def top_k_many(self, events: EventArrays, k: int, eligible: U64, relaxed: bool = False) -> tuple[I64, I32, F64]:
        """Per event the k best, best first: (event_ptr, slots, scores). Space O(512 k)."""
        table, events, eligible = self._table, read_only_events(events), read_only(eligible)
        k = checked_k(k, self._table)
        heaviest = _heaviest(events)
        lanes = max(1, min(LANES, HEAP_ENTRIES // k))
        parts = self._each_group(
            len(events.start) - 1,
            lanes,
            lambda i, j: self._rank_group(table, events, k, eligible, relaxed, heaviest, i, j),
        )
        return together(parts)

    def _each_group(self, events: int, lanes: int, run: Callable[[int, int], tuple[R, Work]]) -> list[R]:
        """Run the groups of a batch, in order or over the threads; adds up their work."""
        if self._threads > 1:
            lanes = min(lanes, max(1, -(-events // self._threads)))
        groups = [(first, min(first + lanes, events)) for first in range(0, events, lanes)]
        if self._threads > 1 and len(groups) > 1:
            with ThreadPoolExecutor(self._threads) as pool:
                done = list(pool.map(lambda group: run(*group), groups))
        else:
            done = [run(*group) for group in groups]
        self._work = Work.total(work for _, work in done)
        return [result for result, _ in done]

    def _match_group(
        self, table: SegmentArrays, events: EventArrays, eligible: U64, first: int, last: int
    ) -> tuple[tuple[I64, I32], Work]:
        """Matches of the events first..last: (how many each, slots event by event)."""
        lanes = lay_out(events, first, last)
        counters = np.zeros(COUNTERS, np.int64)
        who, slots = np.empty(self._buffer, np.uint16), np.empty(self._buffer, np.int32)
        found, slot, end = 0, self._first, len(table.clause_start) - 1
        while True:
            more, slot = match_group(table, events, lanes, eligible, slot, who[found:], slots[found:], counters)
            found += more
            if slot == end:
                break
            check_room(found)
            who, slots = np.resize(who, 2 * len(who)), np.resize(slots, 2 * len(slots))
        counters[MATCHED] = found
        order = np.argsort(who[:found], kind="stable")
        return (np.bincount(who[:found], minlength=last - first), slots[order]), Work.counted(counters)

    def _rank_group(
        self,
        table: SegmentArrays,
        events: EventArrays,
        k: int,
        eligible: U64,
        relaxed: bool,
        heaviest: float,
        first: int,
        last: int,
    ) -> tuple[tuple[I64, I32, F64], Work]:
        """The best of the events first..last: (how many each, slots, scores)."""
        lanes = lay_out(events, first, last)
        heaps = new_heaps(last - first, k)
        counters = np.zeros(COUNTERS, np.int64)
        rank_group(table, events, lanes, eligible, self._first, k, relaxed, heaviest, heaps, counters)
        return ranked(heaps, k), Work.counted(counters)


def _heaviest(events: EventArrays) -> float:
    """No event weight of the batch is above this."""
    return float(events.weight.max()) if len(events.weight) else 1.0
