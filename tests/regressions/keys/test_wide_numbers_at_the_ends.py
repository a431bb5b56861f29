"""NaN and −Infinity as bounds of an attribute with bounds beyond 2^53, and what verdicts say of such attributes."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from earmark import EventError, Interval, Matcher
from earmark.cover import subsumed

BIG = 2**60
NAN, LEAST = "CAST('NaN' AS DOUBLE)", "CAST('-Infinity' AS DOUBLE)"
nan, inf = float("nan"), float("inf")


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
@pytest.mark.parametrize("operator", ["=", "<", "<=", ">", ">=", "!="])
@pytest.mark.parametrize(("literal", "value"), [(NAN, nan), (LEAST, -inf)])
def test_bounds(literal: str, value: float, operator: str, order: tuple[int, int], tmp_path: Path) -> None:
    conditions = {1: f"a {operator} {literal}", 2: f"a = {BIG}"}
    m, plain = Matcher("scan"), Matcher("scan")
    for one in order:
        m.add(one, conditions[one])
    plain.add(1, conditions[1])
    m.save(tmp_path / "book")
    imported = Matcher("scan")
    imported.add(9, f"a = {BIG + 1}")
    imported.add_many(plain.to_arrow())
    loaded = Matcher.load(tmp_path / "book")
    for event in (value, -inf, inf, nan, 0, BIG - 1):
        right = plain.match({"a": event})
        assert [i for i in m.match({"a": event}) if i == 1] == loaded.match({"a": event}) == right, event
        assert imported.match({"a": event}) == right, event
    m.check()


def test_verdicts() -> None:
    m = Matcher("scan")
    m.add(1, "a < 5")
    m.add(2, f"b < {BIG}")
    witness = subsumed(m, 1).witness
    assert witness is not None and m.match(witness) == [1]
    m.add(3, f"b >= {BIG}")
    m.add(4, "b IS NULL")
    assert subsumed(m, 1).verdict.value == "subsumed"
    m = Matcher("scan")
    m.add(1, "(b IS NULL OR b IS NOT NULL) AND a > 1")
    m.add(2, f"b > {BIG}")
    m.add(3, "a > 5")
    assert m.covered_by(3) == [1]


def test_decimal_bounds_that_round_to_the_edge() -> None:
    type_ = pa.decimal128(30, 5)
    upper = pa.array([Decimal("9007199254740991.5")], type_)
    m = Matcher("scan")
    m.add_many(pa.table({"id": [1], "a_lo": pa.array([None], type_), "a_hi": upper}))
    assert m.match({"a": 2**53 + 1}) == [] and m.match({"a": 2**53}) == [1]


def test_bounds_of_more_digits_than_literals_have() -> None:
    m = Matcher("scan")
    m.add_many(pa.table({"id": [1], "a_lo": [1e300], "a_hi": pa.array([None], pa.float64())}))
    other = Matcher("scan")
    other.add_many(m.to_frame())
    m.update(1, score=2.0)
    for one in (m, other):
        assert one.match({"a": 1e301}) == [1] and one.match({"a": 9e299}) == []


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (pa.array([-3]), pa.array([2**64 - 1], pa.uint64())),
        (pa.array([2**53 + 1]), pa.array([2.0**60])),
        (pa.array([1.0], pa.float16()), pa.array([2.0], pa.float16())),
        (pa.array([Decimal(1)], pa.decimal128(38, 37)), pa.array([Decimal(5)], pa.decimal128(38, 0))),
    ],
)
def test_intervals_of_two_types(low: pa.Array, high: pa.Array) -> None:
    m = Matcher("scan")
    m.add(1, "a >= 0")
    frame = pa.table({"a": pa.StructArray.from_arrays([low, high], ["lo", "hi"])})
    assert m.match_many(frame)["subscription"].to_pylist() == [1]
    wrong = pa.StructArray.from_arrays([pa.array([2**53 + 3]), pa.array([2**53 + 2])], ["lo", "hi"])
    with pytest.raises(EventError, match="is empty"):
        m.match_many(pa.table({"a": wrong}))


def test_an_open_side_by_nan() -> None:
    m = Matcher("scan", nan="null")
    m.add(1, "a < 5")
    assert m.match({"a": Interval(nan, 9)}) == [1] and m.match({"a": Decimal("sNaN")}) == []
