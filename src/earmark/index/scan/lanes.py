"""Up to 512 events side by side, so that one look-up answers a constraint for all of them.

Each event of a group is a *lane*: one bit of a 512-bit mask. For each attribute that the group uses there is a
*row*: the lanes' keys in sorted order, and for every r the mask of the r lanes that sort first.

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
from earmark.flat.arrays import I32, I64, U64
from earmark.flat.machine import VECTOR, aligned, at, count_less8
from earmark.jit import inlined, kernel

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
    used = 0
    sides = 1
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
    dense = True
    base = 0
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
