"""NamedTuples of arrays laid out in memory as compiled code reads them: a call passes one address, not thirty arrays.

Numba takes an array from Python apart at every call, 0.1 to 0.3 µs each. What a search reads does not change, so it is
taken apart once:

    Pinned(Searched(table, arrays))      words:  0 0 nitems itemsize data shape stride | 0 0 nitems ... | 17 | ...
    kernel(address)                      unpinned(address) is the NamedTuple again, in compiled code

Invariant: the words are what Numba's data model has for the type; whatever they point at lives as long as the `Pinned`.
No reference is counted through them, so compiled code must not keep an array that it got from one.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.registry import cpu_target
from numba.extending import NativeValue, models, register_model, unbox

from earmark.flat.arrays import I64
from earmark.jit import intrinsic

ARRAY_WORDS = 7
"""Words of an array of one dimension: two for who owns it, number of items, size of an item, data, shape, stride."""
CONTIGUOUS, DECISIVE = 0x0001, 0x0500
"""Flags of numpy: in C's order; aligned and writable, which types depend on."""
ITEMS, DATA, SHAPE = 2, 4, 5
"""Which of them say how long it is and where it is."""


class PinnedType(types.Type):  # type: ignore[misc]
    """The address of a value of another type."""

    def __init__(self, value: Any) -> None:
        self.value = value
        super().__init__(name=f"Pinned({value})")


@register_model(PinnedType)
class _PinnedModel(models.OpaqueModel):  # type: ignore[misc]
    """A pointer."""


@unbox(PinnedType)  # type: ignore[untyped-decorator]
def _unbox(typ: Any, obj: Any, c: Any) -> Any:
    return NativeValue(c.pyapi.long_as_voidptr(obj))


def _codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    pointer = builder.bitcast(arguments[0], context.get_data_type(signature.return_type).as_pointer())
    return context.unpack_value(builder, signature.return_type, pointer)


@intrinsic
def unpinned(typing_context: Any, address: Any) -> Any:
    """The value at an address."""
    return address.value(address), _codegen


class Pinned:
    """Arrays, numbers, or a NamedTuple of them and of such NamedTuples, in memory."""

    __slots__ = ("address", "type", "value", "words")

    def __init__(self, value: Any) -> None:
        self.value = value
        words: list[int] = []
        self.type = _type_of(value, words)
        self.words: I64 = np.array(words, np.int64)
        self.address = self.words.ctypes.data


_types: dict[Any, Any] = {}


def _type_of(value: Any, words: list[int]) -> Any:
    """The type of the address of a value, whose words are appended."""
    key = _noted(value, words)
    known = _types.get(key)
    if known is None:
        inner = numba.typeof(value)
        context = cpu_target.target_context
        if context.get_abi_sizeof(context.get_data_type(inner)) != len(words) * 8:
            raise TypeError(f"expected a value that compiled code has in words of 8 bytes, got a {inner}")
        known = _types[key] = PinnedType(inner)
    return known


def _noted(value: Any, words: list[int]) -> Any:
    """What decides a value's type, hashable; its words are appended."""
    if isinstance(value, tuple):
        return type(value), *[_noted(part, words) for part in value]
    if isinstance(value, np.ndarray):
        flags = value.flags.num
        if not flags & CONTIGUOUS:
            raise TypeError(f"expected an array without gaps, got one of shape {value.shape}, strides {value.strides}")
        words += words_of(value)
        return value.dtype.str, value.ndim, flags & DECISIVE
    if type(value) not in (int, bool, float):
        raise TypeError(f"expected an array, a number or a tuple of them, got {value!r}")
    words.append(_bits(_double(value))[0] if type(value) is float else int(value))
    return type(value)


_double, _bits = Struct("<d").pack, Struct("<q").unpack


def words_of(array: Any) -> tuple[int, ...]:
    """An array as compiled code reads it."""
    return 0, 0, array.size, array.itemsize, array.__array_interface__["data"][0], *array.shape, *array.strides
