"""A witness, an event that proves something, from keys back to values that `Matcher.match` takes.

A proof leaves an interval of keys open on each attribute, and any key in it will do; so one is picked that reads well:

    integer, decimal, boolean, date, timestamp    the key nearest to 0 (the day nearest to 1970)
    float                                         the same, moved to the next whole number if that is still inside
    string                                        the first cell: a constant, or the gap above one

**Strings.** Only constants have keys of their own; all strings between two constants share one, and keys further up in
a gap belong to no string (keys/strings.py). A cell that begins with a constant gives the constant; a gap gives a string
in it, the constant below with a letter after it where that fits.

Where an attribute has no type yet, any value will do, and it is 0. Days that Python's calendar does not have are
written as strings, which only frames can carry as dates.
"""

from __future__ import annotations

from bisect import bisect_right
from math import ceil, floor
from typing import Any

from earmark.cover.canonical import first_text_after, is_valid_text
from earmark.keys.cuts import value_of_key
from earmark.keys.numbers import LOWEST, float_key, float_of_key, number_at, position_at
from earmark.keys.schema import FLOAT, NUMBER, STRING, Schema

LETTERS = ("a", "0", " ", "\0")
"""What is put after a constant to get a string above it: the first that stays below the next constant."""


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
        if type_.kind in (FLOAT, NUMBER) and key:
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
        return self._text(number, key) if type_.kind == STRING else self._number(number, key)

    def _number(self, number: int, key: int) -> int | float:
        """A number with this key, of an attribute that is wide: a constant, or the next above one."""
        constants, keys = self._schema.strings[number].items()
        place = bisect_right(keys, key) - 1  # '' has the least key of all
        position = position_at(constants[place]) if place else LOWEST - 1
        return number_at(position if place and int(keys[place]) == key else position + 1)

    def _text(self, number: int, key: int) -> str:
        """A string with this key."""
        constants, keys = self._schema.strings[number].items()
        place = bisect_right(keys, key) - 1  # '' has the least key of all
        constant = constants[place]
        if not is_valid_text(constant):
            return first_text_after(constant).decode()
        if keys[place] == key:
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
