"""The grammar: what a text becomes, and what its refusals say."""

from __future__ import annotations

import pickle
import sys

import pytest

from earmark import Matcher, Predicate, SubscriptionError, parse
from earmark.language.order import misplaced
from earmark.language.parse import parse_clauses, split_units
from earmark.language.predicate import And, Condition, Constant, Is, Not, Or
from earmark.language.tokens import lex, units_are_slots

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
        ("a = 3 b", "condition 'a = 3 b' at 'b': expected AND, OR or the end after '3', got 'b'"),
        ("a = ", "condition 'a = ': expected a value after '=', got the end of the condition"),
        ("a = 'x", 'condition "a = \'x" at "\'x": a quote is not closed: expected another \''),
        ("a > 3 IS TRUE", "condition 'a > 3 IS TRUE' at 'IS': put the operand of IS in parentheses"),
        (
            "a = b",
            "condition 'a = b' at 'b': expected a literal, got the attribute b: an attribute is compared with"
            " literals, not with another attribute; a string goes in quotes",
        ),
        ("3 = 3", "condition '3 = 3' at '3': expected an attribute's name to compare with a literal, got 3"),
        (
            "(a > 1) = 3",
            "condition '(a > 1) = 3' at 'a > 1': expected an attribute's name to compare with a literal, got a > 1;"
            " join two comparisons with AND",
        ),
        (
            "a = f (1, 2)",
            "condition 'a = f (1, 2)' at 'f(': functions are not part of a condition:"
            " compare the attribute itself with a literal",
        ),
        (
            "min(3) = a",
            "condition 'min(3) = a' at 'min(': functions are not part of a condition:"
            " compare the attribute itself with a literal",
        ),
        (
            "a = 3 - 1",
            "condition 'a = 3 - 1' at '-': calculations are not part of a condition:"
            " compare the attribute itself with a literal",
        ),
        ("s LIKE 3", "condition 's LIKE 3' at '3': expected a pattern such as 'prefix%' after LIKE"),
        ("a = (1, 2)", "condition 'a = (1, 2)' at '(1, 2)': a list of values goes after IN only"),
    ],
)
def test_messages(sql: str, message: str) -> None:
    with pytest.raises(SubscriptionError) as caught:
        parse(sql)
    assert str(caught.value) == message


WRITE_INSTEAD = {
    "WHERE a > 3": "leave out WHERE",
    "WHERE NOT a": "leave out WHERE",
    "where (a > 3)": "leave out WHERE",
    "SELECT * FROM t WHERE a > 3": "leave out everything up to WHERE",
    "SELECT a FROM t WHERE a > 3": "leave out everything up to WHERE",
    "first-name = 'x'": "write it in backticks: `first-name`",
    "x = 1 AND last-first-name = 'x'": "write it in backticks: `last-first-name`",
    "a-1 = 3": "calculations are not part",
    "unit price = 3": "write it in backticks: `unit price`",
    "a =~ 'x'": "use LIKE with a prefix",
    "a = 1;": "leave out the ';'",
    "a = 1; b = 2": "only one condition",
    "a IS 5": "compare with other values by =",
    "a LIKE '%x'": "write it as 'prefix%'",
    "a IN (1, 'x')": "a IN (1, 'x'): expected values of one type, got 1 and 'x'",
    "a > b": "a string goes in quotes",
    "lower(a) = 'x'": "functions are not part",
    "a + 1 > 2": "calculations are not part",
    "a = \u2018x\u2019": "expected a straight quote, ' or \", got '\u2018'",
    "a = \u201cx\u201d": "expected a straight quote",
    "a && b": "expected AND, got '&&'",
    "a || b": "expected OR, got '||'",
    "a = 'it's'": "a quote inside a string is written twice, as in 'it''s'",
    "(a = 1": "a '(' is not closed: expected ')'",
    "a = 1)": "there is no '(' for this",
    "a = 'x": "a quote is not closed: expected another '",
    "`a = 1": "a quote is not closed: expected another `",
    "a => 1": "expected >=, got =>",
    "a =< 1": "expected <=, got =<",
    "a \u2265 1": "expected >=, got '\u2265'",
    "a\u00a0= 1": "expected a plain space",
    "a IN [1, 2]": "a list is written IN (1, 2)",
    "a IN 1": "expected a list of values in parentheses after 'IN', got '1'",
    "a IN ()": "expected a value after '(', got ')'",
    "a BETWEEN 1 AND": "expected a value after 'AND', got the end of the condition",
    "a BETWEEN 1 AND NOT b": "expected a value after 'AND', got 'NOT'",
    "1 < a < 3": "join two comparisons with AND",
    "a = 'x' OR 'y'": "compare an attribute with it",
    "a = {x}": "a parameter is written ? or :name",
}


@pytest.mark.parametrize("sql", WRITE_INSTEAD)
def test_messages_say_what_to_write_instead(sql: str) -> None:
    with pytest.raises(SubscriptionError) as caught:
        Matcher().add("x", sql)
    message = str(caught.value)
    assert WRITE_INSTEAD[sql] in message
    assert not message.endswith(".")


@pytest.mark.parametrize(
    "sql", ["a == 1", 'a = "x"', "a = NULL", "!a", "where > 3", "where IS NULL", "where", "a = 'it''s'"]
)
def test_what_looks_wrong_but_is_right(sql: str) -> None:
    Matcher().add("x", sql)


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("a = 3 b", "b"),
        ("a = 'x", "'x"),
        ("a = 1 AND lower(b) = 'x'", "lower"),
        ("a = 1 AND b > c.d", "c.d"),
        ("a = 1 AND d = DATE '2024-02-30'", "'2024-02-30'"),
        ("s LIKE 'x' ESCAPE 'yy'", "'x'"),
        ("a = 1 AND 'x'", "'x'"),
        ("a = (1, 2)", "(1, 2)"),
        ("a = 1 AND", ""),
        ("a = 1 && b", "&&"),
        ("a = ? AND b", "?"),
        ("a = 1e400 AND b", "1e400"),
    ],
)
def test_refusals_know_their_place(sql: str, place: str) -> None:
    for read in (parse, parse_clauses, parse_clauses):
        with pytest.raises(SubscriptionError) as caught:
            read(sql)
        problem = caught.value
        assert sql[problem.start : problem.end] == place
        assert str(problem).endswith(f": {problem.reason}")


def test_known_shapes_know_the_place_of_a_bad_literal() -> None:
    parse_clauses("known_shape = 1 AND b = 2")
    with pytest.raises(SubscriptionError) as caught:
        parse_clauses("known_shape = 1 AND b = 1e400")
    assert (caught.value.start, caught.value.end) == (24, 29)


def test_errors_are_made_of_one_string() -> None:
    problem = SubscriptionError("no good")
    assert (str(problem), problem.reason, problem.start, problem.end) == ("no good", "no good", None, None)
    again = pickle.loads(pickle.dumps(SubscriptionError("bad", text="x", start=1, end=2)))
    assert (str(again), again.reason, again.start, again.end) == ("x: bad", "bad", 1, 2)


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

    code = "import sys, earmark.language.parse; sys.exit('sqlglot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
