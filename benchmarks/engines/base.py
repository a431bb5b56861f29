"""What an engine is to the harness, and when two answers are the same."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.workload.standard import Workload

Numbers = NDArray[np.integer[Any]]


class Pointed(NamedTuple):
    """Answers of a batch: those of event e are slots[start[e] : start[e + 1]]."""

    start: Numbers
    slots: Numbers


class Pairs(NamedTuple):
    """Answers of a batch as a join gives them: one row a match, in any order."""

    events: Numbers
    slots: Numbers


Answer = Pointed | Pairs | Sequence[Any]
"""The third form: for each event the slots that match it."""


class Engine:
    """A way to find which subscriptions match which events.

    `build` takes in the subscriptions, into memory of the engine's own, and the events in whatever form suits it;
    only `build` of the subscriptions and the searches are on the clock. A search takes the first `count` events and
    returns an Answer; order within an event is free, and nothing is charged for putting it in order.
    """

    needs: str = ""
    """A package that may not be there."""

    def __init__(self, name: str, threads: int = 1) -> None:
        self.name = name
        self.threads = threads

    def cannot(self, workload: Workload) -> str:
        """Why this engine cannot take this workload; empty when it can."""
        if self.needs and importlib.util.find_spec(self.needs) is None:
            return f"the package {self.needs} is not installed"
        return ""

    def prepare(self, workload: Workload) -> None:
        """Put the events into the engine's own form. Not on the clock."""

    def build(self, workload: Workload) -> None:
        """Take in the subscriptions."""
        raise NotImplementedError

    def searches(self) -> dict[str, Callable[[int], Answer]]:
        """The ways of searching, by name: `batch` (all events in one call), `single` (one event a call), ..."""
        raise NotImplementedError


def is_dense(workload: Workload) -> bool:
    """Whether every subscription constrains every attribute."""
    return workload.sub_attr.shape[1] == workload.attributes


def dense_values(workload: Workload) -> Numbers:
    """The events' values by attribute; the least integer where an event has none."""
    value = np.full((len(workload.event_attr), workload.attributes), np.iinfo(np.int64).min)
    np.put_along_axis(value, workload.event_attr.astype(np.int64), workload.event_value, 1)
    return value


def match_keys(answer: Answer, subscriptions: int) -> Numbers:
    """The answer as ascending numbers event * subscriptions + slot."""
    if isinstance(answer, Pairs):
        events, slots = answer
    elif isinstance(answer, Pointed):
        events, slots = np.repeat(np.arange(len(answer.start) - 1), np.diff(answer.start)), answer.slots
    else:
        events = np.repeat(np.arange(len(answer)), [len(slots) for slots in answer])
        parts = [np.asarray(slots, np.int64) for slots in answer]
        slots = np.concatenate(parts) if parts else np.empty(0, np.int64)
    return np.sort(np.asarray(events, np.int64) * subscriptions + np.asarray(slots, np.int64))


def difference(found: Numbers, wanted: Numbers, subscriptions: int) -> str:
    """How the answer differs from the one wanted; empty when it does not. Both as `match_keys`."""
    if np.array_equal(found, wanted):
        return ""
    missing, extra = np.setdiff1d(wanted, found), np.setdiff1d(found, wanted)
    twice = len(found) - len(np.unique(found))
    first = int(min([*missing[:1], *extra[:1], *found[:-1][found[1:] == found[:-1]][:1]]) // subscriptions)
    return f"{len(missing):,} matches missing, {len(extra):,} extra, {twice:,} twice; first at event {first}"
