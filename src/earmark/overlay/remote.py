"""Remote: a neighbour or a client as a driver knows it, with its link, what has arrived and was not handled, and more.

A neighbour's link takes whatever the broker says; `fullness` tells when others should wait. A client's link is bounded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

from earmark.errors import EarmarkError
from earmark.overlay import messages as m
from earmark.overlay.channel import BATCH, BATCH_SIZE, WINDOW, WINDOW_SIZE
from earmark.overlay.conditions import MOST_WORK as BROKER_WORK
from earmark.overlay.conditions import is_plain, work_of
from earmark.overlay.connection import Connection
from earmark.overlay.link import Link
from earmark.overlay.messages import Message
from earmark.overlay.neighbour import Party

MOST_QUEUED = 65_536
"""Messages that wait for one neighbour before others have to wait, twice. More may wait at once if the broker says so
much, such as everything to a new neighbour; but not for a neighbour that is away."""
MOST_QUEUED_SIZE = 1 << 26
MOST_FOR_CLIENT = 65_536
"""Messages that wait for one client."""
ENDLESS = 1 << 62
FULL = 0.5
"""How full the queue of a neighbour is when others have to wait."""


class Remote:
    """A neighbour or a client, as long as this broker runs: its link outlives connections."""

    def __init__(self, party: Party, session: bytes, link: Link[Any]) -> None:
        self.party = party
        self.session = session
        self.link = link
        self.connection: Connection | None = None
        self.is_dialled = False
        self.wake = asyncio.Event()
        self.lock = asyncio.Lock()
        """Held while a connection carries the link."""
        self.inbox: deque[tuple[tuple[Message, ...], int]] = deque()
        self.inbox_size = 0
        self.away_since: float | None = None
        self._progress: tuple[object, float] = (None, 0.0)
        """What it had acknowledged when it was last seen to go on, and when that was."""
        self.is_slow = False
        self.shed = 0
        self.said = ""
        """Why it was expelled last, until its link was up again."""
        self.last = 0
        """The highest number of a client's requests."""
        self.wishes: set[tuple[str, m.Id]] = set()
        """Subscriptions and advertisements of a client."""

    @property
    def fullness(self) -> float:
        """How full the queue is; above 1 for a neighbour that is told very much at once."""
        if self.party.kind == "client":
            return self.link.fullness
        return max(self.link.queued / MOST_QUEUED, self.link.size / MOST_QUEUED_SIZE)

    def is_stuck(self, now: float, most: float) -> bool:
        """Whether it is connected, its queue is full, and it has acknowledged nothing for more than `most` seconds."""
        progress = self.link.channel, self.link.acknowledged
        if self.connection is None or not self.link.is_open or self.fullness <= FULL or progress != self._progress[0]:
            self._progress = progress, now
        return now - self._progress[1] > most

    def next_messages(self, most: int) -> tuple[Sequence[Message], int]:
        """Take the messages of the next frame, as many as are this much work, and at least one; and their work."""
        messages, size = self.inbox.popleft()
        taken = work = 0
        for message in messages:
            if taken and work >= most:
                break
            taken, work = taken + 1, work + _work(message)
        left = size * (len(messages) - taken) // len(messages)
        if taken < len(messages):
            self.inbox.appendleft((messages[taken:], left))
        self.inbox_size -= size - left
        return messages[:taken], work

    def clear(self) -> None:
        """Drop what has arrived and was not taken."""
        self.inbox.clear()
        self.inbox_size = 0


def new_link(party: Party, run: int, resets: int) -> Link[Any]:
    """The link to a neighbour or client, with this number of resets behind it."""
    return Link(
        named(party),
        run,
        resets=resets,
        most=ENDLESS if party.kind == "broker" else MOST_FOR_CLIENT,
        most_size=ENDLESS if party.kind == "broker" else MOST_QUEUED_SIZE,
        batch=BATCH,
        batch_size=BATCH_SIZE,
        ahead=0,
        window=WINDOW,
        window_size=WINDOW_SIZE,
        is_deferred=True,
    )


def named(party: Party) -> str:
    """How messages name a neighbour or a client."""
    return f"{party.kind} {party.name!r}"


def remote_status(remote: Remote) -> dict[str, object]:
    """Its connection, link and queues, JSON-able."""
    status: dict[str, object] = {
        "connected": remote.connection is not None,
        "open": remote.link.is_open,
        "queued": remote.link.queued,
        "queued_bytes": remote.link.size,
        "fullness": round(remote.fullness, 4),
        "inbox": sum(len(messages) for messages, _ in remote.inbox),
        "resets": remote.link.resets,
    }
    if remote.party.kind == "client":
        status["slow"] = remote.is_slow
    return status


def _work(message: Message) -> int:
    """How much work a message is, in constraints of its condition."""
    condition: str = getattr(message, "condition", "")
    if not condition or is_plain(condition):
        return 0
    try:
        return min(work_of(condition), BROKER_WORK)
    except EarmarkError:
        return 0
