"""A source of events on its way through a matcher: read, search group by group, name the events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import click
import pyarrow as pa
import pyarrow.compute as pc

from earmark.cli.locate import locate
from earmark.errors import EarmarkError
from earmark.matcher import Matcher
from earmark.model.event import Interval
from earmark.progress import shares
from earmark.tabular.csvtypes import typed_table
from earmark.tabular.read import Chunk, Row, read_batches
from earmark.tabular.source import Source

Search = Callable[[Matcher, Any], pa.Table]
"""What is asked about each group of events: rows of (event, …), events numbered within the group."""

GROUP = 2_048  # events searched at a time, so that a group's results fit in memory


class EventSearch:
    """The search of all events of a source. Memory: a chunk of the source and the results of a group."""

    def __init__(self, matcher: Matcher, source: Source, search: Search, event_id: str | None) -> None:
        self.matcher = matcher
        self.source = source
        self.search = search
        self.event_id = event_id
        self.id_type: Any = None
        self.events = 0
        self.found = 0

    def results(self, shown: bool) -> Iterator[pa.Table]:
        """Results group by group; at least one table, so that an output has its columns."""
        chunks = read_batches(self.source, self._convert, self._wanted())
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
                        raise EarmarkError(f"{self.source} has no column {self.event_id!r} to name events by")
                    self.id_type = chunk.rows.schema.field(self.event_id).type
                heads = {name for full in kinds_of(self.matcher) for name in _heads(full)}
                if heads and not heads.intersection(names):
                    listed = ", ".join(sorted(kinds_of(self.matcher))[:10])
                    note = f"note: {self.source} has none of the attributes ({listed}), so all are NULL"
                    click.echo(f"earmark: {note}", err=True)
            yield chunk

    def _of_group(self, group: Chunk) -> pa.Table:
        """The results of a group, its events named as the user wants them."""
        if isinstance(group.rows, list):
            kinds = kinds_of(self.matcher)
            group = replace(group, rows=[with_intervals(row, kinds) for row in group.rows])
        results = self._searched(group)
        numbers = results.column("event")
        names = pc.add(numbers, group.first) if self.event_id is None else self._ids(group).take(numbers)
        self.events += len(group.rows)
        self.found += results.num_rows
        return results.set_column(0, "event", names)

    def _searched(self, group: Chunk) -> pa.Table:
        """The one place where events that cannot be read come up."""
        try:
            return self.search(self.matcher, group.rows)
        except EarmarkError as problem:
            raise locate(problem, self.source, group, self._refuses) from None

    def _refuses(self, rows: Any) -> bool:
        try:
            self.search(self.matcher, rows)
        except EarmarkError:
            return True
        return False

    def _ids(self, group: Chunk) -> Any:
        """What names the events of a group. JSON lines: all strings or all integers, as the first is."""
        if isinstance(group.rows, pa.Table):
            return group.rows.column(self.event_id)
        ids: list[Any] = [row.get(str(self.event_id)) for row in group.rows]
        for row, value in enumerate(ids):
            kind = {str: pa.string(), int: pa.int64()}.get(type(value))
            self.id_type = self.id_type or kind
            if kind is None or kind != self.id_type or (isinstance(value, int) and not -(2**63) <= value < 2**63):
                known = {pa.string(): "a string", pa.int64(): "an integer"}.get(self.id_type)
                wanted = "a string or an integer" if kind is None or known is None else known
                where = group.place(self.source, row)
                raise EarmarkError(
                    f"{where}: expected {wanted} for {self.event_id!r}, which names events, got {value!r}"
                )
        return pa.array(ids, self.id_type or pa.int64())


def _groups(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Chunks in smaller pieces."""
    before: float | None = 0.0
    for chunk in chunks:
        count = len(chunk.rows)
        for start in range(0, max(count, 1), GROUP):
            yield chunk.part(start, min(start + GROUP, count), before)
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
