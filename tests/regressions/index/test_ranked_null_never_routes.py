"""A clause that accepts NULL is found by events that lack the attribute, in exact and in relaxed search."""

from __future__ import annotations

import pytest
from tests.unit.index.ranked.scored_cases import STRUCTURES

import earmark
from earmark import index as indexes


@pytest.mark.parametrize("name", sorted(set(STRUCTURES) & set(indexes.names())))
def test_absence_is_enough(name: str) -> None:
    matcher = earmark.Matcher(name)
    matcher.add_many([("either", "a IS NULL OR a > 5"), ("both", "(a IS NULL OR a > 5) AND b = 1"), ("plain", "b = 1")])
    assert matcher.match({}) == ["either"]
    assert matcher.match({"b": 1}) == ["either", "both", "plain"]
    assert [m.id for m in matcher.top_k({}, mode="relaxed")] == ["either", "both"]
    assert [m.id for m in matcher.top_k({"a": 3, "b": 1}, mode="relaxed")] == ["both", "plain"]
