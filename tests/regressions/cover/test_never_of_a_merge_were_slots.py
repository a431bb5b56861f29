"""`merge(…).never` held places in the table instead of ids."""

from __future__ import annotations

from earmark import Matcher
from earmark.cover import merge


def test_they_are_ids() -> None:
    matcher = Matcher("scan")
    matcher.add_many([("gone", "a > 1"), ("b", "a < 3 AND a > 5"), ("c", "a = 4"), ("d", "b = 1 AND b = 2")])
    matcher.remove("gone")
    matcher.update("b", "a < 2 AND a > 5")  # a new slot, at its old place in the order
    assert merge(matcher, [], 0.0).never == ("b", "d")
