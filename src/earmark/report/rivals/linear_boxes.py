"""Covering, subsumption and merging of boxes of cells, one after the other: what MICS is compared with.

mics.txt, section 7: "linear" algorithms look at every subscription of the table. Boxes are rows of low and high cells,
as `curves/space.py` makes them:

    rows    low_0 high_0 low_1 high_1 …        one row per box, in the order of arrival

    holding     some row contains a point: stop at the first ("does any match?")
    covered     some row contains the box: stop at the first
    subsumed    every cell of the box is in some row: mark the cells that each row takes, stop when all are marked
    mergeable   a row that with the box makes a box and nothing more: equal on all axes but one, where the two touch or
                overlap (or one contains the other)

Invariant: `count` rows are filled.
Complexity: O(rows) each; subsumption also O(cells of the box), which is bounded by CELLS.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from earmark.errors import EarmarkError
from earmark.flat.arrays import I64
from earmark.jit import inlined, kernel

CELLS = 1 << 16
"""A box of more cells is not marked cell by cell."""
NONE = -1


class LinearBoxes:
    """A list of boxes of cells, all of one number of axes."""

    def __init__(self, axes: int) -> None:
        self.rows: I64 = np.empty((64, 2 * axes), np.int64)
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def add(self, low: I64, high: I64) -> None:
        """Append boxes, one row each."""
        need = self.count + len(low)
        if need > len(self.rows):
            grown = np.empty((max(need, 2 * len(self.rows)), self.rows.shape[1]), np.int64)
            grown[: self.count] = self.rows[: self.count]
            self.rows = grown
        self.rows[self.count : need, 0::2], self.rows[self.count : need, 1::2] = low, high
        self.count = need

    def holding(self, points: I64) -> NDArray[np.bool_]:
        """Which of these points are inside some row."""
        return self.covered(points, points)

    def covered(self, low: I64, high: I64) -> NDArray[np.bool_]:
        """Which of these boxes lie inside one row."""
        out = np.empty(len(low), np.bool_)
        find_covered(self.rows, self.count, np.ascontiguousarray(low), np.ascontiguousarray(high), out)
        return out

    def subsumed(self, low: I64, high: I64) -> NDArray[np.bool_]:
        """Which of these boxes lie inside the union of all rows."""
        most = int(np.prod(high - low + 1, axis=1, dtype=np.float64).max(initial=0))
        if most > CELLS:
            raise EarmarkError(f"a box of {most:,} cells is too large to be marked cell by cell; at most {CELLS:,} are")
        out = np.empty(len(low), np.bool_)
        marks = np.zeros(max(most, 1), np.bool_)
        find_subsumed(self.rows, self.count, np.ascontiguousarray(low), np.ascontiguousarray(high), marks, out)
        return out

    def mergeable(self, low: I64, high: I64) -> I64:
        """For each box the first row with which it makes one box perfectly, or -1."""
        out = np.empty(len(low), np.int64)
        find_mergeable(self.rows, self.count, np.ascontiguousarray(low), np.ascontiguousarray(high), out)
        return out


@inlined
def row_contains(rows: I64, row: int, low: I64, high: I64, box: int) -> bool:
    """Whether a row contains a box; left at the first bound that fails."""
    for axis in range(low.shape[1]):
        if rows[row, 2 * axis] > low[box, axis] or rows[row, 2 * axis + 1] < high[box, axis]:
            return False
    return True


@kernel
def find_covered(rows: I64, count: int, low: I64, high: I64, out: NDArray[np.bool_]) -> None:
    """Linear covering."""
    for box in range(len(low)):
        out[box] = False
        for row in range(count):
            if row_contains(rows, row, low, high, box):
                out[box] = True
                break


@kernel
def find_subsumed(rows: I64, count: int, low: I64, high: I64, marks: NDArray[np.bool_], out: NDArray[np.bool_]) -> None:
    """Linear subsumption."""
    axes = low.shape[1]
    first, last, at = np.empty(axes, np.int64), np.empty(axes, np.int64), np.empty(axes, np.int64)
    for box in range(len(low)):
        left = 1
        for axis in range(axes):
            left *= high[box, axis] - low[box, axis] + 1
        marks[:left] = False
        for row in range(count):
            meets = True
            for axis in range(axes):
                first[axis] = max(rows[row, 2 * axis], low[box, axis])
                last[axis] = min(rows[row, 2 * axis + 1], high[box, axis])
                if first[axis] > last[axis]:
                    meets = False
                    break
            if not meets:
                continue
            at[:] = first
            while True:  # every cell that both have
                place = 0
                for axis in range(axes):
                    place = place * (high[box, axis] - low[box, axis] + 1) + at[axis] - low[box, axis]
                if not marks[place]:
                    marks[place] = True
                    left -= 1
                axis = axes - 1
                while axis >= 0 and at[axis] == last[axis]:
                    at[axis] = first[axis]
                    axis -= 1
                if axis < 0:
                    break
                at[axis] += 1
            if left == 0:
                break
        out[box] = left == 0


@kernel
def find_mergeable(rows: I64, count: int, low: I64, high: I64, out: I64) -> None:
    """Linear merging."""
    for box in range(len(low)):
        out[box] = int(NONE)
        for row in range(count):
            differ, inside, around, touch = 0, True, True, True
            for axis in range(low.shape[1]):
                begin, end = rows[row, 2 * axis], rows[row, 2 * axis + 1]
                if begin != low[box, axis] or end != high[box, axis]:
                    differ += 1
                    touch = touch and begin <= high[box, axis] + 1 and low[box, axis] <= end + 1
                    inside = inside and begin <= low[box, axis] and end >= high[box, axis]
                    around = around and begin >= low[box, axis] and end <= high[box, axis]
                if differ > 1 and not inside and not around:
                    break
            if (differ <= 1 and touch) or inside or around:
                out[box] = row
                break
