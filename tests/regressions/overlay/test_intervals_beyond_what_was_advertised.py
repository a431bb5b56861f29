"""An event with an interval was published if any value inside it was advertised, and was not delivered beyond it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.overlay.network import Network

from earmark import Interval
from earmark.overlay.messages import Advertise, Refused


@pytest.fixture(params=["flood", "covering"])
def network(request: pytest.FixtureRequest) -> Network:
    network = Network([("a", "b"), ("b", "c")], policy=request.param, advertisements=True)
    network.run()
    network.subscribe("ann@c", "above", "x > 6")
    network.subscribe("ann@c", "all", "x IS NOT NULL")
    network.run()
    return network


@pytest.mark.parametrize(
    ("advertised", "x"),
    [
        ("x < 5", Interval(1, 9)),
        ("x < 5", Interval(None, 9)),
        ("x < 5 OR x > 8", Interval(1, 9)),
        ("x != 7", Interval(1, 9)),
        ("x < 5 AND y IS NOT NULL", Interval(1, 2)),
    ],
)
def test_what_an_interval_takes_beyond_an_advertisement_is_refused(network: Network, advertised: str, x: Any) -> None:
    network.request("bob@a", Advertise, 1, advertised)
    network.run()
    number = network.publish("bob@a", {"x": x})
    network.run()
    reason = "expected an event that matches an advertisement of this client, with all values of its intervals"
    assert network.heard["bob@a"][-1] == Refused(number, reason)
    assert network.inbox("ann@c") == []


@pytest.mark.parametrize(
    ("advertised", "ids"),
    [("x < 10", ("above", "all")), ("TRUE", ("above", "all")), ("x IN (1, 2) OR x BETWEEN 0 AND 9", ("above", "all"))],
)
def test_an_interval_inside_an_advertisement_is_delivered(
    network: Network, advertised: str, ids: tuple[str, ...]
) -> None:
    network.request("bob@a", Advertise, 1, "x = 1")
    network.request("bob@a", Advertise, 2, advertised)
    network.run()
    network.publish("bob@a", {"x": Interval(1, 9), "y": 3})
    network.run()
    assert network.inbox("ann@c") == [({"x": (1, 9), "y": 3}, ids)]
