"""The writer's side: calls the kernels that change a tree, makes room for them, and resumes where they stopped.

Kernels cannot grow arrays. Before each step they check that there is room for the worst case of that step; if not,
they stop, the arrays grow here (or are packed, when half of them is waste), and they resume.
"""

from __future__ import annotations

import numpy as np

import earmark.index.be_star_tree.arrays as be
from earmark.errors import EarmarkError
from earmark.flat.arrays import I32, I64
from earmark.index.be_star_tree.arrays import TreeArrays, trimmed, with_attributes, with_clauses, with_room
from earmark.index.be_star_tree.bounds import new_path
from earmark.index.be_star_tree.insert import CRAMPED, DEEP, OVERFLOW, SPARE, insert_clauses
from earmark.index.be_star_tree.remove import remove_clauses
from earmark.index.be_star_tree.settle import Desk, collapse, fill_root, new_desk, pack, renew_all, settle
from earmark.segment.arrays import SegmentArrays, spread

GENEROUS = 256
"""Extra room to ask for, so that small changes do not stop for it."""


class TreeChange:
    """One change of a tree; `tree` is the result."""

    def __init__(self, tree: TreeArrays, table: SegmentArrays) -> None:
        self.tree = with_clauses(tree, len(table.constraint_start) - 1)
        self._table = table
        self._path, self._other = new_path(), new_path()
        self._out = np.empty(1, np.int32)
        self._desk: Desk | None = None
        self._carry_weights()

    # --- what the index asks for -----------------------------------------------------------------------------

    def build(self, slots: I32) -> None:
        """Insert slots all at once (BE*-B) into an empty tree."""
        clauses = self._clauses_of(slots)
        self.tree = with_room(self.tree, entries=2 * len(clauses) + 64)
        fill_root(self.tree, self._table, clauses)
        self._settle(be.ROOT)
        self._renew_all()
        self.pack()

    def insert(self, slots: I32) -> None:
        """Insert slots, clause by clause."""
        self._insert(self._clauses_of(slots))

    def _insert(self, clauses: I32) -> None:
        done = 0
        while done < len(clauses):
            done, why = insert_clauses(self.tree, self._table, clauses, done, self._path, self._out)
            if why == OVERFLOW:
                self._settle(int(self._out[0]))
            elif why == DEEP:
                self.rebuild(int(self._out[0]))
            elif why == CRAMPED:
                self._make_room(entries=4 * int(self.tree.head[be.LONGEST]) + 16 * GENEROUS, **SPARE)

    def remove(self, slots: I32) -> None:
        """Remove slots; those that are not in the tree are ignored."""
        slots = slots[(slots >= 0) & (slots < len(self._table.clause_start) - 1)]
        self._remove(spread(self._table.clause_start, slots.astype(np.int64))[1].astype(np.int32))

    def _remove(self, clauses: I32) -> None:
        done = 0
        while done < len(clauses):
            done, why = remove_clauses(self.tree, self._table, clauses, done, self._path, self._other)
            if why == CRAMPED:
                self._make_room(entries=4 * int(self.tree.head[be.CAPACITY]) + 16 * GENEROUS)

    def rebuild(self, b: int) -> None:
        """Cluster and partition all clauses of a bucket again."""
        self._collapse(b)
        self._settle(b)

    def _collapse(self, b: int) -> None:
        """Move all clauses of a bucket into its own l-node."""
        stack = np.empty(int(self.tree.head[be.BUCKETS]) + 1, np.int32)
        while not collapse(self.tree, self._table, b, stack, self._path):
            self._make_room(entries=3 * int(self.tree.more[b * be.MORE + be.BELOW]) + 16 * GENEROUS)

    def rebuild_all(self) -> None:
        """Cluster and partition all clauses again."""
        self.rebuild(be.ROOT)
        self._renew_all()
        self.pack()

    def recycle(self, p: int) -> int:
        """Remove a p-node and insert its clauses again; returns their number."""
        owner, root = (int(self.tree.pnode[p * be.PART + field]) for field in (be.POWNER, be.PROOT))
        self._collapse(root)
        first, count = (int(self.tree.link[root * be.LINK + field]) for field in (be.FIRST, be.COUNT))
        clauses = self.tree.clause[first : first + count].copy()
        self._remove(clauses)
        if self.tree.more[owner * be.MORE + be.LEVEL] != be.NONE:  # else it was freed with its last clause
            self.tree.more[owner * be.MORE + be.LIMIT] = 2**31 - 1  # they are partitioned together, not one by one
        self._insert(clauses)
        if self.tree.more[owner * be.MORE + be.LEVEL] != be.NONE:
            self.tree.more[owner * be.MORE + be.LIMIT] = self.tree.head[be.CAPACITY]
            self._settle(owner)
        return count

    def recycle_all(self, low: I64, worn: I64) -> int:
        """Recycle the p-nodes of low rank and cluster the worn ones again; returns the number of their clauses."""
        done = 0
        for p in low.tolist():
            if self.tree.pnode[p * be.PART + be.POWNER] != be.NONE:  # else it was freed with one above it
                done += self.recycle(p)
        for p in worn.tolist():
            if self.tree.pnode[p * be.PART + be.POWNER] != be.NONE:
                root = int(self.tree.pnode[p * be.PART + be.PROOT])
                done += int(self.tree.more[root * be.MORE + be.BELOW])
                self.rebuild(root)
        if done:
            self._renew_all()
            self.pack()
        return done

    def pack(self, spare_entries: int = 0, spare_words: int = 0) -> None:
        """Lay out entries and records in the order of the tree, without gaps but with room at the end."""
        tree, size = self.tree, int(self.tree.head[be.CLAUSES]) + spare_entries
        fresh = {name: np.empty(size, getattr(tree, name).dtype) for name in ("sign", "clause", "record", "most")}
        into = tree._replace(**fresh, word=np.empty(self._record_words() + spare_words, np.int64))
        pack(tree, self._table, into, np.empty(int(tree.head[be.BUCKETS]) + 1, np.int32))
        self.tree = into if spare_entries else trimmed(into)

    # --- inside ----------------------------------------------------------------------------------------------

    def _clauses_of(self, slots: I32) -> I32:
        """The clauses of slots of the table; notes their slots and makes room for their attributes."""
        count = len(self._table.clause_start) - 1
        if len(slots) and not (slots.min() >= 0 and slots.max() < count):
            raise EarmarkError(f"expected slots from 0 to {count - 1}, got {slots.min()} to {slots.max()}")
        starts, clauses = spread(self._table.clause_start, slots.astype(np.int64))
        self.tree.slot[clauses] = np.repeat(slots, np.diff(starts))
        constraints = spread(self._table.constraint_start, clauses)[1]
        attributes = int(self._table.attr[constraints].max(initial=-1)) + 1
        self.tree = with_attributes(self.tree, attributes)
        return clauses.astype(np.int32)

    def _record_words(self) -> int:
        """The most words that the records of all clauses in the tree can take."""
        sizes = np.diff(self._table.constraint_start)[self.tree.where[: len(self._table.constraint_start) - 1] >= 0]
        sizes = sizes[sizes <= be.LONGEST_RECORD].astype(np.int64)
        return int((((sizes + 4) >> 2) + 2 * sizes).sum())

    def _carry_weights(self) -> None:
        """Make room for the maxima of weights once the table has weights."""
        if len(self._table.weight) and not len(self.tree.peak):
            buckets = len(self.tree.link) // be.LINK
            self.tree = self.tree._replace(peak=np.zeros(2 * be.BINS * buckets, np.float32))
            self._renew_all()

    def _renew_all(self) -> None:
        size = len(self.tree.link) // be.LINK + 1
        renew_all(self.tree, self._table, np.empty(size, np.int32), np.empty(size, np.int32), self._path)
        self.tree.head[be.LOOSE] = 0

    def _make_room(self, entries: int, **units: int) -> None:
        """Grow arrays, after packing entries and records when half of them is waste."""
        head = self.tree.head
        if head[be.ENTRIES] > 2 * head[be.CLAUSES] + 1024 or head[be.WORDS] > 2 * head[be.LIVE_WORDS] + 1024:
            half = int(head[be.CLAUSES]) // 2
            self.pack(half + entries, int(head[be.LIVE_WORDS]) // 2 + 16 * GENEROUS)
        more = {group: 4 * extra + GENEROUS for group, extra in units.items()}
        self.tree = with_room(self.tree, weighted=False, entries=entries, **more)

    def _settle(self, b: int) -> None:
        """Split a bucket, and the buckets that result, until all are within their limits."""
        count = int(self.tree.link[b * be.LINK + be.COUNT])
        if count <= self.tree.more[b * be.MORE + be.LIMIT]:
            return
        desk = self._desk_for(b, count)
        desk.todo[0] = b
        todo = 1
        while todo:
            b = int(desk.todo[todo - 1])
            count, width = (int(self.tree.link[b * be.LINK + field]) for field in (be.COUNT, be.WIDTH))
            parts = max(2, min(len(desk.share), count // int(self.tree.head[be.LEAST]) + 1))
            more, pdirs = parts + GENEROUS, 4 * (parts + width) + GENEROUS
            self.tree = with_room(self.tree, buckets=more, pnodes=more, rims=more * 2 * be.LEVELS, pdirs=pdirs)
            todo = settle(self.tree, self._table, desk, self._path, todo)

    def _desk_for(self, b: int, entries: int) -> Desk:
        """A desk for the l-node of a bucket; the previous one if it is large enough."""
        start = int(self.tree.link[b * be.LINK + be.FIRST])
        clauses = self.tree.clause[start : start + entries]
        starts = self._table.constraint_start
        constraints = int((starts[clauses + 1] - starts[clauses]).sum())
        desk = self._desk
        if desk is None or len(desk.part) < entries or len(desk.posting) < constraints:
            desk = self._desk = new_desk(entries + entries // 2, constraints + constraints // 2, len(self.tree.rate))
        return desk
