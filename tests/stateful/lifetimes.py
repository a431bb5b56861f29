"""Whole lifetimes of an index that follows its table, with the scan as the model: a machine for each such index.

Inserts, removals, copies, stored and restored. Readers' copies are kept, and must go on answering as when they were
made.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.made import Made, Maker, Subscription, event_arrays, table_arrays

from earmark.flat import bits
from earmark.flat.arrays import U64
from earmark.index.scan import Scan
from earmark.segment.arrays import SegmentArrays

seeds = st.integers(0, 2**32)
short = settings(
    max_examples=max(1, settings.default.max_examples // 4),  # type: ignore[union-attr]
    stateful_step_count=min(25, settings.default.stateful_step_count),  # type: ignore[union-attr]
)


class Lifetime(RuleBasedStateMachine):
    """Anything an index may be asked, in any order. A subclass says which index, and what its options may be."""

    kind: Any
    choices: Mapping[str, tuple[Any, ...]]

    @initialize(seed=seeds)
    def build(self, seed: int) -> None:
        self.random = Random(seed)
        self.maker = Maker(seed)
        self.maker.attributes = self.random.choice((2, 3, 5))
        self.made: list[Subscription] = []
        self.alive: list[bool] = []
        self.grow(self.random.choice((0, 3, 20)))
        options = {name: self.random.choice(values) for name, values in self.choices.items()}
        self.index = self.kind.build(self.table(), **options)
        self.readers: list[tuple[Any, SegmentArrays, U64]] = []

    def grow(self, count: int) -> None:
        for subscription in self.maker.made(count, 0).subscriptions if count else ():
            subscription.sequence = len(self.made)
            self.made.append(subscription)
            self.alive.append(True)

    def table(self) -> SegmentArrays:
        return table_arrays(Made(self.made, [], weighted=True, scored=True))

    def eligible(self) -> U64:
        return bits.from_slots(np.flatnonzero(self.alive), len(self.alive))

    @rule(count=st.sampled_from((1, 1, 2, 9, 40)), dead=st.booleans())
    def insert(self, count: int, dead: bool) -> None:
        known = len(self.made)
        self.grow(count)
        slots = np.arange(known, len(self.made), dtype=np.int32)
        if dead and count > 1:  # removed before the index heard of it
            self.alive[known] = False
            slots = slots[1:]
        self.index = self.index.copy()
        self.index.insert(self.table(), slots)

    @rule(share=st.sampled_from((0.0, 0.1, 0.8)))
    def remove(self, share: float) -> None:
        slots = [s for s, alive in enumerate(self.alive) if alive and self.random.random() < share]
        for slot in slots:
            self.alive[slot] = False
        self.index = self.index.copy()
        self.index.remove(np.array(slots, np.int32))

    @rule()
    def read(self) -> None:
        self.readers.append((self.index, self.table(), self.eligible()))

    @rule()
    def store(self) -> None:
        stored = {name: column.copy() for name, column in self.index.arrays._asdict().items()}
        self.index = self.kind.restore(self.table(), stored)

    @rule(seed=seeds, count=st.sampled_from((1, 5, 30)))
    def search(self, seed: int, count: int) -> None:
        self.maker.random = Random(seed)
        made = Made([], [self.maker.event() for _ in range(count)], event_weighted=True)
        events = event_arrays(made, made.events)
        for index, table, eligible in [(self.index, self.table(), self.eligible()), *self.readers[-2:]]:
            scan = Scan.build(table)
            for got, wanted in zip(index.match_many(events, eligible), scan.match_many(events, eligible), strict=True):
                assert got.tolist() == wanted.tolist()
            assert index.match(events, eligible, count - 1).tolist() == scan.match(events, eligible, count - 1).tolist()
            for k, relaxed in ((2, False), (3, True)):
                ranked = index.top_k_many(events, k, eligible, relaxed)
                for got, best in zip(ranked, scan.top_k_many(events, k, eligible, relaxed), strict=True):
                    assert got.tolist() == best.tolist()

    @invariant()
    def in_order(self) -> None:
        if hasattr(self, "index"):
            self.index.check()
