"""Sets of keys: a sorted tuple of disjoint closed intervals, plus whether NULL belongs.

These are the values for which a predicate is TRUE (or FALSE, or not so). Invariant: intervals ascend, are in
the attribute's domain and do not touch. Unions and complements of what one condition says are small, so this is
plain Python over integers of any size; kernels see the result as arrays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

Intervals: TypeAlias = tuple[tuple[int, int], ...]


class KeySet(NamedTuple):
    """Which keys, and whether NULL."""

    intervals: Intervals
    null: bool

    def complement(self, low: int, high: int) -> KeySet:
        """Everything else of the domain, NULL included."""
        return KeySet(complement(self.intervals, low, high), not self.null)

    def intersect(self, other: KeySet) -> KeySet:
        """What both hold."""
        return KeySet(intersect(self.intervals, other.intervals), self.null and other.null)

    def union(self, other: KeySet) -> KeySet:
        """What either holds."""
        return KeySet(union((*self.intervals, *other.intervals)), self.null or other.null)


def union(intervals: Iterable[tuple[int, int]]) -> Intervals:
    """Sorted and merged; intervals that touch become one. O(n log n).

    >>> union([(5, 9), (1, 4), (20, 30)])
    ((1, 9), (20, 30))
    """
    merged: list[tuple[int, int]] = []
    for low, high in sorted(intervals):
        if low > high:
            continue
        if merged and low <= merged[-1][1] + 1:
            if high > merged[-1][1]:
                merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return tuple(merged)


def intersect(a: Intervals, b: Intervals) -> Intervals:
    """Keys in both. O(len(a) + len(b)).

    >>> intersect(((1, 9), (20, 30)), ((5, 25),))
    ((5, 9), (20, 25))
    """
    found = []
    i = j = 0
    while i < len(a) and j < len(b):
        low, high = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if low <= high:
            found.append((low, high))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def complement(a: Intervals, low: int, high: int) -> Intervals:
    """Keys of [low, high] in none of them. O(len(a)).

    >>> complement(((3, 5),), 0, 9)
    ((0, 2), (6, 9))
    """
    found = []
    for first, last in a:
        if low < first:
            found.append((low, first - 1))
        low = last + 1
    if low <= high:
        found.append((low, high))
    return tuple(found)
