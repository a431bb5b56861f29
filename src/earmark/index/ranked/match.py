"""All that an event matches, in one walk over the lists: no order, no bound, each clause verified once.

The event's attributes are taken in turn, and of each list the nodes that the event's value or interval reaches; a slot
that is reached more than once counts once (`stamp`). Runs of entries are walked as in `walk.py`.

Complexity: O(intervals that the event meets) candidates, plus the nodes above them.
"""

from __future__ import annotations

import earmark.index.ranked.arrays as sc
from earmark.flat.arrays import I64
from earmark.flat.machine import at
from earmark.index.counters import CANDIDATES, LEAVES, NODES, back_to, work_so_far
from earmark.index.kernels import Asked, Matches, Searched
from earmark.index.marks import close_event, is_set
from earmark.index.ranked.arrays import ScoredParts, Trees, int64
from earmark.index.ranked.walk import (
    HERE,
    LEFT_OVER,
    WalkScratch,
    is_extended,
    list_for,
    next_in_run,
    next_stamp,
    seen_before,
)
from earmark.jit import embedded, inlined
from earmark.segment.evaluate import slot_matches


@embedded
def match_events(
    searched: Searched[ScoredParts], asked: Asked, scratch: WalkScratch, matches: Matches
) -> tuple[int, int]:
    """Find all eligible slots that match each event, ascending (`kernels.py`)."""
    found = 0
    for e in range(asked.first, asked.last):
        before = work_so_far(matches.work)
        next_stamp(scratch)
        end = _match_event(searched, asked, e, scratch, matches, found)
        if end < 0:
            back_to(matches.work, before)
            return found, e
        found = close_event(matches, e - asked.first, found, end, scratch.marks, scratch.summary)
    return found, asked.last


@inlined
def _match_event(
    searched: Searched[ScoredParts], asked: Asked, e: int, scratch: WalkScratch, matches: Matches, found: int
) -> int:
    """Write the matches of one event from `found` on, in any order; returns where they end, or -1 for want of room.

    Candidates are the loose slots, then what the lists give. `heap_ref` is the stack of nodes still to be opened.
    """
    trees, listing = searched.arrays.trees, searched.arrays.listing
    events, out, work = asked.events, matches.slots, matches.work
    info, nodes = trees.info, scratch.heap_ref
    position, end = at(events.start, e) - 1, at(events.start, e + 1)
    kind, segments = 1 if at(info, sc.EXACT) == 0 else 0, at(info, sc.SHAPE) == sc.SEGMENTS
    extended = is_extended(events.lo, events.hi, position + 1, end)
    once = at(info, sc.ONE_CLAUSE) != 0 and len(listing.needed) == 0 and not extended and kind == 0
    next_loose, loose_end = (int64(0), at(info, sc.LOOSE)) if kind == 0 else (at(info, sc.LOOSE), len(listing.loose))
    waiting, in_run, sure = 0, False, False
    key_lo = key_hi = which = int64(0)
    node = int64(sc.EMPTY)
    while True:
        entry = int64(sc.EMPTY)
        if next_loose < loose_end:
            slot = int(at(listing.loose, next_loose))
            next_loose += 1
        elif in_run:
            entry = _next_entry(trees, scratch, segments, node, key_lo, key_hi, work)
            node = int64(sc.EMPTY)
            in_run = entry >= 0
            if not in_run:
                continue
            slot = int(at(trees.ref, entry))
        elif waiting:
            waiting -= 1
            node = at(nodes, waiting)
            work[NODES] += 1
            if segments:
                waiting = _open_part(trees, scratch.run, nodes, which, node, waiting, key_lo, key_hi)
                in_run = at(scratch.run, HERE) < at(scratch.run, LEFT_OVER)
                work[LEAVES] += in_run
            else:
                waiting = _push_children(trees, nodes, node, waiting, key_lo, key_hi)
                in_run = at(trees.node, node * sc.NODE + sc.FIRST_BLOCK) >= 0
            continue
        else:
            position += 1
            if position >= end:
                return found
            which = int64(list_for(listing.list_of, at(events.attr, position), kind))
            if which != sc.EMPTY:
                sure = at(trees.lists, which * sc.LIST + sc.SOLE) != 0 and kind == 0
                key_lo, key_hi = at(events.lo, position), at(events.hi, position)
                nodes[0] = 1 if segments else at(trees.lists, which * sc.LIST + sc.ROOT)
                waiting = 1 if at(trees.lists, which * sc.LIST + sc.ROOT) >= 0 else 0
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
def _next_entry(
    trees: Trees, scratch: WalkScratch, segments: bool, node: int, key_lo: int, key_hi: int, work: I64
) -> int:
    """The next entry of the current run that the event meets, or EMPTY; with a node, the first of the node's run."""
    run = scratch.run
    if segments:
        here = at(run, HERE)
        run[HERE] = here + 1
        return int64(at(trees.part, here)) if here < at(run, LEFT_OVER) else int64(sc.EMPTY)  # type: ignore[no-any-return]
    moved = next_in_run(trees, run, scratch.stack, 0, node, key_lo, key_hi, work)
    return int64(at(run, HERE)) if moved else int64(sc.EMPTY)  # type: ignore[no-any-return]


@inlined
def _push_children(trees: Trees, nodes: I64, node: int, waiting: int, key_lo: int, key_hi: int) -> int:
    """Put the children of a node that the event can reach on the stack; returns its new height."""
    left, right = at(trees.node, node * sc.NODE + sc.LEFT), at(trees.node, node * sc.NODE + sc.RIGHT)
    if left >= 0 and key_lo < at(trees.node_key, node):
        nodes[waiting] = left
        waiting += 1
    if right >= 0 and key_hi > at(trees.node_key, node):
        nodes[waiting] = right
        waiting += 1
    return waiting


@inlined
def _open_part(
    trees: Trees, run: I64, waiting_nodes: I64, which: int, node: int, waiting: int, key_lo: int, key_hi: int
) -> int:
    """Begin the part of a node of a segment tree, and put the children that the event can reach on the stack."""
    lists, row = trees.lists, which * sc.LIST
    root, size = at(lists, row + sc.ROOT), at(lists, row + sc.SIZE)
    cuts, last = at(lists, row + sc.CUT_FIRST), at(lists, row + sc.CUT_LAST)
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
