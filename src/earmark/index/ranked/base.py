"""ScoredIndex: what the five structures and the cell table have in common, under the contract of every index.

A structure says how its lists become trees (`_grow`); lists, search, counting, checking and storing are here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from earmark.errors import EarmarkError
from earmark.flat.bits import read_only
from earmark.flat.types import F64, I32, I64
from earmark.index.contract import Floor
from earmark.index.driver import ArrayIndex
from earmark.index.given import read_only_table
from earmark.index.kernels import Asked
from earmark.index.ranked import check
from earmark.index.ranked.arrays import (
    ALWAYS,
    ATTR,
    BOUND,
    BRANCHING,
    DEPTH,
    EMPTY,
    ENTRIES,
    EXACT,
    FOREST,
    INFO,
    KINDS,
    LEAF,
    LEVELS,
    LIST,
    LOOSE,
    MOST_CONSTRAINTS,
    NODES,
    ONE_CLAUSE,
    ORDER,
    REGIME,
    ROOT,
    SHAPE,
    SHARED,
    SOLE,
    STATIC_LEAST,
    STATIC_MOST,
    WEIGHTS_MOST,
    WIDEST,
    ScoredArrays,
    ScoredParts,
    Trees,
    frozen_arrays,
)
from earmark.index.ranked.collect import match_events
from earmark.index.ranked.forest import DEEPEST, HIGHEST, ForestDraft, TreePlan, finished, grow
from earmark.index.ranked.lists import Layout, ScoredLists, clause_sums, joined, lay_out, needed
from earmark.index.ranked.threshold import rank_events
from earmark.index.ranked.walk import ALL_COUNTERS, COUNT, VISITS, WalkScratch, make_scratch, pull, set_source
from earmark.index.stored import element_types
from earmark.jit import kernel
from earmark.segment.arrays import SegmentArrays

MODES = ("both", "exact", "relaxed")


class ScoredOptions(NamedTuple):
    """What an index was asked to be.

    `branching` is the width of R-tree nodes, 2 to 64; `leaf` the intervals that an interval tree leaves together;
    `modes` the searches it is for, "exact", "relaxed" or "both"; `intersect` lists every constraint for exact search
    and intersects the lists, as the paper does, where otherwise a clause is listed once and verified.
    """

    branching: int = 32
    leaf: int = 16
    modes: str = "both"
    intersect: bool = False
    shape: int = FOREST
    order: int = ALWAYS
    best: int = 0


class ScoredIndex(ArrayIndex[ScoredArrays]):
    """Scored intervals of each attribute, searched best first. Not built directly: see the five structures."""

    shapes: tuple[int, ...] = (FOREST,)
    """What `info[SHAPE]` of such an index can be."""
    keyed = False
    """Whether nodes have keys that stab their intervals."""

    _kind = ScoredArrays
    _match_kernel = match_events
    _rank_kernel = rank_events
    _counters = ALL_COUNTERS

    def _hold(self, table: SegmentArrays, arrays: ScoredArrays) -> None:
        super()._hold(table, frozen_arrays(arrays))
        self._counted = np.zeros(ALL_COUNTERS, np.int64)

    # --- building ------------------------------------------------------------------------------------------------

    @classmethod
    def _built(cls, table: SegmentArrays, options: ScoredOptions) -> Self:
        _check_options(options)
        table = read_only_table(table)
        layout = lay_out(table, options.modes, options.intersect)
        return cls(table, cls._arranged(table, layout, options))

    @classmethod
    def _arranged(cls, table: SegmentArrays, layout: Layout, options: ScoredOptions) -> ScoredArrays:
        """The arrays of an index with these lists."""
        lists = joined(layout.exact, layout.relaxed)
        arrays = _frame(table, layout, lists, options)
        return cls._grow(lists, arrays, options)

    @classmethod
    def _grow(cls, lists: ScoredLists, arrays: ScoredArrays, options: ScoredOptions) -> ScoredArrays:
        """Fill in the trees of the lists."""
        raise NotImplementedError

    @classmethod
    def restore(cls, table: SegmentArrays, arrays: Mapping[str, np.ndarray]) -> Self:
        """The index whose `arrays` were saved, over the same table. What kernels rely on is checked. O(size)."""
        made = check.restored(arrays, table, cls.shapes)
        return cls(table, made)

    # --- the contract --------------------------------------------------------------------------------------------

    @property
    def references(self) -> int:
        """How many references to intervals the index stores: the paper's measure of space."""
        return int(self._arrays.lists.reshape(-1, LIST)[:, ENTRIES].sum())

    @property
    def visits(self) -> I64:
        """Blocks of R-trees visited by the last call, by height; leaves first."""
        return self._counted[VISITS:]

    def check(self) -> None:
        """Raise AssertionError, naming what is broken, unless the invariant holds. O(size log size)."""
        check.check_structure(self._arrays, self._table)
        check.check_order(self._arrays, self._table, self.keyed)
        check.check_content(self._arrays, self._table)

    def stabbed(self, attribute: int, lo: int, hi: int | None = None, relaxed: bool = False) -> Stabbed:
        """The one-dimensional iterator: entries of an attribute's list that the keys lo..hi meet, best first."""
        kind = int(relaxed and self._arrays.info[REGIME] != SHARED)
        chosen = self._arrays.list_of[kind::KINDS]
        which = int(chosen[attribute]) if 0 <= attribute < len(chosen) else EMPTY
        return Stabbed(self._arrays, self._table, which, lo, lo if hi is None else hi)

    # --- inside --------------------------------------------------------------------------------------------------

    def _read_by_kernels(self) -> ScoredParts:
        return self._arrays.parts()

    def _new_scratch(self) -> WalkScratch:
        return make_scratch(self._arrays, len(self._table.sequence))

    def _rank_group(self, asked: Asked, floor: Floor | None, kernel: Any) -> tuple[I64, I32, F64, I64]:
        if asked.relaxed and self._arrays.info[REGIME] == check.ABSENT_LISTS:
            raise EarmarkError("this index was built for exact search only; build it with modes='both'.")
        return super()._rank_group(asked, floor, kernel)


class Stabbed:
    """A resumable search of one list. Each entry comes once, by score descending, then sequence ascending."""

    def __init__(self, arrays: ScoredArrays, table: SegmentArrays, which: int, lo: int, hi: int) -> None:
        self._trees, self._sequence = arrays.trees(), table.sequence
        self.counters = np.zeros(ALL_COUNTERS, np.int64)
        self._scratch = make_scratch(arrays, 0, lo != hi)
        self._begun = False
        self._which, self._lo, self._hi = which, lo, hi

    def getnext(self) -> tuple[int, float] | None:
        """The next best (slot, score), None after the last. O(log n) blocks where runs have no holes."""
        if self._which == EMPTY:
            return None
        begin, self._begun = not self._begun, True
        found, slot, score = _getnext(
            self._trees, self._scratch, self._sequence, self._which, self._lo, self._hi, begin, self.counters
        )
        return (slot, score) if found else None

    def __iter__(self) -> Iterator[tuple[int, float]]:
        while (one := self.getnext()) is not None:
            yield one


@kernel
def _getnext(
    trees: Trees, scratch: WalkScratch, sequence: I64, which: int, lo: int, hi: int, begin: bool, work: I64
) -> tuple[bool, int, float]:
    if begin:
        set_source(trees.info, scratch.source, 0, which, lo, hi, 0, 0)
    if begin or scratch.source[COUNT] > 0:
        pull(trees, scratch, sequence, 0, begin, work)
    return scratch.source[COUNT] > 0, scratch.heap_slot[0], scratch.heap_score[0]


def _frame(table: SegmentArrays, layout: Layout, lists: ScoredLists, options: ScoredOptions) -> ScoredArrays:
    """All arrays that do not depend on the structure."""
    nothing: dict[str, Any] = {name: np.empty(0, kind) for name, kind in element_types(ScoredArrays).items()}
    attributes = int(lists.attr.max(initial=-1)) + 1
    list_of = np.full((attributes, KINDS), EMPTY, np.int32)
    list_of[layout.exact.attr, 0] = np.arange(len(layout.exact.attr))
    list_of[layout.relaxed.attr, 1] = np.arange(len(layout.relaxed.attr)) + len(layout.exact.attr)
    rows = np.zeros((len(lists.attr), LIST), np.int64)
    rows[:, ATTR], rows[:, ROOT], rows[:, SOLE] = lists.attr, EMPTY, lists.sole
    rows[:, ENTRIES] = np.diff(lists.start)
    info = np.zeros(INFO, np.int64)
    info[SHAPE], info[ORDER], info[BRANCHING], info[LEAF] = (
        options.shape, options.order, options.branching, options.leaf,
    )  # fmt: skip
    info[REGIME], info[EXACT], info[LOOSE] = layout.regime, options.modes != "relaxed", len(layout.loose_exact.slot)
    info[MOST_CONSTRAINTS] = max(1, np.diff(table.constraint_start).max(initial=1))
    info[ONE_CLAUSE] = bool((np.diff(table.clause_start) <= 1).all())
    return ScoredArrays(**nothing)._replace(
        info=info,
        list_of=list_of.ravel(),
        lists=rows.ravel(),
        bounds=np.vstack([_bounds(lists), whole_table(table)]).ravel(),
        loose=np.concatenate([layout.loose_exact.slot, layout.loose_relaxed.slot]),
        loose_score=np.concatenate([layout.loose_exact.score, layout.loose_relaxed.score]),
        needed=needed(table, options.intersect),
        grid_start=layout.grids.start,
        grid=layout.grids.key,
        grid_used=layout.grids.used,
    )


def _bounds(lists: ScoredLists) -> F64:
    """Per list the least score, the least distance of two, and the greatest weight."""
    made = np.zeros((len(lists.attr), BOUND))
    for one in range(len(lists.attr)):
        score = lists.score[lists.start[one] : lists.start[one + 1]]
        gaps = score[:-1] - score[1:]
        made[one] = score[-1], gaps[gaps > 0].min(initial=np.inf), lists.heaviest[one]
    return made


def whole_table(table: SegmentArrays) -> F64:
    """Of the whole table: greatest and least static score, and the greatest sum of weights of a clause."""
    static = table.score if len(table.score) else np.zeros(len(table.sequence))
    total = np.empty(len(table.constraint_start) - 1)
    clause_sums(table._replace(score=read_only(np.empty(0))), total)
    made = np.zeros(BOUND)
    if len(static):
        made[STATIC_MOST], made[STATIC_LEAST] = static.max(), static.min()
    made[WEIGHTS_MOST] = total.max(initial=0.0)
    return made


def planted(lists: ScoredLists, arrays: ScoredArrays, plan: TreePlan) -> ScoredArrays:
    """The arrays with trees as planned."""
    draft = grow(lists, plan)
    return with_counts(draft, finished(draft, arrays))


def with_counts(draft: ForestDraft, arrays: ScoredArrays) -> ScoredArrays:
    """Roots, sizes and depth of the trees, written where searches look for them."""
    rows = arrays.lists.reshape(-1, LIST).copy()
    rows[:, ROOT], rows[:, NODES] = draft.list_root, draft.list_nodes
    info = arrays.info.copy()
    info[DEPTH], info[LEVELS] = draft.used[DEEPEST], draft.used[HIGHEST] + 1
    return arrays._replace(lists=rows.ravel(), info=info)


def _check_options(options: ScoredOptions) -> None:
    if not 2 <= options.branching <= WIDEST:
        raise EarmarkError(f"branching is 2 to {WIDEST}, not {options.branching}.")
    if not 0 <= options.leaf <= options.branching:
        raise EarmarkError(f"leaf is 0 to the branching factor {options.branching}, not {options.leaf}.")
    if options.modes not in MODES:
        raise EarmarkError(f"modes is one of {', '.join(MODES)}, not {options.modes!r}.")
