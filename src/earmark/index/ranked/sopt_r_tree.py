"""Which intervals does a value stab, best first: the score-optimal R-tree.

ranked-pubsub, 3.2. Two intervals that do not meet may be in either order, since no value stabs both. The *constraint
graph* (Algorithm 2) has an edge from each interval to those that must come after it; among all orders that respect it,
Algorithm 1 takes the one with the least left end next, so that neighbours in the order are close to each other, and an
R-tree on top has few holes: at most 2k nodes of a level are visited for the k best (Theorem 3.2).

Algorithm 2 takes the intervals in score order and keeps the *visible blocks*: the line as seen from below, each piece
belonging to the lowest interval over it. A new interval gets an edge from the owner of every block that it meets, and
then hides them. The paper's ten intervals (number = rank), after 1 to 4:

    1 [30,55]  2 [75,90]  3 [45,55]  4 [65,90]         blocks   [30,44] of 1   [45,55] of 3   [65,90] of 4
    5 [10,30] meets the first                           edge 1 -> 5, blocks now [10,30] of 5, [31,44] of 1, ..

    arrangement  1 5 6 3 | 9 2 4 7 | 8 10     extents with branching 4: [0,55] [10,100] [0,100]

Intervals are closed, so those that touch have an edge. Blocks begin at cuts, the keys lo and hi + 1 in order; the
beginnings of visible blocks are a bitmap over the cuts with summaries of 64 words, where the block over a cut is
found in a few steps.

Arrays: `arrays.py`; a list is the run of a single node, in the arrangement.

Invariant: the arrangement respects the graph, so that the intervals over any one key are in score order; the graph
has at most 3n edges.
Complexity: O(n log n) build; (1 + 2 / (branching - 1)) n space; the k best in O(branching k log n).

Static: an insertion may change the graph anywhere, so the index is rebuilt, and new slots are scanned until then.

We differ: equal scores go by sequence; an event that is an interval can meet intervals that do not meet each other,
whose order is then not that of their scores: the search goes by the best score below each extent instead.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import pairwise
from typing import Self

import numpy as np

import earmark.index.ranked.arrays as sc
from earmark.errors import require
from earmark.flat.arrays import I32, I64, U64, pointers_of
from earmark.flat.machine import at, ctz64, popcount64
from earmark.index.ranked.arrays import ScoredArrays, int64
from earmark.index.ranked.base import ScoredIndex, ScoredOptions
from earmark.index.ranked.check import list_entries
from earmark.index.ranked.forest import TreePlan, planted
from earmark.index.ranked.lists import ScoredLists
from earmark.jit import inlined, kernel
from earmark.segment.arrays import SegmentArrays

NOBODY = -1
"""Owner of a visible block over which there is no interval."""
EDGES_EACH = 3
"""Lemma 3.4: the most edges per interval."""
WORD_BITS = 6


class SoptRTree(ScoredIndex):
    """An R-tree for each attribute, over its intervals in the arrangement of Algorithm 1."""

    @classmethod
    def build(cls, table: SegmentArrays, branching: int = 16, modes: str = "both", intersect: bool = False) -> Self:
        """Build an index of all slots of a table; for the options see `ScoredOptions`. O(n log n)."""
        return cls._built(table, ScoredOptions(branching, 0, modes, intersect, sc.FOREST, sc.POINTS))

    @classmethod
    def _grow(cls, lists: ScoredLists, arrays: ScoredArrays, options: ScoredOptions) -> ScoredArrays:
        order = np.empty(len(lists.lo), np.int64)
        for number, (begin, end) in enumerate(pairwise(lists.start.tolist())):
            entries = lists.entries(number)
            order[begin:end] = begin + arrangement(entries.lo, entries.hi)
        return planted(lists.permuted(order), arrays, TreePlan(False, True, options.branching, 0))

    def check(self) -> None:
        """Also raise AssertionError unless the arrangement respects the constraint graph, of at most 3n edges."""
        super().check()
        arrays = self._arrays
        for which, root in enumerate(arrays.lists.reshape(-1, sc.LIST)[:, sc.ROOT].tolist()):
            require(root < 0 or arrays.node[root * sc.NODE] < 0, "a list is more than one R-tree")
            entries = list_entries(arrays, which)
            lo, hi = arrays.lo[entries], arrays.hi[entries]
            sequence = self._table.sequence[arrays.ref[entries]]
            ranked = np.lexsort((np.arange(len(entries)), sequence, -arrays.score[entries]))
            above, below = constraint_graph(lo[ranked], hi[ranked])
            require(len(above) <= EDGES_EACH * len(entries), "the constraint graph has more than 3n edges")
            # Entries are listed in the arrangement, so `ranked` is the place of each rank in it.
            require(bool((ranked[above] < ranked[below]).all()), "the arrangement breaks the constraint graph")


def cells(lo: I64, hi: I64) -> tuple[I64, I32, I32]:
    """Cuts, and for each closed interval the first and last of the cells between them that it covers.

    >>> cells(np.array([0, 5]), np.array([5, 9]))
    (array([ 0,  5,  6, 10]), array([0, 1], dtype=int32), array([1, 2], dtype=int32))
    """
    n = len(lo)
    endless = hi == np.iinfo(np.int64).max
    ends = np.concatenate([lo, hi + np.int64(1)]) if not endless.any() else np.concatenate([lo, hi[~endless] + 1])
    order = np.argsort(ends)
    ascending = ends[order]
    new = np.ones(len(ends), bool)
    np.not_equal(ascending[1:], ascending[:-1], out=new[1:])
    place = np.empty(len(ends), np.int32)
    place[order] = np.cumsum(new, dtype=np.int32) - 1
    cut = ascending[new]
    last = np.full(n, len(cut) - 1, np.int32)
    last[~endless] = place[n:] - 1
    return cut, place[:n].copy(), last


def constraint_graph(lo: I64, hi: I64) -> tuple[I32, I32]:
    """Algorithm 2: edges (from, to) between ranks, for intervals in score order. Some may come twice."""
    cut, first, last = cells(lo, hi)
    return _edges(first, last, len(cut))


def _edges(first: I32, last: I32, cuts: int) -> tuple[I32, I32]:
    above, below = np.empty((2, EDGES_EACH * len(first)), np.int32)
    count = find_edges(first, last, *no_blocks(cuts), above, below)
    return above[:count], below[:count]


def arrangement(lo: I64, hi: I64) -> I64:
    """Algorithm 1: the ranks of intervals that are in score order, in the order of the leaves."""
    cut, first, last = cells(lo, hi)
    n = len(lo)
    above, below = _edges(first, last, len(cut))
    start = pointers_of(np.bincount(above, minlength=n))
    out = sort_edges(above, below, start[:-1].copy())
    return take_in_turn(first, start, out, np.bincount(below, minlength=n).astype(np.int32))


def no_blocks(cuts: int) -> tuple[U64, I64, I32]:
    """Make a bitmap over the cuts with its summaries, where they begin, and the owners: nothing is visible yet."""
    sizes = [max(1, (cuts + 63) >> 6)]
    while sizes[-1] > 1:
        sizes.append((sizes[-1] + 63) >> 6)
    begin = pointers_of(np.array(sizes))
    return np.zeros(int(begin[-1]), np.uint64), begin, np.full(cuts + 1, NOBODY, np.int32)


@kernel
def find_edges(first: I32, last: I32, bits: U64, begin: I64, owner: I32, above: I32, below: I32) -> int:
    """Algorithm 2 over cells; returns the number of edges. A set bit is the first cell of a visible block."""
    edges, cells_there = 0, len(owner) - 1
    if cells_there:
        mark(bits, begin, 0)
    for rank in range(len(first)):
        a, b = int64(first[rank]), int64(last[rank])
        block = at_or_before(bits, begin, a)
        while True:
            of = owner[block]
            if of != NOBODY:
                above[edges], below[edges] = of, rank
                edges += 1
            following = first_after(bits, begin, block, cells_there)
            if block > a:
                unmark(bits, begin, block)
            if following > b:
                break
            block = following
        if b + 1 < following:  # the last block goes on behind the interval
            mark(bits, begin, b + 1)
            owner[b + 1] = of
        mark(bits, begin, a)
        owner[a] = rank
    return edges


@kernel
def sort_edges(above: I32, below: I32, place: I64) -> I32:
    """The ends of edges grouped by their beginnings; `place` is where those of each beginning go."""
    out = np.empty(len(below), np.int32)
    for i in range(len(above)):
        out[place[above[i]]] = below[i]
        place[above[i]] += 1
    return out


@inlined
def mark(bits: U64, begin: I64, place: int) -> None:
    """Set a bit, and those of its words in the summaries."""
    for level in range(len(begin) - 1):
        word = at(begin, level) + (place >> WORD_BITS)
        before = at(bits, word)
        bits[word] = before | (np.uint64(1) << np.uint64(place & 63))
        if before:
            return
        place >>= WORD_BITS


@inlined
def unmark(bits: U64, begin: I64, place: int) -> None:
    """Clear a bit, and that of each word that becomes empty."""
    for level in range(len(begin) - 1):
        word = at(begin, level) + (place >> WORD_BITS)
        bits[word] &= ~(np.uint64(1) << np.uint64(place & 63))
        if at(bits, word):
            return
        place >>= WORD_BITS


@inlined
def at_or_before(bits: U64, begin: I64, place: int) -> int:
    """The last set bit that is not after `place`; there is one. O(log64 of the bits)."""
    level, inside = 0, place & 63
    word = at(bits, at(begin, 0) + (place >> WORD_BITS)) & (~np.uint64(0) >> np.uint64(63 - inside))
    while not word:
        level += 1
        place >>= WORD_BITS
        inside = place & 63
        word = at(bits, at(begin, level) + (place >> WORD_BITS)) & ((np.uint64(1) << np.uint64(inside)) - np.uint64(1))
    place = (place >> WORD_BITS << WORD_BITS) + highest(word)
    while level:
        level -= 1
        place = (place << WORD_BITS) + highest(at(bits, at(begin, level) + place))
    return place


@inlined
def first_after(bits: U64, begin: I64, place: int, end: int) -> int:
    """The first set bit after `place`, or `end`. O(log64 of the bits)."""
    level, inside = 0, place & 63
    word = at(bits, at(begin, 0) + (place >> WORD_BITS)) >> np.uint64(inside) >> np.uint64(1)
    while not word:
        level += 1
        if level == len(begin) - 1:
            return end
        place >>= WORD_BITS
        inside = place & 63
        word = at(bits, at(begin, level) + (place >> WORD_BITS)) >> np.uint64(inside) >> np.uint64(1)
    place += 1 + ctz64(word)
    while level:
        level -= 1
        place = (place << WORD_BITS) + ctz64(at(bits, at(begin, level) + place))
    return place


@inlined
def highest(word: np.uint64) -> int:
    """The highest set bit of a word that is not zero."""
    for step in (1, 2, 4, 8, 16, 32):
        word |= word >> np.uint64(step)
    return popcount64(word) - 1


@kernel
def take_in_turn(first: I32, start: I64, out: I32, waiting: I32) -> I64:
    """Algorithm 1: repeatedly take, of those that wait for no other, the one that begins first (then the better)."""
    order, heap = np.empty(len(first), np.int64), [int64(0) for _ in range(0)]
    for rank in range(len(first)):
        if waiting[rank] == 0:
            heappush(heap, (int64(first[rank]) << 32) | rank)
    for place in range(len(order)):
        rank = heappop(heap) & 0xFFFFFFFF
        order[place] = rank
        for i in range(start[rank], start[rank + 1]):
            other = out[i]
            waiting[other] -= 1
            if waiting[other] == 0:
                heappush(heap, (int64(first[other]) << 32) | other)
    return order
