"""The few machine instructions that kernels want by name.

Numba intrinsics, compiled to one or a few instructions where the processor has them and to a correct loop where it
has not. Each has a twin in plain Python, used when the JIT is disabled. Those that read an array trust the position
they are given; under EARMARK_BOUNDSCHECK=1 they check it.

    at                    an element by a position that is known to be inside
    ctz64, popcount64     lowest set bit, number of set bits
    count_less8           how many of 8 keys are below one key
    and_between8          512-bit a & b & ~c, and whether anything is left
    or_between8           512-bit a | (b & ~c)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.cgutils import gep_inbounds
from numba.np.arrayobj import make_array
from numpy.typing import NDArray

from earmark.flat.arrays import I64, U64
from earmark.jit import BOUNDS, JIT, inlined, intrinsic

WORD = 64
VECTOR = 8
"""Elements of a 512-bit vector of 64-bit values: the width of the `…8` helpers."""


def aligned(length: int, dtype: type[Any]) -> NDArray[Any]:
    """An uninitialised array that starts on a cache line, so that no 512-bit load straddles two."""
    item = np.dtype(dtype).itemsize
    raw = np.empty(length * item + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    return raw[skip : skip + length * item].view(dtype)


def _vector(context: Any, builder: Any, array_type: Any, array: Any, index: Any, width: int) -> Any:
    """Pointer to `width` consecutive elements of an array from `index` on."""
    data = make_array(array_type)(context, builder, array).data
    element = ir.VectorType(context.get_data_type(array_type.dtype), width)
    return builder.bitcast(gep_inbounds(builder, data, index), element.as_pointer())


def load(context: Any, builder: Any, array_type: Any, array: Any, index: Any, width: int) -> Any:
    pointer = _vector(context, builder, array_type, array, index, width)
    return builder.load(pointer, align=array_type.dtype.bitwidth // 8)


def splat(builder: Any, value: Any, width: int) -> Any:
    vector = ir.VectorType(value.type, width)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


def at_most(builder: Any, dtype: Any, left: Any, right: Any) -> Any:
    if isinstance(dtype, types.Float):
        return builder.fcmp_ordered("<=", left, right)
    compare = builder.icmp_signed if dtype.signed else builder.icmp_unsigned
    return compare("<=", left, right)


@intrinsic
def _at(_: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = make_array(array)(context, builder, args[0]).data
        return context.unpack_value(builder, array.dtype, gep_inbounds(builder, data, args[1]))

    return array.dtype(array, types.intp), generate


@intrinsic
def _ctz64(_: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic
def _popcount64(_: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), generate


@intrinsic
def _count_less8(_: Any, keys: Any, index: Any, key: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = load(context, builder, keys, args[0], args[1], VECTOR)
        less = builder.not_(at_most(builder, keys.dtype, splat(builder, args[2], VECTOR), vector))
        mask = builder.zext(builder.bitcast(less, ir.IntType(VECTOR)), ir.IntType(64))
        return builder.ctpop(mask)

    return types.int64(keys, types.intp, keys.dtype), generate


@intrinsic
def _and_between8(_: Any, words: Any, out: Any, source: Any, upper: Any, lower: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b, c = (load(context, builder, words, args[0], args[i], VECTOR) for i in (2, 3, 4))
        left = builder.and_(builder.and_(a, b), builder.not_(c))
        builder.store(left, _vector(context, builder, words, args[0], args[1], VECTOR), align=8)
        some = builder.icmp_unsigned("!=", left, ir.Constant(left.type, [0] * VECTOR))
        return builder.icmp_unsigned("!=", builder.bitcast(some, ir.IntType(VECTOR)), ir.Constant(ir.IntType(8), 0))

    return types.boolean(words, types.intp, types.intp, types.intp, types.intp), generate


@intrinsic
def _or_between8(_: Any, words: Any, out: Any, source: Any, upper: Any, lower: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b, c = (load(context, builder, words, args[0], args[i], VECTOR) for i in (2, 3, 4))
        joined = builder.or_(a, builder.and_(b, builder.not_(c)))
        builder.store(joined, _vector(context, builder, words, args[0], args[1], VECTOR), align=8)
        return context.get_dummy_value()

    return types.void(words, types.intp, types.intp, types.intp, types.intp), generate


def _plain_at(array: NDArray[Any], index: int) -> Any:
    """array[index], without the test for a negative index that Numba makes at each signed one."""
    return array[index]


def _plain_ctz64(word: np.uint64) -> int:
    """Number of zero bits below the lowest set bit; 64 for zero."""
    value = int(word)
    return (value & -value).bit_length() - 1 if value else WORD


def _plain_popcount64(word: np.uint64) -> int:
    """Number of set bits."""
    return int(word).bit_count()


def _plain_count_less8(keys: I64, index: int, key: int) -> int:
    """How many of keys[index : index + 8] are below key."""
    return int((keys[index : index + VECTOR] < key).sum())


def _plain_and_between8(words: U64, out: int, source: int, upper: int, lower: int) -> bool:
    """words[out:][:8] = source & upper & ~lower, each 8 words of the same array; whether any bit is left."""
    a, b, c = (words[i : i + VECTOR] for i in (source, upper, lower))
    words[out : out + VECTOR] = a & b & ~c
    return bool(words[out : out + VECTOR].any())


def _plain_or_between8(words: U64, out: int, source: int, upper: int, lower: int) -> None:
    """words[out:][:8] = source | (upper & ~lower), each 8 words of the same array."""
    a, b, c = (words[i : i + VECTOR] for i in (source, upper, lower))
    words[out : out + VECTOR] = a | (b & ~c)


@inlined
def check_inside(length: int, index: int, width: int) -> None:
    """Raise IndexError unless an array of this length has `width` elements from `index` on."""
    if index < 0 or index + width > length:
        raise IndexError("a kernel reached out of an array")


@inlined
def _checked_at(array: NDArray[Any], index: int) -> Any:
    check_inside(len(array), index, 1)
    return array[index]


@inlined
def _checked_count_less8(keys: I64, index: int, key: int) -> int:
    check_inside(len(keys), index, VECTOR)
    return _count_less8(keys, index, key)  # type: ignore[no-any-return]


@inlined
def _checked_and_between8(words: U64, out: int, source: int, upper: int, lower: int) -> bool:
    for place in (out, source, upper, lower):
        check_inside(len(words), place, VECTOR)
    return _and_between8(words, out, source, upper, lower)  # type: ignore[no-any-return]


@inlined
def _checked_or_between8(words: U64, out: int, source: int, upper: int, lower: int) -> None:
    for place in (out, source, upper, lower):
        check_inside(len(words), place, VECTOR)
    _or_between8(words, out, source, upper, lower)


ctz64 = _ctz64 if JIT else _plain_ctz64
popcount64 = _popcount64 if JIT else _plain_popcount64
at = _checked_at if BOUNDS else _at if JIT else _plain_at
count_less8 = _checked_count_less8 if BOUNDS else _count_less8 if JIT else _plain_count_less8
and_between8 = _checked_and_between8 if BOUNDS else _and_between8 if JIT else _plain_and_between8
or_between8 = _checked_or_between8 if BOUNDS else _or_between8 if JIT else _plain_or_between8
