"""Changing a tree: clauses inserted and removed one at a time, and all at once.

**Inserting** (Algorithms 1 to 3, with expansion upwards and downwards). A clause goes down from the root c-node. Where
a p-directory lists one of its attributes, it enters the p-node of the highest rank, and in its c-directory the smallest
bucket that encloses it, left and right staying apart; where none is listed, it ends in that c-node's l-node.

    enter_buckets: b is a leaf that is not partitioned            ends there; the box grows
                   the whole would grow more than beta times      a new parent above b takes it (bottom-up expansion)
                   meets left and right                           b is its home
                   meets one of them                              that one, and so on
                   meets neither                                  the one that grows less; a missing one is made

An l-node above its limit, or a c-directory that has grown too deep, is left to `settle.py`: the kernel stops and
reports it.

Where we differ: as printed, line 24 of Algorithm 2 compares with buckets that may be missing; a missing sibling counts
as growing least, because it is made to measure. A c-directory deeper than its number of clauses warrants (sorted insert
orders) is clustered again from the lowest bucket that is out of balance. Rank is the number of clauses minus the loss
measured on events.

**Removing** (sections IV-B and IV-C). From the bucket that held the clause up to the root: counts go down; a bucket
with nothing left is unlinked and freed (a p-node with its last bucket); as long as something changed below and the
clause was on the edge of a box or of a bound, these are computed again from the bucket's own parts, which the inactive
dimensions make possible. Where nothing depended on the clause, nothing above does.

Merge rule: when a leaf bucket, its sibling and their parent are open (not partitioned) and together fill half a leaf,
the parent takes their clauses back. A bucket with no entries or p-nodes and one child is replaced by that child.

An l-node far above the usual size (a thousand equal clauses) is not computed again at every removal, but when a
sixteenth of it has changed: until then its boxes and bounds may be wider than necessary, which `head[LOOSE]` counts.

**Making room.** Kernels cannot grow arrays. Before each step they check that there is room for the worst case of that
step; if not, they stop, `TreeChange` grows the arrays (or packs them, when half of them is waste), and they resume.

Complexity: O(depth x (inactive dimensions + constraints)); a removal adds an l-node and a p-directory for each bucket
renewed.
"""

from __future__ import annotations

import math

import numpy as np

import earmark.index.be_star_tree.arrays as be
import earmark.index.be_star_tree.nodes as nodes
import earmark.index.be_star_tree.settle as settling
from earmark.errors import EarmarkError
from earmark.flat.arrays import I32, I64
from earmark.flat.machine import at
from earmark.index.be_star_tree.arrays import TreeArrays, trimmed, with_attributes, with_clauses, with_room
from earmark.index.be_star_tree.bounds import Path, at_edge, boxes_of, new_path, path_to, renew, widen_bounds, widen_box
from earmark.index.be_star_tree.nodes import whole
from earmark.jit import embedded, kernel
from earmark.segment.arrays import SegmentArrays, spread

GENEROUS = 256
"""Extra room to ask for, so that small changes do not stop for it."""
DONE, OVERFLOW, DEEP, CRAMPED = 0, 1, 2, 3
"""Why the insert kernel stopped: all inserted; an l-node is above its limit; a c-directory is too deep; no room."""
PACK_SHARE = 8
"""Entries and records are laid out again once one in this many clauses was inserted since."""
NO_AIMS: I32 = np.empty(0, np.int32)
"""Every clause goes to the p-node of the highest rank."""
SPARE_BUCKETS = 3 * be.LEVELS + 3
"""More buckets than one clause can need, which is two per level."""
SPARE_RIMS = SPARE_BUCKETS * 2 * be.LEVELS
SPARE_WORDS = 2 * be.LONGEST_RECORD + be.LONGEST_RECORD // 4 + 4
SPARE = {"buckets": SPARE_BUCKETS, "rims": SPARE_RIMS, "words": SPARE_WORDS}
"""The room that `insert_clauses` needs, besides entries."""
LEVEL_DEPTH = 12
"""The depth that any c-directory may have."""
DEPTH_FACTOR = 5.0
"""Beyond that, this many times the binary logarithm of its size in l-nodes, which allows for uneven splits."""


@kernel
def insert_clauses(
    tree: TreeArrays, table: SegmentArrays, clauses: I32, aims: I32, i: int, path: Path
) -> tuple[int, int, int]:
    """Insert clauses from number i on; returns the next number, why it stopped, and at which bucket.

    `aims` has the attribute of the root's p-node that takes each clause; when it is empty, ranks decide.
    """
    while i < len(clauses):
        if (
            len(tree.link) // be.LINK - tree.head[be.BUCKETS] < int(SPARE_BUCKETS)
            or len(tree.rim) - tree.head[be.RIMS] < int(SPARE_RIMS)
            or len(tree.word) - tree.head[be.WORDS] < int(SPARE_WORDS)
            or len(tree.sign) - tree.head[be.ENTRIES] < 2 * tree.head[be.LONGEST] + 16  # its l-node in a longer run
        ):
            return i, int(CRAMPED), be.NONE
        clause, aim = whole(clauses[i]), whole(aims[i]) if len(aims) else be.NONE
        i += 1
        if tree.where[clause] != be.NONE:
            continue
        b, depth = home_of(tree, table, clause, aim, path)
        slot, most = whole(tree.slot[clause]), nodes.weights_of(table, clause)
        nodes.put_entry(tree, b, nodes.signature(table, clause), clause, nodes.new_record(tree, table, clause), most)
        tree.head[be.CLAUSES] += 1
        widen_bounds(tree, table, b, 1, clause, slot, most)
        a, own = b, True
        while a != be.NONE:
            tree.more[a * be.MORE + be.BELOW] += 1
            tree.more[a * be.MORE + be.CHANGED] += 1
            widen_box(tree, a, own, path)
            if a != be.ROOT:
                widen_bounds(tree, table, a, 0, clause, slot, most)
            own = at(tree.link, a * be.LINK + be.PARENT) == be.NONE
            a = nodes.above(tree, a)
        if tree.link[b * be.LINK + be.COUNT] > tree.more[b * be.MORE + be.LIMIT]:
            return i, int(OVERFLOW), b
        if depth > int(LEVEL_DEPTH) and not tree.head[be.RIGID]:
            b = out_of_balance(tree, b)
            if b != be.NONE:
                return i, int(DEEP), b
    return i, int(DONE), be.NONE


@embedded
def home_of(tree: TreeArrays, table: SegmentArrays, clause: int, aim: int, path: Path) -> tuple[int, int]:
    """The bucket whose l-node takes the clause, and its depth in its c-directory; puts its boxes on the path.

    `aim` is the attribute of the p-node to take at the root, or NONE.
    """
    if nodes.never_holds(table, clause):
        return be.NEVER, 0
    b, level, depth = be.ROOT, 0, 0
    while at(tree.link, b * be.LINK + be.WIDTH) and level < be.LEVELS:
        aimed = level == 0 and aim != be.NONE
        p = nodes.find_pnode(tree, be.ROOT, aim) if aimed else best_pnode(tree, table, b, clause)
        if p == be.NONE:
            break
        level += 1
        attr = at(tree.pnode, p * be.PART + be.PATTR)
        c = nodes.constraint_on(table, clause, attr)
        path.attr[level], path.lo[level], path.hi[level] = attr, nodes.lowest(table, c), nodes.highest(table, c)
        root = whole(at(tree.pnode, p * be.PART + be.PROOT))
        if tree.head[be.RIGID]:
            b, depth = enter_cells(tree, root, path.lo[level], path.hi[level])
        else:
            b, depth = enter_buckets(tree, root, path.lo[level], path.hi[level])
    return b, depth


@embedded
def best_pnode(tree: TreeArrays, table: SegmentArrays, b: int, clause: int) -> int:
    """The p-node of the highest rank among the clause's attributes, or NONE (Algorithm 1, lines 2 to 10)."""
    best, best_rank = be.NONE, -math.inf
    for c in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
        if nodes.can_key(table, c):
            p = nodes.find_pnode(tree, b, at(table.attr, c))
            if p != be.NONE:
                rank = tree.more[tree.pnode[p * be.PART + be.PROOT] * be.MORE + be.BELOW] - tree.loss[p]
                if rank > best_rank:
                    best, best_rank = p, rank
    return best


@embedded
def near(tree: TreeArrays, b: int, lo: int, hi: int, apart: float) -> bool:
    """Whether [lo, hi] meets a bucket's box, or comes closer than siblings may (footnote 4)."""
    low, high = at(tree.box, b * be.BOX + be.LO), at(tree.box, b * be.BOX + be.HI)
    if lo <= high and low <= hi:
        return True
    return apart > 0 and float(lo) <= float(high) + apart and float(low) <= float(hi) + apart


@embedded
def grown(tree: TreeArrays, b: int, lo: int, hi: int) -> float:
    """The length of a bucket's box with [lo, hi] in it."""
    return nodes.length(min(lo, at(tree.box, b * be.BOX + be.LO)), max(hi, at(tree.box, b * be.BOX + be.HI)))


@embedded
def enter_buckets(tree: TreeArrays, b: int, lo: int, hi: int) -> tuple[int, int]:
    """The home bucket of [lo, hi] in a c-directory, and its depth (InsertCDir); makes a bucket if needed."""
    depth = 0
    apart = tree.apart[at(tree.link, b * be.LINK + be.ATTR)]
    while True:
        left, right = whole(at(tree.link, b * be.LINK + be.LEFT)), whole(at(tree.link, b * be.LINK + be.RIGHT))
        leaf = left == be.NONE and right == be.NONE
        if leaf and at(tree.link, b * be.LINK + be.WIDTH) == 0:
            return b, depth
        size = nodes.length(at(tree.box, b * be.BOX + be.LO), at(tree.box, b * be.BOX + be.HI))
        if grown(tree, b, lo, hi) > tree.knob[be.BETA] * size:
            return new_parent(tree, b), depth
        if leaf:
            return b, depth
        near_left = left != be.NONE and near(tree, left, lo, hi, apart)
        near_right = right != be.NONE and near(tree, right, lo, hi, apart)
        if near_left and near_right:
            return b, depth
        depth += 1
        if near_left:
            b = left
        elif near_right:
            b = right
        elif left == be.NONE or right == be.NONE:  # a new one beside the only child
            new, only = nodes.like_bucket(tree, b, b), max(left, right)
            left, right = (new, only) if lo < at(tree.box, only * be.BOX + be.LO) else (only, new)
            tree.link[b * be.LINK + be.LEFT], tree.link[b * be.LINK + be.RIGHT] = left, right
            return new, depth
        else:  # by place first: lengths at the far ends of the key line are rounded
            outer = lo > at(tree.box, right * be.BOX + be.HI)
            inner = hi < at(tree.box, left * be.BOX + be.LO)
            less = grown(tree, left, lo, hi) < grown(tree, right, lo, hi)
            b = left if inner or (less and not outer) else right


@embedded
def new_parent(tree: TreeArrays, b: int) -> int:
    """Make a bucket in the place of b, with b as its left child and nothing of its own yet."""
    new = nodes.like_bucket(tree, b, be.NONE)
    nodes.replace_child(tree, b, new)
    tree.link[new * be.LINK + be.LEFT] = b
    tree.link[b * be.LINK + be.PARENT] = new
    tree.more[new * be.MORE + be.BELOW] = tree.more[b * be.MORE + be.BELOW]
    tree.more[new * be.MORE + be.CHANGED] = tree.more[b * be.MORE + be.CHANGED]
    for end in range(be.HI + 1):
        tree.box[new * be.BOX + end] = tree.box[b * be.BOX + end]
    for i in range(2 * (tree.more[b * be.MORE + be.LEVEL] - 1)):
        tree.rim[tree.more[new * be.MORE + be.RIM] + i] = tree.rim[tree.more[b * be.MORE + be.RIM] + i]
    nodes.copy_bounds(tree, 2 * b, 2 * new)
    return new


@embedded
def out_of_balance(tree: TreeArrays, b: int) -> int:
    """The lowest bucket above b whose depth below exceeds what its number of clauses warrants, or NONE."""
    height = 0
    while b != be.NONE:
        lnodes = tree.more[b * be.MORE + be.BELOW] / tree.head[be.CAPACITY] + 1.0
        if height > int(LEVEL_DEPTH) + DEPTH_FACTOR * math.log2(lnodes):
            return b
        b = at(tree.link, b * be.LINK + be.PARENT)
        height += 1
    return be.NONE


@kernel
def new_pnodes(tree: TreeArrays, attributes: I32) -> None:
    """Make empty p-nodes at the root, whose root buckets take any number of clauses until they are settled."""
    for i in range(len(attributes)):
        p = nodes.new_pnode(tree, be.ROOT, whole(attributes[i]))
        tree.more[tree.pnode[p * be.PART + be.PROOT] * be.MORE + be.LIMIT] = be.UNLIMITED


# --- BE-Tree: cells instead of bounding boxes ----------------------------------------------------------------------


@embedded
def enter_cells(tree: TreeArrays, b: int, lo: int, hi: int) -> tuple[int, int]:
    """The smallest existing cell that holds [lo, hi], and its depth; makes a cell if needed."""
    if tree.box[b * be.BOX + be.LO] > tree.box[b * be.BOX + be.HI]:  # a new p-node: its first clause gives the domain
        nodes.set_cell(tree, b, *nodes.cell_around(lo, hi))
        return b, 0
    depth = 0
    while True:
        low, high = tree.box[b * be.BOX + be.LO], tree.box[b * be.BOX + be.HI]
        if lo < low or hi > high:
            new = new_parent(tree, b)
            low, high = nodes.cell_around(min(lo, low), max(hi, high))
            nodes.set_cell(tree, new, low, high)
            if tree.box[b * be.BOX + be.LO] > nodes.middle_of(low, high):
                tree.link[new * be.LINK + be.LEFT], tree.link[new * be.LINK + be.RIGHT] = be.NONE, b
            b = new
        elif tree.link[b * be.LINK + be.LEFT] == be.NONE and tree.link[b * be.LINK + be.RIGHT] == be.NONE:
            return b, depth
        middle = nodes.middle_of(low, high)
        if lo <= middle and hi > middle:
            return b, depth
        side = be.RIGHT if lo > middle else be.LEFT
        child = whole(tree.link[b * be.LINK + side])
        depth += 1
        if child == be.NONE:
            new = nodes.like_bucket(tree, b, b)
            nodes.set_cell(tree, new, middle + 1 if lo > middle else low, high if lo > middle else middle)
            tree.link[b * be.LINK + side] = new
            return new, depth
        b = child


# --- removing ----------------------------------------------------------------------------------------------------

LONG = 1024
"""An l-node with more entries is renewed once a sixteenth of it has changed."""


@kernel
def remove_clauses(
    tree: TreeArrays, table: SegmentArrays, clauses: I32, i: int, path: Path, other: Path
) -> tuple[int, int]:
    """Remove clauses from number i on; returns the next number, and DONE or CRAMPED."""
    while i < len(clauses):
        if len(tree.sign) - tree.head[be.ENTRIES] < 2 * tree.head[be.CAPACITY] + 16:
            return i, int(CRAMPED)
        clause = whole(clauses[i])
        i += 1
        b = whole(tree.where[clause])
        if b == be.NONE:
            continue
        slot, most = whole(tree.slot[clause]), nodes.weights_of(table, clause)
        boxes_of(table, clause, path_to(tree, b, path), path)
        nodes.free_record(tree, tree.record[tree.place[clause]])
        nodes.cut_entry(tree, b, clause)
        tree.head[be.CLAUSES] -= 1
        changed, a = True, b
        while a != be.NONE:
            up = nodes.above(tree, a)
            tree.more[a * be.MORE + be.BELOW] -= 1
            tree.more[a * be.MORE + be.CHANGED] += 1
            if tree.more[a * be.MORE + be.LEVEL] == 0:  # the bounds of the root's own l-node only ever widen
                break
            if tree.more[a * be.MORE + be.BELOW] == 0:
                if tree.link[a * be.LINK + be.PARENT] == be.NONE:
                    nodes.free_pnode(tree, tree.more[a * be.MORE + be.PNODE])
                else:
                    nodes.replace_child(tree, a, be.NONE)
                nodes.free_bucket(tree, a)
            elif not _give_way(tree, a):
                if changed:
                    changed = at_edge(tree, table, a, clause, slot, most, path)
                    count = tree.link[a * be.LINK + be.COUNT]
                    if changed and (count <= int(LONG) or tree.more[a * be.MORE + be.CHANGED] % (count >> 4) == 0):
                        changed = renew(tree, table, a, other)
                    elif changed:
                        tree.head[be.LOOSE] += 1
                _absorb(tree, a)
            a = up
    return i, int(DONE)


@embedded
def _give_way(tree: TreeArrays, b: int) -> bool:
    """Replace a bucket without entries or p-nodes by its only child; whether that was done."""
    link = b * be.LINK
    left, right = tree.link[link + be.LEFT], tree.link[link + be.RIGHT]
    if tree.link[link + be.COUNT] or tree.link[link + be.WIDTH] or (left == be.NONE) == (right == be.NONE):
        return False
    nodes.replace_child(tree, b, max(left, right))
    nodes.free_bucket(tree, b)
    return True


@embedded
def _absorb(tree: TreeArrays, b: int) -> None:
    """Merge rule: move the clauses of the children into an open bucket when all of them together fill half a leaf."""
    left, right = tree.link[b * be.LINK + be.LEFT], tree.link[b * be.LINK + be.RIGHT]
    if (left == be.NONE and right == be.NONE) or 2 * tree.more[b * be.MORE + be.BELOW] > tree.head[be.CAPACITY]:
        return
    for side in range(2):
        child = tree.link[b * be.LINK + be.LEFT + side]
        if tree.link[b * be.LINK + be.WIDTH] or (child != be.NONE and not nodes.is_open_leaf(tree, child)):
            return
    for side in range(2):
        child = whole(tree.link[b * be.LINK + be.LEFT + side])
        if child != be.NONE:
            first = tree.link[child * be.LINK + be.FIRST]
            for e in range(first, first + tree.link[child * be.LINK + be.COUNT]):
                clause, record = whole(tree.clause[e]), whole(tree.record[e])
                nodes.put_entry(tree, b, tree.sign[e], clause, record, np.float64(tree.most[e]))
            nodes.free_bucket(tree, child)
            tree.link[b * be.LINK + be.LEFT + side] = be.NONE
    for end in range(be.HI + 1):
        tree.box[b * be.BOX + be.OWN_LO + end] = tree.box[b * be.BOX + end]
    nodes.copy_bounds(tree, 2 * b, 2 * b + 1)


# --- the writer --------------------------------------------------------------------------------------------------


class TreeChange:
    """One change of a tree; `tree` is the result."""

    def __init__(self, tree: TreeArrays, table: SegmentArrays) -> None:
        self.tree = with_clauses(tree, len(table.constraint_start) - 1)
        self._table = table
        self._path, self._other = new_path(), new_path()
        if len(table.weight) and not len(tree.peak):  # the first weights: now there are maxima of them
            peak = np.zeros(2 * be.BINS * (len(tree.link) // be.LINK), np.float32)
            self.tree = self.tree._replace(peak=peak)
            settling.renew_all(self.tree, table, self._path)

    # --- what the index asks for -----------------------------------------------------------------------------

    def build(self, slots: I32) -> None:
        """Insert slots all at once (BE*-B) into an empty tree."""
        clauses = self._clauses_of(slots)
        self.tree = with_room(self.tree, entries=2 * len(clauses) + 64)
        settling.fill_root(self.tree, self._table, clauses)
        self._settle(be.ROOT)
        self.tidy()

    def insert(self, slots: I32) -> None:
        """Insert slots, clause by clause; from time to time, lay out again what has come to be scattered."""
        clauses = self._clauses_of(slots)
        self._insert(clauses)
        self.tree.head[be.UNPACKED] += len(clauses)
        if PACK_SHARE * self.tree.head[be.UNPACKED] > self.tree.head[be.CLAUSES]:
            self._pack()

    def _insert(self, clauses: I32, aims: I32 = NO_AIMS) -> None:
        done = 0
        while done < len(clauses):
            done, why, b = insert_clauses(self.tree, self._table, clauses, aims, done, self._path)
            if why == OVERFLOW:
                self._settle(b)
            elif why == DEEP:
                self._rebuild(b)
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

    def rebuild_all(self) -> None:
        """Cluster and partition all clauses again."""
        self._rebuild(be.ROOT)
        self.tidy()

    def cluster_again(self, pnodes: I64) -> int:
        """Cluster and partition the clauses of p-nodes again; returns their number."""
        done = 0
        for p in pnodes.tolist():
            owner, root = (int(self.tree.pnode[p * be.PART + field]) for field in (be.POWNER, be.PROOT))
            if owner != be.NONE:  # else it was freed with one above it
                done += int(self.tree.more[root * be.MORE + be.BELOW])
                self._rebuild(root)
        return done

    def recycle(self, pnodes: I64, clauses: I32, aims: I32) -> int:
        """Remove p-nodes and insert their clauses again, and move clauses to p-nodes of the root; returns their number.

        This is no wear: what the index was asked to change since its parts were built is counted as before.
        """
        changed = self.tree.more[be.CHANGED :: be.MORE][: self.tree.head[be.BUCKETS]].copy()
        done = [clauses]
        for p in pnodes.tolist():
            owner, root = (int(self.tree.pnode[p * be.PART + field]) for field in (be.POWNER, be.PROOT))
            if owner != be.NONE:
                done.append(self._recycle(owner, root))
        if len(clauses):
            self._move(clauses, aims)
        after = self.tree.more[be.CHANGED :: be.MORE]
        np.minimum(after[: len(changed)], changed, out=after[: len(changed)])
        after[len(changed) :] = 0
        return len(np.unique(np.concatenate(done)))

    # --- inside ----------------------------------------------------------------------------------------------

    def _move(self, clauses: I32, aims: I32) -> None:
        """Insert clauses again below the root's p-nodes of these attributes, which are made where there are none."""
        self._remove(clauses)
        first, width = (int(self.tree.link[be.ROOT * be.LINK + field]) for field in (be.PDIR, be.WIDTH))
        fresh = np.setdiff1d(aims, self.tree.pdir_attr[first : first + width])
        waiting = self._keyed_at_root(fresh)
        more = len(fresh) + GENEROUS
        self.tree = with_room(self.tree, buckets=more, pnodes=more, pdirs=4 * (more + width))
        new_pnodes(self.tree, fresh)
        self._remove(waiting)
        self._insert(clauses, aims)
        self._insert(waiting)
        rows = self.tree.more.reshape(-1, be.MORE)[: self.tree.head[be.BUCKETS]]
        for b in np.flatnonzero((rows[:, be.LIMIT] == be.UNLIMITED) & (rows[:, be.LEVEL] > 0)).tolist():
            self.tree.more[b * be.MORE + be.LIMIT] = self.tree.head[be.CAPACITY]
            self._settle(b)

    def _keyed_at_root(self, attributes: I32) -> I32:
        """The clauses of the root's own l-node that p-nodes of these attributes can take."""
        first, count = (int(self.tree.link[be.ROOT * be.LINK + field]) for field in (be.FIRST, be.COUNT))
        clauses = self.tree.clause[first : first + count]
        starts, c = spread(self._table.constraint_start, clauses.astype(np.int64))
        able = np.isin(self._table.attr[c], attributes) & (self._table.accepts_null[c] == 0)
        return np.unique(np.repeat(clauses, np.diff(starts))[able])

    def _recycle(self, owner: int, root: int) -> I32:
        """Remove a p-node and insert its clauses again; returns these."""
        self._collapse(root)
        first, count = (int(self.tree.link[root * be.LINK + field]) for field in (be.FIRST, be.COUNT))
        clauses = self.tree.clause[first : first + count].copy()
        self._remove(clauses)
        if self.tree.more[owner * be.MORE + be.LEVEL] != be.NONE:  # else it was freed with its last clause
            self.tree.more[owner * be.MORE + be.LIMIT] = be.UNLIMITED  # they are partitioned together, not one by one
        self._insert(clauses)
        if self.tree.more[owner * be.MORE + be.LEVEL] != be.NONE:
            self.tree.more[owner * be.MORE + be.LIMIT] = self.tree.head[be.CAPACITY]
            self._settle(owner)
        return clauses

    def _rebuild(self, b: int) -> None:
        """Cluster and partition all clauses of a bucket again."""
        self._collapse(b)
        self._settle(b)

    def _collapse(self, b: int) -> None:
        """Move all clauses of a bucket into its own l-node."""
        while not settling.collapse(self.tree, self._table, b, self._path):
            self._make_room(entries=3 * int(self.tree.more[b * be.MORE + be.BELOW]) + 16 * GENEROUS)

    def _clauses_of(self, slots: I32) -> I32:
        """The clauses of slots of the table; notes their slots and makes room for their attributes."""
        count = len(self._table.clause_start) - 1
        if len(slots) and not (slots.min() >= 0 and slots.max() < count):
            raise EarmarkError(f"expected slots from 0 to {count - 1}, got {slots.min()} to {slots.max()}")
        starts, clauses = spread(self._table.clause_start, slots.astype(np.int64))
        self.tree.slot[clauses] = np.repeat(slots, np.diff(starts))
        constraints = spread(self._table.constraint_start, clauses)[1]
        self.tree = with_attributes(self.tree, int(self._table.attr[constraints].max(initial=-1)) + 1)
        return clauses.astype(np.int32)

    def tidy(self) -> None:
        """Compute boxes and bounds from scratch, and lay everything out without gaps."""
        settling.renew_all(self.tree, self._table, self._path)
        self._pack()

    def _pack(self, spare_entries: int = 0, spare_words: int = 0) -> None:
        """Lay out entries and records in the order of the tree, without gaps but with room at the end."""
        tree, size = self.tree, int(self.tree.head[be.CLAUSES]) + spare_entries
        sizes = np.diff(self._table.constraint_start)[tree.where[: len(self._table.constraint_start) - 1] >= 0]
        sizes = sizes[sizes <= be.LONGEST_RECORD].astype(np.int64)
        words = int((((sizes + 4) >> 2) + 2 * sizes).sum())  # the most that their records can take
        fresh = {name: np.empty(size, getattr(tree, name).dtype) for name in ("sign", "clause", "record", "most")}
        into = tree._replace(**fresh, word=np.empty(words + spare_words, np.int64))
        settling.pack(tree, self._table, into)
        into.head[be.UNPACKED] = 0
        self.tree = into if spare_entries else trimmed(into)

    def _make_room(self, entries: int, **units: int) -> None:
        """Grow arrays, after packing entries and records when half of them is waste."""
        head = self.tree.head
        if head[be.ENTRIES] > 2 * head[be.CLAUSES] + 1024 or head[be.WORDS] > 2 * head[be.LIVE_WORDS] + 1024:
            self._pack(int(head[be.CLAUSES]) // 2 + entries, int(head[be.LIVE_WORDS]) // 2 + 16 * GENEROUS)
        more = {group: 4 * extra + GENEROUS for group, extra in units.items()}
        self.tree = with_room(self.tree, weighted=False, entries=entries, **more)

    def _settle(self, b: int) -> None:
        """Split a bucket, and the buckets that result, until all are within their limits."""
        first, count = (int(self.tree.link[b * be.LINK + field]) for field in (be.FIRST, be.COUNT))
        if count <= self.tree.more[b * be.MORE + be.LIMIT]:
            return
        clauses, starts = self.tree.clause[first : first + count], self._table.constraint_start
        desk = settling.new_desk(count, int((starts[clauses + 1] - starts[clauses]).sum()), len(self.tree.rate))
        desk.todo[0] = b
        todo = 1
        while todo:
            b = int(desk.todo[todo - 1])
            count, width = (int(self.tree.link[b * be.LINK + field]) for field in (be.COUNT, be.WIDTH))
            parts = max(2, min(len(desk.share), count // int(self.tree.head[be.LEAST]) + 1))
            more, pdirs = parts + GENEROUS, 4 * (parts + width) + GENEROUS
            self.tree = with_room(self.tree, buckets=more, pnodes=more, rims=more * 2 * be.LEVELS, pdirs=pdirs)
            todo = settling.settle(self.tree, self._table, desk, self._path, todo)
