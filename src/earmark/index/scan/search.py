"""The scan's kernels: every eligible subscription against a group of lanes.

A clause starts with all lanes and keeps, constraint by constraint, those for which it holds; it is left as soon
as none remain. Before any key is looked at, the lanes that have the clause's attributes are intersected: where
events use few of many attributes, most clauses end there.

A constraint of many intervals (a long IN list) is searched per live lane when fewer lanes live than it has
intervals. Ranked search keeps one bounded heap a lane, its worst answer on top.
"""

from __future__ import annotations

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat.arrays import I64, U8, U64
from earmark.flat.machine import VECTOR, and_between8, at, ctz64, or_between8, popcount64
from earmark.index.counters import CANDIDATES, COMPARED, MATCHED, PRUNED, SCORED
from earmark.index.kernels import SLOT_BITS, Asked, Matches, Searched
from earmark.index.ranking import Heaps, push, raised, sort_heap
from earmark.index.scan.lanes import (
    ALL,
    CLAUSE,
    CLOSED,
    COUNT,
    DENSE,
    FIRST,
    HITS,
    HOLD,
    LEVELS,
    NONE,
    UNUSED,
    Lanes,
    ended_before,
    presence,
    row_of,
    starting_by,
)
from earmark.jit import embedded, inlined, kernel
from earmark.segment.arrays import SegmentArrays
from earmark.segment.evaluate import (
    ABSENT,
    eligible_word,
    find_attribute,
    overlaps,
    rows_matching,
    slot_score,
    static_score,
)

FEW = 4
"""Up to this many intervals are or-ed together without asking how many lanes live."""


@kernel
def match_group(searched: Searched[tuple[()]], asked: Asked, lanes: Lanes, matches: Matches) -> tuple[int, int]:
    """(lane << SLOT_BITS) | slot of every match among the eligible slots from asked.slot on, ascending by slot.

    Returns how many, and the slot to resume at: it stops where there might not be room for one slot's matches.
    """
    table, events, eligible = searched.table, asked.events, asked.eligible
    counts, out, work = matches.counts, matches.slots, matches.work
    found = 0
    slots = len(table.clause_start) - 1
    for word in range(asked.slot >> 6, min(len(eligible), (slots + 63) >> 6)):
        bits = eligible_word(eligible, word, asked.slot, slots)
        while bits:
            slot = (word << 6) + ctz64(bits)
            bits &= bits - np.uint64(1)
            if found + at(lanes.info, COUNT) > len(out):
                return found, slot
            if slot_lanes(table, events, lanes, slot, work):
                for part in range(VECTOR):
                    hits = at(lanes.masks, HITS + part)
                    while hits:
                        lane = (part << 6) + ctz64(hits)
                        out[found] = (lane << SLOT_BITS) | slot
                        counts[lane] += 1
                        found += 1
                        hits &= hits - np.uint64(1)
    return found, slots


@inlined
def slot_lanes(table: SegmentArrays, events: EventArrays, lanes: Lanes, slot: int, work: I64) -> bool:
    """Put the lanes that match the slot into HITS; whether there are any (else HITS is not written)."""
    some = False
    for clause in range(at(table.clause_start, slot), at(table.clause_start, slot + 1)):
        if clause_lanes(table, events, lanes, clause, work):
            or_between8(lanes.masks, HITS, HITS if some else NONE, CLAUSE, NONE)
            some = True
    return some


@inlined
def clause_lanes(table: SegmentArrays, events: EventArrays, lanes: Lanes, clause: int, work: I64) -> bool:
    """Put the lanes that match the clause into CLAUSE; whether there are any."""
    begin, end = at(table.constraint_start, clause), at(table.constraint_start, clause + 1)
    masks = lanes.masks
    live = int(ALL)
    if not at(lanes.info, DENSE):
        for constraint in range(begin, end):
            if at(table.accepts_null, constraint):
                continue
            row = row_of(lanes, at(table.attr, constraint))
            if row == UNUSED or not and_between8(masks, CLAUSE, live, presence(lanes, row), NONE):
                return False
            live = int(CLAUSE)
    work[CANDIDATES] += 1
    for constraint in range(begin, end):
        row = row_of(lanes, at(table.attr, constraint))
        interval = at(table.interval_start, constraint)
        simple = at(table.interval_start, constraint + 1) == interval + 1 and not at(table.accepts_null, constraint)
        if simple and row == UNUSED:
            return False
        work[COMPARED] += 1
        if simple:
            upper = starting_by(lanes, row, at(table.hi, interval))
            lower = ended_before(lanes, row, at(table.lo, interval))
        else:
            hold_lanes(table, events, lanes, constraint, row, live)
            upper, lower = HOLD, NONE
        if not and_between8(masks, CLAUSE, live, upper, lower):
            return False
        live = int(CLAUSE)
    return and_between8(masks, CLAUSE, live, ALL, NONE)


@inlined
def hold_lanes(table: SegmentArrays, events: EventArrays, lanes: Lanes, constraint: int, row: int, live: int) -> None:
    """Put into HOLD those of the `live` lanes for which the constraint holds (and maybe lanes that are not live)."""
    masks = lanes.masks
    and_between8(masks, HOLD, NONE, NONE, NONE)
    if row != UNUSED:
        begin, end = at(table.interval_start, constraint), at(table.interval_start, constraint + 1)
        if end - begin > FEW and count_lanes(masks, live) < end - begin:
            _hold_each(table, events, lanes, constraint, live)
        else:
            for interval in range(begin, end):
                upper = starting_by(lanes, row, at(table.hi, interval))
                lower = ended_before(lanes, row, at(table.lo, interval))
                or_between8(masks, HOLD, HOLD, upper, lower)
    if at(table.accepts_null, constraint):
        or_between8(masks, HOLD, HOLD, ALL, NONE if row == UNUSED else presence(lanes, row))


@inlined
def _hold_each(table: SegmentArrays, events: EventArrays, lanes: Lanes, constraint: int, live: int) -> None:
    """Add to HOLD the live lanes whose value is in an interval of the constraint, by a search for each lane."""
    begin, end = at(table.interval_start, constraint), at(table.interval_start, constraint + 1)
    for part in range(VECTOR):
        bits = at(lanes.masks, live + part)
        while bits:
            bit = ctz64(bits)
            e = at(lanes.info, FIRST) + (part << 6) + bit
            position = find_attribute(events, e, at(table.attr, constraint))
            if position != ABSENT and overlaps(
                table.lo, table.hi, begin, end, events.lo[position], events.hi[position]
            ):
                lanes.masks[HOLD + part] |= np.uint64(1) << np.uint64(bit)
            bits &= bits - np.uint64(1)


@inlined
def count_lanes(masks: U64, mask: int) -> int:
    """How many lanes a mask has."""
    total = 0
    for part in range(VECTOR):
        total += popcount64(masks[mask + part])
    return total


@kernel
def rank_group(searched: Searched[tuple[()]], asked: Asked, lanes: Lanes, heaps: Heaps, work: I64) -> None:
    """Leave in each lane's heap its k best eligible slots from asked.slot on, best first."""
    table, events, eligible, k = searched.table, asked.events, asked.eligible, asked.k
    slots = len(table.clause_start) - 1
    floor, changed = -np.inf, True
    for word in range(asked.slot >> 6, min(len(eligible), (slots + 63) >> 6)):
        bits = eligible_word(eligible, word, asked.slot, slots)
        if changed and asked.relaxed:
            floor, changed = _close_full(lanes, heaps, k), False
        while bits:
            slot = (word << 6) + ctz64(bits)
            bits &= bits - np.uint64(1)
            if asked.relaxed:
                some = relaxed_lanes(table, events, lanes, slot, floor, asked.heaviest, work)
            else:
                some = slot_lanes(table, events, lanes, slot, work)
            if some:
                changed |= _offer(table, asked, lanes, slot, heaps, work)
    for lane in range(at(lanes.info, COUNT)):
        sort_heap(heaps, lane * k, heaps.size[lane])


@inlined
def relaxed_lanes(
    table: SegmentArrays, events: EventArrays, lanes: Lanes, slot: int, floor: float, heaviest: float, work: I64
) -> bool:
    """Put into HITS the lanes that may take the slot as a relaxed answer; whether there are any.

    `at_least(j)` = the lanes for which j constraints of a clause hold. A lane whose heap is full needs enough of them
    that their weights can lift the score to `floor`, the lowest score that any full heap would still take; a lane
    with room needs one.
    """
    masks = lanes.masks
    and_between8(masks, HITS, NONE, NONE, NONE)
    static = static_score(table, slot)
    for clause in range(at(table.clause_start, slot), at(table.clause_start, slot + 1)):
        begin, end = at(table.constraint_start, clause), at(table.constraint_start, clause + 1)
        work[CANDIDATES] += 1
        if begin == end:
            or_between8(masks, HITS, HITS, ALL, NONE)
            continue
        needed = _needed(table, begin, end, static, floor, heaviest)
        hopeless = needed > end - begin
        if hopeless and not and_between8(masks, HOLD, ALL, ALL, CLOSED):
            work[PRUNED] += 1
            continue
        levels = 1 if hopeless else min(needed, LEVELS)
        for level in range(1, levels + 1):
            and_between8(masks, at_least(level), NONE, NONE, NONE)
        for constraint in range(begin, end):
            work[COMPARED] += 1
            hold_lanes(table, events, lanes, constraint, row_of(lanes, at(table.attr, constraint)), int(ALL))
            and_between8(masks, HOLD, ALL, ALL, HOLD)  # now the lanes for which it fails
            for level in range(levels, 0, -1):
                or_between8(masks, at_least(level), at_least(level), at_least(level - 1), HOLD)
        or_between8(masks, HITS, HITS, at_least(1), CLOSED)
        if not hopeless:
            or_between8(masks, HITS, HITS, at_least(levels), NONE)
    return and_between8(masks, HITS, HITS, ALL, NONE)


@inlined
def at_least(level: int) -> int:
    """The working mask of lanes for which this many constraints hold; for 0, all lanes."""
    return ALL + VECTOR * level


@inlined
def _needed(table: SegmentArrays, begin: int, end: int, static: float, floor: float, heaviest: float) -> int:
    """How many of the constraints begin..end must hold to reach the floor; one more than there are when none do."""
    greatest = heaviest
    if len(table.weight):
        greatest = 0.0
        for constraint in range(begin, end):
            greatest = max(greatest, table.weight[constraint] * heaviest)
    needed = 1
    while needed <= end - begin and raised(static, needed * greatest) < floor:
        needed += 1
    return needed


@inlined
def _ceiling(table: SegmentArrays, slot: int, heaviest: float) -> float:
    """No event can give the slot a higher score."""
    most = 0.0
    for clause in range(at(table.clause_start, slot), at(table.clause_start, slot + 1)):
        begin, end = at(table.constraint_start, clause), at(table.constraint_start, clause + 1)
        total = heaviest * (end - begin)
        if len(table.weight):
            total = 0.0
            for constraint in range(begin, end):
                total += at(table.weight, constraint) * heaviest
        most = max(most, total)
    return raised(static_score(table, slot), most)


@inlined
def _offer(table: SegmentArrays, asked: Asked, lanes: Lanes, slot: int, heaps: Heaps, work: I64) -> bool:
    """Score the slot for the lanes in HITS and keep it where it is among the k best; whether any heap changed."""
    k, ceiling = asked.k, _ceiling(table, slot, asked.heaviest)
    changed = False
    for part in range(VECTOR):
        hits = at(lanes.masks, HITS + part)
        while hits:
            lane = (part << 6) + ctz64(hits)
            hits &= hits - np.uint64(1)
            if at(heaps.size, lane) == k and ceiling < at(heaps.score, lane * k):
                work[PRUNED] += 1
                continue
            qualifies, score = slot_score(table, slot, asked.events, lanes.info[FIRST] + lane, asked.relaxed)
            work[SCORED] += 1
            if qualifies:
                work[MATCHED] += 1
                changed |= push(heaps, lane, k, score, table.sequence[slot], slot)
    return changed


@inlined
def _close_full(lanes: Lanes, heaps: Heaps, k: int) -> float:
    """Put the lanes with full heaps into CLOSED; the lowest of their worst scores."""
    floor = np.inf
    for lane in range(at(lanes.info, COUNT)):
        if at(heaps.size, lane) == k:
            lanes.masks[CLOSED + (lane >> 6)] |= np.uint64(1) << np.uint64(lane & 63)
            floor = min(floor, heaps.score[lane * k])
    return floor


@embedded
def match_one(searched: Searched[tuple[()]], asked: Asked, scratch: U8, matches: Matches) -> tuple[int, int]:
    """The eligible slots that a single event matches, row by row (`kernels.py`)."""
    slots = len(searched.table.clause_start) - 1
    found, stopped = rows_matching(searched.table, asked.events, asked.first, asked.eligible, asked.slot, matches.slots)
    return found, asked.last if stopped == slots else asked.first
