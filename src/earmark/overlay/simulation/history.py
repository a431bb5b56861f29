"""What happened at the edge of a simulated network: requests, confirmations, publications, notifications.

Everything that matters to the oracle gets a number from one count, `order`, so that "before" is never a tie:

    subscription 7    asked 12 ── in force 40 ─────────────── withdrawn 95 ── gone 110
    publication 3                        sent 50 ── last seen 63                             must reach the owner of 7
    publication 4          sent 20 ── last seen 31                                           may reach it
    publication 5                                                                 sent 120   must not

**Complexity**: O(1) for everything that is noted, in arrays of numbers: a million notifications need 50 MB.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence

import numpy as np

from earmark.flat.arrays import I64
from earmark.overlay.simulation.plan import Plan

NEVER = 2**62
"""The order of what has not happened."""


class History:
    """All that a central observer needs to know what should have been delivered, and what was."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.order = 0
        count, published = len(plan.content.conditions), len(plan.content.events)
        self.asked, self.in_force, self.withdrawn, self.gone = (np.full(count, NEVER) for _ in range(4))
        self.waits = array("q")
        """Microseconds from each subscribe or withdrawal until it was in force."""
        self.sent, self.seen = np.full(published, NEVER), np.zeros(published, np.int64)
        self.sent_at = np.zeros(published, np.int64)
        self.origin = np.zeros(published, np.int64)
        """The broker to which each publication was given."""
        self.hop_publication, self.hop_from, self.hop_to = array("q"), array("q"), array("q")
        """Every arrival of a publication from a neighbour."""
        self.notified_publication, self.notified_client = array("q"), array("q")
        self.notified_at, self.notified_count, self.notified_ids = array("q"), array("q"), array("q")
        self.wrong_content = 0
        """Notifications with another event than was published, or of a publication that nobody made."""
        self.excused: set[tuple[int, int, int]] = set()
        """(publication, broker, next broker or the same for its clients): inside a broker when it crashed."""
        self._pending: list[deque[tuple[int, int, bool, int]]] = [deque() for _ in plan.home]

    def tick(self) -> int:
        """Return the next number."""
        self.order += 1
        return self.order

    def ask(self, client: int, number: int, place: int, at: int, is_withdrawal: bool) -> None:
        """A client subscribes, or withdraws a subscription."""
        (self.withdrawn if is_withdrawal else self.asked)[place] = self.tick()
        self._pending[client].append((number, place, is_withdrawal, at))

    def confirm(self, client: int, number: int, at: int) -> None:
        """A client was told that its requests up to a number are in force."""
        pending = self._pending[client]
        order = self.tick()
        while pending and pending[0][0] <= number:
            _, place, is_withdrawal, asked_at = pending.popleft()
            (self.gone if is_withdrawal else self.in_force)[place] = order
            self.waits.append(at - asked_at)

    def unconfirmed(self, client: int) -> list[tuple[int, int, bool]]:
        """The requests of a client that are not in force yet: number, subscription, whether it is a withdrawal."""
        return [row[:3] for row in self._pending[client]]

    def publish(self, place: int, broker: int, at: int) -> None:
        """A client publishes."""
        self.sent[place] = self.seen[place] = self.tick()
        self.sent_at[place], self.origin[place] = at, broker

    def unpublish(self, place: int) -> None:
        """A publication was refused."""
        self.sent[place] = NEVER

    def hop(self, place: int, sender: int, receiver: int) -> None:
        """A publication arrived from a neighbour."""
        self.hop_publication.append(place)
        self.hop_from.append(sender)
        self.hop_to.append(receiver)
        self.see(place)

    def notify(self, place: int, client: int, ids: Sequence[int], at: int) -> None:
        """A client was notified."""
        self.notified_publication.append(place)
        self.notified_client.append(client)
        self.notified_at.append(at)
        self.notified_count.append(len(ids))
        self.notified_ids.extend(ids)
        self.see(place)

    def see(self, place: int) -> None:
        """A publication was somewhere in the network: what is asked for from now on may still get it."""
        self.seen[place] = self.tick()


def numbers(column: array[int]) -> I64:
    """Return a column of a history as an array."""
    return np.frombuffer(column, np.int64) if len(column) else np.zeros(0, np.int64)
