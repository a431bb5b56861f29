"""`meeting` was said to find all that could be merged with a subscription. Boxes that only touch share no cell, and
neither do those that differ on one attribute and are far apart there, so perfect partners were missed."""

from __future__ import annotations

import numpy as np
import pytest

from earmark import Matcher
from earmark.cover import CoverIndex, merge
from earmark.cover.indexes import mics
from earmark.cover.indexes.members import Linear
from earmark.cover.indexes.mics import Mics
from earmark.index.mics import MicsIndex
from earmark.workload.mics import mics as drawn
from earmark.workload.rectangles import table_of


def tiles(side: int) -> tuple[np.ndarray, np.ndarray]:
    """Squares of 10 x 10 values that touch each other and never overlap."""
    low = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2) * 10
    return low.astype(np.int64), (low + 9).astype(np.int64)


def test_squares_that_touch() -> None:
    side = 20
    table = table_of(*tiles(side))
    index = Mics.build(table)
    assert index.share_indexed == 1
    middle = 7 * side + 7
    assert index.meeting(middle).tolist() == [middle], "squares that touch share a cell here: the test shows nothing"
    found = index.mergeable(middle).tolist()
    assert {middle - 1, middle + 1, middle - side, middle + side} <= set(found)
    assert found == sorted({*range(7 * side, 8 * side), *range(7, side * side, side)} - {middle})
    assert found == Linear.build(table).mergeable(middle).tolist()


@pytest.mark.parametrize("distribution", ["uniform", "zipf"])
def test_no_partner_is_missed(distribution: str) -> None:
    table = drawn(distribution, 4_000, 1, attributes=3, sizes=4).table()
    index, linear = Mics.build(table), Linear.build(table)
    partners = 0
    for slot in range(0, 4_000, 40):
        wanted = linear.mergeable(slot)
        assert index.mergeable(slot).tolist() == wanted.tolist()
        partners += len(np.setdiff1d(wanted, index.meeting(slot)))
    assert partners, "every partner shares a cell: the test shows nothing"


def test_an_attribute_that_is_not_an_axis() -> None:
    """The difference is on an attribute that only the sieve knows, or that neither knows."""
    table = drawn("uniform", 500, 1, attributes=9, sizes=4).table()
    low, high = (np.repeat(side.reshape(500, 9), 9, axis=0) for side in (table.lo, table.hi))
    low[np.arange(4500), np.tile(np.arange(9), 500)] = 250
    high[np.arange(4500), np.tile(np.arange(9), 500)] = 255
    table = table_of(low, high)
    index, linear = Mics.build(table), Linear.build(table)
    known = set(index.arrays.sieve_attr.tolist())
    assert len(index.arrays.attr) < len(known) < 9
    for slot in range(0, 4_500, 97):
        assert index.mergeable(slot).tolist() == linear.mergeable(slot).tolist()
    assert MicsIndex.build(table).space.axes < 9


def test_by_id_and_as_merge_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mics, "ENOUGH", 1)
    monkeypatch.setattr(mics, "QUESTIONS", 0)
    rows = [("cheap", "price BETWEEN 0 AND 9 AND city = 'Oslo'"), ("dear", "price BETWEEN 10 AND 99 AND city = 'Oslo'"),
            ("rome", "price BETWEEN 0 AND 9 AND city = 'Rome'"), ("all", "city = 'Oslo' OR price > 500"),
            ("nobody", "price > 5 AND price < 3"), ("free", "price IS NULL AND city = 'Oslo'")]  # fmt: skip
    index = CoverIndex.of(rows)
    assert index.mergeable("cheap") == ["dear", "rome", "all", "nobody", "free"]
    assert index.mergeable("rome") == ["cheap", "nobody"]
    assert index.mergeable("free") == ["cheap", "dear", "all", "nobody"]
    for id, other in (("cheap", "dear"), ("cheap", "rome"), ("dear", "free")):
        m = Matcher()
        m.add_many([row for row in rows if row[0] in (id, other)])
        assert len(merge(m, [], 0)) == 1


def test_merge_leaves_nothing_that_merges_perfectly() -> None:
    """`merge` sorts all subscriptions; a look-up in the index afterwards finds no pair that it left over."""
    low, high = (side.tolist() for side in tiles(12))
    rows = [
        (i, f"x BETWEEN {a[0]} AND {b[0]} AND y BETWEEN {a[1]} AND {b[1]}")
        for i, (a, b) in enumerate(zip(low, high, strict=True))
        if i * i % 7 < 4 and i % 5 != 3
    ]
    m = Matcher()
    m.add_many(rows)
    assert any(CoverIndex.of(rows).mergeable(id) for id, _ in rows)
    merged = [(id, condition) for id, condition, _ in merge(m, [], 0, pieces=100).rows()]
    assert 1 < len(merged) < len(rows)
    left = CoverIndex.of(merged)
    assert not any(left.mergeable(id) for id, _ in merged)
