"""A point between two grid points is not covered by VCRs that end at the lower one, though the covering set of a grid
point holds them: with that table, a neighbour's subscriptions would be answered too."""

from __future__ import annotations

import pytest

from earmark import Interval, Matcher


@pytest.mark.parametrize("options", [{}, {"mode": "points"}, {"mode": "points", "store": "hashed"}, {"cells": (2, 2)}])
def test_fractions_between_bounds(options: dict[str, object]) -> None:
    matcher = Matcher(
        "vcr",
        attributes={"a": "float", "b": "float"},
        index_options={"attributes": (0, 1), "longest": (4, 4), **options},
    )
    for x in range(8):
        for w in (0, 1, 2, 3):
            matcher.add(f"{x}+{w}", f"a BETWEEN {x} AND {x + w} AND b BETWEEN {-x} AND {w}")
    for a in (-0.5, 0.0, 0.25, 2.0, 2.5, 6.999, 7.0, 10.0, 10.5, float("nan")):
        for b in (-7.5, -3.0, -2.5, 0.0, 0.5, 3.0, 3.5):
            wanted = [f"{x}+{w}" for x in range(8) for w in (0, 1, 2, 3) if x <= a <= x + w and -x <= b <= w]
            assert matcher.match({"a": a, "b": b}) == wanted
    assert matcher.match({"a": Interval(2.25, 2.75), "b": 0.0}) == ["0+3", "1+2", "1+3", "2+1", "2+2", "2+3"]
    assert matcher.match({"a": Interval(10.5, 99.0), "b": 0.0}) == []
    assert len(matcher.match({"a": Interval(-9.0, 99.0), "b": Interval(-99.0, 99.0)})) == 32
