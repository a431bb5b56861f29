"""The arrays of a k-index, and what its kernels rely on.

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
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.errors import require
from earmark.flat.arrays import F32, F64, I32, I64, U8
from earmark.segment.arrays import SegmentArrays

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


def check_form(table: SegmentArrays, arrays: KIndexArrays) -> None:
    """Raise AssertionError unless all places that kernels use are inside their arrays. O(size)."""
    clauses, slots = len(table.constraint_start) - 1, len(table.clause_start) - 1
    entries = len(arrays.clause_of)
    require(len(arrays.header) == 1 and 1 <= arrays.header[BITS] <= 8, "the fan-out is not from 2 to 256")
    for name in ("slot_of", "required", "loose"):
        require(len(getattr(arrays, name)) == entries, f"{name} is not as long as clause_of")
    _inside(arrays.clause_of, clauses, "clause_of")
    _inside(arrays.slot_of, slots, "slot_of")
    _inside(arrays.always, entries, "always")
    partitions = len(arrays.partition_size)
    for name in ("partition_score", "partition_extra"):
        require(len(getattr(arrays, name)) == partitions, f"{name} is not one per partition")
    require(len(arrays.partition_first) == partitions + 1, "partition_first is not one per partition")
    _offsets(arrays.partition_first, min(entries, int(arrays.partition_first[-1])), "partition_first")
    require((np.diff(arrays.partition_size) < 0).all(), "partitions do not descend by size")
    sizes = np.repeat(arrays.partition_size, np.diff(arrays.partition_first))
    require((arrays.required[: len(sizes)] == sizes).all(), "required is not the size of its partition")
    require((arrays.required[len(sizes) :] == NEVER).all(), "an entry after the partitions can match")
    _offsets(arrays.coordinate_start, len(arrays.coordinate), "coordinate_start")
    attributes = len(arrays.coordinate_start) - 1
    require(len(arrays.level_start) == attributes + 1, "level_start is not one per attribute")
    _offsets(arrays.level_start, len(arrays.level_first) - 1, "level_start")
    nodes = len(arrays.posting_start) - 1
    _offsets(arrays.level_first, nodes, "level_first")
    _offsets(arrays.posting_start, len(arrays.posting), "posting_start")
    _inside(arrays.posting, entries, "posting")
    require(len(arrays.bound) in (0, nodes), "bound is not one per node")
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


def _inside(places: NDArray[Any], limit: int, name: str) -> None:
    require(not len(places) or (places.min() >= 0 and places.max() < limit), f"{name} points outside")


def _offsets(offsets: NDArray[Any], end: int, name: str) -> None:
    require(len(offsets) > 0 and offsets[0] == 0, f"{name} does not start at 0")
    require((np.diff(offsets) >= 0).all() and offsets[-1] == end, f"{name} does not ascend to its end")
