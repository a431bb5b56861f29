"""What every matching index can do, as seen by the engine, the contract suite and the benchmarks.

`driver.ArrayIndex` implements it once; what an index can do beyond it (follow a table, adapt to events) its class says.

Kinds of array that pass through:

    events      EventArrays, a batch in key space
    eligible    a bitmap over slots (`earmark.flat.bits`): bit set = the slot may be returned. It is the published
                alive bitmap, or that and a tag scope; slots past its end are not eligible
    event_ptr   int64[E + 1]; the answers for event e are at event_ptr[e] .. event_ptr[e + 1]
    slots       int32; matches ascend by slot, ranked answers go by score descending, then sequence ascending

An index answers from the table it was built from: the same slots, the same scores to the last bit, whatever its
structure. It reads no array that someone else may change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from earmark.events.arrays import EventArrays
from earmark.flat.arrays import F64, I32, I64, U64
from earmark.segment.combine import BY_SUM, Combination
from earmark.segment.evaluate import NO_LIFE


class Work(NamedTuple):
    """What the last call did, in the papers' measures, summed over its events.

    Where one operation serves many events at once (vector lanes, a shared node), it counts once.
    """

    nodes: int = 0
    """Nodes, buckets or lists visited; zero for a structure that has none."""
    candidates: int = 0
    """(event, slot) pairs, or clauses against a group of events, that were left to verify."""
    compared: int = 0
    """Constraints compared with event values."""
    matched: int = 0
    """(event, slot) pairs that qualified, before any cut to the best k."""
    scored: int = 0
    """Scores computed."""
    pruned: int = 0
    """Nodes, clauses or pairs put aside by an upper bound on their score."""
    leaves: int = 0
    """Leaves (l-nodes, blocks) whose entries were looked at; zero for a structure that has none."""
    pruned_leaves: int = 0
    """Of those put aside, the leaves."""

    @property
    def nanoseconds(self) -> float:
        """What it takes, roughly: enough to compare one index with itself."""
        return 10 * (self.nodes + self.candidates + self.matched + self.scored) + 2 * self.compared + 30 * self.leaves

    @classmethod
    def counted(cls, counters: Sequence[int] | I64) -> Work:
        """What a kernel counted (`counters.py`); it may have counted more, after these."""
        return cls(*map(int, counters[: len(cls._fields)]))

    @classmethod
    def total(cls, parts: Iterable[Work]) -> Work:
        """The work of several calls."""
        return cls(*map(sum, zip(*parts, strict=True)))


class Floor(NamedTuple):
    """Per event the k-th best that was found elsewhere: its score, -inf where there are fewer, and its sequence."""

    score: F64
    sequence: I64


class Index(Protocol):
    """What can be searched: an index of a segment (`driver.ArrayIndex`), or several that answer as one."""

    @property
    def nbytes(self) -> int:
        """Bytes beyond the table it was built from."""

    @property
    def work(self) -> Work:
        """What the last call did."""

    def check(self) -> None:
        """Raise AssertionError, naming what is broken, unless the invariant of the structure holds."""

    def match(self, events: EventArrays, eligible: U64, e: int = 0, life: int = NO_LIFE) -> I32:
        """Eligible slots that match event e of the batch, ascending; `life` as in `driver.py`."""

    def match_many(self, events: EventArrays, eligible: U64, threads: int = 1, life: int = NO_LIFE) -> tuple[I64, I32]:
        """The same for every event, on up to `threads` threads: (event_ptr, slots)."""

    def top_k(
        self,
        events: EventArrays,
        k: int,
        eligible: U64,
        relaxed: bool = False,
        e: int = 0,
        combination: Combination = BY_SUM,
        life: int = NO_LIFE,
    ) -> tuple[I32, F64]:
        """The at most k best eligible slots for event e, with their scores, best first."""

    def top_k_many(
        self,
        events: EventArrays,
        k: int,
        eligible: U64,
        relaxed: bool = False,
        floor: Floor | None = None,
        threads: int = 1,
        combination: Combination = BY_SUM,
        life: int = NO_LIFE,
    ) -> tuple[I64, I32, F64]:
        """The same for every event: (event_ptr, slots, scores); only what is better than the event's floor."""


class TreeAdaptation(NamedTuple):
    """What 'be_star_tree' found in the events and did about it."""

    events: int
    """Events in the window."""
    probability: float
    """The share of clauses that an event matched, on average."""
    capacity: int
    """The leaf capacity from now on."""
    recycled: int
    """Clauses that were inserted again, because events would come upon them less often elsewhere."""
    clustered: int
    """Clauses that were clustered again: those of parts that had changed a lot, or of the whole tree when the capacity
    changed."""


class MicsAdaptation(NamedTuple):
    """What 'mics' gained: candidates per event, before and after."""

    before: float
    after: float


Adaptation = TreeAdaptation | MicsAdaptation
