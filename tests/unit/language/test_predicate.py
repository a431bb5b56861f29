"""Conditions as objects: what they accept, and that their text is read back as the same condition."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import reduce
from operator import and_, or_
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.soup import KEYWORDS
from tests.oracle import generate
from tests.oracle.syntax import Node
from tests.oracle.syntax import to_sql as oracle_sql

from earmark import Condition, Matcher, Predicate, SubscriptionError, parse
from earmark.language.normal import normal_form
from earmark.language.parse import parse_clauses
from earmark.language.predicate import And, Constant, Is, Not, Or, name_sql, to_sql

ZONES = [None, timezone.utc, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-11))]  # noqa: UP017
STRANGE = ["a", "x y", "a`b", "``", "a.b.c", "é", "1a", "_", "A", "n0", "\n", "'", "a.in.b"]
OPERATORS = ["<", "<=", "=", "!=", ">=", ">", "<=>", "IN", "NOT IN", "BETWEEN", "IS NULL", "LIKE"]
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
names = st.sampled_from([*KEYWORDS, *STRANGE]) | texts.filter(lambda name: all(name.split(".")))
values = (
    st.none()
    | st.booleans()
    | st.integers(-(10**38) + 1, 10**38 - 1)
    | st.floats()
    | st.decimals(allow_nan=False, allow_infinity=False).filter(lambda d: fits(d))
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.dates()
    | st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.sampled_from(ZONES))
)


def fits(value: Decimal) -> bool:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    return max(len(digits) + max(exponent, 0), -exponent) <= 38


@st.composite
def predicates(draw: st.DrawFn) -> Predicate:
    operator = draw(st.sampled_from(OPERATORS))
    number = {"IN": draw(st.integers(1, 3)), "NOT IN": 2, "BETWEEN": 2, "IS NULL": 0}.get(operator, 1)
    if operator == "LIKE":
        return Predicate(draw(names), operator, draw(st.sampled_from(["a%", "it's%", r"100\%%", r"\\%", '"', ""])))
    return Predicate(draw(names), operator, *(draw(values) for _ in range(number)))


conditions = st.recursive(
    predicates() | st.sampled_from([Constant(True), Constant(False)]),
    lambda parts: (
        st.lists(parts, min_size=1, max_size=3).map(lambda p: And(tuple(p)))
        | st.lists(parts, min_size=1, max_size=3).map(lambda p: Or(tuple(p)))
        | parts.map(Not)
        | st.builds(Is, parts, st.booleans())
    ),
    max_leaves=6,
)


@given(conditions)
def test_text_is_read_back(condition: Condition) -> None:
    sql = to_sql(condition)
    again = parse(sql)
    assert to_sql(again) in (sql, to_sql(parse(to_sql(again))))
    assert repr(normal_form(again)) == repr(normal_form(parse(to_sql(again)))) == repr(parse_clauses(sql))
    assert comparable(normal_form(condition)) == comparable(parse_clauses(sql))


def comparable(clauses: Any) -> str:
    """Clauses as text, timestamps in UTC."""
    return repr(clauses).replace("tzinfo=zoneinfo.ZoneInfo(key='UTC')", "tzinfo=datetime.timezone.utc")


@given(generate.conditions())
def test_text_of_text(node: Node) -> None:
    condition = parse(oracle_sql(node))
    assert repr(parse(to_sql(condition))) == repr(condition)
    assert repr(normal_form(condition)) == repr(parse_clauses(to_sql(condition)))


@given(names)
def test_names(name: str) -> None:
    assert parse(f"{name_sql(name)} = 1") == Predicate(name, "=", 1)
    assert parse(f"NOT {name_sql(name)} IS NULL") == Not(Predicate(name, "IS NULL"))


@pytest.mark.parametrize(
    ("value", "sql"),
    [
        (math.nan, "CAST('NaN' AS DOUBLE)"),
        (-math.inf, "CAST('-Infinity' AS DOUBLE)"),
        (0.1, "0.1D"),
        (-0.0, "-0.0D"),
        (1e300, "1e+300"),
        (Decimal("1.50"), "1.50"),
        (Decimal("5"), "5BD"),
        (Decimal("1E+3"), "1000BD"),
        (2**70, "1180591620717411303424"),
        (True, "TRUE"),
        (None, "NULL"),
        ("it's \\ %", "'it''s \\\\ %'"),
        (date(1, 1, 1), "DATE '0001-01-01'"),
        (datetime(2024, 1, 1, 2, tzinfo=ZONES[2]), "TIMESTAMP '2023-12-31 20:30:00Z'"),
        (datetime(2024, 1, 1, 2, 0, 0, 5), "TIMESTAMP '2024-01-01 02:00:00.000005'"),
        (np.int32(7), "7"),
        (np.float64(0.5), "0.5D"),
        (np.bool_(True), "TRUE"),
        (np.str_("x"), "'x'"),
        (np.datetime64("2024-01-05"), "DATE '2024-01-05'"),
        (np.datetime64("2024-01-05T01:02:03", "ns"), "TIMESTAMP '2024-01-05 01:02:03'"),
    ],
)
def test_values(value: Any, sql: str) -> None:
    assert str(Predicate("a", "=", value)) == f"a = {sql}"
    assert repr(parse(f"a = {sql}")) == repr(Predicate("a", "=", value))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("a", "~", 1), "'~' on 'a' is not an operator"),
        (("", "=", 1), "expected an attribute's name in a predicate, got "),
        (("a..b", "=", 1), "expected an attribute's name in a predicate, got "),
        ((3, "=", 1), "expected an attribute's name in a predicate, got "),
        (("a", 3, 1), "expected an operator such as '<=' in a predicate, got 3"),
        (("a", "="), "= on 'a' takes 1 value, got 0"),
        (("a", "BETWEEN", 1), "takes 2 values, got 1"),
        (("a", "IN"), "at least one value"),
        (("a", "IN", []), "at least one value"),
        (("a", "=", object()), "of no type a condition can hold"),
        (("a", "=", [1]), "of no type"),
        (("a", "=", np.array([1, 2])), "of no type"),
        (("a", "=", 10**38), "more than 38 digits"),
        (("a", "=", 10**5000), "more than 38 digits"),
        (("a", "=", Decimal("NaN")), "not a decimal"),
        (("a", "=", Decimal("1e40")), "not a decimal"),
        (("a", "=", "\ud800"), "lone surrogate"),
        (("a", "=", "\ud800" * 10_000), "lone surrogate"),
        (("a", "=", datetime(1, 1, 1, tzinfo=ZONES[2])), "years 1 to 9999 in UTC"),
        (("a", "=", np.datetime64("2024-01-05T01:02:03.000000001", "ns")), "of no type"),
        (("a", "=", 1j), "of no type"),
    ],
)
def test_refusals(arguments: Any, reason: str) -> None:
    with pytest.raises(SubscriptionError) as caught:
        Predicate(*arguments)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 1_000


def test_pandas_timestamps() -> None:
    pd = pytest.importorskip("pandas")
    assert str(Predicate("t", "<", pd.Timestamp("2024-01-05 01:02:03"))) == "t < TIMESTAMP '2024-01-05 01:02:03'"
    for bad in (pd.Timestamp("2024-01-05 01:02:03.000000001"), pd.NaT):
        with pytest.raises(SubscriptionError):
            Predicate("t", "<", bad)


def test_lists() -> None:
    assert Predicate("a", "in", [1, 2]) == Predicate("a", "IN", 1, 2) == Predicate("a", "IN", np.array([1, 2]))
    assert str(Predicate("a", "IN", {"y", "x"})) == "a IN ('x', 'y')"
    assert Predicate("a", "not  in", (1,)).operator == "NOT IN"


def test_operators() -> None:
    a, b, c = Predicate("a", "==", 1), Predicate("b", "<>", 2), Predicate("c", "=", 3)
    assert str(a & (b & c)) == str((a & b) & c) == "a = 1 AND b != 2 AND c = 3"
    assert str((a | b) & ~c) == "(a = 1 OR b != 2) AND NOT c = 3"
    assert a & b & c == And((a, b, c))
    assert repr(a | b) == "parse('a = 1 OR b != 2')"
    with pytest.raises(SubscriptionError, match="no truth of its own"):
        bool(a)
    with pytest.raises(SubscriptionError, match="combines with conditions only"):
        a & True  # type: ignore[operator]


def test_long_and_deep_conditions() -> None:
    parts = [Predicate("a", "!=", i) for i in range(2_000)]
    for long in (reduce(and_, parts), reduce(or_, parts)):
        assert repr(parse(str(long))) == repr(long)
    deep: Condition = parts[0]
    for _ in range(40):
        deep = ~deep
    matcher = Matcher()
    matcher.add("deep", deep)
    assert matcher.match({"a": 1}) == ["deep"]
    for _ in range(10_000):
        deep = ~deep
    with pytest.raises(SubscriptionError, match="nests deeper"):
        matcher.add("deeper", deep)
    assert len(matcher) == 1


@given(predicates())
def test_objects_and_text_match_the_same(predicate: Predicate) -> None:
    by_object, by_text = Matcher(), Matcher()
    try:
        by_object.add("one", predicate)
    except SubscriptionError as problem:
        with pytest.raises(SubscriptionError) as caught:
            by_text.add("one", str(predicate))
        assert str(caught.value) == str(problem)  # noqa: PT017
        return
    by_text.add("one", str(predicate))
    assert by_object.stats() == by_text.stats()
    assert by_object.to_arrow().equals(by_text.to_arrow())
