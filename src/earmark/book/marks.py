"""Who writes to a book, and how far has its journal come?

    WRITER    held, by a lock of the system, for as long as a process has the book open for writing; says who
    HEAD      32 bytes, mapped: a magic, the number of the newest change, its complement, and whether it was flushed

HEAD is written after a commit and before it is acknowledged, without a flush of its own. A killed process loses nothing
of it, and after a power failure it may be behind the journal, which is right as well. Ahead of the journal it can only
be when the journal has lost changes: SQLite takes a damaged WAL for a shorter one, and this tells the difference.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import mmap
import os
import socket
import struct
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from weakref import WeakSet

from earmark.errors import TableError

WRITER, HEAD = "WRITER", "HEAD"
_MAGIC = b"earmarkH"
_FORM = struct.Struct("<8sQQQ")
_ALL = 2**64 - 1
_MOST = 4096
_ATTEMPTS = 100


class Locked(TableError):
    """Another process has the book open for writing."""


class WriterLock:
    """The right to write to a book, until it is released or the process ends."""

    def __init__(self, root: Path) -> None:
        file = root / WRITER
        self._process = os.getpid()
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        _held.add(self)
        try:
            self._take(root)
            self._sign()
        except BaseException:
            self.release()
            raise

    def _take(self, root: Path) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            if not isinstance(problem, BlockingIOError):
                raise TableError(
                    f"{str(root)!r} cannot be locked ({problem.strerror}), so it cannot be opened for writing there; "
                    "put the book on a local disk, or open it with readonly=True"
                ) from None
            raise Locked(
                f"{str(root)!r} is open for writing by {holder(root)}; close it there, or open it with readonly=True"
            ) from None

    def _sign(self) -> None:
        """Say who holds it."""
        about = {"process": os.getpid(), "host": socket.gethostname(), "machine": machine(), "since": time.time()}
        about["boot"] = boot()
        content = json.dumps({**about, "checksum": _checksum(about)}).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, content, 0)

    @property
    def is_held(self) -> bool:
        """Whether this process holds it: a forked child does not."""
        return self._process == os.getpid() and self._descriptor >= 0

    def release(self) -> None:
        """Let others write.

        The lock belongs to the open file, which a child that was forked meanwhile shares: closing it is not enough.
        """
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            if self._process == os.getpid():
                with suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


_held: WeakSet[WriterLock] = WeakSet()


def _after_fork_in_child() -> None:
    """Give up the child's share, so that the lock ends with the parent."""
    for lock in list(_held):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def machine() -> str:
    """What tells this machine from others, also after it was started again.

    With the name of the host, since machines that were copied from one image may have the same id.
    """
    with suppress(OSError, ValueError):
        return f"{Path('/etc/machine-id').read_text().strip()} {socket.gethostname()}"
    return socket.gethostname()


def boot() -> str | None:
    """What tells this machine, as long as it runs, from others; its containers share it, whatever their names are."""
    with suppress(OSError, ValueError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return None


def _about(root: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        with (root / WRITER).open("rb") as file:
            found = json.loads(file.read(_MOST))
        if isinstance(found, dict) and found.pop("checksum", None) == _checksum(found):
            return found
    return {}


def _checksum(about: dict[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=16).hexdigest()


def holder(root: Path) -> str:
    """Who holds the lock, for a message."""
    for _ in range(_ATTEMPTS):
        if about := _about(root):
            break
        time.sleep(0.001)  # it was taken this moment, and is not signed yet
    process, host = about.get("process"), about.get("host")
    if type(process) is not int or not isinstance(host, str):
        return "another process"
    who = "this process" if process == os.getpid() and about.get("machine") == machine() else f"process {process}"
    since = ""
    with suppress(TypeError, ValueError, OverflowError, OSError):
        since = f" since {datetime.fromtimestamp(float(about['since']), UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"{who} on {host[:100]}{since}"


def was_elsewhere(root: Path) -> bool:
    """Whether the last writer ran on another machine, whose journal cannot be read from here while it changes."""
    about = _about(root)
    written_by, during = about.get("machine"), about.get("boot")
    if isinstance(during, str) and during == boot():
        return False
    return isinstance(written_by, str) and written_by != machine()


class Mark:
    """The number of the newest change that was acknowledged, in a mapped file."""

    def __init__(self, root: Path, *, writable: bool) -> None:
        flags = os.O_RDWR | os.O_CREAT if writable else os.O_RDONLY
        descriptor = os.open(root / HEAD, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            if writable and size == 0:
                os.pwrite(descriptor, _packed(0, True), 0)
                os.fsync(descriptor)
            elif size != _FORM.size:
                raise _damaged(root)
            access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
            self._mapped = mmap.mmap(descriptor, _FORM.size, access=access)
        finally:
            os.close(descriptor)
        self._root = root

    def read(self) -> tuple[int, bool]:
        """The number, and whether changes up to it were flushed."""
        for _ in range(_ATTEMPTS):  # a writer may be half-way
            magic, number, complement, flushed = _FORM.unpack(self._mapped[:])
            if magic == _MAGIC and number ^ complement == _ALL and flushed in (0, 1):
                return number, bool(flushed)
            time.sleep(0.0001)
        raise _damaged(self._root)

    def write(self, number: int, flushed: bool) -> None:
        """Note the number of the newest change."""
        self._mapped[:] = _packed(number, flushed)

    def close(self) -> None:
        """Unmap the file."""
        self._mapped.close()


def reset(root: Path, number: int) -> None:
    """Write the file again, for a repair."""
    with suppress(FileNotFoundError):
        (root / HEAD).unlink()
    mark = Mark(root, writable=True)
    mark.write(number, True)
    mark.close()


def _packed(number: int, flushed: bool) -> bytes:
    return _FORM.pack(_MAGIC, number, number ^ _ALL, int(flushed))


def _damaged(root: Path) -> TableError:
    return TableError(f"{HEAD} of {str(root)!r} is damaged; `earmark repair` writes it again")
