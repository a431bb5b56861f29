"""Bytes on a stream: packets, the handshake that comes first, and frames as packets. Without input or output.

    stream    │ length, 4 bytes │ kind, 1 byte │ body │ length │ kind │ body │ …

    dialler                              listener
      │  G greeting: who, nonce            │
      │ ─────────────────────────────────► │
      │  C challenge: who, nonce           │
      │ ◄───────────────────────────────── │
      │  A answer: proof                   │           proof = HMAC-SHA256(token, who proves, hash of G and C)
      │ ─────────────────────────────────► │
      │  W welcome: proof, last number     │           or at any point  R refusal: a sentence, then the end
      │ ◄───────────────────────────────── │
      │  F frames, P pings, both ways      │           to a dialler of role "status": S, one JSON document, the end
      │  O order                           │           from one of role "admin", which gets such a document, too

**Authentication.** Both ends prove that they know the token; it is never sent. The listener proves last, so that
whoever can only dial gets nothing to try out tokens against. Nonces make proofs useless for another connection, and a
proof of one direction is none for the other. Proofs are compared in constant time.

**Bounds.** Before a proof, a packet has at most MOST_GREETING bytes and at most MOST_GREETINGS arrive; afterwards
MOST_PACKET. Whatever does not fit raises a ProtocolError that names the sender.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec

from earmark.overlay.link import Epoch, Frame
from earmark.overlay.messages import (
    MOST_BYTES,
    WIRE_VERSION,
    Between,
    FromClient,
    Message,
    Name,
    Number,
    ProtocolError,
    ToClient,
)

BATCH = 512
BATCH_SIZE = 1 << 16
WINDOW = 2_048
WINDOW_SIZE = 1 << 21
MOST_GREETING = 1_024
MOST_GREETINGS = 2
MOST_MESSAGE = 2 * MOST_BYTES
"""Longest message in a frame: what a client may send, and what brokers add to it."""
MOST_PACKET = MOST_MESSAGE + BATCH_SIZE
MOST_STATUS = 1 << 26
_LENGTH = 4
_NONCE = 32
_SESSION = 16

Role: TypeAlias = Literal["broker", "client", "status", "admin"]
Nonce: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=_NONCE, max_length=_NONCE)]
Session: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=_SESSION, max_length=_SESSION)]
Proof: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]


class Packet(NamedTuple):
    """One packet: its kind, a byte, and its body."""

    kind: bytes
    body: bytes


def packed(kind: bytes, body: bytes = b"") -> bytes:
    """The bytes of a packet."""
    return (len(body) + 1).to_bytes(_LENGTH, "big") + kind + body


class Packets:
    """Cuts a stream of bytes into packets, however it arrives. Holds at most one packet."""

    def __init__(self, sender: str) -> None:
        self.sender = sender
        self.most = MOST_GREETING
        """Longest packet."""
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self._buffer += data

    def next(self) -> Packet | None:
        """Return the next packet, or None until more bytes have arrived."""
        buffer = self._buffer
        if len(buffer) < _LENGTH:
            return None
        length = int.from_bytes(buffer[:_LENGTH], "big")
        if not 0 < length <= self.most:
            raise ProtocolError(f"{self.sender}: expected a packet of 1 to {self.most:,} bytes, got {length:,}")
        end = _LENGTH + length
        if len(buffer) < end:
            return None
        packet = Packet(bytes(buffer[_LENGTH : _LENGTH + 1]), bytes(buffer[_LENGTH + 1 : end]))
        del buffer[:end]
        return packet


# --- the handshake ------------------------------------------------------------------------------------------------


class Greeting(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Who dials. The session is drawn at random by each start of a program."""

    version: Number
    role: Role
    name: Name
    session: Session
    nonce: Nonce


class Challenge(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Who answers."""

    version: Number
    name: Name
    session: Session
    nonce: Nonce


class Welcome(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The listener's proof, and the last request number that it knows of this client."""

    proof: Proof
    last: Number


class ConnectionRefused(ProtocolError):
    """The other end sent a sentence and ended the connection."""


MOST_REFUSAL = 900
"""Bytes of a sentence, which must fit into a packet of the handshake."""
_TEXT = Annotated[str, msgspec.Meta(max_length=MOST_REFUSAL)]
_ENCODER = msgspec.msgpack.Encoder()


def _decoded(body: bytes, kind: Any, sender: str) -> Any:
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise ProtocolError(f"{sender}: malformed packet: {problem}") from None


def _check_version(version: int, sender: str) -> None:
    if version != WIRE_VERSION:
        raise ProtocolError(f"expected protocol version {WIRE_VERSION}, got {version}", source=sender)


def refusal(reason: str) -> bytes:
    """The packet that ends a connection with a sentence."""
    return packed(b"R", _ENCODER.encode(reason.encode(errors="replace")[:MOST_REFUSAL].decode(errors="ignore")))


def refused(packet: Packet, sender: str) -> ConnectionRefused:
    """The error for such a packet."""
    reason = "".join(c if c.isprintable() else " " for c in _decoded(packet.body, _TEXT, sender))
    return ConnectionRefused(f"{sender}: {reason}")


def _proof(token: bytes, who: bytes, greeting: bytes, challenge: bytes) -> bytes:
    transcript = hashlib.sha256(len(greeting).to_bytes(4, "big") + greeting + challenge).digest()
    return hmac.new(token, b"earmark overlay: " + who + transcript, hashlib.sha256).digest()


class Dialler:
    """The handshake of the end that dials."""

    def __init__(
        self,
        token: bytes,
        role: Role,
        name: str,
        session: bytes,
        sender: str,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._token = token
        self._sender = sender
        self._greeting = _ENCODER.encode(Greeting(WIRE_VERSION, role, name, session, random(_NONCE)))
        self._challenge = b""
        self.listener: Challenge | None = None
        """Who answered; proven when `welcome` is there."""
        self.welcome: Welcome | None = None

    def greeting(self) -> bytes:
        """The first packet."""
        return packed(b"G", self._greeting)

    def receive(self, packet: Packet) -> bytes:
        """Take a packet, and return what to answer. The handshake is over when `welcome` is there."""
        if packet.kind == b"R":
            raise refused(packet, self._sender)
        if packet.kind == b"C" and self.listener is None:
            self.listener = _decoded(packet.body, Challenge, self._sender)
            _check_version(self.listener.version, self._sender)
            self._challenge = packet.body
            return packed(b"A", _proof(self._token, b"dialler", self._greeting, self._challenge))
        if packet.kind == b"W" and self.listener is not None:
            welcome: Welcome = _decoded(packet.body, Welcome, self._sender)
            expected = _proof(self._token, b"listener", self._greeting, self._challenge)
            if not hmac.compare_digest(expected, welcome.proof):
                raise ProtocolError(f"{self._sender}: does not know the token")
            self.welcome = welcome
            return b""
        raise ProtocolError(f"{self._sender}: a packet of kind {packet.kind!r} is out of place in the handshake")


class Listener:
    """The handshake of the end that listens."""

    def __init__(
        self, token: bytes, name: str, session: bytes, sender: str, random: Callable[[int], bytes] = os.urandom
    ) -> None:
        self._token = token
        self._sender = sender
        self._challenge = _ENCODER.encode(Challenge(WIRE_VERSION, name, session, random(_NONCE)))
        self._greeting = b""
        self._greeted: Greeting | None = None
        self.dialler: Greeting | None = None
        """Who dialled, once it has proven that it knows the token."""

    def receive(self, packet: Packet) -> bytes:
        """Take a packet, and return what to answer. The dialler waits for `welcome` when `dialler` is there."""
        if packet.kind == b"G" and self._greeted is None:
            self._greeted = _decoded(packet.body, Greeting, self._sender)
            self._greeting = packet.body
            _check_version(self._greeted.version, self._sender)
            return packed(b"C", self._challenge)
        if packet.kind == b"A" and self._greeted is not None and self.dialler is None:
            expected = _proof(self._token, b"dialler", self._greeting, self._challenge)
            if not hmac.compare_digest(expected, packet.body):
                raise ProtocolError("expected the token of this network, got another one", source=self._sender)
            self.dialler = self._greeted
            return b""
        raise ProtocolError(f"{self._sender}: a packet of kind {packet.kind!r} is out of place in the handshake")

    def welcome(self, last: int = 0) -> bytes:
        """The packet that ends the handshake well."""
        proof = _proof(self._token, b"listener", self._greeting, self._challenge)
        return packed(b"W", _ENCODER.encode(Welcome(proof, last)))


# --- frames -------------------------------------------------------------------------------------------------------


class Outgoing(NamedTuple):
    """A message that waits in a link, with its binary form."""

    message: Message
    raw: msgspec.Raw
    size: int
    """In bytes."""


def outgoing(message: Message) -> Outgoing:
    """A message, encoded once for however many links."""
    raw = _ENCODER.encode(message)
    return Outgoing(message, msgspec.Raw(raw), len(raw))


_Pair: TypeAlias = tuple[Number, Number]
_Start: TypeAlias = tuple[_Pair, _Pair | None, Number, Number, bool]


def frame_packet(frame: Frame[Any]) -> bytes:
    """The packet of a frame of `Outgoing` messages."""
    messages = [one.raw for one in frame.messages]
    kind = b"E" if frame.is_last else b"F"
    return packed(kind, _ENCODER.encode((frame.epoch, frame.peer, frame.received, frame.number, frame.asks, messages)))


def _frame_decoder(messages: Any) -> msgspec.msgpack.Decoder[Any]:
    several = Annotated[tuple[messages, ...], msgspec.Meta(max_length=BATCH)]
    return msgspec.msgpack.Decoder(tuple[_Pair, _Pair | None, Number, Number, bool, several])


_DECODERS = {
    "client": _frame_decoder(FromClient),
    "listener": _frame_decoder(ToClient),
    "broker": _frame_decoder(Between),
}


def frame_of(packet: Packet, speaker: Literal["client", "listener", "broker"], sender: str) -> Frame[Any] | None:
    """The frame of a packet; None for a ping. A ProtocolError names the sender.

    speaker: who speaks: a client, the broker that a client listens to, or a neighbouring broker.
    """
    if packet.kind == b"P":
        return None
    if packet.kind == b"R":
        raise refused(packet, sender)
    if packet.kind not in (b"F", b"E"):
        raise ProtocolError(f"{sender}: expected a frame, got a packet of kind {packet.kind!r}")
    try:
        epoch, peer, received, number, asks, messages = _DECODERS[speaker].decode(packet.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise ProtocolError(f"{sender}: malformed frame: {problem}") from None
    most = MOST_BYTES if speaker == "client" else MOST_MESSAGE
    if len(packet.body) > most:
        for message in messages:
            if (size := len(_ENCODER.encode(message))) > most:
                raise ProtocolError(f"{sender}: expected a message of at most {most:,} bytes, got {size:,}")
    known = None if peer is None else Epoch(*peer)
    return Frame(Epoch(*epoch), known, received, number, messages, asks, packet.kind == b"E")


def status_packet(document: bytes) -> bytes:
    """The packet of a status, or a refusal if it is too long."""
    return packed(b"S", document) if len(document) < MOST_STATUS else refusal("the status is too long")


class Order(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What an administrator asks of a running broker: to drop a neighbour, by name; another space, as JSON."""

    what: Literal["drop", "rekey"]
    operand: Annotated[str, msgspec.Meta(max_length=MOST_BYTES)]


def order_packet(order: Order) -> bytes:
    """The packet of an order."""
    return packed(b"O", _ENCODER.encode(order))


def order_of(packet: Packet | None, sender: str) -> Order:
    """The order of a packet. A ProtocolError names the sender."""
    if packet is None or packet.kind != b"O":
        raise ProtocolError(f"{sender}: expected an order")
    order: Order = _decoded(packet.body, Order, sender)
    return order


def status_of(packets: Sequence[Packet], sender: str) -> bytes:
    """The document of a status."""
    for packet in packets:
        if packet.kind == b"R":
            raise refused(packet, sender)
        if packet.kind == b"S":
            return packet.body
    raise ProtocolError(f"{sender}: ended without a status")
