"""Which intervals does a value stab, best first, while intervals come and go: the interval R-tree.

ranked-pubsub, 3.1. An interval tree (2.1.1) whose runs are scored R-trees. All intervals of a node are stabbed by its
key, so any two of them meet, and an extent has *no holes*: where it contains the value, some interval below does. A
search goes down only where it will find something: O(branching log n) per getnext, and O(n) space.

The paper's ten intervals (number = rank), branching 2:

    key 55   ([30,55]: 1)  ([0,100]: 10)      1 3 | 10        value 80:   SUBTREE 55 -> run of 55: extent [0,100]: 10
      left   key 30   5 6 | 9                                             SUBTREE 90 -> run of 90: 2 4 | 7 8
      right  key 90   2 4 | 7 8                                           heap gives 2 4 7 8 10

Arrays: `arrays.py`. `insert`, `remove` and `rescore` change a copy that has room to grow (`update.py`);
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
import earmark.index.ranked.forest as forest
import earmark.index.ranked.update as update
from earmark.flat.arrays import I32, I64, Flags, read_only
from earmark.index.driver import read_only_table
from earmark.index.ranked import check
from earmark.index.ranked.arrays import ScoredArrays
from earmark.index.ranked.base import ScoredIndex, ScoredOptions, planted, whole_table
from earmark.index.ranked.forest import ForestDraft, TreePlan
from earmark.index.ranked.lists import EntryColumns, Grids, Layout, ScoredLists, in_order, joined, lay_out, needed
from earmark.index.ranked.update import Added, UpdateScratch
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
        layout = self._layout(chosen)
        rows, list_of, bounds = self._with_new_lists(layout)
        self._insert(self._added(layout, list_of), rows)
        self._publish(rows, list_of, _widened(bounds, layout, list_of), self._merged_loose(layout), chosen)
        self._tidy_up()

    def remove(self, slots: I32) -> None:
        """Remove slots; those that are not in the index are ignored. O(branching log n) each, amortised."""
        chosen = slots[slots < len(self._table.sequence)].astype(np.int64)
        if not len(chosen):
            return
        layout = self._layout(chosen)
        rows, list_of = self._arrays.lists.reshape(-1, sc.LIST).copy(), self._arrays.list_of
        leaving, gone = self._added(layout, list_of), np.zeros(len(rows), np.int64)
        update.remove_entries(self._growing(len(rows)), self._table.sequence, leaving, _update_scratch(), gone)
        rows[:, sc.ENTRIES] -= gone
        kept = ~np.isin(self._arrays.loose, chosen)
        split = int(self._arrays.info[sc.LOOSE])
        loose = (self._arrays.loose[kept], self._arrays.loose_score[kept], int(kept[:split].sum()))
        self._publish(rows, list_of, self._arrays.bounds.reshape(-1, sc.BOUND), loose, NO_SLOTS)
        self._tidy_up()

    def rescore(self, table: SegmentArrays, slots: I32) -> None:
        """Follow a table that differs from the present one only in the scores or weights of these slots."""
        self.remove(slots)
        self.insert(table, slots)

    def check(self) -> None:
        """Raise AssertionError unless the invariant holds for the slots in the index, and no extent has a hole."""
        check.check_structure(self._arrays, self._table)
        check.check_order(self._arrays, self._table, self.keyed)
        check.check_content(self._arrays, self._table, self._present(NO_SLOTS))
        check.check_holes(self._arrays)

    # --- inside --------------------------------------------------------------------------------------------------

    @property
    def _modes(self) -> str:
        info = self._arrays.info
        return "relaxed" if not info[sc.EXACT] else "exact" if info[sc.REGIME] == sc.ABSENT_LISTS else "both"

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
        info = self._arrays.info
        options = ScoredOptions(
            int(info[sc.BRANCHING]), int(info[sc.LEAF]), self._modes, bool(len(self._arrays.needed))
        )
        layout = lay_out(self._table, options.modes, options.intersect, only=only)
        self._draft = None
        self._hold(self._table, self._arranged(self._table, layout, options))

    def _tidy_up(self) -> None:
        """Rebuild when most of the entries are unused room, left behind by what was moved or removed."""
        taken, lists = len(self._arrays.score), len(self._arrays.lists) // sc.LIST
        if taken > LEFT_BEHIND * self.references + sc.WIDEST * (lists + sc.WIDEST):
            self._rebuild(self._present(NO_SLOTS))

    def _layout(self, slots: I64) -> Layout:
        """The lists of some slots alone, as this index orders them, with the table's slot numbers."""
        arrays = self._arrays
        grids = Grids(arrays.grid_start, arrays.grid, arrays.grid_used)
        block = read_only_table(gather(self._table, slots))
        layout = lay_out(block, self._modes, bool(len(arrays.needed)), grids, None, int(arrays.info[sc.REGIME]))
        numbers = slots.astype(np.int32)
        numbered: list[Any] = [part._replace(slot=numbers[part.slot]) for part in layout[:4]]
        return Layout._make([*numbered, layout.regime, layout.grids])

    def _with_new_lists(self, layout: Layout) -> tuple[I64, I32, Any]:
        """Rows, list numbers by attribute and bounds, with empty lists for attributes that had none."""
        arrays = self._arrays
        rows, bounds = arrays.lists.reshape(-1, sc.LIST), arrays.bounds.reshape(-1, sc.BOUND)
        attributes = 1 + max(len(arrays.list_of) // sc.KINDS - 1, *(int(a.attr.max(initial=-1)) for a in layout[:2]))
        list_of = np.full((attributes, sc.KINDS), sc.EMPTY, np.int32)
        list_of.ravel()[: len(arrays.list_of)] = arrays.list_of
        added: list[I64] = []
        for kind, lists in enumerate(layout[:2]):
            for attr in lists.attr[list_of[lists.attr, kind] == sc.EMPTY].tolist():
                list_of[attr, kind] = len(rows) + len(added)
                row = np.zeros(sc.LIST, np.int64)
                row[sc.ATTR], row[sc.ROOT], row[sc.SOLE] = attr, sc.EMPTY, 1
                added.append(row)
        fresh = np.tile([np.inf, np.inf, 0.0], (len(added), 1))
        bounds = np.vstack([bounds[:-1], fresh.reshape(-1, sc.BOUND), bounds[-1:]])
        return np.vstack([rows, *added]) if added else rows.copy(), list_of.ravel(), bounds

    def _added(self, layout: Layout, list_of: I32) -> Added:
        """All entries of a layout, and the list of each; those of attributes without a list are left out."""
        lists = joined(layout.exact, layout.relaxed)
        kind = np.repeat([0, 1], [len(layout.exact.attr), len(layout.relaxed.attr)])
        place = lists.attr.astype(np.int64) * sc.KINDS + kind
        numbers = np.full(len(place), sc.EMPTY, np.int32)
        known = place < len(list_of)
        numbers[known] = list_of[place[known]]
        which = np.repeat(numbers, np.diff(lists.start))
        chosen = np.flatnonzero(which != sc.EMPTY)
        columns = (column[chosen] for column in (which, lists.lo, lists.hi, lists.score, lists.slot))
        return Added._make(map(read_only, columns))

    def _growing(self, lists: int) -> ForestDraft:
        """The arrays with room to grow, and with room for `lists` lists; the first change makes this copy."""
        if self._draft is None:
            arrays, used = self._arrays, np.zeros(forest.USED, np.int64)
            used[forest.NODES_USED], used[forest.BLOCKS_USED] = len(arrays.node_key), len(arrays.block_start)
            used[forest.ENTRIES_USED] = len(arrays.score)
            used[forest.DEEPEST], used[forest.HIGHEST] = arrays.info[sc.DEPTH], arrays.info[sc.LEVELS] - 1
            columns = {name: getattr(arrays, name) for name in ForestDraft._fields if hasattr(arrays, name)}
            self._draft = _roomier(ForestDraft(used=used, list_root=NO_SLOTS, list_nodes=NO_SLOTS, **columns))
        rows = self._arrays.lists.reshape(-1, sc.LIST)
        roots, nodes = np.full(lists + 1, sc.EMPTY, np.int64), np.zeros(lists + 1, np.int64)
        roots[: len(rows)], nodes[: len(rows)] = rows[:, sc.ROOT], rows[:, sc.NODES]
        self._draft = self._draft._replace(list_root=roots, list_nodes=nodes)
        return self._draft

    def _insert(self, added: Added, rows: I64) -> None:
        """Insert entries, making room and rebalancing where needed."""
        draft, scratch, info, which = self._growing(len(rows)), _update_scratch(), self._arrays.info, added.which
        done, leaf, branching = 0, int(info[sc.LEAF]), int(info[sc.BRANCHING])
        while done < len(which):
            done, why = update.insert_entries(draft, self._table.sequence, added, done, leaf, branching, scratch)
            if why == update.NO_ROOM:
                draft = _roomier(draft)
            elif why == update.TOO_DEEP:
                draft = self._rebalanced(draft, int(which[done - 1]), scratch.path)
        self._draft = draft
        np.add.at(rows[:, sc.ENTRIES], which, 1)

    def _rebalanced(self, draft: ForestDraft, which: int, path: I64) -> ForestDraft:
        """Rebuild the tree below the lowest node of a path that is out of balance."""
        place = int(update.heavy_ancestor(draft, path, np.empty(len(draft.node_key), np.int64)))
        node = int(path[place])
        nodes, blocks = np.empty(len(draft.node_key), np.int64), np.empty(len(draft.block_start) + 1, np.int64)
        out = np.empty(len(draft.score), np.int64)
        count, seen = update.entries_below(draft, node, nodes, blocks, out)
        entries = out[:count]
        while not _fits(draft, count):
            draft = _roomier(draft)
        sequence = self._table.sequence[draft.ref[entries]]
        order = entries[in_order(np.zeros(count, np.int32), draft.score[entries], sequence)]
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

    def _merged_loose(self, layout: Layout) -> tuple[I32, Any, int]:
        """The loose slots with new ones in their places: slots, scores, and the number for exact search."""
        arrays, split = self._arrays, int(self._arrays.info[sc.LOOSE])
        slots, scores = [], []
        for part, more in ((slice(0, split), layout.loose_exact), (slice(split, None), layout.loose_relaxed)):
            slot = np.concatenate([arrays.loose[part], more.slot])
            score = np.concatenate([arrays.loose_score[part], more.score])
            order = in_order(np.zeros(len(slot), np.int32), score, self._table.sequence[slot])
            slots.append(slot[order])
            scores.append(score[order])
        return np.concatenate(slots), np.concatenate(scores), len(slots[0])

    def _publish(self, rows: I64, list_of: I32, bounds: Any, loose: tuple[I32, Any, int], slots: I64) -> None:
        """Make the draft, which has new `slots`, the content of this index."""
        draft = self._draft
        assert draft is not None
        rows[:, sc.ROOT], rows[:, sc.NODES] = draft.list_root[: len(rows)], draft.list_nodes[: len(rows)]
        info, bounds = self._arrays.info.copy(), bounds.copy()
        info[sc.DEPTH], info[sc.LEVELS], info[sc.LOOSE] = (
            draft.used[forest.DEEPEST],
            draft.used[forest.HIGHEST] + 1,
            loose[2],
        )
        if len(slots):
            block = gather(self._table, slots)
            info[sc.MOST_CONSTRAINTS] = max(info[sc.MOST_CONSTRAINTS], np.diff(block.constraint_start).max(initial=1))
            info[sc.ONE_CLAUSE] = info[sc.ONE_CLAUSE] and bool((np.diff(block.clause_start) <= 1).all())
            whole = whole_table(block)
            least = min(bounds[-1, sc.STATIC_LEAST], whole[sc.STATIC_LEAST])
            bounds[-1] = np.maximum(bounds[-1], whole)
            bounds[-1, sc.STATIC_LEAST] = least
            for kind, lists in enumerate(self._layout(slots)[:2]):
                rows[list_of[lists.attr * sc.KINDS + kind], sc.SOLE] &= lists.sole
        changed: dict[str, Any] = {name: getattr(draft, name)[:end] for name, end in forest.used_lengths(draft).items()}
        changed |= {"info": info, "lists": rows.ravel(), "list_of": list_of, "bounds": bounds.ravel()}
        changed |= {"loose": loose[0], "loose_score": loose[1]}
        changed["needed"] = needed(self._table, bool(len(self._arrays.needed)))
        self._hold(self._table, self._arrays._replace(**changed))


def _update_scratch() -> UpdateScratch:
    return UpdateScratch(np.empty(update.LONGEST, np.int64), np.empty(8 * sc.WIDEST, np.int64))


def _widened(bounds: Any, layout: Layout, list_of: I32) -> Any:
    """Bounds that also hold for new entries; the least distance is lost unless all scores are equal."""
    widened = bounds.copy()
    for kind, lists in enumerate(layout[:2]):
        for number, attr in enumerate(lists.attr.tolist()):
            row = widened[list_of[attr * sc.KINDS + kind]]
            score = lists.entries(number).score
            first = row[sc.LEAST] == np.inf
            constant = bool((score == (score[0] if first else row[sc.LEAST])).all())
            row[sc.STEP] = np.inf if constant and row[sc.STEP] == np.inf else 0.0
            row[sc.LEAST], row[sc.HEAVIEST] = (
                min(row[sc.LEAST], score.min()),
                max(row[sc.HEAVIEST], lists.heaviest[number]),
            )
    return widened


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
