"""Columns that grow: what was handed out never changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.model.growable import Growable

pieces = st.lists(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=40), max_size=30)


@given(pieces)
def test_views_keep_their_content(given: list[list[int]]) -> None:
    column = Growable(np.int32)
    seen = [(column.view(), [])]
    whole: list[int] = []
    for piece in given:
        column.extend(piece)
        whole += piece
        seen.append((column.view(), list(whole)))
    for view, content in seen:
        assert view.tolist() == content
        assert not view.flags.writeable
    assert column.size == len(whole)
    assert column.nbytes == 4 * len(whole)


def test_appending_is_amortised() -> None:
    column = Growable(np.int64)
    buffers = set()
    for i in range(10_000):
        column.extend([i])
        buffers.add(id(column._data))
    assert len(buffers) < 60
    assert len(column._data) <= 2 * column.size


@pytest.mark.parametrize("writable", [True, False])
def test_arrays_from_outside_are_taken_but_never_written_to(writable: bool) -> None:
    outside = np.arange(5)
    spare = outside[:3]
    spare.flags.writeable = writable
    column = Growable(np.int64, spare)
    column.extend([9, 9])
    assert outside.tolist() == [0, 1, 2, 3, 4]
    assert column.view().tolist() == [0, 1, 2, 9, 9]
    assert np.shares_memory(Growable(np.int64, spare).view(), outside)


def test_a_column_may_be_extended_by_its_own_view() -> None:
    column = Growable(np.int8, np.array([1, 2], np.int8))
    for _ in range(3):
        column.extend(column.view())
    assert column.view().tolist() == [1, 2] * 8
