"""Which key does a string have? Order-preserving keys for the constants of one attribute.

Constants are bytes: those of strings, or of the positions of numbers beyond 2^53 (numbers.py). Only the constants that
subscriptions use get keys, in byte order, with gaps. An event's string takes
its constant's key, or the key of the greatest constant below it plus one:

    constant    ''         'ab'           'b'
    key         MIN        0              2**62          MAX
    event       '' → MIN   'aa' → MIN+1   'abc' → 1      'zebra' → 2**62 + 1

Invariant: keys ascend with their constants, neighbours are at least 2 apart, '' has the least key.
A writer that is interrupted while it inserts leaves constants that nothing uses, and never a wrong key: the dictionary
`_key` counts, and while `_behind` is set the ordered lists are made from it again by the next caller.
So a bound's key is a constant's key, one above it (`>`), or one below it (`<`), and stays right when
other constants arrive between. When a gap runs out, `relabelled` gives the same constants even spacing.

Complexity: look-up O(1) for constants, O(log n) otherwise; insert O(n) memory moves (n pointers);
a batch of m new constants O(n + m log m).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import groupby, islice, pairwise
from operator import lt
from typing import Any

import numpy as np

from earmark.errors import require
from earmark.flat.arrays import I64, U8
from earmark.locks import awaited_lock

_MIN, _END = -(2**63), 2**63  # _END is one past the greatest key
_STRIDE = 2**32  # neighbours in a run are at most this far apart, so that a run does not use up its gap
_BULK = 64  # from here on a batch is merged instead of inserted one by one
_KEPT = 1 << 16  # answers of mapped constants
_FEW = 1 << 12  # mapped constants


class StringKeys:
    """Constants and their keys. One writer; readers may look up at any time."""

    def __init__(self) -> None:
        self._sorted: list[bytes] = [b""]
        self._keys = array("q", [_MIN])  # in the order of _sorted
        self._key: dict[bytes, int] = {b"": _MIN}
        self._behind = False  # the lists may lack constants that _key has
        self.ladders: dict[str, Any] = {}
        """What numbers.py keeps of the constants of a wide attribute."""
        self._lock = awaited_lock()

    def _catch_up(self) -> None:
        """Make the ordered lists from the dictionary. The caller holds the lock."""
        self._sorted = sorted(self._key)
        self._keys = array("q", map(self._key.__getitem__, self._sorted))
        self._behind = False

    def __len__(self) -> int:
        return len(self._key)

    def __contains__(self, constant: bytes) -> bool:
        return constant in self._key

    def constants(self) -> list[bytes]:
        """All constants in order."""
        return self.items()[0]

    def of_constant(self, constant: bytes) -> int:
        """The key of a constant."""
        return self._key[constant]

    def of_value(self, value: bytes) -> int:
        """The key of any string: a constant's own, else one above the greatest constant below it."""
        key = self._key.get(value)
        if key is None:
            with self._lock:  # position and key must be of one moment
                if self._behind:
                    self._catch_up()
                at = bisect_right(self._sorted, value) - 1
                key = self._keys[at] + (self._sorted[at] != value)  # it may have become a constant since we looked
        return key

    def constant_near(self, key: int) -> bytes:
        """The constant with this key, or the next above it (the last one, if there is none). O(log n)."""
        with self._lock:
            if self._behind:
                self._catch_up()
            at = bisect_left(self._sorted, key, key=self._key.__getitem__)
            return self._sorted[min(at, len(self._sorted) - 1)]

    def insert(self, constants: Iterable[bytes]) -> bool:
        """Give new constants keys inside the gaps. False, with nothing changed, when a gap is too small."""
        with self._lock:
            if self._behind:
                self._catch_up()
        new = sorted(set(constants).difference(self._key))
        placed = self._place(new)
        if placed is None:
            return False
        if len(new) < _BULK:
            with self._lock:
                self._behind = True
                self._key.update(placed)
                for constant in new:
                    at = bisect_left(self._sorted, constant)
                    self._sorted.insert(at, constant)
                    self._keys.insert(at, placed[constant])
                self._behind = False
            return True
        known = {**self._key, **placed}  # made beside those that readers use, who do not wait for it
        merged = sorted(known)
        keys = array("q", map(known.__getitem__, merged))
        with self._lock:
            self._behind = True
            self._key = known
            self._sorted, self._keys = merged, keys
            self._behind = False
        return True

    def _place(self, new: list[bytes]) -> dict[bytes, int] | None:
        """Keys for constants, given in order; None when a gap is too small."""
        placed: dict[bytes, int] = {}
        ordered = self._sorted
        for position, run in groupby(new, key=lambda c: bisect_left(ordered, c)):
            together = list(run)
            below = self._keys[position - 1]
            above = self._keys[position] if position < len(ordered) else _END
            step = min((above - below) // (len(together) + 1), _STRIDE)
            if step < 2:
                return None
            middle = (below + above) // 2 - step * (len(together) // 2)
            starts = {-1: below + step, 0: middle, 1: above - step * len(together)}
            first = starts[self._side(together, position)]
            placed.update((c, first + step * i) for i, c in enumerate(together))
        return placed

    def _side(self, run: list[bytes], position: int) -> int:
        """Next to which neighbour a run goes, so that runs to come find room: -1 below, 1 above, 0 neither.

        Whoever shares the longer prefix is likely to be followed by more of the kind; at the ends, the far side is
        the open one ('' is always a constant).
        """
        if position == len(self._sorted):
            return 0 if position == 1 else -1
        if position == 1:
            return 1
        below = _shared_prefix(run[0], self._sorted[position - 1])
        return -1 if below >= _shared_prefix(run[-1], self._sorted[position]) else 1

    def relabelled(self, constants: Iterable[bytes] = ()) -> StringKeys:
        """The same constants and some more, evenly spaced: a new generation of keys."""
        other = StringKeys()
        other._sorted = sorted({*self._key, *constants})
        step = (_END - _MIN) // (len(other._sorted) + 1)
        other._keys = array("q", range(_MIN, _MIN + step * len(other._sorted), step))
        other._key = dict(zip(other._sorted, other._keys, strict=True))
        return other

    def translated(self, bounds: I64, other: StringKeys, side: int) -> I64:
        """Bounds in these keys, as bounds in `other`'s (which has every constant that a bound is on).

        `side` is +1 for lower bounds (a constant's key or one above it) and -1 for upper bounds (or one below).
        """
        constants, old = self.items()
        new = np.fromiter((other._key.get(c, 0) for c in constants), np.int64, len(old))
        at = np.searchsorted(old, bounds, side="right" if side > 0 else "left")
        at = np.clip(at - 1 if side > 0 else at, 0, len(old) - 1)
        moved: I64 = np.where(old[at] == bounds, new[at], new[at] + side)
        if side < 0:
            moved[bounds == _END - 1] = _END - 1  # no upper bound; no constant has this key
        return moved

    def used_by(self, bounds: I64) -> list[bytes]:
        """The constants that a bound is on or next to."""
        constants, keys = self.items()
        last = len(keys) - 1
        near = np.searchsorted(keys, bounds)
        used = np.zeros(len(keys), bool)
        for at in (np.maximum(near - 1, 0), np.minimum(near, last)):
            # as unsigned, since the two may be further apart than an int64 reaches
            used[at[(bounds - keys[at] + 1).view(np.uint64) <= 2]] = True
        return [constants[i] for i in np.flatnonzero(used)]

    def has_bounds(self, lo: I64, hi: I64) -> bool:
        """Whether these can be bounds: lower ones on a constant or one above, upper ones on, one below, or none."""
        keys = self.items()[1]
        below = keys[np.searchsorted(keys, lo, side="right") - 1]  # '' has the least key of all
        above = keys[np.minimum(np.searchsorted(keys, hi), len(keys) - 1)]
        upper = (hi == above) | (hi == above - 1) | (hi == _END - 1)
        return bool(((lo == below) | (lo == below + 1)).all() and upper.all())

    def items(self) -> tuple[list[bytes], I64]:
        """Constants in order and their keys: what files store."""
        with self._lock:
            if self._behind:
                self._catch_up()
            return list(self._sorted), np.array(self._keys, np.int64)

    def since(self, count: int) -> tuple[list[bytes], I64]:
        """The constants that came after the first `count`, in order, and their keys; '' is always among them."""
        known = self._key
        new = sorted({b"", *islice(known, count, None)})
        return new, np.array([known[constant] for constant in new], np.int64)

    def take(self, constants: list[bytes], keys: list[int]) -> None:
        """Take constants that have keys already, before anyone else sees these; the caller checks with `check`."""
        for constant, key in zip(constants, keys, strict=True):
            if self._key.setdefault(constant, key) != key:
                raise AssertionError(f"the string constant {constant[:50]!r} has two keys")
        self._catch_up()

    @classmethod
    def from_items(cls, constants: list[bytes], keys: list[int]) -> StringKeys:
        """The inverse of `items`; the caller checks the result with `check`."""
        made = cls()
        made._sorted = list(constants)
        made._keys = array("q", keys)
        made._key = dict(zip(constants, keys, strict=True))
        return made

    def check(self) -> None:
        """Raise AssertionError when the invariant does not hold (also for keys from files, so under -O too)."""
        constants, array_keys = self.items()
        keys = array_keys.tolist()
        for holds, problem in (
            (bool(keys) and constants[0] == b"" and keys[0] == _MIN, "'' must have the least key"),
            (self._key == dict(zip(constants, keys, strict=False)), "constants and keys disagree"),
            (all(map(lt, constants, islice(constants, 1, None))), "string constants are out of order"),
            (all(b - a >= 2 for a, b in pairwise(keys)), "keys of strings are closer than 2"),
            (bool(keys) and keys[-1] < _END - 1, "no key above the last string constant"),
        ):
            require(holds, problem)


def successor(prefix: bytes) -> bytes | None:
    """The least byte string above every string that starts with `prefix`; None when there is none.

    >>> successor(b"ab"), successor(b"")
    (b'ac', None)
    """
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else None


def _shared_prefix(a: bytes, b: bytes) -> int:
    length, longest = 0, min(len(a), len(b))
    while length < longest:
        middle = (length + longest + 1) // 2
        length, longest = (middle, longest) if a[length:middle] == b[length:middle] else (length, middle - 1)
    return length


def restored_strings(constants: list[bytes], keys: list[int]) -> StringKeys:
    """String keys from outside, checked."""
    strings = StringKeys.from_items(constants, keys)
    strings.check()
    return strings


class MappedStrings:
    """Constants in mapped files and their keys, for look-ups only, without a Python object for each constant.

        joined   a b c | d | x y        the constants in order, one run of UTF-8 bytes
        start    0     3   4     6
        keys     MIN   0   2**62        ascending with the constants

    Complexity: a look-up is a binary search, O(log constants) comparisons of bytes; the last answers are kept, so a
    value that comes again is one dictionary look-up. Memory: the kept answers, and nothing that grows with the
    constants (a few thousand of them are held as Python objects, where a comparison is quicker).
    """

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
