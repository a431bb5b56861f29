"""Events that are no mappings, sequences that cannot be sliced, integers of thousands of digits."""

from __future__ import annotations

from collections import deque
from datetime import date
from typing import Any

import pytest

from earmark import EarmarkError, Matcher, Reject

HUGE = 10**5000


def test_what_is_no_mapping_is_rejected() -> None:
    m = Matcher("scan")
    m.add("x", "a > 5")
    rejects: list[Reject] = []
    found = m.match_many([5, {"a": 6}, None, "ab"], on_error="reject", rejects=rejects)
    assert found["event"].to_pylist() == [1] and [one.event for one in rejects] == [0, 2, 3]
    assert m.match_many(deque([{"a": 6}])).num_rows == 1
    assert m.unseen_attributes().in_events == []
    m.add("y", "b = 1")
    m.remove("y")
    assert m.unseen_attributes().in_rules == []
    with pytest.raises(EarmarkError, match="for on_error, got 'drop'"):
        m.match_reader([], on_error="drop")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.add(HUGE, "a > 1"),
        lambda m: m.add(1, "a > 1", score=HUGE),
        lambda m: m.add(1, "a > 1", weights={"a": HUGE}),
        lambda m: m.top_k({"a": 6}, weights={"a": HUGE}),
        lambda m: m.top_k({"a": 6}, -HUGE),
        lambda m: m.match({"a": {"lo": HUGE, "hi": 3}}),
        lambda m: m.match({"s": [HUGE]}),
    ],
)
def test_huge_integers(call: Any) -> None:
    m = Matcher("scan")
    m.add(0, "a > 5 OR s = 'x'")
    with pytest.raises(EarmarkError):
        call(m)
    assert m.match({"a": HUGE}) == m.match({"a": 2**1024}) == [0] and m.match({"a": -HUGE}) == []


def test_another_type_for_one_attribute_leaves_the_others_alone() -> None:
    """A date that was learned from a rule since removed was learned again, from a string."""
    m = Matcher("scan")
    m.add("s1", "a > 1 AND b = DATE'2024-01-01'")
    m.add("s2", "a > 2 AND b > '2024-02-01'")
    m.update("s1", score=1.0)
    m.retype("a", "integer")
    m.remove("s1")
    m.update("s2", score=1.0)
    m.retype("a", "float")
    assert m.match({"a": 3.5, "b": date(2024, 3, 1)}) == ["s2"]
    assert m.attributes["b"].type == "date"
    m.check()
