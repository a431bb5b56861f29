"""Covering: an entry is told on a link only where nothing that was told there covers it.

A relation graph per outgoing link (`earmark.cover.relation_graph`, after Shen, Tirthapura and Aluru, Section III); its
nodes are the entries that concern the link. One graph per broker would lose events: a wide entry of neighbour A would
keep B's narrow one from being told *to A*, which needs it to send B anything. What is told on a link counts entries of
each source by themselves, so equal ones from two links survive the withdrawal of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from earmark.cover.relation_graph import CompleteGraph, RelationGraph, StrictPoset
from earmark.errors import EarmarkError, SubscriptionError
from earmark.overlay.policies import Entry, Policy, Statement, Tell, Untell

GRAPHS = ("k", "poset", "complete")


class Covering(Policy):
    """Relation graphs, one per outgoing link."""

    name = "covering"

    def __init__(self, graph: str = "k", k: int = 1, index: str = "kd_tree", withdraw: bool = False) -> None:
        """Choose how covering is known.

        `graph` is 'k' (G_k), 'poset' (the strict poset) or 'complete' (G*); `index` names the covering index;
        `withdraw` takes back what was told as soon as something wider is.
        """
        if graph not in GRAPHS:
            raise EarmarkError(f"expected one of {', '.join(GRAPHS)} for graph, got {graph!r}")
        self._graph, self._k, self._index, self._withdraw = graph, k, index, withdraw
        self._make()
        self._links: dict[str, _Outgoing] = {}

    def _make(self) -> RelationGraph | StrictPoset | CompleteGraph:
        if self._graph == "k":
            return RelationGraph(self._index, self._k, self._withdraw)
        return (StrictPoset if self._graph == "poset" else CompleteGraph)(self._index, self._withdraw)

    def open(self, link: str) -> None:
        """Begin a link."""
        self._links[link] = _Outgoing(self._make())

    def close(self, link: str) -> None:
        """Forget a link."""
        del self._links[link]

    def change(self, link: str, added: Sequence[Entry], removed: Sequence[Entry]) -> list[Statement]:
        """Tell what nothing covers, and what the removed ones covered, then withdraw them."""
        outgoing = self._links[link]
        statements: list[Statement] = []
        for entry in added:
            statements += outgoing.add(entry)
        for entry in removed:
            statements += outgoing.remove(entry)
        return statements

    def told(self, link: str) -> list[Statement]:
        """What is forwarded."""
        outgoing = self._links[link]
        numbers = sorted([*outgoing.graph.forwarded, *outgoing.odd])
        return [Tell(number, outgoing.entries[number].condition) for number in numbers]

    def status(self, link: str) -> dict[str, object]:
        """How many entries concern the link, and how many of them were told."""
        outgoing = self._links[link]
        return {"entries": len(outgoing.entries), "told": len(outgoing.graph.forwarded) + len(outgoing.odd)}


class _Outgoing:
    """One outgoing link."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.entries: dict[int, Entry] = {}
        self.odd: set[int] = set()
        """Entries that contradict the types of the others: they cover nothing, and nothing covers them."""

    def add(self, entry: Entry) -> list[Statement]:
        self.entries[entry.number] = entry
        try:
            change = self.graph.subscribe(entry.number, entry.condition)
        except SubscriptionError:
            self.odd.add(entry.number)
            return [Tell(entry.number, entry.condition)]
        return self._said(change.forward, change.withdraw)

    def remove(self, entry: Entry) -> list[Statement]:
        if entry.number in self.odd:
            self.odd.remove(entry.number)
            del self.entries[entry.number]
            return [Untell(entry.number)]
        change = self.graph.unsubscribe(entry.number)
        said = self._said(change.forward, change.withdraw)
        del self.entries[entry.number]
        return said

    def _said(self, forward: Sequence[int], withdraw: Sequence[int]) -> list[Statement]:
        told: list[Statement] = [Tell(number, self.entries[number].condition) for number in forward]
        return told + [Untell(number) for number in withdraw]
