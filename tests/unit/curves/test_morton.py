"""Cells of a cube on the Z-curve."""

from __future__ import annotations

import doctest
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.curves import morton
from earmark.curves.morton import (
    bits_for,
    cell_coordinates,
    cell_key,
    cell_range,
    first_inside,
    interleave,
    last_inside,
)
from earmark.errors import EarmarkError
from earmark.jit import kernel


@st.composite
def cells(draw: st.DrawFn) -> tuple[tuple[int, ...], int]:
    dimensions = draw(st.integers(1, 16))
    bits = draw(st.integers(0, 63 // dimensions))
    return tuple(draw(st.integers(0, (1 << bits) - 1)) for _ in range(dimensions)), bits


@kernel
def interleaved(coordinates: np.ndarray, bits: int) -> np.uint64:
    return interleave(coordinates, len(coordinates), bits)


@kernel
def inside(cell: np.uint64, more: int) -> tuple[np.uint64, np.uint64]:
    return first_inside(cell, more), last_inside(cell, more)


@given(cells())
def test_there_and_back(cell: tuple[tuple[int, ...], int]) -> None:
    coordinates, bits = cell
    key = cell_key(coordinates, bits)
    assert key < 2**64
    assert cell_coordinates(key, len(coordinates)) == cell
    assert int(interleaved(np.array(coordinates, np.uint64), bits)) == key


@given(cells(), st.integers(0, 20))
def test_a_cell_holds_a_run_of_the_curve(cell: tuple[tuple[int, ...], int], more: int) -> None:
    coordinates, bits = cell
    key = cell_key(coordinates, bits)
    length = min(63, len(coordinates) * bits + more)
    first, last = cell_range(key, length)
    more = length - len(coordinates) * bits
    assert tuple(map(int, inside(np.uint64(key), more))) == (first, last)
    assert first >> more == last >> more == key
    assert last - first + 1 == 1 << more


def test_a_grid_in_order() -> None:
    """The cells of a quarter are consecutive, and quarters come in the order of their own keys."""
    keys = {cell_key((x, y), 3): (x, y) for x, y in product(range(8), repeat=2)}
    assert sorted(keys) == list(range(64, 128))
    for quarter in range(4, 8):
        first, last = cell_range(quarter, 6)
        (x, y), _ = cell_coordinates(quarter, 2)
        assert {keys[key] for key in range(first, last + 1)} == {
            (a, b) for a, b in product(range(8), repeat=2) if (a >> 2, b >> 2) == (x, y)
        }


def test_what_fits() -> None:
    assert [bits_for(d, 8) for d in (6, 10, 16, 32, 63)] == [8, 6, 3, 1, 1]
    for call in (
        lambda: cell_key((0,) * 16, 4),
        lambda: cell_key((8,), 3),
        lambda: cell_key((), 3),
        lambda: cell_coordinates(0b1011, 2),
        lambda: cell_coordinates(0, 1),
        lambda: cell_range(0b1000, 2),
        lambda: bits_for(64, 8),
    ):
        with pytest.raises(EarmarkError):
            call()


def test_its_examples() -> None:
    failed, tried = doctest.testmod(morton)
    assert tried and not failed
