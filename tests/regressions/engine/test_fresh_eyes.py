"""Small inputs that once broke the matcher, each found by someone who had not written it."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import earmark
from earmark import EarmarkError, Matcher, SubscriptionError


def test_nanosecond_bounds_are_refused_not_truncated() -> None:
    bound = pa.array([1_577_836_800_000_000_001], pa.timestamp("ns"))
    with pytest.raises(SubscriptionError, match="nanoseconds"):
        Matcher().add_many(pa.table({"id": ["a"], "x_lo": bound, "x_hi": pa.nulls(1, pa.timestamp("ns"))}))
    whole = pa.array([1_577_836_800_000_000_000], pa.timestamp("ns"))
    m = Matcher()
    m.add_many(pa.table({"id": ["a"], "x_lo": whole, "x_hi": pa.nulls(1, pa.timestamp("ns"))}))
    assert m.match({"x": datetime(2020, 1, 1)}) == ["a"]


def test_the_length_limit_holds_for_known_shapes_too() -> None:
    m = Matcher()
    m.add("small", "x = 'b' AND y > 3")
    with pytest.raises(SubscriptionError, match="longer"):
        m.add("big", "x = '" + "a" * 1_100_000 + "' AND y > 3")


def test_a_changed_condition_in_an_arrow_table_is_refused() -> None:
    m = Matcher()
    m.add("a", "age > 10")
    frame = m.to_arrow()
    at = frame.column_names.index("condition")
    with pytest.raises(SubscriptionError, match="changed"):
        Matcher().add_many(frame.set_column(at, "condition", pa.array(["age > 100"])))


def test_polars_reads_the_arrow_table() -> None:
    pl = pytest.importorskip("polars")
    m = Matcher()
    m.add("a", "city = 'Rome'")
    assert pl.from_arrow(m.to_arrow()).height == 1


@pytest.mark.parametrize("event", [{"x": 1.5, "y": "text"}, {"x": 1.5, "z": "text"}])
def test_a_failing_event_changes_no_type(event: dict[str, object]) -> None:
    m = Matcher()
    m.add("a", "x > 3 AND y > 9007199254740993 AND z > 3")
    before = m.stats()
    with pytest.raises(EarmarkError):
        m.match(event)
    assert m.stats() == before
    assert m.match({"x": 4, "y": 9007199254740994, "z": 4}) == ["a"]


def test_a_failing_batch_of_bounds_changes_no_type() -> None:
    m = Matcher()
    m.add("a", "x > 3 AND y > 9007199254740993")
    before = m.stats()
    frame = pa.table({"id": ["b"], "x_lo": [0.5], "x_hi": [1.5], "y_lo": ["a"], "y_hi": ["b"]})
    with pytest.raises(EarmarkError):
        m.add_many(frame)
    assert m.stats() == before


@pytest.mark.parametrize(
    ("lo", "hi", "inside"),
    [
        (pa.array(np.array([1.5], np.float16)), pa.array(np.array([2.5], np.float16)), 2),
        (pa.array(["a"], pa.string_view()), pa.array(["c"], pa.string_view()), "b"),
        (pa.array(["a"]).dictionary_encode(), pa.array(["c"]).dictionary_encode(), "b"),
    ],
)
def test_bounds_of_unusual_types(lo: pa.Array, hi: pa.Array, inside: object) -> None:
    m = Matcher()
    m.add_many(pa.table({"id": [1], "x_lo": lo, "x_hi": hi}))
    assert m.match({"x": inside}) == [1]


def test_odd_arguments_get_a_sentence() -> None:
    m = Matcher()
    twice = pa.table(
        [pa.array(["a"]), pa.array(["x > 1"]), pa.array(["x > 2"])], names=["id", "condition", "condition"]
    )
    frame = pa.table({"id": ["a"], "x_lo": [1], "x_hi": [2]})
    for call in (
        lambda: m.add_many(twice),
        lambda: m.add_many(frame, bounds=["x"]),
        lambda: m.add_many(frame, bounds={"x": 5}),
        lambda: m.add_many([("a", "x > 1")], bounds={"x": ("x_lo", "x_hi")}),
        lambda: Matcher(index=[]),
        lambda: Matcher(attributes={"a": []}),
        lambda: m.match({}, scope=[]),
    ):
        with pytest.raises(EarmarkError):
            call()
    assert [] not in m
    assert len(m) == 0


def test_explain_shows_numpy_values_as_values() -> None:
    m = Matcher()
    m.add("a", "age > 10")
    assert "age = 3)" in str(m.explain("a", {"age": np.int64(3)}))


def test_a_decimal_for_a_float_says_what_would_be_right() -> None:
    m = Matcher(attributes={"price": "float"})
    m.add("a", "price > 5.5")
    with pytest.raises(earmark.EventError, match=r"decimal\(p, s\)"):
        m.match({"price": Decimal("9.99")})


def test_a_learned_number_takes_decimals() -> None:
    m = Matcher()
    m.add("a", "price > 5.5")
    assert m.match({"price": Decimal("9.99")}) == ["a"]
    assert m.match({"price": Decimal("5.5")}) == []
