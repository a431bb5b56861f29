"""Is this a BE*-Tree? What kernels rely on (`check_shape`), and the invariant of the structure (`check_tree`).

`check_shape` looks at numbers alone: every link, run and place lies inside its array. `walk` then follows the links
from the root with that certainty, and `check_tree` compares boxes and bounds with those worked out from scratch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from earmark.errors import require
from earmark.flat.machine import at
from earmark.flat.types import I32, I64, U8
from earmark.index.be_star_tree.arrays import (
    ATTR,
    BELOW,
    BINS,
    BOX,
    BUCKETS,
    CAPACITY,
    CLASSES,
    CLAUSES,
    COUNT,
    ENTRIES,
    FIRST,
    FREE_BUCKET,
    FREE_PDIRS,
    FREE_PNODE,
    FREE_RIMS,
    FREE_RUNS,
    FREE_WORDS,
    GROUPS,
    HEAD,
    HI,
    KNOB,
    LEAST,
    LEFT,
    LEVEL,
    LEVELS,
    LINK,
    LIVE_BUCKETS,
    LIVE_PNODES,
    LO,
    LONGEST_RECORD,
    LOOSE,
    MORE,
    NEVER,
    NONE,
    OWN_HI,
    OWN_LO,
    PARENT,
    PART,
    PATTR,
    PDIR,
    PDIR_ROOM,
    PDIRS,
    PNODE,
    PNODES,
    POWNER,
    PROOT,
    RIGHT,
    RIGID,
    RIM,
    RIMS,
    ROOM,
    ROOT,
    TOP,
    WIDTH,
    WORDS,
    TreeArrays,
    copied,
)
from earmark.index.be_star_tree.bounds import Path, boxes_of, new_path, path_to
from earmark.index.be_star_tree.nodes import (
    can_key,
    constraint_on,
    highest,
    is_plain,
    lowest,
    never_holds,
    record_words,
    signature,
    whole,
)
from earmark.index.be_star_tree.settle import renew_all
from earmark.index.stored import check_types
from earmark.jit import embedded, kernel
from earmark.segment.arrays import SegmentArrays

PROBLEMS = (
    "",
    "a bucket is reached twice",
    "a bucket does not know what is above it",
    "a p-directory does not ascend by attribute, or lists a p-node that is not its own",
    "an attribute partitions twice on one path",
    "left and right overlap",
    "a bucket's count of clauses is wrong",
    "an l-node has a clause that is recorded elsewhere",
    "a clause lies under an attribute that it has no constraint on, or under one that accepts NULL",
    "a clause lies outside its bucket's box",
    "a signature is wrong",
    "a record is not its clause's",
    "a clause that can never match is in the tree, or one that can is not",
    "a cell is not inside its parent's half",
    "a free list runs in a circle or leaves its array",
)
(
    FINE,
    TWICE,
    ADRIFT,
    DIRECTORY,
    REPEATED,
    OVERLAP,
    MISCOUNT,
    MISPLACED,
    UNKEYED,
    OUTSIDE,
    WRONG_SIGN,
    WRONG_RECORD,
    WRONG_SIDE,
    WRONG_CELL,
    CIRCLE,
) = range(len(PROBLEMS))


def check_shape(tree: TreeArrays, table: SegmentArrays) -> None:
    """Raise AssertionError unless every number that a kernel follows lies where it should. O(size), no kernels."""
    check_types(tree)
    head = tree.head
    require(len(head) == HEAD and len(tree.knob) == KNOB, "head or knob has the wrong length")
    require(bool(np.isfinite(tree.knob).all()), "a setting is not finite")
    require(1 <= head[CAPACITY] <= 2**30 and 1 <= head[LEAST] <= 2**30, "the leaf capacity is not a positive number")
    for group, (used, widths) in GROUPS.items():
        require(0 <= head[used] <= 2**31 - 1, f"the number of {group} is not one")
        for name, width in widths.items():
            if name != "peak" or len(tree.peak):
                require(len(getattr(tree, name)) >= head[used] * width, f"{name} is too short for its {group}")
    buckets, pnodes, clauses = int(head[BUCKETS]), int(head[PNODES]), len(table.constraint_start) - 1
    require(buckets > NEVER, "the root is missing")
    require(len(tree.where) == len(tree.place) == len(tree.slot), "where, place and slot differ in length")
    require(len(tree.where) >= clauses, "there are clauses without a place")
    attributes = len(tree.rate)
    require(len(tree.apart) == attributes and attributes > table.attr.max(initial=-1), "attributes are missing")
    require(bool(np.isfinite(tree.rate).all() and np.isfinite(tree.apart).all()), "rate or apart is not finite")
    link, more = tree.link[: buckets * LINK].reshape(-1, LINK), tree.more[: buckets * MORE].reshape(-1, MORE)
    live = more[:, LEVEL] != NONE
    link, more = link[live].astype(np.int64), more[live].astype(np.int64)
    for field in (LEFT, RIGHT, PARENT):
        _within(link[:, field], NONE, buckets, "a bucket's link")
    _within(link[:, ATTR], NONE, attributes, "a bucket's attribute")
    _within(more[:, PNODE], NONE, pnodes, "a bucket's p-node")
    _within(more[:, LEVEL], 0, LEVELS + 1, "a bucket's level")
    _run(link[:, FIRST], link[:, COUNT], more[:, ROOM], int(head[ENTRIES]), "an l-node")
    _run(link[:, PDIR], link[:, WIDTH], more[:, PDIR_ROOM], int(head[PDIRS]), "a p-directory")
    deep = more[more[:, LEVEL] > 1]
    _run(deep[:, RIM], 2 * deep[:, LEVEL] - 2, 2 * deep[:, LEVEL] - 2, int(head[RIMS]), "an inactive box")
    deeper = more[:, LEVEL] > 0
    require(bool((link[deeper, ATTR] >= 0).all() and (more[deeper, PNODE] >= 0).all()), "a bucket has no p-node")
    require(not deeper[: NEVER + 1].any() and deeper.sum() == len(deeper) - 2, "the root is not where it should be")
    part = tree.pnode[: pnodes * PART].reshape(-1, PART).astype(np.int64)
    part = part[part[:, POWNER] != NONE]
    _within(part[:, PATTR], 0, attributes, "a p-node's attribute")
    _within(part[:, PROOT], 0, buckets, "a p-node's root")
    _within(part[:, POWNER], 0, buckets, "a p-node's owner")
    dirs = _positions(link[:, PDIR], link[:, WIDTH])
    _within(tree.pdir_node[dirs].astype(np.int64), 0, pnodes, "a p-directory's p-node")
    _within(tree.pdir_attr[dirs].astype(np.int64), 0, attributes, "a p-directory's attribute")
    _check_entries(tree, table, _positions(link[:, FIRST], link[:, COUNT]), clauses)


def _check_entries(tree: TreeArrays, table: SegmentArrays, entries: I64, clauses: int) -> None:
    """The clauses, slots and records of the entries in use."""
    clause = tree.clause[entries].astype(np.int64)
    _within(clause, 0, clauses, "an entry's clause")
    require(len(np.unique(clause)) == len(clause), "a clause is in two places")
    slots = tree.slot[clause].astype(np.int64)
    _within(slots, 0, len(table.clause_start) - 1, "a clause's slot")
    fits = (table.clause_start[slots] <= clause) & (clause < table.clause_start[slots + 1])
    require(bool(fits.all()), "a clause's slot is another's")
    record = tree.record[entries].astype(np.int64)
    _within(record, NONE, int(tree.head[WORDS]), "a record")
    held = record != NONE
    size = np.diff(table.constraint_start)[clause[held]].astype(np.int64)
    require(bool((tree.word[record[held]] & 0xFFFF == size).all()), "a record's length is not its clause's")
    require(bool((size <= LONGEST_RECORD).all()), "a record is too long")
    end = record[held] + ((size + 4) >> 2) + 2 * size
    require(bool((end <= tree.head[WORDS]).all()), "a record leaves its array")


def _within(values: NDArray[Any], first: int, end: int, what: str) -> None:
    require(not len(values) or (values.min() >= first and values.max() < end), f"{what} leads nowhere")


def _run(first: I64, count: I64, room: I64, end: int, what: str) -> None:
    bad = (first < 0) & (room > 0) | (count < 0) | (room < count) | (first + room > end)
    require(not bad.any(), f"{what} leaves its array")


def _positions(first: I64, count: I64) -> I64:
    """All positions of runs, one after another."""
    ends = np.cumsum(count)
    places: I64 = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - (ends - count), count)
    return places


def check_tree(tree: TreeArrays, table: SegmentArrays) -> None:
    """Raise AssertionError, naming what is broken, unless the invariant of the structure holds."""
    check_shape(tree, table)
    buckets = int(tree.head[BUCKETS])
    seen, stack = np.zeros(buckets, np.uint8), np.empty(buckets + 1, np.int32)
    counts = np.zeros(3, np.int64)
    problem, place = walk(tree, table, seen, stack, counts, new_path())
    require(problem == FINE, f"{PROBLEMS[problem]} (at {place})")
    require(counts[0] == tree.head[LIVE_BUCKETS], f"{tree.head[LIVE_BUCKETS]} buckets are said to live, {counts[0]} do")
    require(counts[1] == tree.head[LIVE_PNODES], f"{tree.head[LIVE_PNODES]} p-nodes are said to live, {counts[1]} do")
    require(counts[2] == tree.head[CLAUSES], f"{tree.head[CLAUSES]} clauses are said to be here, {counts[2]} are")
    recorded = int((tree.where[: len(table.constraint_start) - 1] != NONE).sum())
    require(recorded == counts[2], f"{recorded} clauses are recorded, {counts[2]} are here")
    free = np.zeros(2, np.int64)
    problem, place = free_lists(tree, free)
    require(problem == FINE, f"{PROBLEMS[problem]} (at {place})")
    require(free[0] + counts[0] == buckets, "buckets have leaked")
    require(free[1] + counts[1] == tree.head[PNODES], "p-nodes have leaked")
    _check_values(tree, table, np.flatnonzero(seen))


def _check_values(tree: TreeArrays, table: SegmentArrays, live: I64) -> None:
    """Boxes and bounds against those worked out from scratch."""
    fresh = copied(tree)
    buckets = len(tree.link) // LINK
    renew_all(fresh, table, np.empty(buckets + 1, np.int32), np.empty(buckets + 1, np.int32), new_path())
    below = live[live > NEVER]  # the bounds of the root's own l-node only ever widen
    exact = not tree.head[LOOSE]

    def rows(name: str, width: int) -> tuple[NDArray[Any], NDArray[Any]]:
        a, b = (getattr(t, name) for t in (tree, fresh))
        return (
            a[: len(a) // width * width].reshape(-1, width)[below],
            b[: len(b) // width * width].reshape(-1, width)[below],
        )

    box, true_box = rows("box", BOX)
    if exact:
        require(bool((box == true_box).all()), "a box is not the bounding box of its clauses")
    contained = (box[:, [LO, OWN_LO]] <= true_box[:, [LO, OWN_LO]]) & (
        box[:, [HI, OWN_HI]] >= true_box[:, [HI, OWN_HI]]
    )
    require(bool(contained.all()), "a box does not hold its clauses")
    if not tree.head[RIGID]:
        level = tree.more.reshape(-1, MORE)[below, LEVEL].astype(np.int64)
        rim = tree.more.reshape(-1, MORE)[below, RIM].astype(np.int64)
        at_ = _positions(rim[level > 1], 2 * level[level > 1] - 2)
        same, low = tree.rim[at_] == fresh.rim[at_], np.arange(len(at_)) % 2 == 0
        wider = np.where(low, tree.rim[at_] <= fresh.rim[at_], tree.rim[at_] >= fresh.rim[at_])
        require(bool((same if exact else wider).all()), "an inactive box is not the bounding box of its clauses")
    for name, width in (("top", TOP), ("peak", 2 * BINS))[: 2 if len(tree.peak) else 1]:
        bound, true_bound = rows(name, width)
        holds = bound == true_bound if exact else bound >= true_bound
        require(bool(holds.all()), f"a bound on scores ({name}) is not the maximum of its clauses")
    first, true_first = rows("first", 2)
    require(bool((first <= true_first).all()), "a bucket has a smaller sequence than it says")
    for b in (ROOT, NEVER):
        require(bool(tree.first[2 * b + 1] <= fresh.first[2 * b + 1]), "the root has a smaller sequence than it says")
        require(bool((tree.top[b * TOP + 2 : b * TOP + 4] >= fresh.top[b * TOP + 2 : b * TOP + 4]).all()), "a bound")


@kernel
def walk(tree: TreeArrays, table: SegmentArrays, seen: U8, stack: I32, counts: I64, path: Path) -> tuple[int, int]:
    """Follow the tree from the root; the first problem and its bucket. Counts buckets, p-nodes, clauses."""
    stack[0], stack[1] = int(ROOT), int(NEVER)
    height = 2
    while height:
        height -= 1
        b = whole(stack[height])
        if seen[b]:
            return int(TWICE), b
        seen[b] = 1
        counts[0] += 1
        counts[1] += tree.link[b * LINK + WIDTH]
        counts[2] += tree.link[b * LINK + COUNT]
        level = tree.more[b * MORE + LEVEL]
        below = tree.link[b * LINK + COUNT]
        for side in range(2):
            child = tree.link[b * LINK + LEFT + side]
            if child != int(NONE):
                if level == 0 or height + 1 >= len(stack) or not _belongs(tree, child, b, level):
                    return int(ADRIFT), child
                below += tree.more[child * MORE + BELOW]
                stack[height] = child
                height += 1
        problem = _check_sides(tree, b)
        if problem:
            return problem, b
        start, width = tree.link[b * LINK + PDIR], tree.link[b * LINK + WIDTH]
        for d in range(start, start + width):
            p = tree.pdir_node[d]
            root = tree.pnode[p * PART + PROOT]
            attr = tree.pdir_attr[d]
            if tree.pnode[p * PART + POWNER] != b or tree.pnode[p * PART + PATTR] != attr:
                return int(DIRECTORY), b
            if d > start and tree.pdir_attr[d - 1] >= attr:
                return int(DIRECTORY), b
            linked = tree.more[root * MORE + PNODE] == p and tree.link[root * LINK + PARENT] == int(NONE)
            if not linked or tree.more[root * MORE + LEVEL] != level + 1 or tree.link[root * LINK + ATTR] != attr:
                return int(ADRIFT), root
            if height + 1 >= len(stack):
                return int(TWICE), root
            below += tree.more[root * MORE + BELOW]
            stack[height] = root
            height += 1
        if below != tree.more[b * MORE + BELOW] or (below == 0 and level > 0):
            return int(MISCOUNT), b
        problem = _check_lnode(tree, table, b, path)
        if problem:
            return problem, b
    return int(FINE), 0


@embedded
def _belongs(tree: TreeArrays, child: int, b: int, level: int) -> bool:
    """Whether a child agrees with its parent about where it is."""
    return bool(
        tree.link[child * LINK + PARENT] == b
        and tree.more[child * MORE + LEVEL] == level
        and tree.more[child * MORE + PNODE] == tree.more[b * MORE + PNODE]
        and tree.link[child * LINK + ATTR] == tree.link[b * LINK + ATTR]
    )


@embedded
def _check_sides(tree: TreeArrays, b: int) -> int:
    """The descendant-repelling property; in a BE-Tree, that children lie in their halves."""
    left, right = tree.link[b * LINK + LEFT], tree.link[b * LINK + RIGHT]
    if left != int(NONE) and right != int(NONE) and tree.box[left * BOX + HI] >= tree.box[right * BOX + LO]:
        return int(OVERLAP)
    for side in range(2):
        child = tree.link[b * LINK + LEFT + side]
        if child != int(NONE):
            low, high = tree.box[child * BOX + LO], tree.box[child * BOX + HI]
            if low < tree.box[b * BOX + LO] or high > tree.box[b * BOX + HI]:
                return int(WRONG_CELL)
    return int(FINE)


@embedded
def _check_lnode(tree: TreeArrays, table: SegmentArrays, b: int, path: Path) -> int:
    """The entries of one l-node."""
    level = path_to(tree, b, path)
    for i in range(1, level + 1):
        for j in range(1, i):
            if path.attr[i] == path.attr[j]:
                return int(REPEATED)
    first = tree.link[b * LINK + FIRST]
    for e in range(first, first + tree.link[b * LINK + COUNT]):
        clause = whole(tree.clause[e])
        if tree.where[clause] != b or tree.place[clause] != e:
            return int(MISPLACED)
        if never_holds(table, clause) != (b == int(NEVER)):
            return int(WRONG_SIDE)
        for i in range(1, level + 1):
            c = constraint_on(table, clause, path.attr[i])
            if c == int(NONE) or not can_key(table, c):
                return int(UNKEYED)
        boxes_of(table, clause, level, path)
        if level > 0 and (path.lo[level] < tree.box[b * BOX + OWN_LO] or path.hi[level] > tree.box[b * BOX + OWN_HI]):
            return int(OUTSIDE)
        if tree.sign[e] != signature(table, clause):
            return int(WRONG_SIGN)
        if not _record_is_right(tree, table, clause, tree.record[e]):
            return int(WRONG_RECORD)
    return int(FINE)


@embedded
def _record_is_right(tree: TreeArrays, table: SegmentArrays, clause: int, record: int) -> bool:
    """Whether a record says what the table says; every plain clause has one."""
    if record == int(NONE) or not is_plain(table, clause):
        return record == int(NONE) and not is_plain(table, clause)
    begin, end = at(table.constraint_start, clause), at(table.constraint_start, clause + 1)
    n = end - begin
    pairs = record + ((n + 4) >> 2)
    for j in range(n):
        lane = j + 1
        attr = (tree.word[record + (lane >> 2)] >> (16 * (lane & 3))) & 0xFFFF
        if attr != at(table.attr, begin + j) or tree.word[pairs + 2 * j] != lowest(table, begin + j):
            return False
        if tree.word[pairs + 2 * j + 1] != highest(table, begin + j):
            return False
    return True


@kernel
def free_lists(tree: TreeArrays, free: I64) -> tuple[int, int]:
    """Follow the lists of free buckets, p-nodes and runs; counts the first two. No list is longer than its array."""
    b, steps = tree.head[int(FREE_BUCKET)], 0
    while b != int(NONE):
        if b <= int(NEVER) or b >= tree.head[int(BUCKETS)] or steps > tree.head[int(BUCKETS)]:
            return int(CIRCLE), b
        if tree.more[b * MORE + LEVEL] != int(NONE):
            return int(CIRCLE), b
        b, steps = tree.link[b * LINK + LEFT], steps + 1
    free[0] = steps
    p, steps = tree.head[int(FREE_PNODE)], 0
    while p != int(NONE):
        if p < 0 or p >= tree.head[int(PNODES)] or steps > tree.head[int(PNODES)]:
            return int(CIRCLE), p
        if tree.pnode[p * PART + POWNER] != int(NONE):
            return int(CIRCLE), p
        p, steps = tree.pnode[p * PART + PROOT], steps + 1
    free[1] = steps
    for kind in range(int(CLASSES)):
        start, steps, end = tree.head[int(FREE_RUNS) + kind], 0, tree.head[int(ENTRIES)]
        while start != int(NONE):
            if start < 0 or start >= end or steps > end or start + tree.record[start] > end or tree.record[start] < 4:
                return int(CIRCLE), start
            start, steps = tree.clause[start], steps + 1
        start, steps, end = tree.head[int(FREE_PDIRS) + kind], 0, tree.head[int(PDIRS)]
        while start != int(NONE):
            if start < 0 or start >= end or steps > end:
                return int(CIRCLE), start
            start, steps = tree.pdir_attr[start], steps + 1
    for level in range(int(LEVELS) + 1):
        rim, steps = tree.head[int(FREE_RIMS) + level], 0
        while rim != int(NONE):
            if rim < 0 or rim + 2 * (level - 1) > tree.head[int(RIMS)] or steps > tree.head[int(RIMS)]:
                return int(CIRCLE), rim
            rim, steps = tree.rim[rim], steps + 1
    for n in range(int(LONGEST_RECORD) + 1):
        word, steps = tree.head[int(FREE_WORDS) + n], 0
        while word != int(NONE):
            if word < 0 or word + record_words(n) > tree.head[int(WORDS)] or steps > tree.head[int(WORDS)]:
                return int(CIRCLE), word
            word, steps = tree.word[word], steps + 1
    return int(FINE), 0
