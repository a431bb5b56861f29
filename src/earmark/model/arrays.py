"""The flat arrays every kernel reads: a table of subscriptions, and a batch of events.

A table (`TableArrays`) nests four levels by offsets; the last offset closes the level:

    slot 0: a BETWEEN 3 AND 5 AND b IN (1, 7)        slot 1: c IS NULL OR c = 2 (one attribute: one constraint)

    clause_start      0        1        2            clauses of a slot
    constraint_start  0        2        3            constraints of a clause, ascending by attribute
      attr            0    1   2
      accepts_null    0    0   1
    interval_start    0    1   3   4                 intervals of a constraint, ascending, disjoint
      lo              3  1 7   2
      hi              5  1 7   2

A batch of events (`EventArrays`) is a list of (attribute, closed key interval) per event, ascending by
attribute; a point has lo == hi; an attribute that is not listed is NULL.

Columns that nobody used have length 0 and mean their default: `weight` 1.0 (both), `score` 0.0.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]
A = TypeVar("A", bound=NDArray[Any])


class TableArrays(NamedTuple):
    """Subscriptions by slot. Invariant: offsets ascend from 0, attributes ascend inside a clause."""

    clause_start: I32
    constraint_start: I32
    attr: I32
    accepts_null: U8
    interval_start: I32
    lo: I64
    hi: I64
    weight: F64
    score: F64
    sequence: I64


class EventArrays(NamedTuple):
    """Encoded events. Invariant: attributes ascend inside an event, lo <= hi."""

    start: I64
    attr: I32
    lo: I64
    hi: I64
    weight: F64


def frozen(array: A) -> A:
    """The same array, read-only: kernels compile once for read-only arrays, mapped files included."""
    array.flags.writeable = False
    return array
