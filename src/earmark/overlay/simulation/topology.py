"""Which brokers there are, and which of them are neighbours: trees, since an overlay is acyclic.

    line:5      B1 ─ B2 ─ B3 ─ B4 ─ B5
    star:5      B2, B3, B4 and B5, each ─ B1
    tree:7      B1 ─ B2, B3;  B2 ─ B4, B5;  B3 ─ B6, B7         balanced; tree:13:3 has three below each
    random:50   one of all labelled trees of 50 brokers, each as likely as the others (by its Prüfer sequence)
    figure-1    11 brokers, as many as in Figure 1 of mics.txt, whose text does not have the edges. Chosen here:

                     B8 ─ B4 ┐             ┌ B6 ─ B10
                             B2 ─── B1 ─── B3
                     B9 ─ B5 ┘             └ B7 ─ B11

**Invariant**: the edges connect all brokers and have no cycle; broker 0 is the root of `parent` and of the intervals.
**Complexity**: `distances` is O(n²) for n brokers, everything else O(n log n).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from earmark.errors import EarmarkError
from earmark.flat.arrays import I64
from earmark.lazy import lazy_property

MOST_BROKERS = 1_000
FIGURE_1 = ((1, 2), (1, 3), (2, 4), (2, 5), (3, 6), (3, 7), (4, 8), (5, 9), (6, 10), (7, 11))
KINDS = ("line:N", "star:N", "tree:N", "tree:N:BRANCHES", "random:N", "figure-1")


@dataclass(frozen=True)
class Topology:
    """Brokers and the links between them."""

    name: str
    brokers: tuple[str, ...]
    edges: tuple[tuple[int, int], ...]
    """Pairs of places in `brokers`, the lower first, ascending."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.brokers) <= MOST_BROKERS:
            raise EarmarkError(f"expected a network of 1 to {MOST_BROKERS:,} brokers, got {len(self.brokers):,}")
        if len(self.edges) != len(self.brokers) - 1 or len(self._breadth_first) != len(self.brokers):
            raise EarmarkError(
                f"expected a network without cycles that connects all brokers, got {len(self.brokers):,} brokers and "
                f"{len(self.edges):,} links, with {len(self._breadth_first):,} brokers connected to {self.brokers[0]!r}"
            )

    @lazy_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """The neighbours of each broker, ascending."""
        out: list[list[int]] = [[] for _ in self.brokers]
        for one, other in self.edges:
            out[one].append(other)
            out[other].append(one)
        return tuple(tuple(sorted(row)) for row in out)

    @lazy_property
    def _breadth_first(self) -> tuple[int, ...]:
        order, seen = [0], {0}
        for broker in order:
            fresh = [other for other in self.neighbours[broker] if other not in seen]
            seen.update(fresh)
            order.extend(fresh)
        return tuple(order)

    @lazy_property
    def parent(self) -> I64:
        """The neighbour of each broker that is nearer to broker 0; broker 0 is its own."""
        place = {broker: i for i, broker in enumerate(self._breadth_first)}
        return np.array([min(self.neighbours[b], key=place.__getitem__) if b else 0 for b in range(len(self.brokers))])

    @lazy_property
    def distances(self) -> I64:
        """The number of links from each broker to each other one."""
        out = np.zeros((len(self.brokers), len(self.brokers)), np.int64)
        for known, broker in enumerate(self._breadth_first[1:], 1):
            before = list(self._breadth_first[:known])
            out[broker, before] = out[before, broker] = out[self.parent[broker], before] + 1
        return out

    @lazy_property
    def intervals(self) -> tuple[I64, I64]:
        """Numbers first … last of each broker: those of the brokers below it are inside, first is its own.

        This tells without a search on which side of a link a broker is: (B2, B4) of figure-1 has below it the brokers
        whose `first` is in the interval of B4.
        """
        size = np.ones(len(self.brokers), np.int64)
        for broker in reversed(self._breadth_first[1:]):
            size[self.parent[broker]] += size[broker]
        first, free = np.zeros(len(self.brokers), np.int64), np.zeros(len(self.brokers), np.int64)
        free[0] = 1
        for broker in self._breadth_first[1:]:
            parent = self.parent[broker]
            first[broker] = free[parent]
            free[parent] += size[broker]
            free[broker] = first[broker] + 1
        return first, first + size - 1


def topology_of(text: str, seed: int = 1) -> Topology:
    """Return the network that a short text describes, such as `line:5`; `seed` draws random trees."""
    kind, *numbers = text.split(":")
    counts = [int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 0 for number in numbers]
    if kind == "figure-1" and not counts:
        return _numbered(text, 11, [(one - 1, other - 1) for one, other in FIGURE_1])
    most = 2 if kind == "tree" else 1
    if kind not in ("line", "star", "tree", "random") or not 1 <= len(counts) <= most or min(counts) < 1:
        raise EarmarkError(f"expected a network such as {', '.join(KINDS)}, got {text!r}")
    count = counts[0]
    if count > MOST_BROKERS:
        raise EarmarkError(f"expected at most {MOST_BROKERS:,} brokers, got {count:,}")
    if kind == "line":
        return _numbered(text, count, [(b - 1, b) for b in range(1, count)])
    if kind == "random":
        return _numbered(text, count, _random_tree(count, Random(f"{seed}/topology")))
    branches = count if kind == "star" else counts[1] if len(counts) == 2 else 2
    return _numbered(text, count, [((b - 1) // branches, b) for b in range(1, count)])


def topology_of_edges(edges: Iterable[Sequence[str]], name: str = "edges") -> Topology:
    """Return the network of these links, each a pair of names; brokers are in the order in which they appear."""
    places: dict[str, int] = {}
    pairs = []
    for edge in edges:
        if len(edge) != 2 or edge[0] == edge[1]:
            raise EarmarkError(f"expected a link between two brokers, got {' '.join(map(str, edge))!r}")
        ends = [places.setdefault(str(end), len(places)) for end in edge]
        pairs.append((min(ends), max(ends)))
        if len(places) > MOST_BROKERS:
            raise EarmarkError(f"expected at most {MOST_BROKERS:,} brokers, got more")
    if not pairs:
        raise EarmarkError("expected at least one link between two brokers, got none")
    return Topology(name, tuple(places), tuple(sorted(set(pairs))))


def _numbered(name: str, count: int, edges: Iterable[tuple[int, int]]) -> Topology:
    return Topology(name, tuple(f"B{number + 1}" for number in range(count)), tuple(sorted(edges)))


def _random_tree(count: int, random: Random) -> list[tuple[int, int]]:
    """Return the tree of a random Prüfer sequence."""
    sequence = [random.randrange(count) for _ in range(count - 2)]
    degree = [1] * count
    for broker in sequence:
        degree[broker] += 1
    leaves = [broker for broker in range(count) if degree[broker] == 1]
    heapq.heapify(leaves)
    edges = []
    for broker in sequence:
        leaf = heapq.heappop(leaves)
        edges.append((min(leaf, broker), max(leaf, broker)))
        degree[broker] -= 1
        if degree[broker] == 1:
            heapq.heappush(leaves, broker)
    if count > 1:
        edges.append((heapq.heappop(leaves), heapq.heappop(leaves)))
    return edges
