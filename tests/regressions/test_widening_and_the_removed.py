"""A bound beyond 2^53 of a subscription that had been removed still forbade widening."""

from __future__ import annotations

from earmark import Matcher


def test_what_the_removed_asked_does_not_count() -> None:
    m = Matcher()
    m.add(1, "x > 1")
    m.add(2, "x = 9007199254740993")
    m.remove(2)
    assert m.match({"x": 1.5}) == [1]
