"""From clauses to sets of keys."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest

from earmark import AttributeTypeError, SubscriptionError
from earmark.keys.bind import Binder, Deferred
from earmark.keys.numbers import float_key
from earmark.keys.schema import Draft, Schema
from earmark.keys.sets import KeySet
from earmark.language.parse import leaf_of, parse_clauses
from earmark.language.predicate import Mode

LOW, HIGH = -(2**63), 2**63 - 1
TYPES = {
    "a": "integer",
    "f": "float",
    "s": "string",
    "b": "boolean",
    "d": "date",
    "t": "timestamp",
    "m": "decimal(4,2)",
}


def bound(text: str, **types: str) -> list[Any]:
    schema = Schema()
    schema.declare(types or TYPES)
    return Binder(Draft(schema)).bind(parse_clauses(text), "x")


def only_set(text: str) -> KeySet:
    (((_, found),),) = bound(text)
    assert isinstance(found, KeySet)
    return found


@pytest.mark.parametrize(
    ("text", "intervals", "null"),
    [
        ("a < 3", [(LOW, 2)], False),
        ("a <= 3", [(LOW, 3)], False),
        ("a = 3", [(3, 3)], False),
        ("a != 3", [(LOW, 2), (4, HIGH)], False),
        ("a >= 3", [(3, HIGH)], False),
        ("a > 3", [(4, HIGH)], False),
        ("a > 3 AND a < 9 AND a != 5", [(4, 4), (6, 8)], False),
        ("a IN (1, 2, 3, 7)", [(1, 3), (7, 7)], False),
        ("a NOT IN (1, 2)", [(LOW, 0), (3, HIGH)], False),
        ("a NOT IN (1, NULL)", [], False),
        ("a IN (1, NULL)", [(1, 1)], False),
        ("a BETWEEN 5 AND 1", [], False),
        ("a NOT BETWEEN 1 AND 5", [(LOW, 0), (6, HIGH)], False),
        ("a NOT BETWEEN NULL AND 5", [(6, HIGH)], False),
        ("a IS NULL", [], True),
        ("a IS NOT NULL", [(LOW, HIGH)], False),
        ("a <=> 3", [(3, 3)], False),
        ("NOT a <=> 3", [(LOW, 2), (4, HIGH)], True),
        ("a <=> NULL", [], True),
        ("NOT a <=> NULL", [(LOW, HIGH)], False),
        ("(a > 3) IS NOT TRUE", [(LOW, 3)], True),
        ("(a > 3) IS NOT FALSE", [(4, HIGH)], True),
        ("a > 3 OR a IS NULL", [(4, HIGH)], True),
        ("a = 1 OR a = 2 OR a > 9", [(1, 2), (10, HIGH)], False),
        ("a < 22.5", [(LOW, 22)], False),
        ("a > 22.5", [(23, HIGH)], False),
        ("a = 22.5", [], False),
        ("a != 22.5", [(LOW, HIGH)], False),
        ("a < -9223372036854775808", [], False),
        ("a > 9223372036854775807", [], False),
        ("a < 9223372036854775808", [(LOW, HIGH)], True),
        ("a = 9223372036854775808", [], False),
        ("a = 9007199254740992D", [(2**53, 2**53 + 1)], False),
        ("b", [(1, 1)], False),
        ("NOT b", [(0, 0)], False),
        ("b IS NOT TRUE", [(0, 0)], True),
        ("f > 1D", [(float_key(1.0) + 1, float_key(float("nan")))], False),
        ("f < 0", [(float_key(float("-inf")), -1)], False),
        ("f = -0.0", [(0, 0)], False),
        ("d < DATE '1970-01-02'", [(-(2**31), 0)], False),
        ("d = '1970-01-02'", [(1, 1)], False),
        ("t >= '1970-01-01 00:00:01'", [(1_000_000, HIGH)], False),
        ("m = 1.5", [(150, 150)], False),
        ("m > 1.505", [(151, 9999)], False),
        ("m < 100", [(-(2**63), 2**63 - 1)], False),
    ],
)
def test_sets(text: str, intervals: list[tuple[int, int]], null: bool) -> None:
    assert only_set(text) == KeySet(tuple(intervals), null)


VALUES = ("", "a", "b", "ba", "bb", "c", "d")


@pytest.mark.parametrize(
    ("text", "constants", "inside"),
    [
        ("s = 'b'", "b", ("b",)),
        ("s != 'b'", "b", ("", "a", "ba", "bb", "c", "d")),
        ("s LIKE 'b%'", "b c", ("b", "ba", "bb")),
        ("s NOT LIKE 'b%'", "b c", ("", "a", "c", "d")),
        ("s > 'b' AND s <= 'bb'", "b bb", ("ba", "bb")),
        ("s IN ('b', 'c') OR s < 'a'", "a b c", ("", "b", "c")),
    ],
)
def test_strings_wait_for_their_keys(text: str, constants: str, inside: tuple[str, ...]) -> None:
    schema = Schema()
    schema.declare({"s": "string"})
    draft = Draft(schema)
    (((number, waiting),),) = Binder(draft).bind(parse_clauses(text), "x")
    assert isinstance(waiting, Deferred)
    assert sorted(draft.constants[number]) == constants.encode().split()
    keys = schema.strings[number]
    assert keys.insert(draft.constants[number])
    found = waiting.resolve(keys)
    of_value = {value: keys.of_value(value.encode()) for value in VALUES}
    assert tuple(v for v in VALUES if any(lo <= of_value[v] <= hi for lo, hi in found.intervals)) == inside
    assert not found.null


def test_attributes_ascend_in_a_clause() -> None:
    found = bound("d IS NULL AND f > 1 AND a > 1 OR b", **TYPES)
    assert [[number for number, _ in clause] for clause in found] == [[0, 1, 4], [3]]


def test_what_is_learned_goes_to_the_draft_alone() -> None:
    schema = Schema()
    draft = Draft(schema)
    Binder(draft).bind(parse_clauses("a > 3 AND s = 'x' AND n IS NULL"), "x")
    assert len(schema) == 0
    schema = draft.commit()
    assert {a.name: str(a.type) for a in schema} == {"a": "number", "s": "string", "n": "None"}
    assert schema.by_name["a"].origin == "subscription 'x': a > 3"
    assert not schema.by_name["a"].declared


@pytest.mark.parametrize(
    "text",
    ["a = 'x'", "s = 3", "b = 1", "d = 5", "d = TRUE", "t = 5", "m = 'x'", "a LIKE 'x%'", "f = DATE '2024-01-05'"],
)
def test_clashes(text: str) -> None:
    with pytest.raises(AttributeTypeError) as caught:
        bound(text)
    problem = caught.value
    assert (problem.id, problem.attribute, problem.text) == ("x", text[0], text)
    assert str(problem).startswith(f"subscription 'x': {text}: ")
    if "LIKE" in text:
        assert problem.reason == "LIKE is for strings, but attribute 'a' is integer (declared)"
    else:
        assert re.fullmatch(rf"expected an? \S+ for '{text[0]}' \(declared\), got {text[4:]}", problem.reason)


def test_casts_that_fail() -> None:
    with pytest.raises(SubscriptionError, match="subscription 'x': d = 'zzz': "):
        bound("d = 'zzz'")
    with pytest.raises(SubscriptionError, match="38 digits"):
        bound("m = 99999999999999999999999999999999999999")


@pytest.mark.parametrize("operator", ["=", "!=", "<", "<=", ">", ">=", "<=>", "BETWEEN", "IN"])
def test_comparisons_with_plain_numbers_are_what_all_others_are(operator: str) -> None:
    """They are bound in a way of their own."""
    numbers = (0, -0.0, 1.5, -3, 5e-324, 2**52 - 1, -(2**52), 2**53 + 1, 1e300, float("inf"), float("nan"), True, "x")
    draft = Draft(Schema())
    draft.declare({"n": "number", "i": "integer"})
    binder, direct = Binder(draft), 0
    for name, low, high in product("ni", numbers, numbers):
        values = (low, high) if operator in ("BETWEEN", "IN") else (low,)
        found = binder._compared(name, operator, values)
        direct += found is not None
        assert found is None or found == binder._constraint(name, (leaf_of(name, operator, values, Mode.TRUE),), None)
    assert bool(direct) is (operator not in ("!=", "<=>", "IN"))
