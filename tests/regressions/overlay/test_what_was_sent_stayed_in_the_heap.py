"""Notifications that a slow client had been sent stayed in the heap of the worst, which grew without bound."""

from __future__ import annotations

from earmark.overlay.delivery import Client
from earmark.overlay.messages import Notify, Prefer
from earmark.overlay.neighbour import Party


def test_the_heap_is_not_much_longer_than_what_waits() -> None:
    client = Client(Party("client", "ann"), is_attached=False)
    client.prefer(Prefer(1, queue=1_000))
    for number in range(10_000):
        client.notify(Notify("a", 1, number, {}, (1,), (float(number % 7),)))
        if number >= 100:
            assert len(client.attach(most=1)) == 1
    assert len(client.waiting) == 100 and len(client.worst) <= 2 * 100 + 64
    client.prefer(Prefer(2, queue=10))
    assert [client.waiting[number][0].scores for number in client.waiting] == [(6.0,)] * 10
