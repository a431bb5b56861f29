"""How a version is written into a book, with no more new files than it takes.

A segment that was opened from a book, or written to it before, is already there: the version lists its file again, with
the slots that have been removed since. So a save after a few changes writes what changed.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, ref

from earmark import index as indexes
from earmark.book import folder as folders
from earmark.book.contents import open_version, said, verified, version_record, write_removed
from earmark.book.folder import DELTA, FULL, KEYS, SEGMENTS, Building
from earmark.book.keys import StoredKeys
from earmark.book.segments import write_router, write_segment
from earmark.engine.lazy import LazySegment
from earmark.engine.version import IndexedSegment, Version
from earmark.errors import TableError, require
from earmark.segment.arrays import check_arrays
from earmark.segment.segment import Segment

_ENTRY = ("file", "bytes", "checksum", "slots", "index")


class Shelf:
    """Where segments and keys are stored already, in one book."""

    def __init__(self, book: str = "", keys: StoredKeys | None = None) -> None:
        self.book = book
        """The name that the book gave itself when it was made."""
        self.keys = keys or StoredKeys()
        self._entries: WeakKeyDictionary[Segment, tuple[Any, dict[str, Any]]] = WeakKeyDictionary()

    def put(self, one: IndexedSegment, entry: Mapping[str, Any]) -> None:
        """Note the file of a segment and its index."""
        known = ref(one.index) if one.index is not None else None
        self._entries[one.segment] = known, {name: entry[name] for name in _ENTRY}

    def entry(self, one: IndexedSegment) -> dict[str, Any] | None:
        """What a record says of the file of a segment and its index, if there is one."""
        if isinstance(one, LazySegment):
            return {name: one.entry[name] for name in _ENTRY}
        index, entry = self._entries.get(one.segment, (None, None))
        return entry if (index() if index is not None else None) is one.index else None


def write_version(site: Building, version: Version, index: str, shelf: Shelf) -> dict[str, Any]:
    """Write the files of a version that are not in the book yet; returns what its record says."""
    require(
        all(one.generation == version.schema.generation for one in version.segments),
        "the segments of a version are not in the keys of one schema",
    )
    entries, shared = [], False
    for one in version.segments:
        entry = shelf.entry(one)
        if entry is not None and (site.root / SEGMENTS / entry["file"]).is_file():
            shared = True
        elif entry is None or not (site.folder / SEGMENTS / entry["file"]).is_file():
            forgotten = one.forgotten if one.index is not None else None
            entry = write_segment(site.new_file(SEGMENTS), one.segment, index, one.index, forgotten)
            shelf.put(one, entry)
        entries.append({**entry, "live": one.live})
    router = None if version.router is None else write_router(site.new_file(SEGMENTS), version.router)
    shelf.keys = shelf.keys.written(version.schema, lambda: site.new_file(KEYS))
    return {
        **version_record(version, index),
        "kind": DELTA if shared else FULL,
        "rejected": 0,
        "segments": entries,
        "keys": shelf.keys.entries,
        "router": router,
        "removed": write_removed(site.folder, version.segments),
    }


# --- a matcher's -------------------------------------------------------------------------------------------------


def check(version: Version, shelf: Shelf) -> None:
    """Raise AssertionError unless a version can be stored: what kernels rely on, ids, places in the order, uses.

    Segments that are on the shelf were checked before, and never change. O(size), at the speed of arrays and sets.
    """
    for one in version.segments:
        if shelf.entry(one) is None:
            check_arrays(one.segment.arrays, len(one.segment.schema))
    version.check_living()


def save(path: Any, version: Version, index: str, shelf: Shelf) -> Shelf:
    """Make this the newest version of the book under a path; returns where its segments are now.

    The version that was the newest stays, and so do pinned ones; older ones are removed. Savers take turns.
    """
    try:
        root = folders.root_of(path).resolve()
        folders.refuse_foreign(root)
        made = not root.exists()
        try:
            folders.prepare_root(root)
            with folders.alone_with(root):
                return _save(root, version, index, shelf)
        finally:
            if made and not (root / folders.CURRENT).exists():
                shutil.rmtree(root, ignore_errors=True)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise TableError(f"the book cannot be saved to {str(path)!r}: {reason}") from None


def _save(root: Path, version: Version, index: str, shelf: Shelf) -> Shelf:
    book, parent = str(folders.read_manifest(root)["book"]), folders.newest_or_none(root)
    if shelf.book != book:
        shelf = Shelf(book)
    if not all((root / KEYS / entry["file"]).is_file() for entry in shelf.keys.entries):
        shelf.keys = StoredKeys()
    with folders.building(root, parent) as site:
        record = write_version(site, version, index, shelf)
        if record["kind"] == DELTA:
            record["base"] = folders.read_record(root, parent)["base"] if parent is not None else 1
        made = site.commit(record, lock=False)
    folders.remove_others(root, {made["version"], parent or 0})
    return shelf


def load(path: Any, number: int | None, mmap: bool, index: str | None) -> tuple[Version, str, Shelf]:
    """A version of the book under a path, the newest unless given; the name of its index; where its segments are.

    The stored indexes are not opened where `index` names another.
    """
    root = folders.path_of(path)
    found: tuple[Version, str, Shelf] = folders.newest(
        root, number, lambda record: said(root, record, lambda: _load(root, record, mmap, index))
    )
    return found


def _load(root: Path, record: Mapping[str, Any], mmap: bool, index: str | None) -> tuple[Version, str, Shelf]:
    saved = record["index"]
    if index is None and saved not in indexes.names():
        raise TableError(
            f"{str(root)!r} was saved with the index {str(saved)[:50]!r}, which this earmark does not have; "
            f"load it with another: {', '.join(indexes.names())}"
        )
    other = index not in (None, saved)
    with verified(root, record, by_block=True, counts=not other) as new:
        version, shelf = _opened(root, record, mmap, other)
        if new:
            version.check_living()
    return version.with_free_types(), str(saved), shelf


def _opened(root: Path, record: Mapping[str, Any], mmap: bool, other_index: bool) -> tuple[Version, Shelf]:
    """All segments that have living subscriptions, open; where another index is asked for, without their own."""
    version, keys = open_version(root, record, mmap=mmap)
    shelf = Shelf(str(folders.read_manifest(root)["book"]), keys)
    segments: list[IndexedSegment] = []
    for lazy in version.segments:
        assert isinstance(lazy, LazySegment)
        if not lazy.live:
            continue
        one = IndexedSegment.of(lazy.segment, None, lazy.removed) if other_index else lazy.opened()
        if not other_index:
            shelf.put(one, lazy.entry)
        segments.append(one)
    return Version(version.schema, tuple(segments), version.next_sequence, version.uses), shelf
