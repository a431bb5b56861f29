"""Advertisements were not kept in a broker's file, and could not be switched on for a broker on a network."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from earmark.cli.broker import broker as command
from earmark.overlay import messages as m
from earmark.overlay import store as stores
from earmark.overlay.broker import Broker, Party
from earmark.overlay.driver import Driver
from earmark.overlay.server import BrokerServer
from earmark.overlay.store import Advertised, Forgotten, Store, Unadvertised

ANN = Party("client", "ann")


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores.os, "fsync", lambda descriptor: None)


def started(path: Path) -> tuple[Driver, Store]:
    store = Store(path, "hub")
    return Driver(Broker("hub", run=store.run, advertisements=True), store), store


def refusals(driver: Driver, *messages: m.Message) -> list[str]:
    sent = driver.broker.receive_many([(message, ANN) for message in messages])
    driver._keep([(message, ANN) for message in messages], sent)
    return [message.reason for _, message in sent if isinstance(message, m.Refused)]


def test_a_client_may_publish_after_a_restart(tmp_path: Path) -> None:
    driver, store = started(tmp_path / "state")
    assert not refusals(
        driver, m.Advertise(1, "mine", "x > 0"), m.Advertise(2, "other", "y > 0"), m.Unadvertise(3, "other")
    )
    store.close()
    driver, store = started(tmp_path / "state")
    assert not refusals(driver, m.Publish(10, {"x": 1}))
    assert refusals(driver, m.Publish(11, {"y": 1})), "it was withdrawn"
    assert driver.remotes[ANN].wishes == {("advertisement", "mine")}
    store.close()


def test_the_file_is_written_again_with_advertisements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_SLACK", 0)
    store = Store(tmp_path / "state", "hub")
    store.append([Advertised("ann", m.Advertise(1, "mine", "x > 0")), Advertised("bob", m.Advertise(1, 7, "y > 0"))])
    for number in range(50):
        store.append([Advertised("carol", m.Advertise(number, 1, "z > 0")), Unadvertised("carol", 1)])
    store.append([Forgotten("bob")])
    store.close()
    again = Store(tmp_path / "state", "hub")
    assert again.advertisements == {("ann", "mine"): m.Advertise(1, "mine", "x > 0")}
    again.close()


def test_the_command_line_has_it() -> None:
    assert "--advertisements" in CliRunner().invoke(command, ["--help"]).output
    server = BrokerServer("hub", token=b"x" * 16, advertisements=True)
    assert server.driver.broker.status()["policy"] == "covering with advertisements"
