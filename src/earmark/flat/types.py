"""Element types of the flat arrays that kernels read."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]
Flags = NDArray[np.bool_]
A = TypeVar("A", bound=NDArray[Any])


def frozen(array: A) -> A:
    """The same array, read-only: kernels compile once for read-only arrays, mapped files included."""
    array.flags.writeable = False
    return array
