"""Work on several threads: in order, without waiting for others, and with an end to it when something fails."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

from earmark import EarmarkError, Matcher, TooManyAnswers, threads
from earmark.index import answers, driver
from earmark.index.scan import Scan
from earmark.threads import at_most, cores, in_parallel, runs_of, thread_count


def test_results_come_in_order() -> None:
    assert in_parallel(lambda i: (time.sleep(0.001 * (i % 3)), i * i)[1], range(40), 3) == [i * i for i in range(40)]
    assert in_parallel(str, [], 4) == []
    assert in_parallel(str, [7], 4) == ["7"]


def test_one_thread_is_the_callers() -> None:
    used = set(in_parallel(lambda _: threading.get_ident(), range(20), 1))
    assert used == {threading.get_ident()}


def test_helpers_work_beside_the_caller() -> None:
    together = threading.Barrier(2, timeout=30)
    assert in_parallel(lambda _: bool(together.wait() + 1), range(2), 2) == [True, True]


def test_no_more_threads_than_asked_for() -> None:
    used = set(in_parallel(lambda _: (time.sleep(0.001), threading.get_ident())[1], range(40), 2))
    assert len(used) <= 2


def test_work_that_is_spread_may_spread_its_own() -> None:
    def inner(i: int) -> int:
        return sum(in_parallel(lambda j: i * j, range(10), 4))

    assert in_parallel(inner, range(20), 4) == [45 * i for i in range(20)]


def test_callers_do_not_wait_for_each_other() -> None:
    """All helpers are held up, so that others work alone."""
    held, free = threading.Event(), threading.Event()

    def hold(_: int) -> None:
        held.set()
        free.wait(30)

    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(in_parallel, hold, range(4 * cores() + 4), 4 * cores())
        held.wait(30)
        try:
            assert in_parallel(lambda i: i, range(100), 3) == list(range(100))
            assert not waiting.done()
        finally:
            free.set()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, IndexError])
@pytest.mark.parametrize("in_helper", [False, True])
def test_an_exception_ends_the_work(error: type[BaseException], in_helper: bool) -> None:
    caller, both, begun, ended = threading.get_ident(), threading.Barrier(2, timeout=30), [], []

    def fail(i: int) -> None:
        begun.append(i)
        if i < 2:
            both.wait()
            if (threading.get_ident() != caller) == in_helper:
                raise error("as planned")
        time.sleep(0.01)
        ended.append(i)

    with pytest.raises(error, match="as planned"):
        in_parallel(fail, range(1000), 2)
    assert len(begun) < 100
    assert len(ended) == len(begun) - 1  # nothing is still going on


def test_without_further_threads_the_caller_works_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoPool:
        def submit(self, _: Any) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "_pool", NoPool())
    assert in_parallel(str, range(3), 3) == ["0", "1", "2"]


def test_how_many_threads() -> None:
    assert thread_count(None) == cores() >= 1
    assert thread_count(3) == thread_count(np.int64(3)) == 3


@pytest.mark.parametrize("given", [0, -1, 1.5, True, "2", [2]])
def test_threads_that_make_no_sense(given: Any) -> None:
    m = Matcher("scan")
    wrong = f"expected a whole number of at least 1 as threads, got {given!r}"
    for search in (m.match_many, m.match_reader, m.top_k_many, m.top_k_reader):
        with pytest.raises(EarmarkError) as problem:
            search([], threads=given)
        assert str(problem.value) == wrong
    for change in (m.compact, partial(m.adapt, []), partial(m.add_many, [])):
        with pytest.raises(EarmarkError) as problem:
            change(threads=given)
        assert str(problem.value) == wrong


@pytest.mark.parametrize("index", ["auto", "be_star_tree"])
def test_an_index_is_built_on_as_many_threads_as_asked_for(index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    m = Matcher(index)
    m.add_many([(i, f"a > {i}") for i in range(600)])
    used: list[int] = []
    real = m._build
    assert real is not None
    monkeypatch.setattr(m, "_build", lambda table: (used.append(cores()), real(table))[1])
    for count in (1, 3):
        m.compact(threads=count)
    assert sorted(set(used)) == [1, 3]


def test_cores_without_what_newer_systems_say(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("process_cpu_count", "sched_getaffinity"):
        monkeypatch.delattr(os, name, raising=False)
        assert cores() >= 1
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores() == 1


def test_many_callers_with_helpers_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "WORTHWHILE", 0.0)
    m = Matcher("blocks")
    m.add_many([(i, f"a > {i} AND b < {i % 7}") for i in range(400)])
    events = [{"a": i, "b": i % 5} for i in range(50)]
    wanted = m.match_many(events, threads=1).to_pydict(), m.top_k_many(events, 3, threads=1).to_pydict()
    with ThreadPoolExecutor(6) as pool:
        for found in pool.map(
            lambda _: (m.match_many(events, threads=3).to_pydict(), m.top_k_many(events, 3, threads=3).to_pydict()),
            range(60),
        ):
            assert found == wanted


@pytest.mark.parametrize("index", ["scan", "blocks", "k_index"])
def test_too_many_answers_over_all_threads(index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread alone has too many; and after it, the next search is right."""
    monkeypatch.setattr(driver, "WORTHWHILE", 0.0)
    monkeypatch.setattr(driver, "FEW_SLOTS", 0)
    monkeypatch.setattr(Scan, "_lanes", 4)
    m = Matcher(index)
    m.add_many([(i, f"a > {i}") for i in range(100)])
    events = [{"a": 1000}] * 40
    wanted = m.match_many(events, threads=1).to_pydict()
    monkeypatch.setattr(answers, "MOST_ANSWERS", 3_000)
    with pytest.raises(TooManyAnswers, match="more than 3,000 answers"):
        m.match_many(events, threads=3)
    monkeypatch.setattr(answers, "MOST_ANSWERS", 4_000)
    assert m.match_many(events, threads=3).to_pydict() == wanted
    searched = m._version.segments[0].index or m._version.segments[0]._scan
    assert len(searched._spare) <= driver.SPARES


def test_scratch_of_a_search_that_failed_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "WORTHWHILE", 0.0)
    m = Matcher("blocks")
    m.add_many([(i, f"a > {i} AND b = {i % 3}") for i in range(500)])
    events = [{"a": 10 * i, "b": i % 4} for i in range(60)]
    wanted = m.match_many(events, threads=1).to_pydict()
    run, calls = driver.run, iter(range(10**6))

    def failing(*arguments: Any) -> Any:
        answer = run(*arguments)
        if next(calls) == 3:
            raise KeyboardInterrupt
        return answer

    index: Any = m._version.segments[0].index
    index._spare.clear()
    monkeypatch.setattr(driver, "run", failing)
    with pytest.raises(KeyboardInterrupt):
        m.match_many(events, threads=2)
    monkeypatch.setattr(driver, "run", run)
    assert m.match_many(events, threads=2).to_pydict() == wanted
    assert m.match_many(events, threads=1).to_pydict() == wanted


FORKED = """
import os, signal, sys, time, warnings
warnings.simplefilter("ignore")
from earmark import Matcher
from earmark.index import driver

driver.WORTHWHILE = 0.0
m = Matcher("blocks")
m.add_many([(i, f"a > {i}") for i in range(300)])
events = [{"a": i} for i in range(80)]
wanted = m.match_many(events, threads=4).to_pydict()
for _ in range(5):
    child = os.fork()
    if not child:
        os._exit(0 if all(m.match_many(events, threads=4).to_pydict() == wanted for _ in range(3)) else 3)
    until = time.monotonic() + 30
    while not (status := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            sys.exit("the child hangs")
        time.sleep(0.005)
    assert os.waitstatus_to_exitcode(status[1]) == 0
assert m.match_many(events, threads=4).to_pydict() == wanted
child = os.fork()                       # a child that ends as any process does
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("done", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_has_threads_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n" * 2), done.stderr


AT_THE_END = """
import atexit
from earmark import Matcher
from earmark.index import driver

driver.WORTHWHILE = 0.0
m = Matcher("blocks")
m.add_many([(i, f"a > {i}") for i in range(30)])
events = [{"a": i} for i in range(80)]
atexit.register(lambda: print(m.match_many(events, threads=3).num_rows))
m.match_many(events, threads=3)
"""


def test_a_search_when_the_interpreter_ends() -> None:
    done = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "1935\n"), done.stderr


def test_runs_cover_everything_once() -> None:
    for count in (0, 1, 7, 100):
        for runs in (0, 1, 3, 200):
            made = runs_of(count, runs)
            assert [i for begin, end in made for i in range(begin, end)] == list(range(count))
            assert len(made) == max(1, min(runs, count))


def test_work_in_the_background_is_done_alone() -> None:
    with at_most(1):
        assert cores() == thread_count(None) == 1
        with at_most(1):
            pass
        assert cores() == 1
        assert thread_count(3) == 3
    assert cores() == threads._process_cores()
    helped = in_parallel(lambda _: (time.sleep(0.01), threading.get_ident(), cores())[1:], range(20), 2)
    own = threading.get_ident()
    assert {count for thread, count in helped if thread != own} <= {1}
    assert {count for thread, count in helped if thread == own} == {threads._process_cores()}
