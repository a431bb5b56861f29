"""Which attributes have events had lately, and which of their fields does no condition use?

A mistyped name in a rule or in the producer of events matches nothing, silently; this is how it shows. Events are only
counted here: nothing that is noted changes an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from earmark.flat.types import I32
from earmark.segment.segment import Segment

WINDOW = 100_000
"""Events that count as lately: at least so many, at most twice as many."""
EVERY = 16
"""One event in so many is looked at for fields that no condition uses."""
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

    def note(self, attributes: I32, count: int, events: Iterable[Any]) -> None:
        """Take note of encoded events, and of the fields of some of them as they came."""
        if self._counts[0] >= WINDOW:
            self._attributes = (set(), self._attributes[0])
            self._fields = (set(), self._fields[0])
            self._counts = (0, self._counts[0])
        self._counts = (self._counts[0] + count, self._counts[1])
        if count == 1:
            self._attributes[0].update(attributes.tolist())
        elif len(attributes):
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
