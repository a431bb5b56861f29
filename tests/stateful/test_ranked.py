"""Whole lifetimes of an IR-tree, with a plain Python loop as the model: inserts, removals, new scores, copies, storing.

Blocks and buckets are so small here that they are split and emptied all the time. Readers' copies are kept, and must
go on answering as when they were made.
"""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.made import Made, Maker, best, event_arrays, matching, table_arrays

from earmark.flat import bits
from earmark.index.ranked.ir_tree import IRTree

seeds = st.integers(0, 2**32)
OPTIONS = ({}, {"branching": 2, "leaf": 0}, {"branching": 3, "leaf": 2}, {"branching": 2, "leaf": 1, "intersect": True})


class Lifetime(RuleBasedStateMachine):
    """Anything an index may be asked, in any order."""

    @initialize(seed=seeds, options=st.sampled_from(OPTIONS))
    def build(self, seed: int, options: dict[str, int]) -> None:
        self.random, self.maker = Random(seed), Maker(seed)
        self.maker.attributes = self.random.choice((1, 2, 5))
        self.made = Made([], [], self.random.random() < 0.7, self.random.random() < 0.7, self.random.random() < 0.5)
        self.grow(self.random.choice((0, 3, 30)))
        self.index = IRTree.build(table_arrays(self.made), **options)
        self.readers: list[tuple[IRTree, Made]] = []

    def grow(self, count: int) -> None:
        fresh = self.maker.made(max(count, 1), 0).subscriptions[:count]
        for subscription in fresh:
            subscription.sequence = 3 * len(self.made.subscriptions) % 1009
            if not self.made.scored:
                subscription.score = 0.0
            for clause in subscription.clauses:
                for constraint in clause.values():
                    constraint.weight = constraint.weight if self.made.weighted else 1.0
            self.made.subscriptions.append(subscription)
            self.made.eligible.append(True)

    @rule(count=st.sampled_from((1, 1, 2, 9, 40)))
    def insert(self, count: int) -> None:
        known = len(self.made.subscriptions)
        self.grow(count)
        self.index = self.index.copy()
        self.index.insert(table_arrays(self.made), np.arange(known, known + count, dtype=np.int32))

    @rule(share=st.sampled_from((0.1, 0.5, 1.0)))
    def remove(self, share: float) -> None:
        alive = np.flatnonzero(self.made.eligible)
        chosen = np.array([slot for slot in alive.tolist() if self.random.random() < share], np.int32)
        self.index = self.index.copy()
        self.index.remove(chosen)
        for slot in chosen.tolist():
            self.made.eligible[slot] = False

    @rule(share=st.sampled_from((0.1, 0.5)))
    def rescore(self, share: float) -> None:
        if not self.made.scored:
            return
        self.made = deepcopy(self.made)
        chosen = [slot for slot in np.flatnonzero(self.made.eligible).tolist() if self.random.random() < share]
        for slot in chosen:
            self.made.subscriptions[slot].score = self.random.choice((-7.0, 0.0, 0.1, 55.0))
        self.index = self.index.copy()
        slots = np.array(chosen, np.int32)
        self.index.remove(slots)
        self.index.insert(table_arrays(self.made), slots)

    @rule()
    def keep_a_reader(self) -> None:
        made = deepcopy(self.made)
        self.readers = [*self.readers[-1:], (self.index, made)]
        self.index = self.index.copy()

    @rule()
    def store_and_restore(self) -> None:
        saved = {name: array.copy() for name, array in self.index.arrays._asdict().items()}
        self.index = IRTree.restore(table_arrays(self.made), saved)

    @invariant()
    def answers(self) -> None:
        if not hasattr(self, "index"):
            return
        self.index.check()
        for index, made in [(self.index, self.made), *self.readers]:
            self.agree(index, made)

    def agree(self, index: IRTree, made: Made) -> None:
        events = [self.maker.event() for _ in range(4)]
        if not made.event_weighted:
            for event in events:
                for value in event.values():
                    value.weight = 1.0
        arrays = event_arrays(made, events)
        eligible = bits.from_slots(np.flatnonzero(made.eligible), len(made.eligible))
        pointers, slots = index.match_many(arrays, eligible)
        assert [slots[a:b].tolist() for a, b in pairwise(pointers)] == [matching(made, event) for event in events]
        k, relaxed = self.random.choice((1, 3, 100)), self.random.random() < 0.5
        pointers, slots, scores = index.top_k_many(arrays, k, eligible, relaxed)
        found = [list(zip(slots[a:b].tolist(), scores[a:b].tolist(), strict=True)) for a, b in pairwise(pointers)]
        assert found == [best(made, event, k, relaxed) for event in events]


TestLifetime = pytest.mark.timeout(250)(Lifetime.TestCase)
TestLifetime.settings = settings(max_examples=max(1, settings.default.max_examples // 10), stateful_step_count=15)
