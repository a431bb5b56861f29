"""Which subscriptions are around an event's cell on Hilbert's curve: Subscription Indexing (mics.txt, section 5).

A few attributes, the most selective, span a space of cells. A clause is a box of cells there, the box a few ranges of
numbers on Hilbert's curve, and the ranges lead to lists of slots. An event is in one cell: its number is looked up
once, the lists found there are candidates, and each is verified exactly. `arrays.py` draws it, `plan.py` chooses
attributes and cells, `build.py` fills the lists, `search.py` searches. Subscriptions are looked up in the same lists,
for covering, subsumption and merging.

**Invariant** (`check`): an event that a slot matches is in a block of the slot, or the slot is residual. The lists
are exactly those of the slots' decompositions.

**Complexity**, d axes of 2^b cells, n blocks, c candidates: a search O(d b + log n + c), in practice one jump and a few
steps instead of log n; what the residual costs to scan comes on top. Space: 20 bytes for each entry and for each block.
An insert O(entries), at the speed of memory, so slots are inserted in groups (the engine).

**Where we differ from the paper.**
- A leaf of the paper's tree is a range with the subscriptions it came from; where ranges of different subscriptions
  overlap, either leaves overlap or lists are copied into every part. Here ranges are cut at powers of two: such blocks
  are disjoint or nested, every entry is stored once, and a look-up follows one chain of parents.
- The number of ranges of a clause is bounded: larger cells, found by Equation (3), instead of more ranges.
- No domain is given: cells are learned, by default variable ones (section 6.3), from the bounds of the subscriptions,
  or from events (`adapt`, or `events=`). Cell 0 of each axis is NULL.
- Attributes are chosen one after the other by what each still adds, not each by itself.
- Between the lists and the table is a sieve: two words with each entry that rule most candidates out, and for many
  slots say all there is to say, so that a match needs no look at the table.
- Several clauses, several intervals (their hull is the box), NULL and interval events are all in the lists. A slot that
  an eighth of the space is left of is not: it is scanned with others like it.
- Ranked search scores what matches; *relaxed* search, in which any constraint may hold, is that of `scan`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import earmark.index.mics.arrays as ma
from earmark.curves.space import Space
from earmark.events.arrays import EventArrays
from earmark.flat import bits as bitmaps
from earmark.flat.arrays import I32, I64, U64, frozen, read_only
from earmark.index.contract import MicsAdaptation
from earmark.index.counters import CANDIDATES, COUNTERS
from earmark.index.driver import read_only_table
from earmark.index.mics.arrays import MicsArrays
from earmark.index.mics.build import assembled, check_lists, extended, options_of, place, without
from earmark.index.mics.plan import MOST_AXES, MOST_PIECES, NO_PLAN, MicsOptions, checked_options, planned
from earmark.index.mics.search import ALIGNED, HOLDING, MEETING, Question, find_slots, match_events
from earmark.index.staged import StagedIndex
from earmark.segment.arrays import SegmentArrays

GROWTH = 2
"""An index that has grown by this factor since its cells were learned gets new ones."""
NO_SIEVE = Space._make(read_only(column) for column in NO_PLAN.sieve)
"""Everything passes."""
FIRST_ROOM = 1 << 14
"""Slots that there is room for when a subscription is looked up; one that finds more is looked up again."""


class MicsIndex(StagedIndex[MicsArrays]):
    """Slots by the ranges of Hilbert's curve that their clauses fill on a few attributes."""

    is_adaptive = True
    _kind = MicsArrays
    _match_kernel = match_events
    _check_arrays = staticmethod(ma.check_arrays)
    _check_lists = staticmethod(check_lists)

    def _slots(self) -> int:
        return int(self._arrays.info[ma.SLOTS])

    def _hold(self, table: SegmentArrays, arrays: MicsArrays) -> None:
        super()._hold(table, arrays)
        self._everyone = bitmaps.either(arrays.placed, arrays.residual)
        self._scanned = frozen(bitmaps.to_slots(arrays.residual))
        self._sieve = ma.sieve_in(arrays)

    # --- making ----------------------------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        table: SegmentArrays,
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

    # --- looking at it ---------------------------------------------------------------------------------------

    @property
    def space(self) -> Space:
        """The axes and their cuts, for who converts subscriptions or events elsewhere (section 6.1)."""
        return ma.space_in(self._arrays)

    def describe(self) -> dict[str, Any]:
        """What was chosen: attributes (by number), cells, blocks, and the share that is indexed."""
        arrays = self._arrays
        placed, scanned, entries = bitmaps.count(arrays.placed), len(self._scanned), len(arrays.entry)
        return {
            "attributes": arrays.attr.tolist(),
            "bits": int(arrays.bits[0]),
            "cells": (np.diff(arrays.cut_start) + 2).tolist(),
            "kind": ma.KINDS[int(arrays.info[ma.OPTION_KIND])],
            "learned_from": ma.LEARNED[int(arrays.info[ma.LEARNED_FROM])],
            "sieve": arrays.sieve_attr.tolist(),
            "sure": bitmaps.count(arrays.sure),
            "blocks": len(arrays.code),
            "entries": entries,
            "entries_each": entries / placed if placed else 0.0,
            "indexed": placed,
            "scanned": scanned,
            "share_indexed": placed / (placed + scanned) if placed + scanned else 0.0,
        }

    # --- other subscriptions ---------------------------------------------------------------------------------

    def meeting(self, table: SegmentArrays, slots: I32, sifted: bool = False) -> tuple[I64, I32]:
        """Per subscription of some table the slots here whose boxes meet its own: (pointers, slots), ascending.

        Whoever covers it, or subsumes it with others, is among them (section 5); so is every slot that is scanned. A
        subscription that nothing satisfies meets nothing. `sifted`: without those that the sieve rules out.
        """
        sieve = self._sieve if sifted else NO_SIEVE
        parts, counters = [np.empty(0, np.int32)], np.zeros(COUNTERS, np.int64)
        for slot in np.asarray(slots).tolist():
            parts.append(self._looked_up(table, slot, sieve, self._everyone))
            counters += self._counted
        self._counted = counters
        return np.cumsum([len(part) for part in parts]).astype(np.int64), np.concatenate(parts)

    def meeting_one(self, table: SegmentArrays, slot: int, eligible: U64) -> I32:
        """The same for one subscription, sifted, among eligible slots. O(what is found), beside slots / 4096."""
        return self._looked_up(table, slot, self._sieve, eligible)

    def holding_one(self, table: SegmentArrays, slot: int, eligible: U64) -> I32:
        """Eligible slots whose boxes may hold that of a subscription's first clause: all that cover it are among them.

        One look-up, as for an event. A subscription without clauses is held by none.
        """
        return self._looked_up(table, slot, self._sieve, eligible, HOLDING)

    def aligned_one(self, table: SegmentArrays, slot: int, eligible: U64) -> I32:
        """Eligible slots whose boxes meet that of a subscription, but perhaps for one attribute.

        Whoever makes one condition with it, and nothing more, is among them: boxes that touch, or that take the same
        on all attributes but one.
        """
        return self._looked_up(table, slot, self._sieve, eligible, ALIGNED)

    def _looked_up(self, table: SegmentArrays, slot: int, sieve: Space, eligible: U64, kind: int = MEETING) -> I32:
        question = Question(read_only_table(table), slot, sieve, read_only(eligible), self._scanned, kind)
        scratch, found = self._spare_scratch(), ~FIRST_ROOM
        while found < 0:
            counters, out = np.zeros(COUNTERS, np.int64), np.empty(~found, np.int32)
            found = find_slots(self._arrays, question, scratch.value, out, counters)
        self._give_back(scratch)
        counters[CANDIDATES] = found
        self._counted = counters
        return out[:found]

    # --- changing --------------------------------------------------------------------------------------------

    def insert(self, table: SegmentArrays, slots: I32) -> None:
        """Take in new slots, in the same space; a new one is planned when they have doubled. O(entries)."""
        slots = np.asarray(slots, np.int32)
        info, held = self._arrays.info, bitmaps.to_slots(self._everyone)
        if info[ma.LEARNED_FROM] == ma.BOUNDS and len(held) + len(slots) > GROWTH * max(1, int(info[ma.BASE])):
            every = np.union1d(held, slots).astype(np.int32)
            self._hold(table, built(table, every, options_of(self._arrays)))
        else:
            self._hold(table, extended(table, self._arrays, slots))

    def remove(self, slots: I32) -> None:
        """Forget slots. O(entries)."""
        if len(slots):
            self._hold(self._table, without(self._arrays, np.asarray(slots, np.int32)))

    def adapt(self, events: EventArrays) -> MicsAdaptation:
        """Learn the cells from these events (section 6.3). They stay until the index is built again."""
        before = self._candidates(events)
        held = bitmaps.to_slots(self._everyone)
        self._hold(self._table, built(self._table, held, options_of(self._arrays), events))
        return MicsAdaptation(before, self._candidates(events))

    def _candidates(self, events: EventArrays) -> float:
        """How many candidates an event has."""
        self.match_many(events, bitmaps.all_set(self._slots()))
        return self.work.candidates / max(1, len(events.start) - 1)


def built(table: SegmentArrays, slots: I32, options: MicsOptions, events: EventArrays | None = None) -> MicsArrays:
    """The index of these slots, in a space that is planned for them."""
    plan, learned = planned(table, slots, options, events), ma.BOUNDS if events is None else ma.EVENTS
    placement = place(table, slots, plan, options.pieces)
    return assembled(placement, plan, len(table.clause_start) - 1, options, learned, len(slots))
