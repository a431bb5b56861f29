"""The program about the table of ranges, on tiny tables: it runs, compares answers, judges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import range_table
from results import read


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_table, "REPEATS", 2)
    monkeypatch.setattr(range_table, "NUMBERS", 200)
    monkeypatch.setattr(range_table, "CHANGED", 10)


def test_range_table(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    judged = range_table.judged
    monkeypatch.setattr(range_table, "judged", lambda least: judged(least) or True)  # such times mean nothing
    file = tmp_path / "r.json"
    assert range_table.main(["--sizes", "40,200", "--json", str(file)]) == 0
    out = capsys.readouterr().out
    for part in ("unsubscribe, batch: ", "a look-up: ", "from 40 to 200 ranges", "all bars held"):
        assert part in out, part
    figures = read(file).figures
    assert {one.status for one in figures} == {"ok"}
    assert {one.subscriptions for one in figures} == {40, 200}


def test_a_bar_is_missed() -> None:
    small = dict.fromkeys((range_table.SEARCH, range_table.LOOK_UP, *range_table.BATCH, *range_table.SINGLE), 1.0)
    assert range_table.judged({1: small, 2: small})
    for what, time in (("unsubscribe", 4.1), ("unsubscribe, batch", 4.1), ("look-up", 1.6)):
        assert not range_table.judged({1: small, 2: {**small, what: time}})
    assert range_table.judged({1: small, 2: {**small, "look-up": 9.0, range_table.SEARCH: 9.0}})


def test_a_wrong_answer_fails_the_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Forgetful(range_table.RangeTable):
        def holds(self, numbers: Any) -> Any:
            return np.zeros(len(numbers), np.bool_)

    monkeypatch.setattr(range_table, "RangeTable", Forgetful)
    assert range_table.main(["--sizes", "40"]) == 1
    assert "an answer is wrong" in capsys.readouterr().out
