"""Texts that differ in their names and literals share a template; each still means what it says."""

from __future__ import annotations

import pytest
from hypothesis import given
from tests.oracle.generate import conditions
from tests.oracle.syntax import Node, to_sql

from earmark.errors import SubscriptionError
from earmark.language import parse as parsing
from earmark.language.normal import normal_form
from earmark.language.parse import parse, parse_clauses
from earmark.language.tokens import lex


def forget() -> None:
    parsing._templates.clear()
    parsing._forms.clear()


@pytest.mark.parametrize(
    "texts",
    [
        ["a = 1 AND b = 2", "a = 1 AND a = 2", "b = 3 AND a = 4", "x = 1 AND `x` = 2"],
        ["a < 3 OR b < 3", "a < 3 OR a < 3", "(c < 9 OR c < 8)"],
        ["a.b = 1 AND c = 2", "`a.b` = 1 AND a.b = 2", "a.b = 1 AND `a.b` = 2", "p = 1 AND q = 2"],
        [
            "a = 1",
            "a = -1",
            "a = 1.5",
            "a = '1'",
            "a = DATE '2024-01-01'",
            "b = DATE '2025-01-01'",
            "`é` = 1",
            "b = '2'",
        ],
        ["a IN (1, 2)", "b IN (1, 2, 3)", "c IN ('x')", "d NOT IN ('x', 'y')", "e LIKE 'x%'", "f LIKE 'y%'"],
        ["a", "NOT b", "a AND NOT b", "b AND NOT b", "a IS NULL AND b <=> 3", "c IS NULL AND c <=> 4"],
    ],
)
def test_each_means_what_it_says(texts: list[str]) -> None:
    alone = []
    for text in texts:
        forget()
        alone.append(parse_clauses(text))
    for order in (texts, texts[::-1], texts + texts):
        forget()
        for text in order:
            assert parse_clauses(text) == alone[texts.index(text)]


def test_a_template_with_other_names_is_made_without_the_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    forget()
    parse_clauses("age BETWEEN 1 AND 2 AND city IN ('x')")
    monkeypatch.setattr(parsing, "_condition", lambda lexed: pytest.fail("it was parsed"))
    ((p, q),) = parse_clauses("p BETWEEN 3 AND 9 AND q IN ('y', 'z')")
    assert (p[0], q[0]) == ("p", "q")


@given(node=conditions())
def test_any_condition_with_other_names(node: Node) -> None:
    text = to_sql(node)
    lexed, other = lex(text), text
    for name, (start, end) in reversed(list(zip(lexed.names, lexed.name_spans, strict=True))):
        quoted = name.replace("`", "``")
        other = f"{other[:start]}`z{quoted}`{other[end:]}"
    forget()
    parse_clauses(text)
    assert parse_clauses(other) == normal_form(parse(other))


def test_what_is_refused_stays_refused() -> None:
    forget()
    parse_clauses("age > 3")
    for text in (f"{'n' * 1_001} > 3", "age > > 3", "a > b", "a\ud800 > 3"):
        with pytest.raises(SubscriptionError):
            parse_clauses(text)
