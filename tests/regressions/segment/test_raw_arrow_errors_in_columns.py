"""Whole numbers beyond 2^53 among bounds of a float, in scores and in weights raised Arrow's own error, half-way."""

from __future__ import annotations

import pyarrow as pa
import pytest

from earmark import Matcher

BIG = 2**53 + 1


@pytest.mark.parametrize("index", ["scan", "be_star_tree"])
def test_they_are_rounded_as_doubles_are(index: str) -> None:
    m = Matcher(index, attributes={"a": "float"})
    m.add_many(pa.table({"id": [1, 2], "a_lo": [BIG, 1], "a_hi": [None, BIG], "score": [BIG, 0]}))
    assert m.match({"a": float(2**53)}) == [1, 2]
    ranges = [[{"attribute": "b", "lo": 1, "hi": BIG, "weight": BIG}]]
    m.add_many(pa.table({"id": [3], "ranges": ranges}))
    assert m.top_k({"b": 1})[0].score == float(BIG)
    m.check()


def test_the_greatest_integer_is_a_bound_like_others() -> None:
    """It was taken for open when the attribute became a float."""
    m = Matcher()
    m.add_many(pa.table({"id": [1], "a_lo": [0], "a_hi": [2**63 - 1]}))
    m.add(2, "a > 0.5")
    found = [m.match({"a": value}) for value in (2**63 - 1, 2**63, 1e300, 0)]
    assert found == [[1, 2], [2], [2], [1]]
    m.check()
