"""Whole frames of events: the same keys as one mapping at a time, for every library and every layout of a column."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from earmark.errors import AttributeTypeError, EarmarkError, EventError
from earmark.events.arrays import EventArrays
from earmark.events.frames import as_arrow, encode_frame, is_frame
from earmark.events.mappings import Interval, encode_events
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
    "n.x": "integer",
    "n.o.y": "string",
    "u": "number",
    "w": "number",
}
ARROW = {
    "i": pa.int64(),
    "f": pa.float64(),
    "b": pa.bool_(),
    "s": pa.string(),
    "d": pa.date32(),
    "t": pa.timestamp("us"),
    "m": pa.decimal128(9, 2),
    "u": pa.float64(),
    "w": pa.int64(),
}
BOUNDS = (-(2.0**70), INT64_MIN, -(2**53) - 1, -2.5, 0, 0.1, 0.5, 1, 2**53, 2**53 + 1, INT64_MAX, 2**64 - 1, 1e300)
ZONES = ("UTC", "Europe/Paris", "+05:30", "America/Toronto")


def schema(zone: str = "UTC", types: dict[str, str] | None = None) -> Schema:
    made = Schema(zone)
    made.declare(types or TYPES)
    for strings in made.strings.values():
        strings.insert([b"b", b"k", "é".encode(), "😀".encode()])
    if types is None:
        wide = made.by_name["w"]
        made.put(replace(wide, type=WIDE_NUMBER))
        made.strings[wide.number].insert([constant_of(position_of(end)) for end in BOUNDS])
    return made


def undeclared(name: str, type_: str | None) -> Schema:
    """A schema that has met the attribute, and maybe learned its type."""
    draft = Draft(Schema())
    attribute = draft.get(name)
    if type_ is not None:
        draft.set_type(attribute, attribute_type(type_), "subscription 'x'")
    return draft.commit()


def same(a: EventArrays, b: EventArrays) -> None:
    for name, left, right in zip(EventArrays._fields, a, b, strict=True):
        assert left.dtype == right.dtype, name
        assert left.tolist() == right.tolist(), name
        assert not left.flags.writeable
        assert left.flags.c_contiguous


def one(name: str, column: Any, zone: str = "UTC") -> EventArrays:
    return encode_frame(schema(zone), pa.table({name: column}))


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(INT64_MIN, INT64_MAX),
    "f": st.floats(),
    "b": st.booleans(),
    "s": st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.sampled_from(["b", "k", "é", "😀"]),
    "d": st.dates(),
    "t": st.datetimes(datetime(1680, 1, 1), datetime(2260, 1, 1)),  # what pandas' nanoseconds reach
    "m": st.integers(-999_999_999, 999_999_999).map(lambda n: Decimal(n).scaleb(-2)),
    "u": st.floats(),
    "w": st.integers(INT64_MIN, INT64_MAX) | st.sampled_from([b for b in BOUNDS if isinstance(b, int) and b < 2**63]),
}
rows_of = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()}), min_size=1, max_size=8
)


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.table({name: pa.array([row[name] for row in rows], type_) for name, type_ in ARROW.items()})


# --- all libraries agree ---------------------------------------------------------------------------------------------


@given(rows_of, st.sampled_from(ZONES))
def test_arrow_equals_single_events(rows: list[dict[str, Any]], zone: str) -> None:
    made, table = schema(zone), table_of(rows)
    wanted = encode_events(made, rows)
    same(encode_frame(made, table), wanted)
    batch = table.to_batches()[0]
    same(encode_frame(made, as_arrow(batch)), wanted)
    same(encode_frame(made, as_arrow(pa.RecordBatchReader.from_batches(batch.schema, [batch]))), wanted)


@given(rows_of, st.sampled_from(ZONES))
def test_polars_equals_single_events(rows: list[dict[str, Any]], zone: str) -> None:
    made, frame = schema(zone), pl.from_arrow(table_of(rows))
    assert isinstance(frame, pl.DataFrame)
    wanted = encode_events(made, rows)
    same(encode_frame(made, as_arrow(frame)), wanted)
    same(encode_frame(made, as_arrow(frame.lazy())), wanted)
    same(encode_frame(made, as_arrow(frame.with_columns(pl.col("s").cast(pl.Categorical)))), wanted)


@given(rows_of, st.sampled_from(ZONES))
def test_pandas_equals_single_events_but_for_nan(rows: list[dict[str, Any]], zone: str) -> None:
    made = schema(zone)
    wanted = encode_events(made, [{k: None if v != v else v for k, v in row.items()} for row in rows])
    objects = pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=object) for name in ARROW})
    same(encode_frame(made, as_arrow(objects)), wanted)
    typed = objects.astype(
        {
            "i": "Int64",
            "f": "float64",
            "b": "boolean",
            "s": "string",
            "t": "datetime64[us]",
            "u": "float64",
            "w": "Int64",
        }
    )
    same(encode_frame(made, as_arrow(typed)), wanted)
    same(encode_frame(made, as_arrow(typed.astype({"s": "category", "t": "datetime64[ns]"}))), wanted)


def test_pandas_nan_is_null_and_elsewhere_it_is_a_number() -> None:
    nan = [1.0, math.nan]
    assert encode_frame(schema(), as_arrow(pd.DataFrame({"f": nan}))).start.tolist() == [0, 1, 1]
    for frame in (pl.DataFrame({"f": nan}), pa.table({"f": nan})):
        assert encode_frame(schema(), as_arrow(frame)).lo.tolist() == [float_key(1.0), float_key(math.nan)]


def test_pandas_markers_are_null() -> None:
    frame = pd.DataFrame({"i": [pd.NA, 5], "t": [pd.NaT, pd.Timestamp("1970-01-01")], "s": [None, "k"]})
    assert encode_frame(schema(), as_arrow(frame)).start.tolist() == [0, 0, 3]


def test_pandas_integers_with_holes_become_floats_and_still_fit() -> None:
    frame = pd.DataFrame({"i": [1.0, math.nan, -3.0]})
    assert encode_frame(schema(), as_arrow(frame)).lo.tolist() == [1, -3]


# --- layouts ---------------------------------------------------------------------------------------------------------

TEXTS = ["k", None, "ka", "", "b", "k"]
LAYOUTS: dict[str, Callable[[pa.Array], Any]] = {
    "large": lambda a: a.cast(pa.large_string()),
    "view": lambda a: a.cast(pa.string_view()),
    "dictionary": lambda a: a.dictionary_encode(),
    "large dictionary": lambda a: a.cast(pa.large_string()).dictionary_encode(),
    "null in the dictionary": lambda a: pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 3, 4, 0], pa.int8()), pa.array(["k", None, "ka", "", "b"])
    ),
    "unused in the dictionary": lambda a: pa.DictionaryArray.from_arrays(
        pa.array([1, None, 2, 3, 4, 1], pa.uint16()), pa.array(["zz", "k", "ka", "", "b"])
    ),
    "chunked": lambda a: pa.chunked_array([a[:2], a[2:2], a[2:]]),
    "chunked dictionaries": lambda a: pa.chunked_array([a[:3].dictionary_encode(), a[3:].dictionary_encode()]),
    "chunked views": lambda a: pa.chunked_array([a[:3].cast(pa.string_view()), a[3:].cast(pa.string_view())]),
    "sliced": lambda a: pa.concat_arrays([pa.array(["x", None]), a, pa.array(["y"])])[2:-1],
    "run-end encoded": lambda a: pc.run_end_encode(a),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_of_texts_does_not_matter(layout: str) -> None:
    wanted = encode_events(schema(), [{"s": text} for text in TEXTS])
    same(one("s", LAYOUTS[layout](pa.array(TEXTS))), wanted)


@pytest.mark.parametrize("name", ARROW)
@pytest.mark.parametrize("layout", ["sliced", "chunked", "dictionary"])
@given(data=st.data())
@settings(max_examples=15)
def test_the_layout_of_values_does_not_matter(name: str, layout: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[name], min_size=3, max_size=9))
    column = pa.array(values, ARROW[name])
    made: Any = column[1:-1]
    if layout == "chunked":
        made = pa.chunked_array([column[1:2], column[2:2], column[2:-1]], ARROW[name])
    elif layout == "dictionary":
        made = made.dictionary_encode()
    same(one(name, made), encode_events(schema(), [{name: value} for value in values[1:-1]]))


@pytest.mark.parametrize("name", ARROW)
def test_empty_and_all_null_columns(name: str) -> None:
    assert one(name, pa.array([], ARROW[name])).start.tolist() == [0]
    assert one(name, pa.chunked_array([], ARROW[name])).start.tolist() == [0]
    for type_ in (ARROW[name], pa.null(), pa.list_(pa.int8()), pa.dictionary(pa.int8(), pa.string())):
        assert one(name, pa.nulls(2, type_)).start.tolist() == [0, 0, 0]


def test_no_columns_of_ours() -> None:
    table = pa.table({"other": [1, 2], "odd": [[1], [2]], "deep": [{"x": 1}, {"x": 2}]})
    assert encode_frame(schema(), table).start.tolist() == [0, 0, 0]
    assert encode_frame(Schema(), table).attr.tolist() == []


INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]


@pytest.mark.parametrize("type_", [*INTEGERS, *FLOATS, pa.decimal128(20, 3), pa.decimal256(40, 0)], ids=str)
@pytest.mark.parametrize("name", ["i", "m", "f", "u", "w"])
def test_every_width_of_whole_numbers(name: str, type_: pa.DataType) -> None:
    values = [np.float16(v) if pa.types.is_float16(type_) and v is not None else v for v in (1, None, 100)]
    column = pa.array([None if v is None else Decimal(v) for v in values], type_) if "dec" in str(type_) else None
    if name == "f" and column is not None:
        with pytest.raises(AttributeTypeError, match=r"event 0: expected a float for 'f' \(declared\), got"):
            one(name, column)
        return
    doubles = [float_key(1.0), float_key(100.0)]
    wide = encode_events(schema(), [{"w": 1}, {"w": 100}]).lo.tolist()
    keys = {"i": [1, 100], "m": [100, 10_000], "f": doubles, "u": doubles, "w": wide}[name]
    assert one(name, pa.array(values, type_) if column is None else column).lo.tolist() == keys


def test_wide_integers_at_their_ends() -> None:
    assert one("i", pa.array([INT64_MIN, INT64_MAX])).lo.tolist() == [INT64_MIN, INT64_MAX]
    assert one("i", pa.array([2**63 - 1], pa.uint64())).lo.tolist() == [INT64_MAX]
    assert one("i", pa.array([-(2.0**63)])).lo.tolist() == [INT64_MIN]
    assert one("f", pa.array([2**64 - 1], pa.uint64())).lo.tolist() == [float_key(2.0**64)]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("tz", [None, "UTC", "Asia/Tokyo"])
@pytest.mark.parametrize("zone", ZONES)
def test_units_and_zones_of_timestamps(unit: str, tz: str | None, zone: str) -> None:
    moment = datetime(2024, 7, 1, 12, 30, 15, tzinfo=UTC if tz else None)
    column = pa.array([moment, None], pa.timestamp(unit, tz))
    same(one("t", column, zone), encode_events(schema(zone), [{"t": moment}, {}]))


def test_date64_and_dates_for_timestamps() -> None:
    days = [date(1969, 12, 31), None, date(2024, 2, 29)]
    for type_ in (pa.date32(), pa.date64()):
        for name in ("d", "t"):
            wanted = encode_events(schema("Europe/Paris"), [{name: day} for day in days])
            same(one(name, pa.array(days, type_), "Europe/Paris"), wanted)


def test_texts_for_declared_moments() -> None:
    column = pa.array(["2024-02-29", None, "2024-03-01"])
    same(one("d", column), encode_events(schema(), [{"d": text} for text in column.to_pylist()]))
    same(one("t", column), encode_events(schema(), [{"t": text} for text in column.to_pylist()]))


@given(st.lists(st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)), max_size=30), st.sampled_from(ZONES))
def test_naive_columns_equal_naive_values(moments: list[datetime], zone: str) -> None:
    gap, overlap = datetime(2024, 3, 31, 1, 55), datetime(2024, 10, 27, 1, 55)
    moments += [start + timedelta(minutes=5 * i) for start in (gap, overlap) for i in range(16)]
    moments += [datetime(1919, 3, 30, 23, 25) + timedelta(minutes=5 * i) for i in range(16)]
    wanted = encode_events(schema(zone), [{"t": moment} for moment in moments])
    same(one("t", pa.array(moments, pa.timestamp("us")), zone), wanted)


# --- intervals and nesting -------------------------------------------------------------------------------------------


def intervals(type_: pa.DataType, pairs: list[tuple[Any, Any] | None], fields: str = "lo hi") -> pa.Array:
    first, second = fields.split()
    given = [None if p is None else dict(zip(("lo", "hi"), p, strict=True)) for p in pairs]
    return pa.array(given, pa.struct({first: type_, second: type_}))


@pytest.mark.parametrize("fields", ["lo hi", "hi lo"])
@pytest.mark.parametrize("name", ARROW)
@given(data=st.data())
@settings(max_examples=15)
def test_intervals_equal_single_events(name: str, fields: str, data: st.DataObject) -> None:
    ends = st.tuples(st.none() | VALUES[name], st.none() | VALUES[name])
    pairs = data.draw(st.lists(st.none() | ends, max_size=6))
    column = intervals(ARROW[name], pairs, fields)
    events = [{name: None if pair is None else Interval(*pair)} for pair in pairs]
    try:
        wanted = encode_events(schema(), events)
    except EventError as problem:
        with pytest.raises(type(problem), match=str(problem).partition(": ")[0]):
            one(name, column)
    else:
        same(one(name, column), wanted)


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.string_view()])
def test_reversed_texts_between_two_constants(type_: pa.DataType) -> None:
    with pytest.raises(EventError, match="event 1: the interval of 's' is empty: 'd' is above 'c'"):
        one("s", intervals(type_, [("c", "d"), ("d", "c")]))


def test_a_null_struct_hides_its_fields() -> None:
    column = pa.StructArray.from_arrays(
        [pa.array([9, 1]), pa.array([1, 2])], ["lo", "hi"], mask=pa.array([True, False])
    )
    arrays = one("i", column)
    assert (arrays.start.tolist(), arrays.lo.tolist(), arrays.hi.tolist()) == ([0, 0, 1], [1], [2])


def test_nested_structs_by_dotted_name() -> None:
    rows = [{"n": {"x": 1, "o": {"y": "k", "z": 1}}}, {"n": None}, {"n": {"x": None, "o": {"y": "b", "z": 2}}}]
    table = pa.table({"n": pa.array([row["n"] for row in rows]), "unknown": pa.array([{"q": 1}] * 3)})
    same(encode_frame(schema(), table), encode_events(schema(), rows))
    same(encode_frame(schema(), table.slice(1)), encode_events(schema(), rows[1:]))
    flat = pa.table({"n.x": [1, None, None], "n.o.y": ["k", None, "b"]})
    same(encode_frame(schema(), flat), encode_events(schema(), rows))


def test_an_attribute_twice() -> None:
    with pytest.raises(EventError, match=r"two columns for attribute 'n\.x'"):
        encode_frame(schema(), pa.table({"n": [{"x": 1}], "n.x": [1]}))
    with pytest.raises(EventError, match="two columns for attribute 'i'"):
        encode_frame(schema(), pa.table([[1], [2]], names=["i", "i"]))


def test_structs_nested_too_deep() -> None:
    name = ".".join("a" * 25)
    column = pa.array([1])
    for _ in range(24):
        column = pa.StructArray.from_arrays([column], ["a"])
    with pytest.raises(EventError, match="nests deeper than 20 levels"):
        encode_frame(schema(types={name: "integer"}), pa.table({"a": column}))


# --- what does not fit -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("i", pa.array([None, True])),
        ("i", pa.array([None, "1"])),
        ("i", pa.array([None, b"1"])),
        ("i", pa.array([None, 1.5])),
        ("i", pa.array([None, math.nan])),
        ("i", pa.array([None, 2.0**63])),
        ("i", pa.array([None, Decimal("1.5")])),
        ("i", pa.array([None, [1]])),
        ("i", pa.array([None, [("k", 1)]], pa.map_(pa.string(), pa.int64()))),
        ("i", pa.array([None, timedelta(1)])),
        ("i", pa.array([None, time(1)])),
        ("i", pa.array([None, datetime(2024, 1, 1)])),
        ("i", pa.array([None, 1], pa.timestamp("ns"))),
        ("i", pa.array([None, date(2024, 1, 1)])),
        ("i", pa.array([None, (1, 2, 3)], pa.month_day_nano_interval())),
        ("i", pa.array([None, np.float16(0.5)])),
        ("f", pa.array([None, True])),
        ("f", pa.array([None, "1"])),
        ("b", pa.array([None, 1])),
        ("b", pa.array([None, 0.0])),
        ("s", pa.array([None, 1])),
        ("s", pa.array([None, np.float16(1)])),
        ("s", pa.array([None, b"x"])),
        ("s", pa.array([None, ["x"]])),
        ("d", pa.array([None, datetime(2024, 1, 1)])),
        ("d", pa.array([None, 1_000_000_001], pa.timestamp("ns"))),
        ("d", pa.array([None, 1])),
        ("t", pa.array([None, 1])),
        ("t", pa.array([None, timedelta(1)])),
        ("m", pa.array([None, True])),
        ("m", pa.array([None, "1.5"])),
        ("u", pa.array([None, True])),
        ("u", pa.array([None, "1.5"])),
        ("u", pa.array([None, [1]])),
        ("w", pa.array([None, True])),
        ("w", pa.array([None, date(2024, 1, 1)])),
    ],
    ids=str,
)
def test_columns_of_another_type_name_the_row(name: str, column: pa.Array) -> None:
    with pytest.raises(
        EventError,
        match=f"event 1: expected an? .* for '{name}' .declared., got |event 1: a value for '{name}' cannot be read",
    ):
        one(name, column)


@pytest.mark.parametrize(
    ("name", "column", "problem"),
    [
        ("i", pa.array([1, 2**63], pa.uint64()), "a 64-bit integer for 'i', got 9223372036854775808"),
        ("i", pa.array([Decimal(1), Decimal(2**70)]), "a 64-bit integer for 'i', got .*1180591620717411303424"),
        (
            "t",
            pa.array([1000, 1001], pa.timestamp("ns")),
            "a moment that fits microseconds for 't', got 1970-01-01T00:00:00.000001001",
        ),
        ("t", pa.array([0, 2**62], pa.timestamp("s")), "a moment that fits microseconds for 't', got "),
        ("t", pa.array([0, -(2**62)], pa.timestamp("ms", "UTC")), "a moment that fits microseconds for 't', got "),
        ("m", pa.array([Decimal("1.00"), Decimal("1.005")]), "a decimal.9,2. for 'm', got .*1.005.*without rounding"),
        ("m", pa.array([Decimal("1"), Decimal("10000000")]), "a decimal.9,2. for 'm', got "),
        ("m", pa.array([1, 10_000_000]), "a decimal.9,2. for 'm', got "),
        ("m", pa.array([1, INT64_MAX]), "a decimal.9,2. for 'm', got "),
        ("m", pa.array([1, INT64_MIN]), "a decimal.9,2. for 'm', got "),
        ("m", pa.array([1, 2**64 - 1], pa.uint64()), "a decimal.9,2. for 'm', got "),
        ("m", pa.array([0.5, math.nan]), "a decimal.9,2. for 'm', got nan"),
        ("d", pa.array(["2024-01-01", "2024-13-01"]), "a date such as '2024-02-29' for 'd', got '2024-13-01'"),
    ],
    ids=str,
)
def test_values_that_do_not_fit_name_the_row(name: str, column: pa.Array, problem: str) -> None:
    with pytest.raises(EventError, match=f"event 1: expected {problem}"):
        one(name, column)


def test_years_without_a_zone_name_the_row() -> None:
    column = pa.array([0, 10**18], pa.timestamp("us"))
    assert one("t", column).lo.tolist() == [0, 10**18]
    with pytest.raises(EventError, match="event 1: expected a moment of the years 1 to 9999 for 't', got "):
        one("t", column, "Europe/Paris")


def test_texts_that_are_not_utf8_name_the_row() -> None:
    raw = pa.array([b"k", b"\xed\xa0\x80"])
    broken = pa.StringArray.from_buffers(2, *raw.buffers()[1:])
    with pytest.raises(EventError, match="event 1: a value for 's' cannot be read: "):
        one("s", broken)


def test_a_bad_value_that_no_row_uses_is_no_problem() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["2024-01-01", "rubbish"]))
    assert len(one("d", column).lo) == 2


def test_a_struct_that_is_no_interval() -> None:
    with pytest.raises(EventError, match="expected fields lo and hi in the struct column 'i', got lo, high"):
        one("i", pa.array([{"lo": 1, "high": 2}]))


@pytest.mark.parametrize("data", [5, "x", pa.array([1]), pd.Series([1]), pl.Series([1]), pa.scalar(1)])
def test_what_is_no_frame(data: Any) -> None:
    with pytest.raises(EventError, match="frame"):
        as_arrow(data)


def test_which_things_are_frames() -> None:
    assert all(map(is_frame, (pa.table({}), pd.DataFrame(), pl.DataFrame(), pl.LazyFrame())))
    assert not any(map(is_frame, ([], {}, "x", np.zeros(3))))


def test_a_pandas_frame_that_arrow_refuses() -> None:
    with pytest.raises(EventError, match="the pandas frame cannot become an Arrow table"):
        as_arrow(pd.DataFrame({"i": [1, "x", [2]]}))


# --- learned types, and none -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None], pa.uint8()),
        pa.array([math.nan, None]),
        pa.array([True, None]),
        pa.array(["x", None], pa.string_view()),
        pa.array(["x", None]).dictionary_encode(),
        pa.array([datetime(2024, 1, 1), None]),
        pa.array([1001, None], pa.timestamp("ns")),
        pa.array([Decimal(1), None]),
        pa.array([[1], None]),
        pa.array([timedelta(1), None]),
        pa.array([{"lo": 1, "hi": None}, None]),
        pa.array([{"x": 1}, None]),
        pa.array([b"x", None]),
        pc.run_end_encode(pa.array([1, None])),
    ],
    ids=lambda column: str(column.type),
)
def test_without_a_type_any_column_is_present_or_null(column: pa.Array) -> None:
    arrays = encode_frame(undeclared("n", None), pa.table({"n": column}))
    assert (arrays.start.tolist(), arrays.lo.tolist()) == ([0, 1, 1], [PRESENT])


NUMBERS = [
    *((type_, st.integers(0 if "u" in str(type_) else -128, 127)) for type_ in INTEGERS),
    (pa.int64(), st.integers(INT64_MIN, INT64_MAX)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.decimal128(38, 3), st.decimals(-(10**30), 10**30, places=3)),
    (pa.decimal256(70, 10), st.decimals(-(10**30), 10**30, places=10)),
]


@pytest.mark.parametrize(("type_", "values"), NUMBERS, ids=[str(type_) for type_, _ in NUMBERS])
@pytest.mark.parametrize("name", ["u", "w"])
@given(data=st.data())
@settings(max_examples=25)
def test_columns_of_numbers_equal_single_events(
    name: str, type_: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    column = pa.array(data.draw(st.lists(st.none() | values, max_size=9)), type_)
    same(one(name, column), encode_events(schema(), [{name: value} for value in column.to_pylist()]))


def test_the_ends_of_wide_numbers() -> None:
    for type_ in (pa.int64(), pa.uint64(), pa.float64(), pa.decimal128(38, 1)):
        fit = [b for b in BOUNDS for b in (b, -b) if _fits(b, type_)]
        of = Decimal if pa.types.is_decimal(type_) else float if pa.types.is_floating(type_) else int
        column = pa.array([of(b) for b in fit], type_)
        same(one("w", column), encode_events(schema(), [{"w": value} for value in fit]))


def _fits(value: float, type_: pa.DataType) -> bool:
    if pa.types.is_floating(type_):
        return float(value) == value
    if value != int(value):
        return False
    low, high = {"int64": (INT64_MIN, INT64_MAX), "uint64": (0, 2**64 - 1)}.get(str(type_), (-(10**37), 10**37))
    return low <= value <= high


# --- weights ---------------------------------------------------------------------------------------------------------


def test_weights_of_rows() -> None:
    table = pa.table({"f": [1.0, 2.0], "i": [None, 5]})
    weights = [{"f": 0.5, "zz": 3.0}, {"i": 2.0}]
    rows = table.to_pylist()
    same(encode_frame(schema(), table, weights), encode_events(schema(), rows, weights))


@pytest.mark.parametrize("seed", range(4))
def test_blocks_of_rows_join_up(seed: int) -> None:
    """More rows than one block of the interleaving, with and without NULLs."""
    random = np.random.default_rng(seed)
    count = 5000
    table = pa.table({"i": random.integers(-9, 9, count), "f": random.random(count), "b": random.random(count) < 0.5})
    if seed % 2:
        table = table.set_column(1, "f", pa.array(table["f"].to_numpy(), mask=random.random(count) < 0.3))
    same(encode_frame(schema(), table), encode_events(schema(), table.to_pylist()))


@given(
    st.sampled_from(list(TYPES)),
    st.one_of(
        st.lists(st.integers(-(2**65), 2**65)),
        st.lists(st.integers(INT64_MIN, INT64_MAX)).map(lambda v: pa.array(v, pa.timestamp("us"))),
        st.lists(st.integers(INT64_MIN, INT64_MAX)).map(lambda v: pa.array(v, pa.timestamp("s"))),
        st.lists(st.integers(-(2**31), 2**31 - 1)).map(lambda v: pa.array(v, pa.date32())),
        st.lists(st.integers(INT64_MIN, INT64_MAX)).map(lambda v: pa.array(v, pa.date64())),
        st.lists(st.floats()),
        st.lists(st.binary()),
        st.lists(st.lists(st.booleans())),
    ),
)
def test_any_column_gives_keys_or_one_of_our_errors(name: str, column: Any) -> None:
    try:
        column = pa.array(column) if isinstance(column, list) else column
    except (pa.ArrowException, OverflowError):
        return
    with suppress(EarmarkError):
        encode_frame(schema("Europe/Paris"), pa.table({name: column}))


@pytest.mark.parametrize(
    "type_", [pa.int8(), pa.uint16(), pa.int32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()], ids=str
)
@pytest.mark.parametrize("name", ["i", "f", "u", "w"])
def test_numbers_between_nulls_keep_their_rows_when_a_column_is_sliced(name: str, type_: pa.DataType) -> None:
    values = [None, 1, None, 2, 3, None, 4, 5, 6, None, 7]
    if pa.types.is_floating(type_):
        values = [None if value is None else float(value) for value in values]
    for first in range(len(values)):
        column = pa.array(np.array([0 if v is None else v for v in values], type_.to_pandas_dtype()))
        column = pc.if_else(pa.array([v is not None for v in values]), column, None)
        rows = [{} if v is None else {name: v} for v in values[first:]]
        same(encode_frame(schema(), pa.table({name: column}).slice(first)), encode_events(schema(), rows))
