"""ScoredIndex: what the five structures and the cell table have in common, under the contract of every index.

A structure says how its lists become trees (`_grow`); lists, search, counting, checking and storing are here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np

import earmark.index.ranked.arrays as sc
import earmark.index.ranked.walk as walk
from earmark.errors import EarmarkError, require
from earmark.flat.arrays import F64, I32, I64, read_only
from earmark.index.contract import Floor
from earmark.index.driver import ArrayIndex, read_only_table
from earmark.index.kernels import Asked
from earmark.index.ranked import check
from earmark.index.ranked.arrays import ScoredArrays, ScoredParts, Trees
from earmark.index.ranked.lists import Layout, ScoredLists, clause_sums, joined, lay_out, needed
from earmark.index.ranked.match import match_events
from earmark.index.ranked.threshold import rank_events, rank_events_by
from earmark.index.ranked.walk import ALL_COUNTERS, WalkScratch, make_scratch
from earmark.index.stored import element_types
from earmark.jit import kernel
from earmark.segment.arrays import SegmentArrays
from earmark.segment.combine import Combination, scoring_of

MODES = ("both", "exact", "relaxed")


class ScoredOptions(NamedTuple):
    """How to build an index.

    `branching` is the width of R-tree nodes, 2 to 64; `leaf` the most intervals that an interval tree leaves together;
    `modes` the searches it is for, "exact", "relaxed" or "both"; `intersect` lists every constraint for exact search
    and intersects the lists, as the paper does, where otherwise a clause is listed once and verified.
    """

    branching: int = 32
    leaf: int = 16
    modes: str = "both"
    intersect: bool = False
    shape: int = sc.FOREST
    order: int = sc.ALWAYS
    best: int = 0


class ScoredIndex(ArrayIndex[ScoredArrays]):
    """Scored intervals of each attribute, searched best first. Not built directly: see the five structures."""

    shapes: tuple[int, ...] = (sc.FOREST,)
    """What `info[SHAPE]` of such an index can be."""
    keyed = False
    """Whether nodes have keys that stab their intervals."""

    _kind = ScoredArrays
    _match_kernel = match_events
    _rank_kernel = rank_events
    _counters = ALL_COUNTERS

    def _hold(self, table: SegmentArrays, arrays: ScoredArrays) -> None:
        super()._hold(table, arrays)
        self._counted = np.zeros(ALL_COUNTERS, np.int64)

    # --- building ------------------------------------------------------------------------------------------------

    @classmethod
    def _built(cls, table: SegmentArrays, options: ScoredOptions) -> Self:
        if not 2 <= options.branching <= sc.WIDEST:
            raise EarmarkError(f"expected branching from 2 to {sc.WIDEST}, got {options.branching}")
        if not 0 <= options.leaf <= options.branching:
            raise EarmarkError(f"expected leaf from 0 to the branching factor {options.branching}, got {options.leaf}")
        if options.modes not in MODES:
            raise EarmarkError(f"expected modes to be one of {', '.join(MODES)}, got {options.modes!r}")
        table = read_only_table(table)
        layout = lay_out(table, options.modes, options.intersect)
        return cls(table, cls._arranged(table, layout, options))

    @classmethod
    def _arranged(cls, table: SegmentArrays, layout: Layout, options: ScoredOptions) -> ScoredArrays:
        """The arrays of an index with these lists."""
        lists = joined(layout.exact, layout.relaxed)
        nothing: dict[str, Any] = {name: np.empty(0, kind) for name, kind in element_types(ScoredArrays).items()}
        attributes = int(lists.attr.max(initial=-1)) + 1
        list_of = np.full((attributes, sc.KINDS), sc.EMPTY, np.int32)
        list_of[layout.exact.attr, 0] = np.arange(len(layout.exact.attr))
        list_of[layout.relaxed.attr, 1] = np.arange(len(layout.relaxed.attr)) + len(layout.exact.attr)
        rows = np.zeros((len(lists.attr), sc.LIST), np.int64)
        rows[:, sc.ATTR], rows[:, sc.ROOT], rows[:, sc.SOLE] = lists.attr, sc.EMPTY, lists.sole
        rows[:, sc.ENTRIES] = np.diff(lists.start)
        info = np.zeros(sc.INFO, np.int64)
        info[[sc.SHAPE, sc.ORDER, sc.BRANCHING, sc.LEAF]] = (
            options.shape,
            options.order,
            options.branching,
            options.leaf,
        )
        info[[sc.REGIME, sc.EXACT, sc.LOOSE]] = layout.regime, options.modes != "relaxed", len(layout.loose_exact.slot)
        info[sc.MOST_CONSTRAINTS] = max(1, np.diff(table.constraint_start).max(initial=1))
        info[sc.ONE_CLAUSE] = bool((np.diff(table.clause_start) <= 1).all())
        arrays = ScoredArrays(**nothing)._replace(
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
        return cls._grow(lists, arrays, options)

    @classmethod
    def _grow(cls, lists: ScoredLists, arrays: ScoredArrays, options: ScoredOptions) -> ScoredArrays:
        """Fill in the trees of the lists."""
        raise NotImplementedError

    @classmethod
    def _check_arrays(cls, arrays: ScoredArrays, table: SegmentArrays) -> None:
        check.check_structure(arrays, table)
        require(int(arrays.info[sc.SHAPE]) in cls.shapes, "the arrays belong to another kind of index")

    # --- the contract --------------------------------------------------------------------------------------------

    @property
    def references(self) -> int:
        """The number of references to intervals that the index stores: the paper's measure of space."""
        return int(self._arrays.lists.reshape(-1, sc.LIST)[:, sc.ENTRIES].sum())

    @property
    def visits(self) -> I64:
        """Blocks of R-trees visited by the last call, by height; leaves first."""
        return np.asarray(self._counted[walk.VISITS :])

    def check(self) -> None:
        """Raise AssertionError, naming what is broken, unless the invariant holds. O(size log size)."""
        check.check_structure(self._arrays, self._table)
        check.check_order(self._arrays, self._table, self.keyed)
        check.check_content(self._arrays, self._table)

    def stabbed(self, attribute: int, lo: int, hi: int | None = None) -> Stabbed:
        """Iterate over the scored intervals of an attribute that the keys lo..hi meet, best first.

        This is the paper's getnext(). The score is that by which the list is sorted (`lists.py`): with relaxed lists
        that of the constraint, otherwise that of the clause. What is loose is in no list.
        """
        info = self._arrays.info
        relaxed = info[sc.REGIME] in (sc.BY_WEIGHT, sc.BY_SUM)
        if not relaxed and info[sc.MOST_CONSTRAINTS] > 1 and not len(self._arrays.needed):
            raise EarmarkError(
                "a clause is listed under only one of its attributes: build it with modes='both' or intersect=True"
            )
        chosen = self._arrays.list_of[int(relaxed) :: sc.KINDS]
        which = int(chosen[attribute]) if 0 <= attribute < len(chosen) else sc.EMPTY
        return Stabbed(self._arrays, self._table, which, lo, lo if hi is None else hi)

    # --- inside --------------------------------------------------------------------------------------------------

    def _read_by_kernels(self) -> ScoredParts:
        return self._arrays.parts()

    def _new_scratch(self) -> WalkScratch:
        return make_scratch(self._arrays, len(self._table.sequence))

    def _combined_kernel(self, asked: Asked, combination: Combination) -> Any:
        regime = self._arrays.info[sc.REGIME]
        if regime == sc.SHARED or (asked.relaxed and regime == sc.ABSENT_LISTS):
            return type(self)._rank_kernel  # which is right for clauses of one term each, or says that it cannot
        return rank_events_by(scoring_of(combination)) if asked.relaxed else None

    def _rank_group(self, asked: Asked, floor: Floor | None, kernel: Any) -> tuple[I64, I32, F64, I64]:
        if asked.relaxed and self._arrays.info[sc.REGIME] == sc.ABSENT_LISTS:
            raise EarmarkError("this index was built for exact search only: build it with modes='both'")
        return super()._rank_group(asked, floor, kernel)


class Stabbed:
    """A resumable search of one list. Each entry comes once, by score descending, then sequence ascending."""

    def __init__(self, arrays: ScoredArrays, table: SegmentArrays, which: int, lo: int, hi: int) -> None:
        self._trees, self._sequence = arrays.trees(), table.sequence
        self.counters = np.zeros(ALL_COUNTERS, np.int64)
        self._scratch = make_scratch(arrays, 0, lo != hi)
        self._begun, self._is_empty = False, which == sc.EMPTY
        walk.set_source(arrays.info, self._scratch.source, 0, which, lo, hi, 0, 0)

    def getnext(self) -> tuple[int, float] | None:
        """Return the next best (slot, score), None after the last. O(log n) blocks where runs have no holes."""
        if self._is_empty:
            return None
        begin, self._begun = not self._begun, True
        more, slot, score = _getnext(self._trees, self._scratch, self._sequence, begin, self.counters)
        return (slot, score) if more else None

    def __iter__(self) -> Iterator[tuple[int, float]]:
        yield from iter(self.getnext, None)


@kernel
def _getnext(trees: Trees, scratch: WalkScratch, sequence: I64, begin: bool, work: I64) -> tuple[bool, int, float]:
    if begin or scratch.source[walk.COUNT] > 0:
        walk.pull(trees, scratch, sequence, 0, begin, work)
    return scratch.source[walk.COUNT] > 0, scratch.heap_slot[0], scratch.heap_score[0]


def _bounds(lists: ScoredLists) -> F64:
    """Per list, the least score, the least distance of two, and the greatest weight."""
    bounds = np.zeros((len(lists.attr), sc.BOUND))
    for number in range(len(lists.attr)):
        score = lists.entries(number).score
        gaps = score[:-1] - score[1:]
        bounds[number] = score[-1], gaps[gaps > 0].min(initial=np.inf), lists.heaviest[number]
    return bounds


def whole_table(table: SegmentArrays) -> F64:
    """Of the whole table: greatest and least static score, and the greatest sum of weights of a clause."""
    static = table.score if len(table.score) else np.zeros(len(table.sequence))
    weights = clause_sums(table._replace(score=read_only(np.empty(0)))).max(initial=0.0)
    return np.array([static.max(), static.min(), weights] if len(static) else [0.0, 0.0, weights])
