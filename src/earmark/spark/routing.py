"""Which shards may hold a match for an event?

A router is a table of its own: the covers of all shards (covers.py), each with the number of its shard, and an index
over them. An event is sent to the shards of the covers that it matches.

    covers      a IN [3, 9]    b IN [1, 1]    a IN [0, 4] AND c IN [7, 8]       event  a = 4: meets the first cover,
    shard_of    0              0              2                                 not the third (no c), so shard 0

The table of a router also has the string constants of all shards, so that it is what encodes the events.

Invariant: an event that matches a subscription of a shard exactly is sent there. (A relaxed match needs no more than
one constraint that holds, so relaxed searches go to all shards.)

Complexity: that of the index over the covers, and O(events x shards / 64).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from earmark import index as indexes
from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.flat.packed import PackedStrings
from earmark.flat.types import I32, frozen
from earmark.keys.schema import Schema
from earmark.segment.arrays import SegmentArrays
from earmark.segment.files import save_stored
from earmark.segment.join import concat_all
from earmark.segment.stored import Stored
from earmark.spark import contents

SCANNED = 2_048
"""So few covers are scanned."""
INDEX = "blocks"


class Router:
    """The covers of shards, ready to be searched."""

    def __init__(self, stored: Stored, shards: int) -> None:
        self.shards = shards
        self._index = contents.restored_index(stored)
        self._shard_of: I32 = stored.extras[contents.SHARD_OF]
        self._all = bits.all_set(stored.slots)

    def route(self, events: EventArrays) -> NDArray[np.bool_]:
        """Which events (columns) each shard (rows) must see."""
        count = len(events.start) - 1
        met = np.zeros((self.shards, count), np.bool_)
        pointers, covers = self._index.match_many(events, self._all)
        met[self._shard_of[covers], np.repeat(np.arange(count), np.diff(pointers))] = True
        return met


def write_router(target: Path, covers: Sequence[SegmentArrays], schema: Schema) -> Stored:
    """Write the router of shards with these covers."""
    shard_of = np.repeat(np.arange(len(covers), dtype=np.int32), [len(own.sequence) for own in covers])
    count = len(shard_of)
    table = concat_all(covers)._replace(sequence=np.arange(count, dtype=np.int64))
    name = "scan" if count <= SCANNED else INDEX
    made = indexes.builder(name)(SegmentArrays._make(frozen(column) for column in table))
    stored = Stored(
        schema=schema,
        arrays=table,
        ids=np.arange(count, dtype=np.int64),
        asked=PackedStrings(np.zeros(count + 1, np.int64), np.empty(0, np.uint8)),
        tagset=np.empty(0, np.int32),
        tagsets=[()],
        next_sequence=count,
        options={"index": name},
        extras={**indexes.stored(made), contents.SHARD_OF: shard_of},
    )
    save_stored(stored, target)
    return stored
