"""One client's conditions with long normal forms kept a broker busy for seconds, and minutes in one batch."""

from __future__ import annotations

import pytest

from earmark.overlay import driver as drivers
from earmark.overlay import messages as m
from earmark.overlay.broker import Broker, Party
from earmark.overlay.conditions import MOST_WORK, is_plain, work_of
from earmark.overlay.driver import Driver
from earmark.overlay.messages import ProtocolError

ANN, BOB, NORTH = Party("client", "ann"), Party("client", "bob"), Party("broker", "north")


def long(factors: int, value: int = 0) -> str:
    return " AND ".join(f"(a{i} = 1 OR b{i} = {value})" for i in range(factors))


def test_a_client_is_refused_with_a_sentence() -> None:
    broker = Broker("hub")
    broker.attach("ann")
    assert work_of(long(10)) > MOST_WORK >= work_of(long(8))
    sent = broker.receive_many([(m.Subscribe(1, "a", long(10)), ANN), (m.Advertise(2, "b", long(10)), ANN)])
    refusals = [message for _, message in sent if isinstance(message, m.Refused)]
    assert len(refusals) == 2 and all("at most 2,048 constraints" in refusal.reason for refusal in refusals)
    assert [*broker.subscriptions()] == []


def test_a_neighbour_is_refused() -> None:
    broker = Broker("hub")
    broker.connect("north")
    hello = [m.Hello("north", 1, "covering", 0), m.Resynchronise(1, 0), m.Synchronised(2)]
    broker.receive_many([(message, NORTH) for message in hello])
    with pytest.raises(ProtocolError, match=r"north.*at most 2,048 constraints"):
        broker.receive(m.Want(3, 1, long(10)), NORTH)


def test_what_is_plain_is_cheap() -> None:
    assert is_plain("a BETWEEN 1 AND 2 AND b IN (1, 2)")
    assert not is_plain("a = 1 oR b = 2") and not is_plain("NOT (a = 1 AND b = 2)")


def test_others_get_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    handled: list[int] = []
    driver = Driver(Broker("hub"))
    receive = driver.broker.receive_many
    monkeypatch.setattr(driver.broker, "receive_many", lambda batch: (handled.append(len(batch)), receive(batch))[1])
    monkeypatch.setattr(drivers, "MOST_WORK", 100)
    ann = driver.remote(ANN, b"1")
    messages = tuple(m.Subscribe(number, number, long(5, number)) for number in range(1, 9))  # 160 constraints each
    ann.inbox.append((messages, 800))
    ann.inbox_size = 800
    driver._filled[ann] = None
    while driver.work():
        pass
    assert handled == [1] * 8 and ann.inbox_size == 0
    assert len([*driver.broker.subscriptions()]) == 8
