"""Making room: partitioning and clustering of l-nodes above their limit. Algorithms 4 and 5.

    settle(b):   b is a leaf bucket that is not partitioned, and can be split   -> left, overlapping (b itself), right
                 otherwise                               -> p-nodes for the attributes of highest rank in its l-node

and so on with what came of it, until every l-node is within its limit. Built in bulk (BE*-B), all clauses start in the
root's l-node, and this is all there is to do; a single insert calls the same for the bucket that it filled.

Entries are never copied to new runs here: a run is arranged so that what stays comes first and each part that goes
follows, and is then cut up among the buckets.

    l-node of b     | x x . x o o . o |   ->   | . . | x x x | o o o |      b, left, right

An l-node that cannot be made smaller (no attribute left that enough clauses have) gets twice its size as its limit
(UpdateClusterCapacity), so that it is not tried again at every insert.

Rank of an attribute in an l-node: its number of clauses, less the share expected to be false candidates (`rate`; zero
under the optimistic ranking until events have been seen).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.flat.machine import at
from earmark.flat.types import I32, I64, U64
from earmark.index.be_star_tree.arrays import (
    ALPHA,
    APPROXIMATE,
    ATTR,
    BELOW,
    BOX,
    BUCKETS,
    CAPACITY,
    CHANGED,
    CLASSES,
    CLAUSES,
    COUNT,
    ENTRIES,
    F32,
    FIRST,
    FREE_PNODE,
    FREE_RUNS,
    FREE_WORDS,
    HI,
    LEAST,
    LEFT,
    LEVEL,
    LEVELS,
    LIMIT,
    LINK,
    LIVE_PNODES,
    LIVE_WORDS,
    LO,
    LONGEST,
    LONGEST_RECORD,
    MORE,
    NEVER,
    NONE,
    PART,
    PDIR,
    PDIR_ROOM,
    PDIRS,
    PNODE,
    PNODES,
    POWNER,
    PROOT,
    RIGHT,
    RIGID,
    RIMS,
    ROOM,
    ROOT,
    WIDTH,
    WORDS,
    TreeArrays,
)
from earmark.index.be_star_tree.bounds import Path, path_to, renew
from earmark.index.be_star_tree.insert import CRAMPED, DONE, cell_around, middle_of, set_cell
from earmark.index.be_star_tree.nodes import (
    can_key,
    constraint_on,
    free_bucket,
    give_entries,
    give_pdir,
    highest,
    lowest,
    never_holds,
    new_bucket,
    new_pnode,
    new_record,
    put_entry,
    signature,
    take_entries,
    weights_of,
    whole,
)
from earmark.index.be_star_tree.split import find_split
from earmark.jit import embedded, kernel
from earmark.segment.arrays import SegmentArrays


class Desk(NamedTuple):
    """Working room of `settle`: for the entries of one l-node, and for the attributes."""

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
    """A desk for l-nodes of up to so many entries that have so many constraints in all."""
    return Desk(
        np.empty(entries, np.uint64),
        np.empty(entries, np.int32),
        np.empty(entries, np.int32),
        np.empty(entries, np.float32),
        np.empty(entries, np.int64),
        np.empty(entries, np.int64),
        np.empty(entries, np.int32),
        np.empty(constraints, np.int32),
        np.zeros(attributes, np.int32),
        np.empty(attributes + 4, np.int32),
        np.empty(attributes + 4, np.int32),
        np.empty(attributes + 4, np.int32),
        np.empty(attributes + 4, np.int32),
        np.empty(2 * entries + attributes + 8, np.int32),
    )


@kernel
def settle(tree: TreeArrays, table: SegmentArrays, desk: Desk, path: Path, todo: int) -> tuple[int, int]:
    """Bring the buckets on the desk's list within their limits; (how many are left on it, why it stopped)."""
    while todo:
        todo -= 1
        b = whole(desk.todo[todo])
        if tree.link[b * LINK + COUNT] <= tree.more[b * MORE + LIMIT]:
            continue
        if not _has_room(tree, desk, b):
            return todo + 1, int(CRAMPED)
        fresh = 0
        open_leaf = tree.link[b * LINK + LEFT] == int(NONE) and tree.link[b * LINK + RIGHT] == int(NONE)
        if tree.more[b * MORE + LEVEL] > 0 and open_leaf and tree.link[b * LINK + WIDTH] == 0:
            count, attr = _gather_boxes(tree, table, desk, b)
            split = find_split(
                desk.lo[:count],
                desk.hi[:count],
                tree.knob[int(ALPHA)],
                tree.apart[attr],
                tree.head[int(APPROXIMATE)] != 0,
                tree.head[int(RIGID)] != 0,
                tree.box[b * BOX + LO],
                tree.box[b * BOX + HI],
            )
            fresh = _cluster(tree, desk, b, split)
        if not fresh:
            fresh = _partition(tree, table, desk, b, path)
        for i in range(fresh + 1):
            x = whole(desk.fresh[i]) if i < fresh else b
            renew(tree, table, x, path)
            if fresh and tree.link[x * LINK + COUNT] > tree.more[x * MORE + LIMIT]:
                desk.todo[todo] = x
                todo += 1
    return 0, int(DONE)


@embedded
def most_parts(tree: TreeArrays, desk: Desk, b: int) -> int:
    """No partitioning of b makes more p-nodes than this."""
    return whole(max(2, min(len(desk.share), tree.link[b * LINK + COUNT] // tree.head[int(LEAST)] + 1)))


@embedded
def _has_room(tree: TreeArrays, desk: Desk, b: int) -> bool:
    parts = most_parts(tree, desk, b)
    return bool(
        len(tree.link) // LINK - tree.head[int(BUCKETS)] >= parts
        and len(tree.pnode) // PART - tree.head[int(PNODES)] >= parts
        and len(tree.rim) - tree.head[int(RIMS)] >= parts * 2 * LEVELS
        and len(tree.pdir_attr) - tree.head[int(PDIRS)] >= 4 * (parts + tree.link[b * LINK + WIDTH]) + 64
    )


@embedded
def _arrange(tree: TreeArrays, desk: Desk, b: int, parts: int) -> None:
    """Order the run of b by desk.part, and leave in desk.begin where each part begins; `parts` is one too many."""
    first, count = tree.link[b * LINK + FIRST], tree.link[b * LINK + COUNT]
    for k in range(parts + 1):
        desk.begin[k] = 0
    for i in range(count):
        e = first + i
        desk.sign[i], desk.clause[i] = tree.sign[e], tree.clause[e]
        desk.record[i], desk.most[i] = tree.record[e], tree.most[e]
        desk.begin[desk.part[i] + 1] += 1
    for k in range(parts):
        desk.begin[k + 1] += desk.begin[k]
    for i in range(count):
        k = desk.part[i]
        e = first + desk.begin[k]
        desk.begin[k] += 1
        tree.sign[e], tree.clause[e] = desk.sign[i], desk.clause[i]
        tree.record[e], tree.most[e] = desk.record[i], desk.most[i]
        tree.place[desk.clause[i]] = e
    for k in range(parts, 0, -1):
        desk.begin[k] = desk.begin[k - 1]
    desk.begin[0] = 0


@embedded
def _hand_over(tree: TreeArrays, desk: Desk, b: int, part: int, last: bool, to: int) -> None:
    """Give a part of the arranged run of b to an empty bucket; the last part also gets the room behind."""
    first = tree.link[b * LINK + FIRST]
    begin, end = desk.begin[part], desk.begin[part + 1]
    tree.link[to * LINK + FIRST], tree.link[to * LINK + COUNT] = first + begin, end - begin
    tree.more[to * MORE + ROOM] = (tree.more[b * MORE + ROOM] if last else end) - begin
    tree.more[to * MORE + BELOW] = end - begin
    for e in range(first + begin, first + end):
        tree.where[tree.clause[e]] = to


@embedded
def _keep(tree: TreeArrays, desk: Desk, b: int) -> None:
    """Leave b with the first part of its arranged run."""
    tree.link[b * LINK + COUNT] = desk.begin[1]
    tree.more[b * MORE + ROOM] = desk.begin[1]


@embedded
def _gather_boxes(tree: TreeArrays, table: SegmentArrays, desk: Desk, b: int) -> tuple[int, int]:
    """Put the boxes of an l-node's clauses on the active dimension on the desk; their number, and the attribute."""
    first, count, attr = tree.link[b * LINK + FIRST], tree.link[b * LINK + COUNT], tree.link[b * LINK + ATTR]
    for i in range(count):
        c = constraint_on(table, at(tree.clause, first + i), attr)
        desk.lo[i], desk.hi[i] = lowest(table, c), highest(table, c)
    return count, attr


@embedded
def _cluster(tree: TreeArrays, desk: Desk, b: int, split: tuple[int, int, int, int]) -> int:
    """Split a leaf bucket (Algorithm 5); how many new buckets are in desk.fresh, 0 when it cannot be split."""
    left_end, right_begin, left, right = split
    count, attr = tree.link[b * LINK + COUNT], tree.link[b * LINK + ATTR]
    low, high = tree.box[b * BOX + LO], tree.box[b * BOX + HI]
    if left == 0 and right == 0:
        return 0
    for i in range(count):
        desk.part[i] = 1 if desk.hi[i] <= left_end else 2 if right and desk.lo[i] >= right_begin else 0
    _arrange(tree, desk, b, 3)
    fresh = 0
    for side in range(2):
        if desk.begin[side + 2] > desk.begin[side + 1]:
            made = new_bucket(
                tree, whole(attr), whole(tree.more[b * MORE + PNODE]), b, whole(tree.more[b * MORE + LEVEL])
            )
            tree.link[b * LINK + LEFT + side] = made
            _hand_over(tree, desk, b, side + 1, side == 1 or right == 0, made)
            if tree.head[int(RIGID)]:
                middle = middle_of(low, high)
                set_cell(tree, made, middle + 1 if side else low, high if side else middle)
            desk.fresh[fresh] = made
            fresh += 1
    _keep(tree, desk, b)
    return fresh


@embedded
def _partition(tree: TreeArrays, table: SegmentArrays, desk: Desk, b: int, path: Path) -> int:
    """Move clauses of an l-node below new p-nodes (Algorithm 4); how many root buckets are in desk.fresh."""
    parts = _choose_parts(tree, table, desk, b, path)
    if parts:
        _arrange(tree, desk, b, parts + 1)
        for k in range(parts):
            p = new_pnode(tree, b, whole(desk.touched[k]))
            root = whole(tree.pnode[p * PART + PROOT])
            _hand_over(tree, desk, b, k + 1, k == parts - 1, root)
            desk.fresh[k] = root
            if tree.head[int(RIGID)]:
                _set_domain(tree, table, root)
        _keep(tree, desk, b)
    count = tree.link[b * LINK + COUNT]
    capacity = tree.head[int(CAPACITY)]
    tree.more[b * MORE + LIMIT] = capacity if count <= capacity else 2 * count
    return parts


@embedded
def _set_domain(tree: TreeArrays, table: SegmentArrays, root: int) -> None:
    """Give the root bucket of a new p-node the smallest cell that holds its clauses."""
    first, attr = tree.link[root * LINK + FIRST], tree.link[root * LINK + ATTR]
    c = constraint_on(table, at(tree.clause, first), attr)
    low, high = lowest(table, c), highest(table, c)
    for e in range(first + 1, first + tree.link[root * LINK + COUNT]):
        c = constraint_on(table, at(tree.clause, e), attr)
        low, high = min(low, lowest(table, c)), max(high, highest(table, c))
    low, high = cell_around(low, high)
    set_cell(tree, root, low, high)


@embedded
def _choose_parts(tree: TreeArrays, table: SegmentArrays, desk: Desk, b: int, path: Path) -> int:
    """Pick attributes by rank until the l-node is within its capacity. desk.part says which entry goes where (0 stays),
    desk.touched begins with the attributes picked; returns how many."""
    level = path_to(tree, b, path)
    first, count = tree.link[b * LINK + FIRST], tree.link[b * LINK + COUNT]
    if level >= int(LEVELS):
        return 0
    attributes = _post(tree, table, desk, first, count, level, path)
    left, parts, least = count, 0, tree.head[int(LEAST)]
    while left > tree.head[int(CAPACITY)] and parts < attributes:
        best, best_rank = int(NONE), 0.0
        for i in range(parts, attributes):
            a = at(desk.touched, i)
            rank = desk.share[a] * (1.0 - at(tree.rate, a))
            if desk.share[a] >= least and rank > best_rank:
                best, best_rank = i, rank
        if best == int(NONE):
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
                    if can_key(table, c):
                        desk.share[at(table.attr, c)] -= 1
    for i in range(attributes):
        desk.share[desk.touched[i]] = 0
    for i in range(1, level + 1):
        desk.share[path.attr[i]] = 0
    return parts


@embedded
def _post(tree: TreeArrays, table: SegmentArrays, desk: Desk, first: int, count: int, level: int, path: Path) -> int:
    """Posting lists of the l-node's entries by attribute that may still key them; returns the number of attributes."""
    attributes = 0
    for entry in range(count):
        desk.part[entry] = 0
        clause = at(tree.clause, first + entry)
        for c in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
            attr = at(table.attr, c)
            if can_key(table, c) and not _used(path, level, attr):
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
            if can_key(table, c) and not _used(path, level, attr):
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
    total = tree.more[b * MORE + BELOW]
    if len(tree.sign) - tree.head[int(ENTRIES)] < 2 * total + 16:
        return False
    start, room = take_entries(tree, total)
    filled, height = 0, 1
    stack[0] = b
    while height:
        height -= 1
        x = whole(stack[height])
        first = tree.link[x * LINK + FIRST]
        for e in range(first, first + tree.link[x * LINK + COUNT]):
            i = start + filled
            tree.sign[i], tree.clause[i] = tree.sign[e], tree.clause[e]
            tree.record[i], tree.most[i] = tree.record[e], tree.most[e]
            tree.where[tree.clause[i]], tree.place[tree.clause[i]] = b, i
            filled += 1
        for side in range(2):
            if tree.link[x * LINK + LEFT + side] != int(NONE):
                stack[height] = tree.link[x * LINK + LEFT + side]
                height += 1
        height = _drop_pnodes(tree, x, stack, height)
        if x != b:
            free_bucket(tree, x)
        else:
            give_entries(tree, first, tree.more[b * MORE + ROOM])
    tree.link[b * LINK + FIRST], tree.link[b * LINK + COUNT], tree.more[b * MORE + ROOM] = start, total, room
    tree.link[b * LINK + LEFT], tree.link[b * LINK + RIGHT] = int(NONE), int(NONE)
    tree.more[b * MORE + LIMIT], tree.more[b * MORE + CHANGED] = tree.head[int(CAPACITY)], 0
    tree.head[int(LONGEST)] = max(tree.head[int(LONGEST)], total)
    renew(tree, table, b, path)
    return True


@embedded
def _drop_pnodes(tree: TreeArrays, b: int, stack: I32, height: int) -> int:
    """Free the p-nodes of a bucket; their root buckets go on the stack, whose height is returned."""
    start = tree.link[b * LINK + PDIR]
    for d in range(start, start + tree.link[b * LINK + WIDTH]):
        p = tree.pdir_node[d]
        stack[height] = tree.pnode[p * PART + PROOT]
        height += 1
        tree.pnode[p * PART + PROOT] = tree.head[int(FREE_PNODE)]
        tree.pnode[p * PART + POWNER] = int(NONE)
        tree.head[int(FREE_PNODE)] = p
        tree.head[int(LIVE_PNODES)] -= 1
    give_pdir(tree, start, tree.more[b * MORE + PDIR_ROOM])
    tree.link[b * LINK + PDIR], tree.link[b * LINK + WIDTH], tree.more[b * MORE + PDIR_ROOM] = 0, 0, 0
    return height


@kernel
def renew_all(tree: TreeArrays, table: SegmentArrays, stack: I32, order: I32, path: Path) -> None:
    """Boxes and bounds of every bucket from scratch, lowest first; the stacks hold all buckets."""
    height, found = 2, 0
    stack[0], stack[1] = int(ROOT), int(NEVER)
    while height:
        height -= 1
        b = whole(stack[height])
        order[found] = b
        found += 1
        for side in range(2):
            if tree.link[b * LINK + LEFT + side] != int(NONE):
                stack[height] = tree.link[b * LINK + LEFT + side]
                height += 1
        start = tree.link[b * LINK + PDIR]
        for d in range(start, start + tree.link[b * LINK + WIDTH]):
            stack[height] = tree.pnode[tree.pdir_node[d] * PART + PROOT]
            height += 1
    for i in range(found - 1, -1, -1):
        renew(tree, table, whole(order[i]), path)


@kernel
def fill_root(tree: TreeArrays, table: SegmentArrays, clauses: I32) -> None:
    """Put clauses into the root's l-node, or among those that never match, without records: a bulk build begins."""
    hopeless = 0
    for i in range(len(clauses)):
        hopeless += 1 if never_holds(table, clauses[i]) else 0
    for b in range(int(NEVER) + 1):
        count = hopeless if b == int(NEVER) else len(clauses) - hopeless
        if count:
            tree.link[b * LINK + FIRST], tree.more[b * MORE + ROOM] = take_entries(tree, count)
    for i in range(len(clauses)):
        clause = whole(clauses[i])
        b = int(NEVER) if never_holds(table, clause) else int(ROOT)
        put_entry(tree, b, signature(table, clause), clause, int(NONE), weights_of(table, clause))
        tree.more[b * MORE + BELOW] += 1
        tree.head[int(CLAUSES)] += 1


@kernel
def pack(tree: TreeArrays, table: SegmentArrays, into: TreeArrays, stack: I32) -> None:
    """Lay out entries and records anew, in the order of the tree and without gaps, in the arrays of `into`.

    `into` shares all other arrays with `tree`.
    """
    for kind in range(int(CLASSES)):
        into.head[int(FREE_RUNS) + kind] = int(NONE)
    for kind in range(int(LONGEST_RECORD) + 1):
        into.head[int(FREE_WORDS) + kind] = int(NONE)
    into.head[int(ENTRIES)], into.head[int(WORDS)], into.head[int(LIVE_WORDS)] = 0, 0, 0
    into.head[int(LONGEST)] = 0
    stack[0], stack[1] = int(NEVER), int(ROOT)
    height = 2
    while height:
        height -= 1
        b = whole(stack[height])
        first, count = tree.link[b * LINK + FIRST], tree.link[b * LINK + COUNT]
        start = into.head[int(ENTRIES)]
        for i in range(count):
            clause = whole(tree.clause[first + i])
            into.sign[start + i], into.clause[start + i] = tree.sign[first + i], clause
            into.record[start + i] = new_record(into, table, clause)
            into.most[start + i] = tree.most[first + i]
            into.place[clause] = start + i
        into.head[int(ENTRIES)] = start + count
        into.link[b * LINK + FIRST], into.more[b * MORE + ROOM] = start, count
        into.head[int(LONGEST)] = max(into.head[int(LONGEST)], count)
        for side in range(1, -1, -1):
            if tree.link[b * LINK + LEFT + side] != int(NONE):
                stack[height] = tree.link[b * LINK + LEFT + side]
                height += 1
        start = tree.link[b * LINK + PDIR]
        for d in range(start + tree.link[b * LINK + WIDTH] - 1, start - 1, -1):
            stack[height] = tree.pnode[tree.pdir_node[d] * PART + PROOT]
            height += 1
