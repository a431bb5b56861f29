"""Where is a value among the keys of an attribute?

Every value of every type maps to a signed 64-bit key that keeps order. A condition's literal need not be a
value of the attribute's type (`age > 22.5` on integers), so a literal maps to a *cut*: two keys (below, upto)

    keys <= below      are less than the literal
    below < key <= upto    are equal to it (none, for 22.5; several, for 1e18 against integers)
    keys > upto        are greater

plus whether the literal is *beyond*: Spark folds `a < 9223372036854775808` on an integer to TRUE, for NULL too,
because the (exact) literal is outside what the type can hold. Every other comparison is a closed interval of
keys, exact to the last bit. Comparison rules are Spark's: integers and decimals against decimals exactly; against a
double after rounding the key's value to double. Floats: sign-magnitude bits, −0.0 = 0.0, NaN one above +inf.
Nothing here overflows: Python integers inside, clipped to the domain when intervals are made (bind.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import TypeAlias

import numpy as np

from earmark.keys.numbers import float_key, float_of_key
from earmark.keys.schema import AttributeType, Kind
from earmark.language.literals import Value, decimal_size

Cut: TypeAlias = tuple[int, int, bool]

_EPOCH_DATE = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400_000_000
_FIRST_DAY, _LAST_DAY = date.min.toordinal() - _EPOCH_DATE, date.max.toordinal() - _EPOCH_DATE
FIRST_MOMENT = (datetime.min.replace(tzinfo=_EPOCH.tzinfo) - _EPOCH) // _MICROSECOND
LAST_MOMENT = (datetime.max.replace(tzinfo=_EPOCH.tzinfo) - _EPOCH) // _MICROSECOND
_EXACT_DOUBLE = 2.0**53
_MAX_DECIMAL_DIGITS = 38


def date_key(value: date) -> int:
    """Days since 1970-01-01."""
    return value.toordinal() - _EPOCH_DATE


def timestamp_key(value: datetime, zone: tzinfo) -> int:
    """Microseconds since 1970 in UTC; a naive value is read in `zone`, as java.time does: a time inside a gap moves
    forward by the gap, one that occurs twice is the earlier (unless its `fold` says otherwise).
    """
    if value.tzinfo is None:
        value = value.replace(tzinfo=zone)
    return (value - _EPOCH) // _MICROSECOND


def midnight_key(day: int, zone: tzinfo) -> int:
    """The first moment of a day in `zone`, as java.time has it: the end of the gap when midnight is in one."""
    near = min(max(day, _FIRST_DAY), _LAST_DAY)
    local = datetime.fromordinal(near + _EPOCH_DATE)
    moment, other = timestamp_key(local, zone), timestamp_key(local.replace(fold=1), zone)
    if other < moment:
        moment = _end_of_gap(other, moment, zone)
    return moment + (day - near) * _DAY


def _end_of_gap(before: int, after: int, zone: tzinfo) -> int:
    """The moment in (before, after] at which the zone changes its offset."""

    def offset(key: int) -> timedelta | None:
        return (_EPOCH + timedelta(microseconds=key)).astimezone(zone).utcoffset()

    new = offset(after)
    while before + 1 < after:
        middle = (before + after) // 2
        before, after = (before, middle) if offset(middle) == new else (middle, after)
    return after


def value_of_key(type_: AttributeType, key: int) -> Value:
    """The value of a key, for types without a dictionary of constants; a string where Python's calendar ends."""
    match type_.kind:
        case "float":
            return float_of_key(key)
        case "number":
            value = float_of_key(key)
            return int(value) if value.is_integer() and abs(value) <= _EXACT_DOUBLE else value
        case "boolean":
            return bool(key)
        case "date":
            if _FIRST_DAY <= key <= _LAST_DAY:
                return date.fromordinal(key + _EPOCH_DATE)
            return str(np.datetime64(key, "D"))
        case "timestamp":
            if FIRST_MOMENT <= key <= LAST_MOMENT:
                return _EPOCH + timedelta(microseconds=key)
            return f"{np.datetime64(key, 'us')}Z"
        case "decimal":
            return Decimal(key).scaleb(-type_.scale)
    return key


def cut(type_: AttributeType, value: Value, zone: tzinfo) -> Cut | None:
    """The cut of a literal among the keys of a (non-string) type; None when the two cannot be compared."""
    kind = type_.kind
    if isinstance(value, bool):
        return _at(int(value)) if kind == Kind.BOOLEAN else None
    if isinstance(value, int | float | Decimal):
        return _number_cut(type_, value)
    if kind == Kind.DATE and isinstance(value, date):
        return _moment_cut(value, zone) if isinstance(value, datetime) else _at(date_key(value))
    if kind == Kind.TIMESTAMP and isinstance(value, date):
        if isinstance(value, datetime):
            return _at(timestamp_key(value, zone))
        return _at(midnight_key(date_key(value), zone))
    return None


def _moment_cut(value: datetime, zone: tzinfo) -> Cut:
    """A timestamp among dates, each of which counts as its midnight; where a zone skipped a day, two share one."""
    moment = timestamp_key(value, zone)
    day = moment // _DAY
    midnights = [(d, midnight_key(d, zone)) for d in range(day - 2, day + 3)]  # zones are less than a day from UTC
    below = max(d for d, at in midnights if at < moment)
    return below, max(d for d, at in midnights if at <= moment), False


def _at(key: int) -> Cut:
    return key - 1, key, False


def _number_cut(type_: AttributeType, value: float | Decimal) -> Cut | None:
    kind = type_.kind
    if kind == Kind.FLOAT:
        return _at(float_key(_nearest_double(value)))
    if kind == Kind.INTEGER:
        if isinstance(value, float):
            return _double_cut(type_, value, float)
        beyond = not type_.low <= value <= type_.high
        return (value - 1, value, beyond) if isinstance(value, int) else _exact_cut(value, 0, beyond)
    if kind == Kind.DECIMAL:
        if isinstance(value, float):
            unit = 10**type_.scale
            return _double_cut(type_, value, lambda key: key / unit)
        return _exact_cut(Decimal(value), type_.scale)
    return None


def _nearest_double(value: float | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond the doubles; a Decimal gives the infinity by itself
        return math.inf if value > 0 else -math.inf


def _exact_cut(value: Decimal, scale: int, beyond: bool = False) -> Cut:
    numerator, denominator = value.as_integer_ratio()
    floor, rest = divmod(numerator * 10**scale, denominator)
    return (floor, floor, beyond) if rest else (floor - 1, floor, beyond)


def _double_cut(type_: AttributeType, value: float, to_double: Callable[[int], float]) -> Cut:
    """Keys compare after rounding to double, which is monotone, so the cut is found by bisection."""
    if value != value:
        return type_.high, type_.high, False
    if type_.kind == Kind.INTEGER and abs(value) < _EXACT_DOUBLE:
        floor = math.floor(value)
        return (floor - 1, floor, False) if floor == value else (floor, floor, False)
    below = _last(type_, lambda key: to_double(key) < value)
    return below, _last(type_, lambda key: to_double(key) <= value), False


def _last(type_: AttributeType, holds: Callable[[int], bool]) -> int:
    """The greatest key of the domain for which a downward-closed test holds; one below the domain if none."""
    low, high = type_.low - 1, type_.high
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low


def decimal_room(type_: AttributeType, values: list[Value]) -> bool:
    """Whether Spark's common decimal type holds the attribute and these literals without losing digits.

    Beyond 38 digits Spark rounds before it compares, so such conditions are refused instead of guessed.
    """
    if type_.kind == Kind.DECIMAL:
        whole, fraction = type_.precision - type_.scale, type_.scale
    else:
        whole, fraction = (20, 0) if type_.kind == Kind.INTEGER else (0, 0)
    for value in values:
        if isinstance(value, Decimal | int) and not isinstance(value, bool):
            digits, scale = decimal_size(value)
            whole, fraction = max(whole, digits - scale), max(fraction, scale)
    return whole + fraction <= _MAX_DECIMAL_DIGITS
