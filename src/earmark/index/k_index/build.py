"""From a table to a k-index: entries, cells, posting lists.

Complexity: O(n log n) for n intervals, and the postings: at most 2 (fan-out - 1) a level and interval.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.errors import EarmarkError
from earmark.flat.arrays import F32, F64, I32, I64, U8, Flags, pointers_of, read_only
from earmark.flat.machine import at
from earmark.index.k_index.arrays import MOST, NEVER, KIndexArrays
from earmark.jit import inlined, kernel
from earmark.segment.arrays import SegmentArrays

LEAST, GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def build_arrays(table: SegmentArrays, bits: int) -> KIndexArrays:
    """Build all arrays. `bits` is log2 of the fan-out."""
    posted = posted_constraints(table)
    required, loose, extra = _clauses(table, posted)
    order = np.argsort(np.where(required == NEVER, 1, -required.astype(np.int64)), kind="stable").astype(np.int32)
    slot_of_clause = np.repeat(np.arange(len(table.clause_start) - 1, dtype=np.int32), np.diff(table.clause_start))
    entry_required = required[order]
    able = int((entry_required != NEVER).sum())
    sizes, firsts = np.unique(-entry_required[:able].astype(np.int64), return_index=True)
    coordinate_start, coordinate, cell_lo, cell_hi = _cells(table, posted)
    level_start, level_first = _levels(np.diff(coordinate_start), _has_postings(table, posted), bits)
    columns = map(read_only, (posted, order, level_start, level_first, cell_lo, cell_hi))
    start, posting, bound = _postings(Posted._make([table, *columns, bits]))
    empty = np.diff(table.constraint_start)[order] == 0
    slot_score = table.score if len(table.score) else np.zeros(len(table.clause_start) - 1)
    return KIndexArrays(
        header=np.array([bits], np.int64),
        clause_of=order,
        slot_of=slot_of_clause[order],
        required=entry_required,
        loose=loose[order],
        always=np.flatnonzero((loose[order] != 0) | empty).astype(np.int32),
        partition_size=(-sizes).astype(np.int32),
        partition_first=np.append(firsts, able).astype(np.int32),
        partition_score=_greatest(slot_score[slot_of_clause[order][:able]], firsts),
        partition_extra=_greatest(extra[order][:able], firsts),
        coordinate_start=coordinate_start,
        coordinate=coordinate,
        level_start=level_start,
        level_first=level_first,
        posting_start=start,
        posting=posting,
        bound=bound,
    )


def posted_constraints(table: SegmentArrays) -> Flags:
    """Which constraints have postings: those that do not accept NULL, up to MOST per clause."""
    posted: Flags = table.accepts_null == 0
    ran = np.cumsum(posted, dtype=np.int64)
    before = np.concatenate([[0], ran])[table.constraint_start[:-1]]
    rank = ran - np.repeat(before, np.diff(table.constraint_start))
    counted: Flags = np.logical_and(posted, rank <= MOST)
    return counted


def _clauses(table: SegmentArrays, posted: Flags) -> tuple[U8, U8, F64]:
    """By clause: the predicates to be hit, whether it must be verified, and the weights without postings."""
    weight = table.weight if len(table.weight) else np.ones(len(table.attr))
    empty = (np.diff(table.interval_start) == 0) & (table.accepts_null == 0)
    clause = np.repeat(np.arange(len(table.constraint_start) - 1), np.diff(table.constraint_start))

    def summed(values: NDArray[Any]) -> NDArray[Any]:
        return np.bincount(clause, weights=values, minlength=len(table.constraint_start) - 1)

    required, impossible, loose = summed(posted), summed(empty) > 0, summed(~posted) > 0
    extra = summed(np.where(posted, 0.0, weight))
    return np.where(impossible, NEVER, required).astype(np.uint8), loose.astype(np.uint8), extra * (1 + 1e-9)


def _greatest(values: F64, firsts: I64) -> F64:
    return np.maximum.reduceat(values, firsts) if len(firsts) else np.empty(0)


def _has_postings(table: SegmentArrays, posted: Flags) -> Flags:
    """By attribute, whether any constraint on it is posted."""
    attributes = int(table.attr.max(initial=-1)) + 1
    live = posted & (np.diff(table.interval_start) > 0)
    return np.bincount(table.attr[live], minlength=attributes) > 0


def _cells(table: SegmentArrays, posted: Flags) -> tuple[I64, I64, I32, I32]:
    """The coordinates of each attribute, and for each interval its first and last cell (where it is posted)."""
    attributes = int(table.attr.max(initial=-1)) + 1
    per_constraint = np.diff(table.interval_start)
    attr = np.repeat(np.where(posted, table.attr, attributes), per_constraint)
    order = np.argsort(attr, kind="stable")
    ends = pointers_of(np.bincount(attr, minlength=attributes + 1))
    first, last = np.zeros((2, len(attr)), np.int32)
    parts = [np.empty(0, np.int64)]
    for begin, end in pairwise(ends[:-1].tolist()):
        rows = order[begin:end]
        lo, hi = table.lo[rows], table.hi[rows]
        parts.append(np.unique(np.concatenate([lo[lo > LEAST], hi[hi < GREATEST] + 1])))
        first[rows], last[rows] = (np.searchsorted(parts[-1], keys, "right") for keys in (lo, hi))
    counts = np.array([len(part) for part in parts[1:]], np.int64)
    return pointers_of(counts), np.concatenate(parts), first, last


def _levels(coordinates: I64, used: Flags, bits: int) -> tuple[I32, I64]:
    """The levels of each attribute, and the nodes of each level, as offsets."""
    start, sizes = [0], []
    for count, some in zip(coordinates.tolist(), used.tolist(), strict=True):
        nodes = count + 1
        while some:
            sizes.append(nodes)
            if nodes == 1:
                break
            nodes = (nodes + (1 << bits) - 1) >> bits
        start.append(len(sizes))
    return np.array(start, np.int32), pointers_of(np.array(sizes, np.int64))


def _postings(wanted: Posted) -> tuple[I64, I32, F32]:
    """Build the posting lists: counted first, then filled in the order of the entries, so that they ascend."""
    nodes = int(wanted.level_first[-1])
    count = np.zeros(nodes + 1, np.int64)
    bound = np.zeros(nodes if len(wanted.table.weight) else 0, np.float64)
    _post(wanted, count, np.empty(0, np.int32), bound)
    start = pointers_of(count[:-1])
    if start[-1] >= 2**40:
        raise EarmarkError(f"expected fewer than {2**40:,} postings, got {start[-1]:,}")
    posting = np.empty(int(start[-1]), np.int32)
    _post(wanted, start.copy(), posting, bound)
    narrow = bound.astype(np.float32)
    return start, posting, np.where(narrow < bound, np.nextafter(narrow, np.float32(np.inf)), narrow)


class Posted(NamedTuple):
    """What is posted: which constraints, the clauses by entry, levels, and the cells of each interval."""

    table: SegmentArrays
    posted: Flags
    order: I32
    level_start: I32
    level_first: I64
    cell_lo: I32
    cell_hi: I32
    bits: int


@kernel
def _post(wanted: Posted, place: I64, posting: I32, bound: F64) -> None:
    """Visit every posting: with an empty `posting` count it, else write it as the next one of its node."""
    table, level_start, level_first, bits = wanted.table, wanted.level_start, wanted.level_first, wanted.bits
    fan_out = 1 << bits
    for entry in range(len(wanted.order)):
        clause = wanted.order[entry]
        for constraint in range(table.constraint_start[clause], table.constraint_start[clause + 1]):
            if not wanted.posted[constraint]:
                continue
            weight = table.weight[constraint] if len(table.weight) else 1.0
            attr = table.attr[constraint]
            base, levels = level_start[attr], level_start[attr + 1] - level_start[attr]
            for interval in range(table.interval_start[constraint], table.interval_start[constraint + 1]):
                first, last = int(wanted.cell_lo[interval]), int(wanted.cell_hi[interval])
                if last + 1 == level_first[base + 1] - level_first[base]:  # to the end of the line: no right edge
                    last = (1 << (bits * (levels - 1))) - 1
                for level in range(base, base + levels):
                    if first > last:
                        break
                    top = level + 1 == base + levels
                    while first <= last and (top or first & (fan_out - 1)):
                        _put(entry, level, first, weight, level_first, place, posting, bound)
                        first += 1
                    while first <= last and (last + 1) & (fan_out - 1):
                        _put(entry, level, last, weight, level_first, place, posting, bound)
                        last -= 1
                    first >>= bits
                    last = ((last + 1) >> bits) - 1


@inlined
def _put(
    entry: int, level: int, place_in_level: int, weight: float, level_first: I64, place: I64, posting: I32, bound: F64
) -> None:
    node = at(level_first, level) + place_in_level
    if node >= at(level_first, level + 1):  # the line was lengthened to a whole number of nodes
        return
    if len(posting):
        posting[at(place, node)] = entry
    place[node] += 1
    if len(bound) and weight > at(bound, node):
        bound[node] = weight
