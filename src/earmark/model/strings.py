"""Which key does a string have? Order-preserving keys for the string constants of one attribute.

Only the constants that subscriptions use get keys, in UTF-8 byte order, with gaps. An event's string takes
its constant's key, or the key of the greatest constant below it plus one:

    constant    ''         'ab'           'b'
    key         MIN        0              2**62          MAX
    event       '' → MIN   'aa' → MIN+1   'abc' → 1      'zebra' → 2**62 + 1

Invariant: keys ascend with their constants, neighbours are at least 2 apart, '' has the least key.
So a bound's key is a constant's key, one above it (`>`), or one below it (`<`), and stays right when
other constants arrive between. When a gap runs out, `relabelled` gives the same constants even spacing.

Complexity: look-up O(1) for constants, O(log n) otherwise; insert O(n) memory moves (n pointers);
a batch of m new constants O(n + m log m).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from itertools import groupby
from threading import Lock

import numpy as np

from earmark.model.arrays import I64

_MIN, _END = -(2**63), 2**63  # _END is one past the greatest key
_STRIDE = 2**32  # ascending inserts advance by this, instead of halving the gap each time
_BULK = 64  # from here on a batch is merged instead of inserted one by one


class StringKeys:
    """Constants and their keys. One writer; readers may look up at any time."""

    def __init__(self) -> None:
        self._sorted: list[bytes] = [b""]
        self._key: dict[bytes, int] = {b"": _MIN}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._sorted)

    def __contains__(self, constant: bytes) -> bool:
        return constant in self._key

    def constants(self) -> list[bytes]:
        """All constants in order."""
        return list(self._sorted)

    def of_constant(self, constant: bytes) -> int:
        """The key of a constant."""
        return self._key[constant]

    def of_value(self, value: bytes) -> int:
        """The key of any string: a constant's own, else one above the greatest constant below it."""
        key = self._key.get(value)
        if key is None:
            with self._lock:  # position and neighbour must be of one moment
                key = self._key[self._sorted[bisect_right(self._sorted, value) - 1]] + 1
        return key

    def insert(self, constants: Iterable[bytes]) -> bool:
        """Give new constants keys inside the gaps. False, with nothing changed, when a gap is too small."""
        new = sorted(set(constants).difference(self._key))
        placed = self._place(new)
        if placed is None:
            return False
        self._key.update(placed)
        with self._lock:
            if len(new) < _BULK:
                for constant in new:
                    insort(self._sorted, constant)
            else:
                self._sorted = sorted(self._sorted + new)
        return True

    def _place(self, new: list[bytes]) -> dict[bytes, int] | None:
        placed: dict[bytes, int] = {}
        ordered = self._sorted
        for position, run in groupby(new, key=lambda c: bisect_left(ordered, c)):
            below = self._key[ordered[position - 1]]
            above = self._key[ordered[position]] if position < len(ordered) else _END
            together = list(run)
            if len(together) == 1:
                key = self._single(together[0], position, below, above)
                if key is None:
                    return None
                placed[together[0]] = key
                continue
            step = (above - below) // (len(together) + 1)
            if step < 2:
                return None
            placed.update((c, below + step * i) for i, c in enumerate(together, 1))
        return placed

    def _single(self, constant: bytes, position: int, below: int, above: int) -> int | None:
        gap = above - below
        if gap < 4:
            return None
        step = max(2, min(gap // 2, _STRIDE))
        if position == len(self._sorted):
            return below + step
        shared_below = _shared_prefix(constant, self._sorted[position - 1])
        return below + step if shared_below >= _shared_prefix(constant, self._sorted[position]) else above - step

    def relabelled(self, constants: Iterable[bytes] = ()) -> StringKeys:
        """The same constants and some more, evenly spaced: a new generation of keys."""
        other = StringKeys()
        other._sorted = sorted({*self._sorted, *constants})
        step = (_END - _MIN) // (len(other._sorted) + 1)
        other._key = {c: _MIN + step * i for i, c in enumerate(other._sorted)}
        return other

    def translated(self, bounds: I64, other: StringKeys, side: int) -> I64:
        """Bounds in these keys, as bounds in `other`'s (which has every constant that a bound lies on).

        `side` is +1 for lower bounds (a constant's key or one above it) and -1 for upper bounds (or one below).
        """
        ordered = self._sorted
        old = np.array([self._key[c] for c in ordered], np.int64)
        new = np.array([other._key.get(c, 0) for c in ordered], np.int64)
        at = np.searchsorted(old, bounds, side="right" if side > 0 else "left")
        at = np.clip(at - 1 if side > 0 else at, 0, len(old) - 1)
        moved: I64 = np.where(old[at] == bounds, new[at], new[at] + side)
        moved[bounds == np.iinfo(np.int64).min] = np.iinfo(np.int64).min
        moved[bounds == np.iinfo(np.int64).max] = np.iinfo(np.int64).max
        return moved

    def used_by(self, bounds: I64) -> list[bytes]:
        """The constants on or next to which some bound lies."""
        keys = {k + d for k in np.unique(bounds).tolist() for d in (-1, 0, 1)}
        return [c for c in self._sorted if self._key[c] in keys]

    def items(self) -> tuple[list[bytes], I64]:
        """Constants in order and their keys: what files store."""
        return self.constants(), np.array([self._key[c] for c in self._sorted], np.int64)

    @classmethod
    def from_items(cls, constants: list[bytes], keys: list[int]) -> StringKeys:
        """The inverse of `items`; the caller checks the result with `check`."""
        made = cls()
        made._sorted = list(constants)
        made._key = dict(zip(constants, keys, strict=True))
        return made

    def check(self) -> None:
        """Assert the invariant."""
        keys = [self._key[c] for c in self._sorted]
        assert self._sorted[0] == b"" and keys[0] == _MIN, "'' must have the least key"
        assert len(self._key) == len(self._sorted), "constants and keys disagree"
        assert all(a < b for a, b in zip(self._sorted, self._sorted[1:], strict=False)), "constants out of order"
        assert all(b - a >= 2 for a, b in zip(keys, keys[1:], strict=False)), "keys closer than 2"
        assert keys[-1] < _END - 1, "no key above the last constant"


def successor(prefix: bytes) -> bytes | None:
    """The least byte string above every string that starts with `prefix`; None when there is none.

    >>> successor(b"ab"), successor(b"")
    (b'ac', None)
    """
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else None


def _shared_prefix(a: bytes, b: bytes) -> int:
    length = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        length += 1
    return length
