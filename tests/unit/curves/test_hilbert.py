"""Hilbert's curve: every cell once, each step to a neighbour, boxes as exactly their cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.curves import hilbert
from earmark.errors import EarmarkError

CURVES = [(1, 1), (1, 6), (2, 1), (2, 3), (2, 5), (3, 1), (3, 3), (4, 2), (5, 2), (7, 1), (10, 1)]


def grid(dimensions: int, bits: int) -> np.ndarray:
    axes = np.meshgrid(*[np.arange(1 << bits)] * dimensions, indexing="ij")
    return np.stack([axis.ravel() for axis in axes], axis=1)


@pytest.mark.parametrize(("dimensions", "bits"), CURVES)
def test_every_cell_once_and_each_step_to_a_neighbour(dimensions: int, bits: int) -> None:
    cells = grid(dimensions, bits)
    numbers = hilbert.numbers(cells, bits)
    assert sorted(numbers.tolist()) == list(range(len(cells)))
    assert (hilbert.cells(numbers, dimensions, bits) == cells).all()
    walk = hilbert.cells(np.arange(len(cells)), dimensions, bits)
    assert (np.abs(np.diff(walk, axis=0)).sum(axis=1) == 1).all()
    assert not walk[0].any()


def test_figure_3() -> None:
    """Of the paper: the curve begins at (0, 0), goes on to (0, 1); a box, and three publications."""
    assert hilbert.numbers(np.array([[0, 0], [0, 1], [3, 5], [5, 3], [6, 2]]), 3).tolist() == [0, 1, 28, 52, 50]
    start, first, last = hilbert.ranges(np.array([[4, 2]]), np.array([[6, 5]]), 3)
    assert start.tolist() == [0, 3]
    assert list(zip(first.tolist(), last.tolist(), strict=True)) == [(32, 35), (45, 46), (50, 55)]


@given(data=st.data())
def test_ranges_are_the_cells_of_the_box(data: st.DataObject) -> None:
    dimensions, bits = data.draw(st.sampled_from(CURVES))
    coordinates = st.lists(st.integers(0, (1 << bits) - 1), min_size=dimensions, max_size=dimensions)
    boxes = data.draw(st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=4))
    low, high = np.array([np.minimum(*box) for box in boxes]), np.array([np.maximum(*box) for box in boxes])
    start, first, last = hilbert.ranges(low, high, bits)
    cells = grid(dimensions, bits)
    for b in range(len(boxes)):
        inside = cells[((low[b] <= cells) & (cells <= high[b])).all(axis=1)]
        wanted = np.sort(hilbert.numbers(inside, bits))
        begin, end = first[start[b] : start[b + 1]], last[start[b] : start[b + 1]]
        assert (
            np.concatenate([np.arange(f, t + 1) for f, t in zip(begin, end, strict=True)]).tolist() == wanted.tolist()
        )
        assert (begin <= end).all()
        assert (begin[1:] > end[:-1] + 1).all(), "two ranges that touch"


def test_the_whole_space_is_one_range_up_to_the_last_number() -> None:
    for dimensions, bits in ((1, 63), (3, 21), (7, 9), (9, 7)):
        low, high = np.zeros((1, dimensions), np.int64), np.full((1, dimensions), (1 << bits) - 1)
        _, first, last = hilbert.ranges(low, high, bits)
        assert (first.tolist(), last.tolist()) == ([0], [2 ** (dimensions * bits) - 1])
        corner = np.full((1, dimensions), (1 << bits) - 1)
        assert (hilbert.cells(hilbert.numbers(corner, bits), dimensions, bits) == corner).all()


def test_the_number_of_ranges_tends_to_the_surface_over_2d() -> None:
    """Equations (1) to (3) of the paper."""
    rng = np.random.default_rng(4)
    for dimensions, side in ((2, 16), (2, 40), (3, 8)):
        low = rng.integers(0, 128 - side, (400, dimensions))
        start, _, _ = hilbert.ranges(low, low + side - 1, 7)
        surface = 2 * dimensions * side ** (dimensions - 1)
        assert start[-1] / 400 == pytest.approx(surface / (2 * dimensions), rel=0.15)


@pytest.mark.parametrize(("dimensions", "bits"), [(0, 3), (3, 0), (8, 8), (64, 1)])
def test_a_curve_that_does_not_fit(dimensions: int, bits: int) -> None:
    with pytest.raises(EarmarkError, match="expected at least 1 dimension"):
        hilbert.cells(np.zeros(1, np.int64), dimensions, bits)


def test_cells_numbers_and_boxes_outside() -> None:
    with pytest.raises(EarmarkError, match="coordinate"):
        hilbert.numbers(np.array([[0, 8]]), 3)
    with pytest.raises(EarmarkError, match="coordinate"):
        hilbert.numbers(np.array([[-1, 0]]), 3)
    with pytest.raises(EarmarkError, match="rows"):
        hilbert.numbers(np.array([1, 2]), 3)
    with pytest.raises(EarmarkError, match="number"):
        hilbert.cells(np.array([64]), 2, 3)
    with pytest.raises(EarmarkError, match="no low coordinate above its high one"):
        hilbert.ranges(np.array([[3, 3]]), np.array([[2, 5]]), 3)
    with pytest.raises(EarmarkError, match="at most 20 dimensions, got 21"):
        hilbert.ranges(np.zeros((1, 21), np.int64), np.zeros((1, 21), np.int64), 3)
    assert hilbert.ranges(np.empty((0, 2), np.int64), np.empty((0, 2), np.int64), 3)[0].tolist() == [0]
