"""An interruption at any line of a write: the change has happened, or it has not, and the next one works.

KeyboardInterrupt can come between any two lines of Python, MemoryError at any that allocates. Each line of earmark that
a change runs is interrupted in turn, for every kind of change, and for an index without a structure, one that follows
changes and one that is built again. The slow test takes 10,000 random points in longer lifetimes.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from earmark import Matcher
from earmark.engine import compaction
from faults.injection import Injection

INDEXES = ("scan", "be_star_tree", "blocks")
PROBLEMS = (KeyboardInterrupt, MemoryError)
EVENTS = [
    {"x": 1, "s": "b", "id": 7},
    {"x": 2, "s": "m", "id": 9007199254740993},
    {"x": 3.5, "s": "zz"},
    {"s": "", "d": True},
    {"d": False, "x": 2},
    {},
]
NEXT = 25
"""After so many interruptions of one matcher, the next changes are tried."""
CONDITIONS = (
    "x = {}", "x > {} AND s < '{}'", "s >= '{}'", "id = {}90071992547409", "x IS NOT NULL", "d", "NOT d", "y = '{}'",
)  # fmt: skip
Change = Callable[[Matcher], Any]


def book(index: str) -> Matcher:
    """A few subscriptions of every kind: strings, NULL, tags, weights, a removed one, and a type used once."""
    m = Matcher(index)
    m.add_many(
        [
            {"id": "a", "condition": "x = 1 AND s < 'm'", "weights": {"x": 2.0}, "tags": {"t": "1"}},
            {"id": "b", "condition": "x > 1.5 OR s IS NULL", "score": 1.0},
            {"id": "c", "condition": "NOT (s IN ('b', 'k')) AND x IS NOT NULL", "tags": {"t": "2"}},
            {"id": "d", "condition": "d"},
            {"id": "gone", "condition": "x = 2 AND s = 'gone'"},
        ]
    )
    m.remove("gone")
    return m


CHANGES: dict[str, Change] = {
    "add": lambda m: m.add("new", "x = 2 AND s >= 'c'", weights={"s": 3.0}, tags={"t": "1", "u": "2"}),
    "add a big number": lambda m: m.add("new", "x = 9007199254740993 OR id > 9007199254740992"),
    "add many": lambda m: m.add_many([("n1", "x = 2"), ("n2", "s LIKE 'm%'"), ("n3", "y > 3 OR TRUE")], progress=False),
    "add columns": lambda m: m.add_many(pa.table({"id": ["n1", "n2"], "x_lo": [1, 2], "x_hi": [2, None]})),
    "update": lambda m: m.update("b", "x = 2 AND s > 'a'", tags={"t": "1"}),
    "update the only user of a type": lambda m: m.update("d", "e = 'x' OR s = 'zz'"),
    "update the score": lambda m: m.update("a", score=3.0, weights=None, tags={"t": "2"}),
    "remove": lambda m: m.remove("b"),
    "remove the only user of a type": lambda m: m.remove("d"),
    "remove many": lambda m: m.remove_many(["a", "c"]),
    "compact": lambda m: m.compact(),
    "declare": lambda m: m.declare({"x": "number", "y": "date"}),
    "retype": lambda m: m.retype("x", "float"),
}


def answers(m: Matcher) -> list[Any]:
    """All that a user can see."""
    found = m.match_many(EVENTS)
    scoped = m.match_many(EVENTS, scope={"t": "1"})
    kept = [m[one] for one in m.ids()]
    types = {name: one[:2] for name, one in m.attributes.items() if one.type is not None}
    return [found.to_pylist(), scoped.to_pylist(), m.top_k(EVENTS[1], 3), kept, types]


def next_change(m: Matcher) -> None:
    m.add("next", "x = 3.5 AND s > 'z' AND w = 'only here'", tags={"t": "1"})
    m.add("after", "s = 'm' OR x >= 9007199254740993")


def check(m: Matcher, before: list[Any], after: list[Any], where: object) -> None:
    """What must hold after an interruption; the next changes are made in the end."""
    m.check()
    assert answers(m) in (before, after), where
    control = pickled(m)
    next_change(m)
    next_change(control)
    m.check()
    assert answers(m) == answers(control), where
    assert gc.isenabled(), where


def pickled(m: Matcher) -> Matcher:
    """The same subscriptions in a matcher that nothing has happened to."""
    other = Matcher("scan", attributes={n: a.type for n, a in m.attributes.items() if a.declared and a.type})
    other.add_many(m.to_frame(), progress=False)
    return other


def every_change() -> list[Any]:
    """Every change with a scan; with the others those that build an index, and all in the slow tests."""
    builds = ("add many", "add columns", "compact", "retype")
    return [
        pytest.param(kind, index, marks=() if index == "scan" or kind in builds else pytest.mark.slow)
        for kind, index in product(CHANGES, INDEXES)
    ]


@pytest.mark.parametrize(("kind", "index"), every_change())
def test_every_line(kind: str, index: str) -> None:
    change = CHANGES[kind]
    whole, undisturbed = Injection(), book(index)
    before = answers(undisturbed)
    assert not whole(lambda: change(undisturbed))
    after = answers(undisturbed)
    m = book(index)
    ids = m.ids()
    for at in range(len(whole.lines)):
        injection = Injection(at, PROBLEMS[at % 2])
        state = m._version
        interrupted = injection(lambda m=m: change(m))
        where = (kind, index, injection.problem.__name__, injection.where)
        if m._version is state and at % NEXT:  # go on with what many interruptions have left
            m.check()
            assert m.match_many(EVENTS).to_pylist() == before[0] and m.ids() == ids, where
        else:
            check(m, before, after, where)
            m = book(index)
        if not interrupted:  # there are fewer lines by now: a shape that was new is known
            break


def test_lines_of_a_compaction_that_the_writer_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small compaction is part of the change that makes it worthwhile: that happened, whatever becomes of it."""
    monkeypatch.setattr(compaction, "SHORTEST_TAIL", 0)
    monkeypatch.setattr(compaction, "TAIL_SHARE", 0)
    monkeypatch.setattr(compaction, "SHARE_AT_ONCE", 2)
    change, whole, undisturbed = CHANGES["add"], Injection(), book("blocks")
    before = answers(undisturbed)
    assert not whole(lambda: change(undisturbed))
    assert undisturbed.stats()["compactions"] > 0 and not undisturbed._compactor.is_running
    after = answers(undisturbed)
    for at in range(0, len(whole.lines), 37):
        m, injection = book("blocks"), Injection(at, PROBLEMS[at % 2])
        injection(lambda m=m: change(m))
        m._compactor.forgive()
        check(m, before, after, injection.where)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("index", INDEXES)
def test_lifetimes_with_many_interruptions(index: str) -> None:
    """10,000 random points; each failure says the seed that repeats it."""
    for seed in range(500):
        rng = random.Random(f"{index} {seed}")
        m, control = Matcher(index), Matcher("scan")
        for step in range(20 if index == "scan" else 12):
            change = random_change(rng, step)
            injection = Injection(rng.randrange(700), rng.choice(PROBLEMS))
            interrupted = injection(lambda m=m, change=change: attempt(m, change))
            happened = answers(m) != answers(control)
            if happened or not interrupted:
                attempt(control, change)
            m.check()
            assert answers(m) == answers(control), (index, seed, step, injection.where)


def attempt(m: Matcher, change: Change) -> None:
    try:
        change(m)
    except (KeyboardInterrupt, MemoryError):
        raise
    except Exception as problem:
        if type(problem).__module__ != "earmark.errors":
            raise


def random_change(rng: random.Random, step: int) -> Change:
    one = f"s{rng.randrange(8)}"
    text = rng.choice(
        [
            "x = {}",
            "x > {} AND s < '{}'",
            "s >= '{}'",
            "id = {}90071992547409",
            "x IS NOT NULL",
            "d",
            "NOT d",
            "y = '{}'",
        ]
    ).replace("{}", str(rng.randrange(20)))
    tags = {"t": str(rng.randrange(3))} if rng.random() < 0.5 else None
    kinds: list[Change] = [
        lambda m: m.add(one, text, tags=tags),
        lambda m: m.add_many([(f"{one}{i}", text) for i in range(5)], progress=False),
        lambda m: m.update(one, text, tags=tags),
        lambda m: m.remove(one),
        lambda m: m.compact(),
    ]
    return kinds[step % 2 and rng.randrange(len(kinds))]
