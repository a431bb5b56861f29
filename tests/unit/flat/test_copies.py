"""Arrays that are copied to the beginning of longer ones, and strings that are gathered in parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from earmark.flat import arrays
from earmark.flat.arrays import copy_to, frozen, packed


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.uint64, np.float64])
@pytest.mark.parametrize("length", [0, 1, 500, 501, 70_000])
def test_what_is_behind_the_copy_stays(length: int, dtype: Any) -> None:
    source = frozen(np.arange(length).astype(dtype))
    target = np.full(length + 3, 7, dtype)
    copy_to(target, source)
    assert np.array_equal(target[:length], source)
    assert (target[length:] == 7).all()


def test_large_arrays_are_copied_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_MOST_LOCKED", 1_000)
    source = np.arange(2_000)
    target = np.zeros(2_000, np.int64)
    copy_to(target, source)
    assert np.array_equal(target, source)


@pytest.mark.parametrize("most", [1, 3, 7, 100])
def test_strings_are_gathered_in_parts(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_AT_ONCE", most)
    strings = [b"", b"a", b"", b"a long one " * 5, b"bc", b"", b"def", b""]
    at = np.array([7, 3, 3, 0, 6, 5, 2, 1, 4, 0])
    assert packed(strings).take(at).to_list() == [strings[i].decode() for i in at.tolist()]
    assert packed(strings).take(at[:0]).to_list() == []
