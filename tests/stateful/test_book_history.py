"""Random lifetimes of a book: what it was after each change is what `as_of` gives, however it was keyed meanwhile.

Strings come in an order that exhausts the gaps between their keys, numbers beyond 2^53 switch an attribute to another
encoding, types are freed, declared and learned again, segments are compacted, checkpoints made, the book closed and
opened, subscriptions erased. Limits are small, so that changes of a few rows are written as tables and found by pages.
In the end another book is made by the first changes alone, and must be what this one was after them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
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
LIVES = st.sampled_from(
    [{}, {"starts": "2026-02-01"}, {"ends": "2026-05-01"}, {"starts": "2026-02-01", "ends": "2026-05-01"}]
)
MOMENTS = ("2026-01-15", "2026-03-15", "2026-06-15")
TYPES = st.sampled_from([("n", "number"), ("n", "float"), ("s", "string"), ("t", "timestamp"), ("t", "string")])
EVENTS: list[dict[str, Any]] = [
    {"n": 1, "s": "ab"},
    {"n": 9007199254740992, "s": "a"},
    {"n": 2.5, "s": "zzz", "b": True},
    {"s": "é"},
    {},
]


Work = Callable[[earmark.Book], Any]


def picture(m: Matcher) -> Any:
    """All that a user can see of a book: subscriptions in order, types, answers."""
    types = {name: about.type for name, about in m.attributes.items() if about.type is not None}
    events = [*EVENTS, {"t": datetime(2024, 6, 1)} if types.get("t") == "timestamp" else {"t": "x"}]
    answers = []
    for number, event in enumerate(events):
        try:
            at = MOMENTS[number % len(MOMENTS)]
            answers.append([m.match(event, at=at), m.top_k(event, k=3, at=at)])
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
        self.did: list[tuple[int, Work]] = []
        self.is_erased = False
        self.count = 0

    def attempt(self, work: Work) -> None:
        """A change that may be refused, and then has not happened."""
        before = self.m.last_change
        try:
            work(self.m)
        except EarmarkError:
            assert self.m.last_change == before
        else:
            self.did.append((self.m.last_change, work))
        self.note()

    def note(self) -> None:
        now = picture(self.m)
        assert self.was.setdefault(self.m.last_change, now) == now

    @rule(id=IDS, condition=CONDITIONS, score=st.integers(0, 3), life=LIVES)
    def add(self, id: str, condition: str, score: int, life: dict[str, str]) -> None:
        self.attempt(lambda m: m.add(id, condition, score=score, tags={"t": str(score)}, **life))

    @rule(id=IDS, condition=CONDITIONS, weight=st.sampled_from([0.5, -1.0, 3.0]), life=LIVES)
    def upsert(self, id: str, condition: str, weight: float, life: dict[str, str]) -> None:
        self.attempt(lambda m: m.upsert(id, condition, weights={"n": weight}, **life))

    @rule(id=IDS, condition=CONDITIONS, keep=st.booleans(), score=st.integers(0, 3), life=LIVES)
    def update(self, id: str, condition: str, keep: bool, score: int, life: dict[str, str]) -> None:
        given: dict[str, Any] = life if keep else {"condition": condition}
        self.attempt(lambda m: m.update(id, score=score, **given))

    @rule(id=IDS)
    def remove(self, id: str) -> None:
        self.attempt(lambda m: m.remove(id))

    @rule(given=TYPES)
    def declare(self, given: tuple[str, str]) -> None:
        self.attempt(lambda m: m.declare(dict([given])))

    @rule(given=TYPES)
    def retype(self, given: tuple[str, str]) -> None:
        self.attempt(lambda m: m.retype(*given))

    @rule(conditions=st.lists(CONDITIONS, min_size=1, max_size=7))
    def add_many(self, conditions: list[str]) -> None:
        self.count += 1
        rows = [(f"m{self.count}-{i}", one) for i, one in enumerate(conditions)]
        self.attempt(lambda m: m.add_many(rows))

    @rule(ids=st.lists(IDS, min_size=1, max_size=5, unique=True), condition=CONDITIONS, life=LIVES)
    def upsert_many(self, ids: list[str], condition: str, life: dict[str, str]) -> None:
        rows = [{"id": id, "condition": condition, **life} for id in ids]

        def work(m: earmark.Book) -> None:
            with m.change() as change:
                change.upsert_many(rows)

        self.attempt(work)

    @rule(share=st.integers(1, 3))
    def remove_many(self, share: int) -> None:
        self.attempt(lambda m: m.remove_many(m.ids()[::share]))

    @rule(ids=st.lists(IDS, min_size=1, max_size=4), condition=CONDITIONS)
    def transaction(self, ids: list[str], condition: str) -> None:
        def work(m: earmark.Book) -> None:
            with m.change(author="a", message="b") as change:
                for number, id in enumerate(ids):
                    if id in change and number % 2:
                        change.remove(id)
                    else:
                        change.upsert(id, condition, score=number)

        self.attempt(work)

    @rule(back=st.integers(0, 4))
    def undo(self, back: int) -> None:
        self.attempt(lambda m: m.undo(m.last_change - back))

    @rule()
    def relabel(self) -> None:
        """Strings between two others, one after the other, until there is no key left between them."""
        self.count += 1
        if self.m.attributes.get("s", (None,))[0] not in (None, "string"):
            return
        name = f"r{self.count}"

        def work(m: earmark.Book) -> None:
            with m.change() as change:
                for i in range(70):
                    change.add(f"{name}-{i}", f"s = 'm{('ab' * 40)[: i // 2]}{'az'[i % 2]}'")

        self.attempt(work)
        self.attempt(lambda m: m.remove_many([f"{name}-{i}" for i in range(70)]))

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

    @precondition(lambda self: len(self.was) > 4)
    @rule(id=IDS)
    def erase(self, id: str) -> None:
        """What it was is forgotten; of others nothing is, but what answers and types it had a part in may differ."""
        before = self.m.last_change
        self.attempt(lambda m: m.erase(id))
        if self.m.last_change == before:
            return
        self.is_erased = True
        for number in self.was:
            then = self.m.as_of(number)
            assert [then[one] for one in then.ids()] == [one for one in self.was[number][0] if one.id != id]
            self.was[number] = picture(then)

    @precondition(lambda self: len(self.was) > 1)
    @rule(share=st.floats(0, 1), by_time=st.booleans())
    def look_back(self, share: float, by_time: bool) -> None:
        number = sorted(self.was)[int(share * (len(self.was) - 1))]
        if not by_time:
            assert picture(self.m.as_of(number)) == self.was[number]
            return
        times = {change.number: change.time for change in self.m.changes()}
        if number in times:
            last = max(one for one in times if times[one] <= times[number])
            assert picture(self.m.as_of(times[number])) == self.was[last]

    @invariant()
    def in_order(self) -> None:
        if hasattr(self, "m"):
            assert self.m.last_change == max(self.was)

    def rebuild(self, number: int) -> None:
        """Another book, by the first changes of this one alone."""
        with earmark.open(self.folder / f"again-{number}", index="scan", durability="normal") as other:
            for reached, work in self.did:
                if reached <= number:
                    work(other)
            assert picture(other) == self.was[number]

    def teardown(self) -> None:
        if not hasattr(self, "m"):
            return
        try:
            for number in sorted(self.was)[:: max(1, len(self.was) // 6)]:
                assert picture(self.m.as_of(number)) == self.was[number]
            for id in [*self.m.ids()[:3], "id1"]:
                self.m.history(id)
            self.rebuild(self.m.last_change)
            if not self.is_erased:
                self.rebuild(sorted(self.was)[len(self.was) // 2])
            self.m.close()
            assert care.check(self.folder / "b") == []
        finally:
            self.patch.undo()
            shutil.rmtree(self.folder, ignore_errors=True)


TestLifetimes = Lifetimes.TestCase
is_soaking = settings.default.max_examples > 100
TestLifetimes.settings = settings(max_examples=300 if is_soaking else 8, stateful_step_count=60 if is_soaking else 25)


def test_a_lifetime_in_which_keys_are_relabelled_and_encodings_switched() -> None:
    """Whatever examples are drawn, this one has both, with changes of all kinds around them."""
    lifetime = Lifetimes()
    lifetime.begin()
    try:
        lifetime.declare(("t", "timestamp"))
        lifetime.add("id1", "n > 3 AND s = 'ab'", 2, {"ends": "2026-05-01"})
        lifetime.upsert("id2", "t > '2024-05-05' OR n IN (1, 2.5)", 3.0, {"starts": "2026-02-01"})
        generation = lifetime.m._version.schema.generation
        lifetime.relabel()
        relabelled = lifetime.m._version.schema
        assert relabelled.generation > generation and not relabelled.by_name["n"].known_type.keyed
        lifetime.add("id3", "n BETWEEN 0 AND 9007199254740993", 1, {})
        switched = lifetime.m._version.schema
        assert switched.generation > relabelled.generation and switched.by_name["n"].known_type.keyed
        lifetime.retype(("t", "string"))
        lifetime.upsert_many(["id1", "id4", "id5"], "NOT (s IN ('a', 'm'))", {})
        lifetime.checkpoint()
        lifetime.reopen()
        lifetime.undo(0)
        lifetime.remove("id2")
        for share in (0.0, 0.3, 0.5, 0.7, 1.0):
            lifetime.look_back(share, True)
            lifetime.look_back(share, False)
        lifetime.erase("id3")
        lifetime.look_back(0.5, False)
    finally:
        lifetime.teardown()
