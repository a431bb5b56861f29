"""A segment that is opened when it is first searched, and leaves memory when others need the room.

A version of many shards is opened by many processes of a host, and an event meets few of them. What is known without
opening a segment (its size, what was removed, the generation of its keys) is in the version's record; the arrays are
mapped when an event is sent there, so that all processes share one copy in the page cache.
"""

from __future__ import annotations

import mmap
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from earmark.engine.version import IndexedSegment
from earmark.flat import bits
from earmark.flat.arrays import U64, frozen
from earmark.index.driver import ArrayIndex
from earmark.lazy import lazy_property
from earmark.locks import remade_lock
from earmark.segment.segment import Row, Segment, Tags

RESIDENT = 256 << 20
"""Bytes of mapped segments that a process keeps in its memory; the page cache keeps the others."""


Contents: TypeAlias = tuple[Segment, U64, Callable[[], ArrayIndex[Any] | None], mmap.mmap | None]
"""What opening gives: the segment, the slots that its index does not know, what opens the index, what is mapped."""


class Resident:
    """The mapped segments in this process's memory, the one used longest ago first."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = RESIDENT if limit is None else limit
        self._used: OrderedDict[int, LazySegment] = OrderedDict()
        self._bytes = 0
        self._lock = remade_lock()

    def use(self, one: LazySegment) -> None:
        """Note that a segment is searched now; those used longest ago leave, if together they are too large."""
        with self._lock:
            if id(one) not in self._used:
                self._used[id(one)] = one
                self._bytes += one.mapped_bytes
            self._used.move_to_end(id(one))
            while self._bytes > self.limit and len(self._used) > 1:
                _, other = self._used.popitem(last=False)
                self._bytes -= other.mapped_bytes
                other.leave()


class LazySegment(IndexedSegment):
    """One of the segments of a version, which is opened when its arrays are first asked for."""

    def __init__(
        self,
        entry: Any,
        generation: int,
        slots: int,
        removed: U64,
        live: int,
        open_: Callable[[], Contents],
        resident: Resident | None = None,
    ) -> None:
        base = frozen(bits.all_set(slots) & ~removed)
        fields = {"base": base, "known": slots, "since": (), "live": live, "line": object(), "entry": entry}
        more = {"_generation": generation, "_open": open_, "_resident": resident}
        self.__dict__.update(fields | more)

    entry: Any
    """What the version's record says of it."""
    _generation: int
    _open: Callable[[], Contents]
    _resident: Resident | None

    @lazy_property
    def _opened(self) -> Contents:
        return self._open()

    @property
    def segment(self) -> Segment:  # type: ignore[override]
        """The subscriptions, opened now if they were not."""
        return self._opened[0]

    @lazy_property
    def index(self) -> ArrayIndex[Any] | None:
        """The index, opened now if it was not."""
        return self._opened[2]()

    @property
    def forgotten(self) -> U64:  # type: ignore[override]
        """Those of the removed slots that the index does not know either."""
        return self._opened[1]

    def opened(self) -> IndexedSegment:
        """The same, open for good."""
        fields = (self.base, self.known, self.since, self.live, self.forgotten, self.line)
        return IndexedSegment(self.segment, self.index, *fields)

    def __len__(self) -> int:
        return self.known

    @property
    def generation(self) -> int:
        """That of the segment's keys."""
        return self._generation

    @property
    def is_sealed(self) -> bool:
        """Whether it has an index."""
        return bool(self.entry["index"] is not None)

    def without(self, slots: Sequence[int]) -> IndexedSegment:
        """The same without these slots, all of which are living; still not opened, if it was not."""
        removed = bits.set_slots(self.removed, np.array(slots, np.int64))
        live = self.live - len(slots)
        made = LazySegment(self.entry, self._generation, self.known, removed, live, self._open, self._resident)
        made.__dict__["line"] = self.line
        return made

    def appended(self, other: Segment | Row) -> IndexedSegment:
        """An unsealed segment with more rows behind it."""
        return self.opened().appended(other)

    # --- memory ----------------------------------------------------------------------------------------------

    @property
    def mapped_bytes(self) -> int:
        """The size of what is mapped."""
        mapped = self._opened[3]
        return 0 if mapped is None else len(mapped)

    def leave(self) -> None:
        """Take the mapped pages out of this process's memory; they come back, from the page cache, when needed."""
        mapped = self._opened[3]
        if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)

    def searched_by(self, eligible: U64) -> Any:
        """What searches among these slots."""
        if self._resident is not None:
            self._resident.use(self)
        return super().searched_by(eligible)

    def _tagged(self, scope: Tags) -> U64:
        """By the sets of tags: to find slots by their tags would take tables that stay in memory. O(slots)."""
        segment, wanted = self.segment, set(scope)
        if not len(segment.tagset):
            return frozen(np.zeros_like(self.alive))
        sets = segment.tagsets.items[: segment.tagsets.size]
        has = np.array([wanted <= set(tags) for tags in sets])
        padded = np.pad(has[segment.tagset], (0, -len(self) % bits.WORD))
        return bits.both(self.alive, np.packbits(padded, bitorder="little").view("<u8").astype(np.uint64, copy=False))
