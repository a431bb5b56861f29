"""A table as arrays alone: what files hold, what parts of a table are joined from, and how it becomes a `Table`.

    texts   'ab' 'c' ''      start  0 2 3 3      joined  a b c       (ids and conditions)
    tags    tagset  1 0 1    tagsets  (), (("tenant", "acme"),)     slots 0 and 2 carry the second set

There is no Python object for each subscription here, so a million of them open by mapping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.errors import require
from earmark.flat.types import I32, I64, U8
from earmark.keys.schema import Schema
from earmark.segment.arrays import SegmentArrays
from earmark.segment.table import Block, Id, Table, Tags

_ASCII_END = 128


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """Many texts as offsets and one run of UTF-8 bytes."""

    start: I64
    joined: U8

    def __len__(self) -> int:
        return len(self.start) - 1


class Stored(NamedTuple):
    """A table as arrays alone, all slots living: what a folder holds, without a Python object for each subscription."""

    schema: Schema
    arrays: SegmentArrays
    ids: I64 | Texts
    asked: Texts
    tagset: I32
    """The number of each slot's set of tags; empty when there are no tags."""
    tagsets: list[Tags]
    next_sequence: int
    generation: int = 0
    options: Mapping[str, Any] = MappingProxyType({})
    extras: Mapping[str, NDArray[Any]] = MappingProxyType({})

    @property
    def slots(self) -> int:
        """How many subscriptions."""
        return len(self.arrays.sequence)


def stored_of(table: Table) -> Stored:
    """The arrays of a table whose slots are all living."""
    require(table.live == table.slots, "a table is stored without its removed slots")
    ids = table.ids[: table.slots]
    integers = bool(ids) and isinstance(ids[0], int)
    return Stored(
        schema=table.schema,
        arrays=table.arrays,
        ids=np.array(ids, np.int64) if integers else packed([str(one).encode() for one in ids]),
        asked=Texts(table.asked_start, table.asked_bytes),
        tagset=table.tagset,
        tagsets=table.tagsets[: table.columns.tagsets.size],
        next_sequence=table.next_sequence,
        generation=table.generation,
    )


def table_of(stored: Stored) -> Table:
    """A table that can be changed, around arrays that were verified."""
    ids: list[Id] = list(text_list(stored.ids)) if isinstance(stored.ids, Texts) else stored.ids.tolist()
    tags = [stored.tagsets[n] for n in stored.tagset.tolist()] if len(stored.tagset) else None
    table = Table.restored(
        stored.schema,
        Block(stored.arrays, ids, [], tags),
        stored.asked.start,
        stored.asked.joined,
        generation=stored.generation,
        next_sequence=stored.next_sequence,
    )
    require(len(set(ids)) == len(ids), "an id is used twice")
    return table


def packed(texts: Sequence[bytes]) -> Texts:
    """Many byte strings as offsets and one run of bytes."""
    start = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(t) for t in texts], out=start[1:])
    return Texts(start, np.frombuffer(b"".join(texts), np.uint8))


def unpacked(start: I64, joined: U8) -> list[bytes]:
    """The inverse of `packed`; raises AssertionError when the offsets are not right."""
    ends, whole = _ends(start, joined), joined.tobytes()
    return [whole[a:b] for a, b in pairwise(ends)]


def _ends(start: I64, joined: U8) -> list[int]:
    require(len(start) and start[0] == 0 and start[-1] == len(joined), "the offsets of texts do not fit them")
    require((start[:-1] <= start[1:]).all(), "the offsets of texts descend")
    ends: list[int] = start.tolist()
    return ends


def text_list(texts: Texts) -> list[str]:
    """The texts as Python holds them."""
    start, joined = texts.start, texts.joined
    if not (joined < _ASCII_END).all():
        return [part.decode() for part in unpacked(start, joined)]
    ends = _ends(start, joined)
    whole = joined.tobytes().decode("ascii")  # one byte a character: cut the text itself, which is quicker
    return [whole[a:b] for a, b in pairwise(ends)]


def check_texts(texts: Texts, what: str) -> None:
    """Raise AssertionError or ValueError unless these are texts, whole characters each."""
    start, joined = texts.start, texts.joined
    require(len(start) and start[0] == 0 and start[-1] == len(joined), f"the offsets of {what} do not fit them")
    require(bool((start[:-1] <= start[1:]).all()), f"the offsets of {what} descend")
    if (joined < _ASCII_END).all():
        return
    joined.tobytes().decode()
    begins = joined[start[start < len(joined)]]
    require(not ((begins & 0xC0) == 0x80).any(), f"one of the {what} begins inside a character")
