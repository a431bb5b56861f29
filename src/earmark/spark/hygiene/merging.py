"""Merge more subscriptions than one process can take into fewer conditions, within a budget of extra traffic.

    DataFrame ──► one segment, homes (auditing.py)      ──1──► who is covered; what the residents of each home want
              ──2──► each home merges its own (cover/merging/merge.py), with its share of the budget ──► conditions

**1.** The covering of auditing.py: duplicates and covered subscriptions go to one that covers them, in whichever home
it is, so that only *roots* are left to merge. Each home says which events of the sample its roots match.

**2.** Homes are neighbourhoods, so merging neighbours inside a home loses little. A home decides by the events that
its roots want and those that no subscription wants: an event that another home wants costs nothing when it is matched.

**The budget** is extra traffic, the events that only merged conditions match, as a share B of the W wanted events. Home
h, whose roots want W_h, may let through B·W/ΣW · W_h extra events, which is B·W in all homes together, and more than
what is counted: an event that two homes let through is extra once.

    sample   |          deciding, 2/3          |  held back, 1/3  |     nothing is decided by the last third:
                 each home splits its own                                `MergedFrame.held_back` is measured there, for
                 as merging.py says                                      all homes together

Invariant: every event that a subscription matches is matched by the condition that stands for it.
Complexity: twice O(table) per home; the roots of a home and their merged conditions against the sample by a scan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, BinaryType, LongType, StringType

from earmark.book.segments import read_packed, write_packed
from earmark.cover.homes import HomeTree as Tree
from earmark.cover.homes import matching, residents
from earmark.cover.merging.merge import merge_segment
from earmark.cover.merging.traffic import Traffic, check_budget, taken, taken_by_boxes
from earmark.errors import EarmarkError
from earmark.events.arrays import EventArrays
from earmark.events.choice import some_events
from earmark.flat.arrays import I64, Flags, frozen
from earmark.flat.bits import all_set
from earmark.keys.schema import Schema
from earmark.language.words import counted
from earmark.segment.arrays import SegmentArrays, gather
from earmark.segment.segment import Segment
from earmark.spark import frames
from earmark.spark.frames import address
from earmark.spark.hygiene import auditing as tasks
from earmark.spark.hygiene.auditing import COVERED, DUPLICATE, Batches, audit_home, id_array
from earmark.spark.intake import FAIL, ReadOptions
from earmark.spark.sentences import collected
from earmark.spark.snapshot import Folder

MOST_SAMPLE = 200_000
DECIDING = 2 / 3
OUTPUT_ROWS = 1 << 14
_ROOTS, _EVENTS = "roots", "events"
_COLUMNS = ("id", "condition", "stands_for", "taken")


@dataclass(frozen=True, slots=True)
class MergedFrame:
    """Conditions that stand for subscriptions, and their extra traffic."""

    conditions: DataFrame
    """(id, condition, stands_for): one row per condition, with the ids that it stands for, for `Snapshot.publish`."""
    before: int
    after: int
    never: int
    """Number of subscriptions that no event can match, which no condition stands for."""
    budget: float
    held_back: Traffic
    """Traffic of the conditions, measured on events that took no part in any decision."""
    rejected: int
    """Number of rows that could not be used, which no condition stands for: their events may be lost."""
    rejects: DataFrame
    """(id, condition, reason) of these rows, all strings."""

    def __str__(self) -> str:
        seen = self.held_back
        rejected = f"; {counted(self.rejected, 'rejected row')}, which no condition represents"
        left = rejected if self.rejected else ""
        return (
            f"{self.before:,} subscriptions, {self.after:,} conditions; extra traffic {seen.share:.2%} "
            f"of a budget of {self.budget:.2%} ({seen.extra:,} events beside {seen.wanted:,} wanted ones){left}"
        )


def merge(
    subscriptions: DataFrame,
    budget: float,
    sample: DataFrame,
    *,
    event: str | None = None,
    attributes: Mapping[str, str] | None = None,
    zone: str | None = None,
    bounds: Mapping[str, tuple[str, str]] | None = None,
    order_by: str | None = None,
    on_error: str = FAIL,
    homes: int | None = None,
    seed: int = 0,
    working: Folder | None = None,
) -> MergedFrame:
    """Merge subscriptions into fewer conditions that match every event they match, and at most `budget` more.

    `budget` is extra traffic as a share of the wanted events: 0.02 for 2 %; with 0 only what costs nothing is merged.
    `sample` has past events, as for `match`, on which traffic is measured; some ten thousand, at most 200,000. Rows of
    `subscriptions` are read as by `Snapshot.publish`; scores, weights and tags do not matter. Rows that cannot be used
    are an error; with `on_error="reject"` they are in `MergedFrame.rejects`, and no condition stands for them. `homes`
    is the number of tasks. Runs at once; `working` is a folder that all workers see, needed on a cluster, in which the
    result stays.
    """
    check_budget(budget)
    tasks.check_homes(homes)
    if sample.isStreaming:
        raise EarmarkError("a sample has past events; it cannot be a streaming DataFrame")
    spark = subscriptions.sparkSession
    with tasks.working_folder(working, "merge") as folder:
        options = ReadOptions(attributes, zone, bounds, order_by, on_error)
        segment, rejects = tasks.read_rows(subscriptions, folder, options, "merged")
        events = _encoded(sample, segment.schema, event)
        write_packed(folder / _EVENTS, _EVENTS, {}, events._asdict())
        file, tree, canonical = tasks.write_table(segment, folder, homes)
        deciding = _deciding(len(events.start) - 1, seed)
        plan = MergePlan(file, tree, str(folder), budget, seed)
        top, by_home = _first_step(spark, plan, len(segment))
        anybody: Flags = np.logical_or.reduce(by_home, axis=0)
        helpful = np.packbits(deciding & (by_home | ~anybody), axis=1)
        write_packed(folder / _ROOTS, _ROOTS, {}, {"top": top, "helpful": helpful})
        everywhere = int(by_home[:, deciding].sum())
        plan = plan._replace(budget=budget * int(anybody[deciding].sum()) / everywhere if everywhere else 0.0)
        frame, matched = _second_step(spark, plan, segment.ids.integers, len(anybody))
        wanted = anybody[~deciding]
        extra = int((matched[~deciding] & ~wanted).sum())
        return MergedFrame(
            conditions=frame,
            before=len(segment),
            after=frame.count(),
            never=int((np.diff(canonical.table.clause_start) == 0).sum()),
            budget=budget,
            held_back=Traffic(len(wanted), int(wanted.sum()), extra),
            rejected=rejects.num_rows,
            rejects=_written_rejects(spark, folder / "rejects", rejects),
        )


def _written_rejects(spark: SparkSession, folder: Path, rejects: pa.Table) -> DataFrame:
    """Write the rejected rows beside the result; return them as a DataFrame."""
    names = ["id", "condition", "reason"]
    folder.mkdir()
    pq.write_table(rejects.select(names), folder / "part-00000.parquet")
    return spark.read.schema(frames.struct_of(dict.fromkeys(names, StringType()))).parquet(address(folder))


# --- the sample --------------------------------------------------------------------------------------------------


def _encoded(sample: DataFrame, schema: Schema, event: str | None) -> EventArrays:
    """Return the events of the sample in the keys of the subscriptions, in an order independent of partitions."""
    projection = frames.EventProjection(sample, schema, event, is_timed=False)
    selected = projection.selected()
    keyed = _as_arrow(frames.with_keys(selected, range(len(selected.columns))).limit(MOST_SAMPLE + 1))
    if keyed.num_rows > MOST_SAMPLE:
        raise EarmarkError(f"expected at most {MOST_SAMPLE:,} events as a sample, got more; try events.sample(0.01)")
    table = keyed.take(pc.sort_indices(keyed["key"])).combine_chunks()
    batches = table.to_batches()
    batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
    return frames.encoded(schema, projection.columns([]), batch, None)


def _as_arrow(frame: DataFrame) -> pa.Table:
    """Return the rows of a DataFrame, which has `toArrow` from Spark 4.0 on only."""
    rows = collected(frame.mapInArrow(_serialized, frames.struct_of({"batch": BinaryType()})))
    parts = [pa.ipc.open_stream(row[0]).read_all() for row in rows]
    return pa.concat_tables(parts) if parts else frames.arrow_schema(frame.schema).empty_table()


def _serialized(batches: Batches) -> Batches:
    """Yield batches as the bytes of Arrow's streams."""
    for batch in batches:
        written = pa.BufferOutputStream()
        with pa.ipc.new_stream(written, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.record_batch({"batch": pa.array([written.getvalue().to_pybytes()], pa.binary())})


def _deciding(count: int, seed: int) -> Flags:
    """Return which events decide; the others are held back."""
    deciding = np.zeros(count, np.bool_)
    deciding[np.random.default_rng([seed, 1]).permutation(count)[: int(count * DECIDING)]] = True
    return deciding


# --- the two steps, seen from the driver -------------------------------------------------------------------------


class MergePlan(NamedTuple):
    """What a task needs to know."""

    table: str
    """The file of the segment (auditing.py)."""
    tree: Tree
    folder: str
    budget: float
    seed: int


def _first_step(spark: SparkSession, plan: MergePlan, slots: int) -> tuple[I64, Flags]:
    """Return for each slot one that stands for it, and by home the events that its roots match."""
    schema = frames.struct_of({"home": LongType(), **dict.fromkeys(("slots", "others", "wanted"), BinaryType())})
    rows = tasks.over_homes(spark, plan.tree, lambda batches: find_roots(plan, batches), schema).collect()
    top = np.arange(slots, dtype=np.int64)
    wanted = []
    for row in sorted(rows, key=lambda row: int(row["home"])):
        top[np.frombuffer(row["slots"], np.int64)] = np.frombuffer(row["others"], np.int64)
        wanted.append(np.frombuffer(row["wanted"], np.bool_))
    while True:  # a duplicate's first may be covered itself
        further = top[top]
        if (further == top).all():
            return top, np.stack(wanted)
        top = further


def _second_step(spark: SparkSession, plan: MergePlan, integer_ids: bool, events: int) -> tuple[DataFrame, Flags]:
    """Return the conditions of all homes, and the events that merged ones match."""
    kind = frames.id_type(integer_ids)
    types = (kind, StringType(), ArrayType(kind), BinaryType())
    schema = frames.struct_of(dict(zip(_COLUMNS, types, strict=True)))
    target = address(Path(plan.folder) / "conditions")
    tasks.over_homes(spark, plan.tree, lambda batches: merge_homes(plan, batches), schema).write.parquet(target)
    written = spark.read.schema(schema).parquet(target)
    flags = np.zeros(events, np.bool_)
    for row in written.filter(f.col("taken").isNotNull()).select("taken").collect():
        flags |= np.frombuffer(row["taken"], np.bool_)
    return written.filter(f.col("id").isNotNull()).select(*_COLUMNS[:3]), flags


# --- on the workers ----------------------------------------------------------------------------------------------


def _read_events(plan: MergePlan) -> EventArrays:
    return EventArrays(**read_packed(Path(plan.folder) / _EVENTS, _EVENTS).arrays)


def find_roots(plan: MergePlan, batches: Batches) -> Batches:
    """Yield for each home who is covered by whom, and which events the others match."""
    segment, table, _ = tasks.read_table(plan.table)
    events, attributes = _read_events(plan), len(segment.schema)
    for home in tasks.numbers_in(batches):
        members = residents(table, plan.tree, home)
        found = [kind[1:] for kind in audit_home(table, members, attributes) if kind.finding in (DUPLICATE, COVERED)]
        slots, others = (np.concatenate(column) for column in zip(*found, strict=True))
        roots = np.setdiff1d(matching(table, members), slots)
        local = SegmentArrays._make(frozen(column) for column in gather(table, roots))
        wanted = taken(local, all_set(len(roots)), events) if len(roots) else np.zeros(len(events.start) - 1, np.bool_)
        flat = {"slots": slots, "others": others, "wanted": wanted}
        columns = {name: pa.array([column.tobytes()], pa.binary()) for name, column in flat.items()}
        yield pa.RecordBatch.from_pydict({"home": pa.array([home], pa.int64()), **columns})


def merge_homes(plan: MergePlan, batches: Batches) -> Batches:
    """Yield for each home its conditions, and in one more row the events that merged ones match."""
    segment, table, _ = tasks.read_table(plan.table, in_place=False)
    events, roots_file = _read_events(plan), read_packed(Path(plan.folder) / _ROOTS, _ROOTS)
    top, helpful = roots_file.array("top", np.int64), roots_file.arrays["helpful"]
    ids, by_top = id_array(segment), np.argsort(top, kind="stable")
    for home in tasks.numbers_in(batches):
        members = matching(table, residents(table, plan.tree, home))
        roots = members[top[members] == members]
        if not len(roots):
            continue
        deciding = np.flatnonzero(np.unpackbits(helpful[home], count=len(events.start) - 1))
        merged = merge_segment(segment.pick(roots), some_events(events, deciding), plan.budget, seed=plan.seed)
        groups = np.split(merged.members, merged.start[1:-1])
        stands_for = [_covered(ids, top, by_top, roots[group]) for group in groups]
        rows = [(id, text, ids) for (id, text, _), ids in zip(merged.rows(), stands_for, strict=True)]
        yield from _batches(segment, rows, taken_by_boxes(merged.boxes, events))


def _covered(ids: pa.Array, top: I64, by_top: I64, roots: I64) -> list[Any]:
    """Return the ids that these roots cover, their own included, oldest first."""
    first, last = (np.searchsorted(top, roots, side, by_top) for side in ("left", "right"))
    slots = np.sort(np.concatenate([by_top[a:b] for a, b in zip(first, last, strict=True)]))
    covered: list[Any] = ids.take(pa.array(slots)).to_pylist()
    return covered


def _batches(segment: Segment, rows: list[tuple[Any, str, list[Any]]], flags: Flags) -> Batches:
    kind = frames.arrow_id_type(segment.ids.integers)
    types = (kind, pa.string(), pa.list_(kind), pa.binary())
    schema = pa.schema(list(zip(_COLUMNS, types, strict=True)))
    yield pa.RecordBatch.from_pylist([{"taken": flags.tobytes()}], schema)
    for first in range(0, len(rows), OUTPUT_ROWS):
        some = rows[first : first + OUTPUT_ROWS]
        yield pa.RecordBatch.from_pylist([dict(zip(_COLUMNS, row, strict=False)) for row in some], schema)
