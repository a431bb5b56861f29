"""What both curves refuse, and how they say it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from earmark.cover.indexes import z_curve
from earmark.curves import grid, hilbert
from earmark.errors import EarmarkError


@pytest.mark.parametrize(
    "call",
    [
        lambda: hilbert.numbers(np.zeros((1, 8), np.int64), 8),
        lambda: z_curve.bits_for(64, 1),
        lambda: hilbert.cells(np.zeros(1, np.int64), 0, 3),
        lambda: z_curve.bits_for(0, 1),
    ],
)
def test_a_grid_that_is_too_fine(call: Callable[[], Any]) -> None:
    with pytest.raises(EarmarkError, match=r"at most 63 bits in all, got \d+ dimensions of \d+ bits"):
        call()


@pytest.mark.parametrize("coordinate", [-1, 8, 2**63])
def test_a_coordinate_outside(coordinate: int) -> None:
    with pytest.raises(EarmarkError, match=r"rows of coordinates, integers from 0 to 2\^3 - 1"):
        hilbert.numbers([[0, coordinate]], 3)


def test_a_grid_of_one_cell() -> None:
    with pytest.raises(EarmarkError, match="expected at least 1 dimension of at least 1 bit"):
        hilbert.numbers(np.zeros((1, 2), np.int64), 0)


def test_the_greatest_grid() -> None:
    assert grid.checked_numbers([2**63 - 1], 7, 9).tolist() == [2**63 - 1]
    assert grid.checked_cells([[2**63 - 1]], 63).tolist() == [[2**63 - 1]]


def test_larger_cells_have_fewer_ranges() -> None:
    """Each box gets cells as large as Equation (3) asks for, and no larger."""
    random = np.random.default_rng(7)
    low = random.integers(0, 200, (300, 3))
    high = np.minimum(low + random.integers(0, 256, (300, 3)), 255)
    shift = hilbert.coarseness(low, high, 8, 40)
    assert len(set(shift.tolist())) > 2
    for s, a, b in zip(shift.tolist(), low, high, strict=True):
        means = [float(hilbert.mean_ranges(a[None] >> i, b[None] >> i)[0]) for i in range(8)]
        assert all(mean > 40 for mean in means[:s])
        assert s == 8 or means[s] <= 40
