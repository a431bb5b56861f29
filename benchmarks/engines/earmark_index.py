"""The indexes of earmark, by name: one class for all of them."""

from __future__ import annotations

from collections.abc import Callable

from earmark import index
from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.flat.arrays import frozen
from earmark.segment.arrays import SegmentArrays
from earmark.workload.standard import Workload
from engines.base import Answer, Engine, Pointed


class EarmarkIndex(Engine):
    """An index over a table of its own. Building includes writing the table, as every rival also stores its data."""

    def prepare(self, workload: Workload) -> None:
        self.events = workload.events()

    def build(self, workload: Workload) -> None:
        table = SegmentArrays(*(frozen(column.copy()) for column in workload.table()))
        self.index = index.builder(self.name)(table)
        self.eligible = bits.all_set(len(workload.sub_attr))

    def searches(self) -> dict[str, Callable[[int], Answer]]:
        return {"batch": self.batch, "single": self.single}

    def batch(self, count: int) -> Answer:
        """The first events in one call."""
        return Pointed(*self.index.match_many(self.first(count), self.eligible, self.threads))

    def single(self, count: int) -> Answer:
        """A call an event."""
        return [self.index.match(self.events, self.eligible, e) for e in range(count)]

    def first(self, count: int) -> EventArrays:
        """The first events."""
        start, attr, lo, hi, weight = self.events
        last = start[count]
        return EventArrays(start[: count + 1], attr[:last], lo[:last], hi[:last], weight)
