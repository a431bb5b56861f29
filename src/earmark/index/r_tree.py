"""Which intervals does a value stab, best first: the scored R-tree.

ranked-pubsub, 2.1.3 and 2.2.3. The intervals in score order are the leaves of a tree of `branching`; every inner entry
has the extent of its child. A left-first search that skips extents without the value meets the stabbed intervals in
score order. Extents have holes: neighbours in score may lie anywhere, so a search may go down where nothing is
stabbed; with branching 4, the paper's example visits every node for 90. With `scored=False` the leaves are in the
order of their left ends, the tree of 2.1.3: few holes, and no order of scores; the search goes by the best score
below an extent.

    branching 4      [0,90]: 10            [0,100]: 6             [0,100]: 2
                     1 2 3 4               5 6 7 8                9 10           (number = rank, 1 is best)

Arrays: `scored/arrays.py`; a list is the run of a single node.

Invariant: leaves in score order; extents are bounding intervals.
Complexity: O(n log n) build (sorting), (1 + 2 / (branching - 1)) n space; a getnext O(n) at worst.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from earmark.index.scored.arrays import ALWAYS, FOREST, NEVER, ORDER, ScoredArrays
from earmark.index.scored.base import Options, ScoredIndex, planted
from earmark.index.scored.forest import Plan
from earmark.index.scored.lists import Lists
from earmark.segment.arrays import SegmentArrays


class RTree(ScoredIndex):
    """An R-tree for each attribute, over its intervals in score order."""

    @classmethod
    def build(
        cls,
        table: SegmentArrays,
        branching: int = 32,
        scored: bool = True,
        modes: str = "both",
        intersect: bool = False,
    ) -> Self:
        """An index of all slots of a table. `scored=False` orders by left end; the rest as for every scored index."""
        return cls._built(table, Options(branching, 0, modes, intersect, FOREST, ALWAYS if scored else NEVER))

    @classmethod
    def _grow(cls, lists: Lists, arrays: ScoredArrays, options: Options) -> ScoredArrays:
        if arrays.info[ORDER] == NEVER:
            lists = _by_left_end(lists)
        return planted(lists, arrays, Plan(False, True, options.branching, 0))


def _by_left_end(lists: Lists) -> Lists:
    number = np.repeat(np.arange(len(lists.attr)), np.diff(lists.start))
    return lists.permuted(np.lexsort((lists.lo, number)))
