"""The program about the public API, on tiny data: it runs, compares answers, judges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.benchmarks.tiny import dense, plain_answer, sparse

import api
import contenders
from earmark import Matcher
from load import event_dicts, event_frame
from results import PER_EVENT, Figure, read


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard workloads are tiny here."""
    made = {"w1": sparse(), "w1u": sparse(seed=3), "w2": dense()}
    heads = {name: lambda subscriptions, one=one: one.head(subscriptions) for name, one in made.items()}
    monkeypatch.setattr(api, "WORKLOADS", heads)
    monkeypatch.setattr(api, "SMALL", 200)
    monkeypatch.setattr(api, "MOST_SINGLE", {("w2", 200): 15.0, ("w1u", 1_000_000): 30.0})
    monkeypatch.setattr(contenders, "MOST_CALLS", 2)


def test_everything_is_measured_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "r.json"
    assert api.main(["--size", "300", "--repeats", "2", "--json", str(file)]) == 0
    out = capsys.readouterr().out
    for part in (
        "w1, 300, all matches, one thread: Matcher()",
        "kernel of Matcher(",
        'Matcher("blocks"), mappings, all matches',
        "w2, 300, 10 best, one thread: ",
        "w2, all matches, over its own kernel: ",
        "w2, 300, single match, subscriptions of 10 tenants",
        "w2, single match at 200: ",
        "w1u, single match at 300: ",
        "two threads against one: ",
        "not judged at this size",
    ):
        assert part in out, part
    figures = read(file).figures
    assert {one.status for one in figures} == {"ok"}
    assert {api.ALL, api.BEST, api.SINGLE} <= {one.what for one in figures}


def test_a_wrong_answer_fails_the_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    own = Matcher.match
    monkeypatch.setattr(Matcher, "match", lambda self, event, **more: own(self, event, **more)[1:])
    assert api.main(["--size", "300", "--repeats", "1"]) == 1
    assert "WRONG: Matcher() on w2 at 300: ids differ from the scan's" in capsys.readouterr().out


def test_missed_bars_are_told() -> None:
    size = api.SUBSCRIPTIONS

    def figure(workload: str, engine: str, what: str, value: float, size: int = size) -> Figure:
        return Figure(workload, size, engine, what, PER_EVENT, [value], events=10)

    kernel = api.kernel_of(api.DEFAULT)
    found = [figure("w1", api.DEFAULT, api.ALL, 95.0), figure("w1", kernel, api.ALL, 60.0)]
    found += [figure("w2", api.DEFAULT, what, 10.0) for what in (api.ALL, api.BEST)]
    found += [figure("w2", kernel, api.ALL, 9.0)]
    found += [figure("w2", api.DEFAULT, api.SINGLE, 14.0, 200), figure("w1u", api.DEFAULT, api.SINGLE, 31.0)]
    found += [figure("w1", f"threads={n}", f"{api.ALL} {api.THREADS}", 90.0 / n) for n in (1, 2)]
    found += [figure("w2", f"threads={n}", f"{api.BEST} {api.THREADS}", 10.0) for n in (1, 2)]
    assert api.judge(found, size).missed == [
        "w1, all matches",
        "w1, all matches, over its own kernel",
        "w1u, single match at 1M",
        "w2, 10 best, two threads",
    ]


@pytest.mark.parametrize("workload", [dense(), sparse()], ids=["dense", "sparse"])
def test_events_in_both_forms(workload: Any) -> None:
    dicts = event_dicts(workload)
    rows = event_frame(workload).to_pylist()
    assert [{name: value for name, value in row.items() if value is not None} for row in rows] == dicts
    assert event_frame(workload, times=2).to_pylist() == rows * 2
    matcher = api.loaded(workload)[api.BLOCKS]
    assert [matcher.match(event) for event in dicts] == plain_answer(workload)
