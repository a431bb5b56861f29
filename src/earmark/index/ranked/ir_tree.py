"""Which intervals does a value stab, best first, while intervals come and go: the interval R-tree.

ranked-pubsub, 3.1. An interval tree (2.1.1) whose runs are scored R-trees. All intervals of a node are stabbed by its
key, so any two of them meet, and an extent has *no holes*: where it contains the value, some interval below does. A
search goes down only where it will find something: O(branching log n) a getnext, and O(n) space.

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
copying once for a batch of them.

We differ: a score may change (the paper leaves that open): the entry is taken out and put in where its score
belongs. Buckets are not split to the end. A path that grows too long is rebalanced.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from earmark.flat.bits import read_only
from earmark.flat.types import I32, I64
from earmark.index.given import read_only_table
from earmark.index.ranked import check
from earmark.index.ranked.arrays import (
    ABSENT_LISTS,
    ATTR,
    BOUND,
    BRANCHING,
    BY_WEIGHT,
    DEPTH,
    EMPTY,
    ENTRIES,
    EXACT,
    HEAVIEST,
    KINDS,
    LEAF,
    LEAST,
    LEVELS,
    LIST,
    LOOSE,
    MOST_CONSTRAINTS,
    NODE,
    NODE_SCORE,
    NODES,
    ONE_CLAUSE,
    PADDING,
    REGIME,
    ROOT,
    SHARED,
    SOLE,
    STATIC_LEAST,
    STATIC_MOST,
    STEP,
    WEIGHTS_MOST,
    WIDEST,
    ScoredArrays,
)
from earmark.index.ranked.base import ScoredIndex, ScoredOptions, planted, whole_table
from earmark.index.ranked.forest import (
    BLOCKS_USED,
    DEEPEST,
    ENTRIES_USED,
    HIGHEST,
    NODES_USED,
    USED,
    ForestDraft,
    TreePlan,
    plant,
)
from earmark.index.ranked.lists import (
    EntryColumns,
    Grids,
    Layout,
    LooseSlots,
    ScoredLists,
    in_order,
    joined,
    lay_out,
    needed,
)
from earmark.index.ranked.update import (
    LONGEST,
    NO_ROOM,
    TOO_DEEP,
    Added,
    UpdateScratch,
    entries_below,
    heavy_ancestor,
    insert_entries,
    remove_entries,
)
from earmark.segment.arrays import SegmentArrays
from earmark.segment.rows import gather

SPARE = 1 / 8
"""Room for growth in a copy that is about to change, as a share of its size."""
LEFT_BEHIND = 4
"""An index that takes so many entries for each of its own is built anew. Half-full blocks make 2."""
Bools = NDArray[np.bool_]


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
        """An index of all slots of a table; options as for every scored index. O(n log n)."""
        return cls._built(table, ScoredOptions(branching, leaf, modes, intersect))

    @classmethod
    def _grow(cls, lists: ScoredLists, arrays: ScoredArrays, options: ScoredOptions) -> ScoredArrays:
        return planted(lists, arrays, TreePlan(True, True, options.branching, options.leaf))

    # --- changing ------------------------------------------------------------------------------------------------

    def copy(self) -> Self:
        """An index of the same content that can change by itself. O(1): the first change copies."""
        self._draft = None  # what both share stays as it is
        return type(self)(self._table, self._arrays)

    def insert(self, table: SegmentArrays, slots: I32) -> None:
        """Take in new slots of a table that has grown. O(branching log n) each, amortised."""
        self._table = read_only_table(table)
        chosen = slots.astype(np.int64)
        if self._outgrown(chosen):
            self._rebuild(self._present(chosen))
            return
        layout = self._layout(chosen)
        rows, list_of, bounds = self._with_new_lists(layout)
        draft = self._growing(len(rows))
        lists, which = self._placed(layout, list_of)
        self._insert(draft, lists, which, rows)
        self._publish(draft, rows, list_of, _widened(bounds, layout, list_of), self._merged_loose(layout), chosen)
        self._tidy_up()

    def remove(self, slots: I32) -> None:
        """Forget slots; those that are not there are none of its business. O(branching log n) each, amortised."""
        chosen = slots[slots < len(self._table.sequence)].astype(np.int64)
        if not len(chosen):
            return
        layout = self._layout(chosen)
        rows, list_of = self._arrays.lists.reshape(-1, LIST).copy(), self._arrays.list_of
        lists, which = self._placed(layout, list_of)
        draft = self._growing(len(rows))
        gone, nowhere = np.zeros(len(rows), np.int64), np.empty(0, np.int64)
        leaving = Added._make(map(read_only, (which, lists.lo, lists.hi, lists.score, lists.slot)))
        remove_entries(draft, self._table.sequence, leaving, _update_scratch(), gone)
        rows[:, ENTRIES] -= gone
        kept = ~np.isin(self._arrays.loose, chosen)
        split = int(self._arrays.info[LOOSE])
        loose = (self._arrays.loose[kept], self._arrays.loose_score[kept], int(kept[:split].sum()))
        self._publish(draft, rows, list_of, self._arrays.bounds.reshape(-1, BOUND), loose, nowhere)
        self._tidy_up()

    def rescore(self, table: SegmentArrays, slots: I32) -> None:
        """Follow a table that differs from the one it knows in the scores or weights of these slots, and no others."""
        self.remove(slots)
        self.insert(table, slots)

    def check(self) -> None:
        """As every index, for the slots that are in it; and no extent has a hole."""
        check.check_structure(self._arrays, self._table)
        check.check_order(self._arrays, self._table, self.keyed)
        check.check_content(self._arrays, self._table, self._present(np.empty(0, np.int64)))
        check.check_holes(self._arrays)

    # --- inside --------------------------------------------------------------------------------------------------

    @property
    def _modes(self) -> str:
        info = self._arrays.info
        return "relaxed" if not info[EXACT] else "exact" if info[REGIME] == ABSENT_LISTS else "both"

    def _present(self, others: I64) -> Bools:
        """The slots that are in the index, and some others."""
        present = np.zeros(len(self._table.sequence), bool)
        present[others] = True
        present[self._arrays.loose] = True
        for which in range(len(self._arrays.lists) // LIST):
            present[self._arrays.ref[check.list_entries(self._arrays, which)]] = True
        return present

    def _outgrown(self, slots: I64) -> bool:
        """Whether new slots do not fit the order of the relaxed lists, so that these must be made anew."""
        table, info = self._table, self._arrays.info
        if info[REGIME] == BY_WEIGHT:
            static = table.score[slots] if len(table.score) else np.zeros(len(slots))
            bounds = self._arrays.bounds[-BOUND:]
            same = bounds[STATIC_MOST] == bounds[STATIC_LEAST] and bool((static == bounds[STATIC_MOST]).all())
            return not same or not len(self._arrays.lists)
        if info[REGIME] == SHARED:
            return bool((np.diff(gather(table, slots).constraint_start) > 1).any())
        return False

    def _rebuild(self, only: Bools) -> None:
        info = self._arrays.info
        options = ScoredOptions(int(info[BRANCHING]), int(info[LEAF]), self._modes, bool(len(self._arrays.needed)))
        layout = lay_out(self._table, options.modes, options.intersect, only=only)
        self._draft = None
        self._hold(self._table, self._arranged(self._table, layout, options))

    def _tidy_up(self) -> None:
        """Build anew when most of the entries are room that nobody uses, left behind by what was moved or removed."""
        taken, lists = len(self._arrays.score), len(self._arrays.lists) // LIST
        if taken > LEFT_BEHIND * self.references + WIDEST * (lists + WIDEST):
            self._rebuild(self._present(np.empty(0, np.int64)))

    def _layout(self, slots: I64) -> Layout:
        """The lists of some slots alone, as this index orders them, with the table's slot numbers."""
        arrays = self._arrays
        grids = Grids(arrays.grid_start, arrays.grid, arrays.grid_used)
        block = read_only_table(gather(self._table, slots))
        made = lay_out(block, self._modes, bool(len(arrays.needed)), grids, None, int(arrays.info[REGIME]))
        numbers = slots.astype(np.int32)
        return made._replace(
            exact=made.exact._replace(slot=numbers[made.exact.slot]),
            relaxed=made.relaxed._replace(slot=numbers[made.relaxed.slot]),
            loose_exact=made.loose_exact._replace(slot=numbers[made.loose_exact.slot]),
            loose_relaxed=made.loose_relaxed._replace(slot=numbers[made.loose_relaxed.slot]),
        )

    def _with_new_lists(self, layout: Layout) -> tuple[I64, I32, Any]:
        """Rows, list numbers by attribute and bounds, with empty lists for attributes that had none."""
        arrays = self._arrays
        rows, bounds = arrays.lists.reshape(-1, LIST), arrays.bounds.reshape(-1, BOUND)
        attributes = 1 + max(len(arrays.list_of) // KINDS - 1, *(int(a.attr.max(initial=-1)) for a in layout[:2]))
        list_of = np.full((attributes, KINDS), EMPTY, np.int32)
        list_of.ravel()[: len(arrays.list_of)] = arrays.list_of
        added: list[I64] = []
        for kind, lists in enumerate(layout[:2]):
            for attr in lists.attr[list_of[lists.attr, kind] == EMPTY].tolist():
                list_of[attr, kind] = len(rows) + len(added)
                row = np.zeros(LIST, np.int64)
                row[ATTR], row[ROOT], row[SOLE] = attr, EMPTY, 1
                added.append(row)
        fresh = np.tile([np.inf, np.inf, 0.0], (len(added), 1))
        bounds = np.vstack([bounds[:-1], fresh.reshape(-1, BOUND), bounds[-1:]])
        return np.vstack([rows, *added]) if added else rows.copy(), list_of.ravel(), bounds

    def _placed(self, layout: Layout, list_of: I32) -> tuple[ScoredLists, I32]:
        """All entries of a layout, and the list of each; those of attributes without a list are left out."""
        lists = joined(layout.exact, layout.relaxed)
        kind = np.repeat([0, 1], [len(layout.exact.attr), len(layout.relaxed.attr)])
        place = lists.attr.astype(np.int64) * KINDS + kind
        numbers = np.full(len(place), EMPTY, np.int32)
        known = place < len(list_of)
        numbers[known] = list_of[place[known]]
        which = np.repeat(numbers, np.diff(lists.start))
        chosen = np.flatnonzero(which != EMPTY)
        return lists.permuted(chosen), which[chosen]

    def _growing(self, lists: int) -> ForestDraft:
        """The arrays with room to grow: this index's own, from the first change on."""
        if self._draft is None:
            arrays, used = self._arrays, np.zeros(USED, np.int64)
            used[NODES_USED], used[BLOCKS_USED] = len(arrays.node_key), len(arrays.block_start)
            used[ENTRIES_USED] = len(arrays.score)
            used[DEEPEST], used[HIGHEST] = arrays.info[DEPTH], arrays.info[LEVELS] - 1
            columns = {name: getattr(arrays, name) for name in ForestDraft._fields if hasattr(arrays, name)}
            nothing = np.empty(0, np.int64)
            self._draft = ForestDraft(used=used, list_root=nothing, list_nodes=nothing, **columns)
            self._draft = _roomier(self._draft)
        rows = self._arrays.lists.reshape(-1, LIST)
        roots, nodes = np.full(lists + 1, EMPTY, np.int64), np.zeros(lists + 1, np.int64)
        roots[: len(rows)], nodes[: len(rows)] = rows[:, ROOT], rows[:, NODES]
        self._draft = self._draft._replace(list_root=roots, list_nodes=nodes)
        return self._draft

    def _insert(self, draft: ForestDraft, lists: ScoredLists, which: I32, rows: I64) -> None:
        """Insert entries, making room and rebalancing when asked to. `self._draft` is the one to go on with."""
        info = self._arrays.info
        added = Added._make(map(read_only, (which, lists.lo, lists.hi, lists.score, lists.slot)))
        scratch = _update_scratch()
        done, why, leaf, branching = 0, NO_ROOM, int(info[LEAF]), int(info[BRANCHING])
        while done < len(which):
            done, why = insert_entries(draft, self._table.sequence, added, done, leaf, branching, scratch)
            if why == NO_ROOM:
                draft = _roomier(draft)
            elif why == TOO_DEEP:
                draft = self._rebalanced(draft, int(which[done - 1]), scratch.path)
        self._draft = draft
        np.add.at(rows[:, ENTRIES], which, 1)

    def _rebalanced(self, draft: ForestDraft, which: int, path: I64) -> ForestDraft:
        """Build anew what is below the lowest ancestor of a path that is out of balance."""
        place = int(heavy_ancestor(draft, path, np.empty(len(draft.node_key), np.int64)))
        node = int(path[place])
        nodes, blocks = np.empty(len(draft.node_key), np.int64), np.empty(len(draft.block_start) + 1, np.int64)
        out = np.empty(len(draft.score), np.int64)
        found, seen = entries_below(draft, node, nodes, blocks, out)
        entries = out[:found]
        while not _fits(draft, found):
            draft = _roomier(draft)
        sequence = self._table.sequence[draft.ref[entries]]
        order = entries[in_order(np.zeros(found, np.int32), draft.score[entries], sequence)]
        part = EntryColumns(draft.lo[order], draft.hi[order], draft.score[order], draft.ref[order])
        info, last = self._arrays.info, len(draft.list_root) - 1
        plant(part, slice(None), last, TreePlan(True, True, int(info[BRANCHING]), int(info[LEAF])), draft)
        made = int(draft.list_root[last])
        draft.list_nodes[which] += draft.list_nodes[last] - seen
        if place == 1:
            draft.list_root[which] = made
        else:
            row = int(path[place - 1]) * NODE
            draft.node[row + int(draft.node[row] != node)] = made
        draft.list_root[last], draft.list_nodes[last] = EMPTY, 0
        return draft

    def _merged_loose(self, layout: Layout) -> tuple[I32, Any, int]:
        """The loose slots with new ones in their places: slots, scores, and how many are for exact search."""
        arrays, split = self._arrays, int(self._arrays.info[LOOSE])
        made = []
        for part, more in ((slice(0, split), layout.loose_exact), (slice(split, None), layout.loose_relaxed)):
            slot = np.concatenate([arrays.loose[part], more.slot])
            score = np.concatenate([arrays.loose_score[part], more.score])
            order = in_order(np.zeros(len(slot), np.int32), score, self._table.sequence[slot])
            made.append(LooseSlots(slot[order], score[order]))
        exact, relaxed = made
        joined_slots = np.concatenate([exact.slot, relaxed.slot])
        return joined_slots, np.concatenate([exact.score, relaxed.score]), len(exact.slot)

    def _publish(
        self, draft: ForestDraft, rows: I64, list_of: I32, bounds: Any, loose: tuple[I32, Any, int], slots: I64
    ) -> None:
        """Make a change the content of this index."""
        draft = self._draft or draft
        nodes, blocks, entries = (int(draft.used[field]) for field in (NODES_USED, BLOCKS_USED, ENTRIES_USED))
        rows[:, ROOT], rows[:, NODES] = draft.list_root[: len(rows)], draft.list_nodes[: len(rows)]
        info, bounds = self._arrays.info.copy(), bounds.copy()
        info[DEPTH], info[LEVELS], info[LOOSE] = draft.used[DEEPEST], draft.used[HIGHEST] + 1, loose[2]
        if len(slots):
            block = gather(self._table, slots)
            info[MOST_CONSTRAINTS] = max(info[MOST_CONSTRAINTS], np.diff(block.constraint_start).max(initial=1))
            info[ONE_CLAUSE] = info[ONE_CLAUSE] and bool((np.diff(block.clause_start) <= 1).all())
            whole = whole_table(block)
            bounds[-1, STATIC_MOST] = max(bounds[-1, STATIC_MOST], whole[STATIC_MOST])
            bounds[-1, STATIC_LEAST] = min(bounds[-1, STATIC_LEAST], whole[STATIC_LEAST])
            bounds[-1, WEIGHTS_MOST] = max(bounds[-1, WEIGHTS_MOST], whole[WEIGHTS_MOST])
            kinds = self._layout(slots)
            for kind, lists in enumerate(kinds[:2]):
                rows[list_of[lists.attr * KINDS + kind], SOLE] &= lists.sole
        self._hold(
            self._table,
            self._arrays._replace(
                info=info,
                lists=rows.ravel(),
                list_of=list_of,
                bounds=bounds.ravel(),
                loose=loose[0],
                loose_score=loose[1],
                needed=needed(self._table, bool(len(self._arrays.needed))),
                node_key=draft.node_key[:nodes],
                node=draft.node[: nodes * NODE],
                node_score=draft.node_score[: nodes * NODE_SCORE],
                block_start=draft.block_start[:blocks],
                block_fill=draft.block_fill[:blocks],
                block_room=draft.block_room[:blocks],
                lo=draft.lo[: entries + PADDING],
                hi=draft.hi[: entries + PADDING],
                score=draft.score[:entries],
                ref=draft.ref[:entries],
            ),
        )


def _update_scratch() -> UpdateScratch:
    return UpdateScratch(np.empty(LONGEST, np.int64), np.empty(8 * WIDEST, np.int64))


def _widened(bounds: Any, layout: Layout, list_of: I32) -> Any:
    """Bounds that also hold for new entries: of equal scores nothing changes; else no distance is known any more."""
    made = bounds.copy()
    for kind, lists in enumerate(layout[:2]):
        for one, attr in enumerate(lists.attr.tolist()):
            row = made[list_of[attr * KINDS + kind]]
            score = lists.score[lists.start[one] : lists.start[one + 1]]
            first = row[LEAST] == np.inf
            constant = bool((score == (score[0] if first else row[LEAST])).all())
            row[STEP] = np.inf if constant and row[STEP] == np.inf else 0.0
            row[LEAST], row[HEAVIEST] = min(row[LEAST], score.min()), max(row[HEAVIEST], lists.heaviest[one])
    return made


def _fits(draft: ForestDraft, entries: int) -> bool:
    """Whether a tree of so many entries can be added."""
    used = draft.used
    blocks = int(used[BLOCKS_USED]) + 4 * entries + 4 < len(draft.block_start)
    return (
        int(used[NODES_USED]) + entries + 2 < len(draft.node_key)
        and blocks
        and int(used[ENTRIES_USED]) + 5 * entries + PADDING < len(draft.score)
    )


def _roomier(draft: ForestDraft) -> ForestDraft:
    """A copy of the arrays with more room behind what is used."""
    nodes, blocks, entries = (int(draft.used[field]) for field in (NODES_USED, BLOCKS_USED, ENTRIES_USED))
    sizes = {"node_key": nodes, "node": nodes * NODE, "node_score": nodes * NODE_SCORE}
    sizes |= dict.fromkeys(("block_start", "block_fill", "block_room"), blocks)
    sizes |= dict.fromkeys(("lo", "hi", "score", "ref"), entries)
    least = {"node_key": 256, "node": 256 * NODE, "node_score": 256 * NODE_SCORE}
    made = {}
    for name, size in sizes.items():
        old = getattr(draft, name)
        room = max(size + int(size * SPARE), int(len(old) * (1 + SPARE))) + least.get(name, 32 * WIDEST)
        new = np.zeros(room, old.dtype)
        new[:size] = old[:size]
        made[name] = new
    return draft._replace(**made)
