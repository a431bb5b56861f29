"""The benchmark of books, on a few rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import books


def test_it_prints_its_bars(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    books.single_adds(tmp_path, 3)
    found = books.add_to_book("2000", str(tmp_path / "b"))
    assert books.lengthen(tmp_path / "b", 4000) == 4000
    assert found["seconds"] > 0 and books.history_of(str(tmp_path / "b"), "2000")["median"] > 0
    assert books.open_book(str(tmp_path / "b"), "yes")["open"] > 0
    assert "(bar: +150)" in capsys.readouterr().out
