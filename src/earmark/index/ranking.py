"""The k best so far, for every event of a group: bounded heaps that kernels fill, and bounds that never fall short.

    k = 3           lane 0           lane 1
    score           .2 .9 .4         .5  .  .         the worst kept answer first: what a new one must beat
    sequence         7  1  3          2  .  .         of equal scores the later is worse
    slot             4  9  0          6  .  .
    size             3                1

With a *floor*, the k-th best that was found elsewhere, a heap begins full: k times the floor, as entries of no slot.
An answer must beat it to enter, bounds prune from the start, and what is left of the floor comes last when sorted.

Invariant: in a lane, no entry is worse than its parent.
Complexity: `push` O(log k); `sort_heap` O(k log k), after which the best comes first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.flat.arrays import F64, I32, I64, read_only
from earmark.flat.machine import at
from earmark.index.contract import Floor
from earmark.jit import inlined, kernel

NO_SLOT = -1
"""Slot of an entry that is an event's floor, not an answer."""
SLACK = 1e-9
"""Relative room above a bound: far more than float64 can lose in summing a clause in another order."""


class Heaps(NamedTuple):
    """A bounded heap a lane, k entries apart: the worst kept answer first, by (score, then later sequence)."""

    size: I64
    score: F64
    sequence: I64
    slot: I32


def new_heaps(lanes: int, k: int, floor: Floor | None = None, first: int = 0) -> Heaps:
    """Heaps of k entries each: empty, or full of an event's floor where it has one. Lane 0 is the event `first`."""
    entries = lanes * k
    heaps = Heaps(
        np.zeros(lanes, np.int64), np.empty(entries), np.empty(entries, np.int64), np.empty(entries, np.int32)
    )
    if floor is not None:
        own = slice(first, first + lanes)
        fill_floors(heaps, k, read_only(floor.score[own]), read_only(floor.sequence[own]))
    return heaps


@kernel
def fill_floors(heaps: Heaps, k: int, score: F64, sequence: I64) -> None:
    """Fill the heap of every event that has a floor with k times this."""
    for lane in range(len(score)):
        if score[lane] > -np.inf:
            heaps.size[lane] = k
            for entry in range(lane * k, (lane + 1) * k):
                heaps.score[entry], heaps.sequence[entry], heaps.slot[entry] = score[lane], sequence[lane], NO_SLOT


@inlined
def raised(static: float, added: float) -> float:
    """An upper bound on static + added, in whatever order float64 sums it. `added` is not negative."""
    return static + added + (abs(static) + added) * SLACK


@inlined
def _worse(heaps: Heaps, i: int, j: int) -> bool:
    """Whether entry i ranks after entry j: a lower score, or the same and a later sequence."""
    if at(heaps.score, i) != at(heaps.score, j):
        return bool(at(heaps.score, i) < at(heaps.score, j))
    return bool(at(heaps.sequence, i) > at(heaps.sequence, j))


@inlined
def _swap(heaps: Heaps, i: int, j: int) -> None:
    heaps.score[i], heaps.score[j] = heaps.score[j], heaps.score[i]
    heaps.sequence[i], heaps.sequence[j] = heaps.sequence[j], heaps.sequence[i]
    heaps.slot[i], heaps.slot[j] = heaps.slot[j], heaps.slot[i]


@inlined
def enters(heaps: Heaps, lane: int, k: int, score: float, sequence: int) -> bool:
    """Whether `push` would keep an answer."""
    if heaps.size[lane] < k:
        return True
    worst = heaps.score[lane * k]
    return bool(score > worst or (score == worst and sequence < at(heaps.sequence, lane * k)))


@inlined
def push(heaps: Heaps, lane: int, k: int, score: float, sequence: int, slot: int) -> bool:
    """Keep an answer if it is among the lane's k best so far; whether it is. O(log k)."""
    base, size = lane * k, heaps.size[lane]
    if not enters(heaps, lane, k, score, sequence):
        return False
    if size == k:
        heaps.score[base], heaps.sequence[base], heaps.slot[base] = score, sequence, slot
        _sift_down(heaps, base, k)
        return True
    child = size
    heaps.score[base + child], heaps.sequence[base + child], heaps.slot[base + child] = score, sequence, slot
    while child and _worse(heaps, base + child, base + ((child - 1) >> 1)):
        _swap(heaps, base + child, base + ((child - 1) >> 1))
        child = (child - 1) >> 1
    heaps.size[lane] = size + 1
    return True


@inlined
def _sift_down(heaps: Heaps, base: int, size: int) -> None:
    """Let the root sink to its place."""
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= size:
            return
        if child + 1 < size and _worse(heaps, base + child + 1, base + child):
            child += 1
        if not _worse(heaps, base + child, base + parent):
            return
        _swap(heaps, base + child, base + parent)
        parent = child


@inlined
def sort_heap(heaps: Heaps, base: int, size: int) -> None:
    """Turn a heap into a list, best first."""
    for last in range(size - 1, 0, -1):
        _swap(heaps, base, base + last)
        _sift_down(heaps, base, last)


def ranked(heaps: Heaps, k: int, floored: bool = False) -> tuple[I64, I32, F64]:
    """What sorted heaps of k places hold, which are not written to any more: (how many each, slots, scores).

    `floored`: the heaps began with a floor, whose entries are left out; they are behind all answers.
    """
    if not floored:
        return without_gaps(k, heaps.size, heaps.slot, heaps.score)
    slots, scores = np.empty_like(heaps.slot), np.empty_like(heaps.score)
    kept = above_floors(heaps, k, slots, scores)
    return heaps.size, slots[:kept], scores[:kept]


@kernel
def above_floors(heaps: Heaps, k: int, slots: I32, scores: F64) -> int:
    """Copy the answers of sorted heaps, one event after another, and set sizes to their numbers; how many in all."""
    kept = 0
    for lane in range(len(heaps.size)):
        first, before = lane * k, kept
        for entry in range(first, first + heaps.size[lane]):
            if heaps.slot[entry] != NO_SLOT:
                slots[kept], scores[kept] = heaps.slot[entry], heaps.score[entry]
                kept += 1
        heaps.size[lane] = kept - before
    return kept


def without_gaps(k: int, size: I64, slot: I32, score: F64) -> tuple[I64, I32, F64]:
    """The first `size` of the k places of each event: (how many each, slots, scores)."""
    if not (size == k).all():
        kept = (np.arange(k) < size[:, None]).ravel()
        slot, score = slot[kept], score[kept]
    return size, slot, score
