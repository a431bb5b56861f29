"""What went over the links of a simulated network: messages and bytes by kind and link, bursts, and a record.

    kind       a message's class. Want, Unwant, WantRanges, UnwantRanges, Offer and Unoffer are *control* messages, the
               subscription traffic of the papers; InForce, Hello, Resynchronise and Synchronised keep the books
    ranges     messages of ranges have many; they are counted too, since a range is what MICS stores and sends
    burst      control messages that one broker sends on one link at one instant because of withdrawals alone

**The record** is every message that arrived, in order, in binary form with its time and link; its checksum tells
whether two runs were the same, byte for byte. A file keeps it as JSON lines.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import IO

import msgspec

from earmark.overlay import messages as m

CONTROL = (m.Want, m.Unwant, m.WantRanges, m.UnwantRanges, m.Offer, m.Unoffer)
WITHDRAWALS = (m.Unwant, m.UnwantRanges, m.Unsubscribe)
Edge = tuple[str, str]
"""Sender and receiver."""


class Tally:
    """Counts of one run."""

    def __init__(self, record: IO[bytes] | None = None) -> None:
        self.messages: dict[Edge, Counter[str]] = {}
        self.bytes: dict[Edge, Counter[str]] = {}
        self.ranges = 0
        """Ranges in messages of ranges."""
        self.bursts: Counter[int] = Counter()
        """How many bursts there were of each size."""
        self.frames = Counter[str]()
        """Of links that are not perfect: sent, lost, repeated, cut off."""
        self.last_control = 0
        """When the last message that is not a publication arrived."""
        self._digest = hashlib.blake2b(digest_size=16)
        self._record = record

    def arrived(self, sender: str, receiver: str, messages: Sequence[m.Message], at: int) -> None:
        """Messages arrived on a link, in order."""
        edge = (sender, receiver)
        if edge not in self.messages:
            self.messages[edge], self.bytes[edge] = Counter(), Counter()
        count, size = self.messages[edge], self.bytes[edge]
        self._digest.update(b"%d %s>%s\n" % (at, sender.encode(), receiver.encode()))
        for message in messages:
            name = type(message).__name__
            data = m.encoded(message)
            count[name] += 1
            size[name] += len(data)
            self._digest.update(data)
            if isinstance(message, m.WantRanges | m.UnwantRanges):
                self.ranges += len(message.ranges)
        if any(type(message) is not m.Publication for message in messages):
            self.last_control = at
        if self._record is not None:
            self._line({"at": at, "from": sender, "to": receiver, "messages": messages})

    def note(self, what: str, who: str, at: int, value: object = None) -> None:
        """Something else happened: a request, a notification, a crash."""
        line = {"at": at, "what": what, "who": who, "value": value}
        self._digest.update(msgspec.json.encode(line))
        if self._record is not None:
            self._line(line)

    def _line(self, line: object) -> None:
        if self._record is not None:
            self._record.write(msgspec.json.encode(line) + b"\n")

    def burst(self, sent: Sequence[m.Message]) -> None:
        """A broker sent messages on one link because of withdrawals; count its control messages."""
        size = sum(isinstance(message, CONTROL) for message in sent)
        if size:
            self.bursts[size] += 1

    @property
    def digest(self) -> str:
        """The checksum of all that was recorded."""
        return self._digest.hexdigest()

    def by_kind(self) -> dict[str, tuple[int, int]]:
        """Messages and bytes of each kind, on all links."""
        kinds = sorted({kind for count in self.messages.values() for kind in count})
        return {
            kind: (
                sum(count[kind] for count in self.messages.values()),
                sum(size[kind] for size in self.bytes.values()),
            )
            for kind in kinds
        }
