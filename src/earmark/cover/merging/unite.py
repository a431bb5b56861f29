"""The least box around two boxes: its sets, whether it is perfect, and how much of all events it takes.

mics.txt, section 3.6 and Figure 5b. A box is a clause: a set of keys and "accepts NULL" for each attribute. The
box around two of them accepts on an attribute what either accepts, and everything where one has no constraint:

    a        x [0, 9]             y [3, 3]          z [1, 5]
    b        x [20, 29] or NULL   y [3, 3]
    around   x [0, 9] [20, 29] or NULL   y [3, 3]            perfect? no: a and b differ on x and on z

Sets stay unions of intervals, so `city = 'Oslo'` and `city = 'Rome'` make `city IN ('Oslo', 'Rome')` and nothing in
between; beyond `pieces` intervals the narrowest gaps are closed.

**Perfect** is a box that takes what the two take and no more: it equals one of them, or the two differ on one
attribute alone and no gap was closed. **Mass** is the share of events in a box if attributes were independent, from the
values of a sample on each attribute; it ranks boxes among which the sample itself cannot choose, since no event of it
is in them.

Invariant: every event that matches a or b matches the box around them.
Complexity: O(constraints + intervals · pieces) per pair; mass O(intervals log sample).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat.arrays import F64, I32, I64, U8, Flags, frozen
from earmark.flat.bisection import bisect_left, bisect_right
from earmark.flat.machine import at
from earmark.jit import inlined, kernel
from earmark.keys.schema import INT64_MIN
from earmark.segment.arrays import SegmentArrays, boxes_table

PIECES = 16
"""Intervals of a merged set before gaps are closed."""
DOUBT = 0.5
"""Events of the sample that every set is taken to have besides: no set is impossible."""


class Marginals(NamedTuple):
    """The keys of a sample on each attribute, ascending: those of attribute a are at start[a] .. start[a + 1]."""

    start: I64
    key: I64
    events: I64


def marginals(events: EventArrays, attributes: int) -> Marginals:
    """The marginals of a sample; of an interval, its lower end."""
    order = np.lexsort((events.lo, events.attr))
    start = np.searchsorted(events.attr[order], np.arange(attributes + 1)).astype(np.int64)
    return Marginals(frozen(start), frozen(events.lo[order]), frozen(np.array([len(events.start) - 1], np.int64)))


def around(table: SegmentArrays, a: I64, b: I64, pieces: int = PIECES) -> tuple[SegmentArrays, Flags]:
    """The boxes around pairs of boxes (slots of one clause each), as a table, and which of them are perfect."""
    constraints = np.diff(table.constraint_start)
    intervals = np.diff(table.interval_start[table.constraint_start].astype(np.int64))
    room = int(np.minimum(constraints[a], constraints[b]).sum())
    most = int((intervals[a] + intervals[b]).sum())
    pairs = np.ascontiguousarray(a, np.int64), np.ascontiguousarray(b, np.int64)
    made = unite(table, *pairs, max(pieces, 1), room, most)
    return boxes_table(*made[:6]), made[6]


# --- kernels -----------------------------------------------------------------------------------------------------


@kernel
def unite(
    table: SegmentArrays, a: I64, b: I64, pieces: int, room: int, most: int
) -> tuple[I32, I32, U8, I32, I64, I64, Flags]:
    """The boxes around pairs of clauses, with `room` constraints and `most` intervals at most; which are perfect."""
    start, attr, accepts = np.zeros(len(a) + 1, np.int32), np.empty(room, np.int32), np.empty(room, np.uint8)
    interval_start, lo, hi = np.zeros(room + 1, np.int32), np.empty(most, np.int64), np.empty(most, np.int64)
    perfect = np.empty(len(a), np.bool_)
    filled, used = 0, 0
    for pair in range(len(a)):
        i, end_a = at(table.constraint_start, a[pair]), at(table.constraint_start, a[pair] + 1)
        j, end_b = at(table.constraint_start, b[pair]), at(table.constraint_start, b[pair] + 1)
        wider_a, wider_b, differ, closed = False, False, 0, False
        while i < end_a or j < end_b:
            if j == end_b or (i < end_a and at(table.attr, i) < at(table.attr, j)):
                wider_a, differ, i = True, differ + 1, i + 1  # b asks nothing of this attribute
                continue
            if i == end_a or at(table.attr, j) < at(table.attr, i):
                wider_b, differ, j = True, differ + 1, j + 1
                continue
            begin = filled
            filled = join_sets(table, i, j, lo, hi, filled)
            null = at(table.accepts_null, i) | at(table.accepts_null, j)
            same_a = same_set(table, i, lo, hi, begin, filled) and null == at(table.accepts_null, i)
            same_b = same_set(table, j, lo, hi, begin, filled) and null == at(table.accepts_null, j)
            wider_a, wider_b = wider_a or not same_a, wider_b or not same_b
            differ += 0 if same_a and same_b else 1
            if filled - begin > pieces and not (same_a or same_b):
                filled = close_gaps(lo, hi, begin, filled, pieces)
                closed = True
            attr[used], accepts[used] = at(table.attr, i), null
            interval_start[used + 1] = filled
            used, i, j = used + 1, i + 1, j + 1
        start[pair + 1] = used
        perfect[pair] = not closed and (not wider_a or not wider_b or differ <= 1)
    return start, attr[:used], accepts[:used], interval_start[: used + 1], lo[:filled], hi[:filled], perfect


@inlined
def join_sets(table: SegmentArrays, a: int, b: int, lo: I64, hi: I64, filled: int) -> int:
    """Append the union of the intervals of two constraints, those that touch as one."""
    begin = filled
    i, end_a = at(table.interval_start, a), at(table.interval_start, a + 1)
    j, end_b = at(table.interval_start, b), at(table.interval_start, b + 1)
    while i < end_a or j < end_b:
        if j == end_b or (i < end_a and at(table.lo, i) <= at(table.lo, j)):
            low, high = at(table.lo, i), at(table.hi, i)
            i += 1
        else:
            low, high = at(table.lo, j), at(table.hi, j)
            j += 1
        if filled > begin and (low == int(INT64_MIN) or low - 1 <= hi[filled - 1]):
            hi[filled - 1] = max(hi[filled - 1], high)
        else:
            lo[filled], hi[filled] = low, high
            filled += 1
    return filled


@inlined
def same_set(table: SegmentArrays, constraint: int, lo: I64, hi: I64, begin: int, end: int) -> bool:
    """Whether a constraint has these intervals."""
    first = at(table.interval_start, constraint)
    if at(table.interval_start, constraint + 1) - first != end - begin:
        return False
    for i in range(end - begin):
        if at(table.lo, first + i) != lo[begin + i] or at(table.hi, first + i) != hi[begin + i]:
            return False
    return True


@kernel
def close_gaps(lo: I64, hi: I64, begin: int, end: int, pieces: int) -> int:
    """Close all but the widest pieces - 1 gaps between the intervals begin..end; the new end."""
    gaps = lo[begin + 1 : end].astype(np.float64) - hi[begin : end - 1].astype(np.float64)
    widest = np.argsort(-gaps, kind="mergesort")[: pieces - 1]
    out, last = begin, hi[end - 1]
    for place in np.sort(widest) + begin:
        following = lo[place + 1]
        hi[out] = hi[place]
        out += 1
        lo[out] = following
    hi[out] = last
    return out + 1


@kernel
def masses(table: SegmentArrays, sample: Marginals) -> F64:
    """The share of events in each box, were attributes independent: the product of what its constraints accept."""
    out, total = np.empty(len(table.sequence), np.float64), float(sample.events[0])
    for slot in range(len(out)):
        mass = 1.0
        for c in range(at(table.constraint_start, slot), at(table.constraint_start, slot + 1)):
            attr = at(table.attr, c)
            begin, end = at(sample.start, attr), at(sample.start, attr + 1)
            inside = 0
            for i in range(at(table.interval_start, c), at(table.interval_start, c + 1)):
                upto = bisect_right(sample.key, begin, end, at(table.hi, i))
                inside += upto - bisect_left(sample.key, begin, end, at(table.lo, i))
            if at(table.accepts_null, c):
                inside += int(total) - (end - begin)
            mass *= (inside + float(DOUBT)) / (total + float(DOUBT))
        out[slot] = mass
    return out
