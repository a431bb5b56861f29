"""A segment on its way to and from a folder of files."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from numpy.typing import NDArray

from earmark.errors import require
from earmark.flat.growable import Listed
from earmark.flat.packed import PackedStrings
from earmark.flat.types import I32, I64
from earmark.keys.schema import Schema
from earmark.segment.arrays import SegmentArrays
from earmark.segment.ids import Ids
from earmark.segment.segment import Segment, Tags


class Stored(NamedTuple):
    """A table as arrays alone, all slots living: what a folder holds, without a Python object for each subscription."""

    schema: Schema
    arrays: SegmentArrays
    ids: I64 | PackedStrings
    asked: PackedStrings
    tagset: I32
    """The number of each slot's set of tags; empty when there are no tags."""
    tagsets: list[Tags]
    next_sequence: int
    options: Mapping[str, Any] = MappingProxyType({})
    extras: Mapping[str, NDArray[Any]] = MappingProxyType({})

    @property
    def slots(self) -> int:
        """How many subscriptions."""
        return len(self.arrays.sequence)


def stored_of(segment: Segment, next_sequence: int) -> Stored:
    """The arrays of a segment."""
    return Stored(
        schema=segment.schema,
        arrays=segment.arrays,
        ids=segment.ids.column,
        asked=segment.asked,
        tagset=segment.tagset,
        tagsets=segment.tagsets.items[: segment.tagsets.size],
        next_sequence=next_sequence,
    )


def segment_of(stored: Stored) -> Segment:
    """A segment around arrays that were verified."""
    ids = Ids.of(stored.ids)
    require(len(set(ids.objects)) == len(ids), "an id is used twice")
    sequence = stored.arrays.sequence
    made = Segment(stored.schema, stored.arrays, ids, stored.asked, stored.tagset, Listed(list(stored.tagsets)))
    require(made.is_ordered or len(set(sequence.tolist())) == len(sequence), "a sequence number is used twice")
    return made
