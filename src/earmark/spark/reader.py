"""How does a Python worker search a version that many of them share?

A `Reader` is a read-only matcher over mapped files. The arrays of table and index stay in the page cache, once a host
however many workers map them; ids are Arrow columns over the same mapped bytes; strings are looked up in place. What
a worker has of its own does not grow with the number of subscriptions, except for a bit each (which are alive).

    events ──encode──► keys ──► table 1, index 1 ──► slots, scores ─┐ by sequence, or by score and sequence
                          └───► table 2, index 2 ──► slots, scores ─┴──► event, subscription, score

Workers keep the readers of the last few versions (`reader_of`), and take what was loaded out of the garbage
collector's sight (`gc.freeze`): Spark collects after every task, which would go through all of it.
"""

from __future__ import annotations

import ctypes
import gc
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from earmark.errors import EarmarkError
from earmark.index.contract import MatchIndex, RankedIndex
from earmark.model import bits
from earmark.model.arrays import F64, I32, I64, U64, EventArrays, TableArrays, frozen
from earmark.model.attribute import INTEGER, STRING, Attribute, Schema, attribute_type
from earmark.model.evaluate import score_matches
from earmark.model.files import open_stored, schema_of
from earmark.model.mapped_strings import MappedStrings
from earmark.model.stored import Stored
from earmark.model.strings import StringKeys
from earmark.model.table import NO_TAGS, Tags
from earmark.spark import contents
from earmark.spark.merge import id_array
from earmark.spark.versions import read_record, version_folder
from earmark.spark.widened import read_derived

KEPT = 3
"""Readers a process keeps."""


class Answers(NamedTuple):
    """What some events match: which event, which subscription, how well; event by event."""

    starts: I64
    subscriptions: pa.Array
    scores: F64

    @property
    def events(self) -> I64:
        """The number of the event of each answer."""
        return np.repeat(np.arange(len(self.starts) - 1, dtype=np.int64), np.diff(self.starts))


class Piece:
    """One table of a version, with its index and the slots that count."""

    def __init__(self, stored: Stored, removed: U64 | None) -> None:
        self.arrays: TableArrays = stored.arrays
        self.index: MatchIndex = contents.restored_index(stored)
        self.ids: pa.Array = id_array(stored.ids)
        alive = bits.all_set(stored.slots)
        self.alive: U64 = alive if removed is None else frozen(alive & ~removed)
        self._tagset, self._tagsets = stored.tagset, stored.tagsets

    def eligible(self, scope: Tags) -> U64:
        """The living slots that carry all these tags. O(slots) with a scope."""
        if not scope:
            return self.alive
        if not len(self._tagset):
            return frozen(np.zeros_like(self.alive))
        wanted = set(scope)
        has = np.array([wanted <= set(tags) for tags in self._tagsets])
        return bits.both(self.alive, _bitmap(has[self._tagset]))


def _bitmap(chosen: Any) -> U64:
    packed = np.zeros(bits.words_for(len(chosen)) * 8, np.uint8)
    made = np.packbits(chosen, bitorder="little")
    packed[: len(made)] = made
    return frozen(packed.view("<u8").astype(np.uint64, copy=False))


class Reader:
    """A version, or what was derived from it, for searching."""

    def __init__(self, root: Path, version: int, derived: str | None = None) -> None:
        record = read_record(root, version)
        if derived is None:
            contents.verify(root, record)
            stored = contents.guarded(root, record, lambda: _opened(root, record))
        else:
            folder, own = contents.guarded(root, record, lambda: read_derived(root, record, derived))
            contents.verify(root, own, folder)
            stored = [(open_stored(contents.table_folder(folder, own), verify=False, in_place=True), None)]
            record = own
        self.version = version
        self.schema, self.untyped = _encoding_schema(record, [table for table, _ in stored])
        self.pieces: list[Piece] = contents.guarded(root, record, lambda: [Piece(*one) for one in stored])
        if len(self.pieces) > 1 and not self.pieces[-1].arrays.sequence.size:
            self.pieces.pop()  # a delta that only removes
        self.id_type = pa.int64() if record["integer_ids"] else pa.string()
        self._scopes: OrderedDict[Tags, list[U64]] = OrderedDict()

    def match(self, events: EventArrays, scope: Tags = NO_TAGS) -> Answers:
        """All matches, in order of insertion."""
        found = []
        for piece, eligible in zip(self.pieces, self._eligible(scope), strict=True):
            starts, slots = piece.index.match_batch(events, eligible)
            scores = np.empty(len(slots), np.float64)
            score_matches(piece.arrays, events, starts, slots, scores)
            found.append((starts, slots, scores))
        return self._merged(found, None)

    def top_k(self, events: EventArrays, k: int, relaxed: bool, scope: Tags = NO_TAGS) -> Answers:
        """The k best, best first."""
        found = []
        for piece, eligible in zip(self.pieces, self._eligible(scope), strict=True):
            if not isinstance(piece.index, RankedIndex):
                raise EarmarkError(
                    "the index of this snapshot does not rank; publish with one that does, such as 'scan'"
                )
            found.append(piece.index.top_k_batch(events, k, eligible, relaxed))
        return self._merged(found, k)

    def _eligible(self, scope: Tags) -> list[U64]:
        if scope not in self._scopes:
            if len(self._scopes) == KEPT:
                self._scopes.popitem(last=False)
            self._scopes[scope] = [piece.eligible(scope) for piece in self.pieces]
        return self._scopes[scope]

    def _merged(self, found: list[tuple[I64, I32, F64]], k: int | None) -> Answers:
        columns = [
            piece.ids.take(pa.array(slots)).cast(self.id_type)
            for piece, (_, slots, _) in zip(self.pieces, found, strict=True)
        ]
        if len(found) == 1:  # the slots of one table are in order of insertion
            starts, _, scores = found[0]
            return Answers(starts, columns[0], scores)
        events = np.concatenate([np.repeat(np.arange(len(s) - 1), np.diff(s)) for s, _, _ in found])
        scores = np.concatenate([own for _, _, own in found])
        sequence = np.concatenate(
            [piece.arrays.sequence[slots] for piece, (_, slots, _) in zip(self.pieces, found, strict=True)]
        )
        order = np.lexsort((sequence, events) if k is None else (sequence, -scores, events))
        counts = np.bincount(events, minlength=len(found[0][0]) - 1)
        starts = np.concatenate([[0], np.cumsum(counts)])
        if k is not None:
            rank = np.arange(len(order)) - np.repeat(starts[:-1], counts)
            order, counts = order[rank < k], np.minimum(counts, k)
            starts = np.concatenate([[0], np.cumsum(counts)])
        return Answers(starts, pa.concat_arrays(columns).take(pa.array(order)), scores[order])


def _opened(root: Path, record: Mapping[str, Any]) -> list[tuple[Stored, U64 | None]]:
    base = contents.base_of(root, record)
    folder = version_folder(root, base["version"])
    table = open_stored(contents.table_folder(folder, base), verify=False, in_place=True)
    if base is record:
        return [(table, None)]
    folder = version_folder(root, record["version"])
    delta = open_stored(contents.table_folder(folder, record), verify=False, in_place=True)
    return [(table, contents.read_removed(folder, record, table.slots, verify=False)), (delta, None)]


def _encoding_schema(record: Mapping[str, Any], tables: list[Stored]) -> tuple[Schema, frozenset[str]]:
    """The version's schema with string keys looked up in its files; and the attributes without a type.

    Of those only NULL or not was asked, so any value will do: they are given as the integer 0 (events.py).
    """
    schema = schema_of(dict(record), lambda number: StringKeys())
    for attribute in schema:
        if attribute.type is not None and attribute.type.kind == STRING:
            parts = [t.schema.strings[attribute.number] for t in tables if attribute.number in t.schema.strings]
            strings: Any = [one for one in parts if isinstance(one, MappedStrings)]
            if strings:
                schema.strings[attribute.number] = strings[0] if len(strings) == 1 else strings[0].with_more(strings[1])
    untyped = [a for a in schema if a.type is None]
    for attribute in untyped:
        schema.put(Attribute(attribute.number, attribute.name, attribute_type(INTEGER), False, "nobody"))
    return schema, frozenset(a.name for a in untyped)


# --- kept between tasks --------------------------------------------------------------------------------------

_readers: OrderedDict[tuple[str, int, str | None], Reader] = OrderedDict()
_opening = Lock()


def reader_of(root: str, version: int, derived: str | None = None) -> Reader:
    """The reader of a version, opened once a process."""
    key = (root, version, derived)
    with _opening:
        reader = _readers.get(key)
        if reader is None:
            reader = Reader(Path(root), version, derived)
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
