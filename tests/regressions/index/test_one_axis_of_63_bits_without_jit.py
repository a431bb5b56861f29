"""The end of a cube of 2^63 cells is one beyond int64: compiled code wrapped around, plain Python raised."""

from __future__ import annotations

from typing import Any

import numpy as np

from earmark.curves import hilbert


def test_the_upper_half_of_the_longest_axis() -> None:
    plain: Any = getattr(hilbert.cut_halves, "py_func", hilbert.cut_halves)
    top, middle = 2**63 - 1, 2**62
    for low, high, wanted in ((0, top, [1, 1, 1, 1]), (middle, top, [0, 1, 0, 1]), (5, middle - 1, [1, 0, 0, 0])):
        halves = np.empty(4, np.int64)
        ends = (np.array([end], np.int64) for end in (low, high, 0))
        plain(*ends, 62, halves)
        assert halves.tolist() == wanted
