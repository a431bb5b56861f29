"""What a broker tells its neighbours about what it wants: the policies, by name.

Everything that is wanted is an `Entry`: a condition, and the source it came from, a neighbour or the local clients.
An entry concerns every link but its source. For each of these the broker asks its policy what to tell, in the form of
statements, which it numbers and sends as messages:

    Tell(label, condition)          Want            UntellRanges(space, ranges)    UnwantRanges
    Untell(label)                   Unwant          Again(space)                   Resynchronise, all of `told`,
    TellRanges(space, ranges)       WantRanges                                     Synchronised

A policy never sees numbers, channels or acknowledgements. The broker asks it while a link is down too, so that the
state of a link is always what its neighbour ought to know, and calls `told` when a channel begins.

    broker                              policy
    learn([entry 7 from A])             once per entry, before any link hears of it: bind it, put it into tables
    change("B", [7], [])                → what to tell B
    change("C", [7], [])                → what to tell C; never change("A", [7], …): nothing goes back
    …
    change("B", [], [7]), …             → what to tell B: whatever it uncovers *before* any Untell
    unlearn([7])                        after all links have heard

With advertisements the broker leaves out links on which nobody offers what an entry wants; an entry may then be added
to a link long after it was learned, and removed from it before it is unlearned.

**Invariant** that a policy keeps at each moment, that is, after each single statement: every publication that matches
a live entry of a link (one added and not removed) matches something the link has been told. A policy may tell more.
**Ranges.** `want_ranges` takes what a neighbour tells in ranges, `pass_on` says what to tell others because of it, and
`wanting` which links want an event by them; a policy without ranges inherits versions that refuse and find nothing.
Spaces are compared by number: a policy refuses ranges of a space that is not its own (`PolicyError`), and answers a
change of its space with `Again`.

To add one: subclass `Policy` in a module here, and add a line to `POLICIES`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, TypeAlias

from earmark.errors import EarmarkError

LOCAL = ""
"""The source of what local clients want; a neighbour's name has at least one character."""

POLICIES = {
    "flood": ("flood", "Flood"),
    "covering": ("covering", "Covering"),
    "subsumption": ("subsumption", "subsumption"),
    "merging": ("merging", "Merging"),
}
"""Name of a policy -> its module here, and what makes it. A module is imported when it is first needed."""


class PolicyError(EarmarkError):
    """What a neighbour told does not fit the policy; the broker makes a ProtocolError of it."""


class Entry(NamedTuple):
    """One condition that somebody wants. Numbers are unique within a broker and rise."""

    number: int
    source: str
    condition: str


class Tell(NamedTuple):
    """Want a condition. The label is new on this link; entries' numbers are good labels."""

    label: int
    condition: str


class Untell(NamedTuple):
    """Withdraw what was told under a label."""

    label: int


class TellRanges(NamedTuple):
    """Want ranges of the curve of a space: closed, ascending, disjoint, at most MOST_RANGES."""

    space: int
    ranges: tuple[tuple[int, int], ...]


class UntellRanges(NamedTuple):
    """Withdraw ranges."""

    space: int
    ranges: tuple[tuple[int, int], ...]


class Again(NamedTuple):
    """Everything told so far is void for this link: `told` follows."""

    space: int


Statement: TypeAlias = Tell | Untell | TellRanges | UntellRanges | Again
Ranges: TypeAlias = tuple[tuple[int, int], ...]


class Policy(ABC):
    """What one broker tells on each of its links. Keeps the state of all outgoing links."""

    name: ClassVar[str]
    space: int = 0
    """The number of the space that ranges are of, for Hello; 0 for none."""

    @abstractmethod
    def open(self, link: str) -> None:
        """Begin a link, on which nothing is told yet. The broker then adds the entries that concern it."""

    @abstractmethod
    def close(self, link: str) -> None:
        """Forget a link."""

    @abstractmethod
    def change(self, link: str, added: Sequence[Entry], removed: Sequence[Entry]) -> list[Statement]:
        """Add entries to a link and remove others; returns what to tell, in order."""

    @abstractmethod
    def told(self, link: str) -> list[Statement]:
        """Everything that a neighbour must know, for a new channel. What was still to be spread out is included."""

    def learn(self, entries: Sequence[Entry]) -> None:  # noqa: B027 - most policies need not
        """Take note of entries, before links hear of them."""

    def unlearn(self, entries: Sequence[Entry]) -> None:  # noqa: B027
        """Forget entries, after links have."""

    def tick(self, now: float) -> list[tuple[str, Statement]]:
        """What to tell now of what was spread out over time, by link."""
        return []

    def check_ranges(self, source: str, wanted: bool, space: int, ranges: Ranges) -> None:
        """Raise a PolicyError where ranges that a neighbour wants, or no longer, ascending and disjoint, do not fit."""
        raise PolicyError(f"the policy {self.name!r} has no ranges")

    def want_ranges(self, source: str, wanted: bool, ranges: Ranges) -> None:  # noqa: B027
        """Note ranges that a neighbour wants from now on, or no longer; `pass_on` follows."""

    def pass_on(self) -> list[tuple[str, Statement]]:
        """Follow the ranges that neighbours have told since the last call; returns what to tell which links."""
        return []

    def restart_ranges(self, source: str, space: int) -> list[tuple[str, Statement]]:
        """A neighbour tells everything again: what it told in ranges is stale, and serves until `settle_ranges`.

        It speaks of this space from now on. Returns what to tell it and others.
        """
        return []

    def settle_ranges(self, source: str) -> list[tuple[str, Statement]]:
        """A neighbour has told everything: stale ranges go; returns what to tell others."""
        return []

    def wanting(self, events: Sequence[Mapping[str, Any]]) -> list[set[str]] | None:
        """For each event, the neighbours that want it by their ranges; None where there are no ranges at all."""
        return None

    def declare(self, attributes: Mapping[str, str], zone: str) -> Mapping[str, str]:
        """The types that a broker declares: these, and those that the policy needs; called once, before all else."""
        return attributes

    def rekey(self, space: Any) -> list[tuple[str, Statement]]:
        """Use another space from now on; returns what to tell which links."""
        raise EarmarkError(f"the policy {self.name!r} has no space")

    def status(self, link: str) -> dict[str, object]:
        """Sizes of what is kept for a link, JSON-able."""
        return {}


def policy_of(name: str, options: Mapping[str, object]) -> Policy:
    """Make the policy with this name; its class checks the options."""
    if name not in POLICIES:
        raise EarmarkError(f"expected the name of a policy ({', '.join(sorted(POLICIES))}), got {name!r}")
    module, class_name = POLICIES[name]
    kind = getattr(import_module(f"{__name__}.{module}"), class_name)
    try:
        policy: Policy = kind(**options)
    except TypeError:
        raise EarmarkError(f"the policy {name!r} does not take all of these options: {', '.join(options)}") from None
    return policy
