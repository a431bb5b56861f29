"""Boxes and score bounds of a bucket: widened by one clause, or worked out again from what the bucket holds.

Section IV-B (inactive dimensions), Algorithm 3, section VI (upper bounds).

    bucket at level 2, below p-nodes d1, d2        box   [lo, hi] on d2 (active), of all and of its own c-node
                                                   rim   [lo, hi] on d1 (inactive)
    bounds   first   the smallest sequence                        a tie is won by the smaller one
             top     greatest static score, greatest sum of weights
             peak    64 bins: the greatest weight of attributes a with a % 64 = bin (left out where all weights are 1)

Each stands twice: for all clauses of the bucket, and for its l-node alone. Those of a p-node are its root bucket's.

Invariant (BE*-Tree): every box is the exact bounding box of its clauses, every bound their exact maximum (rounded up to
float32). So a removal renews one path: a bucket's values follow from its l-node, its children and its p-nodes' root
buckets, and a bucket whose values did not change leaves those above as they are.
In a BE-Tree the boxes are cells of halved domains, which no clause moves; its bounds are the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.flat.machine import at
from earmark.flat.types import I32, I64
from earmark.index.be_star_tree.arrays import (
    ATTR,
    BINS,
    BOX,
    COUNT,
    F32,
    FIRST,
    HI,
    HIGHEST,
    LEFT,
    LEVEL,
    LEVELS,
    LINK,
    LO,
    LOWEST,
    MORE,
    NONE,
    OWN_HI,
    OWN_LO,
    OWN_STATIC,
    OWN_SUM,
    PART,
    PDIR,
    PNODE,
    POWNER,
    PROOT,
    RIGID,
    RIM,
    STATIC,
    SUM,
    TOP,
    WIDTH,
    TreeArrays,
)
from earmark.index.be_star_tree.nodes import constraint_on, highest, lowest, raised, whole
from earmark.jit import embedded, inlined
from earmark.segment.arrays import SegmentArrays
from earmark.segment.evaluate import static_score


class Path(NamedTuple):
    """By level: the attribute partitioned by, and a box on it."""

    attr: I32
    lo: I64
    hi: I64
    peak: F32


def new_path() -> Path:
    """Room for every level, and for the weights of one bucket."""
    size = LEVELS + 2
    return Path(
        np.zeros(size, np.int32), np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(BINS, np.float32)
    )


@embedded
def path_to(tree: TreeArrays, b: int, path: Path) -> int:
    """Fill in the attributes partitioned by above bucket b, its own included; returns its level."""
    level = tree.more[b * MORE + LEVEL]
    while b > 1 and at(tree.more, b * MORE + LEVEL) > 0:
        path.attr[at(tree.more, b * MORE + LEVEL)] = at(tree.link, b * LINK + ATTR)
        b = at(tree.pnode, at(tree.more, b * MORE + PNODE) * PART + POWNER)
    return whole(level)


@embedded
def boxes_of(table: SegmentArrays, clause: int, level: int, path: Path) -> None:
    """Put the clause's boxes on the path's attributes into it."""
    for i in range(1, level + 1):
        c = constraint_on(table, clause, at(path.attr, i))
        path.lo[i], path.hi[i] = lowest(table, c), highest(table, c)


@embedded
def widen_box(tree: TreeArrays, b: int, own: bool, path: Path) -> None:
    """Let the boxes of a bucket take in the path's (UpdateBucketInfo). `own`: the clause is in its own c-node."""
    level = at(tree.more, b * MORE + LEVEL)
    if level < 1 or at(tree.head, int(RIGID)):
        return
    box, lo, hi = b * BOX, at(path.lo, level), at(path.hi, level)
    tree.box[box + LO], tree.box[box + HI] = min(tree.box[box + LO], lo), max(tree.box[box + HI], hi)
    if own:
        tree.box[box + OWN_LO] = min(tree.box[box + OWN_LO], lo)
        tree.box[box + OWN_HI] = max(tree.box[box + OWN_HI], hi)
    rim = at(tree.more, b * MORE + RIM)
    for i in range(1, level):
        j = rim + 2 * (i - 1)
        tree.rim[j] = min(tree.rim[j], at(path.lo, i))
        tree.rim[j + 1] = max(tree.rim[j + 1], at(path.hi, i))


@embedded
def widen_bounds(
    tree: TreeArrays, table: SegmentArrays, b: int, part: int, clause: int, slot: int, most: float
) -> None:
    """Let the score bounds of a bucket (part 0) or of its l-node (part 1) take in a clause."""
    i, j = b * TOP + 2 * part, 2 * b + part
    tree.first[j] = min(tree.first[j], at(table.sequence, slot))
    tree.top[i] = max(tree.top[i], np.float32(raised(static_score(table, slot))))
    tree.top[i + 1] = max(tree.top[i + 1], np.float32(most))
    if len(tree.peak):
        base = (2 * b + part) * BINS
        for c in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
            weight = raised(at(table.weight, c)) if len(table.weight) else raised(1.0)
            bin_ = base + (at(table.attr, c) & (BINS - 1))
            tree.peak[bin_] = max(tree.peak[bin_], np.float32(weight))


@embedded
def renew(tree: TreeArrays, table: SegmentArrays, b: int, path: Path) -> bool:
    """Work out boxes and bounds of a bucket from its l-node, children and p-nodes; whether anything changed."""
    level = path_to(tree, b, path)
    changed = renew_bounds(tree, table, b, path)
    if level < 1 or tree.head[int(RIGID)]:
        return changed
    for i in range(1, level + 1):
        path.lo[i], path.hi[i] = int(HIGHEST), int(LOWEST)
    first = tree.link[b * LINK + FIRST]
    for e in range(first, first + tree.link[b * LINK + COUNT]):
        clause = at(tree.clause, e)
        for i in range(1, level + 1):
            c = constraint_on(table, clause, at(path.attr, i))
            path.lo[i] = min(path.lo[i], lowest(table, c))
            path.hi[i] = max(path.hi[i], highest(table, c))
    start = tree.link[b * LINK + PDIR]
    for d in range(start, start + tree.link[b * LINK + WIDTH]):
        root = at(tree.pnode, at(tree.pdir_node, d) * PART + PROOT)
        take_rims(tree, root, level, path)
    box = b * BOX
    changed |= _set(tree.box, box + OWN_LO, path.lo[level]) | _set(tree.box, box + OWN_HI, path.hi[level])
    for side in range(2):
        child = tree.link[b * LINK + LEFT + side]
        if child != int(NONE):
            take_rims(tree, child, level - 1, path)
            path.lo[level] = min(path.lo[level], at(tree.box, child * BOX + LO))
            path.hi[level] = max(path.hi[level], at(tree.box, child * BOX + HI))
    changed |= _set(tree.box, box + LO, path.lo[level]) | _set(tree.box, box + HI, path.hi[level])
    rim = tree.more[b * MORE + RIM]
    for i in range(1, level):
        changed |= _set(tree.rim, rim + 2 * i - 2, path.lo[i]) | _set(tree.rim, rim + 2 * i - 1, path.hi[i])
    return changed


@embedded
def take_rims(tree: TreeArrays, b: int, levels: int, path: Path) -> None:
    """Widen the path by a bucket's inactive boxes on the first `levels` dimensions."""
    rim = tree.more[b * MORE + RIM]
    for i in range(1, levels + 1):
        path.lo[i] = min(path.lo[i], at(tree.rim, rim + 2 * i - 2))
        path.hi[i] = max(path.hi[i], at(tree.rim, rim + 2 * i - 1))


@inlined
def _set(array: I64, i: int, value: int) -> bool:
    """Store a value; whether it is another than before."""
    changed = array[i] != value
    array[i] = value
    return bool(changed)


@embedded
def renew_bounds(tree: TreeArrays, table: SegmentArrays, b: int, path: Path) -> bool:
    """The score bounds of a bucket and its l-node from scratch; whether those of the bucket changed."""
    i = b * TOP
    old_first, old_static, old_sum = tree.first[2 * b], tree.top[i + STATIC], tree.top[i + SUM]
    base = 2 * b * BINS
    if len(tree.peak):
        for k in range(BINS):
            path.peak[k] = tree.peak[base + k]
            tree.peak[base + k + BINS] = 0.0
    tree.first[2 * b + 1], tree.top[i + OWN_STATIC], tree.top[i + OWN_SUM] = int(HIGHEST), -np.inf, 0.0
    start = tree.link[b * LINK + FIRST]
    for e in range(start, start + tree.link[b * LINK + COUNT]):
        clause = whole(at(tree.clause, e))
        widen_bounds(tree, table, b, 1, clause, whole(at(tree.slot, clause)), np.float64(at(tree.most, e)))
    tree.first[2 * b], tree.top[i + STATIC], tree.top[i + SUM] = (
        tree.first[2 * b + 1],
        tree.top[i + OWN_STATIC],
        tree.top[i + OWN_SUM],
    )
    if len(tree.peak):
        for k in range(base, base + BINS):
            tree.peak[k] = tree.peak[k + BINS]
    start = tree.link[b * LINK + PDIR]
    for d in range(start - 2, start + tree.link[b * LINK + WIDTH]):
        if d < start:
            other = tree.link[b * LINK + LEFT + d - start + 2]
        else:
            other = at(tree.pnode, at(tree.pdir_node, d) * PART + PROOT)
        if other != int(NONE):
            tree.first[2 * b] = min(tree.first[2 * b], at(tree.first, 2 * other))
            tree.top[i + STATIC] = max(tree.top[i + STATIC], at(tree.top, other * TOP + STATIC))
            tree.top[i + SUM] = max(tree.top[i + SUM], at(tree.top, other * TOP + SUM))
            if len(tree.peak):
                for k in range(BINS):
                    tree.peak[base + k] = max(tree.peak[base + k], at(tree.peak, 2 * other * BINS + k))
    same = old_first == tree.first[2 * b] and old_static == tree.top[i + STATIC] and old_sum == tree.top[i + SUM]
    if len(tree.peak):
        for k in range(BINS):
            same &= path.peak[k] == tree.peak[base + k]
    return not same


@embedded
def at_edge(tree: TreeArrays, table: SegmentArrays, b: int, clause: int, slot: int, most: float, path: Path) -> bool:
    """Whether a box or bound of the bucket may rest on this clause, whose boxes are in the path."""
    static = np.float32(raised(static_score(table, slot)))
    i = b * TOP
    if (len(table.score) and (tree.top[i + STATIC] == static or tree.top[i + OWN_STATIC] == static)) or (
        tree.top[i + SUM] <= np.float32(most) or tree.top[i + OWN_SUM] <= np.float32(most)
    ):
        return True
    if len(tree.peak):
        for c in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
            weight = np.float32(raised(at(table.weight, c)) if len(table.weight) else raised(1.0))
            bin_ = 2 * b * BINS + (at(table.attr, c) & (BINS - 1))
            if weight == tree.peak[bin_] or weight == tree.peak[bin_ + BINS]:
                return True
    level = at(tree.more, b * MORE + LEVEL)
    if level < 1 or tree.head[int(RIGID)]:
        return False
    box, lo, hi = b * BOX, at(path.lo, level), at(path.hi, level)
    if lo == tree.box[box + LO] or hi == tree.box[box + HI]:
        return True
    if lo == tree.box[box + OWN_LO] or hi == tree.box[box + OWN_HI]:
        return True
    rim = at(tree.more, b * MORE + RIM)
    for i in range(1, level):
        if at(path.lo, i) == tree.rim[rim + 2 * i - 2] or at(path.hi, i) == tree.rim[rim + 2 * i - 1]:
            return True
    return False
