"""A phase was reported to take less than no time where its last request moved nothing, or it had none at all."""

from __future__ import annotations

import pytest

from earmark.overlay.simulation import content_of, plan_of, simulate, topology_of
from earmark.overlay.simulation.faults import Faults
from earmark.overlay.simulation.plan import STEP


@pytest.mark.parametrize("delay", [0.001, 0.01, 0.3])
def test_a_phase_lasts_at_least_until_its_last_request(delay: float) -> None:
    plan = plan_of(content_of("mics-zipf", 30, 20), topology_of("figure-1"))
    report = simulate(plan, "flood", faults=Faults(delay=delay))
    for phase in report.phases:
        asked = (phase.requests - 1) * STEP / 1e6
        assert asked <= phase.seconds <= asked + 20 * delay + 0.001, (phase.phase, phase.seconds)


def test_a_phase_without_requests_takes_no_time() -> None:
    plan = plan_of(content_of("mics-zipf", 30, 1), topology_of("line:3"), withdraw=0.5)
    report = simulate(plan, "covering")
    assert [(phase.phase, phase.requests) for phase in report.phases][3] == ("publish again", 0)
    assert [phase.seconds >= 0 for phase in report.phases] == [True] * 4 and report.phases[3].seconds == 0
