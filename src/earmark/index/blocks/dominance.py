"""Which of 64 points are at least as great as a query in every column, and an order in which few blocks of 64 have one.

A box that must contain, or meet, another becomes a point of *dominance space*: two columns an attribute, of which one
falls as the lower end rises and the other rises with the upper end. "lo <= x and x <= hi" is then "at least the query"
in both. Points are in blocks of 64, column by column, so that one instruction compares 64 of them; the greatest codes
of 64 blocks are a block of *corners*, compared in the same way:

    block    column 0   p0 p1 … p63          codes of 16 bits
             column 1   p0 p1 … p63
    mask     bit i: point i is >= the query in all columns so far
    corners  column 0   the greatest of block 0, of block 1, … of block 63

`without8` compares signatures in the same way: which of 8 have none of the bits of a mask?

Invariant: a corner is at least every code below it, so a block whose corner falls short has no point to find.
Complexity: `kd_order` O(n log(n / 64)); `dominating` O(columns).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from earmark.flat.arrays import I64, U64
from earmark.flat.machine import VECTOR, check_inside, load, splat
from earmark.jit import BOUNDS, JIT, embedded, inlined, intrinsic, kernel

LANES = 64
PADDING = -32768
"""Below every code: fills lanes that hold no point."""
I16 = NDArray[np.int16]


@intrinsic
def _at_least64(_: Any, column: Any, index: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        stored = load(context, builder, column, args[0], args[1], LANES)
        above = builder.icmp_signed(">=", stored, splat(builder, args[2], LANES))
        return builder.bitcast(above, ir.IntType(LANES))

    return types.uint64(column, types.intp, column.dtype), generate


def _plain_at_least64(column: I16, index: int, value: int) -> np.uint64:
    """Bit i: column[index + i] >= value, for 64 signed elements."""
    above = column[index : index + LANES] >= value
    return np.uint64(np.packbits(above, bitorder="little").view(np.uint64)[0])


@inlined
def _checked_at_least64(column: I16, index: int, value: int) -> np.uint64:
    check_inside(len(column), index, LANES)
    return _at_least64(column, index, value)  # type: ignore[no-any-return]


at_least64 = _checked_at_least64 if BOUNDS else _at_least64 if JIT else _plain_at_least64


@intrinsic
def _without8(_: Any, words: Any, index: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        common = builder.and_(load(context, builder, words, args[0], args[1], VECTOR), splat(builder, args[2], VECTOR))
        none = builder.icmp_unsigned("==", common, ir.Constant(common.type, [0] * VECTOR))
        return builder.zext(builder.bitcast(none, ir.IntType(VECTOR)), ir.IntType(64))

    return types.uint64(words, types.intp, types.uint64), generate


def _plain_without8(words: U64, index: int, mask: np.uint64) -> np.uint64:
    """Bit i: words[index + i] & mask is zero, for 8 of them."""
    none = (words[index : index + VECTOR] & mask) == 0
    return np.uint64(np.packbits(none, bitorder="little")[0])


@inlined
def _checked_without8(words: U64, index: int, mask: np.uint64) -> np.uint64:
    check_inside(len(words), index, VECTOR)
    return _without8(words, index, mask)  # type: ignore[no-any-return]


without8 = _checked_without8 if BOUNDS else _without8 if JIT else _plain_without8


@inlined
def lanes_below(count: int) -> np.uint64:
    """The mask of the first `count` lanes, at least one."""
    return ~np.uint64(0) >> np.uint64(int(LANES) - count)


@inlined
def dominating(coords: I16, base: int, columns: int, query: I16, mask: np.uint64) -> np.uint64:
    """Of the lanes in the mask, those whose points dominate the query."""
    for column in range(columns):
        mask &= at_least64(coords, base + column * int(LANES), query[column])
        if mask == np.uint64(0):
            break
    return mask


def block_columns(points: I16) -> I16:
    """Points in blocks of 64, column by column, padded: (blocks, columns, 64)."""
    rows, columns = points.shape
    blocks = -(-rows // LANES)
    padded = np.full((blocks * LANES, columns), PADDING, np.int16)
    padded[:rows] = points
    return np.ascontiguousarray(padded.reshape(blocks, LANES, columns).transpose(0, 2, 1))


def kd_order(points: I16) -> I64:
    """The order of points in which blocks of 64 are the leaves of a kd-tree: halved by each column in turn."""
    order = np.arange(len(points))
    if points.shape[1]:
        halve(np.ascontiguousarray(points.T), order)
    return order


@kernel
def halve(columns: I16, order: I64) -> None:
    """Put an order into kd-order; columns[c, i] is point i's. Blocks, and blocks of corners, are whole subtrees."""
    begin, end, turn = np.empty(128, np.int64), np.empty(128, np.int64), np.empty(128, np.int64)
    begin[0], end[0], turn[0] = 0, len(order), 0
    top = 1
    while top > 0:
        top -= 1
        first, last, column = begin[top], end[top], turn[top]
        if last - first <= LANES:
            continue
        unit = LANES
        while last - first > 2 * unit * LANES:
            unit *= LANES
        middle = first + ((last - first) // 2 + unit - 1) // unit * unit
        split(columns[column], order, first, last, middle)
        following = (column + 1) % len(columns)
        begin[top], end[top], turn[top] = first, middle, following
        begin[top + 1], end[top + 1], turn[top + 1] = middle, last, following
        top += 2


@embedded
def split(keys: I16, order: I64, first: int, last: int, middle: int) -> None:
    """Arrange order[first:last] so that no key from `middle` on is less than one before it (Hoare's selection)."""
    left, right = first, last - 1
    while left < right:
        a, b, c = keys[order[left]], keys[order[(left + right) >> 1]], keys[order[right]]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = left, right
        while i <= j:
            while keys[order[i]] < pivot:
                i += 1
            while keys[order[j]] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            right = j
        elif middle >= i:
            left = i
        else:
            return
