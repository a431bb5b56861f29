"""Windows in which no life span starts or ends, against looking at every moment."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.flat import bits
from earmark.keys.schema import INT64_MAX, INT64_MIN
from earmark.segment import living
from earmark.segment.living import Living, window_around

MOMENTS = range(-4, 12)
span = st.tuples(
    st.sampled_from([INT64_MIN, *range(0, 8)]), st.sampled_from([INT64_MAX, *range(0, 8)])
).filter(lambda one: one[0] <= one[1])  # fmt: skip


def columns(spans: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    first, last = np.array(spans, np.int64).reshape(-1, 2).T
    return np.ascontiguousarray(first), np.ascontiguousarray(last)


@given(spans=st.lists(span, max_size=140))
def test_a_window_ends_where_something_changes(spans: list[tuple[int, int]]) -> None:
    first, last = columns(spans)
    alive = {t: [slot for slot, (a, b) in enumerate(spans) if a <= t <= b] for t in MOMENTS}
    for moment in MOMENTS:
        window = window_around(moment, first, last)
        assert window.first <= moment <= window.last
        for t in MOMENTS:
            if window.first <= t <= window.last:
                assert bits.to_slots(window.slots).tolist() == alive[t]
        for outside in (window.first - 1, window.last + 1):  # a moment at which one starts, or none lives any more
            if outside in alive:
                changed = {a for a, _ in spans} | {b + 1 for _, b in spans}
                assert {window.first, window.last + 1} & changed


@pytest.mark.parametrize("moment", [INT64_MIN, INT64_MAX])
def test_the_ends_of_time(moment: int) -> None:
    first, last = columns([(INT64_MIN, INT64_MAX), (INT64_MIN, 3), (5, INT64_MAX), (INT64_MAX, INT64_MAX)])
    window = window_around(moment, first, last)
    assert window.first <= moment <= window.last
    assert bits.to_slots(window.slots).tolist() == ([0, 1] if moment < 0 else [0, 2, 3])


def test_it_is_made_when_tests_have_cost_as_much() -> None:
    first, last = columns([(0, 9)] * 80 + [(5, 20)] * 80)
    known = Living(first, last)
    assert known.between(2, 2) is None
    known.count_tests(160 // living.SLOTS_PER_TEST)
    made = known.between(2, 4)
    assert made is not None
    assert bits.count(made) == 80
    assert known.between(3, 3) is made
    assert known.between(3, 5) is None, "one half starts in between"
    assert known.between(6, 6) is None, "another window, and nothing was tested since"
