"""A segment as a packed file, with its index; and the files that are made on the way to one.

    clause_start … sequence         the arrays of segment/arrays.py
    ids, or ids_start ids_bytes     integers, or strings
    asked_start asked_bytes         the text of conditions
    tagset, tagsets                 where there are tags: the number of each slot's set, and the sets as JSON
    index.*                         the arrays of the index; index_forgotten: the bitmap of slots that it does not know

Bounds are keys of the schema of the versions that list the file. A *whole* file has its schema with it: the attributes
as a fact, and `keys.*` (keys.py). It is what workers hand each other while a book is being made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from earmark import index as indexes
from earmark.book.files import count_of
from earmark.book.keys import keys_arrays, read_keys
from earmark.book.packed_file import Entry, PackedFile, read_packed, write_packed
from earmark.engine.lazy import Contents
from earmark.engine.router import Router
from earmark.engine.version import no_slots
from earmark.errors import EarmarkError, TableError, require
from earmark.flat import bits
from earmark.flat.arrays import U64, Listed, PackedStrings, frozen
from earmark.index.driver import ArrayIndex
from earmark.keys.records import schema_of, schema_record
from earmark.keys.schema import Schema
from earmark.segment.arrays import SegmentArrays
from earmark.segment.builder import checked_tags
from earmark.segment.ids import Ids
from earmark.segment.segment import DAMAGE, NO_TAGS, Segment, Tags

SEGMENT, WHOLE, ROUTER = "segment", "whole segment", "router"
_INDEX, _EXTRA, _FORGOTTEN = "index.", "extra.", "index_forgotten"
_DTYPES: dict[str, Any] = {
    **dict.fromkeys(("clause_start", "constraint_start", "attr", "interval_start"), np.int32),
    **dict.fromkeys(("lo", "hi", "sequence"), np.int64),
    **dict.fromkeys(("weight", "score"), np.float64),
    "accepts_null": np.uint8,
}


# --- writing -------------------------------------------------------------------------------------------------


def write_segment(
    file: Path,
    segment: Segment,
    name: str | None = None,
    index: ArrayIndex[Any] | None = None,
    forgotten: U64 | None = None,
) -> dict[str, Any]:
    """Write a segment with its index, called `name`; returns what a version's record says of it.

    `forgotten` are the slots that the index does not know.
    """
    arrays = _arrays_of(segment)
    if index is not None:
        arrays |= {_INDEX + own: array for own, array in indexes.stored(index).items()}
        if forgotten is not None and forgotten.any():
            arrays[_FORGOTTEN] = forgotten
    kind = name if index is not None else None
    entry = write_packed(file, SEGMENT, {**_about(segment), "index": kind}, arrays)
    return {**entry._asdict(), "slots": len(segment), "index": kind}


def write_whole(
    file: Path,
    segment: Segment,
    facts: Mapping[str, Any] | None = None,
    extras: Mapping[str, NDArray[Any]] | None = None,
) -> None:
    """Write a segment with its schema, some facts (JSON) and some more arrays."""
    about = {**_about(segment), "schema": schema_record(segment.schema), "facts": dict(facts or {})}
    more = {_EXTRA + name: array for name, array in (extras or {}).items()}
    write_packed(file, WHOLE, about, {**_arrays_of(segment), **keys_arrays(segment.schema.strings), **more})


def _about(segment: Segment) -> dict[str, Any]:
    facts = {"slots": len(segment), "ordered": segment.is_ordered, "attributes": len(segment.schema)}
    return {**facts, "integer_ids": not isinstance(segment.ids.column, PackedStrings)}


def _arrays_of(segment: Segment) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = dict(segment.arrays._asdict())
    ids = segment.ids.column
    if isinstance(ids, PackedStrings):
        arrays["ids_start"], arrays["ids_bytes"] = ids.start, ids.joined
    else:
        arrays["ids"] = ids
    arrays["asked_start"], arrays["asked_bytes"] = segment.asked.start, segment.asked.joined
    if len(segment.tagset):
        arrays["tagset"] = segment.tagset
        sets = segment.tagsets.items[: segment.tagsets.size]
        arrays["tagsets"] = np.frombuffer(json.dumps(sets).encode(), np.uint8)
    return arrays


# --- reading -------------------------------------------------------------------------------------------------


def read_segment(
    file: Path, entry: Mapping[str, Any], schema: Schema, *, mmap: bool = True, verify: bool = False
) -> Contents:
    """The segment of an entry of a record, under a schema; its index is opened when it is asked for."""
    opened = read_packed(file, SEGMENT, entry_of(entry), mmap=mmap, verify=verify)
    require(opened.about["index"] == entry["index"], f"{file.name} has another index than was recorded")
    segment = _segment_of(opened, schema)
    require(len(segment) == entry["slots"], f"{file.name} has not as many slots as were recorded")
    forgotten = no_slots(len(segment))
    if _FORGOTTEN in opened.arrays:
        forgotten = checked_bitmap(opened.array(_FORGOTTEN, np.uint64), len(segment))
    return segment, forgotten, partial(_index_of, opened, segment), opened.mapped


def entry_of(entry: Mapping[str, Any]) -> Entry:
    """What a record says of any packed file."""
    return Entry(entry["file"], count_of(entry["bytes"]), entry["checksum"])


def _index_of(opened: PackedFile, segment: Segment) -> ArrayIndex[Any] | None:
    name = opened.about["index"]
    if name is None:
        return None
    return restored(name, segment.arrays, opened.under(_INDEX))


def restored(name: str, arrays: SegmentArrays, stored: Mapping[str, NDArray[Any]]) -> ArrayIndex[Any]:
    """An index from its stored arrays; TableError where it cannot be."""
    if name not in indexes.names():
        raise TableError(
            f"the index {str(name)[:50]!r} is not one that this earmark has; there are {', '.join(indexes.names())}"
        )
    try:
        return indexes.restore(name, arrays, stored)
    except (EarmarkError, *DAMAGE) as problem:
        raise TableError(f"the index {name!r} is damaged: {str(problem) or type(problem).__name__}") from None


def read_whole(file: Path, *, in_place: bool = False) -> tuple[Segment, dict[str, Any], dict[str, NDArray[Any]]]:
    """A segment with its schema, facts and more arrays; `in_place` leaves strings where they are mapped."""
    opened = read_packed(file, WHOLE)
    keys = read_keys([opened], in_place)
    segment = _segment_of(opened, schema_of(opened.about["schema"], keys))
    return segment, opened.about["facts"], opened.under(_EXTRA)


def _segment_of(opened: PackedFile, schema: Schema) -> Segment:
    about = opened.about
    slots = count_of(about["slots"])
    require(count_of(about["attributes"]) <= len(schema), "a segment has attributes that its version does not have")
    ids: Any
    if about["integer_ids"]:
        ids = opened.array("ids", np.int64)
    else:
        ids = PackedStrings(opened.array("ids_start", np.int64), opened.array("ids_bytes", np.uint8))
    tagset, tagsets = frozen(np.empty(0, np.int32)), [NO_TAGS]
    if "tagset" in opened.arrays:
        tagset, tagsets = opened.array("tagset", np.int32), _tagsets(opened.array("tagsets", np.uint8).tobytes())
    segment = Segment(
        schema,
        SegmentArrays(**{name: opened.array(name, _DTYPES[name]) for name in SegmentArrays._fields}),
        Ids.of(ids),
        PackedStrings(opened.array("asked_start", np.int64), opened.array("asked_bytes", np.uint8)),
        tagset,
        Listed(tagsets),
        known_order=bool(about["ordered"]),
    )
    require(len(segment) == slots == len(segment.ids), "ids and slots disagree")
    require(len(segment.asked) == slots, "conditions and slots disagree")
    require(len(tagset) in (0, slots), "tags and slots disagree")
    return segment


def _tagsets(text: bytes) -> list[Tags]:
    known = [checked_tags(dict(tags)) for tags in json.loads(text)]
    require(known and known[0] == NO_TAGS, "the first set of tags is not the empty one")
    return known


def checked_bitmap(bitmap: U64, slots: int) -> U64:
    """A bitmap over this many slots from a file, or AssertionError."""
    require(len(bitmap) == bits.words_for(slots), "a bitmap of slots has the wrong size")
    beyond = slots % bits.WORD and len(bitmap) and int(bitmap[-1]) >> (slots % bits.WORD)
    require(not beyond, "a bitmap has slots that are not there")
    return bitmap


# --- routers -------------------------------------------------------------------------------------------------


def write_router(file: Path, router: Router) -> dict[str, Any]:
    """Write a router; returns what a version's record says of it."""
    arrays = {**router.covers._asdict(), "segment_of": router.segment_of}
    arrays |= {_INDEX + own: array for own, array in indexes.stored(router.index).items()}
    entry = write_packed(file, ROUTER, {"index": router.name, "segments": router.segments}, arrays)
    return {**entry._asdict(), "segments": router.segments}


def read_router(file: Path, entry: Mapping[str, Any], *, verify: bool = False) -> Router:
    """The router of an entry of a record."""
    opened = read_packed(file, ROUTER, entry_of(entry), verify=verify)
    covers = SegmentArrays(**{name: opened.array(name, _DTYPES[name]) for name in SegmentArrays._fields})
    segments = count_of(opened.about["segments"])
    require(segments == entry["segments"], "the router is for another number of segments")
    name = opened.about["index"]
    index = restored(name, covers, opened.under(_INDEX))
    return Router(segments, covers, opened.array("segment_of", np.int32), name, index)
