"""What every covering index answers: cov_k(S, s) of Shen, Tirthapura and Aluru, and the counters of their tables.

s₁ **covers** s₂ when every event that matches s₂ matches s₁. The indexes answer it for subscriptions of one table,
named by slot, under one strict order (`containment.stands_above`):

    A covers B       each clause of B is inside some clause of A: exact when B has one clause or A has one;
                     of several clauses, those of A that only together contain a clause of B do not count
    A equals B       each covers the other: then the older (smaller sequence) covers the younger, never the reverse
    B never matches  everything covers it; of two such subscriptions the older covers the younger

So "covers" has no cycle: following it upward from any subscription ends at one that nothing covers.

Every index reads a *canonical* table (`canonical.py`), in which equal conditions have equal keys, and is a subclass of
`members.Members`, which says what an index can do.
"""

from __future__ import annotations

from typing import NamedTuple

SUBSCRIBE, UNSUBSCRIBE = 0, 1
"""Phases that costs are charged to."""


class Cost(NamedTuple):
    """Work of covering queries, in the paper's measures (Section V-A)."""

    nodes: int = 0
    """Nodes visited: inner nodes and leaves of a tree, cells of a curve."""
    comparisons: int = 0
    """Point comparisons: stored clauses compared with the query; those of one vector count one each."""
