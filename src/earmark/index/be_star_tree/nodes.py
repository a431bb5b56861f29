"""Parts of kernels: making and freeing buckets, p-nodes and runs; what a clause looks like to the tree.

Room is checked by whoever calls (`insert.py`, `settle.py`): nothing here grows an array.

Free runs of entries hang in lists by size class (4, 6, 8, 12, 16, 24, ...), linked through their first entry; buckets,
p-nodes, inactive boxes and records likewise, by their exact size.
"""

from __future__ import annotations

import numpy as np

from earmark.flat.machine import at
from earmark.index.be_star_tree.arrays import (
    ATTR,
    BELOW,
    BINS,
    BOX,
    BUCKETS,
    CAPACITY,
    CHANGED,
    COUNT,
    ENTRIES,
    FIRST,
    FREE_BUCKET,
    FREE_PDIRS,
    FREE_PNODE,
    FREE_RIMS,
    FREE_RUNS,
    FREE_WORDS,
    HI,
    HIGHEST,
    LANE_ATTRIBUTES,
    LEFT,
    LEVEL,
    LIMIT,
    LINK,
    LIVE_BUCKETS,
    LIVE_PNODES,
    LIVE_WORDS,
    LO,
    LONGEST,
    LONGEST_RECORD,
    LOWEST,
    MORE,
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
    RIM,
    RIMS,
    ROOM,
    TOP,
    WIDTH,
    WORDS,
    TreeArrays,
)
from earmark.jit import embedded, inlined
from earmark.segment.arrays import SegmentArrays

SMALLEST_RUN = 4
"""A run with less room is not worth a list; packing finds it again."""


@inlined
def whole(value: int) -> int:
    """A number as int64: helpers then compile once, whatever array their arguments came from."""
    return np.int64(value)  # type: ignore[return-value]


@inlined
def class_size(kind: int) -> int:
    """Entries in a run of this size class: 4, 6, 8, 12, 16, 24, ..."""
    half = kind >> 1
    return (4 << half) + (2 << half) * (kind & 1)


@inlined
def class_holding(count: int) -> int:
    """The smallest class with room for so many."""
    kind = 0
    while class_size(kind) < count:
        kind += 1
    return kind


@embedded
def take_entries(tree: TreeArrays, count: int) -> tuple[int, int]:
    """A run with room for so many entries: (its first, its room). The caller has seen to it that there is one."""
    kind = class_holding(count)
    for better in range(kind, kind + 3):  # a run of a slightly larger class does as well
        start = tree.head[int(FREE_RUNS) + better]
        if start != int(NONE):
            tree.head[int(FREE_RUNS) + better] = tree.clause[start]
            return start, tree.record[start]
    start = tree.head[int(ENTRIES)]
    room = class_size(kind)
    tree.head[int(ENTRIES)] = start + room
    return start, room


@embedded
def give_entries(tree: TreeArrays, start: int, room: int) -> None:
    """Put a run into the list of the largest class that fits into it."""
    if room < int(SMALLEST_RUN):
        return
    kind = 0
    while class_size(kind + 1) <= room:
        kind += 1
    tree.clause[start] = tree.head[int(FREE_RUNS) + kind]
    tree.record[start] = room
    tree.head[int(FREE_RUNS) + kind] = start


@embedded
def new_bucket(tree: TreeArrays, attr: int, pnode: int, parent: int, level: int) -> int:
    """An empty leaf bucket in the c-directory of a p-node."""
    b = tree.head[int(FREE_BUCKET)]
    if b != int(NONE):
        tree.head[int(FREE_BUCKET)] = tree.link[b * LINK + LEFT]
    else:
        b = tree.head[int(BUCKETS)]
        tree.head[int(BUCKETS)] = b + 1
    tree.head[int(LIVE_BUCKETS)] += 1
    box, link, more = b * BOX, b * LINK, b * MORE
    tree.box[box + LO], tree.box[box + HI] = int(HIGHEST), int(LOWEST)
    tree.box[box + OWN_LO], tree.box[box + OWN_HI] = int(HIGHEST), int(LOWEST)
    tree.link[link + ATTR], tree.link[link + PARENT] = attr, parent
    tree.link[link + LEFT], tree.link[link + RIGHT] = int(NONE), int(NONE)
    tree.link[link + FIRST], tree.link[link + COUNT] = 0, 0
    tree.link[link + PDIR], tree.link[link + WIDTH] = 0, 0
    tree.more[more + PNODE], tree.more[more + LEVEL] = pnode, level
    tree.more[more + ROOM], tree.more[more + PDIR_ROOM] = 0, 0
    tree.more[more + LIMIT] = tree.head[int(CAPACITY)]
    tree.more[more + BELOW], tree.more[more + CHANGED] = 0, 0
    tree.more[more + RIM] = take_rim(tree, level)
    rim = tree.more[more + RIM]
    for i in range(level - 1):
        tree.rim[rim + 2 * i], tree.rim[rim + 2 * i + 1] = int(HIGHEST), int(LOWEST)
    clear_summary(tree, b)
    return whole(b)


@embedded
def clear_summary(tree: TreeArrays, b: int) -> None:
    """Bounds of no clauses at all."""
    for part in range(2):
        tree.first[2 * b + part] = int(HIGHEST)
        tree.top[b * TOP + 2 * part], tree.top[b * TOP + 2 * part + 1] = -np.inf, 0.0
    if len(tree.peak):
        for i in range(2 * b * BINS, 2 * (b + 1) * BINS):
            tree.peak[i] = 0.0


@embedded
def take_rim(tree: TreeArrays, level: int) -> int:
    """Room for the inactive boxes of a bucket of this level; none at level 1."""
    if level < 2:
        return int(NONE)
    start = tree.head[int(FREE_RIMS) + level]
    if start != int(NONE):
        tree.head[int(FREE_RIMS) + level] = tree.rim[start]
        return whole(start)
    start = tree.head[int(RIMS)]
    tree.head[int(RIMS)] = start + 2 * (level - 1)
    return whole(start)


@embedded
def free_bucket(tree: TreeArrays, b: int) -> None:
    """Give back a bucket and its runs; links to it are the caller's."""
    link, more = b * LINK, b * MORE
    give_entries(tree, tree.link[link + FIRST], tree.more[more + ROOM])
    give_pdir(tree, tree.link[link + PDIR], tree.more[more + PDIR_ROOM])
    level = tree.more[more + LEVEL]
    if level > 1:
        rim = tree.more[more + RIM]
        tree.rim[rim] = tree.head[int(FREE_RIMS) + level]
        tree.head[int(FREE_RIMS) + level] = rim
    tree.link[link + LEFT] = tree.head[int(FREE_BUCKET)]
    tree.more[more + LEVEL] = int(NONE)  # marks a free bucket
    tree.head[int(FREE_BUCKET)] = b
    tree.head[int(LIVE_BUCKETS)] -= 1


@embedded
def give_pdir(tree: TreeArrays, start: int, room: int) -> None:
    """Put a run of a p-directory into its list."""
    if room:
        kind = class_holding(room)
        tree.pdir_attr[start] = tree.head[int(FREE_PDIRS) + kind]
        tree.head[int(FREE_PDIRS) + kind] = start


@embedded
def new_pnode(tree: TreeArrays, owner: int, attr: int) -> int:
    """A p-node with an empty root bucket, listed in the p-directory of `owner`."""
    p = tree.head[int(FREE_PNODE)]
    if p != int(NONE):
        tree.head[int(FREE_PNODE)] = tree.pnode[p * PART + PROOT]
    else:
        p = tree.head[int(PNODES)]
        tree.head[int(PNODES)] = p + 1
    tree.head[int(LIVE_PNODES)] += 1
    tree.pnode[p * PART + PATTR], tree.pnode[p * PART + POWNER] = attr, owner
    tree.pnode[p * PART + 3] = 0
    tree.loss[p] = 0.0
    tree.pnode[p * PART + PROOT] = new_bucket(tree, attr, p, int(NONE), whole(tree.more[owner * MORE + LEVEL]) + 1)
    width = tree.link[owner * LINK + WIDTH]
    if width == tree.more[owner * MORE + PDIR_ROOM]:
        widen_pdir(tree, owner)
    start = tree.link[owner * LINK + PDIR]
    i = start + width
    while i > start and at(tree.pdir_attr, i - 1) > attr:
        tree.pdir_attr[i], tree.pdir_node[i] = tree.pdir_attr[i - 1], tree.pdir_node[i - 1]
        i -= 1
    tree.pdir_attr[i], tree.pdir_node[i] = attr, p
    tree.link[owner * LINK + WIDTH] = width + 1
    return whole(p)


@embedded
def widen_pdir(tree: TreeArrays, b: int) -> None:
    """Move a p-directory to a longer run."""
    width, old = tree.link[b * LINK + WIDTH], tree.link[b * LINK + PDIR]
    kind = class_holding(width + 1)
    start = tree.head[int(FREE_PDIRS) + kind]
    if start != int(NONE):
        tree.head[int(FREE_PDIRS) + kind] = tree.pdir_attr[start]
    else:
        start = tree.head[int(PDIRS)]
        tree.head[int(PDIRS)] = start + class_size(kind)
    for i in range(width):
        tree.pdir_attr[start + i], tree.pdir_node[start + i] = tree.pdir_attr[old + i], tree.pdir_node[old + i]
    give_pdir(tree, old, tree.more[b * MORE + PDIR_ROOM])
    tree.link[b * LINK + PDIR], tree.more[b * MORE + PDIR_ROOM] = start, class_size(kind)


@embedded
def free_pnode(tree: TreeArrays, p: int) -> None:
    """Take a p-node out of its p-directory and give it back; its buckets are the caller's."""
    owner = tree.pnode[p * PART + POWNER]
    start, width = tree.link[owner * LINK + PDIR], tree.link[owner * LINK + WIDTH]
    i = start
    while tree.pdir_node[i] != p:
        i += 1
    for j in range(i, start + width - 1):
        tree.pdir_attr[j], tree.pdir_node[j] = tree.pdir_attr[j + 1], tree.pdir_node[j + 1]
    tree.link[owner * LINK + WIDTH] = width - 1
    if width == 1:
        give_pdir(tree, start, tree.more[owner * MORE + PDIR_ROOM])
        tree.link[owner * LINK + PDIR], tree.more[owner * MORE + PDIR_ROOM] = 0, 0
    tree.pnode[p * PART + PROOT] = tree.head[int(FREE_PNODE)]
    tree.pnode[p * PART + POWNER] = int(NONE)  # marks a free p-node
    tree.head[int(FREE_PNODE)] = p
    tree.head[int(LIVE_PNODES)] -= 1


@embedded
def find_pnode(tree: TreeArrays, b: int, attr: int) -> int:
    """The p-node of an attribute in a p-directory, or NONE (SearchPDir). O(log p-nodes)."""
    begin = at(tree.link, b * LINK + PDIR)
    end = begin + at(tree.link, b * LINK + WIDTH)
    last = end
    while begin < end:
        middle = (begin + end) >> 1
        if at(tree.pdir_attr, middle) < attr:
            begin = middle + 1
        else:
            end = middle
    if begin < last and at(tree.pdir_attr, begin) == attr:
        return whole(at(tree.pdir_node, begin))
    return int(NONE)


@embedded
def replace_child(tree: TreeArrays, old: int, new: int) -> None:
    """Let `new` (or NONE) take the place of `old` below its parent, or as the root of its c-directory."""
    parent = tree.link[old * LINK + PARENT]
    if parent == int(NONE):
        tree.pnode[tree.more[old * MORE + PNODE] * PART + PROOT] = new
    elif tree.link[parent * LINK + LEFT] == old:
        tree.link[parent * LINK + LEFT] = new
    else:
        tree.link[parent * LINK + RIGHT] = new
    if new != int(NONE):
        tree.link[new * LINK + PARENT] = parent


@embedded
def above(tree: TreeArrays, b: int) -> int:
    """The bucket above: the parent in the c-directory, else the one whose p-directory lists its p-node; NONE last."""
    parent = whole(at(tree.link, b * LINK + PARENT))
    if parent != int(NONE):
        return parent
    p = at(tree.more, b * MORE + PNODE)
    return whole(at(tree.pnode, p * PART + POWNER)) if p != int(NONE) else whole(NONE)


# --- clauses ---------------------------------------------------------------------------------------------------


@embedded
def constraint_on(table: SegmentArrays, clause: int, attr: int) -> int:
    """The clause's constraint on an attribute, or NONE."""
    for c in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
        if at(table.attr, c) == attr:
            return c
    return int(NONE)


@embedded
def lowest(table: SegmentArrays, constraint: int) -> int:
    """Where the constraint's box begins; it has an interval."""
    return whole(at(table.lo, at(table.interval_start, constraint)))


@embedded
def highest(table: SegmentArrays, constraint: int) -> int:
    """Where the constraint's box ends."""
    return whole(at(table.hi, at(table.interval_start, constraint + 1) - 1))


@embedded
def can_key(table: SegmentArrays, constraint: int) -> bool:
    """Whether a clause may be found by this constraint: not if it accepts NULL, which events do not mention."""
    some = at(table.interval_start, constraint + 1) > at(table.interval_start, constraint)
    return bool(some and at(table.accepts_null, constraint) == 0)


@embedded
def never_holds(table: SegmentArrays, clause: int) -> bool:
    """Whether a constraint of the clause accepts nothing at all."""
    for c in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
        if at(table.interval_start, c + 1) == at(table.interval_start, c) and at(table.accepts_null, c) == 0:
            return True
    return False


@embedded
def signature(table: SegmentArrays, clause: int) -> np.uint64:
    """The bits of the attributes that an event must have."""
    bits = np.uint64(0)
    for c in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
        if at(table.accepts_null, c) == 0:
            bits |= np.uint64(1) << np.uint64(at(table.attr, c) & (BINS - 1))
    return bits


@inlined
def raised(value: float) -> float:
    """A little above a value, unless it is 0: at least as great when stored as float32, and when sums are rounded."""
    return value + abs(value) * 2.0**-22 + 2e-45 if value != 0.0 else 0.0


@embedded
def weights_of(table: SegmentArrays, clause: int) -> float:
    """An upper bound on the sum of the clause's weights; exact where all weights are 1, so that ties can be seen."""
    begin, end = at(table.constraint_start, clause), at(table.constraint_start, clause + 1)
    if not len(table.weight):
        return float(end - begin)
    total = 0.0
    for c in range(begin, end):
        total += at(table.weight, c)
    return raised(total)


@embedded
def is_plain(table: SegmentArrays, clause: int) -> bool:
    """Whether a record can stand for the clause: one interval a constraint, no NULL, not all keys at once.

    A record's verification gives absent attributes an empty interval, which only the interval of all keys would meet.
    """
    begin, end = at(table.constraint_start, clause), at(table.constraint_start, clause + 1)
    if end - begin > int(LONGEST_RECORD):
        return False
    for c in range(begin, end):
        i = at(table.interval_start, c)
        if (
            at(table.interval_start, c + 1) != i + 1
            or at(table.accepts_null, c)
            or at(table.attr, c) >= LANE_ATTRIBUTES
        ):
            return False
        if at(table.lo, i) == int(LOWEST) and at(table.hi, i) == int(HIGHEST):
            return False
    return True


@inlined
def record_words(constraints: int) -> int:
    """Words of a record."""
    return ((constraints + 4) >> 2) + 2 * constraints


@embedded
def write_record(tree: TreeArrays, table: SegmentArrays, clause: int, start: int) -> None:
    """Fill a record; the clause is plain."""
    begin, end = at(table.constraint_start, clause), at(table.constraint_start, clause + 1)
    n = end - begin
    pairs = start + ((n + 4) >> 2)
    for i in range(start, pairs):
        tree.word[i] = 0
    tree.word[start] = n
    for j in range(n):
        lane = j + 1
        tree.word[start + (lane >> 2)] |= whole(at(table.attr, begin + j)) << whole(16 * (lane & 3))
        tree.word[pairs + 2 * j] = lowest(table, begin + j)
        tree.word[pairs + 2 * j + 1] = highest(table, begin + j)


@embedded
def new_record(tree: TreeArrays, table: SegmentArrays, clause: int) -> int:
    """A record for the clause, or NONE when it is not plain."""
    if not is_plain(table, clause):
        return int(NONE)
    n = at(table.constraint_start, clause + 1) - at(table.constraint_start, clause)
    start = tree.head[int(FREE_WORDS) + n]
    if start != int(NONE):
        tree.head[int(FREE_WORDS) + n] = tree.word[start]
    else:
        start = tree.head[int(WORDS)]
        tree.head[int(WORDS)] = start + record_words(n)
    tree.head[int(LIVE_WORDS)] += record_words(n)
    write_record(tree, table, clause, start)
    return whole(start)


@embedded
def free_record(tree: TreeArrays, start: int) -> None:
    """Give a record back."""
    if start != int(NONE):
        n = tree.word[start] & 0xFFFF
        tree.word[start] = tree.head[int(FREE_WORDS) + n]
        tree.head[int(FREE_WORDS) + n] = start
        tree.head[int(LIVE_WORDS)] -= record_words(n)


@embedded
def put_entry(tree: TreeArrays, b: int, sign: np.uint64, clause: int, record: int, most: float) -> None:
    """Append an entry to an l-node, moving it to a longer run when it is full."""
    count = tree.link[b * LINK + COUNT]
    if count == tree.more[b * MORE + ROOM]:
        old = tree.link[b * LINK + FIRST]
        start, room = take_entries(tree, count + 1)
        for i in range(count):
            tree.sign[start + i], tree.clause[start + i] = tree.sign[old + i], tree.clause[old + i]
            tree.record[start + i], tree.most[start + i] = tree.record[old + i], tree.most[old + i]
            tree.place[tree.clause[start + i]] = start + i
        give_entries(tree, old, count)
        tree.link[b * LINK + FIRST], tree.more[b * MORE + ROOM] = start, room
    i = tree.link[b * LINK + FIRST] + count
    tree.sign[i], tree.clause[i], tree.record[i], tree.most[i] = sign, clause, record, most
    tree.where[clause], tree.place[clause] = b, i
    tree.link[b * LINK + COUNT] = count + 1
    tree.head[int(LONGEST)] = max(tree.head[int(LONGEST)], count + 1)


@embedded
def cut_entry(tree: TreeArrays, b: int, clause: int) -> None:
    """Take a clause's entry out of an l-node; the last one fills its place."""
    i, last = tree.place[clause], tree.link[b * LINK + FIRST] + tree.link[b * LINK + COUNT] - 1
    tree.sign[i], tree.clause[i] = tree.sign[last], tree.clause[last]
    tree.record[i], tree.most[i] = tree.record[last], tree.most[last]
    tree.place[tree.clause[i]] = i
    tree.where[clause], tree.place[clause] = int(NONE), int(NONE)
    tree.link[b * LINK + COUNT] -= 1
