"""What every curve through a grid of cells shares: how fine a grid may be, and which cells and numbers it has.

A grid of d dimensions has 2^bits cells on each, numbered from 0. A curve gives a cell one number of d * bits bits.
Numbers are 64-bit integers of which one bit has another use: Hilbert's curve keeps them signed, the Z-curve puts a
leading 1 before them.

    2 dimensions of 3 bits      cells (0, 0) to (7, 7)      6 bits      numbers 0 to 63

Both curves (`hilbert.py`, `cover/indexes/z_curve.py`) halve every axis again and again, and differ in the order of the
halves. A box becomes numbers in different ways, too: Hilbert's curve descends into all 2^d parts of a cube at once, for
the few dimensions of a space; a search along the Z-curve halves one axis at a time, in up to 32.

Invariant: what passes a check here fits the arithmetic of the kernels, which do not check again.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from earmark.errors import EarmarkError
from earmark.flat.arrays import I64

MOST_BITS = 63
"""The most that dimensions times bits of a grid can be."""


def check_grid(dimensions: int, bits: int) -> None:
    """Raise unless the cells of a grid with these dimensions, 2^bits cells on each, have numbers."""
    if not isinstance(bits, Integral) or dimensions < 1 or bits < 1 or dimensions * bits > MOST_BITS:
        raise EarmarkError(
            f"expected at least 1 dimension of at least 1 bit, and at most {MOST_BITS} bits in all, got {dimensions} "
            f"dimensions of {bits} bits"
        )


def checked_cells(cells: Any, bits: int) -> I64:
    """Check rows of coordinates on a grid of 2^bits cells per dimension; returns them as an array."""
    array = _array(cells)
    if array.ndim == 2:
        check_grid(array.shape[1], bits)
    return _checked(array, 2, bits, "rows of coordinates")


def checked_boxes(low: Any, high: Any, bits: int) -> tuple[I64, I64]:
    """Check boxes of cells, given by rows of their low corners and of their high ones, both included."""
    low, high = checked_cells(low, bits), checked_cells(high, bits)
    if low.shape != high.shape or (low > high).any():
        raise EarmarkError("expected as many low as high corners, and no low coordinate above its high one")
    return low, high


def checked_numbers(numbers: Any, dimensions: int, bits: int) -> I64:
    """Check numbers of cells on a curve; returns them as an array."""
    check_grid(dimensions, bits)
    return _checked(_array(numbers), 1, dimensions * bits, "a row of numbers")


def _array(values: Any) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        return np.array(None)  # which no check accepts


def _checked(array: NDArray[Any], axes: int, bits: int, what: str) -> I64:
    """An array with this many axes of integers of this many bits; otherwise raise."""
    good = not array.size or (array.dtype.kind in "iu" and array.min() >= 0 and int(array.max()) >> bits == 0)
    if not good or array.ndim != axes:
        raise EarmarkError(f"expected {what}, integers from 0 to 2^{bits} - 1")
    checked: I64 = np.ascontiguousarray(array, np.int64)
    return checked
