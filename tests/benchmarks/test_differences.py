"""What is noise and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

import differences
from differences import label, verdict
from results import PER_EVENT, Figure, Result

OLD = [10.0, 10.2, 9.8, 10.1, 9.9]


@pytest.mark.parametrize(
    ("new", "told"),
    [
        (OLD, "noise"),
        ([12.0, 12.4, 11.9], "slower"),
        ([8.0, 8.1, 7.9], "faster"),
        ([10.3, 10.4, 10.5], "noise"),  # apart, but by less than the floor
        ([13.0, 10.1, 14.0], "noise"),  # far off, but with one repeat among the old ones
        ([12.0], "noise"),  # one measurement has no spread to judge by
        ([14.0], "slower"),
        ([7.0], "faster"),
    ],
)
def test_verdict(new: list[float], told: str) -> None:
    assert verdict(OLD, new) == told


def figure(values: list[float], status: str = "ok", unit: str = PER_EVENT, **more: object) -> Figure:
    return Figure("w2", 10_000, "scan", "batch", unit, values, status, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (figure(OLD), figure([12.0, 12.1]), "slower"),
        (figure(OLD), None, "gone"),
        (None, figure(OLD), "new"),
        (figure(OLD), figure([], "wrong"), "WRONG"),
        (figure(OLD), figure([], "failed"), "failed"),
        (figure(OLD), figure([], "skipped"), "gone"),
        (figure([], "skipped"), figure([], "skipped"), "skipped"),
        (figure([], "wrong"), figure(OLD), "new"),
        (figure(OLD), figure(OLD, unit="s"), "not comparable"),
        (figure(OLD, events=1000), figure(OLD, events=10), "not comparable"),
        (figure([100.0], unit="MiB"), figure([104.0], unit="MiB"), "noise"),
        (figure([100.0], unit="MiB"), figure([106.0], unit="MiB"), "larger"),
        (figure([100.0], unit="MiB"), figure([90.0], unit="MiB"), "smaller"),
    ],
)
def test_label(old: Figure | None, new: Figure | None, told: str) -> None:
    assert label(old, new) == told


def written(folder: Path, name: str, figures: list[Figure], program: str = "run", **machine: object) -> str:
    facts = {"processor": "one", "versions": {"numpy": "2.0"}, **machine}
    Result(program, {"threads": 1}, figures, facts).write(folder / name)
    return str(folder / name)


def test_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = written(tmp_path, "old.json", [figure(OLD)])
    assert differences.main([old, written(tmp_path, "same.json", [figure(OLD)])]) == 0
    assert "1 noise" in capsys.readouterr().out
    assert differences.main([old, written(tmp_path, "slow.json", [figure([20.0, 21.0])], processor="two")]) == 1
    out = capsys.readouterr().out
    assert "caution, processor: one then, two now" in out
    assert "slower" in out
    assert "x 2.0" in out
    assert differences.main([old, written(tmp_path, "wrong.json", [figure([], "wrong")])]) == 1
    assert "WRONG" in capsys.readouterr().out


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = written(tmp_path, "old.json", [figure(OLD)])
    assert differences.main([old, str(tmp_path / "none.json")]) == 2
    assert "No such file" in capsys.readouterr().err
    assert differences.main([old, written(tmp_path, "load.json", [], program="load")]) == 2
    assert "is of run.py" in capsys.readouterr().err
