"""`repair` began again with version 1: pins of lost versions stayed, and readers elsewhere missed the new one."""

from __future__ import annotations

from pathlib import Path

import pytest

import earmark
from earmark.book import care, folder


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A book with versions 1 and 2."""
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("a", "x > 1")
        m.checkpoint()
        m.add("b", "x > 2")
    assert folder.version_numbers(tmp_path / "b") == [1, 2]
    return tmp_path / "b"


def test_pins_of_versions_that_are_gone_are_removed(book: Path) -> None:
    folder.pin(book, 2, "job")
    folder.pin(book, 1, "stream-7")
    done = care.repair(book)
    assert [one for one in done if "pin" in one] == [
        "pins were removed, since their versions are gone: version 1 (stream-7), version 2 (job)"
    ]
    assert folder.version_numbers(book) == [3] and folder.pinned(book) == set()
    assert care.check(book) == []
    with earmark.open(book) as m:
        m.erase("a")
        assert m.ids() == ["b"]


@pytest.mark.parametrize("lost", ["nothing", "CURRENT", "versions", "both"])
def test_version_numbers_go_on(book: Path, lost: str) -> None:
    folder.pin(book, 2, "job")
    if lost in ("CURRENT", "both"):
        (book / "CURRENT").write_bytes(b"{")
    if lost in ("versions", "both"):
        for number in (1, 2):
            (folder.version_folder(book, number) / "version.json").unlink()
            (folder.version_folder(book, number)).rmdir()
    care.repair(book)
    assert folder.version_numbers(book) == [3] == [folder.current_version(book)]
    assert care.check(book) == []
    assert len(list((book / "segments").iterdir())) == 1


def test_a_reader_elsewhere_notices(book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("earmark.following.was_elsewhere", lambda root: True)
    reader = earmark.open(book, readonly=True, follow=False)
    assert reader.refresh() == 2 and reader.ids() == ["a", "b"]
    (book / "journal.db").unlink()
    care.repair(book)
    with earmark.open(book) as m:
        m.remove("a")
        m.checkpoint()
        assert reader.refresh() == folder.current_version(book) == 4 and reader.ids() == ["b"]


def test_a_book_without_subscriptions(tmp_path: Path) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("a", "x > 1")
        m.checkpoint()
        m.remove("a")
    before = folder.current_version(tmp_path / "b")
    care.repair(tmp_path / "b")
    assert folder.current_version(tmp_path / "b") == before + 1
    assert care.check(tmp_path / "b") == []
    with earmark.open(tmp_path / "b") as m:
        assert m.ids() == [] and m.last_change == 2
        m.add("b", "TRUE")
