"""Which clauses have all their predicates among the posting lists of an event: k-index, a rival of the BE*-Tree.

Whang et al., "Indexing Boolean Expressions" (VLDB 2009), as the BE*-Tree paper describes and measures it (sections II
and VII): clauses are partitioned by their number of predicates K; each (attribute, value) has a list of the clauses
that accept it, ascending; an event merges the lists of its values, skipping what cannot be in K of them (`search.py`,
the conjunction algorithm); the best k are found with one bound a list, which is flat. `arrays.py` draws the structure.

    build(table, fanout=4, merge="conjunction")      merge="counting": no order is kept, every posting is read once

Conjunction is what was published, and what the BE*-Tree paper measured; it skips, above all in a ranked search.
Counting over the same lists has less to do for each posting and is often faster where all matches are wanted: the
benchmarks (`benchmarks/be_star_tree.py`) show both.

**Invariant** (`check`): entries are the clauses by K descending, then clause; the list of a node has exactly the
entries with an interval whose canonical decomposition has that node, ascending; its bound is the greatest weight there,
rounded up. Hence K hits are a match without looking at the clause again, unless it is *loose*.

**Complexity.** For n intervals over c cells an attribute: space O(n fan-out log c) at worst and near n where intervals
are short in cells; an event of t attributes reads at most the postings of its t log c lists. Static: a change of the
table is a new build.

Where we differ from the papers, and why:
- A range is not enumerated value by value, which is exponential in the length of a number, but cut into nodes of a tree
  over the ends of intervals (`arrays.py`): O(log) postings, any domain, the same answers.
- The lists of one attribute are one term: among the K lists of the algorithm each attribute counts once.
- `!=`, `NOT IN` and several intervals are postings like any other, where Whang et al. treat NOT by itself. A constraint
  that accepts NULL has no postings, since no value need be there to find it: it does not count towards K, and the
  clause is verified. A clause with nothing else is verified for every event (their partition 0).
- The pivot of a ranked search moves on until the terms up to it can reach the k-th score (as WAND does), where Whang
  et al. compare only once the K lists have met.
- Interval values, and relaxed search, which they have not, count.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from earmark.errors import EarmarkError, require
from earmark.events.arrays import EventArrays
from earmark.flat.bits import read_only, words_for
from earmark.flat.types import F64, I32, I64, U64
from earmark.index.answers import ranked, roomier, together
from earmark.index.contract import Work
from earmark.index.counters import COUNTERS, MATCHED
from earmark.index.flat import from_stored
from earmark.index.given import check_event, checked_k, read_only_events, read_only_table
from earmark.index.held import Held
from earmark.index.k_index.arrays import BITS, KIndexArrays, check_form
from earmark.index.k_index.build import build_arrays
from earmark.index.k_index.search import Counts, Terms, match_events, rank_events
from earmark.index.ranking import new_heaps
from earmark.segment.arrays import SegmentArrays

HEAP_ENTRIES = 1 << 22
"""Ranked search takes fewer events at a time when k is so large that their heaps would exceed this."""
FIRST_BUFFER = 1 << 14
MERGES = ("conjunction", "counting")


class KIndex(Held[KIndexArrays]):
    """Posting lists by attribute and value, partitioned by the number of predicates.

    Its work: nodes are posting lists; a posting that a merge stops at is a comparison.
    """

    def __init__(self, table: SegmentArrays, arrays: KIndexArrays, merge: str = "conjunction") -> None:
        if merge not in MERGES:
            raise EarmarkError(f"a k-index merges by {' or '.join(MERGES)}, not {merge!r}.")
        self._hold(table, arrays)
        self._merge = merge
        self._levels = int(np.diff(arrays.level_start).max(initial=0))
        self._several = bool((np.diff(table.clause_start) > 1).any())
        self._highest = float(table.score.max(initial=0.0))
        self._space = threading.local()

    @classmethod
    def build(cls, table: SegmentArrays, fanout: int = 4, merge: str = "conjunction") -> KIndex:
        """An index of this table. O(n log n) for n intervals, plus the postings."""
        bits = fanout.bit_length() - 1
        if not 1 <= bits <= 8 or fanout != 1 << bits:
            raise EarmarkError(f"the fan-out of a k-index is a power of two from 2 to 256, not {fanout}.")
        table = read_only_table(table)
        return cls(table, build_arrays(table, bits), merge)

    @classmethod
    def restore(cls, table: SegmentArrays, arrays: Mapping[str, Any], merge: str = "conjunction") -> KIndex:
        """The index from its arrays, which may be mapped files; AssertionError where kernels could not trust them."""
        made = from_stored(KIndexArrays, arrays)
        check_form(table, made)
        return cls(table, made, merge)

    def check(self) -> None:
        """Raise AssertionError, naming the array, unless it is what the table asks for. O(build)."""
        check_form(self._table, self._arrays)
        wanted = build_arrays(self._table, int(self._arrays.header[BITS]))
        for name in KIndexArrays._fields:
            require(np.array_equal(getattr(self._arrays, name), getattr(wanted, name)), f"{name} is not the table's")
        same = np.ones(len(wanted.posting), bool)
        same[wanted.posting_start[:-1][wanted.posting_start[:-1] < len(same)]] = False
        require((np.diff(wanted.posting, prepend=0)[same] > 0).all(), "a posting list does not ascend")
        space = getattr(self._space, "counts", None)
        left = wanted.required if space is None or not len(space.left) else space.left
        require(np.array_equal(left, wanted.required), "a search left counts behind")

    def match(self, events: EventArrays, eligible: U64, e: int = 0) -> I32:
        """Eligible slots that match event e, ascending."""
        check_event(events, e)
        return self._matched(events, eligible, e, e + 1)[1]

    def match_many(self, events: EventArrays, eligible: U64) -> tuple[I64, I32]:
        """Per event the eligible slots that match, ascending: (event_ptr, slots)."""
        return self._matched(events, eligible, 0, len(events.start) - 1)

    def _matched(self, events: EventArrays, eligible: U64, first: int, last: int) -> tuple[I64, I32]:
        events, eligible = read_only_events(events), read_only(eligible)
        extended = _extended(events, first, last)
        terms = self._terms(events, first, last)
        counts = self._counts(counted=extended or self._merge == "counting", stamped=extended)
        work = np.zeros(COUNTERS, np.int64)
        pointers, out = np.zeros(last + 1, np.int64), np.empty(FIRST_BUFFER, np.int32)
        e = first
        conjunction = self._merge == "conjunction"
        while e < last:
            e = match_events(
                self._table, self._arrays, events, e, last, eligible, conjunction, terms, counts, pointers, out, work
            )
            if e < last:
                out = roomier(out, int(pointers[e]), e - first, last - first)
        pointers, slots = _ascending(pointers[first:], out, self._several)
        work[MATCHED] = len(slots)
        self._work = Work.counted(work)
        return pointers, slots

    def top_k(self, events: EventArrays, k: int, eligible: U64, relaxed: bool = False, e: int = 0) -> tuple[I32, F64]:
        """The k best for event e, best first: (slots, scores)."""
        check_event(events, e)
        _, slots, scores = self._ranked(events, k, eligible, relaxed, e, e + 1)
        return slots, scores

    def top_k_many(self, events: EventArrays, k: int, eligible: U64, relaxed: bool = False) -> tuple[I64, I32, F64]:
        """Per event the k best, best first: (event_ptr, slots, scores)."""
        return self._ranked(events, k, eligible, relaxed, 0, len(events.start) - 1)

    def _ranked(
        self, events: EventArrays, k: int, eligible: U64, relaxed: bool, first: int, last: int
    ) -> tuple[I64, I32, F64]:
        k = checked_k(k, self._table)
        events, eligible = read_only_events(events), read_only(eligible)
        extended = _extended(events, first, last)
        terms = self._terms(events, first, last)
        counts = self._counts(counted=relaxed or extended or self._merge == "counting", stamped=extended, seen=True)
        sums = np.zeros(len(terms.queue) + 2)
        heaviest = float(events.weight.max(initial=0.0)) if len(events.weight) else 1.0
        unposted = 0.0 if relaxed else heaviest * float(self._arrays.partition_extra.max(initial=0.0))
        work = np.zeros(COUNTERS, np.int64)
        parts = []
        step = max(1, HEAP_ENTRIES // k)
        for begin in range(first, last, step):
            end = min(begin + step, last)
            heaps = new_heaps(end - begin, k)
            what = (self._table, self._arrays, events, begin, end, eligible, k, relaxed, self._merge == "conjunction")
            rank_events(*what, heaviest, self._highest + unposted, terms, counts, sums, heaps, work)
            parts.append(ranked(heaps, k))
        self._work = Work.counted(work)
        return together(parts)

    def _terms(self, events: EventArrays, first: int, last: int) -> Terms:
        """Working space for the widest of these events."""
        most = int(np.diff(events.start[first : last + 1]).max(initial=0))
        lists = most * self._levels
        return Terms(
            place=np.zeros(lists, np.int64),
            end=np.zeros(lists, np.int64),
            head=np.zeros(lists, np.int32),
            first=np.zeros(most + 1, np.int64),
            bound=np.zeros(most),
            queue=np.zeros(most, np.int64),
            extended=np.zeros(most, np.uint8),
        )

    def _counts(self, counted: bool, stamped: bool, seen: bool = False) -> Counts:
        """This thread's space by entry: kept between calls, as every search leaves it as it was."""
        kept = getattr(self._space, "counts", None)
        if kept is None:
            none = np.empty(0, np.int64)
            kept = Counts(none.astype(np.uint8), none, none.astype(np.int32), none.astype(np.uint64), np.zeros(1, int))
        entries = len(self._arrays.required)
        if len(kept.hits) < entries:
            kept = kept._replace(hits=np.empty(entries, np.int32))
        if counted and len(kept.left) < entries:
            kept = kept._replace(left=self._arrays.required.copy())
        if stamped and len(kept.stamp) < entries:
            kept = kept._replace(stamp=np.zeros(entries, np.int64))
        if seen and self._several and not len(kept.seen):
            kept = kept._replace(seen=np.zeros(words_for(len(self._table.clause_start) - 1), np.uint64))
        self._space.counts = kept
        return kept


def _ascending(pointers: I64, out: I32, several: bool) -> tuple[I64, I32]:
    """Each event's slots ascending, and each once where a slot may stand for several clauses."""
    slots = out[: pointers[-1]].copy()
    step = slots[1:] > slots[:-1]
    starts = pointers[(pointers > 0) & (pointers < len(slots))]
    step[starts - 1] = True
    if step.all():
        return pointers, slots
    for begin, end in pairwise(pointers.tolist()):
        slots[begin:end].sort()
    if not several:
        return pointers, slots
    new = np.ones(len(slots), bool)
    np.not_equal(slots[1:], slots[:-1], out=new[1:])
    new[starts] = True
    before = np.concatenate([[0], np.cumsum(new)])
    return before[pointers], slots[new]


def _extended(events: EventArrays, first: int, last: int) -> bool:
    values = slice(events.start[first], events.start[last])
    return bool((events.lo[values] != events.hi[values]).any())
