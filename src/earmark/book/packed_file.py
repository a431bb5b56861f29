"""Many arrays in one file, which opens by one mapping.

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
"""

from __future__ import annotations

import json
import mmap as mapping
import os
import re
import stat
import struct
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.book.files import allow_open_files, digest
from earmark.errors import TableError, require
from earmark.flat.arrays import frozen

MAGIC, LAYOUT = b"earmark\0", 1
ALIGNED = 64
MAX_DIRECTORY = 64 << 20
MOST_DIMENSIONS = 4
_HEADER = struct.Struct("<8sII16s")
_NAME = re.compile(r"[a-z0-9_.]{1,80}\Z")
_TYPES = {np.dtype(name).str: np.dtype(name) for name in "i1 u1 b1 <i2 <u2 <i4 <u4 <i8 <u8 <f4 <f8".split()}


class Entry(NamedTuple):
    """What a record says of a packed file: enough to tell it from any other."""

    file: str
    bytes: int
    checksum: str
    """Of its directory: the identity of the file."""


class PackedFile(NamedTuple):
    """A packed file, open."""

    about: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    entry: Entry
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


# --- writing -------------------------------------------------------------------------------------------------


def write_packed(file: Path, kind: str, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Entry:
    """Write arrays to a new file, flushed to disk."""
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
    header = _HEADER.pack(MAGIC, LAYOUT, len(directory), bytes.fromhex(checksum)).ljust(ALIGNED, b"\0")
    with file.open("xb") as opened:
        opened.write(header)
        opened.write(directory)
        for array in columns.values():
            opened.write(bytes(-opened.tell() % ALIGNED))
            opened.write(_bytes_of(array))
        opened.flush()
        os.fsync(opened.fileno())
        return Entry(file.name, opened.tell(), checksum)


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return memoryview(array.reshape(-1).view(np.uint8).data) if array.size else memoryview(b"")


def _aligned(at: int) -> int:
    return -(-at // ALIGNED) * ALIGNED


# --- reading -------------------------------------------------------------------------------------------------


def read_packed(
    file: Path, kind: str, entry: Entry | None = None, *, mmap: bool = True, verify: bool = False
) -> PackedFile:
    """Open a packed file of this kind: that of the entry, if one is given.

    AssertionError or ValueError where it is damaged, TableError where it is missing or of another layout.
    """
    allow_open_files()
    descriptor = _opened(file)
    try:
        size = os.fstat(descriptor).st_size
        require(entry is None or size == entry.bytes, f"{file.name} has {size:,} bytes instead of the recorded ones")
        require(size >= ALIGNED, f"{file.name} is shorter than its header")
        if mmap:
            mapped = mapping.mmap(descriptor, size, access=mapping.ACCESS_READ)
            content = np.frombuffer(mapped, np.uint8)
        else:
            with os.fdopen(os.dup(descriptor), "rb") as opened:
                mapped, content = None, np.fromfile(opened, np.uint8, size)
            require(len(content) == size, f"{file.name} became shorter")
    finally:
        os.close(descriptor)
    listed, body, checksum = _directory(file.name, kind, content, entry)
    arrays = dict(_arrays(file.name, listed["arrays"], content, body))
    if verify:
        _verify(file.name, listed["arrays"], content, body, arrays)
    return PackedFile(listed["about"], arrays, Entry(file.name, size, checksum), mapped)


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


def missing(file: Path) -> TableError:
    """What to say of a file that is not there, or is a link or a folder."""
    return TableError(f"{str(file.parent)!r} lacks its file {file.name}")


def _directory(name: str, kind: str, content: Any, entry: Entry | None) -> tuple[dict[str, Any], int, str]:
    """The directory, where the arrays begin, and the identity of the file."""
    magic, layout, length, checksum = _HEADER.unpack(content[: _HEADER.size].tobytes())
    require(magic == MAGIC, f"{name} is not a packed file of earmark")
    if layout != LAYOUT:
        raise TableError(f"{name} has layout {layout}; this earmark reads layout {LAYOUT}")
    require(not content[_HEADER.size : ALIGNED].any(), f"{name} has a header that is not right")
    require(length <= min(len(content) - ALIGNED, MAX_DIRECTORY), f"{name} is shorter than its directory")
    text = content[ALIGNED : ALIGNED + length].tobytes()
    require(digest(text) == checksum.hex(), f"the checksum of the directory of {name} is wrong")
    require(entry is None or entry.checksum == checksum.hex(), f"{name} is another file than was recorded")
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
