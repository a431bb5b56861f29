"""Bound conditions as arrays: those that were bound one by one, and those that were bound in runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from earmark.flat.arrays import F64
from earmark.keys.bind import BoundClauses, Constraint, resolved
from earmark.keys.runs import Run
from earmark.keys.schema import Schema
from earmark.keys.sets import KeySet
from earmark.segment.arrays import EMPTY, SegmentArrays, offsets

_NO_WEIGHTS: Mapping[int, float] = {}


def run_arrays(run: Run, schema: Schema, weights: Mapping[int, Mapping[int, float]]) -> SegmentArrays:
    """The arrays of a run; `weights` are by row and by attribute."""
    made, size = run.arrays(schema), len(run.rows)
    weight = EMPTY
    if weights and any(row in weights for row in run.rows.tolist()):
        own = [weights.get(row, _NO_WEIGHTS) for row in run.rows.tolist()]
        weight = np.array([given.get(number, 1.0) for given in own for number in made.attr], np.float64)
    return SegmentArrays(
        clause_start=np.arange(size + 1, dtype=np.int32) * np.int32(len(made.clauses)),
        constraint_start=offsets(np.tile(np.array(made.clauses, np.int64), size)),
        attr=np.tile(np.array(made.attr, np.int32), size),
        accepts_null=np.tile(np.array(made.accepts_null, np.uint8), size),
        interval_start=offsets(made.counts),
        lo=made.lo,
        hi=made.hi,
        weight=weight,
        score=EMPTY,
        sequence=np.empty(0, np.int64),
    )


def arrays_of(
    rows: Sequence[BoundClauses], weights: Sequence[dict[int, float] | None], scores: Sequence[float], schema: Schema
) -> SegmentArrays:
    """The arrays of bound subscriptions. Columns that all have their default stay empty. Sequence is left empty."""
    clauses = list(chain.from_iterable(rows))
    constraints = list(chain.from_iterable(clauses))
    sets = resolved_sets(constraints, schema)
    intervals = list(chain.from_iterable(s.intervals for s in sets))
    return SegmentArrays(
        clause_start=offsets([len(row) for row in rows]),
        constraint_start=offsets([len(clause) for clause in clauses]),
        attr=np.array([number for number, _ in constraints], np.int32),
        accepts_null=np.array([s.null for s in sets], np.uint8),
        interval_start=offsets([len(s.intervals) for s in sets]),
        lo=np.array([lo for lo, _ in intervals], np.int64),
        hi=np.array([hi for _, hi in intervals], np.int64),
        weight=_weights(rows, weights),
        score=np.array(scores, np.float64) if any(scores) else EMPTY,
        sequence=np.empty(0, np.int64),
    )


def resolved_sets(constraints: Sequence[Constraint], schema: Schema) -> list[KeySet]:
    """The sets of constraints as keys; one that many subscriptions share is resolved once."""
    if not schema.strings:  # all are keys already
        return [one for _, one in constraints]  # type: ignore[misc]
    known: dict[int, KeySet] = {}
    sets = []
    for number, one in constraints:
        strings = schema.strings.get(number)
        found = one if strings is None else known.get(id(one))
        if found is None:
            assert strings is not None
            found = known[id(one)] = resolved(one, strings)
        sets.append(found)
    return sets  # type: ignore[return-value]


def _weights(rows: Sequence[BoundClauses], weights: Sequence[dict[int, float] | None]) -> F64:
    if not any(weights):
        return EMPTY
    return np.array(
        [
            given.get(number, 1.0) if given else 1.0
            for row, given in zip(rows, weights, strict=True)
            for clause in row
            for number, _ in clause
        ],
        np.float64,
    )
