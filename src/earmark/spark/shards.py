"""How do subscriptions become shards, without all of them in one process?

    tables ──sample──► a cut (cutting.py, on the driver) ──► the shard of every slot, table by table
           ──► each shard: its slots from every table, in order; index; covers (on the executors, one shard a task)
           ──► the router over all covers (routing.py, on the driver)

The tables are the parts that executors made (parts.py), or the shards and the delta of an older version. Numbers and
types of attributes, string keys and sequence numbers are the driver's and the same for all shards; a shard's own table
has only those string constants that it uses. What shard a subscription is in depends on the subscriptions and their
sequence numbers alone, not on the partitioning.

    .building-9a…/plan/            what executors need: gone when the version is complete
      schema/                      a table without rows: attributes and string keys of all
      0.shards.npy 0.sequence.npy  of every slot of table 0: its shard (-1: not taken), its place in the order
      proxies/                     events like those to come, by which covers are judged
      built-1f…/table, covers/     a shard, before the driver gives it its name

A task gives back the name of what it built, so one that is run twice does no harm.

**Memory.** The driver holds ids and orders, not tables; a task holds one shard, and maps the tables it takes from.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from earmark.errors import EarmarkError, require
from earmark.flat.packed import PackedStrings
from earmark.flat.types import I64
from earmark.keys.schema import Schema
from earmark.segment.arrays import SegmentArrays
from earmark.segment.files import open_stored, save_stored
from earmark.segment.join import translated
from earmark.segment.rows import gather
from earmark.segment.stored import Stored
from earmark.spark import contents, cutting
from earmark.spark.covers import covers_of
from earmark.spark.events import read_events, write_events
from earmark.spark.merge import join, of_kind, pick, with_used_constants
from earmark.spark.routing import write_router
from earmark.spark.versions import FULL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOT_TAKEN = -1
PLAN = "plan"
_REPORT = pa.schema([pa.field("shard", pa.int32(), nullable=False), pa.field("name", pa.string(), nullable=False)])


def checked_shards(shards: Any) -> int:
    """A number of shards, or an error."""
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= contents.MOST_SHARDS:
        raise EarmarkError(f"shards is a number from 1 to {contents.MOST_SHARDS:,}; got {shards!r}")
    return shards


class Table(NamedTuple):
    """Some subscriptions that become part of a version."""

    folder: Path
    stored: Stored
    sequence: I64
    """The place of each slot in the order of insertion; NOT_TAKEN where it is left out."""

    @property
    def taken(self) -> int:
        """How many slots are not left out."""
        return int(np.count_nonzero(self.sequence != NOT_TAKEN))


class Plan(NamedTuple):
    """What executors need to know. It travels with the task."""

    folder: str
    tables: list[str]
    build: str
    """The index that every shard gets."""
    integer_ids: bool
    next_sequence: int


def write_sharded(
    folder: Path,
    tables: Sequence[Table],
    schema: Schema,
    shards: int,
    index: str,
    next_sequence: int,
    integer_ids: bool,
    spark: SparkSession | None,
) -> dict[str, Any]:
    """Write the shards of a version and their router; returns what its record says about them.

    Without a session this process builds the shards, one after another.
    """
    plan = _planned(folder, tables, schema, shards, Plan("", [], index, integer_ids, next_sequence))
    built = _built(plan, shards, spark)
    (folder / contents.SHARDS).mkdir(exist_ok=True)
    covers, live, held = [], sum(table.taken for table in tables), 0
    for number in range(shards):
        made = folder / PLAN / built[number]
        covers.append(open_stored(made / "covers", mmap=False, verify=False).arrays)
        held += open_stored(made / "table", verify=False).slots
        (made / "table").rename(folder / contents.shard_name(number))
    require(held == live, f"the shards hold {held:,} of {live:,} subscriptions")
    shutil.rmtree(folder / PLAN)
    return _finished(folder, covers, schema, index, next_sequence, integer_ids, live)


def write_shards(
    folder: Path, pieces: Iterable[Stored], schema: Schema, index: str, next_sequence: int, integer_ids: bool
) -> dict[str, Any]:
    """The same for tables that are shards already, under one schema: each is written as it comes."""
    covers, live = [], 0
    for number, piece in enumerate(pieces):
        contents.write_table(folder / contents.shard_name(number), with_used_constants(piece), index)
        covers.append(covers_of(piece.arrays))
        live += piece.slots
    return _finished(folder, covers, schema, index, next_sequence, integer_ids, live)


def _finished(
    folder: Path,
    covers: Sequence[SegmentArrays],
    schema: Schema,
    index: str,
    next_sequence: int,
    integer_ids: bool,
    live: int,
) -> dict[str, Any]:
    write_router(folder / contents.ROUTER, covers, schema)
    names = [contents.shard_name(number) for number in range(len(covers))]
    last = of_kind(join([], schema), integer_ids)._replace(next_sequence=next_sequence)
    return contents.told(folder, last, index, FULL, live, [*names, contents.ROUTER])


# --- the plan ------------------------------------------------------------------------------------------------


def _planned(folder: Path, tables: Sequence[Table], schema: Schema, shards: int, plan: Plan) -> Plan:
    target = folder / PLAN
    target.mkdir()
    save_stored(join([], schema), target / "schema")
    sample = _sample(tables, schema)
    write_events(target / "proxies", cutting.proxies(sample))
    cut = cutting.learned(sample, shards)
    for number, table in enumerate(tables):
        arrays = translated(table.stored.arrays, table.stored.schema, schema)._replace(sequence=table.sequence)
        own = np.where(table.sequence == NOT_TAKEN, NOT_TAKEN, cutting.shards_of(arrays, cut))
        np.save(target / f"{number}.shards.npy", own.astype(np.int32))
        np.save(target / f"{number}.sequence.npy", table.sequence)
    return plan._replace(folder=str(target), tables=[str(table.folder) for table in tables])


def _sample(tables: Sequence[Table], schema: Schema) -> SegmentArrays:
    """Every so many subscriptions by sequence number, in order."""
    total = sum(table.taken for table in tables)
    step = max(total // cutting.SAMPLE, 1)
    chosen = []
    for table in tables:
        mine = np.flatnonzero((table.sequence != NOT_TAKEN) & (table.sequence % step == 0))
        part = pick(table.stored, mine)
        chosen.append(part._replace(arrays=part.arrays._replace(sequence=table.sequence[mine])))
    arrays = join(chosen, schema).arrays
    return gather(arrays, np.argsort(arrays.sequence, kind="stable"))


# --- building ------------------------------------------------------------------------------------------------


def _built(plan: Plan, shards: int, spark: SparkSession | None) -> dict[int, str]:
    """Shard -> the name of the folder that holds it."""
    if spark is None:
        return {number: build_shard(plan, number) for number in range(shards)}
    from pyspark.sql.types import IntegerType, StringType, StructField, StructType

    report = StructType([StructField("shard", IntegerType(), False), StructField("name", StringType(), False)])
    numbers = spark.range(0, shards, 1, shards)
    return {row[0]: row[1] for row in numbers.mapInArrow(lambda batches: build_shards(plan, batches), report).collect()}


def build_shards(plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Build the shards whose numbers come; gives their names. Runs on executors."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield pa.RecordBatch.from_pydict({"shard": [number], "name": [build_shard(plan, number)]}, _REPORT)


def build_shard(plan: Plan, number: int) -> str:
    """One shard with its index and covers; returns the name of its folder."""
    folder = Path(plan.folder)
    schema = open_stored(folder / "schema", verify=False).schema
    stored = by_number(plan, schema, number)
    name = f"built-{secrets.token_hex(8)}"
    (folder / name).mkdir()
    contents.write_table(folder / name / "table", with_used_constants(stored), plan.build)
    covers = covers_of(stored.arrays, read_events(folder / "proxies"))
    count = len(covers.sequence)
    texts = PackedStrings(np.zeros(count + 1, np.int64), np.empty(0, np.uint8))
    summary = join([], schema)._replace(arrays=covers, ids=np.arange(count), asked=texts, next_sequence=count)
    save_stored(with_used_constants(summary), folder / name / "covers")
    return name


def by_number(plan: Plan, schema: Schema, number: int) -> Stored:
    """The subscriptions of a shard, in the order of insertion."""
    folder, pieces = Path(plan.folder), []
    for at, table in enumerate(plan.tables):
        shards = np.load(folder / f"{at}.shards.npy", mmap_mode="r", allow_pickle=False)
        mine = np.flatnonzero(shards == number)
        if not len(mine):
            continue
        sequence = np.load(folder / f"{at}.sequence.npy", mmap_mode="r", allow_pickle=False)[mine]
        part = pick(open_stored(table, verify=False), mine)
        pieces.append(part._replace(arrays=part.arrays._replace(sequence=sequence)))
    stored = contents.by_sequence(join(pieces, schema))._replace(next_sequence=plan.next_sequence)
    return of_kind(stored, plan.integer_ids)
