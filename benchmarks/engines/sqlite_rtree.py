"""SQLite's R*Tree module, from the standard library: boxes of 32-bit integers, in memory, one query an event."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator

import numpy as np

from earmark.workload.standard import Workload
from engines.base import Answer, Engine, is_dense

MOST_DIMENSIONS = 5


class SqliteRTree(Engine):
    """A virtual table `rtree_i32`."""

    def cannot(self, workload: Workload) -> str:
        if not is_dense(workload) or workload.attributes > MOST_DIMENSIONS:
            return f"an R*Tree of SQLite has at most {MOST_DIMENSIONS} dimensions"
        try:
            sqlite3.connect(":memory:").execute("CREATE VIRTUAL TABLE t USING rtree_i32 (id, lo, hi)")
        except sqlite3.OperationalError as problem:
            return f"this SQLite has no R*Tree: {problem}"
        return ""

    def prepare(self, workload: Workload) -> None:
        self.points = np.repeat(workload.event_value, 2, axis=1).tolist()

    def build(self, workload: Workload) -> None:
        dimensions = range(workload.attributes)
        columns = ", ".join(f"lo{a}, hi{a}" for a in dimensions)
        self.connection = sqlite3.connect(":memory:")
        self.connection.execute(f"CREATE VIRTUAL TABLE subscription USING rtree_i32 (id, {columns})")
        marks = ", ".join("?" * (1 + 2 * workload.attributes))
        with self.connection:
            self.connection.executemany(f"INSERT INTO subscription VALUES ({marks})", _rows(workload))
        holds = " AND ".join(f"lo{a} <= ? AND hi{a} >= ?" for a in dimensions)
        self.query = f"SELECT id FROM subscription WHERE {holds}"

    def searches(self) -> dict[str, Callable[[int], Answer]]:
        return {"single": self.single}

    def single(self, count: int) -> Answer:
        """A query an event."""
        execute, query = self.connection.execute, self.query
        return [[row[0] for row in execute(query, point)] for point in self.points[:count]]


def _rows(workload: Workload, chunk: int = 10_000) -> Iterator[tuple[int, ...]]:
    """(slot, lo of 0, hi of 0, lo of 1, ...), a chunk at a time so that Python's objects do not pile up."""
    for first in range(0, len(workload.sub_lo), chunk):
        lo, hi = workload.sub_lo[first : first + chunk], workload.sub_hi[first : first + chunk]
        bounds = np.stack([lo, hi], axis=2).reshape(len(lo), -1).tolist()
        yield from ((first + i, *row) for i, row in enumerate(bounds))
