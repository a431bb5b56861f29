"""A client that came back after another one with its name, or after it was forgotten, found a channel with the epochs
of its old one: it did not ask for its subscriptions again, and its numbers did not fit."""

from __future__ import annotations

from typing import Any

from earmark.overlay.broker import Broker, Party
from earmark.overlay.driver import Driver
from earmark.overlay.link import Link
from earmark.overlay.remote import Remote

ALICE = Party("client", "alice")


def connected(driver: Driver, session: bytes, link: Link[Any]) -> tuple[Remote, bool]:
    """Carry a client's link until nobody has anything to say; return its other end and whether a channel was lost."""
    remote = driver.remote(ALICE, session)
    is_lost = False
    link.restore()
    remote.link.restore()
    for _ in range(10):
        while (frame := link.next_frame()) is not None:
            driver.arrived(remote, remote.link.receive(frame), 1)
        while (frame := remote.link.next_frame()) is not None:
            is_lost |= link.receive(frame).is_lost
    link.cut()
    remote.link.cut()
    driver.disconnected(remote)
    return remote, is_lost


def client() -> Link[Any]:
    return Link("the broker", 1, ahead=0)


def test_a_client_that_returns_after_another_with_its_name() -> None:
    driver = Driver(Broker("a", run=5))
    first, second = client(), client()
    assert not connected(driver, b"first", first)[1]
    assert not connected(driver, b"second", second)[1]
    assert connected(driver, b"first", first)[1]
    assert not connected(driver, b"first", first)[1], "nothing happened since"
    assert connected(driver, b"second", second)[1]


def test_a_client_that_returns_after_it_was_forgotten() -> None:
    driver = Driver(Broker("a", run=5))
    link = client()
    remote, _ = connected(driver, b"first", link)
    for _ in range(3):
        remote.link.reset()
    assert connected(driver, b"first", link)[1]
    driver.forget("alice")
    assert connected(driver, b"first", link)[1]
