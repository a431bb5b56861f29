"""Room for one event: what is written into it is what a batch of one would be, whatever was in it before."""

from __future__ import annotations

import numpy as np
import pytest

from earmark import Matcher
from earmark.events.arrays import Entry
from earmark.flat import bits
from earmark.index import one as module
from earmark.index.one import ATTRIBUTES, OneEvent, borrow, give_back


def entries(count: int, width: int = 0) -> list[Entry]:
    return [(number, number * 3, number * 3 + width, "") for number in range(count)]


@pytest.mark.parametrize("width", [0, 5])
@pytest.mark.parametrize("count", [0, 1, ATTRIBUTES, ATTRIBUTES + 1, 500])
def test_an_event_after_another(count: int, width: int) -> None:
    room = OneEvent()
    room.take(entries(7, 9), [2.0] * 7)
    room.take(entries(count, width), [0.5] * count)
    events = room.events
    assert events.start.tolist() == [0, count]
    assert list(zip(events.attr, events.lo, events.hi, strict=True)) == [entry[:3] for entry in entries(count, width)]
    assert events.weight.tolist() == [0.5] * count
    room.take(entries(2))
    assert room.events.weight.tolist() == []
    assert room.events.hi.tolist() == [0, 3]


def test_room_for_answers_grows_and_is_given_back() -> None:
    m = Matcher("blocks")
    m.add_many([(i, f"a < {10 + i % 3}") for i in range(30_000)], progress=False)
    assert m.match({"a": 5}) == list(range(30_000))
    assert m.match({"a": 11}) == [i for i in range(30_000) if i % 3 == 2]
    assert [one.id for one in m.top_k({"a": 5}, 20_000)] == list(range(20_000))


def test_large_room_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 1 << 13)
    room = borrow()
    room.make_room()
    room.rank(bits.all_set(1), 1 << 14, False)
    give_back(room)
    assert len(room.slots) == module.SLOTS
    assert len(room.heaps.value.score) < 1 << 14


def test_a_search_inside_a_search() -> None:
    """A mapping that searches while it is read, as a signal handler might, has room of its own."""
    m = Matcher()
    m.add_many([(i, f"a > {i} AND b = {i % 2}") for i in range(50)], progress=False)

    class Nosy(dict[str, int]):
        def items(self):  # type: ignore[no-untyped-def]
            assert m.match({"a": 3, "b": 0}) == [0, 2]
            return super().items()

    assert m.match(Nosy(a=5, b=1)) == [1, 3]


def test_counting_begins_again() -> None:
    room = OneEvent()
    room.work.value[:] = np.arange(len(room.work.value))
    assert room.counted(5, 7) == [0, 1, 2, 3 + 7, 4]
    assert room.work.value[:6].tolist() == [0] * 5 + [5]
