"""Any text gives a condition or a SubscriptionError: quickly, with a short sentence, and nothing half-added."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.fuzz.soup import text as soup
from tests.oracle import spellings

from earmark import Condition, Matcher, SubscriptionError, parse

MEBI = 1 << 20
LONGEST_MESSAGE = 2_500  # 200 characters of the text, each as long as an escape can be, and the sentence
LIMIT = 6.0  # seconds of processor time, on machines that others use, too; alone it is under 1.5


def checked(sql: Any) -> Condition | None:
    """The condition, or None for a refusal with a proper message; anything else is an error of the test."""
    try:
        return parse(sql)
    except SubscriptionError as problem:
        message = str(problem)
        not_text = "expected a condition as a string or as Predicates, got "
        assert message.startswith("condition " if isinstance(sql, str) else not_text), message
        assert len(message) < LONGEST_MESSAGE, len(message)
        assert "\x1b" not in message, message
        assert "\n" not in message, message
        assert "sqlglot" not in message, message
        return None


@given(st.text())
@example("''''")
@example("`")
@example("\ud800")
def test_random_text(sql: str) -> None:
    checked(sql)


@given(st.binary())
def test_random_bytes(data: bytes) -> None:
    checked(data.decode("latin-1"))
    checked(data.decode("utf-8", "surrogateescape"))


@settings(max_examples=200)
@given(st.randoms(use_true_random=False), st.text(max_size=3), st.integers(0, 200))
def test_strange_characters_in_conditions(rng: random.Random, strange: str, at: int) -> None:
    sql = soup(rng)
    checked(sql[: at % (len(sql) + 1)] + strange + sql[at % (len(sql) + 1) :])


def test_token_soup_in_a_matcher() -> None:
    """A refused condition leaves no trace, an accepted one can be read back."""
    rng = random.Random("matcher")
    matcher = Matcher(attributes=spellings.ATTRIBUTES)
    matcher.add("first", "a > 3 AND s = 'x' OR q = 'known'")
    refused = 0
    for number in range(1500):
        before = trace(matcher)
        sql = soup(rng)
        try:
            if number % 3:
                matcher.add(str(number), sql)
            else:
                matcher.add_many([(f"{number} good", f"new{number} = 'constant {number}'"), (str(number), sql)])
        except SubscriptionError:
            assert trace(matcher) == before, sql
            refused += 1
        else:
            assert matcher[str(number)].condition == sql
    assert 300 < refused < 1500


def trace(matcher: Matcher) -> tuple[Any, ...]:
    """All that a failed add could have changed."""
    schema = matcher._version.schema
    strings = {number: len(keys) for number, keys in schema.strings.items()}
    stats = {key: value for key, value in matcher.stats().items() if not key.endswith("_bytes")}
    return stats, list(schema.names), strings, matcher.ids()[-1]


def test_a_failed_batch_leaves_the_table_as_it_was() -> None:
    matcher = Matcher()
    matcher.add("one", "a > 3 AND s IN ('x', 'y')")
    before, stats = matcher.to_arrow(), matcher.stats()
    for bad in ("a = ", "s = 3", "t > 'x' AND a = 'x'", "s LIKE '%x'", "d = DATE '2024-02-30'", "a = 1 OR NOT"):
        with pytest.raises(SubscriptionError):
            matcher.add_many([("two", "s = 'z' AND new = 5"), ("three", bad)])
        with pytest.raises(SubscriptionError):
            matcher.add("two", f"new = 5 AND s = 'q' AND ({bad})")
    assert matcher.to_arrow().equals(before, check_metadata=True)
    assert matcher.stats() == stats
    matcher.add("two", "new = 'a text now'")


HOSTILE = {
    "a chain of ORs": " OR ".join(["a=1"] * 10_000),
    "a chain of ORs on many attributes": " OR ".join(f"a{i}=1" for i in range(3_000)),
    "a chain of ANDs": " AND ".join(f"a!={i}" for i in range(3_000)),
    "a chain of ANDs on many attributes": " AND ".join(f"a{i}=1" for i in range(3_000)),
    "ORs without end": (" OR a=1" * MEBI)[4:MEBI],
    "open parentheses": "(" * MEBI,
    "parentheses": "(" * (MEBI // 2 - 2) + "a=1" + ")" * (MEBI // 2 - 2),
    "NOT NOT NOT": "NOT " * (MEBI // 4),
    "!!!": "!" * MEBI,
    "minus signs": "- " * (MEBI // 2),
    "a list of numbers": f"a IN ({','.join(map(str, range(100_000)))})",
    "a list of strings": "s NOT IN (" + ", ".join(f"'{i}'" for i in range(80_000)) + ")",
    "a list that does not end": "a IN (" + "1," * (MEBI // 2 - 4),
    "a list in parts": "a IN (" + ",".join(["(1)"] * 100_000) + ")",
    "commas": "a IN (" + "," * (MEBI - 10),
    "digits": "a = " + "1" * (MEBI - 10),
    "digits and a letter": "a = " + "1" * (MEBI - 10) + "a",
    "leading zeros": "a = " + "0" * (MEBI - 10) + "1",
    "a large exponent": "a = 1e" + "9" * (MEBI - 10),
    "a large decimal exponent": "a = 1e" + "9" * 900 + "BD",
    "numbers and dots": "1." * (MEBI // 2),
    "a bomb of ORs in ANDs": " AND ".join(f"(a{i}=1 OR b{i}=1)" for i in range(1_000)),
    "many clauses of many constraints": " AND ".join(
        [*(f"(a{i}=1 OR b{i}=1)" for i in range(10)), *(f"c{i}=1" for i in range(2_000))]
    ),
    "a bomb of NOTs": "NOT (" * 18 + "a=1" + " AND b=2) OR c=3" * 18,
    "single quotes": "'" * (MEBI - 1),
    "double quotes": '"' * (MEBI - 1),
    "backticks": "`" * (MEBI - 1),
    "escaped quotes": "\\'" * (MEBI // 2),
    "a string that does not end": "a = '" + "x" * (MEBI - 10),
    "escapes that do not end": "a = '" + "\\'" * (MEBI // 2 - 10),
    "a name that does not end": "`" + "a" * (MEBI - 1),
    "names and backticks": "`a" * (MEBI // 2),
    "IN(IN(": "IN(" * (MEBI // 3),
    "IN('IN('": "IN('" * (MEBI // 4),
    "names": "a " * (MEBI // 2),
    "a nested name": "a." * (MEBI // 2 - 4) + "a = 1",
    "a long name": "`" + "a" * (MEBI - 10) + "` = 1",
    "spaces": " " * MEBI,
    "signs": "<" * MEBI,
    "a long pattern": "s LIKE '" + "\\\\%" * (MEBI // 3 - 10) + "'",
    "percent signs": "s LIKE '" + "%" * (MEBI - 20) + "'",
    "escapes": "s = '" + "\\u00e9" * (MEBI // 6 - 10) + "'",
    "NULs": "\0" * MEBI,
    "surrogates": "\ud800" * MEBI,
    "BETWEENs": "a BETWEEN 1 AND " * (MEBI // 16),
    "too long": "a" * (MEBI + 1),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_end_soon(name: str) -> None:
    sql = HOSTILE[name]
    start = time.process_time()
    condition = checked(sql)
    assert time.process_time() - start < LIMIT
    start = time.process_time()
    try:
        Matcher().add("one", sql)
        message = ""
        assert condition is not None
    except SubscriptionError as problem:
        message = str(problem)
    assert len(message) < LONGEST_MESSAGE
    assert time.process_time() - start < 2 * LIMIT


@pytest.mark.parametrize("sql", [None, 3, b"a = 1", ["a = 1"], object, float("nan")])
def test_what_is_no_text_is_refused(sql: Any) -> None:
    assert checked(sql) is None
    with pytest.raises(SubscriptionError):
        Matcher().add("one", sql)


def test_a_caller_deep_in_the_stack_can_parse() -> None:
    sql = "(" * 35 + "a = 1" + ")" * 35

    def deep(levels: int) -> Condition:
        return parse(sql) if levels == 0 else deep(levels - 1)

    assert deep(500) == parse("a = 1")
