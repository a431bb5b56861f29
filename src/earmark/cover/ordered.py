"""An ordered map of 64-bit keys to 64-bit values that changes: a B+tree of two levels in flat arrays.

    order   2        0            leaves by key                    heads   5        40
    leaf 2  5 9 17   leaf 0  40 41 77                              the least key of each leaf in `order`
            . . .            . . .     values beside the keys; `sums` has the sum of a leaf's values

A look-up is two binary searches. An insert moves at most 64 entries of a leaf, and when a full leaf is cut in two, the
order of the leaves behind it, which is one straight copy: at a million entries some 100 KB, once in 32 inserts. A leaf
that is left with few entries joins a neighbour, and an empty one is used again, so nothing is lost to churn.

A *cursor* is rank * 64 + index: the rank of a leaf in `order`, and an entry of it. Changes make cursors invalid.

Invariant (`check_ordered`): keys ascend through the leaves in order; heads are their first keys; no leaf in order is
empty; sums are right; used leaves = leaves in order + free ones.
Complexity: find O(log n); insert and delete O(64 + n / 32 amortised, as memory copies); prefix sum O(n / 48).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.errors import require
from earmark.jit import inlined
from earmark.model.arrays import I32, I64, A

LEAF = 64
FEW = LEAF // 4
LEAVES, USED, FREE, ENTRIES = 0, 1, 2, 3
"""Places in `info`: leaves in order, leaves ever used, the first free leaf, entries."""
NONE = -1


class Ordered(NamedTuple):
    """The map; all arrays are changed in place."""

    key: I64
    value: I64
    size: I32
    sums: I64
    link: I32
    order: I32
    heads: I64
    info: I64


def new_ordered(leaves: int = 4) -> Ordered:
    """An empty map with room for so many leaves."""
    return Ordered(
        key=np.zeros(leaves * LEAF, np.int64),
        value=np.zeros(leaves * LEAF, np.int64),
        size=np.zeros(leaves, np.int32),
        sums=np.zeros(leaves, np.int64),
        link=np.full(leaves, NONE, np.int32),
        order=np.zeros(leaves, np.int32),
        heads=np.zeros(leaves, np.int64),
        info=np.array([0, 0, NONE, 0], np.int64),
    )


def with_room(ordered: Ordered, inserts: int) -> Ordered:
    """The same map, with room for so many inserts: each takes at most one more leaf."""
    needed = int(ordered.info[LEAVES]) + inserts + 1
    if needed <= len(ordered.size):
        return ordered
    leaves = max(needed, 2 * len(ordered.size))

    def grown(array: A) -> A:
        made = np.zeros(leaves * (len(array) // len(ordered.size)), array.dtype)
        made[: len(array)] = array
        return made  # type: ignore[return-value]

    return Ordered._make([*(grown(array) for array in ordered[:-1]), ordered.info])


def entries(ordered: Ordered) -> tuple[I64, I64]:
    """All keys and values in order. O(n)."""
    leaves = ordered.order[: ordered.info[LEAVES]]
    spots = np.concatenate([leaf * LEAF + np.arange(ordered.size[leaf]) for leaf in leaves] or [np.empty(0, np.int64)])
    return ordered.key[spots], ordered.value[spots]


def check_ordered(ordered: Ordered) -> None:
    """Raise AssertionError unless the invariant holds."""
    info = ordered.info
    leaves = ordered.order[: info[LEAVES]]
    require(len(np.unique(leaves)) == len(leaves), "a leaf stands twice in the order")
    require(bool((ordered.size[leaves] > 0).all()), "an empty leaf is in the order")
    keys, _ = entries(ordered)
    require(bool((keys[:-1] < keys[1:]).all()), "keys do not ascend")
    require(len(keys) == info[ENTRIES], "entries are miscounted")
    require(
        bool((ordered.heads[: len(leaves)] == ordered.key[leaves * LEAF]).all()), "a head is not its leaf's first key"
    )
    for leaf in leaves.tolist():
        values = ordered.value[leaf * LEAF : leaf * LEAF + ordered.size[leaf]]
        require(int(values.sum()) == ordered.sums[leaf], "a leaf's values are summed wrong")
    free, at = 0, int(info[FREE])
    while at != NONE and free <= info[USED]:
        free, at = free + 1, int(ordered.link[at])
    require(free + len(leaves) == info[USED], "a leaf was lost")


# --- finding -------------------------------------------------------------------------------------------------


@inlined
def floor_cursor(ordered: Ordered, key: int) -> int:
    """The entry with the greatest key that is not above `key`, or NONE."""
    low, high = 0, ordered.info[LEAVES]
    while low < high:
        middle = (low + high) >> 1
        if ordered.heads[middle] <= key:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return int(NONE)
    rank = low - 1
    base = ordered.order[rank] * int(LEAF)
    low, high = 1, ordered.size[ordered.order[rank]]
    while low < high:
        middle = (low + high) >> 1
        if ordered.key[base + middle] <= key:
            low = middle + 1
        else:
            high = middle
    return rank * int(LEAF) + low - 1


@inlined
def next_cursor(ordered: Ordered, cursor: int) -> int:
    """The entry after this one (after NONE: the first), or NONE."""
    if cursor == NONE:
        return 0 if ordered.info[LEAVES] else int(NONE)
    rank, index = cursor >> 6, cursor & 63
    if index + 1 < ordered.size[ordered.order[rank]]:
        return cursor + 1
    return (rank + 1) << 6 if rank + 1 < ordered.info[LEAVES] else int(NONE)


@inlined
def spot_of(ordered: Ordered, cursor: int) -> int:
    """Where in `key` and `value` an entry is."""
    return int(ordered.order[cursor >> 6]) * int(LEAF) + (cursor & 63)


@inlined
def sum_until(ordered: Ordered, cursor: int) -> int:
    """The sum of all values up to and with this entry."""
    total = 0
    if cursor == NONE:
        return total
    for rank in range(cursor >> 6):
        total += ordered.sums[ordered.order[rank]]
    base = ordered.order[cursor >> 6] * int(LEAF)
    for index in range((cursor & 63) + 1):
        total += ordered.value[base + index]
    return total


# --- changing ------------------------------------------------------------------------------------------------


@inlined
def set_value(ordered: Ordered, cursor: int, value: int) -> None:
    """Another value for an entry."""
    spot = spot_of(ordered, cursor)
    ordered.sums[ordered.order[cursor >> 6]] += value - ordered.value[spot]
    ordered.value[spot] = value


@inlined
def put(ordered: Ordered, key: int, value: int) -> None:
    """Insert a key that is not there. The caller has seen to room (`with_room`)."""
    cursor = floor_cursor(ordered, key)
    ordered.info[ENTRIES] += 1
    if ordered.info[LEAVES] == 0:
        _enter(ordered, 0, _fresh(ordered), key)
    rank, index = (0, 0) if cursor == NONE else (cursor >> 6, (cursor & 63) + 1)
    if ordered.size[ordered.order[rank]] == LEAF:
        _cut(ordered, rank)
        if index > LEAF // 2:
            rank, index = rank + 1, index - LEAF // 2
    leaf = ordered.order[rank]
    base = leaf * int(LEAF)
    for i in range(ordered.size[leaf], index, -1):
        ordered.key[base + i], ordered.value[base + i] = ordered.key[base + i - 1], ordered.value[base + i - 1]
    ordered.key[base + index], ordered.value[base + index] = key, value
    ordered.size[leaf] += 1
    ordered.sums[leaf] += value
    ordered.heads[rank] = ordered.key[base]


@inlined
def delete(ordered: Ordered, cursor: int) -> None:
    """Take an entry out."""
    rank, index = cursor >> 6, cursor & 63
    leaf = ordered.order[rank]
    base = leaf * int(LEAF)
    ordered.sums[leaf] -= ordered.value[base + index]
    for i in range(index, ordered.size[leaf] - 1):
        ordered.key[base + i], ordered.value[base + i] = ordered.key[base + i + 1], ordered.value[base + i + 1]
    ordered.size[leaf] -= 1
    ordered.info[ENTRIES] -= 1
    ordered.heads[rank] = ordered.key[base]
    if ordered.size[leaf] == 0:
        _leave(ordered, rank)
    elif ordered.size[leaf] < FEW:
        if rank + 1 < ordered.info[LEAVES] and _fit(ordered, rank):
            _join(ordered, rank)
        elif rank > 0 and _fit(ordered, rank - 1):
            _join(ordered, rank - 1)


@inlined
def _fresh(ordered: Ordered) -> int:
    """A leaf without entries."""
    leaf = ordered.info[FREE]
    if leaf == NONE:
        leaf = ordered.info[USED]
        ordered.info[USED] += 1
    else:
        ordered.info[FREE] = ordered.link[leaf]
    ordered.size[leaf] = 0
    ordered.sums[leaf] = 0
    return int(leaf)


@inlined
def _enter(ordered: Ordered, rank: int, leaf: int, head: int) -> None:
    """Let a leaf stand at a rank, those behind it one further."""
    for i in range(ordered.info[LEAVES], rank, -1):
        ordered.order[i], ordered.heads[i] = ordered.order[i - 1], ordered.heads[i - 1]
    ordered.order[rank], ordered.heads[rank] = leaf, head
    ordered.info[LEAVES] += 1


@inlined
def _leave(ordered: Ordered, rank: int) -> None:
    """Take the leaf at a rank out of the order, to be used again."""
    leaf = ordered.order[rank]
    for i in range(rank, ordered.info[LEAVES] - 1):
        ordered.order[i], ordered.heads[i] = ordered.order[i + 1], ordered.heads[i + 1]
    ordered.info[LEAVES] -= 1
    ordered.link[leaf] = ordered.info[FREE]
    ordered.info[FREE] = leaf


@inlined
def _cut(ordered: Ordered, rank: int) -> None:
    """Move the upper half of a full leaf to a new one behind it."""
    leaf, new = ordered.order[rank], _fresh(ordered)
    base, other = leaf * int(LEAF), new * int(LEAF)
    for i in range(LEAF // 2):
        ordered.key[other + i] = ordered.key[base + LEAF // 2 + i]
        ordered.value[other + i] = ordered.value[base + LEAF // 2 + i]
        ordered.sums[new] += ordered.value[other + i]
    ordered.sums[leaf] -= ordered.sums[new]
    ordered.size[leaf] = ordered.size[new] = LEAF // 2
    _enter(ordered, rank + 1, new, ordered.key[other])


@inlined
def _fit(ordered: Ordered, rank: int) -> bool:
    """Whether a leaf and the next would leave a joint one room to grow."""
    both = ordered.size[ordered.order[rank]] + ordered.size[ordered.order[rank + 1]]
    return bool(both <= LEAF - FEW)


@inlined
def _join(ordered: Ordered, rank: int) -> None:
    """Move the entries of the next leaf into this one."""
    leaf, after = ordered.order[rank], ordered.order[rank + 1]
    base, other = leaf * int(LEAF) + ordered.size[leaf], after * int(LEAF)
    for i in range(ordered.size[after]):
        ordered.key[base + i], ordered.value[base + i] = ordered.key[other + i], ordered.value[other + i]
    ordered.size[leaf] += ordered.size[after]
    ordered.sums[leaf] += ordered.sums[after]
    _leave(ordered, rank + 1)
