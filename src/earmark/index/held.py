"""Held: the table and the arrays of an index, and what its last call did, as the contract shows them."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

from earmark.flat.bits import read_only
from earmark.index.contract import Work
from earmark.index.given import read_only_table
from earmark.segment.arrays import SegmentArrays

A = TypeVar("A", bound=tuple[NDArray[Any], ...])


class Held(Generic[A]):
    """An index that is a NamedTuple of arrays over a table. Readers may hold both, so kernels get read-only views."""

    _table: SegmentArrays
    _arrays: A
    _work: Work

    def _hold(self, table: SegmentArrays, arrays: A) -> None:
        """Be the index of these arrays over this table."""
        self._table = read_only_table(table)
        self._arrays = type(arrays)(*map(read_only, arrays))
        self._work = Work()

    @property
    def arrays(self) -> A:
        """The flat arrays that are the index, read-only."""
        return self._arrays

    @property
    def nbytes(self) -> int:
        """Bytes beyond the table."""
        return sum(array.nbytes for array in self._arrays)

    @property
    def work(self) -> Work:
        """What the last call did; the docstring of the class says what it counts, where that is not plain."""
        return self._work
