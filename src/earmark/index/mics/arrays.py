"""The arrays of a MICS index, and the check of all that kernels rely on.

    slot 0: x in [20, 39], y in [10, 29]     slot 1: x in [10, 29], y in [10, 19]     slot 2: x >= 20, y <= 29

    axes       x: cuts 10 20 30 40    y: cuts 10 20 30       cell 0 is NULL, cell 1 is below the first cut; 3 bits
    boxes      slot 0: x 3..4, y 2..3     slot 1: x 2..3, y 2..2     slot 2: x 3..5, y 1..3
    ranges     slot 0: 9..10  53..54      slot 1: 8..9               slot 2: 6..6  9..10  52..57

Each range is cut into *blocks*: 2^level numbers that begin at a multiple of 2^level. Two blocks are disjoint, or one
is in the other, so the blocks that hold a number are a chain from the smallest up:

    block      6     8..9   9      10     52..55   53       54       56..57
    parent     -     -      8..9   -      -        52..55   52..55   -
    start      0     1      2      4      6        7        8        9        10
    entry      2     1      0 2    0 2    2        0        0        2               slots, ascending in each list

    an event at (25, 15) is in cell (3, 2), which is number 9: block 9 and its parent, slots 0, 2 and 1 to verify

(Slot 2 is drawn in the lists to show how blocks share them; so wide a slot is residual, unless `build.SCANNED` is 1.)

A block is one number, `code` = first << LEVEL_BITS | (TOP_LEVEL - level), so that codes ascend by their first number
and, of two blocks that begin together, the larger comes first. `jump` has, for each piece of 2^shift numbers, the place
of the first block that begins in it or later: the search for a number begins there.

A list holds more than matches: clauses have other attributes, and cells are coarse. The *sieve* rules most of that out
by two words an entry, without a look at the table. Up to eight attributes are cut into cells, 128 or more, and a field
of the words has the slot's lowest and highest cell on one of them; one subtraction compares all fields with the event's
cells. With eight attributes a field is a byte, of which the top bit stays free:

    low     ..  3  1      (event | 0x80 in every byte) - low      keeps the top bit of a byte where event >= low
    high    ..  9  4      (high  | 0x80 in every byte) - event    keeps it where event <= high
    event   ..  5  4      both kept everywhere: it passes          (the high words are stored with their 0x80s)

`sure` is the bitmap of slots whose words say all that they ask for: one clause, one interval a constraint, each on an
attribute of the sieve and ending where cells end. What passes the sieve and is sure needs no second look; the rest is
verified.

`residual` is the bitmap of slots that are scanned, `placed` that of the slots in the lists; a slot in neither has been
removed, or can never match.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.curves.space import FEWEST_BITS, MOST_BITS, NO_AXIS, Space
from earmark.errors import require
from earmark.flat import bits
from earmark.flat.arrays import I32, I64, U64, frozen
from earmark.jit import inlined
from earmark.segment.arrays import SegmentArrays

LEVEL_BITS = 6
TOP_LEVEL = (1 << LEVEL_BITS) - 1
MOST_NUMBER_BITS = 62 - LEVEL_BITS
"""Axes times bits: a number and a level share one code."""
SIEVE_AXES = 8
WIDEST_FIELD = 16
NO_BLOCK = -1
"""The parent of a block that is in no other."""
FREE = -1
"""An option that was not given."""

BOUNDS, EVENTS = 0, 1
LEARNED = ("bounds", "events")
"""What the cuts were learned from."""
EQUAL, VARIABLE = 0, 1
KINDS = ("equal", "variable")
"""Cells of equal width, or with equally many of the values that they were learned from."""

# Fields of `info`. SLOTS: known to the index. BASE: known when the cuts were learned. SHIFT: of `jump`.
# FIRST_OPTION on: what the user gave, FREE where the data decides.
SLOTS, BASE, SHIFT, LEARNED_FROM, OPTION_BITS, OPTION_KIND, OPTION_MOST, OPTION_PIECES = range(8)
INFO = 8


class MicsArrays(NamedTuple):
    """All of the index. The module's docstring draws it."""

    info: I64
    given: I32
    attr: I32
    axis_of: I32
    cut_start: I32
    cuts: I64
    bits: I32
    code: I64
    parent: I32
    start: I64
    entry: I32
    jump: I32
    sieve_attr: I32
    sieve_cut_start: I32
    sieve_cuts: I64
    sieve: U64
    sure: U64
    placed: U64
    residual: U64


def space_in(arrays: MicsArrays) -> Space:
    """The space of an index."""
    return Space(arrays.attr, arrays.axis_of, arrays.cut_start, arrays.cuts, arrays.bits)


@inlined
def field_width(axes: int) -> int:
    """Bits per field of a sieve with this many axes: one more than its cells take."""
    return min(int(WIDEST_FIELD), 64 // max(axes, 1))


@inlined
def field_tops(axes: int) -> np.uint64:
    """A word with the top bit of every field set."""
    tops = np.uint64(0)
    for axis in range(axes):
        tops |= np.uint64(1) << np.uint64((axis + 1) * field_width(axes) - 1)
    return tops


def sieve_in(arrays: MicsArrays) -> Space:
    """The space of its sieve."""
    axis_of = np.full(int(arrays.sieve_attr.max(initial=-1)) + 1, NO_AXIS, np.int32)
    axis_of[arrays.sieve_attr] = np.arange(len(arrays.sieve_attr))
    bits = np.array([field_width(len(arrays.sieve_attr)) - 1], np.int32)
    return Space(arrays.sieve_attr, frozen(axis_of), arrays.sieve_cut_start, arrays.sieve_cuts, frozen(bits))


def check_arrays(arrays: MicsArrays, table: SegmentArrays) -> None:
    """Assert what kernels rely on; arrays from outside pass here before any kernel sees them. O(size)."""
    info, axes, sieved = arrays.info, len(arrays.attr), len(arrays.sieve_attr)
    require(len(info) == INFO, "info has another length")
    require(info[BASE] >= 0 and 0 <= info[SLOTS] < len(table.clause_start), "the index knows more slots than there are")
    require(0 <= info[LEARNED_FROM] < len(LEARNED) and 0 <= info[OPTION_KIND] < len(KINDS), "an option is unknown")
    require((info[OPTION_BITS:] >= FREE).all(), "an option is unknown")
    in_bounds = len(arrays.bits) == 1 and FEWEST_BITS <= arrays.bits[0] <= MOST_BITS
    require(in_bounds, "the bits of an axis are out of bounds")
    depth = int(arrays.bits[0])
    require(axes * depth <= MOST_NUMBER_BITS, "there are too many axes for their bits")
    require(sieved <= SIEVE_AXES, "the sieve has too many attributes")
    for count, start, cuts, cells in (
        (axes, arrays.cut_start, arrays.cuts, 1 << depth),
        (sieved, arrays.sieve_cut_start, arrays.sieve_cuts, 1 << (field_width(sieved) - 1)),
    ):
        require(len(start) == count + 1 and start[0] == 0, "cuts do not fit the axes")
        counts = np.diff(start)
        require(((counts >= 0) & (counts <= cells - 2)).all(), "an axis has too many cuts")
        require(start[-1] == len(cuts), "cuts do not end where they should")
        for own in np.split(cuts, start[1:-1]):
            require((own[:-1] < own[1:]).all(), "cuts do not ascend")
    axis_of = np.full(len(arrays.axis_of), NO_AXIS, np.int32)
    require(not axes or (arrays.attr.min() >= 0 and arrays.attr.max() < len(axis_of)), "an axis has no attribute")
    axis_of[arrays.attr] = np.arange(axes)
    require(np.array_equal(axis_of, arrays.axis_of), "attributes and axes do not fit")
    attributes = max(int(table.attr.max(initial=-1)) + 1, len(arrays.axis_of))  # an axis may be one that nothing uses
    known = (arrays.sieve_attr >= 0) & (arrays.sieve_attr < attributes)
    require(known.all(), "the sieve has no such attribute")
    require(len(arrays.sieve) == 2 * len(arrays.entry), "the sieve does not fit the entries")
    _check_blocks(arrays, axes * depth)
    for name in ("sure", "placed", "residual"):
        bitmap = getattr(arrays, name)
        require(len(bitmap) == bits.words_for(int(info[SLOTS])), f"{name} has the wrong length")
        require(not len(bitmap) or not info[SLOTS] % 64 or int(bitmap[-1]) >> int(info[SLOTS] % 64) == 0, name)
    require(not (arrays.placed & arrays.residual).any(), "a slot is in the lists and scanned")


def _check_blocks(arrays: MicsArrays, total: int) -> None:
    """Assert what kernels rely on of blocks and lists, on a curve of 2^total numbers."""
    code, parent, start, entry, jump = arrays.code, arrays.parent, arrays.start, arrays.entry, arrays.jump
    count, slots, shift = len(code), arrays.info[SLOTS], int(arrays.info[SHIFT])
    require((code[:-1] < code[1:]).all() and (not count or code[0] >= 0), "blocks do not ascend")
    first, level = code >> LEVEL_BITS, TOP_LEVEL - (code & TOP_LEVEL)
    require(not count or (level.max() <= total and int(first[-1]) >> total == 0), "a block is not on the curve")
    require((first >> level << level == first).all(), "a block does not begin at a multiple of its size")
    require(len(parent) == count, "parents do not fit the blocks")
    require(((parent >= NO_BLOCK) & (parent < np.arange(count))).all(), "a block is not behind its parent")
    require(len(start) == count + 1 and start[0] == 0, "start does not fit the blocks")
    require((np.diff(start) >= 0).all() and start[-1] == len(entry), "start does not ascend")
    require(not len(entry) or (entry.min() >= 0 and entry.max() < slots), "an entry is not a slot")
    require(0 <= shift <= total and len(jump) == (1 << (total - shift)) + 1, "jump does not fit the curve")
    require((jump >= 0).all() and (jump <= count).all() and (np.diff(jump) >= 0).all(), "jump leaves the blocks")
