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
from earmark.index.stored import element_types
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


class TreePlan(NamedTuple):
    """How to build trees; see the module's docstring."""

    median: bool
    tree: bool
    branching: int
    leaf: int
    endpoints: bool = False


def planted(lists: ScoredLists, arrays: ScoredArrays, plan: TreePlan) -> ScoredArrays:
    """Add the trees of these lists to the arrays of an index, with their roots, sizes and depth."""
    n, count = len(lists.lo), len(lists.attr)
    copies = 2 if plan.endpoints else 1
    blocks = copies * 2 * n + 1  # m intervals make at most 2 m blocks, whatever the branching
    room, kinds = (
        lengths((n if plan.median else 0) + count + 1, blocks, copies * n + blocks),
        element_types(ForestDraft),
    )
    columns: dict[str, Any] = {name: np.empty(size, kinds[name]) for name, size in room.items()}
    roots, nodes = np.full(count, sc.EMPTY, np.int64), np.zeros(count, np.int64)
    draft = ForestDraft(np.zeros(USED, np.int64), roots, nodes, **columns)
    for number in range(count):
        plant(lists.entries(number), number, plan, draft)
    entries = int(draft.used[ENTRIES_USED])
    draft.lo[entries : entries + sc.PADDING] = draft.hi[entries : entries + sc.PADDING] = 0
    trimmed = {name: getattr(draft, name)[:end].copy() for name, end in used_lengths(draft).items()}
    return with_trees(arrays, draft._replace(**trimmed))


def plant(entries: EntryColumns, number: int, plan: TreePlan, draft: ForestDraft) -> None:
    """Add the tree of one list to a draft that has room for it."""
    grow_list(EntryColumns._make(map(read_only, entries)), number, plan, draft)


def with_trees(arrays: ScoredArrays, draft: ForestDraft) -> ScoredArrays:
    """The arrays of an index with the trees of a draft, without its spare room."""
    rows, info = arrays.lists.reshape(-1, sc.LIST).copy(), arrays.info.copy()
    rows[:, sc.ROOT], rows[:, sc.NODES] = draft.list_root[: len(rows)], draft.list_nodes[: len(rows)]
    info[sc.DEPTH], info[sc.LEVELS] = draft.used[DEEPEST], draft.used[HIGHEST] + 1
    trees = {name: getattr(draft, name)[:end] for name, end in used_lengths(draft).items()}
    return arrays._replace(info=info, lists=rows.ravel(), **trees)


def lengths(nodes: int, blocks: int, entries: int) -> dict[str, int]:
    """How many elements arrays for these numbers of nodes, blocks and entries have, padding included."""
    made = {"node_key": nodes, "node": nodes * sc.NODE, "node_score": nodes * sc.NODE_SCORE}
    made |= {"block_start": blocks, "block_fill": blocks, "block_room": blocks}
    return made | {"lo": entries + sc.PADDING, "hi": entries + sc.PADDING, "score": entries, "ref": entries}


def used_lengths(draft: ForestDraft) -> dict[str, int]:
    """How many elements of each array of a draft are in use, padding included."""
    return lengths(*draft.used[: ENTRIES_USED + 1].tolist())


@kernel
def grow_list(entries: EntryColumns, number: int, plan: TreePlan, draft: ForestDraft) -> None:
    """Build the tree of one list."""
    lo, hi, n = entries.lo, entries.hi, len(entries.lo)
    which, pending = np.arange(n), np.empty(TASK * PENDING, np.int64)
    first_node, waiting = draft.used[NODES_USED], 0
    draft.list_root[number] = first_node if n else sc.EMPTY
    if n:
        pending[BEGIN], pending[END], pending[PARENT], pending[SIDE], pending[DEEP] = 0, n, sc.EMPTY, sc.LEFT, 1
        waiting = 1
    while waiting:
        waiting -= 1
        task = waiting * TASK
        begin, end, parent, depth = pending[task], pending[task + END], pending[task + PARENT], pending[task + DEEP]
        node = draft.used[NODES_USED]
        row = node * sc.NODE
        draft.used[NODES_USED] += 1
        draft.used[DEEPEST] = max(draft.used[DEEPEST], depth)
        if parent != sc.EMPTY:
            draft.node[parent * sc.NODE + pending[task + SIDE]] = node
        bucket = plan.median and end - begin <= plan.leaf
        draft.node_key[node] = 0
        draft.node[row + sc.LEFT], draft.node[row + sc.RIGHT] = sc.BUCKET if bucket else sc.EMPTY, sc.EMPTY
        lower, upper = begin, end
        if plan.median and not bucket:
            part = which[begin:end]
            starts, ends = lo[part], hi[part]
            key = np.partition(np.concatenate((starts, ends)), end - begin)[end - begin]  # the upper median
            draft.node_key[node] = key
            left, stabbed, right = part[ends < key], part[(starts <= key) & (key <= ends)], part[starts > key]
            lower, upper = begin + len(left), end - len(right)
            which[begin:lower], which[lower:upper], which[upper:end] = left, stabbed, right
        if plan.endpoints and not bucket:  # two runs: by left end ascending, then by right end descending
            part = which[lower:upper]
            part[:] = part[np.argsort(lo[part])]
            add_run(entries, which, lower, upper, node, plan, draft)
            part[:] = part[np.argsort(~hi[part])]
        add_run(entries, which, lower, upper, node, plan, draft)
        if plan.endpoints and not bucket:
            draft.node[row + sc.FIRST_BLOCK] -= draft.node[row + sc.BLOCKS]
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


@kernel
def reach(trees: Any, root: int) -> tuple[I64, I64, I64, int]:
    """The nodes from a root down, upper ones first; the least and the greatest key that intervals of each may have; and
    the depth. No nodes at all where links lead outside or in circles.
    """
    total = len(trees.node_key)
    nodes, lo, hi = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    count, done, level_end, depth = 0, 0, 0, 0
    if 0 <= root < total:
        nodes[0], lo[0], hi[0], count = root, np.iinfo(np.int64).min, np.iinfo(np.int64).max, 1
    while done < count:
        if done == level_end:
            level_end, depth = count, depth + 1
        node, key = nodes[done], trees.node_key[nodes[done]]
        for side in range(2):
            child = int64(trees.node[node * sc.NODE + side])
            if child >= total or (child >= 0 and count == total):
                return nodes[:0], lo[:0], hi[:0], 0
            if child >= 0:
                nodes[count] = child
                lo[count], hi[count] = (lo[done], key - 1) if side == sc.LEFT else (key + 1, hi[done])
                count += 1
        done += 1
    return nodes[:count], lo[:count], hi[:count], depth


@kernel
def entries_below(trees: Any, root: int) -> tuple[I64, int]:
    """The entries of a node and all below it, those of a run in its order; and the number of nodes."""
    nodes, found = reach(trees, root)[0], 0
    waiting, out = np.empty(len(trees.block_start) + 1, np.int64), np.empty(len(trees.score), np.int64)
    for node in nodes:
        found = run_entries(trees, node, waiting, out, found)
    return out[:found], len(nodes)


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
