"""How does a version follow from another by a few changes, without writing all of it again?

A delta holds everything that was added or replaced since its base, and a bitmap of the base's slots that no longer
count; the next delta starts from it. So a version is never more than two tables, whatever the number of changes, and
a change costs what the delta costs, plus one pass over the base's ids to find those that are touched.

A change that an old table cannot take as it is makes a full version instead: constants between which no key is left,
bounds beyond 2^53 on a number that had none, or ids of the other kind once nothing lives.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from earmark.errors import SubscriptionError
from earmark.flat import bits
from earmark.flat.types import I64, U64
from earmark.keys.schema import Schema
from earmark.segment.files import save_stored
from earmark.segment.rows import gather, uses_of
from earmark.segment.stored import Stored
from earmark.spark import contents
from earmark.spark.contents import Loaded, by_sequence, fold
from earmark.spark.intake import Taken, check_on_error, in_order, refuse, rejected, source_of, take_rows
from earmark.spark.merge import extended, id_array, join, of_kind, pick, take_constants, with_used_constants
from earmark.spark.parts import ADD, GIVEN_TWICE, REJECTS, REMOVE, UPDATE
from earmark.spark.publish import PARTS, commit
from earmark.spark.shards import NOT_TAKEN, Table, checked_shards, write_sharded
from earmark.spark.versions import building, version_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NOWHERE = -1
"""The slot of an id that is not there, and of a removal among what was parsed."""


class Change(NamedTuple):
    """Changes that can be done, in the order of insertion."""

    written: I64
    """Slots of what was parsed; NOWHERE for removals."""
    base_slot: I64
    """Where the subscription that a change touches is in the base, its shards numbered through, or NOWHERE."""
    delta_slot: I64
    """The same in the delta."""


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
    with building(root, record["version"]) as site:
        site.check_parent()
        loaded = contents.load(root, record)
        if other_kind:  # nothing lives, and a version has ids of one kind, those of removed subscriptions included
            loaded = loaded._replace(bases=[], removed=[], delta=None)
        taken = take_rows(source, site.folder / PARTS, loaded.schema)
        if not taken.parts:
            return dict(record)
        schema, steady = _agreed(loaded, taken)
        parsed = join([part.stored for part in taken.parts], schema)
        change, rejects = _possible(loaded, taken)
        refuse(rejects, on_error, "changed")
        delta, removed = _changed(loaded, change, parsed)
        delta = of_kind(delta, source.integer_ids)
        if steady and not other_kind:
            live = sum(one.slots for one in loaded.bases) - sum(map(bits.count, removed)) + delta.slots
            base = contents.base_of(root, record)
            told = contents.write_delta(site.folder, with_used_constants(delta), removed, base, live)
        else:
            changed = loaded._replace(schema=schema, removed=removed, delta=delta)
            told = _whole(site.folder, root, changed, changes.sparkSession)
        return commit(site, told, rejects)


def compact(root: Path, record: Mapping[str, Any], shards: int | None = None) -> dict[str, Any]:
    """The same subscriptions as a full version, in as many shards as before or as given; returns its record."""
    if shards is not None:
        checked_shards(shards)
    with building(root, record["version"]) as site:
        site.check_parent()
        loaded = contents.load(root, record)
        told = _whole(site.folder, root, loaded._replace(schema=_with_free_types(loaded)), _session(), shards)
        return commit(site, told, REJECTS.empty_table())


def _with_free_types(loaded: Loaded) -> Schema:
    """The schema of a version without the learned types that no living subscription uses."""
    uses = np.zeros(len(loaded.schema), np.int64)
    for stored, living in zip(loaded.pieces, _living(loaded), strict=True):
        for number, count in uses_of(gather(stored.arrays, living), stored.schema).items():
            uses[number] += count
    free = [a for a in loaded.schema if a.type is not None and not a.declared and not uses[a.number]]
    return loaded.schema.replaced(replace(a, type=None, origin="") for a in free) if free else loaded.schema


def _living(loaded: Loaded) -> list[I64]:
    """The living slots of each table."""
    kept = [contents.living_of(one.slots, gone) for one, gone in zip(loaded.bases, loaded.removed, strict=True)]
    return kept if loaded.delta is None else [*kept, np.arange(loaded.delta.slots)]


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


def _whole(folder: Path, root: Path, loaded: Loaded, spark: Any, shards: int | None = None) -> dict[str, Any]:
    """Write all living subscriptions as a full version, in as many shards as before or as given."""
    base, tables = contents.base_of(root, loaded.record), []
    before = contents.shards_of(base)
    wanted = shards or len(before)
    if wanted == 1:
        return contents.write_full(folder, fold(loaded), loaded.record["index"])
    known = len(loaded.bases) == len(before)
    for number, (stored, living) in enumerate(zip(loaded.pieces, _living(loaded), strict=True)):
        where = version_folder(root, base["version"]) / contents.shard_name(number)
        if not known or number == len(loaded.bases):
            where = folder / "pieces" / str(number)
            save_stored(stored._replace(extras={}), where)
        sequence = np.full(stored.slots, NOT_TAKEN, np.int64)
        sequence[living] = stored.arrays.sequence[living]
        tables.append(Table(where, stored, sequence))
    following = max(loaded.record["next_sequence"], *(one.next_sequence for one in loaded.pieces))
    index, integers = loaded.record["index"], loaded.integer_ids
    told = write_sharded(folder, tables, loaded.schema, wanted, index, following, integers, spark)
    shutil.rmtree(folder / "pieces", ignore_errors=True)
    return told


def _agreed(loaded: Loaded, taken: Taken) -> tuple[Schema, bool]:
    """The schema of the next version, and whether the base of this one can stay."""
    schema = extended(loaded.schema, ())
    wider = False
    for attribute in taken.schema:
        known = schema.by_name.get(attribute.name)
        if known is None or known.type is None or known.type != attribute.type:
            wider |= known is not None and known.type is not None  # bounds beyond 2^53, where there were none
            schema.put(attribute)
    pieces = [part.stored for part in taken.parts]
    steady = take_constants(schema, [*loaded.pieces, *pieces] if wider else pieces)
    return schema, steady and not wider


def _possible(loaded: Loaded, taken: Taken) -> tuple[Change, pa.Table]:
    """Which changes can be done, and the rejects."""
    parts, first = [], 0
    for part in taken.parts:
        slots = part.rows["slot"].to_numpy().astype(np.int64)
        parts.append(part.rows.append_column("written", pa.array(np.where(slots < 0, NOWHERE, slots + first))))
        first += part.stored.slots
    rows = pa.concat_tables(parts)
    order, repeats = in_order(rows)
    rejects = [taken.rejects, rejected(rows, repeats, GIVEN_TWICE.format)]
    rows = rows.take(pa.array(order))
    base = np.full(rows.num_rows, NOWHERE, np.int64)
    for first, one, gone in zip(_borders(loaded), loaded.bases, loaded.removed, strict=False):
        own = _places(one, rows["id"], gone)
        base = np.where(own == NOWHERE, base, first + own)
    delta = _places(loaded.delta, rows["id"]) if loaded.delta else np.full(len(base), NOWHERE)
    live = (base != NOWHERE) | (delta != NOWHERE)
    ops = np.array(rows["op"].to_pylist(), object)
    for op, wrong, reason in (
        (ADD, live, "the id {!r} is already in use; 'update' or 'upsert' replaces it"),
        (UPDATE, ~live, "there is no subscription {!r} to update"),
        (REMOVE, ~live, "there is no subscription {!r} to remove"),
    ):
        bad = np.flatnonzero((ops == op) & wrong)
        rejects.append(rejected(rows, bad, reason.format))
    good = ~(((ops == ADD) & live) | (((ops == UPDATE) | (ops == REMOVE)) & ~live))
    change = Change(rows["written"].to_numpy()[good], base[good], delta[good])
    return change, pa.concat_tables(rejects)


def _places(stored: Stored, wanted: pa.ChunkedArray, removed: U64 | None = None) -> I64:
    """The slot of each wanted id that is not removed, or NOWHERE. O(slots + wanted)."""
    places = np.full(len(wanted), NOWHERE, np.int64)
    if not stored.slots:
        return places
    ids = id_array(stored.ids)
    found = pc.index_in(ids, value_set=wanted.combine_chunks().cast(ids.type))
    slots = pc.indices_nonzero(found.is_valid()).to_numpy().astype(np.int64)
    if removed is not None:
        gone = removed[slots // bits.WORD] >> (slots % bits.WORD).astype(np.uint64) & np.uint64(1)
        slots = slots[gone == 0]
    places[found.take(pa.array(slots)).to_numpy()] = slots
    return places


def _borders(loaded: Loaded) -> I64:
    """Where the slots of each shard begin, were they numbered through."""
    return np.cumsum([0, *(one.slots for one in loaded.bases)])


def _changed(loaded: Loaded, change: Change, parsed: Stored) -> tuple[Stored, list[U64]]:
    """The next delta, in order of sequence, and the next bitmaps of the base's slots that do not count."""
    written, base_slot, delta_slot = change
    in_base, in_delta = base_slot != NOWHERE, delta_slot != NOWHERE
    removed = list(loaded.removed)
    sequence = np.full(len(written), NOWHERE, np.int64)
    borders = _borders(loaded)
    shard = np.where(in_base, np.searchsorted(borders, base_slot, "right") - 1, NOWHERE)
    for number in np.unique(shard[in_base]).tolist():
        mine = shard == number
        slots = base_slot[mine] - borders[number]
        removed[number] = bits.set_slots(removed[number], slots)
        sequence[mine] = loaded.bases[number].arrays.sequence[slots]
    pieces = []
    if loaded.delta is not None:
        sequence[in_delta] = loaded.delta.arrays.sequence[delta_slot[in_delta]]
        untouched = np.setdiff1d(np.arange(loaded.delta.slots), delta_slot[in_delta])
        pieces.append(pick(loaded.delta, untouched))
    kept = written != NOWHERE
    new = kept & (sequence == NOWHERE)
    following = int(loaded.record["next_sequence"])
    sequence[new] = following + np.arange(np.count_nonzero(new))
    chosen = pick(parsed, written[kept])
    pieces.append(chosen._replace(arrays=chosen.arrays._replace(sequence=sequence[kept])))
    delta = by_sequence(join(pieces, parsed.schema))
    return delta._replace(next_sequence=following + int(np.count_nonzero(new))), removed
