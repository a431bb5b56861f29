"""`auto`: for every segment the index that is quickest for it. The default.

    statistics ──► an estimate of each candidate ──► the best few race on a sample ──► costs at full size ──► the index

**Statistics** (`facts.py`) are those of a sample: which attributes clauses have and how often the same, how much of
them events meet. Events are recent ones, where the engine has seen some, or made from the subscriptions themselves.

**Estimates** are one line of arithmetic for each index; they only decide who races. The **race** builds each on a
sample, asks it the events, alone and as a batch, and counts its work at two sizes. Work grows with the book, in a
straight line as far as two sizes tell, and time with work: so much is expected at full size.

A candidate whose kernels were never compiled on this machine does not race, because compiling takes longer than the
race would save. Where a helper compiles it meanwhile (`helper.py`), the plan says so and is made again afterwards; a
scan stands in until then where nothing near the best is compiled yet and the book is not large.

Planning never changes an answer: every index gives the same. A plan says what was considered (`plan.py`).
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from earmark.errors import EarmarkError, shown
from earmark.events.arrays import EventArrays
from earmark.events.choice import some_events
from earmark.flat import bits
from earmark.flat.arrays import I64
from earmark.index import builder, class_of
from earmark.index.auto.facts import Facts, events_like, facts_of, sampled, spread
from earmark.index.auto.plan import BEHIND_AT_ONCE, COMPILING, Candidate, Plan
from earmark.index.contract import Work
from earmark.index.driver import ArrayIndex, read_only_table
from earmark.index.one import OneEvent
from earmark.jit import is_compiled
from earmark.segment.arrays import SegmentArrays

FEW = 256
"""Up to this many subscriptions are scanned."""
SMALL, LARGE, CONSTRAINTS = 2_048, 16_384, 1 << 20
"""Subscriptions of the samples that race, and about how many constraints the larger may have."""
EVENTS, REPEATED, SINGLES = 64, 4, 16
"""Events that are asked: as a batch, how often in it, and alone."""
FEWEST_RUNS, MOST_RUNS, ENOUGH = 2, 8, 1e-3
"""How often the same events are asked: at least, at most, and no more once all runs have taken this many seconds."""
SMALL_BESIDE = 8
"""A segment that is this many times smaller than the largest gets the same kind of index: a race would cost more than
the build."""
RACERS, RACERS_OF_ONE = 3, 2
"""How many candidates race, and how many where there is one attribute: estimates are good there, and an index is built
more quickly than several race."""
CELL_BEST = 20
"""The most best subscriptions that a cell table looks up, as it is built by default."""
FAR = 8.0
"""A candidate that is estimated to take this many times as long as the best does not race."""
BEHIND = 2.0
"""A candidate that takes this many times as long on the small sample as one with a better estimate is not tried on the
large one: most of the time of planning goes into building indexes of that."""
BETTER = 0.9
"""A later candidate is taken instead of an earlier one only if it costs less than this share of it."""
STAND_IN = 1 << 17
"""So many subscriptions are scanned while better indexes are compiled. More wait for the first of them: it takes as
long as loading them, and scans would soon have cost more."""
BATCH_SHARE, SINGLE_SHARE = 0.8, 0.95
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


def _scan(slots: int, facts: Facts, k: int) -> float:
    return 12.0 * slots * facts.clauses


def _blocks(slots: int, facts: Facts, k: int) -> float:
    clauses = slots * facts.clauses
    in_trees = facts.narrow + 0.02 * facts.met
    return 1_500 + clauses * (facts.alike * in_trees + 20 * (1 - facts.alike) * facts.met + 5 * facts.matched)


def _be_star_tree(slots: int, facts: Facts, k: int) -> float:
    clauses = slots * facts.clauses
    return 1_500 + 7.0 * math.sqrt(clauses) + 25.0 * clauses * facts.narrow * facts.met


def _bitsets(slots: int, facts: Facts, k: int) -> float:
    return 3_000 + slots * facts.clauses * (0.01 * facts.attributes + 10 * facts.matched)


def _vcr(slots: int, facts: Facts, k: int) -> float:
    return 1_000 + 5.0 * slots * facts.clauses * facts.matched if facts.attributes > 1 else _grid(slots, facts, k)


def _on_one_attribute(level: float, match: float, best_level: float) -> Callable[[int, Facts, int], float]:
    """So many nanoseconds for each doubling of the clauses and each match; another number for the k best."""

    def estimate(slots: int, facts: Facts, k: int) -> float:
        clauses = slots * facts.clauses
        levels, matches = math.log2(max(2.0, clauses)), clauses * facts.matched
        return 500 + (best_level * levels + 50 * min(k, matches) if k else level * levels + match * matches)

    return estimate


_grid = _on_one_attribute(200, 6, 200)
_interval_tree = _on_one_attribute(75, 11, 200)
_segment_tree = _on_one_attribute(250, 9, 100)
_sopt_r_tree = _on_one_attribute(250, 30, 50)


def _cell_table(slots: int, facts: Facts, k: int) -> float:
    looks_up = facts.clauses <= 1 and facts.nulls == 0
    return 1_000 if looks_up else _sopt_r_tree(slots, facts, k)


class Kind(NamedTuple):
    """A candidate: its estimate in nanoseconds an event, and for which books it is one at all."""

    estimate: Callable[[int, Facts, int], float]
    most_attributes: int = 1 << 30
    least_k: int = 0
    most_k: int = 1 << 30
    """For which searches it is one: for the k best from the least to the most k, where 0 is all matches. What ranks by
    scoring all that matches is no candidate for the best, and ends at 0."""
    dearer: float = 0.0
    """By which share of itself the same work costs more for each doubling beyond the sample: what does not fit into
    the processor's cache is waited for, by trees most of all."""
    options: tuple[Mapping[str, int], ...] = ()
    """What to try beside its defaults, once it is chosen."""
    looks_up: bool = False
    """Whether its answers are looked up, where no constraint was compared: then work does not grow with the book."""


KINDS = {
    "blocks": Kind(_blocks),
    "interval_tree": Kind(_interval_tree, 1),
    "segment_tree": Kind(_segment_tree, 1),
    "be_star_tree": Kind(_be_star_tree, dearer=1.6),
    "bitsets": Kind(_bitsets, 64, dearer=0.3, options=({"buckets": 64},)),
    "scan": Kind(_scan),
    "cell_table": Kind(_cell_table, 1, least_k=1, most_k=CELL_BEST, looks_up=True),
    "sopt_r_tree": Kind(_sopt_r_tree, 1),
    "vcr": Kind(_vcr, 2, most_k=0),
}
"""The candidates; of equals, the first is taken, which is built in less time or has more uses."""


# --- planning -------------------------------------------------------------------------------------------------


def planned(
    table: SegmentArrays,
    among: Sequence[str] = (),
    k: int = 0,
    recent: EventArrays | None = None,
    compiles: Callable[[str], bool] = lambda name: False,
) -> ArrayIndex[Any]:
    """The index for a table, with its plan; by recent events, if there are any.

    `compiles`: whether an index that is not compiled will be; the caller has it compiled and plans again (`missing`).
    """
    begun = time.perf_counter()
    _check(among, k)
    table, k = read_only_table(table), int(k)
    slots = len(table.sequence)
    is_recent = recent is not None and len(recent.start) > 1
    is_scanned = slots <= FEW and "scan" in (among or KINDS)
    events = recent if recent is not None and is_recent else events_like(table, 0 if is_scanned else EVENTS)
    events = some_events(events, spread(len(events.start) - 1, EVENTS))
    facts = facts_of(table, events)
    candidates = _candidates(slots, facts, among or tuple(KINDS), k, compiles)
    course = Course(table, events, k)
    racers = [one.index for one in candidates if not one.note]
    race: dict[str, Raced] = {}
    if len(racers) > 1 and len(events.start) > 1:
        race = {name: raced for name in racers if (raced := course.raced(name)) is not None}
        race = {name: course.again(raced) for name, raced in race.items()}
    costs = course.expected(race)
    chosen = _chosen(candidates, costs)
    candidates = [
        replace(one, measured=race[one.index].large.cost, expected=costs[one.index])
        if one.index in race
        else replace(one, note=one.note or (BEHIND_AT_ONCE if race else ""))
        for one in sorted(candidates, key=lambda one: (one.index != chosen, costs.get(one.index, math.inf)))
    ]
    best = race.get(chosen)
    if best is not None and (tuned := course.tuned(chosen, costs[chosen])) is not None:
        options, best, cost = tuned
        candidates.insert(0, replace(candidates[0], measured=best.large.cost, expected=cost, options=options))
    alone = course.work(best, alone=True) if best is not None else 0.0
    work = course.work(best) if best is not None and not best.large.is_by_scan else alone
    took = time.perf_counter() - begun
    sample = len(course.large.sequence) if race else 0
    plan = Plan(chosen, slots, sample, len(events.start) - 1, is_recent, k, facts, tuple(candidates), work, took, alone)
    built = best.built if best is not None and course.large is table else None
    index = built if built is not None else builder(chosen, plan.options)(table)
    index.plan = plan
    return index


def followed(table: SegmentArrays, plan: Plan, among: Sequence[str] = ()) -> ArrayIndex[Any] | None:
    """The index for a table that is small beside the one that was planned: of the same kind, without a race.

    None if it is not small, if it is small enough to be scanned, or if that kind is not a candidate.
    """
    slots = len(table.sequence)
    if plan.index not in (among or KINDS) or not FEW < slots <= plan.subscriptions // SMALL_BESIDE:
        return None
    if plan.options and plan.options not in KINDS[plan.index].options:  # a file may say anything
        return None
    index = builder(plan.index, plan.options)(read_only_table(table))
    chosen = replace(plan.candidates[0], measured=None, expected=None, note="same index as the largest segment")
    candidates = (chosen, *(one for one in plan.candidates[1:] if one.index in plan.missing))
    index.plan = replace(plan, subscriptions=slots, sampled=0, candidates=candidates, work=0.0, seconds=0.0, alone=0.0)
    return index


def _check(among: Sequence[str], k: int) -> None:
    if not isinstance(among, list | tuple) or not all(isinstance(name, str) and name in KINDS for name in among):
        raise EarmarkError(f"expected a list of candidates among {', '.join(KINDS)}, got {shown(among)}")
    if isinstance(k, bool) or not isinstance(k, Integral) or k < 0:
        raise EarmarkError(f"expected a number of best subscriptions as k, or 0 for all that match, got {k!r}")


def _candidates(
    slots: int, facts: Facts, among: Sequence[str], k: int, compiles: Callable[[str], bool]
) -> list[Candidate]:
    """Those that fit a book, by their estimates; those that do not race have a note that says why."""
    fit = [name for name in among if _fits(KINDS[name], facts, k)]
    costs = {name: KINDS[name].estimate(slots, facts, k) / 1e3 for name in fit or among}
    if slots <= FEW and "scan" in among:
        return [Candidate("scan", costs["scan"], note=f"at most {FEW} subscriptions are scanned")]
    ordered = sorted(costs, key=lambda name: costs[name])
    near = [name for name in ordered if costs[name] <= FAR * costs[ordered[0]]]
    most = RACERS if facts.attributes > 1 else RACERS_OF_ONE
    ready = [name for name in near if is_ready(name)]
    waited_for = [name for name in near[:most] if name not in ready and compiles(name)]
    if not ready and waited_for and slots <= STAND_IN and "scan" in among:
        ready = [next(name for name in ordered if name == "scan" or is_ready(name))]
    ready = ready or [next(name for name in KINDS if name in near)]
    racers = ready[:most]
    notes = {}
    for name in ordered:
        if name in racers:
            continue
        if name in waited_for:
            notes[name] = COMPILING
        elif name not in near:
            notes[name] = "by its estimate far behind"
        elif name not in ready:
            notes[name] = "not compiled on this machine, so it did not race (`earmark warm`)"
        else:
            notes[name] = "others are estimated to be quicker"
    return [Candidate(name, costs[name], note=notes.get(name, "")) for name in ordered]


def _fits(kind: Kind, facts: Facts, k: int) -> bool:
    return facts.attributes <= kind.most_attributes and kind.least_k <= k <= kind.most_k


def is_ready(name: str) -> bool:
    """Whether the kernels of an index were compiled on this machine."""
    index = class_of(name)
    return is_compiled(index._match_kernel, "enter_match_") and all(map(is_compiled, index._further_kernels()))


def _chosen(candidates: Sequence[Candidate], costs: Mapping[str, float]) -> str:
    """The quickest; among nearly equal ones the first of KINDS."""
    if not costs:
        return next(one.index for one in candidates if not one.note or len(candidates) == 1)
    limit = min(costs.values()) / BETTER
    return next(name for name in KINDS if costs.get(name, math.inf) <= limit)


# --- the race -------------------------------------------------------------------------------------------------


class Lap(NamedTuple):
    """How an index did: microseconds of an event in a batch and of one alone, and their work."""

    batch: float
    single: float
    work: Work
    """Of all events of the batch."""
    alone: Work
    """Of all that were asked alone."""
    is_by_scan: bool = False
    """Whether the batch was left to a scan."""

    @property
    def cost(self) -> float:
        """Both together."""
        return self.batch + self.single


class Course:
    """Samples of a table, and events to ask."""

    def __init__(self, table: SegmentArrays, events: EventArrays, k: int) -> None:
        self._slots = len(table.sequence)
        self.large = sampled(table, LARGE, CONSTRAINTS)
        self.small = sampled(table, SMALL, CONSTRAINTS // 8)
        self._events, self._k = events, k
        self._before: list[tuple[float, float]] = []
        """Microseconds of those that raced before, which have better estimates, on the small sample: in a batch, as
        dear as at full size, and alone."""

    def raced(self, name: str, options: Mapping[str, int] | None = None) -> Raced | None:
        """Build an index on both samples and ask it; None if it is behind on the small one."""
        build = builder(name, options)
        built = build(self.small)
        small = large = self._lap(built)
        batch = small.batch * self._dearer(KINDS[name])
        if any(batch > BEHIND * before and small.single > single for before, single in self._before):
            return None
        self._before.append((batch, small.single))
        if self.large is not self.small:
            built = build(self.large)
            large = self._lap(built)
        return Raced(built, small, large)

    def again(self, raced: Raced) -> Raced:
        """The better of that race and another, later: what disturbed the one has passed by the other."""
        before, after = raced.large, self._lap(raced.built)
        better = after._replace(batch=min(before.batch, after.batch), single=min(before.single, after.single))
        return raced._replace(large=better)

    def _lap(self, index: ArrayIndex[Any]) -> Lap:
        """Ask a few events alone, and all of them as a batch, which is repeated to make it as long as usual."""
        events, k = self._events, self._k
        count = len(events.start) - 1
        few = min(SINGLES, count)
        batch = some_events(events, np.tile(np.arange(count), REPEATED))
        asked = len(batch.start) - 1
        eligible, one = bits.all_set(len(index._table.sequence)), OneEvent()
        counted: deque[Sequence[int] | I64] = deque(maxlen=few)

        def together() -> None:
            if k:
                index.top_k_many(batch, k, eligible)
            else:
                index.match_many(batch, eligible)

        def one_by_one() -> None:
            for e in range(few):
                own = slice(int(events.start[e]), int(events.start[e + 1]))
                columns = (events.attr[own].tolist(), events.lo[own].tolist(), events.hi[own].tolist())
                one.take([(*entry, "") for entry in zip(*columns, strict=True)])
                if k:
                    index.best_of_one(one, k, eligible, False)
                else:
                    index.match_one(one, eligible)
                counted.append(index._counted)

        single = quickest(one_by_one) / few * 1e6
        seconds = quickest(together)
        alone = Work.total(map(Work.counted, counted))
        return Lap(seconds / asked * 1e6, single, index.work, alone, index._is_by_scan)

    def work(self, raced: Raced, alone: bool = False) -> float:
        """The work of an event at full size (`Work.nanoseconds`), in a batch or alone."""
        count = len(self._events.start) - 1
        if alone:
            return self._at_full_size(raced.small.alone, raced.large.alone).nanoseconds / min(SINGLES, count)
        return self._at_full_size(raced.small.work, raced.large.work).nanoseconds / (REPEATED * count)

    def _at_full_size(self, small_work: Work, large_work: Work) -> Work:
        """The work at full size, from that at two sizes.

        What is compared grows with the book, in a straight line. Nodes grow slower: a power of its size is too little,
        a straight line is too much, so they are taken between.
        """
        small, large = len(self.small.sequence), len(self.large.sequence)
        if large in (self._slots, small):
            return large_work
        far = (self._slots - large) / (large - small)
        found = {}
        for field, low, high in zip(Work._fields, small_work, large_work, strict=True):
            line = high + max(0.0, high - low) * far
            if field in ("nodes", "leaves") and 0 < low < high:
                power = high * (self._slots / large) ** (math.log(high / low) / math.log(large / small))
                line = math.sqrt(line * power)
            found[field] = round(line)
        return Work(**found)

    def _dearer(self, kind: Kind) -> float:
        """How many times as much the same work costs at full size as in the large sample."""
        return 1 + kind.dearer * math.log2(max(1.0, self._slots / max(1, len(self.large.sequence))))

    def expected(self, race: Mapping[str, Raced]) -> dict[str, float]:
        """By name, the microseconds of an event at full size: what even a small book costs, and a part that grows."""
        return {name: self._expected(KINDS[name], raced) for name, raced in race.items()}

    def _expected(self, kind: Kind, raced: Raced) -> float:
        small, large = raced.small, raced.large
        larger = self._slots / max(1, len(self.large.sequence))
        dearer = self._dearer(kind)
        cost = 0.0
        for share, before, after, work_before, work in (
            (BATCH_SHARE, small.batch, large.batch, small.work, large.work),
            (SINGLE_SHARE, small.single, large.single, small.alone, large.alone),
        ):
            fixed = min(share * before, after)
            if kind.looks_up and not work.compared:
                growth = 1.0
            elif work is large.work and small.is_by_scan != large.is_by_scan:  # two ways, which tell nothing of growth
                fixed, growth = 0.0, larger
            else:
                growth = self._at_full_size(work_before, work).nanoseconds / max(work.nanoseconds, 1e-9)
            cost += fixed + (after - fixed) * growth * dearer
        return cost

    def tuned(self, name: str, cost: float) -> tuple[Mapping[str, int], Raced, float] | None:
        """The options with which an index is expected to cost less than by default, how it did, and what it costs."""
        best = None
        for options in KINDS[name].options:
            raced = self.raced(name, options)
            if raced is not None and (expected := self._expected(KINDS[name], self.again(raced))) < BETTER * cost:
                best, cost = (options, raced, expected), expected
        return best


class Raced(NamedTuple):
    """An index on the large sample, and how it did on both."""

    built: ArrayIndex[Any]
    small: Lap
    large: Lap


def quickest(run: Callable[[], None]) -> float:
    """Seconds of the quickest of some runs, more of short ones, by the clock of this thread.

    Others keep the machine busy, and what they cost is multiplied when the book is larger than the sample.
    """
    run()
    took: list[float] = []
    while len(took) < FEWEST_RUNS or (len(took) < MOST_RUNS and sum(took) < ENOUGH):
        begun = time.thread_time()
        run()
        took.append(time.thread_time() - begun)
    return min(took)
