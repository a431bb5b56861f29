"""What must a broker forward: the relation graphs of Shen, Tirthapura & Aluru, Section III.

A broker need not forward a subscription that another one covers: its neighbours already send everything that it
matches. A relation graph remembers which subscriptions cover which, so that one is forwarded when the last that covers
it goes. Nodes are the live subscriptions, an edge s → t means that s covers t:

    G*      every edge                 expensive: one wide subscription has an edge to everything
    poset   the edges of G* that no longer path replaces (the strict poset of Carzaniga et al.)
    G_k     up to k edges into each    k = 1 costs at most twice the fewest queries of any k (Theorem 1)

    arrival      1: [0, 9]   2: [2, 5]   3: [1, 6]   4: [3, 4]
    G*           1→2 1→3 1→4 2→4 3→2 3→4
    poset        1→3 3→2 2→4
    G_1          1→2 1→3 and one of 1→4, 2→4, 3→4            forwarded: 1 alone

    graph = RelationGraph("kd_tree", k=1)                         Subscriptions are known by id. A graph over an index
    graph.subscribe("ad-1", "age > 30")                           of slots (`indexes/`) knows them by slot, and takes a
    Change(forward=('ad-1',), withdraw=())                        canonical table in place of a condition.

**Invariant** (`check`). Edges are coverings. A live subscription that is not forwarded has a live in-neighbour. None is
forwarded that was covered when it was last examined, that is, when it arrived or lost its last in-neighbour. Covering
is a strict order (`members.py`), so it follows that each live subscription is forwarded or covered by one that is.

This is less than the paper's Property 1 ("covered in G* means covered in G"), which its algorithm does not keep: when a
wide subscription arrives after a narrow one, the narrow one is not examined again and stays forwarded. With
`withdraw=True` it is: a forwarded subscription that a new forwarded one covers is withdrawn, and Property 1 holds.

Equal subscriptions: the older covers the younger, never the reverse. With a covering that ran both ways, two equal ones
under a third would keep each other from being forwarded once the third is gone, and events would be lost.

Complexity: G_k: a subscribe is one cov_k query; an unsubscribe is one for each subscription that it leaves without an
in-neighbour, at most one on average for k = 1 when the choice is random (Lemma 1). `withdraw` adds a scan for each
subscription that is forwarded. G* and the poset: all coverings in both directions, O(n) per subscribe.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple, Protocol, Self

from earmark.cover.cover_index import CoverIndex
from earmark.cover.indexes.members import SUBSCRIBE, UNSUBSCRIBE, Members
from earmark.errors import EarmarkError, SubscriptionError, check_whole, require
from earmark.language.words import counted
from earmark.segment.ids import Id, checked_id


class Covers(Protocol):
    """What a graph asks of an index, by id or by slot: a CoverIndex, an index of slots, or a part of one."""

    def __len__(self) -> int:
        """How many members there are."""

    def add(self, id: Any, condition: Any, /) -> None:
        """Make a subscription a member."""

    def covering(self, id: Any, k: int | None = None, phase: int = SUBSCRIBE) -> Any:
        """Up to k members that cover it."""

    def covered(self, id: Any, k: int | None = None) -> Any:
        """Up to k members that it covers."""

    def covers(self, above: Any, below: Any) -> bool:
        """Whether one covers the other."""

    def check(self) -> None:
        """Raise AssertionError unless it is in order."""


class Change(NamedTuple):
    """What to send to the neighbours, in this order: first the subscriptions to forward, then those to withdraw.

    In this order, what has been forwarded covers every live subscription at each moment.
    """

    forward: tuple[Id, ...] = ()
    withdraw: tuple[Id, ...] = ()


class Calls(NamedTuple):
    """Calls of cov_k: q_s of subscribes, q_u of unsubscribes."""

    subscribe: int = 0
    unsubscribe: int = 0


class _Graph:
    """Nodes, edges, and what is forwarded. The index has the nodes as members, and no others."""

    def __init__(self, index: str | Covers = "kd_tree", withdraw: bool = False) -> None:
        """Make an empty graph over an index, by name, or one without members.

        `withdraw` takes back what was forwarded as soon as something wider is.
        """
        if not isinstance(index, str) and not hasattr(index, "covering"):
            raise EarmarkError(f"expected the name of an index, or a CoverIndex, got {index!r}")
        self.index: Any = CoverIndex(index) if isinstance(index, str) else index
        if len(self.index):
            raise EarmarkError("expected an index without members; `of` makes a graph of many subscriptions")
        self.withdraw = withdraw
        self.forwarded: set[Id] = set()
        self._above: dict[Id, set[Id]] = {}
        self._below: dict[Id, set[Id]] = {}
        self._arrival: dict[Id, int] = {}
        self._calls = [0, 0]

    @classmethod
    def of(cls, source: Any, index: str = "kd_tree", **options: Any) -> Self:
        """Make a graph of the subscriptions of a Matcher, or of a batch as `Matcher.add_many` takes it.

        Those that no other covers are forwarded. Later changes of the matcher are not followed.
        """
        graph = cls(index, **options)
        graph.index = CoverIndex.of(source, index)
        ids = list(graph.index)
        for id in ids:
            graph._enter(id)
        for id in ids:
            graph._link(graph._parents(id), [id])
        graph.forwarded.update(id for id in ids if not graph._above[id])
        return graph

    # --- looking ---------------------------------------------------------------------------------------------

    @property
    def calls(self) -> Calls:
        """How often cov_k was called."""
        return Calls(*self._calls)

    def __len__(self) -> int:
        """How many subscriptions there are."""
        return len(self._above)

    def __contains__(self, id: object) -> bool:
        return id in self._above

    def __repr__(self) -> str:
        size = counted(len(self), "subscription")
        return f"<{type(self).__name__}: {size}, {len(self.forwarded):,} forwarded, {counted(self.edges(), 'edge')}>"

    def above(self, id: Id) -> frozenset[Id]:
        """The in-neighbours: subscriptions that are known to cover it."""
        return frozenset(self._above[self._known(id)])

    def below(self, id: Id) -> frozenset[Id]:
        """The out-neighbours: subscriptions that it is known to cover."""
        return frozenset(self._below[self._known(id)])

    def edges(self) -> int:
        """How many edges there are."""
        return sum(map(len, self._above.values()))

    # --- changes ---------------------------------------------------------------------------------------------

    def subscribe(self, id: Id, condition: Any) -> Change:
        """Add a subscription; returns what to forward and what to withdraw."""
        id = checked_id(id)
        self.index.add(id, condition)
        self._enter(id)
        self._link(self._parents(id), [id])
        below = self._children(id)
        if self._above[id]:
            return Change()
        withdrawn = self._in_order(other for other in below if other in self.forwarded) if self.withdraw else ()
        self.forwarded.difference_update(withdrawn)
        self.forwarded.add(id)
        return Change((id,), tuple(withdrawn))

    def subscribe_many(self, subscriptions: Sequence[tuple[Id, Any]]) -> Change:
        """Add (id, condition) pairs, whose ids are new, as if at the same time: one may be covered by any other."""
        changes = [self.subscribe(id, condition) for id, condition in subscriptions]
        withdraw = [id for change in changes for id in change.withdraw]
        gone = set(withdraw)  # of what arrived together, something may have been forwarded and withdrawn again
        new = {id for id, _ in subscriptions}
        forward = tuple(id for change in changes for id in change.forward if id not in gone)
        return Change(forward, tuple(id for id in withdraw if id not in new))

    def unsubscribe(self, id: Id) -> Change:
        """Remove a subscription; returns those it covered that must now be forwarded, and whether to withdraw it."""
        id = self._known(id)
        above, below = self._above.pop(id), self._below.pop(id)
        self.index.remove(id)
        del self._arrival[id]
        for other in above:
            self._below[other].discard(id)
        for other in below:
            self._above[other].discard(id)
        was_forwarded = id in self.forwarded
        self.forwarded.discard(id)
        self._reconnect(above, below)
        forward = [other for other in self._in_order(below) if self._is_orphan(other)]
        self.forwarded.update(forward)
        return Change(tuple(forward), (id,) if was_forwarded else ())

    def unsubscribe_many(self, ids: Sequence[Id]) -> Change:
        """Remove subscriptions as if at the same time; returns what to forward, and what to withdraw."""
        gone = set(self._all_known(ids))
        left = [self.unsubscribe(id) for id in ids]
        forward = dict.fromkeys(id for change in left for id in change.forward if id not in gone)
        withdraw = [id for change in left for id in change.withdraw]
        # of those that went together, one may have been forwarded only since another had gone
        new = {id for change in left for id in change.forward}
        return Change(tuple(forward), tuple(id for id in withdraw if id not in new))

    def _parents(self, id: Id) -> list[Id]:
        """The in-neighbours of a subscription that was added."""
        return self._covering(id, None, SUBSCRIBE)

    def _children(self, id: Id) -> list[Id]:
        """Link a new subscription to those below it; returns all that it covers."""
        raise NotImplementedError

    def _reconnect(self, above: set[Id], below: set[Id]) -> None:
        """Link those above and below a subscription that is gone, where the graph needs it."""

    def _is_orphan(self, id: Id) -> bool:
        """Whether a subscription that has lost an in-neighbour must be forwarded now."""
        return not self._above[id] and id not in self.forwarded

    def _known(self, id: Id) -> Id:
        if type(id) is int and id in self._above:
            return id
        known = checked_id(id)
        if known not in self._above:
            raise SubscriptionError(f"{id!r} is not subscribed")
        return known

    def _all_known(self, ids: Sequence[Id]) -> list[Id]:
        known = [self._known(id) for id in ids]
        if len(set(known)) < len(known):
            raise SubscriptionError("an id is given twice")
        return known

    def _enter(self, id: Id) -> None:
        self._above[id], self._below[id] = set(), set()
        self._arrival[id] = next(reversed(self._arrival.values()), 0) + 1

    def _in_order(self, ids: Iterable[Id]) -> list[Id]:
        """Ids in order of arrival."""
        return sorted(ids, key=self._arrival.__getitem__)

    def _covering(self, id: Id, k: int | None, phase: int) -> list[Id]:
        self._calls[phase] += 1
        return _listed(self.index.covering(id, k, phase))

    def _covered(self, id: Id) -> list[Id]:
        return _listed(self.index.covered(id))

    def _link(self, above: Iterable[Id], below: Iterable[Id]) -> None:
        for upper, lower in product(above, below):
            self._above[lower].add(upper)
            self._below[upper].add(lower)

    def check(self) -> None:
        """Raise AssertionError unless the invariant holds. O(n²)."""
        self.index.check()
        live = set(_listed(self.index.members()) if isinstance(self.index, Members) else self.index)
        require(live == self._above.keys() == self._below.keys(), "nodes and members of the index disagree")
        require(live == self._arrival.keys(), "nodes and times of arrival disagree")
        require(self.forwarded <= live, "something is forwarded that is not live")
        for id, above in self._above.items():
            for other in above:
                require(id in self._below[other], f"edge {other} → {id} is known to one end only")
                require(self.index.covers(other, id), f"edge {other} → {id} is not a covering")
            if id not in self.forwarded:
                require(above, f"{id} is neither forwarded nor covered")
                covering = set(_listed(self.index.covering(id)))
                require(covering & self.forwarded, f"{id} is covered by nothing that is forwarded")
            if self.withdraw and id in self.forwarded:
                require(not len(self.index.covering(id, 1)), f"{id} is forwarded and covered: Property 1 fails")
        require(sum(map(len, self._below.values())) == self.edges(), "edges out and edges in disagree")


def _listed(keys: Any) -> list[Any]:
    """Ids, or slots from an index of slots, as a list."""
    return keys if isinstance(keys, list) else keys.tolist()


class RelationGraph(_Graph):
    """G_k: up to k in-neighbours for each subscription."""

    def __init__(self, index: str | Covers = "kd_tree", k: int = 1, withdraw: bool = False) -> None:
        """Make an empty graph; `k` is the most in-neighbours that a subscription has."""
        check_whole(k, "k", 1)
        super().__init__(index, withdraw)
        self.k = k

    def _parents(self, id: Id) -> list[Id]:
        return self._covering(id, self.k, SUBSCRIBE)

    def subscribe_many(self, subscriptions: Sequence[tuple[Id, Any]]) -> Change:
        """Add (id, condition) pairs, whose ids are new, as if at the same time: one may be covered by any other."""
        if self.withdraw or not hasattr(self.index, "covering_many"):
            return super().subscribe_many(subscriptions)
        self.index.add_many(subscriptions)
        ids = [id for id, _ in subscriptions]
        last = next(reversed(self._arrival.values()), 0)
        for arrival, id in enumerate(ids, last + 1):
            self._below[id], self._arrival[id] = set(), arrival
        self._calls[SUBSCRIBE] += len(ids)
        forward = []
        for id, above in zip(ids, self.index.covering_many(ids, self.k), strict=True):
            self._above[id] = set(above)
            for upper in above:
                self._below[upper].add(id)
            if not above:
                forward.append(id)
        self.forwarded.update(forward)
        return Change(tuple(forward))

    def unsubscribe_many(self, ids: Sequence[Id]) -> Change:
        """Remove subscriptions as if at the same time; returns what to forward, and what to withdraw."""
        if not hasattr(self.index, "covering_many"):
            return super().unsubscribe_many(ids)
        gone = self._all_known(ids)
        withdraw = tuple(id for id in gone if id in self.forwarded)
        left: set[Id] = set()
        for id in gone:
            for other in self._above.pop(id):
                if other in self._below:
                    self._below[other].discard(id)
            for other in self._below.pop(id):
                if other in self._above:
                    self._above[other].discard(id)
                    left.add(other)
            del self._arrival[id]
            self.index.remove(id)
        self.forwarded.difference_update(gone)
        orphans = self._in_order(id for id in left if id in self._above and not self._above[id])
        self._calls[UNSUBSCRIBE] += len(orphans)
        for id, above in zip(orphans, self.index.covering_many(orphans, self.k) if orphans else [], strict=True):
            self._link(above, [id])
        forward = tuple(id for id in orphans if not self._above[id])
        self.forwarded.update(forward)
        return Change(forward, withdraw)

    def _children(self, id: Id) -> list[Id]:
        if self._above[id] or not self.withdraw:
            return []
        covered = [other for other in self._covered(id) if other in self.forwarded]
        self._link([id], covered)
        return covered

    def _is_orphan(self, id: Id) -> bool:
        if self._above[id]:
            return False
        self._link(self._covering(id, self.k, UNSUBSCRIBE), [id])
        return not self._above[id]

    def check(self) -> None:
        """Raise AssertionError unless the invariant holds."""
        super().check()
        for id, above in self._above.items():
            require(len(above) <= self.k, f"{id} has more than k in-neighbours")
            require(not (above and id in self.forwarded), f"{id} is forwarded, and was covered when last examined")


class CompleteGraph(_Graph):
    """G*: every covering is an edge. A subscribe is one query up and one down; an unsubscribe none."""

    def _children(self, id: Id) -> list[Id]:
        covered = self._covered(id)
        self._link([id], covered)
        return covered

    def check(self) -> None:
        """Raise AssertionError unless the invariant holds."""
        super().check()
        for id, above in self._above.items():
            require(above == set(_listed(self.index.covering(id))), f"{id} lacks an edge of G*")


class StrictPoset(_Graph):
    """The edges of G* without those that a longer path replaces. Queries as for G*."""

    def _lowest(self, ids: list[Id]) -> list[Id]:
        """Those of these that cover none of the others."""
        covers = self.index.covers
        return [a for a in ids if not any(covers(a, b) for b in ids)]

    def _parents(self, id: Id) -> list[Id]:
        return self._lowest(super()._parents(id))

    def _children(self, id: Id) -> list[Id]:
        """Put the subscription between the lowest above it and the highest below it."""
        covers, covered = self.index.covers, self._covered(id)
        highest = [b for b in covered if not any(covers(a, b) for a in covered)]
        for upper in self._above[id]:
            for lower in self._below[upper].intersection(highest):
                self._above[lower].discard(upper)
                self._below[upper].discard(lower)
        self._link([id], highest)
        return covered

    def _reconnect(self, above: set[Id], below: set[Id]) -> None:
        """Link directly what only the subscription that is gone connected."""
        for lower in below:
            others = self._above[lower].copy()
            for upper in above:
                if not any(upper == other or self.index.covers(upper, other) for other in others):
                    self._link([upper], [lower])

    def check(self) -> None:
        """Raise AssertionError unless the invariant holds."""
        super().check()
        for id, above in self._above.items():
            nearest = set(self._lowest(_listed(self.index.covering(id))))
            require(above == nearest, f"{id} is not linked to exactly those just above it")
