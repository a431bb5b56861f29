"""A search within a scope broke where no subscription had tags, by an error of Python's."""

from __future__ import annotations

from earmark import Matcher


def test_a_scope_that_nobody_carries() -> None:
    m = Matcher()
    scope = {"tenant": "acme"}
    assert m.match({"a": 1}, scope=scope) == []
    m.add(1, "a > 0")
    assert m.match({"a": 1}, scope=scope) == []
    m.add(2, "a > 0", tags=scope)
    assert m.match({"a": 1}, scope=scope) == [2]
    m.add(3, "a > 0")
    assert m.match({"a": 1}, scope=scope) == [2]
