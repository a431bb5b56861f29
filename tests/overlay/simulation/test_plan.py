"""Content, plans and faults: the same from the same seed, and what they promise."""

from __future__ import annotations

import pytest

from earmark.errors import EarmarkError
from earmark.overlay.simulation.content import CONTENTS, content_of, content_of_rows
from earmark.overlay.simulation.faults import Faults, drawn_faults
from earmark.overlay.simulation.plan import PUBLISH, SUBSCRIBE, WITHDRAW, plan_of
from earmark.overlay.simulation.topology import topology_of


@pytest.mark.parametrize("name", CONTENTS)
def test_content(name: str) -> None:
    content = content_of(name, 50, 20, attributes=2, unsubscribes=0.2, seed=4)
    assert len(content.conditions) == 50 and len(content.events) == 20
    assert content == content_of(name, 50, 20, attributes=2, unsubscribes=0.2, seed=4)
    assert content != content_of(name, 50, 20, attributes=2, unsubscribes=0.2, seed=5)
    living: set[int] = set()
    for command in content.commands:
        if command >= 0:
            living.add(command)
        else:
            living.remove(~command)
    assert len(living) == 100 - len(content.commands) < 50


def test_content_of_rows() -> None:
    content = content_of_rows(["a > 1", "a > 2"], [{"a": 2}])
    assert list(content.commands) == [0, 1]
    with pytest.raises(EarmarkError, match="expected subscriptions and events, got 0 and 1"):
        content_of_rows([], [{"a": 2}])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "w9"}, "expected a workload, one of mics-uniform"),
        ({"subscriptions": 0}, "expected 1 to 1,000,000 subscriptions, got 0"),
        ({"publications": 0}, "expected 1 to 1,000,000 publications"),
        ({"attributes": 65}, "expected 1 to 64 attributes"),
        ({"unsubscribes": 0.5}, "below 0.5"),
    ],
)
def test_content_that_cannot_be_drawn(changes: dict[str, float], sentence: str) -> None:
    with pytest.raises(EarmarkError, match=sentence):
        content_of(**{"name": "mics-zipf", "subscriptions": 5, "publications": 5} | changes)  # type: ignore[arg-type]


def test_phases() -> None:
    content = content_of("shen-uniform", 40, 11, unsubscribes=0.1)
    plan = plan_of(content, topology_of("figure-1"), withdraw=0.5, at_once=3)
    assert [phase.name for phase in plan.phases] == ["subscribe", "publish", "withdraw", "publish again"]
    assert len(plan.home) == 44 and set(plan.home) == set(range(11))
    asked = [request.place for request in plan.phases[0].requests if request.kind == SUBSCRIBE]
    gone = [r.place for phase in plan.phases for r in phase.requests if r.kind == WITHDRAW]
    assert asked == list(range(40)) and len(set(gone)) == len(gone)
    published = [r.place for phase in plan.phases for r in phase.requests if r.kind == PUBLISH]
    assert published == list(range(11))
    times = [request.at for request in plan.phases[0].requests]
    assert times == sorted(times) and max(map(times.count, times)) == 3
    (mixed,) = plan_of(content, topology_of("line:2"), withdraw=0.5, mixed=True).phases
    everything = [request for phase in plan.phases for request in phase.requests]
    assert len(mixed.requests) == len(everything)
    for request in mixed.requests:
        if request.kind == WITHDRAW:
            (begun,) = [r for r in mixed.requests if r[1:] == (SUBSCRIBE, request.place)]
            assert mixed.requests.index(begun) < mixed.requests.index(request)


@pytest.mark.parametrize("changes", [{"clients": 0}, {"withdraw": 1.5}, {"at_once": 0}])
def test_plans_that_cannot_be_made(changes: dict[str, int]) -> None:
    with pytest.raises(EarmarkError, match="expected"):
        plan_of(content_of("mics-zipf", 5, 5), topology_of("line:2"), **changes)  # type: ignore[arg-type]


def test_faults() -> None:
    plan = plan_of(content_of("mics-zipf", 50, 50), topology_of("line:5"))
    faults = drawn_faults(plan, cuts=6, crashes=4, longest=0.5, seed=2, loss=0.1)
    assert faults == drawn_faults(plan, cuts=6, crashes=4, longest=0.5, seed=2, loss=0.1)
    assert len(faults.cuts) == 6 and len(faults.crashes) == 4 and not faults.is_perfect
    assert all(0 < cut.until - cut.at <= 500_000 for cut in faults.cuts + faults.crashes)
    assert drawn_faults(plan).is_perfect
    with pytest.raises(EarmarkError, match="a network of several brokers"):
        drawn_faults(plan_of(content_of("mics-zipf", 5, 5), topology_of("line:1")), cuts=1)
    with pytest.raises(EarmarkError, match="probability of loss"):
        Faults(loss=1.0)
    with pytest.raises(EarmarkError, match="a jitter below it"):
        Faults(delay=0.01, jitter=0.02)
