"""What a broker keeps about one link, and when something asked is in force beyond it.

**In force.** Whatever a client or neighbour asks is told on other links at once, or was covered by what they had been
told before. Either way it is in force beyond a link when the neighbour has acknowledged everything that had been told
it by then (InForce is cumulative). So an asker waits for one number per link:

    link      sent   acknowledged   base            asker      asked   waits for
    to B        17             15     12            client c       4   B: 17, C: 9      → InForce(4) once B says 17
    to C         9              9      1

A new channel tells everything again under new numbers. Until the neighbour has acknowledged all of that (`base`),
nothing counts as in force beyond the link.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from earmark.overlay.messages import Publication, encoded
from earmark.overlay.policies import Entry
from earmark.overlay.table import owned
from earmark.overlay.transitions import CONNECTED, State

NEVER = 1 << 62


class Party(NamedTuple):
    """Who sends or receives: a client or a neighbouring broker. A client and a broker may have the same name."""

    kind: Literal["client", "broker"]
    name: str


@dataclass(eq=False)
class Asker:
    """Somebody who is told InForce: a client or a neighbour."""

    party: Party
    is_attached: bool
    """Whether it can be told anything. A client that is not is told when it returns."""
    asked: deque[tuple[int, dict[str, int]]] = field(default_factory=deque)
    """Numbers not answered yet, and for each the numbers that links must acknowledge first."""
    crowded: int = 64
    """How many of them there are before those that wait for the same become one."""
    answered: int = 0

    @property
    def name(self) -> str:
        """Its name, unique among clients or among neighbours."""
        return self.party.name


@dataclass(eq=False)
class Stale:
    """Entries of older channels that have not been told again yet."""

    by_condition: dict[str, list[Entry]] = field(default_factory=dict)
    count: int = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Entry]:
        return (entry for entries in self.by_condition.values() for entry in entries)

    def add(self, entries: Iterable[Entry]) -> None:
        """Entries become stale."""
        for entry in entries:
            self.by_condition.setdefault(entry.condition, []).append(entry)
            self.count += 1

    def __contains__(self, condition: object) -> bool:
        return condition in self.by_condition

    def pop(self, condition: str) -> Entry:
        """Take out an entry that has been told again."""
        entries = self.by_condition[condition]
        entry = entries.pop()
        if not entries:
            del self.by_condition[condition]
        self.count -= 1
        return entry


class Held:
    """Publications that wait for a neighbour, oldest first, bounded in number and in bytes of their binary form."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Publication, int]] = deque()
        self.size = 0
        """Bytes of all of them."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Publication]:
        return (publication for publication, _ in self._waiting)

    def add(self, publication: Publication) -> None:
        """Add the newest."""
        size = len(encoded(publication))
        self._waiting.append((publication, size))
        self.size += size

    def add_before(self, publications: Sequence[Publication]) -> None:
        """Add some, in order, that are older than all others."""
        rows = [(publication, len(encoded(publication))) for publication in publications]
        self._waiting.extendleft(reversed(rows))
        self.size += sum(size for _, size in rows)

    def shorten(self, most: int, most_size: int) -> int:
        """Drop the oldest until no more than `most`, in `most_size` bytes, are left; returns how many were dropped."""
        dropped = 0
        while len(self._waiting) > most or self.size > most_size:
            self.size -= self._waiting.popleft()[1]
            dropped += 1
        return dropped

    def take_all(self) -> list[Publication]:
        """Remove and return all of them."""
        publications = [*self]
        self._waiting.clear()
        self.size = 0
        return publications


@dataclass(eq=False)
class NeighbourLink(Asker):
    """One neighbour: what it wants, what it offers, and how far either side is."""

    code: int = 0
    """A small number, unique among the links of a broker."""
    state: State = State.ABSENT
    is_known: bool = False
    """Whether the neighbour has ever told everything in this run."""
    quiet_since: float | None = None
    """The first tick since it left, or since a new channel began on which it has not told everything."""
    is_late: bool = False
    """Whether it has begun to tell everything, for the first time, and not come to an end for too long."""
    run: int = 0
    wants: dict[int, Entry] = field(default_factory=dict)
    """By its label."""
    offers: dict[int, Entry] = field(default_factory=dict)
    stale: Stale = field(default_factory=Stale)
    admitted: set[int] | None = None
    """With advertisements: the numbers of entries that it hears of. None for all."""
    stale_offers: Stale = field(default_factory=Stale)
    heard: int = 0
    """The last number from it on this channel."""
    sent: int = 0
    """The last number to it, over all channels."""
    acknowledged: int = 0
    owes: bool = False
    """Whether it has not been told Synchronised yet on this channel."""
    base: int = NEVER
    """Nothing is in force beyond the link until this number is acknowledged."""
    restarts: int = 0
    """How often it was told everything since it last acknowledged all of that, or greeted."""
    held: Held = field(default_factory=Held)
    lost: int = 0
    """Held publications that were dropped, since they were too many or nobody came for them."""

    @property
    def is_connected(self) -> bool:
        """Whether a channel exists."""
        return self.state in CONNECTED

    def key(self, entry: Entry) -> int:
        """The number of one of its entries in the table of all neighbours."""
        return owned(entry.number, self.code)

    def hears_of(self, entry: Entry) -> bool:
        """Whether it was told of an entry of another source, or of what covers it."""
        return self.admitted is None or entry.number in self.admitted

    @property
    def takes_publications(self) -> bool:
        """Whether it has a channel, and what it wants is known."""
        return self.is_known and self.state in (State.LISTENING, State.UP)

    def has_acknowledged(self, number: int) -> bool:
        """Whether everything up to a number is in force beyond the link."""
        return self.acknowledged >= max(number, self.base)
