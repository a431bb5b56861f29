"""When an event happened, for subscriptions that have a life span.

The time of an event is, in this order: the moment that the call gives (`at`); the value of the attribute that the
schema names (`Schema.time`); now. It becomes one more value of the event, of the attribute LIFE, and only where a life
span uses that: it is put into an event that is encoded already, since it is often the same for all.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from earmark.errors import EarmarkError, EventError, SubscriptionError, shown
from earmark.events.arrays import Entry, EventArrays
from earmark.events.frames import Keys, column_keys, is_frame, one_array
from earmark.events.mappings import Reject, interval_of, is_null, value_at
from earmark.flat.arrays import frozen
from earmark.keys.cuts import FIRST_MOMENT, LAST_MOMENT, date_key, midnight_key, timestamp_key
from earmark.keys.schema import INT64_MIN, LIFE, Schema
from earmark.language.literals import LiteralError, timestamp_value

Moment: TypeAlias = datetime | date | str
"""A moment as users give it; a date is its first moment."""
_RESERVED = f"an event has a field {LIFE!r}, a name that stands for its time: give the field another name"


def moment_key(value: Any, zone: tzinfo, what: str, error: type[EarmarkError] = SubscriptionError) -> int:
    """The key of a moment, which is in the years 1 to 9999 of UTC; an error says what it was for."""
    given = value
    if isinstance(value, np.datetime64):
        year = value.astype("datetime64[Y]").astype(np.int64) + 1970
        value = value.astype("datetime64[us]").item() if 1 <= year <= 9999 else None
    if isinstance(value, str):
        key = _key_of_text(value, zone)
        if key is not None and FIRST_MOMENT <= key <= LAST_MOMENT:
            return key
        value = _read(value)
    if isinstance(value, date) and not is_null(value):  # a datetime is one too, and so is NaT
        try:
            key = timestamp_key(value, zone) if isinstance(value, datetime) else midnight_key(date_key(value), zone)
        except (ValueError, TypeError, OverflowError):  # a subclass, or a zone, of someone else
            key = INT64_MIN
        if FIRST_MOMENT <= key <= LAST_MOMENT:
            return key
        raise error(f"expected a moment in the years 1 to 9999 of UTC for {what}, got {shown(given)}")
    raise error(f"expected a moment such as '2026-03-01 12:00:00' or a datetime for {what}, got {shown(given)}")


def _read(text: str) -> datetime | None:
    try:
        return timestamp_value(text)
    except LiteralError:
        return None


@lru_cache(maxsize=256)
def _key_of_text(text: str, zone: tzinfo) -> int | None:
    """The key of a moment that is written as text; None where it is not one. Calls often repeat the same text."""
    value = _read(text)
    try:
        return None if value is None else timestamp_key(value, zone)
    except (ValueError, OverflowError):  # the zone's calendar does not reach so far
        return None


def _settled(schema: Schema, at: Moment | None) -> int | None:
    """The key of the time that all events have; None where the events tell."""
    if at is not None:
        return moment_key(at, schema.zone, "`at`", EventError)
    return time.time_ns() // 1000 if schema.time is None else None


def check_moment(schema: Schema, at: Moment) -> None:
    """Raise unless `at` is a moment, for where no life span uses it."""
    moment_key(at, schema.zone, "`at`", EventError)


def settled_moment(schema: Schema, at: Moment | None) -> Moment | None:
    """The moment to give for events that are read piece by piece: one for all pieces, unless the events tell."""
    if at is not None:
        check_moment(schema, at)
    is_now = at is None and schema.time is None and LIFE in schema.by_name
    return datetime.now(UTC) if is_now else at


def timed(schema: Schema, event: Mapping[str, Any], at: Moment | None = None) -> Mapping[str, Any]:
    """An event with its time as one of its values, for those who show it."""
    if LIFE not in schema.by_name:
        return event
    if at is None and schema.time is not None:
        return {**event, LIFE: value_at(event, schema.time)}
    return {**event, LIFE: datetime.now(UTC) if at is None else at}


# --- one event -----------------------------------------------------------------------------------------------


def moment_of_one(schema: Schema, event: Mapping[str, Any], at: Moment | None) -> Entry | None:
    """The time of an event as one of its values; None where it has none."""
    if LIFE in event:
        raise EventError(_RESERVED)
    life, key = schema.by_name[LIFE], _settled(schema, at)
    if key is None:
        value = value_at(event, schema.time or "")
        if type(value) is str:
            key = _key_of_text(value, schema.zone)
        elif is_null(value):
            return None
    if key is not None:
        return life.number, key, key, LIFE
    try:
        return life.number, *interval_of(schema, life, value), LIFE
    except EventError as problem:
        raise named_time(problem, schema) from None


# --- many ----------------------------------------------------------------------------------------------------


def moments_of(schema: Schema, events: Any, at: Moment | None, rejects: list[Reject] | None) -> Keys:
    """The times of many events, a list of mappings or an Arrow table; NULL where one has none.

    One that cannot be read is an error; or, with `rejects`, it is put there and counts as NULL.
    """
    count, key = len(events), _settled(schema, at)
    if key is not None:
        keys = np.full(count, key, np.int64)
        return Keys(np.ones(count, bool), keys, keys)
    found: list[Reject] | None = None if rejects is None else []
    try:
        if is_frame(events):
            column = one_array(_column(events, schema.time or ""))
            made = column_keys(schema, schema.by_name[LIFE], column, found)
        else:
            made = _listed(schema, events, found)
    except EventError as problem:
        raise named_time(problem, schema) from None
    if rejects is not None:
        name = schema.time or ""
        known = {one.event for one in rejects if one.attribute == name}  # as a value that conditions may ask for
        found = [one for one in found or () if one.event not in known]
        rejects += [one._replace(attribute=name, reason=_worded(one.reason, schema)) for one in found]
    return made


def _listed(schema: Schema, events: Sequence[Any], rejects: list[Reject] | None) -> Keys:
    valid, ends = np.zeros(len(events), bool), np.zeros((2, len(events)), np.int64)
    for e, event in enumerate(events):
        value = value_at(event, schema.time or "") if isinstance(event, Mapping) else None
        if is_null(value):
            continue
        try:
            ends[:, e], valid[e] = interval_of(schema, schema.by_name[LIFE], value), True
        except EventError as problem:
            if rejects is None:
                raise problem.at(event=e) from None
            rejects.append(Reject.of(problem, e))
    return Keys(valid, *ends)


def with_moments(schema: Schema, events: EventArrays, moments: Keys) -> EventArrays:
    """The events with their times among their values. O(values)."""
    number = schema.by_name[LIFE].number
    if (events.attr == number).any():
        raise EventError(_RESERVED)
    start, some = events.start, np.flatnonzero(moments.valid)
    before = np.concatenate([[0], np.cumsum(events.attr < number)])
    places = start[some] + before[start[some + 1]] - before[start[some]]
    lo = frozen(np.insert(events.lo, places, moments.lo[some]))
    points = events.lo is events.hi and moments.lo is moments.hi
    weight = np.insert(events.weight, places, 1.0) if len(events.weight) else events.weight
    return EventArrays(
        frozen(start + np.concatenate([[0], np.cumsum(moments.valid)])),
        frozen(np.insert(events.attr, places, np.int32(number))),
        lo,
        lo if points else frozen(np.insert(events.hi, places, moments.hi[some])),
        frozen(weight),
    )


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
    problem = problem.at(attribute=schema.time)
    problem.reason = _worded(problem.reason, schema)
    return problem


def _worded(reason: str, schema: Schema) -> str:
    return reason.replace(repr(LIFE), f"{schema.time!r}, the time of the event")
