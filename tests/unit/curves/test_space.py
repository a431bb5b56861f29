"""Cells: whatever a clause accepts lies in its box."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.made import Maker, event_arrays, matching, table_arrays

from earmark.curves import hilbert, space
from earmark.errors import EarmarkError
from earmark.keys.schema import INT64_MAX, INT64_MIN


def made_space(table: object, axes: list[int], bits: int, cut: object = space.equal_cuts) -> space.Space:
    cuts = [cut(space.bounds_on(table, axis), bits) for axis in axes]  # type: ignore[operator, arg-type]
    return space.space_of(np.array(axes, np.int32), cuts, bits)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("cut", [space.equal_cuts, space.variable_cuts])
def test_a_box_misses_no_match(seed: int, cut: object) -> None:
    made = Maker(seed).made(60, 60)
    table, events = table_arrays(made), event_arrays(made, made.events)
    attributes = np.unique(table.attr)[:3].tolist()
    for bits in (1, 3, 6):
        grid = made_space(table, attributes, bits, cut)
        low, high = space.boxes_of_clauses(grid, table, np.arange(len(table.constraint_start) - 1))
        from_, to = space.boxes_of_events(grid, events)
        assert (from_ <= to).all()
        slot_of = np.repeat(np.arange(60), np.diff(table.clause_start))
        for e, event in enumerate(made.events):
            meets = ((low <= to[e]) & (from_[e] <= high)).all(axis=1)
            assert set(matching(made, event)) <= set(slot_of[meets].tolist())
        start, first, last = space.ranges_of_boxes(grid, low, high)
        cells = hilbert.numbers(from_, bits)
        for clause in range(len(low)):
            mine = slice(start[clause], start[clause + 1])
            on_curve = [bool(((first[mine] <= c) & (c <= last[mine])).any()) for c in cells]
            assert on_curve == ((low[clause] <= from_) & (from_ <= high[clause])).all(axis=1).tolist()


def test_cuts() -> None:
    assert space.equal_cuts(np.array([0, 60, INT64_MIN, INT64_MAX]), 2).tolist() == [20, 40]
    assert space.equal_cuts(np.array([INT64_MIN + 1, INT64_MAX - 1]), 1).tolist() == []
    assert len(space.equal_cuts(np.array([INT64_MIN + 1, INT64_MAX - 1]), 3)) == 6
    assert space.equal_cuts(np.array([5, 5]), 4).tolist() == [5, 6][: len(space.equal_cuts(np.array([5, 5]), 4))]
    assert space.variable_cuts(np.array([1, 1, 1, 1, 1, 1, 2, 9]), 2).tolist() == [1]
    assert space.variable_cuts(np.arange(100), 2).tolist() == [33, 66]
    assert space.variable_cuts(np.array([INT64_MIN]), 2).tolist() == []


@pytest.mark.parametrize(("axes", "bits"), [([0, 0], 3), ([0], 0), ([0], 17), ([0, 1, 2, 3, 4], 16), ([-1], 2)])
def test_no_space(axes: list[int], bits: int) -> None:
    with pytest.raises(EarmarkError, match="attribute"):
        space.space_of(np.array(axes, np.int32), [np.empty(0, np.int64)] * len(axes), bits)
