"""What must a broker forward: the relation graphs of Shen, Tirthapura & Aluru, Section III.

A broker need not tell its neighbours of a subscription that another one covers: they already send everything that it
matches. A relation graph remembers by whom each subscription is covered, so that it is forwarded when the last of them
goes. Nodes are the live subscriptions, an edge s → t says that s covers t:

    G*      every edge                 dear to keep: one wide subscription has an edge to everything
    poset   the edges of G* that no longer path replaces (the strict poset of Carzaniga et al.)
    G_k     up to k edges into each    k = 1 costs at most twice the fewest queries of any k (Theorem 1)

    arrival      1: [0, 9]   2: [2, 5]   3: [1, 6]   4: [3, 4]
    G*           1→2 1→3 1→4 2→4 3→2 3→4
    poset        1→3 3→2 2→4
    G_1          1→2 1→3 and one of 1→4, 2→4, 3→4            forwarded: 1 alone

**Invariant** (`check`). Edges are coverings. A live subscription that is not forwarded has a live in-neighbour. None is
forwarded that was covered when it was last examined, that is, when it arrived or lost its last in-neighbour. Covering
is a strict order (`contract.py`), so it follows that each live subscription is forwarded or covered by one that is.

This is less than the paper's Property 1 ("covered in G* means covered in G"), which its algorithm does not keep: when a
wide subscription arrives after a narrow one, the narrow one is not looked at again and stays forwarded. With
`withdraw=True` it is: a forwarded subscription that a new forwarded one covers is withdrawn, and Property 1 holds.

Equal subscriptions: the older covers the younger, never the reverse. With a covering that ran both ways, two equals
under a third would keep each other from being forwarded once the third is gone, and events would be lost.

Complexity: G_k: a subscribe is one cov_k query; an unsubscribe is one for each subscription that it leaves without an
in-neighbour, at most one on average for k = 1 when the choice is random (Lemma 1). `withdraw` adds a scan for each
subscription that is forwarded. G* and the poset: all coverings in both directions, O(n) a subscribe.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from earmark.cover.contract import SUBSCRIBE, UNSUBSCRIBE, CoverIndex
from earmark.errors import EarmarkError, require
from earmark.segment.arrays import SegmentArrays


class Change(NamedTuple):
    """What neighbours must be told, in this order: first what to subscribe to, then what to unsubscribe from.

    In this order, what has been forwarded covers every live subscription at each moment.
    """

    forward: tuple[int, ...] = ()
    withdraw: tuple[int, ...] = ()


class Calls(NamedTuple):
    """Calls of cov_k: q_s of subscribes, q_u of unsubscribes."""

    subscribe: int = 0
    unsubscribe: int = 0


class _Graph:
    """Nodes and edges, and what is forwarded. The index must have no members that the graph does not know."""

    def __init__(self, index: CoverIndex) -> None:
        if len(index):
            raise EarmarkError("a relation graph starts with an index that has no members.")
        self.index = index
        self.forwarded: set[int] = set()
        self._above: dict[int, set[int]] = {}
        self._below: dict[int, set[int]] = {}
        self._calls = [0, 0]

    @property
    def calls(self) -> Calls:
        """How often cov_k was asked."""
        return Calls(*self._calls)

    def __len__(self) -> int:
        return len(self._above)

    def __contains__(self, slot: object) -> bool:
        return slot in self._above

    def above(self, slot: int) -> frozenset[int]:
        """The in-neighbours: subscriptions that are known to cover it."""
        return frozenset(self._above[slot])

    def below(self, slot: int) -> frozenset[int]:
        """The out-neighbours: subscriptions that it is known to cover."""
        return frozenset(self._below[slot])

    def edges(self) -> int:
        """How many edges there are."""
        return sum(map(len, self._above.values()))

    def _arrive(self, table: SegmentArrays, slot: int) -> None:
        if slot in self._above:
            raise EarmarkError(f"slot {slot} is subscribed already.")
        self.index.insert(table, [slot])
        self._above[slot], self._below[slot] = set(), set()

    def _leave(self, slot: int) -> tuple[set[int], set[int], bool]:
        """Forget a node: its neighbours above and below, and whether it was forwarded."""
        if slot not in self._above:
            raise EarmarkError(f"slot {slot} is not subscribed.")
        self.index.remove([slot])
        above, below = self._above.pop(slot), self._below.pop(slot)
        for other in above:
            self._below[other].discard(slot)
        for other in below:
            self._above[other].discard(slot)
        was = slot in self.forwarded
        self.forwarded.discard(slot)
        return above, below, was

    def _covering(self, slot: int, k: int | None, phase: int) -> list[int]:
        self.index.phase = phase
        self._calls[phase] += 1
        found: list[int] = self.index.covering(slot, k).tolist()
        self.index.phase = SUBSCRIBE
        return found

    def _link(self, above: Iterable[int], slot: int) -> None:
        for other in above:
            self._above[slot].add(other)
            self._below[other].add(slot)

    def _unlink(self, above: int, below: int) -> None:
        self._above[below].discard(above)
        self._below[above].discard(below)

    def _withdraw_below(self, slot: int) -> list[int]:
        """The forwarded subscriptions that a new forwarded one covers: forwarded no longer, with an edge from it."""
        covered = [other for other in self.index.covered(slot).tolist() if other in self.forwarded]
        for other in covered:
            self.forwarded.discard(other)
            self._link([slot], other)
        return covered

    def check(self) -> None:
        """Raise AssertionError unless the invariant holds. O(n²)."""
        self.index.check()
        live = set(self.index.members().tolist())
        require(live == self._above.keys() == self._below.keys(), "nodes and members of the index disagree")
        require(self.forwarded <= live, "something is forwarded that is not live")
        for slot, above in self._above.items():
            for other in above:
                require(slot in self._below[other], f"edge {other} → {slot} is known to one end only")
                require(self.index.covers(other, slot), f"edge {other} → {slot} is no covering")
            if slot not in self.forwarded:
                require(above, f"{slot} is neither forwarded nor covered")
                covering = set(self.index.covering(slot).tolist())
                require(covering & self.forwarded, f"{slot} is covered by nothing that is forwarded")
        require(sum(map(len, self._below.values())) == self.edges(), "edges out and edges in disagree")


class RelationGraph(_Graph):
    """G_k. `withdraw` takes back what was forwarded when something wider is."""

    def __init__(self, index: CoverIndex, k: int = 1, withdraw: bool = False) -> None:
        if k < 1:
            raise EarmarkError(f"k is a number of in-neighbours, 1 or more; got {k}.")
        super().__init__(index)
        self.k = k
        self.withdraw = withdraw

    def subscribe(self, table: SegmentArrays, slot: int) -> Change:
        """A new subscription: a slot of a canonical table that may have grown. One query."""
        self._arrive(table, slot)
        above = self._covering(slot, self.k, SUBSCRIBE)
        self._link(above, slot)
        if above:
            return Change()
        withdrawn = self._withdraw_below(slot) if self.withdraw else ()
        self.forwarded.add(slot)
        return Change((slot,), tuple(withdrawn))

    def unsubscribe(self, slot: int) -> Change:
        """A subscription goes: which of those it covered must now be forwarded, and must neighbours hear of it?"""
        _, below, was = self._leave(slot)
        forward = []
        for other in sorted(below):
            if self._above[other]:
                continue
            above = self._covering(other, self.k, UNSUBSCRIBE)
            self._link(above, other)
            if not above:
                self.forwarded.add(other)
                forward.append(other)
        return Change(tuple(forward), (slot,) if was else ())

    def check(self) -> None:
        """Raise AssertionError unless the invariant holds."""
        super().check()
        for slot, above in self._above.items():
            require(len(above) <= self.k, f"{slot} has more than k in-neighbours")
            require(not (above and slot in self.forwarded), f"{slot} is forwarded, and was covered when last examined")
        if self.withdraw:
            for slot in self.forwarded:
                require(not len(self.index.covering(slot, 1)), f"{slot} is forwarded and covered: Property 1 fails")


class CompleteGraph(_Graph):
    """G*: every covering is an edge."""

    def __init__(self, index: CoverIndex, withdraw: bool = False) -> None:
        super().__init__(index)
        self.withdraw = withdraw

    def subscribe(self, table: SegmentArrays, slot: int) -> Change:
        """A new subscription. One query up, one down."""
        self._arrive(table, slot)
        self._link(self._covering(slot, None, SUBSCRIBE), slot)
        for other in self.index.covered(slot).tolist():
            self._link([slot], other)
        if self._above[slot]:
            return Change()
        withdrawn = sorted(self._below[slot] & self.forwarded) if self.withdraw else []
        self.forwarded.difference_update(withdrawn)
        self.forwarded.add(slot)
        return Change((slot,), tuple(withdrawn))

    def unsubscribe(self, slot: int) -> Change:
        """A subscription goes. No query: all edges are there."""
        _, below, was = self._leave(slot)
        forward = [other for other in sorted(below) if not self._above[other] and other not in self.forwarded]
        self.forwarded.update(forward)
        return Change(tuple(forward), (slot,) if was else ())

    def check(self) -> None:
        """Raise AssertionError unless the invariant holds."""
        super().check()
        for slot, above in self._above.items():
            require(above == set(self.index.covering(slot).tolist()), f"{slot} lacks an edge of G*")
            require(slot in self.forwarded or above, f"{slot} is neither forwarded nor covered")
            if self.withdraw:
                require(not (above and slot in self.forwarded), f"{slot} is forwarded and covered: Property 1 fails")


class StrictPoset(_Graph):
    """The edges of G* without those that a longer path replaces."""

    def __init__(self, index: CoverIndex, withdraw: bool = False) -> None:
        super().__init__(index)
        self.withdraw = withdraw

    def subscribe(self, table: SegmentArrays, slot: int) -> Change:
        """A new subscription goes between the lowest above it and the highest below it. One query up, one down."""
        self._arrive(table, slot)
        covers = self.index.covers
        above, below = self._covering(slot, None, SUBSCRIBE), self.index.covered(slot).tolist()
        nearest = [a for a in above if not any(covers(a, b) for b in above)]
        highest = [b for b in below if not any(covers(a, b) for a in below)]
        for upper in nearest:
            for lower in self._below[upper].intersection(highest):
                self._unlink(upper, lower)
        self._link(nearest, slot)
        for other in highest:
            self._link([slot], other)
        if nearest:
            return Change()
        withdrawn = sorted(self.forwarded.intersection(below)) if self.withdraw else []
        self.forwarded.difference_update(withdrawn)
        self.forwarded.add(slot)
        return Change((slot,), tuple(withdrawn))

    def unsubscribe(self, slot: int) -> Change:
        """A subscription goes: what it alone connected is connected directly. No query."""
        above, below, was = self._leave(slot)
        for lower in below:
            others = self._above[lower].copy()
            for upper in above:
                if not any(upper == other or self.index.covers(upper, other) for other in others):
                    self._link([upper], lower)
        forward = [other for other in sorted(below) if not self._above[other] and other not in self.forwarded]
        self.forwarded.update(forward)
        return Change(tuple(forward), (slot,) if was else ())

    def check(self) -> None:
        """Raise AssertionError unless the invariant holds."""
        super().check()
        for slot, above in self._above.items():
            all_above = set(self.index.covering(slot).tolist())
            nearest = {a for a in all_above if not any(self.index.covers(a, b) for b in all_above)}
            require(above == nearest, f"{slot} does not hang on exactly those just above it")
            if self.withdraw:
                require(not (above and slot in self.forwarded), f"{slot} is forwarded and covered: Property 1 fails")
