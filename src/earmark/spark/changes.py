"""How does a version follow from another by a few changes, without writing all of it again?

The next version lists the same large segments with other bitmaps of removed slots, and one small segment of everything
that was added or replaced since, which is scanned while it is small. So a change costs what the small segment costs,
plus one pass over the ids to find those that are touched.

A change that the segments cannot take as they are makes a full version instead: constants between which no key is left,
bounds beyond 2^53 on a number that had none, or ids of the other kind once nothing lives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from earmark import index as indexes
from earmark.book.contents import open_version
from earmark.book.folder import SEGMENTS, Building, building, prepare_root, read_manifest
from earmark.book.parts import ADD, GIVEN_TWICE, REJECTS, REMOVE, UPDATE
from earmark.book.saving import Shelf
from earmark.book.segments import write_whole
from earmark.book.sharding import NOT_TAKEN, Source, checked_shards, sharded
from earmark.engine.compaction import compacted, merged
from earmark.engine.indexed import IndexedSegment
from earmark.engine.lazy import LazySegment
from earmark.engine.version import Place, Version
from earmark.errors import SubscriptionError, TableError
from earmark.flat import bits
from earmark.flat.packed import PackedStrings
from earmark.flat.types import I64
from earmark.segment.join import join, with_all_constants
from earmark.segment.segment import Segment
from earmark.spark.intake import Taken, check_on_error, in_order, refuse, rejected, source_of, take_rows
from earmark.spark.publish import PARTS, commit, on_executors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCANNED = 20_000
"""At most so many changed subscriptions are scanned: an index would not pay for its making."""
NOWHERE = -1
"""The slot of an id that is not there, and of a removal among what was parsed."""


class Change(NamedTuple):
    """Changes that can be done, in the order of insertion."""

    written: I64
    """Slots of what was parsed; NOWHERE for removals."""
    number: I64
    """The segment of the subscription that a change touches, or NOWHERE."""
    slot: I64


def apply(
    root: Path, record: Mapping[str, Any], changes: DataFrame, order_by: str | None, on_error: str
) -> dict[str, Any]:
    """The version after some changes; returns its record."""
    check_on_error(on_error)
    source = source_of(changes, None, order_by, changes=True)
    other_kind = source.integer_ids != record["integer_ids"]
    if record["subscriptions"] and other_kind:
        kind = "integers" if record["integer_ids"] else "texts"
        raise SubscriptionError(f"the ids of this snapshot are {kind}, those of the changes are not")
    try:
        prepare_root(root)
        with building(root, record["version"]) as site:
            site.check_parent()
            version, shelf = _opened(root, record)
            if other_kind:  # nothing lives, and a version has ids of one kind, those of removed subscriptions included
                version = replace(version, segments=(), router=None, integer_ids=source.integer_ids)
            taken = take_rows(source, site.folder / PARTS, version.schema)
            if not taken.segments:
                return dict(record)
            schema = with_all_constants(taken.schema, taken.segments)
            parsed = join(taken.segments, schema)
            change, rejects = _possible(version, taken)
            refuse(rejects, on_error, "changed")
            made = _changed(version, change, parsed)
            if schema.generation == version.schema.generation and not other_kind:
                made = _settled(made, indexes.builder(record["index"]))
            else:
                made = _whole(site, record, made, changes.sparkSession, _shards(record))
            return commit(site, made, record["index"], rejects, shelf, record["base"])
    except OSError as problem:
        raise TableError(f"nothing can be published to {str(root)!r}: {problem.strerror or problem}") from None


def compact(root: Path, record: Mapping[str, Any], shards: int | None = None) -> dict[str, Any]:
    """The same subscriptions in one segment, or in as many shards as before or as given; returns the record."""
    if shards is not None:
        checked_shards(shards)
    try:
        prepare_root(root)
        with building(root, record["version"]) as site:
            site.check_parent()
            version, shelf = _opened(root, record)
            made = _whole(site, record, version.with_free_types(), _session(), shards or _shards(record))
            return commit(site, made, record["index"], REJECTS.empty_table(), shelf, record["base"])
    except OSError as problem:
        raise TableError(f"nothing can be published to {str(root)!r}: {problem.strerror or problem}") from None


def _opened(root: Path, record: Mapping[str, Any]) -> tuple[Version, Shelf]:
    version, keys = open_version(root, record)
    return version, Shelf(read_manifest(root)["book"], keys)


def _shards(record: Mapping[str, Any]) -> int:
    return 1 if record["router"] is None else int(record["router"]["segments"])


def _session() -> Any:
    """The session of whoever calls, if there is one."""
    from pyspark.sql import SparkSession
    from pyspark.sql.utils import is_remote

    if not is_remote():
        return SparkSession.getActiveSession()
    try:
        return SparkSession.active()
    except Exception:  # none, which Connect says by an error of its own
        return None


def _settled(version: Version, build: Any) -> Version:
    """The version with all that is not sealed in one segment, in order; with an index, where it is large."""
    unsealed = [one for one in version.segments if not one.is_sealed]
    if not unsealed:
        return version
    size = sum(one.live for one in unsealed)
    output = merged(version, unsealed, build if size > SCANNED else None).output
    sealed = [one for one in version.segments if one.is_sealed]
    return replace(version, segments=(*sealed, *([output] if output.live else [])))


def _whole(site: Building, record: Mapping[str, Any], version: Version, spark: Any, shards: int) -> Version:
    """All living subscriptions in one segment with its index, or in so many shards."""
    if shards == 1:
        living = version.with_segments(one for one in version.segments if one.live)
        return compacted(living, indexes.builder(record["index"]), fewer_constants=True)
    sources = [_source(site, number, one) for number, one in enumerate(version.segments)]
    schema = with_all_constants(version.schema, [one.segment for one in version.segments])
    integers = bool(version.integer_ids)
    run = on_executors(spark)
    return sharded(site, sources, schema, shards, record["index"], version.next_sequence, integers, run)


def _source(site: Building, number: int, one: IndexedSegment) -> Source:
    """A segment of a version as a source of shards; one that is not in the book yet is written for that."""
    sequence = np.full(len(one), NOT_TAKEN, np.int64)
    living = one.living()
    sequence[living] = one.segment.arrays.sequence[living]
    if isinstance(one, LazySegment):
        return site.root / SEGMENTS / one.entry["file"], one.entry, one.segment, sequence
    (site.folder / PARTS).mkdir(exist_ok=True)
    file = site.folder / PARTS / f"changed-{number}"
    write_whole(file, one.segment)
    return file, None, one.segment, sequence


# --- which changes can be done -------------------------------------------------------------------------------


def _possible(version: Version, taken: Taken) -> tuple[Change, pa.Table]:
    """Which changes can be done, and the rejects."""
    parts, first = [], 0
    for segment, own in zip(taken.segments, taken.rows, strict=True):
        slots = own["slot"].to_numpy().astype(np.int64)
        parts.append(own.append_column("written", pa.array(np.where(slots < 0, NOWHERE, slots + first))))
        first += len(segment)
    rows = pa.concat_tables(parts)
    order, repeats = in_order(rows)
    rejects = [taken.rejects, rejected(rows, repeats, GIVEN_TWICE.format)]
    rows = rows.take(pa.array(order))
    number, slot = (np.full(rows.num_rows, NOWHERE, np.int64) for _ in range(2))
    for at, one in enumerate(version.segments):
        own = _places(one, rows["id"])
        number[own != NOWHERE], slot[own != NOWHERE] = at, own[own != NOWHERE]
    live = number != NOWHERE
    ops = np.array(rows["op"].to_pylist(), object)
    for op, wrong, reason in (
        (ADD, live, "the id {!r} is already in use; 'update' or 'upsert' replaces it"),
        (UPDATE, ~live, "there is no subscription {!r} to update"),
        (REMOVE, ~live, "there is no subscription {!r} to remove"),
    ):
        bad = np.flatnonzero((ops == op) & wrong)
        rejects.append(rejected(rows, bad, reason.format))
    good = ~(((ops == ADD) & live) | (((ops == UPDATE) | (ops == REMOVE)) & ~live))
    change = Change(rows["written"].to_numpy()[good], number[good], slot[good])
    return change, pa.concat_tables(rejects)


def _places(one: IndexedSegment, wanted: pa.ChunkedArray) -> I64:
    """The living slot of each wanted id, or NOWHERE. O(slots + wanted)."""
    places = np.full(len(wanted), NOWHERE, np.int64)
    if not one.live:
        return places
    column = one.segment.ids.column
    ids = column.to_arrow() if isinstance(column, PackedStrings) else pa.array(column)
    found = pc.index_in(ids, value_set=wanted.combine_chunks().cast(ids.type))
    slots = pc.indices_nonzero(found.is_valid()).to_numpy().astype(np.int64)
    gone = one.removed[slots // bits.WORD] >> (slots % bits.WORD).astype(np.uint64) & np.uint64(1)
    slots = slots[gone == 0]
    places[found.take(pa.array(slots)).to_numpy()] = slots
    return places


def _changed(version: Version, change: Change, parsed: Segment) -> Version:
    """The version after the changes: new subscriptions at the end, replaced ones in their places in the order."""
    written, number, slot = change
    sequence = np.full(len(written), NOWHERE, np.int64)
    for at in np.unique(number[number != NOWHERE]).tolist():
        mine = number == at
        sequence[mine] = version.segments[at].segment.arrays.sequence[slot[mine]]
    kept = written != NOWHERE
    new = kept & (number == NOWHERE)
    sequence[new] = version.next_sequence + np.arange(np.count_nonzero(new))
    places = [Place(*pair) for pair in zip(number.tolist(), slot.tolist(), strict=True) if pair[0] != NOWHERE]
    # first the new, then away with the old: between them, no attribute is without a user
    made = version.appended(parsed.pick(written[kept]).with_sequence(sequence[kept]))
    return made.removed(places)
