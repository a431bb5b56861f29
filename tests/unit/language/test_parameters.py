"""Parameters: values that are never read as syntax, and conditions that read back as the same."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark import Matcher, Predicate, Subscription, SubscriptionError, parse
from earmark.language.parameters import bound
from earmark.language.predicate import And, checked_value

HOSTILE = [
    "x' OR TRUE --",
    "'",
    "''",
    "\\",
    "\\'",
    "?",
    ":a",
    "`",
    '"',
    "/*",
    "x\n;",
    "\0",
    "é",
    "",
    "NULL",
    "') OR ('1",
]
VALUES = [
    None,
    True,
    False,
    0,
    -5,
    2**70,
    1.5,
    -0.0,
    5e-324,
    1e22,
    math.inf,
    -math.inf,
    Decimal("-1.50"),
    Decimal("1E+3"),
]
MOMENTS = [
    date(1, 1, 1),
    date(2024, 2, 29),
    datetime(2024, 2, 29, 12, 30, 0, 1),
    datetime(2024, 2, 29, tzinfo=timezone(timedelta(hours=2))),
    pd.Timestamp("2024-01-05 01:02:03"),
]
SCALARS = [
    *(np.int8(-3), np.uint64(2**64 - 1), np.float16(1.5), np.float32(0.1), np.float64(-0.0), np.longdouble(0.5)),
    *(np.bool_(True), np.str_("it's"), np.datetime64("2024-01-05"), np.datetime64("2024-01-05T01:02:03", "ns")),
    *(np.array(7), np.datetime64("2024"), np.datetime64("NaT")),
]
texts = st.text(st.characters(exclude_categories=["Cs"]))
values = (
    st.none()
    | st.booleans()
    | st.integers(-(10**38) + 1, 10**38 - 1)
    | st.floats(allow_nan=False)
    | texts
    | st.sampled_from(HOSTILE)
    | st.dates()
    | st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1))
)


def same(value: Any) -> str:
    return repr(checked_value(value, ""))


@pytest.mark.parametrize("value", [*VALUES, *MOMENTS, *SCALARS, *HOSTILE], ids=repr)
@pytest.mark.parametrize(
    "text", ["a = ?", "a=?", "a = ? AND b", "(a=?)", "? = a", "a IN (?)", "a IN (1,?,2)", "NOT a<=>?"]
)
def test_a_value_is_one_literal(text: str, value: Any) -> None:
    expected = {"a = ? AND b": 1}.get(text, 0)
    condition = parse(bound(text, [value]))
    predicate = condition.parts[0] if expected else getattr(condition, "part", condition)
    assert isinstance(predicate, Predicate)
    shown = predicate.values[1] if "1,?" in text else predicate.values[0]
    assert same(shown).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc") == same(value)


@given(values, values, st.lists(values, min_size=1, max_size=4))
def test_any_values(first: Any, second: Any, several: list[Any]) -> None:
    text = "a = ? AND `a ? :x` > ? AND s != '?' AND c NOT IN ? AND d IN (?)"
    found = parse(bound(text, [first, second, several, several]))
    assert isinstance(found, And)
    asked = [part.values if isinstance(part, Predicate) else part.part.values for part in found.parts]
    assert [list(map(same, part)) for part in asked] == [
        [same(first)],
        [same(second)],
        ["'?'"],
        list(map(same, several)),
        list(map(same, several)),
    ]


def test_nan() -> None:
    matcher = Matcher()
    matcher.add("x", "a = ?", params=[float("nan")])
    assert matcher.match({"a": float("nan")}) == ["x"]


def test_names() -> None:
    text = "a > :low AND a < :high AND s = ':low' AND b != :low"
    assert bound(text, {"low": 1, "high": -9}) == "a > 1 AND a < -9 AND s = ':low' AND b != 1"
    assert bound("a LIKE :p ESCAPE :e", {"p": "x/%%", "e": "/"}) == "a LIKE 'x/%%' ESCAPE '/'"
    assert bound("a IS ?", [None]) == "a IS NULL"


@pytest.mark.parametrize(
    "several", [["x", "it's"], ("x", "it's"), np.array(["x", "it's"]), {"x", "it's"}, pd.Series(["x", "it's"])]
)
@pytest.mark.parametrize("text", ["s IN ?", "s IN (?)", "s IN(?)", "s in?", "s IN ( ? )"])
def test_lists(text: str, several: Any) -> None:
    found = parse(bound(text, [several]))
    assert isinstance(found, Predicate)
    assert set(found.values) == {"x", "it's"}


@pytest.mark.parametrize(
    ("text", "params", "message"),
    [
        ("a = ?", None, "the parameter ? has no value: expected params=[…]"),
        ("a = :x", None, "the parameter :x has no value: expected params={'x': …}"),
        ("a = ? AND b = :x", [1, 2], "expected parameters of one kind, got both ? and :x"),
        ("a = ? AND b = ?", [1], "expected 2 values in params, got 1"),
        ("a = ?", [1, 2], "expected 1 value in params, got 2"),
        ("a = 1", [1], "expected 0 values in params, got 1"),
        ("a = '?'", [1], "expected 0 values in params, got 1"),
        ("a = ?", {"x": 1}, "expected params as a sequence for ?, got a mapping"),
        ("a = :x", [1], "expected params as a mapping for :x, got a sequence"),
        ("a = :city", {"ctiy": 1}, "params have no value for :city: did you mean 'ctiy'?"),
        ("a = :city", {"city": 1, "age": 2}, "params have a value for 'age', which the condition does not use"),
        ("a = :city", {"city": 1, 7: 2}, "params have a value for 7, which the condition does not use"),
        ("a = ?", "x", "expected params as a sequence or a mapping, got str"),
        ("a = ?", 5, "expected params as a sequence or a mapping, got int"),
        ("a = ?", {5}, "expected params in order, got a set"),
        ("a = ?", [[1]], "expected one value, got a list"),
        ("a IN (?, 1)", [[1]], "expected one value, got a list"),
        ("a IN ?", [5], "expected a list of values after IN, got 5"),
        ("a IN ?", [[]], "expected at least one value after IN, got an empty list"),
        ("a IN (?)", [[]], "expected at least one value after IN, got an empty list"),
        ("a = ?", [object], "is of no type a condition can hold"),
        ("a = ?", [b"x"], "for the parameter ? is of no type"),
        ("a = ?", [{"x": 1}], "is of no type"),
        ("a IN ?", [[[1]]], "is of no type"),
        ("a = ?", [1j], "is of no type"),
        ("a = ?", [Decimal("NaN")], "is not a decimal"),
        ("a = ?", [10**38], "more than 38 digits"),
        ("a = ?", ["\ud800"], "lone surrogate"),
        ("a = ?", [np.timedelta64(1, "s")], "is of no type"),
        ("a = ?", [np.datetime64("10000-01-01")], "is of no type"),
        ("a = ?", [np.datetime64("2024-01-05T01:02:03.000000001")], "is of no type"),
        ("a = DATE ?", ["2024-01-05"], "a parameter cannot go after 'DATE'"),
        ("a = CAST(? AS DATE)", ["2024-01-05"], "a parameter cannot go inside CAST"),
        ("a.? = 1", [None], "a parameter cannot go after '.'"),
        ("a = -?", [5], "a parameter cannot go after '-'"),
        ("a = 'x'?", ["y"], "a parameter cannot go after"),
        ("a = x?", [5], "a parameter cannot go after 'x'"),
        ("a = ?x", [5], "expected AND, OR or the end"),
        ("a = ??", [5, 5], "a parameter cannot go after '?'"),
        ("? = 1", ["a"], "expected an attribute's name"),
        ("a = 'x ? AND b = ?", [1], "a quote is not closed"),
        ("a = 1 -- ?", [1], "comments are not part"),
        ("a = ? /* :x */", [1], "comments are not part"),
        ("a = 5::int AND b = ?", [1], "casts are not part"),
    ],
)
def test_refusals(text: str, params: Any, message: str) -> None:
    matcher = Matcher()
    with pytest.raises(SubscriptionError) as caught:
        matcher.add("x", text, params=params)
    assert message in str(caught.value)
    assert len(matcher) == 0


def test_what_is_kept_is_the_condition_with_its_values() -> None:
    matcher = Matcher()
    matcher.add("x", "rooms >= ? AND city = ?", params=[3, "it's"], weights={"city": 2.0})
    assert matcher["x"].condition == "rooms >= 3 AND city = 'it''s'"
    assert matcher.match({"rooms": 3, "city": "it's"}) == ["x"]
    matcher.update("x", "city IN :cities", params={"cities": ["Rome", "Oslo"]})
    assert matcher["x"] == Subscription("x", "city IN ('Rome', 'Oslo')", {"city": 2.0})
    with pytest.raises(SubscriptionError, match="params need a condition"):
        matcher.update("x", params=[1])
    with pytest.raises(SubscriptionError, match="params go with a condition as a string, got Predicate"):
        matcher.add("y", Predicate("a", "=", 1), params=[1])
    assert matcher.match({"city": "Oslo"}) == ["x"]


def test_rows_with_params() -> None:
    matcher = Matcher()
    rows: list[Any] = [
        Subscription("a", "x = ?", params=["one"]),
        {"id": "b", "condition": "x = :x", "params": {"x": "one"}, "score": 2.0},
        ("c", "x = 'one'"),
    ]
    assert matcher.add_many(rows) == 3
    assert matcher.match({"x": "one"}) == ["a", "b", "c"]
    with pytest.raises(
        SubscriptionError, match=r"row 1, subscription 'e': condition 'x = \?'.*expected 1 value in params"
    ):
        matcher.add_many([("d", "x = 'two'"), Subscription("e", "x = ?", params=[])])
    assert matcher.match({"x": "two"}) == []
