"""The ids of subscriptions by slot: integers or strings, all of one kind.

They are held as Python objects where they came so, or as arrays where they were mapped from a file; each form is made
from the other when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from earmark.flat.growable import Listed
from earmark.flat.packed import NO_STRINGS, PackedStrings, from_arrow, joined_strings
from earmark.flat.types import I32, I64, frozen

if TYPE_CHECKING:
    import pyarrow as pa

Id: TypeAlias = str | int
IdColumn: TypeAlias = I64 | PackedStrings
_FEW = 1 << 12
"""So few ids are read one by one out of a column; more are worth making objects of all of them."""


class Ids:
    """A moment of a column of ids; `extended` gives the next, which shares what it can."""

    __slots__ = ("_arrow", "_column", "_objects", "size")

    def __init__(self, objects: Listed[Id] | None, column: IdColumn | None, arrow: Any = None) -> None:
        self._objects = objects
        self._column = column
        self._arrow = arrow
        self.size = len(objects) if objects is not None else len(column) if column is not None else 0

    @classmethod
    def of(cls, ids: list[Id] | IdColumn) -> Ids:
        """Ids from a list, which is not copied, or from a column."""
        return cls(Listed(ids), None) if isinstance(ids, list) else cls(None, ids)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, slot: int) -> Id:
        if self._objects is not None:
            return self._objects.items[slot]
        assert self._column is not None
        one = self._column[slot]
        return one if isinstance(one, str) else int(one)

    @property
    def integers(self) -> bool:
        """Whether they are integers; those of no slots are strings."""
        if self._column is not None:
            return not isinstance(self._column, PackedStrings)
        return bool(self.size) and isinstance(self[0], int)

    @property
    def is_column(self) -> bool:
        """Whether they are held as arrays, without an object for each."""
        return self._objects is None

    @property
    def objects(self) -> list[Id]:
        """The ids as Python objects, and perhaps those of later moments behind them. Not to be changed."""
        if self._objects is None:
            column = self._column
            listed: list[Id] = list(column.to_list()) if isinstance(column, PackedStrings) else column.tolist()  # type: ignore[union-attr]
            self._objects = Listed(listed)
        return self._objects.items

    @property
    def is_last(self) -> bool:
        """Whether nobody has extended this moment."""
        return self._objects is None or self._objects.is_last

    @property
    def column(self) -> IdColumn:
        """The ids as arrays: what files store."""
        if self._column is None:
            ids = self.objects[: self.size]
            self._column = frozen(np.array(ids, np.int64)) if self.integers else from_arrow(self._as_arrow())
        return self._column

    def named(self, slots: I32) -> list[Id]:
        """The ids of these slots."""
        if self._objects is None and len(slots) <= _FEW:
            return [self[slot] for slot in slots.tolist()]
        objects = self.objects
        return [objects[slot] for slot in slots.tolist()]

    def taken(self, slots: I32) -> pa.Array:
        """The ids of these slots as an Arrow column."""
        import pyarrow as pa

        found = self._as_arrow().take(pa.array(slots))
        return found if self.integers or found.type == pa.string() else found.cast(pa.string())

    def _as_arrow(self) -> pa.Array:
        """The ids of all slots as an Arrow column, kept; that of an earlier moment is continued. O(new slots)."""
        import pyarrow as pa

        known = 0 if self._arrow is None else len(self._arrow)
        if known < self.size or self._arrow is None:
            column = self._column
            if column is not None:
                self._arrow = column.to_arrow() if isinstance(column, PackedStrings) else pa.array(column)
            else:
                kind = self._arrow.type if known else pa.int64() if self.integers else pa.string()
                new = pa.array(self.objects[known : self.size], kind)
                self._arrow = new if not known else pa.concat_arrays([self._arrow, new])
        return self._arrow

    def extended(self, others: Ids) -> Ids:
        """These ids and others behind them."""
        objects = Listed(self.objects[: self.size]) if self._objects is None else self._objects
        arrow = self._arrow if self._objects is not None and self._objects.is_last else None
        return Ids(objects.extended(others.objects[: others.size]), None, arrow)

    def take(self, slots: I64) -> Ids:
        """The ids of these slots, in this order."""
        if self._column is None:
            objects = self.objects
            return Ids.of([objects[slot] for slot in slots.tolist()])
        column = self._column
        return Ids.of(column.take(slots) if isinstance(column, PackedStrings) else frozen(column[slots]))


def joined_ids(parts: Sequence[Ids]) -> Ids:
    """The ids of all parts, one after another. Those of no slots have any kind."""
    some = [part for part in parts if part.size]
    if len(some) == 1:
        return some[0]
    if any(part._column is None for part in some):
        return Ids.of([one for part in some for one in part.objects[: part.size]])
    columns = [part.column for part in some]
    if columns and not isinstance(columns[0], PackedStrings):
        return Ids.of(frozen(np.concatenate(columns)))  # type: ignore[arg-type]
    return Ids.of(joined_strings([one for one in columns if isinstance(one, PackedStrings)]) if columns else NO_STRINGS)


def distinct(parts: Sequence[Ids], slots: Sequence[I64]) -> int:
    """How many different ids these slots of the parts have. At the speed of arrays, where all are held as such."""
    if not all(part.is_column for part in parts):
        found: set[Id] = set()
        for part, own in zip(parts, slots, strict=True):
            objects = part.objects
            found.update([objects[slot] for slot in own.tolist()])
        return len(found)
    if not parts:
        return 0
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [part.taken(own.astype(np.int32)) for part, own in zip(parts, slots, strict=True)]
    return int(pc.count_distinct(pa.chunked_array(columns)).as_py())
