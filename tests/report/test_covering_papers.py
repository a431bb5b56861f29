"""The experiments of shen-covering.txt and mics.txt: verdicts depend on what is measured, and wrong answers show."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from earmark.cover.ranges.table import RangeTable
from earmark.flat.arrays import I32, I64
from earmark.report.bench import Bench
from earmark.report.claims import claims_of, judge
from earmark.report.experiment import OK, WRONG, Experiment
from earmark.report.papers import shen
from earmark.report.papers.mics import subscriptions, tables
from earmark.report.papers.mics.data import Boxes
from earmark.report.rivals.rows import Rows
from earmark.report.run import measure


def experiment_of(number: int) -> Experiment:
    return next(one for one in shen.EXPERIMENTS if one.name == f"figure-{number}")


def test_a_slow_index_fails_its_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = next(one for one in claims_of("shen") if one.id == "kd-tree-beats-naive-12")

    class Slow(Rows):
        def _search(self, slot: int, k: int, counters: I64) -> I32:
            end = time.thread_time() + 0.0005
            while time.thread_time() < end:
                pass
            return super()._search(slot, k, counters)

    monkeypatch.setitem(shen.INDEXES, shen.KD_TREE, Slow.build)
    assert not judge(claim, measure(experiment_of(11), "tiny")).holds
    monkeypatch.setitem(shen.INDEXES, shen.KD_TREE, Rows.build)
    monkeypatch.setitem(shen.INDEXES, shen.NAIVE, Slow.build)
    assert judge(claim, measure(experiment_of(11), "tiny")).holds


def test_a_wrong_index_has_no_time_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class Blind(Rows):
        def _search(self, slot: int, k: int, counters: I64) -> I32:
            return np.empty(0, np.int32)

    monkeypatch.setitem(shen.INDEXES, shen.VECTORISED, Blind.build)
    found = measure(experiment_of(10), "tiny")
    assert all(
        point.status == WRONG and not point.samples for point in found.find("run time", "vectorised scan").points
    )
    assert all(point.status == OK for point in found.find("run time", "kd-tree").points)


def test_wrong_verdicts_of_the_table_of_ranges_show(monkeypatch: pytest.MonkeyPatch) -> None:
    right: Callable[..., Any] = RangeTable.covered_batch
    monkeypatch.setattr(RangeTable, "covered_batch", lambda *given: ~right(*given))
    found = measure(subscriptions.FIGURE_9, "tiny")
    assert all(point.status == WRONG for point in found.find("zipf", "MICS, 2-d").points)
    assert all(point.status == OK for point in found.find("zipf", "linear, 2-d").points)


def test_the_first_run_is_short_and_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figure 8 once had the time of compiling in its first point."""
    lengths: list[int] = []
    right = shen.Stream.play

    def play(self: shen.Stream, index: str, k: int) -> Any:
        lengths.append(len(self.commands.slot))
        return right(self, index, k)

    monkeypatch.setattr(shen.Stream, "play", play)
    bench = Bench(shen.FIGURE_8, "tiny")
    next(shen.figure_8(bench))
    assert lengths == [300, 300, 400, 400]
    assert [len(point.samples) for series in bench.series for point in series.points] == [1, 1]


def test_linear_rivals_search_uncovered_rows_only() -> None:
    low = np.array([[0, 0], [2, 2], [0, 0], [9, 9]], np.int64)
    boxes = Boxes(low, low + np.array([[8], [1], [8], [1]]))
    assert boxes.uncovered().low.tolist() == [[0, 0], [9, 9]]
    every = Boxes.drawn("zipf", 2_000, 2, 4, 1)
    asked = Boxes.drawn("zipf", 300, 2, 3, 2)
    kept = every.uncovered()
    assert len(kept.low) < 2_000
    assert kept.rows().covered(*asked).tolist() == every.rows().covered(*asked).tolist()
    assert kept.rows().holding(asked.low).tolist() == every.rows().holding(asked.low).tolist()


def test_mean_4_has_a_mean_of_4() -> None:
    literal, mean, fitted = (draw("uniform", 5_000, 1) for draw in tables.DATA.values())
    widths = [workload.sub_hi - workload.sub_lo + 1 for workload in (literal, mean, fitted)]
    assert (widths[0] == 4).all() and abs(widths[1].mean() - 4) < 0.05 and widths[1].max() == 7
    assert widths[2][:, :3].max() == 4 and (widths[2][:, 3:] == 256).mean() > 0.8


def test_subsets_of_table_2_have_the_cells_of_the_projection() -> None:
    """They once had one cell fewer on each axis, so that all attributes in subsets sent more than three of them."""
    found = measure(tables.TABLE_2, "tiny")
    for distribution in ("uniform", "zipf"):
        for name in tables.DATA:
            panel = f"sent, {distribution}"
            for one, other in zip(
                found.find(panel, name).points, found.find(panel, f"{name}, subsets").points, strict=True
            ):
                assert other.median <= one.median
