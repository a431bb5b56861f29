"""The grammar: what a text becomes, and what its refusals say."""

from __future__ import annotations

import sys

import pytest

from earmark import Predicate, SubscriptionError, parse
from earmark.model.order import misplaced
from earmark.model.predicate import And, Condition, Constant, Is, Not, Or
from earmark.model.tokens import lex, split_units, units_are_slots

A, B = Predicate("a", "=", 1), Predicate("b", "=", 2)


@pytest.mark.parametrize(
    ("sql", "condition"),
    [
        ("a = 1", A),
        ("1 = a", A),
        ("((a)) = ((1))", A),
        ("a == 1", A),
        ("5 > a", Predicate("a", "<", 5)),
        ("5 <= a", Predicate("a", ">=", 5)),
        ("NULL <=> a", Predicate("a", "<=>", None)),
        ("a <> 1", Predicate("a", "!=", 1)),
        ("a = 1 AND b = 2", And((A, B))),
        ("a = 1 AND (b = 2 AND a = 1)", And((A, B, A))),
        ("a = 1 OR b = 2 AND a = 1", Or((A, And((B, A))))),
        ("NOT a = 1", Not(A)),
        ("! a = 1", Not(A)),
        ("NOT (a = 1 OR b = 2)", Not(Or((A, B)))),
        ("a NOT IN (1)", Not(Predicate("a", "IN", 1))),
        ("a in(1,-2,NULL)", Predicate("a", "IN", 1, -2, None)),
        ("a IN ((1), 2)", Predicate("a", "IN", 1, 2)),
        ("a NOT BETWEEN 1 AND -2", Not(Predicate("a", "BETWEEN", 1, -2))),
        ("a NOT LIKE 'x%'", Not(Predicate("a", "LIKE", "x%"))),
        ("a LIKE 'x/%%' ESCAPE '/'", Predicate("a", "LIKE", "x\\%%")),
        ("a IS NOT NULL", Not(Predicate("a", "IS NULL"))),
        ("a IS DISTINCT FROM 1", Not(Predicate("a", "<=>", 1))),
        ("a IS NOT DISTINCT FROM 1", Predicate("a", "<=>", 1)),
        ("(a = 1) IS NOT TRUE", Not(Is(A, True))),
        ("a", Predicate("a", "=", True)),
        ("TRUE", Constant(True)),
        ("NOT NULL", Not(Constant(None))),
        ("x.y.z.u.v.w = 1", Predicate("x.y.z.u.v.w", "=", 1)),
        ("`x y`.`in` = 1", Predicate("x y.in", "=", 1)),
        ("n0 = 1 AND n1 = 900000000", And((Predicate("n0", "=", 1), Predicate("n1", "=", 900_000_000)))),
        (
            "`n1` = '900000001' OR n0 = 800000000",
            Or((Predicate("n1", "=", "900000001"), Predicate("n0", "=", 800_000_000))),
        ),
    ],
)
def test_conditions(sql: str, condition: Condition) -> None:
    assert parse(sql) == condition
    assert parse(str(condition)) == condition


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("a = 3 b", "condition 'a = 3 b' at 'b': this cannot stand after '3'"),
        ("a = ", "condition 'a = ': it ends too early, after '='"),
        ("a = 'x", 'condition "a = \'x" at "\'x": a quote is not closed'),
        ("a > 3 IS TRUE", "condition 'a > 3 IS TRUE' at 'IS': what IS is asked of stands in parentheses"),
        ("a = b", "condition 'a = b' at 'b': an attribute is compared with literals, not with another attribute"),
        ("3 = 3", "condition '3 = 3' at '3': an attribute's name was expected here, to compare with literals"),
        (
            "(a > 1) = 3",
            "condition '(a > 1) = 3' at 'a > 1': an attribute's name was expected here, to compare with literals",
        ),
        ("a = f (1, 2)", "condition 'a = f (1, 2)' at 'f(': functions are not part of a condition"),
        ("min(3) = a", "condition 'min(3) = a' at 'min(': functions are not part of a condition"),
        ("a = 3 - 1", "condition 'a = 3 - 1' at '-': calculations are not part of a condition"),
        ("s LIKE 3", "condition 's LIKE 3' at '3': LIKE takes a text"),
        ("a = (1, 2)", "condition 'a = (1, 2)' at '(1, 2)': a list of values stands after IN only"),
    ],
)
def test_messages(sql: str, message: str) -> None:
    with pytest.raises(SubscriptionError) as caught:
        parse(sql)
    assert str(caught.value) == message


def test_messages_are_short() -> None:
    with pytest.raises(SubscriptionError) as caught:
        parse("a = 3 AND s = 'x' " * 10_000 + " = ")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("sql", "shape", "names"),
    [
        ("a >= 22.5 AND c IN ('x', 'y')", "n0 >= 900000000 AND n1 IN (800000001)", ["a", "c"]),
        ("d = date'2024-01-05' or `x y` = -1", "n0 = 900000000 OR n1 = - 900000001", ["d", "x y"]),
        ("f < CAST('NaN' AS DOUBLE)", "n0 < 900000000", ["f"]),
        ("date = 'x' AND a.in = 1", "n0 = '900000000' AND n1 . n2 = 900000001", ["date", "a", "in"]),
        ("escape LIKE 'x' ESCAPE 'y'", "n0 LIKE '900000000' ESCAPE '900000001'", ["escape"]),
    ],
)
def test_shapes(sql: str, shape: str, names: list[str]) -> None:
    lexed = lex(sql)
    assert (lexed.shape, lexed.names) == (shape, names)
    assert units_are_slots(lexed)
    assert split_units(sql)[1] == [sql[slot.start : slot.end] for slot in lexed.slots]


@pytest.mark.parametrize("sql", ["a = 'x", 'a = "x', "`a = 1", "a = 1 AND b = '", "a IN ('x', 'y)"])
def test_an_open_quote_has_no_shape(sql: str) -> None:
    assert split_units(sql) == ((), [])


@pytest.mark.parametrize(
    ("kinds", "at"),
    [
        ("name comparison number", None),
        ("( name ) comparison ( number )", None),
        ("name NOT IN list AND NOT name IS NOT constant", None),
        ("name BETWEEN - number AND number OR name", None),
        ("name NOT IS constant", 2),
        ("name NOT constant", 2),
        ("name BETWEEN number number", 3),
        ("name BETWEEN number OR name", 3),
        ("name IN ( , number )", 3),
        ("OR ( name )", 0),
        ("name IN list IS constant", 3),
        ("name IN ( typed , typed ) IS constant", 7),
        ("name IS constant comparison constant", 3),
        ("name comparison", 2),
        ("( name", 2),
        ("name )", 1),
        ("name name", 1),
    ],
)
def test_order(kinds: str, at: int | None) -> None:
    found = misplaced(kinds.split())
    assert (found and found.at) == at


def test_parsing_needs_sqlglot_only_when_used() -> None:
    import subprocess

    code = "import sys, earmark.model.parse; sys.exit('sqlglot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
