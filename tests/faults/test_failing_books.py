"""A book whose files cannot be written: every file operation in turn, and a full disk.

Whatever fails, a change that was reported as failed is not there, one that was acknowledged is, the book goes on when
the disk does, and it opens again without repair. SQLite's own files are failed by each of its file operations
(failing_vfs.py), by its statements (a connection that raises instead of executing the n-th one), by limits of the
system on the size of files, and by a disk of few pages; ours by the calls that write, flush, rename and remove.
`make test` takes a few of the operations, `make soak` all.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.faults.failing_vfs import failing_files, library

import earmark
from earmark import Book, EarmarkError
from earmark.book import care, journal

FORK = multiprocessing.get_context("fork")
CALLS = ("fsync", "rename", "replace", "open", "pwrite", "ftruncate", "mkdir", "unlink")


FEW_OR_ALL = [pytest.param(2, id="few"), pytest.param(None, id="all", marks=pytest.mark.slow)]


def some(total: int, most: int | None) -> range:
    """Numbers from 1 to a total: all of them, or at most this many."""
    return range(1, total + 1, 1 if most is None else max(1, -(-total // most)))


class Failing:
    """Raises at the n-th operation, or just counts them."""

    def __init__(self, at: int | None, lasting: bool = False) -> None:
        self.at = at
        self.lasting = lasting
        self.count = 0

    def __call__(self) -> bool:
        self.count += 1
        return self.at is not None and (self.count == self.at or (self.lasting and self.count > self.at))


class Connection:
    """A connection that fails where it is told to. A failing COMMIT may have written its pages before."""

    def __init__(self, real: Any, failing: Failing, late: bool) -> None:
        self._real = real
        self._failing = failing
        self._late = late

    def _fail(self) -> None:
        problem = sqlite3.OperationalError("disk I/O error")
        problem.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise problem

    def execute(self, statement: str, *given: Any) -> Any:
        if statement != "ROLLBACK" and self._failing():
            if self._late and statement == "COMMIT":
                self._real.execute("ROLLBACK")
            self._fail()
        return self._real.execute(statement, *given)

    def executemany(self, statement: str, *given: Any) -> Any:
        if self._failing():
            self._fail()
        return self._real.executemany(statement, *given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def changes(m: Book, did: dict[str, bool]) -> None:
    """A few changes of all kinds; what was acknowledged is noted."""

    def attempt(name: str, work: Callable[[], Any]) -> None:
        did[name] = False
        with suppress(EarmarkError):
            work()
            did[name] = True

    def transaction() -> None:
        with m.change(message="two") as c:
            c.add("t1", "TRUE")
            c.add("t2", "TRUE")

    attempt("add", lambda: m.add("new", "city = 'Rome'"))
    attempt("many", lambda: m.add_many([(f"m{i}", f"age = {i}") for i in range(1100)]))
    attempt("checkpoint", m.checkpoint)
    attempt("remove", lambda: m.remove("old"))
    attempt("transaction", transaction)
    attempt("update", lambda: m.update("kept", score=7.0))
    attempt("checkpoint again", m.checkpoint)
    attempt("history", lambda: (m.history("kept"), m.as_of(1), m.diff(0, 1)))
    attempt("backup", lambda: m.backup(m.path.with_name(f"{m.path.name}-copy")))


def expected(did: dict[str, bool]) -> set[str]:
    ids = {"kept"} | ({"old"} if not did["remove"] else set()) | ({"new"} if did["add"] else set())
    ids |= {f"m{i}" for i in range(1100)} if did["many"] else set()
    return ids | ({"t1", "t2"} if did["transaction"] else set())


def begin(folder: Path) -> None:
    with earmark.open(folder, index="scan") as m:
        m.add_many([("kept", "age > 3"), ("old", "age > 4")])


def run(folder: Path, arm: Callable[[], None], disarm: Callable[[], None]) -> None:
    """Change a book while something fails, and look at it then, and when it is opened again."""
    begin(folder)
    m = earmark.open(folder, index="scan")
    did: dict[str, bool] = {}
    arm()
    try:
        changes(m, did)
    finally:
        disarm()
    assert set(m.ids()) == expected(did), did
    assert m["kept"].score == (7.0 if did["update"] else 0.0)
    m.add("after", "TRUE")  # it goes on
    m._checkpoints.problem = None
    m.close()
    with earmark.open(folder) as again:
        assert set(again.ids()) == expected(did) | {"after"}
        again.check()
    assert care.check(folder) == []


@pytest.mark.filterwarnings("ignore:a checkpoint of")
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("most", FEW_OR_ALL)
def test_every_statement_fails_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool, most: int | None
) -> None:
    connect, holder = journal.connect, [Failing(None)]
    monkeypatch.setattr(journal, "connect", lambda *given: Connection(connect(*given), holder[0], late))

    def attempt(failing: Failing, name: str) -> int:
        idle = Failing(None)
        holder[0] = idle
        proxy = Failing(failing.at, failing.lasting)
        live = {"on": False}

        class Switch(Failing):
            def __call__(self) -> bool:
                return live["on"] and proxy()

        holder[0] = Switch(None)
        run(tmp_path / name, lambda: live.update(on=True), lambda: live.update(on=False))
        return proxy.count

    total = attempt(Failing(None), "none")
    assert total > 20
    for at in some(total, most):
        attempt(Failing(at), f"at-{at}")
    attempt(Failing(total // 2, lasting=True), f"from-{total // 2}")


@pytest.mark.filterwarnings("ignore:a checkpoint of")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("most", FEW_OR_ALL)
def test_every_call_fails_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, most: int | None) -> None:
    real, state = getattr(os, call), {"at": None, "count": 0, "on": False}

    def failing(*given: Any, **named: Any) -> Any:
        if state["on"]:
            state["count"] += 1  # type: ignore[operator]
            if state["at"] == state["count"]:
                raise OSError(28, "No space left on device")
        return real(*given, **named)

    monkeypatch.setattr(os, call, failing)

    def attempt(at: int | None) -> int:
        state.update(at=at, count=0)
        run(tmp_path / f"{at}", lambda: state.update(on=True), lambda: state.update(on=False))
        return int(state["count"])  # type: ignore[call-overload]

    total = attempt(None)
    for at in some(total, most):
        attempt(at)


def limited(folder: Path, most: int, said: Any) -> None:
    """Changes in a process whose files may not grow beyond a size."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    m = earmark.open(folder, index="scan")
    did: dict[str, bool] = {}
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    changes(m, did)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert set(m.ids()) == expected(did)
    m.add("after", "TRUE")
    said.put(did)


@pytest.mark.filterwarnings("ignore:a checkpoint of")
def test_files_that_cannot_grow(tmp_path: Path) -> None:
    outcomes = set()
    for number, most in enumerate([8 << 10, 40 << 10, 160 << 10]):
        folder = tmp_path / str(number)
        begin(folder)
        said = FORK.Queue()
        process = FORK.Process(target=limited, args=(folder, most, said))
        process.start()
        did = said.get(timeout=60)
        process.join(60)
        outcomes.add(tuple(did.values()))
        with earmark.open(folder) as again:
            assert set(again.ids()) == expected(did) | {"after"}
        assert care.check(folder) == []
    assert len(outcomes) > 1


def test_a_full_disk(tmp_path: Path) -> None:
    """SQLite's own limit of pages stands for the disk: it fails as a full one does."""
    begin(tmp_path / "b")
    m = earmark.open(tmp_path / "b", index="scan")
    connection = m._commits_now().journal._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(EarmarkError, match="cannot be written: database or disk is full"):
        m.add_many([(f"m{i}", f"age = {i}") for i in range(1100)])
    assert m.ids() == ["kept", "old"] and m.last_change == 1
    connection.execute("PRAGMA max_page_count = 1000000")
    m.add("after", "TRUE")
    m.close()
    assert earmark.open(tmp_path / "b", readonly=True, follow=False).ids() == ["kept", "old", "after"]


@pytest.mark.filterwarnings("ignore:a checkpoint of")
@pytest.mark.parametrize("is_all", [False, pytest.param(True, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])])
def test_every_operation_of_sqlite_fails_in_turn(tmp_path: Path, is_all: bool) -> None:
    sqlite = library()
    if sqlite is None:
        pytest.skip("the SQLite library of this Python cannot be called from outside")
    with failing_files(sqlite) as files:
        run(tmp_path / "none", files.arm, files.disarm)
        done = files.done
        assert {"open", "read", "write", "sync", "lock", "map", "share", "access"} <= set(done)
        by_kind = {kind: [at for at, one in enumerate(done, 1) if one == kind] for kind in set(done)}
        chosen = range(1, len(done) + 1) if is_all else sorted(places[len(places) // 2] for places in by_kind.values())
        for at in chosen:
            run(tmp_path / f"at-{at}", partial(files.arm, at), files.disarm)
        for at in chosen if is_all else [by_kind["sync"][0]]:
            run(tmp_path / f"from-{at}", partial(files.arm, at, lasting=True), files.disarm)
