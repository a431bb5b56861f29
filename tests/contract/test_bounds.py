"""No kernel reaches out of an array: the contract suite again, with every access checked (EARMARK_BOUNDSCHECK=1)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from earmark.jit import BOUNDS, JIT

ROOT = Path(__file__).parents[2]
SUITE = "tests/contract/test_indexes.py"

pytestmark = pytest.mark.skipif(BOUNDS or not JIT, reason="a run inside this one, or nothing is compiled")


def checked(*arguments: str) -> str:
    """What pytest says under bounds checking; all pass."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        env={**os.environ, "EARMARK_BOUNDSCHECK": "1", "EARMARK_QUIET": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    return done.stdout


def test_an_access_out_of_bounds_is_an_error() -> None:
    """Also below zero, where an array would count from its end; with the vector helpers too."""
    script = """
import numpy as np
from earmark.flat.machine import VECTOR, at, count_less8
from earmark.jit import BOUNDS, kernel

@kernel
def element(array, index):
    return at(array, index)

@kernel
def stored(array, index):
    array[index] = 1

@kernel
def less(array, index):
    return count_less8(array, index, 5)

assert BOUNDS
array = np.arange(9)
assert element(array, 8) == 8 and less(array, 1) == 4
for function, index in ((element, 9), (element, -1), (stored, 9), (less, 2), (less, -1)):
    try:
        function(array, index)
    except IndexError:
        continue
    raise AssertionError(f"{function.__name__} took {index}")
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "EARMARK_BOUNDSCHECK": "1", "EARMARK_CACHE_DIR": "", "EARMARK_QUIET": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.timeout(600)
def test_a_scan_stays_inside() -> None:
    assert "passed" in checked(SUITE, "-k", "scan and (floor or eligible or shape or block)")


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_index_stays_inside() -> None:
    assert "passed" in checked(SUITE, "tests/unit/index", "-m", "not slow", "--timeout", "3600")
