"""A segment: an immutable set of subscriptions as arrays, with their ids, conditions and tags.

    slot       0          1          2
    arrays     what each slot asks: constraints as key intervals, weights, score, sequence (arrays.py)
    ids        'ad-17'    'ad-18'    'ad-20'
    asked      'age > 3'  ''         'a = 1'     the text of a condition; empty for ready-made bounds
    tagset     1          0          1           tagsets  (), (("tenant", "acme"),)

Bounds are keys under `schema`, which also numbers the attributes; keys stay right for as long as the schema's
generation does. `appended` gives another segment, with more slots, that shares the memory of this one: it writes past
everything that any segment has (flat/arrays.py), so no segment ever changes, and a failure half-way has changed
nothing.

Invariant (`check`): `check_arrays`, as many ids, conditions and tags as slots, distinct sequence numbers.
Complexity: `appended` O(what is appended), amortised; the first time it copies the segment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from earmark.errors import EarmarkError, require
from earmark.flat import bits
from earmark.flat.arrays import (
    F64,
    I32,
    I64,
    NO_STRINGS,
    U64,
    Listed,
    PackedStrings,
    copy_to,
    frozen,
    packed,
    read_only,
)
from earmark.keys.schema import INT64_MAX, INT64_MIN, LIFE, Schema
from earmark.lazy import lazy_property
from earmark.segment.arrays import FEW, SegmentArrays, check_arrays, gather
from earmark.segment.evaluate import NO_LIFE, fixed_scores
from earmark.segment.ids import Id, Ids, Lookups, checked_id, distinct
from earmark.segment.living import Living

Tags: TypeAlias = tuple[tuple[str, str], ...]
NO_TAGS: Tags = ()
MOST_ELEMENTS = 2**31 - 1
_MANY = 1 << 16
"""From this many elements on, a column that grows has less spare room."""
_AT_ONCE = 1 << 14
"""Slots that are put in order at once."""
_KINDS = (
    *(np.int32, np.int32, np.int32, np.uint8, np.int32, np.int64, np.int64, np.float64, np.float64, np.int64),
    *(np.int64, np.int64),
)
_PER_SLOT = ("score", "sequence", "first_moment", "last_moment")
_PER_CONSTRAINT, _PER_INTERVAL = ("attr", "accepts_null", "weight"), ("lo", "hi")
_OFFSETS = ("clause_start", "constraint_start", "interval_start")
_NO_TAGSET: I32 = frozen(np.empty(0, np.int32))
_FIRST_SET: I32 = frozen(np.zeros(1, np.int32))
MAX_SEQUENCE = 2**62
DAMAGE = (AssertionError, ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError)
"""What reading hostile data may raise on the way to one of our errors."""


class Row(NamedTuple):
    """One subscription for a segment that takes rows one at a time: its arrays are lists."""

    schema: Schema
    arrays: SegmentArrays
    id: Id
    text: str
    tags: Tags
    uses: Mapping[int, int]
    """`uses_of` its arrays."""

    def segment(self) -> Segment:
        """A segment of this row alone."""
        kinds = zip(self.arrays, _KINDS, strict=True)
        arrays = SegmentArrays._make(frozen(np.array(column, kind)) for column, kind in kinds)
        return Segment.of(self.schema, arrays, Ids.of([self.id]), [self.text], [self.tags])


class _Room:
    """Columns that the segments of one line share: each element is written once, past all that any segment has.

    Only the segment that has every slot that was `claimed` may write; any other takes room of its own (the last one was
    given up, by an exception or otherwise).
    """

    __slots__ = ("_columns", "_elements", "_views", "claimed")

    def __init__(self, segment: Segment) -> None:
        self._columns: list[Any] = [*segment.arrays, segment.asked.start, segment.asked.joined, segment.tagset]
        self._elements: list[Any] = [None] * len(self._columns)  # by column: its memory, once there is room to write
        self._views = [read_only(column) for column in self._columns]
        self.claimed = len(segment)

    def put(self, at: int, size: int, values: Any) -> Any:
        """Write behind the first elements of a column; all that it has then, read-only. Amortised O(values)."""
        return self.put_all(((at, size, values),))[0]

    def put_all(self, writes: Sequence[tuple[int, int, Any]]) -> list[Any]:
        """The same for several columns: the number of each, how many elements it has, and what goes behind them."""
        made, views, memory = [], self._views, self._elements
        for at, size, values in writes:
            elements, end = memory[at], size + len(values)
            if end > size and (elements is None or end > len(elements)) and end > len(self._columns[at]):
                elements = self._grow(at, size, end)
            if elements is None:
                if end > size:
                    self._columns[at][size:end] = values
            elif type(values) is list:  # one by one is quicker
                for place, value in enumerate(values, size):
                    elements[place] = value
            elif type(values) is bytes:
                elements[size:end] = values
            elif end > size:
                self._columns[at][size:end] = values
            made.append(views[at][:end])
        return made

    def _grow(self, at: int, size: int, end: int) -> Any:
        """Give a column room for this many elements, and for more of them later; its memory."""
        before, spare = self._columns[at], size // (2 if size < _MANY else 16)
        column = np.empty(max(16, end, size + spare), before.dtype)
        copy_to(column, before[:size])
        self._columns[at], self._views[at] = column, read_only(column)
        self._elements[at] = memoryview(column)  # type: ignore[arg-type]
        return self._elements[at]

    def put_some(self, at: int, size: int, old: Any, values: Any, count: int, default: float) -> Any:
        """The same for a column that is stored from the first value on that is not its default."""
        if not len(values):
            if not len(old):
                return old
            values = [default] * count if count <= FEW else np.full(count, default)
        elif len(old) < size:
            size, values = 0, np.append(np.full(size, default), values)
        return self.put(at, size, values)


_START, _JOINED, _TAGSET = range(len(SegmentArrays._fields), len(SegmentArrays._fields) + 3)
"""The columns of a `_Room` behind the arrays."""


@dataclass(eq=False)
class Segment:
    """Subscriptions by slot. It never changes."""

    schema: Schema
    arrays: SegmentArrays
    ids: Ids
    asked: PackedStrings
    tagset: I32 = field(default_factory=lambda: _NO_TAGSET)
    """The number of each slot's set of tags; empty when there are no tags."""
    tagsets: Listed[Tags] = field(default_factory=lambda: Listed([NO_TAGS]))
    lookups: Lookups = field(default_factory=Lookups)
    room: _Room | None = None
    known_order: bool | None = None
    """`is_ordered`, where the maker of the segment knows it."""

    @classmethod
    def of(
        cls,
        schema: Schema,
        arrays: SegmentArrays,
        ids: Ids,
        asked: Sequence[str] | PackedStrings | None = None,
        tags: Sequence[Tags] | None = None,
    ) -> Segment:
        """A segment of these rows. No conditions: all are ready-made bounds."""
        if not isinstance(asked, PackedStrings):
            asked = packed([text.encode() for text in asked]) if asked else without_text(len(ids))
        if not (tags and any(tags)):
            return cls(schema, arrays, ids, asked)
        numbers: dict[Tags, int] = {NO_TAGS: 0}
        tagset = np.array([numbers.setdefault(own, len(numbers)) for own in tags], np.int32)
        return cls(schema, arrays, ids, asked, frozen(tagset), Listed(list(numbers)))

    # --- looking ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many slots."""
        return len(self.arrays.sequence)

    def __bool__(self) -> bool:
        """Always: a segment without slots still has a schema."""
        return True

    @lazy_property
    def is_ordered(self) -> bool:
        """Whether slots ascend with sequence, so that slot order is the order of insertion."""
        sequence = self.arrays.sequence
        return bool((sequence[:-1] < sequence[1:]).all()) if self.known_order is None else self.known_order

    @lazy_property
    def fixed_scores(self) -> F64:
        """By slot, the score that does not depend on the event; NaN where it does. O(constraints)."""
        return frozen(fixed_scores(self.arrays))

    @lazy_property
    def ends(self) -> I64:
        """The last moments of all slots, ascending; empty where no slot has a life span."""
        return frozen(np.sort(self.arrays.last_moment))

    @lazy_property
    def last_end(self) -> int:
        """The key of the last moment at which some slot may match. O(slots)."""
        return int(self.arrays.last_moment.max()) if len(self.arrays.last_moment) else INT64_MAX

    @lazy_property
    def shared_life(self) -> tuple[int, int]:
        """The keys of the first and the last moment at which all slots live; at none, if these descend. O(slots)."""
        first, last = self.arrays.first_moment, self.arrays.last_moment
        return (int(first.max()), int(last.min())) if len(first) else (INT64_MIN, INT64_MAX)

    @lazy_property
    def living(self) -> Living:
        """Which slots are living when."""
        return Living(self.arrays.first_moment, self.arrays.last_moment)

    @property
    def life(self) -> int:
        """The number of the attribute whose value is the time of an event; NO_LIFE where no slot has a life span."""
        return self.schema.by_name[LIFE].number if len(self.arrays.first_moment) else NO_LIFE

    def life_between(self, first: int, last: int) -> int:
        """`life`, as a search at these moments needs it: NO_LIFE where all slots are living from one to the other."""
        if not len(self.arrays.first_moment):
            return NO_LIFE
        begin, end = self.shared_life
        return NO_LIFE if begin <= first and last <= end else self.life

    def find(self, one: object) -> int | None:
        """The last slot that has this id. Amortised O(1)."""
        return self.lookups.find(self, one)

    def tagged(self, scope: Tags) -> U64:
        """The bitmap of slots that carry all these tags. O(slots / 64 + slots with these tags)."""
        found = bits.all_set(len(self))
        for tag in scope:
            found = bits.both(found, bits.from_slots(self.lookups.tagged(self, tag), len(self)))
        return found

    def text(self, slot: int) -> str:
        """The text of a slot's condition; empty for ready-made bounds."""
        return self.asked[slot]

    def tags(self, slot: int) -> Tags:
        """The tags of a slot."""
        return self.tagsets.items[self.tagset[slot]] if len(self.tagset) else NO_TAGS

    def weights(self, slot: int) -> dict[int, float]:
        """The weights of a slot's attributes, by number."""
        arrays = self.arrays
        first = arrays.constraint_start[arrays.clause_start[slot]]
        last = arrays.constraint_start[arrays.clause_start[slot + 1]]
        weight = arrays.weight[first:last].tolist() if len(arrays.weight) else [1.0] * int(last - first)
        return dict(zip(arrays.attr[first:last].tolist(), weight, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, without ids, conditions and tags."""
        return sum(array.nbytes for array in self.arrays)

    # --- others made from it ---------------------------------------------------------------------------------

    def pick(self, slots: I64) -> Segment:
        """These slots, in this order. O(their size)."""
        tagset = frozen(self.tagset[slots]) if len(self.tagset) else self.tagset
        asked = self.asked.take(slots) if len(self.asked.joined) else without_text(len(slots))
        return Segment(self.schema, _gathered(self.arrays, slots), self.ids.take(slots), asked, tagset, self.tagsets)

    def with_sequence(self, sequence: I64) -> Segment:
        """The same subscriptions with other places in the order of insertion."""
        return replace(
            self, arrays=self.arrays._replace(sequence=frozen(sequence)), lookups=Lookups(), room=None, known_order=None
        )

    def in_order(self) -> Segment:
        """The same subscriptions in the order of insertion."""
        return self if self.is_ordered else self.reordered(np.argsort(self.arrays.sequence, kind="stable"))

    def reordered(self, order: I64) -> Segment:
        """All slots, in another order."""
        tagset = frozen(self.tagset[order]) if len(self.tagset) else self.tagset
        asked = self.asked.take(order) if len(self.asked.joined) else self.asked
        return Segment(self.schema, _gathered(self.arrays, order), self.ids.take(order), asked, tagset, self.tagsets)

    def appended(self, other: Segment | Row) -> Segment:
        """These subscriptions and others behind them, under the other's schema: a later one of the same generation."""
        old, new = self.arrays, other.arrays
        slots, constraints, intervals = len(old.sequence), len(old.attr), len(old.lo)
        count = len(new.sequence)
        check_room(slots + count, constraints + len(new.attr), intervals + len(new.lo))
        if not count:
            return self
        room = self.room
        if room is None or room.claimed != slots:
            room = _Room(self)
        room.claimed = slots + count  # first: an exception from here on leaves elements that no segment has
        clauses, end = len(old.constraint_start) - 1, len(self.asked.joined)
        text: Any
        ends: Any
        if isinstance(other, Row):
            text = other.text.encode()
            ends, ids, is_ordered = [end + len(text)], self.ids.extended_by(other.id), True
        else:
            text, ends = other.asked.joined, other.asked.start[1:] + end
            ids, is_ordered = self.ids.extended(other.ids), other.is_ordered
        *columns, sequence, starts, joined = room.put_all(
            (
                (0, slots + 1, _shifted(new.clause_start, clauses)),
                (1, clauses + 1, _shifted(new.constraint_start, constraints)),
                (2, constraints, new.attr),
                (3, constraints, new.accepts_null),
                (4, constraints + 1, _shifted(new.interval_start, intervals)),
                (5, intervals, new.lo),
                (6, intervals, new.hi),
                (9, slots, new.sequence),
                (_START, slots + 1, ends),
                (_JOINED, end, text),
            )
        )
        weight = room.put_some(7, constraints, old.weight, new.weight, len(new.attr), 1.0)
        score = room.put_some(8, slots, old.score, new.score, count, 0.0)
        first = room.put_some(10, slots, old.first_moment, new.first_moment, count, INT64_MIN)
        last = room.put_some(11, slots, old.last_moment, new.last_moment, count, INT64_MAX)
        numbers, tagsets = self._with_tags(other)
        tagset = room.put_some(_TAGSET, slots, self.tagset, numbers, count, 0)
        lookups = self.lookups if ids.follows(self.ids) else Lookups()  # one line shares them
        is_ordered = is_ordered and self.is_ordered and (not slots or bool(new.sequence[0] > old.sequence[-1]))
        arrays = SegmentArrays._make((*columns, weight, score, sequence, first, last))
        return Segment(
            *(other.schema, arrays, ids, PackedStrings(starts, joined), tagset, tagsets, lookups, room, is_ordered)
        )

    def _with_tags(self, other: Segment | Row) -> tuple[I32, Listed[Tags]]:
        """The numbers of the other's sets of tags, none where it has no tags, and the sets that they are of."""
        known = self.tagsets
        if isinstance(other, Row):
            tagset, sets = _FIRST_SET if other.tags else _NO_TAGSET, [other.tags]
        else:
            tagset, sets = other.tagset, other.tagsets.items
        if not len(tagset):
            return tagset, known
        new: dict[Tags, int] = {}
        numbers = np.zeros(len(sets), np.int32)
        for at in np.unique(tagset).tolist():
            number = self.lookups.tagset(self, sets[at])
            numbers[at] = new.setdefault(sets[at], known.size + len(new)) if number is None else number
        return numbers[tagset], known.extended(list(new)) if new else known

    # --- checks ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise AssertionError, naming what is broken, unless the invariant holds."""
        check_arrays(self.arrays, len(self.schema))
        require(len(self.ids) == len(self) == len(self.asked), "ids, conditions and slots disagree")
        require(len(self.tagset) in (0, len(self)), "tags and slots disagree")
        for strings in self.schema.strings.values():
            strings.check()


def without_text(slots: int) -> PackedStrings:
    """The conditions of slots that have ready-made bounds."""
    return PackedStrings(frozen(np.zeros(slots + 1, np.int64)), NO_STRINGS.joined)


def no_arrays() -> SegmentArrays:
    """The arrays of no subscriptions."""
    columns = zip(SegmentArrays._fields, _KINDS, strict=True)
    return SegmentArrays._make(frozen(np.zeros(int(name in _OFFSETS), kind)) for name, kind in columns)


def no_segment(schema: Schema, integer_ids: bool = False) -> Segment:
    """A segment without subscriptions."""
    ids = Ids.of(frozen(np.empty(0, np.int64)) if integer_ids else NO_STRINGS)
    return Segment(schema, no_arrays(), ids, NO_STRINGS)


def check_room(slots: int, constraints: int, intervals: int) -> None:
    """Raise when these are too many for one segment, whose offsets have 32 bits."""
    if max(slots, constraints, intervals) > MOST_ELEMENTS:
        raise EarmarkError("a table holds at most 2,147,483,647 intervals; split the subscriptions over several")


def _gathered(table: SegmentArrays, order: I64) -> SegmentArrays:
    """These slots of a table, in this order. In parts, since gathering takes as much again meanwhile."""
    if len(order) <= _AT_ONCE:
        return gather(table, order)
    made = _room_for(table, order)
    slots = clauses = constraints = intervals = 0
    for start in (made.clause_start, made.constraint_start, made.interval_start):
        start[0] = 0
    for first in range(0, len(order), _AT_ONCE):
        part = gather(table, order[first : first + _AT_ONCE])
        sizes = (len(part.sequence), len(part.constraint_start) - 1, len(part.attr), len(part.lo))
        made.clause_start[slots + 1 : slots + 1 + sizes[0]] = part.clause_start[1:] + clauses
        made.constraint_start[clauses + 1 : clauses + 1 + sizes[1]] = part.constraint_start[1:] + constraints
        made.interval_start[constraints + 1 : constraints + 1 + sizes[2]] = part.interval_start[1:] + intervals
        for names, begin in ((_PER_SLOT, slots), (_PER_CONSTRAINT, constraints), (_PER_INTERVAL, intervals)):
            for name in names:
                values = getattr(part, name)
                getattr(made, name)[begin : begin + len(values)] = values
        slots, clauses, constraints, intervals = (
            before + size for before, size in zip((slots, clauses, constraints, intervals), sizes, strict=True)
        )
    return SegmentArrays._make(map(frozen, made))


def _room_for(table: SegmentArrays, order: I64) -> SegmentArrays:
    """Columns as long as those of these slots."""
    begin, end = table.clause_start[order], table.clause_start[order + 1]
    counts = [len(order), int((end - begin).sum())]
    for start in (table.constraint_start, table.interval_start):
        begin, end = start[begin], start[end]
        counts.append(int((end - begin).sum()))
    slots, clauses, constraints, intervals = counts
    sizes = dict(zip(_OFFSETS, (slots + 1, clauses + 1, constraints + 1), strict=True))
    for names, count in ((_PER_SLOT, slots), (_PER_CONSTRAINT, constraints), (_PER_INTERVAL, intervals)):
        sizes |= dict.fromkeys(names, count)
    columns: Any = zip(SegmentArrays._fields, table, strict=True)
    return SegmentArrays._make(np.empty(sizes[name] if len(column) else 0, column.dtype) for name, column in columns)


def _shifted(start: Any, by: int) -> Any:
    """The ends of rows that begin so much later."""
    return [end + by for end in start[1:]] if type(start) is list else start[1:] + by


# --- segments that come from outside: what must hold beyond what kernels rely on (`rows.check_arrays`) ---------


def check_form(segment: Segment) -> None:
    """Raise AssertionError or ValueError unless arrays, ids, conditions and tags can be what they say they are."""
    check_arrays(segment.arrays, len(segment.schema))
    segment.asked.check("conditions")
    numbers = segment.tagset
    require(not len(numbers) or 0 <= numbers.min() <= numbers.max() < len(segment.tagsets), "a set of tags is unknown")
    ids = segment.ids.column
    if isinstance(ids, PackedStrings):
        ids.check("ids")
        lengths = np.diff(ids.start)
        for slot in {int(lengths.argmin()), int(lengths.argmax())} if len(ids) else ():
            checked_id(ids[slot])


def check_living(segment: Segment, with_ids: bool = True) -> None:
    """Raise AssertionError unless the bounds are of their types, and no id or place in the order is used twice.

    All slots count as living: what was removed may have had another type, and an id that is now another's.
    """
    check_content(segment.arrays, segment.schema)
    sequence = segment.arrays.sequence if segment.is_ordered else np.sort(segment.arrays.sequence)
    require(bool((sequence[:-1] < sequence[1:]).all()), "a sequence number is used twice")
    if with_ids:
        require(distinct([segment.ids], [np.arange(len(segment))]) == len(segment), "an id is used twice")


def check_content(arrays: SegmentArrays, schema: Schema) -> None:
    """What `check_arrays` cannot see: bounds are in the domain of their type, and on or beside a string constant."""
    sequence = arrays.sequence
    possible = not len(sequence) or 0 <= sequence.min() <= sequence.max() < MAX_SEQUENCE
    require(possible, "a sequence number is impossible")
    low, high = schema.domains
    of = np.repeat(arrays.attr, np.diff(arrays.interval_start))
    inside = (arrays.lo >= low[of]) & (arrays.hi <= high[of])
    untyped = (arrays.lo == INT64_MIN) & (arrays.hi == INT64_MAX)  # IS NOT NULL, asked before the type was known
    require((inside | untyped).all(), "a bound is outside its type")
    if len(arrays.first_moment):
        require(LIFE in schema.by_name, "there are life spans, but no attribute of times")
        first, last, number = arrays.first_moment, arrays.last_moment, schema.by_name[LIFE].number
        possible = ((first >= low[number]) | (first == INT64_MIN)) & ((last <= high[number]) | (last == INT64_MAX))
        require(bool(possible.all()), "a life span is outside the calendar")
    for number, strings in schema.strings.items():
        mine = np.flatnonzero(of == number)
        require(strings.has_bounds(arrays.lo[mine], arrays.hi[mine]), "a bound on strings is at no constant")


# --- who uses an attribute ---------------------------------------------------------------------------------------


def uses_of(table: SegmentArrays, schema: Schema) -> dict[int, int]:
    """By attribute, how many constraints compare it with a value: neither empty nor wide open. Life spans count too."""
    lives = _lives(schema, table.first_moment, table.last_moment)
    if isinstance(table.attr, list):
        return _few_uses(schema, table.attr, table.interval_start, table.lo, table.hi) | lives
    if len(table.attr) <= FEW:
        columns = (table.attr, table.interval_start, table.lo, table.hi)
        return _few_uses(schema, *(column.tolist() for column in columns)) | lives
    low, high = schema.domains
    typed = (table.interval_start[1:] > table.interval_start[:-1]) & schema.typed[table.attr]
    first = table.interval_start[:-1][typed]
    attr = table.attr[typed]
    compares = (table.lo[first] > low[attr]) | (table.hi[first] < high[attr])
    counted = np.bincount(attr[compares], minlength=len(schema))
    present = np.flatnonzero(np.bincount(table.attr))
    return dict(zip(present.tolist(), counted[present].tolist(), strict=True)) | lives


def uses_of_slots(table: SegmentArrays, slots: list[int], schema: Schema) -> dict[int, int]:
    """The same for some slots."""
    if len(slots) > 1:
        return uses_of(gather(table, np.array(slots, np.int64)), schema)
    (slot,) = slots
    first, last = table.clause_start[slot : slot + 2].tolist()
    begin, end = table.constraint_start.item(first), table.constraint_start.item(last)
    start = table.interval_start[begin : end + 1].tolist()
    low, high = start[0], start[-1]
    lo, hi = table.lo[low:high].tolist(), table.hi[low:high].tolist()
    found = _few_uses(schema, table.attr[begin:end].tolist(), start, lo, hi)
    if len(table.first_moment):
        found |= _lives(schema, table.first_moment[slot : slot + 1], table.last_moment[slot : slot + 1])
    return found


def _lives(schema: Schema, first: Any, last: Any) -> dict[int, int]:
    """How many life spans there are, under the number of the attribute LIFE; empty without any."""
    if not len(first):
        return {}
    count = np.count_nonzero((np.asarray(first) != INT64_MIN) | (np.asarray(last) != INT64_MAX))
    return {schema.by_name[LIFE].number: int(count)} if count else {}


def _few_uses(schema: Schema, attr: list[int], start: list[int], lo: list[int], hi: list[int]) -> dict[int, int]:
    """The same without arrays, which costs less for a subscription or two."""
    found: dict[int, int] = {}
    by_name, names, base = schema.by_name, schema.names, start[0]
    for c, number in enumerate(attr):
        type_, first = by_name[names[number]].type, start[c] - base
        some = type_ is not None and start[c] < start[c + 1] and (lo[first] > type_.low or hi[first] < type_.high)
        found[number] = found[number] + some if number in found else int(some)
    return found
