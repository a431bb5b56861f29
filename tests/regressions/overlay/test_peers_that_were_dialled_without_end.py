"""A peer with two addresses, two peers with one name, or one with another policy: dialled many times a second."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from earmark.overlay.server import BrokerServer

TOKEN = b"a token that nobody else knows"
SECONDS = 1.5


def server(name: str, *peers: str, **options: Any) -> BrokerServer:
    return BrokerServer(name, token=TOKEN, peers=peers, random=random.Random(name), **options)


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(60):
            await work()

    asyncio.run(limited())


async def until_up(one: BrokerServer, name: str) -> None:
    links: Any = one.status()["links"]
    while links.get(name, {}).get("state") != "up":
        await asyncio.sleep(0.01)
        links = one.status()["links"]


def said(caplog: pytest.LogCaptureFixture, text: str) -> int:
    return sum(text in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("dials", ["a", "b"])
def test_one_peer_with_two_addresses(caplog: pytest.LogCaptureFixture, dials: str) -> None:
    caplog.set_level(logging.INFO, "earmark.overlay")

    async def work() -> None:
        listener = "b" if dials == "a" else "a"
        async with server(listener) as one:
            port = one.address.port
            async with server(dials, f"127.0.0.1:{port}", f"localhost:{port}") as other:
                await until_up(other, listener)
                await asyncio.sleep(SECONDS)
                assert other.status()["connections"] == 0 and one.status()["connections"] == 1
                assert said(caplog, f"broker {listener!r} is connected") <= 2, "both may dial at once, at first"
                remote = next(iter(one.driver.remotes.values()))
                assert remote.connection is not None
                remote.connection.abort()
                while remote.connection is not None:
                    await asyncio.sleep(0.01)
                while remote.connection is None:
                    await asyncio.sleep(0.01)

    run(work)


def test_two_peers_with_one_name(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "earmark.overlay")

    async def work() -> None:
        async with (
            server("n") as one,
            server("n") as two,
            server("a", str(one.address), str(two.address)) as other,
        ):
            await until_up(other, "n")
            await asyncio.sleep(SECONDS)
            assert said(caplog, "broker 'n' is connected") == 1
            assert said(caplog, "broker 'n': another broker with this name is connected") == 1

    run(work)


def test_a_peer_with_another_policy(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "earmark.overlay")

    async def work() -> None:
        async with server("n") as one, server("a", str(one.address), policy="flood"):
            await asyncio.sleep(SECONDS)

    run(work)
    assert 1 <= said(caplog, "broker 'n' is connected") <= 6
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warnings and len(warnings) == len(set(warnings))
