"""Many strings as two arrays: offsets, and one run of UTF-8 bytes.

    'ab' 'c' ''      start  0 2 3 3      joined  a b c

There is no Python object for each string, so a million of them open by mapping.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from earmark.errors import require
from earmark.flat.types import I64, U8, frozen

_ASCII_END = 128


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
        """These strings, in this order. O(their bytes)."""
        counts = self.start[at + 1] - self.start[at]
        start = np.zeros(len(at) + 1, np.int64)
        np.cumsum(counts, out=start[1:])
        positions = np.arange(start[-1], dtype=np.int64) + np.repeat(self.start[at] - start[:-1], counts)
        return PackedStrings(frozen(start), frozen(self.joined[positions]))

    def to_arrow(self) -> Any:
        """A large_string column over the same bytes."""
        import pyarrow as pa

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
    import pyarrow as pa

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
