"""Which gaps between ranges can be closed, if what they let through in vain may be a given share of what is wanted?

mics.txt, sections 3.6 and 6.2: imperfect merging joins ranges that are near each other, and the gap between them is
then asked for too. A gap costs the events that are in it, not its numbers. The curve is cut into sections with equally
many events of a sample. In each section gaps are closed, the cheapest first, as long as they weigh at most `budget`
times what is asked for there:

    asked      [2 ... 9]     [15 . 17]  [20 ......... 31]          |          [90 .. 95]
    events       20 %    1 %    2 %  .5 %      8 %          3 %    |             7 %
    budget 5 %                                                     |
    30 % allow 1.5 %    second: 1.5 %  first: 0.5 %    too dear    |
    told       [2 ................................31]              |          [90 .. 95]

A run of numbers and the gap after it belong to the section in which the run begins. So all closed gaps together weigh
at most `budget` times all that is asked for; and a change concerns the sections that it touches, and no other. There
are as many sections, a power of two, as give each about RUNS runs: fewer would take long to decide, and in more the
budget of a section pays for no gap at all.

**Weights.** A sample is thin: nearly all gaps have no event of it, and each of them would look free, though together
they are not. So events are spread evenly between every STEP-th of them in order (`Weights`): no gap weighs nothing.

Invariant (`check`): what is told is the runs that are asked for and the gaps closed by the rule, and hence does not
depend on the order of changes.
Complexity, n runs: a change O(m log² m) for each section that it touches, of m runs, about RUNS on average; O(n log n)
where the number of runs passes RUNS times a power of two.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.cover.merging.traffic import check_budget
from earmark.cover.ranges.ordered import NONE, Ordered, floor_cursor, next_cursor
from earmark.cover.ranges.table import GREATEST, Ranges, RangeSet, as_ranges
from earmark.errors import require
from earmark.flat.arrays import F64, I64, Flags, frozen
from earmark.flat.bisection import bisect_right
from earmark.jit import embedded, inlined, kernel

STEP = 32
"""Events of the sample between two knots of the weights."""
RUNS = 64
"""Runs of a section, on average, up to MOST_SECTIONS."""
SECTION_BITS = 10
MOST_SECTIONS = 1 << SECTION_BITS


class Weights(NamedTuple):
    """The share of events below a number, as a line through knots: below[i] of them are below number[i]."""

    number: I64
    below: F64
    slope: F64
    """How many more there are with each number, from a knot on."""
    section: I64
    """Where the smallest sections begin, the first with 0; 2^level of them make one."""

    @classmethod
    def of(cls, numbers: I64, last: int) -> Weights:
        """The weights of a sample of events, of a curve that ends with number `last`; without events, all are equal."""
        events = np.sort(np.asarray(numbers, np.int64))
        some = events[STEP - 1 :: STEP]
        knots = np.unique(np.concatenate([[0], some, some + 1, [last + 1]]))  # at both ends: many may be at one number
        ranks = np.searchsorted(events, knots) + knots / (last + 1)  # one event is spread over all numbers
        below = (ranks - ranks[0]) / (ranks[-1] - ranks[0])
        slope = np.diff(below) / np.diff(knots)
        sections = np.unique(np.interp(np.arange(MOST_SECTIONS) / MOST_SECTIONS, below, knots).astype(np.int64))
        return cls(*map(frozen, (knots.astype(np.int64), below.astype(np.float64), slope, sections)))

    def weigh(self, ranges: Ranges) -> float:
        """The share of events in these ranges, as the sample has it."""
        return float(sum(weight_of(self, first, last) for first, last in ranges.pairs()))


WHOLE = Ranges(np.zeros(1, np.int64), np.array([GREATEST], np.int64))


class BudgetTable:
    """A set of numbers that are wanted, and what to tell of it: with gaps closed that a budget permits."""

    def __init__(self, budget: float, weights: Weights) -> None:
        check_budget(budget)
        self.budget, self.weights = float(budget), weights
        self._asked = RangeSet()
        self._told = RangeSet()
        self._level = SECTION_BITS

    def __len__(self) -> int:
        """How many ranges are told."""
        return len(self._told)

    def ranges(self, wanted: Ranges | None = None) -> Ranges:
        """What is told, ascending; it is kept, so that it need not be made from what is wanted."""
        return self._told.ranges()

    def asked(self) -> Ranges:
        """What is asked for, ascending."""
        return self._asked.ranges()

    def change(self, added: Ranges, removed: Ranges) -> tuple[Ranges, Ranges]:
        """Follow what is wanted from now on, and what is not any more; returns what to tell and to withdraw."""
        changed = [self._asked.put_in(added), self._asked.take_out(removed)]
        touched = as_ranges(Ranges(*(np.concatenate([one[end] for one in changed]) for end in (0, 1))))
        if not touched:
            return touched, touched
        if self._level != (level := self._wanted_level()):
            self._level, touched = level, WHOLE
        claimed, rest = self._closed(touched, self._told)
        told = self._told.add(as_ranges(Ranges(*claimed)))
        return told, self._told.discard(as_ranges(Ranges(*rest)))

    def _closed(self, touched: Ranges, told: RangeSet) -> tuple[tuple[I64, I64], tuple[I64, I64]]:
        """What is claimed around changes and is not told, and what is not claimed and may be told."""
        first, last = touched
        return closed_around(self._asked._merged, told._merged, first, last, self.weights, self.budget, self._level)

    def _wanted_level(self) -> int:
        """The logarithm of how many smallest sections make one."""
        return max(0, SECTION_BITS - (len(self._asked) // RUNS).bit_length())

    def check(self) -> None:
        """Raise AssertionError unless the invariant holds."""
        self._asked.check()
        self._told.check()
        require(self._level == self._wanted_level() or not len(self._asked), "sections do not fit the number of runs")
        claimed, _ = self._closed(WHOLE, RangeSet())
        require(self.ranges().pairs() == as_ranges(Ranges(*claimed)).pairs(), "what is told is not what is asked for")


# --- kernels -----------------------------------------------------------------------------------------------------


@inlined
def knot_of(weights: Weights, number: int) -> int:
    """The last knot that is not above a number, and not the last of all."""
    return int(bisect_right(weights.number, 0, len(weights.number) - 1, number)) - 1


@inlined
def knot_from(weights: Weights, knot: int, number: int) -> int:
    """The same, from a knot that is not above the number on."""
    while knot + 2 < len(weights.number) and weights.number[knot + 1] <= number:
        knot += 1
    return knot


@inlined
def below(weights: Weights, knot: int, number: int) -> float:
    """The share of events below a number, given its knot."""
    return float(weights.below[knot] + (number - weights.number[knot]) * weights.slope[knot])


@kernel
def weight_of(weights: Weights, first: int, last: int) -> float:
    """The share of events from one number to another."""
    return below(weights, knot_of(weights, last + 1), last + 1) - below(weights, knot_of(weights, first), first)


@embedded
def floor_from(ranges: Ordered, cursor: int, number: int) -> int:
    """The last range that begins at a number or before it, sought from an earlier one on; NONE where there is none."""
    after = next_cursor(ranges, cursor)
    while after != NONE and ranges.key[after] <= number:
        cursor, after = after, next_cursor(ranges, after)
    return cursor


@inlined
def section_of(weights: Weights, number: int, level: int) -> int:
    """The section of a number."""
    return (int(bisect_right(weights.section, 0, len(weights.section), number)) - 1) >> level


@kernel
def closed_around(
    runs: Ordered, told: Ordered, first: I64, last: I64, weights: Weights, budget: float, level: int
) -> tuple[tuple[I64, I64], tuple[I64, I64]]:
    """In the sections of these ranges and of the run before each: what is claimed, and what is not.

    Left out is what is claimed and told already, and what is neither.
    """
    claimed_first, claimed_last = np.empty(2 * len(first) + 8, np.int64), np.empty(2 * len(first) + 8, np.int64)
    rest_first, rest_last = claimed_first.copy(), claimed_last.copy()
    claims, rests, done = 0, 0, -1
    for i in range(len(first)):
        cursor = floor_cursor(runs, first[i] - 1)
        begins = runs.key[cursor] if cursor != NONE else 0
        section, until = max(section_of(weights, begins, level), done + 1), section_of(weights, last[i] + 1, level)
        if section > until:
            continue
        done = until
        cursor = next_cursor(runs, floor_cursor(runs, weights.section[section << level] - 1))
        if section == 0:  # nothing is claimed before the first run
            end = runs.key[cursor] if cursor != NONE else int(GREATEST) + 1
            if end > 0:  # the first of the rests, for which there is room
                rest_first[rests], rest_last[rests] = 0, end - 1
                rests += 1
        while cursor != NONE:
            here = section_of(weights, runs.key[cursor], level)
            if here > until:
                break
            begun, behind = claims, (here + 1) << level
            end = weights.section[behind] if behind < len(weights.section) else int(GREATEST) + 1
            while cursor != NONE and runs.key[cursor] < end:
                if claims == len(claimed_first):
                    claimed_first = np.concatenate((claimed_first, claimed_first))
                    claimed_last = np.concatenate((claimed_last, claimed_last))
                claimed_first[claims], claimed_last[claims] = runs.key[cursor], runs.value[cursor]
                claims += 1
                cursor = next_cursor(runs, cursor)
            following = runs.key[cursor] if cursor != NONE else int(GREATEST) + 1
            is_open = close_cheapest(claimed_first, claimed_last, begun, claims, following, weights, budget)
            kept, known = begun, floor_cursor(told, claimed_first[begun])
            for j in range(begun, claims):
                known = floor_from(told, known, claimed_first[j])
                is_told = known != NONE and told.value[known] >= claimed_last[j]
                if is_open[j - begun]:
                    begins, ends = claimed_last[j] + 1, (claimed_first[j + 1] if j + 1 < claims else following) - 1
                    known = floor_from(told, known, ends)
                    if known != NONE and told.value[known] >= begins:
                        if rests == len(rest_first):
                            rest_first = np.concatenate((rest_first, rest_first))
                            rest_last = np.concatenate((rest_last, rest_last))
                        rest_first[rests], rest_last[rests] = begins, ends
                        rests += 1
                if not is_told:
                    claimed_first[kept], claimed_last[kept] = claimed_first[j], claimed_last[j]
                    kept += 1
            claims = kept
    return (claimed_first[:claims], claimed_last[:claims]), (rest_first[:rests], rest_last[:rests])


@kernel
def close_cheapest(
    first: I64, last: I64, begun: int, end: int, following: int, weights: Weights, budget: float
) -> Flags:
    """Lengthen runs begun..end over the gaps after them, the cheapest first, as far as they pay for it.

    Returns which gaps are left open.
    """
    count, pool = end - begun, 0.0
    gap, order, is_open = np.empty(count, np.float64), np.arange(count), np.ones(count, np.bool_)
    knot = knot_of(weights, first[begun])
    before = below(weights, knot, first[begun])
    for j in range(count):
        number = last[begun + j] + 1
        knot = knot_from(weights, knot, number)
        behind = below(weights, knot, number)
        pool += behind - before
        number = first[begun + j + 1] if j + 1 < count else following
        gap[j] = np.inf
        if number <= GREATEST:
            knot = knot_from(weights, knot, number)
            before = below(weights, knot, number)
            gap[j] = before - behind
    for place in range(count // 2 - 1, -1, -1):
        sink(order, count, place, gap)
    left, allowed = count, budget * pool
    while left and gap[order[0]] <= allowed:  # the cheapest of those that are left
        j = order[0]
        allowed -= gap[j]
        is_open[j] = False
        last[begun + j] = (first[begun + j + 1] if j + 1 < count else following) - 1
        left -= 1
        order[0] = order[left]
        sink(order, left, 0, gap)
    return is_open


@inlined
def sink(heap: I64, count: int, place: int, cost: F64) -> None:
    """Move an entry down in a heap, to where none below it is cheaper; of equal ones the first is the cheaper."""
    entry = heap[place]
    while 2 * place + 1 < count:
        child = 2 * place + 1
        if child + 1 < count and is_cheaper(heap[child + 1], heap[child], cost):
            child += 1
        if not is_cheaper(heap[child], entry, cost):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = entry


@inlined
def is_cheaper(one: int, other: int, cost: F64) -> bool:
    """Whether one gap comes before another."""
    return bool(cost[one] < cost[other] or (cost[one] == cost[other] and one < other))
