"""Which intervals does a value stab, best first: the scored interval tree.

ranked-pubsub, 2.1.1 and 2.2.2. A node has a key, the median endpoint of the intervals that reached it, and a run of
those that the key stabs; the others are entirely left or right of it. The run is sorted by score, and read from its
best entry on, skipping what the value does not stab; the runs along the path of the value are merged by a heap. With
`sort="endpoint"` it is the conventional tree: two runs a node, by left and by right end, so that the stabbed ones are
a prefix, all of which are collected and ranked.

The paper's ten intervals (number = rank), without buckets:

    key 55: 1 [30,55]  3 [45,55]  10 [0,100]            a value of 80 reads  1 3 10  and  2 4 7 8
      left   key 30: 5 [10,30]  6 [0,30]  9 [10,45]     stabbed, in order of the heap:  2 4 7 8 10
      right  key 90: 2 [75,90]  4 [65,90]  7 [75,100]  8 [65,100]

Arrays: `scored/arrays.py`; each interval is in one run.

Invariant: a node's key stabs its intervals; runs are in score order; every interval left of a key ends before it,
right of it begins after it.
Complexity: O(n log n) build, O(n) space; the k best in O(log n + k log log n + intervals of the path that are not
stabbed and score better).

We differ: small sets stay together in a bucket, not split to the end; the heap holds nodes by their best score before
they are opened, so that of a path only what is due is read; an interval event opens both sides where it must.
"""

from __future__ import annotations

from typing import Self

from earmark.errors import EarmarkError
from earmark.index.scored.arrays import ENDPOINTS, FOREST, WIDEST, ScoredArrays
from earmark.index.scored.base import Options, ScoredIndex, planted
from earmark.index.scored.forest import Plan
from earmark.index.scored.lists import Lists
from earmark.segment.arrays import SegmentArrays

SORTS = {"score": FOREST, "endpoint": ENDPOINTS}


class IntervalTree(ScoredIndex):
    """An interval tree for each attribute, its runs read in turn."""

    shapes = (FOREST, ENDPOINTS)
    keyed = True

    @classmethod
    def build(
        cls,
        table: SegmentArrays,
        sort: str = "score",
        leaf: int = 16,
        modes: str = "both",
        intersect: bool = False,
    ) -> Self:
        """An index of all slots of a table. `sort` is "score" or "endpoint"; the rest as for every scored index."""
        if sort not in SORTS:
            raise EarmarkError(f"sort is 'score' or 'endpoint', not {sort!r}.")
        return cls._built(table, Options(WIDEST, leaf, modes, intersect, SORTS[sort]))

    @classmethod
    def _grow(cls, lists: Lists, arrays: ScoredArrays, options: Options) -> ScoredArrays:
        endpoints = options.shape == ENDPOINTS
        return planted(lists, arrays, Plan(True, False, options.branching, options.leaf, endpoints))
