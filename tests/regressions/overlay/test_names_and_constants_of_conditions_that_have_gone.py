"""A broker kept the attributes and string constants of conditions that had been withdrawn, for as long as it ran."""

from __future__ import annotations

from itertools import count

import pytest
from tests.overlay.ranges import RANGES

from earmark.cover import cover_index
from earmark.overlay import messages as m
from earmark.overlay import table
from earmark.overlay.broker import Broker, Party
from earmark.overlay.policies.rows import Bound

POLICIES = {"flood": ("flood", {}), "covering": ("covering", {}), "indexing": RANGES["indexing"]}
ODD, NORTH, ANN = Party("broker", "odd"), Party("broker", "north"), Party("client", "ann")


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (table, cover_index):
        monkeypatch.setattr(module, "MOST_UNUSED", 100)


def joined(policy: str) -> Broker:
    name, options = POLICIES[policy]
    broker = Broker("hub", policy=name, options=options, advertisements=policy == "covering")
    for party in (ODD, NORTH):
        broker.connect(party.name)
        hello = m.Hello(party.name, 1, broker._router.policy_name, 0)
        broker.receive_many([(one, party) for one in (hello, m.Resynchronise(1, 0), m.Synchronised(2))])
    broker.attach("ann")
    return broker


def sizes(broker: Broker) -> list[int]:
    """How many attributes and constants each table of a broker knows."""
    schemas = [one._version.schema for one in (broker._router.table, broker._clients._table, broker._clients._offers)]
    policy = broker._router.policy
    bound = [one for one in (broker._router.offers, *vars(policy).values()) if isinstance(one, Bound)]
    schemas += [one.index.schema for one in bound]
    return [len(schema) + sum(map(len, schema.strings.values())) for schema in schemas]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("condition", ["a{} = 1 AND b > 0", "s = 'a{}'"])
def test_of_neighbours(policy: str, condition: str) -> None:
    broker, numbers = joined(policy), count(3)
    for kept in range(10):
        broker.receive(m.Want(next(numbers), kept, condition.format(kept)), ODD)
    for turn in range(60):
        labels = range(100 * turn + 10, 100 * turn + 30)
        wanted = [m.Want(next(numbers), label, condition.format(label)) for label in labels]
        broker.receive_many([(one, ODD) for one in wanted])
        broker.receive(m.Publication("far", 1, turn + 1, {"a3": 1, "b": 1, "s": "a3"}), NORTH)
        broker.receive_many([(m.Unwant(next(numbers), label), ODD) for label in labels])
    broker.receive(m.Publication("far", 1, 61, {}), NORTH)
    assert max(sizes(broker)) < 400
    sent = broker.receive(m.Publication("far", 1, 62, {"a3": 1, "b": 1, "s": "a3"}), NORTH)
    assert [party for party, _ in sent] == [ODD]
    assert not broker.receive(m.Publication("far", 1, 63, {"a12": 1, "b": 1, "s": "a12"}), NORTH)


@pytest.mark.parametrize("policy", POLICIES)
def test_of_clients(policy: str) -> None:
    broker, numbers = joined(policy), count(1)
    broker.receive(m.Subscribe(next(numbers), "kept", "b > 0 AND s = 'x'", {"b": 2.0}, 5.0), ANN)
    if policy == "covering":
        broker.receive(m.Advertise(next(numbers), "kept", "b > 0"), ANN)
    for turn in range(400):
        for kind, back in ((m.Subscribe, m.Unsubscribe), (m.Advertise, m.Unadvertise)):
            broker.receive(kind(next(numbers), turn, f"a{turn} = 1 AND s = 'b{turn}'"), ANN)  # type: ignore[call-arg]
            broker.receive(back(next(numbers), turn), ANN)
        broker.receive(m.Publication("far", 1, turn + 1, {}), NORTH)
    assert max(sizes(broker)) < 700
    sent = broker.receive(m.Publication("far", 1, 1_000, {"b": 1, "s": "x"}), NORTH)
    assert [(party, message.ids, message.scores) for party, message in sent] == [(ANN, ("kept",), (8.0,))]
    refused = broker.receive(m.Subscribe(next(numbers), "wrong", "b = 'text'"), ANN)
    reasons = [message.reason for _, message in refused if isinstance(message, m.Refused)]
    assert len(reasons) == 1 and "another subscription" in reasons[0] and "kept" not in reasons[0]
