"""Covering by looking at every rectangle: what the indexes of Shen, Tirthapura & Aluru are compared with.

`Rows` is the paper's *naive* algorithm, compiled: row by row, and a row is left at the first bound that fails.
`Vectors` is a harder rival: 64 rows are compared at a time. Both swap the last row into the place of one that goes.
"""

from __future__ import annotations

import numpy as np

from earmark.cover.indexes.members import COMPARISONS, Members
from earmark.flat.arrays import I32, I64
from earmark.flat.machine import at, ctz64
from earmark.index.blocks.dominance import LANES, at_least64, lanes_below
from earmark.jit import kernel
from earmark.segment.arrays import SegmentArrays


class Rows(Members):
    """Rectangles of all attributes as rows of bounds, swapped with the last one when they go."""

    def __init__(self, table: SegmentArrays) -> None:
        super().__init__(table)
        self.width = int(table.constraint_start[1])
        self.bounds = np.stack([table.lo, table.hi], axis=1).reshape(-1, 2 * self.width)
        self.rows = np.empty((1024, 2 * self.width), np.int64)
        self.row_slot = np.empty(1024, np.int32)
        self.place: dict[int, int] = {}

    def _put(self, slots: list[int]) -> None:
        for slot in slots:
            if len(self.place) == len(self.row_slot):
                self.rows = np.concatenate([self.rows, np.empty_like(self.rows)])
                self.row_slot = np.concatenate([self.row_slot, np.empty_like(self.row_slot)])
            row = self.place[slot] = len(self.place)
            self.rows[row], self.row_slot[row] = self.bounds[slot], slot

    def _take(self, slots: list[int]) -> None:
        for slot in slots:
            row, last = self.place.pop(slot), len(self.place)
            if row != last:
                self.rows[row], self.row_slot[row] = self.rows[last], self.row_slot[last]
                self.place[int(self.row_slot[row])] = row

    def _search(self, slot: int, k: int, counters: I64) -> I32:
        out = np.empty(k, np.int32)
        query = self.bounds[slot]
        return out[: scan_rows(self.rows, self.row_slot, len(self.place), self.width, slot, query, out, counters)]


@kernel
def scan_rows(rows: I64, slots: I32, count: int, width: int, slot: int, query: I64, out: I32, counters: I64) -> int:
    """Row by row; a row is left at the first bound that fails. Equal rectangles: the lower slot is the older."""
    found = 0
    for row in range(count):
        inside = True
        for attr in range(width):
            if rows[row, 2 * attr] > query[2 * attr] or rows[row, 2 * attr + 1] < query[2 * attr + 1]:
                inside = False
                break
        if inside and slots[row] != slot:
            same = True
            for column in range(2 * width):
                same = same and rows[row, column] == query[column]
            if not same or slots[row] < slot:
                out[found] = slots[row]
                found += 1
                if found == len(out):
                    counters[COMPARISONS] += row + 1
                    return found
    counters[COMPARISONS] += count
    return found


class Vectors(Rows):
    """The same rows in blocks of 64, column by column, int32, compared with vectors: the harder rival."""

    def __init__(self, table: SegmentArrays) -> None:
        super().__init__(table)
        self.points = np.where(np.arange(2 * self.width) % 2 == 0, -self.bounds, self.bounds).astype(np.int32)
        self.blocks = np.empty((16, 2 * self.width, LANES), np.int32)
        self.row_slot = np.empty(16 * LANES, np.int32)

    def _put(self, slots: list[int]) -> None:
        for slot in slots:
            if len(self.place) == len(self.row_slot):
                self.blocks = np.concatenate([self.blocks, np.empty_like(self.blocks)])
                self.row_slot = np.concatenate([self.row_slot, np.empty_like(self.row_slot)])
            row = self.place[slot] = len(self.place)
            self.blocks[row // LANES, :, row % LANES], self.row_slot[row] = self.points[slot], slot

    def _take(self, slots: list[int]) -> None:
        for slot in slots:
            row, last = self.place.pop(slot), len(self.place)
            if row != last:
                self.blocks[row // LANES, :, row % LANES] = self.blocks[last // LANES, :, last % LANES]
                self.row_slot[row] = self.row_slot[last]
                self.place[int(self.row_slot[row])] = row

    def _search(self, slot: int, k: int, counters: I64) -> I32:
        out = np.empty(k, np.int32)
        flat = self.blocks.reshape(-1)
        return out[
            : scan_blocks(flat, self.row_slot, len(self.place), self.width, slot, self.points[slot], out, counters)
        ]


@kernel
def scan_blocks(blocks: I32, slots: I32, count: int, width: int, slot: int, query: I32, out: I32, counters: I64) -> int:
    """Block by block, 64 rows at once; a block is left when no row is left in it. No two rectangles are equal."""
    found, columns = 0, 2 * width
    for block in range((count + LANES - 1) // LANES):
        mask = lanes_below(min(count - block * LANES, LANES))
        for column in range(columns):
            mask &= at_least64(blocks, (block * columns + column) * LANES, query[column])  # type: ignore[arg-type]
            if mask == np.uint64(0):
                break
        while mask != np.uint64(0) and found < len(out):
            other = at(slots, block * LANES + ctz64(mask))
            mask &= mask - np.uint64(1)
            if other != slot:
                out[found] = other
                found += 1
        if found == len(out):
            break
    counters[COMPARISONS] += count
    return found
