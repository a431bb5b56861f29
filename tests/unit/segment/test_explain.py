"""Why it matched, or not, in words and as values."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from earmark import Interval, Matcher, Verification
from earmark.engine.verify import Difference


def explained(condition: str, event: dict[str, Any], **options: Any) -> Any:
    m = Matcher(attributes=options.pop("attributes", None))
    m.add("x", condition, **options)
    return m.explain("x", event)


def test_over_or() -> None:
    found = explained("a > 3 AND b = 'x' OR a < 0", {"a": 5, "b": "y"}, weights={"a": 2.0}, score=1.0)
    assert not found.matched
    assert found.score is None
    first, second = found.clauses
    assert [(c.attribute, c.asked, c.got, c.held, c.weight) for c in first.constraints] == [
        ("a", "a > 3", 5, True, 2.0),
        ("b", "b = 'x'", "y", False, 1.0),
    ]
    assert [c.asked for c in first.failing()] == ["b = 'x'"]
    assert second.failing()[0].asked == "a < 0"
    assert str(found).split("\n") == [
        "'x' does not match",
        "  clause 1 of 2 fails",
        "    ✓ a > 3   (a = 5)",
        "    ✗ b = 'x'   (b = 'y')",
        "  clause 2 of 2 fails",
        "    ✗ a < 0   (a = 5)",
    ]


def test_a_match_and_its_best_clause() -> None:
    m = Matcher()
    m.add(7, "a > 3 OR a > 3 AND b > 1", weights={"a": 2.0, "b": 0.5}, score=1.0)
    found = m.explain(7, {"a": 5, "b": 2}, weights={"b": 4.0})
    assert [c.score for c in found.clauses] == [3.0, 5.0]
    assert (found.matched, found.score) == (True, 5.0)
    assert str(found).split("\n") == [
        "7 matches, score 5",
        "  clause 1 of 2 holds, score 3",
        "      1  static score",
        "    + 2  ✓ a > 3   (a = 5)",
        "  clause 2 of 2 holds, score 5",
        "      1            static score",
        "    + 2            ✓ a > 3   (a = 5)",
        "    + 0.5 × 4 = 2  ✓ b > 1   (b = 2)",
    ]
    assert found.static_score == 1.0
    assert [(c.weight, c.event_weight, c.part) for c in found.clauses[1].constraints] == [(2, 1, 2), (0.5, 4, 2)]


def test_what_adds_nothing_to_the_score() -> None:
    found = explained("a IS NULL AND b > 1", {"b": 2}, weights={"a": 3.0})
    assert str(found) == "'x' matches, score 1\n  + 0  ✓ a IS NULL   (a is missing)\n  + 1  ✓ b > 1   (b = 2)"
    assert (
        str(explained("TRUE", {}, score=2.5)) == "'x' matches, score 2.5\n    2.5  static score\n         ✓ always true"
    )


def test_short_for_people_at_a_prompt() -> None:
    m = Matcher("scan")
    m.add_many(
        [("x", "a > 3 AND b > 1"), ("y", "a > 3"), ("z", "a > 3 OR b < 1 AND b > 2"), ("never", "a < 1 AND a > 2")]
    )
    assert repr(m.explain("x", {"a": 5, "b": 2})) == "<Explanation: 'x' matches, score 2>"
    assert repr(m.explain("x", {"a": 5})) == "<Explanation: 'x' does not match>"
    assert repr(m.near_misses({"a": 5}, limit=1)) == "[<NearMiss: 'x' misses by b > 1 (b is missing)>]"
    assert (
        repr(m.audit()) == "<Audit of 4 subscriptions: 1 duplicate, 1 covered, 1 never matches, 1 clause never matches>"
    )
    assert repr(Matcher("scan").audit()) == "<Audit of 0 subscriptions: nothing found>"
    assert repr(m.verify([{"a": 5}, {}])) == "<Verification: 2 events, 2 matches, no differences>"
    wrong = Verification(1, 1, (Difference(0, "x", "missing"), *[Difference(0, i, "extra") for i in range(9)]))
    assert repr(wrong).endswith("10 differences (event 0: 'x' missing; event 0: 0 extra; event 0: 1 extra; …)>")


def test_one_attribute_is_one_constraint() -> None:
    found = explained("a > 3 AND a < 9 AND a != 5 AND (a = 4 OR a = 5)", {"a": 5})
    (clause,) = found.clauses
    (held,) = clause.constraints
    assert held.asked == "a > 3 AND a < 9 AND a != 5 AND (a = 4 OR a = 5)"
    assert not held.held


@pytest.mark.parametrize(
    ("condition", "asked"),
    [
        ("NOT (a > 3)", "a <= 3"),
        ("NOT a IN (1, 2)", "a NOT IN (1, 2)"),
        ("NOT a BETWEEN 1 AND 2", "a NOT BETWEEN 1 AND 2"),
        ("NOT a IS NULL", "a IS NOT NULL"),
        ("(a > 3) IS NOT TRUE", "(a > 3) IS NOT TRUE"),
        ("(a > 3) IS NOT FALSE", "(a > 3) IS NOT FALSE"),
        ("a <=> 3", "a <=> 3"),
        ("5 > a", "a < 5"),
    ],
)
def test_not_is_pushed_down(condition: str, asked: str) -> None:
    (clause,) = explained(condition, {"a": 3}).clauses
    assert clause.constraints[0].asked == asked


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "a is missing"),
        (pd.NA, "a is missing"),
        (Interval(1, 2), "a in [1, 2]"),
        (5, "a = 5"),
    ],
)
def test_what_the_event_gave(value: Any, words: str) -> None:
    assert str(explained("a > 3", {"a": value})).endswith(f" a > 3   ({words})")


def test_values_of_every_type_as_literals() -> None:
    event = {"s": "it's", "d": date(2024, 1, 5), "t": datetime(2024, 1, 5, 8, tzinfo=UTC), "b": True, "f": 2.5}
    text = str(explained("s = 'x' AND d IS NULL AND t IS NULL AND b AND f > 1D", event))
    for words in (
        "s = 'it''s'",
        "d = DATE '2024-01-05'",
        "t = TIMESTAMP '2024-01-05 08:00:00Z'",
        "b = TRUE",
        "f = 2.5D",
    ):
        assert f"({words})" in text


def test_missing_extended_and_null() -> None:
    found = explained("a IS NULL AND b IN (1, 9) AND c != 4", {"b": Interval(2, 9), "c": Interval(4, 4)})
    assert [(c.attribute, c.got, c.held) for c in found.clauses[0].constraints] == [
        ("a", None, True),
        ("b", Interval(2, 9), True),
        ("c", Interval(4, 4), False),
    ]


@pytest.mark.parametrize(
    ("name", "event", "got"),
    [
        ("user.age", {"user": {"age": 5}}, 5),
        ("user.age", {"user.age": 5}, 5),
        ("user.age", {"user.age": None, "user": {"age": 5}}, 5),
        ("a.b.c", {"a": {"b": {"c": 5}}}, 5),
        ("a.b.c", {"a.b": {"c": 5}}, 5),
        ("a.b.c", {"a": {"b.c": 5}}, 5),
        ("a.b.c", {"a": {"b": 3}}, None),
        ("user.age", {"user": 5}, None),
        ("user.age", {}, None),
    ],
)
def test_nested_names(name: str, event: dict[str, Any], got: Any) -> None:
    found = explained(f"{name} > 3", event)
    assert found.clauses[0].constraints[0].got == got
    assert found.matched is (got is not None)


def test_an_attribute_given_twice() -> None:
    m = Matcher()
    m.add("x", "user.age > 3")
    from earmark import EventError

    with pytest.raises(EventError, match=r"attribute 'user\.age' is given twice"):
        m.match({"user.age": 5, "user": {"age": 5}})


def test_constants() -> None:
    assert str(explained("TRUE", {})) == "'x' matches, score 0\n  ✓ always true"
    assert str(explained("FALSE", {})) == "'x' does not match\n  ✗ always false"
    assert str(explained("a > 3 OR TRUE", {})).split("\n")[-1] == "    ✓ always true"


def test_ready_made() -> None:
    m = Matcher()
    m.add_many(pa.table({"id": ["x"], "a_lo": [1], "a_hi": [None], "`odd name`_lo": ["p"], "`odd name`_hi": ["p"]}))
    text = str(m.explain("x", {"a": 0}))
    assert "✗ a >= 1   (a = 0)" in text
    assert "✗ ```odd name``` = 'p'" in text


def test_it_learns_as_little_as_a_search() -> None:
    m = Matcher()
    m.add("x", "a > 3 AND b IS NOT NULL")
    for value in ("text", [1], 7):
        assert m.explain("x", {"a": 3.5, "b": value}).matched
    assert m.stats()["attributes"] == {"a": "number", "b": None}


def test_an_interval_as_a_mapping() -> None:
    """It is shown as the interval that it means; a mapping for an attribute without a type is only present."""
    found = explained("a > 3 AND b IS NOT NULL", {"a": {"lo": 1, "hi": 9}, "b": {"lo": 1}})
    assert [c.got for c in found.clauses[0].constraints] == [Interval(1, 9), {"lo": 1}]
    assert "(a in [1, 9])" in str(found)


def test_in_a_notebook_an_explanation_is_a_table_of_escaped_text() -> None:
    m = Matcher()
    m.add("<b>", "city = '<script>' AND age > 3")
    html = m.explain("<b>", {"city": "<script>", "age": 2})._repr_html_()
    assert html.startswith("<table><caption>&#x27;&lt;b&gt;&#x27; does not match</caption>")
    assert "<script>" not in html and "city = &#x27;&lt;script&gt;&#x27;" in html
    assert "<td>✗</td><td>age &gt; 3</td>" in html
