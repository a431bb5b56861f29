"""From keys back to what people write: a box as a condition, and a witness as an event.

A **condition** parses to the same box:

    x [3, 9] [20, 20]              (x BETWEEN 3 AND 9 OR x = 20)
    s ['a', below 'c'], or NULL    ((s >= 'a' AND s < 'c') OR s IS NULL)
    c ['Oslo'] ['Rome']            c IN ('Oslo', 'Rome')
    y everything, or NULL          nothing: y is not asked about

Keys of strings stand for constants of subscriptions and for the gaps between them, so a bound is `>=`, `>`, `<=` or `<`
of a constant; where the constant is not valid UTF-8 (the end of a LIKE can be such bytes), of the next string above it.

A **witness**, an event that proves something, has values that `Matcher.match` takes. A proof leaves an interval of keys
open on each attribute, and any key in it will do; so one is picked that reads well:

    integer, decimal, boolean, date, timestamp    the key nearest to 0 (the day nearest to 1970)
    float                                         the same, moved to the next whole number if that is still inside
    string                                        the first cell: a constant, or the gap above one

**Strings.** Only constants have keys of their own; all strings between two constants share one, and keys further up in
a gap belong to no string (keys/strings.py). A cell that begins with a constant gives the constant; a gap gives a string
in it, the constant below with a letter after it where that fits.

Where an attribute has no type yet, any value will do, and it is 0. Days that Python's calendar does not have are
written as strings, which only frames can carry as dates.

Invariant: an event matches the condition iff it matches the box.
"""

from __future__ import annotations

from bisect import bisect_right
from math import ceil, floor
from typing import Any

from earmark.cover.canonical import ABOVE_ALL, first_text_after, is_valid_text
from earmark.keys.cuts import value_of_key
from earmark.keys.numbers import HIGHEST, LOWEST, float_key, float_of_key, literal_at, number_at, position_at
from earmark.keys.schema import INT64_MAX, INT64_MIN, Attribute, Kind, Schema
from earmark.language.predicate import literal_sql, name_sql
from earmark.segment.arrays import SegmentArrays

LETTERS = ("a", "0", " ", "\0")
"""What is put after a constant to get a string above it: the first that stays below the next constant."""
Bound = tuple[str, str] | None
"""An operator and a literal; None is open."""


class ConditionWriter:
    """Writes boxes in the keys of a schema."""

    def __init__(self, schema: Schema) -> None:
        self._attributes = {attribute.number: attribute for attribute in schema}
        self._strings: dict[int, tuple[list[bytes], list[int]]] = {}
        self._schema = schema

    def condition(self, boxes: SegmentArrays, slot: int) -> str:
        """The condition of a box."""
        texts = []
        for c in range(boxes.constraint_start[slot], boxes.constraint_start[slot + 1]):
            mine = slice(boxes.interval_start[c], boxes.interval_start[c + 1])
            pairs = list(zip(boxes.lo[mine].tolist(), boxes.hi[mine].tolist(), strict=True))
            texts.append(self._constraint(self._attributes[int(boxes.attr[c])], pairs, bool(boxes.accepts_null[c])))
        return " AND ".join(filter(None, texts)) or "TRUE"

    def bound(self, number: int, key: int) -> str:
        """The values from a key on, of an attribute by number, as a bound: `>= 3`."""
        attribute = self._attributes[number]
        low, _ = self._bounds(attribute, key, INT64_MAX)
        return "" if low is None else f"{low[0]} {low[1]}"

    def _constraint(self, attribute: Attribute, pairs: list[tuple[int, int]], null: bool) -> str:
        """What is asked of one attribute; empty when nothing is."""
        name = name_sql(attribute.name)
        bounds = [self._bounds(attribute, lo, hi) for lo, hi in pairs]
        if any(low is None and high is None for low, high in bounds):
            return "" if null else f"{name} IS NOT NULL"
        points = [low[1] for low, high in bounds if low is not None and low[0] == "=" and high is None]
        parts = [_between(name, low, high) for low, high in bounds if not (low is not None and low[0] == "=")]
        if points:
            parts.insert(0, f"{name} = {points[0]}" if len(points) == 1 else f"{name} IN ({', '.join(points)})")
        if null:
            parts.append(f"{name} IS NULL")
        return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"

    def _bounds(self, attribute: Attribute, lo: int, hi: int) -> tuple[Bound, Bound]:
        """Lower and upper bound; of a single value, `=` as the lower one and none above."""
        type_ = attribute.type
        if type_ is not None and type_.keyed:
            bounds = self._string_bounds if type_.kind == Kind.STRING else self._number_bounds
            return bounds(attribute.number, lo, hi)
        low, high = (INT64_MIN, INT64_MAX) if type_ is None else (type_.low, type_.high)
        below, above = lo <= low, hi >= high
        if type_ is None or (below and above):
            return None, None
        point, start, end = _literal(attribute, lo) if lo == hi else None, None, None
        if point is not None:
            return ("=", point), None
        dense = type_.kind in (Kind.FLOAT, Kind.NUMBER)
        if not below:
            start = _bound(">=", _literal(attribute, lo), ">", _literal(attribute, lo - 1), dense)
        if not above:
            end = _bound("<=", _literal(attribute, hi), "<", _literal(attribute, hi + 1), dense)
        return start, end

    def _known(self, number: int) -> tuple[list[bytes], list[int]]:
        if number not in self._strings:
            known = self._schema.strings[number].items()
            self._strings[number] = known[0], known[1].tolist()
        return self._strings[number]

    def _number_bounds(self, number: int, lo: int, hi: int) -> tuple[Bound, Bound]:
        """Bounds of a wide number: the first and the last number whose key is between."""
        constants, keys = self._known(number)
        positions = [LOWEST - 1, *map(position_at, constants[1:]), HIGHEST + 1]
        first = bisect_right(keys, lo) - 1
        # in the gap above a constant, only the key next to it is that of values
        low = positions[first] + (lo - keys[first] if lo - keys[first] < 2 else positions[first + 1] - positions[first])
        last = bisect_right(keys, hi) - 1
        high = positions[last] if hi == keys[last] else positions[last + 1] - 1
        if low == high:
            return ("=", str(_number(low))), None
        inner, outer = ((_number(at) for at in pair) for pair in ((low, high), (low - 1, high + 1)))
        start, end = (
            _bound(*operators, dense=True) for operators in zip((">=", "<="), inner, (">", "<"), outer, strict=True)
        )
        return None if low <= LOWEST else start, None if high >= HIGHEST else end

    def _string_bounds(self, number: int, lo: int, hi: int) -> tuple[Bound, Bound]:
        constants, keys = self._known(number)
        first = bisect_right(keys, lo) - 1  # '' has the least key of all
        if lo == keys[first] == hi and is_valid_text(constants[first]):
            return ("=", literal_sql(constants[first].decode())), None
        low = _from(constants, first, lo - keys[first])
        last = bisect_right(keys, hi) - 1
        # a value between two constants has the key just above the lower one
        return low, _upto(constants, last, beyond=hi > keys[last])


def _from(constants: list[bytes], at: int, above: int) -> Bound:
    """The lower bound at a constant (above = 0), in the gap above it (1), or at the next constant."""
    if above > 1:
        at, above = at + 1, 0
    if not constants[at] and not above:
        return None
    if is_valid_text(constants[at]):
        return (">" if above else ">="), literal_sql(constants[at].decode())
    return ">=", literal_sql(first_text_after(constants[at]).decode())


def _upto(constants: list[bytes], at: int, beyond: bool) -> Bound:
    """The upper bound with a constant, or with all of the gap above it."""
    if beyond:
        at += 1
        if at == len(constants):
            return None
    if is_valid_text(constants[at]):
        return ("<" if beyond else "<="), literal_sql(constants[at].decode())
    following = first_text_after(constants[at])
    return None if following == ABOVE_ALL else ("<", literal_sql(following.decode()))


def _between(name: str, low: Bound, high: Bound) -> str:
    if low is not None and high is not None and (low[0], high[0]) == (">=", "<="):
        return f"{name} BETWEEN {low[1]} AND {high[1]}"
    parts = [f"{name} {bound[0]} {bound[1]}" for bound in (low, high) if bound is not None]
    return f"({' AND '.join(parts)})" if len(parts) > 1 else parts[0]


def _bound(inner: str, literal: str | None, outer: str, beyond: str | None, dense: bool = False) -> Bound:
    """A bound, or the same one by the value just outside: `> DATE '9999-12-31'` is the last that can be written.

    Of `dense` values, doubles, whichever is shorter: `> 100` rather than `>= 100.00000000000001`.
    """
    if literal is not None and not (dense and beyond is not None and len(beyond) < len(literal)):
        return inner, literal
    return None if beyond is None else (outer, beyond)


def _number(position: int) -> str | None:
    """The number at a position in SQL; None where no literal says it."""
    number = literal_at(position)
    return None if number is None else literal_sql(number)


def _literal(attribute: Attribute, key: int) -> str | None:
    """A value in SQL; None for days that no literal can name."""
    assert attribute.type is not None
    value: Any = value_of_key(attribute.type, key)
    return None if isinstance(value, str) else literal_sql(value)


class EventWriter:
    """Writes events in the values of a schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._attributes = {attribute.number: attribute for attribute in schema}

    def pick(self, number: int, first: int, last: int) -> int:
        """The key of an attribute, by number, that reads best of those from first to last."""
        type_ = self._attributes[number].type
        if type_ is None or type_.keyed:
            return first
        key = min(max(0, first), last)
        if type_.kind in (Kind.FLOAT, Kind.NUMBER) and key:
            return _whole(key, first, last)
        return key

    def event(self, keys: dict[int, int | None]) -> dict[str, Any]:
        """Keys by attribute number, None for NULL, as values by name."""
        names = self._schema.names
        return {names[number]: None if key is None else self._value(number, key) for number, key in keys.items()}

    def _value(self, number: int, key: int) -> Any:
        type_ = self._attributes[number].type
        if type_ is None:
            return 0
        if not type_.keyed:
            return value_of_key(type_, key)
        constants, keys = self._schema.strings[number].items()
        place = bisect_right(keys, key) - 1  # '' has the least key of all
        return (_text if type_.kind == Kind.STRING else _wide)(constants, place, bool(keys[place] == key))


def _wide(constants: list[bytes], place: int, at: bool) -> int | float:
    """A number of an attribute that is wide: the constant at a place, or the next above it."""
    position = position_at(constants[place]) if place else LOWEST - 1
    return number_at(position if place and at else position + 1)


def _text(constants: list[bytes], place: int, at: bool) -> str:
    """The constant at a place, or a string above it and below the next."""
    constant = constants[place]
    if not is_valid_text(constant):
        return first_text_after(constant).decode()
    if at:
        return constant.decode()
    above = constants[place + 1] if place + 1 < len(constants) else None
    texts = (constant + letter.encode() for letter in LETTERS)
    return next(text for text in texts if above is None or text < above).decode()


def _whole(key: int, first: int, last: int) -> int:
    """The key of the next whole number away from zero, if it is one of first .. last."""
    value = float_of_key(key)
    if not abs(value) < 2.0**53:  # beyond, all are whole; NaN is not
        return key
    near = float_key(float(ceil(value) if value > 0 else floor(value)))
    return near if first <= near <= last else key
