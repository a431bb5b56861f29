"""Compile what brokers call before it is needed: part of `earmark warm`, and of `earmark broker` before it listens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from earmark.overlay import messages as m
from earmark.overlay.broker import Broker, Party
from earmark.overlay.messages import Message
from earmark.overlay.simulation.content import Content, content_of
from earmark.overlay.simulation.variants import VARIANTS, variant_of

MANY = 300
"""Subscriptions: enough that a covering index has blocks."""


def warm_brokers() -> None:
    """Use a broker of every policy, and one with advertisements, as a client and a neighbour do."""
    content = content_of("shen-zipf", MANY, 20)
    for name in VARIANTS:
        policy, options = variant_of(name, content, {})
        _use(Broker("warm", policy=policy, options=options, neighbours=["north"]), content)
    _use(Broker("warm", advertisements=True, neighbours=["north"]), content, has_offers=True)


def warm_broker(policy: str, options: Mapping[str, object], advertisements: bool = False) -> None:
    """Use a broker with this policy and these options, so that one that serves others need not compile meanwhile.

    It has a space and a sample of its own, which suit the conditions that it is given; kernels depend on neither.
    """
    content = content_of("shen-zipf", MANY, 20)
    name, usual = variant_of(policy, content, {key: options[key] for key in options if key not in ("space", "sample")})
    broker = Broker("warm", policy=name, options=usual, advertisements=advertisements, neighbours=["north"])
    _use(broker, content, has_offers=advertisements)


def _use(broker: Broker, content: Content, has_offers: bool = False) -> None:
    ann, north = Party("client", "ann"), Party("broker", "north")
    broker.attach("ann")
    sent = [message for _, message in broker.connect("north")]
    hello = next(message for message in sent if isinstance(message, m.Hello))
    space = hello.space
    for message in (m.Hello("north", 1, hello.policy, space), m.Resynchronise(1, space), m.Synchronised(2)):
        broker.receive(message, north)
    if has_offers:
        broker.receive(m.Offer(3, 1, content.conditions[1]), north)
    broker.receive_many([(request, ann) for request in _requests(content)])
    if not space:
        broker.receive_many([(m.Want(4 + i, i, text), north) for i, text in enumerate(content.conditions)])
        broker.receive_many([(m.Unwant(MANY + 4 + i, i), north) for i in range(MANY // 2)])
    else:
        broker.receive(m.WantRanges(4, space, ((0, 5), (9, 12))), north)
        broker.receive(m.UnwantRanges(5, space, ((3, 10),)), north)
    publications = [m.Publication("far", 1, i, dict(event)) for i, event in enumerate(content.events, 1)]
    broker.receive(publications[0], north)
    broker.receive_many([(publication, north) for publication in publications[1:]])


def _requests(content: Content) -> Iterator[Message]:
    """What a client asks for, offers, publishes and withdraws."""
    yield m.Advertise(1, "offer", content.conditions[0])
    for place, text in enumerate(content.conditions):
        yield m.Subscribe(2 + place, place, text)
    for place, event in enumerate(content.events):
        yield m.Publish(2 + MANY + place, dict(event))
    for place in range(MANY // 2):
        yield m.Unsubscribe(2 + MANY + len(content.events) + place, place)
