"""The benchmark of books, on a few rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import books
from contenders import Bars


def test_it_prints_its_bars(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bars = Bars(judged=True)
    books.single_adds(tmp_path, 3, bars)
    found = books.add_to_book("2000", str(tmp_path / "b"))
    assert books.lengthen(tmp_path / "b", 4000) == 4000
    assert found["seconds"] > 0 and books.history_of(str(tmp_path / "b"), "2000")["median"] > 0
    assert books.open_book(str(tmp_path / "b"), "yes")["open"] > 0
    assert "a durable add beyond its flush" in capsys.readouterr().out


def test_a_missed_bar_is_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The short history opens in a hundredth of the time."""
    times = iter([0.005] * 3 + [0.5] * 3)

    def apart(task: str, *given: object) -> dict[str, float]:
        if task == "book":
            Path(str(given[1])).mkdir()
            (Path(str(given[1])) / "journal.db").touch()
        opened = {"open": next(times) if given[-1] == "yes" else 0.0, "first": 0.1} if task == "open" else {}
        return {"median": 0.001, "p99": 0.002, **opened}

    monkeypatch.setattr(books, "apart", apart)
    monkeypatch.setattr(books, "lengthen", lambda folder, changes: changes)
    monkeypatch.setattr("sys.argv", ["books.py", "--parts", "history", "--folder", str(tmp_path)])
    assert books.main() == 1
    out = capsys.readouterr().out
    assert re.search(r"opening against the short history: 100\b.* -> MISSED", out)
    assert out.count("MISSED") == 1
