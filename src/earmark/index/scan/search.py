"""The scan's kernels: every eligible subscription against up to 512 events side by side.

A clause starts with all lanes and keeps, constraint by constraint, those for which it holds; it is left as soon
as none remain. Before any key is looked at, the lanes that have the clause's attributes are intersected: where
events use few of many attributes, most clauses end there.

A constraint of many intervals (a long IN list) is searched per live lane when fewer lanes live than it has
intervals. Ranked search keeps one bounded heap a lane, its worst answer on top.

**Lanes.** Each event of a group is a *lane*: one bit of a 512-bit mask. For each attribute that the group uses there
is a *row*: the lanes' keys in sorted order, and for every r the mask of the r lanes that sort first.

    attribute a of three events     lane 0: 40    lane 1: 7    lane 2: 23

    keys      7   23   40
    masks     000      010      110      111          r = 0, 1, 2, 3 (lane 0 is the rightmost bit)

A point is in [lo, hi] when it is among the first count(keys <= hi), but not among the first count(keys < lo):

    a in [10, 30]:   masks[2] & ~masks[1]  =  110 & ~010  =  100            lane 2

An interval event overlaps when its *lo* <= hi and its *hi* >= lo, so a row keeps both sides, each sorted by
itself; where all lanes are points the two sides are one. A lane without the attribute is in no mask of the row.

The counts come from an 8-ary tree over the sorted keys: a node is 8 keys, one vector comparison, and 512 keys
are three levels. A row's nodes are laid out as [top][middles][leaves]; rows of at most 64 (8) keys begin lower.

Invariant: masks[r] has exactly the r lanes that sort first; in the upper levels each key is the last of its
child, except that the last child's, and all padding, is the greatest int64, which is never counted.

Complexity: laying out a group of n values over r attributes, O(n log^2 n); space 64 bytes a value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat.arrays import I32, I64, U8, U64
from earmark.flat.machine import VECTOR, aligned, and_between8, at, count_less8, ctz64, or_between8, popcount64
from earmark.index.counters import CANDIDATES, COMPARED, MATCHED, PRUNED, SCORED
from earmark.index.kernels import SLOT_BITS, Asked, Matches, Searched, push_living
from earmark.index.ranking import Heaps, raised, sort_heap
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
LANES = 512
GREATEST = np.iinfo(np.int64).max
UNUSED = -1
"""Row of an attribute that no event of the group has."""

# Fields of `info`: the events, whether each has every attribute of the group; rows, nodes and masks in use.
FIRST, COUNT, DENSE, ROWS, NODES, MASKS = 0, 1, 2, 3, 4, 5
INFO = 6

# Fields of a row.
KEYS, TREE_LO, TREE_HI, MASK_LO, MASK_HI, BASE, FILL, EXTENDED = 0, 1, 2, 3, 4, 5, 6, 7
ROW = 8

# Masks at the front of `masks`: constants, and a search's working masks. at_least(j) follows ALL for j = 1..LEVELS.
NONE, CLAUSE, HOLD, HITS, CLOSED, ALL = 0, 8, 16, 24, 32, 40
LEVELS = 8
HEADER = ALL + VECTOR * (LEVELS + 1)

GAPS = (301, 132, 57, 23, 10, 4, 1)
"""Ciura's increments, enough for 512 keys."""


class Lanes(NamedTuple):
    """A group of events as kernels read it. Belongs to one search in one thread: it holds working masks."""

    info: I64
    row_of_attr: I32
    rows: I64
    tree: I64
    masks: U64
    keys: I64
    who: I32


def lay_out(events: EventArrays, first: int, last: int) -> Lanes:
    """The events first..last (at most LANES) as lanes."""
    begin, end = int(events.start[first]), int(events.start[last])
    values = end - begin
    attributes = int(events.attr[begin:end].max()) + 1 if values else 0
    rows = min(values, attributes)
    lanes = Lanes(
        info=np.zeros(INFO, np.int64),
        row_of_attr=np.full(attributes, UNUSED, np.int32),
        rows=np.zeros(rows * ROW, np.int64),
        tree=aligned(2 * (values + values // VECTOR + 3 * VECTOR * rows), np.int64),
        masks=aligned(HEADER + 2 * VECTOR * (values + rows), np.uint64),
        keys=np.empty(values, np.int64),
        who=np.empty(values, np.int32),
    )
    _fill(events, first, last, lanes)
    return lanes


@inlined
def row_of(lanes: Lanes, attr: int) -> int:
    """Where the attribute's row begins in `rows`, or UNUSED."""
    if attr >= len(lanes.row_of_attr):
        return UNUSED
    return int(at(lanes.row_of_attr, attr))


@inlined
def presence(lanes: Lanes, row: int) -> int:
    """The mask of lanes that have the row's attribute."""
    return int(at(lanes.rows, row + MASK_LO) + VECTOR * at(lanes.rows, row + KEYS))


@inlined
def starting_by(lanes: Lanes, row: int, key: int) -> int:
    """The mask of lanes whose lo is at most key."""
    if key == GREATEST:
        return presence(lanes, row)
    count = _rank(lanes.tree, at(lanes.rows, row + TREE_LO), at(lanes.rows, row + KEYS), key + 1)
    return int(at(lanes.rows, row + MASK_LO) + VECTOR * count)


@inlined
def ended_before(lanes: Lanes, row: int, key: int) -> int:
    """The mask of lanes whose hi is below key."""
    count = _rank(lanes.tree, at(lanes.rows, row + TREE_HI), at(lanes.rows, row + KEYS), key)
    return int(at(lanes.rows, row + MASK_HI) + VECTOR * count)


@inlined
def _rank(tree: I64, node: int, keys: int, key: int) -> int:
    """How many of the row's keys are below key; its nodes begin at `node`."""
    child = 0
    if keys > 64:
        child = VECTOR * count_less8(tree, node, key)
        node += VECTOR
    if keys > 8:
        child = VECTOR * (child + count_less8(tree, node + child, key))
        node += VECTOR * ((keys + 63) >> 6)
    return child + count_less8(tree, node + child, key)


@kernel
def _fill(events: EventArrays, first: int, last: int, lanes: Lanes) -> None:
    """Fill freshly allocated lanes."""
    rows, row_of_attr, masks = lanes.rows, lanes.row_of_attr, lanes.masks
    lanes.info[FIRST], lanes.info[COUNT] = first, last - first
    masks[:HEADER] = 0
    for lane in range(last - first):
        masks[ALL + (lane >> 6)] |= np.uint64(1) << np.uint64(lane & 63)
    used, sides = 0, 1
    for position in range(events.start[first], events.start[last]):
        attr = events.attr[position]
        if row_of_attr[attr] == UNUSED:
            row_of_attr[attr] = used * ROW
            used += 1
        row = row_of_attr[attr]
        rows[row + KEYS] += 1
        if events.lo[position] != events.hi[position]:
            rows[row + EXTENDED] = 1
            sides = 2
    dense, base = True, 0
    for row in range(0, used * ROW, ROW):
        rows[row + BASE] = base
        base += rows[row + KEYS]
        dense = dense and rows[row + KEYS] == last - first
    lanes.info[DENSE], lanes.info[ROWS], lanes.info[MASKS] = dense, used * ROW, HEADER
    for side in range(sides):
        _fill_side(events, lanes, side)
    for row in range(0, used * ROW, ROW):
        if not rows[row + EXTENDED]:
            rows[row + TREE_HI], rows[row + MASK_HI] = rows[row + TREE_LO], rows[row + MASK_LO]


@inlined
def _fill_side(events: EventArrays, lanes: Lanes, side: int) -> None:
    """Sort side 0 (lo) or 1 (hi) of every row into its tree and masks."""
    info, rows = lanes.info, lanes.rows
    column = events.hi if side else events.lo
    for row in range(0, info[ROWS], ROW):
        rows[row + FILL] = rows[row + BASE]
    for lane in range(info[COUNT]):
        e = info[FIRST] + lane
        for position in range(events.start[e], events.start[e + 1]):
            row = lanes.row_of_attr[events.attr[position]]
            fill = rows[row + FILL]
            lanes.keys[fill], lanes.who[fill] = column[position], lane
            rows[row + FILL] = fill + 1
    for row in range(0, info[ROWS], ROW):
        if side and not rows[row + EXTENDED]:
            continue
        begin, end = rows[row + BASE], rows[row + FILL]
        _sort(lanes.keys[begin:end], lanes.who[begin:end])
        rows[row + TREE_LO + side], rows[row + MASK_LO + side] = info[NODES], info[MASKS]
        info[NODES] = _fill_tree(lanes.tree, info[NODES], lanes.keys[begin:end])
        info[MASKS] = _fill_masks(lanes.masks, info[MASKS], lanes.who[begin:end])


@inlined
def _sort(keys: I64, who: I32) -> None:
    """Shell sort of a row's keys, the lanes with them."""
    for gap in GAPS:
        for i in range(gap, len(keys)):
            key, lane = keys[i], who[i]
            j = i
            while j >= gap and keys[j - gap] > key:
                keys[j], who[j] = keys[j - gap], who[j - gap]
                j -= gap
            keys[j], who[j] = key, lane


@inlined
def _fill_tree(tree: I64, node: int, keys: I64) -> int:
    """Write a row's nodes, top first; returns where they end. A level's key ends a stretch of 64, 8 or 1 keys."""
    for stretch in (64, 8, 1):
        if 1 < stretch >= len(keys):
            continue
        nodes = (len(keys) + stretch * VECTOR - 1) // (stretch * VECTOR)
        for i in range(nodes * VECTOR):
            end = (i + 1) * stretch
            inside = end <= len(keys) if stretch == 1 else end < len(keys)
            tree[node + i] = keys[end - 1] if inside else GREATEST
        node += nodes * VECTOR
    return node


@inlined
def _fill_masks(masks: U64, mask: int, who: I32) -> int:
    """Write the masks of the first 0, 1, 2 … lanes; returns where they end."""
    masks[mask : mask + VECTOR] = 0
    for lane in who:
        for word in range(VECTOR):
            masks[mask + VECTOR + word] = masks[mask + word]
        mask += VECTOR
        masks[mask + (lane >> 6)] |= np.uint64(1) << np.uint64(lane & 63)
    return mask + VECTOR


# --- matching --------------------------------------------------------------------------------------------------------


@embedded
def match_group(searched: Searched[tuple[()]], asked: Asked, lanes: Lanes, matches: Matches) -> tuple[int, int]:
    """(lane << SLOT_BITS) | slot of every match among the eligible slots from asked.slot on, ascending by slot.

    Returns how many, and the slot to resume at: it stops where there might not be room for one slot's matches.
    """
    table, events, eligible = searched.table, asked.events, asked.eligible
    counts, out, work = matches.counts, matches.slots, matches.work
    found, slots = 0, len(table.clause_start) - 1
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
            i = find_attribute(events, e, at(table.attr, constraint))
            if i != ABSENT and overlaps(table.lo, table.hi, begin, end, events.lo[i], events.hi[i]):
                lanes.masks[HOLD + part] |= np.uint64(1) << np.uint64(bit)
            bits &= bits - np.uint64(1)


@inlined
def count_lanes(masks: U64, mask: int) -> int:
    """How many lanes a mask has."""
    total = 0
    for part in range(VECTOR):
        total += popcount64(masks[mask + part])
    return total


# --- ranking ---------------------------------------------------------------------------------------------------------


@embedded
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
    greatest = 0.0 if len(table.weight) else heaviest
    for constraint in range(begin, end if len(table.weight) else begin):
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
        total = 0.0 if len(table.weight) else heaviest * (end - begin)
        for constraint in range(begin, end if len(table.weight) else begin):
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
            e = lanes.info[FIRST] + lane
            qualifies, score = slot_score(table, slot, asked.events, e, asked.relaxed)
            work[SCORED] += 1
            if qualifies:
                work[MATCHED] += 1
                changed |= push_living(heaps, table, asked, e, score, table.sequence[slot], slot)
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
