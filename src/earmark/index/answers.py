"""The answers of a batch from those of its parts: places without gaps, group after group, in room that grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from earmark.errors import TooManyAnswers
from earmark.flat.types import F64, I32, I64
from earmark.index.ranking import Heaps

GENEROUS = 1.2
"""Room for so many times what the events so far let expect."""


MOST_ANSWERS = 50_000_000
"""Answers that one search may give; more are asked for in parts."""


def check_room(answers: int) -> None:
    """Raise when a search has more answers than one may have."""
    if answers > MOST_ANSWERS:
        raise TooManyAnswers(f"there are more than {MOST_ANSWERS:,} answers")


def pointers_of(counts: I64) -> I64:
    """Where the answers of each event begin, and the last end, from how many each has."""
    pointers = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=pointers[1:])
    return pointers


def chained(parts: Sequence[Any], dtype: type) -> Any:
    """Arrays one after another; the array itself where there is one, an empty one where there is none."""
    return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, dtype)])


def roomier(out: I32, found: int, done: int, events: int) -> I32:
    """More room, with the `found` answers of the first `done` of so many events in it."""
    check_room(found)
    grown = np.empty(max(2 * len(out), min(MOST_ANSWERS, int(GENEROUS * found / max(1, done) * events))), np.int32)
    grown[:found] = out[:found]
    return grown


def ranked(heaps: Heaps, k: int) -> tuple[I64, I32, F64]:
    """What heaps of k places hold, which nobody writes to any more: (how many each, slots, scores)."""
    return without_gaps(k, heaps.size, heaps.slot, heaps.score)


def without_gaps(k: int, size: I64, slot: I32, score: F64) -> tuple[I64, I32, F64]:
    """The first `size` of the k places of each event: (how many each, slots, scores)."""
    end = len(size) * k
    slot, score = slot[:end], score[:end]
    if not (size == k).all():
        kept = (np.arange(k) < size[:, None]).ravel()
        slot, score = slot[kept], score[kept]
    return size, slot, score


def together(parts: Sequence[tuple[I64, I32, F64]]) -> tuple[I64, I32, F64]:
    """The ranked answers of groups of events as those of a batch: (event_ptr, slots, scores)."""
    sizes, slots, scores = zip(*parts, strict=True) if parts else ((), (), ())
    return pointers_of(chained(sizes, np.int64)), chained(slots, np.int32), chained(scores, np.float64)
