"""A lower bound at the greatest integer was taken for an open end, so `x = 2^63 - 1` became `x >= 2^63`."""

from __future__ import annotations

import pyarrow as pa
import pytest

from earmark import Matcher


@pytest.mark.parametrize("bound", [2**63 - 1, -(2**63)])
@pytest.mark.parametrize("type_", [None, "integer"])
def test_bounds_at_the_ends(bound: int, type_: str | None) -> None:
    m = Matcher(attributes={"x": type_} if type_ else None)
    m.add_many(pa.table({"id": [1], "x_lo": [bound], "x_hi": [bound]}))
    assert m.match({"x": bound}) == [1]
    if type_ is None:
        for other in (1e300, -1e300, 2**63, -(2**63) - 1, float(2**63), float("inf"), float("nan"), 0.5):
            assert m.match({"x": other}) == []
        m.add(2, "x < 3.5")
        assert m.match({"x": bound}) == ([1] if bound > 0 else [1, 2])
