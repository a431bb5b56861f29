"""Widening binds conditions again, and met a string constant whose key had been dropped: no bound lay on it."""

from __future__ import annotations

from earmark import Matcher


def test_a_constant_that_no_bound_lies_on() -> None:
    m = Matcher()
    m.add(1, "i > 3 AND s = 'a' AND s < 'zzz'")
    other = Matcher()
    other.add_many(m.to_arrow())
    assert other.match({"i": 3.5, "s": "a"}) == [1]
