"""Insert into and remove from the trees of an IR-tree, in place, in arrays with room to grow.

A node's run is a B+-tree of blocks in score order: an entry goes to its place, a full block is split into halves
and its parent gets one more child; extents and best scores on the way are kept exact. A bucket that is full becomes
a node with a key, as in the build.

    block 0: 9 7 5 3  (room 4)    insert 6   ->   block 0: 9 7 .. block 1: 6 5 3      parent: (.. : 9) (.. : 6)

Removal deletes the entry; an empty block is removed from its parent; the room left behind is reclaimed when it is most
of the whole (`ir_tree.py`). When a path grows too long, the lowest ancestor with one side too heavy is rebuilt, as in a
scapegoat tree; so paths stay O(log n) whatever the order of arrival.

Complexity: O(log n) nodes and O(branching log n) entries per insertion or removal, amortised.
"""

from __future__ import annotations

import numpy as np

import earmark.index.ranked.arrays as sc
import earmark.index.ranked.forest as forest
from earmark.flat.arrays import I32, I64
from earmark.index.ranked.arrays import int64
from earmark.index.ranked.forest import ForestDraft
from earmark.index.ranked.lists import EntryColumns
from earmark.jit import inlined, kernel

DONE, NO_ROOM, TOO_DEEP = range(3)
SMALL = 4
"""Room of a new block below the usual width, doubled when it is full."""
LONGEST = 4096
"""The most nodes of a recorded path; a tree is rebalanced long before."""


@kernel
def insert_entries(
    draft: ForestDraft, sequence: I64, lists: I32, added: EntryColumns, first: int, leaf: int, width: int
) -> tuple[int, int, I64]:
    """Insert the entries from `first` on into their lists; where to resume, why it stopped, the path of the last entry.

    A path begins with its length, and goes from the root down.
    """
    path, spare = np.empty(LONGEST, np.int64), np.empty(8 * sc.WIDEST, np.int64)
    for i in range(first, len(added.lo)):
        spread = draft.used[forest.HIGHEST] + 4
        if (
            draft.used[forest.NODES_USED] + 5 > len(draft.node_key)
            or draft.used[forest.BLOCKS_USED] + spread + 4 > len(draft.block_start)
            or draft.used[forest.ENTRIES_USED] + (spread + 4) * sc.WIDEST > len(draft.score)
        ):
            return i, NO_ROOM, path
        which, lo, hi, score = lists[i], added.lo[i], added.hi[i], added.score[i]
        if draft.list_root[which] == sc.EMPTY:
            draft.list_root[which] = new_node(draft, which, leaf, hi)
        node, depth = draft.list_root[which], 1
        while True:
            path[min(depth, LONGEST - 1)] = node
            row = node * sc.NODE
            below = node * sc.NODE_SCORE + sc.BELOW
            draft.node_score[below] = max(draft.node_score[below], score)
            if draft.node[row + sc.LEFT] == sc.BUCKET:
                block = int64(draft.node[row + sc.FIRST_BLOCK])
                if block < 0 or draft.block_fill[block] < leaf:
                    break
                split_bucket(draft, which, node, spare)
                draft.used[forest.DEEPEST] = max(draft.used[forest.DEEPEST], depth + 1)
            key = draft.node_key[node]
            if lo <= key <= hi:
                break
            side = sc.LEFT if hi < key else sc.RIGHT
            if draft.node[row + side] < 0:
                draft.node[row + side] = new_node(draft, which, leaf, hi)
            node = int64(draft.node[row + side])
            depth += 1
        into_run(draft, sequence, node, added, i, width, spare)
        draft.used[forest.DEEPEST] = max(draft.used[forest.DEEPEST], depth)
        if depth > longest_path(draft.list_nodes[which]):
            path[0] = depth
            return i + 1, TOO_DEEP, path
    return len(added.lo), DONE, path


@inlined
def longest_path(nodes: int) -> int:
    """The longest path allowed in a tree of `nodes` nodes: twice that of a balanced one, and some."""
    longest = 8
    while nodes:
        nodes >>= 1
        longest += 2
    return longest


@inlined
def new_node(draft: ForestDraft, which: int, leaf: int, key: int) -> int:
    """Add a node without intervals: a bucket or, in a tree without buckets, a node with this key."""
    node = draft.used[forest.NODES_USED]
    draft.used[forest.NODES_USED] += 1
    draft.list_nodes[which] += 1
    draft.node_key[node] = 0 if leaf else key
    row = node * sc.NODE
    draft.node[row + sc.LEFT], draft.node[row + sc.RIGHT] = sc.BUCKET if leaf else sc.EMPTY, sc.EMPTY
    draft.node[row + sc.FIRST_BLOCK], draft.node[row + sc.BLOCKS], draft.node[row + sc.HEIGHT] = sc.EMPTY, 0, 0
    draft.node_score[node * sc.NODE_SCORE + sc.BELOW] = draft.node_score[node * sc.NODE_SCORE + sc.OWN] = -np.inf
    return int(node)


@inlined
def new_block(draft: ForestDraft, room: int) -> int:
    """Add an empty block at the end."""
    block = draft.used[forest.BLOCKS_USED]
    draft.used[forest.BLOCKS_USED] += 1
    draft.block_start[block] = draft.used[forest.ENTRIES_USED]
    draft.block_fill[block], draft.block_room[block] = 0, room
    draft.used[forest.ENTRIES_USED] += room
    return int(block)


@inlined
def put_entry(draft: ForestDraft, block: int, index: int, lo: int, hi: int, score: float, ref: int) -> None:
    """Write an entry into a block that has room, before its entry `index`."""
    start = int64(draft.block_start[block])
    for i in range(start + draft.block_fill[block], start + index, -1):
        move_entry(draft, i - 1, i)
    place = start + index
    draft.lo[place], draft.hi[place], draft.score[place], draft.ref[place] = lo, hi, score, ref
    draft.block_fill[block] += 1


@inlined
def move_entry(draft: ForestDraft, source: int, target: int) -> None:
    draft.lo[target], draft.hi[target] = draft.lo[source], draft.hi[source]
    draft.score[target], draft.ref[target] = draft.score[source], draft.ref[source]


@inlined
def split_bucket(draft: ForestDraft, which: int, node: int, spare: I64) -> None:
    """Turn a full bucket into a node with a key, and buckets for what the key does not stab."""
    row = node * sc.NODE
    block = int64(draft.node[row + sc.FIRST_BLOCK])
    start, fill = int64(draft.block_start[block]), int64(draft.block_fill[block])
    for i in range(2 * fill):  # by insertion, since numpy's sort allocates
        value = draft.lo[start + (i >> 1)] if i & 1 == 0 else draft.hi[start + (i >> 1)]
        j = i
        while j and spare[j - 1] > value:
            spare[j] = spare[j - 1]
            j -= 1
        spare[j] = value
    key = spare[fill]  # the upper median
    draft.node_key[node] = key
    draft.node[row + sc.LEFT] = sc.EMPTY
    kept, own = 0, -np.inf
    for i in range(start, start + fill):
        side = sc.LEFT if draft.hi[i] < key else sc.RIGHT if draft.lo[i] > key else -1
        if side < 0:
            move_entry(draft, i, start + kept)
            own = max(own, draft.score[i])
            kept += 1
            continue
        if draft.node[row + side] < 0:
            child = new_node(draft, which, 1, 0)
            draft.node[row + side] = child
            draft.node[child * sc.NODE + sc.FIRST_BLOCK] = new_block(draft, fill)
            draft.node[child * sc.NODE + sc.BLOCKS] = 1
        child = int64(draft.node[row + side])
        inside = int64(draft.node[child * sc.NODE + sc.FIRST_BLOCK])
        fill_there = int64(draft.block_fill[inside])
        put_entry(draft, inside, fill_there, draft.lo[i], draft.hi[i], draft.score[i], draft.ref[i])
        best = max(draft.node_score[child * sc.NODE_SCORE + sc.OWN], draft.score[i])
        draft.node_score[child * sc.NODE_SCORE + sc.OWN] = draft.node_score[child * sc.NODE_SCORE + sc.BELOW] = best
    draft.block_fill[block] = kept
    draft.node_score[node * sc.NODE_SCORE + sc.OWN] = own


@inlined
def first_slot(draft: ForestDraft, block: int, height: int) -> int:
    """The slot of the first entry below a block."""
    while height:
        block = int64(draft.ref[draft.block_start[block]])
        height -= 1
    return int(draft.ref[draft.block_start[block]])


@inlined
def not_after(draft: ForestDraft, sequence: I64, entry: int, height: int, score: float, slot: int) -> bool:
    """Whether an entry (the first below it, if it is an inner one) goes before a score and slot, or is equal."""
    if draft.score[entry] != score:
        return bool(draft.score[entry] > score)
    other = int(draft.ref[entry])
    if height:
        other = first_slot(draft, other, height - 1)
    return bool(sequence[other] <= sequence[slot])


@inlined
def into_run(draft: ForestDraft, sequence: I64, node: int, added: EntryColumns, i: int, width: int, spare: I64) -> None:
    """Insert entry i into the run of a node. `spare` records the path: (block, index) per level."""
    lo, hi, score, slot = added.lo[i], added.hi[i], added.score[i], int(added.slot[i])
    row = node * sc.NODE
    if draft.node[row + sc.FIRST_BLOCK] < 0:
        draft.node[row + sc.FIRST_BLOCK], draft.node[row + sc.BLOCKS] = new_block(draft, min(SMALL, width)), 1
        draft.node[row + sc.HEIGHT] = 0
    draft.node_score[node * sc.NODE_SCORE + sc.OWN] = max(draft.node_score[node * sc.NODE_SCORE + sc.OWN], score)
    block, height, level = int64(draft.node[row + sc.FIRST_BLOCK]), int64(draft.node[row + sc.HEIGHT]), 0
    while True:
        start, fill = int64(draft.block_start[block]), int64(draft.block_fill[block])
        index = 0
        while index < fill and not_after(draft, sequence, start + index, height, score, slot):
            index += 1
        if height == 0:
            break
        index = max(index - 1, 0)
        entry = start + index
        draft.lo[entry], draft.hi[entry] = min(draft.lo[entry], lo), max(draft.hi[entry], hi)
        draft.score[entry] = max(draft.score[entry], score)
        spare[2 * level], spare[2 * level + 1] = block, index
        block, height, level = int64(draft.ref[entry]), height - 1, level + 1
    ref = slot
    while True:  # an entry to put into a block, and maybe one for its new sibling into the parent
        if draft.block_fill[block] == draft.block_room[block] and draft.block_room[block] < width:
            start, room = int64(draft.block_start[block]), min(2 * int64(draft.block_room[block]), width)
            target = draft.used[forest.ENTRIES_USED]  # a small block moves to a place with twice the room
            draft.used[forest.ENTRIES_USED] += room
            for place in range(draft.block_fill[block]):
                move_entry(draft, start + place, target + place)
            draft.block_start[block], draft.block_room[block] = target, room
        if draft.block_fill[block] < draft.block_room[block]:
            put_entry(draft, block, index, lo, hi, score, ref)
            return
        sibling = halve_block(draft, block, width)
        half = int64(draft.block_fill[block])
        if index <= half:
            put_entry(draft, block, index, lo, hi, score, ref)
        else:
            put_entry(draft, sibling, index - half, lo, hi, score, ref)
        if level == 0:
            root = new_block(draft, width)  # above the two halves of the old one
            draft.block_fill[root] = 2
            forest.add_child(draft, int64(draft.block_start[root]), block)
            forest.add_child(draft, int64(draft.block_start[root]) + 1, sibling)
            draft.node[row + sc.FIRST_BLOCK] = root
            draft.node[row + sc.HEIGHT] += 1
            draft.used[forest.HIGHEST] = max(draft.used[forest.HIGHEST], draft.node[row + sc.HEIGHT])
            return
        level -= 1
        parent, at_parent = spare[2 * level], spare[2 * level + 1]
        forest.add_child(draft, draft.block_start[parent] + at_parent, block)
        lo, hi, score = forest.summary(draft, sibling)
        ref = int(sibling)
        block, index = parent, at_parent + 1


@inlined
def halve_block(draft: ForestDraft, block: int, width: int) -> int:
    """Move the second half of a full block into a new one; returns the new one."""
    sibling = new_block(draft, width)
    start, fill = int64(draft.block_start[block]), int64(draft.block_fill[block])
    half, target = fill >> 1, int64(draft.block_start[sibling])
    for i in range(half, fill):
        move_entry(draft, start + i, target + i - half)
    draft.block_fill[block], draft.block_fill[sibling] = half, fill - half
    return sibling


# --- removing --------------------------------------------------------------------------------------------------


@kernel
def remove_entries(draft: ForestDraft, sequence: I64, which: I32, leaving: EntryColumns) -> I64:
    """Remove entries from their lists; returns how many were there, by list."""
    lo, hi, gone = leaving.lo, leaving.hi, np.zeros(len(draft.list_root), np.int64)
    path, spare = np.empty(LONGEST, np.int64), np.empty(8 * sc.WIDEST, np.int64)
    for i in range(len(lo)):
        node, depth = draft.list_root[which[i]], 0
        while node >= 0:
            depth += 1
            path[min(depth, LONGEST - 1)] = node
            key = draft.node_key[node]
            if draft.node[node * sc.NODE + sc.LEFT] == sc.BUCKET or lo[i] <= key <= hi[i]:
                break
            node = int64(draft.node[node * sc.NODE + (sc.LEFT if hi[i] < key else sc.RIGHT)])
        if node < 0 or draft.node[node * sc.NODE + sc.FIRST_BLOCK] < 0:
            continue
        if out_of_run(draft, sequence, node, leaving, i, spare):
            gone[which[i]] += 1
            for level in range(depth, 0, -1):
                draft.node_score[path[level] * sc.NODE_SCORE + sc.BELOW] = forest.best_below(draft, path[level])
    return gone


@inlined
def out_of_run(draft: ForestDraft, sequence: I64, node: int, leaving: EntryColumns, i: int, spare: I64) -> bool:
    """Remove entry i from the run of a node; False when it is not there. `spare`: (block, index) per level."""
    lo, hi, score, slot = leaving.lo[i], leaving.hi[i], leaving.score[i], leaving.slot[i]
    top = int64(draft.node[node * sc.NODE + sc.HEIGHT])
    level = 0
    spare[0], spare[1] = draft.node[node * sc.NODE + sc.FIRST_BLOCK], 0
    while True:
        block, index, height = spare[2 * level], spare[2 * level + 1], top - level
        start, fill = int64(draft.block_start[block]), int64(draft.block_fill[block])
        entry = start + index
        if index == fill or draft.score[entry] < score:  # nothing that can be it is further on
            if level == 0:
                return False
            level -= 1
            spare[2 * level + 1] += 1
            continue
        if height == 0:
            same = draft.ref[entry] == slot and draft.score[entry] == score
            if same and draft.lo[entry] == lo and draft.hi[entry] == hi:
                break
            spare[2 * level + 1] += 1
            continue
        inside = draft.lo[entry] <= lo and hi <= draft.hi[entry]
        if inside and index + 1 < fill and draft.score[entry + 1] >= score:
            following = first_slot(draft, int64(draft.ref[entry + 1]), height - 1)
            inside = draft.score[entry + 1] == score and sequence[following] >= sequence[slot]
        if inside:
            level += 1
            spare[2 * level], spare[2 * level + 1] = draft.ref[entry], 0
        else:
            spare[2 * level + 1] += 1
    while True:  # the entry goes; if that empties its block, so does the block's in its parent
        block, index = spare[2 * level], spare[2 * level + 1]
        start, fill = int64(draft.block_start[block]), int64(draft.block_fill[block])
        for place in range(start + index, start + fill - 1):
            move_entry(draft, place + 1, place)
        draft.block_fill[block] = fill - 1
        if fill > 1 or level == 0:
            break
        level -= 1
    while level:
        level -= 1
        forest.add_child(draft, draft.block_start[spare[2 * level]] + spare[2 * level + 1], spare[2 * level + 2])
    row, root = node * sc.NODE, spare[0]
    while draft.node[row + sc.HEIGHT] > 0 and draft.block_fill[root] == 1:
        root = int64(draft.ref[draft.block_start[root]])
        draft.node[row + sc.HEIGHT] -= 1
    draft.node[row + sc.FIRST_BLOCK] = root
    own = -np.inf
    if draft.block_fill[root] == 0:
        draft.node[row + sc.FIRST_BLOCK], draft.node[row + sc.BLOCKS], draft.node[row + sc.HEIGHT] = sc.EMPTY, 0, 0
    else:
        own = forest.summary(draft, root)[2]
    draft.node_score[node * sc.NODE_SCORE + sc.OWN] = own
    return True


# --- rebalancing -----------------------------------------------------------------------------------------------


@kernel
def heavy_ancestor(draft: ForestDraft, path: I64) -> int:
    """The place on a path of its lowest node with 7 of 10 nodes below it on one side; that of the root otherwise."""
    size = 1
    for level in range(path[0] - 1, 0, -1):
        whole = len(forest.reach(draft, path[level])[0])
        if 10 * size > 7 * whole and whole > 8:
            return level
        size = whole
    return 1
