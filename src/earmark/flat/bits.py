"""Bitmaps over slots.

A bitmap is an array of 64-bit words; slot s is bit s % 64 of word s // 64; bits past the last slot are zero:

    slots 1, 3, 64   ->   words [0b1010, 0b1]

The functions never change an array in place (a reader may hold it): they return a new, read-only one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from earmark.flat.arrays import I32, U64, frozen

WORD = 64


def words_for(slots: int) -> int:
    """How many words a bitmap over that many slots has."""
    return (slots + WORD - 1) // WORD


def all_set(slots: int) -> U64:
    """The bitmap with every one of `slots` bits set."""
    bitmap = np.full(words_for(slots), ~np.uint64(0), np.uint64)
    if slots % WORD:
        bitmap[-1] = np.uint64((1 << slots % WORD) - 1)
    return frozen(bitmap)


def from_slots(slots: NDArray[Any], total: int) -> U64:
    """The bitmap over `total` slots with exactly these set."""
    return set_slots(np.zeros(words_for(total), np.uint64), slots)


def from_mask(mask: NDArray[np.bool_]) -> U64:
    """The bitmap over as many slots as the mask has values, set where these are true."""
    packed = np.zeros(words_for(len(mask)) * 8, np.uint8)
    packed[: (len(mask) + 7) // 8] = np.packbits(mask, bitorder="little")
    return frozen(packed.view("<u8").astype(np.uint64, copy=False))


def to_slots(bitmap: U64) -> I32:
    """The set slots, ascending."""
    bits = np.unpackbits(bitmap.astype("<u8", copy=False).view(np.uint8), bitorder="little")
    return np.flatnonzero(bits).astype(np.int32)


def set_slots(bitmap: U64, slots: NDArray[Any]) -> U64:
    """A copy with these slots set as well."""
    copy = bitmap.copy()
    np.bitwise_or.at(copy, slots // WORD, _bits(slots))
    return frozen(copy)


def both(left: U64, right: U64) -> U64:
    """Slots in both; a shorter bitmap counts as zero past its end."""
    n = min(len(left), len(right))
    return frozen(left[:n] & right[:n])


def either(left: U64, right: U64) -> U64:
    """Slots in at least one; a shorter bitmap counts as zero past its end."""
    long, short = (left, right) if len(left) >= len(right) else (right, left)
    union = long.copy()
    union[: len(short)] |= short
    return frozen(union)


def count(bitmap: U64) -> int:
    """How many slots are set."""
    return int(np.bitwise_count(bitmap).sum())


def _bits(slots: NDArray[Any]) -> U64:
    return np.uint64(1) << (np.asarray(slots) % WORD).astype(np.uint64)
