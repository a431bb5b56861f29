"""What must a broker tell its neighbours about this subscription: nothing, a part of it, or all?

mics.txt, sections 3.5 to 4.2 and Algorithm 1. Subscriptions are conditions over attributes of any type; a `Space`
(`curves/space.py`) makes of each the ranges of Hilbert's curve through the cells that it touches, and one look-up a
range in the table of what is asked for already (`ranges.py`) says what becomes of the range:

    table        [2 ....... 9]            [15 . 17]          [20]
    new range      [4 . 7]                                             inside    covered or subsumed: nothing to forward
                          [8 .. 11]                                    merged    joins [2, 9]: forward [8, 11]
                                   [12]                                apart     forward [12, 12]
                                           [15 ....... 21]             merged    swallows two: forward [15, 21]
    gap 2                                                              what lies between 17 and 20 is forwarded with
                                                                       the range that closed it

    verdict of a subscription    subsumed (all of its ranges inside)    partly    needed (none inside)

**Exact at the grain of cells.** A cell is asked for as soon as one subscription touches it, and what is forwarded are
cells; so a subscription that is found subsumed misses nothing, and the neighbour sends at most what the cells hold too
much. Whether the *conditions* are subsumed is another question, which `exact=True` asks (`exact.py`).

**Unsubscribing** reports what nobody asks for any more. What others still ask for was never withdrawn, since the table
counts: so nothing has to be forwarded again, and there is no passive list to go through.

Invariant (`check`): the table is the one that the members alone would make, in whatever order they came.
Complexity: conversion O(surface of the boxes), at most some MOST_RANGES ranges a clause; then O(log n) a range, and the
ranges it swallows.

Where we differ from the paper: unsubscription, which it leaves open; conditions with OR, several intervals and NULL (a
subscription's ranges are those of the boxes around its clauses); a bound on the ranges of a clause; step 3 of Algorithm
1 as the text of 4.2 has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from earmark.cover.canonical import check_continues, continues
from earmark.cover.exact import WORK, Decision, Verdict, decide
from earmark.cover.mics import Related
from earmark.cover.ranges import APART, INSIDE, MERGED, NO_NUMBERS, Ranges, RangeTable, as_ranges
from earmark.curves import hilbert
from earmark.curves.space import (
    Space,
    bounds_on,
    boxes_of_clauses,
    equal_cuts,
    ranges_of_boxes,
    space_of,
    variable_cuts,
)
from earmark.errors import EarmarkError, require
from earmark.flat.types import I32, I64
from earmark.segment.arrays import SegmentArrays
from earmark.segment.rows import gather, spread

AXES, BITS = 3, 8
"""A space that is learned has so many axes of 2^8 cells, unless said otherwise: the paper's grid."""
MOST_RANGES = 1 << 10
"""A clause that would have more ranges is made of larger cells."""
AT_ONCE = 1 << 12
NO_RANGES = Ranges(NO_NUMBERS, NO_NUMBERS)


class Told(NamedTuple):
    """What a change asks of the neighbours, as operations on the set of what is wanted here (`RangeSet`)."""

    verdict: Verdict
    forward: Ranges = NO_RANGES
    """Add these to the set."""
    withdraw: Ranges = NO_RANGES
    """Take these out of it."""
    inside: int = 0
    """Ranges of the subscription that the table claimed already, or since an earlier one of them closed a gap."""
    merged: int = 0
    """Ranges that joined some of the table's."""
    apart: int = 0
    """Ranges that stand alone."""


class Batch(NamedTuple):
    """The ranges of many subscriptions: those of subscription s are at start[s] .. start[s + 1]."""

    start: I64
    first: I64
    last: I64

    def of(self, s: int) -> Ranges:
        """The ranges of one."""
        return Ranges(self.first[self.start[s] : self.start[s + 1]], self.last[self.start[s] : self.start[s + 1]])


def learned_space(
    table: SegmentArrays,
    axes: int = AXES,
    bits: int = BITS,
    keys: dict[int, I64] | None = None,
    slots: I32 | None = None,
) -> Space:
    """A space for these slots of a table, all unless said otherwise: the attributes that tell most of them apart.

    An attribute is worth what its constraints leave out, measured by rank among all of their ends. Cells are of equal
    width; on attributes for which `keys` has the keys of past events, they hold equally many of those (section 6.3).
    """
    if slots is not None:
        table = gather(table, np.asarray(slots, np.int64))
    used = np.unique(table.attr)
    if not len(used):
        raise EarmarkError(
            "no subscription that an event can match asks about an attribute: there is no space to learn"
        )
    worth = np.array([_left_out(table, int(attr)) for attr in used])
    chosen = np.sort(used[np.argsort(-worth, kind="stable")[: max(1, axes)]]).astype(np.int32)
    given = keys or {}
    cuts = [
        variable_cuts(given[attr], bits) if attr in given else equal_cuts(bounds_on(table, attr), bits)
        for attr in chosen.tolist()
    ]
    return space_of(chosen, cuts, bits)


def _left_out(table: SegmentArrays, attribute: int) -> float:
    """How much constraints on an attribute leave out, summed: 1 for one that takes next to nothing."""
    ends = bounds_on(table, attribute)
    low, high = np.split(ends, 2)
    line = np.sort(ends)
    inside = np.searchsorted(line, high, "right") - np.searchsorted(line, low, "left")
    share = 1 - inside / max(len(line), 1)
    return float(share.mean() * (table.attr == attribute).sum()) if len(share) else 0.0


def ranges_of_slots(space: Space, table: SegmentArrays, slots: I64 | I32, most: int = MOST_RANGES) -> Batch:
    """Subscriptions as ranges: what a client can do by itself, given the space (section 6.1).

    A clause that would have more than about `most` ranges is made of larger cells: it asks for a little more.
    """
    clause_start, clauses = spread(table.clause_start, np.asarray(slots, np.int64))
    start, first, last = bounded_ranges(space, *boxes_of_clauses(space, table, clauses), most)
    several = np.diff(clause_start)
    if (several == 1).all():
        return Batch(start, first, last)
    made = []
    for a, b in zip(clause_start[:-1].tolist(), clause_start[1:].tolist(), strict=True):
        one = Ranges(first[start[a] : start[b]], last[start[a] : start[b]])
        made.append(one if b - a == 1 else as_ranges(one))
    pointers = np.concatenate([[0], np.cumsum([len(one.first) for one in made])]).astype(np.int64)
    firsts, lasts = (np.concatenate([NO_NUMBERS, *(one[i] for one in made)]) for i in (0, 1))
    return Batch(pointers, firsts, lasts)


def bounded_ranges(space: Space, low: I64, high: I64, most: int) -> tuple[I64, I64, I64]:
    """The ranges of boxes of cells, (start, first, last); boxes with too many are made of larger cells."""
    depth, axes = int(space.bits[0]), space.axes
    some = (low <= high).all(axis=1)
    shift = np.zeros(len(low), np.int64)
    shift[some] = np.minimum(hilbert.coarseness(low[some], high[some], depth, most), depth - 1)
    if not shift.any():
        return ranges_of_boxes(space, low, high)
    counts = np.zeros(len(low), np.int64)
    owner, first, last = ([NO_NUMBERS] for _ in range(3))
    for s in np.unique(shift).tolist():
        mine = np.flatnonzero(some & (shift == s))
        start, begin, end = hilbert.ranges(low[mine] >> s, high[mine] >> s, depth - s)
        counts[mine] = np.diff(start)
        owner.append(np.repeat(mine, counts[mine]))
        first.append(begin << (axes * s))
        last.append((end + 1 << (axes * s)) - 1)
    order = np.argsort(np.concatenate(owner), kind="stable")
    pointers = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return pointers, np.concatenate(first)[order], np.concatenate(last)[order]


def take_in_many(claimed: RangeTable, batch: Batch) -> NDArray[np.bool_]:
    """Take subscriptions in, in order; for each, whether a range of it was not inside the table already."""
    forwarded = np.zeros(len(batch.start) - 1, np.bool_)
    for begin in range(0, len(batch.first), AT_ONCE):  # a table makes room for all ranges of a call at once
        end = min(begin + AT_ONCE, len(batch.first))
        _, fate = claimed.take_in(Ranges(batch.first[begin:end], batch.last[begin:end]))
        outside = begin + np.flatnonzero(fate != INSIDE)
        forwarded[np.searchsorted(batch.start, outside, "right") - 1] = True
    return forwarded


class Subsumption:
    """The subscriptions that a neighbour asks for, by slot of a canonical table, as one table of ranges."""

    def __init__(self, space: Space, gap: int = 0) -> None:
        """`gap`: ranges that are at most so many cells apart on the curve are merged (imperfect merging)."""
        self.space = space
        self.claimed = RangeTable(gap)
        self._ranges: dict[int, Ranges] = {}
        self._related: Related | None = None
        self._table: SegmentArrays | None = None
        self._latest: SegmentArrays | None = None
        self._changed: set[int] = set()

    @classmethod
    def build(cls, table: SegmentArrays, slots: I32 | None = None, space: Space | None = None, gap: int = 0) -> Self:
        """With these slots of a table, all unless said otherwise; without a space, one is learned."""
        chosen = np.arange(len(table.sequence), dtype=np.int32) if slots is None else slots
        made = cls(learned_space(table, slots=slots) if space is None else space, gap)
        made.subscribe_many(table, chosen)
        return made

    def __len__(self) -> int:
        return len(self._ranges)

    def __contains__(self, slot: object) -> bool:
        return slot in self._ranges

    def members(self) -> I32:
        """The members, ascending."""
        return np.array(sorted(self._ranges), np.int32)

    # --- changes ---------------------------------------------------------------------------------------------

    def subscribe(self, table: SegmentArrays, slot: int) -> Told:
        """Take a subscription in: what to forward."""
        self._follow(table)
        return self.subscribe_ranges(slot, ranges_of_slots(self.space, table, np.array([slot])).of(0))

    def subscribe_ranges(self, slot: int, ranges: Ranges) -> Told:
        """The same for a subscription whose ranges a client has computed: in order, disjoint, none touching."""
        if slot in self._ranges:
            raise EarmarkError(f"slot {slot} is already a member.")
        ranges = as_ranges(ranges)
        forward, fate = self.claimed.take_in(ranges)
        self._ranges[slot] = ranges
        self._changed.add(slot)
        counts = np.bincount(fate, minlength=3).tolist()
        return Told(_verdict(counts), forward, NO_RANGES, counts[INSIDE], counts[MERGED], counts[APART])

    def subscribe_many(self, table: SegmentArrays, slots: I32) -> NDArray[np.bool_]:
        """Take many in, one after the other; for each, whether something had to be forwarded."""
        chosen = np.asarray(slots).tolist()
        known = next((slot for slot in chosen if slot in self._ranges), None)
        if known is not None or len(set(chosen)) < len(chosen):
            raise EarmarkError("a slot is given twice." if known is None else f"slot {known} is already a member.")
        self._follow(table)
        batch = ranges_of_slots(self.space, table, slots)
        forwarded = take_in_many(self.claimed, batch)
        for i, slot in enumerate(chosen):
            self._ranges[slot] = batch.of(i)
        self._changed.update(chosen)
        return forwarded

    def _follow(self, table: SegmentArrays) -> None:
        """Take note of the table that subscriptions come from: its keys must be those of the members."""
        if self._ranges and self._latest is not None:
            check_continues(table, self._latest)
        self._latest = table

    def unsubscribe(self, slot: int) -> Told:
        """Forget a member: what to withdraw. Nothing is ever to be forwarded then: what others need never left."""
        return self.unsubscribe_many([slot])

    def unsubscribe_many(self, slots: Iterable[int]) -> Told:
        """Forget members together: what to withdraw, of all of them."""
        chosen = list(slots)
        stranger = next((slot for slot in chosen if slot not in self._ranges), None)
        if stranger is not None or len(set(chosen)) < len(chosen):
            raise EarmarkError("a slot is given twice." if stranger is None else f"slot {stranger} is no member.")
        theirs = [self._ranges.pop(slot) for slot in chosen]
        first, last = (np.concatenate([NO_NUMBERS, *(one[i] for one in theirs)]) for i in (0, 1))
        gone = self.claimed.let_go(Ranges(first, last))
        self._changed.update(chosen)
        return Told(Verdict.NEEDED if gone else Verdict.SUBSUMED, NO_RANGES, gone)

    # --- questions -------------------------------------------------------------------------------------------

    def verdict(
        self,
        table: SegmentArrays,
        slot: int,
        exact: bool = False,
        work: int = WORK,
        domain: tuple[I64, I64] | None = None,
    ) -> Decision:
        """What the members make of a subscription that need not be one. (Of itself, only when it is no member.)

        From cells, with one look-up a range; with `exact`, from the boxes themselves (`exact.decide`), where a member
        is compared with the others. When there are many, an index finds those that matter (`mics.py`); it is kept, and
        follows the members when it is next asked.
        """
        if exact:
            return decide(table, slot, self._following(table).meeting(slot), domain, work)
        batch = ranges_of_slots(self.space, table, np.array([slot]))
        each = np.arange(len(batch.first) + 1, dtype=np.int64)
        inside = int(self.claimed.covered_batch(each, batch.first, batch.last).sum())
        return Decision(_verdict([inside, 0, len(batch.first) - inside]))

    def _following(self, table: SegmentArrays) -> Related:
        """The boxes of the members, in a table that may be another than last time."""
        if self._related is None or self._table is None or not continues(table, self._table):
            self._related = Related(table, self.members())
        else:
            self._related.follow(table, self._changed, self._ranges)
        self._table, self._changed = table, set()
        return self._related

    def subsumed_batch(self, batch: Batch) -> NDArray[np.bool_]:
        """Which subscriptions, given as ranges, are covered or subsumed by the members. O(log n) a range."""
        return self.claimed.covered_batch(*batch)

    def check(self) -> None:
        """Raise AssertionError unless the table is the one that the members alone would make."""
        self.claimed.check()
        afresh = RangeTable(self.claimed.gap)
        for ranges in self._ranges.values():
            afresh.subscribe(ranges)
        require(afresh.ranges().pairs() == self.claimed.ranges().pairs(), "the table is not what its members make")


def _verdict(fates: list[int]) -> Verdict:
    if not fates[MERGED] and not fates[APART]:
        return Verdict.SUBSUMED
    return Verdict.PARTLY if fates[INSIDE] else Verdict.NEEDED
