"""A book whose folder was removed, moved or replaced while it was open took changes that nobody could find again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import earmark
from earmark import Book, TableError
from earmark.book import care

GONE = "was moved, removed or replaced since the book was opened, so nothing more is written to it: close the book"


def removed(folder: Path) -> None:
    shutil.rmtree(folder)


def moved(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def replaced(folder: Path) -> None:
    """By a backup, as one does to go back to it."""
    shutil.rmtree(folder)
    folder.with_name("backup").rename(folder)


def with_another_journal(folder: Path) -> None:
    for file in folder.glob("journal.db*"):
        file.unlink()
    shutil.copyfile(folder.with_name("backup") / "journal.db", folder / "journal.db")


CHANGES: list[Callable[[Book], object]] = [
    lambda m: m.add("b", "age > 4"),
    lambda m: m.add_many([(f"s{i}", "age > 4") for i in range(2000)]),
    lambda m: m.declare({"city": "string"}),
    lambda m: m.undo(2),
    lambda m: m.retain(2),
    lambda m: m.erase("a"),
    lambda m: m.checkpoint(),
]


@pytest.mark.parametrize("lose", [removed, moved, replaced, with_another_journal])
def test_a_change_raises_and_leaves_nothing(tmp_path: Path, lose: Callable[[Path], None]) -> None:
    m = earmark.open(tmp_path / "b", index="scan")
    m.add("a", "age > 3")
    m.backup(tmp_path / "backup")
    m.add("later", "age > 5")
    before = m.ids()
    lose(tmp_path / "b")
    there = sorted(tmp_path.rglob("*"))
    for change in CHANGES:
        with pytest.raises(TableError, match=GONE):
            change(m)
        assert (m.ids(), m.last_change, m.match({"age": 9})) == (before, 2, before)
        assert "city" not in m.attributes
    with pytest.raises(TableError, match=GONE):
        m.close()
    assert sorted(tmp_path.rglob("*")) == there
    if lose in (moved, replaced):
        folder = tmp_path / ("elsewhere" if lose is moved else "b")
        assert care.check(folder) == []
        with earmark.open(folder) as again:
            again.add("b", "age > 4")
            assert again.ids() == (["a", "later", "b"] if lose is moved else ["a", "b"])
