"""When an event happened, for subscriptions that have a life span.

The time of an event is, in this order: the moment that the call gives (`at`); the value of the attribute that the
schema names (`Schema.time`); now. Events get it as one more value, of the attribute LIFE, and only where a life span
uses that.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, TypeAlias

import pyarrow as pa

from earmark.errors import EarmarkError, EventError, shown
from earmark.events.frames import as_arrow, is_frame, listed_events, one_array
from earmark.events.mappings import Reject, value_at
from earmark.keys.schema import LIFE, Schema

Moment: TypeAlias = datetime | date | str
"""A moment as users give it; a date is its first moment."""


def timed(schema: Schema, event: Any, at: Any = None) -> Any:
    """An event with its time, where that matters and it is not there yet."""
    if LIFE not in schema.by_name or not isinstance(event, Mapping) or LIFE in event:  # no mapping: refused later
        return event
    if at is None and schema.time is not None:
        return {**event, LIFE: value_at(event, schema.time)}
    return {**event, LIFE: _now(at)}


def timed_many(schema: Schema, events: Any, at: Any = None) -> Any:
    """Events with their times, where these matter: a list of mappings, or an Arrow table."""
    events = as_arrow(events) if is_frame(events) else listed_events(events)
    if LIFE not in schema.by_name:
        return events
    at = _now(at) if schema.time is None or at is not None else None
    if not is_frame(events):
        return [timed(schema, event, at) for event in events]
    if at is not None:
        column = pa.repeat(pa.scalar(at), events.num_rows)
    else:
        column = _column(events, schema.time or "")
    return events.append_column(LIFE, column)


def settled_moment(schema: Schema, at: Moment | None) -> Moment | None:
    """The moment to give for events that are read piece by piece: one for all pieces, unless the events tell."""
    return _now(at) if at is not None or (schema.time is None and LIFE in schema.by_name) else None


def _now(at: Any) -> Any:
    if at is not None and not isinstance(at, datetime | date | str):
        raise EventError(f"expected a moment such as '2026-03-01 12:00:00' or a datetime for `at`, got {shown(at)}")
    return datetime.now(UTC) if at is None else at


def _column(table: pa.Table, name: str) -> Any:
    """The column of a plain or dotted name; NULLs where there is none."""
    if name in table.column_names:
        return table.column(name)
    head, dot, rest = name.partition(".")
    while dot:
        if head in table.column_names and pa.types.is_struct(table.schema.field(head).type):
            inner = one_array(table.column(head))
            return _column(pa.table(inner.flatten(), [field.name for field in inner.type]), rest)
        more, dot, rest = rest.partition(".")
        head = f"{head}.{more}"
    return pa.nulls(table.num_rows)


def named_time(problem: EarmarkError, schema: Schema) -> EarmarkError:
    """An error about the time of an event, with the name that users know it by."""
    if problem.attribute == LIFE:
        problem = problem.at(attribute=schema.time)
        problem.reason = _worded(problem.reason, schema)
    return problem


def named_times(rejects: list[Reject], schema: Schema) -> list[Reject]:
    """Rejects with the name that users know the time of an event by."""
    return [
        one._replace(attribute=schema.time or "at", reason=_worded(one.reason, schema))
        if one.attribute == LIFE
        else one
        for one in rejects
    ]


def _worded(reason: str, schema: Schema) -> str:
    return reason.replace(repr(LIFE), f"{schema.time!r}, the time of the event" if schema.time else "`at`")
