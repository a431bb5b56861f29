"""The linear baselines against sets of cells."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.errors import EarmarkError
from earmark.report.rivals.linear_boxes import LinearBoxes

interval = st.tuples(st.integers(0, 6), st.integers(0, 4)).map(lambda p: (p[0], min(7, p[0] + p[1])))


def cells(box: tuple[tuple[int, int], ...]) -> set[tuple[int, ...]]:
    return set(product(*(range(a, b + 1) for a, b in box)))


def is_box(found: set[tuple[int, ...]]) -> bool:
    sides = [{cell[axis] for cell in found} for axis in range(len(next(iter(found))))]
    whole = tuple((min(side), max(side)) for side in sides)
    return found == cells(whole)


@given(st.data(), st.sampled_from((1, 2, 3)))
def test_as_sets_say(data: st.DataObject, axes: int) -> None:
    box = st.tuples(*[interval] * axes)
    rows, asked = data.draw(st.lists(box, max_size=12)), data.draw(st.lists(box, min_size=1, max_size=4))
    index = LinearBoxes(axes)
    for row in rows:
        array = np.array(row, np.int64)
        index.add(array[None, :, 0], array[None, :, 1])
    query = np.array(asked, np.int64).reshape(-1, axes, 2)
    low, high = query[:, :, 0], query[:, :, 1]
    union = set().union(*(cells(row) for row in rows))
    assert len(index) == len(rows)
    assert index.covered(low, high).tolist() == [any(cells(q) <= cells(row) for row in rows) for q in asked]
    assert index.subsumed(low, high).tolist() == [cells(q) <= union for q in asked]
    partners = [next((i for i, row in enumerate(rows) if is_box(cells(q) | cells(row))), -1) for q in asked]
    assert index.mergeable(low, high).tolist() == partners


def test_too_many_cells() -> None:
    with pytest.raises(EarmarkError, match="too large"):
        LinearBoxes(2).subsumed(np.zeros((1, 2), np.int64), np.full((1, 2), 999, np.int64))
