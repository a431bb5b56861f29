"""Who asks for each number: how many links, and which one where it is alone.

A broker tells each link what any *other* link asks for. That takes no table per link: a number that two or more links
ask for is wanted by somebody else, whoever is told; one that a single link asks for, by all others.

    link 1 asks for [10, 20], link 2 for [15, 30]        10–14   1 alone      told on every link but 1
                                                         15–20   both         told on every link
    edges    10: +1    15: +2    21: −1    31: −2        21–30   2 alone      told on every link but 2

When link 3 asks for [12, 25], only the first and the last part change anything for the others: 12–14 is told on link 1
now, which was alone with it, and 21–25 on link 2. What nobody had asked for would be told on both. A number can change
hands only while at most two links ask for it, so most changes of a busy broker end here.

The value of an edge is a step for each link whose range begins there, and minus one for each whose range has ended. A
step is 1 and, COUNT_BITS higher, the link's code. So the sum up to a number has how many links ask for it, and the sum
of their codes, which is the code of the only one where there is one.

Invariant (`check`): each link asks for a set of numbers, that is, for none of them twice.
Complexity, n edges: a range O(log n), and O(1) for each edge inside it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.cover.ranges import ordered
from earmark.cover.ranges.ordered import NONE, Ordered, add, floor_cursor, next_cursor, sum_until
from earmark.cover.ranges.table import NO_NUMBERS, Ranges, positive
from earmark.errors import require
from earmark.flat.arrays import I64
from earmark.jit import kernel

COUNT_BITS = 20
COUNT = (1 << COUNT_BITS) - 1
MOST_CODES = 1 << COUNT_BITS
"""Codes are below this; so both sums fit into 64 bits."""
EVERYBODY = -1
"""In place of a code: it concerns all links but the one that has changed what it asks for."""


class Change(NamedTuple):
    """Numbers of which it has changed whether somebody else asks for them, and whose link that concerns."""

    first: I64
    last: I64
    whom: I64

    def of(self, code: int) -> Ranges:
        """The numbers that concern a link, which is not the one that has changed what it asks for."""
        concerned = (self.whom == EVERYBODY) | (self.whom == code)
        return Ranges(self.first[concerned], self.last[concerned])


class Askers:
    """What several links ask for, each a set of numbers."""

    def __init__(self) -> None:
        self._edges = ordered.new_ordered()

    def add(self, code: int, ranges: Ranges) -> Change:
        """A link asks for these numbers, which it has not asked for so far: ascending ranges that do not overlap."""
        return self._shift(ranges, 1 | code << COUNT_BITS)

    def discard(self, code: int, ranges: Ranges) -> Change:
        """A link no longer asks for these numbers, for all of which it has asked."""
        return self._shift(ranges, -(1 | code << COUNT_BITS))

    def _shift(self, ranges: Ranges, step: int) -> Change:
        if not ranges:
            return Change(NO_NUMBERS, NO_NUMBERS, NO_NUMBERS)
        self._edges = ordered.with_room(self._edges, 2 * len(ranges.first))
        return Change(*shift(self._edges, *ranges, step))

    def unasked(self, code: int, ranges: Ranges) -> Ranges:
        """The numbers of ascending ranges that no link but this one asks for."""
        return Ranges(*not_asked(self._edges, *ranges, 1 | code << COUNT_BITS)) if ranges else ranges

    def beside(self, code: int) -> Ranges:
        """What any link but this one asks for. O(n)."""
        keys, sums = self._sums()
        return positive(keys, ((sums & COUNT) > 1) | ((sums != 0) & (sums != (1 | code << COUNT_BITS))))

    def _sums(self) -> tuple[I64, I64]:
        keys, steps = ordered.entries(self._edges)
        return keys, np.cumsum(steps)

    def check(self) -> None:
        """Raise AssertionError unless edges are in order and their sums can be those of sets."""
        ordered.check_ordered(self._edges)
        keys, sums = self._sums()
        require(bool((np.diff(sums, prepend=0) != 0).all()), "an edge changes nothing")
        require(bool((sums >= 0).all()) and not (len(sums) and sums[-1]), "more end than have begun, or fewer")
        nobody = (sums & COUNT) == 0
        require(bool((sums[nobody] == 0).all()), f"nobody asks for {keys[nobody & (sums != 0)][:1]}, and somebody does")


@kernel
def shift(edges: Ordered, first: I64, last: I64, step: int) -> tuple[I64, I64, I64]:
    """Let a link ask for numbers (`step` above 0), or no longer: what changes for others, as (first, last, whom)."""
    room, found = 2 * len(first) + 8, 0
    out_first, out_last, whom = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    for i in range(len(first)):
        begin = first[i]
        cursor = floor_cursor(edges, begin)
        others = sum_until(edges, cursor) + min(step, 0)
        while begin <= last[i]:
            cursor, end = next_cursor(edges, cursor), last[i]
            if cursor != NONE:
                end = min(end, edges.key[cursor] - 1)
            count = others & int(COUNT)
            if count <= 1:
                concerned = int(EVERYBODY) if count == 0 else others >> int(COUNT_BITS)
                if found and out_last[found - 1] == begin - 1 and whom[found - 1] == concerned:
                    found -= 1
                else:
                    out_first[found], whom[found] = begin, concerned
                out_last[found] = end
                found += 1
                if found == len(whom):
                    out_first = np.concatenate((out_first, out_first))
                    out_last = np.concatenate((out_last, out_last))
                    whom = np.concatenate((whom, whom))
            if end < last[i]:
                others += edges.value[cursor]
            begin = end + 1
        add(edges, first[i], step)
        add(edges, last[i] + 1, -step)
    return out_first[:found], out_last[:found], whom[:found]


@kernel
def not_asked(edges: Ordered, first: I64, last: I64, own: int) -> tuple[I64, I64]:
    """The parts of ranges that nobody asks for, or only the link whose step is `own`."""
    out_first, out_last, found = np.empty(len(first) + 8, np.int64), np.empty(len(first) + 8, np.int64), 0
    for i in range(len(first)):
        begin, is_open = first[i], False
        cursor = floor_cursor(edges, begin)
        asked = sum_until(edges, cursor)
        while begin <= last[i]:
            cursor, end = next_cursor(edges, cursor), last[i]
            if cursor != NONE:
                end = min(end, edges.key[cursor] - 1)
            if asked != 0 and asked != own:
                is_open = False
            elif is_open:
                out_last[found - 1] = end
            else:
                if found == len(out_first):
                    out_first, out_last = np.concatenate((out_first, out_first)), np.concatenate((out_last, out_last))
                out_first[found], out_last[found] = begin, end
                found, is_open = found + 1, True
            if end < last[i]:
                asked += edges.value[cursor]
            begin = end + 1
    return out_first[:found], out_last[:found]
