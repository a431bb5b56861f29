"""Three brokers in one process: subscriptions spread, publications follow them back, a link is cut and restored.

    python examples/brokers.py

Brokers do no input or output themselves: the code that drives them carries their messages. Here it is a few lines with
a queue per link; `earmark broker` does it with sockets, `earmark simulate` with a simulated clock.
"""

from __future__ import annotations

from collections import Counter, deque

from earmark.overlay.broker import Broker, Party, Sent
from earmark.overlay.messages import InForce, Message, Notify, Publish, Subscribe, Unsubscribe

NETWORK = {"north": ["hub"], "hub": ["north", "south"], "south": ["hub"]}
brokers = {name: Broker(name, policy="covering", neighbours=neighbours) for name, neighbours in NETWORK.items()}
queues: dict[tuple[str, str], deque[Message]] = {}
traffic: Counter[str] = Counter()


def send(source: str, sent: list[Sent]) -> None:
    """Queue messages to brokers, and print those to clients."""
    for party, message in sent:
        if party.kind == "broker":
            traffic[type(message).__name__] += 1
            queues[source, party.name].append(message)
        elif isinstance(message, Notify):
            print(f"  {party.name} is notified of {message.event}, for {', '.join(map(str, message.ids))}")
        elif isinstance(message, InForce):
            print(f"  {party.name} knows that request {message.number} is in force everywhere")


def connect(a: str, b: str) -> None:
    """Open a channel between two brokers."""
    queues[a, b], queues[b, a] = deque(), deque()
    send(a, brokers[a].connect(b))
    send(b, brokers[b].connect(a))


def cut(a: str, b: str) -> None:
    """Cut a channel and lose what is in it; each side is told what it may have lost."""
    for source, target in ((a, b), (b, a)):
        send(source, brokers[source].disconnect(target, queues.pop((source, target))))


def settle() -> None:
    """Deliver messages until none are left."""
    while busy := [pair for pair, queue in queues.items() if queue]:
        for source, target in busy:
            send(target, brokers[target].receive(queues[source, target].popleft(), Party("broker", source)))


def ask(home: str, client: str, request: Message) -> None:
    """Send a client's request to its broker, and wait until everything has settled."""
    send(home, brokers[home].receive(request, Party("client", client)))
    settle()


for a, b in (("north", "hub"), ("hub", "south")):
    connect(a, b)
settle()
for home, client in (("north", "ann"), ("south", "bob")):
    send(home, brokers[home].attach(client))

print("ann subscribes twice; the second is covered by the first, and no broker need hear of it:")
traffic.clear()
ask("north", "ann", Subscribe(1, "homes", "price < 500000"))
ask("north", "ann", Subscribe(2, "bargains", "price < 200000 AND rooms >= 3"))
print(f"  messages between brokers: {traffic['Want']} Want")

print("bob publishes in the south:")
ask("south", "bob", Publish(1, {"price": 180000, "rooms": 4}))
ask("south", "bob", Publish(2, {"price": 900000, "rooms": 9}))

print("a link is cut; what is published meanwhile comes when it is restored:")
cut("north", "hub")
ask("south", "bob", Publish(3, {"price": 300000, "rooms": 2}))
print("  (nothing yet)")
connect("north", "hub")
settle()

print("ann withdraws the wide one; the narrow one is told first:")
traffic.clear()
ask("north", "ann", Unsubscribe(3, "homes"))
print(f"  messages between brokers: {traffic['Want']} Want, {traffic['Unwant']} Unwant")
ask("south", "bob", Publish(4, {"price": 300000, "rooms": 2}))
ask("south", "bob", Publish(5, {"price": 150000, "rooms": 3}))
