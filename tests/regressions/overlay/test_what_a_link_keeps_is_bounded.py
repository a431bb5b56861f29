"""What is kept for a link grew without end.

What a neighbour tells was counted again with each Resynchronise; requests piled up while a neighbour was away, or took
everything and acknowledged nothing; a neighbour could ask for any number of ranges.
"""

from __future__ import annotations

from itertools import count

import pytest
from tests.overlay.ranges import IN_RANGES, RANGES, SPACE

from earmark.overlay import broker as brokers
from earmark.overlay import messages as m
from earmark.overlay import routing
from earmark.overlay.broker import Broker, Party
from earmark.overlay.messages import ProtocolError
from earmark.overlay.policies import ranges

ANN, ODD, NORTH = Party("client", "ann"), Party("broker", "odd"), Party("broker", "north")


def joined(broker: Broker, party: Party) -> None:
    broker.connect(party.name)
    name, space = broker._router.policy_name, broker.space
    told = [m.Hello(party.name, 1, name, space), m.Resynchronise(1, space), m.Synchronised(2)]
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


def test_requests_do_not_pile_up_where_a_neighbour_acknowledges_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(routing, "MOST_ASKED", 64)
    broker = Broker("hub")
    broker.attach("ann")
    for party in (ODD, NORTH):
        joined(broker, party)
    client = broker._clients.of("ann")
    for number in range(1, 1_001):
        broker.receive(m.Subscribe(number, number, f"x = {number}"), ANN)
        acknowledge(broker, NORTH)
        assert len(client.asked) <= 192
    told = sorted(broker._router.links["odd"].sent - missing for missing in range(1_000))
    answers: list[int] = []
    for known, sent in enumerate(told, 1):
        answers += [message.number for _, message in broker.receive(m.InForce(sent), ODD)]
        assert not answers or answers[-1] <= known
    assert answers[0] == 1 and answers[-1] == 1_000 and len(answers) > 32 and answers == sorted(answers)


@pytest.mark.parametrize("policy", IN_RANGES)
def test_ranges_of_a_neighbour_are_bounded(policy: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ranges, "MOST_ASKED", 10)
    name, options = RANGES[policy]
    broker, numbers = Broker("hub", policy=name, options=options), count(3)
    joined(broker, ODD)
    joined(broker, NORTH)
    apart = [((4 * place, 4 * place),) for place in range(20)]
    wanted: list[tuple[m.Message, Party]] = [(m.WantRanges(next(numbers), SPACE.number, one), ODD) for one in apart]
    with pytest.raises(ProtocolError, match="broker 'odd': expected at most 10 ranges") as refused:
        broker.receive_many(wanted)
    assert refused.value.handled == 10
    for turn in range(5):  # it may still start again, with as many others
        broker.receive(m.Resynchronise(next(numbers), SPACE.number), ODD)
        for (first, last), *_ in apart[:10]:
            broker.receive(m.WantRanges(next(numbers), SPACE.number, ((first + turn, last + turn),)), ODD)
        broker.receive(m.Synchronised(next(numbers)), ODD)
    broker.receive(m.UnwantRanges(next(numbers), SPACE.number, ((0, 255),)), ODD)
    broker.receive(m.WantRanges(next(numbers), SPACE.number, ((0, 100),)), ODD)
    holes = [(m.UnwantRanges(next(numbers), SPACE.number, ((3 * n, 3 * n),)), ODD) for n in range(1, 30)]
    with pytest.raises(ProtocolError, match="expected at most 10 ranges"):
        broker.receive_many(holes)
