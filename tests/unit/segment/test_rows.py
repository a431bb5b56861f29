"""Blocks of encoded subscriptions: built, gathered, joined, and checked before kernels see them."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from earmark.keys.bind import Binder
from earmark.keys.schema import Draft, Schema
from earmark.language.parse import parse_clauses
from earmark.segment.arrays import SegmentArrays, check_arrays, concat, gather, offsets, spread
from earmark.segment.bound import arrays_of

CONDITIONS = (
    "a > 3 AND b IN (1, 3, 5)",
    "FALSE",
    "TRUE",
    "a != 3 OR b IS NULL AND c = 1",
    "c < 0 AND c > 0",
    "b IS NOT NULL",
)


def block(conditions: tuple[str, ...] = CONDITIONS, weights: Any = None, scores: Any = None) -> SegmentArrays:
    schema = Schema()
    schema.declare(dict.fromkeys("abc", "integer"))
    binder = Binder(Draft(schema))
    rows = [binder.bind(parse_clauses(text), i) for i, text in enumerate(conditions)]
    made = arrays_of(rows, weights or [None] * len(rows), scores or [0.0] * len(rows), schema)
    return made._replace(sequence=np.arange(len(rows)))


def as_lists(table: SegmentArrays) -> list[Any]:
    """Slot by slot, with every offset resolved."""
    made = []
    for slot in range(len(table.sequence)):
        clauses = []
        for clause in range(table.clause_start[slot], table.clause_start[slot + 1]):
            clauses.append(
                [
                    (
                        int(table.attr[c]),
                        bool(table.accepts_null[c]),
                        float(table.weight[c]) if len(table.weight) else 1.0,
                        [(int(table.lo[i]), int(table.hi[i])) for i in range(*table.interval_start[c : c + 2])],
                    )
                    for c in range(*table.constraint_start[clause : clause + 2])
                ]
            )
        made.append((int(table.sequence[slot]), float(table.score[slot]) if len(table.score) else 0.0, clauses))
    return made


def test_arrays_of() -> None:
    low, high = -(2**63), 2**63 - 1
    made = block(weights=[{0: 2.0}, None, None, {1: 3.0}, None, None], scores=[0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    check_arrays(made, 3)
    assert as_lists(made) == [
        (0, 0.0, [[(0, False, 2.0, [(4, high)]), (1, False, 1.0, [(1, 1), (3, 3), (5, 5)])]]),
        (1, 1.0, []),
        (2, 0.0, [[]]),
        (3, 0.0, [[(0, False, 1.0, [(low, 2), (4, high)])], [(1, True, 3.0, []), (2, False, 1.0, [(1, 1)])]]),
        (4, 0.0, [[(2, False, 1.0, [])]]),
        (5, 0.0, [[(1, False, 1.0, [(low, high)])]]),
    ]


def test_columns_of_defaults_stay_empty() -> None:
    made = block(weights=[{0: 1.0}] + [None] * 5)
    assert len(block().weight) == len(made.score) == 0


@pytest.mark.parametrize("seed", range(5))
def test_gather_and_concat(seed: int) -> None:
    rng = Random(seed)
    plain, heavy = block(), block(weights=[{0: 2.0, 1: 3.0}] * 6, scores=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    heavy = heavy._replace(sequence=heavy.sequence + 6)
    for a, b in ((plain, heavy), (heavy, plain)):
        joined = concat(a, b)
        check_arrays(joined, 3)
        assert as_lists(joined) == as_lists(a) + as_lists(b)
        chosen = rng.choices(range(12), k=rng.randrange(20))
        picked = gather(joined, np.array(chosen, np.int64))
        assert as_lists(picked) == [as_lists(joined)[slot] for slot in chosen]
    nothing = gather(plain, np.empty(0, np.int64))
    check_arrays(nothing, 3)
    assert as_lists(concat(nothing, plain)) == as_lists(concat(plain, nothing)) == as_lists(plain)


def test_offsets_and_spread() -> None:
    assert offsets([]).tolist() == [0]
    assert offsets([2, 0, 3]).tolist() == [0, 2, 2, 5]
    start, positions = spread(offsets([2, 0, 3]), np.array([2, 1, 0, 2]))
    assert start.tolist() == [0, 3, 3, 5, 8]
    assert positions.tolist() == [2, 3, 4, 0, 1, 2, 3, 4]


def changed(name: str, position: int, value: Any) -> SegmentArrays:
    made = block(weights=[{0: 2.0}] * 6, scores=[1.0] * 6)
    column = getattr(made, name).copy()
    column[position] = value
    return made._replace(**{name: column})


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (("clause_start", 0, 1), "clause_start does not start at 0"),
        (("clause_start", 1, 3), "clause_start descends"),
        (("clause_start", -1, 99), "constraint_start does not start at 0 or has the wrong length"),
        (("constraint_start", -1, 99), "interval_start does not start"),
        (("interval_start", -1, 99), "lo and hi do not fit"),
        (("interval_start", 1, 9), "interval_start descends"),
        (("attr", 0, 3), "an attribute number is unknown"),
        (("attr", 0, -1), "an attribute number is unknown"),
        (("attr", 1, 0), "attributes of a clause do not ascend"),
        (("lo", 1, 99), "an interval ends before it begins"),
        (("hi", 1, 3), "intervals of a constraint do not ascend"),
        (("accepts_null", 0, 2), "accepts_null is neither 0 nor 1"),
        (("weight", 0, -1.0), "a weight is negative"),
        (("weight", 0, np.inf), "a weight is negative or not finite"),
        (("score", 0, np.nan), "a score is not finite"),
    ],
)
def test_check_names_what_is_broken(broken: tuple[str, int, Any], reason: str) -> None:
    with pytest.raises(AssertionError, match=reason):
        check_arrays(changed(*broken), 3)


def test_check_finds_columns_of_odd_length() -> None:
    made = block()
    for name, reason in (
        ("weight", "weight has a length"),
        ("score", "score has a length"),
        ("attr", "attr and accepts_null"),
    ):
        with pytest.raises(AssertionError, match=reason):
            check_arrays(made._replace(**{name: np.ones(1, np.int32)}), 3)
