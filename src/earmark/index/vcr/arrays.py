"""The arrays of a VCR index, what `info` and `options` hold, and the check of all that kernels rely on.

    slot 0: x in [1, 3], y in [1, 2]      slot 1: x in [2, 2], y in [1, 3]     (Lx = 2, Ly = 1)

    cut_x      MIN 1 2 3 4                 x = 1, 2, 3 are cells of their own; cell 0 is below, cell 4 above
    cut_y      MIN 1 3 4                   nothing tells y = 1 from y = 2: one cell
    rectangles (1, 1, 3, 1) and (2, 1, 1, 2) in cells, cut into VCRs (x, y, width, height):
               slot 0: (1, 1, 2, 1) and (3, 1, 1, 1)      slot 1: (2, 1, 1, 1) and (2, 2, 1, 1)

    ID         … 53 54 … 60 … 69 …         of (2,1,1,1), (3,1,1,1), (1,1,2,1) and (2,2,1,1), numbered by shape
    start      …  0  1 …  2 …  3 …         the list of VCR v is entry[start[v] : start[v + 1]]
    entry      1 0 0 1                     slots, ascending in each list; the top bit (MAYBE) says: verify

    bounds     lo_x hi_x lo_y hi_y of every slot that asks for nothing else, so that one cache line verifies it; an
               empty x (lo above hi) for the others. No bounds at all where no entry is MAYBE.

A *hashed* store keeps only VCRs that have a list: `key` is an open-addressed table of IDs, and start runs over its
places instead of over all VCRs.

    key        57 . . . . . 74 . 59 . . . . . . 58        EMPTY where nothing is; IDs of Eq. (1)
    start       0 1 1 1 1 1  1 2  2 3 3 3 3 3 3  3 4
    entry      0 1 0 1

Slots that came after the build are in the *delta*: a small table `late_key` of IDs, each with a chain of entries, the
newest first (the paper's linked lists): late_head -> late_next -> … -> END. `residual` is the bitmap of slots that are
not on the grid and are scanned; `gone` that of slots removed since the build.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.errors import require
from earmark.flat import bits
from earmark.flat.arrays import I32, I64, U64
from earmark.index.marks import MAYBE, SLOT
from earmark.index.vcr.rectangles import Steps, distances, runs_of, steps
from earmark.segment.arrays import SegmentArrays, offsets

U32 = NDArray[np.uint32]

NO_ATTRIBUTE = -1
"""Attribute of an axis that has none: the y axis of a grid over one attribute, both of a grid without any."""
EMPTY = -1
"""A free place of a hash table."""
END = -1
"""The end of a chain."""
FREE = -1
"""An option that was not given."""

MOST_SHAPE = 16
"""The greatest sum of the exponents of the longest sides: a covering set has four times 2 to this VCRs."""

# Kinds of coordinate: a VCR of width w holds w cells, or w + 1 grid points (the paper's).
CELLS, POINTS = 0, 1
MODES = ("cells", "points")
ARRAY, HASHED = 0, 1
STORES = ("array", "hashed")
DECOMPOSITIONS = ("simple", "overlapped")
NUMBERINGS = ("corner", "shape")

# Fields of `info`. SHIFT is the ID of the VCR (0, 0, 1, 1): corners left of and below the grid have IDs too, so that
# no covering set leaves the numbering. PLACED: slots on the grid at the build. LATE_KEYS: used places of late_key.
# GONE_BEFORE: how many bits of `gone` are of slots that never were in the lists.
(ATTR_X, ATTR_Y, MODE, IS_OVERLAPPED, KX, KY, STEP_X, STEP_Y, STEP_I, STEP_J) = range(10)
(SHIFT, VCRS, STORE, NUMBERING, SLOTS, PLACED, ACTIVATED, LATE_SLOTS, LATE_KEYS, GONE_BEFORE) = range(10, 20)
INFO = 20

# Kinds of distance table, by whether the event is between grid points: index = 2 * open_x + open_y.
KINDS = 4


class VcrOptions(NamedTuple):
    """What the user gave, FREE where the data decides; numbers index the tuples above. Stored as an int64 array."""

    attr_x: int = FREE
    attr_y: int = FREE
    kx: int = FREE
    ky: int = FREE
    cells_x: int = FREE
    cells_y: int = FREE
    mode: int = CELLS
    decomposition: int = FREE
    store: int = FREE
    numbering: int = FREE
    hash_size: int = FREE


class VcrArrays(NamedTuple):
    """All of the index. The module's docstring draws it."""

    info: I64
    options: I64
    cut_x: I64
    cut_y: I64
    run_start: I32
    run_first: I64
    run_last: I64
    key: I64
    start: I32
    entry: U32
    bounds: I64
    late_key: I64
    late_head: I32
    late_entry: U32
    late_next: I32
    residual: U64
    gone: U64


class VcrGrid(NamedTuple):
    """The part that says where a rectangle goes."""

    info: I64
    cut_x: I64
    cut_y: I64


def grid_of(arrays: VcrArrays) -> VcrGrid:
    """The grid of an index."""
    return VcrGrid(arrays.info, arrays.cut_x, arrays.cut_y)


def activated(arrays: VcrArrays) -> int:
    """How many VCRs have a list, in the arrays or in the delta."""
    late = arrays.late_key[arrays.late_key != EMPTY]
    if arrays.info[STORE] == HASHED:
        known = np.isin(late, arrays.key)
    else:
        known = arrays.start[late + 1] > arrays.start[late]
    return int(arrays.info[ACTIVATED]) + int((~known).sum())


def distance_tables(info: I64) -> tuple[I32, I64, I64]:
    """run_start, run_first, run_last: a distance table for each kind of point that the mode knows."""
    step, (kx, ky) = Steps._make(info[STEP_X : STEP_J + 1].tolist()), info[[KX, KY]].tolist()
    known = range(KINDS) if info[MODE] == POINTS else [KINDS - 1]
    tables = {kind: runs_of(distances(step, kx, ky, kind >= 2, kind % 2 == 1)) for kind in known}
    lengths = [len(tables[kind].first) if kind in tables else 0 for kind in range(KINDS)]
    first, last = (np.concatenate(column) for column in zip(*tables.values(), strict=True))
    return offsets(lengths), first, last


def numbered(info: I64, cells_x: int, cells_y: int) -> I64:
    """A copy of info with the numbering of its VCRs; on each side L + 1 corners more than the grid has."""
    info = info.copy()
    kx, ky = int(info[KX]), int(info[KY])
    step = steps(NUMBERINGS[int(info[NUMBERING])], cells_x + _pad(kx), kx, ky)
    info[[STEP_X, STEP_Y, STEP_I, STEP_J]] = step
    info[SHIFT] = _pad(kx) * step.x + _pad(ky) * step.y
    info[VCRS] = count_vcrs(cells_x, cells_y, kx, ky)
    return info


def count_vcrs(cells_x: int, cells_y: int, kx: int, ky: int) -> int:
    """How many VCRs a grid numbers, those left of it and below included."""
    return (cells_x + _pad(kx)) * (cells_y + _pad(ky)) * (kx + 1) * (ky + 1)


def _pad(k: int) -> int:
    return (1 << k) + 1


def check_arrays(arrays: VcrArrays, table: SegmentArrays) -> None:
    """Assert what kernels rely on; arrays from outside pass here before any kernel sees them. O(size)."""
    info = arrays.info
    require(len(info) == INFO and len(arrays.options) == len(VcrOptions._fields), "info or options has another length")
    require(info[SLOTS] <= len(table.clause_start) - 1, "the index knows more slots than there are")
    require(0 <= info[MODE] < len(MODES) and 0 <= info[STORE] < len(STORES), "mode or store is unknown")
    _check_grid(arrays)
    _check_lists(arrays)
    _check_late(arrays)
    for name in ("residual", "gone"):
        bitmap = getattr(arrays, name)
        require(len(bitmap) == bits.words_for(int(info[SLOTS])), f"{name} has the wrong length")
        require(not len(bitmap) or not info[SLOTS] % 64 or int(bitmap[-1]) >> int(info[SLOTS] % 64) == 0, name)


def _check_grid(arrays: VcrArrays) -> None:
    info = arrays.info
    for name in ("cut_x", "cut_y"):
        cuts = getattr(arrays, name)
        require(len(cuts) >= 1 + int(info[MODE]) and bool((cuts[:-1] < cuts[1:]).all()), f"{name} does not ascend")
        require(info[MODE] == POINTS or cuts[0] == np.iinfo(np.int64).min, f"{name} does not begin with the least key")
    require(info[KX] >= 0 and info[KY] >= 0 and info[KX] + info[KY] <= MOST_SHAPE, "a longest side is out of bounds")
    require(0 <= info[NUMBERING] < len(NUMBERINGS), "the numbering is unknown")
    fitting = numbered(info, len(arrays.cut_x), len(arrays.cut_y))
    require(bool((fitting == info).all()), "the numbering does not fit the grid")
    run_start, run_first, run_last = distance_tables(info)
    same = np.array_equal(run_start, arrays.run_start) and np.array_equal(run_first, arrays.run_first)
    require(same and np.array_equal(run_last, arrays.run_last), "the distance table is another one")


def _check_lists(arrays: VcrArrays) -> None:
    info, start, entry, bounds = arrays.info, arrays.start, arrays.entry, arrays.bounds
    hashed = info[STORE] == HASHED
    lists = len(arrays.key) if hashed else info[VCRS]
    require(len(start) == lists + 1 and start[0] == 0, "start does not fit the lists")
    require(bool((start[:-1] <= start[1:]).all()) and start[-1] == len(entry), "start does not ascend to the end")
    require(not len(entry) or (entry & SLOT).max() < info[SLOTS], "an entry is not a slot")
    require(len(bounds) % 4 == 0 and len(bounds) <= 4 * info[SLOTS], "bounds has the wrong length")
    require(len(bounds) > 0 or not (entry >= MAYBE).any(), "what may match cannot be verified")
    require(hashed or not len(arrays.key), "an array has no keys")
    free = arrays.key == EMPTY
    require(not hashed or free.any(), "the hash table has no free place")
    require(not hashed or not np.diff(start)[free].any(), "a free place has a list")


def _check_late(arrays: VcrArrays) -> None:
    count, head, free = len(arrays.late_entry), arrays.late_head, arrays.late_key == EMPTY
    require(len(arrays.late_next) == count and len(head) == len(free), "the delta is torn")
    require(int((~free).sum()) == arrays.info[LATE_KEYS], "the delta's keys are miscounted")
    require(not len(free) or free.any(), "the delta's table has no free place")
    require(bool((arrays.late_next < np.arange(count)).all() and (arrays.late_next >= END).all()), "a chain goes round")
    require(not len(head) or (head.min() >= END and head.max() < count), "a chain begins outside")
    require(bool((head[free] == END).all()), "a free place has a chain")
    require(not count or (arrays.late_entry & SLOT).max() < arrays.info[SLOTS], "a late entry is not a slot")
