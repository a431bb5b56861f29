"""The intervals of lists that an event meets: best first, one at a time and resumable (getnext). `match.py` has all.

A *source* is the state of one such iteration. It is a heap of what may still give an answer, each with the best score
it can have:

    SUBTREE   a node and all below it          opened: its run, and the children that the event can reach
    RUN_OF    the run of a node, not begun     begun: the first entry that the event meets
    RUN       a run at an entry                given out; then moved on to the next entry that the event meets
    BLOCK     a block, where the arrangement   opened: its entries or children that the event meets
    ENTRY     is not in score order; an entry  given out

Of equal scores what is not yet opened comes first, since an earlier sequence may be inside; entries go by sequence.
So nothing is opened before its best score is due: of the path of an interval tree only the part that matters.

A run has one mask per level: the entries of its current block that the event meets and that were not yet taken.
Going on is the lowest bit of the lowest mask; going down is one comparison of a whole block, eight entries at a time:

    entries  [0, 30] [10, 45] [75, 90] ..      event [40, 80]      ->  ..110

The best k over several lists are found in `threshold.py`.

Invariant: the top of a settled heap is an entry, and no entry still to come is before it.
Complexity: a getnext of an R-tree without holes is O(log n) blocks; the heap adds O(log of the path).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types

import earmark.index.ranked.arrays as sc
from earmark.flat.arrays import F64, I32, I64, U64
from earmark.flat.bisection import bisect_right
from earmark.flat.machine import VECTOR, at, at_most, check_inside, ctz64, load, splat
from earmark.index.counters import COMPARED, COUNTERS, LEAVES, MOST_COUNTERS
from earmark.index.counters import NODES as NODES_SEEN
from earmark.index.marks import new_marks
from earmark.index.ranked.arrays import ScoredArrays, Trees, int64
from earmark.jit import BOUNDS, JIT, inlined, intrinsic

# Fields of a source: its list, where its heap begins and how many elements it has, the event's keys, the next free
# run, whether to open block by block, the event value's position, and the atomic segments of an interval event.
WHICH, BASE, COUNT, KEY_LO, KEY_HI, RUNS, BY_BLOCKS, POSITION, FIRST_ATOM, LAST_ATOM = range(10)
SOURCE = 10

# Kinds of heap elements: the low bits of `heap_ref`. A block is coded together with its height.
SUBTREE, RUN_OF, RUN, BLOCK, ENTRY = range(5)
KIND_BITS, KIND_MASK = 3, 7
HEIGHT_BITS, HEIGHT_MASK = 6, 63
NOT_OPEN = -1
"""Slot of a heap element that is not an entry."""

# Fields of a run: level of its current block below the top one, blocks still to read at the top (in a segment tree,
# where the part ends), height of the top, the current entry (in a segment tree, its place in the part).
DOWN, LEFT_OVER, TALL, HERE = range(4)
RUN_ROW = 4

VISITS = COUNTERS
"""After the usual work counters: VISITS + h counts blocks of height h."""
ALL_COUNTERS = VISITS + 40
assert ALL_COUNTERS <= MOST_COUNTERS
LAST_STAMP = 2**31 - 1


class WalkScratch(NamedTuple):
    """The working memory of one search.

    `stack` has, for each level of a run, its block and the mask of what is left of it. `stamp` has, for each slot, the
    last search that saw it; its last element is the number of the current one. `marks` and `summary` sort slots.
    """

    source: I64
    heap_score: F64
    heap_ref: I64
    heap_slot: I32
    run: I64
    stack: U64
    stamp: I32
    active: I64
    bound: F64
    marks: U64
    summary: U64


def make_scratch(arrays: ScoredArrays, slots: int, wide: bool = True) -> WalkScratch:
    """Make working memory for searches of this index, `wide` for interval events. Untouched parts cost nothing."""
    lists = arrays.lists.reshape(-1, sc.LIST)
    elements = runs = (2 * int(arrays.info[sc.DEPTH]) + 8) * (len(lists) + 1)
    if wide or arrays.info[sc.ORDER] == sc.NEVER or arrays.info[sc.SHAPE] == sc.ENDPOINTS:
        elements = max(elements, int((2 * lists[:, sc.NODES] + lists[:, sc.ENTRIES] + 8).sum()) + 8)
        runs = max(runs, int(lists[:, sc.NODES].sum()) + len(lists) + 8)
    return WalkScratch(
        np.zeros((len(lists) + 1) * SOURCE, np.int64),
        np.empty(elements),
        np.empty(elements, np.int64),
        np.empty(elements, np.int32),
        np.empty(runs * RUN_ROW, np.int64),
        np.empty(2 * runs * int(arrays.info[sc.LEVELS]), np.uint64),
        np.zeros(slots + 1, np.int32),
        np.empty(len(lists) + 2, np.int64),
        np.empty(len(lists) + 1),
        *new_marks(slots),
    )


@inlined
def is_extended(lo: I64, hi: I64, begin: int, end: int) -> bool:
    """Whether one of the event values begin..end is an interval."""
    extended = False
    for position in range(begin, end):
        extended |= at(lo, position) != at(hi, position)
    return extended


@inlined
def list_for(list_of: I32, attr: int, kind: int) -> int:
    """The list of an attribute for a kind of search, or EMPTY."""
    place = attr * sc.KINDS + kind
    return int(at(list_of, place)) if place < len(list_of) else sc.EMPTY


@inlined
def next_stamp(scratch: WalkScratch) -> None:
    """Begin another search, which has not seen any slot."""
    last = len(scratch.stamp) - 1
    if scratch.stamp[last] == LAST_STAMP:
        scratch.stamp[:] = 0
    scratch.stamp[last] += 1


@inlined
def seen_before(scratch: WalkScratch, slot: int) -> bool:
    """Whether this search has seen the slot before; marks it as seen."""
    stamp = at(scratch.stamp, len(scratch.stamp) - 1)
    seen = at(scratch.stamp, slot) == stamp
    scratch.stamp[slot] = stamp
    return bool(seen)


# --- blocks ----------------------------------------------------------------------------------------------------


@intrinsic
def _overlap8(_: Any, lo: Any, hi: Any, index: Any, key_lo: Any, key_hi: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        low = load(context, builder, lo, args[0], args[2], VECTOR)
        high = load(context, builder, hi, args[1], args[2], VECTOR)
        starts = at_most(builder, lo.dtype, low, splat(builder, args[4], VECTOR))
        ends = at_most(builder, lo.dtype, splat(builder, args[3], VECTOR), high)
        return builder.zext(builder.bitcast(builder.and_(starts, ends), ir.IntType(VECTOR)), ir.IntType(64))

    return types.uint64(lo, hi, types.intp, lo.dtype, lo.dtype), generate


def _plain_overlap8(lo: I64, hi: I64, index: int, key_lo: int, key_hi: int) -> np.uint64:
    """Bit j: whether [lo, hi] at index + j meets [key_lo, key_hi], for eight entries."""
    met = (lo[index : index + VECTOR] <= key_hi) & (key_lo <= hi[index : index + VECTOR])
    return np.uint64(np.packbits(met, bitorder="little")[0])


@inlined
def _checked_overlap8(lo: I64, hi: I64, index: int, key_lo: int, key_hi: int) -> np.uint64:
    check_inside(len(lo), index, VECTOR)
    check_inside(len(hi), index, VECTOR)
    return _overlap8(lo, hi, index, key_lo, key_hi)  # type: ignore[no-any-return]


overlap8 = _checked_overlap8 if BOUNDS else _overlap8 if JIT else _plain_overlap8


@inlined
def overlap_mask(lo: I64, hi: I64, start: int, fill: int, key_lo: int, key_hi: int) -> np.uint64:
    """Bit j: whether entry start + j of `fill` meets [key_lo, key_hi]. Reads up to 7 entries past the last."""
    mask = np.uint64(0)
    for step in range((fill + VECTOR - 1) >> 3):
        mask |= overlap8(lo, hi, start + VECTOR * step, key_lo, key_hi) << np.uint64(VECTOR * step)
    if fill < 64:
        mask &= (np.uint64(1) << np.uint64(fill)) - np.uint64(1)
    return mask


# --- the heap of a source --------------------------------------------------------------------------------------


@inlined
def goes_before(score: F64, slot: I32, sequence: I64, i: int, j: int) -> bool:
    """Whether heap element i is due before element j."""
    if at(score, i) != at(score, j):
        return bool(at(score, i) > at(score, j))
    a, b = at(slot, i), at(slot, j)
    if a < 0 or b < 0:
        return bool(a < b)
    return bool(at(sequence, a) < at(sequence, b))


@inlined
def swap_elements(score: F64, ref: I64, slot: I32, i: int, j: int) -> None:
    score[i], score[j] = score[j], score[i]
    ref[i], ref[j] = ref[j], ref[i]
    slot[i], slot[j] = slot[j], slot[i]


@inlined
def sink(score: F64, ref: I64, slot: I32, sequence: I64, base: int, count: int) -> None:
    """Move the top of a heap down to its place."""
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= count:
            return
        if child + 1 < count and goes_before(score, slot, sequence, base + child + 1, base + child):
            child += 1
        if not goes_before(score, slot, sequence, base + child, base + parent):
            return
        swap_elements(score, ref, slot, base + child, base + parent)
        parent = child


@inlined
def add_element(scratch: WalkScratch, sequence: I64, s: int, value: float, element: int, owner: int) -> None:
    """Put an element into the heap of a source: score, ref, slot."""
    score, ref, slot = scratch.heap_score, scratch.heap_ref, scratch.heap_slot
    base, child = at(scratch.source, s + BASE), at(scratch.source, s + COUNT)
    score[base + child], ref[base + child], slot[base + child] = value, element, owner
    scratch.source[s + COUNT] = child + 1
    while child and goes_before(score, slot, sequence, base + child, base + ((child - 1) >> 1)):
        swap_elements(score, ref, slot, base + child, base + ((child - 1) >> 1))
        child = (child - 1) >> 1


# --- runs ------------------------------------------------------------------------------------------------------


@inlined
def next_in_run(trees: Trees, run: I64, stack: U64, r: int, node: int, key_lo: int, key_hi: int, work: I64) -> bool:
    """Move run r to the next entry that the event meets; False at its end. With a node, begin the node's run."""
    levels = at(trees.info, sc.LEVELS)
    row, top = r * RUN_ROW, 2 * r * levels
    entering = node != sc.EMPTY
    if entering:
        node *= sc.NODE
        run[row + DOWN], run[row + LEFT_OVER] = 0, at(trees.node, node + sc.BLOCKS)
        run[row + TALL] = at(trees.node, node + sc.HEIGHT)
        stack[top] = at(trees.node, node + sc.FIRST_BLOCK)
    depth, height = at(run, row + DOWN), at(run, row + TALL)
    while True:
        level = top + 2 * depth
        if entering:
            block = int64(at(stack, level))
            stack[level + 1] = overlap_mask(
                trees.lo, trees.hi, at(trees.block_start, block), int(at(trees.block_fill, block)), key_lo, key_hi
            )
            work[NODES_SEEN] += 1
            work[COMPARED] += at(trees.block_fill, block)
            work[VISITS + height - depth] += 1
            work[LEAVES] += height == depth
            entering = False
        mask = at(stack, level + 1)
        if mask == 0:
            if depth > 0:
                depth -= 1
                continue
            left = at(run, row + LEFT_OVER) - 1
            run[row + LEFT_OVER] = left
            if left <= 0:
                run[row + DOWN] = 0
                return False
            stack[level] += np.uint64(1)
            entering = True
            continue
        stack[level + 1] = mask & (mask - np.uint64(1))
        entry = int64(at(trees.block_start, int64(at(stack, level)))) + ctz64(mask)
        if depth == height:
            run[row + HERE], run[row + DOWN] = entry, depth
            return True
        depth += 1
        stack[level + 2] = at(trees.ref, entry)
        entering = True


# --- sources ---------------------------------------------------------------------------------------------------


@inlined
def pull(trees: Trees, scratch: WalkScratch, sequence: I64, s: int, begin: bool, work: I64) -> None:
    """Begin a source whose list and keys are set, or move past the entry on its top; then open what is due.

    Each step is written only once, because this function is merged into every kernel that calls it.
    """
    score, ref, slot = scratch.heap_score, scratch.heap_ref, scratch.heap_slot
    base = at(scratch.source, s + BASE)
    key_lo, key_hi = at(scratch.source, s + KEY_LO), at(scratch.source, s + KEY_HI)
    segments = at(trees.info, sc.SHAPE) == sc.SEGMENTS
    past = not begin
    if begin:
        scratch.source[s + COUNT] = 0
        root = at(trees.lists, at(scratch.source, s + WHICH) * sc.LIST + sc.ROOT)
        if segments:
            _begin_segments(trees, scratch, sequence, s, work)
        elif root >= 0:
            score[base], slot[base] = at(trees.node_score, root * sc.NODE_SCORE + sc.BELOW), NOT_OPEN
            ref[base] = (root << KIND_BITS) | SUBTREE
            scratch.source[s + COUNT] = 1
    while at(scratch.source, s + COUNT) > 0 and (past or at(slot, base) == NOT_OPEN):
        past = False
        top = at(ref, base)
        kind, value = top & KIND_MASK, top >> KIND_BITS
        moved, entry = False, int64(0)
        if RUN_OF <= kind <= RUN:
            r = value if kind == RUN else at(scratch.source, s + RUNS)
            if segments:
                place = at(scratch.run, r * RUN_ROW + HERE) + 1
                scratch.run[r * RUN_ROW + HERE] = place
                moved = place < at(scratch.run, r * RUN_ROW + LEFT_OVER)
                if moved:
                    entry = int64(at(trees.part, place))
            else:
                node = value if kind == RUN_OF else int64(sc.EMPTY)
                moved = next_in_run(trees, scratch.run, scratch.stack, r, node, key_lo, key_hi, work)
                entry = at(scratch.run, r * RUN_ROW + HERE)
            if moved:
                if kind == RUN_OF:
                    scratch.source[s + RUNS] = r + 1
                    ref[base] = (r << KIND_BITS) | RUN
                score[base], slot[base] = at(trees.score, entry), at(trees.ref, entry)
        if not moved:
            last = at(scratch.source, s + COUNT) - 1
            scratch.source[s + COUNT] = last
            swap_elements(score, ref, slot, base, base + last)
        sink(score, ref, slot, sequence, base, at(scratch.source, s + COUNT))
        if kind in (SUBTREE, BLOCK):
            if kind == SUBTREE and segments:
                _open_segment_node(trees, scratch, sequence, s, value, work)
            else:
                _open(trees, scratch, sequence, s, kind, value, work)


@inlined
def _open(trees: Trees, scratch: WalkScratch, sequence: I64, s: int, kind: int, value: int, work: I64) -> None:
    """Add the parts of a subtree or a block that the event can meet."""
    work[NODES_SEEN] += 1
    key_lo, key_hi = at(scratch.source, s + KEY_LO), at(scratch.source, s + KEY_HI)
    first, blocks, height = value >> HEIGHT_BITS, 1, value & HEIGHT_MASK
    bucket = False
    if kind == SUBTREE:
        row = value * sc.NODE
        bucket = at(trees.node, row + sc.LEFT) == sc.BUCKET
        first, blocks, height = int64(at(trees.node, row + sc.FIRST_BLOCK)), int(at(trees.node, row + sc.BLOCKS)), 0
        if not bucket and key_lo > at(trees.node_key, value):
            first += blocks
        _open_node(trees, scratch, sequence, s, value, key_lo, key_hi)
        if at(trees.info, sc.SHAPE) != sc.ENDPOINTS:
            return
    # A block by its best scores; or the run of an endpoint-sorted node: what the event meets is a prefix of it.
    for block in range(first, first + blocks):
        start, fill = int64(at(trees.block_start, block)), int(at(trees.block_fill, block))
        mask = overlap_mask(trees.lo, trees.hi, start, fill, key_lo, key_hi)
        work[VISITS + height] += 1
        work[LEAVES] += height == 0
        work[COMPARED] += fill
        while mask:
            entry = start + ctz64(mask)
            mask &= mask - np.uint64(1)
            element, owner = (entry << KIND_BITS) | ENTRY, int(at(trees.ref, entry))
            if height:
                element, owner = ((((int64(owner) << HEIGHT_BITS) | (height - 1)) << KIND_BITS) | BLOCK, int(NOT_OPEN))
            add_element(scratch, sequence, s, at(trees.score, entry), element, owner)
        last = start + fill - 1
        if not bucket and (at(trees.lo, last) > key_hi or at(trees.hi, last) < key_lo):
            return


@inlined
def _open_node(trees: Trees, scratch: WalkScratch, sequence: I64, s: int, node: int, key_lo: int, key_hi: int) -> None:
    """Add the run of a node and the children that the event can reach."""
    row, key = node * sc.NODE, at(trees.node_key, node)
    for part in range(3):
        which, element = node * sc.NODE_SCORE + sc.OWN, int64(sc.EMPTY)
        child = int64(at(trees.node, row + part))
        if part == sc.FIRST_BLOCK:
            if at(scratch.source, s + BY_BLOCKS):
                element = (((child << HEIGHT_BITS) | at(trees.node, row + sc.HEIGHT)) << KIND_BITS) | BLOCK
            elif at(trees.info, sc.SHAPE) != sc.ENDPOINTS:
                element = (node << KIND_BITS) | RUN_OF
        elif key_lo < key if part == sc.LEFT else key_hi > key:
            which, element = child * sc.NODE_SCORE + sc.BELOW, (child << KIND_BITS) | SUBTREE
        if child >= 0 and element != sc.EMPTY:
            add_element(scratch, sequence, s, at(trees.node_score, which), element, int(NOT_OPEN))


@inlined
def _begin_segments(trees: Trees, scratch: WalkScratch, sequence: I64, s: int, work: I64) -> None:
    """Begin a source of a segment tree: for a point, the parts of all nodes on its path; for an interval, the root."""
    key_lo, key_hi = at(scratch.source, s + KEY_LO), at(scratch.source, s + KEY_HI)
    row = at(scratch.source, s + WHICH) * sc.LIST
    first, last = at(trees.lists, row + sc.CUT_FIRST), at(trees.lists, row + sc.CUT_LAST)
    root, size = at(trees.lists, row + sc.ROOT), at(trees.lists, row + sc.SIZE)
    point = key_lo == key_hi
    low = bisect_right(trees.cut, first, last, key_lo) - first
    node = low - 1 + size if low > 0 else 0
    if not point:
        high = bisect_right(trees.cut, first, last, key_hi) - first
        scratch.source[s + FIRST_ATOM], scratch.source[s + LAST_ATOM] = max(low - 1, 0), high - 1
        node = 1 if high > 0 and at(trees.part_best, root + 1) >= 0 else 0
    while node >= 1:
        begin, end = at(trees.part_start, root + node), at(trees.part_start, root + node + 1)
        entry, element, owner = int64(sc.EMPTY), int64((1 << KIND_BITS) | SUBTREE), int(NOT_OPEN)
        if not point:
            entry = int64(at(trees.part_best, root + 1))
        elif begin < end:
            work[LEAVES] += 1
            r = at(scratch.source, s + RUNS)
            scratch.source[s + RUNS] = r + 1
            scratch.run[r * RUN_ROW + LEFT_OVER], scratch.run[r * RUN_ROW + HERE] = end, begin
            entry = int64(at(trees.part, begin))
            element, owner = (r << KIND_BITS) | RUN, int(at(trees.ref, entry))
        if entry >= 0:
            add_element(scratch, sequence, s, at(trees.score, entry), element, owner)
        work[NODES_SEEN] += 1
        node >>= 1


@inlined
def _open_segment_node(trees: Trees, scratch: WalkScratch, sequence: I64, s: int, node: int, work: I64) -> None:
    """Open a segment tree's node for an interval event: its children, and entries that no node further left gives."""
    lists, row = trees.lists, at(scratch.source, s + WHICH) * sc.LIST
    root, size, cuts = at(lists, row + sc.ROOT), at(lists, row + sc.SIZE), at(lists, row + sc.CUT_FIRST)
    low, high = at(scratch.source, s + FIRST_ATOM), at(scratch.source, s + LAST_ATOM)
    first, width = node, 1
    while first < size:
        first, width = 2 * first, 2 * width
    first -= size
    middle = first + (width >> 1)
    begin, end = at(trees.part_start, root + node), at(trees.part_start, root + node + 1)
    work[NODES_SEEN] += 1
    work[LEAVES] += begin < end
    for i in range(begin - 2, end):  # the two places before the entries represent the children
        if i >= begin:
            entry = int64(at(trees.part, i))
            wanted = first <= low or at(trees.lo, entry) == at(trees.cut, cuts + first)
            element, owner = (entry << KIND_BITS) | ENTRY, int(at(trees.ref, entry))
        else:
            child = 2 * node + (begin - 1 - i)
            entry = int64(at(trees.part_best, root + child)) if width > 1 else int64(sc.EMPTY)
            wanted = entry >= 0 and (low < middle if child == 2 * node else high >= middle)
            element, owner = (child << KIND_BITS) | SUBTREE, int(NOT_OPEN)
        if wanted:
            add_element(scratch, sequence, s, at(trees.score, entry), element, owner)


@inlined
def set_source(info: I64, source: I64, s: int, which: int, key_lo: int, key_hi: int, base: int, runs: int) -> None:
    """Prepare a source for a list and an event value; its heap and its runs begin at `base` and `runs`."""
    order = at(info, sc.ORDER)
    source[s + WHICH], source[s + KEY_LO], source[s + KEY_HI] = which, key_lo, key_hi
    source[s + BASE], source[s + RUNS] = base, runs
    source[s + BY_BLOCKS] = order == sc.NEVER or (order == sc.POINTS and key_lo != key_hi)


@inlined
def after_source(trees: Trees, which: int, wide: bool, base: int, runs: int) -> tuple[int, int]:
    """Where the heap and the runs of the next source begin; `wide`: this one has room for all nodes, not for a path."""
    row, path = which * sc.LIST, 2 * at(trees.info, sc.DEPTH) + 8
    if not wide:
        return base + path, runs + path
    nodes = at(trees.lists, row + sc.NODES)
    return base + 2 * nodes + at(trees.lists, row + sc.ENTRIES) + 8, runs + nodes + 1
