"""The arrays that everything is made of: their element types, read-only ones, ones that grow, and strings in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, DTypeLike, NDArray

from earmark.errors import require

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]
Flags = NDArray[np.bool_]
A = TypeVar("A", bound=NDArray[Any])


def grown(array: A, length: int, value: int = 0) -> A:
    """A longer array that begins like this one and goes on with a value."""
    made = np.full(length, value, array.dtype)
    made[: len(array)] = array
    return made  # type: ignore[return-value]


def frozen(array: A) -> A:
    """The same array, read-only: kernels compile once for read-only arrays, mapped files included."""
    array.flags.writeable = False
    return array


def read_only(array: A) -> A:
    """A read-only view of the same data; the caller's own array keeps its flag (compare `frozen`)."""
    return frozen(array.view()) if array.flags.writeable else array


_UNLOCKED, _MOST_LOCKED = 500, 1 << 22
"""Numpy gives up Python's lock to copy more elements than the first; more bytes than the second take too long to copy
with the lock held."""


def copy_to(target: A, source: A) -> None:
    """Copy an array to the beginning of another one of its type, and keep Python's lock unless that takes long.

    A thread that gives up the lock waits for whoever takes it, up to 5 ms beside a busy thread. Copying a megabyte
    takes 0.1 ms.
    """
    if len(source) > _UNLOCKED and source.nbytes <= _MOST_LOCKED:
        views: Any = memoryview(target), memoryview(source)  # type: ignore[arg-type]
        views[0][: len(source)] = views[1]
    else:
        target[: len(source)] = source


def pointers_of(counts: ArrayLike) -> I64:
    """Where rows of these lengths begin in one array, and where the last one ends: [0, counts[0], ...].

    >>> pointers_of([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    made = np.zeros(len(np.asarray(counts)) + 1, np.int64)
    np.cumsum(counts, out=made[1:])
    return made


T = TypeVar("T")


class _Room:
    """A buffer that several moments of a column share, and how much of it has been claimed."""

    __slots__ = ("claimed", "data")

    def __init__(self, data: Any, claimed: int) -> None:
        self.data = data
        self.claimed = claimed


class Growable:
    """A moment of a typed column; `extended` gives the next, which shares its room.

    Only elements past everything that anyone has claimed are written, so no moment ever changes. Whoever extends a
    moment that is not the last one (the last was given up, by an exception or otherwise) gets room of its own.
    Amortised O(1) per element.
    """

    __slots__ = ("_room", "size")

    def __init__(self, dtype: DTypeLike, values: NDArray[Any] | None = None) -> None:
        data: NDArray[Any] = np.empty(0, dtype) if values is None else np.asarray(values, dtype)
        self.size = len(data)
        self._room = _Room(data, self.size)

    def extended(self, values: Any) -> Growable:
        """The column with an array behind it."""
        room, size, end = self._room, self.size, self.size + len(values)
        if room.claimed != size or end > len(room.data) or not room.data.flags.writeable:
            grown = np.empty(max(16, end, int(size * 1.5)), room.data.dtype)
            grown[:size] = room.data[:size]
            room = _Room(grown, size)
        room.claimed = end  # first: an exception from here on leaves elements that no reader sees
        room.data[size:end] = values
        other = object.__new__(Growable)
        other._room, other.size = room, end
        return other

    def view(self) -> NDArray[Any]:
        """Everything, read-only."""
        return frozen(self._room.data[: self.size])

    @property
    def nbytes(self) -> int:
        """Bytes in use (spare room left out)."""
        return self.size * int(self._room.data.itemsize)


class Listed(Generic[T]):
    """`Growable` for Python objects."""

    __slots__ = ("_items", "size")

    def __init__(self, items: list[T]) -> None:
        self._items = items
        self.size = len(items)

    def extended(self, values: list[T]) -> Listed[T]:
        """The list with others behind it."""
        items = self._items if self.is_last else self._items[: self.size]
        items.extend(values)
        other: Listed[T] = object.__new__(Listed)
        other._items, other.size = items, self.size + len(values)
        return other

    def __len__(self) -> int:
        return self.size

    @property
    def is_last(self) -> bool:
        """Whether nothing has been appended since."""
        return len(self._items) == self.size

    def shares(self, other: Listed[T]) -> bool:
        """Whether both are moments of one list."""
        return self._items is other._items

    @property
    def items(self) -> list[T]:
        """The objects, and perhaps others behind them that belong to later moments. Not to be changed."""
        return self._items


_ASCII_END = 128
_AT_ONCE = 1 << 18
"""Bytes that are taken at once, or one string: where each comes from is a number of 8 bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class PackedStrings:
    """Strings by position."""

    start: I64
    joined: U8

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, at: int) -> str:
        return self.joined[self.start[at] : self.start[at + 1]].tobytes().decode()

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays."""
        return int(self.start.nbytes + self.joined.nbytes)

    def to_list(self) -> list[str]:
        """The strings as Python holds them."""
        start, joined = self.start, self.joined
        if not (joined < _ASCII_END).all():
            return [part.decode() for part in unpacked(start, joined)]
        ends = _ends(start, joined)
        whole = joined.tobytes().decode("ascii")  # one byte a character: cut the text itself, which is quicker
        return [whole[a:b] for a, b in pairwise(ends)]

    def take(self, at: I64) -> PackedStrings:
        """These strings, in this order. O(their bytes); in parts, since where each byte comes from is a number."""
        counts = self.start[at + 1] - self.start[at]
        start = np.zeros(len(at) + 1, np.int64)
        np.cumsum(counts, out=start[1:])
        joined = np.empty(start[-1], np.uint8)
        first = 0
        while first < len(at):
            last = max(first + 1, int(np.searchsorted(start, start[first] + _AT_ONCE, "right")) - 1)
            part, (begin, end) = slice(first, last), start[[first, last]]
            positions = np.repeat(self.start[at[part]] - start[:-1][part], counts[part])
            positions += np.arange(begin, end)
            joined[begin:end] = self.joined[positions]
            first = last
        return PackedStrings(frozen(start), frozen(joined))

    def to_arrow(self) -> Any:
        """A large_string column over the same bytes."""

        return pa.LargeStringArray.from_buffers(len(self), pa.py_buffer(self.start), pa.py_buffer(self.joined))

    def check(self, what: str) -> None:
        """Raise AssertionError or ValueError unless these are strings, whole characters each."""
        start, joined = self.start, self.joined
        require(len(start) and start[0] == 0 and start[-1] == len(joined), f"the offsets of {what} do not fit them")
        require(bool((start[:-1] <= start[1:]).all()), f"the offsets of {what} descend")
        if (joined < _ASCII_END).all():
            return
        joined.tobytes().decode()
        begins = joined[start[start < len(joined)]]
        require(not ((begins & 0xC0) == 0x80).any(), f"one of the {what} begins inside a character")


def packed(strings: Sequence[bytes]) -> PackedStrings:
    """Byte strings as offsets and one run of bytes."""
    start = np.fromiter(accumulate(map(len, strings), initial=0), np.int64, len(strings) + 1)
    return PackedStrings(frozen(start), np.frombuffer(b"".join(strings), np.uint8))


def unpacked(start: I64, joined: U8) -> list[bytes]:
    """The inverse of `packed`; raises AssertionError when the offsets are not right."""
    ends, whole = _ends(start, joined), joined.tobytes()
    return [whole[a:b] for a, b in pairwise(ends)]


def joined_strings(columns: Sequence[PackedStrings]) -> PackedStrings:
    """The strings of all columns, one column after another."""
    ends = np.cumsum([0, *(len(one.joined) for one in columns)])
    start = [one.start[1:] + end for one, end in zip(columns, ends[:-1], strict=True)]
    joined = np.concatenate([*(one.joined for one in columns), np.empty(0, np.uint8)])
    return PackedStrings(frozen(np.concatenate([np.zeros(1, np.int64), *start])), frozen(joined))


def from_arrow(column: Any) -> PackedStrings:
    """An Arrow column of strings without NULL as offsets and bytes."""

    column = column.cast(pa.large_string())
    if not len(column):
        return NO_STRINGS
    _, offsets, data = column.buffers()
    start = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    joined = np.frombuffer(data, np.uint8)[start[0] : start[-1]] if data is not None else np.empty(0, np.uint8)
    return PackedStrings(start - start[0], joined)


def _ends(start: I64, joined: U8) -> list[int]:
    require(len(start) and start[0] == 0 and start[-1] == len(joined), "the offsets of strings do not fit them")
    require((start[:-1] <= start[1:]).all(), "the offsets of strings descend")
    ends: list[int] = start.tolist()
    return ends


NO_STRINGS = PackedStrings(frozen(np.zeros(1, np.int64)), frozen(np.empty(0, np.uint8)))
