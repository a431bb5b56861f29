"""The work behind `match`, `top-k` and `explain`: load, search group by group, write."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any

import click
import pyarrow as pa
import pyarrow.compute as pc

from earmark.cli.output import sum_up, write_tables
from earmark.errors import EarmarkError
from earmark.matcher import Matcher
from earmark.model.event import Interval
from earmark.progress import shares
from earmark.tabular.csvtypes import typed_table
from earmark.tabular.read import Chunk, Row, check_source, place, read_batches
from earmark.tabular.subscriptions import read_subscriptions
from earmark.tabular.write import check_target, plain_json

Search = Callable[[Matcher, Any], Any]
GROUP = 2_048  # events searched at a time, so that a group's results fit in memory
_EVENT = re.compile(r"event (\d+)(: | )")
_WHOSE = re.compile(r"\bevent \d+'s value\b")  # numbered within a batch, so of no use to whoever reads a file


def opened(path: str, attributes: dict[str, str], zone: str | None) -> Matcher:
    """The matcher of a file of subscriptions or of a saved folder."""
    from earmark.spark.versions import CURRENT

    if os.path.isdir(path):
        if os.path.exists(os.path.join(path, CURRENT)):
            raise EarmarkError(f"{path!r} is a snapshot for Spark, which match and top-k read with --engine spark")
        if attributes or zone:
            raise EarmarkError("a saved folder knows its types and its zone: --attribute and --zone are for files")
        return Matcher.load(path)
    check_source(path)
    matcher = Matcher(attributes=attributes, zone=zone or "UTC")
    file = read_subscriptions(path, attributes)
    try:
        matcher.add_many(file.rows)
    except EarmarkError as problem:
        raise file.located(problem) from None
    return matcher


def explained(
    subscriptions: str, id: str, event: Row, as_json: bool, attributes: dict[str, str], zone: str | None
) -> tuple[bool, str]:
    """Whether a subscription matches, and the explanation as text."""
    matcher = opened(subscriptions, attributes, zone)
    number = int(id) if re.fullmatch(r"-?\d{1,19}", id) else None
    key: Any = number if id not in matcher and number in matcher else id
    try:
        found = matcher.explain(key, with_intervals(event, kinds_of(matcher)))
    except EarmarkError as problem:
        raise type(problem)(_EVENT.sub("", str(problem), count=1)) from None
    return found.matched, json.dumps(plain_json(asdict(found)), default=str) if as_json else str(found)


def run(
    search: Search,
    *,
    subscriptions: str,
    events: str,
    output: str | None,
    event_id: str | None,
    as_json: bool,
    attributes: dict[str, str],
    zone: str | None,
    weights: dict[str, float] | None = None,
) -> None:
    """Search all events, and write what was found to a file or to stdout."""
    check_source(events)
    if output is not None:
        check_target(output, [subscriptions, events])
    matcher = opened(subscriptions, attributes, zone)
    for name in weights or ():
        if name not in kinds_of(matcher):
            raise EarmarkError(f"--weight names {name!r}, which no subscription uses")
    begun = time.perf_counter()
    searched = Searched(matcher, events, search, event_id)
    found = write_tables(searched.results(shown=output is not None or not sys.stdout.isatty()), output, as_json)
    sum_up(searched.events, found, len(matcher), time.perf_counter() - begun, output, as_json)


class Searched:
    """A file of events on its way through a matcher. Memory: a chunk of the file and the results of a group."""

    def __init__(self, matcher: Matcher, path: str, search: Search, event_id: str | None) -> None:
        self.matcher = matcher
        self.path = path
        self.search = search
        self.event_id = event_id
        self.id_type: Any = None
        self.events = 0
        self.found = 0

    def results(self, shown: bool) -> Iterator[pa.Table]:
        """Results group by group; at least one table, so that an output has its columns."""
        chunks = read_batches(self.path, self._convert, self._wanted())
        empty = True
        for group in shares(_groups(self._checked(chunks)), "matching", shown):
            yield self._of_group(group)
            empty = False
        if empty:
            yield self._of_group(Chunk([], 0, 1.0))

    def _wanted(self) -> Callable[[str], bool]:
        """Which columns are worth reading: attributes, those they nest in, and the event's id."""
        names = {name for full in kinds_of(self.matcher) for name in _heads(full)} | {self.event_id}
        return names.__contains__

    def _convert(self, table: pa.Table) -> pa.Table:
        kinds = kinds_of(self.matcher)
        return typed_table(table, {name: kind for name, kind in kinds.items() if name != self.event_id})

    def _checked(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        """The same chunks; the columns of the first are looked at before anything is searched."""
        for chunk in chunks:
            if isinstance(chunk.rows, pa.Table) and chunk.first == 0:
                names = chunk.rows.column_names
                if self.event_id is not None:
                    if self.event_id not in names:
                        raise EarmarkError(f"{self.path!r} has no column {self.event_id!r} to name events by")
                    self.id_type = chunk.rows.schema.field(self.event_id).type
                heads = {name for full in kinds_of(self.matcher) for name in _heads(full)}
                if heads and not heads.intersection(names):
                    listed = ", ".join(sorted(kinds_of(self.matcher))[:10])
                    note = f"note: {self.path!r} has none of the attributes ({listed}), so all are NULL"
                    click.echo(f"earmark: {note}", err=True)
            yield chunk

    def _of_group(self, group: Chunk) -> pa.Table:
        rows = group.rows
        if isinstance(rows, list):
            kinds = kinds_of(self.matcher)
            rows = [with_intervals(row, kinds) for row in rows]
        try:
            found = self.search(self.matcher, rows)
        except EarmarkError as problem:
            raise self._located(problem, replace(group, rows=rows)) from None
        numbers = found.column("event")
        if self.event_id is None:
            column = pc.add(numbers, group.first)
        else:
            column = self._ids(group).take(numbers)
        self.events += len(rows)
        self.found += found.num_rows
        return found.set_column(0, "event", column)

    def _located(self, problem: EarmarkError, group: Chunk) -> EarmarkError:
        """The same problem, told of the file and of the event's line or row in it."""
        text = str(problem)
        found = _EVENT.match(text)
        row = int(found[1]) if found else self._first_refused(group.rows)
        if found:
            text = f"{'' if found[2] == ': ' else 'the event '}{text[found.end() :]}"
        text = _WHOSE.sub("an event's value", text)
        if row is None:
            return type(problem)(f"{self.path!r}: {text}")
        where = place(self.path, group.first + row, group.lines[row] if group.lines else None)
        return type(problem)(f"{where}: {text}")

    def _first_refused(self, rows: Any) -> int | None:
        """The first event without which a refused group would pass; None when it is not about events at all."""
        low, high = 0, len(rows)  # the first `low` events pass, the first `high` do not
        if self._refused(rows[:0]):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            if self._refused(rows[:middle]):
                high = middle
            else:
                low = middle
        return low

    def _refused(self, rows: Any) -> bool:
        try:
            self.search(self.matcher, rows)
        except EarmarkError:
            return True
        return False

    def _ids(self, group: Chunk) -> Any:
        """What names the events of a group. JSON lines: all texts or all integers, as the first is."""
        if isinstance(group.rows, pa.Table):
            return group.rows.column(self.event_id)
        ids: list[Any] = [row.get(str(self.event_id)) for row in group.rows]
        for row, one in enumerate(ids):
            kind = {str: pa.string(), int: pa.int64()}.get(type(one))
            self.id_type = self.id_type or kind
            if kind is None or kind != self.id_type or (isinstance(one, int) and not -(2**63) <= one < 2**63):
                where = place(self.path, group.first + row, group.lines[row])
                wanted = "a text or an integer" if kind is None or self.id_type is None else f"of type {self.id_type}"
                raise EarmarkError(f"{where}: {self.event_id!r} names the event, so it is {wanted}; got {one!r}")
        return pa.array(ids, self.id_type or pa.int64())


def _groups(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Chunks in smaller pieces."""
    before = 0.0
    for chunk in chunks:
        count = len(chunk.rows)
        for start in range(0, max(count, 1), GROUP):
            end = min(start + GROUP, count)
            rows = chunk.rows[start:end] if isinstance(chunk.rows, list) else chunk.rows.slice(start, GROUP)
            share = before + (chunk.share - before) * end / max(count, 1)
            yield Chunk(rows, chunk.first + start, share, chunk.lines[start:end])
        before = chunk.share


def kinds_of(matcher: Matcher) -> dict[str, str | None]:
    """The types of attributes as they are now: events may teach and widen them."""
    kinds: dict[str, str | None] = matcher.stats()["attributes"]
    return kinds


def _heads(name: str) -> Iterator[str]:
    """A name, and the names of columns inside which it may be nested."""
    yield name
    for i, character in enumerate(name):
        if character == ".":
            yield name[:i]


def with_intervals(row: Row, kinds: dict[str, Any], prefix: str = "") -> Row:
    """The event with {"lo": …, "hi": …} under an attribute's name as an interval; nothing is copied without need."""
    made = row
    for name, value in row.items():
        if isinstance(value, dict):
            if prefix + name not in kinds:
                new: Any = with_intervals(value, kinds, f"{prefix}{name}.") if prefix.count(".") < 30 else value
            elif value.keys() == {"lo", "hi"}:
                new = Interval(value["lo"], value["hi"])
            else:
                continue
            if new is not value:
                made = {**made, name: new}
    return made
