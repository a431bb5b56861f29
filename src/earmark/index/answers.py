"""The answers of a batch from those of its parts: places without gaps, in the order of events, in room that grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from earmark.errors import TooManyAnswers
from earmark.flat.machine import at
from earmark.flat.types import F64, I32, I64
from earmark.index.ranking import NO_SLOT, Heaps
from earmark.jit import kernel

GENEROUS = 1.2
"""Room is made for this many times what the events so far let expect."""
MOST_ANSWERS = 50_000_000
"""Answers that one search may give; more are asked for in parts."""
LONG_ANSWERS = 64
"""Answers that are longer than this are put in order event by event, not slot by slot."""
SLOT_BITS = 32
"""Number of bits of the slot, in an answer that names its event."""


def check_room(answers: int) -> None:
    """Raise when a search has more answers than one may have."""
    if answers > MOST_ANSWERS:
        raise TooManyAnswers(f"there are more than {MOST_ANSWERS:,} answers")


def pointers_of(counts: I64) -> I64:
    """Where the answers of each event begin, and the last end, from how many each has."""
    pointers = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=pointers[1:])
    return pointers


def chained(parts: Sequence[Any]) -> Any:
    """Arrays one after another; the array itself where there is one."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def roomier(room: NDArray[Any], found: int, done: int, whole: int) -> NDArray[Any]:
    """More room, with the `found` answers in it that `done` of the `whole` search has given."""
    check_room(found)
    expected = int(GENEROUS * found / max(1, done) * whole)
    grown = np.empty(max(2 * len(room), min(MOST_ANSWERS, expected)), room.dtype)
    grown[:found] = room[:found]
    return grown


def event_major(coded: I64) -> I32:
    """Slots by event, ascending, from answers that name their event: (event << SLOT_BITS) | slot."""
    return np.sort(coded).astype(np.int32)


def merged(counts: I64, slots: I32, more: I64, others: I32) -> tuple[I64, I32]:
    """Two answers to the same events as one: (answers per event, slots), ascending for each event."""
    if not len(others):
        return counts, slots
    both = np.empty(len(slots) + len(others), np.int32)
    merge_runs(counts, slots, more, others, both)
    return counts + more, both


@kernel
def merge_runs(counts: I64, slots: I32, more: I64, others: I32, both: I32) -> None:
    """Merge the ascending slots of each event with its ascending others."""
    i = j = 0
    for e in range(len(counts)):
        last, last_other = i + counts[e], j + more[e]
        while i < last or j < last_other:
            if j == last_other or (i < last and at(slots, i) < at(others, j)):
                both[i + j] = at(slots, i)
                i += 1
            else:
                both[i + j] = at(others, j)
                j += 1


def ranked(heaps: Heaps, k: int, floored: bool = False) -> tuple[I64, I32, F64]:
    """What sorted heaps of k places hold, which are not written to any more: (how many each, slots, scores).

    `floored`: the heaps began with a floor, whose entries are left out; they are behind all answers.
    """
    size = heaps.size
    if floored:
        answers = (heaps.slot != NO_SLOT).reshape(len(size), k) & (np.arange(k) < size[:, None])
        size = answers.sum(axis=1)
    return without_gaps(k, size, heaps.slot, heaps.score)


def without_gaps(k: int, size: I64, slot: I32, score: F64) -> tuple[I64, I32, F64]:
    """The first `size` of the k places of each event: (how many each, slots, scores)."""
    if not (size == k).all():
        kept = (np.arange(k) < size[:, None]).ravel()
        slot, score = slot[kept], score[kept]
    return size, slot, score


def in_event_order(order: I32 | None, pointers: I64, *columns: NDArray[Any]) -> tuple[Any, ...]:
    """(event_ptr, *columns) of answers to events in this order, in the order of the events' numbers."""
    if order is None:
        return pointers, *columns
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    start = pointers_of(np.diff(pointers)[place])
    if start[-1] > LONG_ANSWERS * len(order):
        ends = list(zip(pointers[place].tolist(), pointers[place + 1].tolist(), strict=True))
        return start, *(np.concatenate([column[a:b] for a, b in ends]) for column in columns)
    positions = np.arange(start[-1]) + np.repeat(pointers[place] - start[:-1], np.diff(start))
    return start, *(column[positions] for column in columns)
