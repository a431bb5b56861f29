"""A changing ordered map of 64-bit keys to 64-bit values, which also keeps sums: a B+tree in flat arrays.

mics.txt, section 3.5, keeps ranges in a B+tree. Every node has room for 64 entries, which are (key, value, child); a
cursor is the place of an entry in these three arrays, node * 64 + index:

    node 2, the root    key    5       40             the least key below each child
                        value  3       12             the sum of all values below it
                        child  node 0  node 1         in a leaf, nothing
    leaf 0   5 9 17     1 1 1                         size 3    link -> leaf 1, the next one
    leaf 1   40 41 77   2 4 6                         size 3

    the sum up to 41 = 3 (what is left of leaf 1 in the root) + 2 + 4

Leaves and inner nodes have the same form, so one piece of code cuts a full node in two, joins a small one with its
neighbour, or evens the two out where they do not fit into one node; it is repeated one level up while that changes the
parent. A free node is used again, so nothing is lost to churn.

Where only keys and values matter, `summed=False` leaves the sums out: then a value changes without a descent.

Invariant (`check_ordered`): keys ascend through the leaves; an inner entry has its child's least key and the sum of its
values; all leaves are equally deep; a node but the root has at least 16 entries; node 0 is the first leaf; used nodes =
nodes of the tree + free ones.
Complexity, n entries: finding, inserting, deleting and prefix sums O(64 log n / log 16), where what is O(64) runs
through consecutive memory; the next entry O(1). Looking changes nothing; `path` belongs to whoever changes the map.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.errors import require
from earmark.flat.arrays import I32, I64
from earmark.flat.machine import at
from earmark.jit import embedded, kernel

NODE_BITS = 6
NODE = 1 << NODE_BITS
"""Entries of a node."""
FEW = NODE // 4
"""A node with fewer is joined with a neighbour, or takes some of its entries."""
MOST_LEVELS = 16
"""16^16 entries are more than there is room for."""
ROOT, LEVELS, USED, FREE, ENTRIES, SUMMED = 0, 1, 2, 3, 4, 5
"""Places in `info`: the root, levels (1 = it is a leaf), nodes ever used, the first free node, entries, 1 with sums."""
FIRST_LEAF = 0
NONE = -1


class Ordered(NamedTuple):
    """The map; all arrays are changed in place."""

    key: I64
    value: I64
    child: I32
    size: I32
    link: I32
    """Of a node the next one of its level, of a free one the next free one; NONE at the end."""
    path: I64
    """Scratch of a change: from the leaves up, the entry on each level that leads to it."""
    info: I64


def new_ordered(summed: bool = True) -> Ordered:
    """An empty map."""
    key, value, path = (np.zeros(length, np.int64) for length in (2 * NODE, 2 * NODE, MOST_LEVELS))
    child, size, link = np.zeros(2 * NODE, np.int32), np.zeros(2, np.int32), np.full(2, NONE, np.int32)
    return Ordered(key, value, child, size, link, path, np.array([FIRST_LEAF, 1, 1, NONE, 0, summed], np.int64))


def with_room(ordered: Ordered, inserts: int) -> Ordered:
    """The same map, with room for this many inserts, and any number of deletions between them.

    An insert cuts at most one node per level. Many cut every node at most once, and again after NODE / 4 more entries.
    Above the leaves there is at most one node for FEW - 1 others.
    """
    used, levels = int(ordered.info[USED]), int(ordered.info[LEVELS]) + 1
    above = 2 * used // (FEW - 1) + levels * (inserts // (NODE // 8)) + MOST_LEVELS
    cuts = min(inserts * (levels + 1), inserts + above, 2 * used + inserts // (NODE // 8) + MOST_LEVELS)
    if used + cuts <= len(ordered.size):
        return ordered
    now = len(ordered.size)
    nodes = max(used + cuts, 2 * now)
    longer = []
    for array in ordered[:5]:
        width = len(array) // now
        longer.append(np.zeros(nodes * width, array.dtype))  # memory that is not used yet is not touched
        longer[-1][: used * width] = array[: used * width]
    return Ordered._make([*longer, ordered.path, ordered.info])


def check_ordered(ordered: Ordered) -> None:
    """Raise AssertionError unless the invariant holds."""
    info = ordered.info
    level, links = [int(info[ROOT])], 0
    for depth in range(int(info[LEVELS]), 0, -1):
        links += len(level)
        require([*ordered.link[level].tolist()] == [*level[1:], NONE], "nodes of a level are not linked in order")
        sizes = ordered.size[level].tolist()
        least = FEW if level != [info[ROOT]] else 2 if depth > 1 else 0
        require(all(least <= size <= NODE for size in sizes), "a node has too few or too many entries")
        if depth > 1:
            below: list[int] = []
            for node, size in zip(level, sizes, strict=True):
                for spot in range(node * NODE, node * NODE + size):
                    inside = slice(child := int(ordered.child[spot]) * NODE, child + int(ordered.size[child // NODE]))
                    require(ordered.key[spot] == ordered.key[child], "an entry does not have the least key below it")
                    total = ordered.value[inside].sum() if info[SUMMED] else 0
                    require(ordered.value[spot] == total, "the values below an entry are summed wrong")
                    below.append(child // NODE)
            level = below
    require(level[0] == FIRST_LEAF and sum(sizes) == info[ENTRIES], "entries are miscounted")
    require(len(set(level)) == len(level), "a node is in the tree twice")
    keys, _ = entries(ordered)
    require(bool((keys[:-1] < keys[1:]).all()), "keys do not ascend")
    free, spot = 0, int(info[FREE])
    while spot != NONE and free <= info[USED]:
        free, spot = free + 1, int(ordered.link[spot])
    require(free + links == info[USED], "a node was lost")


@kernel
def entries(ordered: Ordered) -> tuple[I64, I64]:
    """All keys and values in order. O(n)."""
    count = ordered.info[ENTRIES]
    keys, values = np.empty(count, np.int64), np.empty(count, np.int64)
    found, cursor = 0, next_cursor(ordered, int(NONE))
    while cursor != NONE and found < len(keys):
        keys[found], values[found] = ordered.key[cursor], ordered.value[cursor]
        found += 1
        cursor = next_cursor(ordered, cursor)
    return keys, values


# --- finding -------------------------------------------------------------------------------------------------


@embedded
def _upto(ordered: Ordered, node: int, key: int) -> int:
    """How many keys of a node are not above `key`. Comparing every key is quicker than guessing and branching."""
    first = node << int(NODE_BITS)
    found = 0
    for spot in range(first, first + at(ordered.size, node)):
        found += at(ordered.key, spot) <= key
    return found


@embedded
def floor_cursor(ordered: Ordered, key: int) -> int:
    """The entry with the greatest key that is not above `key`, or NONE."""
    node = at(ordered.info, int(ROOT))
    level = at(ordered.info, int(LEVELS))
    while True:
        found = _upto(ordered, node, key)
        if found == 0:
            return int(NONE)  # below the root's first key there is nothing; no other node is reached with such a key
        level -= 1
        if level == 0:
            return int(node << int(NODE_BITS)) + found - 1
        node = at(ordered.child, (node << int(NODE_BITS)) + found - 1)


@embedded
def next_cursor(ordered: Ordered, cursor: int) -> int:
    """The entry after this one (after NONE: the first), or NONE."""
    if cursor == NONE:
        return int(FIRST_LEAF) if at(ordered.info, int(ENTRIES)) else int(NONE)
    node = cursor >> int(NODE_BITS)
    if cursor + 1 < (node << int(NODE_BITS)) + at(ordered.size, node):
        return cursor + 1
    after = at(ordered.link, node)
    return after << int(NODE_BITS) if after != NONE else int(NONE)


@embedded
def sum_until(ordered: Ordered, cursor: int) -> int:
    """The sum of all values up to and with this entry."""
    total = 0
    if cursor == NONE:
        return total
    key, node = at(ordered.key, cursor), at(ordered.info, int(ROOT))
    level = at(ordered.info, int(LEVELS))
    while True:
        first = node << int(NODE_BITS)
        level -= 1
        last = cursor + 1 if level == 0 else first + _upto(ordered, node, key) - 1
        for spot in range(first, last):
            total += at(ordered.value, spot)
        if level == 0:
            return total
        node = at(ordered.child, last)


# --- changing ------------------------------------------------------------------------------------------------


@embedded
def set_value(ordered: Ordered, cursor: int, value: int) -> None:
    """Change the value of an entry."""
    if ordered.info[SUMMED]:
        _descend(ordered, ordered.key[cursor], value - ordered.value[cursor])
    ordered.value[cursor] = value


@embedded
def put(ordered: Ordered, key: int, value: int) -> None:
    """Insert a key that is not there. The caller has made room (`with_room`)."""
    node = _descend(ordered, key, value)
    _insert(ordered, node, _upto(ordered, node, key), key, value)


@embedded
def add(ordered: Ordered, key: int, change: int) -> None:
    """Add to the value of a key, which is 0 where it is not there; an entry that comes to 0 is removed."""
    node = _descend(ordered, key, change)
    index = _upto(ordered, node, key)
    cursor = (node << int(NODE_BITS)) + index - 1
    if index == 0 or ordered.key[cursor] != key:
        _insert(ordered, node, index, key, change)
        return
    ordered.value[cursor] += change
    if ordered.value[cursor] == 0:
        _remove(ordered, cursor)


@embedded
def _insert(ordered: Ordered, node: int, index: int, key: int, value: int) -> None:
    """Insert an entry into a leaf, to which `path` leads; the sums above have its value."""
    child, level = int(NONE), 0
    ordered.info[ENTRIES] += 1
    while True:
        new = int(NONE)
        if ordered.size[node] == NODE:
            new = _cut(ordered, node, level > 0)
        behind = new != NONE and index > NODE // 2
        _enter(ordered, new if behind else node, index - NODE // 2 if behind else index, key, value, child)
        if new == NONE:
            return
        level += 1
        key, value, child = ordered.key[new << int(NODE_BITS)], _total(ordered, new), new
        if level == ordered.info[LEVELS]:
            _raise(ordered, node, value)
        above = ordered.path[level]
        ordered.value[above] -= value
        node, index = above >> int(NODE_BITS), (above & (NODE - 1)) + 1


@embedded
def delete(ordered: Ordered, cursor: int) -> None:
    """Remove an entry."""
    _descend(ordered, ordered.key[cursor], -ordered.value[cursor])
    _remove(ordered, cursor)


@embedded
def _remove(ordered: Ordered, cursor: int) -> None:
    """Remove an entry of a leaf, to which `path` leads; the sums above no longer have its value."""
    _take(ordered, cursor, False)
    ordered.info[ENTRIES] -= 1
    node = cursor >> int(NODE_BITS)
    for level in range(1, ordered.info[LEVELS]):
        above = ordered.path[level]
        parent = above >> int(NODE_BITS)
        ordered.key[above] = ordered.key[node << int(NODE_BITS)]
        if ordered.size[node] < FEW:
            last = (parent << int(NODE_BITS)) + ordered.size[parent] - 1
            _even_out(ordered, min(above, last - 1), level > 1)
        node = parent
    while ordered.info[LEVELS] > 1 and ordered.size[node] == 1:
        _free(ordered, node)
        node = ordered.child[node << int(NODE_BITS)]
        ordered.info[ROOT] = node
        ordered.info[LEVELS] -= 1


@embedded
def _descend(ordered: Ordered, key: int, change: int) -> int:
    """The leaf where a key is, or would be; fills `path`, and adds a change of a value there to the sums above it."""
    node = ordered.info[ROOT]
    for level in range(ordered.info[LEVELS] - 1, 0, -1):
        spot = (node << int(NODE_BITS)) + max(_upto(ordered, node, key) - 1, 0)
        ordered.path[level] = spot
        if ordered.info[SUMMED]:
            ordered.value[spot] += change
        if key < ordered.key[spot]:
            ordered.key[spot] = key
        node = ordered.child[spot]
    return int(node)


@embedded
def _slide_down(ordered: Ordered, source: int, target: int, count: int, inner: bool) -> None:
    """Move entries to a lower place, or to another node. Only those of inner nodes have a child."""
    for i in range(count):
        ordered.key[target + i], ordered.value[target + i] = ordered.key[source + i], ordered.value[source + i]
    if inner:
        for i in range(count):
            ordered.child[target + i] = ordered.child[source + i]


@embedded
def _slide_up(ordered: Ordered, source: int, target: int, count: int, inner: bool) -> None:
    """Move entries to a higher place of their node."""
    for i in range(count - 1, -1, -1):
        ordered.key[target + i], ordered.value[target + i] = ordered.key[source + i], ordered.value[source + i]
    if inner:
        for i in range(count - 1, -1, -1):
            ordered.child[target + i] = ordered.child[source + i]


@embedded
def _enter(ordered: Ordered, node: int, index: int, key: int, value: int, child: int) -> None:
    """Put an entry into a node that has room."""
    inner = child != NONE
    spot = (node << int(NODE_BITS)) + index
    _slide_up(ordered, spot, spot + 1, ordered.size[node] - index, inner)
    ordered.key[spot], ordered.value[spot] = key, value
    if inner:
        ordered.child[spot] = child
    ordered.size[node] += 1


@embedded
def _take(ordered: Ordered, spot: int, inner: bool) -> None:
    """Remove an entry from its node."""
    node = spot >> int(NODE_BITS)
    ordered.size[node] -= 1
    _slide_down(ordered, spot + 1, spot, (node << int(NODE_BITS)) + ordered.size[node] - spot, inner)


@embedded
def _total(ordered: Ordered, node: int) -> int:
    """The sum of a node's values."""
    total = 0
    if ordered.info[SUMMED]:
        for spot in range(node << int(NODE_BITS), (node << int(NODE_BITS)) + ordered.size[node]):
            total += ordered.value[spot]
    return total


@embedded
def _fresh(ordered: Ordered) -> int:
    """A node without entries."""
    node = ordered.info[FREE]
    if node == NONE:
        node = ordered.info[USED]
        ordered.info[USED] += 1
    else:
        ordered.info[FREE] = ordered.link[node]
    ordered.size[node] = 0
    ordered.link[node] = int(NONE)
    return int(node)


@embedded
def _free(ordered: Ordered, node: int) -> None:
    """Free a node, to be used again."""
    ordered.link[node] = ordered.info[FREE]
    ordered.info[FREE] = node


@embedded
def _cut(ordered: Ordered, node: int, inner: bool) -> int:
    """Move the upper half of a full node to a new one behind it."""
    new = _fresh(ordered)
    _slide_down(ordered, (node << int(NODE_BITS)) + NODE // 2, new << int(NODE_BITS), NODE // 2, inner)
    ordered.size[node] = ordered.size[new] = NODE // 2
    ordered.link[new] = ordered.link[node]
    ordered.link[node] = new
    return new


@embedded
def _raise(ordered: Ordered, node: int, cut_off: int) -> None:
    """Put a new root above the old one, which still counts what was cut off."""
    root = _fresh(ordered)
    spot = root << int(NODE_BITS)
    ordered.key[spot], ordered.child[spot] = ordered.key[node << int(NODE_BITS)], node
    ordered.value[spot] = _total(ordered, node) + cut_off
    ordered.size[root] = 1
    ordered.path[ordered.info[LEVELS]] = spot
    ordered.info[ROOT] = root
    ordered.info[LEVELS] += 1


@embedded
def _even_out(ordered: Ordered, above: int, inner: bool) -> None:
    """Make one node of the children of an entry and the next, or two equal ones where one would be nearly full."""
    left, right = ordered.child[above], ordered.child[above + 1]
    end, behind = (left << int(NODE_BITS)) + ordered.size[left], right << int(NODE_BITS)
    both = ordered.size[left] + ordered.size[right]
    if both <= NODE - FEW:
        _slide_down(ordered, behind, end, ordered.size[right], inner)
        ordered.size[left] = both
        ordered.link[left] = ordered.link[right]
        _free(ordered, right)
        _take(ordered, above + 1, True)
    else:
        more = both // 2 - ordered.size[left]
        if more > 0:
            _slide_down(ordered, behind, end, more, inner)
            _slide_down(ordered, behind + more, behind, ordered.size[right] - more, inner)
        else:
            _slide_up(ordered, behind, behind - more, ordered.size[right], inner)
            _slide_down(ordered, end + more, behind, -more, inner)
        ordered.size[left], ordered.size[right] = both // 2, both - both // 2
        ordered.key[above + 1], ordered.value[above + 1] = ordered.key[behind], _total(ordered, right)
    ordered.value[above] = _total(ordered, left)
