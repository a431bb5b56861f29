"""Which subscriptions lie around an event's cell on Hilbert's curve: Subscription Indexing (mics.txt, section 5).

A few attributes, the most selective, span a space of cells. A clause is a box of cells there, the box a few ranges of
numbers on Hilbert's curve, and the ranges lead to lists of slots. An event lies in one cell: its number is looked up
once, the lists found there are candidates, and each is verified exactly. `arrays.py` draws it, `plan.py` chooses
attributes and cells, `build.py` fills the lists, `search.py` searches.

**Invariant** (`check`): an event that a slot matches lies in a block of the slot, or the slot is residual. The lists
are exactly those of the slots' decompositions.

**Complexity**, d axes of 2^b cells, n blocks, c candidates: a search O(d b + log n + c), in practice one jump and a few
steps instead of log n; what the residual costs to scan comes on top. Space: 20 bytes for each entry and for each block.
An insert O(entries), at the speed of memory, so slots are inserted in groups (`live.py`).

**Where we differ from the paper.**
- A leaf of the paper's tree is a range with the subscriptions it came from; where ranges of different subscriptions
  overlap, either leaves overlap or lists are copied into every part. Here ranges are cut at powers of two: such blocks
  are disjoint or nested, every entry is stored once, and a look-up follows one chain of parents.
- The number of ranges of a clause is bounded: larger cells, found by Equation (3), instead of more ranges.
- No domain is given: cells are learned, by default variable ones (section 6.3), from the bounds of the subscriptions,
  or from events (`adapt`, or `events=`). Cell 0 of each axis is NULL.
- Attributes are chosen one after the other by what each still adds, not each by itself.
- Between the lists and the table stands a sieve: two words with each entry that rule most candidates out, and for many
  slots say all there is to say, so that a match needs no look at the table.
- Several clauses, several intervals (their hull is the box), NULL and interval events are all in the lists. A slot that
  an eighth of the space is left of is not: it is scanned with others like it.
- Ranked search scores what matches; *relaxed* search, in which any constraint may hold, is that of `scan`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.curves.space import Space, boxes_of_clauses
from earmark.errors import require
from earmark.index.contract import Work
from earmark.index.given import read_only_table
from earmark.index.marks import COUNTERS, NODES
from earmark.index.mics.arrays import (
    BASE,
    BOUNDS,
    EVENTS,
    LEARNED_FROM,
    SLOTS,
    MicsArrays,
    check_arrays,
    described,
    space_in,
)
from earmark.index.mics.build import assembled, check_lists, extended, options_of, place, without
from earmark.index.mics.plan import MOST_AXES, MOST_PIECES, Options, checked_options, planned
from earmark.index.mics.search import match_events, meet_boxes
from earmark.index.staged import NO_SLOTS, Staged
from earmark.model import bits as bitmaps
from earmark.model.arrays import I32, I64, EventArrays, TableArrays
from earmark.model.rows import spread

GROWTH = 2
"""A table that has grown so many times over since its cells were learned gets new ones."""


class Adapted(NamedTuple):
    """What `adapt` changed: candidates an event, before and after."""

    before: float
    after: float


class MicsIndex(Staged):
    """Slots by the ranges of Hilbert's curve that their clauses fill on a few attributes."""

    _match_events = staticmethod(match_events)
    _arrays: MicsArrays

    def __init__(self, table: TableArrays, arrays: MicsArrays) -> None:
        self._become(table, arrays)

    def _known(self) -> int:
        return int(self._arrays.info[SLOTS])

    # --- making ----------------------------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        table: TableArrays,
        attributes: tuple[int, ...] | None = None,
        bits: int | None = None,
        cells: str = "variable",
        most: int = MOST_AXES,
        pieces: int = MOST_PIECES,
        events: EventArrays | None = None,
    ) -> MicsIndex:
        """An index of all slots of a table; what is not given is chosen from the data.

        `attributes`: the attribute numbers to index, else at most `most` are chosen. `bits`: 2^bits cells an axis, of
        which one is NULL. `cells`: "variable" or "equal". `pieces`: blocks of a clause at the most. `events`: what to
        learn the cells from, instead of the bounds.
        """
        options = checked_options(attributes, bits, cells, most, pieces)
        slots = np.arange(len(table.clause_start) - 1, dtype=np.int32)
        return cls(table, built(table, slots, options, events))

    @classmethod
    def restore(cls, table: TableArrays, arrays: Mapping[str, NDArray[Any]]) -> MicsIndex:
        """The index whose arrays these are. AssertionError where kernels could not rely on them. O(size)."""
        missing = [name for name in MicsArrays._fields if name not in arrays]
        require(not missing, f"arrays are missing: {', '.join(missing)}")
        made = MicsArrays._make(np.asarray(arrays[name]) for name in MicsArrays._fields)
        check_arrays(made, len(table.clause_start) - 1)
        return cls(table, made)

    def copy(self) -> MicsIndex:
        """An index of its own. O(1): no array is ever changed in place."""
        return MicsIndex(self._table, self._arrays)

    # --- looking at it ---------------------------------------------------------------------------------------

    @property
    def arrays(self) -> MicsArrays:
        """The index."""
        return self._arrays

    @property
    def space(self) -> Space:
        """The axes and their cuts, for who converts subscriptions or events elsewhere (section 6.1)."""
        return space_in(self._arrays)

    def describe(self) -> dict[str, Any]:
        """What was chosen: attributes (by number), cells, blocks, and the share that is indexed."""
        return described(self._arrays)

    def check(self) -> None:
        """Raise AssertionError unless the lists are exactly those of the slots' decompositions. O(size)."""
        check_arrays(self._arrays, len(self._table.clause_start) - 1)
        check_lists(self._table, self._arrays)

    # --- other subscriptions ---------------------------------------------------------------------------------

    def meeting(self, table: TableArrays, slots: I32) -> tuple[I64, I32]:
        """Per subscription of some table the slots here whose boxes meet its own: (pointers, slots), ascending.

        Whoever covers it, or subsumes it with others, or could be merged with it, is among them (section 5); so is
        every slot that is scanned. A subscription that nothing satisfies meets nothing.
        """
        arrays, known = self._arrays, self._known()
        scanned = bitmaps.to_slots(arrays.residual)
        start, clauses = spread(table.clause_start, np.asarray(slots, np.int64))
        low, high = boxes_of_clauses(space_in(arrays), read_only_table(table), clauses)
        scratch, out = self._borrowed(), np.empty(known, np.int32)
        counters = np.zeros(COUNTERS, np.int64)
        parts: list[I32] = []
        for begin, end in pairwise(start.tolist()):
            some = (low[begin:end] <= high[begin:end]).all(axis=1)
            found = meet_boxes(arrays, low[begin:end][some], high[begin:end][some], scratch, out, counters)
            met = np.union1d(out[:found], scanned).astype(np.int32) if some.any() else out[:0]
            parts.append(met.copy())
        self._scratch.append(scratch)
        self._work = Work(nodes=int(counters[NODES]), candidates=sum(map(len, parts)))
        pointers = np.cumsum([0, *map(len, parts)]).astype(np.int64)
        return pointers, np.concatenate([NO_SLOTS, *parts])

    # --- changing --------------------------------------------------------------------------------------------

    def insert(self, table: TableArrays, slots: I32) -> None:
        """Take in new slots, in the same space; a new one is planned when the table has doubled. O(entries)."""
        slots = np.asarray(slots, np.int32)
        info = self._arrays.info
        if info[LEARNED_FROM] == BOUNDS and len(table.clause_start) - 1 > GROWTH * max(1, int(info[BASE])):
            every = np.union1d(self._held(), slots).astype(np.int32)
            self._become(table, built(table, every, options_of(self._arrays)))
        else:
            self._become(table, extended(table, self._arrays, slots))

    def remove(self, slots: I32) -> None:
        """Forget slots. O(entries)."""
        if len(slots):
            self._become(self._table, without(self._arrays, np.asarray(slots, np.int32)))

    def adapt(self, events: EventArrays) -> Adapted:
        """Learn the cells from these events (section 6.3). They stay until the index is built anew."""
        before = self._candidates(events)
        self._become(self._table, built(self._table, self._held(), options_of(self._arrays), events))
        return Adapted(before, self._candidates(events))

    def _held(self) -> I32:
        """The slots that are in the index, ascending."""
        return bitmaps.to_slots(bitmaps.either(self._arrays.placed, self._arrays.residual))

    def _candidates(self, events: EventArrays) -> float:
        """How many candidates an event has."""
        self.match_batch(events, bitmaps.all_set(self._known()))
        return self.work.candidates / max(1, len(events.start) - 1)


def built(table: TableArrays, slots: I32, options: Options, events: EventArrays | None = None) -> MicsArrays:
    """The index of these slots, in a space that is planned for them."""
    total = len(table.clause_start) - 1
    plan = planned(table, slots, options, events)
    placement = place(table, slots, plan, options.pieces)
    return assembled(placement, plan, total, options, BOUNDS if events is None else EVENTS, len(slots))
