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

Rank of an attribute in an l-node: its number of clauses (gain), less those expected to be false candidates (loss). The
share of false candidates is what events have shown (`tree.rate`, set by `adapt`). Until then it is zero when ranking by
popularity; when ranking by histogram, it is the average occupied bin of a histogram of the attribute's boxes in this
l-node. An attribute whose rank is below the least size of a p-node gets none.

**Where a bucket is split**: the exhaustive and the approximate algorithm of section V-A, and halving. Every split
has one form: left takes the boxes that end at or before `left_end`, right those that begin at or after `right_begin`,
and what spans the gap overlaps:

    left_end = 4, right_begin = 6      |--|   |-----|        left
    1  2  3  4  5  6  7  8  9               |-----|          overlapping: [3, 6]
                                                  |----|     right

Taking the I leftmost by upper end, or the I rightmost by lower end, comes to trying each upper end as `left_end` and
each lower end as `right_begin`. With both orders sorted once, running minima and maxima give the overlapping bucket's
box for each choice in O(1), so the exhaustive algorithm costs O(n log n), not the printed O(n^2 log n).

Ties of overlap and coverage go to the more even split. An empty overlapping bucket overlaps less than a point does:
lengths count keys.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import earmark.index.be_star_tree.arrays as be
import earmark.index.be_star_tree.nodes as nodes
from earmark.flat.arrays import F32, F64, I32, I64, U64
from earmark.flat.machine import at
from earmark.index.be_star_tree.arrays import TreeArrays
from earmark.index.be_star_tree.bounds import Path, path_to, renew
from earmark.index.be_star_tree.nodes import whole
from earmark.index.stored import element_types
from earmark.jit import embedded, inlined, kernel
from earmark.segment.arrays import SegmentArrays

HISTOGRAM_BINS = 64
"""Bins of the histogram of an attribute's boxes in an overflowing l-node."""


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
    rate: F64
    begin: I32
    end: I32
    touched: I32
    fresh: I32
    todo: I32
    bins: I64


def new_desk(entries: int, constraints: int, attributes: int) -> Desk:
    """Make a desk for l-nodes of up to `entries` entries with `constraints` constraints in all."""
    sizes = [entries] * 7 + [constraints, attributes, attributes] + [attributes + 4] * 4
    sizes += [2 * entries + attributes + 8, HISTOGRAM_BINS + 1]
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
            link, box, rigid = b * be.LINK, b * be.BOX, tree.head[be.RIGID] != 0
            first, count, attr = tree.link[link + be.FIRST], tree.link[link + be.COUNT], tree.link[link + be.ATTR]
            for i in range(count):
                c = nodes.constraint_on(table, at(tree.clause, first + i), attr)
                desk.lo[i], desk.hi[i] = nodes.lowest(table, c), nodes.highest(table, c)
            lo, hi, low, high = desk.lo[:count], desk.hi[:count], tree.box[box + be.LO], tree.box[box + be.HI]
            approximate = tree.head[be.APPROXIMATE] != 0
            apart = 0.0 if rigid else tree.apart[attr]
            split = find_split(lo, hi, tree.knob[be.ALPHA], apart, approximate, rigid, low, high)
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
    desk.begin[: parts + 1] = 0
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
def _cluster(tree: TreeArrays, desk: Desk, b: int, split: tuple[int, int, int, int]) -> int:
    """Split a leaf bucket (Algorithm 5); the number of new buckets in desk.fresh, 0 when it cannot be split."""
    left_end, right_begin, left, right = split
    low, high = tree.box[b * be.BOX + be.LO], tree.box[b * be.BOX + be.HI]
    if left == 0 and right == 0:
        return 0
    for i in range(tree.link[b * be.LINK + be.COUNT]):
        desk.part[i] = 1 if desk.hi[i] <= left_end else 2 if right and desk.lo[i] >= right_begin else 0
    _arrange(tree, desk, b, 3)
    fresh = 0
    for side in range(2):
        if desk.begin[side + 2] > desk.begin[side + 1]:
            new = nodes.like_bucket(tree, b, b)
            tree.link[b * be.LINK + be.LEFT + side] = new
            _hand_over(tree, desk, b, side + 1, side == 1 or right == 0, new)
            if tree.head[be.RIGID]:
                middle = nodes.middle_of(low, high)
                nodes.set_cell(tree, new, middle + 1 if side else low, high if side else middle)
            desk.fresh[fresh] = new
            fresh += 1
    tree.link[b * be.LINK + be.COUNT] = tree.more[b * be.MORE + be.ROOM] = desk.begin[1]
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
        tree.link[b * be.LINK + be.COUNT] = tree.more[b * be.MORE + be.ROOM] = desk.begin[1]
    count = tree.link[b * be.LINK + be.COUNT]
    capacity = tree.head[be.CAPACITY]
    tree.more[b * be.MORE + be.LIMIT] = capacity if count <= capacity else 2 * count
    return parts


@embedded
def _set_domain(tree: TreeArrays, table: SegmentArrays, root: int) -> None:
    """Set the cell of a new p-node's root bucket: the smallest one that holds its clauses."""
    first, attr = tree.link[root * be.LINK + be.FIRST], tree.link[root * be.LINK + be.ATTR]
    low, high = be.HIGHEST, be.LOWEST
    for e in range(first, first + tree.link[root * be.LINK + be.COUNT]):
        c = nodes.constraint_on(table, at(tree.clause, e), attr)
        low, high = min(low, nodes.lowest(table, c)), max(high, nodes.highest(table, c))
    nodes.set_cell(tree, root, *nodes.cell_around(low, high))


@embedded
def _choose_parts(tree: TreeArrays, table: SegmentArrays, desk: Desk, b: int, path: Path) -> int:
    """Pick attributes by rank until the l-node is within its capacity; returns their number.

    desk.part becomes the part of each entry (0 stays), and desk.touched begins with the attributes picked.
    """
    level = path_to(tree, b, path)
    first, count = tree.link[b * be.LINK + be.FIRST], tree.link[b * be.LINK + be.COUNT]
    if level >= be.LEVELS:
        return 0
    for i in range(1, level + 1):
        desk.share[path.attr[i]] = be.NONE  # a p-node above already partitions by it
    attributes = _post(tree, table, desk, first, count)
    _set_rates(tree, table, desk, first, attributes)
    left, parts, least = count, 0, tree.head[be.LEAST]
    while left > tree.head[be.CAPACITY] and parts < attributes:
        best, best_rank = be.NONE, 0.0
        for i in range(parts, attributes):
            a = at(desk.touched, i)
            rank = desk.share[a] * (1.0 - at(desk.rate, a))
            if rank >= least and rank > best_rank:
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
def _post(tree: TreeArrays, table: SegmentArrays, desk: Desk, first: int, count: int) -> int:
    """List the l-node's entries by the attributes that can still partition them; returns the number of attributes."""
    attributes = 0
    for entry in range(count):
        desk.part[entry] = 0
        clause = at(tree.clause, first + entry)
        for c in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
            attr = at(table.attr, c)
            if nodes.can_key(table, c) and desk.share[attr] >= 0:
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
            if nodes.can_key(table, c) and desk.share[attr] >= 0:
                desk.posting[desk.end[attr]] = entry
                desk.end[attr] += 1
    return attributes


@embedded
def _set_rates(tree: TreeArrays, table: SegmentArrays, desk: Desk, first: int, attributes: int) -> None:
    """Write to desk.rate, for each attribute listed, the share of its clauses expected to be false candidates."""
    by_histogram = tree.head[be.HISTOGRAM] != 0 and tree.head[be.LEARNED] == 0
    for i in range(attributes):
        attr = whole(desk.touched[i])
        desk.rate[attr] = _histogram_rate(tree, table, desk, first, attr) if by_histogram else at(tree.rate, attr)


@embedded
def _histogram_rate(tree: TreeArrays, table: SegmentArrays, desk: Desk, first: int, attr: int) -> float:
    """The average occupied bin of a histogram of an attribute's boxes in this l-node, as a share of them."""
    begin, end = desk.begin[attr], desk.end[attr]
    low, high = be.HIGHEST, be.LOWEST
    for i in range(begin, end):
        c = nodes.constraint_on(table, at(tree.clause, first + desk.posting[i]), attr)
        low, high = min(low, nodes.lowest(table, c)), max(high, nodes.highest(table, c))
    width = nodes.length(low, high) / int(HISTOGRAM_BINS)
    desk.bins[:] = 0  # by how many the boxes in a bin differ from those in the one before
    for i in range(begin, end):
        c = nodes.constraint_on(table, at(tree.clause, first + desk.posting[i]), attr)
        for box_end in range(2):
            key = nodes.highest(table, c) if box_end else nodes.lowest(table, c)
            bin_ = min(int((float(key) - float(low)) / width), int(HISTOGRAM_BINS) - 1)
            desk.bins[bin_ + box_end] += -1 if box_end else 1
    size, total, occupied = 0, 0, 0
    for bin_ in range(int(HISTOGRAM_BINS)):
        size += desk.bins[bin_]
        total += size
        occupied += 1 if size else 0
    rate: float = total / occupied / (end - begin)
    return rate


@kernel
def collapse(tree: TreeArrays, table: SegmentArrays, b: int, path: Path) -> bool:
    """Bring all clauses of a bucket into its own l-node and free what was below; False when there is no room."""
    total = tree.more[b * be.MORE + be.BELOW]
    if len(tree.sign) - tree.head[be.ENTRIES] < 2 * total + 16:
        return False
    start, room = nodes.take_entries(tree, total)
    order, filled = np.empty(tree.head[be.BUCKETS], np.int32), start
    for k in range(nodes.list_buckets(tree, b, order)):
        x = whole(order[k])
        first, pdir = tree.link[x * be.LINK + be.FIRST], tree.link[x * be.LINK + be.PDIR]
        for e in range(first, first + tree.link[x * be.LINK + be.COUNT]):
            nodes.copy_entry(tree, e, tree, filled)
            tree.where[tree.clause[filled]], tree.place[tree.clause[filled]] = b, filled
            filled += 1
        for d in range(pdir, pdir + tree.link[x * be.LINK + be.WIDTH]):
            nodes.list_free_pnode(tree, tree.pdir_node[d])
        if x != b:
            nodes.free_bucket(tree, x)
        else:
            nodes.give_entries(tree, first, tree.more[b * be.MORE + be.ROOM])
            nodes.give_pdir(tree, pdir, tree.more[b * be.MORE + be.PDIR_ROOM])
    link, more = b * be.LINK, b * be.MORE
    tree.link[link + be.FIRST], tree.link[link + be.COUNT], tree.more[more + be.ROOM] = start, total, room
    tree.link[link + be.LEFT], tree.link[link + be.RIGHT] = be.NONE, be.NONE
    tree.link[link + be.PDIR], tree.link[link + be.WIDTH], tree.more[more + be.PDIR_ROOM] = 0, 0, 0
    tree.more[more + be.LIMIT], tree.more[more + be.CHANGED] = tree.head[be.CAPACITY], 0
    tree.head[be.LONGEST] = max(tree.head[be.LONGEST], total)
    renew(tree, table, b, path)
    return True


@kernel
def renew_all(tree: TreeArrays, table: SegmentArrays, path: Path) -> None:
    """Compute boxes and bounds of every bucket from scratch, lowest first."""
    order = np.empty(tree.head[be.BUCKETS], np.int32)
    for i in range(nodes.list_buckets(tree, be.ROOT, order) - 1, -1, -1):
        renew(tree, table, whole(order[i]), path)
    renew(tree, table, be.NEVER, path)
    tree.head[be.LOOSE] = 0


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
def pack(tree: TreeArrays, table: SegmentArrays, into: TreeArrays) -> None:
    """Lay out entries and records in the order of the tree and without gaps, in the arrays of `into`.

    `into` shares all other arrays with `tree`.
    """
    into.head[be.FREE_RUNS : be.FREE_RUNS + be.CLASSES] = be.NONE
    into.head[be.FREE_WORDS : be.FREE_WORDS + be.LONGEST_RECORD + 1] = be.NONE
    into.head[be.ENTRIES], into.head[be.WORDS], into.head[be.LIVE_WORDS], into.head[be.LONGEST] = 0, 0, 0, 0
    order = np.empty(tree.head[be.BUCKETS], np.int32)
    found = nodes.list_buckets(tree, be.ROOT, order)
    order[found] = be.NEVER
    for k in range(found + 1):
        b = whole(order[k])
        first, count = tree.link[b * be.LINK + be.FIRST], tree.link[b * be.LINK + be.COUNT]
        start = into.head[be.ENTRIES]
        for i in range(count):
            clause = whole(tree.clause[first + i])
            nodes.copy_entry(tree, first + i, into, start + i)
            into.record[start + i] = nodes.new_record(into, table, clause)
            into.place[clause] = start + i
        into.head[be.ENTRIES], into.head[be.LONGEST] = start + count, max(into.head[be.LONGEST], count)
        into.link[b * be.LINK + be.FIRST], into.more[b * be.MORE + be.ROOM] = start, count


# --- where to split ------------------------------------------------------------------------------------------------


@inlined
def _clear(end: int, begin: int, apart: float) -> bool:
    """Whether a box that begins at `begin` stays clear of one that ends at `end`."""
    return begin > end and (apart <= 0 or float(begin) > float(end) + apart)


@kernel
def find_split(
    lo: I64, hi: I64, alpha: float, apart: float, approximate: bool, rigid: bool, low: int, high: int
) -> tuple[int, int, int, int]:
    """Choose how to split boxes inside [low, high]: (left_end, right_begin, boxes left, boxes right).

    The last two are 0 where the boxes cannot be split.
    """
    n = len(lo)
    least = max(1, int(np.ceil(alpha * n)))
    if low >= high:  # an atomic bucket
        return low, high, 0, 0
    if not rigid and n >= 2:
        by_hi, by_lo = np.argsort(hi), np.argsort(lo)
        if approximate:
            split = _approximate(lo, hi, by_lo, by_hi, apart)
        else:
            split = _exhaustive(lo, hi, by_lo, by_hi, apart, least)
        if split[2] >= least and split[3] >= least:
            return split
    middle = nodes.middle_of(low, high)
    left, right, right_begin = 0, 0, high
    for i in range(n):
        if hi[i] <= middle:
            left += 1
        elif _clear(middle, lo[i], apart):
            right += 1
            right_begin = min(right_begin, lo[i])
    return middle, right_begin, left, right


@kernel
def _approximate(lo: I64, hi: I64, by_lo: I64, by_hi: I64, apart: float) -> tuple[int, int, int, int]:
    """Give the leftmost box to the left and the rightmost to the right, in turn, as long as they stay clear."""
    n = len(lo)
    left, right = 0, 0
    left_end, right_begin = lo[by_lo[0]], hi[by_hi[n - 1]]
    more = True
    while more:
        more = False
        if left < n and (right == 0 or _clear(hi[by_hi[left]], right_begin, apart)):
            left_end = hi[by_hi[left]]
            left += 1
            more = True
        if right < n and (left == 0 or _clear(left_end, lo[by_lo[n - 1 - right]], apart)):
            right_begin = lo[by_lo[n - 1 - right]]
            right += 1
            more = True
    return left_end, right_begin, left, right


@kernel
def _exhaustive(lo: I64, hi: I64, by_lo: I64, by_hi: I64, apart: float, least: int) -> tuple[int, int, int, int]:
    """The split with the shortest overlapping bucket, then the least coverage, then the most even one."""
    n = len(lo)
    past_lo, past_hi = lo[by_hi], hi[by_lo]  # lowest begin up to the i-th by upper end; highest end by lower end
    rest_lo, rest_hi = lo[by_hi], hi[by_lo]  # the same from the i-th on
    for i in range(1, n):
        j = n - 1 - i
        past_lo[i], past_hi[i] = min(past_lo[i - 1], past_lo[i]), max(past_hi[i - 1], past_hi[i])
        rest_lo[j], rest_hi[j] = min(rest_lo[j + 1], rest_lo[j]), max(rest_hi[j + 1], rest_hi[j])
    best = (np.int64(0), np.int64(0), np.int64(0), np.int64(0))
    best_overlap, best_covered, best_even = np.inf, np.inf, np.int64(0)
    for way in range(2):
        left, right_from = 0, 0  # boxes left; the first box right, by lower end
        for step in range(n):
            if way == 0:  # the upper end of the step-th box is left_end
                left = step + 1
                left_end = hi[by_hi[step]]
                if left < n and hi[by_hi[left]] == left_end:
                    continue
                while right_from < n and not _clear(left_end, lo[by_lo[right_from]], apart):
                    right_from += 1
                if right_from == n:
                    break
                right_begin = lo[by_lo[right_from]]
            else:  # the lower end of the step-th box is right_begin
                right_from = step
                right_begin = lo[by_lo[step]]
                if step and lo[by_lo[step - 1]] == right_begin:
                    continue
                while left < n and _clear(hi[by_hi[left]], right_begin, apart):
                    left += 1
                if left == 0:
                    continue
                left_end = hi[by_hi[left - 1]]
            right = n - right_from
            if left < least or right < least:
                continue
            begin, end = past_lo[left - 1], rest_hi[right_from]  # of left and right together
            overlap, covered = 0.0, nodes.length(begin, left_end) + nodes.length(right_begin, end)
            if left + right < n:
                low, high = rest_lo[left], past_hi[right_from - 1]
                overlap = nodes.length(low, high)
                covered += nodes.length(max(low, left_end + 1), min(high, right_begin - 1))
                covered += nodes.length(low, begin - 1) if low < begin else 0.0
                covered += nodes.length(end + 1, high) if high > end else 0.0
            even = min(left, right)
            if overlap < best_overlap or (
                overlap == best_overlap and (covered < best_covered or (covered == best_covered and even > best_even))
            ):
                best = (left_end, right_begin, np.int64(left), np.int64(right))
                best_overlap, best_covered, best_even = overlap, covered, np.int64(even)
    return best  # type: ignore[return-value]
