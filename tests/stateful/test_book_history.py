"""Random lifetimes of a book: what it was after each change is what `as_of` gives, however it was keyed meanwhile.

Strings come in an order that exhausts the gaps between their keys, numbers beyond 2^53 switch an attribute to another
encoding, types are freed and learned anew, segments are compacted, checkpoints made, the book closed and opened. Limits
are small, so that changes of a few rows are written as tables and found by pages.
"""

from __future__ import annotations

import shutil
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import earmark
from earmark import EarmarkError, Matcher
from earmark.book import care, rows, touched

IDS = st.sampled_from([f"id{i}" for i in range(8)])
WORDS = st.sampled_from(["", "a", "aa", "ab", "b", "ba", "zz", "é", "a\u0300"])
CONDITIONS = st.one_of(
    st.builds("n > {}".format, st.integers(-5, 5)),
    st.builds("n BETWEEN {} AND 9007199254740993".format, st.sampled_from([0, 2**53, 9007199254740993])),
    st.builds("n IN ({}, 2.5)".format, st.integers(-3, 3)),
    st.builds("s = '{}'".format, WORDS),
    st.builds("s > '{0}' AND s LIKE '{0}%'".format, WORDS),
    st.builds("NOT (s IN ('{}', 'm')) OR n < {}".format, WORDS, st.integers(-3, 3)),
    st.sampled_from(["t > TIMESTAMP '2024-03-01 00:00:00'", "t > '2024-05-05'", "t = 'x'", "b", "TRUE", "n IS NULL"]),
)
EVENTS: list[dict[str, Any]] = [
    {"n": 1, "s": "ab"},
    {"n": 9007199254740992, "s": "a"},
    {"n": 2.5, "s": "zzz", "b": True},
    {"s": "é"},
    {},
]


def picture(m: Matcher) -> Any:
    """All that a user can see of a book: subscriptions in order, types, answers."""
    types = {name: about.type for name, about in m.attributes.items() if about.type is not None}
    events = [*EVENTS, {"t": datetime(2024, 6, 1)} if types.get("t") == "timestamp" else {"t": "x"}]
    answers = []
    for event in events:
        try:
            answers.append([m.match(event), m.top_k(event, k=3)])
        except EarmarkError as problem:
            answers.append([type(problem).__name__])
    return [m[id] for id in m.ids()], types, answers


class Lifetimes(RuleBasedStateMachine):
    """A book, and what it was after each of its changes."""

    @initialize()
    def begin(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(rows, "FEW", 2)
        self.patch.setattr(rows, "TABLE_ROWS", 3)
        self.patch.setattr(touched, "FEW_TOUCHED", 4)
        self.folder = Path(tempfile.mkdtemp())
        self.m = earmark.open(self.folder / "b", index="scan", durability="normal")
        self.was = {0: picture(self.m)}
        self.count = 0

    def attempt(self, work: Any) -> None:
        """A change that may be refused, and then has not happened."""
        before = self.m.last_change
        try:
            work()
        except EarmarkError:
            assert self.m.last_change == before
        self.note()

    def note(self) -> None:
        now = picture(self.m)
        assert self.was.setdefault(self.m.last_change, now) == now

    @rule(id=IDS, condition=CONDITIONS, score=st.integers(0, 3))
    def add(self, id: str, condition: str, score: int) -> None:
        self.attempt(lambda: self.m.add(id, condition, score=score, tags={"t": str(score)}))

    @rule(id=IDS, condition=CONDITIONS)
    def upsert(self, id: str, condition: str) -> None:
        self.attempt(lambda: self.m.upsert(id, condition))

    @rule(id=IDS, condition=CONDITIONS, keep=st.booleans(), score=st.integers(0, 3))
    def update(self, id: str, condition: str, keep: bool, score: int) -> None:
        given: dict[str, Any] = {} if keep else {"condition": condition}
        self.attempt(lambda: self.m.update(id, score=score, **given))

    @rule(id=IDS)
    def remove(self, id: str) -> None:
        self.attempt(lambda: self.m.remove(id))

    @rule(conditions=st.lists(CONDITIONS, min_size=1, max_size=7))
    def add_many(self, conditions: list[str]) -> None:
        self.count += 1
        self.attempt(lambda: self.m.add_many([(f"m{self.count}-{i}", one) for i, one in enumerate(conditions)]))

    @rule(share=st.integers(1, 3))
    def remove_many(self, share: int) -> None:
        self.attempt(lambda: self.m.remove_many(self.m.ids()[::share]))

    @rule(ids=st.lists(IDS, min_size=1, max_size=4), condition=CONDITIONS)
    def transaction(self, ids: list[str], condition: str) -> None:
        def work() -> None:
            with self.m.change(author="a", message="b") as change:
                for number, id in enumerate(ids):
                    if id in change and number % 2:
                        change.remove(id)
                    else:
                        change.upsert(id, condition, score=number)

        self.attempt(work)

    @rule(back=st.integers(0, 4))
    def undo(self, back: int) -> None:
        self.attempt(lambda: self.m.undo(self.m.last_change - back))

    @rule()
    def relabel(self) -> None:
        """Strings between two others, one after the other, until there is no key left between them."""
        self.count += 1
        if self.m.attributes.get("s", (None,))[0] not in (None, "string"):
            return
        with self.m.change() as change:
            for i in range(70):
                change.add(f"r{self.count}-{i}", f"s = 'm{('ab' * 40)[: i // 2]}{'az'[i % 2]}'")
        self.note()
        self.m.remove_many([f"r{self.count}-{i}" for i in range(70)])
        self.note()

    @rule()
    def compact(self) -> None:
        self.m.compact()
        self.note()

    @rule()
    def checkpoint(self) -> None:
        self.m.checkpoint()

    @rule()
    def reopen(self) -> None:
        self.m.close()
        self.m = earmark.open(self.folder / "b", durability="normal")
        self.note()

    @precondition(lambda self: len(self.was) > 4)
    @rule(share=st.floats(0, 1))
    def retain(self, share: float) -> None:
        before = int(self.m.last_change * share * 0.5)
        self.m.retain(before=before)
        first = min(change.number for change in self.m.changes())
        self.was = {n: was for n, was in self.was.items() if n >= first or first == 1}
        self.note()

    @precondition(lambda self: len(self.was) > 1)
    @rule(share=st.floats(0, 1))
    def look_back(self, share: float) -> None:
        number = sorted(self.was)[int(share * (len(self.was) - 1))]
        assert picture(self.m.as_of(number)) == self.was[number]

    @invariant()
    def in_order(self) -> None:
        if hasattr(self, "m"):
            assert self.m.last_change == max(self.was)

    def teardown(self) -> None:
        if not hasattr(self, "m"):
            return
        try:
            for number in sorted(self.was)[:: max(1, len(self.was) // 6)]:
                assert picture(self.m.as_of(number)) == self.was[number]
            for id in [*self.m.ids()[:3], "id1"]:
                self.m.history(id)
            self.m.close()
            assert care.check(self.folder / "b") == []
        finally:
            self.patch.undo()
            shutil.rmtree(self.folder, ignore_errors=True)


TestLifetimes = Lifetimes.TestCase
is_soaking = settings.default.max_examples > 100
TestLifetimes.settings = settings(max_examples=300 if is_soaking else 8, stateful_step_count=60 if is_soaking else 25)
