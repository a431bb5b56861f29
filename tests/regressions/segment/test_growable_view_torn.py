"""A view took the old buffer and the new size when the writer grew the column in between, and showed garbage."""

from __future__ import annotations

import numpy as np

from earmark.flat.arrays import Growable


class Interrupted(Growable):
    """The writer appends right before the reader looks at the size."""

    __slots__ = ("_busy", "_size")

    @property
    def size(self) -> int:  # type: ignore[override]
        if not getattr(self, "_busy", True):
            self._busy = True
            self.extended(np.arange(100, 200))
        return self._size

    @size.setter
    def size(self, value: int) -> None:
        self._size = value


def test_a_view_is_of_one_moment() -> None:
    column = Interrupted(np.int64, np.arange(10))
    column._busy = False
    assert column.view().tolist() == [*range(10)]
    assert column._busy
