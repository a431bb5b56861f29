"""The two natural scans in numpy over full contiguous int64 columns, each event by itself.

    narrowing   compare the first predicate of all subscriptions, then only the rows that are left
    columns     mask &= (lo <= v) & (v <= hi) for each attribute: dense workloads only

Sparse attributes suit no column layout: there predicate j of all subscriptions is column j, and the event's value is
looked up by attribute.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from earmark.workload.standard import Workload
from engines.base import Answer, Engine, Numbers, dense_values, is_dense


class NumpyScan(Engine):
    """Predicate j of all subscriptions is one contiguous column."""

    def prepare(self, workload: Workload) -> None:
        self.value = dense_values(workload)

    def build(self, workload: Workload) -> None:
        self.dense = is_dense(workload)
        self.attr = np.ascontiguousarray(workload.sub_attr.T)
        self.lo, self.hi = np.ascontiguousarray(workload.sub_lo.T), np.ascontiguousarray(workload.sub_hi.T)

    def searches(self) -> dict[str, Callable[[int], Answer]]:
        ways: dict[str, Callable[[int], Answer]] = {"narrowing": lambda n: [self.narrowing(e) for e in range(n)]}
        if self.dense:
            ways["columns"] = lambda n: [self.columns(e) for e in range(n)]
        return ways

    def columns(self, e: int) -> Numbers:
        """One mask over everything."""
        mask = np.ones(self.lo.shape[1], bool)
        for lo, hi, value in zip(self.lo, self.hi, self.value[e], strict=True):
            mask &= (lo <= value) & (value <= hi)
        return np.flatnonzero(mask)

    def narrowing(self, e: int) -> Numbers:
        """Fewer rows with each predicate."""
        values = self.value[e]
        first = values[0] if self.dense else values[self.attr[0]]
        left = np.flatnonzero((self.lo[0] <= first) & (first <= self.hi[0]))
        for j in range(1, len(self.lo)):
            value = values[j] if self.dense else values[self.attr[j][left]]
            left = left[(self.lo[j][left] <= value) & (value <= self.hi[j][left])]
        return left
