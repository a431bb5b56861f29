"""ScoredIndex: what the five structures and the cell table have in common, under the contract of every index.

A structure says how its lists become trees (`_grow`); lists, search, counting, checking and storing are here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from earmark.errors import EarmarkError
from earmark.events.arrays import EventArrays
from earmark.flat.bits import read_only
from earmark.flat.types import F64, I32, I64, U64
from earmark.index.answers import chained, check_room, pointers_of, ranked, together
from earmark.index.contract import Work
from earmark.index.flat import element_types
from earmark.index.given import check_event, checked_k, read_only_events, read_only_table
from earmark.index.held import Held
from earmark.index.ranking import Heaps
from earmark.index.scored import check
from earmark.index.scored.arrays import (
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
    frozen_arrays,
)
from earmark.index.scored.collect import match_events
from earmark.index.scored.forest import DEEPEST, HIGHEST, Draft, Plan, finished, grow
from earmark.index.scored.getnext import Stabbed
from earmark.index.scored.lists import Layout, Lists, clause_sums, joined, lay_out, needed
from earmark.index.scored.walk import ALL_COUNTERS, VISITS, Scratch, make_scratch
from earmark.index.threshold import rank_events
from earmark.segment.arrays import SegmentArrays

HEAP_ENTRIES = 1 << 20
"""Events of a batch are ranked in groups, so that their answers do not take more room than this."""
BUFFER = 1 << 14
MODES = ("both", "exact", "relaxed")


class Options(NamedTuple):
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


class ScoredIndex(Held[ScoredArrays]):
    """Scored intervals of each attribute, searched best first. Not built directly: see the five structures."""

    shapes: tuple[int, ...] = (FOREST,)
    """What `info[SHAPE]` of such an index can be."""
    keyed = False
    """Whether nodes have keys that stab their intervals."""

    def __init__(self, table: SegmentArrays, arrays: ScoredArrays) -> None:
        self._table = table
        self._set(arrays)
        self._visits = np.zeros(ALL_COUNTERS, np.int64)
        self._spare: dict[bool, list[Scratch]] = {False: [], True: []}

    def _set(self, arrays: ScoredArrays) -> None:
        self._hold(self._table, frozen_arrays(arrays))
        self._trees, self._listing = self._arrays.trees(), self._arrays.listing()

    # --- building ------------------------------------------------------------------------------------------------

    @classmethod
    def _built(cls, table: SegmentArrays, options: Options) -> Self:
        _check_options(options)
        table = read_only_table(table)
        layout = lay_out(table, options.modes, options.intersect)
        return cls(table, cls._arranged(table, layout, options))

    @classmethod
    def _arranged(cls, table: SegmentArrays, layout: Layout, options: Options) -> ScoredArrays:
        """The arrays of an index with these lists."""
        lists = joined(layout.exact, layout.relaxed)
        arrays = _frame(table, layout, lists, options)
        return cls._grow(lists, arrays, options)

    @classmethod
    def _grow(cls, lists: Lists, arrays: ScoredArrays, options: Options) -> ScoredArrays:
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
        return self._visits

    def check(self) -> None:
        """Raise AssertionError, naming what is broken, unless the invariant holds. O(size log size)."""
        check.check_structure(self._arrays, self._table)
        check.check_order(self._arrays, self._table, self.keyed)
        check.check_content(self._arrays, self._table)

    def match(self, events: EventArrays, eligible: U64, e: int = 0) -> I32:
        """Eligible slots that match event e, ascending."""
        events = read_only_events(events)
        check_event(events, e)
        return self._match(events, eligible, e, e + 1)[1]

    def match_many(self, events: EventArrays, eligible: U64) -> tuple[I64, I32]:
        """Per event the eligible slots that match, ascending: (event_ptr, slots)."""
        return self._match(read_only_events(events), eligible, 0, len(events.start) - 1)

    def top_k(self, events: EventArrays, k: int, eligible: U64, relaxed: bool = False, e: int = 0) -> tuple[I32, F64]:
        """The k best for event e, best first: (slots, scores)."""
        events = read_only_events(events)
        check_event(events, e)
        _, slots, scores = self._rank(events, k, eligible, relaxed, e, e + 1)
        return slots, scores

    def top_k_many(self, events: EventArrays, k: int, eligible: U64, relaxed: bool = False) -> tuple[I64, I32, F64]:
        """Per event the k best, best first: (event_ptr, slots, scores)."""
        return self._rank(read_only_events(events), k, eligible, relaxed, 0, len(events.start) - 1)

    def stabbed(self, attribute: int, lo: int, hi: int | None = None, relaxed: bool = False) -> Stabbed:
        """The one-dimensional iterator: entries of an attribute's list that the keys lo..hi meet, best first."""
        kind = int(relaxed and self._arrays.info[REGIME] != SHARED)
        chosen = self._arrays.list_of[kind::KINDS]
        which = int(chosen[attribute]) if 0 <= attribute < len(chosen) else EMPTY
        return Stabbed(self._arrays, self._table, which, lo, lo if hi is None else hi)

    # --- inside --------------------------------------------------------------------------------------------------

    def _match(self, events: EventArrays, eligible: U64, first: int, last: int) -> tuple[I64, I32]:
        counts, counters = np.zeros(last, np.int64), np.zeros(ALL_COUNTERS, np.int64)
        out, parts, e, total = np.empty(BUFFER, np.int32), [], first, 0
        with self._scratch(events) as scratch:
            while e < last:
                reached, found = match_events(
                    self._trees, self._listing, self._table, events, read_only(eligible), e, last, scratch, counts,
                    out, counters,
                )  # fmt: skip
                parts.append(out[:found].copy())
                total += found
                check_room(total)
                if reached == e:
                    out = np.empty(2 * len(out), np.int32)
                e = reached
        self._note(counters)
        counts = counts[first:]
        return pointers_of(counts), _ascending(counts, chained(parts, np.int32))

    def _rank(
        self, events: EventArrays, k: int, eligible: U64, relaxed: bool, first: int, last: int
    ) -> tuple[I64, I32, F64]:
        if relaxed and self._arrays.info[REGIME] == check.ABSENT_LISTS:
            raise EarmarkError("this index was built for exact search only; build it with modes='both'.")
        k = checked_k(k, self._table)
        group = max(1, min(last - first, HEAP_ENTRIES // k))
        counters = np.zeros(ALL_COUNTERS, np.int64)
        parts = []
        sequence = np.empty(group * k, np.int64)
        with self._scratch(events) as scratch:
            for begin in range(first, last, group):
                end = min(begin + group, last)
                n = end - begin
                heaps = Heaps(np.zeros(n, np.int64), np.empty(n * k), sequence, np.empty(n * k, np.int32))
                rank_events(
                    self._trees, self._listing, self._table, events, read_only(eligible), k, relaxed, begin, end,
                    scratch, heaps, counters,
                )  # fmt: skip
                parts.append(ranked(heaps, k))
        self._note(counters)
        return together(parts)

    def _scratch(self, events: EventArrays) -> _Borrowed:
        """Working memory from the pool: searches in several threads have one each."""
        wide = bool((events.lo != events.hi).any())
        return _Borrowed(self, wide)

    def _note(self, counters: I64) -> None:
        self._visits = counters[VISITS:].copy()
        self._work = Work.counted(counters)


class _Borrowed:
    """A scratch taken out of an index's pool for one call."""

    def __init__(self, index: ScoredIndex, wide: bool) -> None:
        self._pool = index._spare[wide]
        try:
            self._scratch = self._pool.pop()
        except IndexError:
            self._scratch = make_scratch(index._arrays, len(index._table.sequence), wide)

    def __enter__(self) -> Scratch:
        if self._scratch.stamp[-1] > 1 << 29:  # long before 32 bits could overflow
            self._scratch.stamp[:] = 0
        return self._scratch

    def __exit__(self, *_: object) -> None:
        self._pool.append(self._scratch)


def _frame(table: SegmentArrays, layout: Layout, lists: Lists, options: Options) -> ScoredArrays:
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


def _bounds(lists: Lists) -> F64:
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


def planted(lists: Lists, arrays: ScoredArrays, plan: Plan) -> ScoredArrays:
    """The arrays with trees as planned."""
    draft = grow(lists, plan)
    return with_counts(draft, finished(draft, arrays))


def with_counts(draft: Draft, arrays: ScoredArrays) -> ScoredArrays:
    """Roots, sizes and depth of the trees, written where searches look for them."""
    rows = arrays.lists.reshape(-1, LIST).copy()
    rows[:, ROOT], rows[:, NODES] = draft.list_root, draft.list_nodes
    info = arrays.info.copy()
    info[DEPTH], info[LEVELS] = draft.used[DEEPEST], draft.used[HIGHEST] + 1
    return arrays._replace(lists=rows.ravel(), info=info)


def _ascending(counts: I64, slots: I32) -> I32:
    """The answers of each event in ascending order; `counts` is how many each has."""
    if len(counts) == 1:
        return np.sort(slots)
    coded = np.repeat(np.arange(len(counts), dtype=np.int64) << 32, counts) | slots
    coded.sort()
    return coded.astype(np.int32)


def _check_options(options: Options) -> None:
    if not 2 <= options.branching <= WIDEST:
        raise EarmarkError(f"branching is 2 to {WIDEST}, not {options.branching}.")
    if not 0 <= options.leaf <= options.branching:
        raise EarmarkError(f"leaf is 0 to the branching factor {options.branching}, not {options.leaf}.")
    if options.modes not in MODES:
        raise EarmarkError(f"modes is one of {', '.join(MODES)}, not {options.modes!r}.")
