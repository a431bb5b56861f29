"""Near the left border, pivot and covering VCRs have corners outside the grid; without room for them in the numbering,
their IDs would be those of VCRs at the right end of the row below, and answer for them."""

from __future__ import annotations

import pytest

from earmark import Matcher


@pytest.mark.parametrize("numbering", ["corner", "shape"])
@pytest.mark.parametrize("store", ["array", "hashed"])
def test_no_row_reaches_into_the_next(numbering: str, store: str) -> None:
    matcher = Matcher(
        "vcr", index_options={"attributes": (0, 1), "numbering": numbering, "store": store, "longest": (8, 8)}
    )
    size = 9
    for a in range(size):
        for b in range(size):
            matcher.add(f"{a},{b}", f"a BETWEEN {max(0, a - 3)} AND {a} AND b BETWEEN {b} AND {min(size - 1, b + 2)}")
    for a in range(-1, size + 1):
        for b in range(-1, size + 1):
            wanted = [
                f"{x},{y}"
                for x in range(size)
                for y in range(size)
                if max(0, x - 3) <= a <= x and y <= b <= min(size - 1, y + 2)
            ]
            assert matcher.match({"a": a, "b": b}) == wanted
