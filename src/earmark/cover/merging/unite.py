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
from numpy.typing import NDArray

from earmark.events.arrays import EventArrays
from earmark.flat.arrays import F64, I32, I64, U8, frozen
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


class United(NamedTuple):
    """What `unite` fills: one box per pair."""

    constraint_start: I32
    attr: I32
    accepts_null: U8
    interval_start: I32
    lo: I64
    hi: I64
    perfect: NDArray[np.bool_]
    kept: I64
    """Scratch: places of the gaps that stay open."""


def marginals(events: EventArrays, attributes: int) -> Marginals:
    """The marginals of a sample; of an interval, its lower end."""
    order = np.lexsort((events.lo, events.attr))
    start = np.searchsorted(events.attr[order], np.arange(attributes + 1)).astype(np.int64)
    return Marginals(frozen(start), frozen(events.lo[order]), frozen(np.array([len(events.start) - 1], np.int64)))


def around(table: SegmentArrays, a: I64, b: I64, pieces: int = PIECES) -> tuple[SegmentArrays, NDArray[np.bool_]]:
    """The boxes around pairs of boxes (slots of one clause each), as a table, and which of them are perfect."""
    constraints = np.diff(table.constraint_start)
    intervals = np.diff(table.interval_start[table.constraint_start].astype(np.int64))
    room = int(np.minimum(constraints[a], constraints[b]).sum())
    most = int((intervals[a] + intervals[b]).sum())
    made = United(
        constraint_start=np.zeros(len(a) + 1, np.int32),
        attr=np.empty(room, np.int32),
        accepts_null=np.empty(room, np.uint8),
        interval_start=np.zeros(room + 1, np.int32),
        lo=np.empty(most, np.int64),
        hi=np.empty(most, np.int64),
        perfect=np.empty(len(a), np.bool_),
        kept=np.empty(max(pieces, 1), np.int64),
    )
    if len(a):
        unite(table, np.ascontiguousarray(a, np.int64), np.ascontiguousarray(b, np.int64), max(pieces, 1), made)
    used = int(made.constraint_start[-1])
    filled = int(made.interval_start[used])
    boxes = boxes_table(
        made.constraint_start,
        made.attr[:used],
        made.accepts_null[:used],
        made.interval_start[: used + 1],
        made.lo[:filled],
        made.hi[:filled],
    )
    return boxes, made.perfect


def masses(table: SegmentArrays, sample: Marginals) -> F64:
    """The share of events in each box, were attributes independent."""
    out = np.empty(len(table.sequence), np.float64)
    weigh(table, sample, out)
    return out


# --- kernels -----------------------------------------------------------------------------------------------------


@kernel
def unite(table: SegmentArrays, a: I64, b: I64, pieces: int, made: United) -> None:
    """Fill the boxes around pairs of clauses."""
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
            filled = join_sets(table, i, j, made.lo, made.hi, filled)
            null = at(table.accepts_null, i) | at(table.accepts_null, j)
            same_a = same_set(table, i, made.lo, made.hi, begin, filled) and null == at(table.accepts_null, i)
            same_b = same_set(table, j, made.lo, made.hi, begin, filled) and null == at(table.accepts_null, j)
            wider_a, wider_b = wider_a or not same_a, wider_b or not same_b
            differ += 0 if same_a and same_b else 1
            if filled - begin > pieces and not (same_a or same_b):
                filled = close_gaps(made.lo, made.hi, begin, filled, pieces, made.kept)
                closed = True
            made.attr[used], made.accepts_null[used] = at(table.attr, i), null
            used += 1
            made.interval_start[used] = filled
            i += 1
            j += 1
        made.constraint_start[pair + 1] = used
        made.perfect[pair] = not closed and (not wider_a or not wider_b or differ <= 1)


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


@inlined
def close_gaps(lo: I64, hi: I64, begin: int, end: int, pieces: int, kept: I64) -> int:
    """Close all but the widest pieces - 1 gaps between the intervals begin..end; the new end."""
    count = 0
    for i in range(begin, end - 1):
        place = i
        for k in range(count):  # the narrower of the two goes on
            if float(lo[place + 1]) - float(hi[place]) > float(lo[kept[k] + 1]) - float(hi[kept[k]]):
                kept[k], place = place, kept[k]
        if count < pieces - 1:
            kept[count] = place
            count += 1
    for k in range(1, count):  # in order of place again
        place, back = kept[k], k
        while back > 0 and kept[back - 1] > place:
            kept[back] = kept[back - 1]
            back -= 1
        kept[back] = place
    out, last = begin, hi[end - 1]
    for k in range(count):
        following = lo[kept[k] + 1]
        hi[out] = hi[kept[k]]
        out += 1
        lo[out] = following
    hi[out] = last
    return out + 1


@kernel
def weigh(table: SegmentArrays, sample: Marginals, out: F64) -> None:
    """The product over its constraints of the share of events that each accepts."""
    total = float(sample.events[0])
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
