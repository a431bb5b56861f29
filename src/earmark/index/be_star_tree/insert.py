"""Taking in clauses, one at a time: Algorithms 1 to 3, with expansion upwards and downwards.

A clause goes down from the root c-node. Where a p-directory lists one of its attributes, it enters the p-node of the
highest rank, and in its c-directory the smallest bucket that encloses it, left and right staying apart; where none is
listed, it ends in that c-node's l-node.

    enter_buckets: b is a leaf that is not partitioned            ends there; the box grows
                   the whole would grow more than beta times      a new parent above b takes it (bottom-up expansion)
                   meets left and right                           b is its home
                   meets one of them                              that one, and so on
                   meets neither                                  the one that grows less; a missing one is made

An l-node above its limit, or a c-directory grown too deep, is left to `settle.py`: the kernel stops and says so.

Where we differ: printed, line 24 of Algorithm 2 compares with buckets that may be missing; a missing sibling counts as
growing least, because it is made to measure. A c-directory deeper than its number of clauses warrants (sorted insert
orders) is clustered anew from the lowest bucket that is out of balance. Rank is the number of clauses minus the loss
that events measured.

Complexity: O(depth x (inactive dimensions + constraints)).
"""

from __future__ import annotations

import math

from earmark.flat.machine import at
from earmark.flat.types import I32
from earmark.index.be_star_tree.arrays import (
    ATTR,
    BELOW,
    BETA,
    BINS,
    BOX,
    BUCKETS,
    CAPACITY,
    CHANGED,
    CLAUSES,
    COUNT,
    ENTRIES,
    HI,
    HIGHEST,
    LEFT,
    LEVEL,
    LEVELS,
    LIMIT,
    LINK,
    LO,
    LONGEST,
    LONGEST_RECORD,
    LOWEST,
    MORE,
    NEVER,
    NONE,
    OWN_HI,
    OWN_LO,
    PARENT,
    PART,
    PATTR,
    PNODE,
    PROOT,
    RIGHT,
    RIGID,
    RIM,
    RIMS,
    ROOT,
    TOP,
    WIDTH,
    WORDS,
    TreeArrays,
)
from earmark.index.be_star_tree.bounds import Path, widen_bounds, widen_box
from earmark.index.be_star_tree.nodes import (
    above,
    can_key,
    constraint_on,
    find_pnode,
    highest,
    lowest,
    never_holds,
    new_bucket,
    new_record,
    put_entry,
    replace_child,
    signature,
    weights_of,
    whole,
)
from earmark.jit import embedded, inlined, kernel
from earmark.segment.arrays import SegmentArrays

DONE, OVERFLOW, DEEP, CRAMPED = 0, 1, 2, 3
"""Why the insert kernel stopped: all taken in; an l-node is above its limit; a c-directory is too deep; no room."""
SPARE_BUCKETS = 3 * LEVELS + 3
"""Buckets that one clause may need at most: two a level."""
SPARE_RIMS = SPARE_BUCKETS * 2 * LEVELS
SPARE_WORDS = 2 * LONGEST_RECORD + LONGEST_RECORD // 4 + 4
LEVEL_DEPTH = 12
"""A c-directory may always be so deep."""
DEPTH_FACTOR = 5.0
"""Beyond that, so many times the binary logarithm of its size in l-nodes: what uneven splits may come to."""


@embedded
def spare_entries(tree: TreeArrays) -> int:
    """Entries that one clause may need at most: its l-node in a longer run."""
    return whole(2 * tree.head[int(LONGEST)] + 16)


@kernel
def insert_clauses(
    tree: TreeArrays, table: SegmentArrays, clauses: I32, i: int, path: Path, out: I32
) -> tuple[int, int]:
    """Take in clauses from number i on; returns the next number and why it stopped (the bucket is in `out`)."""
    while i < len(clauses):
        if (
            len(tree.link) // LINK - tree.head[int(BUCKETS)] < int(SPARE_BUCKETS)
            or len(tree.rim) - tree.head[int(RIMS)] < int(SPARE_RIMS)
            or len(tree.word) - tree.head[int(WORDS)] < int(SPARE_WORDS)
            or len(tree.sign) - tree.head[int(ENTRIES)] < spare_entries(tree)
        ):
            return i, int(CRAMPED)
        clause = whole(clauses[i])
        i += 1
        if tree.where[clause] != int(NONE):
            continue
        b, depth = home_of(tree, table, clause, path)
        slot, most = whole(tree.slot[clause]), weights_of(table, clause)
        put_entry(tree, b, signature(table, clause), clause, new_record(tree, table, clause), most)
        tree.head[int(CLAUSES)] += 1
        widen_bounds(tree, table, b, 1, clause, slot, most)
        a, own = b, True
        while a != int(NONE):
            tree.more[a * MORE + BELOW] += 1
            tree.more[a * MORE + CHANGED] += 1
            widen_box(tree, a, own, path)
            if a != int(ROOT):
                widen_bounds(tree, table, a, 0, clause, slot, most)
            own = at(tree.link, a * LINK + PARENT) == int(NONE)
            a = above(tree, a)
        if tree.link[b * LINK + COUNT] > tree.more[b * MORE + LIMIT]:
            out[0] = b
            return i, int(OVERFLOW)
        if depth > int(LEVEL_DEPTH) and not tree.head[int(RIGID)]:
            out[0] = out_of_balance(tree, b)
            if out[0] != int(NONE):
                return i, int(DEEP)
    return i, int(DONE)


@embedded
def home_of(tree: TreeArrays, table: SegmentArrays, clause: int, path: Path) -> tuple[int, int]:
    """The bucket whose l-node takes the clause, and its depth in its c-directory; the path gets its boxes."""
    if never_holds(table, clause):
        return int(NEVER), 0
    b, level, depth = int(ROOT), 0, 0
    while at(tree.link, b * LINK + WIDTH) and level < int(LEVELS):
        p = best_pnode(tree, table, b, clause)
        if p == int(NONE):
            break
        level += 1
        attr = at(tree.pnode, p * PART + PATTR)
        c = constraint_on(table, clause, attr)
        path.attr[level], path.lo[level], path.hi[level] = attr, lowest(table, c), highest(table, c)
        root = whole(at(tree.pnode, p * PART + PROOT))
        if tree.head[int(RIGID)]:
            b, depth = enter_cells(tree, root, path.lo[level], path.hi[level])
        else:
            b, depth = enter_buckets(tree, root, path.lo[level], path.hi[level])
    return b, depth


@embedded
def best_pnode(tree: TreeArrays, table: SegmentArrays, b: int, clause: int) -> int:
    """The p-node of the highest rank among the clause's attributes, or NONE (Algorithm 1, lines 2 to 10)."""
    best, best_rank = int(NONE), -math.inf
    for c in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
        if can_key(table, c):
            p = find_pnode(tree, b, at(table.attr, c))
            if p != int(NONE):
                rank = tree.more[tree.pnode[p * PART + PROOT] * MORE + BELOW] - tree.loss[p]
                if rank > best_rank:
                    best, best_rank = p, rank
    return best


@inlined
def length(lo: int, hi: int) -> float:
    """How many keys a box holds, about; 0 when it is empty. Floats, since the key line is longer than int64 counts."""
    return float(hi) - float(lo) + 1.0 if lo <= hi else 0.0


@embedded
def near(tree: TreeArrays, b: int, lo: int, hi: int, apart: float) -> bool:
    """Whether [lo, hi] meets a bucket's box, or comes closer than siblings shall (footnote 4)."""
    low, high = at(tree.box, b * BOX + LO), at(tree.box, b * BOX + HI)
    if lo <= high and low <= hi:
        return True
    return apart > 0 and float(lo) <= float(high) + apart and float(low) <= float(hi) + apart


@embedded
def grown(tree: TreeArrays, b: int, lo: int, hi: int) -> float:
    """The length of a bucket's box with [lo, hi] in it."""
    return length(min(lo, at(tree.box, b * BOX + LO)), max(hi, at(tree.box, b * BOX + HI)))


@embedded
def enter_buckets(tree: TreeArrays, b: int, lo: int, hi: int) -> tuple[int, int]:
    """The home bucket of [lo, hi] in a c-directory, and its depth (InsertCDir); makes a bucket where it must."""
    depth = 0
    apart = tree.apart[at(tree.link, b * LINK + ATTR)]
    while True:
        left, right = whole(at(tree.link, b * LINK + LEFT)), whole(at(tree.link, b * LINK + RIGHT))
        leaf = left == int(NONE) and right == int(NONE)
        if leaf and at(tree.link, b * LINK + WIDTH) == 0:
            return b, depth
        size = length(at(tree.box, b * BOX + LO), at(tree.box, b * BOX + HI))
        if grown(tree, b, lo, hi) > tree.knob[int(BETA)] * size:
            return new_parent(tree, b), depth
        if leaf:
            return b, depth
        near_left = left != int(NONE) and near(tree, left, lo, hi, apart)
        near_right = right != int(NONE) and near(tree, right, lo, hi, apart)
        if near_left and near_right:
            return b, depth
        depth += 1
        if near_left:
            b = left
        elif near_right:
            b = right
        elif left == int(NONE) or right == int(NONE):
            return new_sibling(tree, b, lo), depth
        else:  # by place first: lengths at the far ends of the key line are rounded
            outer = lo > at(tree.box, right * BOX + HI)
            inner = hi < at(tree.box, left * BOX + LO)
            less = grown(tree, left, lo, hi) < grown(tree, right, lo, hi)
            b = left if inner or (less and not outer) else right


@embedded
def like_bucket(tree: TreeArrays, b: int, parent: int) -> int:
    """An empty leaf bucket in the same c-directory as b."""
    attr, pnode = whole(tree.link[b * LINK + ATTR]), whole(tree.more[b * MORE + PNODE])
    return new_bucket(tree, attr, pnode, parent, whole(tree.more[b * MORE + LEVEL]))


@embedded
def new_parent(tree: TreeArrays, b: int) -> int:
    """A bucket in the place of b, with b as its left child and nothing of its own yet."""
    made = like_bucket(tree, b, int(NONE))
    replace_child(tree, b, made)
    tree.link[made * LINK + LEFT] = b
    tree.link[b * LINK + PARENT] = made
    tree.more[made * MORE + BELOW] = tree.more[b * MORE + BELOW]
    tree.more[made * MORE + CHANGED] = tree.more[b * MORE + CHANGED]
    tree.box[made * BOX + LO], tree.box[made * BOX + HI] = tree.box[b * BOX + LO], tree.box[b * BOX + HI]
    for i in range(2 * (tree.more[b * MORE + LEVEL] - 1)):
        tree.rim[tree.more[made * MORE + RIM] + i] = tree.rim[tree.more[b * MORE + RIM] + i]
    tree.first[2 * made] = tree.first[2 * b]
    tree.top[made * TOP], tree.top[made * TOP + 1] = tree.top[b * TOP], tree.top[b * TOP + 1]
    if len(tree.peak):
        for i in range(BINS):
            tree.peak[2 * made * BINS + i] = tree.peak[2 * b * BINS + i]
    return made


@embedded
def new_sibling(tree: TreeArrays, b: int, lo: int) -> int:
    """An empty bucket beside the only child of b, for a box that begins at lo and does not meet that child."""
    only = max(tree.link[b * LINK + LEFT], tree.link[b * LINK + RIGHT])
    made = like_bucket(tree, b, b)
    below = lo < tree.box[only * BOX + LO]
    tree.link[b * LINK + LEFT] = made if below else only
    tree.link[b * LINK + RIGHT] = only if below else made
    return made


@embedded
def out_of_balance(tree: TreeArrays, b: int) -> int:
    """The lowest bucket above b whose depth below exceeds what its number of clauses warrants, or NONE."""
    height = 0
    while b != int(NONE):
        lnodes = tree.more[b * MORE + BELOW] / tree.head[int(CAPACITY)] + 1.0
        if height > int(LEVEL_DEPTH) + DEPTH_FACTOR * math.log2(lnodes):
            return b
        b = at(tree.link, b * LINK + PARENT)
        height += 1
    return int(NONE)


# --- BE-Tree: cells instead of bounding boxes ----------------------------------------------------------------------


@inlined
def middle_of(lo: int, hi: int) -> int:
    """The last key of the lower half of a cell."""
    return (lo >> 1) + (hi >> 1) + (lo & hi & 1)


@embedded
def set_cell(tree: TreeArrays, b: int, lo: int, hi: int) -> None:
    """Give a bucket its cell, which also is the box of its own c-node."""
    tree.box[b * BOX + LO], tree.box[b * BOX + HI] = lo, hi
    tree.box[b * BOX + OWN_LO], tree.box[b * BOX + OWN_HI] = lo, hi


@inlined
def cell_around(lo: int, hi: int) -> tuple[int, int]:
    """The smallest cell of the halved key line that holds [lo, hi]: a power of two long, and aligned."""
    low, high = lo, hi
    below, over = int(LOWEST), int(HIGHEST)
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
    """The smallest existing cell that holds [lo, hi], and its depth; makes a cell where it must."""
    if tree.box[b * BOX + LO] > tree.box[b * BOX + HI]:  # a new p-node: its first clause gives the domain
        low, high = cell_around(lo, hi)
        set_cell(tree, b, low, high)
        return b, 0
    depth = 0
    while True:
        low, high = tree.box[b * BOX + LO], tree.box[b * BOX + HI]
        if lo < low or hi > high:
            made = new_parent(tree, b)
            low, high = cell_around(min(lo, low), max(hi, high))
            set_cell(tree, made, low, high)
            if tree.box[b * BOX + LO] > middle_of(low, high):
                tree.link[made * LINK + LEFT], tree.link[made * LINK + RIGHT] = int(NONE), b
            b = made
        elif tree.link[b * LINK + LEFT] == int(NONE) and tree.link[b * LINK + RIGHT] == int(NONE):
            return b, depth
        middle = middle_of(low, high)
        if lo <= middle and hi > middle:
            return b, depth
        side = RIGHT if lo > middle else LEFT
        child = whole(tree.link[b * LINK + side])
        depth += 1
        if child == int(NONE):
            made = like_bucket(tree, b, b)
            set_cell(tree, made, middle + 1 if lo > middle else low, high if lo > middle else middle)
            tree.link[b * LINK + side] = made
            return made, depth
        b = child


SPARE = {"buckets": SPARE_BUCKETS, "rims": SPARE_RIMS, "words": SPARE_WORDS}
"""What `insert_clauses` wants to find free, entries aside."""
