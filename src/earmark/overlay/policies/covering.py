"""Covering: an entry is told on a link only where nothing that was told there covers it.

A relation graph per outgoing link (`earmark.cover.relation_graph`, after Shen, Tirthapura and Aluru, Section III); its
nodes are the entries that concern the link. One graph per broker would lose events: a wide entry of neighbour A would
keep B's narrow one from being told *to A*, which needs it to send B anything. What is told on a link counts entries of
each source by themselves, so equal ones from two links survive the withdrawal of one. All graphs share one covering
index (rows.py).

**Bursts.** The withdrawal of a wide entry uncovers many, and all of them are told at once: the known weakness of
covering. With `burst`, at most that many are told at once, and as many again at each tick; whatever is to be withdrawn
stays told until all of them have been. So there is always something told that covers each entry:

    told        wide                                  and an unsubscribe of `wide` uncovers 1 2 3 4 5 (burst = 2)
    at once     wide 1 2          pending 3 4 5       to be withdrawn: wide
    tick        wide 1 2 3 4      pending 5
    tick        1 2 3 4 5                             Tell(5), then Untell(wide)

Invariant: what is told is what the graph forwards, without the pending, and with those to be withdrawn; if anything is
pending, everything that was told when it was uncovered is still told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from earmark.cover.relation_graph import CompleteGraph, RelationGraph, StrictPoset
from earmark.errors import EarmarkError, check_flag, check_whole
from earmark.overlay.policies import Entry, Policy, Statement, Tell, Untell
from earmark.overlay.policies.rows import LinkIndex, Rows

GRAPHS = ("k", "poset", "complete")


class Covering(Policy):
    """Relation graphs, one per outgoing link."""

    name = "covering"

    def __init__(
        self, graph: str = "k", k: int = 1, index: str = "layers", withdraw: bool = False, burst: int | None = None
    ) -> None:
        """Choose how covering is known.

        `graph` is 'k' (G_k), 'poset' (the strict poset) or 'complete' (G*); `index` names the covering index;
        `withdraw` takes back what was told as soon as something wider is; `burst` is how many uncovered entries are
        told at once, and at each tick.
        """
        if graph not in GRAPHS:
            raise EarmarkError(f"expected one of {', '.join(GRAPHS)} for graph, got {graph!r}")
        check_flag(withdraw, "withdraw")
        if burst is not None:
            check_whole(burst, "burst", 1)
        self._graph, self._k, self._withdraw, self._burst = graph, k, withdraw, burst
        self._index = index
        self.declare({}, "UTC")
        self._links: dict[str, _Outgoing] = {}

    def _made(self) -> RelationGraph | StrictPoset | CompleteGraph:
        index = LinkIndex(self._rows)
        if self._graph == "k":
            return RelationGraph(index, self._k, self._withdraw)
        return (StrictPoset if self._graph == "poset" else CompleteGraph)(index, self._withdraw)

    def declare(self, attributes: Mapping[str, str], zone: str) -> Mapping[str, str]:
        """Read conditions with these types, in this zone."""
        self._rows = Rows(self._index, attributes, zone)
        self._made()
        return attributes

    def open(self, link: str) -> None:
        """Begin a link."""
        self._links[link] = _Outgoing(self._made(), self._rows, self._burst)

    def close(self, link: str) -> None:
        """Forget a link."""
        del self._links[link]

    def learn(self, entries: Sequence[Entry]) -> None:
        """Bind and index entries, once for all links."""
        self._rows.learn(entries)

    def unlearn(self, entries: Sequence[Entry]) -> None:
        """Forget entries."""
        self._rows.unlearn(entries)

    def change(self, link: str, added: Sequence[Entry], removed: Sequence[Entry]) -> list[Statement]:
        """Tell what nothing covers, and what the removed ones covered, then withdraw them."""
        outgoing = self._links[link]
        statements = outgoing.add(added)
        return statements + outgoing.remove(removed)

    def told(self, link: str) -> list[Statement]:
        """What is forwarded, the pending included."""
        return self._links[link].everything()

    def tick(self, now: float) -> list[tuple[str, Statement]]:
        """What was uncovered and is still to be told."""
        return [(link, statement) for link, outgoing in self._links.items() for statement in outgoing.tick()]

    def status(self, link: str) -> dict[str, object]:
        """How many entries concern the link, how many of them were told, and what is pending."""
        outgoing = self._links[link]
        told = len(outgoing.graph.forwarded) + len(outgoing.odd) - len(outgoing.pending) + len(outgoing.leaving)
        return {
            "entries": len(outgoing.entries),
            "told": told,
            "pending": len(outgoing.pending) + len(outgoing.leaving),
        }


class _Outgoing:
    """One outgoing link."""

    def __init__(self, graph: Any, rows: Rows, burst: int | None) -> None:
        self.graph = graph
        self.entries: dict[int, Entry] = {}
        self.odd: set[int] = set()
        self.pending: dict[int, None] = {}
        """Entries that were uncovered and not told yet, in order."""
        self.leaving: dict[int, None] = {}
        """Labels that are withdrawn when nothing is pending any more, in order. The neighbour still has them."""
        self._rows, self._burst = rows, burst

    def add(self, entries: Sequence[Entry]) -> list[Statement]:
        self.entries.update((entry.number, entry) for entry in entries)
        odd: list[Statement] = []
        if self._rows.odd:
            odd = [Tell(entry.number, entry.condition) for entry in entries if entry.number in self._rows.odd]
            self.odd.update(entry.number for entry in entries if entry.number in self._rows.odd)
            entries = [entry for entry in entries if entry.number not in self.odd]
        change = self.graph.subscribe_many([(entry.number, entry.condition) for entry in entries])
        return self._said(change.forward, change.withdraw) + odd

    def remove(self, entries: Sequence[Entry]) -> list[Statement]:
        for entry in entries:
            del self.entries[entry.number]
        odd: list[Statement] = []
        if self.odd:
            odd = [Untell(entry.number) for entry in entries if entry.number in self.odd]
            entries = [entry for entry in entries if entry.number not in self.odd]
            self.odd.difference_update(said.label for said in odd if isinstance(said, Untell))
        change = self.graph.unsubscribe_many([entry.number for entry in entries])
        return odd + self._uncovered(change)

    def _uncovered(self, change: Any) -> list[Statement]:
        if self._burst is None:
            return self._said(change.forward, change.withdraw)
        forward = self._kept(change.forward)
        self.pending.update(dict.fromkeys(forward))
        return self._withdrawn(change.withdraw) + ([] if len(self.pending) > len(forward) else self.tick())

    def _said(self, forward: Sequence[int], withdraw: Sequence[int]) -> list[Statement]:
        told: list[Statement] = [Tell(number, self.entries[number].condition) for number in self._kept(forward)]
        return told + self._withdrawn(withdraw)

    def _kept(self, forward: Sequence[int]) -> Sequence[int]:
        """Keep those of these entries that were about to be withdrawn; returns the others, which must be told."""
        if not self.leaving:
            return forward
        kept = [number for number in forward if number in self.leaving]
        for number in kept:
            del self.leaving[number]
        return [number for number in forward if number not in kept] if kept else forward

    def _withdrawn(self, labels: Sequence[int]) -> list[Statement]:
        """Withdraw what was told: at once, or when nothing is pending."""
        told = [label for label in labels if label not in self.pending]
        for label in labels:
            self.pending.pop(label, None)
        if not self.pending and not self.leaving:
            return [Untell(label) for label in told]
        self.leaving.update(dict.fromkeys(told))
        return []

    def tick(self) -> list[Statement]:
        """Tell the next of the pending; after the last, withdraw what was kept for them."""
        if not self.pending and not self.leaving:
            return []
        numbers = [*self.pending][: self._burst]
        for number in numbers:
            del self.pending[number]
        said: list[Statement] = [Tell(number, self.entries[number].condition) for number in numbers]
        if not self.pending:
            said += [Untell(label) for label in self.leaving]
            self.leaving = {}
        return said

    def everything(self) -> list[Statement]:
        self.pending, self.leaving = {}, {}
        numbers = sorted([*self.graph.forwarded, *self.odd])
        return [Tell(number, self.entries[number].condition) for number in numbers]
