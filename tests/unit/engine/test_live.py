"""How an index follows its table: when it takes the tail in, when it is built anew, and that the old one stays."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.unit.made import Maker, event_arrays, matching, table_arrays

from earmark.engine import live
from earmark.engine.live import Live
from earmark.flat import bits
from earmark.flat.types import I32
from earmark.index.scan import Scan
from earmark.segment.arrays import SegmentArrays
from earmark.segment.rows import gather


class Static(Scan):
    """A scan that looks as if it had a structure of its own."""

    nbytes = 1  # type: ignore[assignment]
    copy = None  # type: ignore[assignment]


class Counted(Scan):
    """A scan that looks as if it had a structure of its own, and notes what is asked of it."""

    nbytes = 1  # type: ignore[assignment]

    def __init__(self, table: SegmentArrays, **options: Any) -> None:
        super().__init__(table, **options)
        self.inserted: list[int] = []
        self.removed: list[int] = []
        self.built = len(table.sequence)

    def copy(self) -> Counted:
        made = Counted(self._table)
        made.inserted, made.removed, made.built = [*self.inserted], [*self.removed], self.built
        return made

    def insert(self, table: SegmentArrays, slots: I32) -> None:
        super().insert(table, slots)
        self.inserted += slots.tolist()

    def remove(self, slots: I32) -> None:
        self.removed += slots.tolist()

    @classmethod
    def restore(cls, table: SegmentArrays, arrays: Mapping[str, NDArray[Any]]) -> Counted:
        return cls(table)


def tables(*sizes: int) -> list[SegmentArrays]:
    whole = table_arrays(Maker(1).made(max(sizes), 0))
    return [gather(whole, np.arange(size)) for size in sizes]


def slots(*numbers: int) -> I32:
    return np.array(numbers, np.int32)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "SHORTEST_TAIL", 4)


def test_a_few_changes_wait_in_the_tail() -> None:
    first, second, third = tables(20, 22, 24)
    start = Live.built(Counted, first)
    then = start.follow(second).follow(third)
    assert then.main is start.main
    assert (start.tail, then.tail, then.known) == (0, 4, 20)


def test_a_longer_tail_is_taken_in_by_a_copy() -> None:
    first, second, third = tables(20, 22, 26)
    start = Live.built(Counted, first)
    then = start.follow(second, slots(3)).follow(third, slots(7, 21))
    assert (then.tail, then.known) == (0, 26)
    assert isinstance(then.main, Counted)
    assert isinstance(start.main, Counted)
    assert then.main.built == 20
    assert then.main.inserted == [20, 22, 23, 24, 25]
    assert then.main.removed == [3, 7]
    assert (start.main.inserted, start.main.removed) == ([], [])


def test_removals_alone_are_taken_in_too() -> None:
    (table,) = tables(20)
    then = Live.built(Counted, table)
    for slot in range(5):
        then = then.follow(table, slots(slot))
    assert isinstance(then.main, Counted)
    assert then.main.removed == [0, 1, 2, 3, 4]


def test_a_static_index_is_built_anew() -> None:
    first, second, third = tables(20, 24, 25)
    start = Live.built(Static, first)
    then = start.follow(second, slots(*range(10)))
    assert then.main is start.main
    last = then.follow(third)
    assert last.main is not start.main
    assert (last.tail, last.known) == (0, 25)


def test_many_at_once_are_built_in_bulk() -> None:
    first, second = tables(20, 31)
    then = Live.built(Counted, first).follow(second)
    assert isinstance(then.main, Counted)
    assert (then.main.built, then.main.inserted) == (31, [])


@pytest.mark.parametrize("seed", range(5))
def test_answers_with_a_tail(seed: int) -> None:
    made = Maker(seed).made(40, 30)
    whole = table_arrays(made)
    eligible = bits.from_slots(np.flatnonzero(made.eligible), 40)
    events = event_arrays(made, made.events)
    with_tail = Live(Scan.build, whole, Scan.build(gather(whole, np.arange(25))), 25, ())
    pointers, found = with_tail.match_many(events, eligible)
    assert [found[a:b].tolist() for a, b in pairwise(pointers)] == [matching(made, event) for event in made.events]
    assert with_tail.work.matched == len(found)
    for k in (1, 3, 50):
        for relaxed in (False, True):
            got = with_tail.top_k_many(events, k, eligible, relaxed)
            wanted = Scan.build(whole).top_k_many(events, k, eligible, relaxed)
            assert [g.tolist() for g in got] == [w.tolist() for w in wanted]
            one = with_tail.top_k(events, k, eligible, relaxed, 3)
            assert one[0].tolist() == got[1][got[0][3] : got[0][4]].tolist()
            assert one[1].tolist() == got[2][got[0][3] : got[0][4]].tolist()
    assert with_tail.match(events, eligible, 3).tolist() == matching(made, made.events[3])
