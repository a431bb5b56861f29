"""What clients and brokers say to each other, as frozen values, and their binary form.

    client                       broker                        neighbour
      │  Subscribe(1, "a", …) ──►  │  ── Want(7, label, …) ──►   │
      │                            │  ◄── InForce(7) ──────────  │
      │  ◄────── InForce(1)        │                             │
      │  ◄────── Notify(…)         │  ◄── Publication(…) ──────  │

**Numbers and labels.** A client numbers its requests, and a broker numbers what it tells one neighbour, each from 1
upwards. `InForce(n)` answers: everything you asked up to number n is in force in all brokers beyond me. A label names
one entry of what a broker wants from a neighbour; it is unique on its link, in its direction.

**Publications** have an origin, the broker that a client gave them to, and a number that rises with each publication
of this origin. An origin that has lost its count starts again with a higher `run`. A path keeps order, so whoever has
seen a (run, number) of an origin will see no lower one for the first time: what is not above it is a duplicate.

**Wire form.** One byte of version, then one msgpack map, tagged with the name of the message. Decoding checks types,
unknown fields, lengths and ranges; whatever does not fit is a `ProtocolError` that names the sender. A message has at
most MOST_BYTES bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias, get_args

import msgspec

from earmark.errors import EarmarkError, shortened
from earmark.events.mappings import Interval

WIRE_VERSION = 1
MOST_BYTES = 1 << 20
"""Longest message, in bytes."""
MOST_NAME = 768
"""Longest name, in bytes: it must fit into the first packet of a connection."""
MOST_ATTRIBUTES = 4_096
MOST_RANGES = 65_536
"""Ranges in one message; more take several messages."""

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Id: TypeAlias = Annotated[str, msgspec.Meta(max_length=1_024)] | Annotated[int, msgspec.Meta(le=2**63 - 1)]
Condition: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=100_000)]
Scalar: TypeAlias = bool | int | float | str | None


class WireInterval(Interval):
    """A closed interval as a value of an event: a pair on the wire, of which None leaves a side open."""

    __slots__ = ()
    lo: Scalar
    hi: Scalar


Value: TypeAlias = Scalar | WireInterval
"""A value of an event: dates and timestamps as strings, and a closed interval as a pair."""
Event: TypeAlias = Annotated[dict[str, Value], msgspec.Meta(max_length=MOST_ATTRIBUTES)]
Weights: TypeAlias = Annotated[dict[str, float], msgspec.Meta(max_length=MOST_ATTRIBUTES)]
Pairs: TypeAlias = Annotated[tuple[tuple[Number, Number], ...], msgspec.Meta(max_length=MOST_RANGES)]


class ProtocolError(EarmarkError):
    """A message that breaks the protocol; the text names its sender. Nothing of it took effect.

    Of several messages received at once, those before it took effect: `handled` says how many, and `sent` has what is
    to be sent because of them.
    """

    handled: int = 0
    sent: Sequence[Any] = ()


class Message(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True, gc=False):
    """Base of all messages. They hold no cycles, so the garbage collector need not look at them (`gc`)."""


# --- from a client -----------------------------------------------------------------------------------------------


class Subscribe(Message, frozen=True):
    """Ask for all publications that match a condition. `id` is the client's own name for it."""

    number: Number
    id: Id
    condition: Condition
    weights: Weights = {}
    score: float = 0.0


class Unsubscribe(Message, frozen=True):
    """Withdraw one subscription of this client."""

    number: Number
    id: Id


class Publish(Message, frozen=True):
    """Publish one event. A number that is not above the client's last one is a duplicate."""

    number: Number
    event: Event
    weights: Weights = {}


class Advertise(Message, frozen=True):
    """Announce that this client will publish events that match a condition."""

    number: Number
    id: Id
    condition: Condition


class Unadvertise(Message, frozen=True):
    """Withdraw one advertisement of this client."""

    number: Number
    id: Id


class Prefer(Message, frozen=True):
    """Choose how to be notified: all matches, or for each publication the k best; `queue` bounds what waits."""

    number: Number
    k: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | None = None
    queue: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)] = 1_024


# --- to a client -------------------------------------------------------------------------------------------------


class Refused(Message, frozen=True):
    """One request was refused and changed nothing."""

    number: Number
    reason: str


class Notify(Message, frozen=True):
    """One publication, and which subscriptions of this client it matches, with scores.

    A broker that has started again does not know what the one before has notified: a client ignores what is not above
    the highest (run, number) that it has of an origin.
    """

    origin: Name
    run: Number
    number: Number
    event: Event
    ids: tuple[Id, ...]
    scores: tuple[float, ...]


class Shed(Message, frozen=True):
    """How many notifications were dropped since the last one, because the client's queue was full."""

    count: Number


# --- between brokers ---------------------------------------------------------------------------------------------


class Hello(Message, frozen=True):
    """The first message on a channel: who speaks, since which start, with which policy, in which space."""

    broker: Name
    run: Number
    policy: Name
    space: Number


class Want(Message, frozen=True):
    """Send me publications that match a condition."""

    number: Number
    label: Number
    condition: Condition


class Unwant(Message, frozen=True):
    """Withdraw one entry."""

    number: Number
    label: Number


class WantRanges(Message, frozen=True):
    """Send me publications in these ranges of the curve of a space (closed; ascending, disjoint)."""

    number: Number
    space: Number
    ranges: Pairs


class UnwantRanges(Message, frozen=True):
    """Ranges that are no longer wanted."""

    number: Number
    space: Number
    ranges: Pairs


class Offer(Message, frozen=True):
    """Publications that match a condition may come from me."""

    number: Number
    label: Number
    condition: Condition


class Unoffer(Message, frozen=True):
    """Withdraw one advertisement."""

    number: Number
    label: Number


class Resynchronise(Message, frozen=True):
    """Forget what I told you: everything follows, up to `Synchronised`. The old entries serve until then."""

    number: Number
    space: Number


class Synchronised(Message, frozen=True):
    """The end of what follows `Resynchronise`."""

    number: Number


class Publication(Message, frozen=True):
    """One publication on its way."""

    origin: Name
    run: Number
    number: Number
    event: Event
    weights: Weights = {}


# --- both --------------------------------------------------------------------------------------------------------


class InForce(Message, frozen=True):
    """Everything that you asked of me, up to this number, is in force in all brokers beyond me."""

    number: Number


FromClient: TypeAlias = Subscribe | Unsubscribe | Publish | Advertise | Unadvertise | Prefer
ToClient: TypeAlias = InForce | Refused | Notify | Shed
Between: TypeAlias = (
    Hello
    | Want
    | Unwant
    | WantRanges
    | UnwantRanges
    | Offer
    | Unoffer
    | Resynchronise
    | Synchronised
    | Publication
    | InForce
)
AnyMessage: TypeAlias = FromClient | ToClient | Between

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(AnyMessage)
KINDS: tuple[type[Message], ...] = get_args(AnyMessage)


def check_name(name: object) -> None:
    """Raise an EarmarkError unless a message can have this name of a broker or a client."""
    try:
        fits = len(msgspec.convert(name, Name).encode()) <= MOST_NAME
    except (msgspec.ValidationError, UnicodeEncodeError):
        fits = False
    if not fits:
        what = f"1 to 256 characters and at most {MOST_NAME} bytes"
        raise EarmarkError(f"expected a name of {what}, got {shortened(repr(name), 60)}")


def encoded(message: Message) -> bytes:
    """The binary form of a message."""
    return bytes([WIRE_VERSION]) + _ENCODER.encode(message)


def decoded(data: bytes | memoryview, sender: str) -> Message:
    """The message of a binary form, or a ProtocolError that names the sender."""
    if len(data) > MOST_BYTES:
        raise ProtocolError(f"{sender}: expected a message of at most {MOST_BYTES:,} bytes, got {len(data):,}")
    if not len(data) or data[0] != WIRE_VERSION:
        version = "nothing" if not len(data) else f"version {data[0]}"
        raise ProtocolError(f"{sender}: expected a message of protocol version {WIRE_VERSION}, got {version}")
    try:
        message: Message = _DECODER.decode(memoryview(data)[1:])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise ProtocolError(f"{sender}: malformed message: {problem}") from None
    return message
