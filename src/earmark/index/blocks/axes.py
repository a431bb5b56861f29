"""How the keys of constraints and events become codes of 16 bits that a vector instruction compares.

An *axis* is an attribute, with NULL accepted or not: these are two axes, as an event without the attribute passes one
and fails the other. Each axis has two sorted lists of *cuts*, the lower ends and the upper ends that occur on it:

    a BETWEEN 3 AND 9,  a = 5,  a BETWEEN 3 AND 6         lower cuts 3 5        upper cuts 5 6 9

    a constraint [lo, hi]     column 0: how many lower cuts are > lo         column 1: how many upper cuts are < hi
    an event     [lo, hi]     column 0: how many lower cuts are > its hi     column 1: how many upper cuts are < its lo

**Invariant.** A constraint meets an event on an axis iff it is at least the event in both columns, whatever the event's
keys are: lo <= x iff no fewer lower cuts are above lo than above x, given that lo is a cut. Where an axis has more ends
than codes (MOST_CUTS), cuts are a sample; then a constraint that meets the event is still at least it, one that is
greater in both columns meets it for sure, and one that is equal in a column is looked at again.

Special codes, in order:

    PADDING   no constraint here at all; below everything
    ANY       what is asked of an axis that accepts NULL when the event has no value: all pass, as does ...
              ... a constraint without an interval (IS NULL), whose own code this is
    LOWEST … HIGHEST     codes of keys
    ALWAYS    asked of an axis that needs a value when the event has none: no key passes. A clause that does not
              constrain an axis of its group has this code there: it passes always

Complexity: an event value O(log cuts) a column.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat.arrays import F64, I32, I64, U8, U64
from earmark.flat.machine import at
from earmark.index.blocks.arrays import ALWAYS, ANY, LOWEST, PAIR, BlockArrays
from earmark.index.blocks.dominance import I16
from earmark.jit import embedded
from earmark.segment.arrays import SegmentArrays
from earmark.threads import cores, in_parallel

MOST_CUTS = 65_000
"""Codes cannot tell more ends than this on one side of an axis apart."""
SAMPLED_CUTS = 8_191
"""How many cuts an axis has then."""
MOST_AXES = 65_535
"""Only constraints on this many of the most used attributes have a code; other clauses are verified."""
MANY = 1 << 16
"""Constraints whose codes are worth several threads."""
NO_AXIS = -1
UNASKED = -32768
"""In place of the code of a value that has not been asked for yet: a search in the cuts is worth saving."""
MIX = 0x9E3779B97F4A7C15


class Axes(NamedTuple):
    """The axes of a table, ascending by (attribute, accepts NULL), and the codes of its constraints."""

    attr: I32
    optional: U8
    exact: U8
    frequency: I64
    cut_start: I64
    cuts: I64
    of_constraint: I32
    """The axis of each constraint, or NO_AXIS."""
    lower: I16
    upper: I16


def learned(table: SegmentArrays) -> Axes:
    """Axes for the most used attributes, their cuts, and the codes of all constraints on them."""
    keys = 2 * table.attr.astype(np.int64) + table.accepts_null
    frequency = np.bincount(keys)
    used = np.flatnonzero(frequency)
    if len(used) > MOST_AXES:
        used = np.sort(used[np.argsort(-frequency[used], kind="stable")[:MOST_AXES]])
    axis_of = np.full(len(frequency) + 1, NO_AXIS, np.int32)
    axis_of[used] = np.arange(len(used))
    of_constraint = axis_of[keys]
    lower, upper = np.full(len(keys), ANY, np.int16), np.full(len(keys), ANY, np.int16)
    order = np.argsort(of_constraint.astype(np.uint16), kind="stable")  # NO_AXIS comes last
    end = np.cumsum(frequency[used])

    def code(axis: int) -> tuple[I64, I64, bool]:
        """Fill in the codes of an axis; its cuts, and whether they are exact."""
        own = order[end[axis] - frequency[used[axis]] : end[axis]]
        own = own[table.interval_start[own] < table.interval_start[own + 1]]
        lo, hi = table.lo[table.interval_start[own]], table.hi[table.interval_start[own + 1] - 1]
        low_cuts, low_exact = _cuts(lo)
        high_cuts, high_exact = _cuts(hi)
        lower[own] = LOWEST + len(low_cuts) - np.searchsorted(low_cuts, lo, "right")
        upper[own] = LOWEST + np.searchsorted(high_cuts, hi, "left")
        return low_cuts, high_cuts, low_exact and high_exact

    coded = in_parallel(code, range(len(used)), cores() if len(keys) >= MANY else 1)
    exact = np.array([is_exact for *_, is_exact in coded], np.uint8)
    cuts = [side for low_cuts, high_cuts, _ in coded for side in (low_cuts, high_cuts)]
    start = np.cumsum([0, *map(len, cuts)])
    joined = np.concatenate([np.empty(0, np.int64), *cuts])
    attr, optional = (used >> 1).astype(np.int32), (used & 1).astype(np.uint8)
    return Axes(attr, optional, exact, frequency[used], start, joined, of_constraint, lower, upper)


def _cuts(keys: I64) -> tuple[I64, bool]:
    """The keys that occur, or a sample of them where they are too many; whether they are all."""
    ordered = np.sort(keys)
    cuts = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    if len(cuts) <= MOST_CUTS:
        return cuts, True
    return np.unique(ordered[np.linspace(0, len(ordered) - 1, SAMPLED_CUTS).astype(np.int64)]), False


def signature_bits(axes: int) -> U64:
    """A bit out of 64 for each axis."""
    numbers = np.arange(axes, dtype=np.uint64)
    return np.uint64(1) << ((numbers * np.uint64(MIX)) >> np.uint64(58))


# --- the query's side ----------------------------------------------------------------------------------------------


class EventQuery(NamedTuple):
    """Room for one event: its codes and weights by axis, its point in the group at hand, the axes that it has.

    Invariant: between events every axis is as without a value: ALWAYS, or ANY where NULL is accepted.
    """

    code: I16
    weight: F64
    point: I16
    present: I32
    required: I32
    position: I64
    """Where the event's value on an axis is in the batch."""
    ranges: I32
    """Where the loose entries are that must be looked at: begin, end, begin, end …"""


def new_query(index: BlockArrays) -> EventQuery:
    """Room for the events of a batch."""
    axes = len(index.axis_attr)
    code = np.repeat(np.where(index.axis_optional, ANY, ALWAYS).astype(np.int16), 2)
    widest = int(np.diff(index.tree_axis_start).max(initial=0))
    ranges = np.empty(2 * (len(index.pairs) // PAIR), np.int32)
    point, present, required = np.empty(2 * widest, np.int16), np.empty(axes, np.int32), np.empty(axes, np.int32)
    return EventQuery(code, np.zeros(axes), point, present, required, np.empty(axes, np.int64), ranges)


@embedded
def count_cuts(cuts: I64, begin: int, end: int, key: int, or_equal: bool) -> int:
    """How many of cuts[begin:end], which ascend, are less than the key, `or_equal` to it."""
    first, size = begin, end - begin
    while size > 0:
        half = (size + 1) >> 1
        cut = at(cuts, begin + half - 1)
        begin += half if (cut < key) | (or_equal & (cut == key)) else 0
        size -= half
    return begin - first


@embedded
def ask(index: BlockArrays, events: EventArrays, e: int, query: EventQuery) -> tuple[int, int, np.uint64]:
    """Take in an event: how many axes it has, how many of them require a value, and their signature."""
    count, required, signature = 0, 0, np.uint64(0)
    for position in range(at(events.start, e), at(events.start, e + 1)):
        attr = at(events.attr, position)
        if attr + 1 >= len(index.attr_axis):
            break
        for axis in range(at(index.attr_axis, attr), at(index.attr_axis, attr + 1)):
            query.code[2 * axis] = int(UNASKED)
            query.position[axis] = position
            query.weight[axis] = at(events.weight, position) if len(events.weight) else 1.0
            query.present[count] = axis
            count += 1
            if at(index.axis_optional, axis) == 0:
                query.required[required] = axis
                required += 1
                signature |= at(index.axis_bit, axis)
    return count, required, signature


@embedded
def settle(index: BlockArrays, events: EventArrays, query: EventQuery, axis: int) -> None:
    """Find the codes of an axis that has a value, unless they are known."""
    if at(query.code, 2 * axis) == int(UNASKED):
        position = at(query.position, axis)
        first, middle = at(index.cut_start, 2 * axis), at(index.cut_start, 2 * axis + 1)
        above = middle - first - count_cuts(index.cuts, first, middle, at(events.hi, position), True)
        query.code[2 * axis] = int(LOWEST) + above
        under = count_cuts(index.cuts, middle, at(index.cut_start, 2 * axis + 2), at(events.lo, position), False)
        query.code[2 * axis + 1] = int(LOWEST) + under


@embedded
def forget(index: BlockArrays, query: EventQuery, count: int) -> None:
    """Put back what `ask` has set."""
    for i in range(count):
        axis = at(query.present, i)
        code = int(ANY) if at(index.axis_optional, axis) else int(ALWAYS)
        query.code[2 * axis], query.code[2 * axis + 1] = code, code
        query.weight[axis] = 0.0
