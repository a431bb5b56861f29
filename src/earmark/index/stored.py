"""NamedTuples of flat arrays: the element types that their fields declare, and how stored arrays become one.

a NamedTuple Lists of start: I64, slot: I32
element_types(Lists)                                            {"start": int64, "slot": int32}
from_stored(Lists, {"start": …, "slot": …, "other": …})         Lists(start, slot)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from earmark.errors import require

T = TypeVar("T", bound=tuple[NDArray[Any], ...])


@cache
def element_types(kind: Any) -> dict[str, np.dtype[Any]]:
    """Name -> element type of every array of such a NamedTuple."""
    return {name: np.dtype(_element(hint)) for name, hint in get_type_hints(kind).items()}


def _element(hint: Any) -> Any:
    """The numpy type at the bottom of NDArray[...], which numpy builds in one way or another."""
    while not (isinstance(hint, type) and issubclass(hint, np.generic)):
        hint = get_args(hint)[-1]
    return hint


def check_types(arrays: tuple[NDArray[Any], ...]) -> None:
    """Raise AssertionError, naming the array, unless each is flat, without gaps, and of the type of its field."""
    for array, (name, dtype) in zip(arrays, element_types(type(arrays)).items(), strict=True):
        flat = isinstance(array, np.ndarray) and array.ndim == 1 and array.flags.c_contiguous
        require(flat and array.dtype == dtype, f"{name} is not a row of {dtype}")


def from_stored(kind: type[T], stored: Mapping[str, Any]) -> T:
    """The stored arrays of these names, perhaps mapped; AssertionError where one is missing or of another type."""
    fields = element_types(kind)
    missing = [name for name in fields if name not in stored]
    require(not missing, f"arrays are missing: {', '.join(missing)}")
    made = kind(*(np.asarray(stored[name]) for name in fields))
    check_types(made)
    return made
