"""A lower bound at the greatest integer was taken for an open end, so `x = 2^63 - 1` became `x >= 2^63`."""

from __future__ import annotations

import pyarrow as pa
import pytest

from earmark import AttributeTypeError, Matcher


@pytest.mark.parametrize("bound", [2**63 - 1, -(2**63)])
def test_bounds_at_the_ends(bound: int) -> None:
    m = Matcher()
    m.add_many(pa.table({"id": [1], "x_lo": [bound], "x_hi": [bound]}))
    with pytest.raises(AttributeTypeError, match="beyond 2"):
        m.match({"x": 1e300})
    assert m.match({"x": bound}) == [1]
