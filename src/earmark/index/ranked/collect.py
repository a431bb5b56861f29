"""Everything that an event matches, in one walk over the scored lists: no order, no bound, each clause verified once.

The other half of what the scored indexes answer; the best k are in `threshold.py`. An event's attributes are taken in
turn, and of each list the nodes that the event's value or interval reaches; a slot that comes up more than once
counts once (`stamp`).

Complexity: O(intervals that the event meets) candidates, plus the nodes above them.
"""

from __future__ import annotations

from earmark.flat.machine import at
from earmark.flat.types import I64
from earmark.index.counters import CANDIDATES, back_to, work_so_far
from earmark.index.counters import NODES as NODES_SEEN
from earmark.index.kernels import Asked, Matches, Searched
from earmark.index.marks import is_set, sort_slots
from earmark.index.ranked.arrays import (
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
    ScoredParts,
    Trees,
    int64,
)
from earmark.index.ranked.threshold import is_extended, list_for
from earmark.index.ranked.walk import (
    HERE,
    LEFT_OVER,
    WalkScratch,
    next_in_run,
    next_stamp,
    seen_before,
)
from earmark.jit import inlined, kernel
from earmark.segment.evaluate import slot_matches


@kernel
def match_events(
    searched: Searched[ScoredParts], asked: Asked, scratch: WalkScratch, matches: Matches
) -> tuple[int, int]:
    """All eligible slots that match each event, ascending (`kernels.py`)."""
    found = 0
    for e in range(asked.first, asked.last):
        before = work_so_far(matches.work)
        next_stamp(scratch)
        end = match_event(searched, asked, e, scratch, matches, found)
        if end < 0:
            back_to(matches.work, before)
            return found, e
        count = sort_slots(matches.slots, found, end - found, scratch.marks, scratch.summary)
        matches.counts[e - asked.first] = count
        found += count
    return found, asked.last


@inlined
def match_event(
    searched: Searched[ScoredParts], asked: Asked, e: int, scratch: WalkScratch, matches: Matches, found: int
) -> int:
    """Put the matches of one event into `out` from `found` on, in any order; where they end, or -1 for want of room.

    Candidates are the loose slots, then what the lists give. `heap_ref` is the stack of nodes still to be opened.
    """
    trees, listing = searched.arrays.trees, searched.arrays.listing
    events, out, work = asked.events, matches.slots, matches.work
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
        if not once and seen_before(scratch, slot):
            continue
        if is_set(asked.eligible, slot) and ((sure and entry >= 0) or slot_matches(searched.table, slot, events, e)):
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
