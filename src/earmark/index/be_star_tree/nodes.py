"""Parts of kernels: making and freeing buckets, p-nodes and runs; what a clause looks like to the tree.

The caller checks that there is room (`change.py`, `settle.py`): nothing here grows an array.

Free runs of entries are kept in lists by size class (4, 6, 8, 12, 16, 24, ...), linked through their first entry;
buckets, p-nodes, inactive boxes and records likewise, by their exact size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import earmark.index.be_star_tree.arrays as be
from earmark.flat.arrays import I32, I64
from earmark.flat.bisection import bisect_left
from earmark.flat.machine import at
from earmark.index.be_star_tree.arrays import TreeArrays
from earmark.jit import embedded, inlined
from earmark.segment.arrays import SegmentArrays

SMALLEST_RUN = 4
"""A run with less room is not worth listing; packing reclaims it."""


@inlined
def whole(value: int) -> int:
    """The number as int64: helpers then compile once, whatever array their arguments came from."""
    return np.int64(value)  # type: ignore[return-value]


@inlined
def class_size(kind: int) -> int:
    """Entries in a run of this size class: 4, 6, 8, 12, 16, 24, ..."""
    half = kind >> 1
    return (4 << half) + (2 << half) * (kind & 1)


@inlined
def class_holding(count: int) -> int:
    """The smallest class with room for `count` entries."""
    kind = 0
    while class_size(kind) < count:
        kind += 1
    return kind


@embedded
def take(head: I64, used: int, size: int, free: int, links: NDArray[Any], place: int, stride: int) -> int:
    """Take a node or run from a free list, or, where that is empty, the next `size` elements of the array in use.

    `used` and `free` are fields of the head; the link of element i is at links[i * stride + place].
    """
    start = whole(head[free])
    if start != be.NONE:
        head[free] = links[start * stride + place]
    else:
        start = whole(head[used])
        head[used] = start + size
    return start


@embedded
def take_entries(tree: TreeArrays, count: int) -> tuple[int, int]:
    """Take a run with room for `count` entries: (its first, its room). The caller has made sure that there is one."""
    kind = class_holding(count)
    for better in range(kind, kind + 3):  # a run of a slightly larger class does as well
        start = tree.head[be.FREE_RUNS + better]
        if start != be.NONE:
            tree.head[be.FREE_RUNS + better] = tree.clause[start]
            return start, tree.record[start]
    start = tree.head[be.ENTRIES]
    room = class_size(kind)
    tree.head[be.ENTRIES] = start + room
    return start, room


@embedded
def give_entries(tree: TreeArrays, start: int, room: int) -> None:
    """Put a run on the free list of the largest class that fits into it."""
    if room < int(SMALLEST_RUN):
        return
    kind = 0
    while class_size(kind + 1) <= room:
        kind += 1
    tree.clause[start] = tree.head[be.FREE_RUNS + kind]
    tree.record[start] = room
    tree.head[be.FREE_RUNS + kind] = start


@embedded
def new_bucket(tree: TreeArrays, attr: int, pnode: int, parent: int, level: int) -> int:
    """Make an empty leaf bucket in the c-directory of a p-node."""
    b = take(tree.head, be.BUCKETS, 1, be.FREE_BUCKET, tree.link, be.LEFT, be.LINK)
    tree.head[be.LIVE_BUCKETS] += 1
    link, more = b * be.LINK, b * be.MORE
    set_cell(tree, b, be.HIGHEST, be.LOWEST)
    tree.link[link : link + be.LINK], tree.more[more : more + be.MORE] = 0, 0
    tree.link[link + be.ATTR], tree.link[link + be.PARENT] = attr, parent
    tree.link[link + be.LEFT], tree.link[link + be.RIGHT] = be.NONE, be.NONE
    tree.more[more + be.PNODE], tree.more[more + be.LEVEL] = pnode, level
    tree.more[more + be.LIMIT], tree.more[more + be.RIM] = tree.head[be.CAPACITY], be.NONE
    if level > 1:
        rim = take(tree.head, be.RIMS, 2 * (level - 1), be.FREE_RIMS + level, tree.rim, 0, 1)
        tree.more[more + be.RIM] = rim
        for i in range(level - 1):
            tree.rim[rim + 2 * i], tree.rim[rim + 2 * i + 1] = be.HIGHEST, be.LOWEST
    clear_bounds(tree, 2 * b)
    clear_bounds(tree, 2 * b + 1)
    return b


@embedded
def like_bucket(tree: TreeArrays, b: int, parent: int) -> int:
    """Make an empty leaf bucket in the same c-directory as b."""
    attr, pnode = whole(tree.link[b * be.LINK + be.ATTR]), whole(tree.more[b * be.MORE + be.PNODE])
    return new_bucket(tree, attr, pnode, parent, whole(tree.more[b * be.MORE + be.LEVEL]))


@embedded
def clear_bounds(tree: TreeArrays, part: int) -> None:
    """Set the score bounds of no clauses. Bucket b has the parts 2 b (all its clauses) and 2 b + 1 (its l-node)."""
    tree.first[part] = be.HIGHEST
    tree.top[2 * part], tree.top[2 * part + 1] = -np.inf, 0.0
    tree.peak[part * be.BINS : (part + 1) * be.BINS] = 0.0  # nothing, where there are no weights


@embedded
def copy_bounds(tree: TreeArrays, source: int, target: int) -> None:
    """Copy the score bounds of one part to another."""
    tree.first[target] = tree.first[source]
    tree.top[2 * target], tree.top[2 * target + 1] = tree.top[2 * source], tree.top[2 * source + 1]
    if len(tree.peak):
        for i in range(be.BINS):
            tree.peak[target * be.BINS + i] = tree.peak[source * be.BINS + i]


@embedded
def free_bucket(tree: TreeArrays, b: int) -> None:
    """Free a bucket and its runs; the caller removes the links to it."""
    link, more = b * be.LINK, b * be.MORE
    give_entries(tree, tree.link[link + be.FIRST], tree.more[more + be.ROOM])
    give_pdir(tree, tree.link[link + be.PDIR], tree.more[more + be.PDIR_ROOM])
    level = tree.more[more + be.LEVEL]
    if level > 1:
        rim = tree.more[more + be.RIM]
        tree.rim[rim] = tree.head[be.FREE_RIMS + level]
        tree.head[be.FREE_RIMS + level] = rim
    tree.link[link + be.LEFT] = tree.head[be.FREE_BUCKET]
    tree.more[more + be.LEVEL] = be.NONE  # marks a free bucket
    tree.head[be.FREE_BUCKET] = b
    tree.head[be.LIVE_BUCKETS] -= 1


@embedded
def give_pdir(tree: TreeArrays, start: int, room: int) -> None:
    """Put a run of a p-directory on its free list."""
    if room:
        kind = class_holding(room)
        tree.pdir_attr[start] = tree.head[be.FREE_PDIRS + kind]
        tree.head[be.FREE_PDIRS + kind] = start


@embedded
def new_pnode(tree: TreeArrays, owner: int, attr: int) -> int:
    """Make a p-node with an empty root bucket, listed in the p-directory of `owner`."""
    p = take(tree.head, be.PNODES, 1, be.FREE_PNODE, tree.pnode, be.PROOT, be.PART)
    tree.head[be.LIVE_PNODES] += 1
    tree.pnode[p * be.PART + be.PATTR], tree.pnode[p * be.PART + be.POWNER] = attr, owner
    tree.pnode[p * be.PART + 3] = 0
    tree.loss[p] = 0.0
    level = whole(tree.more[owner * be.MORE + be.LEVEL]) + 1
    tree.pnode[p * be.PART + be.PROOT] = new_bucket(tree, attr, p, be.NONE, level)
    width = tree.link[owner * be.LINK + be.WIDTH]
    if width == tree.more[owner * be.MORE + be.PDIR_ROOM]:
        widen_pdir(tree, owner)
    start = tree.link[owner * be.LINK + be.PDIR]
    i = start + width
    while i > start and at(tree.pdir_attr, i - 1) > attr:
        tree.pdir_attr[i], tree.pdir_node[i] = tree.pdir_attr[i - 1], tree.pdir_node[i - 1]
        i -= 1
    tree.pdir_attr[i], tree.pdir_node[i] = attr, p
    tree.link[owner * be.LINK + be.WIDTH] = width + 1
    return p


@embedded
def widen_pdir(tree: TreeArrays, b: int) -> None:
    """Move a p-directory to a longer run."""
    width, old = tree.link[b * be.LINK + be.WIDTH], tree.link[b * be.LINK + be.PDIR]
    kind = class_holding(width + 1)
    start = take(tree.head, be.PDIRS, class_size(kind), be.FREE_PDIRS + kind, tree.pdir_attr, 0, 1)
    for i in range(width):
        tree.pdir_attr[start + i], tree.pdir_node[start + i] = tree.pdir_attr[old + i], tree.pdir_node[old + i]
    give_pdir(tree, old, tree.more[b * be.MORE + be.PDIR_ROOM])
    tree.link[b * be.LINK + be.PDIR], tree.more[b * be.MORE + be.PDIR_ROOM] = start, class_size(kind)


@embedded
def free_pnode(tree: TreeArrays, p: int) -> None:
    """Take a p-node out of its p-directory and free it; the caller frees its buckets."""
    owner = tree.pnode[p * be.PART + be.POWNER]
    start, width = tree.link[owner * be.LINK + be.PDIR], tree.link[owner * be.LINK + be.WIDTH]
    i = start
    while tree.pdir_node[i] != p:
        i += 1
    for j in range(i, start + width - 1):
        tree.pdir_attr[j], tree.pdir_node[j] = tree.pdir_attr[j + 1], tree.pdir_node[j + 1]
    tree.link[owner * be.LINK + be.WIDTH] = width - 1
    if width == 1:
        give_pdir(tree, start, tree.more[owner * be.MORE + be.PDIR_ROOM])
        tree.link[owner * be.LINK + be.PDIR], tree.more[owner * be.MORE + be.PDIR_ROOM] = 0, 0
    list_free_pnode(tree, p)


@embedded
def list_free_pnode(tree: TreeArrays, p: int) -> None:
    """Mark a p-node as free and put it on the free list."""
    tree.pnode[p * be.PART + be.PROOT] = tree.head[be.FREE_PNODE]
    tree.pnode[p * be.PART + be.POWNER] = be.NONE
    tree.head[be.FREE_PNODE] = p
    tree.head[be.LIVE_PNODES] -= 1


@embedded
def find_pnode(tree: TreeArrays, b: int, attr: int) -> int:
    """The p-node of an attribute in a p-directory, or NONE (SearchPDir). O(log p-nodes)."""
    begin = whole(at(tree.link, b * be.LINK + be.PDIR))
    end = begin + at(tree.link, b * be.LINK + be.WIDTH)
    place = bisect_left(tree.pdir_attr, begin, end, attr)
    if place < end and at(tree.pdir_attr, place) == attr:
        return whole(at(tree.pdir_node, place))
    return be.NONE


@embedded
def replace_child(tree: TreeArrays, old: int, new: int) -> None:
    """Put `new` (or NONE) in the place of `old` below its parent, or as the root of its c-directory."""
    parent = tree.link[old * be.LINK + be.PARENT]
    if parent == be.NONE:
        tree.pnode[tree.more[old * be.MORE + be.PNODE] * be.PART + be.PROOT] = new
    elif tree.link[parent * be.LINK + be.LEFT] == old:
        tree.link[parent * be.LINK + be.LEFT] = new
    else:
        tree.link[parent * be.LINK + be.RIGHT] = new
    if new != be.NONE:
        tree.link[new * be.LINK + be.PARENT] = parent


@embedded
def above(tree: TreeArrays, b: int) -> int:
    """The parent in the c-directory, else the bucket whose p-directory lists its p-node; NONE above the root."""
    parent = whole(at(tree.link, b * be.LINK + be.PARENT))
    if parent != be.NONE:
        return parent
    p = at(tree.more, b * be.MORE + be.PNODE)
    return whole(at(tree.pnode, p * be.PART + be.POWNER)) if p != be.NONE else be.NONE


@embedded
def is_open_leaf(tree: TreeArrays, b: int) -> bool:
    """Whether a bucket has neither children nor p-nodes."""
    link = b * be.LINK
    return bool(tree.link[link + be.LEFT] == tree.link[link + be.RIGHT] == be.NONE and not tree.link[link + be.WIDTH])


@embedded
def beneath(tree: TreeArrays, b: int, i: int) -> int:
    """What is right below a bucket, or NONE: the roots of its p-nodes, from i = 0 on, then its left, its right."""
    width = at(tree.link, b * be.LINK + be.WIDTH)
    if i >= width:
        return whole(at(tree.link, b * be.LINK + be.LEFT + i - width))
    p = at(tree.pdir_node, at(tree.link, b * be.LINK + be.PDIR) + i)
    return whole(at(tree.pnode, p * be.PART + be.PROOT))


@embedded
def list_buckets(tree: TreeArrays, first: int, order: I32) -> int:
    """Write a bucket and all below it, each before what it has; how many. The end of `order` serves as the stack."""
    found, top = 0, len(order) - 1
    order[top] = first
    while top < len(order):
        b = whole(order[top])
        top += 1
        order[found] = b
        found += 1
        for i in range(at(tree.link, b * be.LINK + be.WIDTH) + 1, -1, -1):
            child = beneath(tree, b, i)
            if child != be.NONE:
                top -= 1
                order[top] = child
    return found


# --- boxes and cells -----------------------------------------------------------------------------------------------


@inlined
def length(lo: int, hi: int) -> float:
    """The approximate number of keys in a box; 0 when it is empty. A float, since the key line is longer than int64."""
    return float(hi) - float(lo) + 1.0 if lo <= hi else 0.0


@inlined
def middle_of(lo: int, hi: int) -> int:
    """The last key of the lower half of a cell."""
    return (lo >> 1) + (hi >> 1) + (lo & hi & 1)


@inlined
def cell_around(lo: int, hi: int) -> tuple[int, int]:
    """The smallest cell of the halved key line that holds [lo, hi]: a power of two long, and aligned."""
    below, over = be.LOWEST, be.HIGHEST
    while below < over:
        middle = middle_of(below, over)
        if hi <= middle:
            over = middle
        elif lo > middle:
            below = middle + 1
        else:
            break
    return below, over


@embedded
def set_cell(tree: TreeArrays, b: int, lo: int, hi: int) -> None:
    """Set the box of a bucket and of its own c-node: in a BE-Tree its cell."""
    for end in range(b * be.BOX, (b + 1) * be.BOX, be.HI + 1):
        tree.box[end + be.LO], tree.box[end + be.HI] = lo, hi


# --- clauses ---------------------------------------------------------------------------------------------------


@embedded
def constraint_on(table: SegmentArrays, clause: int, attr: int) -> int:
    """The clause's constraint on an attribute, or NONE."""
    for c in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
        if at(table.attr, c) == attr:
            return c
    return be.NONE


@embedded
def lowest(table: SegmentArrays, constraint: int) -> int:
    """The first key of the constraint's box; it has an interval."""
    return whole(at(table.lo, at(table.interval_start, constraint)))


@embedded
def highest(table: SegmentArrays, constraint: int) -> int:
    """The last key of the constraint's box."""
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
            bits |= np.uint64(1) << np.uint64(at(table.attr, c) & (be.BINS - 1))
    return bits


@inlined
def raised(value: float) -> float:
    """Slightly more than a value, unless it is 0: still no less when stored as float32, and when sums are rounded."""
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
    """Whether a record can represent the clause: one interval per constraint, no NULL, not all keys at once.

    A record's verification gives absent attributes an empty interval, which only the interval of all keys would meet.
    """
    begin, end = at(table.constraint_start, clause), at(table.constraint_start, clause + 1)
    if end - begin > be.LONGEST_RECORD:
        return False
    for c in range(begin, end):
        i = at(table.interval_start, c)
        single = at(table.interval_start, c + 1) == i + 1 and not at(table.accepts_null, c)
        if not single or at(table.attr, c) >= be.LANE_ATTRIBUTES:
            return False
        if at(table.lo, i) == be.LOWEST and at(table.hi, i) == be.HIGHEST:
            return False
    return True


@inlined
def record_words(constraints: int) -> int:
    """The length of a record in words."""
    return ((constraints + 4) >> 2) + 2 * constraints


@embedded
def new_record(tree: TreeArrays, table: SegmentArrays, clause: int) -> int:
    """Write a record of the clause; where it begins, or NONE when the clause is not plain."""
    if not is_plain(table, clause):
        return be.NONE
    begin, end = at(table.constraint_start, clause), at(table.constraint_start, clause + 1)
    n = whole(end - begin)
    start = take(tree.head, be.WORDS, record_words(n), be.FREE_WORDS + n, tree.word, 0, 1)
    tree.head[be.LIVE_WORDS] += record_words(n)
    pairs = start + ((n + 4) >> 2)
    tree.word[start:pairs] = 0
    tree.word[start] = n
    for j in range(n):
        lane = j + 1
        tree.word[start + (lane >> 2)] |= whole(at(table.attr, begin + j)) << whole(16 * (lane & 3))
        tree.word[pairs + 2 * j] = lowest(table, begin + j)
        tree.word[pairs + 2 * j + 1] = highest(table, begin + j)
    return start


@embedded
def free_record(tree: TreeArrays, start: int) -> None:
    """Put a record on its free list."""
    if start != be.NONE:
        n = tree.word[start] & 0xFFFF
        tree.word[start] = tree.head[be.FREE_WORDS + n]
        tree.head[be.FREE_WORDS + n] = start
        tree.head[be.LIVE_WORDS] -= record_words(n)


@embedded
def copy_entry(source: Any, i: int, target: Any, j: int) -> None:
    """Copy entry i of a tree or desk to place j of another, or of the same."""
    target.sign[j], target.clause[j] = source.sign[i], source.clause[i]
    target.record[j], target.most[j] = source.record[i], source.most[i]


@embedded
def put_entry(tree: TreeArrays, b: int, sign: np.uint64, clause: int, record: int, most: float) -> None:
    """Append an entry to an l-node, moving it to a longer run when it is full."""
    count = tree.link[b * be.LINK + be.COUNT]
    if count == tree.more[b * be.MORE + be.ROOM]:
        old = tree.link[b * be.LINK + be.FIRST]
        start, room = take_entries(tree, count + 1)
        for i in range(count):
            copy_entry(tree, old + i, tree, start + i)
            tree.place[tree.clause[start + i]] = start + i
        give_entries(tree, old, count)
        tree.link[b * be.LINK + be.FIRST], tree.more[b * be.MORE + be.ROOM] = start, room
    i = tree.link[b * be.LINK + be.FIRST] + count
    tree.sign[i], tree.clause[i], tree.record[i], tree.most[i] = sign, clause, record, most
    tree.where[clause], tree.place[clause] = b, i
    tree.link[b * be.LINK + be.COUNT] = count + 1
    tree.head[be.LONGEST] = max(tree.head[be.LONGEST], count + 1)


@embedded
def cut_entry(tree: TreeArrays, b: int, clause: int) -> None:
    """Remove a clause's entry from an l-node; the last entry takes its place."""
    i, last = tree.place[clause], tree.link[b * be.LINK + be.FIRST] + tree.link[b * be.LINK + be.COUNT] - 1
    copy_entry(tree, last, tree, i)
    tree.place[tree.clause[i]] = i
    tree.where[clause], tree.place[clause] = be.NONE, be.NONE
    tree.link[b * be.LINK + be.COUNT] -= 1
