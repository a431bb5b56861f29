"""Listening at localhost with any port took one port per address of the name, and only one of them was reported."""

from __future__ import annotations

from tests.overlay.test_network import client, run, server


def test_one_port_is_enough() -> None:
    async def work() -> None:
        async with server("hub", listen="localhost:0") as hub:
            assert hub._server is not None and len(hub._server.sockets) == 1
            assert hub.address.host == "localhost" and hub.address.port > 0
            async with client(hub.address, "ann") as ann:
                await ann.subscribe("x", "x > 3")
                await ann.wait_in_force(30.0)

    run(work())
