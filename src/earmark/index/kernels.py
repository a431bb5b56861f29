"""The one shape of search kernels: what is searched, what is asked, working memory, and where answers go.

    match(searched, asked, scratch, matches)        -> (how many slots were written, where to resume)
    rank(searched, asked, scratch, heaps, work)     -> None; the heap of event e is lane e - asked.first

A match kernel writes the slots of the events asked.first .. asked.last, ascending and once for each event, and counts
them in matches.counts[e - asked.first]. Where `matches.slots` might not hold the answer of an event it stops, and
returns that event; the driver makes room and calls again with `first` set to it. A kernel that goes slot by slot for
all events at once (`scan/`) writes (event - asked.first) << 32 | slot, begins at asked.slot and returns a slot.

A rank kernel finds heaps that may be full already: with a floor, they hold k entries of slot `NO_SLOT`, which answers
must beat. It leaves each sorted, best first.

Neither kind of kernel asks when an event happened in its search. Slots whose life span is over, or has not begun, leave
a match kernel's answer behind it (`keep_living`); a rank kernel keeps its answers by `push_living`.

Either leaves its scratch as it found it, and adds to `work` in the order of `counters.py`.

A kernel is a part of its entrance, which takes addresses (`flat/pinned.py`): `run` calls it, `entrance_of` is for who
calls it again and again. It gives up Python's lock, unless it is told to keep it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

from earmark.events.arrays import EventArrays
from earmark.flat.arrays import I64, U64
from earmark.flat.gil import reacquire, release
from earmark.flat.pinned import Pinned, unpinned
from earmark.index.ranking import Heaps, enters, push
from earmark.jit import BOUNDS, JIT, entrance, inlined
from earmark.locks import remade_rlock
from earmark.segment.arrays import SegmentArrays
from earmark.segment.evaluate import NO_LIFE, is_living, moment_of

A = TypeVar("A")
_entering = remade_rlock()
SLOT_BITS = 32
"""Number of bits of the slot, in an answer that names its event."""
SLOT_MASK = (1 << SLOT_BITS) - 1
_MATCHING = 4
"""How many arguments a match kernel has."""


class Searched(NamedTuple, Generic[A]):
    """What is searched: a segment's arrays, and of the index what its kernels read."""

    table: SegmentArrays
    arrays: A


class Asked(NamedTuple):
    """What is asked: the events first .. last of a batch, by which slots they may be answered, and how."""

    events: EventArrays
    eligible: U64
    first: int
    last: int
    slot: int = 0
    """Slots below are left out; only a scan looks at it."""
    k: int = 0
    relaxed: bool = False
    heaviest: float = 1.0
    """No event weight of the batch is greater."""
    code: int = 0
    """How the terms of a score are combined, by name (`segment/combine.py`)."""
    life: int = NO_LIFE
    """The number of the attribute whose value is the time of an event, where slots have life spans."""


class Matches(NamedTuple):
    """Where matches go."""

    counts: I64
    slots: Any
    work: I64


class TopK(NamedTuple):
    """The arguments of a rank kernel together, for the functions it is made of."""

    searched: Searched[Any]
    asked: Asked
    scratch: Any
    heaps: Heaps
    work: I64


@inlined
def lives_at(table: SegmentArrays, asked: Asked, e: int, slot: int) -> bool:
    """Whether the life span of a slot meets event e, or does not matter."""
    if asked.life == int(NO_LIFE):
        return True
    first, last = moment_of(asked.events, e, asked.life)
    return is_living(table, slot, first, last)


@inlined
def push_living(
    heaps: Heaps, table: SegmentArrays, asked: Asked, e: int, score: float, sequence: int, slot: int
) -> bool:
    """Keep an answer to event e if it is among the k best so far and its life span meets the event; whether it is."""
    lane = e - asked.first
    if asked.life != int(NO_LIFE) and not enters(heaps, lane, asked.k, score, sequence):
        return False
    return lives_at(table, asked, e, slot) and push(heaps, lane, asked.k, score, sequence, slot)


@inlined
def keep_living(table: SegmentArrays, asked: Asked, matches: Matches, found: int, place: int) -> int:
    """Keep those of the answers that a match kernel has found whose life span meets their event; how many."""
    if asked.life == int(NO_LIFE) or found == 0:
        return found
    slots, counts, kept = matches.slots, matches.counts, 0
    if slots.itemsize == 8:  # each answer names its event
        for i in range(found):
            lane, slot = slots[i] >> int(SLOT_BITS), slots[i] & int(SLOT_MASK)
            first, last = moment_of(asked.events, asked.first + lane, asked.life)
            if is_living(table, slot, first, last):
                slots[kept] = slots[i]
                kept += 1
            else:
                counts[lane] -= 1
        return kept
    lanes, begin = 1 if asked.last - asked.first == 1 else place - asked.first, 0
    for lane in range(lanes):
        end, before = found if lanes == 1 else begin + counts[lane], kept
        first, last = moment_of(asked.events, asked.first + lane, asked.life)
        for i in range(begin, end):
            if is_living(table, slots[i], first, last):
                slots[kept] = slots[i]
                kept += 1
        counts[lane], begin = kept - before, end
    return kept


def run(kernel: Callable[..., Any], *arguments: Pinned) -> Any:
    """Call a match or rank kernel, without Python's lock."""
    if not JIT:
        values = [one.value for one in arguments]
        answer = kernel(*values)
        if len(values) != _MATCHING:
            return answer
        return keep_living(values[0].table, values[1], values[3], *answer), answer[1]
    return entrance_of(kernel, *(one.type for one in arguments))(*(one.address for one in arguments), BOUNDS)


def entrance_of(kernel: Any, *types: Any) -> Callable[..., Any]:
    """What calls a kernel with the addresses of arguments of these types, and whether to keep Python's lock."""
    with _entering:  # one thread makes it, and the others wait for it
        return _entrance_of(kernel, *types)


@cache
def _entrance_of(kernel: Any, *types: Any) -> Callable[..., Any]:
    from numba.types import boolean

    lock_is_free = kernel.targetoptions.get("_nrt", True)  # a kernel that allocates is called without the lock

    def enter_match(searched: Any, asked: Any, scratch: Any, matches: Any, keeps_lock: bool) -> tuple[int, int]:
        state = release(not keeps_lock and not lock_is_free)
        found, place = kernel(unpinned(searched), unpinned(asked), unpinned(scratch), unpinned(matches))
        found = keep_living(unpinned(searched).table, unpinned(asked), unpinned(matches), found, place)
        reacquire(state)
        return found, place

    def enter_rank(searched: Any, asked: Any, scratch: Any, heaps: Any, work: Any, keeps_lock: bool) -> None:
        state = release(not keeps_lock and not lock_is_free)
        kernel(unpinned(searched), unpinned(asked), unpinned(scratch), unpinned(heaps), unpinned(work))
        reacquire(state)

    return entrance(enter_match if len(types) == _MATCHING else enter_rank, kernel, (*types, boolean))
