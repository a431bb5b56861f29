"""A client could publish what was too long for other brokers: they never got it, and nobody was told."""

from __future__ import annotations

import pytest

from earmark.overlay.channel import MOST_GREETING, Packet, frame_of, frame_packet, outgoing, refusal, refused
from earmark.overlay.link import Epoch, Frame
from earmark.overlay.messages import MOST_BYTES, Message, ProtocolError, Publication, Publish


def packet(*messages: Message) -> Packet:
    frame = Frame(Epoch(1, 0), None, 0, 1, tuple(outgoing(message) for message in messages))
    return Packet(b"F", frame_packet(frame)[5:])


def test_a_client_that_sends_it_is_told() -> None:
    with pytest.raises(ProtocolError, match=r"^client 'ann': expected a message of at most 1,048,576 bytes, got 1,04"):
        frame_of(packet(Publish(1, {"x": 1}), Publish(2, {"s": "x" * MOST_BYTES})), "client", "client 'ann'")
    with pytest.raises(ProtocolError, match=r"^broker 'b': expected a message of at most 2,097,152 bytes, got 2,09"):
        frame_of(packet(Publication("b", 1, 1, {"s": "x" * (2 * MOST_BYTES)})), "broker", "broker 'b'")


def test_several_may_be_longer_together() -> None:
    long = [Publish(n, {"s": "x" * 900_000}) for n in (1, 2)]
    frame = frame_of(packet(*long), "client", "client 'ann'")
    assert frame is not None and frame.messages == tuple(long)


def test_a_refusal_fits_into_the_handshake_whatever_its_characters() -> None:
    sent = refusal("🙂" * 900)
    assert len(sent) <= MOST_GREETING
    assert str(refused(Packet(b"R", sent[5:]), "b")) == "b: " + "🙂" * 225
