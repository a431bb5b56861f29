"""A neighbour that was connected and read nothing stopped everybody, and made its broker's memory grow."""

from __future__ import annotations

import pytest
from tests.overlay.far_end import FarEnd
from tests.overlay.ranges import SPACE

from earmark.overlay import messages as m
from earmark.overlay import remote
from earmark.overlay.broker import Broker, Party
from earmark.overlay.driver import Driver
from earmark.overlay.messages import ProtocolError

NORTH, ANN = Party("broker", "north"), Party("client", "ann")


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    monkeypatch.setattr(remote, "MOST_QUEUED", 100)
    driver = Driver(Broker("hub", patience=30.0), patience=30.0)
    driver.tick(0.0)
    return driver


def filled(driver: Driver) -> tuple[FarEnd, FarEnd]:
    """A neighbour whose queue is full, and a client."""
    north, ann = FarEnd(driver, NORTH), FarEnd(driver, ANN)
    north.say(m.Hello("north", 1, "covering", 0), m.Resynchronise(1, 0), m.Want(2, 1, "TRUE"), m.Synchronised(3))
    north.is_reading = False
    ann.say(*(m.Publish(n, {"n": n}) for n in range(1, 91)))
    north.exchange()
    assert north.remote.fullness > 0.5
    return north, ann


def test_it_loses_its_connection_and_others_go_on(driver: Driver) -> None:
    north, ann = filled(driver)
    ann.say(m.Publish(91, {"n": 91}))
    assert driver.broker.status()["publications"]["published"] == 90, "it waits"  # type: ignore[index]
    driver.tick(1.0)
    driver.tick(60.5)
    assert north.wire.refusals == [] and north.remote.link.is_open
    driver.tick(61.5)
    assert north.wire.refusals == ["broker 'north': acknowledged nothing for 60 seconds"]
    north.leave()
    ann.exchange()
    assert driver.broker.status()["publications"]["published"] == 91  # type: ignore[index]
    assert len(driver.broker.held("north")) == 91 and north.remote.link.queued == 0


def test_one_that_goes_on_slowly_keeps_it(driver: Driver) -> None:
    north, _ = filled(driver)
    for now in range(1, 200, 20):
        driver.tick(float(now))
        north.link.consume(1)
        north.exchange()
    assert north.wire.refusals == []


def test_one_that_has_everything_told_again_and_again_is_refused() -> None:
    broker = Broker("hub", policy="subsumption", options={"space": SPACE})
    broker.receive(m.Subscribe(1, 1, "x > 3"), ANN)
    broker.connect("north")
    ours, number = broker.space, 3
    told = [m.Hello("north", 1, "subsumption", ours), m.Resynchronise(1, ours), m.Synchronised(2)]
    broker.receive_many([(message, NORTH) for message in told])

    def flips(count: int) -> int:
        nonlocal number
        told = 0
        for flip in range(count):
            sent = broker.receive(m.Resynchronise(number, ours if flip % 2 else 7), NORTH)
            told += sum(isinstance(message, m.WantRanges) for _, message in sent)
            number += 1
        return told

    assert flips(16) == 8
    broker.receive(m.InForce(broker._router.links["north"].sent), NORTH)
    assert flips(16) == 8
    with pytest.raises(ProtocolError, match="broker 'north': was told everything 9 times without acknowledging it"):
        flips(3)
