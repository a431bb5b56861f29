"""earmark against rivals, on tiny data."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.benchmarks.tiny import dense, sparse

import engines
import rivals
import run
from results import PER_EVENT, Figure, read


def test_a_round(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(run.WORKLOADS, "w2", lambda subscriptions: dense().head(subscriptions))
    monkeypatch.setitem(run.WORKLOADS, "w1", lambda subscriptions: sparse().head(subscriptions))
    monkeypatch.setattr(engines, "RIVALS", {"numpy": engines.RIVALS["numpy"]})
    file = tmp_path / "r.json"
    assert rivals.main(["--size", "300", "--rounds", "1", "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert "earmark, batch" in out
    assert "w1, numpy (narrowing): " in out
    assert "w2, against the best of them: " in out
    figures = read(file).figures
    assert {(one.engine, one.status) for one in figures} == {("earmark", "ok"), ("numpy", "ok")}


def test_the_best_rival_counts() -> None:
    def figure(workload: str, engine: str, what: str, value: float) -> Figure:
        return Figure(workload, rivals.SUBSCRIPTIONS, engine, what, PER_EVENT, [value], events=10)

    found = [figure("w2", "earmark", "batch", 10.0), figure("w2", "earmark", "single", 30.0)]
    found += [figure("w2", "numpy", "columns", 4000.0), figure("w2", "sqlite", "single", 760.0)]
    assert rivals.judge([*found, figure("w1", "earmark", "batch", 1.0)], rivals.SUBSCRIPTIONS).missed == [
        "w1: no figure"
    ]
    found += [figure("w1", "earmark", "batch", 100.0), figure("w1", "duckdb", "batch", 2900.0)]
    assert rivals.judge(found, rivals.SUBSCRIPTIONS).missed == [
        "w1: no figure of numpy",
        "w1, against the best of them",
    ]
    found += [figure("w1", "numpy", "narrowing", 3100.0)]
    assert rivals.judge(found, rivals.SUBSCRIPTIONS).missed == ["w1, against the best of them"]
    less = [one for one in found if one.engine != "sqlite"]
    assert "w2: no figure of sqlite" in rivals.judge(less, rivals.SUBSCRIPTIONS).missed
