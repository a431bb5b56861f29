"""Ordinary runs repeat the same examples; a random search says how to repeat its failures."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[2]

FAILING = """
from hypothesis import given, strategies as st

@given(st.integers(0, 10**9))
def test_it(number):
    print("saw", number)
    assert number < 1000
"""


def run(command: list[str], folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_examples_are_fixed(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--hypothesis-profile") == "soak":
        pytest.skip("a random search")
    assert settings().derandomize


def test_two_ordinary_runs_see_the_same(tmp_path: Path) -> None:
    (tmp_path / "test_failing.py").write_text(FAILING)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-s", "-q"]
    first, second = (re.findall(r"saw (\d+)", run([*command, "test_failing.py"], tmp_path)) for _ in range(2))
    assert first == second != []


def test_a_random_search_prints_how_to_repeat_a_failure(tmp_path: Path) -> None:
    (tmp_path / "test_failing.py").write_text(FAILING)
    plugins = ["-p", "tests.conftest", "-p", "no:cacheprovider"]
    search = [sys.executable, "-m", "pytest", *plugins, "--hypothesis-profile=soak", "--hypothesis-seed=7", "-q"]
    output = run(search, tmp_path)
    assert "reproduce_failure" in output
    line = next(line for line in output.splitlines() if line.startswith("replay: "))
    replay = shlex.split(line.removeprefix("replay: "))
    assert "--hypothesis-seed=7" in replay and replay[-1] == "test_failing.py::test_it"
    assert "number=1000" in run(["env", *replay, *plugins], tmp_path)
