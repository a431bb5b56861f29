"""Which subscriptions match: blocks of 64 compared at once, under boxes compared at once. The project's own engine.

Not a paper's structure. Clauses are grouped by *what* they constrain before any value is looked at, and values are
codes of 16 bits, so that one instruction compares 64 clauses. Many clauses on the same attributes are trees of blocks;
sets of attributes that few clauses have are found by pairs of attributes. `arrays.py` draws it, `axes.py` has the
codes, `build.py` makes it, `search.py` asks it.

**Invariant** (`check`): every clause is one entry, of a tree or of a bucket. Where codes do not decide alone (several
intervals, more ends than codes), the entry is marked, and the clause is verified in the table.

**Complexity**: an event O(trees, pairs of its attributes, blocks not ruled out, matches); a build O(n log n). Space:
4 bytes a constraint in a tree, 6 in a bucket, and 16 to 32 a clause. It is static: a table that changes is followed
by a scanned tail and a new build in time.

**Where a scan is quicker.** Clauses on many different sets of attributes, met by events that have all of these, are
neither ruled out by their attributes nor many enough of a kind for trees; a scan of a whole batch is then quicker. A
few events of a large batch show how much work they are, and the batch goes to `scan` if that is more than a scan would
be. Relaxed search is that of `scan` always.

**The events of a batch** are asked in an order in which each finds in the cache what the one before has read: those
that have the same attributes come together, and among these, events with near keys: the keys of the attributes that
most clauses constrain, as one of 8 parts each, bit by bit in turn (Morton). On five dense attributes, a million
subscriptions and a thousand events this halves the time of a batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from earmark.errors import require
from earmark.events.arrays import EventArrays
from earmark.events.choice import some_events
from earmark.flat.arrays import I32
from earmark.index.blocks.arrays import BLOCKS, LOOSE, PAIR, VACANT, BlockArrays, check_arrays
from earmark.index.blocks.axes import MIX, new_query
from earmark.index.blocks.build import built
from earmark.index.blocks.search import BlockScratch, match_events, rank_events
from earmark.index.contract import Work
from earmark.index.driver import ArrayIndex, read_only_table
from earmark.index.kernels import Asked
from earmark.index.marks import new_marks
from earmark.index.scan import Scan
from earmark.index.scan.search import LANES as SCAN_LANES
from earmark.index.stored import check_types
from earmark.segment.arrays import SegmentArrays

ASKED_FROM, TRIED = 128, 4
"""The smallest batch of which some events are tried, to see whether a scan would be quicker; and how many are."""
FEWEST_EVENTS = 16
"""Fewer are asked as they come."""
SMALL = 4_096
"""A table of fewer slots is searched as it is: its blocks stay in the cache, and deciding how costs as much."""
MOST_ATTRIBUTES, BITS = 4, 3
"""Attributes whose keys decide which events are near, and the bits of each."""
LEAF, COMPARISON, CLAUSE, SCANNED = 40, 2, 20, 100
"""Nanoseconds, roughly: a block, a comparison, a loose clause; and a slot in the scan of a whole group of events."""


class BlockIndex(ArrayIndex[BlockArrays]):
    """Clauses in blocks of 64. Its work: a vector comparison serves 64 clauses and counts once."""

    _kind = BlockArrays
    _match_kernel = match_events
    _rank_kernel = rank_events
    _relaxed_by_scan = True
    _check_arrays = staticmethod(check_arrays)

    def __init__(self, table: SegmentArrays, arrays: BlockArrays) -> None:
        super().__init__(table, arrays)
        self._scan = Scan(self._table)
        constrained = np.repeat(arrays.tree_size, np.diff(arrays.tree_axis_start))
        used = np.bincount(arrays.axis_attr[arrays.tree_axis], constrained)
        self._by_use = np.argsort(-used, kind="stable")[: np.count_nonzero(used)]
        """The attributes that clauses in trees constrain, the most constrained first."""

    @classmethod
    def build(cls, table: SegmentArrays) -> BlockIndex:
        """An index of all slots of a table. O(n log n)."""
        return cls(table, built(read_only_table(table)))

    def describe(self) -> dict[str, Any]:
        """How the clauses are laid out."""
        arrays = self._arrays
        return {
            "axes": len(arrays.axis_attr),
            "inexact_axes": int((arrays.axis_exact == 0).sum()),
            "trees": len(arrays.tree_size),
            "in_trees": int(arrays.tree_size.sum()),
            "blocks": int(arrays.info[BLOCKS]),
            "loose": int(arrays.info[LOOSE]),
            "buckets": int((arrays.pairs[::PAIR] != VACANT).sum()),
        }

    def check(self) -> None:
        """Raise AssertionError unless the arrays are those of the table. O(build)."""
        check_types(self._arrays)
        check_arrays(self._arrays, self._table)
        wanted = built(self._table)._asdict()
        for name, own in self._arrays._asdict().items():
            require(np.array_equal(own, wanted[name]), f"{name} is not what the table says")

    def _order(self, events: EventArrays) -> I32 | None:
        """The numbers of the events, near ones together. O(values + events log events)."""
        count = len(events.start) - 1
        if count < FEWEST_EVENTS or len(self._table.sequence) < SMALL:
            return None
        first, last = int(events.start[0]), int(events.start[-1])
        attr, keys = events.attr[first:last], events.lo[first:last]
        parts = np.zeros((MOST_ATTRIBUTES, count), np.uint16)
        event_of = np.repeat(np.arange(count), np.diff(events.start))
        for row, attribute in zip(parts, self._by_use[:MOST_ATTRIBUTES].tolist(), strict=False):
            own = np.flatnonzero(attr == attribute)
            order = np.argsort(keys[own])
            row[event_of[own[order]]] = (np.arange(len(own)) << BITS) // max(1, len(own))
        near: NDArray[Any] = np.zeros(count, np.uint16)
        for bit in reversed(range(BITS)):
            for row in parts:
                near = near << 1 | row >> bit & 1
        so_far = np.zeros(len(events.attr) + 1, np.uint64)  # equal sets of attributes have equal numbers
        mixed = (events.attr.astype(np.uint64) + np.uint64(1)) * np.uint64(MIX)
        np.bitwise_xor.accumulate(mixed ^ mixed >> np.uint64(29), out=so_far[1:])
        sets = so_far[events.start[1:]] ^ so_far[events.start[:-1]]
        if (sets == sets[0]).all():
            return np.argsort(near, kind="stable").astype(np.int32)  # by radix: 16 bits
        return np.lexsort((near, sets)).astype(np.int32)

    def _scan_is_quicker(self, asked: Asked) -> bool:
        """Whether the work of a few events says so, by what each kind of step costs. Small batches are not asked."""
        count = asked.last - asked.first
        if count < ASKED_FROM or len(self._table.sequence) < SMALL:
            return False
        few = some_events(asked.events, np.arange(0, count, -(-count // TRIED)))
        tried = asked._replace(events=few, first=0, last=len(few.start) - 1)
        work = Work.counted(self._ranks(tried, None)[-1] if asked.k else self._matches(tried)[-1])
        steps = 1 * work.nodes + LEAF * work.leaves + COMPARISON * work.compared + CLAUSE * work.candidates
        return steps / tried.last > SCANNED * len(self._table.sequence) / min(count, SCAN_LANES)

    def _new_scratch(self) -> BlockScratch:
        arrays = self._arrays
        most = max(int(arrays.tree_size.max(initial=0)), int(arrays.info[LOOSE]))
        hits, trees = np.empty(most, np.int32), np.empty(len(arrays.tree_size), np.int32)
        return BlockScratch(new_query(arrays), hits, *new_marks(len(self._table.sequence)), trees)
