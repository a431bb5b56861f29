"""A batch of events as flat arrays: a list of (attribute, closed key interval) per event, ascending by attribute.

A point has lo == hi; an attribute that is not listed is NULL. `weight` is empty where every weight is 1.0.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from earmark.flat.arrays import F64, I32, I64

Entry: TypeAlias = tuple[int, int, int, str]
"""A value of an event: its attribute's number, the keys of both ends, and the name that the event used."""


class EventArrays(NamedTuple):
    """Encoded events. Invariant: attributes ascend inside an event, lo <= hi."""

    start: I64
    attr: I32
    lo: I64
    hi: I64
    weight: F64
