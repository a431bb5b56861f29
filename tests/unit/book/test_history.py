"""Time travel, forgetting and care: as_of, diff, undo, retain, erase, backup, check, repair."""

from __future__ import annotations

import shutil
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import earmark
from earmark import Book, EarmarkError, Matcher, SubscriptionError, TableError
from earmark.book import care
from earmark.book.journal import Journal
from earmark.book.rows import FEW


def all_of(m: Matcher) -> list[Any]:
    return [m[one] for one in m.ids()]


@pytest.fixture
def book(tmp_path: Path) -> Any:
    with earmark.open(tmp_path / "b", index="scan", author="ana") as m:
        m.add("a", "age > 3 AND city = 'Oslo'", tags={"tenant": "acme"})
        m.add_many([(f"s{i}", f"age > {i} AND city = 'city {i}'") for i in range(2 * FEW)])
        m.update("a", "age > 4")
        m.remove("s1")
        m.add("s1", "age = 1")
        yield m


def test_as_of(book: Book) -> None:
    expected = all_of(book)
    assert book.as_of(0).ids() == [] and book.as_of(1).ids() == ["a"]
    then = book.as_of(2)
    assert then.match({"age": 4, "city": "Oslo"}) == ["a"] and book.match({"age": 4, "city": "Oslo"}) == []
    assert then.explain("a", {"age": 4, "city": "Rome"}).matched is False
    assert "s1" in then and "s1" not in book.as_of(4)
    assert all_of(book.as_of(5)) == expected
    with pytest.raises(EarmarkError, match="as of change 2, which takes no changes"):
        then.add("x", "TRUE")
    with pytest.raises(EarmarkError, match="there is no change 6; the last one is 5"):
        book.as_of(6)
    book.checkpoint()
    book.add("later", "TRUE")
    assert all_of(book.as_of(5)) == expected and book.as_of(3)["a"].condition == "age > 4"


def test_as_of_a_time(book: Book) -> None:
    time.sleep(0.002)
    before = datetime.now(UTC)
    time.sleep(0.002)
    book.remove("a")
    assert "a" in book.as_of(before) and "a" not in book.as_of(datetime.now(UTC))
    assert "a" in book.as_of(before.replace(tzinfo=None))  # UTC
    assert book.as_of(datetime(2000, 1, 1)).ids() == []
    assert [change.number for change in book.changes(since=before)] == [6]


def test_diff(book: Book) -> None:
    assert [(one.id, one.before is None, one.after is None) for one in book.diff(2, 5)] == [
        ("a", False, False),
        ("s1", False, False),
    ]
    forward, back = book.diff(0, 1), book.diff(1, 0)
    assert forward[0].after == back[0].before and forward[0].before is back[0].after is None
    book.undo(5)
    book.undo(4)
    assert [one.id for one in book.diff(2, book.last_change)] == ["a"]
    assert len(book.diff(0, 2)) == 2 * FEW + 1


def test_undo(book: Book) -> None:
    before = all_of(book.as_of(2))
    with pytest.raises(EarmarkError, match="change 4 is not undone: 's1' changed since; undo the later changes first"):
        book.undo(4)
    for number in (5, 4, 3):
        book.undo(number, author="bob", message="no")
    assert all_of(book) == before  # also in their places
    last = list(book.changes())[-1]
    assert (last.kind, last.author, last.message, last.number) == ("undo", "bob", "no", 8)
    book.undo(8)
    assert book["a"].condition == "age > 4"
    book.declare({"price": "float"})
    with pytest.raises(EarmarkError, match="change 10 gave types to attributes, which is not undone; retype"):
        book.undo(10)
    with pytest.raises(EarmarkError, match="there is no change 11"):
        book.undo(11)
    with pytest.raises(EarmarkError, match="change 0 cannot be undone: there is no change 0"):
        book.undo(0)


def test_retain(book: Book, tmp_path: Path) -> None:
    expected = [all_of(book.as_of(n)) for n in range(6)]
    book.retain(before=5)
    assert [change.kind for change in book.changes()] == ["retain", "add"]
    assert [change.number for change in book.changes()] == [4, 5]
    assert [revision.kind for revision in book.history("a")] == ["retain"]
    assert [revision.kind for revision in book.history("s1")] == ["add"]
    for number in (4, 5):
        assert all_of(book.as_of(number)) == expected[number]
    with pytest.raises(EarmarkError, match="at change 3 was forgotten; its history begins at change 4"):
        book.as_of(3)
    book.undo(5)
    book.retain(before=2)  # nothing left to forget
    book.close()
    with earmark.open(tmp_path / "b") as again:
        assert all_of(again) == expected[4]
    assert care.check(tmp_path / "b") == []


# --- erasing ---------------------------------------------------------------------------------------------------

SECRET = ("Gertrude", "secret_attribute", "Mrs-Tag", "tag-Value-77", "hidden constant")


def bytes_of(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize("many", [False, True])
def test_nothing_of_an_erased_subscription_stays(tmp_path: Path, many: bool) -> None:
    folder = tmp_path / "b"
    with earmark.open(folder, index="scan") as m:
        own = ("gone", "secret_attribute = 'Gertrude' AND city = 'hidden constant'")
        others = [(f"s{i}", f"city = 'c{i}' AND age > {i}") for i in range(2 * FEW if many else 5)]
        tags = {"Mrs-Tag": "tag-Value-77"}
        rows = [{"id": id, "condition": text, "tags": tags if id == "gone" else None} for id, text in [own, *others]]
        m.add_many(rows)
        m.checkpoint()
        m.update("gone", score=4.0)
        m.update("s3", score=1.0)
        m.checkpoint()
        m.remove_many(["gone", *(id for id, _ in others[4:] if many)])
        m.add("gone", own[1], tags=tags)
        assert all(secret.encode() in bytes_of(folder) for secret in SECRET[:1])
        expected = [one for one in all_of(m) if one.id != "gone"]
        m.erase("gone", message="asked to")
        assert all_of(m) == expected
        assert not [secret for secret in SECRET if secret.encode() in bytes_of(folder)]
        assert [(one.kind, one.before, one.after) for one in m.history("gone")] == [("erase", None, None)]
        assert "gone" not in m.as_of(1) and "s3" in m.as_of(1)
        m.check()
        assert "secret_attribute" not in m.attributes
        with pytest.raises(SubscriptionError, match="there is no subscription 'none', and there was none"):
            m.erase("none")
    assert not [secret for secret in SECRET if secret.encode() in bytes_of(folder)]
    assert care.check(folder) == []
    with earmark.open(folder) as again:
        assert all_of(again) == expected
        again.add("gone", "age = 1")
        assert [one.kind for one in again.history("gone")] == ["erase", "add"]


@pytest.mark.parametrize("index", ["auto", "blocks", "be_star_tree"])
@pytest.mark.parametrize("id", ["gone", 7])
def test_nothing_stays_in_other_indexes_nor_beside_a_reader(tmp_path: Path, index: str, id: str | int) -> None:
    """The book was saved before it got its journal, and a reader has that open."""
    folder, saved = tmp_path / "b", Matcher(index)
    others: list[Any] = [f"s{i}" if isinstance(id, str) else i + 100 for i in range(2 * FEW)]
    saved.add_many([(one, f"city = 'c{n}' AND age > {n}") for n, one in enumerate(others)])
    saved.add(id, "secret_attribute = 'Gertrude' AND city = 'hidden constant'", tags={"Mrs-Tag": "tag-Value-77"})
    saved.save(folder)
    with earmark.open(folder) as m:
        m.update(id, weights={"secret_attribute": 0.5})
        m.checkpoint()
        reader = earmark.open(folder, readonly=True, follow=False)
        assert len(reader.history(id)) == 2
        m.update(others[3], score=1.0)
        reader.refresh()
        assert b"Gertrude" in bytes_of(folder)
        m.erase(id)
        assert not [secret for secret in SECRET if secret.encode() in bytes_of(folder)]
        reader.refresh()
        assert reader.ids() == m.ids() == others
        assert [one.kind for one in reader.history(id)] == ["erase"]
        reader.close()
    assert not [secret for secret in SECRET if secret.encode() in bytes_of(folder)]
    assert care.check(folder) == []


def test_an_erasure_that_was_killed_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "b"
    m = earmark.open(folder, index="scan")
    m.add("gone", "city = 'Gertrude'")
    m.checkpoint()
    with monkeypatch.context() as patch:
        patch.setattr(Book, "_finish_erasing", lambda self: None)
        m.erase("gone")
    m.close()
    assert b"Gertrude" in bytes_of(folder)
    earmark.open(folder).close()
    assert b"Gertrude" not in bytes_of(folder)


def test_a_pinned_version_is_not_erased(book: Book, tmp_path: Path) -> None:
    from earmark.book import folder

    book.checkpoint()
    folder.pin(tmp_path / "b", 1, "stream")
    with pytest.raises(EarmarkError, match="version 1 is pinned and may have 'a': unpin it first"):
        book.erase("a")
    folder.unpin(tmp_path / "b", 1, "stream")
    book.erase("a")


# --- care ------------------------------------------------------------------------------------------------------


def test_a_backup_while_others_write(book: Book, tmp_path: Path) -> None:
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            book.add(f"w{number}", f"age = {number}")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        book.backup(tmp_path / "copy")
    finally:
        stop.set()
        thread.join()
    assert care.check(tmp_path / "copy") == []
    with earmark.open(tmp_path / "copy") as copy:
        number = copy.last_change
        assert number >= 5 and all_of(copy) == all_of(book.as_of(number))
        copy.add("own", "TRUE")
    with pytest.raises(TableError, match="exists; a backup goes to a new folder"):
        book.backup(tmp_path / "copy")


def test_a_whole_book_has_no_problems(book: Book, tmp_path: Path) -> None:
    book.checkpoint()
    book.remove("s7")
    book.checkpoint()
    assert care.check(tmp_path / "b") == []
    book.close()
    assert care.check(tmp_path / "b") == []
    done = care.repair(tmp_path / "b")
    assert done[0] == "the journal is whole: 6 changes" and "2,048 subscriptions as of change 6" in done[1]
    with earmark.open(tmp_path / "b") as again:
        assert all_of(again) == all_of(book)


def test_a_checkpoint_that_says_something_else(book: Book, tmp_path: Path) -> None:
    book.close()
    root = tmp_path / "b"
    other = Matcher("scan")
    other.add_many([(one.id, one.condition) for one in all_of(book) if one.id != "a"])
    other.save(tmp_path / "other")
    from earmark.book import saving

    version, _, _ = saving.load(tmp_path / "other", None, True, None)
    saving.save(root, version, "scan", saving.Shelf(), 5)
    (problem,) = care.check(root)
    assert "it has another 'a' than the journal" in problem
    care.repair(root)
    assert care.check(root) == [] and "a" in earmark.open(root, readonly=True, follow=False)


def test_a_lost_journal_is_made_from_a_checkpoint(book: Book, tmp_path: Path) -> None:
    book.close()
    root = tmp_path / "b"
    (root / "journal.db").write_bytes(b"nothing of use" * 1000)
    with pytest.raises(TableError, match="is damaged: file is not a database; `earmark repair` saves what can be read"):
        earmark.open(root)
    done = care.repair(root)
    assert "a new one begins with the newest checkpoint, without history" in done[1]
    with earmark.open(root) as again:
        assert all_of(again) == all_of(book)
        assert [change.kind for change in again.changes()] == ["import"]


def test_a_journal_that_is_cut_is_salvaged(book: Book, tmp_path: Path) -> None:
    book.checkpoint()
    book.add("late", "TRUE")
    book.close()
    root = tmp_path / "b"
    journal = Journal.open(root)
    with journal.writing("written") as connection:
        connection.execute("DELETE FROM changes WHERE number >= 4")
    journal.close()
    with pytest.raises(TableError, match="ends with change 3, though change 6 was made: it is damaged"):
        earmark.open(root)
    shutil.copytree(root, tmp_path / "second")
    done = care.repair(root)
    assert "the journal was read up to change 3 of 6" in done[0]
    assert "a checkpoint has what changes 4 to 6 did: they are now change 4" in done[1]
    with earmark.open(root) as again:
        assert all_of(again) == all_of(book)
        assert [change.kind for change in again.changes()] == ["add", "add", "update", "repair"]
    shutil.rmtree(tmp_path / "second" / "versions")
    care.repair(tmp_path / "second")
    with earmark.open(tmp_path / "second") as again:
        assert all_of(again) == all_of(again.as_of(3)) and again.last_change == 3
    assert (tmp_path / "second" / "damaged").is_dir()
