"""The table of an audit or of a compaction where its tasks find it, and the homes over which they share the work.

    working folder/table/     the subscriptions as they were asked (segment/files.py)
      extras                  their canonical form (cover/canonical.py), and which clauses never match

A task has the numbers of some homes (homes.py), maps the table, and looks at the residents of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from earmark.cover.canonical import Canonized, canonized
from earmark.errors import EarmarkError
from earmark.flat.types import I64, frozen
from earmark.segment.arrays import SegmentArrays
from earmark.segment.files import open_stored, save_stored
from earmark.segment.stored import Stored
from earmark.spark.homes import Tree, learned, residents

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

RESIDENTS = 50_000
"""A home has about so many, unless the caller says how many homes there are."""
LEAST_HOMES = 4
NEVER = "never"
_KEPT = ("clause_start", "constraint_start", "attr", "accepts_null", "interval_start", "lo", "hi")
_NONE = frozen(np.empty(0, np.float64))

Batches = Iterator[pa.RecordBatch]


def check_homes(homes: int | None) -> None:
    """Refuse what is no number of homes."""
    if homes is not None and (isinstance(homes, bool) or not isinstance(homes, int) or homes < 1):
        raise EarmarkError(f"homes is a number of tasks, 1 or more; got {homes!r}")


class Housed(NamedTuple):
    """Where the table lies, and the tree of homes, column by column. It travels with the task."""

    place: str
    columns: tuple[list[int], ...]

    @property
    def tree(self) -> Tree:
        """The tree of homes."""
        types = (np.int32, np.int32, np.int64, np.int32, np.int32)
        return Tree._make(frozen(np.array(column, type_)) for column, type_ in zip(self.columns, types, strict=True))

    def open(self) -> Opened:
        """Map the table."""
        return Opened(open_stored(self.place, verify=False, in_place=True), self.tree)

    def subscriptions(self) -> Stored:
        """The table with string keys that can be read back, for those who show or merge conditions."""
        return open_stored(self.place, verify=False)

    def over(self, spark: SparkSession, task: Callable[[Batches], Batches], schema: StructType) -> DataFrame:
        """A task a home: `task` gets the numbers of homes (`numbers_in`), and gives batches of this schema."""
        homes = self.tree.homes
        return spark.range(0, homes, 1, homes).mapInArrow(task, schema)


class Opened:
    """The table, mapped: as it was asked, and in its canonical form."""

    def __init__(self, stored: Stored, tree: Tree) -> None:
        self.stored, self.tree = stored, tree
        columns = {name: stored.extras[name] for name in _KEPT}
        self.canonical = SegmentArrays(**columns, weight=_NONE, score=_NONE, sequence=stored.arrays.sequence)

    def residents(self, home: int) -> I64:
        """The slots that live in a home, ascending."""
        return residents(self.canonical, self.tree, home)

    def matching(self, slots: I64) -> I64:
        """Those of the slots that an event can match."""
        return slots[np.diff(self.canonical.clause_start)[slots] > 0]


def house(stored: Stored, folder: Path, homes: int | None) -> tuple[Housed, Canonized]:
    """Write a table for the tasks, spread over so many homes or as many as it takes; and its canonical form."""
    made = canonized(stored.arrays, stored.schema)
    tree = learned(made.table, homes or max(LEAST_HOMES, -(-stored.slots // RESIDENTS)))
    extras = {**{name: getattr(made.table, name) for name in _KEPT}, NEVER: made.never.astype(np.uint8)}
    save_stored(stored._replace(extras=extras), folder / "table")
    return Housed(str(folder / "table"), tuple(column.tolist() for column in tree)), made


def numbers_in(batches: Batches) -> list[Any]:
    """The numbers of the homes that a task has."""
    return [home for batch in batches for home in batch.column(0).to_pylist()]
