"""polars: all events in one `join_where` on the bounds of all attributes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from earmark.workload.standard import Workload
from engines.base import Answer, Engine, Pairs, is_dense


class PolarsJoin(Engine):
    """Two frames in memory. Its threads are those the process was started with (POLARS_MAX_THREADS)."""

    needs = "polars"

    def cannot(self, workload: Workload) -> str:
        if not is_dense(workload):
            return "join_where on sparse attributes would hold every pair with an attribute in common"
        return super().cannot(workload)

    def prepare(self, workload: Workload) -> None:
        import polars as pl

        values = {f"v{a}": workload.event_value[:, a] for a in range(workload.attributes)}
        self.events = pl.DataFrame({"event": np.arange(len(workload.event_value)), **values})

    def build(self, workload: Workload) -> None:
        import polars as pl

        bounds = {}
        for a in range(workload.attributes):
            bounds[f"lo{a}"], bounds[f"hi{a}"] = workload.sub_lo[:, a].copy(), workload.sub_hi[:, a].copy()
        self.subscriptions = pl.DataFrame({"slot": np.arange(len(workload.sub_lo)), **bounds})
        self.holds = []
        for a in range(workload.attributes):
            self.holds += [pl.col(f"lo{a}") <= pl.col(f"v{a}"), pl.col(f"hi{a}") >= pl.col(f"v{a}")]

    def searches(self) -> dict[str, Callable[[int], Answer]]:
        return {"batch": self.batch}

    def batch(self, count: int) -> Answer:
        """One join."""
        found = self.events.head(count).join_where(self.subscriptions, *self.holds).select("event", "slot")
        return Pairs(found["event"].to_numpy(), found["slot"].to_numpy())
