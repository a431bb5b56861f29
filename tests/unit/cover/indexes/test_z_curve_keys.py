"""Cells of a cube on the Z-curve."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.cover.indexes.z_curve import bits_for, first_inside, interleave, last_inside
from earmark.errors import EarmarkError
from earmark.jit import kernel


def cell_key(coordinates: tuple[int, ...], bits: int) -> int:
    """The key of a cell, bit by bit: the twin of `interleave` without 64-bit arithmetic."""
    key = 1
    for level in range(bits - 1, -1, -1):
        for coordinate in coordinates:
            key = key << 1 | coordinate >> level & 1
    return key


def cell_coordinates(key: int, dimensions: int) -> tuple[tuple[int, ...], int]:
    """The coordinates of a cubic cell and its bits per dimension: the inverse of `cell_key`."""
    length = key.bit_length() - 1
    coordinates = [0] * dimensions
    for i in range(length):
        coordinates[i % dimensions] = coordinates[i % dimensions] << 1 | key >> (length - 1 - i) & 1
    return tuple(coordinates), length // dimensions


def cell_range(key: int, length: int) -> tuple[int, int]:
    """The least and the greatest key, `length` bits long, of the cells inside a cell."""
    more = length - (key.bit_length() - 1)
    return key << more, (key + 1 << more) - 1


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
        lambda: bits_for(0, 8),
        lambda: bits_for(64, 8),
    ):
        with pytest.raises(EarmarkError):
            call()
