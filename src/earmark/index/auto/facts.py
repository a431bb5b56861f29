"""What does a planner know of a segment before it tries anything: its statistics, and events like its subscriptions."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.events.arrays import EventArrays
from earmark.flat.arrays import I64, frozen
from earmark.segment.arrays import SegmentArrays, gather

SAMPLE, CONSTRAINTS = 2_048, 1 << 16
"""Subscriptions that statistics are drawn from, and about how many constraints these may have."""
ROUNDS = 32
"""Clauses that an event is put together from, at most."""
TREE = 64
"""Clauses on the same attributes that are worth a structure of their own."""
HASHED, LEAST_HASHED = 1 << 18, 1 / 16
"""Constraints whose attributes are looked at to see which clauses are on the same ones, and the least share of all. Of
so many clauses, those that are worth a structure come several times."""
DENSE, MOST = 64, 256
"""An event is taken to have all attributes of a book that has no more than the first; and never more than the second.
Where that is wrong it costs little: what is quick for events with all attributes is not slow for others."""


class Facts(NamedTuple):
    """Statistics of a sample of subscriptions, and of what events meet among them."""

    clauses: float
    """For each subscription."""
    constraints: float
    """For each clause."""
    attributes: int
    """That any clause of the sample constrains."""
    alike: float
    """The share of clauses whose set of attributes many have."""
    nulls: float
    """The share of constraints that NULL satisfies."""
    met: float
    """The share of clauses of which an event has all attributes."""
    narrow: float
    """The share of clauses whose narrowest constraint an event satisfies."""
    matched: float
    """The share of clauses that an event matches, as far as the outer ends of their constraints tell."""


def sampled(table: SegmentArrays, most: int, constraints: int) -> SegmentArrays:
    """At most `most` subscriptions, spread evenly, with about `constraints` constraints; or the table, if no larger."""
    slots = len(table.sequence)
    most = max(1, min(most, constraints * slots // max(1, len(table.attr))))
    if slots <= most:
        return table
    return SegmentArrays._make(map(frozen, gather(table, spread(slots, most))))


def spread(count: int, most: int) -> I64:
    """All numbers below `count`, or `most` of them, spread evenly."""
    return np.linspace(0, count - 1, min(count, most)).astype(np.int64)


def facts_of(table: SegmentArrays, events: EventArrays) -> Facts:
    """The statistics of a table, of which there is a sample here, under these events."""
    sample = sampled(table, SAMPLE, CONSTRAINTS)
    slots, clauses, constraints = len(sample.sequence), len(sample.constraint_start) - 1, len(sample.attr)
    size = np.diff(sample.constraint_start)
    if len(events.start) < 2:  # then nothing is met: as if there were one that has nothing
        events = EventArrays(np.zeros(2, np.int64), *events[1:])
    satisfied, present = _outcomes(sample, events)
    asking = np.flatnonzero(size)
    first = sample.constraint_start[asking]
    rest = clauses - len(asking)  # clauses that ask nothing: every event matches
    counts = [np.logical_and.reduceat(one, first, axis=1).mean(axis=0).sum() for one in (present, satisfied)]
    narrow = np.minimum.reduceat(satisfied.mean(axis=0), first).sum() if len(first) else 0.0
    met, matched, narrow = ((one + rest) / max(1, clauses) for one in (*counts, narrow))
    return Facts(
        clauses=clauses / max(1, slots),
        constraints=constraints / max(1, clauses),
        attributes=len(np.unique(sample.attr)),
        alike=_alike(table),
        nulls=float(sample.accepts_null.mean()) if constraints else 0.0,
        met=float(met),
        narrow=float(narrow),
        matched=float(matched),
    )


def _alike(table: SegmentArrays) -> float:
    """The share of clauses whose set of attributes at least TREE clauses have, by a part of the clauses.

    A set that TREE clauses have is expected four times in the smallest part, and counts from then on.
    """
    clauses, constraints = len(table.constraint_start) - 1, len(table.attr)
    share = min(1.0, max(LEAST_HASHED, HASHED / max(1, constraints)))
    chosen = spread(clauses, math.ceil(share * clauses))
    begin, size = table.constraint_start[chosen], np.diff(table.constraint_start)[chosen]
    ends = np.cumsum(size)
    own = np.arange(ends[-1] if len(ends) else 0) + np.repeat(begin - (ends - size), size)
    mixed = (table.attr[own].astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed ^ mixed >> np.uint64(31), dtype=np.uint64)])
    _, count = np.unique(total[ends] - total[ends - size], return_counts=True)
    return float(count[count >= TREE * share].sum() / max(1, len(chosen)))


def _outcomes(sample: SegmentArrays, events: EventArrays) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """By event and constraint: whether it is satisfied, by its outer ends; whether it can be (the value is there)."""
    attributes, column = np.unique(sample.attr, return_inverse=True)
    count = len(events.start) - 1
    known = np.isin(events.attr, attributes)
    place = np.repeat(np.arange(count), np.diff(events.start))[known], np.searchsorted(attributes, events.attr[known])
    lo, hi = np.zeros((2, count, len(attributes)), np.int64)
    has = np.zeros((count, len(attributes)), bool)
    lo[place], hi[place], has[place] = events.lo[known], events.hi[known], True
    null = sample.accepts_null.astype(bool)
    least, most, some = outer_ends(sample)
    there = has[:, column]
    satisfied = np.where(there, some & (hi[:, column] >= least) & (lo[:, column] <= most), null)
    return satisfied, there | null


def outer_ends(sample: SegmentArrays) -> tuple[I64, I64, NDArray[np.bool_]]:
    """The least and the greatest key that each constraint takes, and whether it takes any."""
    start = sample.interval_start
    some = start[1:] > start[:-1]
    least, most = np.ones(len(sample.attr), np.int64), np.zeros(len(sample.attr), np.int64)
    least[some], most[some] = sample.lo[start[:-1][some]], sample.hi[start[1:][some] - 1]
    return least, most, some


def events_like(table: SegmentArrays, count: int) -> EventArrays:
    """Events that fit subscriptions: each has values that one clause asks for, and more that others ask for.

    The others are those that agree with the values so far on the most attributes, because subscriptions come in
    clusters where events do. How many attributes real events have is not known: all of them where there are few, or
    else twice as many as a clause has.
    """
    random = np.random.default_rng(len(table.sequence))
    sample = sampled(table, SAMPLE, CONSTRAINTS)
    clauses, attributes = len(sample.constraint_start) - 1, np.unique(sample.attr)
    wanted = len(attributes) if len(attributes) <= DENSE else min(MOST, round(2 * len(sample.attr) / clauses))
    starts, entries = [0], []
    if clauses and len(attributes):
        fitting = _Fitting(sample)
        for _ in range(count):
            entries += fitting.event(wanted, random)
            starts.append(len(entries))
    else:
        starts += [0] * (count if clauses else 0)
    attr, key = (np.array([entry[i] for entry in entries], np.int64) for i in (0, 1))
    columns = (np.array(starts, np.int64), attr.astype(np.int32), key, key, np.empty(0))
    return EventArrays._make(frozen(column) for column in columns)


class _Fitting:
    """Draws events that fit the clauses of a sample."""

    def __init__(self, sample: SegmentArrays) -> None:
        self._sample = sample
        self._clauses = len(sample.constraint_start) - 1
        self._asking = np.flatnonzero(np.diff(sample.constraint_start))
        """The clauses that have constraints."""
        self._least, self._most, _ = outer_ends(sample)

    def event(self, wanted: int, random: np.random.Generator) -> list[tuple[int, int]]:
        """The entries of an event: attribute and key, ascending."""
        sample = self._sample
        has = np.zeros(int(sample.attr.max()) + 1, bool)
        value = np.zeros(len(has), np.int64)
        chosen = int(random.integers(self._clauses))
        for _ in range(ROUNDS):
            first, last = sample.constraint_start[chosen : chosen + 2].tolist()
            for constraint in range(first, min(last, first + MOST)):
                attribute = sample.attr[constraint]
                begin, end = sample.interval_start[constraint : constraint + 2].tolist()
                if begin < end and not has[attribute]:
                    one = random.integers(begin, end)
                    has[attribute] = True
                    value[attribute] = random.integers(sample.lo[one], sample.hi[one], endpoint=True)
            if np.count_nonzero(has) >= wanted:
                break
            chosen = self._following(has, value, random)
        found = np.flatnonzero(has)
        return list(zip(found.tolist(), value[found].tolist(), strict=True))

    def _following(self, has: NDArray[np.bool_], value: I64, random: np.random.Generator) -> int:
        """A clause that asks for more attributes, and agrees on as many as possible; any, where none does."""
        sample = self._sample
        there, given = has[sample.attr], value[sample.attr]
        agrees = there & (given >= self._least) & (given <= self._most)
        begin = sample.constraint_start[self._asking]
        agreed, disagreed, more = (
            np.add.reduceat(one, begin, dtype=np.int32) for one in (agrees, there & ~agrees, ~there)
        )
        liking = np.where((disagreed == 0) & (more > 0), agreed + random.random(len(begin)), -1.0)
        best = int(liking.argmax())
        return int(self._asking[best]) if liking[best] >= 0 else int(random.integers(self._clauses))
