"""Binary search in a sorted part of an array, for kernels: `bisect` of the standard library, with its names."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from earmark.flat.machine import at
from earmark.jit import inlined


@inlined
def bisect_left(values: NDArray[Any], begin: int, end: int, key: Any) -> int:
    """The first place of begin..end whose value is at least `key`, or `end`. O(log n)."""
    while begin < end:
        middle = (begin + end) >> 1
        if at(values, middle) < key:
            begin = middle + 1
        else:
            end = middle
    return begin


@inlined
def bisect_right(values: NDArray[Any], begin: int, end: int, key: Any) -> int:
    """The first place of begin..end whose value is above `key`, or `end`. O(log n)."""
    while begin < end:
        middle = (begin + end) >> 1
        if at(values, middle) <= key:
            begin = middle + 1
        else:
            end = middle
    return begin
