"""Workloads that shift: the same subscriptions, other events."""

from __future__ import annotations

import numpy as np
import pytest

from earmark.workload.shifting import HOT, NEAR, SHIFTS, hot_values


@pytest.mark.parametrize("name", list(SHIFTS))
def test_phases_share_subscriptions_and_differ_in_events(name: str) -> None:
    first, second = SHIFTS[name](300, 40, 7)
    for one in (first, second):
        assert len(one.event_attr) == len(one.event_value) == 40
        assert len(one.sub_attr) == 300
        assert (one.sub_lo <= one.sub_hi).all()
    assert all(np.array_equal(a, b) for a, b in zip(first[:3], second[:3], strict=True))
    assert not np.array_equal(first.event_value, second.event_value)
    again = SHIFTS[name](300, 40, 7)
    assert all(np.array_equal(a, b) for a, b in zip(second, again[1], strict=True))
    assert not np.array_equal(SHIFTS[name](300, 40, 8)[0].sub_attr, first.sub_attr)


def test_each_half_of_the_attributes_is_hot_once() -> None:
    hot = []
    for phase in hot_values(10, 400, 1):
        distance = np.abs(phase.event_value - np.median(phase.event_value, axis=0))
        hot.append((distance <= 2 * NEAR).mean(axis=0) > 0.5)
    assert hot[0].sum() == HOT.attributes // 2
    assert (hot[0] ^ hot[1]).all()
