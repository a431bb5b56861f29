"""Clients: subscribe at a broker, publish, and take notifications, from asyncio code (blocking.py: from any other).

    async with AsyncClient("127.0.0.1:7000", name="alice", token=token) as client:
        await client.subscribe("hot", "temperature > 30")
        await client.wait_in_force()                      # from now on nothing that matches is missed
        await client.publish({"temperature": 31})
        async for notification in client: …               # notification.event, notification.ids

**Cuts.** The client reconnects by itself, with growing, jittered delays. Its link resends what did not arrive, so a cut
loses nothing and repeats nothing. If the *broker* started again, the client asks for its subscriptions again. Of its
publications those that had not been sent follow; those that had been sent, but not acknowledged, may have been
delivered, so they are not sent again: `uncertain` counts them. Notifications that the client has seen are ignored.

**Bounds.** `publish` and `subscribe` wait while the broker does not keep up. Notifications that are not taken fill one
window here, then a queue in the broker (`prefer(queue=…)`); beyond it the broker sheds the worst, and `shed` says how
many. `wait_in_force` cannot wait for a reader: if it has to, it sheds the oldest notifications here.

Subscriptions belong to the client's name and stay when it disconnects. Only one client with a name can be connected.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

import msgspec

from earmark.errors import EarmarkError, check_seconds, shortened
from earmark.events.mappings import Interval
from earmark.overlay import messages as m
from earmark.overlay.access import Address, address_of, check_reach, check_token, read_token
from earmark.overlay.channel import BATCH, BATCH_SIZE, WINDOW, WINDOW_SIZE, ConnectionRefused, outgoing
from earmark.overlay.connection import Connection, Delays, carry, dial, welcome_of
from earmark.overlay.link import Arrival, Link
from earmark.overlay.messages import MOST_BYTES, Id, Notify, ProtocolError, WireInterval
from earmark.overlay.refusals import Caller, Refusals, caller, named
from earmark.overlay.values import sent_event

MOST_WAITING = 1_024
"""Requests that may wait to be sent before the caller has to wait."""
MOST_ORIGINS = 65_536
MOST_NAMED = 4 * WINDOW
"""Publications that the broker has taken and may still refuse: more cannot be on their way."""
MOST_SHOWN = 20


class RequestRefused(EarmarkError):
    """The broker refused requests: the text names each subscription and publication, and has the reason."""


class ClosedError(EarmarkError):
    """A client was closed, by this caller or by another."""

    def __init__(self) -> None:
        super().__init__("this client is closed")


class _Request:
    """One request that the broker has not answered yet. Its number is given when it is sent."""

    def __init__(self, message: m.Message, maker: weakref.ref[Caller] | None = None) -> None:
        self.message = message
        self.maker = maker
        """Which thread or task made it."""
        self.is_repeated = False
        self.is_done = False

    @property
    def is_publication(self) -> bool:
        return isinstance(self.message, m.Publish)


class AsyncClient:
    """A client of one broker, for asyncio code. Use it as `async with`, or call `connect` and `close`.

    address: HOST:PORT of the broker.
    name: the client's name; its subscriptions belong to it.
    token, token_file: the shared token, or its file; without both, the variable EARMARK_TOKEN.
    tls: for brokers that listen with TLS; see `earmark.overlay.access.dialling_context`.
    patience: seconds for the first connection; later ones are tried for ever.
    random: source of jitter.
    """

    def __init__(
        self,
        address: str | Address,
        *,
        name: str,
        token: bytes | None = None,
        token_file: str | Path | None = None,
        tls: ssl.SSLContext | None = None,
        allow_remote: bool = False,
        patience: float = 10.0,
        random: Random | None = None,
    ) -> None:
        self.address = address_of(address)
        check_reach(self.address, tls is not None, allow_remote)
        m.check_name(name)
        check_seconds(patience, "patience")
        self.name = name
        self.shed = 0
        """Notifications that were dropped, because they were not taken in time."""
        self.uncertain = 0
        """Publications that were on their way when the broker stopped: delivered or lost."""
        self.duplicates = 0
        """Notifications that arrived a second time and were ignored."""
        self._token = read_token(token_file) if token is None else check_token(token, f"client {name!r}")
        self._tls, self._patience = tls, patience
        self._random = random if random is not None else Random()
        self._session = os.urandom(16)
        self._link: Link[Any] = Link(
            "the broker", 1, most=4 * WINDOW, batch=BATCH, batch_size=BATCH_SIZE, ahead=0,
            window=WINDOW, window_size=WINDOW_SIZE, is_deferred=True,
        )  # fmt: skip
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._failure: EarmarkError | None = None
        self._broken: EarmarkError | None = None
        """Why the work behind this client has ended by itself."""
        self._number = 0
        self._outbox: deque[_Request] = deque()
        self._asked: dict[int, _Request] = {}
        """Sent and not in force yet, by number."""
        self._published: dict[int, _Request] = {}
        """Sent, and not acknowledged by the link yet."""
        self._settled: dict[tuple[str, Id], m.Message] = {}
        """What a broker that has lost its memory must be told again: subscriptions, advertisements, preferences."""
        self._notifications: deque[Notify] = deque()
        self._waiters = 0
        self._refusals = Refusals()
        """Why requests were refused; of publications apart, since those may be many."""
        self._refused_publications = Refusals()
        self._named: dict[int, tuple[str, weakref.ref[Caller] | None]] = {}
        """The last publications that the broker has acknowledged, as `_refused` names them."""
        self._seen: dict[str, tuple[int, int]] = {}

    # --- life ---------------------------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Connect, or raise an EarmarkError if that does not work within `patience` seconds. Once, until `close`."""
        if self._task is not None:
            raise EarmarkError(f"client {self.name!r} is connected or connecting already")
        self._task = task = asyncio.create_task(self._stay_connected())
        task.add_done_callback(self._ended)
        try:
            async with asyncio.timeout(self._patience):
                await self._until(lambda: self._link.is_open or self._failure is not None)
        except TimeoutError:
            problem = self._failure or EarmarkError(f"no broker answers at {self.address}")
            await self.close()
            raise problem from None
        if self._task is not task:
            raise self._broken or ClosedError
        if self._failure is not None and not self._link.is_open:
            await self.close()
            raise self._failure

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Close this client where the work behind it has ended by itself, so that nobody waits for ever."""
        if task is not self._task:
            return
        self._task = None
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._broken = EarmarkError(f"client {self.name!r} cannot go on: {problem!r}")
            self._broken.__cause__ = problem
        self._announce()

    async def close(self) -> None:
        """Disconnect. Subscriptions stay at the broker; what has not been sent is dropped (see `flush`)."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._announce()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._connection is not None

    async def _stay_connected(self) -> None:
        delays = Delays(self._random)
        while True:
            try:
                await self._connect_once(delays)
            except ConnectionRefused as problem:
                self._failure = problem
                self._announce()  # a wrong token, a name in use: the first connection fails at once
            except (ProtocolError, TimeoutError, OSError) as problem:
                reason = str(problem) or "no answer"
                self._failure = EarmarkError(f"no connection to the broker at {self.address}: {reason}")
                if isinstance(problem, ProtocolError):
                    self._announce()
            await asyncio.sleep(delays.next())

    async def _connect_once(self, delays: Delays) -> None:
        connection, dialler = await dial(
            self.address, token=self._token, role="client", name=self.name, session=self._session, tls=self._tls
        )
        self._number = max(self._number, welcome_of(dialler).last)
        self._connection = connection
        try:
            await carry(connection, self._link, self._wake, "listener", self._arrived)
            if self._link.is_up:
                delays.reset()
        finally:
            self._connection = None
            connection.abort()

    def _announce(self) -> None:
        """Let everybody who waits look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _until(self, is_true: Callable[[], object]) -> None:
        while not (is_true() or self._task is None):
            await self._changed.wait()

    # --- what arrives -------------------------------------------------------------------------------------------

    def _arrived(self, arrival: Arrival[Any], size: int) -> None:
        if arrival.is_lost:
            self._begin_again()
        self._failure = None
        for message in arrival.messages:
            self._take(message)
        self._pump()
        self._make_room()
        self._announce()

    def _take(self, message: Any) -> None:
        if isinstance(message, Notify):
            if self._is_new(message):
                self._notifications.append(_plain(message))
                return
            self.duplicates += 1
        elif isinstance(message, m.InForce):
            for number in [number for number in self._asked if number <= message.number]:
                self._asked.pop(number).is_done = True
        elif isinstance(message, m.Refused):
            self._refused(message)
        elif isinstance(message, m.Shed):
            self.shed += message.count
        self._link.consume(1)

    def _is_new(self, message: Notify) -> bool:
        number = message.run, message.number
        if number <= self._seen.get(message.origin, (-1, -1)):
            return False
        self._seen.pop(message.origin, None)
        self._seen[message.origin] = number
        if len(self._seen) > MOST_ORIGINS:
            del self._seen[next(iter(self._seen))]
        return True

    def _refused(self, message: m.Refused) -> None:
        request = self._asked.get(message.number)
        if request is None:
            publication = self._published.get(message.number)
            unknown = (f"publication {message.number}: ", None)
            name, maker = (
                self._named.get(message.number, unknown)
                if publication is None
                else (named(publication.message), publication.maker)
            )
            self._refused_publications.add(name + message.reason, maker)
            return
        key = _key(request.message)
        if request.is_repeated and self._settled.get(key) is not request.message:
            return  # withdrawn or replaced since, and the broker knew that already
        self._refusals.add(named(request.message) + message.reason, request.maker)
        if self._settled.get(key) is request.message:
            del self._settled[key]

    def _begin_again(self) -> None:
        """The broker has lost its memory: ask for everything again, then go on."""
        doubtful = self._link.doubtful
        undelivered = [self._published.get(one.message.number) for one in self._link.take_undelivered()]
        for request in undelivered[:doubtful]:
            self.uncertain += request is not None
        unsent = [request for request in undelivered[doubtful:] if request is not None]
        pending = [*self._asked.values(), *(one for one in self._outbox if not one.is_publication)]
        unsent += [one for one in self._outbox if one.is_publication]
        touched = {_key(request.message) for request in pending}
        settled = [_Request(message) for key, message in self._settled.items() if key not in touched]
        for request in (*settled, *pending):
            request.is_repeated = True
        self._outbox = deque([*settled, *pending, *unsent])
        self._asked, self._published, self._named = {}, {}, {}

    def _make_room(self) -> None:
        """If somebody waits for an answer that is behind notifications nobody takes, drop the oldest."""
        while self._waiters and len(self._notifications) >= WINDOW - BATCH:
            self._notifications.popleft()
            self._link.consume(1)
            self.shed += 1

    # --- requests -----------------------------------------------------------------------------------------------

    async def subscribe(
        self, id: Id, condition: str, *, weights: Mapping[str, float] | None = None, score: float = 0.0
    ) -> None:
        """Ask for all publications that match a condition. `wait_in_force` says when it counts, or was refused."""
        await self._ask(m.Subscribe(0, id, condition, _mapping("subscribe", "weights", weights or {}), score))

    async def unsubscribe(self, id: Id) -> None:
        """Withdraw a subscription."""
        await self._ask(m.Unsubscribe(0, id))

    async def advertise(self, id: Id, condition: str) -> None:
        """Announce that this client will publish events that match a condition."""
        await self._ask(m.Advertise(0, id, condition))

    async def unadvertise(self, id: Id) -> None:
        """Withdraw an advertisement."""
        await self._ask(m.Unadvertise(0, id))

    async def prefer(self, *, k: int | None = None, queue: int = 1_024) -> None:
        """Choose the k best matches per publication instead of all, and how many notifications may wait."""
        await self._ask(m.Prefer(0, k, queue))

    async def publish(self, event: Mapping[str, Any], *, weights: Mapping[str, float] | None = None) -> None:
        """Publish an event. Waits while the broker does not keep up; see `flush`."""
        given = _mapping("publish", "event", event)
        await self._ask(m.Publish(0, sent_event(given), _mapping("publish", "weights", weights or {})))

    async def _ask(self, message: m.Message) -> None:
        _check(message)
        await self._until(lambda: len(self._outbox) < MOST_WAITING)
        self._check_open()
        key = _key(message)
        if isinstance(message, m.Subscribe | m.Advertise | m.Prefer):
            if self._settled.get(key, message) != message and not isinstance(message, m.Prefer):
                raise EarmarkError(f"there is a {key[0]} {key[1]!r} already; withdraw it first")
            self._settled[key] = message
        elif not isinstance(message, m.Publish):
            self._settled.pop(key, None)
        self._outbox.append(_Request(message, caller()))
        self._pump()

    def _check_open(self) -> None:
        if self._task is None:
            raise self._broken or ClosedError

    def _pump(self) -> None:
        """Move requests into the link, as far as it has room."""
        self._forget_published()
        while self._outbox and self._link.is_open and self._link.fullness < 0.5:
            request = self._outbox.popleft()
            self._number += 1
            message = outgoing(msgspec.structs.replace(request.message, number=self._number))
            self._link.send(message, message.size)
            (self._published if request.is_publication else self._asked)[self._number] = request
        self._wake.set()

    def _forget_published(self) -> None:
        """Drop publications that the broker has acknowledged: all but as many as the link still holds, or fewer."""
        excess = len(self._published) - self._link.queued
        for number in [number for number, _ in zip(self._published, range(excess), strict=False)]:
            request = self._published.pop(number)
            self._named[number] = named(request.message), request.maker
        while len(self._named) > MOST_NAMED:
            del self._named[next(iter(self._named))]

    async def wait_in_force(self, seconds: float | None = None) -> None:
        """Wait until everything asked so far is in force in all brokers. Raises RequestRefused for what was refused.

        A thread or task is told of its own requests, and of those of others that nobody was told of; never twice.
        """
        requests = [*self._asked.values(), *(one for one in self._outbox if not one.is_publication)]
        await self._wait(lambda: all(request.is_done for request in requests), seconds, "the requests are not in force")
        self._report(self._refusals)

    async def flush(self, seconds: float | None = None) -> None:
        """Wait until the broker has taken everything that was asked and published. Raises RequestRefused as above.

        It names the publications that were refused. A refusal that is still on its way is raised by the next flush.
        """
        await self._wait(
            lambda: not self._outbox and not self._link.queued, seconds, "the broker has not taken everything"
        )
        self._report(self._refusals, self._refused_publications)

    def _report(self, *kinds: Refusals) -> None:
        """Raise what was refused and is not known to the caller."""
        refusals = [refusal for kind in kinds for refusal in kind.take()]
        if refusals:
            more = len(refusals) - MOST_SHOWN
            raise RequestRefused("; ".join(refusals[:MOST_SHOWN]) + (f"; and {more:,} more" if more > 0 else ""))

    async def _wait(self, is_true: Callable[[], bool], seconds: float | None, what: str) -> None:
        if seconds is not None:
            check_seconds(seconds, "seconds")
        self._check_open()
        self._waiters += 1
        self._make_room()
        self._wake.set()
        try:
            async with asyncio.timeout(seconds):
                await self._until(is_true)
        except TimeoutError:
            raise EarmarkError(f"{what} after {seconds:g} seconds") from None
        finally:
            self._waiters -= 1
        if not is_true():
            self._check_open()

    # --- notifications ------------------------------------------------------------------------------------------

    async def get(self, seconds: float | None = None) -> Notify | None:
        """Return the next notification; None if there is none within this time."""
        if seconds is not None:
            check_seconds(seconds, "seconds")
        if not self._notifications:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._until(lambda: self._notifications)
        self._check_open()  # what has arrived and was not taken stays at the broker
        return self._next()

    def _next(self) -> Notify | None:
        if not self._notifications:
            return None
        notification = self._notifications.popleft()
        self._link.consume(1)
        self._wake.set()
        return notification

    async def __aiter__(self) -> AsyncIterator[Notify]:
        """Wait for one notification after the other, until the client is closed."""
        with contextlib.suppress(ClosedError):
            while (notification := await self.get()) is not None:
                yield notification


def _key(message: m.Message) -> tuple[str, Id]:
    """What a request is about: a subscription, an advertisement, or how to be notified."""
    if isinstance(message, m.Subscribe | m.Unsubscribe):
        return "subscription", message.id
    if isinstance(message, m.Advertise | m.Unadvertise):
        return "advertisement", message.id
    return type(message).__name__, ""


def _plain(message: Notify) -> Notify:
    """A notification with intervals as users know them."""
    if not any(type(value) is WireInterval for value in message.event.values()):
        return message
    event = {name: Interval(*value) if type(value) is WireInterval else value for name, value in message.event.items()}
    return msgspec.structs.replace(message, event=event)


def _mapping(request: str, what: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise EarmarkError(f"{request}: expected a mapping for {what}, got {shortened(repr(value), 60)}")
    return dict(value)


def _check(message: m.Message) -> None:
    """Raise an EarmarkError unless the broker could read a request."""
    try:
        size = outgoing(message).size
        msgspec.convert(msgspec.structs.asdict(message), type(message), strict=True)
    except (msgspec.MsgspecError, TypeError, OverflowError, ValueError) as problem:
        raise EarmarkError(f"{type(message).__name__.lower()}: {problem}") from None
    if size > MOST_BYTES:
        raise EarmarkError(f"{type(message).__name__.lower()}: expected at most {MOST_BYTES:,} bytes, got {size:,}")
