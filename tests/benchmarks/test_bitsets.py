"""The program about the bitsets index, on tiny data: it runs, compares answers, judges."""

from __future__ import annotations

from pathlib import Path

import pytest

import bitsets
import contenders
from results import Figure, read


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few events, each way once."""
    monkeypatch.setattr(bitsets, "EVENTS", 20)
    monkeypatch.setattr(bitsets, "ONE_BY_ONE", 3)
    monkeypatch.setattr(contenders, "MOST_CALLS", 2)


def test_bitsets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "r.json"
    assert bitsets.main(["--quick", "--size", "3k", "--json", str(file)]) == 0
    out = capsys.readouterr().out
    for part in (
        "10 of 20, 3k subscriptions",
        "batch, 10 best, against scan: ",
        "MB (bar: ",
        "not judged at this size",
    ):
        assert part in out, part
    figures = read(file).figures
    assert {one.status for one in figures} == {"ok"}
    assert {one.engine for one in figures} == set(bitsets.INDEXES)


def test_the_data_is_what_it_says() -> None:
    rows = bitsets.subscriptions(500)
    constrained = [500 - rows[f"a{i}_lo"].null_count for i in range(bitsets.ATTRIBUTES)]
    assert sum(constrained) == 500 * bitsets.CHOSEN
    assert min(constrained) > 150
    assert rows.equals(bitsets.subscriptions(500))


def test_a_wrong_answer_fails_the_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bitsets, "differs", lambda wanted, name, answer: "differs" if name == "blocks" else "")
    assert bitsets.main(["--quick", "--size", "300"]) == 1
    assert "WRONG: blocks, batch, scores=False: differs" in capsys.readouterr().out


def test_a_missed_bar_is_told() -> None:
    found = [Figure("10 of 20", 10**6, "bitsets", "memory", "MB", [251.0])]
    for what, value in ((bitsets.SINGLE, 251.0), (bitsets.BATCH, 149.0), (bitsets.SCORED, 151.0)):
        found.append(Figure("10 of 20", 10**6, "bitsets", what, "µs/event", [value], events=10))
    missed = bitsets.judge(found, judged=True).missed
    assert missed == [bitsets.SINGLE, bitsets.SCORED, f"{bitsets.BEST}: no figure", "memory beside the table"]
