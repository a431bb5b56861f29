"""From an event to keys: one mapping at a time. (Whole frames: frames.py.)

An event maps attribute names to values, or to closed intervals of values (extended events). Names that no
subscription uses are ignored; None is NULL. A value must be of the attribute's type; what an attribute has to
learn from a value (its first type, or widening from integer to float) is raised as `SchemaChange`, which the
Matcher carries out before it tries again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from earmark.errors import AttributeTypeError, EventError
from earmark.model.arrays import F64, EventArrays, frozen
from earmark.model.attribute import (
    DECIMAL,
    FLOAT,
    INT64_MAX,
    INT64_MIN,
    STRING,
    Attribute,
    AttributeType,
    Schema,
    attribute_type,
)
from earmark.model.keys import date_key, float_key, timestamp_key, type_of
from earmark.model.literals import LiteralError, date_value, timestamp_value

_EMPTY_F64: F64 = frozen(np.empty(0, np.float64))
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
    starts, numbers, los, his, scales = [0], [], [], [], []
    weighted = weights is not None and any(weights)
    for i, event in enumerate(events):
        entries = _entries(schema, event, i)
        for number, low, high, _ in entries:
            numbers.append(number)
            los.append(low)
            his.append(high)
        if weighted:
            assert weights is not None
            own = checked_weights(weights[i], f"event {i}", EventError)
            scales.extend(own.get(name, 1.0) for _, _, _, name in entries)
        starts.append(len(numbers))
    return EventArrays(
        frozen(np.array(starts, np.int64)),
        frozen(np.array(numbers, np.int32)),
        frozen(np.array(los, np.int64)),
        frozen(np.array(his, np.int64)),
        frozen(np.array(scales, np.float64)) if weighted else _EMPTY_F64,
    )


def _entries(schema: Schema, event: Mapping[str, Any], i: int) -> list[tuple[int, int, int, str]]:
    if not isinstance(event, Mapping):
        raise EventError(f"event {i} is a {type(event).__name__}; an event maps attribute names to values")
    found: list[tuple[int, int, int, str]] = []
    by_name = schema.by_name
    try:
        for name, value in event.items():
            attribute = by_name.get(name)
            if attribute is None:
                if isinstance(value, Mapping):
                    found.extend(_nested(schema, name, value, 1))
            elif not is_null(value):
                low, high = _interval(schema, attribute, value)
                found.append((attribute.number, low, high, name))
    except EventError as problem:
        raise type(problem)(f"event {i}: {problem}") from None
    if len(found) > 1:
        found.sort()
        if any(a[0] == b[0] for a, b in zip(found, found[1:], strict=False)):
            raise EventError(f"event {i} gives an attribute twice, once nested and once by its dotted name")
    return found


def _nested(schema: Schema, prefix: str, event: Mapping[str, Any], depth: int) -> list[tuple[int, int, int, str]]:
    """Attributes inside a mapping, by dotted name."""
    if depth > MAX_NESTED:
        raise EventError(f"{prefix!r} nests deeper than {MAX_NESTED} levels")
    found = []
    for name, value in event.items():
        dotted = f"{prefix}.{name}"
        attribute = schema.by_name.get(dotted)
        if attribute is not None and not is_null(value):
            found.append((attribute.number, *_interval(schema, attribute, value), dotted))
        elif attribute is None and isinstance(value, Mapping):
            found.extend(_nested(schema, dotted, value, depth + 1))
    return found


def is_null(value: Any) -> bool:
    """None, and the missing markers of pandas; NaN is a number here."""
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
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = _from_numpy(attribute, value)
    if attribute.type is None:
        raise SchemaChange(attribute, _learned(attribute, value), f"an event's value {value!r}"[:300])
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
    shown = f"{type(value).__name__} {str(value)[:100]!r}"
    return AttributeTypeError(f"attribute {attribute.name!r} is {attribute.described()}, but the event gives the {shown}")


def utf8(attribute: Attribute, value: str) -> bytes:
    """The bytes that strings compare by."""
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise EventError(
            f"attribute {attribute.name!r}: {value[:100]!r} holds a lone surrogate, which UTF-8 cannot carry"
        ) from None


def _from_numpy(attribute: Attribute, value: Any) -> Any:
    if isinstance(value, np.datetime64):
        micros = value.astype("datetime64[us]")
        if micros != value:
            raise EventError(f"attribute {attribute.name!r}: {value} has nanoseconds; earmark keeps microseconds")
        return micros.item() if np.datetime_data(value.dtype)[0] != "D" else value.item()
    return value.item()


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
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise clash(attribute, value)
    if not INT64_MIN <= value <= INT64_MAX:
        raise EventError(f"attribute {attribute.name!r}: {value} does not fit a 64-bit integer")
    return value


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
    if isinstance(value, float):
        value = Decimal(repr(value)) if math.isfinite(value) else Decimal("NaN")
    scaled = Decimal(value).scaleb(type_.scale) if not isinstance(value, int) else value * 10**type_.scale
    if isinstance(scaled, Decimal):
        if not scaled.is_finite() or scaled != scaled.to_integral_value():
            raise EventError(f"attribute {attribute.name!r}: {value} is not a {type_} without rounding")
        scaled = int(scaled)
    if not type_.low <= scaled <= type_.high:
        raise EventError(f"attribute {attribute.name!r}: {value} does not fit {type_}")
    return int(scaled)


def _timestamp_key(schema: Schema, attribute: Attribute, value: Any) -> int:
    if isinstance(value, str) and attribute.declared:
        value = _read(attribute, value, timestamp_value)
    if isinstance(value, datetime):
        if getattr(value, "nanosecond", 0):
            raise EventError(f"attribute {attribute.name!r}: {value} has nanoseconds; earmark keeps microseconds")
        return timestamp_key(value, schema.zone)
    if isinstance(value, date):
        return timestamp_key(datetime(value.year, value.month, value.day), schema.zone)
    raise clash(attribute, value)


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
        if not 0 <= weight < math.inf:
            raise error(f"{where}: the weight of {name!r} is {weight}; weights are finite and not negative")
        checked[name] = float(weight)
    return checked


def repeated(weights: Mapping[str, float] | Iterable[Mapping[str, float] | None] | None, count: int) -> Any:
    """One mapping for all events, or one for each, as a list of one for each."""
    if weights is None or isinstance(weights, Mapping):
        return None if not weights else [weights] * count
    listed = list(weights)
    if len(listed) != count:
        raise EventError(f"there are {count:,} events but {len(listed):,} mappings of weights")
    return listed
