"""Every problem of a condition, with its place; none exactly when a matcher takes it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.fuzz.soup import text as soup
from tests.oracle import spellings

from earmark import EarmarkError, Matcher, Problem, SubscriptionError, validate
from earmark.keys.schema import Schema

TYPES = {"age": "integer", "city": "string", "day": "date", "user.age": "integer", "price": "decimal(9,2)"}


def found(text: str, **options: Any) -> list[tuple[str, str]]:
    """Each problem as its piece of the text, and its message."""
    return [(text[start:end], message) for start, end, message in validate(text, TYPES, **options)]


def test_a_good_condition_has_no_problems() -> None:
    assert validate("age > 3 AND city IN ('x', 'y') OR day = '2024-01-05' AND anything = 'goes'", TYPES) == []
    assert validate("a = 1") == []
    assert validate("age > 3 AND user.age < 7", TYPES, strict=True) == []


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("age = 'x' AND city = 5 AND age > 3 AND day = 'soon'", ["age = 'x'", "city = 5", "day = 'soon'"]),
        ("age > city AND city > age AND age = 'x'", ["city", "age", "age = 'x'"]),
        ("NOT (age > city) AND age = 'x'", ["city", "age = 'x'"]),
        ("lower(city) = 'x' && abs(age) = 1", ["lower", "&&", "abs"]),
        ("age = 1e400 AND day = DATE '2024-02-30' AND city = 5", ["1e400", "'2024-02-30'", "city = 5"]),
        ("city LIKE '%x' AND city LIKE 'a_c'", ["city LIKE '%x'", "city LIKE 'a_c'"]),
        ("city LIKE 'x' ESCAPE 'yy' AND age = 'x'", ["city LIKE 'x' ESCAPE 'yy'", "age = 'x'"]),
        ("city LIKE 'x%' ESCAPE '/' AND age = 1e400", ["1e400"]),
        ("new = 1 AND new = 'x' AND new = 2 AND new = TRUE", ["new = 'x'", "new = TRUE"]),
        ("age IN (1, 'x') OR age = 1", ["age IN (1, 'x')"]),
        ("age = 1 age = 2", ["age"]),
        ("age = 1 AND", [""]),
        ("WHERE age = 1 AND lower(city) = 'x'", ["WHERE", "lower"]),
        ("city = \u2018x\u2019 OR city = \u201cy\u201d", ["\u2018x\u2019", "\u201cy\u201d"]),
        ("city = 'it's'", ["'"]),
        ("'x' > age OR 5 = price OR 'y' = price", ["'x' > age", "'y' = price"]),
        ("(age = 'x' AND FALSE) OR age = 'y'", ["age = 'y'"]),
        ("age = 'x' AND FALSE", []),
        ("age", ["age"]),
        ("user . age = 'x' AND `user`.`age` = TRUE", ["user . age = 'x'", "`user`.`age` = TRUE"]),
        ("age = DATE '2024-01-05' AND TRUE", ["age = DATE '2024-01-05'"]),
        ("", [""]),
        ("SELECT * FROM t WHERE age > 3", ["SELECT"]),
        ("age = ? AND city = :city", ["?", ":city"]),
    ],
)
def test_places(text: str, pieces: list[str]) -> None:
    assert [piece for piece, _ in found(text)] == pieces
    matcher = Matcher(attributes=TYPES)
    if pieces:
        with pytest.raises(SubscriptionError):
            matcher.add("x", text)
    else:
        matcher.add("x", text)


def test_messages() -> None:
    assert validate("age = 'x'", TYPES) == [Problem(0, 9, "expected an integer for 'age' (declared), got 'x'")]
    assert validate("new = 1 AND new = 'x'")[0].message == (
        "expected a number for 'new' (first used so by new = 1), got 'x'"
    )
    assert validate("a = b")[0] == Problem(
        4,
        5,
        "expected a literal, got the attribute b: an attribute is compared with literals, not with another attribute;"
        " a string goes in quotes",
    )


def test_unknown_names() -> None:
    text = "ctiy = 'Rome' AND user.aeg > 3 AND AGE < 9 AND zzz = 1 AND age = 1"
    assert found(text) == []
    assert found(text, strict=True) == [
        ("ctiy", "unknown attribute 'ctiy': did you mean 'city'?"),
        ("user.aeg", "unknown attribute 'user.aeg': did you mean 'user.age'?"),
        ("AGE", "unknown attribute 'AGE': did you mean 'age'?"),
        ("zzz", "unknown attribute 'zzz': expected one of 'age', 'city', 'day', 'user.age', 'price'"),
    ]
    assert [piece for piece, _ in found("lower(ctiy) = 'x' AND age CONTAINS 3", strict=True)] == [
        "lower",
        "ctiy",
        "CONTAINS",
    ]
    assert validate("a = 1", strict=True)[0].message == "unknown attribute 'a': no attributes are declared"


def test_a_schema_is_used_and_left_alone() -> None:
    schema = Schema("Europe/Paris")
    schema.declare({"s": "string"})
    constants = len(schema.strings[0])
    assert validate("s = 'x' AND new = 5 AND t = TIMESTAMP '2024-01-01 00:00:00'", schema) == []
    assert len(validate("s = 5", schema)) == 1
    assert (list(schema.by_name), len(schema.strings[0])) == (["s"], constants)


@pytest.mark.parametrize("text", [None, 5, b"a = 1"])
def test_what_is_not_a_string(text: Any) -> None:
    ((start, end, message),) = validate(text, strict=True)
    assert (start, end) == (0, 0)
    assert message.startswith("expected a condition as a string")


def test_bad_types_and_zones_are_errors() -> None:
    with pytest.raises(EarmarkError, match="expected attributes as a mapping"):
        validate("a = 1", ["a"])  # type: ignore[arg-type]
    with pytest.raises(EarmarkError):
        validate("a = 1", {"a": "colour"})
    with pytest.raises(EarmarkError):
        validate("a = 1", zone="Mars/Olympus")


@pytest.mark.parametrize(
    "text", ["a IN (" + "1," * 50_000 + "'x')", "(" * 50 + "a" + ")" * 50, "a=1 OR " * 20_000 + "b"]
)
def test_limits(text: str) -> None:
    (problem,) = validate(text, {"a": "integer"})
    assert 0 <= problem.start < problem.end <= len(text)


def test_too_many_clauses_and_a_clash() -> None:
    text = " AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(11)) + " AND age = 'x'"
    assert [message[:40] for _, message in found(text)] == [
        "its ORs make more than 1,024 clauses; sp",
        "expected an integer for 'age' (declared)",
    ]


@pytest.mark.parametrize("sql", spellings.UNDERSTOOD + spellings.NOT_MISREAD + spellings.REFUSED)
def test_spellings(sql: str) -> None:
    assert agrees(sql)


def test_soup() -> None:
    rng = random.Random("validate")
    for _ in range(1_500):
        sql = soup(rng)
        assert agrees(sql), sql


def agrees(sql: str) -> bool:
    """Whether `validate` and `add` say the same, and every place is inside the text."""
    problems = validate(sql, spellings.ATTRIBUTES)
    places = all(0 <= start <= end <= len(sql) and message for start, end, message in problems)
    ordered = problems == sorted(problems)
    return places and ordered and taken(sql) == (not problems)


def taken(sql: str) -> bool:
    try:
        Matcher(attributes=spellings.ATTRIBUTES, index="scan").add("x", sql)
    except SubscriptionError:
        return False
    return True


@pytest.mark.parametrize("add", [lambda m, sql: m.add("x", sql), lambda m, sql: m.add_many([("x", sql)])])
def test_errors_of_a_matcher_know_the_place(add: Any) -> None:
    with pytest.raises(SubscriptionError) as caught:
        add(Matcher(), "a = 1 AND b > c")
    assert (caught.value.start, caught.value.end) == (14, 15)
    assert caught.value.reason.startswith("expected a literal, got the attribute c")
