"""Many clauses on random sets of attributes: the planner took them for alike, took a scan's share of a batch for what
blocks cost, and what blocks took for a drift, so that every merge made the whole book again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from earmark import Matcher
from earmark.engine import compaction
from earmark.events.arrays import EventArrays
from earmark.index import auto, builder
from earmark.index.auto import facts
from earmark.index.contract import Work
from earmark.index.driver import OBSERVED
from earmark.segment.arrays import SegmentArrays
from earmark.workload.standard import dense

DOMAIN = 1_000


def scattered(slots: int, attributes: int, chosen: int = 5) -> SegmentArrays:
    """Clauses on random sets of attributes."""
    random = np.random.default_rng(slots)
    attr = np.sort(random.random((slots, attributes), np.float32).argpartition(chosen, axis=1)[:, :chosen], axis=1)
    lo = random.integers(0, 900, (slots, chosen))
    made = dense(lo, lo + 100, random.integers(0, DOMAIN, (1, attributes)), DOMAIN)
    return made._replace(sub_attr=attr.astype(np.int32), attributes=attributes).table()


def whole(count: int, attributes: int) -> EventArrays:
    """Events with all attributes."""
    key = np.random.default_rng(count).integers(0, DOMAIN, count * attributes)
    attr = np.tile(np.arange(attributes, dtype=np.int32), count)
    return EventArrays(np.arange(count + 1) * attributes, attr, key, key, np.empty(0))


@pytest.mark.parametrize(
    ("slots", "attributes", "chosen", "alike"), [(140_000, 50, 5, 0.0), (100_000, 50, 5, 0.0), (140_000, 8, 3, 1.0)]
)
def test_sets_of_attributes_are_alike_if_they_repeat(slots: int, attributes: int, chosen: int, alike: float) -> None:
    assert facts._alike(scattered(slots, attributes, chosen)) == alike


@pytest.mark.parametrize("rare", [63, 64])
def test_a_set_is_counted_where_all_clauses_are_looked_at(rare: int) -> None:
    attr = np.zeros((1_000, 1), np.int32)
    attr[:rare] = 1
    made = dense(np.zeros((1_000, 1), np.int64), np.ones((1_000, 1), np.int64), np.zeros((1, 1), np.int64), 9)
    share = facts._alike(made._replace(sub_attr=attr, attributes=2).table())
    assert share == (1.0 if rare >= facts.TREE else 1 - rare / 1_000)


def test_what_a_scan_answers_for_blocks_grows_with_the_book(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks search the small sample themselves and leave the large one to a scan, whose work for an event is less."""
    monkeypatch.setattr(auto, "SMALL", 1_024)
    monkeypatch.setattr(auto, "LARGE", 8_192)
    table = scattered(32_768, 50)
    course = auto.Course(table, whole(auto.EVENTS, 50), 0)
    raced = course.raced("blocks")
    assert raced is not None and not raced.small.is_by_scan and raced.large.is_by_scan
    assert course.expected({"blocks": raced})["blocks"] > 2 * raced.large.cost
    assert course.work(raced, alone=True) > 2 * raced.large.alone.nanoseconds / auto.SINGLES


def test_each_way_grows_with_its_own_work() -> None:
    table = scattered(64_000, 8, 3)
    course = auto.Course(table, whole(auto.EVENTS, 8), 0)
    small, large = len(course.small.sequence), len(course.large.sequence)

    def lap(slots: int, is_by_scan: bool) -> auto.Lap:
        alone = Work(compared=1_000 * slots)
        return auto.Lap(5.0, slots / 1_000, Work(compared=100) if is_by_scan else alone, alone, is_by_scan)

    raced = auto.Raced(builder("scan")(course.small), lap(small, False), lap(large, True))
    assert course.expected({"blocks": raced})["blocks"] == pytest.approx((5 * 64_000 / large) + 64, rel=0.1)
    raced = raced._replace(small=lap(small, True))
    assert course.expected({"blocks": raced})["blocks"] == pytest.approx(5 + 64, rel=0.1)


@pytest.fixture
def drifting(monkeypatch: pytest.MonkeyPatch) -> Matcher:
    """A book that was planned by a race, for blocks."""
    monkeypatch.setattr(auto, "is_ready", lambda name: True)
    monkeypatch.setattr(auto, "SMALL", 300)
    monkeypatch.setattr(auto, "LARGE", 900)
    monkeypatch.setattr(auto, "_chosen", lambda candidates, costs: "blocks")
    m = Matcher(index_options={"among": ["blocks", "be_star_tree"]})
    m.add_many([(i, f"a BETWEEN {i} AND {i + 9} AND b > {i % 7}") for i in range(20_000)], progress=False)
    return m


def searched(index: Any, work: float, alone: bool) -> None:
    """As if so many events had taken this much work, in nanoseconds."""
    for _ in range(OBSERVED):
        index._observe([0, 0, round(work / 2), *[0] * (len(index._counted) - 3)], 1, alone=alone)


def test_single_events_drift_from_what_was_planned_for_them(drifting: Matcher) -> None:
    index = drifting._version.segments[0].index
    assert index is not None and index.plan.work > 0 and index.plan.alone > 0
    index.plan = replace(index.plan, work=1_000.0, alone=1e6)
    searched(index, 5_000, alone=True)
    assert index.drift < 1 and not index.has_drifted
    index._observed = 0, 0.0
    searched(index, 5_000, alone=False)
    assert index.has_drifted


def test_a_book_that_drifts_from_every_plan_is_planned_again_once(
    drifting: Matcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was chosen again by what was seen: the next segment is joined with its like, not with all others."""
    monkeypatch.setattr(compaction, "FACTOR", 8)  # what is added here stays small beside the book
    largest = drifting._version.segments[0]
    assert largest.index is not None
    work = 9 * max(1_000.0, largest.index.plan.work, largest.index.plan.alone)
    rebuilt = []
    for turn in range(12):
        searched(largest.index, work, alone=True)
        rows = [(20_000 + 200 * turn + i, f"a = {i}") for i in range(140)]
        drifting.add_many(rows, progress=False)
        drifting._compactor.wait()
        before, largest = largest, max(drifting._version.segments, key=len)
        assert largest.index is not None
        if largest.index is not before.index:
            rebuilt.append(turn)
    assert rebuilt == [0] and compaction.next_compaction(drifting._version) is None
