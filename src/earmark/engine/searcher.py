"""Encoded events x a version -> answers. The only searcher: of `Matcher`, the CLI, Spark's workers and SQL.

events ──► routed to the segments that can match ──► each searched by its own index
              segment 1 ──► slots, scores ─┐
              segment 2 ──► slots, scores ─┴─ by sequence, or the k best by (score, sequence) ──► named by their ids

Threads: an index spreads the events of a batch over them; then the answers are scored, merged and named by runs of
events, each run by one thread.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa

from earmark.engine.batch import Batch, One, groups
from earmark.engine.collect import in_order
from earmark.engine.version import IndexedSegment, Version
from earmark.errors import EarmarkError, EventError, TooManyAnswers, shown
from earmark.events.arrays import Entry, EventArrays
from earmark.events.mappings import Reject
from earmark.flat.arrays import F64, I32, I64, U64
from earmark.index.answers import MOST_ANSWERS, check_room
from earmark.index.contract import Floor, Work
from earmark.index.one import OneEvent, borrow, give_back
from earmark.keys.schema import INT64_MAX
from earmark.segment.combine import BY_SUM, Combination
from earmark.segment.explain import NearMiss, near_miss, nearest
from earmark.segment.ids import Id, Ids
from earmark.segment.segment import NO_TAGS, Segment, Tags
from earmark.threads import RUNS, in_parallel, runs_of

_ANSWERS_AT_ONCE = 4_000_000
_VISITS_AT_ONCE = 1 << 17
"""Events that are copied at a time for the segments they are searched in."""
_NAMED_APIECE = 1 << 14
"""Answers that are worth another thread when they are scored and named."""
Mode = Literal["exact", "relaxed"]
"""What a ranked search ranks: subscriptions that match, or those of which at least one constraint holds."""


class Ask(NamedTuple):
    """What is asked of every event."""

    k: int | None = None
    """The number of best answers; None for all matches."""
    relaxed: bool = False
    scope: Tags = NO_TAGS
    """Tags that a subscription must carry."""
    scores: bool = True
    """Whether all matches come with their scores."""
    places: bool = False
    """Whether answers come with segment and slot."""
    combination: Combination = BY_SUM
    """How the terms of a score are combined."""

    @classmethod
    def best(cls, k: Any, mode: Any, scope: Tags, combination: Combination = BY_SUM) -> Ask:
        """The k best, as a user asks for them."""
        return cls(asked_k(k), asked_relaxed(mode), scope, combination=combination)

    @property
    def ranked(self) -> int | None:
        """How many best an index is planned for; 0 for all matches, None for relaxed search, which has no plans.

        Scores other than the sum are those of all matches.
        """
        if self.relaxed:
            return None
        return self.k if self.k is not None and self.combination.is_sum else 0


ALL = Ask()
COLUMNS = ("event", "subscription", "score")
NO_COUNTS: I64 = np.zeros((0, 2), np.int64)


class Hits(NamedTuple):
    """What one segment answers to the events of a batch, as its index gives it."""

    number: int
    """Of the segment."""
    chosen: I64 | None
    """The numbers of the events that were asked, ascending; None for all."""
    events: EventArrays
    starts: I64
    slots: I32
    scores: F64 | None
    """None where they are still to be computed."""


class Found(NamedTuple):
    """The answers of one segment, event by event."""

    number: int
    """Of the segment."""
    events: I64
    slots: I32
    scores: F64
    sequence: I64

    def between(self, begin: int, end: int) -> Found:
        """The answers from one to another."""
        cut = slice(begin, end)
        return Found(self.number, self.events[cut], self.slots[cut], self.scores[cut], self.sequence[cut])


class Answers(NamedTuple):
    """What some events match, and how well, event by event."""

    starts: I64
    subscriptions: pa.Array
    scores: F64
    counts: I64
    """By segment: how many events were searched in it, and how many answers it gave (rows of two)."""
    places: tuple[I64, I64] | None = None
    """The segment and the slot of each answer, if they were asked for."""

    @property
    def events(self) -> I64:
        """The number of the event of each answer."""
        return np.repeat(np.arange(len(self.starts) - 1, dtype=np.int64), np.diff(self.starts))


class Searcher:
    """Searches a version, for one kind of question; batches on up to `threads` threads."""

    __slots__ = ("ask", "threads", "version")

    def __init__(self, version: Version, ask: Ask = ALL, threads: int = 1) -> None:
        if ask.k is not None:
            ask = ask._replace(k=min(ask.k, max(1, version.live)))
        self.version = version
        self.ask = ask
        self.threads = threads

    def eligible(self, number: int) -> U64:
        """The slots of a segment that may be answers."""
        return self.version.segments[number].eligible(self.ask.scope)

    # --- one event -------------------------------------------------------------------------------------------

    def match(self, event: One) -> list[Id]:
        """The ids of all subscriptions that an event matches, in order of insertion."""
        found = []
        room = borrow()
        for indexed in self._asked_of(event, room):
            slots = indexed.match(room, indexed.eligible(self.ask.scope), event.moment)
            if slots:
                found.append((indexed.segment, slots))
        give_back(room)
        return _interleaved(found)

    def best(self, event: One) -> list[tuple[Id, float]]:
        """The ids of the k best for an event, with their scores, best first."""
        k, ask = self.ask.k or 0, self.ask
        found = []
        room = borrow()
        for indexed in self._asked_of(event, room):
            eligible = indexed.eligible(ask.scope)
            index, life = indexed.searched_by(eligible), indexed.life_at(event.moment)
            slots, scores = index.best_of_one(room, k, eligible, ask.relaxed, ask.combination, life)
            if slots:
                found.append((indexed.segment, slots, scores))
        give_back(room)
        return _best_of(found, k)

    def _asked_of(self, event: One, room: OneEvent) -> Iterator[IndexedSegment]:
        """The segments to search for an event, which is in the room in keys of each."""
        version = self.version
        segments: Sequence[IndexedSegment] = version.segments
        if version.router is not None:
            segments = [segments[number] for number, _ in version.routed(event.batch.events, self.ask.relaxed)]
        elif version.ends:
            over = version.over_at(INT64_MAX if event.moment is None else event.moment[0])
            segments = [one for number, one in enumerate(segments) if number not in over]
        entries: list[Entry] | None = None
        for indexed in segments:
            own = event.entries_for(indexed.segment)
            if own is not entries:
                room.take(own, event.weights_of(own))
                entries = own
            yield indexed

    def near_misses(self, batch: One, event: Mapping[str, Any], missing: int, limit: int | None) -> list[NearMiss]:
        """Subscriptions that would match the first event if at most `missing` constraints of one clause held.

        Nearest first, then in order of insertion, each by its nearest clause; at most `limit`. O(subscriptions).
        """
        found: list[tuple[Any, ...]] = []
        for number, indexed in enumerate(self.version.segments):
            segment = indexed.segment
            slots, failures, clauses = nearest(segment, batch.for_segment(segment), self.eligible(number), missing)
            sequence = segment.arrays.sequence[slots]
            order = np.lexsort((sequence, failures))[:limit]
            columns = (failures, sequence, slots, clauses)
            found += [(*row, segment) for row in zip(*(column[order].tolist() for column in columns), strict=True)]
        found.sort(key=lambda one: one[:2])
        return [
            near_miss(segment, slot, clause, batch.for_segment(segment), event)
            for _, _, slot, clause, segment in found[:limit]
        ]

    # --- many ------------------------------------------------------------------------------------------------

    def answers(self, batch: Batch) -> Answers:
        """The answers for all events of a batch."""
        hits, counts = self._each(batch)
        return self._answers(hits, 0, len(batch))._replace(counts=counts)

    def _answers(self, hits: Sequence[Hits], first: int, last: int) -> Answers:
        """The answers for the events first .. last, without counts."""
        hits = [one for one in hits if len(one.slots)] or hits[:1]
        if len(hits) == 1 and hits[0].chosen is None:  # nothing to merge
            number = hits[0].number
            starts, slots, scores = self._cut(hits[0], *_between(hits[0], first, last))
            places = (np.full(len(slots), number), slots.astype(np.int64)) if self.ask.places else None
            return Answers(starts, self._ids(number).taken(slots), scores, NO_COUNTS, places)
        parts = [self._scored(one, first, last) for one in hits]
        starts, order = _merged(parts, last - first, self.ask.k)
        scores = np.concatenate([*(part.scores for part in parts), np.empty(0)])
        return Answers(starts, self._named(parts, order), scores[order], NO_COUNTS, self._places(parts, order))

    def sizes(self, batch: Batch) -> tuple[I64, I64]:
        """How many answers each event of a batch has, and the counts by segment: no answer is kept, scored or named."""
        sizes, counts = np.zeros(len(batch), np.int64), self._no_counts()
        for hits in self._searched(batch):
            counts[hits.number] = len(hits.starts) - 1, len(hits.slots)
            sizes[slice(None) if hits.chosen is None else hits.chosen] += np.diff(hits.starts)
        return sizes if self.ask.k is None else np.minimum(sizes, self.ask.k), counts

    def found(self, number: int, batch: Batch) -> Found:
        """The answers of one segment for a batch."""
        self._check_k(batch)
        hits = self._hits(number, batch)
        check_room(len(hits.slots))
        return self._scored(hits, 0, len(batch))

    def _scored(self, hits: Hits, first: int, last: int) -> Found:
        """The answers of one segment for the events first .. last, which are numbered from 0 on."""
        begin, end = _between(hits, first, last)
        starts, slots, scores = self._cut(hits, begin, end)
        rows = np.arange(last - first) if hits.chosen is None else hits.chosen[begin:end] - first
        sequence = self.version.segments[hits.number].segment.arrays.sequence[slots]
        return Found(hits.number, np.repeat(rows, np.diff(starts)), slots, scores, sequence)

    def _cut(self, hits: Hits, begin: int, end: int) -> tuple[I64, I32, F64]:
        """(event_ptr, slots, scores) of some of the events that a segment was asked."""
        starts = hits.starts[begin : end + 1]
        first, last = int(starts[0]), int(starts[-1])
        starts, slots = starts - first, hits.slots[first:last]
        if hits.scores is not None:
            return starts, slots, hits.scores[first:last]
        if not self.ask.scores:
            return starts, slots, np.broadcast_to(0.0, len(slots))
        events = hits.events._replace(start=hits.events.start[begin : end + 1])
        return starts, slots, self.version.segments[hits.number].scores(events, starts, slots, self.ask.combination)

    def _hits(self, number: int, batch: Batch, chosen: I64 | None = None, floor: Floor | None = None) -> Hits:
        """What one segment answers to the events of a batch; only what is better than the floor.

        All matches in order of insertion, or the k best. The events are those that were chosen of a larger batch, whose
        floors are given, where they are not all of it.
        """
        indexed, eligible, ask = self.version.segments[number], self.eligible(number), self.ask
        if chosen is not None:
            floor = None if floor is None else Floor(floor.score[chosen], floor.sequence[chosen])
        events = batch.for_segment(indexed.segment)
        if ask.k is None:
            return Hits(number, chosen, events, *indexed.match_many(events, eligible, self.threads), None)
        index, life = indexed.searched_by(eligible), indexed.life_for(events)
        best = index.top_k_many(events, ask.k, eligible, ask.relaxed, floor, self.threads, ask.combination, life)
        return Hits(number, chosen, events, *best)

    def _each(self, batch: Batch) -> tuple[list[Hits], I64]:
        """The answers of every segment; and for each how many events were searched in it, and answers found."""
        counts = self._no_counts()
        every: list[Hits] = []
        for hits in self._searched(batch):
            counts[hits.number] = len(hits.starts) - 1, len(hits.slots)
            check_room(int(counts[:, 1].sum()))
            every.append(hits)
        return every, counts

    def _searched(self, batch: Batch) -> Iterator[Hits]:
        """The answers of one segment after another.

        The k-th best of a segment is a floor for those after it, and each may raise it.
        """
        self._check_k(batch)
        floor: Floor | None = None
        for number, chosen, asked in self._routed(batch):
            hits = self._hits(number, asked, chosen, floor)
            yield hits
            if self.ask.k is not None and not self._is_one:
                floor = _raised(floor, hits, self.version.segments[number].segment, len(batch), self.ask.k)

    def _no_counts(self) -> I64:
        return np.zeros((len(self.version.segments), 2), np.int64)

    def _check_k(self, batch: Batch) -> None:
        """Raise where the k best of a batch may be more answers than one search may give."""
        if self.ask.k is not None and self.ask.k * len(batch) > MOST_ANSWERS:
            raise TooManyAnswers(f"k = {self.ask.k:,} for this many events may give more than {MOST_ANSWERS:,} answers")

    def _routed(self, batch: Batch) -> Iterator[tuple[int, I64 | None, Batch]]:
        """The segments to search, which events of the batch to search in each (None for all), and these events.

        Events are copied for many segments at once.
        """
        waiting: list[tuple[int, I64]] = []
        visits = 0
        for number, chosen in self.version.routed(batch.events, self.ask.relaxed):
            if chosen is None:
                yield number, None, batch
                continue
            waiting.append((number, chosen))
            visits += len(chosen)
            if visits > _VISITS_AT_ONCE:
                yield from _chosen(batch, waiting)
                waiting, visits = [], 0
        yield from _chosen(batch, waiting)

    @property
    def _is_one(self) -> bool:
        """Whether there is one segment to search, and nothing to merge."""
        return len(self.version.segments) == 1 and self.version.router is None

    def named(self, part: Found) -> pa.Array:
        """The ids of the answers of one segment."""
        return self._ids(part.number).taken(part.slots)

    def _ids(self, number: int) -> Ids:
        return self.version.segments[number].segment.ids

    def _named(self, parts: Sequence[Found], order: I64) -> pa.Array:

        named = [self.named(part) for part in parts if len(part.slots)]
        if not named:
            return pa.array([], pa.int64() if self.version.id_type is int else pa.string())
        return pa.concat_arrays(named).take(pa.array(order))

    def _places(self, parts: Sequence[Found], order: I64) -> tuple[I64, I64] | None:
        if not self.ask.places:
            return None
        nothing = np.empty(0, np.int64)
        segments = np.concatenate([*(np.full(len(part.slots), part.number) for part in parts), nothing])
        return segments[order], np.concatenate([*(part.slots for part in parts), nothing])[order]

    def profile(self, batch: Batch) -> Work:
        """The work of searching a batch, in the measures of the papers."""
        done = [Work()]
        for number, indexed in enumerate(self.version.segments):
            self._hits(number, batch)
            done.append(indexed.searched_by(self.eligible(number)).work)
        return Work.total(done)

    # --- as Arrow tables -------------------------------------------------------------------------------------

    def table(self, batch: Batch, first: int = 0) -> pa.Table:
        """The answers as rows of (event, subscription, score); the batch's events are those from row `first` on."""
        hits, counts = self._each(batch)
        rows = np.arange(first, first + len(batch)) if batch.rows is None else batch.rows + first
        runs = runs_of(len(batch), self._runs(int(counts[:, 1].sum())))
        for one in hits if len(runs) > 1 else ():  # what is kept for the next search is made once, not by every thread
            self._ids(one.number).taken(self._cut(one, 0, 0)[1])

        def columns(run: tuple[int, int]) -> tuple[I64, pa.Array, F64]:
            found = self._answers(hits, *run)
            return np.repeat(rows[slice(*run)], np.diff(found.starts)), found.subscriptions, found.scores

        made = dict(zip(COLUMNS, zip(*in_parallel(columns, runs, self.threads), strict=True), strict=True))
        if not self.ask.scores:
            del made["score"]
        return pa.table(
            {name: parts[0] if len(parts) == 1 else pa.chunked_array(parts) for name, parts in made.items()}
        )

    def _runs(self, answers: int) -> int:
        """The number of runs in which these answers are named: the same for each thread, or one where they are few."""
        each = min(RUNS, answers // (_NAMED_APIECE * self.threads))
        return each * self.threads if each else 1

    def whole(self, batch: Batch, reader: str) -> pa.Table:
        """All answers in one table; where they are too many, the error names the call that gives them in parts."""
        try:
            return self.table(batch)
        except TooManyAnswers as problem:
            raise TooManyAnswers(f"{problem}; read them piece by piece with {reader}") from None

    def pieces(self, batch: Batch, first: int) -> Iterator[pa.Table]:
        """The answers in as few tables as stay small; halves where there are too many."""
        most = len(batch) if self.ask.k is None else max(1, _ANSWERS_AT_ONCE // self.ask.k)
        for begin in range(0, len(batch), max(1, most)):
            part = batch.between(begin, min(begin + most, len(batch)))
            try:
                yield self.table(part, first)
            except TooManyAnswers:
                if len(part) <= 1:
                    raise
                for half in (part.between(0, len(part) // 2), part.between(len(part) // 2, len(part))):
                    yield from self.pieces(half, first)

    def reader(
        self, events: Any, read: Callable[[Any, list[Reject] | None], Batch], rejects: list[Reject] | None
    ) -> pa.RecordBatchReader:
        """The answers as record batches, made when they are asked for.

        `read` reads a group, and lists what it rejects; rows are those of all groups.
        """

        kind = pa.int64() if self.version.id_type is int else pa.string()
        score = {"score": pa.float64()} if self.ask.scores else {}
        schema = pa.schema({"event": pa.int64(), "subscription": kind} | score)

        def batches() -> Iterator[pa.RecordBatch]:
            first = 0
            for group, size in groups(events):
                for table in self.pieces(_read_group(group, first, read, rejects), first):
                    yield from table.cast(schema).to_batches()
                first += size

        return pa.RecordBatchReader.from_batches(schema, batches())


def _read_group(
    group: Any, first: int, read: Callable[[Any, list[Reject] | None], Batch], rejects: list[Reject] | None
) -> Batch:
    """The events of a group that begins at row `first`; rejects and errors name rows of the whole."""
    own: list[Reject] | None = None if rejects is None else []
    try:
        batch = read(group, own)
    except EventError as problem:
        raise problem.at(event=None if problem.event is None else problem.event + first) from None
    if rejects is not None:
        rejects.extend(one._replace(event=one.event + first) for one in own or ())
    return batch


def _chosen(batch: Batch, waiting: Sequence[tuple[int, I64]]) -> Iterator[tuple[int, I64, Batch]]:
    """Segments, and the events that were chosen for each: copied once, and then views."""
    if not waiting:
        return
    copied, begin = batch.choose(np.concatenate([chosen for _, chosen in waiting])), 0
    for number, chosen in waiting:
        end = begin + len(chosen)
        yield number, chosen, copied.between(begin, end)
        begin = end


def _interleaved(found: Sequence[tuple[Segment, list[int]]]) -> list[Id]:
    """The ids of what several segments answer to one event, in order of insertion: the few go between the many."""
    if not found:
        return []
    segment, slots = found[0] if len(found) == 1 else max(found, key=lambda one: len(one[1]))
    ids, sequence = segment.ids.named(slots), segment.arrays.sequence.item
    places = []
    for other, few in found:
        if few is not slots:
            numbers = map(other.arrays.sequence.item, few)
            places += [
                (bisect(slots, number, key=sequence), number, one)
                for number, one in zip(numbers, other.ids.named(few), strict=True)
            ]
    places.sort()
    for place, _, one in reversed(places):
        ids.insert(place, one)
    return ids


def _best_of(found: Sequence[tuple[Segment, list[int], list[float]]], k: int) -> list[tuple[Id, float]]:
    """The ids of the k best of what several segments answer to one event, with their scores; each gives its k best."""
    if len(found) == 1:
        segment, slots, scores = found[0]
        return list(zip(segment.ids.named(slots), scores, strict=True))
    rows = [
        (-score, sequence, segment, slot, score)
        for segment, slots, scores in found
        for slot, score, sequence in zip(slots, scores, segment.arrays.sequence[slots].tolist(), strict=True)
    ]
    rows.sort(key=itemgetter(0, 1))
    return [(segment.ids.named([slot])[0], score) for _, _, segment, slot, score in rows[:k]]


def _merged(parts: Sequence[Found], count: int, k: int | None) -> tuple[I64, I64]:
    """The answers of several segments, put one after another, in order: (where each event's begin, their order)."""
    none = np.empty(0, np.int64)
    events = np.concatenate([*(one.events for one in parts), none.astype(np.int64)])
    scores = np.concatenate([*(one.scores for one in parts), none])
    sequence = np.concatenate([*(one.sequence for one in parts), none.astype(np.int64)])
    return in_order(events, scores, sequence, count, k)


def _between(hits: Hits, first: int, last: int) -> tuple[int, int]:
    """Which of the events that a segment was asked are first .. last of the batch."""
    if hits.chosen is None:
        return first, last
    begin, end = np.searchsorted(hits.chosen, (first, last)).tolist()
    return begin, end


def _raised(floor: Floor | None, hits: Hits, segment: Segment, events: int, k: int) -> Floor:
    """The floor after a segment has given its best: its k-th best answer, where there is one and it is better.

    O(events that were asked of the segment).
    """
    if floor is None:
        floor = Floor(np.full(events, -np.inf), np.zeros(events, np.int64))
    full = np.flatnonzero(np.diff(hits.starts) >= k)
    if hits.scores is None or not len(full):
        return floor
    last = hits.starts[full + 1] - 1  # the k-th
    event = full if hits.chosen is None else hits.chosen[full]
    score, sequence = hits.scores[last], segment.arrays.sequence[hits.slots[last]]
    better = (score > floor.score[event]) | ((score == floor.score[event]) & (sequence < floor.sequence[event]))
    floor.score[event[better]], floor.sequence[event[better]] = score[better], sequence[better]
    return floor


def asked_k(k: Any) -> int:
    """The number of results that a user asks for."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise EarmarkError(f"expected a number of results k, 1 or more, got {shown(k)}")
    return int(k)


def asked_relaxed(mode: Any) -> bool:
    """Whether the mode that a user asks for is "relaxed"."""
    if mode not in get_args(Mode):
        raise EarmarkError(f"expected 'exact' or 'relaxed' for mode, got {mode!r}")
    return bool(mode == "relaxed")
