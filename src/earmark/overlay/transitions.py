"""What may be said when, and what comes of it: every transition of a link and of a client, as data.

A channel is a period during which messages between two brokers arrive, each once and in order. A link outlives its
channels. Each side of a new channel says, at once and without waiting for the other: Hello, Resynchronise, everything
that it wants and offers; then what changes. As soon as it has heard everything from all its other neighbours, it says
Synchronised. Until then the other side keeps what it was told on older channels: a broker that has started again does
not know yet what is wanted beyond it, and what was in force stays so.

    ABSENT ──connect──► GREETING ──Hello──► GREETED ──Resynchronise──► LISTENING ──Synchronised──► UP
    DOWN ────connect──►    │                   │                      ▲   │                        │
      ▲                    │                   │                      └───│──── Resynchronise ─────┤
      └────────────────────┴──── disconnect ───┴──────────────────────────┴────────────────────────┘

A message that has no row for the state of its link is a `ProtocolError`. scripts/state_table.py writes the table in
docs/overlay.md from `RULES`.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from earmark.overlay import messages as m


class State(Enum):
    """Where a link is, seen from this side; or that a sender is a client."""

    ABSENT = "expected, and never connected in this run"
    DOWN = "its channel is gone; what it wanted still counts"
    GREETING = "a channel exists, and the neighbour has said nothing yet"
    GREETED = "the neighbour has said who it is"
    LISTENING = "the neighbour is telling everything; what it told before still counts"
    UP = "the neighbour has told everything"
    CLIENT = "a client, attached or not"


CONNECTED = frozenset({State.GREETING, State.GREETED, State.LISTENING, State.UP})


class Rule(NamedTuple):
    """In a state, a message leads to an action (a method of `Broker`) and to the next state."""

    state: State
    message: type[m.Message]
    action: str
    next: State
    meaning: str


_S = State
RULES = (
    Rule(_S.GREETING, m.Hello, "_greeted", _S.GREETED, "name, policy and space must be those expected"),
    Rule(
        _S.GREETED,
        m.Resynchronise,
        "_resynchronise",
        _S.LISTENING,
        "what was told before is stale; held publications go",
    ),
    Rule(_S.LISTENING, m.Want, "_want", _S.LISTENING, "adopts a stale entry with an equal condition, or adds one"),
    Rule(_S.LISTENING, m.Unwant, "_unwant", _S.LISTENING, "as when UP"),
    Rule(_S.LISTENING, m.WantRanges, "_want_ranges", _S.LISTENING, "the policy adds the ranges"),
    Rule(_S.LISTENING, m.UnwantRanges, "_unwant_ranges", _S.LISTENING, "as when UP"),
    Rule(_S.LISTENING, m.Offer, "_offer", _S.LISTENING, "adopts a stale offer with an equal condition, or adds one"),
    Rule(_S.LISTENING, m.Unoffer, "_unoffer", _S.LISTENING, "as when UP"),
    Rule(_S.LISTENING, m.Publication, "_publication", _S.LISTENING, "as when UP"),
    Rule(_S.LISTENING, m.InForce, "_in_force", _S.LISTENING, "as when UP"),
    Rule(_S.LISTENING, m.Resynchronise, "_resynchronise", _S.LISTENING, "it begins again, in another space"),
    Rule(_S.LISTENING, m.Synchronised, "_synchronised", _S.UP, "stale entries go; held publications are sent"),
    Rule(_S.UP, m.Want, "_want", _S.UP, "adds an entry; other links are told what the policy says"),
    Rule(_S.UP, m.Unwant, "_unwant", _S.UP, "removes an entry; other links first hear what it uncovers"),
    Rule(_S.UP, m.WantRanges, "_want_ranges", _S.UP, "the policy adds the ranges"),
    Rule(_S.UP, m.UnwantRanges, "_unwant_ranges", _S.UP, "the policy removes the ranges"),
    Rule(_S.UP, m.Offer, "_offer", _S.UP, "adds an offer; entries that meet it are told to this link"),
    Rule(_S.UP, m.Unoffer, "_unoffer", _S.UP, "removes an offer; entries that meet no other are withdrawn"),
    Rule(_S.UP, m.Publication, "_publication", _S.UP, "delivered here, sent to other links that want it; once"),
    Rule(_S.UP, m.InForce, "_in_force", _S.UP, "what waited for it is answered"),
    Rule(_S.UP, m.Resynchronise, "_resynchronise", _S.LISTENING, "entries become stale"),
    Rule(_S.CLIENT, m.Subscribe, "_subscribe", _S.CLIENT, "in force here at once; InForce when everywhere"),
    Rule(_S.CLIENT, m.Unsubscribe, "_unsubscribe", _S.CLIENT, "no more notifications for it from now on"),
    Rule(_S.CLIENT, m.Publish, "_publish", _S.CLIENT, "becomes a publication with this broker as origin"),
    Rule(_S.CLIENT, m.Advertise, "_advertise", _S.CLIENT, "InForce when all that meet it have been told this way"),
    Rule(_S.CLIENT, m.Unadvertise, "_unadvertise", _S.CLIENT, "publications outside the others are refused"),
    Rule(_S.CLIENT, m.Prefer, "_prefer", _S.CLIENT, "counts for later notifications"),
)
TABLE = {(rule.state, rule.message): rule for rule in RULES}
