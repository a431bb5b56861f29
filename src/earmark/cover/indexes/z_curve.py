"""Which members cover this subscription: points of dominance space in the order of the Z-curve.

Shen, Tirthapura & Aluru, Section IV-D, after Morton. Every clause of a member is a point (`points.py`), in a cell on a
grid of 2^m cells per column, and the points are in the order of the keys of their cells. A cube is halved along every
dimension in turn, again and again; a cell's *key* is a leading 1 followed by one bit for each halving, 0 for the lower
half and 1 for the upper:

    (3, 5) = (011, 101) on an 8 × 8 grid:   bits in turn 0·1 1·0 1·1   key 1 01 10 11
                                            without the leading 1: 011011 = 27

The leading 1 says how many bits follow, so cells of all resolutions share one line of numbers: 100 is a quarter of the
square and 10000 a quarter of that quarter. After each whole round of d bits the cells are cubes; in between they are
cubes halved along some dimensions, and everything below holds for them as well. The finest cells inside a cell are
consecutive on the curve. Keys are unsigned 64-bit integers: at most 63 bits follow the 1 (`curves/grid.py`).

The points that contain a clause are in the corner of the cube above its point. That corner is decomposed, lazily, into
maximal cells:

    query in cell (1, 2) of 4 × 4       cells of the corner        as keys
      . . . .                           upper right quarter        1 11
      . Q x x                           lower right, upper half    1 10 ·1      halved once more: not all of it
      . x x x                           …

    directory   first    1 0000   1 0110   1 1101        keys ascend; bucket i holds keys from first[i] to first[i + 1]
                bucket   3        0        7              where its points are (`points.py`)

A cell is a run of the directory, found by two binary searches inside the run of the cell it is part of. A cell outside
the corner is dropped; one inside it, and one whose run is a single bucket, is searched point by point; any other is
halved. The upper half goes first: the greatest keys, at the end of the curve, are the extremal points, which are
likeliest to dominate, and cells of the upper halves are free in more dimensions, so the large ones come early. As
cells come in descending order, a bucket that several of them touch is searched once.

Invariant (`check`): `first` ascends; keys of a bucket are between its first and the next one's (equal keys may
continue in the next bucket); no bucket is empty but the only one; `_check_buckets`.

Complexity: insert and remove O(log + columns), and O(members / 64) moves of the directory when a bucket is divided;
query between O(log) and O(members / 64) vector comparisons, plus the cells visited.

Where we differ: an AVL tree holds single points in the paper. Here the order is kept in flat arrays, buckets of up to
64 points and a sorted directory of them: there is nothing to rebalance, a run of the curve is a run of memory, a bucket
is compared with one vector per column, and a division, once in some 32 inserts, moves 12 bytes for each bucket behind
it. A key of 63 bits leaves 3 per column at 16 columns; so the grid is coarse, its lines are quantiles of the members'
codes, and each candidate is tested exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.cover.indexes import points as pool
from earmark.cover.indexes.members import COMPARISONS, NODES
from earmark.cover.indexes.points import NOWHERE, OF_STRUCTURE, USED, Buckets, all_at, fill_point, points_of
from earmark.curves.grid import MOST_BITS, check_grid
from earmark.errors import require
from earmark.flat.arrays import I32, I64, U64, grown
from earmark.flat.bisection import bisect_left, bisect_right
from earmark.flat.machine import at
from earmark.index.blocks.dominance import I16, LANES
from earmark.jit import inlined, kernel

FINEST = 8
"""Most bits per column: cells finer than the buckets are of no use."""
COUNT = 0


class Curve(NamedTuple):
    """The order of the points, and what a search writes; arrays are changed in place."""

    first: U64
    bucket: I32
    size: I32
    key: U64
    grid: I16
    query: I16
    """The point that a search looks for."""
    cell: U64
    stack: U64
    """The cell of the point, and the cells still to visit."""


curve_at = pool.unpacker(Curve, "u8", "i4", "i4", "u8", "i2", "i2", "u8", "u8")


class ZCurve(pool.PointIndex):
    """The Z-curve."""

    _structure: Curve

    def _build(self, known: I64, clauses: I64, owners: I32) -> None:
        columns = 2 * self._axes
        self._bits = bits_for(max(columns, 1), FINEST)
        grid = _grid(points_of(self.table, self._scale, known), self._bits)
        bucket, size = np.zeros(2, np.int32), np.ones(1, np.int32)  # one empty bucket
        bucket[0] = pool.new_bucket(self._buckets, 0)
        first, key, cell, stack = (np.zeros(n, np.uint64) for n in (2, 2 * LANES, columns, 5 * (MOST_BITS + 2)))
        self._structure = Curve(first, bucket, size, key, grid, np.empty(columns, np.int16), cell, stack)
        self._handles = None
        for clause, owner in zip(clauses.tolist(), owners.tolist(), strict=True):
            self._put_clause(clause, owner)

    def _put_clause(self, clause: int, owner: int) -> None:
        if self._buckets.free.item(USED) + 4 > len(self._buckets.filled):
            self._make_room()
        put_clause(self._arguments(), self._bits, clause, owner)

    def _make_room(self) -> None:
        self._buckets = pool.with_room(self._buckets, int(self._buckets.free[USED]) + 4)
        room, old = len(self._buckets.filled), self._structure
        first, bucket, key = grown(old.first, room), grown(old.bucket, room), grown(old.key, room * LANES)
        self._structure = old._replace(first=first, bucket=bucket, key=key)
        self._handles = None

    def _drop_clause(self, clause: int) -> None:
        drop_clause(self._arguments(), clause)

    def _search(self, slot: int, k: int, counters: I64) -> I32:
        return search(self._arguments(), self._bits, slot, k, counters)

    def check(self) -> None:
        """Raise AssertionError unless the invariant holds. O(points)."""
        super().check()
        curve, buckets = self._structure, self._buckets
        size = int(curve.size[COUNT])
        first, order = curve.first[:size], curve.bucket[:size]
        require(bool((first[:-1] <= first[1:]).all()), "the directory does not ascend")
        require(len(np.unique(order)) == size, "a bucket is in the directory twice")
        require(first[0] == 0, "keys below those of the first bucket have none")
        for bucket, low, high in zip(order.tolist(), first, np.append(first[1:], ~np.uint64(0)), strict=True):
            keys = curve.key[bucket * LANES : bucket * LANES + int(buckets.filled[bucket])]
            require(bool(((keys >= low) & (keys <= high)).all()), f"bucket {bucket} holds keys of another")
            require(len(keys) > 0 or size == 1, f"bucket {bucket} is empty")
        spots = np.flatnonzero(buckets.place != NOWHERE)
        points = points_of(self.table, self._scale, spots.astype(np.int64))
        for clause, point in zip(spots.tolist(), points, strict=True):
            key = key_of(curve.grid, self._bits, point, curve.cell)
            require(curve.key[buckets.place[clause]] == key, f"clause {clause} has the key of another cell")
        self._check_buckets(order.tolist())


def bits_for(dimensions: int, most: int) -> int:
    """Bits per dimension: as many as fit a key, at most `most`."""
    check_grid(dimensions, 1)
    return min(MOST_BITS // dimensions, most)


def _grid(points: I16, bits: int) -> I16:
    """The lines of the grid: for each column 2^bits − 1 codes, quantiles of the points'; flat."""
    lines = (1 << bits) - 1
    if len(points) == 0:
        even = np.linspace(pool.BOTTOM, pool.TOP, lines + 2)[1:-1]
        return np.tile(even.astype(np.int16), points.shape[1])
    ordered = np.sort(points, axis=0)
    places = (np.arange(1, lines + 1) * len(points)) >> bits
    return np.ascontiguousarray(ordered[places].T).ravel()


# --- keys --------------------------------------------------------------------------------------------------------


@inlined
def interleave(coordinates: U64, dimensions: int, bits: int) -> np.uint64:
    """The key of the cell coordinates[0 : dimensions], on a grid of 2^bits cells per dimension."""
    key = np.uint64(1)
    for level in range(bits - 1, -1, -1):
        for dimension in range(dimensions):
            bit = (coordinates[dimension] >> np.uint64(level)) & np.uint64(1)
            key = (key << np.uint64(1)) | bit
    return key


@inlined
def first_inside(cell: np.uint64, more: int) -> np.uint64:
    """The least key, `more` bits longer, inside a cell."""
    return cell << np.uint64(more)


@inlined
def last_inside(cell: np.uint64, more: int) -> np.uint64:
    """The greatest key, `more` bits longer, inside a cell."""
    return (cell << np.uint64(more)) | ((np.uint64(1) << np.uint64(more)) - np.uint64(1))


# --- changes -----------------------------------------------------------------------------------------------------


@inlined
def _to_cell(grid: I16, bits: int, point: I16, cell: U64, columns: int) -> None:
    """Fill the cell of a point: for each column, how many lines are at or below it."""
    lines = (1 << bits) - 1
    for column in range(columns):
        first = column * lines
        cell[column] = np.uint64(bisect_right(grid, first, first + lines, point[column]) - first)


@inlined
def key_of(grid: I16, bits: int, point: I16, cell: U64) -> np.uint64:
    """The key of a point."""
    _to_cell(grid, bits, point, cell, len(point))
    return interleave(cell, len(point), bits)


@kernel
def put_clause(pairs: U64, bits: int, clause: int, owner: int) -> None:
    """Insert the point of a clause. There is room for two more buckets."""
    table, scale, buckets = all_at(pairs)
    curve, axes = curve_at(pairs, OF_STRUCTURE), len(scale.base)
    fill_point(table, scale, clause, curve.query, 0, 1)
    key = key_of(curve.grid, bits, curve.query, curve.cell)
    place = max(bisect_right(curve.first, 0, curve.size[COUNT], key) - 1, 0)
    if buckets.filled[curve.bucket[place]] == LANES:
        _divide(curve, buckets, axes, place)
        if key >= curve.first[place + 1]:
            place += 1
    bucket = curve.bucket[place]
    curve.key[bucket * LANES + buckets.filled[bucket]] = key
    pool.put_point(buckets, bucket, table, scale, clause, owner)


@kernel
def _divide(curve: Curve, buckets: Buckets, axes: int, place: int) -> None:
    """Make two buckets of a full one, at the median of its keys; of equal keys, some stay and some go."""
    old = curve.bucket[place]
    keys = curve.key[old * LANES : (old + 1) * LANES].copy()
    order = np.argsort(keys)
    size = curve.size[COUNT]
    for i in range(size, place + 1, -1):
        curve.first[i], curve.bucket[i] = curve.first[i - 1], curve.bucket[i - 1]
    curve.size[COUNT] = size + 1
    for half in range(2):
        fresh = pool.new_bucket(buckets, 0)
        for i in range(half * LANES // 2, (half + 1) * LANES // 2):
            curve.key[fresh * LANES + buckets.filled[fresh]] = keys[order[i]]
            pool.move_point(buckets, old * LANES + order[i], fresh, axes)
        curve.bucket[place + half] = fresh
    curve.first[place + 1] = keys[order[LANES // 2]]
    pool.free_bucket(buckets, old)


@kernel
def drop_clause(pairs: U64, clause: int) -> None:
    """Remove the point of a clause; a bucket that has become small merges with a neighbour."""
    _, scale, buckets = all_at(pairs)
    curve, axes = curve_at(pairs, OF_STRUCTURE), len(scale.base)
    spot = int(buckets.place[clause])
    key = curve.key[spot]
    bucket = spot >> 6
    pool.take_point(buckets, clause, bucket, axes)
    curve.key[spot] = curve.key[bucket * LANES + buckets.filled[bucket]]
    size = curve.size[COUNT]
    if buckets.filled[bucket] >= pool.UNDERFLOW or size == 1:
        return
    # Equal keys may fill several buckets: the last of them that begins at or below the key, or one before it.
    place = max(bisect_right(curve.first, 0, size, key) - 1, 0)
    while curve.bucket[place] != bucket:
        place -= 1
    if buckets.filled[bucket] == 0:
        pool.free_bucket(buckets, bucket)
        _close(curve, place)
        return
    neighbour = place + 1 if place + 1 < size else place - 1
    if buckets.filled[bucket] + buckets.filled[curve.bucket[neighbour]] > pool.MERGED:
        return
    low, high = min(place, neighbour), max(place, neighbour)
    source, target = curve.bucket[high], curve.bucket[low]
    for lane in range(buckets.filled[source]):
        curve.key[target * LANES + buckets.filled[target]] = curve.key[source * LANES + lane]
        pool.move_point(buckets, source * LANES + lane, target, axes)
    pool.free_bucket(buckets, source)
    _close(curve, high)


@inlined
def _close(curve: Curve, place: int) -> None:
    """Remove a place from the directory."""
    curve.size[COUNT] -= 1
    for i in range(place, curve.size[COUNT]):
        curve.first[i], curve.bucket[i] = curve.first[i + 1], curve.bucket[i + 1]
    curve.first[0] = np.uint64(0)  # whatever comes first takes all keys below


# --- search ------------------------------------------------------------------------------------------------------


@kernel
def search(pairs: U64, bits: int, slot: int, k: int, counters: I64) -> I32:
    """Up to k members that cover the slot, from the end of the curve on.

    On the stack, for each cell: its key and how many bits follow the 1, the dimensions in which all of it is above the
    query (`free`), and the run of the directory to look in.
    """
    table, scale, buckets = all_at(pairs)
    curve, axes, out = curve_at(pairs, OF_STRUCTURE), len(scale.base), np.empty(k, np.int32)
    query, corner, stack, columns = curve.query, curve.cell, curve.stack, 2 * axes
    fill_point(table, scale, at(table.clause_start, slot), query, 0, 1)
    _to_cell(curve.grid, bits, query, corner, columns)
    length = columns * bits
    all_free = (np.uint64(1) << np.uint64(columns)) - np.uint64(1)
    found, cells, compared = 0, 0, 0
    unsearched = int(curve.size[COUNT])  # buckets from here on have been searched
    top = _push(stack, 0, np.uint64(1), 0, np.uint64(0), 0, unsearched)
    while top > 0 and found < len(out):
        top -= 1
        cell, level, free = stack[5 * top], int(np.int64(stack[5 * top + 1])), stack[5 * top + 2]
        begin, end = int(np.int64(stack[5 * top + 3])), int(np.int64(stack[5 * top + 4]))
        cells += 1
        # Bits in which the query is in the upper half and the cell is bound to it: only the upper half will do.
        while level < length:
            column = level % columns
            bit = (corner[column] >> np.uint64(bits - 1 - level // columns)) & np.uint64(1)
            if (free >> np.uint64(column)) & np.uint64(1) or bit == np.uint64(0):
                break
            cell = (cell << np.uint64(1)) | np.uint64(1)
            level += 1
        end = bisect_right(curve.first, begin, end, last_inside(cell, length - level))
        begin = max(bisect_left(curve.first, begin, end, first_inside(cell, length - level)) - 1, begin)
        end = min(end, unsearched)
        if begin >= end:
            continue
        if end - begin == 1 or level == length or free == all_free:
            while end > begin and found < len(out):
                end -= 1
                bucket = at(curve.bucket, end)
                compared += at(buckets.filled, bucket)
                found = pool.search_bucket(buckets, bucket, table, axes, slot, query, out, found)
            unsearched = begin
            continue
        upper = free | (np.uint64(1) << np.uint64(level % columns))
        top = _push(stack, top, cell << np.uint64(1), level + 1, free, begin, end)
        top = _push(stack, top, (cell << np.uint64(1)) | np.uint64(1), level + 1, upper, begin, end)
    counters[NODES] += cells
    counters[COMPARISONS] += compared
    return out[:found]


@inlined
def _push(stack: U64, top: int, cell: np.uint64, level: int, free: np.uint64, begin: int, end: int) -> int:
    """Put a cell on the stack; returns its new height."""
    stack[5 * top], stack[5 * top + 1], stack[5 * top + 2] = cell, np.uint64(level), free
    stack[5 * top + 3], stack[5 * top + 4] = np.uint64(begin), np.uint64(end)
    return top + 1
