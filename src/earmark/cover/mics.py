"""Who covers this subscription, whom does it cover, who meets it at all? MICS's Subscription Indexing, for covering.

mics.txt, section 5. The members lie in a `MicsIndex` (index/mics/): the ranges of Hilbert's curve that their clauses
fill on a few attributes lead to lists of slots. A subscription is looked up there like an event, and what is found is
decided by the exact tests (`containment.py`):

    covering    whoever contains a clause contains the first cell of its box      one number is looked up
    covered     whatever lies inside has cells inside                             the ranges of all clauses
    meeting     whatever shares an event shares a cell                            the same; `exact.py` decides

             known to the index                            tail: looked at one by one         void: without a clause
    slots    0 1 2 . 4 5 . . 8 9 ...                       3 11 17                            6
                   ^ removed: still in the lists, not a member

A few changes wait; then a copy of the index takes the tail in and forgets what was removed, or it is made anew, by the
rules of engine/compaction.py.

An index pays when there are many members and many questions. `Related` scans at first, and has an index made when the
scans have cost as much: so neither one question nor a hundred thousand take much longer than they must.

Invariant (`check`): that of `MicsIndex`; each member is in exactly one of index, tail and void; what is in the index
and no member is in `removed`.
Complexity: covering O(bits + one chain of blocks + candidates), covered and meeting O(ranges log blocks + candidates),
beside a scan of the tail and of what is too wide for the lists; insert and remove O(entries) once in a group.

Where we differ from the paper: it looks up whether a range is *inside* the table of all ranges, which tells covered or
subsumed (`subsumption.py`), not by whom.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

import numpy as np

from earmark.cover.containment import stands_above
from earmark.cover.linear import Linear
from earmark.cover.members import COMPARISONS, NODES, Members
from earmark.engine.compaction import REBUILD_SHARE, SHORTEST_TAIL, TAIL_SHARE
from earmark.errors import require
from earmark.flat import bits
from earmark.flat.machine import at
from earmark.flat.types import I32, I64, frozen
from earmark.index.mics import MicsIndex, built
from earmark.index.mics.arrays import MicsArrays
from earmark.index.mics.plan import MicsOptions
from earmark.jit import kernel
from earmark.segment.arrays import SegmentArrays

NO_SLOTS: I32 = frozen(np.empty(0, np.int32))
ENOUGH = 4_096
"""So many members are worth an index. It finds who meets a subscription in 50 µs, nearly all of it calls; a scan of
1,000 takes as long, of 4,000 three times, of 100,000 ten to a hundred times as long."""
QUESTIONS = 256
"""So many questions are answered by scans first: an index takes as long to make as 240 of them (among 100,000 members)
to 550 (among 4,000)."""
USEFUL = 1 / 2
"""An index that leads to fewer of its members is not used: where all are scanned, it takes 1.4 to 2 times as long as a
scan. After as many questions again, another is tried."""


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
        """The share of the members that the lists lead to; the others are looked at for every question."""
        return bits.count(self.arrays.placed) / max(1, self._count)

    # --- changes ---------------------------------------------------------------------------------------------

    def _renew(self, slots: I32) -> None:
        """Build anew from these members."""
        self._index = MicsIndex(self.table, built(self.table, slots, MicsOptions()))
        self._waiting(set(), set())

    def _waiting(self, tail: set[int], removed: set[int]) -> None:
        """Let these wait."""
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
        """Let these be the members without a clause."""
        self._void, self._void_slots = void, np.array(sorted(void), np.int32)

    def _settle(self, tail: set[int], removed: set[int]) -> None:
        """Let these wait, or take them to where they belong if they are many."""
        known = self._count - len(self._void) - len(tail) + len(removed)
        limit = max(SHORTEST_TAIL, TAIL_SHARE * known)
        if len(tail) <= limit and len(removed) <= max(limit, REBUILD_SHARE * known):
            self._waiting(tail, removed)
        elif len(tail) > REBUILD_SHARE * known:
            self._renew(np.setdiff1d(self.members(), self._void_slots))
        else:
            index = self._index.copy()  # a reader may hold the old one
            index.remove(np.array(sorted(removed), np.int32))
            if tail:
                index.insert(self.table, np.array(sorted(tail), np.int32))
            self._index = index
            self._waiting(set(), set())

    # --- questions -------------------------------------------------------------------------------------------

    def meeting(self, slot: int) -> I32:
        """Members that may share an event with a slot, ascending; all that do, and itself, are among them."""
        self._limit(slot, None)
        found = self._index.meeting_one(self.table, slot, self._live)
        return np.union1d(found, self._tail_slots) if len(self._tail_slots) else found

    def covered(self, slot: int, k: int | None = None) -> I32:
        """Up to k members that the slot covers, ascending."""
        limit, met = self._limit(slot, k), self.meeting(slot)
        candidates = np.union1d(met, self._void_slots) if len(self._void_slots) else met
        out = np.empty(min(limit, len(candidates)), np.int32)
        return out[: keep_covered(self.table, slot, candidates, out)]

    def _search(self, slot: int, k: int, counters: I64) -> I32:
        found = self._index.holding_one(self.table, slot, self._live)
        counters[NODES] += self._index.work.nodes
        candidates = np.concatenate([found, self._tail_slots]) if len(self._tail_slots) else found
        out = np.empty(min(k, len(candidates)), np.int32)
        return out[: keep_covering(self.table, slot, candidates, out, counters)]

    def check(self) -> None:
        """Raise AssertionError unless the invariant holds. O(size)."""
        super().check()
        self._index.check()
        arrays = self._index.arrays
        known = set(bits.to_slots(bits.either(arrays.placed, arrays.residual)).tolist())
        parts = (known - self._removed, self._tail, self._void)
        members = set(self.members().tolist())
        require(self._removed <= known and not self._removed & members, "what was removed is no part of the index")
        require(set.union(*parts) == members and sum(map(len, parts)) == len(members), "a member is not in one place")
        require(not any(self._clauses(slot) for slot in self._void), "a slot with clauses is called void")
        require(self._tail_slots.tolist() == sorted(self._tail), "the tail is not its slots")
        require(self._void_slots.tolist() == sorted(self._void), "the void are not their slots")


class Related:
    """Members that are asked about: scanned at first, and indexed when questions have become so many that it pays."""

    def __init__(self, table: SegmentArrays, slots: I32) -> None:
        self._members: Members = Linear.build(table, slots)
        self._asked, self._patience = 0, QUESTIONS

    @property
    def indexed(self) -> bool:
        """Whether there is an index."""
        return isinstance(self._members, Mics)

    def follow(self, table: SegmentArrays, changed: Iterable[int], members: Container[int]) -> None:
        """Of the slots that have changed, those that are among the members now come or stay, the others go.

        The table may have grown.
        """
        now, before = self._members, list(changed)
        now.insert(table, [slot for slot in before if slot in members and slot not in now])
        now.remove([slot for slot in before if slot not in members and slot in now])

    def covering(self, slot: int) -> I32:
        """Members that cover a slot."""
        return self._ready().covering(slot)

    def covered(self, slot: int) -> I32:
        """Members that a slot covers, ascending."""
        return self._ready().covered(slot)

    def meeting(self, slot: int) -> I64:
        """Members, ascending: all that share an event with a slot, and others. All of them where it never matches."""
        members = self._ready()
        if isinstance(members, Mics) and members.table.clause_start[slot] < members.table.clause_start[slot + 1]:
            return members.meeting(slot).astype(np.int64)
        return members.members().astype(np.int64)

    def _ready(self) -> Members:
        self._asked += 1
        if self._asked > self._patience and len(self._members) >= ENOUGH and not self.indexed:
            made = Mics.build(self._members.table, self._members.members())
            if made.share_indexed >= USEFUL:
                self._members = made
            else:
                self._patience = 2 * self._asked
        return self._members


@kernel
def keep_covering(table: SegmentArrays, slot: int, candidates: I32, out: I32, counters: I64) -> int:
    """Of the candidates up to len(out) that cover the slot, in their order; returns how many."""
    found = 0
    for i in range(len(candidates)):
        if found == len(out):
            break
        other = candidates[i]
        counters[COMPARISONS] += at(table.clause_start, other + 1) - at(table.clause_start, other)
        if stands_above(table, other, slot):
            out[found] = other
            found += 1
    return found


@kernel
def keep_covered(table: SegmentArrays, slot: int, candidates: I32, out: I32) -> int:
    """Of the candidates up to len(out) that the slot covers, in their order; returns how many."""
    found = 0
    for i in range(len(candidates)):
        if found == len(out):
            break
        if stands_above(table, slot, candidates[i]):
            out[found] = candidates[i]
            found += 1
    return found
