"""Which members cover this subscription: the adaptive kd-tree over dominance space.

Shen, Tirthapura & Aluru, Section IV-C, after Bentley & Friedman. Every clause of a member is a point (`vector.py`);
those that contain a clause are above its point in all coordinates. Inner nodes divide by one coordinate at a median
of the points below them; points are in leaves only, in buckets (`buckets.py`).

    node      0      1      2        column 0: ~l of axis 0, 1: r of axis 0, 2: ~l of axis 1, …
    column    1      -1     -1       the coordinate that divides; LEAF (-1) in leaves
    value     40     -      -        left: coordinate <= value, right: > value
    left      1      b0     b1       children; of a leaf, the first bucket of its chain
    right     2      -      -
    parent    -1     0      0
    size      21     12     9        points below

    query (~l, r) = (…, 55): r > 40, so everything left of node 0 is too small, and only node 2 is visited

The search goes right first: great coordinates dominate more, so the rightmost leaf is the likeliest to end it. A
left child is visited only if the query's coordinate is not above the dividing value; a right one always may hold an
answer. It stops after k.

A full leaf divides at the median of the column, next in turn, that halves it best; a leaf of equal points cannot be
divided and gets a chain of buckets. When a leaf falls below the underflow limit it merges with its sibling, if that
is a leaf too and both fit well into one bucket.

Invariant (`check`): coordinates left of a node are <= its value, right > it; sizes are right; every leaf has a bucket,
and none of its buckets is empty unless it is the only one; `check_buckets`.

Complexity: insert and remove O(depth + columns), amortised; query between O(depth) and O(members / 64) vector
comparisons. Depth is O(log members) where columns can be halved.

Where we differ: coordinates are codes of 16 bits, on a scale learned from the members and learned again, with the whole
tree, each time they have doubled. Points that arrive in ascending order would turn a tree whose medians were taken
early into a list, so the subtree that has grown out of balance is built again when a leaf is too deep (as in scapegoat
trees). A bucket is compared 64 points at a time, and its points count as one comparison each. Attributes that hardly
any member constrains have no axis (`scale.py`) and are left to the exact test.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.cover.indexes import buckets as pool
from earmark.cover.indexes import kd_nodes
from earmark.cover.indexes.buckets import NOWHERE, OF_BUCKETS, OF_SCALE, OF_STRUCTURE, USED, Buckets, buckets_at
from earmark.cover.indexes.handles import table_at, unpacker
from earmark.cover.indexes.kd_nodes import LEAF, NODES_USED, NONE, ROOT, KdNodes
from earmark.cover.indexes.members import COMPARISONS, NODES
from earmark.cover.indexes.scale import BOTTOM, TOP, fill_point, points_of, scale_at
from earmark.cover.indexes.vector import I16, LANES
from earmark.errors import require
from earmark.flat.arrays import I32, I64, U64
from earmark.flat.machine import at
from earmark.jit import inlined, kernel

SLACK = 8
"""Levels by which the limit on depth rises when building a subtree again did not make it lower."""
DONE, NO_ROOM = -1, -2
SPARE = 16
"""Buckets and nodes that one command may need: a division of up to three buckets, a merge."""


class KdScratch(NamedTuple):
    """What a search writes: the point it looks for, and the nodes still to visit."""

    query: I16
    stack: I32


OF_SCRATCH = OF_STRUCTURE + len(KdNodes._fields)
tree_at = unpacker(KdNodes, "i4", "i2", "i4", "i4", "i4", "i4", "i4")
scratch_at = unpacker(KdScratch, "i2", "i4")


class KdTree(pool.PointIndex):
    """The kd-tree."""

    def _structure(self) -> tuple[NDArray[Any], ...]:
        return (*self._tree, self._query, self._stack)

    def _build(self, known: I64, clauses: I64, owners: I32) -> None:
        self._tree = kd_nodes.new_tree()
        self._stack = np.empty(64, np.int32)
        depth = self._plant(ROOT, clauses, owners)
        self._deepest = max(depth + 1, self._limit_of_depth())
        self._stack = np.empty(self._deepest + 16, np.int32)

    def _plant(self, node: int, clauses: I64, owners: I32) -> int:
        """Put a subtree of these clauses in the place of a leaf that has no buckets; returns its greatest depth."""
        points = points_of(self.table, self._scale, clauses)
        parent = int(self._tree.parent[node])
        plan = kd_nodes.plan_subtree(points, 0 if parent == NONE else int(self._tree.column[parent]) + 1)
        sizes = (plan.end - plan.begin)[plan.column == LEAF]
        self._make_room(int((sizes // LANES + 1).sum()), len(plan.column))
        kd_nodes.write_subtree(self._tree, self._buckets, self.table, self._scale, plan, clauses, owners, node)
        deepest = kd_nodes.depth_of(self._tree, node) + int(plan.depth.max())
        if deepest + 16 > len(self._stack):
            self._stack = np.empty(2 * deepest + 16, np.int32)
            self._handles = None
        return deepest

    def _make_room(self, buckets: int, nodes: int) -> None:
        """Make room for this many more, and for what the next command may need."""
        self._buckets = pool.with_room(self._buckets, int(self._buckets.free[USED]) + buckets + SPARE)
        self._tree = kd_nodes.with_nodes(self._tree, int(self._tree.used[NODES_USED]) + nodes + SPARE)
        self._handles = None

    def _put_clause(self, clause: int, owner: int) -> None:
        leaf = put_clause(self._arguments(), clause, owner, self._deepest)
        if leaf == NO_ROOM:
            self._make_room(len(self._buckets.filled), len(self._tree.column))
            leaf = put_clause(self._arguments(), clause, owner, self._deepest)
        if leaf != DONE:
            self._rebuild(leaf)

    def _limit_of_depth(self) -> int:
        """Levels that a tree may have until its members have doubled."""
        return int(2 * math.log2(4 * self._tree.size[ROOT] / pool.UNDERFLOW + LANES))

    def _rebuild(self, node: int) -> None:
        """Build again a leaf with a long chain, or the smallest unbalanced subtree above a node that is too deep."""
        tree, depth = self._tree, kd_nodes.depth_of(self._tree, node) + 1
        long_chain = tree.column[node] == LEAF
        top = node if long_chain else kd_nodes.scapegoat(tree, node)
        if top != NONE:
            clauses, owners = np.empty(tree.size[top], np.int64), np.empty(tree.size[top], np.int32)
            kd_nodes.fell_subtree(tree, self._buckets, top, clauses, owners)
            deepest = self._plant(top, clauses, owners)
        if not long_chain and (top == NONE or deepest >= depth):
            self._deepest = depth + SLACK
            self._stack = np.empty(2 * self._deepest + 16, np.int32)
            self._handles = None

    def _drop_clause(self, clause: int) -> None:
        drop_clause(self._arguments(), clause)

    def _search(self, slot: int, k: int, counters: I64) -> I32:
        out = np.empty(k, np.int32)
        return out[: search(self._arguments(), slot, out, counters)]

    def check(self) -> None:
        """Raise AssertionError unless the invariant holds. O(points · depth)."""
        super().check()
        tree, buckets, used = self._tree, self._buckets, []
        pending = [(ROOT, NONE, np.full(2 * self._axes, BOTTOM), np.full(2 * self._axes, TOP))]
        nodes = 0
        while pending:
            node, parent, low, high = pending.pop()
            nodes += 1
            require(tree.parent[node] == parent, f"node {node} has another parent than the one it hangs on")
            column = tree.column[node]
            if column == LEAF:
                used += self._check_leaf(node, low, high)
                continue
            left, right = int(tree.left[node]), int(tree.right[node])
            require(tree.size[node] == tree.size[left] + tree.size[right], f"node {node} is miscounted")
            require(tree.size[left] > 0 and tree.size[right] > 0, f"node {node} has an empty child")
            below, above = high.copy(), low.copy()
            below[column], above[column] = tree.value[node], tree.value[node] + 1
            pending += [(left, node, low, below), (right, node, above, high)]
        free, node = 0, int(tree.used[kd_nodes.FIRST_FREE])
        while node != NONE:
            free, node = free + 1, int(tree.parent[node])
        require(nodes + free == tree.used[NODES_USED], "nodes are lost")
        pool.check_buckets(buckets, self.table, self._scale, np.array(used, np.int32), self.members())

    def _check_leaf(self, node: int, low: I64, high: I64) -> list[int]:
        tree, buckets, chain = self._tree, self._buckets, []
        bucket = int(tree.left[node])
        while bucket != NOWHERE:
            chain.append(bucket)
            require(buckets.home[bucket] == node, f"bucket {bucket} belongs to another leaf")
            bucket = int(buckets.link[bucket])
        counts = [int(buckets.filled[b]) for b in chain]
        require(sum(counts) == tree.size[node], f"leaf {node} is miscounted")
        require(len(chain) == 1 or min(counts) > 0, f"leaf {node} has an empty bucket")
        require(tree.size[node] > 0 or node == ROOT, f"leaf {node} is empty")
        for b, count in zip(chain, counts, strict=True):
            first = b * 2 * self._axes * LANES
            points = buckets.coords[first : first + 2 * self._axes * LANES].reshape(2 * self._axes, LANES)[:, :count].T
            require(bool(((points >= low) & (points <= high)).all()), f"leaf {node} holds points of other leaves")
        return chain


@inlined
def _leaf_of(tree: KdNodes, point: I16) -> int:
    node = ROOT
    while at(tree.column, node) != LEAF:
        if point[at(tree.column, node)] <= at(tree.value, node):
            node = at(tree.left, node)
        else:
            node = at(tree.right, node)
    return int(node)


# --- changes -----------------------------------------------------------------------------------------------------


@kernel
def put_clause(pairs: U64, clause: int, owner: int, limit: int) -> int:
    """Insert the point of a clause. Returns a leaf with a long chain, a divided leaf that is too deep, or DONE.

    Returns NO_ROOM, and does nothing, when there may be too few buckets or nodes left.
    """
    table, scale, buckets = table_at(pairs, 0), scale_at(pairs, OF_SCALE), buckets_at(pairs, OF_BUCKETS)
    tree, point = tree_at(pairs, OF_STRUCTURE), scratch_at(pairs, OF_SCRATCH).query
    if buckets.free[USED] + SPARE > len(buckets.filled) or tree.used[NODES_USED] + SPARE > len(tree.column):
        return NO_ROOM
    fill_point(table, scale, clause, point, 0, 1)
    leaf = _leaf_of(tree, point)
    depth, node = 0, leaf
    while node != NONE:
        tree.size[node] += 1
        node = tree.parent[node]
        depth += 1
    bucket = tree.left[leaf]
    if buckets.filled[bucket] < LANES:
        pool.put_point(buckets, bucket, table, scale, clause, owner)
        return DONE
    fresh = pool.new_bucket(buckets, leaf)
    buckets.link[fresh] = bucket
    pool.put_point(buckets, fresh, table, scale, clause, owner)
    tree.left[leaf] = fresh
    if tree.size[leaf] > 2 * LANES:
        return leaf  # it has many equal points; the caller finds out whether it can be divided now
    _divide_leaf(tree, buckets, len(scale.base), leaf)
    return leaf if depth > limit and tree.column[leaf] != LEAF else DONE


@kernel
def _divide_leaf(tree: KdNodes, buckets: Buckets, axes: int, leaf: int) -> None:
    """Divide a leaf in two, unless all its points are equal."""
    size, columns = tree.size[leaf], 2 * axes
    spots, points = np.empty(size, np.int64), np.empty((size, columns), np.int16)
    found, bucket = 0, tree.left[leaf]
    while bucket != NOWHERE:
        for lane in range(buckets.filled[bucket]):
            spots[found] = bucket * LANES + lane
            for column in range(columns):
                points[found, column] = buckets.coords[(bucket * columns + column) * LANES + lane]
            found += 1
        bucket = buckets.link[bucket]
    parent = tree.parent[leaf]
    turn = 0 if parent == NONE else tree.column[parent] + 1
    column, value, lower = kd_nodes.division(points, np.arange(size), columns, turn)
    if column == LEAF:
        return
    old = tree.left[leaf]
    for side in range(2):
        child = kd_nodes.new_node(tree, leaf)
        tree.size[child] = lower if side == 0 else size - lower
        # Moved into fresh buckets: the old ones are read until both sides are done.
        bucket = pool.new_bucket(buckets, child)
        for i in range(size):
            if (points[i, column] <= value) == (side == 0):
                if buckets.filled[bucket] == LANES:
                    full = bucket
                    bucket = pool.new_bucket(buckets, child)
                    buckets.link[bucket] = full
                pool.move_point(buckets, spots[i], bucket, axes)
        tree.left[child] = bucket
        if side == 0:
            tree.right[leaf] = child
        else:
            tree.left[leaf], tree.right[leaf] = tree.right[leaf], child
    tree.column[leaf], tree.value[leaf] = column, value
    while old != NOWHERE:
        following = buckets.link[old]
        pool.free_bucket(buckets, old)
        old = following


@kernel
def drop_clause(pairs: U64, clause: int) -> None:
    """Remove the point of a clause; leaves that have become small merge."""
    buckets, tree = buckets_at(pairs, OF_BUCKETS), tree_at(pairs, OF_STRUCTURE)
    axes = len(scale_at(pairs, OF_SCALE).base)
    bucket = pool.take_point(buckets, clause, axes)
    leaf = buckets.home[bucket]
    node = leaf
    while node != NONE:
        tree.size[node] -= 1
        node = tree.parent[node]
    if buckets.filled[bucket] == 0 and (tree.left[leaf] != bucket or buckets.link[bucket] != NOWHERE):
        _unlink(tree, buckets, leaf, bucket)
    while leaf != ROOT and tree.size[leaf] < pool.UNDERFLOW:
        parent = tree.parent[leaf]
        sibling = tree.left[parent] + tree.right[parent] - leaf
        if tree.size[leaf] == 0:
            _replace_parent(tree, buckets, parent, leaf, sibling)
            return
        if tree.column[sibling] != LEAF or tree.size[parent] > pool.MERGED:
            return
        _merge(tree, buckets, axes, parent, leaf, sibling)
        leaf = parent


@inlined
def _unlink(tree: KdNodes, buckets: Buckets, leaf: int, bucket: int) -> None:
    """Take an empty bucket out of the chain of a leaf that has others."""
    if tree.left[leaf] == bucket:
        tree.left[leaf] = buckets.link[bucket]
    else:
        before = tree.left[leaf]
        while buckets.link[before] != bucket:
            before = buckets.link[before]
        buckets.link[before] = buckets.link[bucket]
    pool.free_bucket(buckets, bucket)


@inlined
def _merge(tree: KdNodes, buckets: Buckets, axes: int, parent: int, leaf: int, sibling: int) -> None:
    """Make one leaf of two that fit in a bucket. A chain of a leaf so small may still have several buckets."""
    target = pool.new_bucket(buckets, parent)
    for side in range(2):
        child = int(leaf) if side == 0 else int(sibling)
        bucket = tree.left[child]
        while bucket != NOWHERE:
            for lane in range(buckets.filled[bucket]):
                pool.move_point(buckets, bucket * LANES + lane, target, axes)
            following = buckets.link[bucket]
            pool.free_bucket(buckets, bucket)
            bucket = following
        kd_nodes.free_node(tree, child)
    tree.column[parent], tree.left[parent] = LEAF, target


@inlined
def _replace_parent(tree: KdNodes, buckets: Buckets, parent: int, leaf: int, sibling: int) -> None:
    """Put a node in its parent's place, when the other child has become empty."""
    pool.free_bucket(buckets, tree.left[leaf])
    tree.column[parent], tree.value[parent] = tree.column[sibling], tree.value[sibling]
    tree.left[parent], tree.right[parent] = tree.left[sibling], tree.right[sibling]
    if tree.column[parent] == LEAF:
        bucket = tree.left[parent]
        while bucket != NOWHERE:
            buckets.home[bucket] = parent
            bucket = buckets.link[bucket]
    else:
        tree.parent[tree.left[parent]] = parent
        tree.parent[tree.right[parent]] = parent
    kd_nodes.free_node(tree, leaf)
    kd_nodes.free_node(tree, sibling)


# --- search ------------------------------------------------------------------------------------------------------


@kernel
def search(pairs: U64, slot: int, out: I32, counters: I64) -> int:
    """Up to len(out) members that cover the slot, from the rightmost leaf on."""
    table, scale, buckets = table_at(pairs, 0), scale_at(pairs, OF_SCALE), buckets_at(pairs, OF_BUCKETS)
    tree, scratch = tree_at(pairs, OF_STRUCTURE), scratch_at(pairs, OF_SCRATCH)
    query, stack = scratch.query, scratch.stack
    axes = len(scale.base)
    fill_point(table, scale, at(table.clause_start, slot), query, 0, 1)
    found, nodes, compared, top = 0, 0, 0, 1
    stack[0] = ROOT
    while top > 0 and found < len(out):
        top -= 1
        node = at(stack, top)
        nodes += 1
        column = at(tree.column, node)
        while column != LEAF:
            if query[column] <= at(tree.value, node):
                stack[top] = at(tree.left, node)
                top += 1
            node = at(tree.right, node)
            nodes += 1
            column = at(tree.column, node)
        bucket = at(tree.left, node)
        while bucket != NOWHERE and found < len(out):
            compared += at(buckets.filled, bucket)
            found = pool.search_bucket(buckets, bucket, table, axes, slot, query, out, found)
            bucket = at(buckets.link, bucket)
    counters[NODES] += nodes
    counters[COMPARISONS] += compared
    return found
