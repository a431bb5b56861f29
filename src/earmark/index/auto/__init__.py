"""`auto`: for every segment the index that is quickest for it. The default.

    statistics ──► an estimate of each candidate ──► the best few race on a sample ──► costs at full size ──► the index

**Statistics** (`facts.py`) are those of a sample: which attributes clauses have and how often the same, how much of
them events meet. Events are recent ones, where the engine has seen some, or made from the subscriptions themselves.

**Estimates** are one line of arithmetic for each index; they only decide who races. The **race** builds each on a
sample, asks it the events, alone and as a batch, and counts its work at two sizes. Work grows with the book, in a
straight line as far as two sizes tell, and time with work: so much is expected at full size.

A candidate whose kernels were never compiled on this machine does not race, because compiling takes longer than the
race would save (`earmark warm` compiles them), unless its estimate is far better than all others.

Planning never changes an answer: every index gives the same. A plan says what was considered (`plan.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from earmark.errors import EarmarkError
from earmark.events.arrays import EventArrays
from earmark.events.choice import some_events
from earmark.flat import bits
from earmark.index import builder, class_of
from earmark.index.auto.facts import Facts, events_like, facts_of, sampled
from earmark.index.auto.plan import Candidate, Plan
from earmark.index.driver import ArrayIndex, read_only_table
from earmark.index.one import OneEvent
from earmark.jit import is_compiled
from earmark.segment.arrays import SegmentArrays

FEW = 256
"""So many subscriptions are scanned."""
SMALL, LARGE = 2_048, 16_384
"""Subscriptions of the samples that race."""
EVENTS, SINGLES, FIRST = 64, 16, 8
"""Events that are asked: as a batch, alone, and first, to see who is far behind."""
RACERS = 3
FAR = 8.0
"""Who is estimated, or found at first, to be so many times slower than the best does not race."""
BETTER = 0.9
"""What another must cost, beside the first candidate, to be taken instead of it."""
BATCH_SHARE, SINGLE_SHARE = 0.5, 0.9
"""The share of a search in the small sample that does not grow with the book."""


class Auto:
    """Builds an index of whichever kind is quickest for a table."""

    @staticmethod
    def build(table: SegmentArrays, among: Sequence[str] = (), k: int = 0) -> ArrayIndex[Any]:
        """The index for a table; `among` are the candidates, all by default; `k`: for the k best, not all matches."""
        return planned(table, among, k)

    @staticmethod
    def restore(table: SegmentArrays, arrays: Any) -> ArrayIndex[Any]:
        """Nothing is stored under this name: the index that was chosen is stored under its own."""
        raise AssertionError("'auto' is not an index that is stored")


# --- estimates ------------------------------------------------------------------------------------------------


def _scan(slots: int, facts: Facts) -> float:
    return 12.0 * slots * facts.clauses


def _blocks(slots: int, facts: Facts) -> float:
    clauses = slots * facts.clauses
    in_trees = facts.narrow + 0.02 * facts.met
    return 1_500 + clauses * (facts.alike * in_trees + 20 * (1 - facts.alike) * facts.met)


def _be_star_tree(slots: int, facts: Facts) -> float:
    return 1_500 + 25.0 * slots * facts.clauses * facts.narrow * facts.met


def _bitsets(slots: int, facts: Facts) -> float:
    return 3_000 + slots * facts.clauses * (0.01 * facts.attributes + 10 * facts.matched)


def _vcr(slots: int, facts: Facts) -> float:
    return 1_000 + 5.0 * slots * facts.clauses * facts.matched


def _segment_tree(slots: int, facts: Facts) -> float:
    return 1_000 + 10.0 * slots * facts.clauses * facts.matched


class Kind(NamedTuple):
    """A candidate: its estimate in nanoseconds an event, and for which books it is one at all."""

    estimate: Callable[[int, Facts], float]
    most_attributes: int = 1 << 30
    ranks: bool = True
    """Whether it ranks by itself; others score all that matches."""


KINDS = {
    "blocks": Kind(_blocks),
    "be_star_tree": Kind(_be_star_tree),
    "scan": Kind(_scan),
    "vcr": Kind(_vcr, 2, False),
    "segment_tree": Kind(_segment_tree, 1),
    "sopt_r_tree": Kind(_segment_tree, 1),
}
"""The candidates; of equals, the first is taken."""


# --- planning -------------------------------------------------------------------------------------------------


def planned(
    table: SegmentArrays, among: Sequence[str] = (), k: int = 0, recent: EventArrays | None = None
) -> ArrayIndex[Any]:
    """The index for a table, with its plan; by recent events, if there are any."""
    begun = time.perf_counter()
    _check(among, k)
    table = read_only_table(table)
    slots = len(table.sequence)
    is_recent = recent is not None and len(recent.start) > 1
    events = recent if recent is not None and is_recent else events_like(table, EVENTS)
    events = some_events(events, np.arange(min(EVENTS, len(events.start) - 1)))
    facts = facts_of(table, events)
    candidates = _candidates(slots, facts, among or tuple(KINDS), k)
    course = Course(table, events, k)
    racers = [one.index for one in candidates if not one.note]
    laps = {name: lap for name in racers if (lap := course.lap(name)) is not None} if len(racers) > 1 else {}
    costs = course.expected(laps)
    chosen = _chosen(candidates, costs)
    candidates = [
        replace(one, measured=laps[one.index].cost, expected=costs[one.index]) if one.index in laps else one
        for one in sorted(candidates, key=lambda one: (one.index != chosen, costs.get(one.index, math.inf)))
    ]
    work = course.work(laps[chosen]) if chosen in laps else 0.0
    took = time.perf_counter() - begun
    sample = len(course.large.sequence) if laps else 0
    plan = Plan(chosen, slots, sample, len(events.start) - 1, is_recent, k, facts, tuple(candidates), work, took)
    built = laps[chosen].built if chosen in laps and course.large is table else None
    index = built if built is not None else builder(chosen)(table)
    index.plan = plan
    return index


def _check(among: Sequence[str], k: int) -> None:
    if isinstance(among, str) or not all(name in KINDS for name in among):
        raise EarmarkError(f"expected candidates among {', '.join(KINDS)}, got {among!r}")
    if isinstance(k, bool) or not isinstance(k, int) or k < 0:
        raise EarmarkError(f"expected a number of best subscriptions as k, or 0 for all that match, got {k!r}")


def _candidates(slots: int, facts: Facts, among: Sequence[str], k: int) -> list[Candidate]:
    """Those that fit a book, by their estimates; those that do not race have a note that says why."""
    fit = [name for name in among if facts.attributes <= KINDS[name].most_attributes and (KINDS[name].ranks or not k)]
    costs = {name: KINDS[name].estimate(slots, facts) / 1e3 for name in fit or among}
    if slots <= FEW and "scan" in costs:
        return [Candidate("scan", costs["scan"], note=f"at most {FEW} subscriptions are scanned")]
    ordered = sorted(costs, key=lambda name: costs[name])
    near = [name for name in ordered if costs[name] <= FAR * costs[ordered[0]]]
    ready = [name for name in near if is_ready(name)] or near[:1]
    notes = {}
    for name in ordered:
        if name not in near:
            notes[name] = "by its estimate far behind"
        elif name not in ready:
            notes[name] = "not compiled on this machine, so it did not race (`earmark warm`)"
        elif name not in ready[:RACERS]:
            notes[name] = "others are estimated to be quicker"
    return [Candidate(name, costs[name], note=notes.get(name, "")) for name in ordered]


def is_ready(name: str) -> bool:
    """Whether the kernels of an index were compiled on this machine."""
    kernel: Any = class_of(name)._match_kernel
    return is_compiled(kernel, "enter_match_")


def _chosen(candidates: Sequence[Candidate], costs: Mapping[str, float]) -> str:
    """The quickest; among nearly equal ones the first of KINDS."""
    if not costs:
        return next(one.index for one in candidates if not one.note or len(candidates) == 1)
    limit = min(costs.values()) / BETTER
    return next(name for name in KINDS if costs.get(name, math.inf) <= limit)


# --- the race -------------------------------------------------------------------------------------------------


class Lap(NamedTuple):
    """How an index did: microseconds an event in a batch and alone, and work, on the small sample and the large."""

    built: ArrayIndex[Any]
    small: tuple[float, float, float]
    large: tuple[float, float, float]

    @property
    def cost(self) -> float:
        """Microseconds on the large sample, in a batch and alone."""
        return self.large[0] + self.large[1]


class Course:
    """Samples of a table, and events to ask."""

    def __init__(self, table: SegmentArrays, events: EventArrays, k: int) -> None:
        self._slots = len(table.sequence)
        self.large = sampled(table, LARGE)
        self.small = sampled(table, SMALL)
        self._events, self._k = events, k
        self._best = math.inf

    def lap(self, name: str) -> Lap | None:
        """Build an index on both samples and ask it; None where it is far behind others."""
        build = builder(name)
        index = build(self.large)
        if self._asked(index, self._events, FIRST)[1] > FAR * self._best:
            return None
        large = self._asked(index, self._events, SINGLES)
        small = large if self.small is self.large else self._asked(build(self.small), self._events, SINGLES)
        self._best = min(self._best, large[1])
        return Lap(index, small, large)

    def _asked(self, index: ArrayIndex[Any], events: EventArrays, singles: int) -> tuple[float, float, float]:
        """(microseconds of an event in a batch, alone; work of an event)."""
        count = len(events.start) - 1
        few = min(singles, count)
        batch = events if singles > FIRST else some_events(events, np.arange(few))
        eligible, one = bits.all_set(len(index._table.sequence)), OneEvent()

        def together() -> None:
            if self._k:
                index.top_k_many(batch, self._k, eligible)
            else:
                index.match_many(batch, eligible)

        def alone() -> None:
            for e in range(few):
                own = slice(int(events.start[e]), int(events.start[e + 1]))
                columns = (events.attr[own].tolist(), events.lo[own].tolist(), events.hi[own].tolist())
                one.take([(*entry, "") for entry in zip(*columns, strict=True)])
                if self._k:
                    index.best_of_one(one, self._k, eligible, False)
                else:
                    index.match_one(one, eligible)

        seconds = quickest(together) / max(1, len(batch.start) - 1)
        work = index.work.nanoseconds / max(1, len(batch.start) - 1)
        return seconds * 1e6, quickest(alone) / max(1, few) * 1e6, work

    def work(self, lap: Lap) -> float:
        """The work of an event at full size, if it grows in a straight line."""
        small, large = len(self.small.sequence), len(self.large.sequence)
        if large == self._slots or large == small:
            return lap.large[2]
        return lap.large[2] + max(0.0, lap.large[2] - lap.small[2]) / (large - small) * (self._slots - large)

    def expected(self, laps: Mapping[str, Lap]) -> dict[str, float]:
        """By name, the microseconds of an event at full size: a part that is the same for all, and one that grows."""
        fixed = [
            share * min((lap.small[i] for lap in laps.values()), default=0.0)
            for i, share in enumerate((BATCH_SHARE, SINGLE_SHARE))
        ]
        found = {}
        for name, lap in laps.items():
            growth = self.work(lap) / max(lap.large[2], 1e-9)
            found[name] = sum(
                same + max(0.0, cost - same) * growth for same, cost in zip(fixed, lap.large, strict=False)
            )
        return found


def quickest(run: Callable[[], None], times: int = 2) -> float:
    """Seconds of the quickest of some runs, by the clock of this thread: others may keep the machine busy."""
    run()
    took = []
    for _ in range(times):
        begun = time.thread_time()
        run()
        took.append(time.thread_time() - begun)
    return min(took)
