"""Ten lists of 14,000 values, each with an alternative, became 72 million intervals: 2.4 GB and 23 seconds.

Only clauses were counted, not the values in them; lists of a known shape were not counted at all.
"""

from __future__ import annotations

import time
import tracemalloc

import pytest

from earmark import Matcher, SubscriptionError, parse
from earmark.language.normal import MAX_VALUES, normal_form
from earmark.language.parse import parse_clauses


def repeated(values: int, word: str = "a IN ({})") -> str:
    """Ten lists with this many values together; each value is repeated in 512 clauses."""
    lists = [",".join(str(10 * i + j) for i in range(values // 10)) for j in range(10)]
    return " AND ".join(f"({word.format(numbers)} OR a{j} = 1)" for j, numbers in enumerate(lists))


@pytest.mark.parametrize(
    ("word", "values"), [("a IN ({})", 140_000), ("a NOT IN ({})", 40_000), ("b{{}} IN ({})", 40_000)]
)
def test_it_is_refused_at_once(word: str, values: int) -> None:
    sql = repeated(values, word.replace("{{}}", ""))
    tracemalloc.start()
    start = time.process_time()
    with pytest.raises(SubscriptionError, match="more than 524,288 in all clauses; split it"):
        parse_clauses(sql)
    assert time.process_time() - start < 4  # most of it is the tracing of memory
    assert tracemalloc.get_traced_memory()[1] < 60e6
    tracemalloc.stop()


def test_a_known_shape_is_counted_again() -> None:
    matcher = Matcher()
    matcher.add("small", repeated(200))
    with pytest.raises(SubscriptionError, match="more than 524,288 in all clauses"):
        matcher.add("large", repeated(20_000))
    assert matcher.match({"a": 7, "a0": 1}) == []


def test_alternatives_on_one_attribute_are_counted() -> None:
    sql = " AND ".join("(" + " OR ".join(f"a = {10 * i + j}" for i in range(900)) + f" OR a{j} = 1)" for j in range(10))
    with pytest.raises(SubscriptionError, match="more than 524,288 in all clauses"):
        parse_clauses(sql)
    with pytest.raises(SubscriptionError, match="its ORs repeat its values"):
        normal_form(parse(sql))


def test_both_ways_count_the_same() -> None:
    fits, more = repeated(1_000), repeated(1_050)
    assert 512 * 1_000 < MAX_VALUES < 512 * 1_050
    assert len(parse_clauses(fits)) == len(normal_form(parse(fits))) == 1024
    with pytest.raises(SubscriptionError):
        parse_clauses(more)
    with pytest.raises(SubscriptionError, match="its ORs repeat its values"):
        normal_form(parse(more))


@pytest.mark.parametrize("sql", ["a IN ({})", "a NOT IN ({})", "a IN ({}) OR b = 1", "(a IN ({})) IS NOT TRUE"])
def test_a_long_list_is_still_taken(sql: str) -> None:
    matcher = Matcher()
    matcher.add("long", sql.format(",".join(str(2 * i) for i in range(140_000))))
    assert matcher.match({"a": 4}) == ([] if "NOT" in sql else ["long"])
    assert matcher.match({"a": 5}) == (["long"] if "NOT" in sql else [])


def test_ors_of_bombs_are_counted_before_they_are_expanded() -> None:
    bomb = "(" + " AND ".join(f"(a{j} = 1 OR b{j} = 1)" for j in range(9)) + ")"
    start = time.process_time()
    with pytest.raises(SubscriptionError, match="more than 1,024 clauses"):
        parse_clauses(" OR ".join([bomb] * 400))
    assert time.process_time() - start < 6
