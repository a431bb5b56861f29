"""All clauses that an event matches: down the p-nodes of its attributes, through the buckets that its values meet.

For each event, its values are spread over an array by attribute, and its attributes over the bits of a signature.

    value   attribute 0: [4, 4]   1: absent   2: [7, 9]   ...      an absent one has the empty interval
    sign    bit 0, bit 2

From the root c-node: scan the l-node; for each attribute that both the event and the p-directory have, enter its
c-directory; there, visit every bucket whose box the event's value meets, and its own c-node only when the value meets
its own box. A clause of an l-node is verified only when its signature is within the event's: by its record or, where it
has none, in the table.

At the end of each event, matched slots are sorted and duplicates (several clauses of one slot) are dropped: a few by
insertion, many through a bitmap over slots with a second bitmap over its words.

Complexity: O(buckets met x attributes + entries of their l-nodes + constraints of the candidates).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import earmark.index.be_star_tree.arrays as be
from earmark.events.arrays import EventArrays
from earmark.flat.arrays import F64, I32, I64, U64
from earmark.flat.bisection import bisect_left
from earmark.flat.machine import at
from earmark.index.be_star_tree.arrays import TreeArrays
from earmark.index.be_star_tree.nodes import whole
from earmark.index.counters import CANDIDATES, COMPARED, LEAVES, NODES, back_to, work_so_far
from earmark.index.kernels import Asked, Matches, Searched
from earmark.index.marks import close_event, is_set, new_marks
from earmark.jit import embedded
from earmark.segment.evaluate import clause_failures

FULL = -1
"""Returned in place of a number of slots: there was no room for them."""
WIDE = 6
"""A p-directory with more p-nodes than this many times the event's attributes is searched, not walked."""


class TreeScratch(NamedTuple):
    """Working memory of a search; every search restores it, so that it can be used again."""

    value: I64
    """The event's [lo, hi] by attribute."""
    stack: I32
    """Buckets to visit."""
    marks: U64
    summary: U64
    """Slots that came up, and the words of `marks` that are not zero."""
    bound: F64
    bucket: I32
    """The p-node max-heap of a ranked search, from 1 on: bounds and root buckets; bucket[0] is its size."""


def new_scratch(tree: TreeArrays, slots: int) -> TreeScratch:
    """Make working memory for searches of a tree over `slots` slots."""
    value = np.empty(2 * max(len(tree.rate), 1), np.int64)
    value[0::2], value[1::2] = be.HIGHEST, be.LOWEST
    waiting = int(tree.head[be.PNODES]) + 4
    stack = np.empty(int(tree.head[be.BUCKETS]) + 1, np.int32)
    return TreeScratch(value, stack, *new_marks(slots), np.empty(waiting), np.zeros(waiting, np.int32))


@embedded
def spread_event(events: EventArrays, e: int, scratch: TreeScratch) -> np.uint64:
    """Write the event's values into `value` by attribute; returns its signature."""
    sign = np.uint64(0)
    known = len(scratch.value) >> 1
    for i in range(at(events.start, e), at(events.start, e + 1)):
        attr = at(events.attr, i)
        sign |= np.uint64(1) << np.uint64(attr & (be.BINS - 1))
        if attr < known:
            scratch.value[2 * attr], scratch.value[2 * attr + 1] = at(events.lo, i), at(events.hi, i)
    return sign


@embedded
def clear_event(events: EventArrays, e: int, scratch: TreeScratch) -> None:
    """Mark the event's attributes as absent again."""
    known = len(scratch.value) >> 1
    for i in range(at(events.start, e), at(events.start, e + 1)):
        attr = at(events.attr, i)
        if attr < known:
            scratch.value[2 * attr], scratch.value[2 * attr + 1] = be.HIGHEST, be.LOWEST


@embedded
def record_holds(tree: TreeArrays, start: int, scratch: TreeScratch, work: I64) -> bool:
    """Whether all constraints of a record hold for the event."""
    n = at(tree.word, start) & 0xFFFF
    pairs = start + ((n + 4) >> 2)
    j = 0
    while j < n:
        lane = j + 1
        attr = (at(tree.word, start + (lane >> 2)) >> (16 * (lane & 3))) & 0xFFFF
        lo, hi = at(tree.word, pairs + 2 * j), at(tree.word, pairs + 2 * j + 1)
        j += 1
        if (lo > at(scratch.value, 2 * attr + 1)) | (at(scratch.value, 2 * attr) > hi):
            work[int(COMPARED)] += j
            return False
    work[int(COMPARED)] += n
    return True


@embedded
def entry_holds(
    searched: Searched[TreeArrays], events: EventArrays, e: int, entry: int, scratch: TreeScratch, work: I64
) -> bool:
    """Whether all constraints of an entry's clause hold."""
    tree, table = searched.arrays, searched.table
    work[int(CANDIDATES)] += 1
    record = at(tree.record, entry)
    if record != be.NONE:
        return record_holds(tree, record, scratch, work)
    clause = at(tree.clause, entry)
    work[int(COMPARED)] += at(table.constraint_start, clause + 1) - at(table.constraint_start, clause)
    return clause_failures(table, clause, events, e, 0) == 0


@embedded
def meets(tree: TreeArrays, b: int, box: int, scratch: TreeScratch) -> bool:
    """Whether the event's value meets a box of a bucket on its active dimension: the whole (LO) or its own (OWN_LO)."""
    attr = at(tree.link, b * be.LINK + be.ATTR)
    low, high = at(scratch.value, 2 * attr), at(scratch.value, 2 * attr + 1)
    return bool((at(tree.box, b * be.BOX + box) <= high) & (low <= at(tree.box, b * be.BOX + box + 1)))


@embedded
def push_children(tree: TreeArrays, b: int, scratch: TreeScratch, height: int, everything: bool) -> int:
    """Put the children that the event meets, or `everything`, on the stack; returns its new height."""
    for side in range(2):
        child = at(tree.link, b * be.LINK + be.LEFT + side)
        if child != be.NONE and (everything or meets(tree, child, be.LO, scratch)):
            scratch.stack[height] = child
            height += 1
    return height


@embedded
def meets_own(tree: TreeArrays, b: int, scratch: TreeScratch) -> bool:
    """Whether the event meets the box of the bucket's own c-node; always at the root."""
    return bool(b == be.ROOT) or meets(tree, b, be.OWN_LO, scratch)


@embedded
def push_pnodes(
    tree: TreeArrays, events: EventArrays, e: int, b: int, scratch: TreeScratch, height: int, everything: bool
) -> int:
    """Put the root buckets of p-nodes that the event meets, or `everything`, on the stack; returns its new height."""
    begin = whole(at(tree.link, b * be.LINK + be.PDIR))
    end = begin + at(tree.link, b * be.LINK + be.WIDTH)
    first, last = at(events.start, e), at(events.start, e + 1)
    if everything or end - begin <= int(WIDE) * (last - first):
        for d in range(begin, end):
            attr = at(tree.pdir_attr, d)
            if everything or at(scratch.value, 2 * attr) <= at(scratch.value, 2 * attr + 1):
                height = push_root(tree, d, scratch, height, everything)
        return height
    known, d = len(scratch.value) >> 1, begin
    for i in range(first, last):
        attr = at(events.attr, i)
        if attr >= known:
            break
        d = bisect_left(tree.pdir_attr, d, end, attr)
        if d < end and at(tree.pdir_attr, d) == attr:
            height = push_root(tree, d, scratch, height, False)
    return height


@embedded
def push_root(tree: TreeArrays, d: int, scratch: TreeScratch, height: int, everything: bool) -> int:
    """Put the root bucket of the p-node at place d of a p-directory on the stack, if the event meets it."""
    root = at(tree.pnode, at(tree.pdir_node, d) * be.PART + be.PROOT)
    if everything or meets(tree, root, be.LO, scratch):
        scratch.stack[height] = root
        height += 1
    return height


@embedded
def match_events(
    searched: Searched[TreeArrays], asked: Asked, scratch: TreeScratch, matches: Matches
) -> tuple[int, int]:
    """Find the eligible slots that match each event, ascending (`kernels.py`)."""
    found = 0
    for e in range(asked.first, asked.last):
        before = work_so_far(matches.work)
        end = match_event(searched, asked, e, scratch, matches, found)
        clear_event(asked.events, e, scratch)
        if end == int(FULL):
            back_to(matches.work, before)
            return found, e
        found = close_event(matches, e - asked.first, found, end, scratch.marks, scratch.summary)
    return found, asked.last


@embedded
def match_event(
    searched: Searched[TreeArrays], asked: Asked, e: int, scratch: TreeScratch, matches: Matches, found: int
) -> int:
    """Append the slots of clauses that an event matches, in the order of the tree; where they end, or FULL."""
    tree, events, work = searched.arrays, asked.events, matches.work
    sign = spread_event(events, e, scratch)
    scratch.stack[0], height = be.ROOT, 1
    while height:
        height -= 1
        b = whole(at(scratch.stack, height))
        work[int(NODES)] += 1
        height = push_children(tree, b, scratch, height, False)
        if not meets_own(tree, b, scratch):
            continue
        height = push_pnodes(tree, events, e, b, scratch, height, False)
        first, count = at(tree.link, b * be.LINK + be.FIRST), at(tree.link, b * be.LINK + be.COUNT)
        work[int(LEAVES)] += 1 if count else 0
        for entry in range(first, first + count):
            if at(tree.sign, entry) & ~sign:
                continue
            if entry_holds(searched, events, e, entry, scratch, work):
                slot = at(tree.slot, at(tree.clause, entry))
                if is_set(asked.eligible, slot):
                    if found == len(matches.slots):
                        return int(FULL)
                    matches.slots[found] = slot
                    found += 1
    return found
