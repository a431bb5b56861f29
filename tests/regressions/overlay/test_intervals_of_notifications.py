"""Users were notified of intervals of an internal class."""

from __future__ import annotations

from tests.overlay.test_network import PATIENCE, client, run, server

from earmark import Interval


def test_intervals_are_those_that_were_published() -> None:
    async def work() -> None:
        async with server("a") as a, client(a.address, "ann") as ann:
            await ann.subscribe("x", "t > 3")
            await ann.publish({"t": Interval(1, 9), "u": (None, 4), "v": 2})
            found = await ann.get(PATIENCE)
            assert found is not None and found.event == {"t": Interval(1, 9), "u": Interval(None, 4), "v": 2}
            assert [type(value) for value in found.event.values()] == [Interval, Interval, int]

    run(work())
