"""A first stage that finds candidates, and a scan for the slots it does not hold: what such indexes have in common.

    eligible slots  =  those in the lists of the structure        +  `residual`, which are scanned
                       found, verified, marked (`marks.py`)           512 events at a time, or one

Ranked search scores what matches; *relaxed* search, in which any constraint may hold, is that of `scan`.

Invariant: an event that a slot matches finds it in the structure, or the slot is residual.
Complexity: that of the structure, and of a scan of the residual.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Self

import numpy as np

from earmark.flat import bits
from earmark.flat.arrays import U64
from earmark.index.driver import A, ArrayIndex
from earmark.index.marks import scratch_words
from earmark.index.scan import Scan
from earmark.index.stored import check_types
from earmark.segment.arrays import SegmentArrays


class StagedIndex(ArrayIndex[A], Generic[A]):
    """An index whose arrays have a bitmap `residual`. Its arrays are never changed in place, so a copy is free.

    Its work: nodes are lists looked up; a clause that is verified counts all its constraints.
    """

    is_updatable = True
    _relaxed_by_scan = True
    _check_lists: ClassVar[Any]
    """(table, arrays): AssertionError unless the lists are those of the table."""

    def _hold(self, table: SegmentArrays, arrays: A) -> None:
        super()._hold(table, arrays)
        self._scan = Scan(self._table)
        residual: U64 = self._arrays.residual  # type: ignore[attr-defined]
        self._residual = residual if residual.any() else None

    def copy(self) -> Self:
        """An index of its own. O(1)."""
        return type(self)(self._table, self._arrays)

    def check(self) -> None:
        """Raise AssertionError unless the lists are exactly those of the slots' decompositions. O(size)."""
        check_types(self._arrays)
        self._check_arrays(self._arrays, self._table)
        self._check_lists(self._table, self._arrays)

    def _slots(self) -> int:
        """How many slots the index knows, of those that its table has."""
        raise NotImplementedError

    def _known(self, eligible: U64) -> U64:
        slots = self._slots()
        return eligible if slots == len(self._table.sequence) else bits.both(eligible, bits.all_set(slots))

    def _new_scratch(self) -> U64:
        return np.zeros(scratch_words(len(self._table.sequence)), np.uint64)
