"""Publications on their way: each taken once, matched here, sent where it is wanted, held where that is not known.

**Once.** An origin's publications have rising (run, number), and a path keeps their order, so what is not above the
highest seen of its origin is a duplicate: something that was sent again after a reset.
**Held.** A neighbour without a channel gets what it wants when it is back. Of a neighbour that has not told what it
wants (this broker started again, or the neighbour is new), everything is held, and sent as far as it is wanted once it
has told. At most `holding` per link, in number and in bytes; then the oldest go, and are counted as lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from earmark.overlay.delivery import Clients
from earmark.overlay.messages import Message, Publication, Publish
from earmark.overlay.neighbour import NeighbourLink
from earmark.overlay.policies import LOCAL
from earmark.overlay.routing import Router, Sent

MOST_ORIGINS = 65_536
"""Origins that are remembered; of more, the one that was not heard of for longest is forgotten."""


class Publications:
    """What is on its way through one broker."""

    def __init__(self, name: str, run: int, router: Router, clients: Clients, holding: tuple[int, int]) -> None:
        self._name, self._run = name, run
        self._router, self._clients, self._holding = router, clients, holding
        self._last = 0
        self._seen: dict[str, tuple[int, int]] = {}
        self._waiting: list[tuple[Publication, str]] = []
        self._counts = {"published": 0, "received": 0, "duplicates": 0, "sent": 0, "notified": 0, "unwanted": 0}

    def publish(self, request: Publish) -> None:
        """Take a publication of a local client."""
        self._last += 1
        self._counts["published"] += 1
        made = Publication(self._name, self._run, self._last, request.event, request.weights)
        self._waiting.append((made, LOCAL))

    def take(self, publication: Publication, source: str) -> None:
        """Take a publication of a neighbour, unless it is a duplicate."""
        number = publication.run, publication.number
        if number <= self._seen.get(publication.origin, (-1, -1)):
            self._counts["duplicates"] += 1
            return
        self._seen.pop(publication.origin, None)
        self._seen[publication.origin] = number
        if len(self._seen) > MOST_ORIGINS:
            del self._seen[next(iter(self._seen))]
        self._counts["received"] += 1
        self._waiting.append((publication, source))

    def flush(self) -> list[Sent]:
        """Send and deliver what was taken."""
        if not self._waiting:
            return []
        taken, self._waiting = self._waiting, []
        publications = [publication for publication, _ in taken]
        wanted = self._wanting([one.event for one in publications])
        deliveries = self._clients.deliveries(publications)
        sent: list[Sent] = []
        links = [(link, link.name, link.party, link.takes_publications) for link in self._router.links.values()]
        for (publication, source), wanting, messages in zip(taken, wanted, deliveries, strict=True):
            before = len(sent)
            for link, name, party, is_ready in links:
                if name == source:
                    continue
                if is_ready:
                    if name in wanting:
                        sent.append((party, publication))
                elif not link.is_known or name in wanting:
                    self._hold(link, publication)
            self._counts["sent"] += len(sent) - before
            self._counts["notified"] += len(messages)
            self._counts["unwanted"] += len(sent) == before and not messages and source != LOCAL
            sent += [(client.party, message) for client, message in messages]
        return sent

    def _wanting(self, events: Sequence[Mapping[str, Any]]) -> list[set[str]]:
        """For each event, the neighbours that want it."""
        router = self._router
        wanted: list[set[str]] = [set() for _ in events]
        if len(router.table):
            names = {link.code: link.name for link in router.links.values()}
            flags, unread = router.table.owners(events, max(names) + 1)
            for place, code in zip(*(axis.tolist() for axis in np.nonzero(flags)), strict=True):
                wanted[place].add(names[code])
            for place in unread:
                wanted[place].update(link.name for link in router.links.values() if link.wants or link.stale)
        by_ranges = router.policy.wanting(events)
        for wanting, more in zip(wanted, by_ranges or (), strict=False):
            wanting |= more
        return wanted

    # --- held ----------------------------------------------------------------------------------------------------

    def _hold(self, link: NeighbourLink, publication: Publication) -> None:
        link.held.add(publication)
        link.lost += link.held.shorten(*self._holding)

    def hold_again(self, link: NeighbourLink, undelivered: Iterable[Message]) -> None:
        """Hold the publications of a channel that is gone; they are older than those held since."""
        again = [message for message in undelivered if isinstance(message, Publication)]
        link.held.add_before(again)
        link.lost += link.held.shorten(*self._holding)

    def flush_held(self, link: NeighbourLink) -> list[Sent]:
        """What was held for a neighbour that has told everything, as far as it wants it."""
        held, party = link.held.take_all(), link.party
        if not held:
            return []
        wanted = self._wanting([one.event for one in held])
        sent: list[Sent] = [
            (party, publication) for publication, names in zip(held, wanted, strict=True) if link.name in names
        ]
        self._counts["sent"] += len(sent)
        return sent

    def lost(self) -> int:
        """Held publications that were dropped, of all present links."""
        return sum(link.lost for link in self._router.links.values())

    def status(self) -> dict[str, object]:
        """Counters."""
        return dict(self._counts)
