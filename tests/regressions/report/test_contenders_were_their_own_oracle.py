"""Some experiments compared contenders with one of them, or with nothing: if that was wrong, no point was.

Blocks were the truth about batches, the first to finish a stream that about what is forwarded. Tables I and II and
Figure 9 of Shen, Figures 7, 8, 11 and 12 and Tables 1 and 3 of MICS, and the construction of the BE*-Tree were compared
with nothing, Table 2 of MICS with Subscription Indexing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import earmark.report.papers.mics.tables as mics_tables
from earmark.cover.indexes import members
from earmark.cover.indexes.blocks import CoverBlocks
from earmark.cover.ranges.table import Ranges, RangeTable
from earmark.flat.arrays import I32, I64
from earmark.index.be_star_tree import BEStarTree
from earmark.index.mics import MicsIndex
from earmark.report.experiment import OK, WRONG, Measurement
from earmark.report.papers import chosen, shen
from earmark.report.papers.mics.data import Boxes
from earmark.report.rivals.linear_boxes import LinearBoxes
from earmark.report.rivals.rows import Rows
from earmark.report.run import measure


class Blind(Rows):
    def _search(self, slot: int, k: int, counters: I64) -> I32:
        return np.empty(0, np.int32)


def measured(paper: str, part: str) -> Measurement:
    (experiment,) = chosen(paper, part)
    return measure(experiment, "tiny")


def statuses(measurement: Measurement, panel: str, series: str) -> set[str]:
    return {point.status for point in measurement.find(panel, series).points}


def test_wrong_blocks_have_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    right: Callable[..., Any] = CoverBlocks.covering_batch

    def short(*given: Any) -> Any:
        pointers, slots = right(*given)
        return np.minimum(pointers, len(slots) - 1), slots[:-1]

    monkeypatch.setattr(CoverBlocks, "covering_batch", short)
    found = measured("shen", "batches")
    assert WRONG in statuses(found, "who covers it", "blocks")  # where anything covers any
    assert statuses(found, "who covers it", "kd-tree") == {OK}


@pytest.mark.parametrize(("part", "panel"), [("figure-8", "p = 5 %"), ("table-1", None), ("figure-9", "calls")])
def test_what_all_forward_wrongly_is_wrong(part: str, panel: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (shen.KD_TREE, shen.Z_CURVE):
        monkeypatch.setitem(shen.INDEXES, name, Blind.build)
    found = measured("shen", part)
    points = [point for series in found.series if panel in (None, series.panel) for point in series.points]
    assert points and {point.status for point in points} == {WRONG}


def test_a_wrong_audit_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    right = shen.audit

    def forgetful(*given: Any) -> Any:
        found = right(*given)
        return type(found)(found.subscriptions, found.duplicates, found.covered[1:], found.never, found.never_clauses,
                           found.everything)  # fmt: skip

    monkeypatch.setattr(shen, "audit", forgetful)
    assert statuses(measured("shen", "batches"), "audit", "audit") == {WRONG}


def test_wrong_decisions_of_mics_show(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = Ranges(np.empty(0, np.int64), np.empty(0, np.int64))
    monkeypatch.setattr(RangeTable, "subscribe", lambda *given: nothing)
    found = measured("mics", "figure-7")
    assert statuses(found, "2-d", "subsumption") == statuses(found, "saved by subsumption", "2-d") == {WRONG}
    assert statuses(found, "2-d", "covering") == {OK}


def test_wrong_linear_rivals_of_mics_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinearBoxes, "mergeable", lambda self, low, high: np.full(len(low), 10**6))
    found = measured("mics", "figure-8")
    assert statuses(found, "uniform, parts", "merging, 2-d") == statuses(found, "uniform", "linear, 2-d") == {WRONG}
    assert statuses(found, "uniform, parts", "covering, 2-d") == statuses(found, "uniform", "MICS, 2-d") == {OK}


@pytest.mark.parametrize("part", ["figure-11", "figure-12"])
def test_ranges_that_are_not_those_of_the_cells_show(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = mics_tables.as_ranges
    monkeypatch.setattr(mics_tables, "as_ranges", lambda ranges: Ranges(*(side[1:] for side in right(ranges))))
    assert {point.status for series in measured("mics", part).series for point in series.points} == {WRONG}


def test_a_wrong_conversion_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Boxes.ranges
    monkeypatch.setattr(Boxes, "ranges", lambda self: right(self)._replace(first=right(self).first - 1))
    assert statuses(measured("mics", "table-1"), "conversion", "3-d") == {WRONG}


def test_candidates_that_are_incomplete_show(monkeypatch: pytest.MonkeyPatch) -> None:
    right = MicsIndex.meeting

    def short(*given: Any, **options: Any) -> Any:
        pointers, slots = right(*given, **options)
        return np.zeros_like(pointers), slots[:0]

    monkeypatch.setattr(MicsIndex, "meeting", short)
    monkeypatch.setattr(mics_tables, "mics", partial(mics_tables.mics, sizes=100))  # wide, so that some meet
    found = measured("mics", "table-3")
    for name in ("lists", "with the sieve"):
        assert statuses(found, "zipf", name) == statuses(found, "zipf, share", name) == {WRONG}
    assert statuses(found, "zipf", "for merging") == {OK}


def test_what_is_wanted_does_not_depend_on_mics(monkeypatch: pytest.MonkeyPatch) -> None:
    right = measured("mics", "table-2").find("in vain, uniform", "fitted").points
    monkeypatch.setattr(MicsIndex, "match_many", lambda *given: (np.zeros(101, np.int64), np.empty(0, np.int32)))
    assert measured("mics", "table-2").find("in vain, uniform", "fitted").points == right


def test_a_wrong_linear_covering_index_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members.Linear, "_search", lambda *given: np.empty(0, np.int32))
    found = measured("mics", "covering-index")
    assert WRONG in statuses(found, "who covers it", "linear")  # where anything covers any
    assert statuses(found, "who covers it", "kd_tree") == {OK}


def test_a_tree_that_was_built_wrongly_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    right = BEStarTree.match_many

    def short(*given: Any) -> Any:
        start, slots = right(*given)
        return np.minimum(start, max(0, len(slots) - 1)), slots[:-1]

    monkeypatch.setattr(BEStarTree, "match_many", short)
    assert statuses(measured("be-star", "table-2"), "(b) construction", "BE*") == {WRONG}
