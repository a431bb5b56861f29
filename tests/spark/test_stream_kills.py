"""SIGKILL to the driver and to workers in mid-stream: nothing lost, nothing twice, every batch true to its version."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.apart]

ROOT = Path(__file__).parents[2]


def outcome_of(*arguments: str) -> dict[str, object]:
    command = [sys.executable, str(ROOT / "benchmarks" / "spark_kill.py"), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_once() -> None:
    outcome = outcome_of("--drivers", "1", "--workers", "1", "--rows", "2400")
    assert (outcome["wrong"], outcome["drivers killed"]) == ([], 1)
    assert outcome["batches"] in (5, 6)  # a kill between two notes of Spark's makes one batch of two files


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_killed_ten_times() -> None:
    outcome = outcome_of()
    assert (outcome["wrong"], outcome["drivers killed"]) == ([], 10)
    assert int(str(outcome["workers killed"])) >= 10
