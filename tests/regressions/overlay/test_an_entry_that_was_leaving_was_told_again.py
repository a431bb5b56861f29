"""With `burst`, an entry that was about to be withdrawn and is needed again was told twice, then withdrawn for good."""

from __future__ import annotations

from tests.overlay.network import Network
from tests.overlay.test_broker import wants

from earmark.overlay.messages import Advertise, Unadvertise

LINE = [("a", "b"), ("b", "c")]
NARROW = [f"x = {number}" for number in range(4)]


def busy(network: Network) -> None:
    """Withdraw something wide, so that what it covered is pending for a few ticks."""
    network.subscribe("ann@a", "wide", "x >= 0")
    for number, condition in enumerate(NARROW):
        network.subscribe("ann@a", number, condition)
    network.subscribe("ann@a", "kept", "y = 5")
    network.run()
    network.unsubscribe("ann@a", "wide")
    network.run()


def settle(network: Network) -> None:
    for tick in range(20):
        network.run()
        network.tick(float(tick))
    network.run()


def test_what_covered_it_is_withdrawn_again():
    network = Network(LINE, "covering", {"burst": 1, "withdraw": True})
    busy(network)
    network.subscribe("ann@a", "also wide", "y > 0")
    network.run()
    network.unsubscribe("ann@a", "also wide")
    settle(network)
    assert sorted(wants(network, "b", "a")) == sorted([*NARROW, "y = 5"])
    network.publish("bob@c", {"y": 5})
    network.run()
    assert [ids for _, ids in network.inbox("ann@a")] == [("kept",)]


def test_what_it_meets_is_offered_again():
    network = Network(LINE, "covering", {"burst": 1}, advertisements=True)
    network.request("bob@c", Advertise, "x", "x >= 0 AND y < 0")
    network.request("bob@c", Advertise, "y", "y >= 0")
    network.run()
    busy(network)
    network.request("bob@c", Unadvertise, "y")
    network.run()
    network.request("bob@c", Advertise, "y", "y >= 0")
    settle(network)
    assert sorted(wants(network, "b", "a")) == sorted([*NARROW, "y = 5"])
    network.publish("bob@c", {"y": 5})
    network.run()
    assert [ids for _, ids in network.inbox("ann@a")] == [("kept",)]
