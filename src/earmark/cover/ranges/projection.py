"""Does any subscription of this neighbour want this event? Answered from a few attributes, without missing any.

mics.txt, section 4.3 (Algorithm 2) and section 5 (Content Space Projection). Subscriptions are projected onto the axes
of a space, become ranges of Hilbert's curve there, and only the union of the ranges is kept: who asked for what is
forgotten. An event is sent when its number is in a range.

    subscriptions   [32, 35]  [45, 46]  [50, 55]          an event at number 52 is sent, one at 28 is not
                         [34, 40]                         one at 50 is sent too, though it may lie in a cell that a
    kept            [32, 40]  [45, 46]  [50, 55]          subscription only touches: a false positive

False positives come from attributes that are left out, from cells that a subscription covers in part, from larger cells
where a box would have too many ranges, and from gaps that are merged. `measured` counts them on events. There is no
other error: whatever a subscription matches is sent.

**Variable cells** (section 6.3) are learned from past events, but only from those that *nobody wants*: no other event
can be sent in vain, so cells are small where such events are many. (Cut by all events, cells would be small where most
events are, which is where most subscriptions are: there nearly everything is wanted, and nothing is gained.) Half of
the cuts are placed that way, the other half evenly. A cut is moved up to the next bound of a subscription, since
between two bounds it tells nothing apart. Cells of equal width are tried too; the grid that sends fewer of the past
events in vain wins.

An event with an interval on an axis is a box; it is sent when a range of the box meets a range that is kept. An event
without an attribute is in the attribute's NULL cell.

Clients can do both conversions, given only the space (section 6.1): `subsumption.ranges_of_slots` for subscriptions,
`ranges_of_events` for events.

Invariant: an event that a projected subscription matches is sent.
Complexity, n ranges: an event O(log n) and the cost of its number; building O(ranges log ranges).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from earmark.cover.canonical import canonical
from earmark.cover.cover_index import version_of
from earmark.cover.merging.traffic import taken
from earmark.cover.ranges.ordered import NONE, Ordered, floor_cursor
from earmark.cover.ranges.table import Ranges, RangeSet
from earmark.curves import space as spaces
from earmark.curves.space import AXES, BITS, Space, equal_cuts, learned_space, ranges_of_boxes
from earmark.errors import EarmarkError, check_whole
from earmark.events.arrays import EventArrays
from earmark.events.choice import some_events
from earmark.events.frames import encode_many
from earmark.flat import bits as bitmaps
from earmark.flat.arrays import I32, I64, Flags
from earmark.index.mics.arrays import LEVEL_BITS, MOST_NUMBER_BITS, TOP_LEVEL
from earmark.index.mics.build import blocks_of_clauses
from earmark.index.mics.plan import possible_cuts, values_of
from earmark.jit import kernel
from earmark.keys.schema import Schema
from earmark.language.words import counted, did_you_mean
from earmark.segment.arrays import SegmentArrays, gather, spread

PIECES = 1 << 10
"""Most blocks of a clause and most ranges of an event's box; beyond that, cells are enlarged."""
AT_ONCE = 1 << 14
Names = Sequence[str]
FEWEST = 32
"""Unwanted events that are needed to learn from where they are."""


class Measured(NamedTuple):
    """What became of some events."""

    events: int
    sent: int
    wanted: int
    """Events that some subscription matches; all of them were sent."""

    @property
    def false_share(self) -> float:
        """The share of what was sent that nobody wants."""
        return (self.sent - self.wanted) / self.sent if self.sent else 0.0


class Projection:
    """What a neighbour wants, on some attributes, as disjoint ranges."""

    def __init__(self, space: Space, wanted: RangeSet, schema: Schema | None = None) -> None:
        self.space, self.wanted, self.schema = space, wanted, schema

    @classmethod
    def of(
        cls, source: Any, *, attributes: Names | None = None, axes: int = AXES, bits: int = BITS, events: Any = None
    ) -> Projection:
        """Project the subscriptions of a Matcher, or of a batch as `Matcher.add_many` takes it.

        `attributes`: names of those to project on; by default, the `axes` most selective. `bits`: 2^bits cells per
        attribute. `events`: past events, to learn where cells should be small.
        """
        whole = version_of(source).whole
        schema = whole.schema
        numbers = None if attributes is None else [_number(schema, name) for name in attributes]
        past = None if events is None else encode_many(schema, events)
        return cls.build(canonical(whole), attributes=numbers, axes=axes, bits=bits, events=past, schema=schema)

    @classmethod
    def build(
        cls,
        table: SegmentArrays,
        slots: I32 | None = None,
        *,
        attributes: Sequence[int] | None = None,
        axes: int = AXES,
        bits: int = BITS,
        events: EventArrays | None = None,
        space: Space | None = None,
        schema: Schema | None = None,
    ) -> Projection:
        """Project these slots of a table, by default all.

        `schema` is the one whose keys the table has. The projection keeps it and reads events by it: a later schema may
        have other keys. `space`: a ready one, instead of one learned by the other options (see `of`).
        """
        if slots is not None:
            table = gather(table, np.asarray(slots, np.int64))  # nothing is learned from the others
        if space is not None:
            _check_cells(max(1, space.axes) * int(space.bits[0]))
            return cls._onto(space, table, schema)
        chosen = _axes(table, attributes, axes, bits)
        equal = cls._onto(_space(chosen, table, bits), table, schema)
        if events is None:
            return equal
        unwanted = some_events(events, np.flatnonzero(~are_wanted(table, events)))
        learned = cls._onto(_space(chosen, table, bits, unwanted), table, schema)
        return min(learned, equal, key=lambda projection: int(projection.sends(unwanted).sum()))

    @classmethod
    def _onto(cls, space: Space, table: SegmentArrays, schema: Schema | None) -> Projection:
        """Project all slots into a ready space."""
        made, slots = cls(space, RangeSet(), schema), np.arange(len(table.clause_start) - 1, dtype=np.int32)
        for begin in range(0, len(slots), AT_ONCE):
            made.add(table, slots[begin : begin + AT_ONCE])
        return made

    def __len__(self) -> int:
        """How many ranges there are."""
        return len(self.wanted)

    def __repr__(self) -> str:
        return f"<Projection: {counted(len(self), 'range')} on {counted(self.space.axes, 'attribute')}>"

    def ranges(self) -> Ranges:
        """The ranges, ascending: with the space, all that a neighbour needs to know."""
        return self.wanted.ranges()

    def add(self, table: SegmentArrays, slots: I32) -> None:
        """Add slots of a table with the same keys."""
        _, clauses = spread(table.clause_start, slots.astype(np.int64))
        if not self.space.axes:
            self.wanted.add([(0, 0)] if len(clauses) else [])
            return
        _, code, wide = blocks_of_clauses(self.space, table, clauses, PIECES, np.inf)
        first, size = code >> LEVEL_BITS, 1 << (TOP_LEVEL - (code & TOP_LEVEL))
        self.wanted.add(Ranges(first, first + size - 1))
        if wide.any():
            self.wanted.add([(0, (1 << (self.space.axes * int(self.space.bits[0]))) - 1)])

    def sends(self, events: Any) -> Flags:
        """Which events to send: all that a subscription matches, and some that none does (Algorithm 2).

        A sequence of mappings or a frame, or events that were encoded by the schema of the table.
        """
        if not isinstance(events, EventArrays):
            if self.schema is None:
                raise EarmarkError("expected encoded events, since the projection was made without a schema")
            events = encode_many(self.schema, events)
        return meet(self.wanted._merged, *ranges_of_events(self.space, events))

    def measured(self, source: Any, events: Any, slots: I32 | None = None) -> Measured:
        """Count how many of these events are sent, and how many the subscriptions really match.

        The subscriptions are those of a Matcher, or slots of a table, by default all; then events are encoded.
        """
        if isinstance(source, SegmentArrays):
            wanted = are_wanted(source, events, slots)
        else:
            whole = version_of(source).whole
            wanted = are_wanted(whole.arrays, encode_many(whole.schema, events))
        return Measured(len(wanted), int(self.sends(events).sum()), int(wanted.sum()))


def _number(schema: Schema, name: str) -> int:
    if name not in schema.by_name:
        raise EarmarkError(f"there is no attribute {name!r}{did_you_mean(str(name), schema.names)}")
    return schema.by_name[name].number


def are_wanted(table: SegmentArrays, events: EventArrays, slots: I32 | None = None) -> Flags:
    """Which events some of these slots match, by a scan."""
    total = len(table.clause_start) - 1
    chosen = bitmaps.all_set(total) if slots is None else bitmaps.from_slots(slots, total)
    return taken(table, chosen, events)


def ranges_of_events(space: Space, events: EventArrays, most: int = PIECES) -> tuple[I64, I64, I64]:
    """Events as ranges of the curve: (start, first, last), those of event e at start[e] .. start[e + 1].

    A point is one number. A box that has more than about `most` ranges is made of larger cells.
    """
    return ranges_of_boxes(space, *spaces.boxes_of_events(space, events), most)


def _axes(table: SegmentArrays, attributes: Sequence[int] | None, axes: int, bits: int) -> I32:
    """The attributes to project on."""
    check_whole(axes, "axes", 1)
    check_whole(bits, "bits", 1)
    _check_cells(bits * (axes if attributes is None else len(attributes)))
    return learned_space(table, axes, 1).attr if attributes is None else np.array(sorted(attributes), np.int32)


def _check_cells(bits: int) -> None:
    if not 1 <= bits <= MOST_NUMBER_BITS:
        raise EarmarkError(f"expected 2^1 to 2^{MOST_NUMBER_BITS} cells, got 2^{bits}; use fewer bits or attributes")


def _space(attributes: I32, table: SegmentArrays, bits: int, unwanted: EventArrays | None = None) -> Space:
    """A space with cells of equal width, or learned from events that nobody wants."""
    cuts = []
    for attribute in attributes.tolist():
        bounds = possible_cuts(table, attribute)
        even = equal_cuts(bounds, bits)
        values = np.empty(0, np.int64) if unwanted is None else values_of(unwanted, attribute)
        cuts.append(learned_cuts(values, even, bounds, bits) if len(values) >= FEWEST and len(even) else even)
    return spaces.space_of(attributes, cuts, bits)


def learned_cuts(values: I64, even: I64, bounds: I64, bits: int) -> I64:
    """Cuts that put equally many of these values, and of as many even steps, into each cell; moved up to bounds."""
    steps = np.repeat(even, max(1, len(values) // len(even)))
    cuts = spaces.variable_cuts(np.concatenate([values, steps]), bits)
    distinct = np.unique(bounds)
    return np.unique(distinct[np.searchsorted(distinct, cuts).clip(0, len(distinct) - 1)])


@kernel
def meet(merged: Ordered, start: I64, first: I64, last: I64) -> Flags:
    """Which events have a range that meets one of the table."""
    out = np.zeros(len(start) - 1, np.bool_)
    for e in range(len(out)):
        for i in range(start[e], start[e + 1]):
            cursor = floor_cursor(merged, last[i])
            if cursor != NONE and merged.value[cursor] >= first[i]:
                out[e] = True
                break
    return out
