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

from typing import NamedTuple

import numpy as np

from earmark.flat.bits import read_only
from earmark.flat.types import F64, I32, I64
from earmark.index.ranked.arrays import (
    BELOW,
    BLOCKS,
    BUCKET,
    EMPTY,
    FIRST_BLOCK,
    HEIGHT,
    LEFT,
    NODE,
    NODE_SCORE,
    OWN,
    PADDING,
    RIGHT,
    U8,
    WIDEST,
    ScoredArrays,
)
from earmark.index.ranked.lists import Entries, EntryColumns, ScoredLists
from earmark.jit import inlined, kernel

# Fields of `used`.
NODES_USED, BLOCKS_USED, ENTRIES_USED, DEEPEST, HIGHEST = range(5)
USED = 5

# Fields of a task of the recursion: intervals begin..end below a parent, on one side of it, so deep.
BEGIN, END, PARENT, SIDE, DEEP = range(5)
TASK = 5
PENDING = 256
"""Tasks that can wait: two a level, and each level halves the endpoints."""


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
    """How trees are to be built."""

    median: bool
    tree: bool
    branching: int
    leaf: int
    endpoints: bool = False


def grow(lists: ScoredLists, plan: TreePlan) -> ForestDraft:
    """The trees of all lists; `finished` cuts the arrays to size."""
    n, count = len(lists.lo), len(lists.attr)
    copies = 2 if plan.endpoints else 1
    nodes = (n if plan.median else 0) + count + 1
    blocks = copies * 2 * n + 1  # m intervals make at most 2 m blocks, whatever the branching
    entries = copies * n + blocks + PADDING
    draft = ForestDraft(
        used=np.zeros(USED, np.int64),
        list_root=np.full(count, EMPTY, np.int64),
        list_nodes=np.zeros(count, np.int64),
        node_key=np.empty(nodes, np.int64),
        node=np.empty(nodes * NODE, np.int32),
        node_score=np.empty(nodes * NODE_SCORE),
        block_start=np.empty(blocks, np.int32),
        block_fill=np.empty(blocks, np.uint8),
        block_room=np.empty(blocks, np.uint8),
        lo=np.empty(entries, np.int64),
        hi=np.empty(entries, np.int64),
        score=np.empty(entries),
        ref=np.empty(entries, np.int32),
    )
    for one in range(count):
        plant(lists, slice(int(lists.start[one]), int(lists.start[one + 1])), one, plan, draft)
    return draft


def plant(lists: Entries, part: slice, number: int, plan: TreePlan, draft: ForestDraft) -> None:
    """Add the tree of one list, whose entries are a part of these, to a draft that has room for it."""
    columns = (lists.lo[part], lists.hi[part], lists.score[part], lists.slot[part])
    entries = EntryColumns._make(map(read_only, columns))
    count = len(entries.lo)
    work = GrowScratch(np.arange(count), np.empty(2 * count + 1, np.int64), np.empty(TASK * PENDING, np.int64))
    grow_list(entries, number, plan, work, draft)


def finished(draft: ForestDraft, arrays: ScoredArrays) -> ScoredArrays:
    """Put the grown trees into the arrays of an index, without the spare room."""
    nodes, blocks, entries = (int(draft.used[field]) for field in (NODES_USED, BLOCKS_USED, ENTRIES_USED))
    draft.lo[entries : entries + PADDING] = 0
    draft.hi[entries : entries + PADDING] = 0
    ends = {
        "node_key": nodes, "node": nodes * NODE, "node_score": nodes * NODE_SCORE,
        "block_start": blocks, "block_fill": blocks, "block_room": blocks,
        "lo": entries + PADDING, "hi": entries + PADDING, "score": entries, "ref": entries,
    }  # fmt: skip
    return arrays._replace(**{name: getattr(draft, name)[:end].copy() for name, end in ends.items()})


@kernel
def grow_list(entries: EntryColumns, number: int, plan: TreePlan, scratch: GrowScratch, draft: ForestDraft) -> None:
    """One list into one tree of nodes."""
    lo, hi, which, spare, pending = entries.lo, entries.hi, scratch.which, scratch.spare, scratch.pending
    n = len(lo)
    first_node = draft.used[NODES_USED]
    draft.list_root[number] = first_node if n else EMPTY
    waiting = 0
    if n:
        pending[BEGIN], pending[END], pending[PARENT], pending[SIDE], pending[DEEP] = 0, n, EMPTY, LEFT, 1
        waiting = 1
    while waiting:
        waiting -= 1
        task = waiting * TASK
        begin, end, parent, depth = pending[task], pending[task + END], pending[task + PARENT], pending[task + DEEP]
        node = draft.used[NODES_USED]
        draft.used[NODES_USED] += 1
        draft.used[DEEPEST] = max(draft.used[DEEPEST], depth)
        if parent != EMPTY:
            draft.node[parent * NODE + pending[task + SIDE]] = node
        bucket = plan.median and end - begin <= plan.leaf
        draft.node_key[node] = 0
        draft.node[node * NODE + LEFT], draft.node[node * NODE + RIGHT] = BUCKET if bucket else EMPTY, EMPTY
        lower, upper = begin, end
        if plan.median and not bucket:
            key = median_end(lo, hi, which, spare, begin, end)
            draft.node_key[node] = key
            lower, upper = part_three(lo, hi, which, spare, begin, end, key)
        copies = 2 if plan.endpoints and not bucket else 1
        for copy in range(copies):
            if copies == 2:
                sort_part(lo if copy == 0 else hi, which, lower, upper, copy == 1)
            add_run(entries, which, lower, upper, node, plan, draft)
        if copies == 2:
            draft.node[node * NODE + FIRST_BLOCK] -= draft.node[node * NODE + BLOCKS]
        for side in range(2):
            a, b = (begin, lower) if side == LEFT else (upper, end)
            if b > a:
                task = waiting * TASK
                pending[task], pending[task + END], pending[task + PARENT] = a, b, node
                pending[task + SIDE], pending[task + DEEP] = side, depth + 1
                waiting += 1
    draft.list_nodes[number] = draft.used[NODES_USED] - first_node
    for node in range(draft.used[NODES_USED] - 1, first_node - 1, -1):
        best = draft.node_score[node * NODE_SCORE + OWN]
        for side in range(2):
            child = draft.node[node * NODE + side]
            if child >= 0:
                best = max(best, draft.node_score[child * NODE_SCORE + BELOW])
        draft.node_score[node * NODE_SCORE + BELOW] = best


@inlined
def median_end(lo: I64, hi: I64, which: I64, spare: I64, begin: int, end: int) -> int:
    """The median endpoint of the intervals begin..end, the upper one of the two. Expected O(n)."""
    count = end - begin
    for i in range(count):
        spare[2 * i] = lo[which[begin + i]]
        spare[2 * i + 1] = hi[which[begin + i]]
    left, right = 0, 2 * count - 1
    while left < right:
        a, b, c = spare[left], spare[(left + right) >> 1], spare[right]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = left, right
        while i <= j:
            while spare[i] < pivot:
                i += 1
            while spare[j] > pivot:
                j -= 1
            if i <= j:
                spare[i], spare[j] = spare[j], spare[i]
                i += 1
                j -= 1
        if count <= j:
            right = j
        elif count >= i:
            left = i
        else:
            break
    return int(spare[count])


@inlined
def part_three(lo: I64, hi: I64, which: I64, spare: I64, begin: int, end: int, key: int) -> tuple[int, int]:
    """Left of the key, stabbed by it, right of it: each in the order it had. Returns where the stabbed are."""
    left, stabbed = 0, 0
    for i in range(begin, end):
        left += hi[which[i]] < key
        stabbed += lo[which[i]] <= key <= hi[which[i]]
    a, b, c = begin, begin + left, begin + left + stabbed
    for i in range(begin, end):
        one = which[i]
        if hi[one] < key:
            spare[a] = one
            a += 1
        elif lo[one] <= key:
            spare[b] = one
            b += 1
        else:
            spare[c] = one
            c += 1
    for i in range(begin, end):
        which[i] = spare[i]
    return begin + left, begin + left + stabbed


@inlined
def sort_part(keys: I64, which: I64, begin: int, end: int, descending: bool) -> None:
    """Sort a part of `which` by a key: heap sort. (Only the endpoint-sorted tree asks.)"""
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
    """The intervals begin..end in blocks, below a tree of blocks if wanted, as the run of a node."""
    width = plan.branching if plan.tree else int(WIDEST)
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
                one = which[begin + i]
                draft.lo[entry], draft.hi[entry] = entries.lo[one], entries.hi[one]
                draft.score[entry], draft.ref[entry] = entries.score[one], entries.slot[one]
                own = max(own, entries.score[one])
            else:
                add_child(draft, entry, first + i)
            draft.used[ENTRIES_USED] += 1
        first, count = last, draft.used[BLOCKS_USED] - last
        if not plan.tree or count <= 1:
            break
        height += 1
    draft.node[node * NODE + FIRST_BLOCK] = first if count else EMPTY
    draft.node[node * NODE + BLOCKS], draft.node[node * NODE + HEIGHT] = count, height
    draft.node_score[node * NODE_SCORE + OWN] = own
    draft.used[HIGHEST] = max(draft.used[HIGHEST], height)


@inlined
def add_child(draft: ForestDraft, entry: int, child: int) -> None:
    """Write the inner entry of a child: its bounding interval, its best score, its number."""
    start = draft.block_start[child]
    lo, hi, score = draft.lo[start], draft.hi[start], draft.score[start]
    for i in range(start + 1, start + draft.block_fill[child]):
        lo, hi, score = min(lo, draft.lo[i]), max(hi, draft.hi[i]), max(score, draft.score[i])
    draft.lo[entry], draft.hi[entry], draft.score[entry], draft.ref[entry] = lo, hi, score, child
