"""Conditions that are bound once per process give the arrays that binding them anew gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.errors import SubscriptionError
from earmark.keys.schema import Schema
from earmark.segment import shared
from earmark.segment.builder import prepare
from earmark.segment.segment import Segment
from earmark.segment.shared import bounds_of, prepare_shared

PLAIN = ["a < 3", "b = 7 AND a >= -2.5", "c BETWEEN 1 AND 9 AND a > 0", "a = 1", "b <= 1e3 AND c > 2 AND a < 9"]
OTHERS = [
    "a < 3 OR b = 1",
    "a IN (1, 2)",
    "a IS NULL",
    "a > 3 AND a < 1",
    "b BETWEEN 5 AND 2",
    "a = 99999999999999999999",
]
LEARNED = ["a = 99999999999999999999", "d = 1", "s = 'x'", "TRUE"]


def schema_of(*conditions: str) -> Schema:
    return prepare(Schema("UTC"), [*enumerate(conditions)]).segment(0).schema


def same(one: Segment, other: Segment) -> bool:
    arrays = all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(one.arrays, other.arrays, strict=True))
    return arrays and one.asked[0] == other.asked[0] and [*one.schema] == [*other.schema]


@given(
    st.lists(st.sampled_from(PLAIN + OTHERS + LEARNED), min_size=1, max_size=30),
    st.permutations(["a < 1", "b < 1", "c < 1", "d IS NULL"]).flatmap(
        lambda taught: st.integers(0, len(taught)).map(lambda count: taught[:count])
    ),
)
def test_equal_to_binding_anew(conditions: list[str], taught: list[str]) -> None:
    schema, rows = schema_of(*taught), [*enumerate(conditions)]
    assert same(prepare_shared(schema, rows).segment(5), prepare(schema, rows).segment(5))


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "MOST_TEXTS", 10)
    for value in range(25):
        assert bounds_of(f"a < {value}") is not None
        assert len(shared._known) <= 10 or value == 0  # others may have been remembered before
    assert bounds_of("a < 3 AND " + "b = 1 AND " * 200 + "c = 2") is None
    assert all(len(text) <= shared.LONGEST_TEXT for text in shared._known)


def test_a_malformed_condition_is_named_as_ever() -> None:
    schema, rows = schema_of("a < 1"), [(1, "a < 1"), (2, "a <")]
    with pytest.raises(SubscriptionError) as expected:
        prepare(schema, rows)
    with pytest.raises(SubscriptionError) as problem:
        prepare_shared(schema, rows)
    assert str(problem.value) == str(expected.value)
