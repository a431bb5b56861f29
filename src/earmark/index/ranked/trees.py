"""Which intervals does a value stab, best first: the interval tree, the segment tree and the R-tree, scored.

ranked-pubsub, section 2: the structures that are known, with scores. `ir_tree.py` and `sopt_r_tree.py` are those of
section 3. Arrays: `arrays.py`. The paper's ten intervals (number = rank) are the example of each.
"""

from __future__ import annotations

from typing import Self

import numpy as np

import earmark.index.ranked.arrays as sc
from earmark.errors import EarmarkError, require
from earmark.flat.arrays import I32, I64
from earmark.index.ranked.arrays import ScoredArrays, int64
from earmark.index.ranked.base import ScoredIndex, ScoredOptions
from earmark.index.ranked.forest import TreePlan, planted
from earmark.index.ranked.lists import ScoredLists
from earmark.index.ranked.sopt_r_tree import cells
from earmark.jit import inlined, kernel
from earmark.segment.arrays import SegmentArrays

SORTS = {"score": sc.FOREST, "endpoint": sc.ENDPOINTS}
MOST_REFERENCES = 2**31 - 1
NOTHING: I32 = np.empty(0, np.int32)


class IntervalTree(ScoredIndex):
    """An interval tree for each attribute, its runs read in turn.

    ranked-pubsub, 2.1.1 and 2.2.2. A node has a key, the median endpoint of the intervals that reached it, and a
    run of those that the key stabs; the others are entirely left or right of it. The run is sorted by score, and
    read from its best entry on, skipping what the value does not stab; the runs along the path of the value are
    merged by a heap. With `sort="endpoint"` it is the conventional tree: two runs per node, by left and by right end,
    so that the stabbed ones are a prefix, all of which are collected and ranked.

    The paper's ten intervals (number = rank), without buckets:

        key 55: 1 [30,55]  3 [45,55]  10 [0,100]            a value of 80 reads  1 3 10  and  2 4 7 8
          left   key 30: 5 [10,30]  6 [0,30]  9 [10,45]     stabbed, in order of the heap:  2 4 7 8 10
          right  key 90: 2 [75,90]  4 [65,90]  7 [75,100]  8 [65,100]

    In the arrays, each interval is in one run.

    Invariant: a node's key stabs its intervals; runs are in score order; every interval left of a key ends before it,
    right of it begins after it.
    Complexity: O(n log n) build, O(n) space; the k best in O(log n + k log log n + intervals of the path that are not
    stabbed and score better).

    We differ: small sets stay together in a bucket and are not split; the heap holds nodes by their best score
    before they are opened, so that of a path only what is due is read; an interval event opens both sides where it
    must.
    """

    shapes = (sc.FOREST, sc.ENDPOINTS)
    keyed = True

    @classmethod
    def build(
        cls, table: SegmentArrays, sort: str = "score", leaf: int = 16, modes: str = "both", intersect: bool = False
    ) -> Self:
        """Build an index of all slots of a table. `sort` is "score" or "endpoint"; the rest: see `ScoredOptions`."""
        if sort not in SORTS:
            raise EarmarkError(f"expected sort to be 'score' or 'endpoint', got {sort!r}")
        return cls._built(table, ScoredOptions(sc.WIDEST, leaf, modes, intersect, SORTS[sort]))

    @classmethod
    def _grow(cls, lists: ScoredLists, arrays: ScoredArrays, options: ScoredOptions) -> ScoredArrays:
        endpoints = options.shape == sc.ENDPOINTS
        return planted(lists, arrays, TreePlan(True, False, options.branching, options.leaf, endpoints))


class SegmentTree(ScoredIndex):
    """A segment tree for each attribute.

    ranked-pubsub, 2.1.2 and 2.2.1. The endpoints cut the line into atomic segments, the leaves of a balanced binary
    tree; an interval is stored at the highest nodes whose extents it covers, at most two per level. Whatever is
    stored on the path of a value is stabbed by it, so a search has nothing to skip: each node's part is in score
    order, and a heap merges the path. The price is space: an interval of a million is stored up to forty times.

        cuts 0 10 30 31 46 ..       value 20: leaf [10, 29]       path: its part, its parent's, .., the root's

    In the arrays, entries are in score order, a node's part is a list of their positions.

    Invariant: the nodes of an interval are disjoint, their extents make up the interval, and no two of them are
    siblings; parts ascend.
    Complexity: O(n log n) build, time and space; the k best in O(log n + k log log n).

    We differ: closed intervals of keys have the cuts lo and hi + 1, so that a leaf is a set of keys and not a pair of
    endpoints; an interval event opens all nodes it reaches, by their best score, and takes an interval only where the
    leftmost of its nodes is in reach, so that each comes once.
    """

    shapes = (sc.SEGMENTS,)

    @classmethod
    def build(cls, table: SegmentArrays, modes: str = "both", intersect: bool = False) -> Self:
        """Build an index of all slots of a table; for the options see `ScoredOptions`. O(n log n) time and space."""
        return cls._built(table, ScoredOptions(2, 0, modes, intersect, sc.SEGMENTS))

    @property
    def references(self) -> int:
        """The number of references to intervals that the nodes store."""
        return len(self._arrays.part)

    @classmethod
    def _grow(cls, lists: ScoredLists, arrays: ScoredArrays, options: ScoredOptions) -> ScoredArrays:
        rows, info = arrays.lists.reshape(-1, sc.LIST).copy(), arrays.info.copy()
        info[sc.LEVELS] = 1
        starts, parts, bests, cuts = [np.zeros(1, np.int64)], [NOTHING], [NOTHING], [np.empty(0, np.int64)]
        nodes = stored = cut_count = 0
        for number in range(len(lists.attr)):
            begin, entries = int(lists.start[number]), lists.entries(number)
            cut, first, last = cells(entries.lo, entries.hi)
            size = 1 << max(0, len(cut) - 1).bit_length()
            start, part, best = parts_of(first, last, size, MOST_REFERENCES - stored)
            if stored + start[-1] > MOST_REFERENCES:
                raise EarmarkError("a segment tree of these intervals has too many references: use 'sopt_r_tree'")
            rows[number, [sc.ROOT, sc.SIZE, sc.NODES]] = nodes, size, 2 * size
            rows[number, [sc.CUT_FIRST, sc.CUT_LAST]] = cut_count, cut_count + len(cut)
            info[sc.DEPTH] = max(info[sc.DEPTH], size.bit_length())
            # The offset that closes a list is the first of the next, whose node 0 is not used.
            starts.append(stored + start[1:])
            part += begin
            best[best != sc.EMPTY] += begin
            parts.append(part)
            bests.append(best)
            cuts.append(cut)
            nodes, stored, cut_count = nodes + 2 * size, stored + len(part), cut_count + len(cut)
        padding = np.zeros(sc.PADDING, np.int64)
        return arrays._replace(
            info=info,
            lists=rows.ravel(),
            lo=np.concatenate([lists.lo, padding]),
            hi=np.concatenate([lists.hi, padding]),
            score=lists.score,
            ref=lists.slot,
            cut=np.concatenate(cuts),
            part_start=np.concatenate(starts),
            part=np.concatenate(parts),
            part_best=np.concatenate(bests),
        )

    def check(self) -> None:
        """Also raise AssertionError unless the nodes of each interval cover exactly it, with as few as possible."""
        super().check()
        arrays = self._arrays
        for row in arrays.lists.reshape(-1, sc.LIST):
            root, size = int(row[sc.ROOT]), int(row[sc.SIZE])
            cut = arrays.cut[row[sc.CUT_FIRST] : row[sc.CUT_LAST]]
            start = arrays.part_start[root : root + 2 * size + 1]
            part = arrays.part[start[0] : start[-1]]
            require(start[0] == start[1], "a part belongs to no node")
            owner = np.repeat(np.arange(2 * size), np.diff(start))
            inside = owner[1:] == owner[:-1]
            require(bool((part[1:][inside] > part[:-1][inside]).all()), "a part does not ascend")
            level = np.frexp(owner)[1] - 1
            width = size >> level
            first = (owner << (size.bit_length() - 1 - level)) - size
            low = np.searchsorted(cut, arrays.lo[part])
            high = np.searchsorted(cut, arrays.hi[part], "right")
            require(bool(((low <= first) & (first + width <= high)).all()), "a node is not inside its interval")
            covered = np.zeros(len(arrays.score), np.int64)
            np.add.at(covered, part, width)
            require(bool((covered[part] == high - low).all()), "the nodes of an interval do not make it up")
            pairs = np.unique(np.stack([part.astype(np.int64), owner >> 1]), axis=1, return_counts=True)[1]
            require(bool((pairs == 1).all()), "an interval is at two siblings")


@kernel
def parts_of(first: I32, last: I32, size: int, most: int) -> tuple[I64, I32, I32]:
    """Where the part of each node begins, the parts, and for each node the first position below it.

    Positions are counted, then (unless they are more than `most`) written in order, so that parts ascend.
    """
    start, place, part = np.zeros(2 * size + 1, np.int64), np.zeros(2 * size, np.int64), np.empty(0, np.int32)
    best = np.full(2 * size, sc.EMPTY, np.int32)
    for written in range(2):
        for i in range(len(first)):
            left, right = int64(first[i]) + size, int64(last[i]) + 1 + size
            while left < right:
                if left & 1:
                    put_part(i, left, place, part, best)
                    left += 1
                if right & 1:
                    right -= 1
                    put_part(i, right, place, part, best)
                left >>= 1
                right >>= 1
        if not written:
            start[1:] = np.cumsum(place)
            if start[-1] > most:
                break
            place, part = start[:-1].copy(), np.empty(start[-1], np.int32)
    for node in range(size - 1, 0, -1):
        for child in range(2 * node, 2 * node + 2):
            if best[child] >= 0 and (best[node] < 0 or best[child] < best[node]):
                best[node] = best[child]
    return start, part, best


@inlined
def put_part(i: int, node: int, place: I64, part: I32, best: I32) -> None:
    """Count position i for a node, or append it to the node's part if there is room."""
    if len(part):
        part[place[node]] = i
    place[node] += 1
    if best[node] < 0:
        best[node] = i


class RTree(ScoredIndex):
    """An R-tree for each attribute, over its intervals in score order.

    ranked-pubsub, 2.1.3 and 2.2.3. The intervals in score order are the leaves of a tree of `branching`; every
    inner entry has the extent of its child. A left-first search that skips extents without the value meets the
    stabbed intervals in score order. Extents have holes: neighbours in score may be anywhere, so a search may go
    down where nothing is stabbed; with branching 4, the paper's example visits every node for 90. With
    `scored=False` the leaves are in the order of their left ends, the tree of 2.1.3: few holes, and no order of
    scores; the search goes by the best score below an extent.

        branching 4      [30,90]: 10           [0,100]: 6             [0,100]: 2
                         1 2 3 4               5 6 7 8                9 10           (number = rank, 1 is best)

    In the arrays, a list is the run of a single node.

    Invariant: leaves in score order; extents are bounding intervals.
    Complexity: O(n log n) build (sorting), (1 + 2 / (branching - 1)) n space; a getnext O(n) at worst.
    """

    @classmethod
    def build(
        cls,
        table: SegmentArrays,
        branching: int = 32,
        scored: bool = True,
        modes: str = "both",
        intersect: bool = False,
    ) -> Self:
        """Build an index of all slots of a table. `scored=False` orders by left end; the rest: see `ScoredOptions`."""
        order = sc.ALWAYS if scored else sc.NEVER
        return cls._built(table, ScoredOptions(branching, 0, modes, intersect, sc.FOREST, order))

    @classmethod
    def _grow(cls, lists: ScoredLists, arrays: ScoredArrays, options: ScoredOptions) -> ScoredArrays:
        if arrays.info[sc.ORDER] == sc.NEVER:
            number = np.repeat(np.arange(len(lists.attr)), np.diff(lists.start))
            lists = lists.permuted(np.lexsort((lists.lo, number)))
        return planted(lists, arrays, TreePlan(False, True, options.branching, 0))
