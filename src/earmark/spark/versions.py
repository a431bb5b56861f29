"""Where are the versions of a snapshot, which is the newest, and is one whole?

    ads/                          given by the user; visible under this path to the driver and every worker
      CURRENT                     the number of the newest version and the checksum of its version.json
      LOCK                        held by whoever changes CURRENT or removes versions
      versions/00000001/          a full version; it never changes
        version.json              parent, kind, attributes, counts, checksums of what lies beside it; of itself too
        shards/0000/              a table and its index (segment/files.py); one folder a shard
        router/                   where there are several: which of them an event may match (routing.py)
        rejects/                  Parquet: the rows that were not taken, with the reason
      versions/00000002/          a delta: what changed since its base, searched together with it
        shards/0000/              subscriptions added or replaced since the base
        removed_0000.npy          bitmap of the base's slots (shard 0000) that are removed or replaced; one a shard
      pins/00000001.stream-7      versions that `retain` keeps
      .building-9a1b…/            a version that is being made, or that a killed publisher left

**Invariant.** A folder under versions/ is complete: it got there by one rename, after everything in it was flushed.
CURRENT is replaced in one step, under LOCK, and only by a publisher whose parent it still names: of two at once one
wins, and the other gets `Conflict` and leaves nothing. A publisher killed between the two steps leaves a complete
version that nobody points at; the next number is the one after it.

Where the file system has no locks, two publishers still cannot both win: the number is the parent's plus one, and of
two renames to one name the second fails.

Verification: checksums and every invariant of a version are verified once a host, by whoever opens it there first; a
mark in this user's cache folder, which names the checksums, sizes, times and inodes that were seen, tells the others,
who then look at sizes and headers only. Without a cache folder each process verifies for itself.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from earmark.cache import cache_folder
from earmark.errors import TableError, require
from earmark.segment.files import DAMAGE, flush_folder, read_json, record_checksum, write_file

FORMAT, LAYOUT = "earmark-snapshot", 1
CURRENT, LOCK, RECORD = "CURRENT", "LOCK", "version.json"
FULL, DELTA = "full", "delta"
_VERSIONS, _PINS = "versions", "pins"
_NUMBER = re.compile(r"\d{8}\Z")
_BUILDING = re.compile(r"\.(building|removed)-[0-9a-f]{16}\Z")
_OWNER = re.compile(r"[A-Za-z0-9_.-]{1,100}\Z")
_ATTEMPTS = 5
_OWN_NAMES = frozenset({CURRENT, LOCK, _VERSIONS, _PINS})
_KEPT_MARKS = 1_000
_LAST = 10**8 - 1


class SnapshotError(TableError):
    """A snapshot that cannot be opened or written."""


class Conflict(SnapshotError):
    """Someone else published in the meantime; nothing of this publication remains."""


@dataclass(frozen=True, slots=True)
class Version:
    """What is known of a version without opening it."""

    number: int
    parent: int | None
    kind: str
    """`full`, or `delta`: what changed since its base."""
    base: int
    """The full version that a delta goes with; a full version's own number."""
    created: datetime
    subscriptions: int
    rejected: int
    index: str


# --- reading -------------------------------------------------------------------------------------------------


def root_of(path: Any) -> Path:
    """The folder of a snapshot, as an absolute path, since workers run elsewhere."""
    try:
        return Path(path).absolute()
    except TypeError:
        raise SnapshotError(f"a snapshot lies in a folder, given by its path; got {path!r}") from None


def version_folder(root: Path, number: int) -> Path:
    """The folder of a version."""
    return root / _VERSIONS / f"{number:08d}"


def current_version(path: str | os.PathLike[str]) -> int:
    """The number of the newest version under a path: one small read, for whoever asks often."""
    return _current(root_of(path))[0]


def _current(root: Path) -> tuple[int, str]:
    file = root / CURRENT
    if not file.is_file():
        raise SnapshotError(f"{str(root)!r} is not an earmark snapshot: it has no {CURRENT}")
    found = _guarded(file, partial(read_sealed, file, "snapshot"))
    number, checksum = found.get("version"), found.get("record")
    if type(number) is not int or not isinstance(checksum, str):
        raise SnapshotError(f"{str(file)!r} is damaged: it names no version")
    return number, checksum


def _guarded(file: Path, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except TableError:
        raise
    except OSError as problem:
        raise SnapshotError(f"{str(file)!r} cannot be read: {problem.strerror or problem}") from None
    except DAMAGE as problem:
        reason = "it is not JSON" if isinstance(problem, ValueError) else str(problem) or type(problem).__name__
        raise SnapshotError(f"{str(file)!r} is damaged: {reason}") from None


def read_sealed(file: Path, what: str) -> dict[str, Any]:
    """A JSON record whose format, layout and checksum are right."""
    found = read_json(file)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise SnapshotError(f"{str(file)!r} is not the record of an earmark {what}")
    layout = found.get("layout")
    if layout != LAYOUT or isinstance(layout, bool):
        raise SnapshotError(f"the {what} has layout {str(layout)[:50]}; this earmark reads layout {LAYOUT}")
    body = {name: value for name, value in found.items() if name != "blake2b"}
    require(found.get("blake2b") == record_checksum(body), "its checksum is wrong")
    return found


def seal(body: dict[str, Any]) -> dict[str, Any]:
    """A record with its format, layout and checksum."""
    body = {"format": FORMAT, "layout": LAYOUT, **body}
    return {**body, "blake2b": record_checksum(body)}


def read_record(root: Path, number: int | None = None) -> dict[str, Any]:
    """The record of a version, the newest unless given."""
    if number is not None and (type(number) is not int or not 0 < number <= _LAST):
        raise SnapshotError(f"a version is a number, 1 or more; got {number!r}")
    for attempt in range(_ATTEMPTS):
        wanted, checksum = _current(root) if number is None else (number, None)
        file = version_folder(root, wanted) / RECORD
        if not file.is_file():
            # It may have been superseded and removed since CURRENT was read.
            if number is None and attempt + 1 < _ATTEMPTS and _current(root)[0] != wanted:
                continue
            _current(root)  # says when this is no snapshot at all
            there = ", ".join(map(str, version_numbers(root))) or "none"
            raise SnapshotError(f"the snapshot {str(root)!r} has no version {wanted}; there are {there}")
        record: dict[str, Any] = _guarded(file, partial(read_sealed, file, "version"))
        if record.get("version") != wanted or (checksum is not None and record["blake2b"] != checksum):
            raise SnapshotError(
                f"{str(file)!r} is damaged: it is not the record of version {wanted} that was published"
            )
        return record
    raise AssertionError("unreachable")


def version_numbers(root: Path) -> list[int]:
    """The numbers of the version folders, ascending."""
    folder = root / _VERSIONS
    with suppress(OSError):
        return sorted(int(one.name) for one in folder.iterdir() if _NUMBER.match(one.name))
    return []


def described(record: Mapping[str, Any]) -> Version:
    """A record as users see it."""
    try:
        return Version(
            number=record["version"],
            parent=record["parent"],
            kind=record["kind"],
            base=record["base"],
            created=datetime.fromisoformat(record["created"]),
            subscriptions=record["subscriptions"],
            rejected=record["rejected"],
            index=record["index"],
        )
    except DAMAGE as problem:
        raise SnapshotError(f"the record of a version is damaged: {problem}") from None


# --- writing -------------------------------------------------------------------------------------------------


class Building:
    """A version in the making: fill `folder`, then `commit`."""

    def __init__(self, root: Path, folder: Path, parent: int | None) -> None:
        self.root = root
        self.folder = folder
        self.parent = parent

    def commit(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Make this the newest version, or raise `Conflict` when the parent no longer is; returns its record."""
        with _alone(self.root) as alone:
            self.check_parent()
            known = [self.parent or 0, *(version_numbers(self.root) if alone else ())]
            number = max(known) + 1
            made = seal(
                {
                    **record,
                    "version": number,
                    "parent": self.parent,
                    "created": datetime.now(UTC).isoformat(timespec="milliseconds"),
                    **({"base": number} if record["kind"] == FULL else {}),
                }
            )
            write_file(self.folder / RECORD, made)
            _flush_tree(self.folder)
            target = version_folder(self.root, number)
            target.parent.mkdir(exist_ok=True)
            try:
                self.folder.rename(target)
            except OSError as problem:
                if problem.errno in (errno.EEXIST, errno.ENOTEMPTY):
                    raise self.conflict(number) from None
                raise
            flush_folder(target.parent)
            point_at(self.root, made)
            return made

    def check_parent(self) -> None:
        """Raise `Conflict` when the parent is no longer the newest."""
        now = newest_or_none(self.root)
        if now != self.parent:
            raise self.conflict(now)

    def conflict(self, now: int | None) -> Conflict:
        """What to tell the one who came second."""
        before = "when there was no version" if self.parent is None else f"on version {self.parent}"
        return Conflict(
            f"version {now} of {str(self.root)!r} was published while this one, begun {before}, was being made; "
            "nothing of it remains: open the snapshot again and repeat it"
        )


def point_at(root: Path, record: Mapping[str, Any]) -> None:
    """Replace CURRENT, in one step."""
    unfinished = root / f".building-{secrets.token_hex(8)}"
    write_file(unfinished, seal({"version": record["version"], "record": record["blake2b"]}))
    unfinished.replace(root / CURRENT)
    flush_folder(root)


@contextmanager
def building(root: Path, parent: int | None) -> Iterator[Building]:
    """A folder to make a version in; gone afterwards, unless it became one."""
    try:
        _refuse_foreign(root)
        root.mkdir(parents=True, exist_ok=True)
        _clear_abandoned(root)
        folder = root / f".building-{secrets.token_hex(8)}"
        folder.mkdir()
        held = os.open(folder, os.O_RDONLY)
        try:
            with suppress(OSError):  # a lock says that someone is at work here
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield Building(root, folder, parent)
        finally:
            os.close(held)
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as problem:
        raise SnapshotError(f"nothing can be published to {str(root)!r}: {problem.strerror or problem}") from None


def newest_or_none(root: Path) -> int | None:
    """The number of the newest version; None where nothing was published yet."""
    return _current(root)[0] if (root / CURRENT).exists() else None


def _refuse_foreign(root: Path) -> None:
    if root.exists() and not root.is_dir():
        raise SnapshotError(f"{str(root)!r} is a file; a snapshot is published to a folder")
    foreign = [e.name for e in root.iterdir() if not _is_ours(e.name)] if root.exists() else []
    if foreign and not (root / CURRENT).exists():
        raise SnapshotError(f"{str(root)!r} holds other files, such as {foreign[0]!r}; a snapshot needs its own folder")


def _is_ours(name: str) -> bool:
    return name in _OWN_NAMES or bool(_BUILDING.match(name))


def _clear_abandoned(root: Path) -> None:
    """Remove what killed publishers left: folders in the making that nobody holds."""
    for entry in list(root.iterdir()):
        if not _BUILDING.match(entry.name):
            continue
        with suppress(OSError):
            if entry.is_file():
                if time.time() - entry.stat().st_mtime > 60:
                    entry.unlink()
                continue
            held = os.open(entry, os.O_RDONLY)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(entry, ignore_errors=True)
            finally:
                os.close(held)


@contextmanager
def _alone(root: Path) -> Iterator[bool]:
    """Hold the lock; False where the file system has none."""
    held = os.open(root / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        alone = True
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
        except OSError:
            alone = False
        yield alone
    finally:
        os.close(held)


def _flush_tree(folder: Path) -> None:
    for parent, _, files in os.walk(folder):
        for name in files:
            with Path(parent, name).open("rb") as file:
                os.fsync(file.fileno())
        flush_folder(Path(parent))


# --- keeping and removing ------------------------------------------------------------------------------------


def pin(root: Path, number: int, owner: str) -> None:
    """Keep a version from being removed."""
    with _alone(root):
        read_record(root, number)
        file = _pin_file(root, number, owner)
        file.parent.mkdir(exist_ok=True)
        file.touch()


def unpin(root: Path, number: int, owner: str) -> None:
    """The opposite; nothing happens when there is no such pin."""
    _pin_file(root, number, owner).unlink(missing_ok=True)


def _pin_file(root: Path, number: int, owner: str) -> Path:
    if not isinstance(owner, str) or not _OWNER.match(owner):
        raise SnapshotError(f"a pin's owner is a name of letters, digits, '.', '_' and '-'; got {owner!r}")
    return root / _PINS / f"{number:08d}.{owner}"


def pinned(root: Path) -> set[int]:
    """The numbers of pinned versions."""
    with suppress(FileNotFoundError):
        return {int(one.name[:8]) for one in (root / _PINS).iterdir() if _NUMBER.match(one.name[:8])}
    return set()


def pinned_by(root: Path, owner: str) -> set[int]:
    """The numbers of the versions with a pin of this owner's."""
    return {int(file.name[:8]) for file in (root / _PINS).glob(f"*.{owner}")}


def remove_versions(root: Path, chosen: Callable[[list[Version]], set[int]]) -> list[int]:
    """Remove the versions that `chosen` picks from all of them, except what must stay; returns their numbers."""
    with _alone(root):
        numbers = version_numbers(root)
        records = {n: described(read_record(root, n)) for n in numbers}
        newest = _current(root)[0]
        kept = ((set(numbers) - chosen(list(records.values()))) | pinned(root) | {newest}) & set(numbers)
        kept |= {n for n in numbers if n > newest}  # a publisher of a file system without locks is about to point there
        kept |= {records[n].base for n in kept}
        gone = sorted(set(numbers) - kept)
        for number in gone:
            _remove(root, version_folder(root, number))
        return gone


def _remove(root: Path, folder: Path) -> None:
    """Out of sight in one step, then away."""
    hidden = root / f".removed-{secrets.token_hex(8)}"
    folder.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


# --- verified once a host ------------------------------------------------------------------------------------


def is_marked(folder: Path) -> bool:
    """Whether someone on this host has verified this folder as it is now."""
    marks = cache_folder("verified")
    return marks is not None and (marks / _mark(folder)).exists()


def set_mark(folder: Path) -> None:
    """Tell the other processes of this host that this folder was verified."""
    marks = cache_folder("verified")
    if marks is None:
        return
    with suppress(OSError):
        (marks / _mark(folder)).touch(mode=0o600)
        old = sorted(marks.iterdir(), key=lambda one: one.stat().st_mtime)[:-_KEPT_MARKS]
        for one in old:
            one.unlink(missing_ok=True)


def _mark(folder: Path) -> str:
    seen = []
    for parent, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):  # plain strings: a sharded version has thousands of files
            file = os.path.join(parent, name)
            found = os.stat(file)
            place = file[len(str(folder)) + 1 :]
            seen.append([place, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino])
    told = json.dumps([str(folder.resolve()), seen]).encode()
    return hashlib.blake2b(told, digest_size=16).hexdigest()
