"""The generator gives what was asked: sizes, clusters, odds, weights, and above all the matching probability."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.unit.made import GREATEST, LEAST

from earmark.errors import EarmarkError
from earmark.segment.arrays import SegmentArrays, check_arrays
from earmark.workload.begen import Setting, generate, matching_probability
from earmark.workload.standard import UNUSED, Workload

SMALL = Setting(subscriptions=5_000, events=100)


@cache
def made(**changes: Any) -> Workload:
    return generate(replace(SMALL, **changes))


def plain_matches(workload: Workload) -> int:
    """By table and events, one pair after the other."""
    table, events = workload.table(), workload.events()
    found = 0
    for e in range(len(events.start) - 1):
        here = slice(events.start[e], events.start[e + 1])
        value = dict(zip(events.attr[here].tolist(), events.lo[here].tolist(), strict=True))
        for clause in range(len(table.constraint_start) - 1):
            own = range(table.constraint_start[clause], table.constraint_start[clause + 1])
            found += all(
                int(table.attr[c]) in value and table.lo[c] <= value[int(table.attr[c])] <= table.hi[c] for c in own
            )
    return found


@pytest.mark.parametrize("exponent", [0.0, 1.0])
@pytest.mark.parametrize("asked", [0.0001, 0.001, 0.01, 0.03, 0.09, 0.5, 1.0])
def test_the_matching_probability_is_what_was_asked(asked: float, exponent: float) -> None:
    found = matching_probability(made(match_probability=asked, exponent=exponent))
    assert 0.8 * asked <= found <= 1.2 * asked


@pytest.mark.parametrize(
    "changes",
    [
        {"clusters": None},
        {"clusters": 26},
        {"clusters": 2, "exponent": 1.0},
        {"cluster_size": 25},
        {"cluster_size": 800},
        {"cardinality": 2_500},
        {"dimensions": 50},
        {"dimensions": 1_400},
        {"subscription_size": 5, "event_size": 13},
        {"subscription_size": 66, "event_size": 81, "subscriptions": 1_000},
        {"subscription_size": 15, "event_size": 15},
        {"range_size": 1},
        {"seed": 5},
        {"events": 7},
        {"subscriptions": 40, "match_probability": 0.05},
    ],
    ids=str,
)
def test_the_columns_of_table_three(changes: dict[str, Any]) -> None:
    setting = replace(SMALL, **changes)
    workload = generate(setting)
    asked = setting.match_probability
    assert 0.8 * asked <= matching_probability(workload) <= 1.2 * asked
    assert workload.sub_attr.max() < setting.dimensions
    sizes = (workload.sub_attr != UNUSED).sum(axis=1)
    assert sizes.mean() == pytest.approx(setting.subscription_size, rel=0.05)
    assert (workload.event_attr != UNUSED).sum(axis=1).mean() == pytest.approx(setting.event_size, rel=0.05)
    used = workload.sub_attr != UNUSED
    width = (workload.sub_hi - workload.sub_lo)[used] + 1
    assert 1 <= width.min() <= width.max() <= setting.range_size
    assert workload.sub_lo[used].min() >= 0
    assert workload.sub_hi[used].max() < setting.cardinality


def test_chance_matches_are_made_up_for() -> None:
    """Two thirds of what is asked happen by chance."""
    changes = {
        "dimensions": 30,
        "exponent": 1.0,
        "clusters": 1,
        "cluster_size": 5,
        "cardinality": 100,
        "subscription_size": 3,
        "subscriptions": 20_000,
        "events": 300,
    }
    assert 0.08 <= matching_probability(made(match_probability=0.1, **changes)) <= 0.12
    with pytest.raises(EarmarkError, match=r"match by chance alone, more than the 1\.000% asked for"):
        made(match_probability=0.01, **changes)


def test_nothing_matches_when_nothing_should() -> None:
    assert matching_probability(made(match_probability=0.0)) == 0.0


def test_the_measure_is_right() -> None:
    workload = made(subscriptions=300, events=40, match_probability=0.05)
    assert matching_probability(workload) * 300 * 40 == pytest.approx(plain_matches(workload))
    assert plain_matches(workload) == 600


def test_rows_and_tables() -> None:
    workload = made()
    for attr in (workload.sub_attr, workload.event_attr):
        step = np.diff(attr, axis=1)
        assert ((step > 0) | (attr[:, 1:] == UNUSED)).all()
    unused = workload.sub_attr == UNUSED
    assert (workload.sub_lo[unused] == LEAST).all()
    assert (workload.sub_hi[unused] == GREATEST).all()
    assert (workload.sub_weight[unused] == 0).all()
    assert (workload.event_value[workload.event_attr == UNUSED] == LEAST).all()
    table, events = workload.table(), workload.events()
    assert isinstance(table, SegmentArrays)
    check_arrays(table, 400)
    assert len(table.sequence) == 5_000
    assert len(table.attr) == (~unused).sum() == len(table.weight)
    assert events.start[-1] == len(events.attr) == len(events.lo)
    head = workload.head(70)
    assert len(head.table().sequence) == 70
    assert np.array_equal(head.table().lo, table.lo[: len(head.table().lo)])


def test_the_first_subscriptions_match_as_often() -> None:
    workload = made(subscriptions=20_000, match_probability=0.05)
    assert matching_probability(workload.head(4_000)) == pytest.approx(0.05, rel=0.2)


def test_values_lie_in_clusters() -> None:
    workload = made(clusters=2, cluster_size=10, dimensions=20, cardinality=10**9, range_size=4, match_probability=0.0)
    for attribute in range(20):
        lo = np.sort(workload.sub_lo[workload.sub_attr == attribute])
        gaps = np.flatnonzero(np.diff(lo) > 1_000)
        assert len(gaps) <= 1
        for part in np.split(lo, gaps + 1):
            assert part[-1] - part[0] <= 2 * 10 + 3
    spread = made(clusters=None, dimensions=20, cardinality=10**9, match_probability=0.0)
    assert np.histogram(spread.sub_lo[spread.sub_attr == 3], 4, (0, 10**9))[0].min() > 300


def test_attributes_by_their_odds() -> None:
    """The first attribute drawn, where exactly one is, follows the odds themselves."""
    one = {"subscription_size": 1, "event_size": 1, "dimensions": 10, "match_probability": 0.0, "subscriptions": 40_000}
    for exponent in (0.0, 1.0, 2.0):
        share = np.bincount(made(exponent=exponent, **one).sub_attr.ravel(), minlength=10) / 40_000
        odds = np.arange(1, 11) ** -exponent
        assert share == pytest.approx(odds / odds.sum(), abs=0.01)


def test_weights_by_inverse_frequency() -> None:
    workload = made(exponent=1.0)
    used = workload.sub_attr != UNUSED
    attr, weight = workload.sub_attr[used], workload.sub_weight[used]
    count = np.bincount(attr, minlength=400)
    inv = count[count > 0].min() / count[attr]
    assert (weight > 0).all()
    assert (weight <= inv).all()
    assert (weight / inv).mean() == pytest.approx(0.8, abs=0.002)
    assert (weight / inv).std() == pytest.approx(0.05, abs=0.002)
    printed = made(exponent=1.0, weights="printed").sub_weight[used]
    assert (printed >= inv).all()
    assert (printed == inv).mean() > 0.999
    assert len(made(weights="none").table().weight) == 0


def test_seeded() -> None:
    again, other = generate(SMALL), made(seed=1)
    for a, b in zip(made(), again, strict=True):
        assert np.array_equal(a, b)
    assert not np.array_equal(made().sub_lo, other.sub_lo)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"subscriptions": 0}, "subscriptions must be at least 1"),
        ({"dimensions": 10}, "expected at least 18 dimensions, got 10"),
        ({"subscription_size": 16}, "subscription_size must be at most event_size"),
        ({"match_probability": 1.5}, "from 0 to 1, got 1.5"),
        ({"match_probability": float("nan")}, "from 0 to 1, got nan"),
        ({"exponent": -1.0}, "exponent must be from 0"),
        ({"clusters": 0}, "clusters must be at least 1"),
        ({"cluster_size": -1}, "must not be negative"),
        ({"cardinality": 5}, "cardinality must be above range_size"),
        ({"weights": "heavy"}, "one of clipped, printed, none"),
    ],
    ids=str,
)
def test_bad_parameters_get_a_sentence(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(EarmarkError, match=told):
        replace(SMALL, **changes)
