"""A journal whose index of ids was damaged was called whole by `repair`; a wrong part in it also by `check`."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

import earmark
from earmark.book import care
from earmark.book.journal import JOURNAL


def make(folder: Path, rows: int) -> None:
    with earmark.open(folder, index="scan") as m:
        m.add("a", "x > 1")
        m.add_many([(f"m{i}", f"x > {i}") for i in range(rows)])
        with m.change() as change:
            change.update("a", score=1.0)
            change.declare({"day": "date"})  # so that there are several parts
            change.update("a", score=2.0)


def wrong_page(connection: sqlite3.Connection) -> None:
    slot, parts = connection.execute("SELECT slot, parts FROM pages LIMIT 1 OFFSET 100").fetchone()
    changed = np.frombuffer(parts, np.uint32) ^ 1
    connection.execute("UPDATE pages SET parts = ? WHERE slot = ?", (changed.tobytes(), slot))


DAMAGES = {
    "gone": "DELETE FROM touched WHERE change = 1",
    "another part": "UPDATE touched SET part = 7 WHERE change = 3 AND part = 2",
    "another change": "UPDATE touched SET change = 2 WHERE change = 1",
    "too many": "INSERT INTO touched VALUES (12345, 1, 0)",
    "page gone": "DELETE FROM pages WHERE slot = 17",
    "page of another slot": "UPDATE pages SET slot = 5000 WHERE slot = 17",
    "page with another part": wrong_page,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_it_is_noticed_and_written_again(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "b"
    make(folder, 5000 if "page" in damage else 3)
    before = earmark.open(folder, readonly=True, follow=False)
    expected = [before.history(id) for id in before.ids()[:50]]
    before.close()
    assert care.check(folder) == []
    connection = sqlite3.connect(folder / JOURNAL)
    statement = DAMAGES[damage]
    statement(connection) if callable(statement) else connection.execute(statement)
    connection.commit()
    connection.close()
    assert any("is not found by its ids, or by others" in one for one in care.check(folder))
    assert "is written again" in care.repair(folder)[0]
    assert care.check(folder) == []
    m = earmark.open(folder, readonly=True, follow=False)
    assert [m.history(id) for id in m.ids()[:50]] == expected
    m.close()


@pytest.mark.parametrize("rows", [3, 5000])
def test_what_was_erased_is_not_missed(tmp_path: Path, rows: int) -> None:
    make(tmp_path / "b", rows)
    with earmark.open(tmp_path / "b") as m:
        m.erase("m1")
        m.erase("a")
    assert care.check(tmp_path / "b") == []
    assert care.repair(tmp_path / "b")[0] == "the journal is whole: 5 changes"
