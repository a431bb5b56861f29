"""The program as a user runs it: processes, tables, files, exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.benchmarks.tiny import dense

import fresh
import run
from results import PER_EVENT, Figure, read
from tables import against, filled, number, overview, size_name

HERE = "tests.benchmarks.tiny"


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """w2 is a tiny workload here."""
    monkeypatch.setitem(run.WORKLOADS, "w2", lambda subscriptions: dense().head(subscriptions))


@pytest.mark.usefixtures("tiny")
def test_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, file = tmp_path / "page.md", tmp_path / "r.json"
    page.write_text("before\n<!-- figures: begin -->\nold\n<!-- figures: end -->\nafter\n", "utf-8")
    asked = ["--workloads", "w2", "--sizes", "300", "--engines", "scan,numpy", "--repeats", "2"]
    assert run.main([*asked, "--json", str(file), "--markdown", str(page)]) == 0
    out = capsys.readouterr().out
    assert "every answer that was measured is the reference's" in out
    assert "| µs per event at 300 | w2 |" in out
    result = read(file)
    assert {one.status for one in result.figures} == {"ok"}
    assert {one.subscriptions for one in result.figures} == {300}
    text = page.read_text("utf-8")
    assert "| scan, batch |" in text
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert run.main(["--show", str(file)]) == 0
    assert "| scan, batch |" in capsys.readouterr().out


@pytest.mark.usefixtures("tiny")
def test_engines_that_misbehave(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh, "START", 1.0)
    file = tmp_path / "r.json"
    asked = ["--workloads", "w2", "--sizes", "300", "--repeats", "1", "--json", str(file)]
    names = [f"{HERE}:{name}" for name in ("Forgetful", "Broken", "Endless")]
    for name, limit in zip(names, ("60", "60", "1"), strict=True):
        code = run.main([*asked, "--engines", name, "--time-limit", limit])
        assert code == (0 if "Endless" in name else 1)
    out = capsys.readouterr().out
    assert "WRONG" in out
    assert "1 matches missing" in out
    assert "MemoryError: no room at all" in out
    assert "stopped: not done in 1 s" in out
    assert [one.status for one in read(file).figures] == ["skipped"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["--workloads", "w9"], "no workload called 'w9'"),
        (["--engines", "nothing"], "no engine called 'nothing'"),
        (["--sizes", "2m"], "'2m' is not a size"),
        (["--sizes", "ten"], "'ten' is not a size"),
        (["--repeats", "-1"], "must be positive"),
        (["--json", "no/such/folder/r.json"], "there is no folder"),
        (["--markdown", "no-such-page.md"], "No such file"),
    ],
)
def test_bad_arguments_get_a_sentence(asked: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run.main(asked)
    assert stopped.value.code == 2
    assert told in capsys.readouterr().err


def test_a_wrong_engine_stands_in_the_overview_as_wrong() -> None:
    bad = Figure("w2", 10_000, "bad", "batch", PER_EVENT, [], "wrong", 1000, "1 matches missing")
    good = Figure("w2", 10_000, "good", "batch", PER_EVENT, [3.0], "ok", 1000)
    no = Figure("w2", 10_000, "no", "build", "s", [], "skipped", 0, "cannot")
    lines = overview([bad, good, no]).splitlines()
    assert lines[2:] == ["| bad, batch | WRONG |", "| good, batch | 3.00 |", "| no | – |"]
    larger = Figure("w2", 100_000, "good", "batch", PER_EVENT, [31.0], "ok", 1000)
    sparse = Figure("w1", 10_000, "good", "single", PER_EVENT, [4.0], "ok", 1000)
    assert overview([good, larger, sparse]).splitlines() == [
        "| µs per event at 10k / 100k | w2 | w1 |",
        "|---|---|---|",
        "| good, batch | 3.00 / 31.0 | – |",
        "| good, single | – | 4.00 / – |",
    ]


def test_numbers() -> None:
    assert [number(x) for x in (0.126, 9.994, 9.996, 99.94, 99.96, 12345.6)] == "0.13 9.99 10.0 99.9 100 12,346".split()
    assert [size_name(x) for x in (300, 10_000, 1_000_000)] == ["300", "10k", "1M"]
    assert against(10.0, 5.0) == "2.00 x faster"
    assert against(10.0, 30.0) == "3.00 x slower"
    with pytest.raises(ValueError, match="no place marked"):
        filled("nothing here", "text")
