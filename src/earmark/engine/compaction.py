"""How do small segments become few and large, without anyone waiting?

A book that changes has one unsealed segment, which takes new rows and is scanned, and sealed ones with an index each.
Once a change has been published, `next_compaction` says what is worth doing:

    seal       the unsealed segment has outgrown a share of the others: it gets an index, joined with those sealed ones
               that are not much larger, so that sizes stay geometric and a search meets few segments
    absorb     the same for an index that takes inserts (`Updatable`): a copy of the index takes the rows in and forgets
               what was removed; not where the index was planned for a smaller book, or for other events
    shrink     a segment many of whose slots are removed is made again without them, and if it is most of the book
               with all the others
    rekey      a segment whose keys are of an older generation is made again under the present schema
    retire     a segment many of whose subscriptions have ended is made again without them; they go into a *retired*
               segment of their own, which events of the present pass by, and late events and backtests do not

`run` makes the new segment from a version as it is, beside writers and readers. `installed` puts it in the place of the
old ones in the version of that moment, and repeats what has happened to them since: rows removed, rows appended. It
costs O(segments + changes since), so a writer waits for no more than that, and a reader for nothing.

A batch that is large beside what is there is indexed by the thread that adds it, before it is published
(`settled`). What is small beside the rest of the book is compacted by the writer as well, once its change is published.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from earmark.engine.version import IndexedSegment, Version, no_slots
from earmark.errors import require
from earmark.flat import bits
from earmark.flat.arrays import I64, frozen
from earmark.index.driver import ArrayIndex
from earmark.keys.schema import INT64_MIN, LIFE, Schema
from earmark.segment.arrays import SegmentArrays
from earmark.segment.join import join, with_constants_of, without_unused_constants
from earmark.segment.segment import Segment, no_arrays
from earmark.threads import at_most

Build = Callable[[SegmentArrays], ArrayIndex[Any]]

SHORTEST_TAIL = 128
TAIL_SHARE = 1 / 256
"""The longest unsealed segment, as a share of the sealed slots."""
LONGEST_TAIL = 1024
"""The longest beside an index that takes no inserts: to scan more costs a single event more than another segment."""
REBUILD_SHARE = 1 / 2
"""More new rows than this share of the sealed ones are indexed at once, by the thread that adds them."""
FACTOR = 32
"""A segment is joined with one that is at most this many times larger. Beside a million subscriptions there is then one
small sealed segment; with a factor of 8 there were two or three, and each costs a single event some microseconds. The
large one is made again, in the background, whenever a 32nd of the book has been added.
"""
SMALLEST_SHRINK = 1024
SHRINK_SHARE = 1 / 4
"""A segment is made again when more of its slots than these are removed or have ended: a number, and a share of the
living ones."""
AT_ONCE, SHARE_AT_ONCE = 1 << 15, 1 / 32
"""At most this many slots, and this share of the largest segment, are compacted by the writer that made it worthwhile.
That takes up to 50 ms, once in a thousand changes. A thread beside it takes the interpreter away from writers and
readers, for a millisecond or more each time, in 2 % of the changes that come meanwhile. So beside a million
subscriptions the writer does it all, up to the size at which the small segment joins the large one."""
RETIRE_AFTER = 24 * 3600 * 1_000_000
"""Microseconds since the end of a subscription before it may leave for a retired segment: no answer depends on it."""


@dataclass(frozen=True, eq=False)
class CompactionPlan:
    """Segments of a version that are to become one."""

    inputs: tuple[IndexedSegment, ...]
    absorbs: bool = False
    """The first is sealed and its index takes the rows of the others in."""

    def is_small(self, version: Version) -> bool:
        """Whether it is little work beside the largest segment: then `auto` does not plan for it either."""
        return sum(map(len, self.inputs)) <= min(AT_ONCE, SHARE_AT_ONCE * max(map(len, version.segments)))


@dataclass(frozen=True, eq=False)
class CompactionResult:
    """The segments that others became, and where their slots went."""

    inputs: tuple[IndexedSegment, ...]
    outputs: tuple[IndexedSegment, ...]
    """One, or one and those that have ended, which are retired."""
    places: tuple[I64, ...]
    """For each input, by slot: the slot in the outputs, one after the other, or -1 where it was removed before."""


def retiring() -> int:
    """The moment, as a key, before which a subscription must have ended to be retired."""
    return time.time_ns() // 1000 - RETIRE_AFTER


def _is_retired(one: IndexedSegment, moment: int) -> bool:
    return one.last_moment < moment


def next_compaction(version: Version) -> CompactionPlan | None:
    """What is worth doing next, if anything."""
    known = waiting = most = 0
    largest: IndexedSegment | None = None
    ends, generation = LIFE in version.schema.by_name, version.schema.generation
    moment = retiring() if ends else INT64_MIN
    for one in version.segments:  # what a shard knows of itself while it is not open
        slots, own = len(one), one.generation
        removed = slots - one.live
        if removed > SMALLEST_SHRINK and removed > SHRINK_SHARE * one.live:
            return _shrinking(version, one, moment)
        if ends and _is_retired(one, moment) and own == generation:
            continue
        if ends and one.is_sealed and _ended(one, moment) > max(SMALLEST_SHRINK, SHRINK_SHARE * one.live):
            return CompactionPlan((one,))
        if own != generation:
            older = [one for one in version.segments if one.generation != version.schema.generation]
            same = [one for one in version.segments if one not in older and not one.is_sealed]
            return CompactionPlan((*older, *same))
        if not one.is_sealed:
            waiting += slots
            continue
        known += slots
        if largest is None or slots > most:
            largest, most = one, slots
    return None if largest is None else _sealing(version, largest, known, waiting)


def _shrinking(version: Version, one: IndexedSegment, moment: int) -> CompactionPlan:
    """A segment is made again; if it is most of the book, with all the others: that adds little, and leaves one."""
    if 2 * len(one) < version.slots:
        return CompactionPlan((one,))
    others = [
        other
        for other in version.segments
        if other is not one and other.generation == one.generation and not _is_retired(other, moment)
    ]
    return CompactionPlan((one, *others))


def _ended(one: IndexedSegment, moment: int) -> int:
    """How many slots had ended before a moment. O(log slots)."""
    return int(np.searchsorted(one.segment.ends, moment))


def _sealing(version: Version, largest: IndexedSegment, known: int, waiting: int) -> CompactionPlan | None:
    """What to do where `waiting` slots are unsealed beside `known` sealed ones."""
    index = largest.index
    if waiting <= SHORTEST_TAIL and not (index is not None and index.is_updatable):
        return None
    updatable = index is not None and index.is_updatable and not is_outgrown(index, known + waiting)
    if updatable:
        waiting += len(largest) - largest.live - largest.forgotten_count
    longest = TAIL_SHARE * known if updatable else min(LONGEST_TAIL, TAIL_SHARE * known)
    if waiting <= max(SHORTEST_TAIL, longest):
        return None
    sealed = [one for one in version.segments if one.is_sealed and not _is_retired(one, retiring())]
    tail = [one for one in version.segments if not one.is_sealed]
    if updatable:
        rest = [one for one in sealed if one is not largest]
        return CompactionPlan((largest, *rest, *tail), absorbs=True)
    size, chosen = sum(map(len, tail)), tail
    for one in sorted(sealed, key=len):
        if len(one) > FACTOR * size and not (one.index is not None and one.index.has_drifted):
            continue
        size, chosen = size + len(one), [one, *chosen]
    return CompactionPlan(tuple(chosen))


def is_outgrown(index: ArrayIndex[Any], slots: int) -> bool:
    """Whether an index was planned for a book half the size, or for events that take less work."""
    return index.plan is not None and (slots > 2 * index.plan.subscriptions or index.has_drifted)


def keyed(version: Version, plan: CompactionPlan) -> Version:
    """The version under a schema that has the constants of what is to be joined."""
    return version.with_schema(with_constants_of(version.schema, [one.segment for one in plan.inputs]))


def run(version: Version, plan: CompactionPlan, build: Build | None) -> CompactionResult:
    """Make the new segment; without `build` it stays unsealed. Beside writers and readers: it changes nothing."""
    return _absorbed(plan) if plan.absorbs else united(version, plan.inputs, build, retiring())


def united(
    version: Version, inputs: Sequence[IndexedSegment], build: Build | None, moment: int = INT64_MIN
) -> CompactionResult:
    """The living subscriptions of segments as one, in order of insertion, under the version's schema.

    If many had ended before a moment, they become another one.
    """
    living = [one.living() for one in inputs]
    joined = join([one.picked() for one in inputs], version.schema)
    new = np.arange(len(joined))
    if not joined.is_ordered:
        order = np.argsort(joined.arrays.sequence, kind="stable")
        new = np.empty(len(order), np.int64)
        new[order] = np.arange(len(order))
        joined = joined.reordered(order)
    joined = replace(joined, schema=version.schema)
    parts = _parted(joined, moment) if build is not None else [np.arange(len(joined))]
    new = np.argsort(np.concatenate(parts))[new]
    places, first = [], 0
    for one, slots in zip(inputs, living, strict=True):
        place = np.full(len(one), -1)
        place[slots] = new[first : first + len(slots)]
        first += len(slots)
        places.append(place)
    made = [joined] if len(parts) == 1 else [joined.pick(part) for part in parts]
    outputs = [IndexedSegment.of(one, _built(one, inputs, build) if build is not None else None) for one in made]
    return CompactionResult(tuple(inputs), tuple(outputs), tuple(places))


def _built(segment: Segment, inputs: Sequence[IndexedSegment], build: Build) -> ArrayIndex[Any] | None:
    """An index of a segment, with what the index of the largest of the inputs has learned from events."""
    if not len(segment):
        return None
    largest = max((one for one in inputs if one.index is not None), key=len, default=None)
    if largest is not None and largest.index is not None and largest.index.is_adaptive:
        index = build(no_arrays()).build_learned(segment.arrays, largest.index)
        if index is not None:
            return index
    built = build(segment.arrays)
    if largest is not None and largest.index is not None and largest.index.has_drifted:
        expect_what_was_seen(built, largest.index)
    return built


def expect_what_was_seen(built: ArrayIndex[Any], drifted: ArrayIndex[Any]) -> None:
    """Raise what the plan of an index expects to what one of its kind took: it was chosen again, so that is no drift.

    Else the next segment would again be joined with all others to be planned, and so on.
    """
    plan, before = built.plan, drifted.plan
    if plan is not None and plan.work and before is not None and plan.index == before.index:
        seen = [drifted.drift * before.planned_work(alone) for alone in (False, True)]
        built.plan = replace(plan, work=max(plan.work, seen[0]), alone=max(plan.alone, seen[1]))


def _parted(joined: Segment, moment: int) -> list[I64]:
    """The slots that go on, and those that had ended before a moment, if they are many."""
    ended = joined.arrays.last_moment < moment
    if np.count_nonzero(ended) <= SMALLEST_SHRINK or ended.all():
        return [np.arange(len(joined))]
    return [np.flatnonzero(~ended), np.flatnonzero(ended)]


def _absorbed(plan: CompactionPlan) -> CompactionResult:
    """A copy of the first one's index takes in the living rows of the others, and forgets what was removed."""
    main, *others = plan.inputs
    require(main.index is not None and main.index.is_updatable, "this index takes no inserts")
    assert main.index is not None
    segment, places = main.segment, [np.arange(len(main))]
    for one in others:
        living = one.living()
        place = np.full(len(one), -1)
        place[living] = np.arange(len(segment), len(segment) + len(living))
        segment = segment.appended(one.segment.pick(living))
        places.append(place)
    index = main.index.copy()
    index.plan = main.index.plan
    index.remove(bits.to_slots(frozen(main.removed & ~main.forgotten)))
    index.insert(segment.arrays, np.arange(len(main), len(segment), dtype=np.int32))
    removed = bits.either(main.removed, no_slots(len(segment)))
    return CompactionResult(plan.inputs, (IndexedSegment.of(segment, index, removed),), tuple(places))


def installed(version: Version, done: CompactionResult) -> Version | None:
    """The version with the new segment in the place of the old ones; None where it no longer fits them."""
    waiting = {one.line: (one, place) for one, place in zip(done.inputs, done.places, strict=True)}
    kept: list[IndexedSegment] = []
    left: list[IndexedSegment] = []
    gone: list[I64] = []
    for one in version.segments:
        if one.line not in waiting:
            kept.append(one)
            continue
        before, place = waiting.pop(one.line)
        if one.index is not before.index:  # it has adapted meanwhile
            return None
        gone.append(place[_removed_since(before, one)])
        if len(one) > len(before):
            left.append(_after(one, len(before)))
    for before, place in waiting.values():  # all their rows were removed meanwhile
        gone.append(place[before.living()])
    slots, first = np.concatenate([*gone, np.empty(0, np.int64)]), 0
    outputs = []
    for output in done.outputs:
        own = (slots[(slots >= first) & (slots < first + len(output))] - first).tolist()
        outputs.append(output.without(own) if own else output)
        first += len(output)
    made = [one for one in (*kept, *outputs, *left) if one.live]
    return version.with_segments(sorted(made, key=lambda one: not one.is_sealed))


def _removed_since(before: IndexedSegment, now: IndexedSegment) -> I64:
    """The slots that were living before and are removed now. O(slots / 64 + slots removed)."""
    words = before.alive & ~now.alive[: len(before.alive)]
    some = np.flatnonzero(words)
    found = bits.to_slots(words[some])
    return some[found // bits.WORD] * bits.WORD + found % bits.WORD


def _after(one: IndexedSegment, first: int) -> IndexedSegment:
    """The rows of an unsealed segment from one on."""
    slots = np.arange(first, len(one))
    removed = bits.to_slots(one.removed).astype(np.int64)
    removed = removed[removed >= first] - first
    return IndexedSegment.of(one.segment.pick(slots), None, bits.from_slots(removed, len(slots)))


# --- at once -------------------------------------------------------------------------------------------------


def settled(version: Version, build: Build | None) -> Version:
    """The version with an index over rows that are many beside the others; without `build` none is wanted."""
    if build is None:
        return version
    sealed = tail = 0
    for one in version.segments:
        if one.is_sealed:
            sealed += len(one)
        else:
            tail += len(one)
    return version if tail <= REBUILD_SHARE * sealed else compacted(version, build)


def compacted(version: Version, build: Build | None, fewer_constants: bool = False) -> Version:
    """The same subscriptions in one segment; with `fewer_constants` without keys for strings that nothing uses."""
    if not version.segments:
        return version
    version = version.with_schema(_schema_of_living(version, fewer_constants))
    return version.with_segments(united(version, version.segments, build, retiring()).outputs)


def _schema_of_living(version: Version, fewer_constants: bool) -> Schema:
    """The schema with the constants of what is living, in which nothing is picked where there is none to look at."""
    schema = version.schema
    if not schema.strings and all(one.generation == schema.generation for one in version.segments):
        return schema
    living = [one.picked() for one in version.segments]
    schema = with_constants_of(schema, living)
    return without_unused_constants(schema, living) if fewer_constants else schema


# --- in the background ---------------------------------------------------------------------------------------


class Compactor:
    """Merges segments in a thread of its own, which lives for as long as there is something to do.

    `lock` is the writers'; `current` and `publish` are called with it held.
    """

    def __init__(
        self, lock: Any, current: Callable[[], Version], publish: Callable[[Version], None], build: Build | None
    ) -> None:
        self._lock = lock
        self._current = current
        self._publish = publish
        self._build = build
        self._thread: threading.Thread | None = None
        self.problem: BaseException | None = None
        """What made the last compaction fail; no other is tried until `Matcher.compact` is called."""
        self._is_reported = False
        self._due: set[object] = set()
        """Segments, by their lines, that are to be planned again."""
        self.compactions = 0
        """How many were done."""

    def request(self) -> None:
        """See whether there is something to do. The caller holds the lock."""
        if self.problem is not None:
            self._report()
            return
        try:
            if self.is_running or (plan := self._next()) is None:
                return
            with at_most(1):
                while plan is not None and plan.is_small(self._current()):
                    self._install(self._made(self._keyed(plan), plan))
                    plan = self._next()
            if plan is not None:
                self._thread = threading.Thread(target=self._work, name="earmark-compaction", daemon=True)
                self._thread.start()
        except Exception as problem:  # the change has happened: it must not look as if it had not
            self.problem, self._thread = problem, None
            self._report()

    def plan_again(self) -> None:
        """Make those segments again whose candidates were still being compiled. The caller holds the lock."""
        plans = [(one.line, one.index.plan) for one in self._current().segments if one.index is not None]
        self._due = {line for line, plan in plans if plan is not None and plan.missing}
        self.request()

    def _next(self) -> CompactionPlan | None:
        """What is worth doing next. The caller holds the lock."""
        version = self._current()
        if self._due:
            for one in version.segments:
                if one.line in self._due:
                    return CompactionPlan((one,))
        return next_compaction(version)

    @property
    def is_running(self) -> bool:
        """Whether a compaction is running; not in a forked child, since the thread is its parent's."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self, timeout: float | None = None) -> None:
        """Return when there is nothing left to do; the caller does not hold the lock."""
        if (thread := self._thread) is not None:
            thread.join(timeout)

    def forgive(self) -> None:
        """Forget the last problem, and try again from now on."""
        self.problem, self._is_reported = None, False

    def _report(self) -> None:
        if not self._is_reported:
            self._is_reported = True
            warnings.warn(
                f"merging small segments failed, so searches get slower: {self.problem!r}; compact() tries again",
                RuntimeWarning,
                stacklevel=4,
            )

    def _work(self) -> None:
        try:
            with at_most(1):  # the other cores are for those who search
                while self._compact_once():
                    pass
        except BaseException as problem:  # whatever it is, a writer reports it
            self.problem = problem
            self._thread = None

    def _compact_once(self) -> bool:
        with self._lock:
            plan = self._next()
            if plan is None:
                self._thread = None
                return False
            version = self._keyed(plan)
        self._install(self._made(version, plan))
        return True

    def _keyed(self, plan: CompactionPlan) -> Version:
        """The present version, published with the constants that the plan needs. The caller holds the lock."""
        version = keyed(self._current(), plan)
        if version is not self._current():
            self._publish(version)
        return version

    def _made(self, version: Version, plan: CompactionPlan) -> CompactionResult:
        done = run(version, plan, self._build)
        for output in done.outputs:
            output.segment.ids.prepare()
        return done

    def _install(self, done: CompactionResult) -> None:
        with self._lock:
            self._due -= {one.line for one in done.inputs}
            made = installed(self._current(), done)
            if made is not None:
                self._publish(made)
                self.compactions += 1
