"""What a neighbour tells was counted anew with each Resynchronise, and requests piled up while a neighbour was away."""

from __future__ import annotations

from itertools import count

import pytest

from earmark.overlay import broker as brokers
from earmark.overlay import messages as m
from earmark.overlay.broker import Broker, Party
from earmark.overlay.messages import ProtocolError

ANN, ODD, NORTH = Party("client", "ann"), Party("broker", "odd"), Party("broker", "north")


def joined(broker: Broker, party: Party) -> None:
    broker.connect(party.name)
    name = broker._router.policy_name
    told = [m.Hello(party.name, 1, name, 0), m.Resynchronise(1, 0), m.Synchronised(2)]
    broker.receive_many([(message, party) for message in told])
    acknowledge(broker, party)


def acknowledge(broker: Broker, party: Party) -> list[tuple[Party, m.Message]]:
    return broker.receive(m.InForce(broker._router.links[party.name].sent), party)


@pytest.mark.parametrize("kind", [m.Want, m.Offer])
def test_stale_entries_count(kind: type[m.Want] | type[m.Offer], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(brokers, "MOST_ENTRIES", 10)
    broker, numbers = Broker("hub", advertisements=True), count(3)
    joined(broker, ODD)
    told: list[tuple[m.Message, Party]] = []
    for turn in range(50):
        told.append((m.Resynchronise(next(numbers), 0), ODD))
        told += [(kind(next(numbers), label, f"x > {turn * 10 + label}"), ODD) for label in range(10)]
    with pytest.raises(ProtocolError, match="expected at most 10"):
        broker.receive_many(told)
    status = broker.status()["links"]["odd"]  # type: ignore[index]
    assert status["wants"] + status["offers"] <= 20


def test_a_full_link_can_synchronise_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(brokers, "MOST_ENTRIES", 10)
    broker, numbers = Broker("hub"), count(3)
    joined(broker, ODD)
    for turn in range(5):
        broker.receive(m.Resynchronise(next(numbers), 0), ODD)
        for label in range(10):
            broker.receive(m.Want(next(numbers), label, f"x > {turn * 5 + label}"), ODD)
        broker.receive(m.Synchronised(next(numbers)), ODD)
        assert broker.status()["entries"] == 10


def test_conditions_that_are_no_longer_stale_are_forgotten():
    broker, numbers = Broker("hub"), count(3)
    joined(broker, ODD)
    for turn in range(20):
        broker.receive(m.Want(next(numbers), 1, f"x > {turn}"), ODD)
        broker.receive(m.Resynchronise(next(numbers), 0), ODD)
        broker.receive(m.Want(next(numbers), 1, f"x > {turn}"), ODD)
        broker.receive(m.Unwant(next(numbers), 1), ODD)
    assert len(broker._router.links["odd"].stale.by_condition) == 0


@pytest.mark.parametrize("others", [[], [NORTH]])
def test_requests_do_not_pile_up_while_a_neighbour_is_away(others: list[Party]):
    broker = Broker("hub")
    broker.attach("ann")
    for party in (ODD, *others):
        joined(broker, party)
    broker.disconnect("odd")
    for number in range(1, 1_001):
        broker.receive(m.Subscribe(number, number, f"x = {number}"), ANN)
        for party in others:
            acknowledge(broker, party)
    client = broker._clients.get("ann")
    assert client is not None and len(client.asked) <= 128
    broker.connect("odd")
    told = [m.Hello("odd", 1, "covering", 0), m.Resynchronise(1, 0), m.Synchronised(2)]
    broker.receive_many([(message, ODD) for message in told])
    for party in others:
        acknowledge(broker, party)
    assert (ANN, m.InForce(1_000)) in acknowledge(broker, ODD)
