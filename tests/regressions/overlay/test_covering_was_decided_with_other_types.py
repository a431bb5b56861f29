"""Covering and offers compared declared dates and timestamps as strings, or in UTC: what was wider was never told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.overlay.network import Network
from tests.overlay.ranges import RANGES
from tests.overlay.test_broker import wants

from earmark.overlay.messages import Advertise
from earmark.overlay.space import Axis, Space

TYPES = {"t": "timestamp", "d": "date", "x": "number", "y": "number"}
ZONE = "America/New_York"
TIMES = Space((Axis("t", "timestamp", ("2024-01-01 06:00:00", "2024-01-01 12:15:00")),), 2)
POLICIES: dict[str, tuple[str, Mapping[str, Any]]] = {
    "flood": ("flood", {}),
    "covering": ("covering", {}),
    "poset": ("covering", {"graph": "poset", "withdraw": True, "index": "linear"}),
    "complete": ("covering", {"graph": "complete", "index": "kd_tree"}),
    "projection over time": ("subsumption", {"space": TIMES}),
    "merging over time": ("merging", {"space": TIMES, "gap": 1}),
    **RANGES,
}
NOON = "t > '2024-01-01 12:00:00'"
CASES = [
    ("UTC", NOON, "t > '2024-01-01 12:30:00+02:00'", {"t": "2024-01-01T11:00:00+00:00"}),
    ("UTC", NOON, "t > TIMESTAMP '2024-01-01 12:30:00+02:00'", {"t": "2024-01-01T11:00:00+00:00"}),
    ("UTC", "d >= '2024-01-20'", "d >= '2024-1-5'", {"d": "2024-01-10"}),
    (ZONE, f"t > TIMESTAMP {NOON[4:]}", "t > TIMESTAMP '2024-01-01 12:30:00Z'", {"t": "2024-01-01T14:00:00+00:00"}),
    # no string is in between
    ("UTC", "x = 1", f"{NOON} AND t < '2024-01-01 11:30:00-02:00'", {"t": "2024-01-01T13:00:00+00:00"}),
]


def network(policy: str, zone: str, attributes: Mapping[str, str], **settings: Any) -> Network:
    name, options = POLICIES[policy]
    space = options.get("space")
    if space is not None:
        options = {**options, "space": Space(space.axes, space.bits, zone)}
    made = Network([("a", "b"), ("b", "c")], name, options, attributes=attributes, zone=zone, **settings)
    made.run()
    return made


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("zone", "first", "second", "event"), CASES)
def test_what_is_wider_as_times_is_told(policy, zone, first, second, event):
    made = network(policy, zone, TYPES)
    for id, condition in enumerate([first, second]):
        made.subscribe("ann@a", id, condition)
        made.run()
    made.publish("bob@c", event)
    made.run()
    assert [ids for _, ids in made.inbox("ann@a")] == [(1,)]


@pytest.mark.parametrize("policy", ["flood", "covering"])
def test_what_meets_an_offer_as_times_is_told(policy):
    made = network(policy, "UTC", TYPES, advertisements=True)
    made.request("bob@c", Advertise, 1, "t < '2024-01-01 11:30:00'")
    made.run()
    made.subscribe("ann@a", 1, "t > '2024-01-01 12:30:00+02:00'")
    made.run()
    made.publish("bob@c", {"t": "2024-01-01T11:00:00+00:00"})
    made.run()
    assert [ids for _, ids in made.inbox("ann@a")] == [(1,)]


@pytest.mark.parametrize("policy", POLICIES)
def test_types_that_only_some_brokers_have_learned_cover_nothing(policy):
    """Broker a has heard of a date from b, but its clients compare strings."""
    made = network(policy, "UTC", {})
    made.subscribe("bob@b", 1, "d > DATE '2025-01-01'")
    made.run()
    for id, condition in enumerate(["d >= '2024-1-5'", "d >= '2024-01-10'"]):
        made.subscribe("ann@a", id, condition)
        made.run()
    made.publish("eve@b", {"d": "2024-01-11"})
    made.run()
    assert [ids for _, ids in made.inbox("ann@a")] == [(1,)]


def test_an_entry_of_learned_times_leaves_no_type_behind():
    made = network("covering", "UTC", {})
    for id, condition in enumerate(["d > DATE '2025-01-01' AND x > 0", "d > DATE '2025-02-01' AND x > 0"]):
        made.subscribe("bob@b", id, condition)
    made.subscribe("bob@b", 2, "e >= '2024-1-5'")
    made.subscribe("bob@b", 3, "e >= '2024-1-6'")
    made.run()
    assert wants(made, "c", "b") == [
        "d > DATE '2025-01-01' AND x > 0",
        "d > DATE '2025-02-01' AND x > 0",
        "e >= '2024-1-5'",
    ]
    made.unsubscribe("bob@b", 0)
    made.unsubscribe("bob@b", 2)
    made.run()
    assert wants(made, "c", "b") == ["d > DATE '2025-02-01' AND x > 0", "e >= '2024-1-6'"]
