"""How is a version written into a book, with no more new files than it takes; and how is it opened and verified?

A version's record lists files of segments, each with how many slots it has and how many of them live, and files of
keys. All segments of a version are in the keys of one schema, so an event is encoded once.

    segments    3f08…  slots 0 1 2 3 4 5     removed  . x . . x .      shared with the parent
                77aa…  slots 0 1                                       the new form of slot 1; and an added one

**Writing.** A segment that was opened from a book, or written to it before, is already there: the version lists its
file again, with the slots that have been removed since. So a save after a few changes writes what changed.

**Opening.** `open_version` gives a version whose segments are opened when they are first searched. A worker process
keeps the last few versions (`opened`). The arrays of segments and indexes stay in the page cache, once per host however
many workers map them; ids are Arrow columns over the same mapped bytes; strings are looked up in place. What a worker
has of its own does not grow with the number of subscriptions, except for a bit each (which are alive). Of a sharded
version only the router is opened at first; a shard when an event is sent there (engine/lazy.py). What was loaded is
taken out of the garbage collector's sight (`gc.freeze`): Spark collects after every task, which would go through it.

**Verifying.** Checksums and every invariant of a version are verified once per host, by the process that opens it there
first. A file in this user's cache folder, one for each book, tells the others (`Marks`).
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import shutil
import stat
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np

from earmark import index as indexes
from earmark.book import folder as folders
from earmark.book import segments as stored
from earmark.book.folder import DELTA, FULL, KEYS, SEGMENTS, guarded
from earmark.book.payload import verify_payload
from earmark.book.publishing import Building, building, prepare_root
from earmark.book.segments import PackedFile, Record, StoredKeys, checked_bitmap, count_of, read_packed, read_segment
from earmark.cache import cache_folder, write_atomically
from earmark.engine.compaction import compacted
from earmark.engine.lazy import Contents, LazySegment, Resident
from earmark.engine.verify import check_answers
from earmark.engine.version import IndexedSegment, Version, no_slots
from earmark.errors import TableError, require
from earmark.flat import bits
from earmark.flat.arrays import I32, U64, frozen
from earmark.keys.schema import schema_of, schema_record
from earmark.locks import remade_lock
from earmark.segment.arrays import check_arrays
from earmark.segment.segment import DAMAGE, MAX_SEQUENCE, Segment, check_form, check_living

KEPT = 3
"""Versions that a process keeps open."""
REMOVED = "removed"
MOST_USES = 2**31 - 1
NO_LOCK = nullcontext()
_MOST_BOOKS, _MOST_MARKS = 1_000, 50_000
_ENTRY = ("file", "bytes", "checksum", "slots", "index")


# --- writing -------------------------------------------------------------------------------------------------


class Shelf:
    """Where segments and keys are stored already, in one book."""

    def __init__(self, book: str = "", keys: StoredKeys | None = None) -> None:
        self.book = book
        """The name that the book gave itself when it was made."""
        self.keys = keys or StoredKeys()
        self.change: int | None = None
        """The last change of the journal that the version has, where the book has a journal."""
        self._entries: WeakKeyDictionary[Segment, tuple[Any, dict[str, Any]]] = WeakKeyDictionary()

    def put(self, one: IndexedSegment, entry: Record) -> None:
        """Note the file of a segment and its index."""
        known = ref(one.index) if one.index is not None else None
        self._entries[one.segment] = known, {name: entry[name] for name in _ENTRY}

    def entry(self, one: IndexedSegment) -> dict[str, Any] | None:
        """What a record says of the file of a segment and its index, if there is one."""
        if isinstance(one, LazySegment):
            return {name: one.entry[name] for name in _ENTRY}
        index, entry = self._entries.get(one.segment, (None, None))
        return entry if (index() if index is not None else None) is one.index else None


def write_version(site: Building, version: Version, index: str, shelf: Shelf, writing: Any = NO_LOCK) -> dict[str, Any]:
    """Write the files of a version that are not in the book yet; returns what its record says.

    `writing` is the lock of those who may add constants meanwhile.
    """
    alike = all(one.generation == version.schema.generation for one in version.segments)
    require(alike, "the segments of a version are not in the keys of one schema")
    entries, shared = [], False
    for one in version.segments:
        entry = shelf.entry(one)
        if entry is not None and (site.root / SEGMENTS / entry["file"]).is_file():
            shared = True
        elif entry is None or not (site.folder / SEGMENTS / entry["file"]).is_file():
            forgotten = one.forgotten if one.index is not None else None
            entry = stored.write_segment(site.new_file(SEGMENTS), one.segment, one.index, forgotten)
            shelf.put(one, entry)
        entries.append({**entry, "live": one.live})
    router = None if version.router is None else stored.write_router(site.new_file(SEGMENTS), version.router)
    with writing:
        shelf.keys = shelf.keys.written(version.schema, lambda: site.new_file(KEYS))
    bitmaps = {f"{REMOVED}.{at}": one.removed for at, one in enumerate(version.segments) if one.live < len(one)}
    record = schema_record(version.schema)
    for number, attribute in enumerate(record["attributes"]):
        attribute["uses"] = int(version.uses[number])
    return {
        **record,
        "index": index,
        "subscriptions": version.live,
        "next_sequence": version.next_sequence,
        "integer_ids": version.id_type is int,
        "kind": DELTA if shared else FULL,
        "rejected": 0,
        "segments": entries,
        "keys": shelf.keys.entries,
        "router": router,
        "removed": stored.write_packed(site.folder / REMOVED, REMOVED, {}, bitmaps) if bitmaps else None,
    }


# --- opening -------------------------------------------------------------------------------------------------


def open_version(
    root: Path, record: Record, *, mmap: bool = True, for_search: bool = False
) -> tuple[Version, StoredKeys]:
    """Open a version of a book, whose segments open when they are first used; returns it and where its keys are stored.

    With `for_search`, which is for reading only, strings are looked up in the mapped files, segments leave memory when
    others need the room, and the garbage collector does not look at them.
    """
    resident = Resident() if for_search else None

    def contents(entry: Record) -> Contents:
        with guarded(root, record["version"]):
            segment, forgotten, index, mapped = read_segment(_file(root, entry), entry, schema, mmap=mmap)
        if for_search:
            gc.freeze()
        return segment, forgotten, guarded(root, record["version"])(index), mapped

    with guarded(root, record["version"]):
        files = _keys_files(root, record)
        schema = schema_of(record, stored.read_keys(files, for_search))
        removed = _removed(root, record)
        segments: list[IndexedSegment] = []
        for number, entry in enumerate(record["segments"]):
            slots, live = count_of(entry["slots"]), count_of(entry["live"])
            bitmap = checked_bitmap(removed.get(number, no_slots(slots)), slots)
            require(slots - bits.count(bitmap) == live, "the number of living subscriptions is not the record's")
            opener = partial(contents, entry)
            segments.append(LazySegment(entry, schema.generation, slots, bitmap, live, opener, resident))
        require(sum(one.live for one in segments) == record["subscriptions"], "the counts of subscriptions disagree")
        router = None
        if record["router"] is not None:
            router = stored.read_router(_file(root, record["router"]), record["router"])
            require(router.segments <= len(segments), "the router knows a segment that is not there")
        following = count_of(record["next_sequence"], MAX_SEQUENCE)
        made = Version(schema, tuple(segments), following, _uses(record), router, bool(record["integer_ids"]))
        return made, StoredKeys.of(record["keys"], files, schema)


def _file(root: Path, entry: Record, kind: str = SEGMENTS) -> Path:
    return root / kind / folders.file_name(entry["file"])


def _keys_files(root: Path, record: Record, verify: bool = False) -> list[PackedFile]:
    require(len(record["keys"]) <= 2, "it lists more than two files of keys")
    return [read_packed(_file(root, entry, KEYS), stored.KEYS, entry, verify=verify) for entry in record["keys"]]


def _removed(root: Path, record: Record, verify: bool = False) -> dict[int, U64]:
    """The bitmaps of removed slots, by the number of the segment."""
    entry = record["removed"]
    if entry is None:
        return {}
    require(entry["file"] == REMOVED, "its bitmaps are in another file")
    file = folders.version_folder(root, record["version"]) / REMOVED
    opened = read_packed(file, REMOVED, entry, mmap=False, verify=verify)
    return {int(name.split(".")[1]): opened.array(name, np.uint64) for name in opened.arrays}


def _uses(record: Record) -> I32:
    return frozen(np.array([count_of(entry["uses"], MOST_USES) for entry in record["attributes"]], np.int32))


# --- a matcher's ---------------------------------------------------------------------------------------------


def check(version: Version, shelf: Shelf, living: bool = True) -> None:
    """Raise AssertionError unless a version can be stored: what kernels rely on, ids, places in the order, uses.

    Segments that are on the shelf were checked before, and never change. O(size), at the speed of arrays and sets;
    without `living`, which leaves out what is not of one segment, O(new segments).
    """
    for one in version.segments:
        if shelf.entry(one) is None:
            check_arrays(one.segment.arrays, len(one.segment.schema))
    if living:
        version.check_living()


def save(
    path: Any, version: Version, index: str, shelf: Shelf, change: int | None = None, writing: Any = NO_LOCK
) -> Shelf:
    """Make this the newest version of the book under a path; returns where its segments are now.

    The version that was the newest stays, and so do pinned ones; older ones are removed. Savers take turns. With
    `change` it is a checkpoint of the book's journal, up to this change; `writing` is then the writers' lock.
    """
    try:
        root = folders.root_of(path).resolve()
        folders.refuse_foreign(root)
        made = not root.exists()
        try:
            prepare_root(root, folders.OF_VERSIONS if change is None else folders.OF_JOURNAL)
            with folders.alone_with(root):
                return _save(root, version, index, shelf, change, writing)
        finally:
            if made and not (root / folders.CURRENT).exists():
                shutil.rmtree(root, ignore_errors=True)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise TableError(f"the book cannot be saved to {str(path)!r}: {reason}") from None


def _save(root: Path, version: Version, index: str, shelf: Shelf, change: int | None, writing: Any) -> Shelf:
    book, parent = str(folders.read_manifest(root)["book"]), folders.newest_or_none(root)
    if shelf.book != book:
        shelf = Shelf(book)
    if not all((root / KEYS / entry["file"]).is_file() for entry in shelf.keys.entries):
        shelf.keys = StoredKeys()
    with building(root, parent) as site:
        record = write_version(site, version, index, shelf, writing)
        if record["kind"] == DELTA:
            record["base"] = folders.read_record(root, parent)["base"] if parent is not None else 1
        if change is not None:
            record["change"] = change
        made = site.commit(record, lock=False)
    shelf.change = change
    folders.remove_others(root, {made["version"], parent or 0})
    return shelf


def indexed(version: Version, index: str) -> Version:
    """The same subscriptions in one segment, with an index of this name."""
    return compacted(version, None if index == "scan" else indexes.builder(index, {}))


def load(
    path: Any, number: int | None, mmap: bool, index: str | None, *, checkpoint: bool = False
) -> tuple[Version, str, Shelf]:
    """A version of the book under a path, the newest unless given; the name of its index; where its segments are.

    The stored indexes are not opened where `index` names another. `checkpoint` says that the caller knows the journal.
    """
    root = folders.path_of(path)
    if not checkpoint and number is None and folders.has_journal(root):
        raise TableError(
            f"the truth of the book {str(root)!r} is its journal: open it with earmark.open(…, readonly=True), or name "
            "the version of a checkpoint"
        )
    return folders.newest(root, number, lambda one: guarded(root, one["version"])(_load)(root, one, mmap, index))


def _load(root: Path, record: Record, mmap: bool, index: str | None) -> tuple[Version, str, Shelf]:
    saved = record["index"]
    if index is None and saved not in indexes.names():
        raise TableError(
            f"{str(root)!r} was saved with the index {str(saved)[:50]!r}, which this earmark does not have; "
            f"load it with another: {', '.join(indexes.names())}"
        )
    other = index not in (None, saved)
    with verified(root, record, by_block=True, counts=not other) as new:
        version, keys = open_version(root, record, mmap=mmap)
        shelf = Shelf(str(folders.read_manifest(root)["book"]), keys)
        shelf.change = count_of(record["change"]) if "change" in record else None
        segments: list[IndexedSegment] = []
        for lazy in version.segments:
            assert isinstance(lazy, LazySegment)
            if lazy.live:
                segments.append(IndexedSegment.of(lazy.segment, None, lazy.removed) if other else lazy.opened())
                if not other:
                    shelf.put(segments[-1], lazy.entry)
        version = Version(version.schema, tuple(segments), version.next_sequence, version.uses)
        if new:
            version.check_living()
    return version.with_free_types(), str(saved), shelf


def verify_answers(version: Version, path: Any) -> None:
    """Raise unless the indexes of a book answer as its subscriptions say, whatever the checksums are."""
    try:
        for one in version.segments:
            check_answers(one)
    except DAMAGE as problem:
        raise TableError(f"the index of the book {str(path)!r} is damaged: {problem}") from None


# --- a worker's ----------------------------------------------------------------------------------------------

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
            with suppress(OSError, AttributeError):  # give back what opening took, where the C library can
                ctypes.CDLL(None).malloc_trim(0)
        _versions.move_to_end(key)
        return version


def open_for_search(root: Path, number: int, checksum: str | None = None) -> Version:
    """A version whose segments open when an event is sent there, verified unless this host has seen it."""
    record = folders.read_record(root, number)
    if checksum not in (None, record["checksum"]):
        raise TableError(
            f"version {number} of the book {str(root)!r} is another than was opened: the folder has been "
            "published again; open the book again"
        )
    verify(root, record)
    return open_version(root, record, for_search=True)[0]


# --- verifying -----------------------------------------------------------------------------------------------


class Marks:
    """Digests of what was verified of one book on this host.

    They are made of names, sizes, times and inodes, so a file that has changed since counts as new. Without a cache
    folder each process verifies for itself.
    """

    def __init__(self, root: Path, *, forgetful: bool = False) -> None:
        self._root = str(root.resolve())
        folder = None if forgetful else cache_folder("verified")
        self._file = None if folder is None else folder / stored.digest(self._root.encode())
        self._known: dict[str, None] = {}
        if self._file is not None:
            with suppress(OSError, ValueError):
                self._known = dict.fromkeys(map(str, json.loads(self._file.read_bytes())))

    def of(self, facts: Any, *files: Path) -> str:
        """The digest of some facts and of files as they are now, each looked at once."""
        seen = []
        for file in files:
            try:
                found = os.stat(file, follow_symlinks=False)
            except FileNotFoundError:
                raise stored.missing(file) from None
            if not stat.S_ISREG(found.st_mode):
                raise stored.missing(file)
            seen.append([str(file), found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino])
        return stored.digest(json.dumps([self._root, facts, seen]).encode())

    def __contains__(self, mark: str) -> bool:
        return mark in self._known

    def add(self, marks: Iterable[str]) -> None:
        """Tell the other processes of this host that these were verified."""
        known = {**self._known, **dict.fromkeys(marks)}
        if self._file is None or len(known) == len(self._known):
            return
        self._known = dict.fromkeys(list(known)[-_MOST_MARKS:])
        with suppress(OSError):
            write_atomically(self._file, json.dumps(list(self._known)).encode())
            books = list(self._file.parent.iterdir())
            if len(books) > 2 * _MOST_BOOKS:
                for one in sorted(books, key=lambda one: one.stat().st_mtime)[:-_MOST_BOOKS]:
                    one.unlink(missing_ok=True)


def verify(root: Path, record: Record, *, again: bool = False) -> None:
    """Checksums and invariants of a version, one segment after another, unless this host has seen it; or `again`."""
    if again:
        with guarded(root, record["version"]):
            _check(Marks(root, forgetful=True), root, record, by_block=False)
        return
    with verified(root, record):
        pass


@contextmanager
def verified(root: Path, record: Record, *, by_block: bool = False, counts: bool = True) -> Iterator[bool]:
    """Verify a version, unless this host has seen it; whether it was new. It counts as seen once the block is done.

    With `by_block` the block itself opens the indexes and looks at the ids, if the version is new. Without `counts`
    nothing counts as seen: the block does less.
    """
    marks = Marks(root)
    with guarded(root, record["version"]):
        files = [root / file for file in sorted(folders.files_of(record))]
        if record["removed"] is not None:
            files.append(folders.version_folder(root, record["version"]) / REMOVED)
        mark = marks.of([record["checksum"], by_block], *files)
        seen = None if mark in marks else _check(marks, root, record, by_block)
    yield seen is not None
    if counts and seen is not None:
        marks.add([mark, *seen])


def _check(marks: Marks, root: Path, record: Record, by_block: bool) -> list[str]:
    """Verify what was not seen yet; returns the marks of segments that stay right whatever is removed later."""
    schema = schema_of(record, stored.read_keys(_keys_files(root, record, verify=True), in_place=False))
    removed = _removed(root, record, verify=True)
    _uses(record)
    for kind in (SEGMENTS, KEYS):
        require(not (root / kind).is_symlink(), "its files are elsewhere")
    if record["router"] is not None:
        router = stored.read_router(_file(root, record["router"]), record["router"], verify=True)
        check_arrays(router.covers, len(schema))
        router.check()
    verify_payload(root, record)
    # a segment's bounds depend on names and types of attributes, and on the first file of keys
    types = [[entry["name"], entry["type"], entry["keyed"]] for entry in record["attributes"]]
    facts = [[types, [entry["file"] for entry in record["keys"][:1]]], by_block]
    seen = []
    for number, entry in enumerate(record["segments"]):
        file = _file(root, entry)
        mark = marks.of(facts, file)
        if mark in marks:
            continue
        segment, _, index, _ = read_segment(file, entry, schema, verify=True)
        check_form(segment)
        ordered = bool((segment.arrays.sequence[:-1] < segment.arrays.sequence[1:]).all())
        require(ordered == segment.is_ordered, "the subscriptions are in another order than was recorded")
        if not by_block:
            index()
        try:
            check_living(segment, not by_block)
            seen.append(mark)
        except DAMAGE:
            if number not in removed:
                raise
            alive = bits.all_set(len(segment)) & ~checked_bitmap(removed[number], len(segment))
            check_living(segment.pick(bits.to_slots(alive).astype(np.int64)), not by_block)
    return seen
