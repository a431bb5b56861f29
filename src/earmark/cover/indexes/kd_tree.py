"""Which members cover this subscription: the adaptive kd-tree over dominance space.

Shen, Tirthapura & Aluru, Section IV-C, after Bentley & Friedman. Every clause of a member is a point (`points.py`);
those that contain a clause are above its point in all coordinates. Inner nodes divide by one coordinate at a median
of the points below them; points are in leaves only, in buckets.

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
divided and gets a chain of buckets, of which only the first is ever less than full. When a leaf falls below the
underflow limit it merges with its sibling, if that is a leaf too and both fit well into one bucket.

A subtree is planned from its points first, then written, so that the room it needs is known. A plan lists the nodes,
parents first, and an order of the points in which each node is a run:

    points   a b c d e f …                         order   b d f   a c e
    plan     0: all, column 1, value 40            1: [0, 3) leaf          2: [3, 6) leaf

Invariant (`check`): coordinates left of a node are <= its value, right > it; sizes are right; every leaf has a bucket,
and none of its buckets is empty unless it is the only one; no planned child is empty, and a planned leaf holds more
than a bucket only where all its points are equal; `_check_buckets`.

Complexity: insert and remove O(depth + columns), amortised; query between O(depth) and O(members / 64) vector
comparisons. Depth is O(log members), and a plan of n points O(n log² n), where columns can be halved.

Where we differ: coordinates are codes of 16 bits, on a scale learned from the members and learned again, with the whole
tree, each time they have doubled. Points that arrive in ascending order would turn a tree whose medians were taken
early into a list, so the subtree that has grown out of balance is built again when a leaf is too deep (as in scapegoat
trees). A bucket is compared 64 points at a time, and its points count as one comparison each. Attributes that hardly
any member constrains have no axis (`points.py`) and are left to the exact test.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from earmark.cover.indexes import points as pool
from earmark.cover.indexes.members import COMPARISONS, NODES
from earmark.cover.indexes.points import NOWHERE, OF_STRUCTURE, USED, Buckets, all_at, fill_point, points_of
from earmark.errors import require
from earmark.flat.arrays import I32, I64, U64, grown
from earmark.flat.machine import at
from earmark.index.blocks.dominance import I16, LANES
from earmark.jit import inlined, kernel

LEAF, NONE, ROOT = -1, -1, 0
NODES_USED, FIRST_FREE = 0, 1
BALANCED = 0.4
"""A column whose smaller side has this share of the points is good enough; else the best one is taken."""
HEAVY = 0.7
"""A child with more than this share of its parent's points is out of balance."""
SLACK = 8
"""Levels by which the limit on depth rises when building a subtree again did not make it lower."""
DONE, NO_ROOM = -1, -2
SPARE = 16
"""Buckets and nodes that one command may need: a division of two buckets, a merge."""


class KdNodes(NamedTuple):
    """The nodes; arrays are changed in place."""

    column: I32
    value: I16
    left: I32
    right: I32
    parent: I32
    size: I32
    used: I32
    """How many nodes there ever were, and the first free one."""
    query: I16
    stack: I32
    """What a search writes: the point it looks for, and the nodes still to visit."""


tree_at = pool.unpacker(KdNodes, "i4", "i2", "i4", "i4", "i4", "i4", "i4", "i2", "i4")


class KdTree(pool.PointIndex):
    """The kd-tree."""

    _structure: KdNodes

    def _build(self, known: I64, clauses: I64, owners: I32) -> None:
        column, left, right, parent = (np.full(8, value, np.int32) for value in (LEAF, NOWHERE, NONE, NONE))
        size, used = np.zeros(8, np.int32), np.array([1, NONE], np.int32)
        query, stack = np.empty(2 * self._axes, np.int16), np.empty(0, np.int32)
        self._structure = KdNodes(column, np.zeros(8, np.int16), left, right, parent, size, used, query, stack)
        depth = self._plant(ROOT, clauses, owners)
        # levels that a tree may have until its members have doubled
        self._deepest = max(depth + 1, int(2 * math.log2(4 * len(clauses) / pool.UNDERFLOW + LANES)))
        self._let_stack(self._deepest)

    def _let_stack(self, depth: int) -> None:
        """Make room for a search that goes this deep."""
        self._structure = self._structure._replace(stack=np.empty(2 * depth + 16, np.int32))
        self._handles = None

    def _plant(self, node: int, clauses: I64, owners: I32) -> int:
        """Put a subtree of these clauses in the place of a leaf that has no buckets; returns its greatest depth."""
        points = points_of(self.table, self._scale, clauses)
        plan = plan_subtree(points, turn_of(self._structure, node))
        sizes = (plan.end - plan.begin)[plan.column == LEAF]
        self._make_room(int((sizes // LANES + 1).sum()), len(plan.column))
        write_subtree(self._arguments(), plan, clauses, owners, node)
        deepest = depth_of(self._structure, node) + int(plan.depth.max())
        if deepest + 16 > len(self._structure.stack):
            self._let_stack(deepest)
        return deepest

    def _make_room(self, buckets: int, nodes: int) -> None:
        """Make room for this many more, and for what the next command may need."""
        self._buckets = pool.with_room(self._buckets, int(self._buckets.free[USED]) + buckets + SPARE)
        tree = self._structure
        room, now = int(tree.used[NODES_USED]) + nodes + SPARE, len(tree.column)
        if room > now:
            longer: Any = {name: grown(getattr(tree, name), max(room, 2 * now)) for name in KdNodes._fields[:6]}
            self._structure = tree._replace(**longer)
        self._handles = None

    def _put_clause(self, clause: int, owner: int) -> None:
        leaf = put_clause(self._arguments(), clause, owner, self._deepest)
        if leaf == NO_ROOM:
            self._make_room(len(self._buckets.filled), len(self._structure.column))
            leaf = put_clause(self._arguments(), clause, owner, self._deepest)
        if leaf != DONE:
            self._rebuild(leaf)

    def _rebuild(self, node: int) -> None:
        """Build again a leaf with a long chain, or the smallest unbalanced subtree above a node that is too deep."""
        tree, depth = self._structure, depth_of(self._structure, node) + 1
        long_chain = tree.column[node] == LEAF
        top = node if long_chain else scapegoat(tree, node)
        if top != NONE:
            deepest = self._plant(top, *fell_subtree(self._arguments(), top))
        if not long_chain and (top == NONE or deepest >= depth):
            self._deepest = depth + SLACK
            self._let_stack(self._deepest)

    def _drop_clause(self, clause: int) -> None:
        drop_clause(self._arguments(), clause)

    def _search(self, slot: int, k: int, counters: I64) -> I32:
        return search(self._arguments(), slot, k, counters)

    def check(self) -> None:
        """Raise AssertionError unless the invariant holds. O(points · depth)."""
        super().check()
        tree, used = self._structure, []
        pending = [(ROOT, NONE, np.full(2 * self._axes, pool.BOTTOM), np.full(2 * self._axes, pool.TOP))]
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
        free, node = 0, int(tree.used[FIRST_FREE])
        while node != NONE:
            free, node = free + 1, int(tree.parent[node])
        require(nodes + free == tree.used[NODES_USED], "nodes are lost")
        self._check_buckets(used)

    def _check_leaf(self, node: int, low: I64, high: I64) -> list[int]:
        tree, buckets, chain = self._structure, self._buckets, []
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


# --- nodes -------------------------------------------------------------------------------------------------------


def depth_of(tree: KdNodes, node: int) -> int:
    """How many nodes are above one."""
    depth = 0
    while tree.parent[node] != NONE:
        node, depth = int(tree.parent[node]), depth + 1
    return depth


@inlined
def turn_of(tree: KdNodes, node: int) -> int:
    """The column that is next in turn to divide a node: the one after its parent's."""
    return 0 if tree.parent[node] == NONE else int(tree.column[tree.parent[node]]) + 1


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
def write_subtree(pairs: U64, plan: SubtreePlan, clauses: I64, owners: I32, node: int) -> None:
    """Turn a leaf without buckets into the subtree that was planned. There is room for it."""
    table, scale, buckets = all_at(pairs)
    tree = tree_at(pairs, OF_STRUCTURE)
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
            bucket = pool.new_bucket(buckets, made[i])  # a leaf without points gets an empty one
            for place in plan.order[plan.begin[i] : plan.end[i]]:
                bucket = _with_lane(buckets, bucket)
                pool.put_point(buckets, bucket, table, scale, clauses[place], owners[place])
            tree.left[made[i]] = bucket
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


@inlined
def _with_lane(buckets: Buckets, bucket: int) -> int:
    """The first bucket of a chain, with room for a point: a new one, where it was full."""
    if buckets.filled[bucket] < LANES:
        return bucket
    fresh = pool.new_bucket(buckets, buckets.home[bucket])
    buckets.link[fresh] = bucket
    return fresh


@kernel
def fell_subtree(pairs: U64, node: int) -> tuple[I64, I32]:
    """Remove the points of a subtree and turn its node into a leaf without buckets; returns clauses and owners."""
    tree, buckets = tree_at(pairs, OF_STRUCTURE), all_at(pairs)[2]
    found, top, size = 0, 1, tree.size[node]
    clauses, owners, pending = np.empty(size, np.int64), np.empty(size, np.int32), np.empty(size + 2, np.int32)
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
                bucket = pool.free_bucket(buckets, bucket)
        else:
            pending[top], pending[top + 1] = tree.left[one], tree.right[one]
            top += 2
        if one != node:
            free_node(tree, one)
    tree.column[node], tree.left[node] = LEAF, NOWHERE
    return clauses, owners


# --- changes -----------------------------------------------------------------------------------------------------


@kernel
def put_clause(pairs: U64, clause: int, owner: int, limit: int) -> int:
    """Insert the point of a clause. Returns a leaf with a long chain, a divided leaf that is too deep, or DONE.

    Returns NO_ROOM, and does nothing, when there may be too few buckets or nodes left.
    """
    table, scale, buckets = all_at(pairs)
    tree = tree_at(pairs, OF_STRUCTURE)
    if buckets.free[USED] + SPARE > len(buckets.filled) or tree.used[NODES_USED] + SPARE > len(tree.column):
        return NO_ROOM
    fill_point(table, scale, clause, tree.query, 0, 1)
    leaf = int(ROOT)
    while at(tree.column, leaf) != LEAF:
        below = tree.query[at(tree.column, leaf)] <= at(tree.value, leaf)
        leaf = int(at(tree.left, leaf) if below else at(tree.right, leaf))
    depth, node = 0, leaf
    while node != NONE:
        tree.size[node] += 1
        node = tree.parent[node]
        depth += 1
    full = int(tree.left[leaf])
    bucket = _with_lane(buckets, full)
    pool.put_point(buckets, bucket, table, scale, clause, owner)
    if bucket == full:
        return DONE
    tree.left[leaf] = bucket
    if tree.size[leaf] > LANES + 1:
        return leaf  # it has many equal points; the caller finds out whether it can be divided now
    clauses, owners = fell_subtree(pairs, leaf)
    write_subtree(pairs, plan_subtree(points_of(table, scale, clauses), turn_of(tree, leaf)), clauses, owners, leaf)
    return leaf if depth > limit and tree.column[leaf] != LEAF else DONE


@kernel
def drop_clause(pairs: U64, clause: int) -> None:
    """Remove the point of a clause; leaves that have become small merge."""
    _, scale, buckets = all_at(pairs)
    tree, axes = tree_at(pairs, OF_STRUCTURE), len(scale.base)
    node = leaf = buckets.home[buckets.place[clause] >> 6]
    bucket = tree.left[leaf]
    pool.take_point(buckets, clause, bucket, axes)
    while node != NONE:
        tree.size[node] -= 1
        node = tree.parent[node]
    if buckets.filled[bucket] == 0 and buckets.link[bucket] != NOWHERE:
        tree.left[leaf] = pool.free_bucket(buckets, bucket)
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
def _merge(tree: KdNodes, buckets: Buckets, axes: int, parent: int, leaf: int, sibling: int) -> None:
    """Make one leaf of two that fit in a bucket. A chain of a leaf so small may still have several buckets."""
    target = pool.new_bucket(buckets, parent)
    for side in range(2):
        child = int(leaf) if side == 0 else int(sibling)
        bucket = tree.left[child]
        while bucket != NOWHERE:
            for lane in range(buckets.filled[bucket]):
                pool.move_point(buckets, bucket * LANES + lane, target, axes)
            bucket = pool.free_bucket(buckets, bucket)
        free_node(tree, child)
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
    free_node(tree, leaf)
    free_node(tree, sibling)


# --- search ------------------------------------------------------------------------------------------------------


@kernel
def search(pairs: U64, slot: int, k: int, counters: I64) -> I32:
    """Up to k members that cover the slot, from the rightmost leaf on."""
    table, scale, buckets = all_at(pairs)
    tree, out = tree_at(pairs, OF_STRUCTURE), np.empty(k, np.int32)
    query, stack, axes = tree.query, tree.stack, len(scale.base)
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
    return out[:found]
