"""A child that was forked while other threads searched waited for ever for locks that only its parent could release."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from earmark import jit

if not hasattr(os, "fork"):
    pytest.skip("no fork on this system", allow_module_level=True)

FORKED = """
import os, signal, sys, threading, time, warnings

warnings.simplefilter("ignore")


def finishes(work, seconds=20):
    child = os.fork()
    if not child:
        try:
            os._exit(0 if work() else 3)
        except BaseException as problem:
            print("the child failed:", repr(problem), file=sys.stderr, flush=True)
            os._exit(4)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hangs"
"""

SEARCHING = """
from earmark import Matcher

m = Matcher("k_index")
m.add_many([(i, f"city > '{i:04}' AND a > {i % 5} AND b = 'x'") for i in range(300)])
event = {"city": "0100x", "a": 3, "b": "x"}
wanted = m.match(event)
assert wanted and m.top_k(event, 2) and m.explain(1, event).matched
going = True


def search(number):
    turn = 0
    while going:
        turn += 1
        m.match({"city": f"{turn % 999:04}!{number}", "a": 3, "b": "x"})   # keys of strings
        m.explain(1, event)                                                # the table, the parser
        if number == 0 and turn % 20 == 0:
            m.update(299, f"city > '{turn}' AND a > 99")                   # a new state
        m.top_k(event, 1)


def works():
    return m.match(event) == wanted and m.explain(1, event).matched and len(m.top_k(event, 2)) == 2


threads = [threading.Thread(target=search, args=(i,), daemon=True) for i in range(4)]
for thread in threads:
    thread.start()
outcomes = []
for _ in range(30):
    time.sleep(0.01)
    outcomes.append(finishes(works))
going = False
print(outcomes)
"""

COMPILING = """
from earmark.jit import kernel

@kernel
def slow(x):
    total = 0.0
    for i in range(10):
SLOW
    return total

@kernel
def quick(x):
    return x + 1

thread = threading.Thread(target=slow, args=(1.5,))
thread.start()
time.sleep(0.3)
outcomes = []
for _ in range(2):
    outcomes.append(finishes(lambda: quick(20) == 21, 60))
thread.join()
print(outcomes)
""".replace("SLOW", "\n".join(f"        total += x ** {i} if i % {i + 2} else {i} * x" for i in range(150)))

LAYING_OUT = """
import numpy as np

from earmark.flat import pinned

def lay_out():
    pinned._types.clear()
    return pinned.Pinned((np.zeros(3), 1))     # asks LLVM for the size of the type

def again_and_again():
    while going:
        lay_out()

lay_out()
going = True
threading.Thread(target=again_and_again, daemon=True).start()
outcomes = [finishes(lambda: lay_out().value[1] == 1) for _ in range(10)]
going = False
print(outcomes)
"""

COMPUTING = """
from earmark import Matcher
from earmark.engine import version

one, other = Matcher("scan"), Matcher("scan")
one.add(1, "a > 3")
other.add(2, "a > 4")
join, is_inside = version.join, threading.Event()

def never_ends(*_):
    is_inside.set()
    time.sleep(1_000)

version.join = never_ends                     # in the middle of `Version.whole`, which is kept once it is computed
threading.Thread(target=one.ids, daemon=True).start()
is_inside.wait()
version.join = join
print([finishes(lambda: other.ids() == [2]), finishes(lambda: one.ids() == [1])])
"""


def outcomes_of(script: str, tmp_path: Path, **variables: str) -> list[object]:
    path = tmp_path / "script.py"
    path.write_text(script)
    done = subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, "EARMARK_QUIET": "1", **variables},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    outcomes = eval(done.stdout)
    assert isinstance(outcomes, list)
    return outcomes


def test_children_search(tmp_path: Path) -> None:
    assert outcomes_of(FORKED + SEARCHING, tmp_path) == [0] * 30


def test_children_compute_what_another_thread_was_computing(tmp_path: Path) -> None:
    assert outcomes_of(FORKED + COMPUTING, tmp_path) == [0, 0]


@pytest.mark.skipif(not jit.JIT, reason="kernels are plain Python in this run")
def test_children_use_llvm(tmp_path: Path) -> None:
    """A fork waits for a thread that uses LLVM without compiling."""
    assert outcomes_of(FORKED + LAYING_OUT, tmp_path) == [0] * 10


@pytest.mark.skipif(not jit.JIT, reason="kernels are plain Python in this run")
def test_children_compile(tmp_path: Path) -> None:
    """A fork waits for the thread that compiles a kernel, so that the child can compile."""
    (tmp_path / "cache").mkdir(mode=0o700)
    assert outcomes_of(FORKED + COMPILING, tmp_path, EARMARK_CACHE_DIR=str(tmp_path / "cache")) == [0] * 2
