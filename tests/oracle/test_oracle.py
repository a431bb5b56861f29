"""The oracle agrees with itself: two ways to the same answer, and worked examples small enough to check by eye."""

from __future__ import annotations

from datetime import date
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle import generate
from tests.oracle.naive import evaluate
from tests.oracle.ranking import Interval, clauses, exact_score, matches, order_key, relaxed_score
from tests.oracle.syntax import (
    FALSE,
    INT64_MAX,
    NULL,
    TRUE,
    And,
    Between,
    Column,
    Compare,
    In,
    IsNull,
    IsTruth,
    Like,
    Literal,
    Node,
    Not,
    Or,
    day,
    decimal,
    double,
    integer,
    string,
    to_sql,
)

A, F, S, D = Column("a", "integer"), Column("f", "float"), Column("s", "string"), Column("d", "date")
B, C = Column("b", "integer"), Column("c", "boolean")


def above(column: Column, value: int) -> Compare:
    return Compare(column, ">", integer(value))


@given(generate.conditions_and_rows())
def test_clauses_match_what_is_true(case: tuple[Node, dict[str, Any]]) -> None:
    node, row = case
    assert matches(node, row) is (evaluate(node, row) is True)


@given(generate.conditions_and_rows(boxes=True), st.randoms(use_true_random=False))
def test_a_box_matches_what_a_row_inside_matches(case: tuple[Node, dict[str, Any]], rng: Random) -> None:
    node, box = case
    for _ in range(5):
        inside = {name: value_inside(rng, name, value, node) for name, value in box.items()}
        assert matches(node, box) or evaluate(node, inside) is not True


def value_inside(rng: Random, name: str, value: Any, node: Node) -> Any:
    """The value, or one from its interval."""
    if not isinstance(value, Interval):
        return value
    column = Column(name, generate.SCHEMA[name])
    tried = generate.value_near(rng, column, node)
    low, middle, high = (order_key(column, v) for v in (value.lo, tried, value.hi))
    return tried if low <= middle <= high else rng.choice((value.lo, value.hi))


@given(generate.conditions_and_rows())
def test_relaxed_is_at_least_exact(case: tuple[Node, dict[str, Any]]) -> None:
    node, row = case
    order = sorted(generate.SCHEMA)
    exact = exact_score(node, row, {}, {}, 0.5, order)
    relaxed = relaxed_score(node, row, {}, {}, 0.5, order)
    assert exact is None or (relaxed is not None and relaxed >= exact)


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (And((Or((above(A, 1), above(B, 2))), Not(above(A, 9)))), "(a > 1 OR b > 2) AND NOT a > 9"),
        (Or((And((above(A, 1), above(B, 2))), C)), "a > 1 AND b > 2 OR c"),
        (Not(Or((C, NULL))), "NOT (c OR NULL)"),
        (IsTruth(above(A, 1), False, True), "(a > 1) IS NOT FALSE"),
        (In(S, (string("it's"), string("a\\b"), NULL), True), r"s NOT IN ('it''s', 'a\\b', NULL)"),
        (Like(S, "a%_\\"), r"s LIKE 'a\\%\\_\\\\%'"),
        (Between(D, day(date(1, 1, 1)), NULL), "d BETWEEN DATE '0001-01-01' AND NULL"),
        (Compare(double(-1e300), "<=>", F), "-1e+300D <=> f"),
        (Compare(Column("s 1", "string"), "=", string("")), "`s 1` = ''"),
        (IsNull(A, True), "a IS NOT NULL"),
    ],
)
def test_text(node: Node, text: str) -> None:
    assert to_sql(node) == text


@pytest.mark.parametrize(
    ("node", "row", "truth"),
    [
        (Compare(A, "<", decimal("22.5")), {"a": 22}, True),
        (Compare(A, "=", double(2.0**53)), {"a": 2**53 + 1}, True),
        (Compare(A, "=", decimal("3.0000000000000000000000001")), {"a": 3}, True),
        (Compare(A, "<", decimal("3.0000000000000000000000001")), {"a": 3}, True),
        (Compare(A, "<", integer(INT64_MAX + 1)), {}, True),
        (Compare(A, "=", integer(INT64_MAX + 1)), {}, None),
        (In(A, (integer(2**53 + 1), double(1.0))), {"a": 2**53}, True),
        (In(A, (integer(2**53 + 1), decimal("1.5"))), {"a": 2**53}, False),
        (Compare(F, ">", double(1e308)), {"f": float("nan")}, True),
        (Compare(F, "=", double(0.0)), {"f": -0.0}, True),
        (Between(A, NULL, integer(2)), {"a": 3}, False),
        (Between(A, NULL, integer(2)), {"a": 1}, None),
        (In(A, (integer(3), NULL), True), {"a": 4}, None),
        (Compare(S, "<", string("\U0001f600")), {"s": "\uffff"}, True),
    ],
)
def test_evaluate(node: Node, row: dict[str, Any], truth: bool | None) -> None:
    assert evaluate(node, row) is truth


@pytest.mark.parametrize(
    ("node", "attributes"),
    [
        (Or((above(A, 9), Compare(A, "<", integer(1)))), [{"a"}]),
        (Or((above(A, 9), above(B, 1))), [{"a"}, {"b"}]),
        (And((above(A, 1), TRUE)), [{"a"}]),
        (Or((above(A, 1), TRUE)), [{"a"}, set()]),
        (Or((above(A, 1), And((above(B, 1), NULL)))), [{"a"}]),
        (Not(And((above(A, 1), above(B, 1)))), [{"a"}, {"b"}]),
        (IsTruth(Or((above(A, 1), above(B, 1))), True, True), [{"a", "b"}]),
        (And((FALSE, above(A, 1))), []),
        (Not(NULL), []),
        (IsTruth(NULL, True, True), [set()]),
    ],
)
def test_clauses(node: Node, attributes: list[set[str]]) -> None:
    assert [set(clause) for clause in clauses(node)] == attributes


def test_scores() -> None:
    node = Or((And((above(A, 1), above(B, 1), IsNull(C))), above(B, 9)))
    given_weights = ({"a": 0.5, "b": 0.25, "c": 8.0}, {"b": 2.0}, 10.0, ["a", "b", "c"])
    assert exact_score(node, {"a": 2, "b": 2}, *given_weights) == 11.0  # c is absent: held, but adds nothing
    assert exact_score(node, {"a": 0, "b": 10}, *given_weights) == 10.5
    assert exact_score(node, {"a": 2, "b": 0}, *given_weights) is None
    assert relaxed_score(node, {"a": 2, "b": 0}, *given_weights) == 10.5
    assert relaxed_score(node, {"a": 0, "b": 0, "c": True}, *given_weights) is None
    assert relaxed_score(TRUE, {}, *given_weights) == 10.0


@pytest.mark.parametrize(
    ("node", "box", "found"),
    [
        (Compare(A, "!=", integer(3)), Interval(3, 3), False),
        (Compare(A, "!=", integer(3)), Interval(3, 4), True),
        (And((above(A, 3), Compare(A, "<", integer(5)), Compare(A, "!=", integer(4)))), Interval(0, 9), False),
        (And((Compare(A, "=", double(2.0**62)), Compare(A, "!=", integer(2**62)))), Interval(0, INT64_MAX), True),
        (In(A, (integer(1), integer(7))), Interval(2, 6), False),
        (IsNull(A), Interval(2, 6), False),
    ],
)
def test_extended(node: Node, box: Interval, found: bool) -> None:
    assert matches(node, {"a": box}) is found


def test_extended_strings() -> None:
    assert matches(Like(S, "ab"), {"s": Interval("aa", "abc")})
    assert matches(Like(S, "ab", True), {"s": Interval("ab", "ac")})
    assert not matches(Like(S, "ab", True), {"s": Interval("ab", "abz")})
    between = And((Compare(S, ">", string("a")), Compare(S, "<", string("b"))))
    assert matches(between, {"s": Interval("a", "b")})


def test_literals_outside_int64_are_decimals() -> None:
    assert integer(INT64_MAX).kind == "integer"
    assert isinstance(integer(INT64_MAX + 1), Literal)
    assert integer(INT64_MAX + 1).kind == "decimal"
