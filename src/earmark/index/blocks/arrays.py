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


def check_arrays(arrays: BlockArrays, table: SegmentArrays) -> None:
    """AssertionError unless kernels can read these arrays without leaving them. O(size)."""
    require(len(arrays.info) == FIELDS and (arrays.info >= 0).all(), "info is damaged")
    slots, blocks, loose = map(int, arrays.info)
    require(slots == len(table.sequence), "the index is of a table with another number of slots")
    axes, trees, entries = len(arrays.axis_attr), len(arrays.tree_size), blocks * LANES + loose
    require(axes < 65_536, "there are too many axes")
    for name, end in (
        ("attr_axis", axes),
        ("cut_start", len(arrays.cuts)),
        ("tree_axis_start", len(arrays.tree_axis)),
        ("tree_block", blocks),
        ("route_start", len(arrays.route)),
        ("record_start", len(arrays.record) // 3),
    ):
        start = getattr(arrays, name)
        require(len(start) >= 1 and start[0] == 0 and start[-1] == end, f"{name} does not run from 0 to its end")
        require((start[:-1] <= start[1:]).all(), f"{name} descends")
    of_trees = ("code", "tier", "exact", "signature", "score", "sequence", "weight", "extra")
    for names, lengths, what in (
        (("axis_optional", "axis_exact", "axis_bit"), {axes}, "axes differ in number"),
        (("cut_start",), {2 * axes + 1}, "cut_start does not fit the axes"),
        ([f"tree_{name}" for name in of_trees], {trees}, "trees differ in number"),
        (("tree_axis_start", "tree_block"), {trees + 1}, "the offsets of trees are too few"),
        (("route_start",), {axes + 2}, "route_start does not fit the axes"),
        (("route",), {trees}, "route does not fit the trees"),
        (("tree_axis_weight",), {0, len(arrays.tree_axis)}, "tree_axis_weight does not fit tree_axis"),
        (("block_score",), {0, blocks}, "block_score does not fit the blocks"),
        (("block_weight",), {len(arrays.block_score)}, "block_score and block_weight differ in length"),
        (("entry_clause", "entry_slot", "entry_sequence"), {entries}, "entries differ in number"),
        (("entry_score",), {entries if len(table.score) else 0}, "entry_score does not fit the table"),
        (("verify", "shared"), {-(-entries // LANES)}, "verify or shared does not fit the entries"),
        (("loose_signature",), {loose + VECTOR}, "loose entries differ from their signatures"),
        (("record_start",), {loose + 1}, "loose entries differ from record_start"),
    ):
        require(all(len(getattr(arrays, name)) in lengths for name in names), what)
    require(len(arrays.record) % 3 == 0, "record has an odd length")
    by_attribute = np.repeat(np.arange(len(arrays.attr_axis) - 1), np.diff(arrays.attr_axis))
    require(np.array_equal(arrays.axis_attr, by_attribute), "axes and attributes do not fit")
    require(int(np.diff(arrays.cut_start).max(initial=0)) <= HIGHEST - LOWEST, "an axis has too many cuts")
    require(not trees or 0 <= arrays.tree_tier.min() <= arrays.tree_tier.max() <= 64, "a tier is odd")
    own = np.diff(arrays.tree_block)
    fit = (arrays.tree_size >= 0) & (-(-arrays.tree_size // LANES) == own)
    require(fit.all(), "the sizes of trees do not fit their blocks")
    ends = np.cumsum([0, *(tree_rows(own) * 2 * np.diff(arrays.tree_axis_start) * LANES)])
    require(np.array_equal(arrays.tree_code, ends[:-1]) and len(arrays.codes) == ends[-1], "codes do not fit the trees")
    in_blocks = np.arange(blocks * LANES) - np.repeat(arrays.tree_block[:-1], own * LANES) * LANES
    used = np.append(in_blocks < np.repeat(arrays.tree_size, own * LANES), np.ones(loose, bool))
    slot, clause = arrays.entry_slot[used].astype(np.int64), arrays.entry_clause[used]
    for name, numbers, end in (
        ("tree_axis", arrays.tree_axis, axes),
        ("route", arrays.route, trees),
        ("entry_slot", slot, slots),
        ("record", arrays.record[::3].view(np.uint16), axes),
    ):
        require(not len(numbers) or 0 <= numbers.min() <= numbers.max() < end, f"{name} names what there is not")
    inside = (table.clause_start[slot] <= clause) & (clause < table.clause_start[slot + 1])
    require(inside.all(), "an entry's clause is not of its slot")
    _check_pairs(arrays, loose)


def _check_pairs(index: BlockArrays, loose: int) -> None:
    """AssertionError unless every loose entry is in one bucket, and a search for a pair ends."""
    places, words = len(index.pairs) // PAIR, len(index.pair_bits)
    require(len(index.pairs) % PAIR == 0 and places.bit_count() == 1, "pairs has an odd length")
    require(words.bit_count() == 1, "the length of pair_bits is no power of two")
    pairs = index.pairs.reshape(places, PAIR)
    taken = pairs[pairs[:, FIRST_AXIS] != VACANT]
    require(len(taken) < places, "pairs is full")
    taken = taken[np.argsort(taken[:, BEGIN], kind="stable")]
    follows = np.array_equal([0, *taken[:, END]], [*taken[:, BEGIN], loose])
    require(follows, "the buckets are not the loose entries, once each")
