"""The arrays of a k-index: what they are, what its kernels rely on, and how a table becomes entries, cells and lists.

Clauses are renumbered: an *entry* is a clause's place in the order of the index, by K descending, then by clause. So
partition K is a range of entries, one posting list serves all partitions, and a sweep over the entries meets the
partitions from the largest K down, as Whang et al. visit them.

    slot 0: a = 1 AND b = 2     slot 1: a IN (1, 3)     slot 2: a IS NULL     slot 3: a < 0 AND a > 5 (never)

    entry            0     1     2     3
    clause_of        0     1     2     3
    required         2     1     0     NEVER           predicates to be hit; 0: the clause is always verified
    loose            0     0     1     0               something cannot be seen from postings: verify
    partition_size   2     1     0
    partition_first  0     1     2     3               the last closes; entries from there on never match

An attribute's line is cut at every end of an interval into *cells*; above the cells is a tree of fan-out 2^bits
(4 by default), whose nodes are posting lists:

    a:   coordinate     1    2    3    4           (a = 1 is [1, 2), that is cell 1; a = 3 is cell 3)
         cell        0  |  1 |  2 |  3 |  4
         level 0     -    01   -    1    -         5 nodes: entries 0 and 1 in cell 1, entry 1 in cell 3
         level 1     -------- - -------- -         2 nodes
         level 2     --------------------         1 node

An interval is posted at the fewest nodes that together are its cells: O(fan-out x log cells) of them, instead of one
per value. A value is in one cell, and the lists on the path from the cell to the top hold each predicate that accepts
the value exactly once.

Complexity: a build is O(n log n) for n intervals, and the postings: at most 2 (fan-out - 1) a level and interval.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.errors import EarmarkError, require
from earmark.flat.arrays import F32, F64, I32, I64, U8, Flags, frozen, pointers_of
from earmark.flat.machine import at
from earmark.jit import inlined, kernel
from earmark.segment.arrays import SegmentArrays

LEAST, GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
MOST_POSTINGS = 2**40
NEVER = 255
"""`required` of a clause that no event matches."""
MOST = 254
"""The most predicates of a clause that are posted; a clause that has more is verified."""
BITS = 0
"""Field of `header`: log2 of the fan-out."""


class KIndexArrays(NamedTuple):
    """Entries, partitions, and the posting lists by attribute, level and node."""

    header: I64
    clause_of: I32
    slot_of: I32
    required: U8
    loose: U8
    always: I32
    """Entries to verify in every relaxed search: the loose ones, and those without constraints."""
    partition_size: I32
    partition_first: I32
    partition_score: F64
    """The greatest static score in a partition."""
    partition_extra: F64
    """The greatest sum of weights, over the clauses of a partition, of constraints that are not posted."""
    coordinate_start: I64
    coordinate: I64
    level_start: I32
    """The levels of an attribute, in `level_first`; none where nothing is posted."""
    level_first: I64
    """The first node of a level; the next level's is where it ends."""
    posting_start: I64
    posting: I32
    bound: F32
    """The greatest weight in a node's list, rounded up; empty when there are no weights: then it is 1."""


def check_form(arrays: KIndexArrays, table: SegmentArrays) -> None:
    """Raise AssertionError unless all places that kernels use are inside their arrays. O(size)."""
    entries, partitions = len(arrays.clause_of), len(arrays.partition_size)
    attributes, nodes = len(arrays.coordinate_start) - 1, len(arrays.posting_start) - 1
    require(len(arrays.header) == 1 and 1 <= arrays.header[BITS] <= 8, "the fan-out is not from 2 to 256")
    lengths = dict.fromkeys(("slot_of", "required", "loose"), entries)
    lengths |= {"partition_score": partitions, "partition_extra": partitions, "partition_first": partitions + 1}
    for name, length in (lengths | {"level_start": attributes + 1}).items():
        require(len(getattr(arrays, name)) == length, f"{name} has the wrong length")
    require(len(arrays.bound) in (0, nodes), "bound is not one per node")
    limits = {"clause_of": len(table.constraint_start) - 1, "slot_of": len(table.clause_start) - 1}
    for name, limit in (limits | {"always": entries, "posting": entries}).items():
        places = getattr(arrays, name)
        require(not len(places) or (places.min() >= 0 and places.max() < limit), f"{name} points outside")
    ends = {
        "partition_first": min(entries, int(arrays.partition_first[-1])),
        "coordinate_start": len(arrays.coordinate),
    }
    ends |= {"level_start": len(arrays.level_first) - 1, "level_first": nodes, "posting_start": len(arrays.posting)}
    for name, end in ends.items():
        start = getattr(arrays, name)
        require(len(start) > 0 and start[0] == 0, f"{name} does not start at 0")
        require((np.diff(start) >= 0).all() and start[-1] == end, f"{name} does not ascend to its end")
    require((np.diff(arrays.partition_size) < 0).all(), "partitions do not descend by size")
    sizes = np.repeat(arrays.partition_size, np.diff(arrays.partition_first))
    require((arrays.required[: len(sizes)] == sizes).all(), "required is not the size of its partition")
    require((arrays.required[len(sizes) :] == NEVER).all(), "an entry after the partitions can match")
    _check_levels(arrays)


def _check_levels(arrays: KIndexArrays) -> None:
    """Check that level l of an attribute has one node per 2^(bits l) cells, and its last level has one node."""
    bits = int(arrays.header[BITS])
    nodes = np.diff(arrays.level_first)
    cells = np.diff(arrays.coordinate_start) + 1
    levels = np.diff(arrays.level_start)
    used = np.flatnonzero(levels)
    require((cells[levels == 0] == 1).all(), "an attribute has coordinates and no levels")
    left, level = cells[used], arrays.level_start[used].astype(np.int64)
    while len(used):
        require((nodes[level] == left).all(), "a level has too few or too many nodes")
        last = level + 1 == arrays.level_start[used + 1]
        require(((left == 1) == last).all(), "an attribute does not end in one node")
        used, left, level = used[~last], left[~last], level[~last] + 1
        left = (left + (1 << bits) - 1) >> bits


def build_arrays(table: SegmentArrays, bits: int) -> KIndexArrays:
    """Build all arrays. `bits` is log2 of the fan-out."""
    posted = posted_constraints(table)
    required, loose, extra = _clauses(table, posted)
    order = np.argsort(np.where(required == NEVER, 1, -required.astype(np.int64)), kind="stable").astype(np.int32)
    slot_of_clause = np.repeat(np.arange(len(table.clause_start) - 1, dtype=np.int32), np.diff(table.clause_start))
    required, loose, slot_of = required[order], loose[order], slot_of_clause[order]
    able = int((required != NEVER).sum())
    sizes, firsts = np.unique(-required[:able].astype(np.int64), return_index=True)
    coordinate_start, coordinate, cell_lo, cell_hi = _cells(table, posted)
    live = table.attr[posted & (np.diff(table.interval_start) > 0)]
    used = np.bincount(live, minlength=len(coordinate_start) - 1) > 0
    level_start, level_first = _levels(np.diff(coordinate_start), used, bits)
    for column in (posted, order, level_start, level_first, cell_lo, cell_hi):
        frozen(column)
    start, posting, bound = _post(table, posted, order, level_start, level_first, cell_lo, cell_hi, bits)
    if start[-1] >= MOST_POSTINGS:
        raise EarmarkError(f"expected fewer than {MOST_POSTINGS:,} postings, got {start[-1]:,}")
    narrow = bound.astype(np.float32)
    empty = np.diff(table.constraint_start)[order] == 0
    slot_score = table.score if len(table.score) else np.zeros(len(table.clause_start) - 1)
    return KIndexArrays(
        header=np.array([bits], np.int64),
        clause_of=order,
        slot_of=slot_of,
        required=required,
        loose=loose,
        always=np.flatnonzero((loose != 0) | empty).astype(np.int32),
        partition_size=(-sizes).astype(np.int32),
        partition_first=np.append(firsts, able).astype(np.int32),
        partition_score=_greatest(slot_score[slot_of[:able]], firsts),
        partition_extra=_greatest(extra[order][:able], firsts),
        coordinate_start=coordinate_start,
        coordinate=coordinate,
        level_start=level_start,
        level_first=level_first,
        posting_start=start,
        posting=posting,
        bound=np.where(narrow < bound, np.nextafter(narrow, np.float32(np.inf)), narrow),
    )


def posted_constraints(table: SegmentArrays) -> Flags:
    """Which constraints have postings: those that do not accept NULL, up to MOST per clause."""
    posted: Flags = table.accepts_null == 0
    ran = pointers_of(posted.astype(np.int64))
    rank = ran[1:] - np.repeat(ran[table.constraint_start[:-1]], np.diff(table.constraint_start))
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


@kernel
def _post(
    table: SegmentArrays, posted: Flags, order: I32, level_start: I32, level_first: I64, low: I32, high: I32, bits: int
) -> tuple[I64, I32, F64]:
    """Where the list of each node begins, the lists, and the greatest weight in each, if there are weights.

    `low` and `high` are the first and last cell of each interval. Postings are counted, then (unless there are too
    many) written in the order of the entries, so that they ascend.
    """
    fan_out, nodes = 1 << bits, level_first[-1]
    start, place, posting = np.zeros(nodes + 1, np.int64), np.zeros(nodes, np.int64), np.empty(0, np.int32)
    bound = np.zeros(nodes if len(table.weight) else 0)
    for written in range(2):
        for entry in range(len(order)):
            clause = order[entry]
            for constraint in range(table.constraint_start[clause], table.constraint_start[clause + 1]):
                if not posted[constraint]:
                    continue
                weight = table.weight[constraint] if len(table.weight) else 1.0
                attr = table.attr[constraint]
                base, levels = level_start[attr], level_start[attr + 1] - level_start[attr]
                for interval in range(table.interval_start[constraint], table.interval_start[constraint + 1]):
                    first, last = int(low[interval]), int(high[interval])
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
        if not written:
            start[1:] = np.cumsum(place)
            place = start[:-1].copy()
            if start[-1] == 0 or start[-1] >= MOST_POSTINGS:
                break
            posting = np.empty(start[-1], np.int32)
    return start, posting, bound


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
