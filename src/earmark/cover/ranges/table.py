"""What these subscriptions ask for together: a dynamic table of disjoint ranges, with counts of who asks for what.

mics.txt, sections 3.5 to 4.3. A subscription is a set of ranges of curve numbers; the table holds their union as
disjoint ranges, so one look-up decides whether a new range is covered or subsumed (inside one range of the table), or
must be forwarded and merged (Algorithm 1); and whether a publication matches anyone (Algorithm 2).

    subscribed   [2, 5]  [4, 9]  [15, 17]  [20, 20]            table, gap 0   [2, 9]  [15, 17]  [20, 20]
    merged       key = first, value = last                     table, gap 2   [2, 9]  [15, 20]
    edges        2:+1 4:+1 6:-1 10:-1 15:+1 18:-1 20:+1 21:-1  the sum up to a number = who asks for it

**Merging.** Ranges that touch or overlap merge perfectly. With a gap, ranges that are at most that many numbers apart
merge too; the table then claims the gap, so the gap is forwarded by the range that closed it. (If it were not, a
later subscription inside the gap would look covered, and its publications would never come.)

**Unsubscribing**, which the paper leaves open: `edges` counts who asks for each number, in two entries a range. What
nobody asks for any more is taken out of the table and reported; what others still ask for stays. Hence the table is
always the one that the remaining subscriptions alone would make, in whatever order they came.

**What is forwarded** is exactly what the table claims from now on and did not before; what is withdrawn, exactly what
it claimed and no longer does. So a number is forwarded once before it is withdrawn, and a receiver is right whether it
keeps a set (`RangeSet`) or counts (`RangeTable`).

**Several neighbours.** A broker keeps a `RangeSet` per incoming link, what that neighbour asks for, and a `RangeTable`
per outgoing link, which counts how many of the *other* links ask for each number. What a message changes in the set is
what `add` and `discard` return, and only that goes into the tables of the other links (`askers.py` has the same for
all outgoing links at once):

    link 1 asks for [10, 20]   its set changes by [10, 20]     told on link 3: [10, 20]
    link 2 asks for [15, 30]   its set changes by [15, 30]     told on link 3: [21, 30], since 15 to 20 was told
    link 1 asks no longer      its set changes by [10, 20]     withdrawn on link 3: [10, 14]; link 2 needs 15 to 20

Invariant (`check`): merged = the numbers with a positive count, runs at most `gap` apart joined; no count is negative.
Complexity, for a table of n ranges: a look-up O(log n); taking a range in O(log n), and as much for each range that it
swallows; unsubscribing one O(log n), and as much for each hole that it leaves; it also walks the edges inside it.

Where we differ from the paper: counts; step 3 of Algorithm 1 follows the text of 4.2; the paper forwards the whole of
a range that is not inside, we the numbers of it that are new.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from earmark.cover.ranges import ordered
from earmark.cover.ranges.ordered import (
    NONE,
    Ordered,
    add,
    delete,
    floor_cursor,
    next_cursor,
    put,
    set_value,
    sum_until,
)
from earmark.errors import EarmarkError, check_whole, require
from earmark.flat.arrays import I64, Flags
from earmark.jit import embedded, kernel
from earmark.language.words import counted

GREATEST = 2**63 - 2
"""The last number that a range may hold: one more must be a number too."""
MOST_GAP = 2**62
A_RANGE = f"expected ranges as pairs of integers from 0 to {GREATEST}, the first not above the last"


INSIDE, MERGED, APART = 0, 1, 2
"""What becomes of a range (Algorithm 1): the table claims all of it already, covered or subsumed; it is forwarded, and
joins ranges of the table that it overlaps, touches or comes near; it is forwarded, and joins none."""

SHOWN = 8
"""Ranges that a repr lists."""
NO_NUMBERS: I64 = np.empty(0, np.int64)


class Ranges(NamedTuple):
    """Disjoint ranges, ascending, both ends included."""

    first: I64
    last: I64

    def pairs(self) -> list[tuple[int, int]]:
        """As a list of (first, last)."""
        return list(zip(self.first.tolist(), self.last.tolist(), strict=True))

    def __bool__(self) -> bool:
        return len(self.first) > 0

    def __repr__(self) -> str:
        pairs = list(map(str, Ranges(self.first[:SHOWN], self.last[:SHOWN]).pairs()))
        return f"Ranges({', '.join([*pairs, '…'] if len(self.first) > SHOWN else pairs)})"


def as_ranges(ranges: Any) -> Ranges:
    """Ranges from a pair of arrays or a sequence of (first, last), in any order; overlapping ones are joined."""
    first, last = ranges if isinstance(ranges, Ranges) else _pairs(ranges)
    first, last = np.ascontiguousarray(first, np.int64), np.ascontiguousarray(last, np.int64)
    if len(first) != len(last) or (first > last).any() or (len(first) and (first.min() < 0 or last.max() > GREATEST)):
        raise EarmarkError(A_RANGE)
    if len(first) > 1 and not (last[:-1] < first[1:] - 1).all():
        order = np.argsort(first, kind="stable")
        first, last = first[order], np.maximum.accumulate(last[order])
        begins = np.concatenate([[True], first[1:] > last[:-1] + 1])
        first, last = first[begins], last[np.concatenate([begins[1:], [True]])]
    return Ranges(first, last)


def _pairs(ranges: Any) -> tuple[I64, I64]:
    """The first and the last numbers of a sequence of pairs."""
    try:
        pairs = np.array(list(ranges))
    except (TypeError, ValueError, OverflowError):
        raise EarmarkError(A_RANGE) from None
    if not pairs.size:
        return NO_NUMBERS, NO_NUMBERS
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu" or int(pairs.max()) > GREATEST:
        raise EarmarkError(A_RANGE)
    return pairs[:, 0], pairs[:, 1]


class RangeSet:
    """A set of numbers as disjoint ranges: what one neighbour is known to want.

    Safe for one sender: a number is in the set or not, however often it was added. What several ask for is counted by a
    `RangeTable`, which takes what `add` and `discard` of their sets return.
    """

    def __init__(self, ranges: Any = ()) -> None:
        self._merged = ordered.new_ordered(summed=False)
        self.add(ranges)

    def __len__(self) -> int:
        """How many ranges there are."""
        return int(self._merged.info[ordered.ENTRIES])

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {counted(len(self), 'range')}>"

    def ranges(self) -> Ranges:
        """The ranges, ascending."""
        return Ranges(*ordered.entries(self._merged))

    def add(self, ranges: Any) -> Ranges:
        """Add these numbers; returns those that were not in the set."""
        return self.put_in(as_ranges(ranges))

    def put_in(self, ranges: Ranges, gap: int = 0) -> Ranges:
        """`add` for what `as_ranges` has returned; gaps of at most `gap` numbers are closed, and returned as well."""
        self._merged = ordered.with_room(self._merged, len(ranges.first))
        *new, _ = subsume_and_merge(self._merged, *ranges, gap)
        return as_ranges(Ranges(*new)) if gap else Ranges(*new)

    def discard(self, ranges: Any) -> Ranges:
        """Remove these numbers; returns those that were in the set."""
        return self.take_out(as_ranges(ranges))

    def take_out(self, ranges: Ranges) -> Ranges:
        """`discard` for what `as_ranges` has returned."""
        self._merged = ordered.with_room(self._merged, len(ranges.first))
        return Ranges(*subtract(self._merged, *ranges))

    def follow(self, start: I64, ranges: Ranges, wanted: Flags) -> tuple[Ranges, Ranges]:
        """Add and remove numbers in turns: in turn t those of ranges start[t] .. start[t + 1], added where `wanted`.

        Returns the numbers that are in the set now and were not before, and those that were and are not.
        """
        self._merged = ordered.with_room(self._merged, len(ranges.first))
        first, last, sign = add_and_subtract(self._merged, start, *ranges, wanted)
        came = sign > 0
        return balance(Ranges(first[came], last[came]), Ranges(first[~came], last[~came]))

    def retreat(self, wanted: RangeSet, removed: Ranges, gap: int) -> Ranges:
        """Remove what was claimed because of numbers that are wanted no longer; returns what went.

        The set has what was wanted, with gaps of at most `gap` numbers closed: see `put_in`. `removed` ascend.
        """
        self._merged = ordered.with_room(self._merged, len(removed.first))
        return Ranges(*subtract_holes(self._merged, wanted._merged, *removed, gap))

    def outside(self, ranges: Ranges) -> Ranges:
        """The numbers of ascending ranges that are not in the set."""
        return Ranges(*parts_outside(self._merged, *ranges)) if ranges and len(self) else ranges

    def holds(self, numbers: I64) -> Flags:
        """Which of the numbers are in one of the ranges (Algorithm 2). O(log n) each."""
        numbers = np.ascontiguousarray(numbers, np.int64)
        return all_inside(self._merged, np.arange(len(numbers) + 1), numbers, numbers)

    def check(self) -> None:
        """Raise AssertionError unless ranges are disjoint, apart and in order."""
        ordered.check_ordered(self._merged)
        first, last = self.ranges()
        require(bool((first <= last).all()) and bool((last[:-1] + 1 < first[1:]).all()), "ranges overlap or touch")


class RangeTable(RangeSet):
    """What several subscriptions or links ask for together, with counts.

    Ranges that are at most `gap` numbers apart are merged, and the numbers between them claimed.

    Safe for many who ask, as long as each of them takes back what it asked for, once. A link whose messages may repeat
    or overlap needs a `RangeSet` in front of the table, and only what changes in the set is passed on.
    """

    def __init__(self, gap: int = 0) -> None:
        check_whole(gap, "gap", 0, MOST_GAP)
        self._merged = ordered.new_ordered(summed=False)
        self.gap = gap
        self._edges = ordered.new_ordered()

    def subscribe(self, ranges: Any) -> Ranges:
        """Add a subscription; returns the ranges to forward, none where it is covered or subsumed.

        Of a range that is partly inside the table, the rest is forwarded, with the gaps that it closed.
        """
        return self.take_in(as_ranges(ranges))[0]

    def take_in(self, ranges: Ranges) -> tuple[Ranges, I64]:
        """Add ranges that are known to be valid; returns those to forward, and what became of each (INSIDE and so on).

        They are added one by one, so ranges of several subscriptions may overlap.
        """
        first, last = ranges
        self._edges = ordered.with_room(self._edges, 2 * len(first))
        count_ranges(self._edges, first, last, 1)
        self._merged = ordered.with_room(self._merged, len(first))
        *outside, fate = subsume_and_merge(self._merged, first, last, self.gap)
        return as_ranges(Ranges(*outside)), fate

    def unsubscribe(self, ranges: Any) -> Ranges:
        """Remove a subscription; returns the ranges to withdraw: what the table no longer claims.

        The table counts numbers, not subscribers: ranges that were never subscribed are refused only where nobody asks
        for one of their numbers. Otherwise they are taken from what others asked for, who then miss events. So pass
        what was subscribed, once; `Subsumption` knows who asked for what, and refuses the rest.
        """
        asked = as_ranges(ranges)
        if not all_counted(self._edges, *asked):
            raise EarmarkError("these ranges were not subscribed; nobody asks for some of their numbers")
        return self.release(asked)

    def release(self, ranges: Ranges) -> Ranges:
        """Remove ranges that are known to have been added; those of several subscriptions may overlap.

        A hole in what is asked for cuts the table once, so there is room for what is put. What goes are whole ranges of
        the table, each of which held one of these or was put there, and parts of one at both ends of a hole.
        """
        first, last = ranges
        self._edges = ordered.with_room(self._edges, 2 * len(first))
        holes = int(count_ranges(self._edges, first, last, -1))
        self._merged = ordered.with_room(self._merged, holes)
        return as_ranges(Ranges(*recede(self._merged, self._edges, first, last, self.gap, len(first) + 3 * holes)))

    def add(self, ranges: Any) -> Ranges:
        """Raise: who asks would not be counted."""
        raise EarmarkError("a table of subscriptions counts who asks for a number; use subscribe instead of add")

    def discard(self, ranges: Any) -> Ranges:
        """Raise: others may ask for the same numbers."""
        raise EarmarkError("a table of subscriptions counts who asks for a number; use unsubscribe instead of discard")

    def covered(self, ranges: Any) -> bool:
        """Whether the table claims every number of these ranges. O(log n) each."""
        first, last = as_ranges(ranges)
        return bool(self.covered_batch(np.array([0, len(first)], np.int64), first, last)[0])

    def covered_batch(self, start: I64, first: I64, last: I64) -> Flags:
        """`covered` of many sets of ranges: those of set s are at start[s] .. start[s + 1], each set in order."""
        return all_inside(self._merged, start, first, last)

    def asked(self) -> Ranges:
        """The numbers that some subscription asks for: the table without the gaps it claims."""
        keys, deltas = ordered.entries(self._edges)
        return positive(keys, np.cumsum(deltas))

    def check(self) -> None:
        """Raise AssertionError unless the table is what the counts say."""
        super().check()
        ordered.check_ordered(self._edges)
        keys, deltas = ordered.entries(self._edges)
        counts = np.cumsum(deltas)
        right = (deltas != 0) & (counts >= 0)
        require(bool(right.all()), "a count is negative, or an edge changes nothing")
        require(not len(counts) or counts[-1] == 0, "a range never ends")
        expected = joined(positive(keys, counts), self.gap)
        require(self.ranges().pairs() == expected.pairs(), "table and counts disagree")


def balance(added: Ranges, removed: Ranges) -> tuple[Ranges, Ranges]:
    """The numbers that were added more often than removed, and those that were removed more often, each ascending."""
    if not added and not removed:
        return added, removed
    ends = np.concatenate([added.first, removed.last + 1, added.last + 1, removed.first])
    change = np.repeat(np.array([1, -1]), len(ends) // 2)
    order = np.argsort(ends, kind="stable")
    ends, level = ends[order], np.cumsum(change[order])
    is_last = np.append(ends[1:] != ends[:-1], True)  # of those at one number
    ends, level = ends[is_last], level[is_last]
    return positive(ends, level), positive(ends, -level)


def positive(keys: I64, counts: I64) -> Ranges:
    """The runs of numbers with a positive count, given the edges and the counts from each on."""
    if not len(keys):
        return Ranges(NO_NUMBERS, NO_NUMBERS)
    positive = counts > 0
    before = np.concatenate([[False], positive[:-1]])
    return Ranges(keys[positive & ~before], keys[~positive & before] - 1)


def joined(ranges: Ranges, gap: int) -> Ranges:
    """The same ranges, those that are at most `gap` apart joined."""
    if not ranges:
        return ranges
    apart = ranges.first[1:] - ranges.last[:-1] - 1 > gap
    return Ranges(ranges.first[np.concatenate([[True], apart])], ranges.last[np.concatenate([apart, [True]])])


# --- the table of disjoint ranges ----------------------------------------------------------------------------


@kernel
def subsume_and_merge(merged: Ordered, first: I64, last: I64, gap: int) -> tuple[I64, I64, I64]:
    """Algorithm 1: add ranges; returns what the table claims from now on and did not before, (first, last, fate).

    fate[i] says what became of range i: INSIDE, MERGED or APART.
    """
    out_first, out_last, fate = np.empty(len(first) + 8, np.int64), np.empty(len(first) + 8, np.int64), first.copy()
    found = 0
    for i in range(len(first)):
        begin, end = first[i], last[i]
        cursor = floor_cursor(merged, begin)
        reach = merged.value[cursor] if cursor != NONE else int(NONE)
        if reach >= end:
            fate[i] = int(INSIDE)  # covered, or subsumed by several that merged
            continue
        joins = cursor != NONE and begin - reach - 1 <= gap  # the range before it
        fate[i] = int(MERGED) if joins else int(APART)
        new = reach + 1 if joins else begin  # the first number that the table may not have claimed
        total = end
        while True:
            if found + 2 > len(out_first):
                out_first = np.concatenate((out_first, out_first))
                out_last = np.concatenate((out_last, out_last))
            after = next_cursor(merged, cursor)
            if after == NONE or merged.key[after] - total - 1 > gap:
                break
            if new < merged.key[after]:
                out_first[found], out_last[found] = new, merged.key[after] - 1
                found += 1
            new = merged.value[after] + 1
            total = max(total, merged.value[after])
            fate[i] = int(MERGED)
            delete(merged, after)
            cursor = floor_cursor(merged, begin)  # entries move when one goes
        if new <= end:
            out_first[found], out_last[found] = new, end
            found += 1
        if joins:
            set_value(merged, cursor, total)
        else:
            put(merged, begin, total)
    return out_first[:found], out_last[:found], fate


@kernel
def subtract(merged: Ordered, first: I64, last: I64) -> tuple[I64, I64]:
    """Remove numbers from the table; returns the parts that were in it."""
    room = 0
    for i in range(len(first)):
        cursor = floor_cursor(merged, first[i])
        cursor = next_cursor(merged, cursor) if cursor == NONE else cursor
        while cursor != NONE and merged.key[cursor] <= last[i]:
            room += 1
            cursor = next_cursor(merged, cursor)
    out_first, out_last, found = np.empty(room, np.int64), np.empty(room, np.int64), 0
    for i in range(len(first)):
        found = subtract_one(merged, first[i], last[i], found, out_first, out_last)
    return out_first[:found], out_last[:found]


@embedded
def subtract_one(merged: Ordered, begin: int, end: int, found: int, out_first: I64, out_last: I64) -> int:
    """Remove begin..end from the table, and append the parts that went."""
    cursor = floor_cursor(merged, begin)
    if cursor == NONE or merged.value[cursor] < begin:
        cursor = next_cursor(merged, cursor)
    while cursor != NONE:
        low, high = merged.key[cursor], merged.value[cursor]
        if low > end:
            break
        out_first[found], out_last[found] = max(low, begin), min(high, end)
        found += 1
        if low < begin:
            set_value(merged, cursor, begin - 1)
        else:
            delete(merged, cursor)
        if high > end:
            put(merged, end + 1, high)
            break
        cursor = next_cursor(merged, floor_cursor(merged, low))
    return found


@kernel
def subtract_holes(merged: Ordered, wanted: Ordered, first: I64, last: I64, gap: int) -> tuple[I64, I64]:
    """Remove the holes between what is wanted in which these ranges are, but for those of at most `gap` numbers.

    What goes are parts at the ends of a hole, and whole ranges of the table, each of which held one of these.
    """
    out_first, out_last, found = np.empty(3 * len(first), np.int64), np.empty(3 * len(first), np.int64), 0
    end = -1
    for i in range(len(first)):
        if first[i] <= end:
            continue  # in the same hole
        before = floor_cursor(wanted, first[i])
        after = next_cursor(wanted, before)
        begin = 0 if before == NONE else wanted.value[before] + 1
        end = int(GREATEST) if after == NONE else wanted.key[after] - 1
        if before == NONE or after == NONE or end - begin + 1 > gap:
            found = subtract_one(merged, begin, end, found, out_first, out_last)
    return out_first[:found], out_last[:found]


@kernel
def parts_outside(merged: Ordered, first: I64, last: I64) -> tuple[I64, I64]:
    """The parts of ranges that are not in the table."""
    out_first, out_last, found = np.empty(len(first) + 8, np.int64), np.empty(len(first) + 8, np.int64), 0
    for i in range(len(first)):
        begin = first[i]
        cursor = floor_cursor(merged, begin)
        if cursor != NONE:
            begin = max(begin, merged.value[cursor] + 1)
        while begin <= last[i]:
            cursor = next_cursor(merged, cursor)
            end = last[i] if cursor == NONE else min(last[i], merged.key[cursor] - 1)
            if found == len(out_first):
                out_first, out_last = np.concatenate((out_first, out_first)), np.concatenate((out_last, out_last))
            out_first[found], out_last[found] = begin, end
            found += 1
            begin = last[i] + 1 if cursor == NONE else max(end, merged.value[cursor]) + 1
    return out_first[:found], out_last[:found]


@kernel
def add_and_subtract(merged: Ordered, start: I64, first: I64, last: I64, wanted: Flags) -> tuple[I64, I64, I64]:
    """Add ranges in the turns that are `wanted`, and subtract them in the others; what came (+1) and what went (-1).

    Returns (first, last, sign), turn by turn.
    """
    out_first, out_last = np.empty(len(first) + 8, np.int64), np.empty(len(first) + 8, np.int64)
    sign, found = np.empty(len(first) + 8, np.int64), 0
    for turn in range(len(wanted)):
        begins, ends = first[start[turn] : start[turn + 1]], last[start[turn] : start[turn + 1]]
        if wanted[turn]:
            some_first, some_last, _ = subsume_and_merge(merged, begins, ends, 0)
        else:
            some_first, some_last = subtract(merged, begins, ends)
        end = found + len(some_first)
        while end > len(sign):
            out_first = np.concatenate((out_first, out_first))
            out_last = np.concatenate((out_last, out_last))
            sign = np.concatenate((sign, sign))
        out_first[found:end], out_last[found:end] = some_first, some_last
        sign[found:end] = 1 if wanted[turn] else -1
        found = end
    return out_first[:found], out_last[:found], sign[:found]


@kernel
def all_inside(merged: Ordered, start: I64, first: I64, last: I64) -> Flags:
    """Which sets of ranges (set s at start[s] .. start[s + 1]) are inside the table, range by range.

    Algorithm 2, for many publications: a number is a range, and a set of its own.
    """
    out = np.ones(len(start) - 1, np.bool_)
    for s in range(len(out)):
        for i in range(start[s], start[s + 1]):
            cursor = floor_cursor(merged, first[i])
            if cursor == NONE or merged.value[cursor] < last[i]:
                out[s] = False
                break
    return out


# --- who asks for what ---------------------------------------------------------------------------------------


@kernel
def count_ranges(edges: Ordered, first: I64, last: I64, change: int) -> int:
    """Count one more (or one less) who asks for every number of these ranges; returns the most holes this can make.

    A hole begins at an edge: one inside a range, or the last one before it.
    """
    for i in range(2 * len(first)):
        begins = i & 1 == 0
        add(edges, first[i >> 1] if begins else last[i >> 1] + 1, change if begins else -change)
    holes = 0
    for i in range(len(first) if change < 0 else 0):
        holes += 2
        cursor = next_cursor(edges, floor_cursor(edges, first[i] - 1))
        while cursor != NONE and edges.key[cursor] <= last[i]:
            holes += 1
            cursor = next_cursor(edges, cursor)
    return holes


@kernel
def all_counted(edges: Ordered, first: I64, last: I64) -> bool:
    """Whether someone asks for every number of these ranges."""
    for i in range(len(first)):
        cursor = floor_cursor(edges, first[i])
        count = sum_until(edges, cursor)
        while count > 0:
            cursor = next_cursor(edges, cursor)
            if cursor == NONE or edges.key[cursor] > last[i]:
                break
            count += edges.value[cursor]
        if count <= 0:
            return False
    return True


@kernel
def recede(merged: Ordered, edges: Ordered, first: I64, last: I64, gap: int, room: int) -> tuple[I64, I64]:
    """Remove from the table what nobody asks for any more in and around these ranges; returns the parts that went.

    For each range, walks the holes between the runs of numbers that are still asked for, from the last run before it to
    the first after it. A hole of at most `gap` numbers stays claimed.
    """
    out_first, out_last, found = np.empty(room, np.int64), np.empty(room, np.int64), 0
    for i in range(len(first)):
        cursor = floor_cursor(edges, first[i] - 1)
        count = sum_until(edges, cursor)
        hole, after_run = 0, False  # where the present hole begins, and whether a run ends there
        if count == 0 and cursor != NONE:
            hole, after_run = edges.key[cursor], True
        while True:
            cursor = next_cursor(edges, cursor)
            if cursor != NONE and count > 0 and edges.key[cursor] > last[i] + 1:
                break
            before = count
            number = int(GREATEST) + 1
            if cursor != NONE:
                number = edges.key[cursor]
                count += edges.value[cursor]
            if before == 0:
                if cursor == NONE or not after_run or number - hole > gap:
                    found = subtract_one(merged, hole, number - 1, found, out_first, out_last)
                if number > last[i]:
                    break
            elif count == 0:
                hole, after_run = number, True
    return out_first[:found], out_last[:found]
