"""Exact answers that contenders are compared with: numpy over all boxes, without an index and without a kernel.

    Scan         which boxes cover a box, are covered by it, meet it, or make one box with it: column by column, keeping
                 the boxes that are left
    forwarded    what a broker has forwarded at the end of a stream (relation_graph.py), by such scans
    first_asked  which subscriptions are the first to ask for some cell: what is forwarded with subsumption
    taken        which boxes ask for no cell that others do not: what is covered or subsumed
    runs         boxes as ranges of the curve, from the numbers of all their cells; `runs_of_each` box by box

One box covers another if it contains it; of two that are equal, the earlier one covers the later.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from earmark.curves import hilbert
from earmark.flat.arrays import I64, Flags
from earmark.workload.rectangles import Commands

MARKED = 1 << 25
"""Cells of a space that are marked one by one; those of a larger one are sorted."""


class Scan:
    """Boxes by number, each compared with one box at a time."""

    def __init__(self, low: I64, high: I64) -> None:
        self._low, self._high = np.ascontiguousarray(low.T), np.ascontiguousarray(high.T)

    def covering(self, box: int, of: int | None = None) -> I64:
        """Return which boxes cover one of them; only the first `of`."""
        low, high = self._low[:, box], self._high[:, box]
        found = self._kept(low, high, self._low, self._high, of)
        kept: I64 = found[~self._equal(found, box) | (found < box)]
        return kept

    def covered(self, box: int) -> I64:
        """Return which boxes one of them covers."""
        low, high = self._low[:, box], self._high[:, box]
        found = self._kept(-low, -high, -self._low, -self._high)
        kept: I64 = found[~self._equal(found, box) | (found > box)]
        return kept

    def meeting(self, low: I64, high: I64) -> I64:
        """Return which boxes share a point with a box."""
        return self._kept(high, low, self._low, self._high)

    def partners(self, box: int) -> I64:
        """Return with which others a box makes one box and nothing more: one contains the other, or they differ on one
        axis, on which they touch or overlap."""
        low, high = self._low[:, box, None], self._high[:, box, None]
        near = self._kept(high[:, 0] + 1, low[:, 0] - 1, self._low, self._high)
        near = near[near != box]
        lows, highs = self._low[:, near], self._high[:, near]
        once = ((lows != low) | (highs != high)).sum(axis=0) <= 1
        around = ((lows <= low) & (highs >= high)).all(axis=0)
        inside = ((lows >= low) & (highs <= high)).all(axis=0)
        partners: I64 = near[once | around | inside]
        return partners

    def _equal(self, found: I64, box: int) -> Flags:
        low, high = self._low[:, box, None], self._high[:, box, None]
        equal: Flags = ((self._low[:, found] == low) & (self._high[:, found] == high)).all(axis=0)
        return equal

    @staticmethod
    def _kept(low: I64, high: I64, lows: I64, highs: I64, of: int | None = None) -> I64:
        """Return the boxes that begin at or before `low` and end at or after `high` on every axis."""
        found: I64 = np.flatnonzero(lows[0, :of] <= low[0])
        found = found[highs[0, found] >= high[0]]
        for axis in range(1, len(lows)):
            found = found[lows[axis, found] <= low[axis]]
            found = found[highs[axis, found] >= high[axis]]
        return found


def forwarded(commands: Commands) -> frozenset[int]:
    """Return what is forwarded at the end of a stream of commands.

    That is what nothing alive covered when it came, or when the last that covered it went; which of those that cover it
    an index reports plays no part. For each of the others one is kept that covers it and is alive.
    """
    scan, alive = Scan(commands.lo, commands.hi), np.zeros(len(commands.lo), bool)
    out: set[int] = set()
    above: dict[int, int] = {}
    below: dict[int, list[int]] = {}
    arrived = 0
    for subscribes, slot in zip(commands.subscribes.tolist(), commands.slot.tolist(), strict=True):
        alive[slot] = subscribes
        if subscribes:
            arrived, asked = slot + 1, [slot]
        else:
            out.discard(slot)
            above.pop(slot, None)
            asked = [other for other in below.pop(slot, []) if above.get(other) == slot]
        for one in asked:
            covering = scan.covering(one, of=arrived)
            covering = covering[alive[covering]]
            if len(covering):
                above[one] = int(covering[0])
                below.setdefault(above[one], []).append(one)
            else:
                above.pop(one, None)
                out.add(one)
    return frozenset(out)


# --- cells ----------------------------------------------------------------------------------------------------------


def _cells(low: I64, high: I64) -> Iterator[tuple[Flags, I64]]:
    """Yield one cell of each box after another: which boxes have as many, and these cells."""
    for offset in product(*(range(width) for width in (high - low + 1).max(axis=0).tolist())):
        cell = low + np.array(offset)
        inside = (cell <= high).all(axis=1)
        yield inside, cell[inside]


def first_asked(low: I64, high: I64, side: int) -> Flags:
    """Return which boxes have a cell that no earlier one has; cells are 0 to side - 1 on each axis."""
    weights, count = side ** np.arange(low.shape[1])[::-1], len(low)
    boxes = np.arange(count)
    keys = np.concatenate([cell @ weights * count + boxes[inside] for inside, cell in _cells(low, high)])
    keys.sort()
    cells = keys // count
    first = np.append(True, cells[1:] != cells[:-1])
    out: Flags = np.zeros(count, bool)
    out[keys[first] % count] = True
    return out


def taken(low: I64, high: I64, asked: tuple[I64, I64], side: int) -> Flags:
    """Return which of the boxes asked about have only cells that some of the boxes has."""
    weights = side ** np.arange(low.shape[1])[::-1]
    cells = np.unique(np.concatenate([cell @ weights for _, cell in _cells(low, high)]))
    out: Flags = np.ones(len(asked[0]), bool)
    for inside, cell in _cells(*asked):
        out[inside] &= np.isin(cell @ weights, cells)
    return out


def runs(low: I64, high: I64, bits: int) -> tuple[I64, I64]:
    """Return what all boxes ask for together, as the first and last numbers of ranges of the curve."""
    dimensions, side = low.shape[1], 1 << bits
    if side**dimensions <= MARKED:
        marks = np.zeros((side,) * dimensions, bool)
        for _, cell in _cells(low, high):
            marks[tuple(cell.T)] = True
        numbers = np.sort(hilbert.numbers(np.argwhere(marks), bits))
    else:
        numbers = np.unique(np.concatenate([hilbert.numbers(cell, bits) for _, cell in _cells(low, high)]))
    begins = np.append(True, numbers[1:] > numbers[:-1] + 1)
    return numbers[begins], numbers[np.append(begins[1:], True)]


def runs_of_each(low: I64, high: I64, bits: int) -> tuple[I64, I64, I64]:
    """Return the ranges of each box: those of box b are at start[b] .. start[b + 1]."""
    shift = bits * low.shape[1]
    boxes = np.arange(len(low)) << shift
    keys = np.concatenate([boxes[inside] | hilbert.numbers(cell, bits) for inside, cell in _cells(low, high)])
    keys.sort()
    owner = keys >> shift
    begins = np.append(True, (keys[1:] != keys[:-1] + 1) | (owner[1:] != owner[:-1]))
    numbers = keys & ((1 << shift) - 1)
    start = np.searchsorted(owner[begins], np.arange(len(low) + 1))
    return start, numbers[begins], numbers[np.append(begins[1:], True)]
