"""The writer's side: calls the kernels that change a tree, gives them room, and goes on where they stopped.

Kernels cannot grow arrays. Before each step they look whether the room suffices for the worst case of that step; where
it does not, they stop, the arrays grow here (or are packed, when half of them is waste), and they resume.
"""

from __future__ import annotations

import numpy as np

from earmark.errors import EarmarkError
from earmark.flat.types import I32, I64
from earmark.index.be_star_tree.arrays import (
    BELOW,
    BUCKETS,
    CAPACITY,
    CLAUSES,
    COUNT,
    ENTRIES,
    FIRST,
    LEAST,
    LEVEL,
    LEVELS,
    LIMIT,
    LINK,
    LIVE_WORDS,
    LONGEST,
    LOOSE,
    MORE,
    NONE,
    PART,
    POWNER,
    PROOT,
    ROOT,
    WIDTH,
    WORDS,
    TreeArrays,
    trimmed,
    with_attributes,
    with_clauses,
    with_room,
)
from earmark.index.be_star_tree.bounds import new_path
from earmark.index.be_star_tree.insert import CRAMPED, DEEP, OVERFLOW, SPARE, insert_clauses
from earmark.index.be_star_tree.remove import remove_clauses
from earmark.index.be_star_tree.settle import Desk, collapse, fill_root, new_desk, pack, renew_all, settle
from earmark.segment.arrays import SegmentArrays
from earmark.segment.rows import spread

GENEROUS = 256
"""Room is asked for with so much to spare, so that small changes do not stop for it."""


class TreeChange:
    """One change of a tree; `tree` is the outcome."""

    def __init__(self, tree: TreeArrays, table: SegmentArrays) -> None:
        self.tree = with_clauses(tree, len(table.constraint_start) - 1)
        self._table = table
        self._path, self._other = new_path(), new_path()
        self._out = np.empty(1, np.int32)
        self._desk: Desk | None = None
        self._carry_weights()

    # --- what the index asks for -----------------------------------------------------------------------------

    def build(self, slots: I32) -> None:
        """Take in slots all at once (BE*-B); the tree is empty."""
        clauses = self._clauses_of(slots)
        self.tree = with_room(self.tree, entries=2 * len(clauses) + 64)
        fill_root(self.tree, self._table, clauses)
        self._settle(ROOT)
        self._renew_all()
        self.pack()

    def insert(self, slots: I32) -> None:
        """Take in slots, clause by clause."""
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
                self._make_room(entries=4 * int(self.tree.head[LONGEST]) + 16 * GENEROUS, **SPARE)

    def remove(self, slots: I32) -> None:
        """Forget slots; those that are not here are left aside."""
        self._remove(self._known_clauses(slots))

    def _remove(self, clauses: I32) -> None:
        done = 0
        while done < len(clauses):
            done, why = remove_clauses(self.tree, self._table, clauses, done, self._path, self._other)
            if why == CRAMPED:
                self._make_room(entries=4 * int(self.tree.head[CAPACITY]) + 16 * GENEROUS)

    def rebuild(self, b: int) -> None:
        """Cluster and partition all clauses of a bucket anew."""
        stack = np.empty(int(self.tree.head[BUCKETS]) + 1, np.int32)
        while not collapse(self.tree, self._table, b, stack, self._path):
            self._make_room(entries=3 * int(self.tree.more[b * MORE + BELOW]) + 16 * GENEROUS)
        self._settle(b)

    def rebuild_all(self) -> None:
        """Cluster and partition everything anew."""
        self.rebuild(ROOT)
        self._renew_all()
        self.pack()

    def recycle(self, p: int) -> int:
        """Insert the clauses of a p-node again, which itself goes; how many."""
        owner, root = (int(self.tree.pnode[p * PART + field]) for field in (POWNER, PROOT))
        stack = np.empty(int(self.tree.head[BUCKETS]) + 1, np.int32)
        while not collapse(self.tree, self._table, root, stack, self._path):
            self._make_room(entries=3 * int(self.tree.more[root * MORE + BELOW]) + 16 * GENEROUS)
        first, count = (int(self.tree.link[root * LINK + field]) for field in (FIRST, COUNT))
        clauses = self.tree.clause[first : first + count].copy()
        self._remove(clauses)
        if self.tree.more[owner * MORE + LEVEL] != NONE:  # else it went with its last clause
            self.tree.more[owner * MORE + LIMIT] = 2**31 - 1  # they are partitioned together, not one by one
        self._insert(clauses)
        if self.tree.more[owner * MORE + LEVEL] != NONE:
            self.tree.more[owner * MORE + LIMIT] = self.tree.head[CAPACITY]
            self._settle(owner)
        return count

    def recycle_all(self, low: I64, worn: I64) -> int:
        """Recycle the p-nodes of low rank, cluster the worn ones anew; how many clauses that were."""
        done = 0
        for p, again in [(int(p), True) for p in low] + [(int(p), False) for p in worn]:
            if self.tree.pnode[p * PART + POWNER] == NONE:  # went with one above it
                continue
            if again:
                done += self.recycle(p)
            else:
                root = int(self.tree.pnode[p * PART + PROOT])
                done += int(self.tree.more[root * MORE + BELOW])
                self.rebuild(root)
        if done:
            self._renew_all()
            self.pack()
        return done

    def pack(self, spare_entries: int = 0, spare_words: int = 0) -> None:
        """Lay out entries and records in the order of the tree, without gaps but with room at the end."""
        tree, head = self.tree, self.tree.head
        entries = int(head[CLAUSES])
        words = self._record_words()
        into = tree._replace(
            sign=np.empty(entries + spare_entries, np.uint64),
            clause=np.empty(entries + spare_entries, np.int32),
            record=np.empty(entries + spare_entries, np.int32),
            most=np.empty(entries + spare_entries, np.float32),
            word=np.empty(words + spare_words, np.int64),
        )
        pack(tree, self._table, into, np.empty(int(head[BUCKETS]) + 1, np.int32))
        self.tree = into if spare_entries else trimmed(into)

    # --- inside ----------------------------------------------------------------------------------------------

    def _clauses_of(self, slots: I32) -> I32:
        """The clauses of slots of the table, whose slots are noted."""
        count = len(self._table.clause_start) - 1
        if len(slots) and not (slots.min() >= 0 and slots.max() < count):
            raise EarmarkError(
                f"slots are numbers from 0 to {count - 1}; got {int(slots.min())} to {int(slots.max())}."
            )
        starts, clauses = spread(self._table.clause_start, slots.astype(np.int64))
        self.tree.slot[clauses] = np.repeat(slots, np.diff(starts))
        constraints = spread(self._table.constraint_start, clauses)[1]
        attributes = int(self._table.attr[constraints].max(initial=-1)) + 1
        self.tree = with_attributes(self.tree, attributes)
        return clauses.astype(np.int32)

    def _known_clauses(self, slots: I32) -> I32:
        slots = slots[(slots >= 0) & (slots < len(self._table.clause_start) - 1)]
        return spread(self._table.clause_start, slots.astype(np.int64))[1].astype(np.int32)

    def _record_words(self) -> int:
        """Words that the records of all clauses here take at most."""
        sizes = np.diff(self._table.constraint_start)[self.tree.where[: len(self._table.constraint_start) - 1] >= 0]
        sizes = sizes[sizes <= 64].astype(np.int64)
        return int((((sizes + 4) >> 2) + 2 * sizes).sum())

    def _carry_weights(self) -> None:
        """Make room for the maxima of weights once the table has weights."""
        if len(self._table.weight) and not len(self.tree.peak):
            self.tree = self.tree._replace(peak=np.zeros(len(self.tree.link) // LINK * 128, np.float32))
            self._renew_all()

    def _renew_all(self) -> None:
        size = len(self.tree.link) // LINK + 1
        renew_all(self.tree, self._table, np.empty(size, np.int32), np.empty(size, np.int32), self._path)
        self.tree.head[LOOSE] = 0

    def _make_room(self, entries: int, **units: int) -> None:
        """Let arrays grow; entries and records are packed instead when half of them is waste."""
        head = self.tree.head
        wasted = head[ENTRIES] > 2 * head[CLAUSES] + 1024 or head[WORDS] > 2 * head[LIVE_WORDS] + 1024
        if wasted:
            half = int(head[CLAUSES]) // 2
            self.pack(half + entries, int(head[LIVE_WORDS]) // 2 + 16 * GENEROUS)
        more = {group: 4 * extra + GENEROUS for group, extra in units.items()}
        self.tree = with_room(self.tree, weighted=False, entries=entries, **more)

    def _settle(self, b: int) -> None:
        """Bring a bucket, and all that comes of it, within their limits."""
        count = int(self.tree.link[b * LINK + COUNT])
        if count <= self.tree.more[b * MORE + LIMIT]:
            return
        desk = self._desk_for(b, count)
        desk.todo[0] = b
        todo = 1
        while todo:
            b = int(desk.todo[todo - 1])
            parts = max(
                2, min(len(desk.share), int(self.tree.link[b * LINK + COUNT]) // int(self.tree.head[LEAST]) + 1)
            )
            self.tree = with_room(
                self.tree,
                buckets=parts + GENEROUS,
                pnodes=parts + GENEROUS,
                rims=(parts + GENEROUS) * 2 * LEVELS,
                pdirs=4 * (parts + int(self.tree.link[b * LINK + WIDTH])) + GENEROUS,
            )
            todo, _ = settle(self.tree, self._table, desk, self._path, todo)

    def _desk_for(self, b: int, entries: int) -> Desk:
        """A desk for the l-node of a bucket; the last one if it is large enough."""
        start = int(self.tree.link[b * LINK + FIRST])
        clauses = self.tree.clause[start : start + entries]
        starts = self._table.constraint_start
        constraints = int((starts[clauses + 1] - starts[clauses]).sum())
        desk = self._desk
        if desk is None or len(desk.part) < entries or len(desk.posting) < constraints:
            desk = self._desk = new_desk(entries + entries // 2, constraints + constraints // 2, len(self.tree.rate))
        return desk
