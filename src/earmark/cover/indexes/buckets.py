"""Points in buckets of 64, for structures that change: the leaves of the kd-tree and of the Z-curve.

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

A point is taken out in O(1): `place` says where it is, and the last point of its bucket moves into the hole.

Invariant (`check_buckets`): place and clause are each other's inverse; coords are those of the clauses; a bucket in use
is not empty unless its owner says so.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.cover.containment import reports
from earmark.cover.indexes.handles import TABLE_ARRAYS, handles, unpacker
from earmark.cover.indexes.members import Members
from earmark.cover.indexes.scale import MOST_AXES, Scale, fill_point, learned, points_of
from earmark.cover.indexes.vector import I16, LANES, dominating, lanes_below
from earmark.errors import require
from earmark.flat.arrays import I32, I64, U64
from earmark.flat.machine import aligned, at, ctz64
from earmark.jit import inlined
from earmark.segment.arrays import SegmentArrays, spread

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


OF_SCALE = TABLE_ARRAYS
OF_BUCKETS = OF_SCALE + len(Scale._fields)
OF_STRUCTURE = OF_BUCKETS + len(Buckets._fields)
"""Where the handles of each begin."""
UNDERFLOW, MERGED = LANES // 4, 3 * LANES // 4
"""A leaf with fewer points looks for a neighbour to merge with; two merge when together they have at most this many
points, which leaves room for some more before the next division."""
buckets_at = unpacker(Buckets, "i2", *["i4"] * 7)


class PointIndex(Members):
    """Members whose clauses are points in buckets, on a scale learned again whenever they have doubled.

    A subclass has more arrays (`_structure`), and kernels that put, drop and find points. They take one array of
    handles: of the table, the scale, the buckets and `_structure`, in this order.
    """

    def __init__(self, table: SegmentArrays, axes: int = MOST_AXES) -> None:
        """Make an index without members; at most `axes` attributes get coordinates."""
        super().__init__(table)
        self._most = axes
        self._query = np.empty(2 * MOST_AXES, np.int16)
        self._handles: U64 | None = None
        self._renew(np.empty(0, np.int32))

    @property
    def arrays(self) -> Any:
        """The structure and the buckets."""
        return (*self._structure(), *self._buckets)

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
        self._buckets = with_clauses(self._buckets, len(table.constraint_start) - 1)
        self._handles = None

    def _arguments(self) -> U64:
        """Handles of everything, for kernels that serve one command."""
        if self._handles is None:
            self._handles = handles((*self.table, *self._scale, *self._buckets, *self._structure()))
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

    def _structure(self) -> tuple[NDArray[Any], ...]:
        """The arrays of the structure, with its scratch."""
        raise NotImplementedError

    def _build(self, known: I64, clauses: I64, owners: I32) -> None:
        """Make the structure of these clauses; `known` are those that it can learn from."""
        raise NotImplementedError

    def _put_clause(self, clause: int, owner: int) -> None:
        raise NotImplementedError

    def _drop_clause(self, clause: int) -> None:
        raise NotImplementedError


def new_buckets(room: int, axes: int, clauses: int) -> Buckets:
    """Make room for this many buckets, without points, and for this many clauses of the table."""
    return Buckets(
        coords=aligned(room * 2 * axes * LANES, np.int16),
        clause=np.empty(room * LANES, np.int32),
        owner=np.empty(room * LANES, np.int32),
        filled=np.zeros(room, np.int32),
        link=np.empty(room, np.int32),
        home=np.empty(room, np.int32),
        place=np.full(clauses, NOWHERE, np.int32),
        free=np.array([NOWHERE, 0], np.int32),
    )


def with_room(buckets: Buckets, room: int) -> Buckets:
    """The same buckets, with room for at least this many."""
    if room <= len(buckets.filled):
        return buckets
    factor = max(room, 2 * len(buckets.filled)) / max(len(buckets.filled), 1)
    coords = aligned(round(len(buckets.coords) * factor), np.int16)
    coords[: len(buckets.coords)] = buckets.coords
    grown = {name: grow(getattr(buckets, name), factor) for name in ("clause", "owner", "filled", "link", "home")}
    return buckets._replace(coords=coords, **grown)


def with_clauses(buckets: Buckets, clauses: int) -> Buckets:
    """The same buckets, for a table of this many clauses."""
    if clauses <= len(buckets.place):
        return buckets
    place = np.full(max(clauses, 2 * len(buckets.place)), NOWHERE, np.int32)
    place[: len(buckets.place)] = buckets.place
    return buckets._replace(place=place)


def grow(array: I32, factor: float) -> I32:
    """A longer array that begins like this one."""
    grown = np.zeros(round(len(array) * factor), array.dtype)
    grown[: len(array)] = array
    return grown


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
def free_bucket(buckets: Buckets, bucket: int) -> None:
    """Give a bucket back."""
    buckets.filled[bucket] = 0
    buckets.link[bucket] = buckets.free[FIRST_FREE]
    buckets.free[FIRST_FREE] = bucket


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
def take_point(buckets: Buckets, clause: int, axes: int) -> int:
    """Remove the point of a clause; returns its bucket. O(columns)."""
    spot = int(buckets.place[clause])
    bucket = spot >> 6
    last = bucket * int(LANES) + at(buckets.filled, bucket) - 1
    if spot != last:
        copy_point(buckets, last, spot, axes)
    buckets.place[clause] = NOWHERE
    buckets.filled[bucket] -= 1
    return bucket


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


def check_buckets(buckets: Buckets, table: SegmentArrays, scale: Scale, used: I32, members: I32) -> None:
    """Raise AssertionError unless the buckets in use hold the clauses of the members and no others, at their points."""
    axes = len(scale.base)
    spots = np.concatenate([b * LANES + np.arange(buckets.filled[b]) for b in used] or [np.empty(0, np.int64)]).astype(
        np.int64
    )
    clauses = buckets.clause[spots]
    require(bool((buckets.place[clauses] == spots).all()), "a point is not where its place says")
    require(int((buckets.place != NOWHERE).sum()) == len(spots), "a clause has a place but no point")
    wanted = [np.arange(table.clause_start[s], table.clause_start[s + 1]) for s in members.tolist()]
    expected = np.concatenate(wanted or [np.empty(0, np.int64)])
    require(bool(np.array_equal(np.sort(clauses), np.sort(expected))), "points and clauses of members disagree")
    owners = np.repeat(np.arange(len(table.clause_start) - 1), np.diff(table.clause_start))
    require(bool((owners[clauses] == buckets.owner[spots]).all()), "a point has the wrong owner")
    columns = np.arange(2 * axes) * LANES
    stored = buckets.coords[((spots >> 6) * 2 * axes * LANES + (spots & 63))[:, None] + columns]
    points = points_of(table, scale, clauses.astype(np.int64))
    require(bool((stored == points).all()), "coordinates are not those of the clause")
