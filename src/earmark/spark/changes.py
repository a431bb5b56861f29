"""How does a version follow from another by a few changes, without writing all of it again?

The next version lists the same large segments with other bitmaps of removed slots, and one small segment of everything
that was added or replaced since, which is scanned while it is small. So a change costs what the small segment costs,
plus one pass over the ids to find those that are changed.

A change that the segments cannot take as they are makes a full version instead: constants between which no key is left,
bounds beyond 2^53 on a number that had none, or ids of the other type once no subscription is live.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from earmark import index as indexes
from earmark.book.contents import open_version
from earmark.book.folder import SEGMENTS, Building, publishing, read_manifest
from earmark.book.parts import ADD, GIVEN_TWICE, REJECTS, REMOVE, UPDATE
from earmark.book.saving import Shelf
from earmark.book.segments import write_whole
from earmark.book.sharding import NOT_TAKEN, Source, checked_shards, sharded
from earmark.engine.compaction import compacted, united
from earmark.engine.lazy import LazySegment
from earmark.engine.version import IndexedSegment, Place, Version
from earmark.errors import SubscriptionError
from earmark.flat import bits
from earmark.flat.arrays import I64, PackedStrings
from earmark.segment.join import join, with_all_constants
from earmark.segment.segment import Segment
from earmark.spark.intake import Taken, check_on_error, in_order, refuse, rejected, source_of, take_rows
from earmark.spark.publish import PARTS, commit, on_executors

SCANNED = 20_000
"""The most changed subscriptions that are scanned, since an index would not be worth building."""
NOWHERE = -1
"""The slot of an id that is not there, and of a removal among what was parsed."""


class ValidChanges(NamedTuple):
    """Changes that can be made, in the order of insertion."""

    written: I64
    """Slots of what was parsed; NOWHERE for removals."""
    number: I64
    """The segment of the changed subscription, or NOWHERE."""
    slot: I64


def apply(
    root: Path, record: Mapping[str, Any], changes: DataFrame, order_by: str | None, on_error: str
) -> dict[str, Any]:
    """Make the version after some changes; return its record."""
    check_on_error(on_error)
    source = source_of(changes, None, order_by, changes=True)
    other_ids = source.integer_ids != record["integer_ids"]
    if record["subscriptions"] and other_ids:
        wanted, got = ("integers", "strings") if record["integer_ids"] else ("strings", "integers")
        raise SubscriptionError(f"expected {wanted} as the ids of changes, as in this snapshot, got {got}")
    with publishing(root, record["version"]) as site:
        site.check_parent()
        version, shelf = _opened(root, record)
        if other_ids:  # no subscription is live, and a version has ids of one type, those of removed ones included
            version = replace(version, segments=(), router=None, integer_ids=source.integer_ids)
        taken = take_rows(source, site.folder / PARTS, version.schema)
        if not taken.segments:
            return dict(record)
        schema = with_all_constants(taken.schema, taken.segments)
        parsed = join(taken.segments, schema)
        change, rejects = _possible(version, taken)
        refuse(rejects, on_error, "changed")
        changed = _changed(version, change, parsed)
        if schema.generation == version.schema.generation and not other_ids:
            changed = _settled(changed, indexes.builder(record["index"]))
        else:
            changed = _whole(site, record, changed, changes.sparkSession, shards_of(record))
        return commit(site, changed, record["index"], rejects, shelf, record["base"])


def compact(root: Path, record: Mapping[str, Any], shards: int | None = None) -> dict[str, Any]:
    """Make a version of the same subscriptions in one segment, or in shards, as many as before by default."""
    if shards is not None:
        checked_shards(shards)
    with publishing(root, record["version"]) as site:
        site.check_parent()
        version, shelf = _opened(root, record)
        whole = _whole(site, record, version.with_free_types(), _session(), shards or shards_of(record))
        return commit(site, whole, record["index"], REJECTS.empty_table(), shelf, record["base"])


def _opened(root: Path, record: Mapping[str, Any]) -> tuple[Version, Shelf]:
    version, keys = open_version(root, record)
    return version, Shelf(read_manifest(root)["book"], keys)


def shards_of(record: Mapping[str, Any]) -> int:
    """Return the number of shards of a version, apart from what was changed since the last full one."""
    return 1 if record["router"] is None else int(record["router"]["segments"])


def _session() -> Any:
    """Return the active session, if there is one."""
    if not is_remote():
        return SparkSession.getActiveSession()
    try:
        return SparkSession.active()
    except Exception:  # without a session, Connect raises an error of its own
        return None


def _settled(version: Version, build: Any) -> Version:
    """Return the version with all unsealed segments as one, in order; with an index, if it is large."""
    unsealed = [segment for segment in version.segments if not segment.is_sealed]
    if not unsealed:
        return version
    size = sum(segment.live for segment in unsealed)
    output = united(version, unsealed, build if size > SCANNED else None).output
    sealed = [segment for segment in version.segments if segment.is_sealed]
    return replace(version, segments=(*sealed, *([output] if output.live else [])))


def _whole(site: Building, record: Mapping[str, Any], version: Version, spark: Any, shards: int) -> Version:
    """Return a version of all live subscriptions, in one segment with its index, or in shards."""
    if shards == 1:
        living = version.with_segments(segment for segment in version.segments if segment.live)
        return compacted(living, indexes.builder(record["index"]), fewer_constants=True)
    sources = [_source(site, number, segment) for number, segment in enumerate(version.segments)]
    schema = with_all_constants(version.schema, [indexed.segment for indexed in version.segments])
    integers = bool(version.integer_ids)
    run = on_executors(spark)
    return sharded(site, sources, schema, shards, record["index"], version.next_sequence, integers, run)


def _source(site: Building, number: int, indexed: IndexedSegment) -> Source:
    """Return a segment of a version as a source of shards; write it first if it is not in the book yet."""
    sequence = np.full(len(indexed), NOT_TAKEN, np.int64)
    living = indexed.living()
    sequence[living] = indexed.segment.arrays.sequence[living]
    if isinstance(indexed, LazySegment):
        return site.root / SEGMENTS / indexed.entry["file"], indexed.entry, indexed.segment, sequence
    (site.folder / PARTS).mkdir(exist_ok=True)
    file = site.folder / PARTS / f"changed-{number}"
    write_whole(file, indexed.segment)
    return file, None, indexed.segment, sequence


# --- which changes can be made -------------------------------------------------------------------------------


def _possible(version: Version, taken: Taken) -> tuple[ValidChanges, pa.Table]:
    """Return the changes that can be made, and the rejects."""
    parts, first = [], 0
    for segment, part in zip(taken.segments, taken.rows, strict=True):
        slots = part["slot"].to_numpy().astype(np.int64)
        parts.append(part.append_column("written", pa.array(np.where(slots < 0, NOWHERE, slots + first))))
        first += len(segment)
    rows = pa.concat_tables(parts)
    order, repeats = in_order(rows)
    rejects = [taken.rejects, rejected(rows, repeats, GIVEN_TWICE.format)]
    rows = rows.take(pa.array(order))
    number, slot = (np.full(rows.num_rows, NOWHERE, np.int64) for _ in range(2))
    for at, indexed in enumerate(version.segments):
        slots = _slots_of(indexed, rows["id"])
        number[slots != NOWHERE], slot[slots != NOWHERE] = at, slots[slots != NOWHERE]
    live = number != NOWHERE
    good = np.ones(rows.num_rows, bool)
    ops = np.array(rows["op"].to_pylist(), object)
    for op, wrong, reason in (
        (ADD, live, "the id {!r} is already in use; 'update' or 'upsert' replaces it"),
        (UPDATE, ~live, "there is no subscription {!r} to update"),
        (REMOVE, ~live, "there is no subscription {!r} to remove"),
    ):
        bad = (ops == op) & wrong
        rejects.append(rejected(rows, np.flatnonzero(bad), reason.format))
        good &= ~bad
    valid = ValidChanges(rows["written"].to_numpy()[good], number[good], slot[good])
    return valid, pa.concat_tables(rejects)


def _slots_of(indexed: IndexedSegment, wanted: pa.ChunkedArray) -> I64:
    """Return the live slot of each wanted id, or NOWHERE. O(slots + wanted)."""
    result = np.full(len(wanted), NOWHERE, np.int64)
    if not indexed.live:
        return result
    column = indexed.segment.ids.column
    ids = column.to_arrow() if isinstance(column, PackedStrings) else pa.array(column)
    found = pc.index_in(ids, value_set=wanted.combine_chunks().cast(ids.type))
    slots = pc.indices_nonzero(found.is_valid()).to_numpy().astype(np.int64)
    gone = indexed.removed[slots // bits.WORD] >> (slots % bits.WORD).astype(np.uint64) & np.uint64(1)
    slots = slots[gone == 0]
    result[found.take(pa.array(slots)).to_numpy()] = slots
    return result


def _changed(version: Version, change: ValidChanges, parsed: Segment) -> Version:
    """Return the version after the changes: new subscriptions at the end, replaced ones at their old places."""
    written, number, slot = change
    sequence = np.full(len(written), NOWHERE, np.int64)
    for at in np.unique(number[number != NOWHERE]).tolist():
        here = number == at
        sequence[here] = version.segments[at].segment.arrays.sequence[slot[here]]
    kept = written != NOWHERE
    new = kept & (number == NOWHERE)
    sequence[new] = version.next_sequence + np.arange(np.count_nonzero(new))
    places = [Place(*pair) for pair in zip(number.tolist(), slot.tolist(), strict=True) if pair[0] != NOWHERE]
    # append before removing, so that no attribute is unused in between
    appended = version.appended(parsed.pick(written[kept]).with_sequence(sequence[kept]))
    return appended.removed(places)
