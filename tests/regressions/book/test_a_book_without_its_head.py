"""`earmark check` found nothing wrong with a book without HEAD, which tells when the journal has lost its end. Backups
and migrated books had none until they were opened for writing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import earmark
from earmark import Book, Matcher
from earmark.book import care, opening
from earmark.book.journal import JOURNAL, JournalError
from earmark.book.marks import HEAD, Mark


def filled(folder: Path) -> Book:
    m = earmark.open(folder, index="scan")
    m.add("a", "age > 3")
    m.add("b", "age > 4")
    return m


def head_of(folder: Path) -> int:
    with closing(Mark(folder, writable=False)) as mark:
        return mark.read()[0]


def cut(folder: Path) -> None:
    """Take the last change out of a journal."""
    with closing(sqlite3.connect(folder / JOURNAL)) as connection, connection:
        connection.execute("DELETE FROM changes WHERE number = (SELECT MAX(number) FROM changes)")


def test_it_is_reported_and_written_again(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    filled(folder).close()
    (folder / HEAD).unlink()
    assert care.check(folder) == [
        f"{str(folder)!r} has no HEAD, which tells when the journal is cut; `earmark repair` writes it"
    ]
    assert "HEAD was written again, with change 2" in care.repair(folder)
    assert head_of(folder) == 2 and care.check(folder) == []
    assert not any("HEAD" in sentence for sentence in care.repair(folder))


@pytest.mark.parametrize("is_open", [True, False])
def test_a_backup_has_one(tmp_path: Path, is_open: bool) -> None:
    m = filled(tmp_path / "b")
    if not is_open:
        m.close()
    m.backup(tmp_path / "copy")
    m.close()
    copy = tmp_path / "copy"
    assert head_of(copy) == 2 and care.check(copy) == []
    cut(copy)
    with pytest.raises(JournalError, match="ends with change 1, though change 2 was made"):
        earmark.open(copy)


def test_a_migrated_book_has_one(tmp_path: Path) -> None:
    m = Matcher("scan")
    m.add("a", "age > 3")
    m.save(tmp_path / "b")
    assert care.check(tmp_path / "b") == []  # a saved book needs none
    m.save(tmp_path / "b")
    opening.migrate(tmp_path / "b")
    assert head_of(tmp_path / "b") == 1 and care.check(tmp_path / "b") == []
