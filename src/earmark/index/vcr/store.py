"""From slots to lists: where each clause goes on the grid, and the stores of ID lists, built in bulk or added to.

A slot is on the grid when each of its clauses has a constraint on both attributes of the grid that does not accept
NULL; otherwise it is *residual*, and scanned. The rectangles of a clause are all pairs of its intervals on x and y,
or their hull when there are too many. Each is decomposed, and every piece gives a *code*:

    code = ID << 1 | maybe          maybe = the slot has more constraints, or the VCR is larger than asked

Where the grid is coarser than what was asked, a rectangle ends inside cells. Those cells are its *border*, cut by
itself and verified; the inner part is exact:

    asked 2.5 … 7.5 on cells of width 1:     2 [3 4 5 6] 7        borders 2 and 7, inner 3 … 6

Invariant: an event that a slot on the grid matches is in a VCR of that slot. A code without `maybe` means a
VCR every event in which matches the slot.

Complexity: O(pieces) for a slot; the array store adds O(VCRs of the grid), the hashed one O(activated).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.flat.arrays import I32, I64
from earmark.flat.bisection import bisect_right
from earmark.flat.machine import at
from earmark.index.marks import MAYBE
from earmark.index.vcr.arrays import (
    ATTR_X,
    ATTR_Y,
    EMPTY,
    IS_OVERLAPPED,
    KX,
    KY,
    MODE,
    NO_ATTRIBUTE,
    SHIFT,
    STEP_I,
    STEP_J,
    STEP_X,
    STEP_Y,
    U32,
    VcrGrid,
)
from earmark.index.vcr.rectangles import count_pieces, piece
from earmark.jit import inlined, kernel
from earmark.segment.arrays import SegmentArrays

RESIDUAL = -1
"""Number of pieces of a slot that is not on the grid."""
UNKEYED = -1
"""Position of a constraint that is not there, or accepts NULL."""
LEAST, GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max

MOST_RECTANGLES = 64
"""A clause of more rectangles is placed as their hull and verified."""
MOST_PIECES = 1024
"""A slot of more pieces is residual: its lists would cost more memory than it costs time to scan it."""


@inlined
def rank(cuts: I64, key: int) -> int:
    """Position of the last cut at or below key, -1 when there is none. O(log cuts)."""
    return bisect_right(cuts, 0, len(cuts), key) - 1


@inlined
def span(cuts: I64, lo: int, hi: int, points: int) -> tuple[int, int, int, int]:
    """Where the keys lo … hi are on one axis: begin, end, and the inner part that holds no other keys.

    The inner part is empty (and at the end) where nothing is exact. An end before the begin means off the grid. On
    grid points, an extent of 0 becomes 1: the loops of Fig. 2 would cut it into no VCR at all.
    """
    begin, end = rank(cuts, lo), rank(cuts, hi)
    if not points:
        exact = hi == GREATEST if end + 1 == len(cuts) else at(cuts, end + 1) - 1 == hi
        end += 1
    else:
        exact = end >= 0 and at(cuts, end) == hi
        end += not exact
        if begin < 0 or end >= len(cuts):
            return 0, -1, 0, 0
        if begin == end:
            begin -= end + 1 == len(cuts)
            return begin, begin + 1, begin + 1, begin + 1
    inner_begin, inner_end = begin + (at(cuts, begin) != lo), end - (not exact)
    if inner_begin >= inner_end:
        return begin, end, end, end
    return begin, end, inner_begin, inner_end


@inlined
def part(position: int, begin: int, end: int, inner_begin: int, inner_end: int) -> tuple[int, int, bool]:
    """The part of a span that the position is in (border, inner or border), and whether it is a border.

    Borders are cut by themselves, so that only pieces that reach over what was asked have to be verified.
    """
    if inner_begin >= inner_end:
        return begin, end, True
    if position < inner_begin:
        return begin, inner_begin, True
    if position < inner_end:
        return inner_begin, inner_end, False
    return inner_end, end, True


@inlined
def count_span(begin: int, end: int, inner_begin: int, inner_end: int, k: int, overlapped: bool) -> int:
    """How many pieces a span has."""
    if inner_begin >= inner_end:
        return count_pieces(end - begin, k, overlapped)
    return (inner_begin - begin) + count_pieces(inner_end - inner_begin, k, overlapped) + (end - inner_end)


class Span(NamedTuple):
    """A side of a rectangle in cells, and the part of it that needs no second look."""

    begin: int
    end: int
    inner_begin: int
    inner_end: int


@inlined
def keyed(table: SegmentArrays, clause: int, attr: int) -> int:
    """The clause's constraint on the attribute if it can be a route, which one that accepts NULL never is."""
    for constraint in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
        if at(table.attr, constraint) == attr:
            return UNKEYED if at(table.accepts_null, constraint) else constraint
    return UNKEYED


@inlined
def clause_codes(
    table: SegmentArrays, grid: VcrGrid, clause: int, filled: int, base: int, out: I64, write: bool
) -> int:
    """Write the codes of a clause to out[base + filled …]; returns how many there are by then, or RESIDUAL."""
    info = grid.info
    on_x, on_y = keyed(table, clause, at(info, ATTR_X)), UNKEYED
    two = at(info, ATTR_Y) != NO_ATTRIBUTE
    if two:
        on_y = keyed(table, clause, at(info, ATTR_Y))
    if on_x == UNKEYED or (two and on_y == UNKEYED):
        return RESIDUAL
    more = at(table.constraint_start, clause + 1) - at(table.constraint_start, clause) > 1 + two
    first_x, last_x = at(table.interval_start, on_x), at(table.interval_start, on_x + 1) - 1
    first_y, last_y = 0, 0
    if two:
        first_y, last_y = at(table.interval_start, on_y), at(table.interval_start, on_y + 1) - 1
    if last_x < first_x or last_y < first_y:
        return filled  # a constraint that nothing satisfies
    hull = (last_x - first_x + 1) * (last_y - first_y + 1) > MOST_RECTANGLES
    over = at(info, IS_OVERLAPPED) != 0
    for x in range(first_x, first_x + 1 if hull else last_x + 1):
        left, right, inner_l, inner_r = span(grid.cut_x, table.lo[x], table.hi[last_x if hull else x], at(info, MODE))
        for y in range(first_y, first_y + 1 if hull else last_y + 1):
            low, top, inner_b, inner_t = 0, 1, 0, 1
            if two:
                low, top, inner_b, inner_t = span(
                    grid.cut_y, table.lo[y], table.hi[last_y if hull else y], at(info, MODE)
                )
            if right < left or top < low:
                return RESIDUAL
            if more or hull:
                inner_l, inner_b = inner_r, inner_t
            count = count_span(left, right, inner_l, inner_r, at(info, KX), over)
            count *= count_span(low, top, inner_b, inner_t, at(info, KY), over)
            if filled + count > MOST_PIECES:
                return RESIDUAL
            if write:
                across, up = Span(left, right, inner_l, inner_r), Span(low, top, inner_b, inner_t)
                rectangle_codes(info, across, up, base + filled, out)
            filled += count
    return filled


@inlined
def rectangle_codes(info: I64, across: Span, up: Span, position: int, out: I64) -> None:
    """Write the codes of one rectangle's VCRs, strip by strip from the bottom, as Fig. 2 does."""
    over = at(info, IS_OVERLAPPED) != 0
    y = up.begin
    while y < up.end:
        begin, end, border = part(y, up.begin, up.end, up.inner_begin, up.inner_end)
        row, tall = piece(y, begin, end, at(info, KY), over)
        strip = at(info, SHIFT) + row * at(info, STEP_Y) + tall * at(info, STEP_J)
        x = across.begin
        while x < across.end:
            begin, end, maybe = part(x, across.begin, across.end, across.inner_begin, across.inner_end)
            column, broad = piece(x, begin, end, at(info, KX), over)
            out[position] = (strip + column * at(info, STEP_X) + broad * at(info, STEP_I)) << 1 | (maybe or border)
            position += 1
            x = column + (1 << broad)
        y = row + (1 << tall)


@inlined
def slot_codes(table: SegmentArrays, grid: VcrGrid, slot: int, base: int, out: I64, write: bool) -> int:
    """Write the codes of a slot to out[base …]; returns how many, or RESIDUAL."""
    filled = 0
    for clause in range(at(table.clause_start, slot), at(table.clause_start, slot + 1)):
        filled = clause_codes(table, grid, clause, filled, base, out, write)
        if filled == RESIDUAL:
            break
    return filled


@kernel
def count_codes(table: SegmentArrays, grid: VcrGrid, slots: I32, counts: I64) -> None:
    """counts[n] = the number of pieces of slots[n], or RESIDUAL."""
    nothing = np.empty(0, np.int64)
    for n in range(len(slots)):
        counts[n] = slot_codes(table, grid, slots[n], 0, nothing, False)


@kernel
def write_codes(table: SegmentArrays, grid: VcrGrid, slots: I32, counts: I64, codes: I64, entries: U32) -> None:
    """The codes of all slots that are not residual, one behind the other, and the entry of each code."""
    filled = 0
    for n in range(len(slots)):
        if counts[n] <= 0:
            continue
        slot_codes(table, grid, slots[n], filled, codes, True)
        for position in range(filled, filled + counts[n]):
            maybe = codes[position] & 1
            entries[position] = np.uint32(int(slots[n]) | (int(MAYBE) if maybe else 0))
            codes[position] >>= 1
        filled += counts[n]


@inlined
def home(key: int, size: int) -> int:
    """Where the search for an ID begins in a table of fewer than 2^32 places.

    IDs of activated VCRs come in clusters, so they are randomised first. Products of 32-bit halves: nothing wraps.
    """
    low, high = np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32)
    mixed = (low * np.uint64(0x9E3779B1)) ^ (high * np.uint64(0x85EBCA77))
    mixed = (mixed ^ (mixed >> np.uint64(29))) & np.uint64(0xFFFFFFFF)
    mixed = (mixed * np.uint64(0xC2B2AE3D)) >> np.uint64(15) & np.uint64(0xFFFFFFFF)
    return np.int64((mixed * np.uint64(size)) >> np.uint64(32))  # type: ignore[return-value]


@inlined
def find(keys: I64, key: int) -> int:
    """The place of an ID in an open-addressed table, or the free place where it would go. There is always one."""
    place = home(key, len(keys))
    while at(keys, place) != key and at(keys, place) != EMPTY:
        place += 1
        if place == len(keys):
            place = 0
    return place


@kernel
def add_keys(codes: I64, keys: I64, most: int) -> int:
    """Put the IDs into a table of keys; returns how many are new, or stops beyond `most` of them."""
    new = 0
    for code in codes:
        place = find(keys, code)
        if keys[place] == EMPTY:
            if new == most:
                return new + 1
            keys[place] = code
            new += 1
    return new


@kernel
def count_activated(start: I32) -> int:
    """How many lists have something in them."""
    used = 0
    for i in range(len(start) - 1):
        used += start[i] < start[i + 1]
    return used


@kernel
def fill_lists(codes: I64, entries: U32, keys: I64, start: I32, out: U32) -> None:
    """Gather entries list by list, keeping their order. `start` has one place more than offsets, all 0.

    Lists are those of all VCRs, or of the places of `keys` when it has any.
    """
    hashed = len(keys) > 0
    for code in codes:
        start[(find(keys, code) if hashed else code) + 2] += 1
    for i in range(1, len(start)):
        start[i] += start[i - 1]
    for position in range(len(codes)):
        code = codes[position]
        number = (find(keys, code) if hashed else code) + 1
        out[start[number]] = entries[position]
        start[number] += 1


@kernel
def move_chains(old_key: I64, old_head: I32, key: I64, head: I32) -> None:
    """Take the chains of one table over into a larger one."""
    for place in range(len(old_key)):
        if old_key[place] != EMPTY:
            new = find(key, old_key[place])
            key[new], head[new] = old_key[place], old_head[place]


@kernel
def add_to_chains(codes: I64, key: I64, head: I32, following: I32, filled: int) -> int:
    """Put entries filled, filled + 1 … at the heads of the chains of their IDs; returns how many IDs are new."""
    new = 0
    for n in range(len(codes)):
        place = find(key, codes[n])
        if key[place] == EMPTY:
            key[place] = codes[n]
            new += 1
        following[filled + n] = head[place]
        head[place] = filled + n
    return new


@kernel
def fill_bounds(table: SegmentArrays, grid: VcrGrid, out: I64) -> None:
    """For each slot the four keys lo_x, hi_x, lo_y, hi_y, if they are all it asks; otherwise an empty x."""
    info = grid.info
    two = at(info, ATTR_Y) != NO_ATTRIBUTE
    for slot in range(len(out) >> 2):
        out[4 * slot], out[4 * slot + 1], out[4 * slot + 2], out[4 * slot + 3] = GREATEST, LEAST, LEAST, GREATEST
        clause = at(table.clause_start, slot)
        if at(table.clause_start, slot + 1) - clause != 1:
            continue
        on_x = keyed(table, clause, at(info, ATTR_X))
        on_y = keyed(table, clause, at(info, ATTR_Y)) if two else on_x
        if at(table.constraint_start, clause + 1) - at(table.constraint_start, clause) != 1 + two or UNKEYED in (
            on_x,
            on_y,
        ):
            continue
        x, y = at(table.interval_start, on_x), at(table.interval_start, on_y)
        if at(table.interval_start, on_x + 1) != x + 1 or at(table.interval_start, on_y + 1) != y + 1:
            continue
        out[4 * slot], out[4 * slot + 1] = at(table.lo, x), at(table.hi, x)
        if two:
            out[4 * slot + 2], out[4 * slot + 3] = at(table.lo, y), at(table.hi, y)
