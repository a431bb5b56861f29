"""Find duplicates and covered subscriptions among more of them than one process can take.

    DataFrame ──► parts in the order of insertion (intake.py) ──► one segment ──► a working folder
              ──► a tree of homes (cover/homes.py) ──mapInArrow, one home per task──► findings

    working folder/table      the subscriptions as they were written, a whole segment (book/segments.py); beside them
                              their canonical form (cover/canonical.py), and which clauses never match

Rows are read as by `Snapshot.publish` (types, string keys, the order, rejected rows), but there is no version and no
index, and the working folder belongs to one call. The driver holds whole columns and no Python object per subscription,
and the folder must be visible to the driver and to all workers under the same path. A task gets the numbers of some
homes, maps the segment, and works on the residents of each; merging.py does so too.

The findings are those of `Matcher.audit` (cover/audit.py), with the rows of `Audit.to_arrow`. Each task maps the table,
picks the residents and the guests of its home, and searches the covering index of these (cover/indexes/blocks.py).
Every subscription that can cover a resident is there, so nothing is compared across tasks, no rows are shuffled, and
there is no join.

Of several subscriptions that cover another, one that nothing else covers is named; which one may depend on the
partitions. All other columns do not.

**Invariant.** Every subscription is a resident of one home, and each finding about it is made there.
Complexity: O(table) per task to find who is present, then as `cover/audit.py` for those present. In how many homes a
subscription is present on average is `Homes.replication`.
"""

from __future__ import annotations

import atexit
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow.feather import read_table as read_feather
from pyarrow.feather import write_feather
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, StringType, StructType

from earmark.book.folder import root_of
from earmark.book.segments import read_whole, write_whole
from earmark.cover.audit import first_equal
from earmark.cover.canonical import Canonized, canonized
from earmark.cover.homes import HomeTree as Tree
from earmark.cover.homes import learned, matching, replicated, residents
from earmark.cover.indexes.blocks import CoverBlocks
from earmark.errors import EarmarkError
from earmark.flat.arrays import I64, frozen
from earmark.segment.arrays import SegmentArrays, gather
from earmark.segment.explain import clause_texts
from earmark.segment.segment import Segment
from earmark.spark import frames, intake
from earmark.spark.intake import FAIL, ReadOptions
from earmark.spark.snapshot import Folder

RESIDENTS = 50_000
"""Residents per home, about, unless the caller says how many homes there are."""
LEAST_HOMES = 4
OUTPUT_ROWS = 1 << 16
COLUMNS = ("finding", "subscription", "other", "clause", "text")
DUPLICATE, COVERED, NEVER, NEVER_CLAUSE, EVERYTHING = "duplicate", "covered", "never", "never clause", "everything"
REJECTED = "rejected"
"""The finding about a row that could not be read. It has no home: the first home lists all such rows."""
FIRST_HOME = 0
NOBODY = -1
_NEVER = "never"
_KEPT = ("clause_start", "constraint_start", "attr", "accepts_null", "interval_start", "lo", "hi")
_NONE = frozen(np.empty(0, np.float64))

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Homes:
    """How an audit is spread: the residents of each home, and those present there, guests included."""

    residents: tuple[int, ...]
    present: tuple[int, ...]

    @property
    def replication(self) -> float:
        """The number of homes in which a subscription is present, on average."""
        return sum(self.present) / max(sum(self.residents), 1)

    def __str__(self) -> str:
        return (
            f"{sum(self.residents):,} subscriptions in {len(self.residents)} homes, "
            f"at most {max(self.residents, default=0):,} in one; each is present in {self.replication:.2f} on average, "
            f"at most {max(self.present, default=0):,} in one"
        )


def audit(
    subscriptions: DataFrame,
    *,
    attributes: Mapping[str, str] | None = None,
    zone: str | None = None,
    bounds: Mapping[str, tuple[str, str]] | None = None,
    order_by: str | None = None,
    on_error: str = FAIL,
    homes: int | None = None,
    working: Folder | None = None,
    on_plan: Callable[[Homes], Any] | None = None,
) -> DataFrame:
    """Find duplicates, covered subscriptions, and those that match nothing or everything, as `Matcher.audit` does.

    There is one row per finding: `finding` ("duplicate", "covered", "never", "never clause", "everything"),
    `subscription`, `other` (the oldest with the same condition, or one that covers it and is to stay), and for a clause
    that never matches its number and text. Rows are read as by `Snapshot.publish`; of equal conditions the first by
    `order_by`, then by `id`, is the one to stay. Rows that cannot be used are an error; with `on_error="reject"` they
    are left out of the audit, and are findings themselves: "rejected", with the reason as the text.

    The subscriptions are read at once; the audit runs every time the result is used, unless it is cached or written.
    `homes` is the number of tasks. `working` is a folder that all workers see, needed on a cluster; its content may be
    removed once the result has been used. `on_plan` is called with the way the work is spread.
    """
    check_homes(homes)
    with working_folder(working, "audit") as folder:
        options = ReadOptions(attributes, zone, bounds, order_by, on_error)
        segment, rejects = read_rows(subscriptions, folder, options, "audited")
        file, tree, canonical = write_table(segment, folder, homes)
        write_feather(rejects, folder / "rejects.arrow")
        if on_plan is not None:
            on_plan(spread_of(canonical.table, tree, len(segment.schema)))
    plan = AuditPlan(file, tree, str(folder / "rejects.arrow"))
    kind = frames.id_type(segment.ids.integers)
    types = (StringType(), kind, kind, IntegerType(), StringType())
    schema = frames.struct_of(dict(zip(COLUMNS, types, strict=True)))
    return over_homes(subscriptions.sparkSession, tree, lambda batches: audit_homes(plan, batches), schema)


def spread_of(table: SegmentArrays, tree: Tree, attributes: int) -> Homes:
    """Return how many subscriptions are residents of each home and are present in it. O(homes x table)."""
    by_home = [residents(table, tree, home) for home in range(tree.homes)]
    return Homes(tuple(map(len, by_home)), tuple(len(replicated(table, members, attributes)) for members in by_home))


# --- the working folder ------------------------------------------------------------------------------------------


@contextmanager
def working_folder(parent: Folder | None, what: str) -> Iterator[Path]:
    """Create a folder: under `parent`, where it stays, or else a temporary one, until this process ends.

    It is removed at once if the block raises.
    """
    if parent is None:
        folder = Path(tempfile.mkdtemp(prefix=f"earmark-{what}-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    else:
        root = root_of(parent, "the working folder")
        if not root.is_dir():
            raise EarmarkError(f"working: expected a folder that all workers see, got {str(parent)!r}")
        frames.address(root)  # refuses what Spark would misread
        folder = root / f"earmark-{what}-{secrets.token_hex(8)}"
        folder.mkdir()  # not a private one: workers may belong to another user
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def read_rows(subscriptions: DataFrame, folder: Path, options: ReadOptions, done: str) -> tuple[Segment, pa.Table]:
    """Read a DataFrame as one segment, in the order of insertion; return it and the rejects (intake.py: REJECTS).

    `done` is what did not happen on an error.
    """
    source, seed = intake.subscriptions_of(subscriptions, options)
    taken = intake.take_rows(source, folder / "parts", seed)
    by_part, rejects = intake.sequences(taken, source)
    intake.refuse(rejects, options.on_error, done)
    segment = intake.ordered(taken, by_part)
    shutil.rmtree(folder / "parts")
    return segment, rejects.sort_by("id")


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


# --- on the workers ----------------------------------------------------------------------------------------------


class AuditPlan(NamedTuple):
    """What a task needs to know."""

    table: str
    """The file of the segment (`write_table`)."""
    tree: Tree
    rejects: str
    """An Arrow file."""


class Findings(NamedTuple):
    """Findings of one kind about slots, each with the other slot, or NOBODY."""

    finding: str
    slots: I64
    others: I64


def audit_homes(plan: AuditPlan, batches: Batches) -> Batches:
    """Yield the findings about the residents of some homes, by number."""
    segment, canonical, never = read_table(plan.table)
    ids = id_array(segment)
    for home in numbers_in(batches):
        members = residents(canonical, plan.tree, home)
        for kind, slots, others in audit_home(canonical, members, len(segment.schema)):
            yield from _rows(ids, kind, ids.take(pa.array(slots)), ids.take(pa.array(others, mask=others == NOBODY)))
        yield from _clause_rows(plan, ids, segment, np.flatnonzero(never), matching(canonical, members))
        if home == FIRST_HOME:
            rejects = read_feather(plan.rejects)  # a row without an id has none here either
            yield from _rows(ids, REJECTED, rejects["id"], text=rejects["reason"])


def id_array(segment: Segment) -> pa.Array:
    """Return the ids of all slots as an Arrow column."""
    return segment.ids.taken(np.arange(len(segment), dtype=np.int32))


def audit_home(table: SegmentArrays, members: I64, attributes: int) -> list[Findings]:
    """Return the findings about the residents of a home, from a canonical table, in order of insertion."""
    members = members[np.argsort(table.sequence[members], kind="stable")]
    empty = np.diff(table.clause_start)[members] == 0
    some = members[~empty]
    present = replicated(table, some, attributes)
    local = SegmentArrays._make(frozen(column) for column in gather(table, present))
    by_age = np.argsort(local.sequence, kind="stable")
    leader = np.empty(len(present), np.int64)
    leader[by_age] = first_equal(local, by_age)
    here = np.searchsorted(present, some)
    older = leader[here] != here
    kept = here[~older]
    top = _tops(local, np.flatnonzero(leader == np.arange(len(present))), kept)
    covered = top[kept] != NOBODY
    free = np.diff(local.constraint_start) == 0
    takes_all = np.isin(here, np.searchsorted(local.clause_start, np.flatnonzero(free), "right") - 1)
    return [
        Findings(DUPLICATE, some[older], present[leader[here[older]]]),
        Findings(COVERED, present[kept[covered]], present[top[kept[covered]]]),
        Findings(NEVER, members[empty], np.full(np.count_nonzero(empty), NOBODY)),
        Findings(EVERYTHING, some[takes_all], np.full(np.count_nonzero(takes_all), NOBODY)),
    ]


def _tops(table: SegmentArrays, members: I64, asked: I64) -> I64:
    """Return, for each slot in `asked` and those above it, one that covers it and that nothing covers; or NOBODY."""
    above = np.full(len(table.sequence), NOBODY, np.int64)
    known = np.zeros(len(table.sequence), bool)
    index = CoverBlocks.build(table, members.astype(np.int32))
    while len(asked):
        known[asked] = True
        pointers, found = index.covering_batch(asked.astype(np.int32), 1)
        above[asked[np.diff(pointers) == 1]] = found
        asked = np.unique(found[~known[found]]).astype(np.int64)
    top = above.copy()
    climbing = np.flatnonzero(top != NOBODY)
    while len(climbing):
        higher = top[top[climbing]]
        climbing, higher = climbing[higher != NOBODY], higher[higher != NOBODY]
        top[climbing] = higher
    return top


def _clause_rows(plan: AuditPlan, ids: pa.Array, segment: Segment, broken: I64, some: I64) -> Batches:
    """Yield the clauses of these slots that no event can match, as they were written."""
    start = segment.arrays.clause_start
    owner = np.searchsorted(start, broken, "right") - 1
    wanted = np.isin(owner, some)
    broken, owner = broken[wanted], owner[wanted].astype(np.int64)
    numbers = (broken - start[owner]).tolist()
    texts: list[str] = []
    if len(owner):
        slots, place = np.unique(owner, return_inverse=True)
        view = read_table(plan.table, in_place=False)[0].pick(slots)
        clauses = [clause_texts(view, slot) for slot in range(len(slots))]
        texts = [" AND ".join(clauses[p][n].values()) for p, n in zip(place.tolist(), numbers, strict=True)]
    clause = pa.array([number + 1 for number in numbers], pa.int32())
    yield from _rows(ids, NEVER_CLAUSE, ids.take(pa.array(owner)), clause=clause, text=pa.array(texts, pa.string()))


def _rows(
    ids: pa.Array, finding: str, subscriptions: Any, others: Any = None, clause: Any = None, text: Any = None
) -> Batches:
    """Yield findings of one kind as batches of the columns COLUMNS; those that are not given are NULL."""
    count = len(subscriptions)
    kind = frames.arrow_id_type(pa.types.is_integer(ids.type))
    columns = (pa.array([finding] * count, pa.string()), subscriptions, others, clause, text)
    types = (pa.string(), kind, kind, pa.int32(), pa.string())
    filled = [pa.nulls(count, t) if c is None else c.cast(t) for c, t in zip(columns, types, strict=True)]
    yield from pa.table(filled, list(COLUMNS)).combine_chunks().to_batches(OUTPUT_ROWS)
