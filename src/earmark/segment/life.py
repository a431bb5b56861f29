"""Life spans: when a subscription starts to match, and when it ends.

    add("spring", "price < 20", starts="2026-03-01", ends="2026-06-01")

It is stored beside the condition, by slot, as the first and the last key of time at which the subscription matches:

    neither          first_moment = INT64_MIN      last_moment = INT64_MAX
    starts           key(starts), in microseconds of UTC
    ends                                           key(ends) - 1

The time of an event is its value of the attribute LIFE. Indexes are built without life spans, and a search tests them
last, on what has matched (`keep_living` and `push_living` in index/kernels.py), so indexes and scores are those of the
same subscriptions without. Where all of a segment live at the time of the events, it leaves the test out
(`Segment.life_between`). Covers, audits and explanations see `t >= starts AND t < ends` as one more constraint, which
`with_life_constraints` makes for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from earmark.errors import EarmarkError, SubscriptionError, shown
from earmark.events.mappings import is_null
from earmark.events.moments import moment_key
from earmark.flat.arrays import I64, frozen
from earmark.keys.cuts import FIRST_MOMENT, value_of_key
from earmark.keys.schema import INT64_MAX, INT64_MIN, LIFE, Attribute, Draft, Kind, Schema, attribute_type
from earmark.segment.arrays import NO_MOMENTS, SegmentArrays, offsets
from earmark.segment.ids import Lookups
from earmark.segment.segment import Segment

_TIMESTAMP = attribute_type(Kind.TIMESTAMP)


class Life(NamedTuple):
    """A life span as keys, both of them inside it."""

    first: int = INT64_MIN
    last: int = INT64_MAX


ALWAYS = Life()


def checked_life(starts: Any, ends: Any, zone: tzinfo) -> Life:
    """A life span from its two moments, of which either may be absent."""
    first = INT64_MIN if is_null(starts) else moment_key(starts, zone, "starts")
    last = INT64_MAX if is_null(ends) else key_before(ends, zone)
    if first > last:
        raise SubscriptionError(f"expected starts before ends, got {shown(starts)} and {shown(ends)}")
    return Life(first, last)


def key_before(ends: Any, zone: tzinfo) -> int:
    """The key of the last moment before a life span ends."""
    key = moment_key(ends, zone, "ends")
    if key == FIRST_MOMENT:
        raise SubscriptionError(f"expected ends after the first moment of the year 1 in UTC, got {shown(ends)}")
    return key - 1


def moments_in(column: pa.Array) -> list[Any]:
    """The values of a column of moments, those beyond Python's calendar as text, for the checks to refuse."""
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (ValueError, OverflowError):
        if pa.types.is_timestamp(column.type) and column.type.tz is not None:
            column = column.cast(pa.timestamp(column.type.unit, "UTC"))
        return column.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]


def life_attribute(draft: Draft) -> Attribute:
    """The attribute whose value is the time of an event, which a life span needs."""
    found = draft.get(LIFE)
    return found if found.type is not None else draft.set_type(found, _TIMESTAMP, "a life span")


def lives_of(lives: Mapping[int, Life], rows: int) -> tuple[I64, I64]:
    """The columns `first_moment` and `last_moment` of rows, some of which have a life span; empty where none has."""
    if not lives:
        return NO_MOMENTS, NO_MOMENTS
    first, last = (np.full(rows, key, np.int64) for key in ALWAYS)
    for row, life in lives.items():
        first[row], last[row] = life
    return first, last


def life_of(segment: Segment, slot: int) -> Life:
    """The life span of a slot."""
    table = segment.arrays
    return Life(int(table.first_moment[slot]), int(table.last_moment[slot])) if len(table.first_moment) else ALWAYS


def with_lives(segment: Segment) -> Segment:
    """The segment with life spans as constraints, for covers, audits and explanations. O(size)."""
    arrays = with_life_constraints(segment.arrays, segment.schema)
    return segment if arrays is segment.arrays else replace(segment, arrays=arrays, lookups=Lookups(), room=None)


def with_life_constraints(table: SegmentArrays, schema: Schema) -> SegmentArrays:
    """The same subscriptions with each life span as one more constraint, on LIFE, in every clause of its slot.

    It weighs nothing, so scores stay as they were. O(size).
    """
    if not has_life(table):
        return table
    number = schema.by_name[LIFE].number
    bounded = (table.first_moment != INT64_MIN) | (table.last_moment != INT64_MAX)
    slot_of = np.repeat(np.arange(len(table.sequence)), np.diff(table.clause_start))
    clauses = np.flatnonzero(bounded[slot_of])
    clause_of = np.repeat(np.arange(len(slot_of)), np.diff(table.constraint_start))
    before = np.concatenate([[0], np.cumsum(table.attr < number)])
    starts, ends = table.constraint_start[clauses], table.constraint_start[clauses + 1]
    places = starts + before[ends] - before[starts]
    intervals = table.interval_start[places]
    counts = np.bincount(clause_of, minlength=len(slot_of))
    counts[clauses] += 1
    weight = table.weight if len(table.weight) else np.ones(len(table.attr))
    columns = table._replace(
        constraint_start=offsets(counts),
        attr=np.insert(table.attr, places, np.int32(number)),
        accepts_null=np.insert(table.accepts_null, places, np.uint8(0)),
        interval_start=offsets(np.insert(np.diff(table.interval_start), places, 1)),
        lo=np.insert(table.lo, intervals, table.first_moment[slot_of[clauses]]),
        hi=np.insert(table.hi, intervals, table.last_moment[slot_of[clauses]]),
        weight=np.insert(weight, places, 0.0),
    )
    return SegmentArrays._make(map(frozen, columns))


def moments(life: Life) -> tuple[datetime | None, datetime | None]:
    """When a life span starts and ends, in UTC; None on an open side."""
    starts = None if life.first == INT64_MIN else value_of_key(_TIMESTAMP, life.first)
    ends = None if life.last == INT64_MAX else value_of_key(_TIMESTAMP, life.last + 1)
    return starts, ends  # type: ignore[return-value]


def life_text(life: Life, key: int | None, zone: tzinfo) -> str:
    """What a life span says about an event of a time: that it had not started, or when it ended; else the span."""
    starts, ends = (None if one is None else _text(one, zone) for one in moments(life))
    if key is not None and key > life.last:
        return f"ended on {ends}"
    if key is not None and key < life.first:
        return f"starts on {starts}"
    span = [f"starts on {starts}"] * (starts is not None) + [f"ends on {ends}"] * (ends is not None)
    return ", ".join(span)


def _text(moment: datetime, zone: tzinfo) -> str:
    try:
        return f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S}"
    except OverflowError:  # the zone's calendar ends before
        return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def refuse_lives(segment: Segment, done: str) -> None:
    """Raise where some slot has a life span, which the text of another condition cannot say."""
    if has_life(segment.arrays):
        raise EarmarkError(
            f"subscriptions that start or end cannot be {done}: leave them out, or give them no life span"
        )


def has_life(table: SegmentArrays) -> bool:
    """Whether some slot has a life span."""
    first, last = table.first_moment, table.last_moment
    return bool((first != INT64_MIN).any()) or bool((last != INT64_MAX).any())
