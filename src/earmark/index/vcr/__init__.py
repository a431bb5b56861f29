"""Which of many overlapping rectangles an event is in: VCR indexing (vcr.txt), as a first stage for any table.

Subscriptions become rectangles on a grid over two attributes, rectangles are cut into *virtual construct rectangles*
(`rectangles.py`), and each VCR has a list of slots. An event looks into the lists of the VCRs that cover it, which it
finds by adding one precomputed table of distances to the ID of its pivot (`search.py`). `arrays.py` draws the arrays;
`plan.py` chooses pair, grid, longest sides and store from the data; `build.py` fills the lists.

**Invariant** (`check`): an event that a slot matches is in one of the slot's VCRs, or the slot is residual. Every
list entry is a VCR of its slot's own decomposition, and every VCR of the decomposition has its entry, once for each
time it occurs. An entry that is not `maybe` needs no second look.

**Complexity**, Lx, Ly the longest sides, m matches: a search O(Ly log Lx + m) with the array store, O(Lx Ly + m)
hashed, and what the residual costs to scan. Space: 4 bytes for each entry and for each VCR of the grid (array) or 12
for each place of the hash table. On the paper's data a rectangle has 5 to 10 entries with longest sides of 16 or 8;
`plan.py` chooses shorter ones for speed, which make 40 entries of a rectangle among 8,000, and 13 among 128,000. An
insert O(pieces + delta), a removal O(1) and no list is walked: the slot is not eligible any more, and its entries leave
when half of the entries are such.

**Where we differ from the paper.**
- Coordinates are *cells* between the bounds that occur, closed below and open above, so a rectangle of w by h cells is
  never empty: Fig. 2 cuts an equality (w = 0) into nothing. The paper's closed grid points are `mode="points"`.
- Values are ranks among those bounds, so any type of attribute and unbounded ranges fit, without a range R given. Where
  there are more bounds than cells, a rectangle grows to whole cells and is verified.
- The array store numbers VCRs by shape first, not by corner (Eq. 1), so that the covering VCRs of one row and shape
  are one run of one array. `numbering="corner"` is Eq. (1), and the default of the hashed store.
- Lists are arrays, built in bulk; later slots go to a small hashed delta of linked lists, which is merged in time.
- More than two attributes, several clauses, several intervals, NULL and interval events: see `build.py`.
- Ranked search scores what matches; *relaxed* search, in which any constraint may hold, is that of `scan`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import earmark.index.vcr.arrays as vc
from earmark.flat import bits
from earmark.flat.arrays import I32, U64
from earmark.index.marks import MAYBE
from earmark.index.staged import StagedIndex
from earmark.index.vcr.arrays import VcrArrays, VcrOptions
from earmark.index.vcr.build import built, check_lists, checked_options, extended, gone_with
from earmark.index.vcr.search import match_events
from earmark.segment.arrays import SegmentArrays

GONE_SHARE = 1 / 2
"""Share of the slots on the grid after whose removal their entries are dropped."""
FEWEST_GONE = 64


class VcrIndex(StagedIndex[VcrArrays]):
    """Slots by the virtual construct rectangles of two of their constraints."""

    _kind = VcrArrays
    _match_kernel = match_events
    _check_arrays = staticmethod(vc.check_arrays)
    _check_lists = staticmethod(check_lists)

    def _slots(self) -> int:
        return int(self._arrays.info[vc.SLOTS])

    # --- making ----------------------------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        table: SegmentArrays,
        *,
        attributes: tuple[int, ...] | None = None,
        longest: tuple[int, int] | None = None,
        cells: tuple[int, int] | None = None,
        mode: str = "cells",
        decomposition: str | None = None,
        store: str | None = None,
        numbering: str | None = None,
        hash_size: int | None = None,
    ) -> VcrIndex:
        """An index of all slots of a table; what is not given is chosen from the data.

        `attributes`: one or two attribute numbers. `longest`: Lx and Ly, powers of two. `cells`: the most
        cells on each axis. `mode`: "cells" or the paper's "points". `decomposition`: "simple" or "overlapped".
        `store`: "array" or "hashed", with `hash_size` places. `numbering`: "corner" is Eq. (1), "shape" has long runs.
        """
        named = {"mode": mode, "decomposition": decomposition, "store": store, "numbering": numbering}
        options = checked_options(attributes, longest, cells, hash_size, **named)
        slots = np.arange(len(table.clause_start) - 1, dtype=np.int32)
        return cls(table, built(table, slots, options))

    # --- looking at it ---------------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """What was chosen: attributes (by number), cells, longest sides, store, and the share on the grid."""
        arrays, info, late = self._arrays, self._arrays.info, len(self._arrays.late_entry)
        placed, scanned = int(info[vc.PLACED] + info[vc.LATE_SLOTS]), bits.count(arrays.residual)
        return {
            "attributes": [int(info[field]) for field in (vc.ATTR_X, vc.ATTR_Y) if info[field] != vc.NO_ATTRIBUTE],
            "cells": [len(arrays.cut_x), len(arrays.cut_y)],
            "longest": [1 << int(info[vc.KX]), 1 << int(info[vc.KY])],
            "mode": vc.MODES[info[vc.MODE]],
            "decomposition": vc.DECOMPOSITIONS[info[vc.IS_OVERLAPPED]],
            "store": vc.STORES[info[vc.STORE]],
            "numbering": vc.NUMBERINGS[info[vc.NUMBERING]],
            "activated": vc.activated(arrays),
            "entries": len(arrays.entry) + late,
            "entries_to_verify": int((arrays.entry >= MAYBE).sum()),
            "late_entries": late,
            "on_grid": placed,
            "scanned": scanned,
            "share_on_grid": placed / (placed + scanned) if placed + scanned else 0.0,
        }

    # --- changing --------------------------------------------------------------------------------------------

    def insert(self, table: SegmentArrays, slots: I32) -> None:
        """Take in new slots: their VCRs go to the heads of the delta's lists. O(pieces + delta), amortised."""
        arrays = extended(table, self._arrays, np.asarray(slots, np.int32))
        if arrays is None:
            self._rebuild(table, gone_with(self._arrays, table, slots))
        else:
            self._hold(table, arrays)

    def remove(self, slots: I32) -> None:
        """Forget slots. No list is walked: entries stay until many are of slots that are gone. O(slots / 64)."""
        old = self._arrays
        gone = bits.set_slots(old.gone, np.asarray(slots, np.int32))
        entries_of = int(old.info[vc.PLACED] + old.info[vc.LATE_SLOTS])
        if bits.count(gone) - int(old.info[vc.GONE_BEFORE]) > max(FEWEST_GONE, GONE_SHARE * entries_of):
            self._rebuild(self._table, gone)
        else:
            self._hold(self._table, old._replace(gone=gone, residual=old.residual & ~gone))

    def _rebuild(self, table: SegmentArrays, gone: U64) -> None:
        """Build again without the slots that are gone, with what the data now suggests."""
        here = np.setdiff1d(np.arange(len(table.clause_start) - 1, dtype=np.int32), bits.to_slots(gone))
        self._hold(table, built(table, here, VcrOptions._make(self._arrays.options.tolist())))
