"""A DataFrame of subscriptions as one segment that workers map, without publishing it: what hygiene starts from.

    DataFrame ──► parts in the order of insertion (intake.py) ──► one segment ──► a working folder ──► tasks, by home

    working folder/table      the subscriptions as they were asked, a whole segment (book/segments.py); beside them
                              their canonical form (cover/canonical.py), and which clauses never match

The same as `publish` (types, string keys, the order, rejected rows), but no version, no index, and nothing that lasts:
the working folder belongs to one call. The driver holds whole columns and no Python object for each subscription, and
the folder must be visible to the driver and to all workers under the same path. A task has the numbers of some homes
(cover/homes.py), maps the segment, and looks at the residents of each.
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

from earmark.book.segments import read_whole, write_whole
from earmark.cover.canonical import Canonized, canonized
from earmark.cover.homes import Tree, learned
from earmark.errors import EarmarkError
from earmark.flat.types import frozen
from earmark.segment.arrays import SegmentArrays
from earmark.segment.segment import Segment
from earmark.spark.intake import Given, ordered, refuse, subscriptions_of, take_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from earmark.spark.snapshot import Folder

RESIDENTS = 50_000
"""A home has about so many, unless the caller says how many homes there are."""
LEAST_HOMES = 4
_NEVER = "never"
_KEPT = ("clause_start", "constraint_start", "attr", "accepts_null", "interval_start", "lo", "hi")
_NONE = frozen(np.empty(0, np.float64))

Batches = Iterator[pa.RecordBatch]


def working_folder(parent: Folder | None, what: str) -> Path:
    """A new folder: under a given one, where it stays, or in the system's place for such, until this process ends."""
    if parent is None:
        made = Path(tempfile.mkdtemp(prefix=f"earmark-{what}-"))
        atexit.register(shutil.rmtree, made, ignore_errors=True)
        return made
    if not Path(parent).is_dir():
        raise EarmarkError(f"the working folder {str(parent)!r} is not there; it is one that all workers see")
    made = Path(parent).absolute() / f"earmark-{what}-{secrets.token_hex(8)}"
    made.mkdir()  # not a private one: workers may belong to another user
    return made


@contextmanager
def removed_on_error(folder: Path) -> Iterator[None]:
    """Leave nothing behind where nothing came of it."""
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def read_rows(subscriptions: DataFrame, folder: Path, given: Given, done: str) -> tuple[Segment, pa.Table]:
    """The rows of a DataFrame as one segment, in the order of insertion; and the rejects (book/parts.py: REJECTS).

    `done` is what did not happen on an error.
    """
    source, seed = subscriptions_of(subscriptions, given)
    segment, rejects = ordered(take_rows(source, folder / "parts", seed))
    refuse(rejects, given.on_error, done)
    shutil.rmtree(folder / "parts")
    return segment, rejects.sort_by("id")


# --- homes -------------------------------------------------------------------------------------------------------


def check_homes(homes: int | None) -> None:
    """Refuse what is no number of homes."""
    if homes is not None and (isinstance(homes, bool) or not isinstance(homes, int) or homes < 1):
        raise EarmarkError(f"homes is a number of tasks, 1 or more; got {homes!r}")


def write_table(segment: Segment, folder: Path, homes: int | None) -> tuple[str, Tree, Canonized]:
    """Write a segment for the tasks, spread over so many homes or as many as it takes.

    Returns the file, the tree of homes, and the canonical form.
    """
    made = canonized(segment.arrays, segment.schema)
    tree = learned(made.table, homes or max(LEAST_HOMES, -(-len(segment) // RESIDENTS)))
    extras = {**{name: getattr(made.table, name) for name in _KEPT}, _NEVER: made.never.astype(np.uint8)}
    write_whole(folder / "table", segment, extras=extras)
    return str(folder / "table"), tree, made


def read_table(file: str, in_place: bool = True) -> tuple[Segment, SegmentArrays, NDArray[Any]]:
    """Map what was written: the segment, its canonical form, and which clauses never match.

    Without `in_place` string keys can be read back, for those who show or merge conditions.
    """
    segment, _, extras = read_whole(Path(file), in_place=in_place)
    columns = {name: extras[name] for name in _KEPT}
    canonical = SegmentArrays(**columns, weight=_NONE, score=_NONE, sequence=segment.arrays.sequence)
    return segment, canonical, extras[_NEVER]


def over_homes(spark: SparkSession, tree: Tree, task: Callable[[Batches], Batches], schema: StructType) -> DataFrame:
    """A task for each home: it gets the numbers of homes (`numbers_in`), and gives batches of this schema."""
    return spark.range(0, tree.homes, 1, tree.homes).mapInArrow(task, schema)


def numbers_in(batches: Batches) -> list[Any]:
    """The numbers of the homes that a task has."""
    return [home for batch in batches for home in batch.column(0).to_pylist()]
