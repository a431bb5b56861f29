"""Which slot has this id, which slots carry this tag? Dictionaries that the segments of one line share.

A segment that grows (`Segment.appended`) passes them on; they are made from the segment, and catch up with it when
someone asks (`_follow_ids`), so no change has to keep them in step. What they say is checked against the segment that
asks: an id may point at a slot of a later one. Where a segment has two futures, each has its own.

**Invariant.** For every slot below `known`: its id maps to it or to a later slot with the same id, from which
`_earlier` leads back to it; and each of its tags lists it, perhaps twice.
Complexity: O(new slots) to catch up, then O(1) for an id, O(slots with it) for a tag.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

import numpy as np

from earmark.flat.growable import Growable
from earmark.flat.types import I32
from earmark.locks import awaited_lock

if TYPE_CHECKING:
    from earmark.segment.segment import Segment

_NO_SLOTS: I32 = np.empty(0, np.int32)


_catching_up = awaited_lock()  # one for all: it is held for as long as a few new slots take


class Lookups:
    """Slots by id, slots by tag, and sets of tags by content."""

    __slots__ = ("_earlier", "_known_ids", "_known_sets", "_known_tags", "_set", "_slot", "_tagged")

    def __init__(self) -> None:
        self._slot: dict[Any, int] = {}
        self._earlier: dict[int, int] = {}
        self._known_ids = 0
        self._tagged: dict[tuple[str, str], Growable] = {}
        self._known_tags = 0
        self._set: dict[Any, int] = {}
        self._known_sets = 0

    def among(self, segment: Segment, ids: set[Any]) -> set[Any]:
        """Those of the ids that this segment, or a later one of its line, has. O(ids), at the speed of sets."""
        self._know_ids(segment)
        return ids & self._slot.keys()

    def _know_ids(self, segment: Segment) -> None:
        if self._known_ids < len(segment):
            with _catching_up:
                if self._known_ids < len(segment):
                    self._follow_ids(segment)

    def find(self, segment: Segment, one: object) -> int | None:
        """The last slot of this segment that has this id."""
        self._know_ids(segment)
        slot = self._slot.get(one)
        while slot is not None and slot >= len(segment):  # of a later segment
            slot = self._earlier.get(slot)
        return slot

    def leads_to(self, segment: Segment, slots: list[int]) -> bool:
        """Whether the ids of these slots, ascending and the last to have them, lead to them; as far as is known."""
        known = slots[: bisect_left(slots, self._known_ids)]
        ids = segment.ids.objects
        found = map(self._slot.get, map(ids.__getitem__, known))
        return all(a == b or self.find(segment, ids[b]) == b for a, b in zip(found, known, strict=True))

    def _follow_ids(self, segment: Segment) -> None:
        ids = segment.ids.objects
        for slot in range(self._known_ids, len(segment)):
            one = ids[slot]
            earlier = self._slot.get(one)
            if earlier is not None and earlier < slot:  # else it is there already, from a call that was interrupted
                self._earlier[slot] = earlier
            self._slot[one] = slot
        self._known_ids = len(segment)

    def tagged(self, segment: Segment, tag: tuple[str, str]) -> I32:
        """The slots with this tag, ascending but for repetitions."""
        if self._known_tags < len(segment):
            with _catching_up:
                if self._known_tags < len(segment):
                    self._follow_tags(segment)
        posting = self._tagged.get(tag)
        slots = _NO_SLOTS if posting is None else posting.view()
        return slots[slots < len(segment)]

    def _follow_tags(self, segment: Segment) -> None:
        first = self._known_tags
        numbers = segment.tagset[first:]  # none at all where nobody has tags
        order = np.argsort(numbers, kind="stable")
        distinct, starts = np.unique(numbers[order], return_index=True)
        for number, slots in zip(distinct.tolist(), np.split(order, starts)[1:], strict=True):
            for tag in segment.tagsets.items[number]:
                posting = self._tagged.get(tag) or Growable(np.int32)
                self._tagged[tag] = posting.extended(slots + first)
        self._known_tags = len(segment)

    def tagset(self, segment: Segment, tags: Any) -> int | None:
        """The number of a set of tags, where the segment has it."""
        known = segment.tagsets
        if self._known_sets < known.size:
            with _catching_up:
                for number in range(self._known_sets, known.size):
                    self._set[known.items[number]] = number
                self._known_sets = max(self._known_sets, known.size)
        number = self._set.get(tags, known.size)
        return number if number < known.size and known.items[number] == tags else None
