"""Keys keep order, and a literal's cut is exactly where Spark's comparison puts it."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from earmark.keys.cuts import cut, date_key, decimal_room, midnight_key, timestamp_key, value_of_key
from earmark.keys.numbers import float_key, float_keys, float_of_key
from earmark.keys.schema import INT64_MAX, INT64_MIN, AttributeType, attribute_type, type_of
from earmark.language.literals import decimal_size

PARIS, APIA, TORONTO = ZoneInfo("Europe/Paris"), ZoneInfo("Pacific/Apia"), ZoneInfo("America/Toronto")
ZONES = (UTC, PARIS, APIA, TORONTO)
SPECIAL = (0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, math.inf, -math.inf, math.nan, 2.0**53, 2.0**63, -1e308)
DECIMALS = ("decimal(1,0)", "decimal(1,1)", "decimal(9,2)", "decimal(18,0)", "decimal(18,9)", "decimal(18,18)")

floats = st.floats() | st.sampled_from(SPECIAL)
int64s = st.integers(INT64_MIN, INT64_MAX)
signs = st.sampled_from((1, -1))
near_powers = st.builds(lambda p, d, s: s * (2**p + d), st.integers(0, 66), st.integers(-3, 3), signs)
integers = int64s | near_powers | st.integers(-(10**37), 10**37)
decimals = st.builds(lambda n, e: Decimal(n).scaleb(-e), st.integers(-(10**18), 10**18), st.integers(0, 20))
halves = st.builds(lambda n: Decimal(2 * n + 1) / 2, st.integers(-(10**19), 10**19))
numbers = integers | floats | decimals | halves


def spark_order(a: float, b: float) -> int:
    """NaN equals NaN and is above every number."""
    if a != a or b != b:
        return (a != a) - (b != b)
    return (a > b) - (a < b)


def order(a: Any, b: Any) -> int:
    return (a > b) - (a < b)


# --- values ----------------------------------------------------------------------------------------------------------


@given(floats, floats)
@example(0.0, -0.0)
@example(math.nan, math.inf)
@example(5e-324, -5e-324)
def test_float_keys_keep_spark_order(a: float, b: float) -> None:
    assert order(float_key(a), float_key(b)) == spark_order(a, b)


@given(floats)
def test_a_float_comes_back_from_its_key(value: float) -> None:
    back = float_of_key(float_key(value))
    assert spark_order(back, value) == 0
    assert float_key(back) == float_key(value)


@given(st.integers(-0x7FF0000000000000, 0x7FF0000000000001))
def test_every_key_of_the_float_domain_is_a_float(key: int) -> None:
    assert float_key(float_of_key(key)) == key


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_neighbouring_floats_have_neighbouring_keys(value: float) -> None:
    assert float_key(math.nextafter(value, math.inf)) == float_key(value) + 1


@given(st.lists(floats))
def test_whole_arrays_get_the_same_float_keys(values: list[float]) -> None:
    assert float_keys(np.array(values, np.float64)).tolist() == [float_key(v) for v in values]


def test_every_kind_of_nan_is_one_key() -> None:
    bits = np.array([0x7FF8000000000000, 0x7FF0000000000001, -1, -(2**51)], np.int64)
    assert set(float_keys(bits.view(np.float64)).tolist()) == {float_key(math.nan)}


def test_float_keys_take_strided_and_read_only_arrays() -> None:
    values = np.array(SPECIAL * 2)[::3]
    values.flags.writeable = False
    assert float_keys(values).tolist() == [float_key(v) for v in values.tolist()]


@given(st.dates(), st.dates())
def test_date_keys_keep_order_and_come_back(a: date, b: date) -> None:
    assert order(date_key(a), date_key(b)) == order(a, b)
    assert value_of_key(attribute_type("date"), date_key(a)) == a


@given(st.datetimes(timezones=st.sampled_from(ZONES)), st.datetimes(timezones=st.sampled_from(ZONES)))
@example(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
def test_timestamp_keys_keep_order(a: datetime, b: datetime) -> None:
    # Python compares by wall clock when the zone objects are the same, so subtract in UTC.
    difference = (a - a.utcoffset()).replace(tzinfo=None) - (b - b.utcoffset()).replace(tzinfo=None)  # type: ignore[operator]
    assert timestamp_key(a, UTC) - timestamp_key(b, UTC) == difference // timedelta(microseconds=1)


@given(st.datetimes())
def test_a_timestamp_comes_back_from_its_key(value: datetime) -> None:
    assert value_of_key(attribute_type("timestamp"), timestamp_key(value, UTC)) == value.replace(tzinfo=UTC)


@given(st.sampled_from(DECIMALS), st.data())
def test_decimal_keys_keep_order_and_come_back(name: str, data: st.DataObject) -> None:
    type_ = attribute_type(name)
    a, b = (data.draw(st.integers(type_.low, type_.high)) for _ in range(2))
    left, right = value_of_key(type_, a), value_of_key(type_, b)
    assert order(left, right) == order(a, b)
    assert Fraction(left) == Fraction(a, 10**type_.scale)  # type: ignore[arg-type]


def test_keys_beyond_the_calendar_are_shown_as_text() -> None:
    assert value_of_key(attribute_type("date"), 2**31 - 1) == "5881580-07-11"
    assert value_of_key(attribute_type("date"), -(2**31)) == "-5877641-06-23"
    assert str(value_of_key(attribute_type("timestamp"), INT64_MAX)).startswith("294247-01-10T04:00:54")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (True, "boolean"),
        (1, "number"),
        (1.0, "number"),
        (Decimal("1"), "number"),
        ("x", "string"),
        (date(2024, 1, 1), "date"),
        (datetime(2024, 1, 1), "timestamp"),
    ],
)
def test_a_literal_teaches_its_type(value: Any, name: str) -> None:
    assert type_of(value) == attribute_type(name)


# --- zones -----------------------------------------------------------------------------------------------------------


def utc(*parts: int) -> int:
    return timestamp_key(datetime(*parts, tzinfo=UTC), UTC)  # type: ignore[misc,arg-type]


def test_a_naive_time_inside_a_gap_moves_forward() -> None:
    assert timestamp_key(datetime(2024, 3, 31, 2, 30), PARIS) == utc(2024, 3, 31, 1, 30)  # 03:30+02:00


def test_a_naive_time_that_occurs_twice_is_the_earlier() -> None:
    assert timestamp_key(datetime(2024, 10, 27, 2, 30), PARIS) == utc(2024, 10, 27, 0, 30)  # +02:00


def test_a_day_begins_after_the_gap_that_midnight_lies_in() -> None:
    """Toronto went from 23:30 to 00:30: java.time starts that day at 00:30, not at 01:00."""
    assert midnight_key(date_key(date(1919, 3, 31)), TORONTO) == utc(1919, 3, 31, 4, 30)
    assert midnight_key(date_key(date(2018, 11, 4)), ZoneInfo("America/Sao_Paulo")) == utc(2018, 11, 4, 3)


def test_a_skipped_day_begins_with_the_next() -> None:
    """Samoa had no 30 December 2011."""
    assert midnight_key(date_key(date(2011, 12, 30)), APIA) == midnight_key(date_key(date(2011, 12, 31)), APIA)
    moment = datetime(2011, 12, 31, tzinfo=APIA)
    below, upto, _ = cut(attribute_type("date"), moment, APIA) or (0, 0, False)
    assert (below, upto) == (date_key(date(2011, 12, 29)), date_key(date(2011, 12, 31)))


@pytest.mark.parametrize("moment", [datetime.min, datetime.max, datetime.min + timedelta(microseconds=1)])
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("own", [None, *ZONES])
def test_the_ends_of_the_calendar_have_cuts(moment: datetime, zone: Any, own: Any) -> None:
    check_cut(attribute_type("date"), moment.replace(tzinfo=own), zone, lambda key: midnight_key(key, zone))


# --- cuts against their definition -----------------------------------------------------------------------------------


def check_cut(
    type_: AttributeType, literal: Any, zone: Any, of_key: Callable[[int], Any], compare: Any = None, more: Any = ()
) -> None:
    """Every key near the cut, and some far away, compare with the literal as the cut says."""
    found = cut(type_, literal, zone)
    assert found is not None
    below, upto, _ = found
    assert below <= upto
    tried = {below - 1, below, below + 1, upto - 1, upto, upto + 1, type_.low, type_.high, *more}
    value = timestamp_key(literal, zone) if isinstance(literal, datetime) else literal
    for key in sorted(k for k in tried if type_.low <= k <= type_.high):
        wanted = -1 if key <= below else 0 if key <= upto else 1
        assert (compare or order)(of_key(key), value) == wanted, (key, found)


def rounded(value: Any) -> float:
    """The double nearest to an exact number (ties to even), with no help from the code under test."""
    try:
        return float(Fraction(value))
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def number_case(type_: AttributeType, literal: Any) -> tuple[Callable[[int], Any], Any, Any]:
    """How Spark compares: (value of a key, comparison) for this pair of types."""
    unit = 10**type_.scale
    if type_.kind == "float":
        return float_of_key, lambda a, b: spark_order(a, b if isinstance(b, float) else rounded(b)), literal
    if isinstance(literal, float):
        return lambda key: rounded(Fraction(key, unit)), spark_order, literal
    return lambda key: Fraction(key, unit), lambda a, b: order(a, Fraction(b)), literal


@pytest.mark.parametrize("name", ["integer", "float", *DECIMALS])
@given(literal=numbers, more=st.lists(int64s, max_size=4))
@example(literal=2**53 + 1, more=[2**53, 2**53 + 1])
@example(literal=9007199254740993.0, more=[2**53, 2**53 + 1, 2**53 + 2])
@example(literal=2.0**63, more=[INT64_MAX, INT64_MAX - 511, INT64_MAX - 512, INT64_MAX - 513])
@example(literal=-(2.0**63), more=[INT64_MIN, INT64_MIN + 512, INT64_MIN + 513])
@example(literal=1e18, more=[10**18])
@example(literal=0.1, more=[10**17, 1, 10])
@example(literal=Decimal("22.5"), more=[22, 23])
@example(literal=math.nan, more=[])
@example(literal=10**400, more=[])
def test_numbers_cut_where_spark_compares(name: str, literal: Any, more: list[int]) -> None:
    type_ = attribute_type(name)
    of_key, compare, value = number_case(type_, literal)
    check_cut(type_, value, UTC, of_key, compare, more)


@given(st.integers(2**53, 2**62), st.integers(0, 9))
def test_several_integers_may_equal_one_double(base: int, shift: int) -> None:
    literal = float(base)
    below, upto, _ = cut(attribute_type("integer"), literal, UTC) or (0, 0, False)
    equal = [k for k in range(int(literal) - 1100, int(literal) + 1100) if float(k) == literal]
    assert (below + 1, upto) == (equal[0], equal[-1])


@pytest.mark.parametrize("literal", [2**63, -(2**63) - 1, Decimal(2**63), Decimal("-9223372036854775808.5"), 10**37])
def test_exact_literals_outside_int64_are_beyond(literal: Any) -> None:
    below, upto, beyond = cut(attribute_type("integer"), literal, UTC) or (0, 0, False)
    assert beyond
    assert (upto < INT64_MIN) if literal < 0 else (below >= INT64_MAX)


@pytest.mark.parametrize("literal", [2.0**70, -math.inf, math.inf, math.nan, 2**63 - 1, Decimal(2**63 - 1)])
def test_doubles_and_what_fits_are_not_beyond(literal: Any) -> None:
    assert (cut(attribute_type("integer"), literal, UTC) or (0, 0, True))[2] is False


moments = (
    st.datetimes()
    | st.datetimes(timezones=st.sampled_from(ZONES))
    | st.dates().map(lambda d: datetime(d.year, d.month, d.day))
)


@given(moments, st.sampled_from(ZONES))
def test_timestamps_cut_dates_at_midnight(moment: datetime, zone: Any) -> None:
    check_cut(attribute_type("date"), moment, zone, lambda key: midnight_key(key, zone))


@given(moments, st.sampled_from(ZONES))
def test_timestamps_cut_timestamps(moment: datetime, zone: Any) -> None:
    check_cut(attribute_type("timestamp"), moment, zone, lambda key: key)


@given(st.dates(), st.sampled_from(ZONES))
def test_dates_cut_timestamps_at_midnight(day: date, zone: Any) -> None:
    key = midnight_key(date_key(day), zone)
    assert cut(attribute_type("timestamp"), day, zone) == (key - 1, key, False)


@given(st.dates())
def test_dates_cut_dates(day: date) -> None:
    assert cut(attribute_type("date"), day, PARIS) == (date_key(day) - 1, date_key(day), False)


def test_booleans_cut_booleans_only() -> None:
    assert cut(attribute_type("boolean"), False, UTC) == (-1, 0, False)
    assert cut(attribute_type("boolean"), True, UTC) == (0, 1, False)


LITERALS = {
    "boolean": True,
    "integer": 1,
    "float": 1.5,
    "decimal(9,2)": Decimal("1.5"),
    "string": "x",
    "date": date(2024, 1, 1),
    "timestamp": datetime(2024, 1, 1),
}
TOGETHER = [{"integer", "float", "decimal(9,2)"}, {"date", "timestamp"}, {"boolean"}]


@pytest.mark.parametrize("kind", sorted(set(LITERALS) - {"string"}))
@pytest.mark.parametrize("literal", sorted(LITERALS))
def test_only_related_types_compare(kind: str, literal: str) -> None:
    related = any({kind, literal} <= group for group in TOGETHER)
    assert (cut(attribute_type(kind), LITERALS[literal], UTC) is not None) == related


# --- Spark's decimals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"),
    [("22.5", (3, 1)), ("0.001", (3, 3)), ("0", (1, 0)), ("0.00", (2, 2)), ("1E+3", (4, 0)), ("-7.10", (3, 2))],
)
def test_sizes_of_decimal_literals(text: str, size: tuple[int, int]) -> None:
    assert decimal_size(Decimal(text)) == size


def test_more_than_38_digits_in_common_have_no_room() -> None:
    assert decimal_room(attribute_type("integer"), [Decimal("0.123456789012345678")])
    assert not decimal_room(attribute_type("integer"), [Decimal("0.1234567890123456789")])
    assert not decimal_room(attribute_type("decimal(18,18)"), [10**20])
    assert decimal_room(attribute_type("float"), [1.5, True])
