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

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from earmark.errors import EarmarkError, require
from earmark.flat import bits
from earmark.flat.arrays import F64, I32, I64, NO_STRINGS, U64, Growable, Listed, PackedStrings, frozen, packed
from earmark.keys.schema import INT64_MAX, INT64_MIN, Schema
from earmark.segment.arrays import FEW, SegmentArrays, check_arrays, gather
from earmark.segment.evaluate import fixed_scores
from earmark.segment.ids import Ids, Lookups, checked_id, distinct

Tags: TypeAlias = tuple[tuple[str, str], ...]
NO_TAGS: Tags = ()
MOST_ELEMENTS = 2**31 - 1
_OFFSETS = ("clause_start", "constraint_start", "interval_start")
_NO_TAGSET: I32 = frozen(np.empty(0, np.int32))
MAX_SEQUENCE = 2**62
DAMAGE = (AssertionError, ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError)
"""What reading hostile data may raise on the way to one of our errors."""


class _GrowingColumns(NamedTuple):
    """The columns of a segment that can be extended without a copy."""

    arrays: dict[str, Growable]
    asked_start: Growable
    asked: Growable
    tagset: Growable


@dataclass(frozen=True, eq=False)
class Segment:
    """Subscriptions by slot."""

    schema: Schema
    arrays: SegmentArrays
    ids: Ids
    asked: PackedStrings
    tagset: I32 = field(default_factory=lambda: _NO_TAGSET)
    """The number of each slot's set of tags; empty when there are no tags."""
    tagsets: Listed[Tags] = field(default_factory=lambda: Listed([NO_TAGS]))
    lookups: Lookups = field(default_factory=Lookups)
    room: _GrowingColumns | None = None
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

    @cached_property
    def is_ordered(self) -> bool:
        """Whether slots ascend with sequence, so that slot order is the order of insertion."""
        sequence = self.arrays.sequence
        return bool((sequence[:-1] < sequence[1:]).all()) if self.known_order is None else self.known_order

    @cached_property
    def fixed_scores(self) -> F64:
        """By slot, the score that does not depend on the event; NaN where it does. O(constraints)."""
        return frozen(fixed_scores(self.arrays))

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
        return Segment(self.schema, gather(self.arrays, slots), self.ids.take(slots), asked, tagset, self.tagsets)

    def with_sequence(self, sequence: I64) -> Segment:
        """The same subscriptions with other places in the order of insertion."""
        return replace(
            self, arrays=self.arrays._replace(sequence=frozen(sequence)), lookups=Lookups(), room=None, known_order=None
        )

    def in_order(self) -> Segment:
        """The same subscriptions in the order of insertion."""
        return self if self.is_ordered else self.pick(np.argsort(self.arrays.sequence, kind="stable"))

    def appended(self, other: Segment) -> Segment:
        """These subscriptions and others behind them, under the other's schema: a later one of the same generation."""
        check_room(self.arrays, other.arrays)
        if not len(other):
            return self
        room = self.room or self._new_room()
        columns = dict(room.arrays)
        for name, per, default in (("weight", "attr", 1.0), ("score", "sequence", 0.0)):
            before, count = len(getattr(self.arrays, per)), len(getattr(other.arrays, per))
            columns[name] = _with_default(columns[name], getattr(other.arrays, name), count, before, default)
        for name in ("attr", "accepts_null", "lo", "hi", "sequence"):
            columns[name] = columns[name].extended(getattr(other.arrays, name))
        for name in _OFFSETS:
            columns[name] = columns[name].extended(getattr(other.arrays, name)[1:] + getattr(self.arrays, name)[-1])
        start = room.asked_start.extended(other.asked.start[1:] + self.asked.start[-1])
        asked = room.asked.extended(other.asked.joined) if len(other.asked.joined) else room.asked
        tagset, tagsets = self._with_tags(room.tagset, other)
        arrays = SegmentArrays(**{name: column.view() for name, column in columns.items()})
        was_last, ids = self.ids.is_last, self.ids.extended(other.ids)
        lookups = self.lookups if was_last and ids.base is self.ids.base else Lookups()  # one line shares them
        return Segment(
            other.schema,
            arrays,
            ids,
            PackedStrings(start.view(), asked.view()),
            tagset.view(),
            tagsets,
            lookups,
            _GrowingColumns(columns, start, asked, tagset),
            self.is_ordered
            and other.is_ordered
            and (not len(self) or bool(other.arrays.sequence[0] > self.arrays.sequence[-1])),
        )

    def _new_room(self) -> _GrowingColumns:
        columns = {name: Growable(array.dtype, array) for name, array in self.arrays._asdict().items()}
        asked = self.asked
        return _GrowingColumns(
            columns, Growable(np.int64, asked.start), Growable(np.uint8, asked.joined), Growable(np.int32, self.tagset)
        )

    def _with_tags(self, column: Growable, other: Segment) -> tuple[Growable, Listed[Tags]]:
        """The sets of tags of the other's slots, behind these."""
        known = self.tagsets
        if not column.size and not len(other.tagset):
            return column, known
        if not column.size and len(self):
            column = Growable(np.int32, np.zeros(len(self), np.int32))
        if not len(other.tagset):
            return column.extended(np.zeros(len(other), np.int32)), known
        new: dict[Tags, int] = {}
        numbers = np.zeros(other.tagsets.size, np.int32)
        for at in np.unique(other.tagset).tolist():
            own = other.tagsets.items[at]
            number = self.lookups.tagset(self, own)
            numbers[at] = new.setdefault(own, known.size + len(new)) if number is None else number
        return column.extended(numbers[other.tagset]), known.extended(list(new)) if new else known

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
    kinds = (np.int32, np.int32, np.int32, np.uint8, np.int32, np.int64, np.int64, np.float64, np.float64, np.int64)
    columns = zip(SegmentArrays._fields, kinds, strict=True)
    return SegmentArrays._make(frozen(np.zeros(int(name in _OFFSETS), kind)) for name, kind in columns)


def no_segment(schema: Schema, integer_ids: bool = False) -> Segment:
    """A segment without subscriptions."""
    ids = Ids.of(frozen(np.empty(0, np.int64)) if integer_ids else NO_STRINGS)
    return Segment(schema, no_arrays(), ids, NO_STRINGS)


def check_room(*parts: SegmentArrays) -> None:
    """Raise when these are too many for one segment, whose offsets have 32 bits."""
    for name in ("attr", "lo", "sequence"):
        if sum(len(getattr(part, name)) for part in parts) > MOST_ELEMENTS:
            raise EarmarkError("a table holds at most 2,147,483,647 intervals; split the subscriptions over several")


def _with_default(column: Growable, values: np.ndarray, count: int, before: int, default: float) -> Growable:
    """A column is stored from the first value that is not its default."""
    if len(values) == 0 and column.size == 0:
        return column
    if column.size == 0 and before:
        column = Growable(np.float64, np.full(before, default))
    return column.extended(values if len(values) else np.full(count, default))


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
    for number, strings in schema.strings.items():
        mine = np.flatnonzero(of == number)
        require(strings.has_bounds(arrays.lo[mine], arrays.hi[mine]), "a bound on strings is at no constant")


# --- who uses an attribute ---------------------------------------------------------------------------------------


def uses_of(table: SegmentArrays, schema: Schema) -> dict[int, int]:
    """By attribute, how many constraints compare it with a value: neither empty nor wide open."""
    if len(table.attr) <= FEW:
        return _few_uses(table, schema)
    low, high = schema.domains
    typed = (table.interval_start[1:] > table.interval_start[:-1]) & schema.typed[table.attr]
    first = table.interval_start[:-1][typed]
    attr = table.attr[typed]
    compares = (table.lo[first] > low[attr]) | (table.hi[first] < high[attr])
    counted = np.bincount(attr[compares], minlength=len(schema))
    present = np.flatnonzero(np.bincount(table.attr))
    return dict(zip(present.tolist(), counted[present].tolist(), strict=True))


def _few_uses(table: SegmentArrays, schema: Schema) -> dict[int, int]:
    """The same without arrays, which costs less for a subscription or two."""
    found: dict[int, int] = {}
    start, lo, hi = table.interval_start.tolist(), table.lo.tolist(), table.hi.tolist()
    for c, number in enumerate(table.attr.tolist()):
        type_, first = schema.by_name[schema.names[number]].type, start[c]
        some = type_ is not None and first < start[c + 1] and (lo[first] > type_.low or hi[first] < type_.high)
        found[number] = found.get(number, 0) + some
    return found
