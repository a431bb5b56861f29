"""From an event to keys: one mapping at a time. (Whole frames: frames.py.)

An event maps attribute names to values, or to closed intervals of values (extended events). Names that no
subscription uses are ignored; None is NULL. A value must be of the attribute's type; what an attribute has to
learn from a value (its first type, or widening from integer to float) is raised as `SchemaChange`, which the
Matcher carries out before it tries again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from earmark.errors import AttributeTypeError, EventError
from earmark.model.arrays import F64, EventArrays, frozen
from earmark.model.attribute import (
    DECIMAL,
    FLOAT,
    INT64_MAX,
    INT64_MIN,
    INTEGER,
    STRING,
    Attribute,
    AttributeType,
    Schema,
    attribute_type,
)
from earmark.model.keys import date_key, float_key, midnight_key, timestamp_key, type_of
from earmark.model.literals import LiteralError, date_value, timestamp_value

Entry: TypeAlias = tuple[int, int, int, str]
"""Attribute number, keys of both ends, and the name that the event used."""

_EMPTY_F64: F64 = frozen(np.empty(0, np.float64))
_PLAIN = frozenset({type(None), bool, int, float, str, date, datetime})
_INTEGER, _FLOAT, _STRING = attribute_type(INTEGER), attribute_type(FLOAT), attribute_type(STRING)
_MAX_DOUBLE = sys.float_info.max
MAX_NESTED = 20


class Interval(NamedTuple):
    """A closed interval as an event's value; None leaves a side open.

    An extended event matches a subscription when some value inside the interval does.
    """

    lo: Any
    hi: Any


class SchemaChange(Exception):
    """An event's value that the schema must first make room for."""

    def __init__(self, attribute: Attribute, type_: AttributeType, origin: str) -> None:
        super().__init__(attribute.name)
        self.attribute = attribute
        self.type = type_
        self.origin = origin


def encode_events(
    schema: Schema, events: Sequence[Mapping[str, Any]], weights: Sequence[Mapping[str, float] | None] | None = None
) -> EventArrays:
    """Events as arrays. O(attributes of the events)."""
    starts, found = [0], []
    for i, event in enumerate(events):
        found += _entries(schema, event, i)
        starts.append(len(found))
    low = [entry[1] for entry in found]
    high = [entry[2] for entry in found]
    lo = frozen(np.array(low, np.int64))
    return EventArrays(
        frozen(np.array(starts, np.int64)),
        frozen(np.array([entry[0] for entry in found], np.int32)),
        lo,
        lo if low == high else frozen(np.array(high, np.int64)),
        _EMPTY_F64 if weights is None else _weights(weights, starts, [entry[3] for entry in found]),
    )


def _weights(weights: Sequence[Mapping[str, float] | None], starts: list[int], names: list[str]) -> F64:
    if not any(weights):
        return _EMPTY_F64
    scales: list[float] = []
    for i, given in enumerate(weights):
        own = checked_weights(given, f"event {i}", EventError)
        scales += [own.get(name, 1.0) for name in names[starts[i] : starts[i + 1]]]
    return frozen(np.array(scales, np.float64))


def _entries(schema: Schema, event: Mapping[str, Any], i: int) -> list[Entry]:
    if type(event) is not dict and not isinstance(event, Mapping):
        raise EventError(f"event {i} is a {type(event).__name__}; an event maps attribute names to values")
    found: list[Entry] = []
    by_name = schema.by_name
    try:
        for name, value in event.items():
            attribute = by_name.get(name)
            given = type(value)
            if attribute is None:
                if given not in _PLAIN and isinstance(value, Mapping):
                    found += _nested(schema, name, value, 1)
                continue
            type_ = attribute.type  # the usual pairs of types first: this loop is the cost of a single event
            if given is int and type_ is _INTEGER and INT64_MIN <= value <= INT64_MAX:
                low = high = value
            elif given is float and type_ is _FLOAT:
                low = high = float_key(value)
            elif given is str and type_ is _STRING:
                low = high = schema.strings[attribute.number].of_value(utf8(attribute, value))
            elif is_null(value):
                continue
            else:
                low, high = _interval(schema, attribute, value)
            found.append((attribute.number, low, high, name))
    except EventError as problem:
        raise type(problem)(f"event {i}: {problem}") from None
    found.sort()
    if len({entry[0] for entry in found}) < len(found):
        raise EventError(f"event {i} gives an attribute twice, once nested and once by its dotted name")
    return found


def _nested(schema: Schema, prefix: str, event: Mapping[str, Any], depth: int) -> list[Entry]:
    """Attributes inside a mapping, by dotted name."""
    if depth > MAX_NESTED:
        raise EventError(f"{prefix!r} nests deeper than {MAX_NESTED} levels")
    found: list[Entry] = []
    for name, value in event.items():
        dotted = f"{prefix}.{name}"
        attribute = schema.by_name.get(dotted)
        if attribute is not None and not is_null(value):
            found.append((attribute.number, *_interval(schema, attribute, value), dotted))
        elif attribute is None and isinstance(value, Mapping):
            found.extend(_nested(schema, dotted, value, depth + 1))
    return found


def is_null(value: Any) -> bool:
    """None, and the missing markers of pandas and numpy; NaN is a number here."""
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _interval(schema: Schema, attribute: Attribute, value: Any) -> tuple[int, int]:
    if not isinstance(value, Interval):
        key = key_of(schema, attribute, value)
        return key, key
    low, high = value
    ends = [key_of(schema, attribute, end) for end in (low, high) if not is_null(end)]
    type_ = schema.by_name[attribute.name].type
    first = type_.low if type_ else INT64_MIN
    last = type_.high if type_ else INT64_MAX
    keys = (first if is_null(low) else ends[0], last if is_null(high) else ends[-1])
    reversed_ = keys[0] > keys[1]
    if type_ is not None and type_.kind == STRING and not is_null(low) and not is_null(high):
        reversed_ = low.encode() > high.encode()  # between two constants all strings share a key
    if reversed_:
        raise EventError(f"the interval of {attribute.name!r} is empty: {low!r} is above {high!r}")
    return keys


def key_of(schema: Schema, attribute: Attribute, value: Any) -> int:
    """The key of one value of an event, or the reason why it has none."""
    if isinstance(value, np.generic):
        value = _from_numpy(attribute, value)
    if attribute.type is None:
        raise SchemaChange(attribute, _learned(attribute, value), f"an event's value {shown(value)}")
    match attribute.type.kind:
        case "integer":
            return _integer_key(attribute, value)
        case "float":
            return _float_key(attribute, value)
        case "string":
            if isinstance(value, str):
                return schema.strings[attribute.number].of_value(utf8(attribute, value))
        case "boolean":
            if isinstance(value, bool):
                return int(value)
        case "decimal":
            return _decimal_key(attribute, value)
        case "date":
            if isinstance(value, str) and attribute.declared:
                value = _read(attribute, value, date_value)
            if isinstance(value, date) and not isinstance(value, datetime):
                return date_key(value)
        case "timestamp":
            return _timestamp_key(schema, attribute, value)
    raise clash(attribute, value)


def clash(attribute: Attribute, value: Any) -> AttributeTypeError:
    """Two uses of an attribute that disagree."""
    use = f"{type(value).__name__} {shown(value)}"
    if isinstance(value, Decimal):
        use += "; for Decimal values declare it as decimal(p, s)"
    return AttributeTypeError(f"attribute {attribute.name!r} is {attribute.described()}, but the event gives the {use}")


def shown(value: Any) -> str:
    """A value for a message: short, and without the limits that Python sets to writing out integers."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"of {value.bit_length():,} bits"
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "…"


def utf8(attribute: Attribute, value: str) -> bytes:
    """The bytes that strings compare by."""
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise EventError(
            f"attribute {attribute.name!r}: {value[:100]!r} holds a lone surrogate, which UTF-8 cannot carry"
        ) from None


def _from_numpy(attribute: Attribute, value: np.generic) -> Any:
    if not isinstance(value, np.datetime64):
        return value.item()
    days = np.datetime_data(value.dtype)[0] == "D"
    micros = value if days else value.astype("datetime64[us]")
    if not days and micros.astype(value.dtype) != value:
        raise EventError(f"attribute {attribute.name!r}: {value} does not fit microseconds, which earmark keeps")
    plain = micros.item()
    if not isinstance(plain, date):  # numpy's calendar goes further
        raise EventError(f"attribute {attribute.name!r}: {value} is outside the years 1 to 9999")
    return plain


def _learned(attribute: Attribute, value: Any) -> AttributeType:
    if isinstance(value, Decimal):
        raise EventError(
            f"attribute {attribute.name!r} has no type yet; to give it Decimal values, declare it as decimal(p, s)"
        )
    if not isinstance(value, bool | int | float | str | date):
        raise EventError(f"attribute {attribute.name!r}: a {type(value).__name__} is not a value earmark can match")
    return type_of(value)


def _integer_key(attribute: Attribute, value: Any) -> int:
    if isinstance(value, float):
        if value.is_integer() and -(2.0**63) <= value < 2.0**63:
            return int(value)
        if not attribute.declared:
            raise SchemaChange(attribute, attribute_type(FLOAT), f"an event's value {value!r}")
        raise clash(attribute, value)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise clash(attribute, value)
    if isinstance(value, Decimal) and not value.is_finite():
        raise clash(attribute, value)
    if not INT64_MIN <= value <= INT64_MAX:
        raise EventError(f"attribute {attribute.name!r}: {shown(value)} does not fit a 64-bit integer")
    if value != int(value):
        raise clash(attribute, value)
    return int(value)


def _float_key(attribute: Attribute, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise clash(attribute, value)
    try:
        return float_key(float(value))
    except OverflowError:
        raise EventError(f"attribute {attribute.name!r}: the integer is beyond the range of a double") from None


def _decimal_key(attribute: Attribute, value: Any) -> int:
    type_ = attribute.type
    assert type_ is not None and type_.kind == DECIMAL
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise clash(attribute, value)
    exact = Decimal(repr(value)) if isinstance(value, float) else value
    if isinstance(exact, Decimal) and not exact.is_finite():
        raise EventError(f"attribute {attribute.name!r}: {value} is not a {type_}")
    unit = 10**type_.scale
    if not -(10**18) <= exact <= 10**18:
        raise EventError(f"attribute {attribute.name!r}: {shown(value)} does not fit {type_}")
    if isinstance(exact, Decimal) and exact and exact.adjusted() < -type_.scale:
        scaled, rest = 0, 1
    else:
        numerator, denominator = exact.as_integer_ratio()
        scaled, rest = divmod(numerator * unit, denominator)
    if rest:
        raise EventError(f"attribute {attribute.name!r}: {shown(value)} is not a {type_} without rounding")
    if not type_.low <= scaled <= type_.high:
        raise EventError(f"attribute {attribute.name!r}: {shown(value)} does not fit {type_}")
    return scaled


def _timestamp_key(schema: Schema, attribute: Attribute, value: Any) -> int:
    if isinstance(value, str) and attribute.declared:
        value = _read(attribute, value, timestamp_value)
    if isinstance(value, datetime):
        if type(value) is not datetime:
            value = _plain_datetime(attribute, value)
        return timestamp_key(value, schema.zone)
    if isinstance(value, date):
        return midnight_key(date_key(value), schema.zone)
    raise clash(attribute, value)


def _plain_datetime(attribute: Attribute, value: Any) -> datetime:
    """A pandas Timestamp as a datetime: its own arithmetic refuses some local times."""
    if getattr(value, "nanosecond", 0):
        raise EventError(f"attribute {attribute.name!r}: {value} has nanoseconds; earmark keeps microseconds")
    try:
        plain: datetime = value.to_pydatetime() if hasattr(value, "to_pydatetime") else value
        return plain
    except (ValueError, OverflowError, NotImplementedError):
        raise EventError(f"attribute {attribute.name!r}: {value} is outside the years 1 to 9999") from None


def _read(attribute: Attribute, text: str, read: Any) -> Any:
    try:
        return read(text)
    except LiteralError as problem:
        raise EventError(f"attribute {attribute.name!r}: {problem}") from None


def checked_weights(weights: Mapping[str, float] | None, where: str, error: type[Exception]) -> dict[str, float]:
    """Weights by attribute name: finite and not negative."""
    if weights is None:
        return {}
    if not isinstance(weights, Mapping):
        raise error(f"{where}: weights map attribute names to numbers; got {type(weights).__name__}")
    checked = {}
    for name, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float | np.integer | np.floating):
            raise error(f"{where}: the weight of {name!r} is {weight!r}, not a number")
        if not 0 <= weight <= _MAX_DOUBLE:
            shown = str(weight)[:50]
            raise error(f"{where}: the weight of {name!r} is {shown}; weights are finite and not negative")
        checked[name] = float(weight)
    return checked


def repeated(weights: Mapping[str, float] | Iterable[Mapping[str, float] | None] | None, count: int) -> Any:
    """One mapping for all events, or one for each, as a list of one for each."""
    if weights is None or isinstance(weights, Mapping):
        return None if not weights else [weights] * count
    if not isinstance(weights, Iterable):
        raise EventError(f"weights are one mapping for all events, or one for each; got {weights!r}")
    listed = list(weights)
    if len(listed) != count:
        raise EventError(f"there are {count:,} events but {len(listed):,} mappings of weights")
    return listed
