"""From slots to blocks of the curve, and from blocks to the arrays of an index.

mics.txt, sections 3.3 and 5. A clause becomes a box of cells (`curves/space.py`), the box ranges (`curves/hilbert.py`),
the ranges blocks (`arrays.py`). A box of many ranges gets larger cells until it has few: the curve of 2^s cells an axis
in one is the same curve s levels up, so a range at that resolution is a range of the finest cells, shifted.

    cells     box x 3..12, y 2..3, 4 bits                s = 1: x 1..6, y 1..1 on the curve of 3 bits, shifted by 2

What is larger than asked for is verified anyway, so no answer changes. A slot with a clause of which more than SCANNED
of the space is left is *residual*: scanning it with the others that are is quicker than finding it in every search.

Invariant: the blocks of a clause are disjoint and hold its box.
Complexity: O(blocks log blocks); adding to an index, O(its entries), at the speed of memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import earmark.index.mics.arrays as ma
from earmark.curves import hilbert
from earmark.curves.space import NO_AXIS, Space, boxes_of_clauses, cell_of
from earmark.errors import require
from earmark.flat import bits
from earmark.flat.arrays import I32, I64, U64, frozen
from earmark.flat.machine import at
from earmark.index.mics.arrays import MicsArrays
from earmark.index.mics.plan import MicsOptions, MicsPlan
from earmark.jit import inlined, kernel
from earmark.keys.schema import INT64_MAX, INT64_MIN
from earmark.segment.arrays import SegmentArrays, spread

SCANNED = 1 / 8
"""A clause that so much of the space is left of is scanned."""
AT_ONCE = 1 << 15
"""Clauses that are decomposed at a time."""
MOST_JUMP = 1 << 22


class Placement(NamedTuple):
    """Entries (code and slot), the sieve of all slots, and bitmaps of slots: sure, in the lists, to be scanned."""

    code: I64
    slot: I32
    sieve: U64
    sure: U64
    placed: U64
    residual: U64


def place(table: SegmentArrays, slots: I32, plan: MicsPlan, pieces: int) -> Placement:
    """Where these slots of a table go. Entries ascend by slot."""
    total = len(table.clause_start) - 1
    if not plan.space.axes:
        nothing = np.empty(0, np.int32)
        none, sieve = bits.from_slots(nothing, total), np.zeros(2 * total, np.uint64)
        return Placement(nothing.astype(np.int64), nothing, sieve, none, none, bits.from_slots(slots, total))
    start, clauses = spread(table.clause_start, slots.astype(np.int64))
    owner = np.repeat(slots, np.diff(start))
    codes, slot_of, wide = [np.empty(0, np.int64)], [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    for begin in range(0, len(clauses), AT_ONCE):
        some = slice(begin, begin + AT_ONCE)
        counts, code, too_wide = blocks_of_clauses(plan.space, table, clauses[some], pieces, SCANNED)
        codes.append(code)
        slot_of.append(np.repeat(owner[some], counts))
        wide.append(owner[some][too_wide])
    scanned = np.unique(np.concatenate(wide))
    code, slot = np.concatenate(codes), np.concatenate(slot_of)
    kept = ~np.isin(slot, scanned)
    placed = np.setdiff1d(slots, scanned)
    bitmaps = (bits.from_slots(some, total) for some in (sure_slots(table, placed, plan.sieve), placed, scanned))
    return Placement(code[kept], slot[kept], sieve_of(table, placed, plan.sieve), *bitmaps)


def sieve_of(table: SegmentArrays, slots: I32, space: Space) -> U64:
    """The words of these slots, zero for the others: the hull of a slot's clauses, cell by cell."""
    start, clauses = spread(table.clause_start, slots.astype(np.int64))
    low, high = boxes_of_clauses(space, table, clauses)
    never = (low > high).any(axis=1)
    low[never], high[never] = (1 << int(space.bits[0])) - 1, 0  # a clause that nothing satisfies widens nothing
    some = np.diff(start) > 0
    words = np.zeros((len(table.clause_start) - 1, 2), np.uint64)
    if some.any():
        begins = start[:-1][some]
        low, high = np.minimum.reduceat(low, begins), np.maximum.reduceat(high, begins)
        words[slots[some], 0] = _packed(low)
        words[slots[some], 1] = _packed(high) | ma.field_tops(space.axes)
    return words.ravel()


def _packed(cells: I64) -> U64:
    """A field for each cell of a row, the first lowest."""
    shift = np.arange(cells.shape[1], dtype=np.uint64) * ma.field_width(cells.shape[1])
    words: U64 = np.bitwise_or.reduce(cells.astype(np.uint64) << shift, axis=1)
    return words


def sure_slots(table: SegmentArrays, slots: I32, space: Space) -> I32:
    """Those of these slots that ask for whole cells of this space, and nothing else."""
    single = slots[np.diff(table.clause_start)[slots] == 1]
    sure: I32 = single[are_whole(space, table, table.clause_start[single].astype(np.int64))]
    return sure


@kernel
def are_whole(space: Space, table: SegmentArrays, clauses: I64) -> NDArray[np.bool_]:
    """Whether each constraint of a clause is one interval, without NULL, from a cut to just before another."""
    whole = np.ones(len(clauses), np.bool_)
    for i in range(len(clauses)):
        for constraint in range(at(table.constraint_start, clauses[i]), at(table.constraint_start, clauses[i] + 1)):
            attr = at(table.attr, constraint)
            axis = at(space.axis_of, attr) if attr < len(space.axis_of) else int(NO_AXIS)
            begin = at(table.interval_start, constraint)
            single = at(table.interval_start, constraint + 1) == begin + 1 and not at(table.accepts_null, constraint)
            if axis == NO_AXIS or not single:
                whole[i] = False
                break
            lo, hi = at(table.lo, begin), at(table.hi, begin)
            first, end = at(space.cut_start, axis), at(space.cut_start, axis + 1)
            below, above = first + cell_of(space, axis, lo) - 2, first + cell_of(space, axis, hi) - 1
            starts = lo == INT64_MIN if below < first else at(space.cuts, below) == lo
            ends = hi == INT64_MAX if above >= end else at(space.cuts, above) - 1 == hi
            if not (starts and ends):
                whole[i] = False
                break
    return whole


def blocks_of_clauses(
    space: Space, table: SegmentArrays, clauses: I64, pieces: int, widest: float
) -> tuple[I64, I64, NDArray[np.bool_]]:
    """How many blocks each clause has, their codes, and which clauses are too wide to have any.

    Too wide is what fills more than `widest` of the space, or cannot be told from all of it. A clause that nothing
    satisfies has no blocks either.
    """
    depth, axes = int(space.bits[0]), space.axes
    low, high = boxes_of_clauses(space, table, clauses)
    some = (low <= high).all(axis=1)
    shift = hilbert.coarseness(low, high, depth, pieces)
    counts = np.zeros(len(clauses), np.int64)
    found: list[tuple[I64, I64]] = []
    left = np.flatnonzero(some)
    for s in range(depth):
        mine = left[shift[left] == s]
        if not len(mine):
            continue
        start, first, last = hilbert.ranges(low[mine] >> s, high[mine] >> s, depth - s)
        blocks, code = split_ranges(start, first, last, axes * s)
        many = blocks > pieces
        shift[mine[many]] += 1
        kept = np.repeat(~many, blocks)
        counts[mine[~many]] = blocks[~many]
        found.append((mine[~many], code[kept]))
    sides = (high >> shift[:, None]) - (low >> shift[:, None]) + 1  # of the enlarged boxes; floats do not overflow
    volume = sides.astype(np.float64).prod(axis=1) * 2.0 ** (shift * axes)
    wide = some & ((shift == depth) | (volume > widest * 2.0 ** (axes * depth)))
    starts = np.concatenate([[0], np.cumsum(counts)])
    code = np.empty(int(starts[-1]), np.int64)
    for mine, codes in found:  # by resolution; now clause by clause
        own = counts[mine]
        code[np.repeat(starts[mine] - (np.cumsum(own) - own), own) + np.arange(len(codes))] = codes
    return np.where(wide, 0, counts), code[np.repeat(~wide, counts)], wide


@kernel
def split_ranges(start: I64, first: I64, last: I64, shift: int) -> tuple[I64, I64]:
    """How many blocks the ranges of each box are cut into, and the codes of all blocks, in order.

    Numbers are shifted by the resolution that was left out.
    """
    counts = np.zeros(len(start) - 1, np.int64)
    for box in range(len(counts)):
        for i in range(start[box], start[box + 1]):
            begin, end = first[i], last[i] + 1
            while begin < end:
                begin += 1 << largest_level(begin, end)
                counts[box] += 1
    code, found = np.empty(counts.sum(), np.int64), 0
    for i in range(start[0], start[len(start) - 1]):
        begin, end = first[i], last[i] + 1
        while begin < end:
            level = largest_level(begin, end)
            code[found] = ((begin << shift) << ma.LEVEL_BITS) | (ma.TOP_LEVEL - (level + shift))
            begin += 1 << level
            found += 1
    return counts, code


@inlined
def largest_level(begin: int, end: int) -> int:
    """The largest block that begins here and ends at `end` or before."""
    level = 0
    while begin >> level & 1 == 0 and begin + (2 << level) <= end:
        level += 1
    return level


# --- arrays --------------------------------------------------------------------------------------------------


def assembled(
    placement: Placement, plan: MicsPlan, slots: int, options: MicsOptions, learned: int, base: int
) -> MicsArrays:
    """The index of these entries."""
    order = np.argsort(placement.code, kind="stable")
    code, slot = placement.code[order], placement.slot[order]
    if ((code[1:] == code[:-1]) & (slot[1:] < slot[:-1])).any():  # slots that came in another order than their numbers
        order = np.lexsort((placement.slot, placement.code))
        code, slot = placement.code[order], placement.slot[order]
    new = np.ones(len(code), bool)
    new[1:] = (code[1:] != code[:-1]) | (slot[1:] != slot[:-1])  # two clauses of a slot may share a block
    code, slot = code[new], slot[new]
    begins = np.flatnonzero(np.concatenate([[True], code[1:] != code[:-1]])) if len(code) else np.empty(0, np.int64)
    blocks = code[begins]
    space, sieve = plan
    total = space.axes * int(space.bits[0])
    shift = max(0, total - min(len(blocks), MOST_JUMP).bit_length())
    edges = np.arange((1 << (total - shift)) + 1, dtype=np.int64) << shift
    info = np.zeros(ma.INFO, np.int64)
    info[[ma.SLOTS, ma.BASE, ma.SHIFT, ma.LEARNED_FROM]] = slots, base, shift, learned
    info[[ma.OPTION_BITS, ma.OPTION_KIND, ma.OPTION_MOST, ma.OPTION_PIECES]] = options[1:]
    made = MicsArrays(
        info=info,
        given=np.array(options.attributes, np.int32),
        **space._asdict(),
        code=blocks,
        parent=parents_of(blocks),
        start=np.concatenate([begins, [len(code)]]).astype(np.int64),
        entry=slot,
        jump=np.searchsorted(blocks >> ma.LEVEL_BITS, edges).astype(np.int32),
        sieve_attr=sieve.attr,
        sieve_cut_start=sieve.cut_start,
        sieve_cuts=sieve.cuts,
        sieve=placement.sieve.reshape(-1, 2)[slot].ravel(),
        sure=placement.sure,
        placed=placement.placed,
        residual=placement.residual,
    )
    return MicsArrays._make(frozen(np.ascontiguousarray(column)) for column in made)


@kernel
def parents_of(code: I64) -> I32:
    """For each block the smallest one around it. Blocks ascend, so it is the block before or one of its parents."""
    parent = np.empty(len(code), np.int32)
    for i in range(len(code)):
        first = code[i] >> ma.LEVEL_BITS
        around = i - 1
        while around != ma.NO_BLOCK:
            level = ma.TOP_LEVEL - (code[around] & ma.TOP_LEVEL)
            if (code[around] >> ma.LEVEL_BITS) >> level == first >> level:
                break
            around = parent[around]
        parent[i] = around
    return parent


def entries_of(arrays: MicsArrays) -> Placement:
    """The entries of an index, in order of their codes."""
    code = np.repeat(arrays.code, np.diff(arrays.start))
    sieve = np.zeros((int(arrays.info[ma.SLOTS]), 2), np.uint64)
    sieve[arrays.entry] = arrays.sieve.reshape(-1, 2)
    return Placement(code, arrays.entry, sieve.ravel(), arrays.sure, arrays.placed, arrays.residual)


def plan_of(arrays: MicsArrays) -> MicsPlan:
    """The spaces of an index."""
    return MicsPlan(ma.space_in(arrays), ma.sieve_in(arrays))


def options_of(arrays: MicsArrays) -> MicsOptions:
    """What the user gave when the index was built."""
    numbers = arrays.info[ma.OPTION_BITS : ma.OPTION_PIECES + 1].tolist()
    return MicsOptions(tuple(arrays.given.tolist()), *numbers)


def assembled_as(arrays: MicsArrays, placement: Placement, slots: int) -> MicsArrays:
    """The index of these entries, over this many slots, in the space of another and with its options."""
    learned, base = int(arrays.info[ma.LEARNED_FROM]), int(arrays.info[ma.BASE])
    return assembled(placement, plan_of(arrays), slots, options_of(arrays), learned, base)


def extended(table: SegmentArrays, arrays: MicsArrays, slots: I32) -> MicsArrays:
    """The index with more slots of a table that has grown, in the same space."""
    new, old = place(table, slots, plan_of(arrays), options_of(arrays).pieces), entries_of(arrays)
    code, slot = np.concatenate([old.code, new.code]), np.concatenate([old.slot, new.slot])
    both = Placement(code, slot, *(bits.either(left, right) for left, right in zip(new[2:], old[2:], strict=True)))
    return assembled_as(arrays, both, len(table.clause_start) - 1)


def without(arrays: MicsArrays, slots: I32) -> MicsArrays:
    """The index without these slots."""
    known, old = int(arrays.info[ma.SLOTS]), entries_of(arrays)
    gone = bits.from_slots(slots, known)
    kept = ~np.isin(old.slot, slots)
    bitmaps = (frozen(bitmap & ~gone) for bitmap in (old.sure, old.placed, old.residual))
    return assembled_as(arrays, Placement(old.code[kept], old.slot[kept], old.sieve, *bitmaps), known)


def check_lists(table: SegmentArrays, arrays: MicsArrays) -> None:
    """Assert that the arrays are those that the slots in them make in this space. O(size)."""
    slots, known = bits.to_slots(bits.either(arrays.placed, arrays.residual)), int(arrays.info[ma.SLOTS])
    words = bits.words_for(known)
    fresh = place(table, slots, plan_of(arrays), options_of(arrays).pieces)
    fresh = fresh._replace(sure=fresh.sure[:words], placed=fresh.placed[:words], residual=fresh.residual[:words])
    for name, wanted in assembled_as(arrays, fresh, known)._asdict().items():
        require(np.array_equal(wanted, getattr(arrays, name)), f"{name} is not what the slots make")
