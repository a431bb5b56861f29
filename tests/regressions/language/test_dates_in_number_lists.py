"""A list with a double and a date escaped as a TypeError."""

from __future__ import annotations

import pytest

from earmark import Matcher, SubscriptionError


@pytest.mark.parametrize(
    "sql", ["a IN (1.5D, TIMESTAMP '2024-01-01')", "a IN (1.5D, DATE '2024-01-01')", "a IN (1D, 'x')"]
)
def test_it_is_refused(sql: str) -> None:
    with pytest.raises(SubscriptionError, match=r"a IN \(1.*\): expected values of one type, got 1"):
        Matcher(attributes={"a": "float"}).add("one", sql)
