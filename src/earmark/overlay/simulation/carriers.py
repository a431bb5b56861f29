"""How messages get from one broker to its neighbour: at once and surely, or over links that fail.

    Perfect    messages ──── one delay per link ────► messages

    Lossy      messages ──► Link ──► frames ── delay, loss, duplication, cuts ──► Link ──► messages
                             ▲                                                     │
                             └──────────── frames with acknowledgements ◄──────────┘

`Link` (overlay/link.py) is what real brokers use over TCP. Here its carrier also loses, repeats and reorders frames.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import Protocol

from earmark.overlay.link import Frame, Link
from earmark.overlay.messages import Message, Publication
from earmark.overlay.simulation.clock import ARRIVE, TIMER, Agenda
from earmark.overlay.simulation.faults import SECOND, Faults
from earmark.overlay.simulation.tally import Tally
from earmark.overlay.simulation.topology import Topology

PATIENCE = 4
"""Delays after which a frame is sent again."""


class Ends(Protocol):
    """The brokers at both ends of links, as a carrier sees them."""

    def is_up(self, broker: int) -> bool:
        """Whether a broker is running."""

    def opened(self, broker: int, neighbour: int) -> None:
        """A broker has a new channel to its neighbour."""

    def lost(self, broker: int, neighbour: int, undelivered: Sequence[Message]) -> None:
        """A broker lost its channel."""

    def arrived(self, sender: int, receiver: int, messages: Sequence[Message]) -> None:
        """Messages arrived."""


class Carrier(ABC):
    """All links of a network."""

    def __init__(self, topology: Topology, faults: Faults, agenda: Agenda, ends: Ends, seed: int) -> None:
        self.topology, self.faults, self.agenda, self.ends = topology, faults, agenda, ends
        self.random = Random(f"{seed}/links")

    @abstractmethod
    def begin(self) -> None:
        """All brokers are there: connect them."""

    @abstractmethod
    def send(self, sender: int, receiver: int, messages: Sequence[Message]) -> None:
        """Carry messages to a neighbour."""


class Perfect(Carrier):
    """Nothing is ever lost; each link has one delay."""

    def begin(self) -> None:
        """Connect all neighbours."""
        self._delays: dict[tuple[int, int], int] = {}
        for one, other in self.topology.edges:
            self._delays[one, other] = self._delays[other, one] = self.faults.drawn_delay(self.random)
        for one, other in self.topology.edges:
            self.ends.opened(one, other)
            self.ends.opened(other, one)

    def send(self, sender: int, receiver: int, messages: Sequence[Message]) -> None:
        """Let messages arrive after the delay of the link."""
        at = self.agenda.now + self._delays[sender, receiver]
        self.agenda.add(at, ARRIVE, lambda: self.ends.arrived(sender, receiver, messages))


class Lossy(Carrier):
    """Frames are lost, repeated and reordered; links are cut, brokers crash."""

    def __init__(self, topology: Topology, faults: Faults, agenda: Agenda, ends: Ends, seed: int, tally: Tally) -> None:
        super().__init__(topology, faults, agenda, ends, seed)
        self.tally = tally
        self._links: dict[tuple[int, int], Link[Message]] = {}
        self._timers: dict[tuple[int, int], int] = {}
        self._cuts = dict.fromkeys(topology.edges, 0)

    def begin(self) -> None:
        """Connect all neighbours."""
        for broker in range(len(self.topology.brokers)):
            self.start(broker, 1)

    def start(self, broker: int, run: int) -> None:
        """A broker begins to run: its ends of links are new."""
        timeout = PATIENCE * (self.faults.delay + self.faults.jitter)
        for neighbour in self.topology.neighbours[broker]:
            name = self.topology.brokers[neighbour]
            self._links[broker, neighbour] = Link(name, run, most=self.faults.queue, timeout=timeout)
            self._restore(broker, neighbour)

    def stop(self, broker: int) -> dict[int, list[Message]]:
        """A broker crashes; returns what its links had taken and neighbours may not have, by neighbour."""
        inside = {}
        for neighbour in self.topology.neighbours[broker]:
            link = self._links.pop((broker, neighbour))
            link.reset()
            inside[neighbour] = link.take_undelivered()
            if self.ends.is_up(neighbour):
                self._links[neighbour, broker].cut()
        return inside

    def cut(self, edge: tuple[int, int], is_silent: bool) -> None:
        """A link carries nothing from now on."""
        self._cuts[edge] += 1
        for end in (edge, edge[::-1]):
            if not is_silent and end in self._links:
                self._links[end].cut()

    def heal(self, edge: tuple[int, int]) -> None:
        """One reason why a link carries nothing is gone."""
        self._cuts[edge] -= 1
        self._restore(*edge)

    def _restore(self, one: int, other: int) -> None:
        ends = [(one, other), (other, one)]
        if self._cuts[min(ends)] or not all(end in self._links for end in ends):
            return
        for end in ends:
            self._links[end].restore()
        for end in ends:
            self._pump(*end)

    def send(self, sender: int, receiver: int, messages: Sequence[Message]) -> None:
        """Give messages to the link; one that is full loses its channel."""
        link = self._links[sender, receiver]
        for place, message in enumerate(messages):
            if not link.send(message):
                undelivered = [*link.take_undelivered(), *messages[place + 1 :]]
                self.ends.lost(sender, receiver, undelivered)
                break
        self._pump(sender, receiver)

    def _pump(self, sender: int, receiver: int) -> None:
        """Put on the carrier whatever the link has to say, and set its timer."""
        link = self._links[sender, receiver]
        while (frame := link.next_frame(self.agenda.seconds)) is not None:
            self._transmit(sender, receiver, frame)
        due = link.deadline()
        if due is not None:
            at = max(self.agenda.now + 1, round(due * SECOND) + 1)
            if self._timers.get((sender, receiver), 0) <= self.agenda.now or at < self._timers[sender, receiver]:
                self._timers[sender, receiver] = at
                self.agenda.add(at, TIMER, lambda: self._ring(sender, receiver))

    def _ring(self, sender: int, receiver: int) -> None:
        link = self._links.get((sender, receiver))
        if link is not None:
            link.tick(self.agenda.seconds)
            self._pump(sender, receiver)

    def _transmit(self, sender: int, receiver: int, frame: Frame[Message]) -> None:
        self.tally.frames["sent"] += 1
        if self.random.random() < self.faults.loss:
            self.tally.frames["lost"] += 1
            return
        copies = 1
        if self.random.random() < self.faults.duplication:
            self.tally.frames["repeated"] += 1
            copies = 2
        for _ in range(copies):
            at = self.agenda.now + self.faults.drawn_delay(self.random)
            self.agenda.add(at, ARRIVE, lambda: self._receive(sender, receiver, frame))

    def _receive(self, sender: int, receiver: int, frame: Frame[Message]) -> None:
        edge = (min(sender, receiver), max(sender, receiver))
        link = self._links.get((receiver, sender))
        if self._cuts[edge] or link is None:
            self.tally.frames["cut off"] += 1
            return
        arrival = link.receive(frame, self.agenda.seconds)
        if arrival.is_lost:
            self.ends.lost(receiver, sender, link.take_undelivered())
        if arrival.is_opened:
            self.ends.opened(receiver, sender)
        if arrival.messages:
            self.ends.arrived(sender, receiver, arrival.messages)
        self._pump(receiver, sender)


def publications_in(messages: Sequence[Message]) -> list[Publication]:
    """The publications among messages."""
    return [message for message in messages if isinstance(message, Publication)]
