"""A Decimal of more digits than Python's context has was rounded before it was compared with the attribute's scale."""

from __future__ import annotations

from decimal import Decimal

import pytest

from earmark import Matcher
from earmark.errors import EventError


def test_the_digits_count() -> None:
    m = Matcher(attributes={"m": "decimal(3,1)"})
    m.add("x", "m = 0.1")
    assert m.match({"m": Decimal("0.1000000000000000000000000000000000000")}) == ["x"]
    with pytest.raises(EventError, match="without rounding"):
        m.match({"m": Decimal("0.1000000000000000000000000000000000001")})
