"""Wrong arguments of books raised errors of other libraries, or left files where there was no book: a folder with the
file WRITER. Backups were made inside of books."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import earmark
from earmark import EarmarkError, Matcher
from earmark.book import care
from earmark.durable import Book

LONE = "\ud800"


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    with earmark.open(tmp_path / "book", index="scan") as m:
        m.add("x", "a > 1")
        yield m


@pytest.mark.parametrize("name", ["author", "message"])
def test_text_that_cannot_be_written(book: Book, name: str) -> None:
    with pytest.raises(EarmarkError, match="without lone surrogates"):
        book.change(**{name: LONE})
    with pytest.raises(EarmarkError, match="without lone surrogates"):
        book.undo(1, **{name: LONE})
    with pytest.raises(EarmarkError, match="without lone surrogates"):
        book.erase("x", **{name: LONE})
    with pytest.raises(EarmarkError, match="at most 10,000 characters"):
        book.erase("x", **{name: 5})  # type: ignore[arg-type]
    assert "x" in book and book.last_change == 1


def test_numbers_of_changes(book: Book) -> None:
    wrong: list[Any] = [datetime(2026, 1, 1), "1", True, 1.0]
    for one in wrong:
        with pytest.raises(EarmarkError, match="expected the number of a change to undo, got"):
            book.undo(one)
        with pytest.raises(EarmarkError, match="expected the number of a change for if_change, got"):
            book.update("x", "a > 2", if_change=one)
    book.update("x", "a > 2", if_change=1)


@pytest.mark.parametrize(
    "options", [{"index": "nope"}, {"zone": "Mars/Base"}, {"attributes": {"a": "nope"}}, {"index_options": {"no": 1}}]
)
def test_a_book_that_is_not_made(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(EarmarkError):
        earmark.open(tmp_path / "new" / "book", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [{"index": "nope"}, {"zone": "Europe/Oslo"}])
def test_a_saved_book_that_is_not_opened(options: dict[str, Any], tmp_path: Path) -> None:
    m = Matcher("scan")
    m.add("x", "a > 1")
    m.save(tmp_path / "saved")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(EarmarkError):
        earmark.open(tmp_path / "saved", **options)
    with pytest.raises(EarmarkError, match="no journal to repair it from"):
        care.repair(tmp_path / "saved")
    assert sorted(tmp_path.rglob("*")) == before


def test_nothing_to_repair(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(EarmarkError, match="is not an earmark book"):
        care.repair(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_no_backup_inside_of_a_book(book: Book, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(book.path)
    for inside in (book.path / "copy", book.path / "deep" / "copy", tmp_path / "link" / "copy"):
        with pytest.raises(EarmarkError, match="is inside the book"):
            book.backup(inside)
    assert not (book.path / "copy").exists() and not (book.path / "deep").exists()
    book.backup(tmp_path / "copies" / "copy")
    with earmark.open(tmp_path / "copies" / "copy", readonly=True) as copy:
        assert list(copy) == ["x"]
