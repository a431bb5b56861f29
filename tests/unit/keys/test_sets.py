"""Sets of keys against plain Python sets."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from earmark.keys.sets import Intervals, KeySet, complement, intersect, union

LOW, HIGH = -20, 20
INT64 = (-(2**63), 2**63 - 1)
pairs = st.lists(st.tuples(st.integers(LOW, HIGH), st.integers(LOW, HIGH)), max_size=6)
key_sets = st.builds(KeySet, pairs.map(union), st.booleans())


def members(intervals: Intervals) -> set[int]:
    return {key for low, high in intervals for key in range(low, high + 1)}


def check(intervals: Intervals) -> None:
    """Ascending, not empty, not touching."""
    assert all(low <= high for low, high in intervals)
    assert all(a[1] + 1 < b[0] for a, b in pairwise(intervals))


@given(pairs)
def test_union(given_pairs: list[tuple[int, int]]) -> None:
    found = union(given_pairs)
    check(found)
    assert members(found) == members(tuple(given_pairs))


@given(key_sets, key_sets)
def test_intersection_and_union(a: KeySet, b: KeySet) -> None:
    both, either = a.intersect(b), a.union(b)
    check(both.intervals)
    check(either.intervals)
    assert members(both.intervals) == members(a.intervals) & members(b.intervals)
    assert members(either.intervals) == members(a.intervals) | members(b.intervals)
    assert (both.null, either.null) == (a.null and b.null, a.null or b.null)


@given(key_sets)
def test_complement(a: KeySet) -> None:
    rest = a.complement(LOW, HIGH)
    check(rest.intervals)
    assert members(rest.intervals) == set(range(LOW, HIGH + 1)) - members(a.intervals)
    assert rest.null is not a.null
    assert rest.complement(LOW, HIGH) == a


def test_the_ends_of_int64() -> None:
    assert complement((INT64,), *INT64) == ()
    assert complement((), *INT64) == (INT64,)
    assert complement(((INT64[0], INT64[0]), (INT64[1], INT64[1])), *INT64) == ((INT64[0] + 1, INT64[1] - 1),)
    assert union([(INT64[1], INT64[1]), (INT64[0], INT64[1] - 1)]) == (INT64,)
    assert intersect((INT64,), ((INT64[1], INT64[1]),)) == ((INT64[1], INT64[1]),)
