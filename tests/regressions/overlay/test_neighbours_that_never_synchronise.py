"""A neighbour that was refused, or that never said anything, kept everything from being in force, for ever."""

from __future__ import annotations

import pytest

from earmark.overlay import messages as m
from earmark.overlay.broker import Broker, Party
from earmark.overlay.messages import ProtocolError

ANN, NORTH, ODD = Party("client", "ann"), Party("broker", "north"), Party("broker", "odd")


def joined(broker: Broker, name: str, policy: str = "covering") -> list[tuple[Party, m.Message]]:
    """Connect a neighbour that tells everything, and acknowledges what it is told."""
    party = Party("broker", name)
    broker.connect(name)
    told = [m.Hello(name, 1, policy, 0), m.Resynchronise(1, 0), m.Synchronised(2)]
    return [*broker.receive_many([(message, party) for message in told]), *acknowledged(broker, name)]


def acknowledged(broker: Broker, name: str) -> list[tuple[Party, m.Message]]:
    return broker.receive(m.InForce(broker._router.links[name].sent), Party("broker", name))


def is_in_force(broker: Broker, number: int) -> bool:
    """Whether what ann subscribes to next is in force as soon as north knows it."""
    sent = broker.receive(m.Subscribe(number, number, f"x > {number}"), ANN)
    return (ANN, m.InForce(number)) in [*sent, *acknowledged(broker, "north")]


def hub(**settings: object) -> Broker:
    broker = Broker("hub", patience=30.0, **settings)  # type: ignore[arg-type]
    broker.attach("ann")
    broker.tick(0.0)
    return broker


def refused(broker: Broker) -> list[tuple[Party, m.Message]]:
    broker.connect("odd")
    with pytest.raises(ProtocolError, match="expected the policy"):
        broker.receive(m.Hello("odd", 1, "flood", 0), ODD)
    return broker.disconnect("odd")


def test_a_refused_neighbour_is_forgotten():
    broker = hub()
    refused(broker)
    joined(broker, "north")
    assert is_in_force(broker, 1)
    refused(broker)
    assert is_in_force(broker, 2)
    assert [*broker.status()["links"]] == ["north"]


def test_others_are_synchronised_when_a_refused_neighbour_goes():
    broker = hub()
    broker.connect("odd")
    joined(broker, "north")
    assert not is_in_force(broker, 1)
    assert (NORTH, m.Synchronised(broker._router.links["north"].sent + 1)) in broker.disconnect("odd")
    assert (ANN, m.InForce(1)) in acknowledged(broker, "north")


def test_an_expected_neighbour_that_is_refused_is_waited_for_with_patience():
    broker = hub(neighbours=["odd", "north"])
    joined(broker, "north")
    refused(broker)
    assert "odd" in broker.status()["links"], "it may come back with the right policy"
    broker.tick(29.0)
    assert not is_in_force(broker, 1)
    broker.tick(30.0)
    assert (ANN, m.InForce(1)) in acknowledged(broker, "north")
    refused(broker)
    assert is_in_force(broker, 2)


@pytest.mark.parametrize("says_hello", [False, True])
def test_a_neighbour_that_says_nothing_is_given_up(says_hello):
    broker = hub()
    broker.tick(1_000.0)
    broker.connect("odd")
    joined(broker, "north")
    if says_hello:
        broker.receive(m.Hello("odd", 1, "covering", 0), ODD)
    broker.tick(1_001.0)
    assert not is_in_force(broker, 1)
    broker.tick(1_031.0)
    assert (ANN, m.InForce(1)) in acknowledged(broker, "north")
    with pytest.raises(ProtocolError, match="out of place"):
        broker.receive(m.Hello("odd", 1, "covering", 0), ODD)
    assert broker.disconnect("odd") == []
    joined(broker, "odd")
    assert broker.status()["links"]["odd"]["state"] == "up"  # type: ignore[index]


def test_a_neighbour_that_left_is_waited_for_or_forgotten():
    waiting, forgetful = hub(), hub(forget=600.0)
    for broker in (waiting, forgetful):
        joined(broker, "north")
        joined(broker, "odd")
        broker.receive(m.Want(3, 1, "y > 5"), ODD)
        broker.disconnect("odd")
        broker.tick(100.0)
        acknowledged(broker, "north")
        assert not is_in_force(broker, 1)
        broker.tick(699.0)
        assert "odd" in broker.status()["links"]
        broker.tick(700.0)
        acknowledged(broker, "north")
    assert not is_in_force(waiting, 2)
    assert is_in_force(forgetful, 2)
    assert forgetful.status()["entries"] == 2, "ann's two; what the neighbour wanted has gone with it"
    waiting.drop("odd")
    acknowledged(waiting, "north")
    assert is_in_force(waiting, 3)
