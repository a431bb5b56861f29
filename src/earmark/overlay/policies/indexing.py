"""Subscription Indexing: a condition is told unless those told before take everything that it takes.

mics.txt, sections 3.7 and 5. What brokers speak of are conditions, and the decision is exact (cover/exact.py): no
publication travels in vain, and no space is needed.

    told        x [0, 9]     x [10, 19]              new   x [5, 14]    subsumed by two: kept back
    withdrawn   x [0, 9]                                   x [5, 14]    shares events with it, and is needed now:
                                                                        told first

What is kept back is subsumed by what is *told*, never by something else that is kept back, so nothing relies on what no
neighbour knows. When something told goes, those kept back that share events with it are decided again, oldest first.
So tables depend on the order in which subscriptions came: of two that take the same, the first is told.

**Batches.** All entries of a broker are in one covering index, bound once. Which of them share events with which is
looked up once for all links, for a batch of new entries at once; each link then decides about those that it was told,
entry by entry, in one kernel. Most entries are needed, and a few points at random in them show it.

Where we differ from the paper: any covering index finds what shares events. `index="mics"` looks it up in ranges, as
the paper does; blocks (`layers`) answer batches, and are the quicker here.

Invariant (`check`): the entries of a link that are told take everything that those take which are kept back.
Complexity, for m entries of a link that share events with a new one: O(m) where it is covered, or a point shows that it
is needed; otherwise that of `cover/exact.py`, at most `work` steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from earmark.cover.canonical import domains, slot_contains
from earmark.cover.exact import GONE, MOST_WORK, WORK, subtracted
from earmark.errors import check_whole, require
from earmark.flat.arrays import I32, I64, Flags, grown, pointers_of, read_only
from earmark.flat.machine import at
from earmark.jit import inlined, kernel
from earmark.keys.schema import Schema
from earmark.overlay.policies import Entry, Policy, Statement, Tell, Untell
from earmark.overlay.policies.rows import Bound
from earmark.segment.arrays import SegmentArrays

SIGN = 1 << 63
POINTS = 16
"""Points of a clause that are tried before it is decided in full."""


class Indexing(Policy):
    """Conditions, unless what was told on the link takes everything that they take."""

    name = "subsumption"

    def __init__(self, index: str = "layers", work: int = WORK) -> None:
        """Choose the covering index that finds what shares events, and a bound on the work of one decision.

        What cannot be decided within it is told.
        """
        check_whole(work, "work", 1, MOST_WORK)
        self._index, self._work = index, work
        self._links: dict[str, _Link] = {}
        self.declare({}, "UTC")

    def declare(self, attributes: Mapping[str, str], zone: str) -> Mapping[str, str]:
        """Read conditions with these types, in this zone."""
        self._near = Near(self._index, attributes, zone)
        return attributes

    def open(self, link: str) -> None:
        """Begin a link."""
        self._links[link] = _Link(self._near, self._work)

    def close(self, link: str) -> None:
        """Forget a link."""
        del self._links[link]

    def learn(self, entries: Sequence[Entry]) -> None:
        """Bind and index entries, once for all links."""
        self._near.learn(entries)

    def unlearn(self, entries: Sequence[Entry]) -> None:
        """Forget entries."""
        self._near.unlearn(entries)

    def change(self, link: str, added: Sequence[Entry], removed: Sequence[Entry]) -> list[Statement]:
        """Tell what is needed, then what the removed ones had made superfluous, then withdraw those."""
        one = self._links[link]
        return one.add(added) + one.remove(removed)

    def told(self, link: str) -> list[Statement]:
        """What is not kept back."""
        one = self._links[link]
        return [Tell(number, one.entries[number].condition) for number in sorted(one.entries.keys() - one.kept_back)]

    def status(self, link: str) -> dict[str, object]:
        """How many entries concern the link, and how many of them were told."""
        one = self._links[link]
        return {"entries": len(one.entries), "told": len(one.entries) - len(one.kept_back)}

    def check(self) -> None:
        """Raise AssertionError unless everything that is kept back is subsumed by what is told."""
        for name, link in self._links.items():
            missing = link.missing()
            require(not missing, f"entries {missing} are missing on the link to {name}")


class Found(NamedTuple):
    """The slot of an entry, and those of others that share events with it."""

    slot: int
    others: I32


class Near(Bound):
    """All entries of a broker, bound and indexed once, and which of them share events."""

    def __init__(self, index: str, attributes: Mapping[str, str], zone: str) -> None:
        super().__init__(index, attributes, zone)
        self._found: dict[int, Found] = {}
        """Answers since the entries last changed: links ask about the same ones, one after the other."""
        self._domains: tuple[Schema, tuple[I64, I64]] | None = None

    def learn(self, entries: Sequence[Entry]) -> None:
        """Add entries, and find what shares events with them."""
        self._found = {}
        super().learn(entries)
        self.find([entry.number for entry in entries if entry.number not in self.odd])

    def unlearn(self, entries: Sequence[Entry]) -> None:
        """Remove entries."""
        self._found = {}
        super().unlearn(entries)

    def find(self, numbers: Sequence[int]) -> list[Found]:
        """The slots of these entries, and for each those that share events with it."""
        found = self._found
        if unknown := [number for number in numbers if number not in found]:
            slots = [self.index.slot(number) for number in unknown]
            start, others = self.index.members.meeting_batch(np.array(slots, np.int32))
            parts = np.split(others, start[1:-1])
            found.update(zip(unknown, map(Found, slots, parts), strict=True))
        return [found[number] for number in numbers]

    @property
    def domains(self) -> tuple[I64, I64]:
        """The least and the greatest key of each attribute."""
        schema = self.index.schema
        if self._domains is None or self._domains[0] is not schema:
            least, greatest = domains(schema)
            self._domains = schema, (read_only(least), read_only(greatest))
        return self._domains[1]


class _Link:
    """What concerns one link: told, or kept back."""

    def __init__(self, near: Near, work: int) -> None:
        self.entries: dict[int, Entry] = {}
        self.kept_back: set[int] = set()
        self._near, self._work = near, work
        self._told: Flags = np.zeros(0, np.bool_)
        self._kept: Flags = np.zeros(0, np.bool_)
        """By slot, without the entries that brokers may read differently (rows.py): those are told, and in no index."""
        self._renewals = 0

    def add(self, entries: Sequence[Entry]) -> list[Statement]:
        """Take entries in; returns what to tell."""
        if not entries:
            return []
        self._follow()
        odd = self._near.odd
        self.entries.update((entry.number, entry) for entry in entries)
        needed = self._decided([entry.number for entry in entries if entry.number not in odd])
        return [
            Tell(entry.number, entry.condition) for entry in entries if entry.number in odd or entry.number in needed
        ]

    def remove(self, entries: Sequence[Entry]) -> list[Statement]:
        """Let entries go; returns what to tell because of it, and then what to withdraw."""
        if not entries:
            return []
        self._follow()
        gone = [entry.number for entry in entries]
        withdrawn = [number for number in gone if number not in self.kept_back]
        indexed = [number for number in gone if number not in self._near.odd]
        slots = [self._near.index.slot(number) for number in indexed]
        self._told[slots] = self._kept[slots] = False
        self.kept_back.difference_update(gone)
        for number in gone:
            del self.entries[number]
        uncovered: list[Statement] = []
        if self.kept_back:
            relied = self._relied_on([number for number in withdrawn if number not in self._near.odd])
            needed = self._decided(relied)
            uncovered = [Tell(number, self.entries[number].condition) for number in relied if number in needed]
        return uncovered + [Untell(number) for number in withdrawn]

    def _relied_on(self, numbers: list[int]) -> list[int]:
        """What is kept back and may have relied on these, oldest first."""
        near = [found.others[self._kept[found.others]] for found in self._near.find(numbers)]
        if not near:
            return []
        return [int(number) for number in self._near.index.named(np.unique(np.concatenate(near)))]

    def _decided(self, numbers: Sequence[int]) -> set[int]:
        """Those of these entries that are needed, one after the other; they are told, the others kept back."""
        if not numbers:
            return set()
        found, table = self._near.find(numbers), self._near.index.table
        slots, start = np.array([one.slot for one in found]), pointers_of([len(one.others) for one in found])
        others = np.concatenate([one.others for one in found])
        needed = tell_needed(table, slots, start, others, self._told, *self._near.domains, self._work)
        self._kept[slots] = ~needed
        told = {number for number, is_needed in zip(numbers, needed.tolist(), strict=True) if is_needed}
        self.kept_back.difference_update(told)
        self.kept_back.update(number for number in numbers if number not in told)
        return told

    def _follow(self) -> None:
        """Follow the slots of the index: there may be more of them, or others."""
        index = self._near.index
        slots = len(index.table.sequence)
        if self._renewals != index.renewals:
            self._renewals = index.renewals
            self._told, self._kept = np.zeros(slots, np.bool_), np.zeros(slots, np.bool_)
            for number in self.entries:
                if number not in self._near.odd:
                    flags = self._kept if number in self.kept_back else self._told
                    flags[index.slot(number)] = True
        elif slots > len(self._told):
            self._told, self._kept = (grown(flags, 2 * slots) for flags in (self._told, self._kept))

    def missing(self) -> list[int]:
        """Entries that are kept back, and that those told do not take all of."""
        self._follow()
        kept = sorted(self.kept_back)
        found, table, told = self._near.find(kept), self._near.index.table, self._told
        missing = []
        for number, (slot, others) in zip(kept, found, strict=True):
            start = np.array([0, len(others)])
            if tell_needed(table, np.array([slot]), start, others, told.copy(), *self._near.domains, self._work)[0]:
                missing.append(number)
        return missing


# --- kernels -----------------------------------------------------------------------------------------------------


@kernel
def tell_needed(
    table: SegmentArrays, slots: I64, start: I64, others: I32, told: Flags, least: I64, greatest: I64, work: int
) -> Flags:
    """Decide about slots of a canonical table, one after the other, and flag those that are needed as told.

    Those that share events with slot s are at start[s] .. start[s + 1]; of these, the ones that are told count.
    """
    needed = np.zeros(len(slots), np.bool_)
    for i in range(len(slots)):
        slot, count = slots[i], 0
        near = np.empty(start[i + 1] - start[i], np.int64)
        for j in range(start[i], start[i + 1]):
            if others[j] != slot and told[others[j]]:
                near[count] = others[j]
                count += 1
        needed[i] = told[slot] = not takes_all(table, slot, near[:count], least, greatest, work)
    return needed


@kernel
def takes_all(table: SegmentArrays, slot: int, others: I64, least: I64, greatest: I64, work: int) -> bool:
    """Whether others together take everything that a slot takes; False where that takes too much work to decide."""
    for i in range(len(others)):
        if slot_contains(table, others[i], slot):
            return True
    first, last = at(table.clause_start, slot), at(table.clause_start, slot + 1)
    widest = 0
    for clause in range(first, last):
        widest = max(widest, at(table.constraint_start, clause + 1) - at(table.constraint_start, clause))
    key, null, state = np.empty(widest, np.int64), np.empty(widest, np.bool_), np.uint64(1)
    for clause in range(first, last):
        for _ in range(int(POINTS)):
            state = draw_point(table, clause, state, key, null)
            if not is_taken(table, clause, key, null, others):
                return False
    used = np.zeros(len(others), np.uint8)
    for clause in range(first, last):
        rest = subtracted(table, clause, others, least, greatest, work, used)
        work -= rest.work
        if rest.outcome != int(GONE):
            return False
    return True


@inlined
def draw(state: np.uint64) -> np.uint64:
    """The next state of a generator of random words: Marsaglia's xorshift."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    return state ^ (state << np.uint64(17))


@inlined
def draw_point(table: SegmentArrays, clause: int, state: np.uint64, key: I64, null: Flags) -> np.uint64:
    """Draw a point of a clause: by constraint a key, or NULL. Other attributes are NULL. Returns the next state."""
    first = at(table.constraint_start, clause)
    for constraint in range(first, at(table.constraint_start, clause + 1)):
        begin = at(table.interval_start, constraint)
        intervals = at(table.interval_start, constraint + 1) - begin
        state = draw(state)
        is_null = at(table.accepts_null, constraint) != 0 and (intervals == 0 or state & np.uint64(3) == np.uint64(0))
        null[constraint - first] = is_null
        if not is_null:
            interval = begin + np.int64((state >> np.uint64(8)) % np.uint64(intervals))
            state = draw(state)
            # unsigned, since the ends may be further apart than an int64 reaches; with the sign bit flipped, in order
            low = np.uint64(at(table.lo, interval)) ^ np.uint64(SIGN)
            width = (np.uint64(at(table.hi, interval)) ^ np.uint64(SIGN)) - low
            above = state if width == ~np.uint64(0) else state % (width + np.uint64(1))
            key[constraint - first] = np.int64((low + above) ^ np.uint64(SIGN))
    return state


@inlined
def is_taken(table: SegmentArrays, clause: int, key: I64, null: Flags, others: I64) -> bool:
    """Whether one of the others takes a point of a clause."""
    for i in range(len(others)):
        for other in range(at(table.clause_start, others[i]), at(table.clause_start, others[i] + 1)):
            if holds_point(table, other, clause, key, null):
                return True
    return False


@inlined
def holds_point(table: SegmentArrays, other: int, clause: int, key: I64, null: Flags) -> bool:
    """Whether a clause takes a point of another one."""
    first = position = at(table.constraint_start, clause)
    last = at(table.constraint_start, clause + 1)
    for constraint in range(at(table.constraint_start, other), at(table.constraint_start, other + 1)):
        attr = at(table.attr, constraint)
        while position < last and at(table.attr, position) < attr:
            position += 1
        if position == last or at(table.attr, position) != attr or null[position - first]:
            if at(table.accepts_null, constraint) == 0:
                return False
            continue
        value, inside = key[position - first], False
        for interval in range(at(table.interval_start, constraint), at(table.interval_start, constraint + 1)):
            if at(table.lo, interval) <= value <= at(table.hi, interval):
                inside = True
                break
        if not inside:
            return False
    return True
