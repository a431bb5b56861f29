"""Each name that a broker or a client connected with was kept for ever, and 65,536 neighbours stopped the broker."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests.overlay.far_end import FarEnd
from tests.overlay.test_network import client, run, server, states, until

from earmark.overlay import driver as drivers
from earmark.overlay import messages as m
from earmark.overlay.broker import Broker, Party
from earmark.overlay.driver import Driver
from earmark.overlay.messages import ProtocolError
from earmark.overlay.store import Store

HELLO = [m.Hello("north", 1, "covering", 0), m.Resynchronise(1, 0)]
NORTH = Party("broker", "north")


@pytest.mark.parametrize("kind", ["broker", "client"])
def test_there_are_not_more_than_so_many(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "MOST_PARTIES", {"broker": 2, "client": 2})
    driver = Driver(Broker("hub"))
    for name in ("a", "b", "a"):
        driver.remote(Party(kind, name), b"")  # type: ignore[arg-type]
    with pytest.raises(ProtocolError, match=f"{kind} 'c': expected at most 2 {kind}s"):
        driver.remote(Party(kind, "c"), b"")  # type: ignore[arg-type]
    driver.remote(Party("client" if kind == "broker" else "broker", "c"), b"")


def test_a_neighbour_that_was_never_up_is_forgotten() -> None:
    driver = Driver(Broker("hub"))
    driver.tick(0.0)
    north = FarEnd(driver, NORTH)
    north.say(m.Hello("north", 1, "flood", 0))
    assert "expected the policy 'covering'" in north.wire.refusals[0]
    north.leave()
    driver.tick(1.0)
    assert NORTH in driver.remotes
    driver.tick(drivers.IDLE + drivers.SWEEP)
    driver.tick(drivers.IDLE + 3 * drivers.SWEEP)
    assert NORTH not in driver.remotes and driver.broker.neighbours == ()


def test_only_neighbours_that_are_up_are_kept_in_the_file(tmp_path: Path) -> None:
    store = Store(tmp_path / "hub", "hub")
    driver = Driver(Broker("hub"), store)
    north = FarEnd(driver, NORTH)
    north.say(*HELLO)
    assert store.neighbours == set()
    north.say(m.Synchronised(2))
    assert store.neighbours == {"north"}
    store.close()
    with_file = Store(tmp_path / "hub", "hub")
    assert with_file.neighbours == {"north"}
    with_file.close()


def test_a_broker_with_too_many_neighbours_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(drivers, "MOST_PARTIES", {"broker": 1, "client": 1})

    async def work() -> None:
        async with server("hub") as hub, server("north", str(hub.address)):
            await until(lambda: states(hub) == ["up"])
            with caplog.at_level(logging.WARNING):
                async with server("south", str(hub.address)):
                    await until(lambda: "broker 'south': expected at most 1 brokers" in caplog.text)
            async with client(hub.address, "ann") as ann:
                await ann.subscribe("x", "x > 3")
                await ann.wait_in_force(30.0)

    run(work())
