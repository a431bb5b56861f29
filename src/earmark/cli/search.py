"""A source of events searched with a matcher: read, search group by group, name the events, sum up.

`run` is the work behind `match`, `top-k` and `backtest`. `Rejects` are the values and events that cannot be read:

    --on-error raise     the first is an error, and nothing is written
    --on-error null      a value that cannot be read counts as NULL
    --on-error reject    an event with a value that cannot be read is left out

An event that cannot be read at all (a broken line of JSON) is left out in the last two cases. The file of --reject has
one row (event, line, attribute, reason) for each value or event; `line` is NULL where a source has no lines.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from earmark.cli.files import load, write_tables
from earmark.cli.options import Reading
from earmark.errors import EarmarkError, EventError, shown
from earmark.events.arrays import EventArrays
from earmark.events.choice import some_events
from earmark.events.frames import encode_many
from earmark.events.mappings import Reject
from earmark.events.moments import check_moment
from earmark.flat.arrays import I64, frozen
from earmark.keys.schema import Schema
from earmark.language.words import counted
from earmark.matcher import Matcher
from earmark.progress import shares
from earmark.segment.segment import Segment
from earmark.tabular.read import read_batches
from earmark.tabular.source import Chunk, Source
from earmark.tabular.write import check_target, writing

Search = Callable[..., pa.Table]
"""Searches a group of events: `search(matcher, rows, on_error=…, rejects=…)`, with the options of `Matcher.match_many`,
returns rows of (event, …), events numbered within the group."""

GROUP = 2_048  # events searched at a time, so that a group's results fit in memory
SAMPLE = 100_000  # most events of a sample
COLUMNS = ["event", "line", "attribute", "reason"]  # of the file of --reject


def run(
    search: Search,
    *,
    subscriptions: str | None,
    events: str,
    output: str | None,
    event_id: str | None,
    as_json: bool,
    reading: Reading,
    rejects: Rejects,
    at: str | None,
    weights: Iterable[str] = (),
    condition: str = "",
    sample: int | None = None,
) -> None:
    """Search all events, and write the results to a file or to stdout.

    `at` is when all events happened; without it, they tell, or it is now. `weights` names attributes that must exist.
    Without `subscriptions`, `condition` is the only one. With `sample`, the results are one row per subscription: how
    often it matches, and that many of the events.
    """
    inputs = [events] if subscriptions is None else [subscriptions, events]
    reading.check(*inputs, output=output)
    rejects.check(inputs, output)
    source = reading.source(events)
    matcher, loading = load(subscriptions, reading, condition)
    if at is not None:
        check_moment(matcher._version.schema, at)  # here, since what a search refuses is said to be of the events
    begun = time.perf_counter()
    searched = EventSearch(matcher, source, partial(search, at=at), event_id, rejects)
    for name in weights:
        if name not in searched.kinds:
            raise EarmarkError(f"--weight names {name!r}, which no subscription uses")
    results = searched.results(shown=output is not None or not sys.stdout.isatty())
    with rejects:
        if sample is not None:
            tally = Tally(matcher, sample)
            tally.take(results)
            results = iter([tally.table(searched.events - rejects.events)])
        write_tables(results, output, as_json)
    counts = {"events": searched.events, "results": searched.found, "subscriptions": len(matcher)}
    sum_up(counts, (loading, time.perf_counter() - begun), output, as_json, rejects)


def sum_up(
    counts: dict[str, int], seconds: tuple[float, float], output: str | None, as_json: bool, rejects: Rejects
) -> None:
    """Print a summary of a search: a line on stderr, or a JSON object on stdout where no rows go there.

    `counts` are of events, results and subscriptions, in this order; `seconds` of loading and of matching. A second
    line says what was not read.
    """
    loading, matching = seconds
    events, results, subscriptions = counts.values()
    if as_json and output is not None:
        times = {"load_seconds": round(loading, 3), "match_seconds": round(matching, 3)}
        click.echo(json.dumps({**counts, **rejects.counts(), **times, "output": output}))
        return
    if not as_json:
        rate = f" ({events / matching:,.0f} per second)" if matching > 1 and events > 1 else ""
        loaded = f"loaded {counted(subscriptions, 'subscription')} in {loading:.1f} s"
        searched = f"{counted(events, 'event')} in {matching:.1f} s{rate}: {counted(results, 'result')}"
        click.echo(f"{loaded}; {searched}", err=True)
    if rejects.on_error != "raise":
        click.echo(rejects.summary(events), err=True)


class Rejects:
    """Counts the values and events that were not read, and lists them in a file; `with` makes the file appear."""

    def __init__(self, on_error: Literal["raise", "null", "reject"] | None = None, path: str | None = None) -> None:
        if on_error == "raise" and path is not None:
            raise EarmarkError("--reject needs --on-error reject or --on-error null: raise rejects nothing")
        self.is_given = on_error is not None or path is not None
        self.on_error = on_error or ("raise" if path is None else "reject")
        self.path = path
        self.events = 0
        """Events left out."""
        self.values = 0
        """Values that count as NULL."""
        self._undo = contextlib.ExitStack()
        self._write: Callable[[pa.Table], None] | None = None

    def check(self, inputs: Sequence[str], output: str | None) -> None:
        """Refuse a file that could not be written, before the work starts."""
        if self.path is None:
            return
        check_target(self.path, inputs)
        if output is not None and os.path.realpath(output) == os.path.realpath(self.path):
            raise EarmarkError(f"{self.path!r} cannot be written: the results go there")

    def __enter__(self) -> Rejects:
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        if kind is None and self.path is not None and self._write is None:
            self._append(pa.array([], "int64"), [], [], [])  # a file without rows
        self._undo.__exit__(kind, value, trace)

    def left_out(self, rejects: Sequence[Reject]) -> set[int]:
        """Return the events of a group that have no results."""
        return {r.event for r in rejects if self.on_error == "reject" or r.attribute is None}

    def take(self, group: Chunk, rejects: Sequence[Reject], names: pa.Array) -> None:
        """Count and list the rejects of a group; `names` are those of all its events."""
        if not rejects:
            return
        gone = self.left_out(rejects)
        self.events += len(gone)
        self.values += sum(r.event not in gone for r in rejects)
        if self.path is not None:
            rows, attributes, reasons = zip(*sorted(rejects, key=lambda r: r.event), strict=True)
            lines = [int(group.lines[row]) if len(group.lines) else None for row in rows]
            self._append(names.take(pa.array(rows)), lines, attributes, reasons)

    def _append(self, events: Any, *columns: Sequence[Any]) -> None:
        """Append rows to the file, which the first of them open: they have the type of the events' names."""
        typed = zip(columns, ("int64", "string", "string"), strict=True)
        table = pa.table([events, *(pa.array(column, kind) for column, kind in typed)], COLUMNS)
        if self._write is None:
            self._write = self._undo.enter_context(writing(str(self.path), table.schema))
        self._write(table)

    def summary(self, events: int) -> str:
        """Return how much was not read, for people."""
        parts = []
        if self.on_error == "null":
            parts.append(f"{counted(self.values, 'value')} not read and taken for NULL")
        if self.on_error == "reject" or self.events:
            parts.append(f"{self.events:,} of {counted(events, 'event')} rejected")
        return ", ".join(parts) + ("" if self.path is None else f", see {self.path}")

    def counts(self) -> dict[str, Any]:
        """Return how much was not read, for programs; nothing where that is an error."""
        if self.on_error == "raise":
            return {}
        counts = {"rejected_events": self.events, "null_values": self.values}
        return counts if self.path is None else {**counts, "reject": self.path}


@dataclass
class EventSearch:
    """The search of all events of a source. Memory: a chunk of the source and the results of a group."""

    matcher: Matcher
    source: Source
    search: Search
    event_id: str | None
    rejects: Rejects = field(default_factory=Rejects)
    id_type: Any = None
    events: int = 0
    found: int = 0

    def __post_init__(self) -> None:
        self.kinds: dict[str, str | None] = self.matcher.stats()["attributes"]
        """The types of attributes by name; None where no condition compares one with a value."""
        used = self.kinds.keys() | ({self.matcher.time} if self.matcher.time else set())
        nested = {name[:i] for name in used for i, character in enumerate(name) if character == "."}
        self._columns = nested | used  # those of attributes, and those inside which they may be nested

    def results(self, shown: bool) -> Iterator[pa.Table]:
        """Yield results group by group; at least one table, so that an output has its columns."""
        wanted: set[Any] = {*self._columns, self.event_id}
        kinds = {name: kind for name, kind in self.kinds.items() if name != self.event_id}
        chunks = read_batches(self.source, kinds, wanted, self.rejects.on_error != "raise")
        empty = True
        for group in shares(self._groups(chunks), "matching", shown):
            yield self._of_group(group)
            empty = False
        if empty:
            yield self._of_group(Chunk([], 0, 1.0))

    def _groups(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        """Yield chunks in smaller pieces; check the columns of the first before anything is searched."""
        before: float | None = 0.0
        for chunk in chunks:
            if isinstance(chunk.rows, pa.Table) and chunk.first == 0:
                names = chunk.rows.column_names
                if self.event_id is not None:
                    if self.event_id not in names:
                        raise EarmarkError(f"{self.source} has no column {self.event_id!r} to name events by")
                    self.id_type = chunk.rows.schema.field(self.event_id).type
                if self._columns and self._columns.isdisjoint(names):
                    listed = ", ".join(sorted(self.kinds)[:10])
                    note = f"note: {self.source} has none of the attributes ({listed}), so all are NULL"
                    click.echo(f"earmark: {note}", err=True)
            yield from chunk.parts(GROUP, before)
            before = chunk.share

    def _of_group(self, group: Chunk) -> pa.Table:
        """Return the results of a group, its events named as the user wants them."""
        names, unread = self._names(group)
        before = self.rejects.left_out(unread)
        try:
            results = self.search(self.matcher, group.rows, on_error=self.rejects.on_error, rejects=unread)
        except EarmarkError as problem:
            raise group.located(problem) from None
        if before:
            results = results.filter(pc.invert(pc.is_in(results["event"], pa.array(sorted(before), pa.int64()))))
        self.rejects.take(group, unread, names)
        self.events += len(group.rows)
        self.found += results.num_rows
        return results.set_column(0, "event", names.take(results["event"]))

    def _names(self, group: Chunk) -> tuple[Any, list[Reject]]:
        """Return the names of the events of a group, and what could not be read of them so far."""
        unread = list(group.rejects)
        if self.event_id is None:
            return pa.array(np.arange(group.first, group.first + len(group.rows), dtype=np.int64)), unread
        if isinstance(group.rows, pa.Table):
            return group.rows.column(self.event_id), unread
        unreadable = {reject.event for reject in unread if reject.attribute is None}
        ids: list[Any] = []
        for row, event in enumerate(group.rows):
            ids.append(event.get(self.event_id))
            problem = None if row in unreadable else self._wrong_id(ids[row])
            if problem is not None:
                if self.rejects.on_error == "raise":
                    raise group.located(problem.at(event=row))
                unread.append(Reject.of(problem, row))
                ids[row] = None
        return pa.array(ids, self.id_type or pa.string()), unread

    def _wrong_id(self, value: Any) -> EventError | None:
        """Return why this cannot name an event of JSON lines: names are all strings or all integers, like the first."""
        kind = {str: pa.string(), int: pa.int64()}.get(type(value))
        self.id_type = self.id_type or kind
        if kind is not None and kind == self.id_type and (kind == pa.string() or -(2**63) <= value < 2**63):
            return None
        known = {pa.string(): "a string", pa.int64(): "an integer"}.get(self.id_type)
        wanted = "a string or an integer" if kind is None or known is None else known
        return EventError(f"expected {wanted} for {self.event_id!r}, which names events, got {shown(value)}")


class Tally:
    """Counts of matches, and the first events that each subscription matches. Memory: O(subscriptions)."""

    def __init__(self, matcher: Matcher, sample: int) -> None:
        self.ids = matcher.ids()
        self._place = {id: i for i, id in enumerate(self.ids)}
        self._counts: I64 = np.zeros(len(self.ids), np.int64)
        self._size = sample
        self._shown: list[list[Any]] = [[] for _ in self.ids]
        self._event_type: pa.DataType = pa.int64()

    def take(self, results: Iterable[pa.Table]) -> None:
        """Count (event, subscription) pairs that come in the order of events."""
        for table in results:
            self._event_type = table.schema.field("event").type
            coded = table["subscription"].combine_chunks().dictionary_encode()
            places = np.array([self._place[id] for id in coded.dictionary.to_pylist()], np.int64)
            codes = np.asarray(coded.indices).astype(np.int64)
            before = self._counts[places]
            self._counts[places] += np.bincount(codes, minlength=len(places))
            order = np.argsort(codes, kind="stable")
            starts = np.searchsorted(codes[order], np.arange(len(places)))
            rank = np.arange(len(order)) - starts[codes[order]] + before[codes[order]]
            first = order[rank < self._size]
            events = table["event"].take(pa.array(first)).to_pylist()
            for place, event in zip(places[codes[first]].tolist(), events, strict=True):
                self._shown[place].append(event)

    def table(self, events: int) -> pa.Table:
        """Return (subscription, matches, share, sample), in order of insertion."""
        kind = pa.int64() if self.ids and isinstance(self.ids[0], int) else pa.string()
        share = self._counts / events if events else np.full(len(self.ids), np.nan)
        columns = {
            "subscription": pa.array(self.ids, kind),
            "matches": pa.array(self._counts),
            "share": pa.array(share, mask=np.isnan(share)),
        }
        if self._size:
            columns["sample"] = pa.array(self._shown, pa.list_(self._event_type))
        return pa.table(columns)


class Sample:
    """A random part of a file of events, in the keys of all subscriptions, read once in bounded memory.

    Every event draws a number as it is read, and those with the least numbers stay: each set of `most` events is as
    likely as any other, and a small file stays whole. Events are encoded as they are read, so batches of a file need
    not agree on types (whole numbers, then fractions).

    Invariant: the kept events are those with the `most` least numbers so far, or more, in the order of the file; after
    `cut`, exactly those. Complexity: O(n) numbers for n events; memory for at most 2 `most` events and a batch.
    """

    def __init__(self, schema: Schema, seed: int, most: int = SAMPLE) -> None:
        self._schema = schema
        self._random = np.random.default_rng(seed)
        self._most = most
        self._limit = 1.0
        self._parts = [encode_many(schema, [])]
        self._drawn = [np.empty(0)]

    def __len__(self) -> int:
        """Return how many events are held."""
        return sum(map(len, self._drawn))

    def add(self, rows: Any) -> None:
        """Add a table, or a list of events."""
        events, drawn = encode_many(self._schema, rows), self._random.random(len(rows))
        kept = np.flatnonzero(drawn < self._limit)
        self._parts.append(some_events(events, kept))
        self._drawn.append(drawn[kept])
        if len(self) > 2 * self._most:
            self.cut()

    def cut(self) -> EventArrays:
        """Drop all events but the least; return them, without weights."""
        attr, lo, hi = (np.concatenate([part[i] for part in self._parts]) for i in (1, 2, 3))
        start = np.append(0, np.cumsum(np.concatenate([np.diff(part.start) for part in self._parts])))
        events = EventArrays._make(frozen(column) for column in (start, attr, lo, hi, np.empty(0)))
        drawn = np.concatenate(self._drawn)
        if len(drawn) > self._most:
            self._limit = float(np.partition(drawn, self._most)[self._most])
            kept = np.flatnonzero(drawn < self._limit)
            events, drawn = some_events(events, kept), drawn[kept]
        self._parts, self._drawn = [events], [drawn]
        return events


def sampled(matcher: Matcher, source: Source | None, seed: int) -> tuple[Segment, EventArrays]:
    """Return all subscriptions of a matcher, and the events of a file, or a random part of them, in their keys."""
    segment = matcher._version.whole
    sample = Sample(segment.schema, seed)
    nothing = pa.table({"event": pa.array([], pa.int64())})

    def keep(matcher: Matcher, rows: Any, **_: Any) -> pa.Table:
        sample.add(rows)
        return nothing

    if source is not None:
        for _ in EventSearch(matcher, source, keep, None).results(shown=True):
            pass
    return segment, sample.cut()
