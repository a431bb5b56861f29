"""All engines give the same answers, and a wrong one is found out."""

from __future__ import annotations

import numpy as np
import pytest
from tests.benchmarks.tiny import Doubting, Forgetful, dense, plain_answer, sparse

import engines
from earmark import index
from earmark.errors import EarmarkError
from earmark.workload.standard import Workload
from engines.base import Engine, Pairs, Pointed, difference, match_keys
from measure import measure, reference, search_series
from results import Figure

WORKLOADS = {"dense": dense(), "sparse": sparse()}


def figures_of(engine: Engine, workload: Workload) -> dict[str, Figure]:
    found: list[Figure] = []
    measure(engine, "tiny", workload, reference(workload), repeats=2, limit=60, report=found.append)
    return {one.what: one for one in found}


@pytest.mark.parametrize("kind", WORKLOADS)
def test_the_reference_is_what_matches(kind: str) -> None:
    workload = WORKLOADS[kind]
    plain = match_keys(plain_answer(workload), len(workload.sub_attr))
    assert len(plain) > 50
    assert np.array_equal(reference(workload), plain)


@pytest.mark.parametrize("kind", WORKLOADS)
@pytest.mark.parametrize("name", engines.names())
def test_every_engine_agrees(name: str, kind: str) -> None:
    engine = engines.make(name)
    reason = engine.cannot(WORKLOADS[kind])
    if "not installed" in reason:
        pytest.skip(reason)
    figures = figures_of(engine, WORKLOADS[kind])
    if reason:
        assert [(one.status, one.note) for one in figures.values()] == [("skipped", reason)]
        return
    assert {one.status for one in figures.values()} == {"ok"}
    searches = [one for one in figures.values() if one.unit == "µs/event"]
    assert searches
    assert all(len(one.values) == 2 and one.events == 120 for one in searches)
    assert {"build", "memory"} < figures.keys()


def test_what_each_rival_can_do() -> None:
    can = {name: [kind for kind, w in WORKLOADS.items() if not engines.make(name).cannot(w)] for name in engines.RIVALS}
    for name, kinds in can.items():
        missing = engines.make(name).needs and "not installed" in engines.make(name).cannot(WORKLOADS["dense"])
        if not missing:
            assert kinds == (["dense", "sparse"] if name in ("numpy", "duckdb") else ["dense"]), name


@pytest.mark.parametrize(("engine", "told"), [(Forgetful, "1 matches missing"), (Doubting, "twice")])
def test_a_wrong_engine_is_wrong_and_not_fast(engine: type[Engine], told: str) -> None:
    found = figures_of(engine("bad"), WORKLOADS["dense"])["single"]
    assert found.status == "wrong"
    assert found.values == []
    assert told in found.note


def test_a_search_that_would_not_end_in_time_is_skipped() -> None:
    workload = WORKLOADS["dense"]
    engine = engines.make("numpy")
    engine.prepare(workload)
    engine.build(workload)
    status, values, note = search_series(engine.searches()["narrowing"], workload, reference(workload), 3, left=0.0)
    assert (status, values) == ("skipped", [])
    assert "by the first 10" in note


def test_difference() -> None:
    wanted = match_keys([[1, 2], [0], []], 10)
    assert wanted.tolist() == [1, 2, 10]
    assert difference(match_keys([[2, 1], [0], []], 10), wanted, 10) == ""
    assert difference(match_keys(Pairs(np.array([1, 0, 0]), np.array([0, 2, 1])), 10), wanted, 10) == ""
    assert difference(match_keys(Pointed(np.array([0, 2, 3, 3]), np.array([1, 2, 0])), 10), wanted, 10) == ""
    told = difference(match_keys([[1, 2], [], [3, 3]], 10), wanted, 10)
    assert told == "1 matches missing, 1 extra, 1 twice; first at event 1"
    assert "twice; first at event 0" in difference(match_keys([[1, 1, 2], [0], []], 10), wanted, 10)


def test_names() -> None:
    assert set(engines.names()) == {*index.names(), *engines.RIVALS}
    with pytest.raises(EarmarkError, match="no engine called 'nothing'"):
        engines.make("nothing")
    with pytest.raises(EarmarkError, match="cannot be had"):
        engines.make("engines.base:Nothing")
