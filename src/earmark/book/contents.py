"""What is inside a version, and is it right?

A version's record lists files of segments, each with how many slots it has and how many of them live, and files of
keys. All segments of a version are in the keys of one schema, so an event is encoded once.

    segments    3f08…  slots 0 1 2 3 4 5     removed  . x . . x .      shared with the parent
                77aa…  slots 0 1                                       the new form of slot 1; and an added one

`open_version` gives a version whose segments are opened when they are first searched. `verify` reads all of it, unless
this host has seen it (marks.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from earmark.book.files import count_of, guarded
from earmark.book.folder import KEYS, SEGMENTS, file_name, files_of, version_folder
from earmark.book.keys import KIND as KEYS_KIND
from earmark.book.keys import StoredKeys, read_keys
from earmark.book.marks import Marks
from earmark.book.packed_file import PackedFile, missing, read_packed, write_packed
from earmark.book.segments import checked_bitmap, entry_of, read_router, read_segment
from earmark.engine.lazy import Contents, LazySegment, Resident
from earmark.engine.version import IndexedSegment, Version, no_slots
from earmark.errors import require
from earmark.flat import bits
from earmark.flat.arrays import I32, U64, frozen
from earmark.keys.records import schema_of, schema_record
from earmark.keys.schema import Schema
from earmark.segment.arrays import check_arrays
from earmark.segment.segment import DAMAGE, MAX_SEQUENCE, check_form, check_living

REMOVED = "removed"
MOST_USES = 2**31 - 1


# --- records -------------------------------------------------------------------------------------------------


def version_record(version: Version, index: str) -> dict[str, Any]:
    """What a record says of a version, beside its files."""
    record = schema_record(version.schema)
    for number, entry in enumerate(record["attributes"]):
        entry["uses"] = int(version.uses[number])
    return {
        "index": index,
        "subscriptions": version.live,
        "next_sequence": version.next_sequence,
        "integer_ids": version.id_type is int,
        **record,
    }


def write_removed(folder: Path, segments: Iterable[IndexedSegment]) -> dict[str, Any] | None:
    """Write the bitmaps of removed slots of a version; what its record says of the file, None where there is none."""
    bitmaps = {f"{REMOVED}.{number}": one.removed for number, one in enumerate(segments) if one.live < len(one)}
    return write_packed(folder / REMOVED, REMOVED, {}, bitmaps)._asdict() if bitmaps else None


# --- opening -------------------------------------------------------------------------------------------------


def open_version(
    root: Path,
    record: Mapping[str, Any],
    *,
    in_place: bool = False,
    mmap: bool = True,
    resident: Resident | None = None,
    on_open: Callable[[], Any] | None = None,
) -> tuple[Version, StoredKeys]:
    """A version of a book, whose segments open when they are first asked for; and where its keys are stored.

    With `in_place` strings are looked up in the mapped files, which is for reading only. `on_open` is called after a
    segment was opened.
    """
    made: tuple[Version, StoredKeys] = said(
        root, record, lambda: _open(root, record, in_place, mmap, resident, on_open)
    )
    return made


def said(root: Path, record: Mapping[str, Any], read: Callable[[], Any]) -> Any:
    """Run a reader of a version; what is wrong with its files is one sentence."""
    return guarded(root, f"version {record['version']}", read)


def _open(
    root: Path,
    record: Mapping[str, Any],
    in_place: bool,
    mmap: bool,
    resident: Resident | None,
    on_open: Callable[[], Any] | None,
) -> tuple[Version, StoredKeys]:
    files = _keys_files(root, record)
    schema = schema_of(record, read_keys(files, in_place))
    removed = _removed(root, record)
    segments: list[IndexedSegment] = []
    for number, entry in enumerate(record["segments"]):
        slots, live = count_of(entry["slots"]), count_of(entry["live"])
        bitmap = checked_bitmap(removed.get(number, no_slots(slots)), slots)
        require(slots - bits.count(bitmap) == live, "the number of living subscriptions is not the record's")
        opener = partial(_contents, root, record, entry, schema, mmap, on_open)
        segments.append(LazySegment(entry, schema.generation, slots, bitmap, live, opener, resident))
    require(sum(one.live for one in segments) == record["subscriptions"], "the counts of subscriptions disagree")
    router = None
    if record["router"] is not None:
        router = read_router(_segment_file(root, record["router"]), record["router"])
        require(router.segments <= len(segments), "the router knows a segment that is not there")
    following = count_of(record["next_sequence"], MAX_SEQUENCE)
    made = Version(schema, tuple(segments), following, _uses(record), router, bool(record["integer_ids"]))
    return made, StoredKeys.of(record["keys"], files, schema)


def _contents(
    root: Path,
    record: Mapping[str, Any],
    entry: Mapping[str, Any],
    schema: Schema,
    mmap: bool,
    on_open: Callable[[], Any] | None,
) -> Contents:
    contents: Contents = said(root, record, lambda: read_segment(_segment_file(root, entry), entry, schema, mmap=mmap))
    if on_open is not None:
        on_open()
    segment, forgotten, index, mapped = contents
    return segment, forgotten, lambda: said(root, record, index), mapped


def _segment_file(root: Path, entry: Mapping[str, Any]) -> Path:
    return root / SEGMENTS / file_name(entry["file"])


def _keys_files(root: Path, record: Mapping[str, Any], verify: bool = False) -> list[PackedFile]:
    require(len(record["keys"]) <= 2, "it lists more than two files of keys")
    entries = [(root / KEYS / file_name(entry["file"]), entry) for entry in record["keys"]]
    return [read_packed(file, KEYS_KIND, entry_of(entry), verify=verify) for file, entry in entries]


def _removed(root: Path, record: Mapping[str, Any], verify: bool = False) -> dict[int, U64]:
    """The bitmaps of removed slots, by the number of the segment."""
    entry = record["removed"]
    if entry is None:
        return {}
    require(entry["file"] == REMOVED, "its bitmaps are in another file")
    file = version_folder(root, record["version"]) / REMOVED
    opened = read_packed(file, REMOVED, entry_of(entry), mmap=False, verify=verify)
    return {int(name.split(".")[1]): opened.array(name, np.uint64) for name in opened.arrays}


def _uses(record: Mapping[str, Any]) -> I32:
    counts = [count_of(entry["uses"], MOST_USES) for entry in record["attributes"]]
    return frozen(np.array(counts, np.int32))


# --- verifying -----------------------------------------------------------------------------------------------


def verify(root: Path, record: Mapping[str, Any]) -> None:
    """Checksums and invariants of a version, one segment after another, unless this host has seen it."""
    with verified(root, record):
        pass


@contextmanager
def verified(root: Path, record: Mapping[str, Any], *, by_block: bool = False, counts: bool = True) -> Iterator[bool]:
    """Verify a version, unless this host has seen it; whether it was new. It counts as seen once the block is done.

    With `by_block` the block itself opens the indexes and looks at the ids, if the version is new. Without `counts`
    nothing counts as seen: the block does less.
    """
    marks = Marks(root)
    mark = said(root, record, lambda: _mark(marks, root, record, by_block))
    if mark in marks:
        yield False
        return
    seen = said(root, record, lambda: _check(marks, root, record, by_block))
    yield True
    if counts:
        marks.add([mark, *seen])


def _mark(marks: Marks, root: Path, record: Mapping[str, Any], by_block: bool) -> str:
    files = [root / file for file in sorted(files_of(record))]
    if record["removed"] is not None:
        files.append(version_folder(root, record["version"]) / REMOVED)
    for file in files:
        if file.is_symlink() or not file.is_file():
            raise missing(file)
    return marks.of([record["checksum"], by_block], *files)


def _check(marks: Marks, root: Path, record: Mapping[str, Any], by_block: bool) -> list[str]:
    """Verify what was not seen yet; returns the marks of segments that stay right whatever is removed later."""
    schema = schema_of(record, read_keys(_keys_files(root, record, verify=True), in_place=False))
    removed = _removed(root, record, verify=True)
    _uses(record)
    for folder in (root / SEGMENTS, root / KEYS):
        require(not folder.is_symlink(), "its files are elsewhere")
    if record["router"] is not None:
        router = read_router(_segment_file(root, record["router"]), record["router"], verify=True)
        check_arrays(router.covers, len(schema))
        router.check()
    seen = []
    for number, entry in enumerate(record["segments"]):
        file = _segment_file(root, entry)
        mark = marks.of([_fingerprint(record), by_block], file)
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


def _fingerprint(record: Mapping[str, Any]) -> Any:
    """What a segment's bounds depend on: names and types of attributes, and the first file of keys."""
    types = [[entry["name"], entry["type"], entry["keyed"]] for entry in record["attributes"]]
    return [types, [entry["file"] for entry in record["keys"][:1]]]
