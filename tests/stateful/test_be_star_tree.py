"""Whole lifetimes of a BE*-Tree and a BE-Tree, with scan as the model: every structure rule checked after every step.

Leaves hold two to eight clauses here, so that splits, partitioning, merging and recycling happen all the time.
"""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from numba import config
from tests.unit.made import Maker, event_arrays, table_arrays

from earmark.flat import bits
from earmark.index.be_star_tree import SPLITS, BEStarTree
from earmark.index.be_star_tree.arrays import CLAUSES, LIVE_BUCKETS, LIVE_PNODES
from earmark.index.be_star_tree.be_tree import BETree
from earmark.index.scan import Scan

PLAIN = bool(config.DISABLE_JIT)
seeds = st.integers(0, 2**32)


class Lifetime(RuleBasedStateMachine):
    """Slots come and go; the table only grows, as the Matcher's does."""

    kind: type[BEStarTree] = BEStarTree

    @initialize(seed=seeds, capacity=st.sampled_from((1, 2, 3, 8)), split=st.sampled_from(SPLITS))
    def start(self, seed: int, capacity: int, split: str) -> None:
        self.maker = Maker(seed)
        self.made = self.maker.made(self.maker.random.choice((0, 3, 40)), 0)
        self.made.weighted = self.made.scored = self.made.event_weighted = True
        self.alive = [True] * len(self.made.subscriptions)
        ranking = self.maker.random.choice(("popularity", "histogram"))
        boxes = {
            "split": split,
            "extension": self.maker.random.choice((0.0, 0.0, 2.0)),
            "beta": self.maker.random.choice((1.0, 4.0)),
            "alpha": self.maker.random.choice((0.0, 0.1, 0.4)),
        }
        options = {"capacity": capacity, "ranking": ranking} | ({} if self.kind.rigid else boxes)
        self.tree = self.kind.build(table_arrays(self.made), **options)

    def slots(self, rng: Random, share: float) -> np.ndarray:
        live = [slot for slot, alive in enumerate(self.alive) if alive]
        return np.array(rng.sample(live, int(len(live) * share)), np.int32)

    def grow(self, count: int) -> np.ndarray:
        first = len(self.made.subscriptions)
        for _ in range(count):
            subscription = self.maker.subscription()
            subscription.sequence = 10_000 + len(self.made.subscriptions)  # above all that `made` drew
            self.made.subscriptions.append(subscription)
            self.alive.append(True)
        return np.arange(first, first + count, dtype=np.int32)

    @rule(count=st.integers(1, 12))
    def insert(self, count: int) -> None:
        slots = self.grow(count)
        self.tree.insert(table_arrays(self.made), slots)

    @rule(seed=seeds)
    def insert_alike(self, seed: int) -> None:
        """Clauses on one attribute, sorted, nested or equal: what degenerates trees."""
        rng = Random(seed)
        style = rng.choice(("ascending", "descending", "nested", "equal"))
        slots = self.grow(20)
        for i, slot in enumerate(slots):
            subscription = self.made.subscriptions[slot]
            for clause in subscription.clauses:
                for constraint in clause.values():
                    ends = {"ascending": (i, i), "descending": (-i, -i), "nested": (-i, i), "equal": (3, 5)}[style]
                    constraint.intervals = [ends]
        self.tree.insert(table_arrays(self.made), slots)

    @rule(seed=seeds, share=st.sampled_from((0.1, 0.5, 1.0)))
    def remove(self, seed: int, share: float) -> None:
        slots = self.slots(Random(seed), share)
        self.tree.remove(slots)
        for slot in slots:
            self.alive[slot] = False

    @rule(seed=seeds)
    def update(self, seed: int) -> None:
        """As the Matcher updates: another slot takes over."""
        self.remove(seed, 0.1)
        self.insert(3)

    @rule(seed=seeds, window=st.sampled_from((1, 5, 1000)))
    def adapt(self, seed: int, window: int) -> None:
        adapted = self.tree.copy()
        adapted.adapt(event_arrays(self.made, [self.maker.event() for _ in range(24)]), window)
        self.tree = adapted

    @rule()
    def copy_and_restore(self) -> None:
        stored = {name: array.copy() for name, array in self.tree.copy().arrays._asdict().items()}
        for array in stored.values():
            array.flags.writeable = False
        self.tree = self.kind.restore(table_arrays(self.made), stored)

    @invariant()
    def answers_as_scan_does(self) -> None:
        if not hasattr(self, "tree"):
            return
        self.tree.check()
        table = table_arrays(self.made)
        scan = Scan.build(table)
        count = len(self.made.subscriptions)
        known = self.tree._table
        assert len(known.clause_start) == len(table.clause_start)
        eligible = bits.from_slots(np.flatnonzero(self.alive), count)
        events = event_arrays(self.made, [self.maker.event() for _ in range(2 if PLAIN else 6)])
        found = self.tree.match_many(events, eligible)
        for got, wanted in zip(found, scan.match_many(events, eligible), strict=True):
            assert got.tolist() == wanted.tolist()
        for k, relaxed in ((1, False), (4, False), (4, True), (1000, True)):
            got_all = self.tree.top_k_many(events, k, eligible, relaxed)
            for got, wanted in zip(got_all, scan.top_k_many(events, k, eligible, relaxed), strict=True):
                assert got.tolist() == wanted.tolist()

    @precondition(lambda self: hasattr(self, "tree"))
    @rule()
    def remove_everything(self) -> None:
        self.tree.remove(np.arange(len(self.alive), dtype=np.int32))
        self.alive = [False] * len(self.alive)
        head = self.tree.arrays.head
        assert (head[CLAUSES], head[LIVE_BUCKETS], head[LIVE_PNODES]) == (0, 2, 0)


class RigidLifetime(Lifetime):
    """The same for cells of halved domains."""

    kind = BETree


few = settings(max_examples=2 if PLAIN else max(1, settings.default.max_examples // 10), stateful_step_count=20)
TestBEStarTree = Lifetime.TestCase
TestBEStarTree.settings = few
TestBETree = RigidLifetime.TestCase
TestBETree.settings = few
