"""Build the trees of all lists at once: the interval tree over medians, the R-tree over a run, or both.

A list arrives in its order (score, or the arrangement of the SOPT-R-tree). With `median`, the recursion of section
2.1.1: the median endpoint of what is left becomes the node's key, what it stabs the node's run, the rest goes left
and right, each part still in order. Sets of at most `leaf` intervals stay together as a *bucket*: one comparison
tests them all, which is cheaper than a path. Without `median` the list is the run of a single node.

A run is cut into blocks; with `tree`, blocks of `branching` entries get a parent level until one block is left
(2.1.3, 2.2.3); without, the blocks follow one another and are read in turn (2.2.2).

Complexity: O(n log n) time with the medians, O(n) without; at most (1 + 2 / (branching - 1)) n entries.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import earmark.index.ranked.arrays as sc
from earmark.flat.arrays import F64, I32, I64, U8, read_only
from earmark.index.ranked.arrays import ScoredArrays, int64
from earmark.index.ranked.lists import EntryColumns, ScoredLists
from earmark.jit import inlined, kernel

# Fields of `used`.
NODES_USED, BLOCKS_USED, ENTRIES_USED, DEEPEST, HIGHEST = range(5)
USED = 5

# Fields of a task of the recursion: intervals begin..end below a parent, on one side of it, at a depth.
BEGIN, END, PARENT, SIDE, DEEP = range(5)
TASK = 5
PENDING = 256
"""The most tasks that can wait: two per level, and each level halves the endpoints."""


class ForestDraft(NamedTuple):
    """Arrays with room to grow; `used` says how much of them is taken."""

    used: I64
    list_root: I64
    list_nodes: I64
    node_key: I64
    node: I32
    node_score: F64
    block_start: I32
    block_fill: U8
    block_room: U8
    lo: I64
    hi: I64
    score: F64
    ref: I32


class GrowScratch(NamedTuple):
    """Working memory of a build: the order of the intervals, two numbers for each, and tasks that wait."""

    which: I64
    spare: I64
    pending: I64


class TreePlan(NamedTuple):
    """How to build trees; see the module's docstring."""

    median: bool
    tree: bool
    branching: int
    leaf: int
    endpoints: bool = False


def grow(lists: ScoredLists, plan: TreePlan) -> ForestDraft:
    """Build the trees of all lists; `finished` trims the arrays."""
    n, count = len(lists.lo), len(lists.attr)
    copies = 2 if plan.endpoints else 1
    nodes = (n if plan.median else 0) + count + 1
    blocks = copies * 2 * n + 1  # m intervals make at most 2 m blocks, whatever the branching
    entries = copies * n + blocks + sc.PADDING
    draft = ForestDraft(
        used=np.zeros(USED, np.int64),
        list_root=np.full(count, sc.EMPTY, np.int64),
        list_nodes=np.zeros(count, np.int64),
        node_key=np.empty(nodes, np.int64),
        node=np.empty(nodes * sc.NODE, np.int32),
        node_score=np.empty(nodes * sc.NODE_SCORE),
        block_start=np.empty(blocks, np.int32),
        block_fill=np.empty(blocks, np.uint8),
        block_room=np.empty(blocks, np.uint8),
        lo=np.empty(entries, np.int64),
        hi=np.empty(entries, np.int64),
        score=np.empty(entries),
        ref=np.empty(entries, np.int32),
    )
    for number in range(count):
        plant(lists.entries(number), number, plan, draft)
    return draft


def plant(entries: EntryColumns, number: int, plan: TreePlan, draft: ForestDraft) -> None:
    """Add the tree of one list to a draft that has room for it."""
    count = len(entries.lo)
    work = GrowScratch(np.arange(count), np.empty(2 * count + 1, np.int64), np.empty(TASK * PENDING, np.int64))
    grow_list(EntryColumns._make(map(read_only, entries)), number, plan, work, draft)


def used_lengths(draft: ForestDraft) -> dict[str, int]:
    """How many elements of each array of a draft are in use, padding included."""
    nodes, blocks, entries = (int(draft.used[field]) for field in (NODES_USED, BLOCKS_USED, ENTRIES_USED))
    lengths = {"node_key": nodes, "node": nodes * sc.NODE, "node_score": nodes * sc.NODE_SCORE}
    lengths |= {"block_start": blocks, "block_fill": blocks, "block_room": blocks}
    return lengths | {"lo": entries + sc.PADDING, "hi": entries + sc.PADDING, "score": entries, "ref": entries}


def finished(draft: ForestDraft, arrays: ScoredArrays) -> ScoredArrays:
    """Put the grown trees into the arrays of an index, without the spare room."""
    entries = int(draft.used[ENTRIES_USED])
    draft.lo[entries : entries + sc.PADDING] = draft.hi[entries : entries + sc.PADDING] = 0
    return arrays._replace(**{name: getattr(draft, name)[:end].copy() for name, end in used_lengths(draft).items()})


@kernel
def grow_list(entries: EntryColumns, number: int, plan: TreePlan, scratch: GrowScratch, draft: ForestDraft) -> None:
    """Build the tree of one list."""
    lo, hi, which, spare, pending = entries.lo, entries.hi, scratch.which, scratch.spare, scratch.pending
    n = len(lo)
    first_node = draft.used[NODES_USED]
    draft.list_root[number] = first_node if n else sc.EMPTY
    waiting = 0
    if n:
        pending[BEGIN], pending[END], pending[PARENT], pending[SIDE], pending[DEEP] = 0, n, sc.EMPTY, sc.LEFT, 1
        waiting = 1
    while waiting:
        waiting -= 1
        task = waiting * TASK
        begin, end, parent, depth = pending[task], pending[task + END], pending[task + PARENT], pending[task + DEEP]
        node = draft.used[NODES_USED]
        draft.used[NODES_USED] += 1
        draft.used[DEEPEST] = max(draft.used[DEEPEST], depth)
        if parent != sc.EMPTY:
            draft.node[parent * sc.NODE + pending[task + SIDE]] = node
        bucket = plan.median and end - begin <= plan.leaf
        draft.node_key[node] = 0
        draft.node[node * sc.NODE + sc.LEFT] = sc.BUCKET if bucket else sc.EMPTY
        draft.node[node * sc.NODE + sc.RIGHT] = sc.EMPTY
        lower, upper = begin, end
        if plan.median and not bucket:
            for i in range(begin, end):
                spare[2 * (i - begin)], spare[2 * (i - begin) + 1] = lo[which[i]], hi[which[i]]
            key = np.partition(spare[: 2 * (end - begin)], end - begin)[end - begin]  # the upper median
            draft.node_key[node] = key
            lower, upper = part_three(lo, hi, which, spare, begin, end, key)
        copies = 2 if plan.endpoints and not bucket else 1
        for copy in range(copies):
            if copies == 2:
                sort_part(lo if copy == 0 else hi, which, lower, upper, copy == 1)
            add_run(entries, which, lower, upper, node, plan, draft)
        if copies == 2:
            draft.node[node * sc.NODE + sc.FIRST_BLOCK] -= draft.node[node * sc.NODE + sc.BLOCKS]
        for side in range(2):
            a, b = (begin, lower) if side == sc.LEFT else (upper, end)
            if b > a:
                task = waiting * TASK
                pending[task], pending[task + END], pending[task + PARENT] = a, b, node
                pending[task + SIDE], pending[task + DEEP] = side, depth + 1
                waiting += 1
    draft.list_nodes[number] = draft.used[NODES_USED] - first_node
    for node in range(draft.used[NODES_USED] - 1, first_node - 1, -1):
        draft.node_score[node * sc.NODE_SCORE + sc.BELOW] = best_below(draft, node)


@inlined
def best_below(trees: Any, node: int) -> float:
    """The best score below a node of trees or a draft, from its run and its children."""
    best = trees.node_score[node * sc.NODE_SCORE + sc.OWN]
    for side in range(2):
        child = int64(trees.node[node * sc.NODE + side])
        if child >= 0:
            best = max(best, trees.node_score[child * sc.NODE_SCORE + sc.BELOW])
    return float(best)


@inlined
def part_three(lo: I64, hi: I64, which: I64, spare: I64, begin: int, end: int, key: int) -> tuple[int, int]:
    """Order intervals as left of the key, stabbed by it, right of it, keeping their order in each part.

    Returns where the stabbed ones begin and end.
    """
    left, stabbed = 0, 0
    for i in range(begin, end):
        left += hi[which[i]] < key
        stabbed += lo[which[i]] <= key <= hi[which[i]]
    a, b, c = begin, begin + left, begin + left + stabbed
    for i in range(begin, end):
        interval = which[i]
        if hi[interval] < key:
            spare[a] = interval
            a += 1
        elif lo[interval] <= key:
            spare[b] = interval
            b += 1
        else:
            spare[c] = interval
            c += 1
    for i in range(begin, end):
        which[i] = spare[i]
    return begin + left, begin + left + stabbed


@inlined
def sort_part(keys: I64, which: I64, begin: int, end: int, descending: bool) -> None:
    """Sort a part of `which` by a key with heap sort; only for the endpoint-sorted tree."""
    n = end - begin
    for step in range(n + n // 2):
        size = n
        parent = n // 2 - 1 - step
        if parent < 0:  # the heap is made: move its top behind it
            size = n - (step - n // 2) - 1
            which[begin], which[begin + size] = which[begin + size], which[begin]
            parent = 0
        while 2 * parent + 1 < size:
            child = 2 * parent + 1
            if child + 1 < size:
                x, y = keys[which[begin + child]], keys[which[begin + child + 1]]
                child += y < x if descending else y > x
            x, y = keys[which[begin + child]], keys[which[begin + parent]]
            if not (x < y if descending else x > y):
                break
            which[begin + child], which[begin + parent] = which[begin + parent], which[begin + child]
            parent = child


@inlined
def add_run(
    entries: EntryColumns, which: I64, begin: int, end: int, node: int, plan: TreePlan, draft: ForestDraft
) -> None:
    """Write the intervals begin..end as the run of a node: blocks, below a tree of blocks if the plan has one."""
    width = plan.branching if plan.tree else sc.WIDEST
    first, last, height = draft.used[BLOCKS_USED], draft.used[BLOCKS_USED], 0
    own, count = -np.inf, end - begin
    while True:  # a level: of entries, then of the blocks below
        last = draft.used[BLOCKS_USED]
        for i in range(count):
            entry = draft.used[ENTRIES_USED]
            if i % width == 0:
                block = draft.used[BLOCKS_USED]
                draft.used[BLOCKS_USED] += 1
                draft.block_start[block] = entry
                draft.block_fill[block] = draft.block_room[block] = min(width, count - i)
            if height == 0:
                of = which[begin + i]
                draft.lo[entry], draft.hi[entry] = entries.lo[of], entries.hi[of]
                draft.score[entry], draft.ref[entry] = entries.score[of], entries.slot[of]
                own = max(own, entries.score[of])
            else:
                add_child(draft, entry, first + i)
            draft.used[ENTRIES_USED] += 1
        first, count = last, draft.used[BLOCKS_USED] - last
        if not plan.tree or count <= 1:
            break
        height += 1
    draft.node[node * sc.NODE + sc.FIRST_BLOCK] = first if count else sc.EMPTY
    draft.node[node * sc.NODE + sc.BLOCKS], draft.node[node * sc.NODE + sc.HEIGHT] = count, height
    draft.node_score[node * sc.NODE_SCORE + sc.OWN] = own
    draft.used[HIGHEST] = max(draft.used[HIGHEST], height)


@inlined
def add_child(draft: ForestDraft, entry: int, child: int) -> None:
    """Write the inner entry of a child: its bounding interval, its best score, its number."""
    draft.lo[entry], draft.hi[entry], draft.score[entry] = summary(draft, child)
    draft.ref[entry] = child


@inlined
def run_entries(trees: Any, node: int, waiting: I64, out: I64, found: int) -> int:
    """Append the entries of a node's run to `out` in order; returns their end. `waiting` has room for all blocks."""
    row = node * sc.NODE
    first, left = int64(trees.node[row + sc.FIRST_BLOCK]), int64(trees.node[row + sc.BLOCKS])
    if first < 0:
        return found
    for i in range(left):  # the last is taken first
        waiting[i] = ((first + left - 1 - i) << 8) | trees.node[row + sc.HEIGHT]
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


@inlined
def summary(trees: Any, block: int) -> tuple[int, int, float]:
    """The bounding interval and the best score of a block of trees or a draft."""
    start = int64(trees.block_start[block])
    lo, hi, score = trees.lo[start], trees.hi[start], trees.score[start]
    for i in range(start + 1, start + trees.block_fill[block]):
        lo, hi, score = min(lo, trees.lo[i]), max(hi, trees.hi[i]), max(score, trees.score[i])
    return lo, hi, score
