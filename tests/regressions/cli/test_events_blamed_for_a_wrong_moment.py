"""The error of a wrong `--at` named the file of events, which had nothing to do with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from earmark.cli.app import main

WRONG = {
    "x": "expected a moment such as '2026-03-01 12:00:00' or a datetime for `at`, got 'x'",
    "": "expected a moment such as '2026-03-01 12:00:00' or a datetime for `at`, got ''",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lasting.csv").write_text("id,condition\nx,age > 3\n")
    Path("ending.csv").write_text("id,condition,ends\nx,age > 3,2020-01-01\n")
    Path("events.jsonl").write_text('{"age": 5}\n')


@pytest.mark.parametrize("at", WRONG)
@pytest.mark.parametrize("subscriptions", ["lasting.csv", "ending.csv"])
@pytest.mark.parametrize("command", ["match", "top-k", "backtest"])
def test_no_file_is_named(command: str, subscriptions: str, at: str) -> None:
    done = CliRunner().invoke(main, [command, subscriptions, "events.jsonl", "--at", at])
    assert (done.exit_code, done.output) == (2, f"earmark: {WRONG[at]}\n")


@pytest.mark.parametrize("command", ["match", "top-k", "backtest"])
def test_a_right_one_still_counts(command: str) -> None:
    done = CliRunner().invoke(main, [command, "ending.csv", "events.jsonl", "--at", "2019-01-01", "-o", "found.csv"])
    assert done.exit_code == 0 and len(Path("found.csv").read_text().splitlines()) == 2
    assert ",1," in Path("found.csv").read_text() or command != "backtest"
