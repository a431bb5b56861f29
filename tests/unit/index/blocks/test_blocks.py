"""The blocks index against a plain Python loop, in every layout; its invariant; and arrays that are damaged."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.index.asked import (
    PLAIN,
    assert_alone,
    assert_nothing_found,
    assert_searches,
    changed,
    eligible,
    ends,
    made_of,
    mapped,
    nulls,
    output_without_jit,
    several_clauses,
)
from tests.unit.made import (
    GREATEST,
    Constraint,
    Made,
    Maker,
    Subscription,
    Value,
    event_arrays,
    table_arrays,
)

from earmark import index
from earmark.errors import EarmarkError
from earmark.flat import bits
from earmark.index import blocks
from earmark.index.blocks import BlockIndex, axes, build
from earmark.index.blocks.arrays import ALWAYS, BEGIN, BLOCKS, END, PAIR, UNUSED, VACANT, BlockArrays, tree_rows
from earmark.index.blocks.dominance import LANES, PADDING
from earmark.index.scan import Scan
from earmark.segment.arrays import SegmentArrays
from earmark.workload.standard import WORKLOADS, Workload

ALL_LOOSE, NONE_LOOSE = 10**9, 1
LAYOUTS: dict[str, dict[str, int]] = {
    "as it comes": {},
    "trees by set": {"FEWEST": NONE_LOOSE, "FEW_AXES": 0, "FIRST_TIER": LANES},
    "trees of all axes": {"FEWEST": NONE_LOOSE, "FEW_AXES": 1000, "SMALL_SETS": 10**9, "FIRST_TIER": LANES},
    "loose": {"FEWEST": ALL_LOOSE},
    "coarse codes in trees": {"FEWEST": NONE_LOOSE, "FIRST_TIER": LANES, "MOST_CUTS": 3, "SAMPLED_CUTS": 3},
    "coarse codes, loose": {"FEWEST": ALL_LOOSE, "MOST_CUTS": 3, "SAMPLED_CUTS": 3},
    "two axes, in trees": {"FEWEST": NONE_LOOSE, "FEW_AXES": 0, "MOST_AXES": 2, "FIRST_TIER": LANES},
    "two axes, loose": {"FEWEST": ALL_LOOSE, "FEW_AXES": 0, "MOST_AXES": 2},
}
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def laid_out(table: SegmentArrays, layout: str = "as it comes") -> BlockIndex:
    """The index with the constants of a layout."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in LAYOUTS[layout].items():
            patch.setattr(axes if hasattr(axes, name) else build, name, value)
        made = BlockIndex.build(table)
        made.check()
    assert_invariant(made, table)
    return made


def assert_invariant(built: BlockIndex, table: SegmentArrays) -> None:
    """Every clause is one entry; corners are at least what is below them; buckets hold all loose entries."""
    arrays = built.arrays
    used = arrays.entry_slot != UNUSED
    assert sorted(arrays.entry_clause[used].tolist()) == list(range(len(table.constraint_start) - 1))
    assert np.array_equal(arrays.entry_sequence[used], table.sequence[arrays.entry_slot[used]])
    assert int(used[int(arrays.info[BLOCKS]) * LANES :].sum()) == built.describe()["loose"]
    for tree, begin in enumerate(arrays.tree_code.tolist()):
        columns = 2 * int(arrays.tree_axis_start[tree + 1] - arrays.tree_axis_start[tree])
        blocks = int(arrays.tree_block[tree + 1] - arrays.tree_block[tree])
        rows = int(tree_rows(blocks))
        levels = arrays.codes[begin : begin + rows * columns * LANES].reshape(rows, columns, LANES)
        below = levels[:blocks]
        own = below.transpose(0, 2, 1).reshape(blocks * LANES, columns)
        assert (own[int(arrays.tree_size[tree]) :] == PADDING).all()
        done = blocks
        while done < rows:
            above = levels[done : done + -(-len(below) // LANES)]
            corners = above.transpose(0, 2, 1).reshape(len(above) * LANES, columns)[: len(below)]
            assert (corners[:, :, None] >= below).all()
            done, below = done + len(above), above
    pairs = arrays.pairs.reshape(-1, PAIR)
    taken = pairs[pairs[:, 0] != VACANT]
    assert int((taken[:, END] - taken[:, BEGIN]).sum()) == built.describe()["loose"]


@cache
def dense(subscriptions: int) -> Workload:
    return WORKLOADS["w2"](subscriptions=subscriptions)


@every_layout
@pytest.mark.parametrize("seed", range(1 if PLAIN else 4))
def test_answers_on_random_tables(seed: int, layout: str) -> None:
    made = Maker(seed).made(20 if PLAIN else 170, 6 if PLAIN else 20)
    built = laid_out(table_arrays(made), layout)
    assert_searches(made, built)
    assert_alone(made, built)


@settings(max_examples=max(1, settings.default.max_examples // (10 if PLAIN else 2)))
@given(seed=st.integers(0, 2**32), layout=st.sampled_from(sorted(LAYOUTS)), slots=st.integers(0, 90))
def test_answers_on_any_table(seed: int, layout: str, slots: int) -> None:
    made = Maker(seed).made(slots // 4 if PLAIN else slots, 6)
    assert_searches(made, laid_out(table_arrays(made), layout), (1, 5))


@every_layout
def test_answers_at_the_ends_of_the_key_space(layout: str) -> None:
    made = ends()
    assert_searches(made, laid_out(table_arrays(made), layout), (3,))


@every_layout
def test_null_and_no_constraint_at_all(layout: str) -> None:
    made = nulls()
    assert_searches(made, laid_out(table_arrays(made), layout), (4, 60))


def test_nothing_to_index() -> None:
    for made in (made_of([], [{}, {0: Value(1, 1)}]), Made([Subscription([])], [{}], eligible=[True])):
        assert_nothing_found(laid_out(table_arrays(made)), made)


@every_layout
def test_several_clauses_answer_once_with_the_best_score(layout: str) -> None:
    made = several_clauses(sorted(LAYOUTS).index(layout))
    assert_searches(made, laid_out(table_arrays(made), layout), (1, 2, 7, 500))


@pytest.mark.skipif(PLAIN, reason="thousands of subscriptions take minutes without the JIT")
@pytest.mark.parametrize("layout", ["as it comes", "trees by set", "trees of all axes", "coarse codes in trees"])
@pytest.mark.parametrize("columns", ["plain", "scored", "weighted"])
def test_trees_of_three_levels(layout: str, columns: str) -> None:
    """Against the scan, which has tests of its own: more than 64 blocks, and several tiers."""
    rng = np.random.default_rng(5)
    workload = dense(12_000)
    table, events = workload.table(), workload.events()
    events = events._replace(start=events.start[:200])
    if columns != "plain":
        table = table._replace(score=rng.choice([0.0, 0.1, 0.3, 5.0, -1.0], 12_000))
    if columns == "weighted":
        table = table._replace(weight=rng.random(60_000))
        events = events._replace(weight=rng.random(len(events.attr)))
    table = table._replace(sequence=rng.permutation(12_000))
    built, scan = laid_out(table, layout), Scan(table)
    alive = bits.from_slots(np.flatnonzero(rng.random(12_000) < 0.9), 12_000)
    for k in (1, 10, 300):
        for found, wanted in zip(built.top_k_many(events, k, alive), scan.top_k_many(events, k, alive), strict=True):
            assert np.array_equal(found, wanted)
    for found, wanted in zip(built.match_many(events, alive), scan.match_many(events, alive), strict=True):
        assert np.array_equal(found, wanted)
    assert layout == "as it comes" or built.describe()["trees"] > 1
    assert (np.diff(built.arrays.tree_block) > LANES).any()


def test_ranked_search_leaves_out_tiers_that_cannot_win() -> None:
    workload = dense(400 if PLAIN else 12_000)
    table, events = workload.table(), workload.events()
    events = events._replace(start=events.start[: 3 if PLAIN else 200])
    built = laid_out(table, "trees by set")
    everything = bits.all_set(len(table.sequence))
    built.match_many(events, everything)
    leaves = built.work.leaves
    built.top_k_many(events, 1, everything)
    assert PLAIN or (built.work.pruned > 0 and built.work.leaves < leaves)


def test_a_batch_that_a_scan_answers_sooner_goes_there(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Maker(7).made(20 if PLAIN else 100, 5 if PLAIN else 30)
    built = laid_out(table_arrays(made), "loose")
    monkeypatch.setattr(blocks, "SMALL", 0)
    for asked, scanned in ((4, 0), (4, 10**9), (1000, 0)):
        monkeypatch.setattr(blocks, "ASKED_FROM", asked)
        monkeypatch.setattr(blocks, "SCANNED", scanned)
        assert_searches(made, built, (3,))
        built.match_many(event_arrays(made, made.events), eligible(made))
        assert (built.work.nodes == 0) == (asked == 4 and scanned == 0)


def test_codes_do_not_tell_apart_more_ends_than_there_are_codes() -> None:
    count = 300 if PLAIN else 70_000
    lo = np.arange(count, dtype=np.int64) * 3
    starts = np.arange(count + 1, dtype=np.int32)
    zeros = np.zeros(count, np.int32)
    no = np.empty(0)
    table = SegmentArrays(starts, starts, zeros, zeros.astype(np.uint8), starts, lo, lo + 4, no, no, np.arange(count))
    built = BlockIndex.build(table)
    assert built.describe()["inexact_axes"] == (0 if PLAIN else 1)
    made = made_of([], [{0: Value(int(v), int(v))} for v in (-1, 0, 3, 4, 5, 299, 3 * count, 3 * count + 1, GREATEST)])
    events, alive = event_arrays(made, made.events), bits.all_set(count)
    for found, wanted in zip(built.match_many(events, alive), Scan(table).match_many(events, alive), strict=True):
        assert np.array_equal(found, wanted)


# --- stored arrays -------------------------------------------------------------------------------------------------


@every_layout
def test_arrays_come_back(layout: str, tmp_path: Path) -> None:
    made = Maker(3).made(20 if PLAIN else 120, 8)
    built = laid_out(table_arrays(made), layout)
    restored = index.restore("blocks", table_arrays(made), mapped(index.stored(built), tmp_path))
    assert isinstance(restored, BlockIndex)
    assert all(not column.flags.writeable for column in restored.arrays)
    assert (restored.nbytes, restored.describe()) == (built.nbytes, built.describe())
    assert_searches(made, restored)


def test_broken_arrays_are_refused() -> None:
    made = Maker(4).made(150, 3)
    table = table_arrays(made)
    built = BlockIndex.build(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "FEWEST", 8)
        patch.setattr(build, "FEW_AXES", 0)
        built = BlockIndex.build(table)
    good: dict[str, Any] = built.arrays._asdict()
    assert built.describe()["loose"] > 0 < built.describe()["trees"]
    BlockIndex.restore(table, good)

    taken = np.flatnonzero(good["pairs"][::PAIR] != VACANT) * PAIR
    torn = [
        ({name: column for name, column in good.items() if name != "codes"}, "missing: codes"),
        ({**good, "codes": good["codes"].astype(np.int32)}, "codes is not a row of int16"),
        ({**good, "codes": good["codes"][:-1]}, "codes do not fit"),
        (changed(good, "info", 0, 10**6), "another number of slots"),
        (changed(good, "info", 1, 10**6), "tree_block"),
        (changed(good, "attr_axis", 1, 10**6), "attr_axis"),
        (changed(good, "cut_start", 1, 10**6), "cut_start descends"),
        (changed(good, "tree_axis", 0, 10**6), "tree_axis names"),
        (changed(good, "tree_code", 0, 64), "codes do not fit"),
        (changed(good, "tree_size", 0, 10**6), "do not fit their blocks"),
        (changed(good, "tree_size", 0, -5), "do not fit their blocks"),
        (changed(good, "tree_tier", 0, -1), "a tier is odd"),
        (changed(good, "route", 0, 10**6), "route names"),
        (changed(good, "route_start", -2, -1), "route_start descends"),
        (changed(good, "entry_slot", 0, -7), "entry_slot names"),
        (changed(good, "entry_clause", 0, 10**6), "not of its slot"),
        (changed(good, "pairs", slice(0, None, PAIR), 0), "pairs is full"),
        (changed(good, "pairs", taken[0] + END, 10**6), "once each"),
        (changed(good, "pairs", taken + BEGIN, 0), "once each"),
        (changed(good, "record", 0, 399), "record names"),
        (changed(good, "record_start", 1, -1), "record_start descends"),
        ({**good, "loose_signature": good["loose_signature"][:-1]}, "loose entries differ"),
        ({**good, "verify": good["verify"][:-1]}, "verify or shared"),
        ({**good, "pairs": good["pairs"][: 3 * PAIR]}, "odd length"),
    ]
    for arrays, message in torn:
        with pytest.raises(AssertionError, match=message):
            BlockIndex.restore(table, arrays)
    for name in BlockArrays._fields:
        if len(good[name]) and name not in ("tree_axis_weight", "entry_score", "block_score", "block_weight"):
            with pytest.raises(AssertionError):
                BlockIndex.restore(table, {**good, name: good[name][:0]})


def test_check_names_what_is_broken() -> None:
    table = table_arrays(Maker(5).made(100, 3))
    arrays = BlockIndex.build(table).arrays
    for name in ("codes", "record", "verify", "cuts"):
        column = getattr(arrays, name)
        if len(column) and name != "record":
            column = column.copy()
            column[0] ^= 1
            with pytest.raises(AssertionError, match=name):
                BlockIndex(table, arrays._replace(**{name: column})).check()


def test_any_damage_is_refused_or_harmless() -> None:
    """Numbers at random places: kernels stay inside their arrays, whatever they then answer."""
    made = Maker(6).made(80, 4)
    table, events = table_arrays(made), event_arrays(made, made.events)
    rng = np.random.default_rng(8)
    for layout in ("as it comes", "trees by set", "loose"):
        good: dict[str, Any] = laid_out(table, layout).arrays._asdict()
        for _ in range(3 if PLAIN else 60):
            name = rng.choice([name for name in good if len(good[name])])
            column = good[name].copy()
            column[rng.integers(len(column))] = rng.choice([0, 1, 3, 100])
            try:
                restored = BlockIndex.restore(table, {**good, name: column})
            except AssertionError:
                continue
            restored.match_many(events, eligible(made))
            restored.top_k_many(events, 3, eligible(made))


# --- the rest ------------------------------------------------------------------------------------------------------


def test_bad_arguments_get_a_sentence() -> None:
    made = Maker(2).made(5, 2)
    built = BlockIndex.build(table_arrays(made))
    events = event_arrays(made, made.events)
    with pytest.raises(EarmarkError, match="no event 2"):
        built.match(events, eligible(made), 2)
    with pytest.raises(EarmarkError, match="no event -1"):
        built.top_k(events, 3, eligible(made), e=-1)
    with pytest.raises(EarmarkError, match="at least 1"):
        built.top_k_many(events, 0, eligible(made))


def test_a_clause_passes_columns_that_it_does_not_constrain() -> None:
    """One tree for all axes: what a clause does not ask for, an event need not have."""
    clauses = [{0: Constraint([(1, 2)])}, {1: Constraint([(1, 2)])}] * 40
    made = made_of(clauses, [{0: Value(1, 1)}, {1: Value(2, 2)}, {}])
    built = laid_out(table_arrays(made), "trees of all axes")
    assert (built.arrays.codes == ALWAYS).any()
    assert_searches(made, built)


@pytest.mark.slow
@pytest.mark.skipif(PLAIN, reason="this is it")
def test_the_same_without_the_jit() -> None:
    output_without_jit(__file__)


@pytest.mark.parametrize("name", ["w1u", "w2"])
def test_clauses_are_read_in_parts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = WORKLOADS[name](subscriptions=1_000).table()
    whole = build.built(table)
    monkeypatch.setattr(build, "AT_ONCE", 64)
    for one, other in zip(build.built(table), whole, strict=True):
        assert np.array_equal(one, other)
