"""What a worker does with a batch of events: read it, search it, and return the answers in batches of bounded size.

    batch ──read──► keys, and what cannot be read ──search──► answers ──► carried columns, subscription, score, …

**What cannot be read** of an event is an error that names the event by its carried columns (`on_error="raise"`), counts
as NULL ("null"), or leaves the event out ("reject"). In the last two cases `reject_batches` lists event, attribute and
reason.

**Bounded batches.** An event has its carried columns once for every answer. A batch that is returned is cut so that
these stay below OUTPUT_BYTES, by the size of each row; a single row may be larger. Searches are small enough to find
about WANTED_ANSWERS at a time (`Pace`).

**Details** of the subscriptions (their condition, their tags, their payload) are looked up by segment and slot
(details.py); their bytes count, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from earmark.book.payload import Payload, bytes_of, opened_payload
from earmark.book.saving import opened
from earmark.engine.batch import Batch, OnError
from earmark.engine.searcher import Answers, Ask, Searcher
from earmark.engine.version import Version
from earmark.errors import EarmarkError, EventError, TooManyAnswers, shortened, shown
from earmark.events.mappings import Reject
from earmark.flat.arrays import I64
from earmark.keys.schema import LIFE
from earmark.segment.combine import combination
from earmark.segment.segment import Tags
from earmark.spark.details import BLOCK, TEXTS, Details
from earmark.spark.frames import Columns, arrow_id_type, encoded

FIRST_STEP, LAST_STEP = 64, 65_536
"""Events of the first search, of whose answers nothing is known, and most of any search."""
GROWTH, CAREFUL = 32.0, 1.25
"""A search has at most this many times the events of the one before; the latter once there were too many answers."""
READ_STEP = 2_048
"""Events that are read at a time where they are not searched."""
WANTED_ANSWERS = 1 << 20  # per search
OUTPUT_ROWS = 1 << 16  # per batch returned
OUTPUT_BYTES = 8 << 20
"""Most bytes of carried columns and details per batch returned, unless a row alone is larger."""
JOINED_BYTES = 32 << 20
"""Batches are joined up to this size."""
REJECTED = ("attribute", "reason")
"""The columns of rejected events, besides those that are carried along."""
_NAMED = 3


class Search(NamedTuple):
    """What to search and how: sent to the workers, and the same for DataFrames and SQL."""

    root: str
    version: int
    checksum: str
    """Of the version's record, since a folder may have been deleted and published again."""
    k: int | None
    relaxed: bool
    scope: Tags
    weights: dict[str, float] | None
    on_error: OnError = "raise"
    combine: str = "sum"

    def opened(self) -> Version:
        """Open the version in this process, once."""
        return opened(self.root, self.version, self.checksum)

    def payload(self) -> Payload:
        """Open the payload of the version in this process, once."""
        return opened_payload(self.root, self.version, self.checksum)

    def searcher(self, version: Version, *, places: bool = False) -> Searcher:
        """Return a searcher of the version."""
        return Searcher(version, Ask(self.k, self.relaxed, self.scope, True, places, combination(self.combine)))

    def read(self, version: Version, columns: Columns, batch: pa.RecordBatch) -> EventBatch:
        """Return the events of a batch as keys."""
        rejects: list[Reject] | None = None if self.on_error == "raise" else []
        try:
            keys = Batch(encoded(version.schema, columns, batch, self.weights, rejects), {}, None)
        except EventError as problem:
            raise _named(problem, columns, batch) from None
        wrong = {one.event for one in rejects or () if self.on_error == "reject" or one.attribute is None}
        if not wrong:
            return EventBatch(batch, keys, rejects or [])
        kept = np.setdiff1d(np.arange(batch.num_rows), np.fromiter(wrong, np.int64))
        return EventBatch(batch.take(pa.array(kept)), keys.choose(kept), rejects or [])


class EventBatch(NamedTuple):
    """Events as they came and as keys, without those that were rejected."""

    rows: pa.RecordBatch
    keys: Batch
    rejects: list[Reject]
    """What could not be read; by the rows of the batch as it came."""

    @property
    def unread(self) -> int:
        """Number of events of which something could not be read."""
        return len({one.event for one in self.rejects})


class Searched(NamedTuple):
    """Events and their answers."""

    rows: pa.RecordBatch
    answers: Answers
    events: int
    """Number of events, those that were left out included."""
    rejected: int
    """Number of events of which something could not be read."""


def _named(problem: EventError, columns: Columns, batch: pa.RecordBatch) -> EarmarkError:
    """Return the same problem, with the event named by its carried columns, or else its attributes, not its place."""
    row, values = problem.event, []
    if row is None:
        return problem
    shown_as = list(zip(columns.names, columns.carried, strict=False))
    if not shown_as or columns.is_numbered:
        shown_as = [(name, at) for name, at in columns.attributes if name != LIFE]
        shown_as += [] if columns.event_map is None else [("event", columns.event_map)]
    for name, at in shown_as[:_NAMED]:
        try:
            values.append(f"{name}={shortened(shown(batch.column(at)[row].as_py()), 60)}")
        except (ValueError, OverflowError, pa.ArrowException):
            values.append(f"{name}=?")
    return problem.at(event=None, source=f"event ({', '.join(values)})" if values else "an event")


# --- searching -----------------------------------------------------------------------------------------------

T = TypeVar("T")


class Pace:
    """How many events are searched at a time: as many as find about WANTED_ANSWERS, by those searched before."""

    def __init__(self, k: int | None) -> None:
        self.step = FIRST_STEP if k is None else _step(k)
        self._growth = GROWTH

    def over(
        self, batch: pa.RecordBatch, search: Callable[[pa.RecordBatch], tuple[T, int]]
    ) -> Iterator[tuple[pa.RecordBatch, T]]:
        """Yield the events of a batch, some at a time, and what `search` finds, which also returns its answers' number.

        Where there are too many, half the events are searched.
        """
        first = 0
        while first < batch.num_rows:
            part = batch.slice(first, self.step)
            try:
                found, answers = search(part)
            except TooManyAnswers:
                if part.num_rows == 1:
                    raise
                self.step, self._growth = part.num_rows // 2, CAREFUL
                continue
            first += part.num_rows
            self.step = min(_step(answers / part.num_rows), ceil(self.step * self._growth))
            yield part, found


def _step(answers: float) -> int:
    """Return how many events to search at a time if each has this many answers."""
    return int(min(max(WANTED_ANSWERS / max(answers, 1 / LAST_STEP), 1), LAST_STEP))


def searched(search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]) -> Iterator[Searched]:
    """Yield the events of a partition, some at a time, and their answers."""
    version = search.opened()
    searcher = search.searcher(version, places=bool(columns.details))

    def answers_of(part: pa.RecordBatch) -> tuple[tuple[EventBatch, Answers], int]:
        events = search.read(version, columns, part)
        answers = searcher.answers(events.keys)
        return (events, answers), len(answers.scores)

    pace = Pace(search.k)
    for batch in batches if version.router is None else larger(batches):
        for part, (events, answers) in pace.over(batch, answers_of):
            yield Searched(events.rows, answers, part.num_rows, events.unread)


class Counted(NamedTuple):
    """What was counted of the events of a partition."""

    events: int
    rejected: int
    """Number of events of which something could not be read."""
    matches: int
    tables: I64
    """By segment: how many events were searched in it, and how many answers it gave (rows of two)."""


def counted(search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]) -> Counted:
    """Search the events of a partition, and only count."""
    version = search.opened()
    searcher = search.searcher(version)

    def sizes_of(part: pa.RecordBatch) -> tuple[tuple[int, int, I64], int]:
        events = search.read(version, columns, part)
        sizes, tables = searcher.sizes(events.keys)
        matches = int(sizes.sum())
        return (events.unread, matches, tables), matches

    pace = Pace(search.k)
    total = Counted(0, 0, 0, np.zeros((len(version.segments), 2), np.int64))
    for batch in batches if version.router is None else larger(batches):
        for part, (unread, matches, tables) in pace.over(batch, sizes_of):
            events, rejected = total.events + part.num_rows, total.rejected + unread
            total = Counted(events, rejected, total.matches + matches, total.tables + tables)
    return total


def larger(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of about LAST_STEP: every batch costs a search in each shard that it meets."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if waiting and (rows + batch.num_rows > LAST_STEP or size + batch.nbytes > JOINED_BYTES):
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def match_batches(search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the answers for the batches of a partition."""
    details = details_of(search, columns)
    for part in searched(search, columns, batches):
        yield from result_batches(search, columns, part.rows, part.answers, details)


def reject_batches(search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what cannot be read of the batches of a partition: carried columns, attribute, reason."""
    version = search.opened()
    names = [*columns.names[: len(columns.carried)], *REJECTED]
    for batch in batches:
        for first in range(0, batch.num_rows, READ_STEP):
            part = batch.slice(first, READ_STEP)
            rejects = search.read(version, columns, part).rejects
            if not rejects:
                continue
            rows = np.array([one.event for one in rejects], np.int64)
            said = [pa.array([getattr(one, name) for one in rejects], pa.string()) for name in REJECTED]
            for begin, end in cuts(row_bytes(part, columns.carried), rows):
                carried = [part.column(at).take(pa.array(rows[begin:end])) for at in columns.carried]
                yield pa.RecordBatch.from_arrays([*carried, *(own.slice(begin, end - begin) for own in said)], names)


# --- answers as batches --------------------------------------------------------------------------------------


def result_batches(
    search: Search, columns: Columns, batch: pa.RecordBatch, answers: Answers, details: Details | None
) -> Iterator[pa.RecordBatch]:
    """Yield answers as batches of the result; `details` are those of the partition (`details_of`)."""
    counts = np.diff(answers.starts)
    events, at = answers.events, np.arange(len(answers.scores))
    if columns.left and not counts.all():
        events = np.repeat(np.arange(batch.num_rows), np.maximum(counts, 1))
        at = np.full(len(events), -1)
        at[(counts > 0)[events]] = np.arange(len(answers.scores))
    if not len(events):
        return
    rank = None
    if columns.rank:
        rank = np.arange(1, len(answers.scores) + 1) - np.repeat(answers.starts[:-1], counts)
    places = answers.places or (np.empty(0, np.int64),) * 2
    for begin, end in answer_cuts(row_bytes(batch, columns.carried)[events], details, places, at):
        chosen = _indices(at[begin:end])
        made = [batch.column(number).take(pa.array(events[begin:end])) for number in columns.carried]
        made += [answers.subscriptions.take(chosen), pa.array(answers.scores).take(chosen)]
        made.append(pa.array(np.full(end - begin, search.version, np.int64)))
        if rank is not None:
            made.append(pa.array(rank).take(chosen))
        if details is not None:
            made += _detailed(details, places, at[begin:end])
        yield pa.RecordBatch.from_arrays(made, columns.names)


def _indices(at: I64) -> pa.Array:
    """Return places of answers to take; NULL where there is none."""
    return pa.array(at, mask=at < 0) if len(at) and at.min() < 0 else pa.array(at)


def details_of(search: Search, columns: Columns) -> Details | None:
    """Return what gives the columns of subscriptions, if there are any; once per partition, since it keeps some."""
    return Details(search.opened(), columns.details, search.payload) if columns.details else None


def answer_cuts(sizes: I64, details: Details | None, places: tuple[I64, I64], at: I64) -> Iterator[tuple[int, int]]:
    """Yield where to cut rows of these sizes, to which their details are added; `at` are the places of answers."""
    if details is None:
        yield from cuts(sizes, np.arange(len(sizes)))
        return
    for first in range(0, len(sizes), BLOCK):
        own, chosen = sizes[first : first + BLOCK].copy(), at[first : first + BLOCK]
        there = chosen >= 0
        own[there] += details.sizes(*(place[chosen[there]] for place in places))
        for begin, end in cuts(own, np.arange(len(own))):
            yield first + begin, first + end


def _detailed(details: Details, places: tuple[I64, I64], at: I64) -> list[pa.Array]:
    """Return columns of the subscriptions of some answers; NULL where there is none."""
    there = at >= 0
    made = details.columns(*(own[at[there]] for own in places))
    return made if there.all() else [own.take(_indices(np.where(there, np.cumsum(there) - 1, -1))) for own in made]


def type_of_detail(search: Search, name: str) -> pa.DataType:
    """Return the Arrow type of a column of the subscriptions."""
    return TEXTS[name] if name in TEXTS else search.payload().type_of(name)


def cuts(sizes: I64, events: I64) -> Iterator[tuple[int, int]]:
    """Yield where to cut rows that repeat events of these sizes, so that batches stay small."""
    ends = np.cumsum(sizes[events])
    first = 0
    while first < len(events):
        before = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(ends, before + OUTPUT_BYTES, "right"))
        last = min(max(last, first + 1), first + OUTPUT_ROWS)
        yield first, last
        first = last


def row_bytes(batch: pa.RecordBatch, columns: list[int]) -> I64:
    """Return the bytes that each row takes in these columns."""
    total = np.zeros(batch.num_rows, np.int64)
    for at in columns:
        total += bytes_of(batch.column(at))
    return total


# --- counts --------------------------------------------------------------------------------------------------

TALLY = "__counts"
TALLY_TYPE = pa.list_(pa.int64())
FIRST_COUNTS = ("events", "rejected", "searched", "candidates")
"""The first numbers of a tally: events read; those of which something could not be read; events times the segments that
each was searched in; answers of all segments, of which the k best are kept. The rest are pairs of events and answers by
segment."""


def tally_batches(
    search: Search, columns: Columns, by_segment: bool, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the answers for the batches of a partition, and last a row of what was counted."""
    events = rejected = 0
    total: Any = 0
    carried: list[pa.DataType] = []
    names = columns.names
    details = details_of(search, columns)
    for part in searched(search, columns, batches):
        total = total + part.answers.counts
        events, rejected = events + part.events, rejected + part.rejected
        carried = [part.rows.column(at).type for at in columns.carried]
        for made in result_batches(search, columns, part.rows, part.answers, details):
            yield made.append_column(TALLY, pa.nulls(made.num_rows, TALLY_TYPE))
    if events:
        types = [*carried, arrow_id_type(search.opened().id_type is int), pa.float64(), pa.int64()]
        types += [pa.int64()] * columns.rank + [type_of_detail(search, name) for name in columns.details]
        nothing = pa.RecordBatch.from_arrays([pa.nulls(1, type_) for type_ in types], names)
        counted = [events, rejected, *(total.sum(axis=0).tolist() if len(total) else (0, 0))]
        counted += total.ravel().tolist() if by_segment else []
        yield nothing.append_column(TALLY, pa.array([counted], TALLY_TYPE))
