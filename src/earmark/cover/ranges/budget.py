"""Which gaps between ranges can be closed, if what they let through in vain may be a given share of what is wanted?

mics.txt, sections 3.6 and 6.2: imperfect merging joins ranges that are near each other, and the gap between them is
then asked for too. A gap costs the events that are in it, not its numbers. So a gap is closed when it weighs at most
`budget` times the run of numbers on its left, in events of a sample:

    asked      [2 ... 9]      [15 . 17] [20 ......... 31]                [90 .. 95]
    events       40 %     1 %     2 %  .1 %    30 %           20 %          7 %
    budget 5 %         closed        open                   open                        2 % allow 0.1 %, 30 % allow 1.5 %
    told       [2 ............... 17]   [20 ......... 31]                [90 .. 95]

Every closed gap is paid for by the run before it, and a run pays once, so all closed gaps together weigh at most
`budget` times all that is asked for: whatever is asked for, and without looking at more than the neighbouring runs when
it changes.

**Weights.** A sample is thin: nearly all gaps have no event of it, and each of them would look free, though together
they are not. So events are spread evenly between every STEP-th of them in order (`Weights`): no gap weighs nothing.

Invariant (`check`): what is told is the runs that are asked for and the gaps closed by the rule, and hence does not
depend on the order of changes.
Complexity, n runs: a change O(log n) for each of its ranges, and as much for each run that it meets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.cover.merging.traffic import check_budget
from earmark.cover.ranges.ordered import NONE, Ordered, floor_cursor, next_cursor
from earmark.cover.ranges.table import GREATEST, Ranges, RangeSet, RangeTable, as_ranges
from earmark.errors import require
from earmark.flat.arrays import F64, I64, frozen
from earmark.flat.bisection import bisect_right
from earmark.jit import inlined, kernel

STEP = 32
"""Events of the sample between two knots of the weights."""


class Weights(NamedTuple):
    """The share of events below a number, as a line through knots: below[i] of them are below number[i]."""

    number: I64
    below: F64

    @classmethod
    def of(cls, numbers: I64, last: int) -> Weights:
        """The weights of a sample of events, of a curve that ends with number `last`; without events, all are equal."""
        events = np.sort(np.asarray(numbers, np.int64))
        some = events[STEP - 1 :: STEP]
        knots = np.unique(np.concatenate([[0], some, some + 1, [last + 1]]))  # at both ends: many may be at one number
        ranks = np.searchsorted(events, knots) + knots / (last + 1)  # one event is spread over all numbers
        below = (ranks - ranks[0]) / (ranks[-1] - ranks[0])
        return cls(frozen(knots.astype(np.int64)), frozen(below.astype(np.float64)))

    def weigh(self, ranges: Ranges) -> float:
        """The share of events in these ranges, as the sample has it."""
        return float(sum(weight_of(self, first, last) for first, last in ranges.pairs()))


class BudgetTable:
    """What links ask for together, counted, and what to tell of it: with gaps closed that a budget permits."""

    def __init__(self, budget: float, weights: Weights) -> None:
        check_budget(budget)
        self.budget, self.weights = float(budget), weights
        self._asked = RangeTable()
        self._told = RangeSet()

    def __len__(self) -> int:
        """How many ranges are told."""
        return len(self._told)

    def ranges(self) -> Ranges:
        """What is told, ascending."""
        return self._told.ranges()

    def asked(self) -> Ranges:
        """What is asked for, ascending."""
        return self._asked.ranges()

    def change(self, added: Ranges, removed: Ranges) -> tuple[Ranges, Ranges]:
        """Count ranges that somebody asks for from now on, and some no longer; returns what to tell and to withdraw.

        What is removed must have been added, by this call or before. Ranges of several may overlap.
        """
        changed = [self._asked.take_in(added)[0], self._asked.release(removed)]
        touched = as_ranges(Ranges(*(np.concatenate([one[end] for one in changed]) for end in (0, 1))))
        if not touched:
            return touched, touched
        claimed, rest = closed_around(self._asked._merged, *touched, self.weights, self.budget)
        told = self._told.add(as_ranges(Ranges(*claimed)))
        return told, self._told.discard(as_ranges(Ranges(*rest)))

    def check(self) -> None:
        """Raise AssertionError unless the invariant holds."""
        self._asked.check()
        self._told.check()
        whole = Ranges(np.zeros(1, np.int64), np.array([GREATEST], np.int64))
        claimed, _ = closed_around(self._asked._merged, *whole, self.weights, self.budget)
        require(self.ranges().pairs() == as_ranges(Ranges(*claimed)).pairs(), "what is told is not what is asked for")


# --- kernels -----------------------------------------------------------------------------------------------------


@inlined
def below(weights: Weights, number: int) -> float:
    """The share of events below a number."""
    place = bisect_right(weights.number, 0, len(weights.number) - 1, number) - 1
    low, high = weights.number[place], weights.number[place + 1]
    share = (number - low) / (high - low)
    return float(weights.below[place] + share * (weights.below[place + 1] - weights.below[place]))


@kernel
def weight_of(weights: Weights, first: int, last: int) -> float:
    """The share of events from one number to another."""
    return float(below(weights, last + 1) - below(weights, first))


@kernel
def with_one(array: I64, used: int) -> I64:
    """The array, longer where there is no room for one more."""
    return array if used < len(array) else np.concatenate((array, array))


@kernel
def closed_around(
    runs: Ordered, first: I64, last: I64, weights: Weights, budget: float
) -> tuple[tuple[I64, I64], tuple[I64, I64]]:
    """Where these ranges have changed: what is claimed from the run before each to the run after it, and what is not.

    Whether a gap is closed depends on itself and on the run before it. So from the last run that begins before a range
    to the first that begins beyond it, and no further, gaps may have been opened or closed.
    """
    claimed_first, claimed_last = np.empty(2 * len(first) + 8, np.int64), np.empty(2 * len(first) + 8, np.int64)
    rest_first, rest_last = claimed_first.copy(), claimed_last.copy()
    claims, rests = 0, 0
    for i in range(len(first)):
        cursor = floor_cursor(runs, first[i] - 1)
        if cursor == NONE:
            cursor = next_cursor(runs, cursor)
            end = runs.key[cursor] if cursor != NONE else int(GREATEST) + 1
            if end > 0:
                rest_first, rest_last = with_one(rest_first, rests), with_one(rest_last, rests)
                rest_first[rests], rest_last[rests] = 0, end - 1
                rests += 1
        while cursor != NONE:
            claimed_first, claimed_last = with_one(claimed_first, claims), with_one(claimed_last, claims)
            rest_first, rest_last = with_one(rest_first, rests), with_one(rest_last, rests)
            low, reach = runs.key[cursor], runs.value[cursor]
            claimed_first[claims], claimed_last[claims] = low, reach
            claims += 1
            if low > last[i] + 1:
                break
            cursor = next_cursor(runs, cursor)
            if cursor == NONE:
                rest_first[rests], rest_last[rests] = reach + 1, int(GREATEST)
                rests += 1
                break
            following = runs.key[cursor]
            gap = below(weights, following) - below(weights, reach + 1)
            if gap <= budget * (below(weights, reach + 1) - below(weights, low)):
                claimed_last[claims - 1] = following - 1
            else:
                rest_first[rests], rest_last[rests] = reach + 1, following - 1
                rests += 1
    return (claimed_first[:claims], claimed_last[:claims]), (rest_first[:rests], rest_last[:rests])
