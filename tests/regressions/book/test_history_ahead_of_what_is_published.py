"""`history` compared the newest row of the journal with an older published version, and called the journal damaged."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import earmark
from earmark.book.journal import Journal, JournalError, entry
from earmark.book.rows import part_of_rows


def numbers(m: earmark.Book, id: str) -> list[int]:
    return [one.number for one in m.history(id)]


def test_a_reader_that_is_behind(tmp_path: Path) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("a", "x > 1")
        reader = earmark.open(tmp_path / "b", readonly=True, follow=False)
        m.update("a", "x > 2")
        assert numbers(reader, "a") == [1, 2]
        m.remove("a")
        m.add("new", "TRUE")
        assert numbers(reader, "a") == [1, 2, 3] and numbers(reader, "new") == [4]
        assert reader.last_change == 1 and "new" not in reader
        reader.close()


def test_a_reader_behind_what_was_forgotten_or_erased(tmp_path: Path) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("a", "x > 1")
        m.add("b", "x > 1")
        reader = earmark.open(tmp_path / "b", readonly=True, follow=False)
        m.update("a", "x > 2")
        m.erase("b")
        m.add("c", "x > 1")
        assert [one.kind for one in reader.history("b")] == ["erase"]
        m.retain(before=5)
        assert [one.kind for one in reader.history("a")] == ["retain"]
        reader.close()


def test_beside_writing_threads(tmp_path: Path) -> None:
    with earmark.open(tmp_path / "b", index="scan", durability="normal") as m:
        m.add("a", "x > 0")
        reader = earmark.open(tmp_path / "b", readonly=True)
        is_over, problems = threading.Event(), list[Exception]()

        def write(first: int) -> None:
            for i in range(first, first + 150):
                m.update("a", f"x > {i}")

        def read(book: earmark.Book) -> None:
            known: list[int] = []
            try:
                while not is_over.is_set():
                    now = numbers(book, "a")
                    assert now[: len(known)] == known
                    known = now
            except Exception as problem:
                problems.append(problem)

        writers = [threading.Thread(target=write, args=(1000 * i,)) for i in range(2)]
        readers = [threading.Thread(target=read, args=(book,)) for book in (m, m, reader)]
        for one in writers + readers:
            one.start()
        for one in writers:
            one.join()
        is_over.set()
        for one in readers:
            one.join()
        reader.close()
        assert problems == []
        assert numbers(m, "a") == list(range(1, 302))


@pytest.mark.parametrize("later", [False, True])
def test_a_row_that_disagrees_is_still_damage(tmp_path: Path, later: bool) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("a", "x > 1")
        journal = Journal.open(tmp_path / "b")
        with journal.writing("written") as connection:
            (stored, _) = entry(1, 7, None, None, "add", [part_of_rows([("a", None, {"place": 0, "condition": "y"})])])
            journal.rewrite(connection, stored)
        journal.close()
        if later:
            m.update("a", "x > 2")
        with pytest.raises(JournalError, match="gap before change 2" if later else "does not lead to what it is"):
            m.history("a")
