"""Names that cannot be sent, times that are not numbers, and events that are not mappings were not refused at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from earmark import EarmarkError
from earmark.overlay.broker import Broker
from earmark.overlay.client import AsyncClient
from earmark.overlay.server import BrokerServer

TOKEN = b"a token that nobody else knows"
NAMES = ["", "x" * 257, "🙂" * 256, "\ud800", 5, None]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_strings_that_can_be_sent(name: Any) -> None:
    for make in (
        lambda: Broker(name),
        lambda: BrokerServer(name, token=TOKEN),
        lambda: AsyncClient("127.0.0.1:7000", name=name, token=TOKEN),
        lambda: Broker("a").connect(name),
        lambda: Broker("a").attach(name),
    ):
        with pytest.raises(EarmarkError, match=r"^expected a name of 1 to 256 characters and at most 768 bytes, got "):
            make()


def test_a_broker_is_not_its_own_neighbour() -> None:
    with pytest.raises(EarmarkError, match=r"^expected the name of another broker, got 'a'$"):
        Broker("a", neighbours=["b", "a"])
    with pytest.raises(EarmarkError, match=r"^expected the name of another broker, got 'a'$"):
        Broker("a").connect("a")


@pytest.mark.parametrize("seconds", [float("nan"), -1, "x"])
def test_times_are_seconds(seconds: Any) -> None:
    with pytest.raises(EarmarkError, match=r"^expected a number of seconds for forget_after, got "):
        BrokerServer("a", token=TOKEN, forget_after=seconds)
    with pytest.raises(EarmarkError, match=r"^expected a number of seconds for patience, got "):
        AsyncClient("127.0.0.1:7000", name="a", token=TOKEN, patience=seconds)


@pytest.mark.parametrize("token", ["a token that is a string", None, 5])
def test_tokens_are_bytes(token: Any) -> None:
    with pytest.raises(EarmarkError, match=r"^broker 'a': expected a token of bytes, got "):
        BrokerServer("a", token=token)
    if token is not None:
        with pytest.raises(EarmarkError, match=r"^client 'a': expected a token of bytes, got "):
            AsyncClient("127.0.0.1:7000", name="a", token=token)


def test_an_address_is_a_string() -> None:
    with pytest.raises(EarmarkError, match=r"^expected an address HOST:PORT .*, got 7000$"):
        AsyncClient(7000, name="a", token=TOKEN)  # type: ignore[arg-type]


def test_what_a_client_is_asked_for() -> None:
    wrong: list[tuple[Callable[[AsyncClient], Awaitable[Any]], str]] = [
        (lambda client: client.publish("x"), "publish: expected a mapping for event, got 'x'"),  # type: ignore[arg-type]
        (lambda client: client.publish({}, weights=[1]), r"publish: expected a mapping for weights, got \[1\]"),  # type: ignore[arg-type]
        (lambda client: client.subscribe("a", "x > 1", weights=5), "subscribe: expected a mapping for weights, got 5"),  # type: ignore[arg-type]
        (lambda client: client.get("x"), "expected a number of seconds for seconds, got 'x'"),  # type: ignore[arg-type]
        (lambda client: client.wait_in_force(-1), "expected a number of seconds for seconds, got -1"),
        (lambda client: client.flush(float("nan")), "expected a number of seconds for seconds, got nan"),
    ]

    async def work() -> None:
        async with (
            BrokerServer("a", token=TOKEN) as a,
            AsyncClient(str(a.address), name="c", token=TOKEN) as client,
        ):
            for ask, sentence in wrong:
                with pytest.raises(EarmarkError, match=f"^{sentence}$"):
                    await ask(client)
            assert await client.get(0) is None

    asyncio.run(work())
