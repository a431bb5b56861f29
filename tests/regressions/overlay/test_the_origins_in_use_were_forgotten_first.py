"""Of very many origins the one that was seen first was forgotten, however often it published: duplicates came twice."""

from __future__ import annotations

import pytest

from earmark.overlay import client as clients
from earmark.overlay import messages as m
from earmark.overlay import publications
from earmark.overlay.broker import Broker, Party

NORTH = Party("broker", "north")
ORDER = [("x", 1), ("y", 1), ("x", 2), ("z", 1), ("x", 2)]


def test_a_broker_knows_those_that_publish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publications, "MOST_ORIGINS", 2)
    broker = Broker("hub")
    broker.connect("north")
    for message in (m.Hello("north", 1, "covering", 0), m.Resynchronise(1, 0), m.Synchronised(2)):
        broker.receive(message, NORTH)
    for origin, number in ORDER:
        broker.receive(m.Publication(origin, 1, number, {}), NORTH)
    counts = broker.status()["publications"]
    assert (counts["received"], counts["duplicates"]) == (4, 1)  # type: ignore[index]


def test_a_client_knows_those_that_publish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MOST_ORIGINS", 2)
    client = clients.AsyncClient("127.0.0.1:7000", name="ann", token=b"a token that nobody else knows")
    assert [client._is_new(m.Notify(origin, 1, number, {}, (1,), (0.0,))) for origin, number in ORDER] == [True] * 4 + [
        False
    ]
