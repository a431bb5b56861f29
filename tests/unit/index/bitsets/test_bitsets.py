"""The bitsets index against a plain Python loop and the scan, in every layout; its invariant; damaged arrays."""

from __future__ import annotations

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
from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.index.bitsets import FEW_EVENTS, BitsetIndex, build, vectors
from earmark.index.bitsets.arrays import (
    ALL,
    LINE,
    MOST_CODED,
    NONE,
    REGION,
    UNCOUNTED,
    WORDS,
    BitsetArrays,
    columns_of,
)
from earmark.index.bitsets.search import LANES, TOGETHER
from earmark.index.driver import FIRST_ROOM
from earmark.index.one import borrow, give_back
from earmark.index.scan import Scan
from earmark.segment.arrays import EMPTY, SegmentArrays
from earmark.threads import at_most

LAYOUTS: dict[str, dict[str, int]] = {
    "as it comes": {},
    "one bucket": {"buckets": 1},
    "coarse codes": {"MOST_CUTS": 3},
    "coarse codes of a few ranges": {"MOST_CUTS": 3, "SAMPLE": 4},
    "exact codes, of more ranges than a sample has": {"SAMPLE": 4},
    "two attributes have buckets": {"MOST_BUCKETS": 6},
    "no attribute has buckets": {"MOST_BUCKETS": 0},
}
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def laid_out(table: SegmentArrays, layout: str = "as it comes") -> BitsetIndex:
    """The index with the option and the constants of a layout."""
    with pytest.MonkeyPatch.context() as patch:
        options = dict(LAYOUTS[layout])
        buckets = options.pop("buckets", 32)
        for name, value in options.items():
            patch.setattr(build, name, value)
        built = BitsetIndex.build(table, buckets)
        built.check()
    return built


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
    built = laid_out(table_arrays(made), layout)
    assert_searches(made, built, (1, 5))
    assert_alone(made, built, 2)


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


# --- many regions, against the scan --------------------------------------------------------------------------------


def subsets(slots: int, attributes: int, chosen: int, width: float, seed: int = 1) -> SegmentArrays:
    """Subscriptions that constrain a random subset of the attributes, with ranges of this share of 10,000 keys."""
    rng = np.random.default_rng(seed)
    attr = np.sort(np.argsort(rng.random((slots, attributes)), axis=1)[:, :chosen], axis=1).astype(np.int32).ravel()
    lo = rng.integers(0, int(10_000 * (1 - width)), slots * chosen)
    starts = np.arange(slots * chosen + 1, dtype=np.int32)
    by_slot = np.arange(slots + 1, dtype=np.int32)
    null = (rng.random(slots * chosen) < 0.05).astype(np.uint8)
    hi = lo + int(10_000 * width)
    sequence = rng.permutation(slots)
    return SegmentArrays(by_slot, by_slot * np.int32(chosen), attr, null, starts, lo, hi, EMPTY, EMPTY, sequence)


def events_on(attributes: int, count: int, missing: float = 0.0, wide: float = 0.0, seed: int = 2) -> EventArrays:
    """Events with these attributes, some of which are missing, and some intervals."""
    rng = np.random.default_rng(seed)
    there = rng.random((count, attributes)) >= missing
    start = np.append(0, np.cumsum(there.sum(axis=1)))
    lo = rng.integers(0, 10_000, int(start[-1]))
    hi = lo + np.where(rng.random(len(lo)) < wide, rng.integers(0, 3_000, len(lo)), 0)
    return EventArrays(start, np.nonzero(there)[1].astype(np.int32), lo, hi, np.empty(0))


def assert_as_scan(built: BitsetIndex, table: SegmentArrays, events: EventArrays, singles: int = 10) -> None:
    """The same matches and the same ranks as the scan, in a batch and one by one."""
    slots, rng = len(table.sequence), np.random.default_rng(3)
    alive = bits.from_slots(np.flatnonzero(rng.random(slots) < 0.9), slots)
    scan, room = Scan(table), borrow()
    pointers, found = scan.match_many(events, alive)
    for got, wanted in zip(built.match_many(events, alive), (pointers, found), strict=True):
        assert np.array_equal(got, wanted)
    for got, wanted in zip(built.top_k_many(events, 7, alive), scan.top_k_many(events, 7, alive), strict=True):
        assert np.array_equal(got, wanted)
    for e in range(min(singles, len(events.start) - 1)):
        own = slice(int(events.start[e]), int(events.start[e + 1]))
        columns = (column[own].tolist() for column in (events.attr, events.lo, events.hi))
        room.take([(*entry, "") for entry in zip(*columns, strict=True)])
        assert built.match_one(room, alive) == found[pointers[e] : pointers[e + 1]].tolist()
        assert np.array_equal(built.match(events, alive, e), found[pointers[e] : pointers[e + 1]])
    give_back(room)


@pytest.mark.skipif(PLAIN, reason="thousands of subscriptions take minutes without the JIT")
@every_layout
@pytest.mark.parametrize(("missing", "wide"), [(0.0, 0.0), (0.1, 0.0), (0.0, 0.3), (0.2, 0.2)])
def test_several_regions(layout: str, missing: float, wide: float) -> None:
    table = subsets(2 * REGION + 3 * LINE + 7, 12, 6, 0.4)
    built = laid_out(table, layout)
    assert built.describe()["regions"] == 3
    assert_as_scan(built, table, events_on(14, 150, missing, wide))


@pytest.mark.skipif(PLAIN, reason="thousands of subscriptions take minutes without the JIT")
@pytest.mark.parametrize("count", [0, 1, 2, FEW_EVENTS, FEW_EVENTS + 1, LANES + 1])
def test_batches_of_any_size(count: int) -> None:
    table = subsets(REGION + 9, 6, 3, 0.6 if count < LANES else 0.2)
    assert_as_scan(laid_out(table), table, events_on(6, count), 2)


@pytest.mark.skipif(PLAIN, reason="thousands of subscriptions take minutes without the JIT")
@pytest.mark.parametrize("attributes", [MOST_CODED, MOST_CODED + 1, 100, 700])
def test_more_attributes_than_have_codes_or_buckets(attributes: int) -> None:
    table = subsets(REGION + 100, attributes, 5, 0.7)
    built = laid_out(table)
    arrays = built.arrays
    assert len(arrays.attr) == min(attributes, build.MOST_BUCKETS // 2)
    assert len(arrays.codes) == columns_of(attributes) * len(arrays.entry_slot) + vectors.COLUMNS
    number = arrays.number[table.attr].reshape(-1, 5)
    assert bits.count(arrays.verify) == ((number >= MOST_CODED) | (number == UNCOUNTED)).any(axis=1).sum()
    assert_as_scan(built, table, events_on(attributes, 60, 0.1))


@pytest.mark.skipif(PLAIN, reason="thousands of subscriptions take minutes without the JIT")
def test_answers_that_need_more_room() -> None:
    """Everything matches: more candidates than are compared together, and more answers than there is room for."""
    table = subsets(REGION + 1000, 4, 2, 0.99)
    built = laid_out(table)
    events = events_on(4, 60)
    assert_as_scan(built, table, events)
    built.match_many(events, bits.all_set(REGION + 1000))
    work = built.work
    assert work.matched > 10 * FIRST_ROOM > TOGETHER
    singly = [built.match(events, bits.all_set(REGION + 1000), e) for e in range(60)]
    assert work.matched == sum(map(len, singly))
    assert work.candidates >= work.matched


@pytest.mark.skipif(PLAIN, reason="thousands of subscriptions take minutes without the JIT")
@pytest.mark.parametrize("columns", ["plain", "scored", "weighted", "weighted events"])
def test_ranked_search_leaves_out_regions_that_cannot_win(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answers from the best tiers alone, in a batch and one by one; `plain` is a tie of all, by age."""
    monkeypatch.setattr(build, "FIRST_TIER", REGION)
    slots, rng = 20 * REGION + 77, np.random.default_rng(4)
    table, events = subsets(slots, 8, 3, 0.5), events_on(8, 40)
    if columns != "plain":
        table = table._replace(score=rng.choice([0.0, 0.1, 0.3, 5.0, -1.0], slots))
    if columns.startswith("weighted"):
        table = table._replace(weight=rng.random(3 * slots))
    if columns == "weighted events":
        events = events._replace(weight=rng.random(len(events.attr)))
    built, scan, alive = BitsetIndex.build(table), Scan(table), bits.all_set(slots)
    for k in (1, 10, 3000):
        wanted = scan.top_k_many(events, k, alive)
        for got, column in zip(built.top_k_many(events, k, alive), wanted, strict=True):
            assert np.array_equal(got, column)
        for e in range(3):
            slots_, scores = built.top_k(events, k, alive, False, e)
            own = slice(int(wanted[0][e]), int(wanted[0][e + 1]))
            assert np.array_equal(slots_, wanted[1][own]) and np.array_equal(scores, wanted[2][own])
    built.match_many(events, alive)
    everything = built.work.nodes
    built.top_k_many(events, 10, alive)
    assert built.work.nodes < everything / (1.1 if columns == "weighted events" else 3)
    assert built.work.pruned > 0


@pytest.mark.skipif(PLAIN, reason="thousands of subscriptions take minutes without the JIT")
def test_similar_entries_are_together() -> None:
    """On the data that it is for, most lines are ruled out before a row is read."""
    slots = 20 * REGION
    table = subsets(slots, 20, 10, 0.398)
    built = BitsetIndex.build(table)
    events = events_on(20, 50)
    built.match_many(events, bits.all_set(slots))
    assert built.work.nodes < 50 * 20
    assert built.work.compared < 0.6 * 50 * 20 * slots // LINE


# --- the invariant -------------------------------------------------------------------------------------------------


def bit_of(arrays: BitsetArrays, bucket: int, entry: int) -> bool:
    """Whether an entry may pass in a bucket."""
    regions = -(-len(arrays.entry_slot) // REGION)
    row = int(arrays.row[bucket * regions + entry // REGION])
    if row < 0:
        return row == ALL
    return bool(int(arrays.rows[row * WORDS + entry % REGION // 64]) >> entry % 64 & 1)


@every_layout
def test_a_bit_that_is_not_set_means_that_the_constraint_fails(layout: str) -> None:
    made = Maker(9).made(15 if PLAIN else 60, 1)
    table = table_arrays(made)
    arrays = laid_out(table, layout).arrays
    clauses = [clause for one in made.subscriptions for clause in one.clauses]
    lines = bits.words_for(-(-len(clauses) // LINE))
    assert sorted(arrays.entry_clause.tolist()) == list(range(len(clauses)))
    for i, attr in enumerate(arrays.attr.tolist()):
        cuts = arrays.cuts[arrays.cut_start[i] : arrays.cut_start[i + 1]]
        first, null = int(arrays.bucket_start[i]), int(arrays.bucket_start[i + 1]) - 1
        keys = {key for clause in clauses if attr in clause for pair in clause[attr].intervals for key in pair}
        for entry, clause in enumerate(arrays.entry_clause.tolist()):
            constraint = clauses[clause].get(attr)
            assert bit_of(arrays, null, entry) == (constraint is None or constraint.accepts_null)
            for key in keys:
                code = int(np.searchsorted(cuts, key, "right"))
                bucket = first + code * (null - first) // (len(cuts) + 1)
                if constraint is None or constraint.holds(Value(key, key)):
                    assert bit_of(arrays, bucket, entry)
                    assert int(arrays.some[bucket * lines]) & 1


def test_rows_are_shared_and_left_out() -> None:
    """An attribute that few constrain costs few rows, and a region without it none."""
    clauses: list[dict[int, Constraint]] = [{0: Constraint([(i, i + 5)])} for i in range(300)]
    for i in (3, 5):
        clauses[i][1] = Constraint([(10 * i, 10 * i + 3)])
    built = BitsetIndex.build(table_arrays(made_of(clauses, [])))
    arrays = built.arrays
    i = int(arrays.number[1])
    rows = arrays.row[arrays.bucket_start[i] : arrays.bucket_start[i + 1]]
    assert len(set(rows.tolist())) <= 4
    assert (BitsetIndex.build(table_arrays(made_of(clauses[10:], []))).arrays.number != UNCOUNTED).sum() == 1


@pytest.mark.skipif(PLAIN, reason="there is one form without the JIT")
def test_vector_instructions_and_their_plain_twins() -> None:
    rng = np.random.default_rng(1)
    compiled = _compiled_vectors()
    for _ in range(20):
        rows = rng.integers(0, 2**63, 64, np.uint64) & rng.integers(0, 2**63, 64, np.uint64)
        rows[rng.random(64) < 0.3] = 0
        offsets, count, place = rng.integers(0, 40, 5), int(rng.integers(0, 6)), int(rng.integers(0, 9))
        left, plain = np.full(20, ~np.uint64(0)), np.full(20, ~np.uint64(0))
        codes, point = rng.integers(0, 3, (2, 80)).astype(np.uint16)
        got = compiled(rows, offsets, count, place, left, codes, point)
        assert got[0] == vectors._plain_and_rows(rows, offsets, count, place, plain)
        assert np.array_equal(left, plain)
        assert got[1] == vectors._plain_below32(codes, place, point, count)
        assert got[2] == vectors._plain_equal32(codes, place, point, count)
    assert vectors._plain_prefetch(codes, 3) is None


def _compiled_vectors() -> Any:
    import numba

    from earmark.index.bitsets.vectors import and_rows, below32, equal32, prefetch

    @numba.njit
    def run(rows: Any, offsets: Any, count: int, place: int, left: Any, codes: Any, point: Any) -> Any:
        prefetch(codes, place)
        some = and_rows(rows, offsets, count, place, left)
        return some, below32(codes, place, point, count), equal32(codes, place, point, count)

    return run


# --- stored arrays -------------------------------------------------------------------------------------------------


@every_layout
def test_arrays_come_back(layout: str, tmp_path: Path) -> None:
    made = Maker(3).made(20 if PLAIN else 120, 8)
    built = laid_out(table_arrays(made), layout)
    restored = index.restore("bitsets", table_arrays(made), mapped(index.stored(built), tmp_path))
    assert isinstance(restored, BitsetIndex)
    assert all(not column.flags.writeable for column in restored.arrays)
    assert (restored.nbytes, restored.describe()) == (built.nbytes, built.describe())
    assert_searches(made, restored)


def test_broken_arrays_are_refused() -> None:
    table = table_arrays(Maker(4).made(150, 3))
    good: dict[str, Any] = BitsetIndex.build(table).arrays._asdict()
    BitsetIndex.restore(table, good)
    torn = [
        ({name: column for name, column in good.items() if name != "codes"}, "missing: codes"),
        ({**good, "codes": good["codes"].astype(np.int32)}, "codes is not a row of uint16"),
        ({**good, "codes": good["codes"][:-1]}, "codes has"),
        (changed(good, "info", 0, 10**6), "another number of slots"),
        (changed(good, "info", 1, 10**6), "not the clauses"),
        (changed(good, "info", 2, -1), "info is damaged"),
        (changed(good, "cut_start", 1, 10**6), "buckets or cuts are odd"),
        (changed(good, "cut_start", -1, 10**6), "cut_start does not run"),
        (changed(good, "cut_start", 0, 1), "cut_start does not fit"),
        (changed(good, "bucket_start", 1, 10**6), "buckets or cuts are odd"),
        (changed(good, "bucket_start", 1, 1), "buckets or cuts are odd"),
        (changed(good, "bucket_start", -1, 10**6), "bucket_start does not run"),
        (changed(good, "attr", 0, 10**6), "number does not fit"),
        (changed(good, "number", 0, UNCOUNTED), "number does not fit"),
        (changed(good, "number", 0, 10**6), "number does not fit"),
        (changed(good, "row", 0, len(good["rows"]) // WORDS), "row names"),
        (changed(good, "row", 0, ALL - 1), "row names"),
        (changed(good, "row", np.flatnonzero(good["row"] != NONE)[0], NONE), "some names empty lines"),
        (changed(good, "some", 0, 2**64 - 1), "some names empty lines"),
        ({**good, "rows": good["rows"][:-1]}, "rows are not whole"),
        ({**good, "rows": good["rows"][:-WORDS]}, "row names"),
        (changed(good, "entry_slot", 0, -7), "entry_slot names"),
        (changed(good, "entry_slot", 0, 10**6), "entry_slot names"),
        (changed(good, "entry_clause", 0, 10**6), "not of its slot"),
        ({**good, "verify": good["verify"][:-1]}, "verify has"),
        ({**good, "region_best": good["region_best"][:0]}, "region_best has"),
    ]
    for arrays, message in torn:
        with pytest.raises(AssertionError, match=message):
            BitsetIndex.restore(table, arrays)
    for name in BitsetArrays._fields:
        with pytest.raises(AssertionError):
            BitsetIndex.restore(table, {**good, name: good[name][:0]})


def test_cuts_and_buckets_must_fit_each_other() -> None:
    table = table_arrays(made_of([{0: Constraint([(1, 2)])}, {0: Constraint([(2, 3)])}], []))
    good: dict[str, Any] = BitsetIndex.build(table).arrays._asdict()
    fewer = {**good, "cuts": good["cuts"][:1], "cut_start": np.array([0, 1])}
    with pytest.raises(AssertionError, match="more buckets than cuts"):
        BitsetIndex.restore(table, fewer)


def test_check_names_what_is_broken() -> None:
    table = table_arrays(Maker(5).made(100, 3))
    arrays = BitsetIndex.build(table).arrays
    for name in ("codes", "verify", "cuts", "rows", "inexact"):
        column = getattr(arrays, name).copy()
        column[0] ^= 1
        with pytest.raises(AssertionError, match=name):
            BitsetIndex(table, arrays._replace(**{name: column})).check()


def test_any_damage_is_refused_or_harmless() -> None:
    """Numbers at random places: kernels stay inside their arrays, whatever they then answer."""
    made = Maker(6).made(80, 4)
    table, events = table_arrays(made), event_arrays(made, made.events)
    rng = np.random.default_rng(8)
    for layout in ("as it comes", "coarse codes", "two attributes have buckets"):
        good: dict[str, Any] = laid_out(table, layout).arrays._asdict()
        for _ in range(3 if PLAIN else 60):
            name = rng.choice([name for name in good if len(good[name])])
            column = good[name].copy()
            column[rng.integers(len(column))] = rng.choice([0, 1, 3, 100])
            try:
                restored = BitsetIndex.restore(table, {**good, name: column})
            except AssertionError:
                continue
            restored.match_many(events, eligible(made))
            restored.match(events, eligible(made), 0)
            restored.top_k_many(events, 3, eligible(made))


# --- the rest ------------------------------------------------------------------------------------------------------


def test_bad_arguments_get_a_sentence() -> None:
    made = Maker(2).made(5, 2)
    table = table_arrays(made)
    for buckets in (0, -1, 256):
        with pytest.raises(EarmarkError, match=f"expected 1 to 255 buckets, got {buckets}"):
            BitsetIndex.build(table, buckets)
    with pytest.raises(EarmarkError, match="has no option 'bucket'; it has buckets"):
        index.builder("bitsets", {"bucket": 3})
    with pytest.raises(EarmarkError, match="no event 2"):
        BitsetIndex.build(table).match(event_arrays(made, made.events), eligible(made), 2)


def test_fewer_buckets_take_less_memory() -> None:
    table = subsets(300 if PLAIN else 5000, 12, 6, 0.4)
    sizes = [BitsetIndex.build(table, buckets).nbytes for buckets in (1, 4, 16, 64)]
    assert sizes == sorted(sizes)
    assert sizes[0] < 0.7 * sizes[-1]


@pytest.mark.slow
@pytest.mark.skipif(PLAIN, reason="this is it")
def test_the_same_without_the_jit() -> None:
    output_without_jit(__file__)


def test_several_threads_encode_what_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_arrays(Maker(5).made(3_000, 6))
    wanted = build.built(table, 32)
    monkeypatch.setattr(build, "MANY", 0)
    with at_most(3):
        found = build.built(table, 32)
    assert all(np.array_equal(own, right) for own, right in zip(found, wanted, strict=True))
