"""A broker that was told to stop left its clients in doubt about what it had handled, and kept what it had taken."""

from __future__ import annotations

import asyncio

import pytest
from tests.overlay.test_network import PATIENCE, client, numbers, run, server, states, until

from earmark.overlay import server as server_module
from earmark.overlay.link import Frame, Link


def test_what_an_end_that_stops_has_not_acknowledged_is_not_in_doubt() -> None:
    sender: Link[int] = Link("receiver", 1)
    receiver: Link[int] = Link("sender", 1, is_deferred=True)

    def exchange() -> None:
        while (there := sender.next_frame()) or (back := receiver.next_frame()):
            if there:
                receiver.receive(there)
            else:
                assert back is not None
                sender.receive(back)

    sender.restore()
    receiver.restore()
    exchange()
    assert all(sender.send(number) for number in range(5))
    exchange()
    receiver.consume(2)
    last = receiver.last_frame()
    assert last is not None and last.is_last
    sender.receive(last)
    assert sender.next_frame() is None and sender.queued == 3
    sender.cut()
    sender.restore()
    sender.receive(Frame(Link[int]("sender", 2).epoch, sender.epoch, 0, 1, ()))
    assert sender.doubtful == 0 and sender.take_undelivered() == [2, 3, 4]


@pytest.mark.parametrize("grace", [0.0, 1.0])
def test_nothing_is_uncertain_and_what_was_not_handled_is_sent_again(
    grace: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "GRACE", grace)
    count = 1_500

    async def work() -> None:
        async with server("a") as a, client(a.address, "alice") as alice:
            await alice.prefer(queue=10_000)
            await alice.subscribe("all", "n >= 0")
            b = server("b", str(a.address))
            await b.start()
            await until(lambda: states(a) == ["up"])
            await alice.wait_in_force(PATIENCE)
            async with client(b.address, "bob") as bob:
                await bob.publish({"n": 0})
                assert await numbers(alice, 1) == [0]

                async def publish() -> None:
                    for n in range(1, count):
                        await bob.publish({"n": n})

                publishing = asyncio.create_task(publish())
                await asyncio.sleep(0.05)
                await b.close()
                async with server("b", str(a.address), listen=str(b.address)):
                    await publishing
                    await bob.flush(PATIENCE)
                    assert bob.uncertain == 0
                    if grace:  # then what was handled has been passed on as well
                        assert await numbers(alice, count - 1) == [*range(1, count)]
                    assert alice.duplicates == 0

    run(work())
