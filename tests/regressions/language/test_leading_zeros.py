"""Leading zeros: thousands of them escaped as a ValueError, and some dozens carried `L` past 64 bits."""

from __future__ import annotations

import pytest

from earmark import Predicate, SubscriptionError, parse


def test_thousands_of_zeros() -> None:
    with pytest.raises(SubscriptionError, match="more than 1,000 characters"):
        parse("a = " + "0" * 5_000 + "5")
    assert parse("a = " + "0" * 500 + "5") == Predicate("a", "=", 5)


def test_zeros_before_a_bigint_out_of_range() -> None:
    with pytest.raises(SubscriptionError, match="64 bits"):
        parse("a = " + "0" * 39 + "99999999999999999999L")
