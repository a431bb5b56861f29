"""Are these arrays an index of this table: what kernels rely on, what the papers promise, and nothing missing.

`check_structure` is what kernels need so that no read leaves its array and no loop fails to end; arrays from outside
pass it before anything else sees them. `check_order` is the invariant of the structures: order of runs, exact extents
and maxima, keys that stab their intervals, hence no holes. `check_content` compares with the lists of the table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import earmark.index.ranked.arrays as sc
from earmark.errors import require
from earmark.flat.arrays import I64, U8, Flags
from earmark.index.ranked.arrays import ScoredArrays, Trees, int64
from earmark.index.ranked.forest import best_below, entries_below, reach, run_entries, summary
from earmark.index.ranked.lists import LooseSlots, ScoredLists, lay_out_again
from earmark.jit import inlined, kernel
from earmark.segment.arrays import SegmentArrays

(FINE, NODE_WRONG, BLOCK_WRONG, ENTRY_WRONG, TOO_DEEP, UNCOUNTED) = range(6)
(ORDER_WRONG, EXTENT_WRONG, BEST_WRONG, KEY_WRONG, SIDE_WRONG, HOLE) = range(6, 12)
PROBLEMS = (
    "",
    "a node is out of range, or reached twice",
    "a block is out of range, empty, or reached twice",
    "an entry refers to a slot that the table does not have",
    "a tree is deeper than recorded",
    "a list has more nodes or entries than recorded",
    "the entries of a run are not in score order",
    "the extent of a block is not its bounding interval",
    "the best score below a node or block is not the greatest",
    "a node has an interval that its key does not stab",
    "an interval is on the wrong side of a key",
    "the extent of a block has a hole",
)


def check_structure(arrays: ScoredArrays, table: SegmentArrays) -> None:
    """Raise AssertionError unless kernels can read the arrays safely. O(size)."""
    slots, entries, lists = len(table.sequence), len(arrays.score), len(arrays.lists) // sc.LIST
    nodes, blocks, info = len(arrays.node_key), len(arrays.block_start), arrays.info
    wanted = {"info": sc.INFO, "lists": lists * sc.LIST, "bounds": (lists + 1) * sc.BOUND, "ref": entries}
    wanted |= {"lo": entries + sc.PADDING, "hi": entries + sc.PADDING, "loose_score": len(arrays.loose)}
    wanted |= {"node": nodes * sc.NODE, "node_score": nodes * sc.NODE_SCORE, "block_fill": blocks}
    for name, length in wanted.items():
        got = len(getattr(arrays, name))
        require(got == length, f"expected {length} elements in {name}, got {got}")
    require(len(arrays.needed) in (0, slots), "needed has the wrong length")
    require(_within(arrays.list_of, sc.EMPTY, lists), "list_of refers to a list that does not exist")
    require(_within(arrays.loose, 0, slots), "a loose slot is not in the table")
    require(0 <= info[sc.LOOSE] <= len(arrays.loose), "there are fewer loose slots than recorded")
    require(1 <= info[sc.LEVELS] <= 40 and 0 <= info[sc.DEPTH] <= 1 << 20, "the depth is impossible")
    require(2 <= info[sc.BRANCHING] <= sc.WIDEST and info[sc.LEAF] >= 0, "the branching is impossible")
    require(0 <= info[sc.ORDER] <= sc.NEVER and 0 <= info[sc.REGIME] <= sc.ABSENT_LISTS, "the order is unknown")
    require(info[sc.MOST_CONSTRAINTS] >= 1, "the number of constraints is impossible")
    for array in (arrays.score, arrays.node_score, arrays.loose_score, arrays.bounds):
        require(not np.isnan(array).any(), "a score is not a number")
    rows = arrays.lists.reshape(-1, sc.LIST)
    require(bool((rows[:, [sc.NODES, sc.ENTRIES]] >= 0).all()), "a list has a negative size")
    if info[sc.SHAPE] == sc.SEGMENTS:
        _check_segments(arrays, rows, slots)
    else:
        _check_trees(arrays, rows, slots)


def _within(numbers: NDArray[Any], least: int, end: int) -> bool:
    return not len(numbers) or bool(numbers.min() >= least and numbers.max() < end)


def _check_segments(arrays: ScoredArrays, rows: I64, slots: int) -> None:
    """Check the nodes of segment trees."""
    starts, parts = arrays.part_start, len(arrays.part)
    require(len(starts) > 0 and starts[0] == 0 and starts[-1] == parts, "the parts of nodes have the wrong length")
    require(bool((starts[:-1] <= starts[1:]).all()), "the parts of nodes descend")
    require(_within(arrays.part, 0, len(arrays.score)), "a node refers to an entry that does not exist")
    require(_within(arrays.part_best, sc.EMPTY, len(arrays.score)), "the best of a node does not exist")
    require(_within(arrays.ref, 0, slots), PROBLEMS[ENTRY_WRONG])
    for row in rows:
        size, base, first, last = (int(row[field]) for field in (sc.SIZE, sc.ROOT, sc.CUT_FIRST, sc.CUT_LAST))
        require(0 <= first <= last <= len(arrays.cut) and size > 0 and not size & (size - 1), "a list has no cuts")
        require(last - first <= size and base >= 0 and base + 2 * size < len(starts), "a list has too few nodes")
        require(base + 2 * size <= len(arrays.part_best), "a list has too few nodes")
        require(size.bit_length() <= arrays.info[sc.DEPTH], PROBLEMS[TOO_DEEP])
        require(2 * size <= row[sc.NODES], PROBLEMS[UNCOUNTED])


def _check_trees(arrays: ScoredArrays, rows: I64, slots: int) -> None:
    """Check the nodes and blocks of trees."""
    trees, ends = arrays.trees(), arrays.block_start + arrays.block_fill.astype(np.int64)
    inside = _within(arrays.block_start, 0, len(arrays.score) + 1) and _within(ends, 0, len(arrays.score) + 1)
    require(inside and _within(arrays.block_fill, 0, sc.WIDEST + 1), PROBLEMS[BLOCK_WRONG])
    node_seen, block_seen = np.zeros(len(arrays.node_key), np.uint8), np.zeros(len(ends), np.uint8)
    for row in rows:
        nodes, _, _, depth = reach(trees, int(row[sc.ROOT]))
        require(len(nodes) or row[sc.ROOT] == sc.EMPTY, PROBLEMS[NODE_WRONG])
        require(depth <= arrays.info[sc.DEPTH], PROBLEMS[TOO_DEEP])
        entries = survey(trees, nodes, slots, node_seen, block_seen)
        require(entries >= 0, PROBLEMS[max(0, -entries)])
        allowed = row[sc.ENTRIES] * (2 if arrays.info[sc.SHAPE] == sc.ENDPOINTS else 1)
        require(len(nodes) <= row[sc.NODES] and entries <= allowed, PROBLEMS[UNCOUNTED])


@kernel
def survey(trees: Trees, nodes: I64, slots: int, node_seen: U8, block_seen: U8) -> int:
    """The number of entries in the runs of nodes, or what is wrong as a negative number."""
    entries, waiting = 0, np.empty(len(block_seen) + 1, np.int64)
    for node in nodes:
        if node_seen[node]:
            return -NODE_WRONG
        node_seen[node] = 1
        in_run = survey_run(trees, node, slots, block_seen, waiting)
        if in_run < 0:
            return in_run
        entries += in_run
    return entries


@inlined
def survey_run(trees: Trees, node: int, slots: int, seen: U8, waiting: I64) -> int:
    """The number of entries in a node's run, or what is wrong as a negative number."""
    row, blocks, entries = node * sc.NODE, len(seen), 0
    first, count = int64(trees.node[row + sc.FIRST_BLOCK]), int64(trees.node[row + sc.BLOCKS])
    top = int64(trees.node[row + sc.HEIGHT])
    if first < 0:
        return 0
    last = first + count * (2 if trees.info[sc.SHAPE] != 0 and trees.node[row + sc.LEFT] != sc.BUCKET else 1)
    if count < 1 or last > blocks or (top > 0 and count != 1):
        return -BLOCK_WRONG
    if top < 0 or top >= trees.info[sc.LEVELS]:
        return -TOO_DEEP
    left = 0
    for block in range(first, last):
        if seen[block]:
            return -BLOCK_WRONG
        seen[block] = 1
        waiting[left] = (block << 8) | top
        left += 1
    while left:
        left -= 1
        block, height = waiting[left] >> 8, waiting[left] & 255
        begin, fill = int64(trees.block_start[block]), int64(trees.block_fill[block])
        if fill == 0:
            return -BLOCK_WRONG
        for entry in range(begin, begin + fill):
            child = int64(trees.ref[entry])
            if height == 0:
                entries += 1
                if child < 0 or child >= slots:
                    return -ENTRY_WRONG
            elif child < 0 or child >= blocks or seen[child]:
                return -BLOCK_WRONG
            else:
                seen[child] = 1
                waiting[left] = (child << 8) | (height - 1)
                left += 1
    return entries


def check_order(arrays: ScoredArrays, table: SegmentArrays, keyed_tree: bool) -> None:
    """Raise AssertionError unless the invariants of the structure hold. O(size). `keyed_tree`: nodes have keys."""
    if arrays.info[sc.SHAPE] == sc.SEGMENTS:
        return
    ordered = arrays.info[sc.ORDER] == sc.ALWAYS and arrays.info[sc.SHAPE] == 0
    trees = arrays.trees()
    for root in arrays.lists[sc.ROOT :: sc.LIST].tolist():
        for node, lo, hi in zip(*(column.tolist() for column in reach(trees, root)[:3]), strict=True):
            keyed = keyed_tree and arrays.node[node * sc.NODE + sc.LEFT] != sc.BUCKET
            problem = check_node(trees, table.sequence, node, ordered, keyed, lo, hi)
            require(not problem, PROBLEMS[problem])


@kernel
def check_node(trees: Trees, sequence: I64, node: int, ordered: bool, keyed: bool, low: int, high: int) -> int:
    """What is wrong with a node, or 0."""
    row, stored_own = node * sc.NODE, trees.node_score[node * sc.NODE_SCORE + sc.OWN]
    if best_below(trees, node) != trees.node_score[node * sc.NODE_SCORE + sc.BELOW]:
        return BEST_WRONG
    if trees.node[row + sc.FIRST_BLOCK] < 0:
        return BEST_WRONG if stored_own != -np.inf else FINE
    problem = check_extents(trees, node)
    if problem:
        return problem
    waiting, entries = np.empty(len(trees.block_start), np.int64), np.empty(len(trees.score), np.int64)
    own, previous = -np.inf, int64(-1)
    for i in range(run_entries(trees, node, waiting, entries, 0)):
        entry = entries[i]
        lo, hi = trees.lo[entry], trees.hi[entry]
        own = max(own, trees.score[entry])
        if lo > hi or lo < low or hi > high:
            return SIDE_WRONG
        if keyed and not lo <= trees.node_key[node] <= hi:
            return KEY_WRONG
        if ordered and previous >= 0:
            earlier = sequence[trees.ref[previous]] <= sequence[trees.ref[entry]]
            tie = trees.score[previous] == trees.score[entry]
            if trees.score[previous] < trees.score[entry] or (tie and not earlier):
                return ORDER_WRONG
        previous = entry
    return BEST_WRONG if own != stored_own else FINE


@kernel
def check_extents(trees: Trees, node: int) -> int:
    """What is wrong with the inner entries of a node's run, or 0."""
    waiting, row = np.empty(len(trees.block_start) + 1, np.int64), node * sc.NODE
    waiting[0] = (int64(trees.node[row + sc.FIRST_BLOCK]) << 8) | trees.node[row + sc.HEIGHT]
    left = 1 if trees.node[row + sc.HEIGHT] else 0  # a tree of blocks has one root
    while left:
        left -= 1
        block, height = waiting[left] >> 8, waiting[left] & 255
        begin = int64(trees.block_start[block])
        for entry in range(begin, begin + trees.block_fill[block]):
            child = int64(trees.ref[entry])
            lo, hi, score = summary(trees, child)
            if lo != trees.lo[entry] or hi != trees.hi[entry]:
                return EXTENT_WRONG
            if score != trees.score[entry]:
                return BEST_WRONG
            if height > 1:
                waiting[left] = (child << 8) | (height - 1)
                left += 1
    return FINE


def check_holes(arrays: ScoredArrays) -> None:
    """Raise AssertionError unless the R-trees of an IR-tree have no holes. O(size).

    Extents are exact, and all intervals of a node with a key contain the key (both are `check_order`'s): then an
    extent is the union of intervals with a common point, and has no hole. It remains that only such nodes have more
    than one block.
    """
    for root in arrays.lists[sc.ROOT :: sc.LIST].tolist():
        nodes = arrays.node.reshape(-1, sc.NODE)[reach(arrays.trees(), root)[0]]
        tall = (nodes[:, sc.FIRST_BLOCK] >= 0) & (nodes[:, sc.HEIGHT] > 0)
        require(not (tall & (nodes[:, sc.LEFT] == sc.BUCKET)).any(), PROBLEMS[HOLE])


def check_content(arrays: ScoredArrays, table: SegmentArrays, only: Flags | None = None) -> None:
    """Raise AssertionError unless the lists hold exactly what the table asks for (of the slots in `only`)."""
    info, layout = arrays.info, lay_out_again(arrays, table, only)
    _check_lists(arrays, "exact", layout.exact, layout.loose_exact, slice(0, info[sc.LOOSE]))
    _check_lists(arrays, "relaxed", layout.relaxed, layout.loose_relaxed, slice(info[sc.LOOSE], None))
    single = bool((np.diff(table.clause_start)[only if only is not None else slice(None)] <= 1).all())
    require(single or not info[sc.ONE_CLAUSE], "a slot has two clauses although none should have")


def _check_lists(arrays: ScoredArrays, name: str, lists: ScoredLists, loose: LooseSlots, part: slice) -> None:
    """Check the lists and the loose slots of one kind of search."""
    slots, scores = arrays.loose[part], arrays.loose_score[part]
    require(np.array_equal(slots, loose.slot), f"the loose slots for {name} search are not those of the table")
    require(np.array_equal(scores, loose.score), f"the loose scores for {name} search are not those of the table")
    rows, chosen = arrays.lists.reshape(-1, sc.LIST), arrays.list_of[int(name == "relaxed") :: sc.KINDS]
    seen = set()
    for number, attr in enumerate(lists.attr.tolist()):
        require(attr < len(chosen) and chosen[attr] != sc.EMPTY, f"attribute {attr} lacks its {name} list")
        which = int(chosen[attr])
        seen.add(which)
        require(rows[which, sc.ATTR] == attr, f"the {name} list of attribute {attr} belongs to another")
        require(not rows[which, sc.SOLE] or lists.sole[number], f"the {name} list of attribute {attr} is not sole")
        entries = list_entries(arrays, which)
        wanted = np.rec.fromarrays(lists.entries(number))
        got = np.rec.fromarrays([arrays.lo[entries], arrays.hi[entries], arrays.score[entries], arrays.ref[entries]])
        same = len(got) == len(wanted) and bool((np.sort(got) == np.sort(wanted)).all())
        require(same, f"the {name} list of attribute {attr} does not hold what the table asks for")
    rest = {int(which) for which in chosen if which != sc.EMPTY} - seen
    require(all(not len(list_entries(arrays, which)) for which in rest), f"there is a {name} list too many")


def list_entries(arrays: ScoredArrays, which: int) -> I64:
    """The entries of a list, each once; those of a run in its order."""
    row = arrays.lists.reshape(-1, sc.LIST)[which]
    if arrays.info[sc.SHAPE] == sc.SEGMENTS:
        begin, size = int(row[sc.ROOT]), int(row[sc.SIZE])
        return np.unique(arrays.part[arrays.part_start[begin] : arrays.part_start[begin + 2 * size]]).astype(np.int64)
    return entries_below(arrays.trees(), int(row[sc.ROOT]))[0]
