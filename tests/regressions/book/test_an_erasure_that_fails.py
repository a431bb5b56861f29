"""`erase` reported success with old files left, and one that could not be finished kept the book's lock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import earmark
from earmark import TableError
from earmark.book import folder as folders
from earmark.book.checkpoints import Checkpoints

NOT_YET = "is gone from the book and its history, but not yet from all of its files: .*; erase it again"


def secrets_in(folder: Path) -> list[str]:
    return [str(file) for file in folder.rglob("*") if file.is_file() and b"Gertrude" in file.read_bytes()]


@pytest.fixture
def book(tmp_path: Path) -> Any:
    m = earmark.open(tmp_path / "b", index="scan")
    m.add("gone", "city = 'Gertrude'")
    m.add("kept", "city = 'Oslo'")
    m.checkpoint()
    yield m
    m.close()


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def nothing(*_: object) -> None:
    pass


FAULTS: list[tuple[Any, str, Callable[..., None]]] = [
    (Checkpoints, "make_alone", full),
    (folders, "remove", nothing),
    (folders, "_remove_unlisted", nothing),
]


@pytest.mark.parametrize(("owner", "name", "fault"), FAULTS)
def test_it_says_so_and_can_be_repeated(
    book: earmark.Book, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, fault: Any
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fault)
        with pytest.raises(TableError, match=NOT_YET):
            book.erase("gone")
    assert book.ids() == ["kept"] and secrets_in(book.path)
    book.erase("gone")
    assert not secrets_in(book.path)


@pytest.mark.parametrize(("owner", "name", "fault"), FAULTS)
def test_opening_finishes_it_or_says_so(
    book: earmark.Book, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, fault: Any
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fault)
        with pytest.raises(TableError, match=NOT_YET):
            book.erase("gone")
        book._checkpoints.shelf.change = book.last_change  # so that close() makes no other one
        book.close()
        with pytest.raises(TableError, match=NOT_YET) as kept:
            earmark.open(book.path)
    with earmark.open(book.path) as again:
        assert again.ids() == ["kept"] and not secrets_in(book.path)
    assert kept.value.args


def test_a_version_that_was_pinned_meanwhile(book: earmark.Book, monkeypatch: pytest.MonkeyPatch) -> None:
    make_alone = Checkpoints.make_alone

    def pinned(self: Checkpoints) -> None:
        folders.pin(book.path, folders.current_version(book.path), "stream")
        make_alone(self)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "make_alone", pinned)
        with pytest.raises(TableError, match="all of its files: version 1 is pinned"):
            book.erase("gone")
    folders.unpin(book.path, 1, "stream")
    book.erase("gone")
    assert not secrets_in(book.path)
