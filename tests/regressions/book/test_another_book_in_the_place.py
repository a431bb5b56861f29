"""While a book was open, its folder was moved, and another book put there: checkpoints and reads took it for their own.

A checkpoint that had begun went on in the other book, whose next opening then had rows of both; a backup copied the
other one, and its history was read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import earmark
from earmark.book import care
from earmark.book.checkpoints import Checkpoints
from earmark.durable import Book
from earmark.errors import TableError

OTHER = [f"other{i}" for i in range(5)]


def swap(folder: Path) -> None:
    """Put another book in the place of one."""
    other = folder.with_name("other")
    folder.rename(folder.with_name("elsewhere"))
    other.rename(folder)


def a_pair(folder: Path) -> Book:
    with earmark.open(folder / "other", index="scan") as other:
        for id in OTHER:
            other.add(id, "age > 1")
    m = earmark.open(folder / "b", index="scan")
    m.add("x", "age > 3")
    m.add("y", "age > 4")
    return m


@pytest.mark.parametrize("call", [lambda m: m.checkpoint(), lambda m: m.close(), lambda m: m.erase("x")])
def test_a_checkpoint_that_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[Book], object]
) -> None:
    m = a_pair(tmp_path)
    flush = Checkpoints._flush

    def flush_and_swap(self: Checkpoints) -> None:
        flush(self)
        swap(tmp_path / "b")

    monkeypatch.setattr(Checkpoints, "_flush", flush_and_swap)
    with pytest.raises(TableError, match="was moved, removed or replaced"):
        call(m)
    monkeypatch.undo()
    assert care.check(tmp_path / "b") == []
    with earmark.open(tmp_path / "b", readonly=True, follow=False) as other:
        assert other.ids() == OTHER


def test_a_checkpoint_of_a_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of a book was made in its place."""
    m = a_pair(tmp_path)
    flush = Checkpoints._flush

    def flush_and_move(self: Checkpoints) -> None:
        flush(self)
        (tmp_path / "b").rename(tmp_path / "elsewhere")

    monkeypatch.setattr(Checkpoints, "_flush", flush_and_move)
    with pytest.raises(TableError, match="was moved, removed or replaced"):
        m.checkpoint()
    assert not (tmp_path / "b").exists()


def test_a_backup_and_the_history(tmp_path: Path) -> None:
    m = a_pair(tmp_path)
    m.checkpoint()
    reader = earmark.open(tmp_path / "b", readonly=True, follow=False)
    swap(tmp_path / "b")
    for book in (m, reader):
        for read in (
            lambda book: book.backup(tmp_path / "copy"),
            lambda book: book.as_of(1),
            lambda book: book.history("x"),
            lambda book: list(book.changes()),
        ):
            with pytest.raises(TableError, match="another book than the one that was opened"):
                read(book)
        assert book.ids() == ["x", "y"]
    assert not (tmp_path / "copy").exists()
    assert reader.refresh() == 5
    assert (reader.ids(), reader.as_of(1).ids()) == (OTHER, OTHER[:1])
