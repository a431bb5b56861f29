"""`Client.close()` left other threads waiting for ever: what they asked for after its loop had stopped never ended."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.overlay.test_network import TOKEN, client, run, server

from earmark import EarmarkError
from earmark.overlay.blocking import Client

ROUNDS = 8
CLOSED = "^this client is closed$"


@contextmanager
def a_broker() -> Iterator[str]:
    """The address of a broker in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    broker = server("a")
    asyncio.run_coroutine_threadsafe(broker.start(), loop).result(30)
    try:
        yield str(broker.address)
    finally:
        asyncio.run_coroutine_threadsafe(broker.close(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _publish(one: Client) -> None:
    one.publish({"x": 1})


def _flush(one: Client) -> None:
    one.flush(30)


def _get_soon(one: Client) -> None:
    one.get(0.001)


def _get(one: Client) -> None:
    one.get()


@pytest.mark.parametrize("call", [_publish, _flush, _get_soon, _get])
def test_calls_of_other_threads_end(call: Callable[[Client], None]) -> None:
    with a_broker() as address:
        for _ in range(ROUNDS):
            one = Client(address, name="ann", token=TOKEN)
            problems: list[str] = []

            def work(one: Client = one, problems: list[str] = problems) -> None:
                try:
                    while True:
                        call(one)
                except EarmarkError as problem:
                    problems.append(str(problem))

            threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
            for thread in threads:
                thread.start()
            time.sleep(0.02)
            one.close()
            for thread in threads:
                thread.join(10)
            assert problems == ["this client is closed"] * 3
            with pytest.raises(EarmarkError, match=CLOSED):
                call(one)


def test_threads_that_close_it_together_all_return() -> None:
    with a_broker() as address:
        for _ in range(ROUNDS):
            one = Client(address, name="ann", token=TOKEN)
            threads = [threading.Thread(target=one.close, daemon=True) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(10)
                assert not thread.is_alive()
            one.close()


def test_a_loop_over_notifications_ends() -> None:
    with a_broker() as address:
        one = Client(address, name="ann", token=TOKEN)
        thread = threading.Thread(target=list, args=(one,), daemon=True)
        thread.start()
        time.sleep(0.02)
        one.close()
        thread.join(10)
        assert not thread.is_alive() and list(one) == []


def test_tasks_that_share_a_client_hear_it_too() -> None:
    async def work() -> None:
        async with server("a") as a:
            ann = client(a.address, "ann")
            await ann.connect()
            waiting = asyncio.create_task(ann.get())
            looping = asyncio.create_task(anext(aiter(ann), None))
            await asyncio.sleep(0.02)
            await ann.close()
            with pytest.raises(EarmarkError, match=CLOSED):
                await waiting
            assert await looping is None
            for call in (ann.get, ann.flush, ann.wait_in_force):
                with pytest.raises(EarmarkError, match=CLOSED):
                    await call()

    run(work())
