"""Small workloads, their answers found the plainest way, and engines that misbehave."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from earmark.workload.standard import Workload
from engines.base import Answer
from engines.numpy_scan import NumpyScan


def dense(subscriptions: int = 300, events: int = 120, seed: int = 1) -> Workload:
    """5 attributes over 0..99, everywhere."""
    random = np.random.default_rng(seed)
    lo = random.integers(0, 80, size=(subscriptions, 5))
    hi = lo + random.integers(0, 90, size=lo.shape)
    every = np.arange(5, dtype=np.int32)
    value = random.integers(0, 100, size=(events, 5))
    return Workload(np.tile(every, (subscriptions, 1)), lo, hi, np.tile(every, (events, 1)), value, 5, 100)


def sparse(subscriptions: int = 300, events: int = 120, seed: int = 2) -> Workload:
    """3 of 12 attributes a subscription, 6 an event."""
    random = np.random.default_rng(seed)

    def chosen(rows: int, count: int) -> np.ndarray:
        picked = np.argsort(random.random((rows, 12)), axis=1)[:, :count]
        return np.sort(picked, axis=1).astype(np.int32)

    attr, event_attr = chosen(subscriptions, 3), chosen(events, 6)
    lo = random.integers(0, 60, size=attr.shape)
    hi = lo + random.integers(0, 60, size=attr.shape)
    return Workload(attr, lo, hi, event_attr, random.integers(0, 100, size=event_attr.shape), 12, 100)


def plain_answer(workload: Workload) -> list[list[int]]:
    """By dictionaries and loops."""
    out = []
    for attrs, values in zip(workload.event_attr.tolist(), workload.event_value.tolist(), strict=True):
        event = dict(zip(attrs, values, strict=True))
        rows = zip(workload.sub_attr.tolist(), workload.sub_lo.tolist(), workload.sub_hi.tolist(), strict=True)
        out.append(
            [
                slot
                for slot, row in enumerate(rows)
                if all(a in event and lo <= event[a] <= hi for a, lo, hi in zip(*row, strict=True))
            ]
        )
    return out


class Forgetful(NumpyScan):
    """Loses the first match of the last event that has one."""

    def searches(self) -> dict[str, Callable[[int], Answer]]:
        return {"single": self.single}

    def single(self, count: int) -> Answer:
        answers = [self.narrowing(e) for e in range(count)]
        last = max(e for e, slots in enumerate(answers) if len(slots) or e == 0)
        return [*answers[:last], answers[last][1:], *answers[last + 1 :]]


class Doubting(NumpyScan):
    """Says the first match of the first event twice."""

    def searches(self) -> dict[str, Callable[[int], Answer]]:
        return {"single": lambda n: [np.append(slots, slots[:1]) for slots in map(self.narrowing, range(n))]}


class Broken(NumpyScan):
    """Cannot be built."""

    def build(self, workload: Workload) -> None:
        raise MemoryError("no room at all")


class Endless(NumpyScan):
    """Never ready."""

    def build(self, workload: Workload) -> None:
        time.sleep(600)
