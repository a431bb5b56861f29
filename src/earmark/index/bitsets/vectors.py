"""The vector instructions of bitsets: the AND of many rows, and the comparison of an entry's codes with an event's.

and_rows(rows, offsets, count, place, acc)     acc[place:][:8] &= rows[offsets[i] + place:][:8] for the first `count` i;
                                               bit w of what it returns: word w of these is not zero
below32(codes, i, point, j)                    bit c: codes[i + c] < point[j + c], for 32 codes of 16 bits
equal32(codes, i, point, j)                    bit c: they are equal
prefetch(array, i)                             a hint that array[i] will be read soon

Invariant: positions are inside their arrays; under EARMARK_BOUNDSCHECK=1 that is checked.
Complexity: `and_rows` O(count).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.cgutils import gep_inbounds, get_or_insert_function
from numba.np.arrayobj import make_array
from numpy.typing import NDArray

from earmark.flat.arrays import I64, U64
from earmark.flat.machine import VECTOR, check_inside, load
from earmark.jit import BOUNDS, JIT, inlined, intrinsic

COLUMNS = 32
"""Codes that are compared at once."""
U16 = NDArray[np.uint16]


@intrinsic
def _and_rows(_: Any, rows: Any, offsets: Any, count: Any, place: Any, acc: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = make_array(acc)(context, builder, args[4]).data
        target = builder.bitcast(
            gep_inbounds(builder, data, args[3]), ir.VectorType(ir.IntType(64), VECTOR).as_pointer()
        )
        first, before = builder.load(target, align=8), builder.block
        head, body, done = (builder.append_basic_block(name) for name in ("rows", "row", "anded"))
        builder.branch(head)
        builder.position_at_end(head)
        i, left = builder.phi(args[2].type), builder.phi(first.type)
        i.add_incoming(ir.Constant(i.type, 0), before)
        left.add_incoming(first, before)
        builder.cbranch(builder.icmp_signed("<", i, args[2]), body, done)
        builder.position_at_end(body)
        offset = builder.load(gep_inbounds(builder, make_array(offsets)(context, builder, args[1]).data, i))
        row = load(context, builder, rows, args[0], builder.add(offset, args[3]), VECTOR)
        i.add_incoming(builder.add(i, ir.Constant(i.type, 1)), body)
        left.add_incoming(builder.and_(left, row), body)
        builder.branch(head)
        builder.position_at_end(done)
        builder.store(left, target, align=8)
        some = builder.icmp_unsigned("!=", left, ir.Constant(left.type, [0] * VECTOR))
        return builder.zext(builder.bitcast(some, ir.IntType(VECTOR)), ir.IntType(64))

    return types.uint64(rows, offsets, types.intp, types.intp, acc), generate


def _plain_and_rows(rows: U64, offsets: I64, count: int, place: int, acc: U64) -> np.uint64:
    """And `count` rows to 8 words of acc; bit w: word w is not zero."""
    for offset in offsets[:count].tolist():
        acc[place : place + VECTOR] &= rows[offset + place : offset + place + VECTOR]
    return np.uint64(np.packbits(acc[place : place + VECTOR] != 0, bitorder="little")[0])


@inlined
def _checked_and_rows(rows: U64, offsets: I64, count: int, place: int, acc: U64) -> np.uint64:
    check_inside(len(acc), place, VECTOR)
    for i in range(count):
        check_inside(len(rows), offsets[i] + place, VECTOR)
    return _and_rows(rows, offsets, count, place, acc)  # type: ignore[no-any-return]


def _comparison(operator: str) -> Any:
    """The intrinsic that compares 32 codes."""

    def compare(_: Any, codes: Any, index: Any, point: Any, place: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            stored = load(context, builder, codes, args[0], args[1], COLUMNS)
            asked = load(context, builder, point, args[2], args[3], COLUMNS)
            mask = builder.bitcast(builder.icmp_unsigned(operator, stored, asked), ir.IntType(COLUMNS))
            return builder.zext(mask, ir.IntType(64))

        return types.uint64(codes, types.intp, point, types.intp), generate

    return intrinsic(compare)


_below32, _equal32 = _comparison("<"), _comparison("==")


def _plain_below32(codes: U16, index: int, point: U16, place: int) -> np.uint64:
    """Bit c: codes[index + c] < point[place + c]."""
    below = codes[index : index + COLUMNS] < point[place : place + COLUMNS]
    return np.uint64(np.packbits(below, bitorder="little").view(np.uint32)[0])


def _plain_equal32(codes: U16, index: int, point: U16, place: int) -> np.uint64:
    """Bit c: codes[index + c] == point[place + c]."""
    equal = codes[index : index + COLUMNS] == point[place : place + COLUMNS]
    return np.uint64(np.packbits(equal, bitorder="little").view(np.uint32)[0])


@inlined
def _checked_below32(codes: U16, index: int, point: U16, place: int) -> np.uint64:
    check_inside(len(codes), index, COLUMNS)
    check_inside(len(point), place, COLUMNS)
    return _below32(codes, index, point, place)  # type: ignore[no-any-return]


@inlined
def _checked_equal32(codes: U16, index: int, point: U16, place: int) -> np.uint64:
    check_inside(len(codes), index, COLUMNS)
    check_inside(len(point), place, COLUMNS)
    return _equal32(codes, index, point, place)  # type: ignore[no-any-return]


@intrinsic
def _prefetch(_: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = ir.IntType(32)
        byte = ir.IntType(8).as_pointer()
        function = get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [byte, number, number, number]), "llvm.prefetch.p0i8"
        )
        place = builder.gep(make_array(array)(context, builder, args[0]).data, [args[1]])  # perhaps past the end
        builder.call(function, [builder.bitcast(place, byte), *(ir.Constant(number, hint) for hint in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


def _plain_prefetch(array: NDArray[Any], index: int) -> None:
    """Nothing."""


and_rows = _checked_and_rows if BOUNDS else _and_rows if JIT else _plain_and_rows
below32 = _checked_below32 if BOUNDS else _below32 if JIT else _plain_below32
equal32 = _checked_equal32 if BOUNDS else _equal32 if JIT else _plain_equal32
prefetch = _prefetch if JIT else _plain_prefetch
