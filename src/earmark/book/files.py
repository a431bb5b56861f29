"""Small records and large files, written so that a killed writer leaves nothing half-written that counts."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from earmark.errors import EarmarkError, TableError, require
from earmark.segment.segment import DAMAGE

T = TypeVar("T")
MAX_RECORD = 256 << 20
MOST_OPEN_FILES = 1 << 20


# --- records -------------------------------------------------------------------------------------------------


def digest(*parts: bytes | memoryview) -> str:
    """The checksum of some bytes, one part after another."""
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        made.update(part)
    return made.hexdigest()


def record_checksum(body: dict[str, Any]) -> str:
    """The checksum that a record carries of the rest of itself."""
    return digest(json.dumps(body, sort_keys=True).encode())


def sealed(body: dict[str, Any]) -> dict[str, Any]:
    """A record with its checksum."""
    return {**body, "checksum": record_checksum(body)}


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
    """Put a record in the place of a file, in one step; readers see the old one or the new one."""
    unfinished = file.parent / f".building-{secrets.token_hex(8)}"
    try:
        write_record(unfinished, record)
        unfinished.replace(file)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    flush_folder(file.parent)


def guarded(root: Path, what: str, read: Callable[[], T]) -> T:
    """Run a reader; what is wrong with files is one sentence about `what`, such as "version 3"."""
    try:
        return read()
    except TableError:
        raise
    except OSError as problem:
        raise TableError(f"{what} of {str(root)!r} cannot be read: {problem.strerror or problem}") from None
    except (EarmarkError, *DAMAGE) as problem:
        reason = str(problem) or type(problem).__name__
        raise TableError(f"{what} of {str(root)!r} is damaged: {reason}") from None


def count_of(value: Any, most: int = 2**62) -> int:
    """A whole number from a record."""
    require(type(value) is int and 0 <= value <= most, f"a count is {str(value)[:50]}")
    return int(value)


# --- the disk ------------------------------------------------------------------------------------------------


def flush_folder(folder: Path) -> None:
    """See that the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(file: Path) -> Iterator[bool]:
    """Hold a lock, alone; False where the file system has none."""
    held = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        alone = True
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
        except OSError:
            alone = False
        yield alone
    finally:
        os.close(held)


@cache
def allow_open_files() -> None:
    """Let this process open as many files as it may: each mapped segment holds one, and the usual limit is 1,024."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_OPEN_FILES if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # as many as before, then
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
