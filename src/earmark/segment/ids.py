"""The ids of subscriptions by slot: integers or strings, all of one kind.

They are held as Python objects where they came so, or as arrays where they were mapped from a file; each form is made
from the other when it is first asked for. `Lookups` finds the slot of an id, and the slots that carry a tag.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from earmark.errors import SubscriptionError, shown
from earmark.flat.arrays import I32, I64, Growable, Listed, PackedStrings, from_arrow, frozen, joined_strings
from earmark.language.predicate import check_text
from earmark.locks import awaited_lock

if TYPE_CHECKING:
    from earmark.segment.segment import Segment

Id: TypeAlias = str | int
IdColumn: TypeAlias = I64 | PackedStrings
_FEW = 1 << 12
"""So few ids are read one by one out of a column; more are worth making objects of all of them."""


def checked_id(one: Any) -> Id:
    """An id as a plain string or 64-bit integer, also where it comes as a subclass, such as the member of an enum."""
    if type(one).__module__ == "numpy" and hasattr(one, "item"):
        one = one.item()
    if isinstance(one, bool) or not isinstance(one, str | int):
        raise SubscriptionError(f"expected a string or an integer as id, got {shown(one)}", id=one)
    if isinstance(one, str):
        text = str.__str__(one)
        if not text or len(text) > 10_000:
            raise SubscriptionError(f"expected an id of 1 to 10,000 characters, got {len(text):,}", id=one)
        check_text(text, f"the id {text[:50]!r}")
        return text
    number = int.__index__(one)
    if not -(2**63) <= number < 2**63:
        raise SubscriptionError(f"expected an id of at most 64 bits, got {shown(number)}", id=one)
    return number


class Ids:
    """A moment of a column of ids; `extended` gives the next, which shares what it can."""

    __slots__ = ("_arrow", "_column", "_objects", "size")

    def __init__(self, objects: Listed[Id] | None, column: IdColumn | None, arrow: Any = None) -> None:
        self._objects = objects
        self._column = column
        self._arrow = arrow
        self.size = len(objects) if objects is not None else len(column) if column is not None else 0

    @classmethod
    def of(cls, ids: list[Id] | IdColumn) -> Ids:
        """Ids from a list, which is not copied, or from a column."""
        return cls(Listed(ids), None) if isinstance(ids, list) else cls(None, ids)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, slot: int) -> Id:
        if self._objects is not None:
            return self._objects.items[slot]
        assert self._column is not None
        one = self._column[slot]
        return one if isinstance(one, str) else int(one)

    @property
    def integers(self) -> bool:
        """Whether they are integers; those of no slots are strings."""
        if self._column is not None:
            return not isinstance(self._column, PackedStrings)
        return bool(self.size) and isinstance(self[0], int)

    @property
    def is_column(self) -> bool:
        """Whether they are held as arrays, without an object for each."""
        return self._objects is None

    @property
    def objects(self) -> list[Id]:
        """The ids as Python objects, and perhaps those of later moments behind them. Not to be changed."""
        if self._objects is None:
            column = self._column
            listed: list[Id] = list(column.to_list()) if isinstance(column, PackedStrings) else column.tolist()  # type: ignore[union-attr]
            self._objects = Listed(listed)
        return self._objects.items

    @property
    def is_last(self) -> bool:
        """Whether nothing has been appended since."""
        return self._objects is None or self._objects.is_last

    @property
    def column(self) -> IdColumn:
        """The ids as arrays: what files store."""
        if self._column is None:
            ids = self.objects[: self.size]
            self._column = frozen(np.array(ids, np.int64)) if self.integers else from_arrow(self._as_arrow())
        return self._column

    def named(self, slots: list[int]) -> list[Id]:
        """The ids of these slots."""
        if self._objects is None and len(slots) <= _FEW:
            return [self[slot] for slot in slots]
        objects = self.objects
        return [objects[slot] for slot in slots]

    def taken(self, slots: I32) -> pa.Array:
        """The ids of these slots as an Arrow column."""

        found = self._as_arrow().take(pa.array(slots))
        return found if self.integers or found.type == pa.string() else found.cast(pa.string())

    def _as_arrow(self) -> pa.Array:
        """The ids of all slots as an Arrow column, kept; that of an earlier moment is continued. O(new slots)."""

        known = 0 if self._arrow is None else len(self._arrow)
        if known < self.size or self._arrow is None:
            column = self._column
            if column is not None:
                self._arrow = column.to_arrow() if isinstance(column, PackedStrings) else pa.array(column)
            else:
                kind = self._arrow.type if known else pa.int64() if self.integers else pa.string()
                new = pa.array(self.objects[known : self.size], kind)
                self._arrow = new if not known else pa.concat_arrays([self._arrow, new])
        return self._arrow

    def extended(self, others: Ids) -> Ids:
        """These ids and others behind them."""
        objects = Listed(self.objects[: self.size]) if self._objects is None else self._objects
        arrow = self._arrow if self._objects is not None and self._objects.is_last else None
        return Ids(objects.extended(others.objects[: others.size]), None, arrow)

    def take(self, slots: I64) -> Ids:
        """The ids of these slots, in this order."""
        if self._column is None:
            objects = self.objects
            return Ids.of([objects[slot] for slot in slots.tolist()])
        column = self._column
        return Ids.of(column.take(slots) if isinstance(column, PackedStrings) else frozen(column[slots]))


def joined_ids(parts: Sequence[Ids]) -> Ids:
    """The ids of all parts, one after another. Those of no slots have any kind."""
    some = [part for part in parts if part.size]
    if len(some) == 1:
        return some[0]
    if any(part._column is None for part in some):
        return Ids.of([one for part in some for one in part.objects[: part.size]])
    columns = [part.column for part in some]
    if columns and not isinstance(columns[0], PackedStrings):
        return Ids.of(frozen(np.concatenate(columns)))  # type: ignore[arg-type]
    return Ids.of(joined_strings([one for one in columns if isinstance(one, PackedStrings)]))


def distinct(parts: Sequence[Ids], slots: Sequence[I64]) -> int:
    """How many different ids these slots of the parts have. At the speed of arrays, where all are held as such."""
    if not all(part.is_column for part in parts):
        found: set[Id] = set()
        for part, own in zip(parts, slots, strict=True):
            objects = part.objects
            found.update([objects[slot] for slot in own.tolist()])
        return len(found)
    if not parts:
        return 0

    columns = [part.taken(own.astype(np.int32)) for part, own in zip(parts, slots, strict=True)]
    return int(pc.count_distinct(pa.chunked_array(columns)).as_py())


_NO_SLOTS: I32 = np.empty(0, np.int32)


_catching_up = awaited_lock()  # one for all: it is held for as long as a few new slots take


class Lookups:
    """Slots by id, slots by tag, and sets of tags by content: dictionaries that the segments of one line share.

    A segment that grows (`Segment.appended`) passes them on. They are made from the segment and catch up with it when
    someone asks (`_follow_ids`), so no change has to keep them in step. What they say is checked against the segment
    that asks: an id may point at a slot of a later one. Where a segment has two futures, each has its own.

    Invariant: for every slot below `known`, its id maps to it or to a later slot with the same id, from which
    `_earlier` leads back to it; and each of its tags lists it, perhaps twice.
    Complexity: O(new slots) to catch up, then O(1) for an id, O(slots with it) for a tag.
    """

    __slots__ = ("_earlier", "_known_ids", "_known_sets", "_known_tags", "_set", "_slot", "_tagged")

    def __init__(self) -> None:
        self._slot: dict[Any, int] = {}
        self._earlier: dict[int, int] = {}
        self._tagged: dict[tuple[str, str], Growable] = {}
        self._set: dict[Any, int] = {}
        self._known_ids = self._known_tags = self._known_sets = 0

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
