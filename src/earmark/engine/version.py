"""A version: one immutable state of a book of subscriptions, which is all that a search looks at.

    schema       attributes, types, keys of constants
    segments     each with its index and without its removed slots (`IndexedSegment`)
                     segment   slots 0 1 2 3 4 5     never changes
                     alive           1 0 1 1 0 1     bitmap; a removal makes another `IndexedSegment`, which notes the
                                                     slot (`since`). The bitmap without it is made for a search
                     index     over all slots        None while the segment is *unsealed*: it takes new rows, is scanned
    uses         by attribute, how many living constraints compare it with a value
    router       says which segments an event can match, where they are shards (router.py)

A change makes the next version, which shares all that did not change; a writer publishes it by one reference store.
So a reader sees all of a change or nothing of it and never waits, and a change that fails has not happened.

Types follow the conditions: a learned type is free again when nothing living uses it. Keys belong to the generation of
a segment's schema; where segments have others than the version, events are encoded for each (`schema_for`).

Invariant (`check`): that of each segment; ids and sequence numbers are those of one living slot; `uses` as counted
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from earmark.engine.router import Router
from earmark.errors import require
from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.flat.arrays import F64, I32, I64, U64, copy_to, frozen
from earmark.index.driver import ArrayIndex
from earmark.index.one import OneEvent
from earmark.index.scan import Scan
from earmark.keys.schema import INT64_MAX, LIFE, Schema
from earmark.lazy import lazy_property
from earmark.segment.arrays import SegmentArrays, gather
from earmark.segment.combine import Combination, scoring_of
from earmark.segment.evaluate import NO_LIFE, score_matches
from earmark.segment.ids import Id, distinct
from earmark.segment.join import join, with_constants_of
from earmark.segment.segment import NO_TAGS, Row, Segment, Tags, no_segment, uses_of, uses_of_slots

FEW_SHARE = 1 / 256
"""A smaller share of eligible slots than this is scanned, without the index."""
FEW_REMOVED = 128
"""Up to this many removals are noted one by one; then a bitmap without them is made."""
SCOPES = 4
"""Bitmaps of scopes that a segment keeps."""


class Scoped(NamedTuple):
    """A scope that was asked for."""

    scope: Tags
    slots: U64
    """The living slots in it."""
    is_few: bool
    """Whether these are so few that they are scanned."""


def no_slots(slots: int) -> U64:
    """A bitmap of this many slots, none of which is set."""
    return frozen(np.zeros(bits.words_for(slots), np.uint64))


@dataclass(eq=False)
class IndexedSegment:
    """One of the segments of a version. It never changes."""

    segment: Segment
    index: ArrayIndex[Any] | None
    base: U64
    """The bitmap of slots that were living at some moment,"""
    known: int
    """when there were this many slots,"""
    since: tuple[int, ...]
    """and the slots removed since then: at most FEW_REMOVED."""
    live: int
    """How many slots are not removed."""
    forgotten: U64
    """Those of the removed slots that the index does not know either."""
    line: object = field(default_factory=object)
    """The same for what a segment becomes as rows are removed and appended."""

    @classmethod
    def of(cls, segment: Segment, index: ArrayIndex[Any] | None = None, removed: U64 | None = None) -> IndexedSegment:
        """A segment whose index, if it has one, knows all slots but the removed."""
        slots = len(segment)
        removed = no_slots(slots) if removed is None else removed
        base = frozen(bits.all_set(slots) & ~removed)
        return cls(segment, index, base, slots, (), bits.count(base), removed)

    def __len__(self) -> int:
        """How many slots, the removed included."""
        return len(self.segment.arrays.sequence)

    @property
    def generation(self) -> int:
        """That of the segment's keys."""
        return self.segment.schema.generation

    @property
    def is_sealed(self) -> bool:
        """Whether it has an index; then it takes no more rows."""
        return self.index is not None

    @lazy_property
    def forgotten_count(self) -> int:
        """How many slots the index does not know."""
        return bits.count(self.forgotten)

    @lazy_property
    def alive(self) -> U64:
        """The bitmap of slots that are not removed. O(slots / 64), a copy, after a change."""
        slots, known = len(self), self.known
        if slots == known and not self.since:
            return self.base
        if slots == known:
            made = np.empty_like(self.base)
            copy_to(made, self.base)
        else:
            made, whole = bits.all_set(slots).copy(), known // bits.WORD
            made[:whole] = self.base[:whole]
            if known % bits.WORD:
                made[whole] &= self.base[whole] | ~np.uint64((1 << known % bits.WORD) - 1)
        words: Any = memoryview(made)  # type: ignore[arg-type]
        for slot in self.since:
            words[slot >> 6] &= ~(1 << (slot & 63))
        return frozen(made)

    @lazy_property
    def removed(self) -> U64:
        """The bitmap of slots that are removed. O(slots / 64)."""
        return frozen(bits.all_set(len(self)) & ~self.alive)

    @lazy_property
    def _scan(self) -> Scan:
        return Scan(self.segment.arrays)

    @property
    def last_moment(self) -> int:
        """No slot matches an event of a later time (as a key); known of sealed segments."""
        return self.segment.last_end if self.is_sealed else INT64_MAX

    def is_live(self, slot: int) -> bool:
        """Whether a slot is not removed."""
        is_new = slot >= self.known
        return (is_new or bool(int(self.base[slot >> 6]) >> (slot & 63) & 1)) and slot not in self.since

    def living(self) -> I64:
        """The slots that are not removed, ascending."""
        return bits.to_slots(self.alive).astype(np.int64)

    def picked(self) -> Segment:
        """The subscriptions that are not removed, as a segment of their own."""
        return self.segment if self.live == len(self) else self.segment.pick(self.living())

    def find(self, one: object) -> int | None:
        """The living slot of an id."""
        slot = self.segment.find(one)
        return slot if slot is not None and self.is_live(slot) else None

    def eligible(self, scope: Tags = NO_TAGS) -> U64:
        """The bitmap of living slots that carry all these tags. O(slots / 64 + slots with these tags) the first time.

        The last few are kept, so that asking again costs nothing.
        """
        if not scope:
            return self.alive
        kept = self._scoped
        for known in kept:
            if known.scope == scope:
                return known.slots
        slots = self._tagged(scope)
        made = Scoped(scope, slots, bits.count(slots) <= FEW_SHARE * len(self))
        self.__dict__["_scoped"] = (made, *kept[: SCOPES - 1])  # by one store: others may search meanwhile
        return slots

    def _tagged(self, scope: Tags) -> U64:
        return bits.both(self.alive, self.segment.tagged(scope))

    @lazy_property
    def _scoped(self) -> tuple[Scoped, ...]:
        """The last scopes that were asked for, the newest first."""
        return ()

    # --- changes ---------------------------------------------------------------------------------------------

    def without(self, slots: Sequence[int]) -> IndexedSegment:
        """The same without these slots, all of which are living. O(slots removed), but for one call in FEW_REMOVED."""
        base, known, since = self.base, self.known, self.since
        if "alive" in self.__dict__ or len(since) + len(slots) > FEW_REMOVED:  # begin again, from what a search made
            base, known, since = self.alive, len(self), ()
        if len(slots) > FEW_REMOVED:
            base = frozen(base & ~bits.from_slots(np.array(slots, np.int64), known))
        else:
            since = (*since, *slots)
        live = self.live - len(slots)
        made = IndexedSegment(self.segment, self.index, base, known, since, live, self.forgotten, self.line)
        made.__dict__["forgotten_count"] = self.forgotten_count
        return made

    def appended(self, other: Segment | Row) -> IndexedSegment:
        """An unsealed segment with more rows behind it."""
        segment = self.segment.appended(other)
        live = self.live + len(segment) - len(self)
        return IndexedSegment(segment, None, self.base, self.known, self.since, live, self.forgotten, self.line)

    # --- searching -------------------------------------------------------------------------------------------

    def searched_by(self, eligible: U64) -> ArrayIndex[Any]:
        """What searches among these slots: the index, or a scan where it is quicker or there is no index."""
        if self.index is None:
            return self._scan
        if eligible is self.alive:
            return self.index
        for known in self._scoped:
            if known.slots is eligible:
                return self._scan if known.is_few else self.index
        return self._scan if bits.count(eligible) <= FEW_SHARE * len(self) else self.index

    def life_at(self, moment: tuple[int, int] | None) -> int:
        """The number of the attribute of times if life spans must be tested at a moment, given by its keys."""
        if moment is None or not self.is_sealed:  # what is unsealed grows, and all of it would be read each time
            return self.segment.life
        return self.segment.life_between(*moment)

    def life_for(self, events: EventArrays) -> int:
        """The same for a batch: NO_LIFE where all slots are living at the times of all events. O(values)."""
        return self.life_at(self._moments_of(events))

    def _moments_of(self, events: EventArrays) -> tuple[int, int] | None:
        """The keys of the first and the last time of events; None if that says nothing about life spans."""
        life = self.segment.life
        if life == NO_LIFE or not self.is_sealed:
            return None
        timed = events.attr == life
        if not len(events.attr) or int(timed.sum()) < len(events.start) - 1:
            return None  # an event without a time matches nothing that starts or ends
        return int(events.lo[timed].min()), int(events.hi[timed].max())

    def _living(self, eligible: U64, moment: tuple[int, int] | None) -> tuple[U64, int]:
        """Which of the eligible slots to search at a moment, and the attribute of times if they must be tested still.

        Where no life span starts or ends around the moment, the living ones are known (`segment/living.py`).
        """
        life = self.life_at(moment)
        if life == NO_LIFE or moment is None or not self.is_sealed:
            return eligible, life
        living = self.segment.living.between(*moment)
        if living is None:
            return eligible, life
        known = self._narrowed
        if known is None or known[0] is not eligible or known[1] is not living:
            known = eligible, living, bits.both(eligible, living)
            self.__dict__["_narrowed"] = known
        return known[2], NO_LIFE

    @lazy_property
    def _narrowed(self) -> tuple[U64, U64, U64] | None:
        """The last two bitmaps that were asked together, and the slots in both."""
        return None

    def match(self, one: OneEvent, eligible: U64, moment: tuple[int, int] | None = None) -> list[int]:
        """The eligible slots that a single event matches, in order of insertion; `moment` has the keys of its time."""
        living, life = self._living(eligible, moment)
        slots = self.searched_by(eligible).match_one(one, living, life)
        if life != NO_LIFE:
            self.segment.living.count_tests(len(slots))
        return slots if self.segment.is_ordered else sorted(slots, key=self.segment.arrays.sequence.__getitem__)

    def match_many(self, events: EventArrays, eligible: U64, threads: int = 1) -> tuple[I64, I32]:
        """Per event the eligible slots that match, in order of insertion: (event_ptr, slots)."""
        living, life = self._living(eligible, self._moments_of(events))
        starts, slots = self.searched_by(eligible).match_many(events, living, threads, life)
        if life != NO_LIFE:
            self.segment.living.count_tests(len(slots))
        if not self.segment.is_ordered:
            numbers = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
            slots = frozen(slots[np.lexsort((self.segment.arrays.sequence[slots], numbers))])
        return starts, slots

    def scores(self, events: EventArrays, starts: I64, slots: I32, combination: Combination) -> F64:
        """The score of each match."""
        table = self.segment.arrays
        if combination.is_sum:
            return score_matches(table, self.segment.fixed_scores, events, starts, slots)
        scored: F64 = scoring_of(combination).score_matches(table, events, starts, slots, combination.code)
        return scored

    # --- checks ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise AssertionError, naming what is broken, unless the invariants of segment and index hold."""
        self.segment.check()
        require(len(self.base) == bits.words_for(self.known), "the bitmap of living slots has the wrong size")
        require(bits.count(self.alive) == self.live, "the number of living slots is wrong")
        living = self.living()
        ids = self.segment.ids.objects
        require(len({ids[slot] for slot in living.tolist()}) == len(living), "two living slots have one id")
        require(self.segment.lookups.leads_to(self.segment, living.tolist()), "ids and living slots disagree")
        if self.index is not None:
            self.index.check()


class Place(NamedTuple):
    """Where a subscription is: the number of its segment, and its slot there."""

    number: int
    slot: int


@dataclass(eq=False)
class Version:
    """A state of a book. It never changes."""

    schema: Schema
    segments: tuple[IndexedSegment, ...]
    next_sequence: int
    uses: I32
    router: Router | None = None
    """Where there is one, it says which of the first segments an event can match; the others can match any."""
    integer_ids: bool | None = None
    """Whether ids are integers, where that is known also when nothing lives."""

    @classmethod
    def empty(cls, schema: Schema) -> Version:
        """A version without subscriptions."""
        return cls(schema, (), 0, frozen(np.zeros(len(schema), np.int32)))

    @classmethod
    def of(cls, schema: Schema, segments: Sequence[IndexedSegment], next_sequence: int) -> Version:
        """A version of these segments, whose uses are counted. O(size)."""
        made = cls(schema, tuple(segments), next_sequence, frozen(np.zeros(len(schema), np.int32)))
        return replace(made, uses=made._counted()).with_free_types()

    # --- looking ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many subscriptions are living."""
        return self.live

    def __bool__(self) -> bool:
        """Always: a version without subscriptions still has its schema."""
        return True

    @lazy_property
    def live(self) -> int:
        """How many subscriptions are living."""
        return sum(one.live for one in self.segments)

    @property
    def slots(self) -> int:
        """How many slots there are, the removed included."""
        return sum(map(len, self.segments))

    def find(self, one: object) -> Place | None:
        """Where the living subscription with this id is. Amortised O(segments)."""
        for number in range(len(self.segments) - 1, -1, -1):
            if (slot := self.segments[number].find(one)) is not None:
                return Place(number, slot)
        return None

    def has_any(self, ids: set[Id]) -> bool:
        """Whether one of these ids is living. O(ids), at the speed of sets."""
        return any(
            indexed.find(one) is not None
            for indexed in self.segments
            for one in indexed.segment.lookups.among(indexed.segment, ids)
        )

    @property
    def id_type(self) -> type | None:
        """What ids here are, `str` or `int`; None while there are none."""
        if self.integer_ids is not None:
            return int if self.integer_ids else str
        return type(self.segments[0].segment.ids[0]) if self.segments else None

    def routed(self, events: EventArrays, relaxed: bool = False) -> Iterator[tuple[int, I64 | None]]:
        """The numbers of the segments to search, and which events to search in each; None for all of them.

        A relaxed match needs no more than one constraint that holds beside its life span, so relaxed searches go
        everywhere but into segments whose subscriptions have all ended.
        """
        over = self.over_at(self._earliest(events))
        if self.router is None or relaxed:
            yield from ((number, None) for number in range(len(self.segments)) if number not in over)
            return
        starts, events_met = self.router.route(events)
        count, shards = len(events.start) - 1, self.router.segments
        for number, (begin, end) in enumerate(pairwise(starts.tolist())):
            if end > begin:
                yield number, None if end - begin == count else events_met[begin:end]
        yield from ((number, None) for number in range(shards, len(self.segments)) if number not in over)

    @lazy_property
    def ends(self) -> dict[int, int]:
        """By number of segment: the time, as a key, after which none of its subscriptions match; where there is one.

        Empty where a segment is alone: there is nothing to pass by.
        """
        if LIFE not in self.schema.by_name or len(self.segments) < 2:
            return {}
        moments = {number: one.last_moment for number, one in enumerate(self.segments)}
        return {number: moment for number, moment in moments.items() if moment != INT64_MAX}

    def over_at(self, first: int) -> set[int]:
        """The numbers of the segments whose subscriptions have all ended before a moment."""
        return {number for number, moment in self.ends.items() if moment < first}

    def _earliest(self, events: EventArrays) -> int:
        """The key of the earliest time of these events; what has no time is matched by nothing that ends."""
        if not self.ends:
            return INT64_MAX
        times = events.lo[events.attr == self.schema.by_name[LIFE].number]
        return int(times.min()) if len(times) else INT64_MAX

    def schema_for(self, segment: Segment) -> Schema:
        """The schema that encodes events for a segment: the version's, with the keys of the segment's generation."""
        generation = segment.schema.generation
        return self.schema if generation == self.schema.generation else self.older[generation]

    @lazy_property
    def older(self) -> dict[int, Schema]:
        """By generation, where it is not the version's: the schema that encodes events for segments that have it."""
        others = [one for one in self.segments if one.generation != self.schema.generation]
        return {one.generation: self.schema.under(one.segment.schema) for one in others}

    @lazy_property
    def whole(self) -> Segment:
        """All living subscriptions as one segment, in order of insertion. O(size) unless it is one already."""
        return self.joined(self.segments)

    def joined(self, segments: Sequence[IndexedSegment]) -> Segment:
        """The living subscriptions of some segments as one, in order of insertion."""
        if not segments:
            return no_segment(self.schema)
        living = [one.picked() for one in segments]
        schema = self.schema
        if any(one.schema.generation != schema.generation for one in living):
            schema = with_constants_of(schema.copied(), living)
        made = join(living, schema).in_order()
        return made if made.schema is schema else replace(made, schema=schema)

    # --- changes ---------------------------------------------------------------------------------------------

    def appended(self, segment: Segment | Row) -> Version:
        """The version with new subscriptions, under their schema, in its unsealed segment."""
        if not len(segment.arrays.sequence):
            return self.with_schema(segment.schema)
        schema = segment.schema
        uses = segment.uses if isinstance(segment, Row) else uses_of(segment.arrays, schema)
        last = self.segments[-1] if self.segments else None
        if last is not None and not last.is_sealed and last.generation == schema.generation:
            segments = (*self.segments[:-1], last.appended(segment))
        else:
            segments = (*self.segments, IndexedSegment.of(segment.segment() if isinstance(segment, Row) else segment))
        greatest = segment.arrays.sequence[0] if isinstance(segment, Row) else int(segment.arrays.sequence.max())
        counted, unused = _counting(self._uses_under(schema), uses, 1)
        following = max(self.next_sequence, int(greatest) + 1)
        made = Version(schema, segments, following, counted, self.router, self.integer_ids)
        return made.with_free_types(unused) if unused else made

    def removed(self, places: Sequence[Place]) -> Version:
        """The version without the subscriptions at these places, all of which are living."""
        by_segment: dict[int, list[int]] = {}
        for number, slot in places:
            by_segment.setdefault(number, []).append(slot)
        segments, counted = list(self.segments), self.uses
        free: list[int] = []
        for number, slots in by_segment.items():
            own = self.segments[number].segment
            counted, unused = _counting(counted, uses_of_slots(own.arrays, slots, self.schema_for(own)), -1)
            free += unused
            segments[number] = segments[number].without(slots)
        if self.router is None:  # else it knows them by their numbers
            segments = [one for one in segments if one.live]
        made = Version(self.schema, tuple(segments), self.next_sequence, counted, self.router, self.integer_ids)
        return made.with_free_types(free) if free else made

    def with_schema(self, schema: Schema) -> Version:
        """The version under a schema that has more attributes or constants, or types for such as had none."""
        if schema is self.schema:
            return self
        uses = self._uses_under(schema)
        return Version(schema, self.segments, self.next_sequence, uses, self.router, self.integer_ids)

    def _uses_under(self, schema: Schema) -> I32:
        """The uses, for a schema that may have more attributes."""
        if len(schema) == len(self.uses):
            return self.uses
        return frozen(np.concatenate([self.uses, np.zeros(len(schema) - len(self.uses), np.int32)]))

    def with_segments(self, segments: Iterable[IndexedSegment]) -> Version:
        """The same subscriptions in other segments."""
        return Version(self.schema, tuple(segments), self.next_sequence, self.uses, None, self.integer_ids)

    def reindexed(self, build: Callable[[SegmentArrays], ArrayIndex[Any]]) -> Version:
        """The same with another index over each segment."""
        indexed = ((one, build(one.segment.arrays)) for one in self.segments)
        return self.with_segments([replace(one, index=index, forgotten=no_slots(len(one))) for one, index in indexed])

    def with_free_types(self, numbers: Iterable[int] | None = None) -> Version:
        """Without the learned types of attributes, or of these alone, that nothing living compares with a value."""
        numbers = range(len(self.schema)) if numbers is None else numbers
        free = [self.schema.by_name[self.schema.names[number]] for number in numbers if not self.uses[number]]
        free = [a for a in free if a.type is not None and not a.declared]
        if not free:
            return self
        return replace(self, schema=self.schema.replaced(replace(a, type=None, origin="") for a in free))

    # --- checks ----------------------------------------------------------------------------------------------

    def _counted(self) -> I32:
        uses = np.zeros(len(self.schema), np.int32)
        for one in self.segments:
            living = one.segment.arrays if one.live == len(one) else gather(one.segment.arrays, one.living())
            uses, _ = _counting(uses, uses_of(living, self.schema_for(one.segment)), 1)
        return frozen(uses)

    def check(self) -> None:
        """Raise AssertionError, naming what is broken, unless every invariant holds. O(size)."""
        for one in self.segments:
            one.check()
            require(one.live or self.router is not None, "a segment has no living subscription")
        self.check_living()
        for attribute in self.schema:
            used = attribute.type is None or attribute.declared or self.uses[attribute.number]
            require(used, f"nothing uses the type of attribute {attribute.name!r}")
        for strings in self.schema.strings.values():
            strings.check()

    def check_living(self) -> None:
        """Raise AssertionError unless ids and sequence numbers are used once, and uses are as counted again."""
        require(np.array_equal(self.uses, self._counted()), "the uses of attributes are miscounted")
        living = [one.living() for one in self.segments]
        chosen = zip(self.segments, living, strict=True)
        sequence = [one.segment.arrays.sequence[slots] for one, slots in chosen]
        every = np.sort(np.concatenate([*sequence, np.empty(0, np.int64)]))
        ids = [one.segment.ids for one in self.segments]
        require(distinct(ids, living) == self.live, "two living subscriptions have one id")
        require(bool((every[:-1] < every[1:]).all()), "a sequence number is used twice")
        require(not len(every) or every[-1] < self.next_sequence, "a sequence number is too great")


def _counting(uses: I32, more: Mapping[int, int], sign: int) -> tuple[I32, list[int]]:
    """The uses of attributes with some more, or fewer; and those of the attributes that nothing uses then."""
    made = np.empty_like(uses)
    copy_to(made, uses)
    counted: Any = memoryview(made)  # type: ignore[arg-type]
    unused = []
    for number, count in more.items():
        counted[number] = left = counted[number] + sign * count
        if not left:
            unused.append(number)
    return frozen(made), unused
