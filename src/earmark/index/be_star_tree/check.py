"""Is this a BE*-Tree? What kernels rely on (`check_shape`), and the invariant of the structure (`check_tree`).

`check_shape` looks at numbers alone: every link, run and place is inside its array. With that certainty `check_tree`
follows the links from the root, looks at every entry, and compares boxes and bounds with those computed from scratch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import earmark.index.be_star_tree.arrays as be
import earmark.index.be_star_tree.nodes as nodes
from earmark.errors import require
from earmark.flat.arrays import I64
from earmark.index.be_star_tree.arrays import TreeArrays, copied
from earmark.index.be_star_tree.bounds import new_path
from earmark.index.be_star_tree.settle import renew_all
from earmark.index.stored import check_types
from earmark.segment.arrays import SegmentArrays, spread

CIRCLE = "a free list runs in a circle or leaves its array"


Shape = tuple[I64, I64, I64, I64, I64]
"""The buckets in use; the rows of all buckets in link, in more, and of all p-nodes; and the entries in use."""


def check_shape(tree: TreeArrays, table: SegmentArrays) -> Shape:
    """Raise AssertionError unless every number that a kernel follows is in range. O(size), without kernels."""
    check_types(tree)
    head, clauses, attributes = tree.head, len(table.constraint_start) - 1, len(tree.rate)
    require(len(head) == be.HEAD and len(tree.knob) == be.KNOB, "head or knob has the wrong length")
    for name in ("knob", "rate", "apart"):
        require(np.isfinite(getattr(tree, name)).all(), f"{name} is not finite")
    capacity = head[[be.CAPACITY, be.LEAST]]
    require(((capacity >= 1) & (capacity <= 2**30)).all(), "the leaf capacity is not a positive number")
    for group, (used, widths) in be.GROUPS.items():
        require(0 <= head[used] <= 2**31 - 1, f"the number of {group} is out of range")
        for name, width in widths.items():
            if name != "peak" or len(tree.peak):
                require(len(getattr(tree, name)) >= head[used] * width, f"{name} is too short for its {group}")
    require(head[be.BUCKETS] > be.NEVER, "the root is missing")
    require(len(tree.where) == len(tree.place) == len(tree.slot), "where, place and slot differ in length")
    require(len(tree.where) >= clauses, "there are clauses without a place")
    require(len(tree.apart) == attributes > table.attr.max(initial=-1), "attributes are missing")
    link, more, part = (_rows(tree, name).astype(np.int64) for name in ("link", "more", "pnode"))
    live = np.flatnonzero(more[:, be.LEVEL] != be.NONE)
    deep = more[live][more[live, be.LEVEL] > 1]
    sides, level, used_part = 2 * deep[:, be.LEVEL] - 2, more[live, be.LEVEL], part[part[:, be.POWNER] != be.NONE]
    for first, count, room, used, what in (
        (link[live, be.FIRST], link[live, be.COUNT], more[live, be.ROOM], be.ENTRIES, "an l-node"),
        (link[live, be.PDIR], link[live, be.WIDTH], more[live, be.PDIR_ROOM], be.PDIRS, "a p-directory"),
        (deep[:, be.RIM], sides, sides, be.RIMS, "an inactive box"),
    ):
        bad = (first < 0) & (room > 0) | (count < 0) | (room < count) | (first + room > head[used])
        require(not bad.any(), f"{what} leaves its array")
    dirs, entries = (_positions(link[live], *run) for run in ((be.PDIR, be.WIDTH), (be.FIRST, be.COUNT)))
    for numbers, least, end, what in (
        (link[live][:, [be.LEFT, be.RIGHT, be.PARENT]], be.NONE, head[be.BUCKETS], "a bucket's link"),
        (link[live, be.ATTR], be.NONE, attributes, "a bucket's attribute"),
        (more[live, be.PNODE], be.NONE, head[be.PNODES], "a bucket's p-node"),
        (level, 0, be.LEVELS + 1, "a bucket's level"),
        (used_part[:, be.PATTR], 0, attributes, "a p-node's attribute"),
        (used_part[:, [be.PROOT, be.POWNER]], 0, head[be.BUCKETS], "a p-node's root or owner"),
        (tree.pdir_node[dirs], 0, head[be.PNODES], "a p-directory's p-node"),
        (tree.pdir_attr[dirs], 0, attributes, "a p-directory's attribute"),
        (tree.clause[entries], 0, clauses, "an entry's clause"),
        (tree.record[entries], be.NONE, head[be.WORDS], "a record"),
    ):
        require(not numbers.size or least <= numbers.min() <= numbers.max() < end, f"{what} leads nowhere")
    owned = (link[live, be.ATTR] >= 0) & (more[live, be.PNODE] >= 0)
    require(owned[level > 0].all(), "a bucket has no p-node")
    require(np.array_equal(live[level == 0], [be.ROOT, be.NEVER]), "the root is not where it should be")
    clause, record = tree.clause[entries].astype(np.int64), tree.record[entries].astype(np.int64)
    require(np.bincount(clause).max(initial=0) <= 1, "a clause is in two places")
    slots = tree.slot[clause].astype(np.int64)
    require(not slots.size or 0 <= slots.min() <= slots.max() < len(table.clause_start) - 1, "a clause has no slot")
    fits = (table.clause_start[slots] <= clause) & (clause < table.clause_start[slots + 1])
    require(fits.all(), "a clause has the slot of another")
    size, record = np.diff(table.constraint_start)[clause[record >= 0]].astype(np.int64), record[record >= 0]
    require((tree.word[record] & 0xFFFF == size).all(), "a record's length is not that of its clause")
    require((size <= be.LONGEST_RECORD).all(), "a record is too long")
    require((record + ((size + 4) >> 2) + 2 * size <= head[be.WORDS]).all(), "a record leaves its array")
    return live, link, more, part, entries


def _rows(tree: TreeArrays, name: str) -> NDArray[Any]:
    """An array of a tree as one row per bucket or p-node in use."""
    used, width = next((used, widths[name]) for used, widths in be.GROUPS.values() if name in widths)
    rows: NDArray[Any] = getattr(tree, name)[: tree.head[used] * width].reshape(-1, width)
    return rows


def _positions(rows: I64, first: int, count: int) -> I64:
    """All positions of some runs, one run after another, by the columns that say where they begin and how long."""
    counts = rows[:, count]
    places: I64 = np.arange(counts.sum()) + np.repeat(rows[:, first] - (np.cumsum(counts) - counts), counts)
    return places


def check_tree(tree: TreeArrays, table: SegmentArrays) -> None:
    """Raise AssertionError, naming what is broken, unless the invariant of the structure holds."""
    shape, head = check_shape(tree, table), tree.head
    live, _, _, part, entries = shape
    _check_links(tree, shape)
    _check_entries(tree, table, shape, _paths(shape))
    recorded = (tree.where[: len(table.constraint_start) - 1] != be.NONE).sum()
    require(recorded == len(entries), f"{recorded} clauses are recorded, but the tree has {len(entries)}")
    pnodes = (part[:, be.POWNER] != be.NONE).sum()
    for what, count, field in (
        ("buckets", len(live), be.LIVE_BUCKETS),
        ("p-nodes", pnodes, be.LIVE_PNODES),
        ("clauses", len(entries), be.CLAUSES),
    ):
        require(count == head[field], f"expected {head[field]} {what}, got {count}")
    free_buckets, free_pnodes = _free_nodes(tree)
    require(free_buckets + len(live) == head[be.BUCKETS], "buckets have leaked")
    require(free_pnodes + pnodes == head[be.PNODES], "p-nodes have leaked")
    _check_values(tree, table, live)


def _check_links(tree: TreeArrays, shape: Shape) -> None:
    """Follow the tree from the root: links, p-directories, boxes of siblings, counts of clauses."""
    live, link, more, part, _ = shape
    dirs = _positions(link[live], be.PDIR, be.WIDTH)
    owner, attr, pnode = np.repeat(live, link[live, be.WIDTH]), tree.pdir_attr[dirs], tree.pdir_node[dirs]
    listed = (part[pnode, be.POWNER] == owner) & (part[pnode, be.PATTR] == attr)
    ascending = (attr[1:] > attr[:-1]) | (owner[1:] != owner[:-1])
    require(
        listed.all() and ascending.all(), "a p-directory does not ascend by attribute, or lists a p-node of another"
    )
    left, right = link[live, be.LEFT], link[live, be.RIGHT]
    above, below = np.tile(live, 2), np.concatenate([left, right])
    above, below = above[below != be.NONE], below[below != be.NONE]
    is_linked = (link[below, be.PARENT] == above) & (more[above, be.LEVEL] > 0)
    for rows, field in ((link, be.ATTR), (more, be.PNODE), (more, be.LEVEL)):
        is_linked &= rows[below, field] == rows[above, field]
    root = part[pnode, be.PROOT]
    is_root = (link[root, be.PARENT] == be.NONE) & (link[root, be.ATTR] == attr) & (more[root, be.PNODE] == pnode)
    is_root &= more[root, be.LEVEL] == more[owner, be.LEVEL] + 1
    require(is_linked.all() and is_root.all(), "a bucket's link to the bucket above it is wrong")
    box = _rows(tree, "box")
    inside = (box[below, be.LO] >= box[above, be.LO]) & (box[below, be.HI] <= box[above, be.HI])
    require(inside.all(), "a cell is not inside its parent's half")
    apart = (left == be.NONE) | (right == be.NONE) | (box[left, be.HI] < box[right, be.LO])
    require(apart.all(), "left and right overlap")
    above, below = np.concatenate([above, owner]), np.concatenate([below, root])
    require(np.bincount(below).max(initial=0) <= 1, "a bucket is reached twice")
    reached, new = np.zeros(len(link), bool), np.array([be.ROOT, be.NEVER])
    while len(new):
        reached[new] = True
        new = below[reached[above] & ~reached[below]]
    require(reached[live].all(), "a bucket cannot be reached from the root")
    count = link[:, be.COUNT].copy()
    np.add.at(count, above, more[below, be.BELOW])
    right_count = (count == more[:, be.BELOW]) & ((count > 0) | (more[:, be.LEVEL] == 0))
    require(right_count[live].all(), "a bucket's count of clauses is wrong")


def _paths(shape: Shape) -> I64:
    """By bucket and level, the attribute partitioned by; NONE below its own level."""
    live, link, more, part, _ = shape
    paths = np.full((len(link), be.LEVELS + 1), be.NONE)
    for level in range(1, be.LEVELS + 1):
        own = live[more[live, be.LEVEL] == level]
        paths[own] = paths[part[more[own, be.PNODE], be.POWNER]]
        paths[own, level] = link[own, be.ATTR]
    ordered = np.sort(paths, axis=1)
    repeated = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != be.NONE)
    require(not repeated.any(), "an attribute partitions twice on one path")
    return paths


def _check_entries(tree: TreeArrays, table: SegmentArrays, shape: Shape, paths: I64) -> None:
    """Check that each entry is where its clause belongs, and says what the table says."""
    live, link, more, _, entries = shape
    bucket = np.repeat(live, link[live, be.COUNT])
    clause, record = tree.clause[entries].astype(np.int64), tree.record[entries].astype(np.int64)
    recorded = (tree.where[clause] == bucket) & (tree.place[clause] == entries)
    require(recorded.all(), "an l-node has a clause that is recorded elsewhere")
    start, c = spread(table.constraint_start, clause)
    sizes = np.diff(start).astype(np.int64)
    of = np.repeat(np.arange(len(clause)), sizes)
    attr, first, end = table.attr[c].astype(np.int64), table.interval_start[c], table.interval_start[c + 1]
    null, some = table.accepts_null[c] != 0, end > first
    never = np.bincount(of[~some & ~null], minlength=len(clause)) > 0
    require(
        (never == (bucket == be.NEVER)).all(), "a clause that can never match is in the tree, or one that can is not"
    )
    sign = np.zeros(len(clause), np.uint64)
    np.bitwise_or.at(sign, of[~null], np.uint64(1) << (attr[~null] % be.BINS).astype(np.uint64))
    require(np.array_equal(sign, tree.sign[entries]), "a signature is wrong")
    able = np.flatnonzero(some & ~null)
    lo, hi = np.zeros((2, len(c)), np.int64)
    lo[some], hi[some] = table.lo[first[some]], table.hi[end[some] - 1]
    depth = more[bucket, be.LEVEL]
    entry = np.repeat(np.arange(len(clause)), depth)
    level = np.arange(len(entry)) - np.repeat(np.cumsum(depth) - depth, depth) + 1
    wanted = entry * len(tree.rate) + paths[bucket[entry], level]
    keys = np.append(of[able] * len(tree.rate) + attr[able], -1)
    found = np.searchsorted(keys[:-1], wanted)
    unkeyed = "a clause is below an attribute that it has no constraint on, or one that accepts NULL"
    require((keys[found] == wanted).all(), unkeyed)
    box, key, own = _rows(tree, "box"), able[found], bucket[entry]
    outside = (lo[key] < box[own, be.OWN_LO]) | (hi[key] > box[own, be.OWN_HI])
    require(not (outside & (level == depth[entry])).any(), "a clause is outside its bucket's box")
    everything = (lo == be.LOWEST) & (hi == be.HIGHEST)
    odd = (end - first != 1) | null | (attr >= be.LANE_ATTRIBUTES) | everything
    plain = (np.bincount(of[odd], minlength=len(clause)) == 0) & (sizes <= be.LONGEST_RECORD)
    kept = plain[of]
    at, lane = record[of][kept], (np.arange(len(c)) - start[of])[kept] + 1
    pair = at + ((sizes[of][kept] + 4) >> 2) + 2 * (lane - 1)
    same = (
        np.array_equal(record != be.NONE, plain)
        and (
            (tree.word[at + (lane >> 2)] >> (16 * (lane & 3)) & 0xFFFF == attr[kept])
            & (tree.word[pair] == lo[kept])
            & (tree.word[pair + 1] == hi[kept])
        ).all()
    )
    require(same, "a record differs from its clause")


def _check_values(tree: TreeArrays, table: SegmentArrays, live: I64) -> None:
    """Compare boxes and bounds with those computed from scratch; where some are loose, they may be wider."""
    fresh = copied(tree)
    renew_all(fresh, table, new_path())
    below, top = live[live > be.NEVER], slice(be.NEVER + 1)  # the bounds of the root's own l-node only ever widen
    more = _rows(tree, "more")[below].astype(np.int64)
    deep = np.column_stack([more[:, be.RIM], 2 * more[:, be.LEVEL] - 2])[more[:, be.LEVEL] > 1]
    rims = _positions(deep, 0, 1)
    exact, at_most, at_least = not tree.head[be.LOOSE], np.less_equal, np.greater_equal
    names = ["top", "peak"] if len(tree.peak) else ["top"]
    bounds: list[tuple[Callable[[TreeArrays], Any], np.ufunc, bool, str]] = [
        (lambda t: _rows(t, "box")[below, ::2], at_most, exact, "a box is not the bounding box of its clauses"),
        (lambda t: _rows(t, "box")[below, 1::2], at_least, exact, "a box is not the bounding box of its clauses"),
        (lambda t: t.rim[rims[::2]], at_most, exact, "an inactive box is not the bounding box of its clauses"),
        (lambda t: t.rim[rims[1::2]], at_least, exact, "an inactive box is not the bounding box of its clauses"),
        (lambda t: np.hstack([_rows(t, name)[below] for name in names]), at_least, exact, "a bound on scores is wrong"),
        (lambda t: _rows(t, "first")[below], at_most, False, "a bucket has a smaller sequence than its bound"),
        (lambda t: _rows(t, "first")[top, 1], at_most, False, "the root has a smaller sequence"),
        (lambda t: _rows(t, "top")[top, be.OWN_STATIC :], at_least, False, "the root has a greater score"),
    ]
    for values, holds, is_exact, what in bounds:
        require((np.equal if is_exact else holds)(values(tree), values(fresh)).all(), what)


def _free_nodes(tree: TreeArrays) -> tuple[int, int]:
    """The numbers of free buckets and p-nodes; AssertionError unless all free lists are sound."""
    head = tree.head
    buckets = _free_list(tree.link[be.LEFT :: be.LINK], head[be.FREE_BUCKET], head[be.BUCKETS])
    marked = (buckets > be.NEVER) & (tree.more[buckets * be.MORE + be.LEVEL] == be.NONE)
    pnodes = _free_list(tree.pnode[be.PROOT :: be.PART], head[be.FREE_PNODE], head[be.PNODES])
    require(marked.all() and (tree.pnode[pnodes * be.PART + be.POWNER] == be.NONE).all(), CIRCLE)
    for kind in range(be.CLASSES):
        runs = _free_list(tree.clause, head[be.FREE_RUNS + kind], head[be.ENTRIES])
        room = tree.record[runs].astype(np.int64)
        require(((room >= nodes.SMALLEST_RUN) & (runs + room <= head[be.ENTRIES])).all(), CIRCLE)
        _free_list(tree.pdir_attr, head[be.FREE_PDIRS + kind], head[be.PDIRS])
    for level in range(be.LEVELS + 1):
        _free_list(tree.rim, head[be.FREE_RIMS + level], head[be.RIMS] - max(2 * level - 3, 0))
    for n in range(be.LONGEST_RECORD + 1):
        _free_list(tree.word, head[be.FREE_WORDS + n], head[be.WORDS] - nodes.record_words(n) + 1)
    return len(buckets), len(pnodes)


def _free_list(links: NDArray[Any], first: int, end: int) -> I64:
    """The elements of a free list, all of them below `end`."""
    elements: dict[int, None] = {}
    i = int(first)
    while i != be.NONE:
        require(0 <= i < end and i not in elements, CIRCLE)
        elements[i] = None
        i = int(links[i])
    return np.array(list(elements), np.int64)
