"""When the work behind a client ended with an error that nobody had thought of, its calls waited for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.overlay.test_network import client, run, server

from earmark import EarmarkError
from earmark.overlay.client import AsyncClient

SENTENCE = r"^client 'ann' cannot go on: ZeroDivisionError\('a bug'\)$"


async def fails(*_: Any) -> None:
    raise ZeroDivisionError("a bug")


def test_connecting_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AsyncClient, "_connect_once", fails)

    async def work() -> None:
        with pytest.raises(EarmarkError, match=SENTENCE) as problem:
            await client("127.0.0.1:7000", "ann").connect()
        assert isinstance(problem.value.__cause__, ZeroDivisionError)

    run(work())


def test_calls_that_wait_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    arrived, is_broken = AsyncClient._arrived, False

    def breaks(self: AsyncClient, *arguments: Any) -> None:
        if is_broken:
            raise ZeroDivisionError("a bug")
        arrived(self, *arguments)

    monkeypatch.setattr(AsyncClient, "_arrived", breaks)

    async def work() -> None:
        nonlocal is_broken
        async with server("hub") as hub, client(hub.address, "ann") as ann:
            waiting = asyncio.create_task(ann.get())
            await asyncio.sleep(0)
            is_broken = True
            await ann.subscribe("x", "x > 3")
            with pytest.raises(EarmarkError, match=SENTENCE):
                await ann.wait_in_force(30.0)
            with pytest.raises(EarmarkError, match=SENTENCE):
                await waiting

    run(work())
