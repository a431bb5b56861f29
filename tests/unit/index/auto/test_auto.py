"""`auto` takes the index that suits, says why, and answers as every other."""

from __future__ import annotations

import inspect
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.made import Maker, table_arrays

from earmark import Matcher
from earmark import index as indexes
from earmark.errors import EarmarkError
from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.index import auto
from earmark.index.auto.facts import events_like, facts_of, sampled
from earmark.index.auto.plan import Plan, Plans
from earmark.index.driver import OBSERVED
from earmark.index.scan import Scan
from earmark.segment.arrays import SegmentArrays
from earmark.workload.standard import dense


def boxes(slots: int, attributes: int, width: int = 50, domain: int = 1_000) -> SegmentArrays:
    random = np.random.default_rng(slots)
    lo = random.integers(0, domain - width, (slots, attributes))
    return dense(lo, lo + width, random.integers(0, domain, (1, attributes)), domain).table()


@pytest.fixture
def all_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "is_ready", lambda name: True)


# --- statistics -----------------------------------------------------------------------------------------------------


def test_a_sample_is_spread_over_the_table() -> None:
    table = boxes(1_000, 2)
    assert sampled(table, 1_000, 2_000) is table
    part = sampled(table, 10, 2_000)
    assert part.sequence.tolist() == [0, 111, 222, 333, 444, 555, 666, 777, 888, 999]
    assert np.array_equal(part.lo[:2], table.lo[:2])
    assert len(sampled(table, 1_000, 40).sequence) == 20 and len(sampled(table, 1_000, 0).sequence) == 1


def test_many_attributes_are_planned_soon() -> None:
    """A sample is bounded by its constraints, and an event by its values."""
    wide = np.tile(np.arange(3_000, dtype=np.int32), (400, 1))
    data = dense(np.zeros((400, 1), np.int64), np.ones((400, 1), np.int64), np.zeros((1, 1), np.int64), 9)
    zeros = np.zeros(wide.shape, np.int64)
    table = data._replace(sub_attr=wide, sub_lo=zeros, sub_hi=zeros + 1, attributes=3_000).table()
    events = events_like(table, 10)
    assert 0 < np.diff(events.start).max() <= 256
    assert facts_of(table, events).constraints == 3_000


def test_events_fit_the_subscriptions_they_are_made_from() -> None:
    table = boxes(500, 3)
    events = events_like(table, 40)
    assert np.diff(events.start).tolist() == [3] * 40
    starts, _ = Scan(table).match_many(events, bits.all_set(500))
    assert (np.diff(events.start) == 3).all() and len(starts) == 41


def test_where_attributes_are_many_an_event_has_some() -> None:
    random = np.random.default_rng(0)
    attr = np.sort(random.permuted(np.tile(np.arange(100, dtype=np.int32), (300, 1)), axis=1)[:, :5], axis=1)
    data = dense(np.zeros((300, 5), np.int64), np.full((300, 5), 9), np.zeros((1, 5), np.int64), 10)
    events = events_like(data._replace(sub_attr=attr, attributes=100).table(), 30)
    assert np.diff(events.start).min() >= 10 and np.diff(events.start).max() < 20
    for e in range(30):
        assert (np.diff(events.attr[events.start[e] : events.start[e + 1]]) > 0).all()


def test_facts() -> None:
    table = boxes(400, 2, width=999, domain=2_000)
    facts = facts_of(table, events_like(table, 50))
    assert (facts.clauses, facts.constraints, facts.attributes) == (1.0, 2.0, 2)
    assert facts.alike == 1.0 and facts.met == 1.0 and facts.nulls == 0.0
    assert 0 < facts.matched <= facts.narrow < 1
    absent = EventArrays(*map(np.array, ([0, 1], [0], [5], [5])), np.empty(0))  # type: ignore[arg-type]
    assert facts_of(table, absent).met == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_any_table_has_facts(seed: int) -> None:
    table = table_arrays(Maker(seed).made(seed * 7, 3))
    facts = facts_of(table, events_like(table, 5))
    assert all(map(math.isfinite, facts)) and 0 <= facts.matched <= facts.met <= 1


# --- plans ----------------------------------------------------------------------------------------------------------


def test_few_are_scanned() -> None:
    built = indexes.builder("auto")(boxes(auto.FEW, 3))
    assert isinstance(built, Scan) and "scanned" in built.plan.reason


@pytest.mark.usefixtures("all_ready")
def test_a_race(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "SMALL", 300)
    monkeypatch.setattr(auto, "LARGE", 900)
    monkeypatch.setattr(auto, "BEHIND", math.inf)
    table = boxes(2_000, 4)
    built = indexes.builder("auto", {"among": ("blocks", "be_star_tree")})(table)
    plan = built.plan
    assert indexes.name_of(built) == plan.index and plan.sampled == 900 and plan.subscriptions == 2_000
    first, second = plan.candidates
    assert first.index == plan.index and {first.index, second.index} == {"blocks", "be_star_tree"}
    assert first.measured and first.expected and second.measured and plan.work > 0
    assert plan.index in repr(Plans([plan])) and "expected" in repr(Plans([plan]))
    assert Plan.of(json.loads(json.dumps(plan.record()))) == plan
    built.check()


@pytest.mark.usefixtures("all_ready")
def test_a_sample_that_is_the_whole_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, int]] = []
    real = indexes.builder

    def counting(name: str, options: Any = None) -> Any:
        return lambda table: (made.append((name, len(table.sequence))), real(name, options)(table))[1]

    monkeypatch.setattr(auto, "builder", counting)
    auto.planned(boxes(600, 2), ("blocks", "vcr"))
    assert sorted(made) == [("blocks", 600), ("vcr", 600)]


@pytest.fixture
def given_laps(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, int], float]:
    """What is put here, by the name and options of an index and the size of its table, is how it does in a race."""
    given: dict[tuple[str, int], float] = {}
    names: dict[int, str] = {}
    real, kept = indexes.builder, []

    def naming(name: str, options: Any = None) -> Any:
        def build(table: SegmentArrays) -> Any:
            built = real(name, options)(table)
            kept.append(built)
            names[id(built)] = name + "".join(f" {value}" for value in (options or {}).values())
            return built

        return build

    def lap(course: auto.Course, index: Any) -> auto.Lap:
        cost = given[names[id(index)], len(index._table.sequence)]
        work = auto.Work(compared=len(index._table.sequence))
        return auto.Lap(cost, cost, work, work)

    monkeypatch.setattr(auto, "is_ready", lambda name: True)
    monkeypatch.setattr(auto, "builder", naming)
    monkeypatch.setattr(auto, "SMALL", 300)
    monkeypatch.setattr(auto, "LARGE", 900)
    monkeypatch.setattr(auto.Course, "_lap", lap)
    return given


def test_who_is_behind_on_the_small_sample_is_not_built_on_the_large_one(
    given_laps: dict[tuple[str, int], float],
) -> None:
    given_laps |= {("blocks", 300): 1.0, ("blocks", 900): 2.0, ("be_star_tree", 300): 2.1}
    built = auto.planned(boxes(2_000, 3), ("blocks", "be_star_tree"))
    assert built.plan is not None
    assert [one.index for one in built.plan.candidates] == ["blocks", "be_star_tree"]
    assert built.plan.candidates[1].measured is None
    assert built.plan.candidates[1].note == "far behind on a small sample"


@pytest.mark.parametrize(("cost", "is_taken"), [(3.0, True), (3.9, False)])
def test_options_that_are_expected_to_be_quicker(
    given_laps: dict[tuple[str, int], float], cost: float, is_taken: bool
) -> None:
    given_laps |= {("blocks", 300): 3.0, ("blocks", 900): 18.0, ("bitsets", 300): 1.0, ("bitsets", 900): 4.0}
    given_laps |= {("bitsets 64", 300): 1.0, ("bitsets 64", 900): cost}
    table = boxes(9_000, 3)
    built = auto.planned(table, ("blocks", "bitsets"))
    plan = built.plan
    assert plan is not None and plan.index == "bitsets"
    assert plan.options == ({"buckets": 64} if is_taken else {})
    assert np.array_equal(built.arrays.rows, indexes.builder("bitsets", plan.options)(table).arrays.rows)
    assert Plan.of(json.loads(json.dumps(plan.record()))) == plan
    assert ("'bitsets(buckets=64)'" in repr(Plans([plan]))) == is_taken
    beside = auto.followed(boxes(500, 3), plan)
    assert beside is not None and beside.plan is not None and beside.plan.options == plan.options


def test_what_is_not_compiled_does_not_race(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "is_ready", lambda name: name == "blocks")
    plan = auto.planned(boxes(600, 3), ("blocks", "be_star_tree")).plan
    assert plan.index == "blocks" and plan.sampled == 0
    assert "earmark warm" in plan.candidates[1].note
    monkeypatch.setattr(auto, "is_ready", lambda name: False)
    assert auto.planned(boxes(600, 3), ("blocks", "be_star_tree")).plan.index in ("blocks", "be_star_tree")


@pytest.mark.usefixtures("all_ready")
@pytest.mark.parametrize(("k", "there"), [(0, False), (3, True), (auto.CELL_BEST, True), (auto.CELL_BEST + 1, False)])
def test_candidates_of_one_attribute(k: int, there: bool) -> None:
    """A cell table is for rankings that it looks up; an interval tree for all searches."""
    one = {candidate.index for candidate in auto.planned(boxes(600, 1), k=k).plan.candidates}
    two = {candidate.index for candidate in auto.planned(boxes(600, 2), k=k).plan.candidates}
    assert ("cell_table" in one) == there and "interval_tree" in one
    assert not {"cell_table", "interval_tree"} & two


@pytest.mark.usefixtures("all_ready")
@pytest.mark.parametrize(("k", "quick"), [(0, "interval_tree"), (10, "cell_table")])
def test_on_one_attribute_the_best_two_by_their_estimates_race(k: int, quick: str) -> None:
    """Estimates of these structures are good, and they are built in less time than five of them race."""
    plan = auto.planned(boxes(40_000, 1, domain=1_000_000), k=k).plan
    raced = [one.index for one in plan.candidates if one.measured is not None or "on a small sample" in one.note]
    assert len(raced) == 2 and quick in raced


def test_a_cell_table_looks_up_as_many_as_auto_says() -> None:
    build = inspect.signature(indexes.class_of("cell_table").build)
    assert build.parameters["best"].default == auto.CELL_BEST


@pytest.mark.usefixtures("all_ready")
def test_looking_up_is_no_more_work_in_a_larger_book(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few match in the sample, many in the book: answers still have at most k, and one look-up each.

    In a batch: single events go through the tree.
    """
    monkeypatch.setattr(auto, "SMALL", 300)
    monkeypatch.setattr(auto, "LARGE", 900)
    table = boxes(9_000, 1)
    plan = auto.planned(table, ("cell_table",), k=5).plan
    assert plan.index == "cell_table"
    course = auto.Course(table, events_like(table, 20), 5)
    race = course.raced("cell_table")
    assert race is not None and not race.large.work.compared and race.large.alone.compared
    race = race._replace(small=race.small._replace(single=0.0), large=race.large._replace(single=0.0))
    grown = 1 + auto.KINDS["cell_table"].dearer * math.log2(10)
    assert course.expected({"cell_table": race})["cell_table"] <= grown * race.large.cost * (1 + 1e-9)


@pytest.mark.usefixtures("all_ready")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [0, 3])
def test_answers_are_those_of_a_scan(seed: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "FEW", 0)
    monkeypatch.setattr(auto, "SMALL", 20)
    monkeypatch.setattr(auto, "LARGE", 60)
    table = table_arrays(Maker(seed).made(150, 3))
    built = indexes.builder("auto", {"k": k})(table)
    events, eligible = events_like(table, 20), bits.all_set(150)
    for own, right in zip(built.match_many(events, eligible), Scan(table).match_many(events, eligible), strict=True):
        assert np.array_equal(own, right)


def test_events_are_taken_from_all_of_the_recent_ones() -> None:
    """The first 64 decided alone, however many came after them."""
    table = boxes(600, 2)
    some = events_like(table, 40)
    nothing = EventArrays(np.zeros(400, np.int64), *(column[:0] for column in some[1:]))
    recent = EventArrays(np.concatenate([nothing.start, some.start]), *some[1:])
    assert auto.planned(table, ("blocks",), recent=recent).plan.facts.met > 0  # type: ignore[union-attr]


def test_relaxed_searches_are_not_planned_for() -> None:
    m = filled()
    for _ in range(10):
        m.top_k_many([{"a": 3, "b": 4}] * 8, 5)
    for _ in range(25):
        m.top_k_many([{"a": 3, "b": 4}] * 8, 5, mode="relaxed")
    m.compact()
    assert [plan.k for plan in m.plan()] == [5]


def test_a_plan_for_the_best_can_drift() -> None:
    index = auto.planned(boxes(3_000, 2), ("blocks",), k=3)
    index.plan = replace(index.plan, work=1.0)  # type: ignore[type-var]
    events = events_like(boxes(3_000, 2), 64)
    for _ in range(OBSERVED // 64):
        index.top_k_many(events, 3, bits.all_set(3_000))
        index.match_many(events, bits.all_set(3_000))
    assert index._observed[0] == OBSERVED


def test_recent_events_are_planned_by() -> None:
    table = boxes(600, 2)
    plan = auto.planned(table, ("blocks",), recent=events_like(table, 33)).plan
    assert plan.recent and plan.events == 33
    assert not auto.planned(table, ("blocks",)).plan.recent


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"among": "blocks"}, "expected a list of candidates among blocks, "),
        ({"among": ["magic"]}, "expected a list of candidates among blocks, "),
        ({"k": -1}, "expected a number of best subscriptions"),
        ({"k": True}, "expected a number of best subscriptions"),
        ({"k": 1.0}, "expected a number of best subscriptions"),
        ({"among": 5}, "expected a list of candidates among blocks, .*, got 5"),
        ({"among": None}, "expected a list of candidates"),
        ({"among": [["blocks"]]}, "expected a list of candidates"),
        ({"speed": 9}, "no option 'speed'; it has among, k"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(EarmarkError, match=message):
        Matcher(index_options=options)


def test_a_stored_plan_that_is_none() -> None:
    record = auto.planned(boxes(300, 2), ("blocks",)).plan.record()
    (blocks,) = record["candidates"]
    for change in (
        {"candidates": [blocks | {"options": options}]} for options in (7, [1], {"a": "b"}, {"\x1b": 1}, {7: 1})
    ):
        with pytest.raises(AssertionError):
            Plan.of(record | change)
    for change in (
        {"facts": {}},
        {"candidates": []},
        {"candidates": [{"index": "blocks"}]},
        {"index": 7},
        {"seconds": "long"},
        {"subscriptions": None},
        {"work": None},
        {"index": "\x1b[2J"},
        {"work": math.inf},
        {"more": 1},
    ):
        with pytest.raises(AssertionError):
            Plan.of(record | change)
    with pytest.raises(AssertionError):
        Plan.of([])  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="'auto' is not an index that is stored"):
        indexes.restore("auto", boxes(3, 2), {})


# --- in a matcher ---------------------------------------------------------------------------------------------------


def filled(count: int = 400, **options: Any) -> Matcher:
    m = Matcher(index_options=options or None)
    m.add_many([(i, f"a BETWEEN {i} AND {i + 9} AND b > {i % 7}") for i in range(count)], progress=False)
    return m


def test_a_matcher_says_its_plan(tmp_path: Path) -> None:
    assert repr(Matcher().plan()) == "no segment has been planned"
    m = filled()
    (plan,) = m.plan()
    assert plan.subscriptions == 400 and m.stats()["indexes"] == {plan.index: 1} and m.stats()["index"] == "auto"
    assert "400 subscriptions" in repr(m.plan()) and "<table>" in m.plan()._repr_html_()
    m.save(tmp_path / "book")
    again = Matcher.load(tmp_path / "book")
    assert again.index == "auto" and again.plan() == m.plan()
    assert Matcher("blocks").plan() == ()


def test_a_book_that_outgrows_its_plan_is_planned_again() -> None:
    m = filled(200)
    assert m.plan()[0].index == "scan"
    for i in range(200, 900):
        m.add(i, f"a = {i}")
    m._compactor.wait()
    assert m.plan()[0].index != "scan"
    assert m.match({"a": 500, "b": 9}) == [500]


def test_a_segment_beside_a_much_larger_one_has_its_kind_of_index() -> None:
    plan = auto.planned(boxes(8_000, 3)).plan
    assert plan is not None
    index = auto.followed(boxes(900, 3), plan)
    assert index is not None and index.plan is not None
    index.check()
    assert (index.plan.index, index.plan.subscriptions, index.plan.sampled) == (plan.index, 900, 0)
    assert index.plan.reason == "same index as the largest segment" and Plan.of(index.plan.record()) == index.plan
    assert auto.followed(boxes(1_001, 3), plan) is None  # not small
    assert auto.followed(boxes(auto.FEW, 3), plan) is None  # scanned
    assert auto.followed(boxes(900, 3), plan, [name for name in auto.KINDS if name != plan.index]) is None


def test_work_that_drifts_is_planned_again() -> None:
    m = filled(2_000, among=("blocks",))
    index = m._version.segments[0].index
    assert index is not None
    object.__setattr__(index.plan, "work", 1e-3)
    assert not index.has_drifted
    m.match_many([{"a": i, "b": 9} for i in range(OBSERVED)])
    assert index._observed[0] == OBSERVED
    index._observed = OBSERVED, 1e12
    assert index.has_drifted
    m.add_many([(f, f"a = {f}") for f in range(5_000, 5_200)], progress=False)
    m._compactor.wait()
    assert len(m.plan()) == 1 and m.plan()[0].subscriptions == 2_200 and m.plan()[0].recent is False


def test_a_plan_without_a_race_does_not_drift() -> None:
    """What was never measured cannot have changed: the book would be built again and again."""
    m = filled(2_000, among=("blocks",))
    index = m._version.segments[0].index
    assert index is not None and index.plan.work == 0
    index._observed = OBSERVED, 1e12
    assert not index.has_drifted


def test_single_events_of_a_scan_do_not_drift() -> None:
    """A batch shares the comparisons of a scan, single events do not."""
    m = filled(600, among=("scan",))
    index = m._version.segments[0].index
    assert isinstance(index, Scan)
    for i in range(200):
        m.match({"a": i, "b": 3})
    assert index._observed[0] == 0


def test_adapting_plans_by_the_events() -> None:
    m = filled(600)
    found = m.adapt([{"a": i, "b": 3} for i in range(50)])
    assert isinstance(found, Plans) and found[0].recent and found[0].events == 50
    assert m.match({"a": 5, "b": 9}) == [0, 1, 2, 3, 4, 5]


def test_events_that_were_searched_are_planned_by() -> None:
    m = filled(600)
    for i in range(40 * 16):
        m.match({"a": i, "b": 2})
    m.compact()
    assert m.plan()[0].recent


@pytest.mark.usefixtures("all_ready")
@pytest.mark.parametrize("together", [False, True])
def test_plans_are_for_what_was_asked_of_late(together: bool) -> None:
    """Rankings most of the time: planned for the k best. Relaxed ones and an option of the user do not count."""
    rows = [{"id": i, "condition": f"a BETWEEN {i} AND {i + 50}"} for i in range(600)]
    events = [{"a": i} for i in range(600)]

    def asked(m: Matcher, k: int, mode: Any = "exact") -> None:
        if together:
            for first in range(0, 600, 100):
                m.top_k_many(events[first : first + 100], k, mode=mode)
        else:
            for event in events:
                m.top_k(event, k, mode=mode)

    m = Matcher()
    m.add_many(rows)
    assert [plan.k for plan in m.plan()] == [0]
    asked(m, 7)
    m.compact()
    assert [plan.k for plan in m.plan()] == [7]
    assert m.match({"a": 60}) == list(range(10, 61))
    for _ in range(60):
        m.match_many(events)
    m.adapt(events[:100])
    assert [plan.k for plan in m.plan()] == [0]
    other = Matcher(index_options={"k": 3})
    other.add_many(rows)
    asked(other, 7)
    other.compact()
    assert [plan.k for plan in other.plan()] == [3]
    relaxed = Matcher()
    relaxed.add_many(rows)
    asked(relaxed, 7, "relaxed")
    relaxed.compact()
    assert [plan.k for plan in relaxed.plan()] == [0]
