"""Which of the entries of a block does an event meet: one comparison of eight intervals, and a mask.

entries  [0, 30] [10, 45] [75, 90] ..      event [40, 80]      ->  ..110
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from earmark.flat.machine import VECTOR, at_most, load, splat
from earmark.flat.types import I64
from earmark.jit import JIT, inlined, intrinsic


@intrinsic
def _overlap8(_: Any, lo: Any, hi: Any, index: Any, key_lo: Any, key_hi: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        low = load(context, builder, lo, args[0], args[2], VECTOR)
        high = load(context, builder, hi, args[1], args[2], VECTOR)
        starts = at_most(builder, lo.dtype, low, splat(builder, args[4], VECTOR))
        ends = at_most(builder, lo.dtype, splat(builder, args[3], VECTOR), high)
        return builder.zext(builder.bitcast(builder.and_(starts, ends), ir.IntType(VECTOR)), ir.IntType(64))

    return types.uint64(lo, hi, types.intp, lo.dtype, lo.dtype), generate


def _plain_overlap8(lo: I64, hi: I64, index: int, key_lo: int, key_hi: int) -> np.uint64:
    """Bit j: whether [lo, hi] at index + j meets [key_lo, key_hi], for eight entries."""
    met = (lo[index : index + VECTOR] <= key_hi) & (key_lo <= hi[index : index + VECTOR])
    return np.uint64(np.packbits(met, bitorder="little")[0])


overlap8 = _overlap8 if JIT else _plain_overlap8


@inlined
def overlap_mask(lo: I64, hi: I64, start: int, fill: int, key_lo: int, key_hi: int) -> np.uint64:
    """Bit j: whether entry start + j of `fill` meets [key_lo, key_hi]. Reads up to 7 entries past the last."""
    mask = np.uint64(0)
    for step in range((fill + VECTOR - 1) >> 3):
        mask |= overlap8(lo, hi, start + VECTOR * step, key_lo, key_hi) << np.uint64(VECTOR * step)
    if fill < 64:
        mask &= (np.uint64(1) << np.uint64(fill)) - np.uint64(1)
    return mask
