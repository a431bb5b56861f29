"""How do subscriptions become shards, without all of them in one process?

    segments ──sample──► a cut (engine/cutting.py) ──► the shard of every slot, segment by segment
             ──► each shard: its slots from every segment, in order; index; covers (one shard at a time, anywhere)
             ──► the router over all covers (engine/router.py)

The segments are the parts that executors made (spark/intake.py), or those of an older version. Numbers and types of
attributes, string keys and sequence numbers are the planner's and the same for all shards. What shard a subscription is
in depends on the subscriptions and their sequence numbers alone, not on how they were spread.

    .building-9a…/plan/      what the builder of a shard needs: gone when the version is complete
      schema, source         segments without rows: the schema to be, and that of an older version's segments
      0.places               of every slot of segment 0: its shard (-1: not taken), its place in the order
      proxies                events like those to come, by which covers are judged
      3f08c1… 3f08c1….covers a shard, and its covers

Building a shard gives a report, so building one twice does no harm.

**Memory.** The planner holds orders, and maps segments; a builder holds one shard, and maps the segments it takes from.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from earmark import index as indexes
from earmark.book.folder import SEGMENTS
from earmark.book.publishing import Building
from earmark.book.segments import read_packed, read_segment, read_whole, write_packed, write_segment, write_whole
from earmark.engine import cutting
from earmark.engine.covers import covers_of
from earmark.engine.lazy import LazySegment
from earmark.engine.router import Router
from earmark.engine.version import Version, no_slots
from earmark.errors import require
from earmark.events.arrays import EventArrays
from earmark.flat.arrays import I64, frozen
from earmark.keys.schema import Schema
from earmark.segment.arrays import SegmentArrays, gather
from earmark.segment.join import join, translated
from earmark.segment.segment import Segment, no_segment, uses_of
from earmark.threads import at_most

NOT_TAKEN = -1
PLAN = "plan"
_PLACES, _COVERS, _PROXIES = "places", "covers", "proxies"

Source: TypeAlias = tuple[Path, Mapping[str, Any] | None, Segment, I64]
"""Some subscriptions that become part of a version: the file of their segment; its entry in the record of an older
version, or None where the file is whole; the segment; and for each slot its place in the order, or NOT_TAKEN."""


class ShardPlan(NamedTuple):
    """What the builder of a shard needs to know. It travels with the task."""

    folder: str
    sources: list[tuple[str, dict[str, Any] | None]]
    build: str
    """The index that every shard gets."""
    integer_ids: bool


Run: TypeAlias = Callable[[ShardPlan, int], Mapping[int, str]]
"""Builds all shards of a plan, `build_shard` for each number, and returns their reports."""


def build_here(plan: ShardPlan, shards: int) -> dict[int, str]:
    """Build the shards in this process, one after another."""
    return {number: build_shard(plan, number) for number in range(shards)}


def sharded(
    site: Building,
    sources: Sequence[Source],
    schema: Schema,
    shards: int,
    index: str,
    next_sequence: int,
    integer_ids: bool,
    run: Run = build_here,
) -> Version:
    """Write the subscriptions of these sources as shards; the version that has them, and a router in front.

    One shard is a segment as any other, without a router.
    """
    plan = _planned(site, sources, schema, shards, ShardPlan("", [], index, integer_ids))
    reports = {number: json.loads(report) for number, report in run(plan, shards).items()}
    covers, segments, uses = [], [], np.zeros(len(schema), np.int32)
    for number in range(shards):
        entry, own = reports[number]["entry"], reports[number]["uses"]
        file = Path(plan.folder) / entry["file"]
        found = read_packed(file.with_name(f"{file.name}.{_COVERS}"), _COVERS, mmap=False)
        covers.append(SegmentArrays(**found.arrays))
        target = site.new_file(SEGMENTS)
        file.rename(target)
        entry["file"] = target.name
        for attribute, count in own.items():
            uses[int(attribute)] += count
        slots, opener = int(entry["slots"]), partial(read_segment, target, entry, schema)
        segments.append(LazySegment(entry, schema.generation, slots, no_slots(slots), slots, opener))
    held, live = sum(map(len, segments)), sum(int(np.count_nonzero(one[3] != NOT_TAKEN)) for one in sources)
    require(held == live, f"the shards hold {held:,} of {live:,} subscriptions")
    shutil.rmtree(plan.folder)
    router = Router.of(covers) if shards > 1 else None
    made = Version(schema, tuple(segments), next_sequence, frozen(uses), router, integer_ids)
    return made.with_free_types()


# --- the plan ------------------------------------------------------------------------------------------------


def _planned(site: Building, sources: Sequence[Source], schema: Schema, shards: int, plan: ShardPlan) -> ShardPlan:
    target = site.folder / PLAN
    target.mkdir()
    write_whole(target / "schema", no_segment(schema))
    older = [segment for _, entry, segment, _ in sources if entry is not None]
    if older:
        write_whole(target / "source", no_segment(older[0].schema))
    sample = _sample(sources, schema)
    write_packed(target / _PROXIES, _PROXIES, {}, cutting.proxies(sample)._asdict())
    cut = cutting.learned(sample, shards) if shards > 1 else None
    for number, (_, _, segment, sequence) in enumerate(sources):
        arrays = translated(segment.arrays, segment.schema, schema)._replace(sequence=sequence)
        shard = 0 if cut is None else cutting.shards_of(arrays, cut)
        own = np.where(sequence == NOT_TAKEN, NOT_TAKEN, shard).astype(np.int32)
        write_packed(target / f"{number}.{_PLACES}", _PLACES, {}, {"shard": own, "sequence": sequence})
    files = [(str(file), None if entry is None else dict(entry)) for file, entry, _, _ in sources]
    return plan._replace(folder=str(target), sources=files)


def _sample(sources: Sequence[Source], schema: Schema) -> SegmentArrays:
    """Every n-th subscription by sequence number, in order."""
    total = sum(int(np.count_nonzero(sequence != NOT_TAKEN)) for *_, sequence in sources)
    step = max(total // cutting.SAMPLE, 1)
    chosen = []
    for _, _, segment, sequence in sources:
        mine = np.flatnonzero((sequence != NOT_TAKEN) & (sequence % step == 0))
        chosen.append(segment.pick(mine).with_sequence(sequence[mine]))
    arrays = join(chosen, schema).arrays if chosen else no_segment(schema).arrays
    return gather(arrays, np.argsort(arrays.sequence, kind="stable"))


# --- building ------------------------------------------------------------------------------------------------


def build_shard(plan: ShardPlan, number: int) -> str:
    """One shard with its index and covers, in files of the plan; returns what is to be known of it, as JSON."""
    folder = Path(plan.folder)
    segment = _slots_of(plan, number)
    file = folder / secrets.token_hex(8)
    with at_most(1):  # a worker for each core builds shards
        index = indexes.builder(plan.build)(segment.arrays)
    entry = write_segment(file, segment, index)
    covers = covers_of(segment.arrays, EventArrays(**read_packed(folder / _PROXIES, _PROXIES).arrays))
    write_packed(folder / f"{file.name}.{_COVERS}", _COVERS, {}, covers._asdict())
    return json.dumps({"entry": entry, "uses": uses_of(segment.arrays, segment.schema)})


def _slots_of(plan: ShardPlan, number: int) -> Segment:
    """The subscriptions of a shard, in the order of insertion."""
    folder, parts = Path(plan.folder), []
    schema = read_whole(folder / "schema")[0].schema
    older = read_whole(folder / "source")[0].schema if any(entry for _, entry in plan.sources) else schema
    for at, (file, entry) in enumerate(plan.sources):
        places = read_packed(folder / f"{at}.{_PLACES}", _PLACES)
        mine = np.flatnonzero(places.array("shard", np.int32) == number)
        if len(mine):
            own = read_whole(Path(file))[0] if entry is None else read_segment(Path(file), entry, older)[0]
            parts.append(own.pick(mine).with_sequence(places.array("sequence", np.int64)[mine]))
    if not parts:
        return no_segment(schema, plan.integer_ids)
    return replace(join(parts, schema).in_order(), schema=schema)
