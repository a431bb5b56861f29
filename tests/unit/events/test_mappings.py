"""Single events: every kind of value becomes the right key, or a sentence that names the event."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.errors import AttributeTypeError, EarmarkError, EventError
from earmark.events.mappings import Interval, Reject, encode_events, is_null, repeated
from earmark.keys.cuts import date_key, timestamp_key
from earmark.keys.numbers import constant_of, float_key, position_of
from earmark.keys.schema import INT64_MAX, INT64_MIN, PRESENT, WIDE_NUMBER, Draft, Schema, attribute_type

TYPES = {
    "i": "integer",
    "f": "float",
    "b": "boolean",
    "s": "string",
    "d": "date",
    "t": "timestamp",
    "m": "decimal(9,2)",
    "a.b": "integer",
    "a.c.e": "integer",
    "n": "number",
    "w": "number",
}
WIDE = 2**60  # a bound of the last


def schema(zone: str = "UTC", **types: str) -> Schema:
    made = Schema(zone)
    made.declare(types or TYPES)
    if not types:
        made.strings[3].insert([b"k", b"m"])
        made.put(replace(made.by_name["w"], type=WIDE_NUMBER))
        made.strings[10].insert([constant_of(position_of(end)) for end in (0.5, WIDE)])
    return made


def learned(name: str, type_: str | None) -> Schema:
    """A schema whose attribute got its type from a use, not from a declaration, or that has none."""
    draft = Draft(Schema())
    attribute = draft.get(name)
    if type_ is not None:
        draft.set_type(attribute, attribute_type(type_), "subscription 'x': n > 1")
    return draft.commit()


def key(name: str, value: Any, zone: str = "UTC") -> int:
    arrays = encode_events(schema(zone), [{name: value}])
    assert arrays.attr.tolist() == [list(TYPES).index(name)]
    assert arrays.lo.tolist() == arrays.hi.tolist()
    return int(arrays.lo[0])


HUGE = 1 << 20_000  # more digits than Python writes out
MOMENT = datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("i", 7, 7),
        ("i", INT64_MIN, INT64_MIN),
        ("i", INT64_MAX, INT64_MAX),
        ("i", 7.0, 7),
        ("i", -0.0, 0),
        ("i", -(2.0**63), INT64_MIN),
        ("i", Decimal("7.00"), 7),
        ("i", Decimal("9223372036854775807"), INT64_MAX),
        ("i", np.int8(-3), -3),
        ("i", np.uint64(2**63 - 1), INT64_MAX),
        ("i", np.float32(4), 4),
        ("f", 1.5, float_key(1.5)),
        ("f", 3, float_key(3.0)),
        ("f", math.nan, float_key(math.nan)),
        ("f", -0.0, 0),
        ("f", np.float32(0.1), float_key(float(np.float32(0.1)))),
        ("f", np.float16(0.5), float_key(0.5)),
        ("f", 2**53 + 1, float_key(2.0**53)),
        ("b", True, 1),
        ("b", np.bool_(False), 0),
        ("d", date(1970, 1, 2), 1),
        ("d", np.datetime64("1970-01-02"), 1),
        ("d", "1970-01-02", 1),
        ("t", MOMENT, timestamp_key(MOMENT, UTC)),
        ("t", MOMENT.replace(tzinfo=None), timestamp_key(MOMENT, UTC)),
        ("t", date(1970, 1, 2), 86_400_000_000),
        ("t", "1970-01-01 00:00:01", 1_000_000),
        ("t", np.datetime64("1970-01-01T00:00:01"), 1_000_000),
        ("t", np.datetime64("1970-01-01T00:00:00.000001000", "ns"), 1),
        ("t", np.datetime64("1970", "Y"), 0),
        ("t", np.datetime64("1970-01-02", "D"), 86_400_000_000),
        ("t", pd.Timestamp("1970-01-01 00:00:01"), 1_000_000),
        ("t", pd.Timestamp("1970-01-01 01:00:01+01:00"), 1_000_000),
        ("m", 12, 1200),
        ("m", Decimal("1.5"), 150),
        ("m", Decimal("1.500000"), 150),
        ("m", 0.1, 10),
        ("m", Decimal("-9999999.99"), -999_999_999),
        ("m", Decimal("0E-50"), 0),
        ("n", 7, float_key(7.0)),
        ("n", 7.5, float_key(7.5)),
        ("n", Decimal("7.5"), float_key(7.5)),
        ("n", Decimal("0.1"), float_key(0.1)),
        ("n", np.uint64(2**64 - 1), float_key(2.0**64)),
        ("n", np.float32(0.5), float_key(0.5)),
        ("n", -0.0, 0),
        ("n", HUGE, float_key(1.7976931348623157e308)),
        ("n", -HUGE, float_key(-1.7976931348623157e308)),
        ("n", Decimal("1E+1000000"), float_key(1.7976931348623157e308)),
        ("n", Decimal("1E-1000000"), 0),
        ("n", Decimal("-Infinity"), float_key(-math.inf)),
        ("n", Decimal("NaN"), float_key(math.nan)),
        ("n", math.nan, float_key(math.nan)),
    ],
    ids=lambda value: f"{value:.30}" if isinstance(value, str) else type(value).__name__,
)
def test_values_have_keys(name: str, value: Any, wanted: int) -> None:
    assert key(name, value) == wanted


@given(st.text(max_size=3))
def test_strings_take_a_key_beside_the_constants(value: str) -> None:
    strings = schema().strings[3]
    try:
        raw = value.encode()
    except UnicodeEncodeError:
        return
    assert key("s", value) == key("s", np.str_(value)) == strings.of_value(raw)


@pytest.mark.parametrize("value", [None, pd.NA, pd.NaT, np.datetime64("NaT"), np.datetime64("NaT", "ns")])
@pytest.mark.parametrize("name", TYPES)
def test_missing_markers_are_null(name: str, value: Any) -> None:
    assert is_null(value)
    arrays = encode_events(schema(), [{name: value}, {"i": 1}])
    assert arrays.start.tolist() == [0, 0, 1]


CLASHES = [
    ("i", True),
    ("i", "7"),
    ("i", 7.5),
    ("i", math.nan),
    ("i", math.inf),
    ("i", 2.0**63),
    ("i", Decimal("7.5")),
    ("i", Decimal("NaN")),
    ("i", Decimal("Infinity")),
    ("i", date(2024, 1, 1)),
    ("i", [1]),
    ("i", np.array([1, 2])),
    ("i", np.timedelta64(1, "s")),
    ("i", {"x": 1}),
    ("i", b"7"),
    ("f", True),
    ("f", "1.5"),
    ("f", Decimal("1.5")),
    ("f", 1j),
    ("b", 1),
    ("b", "true"),
    ("s", 5),
    ("s", b"x"),
    ("s", date(2024, 1, 1)),
    ("d", datetime(2024, 1, 1)),
    ("d", 19000),
    ("d", np.datetime64("2024-01-01T00:00")),
    ("d", pd.Timestamp("2024-01-01")),
    ("t", 5),
    ("t", time(12)),
    ("t", timedelta(1)),
    ("m", True),
    ("m", "1.5"),
    ("n", True),
    ("n", "7"),
    ("n", np.bool_(True)),
    ("n", 1j),
    ("n", date(2024, 1, 1)),
    ("n", [1]),
    ("n", {"x": 1}),
    ("w", True),
    ("w", "7"),
    ("w", {"x": 1}),
]


@pytest.mark.parametrize(("name", "value"), CLASHES, ids=[f"{n} {type(v).__name__} {v}" for n, v in CLASHES])
def test_values_of_another_type_clash(name: str, value: Any) -> None:
    with pytest.raises(AttributeTypeError, match=f"event 1: expected an? .* for '{name}' .declared., got "):
        encode_events(schema(), [{}, {name: value}])


UNFIT = [
    ("i", 2**63, "expected a 64-bit integer for 'i', got 9223372036854775808$"),
    ("i", HUGE, "expected a 64-bit integer for 'i', got an integer of"),
    ("i", Decimal("1E+1000000"), "expected a 64-bit integer for 'i', got Decimal"),
    ("f", 10**400, "expected a number in the range of a double for 'f', got an integer of 1,329 bits"),
    ("m", Decimal("1.005"), r"expected a decimal\(9,2\) for 'm', got .*1.005.*, which does not fit without rounding"),
    ("m", Decimal("1.00") + Decimal("1e-27"), "'m', got .*without rounding"),
    ("m", Decimal("0.1000000000000000000000000000000000001"), "'m', got .*without rounding"),
    ("m", Decimal("1E-1000000"), "'m', got .*without rounding"),
    ("m", Decimal("1E+1000000"), r"expected a decimal\(9,2\) for 'm', got "),
    ("m", 10**8, r"expected a decimal\(9,2\) for 'm', got 100000000$"),
    ("m", HUGE, r"expected a decimal\(9,2\) for 'm', got an integer of"),
    ("m", math.nan, r"expected a decimal\(9,2\) for 'm', got nan"),
    ("m", math.inf, r"expected a decimal\(9,2\) for 'm', got inf"),
    ("s", "\ud800", r"expected a string that UTF-8 can carry for 's', got a lone surrogate in '\\ud800'"),
    ("d", "2024-02-30", "expected a date such as '2024-02-29' for 'd', got '2024-02-30'"),
    ("t", "yesterday", "expected a timestamp such as '2024-02-29 12:30:00' or .* for 't', got 'yesterday'"),
    ("t", pd.Timestamp(1), "expected a moment that fits microseconds for 't', got 1970.*001"),
    ("t", np.datetime64(1, "ns"), "expected a moment that fits microseconds for 't', got 1970.*001"),
    ("t", np.datetime64(2**62, "s"), "expected a moment that fits microseconds for 't', got "),
    ("t", np.datetime64("20000-01-01T00:00"), "expected a moment of the years 1 to 9999 for 't', got 20000"),
    ("d", np.datetime64("20000-01-01"), "expected a moment of the years 1 to 9999 for 'd', got 20000"),
    ("i", Interval(5, 4), "'i' is empty: 5 is above 4"),
    ("s", Interval("lb", "la"), "'s' is empty"),
    ("f", Interval(math.nan, 1.0), "'f' is empty"),
    ("n", Interval(math.nan, 1.0), "'n' is empty"),
    ("n", Interval(2**53 + 1, 2**53), "'n' is empty"),
    ("n", Interval(2.0**53 + 2, 2**53 + 1), "'n' is empty"),
    ("n", Interval(2**1050 + 1, 2**1050), "'n' is empty"),
    ("w", Interval(3, 2.5), "'w' is empty"),
    ("w", Interval(Decimal("3.5"), 2), "'w' is empty"),
]


@pytest.mark.parametrize(("name", "value", "problem"), UNFIT, ids=range(len(UNFIT)))
def test_values_that_do_not_fit_are_told_with_their_event(name: str, value: Any, problem: str) -> None:
    with pytest.raises(EventError, match=f"^event 2: .*{problem}") as caught:
        encode_events(schema(), [{}, {}, {name: value}])
    assert (caught.value.event, caught.value.attribute) == (2, name)


def test_messages_stay_short() -> None:
    for value in ("x" * 100_000, [0] * 100_000):
        with pytest.raises(EventError) as caught:
            encode_events(schema(), [{"i": value}])
        assert len(str(caught.value)) < 400


# --- intervals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("i", Interval(3, 5), (3, 5)),
        ("i", Interval(None, 5), (INT64_MIN, 5)),
        ("i", Interval(3, None), (3, INT64_MAX)),
        ("i", Interval(pd.NA, None), (INT64_MIN, INT64_MAX)),
        ("b", Interval(False, True), (0, 1)),
        ("f", Interval(-0.0, 0.0), (0, 0)),
        ("f", Interval(None, math.nan), (-0x7FF0000000000000, 0x7FF0000000000001)),
        ("d", Interval(date(1970, 1, 1), None), (0, 2**31 - 1)),
    ],
)
def test_intervals(name: str, value: Interval, wanted: tuple[int, int]) -> None:
    arrays = encode_events(schema(), [{name: value}])
    assert (int(arrays.lo[0]), int(arrays.hi[0])) == wanted


def test_an_interval_of_strings_between_constants() -> None:
    strings = schema().strings[3]
    arrays = encode_events(schema(), [{"s": Interval("la", "lb")}, {"s": Interval("k", None)}])
    assert arrays.lo.tolist() == [strings.of_constant(b"k") + 1, strings.of_constant(b"k")]
    assert arrays.hi.tolist() == [strings.of_constant(b"k") + 1, INT64_MAX]


# --- what an event is ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", [5, None, "x", [("i", 1)], pd.Series({"i": 1})])
def test_an_event_is_a_mapping(event: Any) -> None:
    with pytest.raises(EventError, match=r"event 1: expected a mapping of attribute names to values, got a "):
        encode_events(schema(), [{}, event])


@pytest.mark.parametrize("kind", [dict, OrderedDict, MappingProxyType])
def test_any_mapping_will_do(kind: Any) -> None:
    arrays = encode_events(schema(), [kind({"s": "k", "i": 1, "unknown": 5, 7: 8})])
    assert arrays.attr.tolist() == [0, 3]


def test_nested_attributes_by_dotted_name() -> None:
    nested = {"a": {"b": 1, "c": {"e": 2, "x": 3}, "y": None}, "unknown": {"b": 1}}
    assert encode_events(schema(), [nested]).lo.tolist() == [1, 2]
    assert encode_events(schema(), [{"a.b": 1, "a": {"c.e": 2}}]).lo.tolist() == [1, 2]
    assert encode_events(schema(), [{"a": {"b": None}, "a.b": 1}]).lo.tolist() == [1]


def test_an_attribute_twice_is_an_error() -> None:
    with pytest.raises(EventError, match=r"event 0: attribute 'a\.b' is given twice"):
        encode_events(schema(), [{"a.b": 1, "a": {"b": 1}}])


def test_endless_nesting_is_an_error() -> None:
    event: dict[str, Any] = {}
    event["a"] = event
    with pytest.raises(EventError, match=r"event 0: .*nests deeper than 20 levels"):
        encode_events(schema(), [event])


def test_no_events_and_empty_events() -> None:
    assert encode_events(schema(), []).start.tolist() == [0]
    assert encode_events(schema(), [{}, {}]).start.tolist() == [0, 0, 0]
    assert encode_events(Schema(), [{"i": 1}]).attr.tolist() == []


def test_arrays_are_frozen_and_typed() -> None:
    for arrays in (encode_events(schema(), [{"i": Interval(1, 2)}], [{"i": 2.0}]), encode_events(schema(), [])):
        assert [a.dtype.str for a in arrays] == ["<i8", "<i4", "<i8", "<i8", "<f8"]
        assert not any(a.flags.writeable for a in arrays)


# --- learned types, and none -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        True,
        1,
        np.int16(1),
        1.0,
        math.nan,
        "x",
        "\ud800",
        date(2024, 1, 1),
        np.datetime64("20000-01-01"),
        pd.Timestamp(1),
        Interval(None, 5),
        Interval(5, 4),
        Decimal("1.5"),
        b"x",
        [1],
        np.array([1, 2]),
        timedelta(1),
        object(),
        {"x": 1},
        HUGE,
    ],
    ids=lambda value: type(value).__name__,
)
def test_without_a_type_any_value_is_present(value: Any) -> None:
    made = learned("n", None)
    arrays = encode_events(made, [{"n": value}, {"n": None}, {}])
    assert (arrays.start.tolist(), arrays.lo.tolist()) == ([0, 1, 1, 1], [PRESENT])
    assert made.by_name["n"].type is None


@pytest.mark.parametrize(
    "value", [7, 7.5, Decimal("7.5"), HUGE, math.inf, np.uint64(2**64 - 1), np.float16(0.5)], ids=range(7)
)
def test_a_learned_number_takes_every_kind_of_number(value: Any) -> None:
    made = learned("n", "number")
    arrays = encode_events(made, [{"n": value}])
    wanted = schema(n="number")
    assert arrays.lo.tolist() == encode_events(wanted, [{"n": value}]).lo.tolist()
    for other in (True, "7", b"7", date(2024, 1, 1)):
        with pytest.raises(AttributeTypeError, match="first used so by subscription 'x': n > 1"):
            encode_events(made, [{"n": other}])


@pytest.mark.parametrize("type_", ["date", "timestamp"])
def test_strings_are_cast_for_moments_declared_or_learned(type_: str) -> None:
    wanted = encode_events(schema(n=type_), [{"n": "2024-01-01"}])
    assert encode_events(learned("n", type_), [{"n": "2024-01-01"}]).lo.tolist() == wanted.lo.tolist()
    with pytest.raises(EventError, match=f"event 0: expected a {type_} such as .* for 'n', got 'yesterday'"):
        encode_events(learned("n", type_), [{"n": "yesterday"}])


def test_an_error_has_its_parts() -> None:
    with pytest.raises(EventError) as caught:
        encode_events(schema(), [{}, {"i": 1, "s": 5}])
    problem = caught.value
    assert (problem.event, problem.attribute) == (1, "s")
    assert str(problem) == f"event 1: {problem.reason}"


# --- events that are read in part ------------------------------------------------------------------------------------


def test_rejects_say_what_could_not_be_read() -> None:
    rejects: list[Reject] = []
    events: list[Any] = [
        {"i": 1, "s": 5},
        {"i": 2},
        7,
        {"i": "x", "a": {"b": 1.5, "c": {"e": 3}}},
        {"a.b": 1, "a": {"b": 2}},
    ]
    arrays = encode_events(schema(), events, None, rejects)
    assert arrays.start.tolist() == [0, 1, 2, 2, 3, 3]
    assert arrays.lo.tolist() == [1, 2, 3]
    assert [(one.event, one.attribute) for one in rejects] == [(0, "s"), (2, None), (3, "i"), (3, "a.b"), (4, None)]
    for one in rejects:
        with pytest.raises(EventError) as caught:
            encode_events(schema(), [events[one.event]])
        if one.attribute != "a.b":
            assert caught.value.reason == one.reason


@pytest.mark.parametrize("name", ["f", "n", "w", "i"])
def test_nan_may_be_null(name: str) -> None:
    made = schema()
    made.nan_is_null = True
    for value in (math.nan, np.float32("nan"), Decimal("NaN")):
        assert encode_events(made, [{name: value}]).attr.tolist() == []
    arrays = encode_events(learned("x", None), [{"x": math.nan}])
    assert arrays.attr.tolist() == [0]


# --- zones -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("local", "instant"),
    [
        ("2024-03-31T01:59:59.999999", "2024-03-31T00:59:59.999999"),
        ("2024-03-31T02:00:00", "2024-03-31T01:00:00"),  # the gap: 02:30 is 03:30 summer time
        ("2024-03-31T02:30:00", "2024-03-31T01:30:00"),
        ("2024-03-31T03:00:00", "2024-03-31T01:00:00"),
        ("2024-10-27T02:30:00", "2024-10-27T00:30:00"),  # twice: the earlier
        ("2024-10-27T03:00:00", "2024-10-27T02:00:00"),
        ("1890-01-01T00:00:00", "1889-12-31T23:50:39"),  # local mean time
    ],
)
def test_naive_moments_follow_java_time(local: str, instant: str) -> None:
    wanted = timestamp_key(datetime.fromisoformat(instant), UTC)
    naive = datetime.fromisoformat(local)
    for value in (naive, local, pd.Timestamp(local), np.datetime64(local)):
        assert key("t", value, "Europe/Paris") == wanted
    assert key("t", naive.replace(tzinfo=UTC), "Europe/Paris") == timestamp_key(naive, UTC)


def test_a_date_is_its_midnight_in_the_zone() -> None:
    assert key("t", date(2024, 7, 1), "Europe/Paris") == timestamp_key(datetime(2024, 6, 30, 22), UTC)
    assert key("d", date(2024, 7, 1), "Europe/Paris") == date_key(date(2024, 7, 1))


# --- weights ---------------------------------------------------------------------------------------------------------


def test_weights_follow_their_attributes() -> None:
    events = [{"s": "k", "i": 1}, {"f": 1.0}, {"i": 2, "a": {"b": 1}}]
    arrays = encode_events(schema(), events, [{"i": 2.5, "unused": 9}, None, {"a.b": 0.0}])
    assert arrays.weight.tolist() == [2.5, 1.0, 1.0, 1.0, 0.0]
    assert encode_events(schema(), events, [None, {}, None]).weight.tolist() == []


@pytest.mark.parametrize("weight", [-1, math.nan, math.inf, "1", None, True])
def test_bad_weights_name_their_event(weight: Any) -> None:
    with pytest.raises(EventError, match="event 1: the weight of 'i'"):
        encode_events(schema(), [{"i": 1}, {"i": 1}], [None, {"i": weight}])


def test_weights_for_all_or_for_each() -> None:
    assert repeated(None, 3) is None
    assert repeated({}, 3) is None
    assert repeated({"i": 2}, 2) == [{"i": 2}, {"i": 2}]
    assert repeated(iter([{"i": 2}, None]), 2) == [{"i": 2}, None]
    with pytest.raises(EventError, match="expected a mapping of weights for each of 3 events, got 1"):
        repeated([{}], 3)


@given(
    st.dictionaries(
        st.sampled_from([*TYPES, "a", "zz"]),
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(),
            st.floats(),
            st.text(max_size=5),
            st.decimals(),
            st.dates(),
            st.datetimes(),
            st.binary(max_size=3),
            st.lists(st.integers(), max_size=2),
            st.dictionaries(st.sampled_from("bcx"), st.integers(), max_size=2),
            st.builds(Interval, st.integers() | st.none(), st.integers() | st.floats() | st.none()),
            st.integers(-(2**62), 2**62).map(lambda n: np.datetime64(n, "ms")),
            st.integers(-(2**62), 2**62).map(lambda n: np.datetime64(n, "D")),
        ),
    )
)
def test_any_value_gives_keys_or_one_of_our_errors(event: dict[str, Any]) -> None:
    try:
        arrays = encode_events(schema("Europe/Paris"), [event])
    except EarmarkError:
        return
    assert (arrays.lo <= arrays.hi).all()
    assert (np.diff(arrays.attr) > 0).all()
