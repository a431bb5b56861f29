"""The flat arrays of subscriptions, which every index is built from and every kernel reads.

They nest four levels by offsets; the last offset closes the level:

    slot 0: a BETWEEN 3 AND 5 AND b IN (1, 7)        slot 1: c IS NULL OR c = 2 (one attribute: one constraint)

    clause_start      0        1        2            clauses of a slot
    constraint_start  0        2        3            constraints of a clause, ascending by attribute
      attr            0    1   2
      accepts_null    0    0   1
    interval_start    0    1   3   4                 intervals of a constraint, ascending, disjoint
      lo              3  1 7   2
      hi              5  1 7   2

Columns that nobody used have length 0 and mean their default: `weight` 1.0, `score` 0.0.
"""

from __future__ import annotations

from typing import NamedTuple

from earmark.flat.types import F64, I32, I64, U8


class SegmentArrays(NamedTuple):
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
