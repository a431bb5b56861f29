"""Brokers and clients of a simulated network, and the clock that moves them.

    clock ──► instant ──► 1 breaks and repairs      cuts, crashes, restarts
                          2 arrivals                messages, or frames of links that are not perfect
                          3 requests                of clients
                          4 brokers                 each takes all that arrived for it at once: `Broker.receive_many`
                          5 timers                  resending; what brokers spread over time

What a broker says at an instant arrives later, so nothing inside an instant depends on the order of brokers. Clients
are at their brokers: what is said between them takes no time. A client whose broker is not running waits with its
requests. One that was notified of a publication before its broker crashed ignores it the second time: an origin's
publications have rising numbers.

**Invariant**: the same plan, faults, policy and seed give the same record, byte for byte: nothing here reads a clock,
and random numbers come from generators with seeds of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from earmark.errors import EarmarkError
from earmark.overlay import messages as m
from earmark.overlay.broker import Broker, Party, Sent
from earmark.overlay.simulation.carriers import Carrier, Lossy, Perfect, publications_in
from earmark.overlay.simulation.clock import ARRIVE, ASK, BREAK, TIMER, Agenda
from earmark.overlay.simulation.content import offer_of
from earmark.overlay.simulation.faults import SECOND, Crash, Cut, Faults
from earmark.overlay.simulation.history import History
from earmark.overlay.simulation.plan import ADVERTISE, PUBLISH, SUBSCRIBE, Phase, Plan, Request
from earmark.overlay.simulation.tally import WITHDRAWALS, Tally

TICK = SECOND // 20
"""Between ticks of brokers."""
SILENT_TICKS = 20
"""Ticks without an answer after which a network without messages is at rest."""
LONGEST_UNREST = 600 * SECOND
MOST_DELAYS = 1_000
"""A network that still moves after LONGEST_UNREST, and after this many delays per broker, will not come to rest."""
PATIENCE = 1e9
"""Seconds for which brokers wait for a neighbour: every cut and every crash has an end."""
_SILENT = (m.InForce, m.Publication)
_RELEASING = (m.Resynchronise, m.Synchronised)
"""A neighbour that says this is sent what was held for it, as far as it wants it."""


class Network:
    """A network under one policy."""

    def __init__(
        self,
        plan: Plan,
        policy: str,
        options: Mapping[str, object],
        faults: Faults,
        seed: int = 1,
        record: IO[bytes] | None = None,
    ) -> None:
        self.plan, self.policy, self.options, self.faults = plan, policy, dict(options), faults
        self.topology = plan.topology
        self.agenda, self.history, self.tally = Agenda(), History(plan), Tally(record)
        self.repeated = 0
        """Notifications that clients had had from their broker before it crashed."""
        self.refused: list[str] = []
        self.crashes = self.resets = 0
        self.quiet = 0
        """When something last happened, apart from ticks; not before the present phase began."""
        self._parties = [Party("broker", name) for name in self.topology.brokers]
        self._places = {name: place for place, name in enumerate(self.topology.brokers)}
        self._clients = [Party("client", f"c{place}") for place in range(len(plan.home))]
        self._client_places = {party.name: place for place, party in enumerate(self._clients)}
        self._at_home: list[list[int]] = [[] for _ in self.topology.brokers]
        for client, broker in enumerate(plan.home):
            self._at_home[broker].append(client)
        self._runs = [1] * len(self.topology.brokers)
        self._restarted = [False] * len(self.topology.brokers)
        self._numbers = [0] * len(plan.home)
        self._inbox: dict[int, list[tuple[m.Message, Party]]] = {}
        self._publishing: dict[int, list[tuple[str, int, int]]] = {}
        self._published: dict[tuple[str, int, int], int] = {}
        self._last_number: dict[tuple[int, int], int] = {}
        self._latest: dict[tuple[int, str], tuple[int, int]] = {}
        self._away: dict[int, list[Request]] = {}
        self._advertised: dict[int, list[tuple[m.Message, Party]]] = {}
        """By broker, what its clients advertise again when it has crashed."""
        self.brokers: list[Broker | None] = [self._broker(place) for place in range(len(self.topology.brokers))]
        self._carrier = self._carried(seed)
        self._carrier.begin()
        self._run_to_rest()

    def _carried(self, seed: int) -> Carrier:
        if self.faults.is_perfect:
            return Perfect(self.topology, self.faults, self.agenda, self, seed)
        return Lossy(self.topology, self.faults, self.agenda, self, seed, self.tally)

    def _broker(self, place: int) -> Broker:
        neighbours = [self.topology.brokers[other] for other in self.topology.neighbours[place]]
        name, run = self.topology.brokers[place], self._runs[place]
        broker = Broker(
            name,
            policy=self.policy,
            options=self.options,
            run=run,
            neighbours=neighbours,
            attributes=self.plan.content.types,
            advertisements=self.plan.is_advertised,
            patience=PATIENCE,
        )
        for client in self._at_home[place]:
            broker.attach(self._clients[client].name)
        return broker

    # --- time --------------------------------------------------------------------------------------------------

    def run(self, phase: int) -> Iterator[int]:
        """Run a phase of the plan until the network is at rest; yields after each instant at which clients asked."""
        begun = self.quiet = self.agenda.now + TICK
        faults: list[Cut | Crash] = [*self.faults.cuts, *self.faults.crashes]
        for fault in faults:
            if fault.phase == phase:
                self._schedule(fault, begun)
        by_time = _by_time(self.plan.phases[phase])
        for at, requests in by_time.items():
            self.agenda.add(begun + at, ASK, lambda requests=requests: self._ask(requests))  # type: ignore[misc]
        for number, at in enumerate(by_time, 1):
            while self.agenda and self.agenda.now < begun + at:
                self._step()
                self.quiet = self.agenda.now
            yield number
        self._run_to_rest()

    def _run_to_rest(self) -> None:
        """Go on until no message is on its way, and ticks of brokers cause none."""
        delay = round((self.faults.delay + self.faults.jitter) * SECOND)
        longest = max(LONGEST_UNREST, MOST_DELAYS * len(self.brokers) * delay)
        silent, latest = 0, self.agenda.now + longest
        while silent < SILENT_TICKS:
            while self.agenda and self.agenda.now <= latest:
                silent = 0
                self._step()
                self.quiet = self.agenda.now
            if self.agenda.now > latest:
                raise EarmarkError(
                    f"the network did not come to rest within {longest // SECOND:,} simulated seconds; a queue "
                    f"of {self.faults.queue:,} messages per link may be too short for all that brokers tell each other"
                )
            silent += 1
            self.agenda.add((self.agenda.now // TICK + 1) * TICK, TIMER, lambda: None)
            self._step()

    def _step(self) -> None:
        """Do everything of the next instant."""
        before = self.agenda.now
        actions = self.agenda.take()
        for rank in (BREAK, ARRIVE, ASK):
            for action in actions[rank]:
                action()
        for broker in list(self._inbox):
            self._flush(broker)
        if before // TICK != self.agenda.now // TICK:
            self._tick()
        for action in actions[TIMER]:
            action()

    def _tick(self) -> None:
        for place, broker in enumerate(self.brokers):
            if broker is not None:
                self._settle(place, broker.tick(self.agenda.seconds), is_withdrawing=True)

    # --- requests ----------------------------------------------------------------------------------------------

    def _ask(self, requests: Sequence[Request]) -> None:
        for request in requests:
            owners = self.plan.publisher if request.kind in (PUBLISH, ADVERTISE) else self.plan.owner
            client = owners[request.place]
            home = self.plan.home[client]
            if self.brokers[home] is None:
                self._away.setdefault(home, []).append(request)
            else:
                self._inbox.setdefault(home, []).append((self._request(client, home, request), self._clients[client]))

    def _request(self, client: int, home: int, request: Request) -> m.Message:
        self._numbers[client] += 1
        number, place, now = self._numbers[client], request.place, self.agenda.now
        if request.kind == PUBLISH:
            self.history.publish(place, home, now)
            self._publishing.setdefault(home, []).append((self._clients[client].name, number, place))
            return m.Publish(number, dict(self.plan.content.events[place]))
        if request.kind == ADVERTISE:
            offer = m.Advertise(number, place, offer_of(self.plan.content.events[place]))
            self._advertised.setdefault(home, []).append((offer, self._clients[client]))
            return offer
        self.history.ask(client, number, place, now, request.kind != SUBSCRIBE)
        if request.kind == SUBSCRIBE:
            return m.Subscribe(number, place, self.plan.content.conditions[place])
        return m.Unsubscribe(number, place)

    # --- brokers -----------------------------------------------------------------------------------------------

    def _flush(self, place: int) -> None:
        """Let a broker take all that arrived for it."""
        inbox, broker = self._inbox.pop(place, None), self.brokers[place]
        if inbox is None or broker is None:
            return
        causes = [message for message, _ in inbox if not isinstance(message, _SILENT)]
        is_withdrawing = bool(causes) and all(isinstance(cause, WITHDRAWALS) for cause in causes)
        released = {party.name for message, party in inbox if isinstance(message, _RELEASING)}
        held = [publication for neighbour in released for publication in broker.held(neighbour)]
        self._settle(place, broker.receive_many(inbox), is_withdrawing)
        for publication in self._places_of(held):
            self.history.see(publication)

    def _settle(self, place: int, sent: Sequence[Sent], is_withdrawing: bool = False) -> None:
        """Send what a broker says to neighbours, and note what it tells clients."""
        self._number(place, sent)
        links: dict[str, list[m.Message]] = {}
        for party, message in sent:
            if party.kind == "broker":
                links.setdefault(party.name, []).append(message)
            elif isinstance(message, m.Notify):
                self._notified(self._client_places[party.name], message)
            else:
                self._told(self._client_places[party.name], message)
        for name, messages in links.items():
            if is_withdrawing:
                self.tally.burst(messages)
            self._carrier.send(place, self._places[name], messages)

    def _number(self, place: int, sent: Sequence[Sent]) -> None:
        """Remember which numbers a broker gave to publications of its clients: in order, without those it refused."""
        publishing = self._publishing.pop(place, None)
        if publishing is None:
            return
        refused = {(party.name, message.number) for party, message in sent if isinstance(message, m.Refused)}
        name, run = self.topology.brokers[place], self._runs[place]
        for client, number, publication in publishing:
            if (client, number) in refused:
                self.history.unpublish(publication)
                continue
            last = self._last_number[place, run] = self._last_number.get((place, run), 0) + 1
            self._published[name, run, last] = publication

    def _notified(self, client: int, message: m.Notify) -> None:
        publication = self._published.get((message.origin, message.run, message.number))
        if publication is None or message.event != self.plan.content.events[publication]:
            self.history.wrong_content += 1
            return
        if self._restarted[self.plan.home[client]]:
            number = (message.run, message.number)
            if number <= self._latest.get((client, message.origin), (0, 0)):
                self.repeated += 1
                return
        if self.faults.crashes:
            self._latest[client, message.origin] = (message.run, message.number)
        self.history.notify(publication, client, message.ids, self.agenda.now)  # type: ignore[arg-type]

    def _told(self, client: int, message: m.Message) -> None:
        if isinstance(message, m.InForce):
            self.history.confirm(client, message.number, self.agenda.now)
        elif isinstance(message, m.Refused):
            self.refused.append(message.reason)

    # --- links: what a carrier tells (`Ends`) ---------------------------------------------------------------------

    def is_up(self, broker: int) -> bool:
        """Whether a broker is running."""
        return self.brokers[broker] is not None

    def opened(self, broker: int, neighbour: int) -> None:
        """A broker has a new channel to its neighbour."""
        self._flush(broker)
        running = self.brokers[broker]
        if running is not None:
            self._settle(broker, running.connect(self.topology.brokers[neighbour]))

    def lost(self, broker: int, neighbour: int, undelivered: Sequence[m.Message]) -> None:
        """A broker lost its channel."""
        self._flush(broker)
        self.resets += 1
        running = self.brokers[broker]
        if running is not None:
            self._settle(broker, running.disconnect(self.topology.brokers[neighbour], undelivered))

    def arrived(self, sender: int, receiver: int, messages: Sequence[m.Message]) -> None:
        """Messages arrived."""
        party = self._parties[sender]
        self.tally.arrived(party.name, self._parties[receiver].name, messages, self.agenda.now)
        for publication in self._places_of(publications_in(messages)):
            self.history.hop(publication, sender, receiver)
        self._inbox.setdefault(receiver, []).extend([(message, party) for message in messages])

    # --- what breaks -------------------------------------------------------------------------------------------

    def _schedule(self, fault: Cut | Crash, begun: int) -> None:
        carrier, add = self._carrier, self.agenda.add
        assert isinstance(carrier, Lossy)
        if isinstance(fault, Cut):
            edge, is_silent = self.topology.edges[fault.edge], fault.is_silent
            add(begun + fault.at, BREAK, lambda: carrier.cut(edge, is_silent))
            add(begun + fault.until, BREAK, lambda: carrier.heal(edge))
        else:
            add(begun + fault.at, BREAK, lambda: self._crash(carrier, fault.broker, begun + fault.until))

    def _crash(self, carrier: Lossy, place: int, until: int) -> None:
        broker = self.brokers[place]
        if broker is None:
            return
        self.crashes += 1
        self.brokers[place] = None
        kept = list(broker.subscriptions())
        inside = carrier.stop(place)
        for neighbour, messages in inside.items():
            held = broker.held(self.topology.brokers[neighbour])
            self._excuse(place, neighbour, [*publications_in(messages), *held])
        self.agenda.add(until, BREAK, lambda: self._restart(carrier, place, kept))

    def _excuse(self, place: int, neighbour: int, publications: Sequence[m.Publication]) -> None:
        for publication in self._places_of(publications):
            self.history.excused.add((publication, place, neighbour))

    def _places_of(self, publications: Sequence[m.Publication]) -> list[int]:
        """The places in the plan of publications of clients."""
        numbers = [(one.origin, one.run, one.number) for one in publications]
        return [self._published[number] for number in numbers if number in self._published]

    def _restart(self, carrier: Lossy, place: int, kept: Sequence[tuple[str, m.Subscribe]]) -> None:
        self._runs[place] += 1
        self._restarted[place] = True
        broker = self.brokers[place] = self._broker(place)
        restored = [*self._advertised.get(place, ()), *((request, Party("client", name)) for name, request in kept)]
        self._settle(place, broker.receive_many(restored))
        carrier.start(place, self._runs[place])
        self._ask(self._away.pop(place, []))

    # --- looking -----------------------------------------------------------------------------------------------

    def status(self) -> list[dict[str, Any]]:
        """The status of each broker."""
        return [broker.status() for broker in self.brokers if broker is not None]


def _by_time(phase: Phase) -> dict[int, list[Request]]:
    by_time: dict[int, list[Request]] = {}
    for request in phase.requests:
        by_time.setdefault(request.at, []).append(request)
    return by_time
