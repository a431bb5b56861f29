"""Forgetting clauses: one path is repaired, empty nodes are freed, underfull leaves merged (sections IV-B and IV-C).

From the bucket that held the clause up to the root: counts go down; a bucket with nothing left is unlinked and freed
(a p-node with its last bucket); as long as something changed below and the clause lay on the edge of a box or of a
bound, these are worked out again from the bucket's own parts, which the inactive dimensions make possible. Where
nothing rested on the clause, nothing above does.

Merge rule: when a leaf bucket, its sibling and their parent are open (not partitioned) and together fill half a leaf,
the parent takes it all back. A bucket without anything of its own and with one child gives its place to the child.

An l-node that is far above the usual size (a thousand equal clauses) is not worked out again at every removal, but
when a sixteenth of it has changed: until then its boxes and bounds may be wider than they need be, as `head[LOOSE]`
says.

Complexity: O(depth x (inactive dimensions + constraints)), and an l-node and a p-directory for each bucket renewed.
"""

from __future__ import annotations

import numpy as np

from earmark.flat.types import I32
from earmark.index.be_star_tree.arrays import (
    BELOW,
    BINS,
    BOX,
    CAPACITY,
    CHANGED,
    CLAUSES,
    COUNT,
    ENTRIES,
    FIRST,
    HI,
    LEFT,
    LEVEL,
    LINK,
    LO,
    LOOSE,
    MORE,
    NONE,
    OWN_HI,
    OWN_LO,
    PARENT,
    PNODE,
    RIGHT,
    TOP,
    WIDTH,
    TreeArrays,
)
from earmark.index.be_star_tree.bounds import Path, at_edge, boxes_of, path_to, renew
from earmark.index.be_star_tree.insert import CRAMPED, DONE
from earmark.index.be_star_tree.nodes import (
    above,
    cut_entry,
    free_bucket,
    free_pnode,
    free_record,
    put_entry,
    replace_child,
    weights_of,
    whole,
)
from earmark.jit import embedded, kernel
from earmark.segment.arrays import SegmentArrays

LONG = 1024
"""An l-node with more entries is renewed once a sixteenth of it has changed."""


@kernel
def remove_clauses(
    tree: TreeArrays, table: SegmentArrays, clauses: I32, i: int, path: Path, other: Path
) -> tuple[int, int]:
    """Forget clauses from number i on; returns the next number, and DONE or CRAMPED."""
    while i < len(clauses):
        if len(tree.sign) - tree.head[int(ENTRIES)] < 2 * tree.head[int(CAPACITY)] + 16:
            return i, int(CRAMPED)
        clause = whole(clauses[i])
        i += 1
        b = whole(tree.where[clause])
        if b == int(NONE):
            continue
        slot, most = whole(tree.slot[clause]), weights_of(table, clause)
        boxes_of(table, clause, path_to(tree, b, path), path)
        free_record(tree, tree.record[tree.place[clause]])
        cut_entry(tree, b, clause)
        tree.head[int(CLAUSES)] -= 1
        changed, a = True, b
        while a != int(NONE):
            up = above(tree, a)
            tree.more[a * MORE + BELOW] -= 1
            tree.more[a * MORE + CHANGED] += 1
            if tree.more[a * MORE + LEVEL] == 0:  # the bounds of the root's own l-node only ever widen
                break
            if tree.more[a * MORE + BELOW] == 0:
                _free_empty(tree, a)
            elif not _give_way(tree, a):
                if changed:
                    changed = at_edge(tree, table, a, clause, slot, most, path)
                    if changed and _due(tree, a):
                        changed = renew(tree, table, a, other)
                    elif changed:
                        tree.head[int(LOOSE)] += 1
                _absorb(tree, a)
            a = up
    return i, int(DONE)


@embedded
def _due(tree: TreeArrays, b: int) -> bool:
    """Whether a bucket is worked out again now."""
    count = tree.link[b * LINK + COUNT]
    return bool(count <= int(LONG) or tree.more[b * MORE + CHANGED] % (count >> 4) == 0)


@embedded
def _free_empty(tree: TreeArrays, b: int) -> None:
    """Unlink and free a bucket without clauses, and its p-node when it was the last."""
    if tree.link[b * LINK + PARENT] == int(NONE):
        free_pnode(tree, tree.more[b * MORE + PNODE])
    else:
        replace_child(tree, b, int(NONE))
    free_bucket(tree, b)


@embedded
def _give_way(tree: TreeArrays, b: int) -> bool:
    """Let the only child of a bucket that has nothing of its own take its place; whether it did."""
    left, right = tree.link[b * LINK + LEFT], tree.link[b * LINK + RIGHT]
    if tree.link[b * LINK + COUNT] or tree.link[b * LINK + WIDTH] or (left == int(NONE)) == (right == int(NONE)):
        return False
    replace_child(tree, b, max(left, right))
    free_bucket(tree, b)
    return True


@embedded
def _is_open_leaf(tree: TreeArrays, b: int) -> bool:
    """Whether a bucket is missing, or has neither children nor p-nodes."""
    if b == int(NONE):
        return True
    link = b * LINK
    childless = tree.link[link + LEFT] == int(NONE) and tree.link[link + RIGHT] == int(NONE)
    return bool(childless and tree.link[link + WIDTH] == 0)


@embedded
def _absorb(tree: TreeArrays, b: int) -> None:
    """Merge rule: an open bucket takes back its children when all of them together fill half a leaf."""
    left, right = tree.link[b * LINK + LEFT], tree.link[b * LINK + RIGHT]
    if (left == int(NONE) and right == int(NONE)) or 2 * tree.more[b * MORE + BELOW] > tree.head[int(CAPACITY)]:
        return
    if tree.link[b * LINK + WIDTH] or not (_is_open_leaf(tree, left) and _is_open_leaf(tree, right)):
        return
    for side in range(2):
        child = whole(tree.link[b * LINK + LEFT + side])
        if child != int(NONE):
            first = tree.link[child * LINK + FIRST]
            for e in range(first, first + tree.link[child * LINK + COUNT]):
                put_entry(tree, b, tree.sign[e], whole(tree.clause[e]), whole(tree.record[e]), np.float64(tree.most[e]))
            free_bucket(tree, child)
            tree.link[b * LINK + LEFT + side] = int(NONE)
    tree.box[b * BOX + OWN_LO], tree.box[b * BOX + OWN_HI] = tree.box[b * BOX + LO], tree.box[b * BOX + HI]
    tree.first[2 * b + 1] = tree.first[2 * b]
    tree.top[b * TOP + 2], tree.top[b * TOP + 3] = tree.top[b * TOP], tree.top[b * TOP + 1]
    if len(tree.peak):
        for i in range(2 * b * BINS, 2 * b * BINS + BINS):
            tree.peak[i + BINS] = tree.peak[i]
