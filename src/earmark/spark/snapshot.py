"""A published book of subscriptions that any number of Spark workers search; and how its versions are made.

    snapshot = Snapshot.publish(subscriptions, "/shared/ads")     version 1
    snapshot = snapshot.apply(changes)                            version 2, small: what changed since version 1
    snapshot = snapshot.compact()                                 version 3, full again

A snapshot names one version, which never changes; `Snapshot.open(path)` is the newest. The folder must be visible under
the same path to the driver and to every worker: a local folder on one machine, a shared mount on a cluster.

**Published**: DataFrame ──► parts in the order of insertion (intake.py) ──► a segment with its index, or shards
(book/sharding.py) ──► commit (book/folder.py).

**Changed.** The next version lists the same large segments with other bitmaps of removed slots, and one small segment
of everything that was added or replaced since, which is scanned while it is small. So a change costs what the small
segment costs, plus one pass over the ids to find those that are changed. A change that the segments cannot take as they
are makes a full version instead: constants between which no key is left, bounds beyond 2^53 on a number that had none,
or ids of the other type once no subscription is live.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, IntegerType, StringType, StructType

from earmark import index as indexes
from earmark.book import folder as folders
from earmark.book.folder import SEGMENTS, VersionInfo
from earmark.book.payload import SEQUENCE, files_of, settled, take_rows, with_changes, write_payload
from earmark.book.publishing import Building, publishing
from earmark.book.saving import Shelf, open_version, verify, write_version
from earmark.book.segments import Record, write_whole
from earmark.book.sharding import NOT_TAKEN, ShardPlan, Source, build_here, build_shard, sharded
from earmark.engine.compaction import compacted, united
from earmark.engine.lazy import LazySegment
from earmark.engine.version import IndexedSegment, Place, Version
from earmark.errors import EarmarkError, SubscriptionError, TableError, checked_names
from earmark.flat import bits
from earmark.flat.arrays import I64, PackedStrings
from earmark.keys.schema import LIFE, Schema, schema_of
from earmark.segment.join import join, with_all_constants
from earmark.segment.segment import Segment
from earmark.spark import frames, intake
from earmark.spark.intake import FAIL, REJECTS, ReadOptions, Taken, refuse, rejected
from earmark.spark.sentences import collected

Folder = str | os.PathLike[str]
DEFAULT_INDEX = "auto"
PARTS = "parts"
MOST_SHARDS = 9_999
SCANNED = 20_000
"""The most changed subscriptions that are scanned, since an index would not be worth building."""
NOWHERE = -1
"""The slot of an id that is not there, and of a removal among what was parsed."""
_REPORT = pa.schema({"shard": pa.int32(), "report": pa.string()})


class Snapshot:
    """One immutable version of the subscriptions under a path, from `publish`, `open` or `apply`."""

    def __init__(self, path: Path, record: Record) -> None:
        self.path = path
        """The folder of all versions."""
        self.record = record
        """The record of the version (book/folder.py)."""
        verify(path, record)
        with folders.guarded(path, record["version"]):
            self.schema: Schema = schema_of(record)
            """The attributes, without the keys of string constants."""
            self.version = int(record["version"])
            """The number of this version, 1 or more; the column `snapshot_version` of results."""
            self.integer_ids = bool(record["integer_ids"])
            """Whether ids are integers; otherwise they are strings."""
            self.shards = 1 if record["router"] is None else int(record["router"]["segments"])
            """The number of shards, apart from what was changed since the last full version."""
            self.segments = len(record["segments"])
            """The number of segments: the shards, and what was changed since the last full version."""
            self.attributes = {a.name: str(a.type) if a.type else None for a in self.schema if a.name != LIFE}
            """The types of attributes by name; None where conditions only ask for NULL."""
            self.used = [entry["name"] for entry in record["attributes"] if entry["uses"]]
            """The attributes that conditions of live subscriptions use."""
            self.payload = _payload_of(record)
            """The columns of `payload`, by name: their Spark types."""
            self.zone = self.schema.zone_name
            """The time zone in which times without one are read."""

    @classmethod
    def publish(
        cls,
        subscriptions: DataFrame,
        path: Folder,
        *,
        index: str = DEFAULT_INDEX,
        attributes: Mapping[str, str] | None = None,
        zone: str | None = None,
        bounds: Mapping[str, tuple[str, str]] | None = None,
        order_by: str | None = None,
        on_error: str = FAIL,
        shards: int = 1,
        id: str = "id",
        condition: str = "condition",
        time: str | None = None,
        payload: Sequence[str] = (),
    ) -> Snapshot:
        """Make a DataFrame of subscriptions the newest version under a path.

        Columns: `id` and `condition`, optionally `weights` (a map), `score`, `tags` (a map), `starts` and `ends`; or
        ready-made bounds, as `Matcher.add_many` takes them (`ranges`, or pairs `age_lo`, `age_hi`, or as `bounds` names
        them). Conditions are parsed on the executors. The order of insertion, which breaks ties, is that of the column
        `order_by`, then of `id`. `zone` is the session's time zone by default. `id` and `condition` name the columns
        of these where they are called otherwise. `time` names the attribute that tells when an event happened, for
        subscriptions that start or end. `payload` names further columns, of any type, that `match` can bring along
        (`with_columns`).

        `shards` is the number of tables: similar subscriptions share one, and an event is searched only in those that
        may match it. This is for books that outgrow the memory of a worker. The answers are the same.

        Rows that cannot be used are an error that names the first few, and nothing is published; with
        `on_error="reject"` they are in `rejects` instead, with the reason. An id that comes twice is such a row: all
        but the first in the order. Raises `Conflict` when another writer publishes in the meantime.
        """
        root = folders.root_of(path)
        payload = tuple(checked_names(payload, "payload"))
        options = ReadOptions(attributes, zone, bounds, order_by, on_error, time, payload)
        named = intake.renamed(subscriptions, {"id": id, "condition": condition})
        return cls(root, publish(named, root, options, index, shards))

    @classmethod
    def open(cls, path: Folder, version: int | None = None) -> Snapshot:
        """Open a published version, or one that a Matcher saved; the newest by default.

        Checksums are verified once on each host.
        """
        root = folders.root_of(path)
        return folders.newest(root, version, lambda record: cls(root, record))

    @classmethod
    def of(cls, snapshot: Snapshot | Folder) -> Snapshot:
        """Return a snapshot as it is, or the newest one under a path."""
        return snapshot if isinstance(snapshot, Snapshot) else cls.open(snapshot)

    def latest(self) -> Snapshot:
        """Open the newest version under the same path."""
        return type(self).open(self.path)

    def __repr__(self) -> str:
        return f"<Snapshot {str(self.path)!r}: version {self.version}, {len(self):,} subscriptions>"

    def __len__(self) -> int:
        """Return how many subscriptions are live in this version."""
        return int(self.record["subscriptions"])

    def __bool__(self) -> bool:
        """Return True: an empty snapshot is still one."""
        return True

    @property
    def info(self) -> VersionInfo:
        """Number, parent, kind, time, counts of this version."""
        return folders.described(self.record)

    @property
    def rejects(self) -> DataFrame:
        """The rows that were rejected in this version: id, op (of a change), condition, reason."""
        schema = frames.struct_of(dict.fromkeys(REJECTS.names, StringType()))
        folder = folders.version_folder(self.path, self.version) / "rejects"
        if not folder.is_dir():
            raise TableError(f"version {self.version} of {str(self.path)!r} is no longer there")
        return SparkSession.active().read.schema(schema).parquet(frames.address(folder))

    def versions(self) -> list[VersionInfo]:
        """Return all versions under the path, oldest first."""
        newest = folders.current_version(self.path)
        numbers = [n for n in folders.version_numbers(self.path) if n <= newest]
        return [folders.described(folders.read_record(self.path, n)) for n in numbers]

    def apply(
        self,
        changes: DataFrame,
        *,
        order_by: str | None = None,
        on_error: str = FAIL,
        id: str = "id",
        condition: str = "condition",
    ) -> Snapshot:
        """Publish the next version: this one with some subscriptions added, replaced or removed.

        `changes` has the columns of `publish`, those of its payload included (unless all are removals), and `op`:
        `add` (the id must be new), `update` (it must be live; the subscription is replaced as a whole and keeps its
        place in the order), `upsert` (either), `remove`. An id may have one change per call. All changes are made, or
        none; with `on_error="reject"`, those that cannot be made are in `rejects`. Without any row there is no new
        version.

        Raises `Conflict` when this is no longer the newest version.
        """
        intake.check_on_error(on_error)
        named = intake.renamed(changes, {"id": id, "condition": condition})
        named, lacking = self._with_payload(named)
        source = intake.source_of(named, None, order_by, changes=True, payload=tuple(self.payload))
        record = self.record
        other_ids = source.integer_ids != self.integer_ids
        if len(self) and other_ids:
            wanted, got = ("integers", "strings") if self.integer_ids else ("strings", "integers")
            raise SubscriptionError(f"expected {wanted} as the ids of changes, as in this snapshot, got {got}")
        with self._next() as (site, version, shelf):
            if other_ids:  # no subscription is live, and a version has ids of one type, those of removed ones included
                version = replace(version, segments=(), router=None, integer_ids=source.integer_ids)
            taken = intake.take_rows(source, site.folder / PARTS, version.schema)
            if taken.segments:
                schema = with_all_constants(taken.schema, taken.segments)
                written, number, slot, rejects = _possible(version, taken)
                refuse(rejects, on_error, "changed")
                if lacking and (written != NOWHERE).any():
                    raise SubscriptionError(
                        f"the changes have no column {lacking!r}, which is in the payload of this book"
                    )
                sequence = _sequences(version, written, number, slot)
                changed = _changed(version, join(taken.segments, schema), written, number, slot, sequence)
                files = files_of(record)
                if self.payload and len(written):
                    files = with_changes(site, files, _changed_payload(taken, written, sequence))
                if schema.generation == version.schema.generation and not other_ids:
                    changed = _settled(changed, indexes.builder(record["index"]))
                else:
                    changed = _whole(site, record, changed, changes.sparkSession, self.shards)
                payload = None if not self.payload else {**record["payload"], "files": files}
                record = _commit(site, changed, record["index"], rejects, shelf, record["base"], payload)
        return Snapshot(self.path, record)

    def _with_payload(self, changes: DataFrame) -> tuple[DataFrame, str | None]:
        """Return changes with all columns of the payload, and the first that they lack, which removals may."""
        types = {field.name: field.dataType for field in changes.schema.fields}
        lacking = {name: f.lit(None).cast(type_) for name, type_ in self.payload.items() if name not in types}
        for name, type_ in self.payload.items():
            if name in types and types[name].simpleString() != type_.simpleString():
                wanted, got = type_.simpleString(), types[name].simpleString()
                raise SubscriptionError(f"payload {name!r}: expected a column of type {wanted}, got {got}")
        return changes.withColumns(lacking) if lacking else changes, next(iter(lacking), None)

    def compact(self, shards: int | None = None) -> Snapshot:
        """Publish the next version: the same subscriptions without a table of changes, which is quicker to search.

        They are split again into shards, as many as before by default.
        """
        if shards is not None:
            _check_shards(shards)
        with self._next() as (site, version, shelf):
            whole = _whole(site, self.record, version.with_free_types(), _session(), shards or self.shards)
            index, base, payload = self.record["index"], self.record["base"], None
            if self.payload:
                live = [one.segment.arrays.sequence[one.living()] for one in version.segments]
                sequences = np.concatenate([*live, np.empty(0, np.int64)])
                payload = {**self.record["payload"], "files": settled(site, files_of(self.record), sequences)}
            record = _commit(site, whole, index, REJECTS.empty_table(), shelf, base, payload)
        return Snapshot(self.path, record)

    @contextmanager
    def _next(self) -> Iterator[tuple[Building, Version, Shelf]]:
        """A place to make the version after this one, this one, and where its segments are."""
        with publishing(self.path, self.version) as site:
            site.check_parent()
            version, keys = open_version(self.path, self.record)
            yield site, version, Shelf(folders.read_manifest(self.path)["book"], keys)

    def retain(self, keep: int | timedelta) -> list[int]:
        """Remove old versions: all but the newest `keep`, or those older than `keep`; return their numbers.

        The newest stays, and so do pinned ones. Files that no other version uses are removed with them.
        """
        if isinstance(keep, timedelta):
            oldest = datetime.now(UTC) - keep
            return _removed(self.path, lambda all_: {v.number for v in all_ if v.created < oldest})
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
            raise EarmarkError(f"keep: expected a number of versions, 1 or more, or a timedelta, got {keep!r}")
        return _removed(self.path, lambda all_: {v.number for v in all_[:-keep]})

    def pin(self, owner: str) -> None:
        """Keep this version from `retain` until `unpin`; `owner` is a name such as a query's."""
        folders.pin(self.path, self.version, owner)

    def unpin(self, owner: str) -> None:
        """Remove this owner's pin from this version, if there is one."""
        folders.unpin(self.path, self.version, owner)


def _removed(root: Path, chosen: Callable[[list[VersionInfo]], set[int]]) -> list[int]:
    """Remove versions; return their numbers."""
    try:
        return folders.remove_versions(root, chosen)
    except OSError as problem:
        reason = problem.strerror or problem
        raise TableError(f"versions of {str(root)!r} cannot be removed: {reason}") from None


# --- publishing ----------------------------------------------------------------------------------------------


def publish(
    subscriptions: DataFrame, root: Path, options: ReadOptions, index: str, shards: int = 1, done: str = "published"
) -> dict[str, Any]:
    """Publish a full version; return its record. `done` is what did not happen on an error."""
    build = indexes.builder(index)
    _check_shards(shards)
    frames.address(root)  # refuses what Spark would misread
    source, seed = intake.subscriptions_of(subscriptions, options)
    with publishing(root) as site:
        taken = intake.take_rows(source, site.folder / PARTS, seed)
        by_part, rejects = intake.sequences(taken, source)
        if shards == 1 and taken.total <= intake.DRIVER_ROWS:
            refuse(rejects, options.on_error, done)
            segment = intake.ordered(taken, by_part)
            segments = [IndexedSegment.of(segment, build(segment.arrays))] if len(segment) else []
            version = Version.of(segment.schema, segments, len(segment))
            version = replace(version, integer_ids=taken.integer_ids)
        else:
            refuse(rejects, options.on_error, done)
            parts = zip(taken.files, taken.segments, by_part, strict=True)
            sources: list[Source] = [(file, None, segment, sequence) for file, segment, sequence in parts]
            schema = with_all_constants(taken.schema, taken.segments)
            count = sum(int((sequence >= 0).sum()) for sequence in by_part)
            run = partial(_built, source.spark)
            version = sharded(site, sources, schema, shards, index, count, taken.integer_ids, run)
        payload = None
        if options.payload:
            tables = (_by_sequence(*part) for part in zip(taken.payload(), by_part, strict=True))
            types = source.frame.select(*map(frames.quoted, options.payload)).schema
            nothing = frames.arrow_schema(types).append(pa.field(SEQUENCE, pa.int64())).empty_table()
            files = list(write_payload(site, tables if taken.segments else [nothing]))
            payload = {"schema": types.json(), "files": files}
        return _commit(site, version, index, rejects, payload=payload)


def _payload_of(record: Record) -> dict[str, DataType]:
    """Return the columns of the payload and their types."""
    payload = record.get("payload")
    if payload is None:
        return {}
    return {field.name: field.dataType for field in StructType.fromJson(json.loads(payload["schema"])).fields}


def _by_sequence(table: pa.Table, sequence: I64) -> pa.Table:
    """Return the payload of a part with the sequences of its slots; without what was not taken."""
    kept = np.flatnonzero(sequence != NOT_TAKEN)
    return table.take(pa.array(kept)).append_column(SEQUENCE, pa.array(sequence[kept]))


def _changed_payload(taken: Taken, written: I64, sequence: I64) -> pa.Table:
    """Return the payload of what was added or replaced, with its sequences."""
    kept = written != NOWHERE
    rows = take_rows(pa.concat_tables(taken.payload()), written[kept])
    return rows.append_column(SEQUENCE, pa.array(sequence[kept]))


def _commit(
    site: Building,
    version: Version,
    index: str,
    rejects: pa.Table,
    shelf: Shelf | None = None,
    base: int | None = None,
    payload: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Make a version the newest, with its rejects beside it; return its record. `base` is the parent's."""
    shutil.rmtree(site.folder / PARTS, ignore_errors=True)
    record = write_version(site, version, index, shelf or Shelf(folders.read_manifest(site.root)["book"]))
    (site.folder / "rejects").mkdir()
    pq.write_table(rejects.sort_by("id"), site.folder / "rejects" / "part-00000.parquet")
    return site.commit({**record, "base": base, "rejected": rejects.num_rows, "payload": payload})


def _check_shards(shards: Any) -> None:
    """Raise for a wrong number of shards."""
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= MOST_SHARDS:
        raise EarmarkError(f"expected a number of shards from 1 to {MOST_SHARDS:,}, got {shards!r}")


def _built(spark: SparkSession | None, plan: ShardPlan, shards: int) -> Mapping[int, str]:
    """Build all shards of a plan on the executors, one per task, or without a session in this process."""
    if spark is None:
        return build_here(plan, shards)
    report = frames.struct_of({"shard": IntegerType(), "report": StringType()})
    numbers = spark.range(0, shards, 1, shards)
    return dict(map(tuple, collected(numbers.mapInArrow(lambda batches: build_shards(plan, batches), report))))


def build_shards(plan: ShardPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Build the shards of these numbers on an executor; yield their reports."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield pa.RecordBatch.from_pydict({"shard": [number], "report": [build_shard(plan, number)]}, _REPORT)


# --- changes -------------------------------------------------------------------------------------------------


def _session() -> Any:
    """Return the active session, if there is one."""
    with suppress(Exception):  # without a session, Spark raises errors of its own
        return SparkSession.active()


def _settled(version: Version, build: Any) -> Version:
    """Return the version with all unsealed segments as one, in order; with an index, if it is large."""
    unsealed = [segment for segment in version.segments if not segment.is_sealed]
    if not unsealed:
        return version
    size = sum(segment.live for segment in unsealed)
    (output,) = united(version, unsealed, build if size > SCANNED else None).outputs
    sealed = [segment for segment in version.segments if segment.is_sealed]
    return replace(version, segments=(*sealed, *([output] if output.live else [])))


def _whole(site: Building, record: Record, version: Version, spark: Any, shards: int) -> Version:
    """Return a version of all live subscriptions, in one segment with its index, or in shards.

    The executors build shards, and a single segment that is large.
    """
    if shards == 1 and version.live <= intake.DRIVER_ROWS:
        living = version.with_segments(segment for segment in version.segments if segment.live)
        return compacted(living, indexes.builder(record["index"]), fewer_constants=True)
    sources = [_source(site, number, segment) for number, segment in enumerate(version.segments)]
    schema = with_all_constants(version.schema, [indexed.segment for indexed in version.segments])
    index, following, integers = record["index"], version.next_sequence, bool(version.integer_ids)
    return sharded(site, sources, schema, shards, index, following, integers, partial(_built, spark))


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


def _possible(version: Version, taken: Taken) -> tuple[I64, I64, I64, pa.Table]:
    """Return the changes that can be made, in the order of insertion, and the rejects.

    A change is a slot of what was parsed, NOWHERE for removals; and segment and slot of the changed subscription, or
    NOWHERE.
    """
    parts, first = [], 0
    for segment, part in zip(taken.segments, taken.rows, strict=True):
        slots = part["slot"].to_numpy().astype(np.int64)
        parts.append(part.append_column("written", pa.array(np.where(slots < 0, NOWHERE, slots + first))))
        first += len(segment)
    rows = pa.concat_tables(parts)
    order, repeats = intake.in_order(rows)
    rejects = [taken.rejects, rejected(rows, repeats, intake.GIVEN_TWICE.format)]
    rows = rows.take(pa.array(order))
    number, slot = (np.full(rows.num_rows, NOWHERE, np.int64) for _ in range(2))
    for at, indexed in enumerate(version.segments):
        slots = _slots_of(indexed, rows["id"])
        number[slots != NOWHERE], slot[slots != NOWHERE] = at, slots[slots != NOWHERE]
    live = number != NOWHERE
    good = np.ones(rows.num_rows, bool)
    ops = np.array(rows["op"].to_pylist(), object)
    for op, wrong, reason in (
        (intake.ADD, live, "the id {!r} is already in use; 'update' or 'upsert' replaces it"),
        (intake.UPDATE, ~live, "there is no subscription {!r} to update"),
        (intake.REMOVE, ~live, "there is no subscription {!r} to remove"),
    ):
        bad = (ops == op) & wrong
        rejects.append(rejected(rows, np.flatnonzero(bad), reason.format))
        good &= ~bad
    return rows["written"].to_numpy()[good], number[good], slot[good], pa.concat_tables(rejects)


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


def _sequences(version: Version, written: I64, number: I64, slot: I64) -> I64:
    """Return the places of what was written: new subscriptions at the end, replaced ones at their old places."""
    sequence = np.full(len(written), NOWHERE, np.int64)
    for at in np.unique(number[number != NOWHERE]).tolist():
        here = number == at
        sequence[here] = version.segments[at].segment.arrays.sequence[slot[here]]
    kept = written != NOWHERE
    new = kept & (number == NOWHERE)
    sequence[new] = version.next_sequence + np.arange(np.count_nonzero(new))
    return sequence


def _changed(version: Version, parsed: Segment, written: I64, number: I64, slot: I64, sequence: I64) -> Version:
    """Return the version after the changes."""
    kept = written != NOWHERE
    places = [Place(*pair) for pair in zip(number.tolist(), slot.tolist(), strict=True) if pair[0] != NOWHERE]
    # append before removing, so that no attribute is unused in between
    appended = version.appended(parsed.pick(written[kept]).with_sequence(sequence[kept]))
    return appended.removed(places)
