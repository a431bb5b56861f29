"""One authenticated stream over asyncio, and a link that is carried by it.

    dial, accept     the handshake, within a time limit
    carry            frames of a link over a connection, both ways, until the connection ends
    Delays           how long to wait before the next attempt

Only here are sockets read and written. A connection reads one piece of at most READ bytes at a time, and writes no
further frame while the system has not taken the last ones, so its memory is bounded however fast either side is.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from random import Random
from typing import Any, Literal

from earmark.overlay.access import Address
from earmark.overlay.channel import (
    MOST_GREETINGS,
    MOST_PACKET,
    Challenge,
    Dialler,
    Greeting,
    Listener,
    Packet,
    Packets,
    Role,
    Welcome,
    frame_of,
    frame_packet,
    packed,
    refusal,
)
from earmark.overlay.link import Arrival, Link
from earmark.overlay.messages import ProtocolError

READ = 1 << 16
WRITE_BUFFER = 1 << 18
HANDSHAKE = 10.0
"""Seconds for the whole handshake."""
PING = 5.0
"""Seconds of silence after which an end says that it is alive."""
SILENCE = 20.0
"""Seconds of silence after which the other end counts as gone."""

Deliver = Callable[[Arrival[Any], int], None]


class Connection:
    """One stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sender: str) -> None:
        self.sender = sender
        """Who is at the other end, for messages."""
        self.packets = Packets(sender)
        self.read_at = self.written_at = _now()
        self._reader, self._writer = reader, writer
        writer.transport.set_write_buffer_limits(high=WRITE_BUFFER)

    def name(self, sender: str) -> None:
        """Name the other end, which is known now."""
        self.sender = self.packets.sender = sender

    async def next_packet(self) -> Packet | None:
        """Return the next packet, or None at the end of the stream."""
        while (packet := self.packets.next()) is None:
            if not await self._read():
                return None
        return packet

    async def next_packets(self) -> list[Packet]:
        """Return all packets that have arrived, at least one; none at the end of the stream."""
        packets: list[Packet] = []
        while (packet := await self.next_packet() if not packets else self.packets.next()) is not None:
            packets.append(packet)
        return packets

    async def _read(self) -> bool:
        try:
            data = await self._reader.read(READ)
        except (OSError, ssl.SSLError):
            return False
        self.read_at = _now()
        self.packets.feed(data)
        return bool(data)

    def write(self, data: bytes) -> None:
        """Hand over bytes; they may wait in the system's buffer."""
        if not self._writer.is_closing():
            self.written_at = _now()
            self._writer.write(data)

    async def drain(self) -> None:
        """Wait until the buffer has room."""
        with contextlib.suppress(OSError, ssl.SSLError):
            await self._writer.drain()

    def refuse(self, reason: str) -> None:
        """End the connection with a sentence."""
        self.write(refusal(reason))
        self.close()

    def close(self) -> None:
        """End the connection; what is in the buffer still goes out."""
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.close()

    def abort(self) -> None:
        """End the connection at once."""
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.transport.abort()


def _now() -> float:
    return asyncio.get_running_loop().time()


async def dial(
    address: Address,
    *,
    token: bytes,
    role: Role,
    name: str,
    session: bytes,
    tls: ssl.SSLContext | None = None,
    seconds: float = HANDSHAKE,
    admit: Callable[[Challenge], None] | None = None,
) -> tuple[Connection, Dialler]:
    """Connect to a listener and prove the token to each other. Raises OSError, TimeoutError or ProtocolError.

    `admit` is told who answers, before the listener ends an older connection for this one, and may raise.
    """
    sender = f"the broker at {address}"
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection(address.host, address.port, ssl=tls, limit=READ)
        connection = Connection(reader, writer, sender)
        try:
            dialler = Dialler(token, role, name, session, sender)
            connection.write(dialler.greeting())
            while dialler.welcome is None:
                packet = await connection.next_packet()
                if packet is None:
                    raise ProtocolError(f"{sender}: ended the connection in the handshake")
                answer = dialler.receive(packet)
                if admit is not None and dialler.listener is not None and dialler.welcome is None:
                    admit(dialler.listener)
                connection.write(answer)
        except BaseException:
            connection.abort()
            raise
    assert dialler.listener is not None
    connection.name(f"broker {dialler.listener.name!r}")
    connection.packets.most = MOST_PACKET
    return connection, dialler


async def accept(
    connection: Connection, *, token: bytes, name: str, session: bytes, seconds: float = HANDSHAKE
) -> tuple[Greeting, Listener]:
    """Let a dialler prove the token. The caller sends the welcome, or refuses. Raises TimeoutError or ProtocolError."""
    listener = Listener(token, name, session, connection.sender)
    async with asyncio.timeout(seconds):
        for _ in range(MOST_GREETINGS):
            packet = await connection.next_packet()
            if packet is None:
                raise ProtocolError(f"{connection.sender}: ended the connection in the handshake")
            connection.write(listener.receive(packet))
    assert listener.dialler is not None
    connection.name(f"{listener.dialler.role} {listener.dialler.name!r}")
    connection.packets.most = MOST_PACKET
    return listener.dialler, listener


def welcome_of(dialler: Dialler) -> Welcome:
    """What the listener said at the end of the handshake."""
    assert dialler.welcome is not None
    return dialler.welcome


# --- a link over a connection -------------------------------------------------------------------------------------


async def carry(
    connection: Connection,
    link: Link[Any],
    wake: asyncio.Event,
    speaker: Literal["client", "listener", "broker"],
    deliver: Deliver,
) -> None:
    """Carry a link until the connection ends; a ProtocolError says that the other end broke the protocol.

    wake: set it whenever the link may have something to say.
    deliver: is called with what each frame brought, and the size of the frame.
    """
    link.restore()
    wake.set()
    helpers = [asyncio.create_task(_write(connection, link, wake)), asyncio.create_task(_watch(connection))]
    try:
        while packets := await connection.next_packets():
            for packet in packets:
                frame = frame_of(packet, speaker, connection.sender)
                if frame is not None:
                    deliver(link.receive(frame), len(packet.body))
            wake.set()
    finally:
        link.cut()
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)


async def _write(connection: Connection, link: Link[Any], wake: asyncio.Event) -> None:
    while True:
        await wake.wait()
        wake.clear()
        while (frame := link.next_frame()) is not None:
            connection.write(frame_packet(frame))
            await connection.drain()


async def _watch(connection: Connection) -> None:
    """Say that this end is alive, and end the connection when the other does not."""
    while True:
        await asyncio.sleep(PING / 2)
        now = _now()
        if now - connection.read_at > SILENCE:
            connection.abort()
        elif now - connection.written_at > PING:
            connection.write(packed(b"P"))


class Delays:
    """Seconds to wait before the next attempt: doubled each time up to a bound, between half of it and all of it."""

    def __init__(self, random: Random, first: float = 0.1, most: float = 10.0) -> None:
        self._random = random
        self._first, self._most = first, most
        self._next = first

    def next(self) -> float:
        """Return the next delay."""
        delay, self._next = self._next, min(self._next * 2, self._most)
        return delay * self._random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Begin again with the shortest: an attempt succeeded."""
        self._next = self._first
