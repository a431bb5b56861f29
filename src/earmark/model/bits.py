"""Bitmaps over slots, and the few machine instructions that kernels want by name.

A bitmap is an array of 64-bit words; slot s is bit s % 64 of word s // 64; bits past the last slot are zero:

    slots 1, 3, 64   ->   words [0b1010, 0b1]

The Python functions never change an array in place (a reader may hold it): they return a new, read-only one.

The kernel helpers are Numba intrinsics, compiled to one or a few instructions where the processor has them and
to a correct loop where it has not. Each has a twin in plain Python, used when the JIT is disabled.

    at                    an element by a position that is known to lie inside
    ctz64, popcount64     lowest set bit, number of set bits
    range_mask64          64 closed intervals against one: which overlap, as a 64-bit mask
    count_less8           how many of 8 keys are below one key
    and_between8          512-bit a & b & ~c, and whether anything is left
    or_between8           512-bit a | (b & ~c)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.core.cgutils import gep_inbounds
from numba.extending import intrinsic
from numba.np.arrayobj import make_array
from numpy.typing import NDArray

from earmark.jit import KernelCache
from earmark.model.arrays import I32, I64, U64, A, frozen

F = TypeVar("F", bound=Callable[..., Any])

WORD = 64
VECTOR = 8
"""Elements of a 512-bit vector of 64-bit values: the width of the `…8` helpers."""


def inlined(function: F) -> F:
    """A part of kernels: merged into every kernel that calls it. It must not allocate.

    Numba counts references to every array of a NamedTuple at each call that stays a call, which made a scan 15
    times slower. A function that allocates nothing needs no counting.
    """
    if config.DISABLE_JIT:
        return function
    dispatcher: Any = njit(nogil=True, error_model="numpy", forceinline=True, _nrt=False)(function)
    dispatcher._cache = KernelCache(function)
    return dispatcher  # type: ignore[no-any-return]


def words_for(slots: int) -> int:
    """How many words a bitmap over that many slots has."""
    return (slots + WORD - 1) // WORD


def all_set(slots: int) -> U64:
    """The bitmap with every one of `slots` bits set."""
    bitmap = np.full(words_for(slots), ~np.uint64(0), np.uint64)
    if slots % WORD:
        bitmap[-1] = np.uint64((1 << slots % WORD) - 1)
    return frozen(bitmap)


def from_slots(slots: NDArray[Any], total: int) -> U64:
    """The bitmap over `total` slots with exactly these set."""
    return set_slots(np.zeros(words_for(total), np.uint64), slots)


def to_slots(bitmap: U64) -> I32:
    """The set slots, ascending."""
    bits = np.unpackbits(bitmap.astype("<u8", copy=False).view(np.uint8), bitorder="little")
    return np.flatnonzero(bits).astype(np.int32)


def set_slots(bitmap: U64, slots: NDArray[Any]) -> U64:
    """A copy with these slots set as well."""
    copy = bitmap.copy()
    np.bitwise_or.at(copy, slots // WORD, _bits(slots))
    return frozen(copy)


def clear_slots(bitmap: U64, slots: NDArray[Any]) -> U64:
    """A copy with these slots cleared."""
    copy = bitmap.copy()
    np.bitwise_and.at(copy, slots // WORD, ~_bits(slots))
    return frozen(copy)


def both(left: U64, right: U64) -> U64:
    """Slots in both; a shorter bitmap counts as zero past its end."""
    n = min(len(left), len(right))
    return frozen(left[:n] & right[:n])


def either(left: U64, right: U64) -> U64:
    """Slots in at least one; a shorter bitmap counts as zero past its end."""
    long, short = (left, right) if len(left) >= len(right) else (right, left)
    union = long.copy()
    union[: len(short)] |= short
    return frozen(union)


def count(bitmap: U64) -> int:
    """How many slots are set."""
    return int(np.bitwise_count(bitmap).sum())


def _bits(slots: NDArray[Any]) -> U64:
    return np.uint64(1) << (np.asarray(slots) % WORD).astype(np.uint64)


def read_only(array: A) -> A:
    """A read-only view of the same data; the caller's own array keeps its flag (compare `frozen`)."""
    return frozen(array.view()) if array.flags.writeable else array


def aligned(length: int, dtype: type[Any]) -> NDArray[Any]:
    """An uninitialised array that starts on a cache line, so that no 512-bit load straddles two."""
    item = np.dtype(dtype).itemsize
    raw = np.empty(length * item + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    return raw[skip : skip + length * item].view(dtype)


@inlined
def has_bit(bitmap: U64, slot: int) -> bool:
    """Whether a slot is set. The slot must lie inside the bitmap."""
    return bool(bitmap[slot >> 6] >> np.uint64(slot & 63) & np.uint64(1))


def _vector(context: Any, builder: Any, array_type: Any, array: Any, index: Any, width: int) -> Any:
    """Pointer to `width` consecutive elements of an array from `index` on."""
    data = make_array(array_type)(context, builder, array).data
    element = ir.VectorType(context.get_data_type(array_type.dtype), width)
    return builder.bitcast(gep_inbounds(builder, data, index), element.as_pointer())


def _load(context: Any, builder: Any, array_type: Any, array: Any, index: Any, width: int) -> Any:
    pointer = _vector(context, builder, array_type, array, index, width)
    return builder.load(pointer, align=array_type.dtype.bitwidth // 8)


def _splat(builder: Any, value: Any, width: int) -> Any:
    vector = ir.VectorType(value.type, width)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


def _at_most(builder: Any, dtype: Any, left: Any, right: Any) -> Any:
    if isinstance(dtype, types.Float):
        return builder.fcmp_ordered("<=", left, right)
    compare = builder.icmp_signed if dtype.signed else builder.icmp_unsigned
    return compare("<=", left, right)


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _at(_: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = make_array(array)(context, builder, args[0]).data
        return builder.load(gep_inbounds(builder, data, args[1]))

    return array.dtype(array, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _ctz64(_: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _popcount64(_: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _range_mask64(_: Any, lo: Any, hi: Any, index: Any, key_lo: Any, key_hi: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        dtype = lo.dtype
        lows = _load(context, builder, lo, args[0], args[2], WORD)
        highs = _load(context, builder, hi, args[1], args[2], WORD)
        begins = _at_most(builder, dtype, lows, _splat(builder, args[4], WORD))
        ends = _at_most(builder, dtype, _splat(builder, args[3], WORD), highs)
        return builder.bitcast(builder.and_(begins, ends), ir.IntType(WORD))

    return types.uint64(lo, hi, types.intp, lo.dtype, lo.dtype), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _count_less8(_: Any, keys: Any, index: Any, key: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = _load(context, builder, keys, args[0], args[1], VECTOR)
        less = builder.not_(_at_most(builder, keys.dtype, _splat(builder, args[2], VECTOR), vector))
        mask = builder.zext(builder.bitcast(less, ir.IntType(VECTOR)), ir.IntType(64))
        return builder.ctpop(mask)

    return types.int64(keys, types.intp, keys.dtype), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _and_between8(_: Any, words: Any, out: Any, source: Any, upper: Any, lower: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b, c = (_load(context, builder, words, args[0], args[i], VECTOR) for i in (2, 3, 4))
        left = builder.and_(builder.and_(a, b), builder.not_(c))
        builder.store(left, _vector(context, builder, words, args[0], args[1], VECTOR), align=8)
        some = builder.icmp_unsigned("!=", left, ir.Constant(left.type, [0] * VECTOR))
        return builder.icmp_unsigned("!=", builder.bitcast(some, ir.IntType(VECTOR)), ir.Constant(ir.IntType(8), 0))

    return types.boolean(words, types.intp, types.intp, types.intp, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _or_between8(_: Any, words: Any, out: Any, source: Any, upper: Any, lower: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b, c = (_load(context, builder, words, args[0], args[i], VECTOR) for i in (2, 3, 4))
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


def _plain_range_mask64(lo: NDArray[Any], hi: NDArray[Any], index: int, key_lo: Any, key_hi: Any) -> np.uint64:
    """Bit j: whether [lo[index + j], hi[index + j]] and [key_lo, key_hi] overlap, for 64 j.

    The four are of one type, and both arrays must have 64 elements from `index` on.
    """
    hit = (lo[index : index + WORD] <= key_hi) & (key_lo <= hi[index : index + WORD])
    return np.uint64(int.from_bytes(np.packbits(hit, bitorder="little").tobytes(), "little"))


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


at = _plain_at if config.DISABLE_JIT else _at
ctz64 = _plain_ctz64 if config.DISABLE_JIT else _ctz64
popcount64 = _plain_popcount64 if config.DISABLE_JIT else _popcount64
range_mask64 = _plain_range_mask64 if config.DISABLE_JIT else _range_mask64
count_less8 = _plain_count_less8 if config.DISABLE_JIT else _count_less8
and_between8 = _plain_and_between8 if config.DISABLE_JIT else _and_between8
or_between8 = _plain_or_between8 if config.DISABLE_JIT else _or_between8
