"""How are a segment, its keys and its index stored: many arrays in one packed file, which opens by one mapping.

    at 0      magic "earmark" and a zero byte
       8      layout, number of bytes of the directory (both 32 bits, little-endian)
      16      checksum of the directory, 16 bytes; zeros up to 64
      64      directory: JSON with the kind of file, facts about it, and for each array its name, type, shape,
              place, number of bytes and checksum
              the arrays, each from the next multiple of 64 on, zeros between them; nothing behind the last

The checksum of the directory, which holds those of the arrays, is the *identity* of the file.

Whatever is read is treated as hostile: types from a fixed list, no pickles, no links, and every array is where the
ones before it end, so that none overlaps another or reaches beyond the file. That costs O(arrays), and reads none of
them; `verify` reads everything.

A segment:

    clause_start … sequence         the arrays of segment/arrays.py
    ids, or ids_start ids_bytes     integers, or strings
    asked_start asked_bytes         the text of conditions
    tagset, tagsets                 where there are tags: the number of each slot's set, and the sets as JSON
    index.*                         the arrays of the index; index_forgotten: the bitmap of slots that it does not know

Bounds are keys of the schema of the versions that list the file. A *whole* file has its schema with it: the attributes
as a fact, and the keys. It is what workers hand each other while a book is being made.

The string constants of a schema, and their keys:

    keys.4.start keys.4.bytes       the constants of attribute 4, in order, as one run of bytes
    keys.4.keys                     the key of each

A version lists one file of keys, or two: the constants of an older version, and those that came since ('' is in both).
Keys never change within a generation, so what an older file says stays right; where they do change all are written
again.
"""

from __future__ import annotations

import hashlib
import json
import mmap as mapping
import os
import re
import stat
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark import index as indexes
from earmark.engine.lazy import Contents
from earmark.engine.router import Router
from earmark.engine.version import no_slots
from earmark.errors import EarmarkError, TableError, require
from earmark.flat import bits
from earmark.flat.arrays import U64, Listed, PackedStrings, frozen, packed, unpacked
from earmark.index.auto.plan import Plan
from earmark.index.driver import ArrayIndex
from earmark.keys.schema import Schema, schema_of, schema_record
from earmark.keys.strings import MappedStrings, StringKeys
from earmark.segment.arrays import SegmentArrays
from earmark.segment.builder import checked_tags
from earmark.segment.ids import Ids
from earmark.segment.segment import DAMAGE, NO_TAGS, Segment

Record = Mapping[str, Any]
MAGIC, LAYOUT = b"earmark\0", 1
ALIGNED = 64
MAX_DIRECTORY = 64 << 20
MOST_DIMENSIONS = 4
MOST_OPEN_FILES = 1 << 20
SEGMENT, WHOLE, ROUTER, KEYS = "segment", "whole segment", "router", "keys"
_HEADER = struct.Struct("<8sII16s")
_NAME = re.compile(r"[a-z0-9_.]{1,80}\Z")
_TYPES = {np.dtype(name).str: np.dtype(name) for name in "i1 u1 b1 <i2 <u2 <i4 <u4 <i8 <u8 <f4 <f8".split()}
_INDEX, _EXTRA, _FORGOTTEN = "index.", "extra.", "index_forgotten"
_DTYPES: dict[str, Any] = {
    **dict.fromkeys(("clause_start", "constraint_start", "attr", "interval_start"), np.int32),
    **dict.fromkeys(("lo", "hi", "sequence", "first_moment", "last_moment"), np.int64),
    **dict.fromkeys(("weight", "score"), np.float64),
    "accepts_null": np.uint8,
}
_MOST_SINCE = 1 / 2
"""When so large a share of the constants came since the first file, all are written again."""


# --- packed files --------------------------------------------------------------------------------------------


class PackedFile(NamedTuple):
    """A packed file, open."""

    about: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    entry: dict[str, Any]
    """What a record says of it: `file`, `bytes`, and its identity as `checksum`."""
    mapped: mapping.mmap | None
    """None where the file was read instead."""

    def array(self, name: str, dtype: Any) -> NDArray[Any]:
        """An array that must be there, of one dimension and of this type."""
        require(name in self.arrays, f"it has no array {name!r}")
        found = self.arrays[name]
        require(found.dtype == np.dtype(dtype) and found.ndim == 1, f"{name} has the wrong type or shape")
        return found

    def under(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The arrays whose names begin so, by the rest of their names."""
        return {name[len(prefix) :]: array for name, array in self.arrays.items() if name.startswith(prefix)}

    def strings(self, name: str) -> PackedStrings:
        """Strings, stored as where each begins and as one run of bytes."""
        return PackedStrings(self.array(f"{name}_start", np.int64), self.array(f"{name}_bytes", np.uint8))

    def table(self) -> SegmentArrays:
        """The arrays of subscriptions."""
        return SegmentArrays(**{name: self.array(name, _DTYPES[name]) for name in SegmentArrays._fields})


def digest(content: bytes | memoryview) -> str:
    """The checksum of some bytes."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def count_of(value: Any, most: int = 2**62) -> int:
    """A whole number from a record."""
    require(type(value) is int and 0 <= value <= most, f"a count is {str(value)[:50]}")
    return int(value)


@cache
def allow_open_files() -> None:
    """Let this process open as many files as it may: each mapped segment holds one, and the usual limit is 1,024."""
    with suppress(ImportError, ValueError, OSError):  # as many as before, then; on Windows there is no such limit
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MOST_OPEN_FILES if hard == resource.RLIM_INFINITY else hard
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def write_packed(file: Path, kind: str, about: Record, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Write arrays to a new file, flushed to disk; returns what a record says of it."""
    columns = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    listed, end = [], 0
    for name, array in columns.items():
        require(_NAME.match(name), f"an array cannot be called {name!r}")
        require(array.dtype.str in _TYPES and 1 <= array.ndim <= MOST_DIMENSIONS, f"{name} cannot be stored")
        end = _aligned(end)
        listed.append([name, array.dtype.str, list(array.shape), end, array.nbytes, digest(_bytes_of(array))])
        end += array.nbytes
    directory = json.dumps({"kind": kind, "about": dict(about), "arrays": listed}, ensure_ascii=True).encode()
    require(len(directory) <= MAX_DIRECTORY, "the directory of a packed file is too large")
    checksum = digest(directory)
    with file.open("xb") as opened:
        opened.write(_HEADER.pack(MAGIC, LAYOUT, len(directory), bytes.fromhex(checksum)).ljust(ALIGNED, b"\0"))
        opened.write(directory)
        for array in columns.values():
            opened.write(bytes(-opened.tell() % ALIGNED))
            opened.write(_bytes_of(array))
        opened.flush()
        os.fsync(opened.fileno())
        return {"file": file.name, "bytes": opened.tell(), "checksum": checksum}


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return memoryview(array.reshape(-1).view(np.uint8).data) if array.size else memoryview(b"")


def _aligned(at: int) -> int:
    return -(-at // ALIGNED) * ALIGNED


def read_packed(
    file: Path, kind: str, entry: Record | None = None, *, mmap: bool = True, verify: bool = False
) -> PackedFile:
    """Open a packed file of this kind: that of the entry, if one is given.

    AssertionError or ValueError where it is damaged, TableError where it is missing or of another layout.
    """
    allow_open_files()
    with os.fdopen(_opened(file), "rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        recorded = size if entry is None else count_of(entry["bytes"])
        require(size == recorded, f"{file.name} has {size:,} bytes instead of the recorded ones")
        require(size >= ALIGNED, f"{file.name} is shorter than its header")
        mapped = mapping.mmap(opened.fileno(), size, access=mapping.ACCESS_READ) if mmap else None
        content = np.frombuffer(mapped, np.uint8) if mapped is not None else np.fromfile(opened, np.uint8, size)
        require(len(content) == size, f"{file.name} became shorter")
    listed, body, checksum = _directory(file.name, kind, content, entry)
    arrays = dict(_arrays(file.name, listed["arrays"], content, body))
    if verify:
        _verify(file.name, listed["arrays"], content, body, arrays)
    return PackedFile(listed["about"], arrays, {"file": file.name, "bytes": size, "checksum": checksum}, mapped)


def _opened(file: Path) -> int:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as problem:
        if file.is_symlink() or not file.exists():
            raise missing(file) from None
        raise problem
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise missing(file)
    return descriptor


def damage(text: str) -> TableError:
    """The error that something of a book is missing, or is not what was written."""
    error = TableError(text)
    error.is_damage = True
    return error


def missing(file: Path) -> TableError:
    """What to say of a file that is not there, or is a link or a folder."""
    return damage(f"{str(file.parent)!r} lacks its file {file.name}")


def _directory(name: str, kind: str, content: Any, entry: Record | None) -> tuple[dict[str, Any], int, str]:
    """The directory, where the arrays begin, and the identity of the file."""
    magic, layout, length, checksum = _HEADER.unpack(content[: _HEADER.size].tobytes())
    require(magic == MAGIC, f"{name} is not a packed file of earmark")
    if layout != LAYOUT:
        raise TableError(f"{name} has layout {layout}; this earmark reads layout {LAYOUT}")
    require(not content[_HEADER.size : ALIGNED].any(), f"{name} has a header that is not right")
    require(length <= min(len(content) - ALIGNED, MAX_DIRECTORY), f"{name} is shorter than its directory")
    text = content[ALIGNED : ALIGNED + length].tobytes()
    require(digest(text) == checksum.hex(), f"the checksum of the directory of {name} is wrong")
    require(entry is None or entry["checksum"] == checksum.hex(), f"{name} is another file than was recorded")
    listed = json.loads(text)
    require(listed["kind"] == kind, f"{name} holds {str(listed['kind'])[:50]!r} instead of {kind!r}")
    require(isinstance(listed["about"], dict) and isinstance(listed["arrays"], list), f"{name} has no directory")
    return listed, _aligned(ALIGNED + length) if listed["arrays"] else ALIGNED + length, checksum.hex()


def _arrays(file: str, listed: list[Any], content: Any, body: int) -> Iterator[tuple[str, NDArray[Any]]]:
    end, known = 0, set()
    for name, type_, shape, offset, size, _ in listed:
        require(isinstance(name, str) and _NAME.match(name) and name not in known, f"{file} lists {str(name)[:90]!r}")
        known.add(name)
        require(isinstance(type_, str) and type_ in _TYPES, f"{name} of {file} has the type {str(type_)[:50]!r}")
        right = isinstance(shape, list) and 1 <= len(shape) <= MOST_DIMENSIONS
        require(right and all(type(n) is int and n >= 0 for n in shape), f"{name} of {file} has an impossible shape")
        dtype = _TYPES[type_]
        require(size == prod(shape) * dtype.itemsize, f"{name} of {file} has the wrong size")
        require(offset == _aligned(end), f"{name} of {file} is not where the array before it ends")
        end = offset + size
        require(body + end <= len(content), f"{name} of {file} reaches beyond the file")
        yield name, frozen(content[body + offset : body + end].view(dtype).reshape(shape))
    require(body + end == len(content), f"{file} is longer than its arrays")


def _verify(file: str, listed: list[Any], content: Any, body: int, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Checksums of all arrays; zeros between them."""
    length = _HEADER.unpack(content[: _HEADER.size].tobytes())[2]
    between = ALIGNED + length
    for name, _, _, offset, size, checksum in listed:
        require(not content[between : body + offset].any(), f"{file} has bytes between its arrays")
        between = body + offset + size
        array = arrays[name]
        require(digest(_bytes_of(array)) == checksum, f"the checksum of {name} of {file} is wrong")
        if array.dtype == np.bool_ and array.size:
            require(array.view(np.uint8).max() <= 1, f"{name} of {file} has truths that are neither 0 nor 1")


# --- keys ----------------------------------------------------------------------------------------------------


def keys_arrays(strings: Mapping[int, Any], since: Mapping[int, int] | None = None) -> dict[str, NDArray[Any]]:
    """The constants of attributes, by number, and their keys; with `since`, only those after this many of each."""
    arrays: dict[str, NDArray[Any]] = {}
    for number, own in strings.items():
        constants, keys = own.items() if since is None else own.since(since[number])
        found = packed(constants)
        for part, array in (("start", found.start), ("bytes", found.joined), ("keys", keys)):
            arrays[f"{KEYS}.{number}.{part}"] = array
    return arrays


def read_keys(files: Sequence[PackedFile], in_place: bool) -> Callable[[int], Any]:
    """What gives the keys of an attribute: `StringKeys`, checked, or `MappedStrings` over the files."""

    def strings(number: int) -> Any:
        types = {"start": np.int64, "bytes": np.uint8, "keys": np.int64}
        having = [file for file in files if f"{KEYS}.{number}.keys" in file.arrays]
        require(having, f"the keys of attribute {number} are not there")
        parts: list[Any] = [
            [file.array(f"{KEYS}.{number}.{name}", type_) for name, type_ in types.items()] for file in having
        ]
        if in_place:
            mapped = [MappedStrings(*part) for part in parts]
            return mapped[0] if len(mapped) == 1 else mapped[0].with_more(mapped[1])
        items = [(unpacked(start, joined), keys.tolist()) for start, joined, keys in parts]
        made = StringKeys.from_items(*items[0])
        for item in items[1:]:
            made.take(*item)
        made.check()
        return made

    return strings


@dataclass
class StoredKeys:
    """The files in which the keys of a schema are stored, so that a later version lists them again."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    first: dict[int, tuple[StringKeys | None, int]] = field(default_factory=dict)
    """Of the first file, by attribute: the keys, and how many constants of them it has; None for keys not in use."""
    sizes: dict[int, int] = field(default_factory=dict)
    """By attribute: how many constants all files have."""

    @classmethod
    def of(cls, entries: Sequence[Record], files: Sequence[PackedFile], schema: Schema) -> StoredKeys:
        """What was read from these files."""
        made = cls([dict(entry) for entry in entries], sizes={n: len(own) for n, own in schema.strings.items()})
        for file in files:
            for name in [name for name in file.arrays if name.endswith(".keys")]:
                number = int(name.split(".")[1])
                stored = len(file.arrays[name]) if file is files[0] else 0
                made.first.setdefault(number, (schema.strings.get(number), stored))
        return made

    def written(self, schema: Schema, new_file: Callable[[], Path]) -> StoredKeys:
        """The same after the keys of a schema were stored: in these files, in one more, or in a new one alone."""
        strings = schema.strings
        if not strings:
            return StoredKeys()
        sizes = {number: len(own) for number, own in strings.items()}
        # whether the files have nothing of these attributes but keys of these
        follows = bool(self.entries) and all(self.first.get(n, (own, 0))[0] is own for n, own in strings.items())
        if follows and all(self.sizes.get(number) == size for number, size in sizes.items()):
            return self
        before = {number: self.first.get(number, (None, 0))[1] for number in strings}
        total = sum(sizes.values())
        if not follows or total - sum(before.values()) > _MOST_SINCE * total:
            entry = write_packed(new_file(), KEYS, {}, keys_arrays(strings))
            return StoredKeys([entry], {n: (own, len(own)) for n, own in strings.items()}, sizes)
        grown = {number: own for number, own in strings.items() if sizes[number] > before[number]}
        entry = write_packed(new_file(), KEYS, {}, keys_arrays(grown, before))
        first = {**{n: (own, 0) for n, own in strings.items()}, **self.first}
        return StoredKeys([self.entries[0], entry], first, sizes)


# --- segments ------------------------------------------------------------------------------------------------


def write_segment(
    file: Path, segment: Segment, index: ArrayIndex[Any] | None = None, forgotten: U64 | None = None
) -> dict[str, Any]:
    """Write a segment with its index and plan; returns what a version's record says of it.

    `forgotten` are the slots that the index does not know.
    """
    arrays = _arrays_of(segment)
    if index is not None:
        arrays |= {_INDEX + own: array for own, array in indexes.stored(index).items()}
        if forgotten is not None and forgotten.any():
            arrays[_FORGOTTEN] = forgotten
    kind = indexes.name_of(index) if index is not None else None
    plan = index.plan.record() if index is not None and index.plan is not None else None
    entry = write_packed(file, SEGMENT, {**_about(segment), "index": kind, "plan": plan}, arrays)
    return {**entry, "slots": len(segment), "index": kind}


def write_whole(file: Path, segment: Segment, facts: Record | None = None, extras: Record | None = None) -> None:
    """Write a segment with its schema, some facts (JSON) and some more arrays."""
    about = {**_about(segment), "schema": schema_record(segment.schema), "facts": dict(facts or {})}
    more = {_EXTRA + name: array for name, array in (extras or {}).items()}
    write_packed(file, WHOLE, about, {**_arrays_of(segment), **keys_arrays(segment.schema.strings), **more})


def _about(segment: Segment) -> dict[str, Any]:
    facts = {"slots": len(segment), "ordered": segment.is_ordered, "attributes": len(segment.schema)}
    return {**facts, "integer_ids": not isinstance(segment.ids.column, PackedStrings)}


def _arrays_of(segment: Segment) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = dict(segment.arrays._asdict())
    ids = segment.ids.column
    if isinstance(ids, PackedStrings):
        arrays["ids_start"], arrays["ids_bytes"] = ids.start, ids.joined
    else:
        arrays["ids"] = ids
    arrays["asked_start"], arrays["asked_bytes"] = segment.asked.start, segment.asked.joined
    if len(segment.tagset):
        arrays["tagset"] = segment.tagset
        sets = segment.tagsets.items[: segment.tagsets.size]
        arrays["tagsets"] = np.frombuffer(json.dumps(sets).encode(), np.uint8)
    return arrays


def read_segment(file: Path, entry: Record, schema: Schema, *, mmap: bool = True, verify: bool = False) -> Contents:
    """The segment of an entry of a record, under a schema; its index is opened when it is asked for."""
    opened = read_packed(file, SEGMENT, entry, mmap=mmap, verify=verify)
    require(opened.about["index"] == entry["index"], f"{file.name} has another index than was recorded")
    segment = _segment_of(opened, schema)
    require(len(segment) == entry["slots"], f"{file.name} has not as many slots as were recorded")
    forgotten = no_slots(len(segment))
    if _FORGOTTEN in opened.arrays:
        forgotten = checked_bitmap(opened.array(_FORGOTTEN, np.uint64), len(segment))
    about = opened.about
    index = partial(restored, about["index"], segment.arrays, opened.under(_INDEX), about.get("plan"))
    return segment, forgotten, index, opened.mapped


def restored(
    name: str | None, arrays: SegmentArrays, stored: Mapping[str, NDArray[Any]], plan: Record | None = None
) -> Any:
    """An index from its stored arrays, with its plan; None without a name; TableError where it cannot be."""
    if name is None:
        return None
    if name not in indexes.names():
        raise TableError(
            f"the index {str(name)[:50]!r} is not one that this earmark has; there are {', '.join(indexes.names())}"
        )
    try:
        index = indexes.restore(name, arrays, stored)
        index.plan = Plan.of(plan) if plan is not None else None
        return index
    except (EarmarkError, *DAMAGE) as problem:
        raise damage(f"the index {name!r} is damaged: {str(problem) or type(problem).__name__}") from None


def read_whole(file: Path, *, in_place: bool = False) -> tuple[Segment, dict[str, Any], dict[str, NDArray[Any]]]:
    """A segment with its schema, facts and more arrays; `in_place` leaves strings where they are mapped."""
    opened = read_packed(file, WHOLE)
    keys = read_keys([opened], in_place)
    segment = _segment_of(opened, schema_of(opened.about["schema"], keys))
    return segment, opened.about["facts"], opened.under(_EXTRA)


def _segment_of(opened: PackedFile, schema: Schema) -> Segment:
    about = opened.about
    slots = count_of(about["slots"])
    require(count_of(about["attributes"]) <= len(schema), "a segment has attributes that its version does not have")
    ids: Any = opened.array("ids", np.int64) if about["integer_ids"] else opened.strings("ids")
    tagset, tagsets = frozen(np.empty(0, np.int32)), [NO_TAGS]
    if "tagset" in opened.arrays:
        sets = json.loads(opened.array("tagsets", np.uint8).tobytes())
        tagset, tagsets = opened.array("tagset", np.int32), [checked_tags(dict(tags)) for tags in sets]
        require(tagsets and tagsets[0] == NO_TAGS, "the first set of tags is not the empty one")
    asked, ordered = opened.strings("asked"), bool(about["ordered"])
    segment = Segment(schema, opened.table(), Ids.of(ids), asked, tagset, Listed(tagsets), known_order=ordered)
    require(len(segment) == slots == len(segment.ids), "ids and slots disagree")
    require(len(segment.asked) == slots, "conditions and slots disagree")
    require(len(tagset) in (0, slots), "tags and slots disagree")
    return segment


def checked_bitmap(bitmap: U64, slots: int) -> U64:
    """A bitmap over this many slots from a file, or AssertionError."""
    require(len(bitmap) == bits.words_for(slots), "a bitmap of slots has the wrong size")
    beyond = slots % bits.WORD and len(bitmap) and int(bitmap[-1]) >> (slots % bits.WORD)
    require(not beyond, "a bitmap has slots that are not there")
    return bitmap


# --- routers -------------------------------------------------------------------------------------------------


def write_router(file: Path, router: Router) -> dict[str, Any]:
    """Write a router; returns what a version's record says of it."""
    arrays = {**router.covers._asdict(), "segment_of": router.segment_of}
    arrays |= {_INDEX + own: array for own, array in indexes.stored(router.index).items()}
    entry = write_packed(file, ROUTER, {"index": router.name, "segments": router.segments}, arrays)
    return {**entry, "segments": router.segments}


def read_router(file: Path, entry: Record, *, verify: bool = False) -> Router:
    """The router of an entry of a record."""
    opened = read_packed(file, ROUTER, entry, verify=verify)
    covers = opened.table()
    segments = count_of(opened.about["segments"])
    require(segments == entry["segments"], "the router is for another number of segments")
    name, of = opened.about["index"], opened.array("segment_of", np.int32)
    require(name is not None, "the router has no index")
    return Router(segments, covers, of, name, restored(name, covers, opened.under(_INDEX)))
