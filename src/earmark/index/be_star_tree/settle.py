"""Making room: partitioning and clustering of l-nodes above their limit. Algorithms 4 and 5.

    settle(b):   b is a leaf bucket that is not partitioned, and can be split   -> left, overlapping (b itself), right
                 otherwise                               -> p-nodes for the attributes of highest rank in its l-node

and so on with the results, until every l-node is within its limit. In a bulk build (BE*-B), all clauses start in the
root's l-node, and nothing else is needed; a single insert calls the same for the bucket that it filled.

Entries are never copied to new runs here: a run is arranged so that what stays comes first and each part that goes
follows, and is then divided among the buckets.

    l-node of b     | x x . x o o . o |   ->   | . . | x x x | o o o |      b, left, right

An l-node that cannot be made smaller (no attribute left that enough clauses have) gets twice its size as its limit
(UpdateClusterCapacity), so that it is not tried again at every insert.

Rank of an attribute in an l-node: its number of clauses, less the share expected to be false candidates (`rate`; zero
under the optimistic ranking until events have been seen).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import earmark.index.be_star_tree.arrays as be
import earmark.index.be_star_tree.nodes as nodes
from earmark.flat.arrays import F32, I32, I64, U64
from earmark.flat.machine import at
from earmark.index.be_star_tree.arrays import TreeArrays
from earmark.index.be_star_tree.bounds import Path, path_to, renew
from earmark.index.be_star_tree.insert import cell_around, like_bucket, middle_of, set_cell
from earmark.index.be_star_tree.nodes import whole
from earmark.index.be_star_tree.split import find_split
from earmark.index.stored import element_types
from earmark.jit import embedded, kernel
from earmark.segment.arrays import SegmentArrays


class Desk(NamedTuple):
    """Working memory of `settle`: for the entries of one l-node, and for the attributes."""

    sign: U64
    clause: I32
    record: I32
    most: F32
    lo: I64
    hi: I64
    part: I32
    posting: I32
    share: I32
    begin: I32
    end: I32
    touched: I32
    fresh: I32
    todo: I32


def new_desk(entries: int, constraints: int, attributes: int) -> Desk:
    """Make a desk for l-nodes of up to `entries` entries with `constraints` constraints in all."""
    sizes = [entries] * 7 + [constraints, attributes] + [attributes + 4] * 4 + [2 * entries + attributes + 8]
    return Desk._make(map(np.zeros, sizes, element_types(Desk).values()))


@kernel
def settle(tree: TreeArrays, table: SegmentArrays, desk: Desk, path: Path, todo: int) -> int:
    """Bring the buckets on the desk's list within their limits; returns the number left on it for want of room."""
    while todo:
        todo -= 1
        b = whole(desk.todo[todo])
        if tree.link[b * be.LINK + be.COUNT] <= tree.more[b * be.MORE + be.LIMIT]:
            continue
        if not _has_room(tree, desk, b):
            return todo + 1
        fresh = 0
        if tree.more[b * be.MORE + be.LEVEL] > 0 and nodes.is_open_leaf(tree, b):
            count, attr = _gather_boxes(tree, table, desk, b)
            approximate, rigid = tree.head[be.APPROXIMATE] != 0, tree.head[be.RIGID] != 0
            low, high, alpha = tree.box[b * be.BOX + be.LO], tree.box[b * be.BOX + be.HI], tree.knob[be.ALPHA]
            lo, hi = desk.lo[:count], desk.hi[:count]
            split = find_split(lo, hi, alpha, tree.apart[attr], approximate, rigid, low, high)
            fresh = _cluster(tree, desk, b, split)
        if not fresh:
            fresh = _partition(tree, table, desk, b, path)
        for i in range(fresh + 1):
            x = whole(desk.fresh[i]) if i < fresh else b
            renew(tree, table, x, path)
            if fresh and tree.link[x * be.LINK + be.COUNT] > tree.more[x * be.MORE + be.LIMIT]:
                desk.todo[todo] = x
                todo += 1
    return todo


@embedded
def _has_room(tree: TreeArrays, desk: Desk, b: int) -> bool:
    """Whether there is room for as many p-nodes as partitioning b can make."""
    parts = whole(max(2, min(len(desk.share), tree.link[b * be.LINK + be.COUNT] // tree.head[be.LEAST] + 1)))
    return bool(
        len(tree.link) // be.LINK - tree.head[be.BUCKETS] >= parts
        and len(tree.pnode) // be.PART - tree.head[be.PNODES] >= parts
        and len(tree.rim) - tree.head[be.RIMS] >= parts * 2 * be.LEVELS
        and len(tree.pdir_attr) - tree.head[be.PDIRS] >= 4 * (parts + tree.link[b * be.LINK + be.WIDTH]) + 64
    )


@embedded
def _arrange(tree: TreeArrays, desk: Desk, b: int, parts: int) -> None:
    """Order the run of b by desk.part, and leave in desk.begin where each part begins; part `parts` is the end."""
    first, count = tree.link[b * be.LINK + be.FIRST], tree.link[b * be.LINK + be.COUNT]
    for k in range(parts + 1):
        desk.begin[k] = 0
    for i in range(count):
        nodes.copy_entry(tree, first + i, desk, i)
        desk.begin[desk.part[i] + 1] += 1
    for k in range(parts):
        desk.begin[k + 1] += desk.begin[k]
    for i in range(count):
        k = desk.part[i]
        e = first + desk.begin[k]
        desk.begin[k] += 1
        nodes.copy_entry(desk, i, tree, e)
        tree.place[desk.clause[i]] = e
    for k in range(parts, 0, -1):
        desk.begin[k] = desk.begin[k - 1]
    desk.begin[0] = 0


@embedded
def _hand_over(tree: TreeArrays, desk: Desk, b: int, part: int, last: bool, to: int) -> None:
    """Give a part of the arranged run of b to an empty bucket; the last part also gets the room behind it."""
    first = tree.link[b * be.LINK + be.FIRST]
    begin, end = desk.begin[part], desk.begin[part + 1]
    tree.link[to * be.LINK + be.FIRST], tree.link[to * be.LINK + be.COUNT] = first + begin, end - begin
    tree.more[to * be.MORE + be.ROOM] = (tree.more[b * be.MORE + be.ROOM] if last else end) - begin
    tree.more[to * be.MORE + be.BELOW] = end - begin
    for e in range(first + begin, first + end):
        tree.where[tree.clause[e]] = to


@embedded
def _keep(tree: TreeArrays, desk: Desk, b: int) -> None:
    """Leave b with the first part of its arranged run."""
    tree.link[b * be.LINK + be.COUNT] = desk.begin[1]
    tree.more[b * be.MORE + be.ROOM] = desk.begin[1]


@embedded
def _gather_boxes(tree: TreeArrays, table: SegmentArrays, desk: Desk, b: int) -> tuple[int, int]:
    """Put the boxes of an l-node's clauses on the active dimension on the desk; their number, and the attribute."""
    link = b * be.LINK
    first, count, attr = tree.link[link + be.FIRST], tree.link[link + be.COUNT], tree.link[link + be.ATTR]
    for i in range(count):
        c = nodes.constraint_on(table, at(tree.clause, first + i), attr)
        desk.lo[i], desk.hi[i] = nodes.lowest(table, c), nodes.highest(table, c)
    return count, attr


@embedded
def _cluster(tree: TreeArrays, desk: Desk, b: int, split: tuple[int, int, int, int]) -> int:
    """Split a leaf bucket (Algorithm 5); the number of new buckets in desk.fresh, 0 when it cannot be split."""
    left_end, right_begin, left, right = split
    count = tree.link[b * be.LINK + be.COUNT]
    low, high = tree.box[b * be.BOX + be.LO], tree.box[b * be.BOX + be.HI]
    if left == 0 and right == 0:
        return 0
    for i in range(count):
        desk.part[i] = 1 if desk.hi[i] <= left_end else 2 if right and desk.lo[i] >= right_begin else 0
    _arrange(tree, desk, b, 3)
    fresh = 0
    for side in range(2):
        if desk.begin[side + 2] > desk.begin[side + 1]:
            new = like_bucket(tree, b, b)
            tree.link[b * be.LINK + be.LEFT + side] = new
            _hand_over(tree, desk, b, side + 1, side == 1 or right == 0, new)
            if tree.head[be.RIGID]:
                middle = middle_of(low, high)
                set_cell(tree, new, middle + 1 if side else low, high if side else middle)
            desk.fresh[fresh] = new
            fresh += 1
    _keep(tree, desk, b)
    return fresh


@embedded
def _partition(tree: TreeArrays, table: SegmentArrays, desk: Desk, b: int, path: Path) -> int:
    """Move clauses of an l-node below new p-nodes (Algorithm 4); the number of root buckets in desk.fresh."""
    parts = _choose_parts(tree, table, desk, b, path)
    if parts:
        _arrange(tree, desk, b, parts + 1)
        for k in range(parts):
            p = nodes.new_pnode(tree, b, whole(desk.touched[k]))
            root = whole(tree.pnode[p * be.PART + be.PROOT])
            _hand_over(tree, desk, b, k + 1, k == parts - 1, root)
            desk.fresh[k] = root
            if tree.head[be.RIGID]:
                _set_domain(tree, table, root)
        _keep(tree, desk, b)
    count = tree.link[b * be.LINK + be.COUNT]
    capacity = tree.head[be.CAPACITY]
    tree.more[b * be.MORE + be.LIMIT] = capacity if count <= capacity else 2 * count
    return parts


@embedded
def _set_domain(tree: TreeArrays, table: SegmentArrays, root: int) -> None:
    """Set the cell of a new p-node's root bucket: the smallest one that holds its clauses."""
    first, attr = tree.link[root * be.LINK + be.FIRST], tree.link[root * be.LINK + be.ATTR]
    c = nodes.constraint_on(table, at(tree.clause, first), attr)
    low, high = nodes.lowest(table, c), nodes.highest(table, c)
    for e in range(first + 1, first + tree.link[root * be.LINK + be.COUNT]):
        c = nodes.constraint_on(table, at(tree.clause, e), attr)
        low, high = min(low, nodes.lowest(table, c)), max(high, nodes.highest(table, c))
    low, high = cell_around(low, high)
    set_cell(tree, root, low, high)


@embedded
def _choose_parts(tree: TreeArrays, table: SegmentArrays, desk: Desk, b: int, path: Path) -> int:
    """Pick attributes by rank until the l-node is within its capacity; returns their number.

    desk.part becomes the part of each entry (0 stays), and desk.touched begins with the attributes picked.
    """
    level = path_to(tree, b, path)
    first, count = tree.link[b * be.LINK + be.FIRST], tree.link[b * be.LINK + be.COUNT]
    if level >= be.LEVELS:
        return 0
    attributes = _post(tree, table, desk, first, count, level, path)
    left, parts, least = count, 0, tree.head[be.LEAST]
    while left > tree.head[be.CAPACITY] and parts < attributes:
        best, best_rank = be.NONE, 0.0
        for i in range(parts, attributes):
            a = at(desk.touched, i)
            rank = desk.share[a] * (1.0 - at(tree.rate, a))
            if desk.share[a] >= least and rank > best_rank:
                best, best_rank = i, rank
        if best == be.NONE:
            break
        attr = desk.touched[best]
        desk.touched[best], desk.touched[parts] = desk.touched[parts], attr
        parts += 1
        for i in range(desk.begin[attr], desk.end[attr]):
            entry = at(desk.posting, i)
            if at(desk.part, entry) == 0:
                desk.part[entry] = parts
                left -= 1
                clause = at(tree.clause, first + entry)
                for c in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
                    if nodes.can_key(table, c):
                        desk.share[at(table.attr, c)] -= 1
    for i in range(attributes):
        desk.share[desk.touched[i]] = 0
    for i in range(1, level + 1):
        desk.share[path.attr[i]] = 0
    return parts


@embedded
def _post(tree: TreeArrays, table: SegmentArrays, desk: Desk, first: int, count: int, level: int, path: Path) -> int:
    """List the l-node's entries by the attributes that can still partition them; returns the number of attributes."""
    attributes = 0
    for entry in range(count):
        desk.part[entry] = 0
        clause = at(tree.clause, first + entry)
        for c in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
            attr = at(table.attr, c)
            if nodes.can_key(table, c) and not _used(path, level, attr):
                if desk.share[attr] == 0:
                    desk.touched[attributes] = attr
                    attributes += 1
                desk.share[attr] += 1
    total = 0
    for i in range(attributes):
        attr = desk.touched[i]
        desk.begin[attr] = desk.end[attr] = total
        total += desk.share[attr]
    for entry in range(count):
        clause = at(tree.clause, first + entry)
        for c in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
            attr = at(table.attr, c)
            if nodes.can_key(table, c) and not _used(path, level, attr):
                desk.posting[desk.end[attr]] = entry
                desk.end[attr] += 1
    return attributes


@embedded
def _used(path: Path, level: int, attr: int) -> bool:
    """Whether a p-node above already partitions by the attribute."""
    used = False
    for i in range(1, level + 1):
        used |= bool(at(path.attr, i) == attr)
    return used


@kernel
def collapse(tree: TreeArrays, table: SegmentArrays, b: int, stack: I32, path: Path) -> bool:
    """Bring all clauses of a bucket into its own l-node and free what was below; False when there is no room."""
    total = tree.more[b * be.MORE + be.BELOW]
    if len(tree.sign) - tree.head[be.ENTRIES] < 2 * total + 16:
        return False
    start, room = nodes.take_entries(tree, total)
    filled, height = 0, 1
    stack[0] = b
    while height:
        height -= 1
        x = whole(stack[height])
        first = tree.link[x * be.LINK + be.FIRST]
        for e in range(first, first + tree.link[x * be.LINK + be.COUNT]):
            i = start + filled
            nodes.copy_entry(tree, e, tree, i)
            tree.where[tree.clause[i]], tree.place[tree.clause[i]] = b, i
            filled += 1
        height = nodes.push_below(tree, x, stack, height)
        _free_pnodes(tree, x)
        if x != b:
            nodes.free_bucket(tree, x)
        else:
            nodes.give_entries(tree, first, tree.more[b * be.MORE + be.ROOM])
    tree.link[b * be.LINK + be.FIRST], tree.link[b * be.LINK + be.COUNT] = start, total
    tree.more[b * be.MORE + be.ROOM] = room
    tree.link[b * be.LINK + be.LEFT], tree.link[b * be.LINK + be.RIGHT] = be.NONE, be.NONE
    tree.more[b * be.MORE + be.LIMIT], tree.more[b * be.MORE + be.CHANGED] = tree.head[be.CAPACITY], 0
    tree.head[be.LONGEST] = max(tree.head[be.LONGEST], total)
    renew(tree, table, b, path)
    return True


@embedded
def _free_pnodes(tree: TreeArrays, b: int) -> None:
    """Free the p-nodes of a bucket and its p-directory; the caller frees their buckets."""
    start = tree.link[b * be.LINK + be.PDIR]
    for d in range(start, start + tree.link[b * be.LINK + be.WIDTH]):
        nodes.list_free_pnode(tree, tree.pdir_node[d])
    nodes.give_pdir(tree, start, tree.more[b * be.MORE + be.PDIR_ROOM])
    tree.link[b * be.LINK + be.PDIR], tree.link[b * be.LINK + be.WIDTH], tree.more[b * be.MORE + be.PDIR_ROOM] = 0, 0, 0


@kernel
def renew_all(tree: TreeArrays, table: SegmentArrays, stack: I32, order: I32, path: Path) -> None:
    """Compute boxes and bounds of every bucket from scratch, lowest first; `stack` and `order` hold all buckets."""
    height, found = 2, 0
    stack[0], stack[1] = be.ROOT, be.NEVER
    while height:
        height -= 1
        b = whole(stack[height])
        order[found] = b
        found += 1
        height = nodes.push_below(tree, b, stack, height)
    for i in range(found - 1, -1, -1):
        renew(tree, table, whole(order[i]), path)


@kernel
def fill_root(tree: TreeArrays, table: SegmentArrays, clauses: I32) -> None:
    """Begin a bulk build: put clauses into the root's l-node, or among those that never match, without records."""
    hopeless = 0
    for i in range(len(clauses)):
        hopeless += 1 if nodes.never_holds(table, clauses[i]) else 0
    for b in range(be.NEVER + 1):
        count = hopeless if b == be.NEVER else len(clauses) - hopeless
        if count:
            tree.link[b * be.LINK + be.FIRST], tree.more[b * be.MORE + be.ROOM] = nodes.take_entries(tree, count)
    for i in range(len(clauses)):
        clause = whole(clauses[i])
        b = be.NEVER if nodes.never_holds(table, clause) else be.ROOT
        nodes.put_entry(tree, b, nodes.signature(table, clause), clause, be.NONE, nodes.weights_of(table, clause))
        tree.more[b * be.MORE + be.BELOW] += 1
        tree.head[be.CLAUSES] += 1


@kernel
def pack(tree: TreeArrays, table: SegmentArrays, into: TreeArrays, stack: I32) -> None:
    """Lay out entries and records in the order of the tree and without gaps, in the arrays of `into`.

    `into` shares all other arrays with `tree`.
    """
    for kind in range(be.CLASSES):
        into.head[be.FREE_RUNS + kind] = be.NONE
    for kind in range(be.LONGEST_RECORD + 1):
        into.head[be.FREE_WORDS + kind] = be.NONE
    into.head[be.ENTRIES], into.head[be.WORDS], into.head[be.LIVE_WORDS] = 0, 0, 0
    into.head[be.LONGEST] = 0
    stack[0], stack[1] = be.NEVER, be.ROOT
    height = 2
    while height:
        height -= 1
        b = whole(stack[height])
        first, count = tree.link[b * be.LINK + be.FIRST], tree.link[b * be.LINK + be.COUNT]
        start = into.head[be.ENTRIES]
        for i in range(count):
            clause = whole(tree.clause[first + i])
            nodes.copy_entry(tree, first + i, into, start + i)
            into.record[start + i] = nodes.new_record(into, table, clause)
            into.place[clause] = start + i
        into.head[be.ENTRIES] = start + count
        into.link[b * be.LINK + be.FIRST], into.more[b * be.MORE + be.ROOM] = start, count
        into.head[be.LONGEST] = max(into.head[be.LONGEST], count)
        height = nodes.push_below(tree, b, stack, height)
