"""A condition that only compares whole numbers takes a shorter way to its row; it must lead to the same row."""

from __future__ import annotations

import pytest

from earmark.keys.schema import Schema
from earmark.language.parse import compared, parse_clauses
from earmark.segment.builder import Builder, Subscription, _compared_row

SHAPES = [
    "b BETWEEN {} AND {} AND a = {}",
    "a < {} AND b <= {} AND c > {}",
    "c >= {} OR (a = {} AND b < {})",
]
LITERALS = [(1, 2, 3), (0, 0, 0), (7, 7, 999_999_999_999_999), (100, 1_000_000, 5)]


def schema(**types: str) -> Schema:
    made = Schema()
    made.declare({"a": "number", "b": "number", "c": "number"} | types)
    return made


@pytest.mark.parametrize("literals", LITERALS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_same_row(shape: str, literals: tuple[int, ...]) -> None:
    given, known = Subscription("x", shape.format(*literals), score=2.5, tags={"t": "u"}), schema()
    parse_clauses(shape.format(4, 5, 6))  # which makes the shape a known one
    builder = Builder(known)
    builder.take(given)
    assert _compared_row(known, given, 17) == builder.row(17)


@pytest.mark.parametrize(
    "text",
    [
        "a = '5'",
        "a = -5",
        "a = 5.5",
        "a = 5L",
        "a = 1 OR a = 2",
        "a = 1000000000000000",
        "a BETWEEN 5 AND 3",
        "d = 5",
        "a IS NULL",
    ],
)
def test_others_take_the_long_way(text: str) -> None:
    parse_clauses(text)
    assert _compared_row(schema(), Subscription("x", text), 0) is None


def test_strings_of_the_same_shape() -> None:
    parse_clauses("a = 5")
    assert compared("a = 5") is not None
    parse_clauses("a = '5'")
    assert compared("a = '5'") is None
    assert _compared_row(schema(a="string"), Subscription("x", "a = 5"), 0) is None


def test_another_type_needs_another_shape() -> None:
    parse_clauses("a = 5")
    given, known = Subscription("x", "a = 5"), schema()
    assert _compared_row(known, given, 0) is not None
    (attribute,) = [one for one in schema(a="string") if one.name == "a"]
    assert _compared_row(known.replaced([attribute]), given, 0) is None
