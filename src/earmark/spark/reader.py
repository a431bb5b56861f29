"""How does a Python worker search a version that many of them share?

A `Reader` is a read-only matcher over mapped files. The arrays of table and index stay in the page cache, once a host
however many workers map them; ids are Arrow columns over the same mapped bytes; strings are looked up in place. What
a worker has of its own does not grow with the number of subscriptions, except for a bit each (which are alive).

    events ──encode──► keys ──► table 1, index 1 ──► slots, scores ─┐ by sequence, or by score and sequence
                          └───► table 2, index 2 ──► slots, scores ─┴──► event, subscription, score

Of a sharded version only the router is opened at first; a shard when an event is sent there (routing.py). Shards are
searched one after another, each for all events of a batch, and those used longest ago leave the process's memory when
more than RESIDENT bytes would be in it.

Workers keep the readers of the last few versions (`reader_of`), and take what was loaded out of the garbage
collector's sight (`gc.freeze`): Spark collects after every task, which would go through all of it.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from earmark.events.arrays import EventArrays
from earmark.events.choice import some_events
from earmark.flat import bits
from earmark.flat.packed import PackedStrings
from earmark.flat.types import F64, I32, I64, U64, frozen
from earmark.index.contract import Index
from earmark.keys.mapped_strings import MappedStrings
from earmark.keys.schema import Schema
from earmark.keys.strings import StringKeys
from earmark.locks import remade_lock
from earmark.segment.arrays import SegmentArrays
from earmark.segment.evaluate import score_matches
from earmark.segment.files import open_stored, schema_of
from earmark.segment.segment import NO_TAGS, Tags
from earmark.segment.stored import Stored
from earmark.spark import contents
from earmark.spark.descriptors import allow_open_files
from earmark.spark.frames import arrow_id_type
from earmark.spark.merge import id_array
from earmark.spark.routing import Router
from earmark.spark.versions import SnapshotError, read_record, version_folder

KEPT = 3
"""Readers a process keeps."""
RESIDENT = 256 << 20
"""Bytes of mapped shards that a process keeps in its memory; the page cache keeps the others."""


class Answers(NamedTuple):
    """What some events match: which event, which subscription, how well; event by event."""

    starts: I64
    subscriptions: pa.Array
    scores: F64
    counts: I64
    """By table: how many events were searched in it, and how many answers it gave (rows of two)."""

    @property
    def events(self) -> I64:
        """The number of the event of each answer."""
        return np.repeat(np.arange(len(self.starts) - 1, dtype=np.int64), np.diff(self.starts))


class Found(NamedTuple):
    """The answers of one table."""

    events: I64
    subscriptions: pa.Array
    scores: F64
    sequence: I64


class Piece:
    """One table of a version, with its index and the slots that count."""

    def __init__(self, stored: Stored, removed: U64 | None) -> None:
        self.arrays: SegmentArrays = stored.arrays
        self.index: Index = contents.restored_index(stored)
        self.ids: pa.Array = id_array(stored.ids)
        alive = bits.all_set(stored.slots)
        self.alive: U64 = alive if removed is None else frozen(alive & ~removed)
        self._tagset, self._tagsets = stored.tagset, stored.tagsets
        self._scopes: OrderedDict[Tags, U64] = OrderedDict()
        self._maps = _maps_of(stored)
        self.nbytes = sum(map(len, self._maps))
        self._in_memory = False

    def let_go(self) -> None:
        """Take the mapped pages out of this process's memory; they come back, from the page cache, when needed."""
        if self._in_memory:
            for mapped in self._maps:
                mapped.madvise(mmap.MADV_DONTNEED)
            self._in_memory = False

    def eligible(self, scope: Tags) -> U64:
        """The living slots that carry all these tags. O(slots) the first time."""
        if not scope:
            return self.alive
        if scope not in self._scopes:
            if len(self._scopes) == KEPT:
                self._scopes.popitem(last=False)
            self._scopes[scope] = self._tagged(scope)
        return self._scopes[scope]

    def _tagged(self, scope: Tags) -> U64:
        if not len(self._tagset):
            return frozen(np.zeros_like(self.alive))
        wanted = set(scope)
        has = np.array([wanted <= set(tags) for tags in self._tagsets])
        return bits.both(self.alive, _bitmap(has[self._tagset]))

    def search(self, events: EventArrays, k: int | None, relaxed: bool, scope: Tags) -> tuple[I64, I32, F64]:
        """(starts, slots, scores): all matches by slot, or the k best."""
        self._in_memory = True
        eligible = self.eligible(scope)
        if k is None:
            starts, slots = self.index.match_many(events, eligible)
            scores = np.empty(len(slots), np.float64)
            score_matches(self.arrays, events, starts, slots, scores)
            return starts, slots, scores
        return self.index.top_k_many(events, k, eligible, relaxed)


def _bitmap(chosen: Any) -> U64:
    packed = np.zeros(bits.words_for(len(chosen)) * 8, np.uint8)
    made = np.packbits(chosen, bitorder="little")
    packed[: len(made)] = made
    return frozen(packed.view("<u8").astype(np.uint64, copy=False))


def _maps_of(stored: Stored) -> list[mmap.mmap]:
    """The mapped files under a table and its index."""
    found = []
    ids = (stored.ids.start, stored.ids.joined) if isinstance(stored.ids, PackedStrings) else (stored.ids,)
    for array in (*stored.arrays, *ids, stored.tagset, *stored.extras.values()):
        under: Any = array
        while isinstance(under, np.ndarray):
            under = under.base
        if isinstance(under, mmap.mmap):
            found.append(under)
    return found


class Reader:
    """A version, for searching."""

    def __init__(self, root: Path, version: int, checksum: str | None = None) -> None:
        allow_open_files()
        record = read_record(root, version)
        if checksum is not None and record["blake2b"] != checksum:
            raise SnapshotError(
                f"version {version} of the snapshot {str(root)!r} is another than was opened: the folder has been "
                "published again; open the snapshot again"
            )
        contents.verify(root, record)
        base = contents.guarded(root, record, lambda: contents.base_of(root, record))
        self._folder = version_folder(root, base["version"])
        self.version = version
        self._root, self._record, self._base = root, record, base
        self._names = contents.shards_of(base)
        self._open: OrderedDict[int, Piece] = OrderedDict()
        self.id_type = arrow_id_type(record["integer_ids"])
        contents.guarded(root, record, self._start)

    def _start(self) -> None:
        """Open what every search needs: the router, or the only table; and the delta."""
        tables = []
        self.router: Router | None = None
        if contents.is_sharded(self._base):
            folder = contents.table_folder(self._folder, self._base, contents.ROUTER)
            tables.append(open_stored(folder, verify=False, in_place=True))
            self.router = Router(tables[0], len(self._names))
        else:
            tables.append(self._stored(0))
            self._open[0] = Piece(tables[0], self._removed(0, tables[0].slots))
        self.delta: Piece | None = None
        if self._base is not self._record:
            folder = version_folder(self._root, self._record["version"])
            stored = open_stored(contents.table_folder(folder, self._record), verify=False, in_place=True)
            tables.append(stored)
            if stored.slots:  # else it only removes
                self.delta = Piece(stored, None)
        self.schema = _schema(self._record, tables)

    @property
    def tables(self) -> int:
        """How many tables there are to search: shards, and the delta."""
        return len(self._names) + (self.delta is not None)

    def _stored(self, number: int) -> Stored:
        folder = contents.table_folder(self._folder, self._base, self._names[number])
        return open_stored(folder, verify=False, in_place=True)

    def _removed(self, number: int, slots: int) -> U64 | None:
        if self._base is self._record:
            return None
        folder = version_folder(self._root, self._record["version"])
        return contents.read_removed(folder, self._record, number, slots, verify=False)

    def piece(self, number: int) -> Piece:
        """A table: a shard by its number, or the delta, which comes after them."""
        if number == len(self._names) and self.delta is not None:
            return self.delta
        piece = self._open.get(number)
        if piece is None:
            piece = self._open[number] = contents.guarded(self._root, self._record, lambda: self._piece(number))
            gc.freeze()
        self._open.move_to_end(number)
        return piece

    def _piece(self, number: int) -> Piece:
        stored = self._stored(number)
        return Piece(stored, self._removed(number, stored.slots))

    def keep_within(self, limit: int) -> None:
        """Let go of the shards that were used longest ago, until those in memory are at most so large together."""
        total = 0
        for piece in reversed(self._open.values()):
            total += piece.nbytes
            if total > limit:
                piece.let_go()

    def routed(self, events: EventArrays, relaxed: bool) -> Iterator[tuple[int, I64 | None]]:
        """The tables to search, and the events to search in each; None for all of them."""
        count = len(events.start) - 1
        if self.router is None or relaxed:
            yield from ((number, None) for number in range(self.tables))
            return
        met = self.router.route(events)
        for number in range(len(self._names)):
            chosen = np.flatnonzero(met[number])
            if len(chosen):
                yield number, None if len(chosen) == count else chosen
        if self.delta is not None:
            yield len(self._names), None

    def match(self, events: EventArrays, scope: Tags = NO_TAGS) -> Answers:
        """All matches, in order of insertion."""
        return self._answers(events, None, False, scope)

    def top_k(self, events: EventArrays, k: int, relaxed: bool, scope: Tags = NO_TAGS) -> Answers:
        """The k best, best first."""
        return self._answers(events, k, relaxed, scope)

    def _answers(self, events: EventArrays, k: int | None, relaxed: bool, scope: Tags) -> Answers:
        count = len(events.start) - 1
        counts = np.zeros((self.tables, 2), np.int64)
        if self.tables == 1 and self.router is None:  # the slots of one table are in order of insertion
            piece = self.piece(0)
            starts, slots, scores = piece.search(events, k, relaxed, scope)
            counts[0] = count, len(slots)
            return Answers(starts, piece.ids.take(pa.array(slots)).cast(self.id_type), scores, counts)
        found = []
        for number, chosen in self.routed(events, relaxed):
            own = self.searched(number, events, chosen, k, relaxed, scope)
            counts[number] = count if chosen is None else len(chosen), len(own.scores)
            found.append(own)
            if self.router is not None:
                self.keep_within(RESIDENT)
        return Answers(*merged(found, count, k, self.id_type), counts)

    def searched(
        self, number: int, events: EventArrays, chosen: I64 | None, k: int | None, relaxed: bool, scope: Tags
    ) -> Found:
        """The answers of one table for some of the events."""
        piece = self.piece(number)
        part = events if chosen is None else some_events(events, chosen)
        starts, slots, scores = piece.search(part, k, relaxed, scope)
        rows = np.repeat(np.arange(len(starts) - 1) if chosen is None else chosen, np.diff(starts))
        return Found(rows, piece.ids.take(pa.array(slots)).cast(self.id_type), scores, piece.arrays.sequence[slots])


def merged(found: list[Found], count: int, k: int | None, id_type: pa.DataType) -> tuple[I64, pa.Array, F64]:
    """The answers of several tables for so many events as one: in order of insertion, or the k best."""
    if not found:
        return np.zeros(count + 1, np.int64), pa.array([], id_type), np.empty(0)
    events, scores, sequence = (
        np.concatenate([getattr(one, name) for one in found]) for name in ("events", "scores", "sequence")
    )
    order = np.lexsort((sequence, events) if k is None else (sequence, -scores, events))
    counts = np.bincount(events, minlength=count)
    starts = np.concatenate([[0], np.cumsum(counts)])
    if k is not None:
        rank = np.arange(len(order)) - np.repeat(starts[:-1], counts)
        order, counts = order[rank < k], np.minimum(counts, k)
        starts = np.concatenate([[0], np.cumsum(counts)])
    return starts, pa.concat_arrays([one.subscriptions for one in found]).take(pa.array(order)), scores[order]


def _schema(record: Mapping[str, Any], tables: list[Stored]) -> Schema:
    """The version's schema, with string keys looked up in its files."""
    schema = schema_of(dict(record), lambda number: StringKeys())
    for attribute in schema:
        if attribute.type is not None and attribute.type.keyed:
            parts = [t.schema.strings[attribute.number] for t in tables if attribute.number in t.schema.strings]
            strings: Any = [one for one in parts if isinstance(one, MappedStrings)]
            if strings:
                schema.strings[attribute.number] = strings[0] if len(strings) == 1 else strings[0].with_more(strings[1])
    return schema


# --- kept between tasks --------------------------------------------------------------------------------------

_readers: OrderedDict[tuple[str, int, str], Reader] = OrderedDict()
_opening = remade_lock()


def reader_of(root: str, version: int, checksum: str) -> Reader:
    """The reader of a version, opened once per process. The record's checksum tells it from another of its number."""
    key = (root, version, checksum)
    with _opening:
        reader = _readers.get(key)
        if reader is None:
            reader = Reader(Path(root), version, checksum)
            while len(_readers) >= KEPT:
                _readers.popitem(last=False)
            _readers[key] = reader
            gc.collect()
            gc.freeze()
            _give_back()
        _readers.move_to_end(key)
        return reader


def _give_back() -> None:
    """Return to the system what opening a version took and no longer needs, where the C library can."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
