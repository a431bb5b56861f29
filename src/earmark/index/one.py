"""A single event on its way to kernels: room that stays, into which each event is written, and its answer after it.

    encoded event ──► OneEvent: start attr lo hi weight | eligible k relaxed ... ──► kernel ──► slots, or a heap of k

All of it is pinned (`flat/pinned.py`), so an event costs what its values cost: no array is made for it, and none is
taken apart. A few are kept for whoever borrows one next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import cache
from struct import Struct
from typing import Any

import numpy as np

from earmark.events.arrays import Entry, EventArrays
from earmark.flat.arrays import F64, I32, I64, U64, frozen, read_only
from earmark.flat.pinned import ARRAY_WORDS, DATA, ITEMS, SHAPE, Pinned, words_of
from earmark.index.counters import MATCHED, MOST_COUNTERS
from earmark.index.kernels import Asked, Matches
from earmark.index.ranking import Heaps, new_heaps
from earmark.segment.evaluate import NO_LIFE

ATTRIBUTES = 64
"""Values that there is room for at first."""
SLOTS = 1 << 12
"""Answers that there is room for at first, and that the room stays at when it has grown beyond `LARGEST`."""
LARGEST = 1 << 20
BITMAPS = 6
"""Bitmaps whose place in memory is remembered."""
HI, WEIGHT, ELIGIBLE = (ARRAY_WORDS * field for field in (3, 4, 5))
FIRST_NUMBER = 6 * ARRAY_WORDS
SLOT, K, RELAXED, HEAVIEST, LIFE = (FIRST_NUMBER + field for field in (2, 3, 4, 5, 7))
"""Words of `Asked`, as it is pinned."""


@cache
def _packs(count: int, code: str) -> Struct:
    return Struct(f"={count}{code}")


_NO_COUNTS = memoryview(np.zeros(MOST_COUNTERS, np.int64))  # type: ignore[arg-type]
_double, _bits = Struct("=d").pack, Struct("=q").unpack


class OneEvent:
    """Room for one event and its answer."""

    def __init__(self) -> None:
        self.work = Pinned(np.zeros(MOST_COUNTERS, np.int64))
        self._work: Any = memoryview(self.work.value)
        self.heaps = Pinned(new_heaps(1, 1))
        self._room(ATTRIBUTES)
        self._answers(SLOTS)

    def _room(self, values: int) -> None:
        """Room for this many values."""
        types = (np.int32, np.int64, np.int64, np.float64)
        columns: list[Any] = [np.zeros(2, np.int64), *(np.empty(values, one) for one in types)]
        self._start, self._attr, self._lo, self._hi, self._weight = columns
        eligible: U64 = frozen(np.empty(0, np.uint64))
        self.asked = Pinned(Asked(EventArrays(*map(read_only, columns)), eligible, 0, 1))
        self._words: Any = memoryview(self.asked.words)  # type: ignore[arg-type]
        self._ends = self._words[ARRAY_WORDS * 2 + DATA], self._words[HI + DATA]
        self._eligible = eligible
        self._layouts: dict[int, tuple[U64, U64, Any]] = {}
        self._count = 0

    def _answers(self, slots: int) -> None:
        """Room for this many answers."""
        self.slots: I32 = np.empty(slots, np.int32)
        self.matches = Pinned(Matches(np.zeros(1, np.int64), self.slots, self.work.value))

    def take(self, entries: Sequence[Entry], weights: Sequence[float] = ()) -> None:
        """Write an event, ascending by attribute, and its weights if it has any."""
        count = len(entries)
        if count > len(self._attr):
            self._room(2 * count)
        self._count = count
        words = self._words
        if count:
            numbers, low, high, _ = zip(*entries, strict=True)
            _packs(count, "i").pack_into(self._attr, 0, *numbers)
            _packs(count, "q").pack_into(self._lo, 0, *low)
            if low != high:
                _packs(count, "q").pack_into(self._hi, 0, *high)
            words[HI + DATA] = self._ends[low != high]
        self._start[1] = count
        if weights:
            _packs(count, "d").pack_into(self._weight, 0, *weights)
        words[WEIGHT + ITEMS] = words[WEIGHT + SHAPE] = len(weights)
        words[HEAVIEST] = _bits(_double(max(weights, default=1.0)))[0]

    @property
    def events(self) -> EventArrays:
        """The event as a batch of its own."""
        count = self._count
        points = self._words[HI + DATA] == self._ends[False]
        lo = self._lo[:count].copy()
        hi = lo if points else self._hi[:count].copy()
        weight: F64 = self._weight[: self._words[WEIGHT + ITEMS]].copy()
        start: I64 = np.array([0, count])
        return EventArrays(start, self._attr[:count].copy(), lo, hi, weight)

    def ask(self, eligible: U64, slot: int = 0, life: int = NO_LIFE) -> None:
        """Ask for matches among eligible slots, from one on; `life` is the number of the attribute of times."""
        words = self._words
        if eligible is not self._eligible:
            words[ELIGIBLE : ELIGIBLE + ARRAY_WORDS] = self._laid_out(eligible)
            self._eligible = eligible
        words[SLOT], words[LIFE] = slot, life

    def _laid_out(self, eligible: U64) -> Any:
        """The words of a bitmap, looked up where it was asked before: segments take turns."""
        known = self._layouts.get(id(eligible))
        if known is None or known[0] is not eligible:
            if len(self._layouts) >= BITMAPS:
                self._layouts.clear()
            whole = np.ascontiguousarray(eligible)
            laid: Any = np.array(words_of(whole), np.int64)
            known = self._layouts[id(eligible)] = eligible, whole, memoryview(laid)
        return known[2]

    def rank(self, eligible: U64, k: int, relaxed: bool, life: int = NO_LIFE) -> Pinned:
        """Ask for the k best among eligible slots; the heap that they go to."""
        self.ask(eligible, life=life)
        self._words[K], self._words[RELAXED] = k, relaxed
        heaps: Heaps = self.heaps.value
        if len(heaps.score) < k:
            self.heaps = Pinned(new_heaps(1, k))
        else:
            heaps.size[0] = 0
        return self.heaps

    def counted(self, fields: int, matched: int) -> list[int]:
        """What the search of this event has counted, and these matches; counting begins again."""
        self._work[MATCHED] += matched
        counters: list[int] = self._work[:fields].tolist()
        self._work[:fields] = _NO_COUNTS[:fields]
        return counters

    def make_room(self) -> None:
        """Make more room for answers."""
        self._answers(4 * len(self.slots))

    def shrink(self) -> None:
        """Give back room beyond what is usual."""
        if len(self.slots) > LARGEST:
            self._answers(SLOTS)
        if len(self.heaps.value.score) > LARGEST:
            self.heaps = Pinned(new_heaps(1, 1))


_spare: deque[OneEvent] = deque(maxlen=8)


def borrow() -> OneEvent:
    """Room for one event, which nobody else uses until it is given back."""
    try:
        return _spare.pop()
    except IndexError:
        return OneEvent()


def give_back(one: OneEvent) -> None:
    """Let the next event have the room; after an exception it is not given back."""
    one.shrink()
    _spare.append(one)
