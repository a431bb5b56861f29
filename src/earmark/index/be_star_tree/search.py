"""All clauses that an event matches: down the p-nodes of its attributes, through the buckets that its values meet.

For each event, its values are spread over an array by attribute, and its attributes over the bits of a signature.

    value   attribute 0: [4, 4]   1: absent   2: [7, 9]   ...      an absent one has the empty interval
    sign    bit 0, bit 2

From the root c-node: scan the l-node; for each attribute that both the event and the p-directory have, enter its
c-directory; there, go on into every bucket whose box the event's value meets, into its own c-node only when the own box
is met. A clause of an l-node is looked at only when its signature is within the event's; then its record is verified,
or, where it has none, the table.

Matched slots are sorted and freed of doubles (several clauses of one slot) at the end of each event: few of them by
insertion, many through a bitmap over slots with a second bitmap over its words.

Complexity: O(buckets met x attributes + entries of their l-nodes + constraints of the candidates).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat.machine import at
from earmark.flat.types import F64, I32, I64, U64
from earmark.index.be_star_tree.arrays import (
    ATTR,
    BINS,
    BOX,
    BUCKETS,
    COUNT,
    FIRST,
    HI,
    HIGHEST,
    LEFT,
    LINK,
    LO,
    LOWEST,
    NONE,
    OWN_HI,
    OWN_LO,
    PART,
    PDIR,
    PNODES,
    PROOT,
    ROOT,
    WIDTH,
    TreeArrays,
)
from earmark.index.be_star_tree.nodes import whole
from earmark.index.counters import CANDIDATES, COMPARED, LEAVES, NODES, back_to, work_so_far
from earmark.index.kernels import Asked, Matches, Searched
from earmark.index.marks import is_set, new_marks, sort_slots
from earmark.jit import embedded, kernel
from earmark.segment.evaluate import clause_failures

FULL = -1
"""Instead of a number of slots: there was no room for them."""
WIDE = 6
"""A p-directory with more p-nodes than so many times the event's attributes is searched, not walked."""


class TreeScratch(NamedTuple):
    """Working memory of a search; left as it was found, so that it can be used again."""

    value: I64
    """The event's [lo, hi] by attribute."""
    stack: I32
    """Buckets to visit."""
    marks: U64
    summary: U64
    """Slots that came up, and the words of `marks` that are not zero."""
    bound: F64
    bucket: I32
    """The p-node max-heap of a ranked search, from 1 on: bounds, and the root buckets; bucket[0] is its size."""


def new_scratch(tree: TreeArrays, slots: int) -> TreeScratch:
    """Working memory for searches of a tree over so many slots."""
    value = np.empty(2 * max(len(tree.rate), 1), np.int64)
    value[0::2], value[1::2] = HIGHEST, LOWEST
    waiting = int(tree.head[PNODES]) + 4
    return TreeScratch(
        value,
        np.empty(int(tree.head[BUCKETS]) + 1, np.int32),
        *new_marks(slots),
        np.empty(waiting),
        np.zeros(waiting, np.int32),
    )


@embedded
def spread_event(events: EventArrays, e: int, scratch: TreeScratch) -> np.uint64:
    """Put the event's values where `value` looks for them; returns its signature."""
    sign = np.uint64(0)
    known = len(scratch.value) >> 1
    for i in range(at(events.start, e), at(events.start, e + 1)):
        attr = at(events.attr, i)
        sign |= np.uint64(1) << np.uint64(attr & (BINS - 1))
        if attr < known:
            scratch.value[2 * attr], scratch.value[2 * attr + 1] = at(events.lo, i), at(events.hi, i)
    return sign


@embedded
def clear_event(events: EventArrays, e: int, scratch: TreeScratch) -> None:
    """Make the event's attributes absent again."""
    known = len(scratch.value) >> 1
    for i in range(at(events.start, e), at(events.start, e + 1)):
        attr = at(events.attr, i)
        if attr < known:
            scratch.value[2 * attr], scratch.value[2 * attr + 1] = int(HIGHEST), int(LOWEST)


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
    """Whether the clause of an entry holds entirely."""
    tree, table = searched.arrays, searched.table
    work[int(CANDIDATES)] += 1
    record = at(tree.record, entry)
    if record != int(NONE):
        return record_holds(tree, record, scratch, work)
    clause = at(tree.clause, entry)
    work[int(COMPARED)] += at(table.constraint_start, clause + 1) - at(table.constraint_start, clause)
    return clause_failures(table, clause, events, e, 0) == 0


@embedded
def meets(tree: TreeArrays, b: int, scratch: TreeScratch) -> bool:
    """Whether the event's value meets a bucket's box on its active dimension."""
    attr = at(tree.link, b * LINK + ATTR)
    low, high = at(scratch.value, 2 * attr), at(scratch.value, 2 * attr + 1)
    return bool((at(tree.box, b * BOX + LO) <= high) & (low <= at(tree.box, b * BOX + HI)))


@embedded
def push_children(tree: TreeArrays, b: int, scratch: TreeScratch, height: int) -> int:
    """Put the children that the event meets on the stack; its new height."""
    for side in range(2):
        child = at(tree.link, b * LINK + LEFT + side)
        if child != int(NONE) and meets(tree, child, scratch):
            scratch.stack[height] = child
            height += 1
    return height


@embedded
def meets_own(tree: TreeArrays, b: int, scratch: TreeScratch) -> bool:
    """Whether the event meets what the bucket's own c-node holds; always at the root."""
    if b == int(ROOT):
        return True
    attr = at(tree.link, b * LINK + ATTR)
    low, high = at(scratch.value, 2 * attr), at(scratch.value, 2 * attr + 1)
    return bool((at(tree.box, b * BOX + OWN_LO) <= high) & (low <= at(tree.box, b * BOX + OWN_HI)))


@embedded
def push_pnodes(tree: TreeArrays, events: EventArrays, e: int, b: int, scratch: TreeScratch, height: int) -> int:
    """Put the root buckets of the event's attributes on the stack, those that it meets; the stack's new height."""
    begin = at(tree.link, b * LINK + PDIR)
    width = at(tree.link, b * LINK + WIDTH)
    first, last = at(events.start, e), at(events.start, e + 1)
    if width <= int(WIDE) * (last - first):
        for d in range(begin, begin + width):
            attr = at(tree.pdir_attr, d)
            if at(scratch.value, 2 * attr) <= at(scratch.value, 2 * attr + 1):
                root = at(tree.pnode, at(tree.pdir_node, d) * PART + PROOT)
                if meets(tree, root, scratch):
                    scratch.stack[height] = root
                    height += 1
        return height
    known = len(scratch.value) >> 1
    low = begin
    for i in range(first, last):
        attr = at(events.attr, i)
        if attr >= known:
            break
        high = begin + width
        while low < high:
            middle = (low + high) >> 1
            if at(tree.pdir_attr, middle) < attr:
                low = middle + 1
            else:
                high = middle
        if low < begin + width and at(tree.pdir_attr, low) == attr:
            root = at(tree.pnode, at(tree.pdir_node, low) * PART + PROOT)
            if meets(tree, root, scratch):
                scratch.stack[height] = root
                height += 1
    return height


@kernel
def match_events(
    searched: Searched[TreeArrays], asked: Asked, scratch: TreeScratch, matches: Matches
) -> tuple[int, int]:
    """Eligible slots of each event, ascending (`kernels.py`)."""
    found, e = 0, asked.first
    while e < asked.last:
        begin, before = found, work_so_far(matches.work)
        found = match_event(searched, asked, e, scratch, matches, found)
        clear_event(asked.events, e, scratch)
        if found == int(FULL):
            back_to(matches.work, before)
            return begin, e
        found = begin + sort_slots(matches.slots, begin, found - begin, scratch.marks, scratch.summary)
        matches.counts[e - asked.first] = found - begin
        e += 1
    return found, e


@embedded
def match_event(
    searched: Searched[TreeArrays], asked: Asked, e: int, scratch: TreeScratch, matches: Matches, found: int
) -> int:
    """Append the slots of clauses that an event matches, in the order of the tree; where they end, or FULL."""
    tree, events, work = searched.arrays, asked.events, matches.work
    sign = spread_event(events, e, scratch)
    scratch.stack[0], height = int(ROOT), 1
    while height:
        height -= 1
        b = whole(at(scratch.stack, height))
        work[int(NODES)] += 1
        height = push_children(tree, b, scratch, height)
        if not meets_own(tree, b, scratch):
            continue
        height = push_pnodes(tree, events, e, b, scratch, height)
        first, count = at(tree.link, b * LINK + FIRST), at(tree.link, b * LINK + COUNT)
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
