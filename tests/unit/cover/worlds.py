"""Small worlds in which covering can be decided by trying every event: the oracle for everything in `earmark.cover`.

Three attributes: `x` and `y` of ten or twenty values, `b` a boolean, each may be missing. A clause is the set of events
it takes, as bits of one integer; containment is then containment of sets, with no interval in sight.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from random import Random

import numpy as np

from earmark.cover.canonical import canonized
from earmark.flat.arrays import frozen
from earmark.keys.schema import Schema
from earmark.segment.arrays import SegmentArrays

TYPES = {"x": "decimal(1,0)", "y": "decimal(1,0)", "b": "boolean"}
VALUES: tuple[tuple[int | None, ...], ...] = ((None, *range(-9, 10)), (None, *range(-9, 10)), (None, 0, 1))
EVENTS = list(product(*VALUES))
FULL = (1 << len(EVENTS)) - 1

Constraint = tuple[tuple[tuple[int, int], ...], bool]
Clause = dict[int, Constraint]


def taken(constraint: Constraint, value: int | None) -> bool:
    intervals, null = constraint
    return null if value is None else any(lo <= value <= hi for lo, hi in intervals)


_by_attribute = [[sum(1 << i for i, e in enumerate(EVENTS) if e[a] == v) for v in VALUES[a]] for a in range(3)]


def events_of(clause: Clause) -> int:
    """The events that a clause takes."""
    bits = FULL
    for attr, constraint in clause.items():
        good = 0
        for value, mask in zip(VALUES[attr], _by_attribute[attr], strict=True):
            if taken(constraint, value):
                good |= mask
        bits &= good
    return bits


@dataclass
class World:
    """Subscriptions as clauses, by slot, with their sequence numbers."""

    random: Random
    clauses: list[list[Clause]] = field(default_factory=list)
    sequence: list[int] = field(default_factory=list)
    bits: list[list[int]] = field(default_factory=list)

    def add(self, clauses: list[Clause]) -> int:
        self.clauses.append(clauses)
        # ages are not the order of slots: an update keeps its age and gets a new slot
        age = self.random.randrange(10_000)
        while age in self.sequence:
            age = self.random.randrange(10_000)
        self.sequence.append(age)
        self.bits.append([bits for clause in clauses if (bits := events_of(clause))])
        return len(self.clauses) - 1

    def contains(self, a: int, b: int) -> bool:
        return all(any(part & whole == part for whole in self.bits[a]) for part in self.bits[b])

    def covers(self, a: int, b: int) -> bool:
        """The strict order, straight from its definition."""
        if a == b or not self.contains(a, b):
            return False
        return self.sequence[a] < self.sequence[b] or not self.contains(b, a)

    def covering(self, b: int, live: set[int]) -> set[int]:
        return {a for a in live if self.covers(a, b)}

    def arrays(self) -> SegmentArrays:
        """As asked: nothing is canonical."""
        return table_of(self.clauses, self.sequence)

    def table(self) -> SegmentArrays:
        return canonized(self.arrays(), schema()).table

    # --- drawing -------------------------------------------------------------------------------------------------

    def constraint(self, attr: int) -> Constraint:
        random = self.random
        null = random.random() < 0.25
        if attr == 2:
            low, high, values = 0, 1, [0, 1]
        else:
            low, high, values = -9, 9, list(range(-9, 10))
        kind = random.random()
        if kind < 0.1:
            return (), random.random() < 0.8
        if kind < 0.25:
            # IS NOT NULL, or everything; the domain may have been unknown when it was asked
            return (((low, high) if random.random() < 0.6 else (-(2**63), 2**63 - 1)),), null
        if kind < 0.4:
            points = sorted(random.sample(values, random.randint(1, min(4, len(values)))))
            return tuple((p, p) for p in points), null
        if kind < 0.55:
            hole = random.choice(values)
            parts = ((low, hole - 1), (hole + 1, high))
            return tuple((a, b) for a, b in parts if a <= b), null
        a, b = sorted((random.choice(values), random.choice(values)))
        return ((a, b),), null

    def clause(self) -> Clause:
        attrs = self.random.sample(range(3), self.random.choice((0, 1, 1, 2, 2, 3, 3)))
        return {attr: self.constraint(attr) for attr in sorted(attrs)}

    def subscription(self) -> list[Clause]:
        """Often equal to one before, or narrower, or wider."""
        random = self.random
        if self.clauses and random.random() < 0.3:
            copied = [dict(clause) for clause in random.choice(self.clauses)]
            if copied and random.random() < 0.6:
                clause = random.choice(copied)
                attr = random.randrange(3)
                if attr in clause and random.random() < 0.5:
                    del clause[attr]
                else:
                    clause[attr] = self.constraint(attr)
                copied[copied.index(clause)] = dict(sorted(clause.items()))
            return copied
        return [self.clause() for _ in range(random.choice((0, 1, 1, 1, 1, 1, 2, 3)))]


def schema() -> Schema:
    made = Schema()
    made.declare(TYPES)
    return made


def table_of(subscriptions: list[list[Clause]], sequence: list[int]) -> SegmentArrays:
    clause_start, constraint_start, interval_start = [0], [0], [0]
    attrs, nulls, los, his = [], [], [], []
    for clauses in subscriptions:
        for clause in clauses:
            for attr, (intervals, null) in sorted(clause.items()):
                los += [lo for lo, _ in intervals]
                his += [hi for _, hi in intervals]
                interval_start.append(len(los))
                attrs.append(attr)
                nulls.append(null)
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
        np.empty(0),
        np.empty(0),
        np.array(sequence, np.int64),
    )
    return SegmentArrays(*map(frozen, columns))


def world(seed: int, subscriptions: int) -> World:
    made = World(Random(seed))
    for _ in range(subscriptions):
        made.add(made.subscription())
    return made
