"""Searching a workload with an index, and the exact answers it is compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.flat.arrays import I64
from earmark.workload.standard import Workload

Numbers = NDArray[np.integer[Any]]
SEEN, MIXED = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


class Answer(NamedTuple):
    """Matches of a batch: those of event e are slots[start[e] : start[e + 1]], in any order."""

    start: Numbers
    slots: Numbers


def some_events(workload: Workload, first: int, last: int) -> EventArrays:
    """Return the events first..last - 1 in the form that an index takes."""
    part = workload._replace(event_attr=workload.event_attr[first:last], event_value=workload.event_value[first:last])
    return part.events()


def search(index: Any, workload: Workload, size: int) -> Callable[[int], Answer]:
    """Return a function that matches batch number `call` of `size` events, in a circle, with all slots eligible."""
    batches = [some_events(workload, first, first + size) for first in range(0, len(workload.event_value), size)]
    eligible = bits.all_set(len(workload.sub_attr))
    return lambda call: Answer(*index.match_many(batches[call % len(batches)], eligible, 1))


class Exact:
    """The exact answers to the events of a workload of rectangles over a small grid of integers, as sums.

    For every point of the grid: how many rectangles contain it, and the sum of a hash of their numbers. Both come from
    sums over the grid (a rectangle adds at two of its corners and subtracts at the others), which shares nothing with
    the indexes. An answer that misses one rectangle, or has one too many, has other sums.
    """

    def __init__(self, workload: Workload) -> None:
        lo, hi = workload.sub_lo, workload.sub_hi
        width, height = (max(int(hi[:, d].max()), int(workload.event_value[:, d].max())) + 2 for d in (0, 1))
        self.hashes = _hashed(np.arange(len(lo)))
        self._points = workload.event_value
        self._count = _sums(lo, hi, np.ones(len(lo), np.uint64), width, height)
        self._sum = _sums(lo, hi, self.hashes, width, height)

    def matches(self) -> float:
        """Return the matches per event."""
        return float(self._count[self._points[:, 0], self._points[:, 1]].mean())

    def difference(self, answer: Answer, first: int) -> str:
        """Return how an answer to the events from `first` on is wrong, or ""."""
        events = len(answer.start) - 1
        points = self._points[first : first + events]
        counts = np.diff(answer.start).astype(np.uint64)
        sums = np.concatenate([[np.uint64(0)], np.cumsum(self.hashes[answer.slots])])[answer.start]
        expected = self._count[points[:, 0], points[:, 1]], self._sum[points[:, 0], points[:, 1]]
        wrong = np.flatnonzero((counts != expected[0]) | (np.diff(sums) != expected[1]))
        if not len(wrong):
            return ""
        event = int(wrong[0])
        return (
            f"{len(wrong)} of {events} answers are wrong; event {first + event} has {int(counts[event])} matches, "
            f"expected {int(expected[0][event])}"
        )


def _hashed(slots: I64) -> NDArray[np.uint64]:
    mixed = (slots.astype(np.uint64) + np.uint64(1)) * SEEN
    return (mixed ^ (mixed >> np.uint64(29))) * MIXED


def _sums(lo: I64, hi: I64, weight: NDArray[np.uint64], width: int, height: int) -> NDArray[np.uint64]:
    """Return for every point the sum of the weights of the rectangles that contain it, modulo 2^64."""
    grid = np.zeros((width + 1, height + 1), np.uint64)
    np.add.at(grid, (lo[:, 0], lo[:, 1]), weight)
    np.add.at(grid, (hi[:, 0] + 1, hi[:, 1] + 1), weight)
    np.subtract.at(grid, (hi[:, 0] + 1, lo[:, 1]), weight)
    np.subtract.at(grid, (lo[:, 0], hi[:, 1] + 1), weight)
    return grid.cumsum(0).cumsum(1)
