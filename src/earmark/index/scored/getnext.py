"""The one-dimensional contract from Python: an iterator over the intervals that an event value meets, best first.

index.stabbed(attribute, key)          getnext() -> (slot, score) | None, as often as wanted
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from earmark.flat.types import I64
from earmark.index.scored.arrays import EMPTY, ScoredArrays, Trees
from earmark.index.scored.walk import ALL_COUNTERS, COUNT, Scratch, make_scratch, pull, set_source
from earmark.jit import kernel
from earmark.segment.arrays import SegmentArrays


class Stabbed:
    """A resumable search of one list. Each entry comes once, by score descending, then sequence ascending."""

    def __init__(self, arrays: ScoredArrays, table: SegmentArrays, which: int, lo: int, hi: int) -> None:
        self._trees, self._sequence = arrays.trees(), table.sequence
        self.counters = np.zeros(ALL_COUNTERS, np.int64)
        self._scratch = make_scratch(arrays, 0, lo != hi)
        self._begun = False
        self._which, self._lo, self._hi = which, lo, hi

    def getnext(self) -> tuple[int, float] | None:
        """The next best (slot, score), None after the last. O(log n) blocks where runs have no holes."""
        if self._which == EMPTY:
            return None
        begin, self._begun = not self._begun, True
        found, slot, score = _getnext(
            self._trees, self._scratch, self._sequence, self._which, self._lo, self._hi, begin, self.counters
        )
        return (slot, score) if found else None

    def __iter__(self) -> Iterator[tuple[int, float]]:
        while (one := self.getnext()) is not None:
            yield one


@kernel
def _getnext(
    trees: Trees, scratch: Scratch, sequence: I64, which: int, lo: int, hi: int, begin: bool, work: I64
) -> tuple[bool, int, float]:
    if begin:
        set_source(trees.info, scratch.source, 0, which, lo, hi, 0, 0)
    if begin or scratch.source[COUNT] > 0:
        pull(trees, scratch, sequence, 0, begin, work)
    return scratch.source[COUNT] > 0, scratch.heap_slot[0], scratch.heap_score[0]
