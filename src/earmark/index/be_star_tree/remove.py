"""Removing clauses: one path is repaired, empty nodes are freed, underfull leaves merged (sections IV-B and IV-C).

From the bucket that held the clause up to the root: counts go down; a bucket with nothing left is unlinked and freed
(a p-node with its last bucket); as long as something changed below and the clause was on the edge of a box or of a
bound, these are computed again from the bucket's own parts, which the inactive dimensions make possible. Where nothing
depended on the clause, nothing above does.

Merge rule: when a leaf bucket, its sibling and their parent are open (not partitioned) and together fill half a leaf,
the parent takes their clauses back. A bucket with no entries or p-nodes and one child is replaced by that child.

An l-node far above the usual size (a thousand equal clauses) is not computed again at every removal, but when a
sixteenth of it has changed: until then its boxes and bounds may be wider than necessary, which `head[LOOSE]` counts.

Complexity: O(depth x (inactive dimensions + constraints)), and an l-node and a p-directory for each bucket renewed.
"""

from __future__ import annotations

import numpy as np

import earmark.index.be_star_tree.arrays as be
import earmark.index.be_star_tree.nodes as nodes
from earmark.flat.arrays import I32
from earmark.index.be_star_tree.arrays import TreeArrays
from earmark.index.be_star_tree.bounds import Path, at_edge, boxes_of, path_to, renew
from earmark.index.be_star_tree.insert import CRAMPED, DONE
from earmark.index.be_star_tree.nodes import whole
from earmark.jit import embedded, kernel
from earmark.segment.arrays import SegmentArrays

LONG = 1024
"""An l-node with more entries is renewed once a sixteenth of it has changed."""


@kernel
def remove_clauses(
    tree: TreeArrays, table: SegmentArrays, clauses: I32, i: int, path: Path, other: Path
) -> tuple[int, int]:
    """Remove clauses from number i on; returns the next number, and DONE or CRAMPED."""
    while i < len(clauses):
        if len(tree.sign) - tree.head[be.ENTRIES] < 2 * tree.head[be.CAPACITY] + 16:
            return i, int(CRAMPED)
        clause = whole(clauses[i])
        i += 1
        b = whole(tree.where[clause])
        if b == be.NONE:
            continue
        slot, most = whole(tree.slot[clause]), nodes.weights_of(table, clause)
        boxes_of(table, clause, path_to(tree, b, path), path)
        nodes.free_record(tree, tree.record[tree.place[clause]])
        nodes.cut_entry(tree, b, clause)
        tree.head[be.CLAUSES] -= 1
        changed, a = True, b
        while a != be.NONE:
            up = nodes.above(tree, a)
            tree.more[a * be.MORE + be.BELOW] -= 1
            tree.more[a * be.MORE + be.CHANGED] += 1
            if tree.more[a * be.MORE + be.LEVEL] == 0:  # the bounds of the root's own l-node only ever widen
                break
            if tree.more[a * be.MORE + be.BELOW] == 0:
                _free_empty(tree, a)
            elif not _give_way(tree, a):
                if changed:
                    changed = at_edge(tree, table, a, clause, slot, most, path)
                    if changed and _due(tree, a):
                        changed = renew(tree, table, a, other)
                    elif changed:
                        tree.head[be.LOOSE] += 1
                _absorb(tree, a)
            a = up
    return i, int(DONE)


@embedded
def _due(tree: TreeArrays, b: int) -> bool:
    """Whether a bucket's boxes and bounds are to be computed again now."""
    count = tree.link[b * be.LINK + be.COUNT]
    return bool(count <= int(LONG) or tree.more[b * be.MORE + be.CHANGED] % (count >> 4) == 0)


@embedded
def _free_empty(tree: TreeArrays, b: int) -> None:
    """Unlink and free a bucket without clauses, and its p-node when that was its last bucket."""
    if tree.link[b * be.LINK + be.PARENT] == be.NONE:
        nodes.free_pnode(tree, tree.more[b * be.MORE + be.PNODE])
    else:
        nodes.replace_child(tree, b, be.NONE)
    nodes.free_bucket(tree, b)


@embedded
def _give_way(tree: TreeArrays, b: int) -> bool:
    """Replace a bucket without entries or p-nodes by its only child; whether that was done."""
    link = b * be.LINK
    left, right = tree.link[link + be.LEFT], tree.link[link + be.RIGHT]
    if tree.link[link + be.COUNT] or tree.link[link + be.WIDTH] or (left == be.NONE) == (right == be.NONE):
        return False
    nodes.replace_child(tree, b, max(left, right))
    nodes.free_bucket(tree, b)
    return True


@embedded
def _absorb(tree: TreeArrays, b: int) -> None:
    """Merge rule: move the clauses of the children into an open bucket when all of them together fill half a leaf."""
    left, right = tree.link[b * be.LINK + be.LEFT], tree.link[b * be.LINK + be.RIGHT]
    if (left == be.NONE and right == be.NONE) or 2 * tree.more[b * be.MORE + be.BELOW] > tree.head[be.CAPACITY]:
        return
    closed = (left != be.NONE and not nodes.is_open_leaf(tree, left)) or (
        right != be.NONE and not nodes.is_open_leaf(tree, right)
    )
    if closed or tree.link[b * be.LINK + be.WIDTH]:
        return
    for side in range(2):
        child = whole(tree.link[b * be.LINK + be.LEFT + side])
        if child != be.NONE:
            first = tree.link[child * be.LINK + be.FIRST]
            for e in range(first, first + tree.link[child * be.LINK + be.COUNT]):
                clause, record = whole(tree.clause[e]), whole(tree.record[e])
                nodes.put_entry(tree, b, tree.sign[e], clause, record, np.float64(tree.most[e]))
            nodes.free_bucket(tree, child)
            tree.link[b * be.LINK + be.LEFT + side] = be.NONE
    for end in range(be.HI + 1):
        tree.box[b * be.BOX + be.OWN_LO + end] = tree.box[b * be.BOX + end]
    nodes.copy_bounds(tree, 2 * b, 2 * b + 1)
