"""What a subscription asked that had been removed still had a say in what others could ask and events could have."""

from __future__ import annotations

from earmark import Matcher


def test_what_the_removed_asked_does_not_count() -> None:
    m = Matcher()
    m.add(1, "x > 1")
    m.add(2, "x = 9007199254740993")
    m.remove(2)
    assert m.match({"x": 1.5}) == [1]
    m.remove(1)
    assert m.match({"x": "text"}) == []
    m.add(3, "x = 'text'")
    assert m.match({"x": "text"}) == [3]
