"""Many arrays as one argument: what makes a single command cheap.

Calling a kernel costs some 0.1 to 0.3 µs for each array it is given, whether it uses it or not; a covering query needs
thirty, and itself takes two microseconds. So the arrays of an index are passed as one array of handles, made again when
one of them is replaced, and the kernel makes its NamedTuples from them, which costs next to nothing:

    handles   address, length,   address, length,   …        one pair per array, in the order of the NamedTuples
              tree.column        tree.value

The caller keeps the arrays alive. Arrays that kernels make from handles can be written to; those of the
table are only read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.cgutils import gep_inbounds
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype
from numpy.typing import NDArray

from earmark.flat.arrays import U64
from earmark.jit import JIT, intrinsic
from earmark.segment.arrays import SegmentArrays

T = TypeVar("T")


def handles(arrays: Iterable[NDArray[Any]]) -> U64:
    """Addresses and lengths of arrays that are contiguous."""
    pairs = []
    for array in arrays:
        assert array.ndim == 1 and array.flags.c_contiguous, "a handle needs a plain array"
        pairs += [array.ctypes.data, len(array)]
    return np.array(pairs, np.uint64)


def unpacker(group: Callable[..., T], *dtypes: str) -> Callable[[U64, int], T]:
    """A function for kernels: the NamedTuple whose arrays, of these types, begin at a handle."""
    made: Callable[[U64, int], T] = _compiled(group, dtypes) if JIT else _plain(group, dtypes)
    return made


def _compiled(group: Any, dtypes: tuple[str, ...]) -> Any:
    arrays = [types.Array(from_dtype(np.dtype(name)), 1, "C") for name in dtypes]
    made = types.NamedTuple(arrays, group)

    @intrinsic
    def unpack(_: Any, pairs: Any, first: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = make_array(signature.args[0])(context, builder, args[0]).data
            words = []
            for i in range(2 * len(arrays)):
                place = builder.add(builder.mul(args[1], ir.Constant(args[1].type, 2)), ir.Constant(args[1].type, i))
                words.append(builder.load(gep_inbounds(builder, data, place)))
            values = []
            for i, kind in enumerate(arrays):
                array = make_array(kind)(context, builder)
                size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
                item = context.get_constant(types.intp, size)
                pointer = builder.inttoptr(words[2 * i], context.get_data_type(kind.dtype).as_pointer())
                populate_array(array, pointer, (words[2 * i + 1],), (item,), item, None)
                values.append(array._getvalue())
            return context.make_tuple(builder, made, values)

        return made(pairs, types.intp), generate

    return unpack


def _plain(group: Any, dtypes: tuple[str, ...]) -> Any:
    import ctypes

    def unpack(pairs: U64, first: int) -> Any:
        arrays = []
        for i, name in enumerate(dtypes, first):
            address, length = int(pairs[2 * i]), int(pairs[2 * i + 1])
            raw: Any = (ctypes.c_char * (length * np.dtype(name).itemsize)).from_address(address) if length else b""
            arrays.append(np.frombuffer(raw, name))
        return group(*arrays)

    return unpack


TABLE_ARRAYS = len(SegmentArrays._fields)
table_at = unpacker(SegmentArrays, "i4", "i4", "i4", "u1", "i4", "i8", "i8", "f8", "f8", "i8")
