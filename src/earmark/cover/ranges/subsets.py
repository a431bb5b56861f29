"""Does a neighbour want this event? Answered from all attributes, a few at a time.

mics.txt, section 8: attributes are partitioned into subsets that are small enough for a curve each; every subset has a
table of its own, independent of the others, and their answers are combined.

    attributes      price  size  stock │ city  year │ weight  age
    tables          [32, 40] [45, 46]  │ [3, 9]     │ [0, 7] [12, 12]
    an event        36: inside         │ 5: inside  │ 9: outside            not sent: all have to say yes

A subscription is the product of its boxes on the subsets, so an event that matches it is inside on every subset. What
is lost is *which* subscription said yes: an event is sent when one subscription wants it on the first subset and
another one on the second. So the answer is between that of one `Projection` onto a single subset, which sends at least
as much, and the truth.

Invariant: an event that a subscription matches is sent.
Complexity: that of a `Projection`, once per subset; ranges add up, where one curve over all attributes would multiply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from earmark.cover.ranges.projection import Measured, Projection, are_wanted
from earmark.curves.space import BITS
from earmark.errors import EarmarkError
from earmark.events.arrays import EventArrays
from earmark.flat.arrays import Flags
from earmark.language.words import counted
from earmark.segment.arrays import SegmentArrays


class SubsetProjections:
    """What a neighbour wants, as one `Projection` for each subset of the attributes."""

    def __init__(self, parts: Sequence[Projection]) -> None:
        self.parts = tuple(parts)

    @classmethod
    def build(
        cls,
        table: SegmentArrays,
        subsets: Sequence[Sequence[int]],
        *,
        bits: int = BITS,
        events: EventArrays | None = None,
    ) -> SubsetProjections:
        """Project all slots of a table onto each subset of attribute numbers; no attribute may be in two of them.

        `bits`: 2^bits cells per attribute. `events`: past events, to learn where cells should be small.
        """
        numbers = [number for subset in subsets for number in subset]
        if not all(subsets) or len(set(numbers)) < len(numbers):
            raise EarmarkError(f"expected disjoint subsets of attributes, none of them empty, got {subsets}")
        return cls([Projection.build(table, attributes=subset, bits=bits, events=events) for subset in subsets])

    def __len__(self) -> int:
        """Return how many ranges there are."""
        return sum(map(len, self.parts))

    def __repr__(self) -> str:
        return f"<SubsetProjections: {counted(len(self), 'range')} on {counted(len(self.parts), 'subset')}>"

    def sends(self, events: Any) -> Flags:
        """Return which events to send: those that every subset wants."""
        answers = [part.sends(events) for part in self.parts]
        if not answers:
            raise EarmarkError("expected at least one subset of attributes")
        wanted: Flags = np.logical_and.reduce(answers)
        return wanted

    def measured(self, table: SegmentArrays, events: EventArrays) -> Measured:
        """Count how many of these encoded events are sent, and how many the slots of the table match."""
        wanted = are_wanted(table, events)
        return Measured(len(wanted), int(self.sends(events).sum()), int(wanted.sum()))
