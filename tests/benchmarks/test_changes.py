"""The program about changes, on tiny data: it runs, compares answers, judges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.benchmarks.tiny import dense

import changes
from results import read


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """w2 is tiny here, batches are short, and the books of the last part are not in processes of their own."""
    monkeypatch.setattr(changes, "WORKLOADS", {"w2": lambda subscriptions: dense().head(subscriptions)})
    monkeypatch.setattr(changes, "ROWS", 20)
    monkeypatch.setattr(changes, "RATE", 400)
    jobs = {"age": changes.age, "build": changes.build}
    monkeypatch.setattr(changes, "in_process", lambda what, job, limit: jobs[what](job))


def test_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "r.json"
    asked = ["--size", "300", "--indexes", "scan", "--changes", "40", "--seconds", "0.5", "--limit", "20"]
    assert changes.main([*asked, "--json", str(file)]) == 0
    out = capsys.readouterr().out
    for part in ("scan, 300 subscriptions", "update: median", "after 300 changes", "not judged at this size"):
        assert part in out
    figures = read(file).figures
    assert {one.status for one in figures} == {"ok"}
    assert {"add", "remove, p99", "match beside changes, p99", "aged, single", "compaction's peak, memory"} <= {
        one.what for one in figures
    }


def test_a_book_that_answers_otherwise(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def wrong(job: dict[str, Any]) -> dict[str, Any]:
        return changes_age(job) | {"wrong": True}

    changes_age = changes.age
    monkeypatch.setattr(
        changes, "in_process", lambda what, job, limit: (wrong if what == "age" else changes.build)(job)
    )
    assert changes.main(["--size", "200", "--indexes", "scan", "--parts", "aged", "--limit", "20"]) == 1
    assert "WRONG" in capsys.readouterr().out


def test_a_job(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job = {"index": "scan", "size": 200, "limit": 5.0, "repeats": 1, "file": str(tmp_path / "book.arrow")}
    assert changes.main(["--job", json.dumps(["age", job])]) == 0
    assert json.loads(capsys.readouterr().out)["changes"] == 200
