"""From an event to keys: one mapping at a time. (Whole frames: frames.py.)

An event maps attribute names to values, or to closed intervals of values (extended events): an `Interval`, or a
mapping of `lo` and `hi`. Names that no subscription uses are ignored; None is NULL. A value must be of the attribute's
type. Where no condition gives it one, the value is present, and nothing more. Reading an event changes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any, NamedTuple

import numpy as np

from earmark.errors import AttributeTypeError, EarmarkError, EventError, shown
from earmark.events.arrays import Entry, EventArrays
from earmark.flat.arrays import F64, frozen
from earmark.keys import schema as types
from earmark.keys.cuts import date_key, midnight_key, timestamp_key
from earmark.keys.numbers import SIGN, constant_of, float_key, narrow_key, position_of
from earmark.keys.schema import INT64_MAX, INT64_MIN, PRESENT, Attribute, AttributeType, Kind, Schema
from earmark.language.literals import LiteralError, date_value, timestamp_value

_EMPTY_F64: F64 = frozen(np.empty(0, np.float64))
_PLAIN = frozenset({type(None), bool, int, float, str, date, datetime})
_INTEGER, _FLOAT, _STRING, _NUMBER = map(types.attribute_type, (Kind.INTEGER, Kind.FLOAT, Kind.STRING, Kind.NUMBER))
_pack_double, _double_bits = Struct("<d").pack, Struct("<q").unpack
_ENDS = ({"lo", "hi"}, {"lo"}, {"hi"})
_WRITTEN = {Kind.DATE: "'2024-02-29'", Kind.TIMESTAMP: "'2024-02-29 12:30:00' or '2024-02-29T12:30:00Z'"}
_MAX_DOUBLE = sys.float_info.max
MAX_NESTED = 20


class Interval(NamedTuple):
    """A closed interval as an event's value; None leaves a side open.

    An extended event matches a subscription when some value inside the interval does.
    """

    lo: Any
    hi: Any


class Reject(NamedTuple):
    """What could not be read of a batch of events, and why."""

    event: int
    """The row number."""
    attribute: str | None
    """The attribute whose value it is; None where it is the whole event."""
    reason: str

    @classmethod
    def of(cls, problem: EarmarkError, event: int) -> Reject:
        """What an error says about an event of the batch."""
        return cls(event, problem.attribute, problem.reason)


def encode_events(
    schema: Schema,
    events: Sequence[Mapping[str, Any]],
    weights: Sequence[Mapping[str, float] | None] | None = None,
    rejects: list[Reject] | None = None,
) -> EventArrays:
    """Events as arrays. O(attributes of the events).

    An event that cannot be read is an error; or, with `rejects`, its unreadable values are put there and count as NULL.
    """
    starts, found = [0], []
    for i, event in enumerate(events):
        try:
            found += encode_event(schema, event)
        except EventError as problem:
            if rejects is None:
                raise problem.at(event=i) from None
            found += _readable(schema, event, i, rejects)
        starts.append(len(found))
    if weights is None:
        return event_arrays(starts, found)
    return event_arrays(starts, found, _weights(weights, starts, [entry[3] for entry in found]))


def event_arrays(starts: list[int], entries: list[Entry], weights: F64 | list[float] = _EMPTY_F64) -> EventArrays:
    """Events as arrays, from the values of all of them."""
    low = [entry[1] for entry in entries]
    high = [entry[2] for entry in entries]
    lo = frozen(np.array(low, np.int64))
    return EventArrays(
        frozen(np.array(starts, np.int64)),
        frozen(np.array([entry[0] for entry in entries], np.int32)),
        lo,
        lo if low == high else frozen(np.array(high, np.int64)),
        frozen(np.array(weights, np.float64)),
    )


def _weights(weights: Sequence[Mapping[str, float] | None], starts: list[int], names: list[str]) -> F64:
    if not any(weights):
        return _EMPTY_F64
    scales: list[float] = []
    for i, given in enumerate(weights):
        own = event_weights(given, i)
        scales += [own.get(name, 1.0) for name in names[starts[i] : starts[i + 1]]]
    return frozen(np.array(scales, np.float64))


def encode_event(schema: Schema, event: Mapping[str, Any]) -> list[Entry]:
    """The values of one event, ascending by attribute. O(attributes of the event)."""
    if type(event) is not dict and not isinstance(event, Mapping):
        several = "; for several events use match_many" if isinstance(event, list | tuple) else ""
        raise EventError(f"expected a mapping of attribute names to values, got a {type(event).__name__}{several}")
    found: list[Entry] = []
    by_name, plain_nan = schema.by_name, not schema.nan_is_null
    for name, value in event.items():
        attribute = by_name.get(name)
        given = type(value)
        if attribute is None:
            if given not in _PLAIN and isinstance(value, Mapping):
                found += _nested(schema, name, value, 1)
            continue
        type_ = attribute.type  # the usual pairs of types first: this loop is the cost of a single event
        if type_ is _NUMBER and (given is int or (given is float and value == value)):
            try:
                bits = _double_bits(_pack_double(value))[0]
                low = high = bits if bits >= 0 else SIGN - bits
            except (OverflowError, StructError):  # an integer beyond the doubles
                low = high = narrow_key(value)
        elif given is str and type_ is _STRING:
            low = high = schema.strings[attribute.number].of_value(utf8(attribute, value))
        elif given is float and type_ is _FLOAT and (plain_nan or value == value):
            low = high = float_key(value)
        elif given is int and type_ is _INTEGER and INT64_MIN <= value <= INT64_MAX:
            low = high = value
        else:
            found += _slower(schema, attribute, value, name, 1)
            continue
        found.append((attribute.number, low, high, name))
    return _ordered(found)


def _slower(schema: Schema, attribute: Attribute, value: Any, name: str, depth: int) -> list[Entry]:
    """The entry of any value of an attribute; none for NULL."""
    if is_null(value) or (schema.nan_is_null and _is_nan(value)):
        return []
    if attribute.type is not None:
        return [(attribute.number, *interval_of(schema, attribute, value), name)]
    more = _nested(schema, name, value, depth) if isinstance(value, Mapping) else []
    return [(attribute.number, PRESENT, PRESENT, name), *more]


def _ordered(found: list[Entry]) -> list[Entry]:
    found.sort()
    if len({entry[0] for entry in found}) < len(found):
        twice = next(one[3] for one, other in pairwise(found) if one[0] == other[0])
        raise EventError(
            f"attribute {twice!r} is given twice, once nested and once by its dotted name", attribute=twice
        )
    return found


def _nested(schema: Schema, prefix: str, event: Mapping[str, Any], depth: int) -> list[Entry]:
    """Attributes inside a mapping, by dotted name."""
    if depth > MAX_NESTED:
        raise EventError(f"{prefix!r} nests deeper than {MAX_NESTED} levels")
    found: list[Entry] = []
    for name, value in event.items():
        dotted = f"{prefix}.{name}"
        attribute = schema.by_name.get(dotted)
        if attribute is not None:
            found += _slower(schema, attribute, value, dotted, depth + 1)
        elif isinstance(value, Mapping):
            found += _nested(schema, dotted, value, depth + 1)
    return found


def _readable(schema: Schema, event: Any, i: int, rejects: list[Reject]) -> list[Entry]:
    """What can be read of an event that cannot be read as a whole; the rest goes to the rejects."""
    try:
        return _ordered(_each(schema, "", event, 0, i, rejects))
    except EventError as problem:
        rejects.append(Reject.of(problem.at(attribute=None), i))
        return []


def _each(schema: Schema, prefix: str, event: Any, depth: int, i: int, rejects: list[Reject]) -> list[Entry]:
    if not isinstance(event, Mapping) or depth > MAX_NESTED:
        return encode_event(schema, event) if not depth else _nested(schema, prefix, event, depth)  # says what is wrong
    found: list[Entry] = []
    for name, value in event.items():
        dotted = f"{prefix}.{name}" if depth else name
        attribute = schema.by_name.get(dotted)
        if isinstance(value, Mapping) and (attribute is None or attribute.type is None):
            found += _each(schema, dotted, value, depth + 1, i, rejects)
            value = None if attribute is None else True
        if attribute is None:
            continue
        try:
            found += _slower(schema, attribute, value, dotted, depth)
        except EventError as problem:
            rejects.append(Reject.of(problem.at(attribute=dotted), i))
    return found


def is_null(value: Any) -> bool:
    """None, and the missing markers of pandas and numpy; NaN is a number here."""
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def value_at(event: Mapping[str, Any], name: str) -> Any:
    """An event's value by plain or dotted name; None when it is missing."""
    if not is_null(event.get(name)):
        return event[name]
    head, dot, rest = name.partition(".")
    while dot:
        inner = event.get(head)
        if isinstance(inner, Mapping) and (found := value_at(inner, rest)) is not None:
            return found
        more, dot, rest = rest.partition(".")
        head = f"{head}.{more}"
    return None


def _is_nan(value: Any) -> bool:
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, float | np.floating) and bool(value != value)


def as_interval(value: Any) -> Any:
    """A mapping of `lo` and `hi`, or of one of them, as the interval that it means; other values as they are."""
    if isinstance(value, Mapping) and set(value) in _ENDS:
        return Interval(value.get("lo"), value.get("hi"))
    return value


def interval_of(schema: Schema, attribute: Attribute, value: Any) -> tuple[int, int]:
    """The keys of both ends of an event's value."""
    value = as_interval(value)
    if not isinstance(value, Interval):
        key = key_of(schema, attribute, value)
        return key, key
    type_ = attribute.known_type
    open_ends = [is_null(end) or (schema.nan_is_null and _is_nan(end)) for end in value]
    low, high = (None if is_open else _plain(attribute, end) for is_open, end in zip(open_ends, value, strict=True))
    first = type_.low if low is None else key_of(schema, attribute, low)
    last = type_.high if high is None else key_of(schema, attribute, high)
    reversed_ = first > last
    if low is not None and high is not None:  # values between two constants share a key
        if type_.kind == Kind.STRING:
            reversed_ = low.encode() > high.encode()
        elif type_.kind == Kind.NUMBER:
            reversed_ = position_of(low) > position_of(high)
    if reversed_:
        raise EventError(
            f"the interval of {attribute.name!r} is empty: {shown(low)} is above {shown(high)}",
            attribute=attribute.name,
        )
    return first, last


def key_of(schema: Schema, attribute: Attribute, value: Any) -> int:
    """The key of one value of an event, or the reason why it has none."""
    value = _plain(attribute, value)
    if attribute.type is None:
        return PRESENT
    key = _KEYS[attribute.type.kind](schema, attribute, attribute.type, value)
    if key is None:
        raise clash(attribute, value)
    return key


def clash(attribute: Attribute, value: Any) -> AttributeTypeError:
    """Two uses of an attribute that disagree."""
    hint = ""
    if isinstance(value, Decimal) and attribute.type is _FLOAT:
        hint = "; for decimals declare it as number or decimal(p, s)"
    if isinstance(value, Mapping):
        hint = "; an interval is earmark.Interval(lo, hi) or {'lo': …, 'hi': …}"
    elif attribute.type is not None and attribute.type.kind in _WRITTEN:
        hint = f"; write it as {_WRITTEN[attribute.type.kind]}"
    elif isinstance(value, date):
        hint = f"; declare the attribute as {'timestamp' if isinstance(value, datetime) else 'date'}"
    return AttributeTypeError(f"{attribute.expected()}, got {shown(value)}{hint}", attribute=attribute.name)


def utf8(attribute: Attribute, value: str) -> bytes:
    """The bytes that strings compare by."""
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise unfit(attribute, "a string that UTF-8 can carry", f"a lone surrogate in {shown(value)}") from None


def _plain(attribute: Attribute, value: Any) -> Any:
    """A numpy scalar as the Python value that it is."""
    if not isinstance(value, np.generic | np.ndarray) or (isinstance(value, np.ndarray) and value.ndim):
        return value
    if value.dtype.kind != "M":
        plain = value.item()
        return float(plain) if isinstance(plain, np.floating) else plain
    value = np.datetime64(value)
    days = np.datetime_data(value.dtype)[0] == "D"
    micros = value if days else value.astype("datetime64[us]")
    if not days and micros.astype(value.dtype) != value:
        raise unfit(attribute, "a moment that fits microseconds", value)
    moment = micros.item()
    if not isinstance(moment, date):  # numpy's calendar goes further
        raise unfit(attribute, "a moment of the years 1 to 9999", value)
    return moment


def unfit(attribute: Attribute, expected: str, got: object) -> EventError:
    """A value of the right type that the attribute cannot hold."""
    return EventError(f"expected {expected} for {attribute.name!r}, got {got}", attribute=attribute.name)


# --- the key of a value by the kind of its attribute; None where the two do not go together -----------------------


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _number_key(schema: Schema, attribute: Attribute, type_: AttributeType, value: Any) -> int | None:
    if not _is_number(value):
        return None
    if type_.keyed:
        return schema.strings[attribute.number].of_value(constant_of(position_of(value)))
    return narrow_key(value)


def _integer_key(schema: Schema, attribute: Attribute, type_: AttributeType, value: Any) -> int | None:
    if not _is_number(value) or (isinstance(value, Decimal) and not value.is_finite()):
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() and -(2.0**63) <= value < 2.0**63 else None
    if not INT64_MIN <= value <= INT64_MAX:
        raise unfit(attribute, "a 64-bit integer", shown(value))
    return int(value) if value == int(value) else None


def _float_key(schema: Schema, attribute: Attribute, type_: AttributeType, value: Any) -> int | None:
    try:
        return float_key(float(value)) if _is_number(value) and not isinstance(value, Decimal) else None
    except OverflowError:
        raise unfit(attribute, "a number in the range of a double", shown(value)) from None


def _string_key(schema: Schema, attribute: Attribute, type_: AttributeType, value: Any) -> int | None:
    return schema.strings[attribute.number].of_value(utf8(attribute, value)) if isinstance(value, str) else None


def _boolean_key(schema: Schema, attribute: Attribute, type_: AttributeType, value: Any) -> int | None:
    return int(value) if isinstance(value, bool) else None


def _decimal_key(schema: Schema, attribute: Attribute, type_: AttributeType, value: Any) -> int | None:
    if not _is_number(value):
        return None
    exact = Decimal(repr(value)) if isinstance(value, float) else value
    if isinstance(exact, Decimal) and not exact.is_finite():
        raise unfit(attribute, f"a {type_}", value)
    if not -(10**18) <= exact <= 10**18:
        raise unfit(attribute, f"a {type_}", shown(value))
    if isinstance(exact, Decimal) and exact and exact.adjusted() < -type_.scale:
        scaled, rest = 0, 1
    else:
        numerator, denominator = exact.as_integer_ratio()
        scaled, rest = divmod(numerator * 10**type_.scale, denominator)
    if rest:
        raise unfit(attribute, f"a {type_}", f"{shown(value)}, which does not fit without rounding")
    if not type_.low <= scaled <= type_.high:
        raise unfit(attribute, f"a {type_}", shown(value))
    return scaled


def _date_key(schema: Schema, attribute: Attribute, type_: AttributeType, value: Any) -> int | None:
    if isinstance(value, str):
        value = _read(attribute, value, date_value)
    return date_key(value) if isinstance(value, date) and not isinstance(value, datetime) else None


def _timestamp_key(schema: Schema, attribute: Attribute, type_: AttributeType, value: Any) -> int | None:
    if isinstance(value, str):
        value = _read(attribute, value, timestamp_value)
    if isinstance(value, datetime):
        plain = value if type(value) is datetime else _plain_datetime(attribute, value)
        return timestamp_key(plain, schema.zone)
    return midnight_key(date_key(value), schema.zone) if isinstance(value, date) else None


_KEYS: dict[str, Callable[[Schema, Attribute, AttributeType, Any], int | None]] = {
    Kind.NUMBER: _number_key,
    Kind.INTEGER: _integer_key,
    Kind.FLOAT: _float_key,
    Kind.STRING: _string_key,
    Kind.BOOLEAN: _boolean_key,
    Kind.DECIMAL: _decimal_key,
    Kind.DATE: _date_key,
    Kind.TIMESTAMP: _timestamp_key,
}


def _plain_datetime(attribute: Attribute, value: Any) -> datetime:
    """A pandas Timestamp as a datetime: its own arithmetic refuses some local times."""
    if getattr(value, "nanosecond", 0):
        raise unfit(attribute, "a moment that fits microseconds", value)
    try:
        plain: datetime = value.to_pydatetime() if hasattr(value, "to_pydatetime") else value
        return plain
    except (ValueError, OverflowError, NotImplementedError):
        raise unfit(attribute, "a moment of the years 1 to 9999", value) from None


def _read(attribute: Attribute, text: str, read: Any) -> Any:
    try:
        return read(text)
    except LiteralError:
        kind = attribute.known_type.kind
        raise unfit(attribute, f"{types.article(kind)} such as {_WRITTEN[kind]}", shown(text)) from None


def event_weights(weights: Mapping[str, float] | None, event: int) -> dict[str, float]:
    """The weights of an event of a batch."""
    try:
        return checked_weights(weights, EventError)
    except EventError as problem:
        raise problem.at(event=event) from None


def checked_weights(weights: Mapping[str, float] | None, error: type[EarmarkError]) -> dict[str, float]:
    """Weights by attribute name: finite and not negative."""
    if weights is None:
        return {}
    if not isinstance(weights, Mapping):
        raise error(f"weights must map attribute names to numbers, got {shown(weights)}")
    checked = {}
    for name, weight in weights.items():
        if isinstance(weight, np.generic):
            weight = weight.item()
        if isinstance(weight, bool) or not isinstance(weight, int | float | np.floating):
            raise error(f"the weight of {name!r} must be a number, got {shown(weight)}", attribute=name)
        if not 0 <= weight <= _MAX_DOUBLE:
            raise error(f"the weight of {name!r} must be finite and not negative, got {shown(weight)}", attribute=name)
        checked[name] = float(weight)
    return checked


def repeated(weights: Mapping[str, float] | Iterable[Mapping[str, float] | None] | None, count: int) -> Any:
    """One mapping for all events, or one for each, as a list of one for each."""
    if weights is None or isinstance(weights, Mapping):
        return None if not weights else [weights] * count
    if not isinstance(weights, Iterable):
        raise EventError(f"weights must be one mapping for all events, or one for each, got {shown(weights)}")
    listed = list(weights)
    if len(listed) != count:
        raise EventError(f"expected a mapping of weights for each of {count:,} events, got {len(listed):,}")
    return listed
