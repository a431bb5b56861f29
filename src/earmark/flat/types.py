"""Element types of the flat arrays that kernels read."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]
Flags = NDArray[np.bool_]
A = TypeVar("A", bound=NDArray[Any])


def pointers_of(counts: ArrayLike) -> I64:
    """Where rows of these lengths begin in one array, and where the last one ends: [0, counts[0], ...].

    >>> pointers_of([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    return np.append(0, np.cumsum(counts, dtype=np.int64))


def grown(array: A, length: int, value: int = 0) -> A:
    """A longer array that begins like this one and goes on with a value."""
    made = np.full(length, value, array.dtype)
    made[: len(array)] = array
    return made  # type: ignore[return-value]


def frozen(array: A) -> A:
    """The same array, read-only: kernels compile once for read-only arrays, mapped files included."""
    array.flags.writeable = False
    return array
