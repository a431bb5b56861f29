"""After a neighbour had left for good nothing came into force any more, and users could do nothing about it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.overlay.test_network import PATIENCE, TOKEN, client, run, server, states, until

from earmark import EarmarkError
from earmark.overlay import BrokerServer, ask_drop, ask_rekey, ask_status
from earmark.overlay.channel import Order, order_packet, packed
from earmark.overlay.client import AsyncClient
from earmark.overlay.connection import dial
from earmark.overlay.space import Space

SPACE = Space.even({"x": (0, 100)}, bits=5)
FINER = Space.even({"x": (0, 100)}, bits=8)


@asynccontextmanager
async def after_a_leaf_has_left(**options: Any) -> AsyncIterator[tuple[BrokerServer, AsyncClient]]:
    """A hub from which a leaf has gone, and ann at the hub."""
    async with server("hub", **options) as hub, client(hub.address, "ann") as ann:
        async with server("leaf", str(hub.address)):
            await until(lambda: states(hub) == ["up"])
        await until(lambda: not links(hub)["leaf"]["connected"])
        yield hub, ann


def links(one: BrokerServer) -> dict[str, Any]:
    found: Any = one.status()["links"]
    return found


async def asks_in_vain(ann: AsyncClient) -> None:
    await ann.subscribe("x", "x > 3")
    with pytest.raises(EarmarkError, match="not in force"):
        await ann.wait_in_force(0.5)


def test_forgotten_after_a_while() -> None:
    async def work() -> None:
        async with after_a_leaf_has_left(forget=1.0) as (hub, ann):
            await asks_in_vain(ann)
            await ann.wait_in_force(PATIENCE)
            assert links(hub) == {}
            async with server("leaf", str(hub.address)):
                await until(lambda: states(hub) == ["up"])
                await ann.subscribe("y", "x > 4")
                await ann.wait_in_force(PATIENCE)

    run(work())


def test_it_may_come_back_in_time() -> None:
    async def work() -> None:
        async with after_a_leaf_has_left(forget=60.0, patience=0.2) as (hub, ann):
            await asks_in_vain(ann)
            async with server("leaf", str(hub.address)):
                await ann.wait_in_force(PATIENCE)
                assert links(hub)["leaf"]["connected"]

    run(work())


def test_dropped_by_hand(tmp_path: Path) -> None:
    async def work() -> None:
        async with after_a_leaf_has_left(state=tmp_path / "hub.state") as (hub, ann):
            await asks_in_vain(ann)
            await ann.publish({"x": 5})
            answer = await ask_drop(hub.address, "leaf", token=TOKEN)
            assert answer == {"dropped": "leaf", "lost": 0}
            await ann.wait_in_force(PATIENCE)
            assert links(hub) == {} and "leaf" not in (await ask_status(hub.address, token=TOKEN))["links"]
            with pytest.raises(EarmarkError, match="broker 'hub': expected the name of a neighbour, got 'leaf'"):
                await ask_drop(hub.address, "leaf", token=TOKEN)
            async with server("leaf", str(hub.address)):
                await until(lambda: states(hub) == ["up"])
                with pytest.raises(EarmarkError, match="broker 'hub': the neighbour 'leaf' is connected; stop it"):
                    await ask_drop(str(hub.address), "leaf", token=TOKEN)
                assert states(hub) == ["up"]
            await until(lambda: not links(hub)["leaf"]["connected"])
            await ask_drop(hub.address, "leaf", token=TOKEN)
        async with server("hub", state=tmp_path / "hub.state") as hub:
            assert links(hub) == {}

    run(work())


def test_what_waited_for_it_is_counted() -> None:
    async def work() -> None:
        async with server("hub") as hub, client(hub.address, "bob") as bob:
            async with server("leaf", str(hub.address)) as leaf, client(leaf.address, "ann") as ann:
                await ann.subscribe("x", "x > 3")
                await ann.wait_in_force(PATIENCE)
            await until(lambda: not links(hub)["leaf"]["connected"])
            for x in range(10):
                await bob.publish({"x": x})
            await bob.flush(PATIENCE)
            assert await ask_drop(hub.address, "leaf", token=TOKEN) == {"dropped": "leaf", "lost": 6}
            publications: Any = hub.status()["publications"]
            assert publications["lost"] == 6
            await bob.publish({"x": 7})
            await bob.flush(PATIENCE)

    run(work())


def test_a_neighbour_known_from_the_file(tmp_path: Path) -> None:
    async def work() -> None:
        async with after_a_leaf_has_left(state=tmp_path / "hub.state"):
            pass
        async with server("hub", state=tmp_path / "hub.state") as hub, client(hub.address, "ann") as ann:
            await asks_in_vain(ann)
            await ask_drop(hub.address, "leaf", token=TOKEN)
            await ann.wait_in_force(PATIENCE)

    run(work())


def test_only_who_knows_the_token() -> None:
    async def work() -> None:
        async with after_a_leaf_has_left() as (hub, _):
            with pytest.raises(EarmarkError, match="got another one"):
                await ask_drop(hub.address, "leaf", token=b"something else entirely")
            assert "leaf" in links(hub)
            with pytest.raises(EarmarkError, match="name of 1 to 256 characters"):
                await ask_drop(hub.address, "x" * 300, token=TOKEN)

    run(work())


@pytest.mark.parametrize(
    "packet",
    [b"O", b"O\xc1", b"O" + msgspec.msgpack.encode(["stop", "leaf"]), b"F" + b"\x90" * 9, b"O" + b"\x91" * 10_000],
)
def test_orders_that_are_none(packet: bytes) -> None:
    async def work() -> None:
        async with after_a_leaf_has_left() as (hub, ann):
            one, _ = await dial(hub.address, token=TOKEN, role="admin", name="admin", session=b"s" * 16)
            one.write(packed(packet[:1], packet[1:]))
            answer = await one.next_packets()
            one.abort()
            assert [packet.kind for packet in answer] == [b"R"] and b"admin 'admin': " in answer[0].body
            assert "leaf" in links(hub) and ann.is_connected

    run(work())


def test_deeply_nested_spaces() -> None:
    async def work() -> None:
        async with server("a", policy="merging", options={"space": SPACE}) as a:
            one, _ = await dial(a.address, token=TOKEN, role="admin", name="admin", session=b"s" * 16)
            one.write(order_packet(Order("rekey", "[" * 100_000)))
            (answer,) = await one.next_packets()
            assert answer.kind == b"R" and b"expected a space as JSON" in answer.body
            one.abort()

    run(work())


def test_another_space_while_brokers_run() -> None:
    async def work() -> None:
        options: dict[str, Any] = {"policy": "subsumption", "options": {"space": SPACE}}
        async with server("a", **options) as a, server("b", str(a.address), **options) as b:
            async with client(a.address, "ann") as ann, client(b.address, "bob") as bob:
                await ann.subscribe("x", "x > 50")
                await ann.wait_in_force(PATIENCE)
                for one in (a, b):
                    answer = await ask_rekey(one.address, FINER.record, token=TOKEN)
                    assert answer == {"space": FINER.number}
                    await bob.publish({"x": 60})
                    found = await ann.get(PATIENCE)
                    assert found is not None and found.ids == ("x",)
                await ann.subscribe("y", "x > 70")
                await ann.wait_in_force(PATIENCE)
                assert states(a) == states(b) == ["up"]
            with pytest.raises(EarmarkError, match="broker 'a': expected the description of a space"):
                await ask_rekey(a.address, {"axes": 3}, token=TOKEN)
            with pytest.raises(EarmarkError, match="type of 'z' in the new space was not declared"):
                await ask_rekey(a.address, Space.even({"z": (0, 9)}).record, token=TOKEN)
        async with server("c") as c:
            with pytest.raises(EarmarkError, match="the policy 'covering' has no space"):
                await ask_rekey(c.address, FINER.record, token=TOKEN)

    run(work())


def test_timestamps_have_the_zone_of_the_broker() -> None:
    async def work() -> None:
        async with server("a", zone="Asia/Tokyo", attributes={"t": "timestamp"}) as a, client(a.address, "ann") as ann:
            await ann.subscribe("x", "t >= TIMESTAMP '2024-01-01 09:00:00'")
            await ann.publish({"t": "2024-01-01 00:00:00Z"})
            assert await ann.get(PATIENCE) is not None

    run(work())


def test_options_are_checked() -> None:
    with pytest.raises(EarmarkError, match="forget"):
        server("a", forget=-1.0)
    with pytest.raises(EarmarkError, match="patience"):
        server("a", patience=float("nan"))
    with pytest.raises(EarmarkError, match="zone"):
        server("a", zone="Nowhere/Land")


def test_the_command_line(tmp_path: Path) -> None:
    def earmark(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "earmark", "broker", *arguments]
        environment = {**os.environ, "EARMARK_TOKEN": TOKEN.decode()}
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=100)

    async def work() -> None:
        async with after_a_leaf_has_left() as (hub, _):
            done = await asyncio.to_thread(earmark, "drop", str(hub.address), "leaf")
            assert done.stdout == "the neighbour 'leaf' is forgotten; 0 publications that waited for it are lost\n"
            again = await asyncio.to_thread(earmark, "drop", str(hub.address), "leaf")
            assert again.returncode == 2 and "expected the name of a neighbour, got 'leaf'" in again.stderr
        async with server("a", policy="merging", options={"space": SPACE}) as a:
            (tmp_path / "space.json").write_text(json.dumps(FINER.record))
            done = await asyncio.to_thread(earmark, "rekey", str(a.address), "space.json")
            assert done.stdout == f"broker at {a.address}: now in the space {FINER.number}\n"
            (tmp_path / "space.json").write_text("{")
            done = await asyncio.to_thread(earmark, "rekey", str(a.address), "space.json")
            assert done.returncode == 2 and "expected a space as JSON" in done.stderr

    run(work())
