"""Rule hygiene of more subscriptions than one process would like: who says the same, who is implied by whom?

    DataFrame ──► one canonical segment (working.py) ──► a tree of homes (cover/homes.py)
              ──mapInArrow, one home in a task──► findings

The findings are those of `Matcher.audit` (cover/audit.py), row by row as `Audit.to_arrow` has them. Each task maps the
table, picks the residents and the guests of its home, and asks the covering index of these (cover/blocks.py). All that
can cover a resident is there, so nothing is compared across tasks, no rows are shuffled, and there is no join.

Of several that cover a subscription one is named that nothing else covers; which one may depend on the partitions. All
other columns do not.

**Invariant.** Every subscription is a resident of one home, and each finding about it is made there.
Complexity: a task O(table) to find who is present, then as `cover/audit.py` of those present. How often a subscription
is present on average is `Homes.replication`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from earmark.book.parts import read_arrow, write_arrow
from earmark.cover.audit import first_equal
from earmark.cover.blocks import Blocks
from earmark.cover.homes import Tree, guests, matching, residents
from earmark.flat.types import I64, frozen
from earmark.segment.arrays import SegmentArrays
from earmark.segment.explain import clause_texts
from earmark.segment.rows import gather
from earmark.segment.segment import Segment
from earmark.spark import frames
from earmark.spark.intake import FAIL, Given
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
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from earmark.spark.snapshot import Folder

OUTPUT_ROWS = 1 << 16
COLUMNS = ("finding", "subscription", "other", "clause", "text")
DUPLICATE, COVERED, NEVER, NEVER_CLAUSE, EVERYTHING = "duplicate", "covered", "never", "never clause", "everything"
REJECTED = "rejected"
"""Of a row that could not be read. It has no home: the first home tells of all such rows."""
FIRST_HOME = 0
NOBODY = -1


@dataclass(frozen=True, slots=True)
class Homes:
    """How an audit is spread: so many homes, the residents of each, and those present, guests included."""

    residents: tuple[int, ...]
    present: tuple[int, ...]

    @property
    def replication(self) -> float:
        """In how many homes a subscription is present on average."""
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
    """Duplicates, covered subscriptions, and such as match nothing or everything: what `Matcher.audit` finds.

    A row a finding: `finding` ("duplicate", "covered", "never", "never clause", "everything"), `subscription`, `other`
    (the oldest of the same condition, or one that covers it and is to stay), and for a clause that never matches its
    number and text. Rows are read as by `Snapshot.publish`; of equal conditions the first by `order_by`, then by `id`,
    is the one to stay. A row that cannot be taken fails the whole; with `on_error="reject"` it is left out of the
    audit and is a finding itself: "rejected", with the reason as the text.

    The subscriptions are read at once; the audit runs when the result is used, each time anew unless it is cached or
    written. `homes` is the number of tasks. `working` is a folder that all workers see, needed on a cluster; what is
    left in it may be removed once the result has been used. `on_plan` is told how the work is spread.
    """
    check_homes(homes)
    folder = working_folder(working, "audit")
    with removed_on_error(folder):
        given = Given(attributes, zone, bounds, order_by, on_error)
        segment, rejects = read_rows(subscriptions, folder, given, "audited")
        file, tree, made = write_table(segment, folder, homes)
        write_arrow(folder / "rejects.arrow", rejects)
        if on_plan is not None:
            on_plan(spread_of(made.table, tree, len(segment.schema)))
    plan = Plan(file, tree, str(folder / "rejects.arrow"))
    schema = _result_schema(segment)
    return over_homes(subscriptions.sparkSession, tree, lambda batches: audit_homes(plan, batches), schema)


def _result_schema(segment: Segment) -> StructType:
    from pyspark.sql.types import IntegerType, StringType

    kind = frames.id_type(segment.ids.integers)
    types = (StringType(), kind, kind, IntegerType(), StringType())
    return frames.struct_of(dict(zip(COLUMNS, types, strict=True)))


def spread_of(table: SegmentArrays, tree: Tree, attributes: int) -> Homes:
    """How many live and are present in each home. O(homes x table)."""
    own = [residents(table, tree, home) for home in range(tree.homes)]
    return Homes(tuple(map(len, own)), tuple(len(guests(table, members, attributes)) for members in own))


# --- on the workers ----------------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """What a task needs to know."""

    table: str
    """The file of the segment (working.py)."""
    tree: Tree
    rejects: str
    """An Arrow file."""


class Found(NamedTuple):
    """Findings of one kind about slots; the other slot, or NOBODY."""

    finding: str
    slots: I64
    others: I64


def audit_homes(plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The findings about the residents of some homes, by number."""
    segment, canonical, never = read_table(plan.table)
    ids = id_array(segment)
    for home in numbers_in(batches):
        own = residents(canonical, plan.tree, home)
        for found in audit_home(canonical, own, len(segment.schema)):
            yield from _batches(_told(ids, found))
        yield from _batches(_clauses_told(plan, ids, segment, np.flatnonzero(never), matching(canonical, own)))
        if home == FIRST_HOME:
            yield from _batches(_rejects_told(plan, ids))


def id_array(segment: Segment) -> pa.Array:
    """The ids of all slots as an Arrow column."""
    return segment.ids.taken(np.arange(len(segment), dtype=np.int32))


def audit_home(table: SegmentArrays, own: I64, attributes: int) -> list[Found]:
    """What there is to say of the residents of a home, from a canonical table; in order of insertion."""
    own = own[np.argsort(table.sequence[own], kind="stable")]
    empty = np.diff(table.clause_start)[own] == 0
    some = own[~empty]
    present = guests(table, some, attributes)
    local = SegmentArrays._make(frozen(column) for column in gather(table, present))
    by_age = np.argsort(local.sequence, kind="stable")
    leader = np.empty(len(present), np.int64)
    leader[by_age] = first_equal(local, by_age)
    mine = np.searchsorted(present, some)
    older = leader[mine] != mine
    kept = mine[~older]
    top = _tops(local, np.flatnonzero(leader == np.arange(len(present))), kept)
    covered = top[kept] != NOBODY
    free = np.diff(local.constraint_start) == 0
    takes_all = np.isin(mine, np.searchsorted(local.clause_start, np.flatnonzero(free), "right") - 1)
    return [
        Found(DUPLICATE, some[older], present[leader[mine[older]]]),
        Found(COVERED, present[kept[covered]], present[top[kept[covered]]]),
        Found(NEVER, own[empty], np.full(np.count_nonzero(empty), NOBODY)),
        Found(EVERYTHING, some[takes_all], np.full(np.count_nonzero(takes_all), NOBODY)),
    ]


def _tops(table: SegmentArrays, members: I64, asked: I64) -> I64:
    """For each slot asked about, and for those above it, one that covers it and that nothing covers; or NOBODY."""
    above = np.full(len(table.sequence), NOBODY, np.int64)
    known = np.zeros(len(table.sequence), bool)
    index = Blocks.build(table, members.astype(np.int32))
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


def _told(ids: pa.Array, found: Found) -> pa.Table:
    count = len(found.slots)
    others = pa.array(found.others, mask=found.others == NOBODY)
    return _table(
        ids,
        pa.array([found.finding] * count, pa.string()),
        ids.take(pa.array(found.slots)),
        ids.take(others),
        pa.nulls(count, pa.int32()),
        pa.nulls(count, pa.string()),
    )


def _clauses_told(plan: Plan, ids: pa.Array, segment: Segment, broken: I64, some: I64) -> pa.Table:
    """Those of the clauses that no event can match which are of these slots, as they were asked."""
    start = segment.arrays.clause_start
    owner = np.searchsorted(start, broken, "right") - 1
    wanted = np.isin(owner, some)
    broken, owner = broken[wanted], owner[wanted].astype(np.int64)
    numbers = (broken - start[owner]).tolist()
    texts: list[str] = []
    if len(owner):
        slots, place = np.unique(owner, return_inverse=True)
        view = read_table(plan.table, in_place=False)[0].pick(slots)
        asked = [clause_texts(view, slot) for slot in range(len(slots))]
        texts = [" AND ".join(asked[p][n].values()) for p, n in zip(place.tolist(), numbers, strict=True)]
    return _table(
        ids,
        pa.array([NEVER_CLAUSE] * len(owner), pa.string()),
        ids.take(pa.array(owner)),
        ids.take(pa.nulls(len(owner), pa.int64())),
        pa.array([number + 1 for number in numbers], pa.int32()),
        pa.array(texts, pa.string()),
    )


def _rejects_told(plan: Plan, ids: pa.Array) -> pa.Table:
    """The rows that could not be read; one without an id has none here either."""
    rejects = read_arrow(Path(plan.rejects))
    count = rejects.num_rows
    finding = pa.array([REJECTED] * count, pa.string())
    return _table(
        ids, finding, rejects["id"], pa.nulls(count, pa.string()), pa.nulls(count, pa.int32()), rejects["reason"]
    )


def _table(ids: pa.Array, *columns: pa.Array | pa.ChunkedArray) -> pa.Table:
    kind = frames.arrow_id_type(pa.types.is_integer(ids.type))
    types = (pa.string(), kind, kind, pa.int32(), pa.string())
    return pa.table([column.cast(type_) for column, type_ in zip(columns, types, strict=True)], list(COLUMNS))


def _batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.combine_chunks().to_batches(OUTPUT_ROWS)
