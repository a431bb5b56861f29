"""What is a cell? What every curve through a grid of cells shares: how fine a grid may be, and what lies on it.

A grid of d dimensions has 2^bits cells on each, numbered from 0. A curve gives a cell one number of d * bits bits, and
numbers are 64-bit integers of which one bit is spent otherwise: Hilbert's curve keeps them signed, the Z-curve puts a
leading 1 before them.

    2 dimensions of 3 bits      cells (0, 0) to (7, 7)      6 bits      numbers 0 to 63

Both curves halve every axis again and again, and differ in the order of the halves (`hilbert.py`, `morton.py`). A box
is made into numbers in different ways, too: Hilbert's curve descends into all 2^d parts of a cube at once, for the few
dimensions of a space; who searches along the Z-curve (`cover/z_curve.py`) halves one axis at a time, in up to 32.

Invariant: what passes a check here fits the arithmetic of the kernels; they look no more.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from earmark.errors import EarmarkError
from earmark.flat.types import I64

MOST_BITS = 63
"""Dimensions times bits of a grid, at the most."""


def check_grid(dimensions: int, bits: int, fewest: int = 1) -> None:
    """Raise unless cells of so many dimensions, 2^bits on each, have numbers; `fewest` bits make sense to a curve."""
    if not isinstance(bits, Integral) or dimensions < 1 or bits < fewest or dimensions * bits > MOST_BITS:
        raise EarmarkError(
            f"a curve over {dimensions} dimensions of {bits} bits is not possible: there is at least 1 dimension, of "
            f"at least {fewest} bits, and their product is at most {MOST_BITS}"
        )


def checked_cells(cells: Any, bits: int, fewest: int = 1) -> I64:
    """Rows of coordinates as an array, each of them on a grid of 2^bits cells a dimension."""
    cells = whole_numbers(cells, f"a coordinate of a cell is 0 to 2^{bits} - 1")
    if cells.ndim != 2:
        raise EarmarkError("cells are rows of coordinates, one column a dimension")
    check_grid(cells.shape[1], bits, fewest)
    if cells.size and not (cells.min() >= 0 and int(cells.max()) >> bits == 0):
        raise EarmarkError(f"a coordinate of a cell is 0 to 2^{bits} - 1")
    made: I64 = cells
    return made


def checked_boxes(low: Any, high: Any, bits: int) -> tuple[I64, I64]:
    """Boxes of cells, both corners included: rows of the low corners and of the high ones."""
    low, high = checked_cells(low, bits), checked_cells(high, bits)
    if low.shape != high.shape or (low > high).any():
        raise EarmarkError("a box has as many low as high coordinates, and none of its low ones is above the high one")
    return low, high


def checked_numbers(numbers: Any, dimensions: int, bits: int) -> I64:
    """Numbers of cells as an array."""
    check_grid(dimensions, bits)
    right = f"a number on this curve is 0 to 2^{dimensions * bits} - 1"
    made = whole_numbers(numbers, right)
    if made.ndim != 1:
        raise EarmarkError("numbers on a curve are a row of whole numbers")
    if len(made) and not (made.min() >= 0 and int(made.max()) >> (dimensions * bits) == 0):
        raise EarmarkError(right)
    return made


def whole_numbers(values: Any, right: str) -> I64:
    """Values as an array of 64-bit integers; otherwise raise, and say what would be right."""
    try:
        array = np.asarray(values)
        whole = not array.size or (array.dtype.kind in "iu" and int(array.max()) < 1 << 63)
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise EarmarkError(f"{right}, a whole number")
    made: I64 = np.ascontiguousarray(array, np.int64)
    return made
