"""The versions that a worker process has open, for searching.

The arrays of segments and indexes stay in the page cache, once per host however many workers map them; ids are Arrow
columns over the same mapped bytes; strings are looked up in place. What a worker has of its own does not grow with the
number of subscriptions, except for a bit each (which are alive). Of a sharded version only the router is opened at
first; a shard when an event is sent there (engine/lazy.py).

A process keeps the last few versions (`opened`), and takes what was loaded out of the garbage collector's sight
(`gc.freeze`): Spark collects after every task, which would go through all of it.
"""

from __future__ import annotations

import ctypes
import gc
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from earmark.book.contents import open_version, verify
from earmark.book.folder import read_record
from earmark.engine.lazy import Resident
from earmark.engine.version import Version
from earmark.errors import TableError
from earmark.locks import remade_lock

KEPT = 3
"""Versions that a process keeps open."""

_versions: OrderedDict[tuple[str, int, str], Version] = OrderedDict()
_opening = remade_lock()


def opened(root: str, number: int, checksum: str) -> Version:
    """A version for searching, opened once per process. The record's checksum tells it from another of its number."""
    key = (root, number, checksum)
    with _opening:
        version = _versions.get(key)
        if version is None:
            version = open_for_search(Path(root), number, checksum)
            while len(_versions) >= KEPT:
                _versions.popitem(last=False)
            _versions[key] = version
            gc.collect()
            gc.freeze()
            _give_back()
        _versions.move_to_end(key)
        return version


def open_for_search(root: Path, number: int, checksum: str | None = None) -> Version:
    """A version whose segments open when an event is sent there, verified unless this host has seen it."""
    record = read_record(root, number)
    if checksum is not None and record["checksum"] != checksum:
        raise TableError(
            f"version {number} of the book {str(root)!r} is another than was opened: the folder has been "
            "published again; open the book again"
        )
    verify(root, record)
    return open_version(root, record, in_place=True, resident=Resident(), on_open=gc.freeze)[0]


def _give_back() -> None:
    """Return to the system what opening a version took and no longer needs, where the C library can."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
