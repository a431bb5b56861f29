"""DuckDB: all events in one range join.

Dense attributes: the join of two wide tables on all bounds. Sparse ones: the join of (event, attribute, value) with
(subscription, attribute, lo, hi), and the subscriptions counted that have all of their predicates in it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from earmark.workload.standard import Workload
from engines.base import Answer, Engine, Pairs, is_dense

SPARSE = """
    SELECT e.event, s.slot FROM event e JOIN predicate s
    ON e.attr = s.attr AND e.value BETWEEN s.lo AND s.hi
    WHERE e.event < ? GROUP BY e.event, s.slot HAVING count(*) = {width}
"""


class DuckdbJoin(Engine):
    """Tables in an in-memory database."""

    needs = "duckdb"

    def prepare(self, workload: Workload) -> None:
        events, width = workload.event_attr.shape
        if is_dense(workload):
            columns = {f"v{a}": workload.event_value[:, a] for a in range(workload.attributes)}
            self.event_frame = pa.table({"event": np.arange(events), **columns})
        else:
            event = np.repeat(np.arange(events), width)
            columns = {"attr": workload.event_attr.ravel(), "value": workload.event_value.ravel()}
            self.event_frame = pa.table({"event": event, **columns})

    def build(self, workload: Workload) -> None:
        import duckdb

        spill = str(Path(tempfile.gettempdir()) / "duckdb")
        self.connection = duckdb.connect(":memory:", config={"threads": self.threads, "temp_directory": spill})
        slots, width = workload.sub_attr.shape
        if is_dense(workload):
            bounds = {}
            for a in range(width):
                bounds[f"lo{a}"], bounds[f"hi{a}"] = workload.sub_lo[:, a], workload.sub_hi[:, a]
            self._store("subscription", pa.table({"slot": np.arange(slots), **bounds}))
            holds = " AND ".join(f"e.v{a} BETWEEN s.lo{a} AND s.hi{a}" for a in range(width))
            self.query = f"SELECT e.event, s.slot FROM event e JOIN subscription s ON {holds} WHERE e.event < ?"
        else:
            slot = np.repeat(np.arange(slots), width)
            bounds = {"attr": workload.sub_attr.ravel(), "lo": workload.sub_lo.ravel(), "hi": workload.sub_hi.ravel()}
            self._store("predicate", pa.table({"slot": slot, **bounds}))
            self.query = SPARSE.format(width=width)
        self._store("event", self.event_frame)

    def _store(self, name: str, frame: pa.Table) -> None:
        self.connection.register("given", frame)
        self.connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        self.connection.unregister("given")

    def searches(self) -> dict[str, Callable[[int], Answer]]:
        return {"batch": self.batch}

    def batch(self, count: int) -> Answer:
        """One join."""
        found = self.connection.execute(self.query, [count]).fetchnumpy()
        return Pairs(found["event"], found["slot"])
