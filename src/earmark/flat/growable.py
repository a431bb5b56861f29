"""Append-only numpy columns that readers may hold while the writer appends."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from earmark.flat.types import frozen

T = TypeVar("T")


class _Room:
    """A buffer that several moments of a column share, and how much of it has been claimed."""

    __slots__ = ("claimed", "data")

    def __init__(self, data: Any, claimed: int) -> None:
        self.data = data
        self.claimed = claimed


class Growable:
    """A moment of a typed column; `extended` gives the next, which shares its room.

    Only elements past everything that anyone has claimed are written, so no moment ever changes. Whoever extends a
    moment that is not the last one (the last was given up, by an exception or otherwise) gets room of its own.
    Amortised O(1) per element.
    """

    __slots__ = ("_room", "size")

    def __init__(self, dtype: DTypeLike, values: NDArray[Any] | None = None) -> None:
        data: NDArray[Any] = np.empty(0, dtype) if values is None else np.asarray(values, dtype)
        self.size = len(data)
        self._room = _Room(data, self.size)

    def extended(self, values: Any) -> Growable:
        """The column with an array behind it."""
        room, size, end = self._room, self.size, self.size + len(values)
        if room.claimed != size or end > len(room.data) or not room.data.flags.writeable:
            grown = np.empty(max(16, end, int(size * 1.5)), room.data.dtype)
            grown[:size] = room.data[:size]
            room = _Room(grown, size)
        room.claimed = end  # first: an exception from here on leaves elements that no reader sees
        room.data[size:end] = values
        other = object.__new__(Growable)
        other._room, other.size = room, end
        return other

    def view(self) -> NDArray[Any]:
        """Everything, read-only."""
        return frozen(self._room.data[: self.size])

    @property
    def nbytes(self) -> int:
        """Bytes in use (spare room left out)."""
        return self.size * int(self._room.data.itemsize)


class Listed(Generic[T]):
    """`Growable` for Python objects."""

    __slots__ = ("_items", "size")

    def __init__(self, items: list[T]) -> None:
        self._items = items
        self.size = len(items)

    def extended(self, values: list[T]) -> Listed[T]:
        """The list with others behind it."""
        items = self._items if self.is_last else self._items[: self.size]
        items.extend(values)
        other: Listed[T] = object.__new__(Listed)
        other._items, other.size = items, self.size + len(values)
        return other

    def __len__(self) -> int:
        return self.size

    @property
    def is_last(self) -> bool:
        """Whether nothing has been appended since."""
        return len(self._items) == self.size

    @property
    def items(self) -> list[T]:
        """The objects, and perhaps others behind them that belong to later moments. Not to be changed."""
        return self._items
