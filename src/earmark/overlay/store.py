"""What a broker remembers over restarts, in a file: what its clients asked for, its neighbours, how often it started.

    earmark broker 1\\n │ length │ checksum │ list of changes │ length │ checksum │ list of changes │ …
                          4 bytes   4 bytes    msgpack

The file is a log: a change is appended and on the disk before a client hears of it. Each append is one record, so only
the last record can be torn by a crash; it is cut off when the file is opened. When most of the log is obsolete, a new
file takes its place, with what counts now. Nothing in the file is executed: records are typed msgpack, checked on
reading, and whatever does not fit is refused with a sentence.

**Invariant.** `subscriptions`, `advertisements`, `preferences`, `neighbours` and `run` are what the file gives, read
from its beginning.
"""

from __future__ import annotations

import contextlib
import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec

from earmark.errors import EarmarkError
from earmark.overlay.messages import Advertise, Id, Name, Number, Prefer, Subscribe

MAGIC = b"earmark broker 1\n"
MOST_RECORD = 1 << 24
_HEAD = 8
_SLACK = 10_000
"""Obsolete changes that are always tolerated before the file is written again."""


class StoreError(EarmarkError):
    """A state file that cannot be used, or no longer be written."""


class Started(msgspec.Struct, frozen=True, tag="started", forbid_unknown_fields=True):
    """The broker with this name started for the run-th time."""

    name: Name
    run: Number


class Kept(msgspec.Struct, frozen=True, tag="kept", forbid_unknown_fields=True):
    """A client subscribed."""

    client: Name
    subscribe: Subscribe


class Withdrawn(msgspec.Struct, frozen=True, tag="withdrawn", forbid_unknown_fields=True):
    """A client withdrew a subscription."""

    client: Name
    id: Id


class Advertised(msgspec.Struct, frozen=True, tag="advertised", forbid_unknown_fields=True):
    """A client advertised."""

    client: Name
    advertise: Advertise


class Unadvertised(msgspec.Struct, frozen=True, tag="unadvertised", forbid_unknown_fields=True):
    """A client withdrew an advertisement."""

    client: Name
    id: Id


class Preferred(msgspec.Struct, frozen=True, tag="preferred", forbid_unknown_fields=True):
    """A client chose how to be notified."""

    client: Name
    prefer: Prefer


class Forgotten(msgspec.Struct, frozen=True, tag="forgotten", forbid_unknown_fields=True):
    """A client is gone for good."""

    client: Name


class Neighbour(msgspec.Struct, frozen=True, tag="neighbour", forbid_unknown_fields=True):
    """A neighbour was connected, or will not come back."""

    name: Name
    is_gone: bool = False


Change: TypeAlias = Started | Kept | Withdrawn | Advertised | Unadvertised | Preferred | Forgotten | Neighbour
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[Change])


class Store:
    """The file of one broker, open for as long as the broker runs. `Store(path, name)` also counts the start.

    least: the run is at least this. With a number that rises with time, it also rises when the file was lost.
    """

    def __init__(self, path: str | Path, name: str, least: int = 1) -> None:
        self.path = Path(path)
        self.name = name
        self.run = 0
        self.subscriptions: dict[tuple[str, Id], Subscribe] = {}
        self.advertisements: dict[tuple[str, Id], Advertise] = {}
        self.preferences: dict[str, Prefer] = {}
        self.neighbours: set[str] = set()
        self.cut = 0
        """Bytes of a torn last record that were cut off."""
        self._changes = 0
        self._file = self._opened()
        try:
            self._lock()
            try:
                self._read()
            except OSError as problem:
                raise self._problem(f"cannot be used: {problem.strerror or problem}") from None
            self.append([Started(name, max(self.run + 1, least))])
        except BaseException:
            self._file.close()
            raise

    # --- reading ------------------------------------------------------------------------------------------------

    def _opened(self) -> BinaryIO:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            descriptor = os.open(self.path, flags, 0o600)
        except (OSError, ValueError) as problem:
            raise self._problem(f"cannot be opened: {getattr(problem, 'strerror', None) or problem}") from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise self._problem("is not a regular file, which a broker needs")
        return os.fdopen(descriptor, "r+b", buffering=0)

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # a system without it
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise self._problem("is in use by another broker") from None

    def _problem(self, what: str) -> StoreError:
        return StoreError(f"the state file {str(self.path)!r} {what}")

    def _read(self) -> None:
        size = os.fstat(self._file.fileno()).st_size
        if size < len(MAGIC) and MAGIC.startswith(self._file.read(size)):
            self._file.seek(0)
            self._file.write(MAGIC)
            self._sync()
            _sync_folder(self.path)
            return
        self._file.seek(0)
        if self._file.read(len(MAGIC)) != MAGIC:
            raise self._problem("is not the state of a broker of this version")
        place = len(MAGIC)
        while place < size:
            record = self._record(place, size)
            if record is None:
                self.cut = size - place
                self._file.truncate(place)
                break
            for change in self._decoded(record, place):
                self._apply(change)
            place += _HEAD + len(record)
        self._file.seek(0, os.SEEK_END)

    def _record(self, place: int, size: int) -> bytes | None:
        """The record at a place; None if it is the last one and torn."""
        self._file.seek(place)
        head = self._file.read(_HEAD)
        length, checksum = int.from_bytes(head[:4], "big"), int.from_bytes(head[4:], "big")
        end = place + _HEAD + length
        if len(head) < _HEAD or (end > size and length <= MOST_RECORD):
            return None
        if not 0 < length <= MOST_RECORD:
            if self._is_empty(place, size):
                return None
            raise self._problem(
                f"is damaged at byte {place:,}: expected a length up to {MOST_RECORD:,}, got {length:,}"
            )
        record = self._file.read(length)
        if zlib.crc32(record) == checksum:
            return record
        if end == size or self._is_empty(end, size):
            return None
        raise self._problem(f"is damaged at byte {place:,}: its checksum is wrong, and it is not the last record")

    def _is_empty(self, place: int, size: int) -> bool:
        """Whether only zeros follow: space that a crash left unwritten."""
        self._file.seek(place)
        while place < size:
            block = self._file.read(1 << 16)
            if block.strip(b"\0"):
                return False
            place += len(block)
        return True

    def _decoded(self, record: bytes, place: int) -> list[Change]:
        try:
            return _DECODER.decode(record)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
            raise self._problem(f"is damaged at byte {place:,}: {problem}") from None

    def _apply(self, change: Change) -> None:
        self._changes += 1
        if isinstance(change, Kept):
            self.subscriptions[change.client, change.subscribe.id] = change.subscribe
        elif isinstance(change, Withdrawn):
            self.subscriptions.pop((change.client, change.id), None)
        elif isinstance(change, Advertised):
            self.advertisements[change.client, change.advertise.id] = change.advertise
        elif isinstance(change, Unadvertised):
            self.advertisements.pop((change.client, change.id), None)
        elif isinstance(change, Preferred):
            self.preferences[change.client] = change.prefer
        elif isinstance(change, Forgotten):
            self.preferences.pop(change.client, None)
            for kept in (self.subscriptions, self.advertisements):
                for key in [key for key in kept if key[0] == change.client]:
                    del kept[key]
        elif isinstance(change, Neighbour):
            (self.neighbours.discard if change.is_gone else self.neighbours.add)(change.name)
        else:
            if change.name != self.name:
                raise self._problem(f"belongs to the broker {change.name!r}, not to {self.name!r}")
            self.run = change.run

    # --- writing ------------------------------------------------------------------------------------------------

    def append(self, changes: Iterable[Change]) -> None:
        """Note changes; they are on the disk when this returns. After a StoreError the broker must not go on."""
        changes = list(changes)
        if not changes:
            return
        for change in changes:
            self._apply(change)
        try:
            if self._changes > 2 * self._living + _SLACK:
                self._write_again()
            else:
                self._write(_records(changes))
                self._sync()
        except OSError as problem:
            raise self._problem(f"cannot be written: {problem.strerror or problem}") from None

    def _write(self, records: Iterable[bytes]) -> None:
        for record in records:
            rest = memoryview(record)
            while rest:
                rest = rest[self._file.write(rest) :]

    @property
    def _living(self) -> int:
        wishes = len(self.subscriptions) + len(self.advertisements)
        return wishes + len(self.preferences) + len(self.neighbours) + 1

    def _write_again(self) -> None:
        """Write what counts now into a new file, and put it in the place of the old one."""
        target = self.path.with_name(f".{self.path.name}.new")
        with contextlib.suppress(FileNotFoundError):
            target.unlink()
        old = self._file
        descriptor = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        try:
            self._lock()
            self._write([MAGIC, *_records(self._all())])
            self._sync()
            os.replace(target, self.path)
        except BaseException:
            self._file.close()
            self._file = old
            raise
        old.close()
        _sync_folder(self.path)
        self._changes = self._living

    def _all(self) -> Iterator[Change]:
        yield Started(self.name, self.run)
        for name in sorted(self.neighbours):
            yield Neighbour(name)
        for client, prefer in self.preferences.items():
            yield Preferred(client, prefer)
        for (client, _), subscribe in self.subscriptions.items():
            yield Kept(client, subscribe)
        for (client, _), advertise in self.advertisements.items():
            yield Advertised(client, advertise)

    def _sync(self) -> None:
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _records(changes: Iterable[Change]) -> Iterator[bytes]:
    """Changes as records: one for a batch, several where it would be too long."""
    parts: list[bytes] = []
    size = 0
    for change in changes:
        part = _ENCODER.encode(change)
        if parts and (size + len(part) > MOST_RECORD - 64 or len(parts) >= 60_000):
            yield _record(parts)
            parts, size = [], 0
        parts.append(part)
        size += len(part)
    if parts:
        yield _record(parts)


def _record(parts: list[bytes]) -> bytes:
    body = _ENCODER.encode([msgspec.Raw(part) for part in parts])
    return len(body).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body


def _sync_folder(path: Path) -> None:
    """Make a new name in a folder durable, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
