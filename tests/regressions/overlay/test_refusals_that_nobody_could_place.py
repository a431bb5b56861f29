"""A refused publication was not named, and one thread's `flush` took the refusals of another's publications."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.overlay.test_network import PATIENCE, TOKEN, client, run, server

from earmark.overlay.blocking import Client
from earmark.overlay.client import AsyncClient, RequestRefused


async def ready(ann: AsyncClient) -> None:
    await ann.subscribe("x", "t > 3")
    await ann.wait_in_force(PATIENCE)


async def refused(ann: AsyncClient) -> str:
    """What a flush raises; nothing if it does not."""
    try:
        await ann.flush(PATIENCE)
    except RequestRefused as problem:
        return str(problem)
    return ""


def test_the_publication_is_named() -> None:
    async def work() -> None:
        async with server("a") as a, client(a.address, "ann") as ann:
            await ready(ann)
            await ann.publish({"t": 1})
            await ann.publish({"t": "warm", "n": 2, "long": "x" * 500})
            await ann.publish({"t": 5})
            text = await refused(ann)
            assert text.startswith("publication {'t': 'warm', 'n': 2, 'long': 'xxx") and "'warm'" in text.split("}")[-1]
            assert len(text) < 300 and await refused(ann) == ""
            await ann.subscribe("bad", "t >")
            with pytest.raises(RequestRefused, match=r"^subscription 'bad': .*t >"):
                await ann.wait_in_force(PATIENCE)

    run(work())


def test_each_task_hears_of_its_own_and_of_what_nobody_knows() -> None:
    async def work() -> None:
        async with server("a") as a, client(a.address, "ann") as ann:
            await ready(ann)
            may_flush, heard = asyncio.Event(), {}

            async def publisher(name: str) -> None:
                await ann.publish({"t": name})
                await may_flush.wait()
                heard[name] = [await refused(ann), await refused(ann)]

            tasks = [asyncio.create_task(publisher(name)) for name in ("one", "two")]
            await asyncio.sleep(0)
            first = await refused(ann)
            assert "'one'" in first and "'two'" in first and await refused(ann) == ""
            may_flush.set()
            await asyncio.gather(*tasks)
            assert "'one'" in heard["one"][0] and "'two'" not in heard["one"][0]
            assert "'two'" in heard["two"][0] and "'one'" not in heard["two"][0]
            assert heard["one"][1] == heard["two"][1] == ""
            assert await refused(ann) == ""

    run(work())


def test_what_a_task_that_has_ended_published_is_told_once() -> None:
    async def work() -> None:
        async with server("a") as a, client(a.address, "ann") as ann:
            await ready(ann)
            await asyncio.create_task(ann.publish({"t": "gone"}))
            assert "'gone'" in await refused(ann) and await refused(ann) == ""
            assert not ann._refused_publications._waiting

    run(work())


def test_many_are_counted_and_bounded() -> None:
    async def work() -> None:
        async with server("a") as a, client(a.address, "ann") as ann:
            await ready(ann)
            for n in range(300):
                await ann.publish({"t": f"t{n}"})
            text = await refused(ann)
            assert "'t0'" in text and "'t19'" in text and "'t20'" not in text and text.endswith("; and 280 more")
            for n in range(20_000):
                await ann.publish({"t": f"t{n}"})
            assert await refused(ann)
            assert len(ann._refused_publications._waiting) <= 1_000 and len(ann._named) <= 8_192

    run(work())


def test_threads() -> None:
    async def work() -> None:
        async with server("a") as a:
            await asyncio.to_thread(threads, str(a.address))

    run(work())


def threads(address: str) -> None:
    with Client(address, name="ann", token=TOKEN) as ann:
        ann.subscribe("x", "t > 3")
        ann.wait_in_force(PATIENCE)
        turn, heard = threading.Barrier(2), []

        def publisher() -> None:
            ann.publish({"t": "mine"})
            turn.wait(PATIENCE)
            turn.wait(PATIENCE)
            with pytest.raises(RequestRefused) as problem:
                ann.flush(PATIENCE)
            heard.append(str(problem.value))

        thread = threading.Thread(target=publisher)
        thread.start()
        turn.wait(PATIENCE)
        with pytest.raises(RequestRefused, match="'mine'"):
            ann.flush(PATIENCE)
        ann.flush(PATIENCE)
        turn.wait(PATIENCE)
        thread.join()
        assert len(heard) == 1 and "'mine'" in heard[0]
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(ann.publish, [{"t": str(n)} for n in range(9)]))
            with pytest.raises(RequestRefused) as problem:
                ann.flush(PATIENCE)
        assert all(f"'{n}'" in str(problem.value) for n in range(9))
        ann.flush(PATIENCE)
