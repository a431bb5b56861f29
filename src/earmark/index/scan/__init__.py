"""Which subscriptions match: look at every one of them. The oracle and the baseline, as an ordinary index.

It has no structure of its own: it reads the table's arrays, so building is free, memory is zero and a live update
costs nothing. What makes it quick is the other side. Up to 512 events are laid out as lanes of a mask, and each
subscription meets all of them at once (`search.py`): a constraint is two look-ups, a clause a few 512-bit ANDs, and
the table streams through the cache once a group instead of once an event.

Invariant: none beyond the table's own, which `check` verifies.

Complexity: for a group of g <= 512 events over n eligible slots of c constraints, O(n c log g) worst case and
mostly O(n), as few clauses survive their first constraints; plus the matches. Space: O(values in the group).

Extended (interval) events take the same path as points.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from earmark.flat.arrays import I32, U8
from earmark.flat.pinned import Pinned
from earmark.index.driver import ArrayIndex
from earmark.index.kernels import Asked
from earmark.index.scan.search import LANES, Lanes, lay_out, match_group, match_one, rank_group
from earmark.segment.arrays import SegmentArrays, check_arrays


class Scan(ArrayIndex[tuple[()]]):
    """Every eligible subscription against every event.

    Slots below `first` are left out.
    Its work: a comparison serves all lanes of a group and counts once.
    """

    is_updatable = True
    _match_kernel = match_group
    _rank_kernel = rank_group
    _one_kernel = match_one
    _slot_major = True
    _lanes = LANES

    def __init__(self, table: SegmentArrays, first: int = 0) -> None:
        super().__init__(table, ())
        self._first_slot = first

    @classmethod
    def build(cls, table: SegmentArrays) -> Scan:
        """A scan of this table. O(1)."""
        return cls(table)

    @classmethod
    def restore(cls, table: SegmentArrays, arrays: Mapping[str, NDArray[Any]]) -> Scan:
        """A scan of this table: it has no arrays of its own to take back."""
        return cls(table)

    def copy(self) -> Scan:
        """Another scan of the same table. O(1)."""
        return Scan(self._table, self._first_slot)

    def insert(self, table: SegmentArrays, slots: I32) -> None:
        """Follow the table as it grows. O(1)."""
        self._hold(table, ())

    def remove(self, slots: I32) -> None:
        """Nothing to do: removed slots are not eligible."""

    def check(self) -> None:
        """Raise AssertionError unless the table's arrays are well formed. O(table)."""
        check_arrays(self._table, int(self._table.attr.max(initial=-1)) + 1)

    def _new_scratch(self) -> U8:
        """Nothing: a single event needs none."""
        return np.empty(0, np.uint8)

    def _borrow(self, asked: Asked) -> Pinned:
        """The events as lanes."""
        return Pinned(lay_out(asked.events, asked.first, asked.last))

    def _give_back(self, scratch: Pinned) -> None:
        """Lanes are laid out for each group again."""
        if not isinstance(scratch.value, Lanes):
            super()._give_back(scratch)
