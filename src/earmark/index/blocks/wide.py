"""Which of 8 signatures have none of the bits of a mask: one instruction, with a twin in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from earmark.flat.arrays import U64
from earmark.flat.machine import VECTOR, check_inside, load, splat
from earmark.jit import BOUNDS, JIT, inlined, intrinsic


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
