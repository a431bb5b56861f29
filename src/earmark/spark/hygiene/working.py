"""A DataFrame of subscriptions as one segment that workers map, without publishing it.

    DataFrame ──► parts in the order of insertion (intake.py) ──► one segment ──► a working folder ──► tasks, by home

    working folder/table      the subscriptions as they were written, a whole segment (book/segments.py); beside them
                              their canonical form (cover/canonical.py), and which clauses never match

The same as `publish` (types, string keys, the order, rejected rows), but without a version or an index, and temporary:
the working folder belongs to one call. The driver holds whole columns and no Python object per subscription, and the
folder must be visible to the driver and to all workers under the same path. A task gets the numbers of some homes
(cover/homes.py), maps the segment, and works on the residents of each.
"""

from __future__ import annotations

import atexit
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from earmark.book.segments import read_whole, write_whole
from earmark.cover.canonical import Canonized, canonized
from earmark.cover.homes import HomeTree as Tree
from earmark.cover.homes import learned
from earmark.errors import EarmarkError
from earmark.flat.arrays import frozen
from earmark.segment.arrays import SegmentArrays
from earmark.segment.segment import Segment
from earmark.spark.intake import ReadOptions, ordered, refuse, subscriptions_of, take_rows

if TYPE_CHECKING:
    from earmark.spark.snapshot import Folder

RESIDENTS = 50_000
"""Residents per home, about, unless the caller says how many homes there are."""
LEAST_HOMES = 4
_NEVER = "never"
_KEPT = ("clause_start", "constraint_start", "attr", "accepts_null", "interval_start", "lo", "hi")
_NONE = frozen(np.empty(0, np.float64))

Batches = Iterator[pa.RecordBatch]


def working_folder(parent: Folder | None, what: str) -> Path:
    """Create a folder: under `parent`, where it stays, or else a temporary one, until this process ends."""
    if parent is None:
        folder = Path(tempfile.mkdtemp(prefix=f"earmark-{what}-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder
    if not Path(parent).is_dir():
        raise EarmarkError(f"working: expected a folder that all workers see, got {str(parent)!r}")
    folder = Path(parent).absolute() / f"earmark-{what}-{secrets.token_hex(8)}"
    folder.mkdir()  # not a private one: workers may belong to another user
    return folder


@contextmanager
def removed_on_error(folder: Path) -> Iterator[None]:
    """Remove a folder if the block raises."""
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def read_rows(subscriptions: DataFrame, folder: Path, options: ReadOptions, done: str) -> tuple[Segment, pa.Table]:
    """Read a DataFrame as one segment, in the order of insertion; return it and the rejects (book/parts.py: REJECTS).

    `done` is what did not happen on an error.
    """
    source, seed = subscriptions_of(subscriptions, options)
    segment, rejects = ordered(take_rows(source, folder / "parts", seed))
    refuse(rejects, options.on_error, done)
    shutil.rmtree(folder / "parts")
    return segment, rejects.sort_by("id")


# --- homes -------------------------------------------------------------------------------------------------------


def check_homes(homes: int | None) -> None:
    """Raise for a wrong number of homes."""
    if homes is not None and (isinstance(homes, bool) or not isinstance(homes, int) or homes < 1):
        raise EarmarkError(f"homes: expected a number of tasks, 1 or more, got {homes!r}")


def write_table(segment: Segment, folder: Path, homes: int | None) -> tuple[str, Tree, Canonized]:
    """Write a segment for the tasks, spread over `homes` homes, or as many as it takes.

    Returns the file, the tree of homes, and the canonical form.
    """
    canonical = canonized(segment.arrays, segment.schema)
    tree = learned(canonical.table, homes or max(LEAST_HOMES, -(-len(segment) // RESIDENTS)))
    extras = {**{name: getattr(canonical.table, name) for name in _KEPT}, _NEVER: canonical.never.astype(np.uint8)}
    write_whole(folder / "table", segment, extras=extras)
    return str(folder / "table"), tree, canonical


def read_table(file: str, in_place: bool = True) -> tuple[Segment, SegmentArrays, NDArray[Any]]:
    """Map what `write_table` wrote: the segment, its canonical form, and which clauses never match.

    Without `in_place`, string keys can be read back, to show or merge conditions.
    """
    segment, _, extras = read_whole(Path(file), in_place=in_place)
    columns = {name: extras[name] for name in _KEPT}
    canonical = SegmentArrays(**columns, weight=_NONE, score=_NONE, sequence=segment.arrays.sequence)
    return segment, canonical, extras[_NEVER]


def over_homes(spark: SparkSession, tree: Tree, task: Callable[[Batches], Batches], schema: StructType) -> DataFrame:
    """Run a task for each home: it gets the numbers of homes (`numbers_in`), and yields batches of this schema."""
    return spark.range(0, tree.homes, 1, tree.homes).mapInArrow(task, schema)


def numbers_in(batches: Batches) -> list[Any]:
    """Return the numbers of the homes that a task gets."""
    return [home for batch in batches for home in batch.column(0).to_pylist()]
