"""Append-only numpy columns that readers may hold while the writer appends."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from earmark.model.arrays import frozen


class Growable:
    """A typed column. Appending writes past every view handed out, or into a new buffer: views never change.

    Amortised O(1) an element.
    """

    __slots__ = ("_data", "size")

    def __init__(self, dtype: DTypeLike, values: NDArray[Any] | None = None) -> None:
        self._data: NDArray[Any] = np.empty(0, dtype) if values is None else np.asarray(values, dtype)
        self.size = len(self._data)

    def extend(self, values: Any) -> None:
        """Append an array."""
        end = self.size + len(values)
        if end > len(self._data) or not self._data.flags.writeable:
            grown = np.empty(max(16, end, int(self.size * 1.5)), self._data.dtype)
            grown[: self.size] = self._data[: self.size]
            self._data = grown
        self._data[self.size : end] = values
        self.size = end

    def view(self) -> NDArray[Any]:
        """Everything so far, read-only."""
        size = self.size  # before the buffer: a newer buffer holds at least so many
        return frozen(self._data[:size])

    @property
    def nbytes(self) -> int:
        """Bytes in use (spare room left out)."""
        return self.size * self._data.itemsize
