"""Which members cover this subscription: points of dominance space in the order of the Z-curve.

Shen, Tirthapura & Aluru, Section IV-D. Every clause of a member is a point (`vector.py`); its cell on a grid of 2^m
cells per column has a Morton key (`curves/morton.py`), and the points are in the order of their keys. Those that
contain a clause are in the corner of the cube above its point. That corner is decomposed, lazily, into maximal cells:

    query in cell (1, 2) of 4 × 4       cells of the corner        as keys
      . . . .                           upper right quarter        1 11
      . Q x x                           lower right, upper half    1 10 ·1      halved once more: not all of it
      . x x x                           …

    directory   first    1 0000   1 0110   1 1101        keys ascend; bucket i holds keys from first[i] to first[i + 1]
                bucket   3        0        7              where its points are (`buckets.py`)

A cell is a run of the directory, found by two binary searches inside the run of the cell it is part of. A cell outside
the corner is dropped; one inside it, and one whose run is a single bucket, is searched point by point; any other is
halved. The upper half goes first: the greatest keys, at the end of the curve, are the extremal points, which are
likeliest to dominate, and cells of the upper halves are free in more dimensions, so the large ones come early. As
cells come in descending order, a bucket that several of them touch is searched once.

Invariant (`check`): `first` ascends; keys of a bucket lie between its first and the next one's (equal keys may
continue in the next bucket); no bucket is empty but the only one; `check_buckets`.

Complexity: insert and remove O(log + columns), and O(members / 64) moves of the directory when a bucket is divided;
query between O(log) and O(members / 64) vector comparisons, plus the cells visited.

Where we differ: an AVL tree holds single points in the paper. Here the order is kept in flat arrays, buckets of up to
64 points and a sorted directory of them: there is nothing to rebalance, a run of the curve is a run of memory, a bucket
is compared with one vector per column, and a division, once in some 32 inserts, moves 12 bytes for each bucket behind
it. A key of 63 bits leaves 3 per column at 16 columns; so the grid is coarse, its lines are quantiles of the members'
codes, and each candidate is tested exactly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.cover.indexes import buckets as pool
from earmark.cover.indexes.buckets import NOWHERE, OF_BUCKETS, OF_SCALE, OF_STRUCTURE, USED, Buckets, buckets_at
from earmark.cover.indexes.handles import table_at, unpacker
from earmark.cover.indexes.members import COMPARISONS, NODES
from earmark.cover.indexes.scale import BOTTOM, MOST_AXES, TOP, fill_point, points_of, scale_at
from earmark.cover.indexes.vector import I16, LANES
from earmark.curves.grid import MOST_BITS
from earmark.curves.morton import bits_for, first_inside, interleave, last_inside
from earmark.errors import require
from earmark.flat.arrays import I32, I64, U64
from earmark.flat.bisection import bisect_left, bisect_right
from earmark.flat.machine import at
from earmark.jit import inlined, kernel
from earmark.segment.arrays import SegmentArrays

FINEST = 8
"""Most bits per column: cells finer than the buckets are of no use."""
COUNT = 0


class Curve(NamedTuple):
    """The order of the points; arrays are changed in place."""

    first: U64
    bucket: I32
    size: I32
    key: U64
    grid: I16


class CurveScratch(NamedTuple):
    """What a search writes: the point it looks for, its cell, and the cells still to visit."""

    query: I16
    cell: U64
    stack: U64


OF_SCRATCH = OF_STRUCTURE + len(Curve._fields)
curve_at = unpacker(Curve, "u8", "i4", "i4", "u8", "i2")
scratch_at = unpacker(CurveScratch, "i2", "u8", "u8")


class ZCurve(pool.PointIndex):
    """The Z-curve."""

    def __init__(self, table: SegmentArrays, axes: int = MOST_AXES) -> None:
        self._cell = np.empty(2 * MOST_AXES, np.uint64)
        self._stack = np.empty(4 * (MOST_BITS + 2), np.uint64)
        super().__init__(table, axes)

    def _structure(self) -> tuple[NDArray[Any], ...]:
        return (*self._curve, self._query, self._cell, self._stack)

    def _build(self, known: I64, clauses: I64, owners: I32) -> None:
        self._bits = bits_for(max(2 * self._axes, 1), FINEST)
        grid = _grid(points_of(self.table, self._scale, known), self._bits)
        self._curve = Curve(np.zeros(2, np.uint64), np.zeros(2, np.int32), np.zeros(1, np.int32), _keys(2), grid)
        start_curve(self._curve, self._buckets)
        self._handles = None
        for clause, owner in zip(clauses.tolist(), owners.tolist(), strict=True):
            self._put_clause(clause, owner)

    def _put_clause(self, clause: int, owner: int) -> None:
        if self._buckets.free.item(USED) + 4 > len(self._buckets.filled):
            self._make_room()
        put_clause(self._arguments(), self._bits, clause, owner)

    def _make_room(self) -> None:
        self._buckets = pool.with_room(self._buckets, int(self._buckets.free[USED]) + 4)
        room, old = len(self._buckets.filled), self._curve
        first, bucket, key = np.zeros(room, np.uint64), np.zeros(room, np.int32), _keys(room)
        first[: len(old.first)], bucket[: len(old.bucket)], key[: len(old.key)] = old.first, old.bucket, old.key
        self._curve = old._replace(first=first, bucket=bucket, key=key)
        self._handles = None

    def _drop_clause(self, clause: int) -> None:
        drop_clause(self._arguments(), clause)

    def _search(self, slot: int, k: int, counters: I64) -> I32:
        out = np.empty(k, np.int32)
        return out[: search(self._arguments(), self._bits, slot, out, counters)]

    def check(self) -> None:
        """Raise AssertionError unless the invariant holds. O(points)."""
        super().check()
        curve, buckets = self._curve, self._buckets
        size = int(curve.size[COUNT])
        first, order = curve.first[:size], curve.bucket[:size]
        require(bool((first[:-1] <= first[1:]).all()), "the directory does not ascend")
        require(len(np.unique(order)) == size, "a bucket is in the directory twice")
        lowest, highest = np.uint64(0), ~np.uint64(0)
        for i, bucket in enumerate(order.tolist()):
            keys = curve.key[bucket * LANES : bucket * LANES + int(buckets.filled[bucket])]
            low, high = first[i] if i else lowest, first[i + 1] if i + 1 < size else highest
            require(bool(((keys >= low) & (keys <= high)).all()), f"bucket {bucket} holds keys of another")
            require(len(keys) > 0 or size == 1, f"bucket {bucket} is empty")
        spots = np.flatnonzero(buckets.place != NOWHERE)
        points = points_of(self.table, self._scale, spots.astype(np.int64))
        for clause, point in zip(spots.tolist(), points, strict=True):
            key = key_of(curve.grid, self._bits, point, self._cell)
            require(curve.key[buckets.place[clause]] == key, f"clause {clause} has the key of another cell")
        pool.check_buckets(buckets, self.table, self._scale, order, self.members())


def _keys(room: int) -> U64:
    return np.zeros(room * LANES, np.uint64)


def _grid(points: I16, bits: int) -> I16:
    """The lines of the grid: for each column 2^bits − 1 codes, quantiles of the points'; flat."""
    lines = (1 << bits) - 1
    if len(points) == 0:
        even = np.linspace(BOTTOM, TOP, lines + 2)[1:-1]
        return np.tile(even.astype(np.int16), points.shape[1])
    ordered = np.sort(points, axis=0)
    places = (np.arange(1, lines + 1) * len(points)) >> bits
    return np.ascontiguousarray(ordered[places].T).ravel()


# --- changes -----------------------------------------------------------------------------------------------------


@inlined
def _to_cell(grid: I16, bits: int, point: I16, cell: U64, columns: int) -> None:
    """Fill the cell of a point: for each column, how many lines are at or below it."""
    lines = (1 << bits) - 1
    for column in range(columns):
        first = column * lines
        cell[column] = np.uint64(bisect_right(grid, first, first + lines, point[column]) - first)


@kernel
def key_of(grid: I16, bits: int, point: I16, cell: U64) -> np.uint64:
    """The key of a point."""
    _to_cell(grid, bits, point, cell, len(point))
    return interleave(cell, len(point), bits)


@kernel
def start_curve(curve: Curve, buckets: Buckets) -> None:
    """One empty bucket."""
    curve.bucket[0] = pool.new_bucket(buckets, 0)
    curve.first[0] = np.uint64(0)
    curve.size[COUNT] = 1


@kernel
def put_clause(pairs: U64, bits: int, clause: int, owner: int) -> None:
    """Insert the point of a clause. There is room for two more buckets."""
    table, scale, buckets = table_at(pairs, 0), scale_at(pairs, OF_SCALE), buckets_at(pairs, OF_BUCKETS)
    curve, scratch = curve_at(pairs, OF_STRUCTURE), scratch_at(pairs, OF_SCRATCH)
    point, cell = scratch.query, scratch.cell
    axes = len(scale.base)
    fill_point(table, scale, clause, point, 0, 1)
    _to_cell(curve.grid, bits, point, cell, 2 * axes)
    key = interleave(cell, 2 * axes, bits)
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
    buckets, curve = buckets_at(pairs, OF_BUCKETS), curve_at(pairs, OF_STRUCTURE)
    axes = len(scale_at(pairs, OF_SCALE).base)
    spot = int(buckets.place[clause])
    key = curve.key[spot]
    bucket = pool.take_point(buckets, clause, axes)
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
def search(pairs: U64, bits: int, slot: int, out: I32, counters: I64) -> int:
    """Up to len(out) members that cover the slot, from the end of the curve on.

    On the stack, for each cell: its key, the dimensions in which all of it is above the query (`free`), and the run of
    the directory to look in.
    """
    table, scale, buckets = table_at(pairs, 0), scale_at(pairs, OF_SCALE), buckets_at(pairs, OF_BUCKETS)
    curve, scratch = curve_at(pairs, OF_STRUCTURE), scratch_at(pairs, OF_SCRATCH)
    query, corner, stack = scratch.query, scratch.cell, scratch.stack
    axes = len(scale.base)
    columns = 2 * axes
    fill_point(table, scale, at(table.clause_start, slot), query, 0, 1)
    _to_cell(curve.grid, bits, query, corner, columns)
    length = columns * bits
    all_free = (np.uint64(1) << np.uint64(columns)) - np.uint64(1)
    found, cells, compared = 0, 0, 0
    unsearched = int(curve.size[COUNT])  # buckets from here on have been searched
    top = 1
    stack[0], stack[1], stack[2], stack[3] = np.uint64(1), np.uint64(0), np.uint64(0), np.uint64(unsearched)
    while top > 0 and found < len(out):
        top -= 1
        cell, free = stack[4 * top], stack[4 * top + 1]
        begin, end = int(np.int64(stack[4 * top + 2])), int(np.int64(stack[4 * top + 3]))
        level = _level(cell)
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
        stack[4 * top], stack[4 * top + 1] = cell << np.uint64(1), free
        stack[4 * top + 2], stack[4 * top + 3] = np.uint64(begin), np.uint64(end)
        stack[4 * top + 4], stack[4 * top + 5] = (cell << np.uint64(1)) | np.uint64(1), upper
        stack[4 * top + 6], stack[4 * top + 7] = np.uint64(begin), np.uint64(end)
        top += 2
    counters[NODES] += cells
    counters[COMPARISONS] += compared
    return found


@inlined
def _level(cell: np.uint64) -> int:
    """How many bits follow the leading 1."""
    level = 0
    step = 32
    while step > 0:
        if cell >> np.uint64(level + step):
            level += step
        step >>= 1
    return level
