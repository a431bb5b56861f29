"""A wrong `at` was not noticed while no subscription started or ended, and failed on the day that one did."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pytest

from earmark import EventError, Matcher

SEARCHES: dict[str, Callable[[Matcher, Any], Any]] = {
    "match": lambda m, at: m.match({"age": 4}, at=at),
    "top_k": lambda m, at: m.top_k({"age": 4}, at=at),
    "match_many": lambda m, at: m.match_many([{"age": 4}], at=at),
    "no events": lambda m, at: m.match_many([], at=at),
    "top_k_many": lambda m, at: m.top_k_many([{"age": 4}], at=at),
    "match_reader": lambda m, at: m.match_reader(iter([]), at=at),
    "top_k_reader": lambda m, at: m.top_k_reader(iter([]), at=at),
    "explain": lambda m, at: m.explain("x", {"age": 4}, at=at),
    "near_misses": lambda m, at: m.near_misses({"age": 4}, at=at),
}
WRONG = ["soon", "", float("nan"), 5, True, [datetime(2026, 3, 1, tzinfo=UTC)], object()]


@pytest.fixture(params=[{}, {"ends": "2030-01-01"}], ids=["without lives", "with lives"])
def m(request: pytest.FixtureRequest) -> Matcher:
    matcher = Matcher("scan")
    matcher.add("x", "age > 3", **request.param)
    return matcher


@pytest.mark.parametrize("search", SEARCHES)
def test_what_is_no_moment_is_refused(m: Matcher, search: str) -> None:
    for at in WRONG:
        with pytest.raises(EventError, match=r"expected a moment such as .* for `at`, got"):
            SEARCHES[search](m, at)


@pytest.mark.parametrize("at", [None, "2026-03-01", date(2026, 3, 1), datetime(2026, 3, 1), datetime.now(UTC)])
def test_moments_are_taken(m: Matcher, at: Any) -> None:
    assert m.match({"age": 4}, at=at) == ["x"]
    assert m.match_many([{"age": 4}], at=at).num_rows == 1
