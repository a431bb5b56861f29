"""The other end of a driver's link, without sockets."""

from __future__ import annotations

from typing import Any

from earmark.overlay import messages as m
from earmark.overlay.broker import Party
from earmark.overlay.driver import Driver
from earmark.overlay.link import Link


class Wire:
    """What a driver needs of a connection."""

    def __init__(self) -> None:
        self.refusals: list[str] = []

    def refuse(self, reason: str) -> None:
        self.refusals.append(reason)


class FarEnd:
    """A neighbour or a client."""

    def __init__(self, driver: Driver, party: Party) -> None:
        self.driver, self.wire, self.is_reading = driver, Wire(), True
        self.remote = driver.remote(party, b"session")
        self.link: Link[Any] = Link("hub", 1, ahead=0, is_deferred=True)
        self.link.restore()
        self.remote.link.restore()
        driver.connected(self.remote, self.wire, is_dialled=False)  # type: ignore[arg-type]
        self.exchange()

    def say(self, *messages: m.Message) -> None:
        for message in messages:
            self.link.send(message)
        self.exchange()

    def exchange(self) -> None:
        """Move frames both ways, and let the driver work, until nobody has anything to say."""
        is_busy = True
        while is_busy:
            is_busy = False
            while (frame := self.link.next_frame()) is not None:
                self.driver.arrived(self.remote, self.remote.link.receive(frame), 1)
                is_busy = True
            is_busy |= self.driver.work()
            while (frame := self.remote.link.next_frame()) is not None:
                taken = len(self.link.receive(frame).messages)
                self.link.consume(taken if self.is_reading else 0)
                is_busy = True

    def leave(self) -> None:
        self.link.cut()
        self.remote.link.cut()
        self.driver.disconnected(self.remote)
