"""Where is a number among all numbers? The keys of attributes whose type was learned from numbers.

A learned number takes whole numbers of any size, doubles and decimals alike. A whole value counts as itself, one with
a fraction as its nearest double, and these compare by value; NaN is above all, and −0 is 0. So the numbers are the
doubles and the integers together, and each has a *position*, a Python integer, with neighbours next to each other:

    number     −inf   …   −2^53−1   −2^53   …  −5e-324   0   5e-324   …   2^53   2^53+1   …   inf      NaN
    position   −FAR       −EDGE−1   −EDGE          −1    0        1       EDGE   EDGE+1       FAR    FAR + 1

Below 2^53 a position is the key of a double; beyond, every integer is a number and every number an integer, so there
they are counted. Sets of numbers (`bind.py`) are exact in positions. Positions need more than 64 bits, so an
attribute has one of two encodings of them as keys:

    narrow    keys of doubles, while every bound is below 2^53 (or is an infinity, or NaN). An event's integer takes
              its nearest double, which is on the right side of all such bounds
    wide      the keys of a dictionary of constants (`strings.py`), each a bound's position as bytes that keep order

A write that brings a bound beyond 2^53 makes the attribute wide; only constraints on that attribute change.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.flat.arrays import F64, I64
from earmark.keys.schema import FLOAT_INF_KEY, FLOAT_NAN_KEY, INT64_MAX, INT64_MIN
from earmark.keys.sets import Intervals, KeySet

_AS_DOUBLE, _AS_INTEGER = struct.Struct("<d").pack, struct.Struct("<q").unpack
SIGN = -(2**63)
"""The bits of −0.0: those of a negative double, taken from it, are its key."""


def float_key(value: float) -> int:
    """Order-preserving key of a double.

    >>> float_key(-0.0) == float_key(0.0), float_key(-5e-324), float_key(float("inf")) < float_key(float("nan"))
    (True, -1, True)
    """
    if value != value:
        return FLOAT_NAN_KEY
    bits: int = _AS_INTEGER(_AS_DOUBLE(value))[0]
    return bits if bits >= 0 else SIGN - bits


def float_keys(values: F64) -> I64:
    """`float_key` of an array."""
    bits = np.ascontiguousarray(values, np.float64).view(np.int64)
    negative = bits >> 63  # all ones or all zeros
    keys = bits ^ (negative & 0x7FFFFFFFFFFFFFFF)
    keys -= negative
    np.copyto(keys, FLOAT_NAN_KEY, where=np.isnan(values))
    return keys


def float_of_key(key: int) -> float:
    """The inverse of `float_key`."""
    if key == FLOAT_NAN_KEY:
        return math.nan
    value: float = struct.unpack("<d", struct.pack("<q", abs(key)))[0]
    return -value if key < 0 else value


_WHOLE = 2**53
EDGE = float_key(2.0**53)
FAR = EDGE + 2**1100
LOWEST, HIGHEST = -FAR, FAR + 1
"""The positions of −inf and of NaN: the ends of the domain."""
_MAX_DOUBLE = FLOAT_INF_KEY - 1
_MOST_DIGITS = 331  # a whole decimal with more digits is beyond 2^1100
_NARROW = {
    LOWEST: -FLOAT_INF_KEY,
    LOWEST + 1: -_MAX_DOUBLE,
    FAR - 1: _MAX_DOUBLE,
    FAR: FLOAT_INF_KEY,
    HIGHEST: FLOAT_NAN_KEY,
}
_FROM_NARROW = {key: position for position, key in _NARROW.items()}
_ROOM, _BYTES = 2**71, 9  # positions of all but enormous numbers
_MORE_BYTES = 140
_LONGEST = 10**38  # integers with more digits are no literals


def position_of(value: float | Decimal) -> int:
    """The position of a number.

    >>> position_of(2**53 + 1) - position_of(2.0**53), position_of(Decimal("0.5")) == position_of(0.5)
    (1, True)
    """
    if isinstance(value, Decimal):
        value = _from_decimal(value)
    if isinstance(value, float):
        if value != value:
            return HIGHEST
        if math.isinf(value):
            return FAR if value > 0 else LOWEST
        if abs(value) <= _WHOLE:
            return float_key(value)
        value = int(value)
    if -_WHOLE <= value <= _WHOLE:
        return float_key(float(value))
    if value > 0:
        return min(EDGE + (value - _WHOLE), FAR - 1)
    return max(-EDGE + (value + _WHOLE), LOWEST + 1)


def _from_decimal(value: Decimal) -> int | float:
    if not value.is_finite():
        return math.nan if value.is_nan() else math.copysign(math.inf, value)
    if value and value.adjusted() > _MOST_DIGITS:
        return 2**1200 if value > 0 else -(2**1200)
    whole = value.to_integral_value() == value
    return int(value) if whole else float(value)


def number_at(position: int) -> int | float:
    """The number at a position: an integer where it is whole."""
    if position in _NARROW and position not in (LOWEST + 1, FAR - 1):
        return float_of_key(_NARROW[position])
    if abs(position) <= EDGE:
        value = float_of_key(position)
        return int(value) if value.is_integer() else value
    return position - EDGE + _WHOLE if position > 0 else position + EDGE - _WHOLE


# --- narrow ------------------------------------------------------------------------------------------------------


def narrow_key(value: float | Decimal) -> int:
    """The key of an event's number among doubles: on the right side of every bound that a narrow attribute can have."""
    if type(value) is float:
        return float_key(value)
    if isinstance(value, Decimal):
        value = _from_decimal(value)
    try:
        return float_key(float(value))
    except OverflowError:
        return _MAX_DOUBLE if value > 0 else -_MAX_DOUBLE


def narrowed(numbers: KeySet) -> KeySet | None:
    """A set of positions as keys of doubles; None where a bound is not one of them."""
    if numbers.intervals == ((LOWEST, HIGHEST),):  # open to every value, of any type
        return KeySet(((INT64_MIN, INT64_MAX),), numbers.null)
    ends = [place if -EDGE < place < EDGE else _NARROW.get(place) for pair in numbers.intervals for place in pair]
    if None in ends:
        return None
    return KeySet(tuple(zip(ends[::2], ends[1::2], strict=True)), numbers.null)  # type: ignore[arg-type]


def position_of_narrow(key: int) -> int:
    """The position of a bound that is a key of a double. Outside the doubles it is open."""
    if key < -FLOAT_INF_KEY or key > FLOAT_NAN_KEY:
        return LOWEST if key < 0 else HIGHEST
    return _FROM_NARROW.get(key, key)


def widened(numbers: KeySet) -> KeySet:
    """The inverse of `narrowed`."""
    pairs = tuple((position_of_narrow(lo), position_of_narrow(hi)) for lo, hi in numbers.intervals)
    return KeySet(pairs, numbers.null)


# --- wide --------------------------------------------------------------------------------------------------------


def constant_of(position: int) -> bytes:
    """A position as bytes that keep order: what the dictionary of a wide attribute holds."""
    if -_ROOM <= position < _ROOM:
        return b"\x80" + (position + _ROOM).to_bytes(_BYTES, "big")
    head = b"\x81" if position > 0 else b"\x7f"
    return head + (position + (0 if position > 0 else 2 * FAR)).to_bytes(_MORE_BYTES, "big")


def position_at(constant: bytes) -> int:
    """The inverse of `constant_of`; AssertionError for bytes that are none of its results."""
    number = int.from_bytes(constant[1:], "big")
    head, size = constant[:1], len(constant) - 1
    if head == b"\x80" and size == _BYTES:
        return number - _ROOM
    assert head in (b"\x81", b"\x7f") and size == _MORE_BYTES, "a constant is not that of a number"
    position = number if head == b"\x81" else number - 2 * FAR
    assert LOWEST <= position <= HIGHEST and constant_of(position) == constant, "a constant is not that of a number"
    return position


def check_numbers(constants: Sequence[bytes]) -> None:
    """Raise AssertionError unless these are the constants of a wide attribute, '' first."""
    for constant in constants[1:]:
        position_at(constant)


def bounds_of(numbers: KeySet) -> list[bytes]:
    """The constants that a wide attribute needs for a set of positions."""
    lows, highs = {lo for lo, _ in numbers.intervals}, {hi for _, hi in numbers.intervals}
    return [constant_of(end) for end in (lows - {LOWEST}) | (highs - {HIGHEST})]


def wide_intervals(numbers: KeySet, key_of: Any) -> Intervals:
    """The intervals of a set of positions as keys of a wide attribute; `key_of` gives a constant's key."""

    def key(position: int, open_end: int, open_key: int) -> int:
        return open_key if position == open_end else int(key_of(constant_of(position)))

    return tuple((key(lo, LOWEST, INT64_MIN), key(hi, HIGHEST, INT64_MAX)) for lo, hi in numbers.intervals)


def wide_bounds(lo: I64, hi: I64, constants: Any) -> tuple[I64, I64]:
    """Bounds that are keys of doubles, as keys of a dictionary that has all of their positions."""

    def keys(column: I64, open_end: int, open_key: int) -> I64:
        distinct, at = np.unique(column, return_inverse=True)
        places = [position_of_narrow(key) for key in distinct.tolist()]
        new = [open_key if p == open_end else constants.of_constant(constant_of(p)) for p in places]
        return np.array(new, np.int64)[at]

    return keys(lo, LOWEST, INT64_MIN), keys(hi, HIGHEST, INT64_MAX)


def narrow_constants(lo: I64, hi: I64) -> set[bytes]:
    """The constants that bounds that are keys of doubles need in a dictionary."""
    lows = {position_of_narrow(key) for key in np.unique(lo).tolist()} - {LOWEST}
    highs = {position_of_narrow(key) for key in np.unique(hi).tolist()} - {HIGHEST}
    return {constant_of(place) for place in lows | highs}


def is_narrow(value: float | Decimal) -> bool:
    """Whether a bound at this number has a key among the doubles."""
    position = position_of(value)
    return -EDGE < position < EDGE or position in _NARROW


def literal_at(position: int) -> int | float | None:
    """The number at a position as a literal can say it: a double for more digits than SQL takes; None if none can."""
    if not LOWEST <= position <= HIGHEST:
        return None
    number = number_at(position)
    if not isinstance(number, int) or abs(number) < _LONGEST:
        return number
    near = narrow_key(number)
    return float_of_key(near) if position_of(float_of_key(near)) == position else None


class _Ladder(NamedTuple):
    """Constants as values of an array's type: each is the least that is not below it, and whether it is that value."""

    size: int
    ceilings: I64
    exact: NDArray[np.bool_]
    keys: I64


def wide_keys(strings: Any, values: NDArray[Any]) -> I64:
    """The keys of an array of integers or doubles, by the dictionary of a wide attribute. O(log constants) each."""
    found = float_keys(values.astype(np.float64, copy=False)) if values.dtype.kind == "f" else values
    name = "double" if values.dtype.kind == "f" else str(values.dtype)
    ladder: _Ladder | None = strings.ladders.get(name)
    if ladder is None or ladder.size != len(strings):
        ladder = strings.ladders[name] = _ladder(
            strings, found.dtype, _double_from if name == "double" else _integer_from
        )
    at = np.searchsorted(ladder.ceilings, found, "right") - 1
    keys: I64 = ladder.keys[at] + ~(ladder.exact[at] & (ladder.ceilings[at] == found))
    return keys


def _ladder(strings: Any, dtype: Any, least: Callable[[int], tuple[int, bool]]) -> _Ladder:
    size = len(strings)
    constants, keys = strings.items()
    bottom, top = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    steps = [least(position_at(constant)) for constant in constants[1:]]  # the first is '', below all numbers
    reached = [step for step in steps if step[0] <= top]
    ceilings = [bottom, *(max(ceiling, bottom) for ceiling, _ in reached)]
    exact = [False, *(same and ceiling >= bottom for ceiling, same in reached)]
    return _Ladder(size, np.array(ceilings, dtype), np.array(exact), keys)


def _integer_from(position: int) -> tuple[int, bool]:
    """The least integer that is not below a position, and whether it is there."""
    if position in (FAR, HIGHEST):
        return 2**1200, False
    value = number_at(position) if position != LOWEST else -(2**1200)
    return math.ceil(value), isinstance(value, int) and position != LOWEST


def _double_from(position: int) -> tuple[int, bool]:
    """The key of the least double that is not below a position, and whether it is there."""
    if abs(position) <= EDGE:
        return position, True
    if position in (LOWEST, FAR, HIGHEST):
        return _NARROW[position], True
    value = number_at(position)
    try:
        near = float(value)
    except OverflowError:
        return (FLOAT_INF_KEY if value > 0 else -_MAX_DOUBLE), False
    return float_key(near if near >= value else math.nextafter(near, math.inf)), near == value
