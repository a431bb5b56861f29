"""What a matcher reports of itself: `Matcher.stats`, `Matcher.attributes` and `Matcher.unseen`.

`Seen` counts the attributes that recent events had: a mistyped name in a rule or in the producer of events matches
nothing, silently, and this is how it shows. Nothing that is counted changes an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple, TypedDict

import numpy as np

from earmark.engine.compaction import Compactor
from earmark.engine.version import Version
from earmark.events.arrays import Entry
from earmark.flat.arrays import I32
from earmark.segment.segment import Segment


class Stats(TypedDict):
    """Counts, types and sizes of a matcher. Sizes are in bytes."""

    subscriptions: int
    removed: int
    """Slots of removed subscriptions whose room has not been given back."""
    clauses: int
    constraints: int
    intervals: int
    attributes: dict[str, str | None]
    """The type of each attribute; None where it is not known yet."""
    index: str
    index_tail: int
    """Subscriptions that no index has taken in yet, and that are scanned."""
    segments: int
    compactions: int
    """Merges of segments that were done in the background."""
    compaction_problem: str | None
    """What made the last one fail, if it did; `compact` tries again."""
    table_bytes: int
    index_bytes: int
    index_about: dict[str, Any]
    """What the index chose; its names depend on the index."""
    asked_bytes: int
    """Size of the conditions' text."""


class AttributeInfo(NamedTuple):
    """What is known of an attribute."""

    type: str | None
    """None while no condition compares it with a value."""
    declared: bool
    """Declared by a user, or learned from a condition."""
    origin: str | None
    """Who fixed the type: the first condition that used the attribute so, for a learned one."""
    uses: int
    """Constraints that compare it with a value."""


def attributes_of(version: Version) -> dict[str, AttributeInfo]:
    """The attributes by name: type, declared or learned, and who was first to use it so."""
    return {
        a.name: AttributeInfo(str(a.type) if a.type else None, a.declared, a.origin or None, int(version.uses[n]))
        for n, a in enumerate(version.schema)
    }


def stats_of(version: Version, index: str, compactor: Compactor) -> Stats:
    """Counts, types and sizes of a version, whose index has this name."""
    segments = [one.segment for one in version.segments]
    sealed = [one for one in version.segments if one.index is not None]
    largest = max(sealed, key=len, default=None)
    described = largest.index if largest is not None else None
    problem = compactor.problem
    return {
        "subscriptions": version.live,
        "removed": version.slots - version.live,
        "clauses": sum(len(one.arrays.constraint_start) - 1 for one in segments),
        "constraints": sum(len(one.arrays.attr) for one in segments),
        "intervals": sum(len(one.arrays.lo) for one in segments),
        "attributes": {a.name: str(a.type) if a.type else None for a in version.schema},
        "index": index,
        "index_tail": sum(len(one) for one in version.segments if one.index is None),
        "segments": len(segments),
        "compactions": compactor.compactions,
        "compaction_problem": None if problem is None else repr(problem),
        "table_bytes": sum(one.segment.nbytes + one.removed.nbytes for one in version.segments),
        "index_bytes": sum(one.index.nbytes for one in sealed if one.index is not None),
        "index_about": described.describe() if described is not None else {},
        "asked_bytes": sum(one.asked.nbytes for one in segments),
    }


WINDOW = 100_000
"""Number of recent events that are looked at: at least this, at most twice this."""
EVERY = 16
"""One event in 16 is looked at for fields that no condition uses."""
MOST_FIELDS = 10_000


class Unseen(NamedTuple):
    """Names that rules and events do not share."""

    in_rules: list[str]
    """Attributes that conditions use, and that no recent event had."""
    in_events: list[str]
    """Fields of recent events that no condition uses."""
    events: int
    """How many events count as recent."""


class Seen:
    """What the last events had, in two windows: the present one and the one before."""

    def __init__(self) -> None:
        self._attributes: tuple[set[int], set[int]] = (set(), set())
        self._fields: tuple[set[str], set[str]] = (set(), set())
        self._counts = (0, 0)

    def _count(self, events: int) -> None:
        if self._counts[0] >= WINDOW:
            self._attributes = (set(), self._attributes[0])
            self._fields = (set(), self._fields[0])
            self._counts = (0, self._counts[0])
        self._counts = (self._counts[0] + events, self._counts[1])

    def note_one(self, entries: list[Entry], event: Mapping[str, Any]) -> None:
        """Take note of a single event."""
        self._count(1)
        self._attributes[0].update([entry[0] for entry in entries])
        if len(self._fields[0]) < MOST_FIELDS:
            self._fields[0].update(event)

    def note(self, attributes: I32, count: int, events: Iterable[Any]) -> None:
        """Take note of encoded events, and of the fields of some of them as they came."""
        self._count(count)
        if len(attributes):
            self._attributes[0].update(np.flatnonzero(np.bincount(attributes)).tolist())
        fields = self._fields[0]
        for event in islice(events, 0, None, EVERY):
            if len(fields) < MOST_FIELDS and isinstance(event, Mapping | list):
                fields.update(event)

    def unseen(self, segment: Segment) -> Unseen:
        """What events and the conditions of a segment do not share. O(constraints)."""
        names = segment.schema.names
        used = {names[number] for number in np.unique(segment.arrays.attr).tolist()}
        seen = {names[number] for number in set().union(*self._attributes) if number < len(names)}
        heads = {name[:i] for name in used for i, letter in enumerate(name) if letter == "."}
        fields = {field for field in set().union(*self._fields) if isinstance(field, str)}
        return Unseen(sorted(used - seen), sorted(fields - used - heads), sum(self._counts))
