"""The loops that cut a rectangle into VCRs skip one of width or height 0, so an equality would be in no list."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from earmark import Matcher
from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.index.vcr import VcrIndex
from earmark.index.vcr.rectangles import Vcr, decompose
from earmark.segment.arrays import SegmentArrays


def test_the_paper_s_loops_make_nothing_of_it() -> None:
    assert decompose(Vcr(3, 3, 0, 6), (4, 4)) == decompose(Vcr(3, 3, 5, 0), (4, 4), "overlapped") == []


@pytest.mark.parametrize("mode", ["cells", "points"])
def test_an_equality_is_found(mode: str) -> None:
    conditions = ["a = 3 AND b = 5", "a = 3 AND b BETWEEN 1 AND 9", "a BETWEEN 0 AND 9 AND b = 5", "a = 9 AND b = 9"]
    for count in range(1, len(conditions) + 1):  # alone, a table may have a single bound
        matcher = Matcher("vcr", index_options={"mode": mode, "attributes": (0, 1)})
        matcher.add_many(list(enumerate(conditions[:count])))
        assert matcher.match({"a": 3, "b": 5}) == list(range(min(count, 3)))
        assert matcher.match({"a": 9, "b": 9}) == ([3] if count == 4 else [])
        assert matcher.match({"a": 4, "b": 4}) == []
        assert matcher.match({"a": 3, "b": 6}) == ([1] if count > 1 else [])


@pytest.mark.parametrize(("mode", "decomposition"), list(product(("cells", "points"), ("simple", "overlapped"))))
def test_rectangles_of_no_extent_among_others(mode: str, decomposition: str) -> None:
    side = 6
    lo = np.array(list(product(range(side), range(side))))
    n = len(lo)
    hi = lo + np.array([[0, 0], [2, 0], [0, 3]])[np.arange(n) % 3]
    table = SegmentArrays(
        np.arange(n + 1, dtype=np.int32),
        np.arange(0, 2 * n + 1, 2, dtype=np.int32),
        np.tile(np.arange(2, dtype=np.int32), n),
        np.zeros(2 * n, np.uint8),
        np.arange(2 * n + 1, dtype=np.int32),
        lo.ravel(),
        hi.ravel(),
        np.empty(0),
        np.empty(0),
        np.arange(n),
    )
    points = np.array(list(product(range(-1, side + 4), repeat=2)))
    keys = points.ravel()
    events = EventArrays(
        np.arange(0, len(keys) + 1, 2), np.tile(np.arange(2, dtype=np.int32), len(points)), keys, keys, np.empty(0)
    )
    index = VcrIndex.build(table, mode=mode, decomposition=decomposition, longest=(2, 2))
    pointers, slots = index.match_many(events, bits.all_set(n))
    inside = ((lo <= points[:, None]) & (points[:, None] <= hi)).all(axis=2)
    assert np.diff(pointers).tolist() == inside.sum(axis=1).tolist()
    assert slots.tolist() == np.nonzero(inside)[1].tolist()
