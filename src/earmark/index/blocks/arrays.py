"""The arrays of the blocks index, drawn; and what kernels rely on of arrays that come from a file.

Every clause is one *entry*. Clauses that constrain the same axes (`axes.py`) and are many form *trees*; the others are
*loose* and are in *buckets*, by the two rarest of their axes that need a value:

    axis          0: age   1: age or NULL   2: city   3: zip
    tree          0: {age, city}, 5,000 clauses      1: {age, city}, the next 15,000      2: {zip}
    entry         [64 of tree 0] … [64 … and unused] [64 of tree 1] … … [64 of tree 2] | loose, loose, loose, …
    entry_slot    the slot of each, UNUSED where a tree's last block has room
    codes         tree 0: blocks [axis 0 | axis 2] …, corners of 64 blocks …, corners of 64 corners …
                  tree 1: …
    verify        a word for each 64 entries: codes do not say everything about these
    shared        … and the slots of these have several clauses

    pairs         (2, 3, 0, 9)  –  (0, 3, 9, 14)  –  (3, 3, 14, 15)  (NOWHERE, NOWHERE, 15, 18) …
                  open addressing: a pair of axes, and from where to where its loose entries are; twice the same axis
                  where a clause needs a value of one only, NOWHERE where of none
    pair_bits     a bit for each of these pairs
    record        (axis, code, code) for each constraint of a loose entry, from record_start on

Trees of one set of axes are *tiers*: the best by their own score (static score and all weights), then three times as
many, and so on; a ranked search that has its k answers stops where no later tier can have a better one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from earmark.errors import require
from earmark.flat.arrays import F64, I32, I64, U8, U64
from earmark.flat.machine import VECTOR
from earmark.index.blocks.dominance import I16, LANES
from earmark.jit import inlined
from earmark.segment.arrays import SegmentArrays

ANY, ALWAYS = -32767, 32767
LOWEST, HIGHEST = -32766, 32766
UNUSED = -1
NOWHERE = -1
VACANT = -2
"""In place of a pair's first axis: the place is free."""
PAIR = 4
"""Numbers in each place of `pairs`: FIRST_AXIS, SECOND_AXIS, BEGIN, END."""
FIRST_AXIS, SECOND_AXIS, BEGIN, END = 0, 1, 2, 3

# Fields of `info`.
SLOTS, BLOCKS, LOOSE = 0, 1, 2
FIELDS = 3


class BlockArrays(NamedTuple):
    """The index."""

    info: I64
    """Slots of the table, blocks of all trees, loose entries."""
    axis_attr: I32
    axis_optional: U8
    axis_exact: U8
    axis_bit: U64
    attr_axis: I32
    """The axes of an attribute: attr_axis[a] .. attr_axis[a + 1]."""
    cut_start: I64
    cuts: I64
    tree_axis_start: I32
    tree_axis: I32
    tree_axis_weight: F64
    """The greatest weight on each axis of a tree; empty where the table has no weights."""
    tree_block: I64
    """Blocks of a tree: tree_block[t] .. tree_block[t + 1]."""
    tree_size: I64
    tree_code: I64
    tree_tier: I32
    tree_exact: U8
    tree_signature: U64
    tree_score: F64
    tree_sequence: I64
    tree_weight: F64
    """No entry has more weight altogether ..."""
    tree_extra: F64
    """... and none more on attributes without an axis."""
    route_start: I32
    """Trees by the rarest axis that needs a value: route_start[axis] …; the last list is of trees without one."""
    route: I32
    codes: I16
    entry_clause: I32
    entry_slot: I32
    entry_sequence: I64
    entry_score: F64
    """Static scores; empty where the table has none."""
    verify: U64
    shared: U64
    block_score: F64
    """Of each block of a tree the greatest static score, and weight below; both empty without scores and weights."""
    block_weight: F64
    pairs: I32
    pair_bits: U64
    """A bit for each pair that is there, so that most that are not are known without a look at `pairs`."""
    loose_signature: U64
    """Of the axes that need a value; and VECTOR more, since they are read VECTOR at a time."""
    record_start: I64
    record: I16


@inlined
def pair_hash(first: int, second: int) -> np.uint64:
    """A number for a pair of axes, from which its place in `pairs` and its bit in `pair_bits` are taken."""
    return np.uint64(first * 65_536 + second + 65_537) * np.uint64(0x9E3779B1)  # less than 2^64: no overflow


@inlined
def pair_place(mixed: np.uint64, places: int) -> int:
    """The place of `pairs` (a power of two of them) where the search for a pair begins."""
    return int(np.int64(mixed >> np.uint64(20))) & (places - 1)


@inlined
def pair_bit(mixed: np.uint64, words: int) -> int:
    """The bit of a pair in `pair_bits` (a power of two of words)."""
    return int(np.int64(mixed >> np.uint64(10))) & (64 * words - 1)


def tree_rows(blocks: Any) -> Any:
    """Number of blocks of a tree, with its corners and their corners."""
    corners = np.where(blocks > 1, -(-blocks // LANES), 0)
    return blocks + corners + np.where(corners > 1, -(-corners // LANES), 0)


# --- what kernels rely on ------------------------------------------------------------------------------------------


def check_arrays(index: BlockArrays, table: SegmentArrays) -> None:
    """AssertionError unless kernels can read these arrays without leaving them. O(size)."""
    require(len(index.info) == FIELDS and bool((index.info >= 0).all()), "info is damaged")
    require(int(index.info[SLOTS]) == len(table.sequence), "the index is of a table with another number of slots")
    _check_axes(index)
    _check_trees(index)
    _check_entries(index, table)
    _check_loose(index)


def _check_axes(index: BlockArrays) -> None:
    axes = len(index.axis_attr)
    require(axes < 65_536, "there are too many axes")
    require(len(index.axis_optional) == len(index.axis_exact) == len(index.axis_bit) == axes, "axes differ in number")
    _check_start(index.attr_axis, axes, "attr_axis")
    by_attribute = np.repeat(np.arange(len(index.attr_axis) - 1), np.diff(index.attr_axis))
    require(np.array_equal(index.axis_attr, by_attribute), "axes and attributes do not fit")
    _check_start(index.cut_start, len(index.cuts), "cut_start")
    require(len(index.cut_start) == 2 * axes + 1, "cut_start does not fit the axes")
    require(int(np.diff(index.cut_start).max(initial=0)) <= HIGHEST - LOWEST, "an axis has too many cuts")


def _check_trees(index: BlockArrays) -> None:
    trees, axes, blocks = len(index.tree_size), len(index.axis_attr), int(index.info[BLOCKS])
    one_each = ("code", "tier", "exact", "signature", "score", "sequence", "weight", "extra")
    for name in one_each:
        require(len(getattr(index, f"tree_{name}")) == trees, f"tree_{name} does not fit the trees")
    _check_start(index.tree_axis_start, len(index.tree_axis), "tree_axis_start")
    _check_start(index.tree_block, blocks, "tree_block")
    _check_start(index.route_start, len(index.route), "route_start")
    require(len(index.tree_axis_start) == len(index.tree_block) == trees + 1, "the offsets of trees are too few")
    require(len(index.route_start) == axes + 2 and len(index.route) == trees, "route does not fit axes and trees")
    _check_within(index.tree_axis, axes, "tree_axis")
    _check_within(index.route, trees, "route")
    require(len(index.tree_axis_weight) in (0, len(index.tree_axis)), "tree_axis_weight does not fit tree_axis")
    require(not index.tree_tier.size or 0 <= index.tree_tier.min() <= index.tree_tier.max() <= 64, "a tier is odd")
    own = np.diff(index.tree_block)
    fit = (index.tree_size >= 0) & (-(-index.tree_size // LANES) == own)
    require(bool(fit.all()), "the sizes of trees do not fit their blocks")
    length = tree_rows(own) * 2 * np.diff(index.tree_axis_start) * LANES
    ends = np.concatenate([[0], np.cumsum(length)])
    require(np.array_equal(index.tree_code, ends[:-1]) and len(index.codes) == ends[-1], "codes do not fit the trees")
    require(len(index.block_score) == len(index.block_weight), "block_score and block_weight differ in length")
    require(len(index.block_score) in (0, blocks), "block_score does not fit the blocks")


def _check_entries(index: BlockArrays, table: SegmentArrays) -> None:
    entries = int(index.info[BLOCKS]) * LANES + int(index.info[LOOSE])
    require(len(index.entry_clause) == len(index.entry_slot) == len(index.entry_sequence) == entries, "entries differ")
    require(len(index.entry_score) == (entries if len(table.score) else 0), "entry_score does not fit the table")
    words = -(-entries // LANES)
    require(len(index.verify) == len(index.shared) == words, "verify or shared does not fit the entries")
    used = np.zeros(entries, bool)
    used[int(index.info[BLOCKS]) * LANES :] = True
    first = index.tree_block[:-1] * LANES
    lengths = index.tree_size
    used[np.repeat(first - (np.cumsum(lengths) - lengths), lengths) + np.arange(int(lengths.sum()))] = True
    slot, clause = index.entry_slot[used].astype(np.int64), index.entry_clause[used]
    _check_within(slot, len(table.sequence), "entry_slot")
    inside = (table.clause_start[slot] <= clause) & (clause < table.clause_start[slot + 1])
    require(bool(inside.all()), "an entry's clause is not of its slot")


def _check_loose(index: BlockArrays) -> None:
    loose, axes = int(index.info[LOOSE]), len(index.axis_attr)
    places, rest = divmod(len(index.pairs), PAIR)
    require(places > 0 and places & (places - 1) == 0 and rest == 0, "pairs has an odd length")
    words = len(index.pair_bits)
    require(words > 0 and words & (words - 1) == 0, "the length of pair_bits is no power of two")
    pairs = index.pairs.reshape(places, PAIR)
    taken = pairs[pairs[:, FIRST_AXIS] != VACANT]
    require(len(taken) < places, "pairs is full")
    begin = np.sort(taken[:, BEGIN])
    end = np.append(begin, loose)[1:]
    require(np.array_equal(np.sort(taken[:, END]), end), "the buckets are not the loose entries, once each")
    by_begin = taken[np.argsort(taken[:, BEGIN], kind="stable")]
    require(np.array_equal(by_begin[:, END], end) and (not loose or begin[0] == 0), "buckets overlap")
    require(len(index.loose_signature) == loose + VECTOR, "loose entries differ from their signatures")
    require(len(index.record_start) == loose + 1, "loose entries differ from record_start")
    _check_start(index.record_start, len(index.record) // 3, "record_start")
    require(len(index.record) % 3 == 0, "record has an odd length")
    _check_within(index.record[::3].view(np.uint16), axes, "record")


def _check_start(start: Any, end: int, name: str) -> None:
    require(len(start) >= 1 and start[0] == 0 and start[-1] == end, f"{name} does not run from 0 to its end")
    require(bool((start[:-1] <= start[1:]).all()), f"{name} descends")


def _check_within(numbers: Any, end: int, name: str) -> None:
    require(not len(numbers) or 0 <= numbers.min() <= numbers.max() < end, f"{name} names what there is not")
