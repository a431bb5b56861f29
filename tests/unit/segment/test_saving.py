"""Saving over a table, beside readers and beside other writers: there is always one whole table."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.unit.segment.saved_tables import EVENTS, answers, data_of, filled

from earmark import Matcher
from earmark.errors import TableError
from earmark.segment import files
from earmark.segment.files import MANIFEST
from earmark.segment.files import open_stored as open_table

# --- saving over -----------------------------------------------------------------------------------------------------


def contents(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("step", range(6))
def test_a_failed_save_leaves_the_old_table(saved: Path, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full at the first, a middle or the last file, or at the very end."""
    wanted = answers(Matcher.load(saved))
    calls = {"left": (0, 1, 7, 13, 10**9, 10**9)[step]}
    real = files.write_file

    def failing(path: Path, data: Any) -> Any:
        if calls["left"] == 0 or (step == 4 and path.name.startswith(".manifest")):
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device")
        calls["left"] -= 1
        return real(path, data)

    def refuse(self: Path, target: Path) -> Path:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(files, "write_file", failing)
    if step == 5:
        monkeypatch.setattr(Path, "replace", refuse)
    m = Matcher()
    m.add("new", "a = 1")
    with pytest.raises(TableError, match=r"cannot be saved to .*(No space left on device|Input/output error)"):
        m.save(saved)
    with pytest.raises(TableError):
        m.save(saved.parent / "fresh" / "t")
    monkeypatch.undo()
    assert contents(saved) == [data_of(saved).name, MANIFEST]
    assert answers(Matcher.load(saved)) == wanted
    assert not (saved.parent / "fresh" / "t").exists()
    m.save(saved)
    assert Matcher.load(saved).ids() == ["new"]


def test_an_interrupted_save_leaves_the_old_table(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = answers(Matcher.load(saved))
    real = Path.replace

    def interrupted(self: Path, target: Path) -> Path:
        real(self, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "_contents", lambda table: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        Matcher().save(saved)
    assert answers(Matcher.load(saved)) == wanted
    monkeypatch.undo()
    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Matcher().save(saved)
    monkeypatch.undo()
    assert Matcher.load(saved).ids() == []  # it was done but for the tidying up


def test_what_a_killed_save_left_is_removed(saved: Path) -> None:
    (saved / "data-0123456789abcdef").mkdir()
    (saved / "data-0123456789abcdef" / "lo.npy").write_bytes(b"half")
    (saved / ".manifest-0123456789abcdef").write_text("{")
    (saved / "notes.txt").write_text("the user's")
    Matcher.load(saved).save(saved)
    assert contents(saved) == sorted([data_of(saved).name, MANIFEST, "notes.txt"])
    only = saved.parent / "leftovers"
    (only / "data-0123456789abcdef").mkdir(parents=True)
    filled().save(only)
    assert len(contents(only)) == 2


@pytest.mark.parametrize("content", ["notes.txt", MANIFEST, "data-1/lo.npy"])
def test_a_foreign_folder_is_not_overwritten(tmp_path: Path, content: str) -> None:
    file = tmp_path / "t" / content
    file.parent.mkdir(parents=True)
    for text in ("", "{}", '{"format": "chrome"}', "[1]"):
        file.write_text(text)
        with pytest.raises(TableError, match="exists and is not an earmark table; it is not overwritten"):
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
    with pytest.raises(TableError, match=r"the table cannot be saved to .*t': Permission denied"):
        Matcher().save(tmp_path / "t")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(TableError, match="Permission denied"):
        Matcher().save(tmp_path / "t")
    tmp_path.chmod(0o700)


# --- at the same time ------------------------------------------------------------------------------------------------


def test_opening_while_others_save(tmp_path: Path) -> None:
    """Savers take turns; whoever opens finds one of the tables, whole."""
    tables = []
    for n in (1, 2):
        m = Matcher()
        m.add_many([(f"{n}-{i}", f"a = {i} AND s = 'x{i}'") for i in range(20)])
        tables.append(m)
    folder = tmp_path / "t"
    tables[0].save(folder)
    problems: list[BaseException] = []
    done: list[bool] = []

    def save(m: Matcher) -> None:
        try:
            for _ in range(12):
                m.save(folder)
        except BaseException as problem:
            problems.append(problem)

    def read() -> None:
        try:
            while not done:
                table, _ = open_table(folder)
                assert len({str(one)[0] for one in table.ids}) == 1
                assert len(table) == 20
        except BaseException as problem:
            problems.append(problem)

    savers, readers = [Thread(target=save, args=(m,)) for m in tables], [Thread(target=read) for _ in range(2)]
    for thread in (*savers, *readers):
        thread.start()
    for thread in savers:
        thread.join()
    done.append(True)
    for thread in readers:
        thread.join()
    assert problems == []
    assert len(contents(folder)) == 2


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
