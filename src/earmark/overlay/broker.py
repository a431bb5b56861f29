"""Broker: one node of the overlay, as a state machine without sockets, clocks or threads.

    broker = Broker("hub", policy="covering", neighbours=["north", "south"])
    for party, message in broker.connect("north"): …          # whoever drives it sends these
    for party, message in broker.receive(message, Party("broker", "north")): …

Whoever drives it (a test, the simulator, sockets) promises: a channel between `connect` and `disconnect` delivers each
message once and in order; outputs to one party are sent in the order they are given; calls do not overlap; `run` rises
with each start. In return (docs/overlay.md): each client is notified exactly once of each publication that matches a
subscription of it that was in force when the publication was sent.

**Neighbours.** Name those that will connect (`neighbours`): until they have, nothing is in force beyond them, and
publications are held for them. A broker that starts again without this knowledge drops what they would have wanted.
**Undelivered publications.** Give `disconnect` what the channel had taken and the neighbour may not have received: its
publications are sent again once the next channel has synchronised. The neighbour ignores those that it knows.
**Batches.** `receive_many` gives the same deliveries as `receive`, message by message. It tells links about a run of
changes at once, so there may be fewer messages and fewer InForce, each of which stands for those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from earmark.errors import EarmarkError, EventError, check_flag, check_seconds, check_whole, checked_names
from earmark.events.mappings import checked_weights
from earmark.overlay import messages as m
from earmark.overlay.conditions import check_condition, check_work
from earmark.overlay.delivery import Client, Clients
from earmark.overlay.messages import Message, ProtocolError
from earmark.overlay.neighbour import Asker, NeighbourLink, Party, Stale
from earmark.overlay.offers import Offers
from earmark.overlay.policies import LOCAL, Entry, PolicyError, policy_of
from earmark.overlay.publications import Publications
from earmark.overlay.routing import Router, Sent
from earmark.overlay.status import client_status, router_status
from earmark.overlay.table import Table
from earmark.overlay.transitions import TABLE, State
from earmark.segment.builder import collector_held

__all__ = ["Broker", "Party", "Sent"]

_PUBLISHING = (m.Publication, m.Publish)
FEW = 64
"""Messages of a batch from which on the garbage collector is held back."""
MOST_ENTRIES = 10_000_000
"""Entries, and offers, of one link; and stale ones, beside them."""
MOST_RESTARTS = 8
"""How often a neighbour that changes its space may be told everything before it acknowledges all of it."""


class Broker:
    """One broker. See the module for what it promises, and to whom."""

    def __init__(
        self,
        name: str,
        *,
        policy: str = "covering",
        options: Mapping[str, object] | None = None,
        run: int = 1,
        neighbours: Iterable[str] = (),
        attributes: Mapping[str, str] | None = None,
        zone: str = "UTC",
        advertisements: bool = False,
        holding: int = 10_000,
        holding_bytes: int = 1 << 26,
        patience: float = 30.0,
        forget: float | None = None,
    ) -> None:
        """Make a broker that nobody is connected to.

        `options` are the policy's. `attributes` declares types, the same in all brokers of a network. With
        `advertisements`, subscriptions travel only to where something is advertised that they may match, and clients
        may publish only what they have advertised; all brokers agree on it. Without, advertising has no effect.
        `holding` is how many publications are held for a neighbour that cannot take them yet, and `holding_bytes` how
        many bytes of them. `patience` is how many seconds after the first tick to wait for `neighbours` that have not
        told everything, and how long a new channel may stay silent; `forget` is how many seconds after a neighbour has
        left it is dropped, None for never.
        """
        check_whole(run, "run", 0, 2**63 - 1)
        check_whole(holding, "holding", 0)
        check_whole(holding_bytes, "holding_bytes", 0)
        check_seconds(patience, "patience")
        check_flag(advertisements, "advertisements")
        if forget is not None:
            check_seconds(forget, "forget")
        m.check_name(name)
        self.name = name
        expected = checked_names(neighbours, "neighbours")
        for neighbour in expected:
            self._check_neighbour(neighbour)
        self.run = run
        rules = policy_of(policy, options or {})
        attributes = rules.declare(attributes or {}, zone)
        offers = Offers(attributes, zone) if advertisements else None
        self._router = Router(name, run, rules, policy, Table(attributes, zone), offers)
        self._clients = Clients(attributes, zone)
        self._publications = Publications(name, run, self._router, self._clients, (holding, holding_bytes))
        self._patience, self._forget = patience, forget
        self._awaited = set(expected)
        """Neighbours whose place is kept until they have told everything, or patience ends."""
        self._given_up: set[str] = set()
        """Neighbours without a link whose channel is still there, though not for long."""
        self._first_tick: float | None = None
        self._lost = 0
        self._errors = 0
        self._out: list[Sent] = []
        self._added: dict[int, Entry] = {}
        self._removed: list[Entry] = []
        self._asks: dict[Asker, int] = {}
        """The last number of each who has asked for something since links were told."""
        for neighbour in expected:
            self._router.link(neighbour)

    # --- channels and clients come and go ------------------------------------------------------------------------

    def connect(self, neighbour: str) -> list[Sent]:
        """A channel to a neighbour exists, new and empty: greet it, and tell everything."""
        self._check_neighbour(neighbour)
        link = None if neighbour in self._given_up else self._router.link(neighbour)
        if link is None or link.is_connected:
            raise EarmarkError(f"{neighbour!r} is connected already; disconnect it first")
        link.state, link.quiet_since = State.GREETING, None
        return self._router.greet(link)

    def _check_neighbour(self, name: str) -> None:
        m.check_name(name)
        if name == self.name:
            raise EarmarkError(f"expected the name of another broker, got {name!r}")

    def disconnect(self, neighbour: str, undelivered: Iterable[Message] = ()) -> list[Sent]:
        """The channel is gone. What the neighbour wants still counts: publications for it are held.

        `undelivered` is what was given to the channel and may not have arrived, in order. A neighbour that is not among
        the expected ones, and has not told what it wants, is dropped: others would wait for it in vain.
        """
        if neighbour in self._given_up:
            self._given_up.remove(neighbour)
            return []
        link = self._router.links.get(neighbour)
        if link is None or not link.is_connected:
            raise EarmarkError(f"{neighbour!r} is not connected")
        self._router.cut(link)
        self._publications.hold_again(link, undelivered)
        return [] if link.is_known or neighbour in self._awaited else self._drop(link)

    def drop(self, neighbour: str) -> list[Sent]:
        """A neighbour will not come back: forget what it wants and what was held for it."""
        link = self._router.links.get(neighbour)
        if link is None or link.is_connected:
            raise EarmarkError(f"expected the name of a neighbour without a channel, got {neighbour!r}")
        self._awaited.discard(neighbour)
        return self._drop(link)

    @property
    def space(self) -> int:
        """The number of the space in which ranges are told; 0 for none."""
        return self._router.policy.space

    @property
    def neighbours(self) -> tuple[str, ...]:
        """Those that have a link: connected, expected, or away."""
        return tuple(self._router.links)

    def _drop(self, link: NeighbourLink) -> list[Sent]:
        self._lost += len(link.held) + link.lost
        for entry in Router.entries_of(link):
            self._router.table.remove(link.key(entry))
        return self._router.drop(link)

    def attach(self, client: str, most: int | None = None, most_bytes: int | None = None) -> list[Sent]:
        """A client is there: what waited for it, and what is in force.

        With `most` and `most_bytes`, no more notifications than this; if others wait, the client stays detached, and is
        to be attached again when it has taken these (`waiting`).
        """
        m.check_name(client)
        known, party = self._clients.of(client), Party("client", client)
        in_force = [m.InForce(known.answered)] if known.answered else []
        return [(party, message) for message in (*in_force, *known.attach(most, most_bytes))]

    def waiting(self, client: str) -> int:
        """How many notifications wait for a client."""
        return len(self._clients.of(client).waiting)

    def detach(self, client: str) -> list[Sent]:
        """A client is away. Its subscriptions stay, and its notifications wait."""
        self._clients.of(client).is_attached = False
        return []

    def forget(self, client: str) -> list[Sent]:
        """A client is gone for good, as if it had withdrawn everything."""
        known = self._clients.get(client)
        if known is None:
            return []
        self._removed += [self._clients.unsubscribe(known, id) for id in [*known.subscriptions]]
        self._flush()
        for offer in [self._clients.unadvertise(known, id) for id in [*known.offers]]:
            self._out += [] if self._router.offers is None else self._router.unoffered(offer)
        self._router.waiting.pop(id(known), None)
        self._clients.forget(known)
        return self._taken()

    def rekey(self, space: object) -> list[Sent]:
        """Use another space from now on, given by its description: everything is told again in it.

        All brokers are told the same, one after the other; meanwhile more is sent than needed, and nothing is missed.
        """
        self._flush()
        self._out += self._router.heed(self._router.policy.rekey(space))
        return self._taken()

    def tick(self, now: float) -> list[Sent]:
        """Time has come to `now`, in seconds since any moment: what was spread out over time, and an end of waiting."""
        if self._first_tick is None:
            self._first_tick = now
        for name, statement in self._router.policy.tick(now):
            self._out += self._router.say_all(self._router.links[name], [statement])
        if now - self._first_tick >= self._patience:
            self._awaited.clear()
        for link in [one for one in self._router.links.values() if self._waits_in_vain(one, now)]:
            if link.is_connected:
                self._given_up.add(link.name)
            self._out += self._drop(link)
        return self._taken()

    def _waits_in_vain(self, link: NeighbourLink, now: float) -> bool:
        """Whether a neighbour has been away, or silent on a new channel, for so long that it is dropped."""
        link.is_late = False
        if link.state is State.UP:
            return False
        if link.quiet_since is None:
            link.quiet_since = now
        if link.state is State.LISTENING:
            link.is_late = not link.is_known and now - link.quiet_since >= self._patience
            return False
        if link.is_known:
            return self._forget is not None and not link.is_connected and now - link.quiet_since >= self._forget
        if link.is_connected:
            return now - link.quiet_since >= self._patience
        return link.name not in self._awaited

    def late(self) -> list[str]:
        """Neighbours that have not told everything after `patience` seconds, as if they waited for this broker.

        That is what brokers of a cycle do: each of them waits for the next one.
        """
        return [link.name for link in self._router.links.values() if link.is_late]

    # --- messages ------------------------------------------------------------------------------------------------

    def receive(self, message: Message, from_: Party) -> list[Sent]:
        """Take one message; returns what to send. A ProtocolError names the sender, and nothing has changed."""
        return self.receive_many([(message, from_)])

    def receive_many(self, messages: Sequence[tuple[Message, Party]]) -> list[Sent]:
        """Take messages in order; returns what to send.

        A ProtocolError is about the first message that is wrong. The ones before it have taken effect: the error says
        how many these are (`handled`), and has what to send for them (`sent`). Those after it have not been looked at.
        """
        if len(messages) < FEW:
            return self._received(messages)
        with collector_held():
            return self._received(messages)

    def _received(self, messages: Sequence[tuple[Message, Party]]) -> list[Sent]:
        publishing = False
        for handled, (message, from_) in enumerate(messages):
            if publishing != isinstance(message, _PUBLISHING):
                publishing = not publishing
                self._flush()
            try:
                self._take(message, from_)
            except ProtocolError as problem:
                self._errors += 1
                problem.handled, problem.sent = handled, self._taken()
                raise
        return self._taken()

    def _take(self, message: Message, from_: Party) -> None:
        if from_.kind == "client":
            rule = TABLE.get((State.CLIENT, type(message)))
            if rule is None:
                raise _error(from_, f"expected what a client says, got {type(message).__name__}")
            self._take_request(getattr(self, rule.action), message, self._clients.of(from_.name))
            return
        link = self._router.links.get(from_.name)
        rule = None if link is None else TABLE.get((link.state, type(message)))
        if link is None or rule is None:
            state = "without a channel" if link is None else f"in state {link.state.name}"
            raise _error(from_, f"{type(message).__name__} is out of place {state}")
        getattr(self, rule.action)(link, message)
        link.state = rule.next

    def _flush(self) -> None:
        """Tell links about the changes so far, answer who asked, and send the publications so far."""
        if self._added or self._removed:
            added, self._added = [*self._added.values()], {}
            removed, self._removed = self._removed, []
            self._out += self._router.changed(added, removed)
        self._out += self._router.heed(self._router.policy.pass_on())
        for asker, number in self._asks.items():
            self._router.ask(asker, number)
        self._asks.clear()
        self._out += self._router.settle()
        self._out += self._publications.flush()

    def _taken(self) -> list[Sent]:
        self._flush()
        out, self._out = self._out, []
        return out

    def _remove(self, entry: Entry) -> None:
        """An entry goes; one that came in the same batch has never been there."""
        if self._added.pop(entry.number, None) is None:
            self._removed.append(entry)

    # --- from neighbours -----------------------------------------------------------------------------------------

    def _number(self, link: NeighbourLink, number: int) -> None:
        """Check the number of what a neighbour tells, as the last check before something changes."""
        if number <= link.heard:
            raise _error(link.party, f"expected a number above {link.heard}, got {number}")
        link.heard = number
        self._asks[link] = number

    def _greeted(self, link: NeighbourLink, hello: m.Hello) -> None:
        ours = self._router
        if hello.broker != link.name:
            raise _error(link.party, f"expected Hello from {link.name!r}, got one from {hello.broker!r}")
        if hello.policy != ours.policy_name:
            raise _error(link.party, f"expected the policy {ours.policy_name!r}, got {hello.policy!r}")
        if hello.space != ours.policy.space:
            raise _error(link.party, f"expected the space {ours.policy.space}, got {hello.space}")
        if hello.run < link.run:
            raise _error(link.party, f"expected a run of {link.run} or later, got {hello.run}")
        link.run = hello.run

    def _resynchronise(self, link: NeighbourLink, message: m.Resynchronise) -> None:
        if link.restarts > MOST_RESTARTS:
            raise _error(link.party, f"was told everything {link.restarts} times without acknowledging it")
        self._number(link, message.number)
        link.stale.add(link.wants.values())
        link.stale_offers.add(link.offers.values())
        link.wants, link.offers = {}, {}
        self._flush()
        self._out += self._router.heed(self._router.policy.restart_ranges(link.name, message.space))
        if link.is_known:
            self._flush()
            self._out += self._publications.flush_held(link)

    def _synchronised(self, link: NeighbourLink, message: m.Synchronised) -> None:
        self._number(link, message.number)
        for entry in link.stale:
            self._router.table.remove(link.key(entry))
            self._remove(entry)
        link.stale = Stale()
        gone, link.stale_offers = link.stale_offers, Stale()
        for offer in gone:
            self._out += self._router.unoffered(offer)
        self._flush()
        self._out += self._router.heed(self._router.policy.settle_ranges(link.name))
        link.is_known = True
        self._out += self._router.prune(link)
        self._flush()
        self._out += self._router.synchronise()
        self._out += self._publications.flush_held(link)

    def _want(self, link: NeighbourLink, message: m.Want) -> None:
        party = link.party
        if message.label in link.wants:
            raise _error(party, f"expected a new label, got {message.label} again")
        is_known = message.condition in link.stale
        if _is_full(link.wants, link.stale, is_known):
            raise _error(party, f"expected at most {MOST_ENTRIES:,} entries, and as many stale ones")
        if not is_known:
            self._check_condition(party, message.condition)
        self._number(link, message.number)
        if is_known:
            link.wants[message.label] = link.stale.pop(message.condition)
            return
        entry = link.wants[message.label] = self._router.entry(link.name, message.condition)
        self._added[entry.number] = entry
        self._router.table.add(link.key(entry), entry.condition)

    def _unwant(self, link: NeighbourLink, message: m.Unwant) -> None:
        if message.label not in link.wants:
            raise _error(link.party, f"expected the label of an entry, got {message.label}")
        self._number(link, message.number)
        entry = link.wants.pop(message.label)
        self._router.table.remove(link.key(entry))
        self._remove(entry)

    def _want_ranges(self, link: NeighbourLink, message: m.WantRanges) -> None:
        self._ranges(link, message, True)

    def _unwant_ranges(self, link: NeighbourLink, message: m.UnwantRanges) -> None:
        self._ranges(link, message, False)

    def _ranges(self, link: NeighbourLink, message: m.WantRanges | m.UnwantRanges, wanted: bool) -> None:
        _check_ranges(link.party, message.ranges)
        try:
            self._router.policy.check_ranges(link.name, wanted, message.space, message.ranges)
        except PolicyError as problem:
            raise _error(link.party, problem.reason) from None
        self._number(link, message.number)
        self._router.policy.want_ranges(link.name, wanted, message.ranges)

    def _offer(self, link: NeighbourLink, message: m.Offer) -> None:
        if self._router.offers is None:
            raise _error(link.party, "this network does not use advertisements")
        if message.label in link.offers:
            raise _error(link.party, f"expected a new label, got {message.label} again")
        is_known = message.condition in link.stale_offers
        if _is_full(link.offers, link.stale_offers, is_known):
            raise _error(link.party, f"expected at most {MOST_ENTRIES:,} offers, and as many stale ones")
        self._check_condition(link.party, message.condition)
        self._flush()  # it is in force when what is told because of it is, which is yet to come
        self._number(link, message.number)
        if is_known:
            link.offers[message.label] = link.stale_offers.pop(message.condition)
            return
        offer = link.offers[message.label] = self._router.entry(link.name, message.condition)
        self._out += self._router.offered(offer)

    def _unoffer(self, link: NeighbourLink, message: m.Unoffer) -> None:
        if message.label not in link.offers:
            raise _error(link.party, f"expected the label of an offer, got {message.label}")
        self._flush()
        self._number(link, message.number)
        self._out += self._router.unoffered(link.offers.pop(message.label))

    def _publication(self, link: NeighbourLink, message: m.Publication) -> None:
        if message.origin == self.name:
            raise _error(link.party, "got a publication of this broker back: the overlay has a cycle")
        if message.weights:
            try:
                checked_weights(message.weights, EventError)
            except EventError as problem:
                raise _error(link.party, str(problem)) from None
        self._publications.take(message, link.name)

    def _in_force(self, link: NeighbourLink, message: m.InForce) -> None:
        if not link.acknowledged <= message.number <= link.sent:
            wanted = f"from {link.acknowledged} to {link.sent}"
            raise _error(link.party, f"expected an acknowledged number {wanted}, got {message.number}")
        link.acknowledged = message.number
        if message.number >= link.base:
            link.restarts = 0

    def _check_condition(self, party: Party, condition: str) -> None:
        try:
            check_condition(condition)
        except EarmarkError as problem:
            raise _error(party, str(problem)) from None

    # --- from clients --------------------------------------------------------------------------------------------

    def _take_request(self, act: Callable[[Client, Any], None], request: Any, client: Client) -> None:
        """A request whose number is not above the last is a duplicate, and has been taken already."""
        if request.number <= client.last:
            if request.number <= client.answered and client.is_attached:
                self._out.append((client.party, m.InForce(client.answered)))
            return
        client.last = request.number
        try:
            act(client, request)
        except EarmarkError as problem:
            self._out.append((client.party, m.Refused(request.number, str(problem))))
        if not isinstance(request, m.Publish):
            self._asks[client] = request.number

    def _subscribe(self, client: Client, request: m.Subscribe) -> None:
        known = client.subscriptions.get(request.id)
        if known is not None:
            if _same(known[1], request):
                return
            raise EarmarkError(f"there is a subscription {request.id!r} already; withdraw it first")
        check_work(request.condition)
        entry = self._router.entry(LOCAL, request.condition)
        self._clients.subscribe(client, entry, request)
        self._added[entry.number] = entry

    def _unsubscribe(self, client: Client, request: m.Unsubscribe) -> None:
        if request.id not in client.subscriptions:
            raise EarmarkError(f"there is no subscription {request.id!r}")
        self._remove(self._clients.unsubscribe(client, request.id))

    def _publish(self, client: Client, request: m.Publish) -> None:
        self._clients.check_event(request.event, request.weights)
        if self._router.offers is not None and not self._clients.is_offered(client, request.event):
            raise EarmarkError(
                "expected an event that matches an advertisement of this client, with all values of its intervals"
            )
        self._publications.publish(request)

    def _advertise(self, client: Client, request: m.Advertise) -> None:
        known = client.offers.get(request.id)
        if known is not None and known.condition == request.condition:
            return
        if known is not None:
            raise EarmarkError(f"there is an advertisement {request.id!r} already; withdraw it first")
        check_work(request.condition)
        offer = self._router.entry(LOCAL, request.condition)
        self._clients.advertise(client, offer, request.id)
        if self._router.offers is not None:
            self._flush()
            self._out += self._router.offered(offer)

    def _unadvertise(self, client: Client, request: m.Unadvertise) -> None:
        if request.id not in client.offers:
            raise EarmarkError(f"there is no advertisement {request.id!r}")
        offer = self._clients.unadvertise(client, request.id)
        if self._router.offers is not None:
            self._flush()
            self._out += self._router.unoffered(offer)

    def _prefer(self, client: Client, request: m.Prefer) -> None:
        client.prefer(request)

    # --- looking -------------------------------------------------------------------------------------------------

    def subscriptions(self) -> Iterator[tuple[str, m.Subscribe]]:
        """The local subscriptions, by client, to be kept in a file and received again after a restart."""
        for client in self._clients:
            for _, request in client.subscriptions.values():
                yield client.name, request

    def held(self, neighbour: str) -> tuple[m.Publication, ...]:
        """The publications that wait for a neighbour, oldest first: lost if this broker stops."""
        return tuple(self._router.links[neighbour].held)

    def status(self) -> dict[str, object]:
        """Tables, links, queues and counters, JSON-able."""
        return {
            "name": self.name,
            "run": self.run,
            **router_status(self._router),
            "clients": {client.name: client_status(client) for client in self._clients},
            "publications": self._publications.status() | {"lost": self._lost + self._publications.lost()},
            "errors": self._errors,
        }


def _is_full(told: Mapping[int, Entry], stale: Stale, is_known: bool) -> bool:
    """Whether one more is too many; one that is known adds nothing to all there are."""
    return len(told) >= MOST_ENTRIES or (not is_known and len(told) + len(stale) >= 2 * MOST_ENTRIES)


def _error(party: Party, reason: str) -> ProtocolError:
    return ProtocolError(f"{party.kind} {party.name!r}: {reason}")


def _same(one: m.Subscribe, other: m.Subscribe) -> bool:
    return (one.condition, one.weights, one.score) == (other.condition, other.weights, other.score)


def _check_ranges(party: Party, ranges: Sequence[tuple[int, int]]) -> None:
    last = -2
    for low, high in ranges:
        if not last < low <= high:
            raise _error(party, f"expected ascending, disjoint ranges, got [{low}, {high}] after {max(last, -1)}")
        last = high
