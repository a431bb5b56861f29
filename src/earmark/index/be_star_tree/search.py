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
from earmark.flat.machine import at, ctz64
from earmark.flat.types import I32, I64, U64
from earmark.index.be_star_tree.arrays import (
    ATTR,
    BINS,
    BOX,
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
    PROOT,
    ROOT,
    WIDTH,
    Tree,
)
from earmark.index.be_star_tree.nodes import whole
from earmark.index.counters import CANDIDATES, COMPARED, LEAVES, MATCHED, NODES
from earmark.index.marks import is_set
from earmark.jit import embedded, inlined, kernel
from earmark.segment.arrays import SegmentArrays
from earmark.segment.evaluate import clause_failures

FEW = 24
"""Up to so many matches of an event are sorted by insertion."""
WIDE = 6
"""A p-directory with more p-nodes than so many times the event's attributes is searched, not walked."""


class Room(NamedTuple):
    """Working room of a search; left as it was found, so that it can be used again."""

    value: I64
    stack: I32
    marks: U64
    summary: U64


def new_room(attributes: int, buckets: int, slots: int) -> Room:
    """Room for events on so many attributes, over so many buckets and slots."""
    value = np.empty(2 * max(attributes, 1), np.int64)
    value[0::2], value[1::2] = HIGHEST, LOWEST
    words = (slots + 63) // 64
    return Room(
        value, np.empty(buckets + 1, np.int32), np.zeros(words, np.uint64), np.zeros(words // 64 + 1, np.uint64)
    )


@embedded
def spread_event(events: EventArrays, e: int, room: Room) -> np.uint64:
    """Put the event's values where `value` looks for them; returns its signature."""
    sign = np.uint64(0)
    known = len(room.value) >> 1
    for i in range(at(events.start, e), at(events.start, e + 1)):
        attr = at(events.attr, i)
        sign |= np.uint64(1) << np.uint64(attr & (BINS - 1))
        if attr < known:
            room.value[2 * attr], room.value[2 * attr + 1] = at(events.lo, i), at(events.hi, i)
    return sign


@embedded
def clear_event(events: EventArrays, e: int, room: Room) -> None:
    """Make the event's attributes absent again."""
    known = len(room.value) >> 1
    for i in range(at(events.start, e), at(events.start, e + 1)):
        attr = at(events.attr, i)
        if attr < known:
            room.value[2 * attr], room.value[2 * attr + 1] = int(HIGHEST), int(LOWEST)


@embedded
def record_holds(tree: Tree, start: int, room: Room, work: I64) -> bool:
    """Whether all constraints of a record hold for the event."""
    n = at(tree.word, start) & 0xFFFF
    pairs = start + ((n + 4) >> 2)
    j = 0
    while j < n:
        lane = j + 1
        attr = (at(tree.word, start + (lane >> 2)) >> (16 * (lane & 3))) & 0xFFFF
        lo, hi = at(tree.word, pairs + 2 * j), at(tree.word, pairs + 2 * j + 1)
        j += 1
        if (lo > at(room.value, 2 * attr + 1)) | (at(room.value, 2 * attr) > hi):
            work[int(COMPARED)] += j
            return False
    work[int(COMPARED)] += n
    return True


@embedded
def entry_holds(
    tree: Tree, table: SegmentArrays, events: EventArrays, e: int, entry: int, room: Room, work: I64
) -> bool:
    """Whether the clause of an entry holds entirely."""
    work[int(CANDIDATES)] += 1
    record = at(tree.record, entry)
    if record != int(NONE):
        return record_holds(tree, record, room, work)
    clause = at(tree.clause, entry)
    work[int(COMPARED)] += at(table.constraint_start, clause + 1) - at(table.constraint_start, clause)
    return clause_failures(table, clause, events, e, 0) == 0


@embedded
def meets(tree: Tree, b: int, room: Room) -> bool:
    """Whether the event's value meets a bucket's box on its active dimension."""
    attr = at(tree.link, b * LINK + ATTR)
    low, high = at(room.value, 2 * attr), at(room.value, 2 * attr + 1)
    return bool((at(tree.box, b * BOX + LO) <= high) & (low <= at(tree.box, b * BOX + HI)))


@embedded
def push_children(tree: Tree, b: int, room: Room, height: int) -> int:
    """Put the children that the event meets on the stack; its new height."""
    for side in range(2):
        child = at(tree.link, b * LINK + LEFT + side)
        if child != int(NONE) and meets(tree, child, room):
            room.stack[height] = child
            height += 1
    return height


@embedded
def meets_own(tree: Tree, b: int, room: Room) -> bool:
    """Whether the event meets what the bucket's own c-node holds; always at the root."""
    if b == int(ROOT):
        return True
    attr = at(tree.link, b * LINK + ATTR)
    low, high = at(room.value, 2 * attr), at(room.value, 2 * attr + 1)
    return bool((at(tree.box, b * BOX + OWN_LO) <= high) & (low <= at(tree.box, b * BOX + OWN_HI)))


@embedded
def push_pnodes(tree: Tree, events: EventArrays, e: int, b: int, room: Room, height: int) -> int:
    """Put the root buckets of the event's attributes on the stack, those that it meets; the stack's new height."""
    begin = at(tree.link, b * LINK + PDIR)
    width = at(tree.link, b * LINK + WIDTH)
    first, last = at(events.start, e), at(events.start, e + 1)
    if width <= int(WIDE) * (last - first):
        for d in range(begin, begin + width):
            attr = at(tree.pdir_attr, d)
            if at(room.value, 2 * attr) <= at(room.value, 2 * attr + 1):
                root = at(tree.pnode, at(tree.pdir_node, d) * PART + PROOT)
                if meets(tree, root, room):
                    room.stack[height] = root
                    height += 1
        return height
    known = len(room.value) >> 1
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
            if meets(tree, root, room):
                room.stack[height] = root
                height += 1
    return height


@kernel
def match_events(
    tree: Tree,
    table: SegmentArrays,
    events: EventArrays,
    eligible: U64,
    e: int,
    last: int,
    room: Room,
    out: I32,
    ends: I64,
    work: I64,
) -> tuple[int, int]:
    """Eligible slots of the events e..last, ascending, one event after another in `out`; ends[e] is where e's end.

    Returns the event to resume at, and how many slots are in `out`: it stops at an event whose matches do not fit.
    """
    found = 0
    while e < last:
        begin = found
        sign = spread_event(events, e, room)
        room.stack[0] = int(ROOT)
        height, full = 1, False
        while height:
            height -= 1
            b = whole(at(room.stack, height))
            work[int(NODES)] += 1
            height = push_children(tree, b, room, height)
            if not meets_own(tree, b, room):
                continue
            height = push_pnodes(tree, events, e, b, room, height)
            first = at(tree.link, b * LINK + FIRST)
            count = at(tree.link, b * LINK + COUNT)
            work[int(LEAVES)] += 1 if count else 0
            for entry in range(first, first + count):
                if at(tree.sign, entry) & ~sign:
                    continue
                if entry_holds(tree, table, events, e, entry, room, work):
                    slot = at(tree.slot, at(tree.clause, entry))
                    if is_set(eligible, slot):
                        if found == len(out):
                            full = True
                            break
                        out[found] = slot
                        found += 1
            if full:
                break
        clear_event(events, e, room)
        if full:
            return e, begin
        found = begin + sort_slots(out, begin, found - begin, room)
        work[int(MATCHED)] += found - begin
        ends[e] = found
        e += 1
    return e, found


@embedded
def sort_slots(out: I32, begin: int, count: int, room: Room) -> int:
    """Sort the slots of one event and drop doubles; returns how many are left."""
    if count <= int(FEW):
        return _sort_few(out, begin, count)
    low, high = len(room.summary), 0
    for i in range(begin, begin + count):
        word = at(out, i) >> 6
        room.marks[word] |= np.uint64(1) << np.uint64(at(out, i) & 63)
        room.summary[word >> 6] |= np.uint64(1) << np.uint64(word & 63)
        low, high = min(low, word >> 6), max(high, word >> 6)
    left = begin
    for block in range(low, high + 1):
        words = at(room.summary, block)
        room.summary[block] = 0
        while words:
            word = (block << 6) + ctz64(words)
            words &= words - np.uint64(1)
            bits = at(room.marks, word)
            room.marks[word] = 0
            while bits:
                out[left] = (word << 6) + ctz64(bits)
                left += 1
                bits &= bits - np.uint64(1)
    return left - begin


@inlined
def _sort_few(out: I32, begin: int, count: int) -> int:
    left = 0
    for i in range(count):
        slot = out[begin + i]
        j = left
        while j and out[begin + j - 1] > slot:
            j -= 1
        if j and out[begin + j - 1] == slot:
            continue
        for k in range(left, j, -1):
            out[begin + k] = out[begin + k - 1]
        out[begin + j] = slot
        left += 1
    return left
