"""Compiling is announced for every pause, and `warm` leaves nothing to compile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import earmark
from earmark import jit
from earmark.errors import EarmarkError

pytestmark = pytest.mark.skipif(not jit.JIT, reason="kernels are plain Python in this run")

MESSAGE = "earmark: compiling kernels"

EVERYTHING = """
import sys, tempfile
import earmark, pyarrow as pa
from earmark.jit import note

m = earmark.Matcher(sys.argv[1])
m.add("a", "x > 3 AND y = 1.5D")
m.add_many([("b", "s LIKE 'x%' OR x < 2"), ("c", "x IS NULL"), ("d", "x > 3 AND x < 2")])
event = {"x": 5, "y": 1.5, "s": "xy"}
m.match(event), m.match_many([event] * 700), m.match_many(pa.table({"x": [1, 2], "s": ["a", "x"]}))
m.top_k(event, 2), m.top_k(event, 2, mode="relaxed"), m.top_k_many([event], 1, weights={"x": 2.0})
m.explain("a", event), m.near_misses({"x": 5}), m.never_matching(), m.verify([event])
m.audit(), m.covered("a"), m.covered_by("a"), m["a"], m.stats(), m.to_arrow()
m.update("b", score=2.0), m.remove("a"), m.match(event), m.compact(), m.match(event)
with tempfile.TemporaryDirectory() as folder:
    m.save(folder + "/table")
    earmark.Matcher.load(folder + "/table").match(event)
print(note.compiled)
"""


def python(code: str, cache: Path, *arguments: str) -> tuple[str, str]:
    environment = {name: value for name, value in os.environ.items() if name != "EARMARK_QUIET"}
    environment["EARMARK_CACHE_DIR"] = str(cache)
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    (tmp_path / "cache").mkdir(mode=0o700)
    return tmp_path / "cache"


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_a_line_for_every_pause(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    clock, note = Clock(), jit.Note()
    monkeypatch.delenv("EARMARK_QUIET", raising=False)
    monkeypatch.setattr(jit, "time", clock)
    call = "match"
    monkeypatch.setattr(jit, "_call_of_the_api", lambda: call)

    def compile(seconds: float) -> str:
        note.begins(cached=True)
        clock.now += seconds
        note.ended()
        return capfd.readouterr().err

    assert compile(2.0).startswith(f"{MESSAGE} for match, once on this machine")
    assert compile(4.0) == ""
    assert compile(1.0) == f"{MESSAGE} for match: 2 so far ...\n"
    assert compile(1.0) == ""
    call = "top_k"  # at once, but another call
    assert "`earmark warm`" in compile(1.0)
    clock.now += 60
    assert compile(1.0).startswith(f"{MESSAGE} for top_k, once")
    heard: list[int] = []
    with note.replaced_by(heard.append):
        clock.now += 60
        assert compile(1.0) == ""
    assert heard == [note.compiled] == [7]


def test_calls_of_a_matcher_are_announced(empty: Path) -> None:
    code = """import earmark, earmark.jit
earmark.jit.PAUSE_ENDS = 600  # however slow the machine is, one call is one pause
m = earmark.Matcher('scan'); m.add(1, 'a > 3'); m.match({'a': 5}); m.top_k({'a': 5})"""
    _, said = python(code, empty)
    first = [line for line in said.splitlines() if "once on this machine" in line]
    assert [line.split(",")[0] for line in first] == [f"{MESSAGE} for match", f"{MESSAGE} for top_k"]
    assert all(line.startswith(MESSAGE) for line in said.splitlines())
    assert python(code, empty)[1] == ""


def test_which_indexes() -> None:
    with pytest.raises(EarmarkError, match="names in a list, got 'scan'"):
        earmark.warm("scan")
    with pytest.raises(EarmarkError, match="no index called 'nope'; there are auto, be_star_tree, "):
        earmark.warm(["nope"])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("index", ["scan", "be_star_tree"])
def test_nothing_is_left_to_compile(empty: Path, index: str) -> None:
    assert python(f"import earmark; earmark.warm([{index!r}])", empty) == ("", "")
    assert python(EVERYTHING, empty, index) == ("0\n", "")
