"""The kernels that look subscriptions up instead of events: whose boxes of cells meet this one's, and whose hold it?

mics.txt, section 5: the lists that lead an event to its subscriptions lead a subscription to the others. What covers it
or is covered by it, what subsumes it with others or could be merged with it, has an event in common with it, and so a
cell of its box.

    meeting    the ranges of the boxes are looked up, as for an event with intervals (`search.py`)
    holding    who contains a clause contains the first cell of its box: one number is looked up, one chain of blocks

Either way the sieve is asked before a slot is marked, with the clause's cells in place of an event's. It compares `low`
with the highest cells of an entry and `high` with its lowest:

    meeting    low = the clause's lowest cells,  high = its highest       do the two overlap?
    holding    low = the clause's highest cells, high = its lowest        does the entry reach as far on both sides?

Slots that are scanned are marked too. What is marked (`marks.py`) is read off in ascending order, once each.

Invariant: scratch is all zeros between questions.
Complexity: O(ranges of the boxes log blocks + entries in the lists found + slots / 4096).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.curves.hilbert import number_of
from earmark.curves.space import Space, clause_boxes
from earmark.flat.arrays import I32, I64, U64
from earmark.flat.machine import at, ctz64, popcount64
from earmark.index.marks import MAYBE, mark, words_of
from earmark.index.mics.arrays import NO_BLOCK, MicsArrays, field_tops, field_width
from earmark.index.mics.search import (
    MOST_RANGES,
    Sieved,
    cover_box,
    last_before,
    mark_list,
    mark_range,
    smallest_around,
)
from earmark.jit import inlined, kernel
from earmark.segment.arrays import SegmentArrays


class Question(NamedTuple):
    """A subscription that is looked up, a slot of some table; the sieve; who is eligible, and who is scanned."""

    table: SegmentArrays
    slot: int
    sieve: Space
    eligible: U64
    scanned: I32


@kernel
def find_meeting(index: MicsArrays, question: Question, scratch: U64, out: I32, work: I64) -> int:
    """Eligible slots whose boxes meet one of this slot's, and those that are scanned; returns as `read_marked` does."""
    table, sieve, slot = question.table, question.sieve, question.slot
    words = words_of(scratch)
    space = Space(index.attr, index.axis_of, index.cut_start, index.cuts, index.bits)
    axes, bits = len(index.attr), index.bits[0]
    clause, box, fields = np.empty(1, np.int64), np.empty((4, axes), np.int64), np.empty((2, len(sieve.attr)), np.int64)
    corner, levels = np.empty((bits + 1, axes), np.int64), np.empty((2, bits + 1, 4), np.int64)
    ranges = np.empty((2, int(MOST_RANGES)), np.int64)
    tops = field_tops(len(sieve.attr))
    some = False
    for one in range(at(table.clause_start, slot), at(table.clause_start, slot + 1)):
        clause[0] = one
        if not has_cells(table, space, sieve, clause, box, fields):
            continue
        some = True
        if len(index.code):
            cells = Sieved(len(sieve.attr) > 0, packed(fields[0]), packed(fields[1]) | tops, tops)
            for i in range(cover_box(box, bits, corner, levels, ranges)):
                mark_range(index, ranges[0, i], ranges[1, i], cells, scratch, words, work)
    if some:
        mark_slots(question.scanned, scratch, words)
    return read_marked(scratch, words, question.eligible, out)


@kernel
def find_holding(index: MicsArrays, question: Question, scratch: U64, out: I32, work: I64) -> int:
    """Eligible slots with a box that may hold that of this slot's first clause, and those that are scanned."""
    table, sieve, slot = question.table, question.sieve, question.slot
    words = words_of(scratch)
    space = Space(index.attr, index.axis_of, index.cut_start, index.cuts, index.bits)
    clause, box, fields = (
        np.empty(1, np.int64),
        np.empty((2, len(index.attr)), np.int64),
        np.empty((2, len(sieve.attr)), np.int64),
    )
    tops = field_tops(len(sieve.attr))
    if at(table.clause_start, slot) < at(table.clause_start, slot + 1):
        clause[0] = at(table.clause_start, slot)
        if has_cells(table, space, sieve, clause, box, fields):
            if len(index.code):
                cells = Sieved(len(sieve.attr) > 0, packed(fields[1]), packed(fields[0]) | tops, tops)
                number = number_of(box[0], index.bits[0])
                block = smallest_around(index, last_before(index, number), number)
                while block != int(NO_BLOCK):
                    mark_list(index, block, cells, scratch, words, work)
                    block = at(index.parent, block)
            mark_slots(question.scanned, scratch, words)
    return read_marked(scratch, words, question.eligible, out)


@inlined
def has_cells(table: SegmentArrays, space: Space, sieve: Space, clause: I64, box: I64, fields: I64) -> bool:
    """Find the cells of a clause on the axes of both spaces, low ones into row 0 and high ones into row 1."""
    clause_boxes(space, table, clause, box[0:1], box[1:2])
    clause_boxes(sieve, table, clause, fields[0:1], fields[1:2])
    return not is_empty(box) and not is_empty(fields)


@inlined
def mark_slots(slots: I32, scratch: U64, words: int) -> None:
    """Mark these."""
    for i in range(len(slots)):
        mark(scratch, words, int(at(slots, i)) | int(MAYBE), True)


@inlined
def is_empty(box: I64) -> bool:
    """Whether a box, low cells in row 0 and high ones in row 1, has no cell."""
    for axis in range(box.shape[1]):  # noqa: SIM110 - kernels have no generators
        if box[0, axis] > box[1, axis]:
            return True
    return False


@inlined
def packed(cells: I64) -> np.uint64:
    """A word of the sieve: a field for each cell, the first lowest."""
    word = np.uint64(0)
    width = field_width(len(cells))
    for axis in range(len(cells)):
        word |= np.uint64(cells[axis]) << np.uint64(width * axis)
    return word


@inlined
def read_marked(scratch: U64, words: int, eligible: U64, out: I32) -> int:
    """Write the marked slots that are eligible, ascending, and make scratch zero again; returns how many there are.

    Where `out` may be too small, nothing is written, and ~n is returned where room for n is enough.
    """
    marked = 0
    for group in range((words + 63) >> 6):
        used = at(scratch, 2 * words + group)
        while used:
            marked += popcount64(at(scratch, words + (group << 6) + ctz64(used)))
            used &= used - np.uint64(1)
    found = 0
    for group in range((words + 63) >> 6):
        used = at(scratch, 2 * words + group)
        scratch[2 * words + group] = 0
        while used:
            word = (group << 6) + ctz64(used)
            used &= used - np.uint64(1)
            left = at(scratch, words + word)
            scratch[words + word] = 0
            if marked > len(out) or word >= len(eligible):
                continue
            left &= at(eligible, word)
            while left:
                out[found] = (word << 6) + ctz64(left)
                found += 1
                left &= left - np.uint64(1)
    return found if marked <= len(out) else ~marked
