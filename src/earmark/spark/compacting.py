"""Fewer conditions for more subscriptions than one process would like, within a budget of extra traffic.

    DataFrame ──► one segment, homes (working.py)      ──1──► who is covered; what the residents of each home want
              ──2──► each home merges its own (cover/merging.py), with its share of the budget ──► conditions

**1.** The covering of auditing.py: duplicates and covered subscriptions go to one that covers them, in whichever home
it lives, so that only *roots* are left to merge. Each home says which events of the sample its roots take.

**2.** Homes are neighbourhoods, so merging neighbours inside a home loses little. A home decides from the events that
its roots want and those that nobody anywhere wants: an event that another home wants costs nothing when it is taken.

**The budget** is extra traffic, the events that only merged conditions take, as a share B of the W events that somebody
wants. Home h, whose roots want W_h, may let through B·W/ΣW · W_h extra events, which is B·W in all homes together, and
more than what is counted: an event that two homes let through is extra once.

    sample   |          deciding, 2/3          |  held back, 1/3  |     nobody decides anything by the last third:
                 each home splits its own                                `Compacted.held_back` is measured there, for
                 as merging.py says                                      all homes together

Invariant: every event that a subscription takes is taken by the condition that stands for it.
Complexity: twice O(table) a home; the roots of a home and their merged conditions against the sample by a scan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from earmark.book.events import read_events, write_events
from earmark.book.packed_file import read_packed, write_packed
from earmark.cover.given import check_budget
from earmark.cover.homes import Tree, matching, residents
from earmark.cover.merging import merge
from earmark.cover.traffic import Flags, Traffic, taken, taken_by_boxes
from earmark.errors import EarmarkError
from earmark.events.arrays import EventArrays
from earmark.events.choice import some_events
from earmark.flat.bits import all_set
from earmark.flat.types import I64, frozen
from earmark.keys.schema import Schema
from earmark.segment.arrays import SegmentArrays
from earmark.segment.rows import gather
from earmark.segment.segment import Segment
from earmark.spark import frames
from earmark.spark.auditing import COVERED, DUPLICATE, audit_home, id_array
from earmark.spark.intake import FAIL, Given
from earmark.spark.ledger import address
from earmark.spark.picking import Picked, encoded, with_keys
from earmark.spark.working import (
    check_homes,
    numbers_in,
    over_homes,
    read_rows,
    read_table,
    removed_on_error,
    working_folder,
    write_table,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from earmark.spark.snapshot import Folder

MOST_SAMPLE = 200_000
DECIDING = 2 / 3
OUTPUT_ROWS = 1 << 14
_ROOTS = "roots"


@dataclass(frozen=True, slots=True)
class Compacted:
    """Conditions that stand for subscriptions, and what they cost."""

    conditions: DataFrame
    """(id, condition, stands_for): a row a condition, with the ids that it stands for; `Snapshot.publish` takes it."""
    before: int
    after: int
    never: int
    """Subscriptions that no event can match, for which nothing stands."""
    budget: float
    held_back: Traffic
    """What the conditions let through of events by which nobody decided."""
    rejected: int
    """Rows that could not be read, for which nothing stands: their events may be lost."""
    rejects: DataFrame
    """(id, condition, reason) of these rows, all texts."""

    def __str__(self) -> str:
        seen = self.held_back
        left = f"; {self.rejected:,} rows were rejected, and nothing stands for them" if self.rejected else ""
        return (
            f"{self.before:,} subscriptions, {self.after:,} conditions; extra traffic {seen.share:.2%} "
            f"of a budget of {self.budget:.2%} ({seen.extra:,} events beside {seen.wanted:,} that are wanted){left}"
        )


def compact(
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
) -> Compacted:
    """Fewer conditions that take every event the subscriptions take, and at most `budget` more, measured on a sample.

    `budget` is extra traffic as a share of what is wanted: 0.02 for 2 %; with 0 only what costs nothing is merged.
    `sample` has past events, as for `match`; some ten thousand, at most 200,000. Rows of `subscriptions` are read as by
    `Snapshot.publish`, and scores, weights and tags play no part. A row that cannot be taken fails the whole; with
    `on_error="reject"` it is in `Compacted.rejects`, and no condition stands for it. `homes` is the number of tasks.
    Runs at once; `working` is a folder that all workers see, needed on a cluster, in which the result stays.
    """
    check_budget(budget)
    check_homes(homes)
    _check_sample(sample)
    folder = working_folder(working, "compact")
    with removed_on_error(folder):
        given = Given(attributes, zone, bounds, order_by, on_error)
        segment, rejects = read_rows(subscriptions, folder, given, "compacted")
        events = _encoded(sample, segment.schema, event)
        return _compacted(
            subscriptions.sparkSession, folder, segment, rejects, events, Asked(budget, homes, seed)
        )  # fmt: skip


class Asked(NamedTuple):
    """How to merge."""

    budget: float
    homes: int | None
    seed: int


def _compacted(
    spark: SparkSession, folder: Path, segment: Segment, rejects: pa.Table, events: EventArrays, asked: Asked
) -> Compacted:
    """Both steps, and what came of them."""
    budget, homes, seed = asked
    file, tree, made = write_table(segment, folder, homes)
    deciding = _deciding(len(events.start) - 1, seed)
    write_events(folder / "events", events)
    plan = Plan(file, tree, str(folder), budget, seed)
    first = _first_step(spark, plan, len(segment))
    anybody: Flags = np.logical_or.reduce(first.wanted, axis=0)
    helpful = np.packbits(deciding & (first.wanted | ~anybody), axis=1)
    write_packed(folder / "roots", _ROOTS, {}, {"top": first.top, "helpful": helpful})
    everywhere = int(first.wanted[:, deciding].sum())
    plan = plan._replace(budget=budget * int(anybody[deciding].sum()) / everywhere if everywhere else 0.0)
    frame, taken_too = _second_step(spark, plan, segment.ids.integers, len(anybody))
    wanted = anybody[~deciding]
    extra = int((taken_too[~deciding] & ~wanted).sum())
    return Compacted(
        conditions=frame,
        before=len(segment),
        after=frame.count(),
        never=int((np.diff(made.table.clause_start) == 0).sum()),
        budget=budget,
        held_back=Traffic(len(wanted), int(wanted.sum()), extra),
        rejected=rejects.num_rows,
        rejects=_written_rejects(spark, folder / "rejects", rejects),
    )


def _written_rejects(spark: SparkSession, folder: Path, rejects: pa.Table) -> DataFrame:
    """The rows that were not taken, beside the result."""
    from pyspark.sql.types import StringType

    names = ["id", "condition", "reason"]
    folder.mkdir()
    pq.write_table(rejects.select(names), folder / "part-00000.parquet")
    return spark.read.schema(frames.struct_of(dict.fromkeys(names, StringType()))).parquet(address(folder))


# --- the sample --------------------------------------------------------------------------------------------------


def _check_sample(sample: DataFrame) -> None:
    if sample.isStreaming:
        raise EarmarkError("a sample has past events; it cannot be a streaming DataFrame")


def _encoded(sample: DataFrame, schema: Schema, event: str | None) -> EventArrays:
    """The events of the sample in the keys of the subscriptions, in an order that does not depend on partitions."""
    picked = Picked(sample, schema, event)
    selected = picked.selected()
    keyed = with_keys(selected, range(len(selected.columns))).limit(MOST_SAMPLE + 1).toArrow()
    if keyed.num_rows > MOST_SAMPLE:
        raise EarmarkError(f"a sample has at most {MOST_SAMPLE:,} events; take some, as with events.sample(0.01)")
    table = keyed.take(pc.sort_indices(keyed["key"])).combine_chunks()
    batches = table.to_batches()
    batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
    return encoded(schema, picked.columns([]), batch, None)


def _deciding(count: int, seed: int) -> Flags:
    """Which of so many events decide; the others are held back."""
    deciding = np.zeros(count, np.bool_)
    deciding[np.random.default_rng([seed, 1]).permutation(count)[: int(count * DECIDING)]] = True
    return deciding


# --- the two steps, seen from the driver -------------------------------------------------------------------------


class Plan(NamedTuple):
    """What a task needs to know."""

    table: str
    """The file of the segment (working.py)."""
    tree: Tree
    folder: str
    budget: float
    seed: int


class Firsts(NamedTuple):
    """What the first step found: for each slot one that stands for it, and by home the events that its roots take."""

    top: I64
    wanted: Flags


def _first_step(spark: SparkSession, plan: Plan, slots: int) -> Firsts:
    from pyspark.sql.types import BinaryType, LongType

    schema = frames.struct_of({"home": LongType(), **dict.fromkeys(("slots", "others", "wanted"), BinaryType())})
    rows = over_homes(spark, plan.tree, lambda batches: find_roots(plan, batches), schema).collect()
    top = np.arange(slots, dtype=np.int64)
    wanted = []
    for row in sorted(rows, key=lambda row: int(row["home"])):
        top[np.frombuffer(row["slots"], np.int64)] = np.frombuffer(row["others"], np.int64)
        wanted.append(np.frombuffer(row["wanted"], np.bool_))
    while True:  # a duplicate's first may be covered itself
        further = top[top]
        if (further == top).all():
            return Firsts(top, np.stack(wanted))
        top = further


def _second_step(spark: SparkSession, plan: Plan, integer_ids: bool, events: int) -> tuple[DataFrame, Flags]:
    """The conditions of all homes, and the events that merged ones take."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, BinaryType, StringType

    kind = frames.id_type(integer_ids)
    schema = frames.struct_of(
        {"id": kind, "condition": StringType(), "stands_for": ArrayType(kind), "taken": BinaryType()}
    )
    made = over_homes(spark, plan.tree, lambda batches: merge_homes(plan, batches), schema)
    target = address(Path(plan.folder) / "conditions")
    made.write.parquet(target)
    written = spark.read.schema(schema).parquet(target)
    flags = np.zeros(events, np.bool_)
    for row in written.filter(f.col("taken").isNotNull()).select("taken").collect():
        flags |= np.frombuffer(row["taken"], np.bool_)
    return written.filter(f.col("id").isNotNull()).select("id", "condition", "stands_for"), flags


# --- on the workers ----------------------------------------------------------------------------------------------


def find_roots(plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Of each home: who is covered by whom, and which events the others take."""
    segment, table, _ = read_table(plan.table)
    events, attributes = read_events(Path(plan.folder) / "events"), len(segment.schema)
    for home in numbers_in(batches):
        own = residents(table, plan.tree, home)
        found = [one for one in audit_home(table, own, attributes) if one.finding in (DUPLICATE, COVERED)]
        slots, others = (np.concatenate(column) for column in zip(*(one[1:] for one in found), strict=True))
        roots = np.setdiff1d(matching(table, own), slots)
        local = SegmentArrays._make(frozen(column) for column in gather(table, roots))
        wanted = taken(local, all_set(len(roots)), events) if len(roots) else np.zeros(len(events.start) - 1, np.bool_)
        flat = {"slots": slots, "others": others, "wanted": wanted}
        columns = {name: pa.array([column.tobytes()], pa.binary()) for name, column in flat.items()}
        yield pa.RecordBatch.from_pydict({"home": pa.array([home], pa.int64()), **columns})


def merge_homes(plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Of each home: its conditions, and in a row of its own the events that merged ones take."""
    folder = Path(plan.folder)
    segment, table, _ = read_table(plan.table, in_place=False)
    events, roots_file = read_events(folder / "events"), read_packed(folder / "roots", _ROOTS)
    top, helpful = roots_file.array("top", np.int64), roots_file.arrays["helpful"]
    ids = id_array(segment)
    for home in numbers_in(batches):
        own = matching(table, residents(table, plan.tree, home))
        roots = own[top[own] == own]
        if not len(roots):
            continue
        deciding = np.flatnonzero(np.unpackbits(helpful[home], count=len(events.start) - 1))
        merged = merge(segment.pick(roots), some_events(events, deciding), plan.budget, seed=plan.seed)
        stands_for = Standing(ids, top)
        rows = [
            (one, text, stands_for.ids(roots[members]))
            for (one, text, _), members in zip(merged.rows(), _groups(merged), strict=True)
        ]
        yield from _told(segment, rows, taken_by_boxes(merged.boxes, events))


def _groups(merged: Any) -> Iterator[I64]:
    """The members of each group, as slots of the home's own table."""
    yield from np.split(merged.members, merged.start[1:-1])


class Standing:
    """Who stands for whom: the covered ones of each root, from the table of all tops."""

    def __init__(self, ids: pa.Array, top: I64) -> None:
        self._ids = ids
        self._order = np.argsort(top, kind="stable")
        self._tops = top[self._order]

    def ids(self, roots: I64) -> list[Any]:
        """All that these roots cover, themselves included, oldest first."""
        first, last = np.searchsorted(self._tops, roots), np.searchsorted(self._tops, roots, "right")
        slots = np.sort(np.concatenate([self._order[a:b] for a, b in zip(first, last, strict=True)]))
        found: list[Any] = self._ids.take(pa.array(slots)).to_pylist()
        return found


def _told(segment: Segment, rows: list[tuple[Any, str, list[Any]]], flags: Flags) -> Iterator[pa.RecordBatch]:
    kind = frames.arrow_id_type(segment.ids.integers)
    schema = pa.schema({"id": kind, "condition": pa.string(), "stands_for": pa.list_(kind), "taken": pa.binary()})
    yield pa.RecordBatch.from_pydict(
        {"id": [None], "condition": [None], "stands_for": [None], "taken": [flags.tobytes()]}, schema
    )
    for first in range(0, len(rows), OUTPUT_ROWS):
        some = rows[first : first + OUTPUT_ROWS]
        columns = dict(zip(("id", "condition", "stands_for"), map(list, zip(*some, strict=True)), strict=True))
        yield pa.RecordBatch.from_pydict({**columns, "taken": [None] * len(some)}, schema)
