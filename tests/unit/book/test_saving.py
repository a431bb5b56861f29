"""Saving into a book, beside readers and beside other writers: there is always one whole version."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.unit.book.saved_books import EVENTS, answers, filled, record_of

from earmark import Matcher
from earmark.book import folder, saving, segments
from earmark.errors import TableError

OWN = ["CURRENT", "LOCK", "book.json", "keys", "segments", "versions"]


def contents(folder_: Path) -> list[str]:
    return sorted(p.name for p in folder_.iterdir())


def stored(folder_: Path) -> set[str]:
    """The files of segments and keys."""
    return {p.name for place in ("segments", "keys") for p in (folder_ / place).iterdir()}


def listed(folder_: Path) -> set[str]:
    """Those that some version lists."""
    found: set[str] = set()
    for number in folder.version_numbers(folder_):
        found |= {file.name for file in folder.files_of(folder.read_record(folder_, number))}
    return found


# --- saving over -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", range(6))
def test_a_failed_save_leaves_the_old_version(saved: Path, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full at the first or the second packed file, at a record, at CURRENT, at a rename, at the end."""
    wanted, files_before = answers(Matcher.load(saved)), stored(saved)
    real_packed, real_record, real_rename, left = segments.write_packed, folder.write_record, Path.rename, {"n": step}

    def packed(path: Path, *given: Any) -> Any:
        if step < 2:
            if left["n"] == 0:
                path.write_bytes(b"half")
                raise OSError(28, "No space left on device")
            left["n"] -= 1
        return real_packed(path, *given)

    def record(path: Path, body: Any) -> None:
        if (step == 2 and path.name == "version.json") or (step == 3 and path.name.startswith(".building")):
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device")
        real_record(path, body)

    def rename(self: Path, target: Path) -> Path:
        if step == 4 and target.parent.name == "versions":
            raise OSError(5, "Input/output error")
        return real_rename(self, target)

    def refuse(self: Path, target: Path) -> Path:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(folder, "write_record", record)
    monkeypatch.setattr(segments, "write_packed", packed)
    monkeypatch.setattr(Path, "rename", rename)
    if step == 5:
        monkeypatch.setattr(Path, "replace", refuse)
    m = Matcher()
    m.add("new", "a = 1 AND s = 'x'")
    for target in (saved, saved.parent / "fresh" / "t"):
        left["n"] = step
        with pytest.raises(TableError, match=r"cannot be saved to .*(No space left on device|Input/output error)"):
            m.save(target)
    monkeypatch.undo()
    assert contents(saved) == OWN
    assert stored(saved) == files_before and folder.version_numbers(saved) == [1]
    assert answers(Matcher.load(saved)) == wanted
    assert not (saved.parent / "fresh" / "t").exists()
    m.save(saved)
    assert Matcher.load(saved).ids() == ["new"]


def test_an_interrupted_save_leaves_the_old_version(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = answers(Matcher.load(saved))
    real = Path.replace

    def interrupted(self: Path, target: Path) -> Path:
        real(self, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(saving, "write_version", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        Matcher().save(saved)
    assert answers(Matcher.load(saved)) == wanted and contents(saved) == OWN
    monkeypatch.undo()
    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Matcher().save(saved)
    monkeypatch.undo()
    assert Matcher.load(saved).ids() == []  # it was done but for the tidying up


def test_what_a_killed_save_left_is_removed(saved: Path) -> None:
    (saved / ".building-0123456789abcdef" / "segments").mkdir(parents=True)
    (saved / ".building-0123456789abcdef" / "segments" / "ab").write_bytes(b"half")
    (saved / "segments" / "0123456789abcdef").write_bytes(b"moved here, and then killed")
    (saved / "notes.txt").write_text("the user's")
    Matcher.load(saved).save(saved)
    assert contents(saved) == sorted([*OWN, "notes.txt"])
    assert stored(saved) == listed(saved)
    only = saved.parent / "leftovers"
    (only / ".building-0123456789abcdef").mkdir(parents=True)
    filled().save(only)
    assert contents(only) == OWN


@pytest.mark.parametrize("content", ["notes.txt", "manifest.json", "book.json", "data-1/lo.npy"])
def test_a_foreign_folder_is_not_overwritten(tmp_path: Path, content: str) -> None:
    file = tmp_path / "t" / content
    file.parent.mkdir(parents=True)
    for text in ("", "{}", '{"format": "chrome"}', "[1]"):
        file.write_text(text)
        with pytest.raises(TableError, match="exists and is not an earmark book; it is not overwritten"):
            Matcher().save(tmp_path / "t")
        assert file.read_text() == text
    assert len(contents(tmp_path / "t")) == 1


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("x")
    with pytest.raises(TableError, match="not overwritten"):
        Matcher().save(tmp_path / "t")
    with pytest.raises(TableError, match="cannot be saved"):
        Matcher().save(tmp_path / "t" / "inside")
    for odd in ("a\0b", 5):
        with pytest.raises(TableError):
            Matcher().save(odd)  # type: ignore[arg-type]
    assert (tmp_path / "t").read_text() == "x"


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated, since some users may write anywhere."""

    def refuse(self: Path, *args: Any, **more: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(TableError, match=r"the book cannot be saved to .*t': Permission denied"):
        Matcher().save(tmp_path / "t")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(TableError, match="Permission denied"):
        Matcher().save(tmp_path / "t")
    tmp_path.chmod(0o700)


# --- what is written -------------------------------------------------------------------------------------------------


def large(index: str = "blocks") -> Matcher:
    m = Matcher(index)
    m.add_many([(i, f"a BETWEEN {i % 90} AND {i % 90 + 9} AND s = 'x{i % 30}'") for i in range(2_000)])
    return m


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("index", ["blocks", "be_star_tree"])
def test_a_save_after_few_changes_writes_little(tmp_path: Path, index: str, loaded: bool) -> None:
    m = large(index)
    m.save(tmp_path / "t")
    if loaded:
        m = Matcher.load(tmp_path / "t")
    before = stored(tmp_path / "t")
    m.remove(5)
    m.add(9_999, "a = 7 AND s = 'only here'")
    m.update(8, score=3.0)
    m.save(tmp_path / "t")
    record = record_of(tmp_path / "t")
    assert (record["kind"], record["base"], record["parent"]) == ("delta", 1, 1)
    new = stored(tmp_path / "t") - before
    size = sum((tmp_path / "t" / place / name).stat().st_size for place in ("segments", "keys") for name in new
               if (tmp_path / "t" / place / name).exists())  # fmt: skip
    assert 0 < size < 8_000 and before < stored(tmp_path / "t")
    back = Matcher.load(tmp_path / "t")
    back.check()
    events = [{"a": i, "s": f"x{i % 30}"} for i in range(90)] + [{"a": 7, "s": "only here"}]
    assert back.match_many(events).equals(m.match_many(events))
    assert back.top_k(events[7], 3) == m.top_k(events[7], 3)
    assert back.verify(events).ok
    m.save(tmp_path / "t")
    assert stored(tmp_path / "t") == listed(tmp_path / "t")


def test_the_disk_does_not_grow(tmp_path: Path) -> None:
    m = large()
    sizes = []
    for i in range(6):
        m.save(tmp_path / "t")
        sizes.append(sum(p.stat().st_size for p in (tmp_path / "t").rglob("*") if p.is_file()))
        assert len(folder.version_numbers(tmp_path / "t")) <= 2
        m.update(i, f"a = {i}")
        m.compact()
    assert max(sizes) < 2.5 * sizes[0]
    assert stored(tmp_path / "t") == listed(tmp_path / "t")


def test_a_pinned_version_stays(tmp_path: Path) -> None:
    m = large("scan")
    m.save(tmp_path / "t")
    folder.pin(tmp_path / "t", 1, "someone")
    for i in range(4):
        m.remove(i)
        m.save(tmp_path / "t")
    assert folder.version_numbers(tmp_path / "t") == [1, 4, 5]
    assert len(Matcher.load(tmp_path / "t", version=1)) == 2_000
    folder.unpin(tmp_path / "t", 1, "someone")
    m.save(tmp_path / "t")
    assert folder.version_numbers(tmp_path / "t") == [5, 6]


def test_another_book_under_the_same_path(tmp_path: Path) -> None:
    """What was saved to a folder that is gone is not taken to be in the one that came after."""
    import shutil

    m = large()
    m.save(tmp_path / "t")
    shutil.rmtree(tmp_path / "t")
    filled().save(tmp_path / "t")
    m.save(tmp_path / "t")
    assert len(Matcher.load(tmp_path / "t")) == 2_000
    for file in (tmp_path / "t" / "segments").iterdir():
        file.unlink()
    m.save(tmp_path / "t")
    assert len(Matcher.load(tmp_path / "t")) == 2_000


def test_a_string_attribute_that_was_free_meanwhile(tmp_path: Path) -> None:
    """Its old constants are in an older file of keys, with keys that now belong to others."""
    m = Matcher("scan")
    m.add("keeps", "t IN ('k', 'l', 'm', 'n')")
    m.add("gone", "s IN ('a', 'b', 'c', 'd', 'e', 'f')")
    m.save(tmp_path / "t")
    m = Matcher.load(tmp_path / "t")
    m.remove("gone")
    m.save(tmp_path / "t")
    m = Matcher.load(tmp_path / "t")
    m.add("other", "s = 'e' OR s > 'x'")
    m.save(tmp_path / "t")
    back = Matcher.load(tmp_path / "t")
    back.check()
    assert [back.match({"s": s, "t": "l"}) for s in "aexy"] == [
        ["keeps"], ["keeps", "other"], ["keeps"], ["keeps", "other"]
    ]  # fmt: skip
    m.remove("other")
    m.add("number", "s > 5")
    m.save(tmp_path / "t")
    assert Matcher.load(tmp_path / "t").match({"s": 6}) == ["number"]


def test_keys_that_came_later(tmp_path: Path) -> None:
    """Two files of keys, and one again when many have come."""
    m = Matcher("blocks")
    m.add_many([(i, f"s = 'b{i:04}'") for i in range(400)])
    m.save(tmp_path / "t")
    for turn in range(6):
        m = Matcher.load(tmp_path / "t")
        m.add_many([(1_000 * turn + 1_000 + i, f"s > 'a{turn}{i}' AND s < 'b{i:04}x'") for i in range(40)])
        m.save(tmp_path / "t")
        assert len(record_of(tmp_path / "t")["keys"]) <= 2
        back = Matcher.load(tmp_path / "t")
        events = [{"s": s} for s in ("a", "a00", "a01", "a35", "b", "b0007", "b0007w", "b0399", "c")]
        assert back.match_many(events).equals(m.match_many(events))
        assert back.verify(events).ok


# --- at the same time ------------------------------------------------------------------------------------------------


def test_opening_while_others_save(tmp_path: Path) -> None:
    """Savers take turns; whoever opens finds one of the books, whole."""
    matchers = []
    for n in (1, 2):
        m = Matcher()
        m.add_many([(f"{n}-{i}", f"a = {i} AND s = 'x{i}'") for i in range(20)])
        matchers.append(m)
    place = tmp_path / "t"
    matchers[0].save(place)
    problems: list[BaseException] = []
    done: list[bool] = []

    def save(m: Matcher) -> None:
        try:
            for _ in range(12):
                m.save(place)
        except BaseException as problem:
            problems.append(problem)

    def read() -> None:
        try:
            while not done:
                ids = Matcher.load(place).ids()
                assert len({str(one)[0] for one in ids}) == 1
                assert len(ids) == 20
        except BaseException as problem:
            problems.append(problem)

    savers, readers = [Thread(target=save, args=(m,)) for m in matchers], [Thread(target=read) for _ in range(2)]
    for thread in (*savers, *readers):
        thread.start()
    for thread in savers:
        thread.join()
    done.append(True)
    for thread in readers:
        thread.join()
    assert not problems, problems
    assert contents(place) == OWN and len(folder.version_numbers(place)) <= 2


def test_searching_while_saving(tmp_path: Path) -> None:
    m = filled()
    wanted = m.match(EVENTS[0])
    done: list[bool] = []
    wrong: list[Any] = []

    def search() -> None:
        while not done:
            if m.match(EVENTS[0]) != wanted:
                wrong.append(1)

    readers = [Thread(target=search) for _ in range(2)]
    for reader in readers:
        reader.start()
    for i in range(10):
        m.save(tmp_path / f"t{i % 2}")
    done.append(True)
    for reader in readers:
        reader.join()
    assert wrong == []
