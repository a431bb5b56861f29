"""A TCP proxy that can be cut and restored: a bad network on one machine."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self

PIECE = 1 << 16


class Proxy:
    """Forwards connections to a port of this machine, until it is cut. Use it as `async with`."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_cut = False
        self.is_stalled = False
        """Whether bytes are held back while connections stay."""
        self.port = 0
        self.connections = 0

    @property
    def address(self) -> str:
        """Where to connect to."""
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """End all connections at once, losing what is on its way, and accept none."""
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def restore(self) -> None:
        """Accept connections again."""
        self._is_cut = False

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        self.connections += 1
        self._writers.add(writer)
        with contextlib.suppress(OSError):
            other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers.add(other_writer)
            if not self._is_cut:
                await asyncio.gather(self._forward(reader, other_writer), self._forward(other_reader, writer))
            other_writer.transport.abort()
            self._writers.discard(other_writer)
        writer.transport.abort()
        self._writers.discard(writer)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(PIECE):
                while self.is_stalled:
                    await asyncio.sleep(0.01)
                writer.write(data)
                await writer.drain()
        writer.close()
