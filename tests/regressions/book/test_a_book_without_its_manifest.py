"""Without its book.json a book was taken for a new one: opening it for writing removed the journal and all changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import earmark
from earmark import Matcher, TableError
from earmark.book import care

LACKS = r"has no book\.json; `earmark repair` writes it again"


@pytest.fixture(params=["checkpoint", "journal", "killed", "types"])
def book(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A book with a checkpoint, one that has none, and one as a killed process leaves it, with or without types."""
    attributes = {"age": "integer"} if request.param == "types" else None
    m = earmark.open(tmp_path / "made", index="scan", attributes=attributes)
    m.add("a", "age > 3")
    m.add("b", "age > 4")
    if request.param == "checkpoint":
        m.close()
    shutil.copytree(tmp_path / "made", tmp_path / "b")
    m.close()
    if request.param == "journal":
        (tmp_path / "b" / "HEAD").unlink()
    return tmp_path / "b"


def test_it_is_not_begun_again(book: Path) -> None:
    (book / "book.json").unlink()
    for open_it in (
        lambda: earmark.open(book),
        lambda: earmark.open(book, readonly=True),
        lambda: Matcher().save(book),
        lambda: Matcher.load(book),
    ):
        with pytest.raises(TableError, match=LACKS):
            open_it()
    assert care.check(book) == [f"{str(book)!r} has no book.json; `earmark repair` writes it again"]
    care.repair(book)
    assert care.check(book) == []
    with earmark.open(book) as again:
        assert again.ids() == ["a", "b"]
        assert [one.kind for one in again.history("a")] == ["add"]


def test_a_saved_book_gets_it_back(tmp_path: Path) -> None:
    m = Matcher("scan")
    m.add("a", "age > 3")
    m.save(tmp_path / "b")
    (tmp_path / "b" / "book.json").unlink()
    with pytest.raises(TableError, match=LACKS):
        m.save(tmp_path / "b")
    assert "the versions are as they were" in care.repair(tmp_path / "b")[0]
    assert care.check(tmp_path / "b") == []
    assert Matcher.load(tmp_path / "b").ids() == ["a"]


def test_a_manifest_of_before_the_journal(tmp_path: Path) -> None:
    """Whoever puts the book.json of the saved book back has a journal that it does not know."""
    m = Matcher("scan")
    m.add("a", "age > 3")
    m.save(tmp_path / "b")
    manifest = (tmp_path / "b" / "book.json").read_bytes()
    with earmark.open(tmp_path / "b") as book:
        book.add("b", "age > 4")
    (tmp_path / "b" / "book.json").write_bytes(manifest)
    with pytest.raises(TableError, match=r"has a journal with changes, though its book\.json says that it has none"):
        earmark.open(tmp_path / "b")
    assert (tmp_path / "b" / "journal.db").exists()


def test_what_a_killed_process_began_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from earmark.book import folder

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    for attributes in (None, {"age": "integer"}):
        with monkeypatch.context() as patch:
            patch.setattr(folder, "write_manifest", killed)
            with pytest.raises(KeyboardInterrupt):
                earmark.open(tmp_path / "b", index="scan", attributes=attributes)
        assert (tmp_path / "b" / "journal.db").exists()
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("a", "TRUE")
        assert m.last_change == 1
