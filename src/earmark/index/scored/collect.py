"""Everything that an event matches, in one walk over the scored lists: no order, no bound, each clause verified once.

The other half of what the scored indexes answer; the best k are in `threshold.py`. An event's attributes are taken in
turn, and of each list the nodes that the event's value or interval reaches; a slot that comes up more than once
counts once (`stamp`).

Complexity: O(intervals that the event meets) candidates, plus the nodes above them.
"""

from __future__ import annotations

from earmark.events.arrays import EventArrays
from earmark.flat.machine import at
from earmark.flat.types import I32, I64, U64
from earmark.index.counters import CANDIDATES, MATCHED
from earmark.index.counters import NODES as NODES_SEEN
from earmark.index.marks import is_set
from earmark.index.scored.arrays import (
    CUT_FIRST,
    CUT_LAST,
    EMPTY,
    EXACT,
    FIRST_BLOCK,
    LEFT,
    LIST,
    LOOSE,
    NODE,
    ONE_CLAUSE,
    RIGHT,
    ROOT,
    SEGMENTS,
    SHAPE,
    SIZE,
    SOLE,
    Listing,
    Trees,
    int64,
)
from earmark.index.scored.walk import (
    HERE,
    LEFT_OVER,
    Scratch,
    next_in_run,
)
from earmark.index.threshold import is_extended, list_for
from earmark.jit import inlined, kernel
from earmark.segment.arrays import SegmentArrays
from earmark.segment.evaluate import slot_matches


@kernel
def match_events(
    trees: Trees,
    listing: Listing,
    table: SegmentArrays,
    events: EventArrays,
    eligible: U64,
    first: int,
    last: int,
    scratch: Scratch,
    counts: I64,
    out: I32,
    work: I64,
) -> tuple[int, int]:
    """All eligible slots that match the events from `first` on, in any order for each.

    Returns the event to resume at, the first whose answers did not fit into `out`, and how many there are before it.
    """
    found = 0
    for e in range(first, last):
        scratch.stamp[len(scratch.stamp) - 1] += 1
        end = match_event(trees, listing, table, events, eligible, e, scratch, out, found, work)
        if end < 0:
            return e, found
        counts[e] = end - found
        work[MATCHED] += end - found
        found = end
    return last, found


@inlined
def match_event(
    trees: Trees,
    listing: Listing,
    table: SegmentArrays,
    events: EventArrays,
    eligible: U64,
    e: int,
    scratch: Scratch,
    out: I32,
    found: int,
    work: I64,
) -> int:
    """Put the matches of one event into `out` from `found` on, in any order; where they end, or -1 for want of room.

    Candidates are the loose slots, then what the lists give. `heap_ref` is the stack of nodes still to be opened.
    """
    info, run, stack, waiting_nodes = trees.info, scratch.run, scratch.stack, scratch.heap_ref
    position, end = at(events.start, e) - 1, at(events.start, e + 1)
    kind, segments = 1 if at(info, EXACT) == 0 else 0, at(info, SHAPE) == SEGMENTS
    extended = is_extended(events.lo, events.hi, position + 1, end)
    once = at(info, ONE_CLAUSE) != 0 and len(listing.needed) == 0 and not extended and kind == 0
    next_loose, loose_end = (int64(0), at(info, LOOSE)) if kind == 0 else (at(info, LOOSE), len(listing.loose))
    waiting, in_run, sure = 0, False, False
    key_lo = key_hi = which = int64(0)
    node = int64(EMPTY)
    while True:
        entry = int64(EMPTY)
        if next_loose < loose_end:
            slot = int(at(listing.loose, next_loose))
            next_loose += 1
        elif in_run:
            if segments:
                in_run = at(run, HERE) < at(run, LEFT_OVER)
                if in_run:
                    entry = int64(at(trees.part, at(run, HERE)))
                    run[HERE] += 1
            else:
                in_run = next_in_run(trees, run, stack, 0, node, key_lo, key_hi, work)
                node = int64(EMPTY)
                if in_run:
                    entry = at(run, HERE)
            if not in_run:
                continue
            slot = int(at(trees.ref, entry))
        elif waiting:
            waiting -= 1
            node = at(waiting_nodes, waiting)
            work[NODES_SEEN] += 1
            if segments:
                waiting = open_part(trees, run, waiting_nodes, which, node, waiting, key_lo, key_hi)
                in_run = True
            else:
                left, right = at(trees.node, node * NODE + LEFT), at(trees.node, node * NODE + RIGHT)
                if left >= 0 and key_lo < at(trees.node_key, node):
                    waiting_nodes[waiting] = left
                    waiting += 1
                if right >= 0 and key_hi > at(trees.node_key, node):
                    waiting_nodes[waiting] = right
                    waiting += 1
                in_run = at(trees.node, node * NODE + FIRST_BLOCK) >= 0
            continue
        else:
            position += 1
            if position >= end:
                return found
            which = int64(list_for(listing.list_of, at(events.attr, position), kind))
            if which != EMPTY:
                sure = at(trees.lists, which * LIST + SOLE) != 0 and kind == 0
                key_lo, key_hi = at(events.lo, position), at(events.hi, position)
                waiting_nodes[0] = 1 if segments else at(trees.lists, which * LIST + ROOT)
                waiting = 1 if at(trees.lists, which * LIST + ROOT) >= 0 else 0
            continue
        work[CANDIDATES] += 1
        if not once:
            if at(scratch.stamp, slot) == at(scratch.stamp, len(scratch.stamp) - 1):
                continue
            scratch.stamp[slot] = at(scratch.stamp, len(scratch.stamp) - 1)
        if is_set(eligible, slot) and ((sure and entry >= 0) or slot_matches(table, slot, events, e)):
            if found == len(out):
                return -1
            out[found] = slot
            found += 1


@inlined
def open_part(
    trees: Trees, run: I64, waiting_nodes: I64, which: int, node: int, waiting: int, key_lo: int, key_hi: int
) -> int:
    """Begin the part of a node of a segment tree, and put the children that the event can reach on the stack."""
    row = which * LIST
    root, size, cuts = at(trees.lists, row + ROOT), at(trees.lists, row + SIZE), at(trees.lists, row + CUT_FIRST)
    last = at(trees.lists, row + CUT_LAST)
    run[HERE], run[LEFT_OVER] = at(trees.part_start, root + node), at(trees.part_start, root + node + 1)
    if key_hi < at(trees.cut, cuts):  # before the first atomic segment there is nothing
        run[LEFT_OVER] = run[HERE]
        return waiting
    first, width = node, 1
    while first < size:
        first, width = 2 * first, 2 * width
    middle = cuts + first - size + (width >> 1)
    if width > 1:
        if middle >= last or key_lo < at(trees.cut, middle):
            waiting_nodes[waiting] = 2 * node
            waiting += 1
        if middle < last and key_hi >= at(trees.cut, middle):
            waiting_nodes[waiting] = 2 * node + 1
            waiting += 1
    return waiting
