"""A second `connect` made two connections take turns for ever; a second `start` closed the file of a running broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.overlay.test_network import PATIENCE, TOKEN, client, run, server

from earmark import EarmarkError
from earmark.overlay import ask_status


def test_a_client_connects_once() -> None:
    async def work() -> None:
        async with server("a") as a, client(a.address, "ann") as ann:
            for _ in range(2):
                with pytest.raises(EarmarkError, match=r"^client 'ann' is connected or connecting already$"):
                    await ann.connect()
            await ann.subscribe(1, "x > 3")
            await ann.wait_in_force(PATIENCE)
            await ann.publish({"x": 4})
            assert await ann.get(PATIENCE) is not None and ann.is_connected

    run(work())


def test_a_client_that_was_closed_may_connect_again() -> None:
    async def work() -> None:
        async with server("a") as a, client(a.address, "ann") as ann:
            await ann.close()
            await ann.connect()
            await ann.subscribe(1, "x > 3")
            await ann.wait_in_force(PATIENCE)

    run(work())


def test_a_client_that_is_closed_while_it_connects_says_so() -> None:
    async def work() -> None:
        async with server("a") as a:
            silent = await asyncio.start_server(lambda reader, writer: asyncio.sleep(60), "127.0.0.1", 0)
            ann = client(f"127.0.0.1:{silent.sockets[0].getsockname()[1]}", "ann")
            connecting = asyncio.create_task(ann.connect())
            await asyncio.sleep(0.05)
            await ann.close()
            with pytest.raises(EarmarkError, match=r"^this client is closed$"):
                await connecting
            silent.close()
            assert a.status()["clients"] == {}

    run(work())


def test_a_broker_starts_once(tmp_path: Path) -> None:
    async def work() -> None:
        a = server("a", state=tmp_path / "state")
        async with a, client(a.address, "ann") as ann:
            address = a.address
            with pytest.raises(EarmarkError, match=r"^broker 'a' was started already$"):
                await a.start()
            await ann.subscribe(1, "x > 3")
            await ann.wait_in_force(PATIENCE)
            assert a.address == address
            assert (await ask_status(address, token=TOKEN))["clients"]["ann"]["subscriptions"] == 1
        with pytest.raises(EarmarkError, match=r"^broker 'a' was started already$"):
            await a.start()

    run(work())


def test_the_status_is_asked_for_by_host_and_port() -> None:
    async def work() -> None:
        async with server("a") as a:
            assert (await ask_status(str(a.address), token=TOKEN))["name"] == "a"
        with pytest.raises(EarmarkError, match="expected an address HOST:PORT"):
            await ask_status("7000", token=TOKEN)
        with pytest.raises(EarmarkError, match="is not a loopback address"):
            await ask_status("198.51.100.1:7000", token=TOKEN)

    run(work())
