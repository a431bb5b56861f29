"""The flat arrays of subscriptions, which every index is built from and every kernel reads.

They nest four levels by offsets; the last offset closes the level:

    slot 0: a BETWEEN 3 AND 5 AND b IN (1, 7)        slot 1: c IS NULL OR c = 2 (one attribute: one constraint)

    clause_start      0        1        2            clauses of a slot
    constraint_start  0        2        3            constraints of a clause, ascending by attribute
      attr            0    1   2
      accepts_null    0    0   1
    interval_start    0    1   3   4                 intervals of a constraint, ascending, disjoint
      lo              3  1 7   2
      hi              5  1 7   2

Columns that nobody used have length 0 and mean their default: `weight` 1.0, `score` 0.0, `first_moment` and
`last_moment` (a life span, see life.py) all of time. The functions gather such arrays by slot, put them one after
another and check them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from earmark.errors import require
from earmark.flat.arrays import F64, I32, I64, U8, frozen
from earmark.keys.schema import INT64_MAX, INT64_MIN

NO_MOMENTS: I64 = frozen(np.empty(0, np.int64))


class SegmentArrays(NamedTuple):
    """Subscriptions by slot. Invariant: offsets ascend from 0, attributes ascend inside a clause."""

    clause_start: I32
    constraint_start: I32
    attr: I32
    accepts_null: U8
    interval_start: I32
    lo: I64
    hi: I64
    weight: F64
    score: F64
    sequence: I64
    first_moment: I64 = NO_MOMENTS
    """The first key of time at which a slot can match,"""
    last_moment: I64 = NO_MOMENTS
    """and the last."""


EMPTY: F64 = np.empty(0, np.float64)
FEW = 64
"""Up to this many elements, lists are quicker than numpy's calls."""
_DEFAULTS: dict[str, tuple[str, float]] = {
    "weight": ("interval_start", 1.0),
    "score": ("clause_start", 0.0),
    "first_moment": ("clause_start", INT64_MIN),
    "last_moment": ("clause_start", INT64_MAX),
}
"""Columns that may be empty, for all have this value; and the offsets that tell how many there would be."""


def offsets(counts: Sequence[int] | I64) -> I32:
    """[0, counts[0], counts[0] + counts[1], …]."""
    if isinstance(counts, list) and len(counts) <= FEW:
        return np.array([0, *accumulate(counts)], np.int32)
    start = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=start[1:])
    return start.astype(np.int32)


def spread(start: I32, rows: I64) -> tuple[I32, I64]:
    """Offsets of the chosen rows, and the positions of their elements in order.

    >>> spread(np.array([0, 2, 5], np.int32), np.array([1]))[1].tolist()
    [2, 3, 4]
    """
    first = start[rows].astype(np.int64)
    counts = start[rows + 1] - first
    made = offsets(counts)
    positions = np.arange(made[-1], dtype=np.int64) + np.repeat(first - made[:-1], counts)
    return made, positions


def intervals_on(table: SegmentArrays, attribute: int) -> I64:
    """The positions of all intervals on one attribute."""
    return spread(table.interval_start, np.flatnonzero(table.attr == attribute))[1]


def gather(table: SegmentArrays, slots: I64) -> SegmentArrays:
    """The arrays of the chosen slots. O(their size)."""
    if len(slots) == 1:
        return _one_slot(table, int(slots[0]))
    clause_start, clauses = spread(table.clause_start, slots)
    return with_constraints(table, *spread(table.constraint_start, clauses))._replace(
        clause_start=clause_start,
        score=table.score[slots] if len(table.score) else EMPTY,
        sequence=table.sequence[slots],
        first_moment=table.first_moment[slots] if len(table.first_moment) else NO_MOMENTS,
        last_moment=table.last_moment[slots] if len(table.last_moment) else NO_MOMENTS,
    )


def with_constraints(table: SegmentArrays, constraint_start: I32, constraints: I64) -> SegmentArrays:
    """The same subscriptions with the chosen constraints alone, which are those of clauses that begin where given."""
    interval_start, intervals = spread(table.interval_start, constraints)
    return table._replace(
        constraint_start=constraint_start,
        attr=table.attr[constraints],
        accepts_null=table.accepts_null[constraints],
        interval_start=interval_start,
        lo=table.lo[intervals],
        hi=table.hi[intervals],
        weight=table.weight[constraints] if len(table.weight) else EMPTY,
    )


def _one_slot(table: SegmentArrays, slot: int) -> SegmentArrays:
    """The arrays of one slot, by slices."""
    first, last = int(table.clause_start[slot]), int(table.clause_start[slot + 1])
    begin, end = int(table.constraint_start[first]), int(table.constraint_start[last])
    low, high = int(table.interval_start[begin]), int(table.interval_start[end])
    return SegmentArrays(
        clause_start=np.array([0, last - first], np.int32),
        constraint_start=table.constraint_start[first : last + 1] - np.int32(begin),
        attr=table.attr[begin:end],
        accepts_null=table.accepts_null[begin:end],
        interval_start=table.interval_start[begin : end + 1] - np.int32(low),
        lo=table.lo[low:high],
        hi=table.hi[low:high],
        weight=table.weight[begin:end],
        score=table.score[slot : slot + 1],
        sequence=table.sequence[slot : slot + 1],
        first_moment=table.first_moment[slot : slot + 1],
        last_moment=table.last_moment[slot : slot + 1],
    )


def concat(a: SegmentArrays, b: SegmentArrays) -> SegmentArrays:
    """The slots of `a`, then those of `b`. A column that is all default in one of them is filled in."""
    made = {}
    for name in SegmentArrays._fields:
        parts = [getattr(a, name), getattr(b, name)]
        if name.endswith("_start"):
            parts[1] = parts[1][1:] + parts[0][-1]
        elif name in _DEFAULTS and any(map(len, parts)):
            per, default = _DEFAULTS[name]
            counts = (len(getattr(table, per)) - 1 for table in (a, b))
            parts = [own if len(own) else np.full(n, default) for own, n in zip(parts, counts, strict=True)]
        made[name] = np.concatenate(parts)
    return SegmentArrays(**made)


def boxes_table(constraint_start: I32, attr: I32, null: U8, interval_start: I32, lo: I64, hi: I64) -> SegmentArrays:
    """Boxes as a table with one clause per slot, frozen."""
    count = len(constraint_start) - 1
    columns = (
        np.arange(count + 1, dtype=np.int32),
        *(constraint_start, attr, null, interval_start, lo, hi),
        *(EMPTY, EMPTY, np.arange(count, dtype=np.int64), NO_MOMENTS, NO_MOMENTS),
    )
    return SegmentArrays._make(frozen(np.ascontiguousarray(column).view()) for column in columns)


def check_arrays(table: SegmentArrays, attributes: int) -> None:
    """Assert what kernels rely on; files from outside are checked with this before any kernel sees them."""
    slots = len(table.sequence)
    clauses = _check_offsets(table.clause_start, slots, "clause_start")
    constraints = _check_offsets(table.constraint_start, clauses, "constraint_start")
    intervals = _check_offsets(table.interval_start, constraints, "interval_start")
    require(len(table.attr) == len(table.accepts_null) == constraints, "attr and accepts_null do not fit the offsets")
    require(len(table.lo) == len(table.hi) == intervals, "lo and hi do not fit the offsets")
    require(len(table.weight) in (0, constraints), "weight has a length of its own")
    require(len(table.score) in (0, slots), "score has a length of its own")
    moments = len(table.first_moment), len(table.last_moment)
    require(moments in ((0, 0), (slots, slots)), "first_moment and last_moment have lengths of their own")
    require(bool((table.first_moment <= table.last_moment).all()), "a life span ends before it starts")
    require(not constraints or 0 <= table.attr.min() <= table.attr.max() < attributes, "an attribute number is unknown")
    require(bool((table.lo <= table.hi).all()), "an interval ends before it begins")
    require(np.isfinite(table.score).all(), "a score is not finite")
    require(np.isfinite(table.weight).all() and (table.weight >= 0).all(), "a weight is negative or not finite")
    require(bool((table.accepts_null <= 1).all()), "accepts_null is neither 0 nor 1")
    _check_ascending(table.attr[:-1] < table.attr[1:], table.constraint_start, "attributes of a clause")
    _check_ascending(table.hi[:-1] < table.lo[1:], table.interval_start, "intervals of a constraint")


def _check_offsets(start: I32, count: int, name: str) -> int:
    require(len(start) == count + 1 and start[0] == 0, f"{name} does not start at 0 or has the wrong length")
    require(bool((start[:-1] <= start[1:]).all()), f"{name} descends")
    return int(start[-1])


def _check_ascending(ascends: np.ndarray, start: I32, what: str) -> None:
    inner = np.ones(len(ascends), bool)
    borders = start[1:-1].astype(np.int64) - 1
    inner[borders[(borders >= 0) & (borders < len(inner))]] = False
    require(bool(ascends[inner].all()), f"the {what} do not ascend")
