"""What is not compiled is compiled by a helper, while something else answers; then the book is planned again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.index.auto.test_auto import boxes

import earmark
from earmark import Matcher
from earmark.index import auto
from earmark.index.auto import helper
from earmark.index.auto.plan import Plan, Plans
from earmark.jit import JIT

AMONG = ("blocks", "be_star_tree", "scan")


class Asked:
    """Helpers that were asked for, and who is called when they are done."""

    def __init__(self) -> None:
        self.names: list[list[str]] = []
        self.then: list[Callable[[], None]] = []
        self.ready: set[str] = set()

    def compile_beside(self, names: Sequence[str], then: Callable[[], None]) -> None:
        self.names.append(list(names))
        self.then.append(then)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Nothing is compiled, and a helper would compile all."""
    made = Asked()
    monkeypatch.setattr(auto, "is_ready", lambda name: name in made.ready)
    monkeypatch.setattr(auto, "SMALL", 50)
    monkeypatch.setattr(auto, "LARGE", 200)
    monkeypatch.setattr(helper, "is_offered", lambda: True)
    monkeypatch.setattr(helper, "compile_beside", made.compile_beside)
    return made


def rows(first: int, last: int) -> list[tuple[int, str]]:
    return [(i, f"a BETWEEN {i} AND {i + 9} AND b > {i % 7}") for i in range(first, last)]


def filled(count: int = 3_000) -> Matcher:
    m = Matcher(index_options={"among": list(AMONG)})
    m.add_many(rows(0, count), progress=False)
    return m


@pytest.mark.usefixtures("asked")
def test_a_scan_stands_in_for_what_is_not_compiled() -> None:
    plan = auto.planned(boxes(600, 3), AMONG, compiles=lambda name: True).plan
    assert plan is not None and plan.index == "scan" and sorted(plan.missing) == ["be_star_tree", "blocks"]
    names = " and ".join(map(repr, plan.missing))
    assert plan.reason == f"for now, while {names} are being compiled in the background"
    assert "did not race yet" in repr(Plans([plan]))
    assert Plan.of(json.loads(json.dumps(plan.record()))) == plan


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(("among", "compiles"), [(AMONG, False), (("blocks", "be_star_tree"), True)])
def test_without_a_helper_or_a_scan_the_first_is_compiled_at_once(among: tuple[str, ...], compiles: bool) -> None:
    plan = auto.planned(boxes(600, 3), among, compiles=lambda name: compiles).plan
    assert plan is not None and plan.index == "blocks"
    assert plan.missing == (["be_star_tree"] if compiles else [])


@pytest.mark.usefixtures("asked")
def test_a_large_book_is_not_scanned_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "STAND_IN", 599)
    plan = auto.planned(boxes(600, 3), AMONG, compiles=lambda name: True).plan
    assert plan is not None and plan.index == "blocks" and "be_star_tree" in plan.missing
    few = auto.planned(boxes(600, 3), AMONG[:2], compiles=lambda name: True).plan
    assert few is not None
    assert few.reason == "for now, while 'be_star_tree' is being compiled in the background"


def test_what_is_compiled_answers_meanwhile(asked: Asked) -> None:
    asked.ready = {"be_star_tree"}
    plan = auto.planned(boxes(600, 3), AMONG[:2], compiles=lambda name: True).plan
    assert plan is not None and (plan.index, plan.missing) == ("be_star_tree", ["blocks"])


def test_a_book_is_planned_again_when_its_candidates_are_compiled(asked: Asked) -> None:
    m = filled()
    assert [plan.index for plan in m.plan()] == ["scan"]
    assert m.match({"a": 3, "b": 9}) == [0, 1, 2, 3]
    m.add_many(rows(3_000, 3_040), progress=False)
    asked.ready = set(AMONG)
    asked.then[0]()
    m._compactor.wait()
    (plan,) = m.plan()
    assert plan.missing == [] and plan.sampled == 200 and plan.index != "scan"
    assert m.match({"a": 3, "b": 9}) == [0, 1, 2, 3] and m.match({"a": 3_045, "b": 9}) == [*range(3_036, 3_040)]
    m.check()
    asked.then[0]()  # nothing is left to do
    assert m.plan() == (plan,)


def test_a_helper_that_failed_is_not_asked_again(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    m = filled()
    monkeypatch.setattr(helper, "_tried", {"blocks", "be_star_tree"})
    asked.then[0]()
    m._compactor.wait()
    (plan,) = m.plan()
    assert plan.index == "blocks" and plan.missing == [] and len(asked.then) == 1


def test_a_small_segment_waits_with_the_largest(asked: Asked) -> None:
    m = filled(8_000)
    m.add_many(rows(8_000, 8_500), progress=False)
    m._compactor.wait()
    assert {(plan.index, bool(plan.missing)) for plan in m.plan()} == {("scan", True)}
    asked.ready = set(AMONG)
    asked.then[0]()
    m._compactor.wait()
    assert not any(plan.index == "scan" or plan.missing for plan in m.plan())


def test_a_loaded_book_asks_for_what_it_misses(asked: Asked, tmp_path: Path) -> None:
    filled().save(tmp_path / "book")
    m = Matcher.load(tmp_path / "book", index_options={"among": list(AMONG)})
    assert m.plan()[0].index == "scan" and len(asked.then) == 2
    asked.ready = set(AMONG)
    asked.then[1]()
    m._compactor.wait()
    assert m.plan()[0].index != "scan" and m.match({"a": 3, "b": 9}) == [0, 1, 2, 3]


def test_a_book_that_lasts_asks_when_it_is_opened(asked: Asked, tmp_path: Path) -> None:
    with earmark.open(tmp_path / "book", index_options={"among": list(AMONG)}) as book:
        book.add_many(rows(0, 3_000), progress=False)
        book.checkpoint()
    before = len(asked.then)
    with earmark.open(tmp_path / "book") as book:
        assert book.plan()[0].missing and len(asked.then) > before
        asked.ready = set(AMONG)
        asked.then[-1]()
        book._compactor.wait()
        assert book.plan()[0].index != "scan" and book.match({"a": 3, "b": 9}) == [0, 1, 2, 3]


def test_adapting_asks_for_what_is_missing(asked: Asked) -> None:
    m = filled()
    m.adapt([{"a": i, "b": 3} for i in range(50)])
    assert m.plan()[0].missing and len(asked.then) == 2


# --- the helper -----------------------------------------------------------------------------------------------------


class Waiting:
    def __init__(self) -> None:
        self.calls = 0

    def called(self) -> None:
        self.calls += 1


def finished() -> None:
    thread = helper._thread
    if thread is not None:
        thread.join(30)


def test_who_asked_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []
    monkeypatch.setattr(helper, "_compile", compiled.append)
    monkeypatch.setattr(helper, "_tried", set())
    one, other = Waiting(), Waiting()
    helper.compile_beside(["blocks"], one.called)
    helper.compile_beside(["vcr", "scan"], one.called)
    finished()
    helper.compile_beside(["k"], other.called)
    del other
    finished()
    assert compiled == [("blocks",), ("vcr", "scan"), ("k",)] and one.calls == 2
    assert helper._tried == {"blocks", "vcr", "scan", "k"}
    monkeypatch.setattr(helper, "is_offered", lambda: True)
    assert helper.takes("bitsets") and not helper.takes("vcr")


def test_a_helper_that_cannot_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def failing(code: str) -> Any:
        raise OSError("no more processes")

    monkeypatch.setenv("EARMARK_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(helper, "is_ready", lambda name: False)
    monkeypatch.setattr(helper, "started", failing)
    monkeypatch.setattr(helper, "_tried", set())
    one = Waiting()
    helper.compile_beside(["blocks"], one.called)
    finished()
    assert one.calls == 1


@pytest.mark.skipif(not JIT, reason="there is nothing to compile")
def test_when_there_are_helpers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EARMARK_CACHE_DIR", str(tmp_path))
    assert not helper.is_offered()  # not in tests
    monkeypatch.delenv(helper.OFF)
    assert helper.is_offered()
    monkeypatch.setitem(sys.modules, "pyspark.worker", sys)
    assert not helper.is_offered()
    monkeypatch.delitem(sys.modules, "pyspark.worker")
    with monkeypatch.context() as other:
        other.setattr(sys, "executable", "/usr/bin/uwsgi")
        assert not helper.is_offered()
    for variable in ("EARMARK_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(variable, "/dev/null")
    assert not helper.is_offered()


def test_a_helper_starts_no_other_and_ends_when_it_is_told_to() -> None:
    process = helper.started("import os, sys; sys.exit(7 if os.environ['EARMARK_NO_WARMING'] == '1' else 0)")
    assert process.wait(60) == 7
    process = helper.started("import time; time.sleep(600)")
    helper.ended(process)
    assert process.returncode


@pytest.mark.parametrize("end", ["raise SystemExit", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_helper_ends_with_who_started_it(end: str, tmp_path: Path) -> None:
    noted = f"open({str(tmp_path / 'there')!r}, 'w').write(str(os.getpid()))"
    code = f"""
import os, pathlib, signal, time
from earmark.index.auto import helper
helper.started("import os, time; {noted}; time.sleep(600)")
while not pathlib.Path({str(tmp_path / "there")!r}).exists():
    time.sleep(0.05)
time.sleep(0.2)
{end}
"""
    subprocess.run([sys.executable, "-c", code], timeout=120, check=False)
    pid, until = int((tmp_path / "there").read_text()), time.monotonic() + 60
    while _is_there(pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert not _is_there(pid)


def _is_there(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not JIT, reason="there is nothing to compile")
def test_the_best_index_arrives_by_itself(tmp_path: Path) -> None:
    code = """
import time
from earmark import Matcher
m = Matcher()
m.add_many([(i, f"a BETWEEN {i} AND {i + 9} AND b > {i % 7}") for i in range(20_000)], progress=False)
assert m.match({"a": 4, "b": 9}) == [0, 1, 2, 3, 4]
first = m.plan()[0]
until = time.monotonic() + 600
while m.plan()[0].missing and time.monotonic() < until:
    time.sleep(0.2)
print(first.index, m.plan()[0].index, m.match({"a": 4, "b": 9}))
"""
    environment = {name: value for name, value in os.environ.items() if name != helper.OFF}
    environment |= {"EARMARK_CACHE_DIR": str(tmp_path), "EARMARK_QUIET": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr
    first, then, answer = done.stdout.split(maxsplit=2)
    assert first == "scan" and then != "scan" and answer == "[0, 1, 2, 3, 4]\n"
