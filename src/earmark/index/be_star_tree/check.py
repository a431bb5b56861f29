"""Is this a BE*-Tree? What kernels rely on (`check_shape`), and the invariant of the structure (`check_tree`).

`check_shape` looks at numbers alone: every link, run and place is inside its array. `walk` then follows the links from
the root with that certainty, and `check_tree` compares boxes and bounds with those computed from scratch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import earmark.index.be_star_tree.arrays as be
import earmark.index.be_star_tree.nodes as nodes
from earmark.errors import require
from earmark.flat.arrays import I32, I64, U8
from earmark.flat.machine import at
from earmark.index.be_star_tree.arrays import TreeArrays, copied
from earmark.index.be_star_tree.bounds import Path, boxes_of, new_path, path_to
from earmark.index.be_star_tree.nodes import whole
from earmark.index.be_star_tree.settle import renew_all
from earmark.index.stored import check_types
from earmark.jit import embedded, kernel
from earmark.segment.arrays import SegmentArrays

PROBLEMS = (
    "",
    "a bucket is reached twice",
    "a bucket's link to the bucket above it is wrong",
    "a p-directory does not ascend by attribute, or lists a p-node of another",
    "an attribute partitions twice on one path",
    "left and right overlap",
    "a bucket's count of clauses is wrong",
    "an l-node has a clause that is recorded elsewhere",
    "a clause is below an attribute that it has no constraint on, or one that accepts NULL",
    "a clause is outside its bucket's box",
    "a signature is wrong",
    "a record differs from its clause",
    "a clause that can never match is in the tree, or one that can is not",
    "a cell is not inside its parent's half",
)
FINE, TWICE, ADRIFT, DIRECTORY, REPEATED, OVERLAP, MISCOUNT = range(7)
MISPLACED, UNKEYED, OUTSIDE, WRONG_SIGN, WRONG_RECORD, WRONG_SIDE, WRONG_CELL = range(7, len(PROBLEMS))
CIRCLE = "a free list runs in a circle or leaves its array"


def check_shape(tree: TreeArrays, table: SegmentArrays) -> None:
    """Raise AssertionError unless every number that a kernel follows is in range. O(size), without kernels."""
    check_types(tree)
    head = tree.head
    require(len(head) == be.HEAD and len(tree.knob) == be.KNOB, "head or knob has the wrong length")
    require(bool(np.isfinite(tree.knob).all()), "a setting is not finite")
    for field in (be.CAPACITY, be.LEAST):
        require(1 <= head[field] <= 2**30, "the leaf capacity is not a positive number")
    for group, (used, widths) in be.GROUPS.items():
        require(0 <= head[used] <= 2**31 - 1, f"the number of {group} is out of range")
        for name, width in widths.items():
            if name != "peak" or len(tree.peak):
                require(len(getattr(tree, name)) >= head[used] * width, f"{name} is too short for its {group}")
    buckets, pnodes, clauses = int(head[be.BUCKETS]), int(head[be.PNODES]), len(table.constraint_start) - 1
    require(buckets > be.NEVER, "the root is missing")
    require(len(tree.where) == len(tree.place) == len(tree.slot), "where, place and slot differ in length")
    require(len(tree.where) >= clauses, "there are clauses without a place")
    attributes = len(tree.rate)
    require(len(tree.apart) == attributes and attributes > table.attr.max(initial=-1), "attributes are missing")
    require(bool(np.isfinite(tree.rate).all() and np.isfinite(tree.apart).all()), "rate or apart is not finite")
    link, more = (_rows(tree, name, buckets).astype(np.int64) for name in ("link", "more"))
    live = more[:, be.LEVEL] != be.NONE
    link, more = link[live], more[live]
    for field in (be.LEFT, be.RIGHT, be.PARENT):
        _within(link[:, field], be.NONE, buckets, "a bucket's link")
    _within(link[:, be.ATTR], be.NONE, attributes, "a bucket's attribute")
    _within(more[:, be.PNODE], be.NONE, pnodes, "a bucket's p-node")
    _within(more[:, be.LEVEL], 0, be.LEVELS + 1, "a bucket's level")
    _run(link[:, be.FIRST], link[:, be.COUNT], more[:, be.ROOM], int(head[be.ENTRIES]), "an l-node")
    _run(link[:, be.PDIR], link[:, be.WIDTH], more[:, be.PDIR_ROOM], int(head[be.PDIRS]), "a p-directory")
    deep = more[more[:, be.LEVEL] > 1]
    _run(deep[:, be.RIM], 2 * deep[:, be.LEVEL] - 2, 2 * deep[:, be.LEVEL] - 2, int(head[be.RIMS]), "an inactive box")
    deeper = more[:, be.LEVEL] > 0
    require(bool((link[deeper, be.ATTR] >= 0).all() and (more[deeper, be.PNODE] >= 0).all()), "a bucket has no p-node")
    require(not deeper[: be.NEVER + 1].any() and deeper.sum() == len(deeper) - 2, "the root is not where it should be")
    part = _rows(tree, "pnode", pnodes).astype(np.int64)
    part = part[part[:, be.POWNER] != be.NONE]
    _within(part[:, be.PATTR], 0, attributes, "a p-node's attribute")
    _within(part[:, be.PROOT], 0, buckets, "a p-node's root")
    _within(part[:, be.POWNER], 0, buckets, "a p-node's owner")
    dirs = _positions(link[:, be.PDIR], link[:, be.WIDTH])
    _within(tree.pdir_node[dirs].astype(np.int64), 0, pnodes, "a p-directory's p-node")
    _within(tree.pdir_attr[dirs].astype(np.int64), 0, attributes, "a p-directory's attribute")
    _check_entries(tree, table, _positions(link[:, be.FIRST], link[:, be.COUNT]), clauses)


def _check_entries(tree: TreeArrays, table: SegmentArrays, entries: I64, clauses: int) -> None:
    """Check the clauses, slots and records of the entries in use."""
    clause = tree.clause[entries].astype(np.int64)
    _within(clause, 0, clauses, "an entry's clause")
    require(len(np.unique(clause)) == len(clause), "a clause is in two places")
    slots = tree.slot[clause].astype(np.int64)
    _within(slots, 0, len(table.clause_start) - 1, "a clause's slot")
    fits = (table.clause_start[slots] <= clause) & (clause < table.clause_start[slots + 1])
    require(bool(fits.all()), "a clause has the slot of another")
    record = tree.record[entries].astype(np.int64)
    _within(record, be.NONE, int(tree.head[be.WORDS]), "a record")
    held = record != be.NONE
    size = np.diff(table.constraint_start)[clause[held]].astype(np.int64)
    require(bool((tree.word[record[held]] & 0xFFFF == size).all()), "a record's length is not that of its clause")
    require(bool((size <= be.LONGEST_RECORD).all()), "a record is too long")
    end = record[held] + ((size + 4) >> 2) + 2 * size
    require(bool((end <= tree.head[be.WORDS]).all()), "a record leaves its array")


def _within(values: NDArray[Any], first: int, end: int, what: str) -> None:
    require(not len(values) or (values.min() >= first and values.max() < end), f"{what} leads nowhere")


def _run(first: I64, count: I64, room: I64, end: int, what: str) -> None:
    bad = (first < 0) & (room > 0) | (count < 0) | (room < count) | (first + room > end)
    require(not bad.any(), f"{what} leaves its array")


def _rows(tree: TreeArrays, name: str, units: int) -> NDArray[Any]:
    """An array of a tree as one row per bucket or p-node."""
    width = next(widths[name] for _, widths in be.GROUPS.values() if name in widths)
    rows: NDArray[Any] = getattr(tree, name)[: units * width].reshape(-1, width)
    return rows


def _positions(first: I64, count: I64) -> I64:
    """All positions of some runs, one run after another."""
    ends = np.cumsum(count)
    places: I64 = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - (ends - count), count)
    return places


def check_tree(tree: TreeArrays, table: SegmentArrays) -> None:
    """Raise AssertionError, naming what is broken, unless the invariant of the structure holds."""
    check_shape(tree, table)
    buckets = int(tree.head[be.BUCKETS])
    seen, stack = np.zeros(buckets, np.uint8), np.empty(buckets + 1, np.int32)
    counts = np.zeros(3, np.int64)
    problem, place = walk(tree, table, seen, stack, counts, new_path())
    require(problem == FINE, f"{PROBLEMS[problem]} (at {place})")
    fields = {"buckets": be.LIVE_BUCKETS, "p-nodes": be.LIVE_PNODES, "clauses": be.CLAUSES}
    for count, (what, field) in zip(counts.tolist(), fields.items(), strict=True):
        require(count == tree.head[field], f"expected {tree.head[field]} {what}, got {count}")
    recorded = int((tree.where[: len(table.constraint_start) - 1] != be.NONE).sum())
    require(recorded == counts[2], f"{recorded} clauses are recorded, but the tree has {counts[2]}")
    free_buckets, free_pnodes = _free_nodes(tree)
    require(free_buckets + counts[0] == buckets, "buckets have leaked")
    require(free_pnodes + counts[1] == tree.head[be.PNODES], "p-nodes have leaked")
    _check_values(tree, table, np.flatnonzero(seen))


def _check_values(tree: TreeArrays, table: SegmentArrays, live: I64) -> None:
    """Compare boxes and bounds with those computed from scratch."""
    fresh, buckets = copied(tree), int(tree.head[be.BUCKETS])
    renew_all(fresh, table, np.empty(buckets + 1, np.int32), np.empty(buckets + 1, np.int32), new_path())
    below = live[live > be.NEVER]  # the bounds of the root's own l-node only ever widen
    exact = not tree.head[be.LOOSE]
    box, true_box = (_rows(t, "box", buckets)[below] for t in (tree, fresh))
    require(bool((box == true_box).all()) or not exact, "a box is not the bounding box of its clauses")
    contained = (box[:, ::2] <= true_box[:, ::2]) & (box[:, 1::2] >= true_box[:, 1::2])
    require(bool(contained.all()), "a box does not hold its clauses")
    if not tree.head[be.RIGID]:
        more = _rows(tree, "more", buckets)[below].astype(np.int64)
        more = more[more[:, be.LEVEL] > 1]
        places = _positions(more[:, be.RIM], 2 * more[:, be.LEVEL] - 2)
        rim, true_rim = tree.rim[places], fresh.rim[places]
        wider = np.where(np.arange(len(places)) % 2 == 0, rim <= true_rim, rim >= true_rim)
        holds = rim == true_rim if exact else wider
        require(bool(holds.all()), "an inactive box is not the bounding box of its clauses")
    for name in ("top", "peak") if len(tree.peak) else ("top",):
        bound, true_bound = (_rows(t, name, buckets)[below] for t in (tree, fresh))
        holds = bound == true_bound if exact else bound >= true_bound
        require(bool(holds.all()), f"a bound on scores ({name}) is not the maximum of its clauses")
    first, true_first = (_rows(t, "first", buckets) for t in (tree, fresh))
    require(bool((first[below] <= true_first[below]).all()), "a bucket has a smaller sequence than its bound")
    require(bool((first[: be.NEVER + 1, 1] <= true_first[: be.NEVER + 1, 1]).all()), "the root has a smaller sequence")
    top, true_top = (_rows(t, "top", buckets)[: be.NEVER + 1, be.OWN_STATIC :] for t in (tree, fresh))
    require(bool((top >= true_top).all()), "the root has a greater score than its bound")


@kernel
def walk(tree: TreeArrays, table: SegmentArrays, seen: U8, stack: I32, counts: I64, path: Path) -> tuple[int, int]:
    """Follow the tree from the root; returns the first problem and its bucket. Counts buckets, p-nodes, clauses."""
    stack[0], stack[1] = be.ROOT, be.NEVER
    height = 2
    while height:
        height -= 1
        b = whole(stack[height])
        if seen[b]:
            return int(TWICE), b
        seen[b] = 1
        counts[0] += 1
        counts[1] += tree.link[b * be.LINK + be.WIDTH]
        counts[2] += tree.link[b * be.LINK + be.COUNT]
        level, pnode = whole(tree.more[b * be.MORE + be.LEVEL]), whole(tree.more[b * be.MORE + be.PNODE])
        below = tree.link[b * be.LINK + be.COUNT]
        for side in range(2):
            child = tree.link[b * be.LINK + be.LEFT + side]
            if child != be.NONE:
                linked = _is_linked(tree, child, b, pnode, level, tree.link[b * be.LINK + be.ATTR])
                if level == 0 or height + 1 >= len(stack) or not linked:
                    return int(ADRIFT), child
                below += tree.more[child * be.MORE + be.BELOW]
                stack[height] = child
                height += 1
        problem = _check_sides(tree, b)
        if problem:
            return problem, b
        start, width = tree.link[b * be.LINK + be.PDIR], tree.link[b * be.LINK + be.WIDTH]
        for d in range(start, start + width):
            p = tree.pdir_node[d]
            root = tree.pnode[p * be.PART + be.PROOT]
            attr = tree.pdir_attr[d]
            if tree.pnode[p * be.PART + be.POWNER] != b or tree.pnode[p * be.PART + be.PATTR] != attr:
                return int(DIRECTORY), b
            if d > start and tree.pdir_attr[d - 1] >= attr:
                return int(DIRECTORY), b
            if not _is_linked(tree, root, be.NONE, whole(p), level + 1, attr):
                return int(ADRIFT), root
            if height + 1 >= len(stack):
                return int(TWICE), root
            below += tree.more[root * be.MORE + be.BELOW]
            stack[height] = root
            height += 1
        if below != tree.more[b * be.MORE + be.BELOW] or (below == 0 and level > 0):
            return int(MISCOUNT), b
        problem = _check_lnode(tree, table, b, path)
        if problem:
            return problem, b
    return int(FINE), 0


@embedded
def _is_linked(tree: TreeArrays, b: int, parent: int, pnode: int, level: int, attr: int) -> bool:
    """Whether a bucket has this parent, p-node, level and attribute."""
    link, more = b * be.LINK, b * be.MORE
    is_below = tree.link[link + be.PARENT] == parent and tree.more[more + be.PNODE] == pnode
    return bool(is_below and tree.more[more + be.LEVEL] == level and tree.link[link + be.ATTR] == attr)


@embedded
def _check_sides(tree: TreeArrays, b: int) -> int:
    """Check the descendant-repelling property; in a BE-Tree, that children are in their halves."""
    left, right = tree.link[b * be.LINK + be.LEFT], tree.link[b * be.LINK + be.RIGHT]
    if left != be.NONE and right != be.NONE and tree.box[left * be.BOX + be.HI] >= tree.box[right * be.BOX + be.LO]:
        return int(OVERLAP)
    for side in range(2):
        child = tree.link[b * be.LINK + be.LEFT + side]
        if child != be.NONE:
            low, high = tree.box[child * be.BOX + be.LO], tree.box[child * be.BOX + be.HI]
            if low < tree.box[b * be.BOX + be.LO] or high > tree.box[b * be.BOX + be.HI]:
                return int(WRONG_CELL)
    return int(FINE)


@embedded
def _check_lnode(tree: TreeArrays, table: SegmentArrays, b: int, path: Path) -> int:
    """Check the entries of one l-node."""
    level = path_to(tree, b, path)
    for i in range(1, level + 1):
        for j in range(1, i):
            if path.attr[i] == path.attr[j]:
                return int(REPEATED)
    first = tree.link[b * be.LINK + be.FIRST]
    for e in range(first, first + tree.link[b * be.LINK + be.COUNT]):
        clause = whole(tree.clause[e])
        if tree.where[clause] != b or tree.place[clause] != e:
            return int(MISPLACED)
        if nodes.never_holds(table, clause) != (b == be.NEVER):
            return int(WRONG_SIDE)
        for i in range(1, level + 1):
            c = nodes.constraint_on(table, clause, path.attr[i])
            if c == be.NONE or not nodes.can_key(table, c):
                return int(UNKEYED)
        boxes_of(table, clause, level, path)
        low, high = tree.box[b * be.BOX + be.OWN_LO], tree.box[b * be.BOX + be.OWN_HI]
        if level > 0 and (path.lo[level] < low or path.hi[level] > high):
            return int(OUTSIDE)
        if tree.sign[e] != nodes.signature(table, clause):
            return int(WRONG_SIGN)
        if not _record_is_right(tree, table, clause, tree.record[e]):
            return int(WRONG_RECORD)
    return int(FINE)


@embedded
def _record_is_right(tree: TreeArrays, table: SegmentArrays, clause: int, record: int) -> bool:
    """Whether a record agrees with the table; every plain clause has one."""
    if record == be.NONE or not nodes.is_plain(table, clause):
        return record == be.NONE and not nodes.is_plain(table, clause)
    begin, end = at(table.constraint_start, clause), at(table.constraint_start, clause + 1)
    n = end - begin
    pairs = record + ((n + 4) >> 2)
    for j in range(n):
        lane = j + 1
        attr = (tree.word[record + (lane >> 2)] >> (16 * (lane & 3))) & 0xFFFF
        if attr != at(table.attr, begin + j) or tree.word[pairs + 2 * j] != nodes.lowest(table, begin + j):
            return False
        if tree.word[pairs + 2 * j + 1] != nodes.highest(table, begin + j):
            return False
    return True


def _free_nodes(tree: TreeArrays) -> tuple[int, int]:
    """The numbers of free buckets and p-nodes; AssertionError unless all free lists are sound."""
    head = tree.head
    buckets = _free_list(tree.link[be.LEFT :: be.LINK], head[be.FREE_BUCKET], head[be.BUCKETS])
    marked = (buckets > be.NEVER) & (tree.more[buckets * be.MORE + be.LEVEL] == be.NONE)
    pnodes = _free_list(tree.pnode[be.PROOT :: be.PART], head[be.FREE_PNODE], head[be.PNODES])
    require(bool(marked.all() and (tree.pnode[pnodes * be.PART + be.POWNER] == be.NONE).all()), CIRCLE)
    for kind in range(be.CLASSES):
        runs = _free_list(tree.clause, head[be.FREE_RUNS + kind], head[be.ENTRIES])
        room = tree.record[runs].astype(np.int64)
        require(bool(((room >= nodes.SMALLEST_RUN) & (runs + room <= head[be.ENTRIES])).all()), CIRCLE)
        _free_list(tree.pdir_attr, head[be.FREE_PDIRS + kind], head[be.PDIRS])
    for level in range(be.LEVELS + 1):
        _free_list(tree.rim, head[be.FREE_RIMS + level], head[be.RIMS] - max(2 * level - 3, 0))
    for n in range(be.LONGEST_RECORD + 1):
        _free_list(tree.word, head[be.FREE_WORDS + n], head[be.WORDS] - nodes.record_words(n) + 1)
    return len(buckets), len(pnodes)


def _free_list(links: NDArray[Any], first: int, end: int) -> I64:
    """The elements of a free list, all of them below `end`."""
    elements = np.empty(max(int(end), 0) if first != be.NONE else 0, np.int64)
    count = follow(links, int(first), elements)
    require(count >= 0, CIRCLE)
    return elements[:count]


@kernel
def follow(links: NDArray[Any], first: int, elements: I64) -> int:
    """Write the elements of a linked list; their number, or -1 where it has more, or others, than there is room for."""
    count, i = 0, whole(first)
    while i != be.NONE:
        if i < 0 or i >= len(elements) or count == len(elements):
            return -1
        elements[count] = i
        count += 1
        i = whole(links[i])
    return count
