"""Attributes named like words of SQL were refused, or their own text could not be read again."""

from __future__ import annotations

import pytest

from earmark import Matcher, Predicate


@pytest.mark.parametrize("name", ["comment", "order", "set", "desc", "kill", "values", "date", "case", "any"])
def test_it_is_a_name(name: str) -> None:
    matcher = Matcher()
    matcher.add("by object", Predicate(name, ">", 3))
    matcher.add("by its text", matcher["by object"].condition)
    assert matcher.match({name: 4}) == ["by object", "by its text"]
    assert matcher.explain("by object", {name: 3}).matched is False
