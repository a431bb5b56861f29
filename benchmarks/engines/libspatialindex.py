"""libspatialindex by way of the package rtree: an R*-tree loaded in bulk, boxes of doubles."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from earmark.workload.standard import Workload
from engines.base import Answer, Engine, Pointed, is_dense


class Libspatialindex(Engine):
    """`rtree.index.Index` in memory."""

    needs = "rtree"

    def cannot(self, workload: Workload) -> str:
        if not is_dense(workload):
            return "an R-tree needs every attribute in every subscription"
        return super().cannot(workload)

    def prepare(self, workload: Workload) -> None:
        self.points = workload.event_value.astype(float)
        self.boxes = np.hstack([workload.event_value, workload.event_value]).tolist()

    def build(self, workload: Workload) -> None:
        from rtree import index

        slots = np.arange(len(workload.sub_lo))
        lo, hi = workload.sub_lo.astype(float), workload.sub_hi.astype(float)
        self.index = index.Index((slots, lo, hi), properties=index.Property(dimension=workload.attributes))

    def searches(self) -> dict[str, Callable[[int], Answer]]:
        return {"batch": self.batch, "single": self.single}

    def batch(self, count: int) -> Answer:
        """The first events in one call."""
        slots, counts = self.index.intersection_v(self.points[:count], self.points[:count])
        return Pointed(np.concatenate([[0], np.cumsum(counts.astype(np.int64))]), slots)

    def single(self, count: int) -> Answer:
        """A call an event."""
        return [list(self.index.intersection(box)) for box in self.boxes[:count]]
