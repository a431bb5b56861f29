"""From keys to cells: which box of a grid does a clause or an event fill, and which ranges of the curve are that?

mics.txt, sections 3.2, 3.3, 5 and 6.3. A space has a few *axes*, each an attribute, cut into at most 2^bits cells:

    cell    0        1         2          3                         clause                 cells on this axis
    keys    NULL     .. 9    10 .. 49   50 ..                       a BETWEEN 12 AND 60    2 .. 3
                         cuts  10         50                        no constraint          0 .. 3
                                                                    a < 5 OR a IS NULL     0 .. 1
                                                                    a IS NULL              0

Cell 0 of an axis is NULL: an event without the attribute is there, so an unconstrained attribute, `IS NULL` and `IS
NOT NULL` need no special route. A space without axes is a single cell, number 0, which holds every event: it is what
can be learned from no subscription, and from one that takes everything.

Cuts are learned: `equal` width between the least and the greatest bound in use, or `variable`, the quantiles of the
values of past events, so that busy regions get fine cells (section 6.3). Keys beyond the outer cuts share the outer
cells: no domain has to be declared.

A box of cells holds every event that the clause matches, and more: it can rule events out, never in.

Invariant: a key that a clause accepts is in the clause's cells; cuts ascend strictly.
Complexity: a cell O(log cells); a box O(constraints of the clause).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import NamedTuple

import numpy as np

from earmark.curves import grid, hilbert
from earmark.errors import EarmarkError, require
from earmark.events.arrays import EventArrays
from earmark.flat.arrays import I32, I64, frozen, pointers_of
from earmark.flat.bisection import bisect_right
from earmark.flat.machine import at
from earmark.jit import inlined, kernel
from earmark.keys.schema import INT64_MAX, INT64_MIN
from earmark.language.words import counted
from earmark.segment.arrays import SegmentArrays, gather, offsets
from earmark.segment.evaluate import ABSENT, find_attribute

NULL_CELL = 0
NO_AXIS = -1
FEWEST_BITS, MOST_BITS = 1, 16
AXES, BITS = 3, 8
"""Axes of a space that is learned, and bits of their cells, by default: the paper's grid."""
SAMPLE = 1 << 18
"""Bounds that are enough to learn cuts from."""


class Space(NamedTuple):
    """The axes of a grid of 2^bits cells each. `cuts` of axis j are at cut_start[j] .. cut_start[j + 1]."""

    attr: I32
    axis_of: I32
    cut_start: I32
    cuts: I64
    bits: I32

    @property
    def axes(self) -> int:
        """How many axes there are."""
        return len(self.attr)

    def cuts_of_axes(self) -> Iterator[tuple[int, list[int]]]:
        """The attribute of each axis, and its cuts."""
        for attr, first, last in zip(self.attr, self.cut_start[:-1], self.cut_start[1:], strict=True):
            yield int(attr), self.cuts[first:last].tolist()


def space_of(attributes: I32, cuts: list[I64], bits: int) -> Space:
    """A space with these axes and cuts."""
    axes = len(attributes)
    if not FEWEST_BITS <= bits <= MOST_BITS or axes * bits > grid.MOST_BITS - 1:
        raise EarmarkError(
            f"expected attributes of {FEWEST_BITS} to {MOST_BITS} bits, and at most {grid.MOST_BITS - 1} bits in all, "
            f"got {counted(axes, 'attribute')} of {bits} bits"
        )
    if len(np.unique(attributes)) < axes or attributes.min(initial=0) < 0:
        raise EarmarkError("expected the numbers of attributes, each given once")
    for one in cuts:
        require(len(one) <= (1 << bits) - 2, "an axis has more cuts than cells")
        require(bool((one[:-1] < one[1:]).all()), "cuts do not ascend")
    axis_of = np.full(int(attributes.max(initial=-1)) + 1, NO_AXIS, np.int32)
    axis_of[attributes] = np.arange(axes)
    joined = np.concatenate([*cuts, np.empty(0, np.int64)]).astype(np.int64)
    columns = (attributes.astype(np.int32), axis_of, offsets([*map(len, cuts)]), joined, np.array([bits], np.int32))
    return Space._make(map(frozen, columns))


Keys = Mapping[int, I64]


def learned_space(
    table: SegmentArrays, axes: int = AXES, bits: int = BITS, keys: Keys | None = None, slots: I32 | None = None
) -> Space:
    """A space for these slots of a table, all unless said otherwise: the attributes that tell most of them apart.

    An attribute is worth what its constraints leave out, measured by rank among all of their ends. Cells are of equal
    width; on attributes for which `keys` has the keys of past events, they hold equally many of those (section 6.3).
    Where no subscription asks about an attribute, the space has no axes.
    """
    if slots is not None:
        table = gather(table, np.asarray(slots, np.int64))
    used = np.unique(table.attr)
    worth = np.array([_left_out(table, int(attr)) for attr in used])
    chosen = np.sort(used[np.argsort(-worth, kind="stable")[: max(1, axes)]]).astype(np.int32)
    cuts = []
    for attr in chosen.tolist():
        known = (keys or {}).get(attr)
        cuts.append(equal_cuts(bounds_on(table, attr), bits) if known is None else variable_cuts(known, bits))
    return space_of(chosen, cuts, bits)


def _left_out(table: SegmentArrays, attribute: int) -> float:
    """How much constraints on an attribute leave out, summed: 1 for one that takes next to nothing."""
    low, high = np.split(bounds_on(table, attribute), 2)
    line = np.sort(np.concatenate([low, high]))
    inside = np.searchsorted(line, high, "right") - np.searchsorted(line, low, "left")
    return float((1 - inside / len(line)).mean() * (table.attr == attribute).sum()) if len(line) else 0.0


def equal_cuts(keys: I64, bits: int) -> I64:
    """Cuts that are equally far apart, from the least to the greatest of these keys."""
    keys = _inner(keys)
    if not len(keys):
        return keys
    low, high, cells = int(keys.min()), int(keys.max()), (1 << bits) - 1
    return np.unique(np.array([low + (high + 1 - low) * i // cells for i in range(1, cells)], np.int64))


def variable_cuts(keys: I64, bits: int) -> I64:
    """Cuts that put equally many of these keys into every cell, as far as equal keys allow."""
    keys, cells = np.sort(_inner(keys)), (1 << bits) - 1
    return np.unique(keys[np.arange(1, cells) * len(keys) // cells]) if len(keys) else keys


def _inner(keys: I64) -> I64:
    """Keys that are not open ends."""
    inner: I64 = keys[(keys != INT64_MIN) & (keys != INT64_MAX)]
    return inner


def bounds_on(table: SegmentArrays, attribute: int) -> I64:
    """The ends of the constraints on an attribute, a sample when there are many."""
    chosen = np.flatnonzero((table.attr == attribute) & (np.diff(table.interval_start) > 0))
    if len(chosen) > SAMPLE:
        chosen = chosen[:: len(chosen) // SAMPLE]
    first, last = table.interval_start[chosen], table.interval_start[chosen + 1] - 1
    return np.concatenate([table.lo[first], table.hi[last]])


def boxes_of_clauses(space: Space, table: SegmentArrays, clauses: I64) -> tuple[I64, I64]:
    """The boxes of clauses, rows of low and high cells. A constraint that accepts nothing gives low above high."""
    low, high = np.empty((len(clauses), space.axes), np.int64), np.empty((len(clauses), space.axes), np.int64)
    clause_boxes(space, table, np.ascontiguousarray(clauses, np.int64), low, high)
    return low, high


def ranges_of_boxes(space: Space, low: I64, high: I64, most: float = inf) -> tuple[I64, I64, I64]:
    """The ranges of the curve of each box: (start, first, last); of a box that is empty, none.

    A box that would have more than about `most` ranges is made of larger cells.
    """
    depth, axes, some = int(space.bits[0]), space.axes, (low <= high).all(axis=1)
    if not axes:
        return np.arange(len(low) + 1), np.zeros(len(low), np.int64), np.zeros(len(low), np.int64)
    shift, counts = np.zeros(len(low), np.int64), np.zeros(len(low), np.int64)
    shift[some] = np.minimum(hilbert.coarseness(low[some], high[some], depth, most), depth - 1)
    owner, first, last = ([np.empty(0, np.int64)] for _ in range(3))
    for s in np.unique(shift[some]).tolist():
        mine = np.flatnonzero(some & (shift == s))
        start, begin, end = hilbert.ranges(low[mine] >> s, high[mine] >> s, depth - s)
        counts[mine] = np.diff(start)
        owner.append(np.repeat(mine, counts[mine]))
        first.append(begin << (axes * s))
        last.append((end + 1 << (axes * s)) - 1)
    order = np.argsort(np.concatenate(owner), kind="stable")
    return pointers_of(counts), np.concatenate(first)[order], np.concatenate(last)[order]


@inlined
def cell_of(space: Space, axis: int, key: int) -> int:
    """The cell of a key: 1 and the number of cuts that are not above it."""
    first = at(space.cut_start, axis)
    return int(bisect_right(space.cuts, first, at(space.cut_start, axis + 1), key) - first) + 1


@kernel
def clause_boxes(space: Space, table: SegmentArrays, clauses: I64, low: I64, high: I64) -> None:
    """Rows of low and high cells of clauses."""
    top = (1 << space.bits[0]) - 1
    for i in range(len(clauses)):
        for axis in range(len(space.attr)):
            low[i, axis], high[i, axis] = int(NULL_CELL), top
        for constraint in range(at(table.constraint_start, clauses[i]), at(table.constraint_start, clauses[i] + 1)):
            attr = at(table.attr, constraint)
            axis = at(space.axis_of, attr) if attr < len(space.axis_of) else int(NO_AXIS)
            if axis == NO_AXIS:
                continue
            begin, end = at(table.interval_start, constraint), at(table.interval_start, constraint + 1)
            null = at(table.accepts_null, constraint) != 0
            if begin < end:
                low[i, axis] = int(NULL_CELL) if null else cell_of(space, axis, at(table.lo, begin))
                high[i, axis] = cell_of(space, axis, at(table.hi, end - 1))
            else:
                low[i, axis], high[i, axis] = (int(NULL_CELL), int(NULL_CELL)) if null else (1, 0)


@kernel
def boxes_of_events(space: Space, events: EventArrays) -> tuple[I64, I64]:
    """The boxes of events, rows of low and high cells: one cell, unless a value is an interval."""
    shape = (len(events.start) - 1, len(space.attr))
    low, high = np.full(shape, NULL_CELL, np.int64), np.full(shape, NULL_CELL, np.int64)
    for e in range(len(low)):
        for axis in range(len(space.attr)):
            position = find_attribute(events, e, space.attr[axis])
            if position != ABSENT:
                low[e, axis] = cell_of(space, axis, at(events.lo, position))
                high[e, axis] = cell_of(space, axis, at(events.hi, position))
    return low, high
