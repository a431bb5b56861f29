"""What every covering index answers, cov_k(S, s) of Shen, Tirthapura and Aluru; and the index that is a scan.

s₁ **covers** s₂ when every event that matches s₂ matches s₁. The indexes answer it for subscriptions of one table,
named by slot (`cover_index.py` names them by id), under one strict order (`canonical.stands_above`):

    A covers B       each clause of B is inside some clause of A: exact when B has one clause or A has one;
                     of several clauses, those of A that only together contain a clause of B do not count
    A equals B       each covers the other: then the older (smaller sequence) covers the younger, never the reverse
    B never matches  everything covers it; of two such subscriptions the older covers the younger

So "covers" has no cycle: following it upward from any subscription ends at one that nothing covers.

Every index reads a *canonical* table (`canonical.py`), in which equal conditions have equal keys, and is a subclass of
`Members`. It implements `_put` and `_take`, by which its structure follows the members, and `_search`, the covering
query for a slot that has clauses. `Members` handles subscriptions that never match, which have no clause and so no
point anywhere; the reverse question, `covered`; limits and checks.

`Linear` is the paper's *naive* algorithm, and the others' oracle. It has no structure: the members are a bitmap, their
clauses are read from the table one by one, and a clause is left at the first attribute on which it does not contain the
query. O(members) per query, mostly one or two comparisons of keys each; insert and remove O(1).

Invariant: bit s of `_live` is set iff slot s is a member; `_count` is how many bits are set.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from earmark.cover.canonical import check_continues, clause_contains, covers, differ_once, reports, stands_above
from earmark.cover.exact import WORK, Decision, decide
from earmark.errors import EarmarkError, check_whole, require
from earmark.flat.arrays import I32, I64, U64, frozen, grown, pointers_of, read_only
from earmark.flat.bits import WORD, from_slots, to_slots, words_for
from earmark.flat.machine import at, ctz64
from earmark.jit import kernel
from earmark.segment.arrays import SegmentArrays
from earmark.segment.evaluate import eligible_word

SUBSCRIBE, UNSUBSCRIBE = 0, 1
"""Phases that costs are charged to."""
NODES, COMPARISONS = 0, 1
"""Places of the counters that kernels add to."""
FEW = 32
"""Up to this many slots are quicker one by one."""
NO_SLOTS: I32 = frozen(np.empty(0, np.int32))


class Cost(NamedTuple):
    """Work of covering queries, in the paper's measures (Section V-A)."""

    nodes: int = 0
    """Nodes visited: inner nodes and leaves of a tree, cells of a curve."""
    comparisons: int = 0
    """Point comparisons: stored clauses compared with the query; those of one vector count one each."""


class Members:
    """The members of a covering index, by slot."""

    def __init__(self, table: SegmentArrays) -> None:
        self._given = table
        self.table = _checked(table)
        self._live: U64 = np.zeros(words_for(len(table.sequence)), np.uint64)
        self._count = 0
        self._spent = np.zeros((2, 2), np.int64)
        self._counters = (self._spent[SUBSCRIBE], self._spent[UNSUBSCRIBE])

    @classmethod
    def build(cls, table: SegmentArrays, slots: I32 | None = None, **options: Any) -> Self:
        """Build an index over a canonical table with these members, by default all of its slots."""
        index = cls(table, **options)
        index.insert(table, np.arange(len(table.sequence), dtype=np.int32) if slots is None else slots)
        return index

    @property
    def costs(self) -> tuple[Cost, Cost]:
        """Work of all queries so far: of subscribes, and of unsubscribes."""
        subscribes, unsubscribes = (Cost(*map(int, row)) for row in self._spent)
        return subscribes, unsubscribes

    @property
    def nbytes(self) -> int:
        """Bytes of the index beyond the table it was built from."""
        return int(self._live.nbytes) + sum(a.nbytes for a in self.arrays if isinstance(a, np.ndarray))

    @property
    def arrays(self) -> Any:
        """The flat arrays of the structure."""
        return (self._live,)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, slot: object) -> bool:
        if not isinstance(slot, int | np.integer) or not 0 <= slot < len(self.table.sequence):
            return False
        return bool(self._live.item(int(slot) >> 6) >> (int(slot) & 63) & 1)

    def members(self) -> I32:
        """The members, ascending. O(slots)."""
        return to_slots(self._live)

    def slot(self, slot: int) -> int:
        """The slot itself: the name by which an index of slots knows a subscription."""
        return slot

    # --- changes ---------------------------------------------------------------------------------------------

    def add(self, slot: int, table: SegmentArrays) -> None:
        """Make one slot of a table a member. The table may have grown since; its older slots must not have changed."""
        self.insert(table, [slot])

    def insert(self, table: SegmentArrays, slots: I32 | list[int]) -> None:
        """Make several slots of a table members, as `add` does."""
        if table is not self._given:
            self._follow(_checked(table))
            self._given = table
        chosen = self._toggled(slots, present=False)
        self._count += len(chosen)
        self._put(chosen)

    def remove(self, slots: I32 | list[int] | int) -> None:
        """Make one slot, or several, members no longer."""
        chosen = self._toggled(slots, present=True)
        self._count -= len(chosen)
        self._take(chosen)

    def _follow(self, table: SegmentArrays) -> None:
        if len(table.sequence) < len(self.table.sequence):
            raise EarmarkError("the table has fewer slots than before; build a new index for it")
        if self._count:
            check_continues(table, self.table)
        self.table = table
        words = words_for(len(table.sequence))
        if words > len(self._live):
            self._live = grown(self._live, max(words, 2 * len(self._live)))

    def _toggled(self, slots: I32 | list[int] | int, present: bool) -> list[int]:
        """The slots as a list; all of them must be members (`present`), or none, and are the other from now on."""
        if isinstance(slots, int):
            slots = [slots]
        chosen: list[int] = slots if isinstance(slots, list) else np.asarray(slots).reshape(-1).tolist()
        if len(chosen) > 1 and len(set(chosen)) < len(chosen):
            raise EarmarkError("a slot is given twice")
        live, last = self._live, len(self.table.sequence)
        checked = chosen
        if len(chosen) > FEW:  # those that the loop would complain about, all at once
            given = np.array(chosen)
            outside = (given < 0) | (given >= last)
            place = np.where(outside, 0, given)
            held = live[place >> 6] >> (place & 63).astype(np.uint64) & np.uint64(1)
            checked = given[outside | (held != np.uint64(present))].tolist()
        for slot in checked:
            if not 0 <= slot < last:
                raise EarmarkError(f"there is no slot {slot} in a table of {last} slots")
            if live.item(slot >> 6) >> (slot & 63) & 1 != present:
                raise EarmarkError(f"slot {slot} is {'not a' if present else 'already a'} member of this index")
        if len(chosen) > FEW:
            live ^= from_slots(np.array(chosen), WORD * len(live))
        else:
            for slot in chosen:
                live[slot >> 6] ^= np.uint64(1 << (slot & 63))
        return chosen

    def _clauses(self, slot: int) -> range:
        start = self.table.clause_start
        return range(start.item(slot), start.item(slot + 1))

    def _put(self, slots: list[int]) -> None:
        """Take new members into the structure."""

    def _take(self, slots: list[int]) -> None:
        """Take members out of the structure."""

    # --- questions -------------------------------------------------------------------------------------------

    def covering(self, slot: int, k: int | None = None, phase: int = SUBSCRIBE) -> I32:
        """Up to k members that cover the slot (all without k), in no particular order; never the slot itself.

        The slot need not be a member. The work is charged to a phase (`costs`).
        """
        k = self._limit(slot, k)
        counters = self._counters[phase]
        if not self._clauses(slot):
            return keep_covering(self.table, slot, self.members(), k, counters)
        return self._search(slot, k, counters)

    def covered(self, slot: int, k: int | None = None) -> I32:
        """Up to k members that the slot covers (all without k), ascending. A scan: O(members)."""
        return keep_covered(self.table, slot, self.members(), self._limit(slot, k))

    def meeting(self, slot: int) -> I32:
        """Members, ascending, that include all that share an event with the slot: here, all members."""
        self._limit(slot, None)
        return self.members()

    def meeting_batch(self, slots: I32) -> tuple[I64, I32]:
        """Members that include all that share an event with each slot, each once, in no particular order.

        Returns (pointers, members); what never matches meets nothing.
        """
        found = [self.meeting(slot) if self._clauses(slot) else NO_SLOTS for slot in np.asarray(slots).tolist()]
        return pointers_of([len(part) for part in found]), np.concatenate([NO_SLOTS, *found])

    def aligned(self, slot: int) -> I32:
        """Members, ascending, that include all that are `mergeable` with the slot: here, all members."""
        self._limit(slot, None)
        return self.members()

    def mergeable(self, slot: int) -> I32:
        """Members, ascending, that make one clause with the slot that takes what the two take, and no more.

        Either one of the two covers the other, or each has one clause and they differ on one attribute alone.
        """
        return keep_mergeable(self.table, slot, self.aligned(slot))

    def covers(self, above: int, below: int) -> bool:
        """Whether one slot covers another, in the strict order."""
        return bool(covers(self.table, above, below))

    def verdict(self, slot: int, work: int = WORK) -> Decision:
        """Whether the members together take everything that a slot takes (`exact.py`); `work` bounds the search."""
        return decide(self.table, slot, self.meeting(slot).astype(np.int64), None, work)

    def _search(self, slot: int, k: int, counters: I64) -> I32:
        raise NotImplementedError

    def _limit(self, slot: int, k: int | None) -> int:
        if not 0 <= slot < len(self.table.sequence):
            raise EarmarkError(f"there is no slot {slot} in a table of {len(self.table.sequence)} slots")
        if k is not None and (type(k) is not int or k < 1):
            check_whole(k, "k", 1)
        return self._count if k is None else min(k, self._count)

    def check(self) -> None:
        """Raise AssertionError unless the members are counted right."""
        live = self.members()
        require(len(live) == self._count, "members are miscounted")
        require(not len(live) or live[-1] < len(self.table.sequence), "a member is beyond the table")


def _checked(table: SegmentArrays) -> SegmentArrays:
    return SegmentArrays._make(read_only(column) for column in table)


@kernel
def keep_covering(table: SegmentArrays, slot: int, candidates: I32, k: int, counters: I64) -> I32:
    """Up to k candidates that cover the slot, in their order."""
    out, found = np.empty(min(k, len(candidates)), np.int32), 0
    for i in range(len(candidates)):
        if found == len(out):
            break
        other = candidates[i]
        counters[COMPARISONS] += max(1, at(table.clause_start, other + 1) - at(table.clause_start, other))
        if stands_above(table, other, slot):
            out[found] = other
            found += 1
    return out[:found]


@kernel
def keep_covered(table: SegmentArrays, slot: int, candidates: I32, k: int) -> I32:
    """Up to k candidates that the slot covers, in their order."""
    out, found = np.empty(min(k, len(candidates)), np.int32), 0
    first, last = at(table.clause_start, slot), at(table.clause_start, slot + 1)
    for i in range(len(candidates)):
        if found == len(out):
            break
        other = candidates[i]
        begin, end = at(table.clause_start, other), at(table.clause_start, other + 1)
        if last - first == 1 and begin < end and not clause_contains(table, first, begin):
            continue  # most end here, before the test in full
        if stands_above(table, slot, other):
            out[found] = other
            found += 1
    return out[:found]


@kernel
def keep_mergeable(table: SegmentArrays, slot: int, candidates: I32) -> I32:
    """The candidates that make one clause with the slot, in their order."""
    out, found = np.empty(len(candidates), np.int32), 0
    first, is_one = at(table.clause_start, slot), at(table.clause_start, slot + 1) - at(table.clause_start, slot) == 1
    for i in range(len(candidates)):
        other = candidates[i]
        begin = at(table.clause_start, other)
        both = is_one and at(table.clause_start, other + 1) - begin == 1
        if other != slot and (
            (both and differ_once(table, first, begin))
            or stands_above(table, other, slot)
            or stands_above(table, slot, other)
        ):
            out[found] = other
            found += 1
    return out[:found]


class Linear(Members):
    """Every member against the query."""

    def _search(self, slot: int, k: int, counters: I64) -> I32:
        return scan_covering(self.table, self._live, slot, k, counters)


@kernel
def scan_covering(table: SegmentArrays, live: U64, slot: int, k: int, counters: I64) -> I32:
    """Up to k members that cover the slot, ascending."""
    out, found, compared, slots = np.empty(k, np.int32), 0, 0, len(table.sequence)
    for word in range(len(live)):
        bits = eligible_word(live, word, 0, slots)
        while bits and found < len(out):
            other = (word << 6) + ctz64(bits)
            bits &= bits - np.uint64(1)
            for clause in range(at(table.clause_start, other), at(table.clause_start, other + 1)):
                compared += 1
                if reports(table, other, clause, slot):
                    out[found] = other
                    found += 1
                    break
    counters[COMPARISONS] += compared
    return out[:found]
