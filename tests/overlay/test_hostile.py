"""Malformed and hostile messages: nothing but a ProtocolError that names the sender, and nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.overlay.ranges import SPACE

from earmark.overlay import messages as m
from earmark.overlay.broker import Broker, Party
from earmark.overlay.transitions import State

small = st.integers(0, 8)
numbers = st.one_of(small, st.integers(0, 2**63 - 1))
names = st.sampled_from(["a", "b", "c", "x" * 256])
ids = st.one_of(small, st.sampled_from(["1", "", "é" * 1_024]))
conditions = st.one_of(
    st.sampled_from(["x > 5", "x = 'text'", "TRUE", "NOT x > 5", "x >", "x > 5; DROP", "(" * 500, "x = " + "9" * 400]),
    st.text(min_size=1, max_size=30),
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64), st.floats(), st.text(max_size=5))
events = st.dictionaries(st.sampled_from(["x", "y", "", "\0"]), st.one_of(scalars, st.tuples(scalars, scalars)))
weights = st.dictionaries(st.sampled_from(["x", "y"]), st.floats(), max_size=2)
pairs = st.lists(st.tuples(numbers, numbers), max_size=4).map(tuple)

messages = st.one_of(
    st.builds(m.Subscribe, numbers, ids, conditions, weights, st.floats()),
    st.builds(m.Unsubscribe, numbers, ids),
    st.builds(m.Publish, numbers, events, weights),
    st.builds(m.Advertise, numbers, ids, conditions),
    st.builds(m.Unadvertise, numbers, ids),
    st.builds(m.Prefer, numbers, st.one_of(st.none(), numbers), st.integers(1, 4)),
    st.builds(m.Refused, numbers, st.text(max_size=5)),
    st.builds(m.Notify, names, numbers, numbers, events, st.just(()), st.just(())),
    st.builds(m.Shed, numbers),
    st.builds(m.Hello, names, numbers, st.sampled_from(["flood", "covering", "merging"]), numbers),
    st.builds(m.Want, numbers, numbers, conditions),
    st.builds(m.Unwant, numbers, numbers),
    st.builds(m.WantRanges, numbers, numbers, pairs),
    st.builds(m.UnwantRanges, numbers, numbers, pairs),
    st.builds(m.Offer, numbers, numbers, conditions),
    st.builds(m.Unoffer, numbers, numbers),
    st.builds(m.Resynchronise, numbers, numbers),
    st.builds(m.Synchronised, numbers),
    st.builds(m.Publication, names, numbers, numbers, events, weights),
    st.builds(m.InForce, numbers),
)
senders = st.sampled_from([Party("broker", "b"), Party("broker", "c"), Party("broker", "z"), Party("client", "b")])


def refusal(call: Callable[..., Any], *arguments: Any) -> m.ProtocolError | None:
    """The ProtocolError that a call raises, if it raises one."""
    try:
        call(*arguments)
    except m.ProtocolError as problem:
        return problem
    return None


def snapshot(broker: Broker) -> Any:
    """Everything that a message could change, errors counted apart."""
    router = broker._router
    status = broker.status()
    del status["errors"]
    tables = [(link.wants, link.offers, link.stale, link.state, [*link.held]) for link in router.links.values()]
    told = [router.policy.told(name) for name in router.links]
    clients = [(c.name, c.last, c.subscriptions, c.offers, c.prefers, c.waiting) for c in broker._clients]
    return msgspec.json.encode(status), repr(tables), repr(told), repr(clients), repr(router.entries)


def broker_with(policy: str, options: dict[str, Any], advertisements: bool) -> Broker:
    """A broker with a neighbour that is up, one that is connected, and a client."""
    broker = Broker("a", policy=policy, options=options, advertisements=advertisements, neighbours=["b", "c", "d"])
    name, space = broker._router.policy_name, broker._router.policy.space
    told = [m.Hello("b", 1, name, space), m.Resynchronise(1, space), m.Want(2, 1, "x > 5"), m.Synchronised(3)]
    broker.connect("b")
    broker.receive_many([(message, Party("broker", "b")) for message in told])
    broker.connect("c")
    broker.attach("b")
    broker.receive(m.Subscribe(1, "1", "x > 7"), Party("client", "b"))
    return broker


@pytest.mark.parametrize(
    ("policy", "options", "advertisements"),
    [("flood", {}, False), ("covering", {}, True), ("merging", {"space": SPACE}, False)],
)
def test_hostile_messages_are_protocol_errors_and_change_nothing(policy, options, advertisements):
    @settings(max_examples=40)
    @given(st.lists(st.tuples(messages, senders), min_size=1, max_size=25))
    def run(received: list[tuple[m.Message, Party]]) -> None:
        broker = broker_with(policy, options, advertisements)
        for message, sender in received:
            before = snapshot(broker)
            if (problem := refusal(broker.receive, message, sender)) is not None:
                assert str(problem).startswith(f"{sender.kind} {sender.name!r}: ")
                assert problem.handled == 0 and not problem.sent
                assert snapshot(broker) == before
        assert broker._router.links["d"].state == State.ABSENT

    run()


@settings(max_examples=100)
@given(st.binary(max_size=60))
def test_bytes_are_a_message_or_a_protocol_error(data):
    for content in (data, bytes([m.WIRE_VERSION]) + data):
        problem = refusal(m.decoded, content, "broker 'b'")
        assert problem is None or str(problem).startswith("broker 'b': ")


@settings(max_examples=100)
@given(messages, st.integers(0, 1_000), st.integers(0, 255))
def test_a_changed_byte_is_a_message_or_a_protocol_error(message, place, byte):
    data = bytearray(m.encoded(message))
    data[place % len(data)] = byte
    problem = refusal(m.decoded, bytes(data), "client 'ann'")
    assert problem is None or str(problem).startswith("client 'ann': ")


def test_versions_and_sizes_are_checked():
    with pytest.raises(m.ProtocolError, match="expected a message of protocol version 1, got version 2"):
        m.decoded(b"\x02" + m.encoded(m.InForce(1))[1:], "b")
    with pytest.raises(m.ProtocolError, match="expected a message of at most"):
        m.decoded(bytes(m.MOST_BYTES + 1), "b")
    with pytest.raises(m.ProtocolError, match="got nothing"):
        m.decoded(b"", "b")


def test_what_is_remembered_of_origins_is_bounded(monkeypatch):
    monkeypatch.setattr("earmark.overlay.publications.MOST_ORIGINS", 10)
    broker = broker_with("flood", {}, False)
    for number in range(50):
        broker.receive(m.Publication(f"origin {number}", 1, 1, {"x": 1}), Party("broker", "b"))
    assert len(broker._publications._seen) == 10
