"""Into which partition does a subscription go, so that all that cover it are there too, and few others?

Every subscription has one *home*, where its covers are looked for, and is *replicated* to each home in which it might
cover another. Homes are the leaves of a small tree over the first clauses, learned from a sample:

    subscriptions   p: a [0, 9], b [2, 3]     q: a [4, 5], b [0, 9]     r: a [4, 8]     s: a [6, 7], b [1, 1]

                 a.lo < 4 ?                  a home knows, for each attribute that a resident constrains,
                /          \\                 the greatest lower and the least upper end of its residents:
         home 0: p        b is constrained?      home 2   a: lo 6, hi 5     b: lo 1, hi 1
                          /          \\
                   home 1: r        home 2: q, s       replicated to home 2: r (4 <= 6, 8 >= 5); not p, whose b
                                                       begins at 2

**Invariant.** If A covers B, A lives in the home of B or is replicated there. For A has a clause that contains B's
first one: it constrains no attribute that B's clause does not, and on each its lower end is at most B's, hence at most
the greatest of the home, and its upper end at least the home's least. So all that cover B are in B's home, together
with all that cover those, and a home can tell of each cover whether it is covered itself. This holds for any tree; a
good one replicates little.

A constraint that takes nothing but NULL has the greatest key as lower end and the least as upper end: every interval
meets what it asks of a cover, and it covers only its like. Subscriptions that never match have no clause; they are
spread over the homes by their slots.

How the tree is made. The leaf with the most work, residents times those present, is split first. A split is by the
lower or by the upper end at its median on one of the attributes most constrained (`engine/covers.py`), or by whether
one is constrained; the split that leaves the fewest present in both halves together wins.

Complexity: learning O(sample x attributes) per level; finding a home O(depth x constraints) per subscription; finding
what is replicated to a home O(constraints) of the whole table.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from earmark.engine.covers import LOWER, Ends, Flags, ends_of, ends_on, splits
from earmark.engine.cutting import first_clauses
from earmark.flat.arrays import I32, I64, frozen
from earmark.flat.machine import at
from earmark.jit import inlined, kernel
from earmark.keys.schema import INT64_MAX, INT64_MIN
from earmark.segment.arrays import SegmentArrays, gather

CONSTRAINED = 2
"""Besides LOWER and UPPER, whose ends are compared with a cut: whether there is a constraint at all."""
ATTRIBUTES = 8
"""The most constrained attributes, which the tree looks at."""
SAMPLE, SAMPLE_A_HOME = 8_192, 64
SMALLEST_SHARE = 0.1
"""A split leaves at least this share of a leaf on either side."""


class HomeTree(NamedTuple):
    """Inner nodes from the root, 0. A child below 0 is a home: home h is ~h. Without nodes there is home 0 alone."""

    attr: I32
    side: I32
    cut: I64
    left: I32
    right: I32

    @property
    def homes(self) -> int:
        """How many homes there are."""
        return len(self.attr) + 1


# --- learning ----------------------------------------------------------------------------------------------------


def learned(table: SegmentArrays, homes: int) -> HomeTree:
    """Learn a tree of at most this many homes for a canonical table. The same table gives the same tree."""
    slots = np.flatnonzero(np.diff(table.clause_start))
    wanted = max(SAMPLE, SAMPLE_A_HOME * homes)
    if len(slots) > wanted:
        slots = np.sort(np.random.default_rng(len(slots)).choice(slots, wanted, replace=False))
    start, attr, lo, hi = ends_of(first_clauses(gather(table, slots)), every=True)
    numbers, uses = np.unique(attr, return_counts=True)
    attributes = np.sort(numbers[np.argsort(-uses, kind="stable")[:ATTRIBUTES]])
    ends = ends_on(attributes, start, attr, lo, hi)
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
        axis, side, cut, halves = split
        nodes.append((int(attributes[axis]), side, cut))
        children.append([-1, -1])
        for hand, (members, present) in enumerate(halves):
            work = -float(len(members)) * len(present)
            heapq.heappush(leaves, _Leaf(work, 2 * len(nodes) + hand, len(nodes) - 1, hand, members, present))
    for home, leaf in enumerate(sorted([*leaves, *finished], key=lambda leaf: leaf.number)):
        if leaf.parent >= 0:
            children[leaf.parent][leaf.hand] = ~home
    columns = np.array([[*node, *pair] for node, pair in zip(nodes, children, strict=True)], np.int64).reshape(-1, 5).T
    types = (np.int32, np.int32, np.int64, np.int32, np.int32)
    return HomeTree._make(frozen(column.astype(kind)) for column, kind in zip(columns, types, strict=True))


class _Leaf(NamedTuple):
    """A leaf in the making; the first two fields are its place in the heap."""

    less_work: float
    number: int
    parent: int
    hand: int
    residents: I64
    present: I64


def _best_split(ends: Ends, leaf: _Leaf) -> tuple[int, int, int, list[tuple[I64, I64]]] | None:
    """The axis, side and cut that leave the fewest present, and the residents and those present in both halves."""
    best, fewest, slack = None, 2 * len(leaf.present) + 1, 0.5 - SMALLEST_SHARE
    free = ((axis, CONSTRAINED, 0, ~used) for axis, used in enumerate(ends.used[leaf.residents].T))
    possible = (one for one in free if abs(one[3].mean() - 0.5) <= slack)
    for axis, side, cut, left in (*splits(ends, leaf.residents, 0.5, slack), *possible):
        parts = (leaf.residents[left], leaf.residents[~left])
        halves = [(part, leaf.present[_may_cover(ends, part, leaf.present)]) for part in parts]
        present = sum(len(present) for _, present in halves)
        if present < fewest:
            best, fewest = (axis, side, cut, halves), present
    return best


def _may_cover(ends: Ends, members: I64, others: I64) -> Flags:
    """Which of the others may cover one of the members, as far as these ends tell."""
    passes = np.ones(len(others), bool)
    for axis in range(ends.used.shape[1]):
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


def residents(table: SegmentArrays, tree: HomeTree, home: int) -> I64:
    """The slots that live in a home, ascending. O(slots x depth)."""
    return np.flatnonzero(homes_of(table, tree) == home)


def matching(table: SegmentArrays, slots: I64) -> I64:
    """Those of the slots of a canonical table that an event can match."""
    return slots[np.diff(table.clause_start)[slots] > 0]


def replicated(table: SegmentArrays, members: I64, attributes: int) -> I64:
    """The slots that may cover one of these, ascending, including those of them that have clauses. O(table)."""
    return np.flatnonzero(may_cover(table, members, attributes)) if len(members) else members


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
        return (lower_end(table, first) if constrained else int(INT64_MIN)) < cut
    return (upper_end(table, first) if constrained else int(INT64_MAX)) < cut


@kernel
def homes_of(table: SegmentArrays, tree: HomeTree) -> I32:
    """The home of each slot."""
    nodes, homes = len(tree.attr), np.empty(len(table.sequence), np.int32)
    for slot in range(len(homes)):
        clause = at(table.clause_start, slot)
        if clause == at(table.clause_start, slot + 1):
            homes[slot] = slot % (nodes + 1)
            continue
        node = 0 if nodes > 0 else -1
        while node >= 0:
            left = goes_left(table, clause, tree.attr[node], tree.side[node], tree.cut[node])
            node = tree.left[node] if left else tree.right[node]
        homes[slot] = -1 - node
    return homes


@kernel
def may_cover(table: SegmentArrays, members: I64, attributes: int) -> Flags:
    """Which slots have a clause within the bounds of these members' first clauses, the greatest lower and the least
    upper end by attribute; a clause that constrains an attribute that no member does is not.
    """
    greatest, least = np.full(attributes, INT64_MIN, np.int64), np.full(attributes, INT64_MAX, np.int64)
    used, chosen = np.zeros(attributes, np.bool_), np.zeros(len(table.sequence), np.bool_)
    for member in members:
        clause = at(table.clause_start, member)
        if clause == at(table.clause_start, member + 1):
            continue
        for constraint in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
            attr = at(table.attr, constraint)
            used[attr] = True
            greatest[attr] = max(greatest[attr], lower_end(table, constraint))
            least[attr] = min(least[attr], upper_end(table, constraint))
    for slot in range(len(chosen)):
        for clause in range(at(table.clause_start, slot), at(table.clause_start, slot + 1)):
            fits = True
            for constraint in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
                attr = at(table.attr, constraint)
                fits &= used[attr]
                fits &= lower_end(table, constraint) <= greatest[attr] and upper_end(table, constraint) >= least[attr]
                if not fits:
                    break
            if fits:
                chosen[slot] = True
                break
    return chosen
