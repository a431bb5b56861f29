"""The vector instructions of bitsets: the AND of many rows, and the comparison of an entry's codes with an event's.

and_rows(rows, offsets, count, place, acc)     acc[place:][:8] &= rows[offsets[i] + place:][:8] for the first `count` i
below64(codes, i, point, j)                    bit c: codes[i + c] < point[j + c], for 64 codes of 8 bits
equal64(codes, i, point, j)                    bit c: they are equal

Invariant: positions are inside their arrays; under EARMARK_BOUNDSCHECK=1 that is checked.
Complexity: `and_rows` O(count), less where nothing is left before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.cgutils import gep_inbounds
from numba.np.arrayobj import make_array

from earmark.flat.arrays import I64, U8, U64
from earmark.flat.machine import VECTOR, check_inside, load
from earmark.jit import BOUNDS, JIT, inlined, intrinsic

COLUMNS = 64
"""Codes that are compared at once."""


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
        some = builder.icmp_unsigned("!=", left, ir.Constant(left.type, [0] * VECTOR))
        some = builder.icmp_unsigned("!=", builder.bitcast(some, ir.IntType(VECTOR)), ir.Constant(ir.IntType(8), 0))
        builder.cbranch(builder.and_(some, builder.icmp_signed("<", i, args[2])), body, done)
        builder.position_at_end(body)
        offset = builder.load(gep_inbounds(builder, make_array(offsets)(context, builder, args[1]).data, i))
        row = load(context, builder, rows, args[0], builder.add(offset, args[3]), VECTOR)
        i.add_incoming(builder.add(i, ir.Constant(i.type, 1)), body)
        left.add_incoming(builder.and_(left, row), body)
        builder.branch(head)
        builder.position_at_end(done)
        builder.store(left, target, align=8)
        return some

    return types.boolean(rows, offsets, types.intp, types.intp, acc), generate


def _plain_and_rows(rows: U64, offsets: I64, count: int, place: int, acc: U64) -> bool:
    """And `count` rows to 8 words of acc; whether any bit is left."""
    for offset in offsets[:count].tolist():
        acc[place : place + VECTOR] &= rows[offset + place : offset + place + VECTOR]
    return bool(acc[place : place + VECTOR].any())


@inlined
def _checked_and_rows(rows: U64, offsets: I64, count: int, place: int, acc: U64) -> bool:
    check_inside(len(acc), place, VECTOR)
    for i in range(count):
        check_inside(len(rows), offsets[i] + place, VECTOR)
    return _and_rows(rows, offsets, count, place, acc)  # type: ignore[no-any-return]


def _comparison(operator: str) -> Any:
    """The intrinsic that compares 64 codes."""

    def compare(_: Any, codes: Any, index: Any, point: Any, place: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            stored = load(context, builder, codes, args[0], args[1], COLUMNS)
            asked = load(context, builder, point, args[2], args[3], COLUMNS)
            return builder.bitcast(builder.icmp_unsigned(operator, stored, asked), ir.IntType(COLUMNS))

        return types.uint64(codes, types.intp, point, types.intp), generate

    return intrinsic(compare)


_below64, _equal64 = _comparison("<"), _comparison("==")


def _plain_below64(codes: U8, index: int, point: U8, place: int) -> np.uint64:
    """Bit c: codes[index + c] < point[place + c]."""
    below = codes[index : index + COLUMNS] < point[place : place + COLUMNS]
    return np.uint64(np.packbits(below, bitorder="little").view(np.uint64)[0])


def _plain_equal64(codes: U8, index: int, point: U8, place: int) -> np.uint64:
    """Bit c: codes[index + c] == point[place + c]."""
    equal = codes[index : index + COLUMNS] == point[place : place + COLUMNS]
    return np.uint64(np.packbits(equal, bitorder="little").view(np.uint64)[0])


@inlined
def _checked_below64(codes: U8, index: int, point: U8, place: int) -> np.uint64:
    check_inside(len(codes), index, COLUMNS)
    check_inside(len(point), place, COLUMNS)
    return _below64(codes, index, point, place)  # type: ignore[no-any-return]


@inlined
def _checked_equal64(codes: U8, index: int, point: U8, place: int) -> np.uint64:
    check_inside(len(codes), index, COLUMNS)
    check_inside(len(point), place, COLUMNS)
    return _equal64(codes, index, point, place)  # type: ignore[no-any-return]


and_rows = _checked_and_rows if BOUNDS else _and_rows if JIT else _plain_and_rows
below64 = _checked_below64 if BOUNDS else _below64 if JIT else _plain_below64
equal64 = _checked_equal64 if BOUNDS else _equal64 if JIT else _plain_equal64
