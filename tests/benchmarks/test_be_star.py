"""The programs about the BE*-Tree, on tiny data: they run, they compare answers, they judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.benchmarks.tiny import dense, sparse

import be_star_orders
import be_star_tree
import contenders
from contenders import Bars, Contender, race, ratio_with_spread, unequal
from earmark.index.scan import Scan
from results import Figure, read


class Forgetful(Scan):
    """Loses the last match of a batch."""

    def match_many(self, events: Any, eligible: Any) -> tuple[Any, Any]:
        pointers, slots = super().match_many(events, eligible)
        return np.minimum(pointers, max(0, len(slots) - 1)), slots[:-1]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard workloads are tiny here."""
    monkeypatch.setattr(be_star_tree, "WORKLOADS", {"w1u": head_of(sparse()), "w2": head_of(dense())})


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Contender:
    """A contender that is wrong, in place of k-index by counting."""
    monkeypatch.setitem(contenders.index.INDEXES, "forgetful", (__name__, "Forgetful"))
    monkeypatch.setattr(contenders.index, "class_of", lambda name, own=contenders.index.class_of: own_class(name, own))
    return Contender("k-index, counting", "forgetful")


def own_class(name: str, otherwise: Any) -> Any:
    return Forgetful if name == "forgetful" else otherwise(name)


def head_of(workload: Any) -> Any:
    return lambda subscriptions: workload.head(subscriptions)


# --- what they share ------------------------------------------------------------------------------------------


def test_a_race(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contenders, "MOST_CALLS", 2)
    calls: list[str] = []
    runs = {name: lambda name=name: calls.append(name) or name for name in "abc"}
    found = race(runs, repeats=2, limit=60.0, check=lambda who, _: "no" if who == "b" else "")
    assert found.wrong == {"b": "no"}
    assert calls == ["a", "b", "c", *"aaccaacc"]
    assert len(found.seconds["a"]) == len(found.seconds["c"]) == 2
    figures = contenders.figures(found, "w", 10, "batch", 5)
    assert [(one.engine, one.status, bool(one.values)) for one in figures] == [
        ("a", "ok", True),
        ("b", "wrong", False),
        ("c", "ok", True),
    ]
    assert len(race({"a": lambda: None}, repeats=5, limit=0.0).seconds["a"]) == 1


def test_unequal() -> None:
    one, other = (np.array([0, 2]), np.array([1, 5])), (np.array([0, 2]), np.array([1, 6]))
    assert unequal(one, one) == ""
    assert unequal(one, other) == "slots differ from the scan's"


def test_ratios_and_bars(capsys: pytest.CaptureFixture[str]) -> None:
    assert ratio_with_spread([10.0, 12.0, 11.0], [1.0, 2.0, 1.1]) == "10.0 x (5.00 to 12.0)"
    judging, looking = Bars(judged=True), Bars(judged=False)
    for bars in (judging, looking):
        bars.at_least("speed", 14.0, 15.0)
        bars.at_most("bytes", 1.0, 2.0)
    assert judging.missed == ["speed"]
    assert looking.missed == []
    out = capsys.readouterr().out
    assert "speed: 14.0 x (bar: at least 15.0) -> MISSED" in out
    assert "bytes: 1.00 x (bar: at most 2.00) -> held" in out
    assert "not judged at this size" in out


# --- the programs ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("tiny")
def test_be_star_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "r.json"
    asked = ["--quick", "--sizes", "300", "--workloads", "w1u,w2", "--json", str(file)]
    assert be_star_tree.main(asked) == 0
    out = capsys.readouterr().out
    for part in (
        "w1u, 300 subscriptions",
        "BE*-B, batch",
        "k-index, counting, batch",
        "w1u, against numpy: ",
        "w2, against k-index: ",
        "w1u, bytes: ",
        "w2, inserts from empty: ",
        "not judged at this size",
    ):
        assert part in out, part
    figures = read(file).figures
    assert {one.status for one in figures} == {"ok"}
    assert {"build", "bytes", "batch", "inserts from empty", "inserts into 90 %"} == {one.what for one in figures}


@pytest.mark.usefixtures("tiny")
def test_a_wrong_answer_fails_the_run(
    forgetful: Contender, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    indexes = [forgetful if one == contenders.COUNTED else one for one in be_star_tree.INDEXES]
    monkeypatch.setattr(be_star_tree, "INDEXES", indexes)
    assert be_star_tree.main(["--quick", "--sizes", "300", "--workloads", "w2"]) == 1
    assert "WRONG: k-index, counting on w2 at 300: 1 matches missing" in capsys.readouterr().out


def test_a_missed_bar_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    def figure(engine: str, what: str, value: float) -> Figure:
        return Figure("w1u", 1000, engine, what, "µs/event" if what == "batch" else "s", [value], events=10)

    found = [figure("numpy", "batch", 100.0), figure("BE*-B", "batch", 10.0), figure("BE", "batch", 9.0)]
    found += [figure("BE*-B", "build", 11.0), figure("BE*-B", "bytes", 1.5)]
    found += [figure("BE*-B", "inserts from empty", 5.0), figure("BE*-B", "inserts into 90 %", 20.0)]
    bars = be_star_tree.judge(found, 1000, judged=True)
    assert bars.missed == ["w1u, against numpy", "w1u, against BE", "w1u, bulk build", "w1u, inserts into 90 %"]
    assert "w1u: BE*-B against numpy 10.0 x" in capsys.readouterr().out


@pytest.mark.slow
def test_be_star_orders(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = {name: be_star_orders.SHAPES[name] for name in ("clustered", "nested", "don't care")}
    monkeypatch.setattr(be_star_orders, "SHAPES", shapes)
    file = tmp_path / "r.json"
    assert be_star_orders.main(["--quick", "--size", "150", "--json", str(file)]) == 0
    out = capsys.readouterr().out
    for shape in shapes:
        assert f"{shape}, worst order after adaptation: " in out
    figures = read(file).figures
    assert {one.status for one in figures} == {"ok"}
    orders = {"random", "sorted", "reverse", "inside out", "outside in", "BE-Tree"}
    assert {(one.engine, one.what) for one in figures} == {(o, w) for o in orders for w in ("raw", "adapted")}


@pytest.mark.parametrize("shape", list(be_star_orders.SHAPES))
def test_orders_are_permutations(shape: str) -> None:
    table, events = be_star_orders.SHAPES[shape](120)
    assert len(events.start) == be_star_orders.EVENTS + 1
    assert len(table.constraint_start) == len(table.sequence) + 1
    assert table.constraint_start[-1] == len(table.attr) == len(table.lo)
    for order in be_star_orders.orders(table).values():
        assert np.array_equal(np.sort(order), np.arange(len(table.sequence)))
