"""The Z-curve: where is a cell of a d-dimensional cube on one line, at any resolution?

Shen, Tirthapura & Aluru, Section IV-D, after Morton. A cube is halved along every dimension in turn, again and again;
a cell's *key* is a leading 1 followed by one bit for each halving, 0 for the lower half and 1 for the upper:

    (3, 5) = (011, 101) on an 8 × 8 grid:   bits in turn 0·1 1·0 1·1   key 1 01 10 11
                                            without the leading 1: 011011 = 27

The leading 1 says how many bits follow, so cells of all resolutions share one line of numbers: 100 is a quarter of the
square and 10000 a quarter of that quarter. After each whole round of d bits the cells are cubes; in between they are
cubes halved along some dimensions, and everything below holds for them as well.

    ancestor    key >> bits                      of a cell, that many halvings up
    range       key << more ... | ones           the keys of the finest cells inside it: consecutive on the curve

Keys are unsigned 64-bit integers: at most 63 bits follow the 1 (`grid.py`).
"""

from __future__ import annotations

import numpy as np

from earmark.curves.grid import MOST_BITS, check_grid
from earmark.flat.arrays import U64
from earmark.jit import inlined


def bits_for(dimensions: int, most: int) -> int:
    """Bits per dimension: as many as fit a key, at most `most`."""
    check_grid(dimensions, 1)
    return min(MOST_BITS // dimensions, most)


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
