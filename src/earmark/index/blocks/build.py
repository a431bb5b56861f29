"""From a table to trees of blocks and buckets of loose clauses (`arrays.py` draws them). O(n log n).

    constraints -> axes and codes -> clauses by set of axes -> many of one set: tiers, each a tree in kd-order
                                                           -> few: buckets by the two rarest axes

A table with few axes altogether (FEW_AXES), but with sets so many that they are small (SMALL_SETS), is one group: an
event that has all attributes would meet a tree for every set, and one tree with columns that do not matter to some of
its clauses is searched sooner than many.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.flat.arrays import F64, I32, I64, U64, read_only
from earmark.flat.machine import VECTOR, aligned
from earmark.index.blocks.arrays import (
    ALWAYS,
    BLOCKS,
    FIELDS,
    FIRST_AXIS,
    LOOSE,
    NOWHERE,
    PAIR,
    SECOND_AXIS,
    SLOTS,
    UNUSED,
    VACANT,
    BlockArrays,
    pair_bit,
    pair_hash,
    pair_place,
)
from earmark.index.blocks.axes import NO_AXIS, Axes, learned, signature_bits
from earmark.index.blocks.dominance import I16, LANES, block_columns, kd_order
from earmark.jit import kernel
from earmark.segment.arrays import SegmentArrays, spread

FEW_AXES, SMALL_SETS = 16, 2_048
FEWEST = 48
"""A set of axes with fewer clauses has no tree: a block of mostly padding costs more than a few signatures."""
FIRST_TIER, TIER_RATIO = 8_192, 4
"""Least number of clauses in the best tier of a group; each tier has TIER_RATIO times those of all better ones."""
ALL_AXES = -1
PLACES_A_WORD = 8
"""Places of `pairs` per word of `pair_bits`: 8 bits per place."""


class BlockClauses(NamedTuple):
    """The clauses of a table: their slots, what is theirs to score, and where codes do not tell everything."""

    slot: I32
    score: F64
    """Static; empty where the table has none."""
    weight: F64
    """All weights of its constraints together; 1 for each where the table has none."""
    extra: F64
    """The part of the weight that is on attributes without an axis."""
    verify: NDArray[np.bool_]
    shared: NDArray[np.bool_]


class TreeRows(NamedTuple):
    """One tree to be: its axes and clauses, in order."""

    axes: I32
    tier: int
    clauses: I64
    codes: I16
    weight: F64


def built(table: SegmentArrays) -> BlockArrays:
    """The index of all slots of a table."""
    axes = learned(table)
    clauses = _clauses(table, axes)
    group, first = _groups(table, axes)
    size = np.bincount(group, minlength=len(first))
    potential = clauses.weight + (clauses.score if len(clauses.score) else 0.0)
    in_trees = size[group] >= FEWEST
    best_first = np.lexsort((table.sequence[clauses.slot], -potential))
    best_first = best_first[in_trees[best_first]]
    by_group = best_first[np.argsort(group[best_first], kind="stable")]
    trees: list[TreeRows] = []
    begin = 0
    for g in np.flatnonzero(size >= FEWEST).tolist():
        own = by_group[begin : begin + size[g]]
        trees += _trees(table, axes, _axes_of(table, axes, int(first[g])), own)
        begin += size[g]
    trees.sort(key=lambda tree: tree.tier)
    return _joined(table, axes, clauses, trees, np.flatnonzero(~in_trees))


def _clauses(table: SegmentArrays, axes: Axes) -> BlockClauses:
    count = len(table.constraint_start) - 1
    slot = np.repeat(np.arange(len(table.clause_start) - 1, dtype=np.int32), np.diff(table.clause_start))
    of = np.repeat(np.arange(count), np.diff(table.constraint_start))
    weights = table.weight if len(table.weight) else np.ones(len(of))
    no_axis = axes.of_constraint == NO_AXIS
    odd = no_axis | (np.diff(table.interval_start) > 1)
    verify = np.zeros(count, bool)
    verify[of[odd]] = True
    return BlockClauses(
        slot,
        table.score[slot] if len(table.score) else np.empty(0),
        np.bincount(of, weights, count).astype(np.float64),
        np.bincount(of[no_axis], weights[no_axis], count).astype(np.float64),
        verify,
        np.diff(table.clause_start)[slot] > 1,
    )


def _groups(table: SegmentArrays, axes: Axes) -> tuple[I64, I64]:
    """The group of each clause, and a clause that has the axes of each group (ALL_AXES: it has all)."""
    count = len(table.constraint_start) - 1
    seed = 0
    while True:  # another draw in the unlikely case that two sets share a hash
        words = np.random.default_rng(seed).integers(1, 2**64, len(axes.attr) + 1, np.uint64, endpoint=False)
        words[NO_AXIS] = 0
        so_far = np.zeros(len(axes.of_constraint) + 1, np.uint64)
        np.bitwise_xor.accumulate(words[axes.of_constraint], out=so_far[1:])
        hashes = so_far[table.constraint_start[1:]] ^ so_far[table.constraint_start[:-1]]
        _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
        if same_sets(read_only(table.constraint_start), read_only(axes.of_constraint), first[group]):
            break
        seed += 1
    if len(axes.attr) <= FEW_AXES and len(first) > 1 and count < SMALL_SETS * len(first):
        return np.zeros(count, np.int64), np.full(1, ALL_AXES)
    return group, first


def _axes_of(table: SegmentArrays, axes: Axes, clause: int) -> I32:
    if clause == ALL_AXES:
        return np.arange(len(axes.attr), dtype=np.int32)
    own: I32 = axes.of_constraint[table.constraint_start[clause] : table.constraint_start[clause + 1]]
    return own[np.flatnonzero(own != NO_AXIS)]


@kernel
def same_sets(start: I32, axis: I32, other: I64) -> bool:
    """Whether each clause has the axes of the other one, constraints without an axis left out."""
    for clause in range(len(other)):
        i, j = start[clause], start[other[clause]]
        last_i, last_j = start[clause + 1], start[other[clause] + 1]
        while True:
            while i < last_i and axis[i] == NO_AXIS:
                i += 1
            while j < last_j and axis[j] == NO_AXIS:
                j += 1
            if i == last_i or j == last_j:
                break
            if axis[i] != axis[j]:
                return False
            i += 1
            j += 1
        if i < last_i or j < last_j:
            return False
    return True


# --- trees ---------------------------------------------------------------------------------------------------------


def _trees(table: SegmentArrays, axes: Axes, own_axes: I32, best_first: I64) -> list[TreeRows]:
    """The tiers of a group, each in kd-order."""
    ends = [len(best_first)]
    while ends[-1] >= TIER_RATIO * FIRST_TIER:
        ends.append(ends[-1] // TIER_RATIO // LANES * LANES)
    made, begin = [], 0
    for tier, end in enumerate(reversed(ends)):
        clauses = best_first[begin:end]
        points, weight = _points(table, axes, own_axes, clauses)
        order = kd_order(points)
        made.append(TreeRows(own_axes, tier, clauses[order], _with_corners(points[order]), weight))
        begin = end
    return made


def _points(table: SegmentArrays, axes: Axes, own_axes: I32, clauses: I64) -> tuple[I16, F64]:
    """The codes of clauses, two columns an axis; and the greatest weight on each axis."""
    points = np.full((len(clauses), 2 * len(own_axes)), ALWAYS, np.int16)
    weight = np.zeros(len(own_axes) if len(table.weight) else 0)
    start, constraints = spread(table.constraint_start, clauses)
    row = np.repeat(np.arange(len(clauses)), np.diff(start))
    axis = axes.of_constraint[constraints]
    coded = axis != NO_AXIS
    row, axis, constraints = row[coded], axis[coded], constraints[coded]
    place = np.searchsorted(own_axes, axis)
    points[row, 2 * place] = axes.lower[constraints]
    points[row, 2 * place + 1] = axes.upper[constraints]
    if len(weight):
        np.maximum.at(weight, place, table.weight[constraints])
    return points, weight


def _with_corners(points: I16) -> I16:
    """Blocks, then the corners of 64 blocks at a time, then the corners of those; flat."""
    levels = [block_columns(points)]
    while len(levels) < 3 and len(levels[-1]) > 1:
        levels.append(block_columns(levels[-1].max(axis=2)))
    return np.concatenate([level.ravel() for level in levels])


# --- loose clauses -------------------------------------------------------------------------------------------------


class LooseRows(NamedTuple):
    """Loose clauses in order of their buckets."""

    clauses: I64
    pairs: I32
    pair_bits: U64
    signature: U64
    record_start: I64
    record: I16


def _loose(table: SegmentArrays, axes: Axes, bit: U64, clauses: I64) -> LooseRows:
    start, constraints = spread(table.constraint_start, clauses)
    axis = axes.of_constraint[constraints]
    pair, signature = np.full((len(clauses), 2), NOWHERE, np.int32), np.zeros(len(clauses), np.uint64)
    rarity = np.empty(len(axes.attr), np.int64)
    rarity[np.argsort(axes.frequency, kind="stable")] = np.arange(len(axes.attr))
    find_rarest(start, axis, rarity, axes.optional, bit, pair, signature)
    key = pair[:, 0].astype(np.int64) * 65_536 + pair[:, 1]
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.diff(key[order], prepend=-(2**40)))
    buckets = np.column_stack([pair[order[first]], first, np.append(first, len(clauses))[1:]]).astype(np.int32)
    pairs = np.full((1 << (4 * len(first) // 3).bit_length(), PAIR), VACANT, np.int32)
    pair_bits = np.zeros(max(1, len(pairs) // PLACES_A_WORD), np.uint64)
    fill_pairs(buckets, pairs, pair_bits)
    record_start, positions = spread(start, order)
    coded = axis[positions] != NO_AXIS
    kept = np.concatenate([[0], np.cumsum(coded)])[record_start]
    chosen = constraints[positions[coded]]
    record = np.empty((len(chosen), 3), np.int16)
    record[:, 0] = axes.of_constraint[chosen].astype(np.uint16).view(np.int16)
    record[:, 1], record[:, 2] = axes.lower[chosen], axes.upper[chosen]
    return LooseRows(clauses[order], pairs.ravel(), pair_bits, signature[order], kept, record.ravel())


@kernel
def find_rarest(start: I32, axis: I32, rarity: I64, optional: Any, bit: U64, pair: Any, signature: U64) -> None:
    """The two rarest axes of each clause that need a value, ascending, and the signature of all of these."""
    for clause in range(len(signature)):
        best = second = NOWHERE
        for i in range(start[clause], start[clause + 1]):
            one = axis[i]
            if one == NO_AXIS or optional[one]:
                continue
            signature[clause] |= bit[one]
            if best == NOWHERE or rarity[one] < rarity[best]:
                best, second = one, best
            elif second == NOWHERE or rarity[one] < rarity[second]:
                second = one
        if second == NOWHERE:
            second = best
        pair[clause, 0], pair[clause, 1] = min(best, second), max(best, second)


@kernel
def fill_pairs(buckets: Any, pairs: Any, pair_bits: U64) -> None:
    """Enter every bucket: pairs[place] = (axis, axis, begin, end)."""
    for bucket in range(len(buckets)):
        mixed = pair_hash(buckets[bucket, FIRST_AXIS], buckets[bucket, SECOND_AXIS])
        bit = pair_bit(mixed, len(pair_bits))
        pair_bits[bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)
        place = pair_place(mixed, len(pairs))
        while pairs[place, FIRST_AXIS] != VACANT:
            place = (place + 1) & (len(pairs) - 1)
        pairs[place] = buckets[bucket]


# --- all of it -----------------------------------------------------------------------------------------------------


def _joined(table: SegmentArrays, axes: Axes, clauses: BlockClauses, trees: list[TreeRows], rest: I64) -> BlockArrays:
    bit = signature_bits(len(axes.attr))
    loose = _loose(table, axes, bit, rest)
    sizes = np.array([len(tree.clauses) for tree in trees], np.int64)
    tree_block = np.concatenate([[0], np.cumsum(-(-sizes // LANES))])
    blocks = int(tree_block[-1])
    entry = np.full(blocks * LANES + len(rest), UNUSED, np.int64)
    for tree, begin in zip(trees, (tree_block * LANES).tolist(), strict=False):
        entry[begin : begin + len(tree.clauses)] = tree.clauses
    entry[blocks * LANES :] = loose.clauses
    used = entry != UNUSED
    per_tree = [_of_tree(table, axes, clauses, bit, tree) for tree in trees]
    signature, score, sequence, weight, extra, exact, rarest = (
        [row[i] for row in per_tree] if per_tree else [] for i in range(7)
    )
    route = np.argsort(np.array(rarest, np.int64), kind="stable")
    weighted = len(table.weight) or len(table.score)
    highest = clauses.score[entry[: blocks * LANES]] if len(clauses.score) else np.zeros(blocks * LANES)
    highest = np.where(used[: blocks * LANES], highest, -np.inf)
    heaviest = np.where(used[: blocks * LANES], clauses.weight[entry[: blocks * LANES]], 0.0) if blocks else np.empty(0)
    in_blocks = (blocks, LANES)
    columns: dict[str, NDArray[Any]] = {
        "info": np.zeros(FIELDS, np.int64),
        "axis_attr": axes.attr,
        "axis_optional": axes.optional,
        "axis_exact": axes.exact,
        "axis_bit": bit,
        "attr_axis": np.searchsorted(axes.attr, np.arange(int(axes.attr.max(initial=-1)) + 2)).astype(np.int32),
        "cut_start": axes.cut_start,
        "cuts": axes.cuts,
        "tree_axis_start": np.cumsum([0, *(len(tree.axes) for tree in trees)]).astype(np.int32),
        "tree_axis": np.concatenate([np.empty(0, np.int32), *(tree.axes for tree in trees)]),
        "tree_axis_weight": np.concatenate([np.empty(0), *(tree.weight for tree in trees)]),
        "tree_block": tree_block,
        "tree_size": sizes,
        "tree_code": np.cumsum([0, *(len(tree.codes) for tree in trees)])[:-1],
        "tree_tier": np.array([tree.tier for tree in trees], np.int32),
        "tree_exact": np.array(exact, np.uint8),
        "tree_signature": np.array(signature, np.uint64),
        "tree_score": np.array(score, np.float64),
        "tree_sequence": np.array(sequence, np.int64),
        "tree_weight": np.array(weight, np.float64),
        "tree_extra": np.array(extra, np.float64),
        "route_start": np.searchsorted(np.array(rarest, np.int64)[route], np.arange(len(axes.attr) + 2)).astype(
            np.int32
        ),
        "route": route.astype(np.int32),
        "codes": _aligned([tree.codes for tree in trees]),
        "entry_clause": entry.astype(np.int32),
        "entry_slot": np.where(used, _taken(clauses.slot, entry), UNUSED).astype(np.int32),
        "entry_sequence": np.where(used, _taken(table.sequence[clauses.slot], entry), 0),
        "entry_score": _taken(clauses.score, entry) if len(table.score) else np.empty(0),
        "verify": _bitmap(used & _taken(clauses.verify, entry)),
        "shared": _bitmap(used & _taken(clauses.shared, entry)),
        "block_score": highest.reshape(in_blocks).max(axis=1) if weighted and blocks else np.empty(0),
        "block_weight": heaviest.reshape(in_blocks).max(axis=1) if weighted and blocks else np.empty(0),
        "pairs": loose.pairs,
        "pair_bits": loose.pair_bits,
        "loose_signature": np.concatenate([loose.signature, np.zeros(VECTOR, np.uint64)]),
        "record_start": loose.record_start,
        "record": loose.record,
    }
    columns["info"][[SLOTS, BLOCKS, LOOSE]] = len(table.sequence), blocks, len(rest)
    return BlockArrays(**columns)


def _of_tree(table: SegmentArrays, axes: Axes, clauses: BlockClauses, bit: U64, tree: TreeRows) -> tuple[Any, ...]:
    """Signature, greatest static score, first sequence, greatest weights, whether exact; the axis to find it by.

    The signature is of the axes that all of its clauses need a value of; the rarest of these is where it is found, the
    number of axes where there are none.
    """
    own = tree.clauses
    blocks, width = -(-len(own) // LANES), 2 * len(tree.axes)
    columns = tree.codes[: blocks * width * LANES].reshape(blocks, width, LANES)
    constrained = (columns[:, ::2] != ALWAYS).all(axis=(0, 2))
    needed = tree.axes[constrained & (axes.optional[tree.axes] == 0)]
    rarest = int(needed[np.argmin(axes.frequency[needed])]) if len(needed) else len(axes.attr)
    score = clauses.score[own].max() if len(clauses.score) else 0.0
    signature = np.bitwise_or.reduce(bit[needed]) if len(needed) else np.uint64(0)
    sequence = table.sequence[clauses.slot[own]].min()
    weights = clauses.weight[own].max(), clauses.extra[own].max()
    return signature, score, sequence, *weights, axes.exact[tree.axes].all(), rarest


def _taken(column: NDArray[Any], entry: I64) -> NDArray[Any]:
    """Of each entry; anything where it is unused."""
    return column[entry] if len(column) else np.zeros(len(entry), column.dtype)


def _bitmap(flags: NDArray[np.bool_]) -> U64:
    words = np.zeros(-(-len(flags) // LANES) * 8, np.uint8)
    packed = np.packbits(flags, bitorder="little")
    words[: len(packed)] = packed
    return words.view("<u8").astype(np.uint64, copy=False)


def _aligned(parts: list[I16]) -> I16:
    whole: I16 = aligned(sum(map(len, parts)), np.int16)
    if parts:
        np.concatenate(parts, out=whole)
    return whole
