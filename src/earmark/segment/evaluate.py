"""Does this event satisfy this subscription, and how well: the one predicate evaluator.

Row at a time: a clause's constraints and an event's attributes both ascend, so one merge decides a clause.

    clause   a: [3, 5]          c: [1, 1] [7, 7]        d: or NULL
    event    a: [4, 4]  b: ...  c: [2, 7]                            a holds, c holds (7), d holds (absent)

Invariant: every score anywhere is computed by `clause_score`, which adds the terms in ascending attribute
order starting from the static score; hence all indexes give bit-equal scores.

Complexity: clause, O(constraints + event attributes + sum of log(intervals)).

Closed intervals: an event's [lo, hi] satisfies a constraint when it overlaps one of its intervals; an attribute
that the event lacks satisfies it when the constraint accepts NULL.
"""

from __future__ import annotations

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat.arrays import F64, I32, I64, U64
from earmark.flat.bisection import bisect_left
from earmark.flat.machine import at, ctz64
from earmark.jit import inlined, kernel
from earmark.keys.schema import INT64_MAX, INT64_MIN
from earmark.segment.arrays import SegmentArrays

ABSENT = -1
"""Position of an attribute that the event does not have."""
NO_LIFE = -1
"""In place of the number of the attribute LIFE where life spans do not matter: no slot has one, or nobody asks."""


@inlined
def overlaps(lo: I64, hi: I64, begin: int, end: int, key_lo: int, key_hi: int) -> bool:
    """Whether [key_lo, key_hi] meets one of the ascending disjoint intervals begin..end. O(log intervals)."""
    if end - begin == 1:  # one branch, not two: which side an event misses on cannot be predicted
        return bool((at(lo, begin) <= key_hi) & (key_lo <= at(hi, begin)))
    begin = bisect_left(hi, begin, end, key_lo)
    return begin < end and at(lo, begin) <= key_hi


@inlined
def find_attribute(events: EventArrays, e: int, attr: int) -> int:
    """Position of an attribute in event e, or ABSENT. O(log attributes)."""
    end = at(events.start, e + 1)
    position = bisect_left(events.attr, at(events.start, e), end, attr)
    return position if position < end and at(events.attr, position) == attr else ABSENT


@inlined
def constraint_holds(table: SegmentArrays, constraint: int, events: EventArrays, position: int) -> bool:
    """Whether the constraint holds for the event value at `position` of the batch, or ABSENT for NULL."""
    if position == ABSENT:
        return bool(at(table.accepts_null, constraint) != 0)
    begin, end = at(table.interval_start, constraint), at(table.interval_start, constraint + 1)
    return overlaps(table.lo, table.hi, begin, end, at(events.lo, position), at(events.hi, position))


@inlined
def _seek(events: EventArrays, position: int, end: int, attr: int) -> int:
    """First position from `position` on whose attribute is at least attr."""
    while position < end and at(events.attr, position) < attr:
        position += 1
    return position


@inlined
def clause_failures(table: SegmentArrays, clause: int, events: EventArrays, e: int, limit: int) -> int:
    """How many constraints of the clause fail; stops counting at limit + 1."""
    failures = 0
    position, end = at(events.start, e), at(events.start, e + 1)
    for constraint in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
        attr = at(table.attr, constraint)
        position = _seek(events, position, end, attr)
        present = position < end and at(events.attr, position) == attr
        if not constraint_holds(table, constraint, events, position if present else ABSENT):
            failures += 1
            if failures > limit:
                break
    return failures


@inlined
def clause_score(
    table: SegmentArrays, clause: int, events: EventArrays, e: int, relaxed: bool, static: float
) -> tuple[bool, float]:
    """Whether the clause qualifies for event e, and its score; `static` is its slot's own score.

    Exact: every constraint holds. Relaxed: at least one holds, or there are none.
    The score adds, for each constraint that holds and whose attribute the event has, its weight times the event's.
    """
    total = static
    begin, stop = at(table.constraint_start, clause), at(table.constraint_start, clause + 1)
    qualifies = begin == stop or not relaxed
    position, end = at(events.start, e), at(events.start, e + 1)
    for constraint in range(begin, stop):
        attr = at(table.attr, constraint)
        position = _seek(events, position, end, attr)
        present = position < end and at(events.attr, position) == attr
        if not constraint_holds(table, constraint, events, position if present else ABSENT):
            if not relaxed:
                return False, 0.0
            continue
        qualifies = True
        if present:
            weight = at(table.weight, constraint) if len(table.weight) else 1.0
            total += weight * (at(events.weight, position) if len(events.weight) else 1.0)
    return qualifies, total


@inlined
def moment_of(events: EventArrays, e: int, life: int) -> tuple[int, int]:
    """When event e happened: the first and the last key of time, which meet nothing that has a bound if it has none."""
    position = find_attribute(events, e, life)
    if position == ABSENT:
        return INT64_MAX, INT64_MIN
    return at(events.lo, position), at(events.hi, position)


@inlined
def is_living(table: SegmentArrays, slot: int, first: int, last: int) -> bool:
    """Whether a slot's life span meets a moment, given by its first and last key; for tables that have life spans."""
    return bool(at(table.first_moment, slot) <= last and first <= at(table.last_moment, slot))


@inlined
def static_score(table: SegmentArrays, slot: int) -> float:
    """The slot's own score, 0.0 in a table without scores."""
    return at(table.score, slot) if len(table.score) else 0.0


@inlined
def slot_score(table: SegmentArrays, slot: int, events: EventArrays, e: int, relaxed: bool) -> tuple[bool, float]:
    """Whether any clause of the slot qualifies for event e, and the best score among those that do."""
    found, best = False, 0.0
    static = static_score(table, slot)
    for clause in range(at(table.clause_start, slot), at(table.clause_start, slot + 1)):
        qualifies, score = clause_score(table, clause, events, e, relaxed, static)
        if qualifies and (not found or score > best):
            found, best = True, score
    return found, best


@inlined
def slot_matches(table: SegmentArrays, slot: int, events: EventArrays, e: int) -> bool:
    """Whether some clause of the slot holds entirely."""
    for clause in range(at(table.clause_start, slot), at(table.clause_start, slot + 1)):
        if clause_failures(table, clause, events, e, 0) == 0:
            return True
    return False


@inlined
def eligible_word(eligible: U64, word: int, first: int, slots: int) -> np.uint64:
    """Word of the bitmap with only the slots in first..slots left in it."""
    bits: np.uint64 = eligible[word]
    base = word << 6
    if base < first:
        skip = first - base
        bits = bits >> np.uint64(skip) << np.uint64(skip) if skip < 64 else np.uint64(0)
    if base + 64 > slots:
        keep = slots - base
        bits = bits & ((np.uint64(1) << np.uint64(keep)) - np.uint64(1)) if keep > 0 else np.uint64(0)
    return bits


@inlined
def rows_matching(
    table: SegmentArrays, events: EventArrays, e: int, eligible: U64, first: int, out: I32
) -> tuple[int, int]:
    """Eligible slots from `first` on that match event e, one row at a time: the reference for every index.

    Fills `out` ascending; returns how many, and the slot to resume at (the number of slots when done).
    """
    found = 0
    slots = len(table.clause_start) - 1
    for word in range(first >> 6, min(len(eligible), (slots + 63) >> 6)):
        bits = eligible_word(eligible, word, first, slots)
        while bits:
            slot = (word << 6) + ctz64(bits)
            bits &= bits - np.uint64(1)
            if slot_matches(table, slot, events, e):
                if found == len(out):
                    return found, slot
                out[found] = slot
                found += 1
    return found, slots


@kernel
def match_rows(
    table: SegmentArrays, events: EventArrays, e: int, eligible: U64, first: int, out: I32
) -> tuple[int, int]:
    """`rows_matching`, to be called from Python."""
    return rows_matching(table, events, e, eligible, first, out)


@kernel
def near_misses(
    table: SegmentArrays, events: EventArrays, e: int, eligible: U64, missing: int, first: int, out: I32
) -> tuple[int, int]:
    """Eligible slots from `first` on that do not match event e but have a clause with at most `missing` failures.

    A row of `out` for each: the slot, the fewest failing constraints over its clauses, and the first clause (an index
    into `constraint_start`) that has so few. Returns how many, and the slot to resume at when `out` is full.
    """
    found = 0
    slots = len(table.clause_start) - 1
    for word in range(first >> 6, min(len(eligible), (slots + 63) >> 6)):
        bits = eligible_word(eligible, word, first, slots)
        while bits:
            slot = (word << 6) + ctz64(bits)
            bits &= bits - np.uint64(1)
            fewest, nearest = missing + 1, -1
            for clause in range(at(table.clause_start, slot), at(table.clause_start, slot + 1)):
                failures = clause_failures(table, clause, events, e, fewest - 1)
                if failures < fewest:
                    fewest, nearest = failures, clause
                if fewest == 0:
                    break
            if fewest == 0 or nearest < 0:
                continue
            if found == len(out):
                return found, slot
            out[found, 0], out[found, 1], out[found, 2] = slot, fewest, nearest
            found += 1
    return found, slots


@kernel
def fixed_scores(table: SegmentArrays) -> F64:
    """By slot, the exact score that every event without weights gives it where it matches; NaN where that varies.

    It varies where a constraint accepts NULL, since an event may lack the attribute, and where clauses differ in it.
    """
    slots = len(table.clause_start) - 1
    fixed = np.full(slots, np.nan)
    for slot in range(slots):
        begin, end = at(table.clause_start, slot), at(table.clause_start, slot + 1)
        for clause in range(begin, end):
            total = static_score(table, slot)
            for constraint in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
                if at(table.accepts_null, constraint):
                    total = np.nan
                total += at(table.weight, constraint) if len(table.weight) else 1.0
            if clause == begin or total == fixed[slot]:
                fixed[slot] = total
            else:
                fixed[slot] = np.nan
                break
    return fixed


@kernel
def score_matches(table: SegmentArrays, fixed: F64, events: EventArrays, event_ptr: I64, slots: I32) -> F64:
    """The exact scores of known matches, those of each event after those of the event before; `fixed_scores` helps."""
    scores = np.empty(len(slots), np.float64)
    weighted = len(events.weight) > 0
    for e in range(len(event_ptr) - 1):
        for i in range(event_ptr[e], event_ptr[e + 1]):
            score = fixed[slots[i]]
            if weighted or score != score:
                score = slot_score(table, slots[i], events, e, False)[1]
            scores[i] = score
    return scores
