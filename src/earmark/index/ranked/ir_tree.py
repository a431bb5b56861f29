"""Which intervals does a value stab, best first, while intervals come and go: the interval R-tree.

ranked-pubsub, 3.1. An interval tree (2.1.1) whose runs are scored R-trees. All intervals of a node are stabbed by its
key, so any two of them meet, and an extent has *no holes*: where it contains the value, some interval below does. A
search goes down only where it will find something: O(branching log n) per getnext, and O(n) space.

The paper's ten intervals (number = rank), branching 2:

    key 55   ([30,55]: 1)  ([0,100]: 10)      1 3 | 10        value 80:   SUBTREE 55 -> run of 55: extent [0,100]: 10
      left   key 30   5 6 | 9                                             SUBTREE 90 -> run of 90: 2 4 | 7 8
      right  key 90   2 4 | 7 8                                           heap gives 2 4 7 8 10

Arrays: `arrays.py`. `insert` and `remove` change a copy that has room to grow (`update.py`);
`copy` shares everything until one of the two is changed.

Invariant: that of the interval tree; extents are bounding intervals of intervals with a common point, hence without
holes; runs are in score order; best scores are maxima.
Complexity: O(n log n) build; (1 + 2 / (branching - 1)) times the space of the interval tree; the k best in
O((k + log n) branching log n); an insertion, removal or change of score O(branching log n) amortised, after O(n)
copying once per batch.

We differ: a score may change (the paper leaves that open): the entry is removed and inserted where its score belongs.
Small sets are not split. A path that grows too long is rebalanced.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

import earmark.index.ranked.arrays as sc
from earmark.flat.arrays import F64, I32, I64, Flags, read_only
from earmark.index.driver import read_only_table
from earmark.index.ranked import check, forest, lists, update
from earmark.index.ranked.arrays import ScoredArrays
from earmark.index.ranked.base import ScoredIndex, ScoredOptions, whole_table
from earmark.index.ranked.forest import ForestDraft, TreePlan, planted
from earmark.index.ranked.lists import EntryColumns, Layout, ScoredLists
from earmark.segment.arrays import SegmentArrays, gather

SPARE = 1 / 8
"""Room for growth in a copy that is about to change, as a share of its size."""
LEFT_BEHIND = 4
"""An index is rebuilt when it takes up this many times its entries. Half-full blocks make 2."""
NO_SLOTS: I64 = np.empty(0, np.int64)


class IRTree(ScoredIndex):
    """An interval tree for each attribute, an R-tree over the run of each of its nodes. Updatable."""

    is_updatable = True
    keyed = True

    def __init__(self, table: SegmentArrays, arrays: ScoredArrays) -> None:
        super().__init__(table, arrays)
        self._draft: ForestDraft | None = None

    @classmethod
    def build(
        cls, table: SegmentArrays, branching: int = 16, leaf: int = 16, modes: str = "both", intersect: bool = False
    ) -> Self:
        """Build an index of all slots of a table; for the options see `ScoredOptions`. O(n log n)."""
        return cls._built(table, ScoredOptions(branching, leaf, modes, intersect))

    @classmethod
    def _grow(cls, lists: ScoredLists, arrays: ScoredArrays, options: ScoredOptions) -> ScoredArrays:
        return planted(lists, arrays, TreePlan(True, True, options.branching, options.leaf))

    # --- changing ------------------------------------------------------------------------------------------------

    def copy(self) -> Self:
        """Return an index of the same content that can change separately. O(1): the first change copies."""
        self._draft = None  # neither may change what both share
        return type(self)(self._table, self._arrays)

    def insert(self, table: SegmentArrays, slots: I32) -> None:
        """Insert new slots of a table that has grown. O(branching log n) each, amortised."""
        self._table = read_only_table(table)
        chosen = slots.astype(np.int64)
        if self._outgrown(chosen):
            self._rebuild(self._present(chosen))
            return
        block = read_only_table(gather(self._table, chosen))
        layout = self._layout(chosen, block)
        arrays = self._made_ready(layout, block)
        count = len(arrays.lists) // sc.LIST
        which, added = _by_list(layout, arrays.list_of)
        self._insert(which, added, count)
        self._publish(arrays, np.bincount(which, minlength=count))

    def remove(self, slots: I32) -> None:
        """Remove slots; those that are not in the index are ignored. O(branching log n) each, amortised."""
        arrays, chosen = self._arrays, slots[slots < len(self._table.sequence)].astype(np.int64)
        if not len(chosen):
            return
        count = len(arrays.lists) // sc.LIST
        layout = self._layout(chosen, read_only_table(gather(self._table, chosen)))
        leaving = _by_list(layout, arrays.list_of)
        gone = update.remove_entries(self._growing(count), self._table.sequence, *leaving)
        kept, info = ~np.isin(arrays.loose, chosen), arrays.info.copy()
        info[sc.LOOSE] = kept[: info[sc.LOOSE]].sum()
        arrays = arrays._replace(info=info, loose=arrays.loose[kept], loose_score=arrays.loose_score[kept])
        self._publish(arrays, -gone[:count])

    def check(self) -> None:
        """Raise AssertionError unless the invariant holds for the slots in the index, and no extent has a hole."""
        check.check_structure(self._arrays, self._table)
        check.check_order(self._arrays, self._table, self.keyed)
        check.check_content(self._arrays, self._table, self._present(NO_SLOTS))
        check.check_holes(self._arrays)

    # --- inside --------------------------------------------------------------------------------------------------

    def _present(self, others: I64) -> Flags:
        """The slots that are in the index, and some others."""
        present = np.zeros(len(self._table.sequence), bool)
        present[others] = True
        present[self._arrays.loose] = True
        for which in range(len(self._arrays.lists) // sc.LIST):
            present[self._arrays.ref[check.list_entries(self._arrays, which)]] = True
        return present

    def _outgrown(self, slots: I64) -> bool:
        """Whether new slots do not fit the order of the relaxed lists, so that these must be rebuilt."""
        table, info = self._table, self._arrays.info
        if info[sc.REGIME] == sc.BY_WEIGHT:
            static = table.score[slots] if len(table.score) else np.zeros(len(slots))
            bounds = self._arrays.bounds[-sc.BOUND :]
            same = bounds[sc.STATIC_MOST] == bounds[sc.STATIC_LEAST] and bool((static == bounds[sc.STATIC_MOST]).all())
            return not same or not len(self._arrays.lists)
        if info[sc.REGIME] == sc.SHARED:
            return bool((np.diff(gather(table, slots).constraint_start) > 1).any())
        return False

    def _rebuild(self, only: Flags) -> None:
        info, intersect = self._arrays.info, bool(len(self._arrays.needed))
        options = ScoredOptions(int(info[sc.BRANCHING]), int(info[sc.LEAF]), lists.modes_of(info), intersect)
        layout = lists.lay_out(self._table, options.modes, options.intersect, only=only)
        self._draft = None
        self._hold(self._table, self._arranged(self._table, layout, options))

    def _layout(self, slots: I64, block: SegmentArrays) -> Layout:
        """The lists of some slots, the rows of a block, as this index orders them, with the table's slot numbers."""
        layout, numbers = lists.lay_out_again(self._arrays, block), slots.astype(np.int32)
        numbered: list[Any] = [part._replace(slot=numbers[part.slot]) for part in layout[:4]]
        return Layout._make([*numbered, layout.regime, layout.grids])

    def _made_ready(self, layout: Layout, block: SegmentArrays) -> ScoredArrays:
        """The arrays with all that holds also for the new slots of a block, except for the trees."""
        arrays, info = self._arrays, self._arrays.info.copy()
        rows, bounds = arrays.lists.reshape(-1, sc.LIST), arrays.bounds.reshape(-1, sc.BOUND)
        attributes = max(len(arrays.list_of) // sc.KINDS, *(int(a.attr.max(initial=-1)) + 1 for a in layout[:2]))
        list_of = np.full((attributes, sc.KINDS), sc.EMPTY, np.int32)
        list_of.ravel()[: len(arrays.list_of)] = arrays.list_of
        fresh: list[int] = []
        for kind, some in enumerate(layout[:2]):
            without = some.attr[list_of[some.attr, kind] == sc.EMPTY]
            list_of[without, kind] = np.arange(len(without)) + len(rows) + len(fresh)
            fresh += without.tolist()
        new_rows = np.zeros((len(fresh), sc.LIST), np.int64)
        new_rows[:, sc.ATTR], new_rows[:, sc.ROOT], new_rows[:, sc.SOLE] = fresh, sc.EMPTY, 1
        new_bounds = np.tile([np.inf, np.inf, 0.0], (len(fresh), 1))
        rows, bounds = np.vstack([rows, new_rows]), np.vstack([bounds[:-1], new_bounds, bounds[-1:]])
        for kind, some in enumerate(layout[:2]):
            rows[list_of[some.attr, kind], sc.SOLE] &= some.sole
            for number, which in enumerate(list_of[some.attr, kind].tolist()):
                _widen(bounds[which], some.entries(number).score, some.heaviest[number])
        whole = whole_table(block)
        least = min(bounds[-1, sc.STATIC_LEAST], whole[sc.STATIC_LEAST])
        bounds[-1] = np.maximum(bounds[-1], whole)
        bounds[-1, sc.STATIC_LEAST] = least
        info[sc.MOST_CONSTRAINTS] = max(info[sc.MOST_CONSTRAINTS], np.diff(block.constraint_start).max(initial=1))
        info[sc.ONE_CLAUSE] &= bool((np.diff(block.clause_start) <= 1).all())
        loose = []
        for part, more in zip((slice(0, info[sc.LOOSE]), slice(info[sc.LOOSE], None)), layout[2:4], strict=True):
            slot = np.concatenate([arrays.loose[part], more.slot])
            loose.append(
                lists.in_score_order(self._table, slot, np.concatenate([arrays.loose_score[part], more.score]))
            )
        info[sc.LOOSE] = len(loose[0].slot)
        return arrays._replace(
            info=info,
            lists=rows.ravel(),
            list_of=list_of.ravel(),
            bounds=bounds.ravel(),
            loose=np.concatenate([part.slot for part in loose]),
            loose_score=np.concatenate([part.score for part in loose]),
        )

    def _growing(self, count: int) -> ForestDraft:
        """The arrays with room to grow, and with room for `count` lists; the first change makes this copy."""
        if self._draft is None:
            arrays, info = self._arrays, self._arrays.info
            sizes = len(arrays.node_key), len(arrays.block_start), len(arrays.score)
            used = np.array([*sizes, info[sc.DEPTH], info[sc.LEVELS] - 1], np.int64)
            columns = {name: getattr(arrays, name) for name in ForestDraft._fields if hasattr(arrays, name)}
            self._draft = _roomier(ForestDraft(used=used, list_root=NO_SLOTS, list_nodes=NO_SLOTS, **columns))
        rows = self._arrays.lists.reshape(-1, sc.LIST)
        roots, nodes = np.full(count + 1, sc.EMPTY, np.int64), np.zeros(count + 1, np.int64)
        roots[: len(rows)], nodes[: len(rows)] = rows[:, sc.ROOT], rows[:, sc.NODES]
        self._draft = self._draft._replace(list_root=roots, list_nodes=nodes)
        return self._draft

    def _insert(self, which: I32, added: EntryColumns, count: int) -> None:
        """Insert entries into their lists, making room and rebalancing where needed."""
        draft, info, done = self._growing(count), self._arrays.info, 0
        leaf, branching = int(info[sc.LEAF]), int(info[sc.BRANCHING])
        while done < len(which):
            done, why, path = update.insert_entries(draft, self._table.sequence, which, added, done, leaf, branching)
            if why == update.NO_ROOM:
                draft = _roomier(draft)
            elif why == update.TOO_DEEP:
                draft = self._rebalanced(draft, int(which[done - 1]), path)
        self._draft = draft

    def _rebalanced(self, draft: ForestDraft, which: int, path: I64) -> ForestDraft:
        """Rebuild the tree below the lowest node of a path that is out of balance."""
        place = int(update.heavy_ancestor(draft, path))
        node = int(path[place])
        entries, seen = forest.entries_below(draft, node)
        while not _fits(draft, len(entries)):
            draft = _roomier(draft)
        sequence = self._table.sequence[draft.ref[entries]]
        order = entries[lists.in_order(np.zeros(len(entries), np.int32), draft.score[entries], sequence)]
        part = EntryColumns(draft.lo[order], draft.hi[order], draft.score[order], draft.ref[order])
        info, last = self._arrays.info, len(draft.list_root) - 1
        forest.plant(part, last, TreePlan(True, True, int(info[sc.BRANCHING]), int(info[sc.LEAF])), draft)
        root = int(draft.list_root[last])
        draft.list_nodes[which] += draft.list_nodes[last] - seen
        if place == 1:
            draft.list_root[which] = root
        else:
            row = int(path[place - 1]) * sc.NODE
            draft.node[row + int(draft.node[row] != node)] = root
        draft.list_root[last], draft.list_nodes[last] = sc.EMPTY, 0
        return draft

    def _publish(self, arrays: ScoredArrays, more: I64) -> None:
        """Hold these arrays with the trees of the draft; `more` is by how many entries each list has grown.

        Build again when most of the entries are unused room, left behind by what was moved or removed.
        """
        assert self._draft is not None
        arrays = forest.with_trees(arrays, self._draft)
        arrays.lists[sc.ENTRIES :: sc.LIST] += more
        self._hold(self._table, arrays._replace(needed=lists.needed(self._table, bool(len(arrays.needed)))))
        if len(arrays.score) > LEFT_BEHIND * self.references + sc.WIDEST * (len(more) + sc.WIDEST):
            self._rebuild(self._present(NO_SLOTS))


def _by_list(layout: Layout, list_of: I32) -> tuple[I32, EntryColumns]:
    """The list of each entry of a layout, and the entries; those of attributes without a list are left out."""
    both = lists.joined(layout.exact, layout.relaxed)
    kind = np.repeat([0, 1], [len(layout.exact.attr), len(layout.relaxed.attr)])
    place = both.attr.astype(np.int64) * sc.KINDS + kind
    numbers = np.append(list_of, np.int32(sc.EMPTY))[np.minimum(place, len(list_of))]
    which = np.repeat(numbers, np.diff(both.start))
    chosen = np.flatnonzero(which != sc.EMPTY)
    columns = (column[chosen] for column in (both.lo, both.hi, both.score, both.slot))
    return read_only(which[chosen]), EntryColumns._make(map(read_only, columns))


def _widen(bound: F64, score: F64, heaviest: float) -> None:
    """Let the bounds of a list hold for new entries; the least distance is lost unless all scores are equal."""
    constant = bool((score == (score[0] if bound[sc.LEAST] == np.inf else bound[sc.LEAST])).all())
    bound[sc.STEP] = np.inf if constant and bound[sc.STEP] == np.inf else 0.0
    bound[sc.LEAST], bound[sc.HEAVIEST] = min(bound[sc.LEAST], score.min()), max(bound[sc.HEAVIEST], heaviest)


def _fits(draft: ForestDraft, entries: int) -> bool:
    """Whether there is room for a tree of `entries` entries."""
    more = {"node_key": entries + 2, "block_start": 4 * entries + 4, "score": 5 * entries + sc.PADDING}
    used = forest.used_lengths(draft)
    return all(used[name] + extra < len(getattr(draft, name)) for name, extra in more.items())


def _roomier(draft: ForestDraft) -> ForestDraft:
    """Copy the arrays, with more room behind what is used."""
    least = {"node_key": 256, "node": 256 * sc.NODE, "node_score": 256 * sc.NODE_SCORE}
    grown = {}
    for name, size in forest.used_lengths(draft).items():
        old = getattr(draft, name)
        room = max(size + int(size * SPARE), int(len(old) * (1 + SPARE))) + least.get(name, 32 * sc.WIDEST)
        grown[name] = np.zeros(room, old.dtype)
        grown[name][:size] = old[:size]
    return draft._replace(**grown)
