"""An unsubscribe of a wide subscription uncovers many: they are spread over time, and no event is lost or repeated."""

from __future__ import annotations

from tests.overlay.network import Network
from tests.overlay.test_broker import wants

from earmark.overlay.messages import Unwant, Want

LINE = [("a", "b"), ("b", "c")]


def network_with_burst(burst: int | None) -> Network:
    network = Network(LINE, "covering", {} if burst is None else {"burst": burst})
    network.subscribe("wide@a", "w", "x >= 0")
    for number in range(7):
        network.subscribe("narrow@a", number, f"x = {number}")
    network.run()
    network.log.clear()
    return network


def test_without_a_bound_all_are_told_at_once():
    network = network_with_burst(None)
    network.unsubscribe("wide@a", "w")
    assert len(network.channels["a", "b"]) == 8


def test_uncovered_ones_are_told_a_few_at_a_time_and_the_cover_stays():
    network = network_with_burst(2)
    network.unsubscribe("wide@a", "w")
    for tick in range(20):
        assert len(network.channels["a", "b"]) <= 3
        network.run()
        network.publish("pub@c", {"x": tick % 7})
        network.run()
        assert len(network.inbox("narrow@a")) == tick + 1
        network.tick(float(tick))
    network.run()
    assert wants(network, "b", "a") == wants(network, "c", "b") == [f"x = {number}" for number in range(7)]
    said = [type(message) for source, _, message in network.log if source == "a" and type(message) in (Want, Unwant)]
    assert said == [Want] * 7 + [Unwant]
    assert not network.inbox("wide@a")


def test_what_is_pending_may_be_withdrawn_itself():
    network = network_with_burst(2)
    network.unsubscribe("wide@a", "w")
    for number in range(7):
        network.unsubscribe("narrow@a", number)
    for tick in range(10):
        network.run()
        network.tick(float(tick))
    network.run()
    assert wants(network, "b", "a") == wants(network, "c", "b") == []


def test_a_new_channel_tells_what_is_pending_and_nothing_that_leaves():
    network = network_with_burst(1)
    network.unsubscribe("wide@a", "w")
    network.cut("a", "b")
    network.connect("a", "b")
    network.run()
    assert wants(network, "b", "a") == [f"x = {number}" for number in range(7)]
