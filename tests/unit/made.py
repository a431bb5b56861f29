"""Random small tables and events as plain Python objects, their arrays, and an obviously correct evaluation."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat.arrays import frozen
from earmark.segment.arrays import SegmentArrays

LEAST, GREATEST = -(2**63), 2**63 - 1


@dataclass
class Constraint:
    intervals: list[tuple[int, int]]
    accepts_null: bool = False
    weight: float = 1.0

    def holds(self, value: Value | None) -> bool:
        if value is None:
            return self.accepts_null
        return any(lo <= value.hi and value.lo <= hi for lo, hi in self.intervals)


@dataclass
class Value:
    lo: int
    hi: int
    weight: float = 1.0


Clause = dict[int, Constraint]
Event = dict[int, Value]


@dataclass
class Subscription:
    clauses: list[Clause]
    score: float = 0.0
    sequence: int = 0


@dataclass
class Made:
    """Subscriptions and events, with or without the optional columns."""

    subscriptions: list[Subscription]
    events: list[Event]
    weighted: bool = False
    scored: bool = False
    event_weighted: bool = False
    eligible: list[bool] = field(default_factory=list)
    known: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Rankings that were asked for before."""


def held(clause: Clause, event: Event) -> list[int]:
    return [attr for attr, constraint in sorted(clause.items()) if constraint.holds(event.get(attr))]


def score(subscription: Subscription, event: Event, relaxed: bool) -> float | None:
    """The best score over the clauses that qualify, None when none does."""
    scores = []
    for clause in subscription.clauses:
        good = held(clause, event)
        if len(good) == len(clause) or (relaxed and good):
            total = subscription.score
            for attr in good:
                if attr in event:
                    total += clause[attr].weight * event[attr].weight
            scores.append(total)
    return max(scores, default=None)


def ranking(made: Made, event: Event, relaxed: bool) -> list[tuple[float, int, int]]:
    """(-score, sequence, slot) of all that qualify, eligible or not, best first; worked out once for each event."""
    key = id(event), relaxed, len(made.subscriptions)
    if key not in made.known or made.known[key][1] is not event:  # those of a copy have other ids
        scores = [(score(one, event, relaxed), one.sequence, slot) for slot, one in enumerate(made.subscriptions)]
        ranks = sorted((-value, sequence, slot) for value, sequence, slot in scores if value is not None)
        made.known[key] = ranks, event  # which keeps its id its own
    return made.known[key][0]  # type: ignore[no-any-return]


def matching(made: Made, event: Event) -> list[int]:
    return sorted(slot for _, _, slot in ranking(made, event, False) if made.eligible[slot])


def best(made: Made, event: Event, k: int, relaxed: bool) -> list[tuple[int, float]]:
    found = [(slot, -negative) for negative, _, slot in ranking(made, event, relaxed) if made.eligible[slot]]
    return found[:k]


def table_arrays(made: Made) -> SegmentArrays:
    clause_start, constraint_start, interval_start = [0], [0], [0]
    attrs, nulls, weights, los, his = [], [], [], [], []
    for subscription in made.subscriptions:
        for clause in subscription.clauses:
            for attr, constraint in sorted(clause.items()):
                los += [lo for lo, _ in constraint.intervals]
                his += [hi for _, hi in constraint.intervals]
                interval_start.append(len(los))
                attrs.append(attr)
                nulls.append(constraint.accepts_null)
                weights.append(constraint.weight)
            constraint_start.append(len(attrs))
        clause_start.append(len(constraint_start) - 1)
    columns = (
        np.array(clause_start, np.int32),
        np.array(constraint_start, np.int32),
        np.array(attrs, np.int32),
        np.array(nulls, np.uint8),
        np.array(interval_start, np.int32),
        np.array(los, np.int64),
        np.array(his, np.int64),
        np.array(weights if made.weighted else [], np.float64),
        np.array([s.score for s in made.subscriptions] if made.scored else [], np.float64),
        np.array([s.sequence for s in made.subscriptions], np.int64),
    )
    return SegmentArrays(*map(frozen, columns))


def event_arrays(made: Made, events: list[Event]) -> EventArrays:
    values = [(attr, value) for event in events for attr, value in sorted(event.items())]
    columns = (
        np.cumsum([0] + [len(event) for event in events]),
        np.array([attr for attr, _ in values], np.int32),
        np.array([value.lo for _, value in values], np.int64),
        np.array([value.hi for _, value in values], np.int64),
        np.array([value.weight for _, value in values] if made.event_weighted else [], np.float64),
    )
    return EventArrays._make(frozen(column) for column in columns)


class Maker:
    """Draws tables and events that collide often: few attributes, a small domain, extremes mixed in."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.attributes = self.random.choice((2, 5, 12))
        self.domain = self.random.choice((4, 20, 300))
        self.extended = self.random.random() < 0.5
        self.weights = (0.0, 0.1, 0.3, 1.0, 2.5, 1e9)

    def key(self) -> int:
        if self.random.random() < 0.08:
            return self.random.choice((LEAST, LEAST + 1, GREATEST - 1, GREATEST))
        return self.random.randrange(self.domain) - self.domain // 2

    def interval(self, longest: int) -> tuple[int, int]:
        lo = self.key()
        return lo, max(lo, min(GREATEST, lo + self.random.randrange(longest)), self.key() if longest > 1 else lo)

    def constraint(self) -> Constraint:
        kind = self.random.random()
        weight = self.random.choice(self.weights)
        if kind < 0.06:
            return Constraint([], self.random.random() < 0.3, weight)
        if kind < 0.2:  # a list of points, long enough to be searched
            points = {self.key() for _ in range(self.random.choice((2, 6, 40)))}
            return Constraint([(point, point) for point in sorted(points)], self.random.random() < 0.3, weight)
        if kind < 0.3:  # all but one point
            hole = self.random.randrange(self.domain)
            return Constraint([(LEAST, hole - 1), (hole + 1, GREATEST)], self.random.random() < 0.3, weight)
        return Constraint([self.interval(self.domain)], self.random.random() < 0.15, weight)

    def clause(self) -> Clause:
        size = self.random.choice((0, 1, 1, 2, 2, 3, self.attributes))
        chosen = self.random.sample(range(self.attributes + 2), min(size, self.attributes))
        return {attr: self.constraint() for attr in chosen}

    def subscription(self) -> Subscription:
        clauses = [self.clause() for _ in range(self.random.choice((0, 1, 1, 1, 1, 2, 3)))]
        return Subscription(clauses, self.random.choice((-1e9, -0.5, 0.0, 0.1, 3.0)))

    def event(self) -> Event:
        present = self.random.choice((0.3, 0.8, 1.0))
        event = {}
        for attr in range(self.attributes + 1):
            if self.random.random() < present:
                lo, hi = self.interval(3 if self.extended else 1)
                event[attr] = Value(lo, hi if self.extended else lo, self.random.choice(self.weights))
        return event

    def made(self, subscriptions: int, events: int) -> Made:
        coin = lambda: self.random.random() < 0.5
        made = Made([], [self.event() for _ in range(events)], coin(), coin(), coin())
        made.subscriptions = [self.subscription() for _ in range(subscriptions)]
        order = self.random.sample(range(10 * subscriptions), subscriptions)
        for subscription, sequence in zip(made.subscriptions, order, strict=True):
            subscription.sequence = sequence
            subscription.score = subscription.score if made.scored else 0.0
            for clause in subscription.clauses:
                for constraint in clause.values():
                    constraint.weight = constraint.weight if made.weighted else 1.0
        for event in made.events:
            for value in event.values():
                value.weight = value.weight if made.event_weighted else 1.0
        made.eligible = [self.random.random() < 0.9 for _ in made.subscriptions]
        return made
