"""Driver: a broker, its links to neighbours and clients, and its file. It reads no socket and no clock.

Frames and the time are given to it (`arrived`, `tick`); of asyncio it has only the events that wake those who carry
frames and call `work`, and the lock that one of them holds.

    frames ──► link ──► inbox ──► broker.receive_many ──► links ──► frames
                          │              │
                    acknowledged     subscriptions to the file
                    when taken       before anybody is told

**Order of things.** `work` takes messages from the inboxes in turns, lets the broker handle them in one batch, writes
changed subscriptions to the file, passes on what the broker says, and only then acknowledges the messages.

**Back-pressure.** A message that was not taken is not acknowledged, so its sender keeps it, and slows down in turn.
Messages of one party are taken while the queue of every *other* neighbour is less than half full. Brokers form a tree
and frames are always read, so parties never wait for each other in a circle. A neighbour that is away for longer than
`patience` no longer counts: its link is reset, and the broker holds what it can (Broker.disconnect). So is one that is
connected and acknowledges nothing for twice that time while its queue is that full, and it loses its connection.
With `forget` it is dropped after that time, as if it had never been there; `drop` does so at once.

**Slow clients.** When more than SLOW messages wait for a client, the broker is told that it is away: its notifications
then wait in the broker, up to the bound that the client prefers, and the worst are shed. It is told how many.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from earmark.errors import EarmarkError, shortened
from earmark.overlay import messages as m
from earmark.overlay.broker import Broker, Party, Sent
from earmark.overlay.channel import MOST_MESSAGE, MOST_PACKET, WINDOW_SIZE, Outgoing, frame_packet, outgoing
from earmark.overlay.connection import Connection
from earmark.overlay.link import Arrival, Link
from earmark.overlay.messages import Message, ProtocolError
from earmark.overlay.remote import FULL, MOST_QUEUED_SIZE, Remote, named, new_link, remote_status
from earmark.overlay.store import (
    Advertised,
    Change,
    Forgotten,
    Kept,
    Neighbour,
    Preferred,
    Store,
    Unadvertised,
    Withdrawn,
)

MOST_PARTIES = {"broker": 1_024, "client": 65_536}
"""Neighbours and clients that are known, connected or not."""
SLOW = 8_192
MOST_INBOX = 2 * WINDOW_SIZE + MOST_PACKET
SWEEP = 10.0
"""Seconds between looks for clients that have been away for long."""
IDLE = 300.0
"""Seconds after which a client that is away and wants nothing is forgotten, and a neighbour that was never up."""
PATIENCE = 30.0
"""Seconds after which a neighbour that is away no longer slows others down, unless the broker is given others."""
MOST_WORK = 10_000
"""Constraints in the conditions of one batch, apart from plain ones; then others get their turn."""
NEARLY_ALL = 0.9

log = logging.getLogger("earmark.overlay")


class Driver:
    """One broker with its links. All methods are called from one thread."""

    def __init__(
        self,
        broker: Broker,
        store: Store | None = None,
        forget_after: float | None = None,
        *,
        forget: float | None = None,
        patience: float = PATIENCE,
    ) -> None:
        """`forget_after`: seconds after which a client that is away is forgotten with its subscriptions.

        `forget`: seconds after which a neighbour that is away is dropped. `patience`: those after which it no longer
        slows others down.
        """
        self.broker = broker
        self.store = store
        self._forget_after, self._forget, self._patience = forget_after, forget, patience
        self._sweep_at: float | None = None
        self._first_tick: float | None = None
        self.remotes: dict[Party, Remote] = {}
        self._neighbours: list[Remote] = []
        self.has_work = asyncio.Event()
        self._is_ended = False
        self.now = 0.0
        self._turn = 0
        self._resets = 0
        """With how many resets a new link begins: more than any link had that was given up."""
        self._filled: dict[Remote, None] = {}
        self._lost: dict[Remote, list[Message]] = {}
        if store is not None:
            self._restore(store)

    def _restore(self, store: Store) -> None:
        """Give the broker back what its clients asked for, before anybody is connected."""
        asked: list[tuple[m.Subscribe | m.Advertise | m.Prefer, Party]] = [
            *((prefer, Party("client", client)) for client, prefer in store.preferences.items()),
            *((subscribe, Party("client", client)) for (client, _), subscribe in store.subscriptions.items()),
            *((advertise, Party("client", client)) for (client, _), advertise in store.advertisements.items()),
        ]
        asked.sort(key=lambda one: one[0].number)
        for start in range(0, len(asked), 10_000):
            for party, message in self.broker.receive_many(asked[start : start + 10_000]):
                if isinstance(message, m.Refused):
                    log.warning("client %r: what it asked for is refused: %s", party.name, message.reason)
        for request, party in asked:
            remote = self._remote(party, b"")
            remote.last = max(remote.last, request.number)
            if isinstance(request, m.Subscribe | m.Advertise):
                remote.wishes.add((_kind(request), request.id))

    # --- who is there -------------------------------------------------------------------------------------------

    def _remote(self, party: Party, session: bytes) -> Remote:
        if party not in self.remotes:
            remote = self.remotes[party] = Remote(party, session, self._new_link(party))
            if party.kind == "broker":
                self._neighbours.append(remote)
        return self.remotes[party]

    def remote(self, party: Party, session: bytes) -> Remote:
        """Return the neighbour or client; a client that started again gets a new link, without anything twice."""
        if party not in self.remotes:
            self._check_room(party)
        remote = self._remote(party, session)
        if remote.session != session and party.kind == "client":
            self._start_again(remote)
        remote.session = session
        return remote

    def _check_room(self, party: Party) -> None:
        """Raise a ProtocolError where there are too many neighbours, or clients, to take in another."""
        count, most = len(self.remotes) - len(self._neighbours), MOST_PARTIES[party.kind]
        if party.kind == "broker":
            count = len({*self.broker.neighbours, *(one.party.name for one in self._neighbours)} - {party.name})
        if count >= most:
            raise ProtocolError(f"{named(party)}: expected at most {most:,} {party.kind}s")

    def _new_link(self, party: Party) -> Link[Any]:
        return new_link(party, self.broker.run, self._resets)

    def _retire(self, link: Link[Any]) -> None:
        """A link is given up. The next one begins above it: a client that knew this one sees that it is lost."""
        self._resets = max(self._resets, link.epoch.resets + 1)

    def _start_again(self, remote: Remote) -> None:
        old = remote.link
        if old.is_open:
            self._drain(remote)
            old.reset()
        doubtful = old.doubtful
        undelivered = [one.message for one in old.take_undelivered()]
        remote.clear()
        self._retire(old)
        remote.link = self._new_link(remote.party)
        doubted = [*self._lost.pop(remote, []), *undelivered[:doubtful]]
        remote.shed += sum(isinstance(message, m.Notify) for message in doubted)
        self._lost[remote] = undelivered[doubtful:]

    def connected(self, remote: Remote, connection: Connection, is_dialled: bool) -> None:
        """A connection carries the link from now on. A client is attached when its link is open."""
        remote.connection, remote.is_dialled, remote.away_since = connection, is_dialled, None
        if remote.party.kind == "client" and remote.link.is_open:
            self._attach(remote)

    def disconnected(self, remote: Remote) -> None:
        """No connection carries the link."""
        remote.connection, remote.away_since = None, self.now
        if remote.link.is_up:
            remote.said = ""
        if remote.party.kind == "client":
            self.broker.detach(remote.party.name)

    def forget(self, client: str) -> None:
        """Forget a client that is away and will not come back, with its subscriptions."""
        remote = self.remotes[Party("client", client)]
        self._remove(remote)
        if self.store is not None and (remote.wishes or client in self.store.preferences):
            self.store.append([Forgotten(client)])
        self._dispatch(self.broker.forget(client))

    def _remove(self, remote: Remote) -> None:
        del self.remotes[remote.party]
        if remote in self._neighbours:
            self._neighbours.remove(remote)
        self._retire(remote.link)
        self._filled.pop(remote, None)
        self._lost.pop(remote, None)

    def check_away(self, name: str) -> None:
        """Raise an EarmarkError unless this is the name of a neighbour that is away."""
        remote = self.remotes.get(Party("broker", name))
        if remote is not None and remote.connection is not None:
            raise EarmarkError(f"the neighbour {name!r} is connected; stop it first")
        if remote is None and name not in self.broker.neighbours:
            raise EarmarkError(f"expected the name of a neighbour, got {shortened(repr(name), 60)}")

    def drop(self, name: str) -> int:
        """A neighbour that is away will not come back. Returns how many publications for it are lost."""
        self.check_away(name)
        remote, lost = self.remotes.get(Party("broker", name)), 0
        if remote is not None and remote.link.is_open:
            self._drain(remote)
            remote.link.reset()
            self._channel_is_lost(remote, [one.message for one in remote.link.take_undelivered()])
        if name in self.broker.neighbours:
            lost = len(self.broker.held(name))
            self._dispatch(self.broker.drop(name))
        if remote is not None:
            self._remove(remote)
        if self.store is not None and name in self.store.neighbours:
            self.store.append([Neighbour(name, is_gone=True)])
        if self._has_ready():
            self.has_work.set()
        return lost

    def rekey(self, space: object) -> None:
        """Use another space from now on: see `Broker.rekey`."""
        self._dispatch(self.broker.rekey(space))

    # --- frames arrive ------------------------------------------------------------------------------------------

    def arrived(self, remote: Remote, arrival: Arrival[Message], size: int) -> None:
        """Take what a frame brought."""
        if self._is_ended:
            return
        if arrival.is_lost:
            if remote.party.kind == "client":
                self.broker.detach(remote.party.name)
            self._drain(remote)
            self._channel_is_lost(remote, [one.message for one in remote.link.take_undelivered()])
        if arrival.is_opened:
            self._opened(remote)
        if arrival.messages:
            remote.inbox.append((arrival.messages, size))
            remote.inbox_size += size
            self._filled[remote] = None
            if remote.inbox_size > MOST_INBOX:
                raise ProtocolError(f"{remote.link.name}: sent more than {MOST_INBOX:,} bytes without waiting")
        has_room = remote.link.is_open and remote.link.queued < SLOW // 4 and remote.link.fullness < FULL / 2
        if remote.is_slow and remote.connection is not None and has_room:
            self._attach(remote)
        if self._has_ready():
            self.has_work.set()

    def _drain(self, remote: Remote) -> None:
        """Handle what arrived on a channel that is lost now; answers to it have nowhere to go."""
        batch = [(message, remote.party) for messages, _ in remote.inbox for message in messages]
        remote.clear()
        self._handle(batch, silent=remote)

    def _opened(self, remote: Remote) -> None:
        name = remote.party.name
        if remote.party.kind == "client":
            undelivered = self._lost.pop(remote, [])
            self._dispatch([(remote.party, message) for message in undelivered if isinstance(message, m.Notify)])
            self._attach(remote)
            return
        self._dispatch(self.broker.connect(name))

    def _attach(self, remote: Remote) -> None:
        remote.is_slow = False
        if remote.shed:
            self._dispatch([(remote.party, m.Shed(remote.shed))])
            remote.shed = 0
        self._dispatch(self.broker.attach(remote.party.name, SLOW, MOST_QUEUED_SIZE // 4))
        remote.is_slow = self.broker.waiting(remote.party.name) > 0

    def _channel_is_lost(self, remote: Remote, undelivered: Iterable[Message]) -> None:
        remote.clear()
        if remote.party.kind == "client":
            self._lost[remote] = list(undelivered)
            self.broker.detach(remote.party.name)
        else:
            self._dispatch(self.broker.disconnect(remote.party.name, undelivered))

    # --- work ---------------------------------------------------------------------------------------------------

    def work(self, most: int = 2_048) -> bool:
        """Handle a batch of messages; return whether there were any."""
        batch: list[tuple[Message, Party]] = []
        taken: list[tuple[Remote, Any, int]] = []
        ready, work = list(self._ready()), 0
        self._turn += 1
        for place in range(len(ready)):
            remote = ready[(place + self._turn) % len(ready)]
            while remote.inbox and len(batch) < most and work < MOST_WORK:
                messages, more = remote.next_messages(MOST_WORK - work)
                work += more
                batch += [(message, remote.party) for message in messages]
                taken.append((remote, remote.link.channel, len(messages)))
            if not remote.inbox:
                del self._filled[remote]
        self._handle(batch)
        for remote, channel, count in taken:
            if remote.link.channel == channel:
                remote.link.consume(count)
                remote.wake.set()
        if not self._has_ready():
            self.has_work.clear()
        return bool(batch)

    def is_busy(self) -> bool:
        """Whether something that was taken has not been handled, or not been passed on to neighbours that are there."""
        return self._has_ready() or any(one.link.queued and one.connection is not None for one in self._neighbours)

    def end(self) -> list[tuple[bytes, Connection]]:
        """Handle nothing from now on; returns what to say to clients, so that they know what was handled."""
        self._filled.clear()
        self._is_ended = True
        said = []
        for party, remote in self.remotes.items():
            frame = remote.link.last_frame() if party.kind == "client" and remote.connection is not None else None
            if frame is not None and remote.connection is not None:
                said.append((frame_packet(frame), remote.connection))
        return said

    def _full(self) -> list[Remote]:
        """Neighbours whose queue is so full that others should wait."""
        return [remote for remote in self._neighbours if remote.link.is_open and remote.fullness > FULL]

    def _ready(self) -> Iterator[Remote]:
        if not self._filled:
            return
        full = self._full()
        for remote in self._filled:
            if remote.inbox and not any(other is not remote for other in full):
                yield remote

    def _has_ready(self) -> bool:
        return next(self._ready(), None) is not None

    def _handle(self, batch: Sequence[tuple[Message, Party]], silent: Remote | None = None) -> None:
        """Let the broker handle messages; whoever breaks the protocol loses its connection, others are unaffected."""
        while batch:
            problem: ProtocolError | None = None
            handled = len(batch)
            try:
                sent: Sequence[Sent] = self.broker.receive_many(batch)
            except ProtocolError as error:
                problem, sent, handled = error, error.sent, error.handled
            self._keep(batch[:handled], sent)
            self._dispatch(sent if silent is None else [one for one in sent if one[0] != silent.party])
            if problem is None:
                return
            culprit = batch[handled][1]
            batch = [one for one in batch[handled:] if one[1] != culprit]
            if silent is None:
                self.expel(self.remotes[culprit], problem)

    def expel(self, remote: Remote, problem: ProtocolError) -> None:
        """End the channel of whoever broke the protocol, and its connection, with the reason."""
        if remote.said != str(problem):
            log.warning("%s", problem)
            remote.said = str(problem)
        if remote.link.is_open:
            remote.link.reset()
            self._channel_is_lost(remote, [one.message for one in remote.link.take_undelivered()])
        if remote.connection is not None:
            remote.connection.refuse(str(problem))

    def _keep(self, batch: Sequence[tuple[Message, Party]], sent: Iterable[Sent]) -> None:
        """Write what clients changed, and which neighbours are up, to the file; remember clients' last numbers."""
        refused = {(party.name, message.number) for party, message in sent if isinstance(message, m.Refused)}
        changes: list[Change] = []
        for message, party in batch:
            if party.kind == "broker":
                if isinstance(message, m.Synchronised) and self.store is not None:
                    changes += [] if party.name in self.store.neighbours else [Neighbour(party.name)]
                continue
            remote = self._remote(party, b"")
            number: int = message.number  # type: ignore[attr-defined]
            if number > remote.last and (party.name, number) not in refused:
                changes += self._changes(party.name, message)
                if isinstance(message, m.Subscribe | m.Advertise):
                    remote.wishes.add((_kind(message), message.id))
                elif isinstance(message, m.Unsubscribe | m.Unadvertise):
                    remote.wishes.discard((_kind(message), message.id))
            remote.last = max(remote.last, number)
        if changes and self.store is not None:
            self.store.append(changes)

    def _changes(self, client: str, message: Message) -> list[Change]:
        if isinstance(message, m.Unsubscribe):
            return [Withdrawn(client, message.id)]
        if isinstance(message, m.Unadvertise):
            return [Unadvertised(client, message.id)]
        if isinstance(message, m.Advertise):
            advertised = self.store.advertisements.get((client, message.id)) if self.store is not None else None
            is_new = advertised is None or advertised.condition != message.condition
            return [Advertised(client, message)] if is_new else []
        if isinstance(message, m.Prefer):
            preferred = self.store.preferences.get(client) if self.store is not None else None
            is_new = preferred is None or (preferred.k, preferred.queue) != (message.k, message.queue)
            return [Preferred(client, message)] if is_new else []
        if isinstance(message, m.Subscribe):
            known = self.store.subscriptions.get((client, message.id)) if self.store is not None else None
            if known is None or known != m.Subscribe(known.number, *_wish(message)):
                return [Kept(client, message)]
        return []

    # --- what the broker says -----------------------------------------------------------------------------------

    def _dispatch(self, sent: Iterable[Sent]) -> None:
        """Queue messages in the links. A link that cannot take one is lost, with all that follows in this batch."""
        encoded: Outgoing | None = None
        lost: dict[Remote, list[Message]] = {}
        for party, message in sent:
            remote = self.remotes[party]
            if remote in lost:
                lost[remote].append(message)
                continue
            if party.kind == "client" and not self._has_room(remote, message):
                continue
            if encoded is None or encoded.message is not message:
                encoded = outgoing(message)
            if encoded.size > MOST_MESSAGE:  # a notification of very many subscriptions
                remote.shed += 1
                continue
            was_open = remote.link.is_open
            if remote.connection is None and remote.fullness > 1:
                remote.link.reset()
            if not remote.link.send(encoded, encoded.size) and was_open:
                lost[remote] = [one.message for one in remote.link.take_undelivered()]
                if lost[remote][-1:] != [message]:
                    lost[remote].append(message)
            remote.wake.set()
        for remote, undelivered in lost.items():
            log.warning("%s: its queue is full, so its channel is reset", named(remote.party))
            self._channel_is_lost(remote, undelivered)

    def _has_room(self, remote: Remote, message: Message) -> bool:
        """Whether a client may be sent a message; one that is slow is told to the broker, or loses it, counted."""
        if not isinstance(message, m.Notify):
            return True
        if remote.link.fullness > NEARLY_ALL or not remote.link.is_open:
            remote.shed += 1
            return False
        if remote.link.queued > SLOW and not remote.is_slow:
            remote.is_slow = True
            self.broker.detach(remote.party.name)
        return True

    def tick(self, now: float) -> None:
        """Time has come to `now`."""
        self.now = now
        self._dispatch(self.broker.tick(now))
        for name in self.broker.late():
            self._warn_of_cycle(self._remote(Party("broker", name), b""))
        for remote in [*self._neighbours]:
            away = 0.0 if remote.away_since is None else now - remote.away_since
            if self._forget is not None and remote.away_since is not None and away >= self._forget:
                lost = self.drop(remote.party.name)
                log.warning("%s: away for %d s, forgotten; publications lost: %d", named(remote.party), away, lost)
            elif away > self._patience and remote.link.is_open:
                log.warning("%s: away for %d seconds, its channel is reset", named(remote.party), self._patience)
                remote.link.reset()
                self._channel_is_lost(remote, [one.message for one in remote.link.take_undelivered()])
            elif remote.is_stuck(now, 2 * self._patience):
                seconds = 2 * self._patience
                self.expel(
                    remote, ProtocolError(f"{named(remote.party)}: acknowledged nothing for {seconds:g} seconds")
                )
        if self._sweep_at is None or now >= self._sweep_at:
            self._sweep_at = now + min(SWEEP, self._forget_after or SWEEP)
            self._forget_absent(now)
        if self._has_ready():
            self.has_work.set()

    def _warn_of_cycle(self, remote: Remote) -> None:
        reason = f"{named(remote.party)}: has not told everything yet; does the overlay have a cycle?"
        if remote.said != reason:
            log.warning("%s", reason)
            remote.said = reason

    def _forget_absent(self, now: float) -> None:
        """Forget clients that have been away for long, and neighbours that were never up, or not since a restart."""
        for party, remote in [*self.remotes.items()]:
            if remote.connection is not None:
                continue
            if remote.away_since is None:  # not seen yet
                remote.away_since = now
            limit = self._forget_after if remote.wishes else IDLE
            if limit is None or now - remote.away_since <= limit:
                continue
            if party.kind == "client":
                self.forget(party.name)
            elif not remote.link.is_open and party.name not in self.broker.neighbours:
                self._remove(remote)
        if self._first_tick is None:
            self._first_tick = now
        if self.store is not None and now - self._first_tick > 2 * self._patience:
            gone = self.store.neighbours - {*self.broker.neighbours}
            self.store.append([Neighbour(name, is_gone=True) for name in sorted(gone)])

    def status(self) -> dict[str, object]:
        """What the broker says of itself, and the queues of its links."""
        status = self.broker.status()
        for party, remote in self.remotes.items():
            table: Any = status["links" if party.kind == "broker" else "clients"]
            absent = {"state": "absent"} if party.kind == "broker" else {}
            table.setdefault(party.name, absent).update(remote_status(remote))
        return status


def _wish(message: m.Subscribe) -> tuple[Any, ...]:
    return message.id, message.condition, message.weights, message.score


def _kind(message: Message) -> str:
    return "subscription" if isinstance(message, m.Subscribe | m.Unsubscribe) else "advertisement"
