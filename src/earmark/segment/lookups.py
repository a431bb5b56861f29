"""Which slot has this id, which slots carry this tag? Dictionaries that all moments of a table share.

They are made from the table, and catch up with it when someone asks (`_follow`), so no change has to keep them in
step. What they say is checked against the moment that asks: an id may point at a slot that is dead there, or later.
Moments share them along one line of changes; where a table has two futures, each has its own (`Table.appended`).

**Invariant.** For every slot below `known`: its id maps to it or to a later slot with the same id, from which
`_earlier` leads back to it; and each of its tags lists it, perhaps twice.
Complexity: O(new slots) to catch up, then O(1) for an id, O(slots with it) for a tag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from earmark.flat.growable import Growable
from earmark.flat.types import I32
from earmark.locks import awaited_lock

if TYPE_CHECKING:
    from earmark.segment.table import Table

_NO_SLOTS: I32 = np.empty(0, np.int32)


class Lookups:
    """Slots by id, slots by tag, and sets of tags by content."""

    def __init__(self) -> None:
        self._lock = awaited_lock()
        self._slot: dict[Any, int] = {}
        self._earlier: dict[int, int] = {}
        self._known_ids = 0
        self._tagged: dict[tuple[str, str], Growable] = {}
        self._known_tags = 0
        self._set: dict[Any, int] = {}
        self._known_sets = 0

    def has_any(self, table: Table, ids: set[Any]) -> bool:
        """Whether one of these ids is alive in this moment of the table. O(ids), at the speed of sets."""
        self._know_ids(table)
        return any(self.find(table, one) is not None for one in ids & self._slot.keys())

    def _know_ids(self, table: Table) -> None:
        if self._known_ids < table.slots:
            with self._lock:
                if self._known_ids < table.slots:
                    self._follow_ids(table)

    def find(self, table: Table, one: object) -> int | None:
        """The slot that has this id, alive, in this moment of the table."""
        self._know_ids(table)
        slot = self._slot.get(one)
        while slot is not None and slot >= table.slots:  # of a later moment
            slot = self._earlier.get(slot)
        return slot if slot is not None and table.is_live(slot) else None

    def _follow_ids(self, table: Table) -> None:
        for slot in range(self._known_ids, table.slots):
            one = table.ids[slot]
            earlier = self._slot.get(one)
            if earlier is not None and earlier < slot:  # else it is there already, from a call that was interrupted
                self._earlier[slot] = earlier
            self._slot[one] = slot
        self._known_ids = table.slots

    def tagged(self, table: Table, tag: tuple[str, str]) -> I32:
        """The slots with this tag, ascending but for repetitions, the dead included."""
        if self._known_tags < table.slots:
            with self._lock:
                if self._known_tags < table.slots:
                    self._follow_tags(table)
        posting = self._tagged.get(tag)
        slots = _NO_SLOTS if posting is None else posting.view()
        return slots[slots < table.slots]

    def _follow_tags(self, table: Table) -> None:
        first = self._known_tags
        numbers = table.tagset[first:]  # none at all where nobody has tags
        order = np.argsort(numbers, kind="stable")
        distinct, starts = np.unique(numbers[order], return_index=True)
        for number, slots in zip(distinct.tolist(), np.split(order, starts)[1:], strict=True):
            for tag in table.tagsets[number]:
                posting = self._tagged.get(tag) or Growable(np.int32)
                self._tagged[tag] = posting.extended(slots + first)
        self._known_tags = table.slots

    def tagset(self, table: Table, tags: Any) -> int | None:
        """The number of a set of tags, where the table has it."""
        known = table.columns.tagsets
        if self._known_sets < known.size:
            with self._lock:
                for number in range(self._known_sets, known.size):
                    self._set[known.items[number]] = number
                self._known_sets = max(self._known_sets, known.size)
        number = self._set.get(tags, known.size)
        return number if number < known.size and known.items[number] == tags else None
