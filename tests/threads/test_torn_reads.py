"""Many readers while one writer works: nobody ever sees half an update.

The writer adds and removes subscriptions in pairs, and flips others between two events, each in one call. Meanwhile
constants are so small that string keys are relabelled and the table compacts all the time, bounds beyond 2^53 make
numbers wide, and types are learned and free again. Readers search in every way there is. A pair seen without its twin,
a flipped subscription seen on both sides or on none, or any exception is a failure.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

import pytest
from tests.contract.book import plan_small_books

import earmark
from earmark import Matcher, SubscriptionError
from earmark import index as indexes
from earmark import matcher as matcher_module
from earmark.engine import compaction
from earmark.keys import strings

FLIPPING = range(1, 21)  # odd and even alike; pairs have ids from 1000 on
FIRST_PAIR = 1000
LIVE_PAIRS = 40
TENANT = {"tenant": "acme"}


@pytest.fixture(autouse=True)
def everything_happens_often(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(strings, "_STRIDE", 8)
    monkeypatch.setattr(compaction, "SMALLEST_SHRINK", 16)
    monkeypatch.setattr(compaction, "SHORTEST_TAIL", 4)
    monkeypatch.setattr(compaction, "REBUILD_SHARE", 4.0)
    plan_small_books(monkeypatch)
    monkeypatch.setattr(compaction, "SHARE_AT_ONCE", 0.5)  # some by the writer, some in the background
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


class Race:
    """A Matcher, one writer and some readers, until time is up or someone finds something wrong."""

    def __init__(self, matcher: Matcher, seconds: float) -> None:
        self.matcher = matcher
        self.first_generation = matcher._version.schema.generation
        self.until = time.monotonic() + seconds
        self.problems: list[BaseException] = []
        self.round = 0
        self.reads = 0
        self.pairs: list[int] = []
        matcher.add_many([(one, "side = 1") for one in FLIPPING])

    def run(self, readers: Iterable[Callable[[Random], None]]) -> None:
        threads = [threading.Thread(target=self.loop, args=(read, i)) for i, read in enumerate(readers)]
        threads.append(threading.Thread(target=self.loop, args=(self.write, 99)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.problems:
            raise self.problems[0]

    def loop(self, step: Callable[[Random], None], seed: int) -> None:
        rng = Random(seed)
        try:
            while time.monotonic() < self.until and not self.problems:
                step(rng)
        except BaseException as problem:
            self.problems.append(problem)

    # --- the writer -----------------------------------------------------------------------------------------

    def write(self, rng: Random) -> None:
        style = rng.random()
        if style < 0.45 or not self.pairs:
            self.add_pair(rng)
        elif style < 0.6 or len(self.pairs) > LIVE_PAIRS:
            one = self.pairs.pop(rng.randrange(len(self.pairs)))
            self.matcher.remove_many([one + 1, one])
        elif style < 0.97:
            self.matcher.update(rng.choice(FLIPPING), f"side = {rng.choice((1, 2))} AND text < '{self.constant(rng)}z'")
        else:
            self.matcher.compact()

    def add_pair(self, rng: Random) -> None:
        """Two subscriptions with a constant of their own and, now and then, an attribute that is new."""
        one = FIRST_PAIR + 2 * self.round
        least = -(2**60) if self.round % 8 == 4 else 3
        condition = f"(text >= '{self.constant(rng)}' OR text = 'a') AND (w{self.round // 8} > {least} OR side > 0)"
        self.matcher.add_many([{"id": i, "condition": condition, "tags": TENANT} for i in (one, one + 1)])
        self.pairs.append(one)
        self.round += 1

    @staticmethod
    def constant(rng: Random) -> str:
        return "".join(rng.choice("abc") for _ in range(rng.randint(1, 8)))

    # --- the readers ----------------------------------------------------------------------------------------

    def event(self, side: int) -> dict[str, Any]:
        """All pairs match it; it has a value of the attribute that was new last, which may have no type yet."""
        return {"side": side, "text": "dddd" if side == 1 else "a", f"w{self.round // 8}": 3.5}

    def assert_whole(self, ids: Iterable[int]) -> set[int]:
        found = set(ids)
        self.reads += 1
        halves = [one for one in found if one >= FIRST_PAIR and one ^ 1 not in found]
        assert not halves, f"half of an update: {halves}"
        return found

    def match(self, rng: Random) -> None:
        ids = self.matcher.match(self.event(1))
        assert ids == sorted(ids), "out of order"
        self.assert_whole(ids)

    def match_scoped(self, rng: Random) -> None:
        assert min(self.assert_whole(self.matcher.match(self.event(1), scope=TENANT)), default=FIRST_PAIR) >= FIRST_PAIR

    def match_many(self, rng: Random) -> None:
        """Both events see one moment: the same pairs, and every flipping subscription once."""
        table = self.matcher.match_many([self.event(1), {**self.event(2), "text": "0"}, self.event(2)])
        by_event: list[list[int]] = [[], [], []]
        for e, one in zip(table["event"].to_pylist(), table["subscription"].to_pylist(), strict=True):
            by_event[e].append(one)
        first, _, last = (self.assert_whole(ids) for ids in by_event)
        assert {one for one in first if one >= FIRST_PAIR} == {one for one in last if one >= FIRST_PAIR}

    def flips(self, rng: Random) -> None:
        table = self.matcher.match_many([{"side": 1, "text": ""}, {"side": 2, "text": ""}])
        seen = [one for one in table["subscription"].to_pylist() if one < FIRST_PAIR]
        assert sorted(seen) == list(FLIPPING), "a subscription that was updated is seen twice or not at all"
        self.reads += 1

    def top_k(self, rng: Random) -> None:
        mode = rng.choice(("exact", "relaxed"))
        self.assert_whole(match.id for match in self.matcher.top_k(self.event(1), 10**6, mode=mode))

    def near_misses(self, rng: Random) -> None:
        self.assert_whole(near.id for near in self.matcher.near_misses({"side": 1, "text": "0"}, 2))

    def look(self, rng: Random) -> None:
        self.assert_whole(self.matcher.ids())
        assert self.matcher.stats()["subscriptions"] % 2 == 0
        frame = self.matcher.to_arrow() if rng.random() < 0.2 else None
        if frame is not None:
            self.assert_whole(frame["id"].to_pylist())
        one = rng.choice(self.pairs or [FIRST_PAIR])
        try:
            assert self.matcher.explain(one, self.event(1)).matched
            assert self.matcher[one].id == one
        except SubscriptionError as problem:
            if "there is no subscription" not in str(problem):
                raise

    def everything(self, rng: Random) -> None:
        rng.choice(
            (self.match, self.match_scoped, self.match_many, self.flips, self.top_k, self.near_misses, self.look)
        )(rng)


def race(seconds: float, readers: int = 3, index: str = matcher_module.DEFAULT_INDEX) -> Race:
    made = Race(Matcher(index), 0.0)
    rng = Random(0)
    for _ in range(3):  # kernels compile before the clock starts
        made.add_pair(rng)
        for read in (
            made.match,
            made.match_scoped,
            made.match_many,
            made.flips,
            made.top_k,
            made.near_misses,
            made.look,
        ):
            read(rng)
    made.until = time.monotonic() + seconds
    made.run([made.everything] * readers)
    made.matcher._version.check()
    return made


def test_nobody_sees_half_an_update() -> None:
    made = race(4.0)
    assert made.round > 20
    assert made.reads > 100
    assert made.matcher._version.schema.generation > made.first_generation  # it did relabel, make wide or compact


@pytest.mark.parametrize("index", indexes.names())
def test_nobody_sees_half_an_update_with(index: str) -> None:
    race(1.0, index=index)


@pytest.mark.slow
def test_nobody_sees_half_an_update_for_longer() -> None:
    race(90.0, readers=6)


def test_the_race_sees_half_an_update_when_there_is_one() -> None:
    class Careless(Matcher):
        def add_many(self, subscriptions: Any, **options: Any) -> int:
            return sum(super(Careless, self).add_many([one], **options) for one in subscriptions)

    made = Race(Careless(), 20.0)
    with pytest.raises(AssertionError, match="half of an update"):
        made.run([made.match, made.match_many])


def test_writers_take_turns() -> None:
    """Several writers lose nothing."""
    m = earmark.Matcher()
    problems: list[BaseException] = []

    def add(writer: int) -> None:
        try:
            for i in range(60):
                m.add(1000 * writer + i, f"a > {i} AND s = 'w{writer}-{i}'")
                if i % 3 == 0:
                    m.remove(1000 * writer + i)
                elif i % 3 == 1:
                    m.update(1000 * writer + i, score=1.0)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=add, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert sorted(m.ids()) == [1000 * writer + i for writer in range(4) for i in range(60) if i % 3]
    m._version.check()
    for writer in range(4):
        assert m.match({"a": 99, "s": f"w{writer}-7"}) == [1000 * writer + 7]
