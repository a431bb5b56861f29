"""The kernels that look things up: from an event or a subscription to cells, from cells to blocks, to answers.

mics.txt, sections 4.3 and 5. Algorithm 2 looks one number up; here the look-up gives the last block that begins at or
before the number, and its chain of parents has all the blocks that hold it:

    event -> cell (3, 2) -> number 9 -> jump, binary search -> block 9      -> its parent 8..9 -> no more
                                                               slots 0 and 2   slot 1             each verified

An event with an interval on an axis is a box of cells, and its ranges are looked up: the chain of each range's first
number, and all blocks that begin inside it. A slot can then be found more than once, so what is found is first marked
(`marks.py`), and verified when all is.

**Subscriptions** are looked up in the same lists. What covers one or is covered by it, and what subsumes it with
others, has an event in common with it, and so a cell of its box. What merges with it perfectly need not: it may begin
where the box ends, or be elsewhere on one attribute, but on every other attribute it takes the same.

    meeting    the ranges of the boxes are looked up, as for an event with intervals
    holding    who contains a clause contains the first cell of its box: one number is looked up, one chain of blocks
    aligned    the ranges of the box, and for each axis those of the box without a limit there (a slab)

       . . . . . . . .     q    the box that is looked up
       . . . . . . . .     m    touches it: the union is a box, though the two share no cell
       . . q q m m . .     p    the same rows, elsewhere on the other axis: the union is one condition, with IN or OR
       p . q q m m . .     meeting looks at q alone, aligned also at the slabs above, below, left and right of it

In each case the sieve is asked before a slot is marked, with the clause's cells in place of an event's. It compares
`low` with the highest cells of an entry and `high` with its lowest:

    meeting    low = the clause's lowest cells,  high = its highest       do the two overlap?
    holding    low = the clause's highest cells, high = its lowest        does the entry reach as far on both sides?
    aligned    as meeting, with one attribute without a limit: the slab's; for the box itself, any that is not an axis

Slots that are scanned are marked too. What is marked is read off in ascending order, once each.

Invariant: scratch is all zeros between events and questions.
Complexity: a point O(axes log cells + bits axes + levels + candidates); a box adds its ranges, MOST_RANGES at the most;
a subscription O(ranges of the boxes log blocks + entries in the lists found + slots / 4096).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.curves.hilbert import decompose, number_of
from earmark.curves.space import NO_AXIS, NULL_CELL, Space, cell_of, clause_boxes
from earmark.events.arrays import EventArrays
from earmark.flat.arrays import I32, I64, U64
from earmark.flat.machine import at, ctz64, popcount64
from earmark.index.counters import CANDIDATES, NODES, back_to, work_so_far
from earmark.index.kernels import Asked, Matches, Searched
from earmark.index.marks import AT_ONCE, MAYBE, SPARSE, is_set, mark, read_all, read_some, slot_holds, words_of
from earmark.index.mics.arrays import LEVEL_BITS, NO_BLOCK, SHIFT, TOP_LEVEL, MicsArrays, field_tops, field_width
from earmark.jit import inlined, kernel
from earmark.segment.arrays import SegmentArrays
from earmark.segment.evaluate import ABSENT, find_attribute

MOST_RANGES = 64
"""Ranges of an event's box; one that has more gets larger cells."""

FEW = 4
"""So few candidates are verified without the sieve, for which the event's cells would have to be found."""


class Sieved(NamedTuple):
    """An event's low cells for the sieve, a field an axis, and its high ones with the top bit of every field set."""

    used: bool
    """Without it, everything passes and is verified."""
    low: np.uint64
    high: np.uint64
    tops: np.uint64


@kernel
def match_events(searched: Searched[MicsArrays], asked: Asked, scratch: U64, matches: Matches) -> tuple[int, int]:
    """Slots that match each event, ascending (`kernels.py`); those of the residual are not among them."""
    index, events, eligible, work = searched.arrays, asked.events, asked.eligible, matches.work
    found, words = 0, words_of(scratch)
    space = Space(index.attr, index.axis_of, index.cut_start, index.cuts, index.bits)
    axes, bits = len(index.attr), index.bits[0]
    box = np.empty((4, axes), np.int64)
    corner, levels = np.empty((bits + 1, axes), np.int64), np.empty((2, bits + 1, 4), np.int64)
    ranges = np.empty((2, int(MOST_RANGES)), np.int64)
    sieve = Space(index.sieve_attr, index.axis_of, index.sieve_cut_start, index.sieve_cuts, index.bits)
    tops = field_tops(len(index.sieve_attr))
    for e in range(asked.first, asked.last):
        before, marks = work_so_far(work), 0
        if len(index.code):
            if locate(space, events, e, box):
                number = number_of(box[0], bits)
                block = smallest_around(index, last_before(index, number), number)
                if candidates_from(index, block) > int(FEW):
                    cells = sieve_cells(sieve, events, e, tops)
                    marks = match_chain(searched, asked, e, block, cells, scratch, words, work)
                else:  # a call of its own: compiled without the sieve
                    cells = Sieved(False, np.uint64(0), np.uint64(0), np.uint64(0))
                    marks = match_chain(searched, asked, e, block, cells, scratch, words, work)
            else:
                cells = sieve_cells(sieve, events, e, tops)
                pieces = cover_box(box, bits, corner, levels, ranges)
                for i in range(pieces):
                    mark_range(index, ranges[0, i], ranges[1, i], cells, scratch, words, work)
                marks = verify_marked(searched, asked, e, scratch, words, work)
        if found + marks + int(AT_ONCE) > len(matches.slots):
            scratch[:] = 0
            back_to(work, before)
            return found, e
        if marks * int(SPARSE) <= words:
            count = read_some(scratch, words, eligible, found, matches.slots)
        else:
            count = read_all(scratch, words, eligible, found, marks > words, matches.slots)
        matches.counts[e - asked.first] = count
        found += count
    return found, asked.last


# --- cells and numbers -----------------------------------------------------------------------------------------


@inlined
def locate(space: Space, events: EventArrays, e: int, box: I64) -> bool:
    """The event's low and high cells into rows 0 and 1 of the box; whether they are the same cell."""
    point = True
    for axis in range(len(space.attr)):
        position = find_attribute(events, e, at(space.attr, axis))
        if position == ABSENT:
            box[0, axis], box[1, axis] = int(NULL_CELL), int(NULL_CELL)
            continue
        lo, hi = at(events.lo, position), at(events.hi, position)
        box[0, axis] = cell_of(space, axis, lo)
        box[1, axis] = box[0, axis] if lo == hi else cell_of(space, axis, hi)
        point &= box[0, axis] == box[1, axis]
    return point


@inlined
def cover_box(box: I64, bits: int, corner: I64, levels: I64, ranges: I64) -> int:
    """The ranges of the box of cells in rows 0 and 1, in larger cells if there are too many; returns how many."""
    axes = box.shape[1]
    for shift in range(bits):
        for axis in range(axes):
            box[2, axis], box[3, axis] = box[0, axis] >> shift, box[1, axis] >> shift
        found = decompose(box[2], box[3], bits - shift, corner, levels, 0, ranges[0], ranges[1])
        if found >= 0:
            for i in range(found):
                ranges[0, i] <<= axes * shift
                ranges[1, i] = ((ranges[1, i] + 1) << (axes * shift)) - 1
            return found
    ranges[0, 0], ranges[1, 0] = 0, (1 << (axes * bits)) - 1
    return 1


# --- blocks ----------------------------------------------------------------------------------------------------


@inlined
def last_before(index: MicsArrays, number: int) -> int:
    """The last block that begins at the number or before, NO_BLOCK without one."""
    piece = number >> at(index.info, SHIFT)
    begin, end = at(index.jump, piece), at(index.jump, piece + 1)
    while begin < end:
        middle = (begin + end) >> 1
        if at(index.code, middle) >> int(LEVEL_BITS) <= number:
            begin = middle + 1
        else:
            end = middle
    return int(begin) - 1


@inlined
def smallest_around(index: MicsArrays, block: int, number: int) -> int:
    """The smallest block that holds the number: this one or one of its parents."""
    while block != int(NO_BLOCK):
        code = at(index.code, block)
        level = int(TOP_LEVEL) - (code & int(TOP_LEVEL))
        if (code >> int(LEVEL_BITS)) >> level == number >> level:
            break
        block = at(index.parent, block)
    return block


@inlined
def candidates_from(index: MicsArrays, block: int) -> int:
    """How many slots are in the lists of a block and its parents."""
    found = 0
    while block != int(NO_BLOCK):
        found += at(index.start, block + 1) - at(index.start, block)
        block = at(index.parent, block)
    return found


@inlined
def match_chain(
    searched: Searched[MicsArrays], asked: Asked, e: int, block: int, cells: Sieved, scratch: U64, words: int, work: I64
) -> int:
    """Mark the slots of a block and its parents that match; an upper bound on how many."""
    index = searched.arrays
    marks = 0
    while block != int(NO_BLOCK):
        begin, end = at(index.start, block), at(index.start, block + 1)
        work[NODES] += 1
        work[CANDIDATES] += end - begin
        for i in range(begin, end):
            if not sifted(index.sieve, i, cells):
                continue
            slot = at(index.entry, i)
            if is_set(asked.eligible, slot) and (
                (cells.used and is_set(index.sure, slot)) or slot_holds(searched.table, asked.events, e, slot, work)
            ):
                mark(scratch, words, slot, True)
                marks += 1
        block = at(index.parent, block)
    return marks


@inlined
def mark_range(index: MicsArrays, first: int, last: int, cells: Sieved, scratch: U64, words: int, work: I64) -> None:
    """Mark as maybe the slots of all blocks that meet a range: around its first number, or beginning inside it."""
    before = last_before(index, first)
    block = smallest_around(index, before, first)
    while block != int(NO_BLOCK):
        mark_list(index, block, cells, scratch, words, work)
        block = at(index.parent, block)
    block = before + 1
    while block < len(index.code) and at(index.code, block) >> int(LEVEL_BITS) <= last:
        mark_list(index, block, cells, scratch, words, work)
        block += 1


@inlined
def mark_list(index: MicsArrays, block: int, cells: Sieved, scratch: U64, words: int, work: I64) -> None:
    """Mark the slots of one block that pass the sieve as maybe."""
    begin, end = at(index.start, block), at(index.start, block + 1)
    work[NODES] += 1
    work[CANDIDATES] += end - begin
    for i in range(begin, end):
        if sifted(index.sieve, i, cells):
            mark(scratch, words, int(at(index.entry, i)) | int(MAYBE), True)


# --- answers ---------------------------------------------------------------------------------------------------


@inlined
def sieve_cells(sieve: Space, events: EventArrays, e: int, tops: np.uint64) -> Sieved:
    """The event's cells on the sieve's axes, which are looked up only where they are used."""
    low, high = np.uint64(0), np.uint64(0)
    width = field_width(len(sieve.attr))
    for axis in range(len(sieve.attr)):
        position = find_attribute(events, e, at(sieve.attr, axis))
        if position != ABSENT:
            lo, hi = at(events.lo, position), at(events.hi, position)
            cell = cell_of(sieve, axis, lo)
            low |= np.uint64(cell) << np.uint64(width * axis)
            if lo != hi:
                cell = cell_of(sieve, axis, hi)
            high |= np.uint64(cell) << np.uint64(width * axis)
    return Sieved(True, low, high | tops, tops)


@inlined
def sifted(sieve: U64, entry: int, cells: Sieved) -> bool:
    """Whether the cells of an entry's slot meet the event's on every axis of the sieve, or it is not used."""
    if not cells.used:
        return True
    above = cells.high - at(sieve, 2 * entry)
    below = at(sieve, 2 * entry + 1) - cells.low
    return bool(above & below & cells.tops == cells.tops)


@inlined
def verify_marked(searched: Searched[MicsArrays], asked: Asked, e: int, scratch: U64, words: int, work: I64) -> int:
    """Move those of the maybe slots that match to sure; returns how many."""
    sure, eligible = searched.arrays.sure, asked.eligible
    found = 0
    for group in range((words + 63) >> 6):
        used = at(scratch, 2 * words + group)
        while used:
            word = (group << 6) + ctz64(used)
            used &= used - np.uint64(1)
            left = at(scratch, words + word)
            scratch[words + word] = 0
            if word < len(eligible):
                left &= at(eligible, word)
            else:
                left = np.uint64(0)
            while left:
                slot = (word << 6) + ctz64(left)
                if is_set(sure, slot) or slot_holds(searched.table, asked.events, e, slot, work):
                    scratch[word] |= left & (~left + np.uint64(1))
                    found += 1
                left &= left - np.uint64(1)
    return found


# --- subscriptions ---------------------------------------------------------------------------------------------


MEETING, HOLDING, ALIGNED = 0, 1, 2
"""Whose boxes meet one of its own; may hold that of its first clause; meet one but for a single attribute."""


class Question(NamedTuple):
    """A subscription that is looked up, a slot of some table; the sieve; who is eligible, and who is scanned."""

    table: SegmentArrays
    slot: int
    sieve: Space
    eligible: U64
    scanned: I32
    kind: int
    """MEETING, HOLDING or ALIGNED."""


@kernel
def find_slots(index: MicsArrays, question: Question, scratch: U64, out: I32, work: I64) -> int:
    """The eligible slots that the question asks for, and those that are scanned; returns as `read_marked` does."""
    table, sieve, slot, kind = question.table, question.sieve, question.slot, question.kind
    words = words_of(scratch)
    space = Space(index.attr, index.axis_of, index.cut_start, index.cuts, index.bits)
    axes, bits = len(index.attr), index.bits[0]
    clause, box, fields = np.empty(1, np.int64), np.empty((4, axes), np.int64), np.empty((2, len(sieve.attr)), np.int64)
    corner, levels = np.empty((bits + 1, axes), np.int64), np.empty((2, bits + 1, 4), np.int64)
    ranges = np.empty((2, int(MOST_RANGES)), np.int64)
    some = False
    begin, end = at(table.clause_start, slot), at(table.clause_start, slot + 1)
    for one in range(begin, min(begin + 1, end) if kind == int(HOLDING) else end):
        clause[0] = one
        for free in range(axes if kind == int(ALIGNED) else 0, -1, -1):  # 0: the box itself; then axis free - 1
            clause_boxes(space, table, clause, box[0:1], box[1:2])
            clause_boxes(sieve, table, clause, fields[0:1], fields[1:2])
            if is_empty(box) or is_empty(fields):
                break
            some = True
            if not len(index.code):
                break
            if kind == int(ALIGNED):
                widen(space, sieve, free - 1, box, fields)
            if kind == int(HOLDING):
                ranges[:, 0], pieces = number_of(box[0], bits), 1
            else:
                pieces = cover_box(box, bits, corner, levels, ranges)
            cells = sieved(fields, kind == int(HOLDING))
            for i in range(pieces):
                mark_range(index, ranges[0, i], ranges[1, i], cells, scratch, words, work)
    if some:
        for i in range(len(question.scanned)):
            mark(scratch, words, int(at(question.scanned, i)) | int(MAYBE), True)
    return read_marked(scratch, words, question.eligible, out)


@inlined
def widen(space: Space, sieve: Space, axis: int, box: I64, fields: I64) -> None:
    """Lift the limits of a box, and of its cells in the sieve, on an axis; or, with -1, on what is not an axis."""
    if axis >= 0:
        box[0, axis], box[1, axis] = 0, (1 << space.bits[0]) - 1
    for field in range(len(sieve.attr)):
        attr = at(sieve.attr, field)
        own = at(space.axis_of, attr) if attr < len(space.axis_of) else int(NO_AXIS)
        if own == axis:  # NO_AXIS is -1
            fields[0, field], fields[1, field] = 0, (1 << sieve.bits[0]) - 1


@inlined
def sieved(fields: I64, holding: bool) -> Sieved:
    """A clause's lowest and highest cells in the sieve as the words it compares."""
    axes, lowest = fields.shape[1], 1 if holding else 0
    tops = field_tops(axes)
    return Sieved(axes > 0, packed(fields[lowest]), packed(fields[1 - lowest]) | tops, tops)


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

    Where `out` is too small, ~n is returned, and room for n is enough.
    """
    found = 0
    for group in range((words + 63) >> 6):
        used = at(scratch, 2 * words + group)
        scratch[2 * words + group] = 0
        while used:
            word = (group << 6) + ctz64(used)
            used &= used - np.uint64(1)
            left = at(scratch, words + word)
            scratch[words + word] = 0
            if word < len(eligible):
                left &= at(eligible, word)
                end = found + popcount64(left)
                while left and end <= len(out):
                    out[found] = (word << 6) + ctz64(left)
                    found += 1
                    left &= left - np.uint64(1)
                found = end
    return found if found <= len(out) else ~found
