"""Which members cover each of these, while members come and go in batches: blocks in layers of growing size.

`CoverBlocks` answers batches quickly and is built quickly, but what has come since it was built is compared one by one.
Here new members are a small structure of their own, and structures are joined so that sizes stay geometric:

    layers    [64,000 members] [16,000] [3,000] [1,000]      a question goes to each of them
                                                   └─ and the next thousand, since they are as many

Invariant (`check`): each member is in exactly one layer; each layer but the last has at least FACTOR times the members
that the next one had when it was last joined.
Complexity: a question O(layers) questions of blocks; a batch of b members is built into O(FACTOR log n) layers in turn,
at well under a microsecond per member each; fewer than FEW at a time go to the last layer, which compares what is new
one by one.
"""

from __future__ import annotations

import numpy as np

from earmark.cover.indexes.blocks import CoverBlocks
from earmark.cover.indexes.members import Members
from earmark.errors import require
from earmark.flat.arrays import I32, I64, pointers_of
from earmark.segment.arrays import SegmentArrays

FACTOR = 3
"""A layer is joined with the next one unless it has this many times its members."""
FEW = 256
"""Fewer new members than this are added to the last layer,"""
SMALL = 2_048
"""as long as it has fewer than this."""


class Layers(Members):
    """Blocks of members, in layers."""

    def __init__(self, table: SegmentArrays) -> None:
        super().__init__(table)
        self._layers: list[CoverBlocks] = []

    def _follow(self, table: SegmentArrays) -> None:
        super()._follow(table)
        for layer in self._layers:
            layer.insert(table, [])

    def _put(self, slots: list[int]) -> None:
        if not slots:
            return
        if self._layers and len(slots) < FEW and len(self._layers[-1]) < SMALL:
            self._layers[-1].insert(self.table, slots)
        else:
            self._layers.append(CoverBlocks.build(self.table, np.array(slots, np.int32)))
        self._join()

    def _take(self, slots: list[int]) -> None:
        for layer in self._layers:
            if gone := [slot for slot in slots if slot in layer]:
                layer.remove(gone)
        self._layers = [layer for layer in self._layers if len(layer)]
        self._join()

    def _join(self) -> None:
        """Join layers from the last one on, where the one before is not much larger."""
        layers = self._layers
        while len(layers) > 1 and len(layers[-2]) < FACTOR * len(layers[-1]):
            last = [layers.pop().members(), layers.pop().members()]
            layers.append(CoverBlocks.build(self.table, np.sort(np.concatenate(last))))

    def _search(self, slot: int, k: int, counters: I64) -> I32:
        found: list[I32] = [np.empty(0, np.int32)]
        for layer in self._layers:
            if k > 0:
                found.append(layer._search(slot, min(k, len(layer)), counters))
                k -= len(found[-1])
        return np.concatenate(found)

    def covering_batch(self, slots: I32, k: int | None = None, threads: int = 1) -> tuple[I64, I32]:
        """`covering` of each slot, on up to so many threads: (pointers, slots)."""
        chosen = np.asarray(slots, np.int32)
        for slot in (int(chosen.min()), int(chosen.max())) if len(chosen) else ():
            self._limit(slot, k)
        counts: I64 = np.zeros(len(chosen), np.int64)
        owners, found = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
        for layer in self._layers:
            asked = np.arange(len(chosen)) if k is None else np.flatnonzero(counts < k)
            pointers, answers = layer.covering_batch(chosen[asked], k, threads)
            each = np.diff(pointers)
            counts[asked] += each
            owners.append(np.repeat(asked, each))
            found.append(answers)
        owner, answer = np.concatenate(owners), np.concatenate(found)
        order = np.argsort(owner, kind="stable")
        owner, answer = owner[order], answer[order]
        if k is not None:
            rank = np.arange(len(owner)) - pointers_of(counts)[owner]
            answer, counts = answer[rank < k], np.minimum(counts, k)
        return pointers_of(counts), answer

    def meeting_batch(self, slots: I32) -> tuple[I64, I32]:
        """Members that share an event with each slot, each once, in no particular order: (pointers, members)."""
        counts, owners, found = np.zeros(len(slots), np.int64), [np.empty(0, np.int64)], [np.empty(0, np.int32)]
        for layer in self._layers:
            pointers, answers = layer.meeting_batch(slots)
            counts += np.diff(pointers)
            owners.append(np.repeat(np.arange(len(slots)), np.diff(pointers)))
            found.append(answers)
        order = np.argsort(np.concatenate(owners), kind="stable")
        return pointers_of(counts), np.concatenate(found)[order]

    def check(self) -> None:
        """Raise AssertionError unless each member is in one layer. O(size)."""
        super().check()
        for layer in self._layers:
            layer.check()
        every = np.concatenate([np.empty(0, np.int32), *(layer.members() for layer in self._layers)])
        require(np.array_equal(np.sort(every), self.members()), "a member is not in exactly one layer")
