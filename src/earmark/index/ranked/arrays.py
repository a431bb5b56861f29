"""The flat arrays of all five scored interval indexes: lists, nodes, blocks, entries. Other modules import it as `sc`.

    list     all scored intervals of one attribute for one kind of search; has a root node
    node     of the interval tree or the segment tree; a list that is one R-tree has a single node
    block    up to 64 neighbours in order: a leaf holds entries, an inner block holds the extents of its children
    entry    a scored interval [lo, hi] of a slot, or inside an inner block a child: extent, best score, block number

The running example of the paper, as an interval tree with R-trees of branching 2 (entry = interval number, score
11 - number); an inner block is drawn as (extent: best score):

    node 0   key 55                 block 2: ([30,55]: 10) ([0,100]: 1)      block 0: 1 3     block 1: 10
      right  node 1   key 90        block 5: ([65,90]: 9) ([65,100]: 4)      block 3: 2 4     block 4: 7 8
      left   node 2   key 30        block 8: ([0,30]: 6) ([10,45]: 2)        block 6: 5 6     block 7: 9

    node         rows of (left, right, block, blocks, height): (2, 1, 2, 1, 1) (-1, -1, 5, 1, 1) ..
                 a list without a tree has height 0 and counts its blocks, which follow one another
    node_score   rows of (best below, best of its own): (10, 10) (9, 9) ..
    block_start  0 2 3 5 7 9 ..    block_fill  2 1 2 2 2 2 ..     where a block's entries are in lo, hi, score, ref
    ref          slot of an entry; child of an inner one

The segment tree keeps each interval once, in the order of its list, and per node the ascending positions:

    node i has the children 2i and 2i + 1; `cut` are the first keys of the atomic segments, the leaves
    part_start   0 0 1 4 ..        part   positions into lo, hi, score, ref, ascending, hence in score order
    part_best    the first position below a node

Invariant. Inside a node's run entries go by score descending, then sequence ascending (`info[ORDER]` marks an R-tree
with another arrangement); extents are exact bounding intervals; the best below is the maximum.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from earmark.flat.arrays import F64, I32, I64, U8

int64: Any = np.int64
"""Converts a 32-bit or literal number to 64 bits in kernels; typed loosely, since without the JIT all are alike."""

EMPTY = -1
"""No node, no block, no list."""
BUCKET = -2
"""The left child of a node that is not split: its intervals need not share a point, and are tested one by one."""
WIDEST = 64
"""The most entries of a block, because a mask of those that an event meets is one word."""
PADDING = WIDEST
"""Entries past the end of lo and hi, so that a vector load at the last block stays inside."""

# Fields of `info`.
SHAPE, ORDER, BRANCHING, LEAF, DEPTH, LEVELS, MOST_CONSTRAINTS, REGIME, ONE_CLAUSE, EXACT, LOOSE = range(11)
INFO = 11

# info[SHAPE]: how nodes are found, and what is in them.
FOREST, SEGMENTS, ENDPOINTS = 0, 1, 2
"""A tree of nodes with runs in score order; a segment tree; an interval tree with two runs sorted by endpoints."""

# info[ORDER]: for which events the entries met in a run come in score order.
ALWAYS, POINTS, NEVER = 0, 1, 2

# info[REGIME]: what the entries of the relaxed lists are sorted by.
BY_WEIGHT, BY_SUM, SHARED, ABSENT_LISTS = 0, 1, 2, 3
"""Weight (one static score everywhere); static score + weight; the exact lists serve; there are none."""

# list_of[2 * attribute + kind]: the list for exact (0) or relaxed (1) search, or EMPTY.
KINDS = 2

# Fields of `lists`, one row per list.
ATTR, ROOT, SOLE, NODES, ENTRIES, CUT_FIRST, CUT_LAST, SIZE = range(8)
LIST = 8

# Fields of `bounds`, one row per list: the least score in it, the least distance of two different scores, and
# the greatest weight of its constraints. The last row is for the whole table: greatest and least static score, and
# the greatest sum of weights of a clause.
LEAST, STEP, HEAVIEST = range(3)
STATIC_MOST, STATIC_LEAST, WEIGHTS_MOST = range(3)
BOUND = 3

# Fields of `node` and `node_score`.
LEFT, RIGHT, FIRST_BLOCK, BLOCKS, HEIGHT = range(5)
NODE = 5
BELOW, OWN = range(2)
NODE_SCORE = 2


class ScoredArrays(NamedTuple):
    """All arrays, as files store them. Columns that a shape does not use have length 0.

    `loose`: slots for exact search, from info[LOOSE] on for relaxed search.
    """

    info: I64
    lists: I64
    node_key: I64
    node: I32
    node_score: F64
    block_start: I32
    block_fill: U8
    lo: I64
    hi: I64
    score: F64
    ref: I32
    cut: I64
    part_start: I64
    part: I32
    part_best: I32
    list_of: I32
    bounds: F64
    loose: I32
    loose_score: F64
    needed: I32
    block_room: U8
    grid_start: I32
    grid: I64
    grid_used: I64
    cell_list: I64
    cell: I32
    cell_cut: I64
    cell_radix: I32
    cell_answer: F64

    def trees(self) -> Trees:
        """The arrays that getnext() reads."""
        return Trees._make(self[: len(Trees._fields)])

    def parts(self) -> ScoredParts:
        """The arrays that searches read."""
        first = len(Trees._fields)
        return ScoredParts(self.trees(), Listing._make(self[first : first + len(Listing._fields)]))


if TYPE_CHECKING:
    Trees = ScoredArrays
    Listing = ScoredArrays
else:  # the first fields of ScoredArrays: a call from Python costs time for each array that a kernel is given
    Trees = namedtuple("Trees", ScoredArrays._fields[: ScoredArrays._fields.index("list_of")])
    Listing = namedtuple("Listing", "list_of bounds loose loose_score needed")


class ScoredParts(NamedTuple):
    """What search kernels read: the trees, which getnext() reads, and what a search of several lists needs besides."""

    trees: Trees
    listing: Listing
