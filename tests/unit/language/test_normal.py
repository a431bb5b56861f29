"""Clauses: NOT pushed down, ORs over one attribute kept together, bounds that hold."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from tests.oracle import generate
from tests.oracle.ranking import clauses as oracle_clauses
from tests.oracle.syntax import Node, to_sql

from earmark import Predicate, SubscriptionError, parse
from earmark.language.normal import MAX_CLAUSES, normal_form
from earmark.language.parse import parse_clauses
from earmark.language.predicate import AllOf, AnyOf, Atom, Leaf, Mode, atom_sql


@pytest.mark.parametrize(
    ("sql", "attributes"),
    [
        ("a = 1 AND b = 2 AND a = 3", [{"a", "b"}]),
        ("a = 1 OR a = 2", [{"a"}]),
        ("a = 1 OR b = 2", [{"a"}, {"b"}]),
        ("a = 1 OR b = 2 OR a = 3", [{"a"}, {"b"}]),
        ("a = 1 AND (b = 2 OR c = 3)", [{"a", "b"}, {"a", "c"}]),
        ("NOT (a = 1 AND b = 2)", [{"a"}, {"b"}]),
        ("(a = 1 OR b = 2) IS NOT TRUE", [{"a", "b"}]),
        ("a = 1 AND FALSE", []),
        ("a = 1 AND NULL", []),
        ("a = 1 OR NULL", [{"a"}]),
        ("a = 1 OR TRUE", [{"a"}, set()]),
        ("NOT NULL", []),
        ("(NULL) IS NOT TRUE", [set()]),
        ("a > 3 AND (a < 9 OR a = 20 AND a != 4)", [{"a"}]),
    ],
)
def test_clauses(sql: str, attributes: list[set[str]]) -> None:
    assert [{name for name, _ in clause} for clause in parse_clauses(sql)] == attributes


@given(generate.conditions())
def test_clauses_are_those_of_the_oracle(node: Node) -> None:
    found = {frozenset(name for name, _ in clause) for clause in parse_clauses(to_sql(node))}
    assert found == {frozenset(clause) for clause in oracle_clauses(node)}


def truth(atom: Atom, row: dict[str, Any]) -> bool:
    """Whether an atom is what it is wanted to be, for bare booleans."""
    if isinstance(atom, Leaf):
        got = row[atom.predicate.attribute]
        wanted: dict[Mode, bool] = {
            Mode.TRUE: got is True,
            Mode.FALSE: got is False,
            Mode.NOT_TRUE: got is not True,
            Mode.NOT_FALSE: got is not False,
        }
        return wanted[atom.mode]
    return (any if isinstance(atom, AnyOf) else all)(truth(part, row) for part in atom.parts)


def evaluate(sql: str, row: dict[str, Any]) -> bool:
    return any(all(truth(atom, row) for _, atoms in clause for atom in atoms) for clause in parse_clauses(sql))


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("NOT (a AND b)", lambda a, b: a is False or b is False),
        ("NOT (a OR b)", lambda a, b: a is False and b is False),
        ("(a AND b) IS TRUE", lambda a, b: a is True and b is True),
        ("(a AND b) IS NOT TRUE", lambda a, b: not (a is True and b is True)),
        ("(a AND b) IS FALSE", lambda a, b: a is False or b is False),
        ("(a OR b) IS NOT FALSE", lambda a, b: not (a is False and b is False)),
        ("NOT ((a OR b) IS NOT FALSE)", lambda a, b: a is False and b is False),
        ("((a AND b) IS NOT TRUE) IS FALSE", lambda a, b: a is True and b is True),
        ("NOT (NOT a OR (b IS NOT TRUE))", lambda a, b: a is True and b is True),
        ("a AND NOT a OR b IS NOT FALSE", lambda a, b: b is not False),
    ],
)
def test_three_valued_logic(sql: str, wanted: Any) -> None:
    for a, b in product((True, False, None), repeat=2):
        assert evaluate(sql, {"a": a, "b": b}) is wanted(a, b), (a, b)


def test_the_number_of_clauses_is_bounded() -> None:
    pair = " AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(10))
    assert len(parse_clauses(pair)) == MAX_CLAUSES
    with pytest.raises(SubscriptionError, match="more than 1,024 clauses; split it"):
        parse_clauses(f"{pair} OR c = 1")
    with pytest.raises(SubscriptionError, match="its ORs make more than 1,024 clauses"):
        normal_form(parse(f"{pair} AND (c = 1 OR d = 1)"))
    assert parse_clauses(f"{pair} AND (c = 1 OR d = 1) AND FALSE") == ()


def test_the_size_of_all_clauses_is_bounded() -> None:
    pair = " AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(10))
    with pytest.raises(SubscriptionError, match="clauses"):
        parse_clauses(pair + "".join(f" AND c{i} = 1" for i in range(1_000)))


def test_leaves_are_shared_between_clauses() -> None:
    first, second = parse_clauses("a = 1 AND (b = 2 OR c = 3)")
    assert first[0][1][0] is second[0][1][0]


@pytest.mark.parametrize(
    ("atom", "sql"),
    [
        (Leaf(Predicate("a", "<", 3), Mode.TRUE), "a < 3"),
        (Leaf(Predicate("a", "<", 3), Mode.FALSE), "a >= 3"),
        (Leaf(Predicate("a", "IN", 3), Mode.FALSE), "a NOT IN (3)"),
        (Leaf(Predicate("a", "IS NULL"), Mode.FALSE), "a IS NOT NULL"),
        (Leaf(Predicate("a", "<=>", 3), Mode.FALSE), "NOT (a <=> 3)"),
        (Leaf(Predicate("a", "<", 3), Mode.NOT_TRUE), "(a < 3) IS NOT TRUE"),
        (Leaf(Predicate("a", "<", 3), Mode.NOT_FALSE), "(a < 3) IS NOT FALSE"),
    ],
)
def test_text(atom: Leaf, sql: str) -> None:
    assert atom_sql(atom) == sql
    other = Leaf(Predicate("a", "=", 9), Mode.TRUE)
    assert atom_sql(AnyOf((atom, AllOf((other, other))))) == f"({sql} OR (a = 9 AND a = 9))"
