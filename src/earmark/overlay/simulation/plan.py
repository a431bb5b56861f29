"""What the clients of a network do, and when: made before a run, so that every policy is given the same.

    phase        requests                                      ends when
    advertise    an advertisement of each event, by its        only if asked for: then subscriptions travel only to
                 publisher                                     where something they may match is advertised
    subscribe    the commands of the content, in order         the network is quiet: no message is on its way
    publish      the events, or half of them
    withdraw     a share of what is left, one at a time        only if asked for, and then the other
    publish again                                              half of the events

With `mixed` there is one phase, in which subscribes, withdrawals and publications interleave at random.

Times are whole microseconds of the simulated clock, from the beginning of a phase.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from earmark.errors import EarmarkError
from earmark.overlay.simulation.content import Content
from earmark.overlay.simulation.topology import Topology

SUBSCRIBE, WITHDRAW, PUBLISH, ADVERTISE = 0, 1, 2, 3
STEP = 10_000
"""Microseconds from one instant with requests to the next."""
INSTANTS = 200
"""Instants over which the requests of a phase are spread, unless `at_once` says how many each has."""


class Request(NamedTuple):
    """One request of a client: the place of a condition or of an event says whose."""

    at: int
    kind: int
    place: int


class Phase(NamedTuple):
    """Requests by time, after which the network comes to rest."""

    name: str
    requests: list[Request]


@dataclass(frozen=True)
class Plan:
    """Clients with their brokers, what each asks and publishes, and when."""

    topology: Topology
    content: Content
    home: list[int]
    """The broker of each client."""
    owner: list[int]
    """The client of each subscription."""
    publisher: list[int]
    """The client of each event."""
    phases: list[Phase]
    is_advertised: bool = False
    """Whether brokers use advertisements."""


def plan_of(
    content: Content,
    topology: Topology,
    *,
    clients: int = 4,
    withdraw: float = 0.0,
    mixed: bool = False,
    at_once: int | None = None,
    advertise: bool = False,
    seed: int = 1,
) -> Plan:
    """Spread subscriptions and events over clients at random, `clients` of them at each broker, and over time.

    `withdraw` is the share of living subscriptions that is withdrawn at the end. `at_once` is how many requests of a
    phase come at the same instant; without it, a phase has at most INSTANTS instants. With `advertise`, clients first
    advertise what they will publish.
    """
    if not 1 <= clients <= 1_000:
        raise EarmarkError(f"expected 1 to 1,000 clients per broker, got {clients:,}")
    if not 0 <= withdraw <= 1:
        raise EarmarkError(f"expected a share of subscriptions to withdraw from 0 to 1, got {withdraw}")
    if at_once is not None and at_once < 1:
        raise EarmarkError(f"expected at least 1 request at once, got {at_once}")
    random = Random(f"{seed}/plan")
    home = [broker for broker in range(len(topology.brokers)) for _ in range(clients)]
    owner = [random.randrange(len(home)) for _ in content.conditions]
    publisher = [random.randrange(len(home)) for _ in content.events]
    commands = [(SUBSCRIBE, c) if c >= 0 else (WITHDRAW, ~c) for c in content.commands]
    living = sorted({c for c in content.commands if c >= 0} - {~c for c in content.commands if c < 0})
    leaving = [(WITHDRAW, place) for place in random.sample(living, round(withdraw * len(living)))]
    events = [(PUBLISH, place) for place in range(len(content.events))]
    if mixed:
        phases = [_spread("mixed", _merged([commands + leaving, events], random), at_once)]
    elif leaving:
        half = (len(events) + 1) // 2
        phases = [
            _spread("subscribe", commands, at_once),
            _spread("publish", events[:half], at_once),
            _spread("withdraw", leaving, at_once),
            _spread("publish again", events[half:], at_once),
        ]
    else:
        phases = [_spread("subscribe", commands, at_once), _spread("publish", events, at_once)]
    if advertise:
        phases.insert(0, _spread("advertise", [(ADVERTISE, place) for _, place in events], at_once))
    return Plan(topology, content, home, owner, publisher, phases, advertise)


def _merged(rows: list[list[tuple[int, int]]], random: Random) -> list[tuple[int, int]]:
    """Interleave two lists at random, each in its order."""
    left = [list(reversed(row)) for row in rows]
    out = []
    while any(left):
        row = random.choices(left, [len(row) for row in left])[0]
        out.append(row.pop())
    return out


def _spread(name: str, requests: list[tuple[int, int]], at_once: int | None) -> Phase:
    each = at_once or max(1, -(-len(requests) // INSTANTS))
    return Phase(name, [Request(place // each * STEP, *request) for place, request in enumerate(requests)])
