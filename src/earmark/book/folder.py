"""Where are the versions of a book, which is the newest, and which are kept?

    ads/                          given by the user; on a cluster, visible under this path to the driver and all workers
      book.json                   format, layout, who wrote it, the name of this book, and what counts: its versions, or
                                  its journal, of which versions are checkpoints (journal.py)
      journal.db WRITER HEAD      the journal, where there is one, and who writes it (marks.py)
      CURRENT                     the number of the newest version and the checksum of its record
      LOCK                        held to change CURRENT or to remove versions
      segments/3f08c1…            subscriptions and their index, one packed file each (segments.py); never changed.
                                  Columns that come along with matches, as Arrow (payload.py)
      keys/90b2aa…                string constants and their keys (segments.py)
      versions/00000001/          a version; it never changes
        version.json              parent, schema, counts, and the files of segments and keys that it is made of
        removed                   for some of its segments, the bitmap of removed slots
        rejects/                  Parquet: the rows that were not taken, with the reason (Spark)
      pins/00000001.stream-7      versions that are not removed
      .building-9a1b…/            a version that is being made, or that a killed writer left

A version after a few changes shares the large segments of its parent: it has other bitmaps and one more small segment.

publishing.py puts versions there. Files of segments and keys are removed when no version lists them any more.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

from earmark.book import journal, marks
from earmark.book.segments import Record, damage, digest
from earmark.errors import EarmarkError, TableError, require
from earmark.segment.segment import DAMAGE

T = TypeVar("T")
FORMAT, LAYOUT = "earmark-book", 1
MAX_RECORD = 256 << 20
OF_VERSIONS, OF_JOURNAL = "versions", "journal"
"""What counts, in a manifest."""
MANIFEST, CURRENT, LOCK, RECORD = "book.json", "CURRENT", "LOCK", "version.json"
SEGMENTS, KEYS, VERSIONS, PINS = "segments", "keys", "versions", "pins"
FULL, DELTA = "full", "delta"
_OLD_FORMATS = {"manifest.json": "earmark-table", CURRENT: "earmark-snapshot"}
_NUMBER = re.compile(r"\d{8}\Z")
_FILE = re.compile(r"[0-9a-f]{16}\Z")
_BUILDING = re.compile(r"\.(building|removed|new)-[0-9a-f]{16}\Z")
_OWNER = re.compile(r"[A-Za-z0-9_.-]{1,100}\Z")
_OWN_NAMES = frozenset({MANIFEST, CURRENT, LOCK, SEGMENTS, KEYS, VERSIONS, PINS})
_OWN_NAMES |= {*journal.FILES, marks.WRITER, marks.HEAD}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_READ_ONLY = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_ATTEMPTS = 5
LAST = 10**8 - 1
"""The greatest number of a version."""
_ABANDONED = 60.0
"""Seconds after which a file in the making is abandoned, where there is no telling whether a process holds it."""
_UNLISTED = 24 * 3600.0
"""The same for files of segments and keys that no version lists, where there are no locks."""


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """What is known of a version without opening it."""

    number: int
    parent: int | None
    kind: str
    """`full`, or `delta`: it shares segments with the versions before it."""
    base: int
    """The last full version before a delta; a full version's own number."""
    created: datetime
    subscriptions: int
    rejected: int
    index: str


# --- records -------------------------------------------------------------------------------------------------


def sealed(body: dict[str, Any]) -> dict[str, Any]:
    """A record with the checksum of the rest of itself."""
    return {**body, "checksum": digest(json.dumps(body, sort_keys=True).encode())}


def read_json(file: Path) -> Any:
    """A small JSON file."""
    if file.stat().st_size > MAX_RECORD:
        raise ValueError("it is too large")
    return json.loads(file.read_bytes())


def write_record(file: Path, record: dict[str, Any]) -> None:
    """Write a new JSON file, flushed to disk."""
    with file.open("xb") as opened:
        opened.write(json.dumps(record, ensure_ascii=True).encode())
        opened.flush()
        os.fsync(opened.fileno())


def replace_record(file: Path, record: dict[str, Any]) -> None:
    """Put a record in the place of a file, in one step; readers see the old one or the new one. Makes its folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.parent / f".building-{secrets.token_hex(8)}"
    try:
        write_record(unfinished, record)
        unfinished.replace(file)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    flush_folder(file.parent)


@contextmanager
def guarded(root: Path, what: str | int) -> Iterator[None]:
    """Inside, whatever is wrong with files is one sentence about `what`: a file, or the number of a version."""
    error: Callable[[str], TableError] = TableError
    try:
        yield
    except TableError:
        raise
    except OSError as problem:
        reason = f"cannot be read: {problem.strerror or problem}"
    except (EarmarkError, *DAMAGE) as problem:
        error, reason = damage, f"is damaged: {str(problem) or type(problem).__name__}"
    else:
        return
    raise error(f"{what if isinstance(what, str) else f'version {what}'} of {str(root)!r} {reason}") from None


def flush_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- reading -------------------------------------------------------------------------------------------------


def path_of(path: Any, what: str = "the book") -> Path:
    """A folder as it was given: a path, or a file: address; `what` names it in messages."""
    try:
        text = os.fspath(path)
    except TypeError:
        raise TableError(f"expected the path of a folder for {what}, got {path!r}") from None
    if isinstance(text, bytes):
        text = os.fsdecode(text)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return Path(text)
    parts = urlsplit(text)
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path.startswith("/"):
        return Path(url2pathname(parts.path))
    raise TableError(f"{what} {text!r} is not a path: expected a folder, such as a mount of that store")


def root_of(path: Any, what: str = "the book") -> Path:
    """A folder as an absolute path, since workers run elsewhere."""
    return path_of(path, what).absolute()


def version_folder(root: Path, number: int) -> Path:
    """The folder of a version."""
    return root / VERSIONS / f"{number:08d}"


def is_book(path: str | os.PathLike[str]) -> bool:
    """Whether there is a book under a path, of whatever layout."""
    return (Path(path) / MANIFEST).is_file()


def read_manifest(root: Path) -> dict[str, Any]:
    """What a book says of itself, or the reason why this is not one that can be read."""
    file = root / MANIFEST
    try:
        found = file.is_file() and not file.is_symlink()
    except (OSError, ValueError) as problem:
        raise TableError(f"{str(root)!r} cannot be read: {getattr(problem, 'strerror', None) or problem}") from None
    if not found:
        refuse_remains(root)
        raise TableError(f"{str(root)!r} is not an earmark book: it has no {MANIFEST}")
    return _read_sealed(root, file, MANIFEST)


def check_same(root: Path, book: str) -> None:
    """Raise where there is another book now in the place of the one of this name."""
    if read_manifest(root)["book"] != book:
        raise TableError(
            f"{str(root)!r} is another book than the one that was opened; open that one again where it is now"
        )


def refuse_remains(root: Path) -> None:
    """Raise where a folder has a book that cannot be read: of an older format, or without its manifest."""
    if not root.is_dir():
        return
    if (old := _old_format(root)) is not None:
        raise TableError(
            f"{str(root)!r} has the format {old!r}, from before earmark 0.1.0, which is not read any more; make a new "
            "book from the subscriptions that it was made from"
        )
    is_there = version_numbers(root) or (root / marks.HEAD).exists() or journal.is_begun(root)
    if is_there and not is_book(root):  # asked now, since another process may have written it meanwhile
        raise TableError(f"{str(root)!r} has no {MANIFEST}; `earmark repair` writes it again")


def has_journal(root: Path) -> bool:
    """Whether the truth of a book is its journal."""
    return bool(read_manifest(root)["truth"] == OF_JOURNAL)


def _old_format(root: Path) -> str | None:
    """The name of an older format of ours, where the folder is of one."""
    for name, format_ in _OLD_FORMATS.items():
        with suppress(OSError, *DAMAGE):
            if read_json(root / name)["format"] == format_:
                return format_
    return None


def _read_sealed(root: Path, file: Path, what: str) -> dict[str, Any]:
    """A JSON record whose format, layout and checksum are right."""
    with guarded(root, what):
        try:
            found = read_json(file)
        except (ValueError, RecursionError):
            raise AssertionError("it is not JSON") from None
        format_ = found.get("format") if isinstance(found, dict) else None
        if format_ != FORMAT:
            said = f"has the format {str(format_)[:50]!r}" if format_ is not None else "has no format"
            raise TableError(f"{what} of {str(root)!r} {said}; this earmark reads {FORMAT!r} of layout {LAYOUT}")
        layout = found.get("layout")
        if layout != LAYOUT or isinstance(layout, bool):
            raise TableError(f"{str(root)!r} has layout {str(layout)[:50]}; this earmark reads layout {LAYOUT}")
        made = sealed({name: value for name, value in found.items() if name != "checksum"})
        require(found.get("checksum") == made["checksum"], "its checksum is wrong")
        return made


def current_version(path: str | os.PathLike[str]) -> int:
    """The number of the newest version under a path: one small read, to be asked often."""
    return _current(root_of(path))[0]


def _current(root: Path) -> tuple[int, str]:
    read_manifest(root)
    file = root / CURRENT
    if file.is_symlink() or not file.is_file():
        wanting = "m.checkpoint() makes its first" if has_journal(root) else "nothing was published to it yet"
        raise TableError(f"the book {str(root)!r} has no {CURRENT}: {wanting}")
    found = _read_sealed(root, file, CURRENT)
    number, checksum = found.get("version"), found.get("record")
    if type(number) is not int or not 0 < number <= LAST or not isinstance(checksum, str):
        raise TableError(f"{CURRENT} of {str(root)!r} is damaged: it names no version")
    return number, checksum


def read_record(root: Path, number: int, checksum: str | None = None) -> dict[str, Any]:
    """The record of a version: that with this checksum, if one is given."""
    if type(number) is not int or not 0 < number <= LAST:
        raise TableError(f"expected the number of a version, 1 or more, got {number!r}")
    file = version_folder(root, number) / RECORD
    if file.is_symlink() or not file.is_file():
        there = ", ".join(map(str, version_numbers(root))) or "none"
        gone = " any more: it was removed, by retain or a later save" if number < _current(root)[0] else ""
        raise damage(f"the book {str(root)!r} has no version {number}{gone}; there are {there}")
    record = _read_sealed(root, file, f"version {number}")
    if record.get("version") != number or checksum not in (None, record["checksum"]):
        raise damage(f"version {number} of {str(root)!r} is damaged: its record is not the one published")
    return record


def newest(root: Path, version: int | None, read: Callable[[dict[str, Any]], T]) -> T:
    """Read a version, the newest unless given; again, if it was superseded and removed meanwhile."""
    for attempt in range(_ATTEMPTS):
        number, checksum = _current(root) if version is None else (version, None)
        try:
            return read(read_record(root, number, checksum))
        except TableError as problem:
            if version is not None:
                raise
            if attempt + 1 == _ATTEMPTS or _current(root)[1] == checksum:
                if not problem.is_damage or not has_journal(root):
                    raise
                raise damage(f"{problem}; `earmark repair` makes it again from the journal") from None
    raise AssertionError("unreachable")


def version_numbers(root: Path) -> list[int]:
    """The numbers of the version folders, ascending."""
    folder = root / VERSIONS
    with suppress(OSError):
        return sorted(int(one.name) for one in folder.iterdir() if _NUMBER.match(one.name))
    return []


def described(record: Record) -> VersionInfo:
    """A record as users see it."""
    try:
        known = {**record, "number": record["version"], "created": datetime.fromisoformat(record["created"])}
        return VersionInfo(**{field.name: known[field.name] for field in fields(VersionInfo)})
    except DAMAGE as problem:
        raise TableError(f"the record of a version is damaged: {problem}") from None


def files_of(record: Record) -> set[Path]:
    """The files of segments and keys that a version is made of, as paths inside the book."""
    listed = [(SEGMENTS, entry) for entry in record["segments"]] + [(KEYS, entry) for entry in record["keys"]]
    if record["router"] is not None:
        listed.append((SEGMENTS, record["router"]))
    if record.get("payload") is not None:
        listed += [(SEGMENTS, entry) for entry in record["payload"]["files"]]
    return {Path(folder) / file_name(entry["file"]) for folder, entry in listed}


def file_name(name: Any) -> str:
    """The name of a file of segments or keys; AssertionError where it cannot be one."""
    require(isinstance(name, str) and _FILE.match(name), f"it lists a file {str(name)[:50]!r} that cannot be its own")
    return str(name)


# --- writing -------------------------------------------------------------------------------------------------


@contextmanager
def alone_with(root: Path) -> Iterator[bool]:
    """Hold the lock of a book; False where the file system has none."""
    with open(root / LOCK, "rb", opener=_opened_for_locks) as held:
        try:
            alone = False
            with suppress(OSError):
                fcntl.flock(held, fcntl.LOCK_EX)
                alone = True
            yield alone
        finally:
            with suppress(OSError):  # a child that was forked meanwhile shares the open file, and so the lock
                fcntl.flock(held, fcntl.LOCK_UN)


def _opened_for_locks(path: str, _: int) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def make_root(root: Path) -> None:
    """Make the folder of a book, with those above it, and see that their names are on the disk."""
    missing = [folder for folder in (root, *root.parents) if not folder.exists()]
    root.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        with suppress(PermissionError):  # whoever may not list a folder cannot flush it
            flush_folder(folder.parent)


def new_name() -> str:
    """A name for a new book."""
    return secrets.token_hex(8)


def write_manifest(root: Path, truth: str, book: str) -> None:
    """Say what a folder is: a book of this name."""
    body = {"format": FORMAT, "layout": LAYOUT, "writer": import_module("earmark").__version__, "truth": truth}
    replace_record(root / MANIFEST, sealed({**body, "book": book}))


def newest_or_none(root: Path) -> int | None:
    """The number of the newest version; None where nothing was published yet."""
    return _current(root)[0] if (root / CURRENT).exists() else None


def refuse_foreign(root: Path) -> None:
    """Raise TableError where a book would be written over something else."""
    if not root.exists():
        return
    refusal = f"{str(root)!r} exists and is not an earmark book; it is not overwritten"
    if not root.is_dir():
        raise TableError(refusal)
    if (root / MANIFEST).exists():
        try:
            read_manifest(root)
        except TableError as problem:
            raise TableError(f"{refusal}: {problem}") from None
        return
    refuse_remains(root)
    names = sorted(entry.name for entry in root.iterdir())
    if foreign := [name for name in names if name not in _OWN_NAMES and not _BUILDING.match(name)]:
        raise TableError(f"{refusal} (it holds {foreign[0]!r})")


def clear_abandoned(root: Path) -> None:
    """Remove what killed writers left: folders in the making that no process holds."""
    for entry in list(root.iterdir()):
        if not _BUILDING.match(entry.name):
            continue
        with suppress(OSError):
            if entry.is_file() or entry.name.startswith(".new-"):
                if time.time() - entry.stat().st_mtime > _ABANDONED:
                    entry.unlink() if entry.is_file() else shutil.rmtree(entry, ignore_errors=True)
                continue
            held = os.open(entry, os.O_RDONLY)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(entry, ignore_errors=True)
            finally:
                os.close(held)


def flush_tree(folder: Path) -> None:
    """Flush all files under a folder to the disk."""
    for parent, _, files in os.walk(folder):
        for name in files:
            with Path(parent, name).open("rb") as file:
                os.fsync(file.fileno())
        flush_folder(Path(parent))


# --- keeping and removing ------------------------------------------------------------------------------------


def is_writable(root: Path) -> bool:
    """Whether this process may write to a book: readers need not, but pins are kept there."""
    try:
        os.close(os.open(root / LOCK, os.O_RDWR | os.O_CREAT, 0o644))
        return True
    except OSError as problem:
        if problem.errno in _READ_ONLY:
            return False
        raise TableError(f"{str(root)!r} cannot be locked: {problem.strerror or problem}") from None


def pin(root: Path, number: int, owner: str) -> None:
    """Keep a version from being removed."""
    file = _pin_file(root, number, owner)
    try:
        with alone_with(root):
            read_record(root, number)
            file.parent.mkdir(exist_ok=True)
            file.touch()
    except OSError as problem:
        reason = problem.strerror or problem
        raise TableError(f"version {number} of {str(root)!r} cannot be pinned: {reason}") from None


def unpin(root: Path, number: int, owner: str) -> None:
    """The opposite; nothing happens when there is no such pin."""
    file = _pin_file(root, number, owner)
    try:
        file.unlink(missing_ok=True)
    except OSError as problem:
        if not file.exists():  # a file system that is read-only says so of any file
            return
        reason = problem.strerror or problem
        raise TableError(f"version {number} of {str(root)!r} cannot be unpinned: {reason}") from None


def _pin_file(root: Path, number: int, owner: str) -> Path:
    if not isinstance(owner, str) or not _OWNER.match(owner):
        raise TableError(f"expected a pin's owner of letters, digits, '.', '_' and '-', got {owner!r}")
    return root / PINS / f"{number:08d}.{owner}"


def pinned(root: Path, owner: str = "*") -> set[int]:
    """The numbers of pinned versions: those with a pin of this owner's, or of anybody's."""
    return {int(file.name[:8]) for file in (root / PINS).glob(f"*.{owner}") if _NUMBER.match(file.name[:8])}


def remove_pins(root: Path, kept: int) -> list[tuple[int, str]]:
    """Remove the pins of all versions but one; returns which: numbers and owners."""
    gone = []
    for file in sorted((root / PINS).glob("*.*")):
        if _NUMBER.match(file.name[:8]) and int(file.name[:8]) != kept:
            file.unlink(missing_ok=True)
            gone.append((int(file.name[:8]), file.name[9:]))
    return gone


def remove_versions(root: Path, chosen: Callable[[list[VersionInfo]], set[int]]) -> list[int]:
    """Remove the versions that `chosen` picks from all of them, except what must stay; returns their numbers."""
    with alone_with(root) as alone:
        records = {number: read_record(root, number) for number in version_numbers(root)}
        return remove_others(root, set(records) - chosen([described(one) for one in records.values()]), alone)


def remove_others(root: Path, wanted: set[int], alone: bool = True) -> list[int]:
    """Remove all versions but these, the newest, and pinned ones; and files that no version lists. Under the lock."""
    numbers, now = version_numbers(root), _current(root)[0]
    kept = {number for number in numbers if number in wanted | pinned(root) | {now} or number > now}
    # (those above the newest: a publisher of a file system without locks may be about to point there)
    gone = sorted(set(numbers) - kept)
    for number in gone:
        remove(root, version_folder(root, number))
    _remove_unlisted(root, kept, alone)
    return gone


def leftovers(root: Path) -> list[Path]:
    """What is there beside the newest version and its files: older ones, what no version lists, what was abandoned."""
    number = _current(root)[0]
    wanted = {root / file for file in files_of(read_record(root, number))} | {version_folder(root, number)}
    found = [file for kind in (SEGMENTS, KEYS, VERSIONS) if (root / kind).exists() for file in (root / kind).iterdir()]
    found += [entry for entry in root.iterdir() if _BUILDING.match(entry.name) and entry.is_dir()]
    return sorted(set(found) - wanted)


def remove(root: Path, path: Path) -> None:
    """Remove a file or a folder; a folder is renamed first, so that it is gone in one step."""
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    hidden = root / f".removed-{secrets.token_hex(8)}"
    path.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def _remove_unlisted(root: Path, kept: set[int], alone: bool) -> None:
    """Remove the files of segments and keys that none of these versions lists."""
    try:
        listed = {file for number in kept for file in files_of(read_record(root, number))}
    except (TableError, *DAMAGE):
        return  # who knows what a damaged record lists
    for kind in (SEGMENTS, KEYS):
        with suppress(FileNotFoundError):
            for file in (root / kind).iterdir():
                if Path(kind) / file.name in listed or not _FILE.match(file.name):
                    continue
                with suppress(OSError):
                    if alone or time.time() - file.stat().st_mtime > _UNLISTED:
                        file.unlink()
