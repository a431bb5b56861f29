"""Durable books: what was changed is there when the folder is opened again, and in readers that follow."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import earmark
from earmark import Book, EarmarkError, Matcher, SubscriptionError, TableError
from earmark.book import care, checkpoints
from earmark.book.journal import Journal
from earmark.book.rows import FEW

FORK = multiprocessing.get_context("fork")


def filled(path: Path, **options: Any) -> Book:
    m = earmark.open(path, index="scan", **options)
    m.add("a", "age > 3 AND city = 'Oslo'", weights={"age": 0.5}, score=1.5, tags={"tenant": "acme"})
    m.add_many([(f"s{i}", f"age > {i}") for i in range(5)])
    return m


def all_of(m: Matcher) -> list[Any]:
    return [m[one] for one in m.ids()]


def test_everything_is_there_again(tmp_path: Path) -> None:
    with filled(tmp_path / "b", author="ana") as m:
        m.update("a", score=2.5)
        m.upsert("s1", "age < 100", tags={"x": "y"})
        assert m.upsert("new", "ok")
        m.remove("s2")
        assert m.remove_many(["s3", "s4"]) == 2
        m.declare({"price": "decimal(9,2)"})
        m.retype("age", "integer")
        expected = all_of(m)
        numbers = [change.number for change in m.changes()]
    assert numbers == list(range(1, 10)) and m.last_change == 9
    for _ in range(2):  # the second time from the checkpoint
        with earmark.open(tmp_path / "b") as again:
            assert all_of(again) == expected
            assert again.attributes["price"].type == "decimal(9,2)" and again.attributes["age"].type == "integer"
            assert again.match({"age": 50, "city": "Oslo", "ok": True}) == ["a", "s0", "s1", "new"]
            assert again.last_change == 9 and again.index == "scan"
            again.check()


def test_changes_are_there_without_close(tmp_path: Path) -> None:
    def child() -> None:
        m = filled(tmp_path / "b")
        m.remove("s0")
        multiprocessing.current_process()._popen = None  # type: ignore[attr-defined]
        import os

        os._exit(0)

    process = FORK.Process(target=child)
    process.start()
    process.join(60)
    with earmark.open(tmp_path / "b") as m:
        assert m.ids() == ["a", "s1", "s2", "s3", "s4"]


def test_many_rows(tmp_path: Path) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        rows = [(f"s{i}", f"age > {i} AND city = 'c{i % 7}'") for i in range(3000)]
        m.add_many(rows)
        m.remove_many([f"s{i}" for i in range(1, 2500)])
        expected = all_of(m)
        assert [revision.kind for revision in m.history("s7")] == ["add", "remove"]
        assert m.history("s7")[0].after == m.history("s7")[1].before
        assert len(m.diff(1, 2)) == 2499
    journal = Journal.open(tmp_path / "b", readonly=True)
    assert [form for form, _ in journal.parts(journal.change(2))] == ["removed", "removed"]  # type: ignore[arg-type]
    journal.close()
    with earmark.open(tmp_path / "b") as again:
        assert all_of(again) == expected
        assert again.as_of(1).ids() == [one for one, _ in rows]
        again.undo(2)
        assert again.ids() == [one for one, _ in rows]  # in their old places
        again.undo(3)
        assert all_of(again) == expected


def test_ready_made_rows_keep_their_types(tmp_path: Path) -> None:
    import pyarrow as pa

    frame = pa.table({"id": [1, 2], "t_lo": [datetime(2024, 1, 1)] * 2, "t_hi": [None, datetime(2024, 2, 1)]})
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add_many(frame)
        m.update(1, score=3.0)
        m.remove(2)
        before = m.attributes["t"].type, m.match({"t": datetime(2025, 1, 1)})
    assert before == ("timestamp", [1])
    with earmark.open(tmp_path / "b") as again:
        assert (again.attributes["t"].type, again.match({"t": datetime(2025, 1, 1)})) == before
        assert again.as_of(1).match({"t": datetime(2024, 1, 7)}) == [1, 2]


# --- one writes, many read -------------------------------------------------------------------------------------


def test_the_lock_names_its_holder(tmp_path: Path) -> None:
    with filled(tmp_path / "b"):
        with pytest.raises(TableError, match=r"is open for writing by this process on .* since .* UTC; close it"):
            earmark.open(tmp_path / "b")

        def child() -> None:
            with pytest.raises(TableError, match=rf"by process {parent} on"):
                earmark.open(tmp_path / "b")

        import os

        parent = os.getpid()
        process = FORK.Process(target=child)
        process.start()
        process.join(60)
        assert process.exitcode == 0
    earmark.open(tmp_path / "b").close()


def test_a_forked_child_changes_nothing(tmp_path: Path) -> None:
    with filled(tmp_path / "b") as m:

        def child() -> None:
            assert m.match({"age": 1}) == ["s0"]
            with pytest.raises(TableError, match="was open in the process that this one was forked from"):
                m.history("s0")
            with pytest.raises(EarmarkError, match="forked from, which alone may change it"):
                m.remove("s0")
            m.close()

        process = FORK.Process(target=child)
        process.start()
        process.join(60)
        assert process.exitcode == 0
        m.add("later", "TRUE")
        with pytest.raises(TableError, match="is open for writing"):
            earmark.open(tmp_path / "b")
    assert "later" in earmark.open(tmp_path / "b", readonly=True, follow=False)


def test_readers_follow(tmp_path: Path) -> None:
    with filled(tmp_path / "b") as m:
        by_hand = earmark.open(tmp_path / "b", readonly=True, follow=False)
        by_itself = earmark.open(tmp_path / "b", readonly=True)
        m.add("new", "age = 1000")
        m.remove("s0")
        assert by_hand.match({"age": 1000}) == ["s0", "s1", "s2", "s3", "s4"]
        assert by_hand.refresh() == 4 == by_hand.last_change
        assert by_hand.match({"age": 1000}) == ["s1", "s2", "s3", "s4", "new"]
        wait_for(lambda: by_itself.last_change == 4, 5)
        assert by_itself.ids() == m.ids()
        assert by_itself.history("new")[0].after == m["new"]
        with pytest.raises(EarmarkError, match="was opened read-only, so it takes no changes"):
            by_hand.add("x", "TRUE")
        by_hand.close()
        by_itself.close()


def test_readers_elsewhere_follow_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled(tmp_path / "b") as m:
        m.checkpoint()
        monkeypatch.setattr("earmark.book.marks.machine", lambda: "another")
        monkeypatch.setattr("earmark.book.marks.boot", lambda: "another")
        reader = earmark.open(tmp_path / "b", readonly=True, follow=False)
        m.remove("s0")
        reader.refresh()
        assert "s0" in reader
        m.checkpoint()
        reader.refresh()
        assert reader.ids() == m.ids()
        with pytest.raises(EarmarkError, match="followed by its checkpoints, which have no history"):
            reader.history("s0")


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_threads_share_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits: list[int] = []
    append = Journal.append

    def slowly(self: Journal, entries: Any) -> None:
        commits.append(len(entries))
        time.sleep(0.02)
        append(self, entries)

    with filled(tmp_path / "b") as m:
        monkeypatch.setattr(Journal, "append", slowly)
        threads = [threading.Thread(target=m.add, args=(f"t{i}", f"age = {i}")) for i in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(commits) == 12 and len(commits) < 12
        assert len(m) == 18 and m.last_change == 14
    with earmark.open(tmp_path / "b") as again:
        assert len(again) == 18


def test_checkpoints_come_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "LEAST_ROWS", 20)
    m = filled(tmp_path / "b", durability="normal")
    for i in range(60):
        m.add(f"t{i}", f"age = {i}")
    wait_for(lambda: (tmp_path / "b" / "CURRENT").exists() and m._checkpoints.change > 20, 20)
    assert m._checkpoints.problem is None
    m.close()


# --- comparing and transactions --------------------------------------------------------------------------------


def test_compare_and_set(tmp_path: Path) -> None:
    with filled(tmp_path / "b") as m:
        m.update("a", score=2.0, if_change=1)
        with pytest.raises(SubscriptionError, match="expected change 1 as the last one of 'a', got change 3"):
            m.update("a", score=4.0, if_change=1)
        with pytest.raises(SubscriptionError, match="there is no subscription 'none'"):
            m.update("none", score=4.0, if_change=1)
        assert m["a"].score == 2.0 and m.last_change == 3


def test_a_change_is_one_entry(tmp_path: Path) -> None:
    with filled(tmp_path / "b", author="ana") as m:
        with m.change(author="bob", message="spring prices") as c:
            c.add("x", "price < 5")
            c.update("x", score=2.0)
            c.remove("s0")
            c.upsert("s1", "age = 1")
            assert c.add_many([("y", "TRUE")]) == 1 and "y" in c and len(c) == 7 and c["x"].score == 2.0
            assert "x" not in m
        change = list(m.changes())[-1]
        assert (change.number, change.author, change.message, change.kind) == (3, "bob", "spring prices", "change")
        assert [(one.id, one.before is None, one.after is None) for one in change.differences] == [
            ("x", True, False),
            ("s0", False, True),
            ("s1", False, False),
            ("y", True, False),
        ]

        def fails(problem: Exception | None) -> None:
            with m.change() as c:
                c.remove("a")
                if problem is not None:
                    raise problem
                c.remove("s0")

        with pytest.raises(ZeroDivisionError):
            fails(ZeroDivisionError())
        with pytest.raises(SubscriptionError, match="there is no subscription 's0' to remove"):
            fails(None)
        with m.change():
            pass
        assert "a" in m and m.last_change == 3


def test_single_calls_of_a_change_are_stored_together(tmp_path: Path) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        with m.change() as c:
            for i in range(FEW + 10):
                c.add(f"s{i}", f"age > {i}")
            c.update("s3", score=2.0)
            c.add_many([(f"m{i}", f"age < {i}") for i in range(FEW + 1)])
            c.remove("s4")
        with m.change() as c:
            c.add("x", "TRUE")
            c.update("x", score=1.0)
        expected = all_of(m)
        assert [change.rows for change in m.changes()] == [2 * FEW + 13, 2]
        assert [(one.before, one.after) for one in m.history("x")] == [(None, m["x"])]
        assert [(one.before, one.after) for one in m.history("s3")] == [(None, m["s3"])]
        journal = Journal.open(tmp_path / "b", readonly=True)
        forms = [[form for form, _ in journal.parts(change)] for change in journal.changes(0)]
        journal.close()
        assert forms == [["rows", "rows", "added", "rows"], ["rows"]]
        m.undo(2)
        assert all_of(m) == expected[:-1]
    with earmark.open(tmp_path / "b") as again:
        assert all_of(again) == expected[:-1] == all_of(again.as_of(3))
    assert care.check(tmp_path / "b") == []


def test_a_change_meets_what_others_did(tmp_path: Path) -> None:
    with filled(tmp_path / "b") as m:
        with m.change() as c:
            c.update("a", score=9.0)
            m.update("a", tags={"new": "tag"})
        assert m["a"].score == 9.0 and m["a"].tags == {"new": "tag"}

        def fails() -> None:
            with m.change() as c:
                c.remove("s0")
                c.update("a", score=1.0)
                m.remove("a")

        with pytest.raises(SubscriptionError, match="there is no subscription 'a'"):
            fails()
        assert "s0" in m


# --- folders that are something else ---------------------------------------------------------------------------


def test_a_saved_book_goes_on(tmp_path: Path) -> None:
    m = Matcher("scan", attributes={"age": "integer"}, zone="Europe/Paris")
    m.add_many([("a", "age > 3 AND city = 'Oslo'"), ("b", "age < 10"), ("gone", "TRUE")])
    m.remove("gone")
    m.save(tmp_path / "b")
    with earmark.open(tmp_path / "b") as book:
        assert all_of(book) == all_of(m) and book.attributes["age"].declared
        assert [change.kind for change in book.changes()] == ["import"]
        book.add("c", "age = 5")
        assert book.match({"age": 5, "city": "Oslo"}) == ["a", "b", "c"]
        assert book.as_of(1).ids() == ["a", "b"]
    with earmark.open(tmp_path / "b") as book:
        assert book.ids() == ["a", "b", "c"]
        with pytest.raises(
            EarmarkError, match="change 1 cannot be undone: it is what the book was when its history began"
        ):
            book.undo(1)


def test_a_journal_is_not_saved_over(tmp_path: Path) -> None:
    m = filled(tmp_path / "b")
    sentence = "the truth of the book .* is its journal, so nothing is saved or published there; change it through"
    with pytest.raises(TableError, match=sentence):
        m.save(tmp_path / "b")
    with pytest.raises(TableError, match=sentence):
        Matcher().save(tmp_path / "b")
    m.save(tmp_path / "copy")
    assert Matcher.load(tmp_path / "copy").ids() == m.ids()
    m.close()
    with pytest.raises(TableError, match=r"is its journal: open it with earmark\.open"):
        Matcher.load(tmp_path / "b")
    assert Matcher.load(tmp_path / "b", version=1).ids() == m.ids()
    m.save(tmp_path / "copy")


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(EarmarkError, match="expected 'full' or 'normal' for durability, got 'none'"):
        earmark.open(tmp_path / "b", durability="none")  # type: ignore[arg-type]
    with pytest.raises(TableError, match=r"is not an earmark book: it has no book\.json"):
        earmark.open(tmp_path / "b", readonly=True)
    with pytest.raises(EarmarkError, match="'nothing' is not a type"):
        earmark.open(tmp_path / "b", attributes={"a": "nothing"})
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "letter.txt").write_text("dear")
    with pytest.raises(TableError, match="is not an earmark book; it is not overwritten"):
        earmark.open(tmp_path / "c")
    filled(tmp_path / "b").close()
    with pytest.raises(EarmarkError, match="has zone='UTC', which stays as it is, got zone='Europe/Oslo'"):
        earmark.open(tmp_path / "b", zone="Europe/Oslo")


def test_a_call_of_the_book_inside_a_block_is_a_change_of_its_own(tmp_path: Path) -> None:
    def failing(m: Book) -> None:
        with m.change(message="block") as c:
            c.add("inside", "age > 3")
            m.add("outside", "age > 4")
            assert m.ids() == ["outside"] and "outside" not in c
            raise RuntimeError

    with earmark.open(tmp_path / "b", index="scan") as m:
        with pytest.raises(RuntimeError):
            failing(m)
        assert m.ids() == ["outside"]
        with m.change(message="block") as c:
            c.add("inside", "age > 3")
            m.add("another", "age > 4")
        assert [(one.kind, one.message) for one in m.changes()] == [("add", None), ("add", None), ("add", "block")]
    with earmark.open(tmp_path / "b", readonly=True) as m:
        assert sorted(m.ids()) == ["another", "inside", "outside"]


def test_closed(tmp_path: Path) -> None:
    m = filled(tmp_path / "b")
    m.close()
    m.close()
    assert m.match({"age": 1}) == ["s0"]
    for change in (lambda: m.remove("a"), m.checkpoint, m.compact, m.change):
        with pytest.raises(EarmarkError, match="is closed, so it takes no changes; searches still work"):
            change()
    assert m.history("a")[0].number == 1


def test_stats_say_what_is_on_disk(tmp_path: Path) -> None:
    with filled(tmp_path / "b") as m:
        m.checkpoint()
        stats = m.stats()
        assert stats["last_change"] == 2 and set(stats["disk"]) == {"segments", "journal", "history", "wal"}
        assert stats["disk"]["journal"] == stats["disk"]["history"] + stats["disk"]["wal"]
        assert stats["disk"]["segments"] > 0 and stats["disk"]["history"] > 0


@pytest.mark.parametrize("count", [5, 1500])
def test_life_spans_last(tmp_path: Path, count: int) -> None:
    with earmark.open(tmp_path / "b", index="scan", time="t") as m:
        rows = [
            {"id": f"s{i}", "condition": f"age > {i}", "starts": "2024-01-01", "ends": "2025-01-01"}
            for i in range(count)
        ]
        m.add_many(rows)
        m.update("s1", ends=None)
        expected = all_of(m)
        late = m.match({"age": 3, "t": datetime(2026, 1, 1)})
    assert late == ["s1"]
    with earmark.open(tmp_path / "b") as again:
        assert all_of(again) == expected
        assert again.match({"age": 3, "t": datetime(2026, 1, 1)}) == late
        assert again.as_of(2)["s1"].ends is not None
        again.erase("s3")
        assert all_of(again) == [one for one in expected if one.id != "s3"]
        assert again.match({"age": 3, "t": datetime(2026, 1, 1)}) == late
        again.undo(3)
        assert again.match({"age": 3, "t": datetime(2026, 1, 1)}) == []
