"""The segment tree: its answers, its parts, and what it costs."""

from __future__ import annotations

import pytest
from tests.unit.index.ranked.scored_cases import (
    PAPER,
    scored_intervals,
)

from earmark.index.ranked.trees import SegmentTree


def test_an_interval_is_stored_at_few_nodes() -> None:
    index = SegmentTree.build(scored_intervals([(i, i + 100) for i in range(0, 1000, 3)]))
    assert 334 < index.references <= 334 * 2 * 10
    index.check()


def test_check_names_what_is_broken() -> None:
    index = SegmentTree.build(scored_intervals(PAPER))
    arrays = index.arrays
    for name, place, value, message in (
        ("part", 0, 99, "refers to an entry that does not exist"),
        ("part_start", 1, 10**6, "descend|wrong length"),
        ("cut", 3, -(10**6), "inside its interval|make it up"),
        ("part_best", 1, 99, "the best of a node does not exist"),
    ):
        array = getattr(arrays, name).copy()
        array[place] = value
        index._hold(index._table, arrays._replace(**{name: array}))
        with pytest.raises(AssertionError, match=message):
            index.check()
