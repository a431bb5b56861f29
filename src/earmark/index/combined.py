"""The k best by a score other than the sum (`segment/combine.py`): what is right for every index.

    exact      all matches of the index, scored, of which the k best are kept
    relaxed    every eligible slot, scored, of which the k best are kept

An index whose structure can do better has a rank kernel of its own for these scores (`ArrayIndex._combined_kernel`):
the BE*-Tree bounds its nodes, and the scored trees' Threshold Algorithm its lists. The bounds that others keep, for
partitions, blocks and lists by whole score, are bounds on sums, so they do not prune here.

Complexity: exact, that of matching and O(log k) per match; relaxed, O(table).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from earmark.errors import TooManyAnswers
from earmark.flat.arrays import F64, I32, I64
from earmark.flat.machine import at, ctz64
from earmark.index.contract import Floor
from earmark.index.counters import MATCHED, SCORED
from earmark.index.kernels import Asked, push_living
from earmark.index.ranking import Heaps, new_heaps, push, ranked, sort_heap
from earmark.jit import kernel
from earmark.segment.arrays import SegmentArrays
from earmark.segment.combine import Combination, Scoring, scoring_of
from earmark.segment.evaluate import eligible_word

if TYPE_CHECKING:
    from earmark.index.driver import ArrayIndex

Ranks = tuple[I64, I32, F64, I64]


def rank_all(index: ArrayIndex[Any], asked: Asked, floor: Floor | None, combination: Combination) -> Ranks:
    """(answers per event, slots, scores, counters) of the k best of all matches.

    Where the events have too many matches to hold at once, half of the events at a time.
    """
    try:
        counts, slots, counters = index._matches(asked)
    except TooManyAnswers:
        if asked.last - asked.first == 1:
            raise
        middle = (asked.first + asked.last) // 2
        halves = asked._replace(last=middle), asked._replace(first=middle)
        *columns, counted = zip(*(rank_all(index, half, floor, combination) for half in halves), strict=True)
        return *map(np.concatenate, columns), np.sum(counted, axis=0)
    k = min(asked.k, max(1, int(counts.max(initial=0))))
    heaps = new_heaps(asked.last - asked.first, k, floor, asked.first)
    kernels = _kernels_of(scoring_of(combination))
    kernels.rank_matches(index._table, asked._replace(k=k), counts, slots, heaps)
    counters[SCORED] += len(slots)
    return *ranked(heaps, k, floor is not None), counters


def rank_rows(index: ArrayIndex[Any], asked: Asked, floor: Floor | None, combination: Combination) -> Ranks:
    """(answers per event, slots, scores, counters) of the k best of all slots that qualify."""
    counters = np.zeros(index._counters, np.int64)
    heaps = new_heaps(asked.last - asked.first, asked.k, floor, asked.first)
    _kernels_of(scoring_of(combination)).rank_rows(index._table, asked, heaps, counters)
    return *ranked(heaps, asked.k, floor is not None), counters


class Kernels(NamedTuple):
    """The two kernels, for one scoring."""

    rank_matches: Any
    rank_rows: Any


@cache
def _kernels_of(scoring: Scoring) -> Kernels:
    slot_score = scoring.slot_score

    @scoring.compiled(kernel)
    def rank_matches(table: SegmentArrays, asked: Asked, counts: I64, slots: I32, heaps: Heaps) -> None:
        """Leave in heap e - asked.first the k best of the matches of event e, best first."""
        i = 0
        for lane in range(len(counts)):
            for _ in range(counts[lane]):
                slot = slots[i]
                _, score = slot_score(table, slot, asked.events, asked.first + lane, False, asked.code)
                push(heaps, lane, asked.k, score, table.sequence[slot], slot)
                i += 1
            sort_heap(heaps, lane * asked.k, heaps.size[lane])

    @scoring.compiled(kernel)
    def rank_rows(table: SegmentArrays, asked: Asked, heaps: Heaps, work: I64) -> None:
        """Leave in heap e - asked.first the k best of all slots that qualify for event e, best first."""
        slots = len(table.clause_start) - 1
        for e in range(asked.first, asked.last):
            lane = e - asked.first
            for word in range(asked.slot >> 6, min(len(asked.eligible), (slots + 63) >> 6)):
                bits = eligible_word(asked.eligible, word, asked.slot, slots)
                while bits:
                    slot = (word << 6) + ctz64(bits)
                    bits &= bits - np.uint64(1)
                    qualifies, score = slot_score(table, slot, asked.events, e, asked.relaxed, asked.code)
                    work[SCORED] += 1
                    if qualifies:
                        work[MATCHED] += 1
                        push_living(heaps, table, asked, e, score, at(table.sequence, slot), slot)
            sort_heap(heaps, lane * asked.k, heaps.size[lane])

    return Kernels(rank_matches, rank_rows)
