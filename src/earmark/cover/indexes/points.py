"""Clauses as points of dominance space: their codes of 16 bits, and buckets of 64 points that kernels change.

Rectangles become points (Section IV-A): an interval [l, r] of an attribute gives the two coordinates −l and r, and one
rectangle contains another iff its point is at least as great in every coordinate.

**Codes.** The paper's subscriptions constrain all attributes, and their values fill [0, 2^m − 1]. Ours constrain some
of many, anywhere in 64 bits. An index gives an *axis* to the attributes that most clauses constrain, at most MOST_AXES,
and leaves the others to the exact test. On each axis a monotone map takes keys to codes of 16 bits:

    even     code = (key − base) >> shift          where that tells the keys in use well enough apart
    cuts     code = how many cuts are <= key       else: the cuts are quantiles of the keys in use

    a clause on an axis        column −l        column r
    [l, r] (hull of the set)   −code(l)         code(r)
    no constraint              TOP              TOP          dominates everything
    IS NULL                    BOTTOM           BOTTOM       has no key: everything dominates it

Keys beyond those that the scale was learned from get the codes at the ends. A point that dominates has codes that do;
the reverse need not hold, and what codes, or the hull of a set, cannot tell (close keys, holes, NULL, attributes
without an axis) the exact test decides afterwards.

**Buckets**, for structures that change: the leaves of the kd-tree and of the Z-curve. One column per coordinate, so
that one comparison serves 64 points (`index/blocks/dominance.py`).

    bucket 0                        bucket 1
    coords   column 0: 64 points    column 0: 64 points …     column c of bucket b at (b * columns + c) * 64
             column 1: 64 points
    clause   64                     64                        whose point is in the lane
    owner    64                     64                        the slot of that clause
    filled   3                      64                        how many lanes, from the first, are in use
    link     4                      -1                        next bucket of a chain, or of the free ones
    home     7                      2                         the leaf (tree) it belongs to
    place    by clause: bucket * 64 + lane, or -1

    free     the first free bucket, and how many were ever used

A point is taken out in O(1): `place` says where it is, and the last point of its bucket, or of the first one of the
chain, moves into the hole.

**Handles** make a single command cheap. Calling a kernel costs some 0.1 to 0.3 µs for each array it is given, whether
it uses it or not; a covering query needs thirty, and itself takes two microseconds. So the arrays of an index are
passed as one array of handles, made again when one of them is replaced, and the kernel makes its NamedTuples from them,
which costs next to nothing:

    handles   address, length,   address, length,   …        one pair per array, in the order of the NamedTuples
              tree.column        tree.value

The caller keeps the arrays alive. Arrays that kernels make from handles can be written to; those of the table are only
read.

Invariant (`_check_buckets`): a code is monotone in its key, so a clause that contains another dominates it in codes;
place and clause are each other's inverse; coords are those of the clauses; a bucket in use is not empty unless its
owner says so.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.cgutils import gep_inbounds
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype
from numpy.typing import NDArray

from earmark.cover.canonical import reports
from earmark.cover.indexes.members import Members
from earmark.errors import check_whole, require
from earmark.flat.arrays import I32, I64, U64, frozen, grown
from earmark.flat.bisection import bisect_right
from earmark.flat.machine import aligned, at, ctz64
from earmark.index.blocks.dominance import I16, LANES, dominating, lanes_below
from earmark.jit import JIT, inlined, intrinsic, kernel
from earmark.keys.schema import INT64_MAX, INT64_MIN
from earmark.segment.arrays import SegmentArrays, offsets, spread

T = TypeVar("T")
MOST_AXES = 16
TOP, BOTTOM = 32767, -32767
LOW, HIGH = -32766, 32766
"""The least and the greatest code of a key."""
SIGN = 1 << 63
CUTS = -1
"""In place of a shift: the axis has cuts."""
MOST_CUTS = 1023
SAMPLE = 1 << 20
"""Constraints that a scale is learned from, about, when there are more."""
_RARE = 64
"""An attribute is worth a column unless the most constrained one is constrained this many times as often."""


class Scale(NamedTuple):
    """Axes by attribute (-1: none), and by axis the map to codes."""

    axis_of: I32
    base: I64
    top: I64
    shift: I64
    cut_start: I32
    cuts: I64


def learned(table: SegmentArrays, clauses: I64, most: int | None = MOST_AXES) -> Scale:
    """A scale for these clauses, with axes for the attributes that most of them constrain; None: for all of them."""
    if most is not None:
        check_whole(most, "axes", 1, MOST_AXES)
    constraints = spread(table.constraint_start, clauses)[1]
    if len(constraints) > SAMPLE:
        constraints = constraints[:: len(constraints) // SAMPLE]
    by_attr = table.attr[constraints]
    used = np.bincount(by_attr)
    attributes = np.flatnonzero(used).astype(np.int32)
    if most is not None:
        order = np.argsort(-used, kind="stable")[:most].astype(np.int32)
        attributes = order[(used[order] * _RARE >= used.max(initial=1)) & (used[order] > 0)]
    axis_of = np.full(int(attributes.max(initial=-1)) + 1, -1, np.int32)
    axis_of[attributes] = np.arange(len(attributes))
    together = constraints[np.argsort(by_attr, kind="stable")]
    end = np.cumsum(used)
    axes = [_axis(*_ends(table, together[end[a] - used[a] : end[a]])) for a in attributes.tolist()]
    base, top, shift = (np.array([axis[i] for axis in axes], np.int64) for i in range(3))
    cuts = [axis[3] for axis in axes]
    joined = np.concatenate([*cuts, np.empty(0, np.int64)])
    return Scale._make(map(frozen, (axis_of, base, top, shift, offsets([*map(len, cuts)]), joined)))


def _ends(table: SegmentArrays, constraints: I64) -> tuple[int, int, I64]:
    """The least and the greatest end of the hulls, open ends left out, and a sample of the ends, in order."""
    first, last = table.interval_start[constraints], table.interval_start[constraints + 1]
    some = first < last
    lo, hi = table.lo[first[some]], table.hi[last[some] - 1]
    keys = np.concatenate([lo[lo != INT64_MIN], hi[hi != INT64_MAX]])
    if len(keys) == 0:
        return 0, 0, keys
    sample = np.unique(keys[:: max(1, len(keys) // (4 * MOST_CUTS))])
    return int(keys.min()), int(keys.max()), sample


def _axis(base: int, top: int, sample: I64) -> tuple[int, int, int, I64]:
    none = np.empty(0, np.int64)
    shift = max(0, (top - base).bit_length() - 16)
    shift += (top - base) >> shift > HIGH - LOW
    codes = np.unique((sample.view(np.uint64) - sample[:1].view(np.uint64)) >> np.uint64(shift))
    if 4 * len(codes) >= len(sample):
        return base, top, shift, none
    places = np.linspace(0, len(sample) - 1, min(len(sample), MOST_CUTS)).astype(np.int64)
    return base, top, CUTS, sample[places]


@inlined
def code(scale: Scale, axis: int, key: int) -> int:
    """The code of a key on an axis."""
    shift = at(scale.shift, axis)
    if shift != CUTS:
        base, top = at(scale.base, axis), at(scale.top, axis)
        inside = min(max(key, base), top)
        # as unsigned, since the two may be further apart than an int64 reaches; with the sign bit flipped, in order
        above = (np.uint64(inside) ^ np.uint64(SIGN)) - (np.uint64(base) ^ np.uint64(SIGN))
        return int(np.int64(above >> np.uint64(shift))) + int(LOW)
    first = at(scale.cut_start, axis)
    return int(bisect_right(scale.cuts, first, at(scale.cut_start, axis + 1), key) - first) + int(LOW)


@inlined
def fill_point(table: SegmentArrays, scale: Scale, clause: int, point: I16, base: int, stride: int) -> None:
    """Write the codes of a clause: column c at point[base + c * stride]."""
    for column in range(2 * len(scale.base)):
        point[base + column * stride] = int(TOP)
    for constraint in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
        attr = at(table.attr, constraint)
        axis = int(at(scale.axis_of, attr)) if attr < len(scale.axis_of) else -1
        if axis < 0:
            continue
        first, last = at(table.interval_start, constraint), at(table.interval_start, constraint + 1)
        place = base + 2 * axis * stride
        point[place] = -code(scale, axis, at(table.lo, first)) if first < last else int(BOTTOM)
        point[place + stride] = code(scale, axis, at(table.hi, last - 1)) if first < last else int(BOTTOM)


@kernel
def points_of(table: SegmentArrays, scale: Scale, clauses: I64) -> I16:
    """The points of clauses, one row each."""
    columns = 2 * len(scale.base)
    points = np.empty(len(clauses) * columns, np.int16)
    for i in range(len(clauses)):
        fill_point(table, scale, clauses[i], points, i * columns, 1)
    return points.reshape(len(clauses), columns)


# --- handles -----------------------------------------------------------------------------------------------------


def handles(arrays: Iterable[NDArray[Any]]) -> U64:
    """Addresses and lengths of arrays that are contiguous."""
    pairs = []
    for array in arrays:
        assert array.ndim == 1 and array.flags.c_contiguous, "a handle needs a plain array"
        pairs += [array.ctypes.data, len(array)]
    return np.array(pairs, np.uint64)


def unpacker(group: Callable[..., T], *dtypes: str) -> Callable[[U64, int], T]:
    """A function for kernels: the NamedTuple whose arrays, of these types, begin at a handle."""
    made: Callable[[U64, int], T] = _compiled(group, dtypes) if JIT else _plain(group, dtypes)
    return made


def _compiled(group: Any, dtypes: tuple[str, ...]) -> Any:
    arrays = [types.Array(from_dtype(np.dtype(name)), 1, "C") for name in dtypes]
    made = types.NamedTuple(arrays, group)

    @intrinsic
    def unpack(_: Any, pairs: Any, first: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = make_array(signature.args[0])(context, builder, args[0]).data
            words = []
            for i in range(2 * len(arrays)):
                place = builder.add(builder.mul(args[1], ir.Constant(args[1].type, 2)), ir.Constant(args[1].type, i))
                words.append(builder.load(gep_inbounds(builder, data, place)))
            values = []
            for i, kind in enumerate(arrays):
                array = make_array(kind)(context, builder)
                size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
                item = context.get_constant(types.intp, size)
                pointer = builder.inttoptr(words[2 * i], context.get_data_type(kind.dtype).as_pointer())
                populate_array(array, pointer, (words[2 * i + 1],), (item,), item, None)
                values.append(array._getvalue())
            return context.make_tuple(builder, made, values)

        return made(pairs, types.intp), generate

    return unpack


def _plain(group: Any, dtypes: tuple[str, ...]) -> Any:
    def unpack(pairs: U64, first: int) -> Any:
        arrays = []
        for i, name in enumerate(dtypes, first):
            address, length = int(pairs[2 * i]), int(pairs[2 * i + 1])
            raw: Any = (ctypes.c_char * (length * np.dtype(name).itemsize)).from_address(address) if length else b""
            arrays.append(np.frombuffer(raw, name))
        return group(*arrays)

    return unpack


table_at = unpacker(SegmentArrays, "i4", "i4", "i4", "u1", "i4", "i8", "i8", "f8", "f8", "i8", "i8", "i8")


# --- buckets -----------------------------------------------------------------------------------------------------

NOWHERE = -1
FIRST_FREE, USED = 0, 1
"""Places in `free`."""


class Buckets(NamedTuple):
    """Points by bucket; all arrays are changed in place."""

    coords: I16
    clause: I32
    owner: I32
    filled: I32
    link: I32
    home: I32
    place: I32
    free: I32


OF_SCALE = len(SegmentArrays._fields)
OF_BUCKETS = OF_SCALE + len(Scale._fields)
OF_STRUCTURE = OF_BUCKETS + len(Buckets._fields)
"""Where the handles of each begin."""
UNDERFLOW, MERGED = LANES // 4, 3 * LANES // 4
"""A leaf with fewer points looks for a neighbour to merge with; two merge when together they have at most this many
points, which leaves room for some more before the next division."""
scale_at = unpacker(Scale, "i4", "i8", "i8", "i8", "i4", "i8")
buckets_at = unpacker(Buckets, "i2", *["i4"] * 7)


@inlined
def all_at(pairs: U64) -> tuple[SegmentArrays, Scale, Buckets]:
    """What every index of points has, from its handles."""
    return table_at(pairs, 0), scale_at(pairs, OF_SCALE), buckets_at(pairs, OF_BUCKETS)


class PointIndex(Members):
    """Members whose clauses are points in buckets, on a scale learned again whenever they have doubled.

    A subclass has more arrays (`_structure`, its scratch among them), and kernels that put, drop and find points. They
    take one array of handles: of the table, the scale, the buckets and `_structure`, in this order.
    """

    _structure: tuple[NDArray[Any], ...]

    def __init__(self, table: SegmentArrays, axes: int = MOST_AXES) -> None:
        """Make an index without members; at most `axes` attributes get coordinates."""
        super().__init__(table)
        self._most = axes
        self._handles: U64 | None = None
        self._renew(np.empty(0, np.int32))

    @property
    def arrays(self) -> Any:
        """The structure and the buckets."""
        return (*self._structure, *self._buckets)

    def _renew(self, slots: I32) -> None:
        """Build the index again from these slots, on a scale learned from them, or from the table if there are none."""
        table = self.table
        clauses = spread(table.clause_start, slots.astype(np.int64))[1]
        known = clauses if len(slots) else np.arange(len(table.constraint_start) - 1)
        self._scale = learned(table, known, self._most)
        self._axes, self._learned_from = len(self._scale.base), len(slots)
        self._buckets = new_buckets(2, self._axes, len(table.constraint_start) - 1)
        self._build(known, clauses, np.repeat(slots, np.diff(table.clause_start)[slots]))
        self._handles = None

    def _follow(self, table: SegmentArrays) -> None:
        super()._follow(table)
        place, clauses = self._buckets.place, len(table.constraint_start) - 1
        if clauses > len(place):
            self._buckets = self._buckets._replace(place=grown(place, max(clauses, 2 * len(place)), NOWHERE))
        self._handles = None

    def _arguments(self) -> U64:
        """Handles of everything, for kernels that serve one command."""
        if self._handles is None:
            self._handles = handles((*self.table, *self._scale, *self._buckets, *self._structure))
        return self._handles

    def _put(self, slots: list[int]) -> None:
        if self._count > 2 * max(self._learned_from, LANES):
            self._renew(self.members())
            return
        for slot in slots:
            for clause in self._clauses(slot):
                self._put_clause(clause, slot)

    def _take(self, slots: list[int]) -> None:
        for slot in slots:
            for clause in self._clauses(slot):
                self._drop_clause(clause)

    def _build(self, known: I64, clauses: I64, owners: I32) -> None:
        """Make the structure of these clauses; `known` are those that it can learn from."""
        raise NotImplementedError

    def _put_clause(self, clause: int, owner: int) -> None:
        raise NotImplementedError

    def _drop_clause(self, clause: int) -> None:
        raise NotImplementedError

    def _check_buckets(self, used: list[int]) -> None:
        """Raise AssertionError unless the buckets in use hold the clauses of members and no others, at their points."""
        buckets, table, axes = self._buckets, self.table, self._axes
        spots = np.concatenate([np.empty(0, np.int64), *(b * LANES + np.arange(buckets.filled[b]) for b in used)])
        clauses = buckets.clause[spots].astype(np.int64)
        require(bool((buckets.place[clauses] == spots).all()), "a point is not where its place says")
        require(int((buckets.place != NOWHERE).sum()) == len(spots), "a clause has a place but no point")
        expected = spread(table.clause_start, self.members().astype(np.int64))[1]
        require(np.array_equal(np.sort(clauses), expected), "points and clauses of members disagree")
        owners = np.searchsorted(table.clause_start, clauses, "right") - 1
        require(bool((owners == buckets.owner[spots]).all()), "a point has the wrong owner")
        columns = np.arange(2 * axes) * LANES
        stored = buckets.coords[((spots >> 6) * 2 * axes * LANES + (spots & 63))[:, None] + columns]
        require(bool((stored == points_of(table, self._scale, clauses)).all()), "coordinates are not the clause's")


def new_buckets(room: int, axes: int, clauses: int) -> Buckets:
    """Make room for this many buckets, without points, and for this many clauses of the table."""
    clause, owner, filled, link, home = (np.zeros(room * each, np.int32) for each in (LANES, LANES, 1, 1, 1))
    place, free = np.full(clauses, NOWHERE, np.int32), np.array([NOWHERE, 0], np.int32)
    return Buckets(aligned(room * 2 * axes * LANES, np.int16), clause, owner, filled, link, home, place, free)


def with_room(buckets: Buckets, room: int) -> Buckets:
    """The same buckets, with room for at least this many."""
    if room <= len(buckets.filled):
        return buckets
    old, room = len(buckets.filled), max(room, 2 * len(buckets.filled))
    coords = aligned(len(buckets.coords) // old * room, np.int16)
    coords[: len(buckets.coords)] = buckets.coords
    longer = [grown(array, len(array) // old * room) for array in buckets[1:6]]
    return Buckets._make([coords, *longer, *buckets[6:]])


@inlined
def new_bucket(buckets: Buckets, home: int) -> int:
    """Take an empty bucket. The caller has made room for it."""
    bucket = buckets.free[FIRST_FREE]
    if bucket == NOWHERE:
        bucket = buckets.free[USED]
        buckets.free[USED] += 1
    else:
        buckets.free[FIRST_FREE] = buckets.link[bucket]
    buckets.filled[bucket] = 0
    buckets.link[bucket] = NOWHERE
    buckets.home[bucket] = home
    return int(bucket)


@inlined
def free_bucket(buckets: Buckets, bucket: int) -> int:
    """Give a bucket back; returns the next one of its chain."""
    following = buckets.link[bucket]
    buckets.filled[bucket] = 0
    buckets.link[bucket] = buckets.free[FIRST_FREE]
    buckets.free[FIRST_FREE] = bucket
    return int(following)


@inlined
def put_point(buckets: Buckets, bucket: int, table: SegmentArrays, scale: Scale, clause: int, owner: int) -> None:
    """Write the point of a clause into the next lane of a bucket that has one."""
    lane = at(buckets.filled, bucket)
    buckets.filled[bucket] = lane + 1
    spot = bucket * int(LANES) + lane
    buckets.clause[spot] = clause
    buckets.owner[spot] = owner
    buckets.place[clause] = spot
    base = bucket * 2 * len(scale.base) * int(LANES) + lane
    fill_point(table, scale, clause, buckets.coords, base, int(LANES))


@inlined
def move_point(buckets: Buckets, spot: int, bucket: int, axes: int) -> None:
    """Copy the point at a spot into the next lane of a bucket that has one; the spot itself is left as it is."""
    lane = at(buckets.filled, bucket)
    buckets.filled[bucket] = lane + 1
    copy_point(buckets, spot, bucket * int(LANES) + lane, axes)


@inlined
def copy_point(buckets: Buckets, spot: int, new: int, axes: int) -> None:
    """Copy the point at one spot over another."""
    buckets.clause[new] = buckets.clause[spot]
    buckets.owner[new] = buckets.owner[spot]
    buckets.place[buckets.clause[spot]] = new
    source = (spot >> 6) * 2 * axes * int(LANES) + (spot & 63)
    target = (new >> 6) * 2 * axes * int(LANES) + (new & 63)
    for column in range(2 * axes):
        buckets.coords[target + column * int(LANES)] = buckets.coords[source + column * int(LANES)]


@inlined
def take_point(buckets: Buckets, clause: int, bucket: int, axes: int) -> None:
    """Remove the point of a clause; the last one of a bucket of the same leaf moves into the hole. O(columns)."""
    spot, last = int(buckets.place[clause]), bucket * int(LANES) + at(buckets.filled, bucket) - 1
    if spot != last:
        copy_point(buckets, last, spot, axes)
    buckets.place[clause] = NOWHERE
    buckets.filled[bucket] -= 1


@inlined
def search_bucket(
    buckets: Buckets, bucket: int, table: SegmentArrays, axes: int, slot: int, query: I16, out: I32, found: int
) -> int:
    """Append the owners in this bucket that cover the slot; returns the new count."""
    count = at(buckets.filled, bucket)
    if count == 0:
        return found
    base = bucket * 2 * axes * int(LANES)
    mask = dominating(buckets.coords, base, 2 * axes, query, lanes_below(count))
    while mask != np.uint64(0) and found < len(out):
        spot = bucket * int(LANES) + ctz64(mask)
        mask &= mask - np.uint64(1)
        owner = at(buckets.owner, spot)
        if reports(table, owner, at(buckets.clause, spot), slot):
            out[found] = owner
            found += 1
    return found
