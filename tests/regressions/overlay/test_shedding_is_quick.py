"""Shedding looked through everything that waited, for every publication."""

from __future__ import annotations

import random
import time

from earmark.overlay.delivery import Client
from earmark.overlay.messages import Notify, Prefer, Shed
from earmark.overlay.neighbour import Party


def notification(number: int, *scores: float) -> Notify:
    return Notify("a", 1, number, {}, tuple(range(len(scores))), scores)


def away(queue: int) -> Client:
    client = Client(Party("client", "ann"), is_attached=False)
    client.prefer(Prefer(1, queue=queue))
    return client


def test_the_same_ones_are_shed_as_by_looking_at_all():
    chance = random.Random(7)
    client, expected, shed, queue = away(8), [], 0, 8
    for number in range(600):
        one = notification(number, *(chance.choice([-1.0, 0.0, 0.5, 2.0]) for _ in range(chance.randrange(3))))
        client.notify(one)
        expected.append(one)
        if number % 50 == 49:
            queue = chance.randint(1, 20)
            client.prefer(Prefer(1, queue=queue))
        while len(expected) > queue:
            worst = min(range(len(expected)), key=lambda place: max(expected[place].scores, default=0.0))
            del expected[worst]
            shed += 1
        if number % 97 == 96:
            assert client.attach() == [*([Shed(shed)] if shed else []), *expected]
            client.is_attached, expected, shed = False, [], 0


def test_shedding_from_many_is_quick():
    client = away(50_000)
    start = time.perf_counter()
    for number in range(55_000):
        client.notify(notification(number, number % 1_000))
    assert time.perf_counter() - start < 10, "by looking at all, 5,000 times 30 milliseconds"
    assert len(client.waiting) == 50_000 and client.shed == 5_000
