"""Which attributes get coordinates, and how 64-bit keys become codes of 16 bits.

The paper's subscriptions constrain all attributes, and their values fill [0, 2^m − 1]. Ours constrain some of many,
anywhere in 64 bits. An index gives an *axis* to the attributes that most clauses constrain, at most MOST_AXES, and
leaves the others to the exact test. On each axis a monotone map takes keys to codes:

    even     code = (key − base) >> shift          where that tells the keys in use well enough apart
    cuts     code = how many cuts are <= key       else: the cuts are quantiles of the keys in use

    a clause on an axis        column −l        column r
    [l, r] (hull of the set)   −code(l)         code(r)
    no constraint              TOP              TOP          dominates everything
    IS NULL                    BOTTOM           BOTTOM       has no key: everything dominates it

Invariant: code is monotone, so a clause that contains another dominates it in codes. Keys beyond those that the scale
was learned from get the codes at the ends, which keeps this true.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.cover.given import check_whole
from earmark.cover.indexes.handles import unpacker
from earmark.cover.indexes.vector import I16
from earmark.flat.arrays import I32, I64, frozen
from earmark.flat.bisection import bisect_right
from earmark.flat.machine import at
from earmark.jit import inlined, kernel
from earmark.keys.schema import INT64_MAX, INT64_MIN
from earmark.segment.arrays import SegmentArrays, spread

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
    if most is None:
        attributes = np.flatnonzero(used).astype(np.int32)
    else:
        order = np.argsort(-used, kind="stable")[:most]
        enough = used[order] * _RARE >= max(used.max(initial=1), 1)
        attributes = order[enough & (used[order] > 0)].astype(np.int32)
    axis_of = np.full(int(attributes.max(initial=-1)) + 1, -1, np.int32)
    axis_of[attributes] = np.arange(len(attributes))
    together = constraints[np.argsort(by_attr, kind="stable")]
    end = np.cumsum(used)
    axes = [_axis(*_ends(table, together[end[a] - used[a] : end[a]])) for a in attributes.tolist()]
    base, top, shift = (np.array([axis[i] for axis in axes], np.int64) for i in range(3))
    cuts = [axis[3] for axis in axes]
    start = np.cumsum([0, *map(len, cuts)]).astype(np.int32)
    joined = np.concatenate([*cuts, np.empty(0, np.int64)])
    return Scale(*map(frozen, (axis_of, base, top, shift, start, joined)))  # type: ignore[arg-type]


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
    if len(sample) == 0:
        return base, top, shift, none
    codes = len(np.unique((sample.view(np.uint64) - sample.view(np.uint64)[0]) >> np.uint64(shift)))
    if 4 * codes >= len(sample):
        return base, top, shift, none
    places = np.linspace(0, len(sample) - 1, min(len(sample), MOST_CUTS)).astype(np.int64)
    return base, top, CUTS, sample[places]


scale_at = unpacker(Scale, "i4", "i8", "i8", "i8", "i4", "i8")


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
        if first < last:
            point[place] = -code(scale, axis, at(table.lo, first))
            point[place + stride] = code(scale, axis, at(table.hi, last - 1))
        else:
            point[place] = int(BOTTOM)
            point[place + stride] = int(BOTTOM)


@kernel
def fill_points(table: SegmentArrays, scale: Scale, clauses: I64, points: I16) -> None:
    """Fill the points of many clauses, one row each: points is flat, rows of 2 · axes."""
    columns = 2 * len(scale.base)
    for i in range(len(clauses)):
        fill_point(table, scale, clauses[i], points, i * columns, 1)


def points_of(table: SegmentArrays, scale: Scale, clauses: I64) -> I16:
    """The points of clauses, one row each."""
    points = np.empty(len(clauses) * 2 * len(scale.base), np.int16)
    fill_points(table, scale, clauses, points)
    return points.reshape(len(clauses), 2 * len(scale.base))
