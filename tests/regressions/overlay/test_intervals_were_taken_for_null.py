"""A pair of values was documented as an interval, but brokers further away took it for NULL and delivered nothing."""

from __future__ import annotations

from typing import Any

import pytest
from tests.overlay.network import Network

from earmark import Interval
from earmark.overlay import messages as m
from earmark.overlay.space import Space

SPACE = {"space": Space.even({"x": (0, 100), "y": (0, 100)}, bits=5)}


@pytest.mark.parametrize(("policy", "options"), [("flood", {}), ("covering", {}), ("subsumption", SPACE)])
@pytest.mark.parametrize("pair", [(1, 5), (None, 4), (4, None), (None, None)])
def test_a_pair_is_an_interval_in_every_broker(policy: str, options: dict[str, Any], pair: tuple[Any, Any]) -> None:
    network = Network([("a", "b"), ("b", "c")], policy=policy, options=options)
    network.run()
    network.subscribe("ann@a", "some", "x > 3 AND y = 7")
    network.subscribe("ann@a", "none", "x > 3 AND y = 8")
    network.run()
    publish = m.decoded(m.encoded(m.Publish(1, {"x": pair, "y": (7, 7)})), "bob")  # type: ignore[dict-item]
    assert isinstance(publish, m.Publish) and isinstance(publish.event["x"], Interval)
    network.publish("bob@c", publish.event)
    network.run()
    assert network.inbox("ann@a") == [({"x": pair, "y": (7, 7)}, ("some",))]


@pytest.mark.parametrize("value", [(1,), (1, 2, 3), ([1], 2), ({"lo": 1}, 2)])
def test_nothing_else_is_an_interval(value: Any) -> None:
    with pytest.raises(m.ProtocolError, match=r"^bob: malformed message: "):
        m.decoded(m.encoded(m.Publish(1, {"x": value})), "bob")


def test_an_interval_that_is_empty_is_refused() -> None:
    network = Network([], names=["a"])
    network.subscribe("ann@a", "some", "x > 3")
    network.publish("ann@a", {"x": Interval(5, 1)})
    assert network.heard["ann@a"][-1] == m.Refused(2, "the interval of 'x' is empty: 5 is above 1")
