"""The ids of subscriptions by slot: integers or strings, all of one kind.

    slot     0    1    2  …  n-1  |  n    n+1
             base: arrays         |  tail: Python objects of rows that came later, a few

The base never changes, and ids that follow share it; when the tail is a quarter of it, both become a new base.
`Base` finds the slot of an id by binary search: among the integers themselves, sorted, or among sorted 32-bit hashes of
strings, where the bytes are compared in the end. `Lookups` does so for the tail with a dictionary, and finds the slots
that carry a tag.

**Complexity**: a look-up in the base O(log slots), 1 to 3 µs; strings can make it slower only by sharing hashes, which
depend on a secret of the process (Python's SipHash). Memory beside the ids: nothing for ascending integers, 12 bytes
for other integers, 8 for strings, once an id was looked up.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from earmark.errors import SubscriptionError, shown
from earmark.flat.arrays import I32, I64, Growable, Listed, PackedStrings, frozen, joined_strings, packed, unpacked
from earmark.language.predicate import check_text
from earmark.locks import awaited_lock

if TYPE_CHECKING:
    from earmark.segment.segment import Segment

Id: TypeAlias = str | int
IdColumn: TypeAlias = I64 | PackedStrings
MAX_ID = 10_000
"""Characters of an id."""
_FEW = 1 << 12
"""Up to this many ids may be Python objects."""


def checked_id(one: Any) -> Id:
    """An id as a plain string or 64-bit integer, also where it comes as a subclass, such as the member of an enum."""
    if type(one) is int and -(2**63) <= one < 2**63:
        return one
    if type(one).__module__ == "numpy" and hasattr(one, "item"):
        one = one.item()
    if isinstance(one, bool) or not isinstance(one, str | int):
        raise SubscriptionError(f"expected a string or an integer as id, got {shown(one)}", id=one)
    if isinstance(one, str):
        text = str.__str__(one)
        if not text or len(text) > MAX_ID:
            raise SubscriptionError(f"expected an id of 1 to 10,000 characters, got {len(text):,}", id=one)
        check_text(text, f"the id {text[:50]!r}")
        return text
    number = int.__index__(one)
    if not -(2**63) <= number < 2**63:
        raise SubscriptionError(f"expected an id of at most 64 bits, got {shown(number)}", id=one)
    return number


class Base:
    """Ids as arrays, and where each is."""

    __slots__ = ("_arrow", "_sorted", "column")

    def __init__(self, column: IdColumn) -> None:
        self.column = column
        self._sorted: tuple[NDArray[Any], I32 | None] | None = None
        self._arrow: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, slot: int) -> Id:
        column = self.column
        return column[slot] if isinstance(column, PackedStrings) else column.item(slot)

    @property
    def arrow(self) -> pa.Array:
        """The ids as an Arrow column over the same memory."""
        if self._arrow is None:
            column = self.column
            self._arrow = column.to_arrow() if isinstance(column, PackedStrings) else pa.array(column)
        return self._arrow

    def to_list(self) -> list[Id]:
        """The ids as Python objects."""
        column = self.column
        return list(column.to_list()) if isinstance(column, PackedStrings) else column.tolist()

    def named(self, slots: list[int]) -> list[Id]:
        """The ids of these slots."""
        column = self.column
        if isinstance(column, PackedStrings):
            if len(slots) > _SOME:
                return list(column.take(np.array(slots, np.int64)).to_list())
            joined: Any = memoryview(column.joined)  # type: ignore[arg-type]
            at = column.start.item
            return [str(joined[at(slot) : at(slot + 1)], "utf-8") for slot in slots]
        one = column.item
        named: list[Id] = [one(slot) for slot in slots] if len(slots) <= _SOME else column[slots].tolist()
        return named

    @property
    def is_known(self) -> bool:
        """Whether ids have been looked up."""
        return self._sorted is not None

    def _in_order(self) -> tuple[NDArray[Any], I32 | None]:
        """What is searched, ascending, and the slot of each; None where these are the slots."""
        found = self._sorted
        if found is None:  # two threads may both do it, with the same result
            keys = _hashes(self.column) if isinstance(self.column, PackedStrings) else self.column
            if bool((keys[:-1] <= keys[1:]).all()):
                found = keys, None
            else:
                order = np.argsort(keys, kind="stable").astype(np.int32)
                found = keys[order], order
            self._sorted = found
        return found

    def prepare(self) -> None:
        """Do now what the first look-up would do. O(slots log slots)."""
        self._in_order()

    def find(self, one: object) -> int | None:
        """The last slot that has this id."""
        column = self.column
        if isinstance(column, PackedStrings):
            if not isinstance(one, str):
                return None
            key = hash(one.encode()) & _HASH
        elif type(one) is int and -(2**63) <= one < 2**63:
            key = one
        else:
            return None
        keys, order = self._in_order()
        listed: Any = memoryview(keys)  # type: ignore[arg-type]
        at = bisect_right(listed, key) - 1  # numpy would release the interpreter, and wait to get it back
        while at >= 0 and listed[at] == key:
            slot: int = at if order is None else order.item(at)
            if type(one) is int or self[slot] == one:
                return slot
            at -= 1  # another string with this hash
        return None

    def among(self, ids: set[Any]) -> set[Any]:
        """Those of the ids, all of one kind, that are here."""
        some = next(iter(ids), None)
        is_text = isinstance(self.column, PackedStrings)
        if some is None or not len(self) or isinstance(some, str) != is_text:
            return set()
        keys, _ = self._in_order()
        listed = list(ids)
        wanted = _hashed(one.encode() for one in listed) if is_text else np.array(listed, np.int64)
        at = np.searchsorted(keys, wanted, "right") - 1
        found = np.flatnonzero((at >= 0) & (keys[at] == wanted)).tolist()
        return {listed[i] for i in found if not is_text or self.find(listed[i]) is not None}


_HASH = 0xFFFFFFFF
_SOME = 128
"""Up to this many ids are read one by one out of arrays."""


def _hashed(strings: Iterable[bytes]) -> NDArray[np.uint32]:
    return (np.fromiter(map(hash, strings), np.int64) & _HASH).astype(np.uint32)


def _hashes(column: PackedStrings) -> NDArray[np.uint32]:
    """The hashes of strings, a part at a time: none of them stays as a Python object."""
    made = np.empty(len(column), np.uint32)
    for first in range(0, len(column), _FEW):
        start = column.start[first : first + _FEW + 1]
        part = column.joined[start[0] : start[-1]]
        made[first : first + _FEW] = _hashed(unpacked(start - start[0], part))
    return made


def are_distinct(column: IdColumn) -> bool:
    """Whether no two ids are the same. O(ids log ids), with few bytes for each."""
    keys = _hashes(column) if isinstance(column, PackedStrings) else column
    if bool((keys[:-1] < keys[1:]).all()):
        return True
    order = np.argsort(keys, kind="stable").astype(np.int32)
    keys = keys[order]
    same = np.append(keys[1:] == keys[:-1], False)
    if not isinstance(column, PackedStrings):
        return not same.any()
    same[1:] |= same[:-1]  # all strings whose hash is that of another
    doubtful = [column[slot] for slot in order[same].tolist()]
    return len(set(doubtful)) == len(doubtful)


def _column_of(ids: list[Id]) -> IdColumn:
    """Ids as arrays."""
    if ids and isinstance(ids[0], int):
        return frozen(np.array(ids, np.int64))
    return packed([one.encode() for one in ids])  # type: ignore[union-attr]


class Ids:
    """A moment of a column of ids; `extended` gives the next, which shares what it can."""

    __slots__ = ("_arrow", "_tail", "_whole", "base", "size")

    def __init__(self, base: Base | None, tail: Listed[Id]) -> None:
        self.base = base
        self._tail = tail
        self.size = self.first + tail.size
        self._whole: IdColumn | None = None
        self._arrow: pa.Array | None = None

    @classmethod
    def of(cls, ids: list[Id] | IdColumn) -> Ids:
        """Ids from a list, which is not copied, or from a column."""
        if isinstance(ids, list):
            return cls(None, Listed(ids)) if len(ids) <= _FEW else cls.of(_column_of(ids))
        return cls(Base(ids), Listed([]))

    def __len__(self) -> int:
        return self.size

    @property
    def first(self) -> int:
        """The first slot of the tail."""
        return 0 if self.base is None else len(self.base)

    def __getitem__(self, slot: int) -> Id:
        if self.base is None:
            return self._tail.items[slot]
        first = len(self.base)
        return self.base[slot] if slot < first else self._tail.items[slot - first]

    @property
    def integers(self) -> bool:
        """Whether they are integers; those of no slots are strings."""
        if self.base is not None:
            return not isinstance(self.base.column, PackedStrings)
        return bool(self.size) and isinstance(self[0], int)

    @property
    def objects(self) -> list[Id]:
        """The ids as Python objects, and perhaps those of later moments behind them. Not to be changed."""
        if self.base is None:
            return self._tail.items
        return self.base.to_list() + self._tail.items[: self._tail.size]

    def tail(self, first: int) -> list[Id]:
        """The ids from a slot of the tail on."""
        return self._tail.items[first - self.first : self._tail.size]

    @property
    def column(self) -> IdColumn:
        """The ids as arrays: what files store."""
        if self.base is not None and not self._tail.size:
            return self.base.column
        if self._whole is None:
            tail = _column_of(self._tail.items[: self._tail.size])
            self._whole = tail if self.base is None else _joined([self.base.column, tail])
        return self._whole

    def named(self, slots: list[int]) -> list[Id]:
        """The ids of these slots."""
        if self.base is None:
            objects = self._tail.items
            return [objects[slot] for slot in slots]
        return [self[slot] for slot in slots] if self._tail.size else self.base.named(slots)

    def taken(self, slots: I32) -> pa.Array:
        """The ids of these slots as an Arrow column."""
        found = self._as_arrow().take(pa.array(slots))
        return found if self.integers or found.type == pa.string() else found.cast(pa.string())

    def _as_arrow(self) -> pa.Array:
        """The ids of all slots as an Arrow column, kept; that of an earlier moment is continued. O(new slots)."""
        if self.base is not None and not self._tail.size:
            return self.base.arrow
        if self._arrow is None or len(self._arrow) < self.size:
            before = self.base.arrow if self._arrow is None and self.base is not None else self._arrow
            if before is None:
                self._arrow = pa.array(self.tail(0), pa.int64() if self.integers else pa.string())
            else:
                self._arrow = pa.concat_arrays([before, pa.array(self.tail(len(before)), before.type)])
        return self._arrow

    def prepare(self) -> None:
        """Do now what the first look-up would do."""
        if self.base is not None:
            self.base.prepare()

    def extended(self, others: Ids) -> Ids:
        """These ids and others behind them."""
        if not self.size:  # of no kind yet
            return Ids.of(others.objects[: others.size]) if others.base is None else others
        size = self._tail.size + others.size
        if size > max(_FEW, self.first // 4):
            return joined_ids([self, others])
        made = Ids(self.base, self._tail.extended(others.objects[: others.size]))
        if self._tail.size:
            made._arrow = self._arrow
        return made

    def extended_by(self, one: Id) -> Ids:
        """These ids and another behind them."""
        tail = self._tail
        if not self.size or tail.size >= max(_FEW, self.first // 4):
            return self.extended(Ids.of([one]))
        made = Ids(self.base, tail.extended([one]))
        if tail.size:
            made._arrow = self._arrow
        return made

    def follows(self, others: Ids) -> bool:
        """Whether these are the others with more behind them, and in the memory of the others."""
        return self.base is others.base and self._tail.shares(others._tail)

    def take(self, slots: I64) -> Ids:
        """The ids of these slots, in this order."""
        if self.base is None:
            return Ids.of(self.named(slots.tolist()))
        column = self.column
        return Ids.of(column.take(slots) if isinstance(column, PackedStrings) else frozen(column[slots]))


def joined_ids(parts: Sequence[Ids]) -> Ids:
    """The ids of all parts, one after another. Those of no slots have any kind."""
    some = [part for part in parts if part.size]
    if len(some) == 1:
        return some[0]
    if sum(part.size for part in some) <= _FEW:
        return Ids.of([one for part in some for one in part.objects[: part.size]])
    return Ids.of(_joined([part.column for part in some]))


def _joined(columns: list[IdColumn]) -> IdColumn:
    if isinstance(columns[0], PackedStrings):
        return joined_strings([one for one in columns if isinstance(one, PackedStrings)])
    return frozen(np.concatenate(columns))  # type: ignore[arg-type]


def distinct(parts: Sequence[Ids], slots: Sequence[I64]) -> int:
    """How many different ids these slots of the parts have. At the speed of arrays."""
    some = [(part, own) for part, own in zip(parts, slots, strict=True) if part.size]
    if not some:
        return 0
    columns = [part.taken(own.astype(np.int32)) for part, own in some]
    return int(pc.count_distinct(pa.chunked_array(columns)).as_py())


_NO_SLOTS: I32 = np.empty(0, np.int32)


_catching_up = awaited_lock()  # one for all: it is held for as long as new slots take


class Lookups:
    """Slots by id (in the tail), slots by tag, and sets of tags by content: dictionaries that segments of a line share.

    A segment that grows (`Segment.appended`) passes them on. They are made from the segment and catch up with it when
    someone asks (`_follow_ids`), so no change has to keep them in step. What they say is checked against the segment
    that asks: an id may point at a slot of a later one. Where a segment has two futures, each has its own.

    Invariant: for every slot of the tail below `known`, its id maps to it or to a later slot with the same id, from
    which `_earlier` leads back to it; and each of its tags lists it, perhaps twice.
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
        base = segment.ids.base
        found = ids & self._slot.keys()
        return found if base is None else found | base.among(ids)

    def _know_ids(self, segment: Segment) -> None:
        if self._known_ids < len(segment):
            with _catching_up:
                if self._known_ids < len(segment):
                    self._follow_ids(segment)

    def find(self, segment: Segment, one: object) -> int | None:
        """The last slot of this segment that has this id."""
        slots = len(segment.arrays.sequence)
        if self._known_ids < slots:
            self._know_ids(segment)
        slot = self._slot.get(one)
        while slot is not None and slot >= slots:  # of a later segment
            slot = self._earlier.get(slot)
        base = segment.ids.base
        return base.find(one) if slot is None and base is not None else slot

    def leads_to(self, segment: Segment, slots: list[int]) -> bool:
        """Whether the ids of these slots, ascending and the last to have them, lead to them; as far as is known."""
        ids = segment.ids
        known = slots[: bisect_left(slots, self._known_ids)]
        if ids.base is not None and not ids.base.is_known:
            known = known[bisect_left(known, ids.first) :]
        return all(self.find(segment, one) == slot for one, slot in zip(ids.named(known), known, strict=True))

    def _follow_ids(self, segment: Segment) -> None:
        first = max(self._known_ids, segment.ids.first)
        for slot, one in enumerate(segment.ids.tail(first), first):
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
