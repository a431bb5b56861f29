"""How does a DataFrame of subscriptions become a version?

DataFrame ──► parts in the order of insertion (intake.py) ──► table and index (contents.py), or shards (shards.py)
          ──► commit (versions.py)
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from earmark import index as indexes
from earmark.spark import contents
from earmark.spark.intake import Given, Taken, ordered, refuse, sequences, subscriptions_of, take_rows
from earmark.spark.merge import take_constants
from earmark.spark.shards import Table, checked_shards, write_sharded
from earmark.spark.versions import Building, building, newest_or_none

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTS = "parts"


def publish(
    subscriptions: DataFrame, root: Path, given: Given, index: str, shards: int = 1, done: str = "published"
) -> dict[str, Any]:
    """A full version; returns its record. `done` is what did not happen on an error."""
    indexes.builder(index)
    checked_shards(shards)
    source, seed = subscriptions_of(subscriptions, given)
    with building(root, newest_or_none(root)) as site:
        taken = take_rows(source, site.folder / PARTS, seed)
        if shards == 1:
            stored, rejects = ordered(taken)
            refuse(rejects, given.on_error, done)
            return commit(site, contents.write_full(site.folder, stored, index), rejects)
        tables, rejects = _tables(taken)
        refuse(rejects, given.on_error, done)
        count = sum(table.taken for table in tables)
        told = write_sharded(
            site.folder, tables, taken.schema, shards, index, count, taken.integer_ids, source.spark
        )  # fmt: skip
        return commit(site, told, rejects)


def _tables(taken: Taken) -> tuple[list[Table], pa.Table]:
    """The parts as they are, with the order of insertion; and all rejects."""
    take_constants(taken.schema, (part.stored for part in taken.parts))
    own, rejects = sequences(taken)
    parts = zip(taken.folders, taken.parts, own, strict=True)
    return [Table(folder, part.stored, sequence) for folder, part, sequence in parts], rejects


def commit(site: Building, record: Mapping[str, Any], rejects: pa.Table) -> dict[str, Any]:
    """Make what was written the newest version, with its rejects beside it; returns its record."""
    shutil.rmtree(site.folder / PARTS, ignore_errors=True)
    (site.folder / "rejects").mkdir()
    pq.write_table(rejects.sort_by("id"), site.folder / "rejects" / "part-00000.parquet")
    return site.commit({**record, "rejected": rejects.num_rows})
