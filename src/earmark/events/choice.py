"""Some events of a batch, as a batch of their own."""

from __future__ import annotations

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat.types import I32, I64, frozen


def some_events(events: EventArrays, chosen: I32 | I64) -> EventArrays:
    """These events, in this order."""
    first = events.start[chosen]
    counts = events.start[chosen + 1] - first
    start = np.zeros(len(chosen) + 1, np.int64)
    np.cumsum(counts, out=start[1:])
    places = np.arange(start[-1]) + np.repeat(first - start[:-1], counts)
    weight = events.weight[places] if len(events.weight) else events.weight
    columns = (start, events.attr[places], events.lo[places], events.hi[places], weight)
    return EventArrays._make(frozen(column.view()) for column in columns)
