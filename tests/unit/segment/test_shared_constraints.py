"""Constraints that many subscriptions of a batch share are bound once, and those that only look equal are not."""

from __future__ import annotations

import gc

import pytest

import earmark


def test_equal_literals_of_different_types() -> None:
    """In Python 1 = 1.0 = True; for an integer attribute 1 and 1D are not the same question at 2**53."""
    m = earmark.Matcher(attributes={"n": "integer", "f": "float", "b": "boolean"})
    big = 2**53
    m.add_many(
        [(0, f"n = {big}"), (1, f"n = {big}.0D"), (2, f"n = {big}"), (3, f"n = {big}.0D"), (4, "b"), (5, "f = 1")]
    )
    assert m.match({"n": big}) == [0, 1, 2, 3]
    assert m.match({"n": big + 1}) == [1, 3]
    assert m.match({"b": True, "f": 1.0}) == [4, 5]


def test_the_same_text_on_other_attributes_and_negated() -> None:
    m = earmark.Matcher()
    m.add_many([("a", "x > 3"), ("b", "y > 3"), ("c", "NOT (x > 3)"), ("d", "x > 3"), ("e", "x >= 3")])
    assert m.match({"x": 4, "y": 0}) == ["a", "d", "e"]
    assert m.match({"x": 3, "y": 9}) == ["b", "c", "e"]


def test_strings_that_get_keys_later() -> None:
    m = earmark.Matcher()
    m.add_many([(i, f"s >= 'k{i % 5}'") for i in range(50)])
    assert m.match({"s": "k2"}) == [i for i in range(50) if i % 5 <= 2]


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        m = earmark.Matcher()
        m.add_many([(i, f"a > {i}") for i in range(5)])
        assert gc.isenabled() is enabled
        with pytest.raises(earmark.SubscriptionError):
            m.add_many([(9, "a >")])
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
