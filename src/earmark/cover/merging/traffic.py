"""What does a set of conditions let through: events that somebody wants, and events that nobody does?

mics.txt, section 6.2: a condition that stands for several others takes more than they do, and what it takes beyond them
is sent for nothing. How much that is depends on the events, so it is measured on a sample of past ones, which is split:

    |  costing  1/6  |     stopping  1/3     |              held back  1/2               |
     estimates costs   says when to stop       says what the result costs

**Chance.** A count of extra events has a standard deviation of its root, and so has the count among those held back,
against which the result is judged. A budget counts as kept when it is kept by one event more and `DEVIATIONS`
deviations above the count that was seen: then the count among those held back keeps it too, nineteen times in twenty.

Invariant: no event is in two parts; the same seed splits the same way.
"""

from __future__ import annotations

from math import inf, sqrt
from numbers import Real
from typing import NamedTuple

import numpy as np

from earmark.errors import EarmarkError, check_whole
from earmark.events.arrays import EventArrays
from earmark.events.choice import some_events
from earmark.flat import bits
from earmark.flat.arrays import I32, I64, U64, Flags
from earmark.index.scan import Scan
from earmark.segment.arrays import SegmentArrays

COSTING, STOPPING, HELD_BACK = 1 / 6, 1 / 3, 1 / 2
"""Shares of the sample that costs are estimated from, that stop the rounds, and that judge the result."""
ONE_IN_TWENTY = 1.645
"""Standard deviations above its mean that a normal variable exceeds once in twenty times."""
DEVIATIONS = ONE_IN_TWENTY * sqrt(1 + STOPPING / HELD_BACK)
"""Deviations above the count seen for which the budget must hold: the variances of both counts add up."""
GROUP = 2_048
"""Events that are matched at a time."""


class Traffic(NamedTuple):
    """What a set of conditions lets through of some events."""

    events: int
    wanted: int
    """Events that some subscription takes."""
    extra: int
    """Events that only a merged condition takes."""

    @property
    def share(self) -> float:
        """Extra traffic, as a share of what is wanted."""
        return self.extra / self.wanted if self.wanted else 0.0 if not self.extra else inf

    @property
    def false_positives(self) -> float:
        """Of all that is let through, the share that nobody wants: the paper's measure (Table 2)."""
        return self.extra / (self.wanted + self.extra) if self.extra else 0.0


def check_budget(budget: float) -> None:
    """Raise unless the budget is a share of extra traffic."""
    if isinstance(budget, bool) or not isinstance(budget, Real) or not 0 <= budget < inf:
        raise EarmarkError(f"expected a share of extra traffic as budget, such as 0.02 for 2 %, got {budget!r}")


class Takers(NamedTuple):
    """Which of some things (boxes, gaps) take which of some events that nobody wants, in pairs."""

    events: int
    event: I64
    thing: I64 | I32

    def permitted(self, order: I64, spent: int, allowed: float) -> tuple[int, Flags]:
        """How many things, in this order, can be let through, and which events they take.

        The extra events, and those spent before, are within what is allowed, with a margin for chance.
        """
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        first = np.full(self.events, len(order), np.int64)  # by event: the first thing in order that takes it
        np.minimum.at(first, self.event, rank[self.thing])
        extra = spent + np.searchsorted(np.sort(first), np.arange(1, len(order) + 1))
        count = int((extra + 1 + DEVIATIONS * np.sqrt(extra) <= allowed).sum())
        return count, first < count


def split(events: EventArrays, seed: int) -> list[EventArrays]:
    """Events to estimate with, to stop by, and the half that is held back."""
    check_whole(seed, "seed", 0)
    count = len(events.start) - 1
    order = np.random.default_rng(seed).permutation(count)
    first, second = int(count * COSTING), int(count * (COSTING + STOPPING))
    return [some_events(events, np.sort(part)) for part in (order[:first], order[first:second], order[second:])]


def taken(table: SegmentArrays, eligible: U64, events: EventArrays) -> Flags:
    """Which events some eligible slot takes."""
    count, scan = len(events.start) - 1, Scan(table)
    taken = np.zeros(count, np.bool_)
    for first in range(0, count, GROUP):  # a group at a time: only whether there is a match is kept
        places = np.arange(first, min(first + GROUP, count))
        taken[places] = np.diff(scan.match_many(some_events(events, places), eligible)[0]) > 0
    return taken


def taken_by_boxes(boxes: SegmentArrays, events: EventArrays) -> Flags:
    """Which events some box takes."""
    return taken(boxes, bits.all_set(len(boxes.sequence)), events)


def takers(boxes: SegmentArrays, events: EventArrays) -> Takers:
    """Which boxes take which events."""
    pointers, found = Scan(boxes).match_many(events, bits.all_set(len(boxes.sequence)))
    return Takers(len(pointers) - 1, np.repeat(np.arange(len(pointers) - 1), np.diff(pointers)), found)
