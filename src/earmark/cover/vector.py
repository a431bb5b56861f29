"""Does a point dominate a query: 64 points at a time.

Rectangles become points of *dominance space* (Section IV-A): an interval [l, r] of an attribute gives the two
coordinates −l and r, and one rectangle contains another iff its point is at least as great in every coordinate. Points
lie in blocks of 64, a column a coordinate, so that one comparison serves 64 of them:

    block    column 0: −l of axis 0   p0 p1 … p63          coordinates are codes of 16 bits (`scale.py`)
             column 1:  r of axis 0   p0 p1 … p63
             …
    mask     bit i: point i is >= the query in all columns so far

A point that dominates has codes that do; the reverse need not hold, and what codes, or the hull of a set, cannot tell
(close keys, holes, NULL, attributes without an axis) the exact test decides afterwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from earmark.jit import JIT, inlined, intrinsic
from earmark.model.machine import load, splat

LANES = 64
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


at_least64 = _at_least64 if JIT else _plain_at_least64


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
