"""Advertisements: where an entry need be told at all, since somebody there offers what it wants.

Clients advertise what they will publish. Offers are told on every link but their own, and an entry is told on a link
only if it *meets* an offer that came from there, that is, if some event matches both. A neighbour of which it is not
known yet what it offers counts as offering everything.

    publisher ── P ──Offer──► X ──Offer──► Y ── subscriber        Y tells X, and X tells P, what meets the offer
                 P ◄──Want─── X ◄──Want─── Y                      before they say that the offer is in force

Whether two conditions meet is decided from their canonical forms, clause by clause: two clauses meet unless the sets of
an attribute that both constrain are disjoint. Conditions that brokers may read differently (policies/rows.py) count as
meeting everything.

Complexity: O(offers of a link) per entry and link, in one kernel; a new offer O(entries).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from earmark.cover.exact import clauses_meet
from earmark.flat.arrays import I64
from earmark.flat.machine import at
from earmark.jit import kernel
from earmark.overlay.policies import Entry
from earmark.overlay.policies.rows import Bound
from earmark.segment.arrays import SegmentArrays


class Offers(Bound):
    """What is offered, by source; and which entries meet it."""

    def __init__(self, attributes: Mapping[str, str], zone: str) -> None:
        """Make it empty. Conditions are read with these types, in this zone."""
        super().__init__("linear", attributes, zone)
        self._by_source: dict[str, dict[int, Entry]] = {}

    def told(self, link: str) -> list[Entry]:
        """What a neighbour is told: the offers of all other sources."""
        sources = self._by_source.items()
        return sorted(offer for source, offers in sources if source != link for offer in offers.values())

    def add(self, offer: Entry) -> None:
        """Somebody offers something."""
        self.learn([offer])
        self._by_source.setdefault(offer.source, {})[offer.number] = offer

    def remove(self, offer: Entry) -> None:
        """An offer is withdrawn."""
        self.unlearn([offer])
        del self._by_source[offer.source][offer.number]

    def meeting(self, entries: Iterable[Entry], source: str) -> list[Entry]:
        """Those entries that meet an offer of a source."""
        return self._meeting(entries, [*self._by_source.get(source, ())])

    def meeting_one(self, entries: Iterable[Entry], offer: Entry) -> list[Entry]:
        """Those entries that meet one offer."""
        return self._meeting(entries, [offer.number])

    def _meeting(self, entries: Iterable[Entry], offers: list[int]) -> list[Entry]:
        if not offers:
            return []
        if not self.odd.isdisjoint(offers):
            return [*entries]
        index, places = self.index, np.array([self.index.slot(number) for number in offers], np.int64)
        return [
            entry
            for entry in entries
            if entry.number in self.odd or meets_any(index.table, index.slot(entry.number), places)
        ]


@kernel
def meets_any(table: SegmentArrays, slot: int, others: I64) -> bool:
    """Whether some event matches a slot and one of the others."""
    for i in range(len(others)):
        for a in range(at(table.clause_start, slot), at(table.clause_start, slot + 1)):
            for b in range(at(table.clause_start, others[i]), at(table.clause_start, others[i] + 1)):
                if clauses_meet(table, a, b):
                    return True
    return False
