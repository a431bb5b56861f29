"""The program about growing costs, on tiny data: it runs, compares answers, writes its page and pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import contenders
import scaling
from results import read


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two points of one sweep, two indexes."""
    shapes: dict[int | float, scaling.Shape] = {1: scaling.Shape(300, 3, 3, 1.0), 20: scaling.Shape(300, 3, 3, 20.0)}
    monkeypatch.setattr(scaling, "sweeps", lambda quick: [scaling.Sweep("matches", "Matches", "matches", shapes)])
    monkeypatch.setattr(scaling, "CONSIDERED", ["blocks", "scan"])
    monkeypatch.setattr(contenders, "MOST_CALLS", 1)


def test_scaling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert scaling.main(["--quick", "--docs", str(tmp_path), "--json", str(tmp_path / "scaling.json")]) == 0
    assert "matches 20: in a batch " in capsys.readouterr().out
    page = (tmp_path / "scaling.md").read_text()
    for part in (
        "# How costs grow",
        "The machine was ",
        "![Matches](scaling-matches.svg)",
        "Quickest in a batch, of those that ran: ",
    ):
        assert part in page, part
    assert (tmp_path / "scaling-matches.svg").read_text().lstrip().startswith("<?xml")
    figures = read(tmp_path / "scaling.json").figures
    assert {one.engine for one in figures} == {"blocks", "scan"} and len(figures) == 8
    assert {one.workload for one in figures} == {"matches 1", "matches 20"}


def test_a_point_that_would_begin_too_late_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert scaling.main(["--quick", "--limit", "0", "--docs", str(tmp_path)]) == 0
    assert "matches: not measured, because the time was up" in capsys.readouterr().out
    sweep = scaling.sweeps(True)[0]
    rows = list(scaling.measured(sweep, 1))
    assert "- Not measured, because the time was up: 20." in scaling.section(sweep, rows[:1])


def test_who_is_far_behind_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "BEHIND", 0.5)
    rows = list(scaling.measured(scaling.sweeps(True)[0], 1))
    assert len(rows[0].costs[scaling.BATCH]) == 2 and len(rows[1].costs[scaling.BATCH]) == 1
    assert "times slower than the quickest before" in str(rows[1].skipped)


@pytest.mark.parametrize("shape", [scaling.Shape(500), scaling.Shape(500, 20, 10), scaling.Shape(500, 400, 8)])
def test_a_book_has_the_shape_it_should(shape: scaling.Shape) -> None:
    book = scaling.made(shape)
    rows = book.table.attr.reshape(500, shape.predicates)
    assert (np.diff(rows, axis=1) > 0).all() and rows.max() < shape.attributes
    assert len(book.events.attr) == scaling.EVENTS * shape.attributes


def test_events_that_have_some_attributes_match_a_subscription() -> None:
    book = scaling.made(scaling.Shape(500, 40, 4, width=0.1, carried=6))
    found = scaling.searches(scaling.indexes.builder("scan")(book.table), book)[scaling.BATCH]()[0]
    assert (np.diff(found) >= 1).all()


def test_an_unknown_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        scaling.main(["--sweeps", "width"])
    assert "there is no sweep called 'width'; there are matches" in capsys.readouterr().err
