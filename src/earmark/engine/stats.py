"""What a matcher reports of itself: `Matcher.stats`, `Matcher.attributes` and `Matcher.unseen`.

`Seen` counts the attributes that recent events had: a mistyped name in a rule or in the producer of events matches
nothing, silently, and this is how it shows. Nothing that is counted changes an answer.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from itertools import accumulate, islice
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np

from earmark.engine.compaction import Compactor
from earmark.engine.version import Version
from earmark.events.arrays import Entry, EventArrays
from earmark.events.mappings import event_arrays
from earmark.index import name_of
from earmark.keys.schema import LIFE
from earmark.segment.evaluate import NO_LIFE
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
    indexes: dict[str, int]
    """How many segments have which index; with `auto`, `Matcher.plan` says why."""
    index_tail: int
    """Subscriptions that no index has taken in yet, and that are scanned."""
    segments: int
    compactions: int
    """Merges of segments that were done."""
    compaction_problem: str | None
    """What made the last one fail, if it did; `compact` tries again."""
    table_bytes: int
    index_bytes: int
    index_about: dict[str, Any]
    """What the index chose; its names depend on the index."""
    asked_bytes: int
    """Size of the conditions' text."""
    last_change: NotRequired[int]
    """Of a book with a journal: the number of its last change."""
    checkpoint_problem: NotRequired[str | None]
    """Of a book that is open for writing: what made the last checkpoint fail, if it did; it is tried again."""
    disk: NotRequired[dict[str, int]]
    """Of a book with a journal: bytes of its segments, of its history, and of the newest part of it, the WAL."""


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
        if a.name != LIFE
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
        "attributes": {a.name: str(a.type) if a.type else None for a in version.schema if a.name != LIFE},
        "index": index,
        "indexes": dict(Counter(name_of(one.index) for one in sealed if one.index is not None)),
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
RECENT, FEWEST, OF_A_BATCH = 256, 32, 8
"""Events that are kept to plan by: at most, at least for a plan, and of one batch."""


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
        self._recent: deque[tuple[int, list[Entry], int | None]] = deque(maxlen=RECENT)

    def _count(self, events: int) -> None:
        if self._counts[0] >= WINDOW:
            self._attributes = (set(), self._attributes[0])
            self._fields = (set(), self._fields[0])
            self._counts = (0, self._counts[0])
        self._counts = (self._counts[0] + events, self._counts[1])

    def note_one(self, entries: list[Entry], event: Mapping[str, Any], generation: int, k: int | None = 0) -> None:
        """Take note of a single event, in keys of this generation, and of how many best were wanted.

        0: all matches; None: what no index is planned for.
        """
        self._count(1)
        if not self._counts[0] % EVERY:
            self._recent.append((generation, entries, k))
        self._attributes[0].update([entry[0] for entry in entries])
        if len(self._fields[0]) < MOST_FIELDS:
            self._fields[0].update(event)

    def note(self, encoded: EventArrays, generation: int, events: Iterable[Any], k: int | None = 0) -> None:
        """Take note of events as `note_one` does, and of the fields of some of them as they came."""
        count = len(encoded.start) - 1
        self._count(count)
        if len(encoded.attr):
            self._attributes[0].update(np.flatnonzero(np.bincount(encoded.attr)).tolist())
        for e in range(0, count, max(1, -(-count // OF_A_BATCH))):
            own = slice(int(encoded.start[e]), int(encoded.start[e + 1]))
            columns = (encoded.attr[own].tolist(), encoded.lo[own].tolist(), encoded.hi[own].tolist())
            self._recent.append((generation, [(*entry, "") for entry in zip(*columns, strict=True)], k))
        fields = self._fields[0]
        for event in islice(events, 0, None, EVERY):
            if len(fields) < MOST_FIELDS and isinstance(event, Mapping | list):
                fields.update(event)

    def recent(self, generation: int) -> EventArrays | None:
        """Some of the last events, if there were enough in keys of this generation."""
        events = [entries for own, entries, _ in tuple(self._recent) if own == generation]
        if len(events) < FEWEST:
            return None
        starts = [0, *accumulate(map(len, events))]
        return event_arrays(starts, [entry for entries in events for entry in entries])

    def wanted(self) -> int:
        """How many best most of the last events were asked for; 0 where most were asked for all matches, or few came.

        Of several numbers the middle one.
        """
        wanted = sorted(k for _, _, k in tuple(self._recent) if k is not None)
        return wanted[len(wanted) // 2] if len(wanted) >= FEWEST else 0

    def unseen(self, segment: Segment) -> Unseen:
        """What events and the conditions of a segment do not share. O(constraints)."""
        names = [segment.schema.time or "" if name == LIFE else name for name in segment.schema.names]
        numbers = np.append(segment.arrays.attr, segment.life) if segment.life != NO_LIFE else segment.arrays.attr
        used = {names[number] for number in np.unique(numbers).tolist()} - {""}
        seen = {names[number] for number in set().union(*self._attributes) if number < len(names)}
        heads = {name[:i] for name in used for i, letter in enumerate(name) if letter == "."}
        fields = {field for field in set().union(*self._fields) if isinstance(field, str)}
        return Unseen(sorted(used - seen), sorted(fields - used - heads), sum(self._counts))
