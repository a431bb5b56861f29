"""Life spans: when a subscription starts to match, and when it ends.

    add("spring", "price < 20", starts="2026-03-01", ends="2026-06-01")

A life span is one more constraint in every clause, `t >= starts AND t < ends`, on the attribute LIFE, whose value is
the time of the event. So every index, cover and audit knows it without knowing of it. It adds nothing to a score, and
relaxed search asks for it as well (`REQUIRED` in arrays.py). Keys are microseconds in UTC:

    neither bound is stored            no constraint
    starts alone                       [key(starts), INT64_MAX]
    ends alone                         [INT64_MIN, key(ends) - 1]

A condition that can never be true has no clauses, and so no life span.
"""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Any, NamedTuple

import pyarrow as pa

from earmark.errors import EarmarkError, SubscriptionError, shown
from earmark.events.mappings import is_null
from earmark.events.moments import moment_key
from earmark.keys.bind import BoundClauses
from earmark.keys.cuts import FIRST_MOMENT, value_of_key
from earmark.keys.schema import INT64_MAX, INT64_MIN, LIFE, Attribute, Draft, Kind, attribute_type
from earmark.keys.sets import KeySet
from earmark.segment.arrays import intervals_on
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
    """The attribute that life spans constrain."""
    found = draft.get(LIFE)
    return found if found.type is not None else draft.set_type(found, _TIMESTAMP, "a life span")


def lived(clauses: BoundClauses, life: Life, number: int) -> BoundClauses:
    """The clauses with a life span in each of them; `number` is that of the attribute LIFE."""
    one = number, KeySet(((life.first, life.last),), False)
    return [sorted([*clause, one], key=lambda constraint: constraint[0]) for clause in clauses]


def life_of(segment: Segment, slot: int) -> Life:
    """The life span of a slot."""
    attribute, table = segment.schema.by_name.get(LIFE), segment.arrays
    if attribute is None:
        return ALWAYS
    clause = int(table.clause_start[slot])
    if clause == int(table.clause_start[slot + 1]):
        return ALWAYS
    first, last = table.constraint_start[clause : clause + 2].tolist()
    for constraint in range(first, last):
        if table.attr[constraint] == attribute.number:
            interval = int(table.interval_start[constraint])
            return Life(int(table.lo[interval]), int(table.hi[interval]))
    return ALWAYS


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
    if has_life(segment):
        raise EarmarkError(
            f"subscriptions that start or end cannot be {done}: leave them out, or give them no life span"
        )


def has_life(segment: Segment) -> bool:
    """Whether some slot has a life span."""
    attribute = segment.schema.by_name.get(LIFE)
    return attribute is not None and bool(len(intervals_on(segment.arrays, attribute.number)))
