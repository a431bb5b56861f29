"""What every covering index can do: cov_k(S, s) of Shen, Tirthapura and Aluru, and the counters of their tables.

s₁ **covers** s₂ when every event that matches s₂ matches s₁. The indexes answer it for subscriptions of one table,
named by slot, under one strict order (`containment.stands_above`):

    A covers B       each clause of B lies inside some clause of A: exact when B has one clause or A has one;
                     of several clauses, those of A that only together contain a clause of B do not count
    A equals B       each covers the other: then the older (smaller sequence) covers the younger, never the reverse
    B never matches  everything covers it; of two such the older does

So "covers" has no cycle: following it upward from any subscription ends at one that nothing covers.

Everything reads a *canonical* table (`canonical.py`), in which equal conditions have equal keys.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

from earmark.flat.types import I32
from earmark.segment.arrays import SegmentArrays

SUBSCRIBE, UNSUBSCRIBE = 0, 1
"""Phases that costs are charged to. A relation graph sets the phase; a query outside any counts as a subscribe."""


class Cost(NamedTuple):
    """Work of covering queries, in the paper's measures (Section V-A)."""

    nodes: int = 0
    """Nodes visited: inner nodes and leaves of a tree, cells of a curve."""
    comparisons: int = 0
    """Point comparisons: stored clauses compared with the query; those of one vector count one each."""


@runtime_checkable
class CoverIndex(Protocol):
    """Who covers whom among the members. Built by the class method `build(table, slots=None, **options)`."""

    phase: int

    @property
    def arrays(self) -> Any:
        """The NamedTuple of flat arrays that is the index."""

    @property
    def nbytes(self) -> int:
        """Bytes of the index beyond the table it was built from."""

    @property
    def costs(self) -> tuple[Cost, Cost]:
        """Work so far, of subscribes and of unsubscribes."""

    def __len__(self) -> int:
        """How many members there are."""

    def __contains__(self, slot: object) -> bool:
        """Whether a slot is a member."""

    def members(self) -> I32:
        """The members, ascending."""

    def check(self) -> None:
        """Raise AssertionError, naming what is broken, unless the invariant of the structure holds."""

    def insert(self, table: SegmentArrays, slots: I32 | list[int]) -> None:
        """Make members of slots of a table that may have grown; its older slots are as they were."""

    def remove(self, slots: I32 | list[int]) -> None:
        """Members no longer."""

    def covering(self, slot: int, k: int | None = None) -> I32:
        """Up to k members that cover the slot (all without k), in no particular order; never the slot itself.

        The slot need not be a member.
        """

    def covered(self, slot: int, k: int | None = None) -> I32:
        """Up to k members that the slot covers (all without k), ascending."""

    def covers(self, above: int, below: int) -> bool:
        """Whether one slot covers another, in the strict order."""
