"""Random lives of small networks under each policy (`lifetime.py`); `make soak` runs many long ones."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from tests.overlay.lifetime import Lifetime
from tests.overlay.ranges import RANGES

POLICIES = {
    "flood": ("flood", {}),
    "covering": ("covering", {}),
    "covering, withdrawing": ("covering", {"withdraw": True, "k": 2}),
    "strict poset": ("covering", {"graph": "poset", "index": "linear"}),
    "complete graph": ("covering", {"graph": "complete", "index": "linear", "withdraw": True}),
    "burst-free": ("covering", {"burst": 1}),
    "burst-free, withdrawing": ("covering", {"burst": 2, "withdraw": True, "k": 3, "index": "kd_tree"}),
    "covering with advertisements": ("covering", {"withdraw": True}, {"advertisements": True}),
    "flood with advertisements": ("flood", {}, {"advertisements": True}),
    **RANGES,
}
SHORT = ((6, 30),)
LONG = ((100, 1_000),)
"""Examples and steps of each. The long ones take one to eight minutes per policy, about an hour for all."""
CHOICES = 1 << 20


@pytest.fixture(autouse=True)
def _long_lives(monkeypatch):
    """Let hypothesis choose as often as long lives need: by itself it ends them after a few hundred steps."""
    for module in ("hypothesis.stateful", "hypothesis.internal.conjecture.engine"):
        monkeypatch.setattr(f"{module}.BUFFER_SIZE", CHOICES)


@pytest.mark.parametrize("policy", POLICIES)
def test_deliveries_equal_one_central_scan(policy):
    name, options, *settings_ = POLICIES[policy]
    fields = {"policy": name, "options": options, "settings": settings_[0] if settings_ else {}}
    machine = type(f"Lifetime of {policy}", (Lifetime,), fields)
    is_soak = settings().max_examples > 100
    for examples, steps in LONG if is_soak else SHORT:
        run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=steps))


def test_lives_have_as_many_steps_as_they_are_given():
    steps = []

    class Counted(Lifetime):
        def check_invariants(self, *arguments, **named):
            steps[-1] += 1
            return super().check_invariants(*arguments, **named)

        def teardown(self):
            super().teardown()
            steps.append(0)

    steps.append(0)
    run_state_machine_as_test(Counted, settings=settings(max_examples=3, stateful_step_count=1_000))
    assert max(steps) >= 1_000
