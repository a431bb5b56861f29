"""What indexes have in common, by itself: arrays by name, work counters, answers put together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from earmark.flat.arrays import F64, I32, I64, U64
from earmark.index import answers, counters, ranking
from earmark.index.contract import Floor, Work
from earmark.index.ranking import Heaps
from earmark.index.stored import check_types, element_types, from_stored


class Pair(NamedTuple):
    """Two arrays."""

    start: I64
    slot: I32


def test_element_types_are_those_declared() -> None:
    assert element_types(Pair) == {"start": np.int64, "slot": np.int32}
    more: Any = NamedTuple("more", [("one", F64), ("other", U64)])
    assert list(element_types(more).values()) == [np.float64, np.uint64]


def test_stored_arrays_come_back_by_name() -> None:
    start, slot = np.arange(3), np.arange(2, dtype=np.int32)
    made = from_stored(Pair, {"slot": slot, "other": start, "start": start})
    assert made.start is start
    assert made.slot is slot


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": None}, "arrays are missing: start"),
        ({"start": None, "slot": None}, "arrays are missing: start, slot"),
        ({"slot": np.arange(2)}, "slot is not a row of int32"),
        ({"slot": np.zeros((2, 2), np.int32)}, "slot is not a row of int32"),
        ({"start": np.int64(3)}, "start is not a row of int64"),
        ({"start": "abc"}, "start is not a row of int64"),
    ],
)
def test_other_arrays_are_refused(change: dict[str, Any], message: str) -> None:
    stored = {"start": np.arange(3), "slot": np.arange(2, dtype=np.int32), **change}
    with pytest.raises(AssertionError, match=message):
        from_stored(Pair, {name: array for name, array in stored.items() if array is not None})


def test_types_are_checked_where_arrays_are_not_stored() -> None:
    check_types(Pair(np.arange(3), np.arange(2, dtype=np.int32)))
    with pytest.raises(AssertionError, match="start is not a row of int64"):
        check_types(Pair([1, 2], np.arange(2, dtype=np.int32)))  # type: ignore[arg-type]


def test_counters_are_the_fields_of_work_in_their_order() -> None:
    assert [getattr(counters, name.upper()) for name in Work._fields] == list(range(counters.COUNTERS))
    counted = Work.counted(np.arange(1, 12))  # an index may count more of its own
    assert counted == Work(1, 2, 3, 4, 5, 6, 7, 8)
    assert all(type(number) is int for number in counted)


def test_work_adds_up() -> None:
    assert Work.total([Work(1, 2), Work(nodes=3, pruned_leaves=1)]) == Work(nodes=4, candidates=2, pruned_leaves=1)
    assert Work.total(iter([])) == Work()


def test_room_grows_by_what_the_events_so_far_let_expect() -> None:
    out = np.arange(10, dtype=np.int32)
    assert len(answers.roomier(out, 4, 0, 7)) == 33  # no event is done: room as if one had been
    assert len(answers.roomier(out, 4, 2, 3)) == 20
    assert answers.roomier(out, 4, 2, 3)[:4].tolist() == [0, 1, 2, 3]


def test_ranked_answers_without_gaps() -> None:
    slot, score = np.array([5, 6, 7, 8], np.int32), np.array([4.0, 3.0, 2.0, 1.0])
    full = Heaps(np.array([2, 2]), score, np.zeros(4, np.int64), slot)
    some = full._replace(size=np.array([1, 0]))
    assert [part.tolist() for part in ranking.ranked(full, 2)] == [[2, 2], [5, 6, 7, 8], [4.0, 3.0, 2.0, 1.0]]
    assert [part.tolist() for part in ranking.ranked(some, 2)] == [[1, 0], [5], [4.0]]
    none = ranking.new_heaps(0, 2)
    assert [part.tolist() for part in ranking.ranked(none, 2)] == [[], [], []]
    assert [part.dtype for part in ranking.ranked(none, 2)] == [np.int64, np.int32, np.float64]


def test_what_is_left_of_a_floor_is_no_answer() -> None:
    floor = Floor(np.array([9.0, 3.0, -np.inf, 1.0]), np.array([5, 6, 0, 7]))
    heaps = ranking.new_heaps(3, 2, floor, 1)
    assert heaps.size.tolist() == [2, 0, 2]
    assert heaps.score[[0, 1, 4, 5]].tolist() == [3.0, 3.0, 1.0, 1.0]
    assert heaps.sequence[[0, 1, 4, 5]].tolist() == [6, 6, 7, 7]
    ranking.push(heaps, 0, 2, 3.0, 6, 40)  # as good as the floor, but not better
    ranking.push(heaps, 0, 2, 3.0, 5, 41)
    ranking.push(heaps, 1, 2, 0.0, 1, 42)
    for lane in range(3):
        ranking.sort_heap(heaps, 2 * lane, heaps.size[lane])
    assert [part.tolist() for part in ranking.ranked(heaps, 2, True)] == [[1, 1, 0], [41, 42], [3.0, 0.0]]


def test_two_answers_are_merged_event_by_event() -> None:
    counts, slots = np.array([2, 0, 1, 0]), np.array([3, 9, 4], np.int32)
    more, others = np.array([1, 2, 1, 0]), np.array([5, 0, 7, 1], np.int32)
    both, merged = answers.merged(counts, slots, more, others)
    assert both.tolist() == [3, 2, 2, 0]
    assert merged.tolist() == [3, 5, 9, 0, 7, 1, 4]


def test_answers_that_name_their_event_are_put_in_order() -> None:
    coded = np.array([(2 << 32) | 1, 7, (1 << 32) | 5, 3, (2 << 32) | 0])
    assert answers.event_major(coded).tolist() == [3, 7, 5, 0, 1]
