"""Whoever was reading history while `retain` forgot it was told that the journal is damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import earmark
from earmark import EarmarkError, following, lookback
from earmark.book import history, opening


@pytest.fixture
def book(tmp_path: Path) -> Any:
    with earmark.open(tmp_path / "b", index="scan") as m:
        for i in range(10):
            m.add(i, f"age > {i}")
        yield m


def reader_of(m: earmark.Book) -> earmark.Book:
    return earmark.open(m.path, readonly=True, follow=False)


@pytest.mark.parametrize("own", [True, False])
def test_changes(book: earmark.Book, monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    monkeypatch.setattr(lookback, "PAGE", 2)
    changes = (book if own else reader_of(book)).changes()
    first = next(changes)
    book.retain(before=8)
    assert next(changes).number == 2
    with pytest.raises(EarmarkError, match="change 3 was forgotten meanwhile; the history begins at change 7"):
        next(changes)
    with pytest.raises(EarmarkError, match="change 1 was forgotten meanwhile; the history begins at change 7"):
        assert first.differences


def test_changes_that_are_kept(book: earmark.Book, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookback, "PAGE", 2)
    changes = book.changes(since=7)
    next(changes)
    book.retain(before=8)
    assert [one.number for one in changes] == [9, 10]


@pytest.mark.parametrize(
    ("module", "name", "look"),
    [
        (opening, "as_of", lambda m, moment: m.as_of(moment).ids()),
        (history, "net", lambda m, moment: [one.id for one in m.diff(0, moment)]),
    ],
)
@pytest.mark.parametrize(("moment", "kept"), [(4, False), (9, True)])
def test_looking_back(
    book: earmark.Book,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
    look: Callable[[earmark.Book, int], list[int]],
    moment: int,
    kept: bool,
) -> None:
    reader, real, calls = reader_of(book), getattr(module, name), []

    def beside_a_retain(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 1:
            book.retain(before=8)
        return real(*given)

    monkeypatch.setattr(module, name, beside_a_retain)
    if kept and name == "as_of":
        assert look(reader, moment) == list(range(moment))
    else:
        with pytest.raises(EarmarkError, match=r"was forgotten; its history begins at change 7"):
            look(reader, moment)


def test_a_reader_that_follows(book: earmark.Book, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(book)
    book.add(10, "TRUE")
    real, calls = following.replayed, []

    def beside_a_retain(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 1:
            book.add(11, "TRUE")
            book.add(12, "TRUE")
            book.retain(before=13)
        return real(*given)

    monkeypatch.setattr(following, "replayed", beside_a_retain)
    reader.refresh()
    assert reader.ids() == book.ids()
