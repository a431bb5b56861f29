"""Local delivery: which clients a publication is for, exactly, and what waits for those who are away.

An attached client is notified at once. For a detached one notifications wait, at most `Prefer.queue` of them; when one
more comes, the one whose best score is lowest goes (of equal ones the oldest), and is counted. On its return the client
is told first how many were shed, then what waited, in order. Whoever drives a broker detaches a client that does not
keep up, and attaches it again when it has.

With `Prefer.k`, a notification names the k best of the client's own subscriptions that match, best first, as `top_k`
would; otherwise all, in order of insertion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from earmark.errors import SubscriptionError
from earmark.events.mappings import Interval
from earmark.overlay.messages import Id, Message, Notify, Prefer, Publication, Shed, Subscribe, encoded
from earmark.overlay.neighbour import Asker, Party
from earmark.overlay.policies import Entry
from earmark.overlay.table import Table

MOST_WAITING_BYTES = 1 << 26
"""Bytes of notifications that wait for one client; when there are more, the worst are shed, and counted."""
MOST_SUBSCRIPTIONS = 1_000_000
"""Subscriptions, and advertisements, of one client."""


@dataclass(eq=False)
class Client(Asker):
    """One client: its subscriptions and advertisements, and what waits for it."""

    last: int = 0
    """The highest number it has used."""
    subscriptions: dict[Id, tuple[Entry, Subscribe]] = field(default_factory=dict)
    offers: dict[Id, Entry] = field(default_factory=dict)
    prefers: Prefer = field(default_factory=lambda: Prefer(0))
    waiting: dict[int, tuple[Notify, int]] = field(default_factory=dict)
    """By a number that rises, with the bytes of its binary form."""
    waiting_bytes: int = 0
    worst: list[tuple[float, int]] = field(default_factory=list)
    """A heap of the best score and the number of each that waits, and of some that were sent."""
    shed: int = 0
    """Shed since it was last told."""
    shed_in_all: int = 0

    def notify(self, notification: Notify) -> list[Message]:
        """What to send it now: the notification, unless it waits."""
        if self.is_attached:
            return [notification]
        number = next(reversed(self.waiting), 0) + 1
        size = len(encoded(notification))
        self.waiting[number] = notification, size
        self.waiting_bytes += size
        heappush(self.worst, (max(notification.scores, default=0.0), number))
        if len(self.worst) > 2 * len(self.waiting) + 64:
            self.worst = [one for one in self.worst if one[1] in self.waiting]
            heapify(self.worst)
        self._shed()
        return []

    def _shed(self) -> None:
        while len(self.waiting) > self.prefers.queue or self.waiting_bytes > MOST_WAITING_BYTES:
            number = heappop(self.worst)[1]
            if number not in self.waiting:  # it has been sent
                continue
            self.waiting_bytes -= self.waiting.pop(number)[1]
            self.shed += 1
            self.shed_in_all += 1

    def prefer(self, prefers: Prefer) -> None:
        """Notify it so from now on."""
        self.prefers = prefers
        self._shed()

    def attach(self, most: int | None = None, most_bytes: int | None = None) -> list[Message]:
        """It is there: what waited for it, at least one notification, at most `most` of them and `most_bytes` bytes.

        It stays detached if others wait.
        """
        messages: list[Message] = [Shed(self.shed)] if self.shed else []
        self.shed = taken = size = 0
        for number in [*self.waiting]:
            notification, each = self.waiting[number]
            is_enough = most is not None and taken >= most
            if taken and (is_enough or (most_bytes is not None and size + each > most_bytes)):
                self.is_attached = False
                return messages
            del self.waiting[number]
            self.waiting_bytes -= each
            messages.append(notification)
            taken, size = taken + 1, size + each
        self.is_attached, self.worst = True, []
        return messages


class Clients:
    """All clients of a broker, and the table of their subscriptions."""

    def __init__(self, attributes: Mapping[str, str] | None, zone: str) -> None:
        self._clients: dict[str, Client] = {}
        self._types = attributes, zone
        self._table = Table(*self._types, scores=True)
        self._offers = Table(*self._types)
        self._owners: dict[int, tuple[Client, Id]] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def __iter__(self) -> Iterator[Client]:
        return iter(self._clients.values())

    def get(self, name: str) -> Client | None:
        """The client with this name."""
        return self._clients.get(name)

    def of(self, name: str) -> Client:
        """The client with this name; a new one is detached."""
        if name not in self._clients:
            self._clients[name] = Client(Party("client", name), is_attached=False)
        return self._clients[name]

    def subscribe(self, client: Client, entry: Entry, request: Subscribe) -> None:
        """Add a subscription, or raise a SubscriptionError."""
        if len(client.subscriptions) >= MOST_SUBSCRIPTIONS:
            raise SubscriptionError(f"expected at most {MOST_SUBSCRIPTIONS:,} subscriptions of one client")
        try:
            self._table.add_now(entry.number, request.condition, request.weights, request.score)
        except SubscriptionError as problem:
            raise problem.at(id=request.id) from None
        client.subscriptions[request.id] = entry, request
        self._owners[entry.number] = client, request.id

    def unsubscribe(self, client: Client, id: Id) -> Entry:
        """Remove a subscription."""
        entry, _ = client.subscriptions.pop(id)
        self._table.remove(entry.number)
        del self._owners[entry.number]
        return entry

    def advertise(self, client: Client, offer: Entry, id: Id) -> None:
        """Add an advertisement, or raise a SubscriptionError."""
        if len(client.offers) >= MOST_SUBSCRIPTIONS:
            raise SubscriptionError(f"expected at most {MOST_SUBSCRIPTIONS:,} advertisements of one client")
        try:
            self._offers.add_now(offer.number, offer.condition, {}, 0.0)
        except SubscriptionError as problem:
            raise SubscriptionError(f"advertisement {id!r}: {problem}") from None
        client.offers[id] = offer

    def unadvertise(self, client: Client, id: Id) -> Entry:
        """Remove an advertisement."""
        offer = client.offers.pop(id)
        self._offers.remove(offer.number)
        return offer

    def is_offered(self, client: Client, event: Mapping[str, object]) -> bool:
        """Whether a client has advertised an event; where it has intervals, all values inside them, in one condition.

        Some would not do: what nobody advertised is told on no link that leads here.
        """
        matching = set(self._offers.matches([event]).numbers.tolist())
        offers = [offer for offer in client.offers.values() if offer.number in matching]
        if not any(isinstance(value, Interval) for value in event.values()):
            return bool(offers)
        return any(self._takes_all(offer.condition, event) for offer in offers)

    def _takes_all(self, condition: str, event: Mapping[str, object]) -> bool:
        """Whether a condition holds for all values inside the intervals of an event; False if that is hard to say."""
        otherwise = Table(*self._types)
        try:
            otherwise.add_now(0, f"({condition}) IS NOT TRUE", {}, 0.0)
        except SubscriptionError:  # its normal form is too long
            return False
        found = otherwise.matches([event])
        return not len(found.numbers) and not found.unread

    def forget(self, client: Client) -> None:
        """Remove a client that has no subscriptions."""
        self._clients.pop(client.name, None)

    def check_event(self, event: Mapping[str, object], weights: Mapping[str, float]) -> None:
        """Raise an EventError where an event does not fit the types that conditions have given to attributes."""
        self._table.check_event(event, weights)

    def deliveries(self, publications: Sequence[Publication]) -> list[list[tuple[Client, Message]]]:
        """For each publication, what to send to which client."""
        if not self._owners:
            return [[] for _ in publications]
        weights = [one.weights for one in publications] if any(one.weights for one in publications) else None
        found = self._table.matches([one.event for one in publications], weights)
        starts, numbers, scores = found.starts.tolist(), found.numbers.tolist(), found.scores.tolist()
        made = []
        for place, publication in enumerate(publications):
            first, last = starts[place], starts[place + 1]
            made.append(self._for(publication, numbers[first:last], scores[first:last]))
        return made

    def _for(self, publication: Publication, numbers: list[int], scores: list[float]) -> list[tuple[Client, Message]]:
        matches: dict[Client, list[tuple[Id, float]]] = {}
        for number, score in zip(numbers, scores, strict=True):
            client, id = self._owners[number]
            matches.setdefault(client, []).append((id, score))
        made: list[tuple[Client, Message]] = []
        for client, best in matches.items():
            if client.prefers.k is not None:
                best = sorted(best, key=lambda match: -match[1])[: client.prefers.k]
            ids, values = zip(*best, strict=True) if best else ((), ())
            named = publication.origin, publication.run, publication.number, publication.event
            made += [(client, message) for message in client.notify(Notify(*named, ids, values))]
        return made
