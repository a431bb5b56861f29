"""Inserting clauses, one at a time: Algorithms 1 to 3, with expansion upwards and downwards.

A clause goes down from the root c-node. Where a p-directory lists one of its attributes, it enters the p-node of the
highest rank, and in its c-directory the smallest bucket that encloses it, left and right staying apart; where none is
listed, it ends in that c-node's l-node.

    enter_buckets: b is a leaf that is not partitioned            ends there; the box grows
                   the whole would grow more than beta times      a new parent above b takes it (bottom-up expansion)
                   meets left and right                           b is its home
                   meets one of them                              that one, and so on
                   meets neither                                  the one that grows less; a missing one is made

An l-node above its limit, or a c-directory that has grown too deep, is left to `settle.py`: the kernel stops and
reports it.

Where we differ: as printed, line 24 of Algorithm 2 compares with buckets that may be missing; a missing sibling counts
as growing least, because it is made to measure. A c-directory deeper than its number of clauses warrants (sorted insert
orders) is clustered again from the lowest bucket that is out of balance. Rank is the number of clauses minus the loss
measured on events.

Complexity: O(depth x (inactive dimensions + constraints)).
"""

from __future__ import annotations

import math

import earmark.index.be_star_tree.arrays as be
import earmark.index.be_star_tree.nodes as nodes
from earmark.flat.arrays import I32
from earmark.flat.machine import at
from earmark.index.be_star_tree.arrays import TreeArrays
from earmark.index.be_star_tree.bounds import Path, widen_bounds, widen_box
from earmark.index.be_star_tree.nodes import whole
from earmark.jit import embedded, inlined, kernel
from earmark.segment.arrays import SegmentArrays

DONE, OVERFLOW, DEEP, CRAMPED = 0, 1, 2, 3
"""Why the insert kernel stopped: all inserted; an l-node is above its limit; a c-directory is too deep; no room."""
SPARE_BUCKETS = 3 * be.LEVELS + 3
"""The most buckets that one clause may need: two per level."""
SPARE_RIMS = SPARE_BUCKETS * 2 * be.LEVELS
SPARE_WORDS = 2 * be.LONGEST_RECORD + be.LONGEST_RECORD // 4 + 4
SPARE = {"buckets": SPARE_BUCKETS, "rims": SPARE_RIMS, "words": SPARE_WORDS}
"""The room that `insert_clauses` needs, besides entries."""
LEVEL_DEPTH = 12
"""The depth that any c-directory may have."""
DEPTH_FACTOR = 5.0
"""Beyond that, this many times the binary logarithm of its size in l-nodes, which allows for uneven splits."""


@embedded
def spare_entries(tree: TreeArrays) -> int:
    """The most entries that one clause may need: its l-node in a longer run."""
    return whole(2 * tree.head[be.LONGEST] + 16)


@kernel
def insert_clauses(
    tree: TreeArrays, table: SegmentArrays, clauses: I32, i: int, path: Path, out: I32
) -> tuple[int, int]:
    """Insert clauses from number i on; returns the next number and why it stopped (the bucket is in `out`)."""
    while i < len(clauses):
        if (
            len(tree.link) // be.LINK - tree.head[be.BUCKETS] < int(SPARE_BUCKETS)
            or len(tree.rim) - tree.head[be.RIMS] < int(SPARE_RIMS)
            or len(tree.word) - tree.head[be.WORDS] < int(SPARE_WORDS)
            or len(tree.sign) - tree.head[be.ENTRIES] < spare_entries(tree)
        ):
            return i, int(CRAMPED)
        clause = whole(clauses[i])
        i += 1
        if tree.where[clause] != be.NONE:
            continue
        b, depth = home_of(tree, table, clause, path)
        slot, most = whole(tree.slot[clause]), nodes.weights_of(table, clause)
        nodes.put_entry(tree, b, nodes.signature(table, clause), clause, nodes.new_record(tree, table, clause), most)
        tree.head[be.CLAUSES] += 1
        widen_bounds(tree, table, b, 1, clause, slot, most)
        a, own = b, True
        while a != be.NONE:
            tree.more[a * be.MORE + be.BELOW] += 1
            tree.more[a * be.MORE + be.CHANGED] += 1
            widen_box(tree, a, own, path)
            if a != be.ROOT:
                widen_bounds(tree, table, a, 0, clause, slot, most)
            own = at(tree.link, a * be.LINK + be.PARENT) == be.NONE
            a = nodes.above(tree, a)
        if tree.link[b * be.LINK + be.COUNT] > tree.more[b * be.MORE + be.LIMIT]:
            out[0] = b
            return i, int(OVERFLOW)
        if depth > int(LEVEL_DEPTH) and not tree.head[be.RIGID]:
            out[0] = out_of_balance(tree, b)
            if out[0] != be.NONE:
                return i, int(DEEP)
    return i, int(DONE)


@embedded
def home_of(tree: TreeArrays, table: SegmentArrays, clause: int, path: Path) -> tuple[int, int]:
    """The bucket whose l-node takes the clause, and its depth in its c-directory; puts its boxes on the path."""
    if nodes.never_holds(table, clause):
        return be.NEVER, 0
    b, level, depth = be.ROOT, 0, 0
    while at(tree.link, b * be.LINK + be.WIDTH) and level < be.LEVELS:
        p = best_pnode(tree, table, b, clause)
        if p == be.NONE:
            break
        level += 1
        attr = at(tree.pnode, p * be.PART + be.PATTR)
        c = nodes.constraint_on(table, clause, attr)
        path.attr[level], path.lo[level], path.hi[level] = attr, nodes.lowest(table, c), nodes.highest(table, c)
        root = whole(at(tree.pnode, p * be.PART + be.PROOT))
        if tree.head[be.RIGID]:
            b, depth = enter_cells(tree, root, path.lo[level], path.hi[level])
        else:
            b, depth = enter_buckets(tree, root, path.lo[level], path.hi[level])
    return b, depth


@embedded
def best_pnode(tree: TreeArrays, table: SegmentArrays, b: int, clause: int) -> int:
    """The p-node of the highest rank among the clause's attributes, or NONE (Algorithm 1, lines 2 to 10)."""
    best, best_rank = be.NONE, -math.inf
    for c in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
        if nodes.can_key(table, c):
            p = nodes.find_pnode(tree, b, at(table.attr, c))
            if p != be.NONE:
                rank = tree.more[tree.pnode[p * be.PART + be.PROOT] * be.MORE + be.BELOW] - tree.loss[p]
                if rank > best_rank:
                    best, best_rank = p, rank
    return best


@inlined
def length(lo: int, hi: int) -> float:
    """The approximate number of keys in a box; 0 when it is empty. A float, since the key line is longer than int64."""
    return float(hi) - float(lo) + 1.0 if lo <= hi else 0.0


@embedded
def near(tree: TreeArrays, b: int, lo: int, hi: int, apart: float) -> bool:
    """Whether [lo, hi] meets a bucket's box, or comes closer than siblings may (footnote 4)."""
    low, high = at(tree.box, b * be.BOX + be.LO), at(tree.box, b * be.BOX + be.HI)
    if lo <= high and low <= hi:
        return True
    return apart > 0 and float(lo) <= float(high) + apart and float(low) <= float(hi) + apart


@embedded
def grown(tree: TreeArrays, b: int, lo: int, hi: int) -> float:
    """The length of a bucket's box with [lo, hi] in it."""
    return length(min(lo, at(tree.box, b * be.BOX + be.LO)), max(hi, at(tree.box, b * be.BOX + be.HI)))


@embedded
def enter_buckets(tree: TreeArrays, b: int, lo: int, hi: int) -> tuple[int, int]:
    """The home bucket of [lo, hi] in a c-directory, and its depth (InsertCDir); makes a bucket if needed."""
    depth = 0
    apart = tree.apart[at(tree.link, b * be.LINK + be.ATTR)]
    while True:
        left, right = whole(at(tree.link, b * be.LINK + be.LEFT)), whole(at(tree.link, b * be.LINK + be.RIGHT))
        leaf = left == be.NONE and right == be.NONE
        if leaf and at(tree.link, b * be.LINK + be.WIDTH) == 0:
            return b, depth
        size = length(at(tree.box, b * be.BOX + be.LO), at(tree.box, b * be.BOX + be.HI))
        if grown(tree, b, lo, hi) > tree.knob[be.BETA] * size:
            return new_parent(tree, b), depth
        if leaf:
            return b, depth
        near_left = left != be.NONE and near(tree, left, lo, hi, apart)
        near_right = right != be.NONE and near(tree, right, lo, hi, apart)
        if near_left and near_right:
            return b, depth
        depth += 1
        if near_left:
            b = left
        elif near_right:
            b = right
        elif left == be.NONE or right == be.NONE:
            return new_sibling(tree, b, lo), depth
        else:  # by place first: lengths at the far ends of the key line are rounded
            outer = lo > at(tree.box, right * be.BOX + be.HI)
            inner = hi < at(tree.box, left * be.BOX + be.LO)
            less = grown(tree, left, lo, hi) < grown(tree, right, lo, hi)
            b = left if inner or (less and not outer) else right


@embedded
def like_bucket(tree: TreeArrays, b: int, parent: int) -> int:
    """Make an empty leaf bucket in the same c-directory as b."""
    attr, pnode = whole(tree.link[b * be.LINK + be.ATTR]), whole(tree.more[b * be.MORE + be.PNODE])
    return nodes.new_bucket(tree, attr, pnode, parent, whole(tree.more[b * be.MORE + be.LEVEL]))


@embedded
def new_parent(tree: TreeArrays, b: int) -> int:
    """Make a bucket in the place of b, with b as its left child and nothing of its own yet."""
    new = like_bucket(tree, b, be.NONE)
    nodes.replace_child(tree, b, new)
    tree.link[new * be.LINK + be.LEFT] = b
    tree.link[b * be.LINK + be.PARENT] = new
    tree.more[new * be.MORE + be.BELOW] = tree.more[b * be.MORE + be.BELOW]
    tree.more[new * be.MORE + be.CHANGED] = tree.more[b * be.MORE + be.CHANGED]
    for end in range(be.HI + 1):
        tree.box[new * be.BOX + end] = tree.box[b * be.BOX + end]
    for i in range(2 * (tree.more[b * be.MORE + be.LEVEL] - 1)):
        tree.rim[tree.more[new * be.MORE + be.RIM] + i] = tree.rim[tree.more[b * be.MORE + be.RIM] + i]
    nodes.copy_bounds(tree, 2 * b, 2 * new)
    return new


@embedded
def new_sibling(tree: TreeArrays, b: int, lo: int) -> int:
    """Make an empty bucket beside the only child of b, for a box that begins at lo and does not meet that child."""
    only = max(tree.link[b * be.LINK + be.LEFT], tree.link[b * be.LINK + be.RIGHT])
    new = like_bucket(tree, b, b)
    below = lo < tree.box[only * be.BOX + be.LO]
    tree.link[b * be.LINK + be.LEFT] = new if below else only
    tree.link[b * be.LINK + be.RIGHT] = only if below else new
    return new


@embedded
def out_of_balance(tree: TreeArrays, b: int) -> int:
    """The lowest bucket above b whose depth below exceeds what its number of clauses warrants, or NONE."""
    height = 0
    while b != be.NONE:
        lnodes = tree.more[b * be.MORE + be.BELOW] / tree.head[be.CAPACITY] + 1.0
        if height > int(LEVEL_DEPTH) + DEPTH_FACTOR * math.log2(lnodes):
            return b
        b = at(tree.link, b * be.LINK + be.PARENT)
        height += 1
    return be.NONE


# --- BE-Tree: cells instead of bounding boxes ----------------------------------------------------------------------


@inlined
def middle_of(lo: int, hi: int) -> int:
    """The last key of the lower half of a cell."""
    return (lo >> 1) + (hi >> 1) + (lo & hi & 1)


@embedded
def set_cell(tree: TreeArrays, b: int, lo: int, hi: int) -> None:
    """Set a bucket's cell, which also is the box of its own c-node."""
    tree.box[b * be.BOX + be.LO], tree.box[b * be.BOX + be.HI] = lo, hi
    tree.box[b * be.BOX + be.OWN_LO], tree.box[b * be.BOX + be.OWN_HI] = lo, hi


@inlined
def cell_around(lo: int, hi: int) -> tuple[int, int]:
    """The smallest cell of the halved key line that holds [lo, hi]: a power of two long, and aligned."""
    low, high = lo, hi
    below, over = be.LOWEST, be.HIGHEST
    while below < over:
        middle = middle_of(below, over)
        if high <= middle:
            over = middle
        elif low > middle:
            below = middle + 1
        else:
            break
    return below, over


@embedded
def enter_cells(tree: TreeArrays, b: int, lo: int, hi: int) -> tuple[int, int]:
    """The smallest existing cell that holds [lo, hi], and its depth; makes a cell if needed."""
    if tree.box[b * be.BOX + be.LO] > tree.box[b * be.BOX + be.HI]:  # a new p-node: its first clause gives the domain
        low, high = cell_around(lo, hi)
        set_cell(tree, b, low, high)
        return b, 0
    depth = 0
    while True:
        low, high = tree.box[b * be.BOX + be.LO], tree.box[b * be.BOX + be.HI]
        if lo < low or hi > high:
            new = new_parent(tree, b)
            low, high = cell_around(min(lo, low), max(hi, high))
            set_cell(tree, new, low, high)
            if tree.box[b * be.BOX + be.LO] > middle_of(low, high):
                tree.link[new * be.LINK + be.LEFT], tree.link[new * be.LINK + be.RIGHT] = be.NONE, b
            b = new
        elif tree.link[b * be.LINK + be.LEFT] == be.NONE and tree.link[b * be.LINK + be.RIGHT] == be.NONE:
            return b, depth
        middle = middle_of(low, high)
        if lo <= middle and hi > middle:
            return b, depth
        side = be.RIGHT if lo > middle else be.LEFT
        child = whole(tree.link[b * be.LINK + side])
        depth += 1
        if child == be.NONE:
            new = like_bucket(tree, b, b)
            set_cell(tree, new, middle + 1 if lo > middle else low, high if lo > middle else middle)
            tree.link[b * be.LINK + side] = new
            return new, depth
        b = child
