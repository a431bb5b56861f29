"""In which order to ask the events of a batch, so that each finds in the cache what the one before has read.

Events that have the same attributes come together, and among these, events with near keys: the keys of the attributes
that most clauses constrain, as one of 8 parts each, bit by bit in turn (Morton). On five dense attributes, a million
subscriptions and a thousand events this halves the time of a batch.

Complexity: O(values + events log events).
"""

from __future__ import annotations

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat.arrays import I32, I64, U64
from earmark.index.blocks.axes import MIX

FEWEST_EVENTS = 16
"""Fewer are asked as they come."""
MOST_ATTRIBUTES, BITS = 4, 3


def near_first(events: EventArrays, attributes: I32) -> I32 | None:
    """The numbers of the events, near ones together; `attributes`: whose keys count most. None: as they come."""
    count = len(events.start) - 1
    if count < FEWEST_EVENTS:
        return None
    first, last = int(events.start[0]), int(events.start[-1])
    attr, keys = events.attr[first:last], events.lo[first:last]
    parts = np.zeros((MOST_ATTRIBUTES, count), np.int64)
    event_of = np.repeat(np.arange(count), np.diff(events.start))
    for row, attribute in zip(parts, attributes[:MOST_ATTRIBUTES].tolist(), strict=False):
        own = np.flatnonzero(attr == attribute)
        order = np.argsort(keys[own], kind="stable")
        row[event_of[own[order]]] = (np.arange(len(own)) << BITS) // max(1, len(own))
    return np.lexsort((_turns(parts), _sets(events))).astype(np.int32)


def _turns(parts: I64) -> I64:
    """The bits of the rows in turn, the highest first."""
    code = np.zeros(parts.shape[1], np.int64)
    for bit in reversed(range(BITS)):
        for row in parts:
            code = code << 1 | row >> bit & 1
    return code


def _sets(events: EventArrays) -> U64:
    """A number for the attributes that an event has; equal for equal sets."""
    so_far = np.zeros(len(events.attr) + 1, np.uint64)
    mixed = (events.attr.astype(np.uint64) + np.uint64(1)) * np.uint64(MIX)
    np.bitwise_xor.accumulate(mixed ^ mixed >> np.uint64(29), out=so_far[1:])
    return so_far[events.start[1:]] ^ so_far[events.start[:-1]]
