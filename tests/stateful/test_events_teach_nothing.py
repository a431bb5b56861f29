"""Events change nothing: a matcher that has seen any is as one that has seen none.

Two matchers get the same writes. One of them also gets events, before, between and after, in every form and of every
kind, readable or not, through every call that takes events. Types, keys, answers and verdicts stay the same.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import date
from decimal import Decimal
from random import Random
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from earmark import EarmarkError, Interval, Matcher
from earmark import index as indexes
from earmark.cover import subsumed

NAMES = "abc"
CONSTANTS = ("1", "2", "2.5", "3D", str(2**53 + 1), "'x'", "'xy'", "'2024-01-05'", "DATE '2024-01-05'", "TRUE")
VALUES: list[Any] = [
    *(1, 2, 2.5, -0.0, float("nan"), float("inf"), 2**53, 2**53 + 1, 10**400, Decimal("2.5"), Decimal("NaN")),
    *("x", "xy", "", "2024-01-05", "\ud800", True, None, date(2024, 1, 5), b"x", [1], {"deep": 1}, object()),
    *(Interval(1, 2), Interval(2, 1), Interval("x", None), {"lo": 1, "hi": 2.5}),
]
COLUMNS: list[Any] = [
    *(pa.array([1, None]), pa.array([2.5, float("nan")]), pa.array(["x", None]), pa.array([True, False])),
    *(pa.array([date(2024, 1, 5), None]), pa.array([[1], [2]]), pa.array([Decimal("2.5"), None]), pa.nulls(2)),
    pa.array([{"lo": 1, "hi": 2}, None]),
]
PROBES: list[dict[str, Any]] = [
    {},
    *({name: value} for name in NAMES for value in VALUES),
    *({"a": value, "b": value, "c": value} for value in VALUES),
]


def condition(rng: Random) -> str:
    def leaf() -> str:
        name = rng.choice(NAMES)
        if rng.random() < 0.2:
            return f"{name} IS {rng.choice(('', 'NOT '))}NULL"
        if rng.random() < 0.2:
            return f"({name} < {(c := rng.choice(CONSTANTS))} {rng.choice(('OR', 'AND'))} {name} >= {c})"
        return f"{name} {rng.choice(('<', '<=', '=', '!=', '>=', '>'))} {rng.choice(CONSTANTS)}"

    return rng.choice((" AND ", " OR ")).join(leaf() for _ in range(rng.choice((1, 1, 2, 3))))


def write(rng: Random) -> Callable[[Matcher], Any]:
    """A change, which may be refused."""
    style, one, text = rng.random(), rng.randrange(12), condition(rng)
    name, kind = rng.choice(NAMES), rng.choice(("number", "integer", "string", "date", "boolean", "float"))
    if style < 0.5:
        return lambda m: m.add(one, text)
    if style < 0.7:
        return lambda m: m.remove(one)
    if style < 0.8:
        return lambda m: m.update(one, text)
    if style < 0.85:
        return lambda m: m.add_many([(one, text), (one + 20, text)])
    if style < 0.9:
        return lambda m: m.declare({name: kind})
    return (lambda m: m.retype(name, kind)) if style < 0.95 else (lambda m: m.compact())


def read(rng: Random) -> Callable[[Matcher], Any]:
    """A question about events, which may be refused."""
    event = {name: rng.choice(VALUES) for name in "abcd" if rng.random() < 0.6}
    events = [event, {name: rng.choice(VALUES) for name in NAMES}, {}]
    table = pa.table({name: rng.choice(COLUMNS) for name in NAMES})
    on_error = rng.choice(("raise", "null", "reject"))

    def frame(make: Callable[[pa.Table], Any]) -> Callable[[Matcher], Any]:
        return lambda m: m.match_many(make(table), on_error=on_error)

    return rng.choice(
        (
            lambda m: m.match(event),
            lambda m: m.top_k(event, 3, mode="relaxed"),
            lambda m: m.match_many(events, on_error=on_error),
            lambda m: m.top_k_many(events, 2, on_error=on_error),
            lambda m: list(m.match_reader(iter(events), on_error=on_error)),
            lambda m: m.explain(rng.randrange(12), event),
            lambda m: m.near_misses(event, 2),
            lambda m: m.verify([event]),
            lambda m: m.adapt([event] * 5),
            lambda m: m.unseen_attributes(),
            frame(lambda t: t),
            frame(pl.from_arrow),
            frame(lambda t: pd.DataFrame(t.to_pydict())),
        )
    )


def told(call: Callable[[Matcher], Any], m: Matcher) -> str:
    """What came of a call: its answer or its error."""
    try:
        return repr(call(m))
    except EarmarkError as problem:
        return f"{type(problem).__name__}: {problem}"


def verdicts(m: Matcher) -> list[Any]:
    """Everything that is said of the subscriptions without an event."""
    ids = m.ids()
    return [
        *(ids, m.attributes, m.stats()["attributes"], m.never_matching(), m.audit()),
        [(m[one], m.covered_by(one), m.covered(one), subsumed(m, one)) for one in ids],
        [array.tolist() for array in m._version.whole.arrays],
        {number: [part.tolist() if hasattr(part, "tolist") else list(part) for part in keys.items()]
         for number, keys in m._version.schema.strings.items()},
    ]  # fmt: skip


@given(st.integers(0, 2**32), st.sampled_from(indexes.names()))
@settings(max_examples=max(1, settings.default.max_examples // 2))
def test_as_if_there_had_been_no_events(seed: int, index: str) -> None:
    rng = Random(seed)
    told_events, silent = Matcher(index), Matcher(index)
    for _ in range(rng.randint(1, 25)):
        while rng.random() < 0.5:
            before = told_events._version
            told(read(rng), told_events)
            after = told_events._version  # another one where the index has adapted
            assert after.schema is before.schema and after.next_sequence == before.next_sequence
            assert [one.segment for one in after.segments] == [one.segment for one in before.segments]
        change = write(rng)
        assert told(change, told_events) == told(change, silent)
        for m in (told_events, silent):  # merges give constants their keys, in the order in which they are done
            m._compactor.wait()
    assert repr(verdicts(told_events)) == repr(verdicts(silent))
    for probe in PROBES:
        assert told(lambda m, e=probe: m.match(e), told_events) == told(lambda m, e=probe: m.match(e), silent)
        assert told(lambda m, e=probe: m.top_k(e, 4), told_events) == told(lambda m, e=probe: m.top_k(e, 4), silent)
    assert repr(verdicts(told_events)) == repr(verdicts(silent))


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_what_an_event_had_binds_no_later_condition(value: Any) -> None:
    for text in (f"a = {constant}" for constant in CONSTANTS):
        m = Matcher()
        m.add(0, "a IS NOT NULL")
        with suppress(EarmarkError):
            m.match({"a": value})
        m.add(1, text)
        m.remove(1)
        assert m.attributes["a"].type is None
