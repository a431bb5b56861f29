"""The fast path, the full parse and plain sqlglot read the same condition, whatever the literals."""

from __future__ import annotations

import random
import re
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz import plain
from tests.fuzz.soup import text
from tests.oracle import generate, spellings
from tests.oracle.syntax import to_sql

from earmark import Predicate, SubscriptionError, parse
from earmark.language import grammar
from earmark.language import parse as parsing
from earmark.language.normal import normal_form
from earmark.language.parse import parse_clauses


def clauses(sql: str) -> Any:
    """The clauses through the cache, or the message."""
    try:
        return repr(parse_clauses(sql))  # NaN is not itself, and 1 is 1.0; their texts tell
    except SubscriptionError as problem:
        return str(problem)


def clauses_in_full(sql: str) -> Any:
    """The clauses by the full parse, or the message."""
    try:
        return repr(normal_form(parse(sql)))
    except SubscriptionError as problem:
        return str(problem)


@given(st.randoms(use_true_random=False))
def test_random_conditions(rng: random.Random) -> None:
    sql = to_sql(generate.condition(rng))
    assert clauses(sql) == clauses(sql) == clauses_in_full(sql)
    assert plain.plain(sql) == plain.plain_condition(parse(sql))


@pytest.mark.parametrize("sql", spellings.UNDERSTOOD + spellings.NOT_MISREAD + spellings.REFUSED)
def test_spellings(sql: str) -> None:
    assert clauses(sql) == clauses(sql) == clauses_in_full(sql)


# Escapes that sqlglot keeps, suffixes and forms that it reads as functions or types of its own.
BEYOND_SQLGLOT = re.compile(r"\\|[0-9.](BD|[FSY])\b|CAST|DISTINCT|[ !]!|^!|\+3|1\. *$|2024-1-5")


@pytest.mark.parametrize("sql", [sql for sql in spellings.UNDERSTOOD if not BEYOND_SQLGLOT.search(sql)])
def test_spellings_by_plain_sqlglot(sql: str) -> None:
    assert plain.plain(sql) == plain.plain_condition(parse(sql))


LITERALS = [
    *("7", "0", ".5", "5.", "1e3", "3L", "300Y", "9" * 40, "-3", "- 3", "3L4", "1 2", "NULL", "TRUE", "b", "(3)", ""),
    *("'x'", "'it''s'", '"y"', "'2024-01-05'", "'%'", "''", "DATE '2024-01-05'", "`x y`", "''''", "'\\'", "'", '"'),
    *("'x", '"x', "`x"),
]
LISTS = [
    *("(1)", "(1, 2)", "('x')", "( 'x' , NULL,-1 )", "(DATE '2024-01-05', 'x')", "()", "(1,)", "(1 2)", "(b)", "((1))"),
    *("('x)", "('x', 'y)", "(1", "(-'x')", "(- NULL)"),
]
SHAPES = [
    *("a = {} AND s > {}", "NOT a IN {}", "a BETWEEN {} AND {}", "`a 1` = {}", "s LIKE {} ESCAPE {}", "d = DATE {}"),
    *("{} < a OR a.b = {}", "a in{} or c=-{}", "a={}and b={}", "x{} = {}", "a IN  {}", "t >= TIMESTAMP{}", "s = {}"),
]


def test_one_shape_with_other_literals() -> None:
    """Every literal of a known shape is replaced by others, of the same kind and of any other."""
    rng = random.Random("literals")
    for _ in range(4000):
        shape = rng.choice(SHAPES)
        filled = [rng.choice(LISTS if "in" in shape.lower() and rng.random() < 0.8 else LITERALS) for _ in range(2)]
        sql = shape.format(*filled)
        assert clauses(sql) == clauses_in_full(sql), sql


def test_soup() -> None:
    rng = random.Random("agreement")
    for _ in range(3000):
        sql = text(rng)
        assert clauses(sql) == clauses(sql) == clauses_in_full(sql), sql


def test_known_shapes_skip_the_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["q1 = {} AND q2 IN ({}, {}) AND `q 3` > '{}'", "q1 BETWEEN {} AND {} OR q2 LIKE '{}%' AND q4 != -{}"]
    for sql in texts:
        parse_clauses(sql.format(1, 2, 3, 4))

    def unexpected(shape: str) -> Any:
        raise AssertionError(f"{shape} is known")

    monkeypatch.setattr(grammar, "_tree", unexpected)
    for sql in texts:
        parse_clauses(sql.format(5, 6, 7, 8))
    parse_clauses("q1 = 5 AND q2 IN ('x', NULL, 3.5, 1, 2, 3) AND `q 3` > 'y'")


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "_templates", {})
    monkeypatch.setattr(parsing, "_MAX_TEMPLATES", 10)
    for i in range(50):
        parse_clauses(f"bounded{i} = 1")
    assert len(parsing._templates) == 10
    parse_clauses(" OR ".join(f"a{i} = 1" for i in range(500)))
    parse_clauses("a = 1" + " " * 10_000)
    assert max(len("".join(between)) for between in parsing._templates) < 100


def test_threads_share_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "_templates", {})
    monkeypatch.setattr(parsing, "_MAX_TEMPLATES", 5)
    wrong: list[str] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(300):
            number, name = rng.randrange(1000), f"a{rng.randrange(10)}"
            try:
                found = parse_clauses(f"{name} >= {number}")
                if found[0][0][1][0].predicate != Predicate(name, ">=", number):
                    wrong.append(repr(found))
            except Exception as problem:
                wrong.append(repr(problem))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
