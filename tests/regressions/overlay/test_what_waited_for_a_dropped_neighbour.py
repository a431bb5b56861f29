"""Requests that waited for a neighbour when it was dropped, behind others, waited on for the one that came back."""

from __future__ import annotations

from earmark.overlay import messages as m
from earmark.overlay.broker import Broker, Party

ANN, NORTH, SOUTH = Party("client", "ann"), Party("broker", "north"), Party("broker", "south")


def joins(broker: Broker, party: Party, run: int) -> None:
    broker.connect(party.name)
    told = [m.Hello(party.name, run, "flood", 0), m.Resynchronise(1, 0), m.Synchronised(2)]
    broker.receive_many([(message, party) for message in told])
    acknowledges(broker, party)


def acknowledges(broker: Broker, party: Party) -> list[tuple[Party, m.Message]]:
    return broker.receive(m.InForce(broker._router.links[party.name].sent), party)


def test_they_are_in_force_when_all_others_have_acknowledged() -> None:
    broker = Broker("hub", policy="flood")
    broker.attach("ann")
    for party in (NORTH, SOUTH):
        joins(broker, party, 1)
    broker.receive(m.Subscribe(1, 1, "x > 1"), ANN)
    acknowledges(broker, SOUTH)
    for number in range(2, 9):
        broker.receive(m.Subscribe(number, number, f"x > {number}"), ANN)
    for number in range(9, 16):  # so that the one that comes back is told less
        broker.receive(m.Unsubscribe(number, number - 7), ANN)
    broker.disconnect("south")
    broker.drop("south")
    joins(broker, SOUTH, 2)
    assert (ANN, m.InForce(15)) in acknowledges(broker, NORTH)
