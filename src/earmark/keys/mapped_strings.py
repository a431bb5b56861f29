"""Which key does a string have, when its attribute's constants are in mapped files?

The read-only side of `StringKeys` (strings.py says what keys mean), without a Python object for each constant:

    joined   a b c | d | x y        the constants in order, one run of UTF-8 bytes
    start    0     3   4     6
    keys     MIN   0   2**62        ascending with the constants

Complexity: a look-up is a binary search, O(log constants) comparisons of bytes; the last answers are kept, so a value
that comes again is one dictionary look-up. Memory: the kept answers, and nothing that grows with the constants (a
few thousand of them are held as Python objects, where a comparison is quicker).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np

from earmark.errors import require
from earmark.flat.arrays import I64, U8

_KEPT = 1 << 16  # answers
_FEW = 1 << 12  # constants


class MappedStrings:
    """Constants and their keys, for look-ups only."""

    def __init__(self, start: I64, joined: U8, keys: I64, above: MappedStrings | None = None) -> None:
        require(len(start) == len(keys) + 1 and len(keys) > 0, "constants and keys disagree")
        require(start[0] == 0 and start[-1] == len(joined), "the offsets of constants do not fit them")
        self._start, self._joined, self._keys = start, joined, keys
        self._above = above
        self._kept: dict[bytes, int] = {}
        self.ladders: dict[str, Any] = {}
        """What numbers.py keeps of the constants of a wide attribute."""
        self._few = [self[at] for at in range(len(keys))] if len(keys) <= _FEW else None

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, at: int) -> bytes:
        return self._joined[self._start[at] : self._start[at + 1]].tobytes()

    def with_more(self, more: MappedStrings) -> MappedStrings:
        """These constants and some more, whose keys are between theirs."""
        return MappedStrings(self._start, self._joined, self._keys, more)

    def items(self) -> tuple[list[bytes], I64]:
        """All constants in order, and their keys. O(constants)."""
        found = {self[at]: key for at, key in enumerate(self._keys.tolist())}
        if self._above is not None:
            found |= dict(zip(*self._above.items(), strict=True))
        constants = sorted(found)
        return constants, np.array([found[c] for c in constants], np.int64)

    def of_value(self, value: bytes) -> int:
        """The key of any string: a constant's own, else one above the greatest constant below it."""
        key = self._kept.get(value)
        if key is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            key = self._kept[value] = self._found(value)
        return key

    def _found(self, value: bytes) -> int:
        at = bisect_right(self if self._few is None else self._few, value) - 1
        own = int(self._keys[at]) + (self[at] != value)
        # The constants of both interleave: the nearest below is the one with the greater key.
        return own if self._above is None else max(own, self._above._found(value))
