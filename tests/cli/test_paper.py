"""`earmark paper`: its options, what it writes, and what it refuses."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from earmark.cli.app import main
from earmark.errors import EarmarkError
from earmark.report import run as runner


def asked(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["paper", *arguments])


def refused(*arguments: str) -> str:
    result = asked(*arguments)
    assert result.exit_code == 2 and not isinstance(result.exception, EarmarkError)
    return result.output


@pytest.mark.parametrize(
    "parts",
    [("--figure", "8", "--table", "1"), ("--figure", "8", "--experiment", "figure-8"),
     ("--table", "1", "--experiment", "batches")],
)  # fmt: skip
def test_one_part_at_a_time(parts: tuple[str, ...]) -> None:
    assert "one of --figure, --table and --experiment" in refused("shen", *parts)


def test_an_unknown_part_lists_each_known_one_once() -> None:
    said = refused("all", "--figure", "99")
    assert "all has no figure 99; it has " in said
    assert said.count("figure-6,") == said.count("table-1,") == 1


def test_results_pictures_and_report_with_the_seed_asked_for(tmp_path: Path) -> None:
    result = asked("vcr", "--figure", "9", "--scale", "tiny", "--seed", "7", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert f"report: {tmp_path / 'report.html'}" in result.output
    assert json.loads((tmp_path / "vcr" / "figure-9.json").read_text())["seed"] == 7
    assert (tmp_path / "vcr" / "figure-9.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "vcr" / "figure-9.svg").read_text()
    assert "Figure 9" in (tmp_path / "report.html").read_text()
    again = refused("vcr", "--figure", "8", "--scale", "tiny", "--seed", "8", "--out", str(tmp_path))
    assert "has results of seed 7, expected 8" in again


def test_a_run_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = ("vcr", "--scale", "tiny", "--out", str(tmp_path))
    assert asked(*where, "--figure", "9").exit_code == 0
    file = tmp_path / "vcr" / "figure-9.json"
    record = json.loads(file.read_text())
    host: dict[str, Any] = record["machine"] | {"commit": "abc"}
    file.write_text(json.dumps(record | {"machine": host}))
    before = file.read_bytes()
    monkeypatch.setattr(runner, "machine", lambda: host)
    assert "1 of 1 are done already" in asked(*where, "--figure", "9", "--resume").output
    assert file.read_bytes() == before
    monkeypatch.setattr(runner, "machine", lambda: host | {"commit": "abd"})
    assert "done already" not in asked(*where, "--figure", "9", "--resume").output
    assert file.read_bytes() != before


@pytest.mark.parametrize("commit", ["abc+", None])
def test_code_with_changes_is_measured_again(commit: str | None) -> None:
    one = {"commit": commit, "versions": {"earmark": "1"}}
    assert runner.same_code(one, one) == (commit is None)
    assert not runner.same_code(one, one | {"versions": {"earmark": "2"}})


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "rtree" else found(name, *rest)
    )
    said = refused("vcr", "--figure", "9", "--scale", "tiny", "--out", str(tmp_path))
    assert "earmark paper needs rtree: pip install 'earmark[report]'" in said
    assert not list(tmp_path.iterdir())
