"""How does a DataFrame of subscriptions become a version?

DataFrame ──► parts in the order of insertion (intake.py) ──► a segment with its index, or shards (book/sharding.py)
          ──► commit (book/folder.py)
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, StringType

from earmark import index as indexes
from earmark.book.folder import Building, publishing, read_manifest
from earmark.book.saving import Shelf, write_version
from earmark.book.sharding import ShardPlan, Source, build_here, build_shard, checked_shards, sharded
from earmark.engine.version import IndexedSegment, Version
from earmark.segment.join import with_all_constants
from earmark.spark.frames import struct_of
from earmark.spark.intake import ReadOptions, ordered, refuse, sequences, subscriptions_of, take_rows

PARTS = "parts"
_REPORT = pa.schema({"shard": pa.int32(), "report": pa.string()})


def publish(
    subscriptions: DataFrame, root: Path, options: ReadOptions, index: str, shards: int = 1, done: str = "published"
) -> dict[str, Any]:
    """Publish a full version; return its record. `done` is what did not happen on an error."""
    build = indexes.builder(index)
    checked_shards(shards)
    source, seed = subscriptions_of(subscriptions, options)
    with publishing(root) as site:
        taken = take_rows(source, site.folder / PARTS, seed)
        if shards == 1:
            segment, rejects = ordered(taken)
            refuse(rejects, options.on_error, done)
            segments = [IndexedSegment.of(segment, build(segment.arrays))] if len(segment) else []
            version = Version.of(segment.schema, segments, len(segment))
            version = replace(version, integer_ids=taken.integer_ids)
        else:
            by_part, rejects = sequences(taken)
            refuse(rejects, options.on_error, done)
            parts = zip(taken.files, taken.segments, by_part, strict=True)
            sources: list[Source] = [(file, None, segment, sequence) for file, segment, sequence in parts]
            schema = with_all_constants(taken.schema, taken.segments)
            count = sum(int((sequence >= 0).sum()) for sequence in by_part)
            run = on_executors(source.spark)
            version = sharded(site, sources, schema, shards, index, count, taken.integer_ids, run)
        return commit(site, version, index, rejects)


def commit(
    site: Building,
    version: Version,
    index: str,
    rejects: pa.Table,
    shelf: Shelf | None = None,
    base: int | None = None,
) -> dict[str, Any]:
    """Make a version the newest, with its rejects beside it; return its record. `base` is the parent's."""
    shutil.rmtree(site.folder / PARTS, ignore_errors=True)
    record = write_version(site, version, index, shelf or Shelf(read_manifest(site.root)["book"]))
    (site.folder / "rejects").mkdir()
    pq.write_table(rejects.sort_by("id"), site.folder / "rejects" / "part-00000.parquet")
    return site.commit({**record, "base": base, "rejected": rejects.num_rows})


# --- shards, built by the executors ---------------------------------------------------------------------------


def on_executors(spark: SparkSession | None) -> Callable[[ShardPlan, int], dict[int, str]]:
    """Return what builds shards: the executors of a session, one shard per task; without one, this process."""
    if spark is None:
        return build_here

    def run(plan: ShardPlan, shards: int) -> dict[int, str]:
        report = struct_of({"shard": IntegerType(), "report": StringType()})
        numbers = spark.range(0, shards, 1, shards)
        rows = numbers.mapInArrow(lambda batches: build_shards(plan, batches), report).collect()
        return {row[0]: row[1] for row in rows}

    return run


def build_shards(plan: ShardPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Build the shards of these numbers on an executor; yield their reports."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield pa.RecordBatch.from_pydict({"shard": [number], "report": [build_shard(plan, number)]}, _REPORT)
