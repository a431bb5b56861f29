"""From a table to trees of blocks and buckets of loose clauses (`arrays.py` draws them). O(n log n).

    constraints -> axes and codes -> clauses by set of axes -> many of one set: tiers, each a tree in kd-order
                                                           -> few: buckets by the two rarest axes

A table with few axes altogether (FEW_AXES), but with sets so many that they are small (SMALL_SETS), is one group: an
event that has all attributes would meet a tree for every set, and one tree with columns that do not matter to some of
its clauses is searched sooner than many.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import earmark.index.blocks.arrays as ba
from earmark.flat import bits
from earmark.flat.arrays import F64, I32, I64, U64
from earmark.flat.machine import VECTOR, aligned
from earmark.index.blocks.arrays import BlockArrays
from earmark.index.blocks.axes import NO_AXIS, Axes, learned, signature_bits
from earmark.index.blocks.dominance import I16, LANES, block_columns, kd_order
from earmark.index.stored import element_types
from earmark.jit import kernel
from earmark.segment.arrays import SegmentArrays, spread

FEW_AXES, SMALL_SETS = 16, 2_048
AT_ONCE = 1 << 14
"""So many clauses are looked at together while an index is built: what is kept of each meanwhile takes memory."""
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
    """One tree to be: its axes and clauses, in order, and what `BlockArrays` says of it."""

    axes: I32
    clauses: I64
    codes: I16
    axis_weight: F64
    rarest: int
    """The rarest axis that all of its clauses need a value of, by which it is found; the number of axes without one."""
    tier: int
    exact: bool
    signature: np.uint64
    """Of the axes that all of its clauses need a value of."""
    score: float
    sequence: int
    weight: float
    extra: float


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
    chosen = np.flatnonzero(size >= FEWEST)
    trees: list[TreeRows] = []
    for clause, own in zip(first[chosen], np.split(by_group, np.cumsum(size[chosen])), strict=False):
        begin, end = table.constraint_start[[clause, clause + 1]]
        own_axes = axes.of_constraint[begin:end]
        own_axes = np.arange(len(axes.attr), dtype=np.int32) if clause == ALL_AXES else own_axes[own_axes != NO_AXIS]
        trees += _trees(table, axes, clauses, own_axes, own)
    trees.sort(key=lambda tree: tree.tier)
    return _joined(table, axes, clauses, trees, np.flatnonzero(~in_trees))


def _clauses(table: SegmentArrays, axes: Axes) -> BlockClauses:
    count = len(table.constraint_start) - 1
    slot = np.repeat(np.arange(len(table.clause_start) - 1, dtype=np.int32), np.diff(table.clause_start))
    of = np.repeat(np.arange(count), np.diff(table.constraint_start))
    weights = table.weight if len(table.weight) else np.ones(len(of))
    no_axis = axes.of_constraint == NO_AXIS
    odd = no_axis | (np.diff(table.interval_start) > 1)
    return BlockClauses(
        slot,
        table.score[slot] if len(table.score) else np.empty(0),
        np.bincount(of, weights, count).astype(np.float64),
        np.bincount(of[no_axis], weights[no_axis], count).astype(np.float64),
        np.bincount(of[odd], minlength=count) > 0,
        np.diff(table.clause_start)[slot] > 1,
    )


def _groups(table: SegmentArrays, axes: Axes) -> tuple[I64, I64]:
    """The group of each clause, and a clause that has the axes of each group (ALL_AXES: it has all)."""
    count = len(table.constraint_start) - 1
    coded = axes.of_constraint != NO_AXIS
    axis, start = axes.of_constraint[coded], np.concatenate([[0], np.cumsum(coded)])[table.constraint_start]
    for seed in itertools.count():  # another draw in the unlikely case that two sets share a hash
        words = np.random.default_rng(seed).integers(1, 2**64, len(axes.attr), np.uint64, endpoint=False)
        so_far = np.zeros(len(axis) + 1, np.uint64)
        np.bitwise_xor.accumulate(words[axis], out=so_far[1:])
        hashes = so_far[start[1:]] ^ so_far[start[:-1]]
        del so_far  # as long as all constraints
        _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
        if _have_axes_of(axis, start, first[group]):
            break
    if len(axes.attr) <= FEW_AXES and len(first) > 1 and count < SMALL_SETS * len(first):
        return np.zeros(count, np.int64), np.full(1, ALL_AXES)
    return group, first


def _have_axes_of(axis: I32, start: NDArray[Any], other: I64) -> bool:
    """Whether each clause has the axes of another one."""
    for begin in range(0, len(other), AT_ONCE):
        own = start[begin : begin + AT_ONCE + 1]
        other_start, positions = spread(start, other[begin : begin + AT_ONCE])
        if not np.array_equal(own - own[0], other_start) or not np.array_equal(axis[own[0] : own[-1]], axis[positions]):
            return False
    return True


# --- trees ---------------------------------------------------------------------------------------------------------


def _trees(
    table: SegmentArrays, axes: Axes, clauses: BlockClauses, own_axes: I32, best_first: I64
) -> Iterator[TreeRows]:
    """The tiers of a group, each in kd-order."""
    ends = [len(best_first)]
    while ends[-1] >= TIER_RATIO * FIRST_TIER:
        ends.append(ends[-1] // TIER_RATIO // LANES * LANES)
    bit = signature_bits(len(axes.attr))
    for tier, (begin, end) in enumerate(itertools.pairwise([0, *reversed(ends)])):
        own = best_first[begin:end]
        points, axis_weight = _points(table, axes, own_axes, own)
        order = kd_order(points)
        needed = own_axes[(points[:, ::2] != ba.ALWAYS).all(axis=0) & (axes.optional[own_axes] == 0)]
        yield TreeRows(
            own_axes,
            own[order],
            _with_corners(points[order]),
            axis_weight,
            rarest=int(needed[np.argmin(axes.frequency[needed])]) if len(needed) else len(axes.attr),
            tier=tier,
            exact=bool(axes.exact[own_axes].all()),
            signature=np.bitwise_or.reduce(bit[needed], initial=np.uint64(0)),
            score=clauses.score[own].max() if len(clauses.score) else 0.0,
            sequence=table.sequence[clauses.slot[own]].min(),
            weight=clauses.weight[own].max(),
            extra=clauses.extra[own].max(),
        )


def _points(table: SegmentArrays, axes: Axes, own_axes: I32, clauses: I64) -> tuple[I16, F64]:
    """The codes of clauses, two columns an axis; and the greatest weight on each axis."""
    points = np.full((len(clauses), 2 * len(own_axes)), ba.ALWAYS, np.int16)
    weight = np.zeros(len(own_axes) if len(table.weight) else 0)
    for begin in range(0, len(clauses), AT_ONCE):
        start, constraints = spread(table.constraint_start, clauses[begin : begin + AT_ONCE])
        row = np.repeat(np.arange(begin, begin + len(start) - 1), np.diff(start))
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


def _loose(table: SegmentArrays, axes: Axes, bit: U64, clauses: I64) -> tuple[I64, dict[str, Any]]:
    """Loose clauses in the order of their buckets, and the columns of these."""
    start, constraints = spread(table.constraint_start, clauses)
    axis = axes.of_constraint[constraints]
    pair, signature = np.full((len(clauses), 2), ba.NOWHERE, np.int32), np.zeros(len(clauses), np.uint64)
    rarity = np.empty(len(axes.attr), np.int64)
    rarity[np.argsort(axes.frequency, kind="stable")] = np.arange(len(axes.attr))
    find_rarest(start, axis, rarity, axes.optional, bit, pair, signature)
    key = pair[:, 0].astype(np.int64) * 65_536 + pair[:, 1]
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.diff(key[order], prepend=-(2**40)))
    buckets = np.column_stack([pair[order[first]], first, np.append(first, len(clauses))[1:]]).astype(np.int32)
    pairs = np.full((1 << (4 * len(first) // 3).bit_length(), ba.PAIR), ba.VACANT, np.int32)
    pair_bits = np.zeros(max(1, len(pairs) // PLACES_A_WORD), np.uint64)
    fill_pairs(buckets, pairs, pair_bits)
    record_start, positions = spread(start, order)
    coded = axis[positions] != NO_AXIS
    kept = np.concatenate([[0], np.cumsum(coded)])[record_start]
    chosen = constraints[positions[coded]]
    record = np.empty((len(chosen), 3), np.int16)
    record[:, 0] = axes.of_constraint[chosen].astype(np.uint16).view(np.int16)
    record[:, 1], record[:, 2] = axes.lower[chosen], axes.upper[chosen]
    columns = {
        "pairs": pairs.ravel(),
        "pair_bits": pair_bits,
        "loose_signature": np.append(signature[order], np.zeros(VECTOR, np.uint64)),
        "record_start": kept,
        "record": record.ravel(),
    }
    return clauses[order], columns


@kernel
def find_rarest(start: I32, axis: I32, rarity: I64, optional: Any, bit: U64, pair: Any, signature: U64) -> None:
    """The two rarest axes of each clause that need a value, ascending, and the signature of all of these."""
    for clause in range(len(signature)):
        best = second = ba.NOWHERE
        for i in range(start[clause], start[clause + 1]):
            one = axis[i]
            if one == NO_AXIS or optional[one]:
                continue
            signature[clause] |= bit[one]
            if best == ba.NOWHERE or rarity[one] < rarity[best]:
                best, second = one, best
            elif second == ba.NOWHERE or rarity[one] < rarity[second]:
                second = one
        if second == ba.NOWHERE:
            second = best
        pair[clause, 0], pair[clause, 1] = min(best, second), max(best, second)


@kernel
def fill_pairs(buckets: Any, pairs: Any, pair_bits: U64) -> None:
    """Enter every bucket: pairs[place] = (axis, axis, begin, end)."""
    for bucket in range(len(buckets)):
        mixed = ba.pair_hash(buckets[bucket, ba.FIRST_AXIS], buckets[bucket, ba.SECOND_AXIS])
        bit = ba.pair_bit(mixed, len(pair_bits))
        pair_bits[bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)
        place = ba.pair_place(mixed, len(pairs))
        while pairs[place, ba.FIRST_AXIS] != ba.VACANT:
            place = (place + 1) & (len(pairs) - 1)
        for column in range(ba.PAIR):  # assigning the row would compile how its error message is written: 2 s
            pairs[place, column] = buckets[bucket, column]


# --- all of it -----------------------------------------------------------------------------------------------------


def _joined(table: SegmentArrays, axes: Axes, clauses: BlockClauses, trees: list[TreeRows], rest: I64) -> BlockArrays:
    bit = signature_bits(len(axes.attr))
    loose, loose_columns = _loose(table, axes, bit, rest)
    sizes = np.array([len(tree.clauses) for tree in trees], np.int64)
    tree_block = np.cumsum([0, *-(-sizes // LANES)])
    blocks = int(tree_block[-1])
    entry = np.full(blocks * LANES + len(rest), ba.UNUSED, np.int64)
    for tree, begin in zip(trees, (tree_block * LANES).tolist(), strict=False):
        entry[begin : begin + len(tree.clauses)] = tree.clauses
    entry[blocks * LANES :] = loose
    used, no_numbers = entry != ba.UNUSED, np.empty(0)
    rarest = np.array([tree.rarest for tree in trees], np.int64)
    codes: I16 = aligned(sum(len(tree.codes) for tree in trees), np.int16)
    np.concatenate([codes[:0], *(tree.codes for tree in trees)], out=codes)

    def of_entries(column: NDArray[Any], unused: float) -> NDArray[Any]:
        """The column's value for each entry."""
        return np.where(used, column[entry], unused) if len(column) else np.full(len(entry), unused)

    def of_blocks(column: NDArray[Any], unused: float) -> Any:
        """The greatest value in each block, where there are scores or weights at all."""
        if not (blocks and (len(table.weight) or len(table.score))):
            return no_numbers
        return of_entries(column, unused)[: blocks * LANES].reshape(blocks, LANES).max(axis=1)

    same = ("tier", "exact", "signature", "score", "sequence", "weight", "extra")
    columns: dict[str, Any] = {
        **{f"tree_{name}": [getattr(tree, name) for tree in trees] for name in same},
        "info": [len(table.sequence), blocks, len(rest)],
        "axis_attr": axes.attr,
        "axis_optional": axes.optional,
        "axis_exact": axes.exact,
        "axis_bit": bit,
        "attr_axis": np.searchsorted(axes.attr, np.arange(int(axes.attr.max(initial=-1)) + 2)),
        "cut_start": axes.cut_start,
        "cuts": axes.cuts,
        "tree_axis_start": np.cumsum([0, *(len(tree.axes) for tree in trees)]),
        "tree_axis": np.concatenate([no_numbers, *(tree.axes for tree in trees)]),
        "tree_axis_weight": np.concatenate([no_numbers, *(tree.axis_weight for tree in trees)]),
        "tree_block": tree_block,
        "tree_size": sizes,
        "tree_code": np.cumsum([0, *(len(tree.codes) for tree in trees)])[:-1],
        "route_start": np.searchsorted(np.sort(rarest), np.arange(len(axes.attr) + 2)),
        "route": np.argsort(rarest, kind="stable"),
        "codes": codes,
        "entry_clause": entry,
        "entry_slot": of_entries(clauses.slot, ba.UNUSED),
        "entry_sequence": of_entries(table.sequence[clauses.slot], 0),
        "entry_score": clauses.score[entry] if len(table.score) else no_numbers,
        "verify": bits.from_slots(np.flatnonzero(of_entries(clauses.verify, False)), len(entry)),
        "shared": bits.from_slots(np.flatnonzero(of_entries(clauses.shared, False)), len(entry)),
        "block_score": of_blocks(clauses.score if len(clauses.score) else np.zeros(len(clauses.slot)), -np.inf),
        "block_weight": of_blocks(clauses.weight, 0.0),
        **loose_columns,
    }
    return BlockArrays(**{name: np.asarray(columns[name], kind) for name, kind in element_types(BlockArrays).items()})
