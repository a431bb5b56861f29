"""ArrayIndex: every search of every index. An index adds how it is built, and its kernels.

    events ── order, groups ──> kernel(searched, asked, scratch, ...) ──> room that grows, heaps ──> answers by event

A subclass declares what differs (`kernels.py` has the shape of kernels):

    _match_kernel        finds all that match
    _rank_kernel         finds the k best; None: what matches is scored, and the best are kept
    _combined_kernel()   finds the k best by another score than the sum, where the structure has bounds for that
    _one_kernel          finds all that match a single event, where another way is quicker for that
    _new_scratch()       working memory for one search; kernels leave it as they found it, so that it is used again
    _relaxed_by_scan     relaxed search, in which any constraint may hold, is that of a scan
    _residual            slots that the structure does not hold, and that are scanned
    _order(events)       in which order to ask the events of a batch
    _scan_is_quicker()   whether a scan should answer a batch
    _lanes               how many events a kernel takes at once, where they share its work
    _shares_counted      whether the counters of fewer events at once would be others

Invariant: an index is a NamedTuple of read-only arrays over a table that never changes, so any number of threads may
search it: each search has scratch of its own. Updates are for a copy that no other thread holds yet.
Threads: the groups of a batch go to several (`threads=`), each with scratch and room of its own. Answers and counters
are those of one thread: events that share counted work stay in one group.
Complexity: that of the kernels; a call from Python costs 0.1 to 0.3 µs for each array that a kernel is given.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from earmark.errors import EarmarkError
from earmark.events.arrays import EventArrays
from earmark.events.choice import some_events
from earmark.flat import bits
from earmark.flat.arrays import F64, I32, I64, U64, pointers_of, read_only
from earmark.flat.pinned import Pinned
from earmark.index.answers import chained, check_room, event_major, in_event_order, merged, roomier
from earmark.index.combined import rank_all, rank_rows
from earmark.index.contract import Adaptation, Floor, Work
from earmark.index.counters import COUNTERS, MATCHED, SCORED
from earmark.index.kernels import Asked, Matches, Searched, entrance_of, run
from earmark.index.marks import rank_matches
from earmark.index.one import OneEvent
from earmark.index.ranking import new_heaps, ranked
from earmark.index.stored import from_stored
from earmark.jit import BOUNDS, JIT
from earmark.segment.arrays import SegmentArrays
from earmark.segment.combine import BY_SUM, Combination
from earmark.segment.evaluate import NO_LIFE
from earmark.threads import RUNS, cores, in_parallel, runs_of

A = TypeVar("A", bound=tuple[Any, ...])

SPARES = max(4, cores() + 1)
"""Scratch kept for the next searches: enough for each thread of one."""
TASTED, WORTHWHILE, MANY_EVENTS = 16, 1e-3, 512
"""The first events of a batch show what all will take: several threads search where that is at least this many seconds.
This many events are worth it whatever they take.
"""
FEW_SLOTS, FEW_LANES = 1 << 12, 64
"""Fewer slots, and fewer events that share work, are searched by one thread."""
FIRST_ROOM, FEW_EVENTS = 1 << 12, 64
"""Slots that a search makes room for at first, and for how many events at most; of more events in proportion."""
HEAP_ENTRIES = 1 << 22
"""Ranked search takes fewer events at a time when k is so large that their heaps would exceed this."""
MATCHED_AT_ONCE = 512
"""Events whose matches are held while the best are chosen, where there is no rank kernel."""
OBSERVED, REMEMBERED, DRIFT = 256, 4096, 4.0
"""Events after which work tells, after which those before count half, and how many times the planned work is too much.
"""
EVERY = 64
"""One single event in 64 is observed."""
NO_COUNTS: I64 = np.zeros(COUNTERS, np.int64)


class ArrayIndex(Generic[A]):
    """An index that is a NamedTuple of arrays over a table."""

    is_updatable: ClassVar[bool] = False
    """Whether `copy`, `insert` and `remove` follow a table without a build."""
    is_adaptive: ClassVar[bool] = False
    """Whether `adapt` learns from events."""
    plan: Any = None
    """Why it was chosen, where `auto` chose it (`auto/plan.py`)."""

    _kind: ClassVar[type[Any]]
    """The NamedTuple of arrays."""
    _match_kernel: ClassVar[Callable[..., tuple[int, int]]]
    _rank_kernel: ClassVar[Callable[..., None] | None] = None
    _one_kernel: ClassVar[Callable[..., tuple[int, int]] | None] = None
    _relaxed_by_scan: ClassVar[bool] = False
    _slot_major: ClassVar[bool] = False
    _lanes: ClassVar[int | None] = None
    _shares_counted: ClassVar[bool] = True
    _counters: ClassVar[int] = COUNTERS

    _table: SegmentArrays
    _arrays: A
    _scan: ArrayIndex[Any]
    """Set by those that let a scan do a part."""
    _residual: U64 | None = None
    _first_slot = 0
    _enter: Callable[..., tuple[int, int]] | None = None
    """The match kernel for a single event, once it is known; `_enter_rank` likewise."""
    _rest: tuple[U64 | None, U64] = (None, bits.all_set(0))
    """The eligible slots of the last single event, and those among them that are residual."""
    _enter_rank: Callable[..., None] | None = None
    _observed: tuple[int, float] = (0, 0.0)
    """Recent events, and the work that they took, where what was planned for an event counts as 1."""
    _is_by_scan = False
    """Whether the last batch was left to the scan."""
    _turn = 0

    def __init__(self, table: SegmentArrays, arrays: A) -> None:
        self._hold(table, arrays)

    def _hold(self, table: SegmentArrays, arrays: A) -> None:
        """Be the index of these arrays over this table."""
        self._table = read_only_table(table)
        self._arrays = type(arrays)(*map(read_only, arrays)) if arrays else arrays
        self._pinned: Pinned | None = None
        self._spare: deque[Pinned] = deque(maxlen=SPARES)
        self._enter = self._enter_rank = None
        self._counted: Sequence[int] | I64 = NO_COUNTS

    @property
    def _searched(self) -> Pinned:
        """What kernels are given of the index. Hold it during a call: two threads may make it at the same time."""
        if self._pinned is None:
            self._pinned = Pinned(Searched(self._table, self._read_by_kernels()))
        return self._pinned

    @staticmethod
    def _further_kernels() -> tuple[Any, ...]:
        """Kernels beside those above without which an index is not ready to be searched."""
        return ()

    # --- making --------------------------------------------------------------------------------------------------

    @classmethod
    def restore(cls, table: SegmentArrays, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The index whose stored arrays these are. AssertionError where kernels could not rely on them. O(size)."""
        restored = from_stored(cls._kind, arrays)
        cls._check_arrays(restored, read_only_table(table))
        return cls(table, restored)

    @classmethod
    def _check_arrays(cls, arrays: A, table: SegmentArrays) -> None:
        """Raise AssertionError unless kernels can rely on the arrays, over this table."""
        raise NotImplementedError

    # --- looking at it -------------------------------------------------------------------------------------------

    @property
    def arrays(self) -> A:
        """The flat arrays that are the index, read-only; empty when it has none beyond the table."""
        return self._arrays

    @property
    def nbytes(self) -> int:
        """Bytes beyond the table."""
        return sum(array.nbytes for array in self._arrays)

    @property
    def work(self) -> Work:
        """What the last call did; the docstring of the class says what it counts, where that is not plain."""
        return Work.counted(self._counted)

    @property
    def has_drifted(self) -> bool:
        """Whether searches take much more work than was planned for."""
        return self._observed[0] >= OBSERVED and self.drift > DRIFT

    @property
    def drift(self) -> float:
        """How many times the planned work searches take; 1 where that is not known."""
        events, work = self._observed
        return work / events if events and self.plan is not None and self.plan.work else 1.0

    def _observe(self, counted: Sequence[int] | I64, events: int, k: int = 0, alone: bool = False) -> None:
        """Note how much work a call took for its events, by its counters, where such calls were planned for."""
        if self.plan is not None and self.plan.work and bool(self.plan.k) == bool(k):
            before, planned = self._observed, self.plan.planned_work(alone)
            events, work = before[0] + events, before[1] + Work.counted(counted).nanoseconds / planned
            if events > REMEMBERED:  # events of long ago must not outweigh those of today
                events, work = REMEMBERED // 2, work * (REMEMBERED // 2) / events
            self._observed = events, work

    def describe(self) -> dict[str, Any]:
        """What was chosen when the index was built, by name; empty when there was nothing to choose."""
        return {}

    def check(self) -> None:
        """Raise AssertionError, naming what is broken, unless the invariant of the structure holds."""
        raise NotImplementedError

    # --- changing ------------------------------------------------------------------------------------------------

    def copy(self) -> Self:
        """An index of its own with the same answers, to be changed before others see it."""
        raise _not_offered(self, "change")

    def insert(self, table: SegmentArrays, slots: I32) -> None:
        """Take in new slots of a table that has grown; the older slots are as they were."""
        raise _not_offered(self, "change")

    def remove(self, slots: I32) -> None:
        """Forget slots. They are no longer eligible, so this is about space and speed, not about answers."""
        raise _not_offered(self, "change")

    def adapt(self, events: EventArrays) -> Adaptation:
        """Learn from these events, and place again what they show to be badly placed; for a copy."""
        raise _not_offered(self, "adapt to events")

    def build_learned(self, table: SegmentArrays, old: ArrayIndex[Any]) -> Self | None:
        """Build an index of a table with the options of this one and what another has learned from events.

        None where the other has learned nothing that a build could use.
        """
        return None

    # --- searching -----------------------------------------------------------------------------------------------

    def match(self, events: EventArrays, eligible: U64, e: int = 0, life: int = NO_LIFE) -> I32:
        """Eligible slots that match event e, ascending.

        `life`, here and below: the number of the attribute whose value is the time of an event. Slots with a life span
        that this does not meet are left out; by default all are taken to be living.
        """
        check_event(events, e)
        asked = Asked(read_only_events(events), read_only(eligible), e, e + 1, self._first_slot, life=life)
        _, slots, self._counted = self._matches(asked)
        return slots

    def match_many(self, events: EventArrays, eligible: U64, threads: int = 1, life: int = NO_LIFE) -> tuple[I64, I32]:
        """Per event the eligible slots that match, ascending: (event_ptr, slots)."""
        events = read_only_events(events)
        asked = Asked(events, read_only(eligible), 0, len(events.start) - 1, self._first_slot, life=life)
        order = self._order(events)
        sorted_asked = asked if order is None else asked._replace(events=some_events(events, order))
        self._is_by_scan = self._scan_is_quicker(sorted_asked)
        if self._is_by_scan:
            counts, slots, self._counted = self._scan._matches(asked, threads)
            return pointers_of(counts), slots
        counts, slots, counted = self._matches(sorted_asked, threads)
        self._counted = counted
        self._observe(counted, asked.last)
        pointers, slots = in_event_order(order, pointers_of(counts), slots, threads=threads)
        return pointers, slots

    def top_k(
        self,
        events: EventArrays,
        k: int,
        eligible: U64,
        relaxed: bool = False,
        e: int = 0,
        combination: Combination = BY_SUM,
        life: int = NO_LIFE,
    ) -> tuple[I32, F64]:
        """The at most k best eligible slots for event e, best first: (slots, scores)."""
        check_event(events, e)
        asked = self._asked(events, k, eligible, relaxed, e, e + 1)._replace(life=life)
        _, slots, scores = self._best(asked, combination=combination)
        return slots, scores

    def top_k_many(
        self,
        events: EventArrays,
        k: int,
        eligible: U64,
        relaxed: bool = False,
        floor: Floor | None = None,
        threads: int = 1,
        combination: Combination = BY_SUM,
        life: int = NO_LIFE,
    ) -> tuple[I64, I32, F64]:
        """Per event the at most k best, best first: (event_ptr, slots, scores).

        `floor`: per event the score and the sequence of the k-th best that was found elsewhere; what is not better is
        left out.
        """
        asked = self._asked(events, k, eligible, relaxed, 0, len(events.start) - 1)._replace(life=life)
        counts, slots, scores = self._best(asked, floor, threads, combination)
        return pointers_of(counts), slots, scores

    # --- a single event ------------------------------------------------------------------------------------------

    def match_one(self, one: OneEvent, eligible: U64, life: int = NO_LIFE) -> list[int]:
        """Eligible slots that a single event matches, ascending."""
        if not JIT:
            return self.match(one.events, eligible, life=life).tolist()  # type: ignore[no-any-return]
        slots, counted = self._found(one, eligible, life)
        self._counted = counted
        self._turn = (self._turn + 1) % EVERY
        if not self._turn and not self._slot_major:  # whose batches share work, by which it was planned
            self._observe(counted, 1, alone=True)
        if self._residual is None:
            return slots
        known = self._rest  # read once: another thread may ask among other slots
        if known[0] is not eligible:
            known = self._rest = eligible, bits.both(eligible, self._residual)
        rest = self._scan.match_one(one, known[1], life)
        self._counted = [a + b for a, b in zip(counted, self._scan._counted, strict=False)]
        return sorted(slots + rest) if rest else slots

    def _found(self, one: OneEvent, eligible: U64, life: int) -> tuple[list[int], Sequence[int]]:
        """What the kernel finds, and its counters."""
        searched, scratch = self._searched, self._spare_scratch()
        one.ask(eligible, self._first_slot, life)
        enter = self._enter
        if enter is None:
            types = (searched.type, one.asked.type, scratch.type, one.matches.type)
            enter = self._enter = entrance_of(type(self)._one_kernel or type(self)._match_kernel, *types)
        keeps_lock = BOUNDS or not self._slot_major or len(self._table.sequence) <= FIRST_ROOM
        while True:
            found, place = enter(searched.address, one.asked.address, scratch.address, one.matches.address, keeps_lock)
            if place:
                break
            one.make_room()
        self._give_back(scratch)
        return one.slots[:found].tolist(), one.counted(self._counters, found)

    def best_of_one(
        self,
        one: OneEvent,
        k: int,
        eligible: U64,
        relaxed: bool,
        combination: Combination = BY_SUM,
        life: int = NO_LIFE,
    ) -> tuple[list[int], list[float]]:
        """The at most k best eligible slots for a single event, best first: (slots, scores)."""
        kernel = type(self)._rank_kernel if combination.is_sum else None
        if not JIT or kernel is None or self._slot_major or (relaxed and self._relaxed_by_scan):
            slots, scores = self.top_k(one.events, k, eligible, relaxed, combination=combination, life=life)
            return slots.tolist(), scores.tolist()
        k = checked_k(k, self._table)
        searched, scratch = self._searched, self._spare_scratch()
        heaps = one.rank(eligible, k, relaxed, life)
        enter = self._enter_rank
        if enter is None:
            types = (searched.type, one.asked.type, scratch.type, heaps.type, one.work.type)
            enter = self._enter_rank = entrance_of(kernel, *types)
        enter(searched.address, one.asked.address, scratch.address, heaps.address, one.work.address, True)
        self._give_back(scratch)
        count = int(heaps.value.size[0])
        self._counted = one.counted(self._counters, 0)
        return heaps.value.slot[:count].tolist(), heaps.value.score[:count].tolist()

    # --- what subclasses declare ---------------------------------------------------------------------------------

    def _read_by_kernels(self) -> Any:
        """What `searched.arrays` is: by default all arrays."""
        return self._arrays

    def _new_scratch(self) -> Any:
        """Working memory for a search."""
        raise NotImplementedError

    def _borrow(self, asked: Asked) -> Pinned:
        """Scratch for a search of these events."""
        return self._spare_scratch()

    def _spare_scratch(self) -> Pinned:
        """Scratch that no other search uses; those in other threads have their own."""
        try:
            return self._spare.pop()
        except IndexError:
            return Pinned(self._new_scratch())

    def _give_back(self, scratch: Pinned) -> None:
        """Keep scratch that a search has left clean for the next; after an exception it is not given back."""
        self._spare.append(scratch)

    def _order(self, events: EventArrays) -> I32 | None:
        """The order in which to ask the events of a batch; None: as they come."""
        return None

    def _scan_is_quicker(self, asked: Asked) -> bool:
        """Whether a scan should answer this batch: exact matching, or ranking where k is not 0."""
        return False

    def _combined_kernel(self, asked: Asked, combination: Combination) -> Any:
        """The rank kernel for a score other than the sum; None: what qualifies is scored, and the best are kept."""
        return None

    def _known(self, eligible: U64) -> U64:
        """The eligible slots that the index knows, of those that its table has."""
        return eligible

    # --- matching ------------------------------------------------------------------------------------------------

    def _matches(self, asked: Asked, threads: int = 1) -> tuple[I64, I32, I64]:
        """(answers per event, slots by event, counters)."""
        counts, slots, counters = self._by_group(
            asked, self._match_group, threads, self._lanes, bounded=True, divided=not self._shares_counted
        )
        if self._residual is None:
            return counts, slots, counters
        rest = asked._replace(eligible=bits.both(asked.eligible, self._residual))
        more, scanned, scan_counters = self._scan._matches(rest, threads)
        counters[: len(scan_counters)] += scan_counters
        return *merged(counts, slots, more, scanned), counters

    def _match_group(self, asked: Asked) -> tuple[I64, I32, I64]:
        """The same for as many events as a kernel takes at once."""
        counters, counts = np.zeros(self._counters, np.int64), np.zeros(asked.last - asked.first, np.int64)
        begin, end = (asked.slot, len(self._table.sequence)) if self._slot_major else (asked.first, asked.last)
        first_room = FIRST_ROOM * max(FEW_EVENTS, len(counts)) // FEW_EVENTS
        room: Any = np.empty(first_room, np.int64 if self._slot_major else np.int32)
        matches = Matches(counts, room, counters)
        scratch = self._borrow(asked)
        found = 0
        while True:
            kernel = type(self)._match_kernel
            more, place = run(kernel, self._searched, Pinned(asked), scratch, Pinned(matches))
            found += more
            if place == end:
                break
            room = roomier(room, found, place - begin, end - begin)
            if self._slot_major:
                asked, matches = asked._replace(slot=place), Matches(counts, room[found:], counters)
            else:
                asked = asked._replace(first=place)
                matches = Matches(counts[place - begin :], room[found:], counters)
        self._give_back(scratch)
        counters[MATCHED] = found
        return counts, event_major(room[:found]) if self._slot_major else room[:found], counters

    def _by_group(
        self,
        asked: Asked,
        run: Callable[[Asked], tuple[Any, ...]],
        threads: int,
        lanes: int | None,
        most: int | None = None,
        bounded: bool = False,
        divided: bool = False,
    ) -> tuple[Any, ...]:
        """Run a search on groups of events, by several threads where that is worthwhile, and chain its answers.

        A group has `lanes` events, where these share work, and at most `most`; `divided`: fewer where that gives each
        thread a group. The last of what `run` returns are counters, and are added up. `bounded`: answers may be too
        many.
        """
        first, last = asked.first, asked.last
        most = max(1, min(lanes or last, most or last))
        parts: list[tuple[Any, ...]] = []
        found: list[int] = []

        def counted(group: Asked) -> tuple[Any, ...]:
            part = run(group)
            found.append(len(part[1]))
            if bounded:
                check_room(sum(found))
            return part

        if lanes is not None and len(self._table.sequence) < FEW_SLOTS:
            threads = 1
        if lanes is None and threads > 1 and last - first < MANY_EVENTS:
            begun, tasted = perf_counter(), min(TASTED, most, last - first)
            parts.append(counted(asked._replace(last=first + tasted)))
            threads = threads if (perf_counter() - begun) * (last - first) >= WORTHWHILE * tasted else 1
            first += tasted
        parted = -(-(last - first) // most)
        if lanes is None and threads > 1:
            parted = max(parted, RUNS * threads)
        elif divided and threads > 1:
            parted = max(parted, min(-(-parted // threads) * threads, (last - first) // FEW_LANES))
        groups = [asked._replace(first=first + i, last=first + j) for i, j in runs_of(last - first, parted) if i < j]
        groups = groups if groups or parts else [asked]
        parts += in_parallel(counted, groups, threads) if threads > 1 else map(counted, groups)
        *columns, counters = zip(*parts, strict=True)
        return *map(chained, columns), counters[0] if len(counters) == 1 else np.sum(counters, axis=0)

    # --- ranking -------------------------------------------------------------------------------------------------

    def _asked(self, events: EventArrays, k: int, eligible: U64, relaxed: bool, first: int, last: int) -> Asked:
        """A ranked search, checked."""
        events = read_only_events(events)
        heaviest = float(events.weight.max()) if len(events.weight) else 1.0
        k = checked_k(k, self._table)
        return Asked(events, read_only(eligible), first, last, self._first_slot, k, bool(relaxed), heaviest)

    def _best(
        self, asked: Asked, floor: Floor | None = None, threads: int = 1, combination: Combination = BY_SUM
    ) -> tuple[I64, I32, F64]:
        """(answers per event, slots, scores) of the k best, by the way that suits."""

        def ranks(index: ArrayIndex[Any], asked: Asked, floor: Floor | None) -> tuple[I64, I32, F64]:
            if combination.is_sum:
                counts, slots, scores, counted = index._ranks(asked, floor, threads=threads)
            else:
                counts, slots, scores, counted = index._combined_ranks(asked, floor, threads, combination)
            self._counted = counted
            if index is self and floor is None and not asked.relaxed:
                self._observe(counted, asked.last - asked.first, asked.k)
            return counts, slots, scores

        if asked.relaxed and self._relaxed_by_scan:
            return ranks(self._scan, asked._replace(eligible=self._known(asked.eligible)), floor)
        order = self._order(asked.events) if asked.last - asked.first > 1 else None
        sorted_asked, sorted_floor = asked, floor
        if order is not None:
            sorted_asked = asked._replace(events=some_events(asked.events, order))
            sorted_floor = None if floor is None else Floor(floor[0][order], floor[1][order])
        self._is_by_scan = self._scan_is_quicker(sorted_asked)
        if self._is_by_scan:
            return ranks(self._scan, asked, floor)
        counts, slots, scores = ranks(self, sorted_asked, sorted_floor)
        if order is not None:
            pointers, slots, scores = in_event_order(order, pointers_of(counts), slots, scores, threads=threads)
            counts = np.diff(pointers)
        return counts, slots, scores

    def _combined_ranks(
        self, asked: Asked, floor: Floor | None, threads: int, combination: Combination
    ) -> tuple[I64, I32, F64, I64]:
        """`_ranks` by another score than the sum."""
        asked = asked._replace(code=combination.code)
        kernel = self._combined_kernel(asked, combination)
        if kernel is not None:
            return self._ranks(asked, floor, kernel, threads)
        rank, lanes = (rank_rows, None) if asked.relaxed else (rank_all, self._lanes)
        if not asked.relaxed and self._residual is not None:
            lanes = MATCHED_AT_ONCE  # which share the scan of what is residual
        most = max(1, min(HEAP_ENTRIES // asked.k, MATCHED_AT_ONCE))
        ranks = self._by_group(asked, lambda group: rank(self, group, floor, combination), threads, lanes, most)
        return ranks

    def _ranks(
        self, asked: Asked, floor: Floor | None, kernel: Callable[..., None] | None = None, threads: int = 1
    ) -> tuple[I64, I32, F64, I64]:
        """(answers per event, slots, scores, counters) of the k best."""
        kernel = kernel or type(self)._rank_kernel
        lanes, most = self._lanes, max(1, HEAP_ENTRIES // asked.k)
        if kernel is None:
            most = min(most, MATCHED_AT_ONCE)
            lanes = lanes if self._residual is None else MATCHED_AT_ONCE  # which share the scan of what is residual
        divided = not self._shares_counted
        return self._by_group(
            asked, lambda group: self._rank_group(group, floor, kernel), threads, lanes, most, divided=divided
        )

    def _rank_group(
        self, asked: Asked, floor: Floor | None, kernel: Callable[..., None] | None
    ) -> tuple[I64, I32, F64, I64]:
        """The same for as many events as there are heaps at once."""
        lanes, k = asked.last - asked.first, asked.k
        if kernel is None:
            counts, slots, counters = self._matches(asked)
            k = min(k, max(1, int(counts.max(initial=0))))
            heaps = new_heaps(lanes, k, floor, asked.first)
            rank_matches(self._table, asked._replace(k=k), counts, slots, heaps)
            counters[SCORED] += len(slots)
        else:
            counters = np.zeros(self._counters, np.int64)
            heaps = new_heaps(lanes, k, floor, asked.first)
            scratch = self._borrow(asked)
            run(kernel, self._searched, Pinned(asked), scratch, Pinned(heaps), Pinned(counters))
            self._give_back(scratch)
        return *ranked(heaps, k, floor is not None), counters


def _not_offered(index: ArrayIndex[Any], what: str) -> EarmarkError:
    return EarmarkError(f"the index {type(index).__name__} does not {what}")


def read_only_table(table: SegmentArrays) -> SegmentArrays:
    """Read-only views of a table's columns."""
    return SegmentArrays._make(read_only(column) for column in table)


def read_only_events(events: EventArrays) -> EventArrays:
    """Read-only views of a batch's columns."""
    return EventArrays._make(read_only(column) for column in events)


def check_event(events: EventArrays, e: int) -> None:
    """Raise unless the batch has an event with this number."""
    if not 0 <= e < len(events.start) - 1:
        raise EarmarkError(f"there is no event {e} in a batch of {len(events.start) - 1}")


def checked_k(k: int, table: SegmentArrays) -> int:
    """How many answers to make room for: k, and no more than there are slots."""
    if k < 1:
        raise EarmarkError(f"k must be at least 1, got {k}")
    return min(k, max(1, len(table.sequence)))
