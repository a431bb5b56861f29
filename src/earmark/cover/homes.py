"""Into which partition does a subscription go, so that all that cover it are there too, and few others?

Every subscription has one *home*, where it is asked who covers it, and is a *guest* of each home in which it might
cover somebody. Homes are the leaves of a small tree over the first clauses, learned from a sample:

    subscriptions   p: a [0, 9], b [2, 3]     q: a [4, 5], b [0, 9]     r: a [4, 8]     s: a [6, 7], b [1, 1]

                 a.lo <= 3 ?                 a home knows, by attribute that somebody in it constrains,
                /          \\                 the greatest lower and the least upper end of those who live there:
         home 0: p        b is constrained?      home 2   a: lo 6, hi 5     b: lo 1, hi 1
                          /          \\
                   home 1: r        home 2: q, s       guest of home 2: r (4 <= 6, 8 >= 5); not p, whose b begins at 2

**Invariant.** If A covers B, A lives in the home of B or is a guest there. For A has a clause that contains B's first
one: it constrains no attribute that B's clause does not, and on each its lower end is at most B's, hence at most the
greatest of the home, and its upper end at least the home's least. So all that cover B are in B's home together with all
that cover those, and a home can say of each cover whether it is covered itself. This holds for any tree; a good one has
few guests.

A constraint that takes nothing but NULL has the greatest key as lower end and the least as upper end: what it asks of a
cover is met by every interval, and it covers only its likes. Subscriptions that never match have no clause; they are
spread over the homes by their slots.

How the tree is made. The leaf with the most work, residents times those present, is split first. A split is by the
lower or by the upper end at its median on one of the attributes most constrained, or by whether one is constrained; the
one that leaves the fewest present in both halves together is taken.

It shares no code with the tree of regions in engine/cutting.py, which is split by how many shards are wanted and walked
whole columns at a time: this one is split by the work in its leaves and walked by a kernel.

Complexity: learning O(sample x attributes) a level; finding a home O(depth x constraints) a subscription; guests of a
home O(constraints) of the whole table.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.flat.machine import at
from earmark.flat.types import I32, I64, frozen
from earmark.jit import inlined, kernel
from earmark.keys.schema import INT64_MAX, INT64_MIN
from earmark.segment.arrays import SegmentArrays

LOWER, UPPER, CONSTRAINED = 0, 1, 2
"""What a node of the tree compares: an end with its cut, or whether there is a constraint at all."""
ATTRIBUTES = 8
"""The tree looks at so many of the most constrained attributes."""
SAMPLE, SAMPLE_A_HOME = 8_192, 64
SMALLEST_SHARE = 0.1
"""A split leaves at least this share of a leaf on either side."""

Flags = NDArray[np.bool_]


class Tree(NamedTuple):
    """Inner nodes from the root, 0. A child below 0 is a home: home h is ~h. Without nodes there is home 0 alone."""

    attr: I32
    side: I32
    cut: I64
    left: I32
    right: I32

    @property
    def homes(self) -> int:
        """How many leaves."""
        return len(self.attr) + 1


class Bounds(NamedTuple):
    """Of the residents of a home, by attribute: whether any constrains it, greatest lower end, least upper end."""

    used: Flags
    lo: I64
    hi: I64


class Ends(NamedTuple):
    """The first clauses of some subscriptions on a few attributes, as rows: constrained or not, lower, upper end."""

    attr: I64
    used: Flags
    lo: I64
    hi: I64


# --- learning ----------------------------------------------------------------------------------------------------


def learned(table: SegmentArrays, homes: int) -> Tree:
    """A tree of at most so many homes for a canonical table. The same table gives the same tree."""
    slots = np.flatnonzero(np.diff(table.clause_start))
    wanted = max(SAMPLE, SAMPLE_A_HOME * homes)
    if len(slots) > wanted:
        slots = np.sort(np.random.default_rng(len(slots)).choice(slots, wanted, replace=False))
    ends = _ends(table, slots)
    nodes: list[tuple[int, int, int]] = []
    children: list[list[int]] = []
    everyone = np.arange(len(slots))
    leaves: list[_Leaf] = [_Leaf(-(float(len(slots)) ** 2), 0, -1, 0, everyone, everyone)]
    finished = [] if homes > 1 and len(slots) else [leaves.pop()]
    while leaves and len(leaves) + len(finished) < homes:
        leaf = heapq.heappop(leaves)
        split = _best_split(ends, leaf)
        if split is None:
            finished.append(leaf)
            continue
        if leaf.parent >= 0:
            children[leaf.parent][leaf.hand] = len(nodes)
        nodes.append((int(ends.attr[split.axis]), split.side, split.cut))
        children.append([-1, -1])
        for hand, (members, present) in enumerate(split.halves):
            work = -float(len(members)) * len(present)
            heapq.heappush(leaves, _Leaf(work, 2 * len(nodes) + hand, len(nodes) - 1, hand, members, present))
    for home, leaf in enumerate(sorted([*leaves, *finished], key=lambda one: one.number)):
        if leaf.parent >= 0:
            children[leaf.parent][leaf.hand] = ~home
    pairs = np.array(children, np.int32).reshape(-1, 2)
    attr, side, cut = (np.array([node[i] for node in nodes], np.int64) for i in range(3))
    return Tree(
        frozen(attr.astype(np.int32)),
        frozen(side.astype(np.int32)),
        frozen(cut),
        frozen(pairs[:, 0].copy()),
        frozen(pairs[:, 1].copy()),
    )


class _Leaf(NamedTuple):
    """A leaf in the making; the first two fields are its place in the heap."""

    less_work: float
    number: int
    parent: int
    hand: int
    residents: I64
    present: I64


class _Split(NamedTuple):
    axis: int
    side: int
    cut: int
    halves: list[tuple[I64, I64]]


def _ends(table: SegmentArrays, slots: I64) -> Ends:
    """The first clauses of these slots on the attributes that most of them constrain."""
    first = table.clause_start[slots].astype(np.int64)
    counts = np.diff(table.constraint_start)[first]
    row = np.repeat(np.arange(len(slots)), counts)
    constraint = np.arange(len(row)) + np.repeat(table.constraint_start[first] - (np.cumsum(counts) - counts), counts)
    attr = table.attr[constraint]
    numbers, uses = np.unique(attr, return_counts=True)
    chosen = np.sort(numbers[np.argsort(-uses, kind="stable")[:ATTRIBUTES]]).astype(np.int64)
    kept = np.isin(attr, chosen)
    row, constraint, column = row[kept], constraint[kept], np.searchsorted(chosen, attr[kept])
    used = np.zeros((len(slots), len(chosen)), bool)
    lo, hi = np.full(used.shape, INT64_MIN), np.full(used.shape, INT64_MAX)
    used[row, column] = True
    begin, end = table.interval_start[constraint], table.interval_start[constraint + 1]
    some = begin < end
    lo[row, column], hi[row, column] = INT64_MAX, INT64_MIN
    lo[row[some], column[some]] = table.lo[begin[some]]
    hi[row[some], column[some]] = table.hi[end[some] - 1]
    return Ends(chosen, used, lo, hi)


def _best_split(ends: Ends, leaf: _Leaf) -> _Split | None:
    best, fewest = None, 2 * len(leaf.present) + 1
    for axis, side, cut, left in _possible(ends, leaf.residents):
        halves = []
        for members in (leaf.residents[left], leaf.residents[~left]):
            halves.append((members, leaf.present[_may_cover(ends, members, leaf.present)]))
        present = len(halves[0][1]) + len(halves[1][1])
        if present < fewest:
            best, fewest = _Split(axis, side, cut, halves), present
    return best


def _possible(ends: Ends, members: I64) -> Iterator[tuple[int, int, int, Flags]]:
    """Splits of these members: axis, side, cut, and who goes left."""
    least = max(SMALLEST_SHARE * len(members), 1)
    for axis in range(len(ends.attr)):
        used = ends.used[members, axis]
        for side, values in ((LOWER, ends.lo[members, axis]), (UPPER, ends.hi[members, axis])):
            cut = int(np.sort(values)[(len(values) - 1) // 2])
            left = values <= cut
            if least <= np.count_nonzero(left) <= len(members) - least:
                yield axis, side, cut, left
        if least <= np.count_nonzero(used) <= len(members) - least:
            yield axis, CONSTRAINED, 0, ~used


def _may_cover(ends: Ends, members: I64, others: I64) -> Flags:
    """Which of the others may cover one of the members, as far as these ends tell."""
    passes = np.ones(len(others), bool)
    for axis in range(len(ends.attr)):
        mine = members[ends.used[members, axis]]
        used = ends.used[others, axis]
        if not len(mine):
            passes &= ~used
            continue
        fits = ends.lo[others, axis] <= ends.lo[mine, axis].max()
        fits &= ends.hi[others, axis] >= ends.hi[mine, axis].min()
        passes &= fits | ~used
    return passes


# --- a home --------------------------------------------------------------------------------------------------------


def residents(table: SegmentArrays, tree: Tree, home: int) -> I64:
    """The slots that live in a home, ascending. O(slots x depth)."""
    homes = np.empty(len(table.sequence), np.int32)
    find_homes(table, tree, homes)
    return np.flatnonzero(homes == home)


def matching(table: SegmentArrays, slots: I64) -> I64:
    """Those of the slots of a canonical table that an event can match."""
    return slots[np.diff(table.clause_start)[slots] > 0]


def guests(table: SegmentArrays, members: I64, attributes: int) -> I64:
    """The slots that may cover one of these, ascending; those of them that have clauses among them. O(table)."""
    bounds = Bounds(
        np.zeros(attributes, bool), np.full(attributes, INT64_MIN, np.int64), np.full(attributes, INT64_MAX, np.int64)
    )
    take_bounds(table, members, bounds)
    chosen = np.zeros(len(table.sequence), bool)
    if len(members):
        mark_guests(table, bounds, chosen)
    return np.flatnonzero(chosen)


@inlined
def lower_end(table: SegmentArrays, constraint: int) -> int:
    """The least key that a constraint takes; the greatest of all where it takes none."""
    begin, end = at(table.interval_start, constraint), at(table.interval_start, constraint + 1)
    return at(table.lo, begin) if begin < end else int(INT64_MAX)


@inlined
def upper_end(table: SegmentArrays, constraint: int) -> int:
    """The greatest key that a constraint takes; the least of all where it takes none."""
    begin, end = at(table.interval_start, constraint), at(table.interval_start, constraint + 1)
    return at(table.hi, end - 1) if begin < end else int(INT64_MIN)


@inlined
def goes_left(table: SegmentArrays, clause: int, attr: int, side: int, cut: int) -> bool:
    """Which way a clause goes at a node."""
    first, last = at(table.constraint_start, clause), at(table.constraint_start, clause + 1)
    while first < last and at(table.attr, first) < attr:
        first += 1
    constrained = first < last and at(table.attr, first) == attr
    if side == int(CONSTRAINED):
        return not constrained
    if side == int(LOWER):
        return (lower_end(table, first) if constrained else int(INT64_MIN)) <= cut
    return (upper_end(table, first) if constrained else int(INT64_MAX)) <= cut


@kernel
def find_homes(table: SegmentArrays, tree: Tree, homes: I32) -> None:
    """The home of each slot."""
    nodes = len(tree.attr)
    for slot in range(len(homes)):
        clause = at(table.clause_start, slot)
        if clause == at(table.clause_start, slot + 1):
            homes[slot] = slot % (nodes + 1)
            continue
        node = 0 if nodes > 0 else -1
        while node >= 0:
            if goes_left(table, clause, tree.attr[node], tree.side[node], tree.cut[node]):
                node = tree.left[node]
            else:
                node = tree.right[node]
        homes[slot] = -1 - node


@kernel
def take_bounds(table: SegmentArrays, members: I64, bounds: Bounds) -> None:
    """Widen the bounds by the first clauses of these slots."""
    for i in range(len(members)):
        clause = at(table.clause_start, members[i])
        if clause == at(table.clause_start, members[i] + 1):
            continue
        for constraint in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
            attr = at(table.attr, constraint)
            bounds.used[attr] = True
            bounds.lo[attr] = max(bounds.lo[attr], lower_end(table, constraint))
            bounds.hi[attr] = min(bounds.hi[attr], upper_end(table, constraint))


@kernel
def mark_guests(table: SegmentArrays, bounds: Bounds, chosen: Flags) -> None:
    """Mark the slots that have a clause within the bounds."""
    for slot in range(len(chosen)):
        for clause in range(at(table.clause_start, slot), at(table.clause_start, slot + 1)):
            fits = True
            for constraint in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
                attr = at(table.attr, constraint)
                if not (
                    bounds.used[attr]
                    and lower_end(table, constraint) <= bounds.lo[attr]
                    and upper_end(table, constraint) >= bounds.hi[attr]
                ):
                    fits = False
                    break
            if fits:
                chosen[slot] = True
                break
