"""Which cover this subscription, which does it cover, which meet it, which merge with it? MICS's Subscription Indexing.

mics.txt, section 5. The members are in a `MicsIndex` (index/mics/): the ranges of Hilbert's curve that their clauses
fill on a few attributes lead to lists of slots. A subscription is looked up there like an event, and the exact tests
(`canonical.py`) decide about what is found:

    covering    whoever contains a clause contains the first cell of its box      one number is looked up
    covered     whatever is inside has cells inside                               the ranges of all clauses
    meeting     whatever shares an event shares a cell                            the same; `exact.py` decides
    aligned     whatever merges takes the same on all attributes but one          the same, and a slab for each axis

             known to the index                            tail: looked at one by one         void: without a clause
    slots    0 1 2 . 4 5 . . 8 9 ...                       3 11 17                            6
                   ^ removed: still in the lists, not a member

A few changes wait; then a copy of the index takes in the tail and forgets what was removed, or the index is built
again, by the rules of engine/compaction.py.

An index pays when there are many members and many questions. `Auto` scans at first, and builds an index when the scans
have cost as much as that: so neither one question nor a hundred thousand take much longer than they must.

Invariant (`check`): that of `MicsIndex`; each member is in exactly one of index, tail and void; what is in the index
and not a member is in `removed`.
Complexity: covering O(bits + one chain of blocks + candidates), the others O(ranges log blocks + candidates),
and a scan of the tail and of what is too wide for the lists; insert and remove O(entries) once per group of changes.

Where we differ from the paper: it looks up whether a range is *inside* the table of all ranges, which tells whether a
subscription is covered or subsumed (`subsumption.py`), but not by which others.
"""

from __future__ import annotations

import numpy as np

from earmark.cover.indexes.members import NO_SLOTS, NODES, Linear, Members, keep_covered, keep_covering
from earmark.engine.compaction import REBUILD_SHARE, SHORTEST_TAIL, TAIL_SHARE
from earmark.errors import require
from earmark.flat import bits
from earmark.flat.arrays import I32, I64
from earmark.index.mics import MicsIndex, built
from earmark.index.mics.arrays import MicsArrays
from earmark.index.mics.plan import MicsOptions
from earmark.segment.arrays import SegmentArrays

ENOUGH = 4_096
"""Members that make an index worthwhile. It finds who meets a subscription in 50 µs, nearly all of it calls; a scan of
1,000 members takes as long, of 4,000 three times, of 100,000 ten to a hundred times as long."""
QUESTIONS = 256
"""Questions that are answered by scans first: building an index takes as long as 240 of them (among 100,000 members)
to 550 (among 4,000)."""
USEFUL = 1 / 2
"""An index whose lists lead to a smaller share of its members is not used: where all are scanned, it takes 1.4 to 2
times as long as a scan. After as many questions again, another is tried."""


class Mics(Members):
    """Members by the ranges of Hilbert's curve that their clauses fill."""

    def __init__(self, table: SegmentArrays) -> None:
        super().__init__(table)
        self._void: set[int] = set()
        self._void_slots = NO_SLOTS
        self._renew(NO_SLOTS)

    @property
    def arrays(self) -> MicsArrays:
        """The index; without the tail."""
        return self._index.arrays

    @property
    def share_indexed(self) -> float:
        """The share of the members that the lists lead to; the others are compared for every question."""
        return bits.count(self.arrays.placed) / max(1, self._count)

    # --- changes ---------------------------------------------------------------------------------------------

    def _renew(self, slots: I32) -> None:
        """Build the index again, from these members."""
        self._index = MicsIndex(self.table, built(self.table, slots, MicsOptions()))
        self._waiting(set(), set())

    def _waiting(self, tail: set[int], removed: set[int]) -> None:
        """Set the changes that the index does not know yet."""
        self._tail, self._removed = tail, removed
        self._tail_slots: I32 = np.array(sorted(tail), np.int32)

    def _put(self, slots: list[int]) -> None:
        new = set(slots)
        if void := {slot for slot in slots if not self._clauses(slot)}:
            self._let_void(self._void | void)
        # One that was removed and comes back finds its old entries.
        self._settle(self._tail | new - void - self._removed, self._removed - new)

    def _take(self, slots: list[int]) -> None:
        gone = set(slots)
        if void := gone & self._void:
            self._let_void(self._void - void)
        self._settle(self._tail - gone, self._removed | gone - void - self._tail)

    def _let_void(self, void: set[int]) -> None:
        """Set the members without a clause."""
        self._void, self._void_slots = void, np.array(sorted(void), np.int32)

    def _settle(self, tail: set[int], removed: set[int]) -> None:
        """Let these changes wait or, if they are many, bring them into the index."""
        known = self._count - len(self._void) - len(tail) + len(removed)
        limit = max(SHORTEST_TAIL, TAIL_SHARE * known)
        if len(tail) <= limit and len(removed) <= max(limit, REBUILD_SHARE * known):
            self._waiting(tail, removed)
        elif len(tail) > REBUILD_SHARE * known:
            self._renew(np.setdiff1d(self.members(), self._void_slots))
        else:
            index = self._index.copy()  # a reader may hold the old index
            index.remove(np.array(sorted(removed), np.int32))
            if tail:
                index.insert(self.table, np.array(sorted(tail), np.int32))
            self._index = index
            self._waiting(set(), set())

    # --- questions -------------------------------------------------------------------------------------------

    def meeting(self, slot: int) -> I32:
        """Members, ascending, that include all that share an event with a slot, and the slot itself."""
        self._limit(slot, None)
        found = self._index.meeting_one(self.table, slot, self._live)
        return np.union1d(found, self._tail_slots) if len(self._tail_slots) else found

    def aligned(self, slot: int) -> I32:
        """Members, ascending, that include all that are `mergeable` with the slot."""
        self._limit(slot, None)
        if not self._clauses(slot):
            return self.members()
        found = self._index.aligned_one(self.table, slot, self._live)
        waiting = np.union1d(self._tail_slots, self._void_slots)
        return np.union1d(found, waiting) if len(waiting) else found

    def covered(self, slot: int, k: int | None = None) -> I32:
        """Up to k members that the slot covers, ascending."""
        limit, met = self._limit(slot, k), self.meeting(slot)
        candidates = np.union1d(met, self._void_slots) if len(self._void_slots) else met
        return keep_covered(self.table, slot, candidates, limit)

    def _search(self, slot: int, k: int, counters: I64) -> I32:
        found = self._index.holding_one(self.table, slot, self._live)
        counters[NODES] += self._index.work.nodes
        candidates = np.concatenate([found, self._tail_slots]) if len(self._tail_slots) else found
        return keep_covering(self.table, slot, candidates, k, counters)

    def check(self) -> None:
        """Raise AssertionError unless the invariant holds. O(size)."""
        super().check()
        self._index.check()
        arrays = self._index.arrays
        known = set(bits.to_slots(bits.either(arrays.placed, arrays.residual)).tolist())
        parts = (known - self._removed, self._tail, self._void)
        members = set(self.members().tolist())
        require(self._removed <= known and not self._removed & members, "what was removed is not in the index")
        require(set.union(*parts) == members and sum(map(len, parts)) == len(members), "a member is not in one place")
        require(not any(self._clauses(slot) for slot in self._void), "a slot with clauses is among the void")
        require(self._tail_slots.tolist() == sorted(self._tail), "the tail's slots are not the tail")
        require(self._void_slots.tolist() == sorted(self._void), "the void slots are not the void")


class Auto(Linear):
    """Members that are scanned at first, and indexed once there have been enough questions for an index to pay."""

    def __init__(self, table: SegmentArrays) -> None:
        super().__init__(table)
        self._index: Mics | None = None
        self._asked, self._patience = 0, QUESTIONS

    @property
    def indexed(self) -> bool:
        """Whether there is an index."""
        return self._index is not None

    def _put(self, slots: list[int]) -> None:
        if self._index is not None:
            self._index.insert(self.table, slots)

    def _take(self, slots: list[int]) -> None:
        if self._index is not None:
            self._index.remove(slots)

    def _search(self, slot: int, k: int, counters: I64) -> I32:
        index = self._ready()
        return super()._search(slot, k, counters) if index is None else index._search(slot, k, counters)

    def covered(self, slot: int, k: int | None = None) -> I32:
        """Up to k members that the slot covers, ascending."""
        index = self._ready()
        return super().covered(slot, k) if index is None else index.covered(slot, k)

    def meeting(self, slot: int) -> I32:
        """Members, ascending, that include all that share an event with a slot; all where it never matches."""
        index = self._ready()
        return super().meeting(slot) if index is None or not self._clauses(slot) else index.meeting(slot)

    def aligned(self, slot: int) -> I32:
        """Members, ascending, that include all that are `mergeable` with the slot."""
        index = self._ready()
        return super().aligned(slot) if index is None else index.aligned(slot)

    def _ready(self) -> Mics | None:
        """The index, if there is one; makes one when it is time to."""
        self._asked += 1
        if self._index is None and self._asked > self._patience and self._count >= ENOUGH:
            index = Mics.build(self.table, self.members())
            if index.share_indexed >= USEFUL:
                self._index = index
            else:
                self._patience = 2 * self._asked
        elif self._index is not None and self._index._given is not self.table:
            self._index.insert(self.table, NO_SLOTS)  # a slot of a table that has grown may be asked about
        return self._index
