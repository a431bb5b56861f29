"""The nodes of the kd-tree, and how subtrees are made: planned from their points first, then written.

A plan lists the nodes of a subtree, parents first, and an order of the points in which each node is a run:

    points   a b c d e f …                         order   b d f   a c e
    plan     0: all, column 1, value 40            1: [0, 3) leaf          2: [3, 6) leaf

From it the room that the subtree needs is known before anything is written. `kd_tree.py` has the picture of the tree's
arrays.

Invariant: no planned child is empty, and a leaf holds more than a bucket only where all its points are equal.

Complexity: a plan O(n log² n) for n points, where columns can be halved.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from earmark.cover.indexes.buckets import NOWHERE, Buckets, free_bucket, grow, new_bucket, put_point
from earmark.cover.indexes.scale import Scale
from earmark.cover.indexes.vector import I16, LANES
from earmark.flat.arrays import I32, I64
from earmark.jit import inlined, kernel
from earmark.segment.arrays import SegmentArrays

LEAF, NONE, ROOT = -1, -1, 0
NODES_USED, FIRST_FREE = 0, 1
BALANCED = 0.4
"""A column whose smaller side has this share of the points is good enough; else the best one is taken."""
HEAVY = 0.7
"""A child with more than this share of its parent's points is out of balance."""


class KdNodes(NamedTuple):
    """The nodes; arrays are changed in place. `used`: how many nodes there ever were, and the first free one."""

    column: I32
    value: I16
    left: I32
    right: I32
    parent: I32
    size: I32
    used: I32


def new_tree() -> KdNodes:
    """A tree of one leaf, without buckets."""
    column, left, right, parent = (np.full(8, value, np.int32) for value in (LEAF, NOWHERE, NONE, NONE))
    size, used = np.zeros(8, np.int32), np.array([1, NONE], np.int32)
    return KdNodes(column, np.zeros(8, np.int16), left, right, parent, size, used)


def with_nodes(tree: KdNodes, room: int) -> KdNodes:
    if room <= len(tree.column):
        return tree
    factor = max(room, 2 * len(tree.column)) / len(tree.column)
    grown: dict[str, Any] = {name: grow(getattr(tree, name), factor) for name in KdNodes._fields[:-1]}
    return tree._replace(**grown)


def depth_of(tree: KdNodes, node: int) -> int:
    depth = 0
    while tree.parent[node] != NONE:
        node, depth = int(tree.parent[node]), depth + 1
    return depth


def scapegoat(tree: KdNodes, node: int) -> int:
    """The lowest node above a leaf of which one child is too heavy."""
    while tree.parent[node] != NONE:
        parent = int(tree.parent[node])
        if tree.size[node] > HEAVY * tree.size[parent]:
            return parent
        node = parent
    return NONE


@inlined
def new_node(tree: KdNodes, parent: int) -> int:
    node = tree.used[FIRST_FREE]
    if node == NONE:
        node = tree.used[NODES_USED]
        tree.used[NODES_USED] += 1
    else:
        tree.used[FIRST_FREE] = tree.parent[node]
    tree.column[node] = LEAF
    tree.left[node] = NOWHERE
    tree.parent[node] = parent
    tree.size[node] = 0
    return int(node)


@inlined
def free_node(tree: KdNodes, node: int) -> None:
    tree.parent[node] = tree.used[FIRST_FREE]
    tree.used[FIRST_FREE] = node


# --- building ----------------------------------------------------------------------------------------------------


class SubtreePlan(NamedTuple):
    """A subtree to be: nodes in an order where parents come first, and points in an order where leaves are runs."""

    order: I64
    column: I64
    value: I64
    parent: I64
    begin: I64
    end: I64
    depth: I64


@kernel
def plan_subtree(points: I16, turn: int) -> SubtreePlan:
    """Points divided at medians until they fit buckets. A child follows its parent; the left one comes first."""
    order = np.arange(len(points))
    room = 2 * len(points) + 1  # no child is empty, so there are fewer leaves than points
    column, value, parent = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    begin, end, depth = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    begin[0], end[0], parent[0], depth[0] = 0, len(points), NONE, 0
    nodes, node = 1, 0
    while node < nodes:
        part = order[begin[node] : end[node]]
        column[node], value[node], lower = LEAF, 0, 0
        if len(part) > LANES:
            if node > 0:
                turn = column[parent[node]] + 1
            column[node], value[node], lower = division(points, part, points.shape[1], turn)
        if column[node] != LEAF:
            below = points[part, column[node]] <= value[node]
            part[:] = np.concatenate((part[below], part[~below]))
            middle = begin[node] + lower
            begin[nodes], end[nodes], begin[nodes + 1], end[nodes + 1] = begin[node], middle, middle, end[node]
            parent[nodes], parent[nodes + 1] = node, node
            depth[nodes], depth[nodes + 1] = depth[node] + 1, depth[node] + 1
            nodes += 2
        node += 1
    return SubtreePlan(order, column[:nodes], value[:nodes], parent[:nodes], begin[:nodes], end[:nodes], depth[:nodes])


@kernel
def write_subtree(
    tree: KdNodes,
    buckets: Buckets,
    table: SegmentArrays,
    scale: Scale,
    plan: SubtreePlan,
    clauses: I64,
    owners: I32,
    node: int,
) -> None:
    """Turn a leaf without buckets into the subtree that was planned. There is room for it."""
    made = np.empty(len(plan.column), np.int64)
    made[0] = node
    for i in range(len(plan.column)):
        if i > 0:
            above = made[plan.parent[i]]
            made[i] = new_node(tree, above)
            if tree.left[above] == NOWHERE:
                tree.left[above] = made[i]
            else:
                tree.right[above] = made[i]
        tree.size[made[i]] = plan.end[i] - plan.begin[i]
        if plan.column[i] == LEAF:
            part = plan.order[plan.begin[i] : plan.end[i]]
            _fill_leaf(tree, buckets, table, scale, clauses, owners, part, made[i])
        else:
            tree.column[made[i]], tree.value[made[i]] = plan.column[i], plan.value[i]
            tree.left[made[i]] = NOWHERE


@kernel
def division(points: I16, part: I64, columns: int, turn: int) -> tuple[int, int, int]:
    """The column and value that divide these points well, and how many are at or below it; LEAF when all are equal.

    Columns take turns; the first that is well balanced is taken, and otherwise the best balanced of all.
    """
    best_column, best_value, best_lower, best = LEAF, 0, 0, 0
    for i in range(columns):
        column = (turn + i) % columns
        keys = np.sort(points[part, column])
        value = int(keys[(len(keys) - 1) // 2])
        lower = int(np.searchsorted(keys, value, side="right"))
        if lower == len(keys):  # the median is the greatest: divide just below it
            lower = int(np.searchsorted(keys, value, side="left"))
            if lower == 0:
                continue
            value = int(keys[lower - 1])
        smaller = min(lower, len(keys) - lower)
        if smaller > best:
            best_column, best_value, best_lower, best = column, value, lower, smaller
        if best >= BALANCED * len(keys):
            break
    return best_column, best_value, best_lower


@kernel
def _fill_leaf(
    tree: KdNodes, buckets: Buckets, table: SegmentArrays, scale: Scale, clauses: I64, owners: I32, part: I64, node: int
) -> None:
    """Give a leaf its buckets; a leaf without points gets an empty one."""
    tree.column[node] = LEAF
    bucket = new_bucket(buckets, node)
    for i in part:
        if buckets.filled[bucket] == LANES:
            full = bucket
            bucket = new_bucket(buckets, node)
            buckets.link[bucket] = full
        put_point(buckets, bucket, table, scale, clauses[i], owners[i])
    tree.left[node] = bucket


@kernel
def fell_subtree(tree: KdNodes, buckets: Buckets, node: int, clauses: I64, owners: I32) -> None:
    """Remove the points of a subtree and turn its node into a leaf without buckets."""
    found, top = 0, 1
    pending = np.empty(len(clauses) + 2, np.int32)
    pending[0] = node
    while top > 0:
        top -= 1
        one = pending[top]
        if tree.column[one] == LEAF:
            bucket = tree.left[one]
            while bucket != NOWHERE:
                for spot in range(bucket * LANES, bucket * LANES + buckets.filled[bucket]):
                    clauses[found], owners[found] = buckets.clause[spot], buckets.owner[spot]
                    found += 1
                following = buckets.link[bucket]
                free_bucket(buckets, bucket)
                bucket = following
        else:
            pending[top], pending[top + 1] = tree.left[one], tree.right[one]
            top += 2
        if one != node:
            free_node(tree, one)
    tree.column[node], tree.left[node] = LEAF, NOWHERE
