"""Which subscriptions match: bitmaps of who may pass, one for each bucket of values, and-ed. The project's own.

For many subscriptions over the same few dozen attributes, each on some of them and with wide ranges: neither what an
event has nor one of its values rules out much, but all of its values together do. `arrays.py` draws it, `build.py`
makes it, `search.py` asks it.

**Invariant** (`check`): every clause is one entry; a bit that is not set says that the clause fails.

**Complexity**: an event O(rows of the regions that are not ruled out, entries that pass); a build O(n log n). Space:
for each entry a bit a bucket, and 2 bytes an attribute. It is static: a table that changes is followed by a scanned
tail and a new build in time. Relaxed search is that of `scan`.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from earmark.errors import EarmarkError, require, shown
from earmark.flat.arrays import F64, I32, I64
from earmark.flat.pinned import Pinned
from earmark.index.answers import event_major, roomier
from earmark.index.bitsets.arrays import BUCKETS, WORDS, BitsetArrays, check_arrays, regions_of
from earmark.index.bitsets.build import built
from earmark.index.bitsets.search import (
    LANES,
    BitsetScratch,
    match_events,
    match_group,
    new_scratch,
    rank_events,
    rank_group,
)
from earmark.index.contract import Floor
from earmark.index.counters import MATCHED
from earmark.index.driver import FIRST_ROOM, ArrayIndex, read_only_table
from earmark.index.kernels import Asked, Matches, run
from earmark.index.marks import new_marks
from earmark.index.scan import Scan
from earmark.index.stored import check_types
from earmark.segment.arrays import SegmentArrays

MOST_BUCKETS = 255
FEW_EVENTS = 4
"""Fewer do not pay for going region by region, which looks up the rows of all buckets."""


class BitsetIndex(ArrayIndex[BitsetArrays]):
    """Bitmaps by bucket of values. Its work: nodes are regions, and the AND of 512 entries is one comparison."""

    _kind = BitsetArrays
    _match_kernel = match_events
    _rank_kernel = rank_events
    _relaxed_by_scan = True
    _lanes = LANES
    _shares_counted = False
    _check_arrays = staticmethod(check_arrays)

    def __init__(self, table: SegmentArrays, arrays: BitsetArrays) -> None:
        super().__init__(table, arrays)
        self._scan = Scan(self._table)

    @classmethod
    def build(cls, table: SegmentArrays, buckets: int = 32) -> BitsetIndex:
        """An index of all slots of a table. O(n log n).

        `buckets`: the most for one attribute; more leave fewer entries to compare, and take more memory.
        """
        if isinstance(buckets, bool) or not isinstance(buckets, Integral) or not 1 <= buckets <= MOST_BUCKETS:
            raise EarmarkError(f"expected 1 to {MOST_BUCKETS} buckets, got {shown(buckets)}")
        return cls(table, built(read_only_table(table), int(buckets)))

    def describe(self) -> dict[str, Any]:
        """What was counted, and how it is laid out."""
        arrays = self._arrays
        return {
            "attributes": len(arrays.attr),
            "buckets": int(arrays.bucket_start[-1]),
            "regions": regions_of(arrays),
            "rows": len(arrays.rows) // WORDS,
        }

    def check(self) -> None:
        """Raise AssertionError unless the arrays are those of the table. O(build)."""
        check_types(self._arrays)
        check_arrays(self._arrays, self._table)
        wanted = built(self._table, int(self._arrays.info[BUCKETS]))._asdict()
        for name, own in self._arrays._asdict().items():
            require(np.array_equal(own, wanted[name]), f"{name} is not what the table says")

    def _match_group(self, asked: Asked) -> tuple[I64, I32, I64]:
        """Region by region, all events at each; a few events go one by one."""
        lanes = asked.last - asked.first
        if lanes <= FEW_EVENTS:
            return super()._match_group(asked)
        counters, counts = np.zeros(self._counters, np.int64), np.zeros(lanes, np.int64)
        steps, scratch, found = lanes * regions_of(self._arrays), self._borrow(asked), 0
        room: I64 = np.empty(max(FIRST_ROOM, len(scratch.value.candidates)), np.int64)
        asked = asked._replace(slot=0)
        while True:
            matches = Matches(counts, room[found:], counters)
            more, step = run(match_group, self._searched, Pinned(asked), scratch, Pinned(matches))
            found += more
            if step == steps:
                break
            room, asked = roomier(room, found, step, steps), asked._replace(slot=step)
        self._give_back(scratch)
        counters[MATCHED] = found
        return counts, event_major(room[:found]), counters

    def _rank_group(self, asked: Asked, floor: Floor | None, kernel: Any) -> tuple[I64, I32, F64, I64]:
        """Many events are asked region by region."""
        if asked.last - asked.first > FEW_EVENTS and kernel is rank_events:
            kernel = rank_group
        return super()._rank_group(asked, floor, kernel)

    def _new_scratch(self) -> BitsetScratch:
        return new_scratch(self._arrays, new_marks(len(self._table.sequence)))
