"""The program about first uses: it runs, judges, and says what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import demo
from results import read


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a first use is said to have found; the demo takes 30 s."""
    made: dict[str, Any] = {"added": 1.0, "answer": 4.0, "first": "scan", "before": 900.0, "after": 30.0}
    made |= {"planned": 40.0, "then": "blocks", "missing": [], "right": True}
    monkeypatch.setattr(demo, "first_answer", lambda longest: made)
    monkeypatch.setattr(demo, "alone", lambda command: (30.0, ""))
    return made


@pytest.mark.usefixtures("found")
def test_first_uses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main(["--json", str(tmp_path / "r.json")]) == 0
    assert "planned again after 40 s: 'blocks'; a match takes 900 µs before, 30 µs after" in capsys.readouterr().out
    assert [one.what for one in read(tmp_path / "r.json").figures] == ["first answer", "planned again", "demo"]


@pytest.mark.parametrize("wrong", [{"answer": 5.1}, {"missing": ["blocks"]}, {"right": False}])
def test_what_misses_a_bar(found: dict[str, Any], wrong: dict[str, Any]) -> None:
    found |= wrong
    assert demo.main([]) == 1


def test_a_process_with_an_empty_cache() -> None:
    code = "import os; print(os.listdir(os.environ['EARMARK_CACHE_DIR']), 'EARMARK_NO_WARMING' in os.environ)"
    assert demo.alone([demo.sys.executable, "-c", code])[1] == "[] False\n"
    with pytest.raises(SystemExit, match="failed"):
        demo.alone([demo.sys.executable, "-c", "raise ValueError"])
