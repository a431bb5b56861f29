"""Held publications and waiting notifications were bounded in number only; a client that came back lost the newest."""

from __future__ import annotations

import pytest

from earmark.overlay import delivery
from earmark.overlay import messages as m
from earmark.overlay.broker import Broker, Party
from earmark.overlay.delivery import Client
from earmark.overlay.messages import Notify, Prefer, Shed

ANN, NORTH = Party("client", "ann"), Party("broker", "north")


def test_held_publications_are_bounded_in_bytes() -> None:
    broker = Broker("hub", neighbours=["north"], holding_bytes=10_000)
    for number in range(1, 101):
        broker.receive(m.Publish(number, {"x": number, "text": "y" * 1_000}), ANN)
    held = broker.held("north")
    status = broker.status()["links"]["north"]  # type: ignore[index]
    assert [publication.number for publication in held] == [*range(101 - len(held), 101)], "the newest are kept"
    assert 8 <= len(held) <= 9 and status["held_bytes"] <= 10_000 and status["lost"] == 100 - len(held)


def test_what_a_channel_did_not_deliver_counts() -> None:
    broker = Broker("hub", neighbours=["north"], holding_bytes=10_000)
    broker.connect("north")
    undelivered = [m.Publication("hub", 1, number, {"text": "y" * 1_000}) for number in range(1, 21)]
    broker.disconnect("north", undelivered)
    assert [one.number for one in broker.held("north")] == [*range(12, 21)]
    assert broker.status()["publications"]["lost"] == 11  # type: ignore[index]


def notification(number: int, text: str = "") -> Notify:
    return Notify("a", 1, number, {"text": text}, (1,), (float(number),))


def test_waiting_notifications_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "MOST_WAITING_BYTES", 10_000)
    client = Client(ANN, is_attached=False)
    for number in range(50):
        client.notify(notification(number, "y" * 1_000))
    first, *rest = client.attach()
    assert first == Shed(50 - len(rest)) and len(rest) == 9
    assert [one.number for one in rest if isinstance(one, Notify)] == [*range(41, 50)], "the best scores are kept"
    assert client.waiting_bytes == 0


def test_a_client_that_returns_is_sent_what_waited_in_parts() -> None:
    client = Client(ANN, is_attached=False)
    client.prefer(Prefer(1, queue=1_000))
    for number in range(100):
        client.notify(notification(number))
    received = client.attach(most=30)
    assert not client.is_attached
    assert client.notify(notification(100)) == [], "it waits behind the others"
    while not client.is_attached:
        received += client.attach(most=30)
    assert [one.number for one in received if isinstance(one, Notify)] == [*range(101)]
    client.is_attached = False
    for number in range(10):
        client.notify(notification(number, "y" * 1_000))
    assert len(client.attach(most_bytes=2_500)) == 2 and len(client.waiting) == 8
    client.prefer(Prefer(2, queue=3))
    assert client.shed == 5, "what was sent is not shed again"
    assert len(client.attach()) == 4
