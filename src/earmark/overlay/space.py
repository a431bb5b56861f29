"""One space for all brokers: which attributes are its axes, where their cells begin, and its number.

mics.txt, sections 3.1 to 3.3. Brokers of a range policy speak of ranges of Hilbert's curve, which mean something only
in one space. So a space is *described*, by values and not by keys, and the same description is given to every broker:

    Space((Axis("price", "number", (10, 20, 50)), Axis("city", "string", ("M",))), bits=3)

    price   cell 0 NULL   1 below 10   2 from 10   3 from 20   4 from 50      a value beyond the outer cuts is in an
    city    cell 0 NULL   1 below 'M'  2 from 'M'                             outer cell: no domain is exceeded

Its **number** is a hash of the description. It is part of Hello and of every message with ranges; a neighbour in
another space is refused, and ranges of different spaces are never compared. A change of space is a new number, and
everything is told again (`RangePolicy.rekey`).

**Re-keying.** Inside a broker values are compared by keys, and keys change: strings are relabelled when a gap between
them is full, and a number becomes wide with the first constant beyond 2^53. Cells are given by values, so a broker
looks the keys of its cuts up again (`Grid`), its ranges stay what they are, and its neighbours need not know.

**Never a miss.** A condition becomes the ranges of the boxes around its clauses; whatever it asks beyond the axes is
left out. A condition that does not fit the types of the axes takes the whole space. A value of an event that does not
fit is in all cells of its axis. Types are declared: a broker gives them to its clients' subscriptions too
(`Space.types`), so that both read values in the same way.

Invariant: an event that matches a condition has a number in the ranges of the condition.
Complexity: a condition O(its ranges), an event O(axes log cuts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Annotated, Any, Self

import msgspec
import numpy as np

from earmark.cover.canonical import canonical, is_valid_text
from earmark.cover.cover_index import version_of
from earmark.cover.ranges.subsumption import RangeBatch, ranges_of_slots
from earmark.cover.ranges.table import Ranges
from earmark.curves import space as curves
from earmark.curves.hilbert import MOST_DIMENSIONS, number_cells
from earmark.curves.space import FEWEST_BITS, MOST_BITS, boxes_of_events, learned_space, ranges_of_boxes, space_of
from earmark.errors import EarmarkError, check_whole
from earmark.events.mappings import Reject, encode_events
from earmark.flat.arrays import I64
from earmark.index.mics.plan import possible_cuts
from earmark.keys.cuts import value_of_key
from earmark.keys.schema import Attribute, Schema
from earmark.language.predicate import literal_sql, name_sql
from earmark.overlay.messages import Name
from earmark.segment.arrays import SegmentArrays
from earmark.segment.builder import Subscription, prepare
from earmark.segment.segment import Segment

MOST_RANGES = 1 << 8
"""A clause that would have more ranges is made of larger cells."""
MOST_CUTS = (1 << MOST_BITS) - 2
Cut = int | float | Annotated[str, msgspec.Meta(max_length=1_024)]


class Axis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One attribute, its type, and the values at which its cells begin, ascending. Dates and timestamps are strings."""

    attribute: Name
    type: Annotated[str, msgspec.Meta(max_length=32)]
    cuts: Annotated[tuple[Cut, ...], msgspec.Meta(max_length=MOST_CUTS)]


class Space(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A description of a space: its axes in order, 2^bits cells on each, and the zone of timestamps without one."""

    axes: Annotated[tuple[Axis, ...], msgspec.Meta(max_length=MOST_DIMENSIONS)]
    bits: Annotated[int, msgspec.Meta(ge=FEWEST_BITS, le=MOST_BITS)] = curves.BITS
    zone: Annotated[str, msgspec.Meta(max_length=64)] = "UTC"

    @classmethod
    def even(cls, bounds: Mapping[str, tuple[float, float]], bits: int = curves.BITS) -> Self:
        """A space of numbers: for each attribute the least and the greatest usual value, cut into equal cells.

        Where both are integers and there are enough cells, every integer has its own.
        """
        check_whole(bits, "bits", FEWEST_BITS, MOST_BITS)
        return cls(tuple(Axis(name, "number", _even(*ends, bits)) for name, ends in bounds.items()), bits)

    @classmethod
    def of(cls, source: Any, axes: int = curves.AXES, bits: int = curves.BITS) -> Self:
        """A space for subscriptions like these, a Matcher or a batch: the attributes that tell most of them apart."""
        check_whole(axes, "axes", 1, MOST_DIMENSIONS)
        check_whole(bits, "bits", FEWEST_BITS, MOST_BITS)
        view = version_of(source).whole
        schema, table = view.schema, canonical(view)
        bounds = {attr: possible_cuts(table, attr) for attr in np.unique(table.attr).tolist()}
        made = []
        for number, keys in learned_space(table, axes, bits, bounds).cuts_of_axes():
            attribute = schema.by_name[schema.names[number]]
            made.append(Axis(attribute.name, str(attribute.known_type), _values(schema, attribute, keys)))
        return cls(tuple(made), bits, schema.zone_name)

    @classmethod
    def from_record(cls, record: object) -> Self:
        """A space from its description as JSON has it (`record`)."""
        try:
            return msgspec.convert(record, cls)
        except msgspec.ValidationError as problem:
            raise EarmarkError(f"expected the description of a space: {problem}") from None

    @property
    def record(self) -> dict[str, Any]:
        """The description for JSON."""
        described: dict[str, Any] = msgspec.to_builtins(self)
        return described

    @property
    def number(self) -> int:
        """A number that no other space has, by all odds: a hash of the description, from 1 to 2^63 - 1."""
        digest = blake2b(msgspec.json.encode(self), digest_size=8, person=b"earmark.space").digest()
        return max(1, int.from_bytes(digest, "big") >> 1)

    @property
    def types(self) -> dict[str, str]:
        """The types of the attributes that are axes."""
        return {axis.attribute: axis.type for axis in self.axes}


def _even(low: float, high: float, bits: int) -> tuple[Cut, ...]:
    cells = (1 << bits) - 1
    if not low <= high or not np.isfinite(low) or not np.isfinite(high):
        raise EarmarkError(f"expected the least and the greatest value of an attribute, got {low!r} and {high!r}")
    if isinstance(low, int) and isinstance(high, int):
        return tuple(sorted({low + -(-(high + 1 - low) * i // cells) for i in range(1, cells)} - {high + 1, low}))
    return tuple(np.unique(low + (high - low) * np.arange(1, cells) / cells).tolist())


def _values(schema: Schema, attribute: Attribute, keys: list[int]) -> tuple[Cut, ...]:
    """The values of cuts that are keys, but for those that no literal can name."""
    type_ = attribute.known_type
    if type_.keyed:
        known = [schema.strings[attribute.number].constant_near(key) for key in keys]
        return tuple(sorted({one.decode() for one in known if one and is_valid_text(one)}, key=str.encode))
    values = [value_of_key(type_, key) for key in keys if type_.low < key < type_.high]
    finite = [value for value in values if not isinstance(value, float) or np.isfinite(value)]
    return tuple(one if isinstance(one, int | float) else str(one) for one in finite if not isinstance(one, str))


class Grid:
    """A space at work: conditions and events as ranges of its curve."""

    def __init__(self, space: Space) -> None:
        if not isinstance(space, Space):
            space = Space.from_record(space)
        self.space = space
        self.number = space.number
        names = [axis.attribute for axis in space.axes]
        if len(set(names)) < len(names):
            raise EarmarkError("an attribute has two axes in the space")
        schema = Schema(space.zone)
        schema.declare(space.types)
        self._cut_rows = [
            f"{name_sql(axis.attribute)} >= {literal_sql(cut)}" for axis in space.axes for cut in axis.cuts
        ]
        segment = _segment(schema, self._cut_rows)
        self._schema = segment.schema
        self._curve = self._with_cuts(segment.arrays)
        self.last = (1 << (self._curve.axes * space.bits)) - 1
        """The last number of the curve."""

    def _with_cuts(self, table: SegmentArrays) -> curves.Space:
        """The space in the keys of a table whose first rows are the cuts."""
        keys = table.lo[: len(self._cut_rows)]
        if len(table.interval_start) <= len(keys) or len(table.lo) < len(keys):
            raise EarmarkError("a cell of the space begins above all values of its attribute")
        cuts, first = [], 0
        for axis in self.space.axes:
            cuts.append(keys[first : first + len(axis.cuts)].astype(np.int64))
            first += len(axis.cuts)
            if not all(low < high for low, high in pairwise(cuts[-1].tolist())):
                raise EarmarkError(f"expected cuts of {axis.attribute!r} that ascend")
            most = (1 << self.space.bits) - 2
            if len(axis.cuts) > most:
                raise EarmarkError(f"expected at most {most:,} cuts of {axis.attribute!r}, got {len(axis.cuts):,}")
        return space_of(np.arange(len(cuts), dtype=np.int32), cuts, self.space.bits)

    # --- conditions --------------------------------------------------------------------------------------------

    def ranges(self, conditions: Sequence[str], most: int = MOST_RANGES) -> list[Ranges]:
        """The ranges of each condition. A clause that would have more than about `most` is made of larger cells."""
        try:
            batch, skipped = self._converted(conditions, most)
        except EarmarkError:  # types that contradict each other, or those of the axes
            return [self._alone(condition, most) for condition in conditions]
        return [batch.of(place) for place in range(skipped, skipped + len(conditions))]

    def _alone(self, condition: str, most: int) -> Ranges:
        try:
            batch, skipped = self._converted([condition], most)
        except EarmarkError:
            return Ranges(np.zeros(1, np.int64), np.array([self.last], np.int64))
        return batch.of(skipped)

    def _converted(self, conditions: Sequence[str], most: int) -> tuple[RangeBatch, int]:
        """The ranges of conditions; and how many rows come before them."""
        schema = self._own_schema()
        segment, skipped, curve = _segment(schema, conditions), 0, self._curve
        if not self._keeps_keys(schema, segment.schema):
            segment = _segment(self._own_schema(), [*self._cut_rows, *conditions])
            skipped, curve = len(self._cut_rows), self._with_cuts(segment.arrays)
        return ranges_of_slots(curve, segment.arrays, np.arange(skipped + len(conditions)), most), skipped

    def _own_schema(self) -> Schema:
        """The schema of the axes, to which constants may be added."""
        return self._schema.copied() if self._schema.strings else self._schema

    def _keeps_keys(self, before: Schema, after: Schema) -> bool:
        """Whether no axis has other keys after constants were added."""
        for number, axis in enumerate(self.space.axes):
            was, now = before.by_name[axis.attribute].type, after.by_name[axis.attribute].type
            if was is not now or before.strings.get(number) is not after.strings.get(number):
                return False
        return True

    # --- events ------------------------------------------------------------------------------------------------

    def numbers(self, events: Sequence[Mapping[str, Any]]) -> tuple[I64, I64, I64]:
        """Events as ranges: those of event e at start[e] .. start[e + 1]. A point is one number."""
        rejects: list[Reject] = []
        encoded = encode_events(self._schema, events, None, rejects)
        low, high = boxes_of_events(self._curve, encoded)
        top, axis_of = (1 << self.space.bits) - 1, {axis.attribute: i for i, axis in enumerate(self.space.axes)}
        for reject in rejects:
            where = slice(None) if reject.attribute is None else axis_of[reject.attribute]
            low[reject.event, where], high[reject.event, where] = 0, top
        if self._curve.axes and (low == high).all():
            number = number_cells(low, self.space.bits)
            return np.arange(len(events) + 1), number, number
        return ranges_of_boxes(self._curve, low, high, MOST_RANGES)


def _segment(schema: Schema, conditions: Sequence[str]) -> Segment:
    return prepare(schema, [Subscription(i, condition) for i, condition in enumerate(conditions)]).segment(0)
