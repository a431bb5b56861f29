"""A cycle in the overlay is not what brokers are made for; they say so."""

from __future__ import annotations

import logging

import pytest
from tests.overlay.network import Network

from earmark.overlay import messages as m
from earmark.overlay.broker import Broker, Party
from earmark.overlay.driver import Driver
from earmark.overlay.messages import ProtocolError

RING = [("a", "b"), ("b", "c"), ("c", "a")]
TREE = RING[:2]


def test_brokers_that_wait_for_each_other_are_late() -> None:
    network = Network(RING, "covering", {}, 1)
    network.run()
    network.subscribe("ann@a", 1, "x > 3")
    network.run()
    for broker in network.brokers.values():
        broker.tick(0.0)
        assert broker.late() == []
        broker.tick(31.0)
        assert len(broker.late()) == 2
        assert all(link["late"] for link in broker.status()["links"].values())  # type: ignore[attr-defined]
    assert network.in_force("ann@a") == 0


def test_in_a_tree_nobody_is_late() -> None:
    network = Network(TREE, "covering", {}, 1)
    network.run()
    for now in (0.0, 31.0, 62.0):
        for broker in network.brokers.values():
            broker.tick(now)
            assert broker.late() == []


def test_the_log_asks_for_a_cycle_once(caplog: pytest.LogCaptureFixture) -> None:
    broker, north = Broker("hub"), Party("broker", "north")
    driver = Driver(broker)
    driver.remote(north, b"1")
    broker.connect("north")
    broker.receive_many([(m.Hello("north", 1, "covering", 0), north), (m.Resynchronise(1, 0), north)])
    with caplog.at_level(logging.WARNING):
        for now in (0.0, 31.0, 32.0):
            driver.tick(now)
    said = [record.getMessage() for record in caplog.records if "cycle" in record.getMessage()]
    assert said == ["broker 'north': has not told everything yet; does the overlay have a cycle?"]


def test_a_publication_that_comes_back_names_the_cycle() -> None:
    broker, north = Broker("hub"), Party("broker", "north")
    broker.connect("north")
    hello = [m.Hello("north", 1, "covering", 0), m.Resynchronise(1, 0), m.Synchronised(2)]
    broker.receive_many([(message, north) for message in hello])
    with pytest.raises(ProtocolError, match="of this broker back: the overlay has a cycle"):
        broker.receive(m.Publication("hub", 1, 1, {}), north)
