"""Does one clause, or one subscription, contain another: the exact tests under every covering index.

A clause is a product of sets, one per attribute, and no canonical clause is empty; so clause a contains clause b iff
it does on every attribute. An attribute that a clause does not constrain takes everything and NULL:

    a: x [0, 9]                      b: x [2, 3] ∪ [5, 5], y [1, 1]       a ⊇ b: each interval of b is in one of a
    a: x [min, max] (IS NOT NULL)    b: y [1, 1]                          a ⊉ b: b takes events without x

Subscription A contains B when each clause of B is inside some clause of A. `stands_above` makes a strict order of it:
of equal subscriptions the older is above.

Invariant: tables are canonical (`canonical.py`): intervals that touch are one, no constraint takes everything, none
takes nothing, no clause of a slot contains another of the same slot.

Complexity: clause O(constraints + Σ m_b log m_a) for m_a and m_b intervals; mostly O(1), at the first difference.
"""

from __future__ import annotations

from earmark.flat.bisection import bisect_left
from earmark.flat.machine import at
from earmark.jit import inlined, kernel
from earmark.segment.arrays import SegmentArrays


@inlined
def constraint_contains(table: SegmentArrays, a: int, b: int) -> bool:
    """Whether constraint a takes everything that constraint b takes."""
    if at(table.accepts_null, b) > at(table.accepts_null, a):
        return False
    begin, end = at(table.interval_start, a), at(table.interval_start, a + 1)
    first, last = at(table.interval_start, b), at(table.interval_start, b + 1)
    if end - begin == 1:
        return first == last or bool(
            (at(table.lo, begin) <= at(table.lo, first)) & (at(table.hi, last - 1) <= at(table.hi, begin))
        )
    for i in range(first, last):
        begin = bisect_left(table.hi, begin, end, at(table.hi, i))  # the first interval of a that reaches as far
        if begin == end or at(table.lo, begin) > at(table.lo, i):
            return False
    return True


@inlined
def clause_contains(table: SegmentArrays, a: int, b: int) -> bool:
    """Whether every event that clause b takes is taken by clause a."""
    position, end = at(table.constraint_start, b), at(table.constraint_start, b + 1)
    first, last = at(table.constraint_start, a), at(table.constraint_start, a + 1)
    if last - first > end - position:
        return False
    for constraint in range(first, last):
        attr = at(table.attr, constraint)
        while position < end and at(table.attr, position) < attr:
            position += 1
        if position == end or at(table.attr, position) != attr:
            return False  # b does not constrain it, a does
        if not constraint_contains(table, constraint, position):
            return False
    return True


@inlined
def some_clause_contains(table: SegmentArrays, first: int, last: int, b: int) -> bool:
    """Whether one of the clauses first..last contains clause b."""
    for a in range(first, last):  # noqa: SIM110 - kernels have no generators
        if clause_contains(table, a, b):
            return True
    return False


@inlined
def slot_contains(table: SegmentArrays, above: int, below: int) -> bool:
    """Whether each clause of `below` is inside some clause of `above`."""
    first, last = at(table.clause_start, above), at(table.clause_start, above + 1)
    for b in range(at(table.clause_start, below), at(table.clause_start, below + 1)):
        if not some_clause_contains(table, first, last, b):
            return False
    return True


@inlined
def outranks(table: SegmentArrays, above: int, below: int) -> bool:
    """Whether `above`, which contains `below`, is above it in the order: it is older, or the two are not equal."""
    if at(table.sequence, above) < at(table.sequence, below):
        return True
    return not slot_contains(table, below, above)


@inlined
def stands_above(table: SegmentArrays, above: int, below: int) -> bool:
    """The strict order: `above` covers `below`."""
    return above != below and slot_contains(table, above, below) and outranks(table, above, below)


@inlined
def reports(table: SegmentArrays, above: int, clause: int, below: int) -> bool:
    """Whether a search by the first clause of `below`, having come upon this clause of `above`, reports `above`.

    It does when the clause contains the one searched for, no earlier clause of `above` does (that one reports it),
    and `above` is above `below` as a whole.
    """
    if above == below:
        return False
    sought, end = at(table.clause_start, below), at(table.clause_start, below + 1)
    if not clause_contains(table, clause, sought):
        return False
    first, last = at(table.clause_start, above), at(table.clause_start, above + 1)
    if some_clause_contains(table, first, clause, sought):
        return False
    for b in range(sought + 1, end):
        if not some_clause_contains(table, first, last, b):
            return False
    return outranks(table, above, below)


@kernel
def covers(table: SegmentArrays, above: int, below: int) -> bool:
    """`stands_above`, for callers outside kernels."""
    return stands_above(table, above, below)
