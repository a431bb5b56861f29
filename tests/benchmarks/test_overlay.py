"""The program about networks of brokers, on tiny ones: it runs, judges, writes a page; and claims can fail."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "overlay.py"
SPEC = importlib.util.spec_from_file_location("overlay_program", FILE)  # `overlay` is a folder of tests
assert SPEC is not None and SPEC.loader is not None
overlay = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = overlay
SPEC.loader.exec_module(overlay)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay, "WORKLOADS", ("shen-uniform",))
    monkeypatch.setattr(overlay, "TOPOLOGIES", ("line:2", "star:3", "line:3"))
    monkeypatch.setattr(overlay, "QUICK", overlay.Sizes(12, {"line:2": 15, "line:3": 10}, (5, 10), 5))
    monkeypatch.setattr(overlay, "DIMENSIONS", (2, 3))
    monkeypatch.setattr(overlay, "QUICK_POLICIES", ("flood", "covering"))
    monkeypatch.setattr(overlay, "SCALE", (("line:3", 2_000, 1_000, None), ("star:4", 1_000, 500, 100)))


def test_everything_is_run_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    overlay.main(["--quick", "--processes", "1", "--docs", str(tmp_path), "--json", str(tmp_path / "r.json")])
    out = capsys.readouterr().out
    for part in ("by policy", "figure 7", "growth", "MICS, Figure 7: to a neighbour", "Shen et al."):
        assert part in out, part
    record = json.loads((tmp_path / "r.json").read_text())
    assert all(cell["exact"] for cell in record["cells"])
    page = (tmp_path / "overlay-results.md").read_text()
    assert page.count("|---|") and all(f"| {c['policy']} |" in page for c in record["cells"])
    for name in ("overlay-by-policy.svg", "overlay-figure-7.svg", "overlay-growth-control.svg"):
        assert (tmp_path / name).stat().st_size > 1_000 and name in page


def test_what_was_kept_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs, file = overlay.figure_7(overlay.Sizes(5, {"line:2": 5}, (5,), 1))[:2], tmp_path / "kept"
    first = overlay.run_all(specs[:1], 1, file)
    run, asked = overlay.run, []
    monkeypatch.setattr(overlay, "run", lambda spec: (asked.append(spec), run(spec))[1])
    assert overlay.run_all(specs, 1, file)[0] == first[0]
    assert asked == specs[1:] and overlay.kept(file).keys() == set(specs)


def test_scale(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert overlay.main(["--scale", "--quick"]) == 0
    monkeypatch.setattr(overlay, "MOST_SECONDS", 0.0)
    assert overlay.main(["--scale", "--quick"]) == 1
    assert "more than 0" in capsys.readouterr().out


CELL = overlay.Cell(
    "by policy", "shen-uniform", 3, "line:3", 3, 100, 9, "flood", 100, 9, 50, 20, 9, 0, 1, 0.1, 1.0, True
)


def test_claims_hold_and_fail() -> None:
    def figure(policy: str, attributes: int, control: int) -> Any:
        return replace(CELL, part="figure 7", topology="line:2", policy=policy, attributes=attributes, control=control)

    cells = [figure("flood", d, 100) for d in (2, 3)]
    cells += [figure("covering", 2, 60), figure("covering", 3, 80), figure("subsumption", 2, 20)]
    good = [*cells, figure("subsumption", 3, 60), CELL, replace(CELL, policy="covering", control=20, entries=10)]
    assert [claim.holds for claim in overlay.judged(good)] == [True] * 4 + [False] + [True] * 3
    bad = [*cells, figure("subsumption", 3, 90), CELL, replace(CELL, policy="covering", control=120, entries=60)]
    assert [claim.holds for claim in overlay.judged(bad)] == [True] * 4 + [False] * 4
    weak = [figure("covering" if one.policy == "subsumption" else one.policy, one.attributes, 60) for one in cells]
    assert not overlay.judged([*weak, figure("subsumption", 2, 46), figure("subsumption", 3, 50)])[2].holds


def test_problems_fail_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for changes, problem in (({"exact": False}, "not those of one scan"), ({"hops": 0}, "no publication went over")):
        file = tmp_path / "record.json"
        file.write_text(
            json.dumps({"machine": {"cores": 3}, "command": "x", "cells": [asdict(replace(CELL, **changes))]})
        )
        assert overlay.main(["--from", str(file), "--json", str(tmp_path / "again.json")]) == 1
        assert problem in capsys.readouterr().out
        assert json.loads((tmp_path / "again.json").read_text())["machine"] == {"cores": 3}
