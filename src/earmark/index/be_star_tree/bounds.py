"""Boxes and score bounds of a bucket: widened by one clause, or computed again from what the bucket holds.

Section IV-B (inactive dimensions), Algorithm 3, section VI (upper bounds).

    bucket at level 2, below p-nodes d1, d2        box   [lo, hi] on d2 (active), of all and of its own c-node
                                                   rim   [lo, hi] on d1 (inactive)
    bounds   first   the smallest sequence                        a tie is won by the smaller one
             top     greatest static score, greatest sum of weights
             peak    64 bins: the greatest weight of attributes a with a % 64 = bin (left out where all weights are 1)

There are two of each: for all clauses of the bucket, and for its l-node alone. Those of a p-node are its root bucket's.

Invariant (BE*-Tree): every box is the exact bounding box of its clauses, every bound their exact maximum (rounded up to
float32). So a removal renews one path: a bucket's values follow from its l-node, its children and its p-nodes' root
buckets, and a bucket whose values did not change leaves those above as they are.
In a BE-Tree the boxes are cells of halved domains, which no clause moves; its bounds are the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import earmark.index.be_star_tree.arrays as be
import earmark.index.be_star_tree.nodes as nodes
from earmark.flat.arrays import F32, I32, I64
from earmark.flat.machine import at
from earmark.index.be_star_tree.arrays import TreeArrays
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
    """Make a path with room for every level, and for the weights of one bucket."""
    lo, hi = np.zeros((2, be.LEVELS + 2), np.int64)
    return Path(np.zeros(be.LEVELS + 2, np.int32), lo, hi, np.zeros(be.BINS, np.float32))


@embedded
def path_to(tree: TreeArrays, b: int, path: Path) -> int:
    """Put the attributes that partition above bucket b on the path, its own included; returns its level."""
    level = tree.more[b * be.MORE + be.LEVEL]
    while b > 1 and at(tree.more, b * be.MORE + be.LEVEL) > 0:
        path.attr[at(tree.more, b * be.MORE + be.LEVEL)] = at(tree.link, b * be.LINK + be.ATTR)
        b = at(tree.pnode, at(tree.more, b * be.MORE + be.PNODE) * be.PART + be.POWNER)
    return whole(level)


@embedded
def boxes_of(table: SegmentArrays, clause: int, level: int, path: Path) -> None:
    """Put the clause's boxes on the path's attributes on the path."""
    for i in range(1, level + 1):
        c = constraint_on(table, clause, at(path.attr, i))
        path.lo[i], path.hi[i] = lowest(table, c), highest(table, c)


@embedded
def widen_box(tree: TreeArrays, b: int, own: bool, path: Path) -> None:
    """Widen the boxes of a bucket by those of the path (UpdateBucketInfo). `own`: the clause is in its own c-node."""
    level = at(tree.more, b * be.MORE + be.LEVEL)
    if level < 1 or at(tree.head, be.RIGID):
        return
    box, lo, hi = b * be.BOX, at(path.lo, level), at(path.hi, level)
    tree.box[box + be.LO], tree.box[box + be.HI] = min(tree.box[box + be.LO], lo), max(tree.box[box + be.HI], hi)
    if own:
        tree.box[box + be.OWN_LO] = min(tree.box[box + be.OWN_LO], lo)
        tree.box[box + be.OWN_HI] = max(tree.box[box + be.OWN_HI], hi)
    rim = at(tree.more, b * be.MORE + be.RIM)
    for i in range(1, level):
        j = rim + 2 * (i - 1)
        tree.rim[j] = min(tree.rim[j], at(path.lo, i))
        tree.rim[j + 1] = max(tree.rim[j + 1], at(path.hi, i))


@embedded
def widen_bounds(
    tree: TreeArrays, table: SegmentArrays, b: int, part: int, clause: int, slot: int, most: float
) -> None:
    """Widen the score bounds of a bucket (part 0) or of its l-node (part 1) by a clause."""
    i, j = b * be.TOP + 2 * part, 2 * b + part
    tree.first[j] = min(tree.first[j], at(table.sequence, slot))
    tree.top[i] = max(tree.top[i], np.float32(raised(static_score(table, slot))))
    tree.top[i + 1] = max(tree.top[i + 1], np.float32(most))
    if len(tree.peak):
        base = (2 * b + part) * be.BINS
        for c in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
            weight = raised(at(table.weight, c)) if len(table.weight) else raised(1.0)
            bin_ = base + (at(table.attr, c) & (be.BINS - 1))
            tree.peak[bin_] = max(tree.peak[bin_], np.float32(weight))


@embedded
def renew(tree: TreeArrays, table: SegmentArrays, b: int, path: Path) -> bool:
    """Compute boxes and bounds of a bucket from its l-node, children and p-nodes; whether anything changed."""
    level = path_to(tree, b, path)
    changed = renew_bounds(tree, table, b, path)
    if level < 1 or tree.head[be.RIGID]:
        return changed
    path.lo[1 : level + 1], path.hi[1 : level + 1] = be.HIGHEST, be.LOWEST
    first = tree.link[b * be.LINK + be.FIRST]
    for e in range(first, first + tree.link[b * be.LINK + be.COUNT]):
        clause = at(tree.clause, e)
        for i in range(1, level + 1):
            c = constraint_on(table, clause, at(path.attr, i))
            path.lo[i] = min(path.lo[i], lowest(table, c))
            path.hi[i] = max(path.hi[i], highest(table, c))
    box, pnodes = b * be.BOX, tree.link[b * be.LINK + be.WIDTH]
    for part in range(pnodes + 2):
        if part == pnodes:
            changed |= _set(tree.box, box + be.OWN_LO, path.lo[level]) | _set(tree.box, box + be.OWN_HI, path.hi[level])
        other = nodes.beneath(tree, b, part)
        if other == be.NONE:
            continue
        rim = tree.more[other * be.MORE + be.RIM]
        for i in range(1, level + (part < pnodes)):
            path.lo[i] = min(path.lo[i], at(tree.rim, rim + 2 * i - 2))
            path.hi[i] = max(path.hi[i], at(tree.rim, rim + 2 * i - 1))
        if part >= pnodes:
            path.lo[level] = min(path.lo[level], at(tree.box, other * be.BOX + be.LO))
            path.hi[level] = max(path.hi[level], at(tree.box, other * be.BOX + be.HI))
    changed |= _set(tree.box, box + be.LO, path.lo[level]) | _set(tree.box, box + be.HI, path.hi[level])
    rim = tree.more[b * be.MORE + be.RIM]
    for i in range(1, level):
        changed |= _set(tree.rim, rim + 2 * i - 2, path.lo[i]) | _set(tree.rim, rim + 2 * i - 1, path.hi[i])
    return changed


@inlined
def _set(array: I64, i: int, value: int) -> bool:
    """Store a value; whether it differs from the one before."""
    changed = array[i] != value
    array[i] = value
    return bool(changed)


@embedded
def renew_bounds(tree: TreeArrays, table: SegmentArrays, b: int, path: Path) -> bool:
    """Compute the score bounds of a bucket and its l-node from scratch; whether those of the bucket changed."""
    i = b * be.TOP
    old_first, old_static, old_sum = tree.first[2 * b], tree.top[i + be.STATIC], tree.top[i + be.SUM]
    base = 2 * b * be.BINS
    if len(tree.peak):
        for k in range(be.BINS):
            path.peak[k] = tree.peak[base + k]
    nodes.clear_bounds(tree, 2 * b + 1)
    start = tree.link[b * be.LINK + be.FIRST]
    for e in range(start, start + tree.link[b * be.LINK + be.COUNT]):
        clause = whole(at(tree.clause, e))
        widen_bounds(tree, table, b, 1, clause, whole(at(tree.slot, clause)), np.float64(at(tree.most, e)))
    nodes.copy_bounds(tree, 2 * b + 1, 2 * b)
    for part in range(tree.link[b * be.LINK + be.WIDTH] + 2):
        other = nodes.beneath(tree, b, part)
        if other != be.NONE:
            tree.first[2 * b] = min(tree.first[2 * b], at(tree.first, 2 * other))
            tree.top[i + be.STATIC] = max(tree.top[i + be.STATIC], at(tree.top, other * be.TOP + be.STATIC))
            tree.top[i + be.SUM] = max(tree.top[i + be.SUM], at(tree.top, other * be.TOP + be.SUM))
            if len(tree.peak):
                for k in range(be.BINS):
                    tree.peak[base + k] = max(tree.peak[base + k], at(tree.peak, 2 * other * be.BINS + k))
    same = old_first == tree.first[2 * b] and old_static == tree.top[i + be.STATIC] and old_sum == tree.top[i + be.SUM]
    if len(tree.peak):
        for k in range(be.BINS):
            same &= path.peak[k] == tree.peak[base + k]
    return not same


@embedded
def at_edge(tree: TreeArrays, table: SegmentArrays, b: int, clause: int, slot: int, most: float, path: Path) -> bool:
    """Whether a box or bound of the bucket may depend on this clause, whose boxes are on the path."""
    static = np.float32(raised(static_score(table, slot)))
    i = b * be.TOP
    if (len(table.score) and (tree.top[i + be.STATIC] == static or tree.top[i + be.OWN_STATIC] == static)) or (
        tree.top[i + be.SUM] <= np.float32(most) or tree.top[i + be.OWN_SUM] <= np.float32(most)
    ):
        return True
    if len(tree.peak):
        for c in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
            weight = np.float32(raised(at(table.weight, c)) if len(table.weight) else raised(1.0))
            bin_ = 2 * b * be.BINS + (at(table.attr, c) & (be.BINS - 1))
            if weight == tree.peak[bin_] or weight == tree.peak[bin_ + be.BINS]:
                return True
    level = at(tree.more, b * be.MORE + be.LEVEL)
    if level < 1 or tree.head[be.RIGID]:
        return False
    for end in range(b * be.BOX, (b + 1) * be.BOX, be.OWN_LO):
        if at(path.lo, level) == tree.box[end + be.LO] or at(path.hi, level) == tree.box[end + be.HI]:
            return True
    rim = at(tree.more, b * be.MORE + be.RIM)
    for i in range(1, level):
        if at(path.lo, i) == tree.rim[rim + 2 * i - 2] or at(path.hi, i) == tree.rim[rim + 2 * i - 1]:
            return True
    return False
