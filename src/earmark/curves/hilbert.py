"""Hilbert's curve in any number of dimensions: the number of a cell, the cell of a number, a box as ranges of numbers.

mics.txt, section 3: space is cut into 2^bits cells per axis; the curve visits each cell once, always stepping to a
neighbour, so a box of cells is a few ranges of consecutive numbers. The 8 x 8 curve of Figure 3:

    y                                         x = 4..6, y = 2..5 is
    7   21 22 25 26 37 38 41 42               [32, 35]  [45, 46]  [50, 55]
    6   20 23 24 27 36 39 40 43
    5   19 18 29 28 35 34 45 44               0 is at (0, 0), 1 at (0, 1): the first
    4   16 17 30 31 32 33 46 47               step is along the last axis
    3   15 12 11 10 53 52 51 48
    2   14 13  8  9 54 55 50 49
    1    1  2  7  6 57 56 61 62
    0    0  3  4  5 58 59 60 63
    x    0  1  2  3  4  5  6  7

A level of the curve halves every axis: its 2^d sub-cubes come in the order of a Gray code, which is mirrored
(`entry`) and turned (`turn`) by where the curve comes from. A box is decomposed by descending into the sub-cubes that
it cuts, in the order of the curve, so ranges come out sorted and neighbours join; cells are never listed.

Invariant: `cells(numbers(x)) == x`; consecutive numbers are neighbouring cells; ranges of a box are sorted, disjoint,
maximal, and hold exactly its cells.
Complexity: a number O(bits d); ranges O(2^d) for each sub-cube that the surface of the box cuts.

How many ranges a box has is the surface of the box, not its volume: `mean_ranges` says how many on average (Equation
3). Where that is too many, the box is made of larger cells: the curve of cells 2^s times as wide is the same curve s
levels up, so that a range there is a range here, shifted (`coarseness`).
"""

from __future__ import annotations

import numpy as np

from earmark.curves.grid import checked_boxes, checked_cells, checked_numbers
from earmark.errors import EarmarkError
from earmark.flat.arrays import F64, I64
from earmark.flat.machine import at, ctz64
from earmark.jit import inlined, kernel

MOST_DIMENSIONS = 20
"""The most dimensions in which a box is decomposed: every cube has 2^d parts."""


def numbers(cells: I64, bits: int) -> I64:
    """The number on the curve of each cell (rows of coordinates below 2^bits)."""
    return number_cells(checked_cells(cells, bits), bits)


def cells(numbers: I64, dimensions: int, bits: int) -> I64:
    """The cell of each number: rows of coordinates."""
    return cell_numbers(checked_numbers(numbers, dimensions, bits), dimensions, bits)


def ranges(low: I64, high: I64, bits: int) -> tuple[I64, I64, I64]:
    """The maximal ranges of numbers of each box of cells, low..high inclusive: (start, first, last).

    Those of box b are at start[b] .. start[b + 1], ascending.
    """
    low, high = checked_boxes(low, high, bits)
    if low.shape[1] > MOST_DIMENSIONS:
        raise EarmarkError(f"expected boxes of at most {MOST_DIMENSIONS} dimensions, got {low.shape[1]}")
    return decompose_boxes(low, high, bits)


def mean_ranges(low: I64, high: I64) -> F64:
    """Equation (3): how many ranges a box with these sides has on average. Float, so that nothing overflows."""
    sides = np.maximum(high - low + 1, 1).astype(np.float64)
    mean: F64 = (sides.prod(axis=1)[:, None] / sides).sum(axis=1) / sides.shape[1]
    return mean


def coarseness(low: I64, high: I64, bits: int, most: float) -> I64:
    """Bits by which the cells of each box are enlarged, so that by Equation (3) it has at most `most` ranges."""
    shift = np.zeros(len(low), np.int64)
    for s in range(bits):
        many = shift == s
        if not many.any():
            break
        shift[many] += mean_ranges(low[many] >> s, high[many] >> s) > most
    return shift


# --- one level of the curve ----------------------------------------------------------------------------------


@inlined
def rotated(word: int, by: int, d: int) -> int:
    """The lowest d bits rotated left, `by` < d."""
    return ((word << by) | (word >> (d - by))) & ((1 << d) - 1)


@inlined
def ungray(code: int) -> int:
    """The place of a word in the Gray code."""
    place = code
    shift = 1
    while code >> shift:
        place ^= code >> shift
        shift += 1
    return place


@inlined
def label_of(place: int, entry: int, turn: int, d: int) -> int:
    """The sub-cube at a place of the order: bit j says which half of axis j."""
    return rotated(place ^ (place >> 1), (turn + 1) % d, d) ^ entry


@inlined
def place_of(label: int, entry: int, turn: int, d: int) -> int:
    """Where a sub-cube comes in the order."""
    return ungray(rotated(label ^ entry, (2 * d - turn - 1) % d, d))


@inlined
def next_entry(place: int, entry: int, turn: int, d: int) -> int:
    """How the curve inside the sub-cube at a place is mirrored."""
    before = ((place - 1) >> 1) << 1
    corner = 0 if place == 0 else before ^ (before >> 1)
    return entry ^ rotated(corner, (turn + 1) % d, d)


@inlined
def next_turn(place: int, turn: int, d: int) -> int:
    """How the curve inside the sub-cube at a place is turned."""
    axis = 0 if place == 0 else ctz64(~np.uint64(place if place & 1 else place - 1))  # trailing ones
    return (turn + axis + 1) % d


# --- cells and numbers ---------------------------------------------------------------------------------------


@kernel
def number_cells(cells: I64, bits: int) -> I64:
    """The number of each cell."""
    out = np.empty(len(cells), np.int64)
    for i in range(len(cells)):
        out[i] = number_of(cells[i], bits)
    return out


@inlined
def number_of(cell: I64, bits: int) -> int:
    """The number of a cell."""
    d = len(cell)
    number, entry, turn = 0, 0, 0
    for level in range(bits - 1, -1, -1):
        label = 0
        for j in range(d):
            label |= ((at(cell, j) >> level) & 1) << j
        place = place_of(label, entry, turn, d)
        number = (number << d) | place
        entry, turn = next_entry(place, entry, turn, d), next_turn(place, turn, d)
    return number


@kernel
def cell_numbers(numbers: I64, d: int, bits: int) -> I64:
    """The cell of each number."""
    out = np.zeros((len(numbers), d), np.int64)
    for i in range(len(numbers)):
        entry, turn = 0, 0
        for level in range(bits - 1, -1, -1):
            place = (numbers[i] >> (d * level)) & ((1 << d) - 1)
            label = label_of(place, entry, turn, d)
            for j in range(d):
                out[i, j] |= ((label >> j) & 1) << level
            entry, turn = next_entry(place, entry, turn, d), next_turn(place, turn, d)
    return out


# --- boxes as ranges -----------------------------------------------------------------------------------------


@kernel
def decompose_boxes(low: I64, high: I64, bits: int) -> tuple[I64, I64, I64]:
    """The ranges of boxes: (start, first, last)."""
    corner, levels = np.empty((bits + 1, low.shape[1]), np.int64), np.empty((2, bits + 1, 4), np.int64)
    start, room = np.zeros(len(low) + 1, np.int64), max(64, 8 * len(low))
    first, last, box, found = np.empty(room, np.int64), np.empty(room, np.int64), 0, 0
    while box < len(low):
        if not is_cell(low[box], high[box]):
            found = decompose(low[box], high[box], bits, corner, levels, start[box], first, last)
        elif found < len(first):
            first[found] = last[found] = number_of(low[box], bits)
            found += 1
        else:
            found = -1
        if found < 0:  # no room: again, with more
            first, last = np.concatenate((first, first)), np.concatenate((last, last))
            found = start[box]
        else:
            box += 1
            start[box] = found
    return start, first[:found], last[:found]


@inlined
def is_cell(low: I64, high: I64) -> bool:
    """Whether a box is a single cell, for which nothing needs to be descended into."""
    for j in range(len(low)):  # noqa: SIM110 - kernels have no generators
        if low[j] != high[j]:
            return False
    return True


PREFIX, ENTRY, TURN, PLACE = 0, 1, 2, 3
"""Columns of `state`, for each level: the number so far, how the curve is mirrored and turned, the next place."""
MEETS_LOW, MEETS_HIGH, INSIDE_LOW, INSIDE_HIGH = 0, 1, 2, 3
"""Columns of `halves`, one bit per axis: does the box meet the lower (upper) half of the cube, is it inside the box?"""


@inlined
def decompose(low: I64, high: I64, bits: int, corner: I64, levels: I64, found: int, first: I64, last: I64) -> int:
    """Append the ranges of one box after the `found` there are; the new count, or -1 when there is no room.

    `levels` has room for `state` and `halves`.
    """
    d, state, halves = len(low), levels[0], levels[1]
    begun = found
    level = bits - 1
    corner[level, :] = 0
    state[level, :] = 0
    cut_halves(low, high, corner[level], level, halves[level])
    while level < bits:
        place = state[level, PLACE]
        if place == 1 << d:
            level += 1
            continue
        state[level, PLACE] = place + 1
        label = label_of(place, state[level, ENTRY], state[level, TURN], d)
        if (~label & ~halves[level, MEETS_LOW] | label & ~halves[level, MEETS_HIGH]) & ((1 << d) - 1):
            continue
        number = (state[level, PREFIX] << d) | place
        if level == 0 or not (
            (~label & ~halves[level, INSIDE_LOW] | label & ~halves[level, INSIDE_HIGH]) & ((1 << d) - 1)
        ):
            begin, end = number << (d * level), (number << (d * level)) + ((1 << (d * level)) - 1)
            if found > begun and last[found - 1] + 1 == begin:
                last[found - 1] = end
            elif found == len(first):
                return -1
            else:
                first[found], last[found] = begin, end
                found += 1
            continue
        below = level - 1
        state[below, PREFIX], state[below, PLACE] = number, 0
        state[below, ENTRY] = next_entry(place, state[level, ENTRY], state[level, TURN], d)
        state[below, TURN] = next_turn(place, state[level, TURN], d)
        for j in range(d):
            corner[below, j] = corner[level, j] | (((label >> j) & 1) << level)
        cut_halves(low, high, corner[below], below, halves[below])
        level = below
    return found


@inlined
def cut_halves(low: I64, high: I64, corner: I64, level: int, halves: I64) -> None:
    """How the box meets the two halves of a cube on every axis."""
    halves[:] = 0
    for j in range(len(low)):
        begin, middle, end = corner[j], corner[j] + (1 << level), corner[j] + ((2 << level) - 1)
        bit = 1 << j
        if low[j] < middle:
            halves[MEETS_LOW] |= bit
        if high[j] >= middle:
            halves[MEETS_HIGH] |= bit
        if low[j] <= begin and high[j] >= middle - 1:
            halves[INSIDE_LOW] |= bit
        if low[j] <= middle and high[j] >= end:
            halves[INSIDE_HIGH] |= bit
