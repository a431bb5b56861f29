"""A broker on a network: listens for neighbours and clients, dials its peers, and drives the state machine.

    server = BrokerServer("hub", token=token, listen="127.0.0.1:7000", peers=["127.0.0.1:7001"])
    async with server:
        await server.failed()          # ends only if the state file can no longer be written

One task reads and one writes per connection; one task handles all messages, in batches (driver.py). Only one
connection counts per name: a newer one of the same session takes over, since its end has given up the older. Another
session is refused as long as the first is connected. If two brokers dial each other, the connection of the one whose
name sorts first counts. Whoever finds that a peer is connected, because it has two addresses or dialled itself, leaves
it alone until that connection ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import time
from collections.abc import Coroutine, Iterable, Mapping
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from earmark.errors import EarmarkError, check_seconds
from earmark.overlay.access import Address, address_of, check_reach, check_token
from earmark.overlay.broker import Broker, Party
from earmark.overlay.channel import (
    MOST_STATUS,
    Challenge,
    Greeting,
    Order,
    order_of,
    order_packet,
    status_of,
    status_packet,
)
from earmark.overlay.connection import HANDSHAKE, READ, Connection, Delays, accept, carry, dial
from earmark.overlay.driver import PATIENCE, Driver
from earmark.overlay.messages import ProtocolError, check_name
from earmark.overlay.remote import MOST_QUEUED, Remote
from earmark.overlay.store import Store, StoreError

MOST_STRANGERS = 64
"""Connections in the handshake."""
MOST_CONNECTIONS = 4_096
QUIET = 60.0
"""Seconds for which the same reason to refuse somebody is not logged again."""
MOST_WARNED = 256
TICK = 0.1
GRACE = 1.0
"""Seconds for which a broker that is told to stop passes on what it has taken."""
PEER_DELAY = 2.0
"""Longest delay between attempts to reach a peer."""
LOOK_AGAIN = 30.0
"""Seconds after which a peer that was found connected is dialled again: another may have its address by now."""

log = logging.getLogger("earmark.overlay")


class Connected(ProtocolError):
    """A neighbour dials, or is dialled, that is connected in the direction that counts."""


class BrokerServer:
    """One broker that listens. Use it as `async with`, or call `start` and `close`.

    listen: HOST:PORT; port 0 takes any free one, see `address`.
    peers: addresses of neighbours to dial. Neighbours that dial this broker need not be named.
    options, attributes, advertisements: of the policy, types of attributes, and whether subscriptions travel only to
        where something is advertised that they may match; see Broker.
    state: file for subscriptions and advertisements of clients; without it they are lost with the process.
    forget_after: seconds after which a client that is away is forgotten, with its subscriptions; None for never.
    forget: seconds after which a neighbour that is away is dropped: nothing is in force while it is missing; None for
        never. `drop` does it at once.
    zone: time zone of timestamps without one, the same in all brokers.
    holding: publications that are held for a neighbour that cannot take them yet.
    patience: seconds to wait for neighbours that do not come or do not answer; see Broker.
    tls, peer_tls: contexts for listening and for dialling (access.py).
    """

    def __init__(
        self,
        name: str,
        *,
        token: bytes,
        listen: str = "127.0.0.1:0",
        peers: Iterable[str] = (),
        policy: str = "covering",
        options: Mapping[str, object] | None = None,
        attributes: Mapping[str, str] | None = None,
        advertisements: bool = False,
        state: str | Path | None = None,
        tls: ssl.SSLContext | None = None,
        peer_tls: ssl.SSLContext | None = None,
        allow_remote: bool = False,
        forget_after: float | None = None,
        forget: float | None = None,
        zone: str = "UTC",
        holding: int = MOST_QUEUED,
        patience: float = PATIENCE,
        random: Random | None = None,
        handshake: float = HANDSHAKE,
    ) -> None:
        check_name(name)
        if forget_after is not None:
            check_seconds(forget_after, "forget_after")
        if forget is not None:
            check_seconds(forget, "forget")
        self.name = name
        check_token(token, f"broker {name!r}")
        self.address = address_of(listen)
        check_reach(self.address, tls is not None, allow_remote)
        self._peers = [address_of(peer) for peer in peers]
        for peer in self._peers:
            check_reach(peer, peer_tls is not None, allow_remote)
        self._token, self._tls, self._peer_tls = token, tls, peer_tls
        self._random = random if random is not None else Random()
        self._handshake = handshake
        self._session = os.urandom(16)
        now = time.time_ns() // 1_000
        store = None if state is None else Store(state, name, least=now)
        try:
            broker = Broker(
                name,
                policy=policy,
                options=options or {},
                attributes=attributes,
                zone=zone,
                advertisements=advertisements,
                run=now if store is None else store.run,
                neighbours=() if store is None else sorted(store.neighbours),
                holding=holding,
                patience=patience,
            )
            self.driver = Driver(broker, store, forget_after, forget=forget, patience=patience)
        except BaseException:
            if store is not None:
                store.close()
            raise
        self._store = store
        self._is_started = False
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._strangers = 0
        self._warned: dict[str, float] = {}
        """Reasons that were logged, and until when they are not logged again."""
        self._connections = 0
        self._failure: asyncio.Future[None] | None = None

    # --- life ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, dial, and work until `close`. Only once: for another start, make another BrokerServer."""
        if self._is_started:
            raise EarmarkError(f"broker {self.name!r} was started already")
        self._is_started = True
        host, port = self.address
        try:
            if port == 0:  # each address of a name would get a port of its own
                found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
                host = str(min(found, key=lambda one: one[0] != socket.AF_INET)[4][0])
            limits: dict[str, Any] = {} if self._tls is None else {"ssl_handshake_timeout": self._handshake}
            self._server = await asyncio.start_server(self._accepted, host, port, ssl=self._tls, limit=READ, **limits)
        except OSError as problem:
            self._close_store()
            raise EarmarkError(f"cannot listen at {self.address}: {problem.strerror or problem}") from None
        self.address = Address(self.address.host, self._server.sockets[0].getsockname()[1])
        self._failure = asyncio.get_running_loop().create_future()
        self._begin(self._work())
        self._begin(self._tick())
        for peer in self._peers:
            self._begin(self._dial(peer))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._fail(problem)

    def _fail(self, problem: BaseException) -> None:
        if self._failure is not None and not self._failure.done():
            trace = None if isinstance(problem, EarmarkError) else problem  # a sentence says it all
            log.error("the broker stops: %s", problem, exc_info=trace)
            self._failure.set_exception(problem)

    async def failed(self) -> None:
        """Wait until the broker cannot go on, and raise the reason."""
        assert self._failure is not None
        await asyncio.shield(self._failure)

    async def close(self) -> None:
        """Pass on what was taken, for at most GRACE seconds, then end all connections and close the file.

        Clients are told which of their messages were handled, so that they can send the others again.
        """
        if self._server is not None:
            self._server.close()
            await self._finish()
        for remote in self.driver.remotes.values():
            if remote.connection is not None:
                remote.connection.close()
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._failure is not None and self._failure.done():
            self._failure.exception()
        self._close_store()

    async def _finish(self) -> None:
        """Work on until nothing is left to pass on, or time is up; then handle nothing more, and say goodbye."""
        loop, is_well = asyncio.get_running_loop(), self._failure is not None and not self._failure.done()
        until = loop.time() + GRACE
        while is_well and self.driver.is_busy() and loop.time() < until:
            await asyncio.sleep(GRACE / 100)
        for packet, remote in self.driver.end():
            remote.write(packet)

    def _close_store(self) -> None:
        if self._store is not None:
            self._store.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _work(self) -> None:
        while True:
            await self.driver.has_work.wait()
            self.driver.work()
            await asyncio.sleep(0)

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self.driver.tick(loop.time())
            await asyncio.sleep(TICK)

    # --- who dials us -------------------------------------------------------------------------------------------

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        connection = Connection(reader, writer, _peer_name(writer))
        self._connections += 1
        try:
            if self._strangers >= MOST_STRANGERS or self._connections > MOST_CONNECTIONS:
                connection.refuse("too many connections")
                return
            await self._serve(connection)
        except (ProtocolError, TimeoutError) as problem:
            reason = str(problem) or f"{connection.sender}: the handshake took too long"
            if isinstance(problem, Connected):
                log.debug("%s", reason)
            else:
                self._warn(reason)
            # whom it is about need not be told its own address
            connection.refuse(problem.reason if isinstance(problem, ProtocolError) else reason)
        except asyncio.CancelledError:
            pass
        except Exception as problem:  # the state file, or a bug: to go on could deliver something wrong
            self._fail(problem)
        finally:
            self._connections -= 1
            self._tasks.discard(task)
            connection.close()

    def _warn(self, reason: str) -> None:
        """Log why somebody is refused, unless that was logged not long ago: most come back at once."""
        now = asyncio.get_running_loop().time()
        if now < self._warned.get(reason, now):
            return
        self._warned.pop(reason, None)
        self._warned[reason] = now + QUIET
        if len(self._warned) > MOST_WARNED:
            del self._warned[next(iter(self._warned))]
        log.warning("%s", reason)

    async def _serve(self, connection: Connection) -> None:
        self._strangers += 1
        try:
            greeting, listener = await accept(
                connection, token=self._token, name=self.name, session=self._session, seconds=self._handshake
            )
        finally:
            self._strangers -= 1
        if greeting.role == "status":
            connection.write(listener.welcome())
            connection.write(status_packet(msgspec.json.encode(self.status())))
            await connection.drain()
            return
        if greeting.role == "admin":
            connection.write(listener.welcome())
            async with asyncio.timeout(self._handshake):
                order = order_of(await connection.next_packet(), connection.sender)
            try:
                connection.write(status_packet(msgspec.json.encode(self._obey(order))))
            except StoreError:
                raise
            except EarmarkError as problem:
                connection.refuse(str(problem))
            await connection.drain()
            return
        remote = self._admitted(greeting)
        async with self._taking_over(remote, connection):
            connection.write(listener.welcome(remote.last))
            await self._carry(remote, connection, is_dialled=False)

    def _obey(self, order: Order) -> dict[str, object]:
        """Do what an administrator asks; an EarmarkError says why not, and then nothing has changed."""
        if order.what == "drop":
            return {"dropped": order.operand, "lost": self.drop(order.operand)}
        try:
            space = msgspec.json.decode(order.operand)
        except (msgspec.MsgspecError, RecursionError) as problem:
            raise EarmarkError(f"expected a space as JSON: {problem}") from None
        return {"space": self.rekey(space)}

    def drop(self, neighbour: str) -> int:
        """Forget a neighbour that has left for good; returns how many publications that waited for it are lost."""
        lost = self.driver.drop(neighbour)
        log.warning("broker %r: forgotten, as somebody asked for; publications lost: %d", neighbour, lost)
        return lost

    def rekey(self, space: object) -> int:
        """Use another space from now on, given by its description; returns its number. See Broker.rekey."""
        self.driver.rekey(space)
        number = self.driver.broker.space
        log.info("from now on in the space %d", number)
        return number

    def _admitted(self, greeting: Greeting) -> Remote:
        """The party that a greeting names, if it may connect now."""
        role = "client" if greeting.role == "client" else "broker"
        party = Party(role, greeting.name)  # type: ignore[arg-type]
        if role == "broker" and greeting.name == self.name:
            raise ProtocolError(f"broker {greeting.name!r}: this broker has the same name")
        known = self.driver.remotes.get(party)
        if known is not None and known.connection is not None:
            if known.session != greeting.session:
                raise ProtocolError(f"{role} {greeting.name!r}: somebody with this name is connected")
            if known.is_dialled and self.name < greeting.name:
                raise Connected(f"broker {greeting.name!r}: is connected already, from here")
        return self.driver.remote(party, greeting.session)

    @contextlib.asynccontextmanager
    async def _taking_over(self, remote: Remote, connection: Connection) -> Any:
        """End the older connection of a party, and hold its place until the new one has ended."""
        if remote.connection is not None:
            remote.connection.abort()
        async with asyncio.timeout(self._handshake):
            await remote.lock.acquire()
        try:
            if self.driver.remotes.get(remote.party) is not remote:
                raise ProtocolError(f"{connection.sender}: was forgotten a moment ago; try again")
            yield
        finally:
            remote.lock.release()

    async def _carry(self, remote: Remote, connection: Connection, is_dialled: bool) -> None:
        kind = remote.party.kind
        log.info("%s %r is connected", kind, remote.party.name)
        self.driver.connected(remote, connection, is_dialled)
        try:
            await carry(
                connection,
                remote.link,
                remote.wake,
                kind,
                lambda arrival, size: self.driver.arrived(remote, arrival, size),
            )
        finally:
            self.driver.disconnected(remote)
            log.info("%s %r is gone", kind, remote.party.name)

    # --- whom we dial -------------------------------------------------------------------------------------------

    async def _dial(self, address: Address) -> None:
        """Keep a connection to a peer, for ever."""
        delays = Delays(self._random, most=PEER_DELAY)
        said = ""
        while True:
            found: list[Remote] = []
            try:
                if await self._dialled(address, found):
                    delays.reset()
                    said = ""
            except (ProtocolError, TimeoutError, OSError) as problem:
                if (reason := f"peer {address}: {problem or 'no answer'}") != said:
                    log.log(logging.DEBUG if isinstance(problem, Connected) else logging.WARNING, "%s", reason)
                    said = reason
            for remote in found:
                await self._gone(remote)
            await asyncio.sleep(delays.next())

    async def _gone(self, remote: Remote) -> None:
        """Wait until a neighbour is no longer connected, or for LOOK_AGAIN seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_AGAIN):
                while remote.connection is not None:
                    await asyncio.sleep(TICK)

    async def _dialled(self, address: Address, found: list[Remote]) -> bool:
        """Dial once, carry the link until the connection ends, and return whether the link was up.

        A neighbour that is connected already is added to `found`.
        """

        def admit(listener: Challenge) -> None:
            remote = self.driver.remotes.get(Party("broker", listener.name))
            if remote is not None and remote.connection is not None:
                self._check_dialled(listener, remote, found)

        connection, dialler = await dial(
            address,
            token=self._token,
            role="broker",
            name=self.name,
            session=self._session,
            tls=self._peer_tls,
            seconds=self._handshake,
            admit=admit,
        )
        try:
            assert dialler.listener is not None
            name, session = dialler.listener.name, dialler.listener.session
            if name == self.name:
                raise ProtocolError(f"broker {name!r}: this broker has the same name")
            remote = self.driver.remotes.get(Party("broker", name))
            if (
                remote is not None
                and remote.connection is not None
                and not (remote.is_dialled and remote.session == session)
            ):
                self._check_dialled(dialler.listener, remote, found)
            remote = self.driver.remote(Party("broker", name), session)
            async with self._taking_over(remote, connection):
                await self._carry(remote, connection, is_dialled=True)
            return remote.link.is_up
        finally:
            connection.close()

    def _check_dialled(self, listener: Challenge, remote: Remote, found: list[Remote]) -> None:
        """Raise if this end should not take over the link to a neighbour that is connected."""
        if remote.session != listener.session:
            found.append(remote)
            raise ProtocolError(f"broker {listener.name!r}: another broker with this name is connected")
        if remote.is_dialled or listener.name < self.name:
            found.append(remote)
            raise Connected(f"broker {listener.name!r}: is connected already")

    def status(self) -> dict[str, object]:
        """Tables, links, queues and counters, JSON-able."""
        return self.driver.status() | {"address": str(self.address), "connections": self._connections}


def _peer_name(writer: asyncio.StreamWriter) -> str:
    peer = writer.get_extra_info("peername")
    return str(Address(peer[0], peer[1])) if isinstance(peer, tuple) and len(peer) >= 2 else "somebody"


async def ask_status(
    address: str | Address,
    *,
    token: bytes,
    tls: ssl.SSLContext | None = None,
    allow_remote: bool = False,
    seconds: float = HANDSHAKE,
) -> dict[str, Any]:
    """Ask the broker at HOST:PORT for its status."""
    return await _answer(address, "status", None, token, tls, allow_remote, seconds)


async def ask_drop(
    address: str | Address,
    neighbour: str,
    *,
    token: bytes,
    tls: ssl.SSLContext | None = None,
    allow_remote: bool = False,
    seconds: float = HANDSHAKE,
) -> dict[str, Any]:
    """Let the broker at HOST:PORT forget a neighbour that has left: {"dropped": name, "lost": publications}."""
    check_name(neighbour)
    return await _answer(address, "admin", Order("drop", neighbour), token, tls, allow_remote, seconds)


async def ask_rekey(
    address: str | Address,
    space: Mapping[str, Any],
    *,
    token: bytes,
    tls: ssl.SSLContext | None = None,
    allow_remote: bool = False,
    seconds: float = HANDSHAKE,
) -> dict[str, Any]:
    """Let the broker at HOST:PORT use another space, given by its description: {"space": number}. Ask all brokers."""
    order = Order("rekey", msgspec.json.encode(space).decode())
    return await _answer(address, "admin", order, token, tls, allow_remote, seconds)


async def _answer(
    address: str | Address,
    role: Literal["status", "admin"],
    order: Order | None,
    token: bytes,
    tls: ssl.SSLContext | None,
    allow_remote: bool,
    seconds: float,
) -> dict[str, Any]:
    """The document that a broker answers with."""
    place = address_of(address)
    check_reach(place, tls is not None, allow_remote)
    try:
        connection, _ = await dial(
            place, token=token, role=role, name=role, session=os.urandom(16), tls=tls, seconds=seconds
        )
        connection.packets.most = MOST_STATUS
        try:
            async with asyncio.timeout(seconds):
                if order is not None:
                    connection.write(order_packet(order))
                    await connection.drain()
                document = status_of(await connection.next_packets(), connection.sender)
        finally:
            connection.abort()
        status: dict[str, Any] = msgspec.json.decode(document, type=dict[str, Any])
    except TimeoutError:
        raise EarmarkError(f"the broker at {address} did not answer within {seconds:g} seconds") from None
    except OSError as problem:
        raise EarmarkError(f"no broker answers at {address}: {problem.strerror or problem}") from None
    except msgspec.MsgspecError as problem:
        raise EarmarkError(f"the broker at {address} sent a malformed status: {problem}") from None
    return status
