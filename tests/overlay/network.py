"""A network of brokers in memory: channels are queues, and a seed decides which of them moves next.

    network = Network([("a", "b"), ("b", "c")], policy="flood")
    network.subscribe("ann@a", "1", "x > 5")
    network.run()                                     # until nothing is on its way
    network.publish("bob@c", {"x": 7})
    network.run()
    network.inbox("ann@a")                            # [({"x": 7}, ("1",))]

A client is called "name@broker". Everything that clients are told goes into their `heard`.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Any

from earmark.overlay.broker import Broker, Party, Sent
from earmark.overlay.messages import InForce, Message, Notify, Prefer, Publish, Subscribe, Unsubscribe, decoded, encoded

UNACKNOWLEDGED = 4
"""Messages that have arrived, and that a channel still counts among those that may not have."""


class Network:
    """Brokers, channels between them, and clients."""

    def __init__(
        self,
        edges: Iterable[tuple[str, str]],
        policy: str = "covering",
        options: Mapping[str, object] | None = None,
        seed: int = 0,
        names: Iterable[str] = (),
        **settings: Any,
    ) -> None:
        self.edges = [tuple(edge) for edge in edges]
        self.policy, self.options, self.settings = policy, options or {}, settings
        self.random = random.Random(seed)
        self.channels: dict[tuple[str, str], deque[Message]] = {}
        self.recent: dict[tuple[str, str], deque[Message]] = {}
        self.heard: dict[str, list[Message]] = defaultdict(list)
        self.numbers: dict[str, int] = defaultdict(int)
        self.known: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
        """By client and origin, the last publication before its broker ended."""
        self.messages = 0
        """How many have been sent between brokers."""
        self.log: list[tuple[str, str, Message]] = []
        names = sorted({*names, *(name for edge in self.edges for name in edge)})
        self.brokers = {name: self._broker(name, 1) for name in names}
        for edge in self.edges:
            self.connect(*edge)

    def _broker(self, name: str, run: int) -> Broker:
        neighbours = [a if b == name else b for a, b in self.edges if name in (a, b)]
        settings: dict[str, Any] = {"policy": self.policy, "options": self.options, **self.settings}
        return Broker(name, run=run, neighbours=neighbours, **settings)

    # --- channels ------------------------------------------------------------------------------------------------

    def send(self, source: str, sent: Iterable[Sent]) -> None:
        """Put what a broker sends on its way; clients have it at once."""
        for party, message in sent:
            message = decoded(encoded(message), source)
            if party.kind == "client":
                if not self._is_known(party.name, message):
                    self.heard[party.name].append(message)
            elif (source, party.name) in self.channels:
                self.messages += 1
                self.log.append((source, party.name, message))
                self.channels[source, party.name].append(message)
            else:
                raise AssertionError(f"{source} sends {message} to {party.name} without a channel")

    def _is_known(self, client: str, message: Message) -> bool:
        """Whether a client was notified of this before its broker ended: a new one cannot know that it was."""
        if not isinstance(message, Notify):
            return False
        return (message.run, message.number) <= self.known[client].get(message.origin, (0, 0))

    def is_connected(self, a: str, b: str) -> bool:
        return (a, b) in self.channels

    def connect(self, a: str, b: str) -> None:
        """Make a new channel between two brokers."""
        for pair in ((a, b), (b, a)):
            self.channels[pair], self.recent[pair] = deque(), deque(maxlen=UNACKNOWLEDGED)
        self.send(a, self.brokers[a].connect(b))
        self.send(b, self.brokers[b].connect(a))

    def cut(self, a: str, b: str) -> None:
        """Reset a channel: what is on its way is lost, and some of what has arrived is not known to have."""
        for source, target in ((a, b), (b, a)):
            queue, recent = self.channels.pop((source, target)), self.recent.pop((source, target))
            again = self.random.randint(0, len(recent))
            undelivered = [*list(recent)[len(recent) - again :], *queue]
            if source in self.brokers:
                self.send(source, self.brokers[source].disconnect(target, undelivered))

    def restart(self, name: str) -> None:
        """End a broker and start it again with its local subscriptions, without connecting it."""
        old = self.brokers.pop(name)
        for a, b in [pair for pair in self.channels if pair[0] == name]:
            self.cut(a, b)
        broker = self.brokers[name] = self._broker(name, old.run + 1)
        for client in [client for client in self.heard if client.endswith(f"@{name}")]:
            last = self.known[client]
            for one in self.notifications(client):
                last[one.origin] = max(last.get(one.origin, (0, 0)), (one.run, one.number))
        for client, request in [*old.subscriptions()]:
            broker.receive(request, Party("client", client))
        for client in {c for c, _ in old.subscriptions()}:
            self.send(name, broker.attach(client))

    def reconnect(self) -> None:
        """Connect whatever is not."""
        for a, b in self.edges:
            if not self.is_connected(a, b):
                self.connect(a, b)

    def step(self) -> bool:
        """Let one message arrive; False where nothing is on its way."""
        busy = [pair for pair, queue in self.channels.items() if queue]
        if not busy:
            return False
        source, target = pair = self.random.choice(busy)
        count = self.random.choice([1, 1, 1, 2, 5])
        queue, taken = self.channels[pair], []
        while queue and len(taken) < count:
            taken.append(queue.popleft())
        self.recent[pair].extend(taken)
        broker = self.brokers[target]
        self.send(target, broker.receive_many([(message, Party("broker", source)) for message in taken]))
        return True

    def run(self, most: int = 1_000_000) -> None:
        """Until nothing is on its way."""
        for _ in range(most):
            if not self.step():
                for recent in self.recent.values():  # by now all of it is known to have arrived
                    recent.clear()
                return
        raise AssertionError(f"messages are still on their way after {most:,} steps")

    def tick(self, now: float) -> None:
        for name, broker in self.brokers.items():
            self.send(name, broker.tick(now))

    # --- clients -------------------------------------------------------------------------------------------------

    def request(self, client: str, kind: type[Message], *fields: Any, **named: Any) -> int:
        """Send a request of a client, which is attached to its broker; returns its number."""
        home = client.rpartition("@")[2]
        if client not in self.numbers:
            self.send(home, self.brokers[home].attach(client))
        self.numbers[client] += 1
        message = kind(self.numbers[client], *fields, **named)
        self.send(home, self.brokers[home].receive(message, Party("client", client)))
        return self.numbers[client]

    def subscribe(self, client: str, id: str | int, condition: str, **named: Any) -> int:
        return self.request(client, Subscribe, id, condition, **named)

    def unsubscribe(self, client: str, id: str | int) -> int:
        return self.request(client, Unsubscribe, id)

    def publish(self, client: str, event: Mapping[str, Any], **named: Any) -> int:
        return self.request(client, Publish, dict(event), **named)

    def prefer(self, client: str, **named: Any) -> int:
        return self.request(client, Prefer, **named)

    def notifications(self, client: str) -> list[Notify]:
        return [message for message in self.heard[client] if isinstance(message, Notify)]

    def inbox(self, client: str) -> list[tuple[dict[str, Any], tuple[Any, ...]]]:
        """The notifications of a client so far, as (event, ids)."""
        return [(one.event, one.ids) for one in self.notifications(client)]

    def in_force(self, client: str) -> int:
        """Up to which of its requests a client knows them to be in force."""
        return max((one.number for one in self.heard[client] if isinstance(one, InForce)), default=0)
