"""Are these arrays an index of this table: what kernels rely on, what the papers promise, and nothing missing.

`check_structure` is what kernels need so that no read leaves its array and no loop fails to end; arrays from outside
pass it before anything else sees them. `check_order` is the invariant of the structures: order of runs, exact extents
and maxima, keys that stab their intervals, hence no holes. `check_content` compares with the lists of the table.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from earmark.errors import require
from earmark.flat.types import F64, I32, I64
from earmark.index.ranked.arrays import (
    ABSENT_LISTS,
    ALWAYS,
    ATTR,
    BELOW,
    BLOCKS,
    BOUND,
    BRANCHING,
    BUCKET,
    CUT_FIRST,
    CUT_LAST,
    DEPTH,
    EMPTY,
    ENTRIES,
    EXACT,
    FIRST_BLOCK,
    HEIGHT,
    INFO,
    KINDS,
    LEAF,
    LEFT,
    LEVELS,
    LIST,
    LOOSE,
    MOST_CONSTRAINTS,
    NEVER,
    NODE,
    NODE_SCORE,
    NODES,
    ONE_CLAUSE,
    ORDER,
    OWN,
    PADDING,
    REGIME,
    RIGHT,
    ROOT,
    SEGMENTS,
    SHAPE,
    SIZE,
    SOLE,
    U8,
    WIDEST,
    ScoredArrays,
    Trees,
    frozen_arrays,
    int64,
)
from earmark.index.ranked.lists import Bools, Grids, Layout, lay_out
from earmark.index.stored import from_stored
from earmark.jit import kernel
from earmark.segment.arrays import SegmentArrays

__all__ = [
    "ABSENT_LISTS", "check_content", "check_holes", "check_order", "check_structure", "list_entries",
    "restored",
]  # fmt: skip

FINE, NODE_WRONG, BLOCK_WRONG, ENTRY_WRONG, TOO_DEEP, UNCOUNTED = range(6)
STRUCTURE = {
    NODE_WRONG: "a node is out of range, or reached twice",
    BLOCK_WRONG: "a block is out of range, empty, or reached twice",
    ENTRY_WRONG: "an entry names a slot that the table does not have",
    TOO_DEEP: "a tree is deeper than it says",
    UNCOUNTED: "a list has more nodes or entries than it says",
}
ORDER_WRONG, EXTENT_WRONG, BEST_WRONG, KEY_WRONG, SIDE_WRONG, HOLE = range(1, 7)
INVARIANT = {
    ORDER_WRONG: "the entries of a run are not in score order",
    EXTENT_WRONG: "the extent of a block is not its bounding interval",
    BEST_WRONG: "the best score below a node or block is not the greatest",
    KEY_WRONG: "a node has an interval that its key does not stab",
    SIDE_WRONG: "an interval lies on the wrong side of a key",
    HOLE: "the extent of a block has a hole",
}


def restored(arrays: Mapping[str, np.ndarray], table: SegmentArrays, shapes: tuple[int, ...]) -> ScoredArrays:
    """Arrays from outside as those of an index; AssertionError when kernels could not trust them."""
    index = frozen_arrays(from_stored(ScoredArrays, arrays))
    check_structure(index, table)
    require(int(index.info[SHAPE]) in shapes, "the arrays belong to another kind of index")
    return index


def check_structure(arrays: ScoredArrays, table: SegmentArrays) -> None:
    """Raise AssertionError unless kernels can read the arrays safely. O(size)."""
    slots, entries = len(table.sequence), len(arrays.score)
    nodes, blocks = len(arrays.node_key), len(arrays.block_start)
    lists = len(arrays.lists) // LIST
    require(len(arrays.info) == INFO, "info has another length")
    require(len(arrays.lists) == lists * LIST, "a list is cut off")
    require(len(arrays.bounds) == (lists + 1) * BOUND, "lists and bounds disagree")
    require(len(arrays.lo) == len(arrays.hi) == entries + PADDING, "lo and hi lack their padding")
    require(len(arrays.ref) == entries, "score and ref do not agree")
    require(len(arrays.node) == nodes * NODE and len(arrays.node_score) == nodes * NODE_SCORE, "nodes do not agree")
    require(len(arrays.block_fill) == blocks, "the arrays of blocks do not agree")
    require(_within(arrays.list_of, EMPTY, lists), "list_of names a list that is not there")
    require(_within(arrays.loose, 0, slots), "a loose slot is not in the table")
    require(len(arrays.loose) == len(arrays.loose_score), "the loose slots and their scores disagree")
    require(0 <= arrays.info[LOOSE] <= len(arrays.loose), "there are fewer loose slots than there should be")
    require(len(arrays.needed) in (0, slots), "needed has another length")
    require(1 <= arrays.info[LEVELS] <= 40 and 0 <= arrays.info[DEPTH] <= 1 << 20, "the depth is impossible")
    require(2 <= arrays.info[BRANCHING] <= WIDEST and arrays.info[LEAF] >= 0, "the branching is impossible")
    require(0 <= arrays.info[ORDER] <= NEVER and 0 <= arrays.info[REGIME] <= ABSENT_LISTS, "the order is unknown")
    require(arrays.info[MOST_CONSTRAINTS] >= 1, "the number of constraints is impossible")
    for array in (arrays.score, arrays.node_score, arrays.loose_score, arrays.bounds):
        require(not np.isnan(array).any(), "a score is not a number")
    rows = arrays.lists.reshape(-1, LIST)
    require(bool((rows[:, NODES] >= 0).all() and (rows[:, ENTRIES] >= 0).all()), "a list has a negative size")
    if arrays.info[SHAPE] == SEGMENTS:
        _check_segments(arrays, rows, slots)
    else:
        problem = survey(arrays.trees(), slots, np.zeros(nodes, np.uint8), np.zeros(blocks, np.uint8))
        require(problem == FINE, STRUCTURE.get(problem, "unknown"))


def _within(numbers: I32, least: int, end: int) -> bool:
    return not len(numbers) or bool(numbers.min() >= least and numbers.max() < end)


def _check_segments(arrays: ScoredArrays, rows: I64, slots: int) -> None:
    starts, parts = arrays.part_start, len(arrays.part)
    require(len(starts) > 0 and starts[0] == 0 and starts[-1] == parts, "the parts of nodes have another length")
    require(bool((starts[:-1] <= starts[1:]).all()), "the parts of nodes descend")
    require(_within(arrays.part, 0, len(arrays.score)), "a node names an entry that is not there")
    require(_within(arrays.part_best, EMPTY, len(arrays.score)), "the best of a node is not there")
    require(_within(arrays.ref, 0, slots), STRUCTURE[ENTRY_WRONG])
    for row in rows:
        size, base, first, last = (int(row[field]) for field in (SIZE, ROOT, CUT_FIRST, CUT_LAST))
        require(0 <= first <= last <= len(arrays.cut) and size > 0 and not size & (size - 1), "a list has no cuts")
        require(last - first <= size and base >= 0 and base + 2 * size < len(starts), "a list has too few nodes")
        require(base + 2 * size <= len(arrays.part_best), "a list has too few nodes")
        require(size.bit_length() <= arrays.info[DEPTH], STRUCTURE[TOO_DEEP])
        require(2 * size <= row[NODES], STRUCTURE[UNCOUNTED])


@kernel
def survey(trees: Trees, slots: int, node_seen: U8, block_seen: U8) -> int:
    """Visit every node and block once, and look before each step; what is wrong, or FINE."""
    blocks, entries = len(trees.block_start), len(trees.score)
    for b in range(blocks):
        fill = int64(trees.block_fill[b])
        if fill > WIDEST or trees.block_start[b] < 0 or trees.block_start[b] + fill > entries:
            return BLOCK_WRONG
    nodes_waiting = np.empty(len(node_seen) + 1, np.int64)
    depths = np.empty(len(node_seen) + 1, np.int64)
    blocks_waiting = np.empty(blocks + 1, np.int64)
    heights = np.empty(blocks + 1, np.int64)
    for which in range(len(trees.lists) // LIST):
        nodes_found, entries_found = 0, 0
        root = trees.lists[which * LIST + ROOT]
        if root < EMPTY or root >= len(node_seen):
            return NODE_WRONG
        waiting = 0
        if root >= 0:
            if node_seen[root]:
                return NODE_WRONG
            node_seen[root] = 1
            nodes_waiting[0], depths[0], waiting = root, 1, 1
        while waiting:
            waiting -= 1
            node, depth = nodes_waiting[waiting], depths[waiting]
            nodes_found += 1
            if depth > trees.info[DEPTH]:
                return TOO_DEEP
            for side in range(2):
                child = int64(trees.node[node * NODE + side])
                if child >= len(node_seen) or (child >= 0 and node_seen[child]):
                    return NODE_WRONG
                if child >= 0:
                    node_seen[child] = 1
                    nodes_waiting[waiting], depths[waiting] = child, depth + 1
                    waiting += 1
            first, count = int64(trees.node[node * NODE + FIRST_BLOCK]), int64(trees.node[node * NODE + BLOCKS])
            height = int64(trees.node[node * NODE + HEIGHT])
            if first < 0:
                continue
            twice = trees.info[SHAPE] != 0 and trees.node[node * NODE + LEFT] != BUCKET
            if count < 1 or first + count * (2 if twice else 1) > blocks or (height > 0 and count != 1):
                return BLOCK_WRONG
            if height < 0 or height >= trees.info[LEVELS]:
                return TOO_DEEP
            left = 0
            for block in range(first, first + count * (2 if twice else 1)):
                if block_seen[block]:
                    return BLOCK_WRONG
                block_seen[block] = 1
                blocks_waiting[left], heights[left] = block, height
                left += 1
            while left:
                left -= 1
                block, height = blocks_waiting[left], heights[left]
                if trees.block_fill[block] == 0:
                    return BLOCK_WRONG
                begin = int64(trees.block_start[block])
                for entry in range(begin, begin + trees.block_fill[block]):
                    child = int64(trees.ref[entry])
                    if height == 0:
                        entries_found += 1
                        if child < 0 or child >= slots:
                            return ENTRY_WRONG
                    elif child < 0 or child >= blocks or block_seen[child]:
                        return BLOCK_WRONG
                    else:
                        block_seen[child] = 1
                        blocks_waiting[left], heights[left] = child, height - 1
                        left += 1
        allowed = trees.lists[which * LIST + ENTRIES] * (2 if trees.info[SHAPE] != 0 else 1)
        if nodes_found > trees.lists[which * LIST + NODES] or entries_found > allowed:
            return UNCOUNTED
    return FINE


def check_order(arrays: ScoredArrays, table: SegmentArrays, keyed_tree: bool) -> None:
    """Raise AssertionError unless the invariants of the structure hold. O(size). `keyed_tree`: nodes have keys."""
    for part in (slice(0, int(arrays.info[LOOSE])), slice(int(arrays.info[LOOSE]), None)):
        in_order = _descends(arrays.loose_score[part], table.sequence[arrays.loose[part]])
        require(in_order, "the loose slots are not in score order")
    if arrays.info[SHAPE] == SEGMENTS:
        return
    ordered = arrays.info[ORDER] == ALWAYS and arrays.info[SHAPE] == 0
    lists, trees = arrays.lists.reshape(-1, LIST), arrays.trees()
    for which in range(len(lists)):
        if lists[which, ROOT] >= 0:
            nodes, lo, hi = reach(trees, int(lists[which, ROOT]))
            for i, node in enumerate(nodes.tolist()):
                keyed = keyed_tree and arrays.node[node * NODE + LEFT] != BUCKET
                problem = check_node(trees, table.sequence, node, ordered, keyed, lo[i], hi[i])
                require(not problem, INVARIANT.get(problem, ""))


def _descends(score: F64, sequence: I64) -> bool:
    lower = score[:-1] > score[1:]
    return bool((lower | ((score[:-1] == score[1:]) & (sequence[:-1] <= sequence[1:]))).all())


@kernel
def reach(trees: Trees, root: int) -> tuple[I64, I64, I64]:
    """The nodes below a root, and for each the keys between which its intervals must lie, both excluded but ends."""
    total = len(trees.node_key)
    nodes, lo, hi = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    nodes[0], lo[0], hi[0] = root, np.iinfo(np.int64).min, np.iinfo(np.int64).max
    count, done = 1, 0
    while done < count:
        node, low, high = nodes[done], lo[done], hi[done]
        left, right = trees.node[node * NODE + LEFT], trees.node[node * NODE + RIGHT]
        if left >= 0:
            nodes[count], lo[count], hi[count] = left, low, trees.node_key[node] - 1
            count += 1
        if right >= 0:
            nodes[count], lo[count], hi[count] = right, trees.node_key[node] + 1, high
            count += 1
        done += 1
    return nodes[:count], lo[:count], hi[:count]


@kernel
def check_node(trees: Trees, sequence: I64, node: int, ordered: bool, keyed: bool, low: int, high: int) -> int:
    """What is wrong with a node, or 0."""
    row, left, right = node * NODE, int64(trees.node[node * NODE + LEFT]), int64(trees.node[node * NODE + RIGHT])
    stored_own = trees.node_score[node * NODE_SCORE + OWN]
    best = stored_own
    if left >= 0:
        best = max(best, trees.node_score[left * NODE_SCORE + BELOW])
    if right >= 0:
        best = max(best, trees.node_score[right * NODE_SCORE + BELOW])
    if best != trees.node_score[node * NODE_SCORE + BELOW]:
        return BEST_WRONG
    if trees.node[row + FIRST_BLOCK] < 0:
        return BEST_WRONG if stored_own != -np.inf else FINE
    own, previous = -np.inf, int64(-1)
    blocks = np.empty(len(trees.block_start), np.int64)
    heights = np.empty(len(trees.block_start), np.int64)
    waiting = 0
    for i in range(trees.node[row + BLOCKS] - 1, -1, -1):
        blocks[waiting], heights[waiting] = trees.node[row + FIRST_BLOCK] + i, trees.node[row + HEIGHT]
        waiting += 1
    while waiting:
        waiting -= 1
        block, height = blocks[waiting], heights[waiting]
        begin, fill = int64(trees.block_start[block]), int64(trees.block_fill[block])
        for entry in range(begin + fill - 1, begin - 1, -1):
            if height:
                child = int64(trees.ref[entry])
                a, n = int64(trees.block_start[child]), int64(trees.block_fill[child])
                lo, hi, score = trees.lo[a], trees.hi[a], trees.score[a]
                for i in range(a + 1, a + n):
                    lo, hi, score = min(lo, trees.lo[i]), max(hi, trees.hi[i]), max(score, trees.score[i])
                if lo != trees.lo[entry] or hi != trees.hi[entry]:
                    return EXTENT_WRONG
                if score != trees.score[entry]:
                    return BEST_WRONG
                blocks[waiting], heights[waiting] = child, height - 1
                waiting += 1
        if height:
            continue
        for entry in range(begin, begin + fill):
            lo, hi = trees.lo[entry], trees.hi[entry]
            own = max(own, trees.score[entry])
            if lo > hi or lo < low or hi > high:
                return SIDE_WRONG
            if keyed and not lo <= trees.node_key[node] <= hi:
                return KEY_WRONG
            if ordered and previous >= 0:
                if trees.score[previous] < trees.score[entry]:
                    return ORDER_WRONG
                earlier = sequence[trees.ref[previous]] <= sequence[trees.ref[entry]]
                if trees.score[previous] == trees.score[entry] and not earlier:
                    return ORDER_WRONG
            previous = entry
    return BEST_WRONG if own != stored_own else FINE


def check_holes(arrays: ScoredArrays) -> None:
    """Raise AssertionError unless the R-trees of an IR-tree have no holes. O(size).

    Extents are exact, and all intervals of a node with a key contain the key (both are `check_order`'s): then an
    extent is the union of intervals with a common point, and has no hole. It remains that only such nodes have more
    than one block.
    """
    lists, trees = arrays.lists.reshape(-1, LIST), arrays.trees()
    for root in lists[:, ROOT].tolist():
        for node in reach(trees, root)[0].tolist() if root >= 0 else ():
            row = node * NODE
            tall = arrays.node[row + FIRST_BLOCK] >= 0 and arrays.node[row + HEIGHT] > 0
            require(not tall or arrays.node[row + LEFT] != BUCKET, INVARIANT[HOLE])


def check_content(arrays: ScoredArrays, table: SegmentArrays, only: Bools | None = None) -> None:
    """Raise AssertionError unless the lists hold exactly what the table asks for (of the slots in `only`)."""
    info = arrays.info
    modes = "relaxed" if not info[EXACT] else "exact" if info[REGIME] == ABSENT_LISTS else "both"
    grids = Grids(arrays.grid_start, arrays.grid, arrays.grid_used)
    layout = lay_out(table, modes, bool(len(arrays.needed)), grids, only, int(info[REGIME]))
    exact, relaxed = slice(0, int(info[LOOSE])), slice(int(info[LOOSE]), None)
    for name, loose, part, chosen in (
        ("exact", layout.loose_exact, exact, arrays.list_of[0::KINDS]),
        ("relaxed", layout.loose_relaxed, relaxed, arrays.list_of[1::KINDS]),
    ):
        slots, scores = arrays.loose[part], arrays.loose_score[part]
        require(np.array_equal(slots, loose.slot), f"the loose slots for {name} search are not those of the table")
        require(np.array_equal(scores, loose.score), f"the loose scores for {name} search are not those of the table")
        _check_lists(arrays, name, layout, chosen)
    single = bool((np.diff(table.clause_start)[only if only is not None else slice(None)] <= 1).all())
    require(single or not info[ONE_CLAUSE], "a slot has two clauses where none should have")


def _check_lists(arrays: ScoredArrays, name: str, layout: Layout, chosen: I32) -> None:
    lists = layout.exact if name == "exact" else layout.relaxed
    rows = arrays.lists.reshape(-1, LIST)
    seen = set()
    for one, attr in enumerate(lists.attr.tolist()):
        begin, end = int(lists.start[one]), int(lists.start[one + 1])
        require(attr < len(chosen) and chosen[attr] != EMPTY, f"attribute {attr} lacks its {name} list")
        which = int(chosen[attr])
        seen.add(which)
        require(rows[which, ATTR] == attr, f"the {name} list of attribute {attr} belongs to another")
        require(not rows[which, SOLE] or bool(lists.sole[one]), f"the {name} list of attribute {attr} is not sole")
        entries = list_entries(arrays, which)
        wanted = np.rec.fromarrays([column[begin:end] for column in (lists.lo, lists.hi, lists.score, lists.slot)])
        got = np.rec.fromarrays([arrays.lo[entries], arrays.hi[entries], arrays.score[entries], arrays.ref[entries]])
        same = len(got) == len(wanted) and bool((np.sort(got) == np.sort(wanted)).all())
        require(same, f"the {name} list of attribute {attr} does not hold what the table asks for")
    rest = {int(which) for which in chosen if which != EMPTY} - seen
    require(all(not len(list_entries(arrays, which)) for which in rest), f"there is a {name} list too many")


def list_entries(arrays: ScoredArrays, which: int) -> I64:
    """The entries of a list, each once; those of a run in its order."""
    row = arrays.lists.reshape(-1, LIST)[which]
    if arrays.info[SHAPE] == SEGMENTS:
        begin, size = int(row[ROOT]), int(row[SIZE])
        return np.unique(arrays.part[arrays.part_start[begin] : arrays.part_start[begin + 2 * size]]).astype(np.int64)
    if row[ROOT] < 0:
        return np.empty(0, np.int64)
    nodes, out = reach(arrays.trees(), int(row[ROOT]))[0], np.empty(len(arrays.score), np.int64)
    found = gather_entries(arrays.trees(), nodes, np.empty(len(arrays.block_start) + 1, np.int64), out)
    return out[:found]


@kernel
def gather_entries(trees: Trees, nodes: I64, waiting: I64, out: I64) -> int:
    """The entries of these nodes, run by run; how many. `waiting` has room for all blocks."""
    found = 0
    for node in nodes:
        row = node * NODE
        first, left = int64(trees.node[row + FIRST_BLOCK]), int64(trees.node[row + BLOCKS])
        for i in range(left):  # the last is taken first
            waiting[i] = ((first + left - 1 - i) << 8) | trees.node[row + HEIGHT]
        if first < 0:
            left = int64(0)
        while left:
            left -= 1
            block, height = waiting[left] >> 8, waiting[left] & 255
            start, fill = int64(trees.block_start[block]), int64(trees.block_fill[block])
            for i in range(fill):
                if height:
                    waiting[left] = (int64(trees.ref[start + fill - 1 - i]) << 8) | (height - 1)
                    left += 1
                else:
                    out[found] = start + i
                    found += 1
    return found
