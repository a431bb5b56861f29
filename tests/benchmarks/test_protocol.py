"""Timing, its summary, memory, and the form of results."""

from __future__ import annotations

import gc
import json
import time
from mmap import mmap
from pathlib import Path

import numpy as np
import pytest

from earmark.errors import EarmarkError
from earmark.report.protocol import Peak, clocked, machine, resident_bytes, summary, timed
from results import PER_EVENT, Figure, Result, pooled, read


def test_summary() -> None:
    found = summary([5.0, 1.0, 3.0])
    assert found == (3.0, 1.0, 5.0)
    assert found.spread == pytest.approx(4 / 3)
    assert summary([2.0, 4.0]).median == 3.0
    assert summary([0.0]).spread == 0.0


def test_timed_runs_once_more_than_it_counts_and_checks_every_run() -> None:
    runs: list[int] = []
    checked: list[int] = []

    def run() -> int:
        runs.append(len(runs))
        return runs[-1]

    timing = timed(run, 3, check=checked.append)
    assert runs == checked == [0, 1, 2, 3]
    assert len(timing.seconds) == 3
    assert timing.result == 3


def test_the_clock_measures_and_leaves_the_collector_as_it_was() -> None:
    seconds, result = clocked(lambda: (time.sleep(0.02), gc.isenabled()))
    assert seconds >= 0.02
    assert result == (None, False)
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        clocked(lambda: 1 / 0)
    assert gc.isenabled()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not say what is resident now")
def test_memory_sees_what_was_allocated_and_freed() -> None:
    before, peak = resident_bytes(), Peak()
    with peak.watched():
        held = mmap(-1, 32_000_000)  # never from memory that was freed before
        held.write(bytes(32_000_000))
        assert resident_bytes() - before > 25e6
        held.close()
    assert 25e6 < peak.bytes - before < 100e6
    np.ones(40_000_000)
    assert peak.bytes - before < 100e6


def test_machine_can_be_stored() -> None:
    facts = json.loads(json.dumps(machine()))
    assert facts["cores"] >= 1
    assert {"python", "numpy", "earmark"} <= facts["versions"].keys()


def figure(**changes: object) -> Figure:
    known = {"workload": "w2", "subscriptions": 10_000, "engine": "scan", "what": "batch", "unit": PER_EVENT}
    return Figure(**{**known, "values": [3.0, 3.1, 2.9], "events": 1000, **changes})  # type: ignore[arg-type]


def test_results_survive_a_file(tmp_path: Path) -> None:
    wrong = figure(engine="bad", values=[], status="wrong", note="1 matches missing")
    result = Result("run", {"threads": 1}, [figure(), wrong])
    result.write(tmp_path / "r.json")
    assert read(tmp_path / "r.json") == result
    assert [one.name for one in tmp_path.iterdir()] == ["r.json"]


def test_rounds_are_pooled_and_one_wrong_round_spoils_them() -> None:
    other = figure(engine="other")
    assert pooled([figure(values=[1.0]), other, figure(values=[2.0, 3.0])]) == [figure(values=[1.0, 2.0, 3.0]), other]
    wrong, skipped = figure(values=[], status="wrong", note="how"), figure(values=[], status="skipped", note="why")
    assert pooled([figure(), wrong, skipped]) == [wrong]
    assert pooled([skipped, figure(values=[1.0])]) == [figure(values=[1.0])]
    assert pooled([skipped, skipped]) == [skipped]


@pytest.mark.parametrize("changes", [{"status": "wrong"}, {"values": []}, {"status": "fine"}])
def test_a_figure_has_values_exactly_when_it_is_ok(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="a figure is ok and has values"):
        figure(**changes)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("not json", "is not JSON"),
        ("[]", "version 1"),
        ('{"version": 99}', r"version 1 \(version: 99\)"),
        ('{"version": 1}', "is not a benchmark result"),
        ('{"version": 1, "program": "run", "settings": {}, "machine": {}, "made": "", "figures": [{}]}', "is not a"),
        (None, "No such file"),
    ],
)
def test_other_files_are_refused_in_a_sentence(tmp_path: Path, content: str | None, told: str) -> None:
    file = tmp_path / "r.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(EarmarkError, match=told):
        read(file)
