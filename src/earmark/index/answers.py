"""What kernels answer -> answers by event: room that grows, two answers as one, the order in which events came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from earmark.errors import TooManyAnswers
from earmark.flat.arrays import I32, I64, pointers_of, read_only
from earmark.flat.machine import at
from earmark.jit import kernel
from earmark.threads import in_parallel, runs_of

GENEROUS = 1.2
"""Room is made for this many times what the events so far let expect."""
MOST_ANSWERS = 50_000_000
"""Answers that one search may give; more are asked for in parts."""
MOVED_APIECE = 1 << 15
"""Answers that are worth another thread when they are put in order."""


def check_room(answers: int) -> None:
    """Raise when a search has more answers than one may have."""
    if answers > MOST_ANSWERS:
        raise TooManyAnswers(f"there are more than {MOST_ANSWERS:,} answers")


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


def in_event_order(order: I32 | None, pointers: I64, *columns: NDArray[Any], threads: int = 1) -> tuple[Any, ...]:
    """(event_ptr, *columns) of answers to events in this order, in the order of the events' numbers."""
    if order is None:
        return pointers, *columns
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    start, begin = pointers_of(np.diff(pointers)[place]), pointers[place]
    moved = [np.empty_like(column) for column in columns]

    def move(run: tuple[int, int]) -> None:
        for column, to in zip(columns, moved, strict=True):
            move_runs(begin[slice(*run)], start[run[0] : run[1] + 1], read_only(column), to)

    if threads > 1:
        in_parallel(move, runs_of(len(order), min(threads, int(start[-1]) // MOVED_APIECE)), threads)
    else:
        move((0, len(order)))
    return start, *moved


@kernel
def move_runs(begin: I64, start: I64, column: Any, to: Any) -> None:
    """Copy runs of a column, which begin at `begin`, to where they start in another."""
    for e in range(len(begin)):
        source, target = column[begin[e] :], to[start[e] : start[e + 1]]
        for i in range(len(target)):
            target[i] = source[i]
