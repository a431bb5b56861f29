"""A request that was refused before `wait_in_force` was called passed for one in force."""

from __future__ import annotations

import asyncio

import pytest

from earmark.overlay.client import AsyncClient, RequestRefused
from earmark.overlay.server import BrokerServer

TOKEN = b"a token that nobody else knows"


def test_a_refusal_is_reported_once_even_if_it_came_before() -> None:
    async def work() -> None:
        async with (
            BrokerServer("a", token=TOKEN) as a,
            AsyncClient(str(a.address), name="alice", token=TOKEN) as alice,
            asyncio.timeout(30),
        ):
            await alice.subscribe("x", "t >")
            await alice.subscribe("y", "t > 3")
            await answered(alice)
            with pytest.raises(RequestRefused, match="t >"):
                await alice.wait_in_force()
            await alice.wait_in_force()
            await alice.flush()
            await alice.unsubscribe("z")
            await answered(alice)
            with pytest.raises(RequestRefused, match="there is no subscription 'z'"):
                await alice.flush()
            await alice.wait_in_force()

    asyncio.run(work())


async def answered(client: AsyncClient) -> None:
    while client._outbox or client._asked:
        await asyncio.sleep(0.01)


def test_publications_that_are_refused_do_not_fail_whoever_waits_for_requests() -> None:
    async def work() -> None:
        async with (
            BrokerServer("a", token=TOKEN) as a,
            AsyncClient(str(a.address), name="alice", token=TOKEN) as alice,
            asyncio.timeout(30),
        ):
            await alice.subscribe("y", "t > 3")
            await alice.publish({"t": "warm"})
            await alice.subscribe("z", "t > 4")
            await alice.wait_in_force()
            with pytest.raises(RequestRefused, match="warm"):
                await alice.flush()

    asyncio.run(work())
