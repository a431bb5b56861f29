"""NamedTuples in memory: what compiled code finds at an address is what was pinned there."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from earmark.flat.pinned import DATA, ITEMS, SHAPE, Pinned, unpinned
from earmark.jit import JIT, embedded, entrance

pytestmark = pytest.mark.skipif(not JIT, reason="there is no compiled code")


class Inner(NamedTuple):
    grid: NDArray[Any]
    none: NDArray[Any]


class Outer(NamedTuple):
    whole: NDArray[Any]
    inner: Inner
    empty: tuple[()]
    number: int
    flag: bool
    share: float


@embedded
def total(one: Outer) -> float:
    """Something of every part."""
    found = one.share + one.number + len(one.inner.none) + (1000.0 if one.flag else 0.0)
    for value in one.whole:
        found += value
    return found + one.inner.grid[1, 2]


def enter_total(one: Any) -> float:
    return total(unpinned(one))  # type: ignore[no-any-return]


def pinned(whole: NDArray[Any]) -> Pinned:
    return Pinned(Outer(whole, Inner(np.arange(6.0).reshape(2, 3), np.empty(0, np.uint8)), (), -7, True, 0.25))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.float64])
def test_compiled_code_reads_what_was_pinned(dtype: Any) -> None:
    one = pinned(np.arange(4, dtype=dtype))
    assert entrance(enter_total, total, (one.type,))(one.address) == 6 + 5.0 + 0.25 - 7 + 1000


def test_one_type_for_equal_kinds_and_another_for_read_only() -> None:
    first, second, third = np.arange(4), np.arange(9), np.arange(4)
    third.flags.writeable = False
    assert pinned(first).type == pinned(second).type
    assert pinned(first).type != pinned(third).type


def test_words_can_be_written_again() -> None:
    """How room is used for one event after another: shorter, or elsewhere."""
    array, other = np.arange(10), np.full(3, 100)
    one = pinned(array)
    enter = entrance(enter_total, total, (one.type,))
    one.words[ITEMS] = one.words[SHAPE] = 2
    assert enter(one.address) == 0 + 1 + 5.0 + 0.25 - 7 + 1000
    one.words[DATA] = other.ctypes.data
    assert enter(one.address) == 200 + 5.0 + 0.25 - 7 + 1000


class Flags(NamedTuple):
    one: bool
    other: bool


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (np.arange(8)[::2], "without gaps"),
        ((np.arange(3), "text"), "an array, a number or a tuple"),
        (Flags(True, False), "words of 8 bytes"),
    ],
)
def test_what_cannot_be_pinned(value: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        Pinned(value)


def test_the_type_is_that_of_a_call() -> None:
    one = pinned(np.arange(4))
    assert one.type.value == numba.typeof(one.value)
