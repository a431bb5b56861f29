"""Some events of a batch, as a batch of their own."""

from __future__ import annotations

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat.arrays import I32, I64, frozen, read_only
from earmark.jit import kernel


def some_events(events: EventArrays, chosen: I32 | I64) -> EventArrays:
    """These events, in this order."""
    events = EventArrays._make(map(read_only, events))
    start = np.zeros(len(chosen) + 1, np.int64)
    np.cumsum(events.start[chosen + 1] - events.start[chosen], out=start[1:])
    values = int(start[-1])
    weight = np.empty(values if len(events.weight) else 0)
    copies = EventArrays(
        start, np.empty(values, np.int32), np.empty(values, np.int64), np.empty(values, np.int64), weight
    )
    copy_events(events, read_only(chosen.astype(np.int64, copy=False)), copies)
    return EventArrays._make(map(frozen, copies))


def events_between(events: EventArrays, begin: int, end: int) -> EventArrays:
    """The events from one to another: their values are views."""
    first, last = int(events.start[begin]), int(events.start[end])
    start = frozen(events.start[begin : end + 1] - first)
    return EventArrays(start, *(read_only(column[first:last]) for column in events[1:]))  # type: ignore[arg-type]


@kernel
def copy_events(events: EventArrays, chosen: I64, copies: EventArrays) -> None:
    """Copy the values of the chosen events, one event after another."""
    to = 0
    for i in range(len(chosen)):
        for position in range(events.start[chosen[i]], events.start[chosen[i] + 1]):
            copies.attr[to], copies.lo[to], copies.hi[to] = (
                events.attr[position],
                events.lo[position],
                events.hi[position],
            )
            if len(events.weight):
                copies.weight[to] = events.weight[position]
            to += 1
