"""A source of events searched with a matcher: read, search group by group, name the events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from earmark.cli.rejects import Rejects
from earmark.errors import EarmarkError, EventError, shown
from earmark.events.mappings import Reject
from earmark.matcher import Matcher
from earmark.progress import shares
from earmark.tabular.csvtypes import typed_table
from earmark.tabular.read import Chunk, Row, read_batches
from earmark.tabular.source import Source

Search = Callable[..., pa.Table]
"""Searches a group of events: `search(matcher, rows, on_error=…, rejects=…)`, with the options of `Matcher.match_many`,
returns rows of (event, …), events numbered within the group."""

GROUP = 2_048  # events searched at a time, so that a group's results fit in memory


class EventSearch:
    """The search of all events of a source. Memory: a chunk of the source and the results of a group."""

    def __init__(
        self, matcher: Matcher, source: Source, search: Search, event_id: str | None, rejects: Rejects | None = None
    ) -> None:
        self.matcher = matcher
        self.source = source
        self.search = search
        self.event_id = event_id
        self.rejects = rejects or Rejects()
        self.id_type: Any = None
        self.events = 0
        self.found = 0

    def results(self, shown: bool) -> Iterator[pa.Table]:
        """Yield results group by group; at least one table, so that an output has its columns."""
        tolerant = self.rejects.on_error != "raise"
        wanted = {*_columns(self.matcher), self.event_id}
        chunks = read_batches(self.source, self._convert, wanted.__contains__, tolerant)
        empty = True
        for group in shares(self._groups(chunks), "matching", shown):
            yield self._of_group(group)
            empty = False
        if empty:
            yield self._of_group(Chunk([], 0, 1.0))

    def _convert(self, table: pa.Table) -> tuple[pa.Table | list[Row], list[Reject]]:
        unread: list[Reject] = []
        kinds = {name: kind for name, kind in kinds_of(self.matcher).items() if name != self.event_id}
        return typed_table(table, kinds, None if self.rejects.on_error == "raise" else unread), unread

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
                known = _columns(self.matcher)
                if known and not known.intersection(names):
                    listed = ", ".join(sorted(kinds_of(self.matcher))[:10])
                    note = f"note: {self.source} has none of the attributes ({listed}), so all are NULL"
                    click.echo(f"earmark: {note}", err=True)
            yield from chunk.parts(GROUP, before)
            before = chunk.share

    def _of_group(self, group: Chunk) -> pa.Table:
        """Return the results of a group, its events named as the user wants them."""
        names, unread = self._names(group)
        results = self._searched(group, unread)
        self.rejects.take(group, unread, names)
        self.events += len(group.rows)
        self.found += results.num_rows
        return results.set_column(0, "event", names.take(results.column("event")))

    def _searched(self, group: Chunk, unread: list[Reject]) -> pa.Table:
        """Return the results of the events that can be read; add what cannot be read to `unread`."""
        before = self.rejects.left_out(unread)
        try:
            results = self.search(self.matcher, group.rows, on_error=self.rejects.on_error, rejects=unread)
        except EarmarkError as problem:
            raise group.located(self.source, problem) from None
        if not before:
            return results
        return results.filter(pc.invert(pc.is_in(results.column("event"), pa.array(sorted(before), pa.int64()))))

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
            value = event.get(self.event_id)
            problem = None if row in unreadable else self._wrong_id(value)
            if problem is not None and self.rejects.on_error == "raise":
                raise group.located(self.source, problem.at(event=row))
            if problem is not None:
                unread.append(Reject.of(problem, row))
            ids.append(None if row in unreadable or problem is not None else value)
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


def kinds_of(matcher: Matcher) -> dict[str, str | None]:
    """Return the types of attributes by name; None where no condition compares one with a value."""
    kinds: dict[str, str | None] = matcher.stats()["attributes"]
    return kinds


def _columns(matcher: Matcher) -> set[str]:
    """Return the names of attributes, and of columns inside which they may be nested."""
    nested = {name[:i] for name in kinds_of(matcher) for i, character in enumerate(name) if character == "."}
    return nested | kinds_of(matcher).keys()
