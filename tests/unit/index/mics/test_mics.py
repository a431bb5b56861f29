"""MICS's Subscription Indexing against a plain Python loop, in every space; its worked example; and what it chooses."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.unit.index.asked import (
    MICS_WAYS,
    PLAIN,
    assert_answers,
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
    LEAST,
    Constraint,
    Made,
    Maker,
    Subscription,
    Value,
    event_arrays,
    table_arrays,
)

from earmark.curves.hilbert import mean_ranges
from earmark.curves.space import boxes_of_clauses, ranges_of_boxes
from earmark.errors import EarmarkError
from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.index.mics import MicsIndex
from earmark.index.mics import build as building
from earmark.index.mics.arrays import LEVEL_BITS, SHIFT, SLOTS, TOP_LEVEL
from earmark.index.mics.plan import chosen_attributes
from earmark.index.scan import Scan
from earmark.workload.mics import mics

FEW = ((1, False), (3, True), (1000, False))
COUNT = 15 if PLAIN else 150
every_way = pytest.mark.parametrize("way", MICS_WAYS[:: 4 if PLAIN else 1], ids=str)


@pytest.fixture(params=[1 / 8, 2.0], ids=["some scanned", "all in lists"])
def scanned(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is, and with nothing left to the scan but what has no box at all."""
    monkeypatch.setattr(building, "SCANNED", request.param)


def boxes(count: int, seed: int, side: int = 60, attributes: int = 4) -> Made:
    """Small boxes on all attributes, and events that are points, or an interval somewhere, or lack something."""
    random = Random(seed)
    made = Made([], [])
    for i in range(count):
        lows = [random.randrange(side) for _ in range(attributes)]
        clause = {a: Constraint([(lo, lo + random.choice((0, 1, 5, 17)))]) for a, lo in enumerate(lows)}
        made.subscriptions.append(Subscription([clause], sequence=i))
        made.eligible.append(random.random() < 0.9)
    for _ in range(30):
        event = {a: Value(v, v) for a in range(attributes) if (v := random.randrange(-2, side + 20)) < side + 19}
        if random.random() < 0.4:
            for value in random.sample(list(event.values()), min(2, len(event))):
                value.hi += random.choice((1, 3, 40))
        made.events.append(event)
    return made


@pytest.mark.usefixtures("scanned")
@every_way
def test_answers_on_boxes(way: dict[str, Any]) -> None:
    made = boxes(COUNT, 1)
    table = table_arrays(made)
    assert_answers(made, MicsIndex.build(table, **way), FEW)
    learned = MicsIndex.build(table, **way, events=event_arrays(made, made.events))
    learned.check()
    assert learned.describe()["learned_from"] == "events"
    assert_matches(made, learned, made.events)


def test_the_drawing_of_the_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of the arrays' docstring."""
    monkeypatch.setattr(building, "SCANNED", 1.0)
    rows = [((20, 39), (10, 29)), ((10, 29), (10, 19)), ((20, GREATEST), (LEAST, 29))]
    made = Made(
        [Subscription([{0: Constraint([x]), 1: Constraint([y])}], sequence=i) for i, (x, y) in enumerate(rows)], []
    )
    made.eligible = [True] * 3
    table = table_arrays(made)
    index = MicsIndex.build(table, attributes=(0, 1))
    index.check()
    arrays = index.arrays
    assert arrays.cuts.tolist() == [10, 20, 30, 40, 10, 20, 30]
    assert arrays.bits.tolist() == [3]
    low, high = boxes_of_clauses(index.space, table, np.arange(3))
    assert low.tolist() == [[3, 2], [2, 2], [3, 1]]
    assert high.tolist() == [[4, 3], [3, 2], [5, 3]]
    start, first, last = ranges_of_boxes(index.space, low, high)
    pairs = list(zip(first.tolist(), last.tolist(), strict=True))
    assert [pairs[a:b] for a, b in pairwise(start)] == [[(9, 10), (53, 54)], [(8, 9)], [(6, 6), (9, 10), (52, 57)]]
    begins, sizes = arrays.code >> LEVEL_BITS, 1 << (TOP_LEVEL - (arrays.code & TOP_LEVEL))
    assert begins.tolist() == [6, 8, 9, 10, 52, 53, 54, 56]
    assert sizes.tolist() == [1, 2, 1, 1, 4, 1, 1, 2]
    assert arrays.parent.tolist() == [-1, -1, 1, -1, -1, 4, 4, -1]
    assert arrays.start.tolist() == [0, 1, 2, 4, 6, 7, 8, 9, 10]
    assert arrays.entry.tolist() == [2, 1, 0, 2, 0, 2, 2, 0, 0, 2]
    assert_matches(made, index, [{0: Value(25, 25), 1: Value(15, 15)}])
    assert (index.work.nodes, index.work.candidates, index.work.matched) == (2, 3, 3)
    assert_matches(made, index, [{0: Value(35, 35), 1: Value(15, 15)}, {0: Value(25, 45), 1: Value(25, 99)}, {}])


@pytest.mark.usefixtures("scanned")
def test_null_has_a_cell_of_its_own() -> None:
    kinds = [
        Constraint([(1, 4)], accepts_null=True),
        Constraint([], accepts_null=True),
        Constraint([(LEAST, GREATEST)]),
        Constraint([(6, 9)]),
    ]
    made = Made(
        [Subscription([{0: kind, 1: Constraint([(i % 7, i % 7)])}], sequence=i) for i, kind in enumerate(kinds * 6)], []
    )
    made.eligible = [True] * len(made.subscriptions)
    made.events = [{1: Value(v, v)} for v in range(8)] + [{0: Value(a, a), 1: Value(2, 2)} for a in range(11)] + [{}]
    for way in ({}, {"attributes": (0, 1)}, {"attributes": (0,), "bits": 4}):
        index = MicsIndex.build(table_arrays(made), **way)
        index.check()
        assert_matches(made, index, made.events)


def test_attributes_are_chosen_one_after_the_other() -> None:
    """The narrowest is in few subscriptions, so it is worth less than two that all have."""
    table = table_arrays(selective())
    assert chosen_attributes(table, 2) == [1, 2]
    assert chosen_attributes(table, 1) == [1]
    assert chosen_attributes(table, 1, taken=[1]) == [2]
    assert chosen_attributes(table_arrays(Made([Subscription([{0: Constraint([(0, 1)], True)}])], [])), 3) == []


def test_few_ranges_a_clause() -> None:
    """However large a box is, it has at most so many blocks; and small boxes have about MEAN_RANGES."""
    workload = mics("uniform", 100 if PLAIN else 2_000, 10)
    for pieces in (5,) if PLAIN else (1, 5, 64):
        index = MicsIndex.build(workload.table(), attributes=(0, 1, 2), bits=8, pieces=pieces)
        each = np.bincount(index.arrays.entry, minlength=len(workload.sub_attr))
        assert each.max() <= pieces
        index.check()
    assert MicsIndex.build(workload.table()).describe()["entries_each"] < 20
    sides = np.array([[4, 4, 4]])
    assert mean_ranges(sides * 0, sides - 1).tolist() == [16.0]


@pytest.mark.parametrize("distribution", ["uniform", "zipf"])
def test_equal_to_scan_on_the_paper_s_data(distribution: str) -> None:
    workload = mics(distribution, 100 if PLAIN else 5_000, 5 if PLAIN else 500, grain=7)
    table, events, every = workload.table(), workload.events(), bits.all_set(len(workload.sub_attr))
    wanted = Scan(table).match_many(events, every)
    for way in ({}, {"attributes": (0, 1, 2), "bits": 8, "cells": "equal"}, {"events": events}):
        index = MicsIndex.build(table, **way)
        for got, one in zip(index.match_many(events, every), wanted, strict=True):
            assert np.array_equal(got, one)
        assert index.work.candidates < 0.25 * len(workload.sub_attr) * len(workload.event_attr)


def test_variable_cells_leave_fewer_candidates() -> None:
    workload = mics("zipf", 300 if PLAIN else 5_000, 20 if PLAIN else 500, attributes=3, grain=64)
    every = bits.all_set(len(workload.sub_attr))
    found = {}
    for cells in ("equal", "variable"):
        index = MicsIndex.build(workload.table(), attributes=(0, 1, 2), bits=5, cells=cells)
        index.match_many(workload.events(), every)
        found[cells] = index.work.candidates
    assert found["variable"] < 0.8 * found["equal"]


@pytest.mark.usefixtures("scanned")
def test_who_meets_a_subscription() -> None:
    """Every slot that an event could match together with the subscription is found; far ones are not."""
    made = boxes(COUNT, 3)
    table = table_arrays(made)
    index = MicsIndex.build(table, attributes=(0, 1), bits=4)
    pointers, slots = index.meeting(table, np.arange(COUNT, dtype=np.int32))
    ends = np.array([[list(s.clauses[0][a].intervals[0]) for a in range(4)] for s in made.subscriptions])
    overlap = ((ends[:, None, :, 0] <= ends[None, :, :, 1]) & (ends[None, :, :, 0] <= ends[:, None, :, 1])).all(axis=2)
    far = (ends[:, None, :2, 0] > ends[None, :, :2, 1] + 40).any(axis=2)
    for slot, (a, b) in enumerate(pairwise(pointers)):
        found = slots[a:b]
        assert (np.diff(found) > 0).all()
        assert np.isin(np.flatnonzero(overlap[slot]), found).all()
        if not index.describe()["scanned"]:
            assert not np.isin(np.flatnonzero(far[slot]), found).any()
    assert index.work.candidates == len(slots)
    odd = Made(
        [
            Subscription([]),
            Subscription([{0: Constraint([])}]),
            Subscription([{}]),
            Subscription([{0: Constraint([(0, 1)])}, {1: Constraint([], True)}]),
        ],
        [],
    )
    pointers, slots = index.meeting(table_arrays(odd), np.arange(4, dtype=np.int32))
    assert pointers[:3].tolist() == [0, 0, 0]
    assert slots[pointers[2] : pointers[3]].tolist() == list(range(COUNT))
    assert_matches(made, index, made.events)


# --- change ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("scanned")
def test_inserts_and_removals() -> None:
    for seed in range(1 if PLAIN else 4):
        total = min(COUNT, 70)
        made = boxes(total, seed) if seed % 2 else Maker(seed + 7).made(total, 20)
        half = total // 3
        index = MicsIndex.build(table_arrays(part_of(made, half)))
        for count in (half + 1, half + 7, total):  # the last more than doubles the table
            before, known = index.copy(), int(index.arrays.info[SLOTS])
            index.insert(table_arrays(part_of(made, count)), np.arange(half, count, dtype=np.int32))
            index.check()
            before.check()
            assert before.arrays.info[SLOTS] == known
            assert_matches(part_of(made, count), index, made.events)
            half = count
        gone = np.arange(0, total, 5, dtype=np.int32)
        index.remove(gone)
        assert not np.isin(index.arrays.entry, gone).any()
        for slot in gone:
            made.eligible[slot] = False
        assert_answers(made, index, FEW)


def test_slots_that_are_never_taken_in_are_not_known() -> None:
    made = boxes(60, 8)
    index = MicsIndex.build(table_arrays(part_of(made, 40)))
    index.insert(table_arrays(made), np.array([45, 59], np.int32))
    index.check()
    made.eligible = [made.eligible[s] and (s < 40 or s in (45, 59)) for s in range(60)]
    assert_matches(made, index, made.events)


def test_slots_past_those_it_knows_are_never_answered() -> None:
    made = boxes(30, 4)
    index = MicsIndex.build(table_arrays(part_of(made, 9)))
    made.events.append({a: Value(-5, 99) for a in range(4)})
    assert_only_known(made, index, 9, 30)


def test_adapting_to_events() -> None:
    """Bounds all over the place, events in a corner: cells learned from them tell subscriptions there apart."""
    random = np.random.default_rng(1)
    count = 60 if PLAIN else 2_000
    lo = random.integers(0, 10**6, (count, 2))
    lo[::2] = random.integers(0, 100, (len(lo[::2]), 2))
    made = Made(
        [
            Subscription([{a: Constraint([(int(x), int(x) + 4)]) for a, x in enumerate(row)}], sequence=i)
            for i, row in enumerate(lo)
        ],
        [],
    )
    made.eligible = [True] * count
    made.events = [{0: Value(x, x), 1: Value(y, y)} for x, y in random.integers(0, 100, (40, 2)).tolist()]
    events = event_arrays(made, made.events)
    index = MicsIndex.build(table_arrays(made), attributes=(0, 1), bits=4)
    found = index.adapt(events)
    assert found.after < 0.6 * found.before
    assert_answers(made, index, FEW)
    index.insert(table_arrays(made), np.empty(0, np.int32))
    assert index.describe()["learned_from"] == "events"
    index.adapt(
        EventArrays._make(column[:0] if name != "start" else column[:1] for name, column in events._asdict().items())
    )
    assert_matches(made, index, made.events)


# --- arrays ------------------------------------------------------------------------------------------------------


@every_way
def test_arrays_come_back(way: dict[str, Any], tmp_path: Path) -> None:
    made = boxes(60, 9)
    index = MicsIndex.build(table_arrays(part_of(made, 50)), **way)
    index.insert(table_arrays(made), np.arange(50, 60, dtype=np.int32))
    index.remove(np.array([3], np.int32))
    made.eligible[3] = False
    restored = MicsIndex.restore(table_arrays(made), mapped(index.arrays._asdict(), tmp_path))
    assert all(not column.flags.writeable for column in restored.arrays)
    assert restored.nbytes == index.nbytes
    assert restored.describe() == index.describe()
    assert_answers(made, restored, FEW)
    restored.insert(table_arrays(made), np.empty(0, np.int32))
    restored.check()


def test_broken_arrays_are_refused() -> None:
    made = boxes(60, 10)
    table = table_arrays(made)
    good = MicsIndex.build(table, attributes=(0, 2), bits=4).arrays._asdict()
    MicsIndex.restore(table, good)

    torn = [
        ({name: column for name, column in good.items() if name != "entry"}, "missing: entry"),
        ({**good, "start": good["start"].astype(np.int32)}, "start is not a row of int64"),
        ({**good, "info": good["info"][:-1]}, "info has another length"),
        (changed(good, "info", SLOTS, 10**6), "knows more slots"),
        (changed(good, "info", SLOTS, 50), "an entry is not a slot"),
        (changed(good, "info", SHIFT, 70), "jump does not fit"),
        (changed(good, "info", SHIFT, -1), "jump does not fit"),
        (changed(good, "info", 3, 7), "an option is unknown"),
        (changed(good, "bits", 0, 60), "bits of an axis"),
        (changed(good, "bits", 0, 3), "too many cuts"),
        (changed(good, "cut_start", 1, 10**6), "too many cuts"),
        (changed(good, "cuts", 1, GREATEST), "cuts do not ascend"),
        (changed(good, "attr", 0, 10**6), "an axis has no attribute"),
        (changed(good, "axis_of", 0, 5), "attributes and axes"),
        (changed(good, "code", 0, GREATEST), "blocks do not ascend"),
        (changed(good, "code", -1, GREATEST), "not on the curve"),
        (changed(good, "code", 0, good["code"][0] & ~63), "not on the curve"),
        (changed(good, "parent", 3, 3), "not behind its parent"),
        (changed(good, "parent", 0, -2), "not behind its parent"),
        (changed(good, "start", 1, 10**6), "start does not ascend"),
        (changed(good, "entry", 0, 60), "an entry is not a slot"),
        (changed(good, "entry", 0, -1), "an entry is not a slot"),
        (changed(good, "jump", 1, 10**6), "jump leaves the blocks"),
        (changed(good, "sieve_cuts", 0, GREATEST), "cuts do not ascend"),
        (changed(good, "sieve_attr", 0, -1), "no such attribute"),
        ({**good, "sieve": good["sieve"][:-1]}, "the sieve does not fit"),
        ({**good, "residual": good["residual"][:0]}, "residual has the wrong length"),
        ({**good, "residual": good["placed"]}, "in the lists and scanned"),
    ]
    for arrays, message in torn:
        with pytest.raises(AssertionError, match=message):
            MicsIndex.restore(table, arrays)
    with pytest.raises(AssertionError, match="knows more slots than there are"):
        MicsIndex.restore(table_arrays(part_of(made, 30)), good)


def test_check_names_what_is_broken() -> None:
    made = boxes(60, 11)
    table = table_arrays(made)
    arrays = MicsIndex.build(table).arrays
    for change, message in (
        ({"entry": arrays.entry[::-1].copy()}, "entry is not what the slots make"),
        ({"parent": np.full_like(arrays.parent, -1)}, "parent is not what the slots make"),
        ({"jump": arrays.jump * 0}, "jump is not what the slots make"),
        ({"sieve": arrays.sieve * np.uint64(0)}, "sieve is not what the slots make"),
    ):
        with pytest.raises(AssertionError, match=message):
            MicsIndex(table, arrays._replace(**change)).check()


def test_bad_arguments_get_a_sentence() -> None:
    made = Maker(1).made(3, 1)
    table = table_arrays(made)
    assert_refuses(MicsIndex.build(table), made)
    for options, message in (
        ({"attributes": ()}, "1 to 12 different attribute numbers"),
        ({"attributes": (1, 1)}, "different attribute numbers"),
        ({"attributes": (-1,)}, "different attribute numbers"),
        ({"attributes": ("a",)}, "different attribute numbers"),
        ({"bits": 0}, "expected bits from 1 to 16"),
        ({"attributes": tuple(range(8)), "bits": 8}, "expected bits from 1 to 7 for 8 attributes"),
        ({"cells": "round"}, "expected equal or variable for cells, got 'round'"),
        ({"most": 0}, "expected a number of attributes"),
        ({"pieces": 0}, "expected a number of blocks"),
    ):
        with pytest.raises(EarmarkError, match=message):
            MicsIndex.build(table, **options)  # type: ignore[arg-type]


@pytest.mark.skipif(PLAIN, reason="this is the run without the JIT")
@pytest.mark.slow
def test_the_same_without_the_jit() -> None:
    assert "Warning" not in output_without_jit(__file__)
