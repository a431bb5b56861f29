"""What must a broker forward of this subscription: nothing, a part of it, or all?

mics.txt, sections 3.5 to 4.2 and Algorithm 1. Subscriptions are conditions over attributes of any type; a `Space`
(`curves/space.py`) turns each into the ranges of Hilbert's curve through the cells that it touches, and one look-up per
range in the table of what is asked for already (`table.py`) says what becomes of the range:

    table        [2 ....... 9]            [15 . 17]          [20]
    new range      [4 . 7]                                             inside    covered or subsumed: nothing to forward
                          [8 .. 11]                                    merged    joins [2, 9]: forward [10, 11]
                                   [12]                                apart     forward [12, 12]
                                           [15 ....... 21]             merged    swallows two: forward [18, 19] [21]
    gap 2                                                              what is between 17 and 20 is forwarded with
                                                                       the range that closed it

    verdict of a subscription    subsumed (all of its ranges inside)    partly    needed (none inside)

**Exact at the grain of cells.** A cell is asked for as soon as one subscription touches it, and cells are what is
forwarded; so a subscription that is found subsumed misses nothing, and the neighbour sends at most what is in these
cells besides. Whether the *conditions* are subsumed is another question, which `exact=True` asks (`exact.py`).

**Unsubscribing** withdraws what nobody asks for any more. What others still ask for was never withdrawn, since the
table counts: so nothing has to be forwarded again, and there is no list of passive subscriptions to go through.

Invariant (`check`): the table is the one that the members alone would make, in whatever order they came.
Complexity: conversion O(surface of the boxes), at most about MOST_RANGES ranges per clause; then O(log n) per range,
and the ranges it swallows.

Where we differ from the paper: unsubscription, which it leaves open; conditions with OR, several intervals and NULL (a
subscription's ranges are those of the boxes around its clauses); a bound on the ranges of a clause; step 3 of Algorithm
1 as the text of 4.2 has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np

from earmark.cover.cover_index import CoverIndex
from earmark.cover.exact import WORK, Decision, Verdict
from earmark.cover.indexes.members import Members
from earmark.cover.indexes.mics import Auto
from earmark.cover.ranges.table import APART, INSIDE, MERGED, NO_NUMBERS, Ranges, RangeTable, as_ranges
from earmark.curves.hilbert import MOST_DIMENSIONS
from earmark.curves.space import (
    AXES,
    BITS,
    FEWEST_BITS,
    MOST_BITS,
    Space,
    boxes_of_clauses,
    learned_space,
    ranges_of_boxes,
)
from earmark.errors import SubscriptionError, check_whole, require
from earmark.flat.arrays import I32, I64, Flags, pointers_of
from earmark.index.mics.plan import possible_cuts
from earmark.language.words import counted
from earmark.segment.arrays import SegmentArrays, spread
from earmark.segment.ids import Id, checked_id
from earmark.segment.segment import no_arrays

MOST_RANGES = 1 << 10
"""A clause that would have more ranges is made of larger cells."""
AT_ONCE = 1 << 12
NO_RANGES = Ranges(NO_NUMBERS, NO_NUMBERS)


class RangeChange(NamedTuple):
    """What a change asks of the neighbours, as operations on the set of what is wanted here (`RangeSet`)."""

    verdict: Verdict
    forward: Ranges = NO_RANGES
    """Ranges to add to the set."""
    withdraw: Ranges = NO_RANGES
    """Ranges to take out of it."""
    inside: int = 0
    """Ranges of the subscription that the table claimed already, or since an earlier one of them closed a gap."""
    merged: int = 0
    """Ranges that joined some of the table's."""
    apart: int = 0
    """Ranges that touch no other."""


class RangeBatch(NamedTuple):
    """The ranges of many subscriptions: those of subscription s are at start[s] .. start[s + 1]."""

    start: I64
    first: I64
    last: I64

    def of(self, s: int) -> Ranges:
        """The ranges of one."""
        return Ranges(self.first[self.start[s] : self.start[s + 1]], self.last[self.start[s] : self.start[s + 1]])


def ranges_of_slots(space: Space, table: SegmentArrays, slots: I64 | I32, most: int = MOST_RANGES) -> RangeBatch:
    """Subscriptions as ranges: what a client can do by itself, given the space (section 6.1).

    A clause that would have more than about `most` ranges is made of larger cells: it asks for a little more.
    """
    clause_start, clauses = spread(table.clause_start, np.asarray(slots, np.int64))
    start, first, last = ranges_of_boxes(space, *boxes_of_clauses(space, table, clauses), most)
    batch = RangeBatch(start[clause_start], first, last)
    several = np.diff(clause_start) > 1
    if not several.any():
        return batch
    made = [as_ranges(batch.of(s)) if several[s] else batch.of(s) for s in range(len(slots))]  # they may overlap
    return RangeBatch(pointers_of([len(one.first) for one in made]), *_joined(made))


def _joined(made: list[Ranges]) -> Ranges:
    """Ranges of several subscriptions in one pair of arrays, one after another."""
    return Ranges(*(np.concatenate([NO_NUMBERS, *(one[i] for one in made)]) for i in (0, 1)))


def take_in_many(claimed: RangeTable, batch: RangeBatch) -> Flags:
    """Take subscriptions in, in order; for each, whether a range of it was not inside the table already."""
    forwarded = np.zeros(len(batch.start) - 1, np.bool_)
    for begin in range(0, len(batch.first), AT_ONCE):  # a table makes room for all ranges of a call at once
        end = min(begin + AT_ONCE, len(batch.first))
        _, fate = claimed.take_in(Ranges(batch.first[begin:end], batch.last[begin:end]))
        outside = begin + np.flatnonzero(fate != INSIDE)
        forwarded[np.searchsorted(batch.start, outside, "right") - 1] = True
    return forwarded


class Subsumption:
    """The subscriptions that a neighbour asks for, as one table of ranges of curve numbers.

    Subscriptions are known by id. Over an index of slots (`indexes/`) they are known by slot, and a canonical table
    takes the place of a condition.
    """

    def __init__(self, space: Space, gap: int = 0, index: CoverIndex | Members | None = None) -> None:
        """Make one without subscriptions, over an index without members.

        `gap`: ranges that are at most this many cells apart on the curve are merged (imperfect merging).
        """
        self.space, self.claimed = space, RangeTable(gap)
        self.index: Any = Auto(no_arrays()) if index is None else index
        self._ranges: dict[Id, Ranges] = {}

    @classmethod
    def of(cls, source: Any, *, axes: int = AXES, bits: int = BITS, gap: int = 0) -> Self:
        """Take in the subscriptions of a Matcher, or of a batch as `Matcher.add_many` takes it.

        The grid has at most 2^bits cells, cut at the bounds of conditions, on each of the `axes` attributes that tell
        most of them apart. It stays as it is: a later condition that would change the keys it was made for is refused.
        """
        check_whole(axes, "axes", 1, MOST_DIMENSIONS)
        check_whole(bits, "bits", FEWEST_BITS, MOST_BITS)
        index = CoverIndex.of(source)
        index.keep_keys = True
        table = index.table
        cuts = {attr: possible_cuts(table, attr) for attr in np.unique(table.attr).tolist()}
        made = cls(learned_space(table, axes, bits, cuts), gap, index)
        made._claim(list(index))
        return made

    @classmethod
    def build(cls, table: SegmentArrays, slots: I32 | None = None, space: Space | None = None, gap: int = 0) -> Self:
        """Take in these slots of a canonical table, by default all; without a space, one is learned."""
        made = cls(learned_space(table, slots=slots) if space is None else space, gap)
        made.subscribe_many(table, np.arange(len(table.sequence), dtype=np.int32) if slots is None else slots)
        return made

    def __len__(self) -> int:
        """How many subscriptions there are."""
        return len(self._ranges)

    def __contains__(self, id: object) -> bool:
        return id in self._ranges

    def __iter__(self) -> Iterator[Id]:
        """The ids, in the order in which they were subscribed."""
        return iter(self._ranges)

    def __repr__(self) -> str:
        ranges, axes = counted(len(self.claimed), "range"), counted(self.space.axes, "attribute")
        return f"<Subsumption: {counted(len(self), 'subscription')}, {ranges} on {axes}>"

    # --- changes ---------------------------------------------------------------------------------------------

    def subscribe(self, id: Id, condition: Any) -> RangeChange:
        """Add a subscription; returns the ranges to forward, none where it is covered or subsumed."""
        id = checked_id(id)
        self.index.add(id, condition)
        return self.subscribe_ranges(id, self._converted([id]).of(0))

    def subscribe_ranges(self, id: Id, ranges: Ranges) -> RangeChange:
        """Add a subscription whose ranges a client has computed: in order, disjoint, none touching."""
        id, ranges = checked_id(id), as_ranges(ranges)
        if id in self._ranges:
            raise SubscriptionError(f"{id!r} is already subscribed")
        forward, fate = self.claimed.take_in(ranges)
        self._ranges[id] = ranges
        counts = np.bincount(fate, minlength=3).tolist()
        return RangeChange(_verdict(counts), forward, NO_RANGES, counts[INSIDE], counts[MERGED], counts[APART])

    def subscribe_many(self, table: SegmentArrays, slots: I32) -> Flags:
        """Add slots of a canonical table, one after the other; for each, whether something had to be forwarded."""
        self.index.insert(table, slots)
        return self._claim(np.asarray(slots).tolist())

    def _claim(self, ids: list[Any]) -> Flags:
        """Take members of the index into the table of ranges; for each, whether something had to be forwarded."""
        batch = self._converted(ids)
        self._ranges.update((id, batch.of(i)) for i, id in enumerate(ids))
        return take_in_many(self.claimed, batch)

    def _converted(self, ids: list[Any]) -> RangeBatch:
        """The ranges of subscriptions of the index's table."""
        return ranges_of_slots(self.space, self.index.table, np.array([self.index.slot(id) for id in ids], np.int64))

    def unsubscribe(self, id: Id) -> RangeChange:
        """Remove a subscription; returns the ranges to withdraw. Nothing has to be forwarded again: see above."""
        return self.unsubscribe_many([id])

    def unsubscribe_many(self, ids: Iterable[Id]) -> RangeChange:
        """Remove several subscriptions; returns the ranges to withdraw, of all of them."""
        chosen = [checked_id(id) for id in ids]
        stranger = next((id for id in chosen if id not in self._ranges), None)
        if stranger is not None or len(set(chosen)) < len(chosen):
            raise SubscriptionError("an id is given twice" if stranger is None else f"{stranger!r} is not subscribed")
        for id in chosen:
            if id in self.index:  # else a client has computed its ranges
                self.index.remove(id)
        gone = self.claimed.release(_joined([self._ranges.pop(id) for id in chosen]))
        return RangeChange(Verdict.NEEDED if gone else Verdict.SUBSUMED, NO_RANGES, gone)

    # --- questions -------------------------------------------------------------------------------------------

    def verdict(self, id: Id, condition: Any = None, *, exact: bool = False, work: int = WORK) -> Decision:
        """Decide what the subscriptions make of another one, given by a new id and a condition, or of one of them.

        From cells, with one look-up per range: covered or subsumed, partly, or needed; one of the subscriptions itself
        is always inside. With `exact`, from the conditions: a subscription is compared with the others, and `work`
        bounds the search (`earmark.cover.subsumed`).
        """
        if condition is not None and isinstance(self.index, CoverIndex):
            self.index.add(id, condition)
            try:
                return self.verdict(id, exact=exact, work=work)
            finally:
                self.index.remove(id)
        if condition is not None:
            self.index.insert(condition, [])  # the table may have grown
        if exact:
            found: Decision = self.index.verdict(id, work)
            return found
        batch = self._converted([id])
        each = np.arange(len(batch.first) + 1, dtype=np.int64)
        inside = int(self.claimed.covered_batch(each, batch.first, batch.last).sum())
        return Decision(_verdict([inside, 0, len(batch.first) - inside]))

    def check(self) -> None:
        """Raise AssertionError unless the table is the one that the members alone would make."""
        self.claimed.check()
        again = RangeTable(self.claimed.gap)
        for ranges in self._ranges.values():
            again.subscribe(ranges)
        require(again.ranges().pairs() == self.claimed.ranges().pairs(), "the table is not what its members make")


def _verdict(fates: list[int]) -> Verdict:
    if not fates[MERGED] and not fates[APART]:
        return Verdict.SUBSUMED
    return Verdict.PARTLY if fates[INSIDE] else Verdict.NEEDED
