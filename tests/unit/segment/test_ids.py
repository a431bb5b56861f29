"""Ids are arrays, with a few Python objects behind them, and every id leads to the last slot that has it."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from earmark import Matcher
from earmark.flat.arrays import PackedStrings, frozen, packed
from earmark.keys.schema import Schema
from earmark.segment import ids as module
from earmark.segment.builder import prepare
from earmark.segment.ids import Base, Ids, are_distinct, distinct, joined_ids

INTEGERS: list[Any] = [0, 1, 2, 3, 7, -1, 2**63 - 1, -(2**63), 10**12]
STRINGS: list[Any] = ["a", "b", "ab", "é", "日本", "a" * 300, "1", "0", " ", "\0"]
OTHERS = [None, 1.0, True, b"a", "zz", 99, 2**63, 2**70, ("a",)]


@pytest.fixture(params=[0xFFFFFFFF, 1, 0])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small bases, also with hashes that collide."""
    monkeypatch.setattr(module, "_FEW", 3)
    monkeypatch.setattr(module, "_SOME", 2)
    monkeypatch.setattr(module, "_HASH", request.param)


def as_column(ids: list[Any]) -> Any:
    return frozen(np.array(ids, np.int64)) if ids and isinstance(ids[0], int) else packed([one.encode() for one in ids])


def assert_are(made: Ids, expected: list[Any]) -> None:
    slots = list(range(len(expected)))
    assert len(made) == len(expected)
    assert made.objects[: len(made)] == expected
    assert [made[slot] for slot in slots] == made.named(slots) == expected
    assert made.named(slots[::-1]) == expected[::-1]
    assert made.taken(np.array(slots[::2], np.int32)).to_pylist() == expected[::2]
    column = made.column
    assert (column.to_list() if isinstance(column, PackedStrings) else column.tolist()) == expected
    if expected:
        assert made.integers == isinstance(expected[0], int)
    assert made.take(np.array(slots[1:], np.int64)).objects[: max(0, len(slots) - 1)] == expected[1:]
    assert distinct([made], [np.array(slots, np.int64)]) == len(set(expected))


@pytest.mark.usefixtures("few")
@given(st.booleans(), st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6)), max_size=8), st.integers(0, 2**32))
@settings(max_examples=150)
def test_moments_of_ids(integers: bool, steps: list[tuple[int, int]], seed: int) -> None:
    rng = random.Random(seed)
    pool = INTEGERS if integers else STRINGS
    expected = [rng.choice(pool)]
    made = Ids.of(list(expected))
    moments: list[tuple[Ids, list[Any]]] = []
    for how, count in steps:
        more = [rng.choice(pool) for _ in range(count)]
        other = Ids.of(list(more)) if how == 0 else Ids.of(as_column(more)) if more else Ids.of([])
        moments.append((made, list(expected)))
        if rng.random() < 0.2:  # another future of an earlier moment
            made, expected = rng.choice(moments)
        made, expected = (joined_ids([made, other]) if how == 2 else made.extended(other)), [*expected, *more]
    for moment, listed in [*moments, (made, expected)]:
        assert_are(moment, listed)


@pytest.mark.usefixtures("few")
@given(st.booleans(), st.integers(0, 40), st.integers(0, 2**32), st.booleans())
def test_an_id_leads_to_its_last_slot(integers: bool, count: int, seed: int, ascending: bool) -> None:
    rng = random.Random(seed)
    pool = INTEGERS if integers else STRINGS
    listed = [rng.choice(pool) for _ in range(count)]
    if ascending:
        listed.sort()
    base = Base(as_column(listed))
    assert are_distinct(base.column) == (len(set(listed)) == count)
    for one in [*INTEGERS, *STRINGS, *OTHERS]:
        slots = [slot for slot, own in enumerate(listed) if type(own) is type(one) and own == one]
        assert base.find(one) == (slots[-1] if slots else None)
    for ids in (set(INTEGERS), set(STRINGS), set(), {"zz"}, {99, 7}):
        assert base.among(ids) == {one for one in ids if base.find(one) is not None}


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("kind", [int, str])
def test_segments_that_grow_find_their_own(kind: Any) -> None:
    """Ids come again after they were removed, and older segments of a line still find what they had."""
    segment = prepare(Schema(), [(kind(i), "a > 1") for i in range(5)]).segment(0)
    moments = [segment]
    for step in range(12):
        new = prepare(segment.schema, [(kind(i), "a > 1") for i in (step % 4, 50 + step)]).segment(10 * step + 10)
        if step == 7:
            moments[3].appended(new).find(kind(1))  # given up
        segment = segment.appended(new)
        moments.append(segment)
    for moment in [*moments, *moments[::-1]]:
        listed = moment.ids.objects[: len(moment)]
        for one in [*(kind(i) for i in range(70)), "x", 71]:
            slots = [slot for slot, own in enumerate(listed) if own == one]
            assert moment.find(one) == (slots[-1] if slots else None)
            assert moment.lookups.among(moment, {one}) >= {one for _ in slots}
        last = {one: slot for slot, one in enumerate(listed)}
        assert moment.lookups.leads_to(moment, sorted(last.values()))


@pytest.mark.parametrize("kind", [int, str])
def test_a_large_book_keeps_no_object_for_each_id(kind: Any) -> None:
    m = Matcher(index="scan")
    m.add_many([(kind(10**6 + i), "a > 1") for i in range(10_000)])
    ids = m._version.segments[0].segment.ids
    assert ids.base is not None and ids.first == 10_000
    assert m.match({"a": 2}) == [kind(10**6 + i) for i in range(10_000)]
    m.add(kind(5), "a > 2")
    m.remove(kind(10**6 + 17))
    m.add(kind(10**6 + 17), "a > 3")
    assert kind(10**6 + 17) in m and kind(10**6 + 9_999) in m and kind(10**6 + 10_000) not in m
    with pytest.raises(Exception, match="already in use"):
        m.add_many([(kind(1), "a > 1"), (kind(10**6 + 5), "a > 1")])
    m.check()
    assert sys.getsizeof(ids) < 200
