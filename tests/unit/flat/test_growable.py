"""Columns that grow: what was handed out never changes."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.flat.arrays import Growable, Listed

pieces = st.lists(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=40), max_size=30)


@given(pieces)
def test_views_keep_their_content(given: list[list[int]]) -> None:
    column = Growable(np.int32)
    seen = [(column.view(), [])]
    whole: list[int] = []
    for piece in given:
        column = column.extended(piece)
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
        column = column.extended([i])
        buffers.add(id(column._room.data))
    assert len(buffers) < 60
    assert len(column._room.data) <= 2 * column.size


@pytest.mark.parametrize("writable", [True, False])
def test_arrays_from_outside_are_taken_but_never_written_to(writable: bool) -> None:
    outside = np.arange(5)
    spare = outside[:3]
    spare.flags.writeable = writable
    column = Growable(np.int64, spare).extended([9, 9])
    assert outside.tolist() == [0, 1, 2, 3, 4]
    assert column.view().tolist() == [0, 1, 2, 9, 9]
    assert np.shares_memory(Growable(np.int64, spare).view(), outside)


def test_a_column_may_be_extended_by_its_own_view() -> None:
    column = Growable(np.int8, np.array([1, 2], np.int8))
    for _ in range(3):
        column = column.extended(column.view())
    assert column.view().tolist() == [1, 2] * 8


@given(pieces, st.randoms(use_true_random=False))
def test_any_moment_may_be_extended(given: list[list[int]], rng: Random) -> None:
    """Not only the last one: what was made after it, and given up, does not show."""
    moments: list[tuple[Growable, Listed[int], list[int]]] = [(Growable(np.int32), Listed([]), [])]
    for piece in given:
        column, listed, content = rng.choice(moments)
        moments.append((column.extended(piece), listed.extended(piece), content + piece))
    for column, listed, content in moments:
        assert column.view().tolist() == listed.items[: len(listed)] == content


def test_what_an_exception_interrupts_is_not_seen() -> None:
    first = Growable(np.int64).extended([1, 2])
    with pytest.raises(ValueError):
        first.extended(["x"])
    second = first.extended([3])
    assert first.view().tolist() == [1, 2]
    assert second.view().tolist() == [1, 2, 3]
    assert first.extended([4]).view().tolist() == [1, 2, 4]
    assert second.view().tolist() == [1, 2, 3]
