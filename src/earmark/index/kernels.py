"""The one shape of search kernels: what is searched, what is asked, working memory, and where answers go.

    match(searched, asked, scratch, matches)        -> (how many slots were written, where to resume)
    rank(searched, asked, scratch, heaps, work)     -> None; the heap of event e is lane e - asked.first

A match kernel writes the slots of the events asked.first .. asked.last, ascending and once for each event, and counts
them in matches.counts[e - asked.first]. Where `matches.slots` might not hold the answer of an event it stops, and
returns that event; the driver makes room and calls again with `first` set to it. A kernel that goes slot by slot for
all events at once (`scan/`) writes (event - asked.first) << 32 | slot, begins at asked.slot and returns a slot.

A rank kernel finds heaps that may be full already: with a floor, they hold k entries of slot `NO_SLOT`, which answers
must beat. It leaves each sorted, best first.

Either leaves its scratch as it found it, and adds to `work` in the order of `counters.py`.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

from earmark.events.arrays import EventArrays
from earmark.flat.types import I64, U64
from earmark.index.ranking import Heaps
from earmark.segment.arrays import SegmentArrays

A = TypeVar("A")


class Searched(NamedTuple, Generic[A]):
    """What is searched: a segment's arrays, and of the index what its kernels read."""

    table: SegmentArrays
    arrays: A


class Asked(NamedTuple):
    """What is asked: the events first .. last of a batch, by which slots they may be answered, and how."""

    events: EventArrays
    eligible: U64
    first: int
    last: int
    slot: int = 0
    """Slots below are left out; only a scan looks at it."""
    k: int = 0
    relaxed: bool = False
    heaviest: float = 1.0
    """No event weight of the batch is greater."""


class Matches(NamedTuple):
    """Where matches go."""

    counts: I64
    slots: Any
    work: I64


class TopK(NamedTuple):
    """The arguments of a rank kernel together, for the functions it is made of."""

    searched: Searched[Any]
    asked: Asked
    scratch: Any
    heaps: Heaps
    work: I64
