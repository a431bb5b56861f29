"""Which slots of a segment are living, for as long as no life span starts or ends.

    slot     first   last        at 25, and at all moments of the window 20 … 30:
    0           10     30        living
    1           31     90        not yet
    2            0     19        no longer

Testing the life span of one match after another reads memory at random; a bitmap of the living slots takes the place
of the bitmap of slots that are not removed, which a search reads anyway. But making it looks at every slot. So it is
made once as much time has gone into tests: all of it together costs at most twice what the better of the two costs.

**Invariant.** At every moment of `window`, exactly the slots of its bitmap are living.
"""

from __future__ import annotations

from typing import NamedTuple

from earmark.flat import bits
from earmark.flat.arrays import I64, U64
from earmark.keys.schema import INT64_MAX, INT64_MIN

SLOTS_PER_TEST = 8
"""How many slots are looked at in the time of one test."""


class Window(NamedTuple):
    """The first and the last moment at which the slots of a bitmap, and no others, are living."""

    first: int
    last: int
    slots: U64


class Living:
    """The living slots of a segment whose columns of moments these are."""

    def __init__(self, first_moment: I64, last_moment: I64) -> None:
        self._first, self._last = first_moment, last_moment
        self._window: Window | None = None
        self._tested = 0

    def count_tests(self, matches: int) -> None:
        """Note how many matches had their life spans tested."""
        self._tested += matches

    def between(self, first: int, last: int) -> U64 | None:
        """The bitmap of slots that are living from one moment to another; None if it changes, or is not known yet."""
        window = self._window
        if window is None or not window.first <= first <= window.last:
            if self._tested * SLOTS_PER_TEST < len(self._first):
                return None
            self._tested = 0
            self._window = window = window_around(first, self._first, self._last)
        return window.slots if last <= window.last else None


def window_around(moment: int, first_moment: I64, last_moment: I64) -> Window:
    """The longest window that this moment is in. O(slots)."""
    begun, ended = first_moment <= moment, last_moment < moment
    first = max(
        int(first_moment.max(where=begun, initial=INT64_MIN)),
        int(last_moment.max(where=ended, initial=INT64_MIN)) + bool(ended.any()),
    )
    last = min(
        int(last_moment.min(where=~ended, initial=INT64_MAX)),
        int(first_moment.min(where=~begun, initial=INT64_MAX)) - (not begun.all()),
    )
    return Window(first, last, bits.from_mask(begun & ~ended))
