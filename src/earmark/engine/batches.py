"""Many events at once: read, searched in a state, answered as Arrow tables or record batches.

    events   a sequence of mappings, an Arrow table or record batch, a pandas or polars frame
             where they are read piece by piece, also an iterator of mappings or an Arrow RecordBatchReader
    answers  rows of (event, subscription, score); `event` is the row number

What cannot be read of an event is an error (`on_error="raise"`), counts as NULL ("null"), or leaves the event out
("reject"); in the last two cases it is told in a list of `Reject`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from earmark.engine.state import State
from earmark.errors import EarmarkError, EventError, TooManyAnswers
from earmark.events.arrays import EventArrays
from earmark.events.choice import some_events
from earmark.events.frames import as_arrow, encode_frame, is_frame
from earmark.events.mappings import Reject, encode_events, repeated
from earmark.flat.types import F64, I32, I64
from earmark.index.answers import MOST_ANSWERS
from earmark.index.given import asked_k, asked_relaxed
from earmark.segment.arrow import IdColumn
from earmark.segment.evaluate import score_matches
from earmark.segment.seen import Seen

if TYPE_CHECKING:
    import pyarrow as pa

OnError: TypeAlias = Literal["raise", "null", "reject"]
GROUP = 8_192
"""Events searched at a time where answers are read piece by piece."""
_ANSWERS_AT_ONCE = 4_000_000


class Batch(NamedTuple):
    """Events as keys, and the row number of each; None where they are those from 0 on."""

    events: EventArrays
    rows: I64 | None


def read(state: State, events: Any, weights: Any, on_error: OnError, rejects: list[Reject] | None, seen: Seen) -> Batch:
    """A batch as keys of a state."""
    check_on_error(on_error, rejects)
    schema = state.table.schema
    found: list[Reject] | None = None if on_error == "raise" else []
    if is_frame(events):
        frame = as_arrow(events)
        encoded = encode_frame(schema, frame, repeated(weights, frame.num_rows), found)
        seen.note(encoded.attr, frame.num_rows, [frame.column_names])
    else:
        events = _listed(events)
        encoded = encode_events(schema, events, repeated(weights, len(events)), found)
        seen.note(encoded.attr, len(events), events)
    if not found:
        return Batch(encoded, None)
    if rejects is not None:
        rejects += found
    wrong = {one.event for one in found if on_error == "reject" or one.attribute is None}
    if not wrong:
        return Batch(encoded, None)
    rows = np.setdiff1d(np.arange(len(encoded.start) - 1), np.fromiter(wrong, np.int64))
    return Batch(some_events(encoded, rows), rows)


def check_on_error(on_error: Any, rejects: Any) -> None:
    """Refuse what is none of the words, and what rejects cannot be added to."""
    if on_error not in ("raise", "null", "reject"):
        raise EarmarkError(f"expected 'raise', 'null' or 'reject' for on_error, got {on_error!r}")
    if rejects is not None and not isinstance(rejects, list):
        raise EarmarkError(
            f"rejects must be a list, to which rejected events are appended, got {type(rejects).__name__}"
        )


def _listed(events: Any) -> Sequence[Any]:
    if isinstance(events, Mapping):
        raise EventError("expected a sequence of events or a frame, got one mapping; for a single event use match")
    if isinstance(events, str | bytes) or not isinstance(events, Iterable):
        raise EventError(f"expected a sequence of events or a frame, got {type(events).__name__}")
    return events if isinstance(events, Sequence) else list(events)


class BatchSearch(NamedTuple):
    """What is asked of every event."""

    state: State
    scope: Mapping[str, str] | None
    k: int | None = None
    """None for all matches."""
    relaxed: bool = False
    by: str | None = None
    """The name of another index than the state's own."""

    @classmethod
    def best(cls, state: State, scope: Mapping[str, str] | None, k: Any, mode: Any, index: str | None) -> BatchSearch:
        """The k best, of what a user asks."""
        return cls(state, scope, min(asked_k(k), max(1, state.table.slots)), asked_relaxed(mode), index)

    def found(self, events: EventArrays) -> tuple[I64, I32, F64]:
        """The answers: (event_ptr, slots, scores)."""
        state = self.state
        eligible = state.eligible(self.scope)
        if self.k is not None:
            if self.k * (len(events.start) - 1) > MOST_ANSWERS:
                raise TooManyAnswers(f"k = {self.k:,} for so many events may give more than {MOST_ANSWERS:,} answers")
            return state.ranked_by(self.by).top_k_many(events, self.k, eligible, self.relaxed)
        starts, slots = state.match_many(events, eligible)
        scores = np.empty(len(slots), np.float64)
        score_matches(state.table.arrays, events, starts, slots, scores)
        return starts, slots, scores

    def table(self, batch: Batch, ids: IdColumn, first: int = 0) -> pa.Table:
        """The answers as rows; the batch's events are those from row `first` on."""
        import pyarrow as pa

        starts, slots, scores = self.found(batch.events)
        rows = np.arange(len(starts) - 1, dtype=np.int64) if batch.rows is None else batch.rows
        named = ids.of(self.state.table).take(pa.array(slots))
        return pa.table({"event": np.repeat(rows + first, np.diff(starts)), "subscription": named, "score": scores})

    def whole(self, batch: Batch, ids: IdColumn, reader: str) -> pa.Table:
        """All answers in one table; where they are too many, the error names the call that gives them in parts."""
        try:
            return self.table(batch, ids)
        except TooManyAnswers as problem:
            raise TooManyAnswers(f"{problem}; read them piece by piece with {reader}") from None

    def pieces(self, ids: IdColumn, batch: Batch, first: int) -> Iterator[pa.Table]:
        """The answers in as few tables as stay small; halves where there are too many."""
        count = len(batch.events.start) - 1
        most = count if self.k is None else max(1, _ANSWERS_AT_ONCE // self.k)
        for begin in range(0, count, max(1, most)):
            part = _some(batch, begin, min(begin + most, count))
            try:
                yield self.table(part, ids, first)
            except TooManyAnswers:
                if len(part.events.start) <= 2:
                    raise
                middle = (len(part.events.start) - 1) // 2
                for half in (_some(part, 0, middle), _some(part, middle, len(part.events.start) - 1)):
                    yield from self.pieces(ids, half, first)


def _some(batch: Batch, begin: int, end: int) -> Batch:
    chosen = np.arange(begin, end)
    if len(chosen) == len(batch.events.start) - 1:
        return batch
    return Batch(some_events(batch.events, chosen), chosen if batch.rows is None else batch.rows[begin:end])


def reader(search: BatchSearch, ids: IdColumn, events: Any, take: Callable[[Any, int], Batch]) -> pa.RecordBatchReader:
    """The answers as record batches, made when they are asked for. `take` reads a group, given its first row."""
    import pyarrow as pa

    kind = ids.of(search.state.table).type
    schema = pa.schema({"event": pa.int64(), "subscription": kind, "score": pa.float64()})

    def batches() -> Iterator[pa.RecordBatch]:
        first = 0
        for group, size in _groups(events):
            for table in search.pieces(ids, take(group, first), first):
                yield from table.cast(schema).to_batches()
            first += size

    return pa.RecordBatchReader.from_batches(schema, batches())


def _groups(events: Any) -> Iterator[tuple[Any, int]]:
    """Events in groups, and how many each has."""
    import pyarrow as pa

    if isinstance(events, pa.RecordBatchReader):
        for batch in events:
            for begin in range(0, batch.num_rows, GROUP):
                part = batch.slice(begin, GROUP)
                yield part, part.num_rows
    elif is_frame(events):
        frame = as_arrow(events)
        for begin in range(0, frame.num_rows, GROUP):
            piece = frame.slice(begin, GROUP)
            yield piece, piece.num_rows
    else:
        _check_iterable(events)
        following = iter(events)
        while group := list(islice(following, GROUP)):
            yield group, len(group)


def _check_iterable(events: Any) -> None:
    if isinstance(events, Mapping | str | bytes) or not isinstance(events, Iterable):
        _listed(events)
