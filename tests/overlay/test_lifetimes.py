"""Random lives of small networks under each policy (`lifetime.py`); `make soak` runs thousands of them."""

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
LONG = ((5_000, 200), (20, 2_000))
"""Examples and steps of each: many lives, and a few long ones."""


@pytest.mark.parametrize("policy", POLICIES)
def test_deliveries_equal_one_central_scan(policy):
    name, options, *settings_ = POLICIES[policy]
    fields = {"policy": name, "options": options, "settings": settings_[0] if settings_ else {}}
    machine = type(f"Lifetime of {policy}", (Lifetime,), fields)
    is_soak = settings().max_examples > 100
    for examples, steps in LONG if is_soak else SHORT:
        run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=steps))
