"""VCR indexing against a plain Python loop, in every mode, store, decomposition and numbering; and what it chooses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.unit.index import asked
from tests.unit.index.asked import (
    PLAIN,
    VCR_GRIDS,
    VCR_WAYS,
    assert_alone,
    assert_matches,
    assert_only_known,
    assert_refuses,
    changed,
    mapped,
    output_without_jit,
    part_of,
    selective,
)
from tests.unit.made import (
    GREATEST,
    Clause,
    Constraint,
    Event,
    Made,
    Maker,
    Subscription,
    Value,
    matching,
    table_arrays,
)

from earmark.errors import EarmarkError
from earmark.flat import bits
from earmark.index.marks import MAYBE
from earmark.index.vcr import VcrIndex, build
from earmark.index.vcr.arrays import EMPTY, INFO, NO_ATTRIBUTE, STORES
from earmark.index.vcr.build import add_keys, home
from earmark.index.vcr.plan import best_pair
from earmark.workload.skew import skew

SLOTS = 20 if PLAIN else 150
every_way = pytest.mark.parametrize("way", VCR_WAYS, ids=lambda way: "-".join(way.values()))


def assert_ranks(made: Made, index: VcrIndex, events: list[Event], k: int, relaxed: bool) -> None:
    """The k best; in exact search every match is scored."""
    asked.assert_ranks(made, index, events, k, relaxed)
    if not relaxed:
        assert index.work.matched == index.work.scored == sum(len(matching(made, event)) for event in events)


def assert_answers(made: Made, index: VcrIndex) -> None:
    index.check()
    assert_matches(made, index)
    for k, relaxed in ((1, False), (3, True), (1000, False)):
        assert_ranks(made, index, made.events, k, relaxed)
    assert_alone(made, index)


def rectangles(count: int, seed: int, side: int = 40) -> Made:
    """Two attributes, most subscriptions on both, many of them equalities, some with a third."""
    random = Random(seed)
    made = Made([], [])
    for i in range(count):
        clause: Clause = {}
        for attr in (0, 1):
            lo = random.randrange(side)
            clause[attr] = Constraint([(lo, lo + random.choice((0, 0, 1, 5, 17)))])
        if random.random() < 0.1:
            clause[2] = Constraint([(0, 5)])
        made.subscriptions.append(Subscription([clause], sequence=i))
        made.eligible.append(random.random() < 0.9)
    for _ in range(30):
        event = {attr: Value(v, v) for attr in (0, 1) if (v := random.randrange(-2, side + 20)) < side + 18}
        if random.random() < 0.5:
            event[2] = Value(random.randrange(10), 10)
        if random.random() < 0.3 and 0 in event:
            event[0].hi += random.choice((1, 2, 30))
        made.events.append(event)
    return made


@every_way
def test_answers_on_rectangles(way: dict[str, Any]) -> None:
    for seed, grid in enumerate(VCR_GRIDS[:3] if PLAIN else VCR_GRIDS):
        made = rectangles(min(SLOTS, 100), seed)
        index = VcrIndex.build(table_arrays(made), **way, **grid)
        index.check()
        assert_matches(made, index, made.events)
        assert_ranks(made, index, made.events, 3, False)
        assert index.describe()["share_on_grid"] > 0.95


def test_most_of_a_table_of_rectangles_is_on_the_grid_and_exact() -> None:
    made = rectangles(400, 1)
    for subscription in made.subscriptions:
        subscription.clauses[0].pop(2, None)
    index = VcrIndex.build(table_arrays(made))
    told = index.describe()
    assert told["attributes"] == [0, 1]
    assert told["share_on_grid"] == 1.0
    assert told["scanned"] == told["entries_to_verify"] == told["late_entries"] == 0
    assert told["store"] == "array"
    assert told["mode"] == "cells"
    assert told["cells"][0] == len({key for s in made.subscriptions for key in ends(s, 0)}) + 1
    assert_matches(made, index, made.events)
    assert index.work.candidates == 0
    assert len(index.arrays.bounds) == 0


def ends(subscription: Subscription, attr: int) -> Iterator[int]:
    for lo, hi in subscription.clauses[0][attr].intervals:
        yield from (lo, hi + 1)


def test_a_coarse_grid_verifies_borders_only() -> None:
    random = Random(3)
    made = Made([], [])
    for i in range(50 if PLAIN else 600):
        clause = {}
        for attr in (0, 1):
            lo = random.randrange(10**9)
            clause[attr] = Constraint([(lo, lo + 2 * 10**8)])
        made.subscriptions.append(Subscription([clause], sequence=i))
    made.eligible = [True] * len(made.subscriptions)
    made.events = [{attr: Value(v := random.randrange(1, 10**9), v) for attr in (0, 1)} for _ in range(40)]
    index = VcrIndex.build(table_arrays(made), cells=(40, 40))
    index.check()
    assert_matches(made, index, made.events)
    assert 0 < index.work.candidates < 0.7 * index.work.matched
    assert len(index.arrays.bounds) == 4 * len(made.subscriptions)
    boxes = [{0: Value(e[0].lo, e[0].hi + 10**7), 1: Value(e[1].lo, e[1].hi + 10**8)} for e in made.events]
    assert_matches(made, index, boxes)


def test_one_attribute_makes_a_grid_of_one_row() -> None:
    made = Made([Subscription([{5: Constraint([(i, i + 3)])}], sequence=i) for i in range(90)], [])
    made.eligible = [True] * 90
    made.events = [{5: Value(v, v)} for v in range(-2, 95)] + [{}, {5: Value(3, 60)}]
    for way in VCR_WAYS[:: 5 if PLAIN else 1]:
        index = VcrIndex.build(table_arrays(made), **way)
        index.check()
        assert index.describe()["attributes"] == [5]
        assert_matches(made, index, made.events)


def test_null_is_never_a_route() -> None:
    clause = {0: Constraint([(1, 4)], accepts_null=True), 1: Constraint([(2, 2)])}
    made = Made([Subscription([clause], sequence=i) for i in range(20)], [{1: Value(2, 2)}, {0: Value(9, 9)}, {}])
    made.eligible = [True] * 20
    index = VcrIndex.build(table_arrays(made))
    index.check()
    assert index.describe()["attributes"] == [1]
    assert_matches(made, index, made.events)
    index = VcrIndex.build(table_arrays(made), attributes=(0, 1))
    assert index.describe()["scanned"] == 20
    assert_matches(made, index, made.events)


def test_the_pair_is_the_most_selective_that_is_used() -> None:
    assert best_pair(table_arrays(selective())) == (1, 2)
    nulls = Made([Subscription([{0: Constraint([(0, 1)], True)}])], [])
    assert best_pair(table_arrays(nulls)) == (NO_ATTRIBUTE, NO_ATTRIBUTE)


def test_several_intervals_and_clauses_find_a_slot_once() -> None:
    lists = Constraint([(point, point) for point in range(0, 60, 2)])
    clause = {0: lists, 1: Constraint([(0, 3), (7, 9)])}
    other = {0: Constraint([(0, 60)]), 1: Constraint([(2, 8)])}
    made = Made([Subscription([clause, other, clause], sequence=i) for i in range(30)], [])
    made.eligible = [True] * 30
    made.events = [{0: Value(x, x), 1: Value(y, y)} for x, y in ((2, 3), (3, 3), (4, 9), (5, 9), (61, 3))]
    made.events.append({0: Value(0, 99), 1: Value(0, 99)})
    for way in VCR_WAYS[:: 5 if PLAIN else 1]:
        index = VcrIndex.build(table_arrays(made), **way)
        index.check()
        assert_matches(made, index, made.events)


# --- change ------------------------------------------------------------------------------------------------------


@every_way
def test_inserts_and_removals(way: dict[str, Any]) -> None:
    for seed in range(1 if PLAIN else 2):
        total = min(SLOTS, 70)
        made = rectangles(total, seed) if seed else Maker(7).made(total, 20)
        half = total // 2
        index = VcrIndex.build(table_arrays(part_of(made, half)), **way)
        for count in (half + 1, half + 7, total):
            before, known = index.copy(), len(index.arrays.gone)
            slots = np.arange(half, count, dtype=np.int32)
            index.insert(table_arrays(part_of(made, count)), slots)
            index.check()
            before.check()
            assert len(before.arrays.gone) == known
            assert_matches(part_of(made, count), index, made.events)
            half = count
        assert index.describe()["late_entries"] > 0
        gone = np.arange(0, total, 5, dtype=np.int32)
        index.remove(gone)
        for slot in gone:
            made.eligible[slot] = False
        assert_answers(made, index)


def test_what_is_late_is_merged_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "FEWEST_LATE", 40)
    made = rectangles(60, 5)
    index = VcrIndex.build(table_arrays(part_of(made, 10)), longest=(4, 4))
    late = []
    for count in range(11, 61):
        index.insert(table_arrays(part_of(made, count)), np.array([count - 1], np.int32))
        late.append(index.describe()["late_entries"])
    assert_answers(made, index)
    assert 0 in late
    assert max(late) <= max(40, len(index.arrays.entry) // 8)
    assert index.describe()["longest"] == [4, 4]


def test_entries_of_removed_slots_leave_in_time() -> None:
    made = rectangles(200, 6)
    index = VcrIndex.build(table_arrays(made))
    entries, told = len(index.arrays.entry), []
    for slot in range(130):
        made.eligible[slot] = False
        index.remove(np.array([slot], np.int32))
        told.append(len(index.arrays.entry))
    index.check()
    assert told[0] == entries
    assert told[-1] < 0.8 * entries
    assert len(set(told)) < 10
    assert_matches(made, index, made.events)


def test_slots_that_are_never_taken_in_are_not_known() -> None:
    """Between an insert and the table's end there may be slots that were removed before anyone indexed them."""
    made = rectangles(60, 8)
    index = VcrIndex.build(table_arrays(part_of(made, 20)))
    index.insert(table_arrays(made), np.array([25, 59], np.int32))
    index.check()
    made.eligible = [made.eligible[s] and (s < 20 or s in (25, 59)) for s in range(60)]
    assert_matches(made, index, made.events)


@every_way
def test_slots_past_those_it_knows_are_never_answered(way: dict[str, Any]) -> None:
    """Whoever follows a growing table with a tail gives bitmaps that are longer than the index knows."""
    made = rectangles(30, 4)
    index = VcrIndex.build(table_arrays(part_of(made, 9)), **way)
    made.events.append({0: Value(-5, 99), 1: Value(-5, 99)})
    assert_only_known(made, index, 9, 30)


# --- arrays ------------------------------------------------------------------------------------------------------


@every_way
def test_arrays_come_back(way: dict[str, Any]) -> None:
    made = rectangles(60, 9)
    index = VcrIndex.build(table_arrays(part_of(made, 50)), **way, longest=(4, 2))
    index.insert(table_arrays(made), np.arange(50, 60, dtype=np.int32))
    index.remove(np.array([3], np.int32))
    made.eligible[3] = False
    stored = {name: np.array(column) for name, column in index.arrays._asdict().items()}
    restored = VcrIndex.restore(table_arrays(made), stored)
    assert all(not column.flags.writeable for column in restored.arrays)
    assert restored.nbytes == index.nbytes
    assert restored.describe() == index.describe()
    assert_answers(made, restored)


def test_arrays_come_back_mapped(tmp_path: Path) -> None:
    made = rectangles(60, 9)
    index = VcrIndex.build(table_arrays(made))
    assert_answers(made, VcrIndex.restore(table_arrays(made), mapped(index.arrays._asdict(), tmp_path)))


def test_broken_arrays_are_refused() -> None:
    made = rectangles(60, 10)
    table = table_arrays(made)
    index = VcrIndex.build(table_arrays(part_of(made, 50)), store="hashed")
    index.insert(table, np.arange(50, 60, dtype=np.int32))
    good = index.arrays._asdict()
    VcrIndex.restore(table, good)

    torn = [
        ({name: column for name, column in good.items() if name != "entry"}, "missing: entry"),
        ({**good, "start": good["start"].astype(np.int64)}, "start is not a row of int32"),
        ({**good, "info": good["info"][:-1]}, "info or options"),
        (changed(good, "info", slice(None), 10**6), "knows more slots"),
        (changed(good, "cut_x", 1, GREATEST), "cut_x does not ascend"),
        (changed(good, "run_last", -1, 10**6), "distance table"),
        (changed(good, "start", 1, 10**6), "start does not ascend"),
        (changed(good, "entry", 0, 60), "an entry is not a slot"),
        (changed(good, "key", slice(None), 3), "no free place"),
        (changed(good, "late_next", -1, 10**6), "a chain goes round"),
        (changed(good, "late_head", good["late_key"] != EMPTY, 10**6), "begins outside"),
        (changed(good, "late_head", good["late_key"] == EMPTY, 0), "a free place has a chain"),
        (changed(good, "late_entry", 0, 99 | MAYBE), "a late entry is not a slot"),
        ({**good, "residual": good["residual"][:0]}, "residual has the wrong length"),
        ({**good, "bounds": np.zeros(3, np.int64)}, "bounds has the wrong length"),
    ]
    for arrays, message in torn:
        with pytest.raises(AssertionError, match=message):
            VcrIndex.restore(table, arrays)
    fewer = table_arrays(part_of(made, 30))
    with pytest.raises(AssertionError, match="knows more slots than there are"):
        VcrIndex.restore(fewer, good)


def test_check_names_what_is_broken() -> None:
    made = rectangles(60, 11)
    table = table_arrays(made)
    index = VcrIndex.build(table)
    arrays = index.arrays
    for change, message in (
        ({"entry": arrays.entry[::-1].copy()}, "not the decompositions"),
        ({"entry": arrays.entry | np.uint32(MAYBE)}, "not the decompositions"),
        ({"residual": bits.from_slots(np.array([5]), 60)}, "on the grid and residual"),
        ({"info": _with(arrays.info, INFO - 5, 3)}, "miscounted"),
    ):
        with pytest.raises(AssertionError, match=message):
            VcrIndex(table, arrays._replace(**change)).check()


def _with(column: Any, where: int, value: int) -> Any:
    copy = column.copy()
    copy[where] = value
    return copy


def test_bad_arguments_get_a_sentence() -> None:
    made = Maker(1).made(3, 1)
    table = table_arrays(made)
    assert_refuses(VcrIndex.build(table), made)
    for options, message in (
        ({"longest": (3, 4)}, "powers of two"),
        ({"longest": (1 << 10, 1 << 7)}, "their product at most 65,536"),
        ({"longest": (0, 4)}, "expected two whole numbers of at least 1 for longest"),
        ({"cells": (1,)}, "expected two whole numbers of at least .* for cells"),
        ({"attributes": (1, 1)}, "different attribute numbers"),
        ({"attributes": (1, 2, 3)}, "one or two"),
        ({"mode": "grid"}, "expected 'cells' or 'points' for mode, got 'grid'"),
        ({"store": "tree"}, "expected 'array' or 'hashed' for store"),
        ({"decomposition": "none"}, "for decomposition"),
        ({"numbering": "none"}, "for numbering"),
        ({"hash_size": 3}, "expected a hash_size from"),
    ):
        with pytest.raises(EarmarkError, match=message):
            VcrIndex.build(table, **options)  # type: ignore[arg-type]
    many = rectangles(60, 1)
    with pytest.raises(EarmarkError, match="hash_size 8 is too small"):
        VcrIndex.build(table_arrays(many), store="hashed", hash_size=8)


def test_the_hash_spreads_clusters() -> None:
    """Activated VCRs come in clusters; neighbours must not end up in neighbouring places."""
    size = 1_009
    for first, step in ((0, 1), (10**9, 1), (7, 24), (2**40, 64), (0, 2**32)):
        places = np.array([home(np.int64(first + i * step), size) for i in range(4 * size)])
        assert places.min() >= 0
        assert places.max() < size
        assert np.bincount(places, minlength=size).max() <= 16
    keys = np.full(64, EMPTY, np.int64)
    assert add_keys(np.arange(30, dtype=np.int64) // 2, keys, 64) == 15
    assert sorted(keys[keys != EMPTY].tolist()) == list(range(15))


@pytest.mark.skipif(PLAIN, reason="this is the run without the JIT")
@pytest.mark.slow
def test_the_same_without_the_jit() -> None:
    assert "Warning" not in output_without_jit(__file__)


def test_the_drawing_of_the_arrays() -> None:
    """The example of the arrays' docstring, in both stores."""
    rows = [((1, 3), (1, 2)), ((2, 2), (1, 3))]
    made = Made(
        [Subscription([{0: Constraint([x]), 1: Constraint([y])}], sequence=i) for i, (x, y) in enumerate(rows)], []
    )
    array, hashed = (VcrIndex.build(table_arrays(made), longest=(2, 1), store=store).arrays for store in STORES)
    assert array.cut_x.tolist()[1:] == [1, 2, 3, 4]
    assert array.cut_y.tolist()[1:] == [1, 3, 4]
    assert np.flatnonzero(np.diff(array.start)).tolist() == [53, 54, 60, 69]
    assert array.entry.tolist() == [1, 0, 0, 1]
    assert hashed.key.tolist() == [57, *[EMPTY] * 5, 74, EMPTY, 59, *[EMPTY] * 6, 58]
    assert hashed.start.tolist() == [0, 1, 1, 1, 1, 1, 1, 2, 2, 3, 3, 3, 3, 3, 3, 3, 4]
    assert hashed.entry.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(("longest", "least", "most"), [((16, 16), 5, 10), ((8, 8), 5, 10), (None, 38, 45)])
@pytest.mark.skipif(PLAIN, reason="slow without the JIT")
def test_entries_of_a_rectangle(longest: tuple[int, int] | None, least: int, most: int) -> None:
    """As many as the docstring of the index says."""
    made = skew("90-10", 8_000, events=1)
    assert least <= len(VcrIndex.build(made.table(), longest=longest).arrays.entry) / 8_000 <= most
